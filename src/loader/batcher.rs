//! Record batches of any size → groups of an exact number of rows.

use std::collections::VecDeque;

use arrow::array::RecordBatch;

/// Cuts a run of record batches into groups of exactly `size` rows; the last may be shorter.
///
/// A group is a list of slices, none copied here: the conversion writes each straight into its place.
#[derive(Debug)]
pub(crate) struct Batcher {
    size: usize,
    waiting: VecDeque<RecordBatch>,
    rows: usize,
}

impl Batcher {
    /// `size` is at least 1.
    pub(crate) fn new(size: usize) -> Self {
        Batcher { size: size.max(1), waiting: VecDeque::new(), rows: 0 }
    }

    /// Another size from here on, at least 1, for the rows that wait already as well.
    pub(crate) fn set_size(&mut self, size: usize) {
        self.size = size.max(1);
    }

    /// Rows that wait.
    #[cfg(feature = "datafusion")]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        if batch.num_rows() > 0 {
            self.waiting.push_back(batch);
        }
    }

    /// A full group, if there are rows enough.
    pub(crate) fn next_full(&mut self) -> Option<Vec<RecordBatch>> {
        (self.rows >= self.size).then(|| self.take(self.size))
    }

    /// The rows that are left at the end, if any.
    pub(crate) fn rest(&mut self) -> Option<Vec<RecordBatch>> {
        (self.rows > 0).then(|| self.take(self.rows.min(self.size)))
    }

    /// The next `rows` rows, or all there are.
    pub(super) fn take(&mut self, rows: usize) -> Vec<RecordBatch> {
        let mut group = Vec::new();
        let mut missing = rows;
        while missing > 0
            && let Some(batch) = self.waiting.pop_front()
        {
            let taken = missing.min(batch.num_rows());
            if taken < batch.num_rows() {
                self.waiting.push_front(batch.slice(taken, batch.num_rows() - taken));
                group.push(batch.slice(0, taken));
            } else {
                group.push(batch);
            }
            missing -= taken;
        }
        self.rows -= rows - missing;
        group
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
        RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from_iter_values(rows)) as Arc<dyn Array>)]).unwrap()
    }

    fn values(group: &[RecordBatch]) -> Vec<i64> {
        group.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    #[test]
    fn groups_are_exact_and_in_order() {
        for size in 1..12 {
            let mut batcher = Batcher::new(size);
            let mut groups = Vec::new();
            for rows in [0..3, 3..3, 3..10, 10..11, 11..20] {
                batcher.push(batch(rows));
                while let Some(group) = batcher.next_full() {
                    groups.push(values(&group));
                }
            }
            assert!(groups.iter().all(|group| group.len() == size));
            groups.extend(batcher.rest().map(|group| values(&group)));
            assert!(batcher.rest().is_none());
            assert_eq!(groups.concat(), (0..20).collect::<Vec<_>>());
        }
    }
}
