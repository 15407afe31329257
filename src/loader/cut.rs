//! Where one batch ends and the next begins.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};

use super::Batcher;
use crate::error::{Error, Result};

/// What batches are measured by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BatchSize {
    Rows(usize),
    /// As many rows as have this many elements in the list column.
    Elements {
        column: String,
        limit: usize,
    },
}

/// Cuts rows into batches of that size.
#[derive(Debug)]
pub(super) enum Cut {
    Rows(Batcher),
    Elements(ElementBatcher),
}

impl Cut {
    pub(super) fn try_new(size: &BatchSize, schema: &SchemaRef) -> Result<Self> {
        Ok(match size {
            BatchSize::Rows(rows) => Cut::Rows(Batcher::new(*rows)),
            BatchSize::Elements { column, limit } => Cut::Elements(ElementBatcher::try_new(column, *limit, schema)?),
        })
    }

    pub(super) fn push(&mut self, batch: RecordBatch) {
        match self {
            Cut::Rows(batcher) => batcher.push(batch),
            Cut::Elements(batcher) => batcher.push(batch),
        }
    }

    pub(super) fn next_full(&mut self) -> Option<Vec<RecordBatch>> {
        match self {
            Cut::Rows(batcher) => batcher.next_full(),
            Cut::Elements(batcher) => batcher.next_full(),
        }
    }

    /// What is left when no more rows come.
    pub(super) fn rest(&mut self) -> Option<Vec<RecordBatch>> {
        match self {
            Cut::Rows(batcher) => batcher.rest(),
            Cut::Elements(batcher) => batcher.rows.rest(),
        }
    }
}

/// Batches of at most `limit` elements in a list column, as full as the rows' order allows.
#[derive(Debug)]
pub(super) struct ElementBatcher {
    column: usize,
    limit: usize,
    rows: Batcher,
    /// Of the rows that wait, in order.
    costs: VecDeque<usize>,
    /// How many rows from the front are known to fit together, and what they cost.
    fitting: usize,
    cost: usize,
}

impl ElementBatcher {
    fn try_new(column: &str, limit: usize, schema: &SchemaRef) -> Result<Self> {
        let Some((place, field)) = schema.column_with_name(column) else {
            return Err(Error::key("no such column, so batches can't be measured by it").at(column));
        };
        if !matches!(field.data_type(), DataType::List(_) | DataType::LargeList(_)) {
            let message = format!("{} has no rows of different lengths to measure batches by", field.data_type());
            return Err(Error::option(message).at(column).remedy("name a column of lists"));
        }
        let rows = Batcher::new(usize::MAX);
        Ok(ElementBatcher { column: place, limit, rows, costs: VecDeque::new(), fitting: 0, cost: 0 })
    }

    fn push(&mut self, batch: RecordBatch) {
        self.costs.extend(costs(batch.column(self.column)));
        self.rows.push(batch);
    }

    fn next_full(&mut self) -> Option<Vec<RecordBatch>> {
        while let Some(next) = self.costs.get(self.fitting) {
            let with_it = self.cost.saturating_add(*next);
            if self.fitting > 0 && with_it > self.limit {
                let full = self.rows.take(self.fitting);
                self.costs.drain(..self.fitting);
                (self.fitting, self.cost) = (0, 0);
                return Some(full);
            }
            self.fitting += 1;
            self.cost = with_it;
        }
        None
    }
}

/// Elements per row. A row without any counts as one, lest a batch of them have no end.
fn costs(lists: &ArrayRef) -> Vec<usize> {
    let valid = |row: usize| lists.is_valid(row);
    let length = |row: usize, length: usize| if valid(row) { length.max(1) } else { 1 };
    match lists.data_type() {
        DataType::List(_) => {
            (0..lists.len()).map(|row| length(row, lists.as_list::<i32>().value_length(row) as usize)).collect()
        }
        DataType::LargeList(_) => {
            (0..lists.len()).map(|row| length(row, lists.as_list::<i64>().value_length(row) as usize)).collect()
        }
        // The schema was checked, so nothing else comes.
        _ => vec![1; lists.len()],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::ListArray;
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn batches_are_as_full_as_the_limit_allows() {
        let lengths = [3, 0, 2, 5, 1, 1, 9, 0, 0, 4, 2];
        for limit in 1..14 {
            for size in 1..lengths.len() + 1 {
                let mut cut: Option<Cut> = None;
                let mut sizes = Vec::new();
                for lengths in lengths.chunks(size) {
                    let lists = lengths.iter().map(|length| (*length > 0).then(|| vec![Some(1); *length]));
                    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
                    let batch = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef)]).unwrap();
                    let by = BatchSize::Elements { column: "l".into(), limit };
                    let cut = cut.get_or_insert_with(|| Cut::try_new(&by, &batch.schema()).unwrap());
                    cut.push(batch);
                    while let Some(group) = cut.next_full() {
                        sizes.push(group.iter().map(RecordBatch::num_rows).sum::<usize>());
                    }
                }
                let rest = cut.unwrap().rest();
                sizes.extend(rest.map(|group| group.iter().map(RecordBatch::num_rows).sum::<usize>()));
                // By the definition: greedily, a row above the limit alone.
                let (mut expected, mut cost) = (vec![0], 0);
                for length in lengths.map(|length| length.max(1)) {
                    if *expected.last().unwrap() > 0 && cost + length > limit {
                        expected.push(0);
                        cost = 0;
                    }
                    *expected.last_mut().unwrap() += 1;
                    cost += length;
                }
                assert_eq!(sizes, expected, "limit {limit}, chunks of {size}");
            }
        }
    }
}
