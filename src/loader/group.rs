//! Rows of similar length put together in a batch, so that less of it is padding.

use std::collections::VecDeque;

use arrow::array::RecordBatch;

use super::cut::{Costs, Measure};
use super::window::{Purpose, Row, Window, Windows};
use crate::error::Result;

/// How batches are cut from rows that are sorted by length.
pub(super) enum GroupSize {
    Rows(usize),
    Elements { limit: usize, measure: Measure },
}

/// Sorts each window of rows by length, cuts it into batches, and gives these in random order.
///
/// The order depends on seed, epoch, and the window's number. Rows of one length stay in their order.
pub(super) struct Grouped {
    size: GroupSize,
    seed: u64,
    epoch: u64,
    measure: Measure,
    windows: Windows,
    /// Of the rows that wait: what they are sorted by, and what they cost.
    lengths: VecDeque<usize>,
    costs: VecDeque<usize>,
    /// Windows cut so far.
    number: u64,
    open: Option<(Window, VecDeque<Vec<Row>>)>,
    /// The epoch's last batch, once no more rows come.
    last: Option<RecordBatch>,
}

impl Grouped {
    /// Goes on after `number` windows. Where batches are measured in rows, a window is of whole ones.
    pub(super) fn new(size: GroupSize, measure: Measure, window: usize, seed: u64, epoch: u64, number: u64) -> Self {
        let windows = Windows::new(window);
        let (lengths, costs) = (VecDeque::new(), VecDeque::new());
        Grouped { size, seed, epoch, measure, windows, lengths, costs, number, open: None, last: None }
    }

    pub(super) fn push(&mut self, rows: RecordBatch) -> Result<()> {
        self.lengths.extend((self.measure)(&rows)?);
        if let GroupSize::Elements { measure, .. } = &self.size {
            self.costs.extend(measure(&rows)?);
        }
        self.windows.push(rows);
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.windows.bytes() + self.open.as_ref().map_or(0, |(window, _)| window.bytes)
    }

    pub(super) fn next_full(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        if self.open.is_none()
            && let Some(window) = self.windows.full()
        {
            let (mut batches, short) = self.cut(&window);
            batches.extend(short);
            self.open = Some((window, batches.into()));
        }
        let Some((window, batches)) = &mut self.open else { return Ok(None) };
        let batch = batches.pop_front().map(|rows| window.pick(&rows)).transpose()?;
        if batches.is_empty() {
            self.open = None;
        }
        Ok(batch.map(|batch| vec![batch]))
    }

    /// Cuts the last window. The short batch is the epoch's last; without a short one, any is.
    pub(super) fn end(&mut self) -> Result<()> {
        let Some(window) = self.windows.rest() else { return Ok(()) };
        let (mut batches, short) = self.cut(&window);
        let last = match (&self.size, short) {
            (GroupSize::Rows(_), short) => short,
            (GroupSize::Elements { .. }, _) => batches.pop(),
        };
        self.last = last.map(|rows| window.pick(&rows)).transpose()?;
        self.open = (!batches.is_empty()).then(|| (window, batches.into()));
        Ok(())
    }

    pub(super) fn rest(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        Ok(self.last.take().map(|batch| vec![batch]))
    }

    /// The batches of a window in random order, and the one that is short of rows.
    fn cut(&mut self, window: &Window) -> (Vec<Vec<Row>>, Option<Vec<Row>>) {
        let rows = window.rows();
        let lengths: Vec<usize> = self.lengths.drain(..rows.len()).collect();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|row| lengths[*row]);
        let sorted: Vec<Row> = order.iter().map(|row| rows[*row]).collect();
        let mut random = Purpose::Groups.random(self.seed, self.epoch, self.number);
        self.number += 1;
        let mut short = None;
        let mut batches: Vec<Vec<Row>> = match &self.size {
            GroupSize::Rows(size) => {
                // Were the short one cut from the end, the longest rows would be those that `drop_last` leaves out.
                let (full, over) = (sorted.len() / size, sorted.len() % size);
                let (before, after) = sorted.split_at(if over > 0 { random.below(full + 1) * size } else { 0 });
                let (of_short, after) = after.split_at(over);
                short = (over > 0).then(|| of_short.to_vec());
                before.chunks(*size).chain(after.chunks(*size)).map(<[Row]>::to_vec).collect()
            }
            GroupSize::Elements { limit, .. } => {
                let costs: Vec<usize> = self.costs.drain(..rows.len()).collect();
                let mut counts = Costs::new(*limit);
                counts.extend(order.iter().map(|row| costs[*row]));
                let mut left = sorted.as_slice();
                let mut batches = Vec::new();
                while let Some(count) = counts.next_full().or_else(|| counts.rest()) {
                    let (batch, after) = left.split_at(count);
                    batches.push(batch.to_vec());
                    left = after;
                }
                batches
            }
        };
        random.shuffle(&mut batches);
        (batches, short)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::loader::cut::Cut;

    /// Rows whose number is their length, modulo 10.
    fn batches(size: fn(Measure) -> GroupSize, total: i64, window: usize, chunk: usize) -> (Vec<Vec<i64>>, bool) {
        let measure = || -> Measure {
            Box::new(|rows| {
                let ids = rows.column(0).as_primitive::<Int64Type>();
                Ok(ids.values().iter().map(|id| (id % 10) as usize).collect())
            })
        };
        let mut cut = Cut::Grouped(Grouped::new(size(measure()), measure(), window, 5, 6, 0));
        let mut seen = Vec::new();
        let ids = |group: Vec<RecordBatch>| group[0].column(0).as_primitive::<Int64Type>().values().to_vec();
        for start in (0..total).step_by(chunk) {
            let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(start..total.min(start + chunk as i64)));
            cut.push(RecordBatch::try_from_iter([("id", rows)]).unwrap()).unwrap();
            while let Some(group) = cut.next_full().unwrap() {
                seen.push(ids(group));
            }
        }
        cut.end().unwrap();
        while let Some(group) = cut.next_full().unwrap() {
            seen.push(ids(group));
        }
        let rest = cut.rest().unwrap().map(ids);
        let has_rest = rest.is_some();
        seen.extend(rest);
        assert_eq!(cut.bytes(), 0);
        (seen, has_rest)
    }

    #[test]
    fn batches_are_of_similar_length_and_hold_all_rows() {
        let rows = |_| GroupSize::Rows(10);
        let (batches_of_rows, rest) = batches(rows, 237, 100, 13);
        assert!(rest && batches_of_rows.len() == 24);
        assert!(batches_of_rows[..23].iter().all(|batch| batch.len() == 10));
        // Of 100 rows, ten are of each length.
        assert!(batches_of_rows[..20].iter().all(|batch| batch.iter().all(|id| id % 10 == batch[0] % 10)));
        let firsts: Vec<_> = batches_of_rows[..10].iter().map(|batch| batch[0] % 10).collect();
        assert!(!firsts.is_sorted());
        // Whatever the chunks.
        assert_eq!(batches(rows, 237, 100, 237).0, batches_of_rows);
        assert!(!batches(rows, 200, 100, 7).1);

        let elements = |measure| GroupSize::Elements { limit: 30, measure };
        let (batches_of_elements, _) = batches(elements, 237, 100, 13);
        assert_eq!(batches(elements, 237, 100, 50).0, batches_of_elements);
        for batch in &batches_of_elements {
            assert!(batch.iter().map(|id| (id % 10).max(1)).sum::<i64>() <= 30, "{batch:?}");
        }
        for seen in [batches_of_rows, batches_of_elements] {
            let mut all = seen.concat();
            all.sort_unstable();
            assert_eq!(all, (0..237).collect::<Vec<_>>());
        }
    }
}
