//! Where one batch ends and the next begins.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema};

use super::Batcher;
use super::group::Grouped;
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

/// How long rows are in a column of lists.
pub(crate) type Measure = Box<dyn Fn(&RecordBatch) -> Result<Vec<usize>> + Send>;

/// Cuts rows into batches of a size.
pub(super) enum Cut {
    Rows(Batcher),
    Elements(ElementBatcher),
    Grouped(Grouped),
}

impl Cut {
    pub(super) fn rows(size: usize) -> Self {
        Cut::Rows(Batcher::new(size))
    }

    pub(super) fn elements(limit: usize, measure: Measure) -> Self {
        Cut::Elements(ElementBatcher { rows: Batcher::new(usize::MAX), measure, costs: Costs::new(limit) })
    }

    pub(super) fn push(&mut self, rows: RecordBatch) -> Result<()> {
        match self {
            Cut::Rows(batcher) => batcher.push(rows),
            Cut::Elements(batcher) => batcher.push(rows)?,
            Cut::Grouped(grouped) => grouped.push(rows)?,
        }
        Ok(())
    }

    /// A batch that rows to come can't change, if there is one.
    pub(super) fn next_full(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        match self {
            Cut::Rows(batcher) => Ok(batcher.next_full()),
            Cut::Elements(batcher) => Ok(batcher.next_full()),
            Cut::Grouped(grouped) => grouped.next_full(),
        }
    }

    /// No more rows come: what is left may now be in full batches.
    pub(super) fn end(&mut self) -> Result<()> {
        match self {
            Cut::Rows(_) | Cut::Elements(_) => Ok(()),
            Cut::Grouped(grouped) => grouped.end(),
        }
    }

    /// The last batch, which may be smaller than others.
    pub(super) fn rest(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        match self {
            Cut::Rows(batcher) => Ok(batcher.rest()),
            Cut::Elements(batcher) => Ok(batcher.rows.rest()),
            Cut::Grouped(grouped) => grouped.rest(),
        }
    }

    /// Bytes of the rows that it holds to choose among.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Cut::Rows(_) | Cut::Elements(_) => 0,
            Cut::Grouped(grouped) => grouped.bytes(),
        }
    }
}

/// Batches of at most so many elements in a list column, as full as the rows' order allows.
pub(super) struct ElementBatcher {
    rows: Batcher,
    measure: Measure,
    costs: Costs,
}

impl ElementBatcher {
    fn push(&mut self, rows: RecordBatch) -> Result<()> {
        self.costs.extend((self.measure)(&rows)?);
        self.rows.push(rows);
        Ok(())
    }

    fn next_full(&mut self) -> Option<Vec<RecordBatch>> {
        self.costs.next_full().map(|rows| self.rows.take(rows))
    }
}

/// How many rows in a row have at most `limit` elements together.
#[derive(Debug)]
pub(super) struct Costs {
    limit: usize,
    /// Of the rows that wait, in order.
    costs: VecDeque<usize>,
    /// How many rows from the front are known to fit together, and what they cost.
    fitting: usize,
    cost: usize,
}

impl Costs {
    pub(super) fn new(limit: usize) -> Self {
        Costs { limit, costs: VecDeque::new(), fitting: 0, cost: 0 }
    }

    /// A row without elements counts as one, lest a batch of them have no end.
    pub(super) fn extend(&mut self, lengths: impl IntoIterator<Item = usize>) {
        self.costs.extend(lengths.into_iter().map(|length| length.max(1)));
    }

    pub(super) fn next_full(&mut self) -> Option<usize> {
        while let Some(next) = self.costs.get(self.fitting) {
            let with_it = self.cost.saturating_add(*next);
            if self.fitting > 0 && with_it > self.limit {
                let full = self.fitting;
                self.costs.drain(..full);
                (self.fitting, self.cost) = (0, 0);
                return Some(full);
            }
            self.fitting += 1;
            self.cost = with_it;
        }
        None
    }

    /// How many rows are left.
    pub(super) fn rest(&mut self) -> Option<usize> {
        let rest = self.costs.len();
        self.costs.clear();
        (rest > 0).then_some(rest)
    }
}

/// The measure of a column of Arrow lists.
///
/// # Errors
///
/// A [key](Error::is_key) error if there is no such column, an [option](Error::is_option) error if it has no lists.
pub(crate) fn measure_lists(column: &str, schema: &Schema) -> Result<Measure> {
    let Some((place, field)) = schema.column_with_name(column) else {
        return Err(Error::key("no such column, so batches can't be measured by it").at(column));
    };
    if !matches!(field.data_type(), DataType::List(_) | DataType::LargeList(_)) {
        return Err(no_lists(column, field.data_type()));
    }
    Ok(Box::new(move |rows| Ok(lengths(rows.column(place)))))
}

/// The error of a column whose rows are all of one length.
pub(super) fn no_lists(column: &str, what: impl std::fmt::Display) -> Error {
    let message = format!("{what} has no rows of different lengths to measure batches by");
    Error::option(message).at(column).remedy("name a column of lists")
}

/// Elements per row; a null has none.
fn lengths(lists: &ArrayRef) -> Vec<usize> {
    let length = |row: usize, length: usize| if lists.is_valid(row) { length } else { 0 };
    match lists.data_type() {
        DataType::List(_) => {
            (0..lists.len()).map(|row| length(row, lists.as_list::<i32>().value_length(row) as usize)).collect()
        }
        DataType::LargeList(_) => {
            (0..lists.len()).map(|row| length(row, lists.as_list::<i64>().value_length(row) as usize)).collect()
        }
        // The schema was checked, so nothing else comes.
        _ => vec![0; lists.len()],
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
                    let measure = measure_lists("l", &batch.schema()).unwrap();
                    let cut = cut.get_or_insert_with(|| Cut::elements(limit, measure));
                    cut.push(batch).unwrap();
                    while let Some(group) = cut.next_full().unwrap() {
                        sizes.push(group.iter().map(RecordBatch::num_rows).sum::<usize>());
                    }
                }
                let rest = cut.unwrap().rest().unwrap();
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
