//! Where a loader's rows come from.

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::stream::BoxStream;

use super::Order;
use super::cut::Measure;
use super::shard::Shard;
use crate::dict::TensorDict;
use crate::error::{Error, Result};
use crate::schema::TensorDictSchema;

/// Where rows are from, in sources that can go on in the middle: the piece that is read, one after the other in the
/// epoch's order, and the row there. Other sources are all one piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) piece: u64,
    pub(crate) row: u64,
}

/// A place to go on from, and how many of this rank's rows come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) place: Place,
    pub(crate) rows: u64,
    /// Of the pieces that the place is in, see [`Opened::layout`].
    pub(crate) layout: u64,
}

/// Rows, and where the first of them is from; the others follow it there.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) rows: RecordBatch,
    pub(crate) place: Place,
}

impl From<RecordBatch> for Chunk {
    fn from(rows: RecordBatch) -> Self {
        Chunk { rows, place: Place::default() }
    }
}

/// What is asked of a source for one epoch.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) order: &'a Order,
    pub(crate) epoch: u64,
    pub(crate) shard: Option<Shard>,
    /// How many of this rank's rows aren't needed any more.
    pub(crate) taken: u64,
    /// Where a state says to go on.
    pub(crate) mark: Option<Mark>,
}

/// Rows of one epoch, in its order.
pub(crate) struct Opened {
    /// Nothing is computed before it is polled.
    pub(crate) chunks: BoxStream<'static, Result<Chunk>>,
    /// Whether these are one rank's rows, and no others'.
    pub(crate) dealt: bool,
    /// How many rows are left out at the beginning: at most those that aren't needed.
    pub(crate) before: u64,
    /// How many rows there are with those, if that is known.
    pub(crate) total: Option<u64>,
    /// A number that changes with the pieces that the rows are from: a place in others means something else.
    pub(crate) layout: u64,
    /// How many bytes were read so far.
    pub(crate) bytes_read: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Opened {
    /// All rows of all ranks.
    pub(crate) fn whole(chunks: BoxStream<'static, Result<Chunk>>) -> Self {
        Opened { chunks, dealt: false, before: 0, total: None, layout: 0, bytes_read: Box::new(|| 0) }
    }
}

/// What a batch is made with, and what it took.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) dict: TensorDict,
    pub(crate) bytes_copied: u64,
    pub(crate) bytes_viewed: u64,
}

/// Memory that is accounted for. Dropping it gives it back.
pub(crate) trait Charge: Send {
    /// So many bytes from now on; an error that says who asked for them if there aren't as many.
    fn resize(&mut self, bytes: usize) -> Result<()>;
}

/// Memory that nobody counts.
struct Uncounted;

impl Charge for Uncounted {
    fn resize(&mut self, _: usize) -> Result<()> {
        Ok(())
    }
}

/// A query, or something else, that gives the same rows as often as it is asked.
#[async_trait]
pub(crate) trait BatchSource: Send + Sync {
    /// What batches hold, where that is known before there is one.
    fn schema(&self) -> Option<&TensorDictSchema>;

    /// The names of the columns.
    fn columns(&self) -> Vec<String>;

    /// How many rows it has, where that is part of what it is.
    fn rows(&self) -> Option<u64> {
        None
    }

    /// Starts over, in an epoch's order.
    ///
    /// An order that the rows can't be put in, or not twice in the same way, is an [option](crate::Error::is_option)
    /// error.
    async fn open(&self, reading: Reading<'_>) -> Result<Opened>;

    /// How long the rows of a column of lists are.
    fn measure(&self, column: &str) -> Result<Measure>;

    /// A batch of rows that it gave.
    fn make(&self, rows: Vec<RecordBatch>) -> Result<Made>;

    /// An account for what the loader holds.
    fn charge(&self) -> Box<dyn Charge> {
        Box::new(Uncounted)
    }

    /// The error of an order that this source has not.
    fn refuse(&self, order: &Order, why: &str, remedy: &str) -> Error {
        Error::option(format!("`Order::{}` {why}", order.name())).remedy(remedy)
    }
}
