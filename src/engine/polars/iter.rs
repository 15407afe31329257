//! Tensordicts as a query computes them.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::vec;

use arrow::array::RecordBatch;
use polars::prelude::{DataFrame, LazyFrame};

use super::announced::Announced;
use super::batches::record_batches;
use super::query::Running;
use crate::convert::Converter;
use crate::dict::TensorDict;
use crate::error::Result;
use crate::loader::Groups;
use crate::options::Options;
use crate::schema::TensorDictSchema;

/// A query's result as an iterator of tensordicts, each converted when it is asked for.
///
/// They have the same keys throughout. Without a [batch size](Self::with_batch_size) they are as large as the
/// engine's batches, or a frame's chunks. An error ends it; the row that it names is counted from the start of the
/// result. Where the query itself fails, rows may be missing from the batches before the error: the engine computes
/// several parts at a time, and those after the one that failed may have come.
///
/// A lazy query starts with the first call of `next` and runs beside the consumer, two of the engine's batches ahead
/// at most. Dropping the iterator stops it when its next batch is there.
///
/// Of lazy queries, 256 may run at once, or half of what `POLARS_MAX_BLOCKING_THREAD_COUNT` says: each may keep one of
/// Polars' threads waiting. One more is an error.
pub struct TensorDictIter {
    source: Source,
    converter: Converter,
    groups: Groups,
    /// Rows in the tensordicts given so far.
    rows: usize,
}

enum Source {
    Frame(vec::IntoIter<RecordBatch>),
    Waiting(Box<LazyFrame>, Arc<Announced>),
    Running(Running),
    Over,
}

impl TensorDictIter {
    pub(super) fn of_query(query: LazyFrame, options: &Options) -> Result<Self> {
        let announced = Announced::of_query(&query)?;
        let converter = Converter::streaming(&announced.schema, options)?;
        Ok(Self::new(Source::Waiting(Box::new(query), Arc::new(announced)), converter))
    }

    pub(super) fn of_frame(frame: DataFrame, options: &Options) -> Result<Self> {
        let announced = Announced::of_frame(&frame)?;
        let converter = Converter::streaming(&announced.schema, options)?;
        Ok(Self::new(Source::Frame(record_batches(frame, &announced)?.into_iter()), converter))
    }

    fn new(source: Source, converter: Converter) -> Self {
        TensorDictIter { source, converter, groups: Groups::default(), rows: 0 }
    }

    /// Tensordicts of exactly `rows` rows each, the last perhaps of fewer. 0 counts as 1.
    ///
    /// Rows of one of the engine's batches are cut out of it, rows of several are put together; each row is copied
    /// at most once. In the midst of a stream, it holds for the rows that come.
    #[must_use]
    pub fn with_batch_size(mut self, rows: usize) -> Self {
        self.groups = self.groups.with_size(rows);
        self
    }

    /// What each tensordict holds, known before the first comes.
    pub fn schema(&self) -> &TensorDictSchema {
        self.converter.schema()
    }

    /// The next record batches to convert together.
    fn next_group(&mut self) -> Option<Result<Vec<RecordBatch>>> {
        loop {
            if let Some(group) = self.groups.next_ready() {
                return Some(Ok(group));
            }
            if self.groups.is_ended() {
                return None;
            }
            match self.next_batch() {
                None => {
                    self.source = Source::Over;
                    self.groups.end();
                }
                Some(Ok(batch)) => self.groups.push(batch),
                Some(Err(error)) => return Some(Err(error)),
            }
        }
    }

    fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        if let Source::Waiting(query, announced) = &mut self.source {
            let query = mem::take(query.as_mut());
            match Running::start(query, Arc::clone(announced)) {
                Ok(running) => self.source = Source::Running(running),
                Err(error) => return Some(Err(error)),
            }
        }
        match &mut self.source {
            Source::Frame(batches) => batches.next().map(Ok),
            Source::Running(running) => running.next(),
            Source::Waiting(..) | Source::Over => None,
        }
    }
}

impl Iterator for TensorDictIter {
    type Item = Result<TensorDict>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.next_group()?;
        let converted = group.and_then(|group| {
            let rows: usize = group.iter().map(RecordBatch::num_rows).sum();
            let (dict, _) = self.converter.convert(group).map_err(|error| error.after_rows(self.rows))?;
            self.rows += rows;
            Ok(dict)
        });
        if converted.is_err() {
            // Nothing comes after an error, and the query may stop.
            self.groups.fail();
            self.source = Source::Over;
        }
        Some(converted)
    }
}

impl std::iter::FusedIterator for TensorDictIter {}

impl fmt::Debug for TensorDictIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorDictIter").field("schema", self.schema()).finish_non_exhaustive()
    }
}
