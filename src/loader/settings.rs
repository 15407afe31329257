//! How batches are made of a query, said once.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::batches::Batches;
use super::blocking::BlockingBatches;
use super::cut::{BatchSize, Cut};
use super::metrics::Counters;
use super::order::Order;
use super::produce::Producer;
use super::shard::{Dealer, Remainder, Shard};
use super::source::BatchSource;
use super::state::LoaderState;
use crate::convert::Converter;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::schema::TensorDictSchema;

/// Batches for training, epoch after epoch, of a query.
///
/// Made by `DataFrameExt::tensordict_loader`. Each epoch runs the query anew; a task computes batches ahead while the
/// training loop works on others. Unless told otherwise they are of 256 rows, the last perhaps of fewer, in the order
/// in which they are computed, and two are ready ahead.
///
/// What is held in memory: the batches ahead and the one in use, a record batch of the engine or as many as a batch
/// takes rows of, and what the query itself needs.
#[derive(Clone)]
pub struct Loader {
    source: Arc<dyn BatchSource>,
    converter: Arc<Converter>,
    size: BatchSize,
    drop_last: bool,
    order: Order,
    shard: Option<Shard>,
    prefetch: usize,
}

impl Loader {
    /// `options` are those of the rows as the source gives them.
    pub(crate) fn try_new(source: Arc<dyn BatchSource>, options: &Options) -> Result<Self> {
        let converter = Arc::new(Converter::streaming(source.schema(), options)?);
        let size = BatchSize::Rows(256);
        Ok(Loader { source, converter, size, drop_last: false, order: Order::default(), shard: None, prefetch: 2 })
    }

    /// Batches of exactly `rows` rows, the last perhaps of fewer. 0 counts as 1.
    #[must_use]
    pub fn batch_size(mut self, rows: usize) -> Self {
        self.size = BatchSize::Rows(rows.max(1));
        self
    }

    /// Batches of at most `limit` elements in the list column: as many rows as fit, in their order.
    ///
    /// A row of more is a batch of its own, one of none counts as one element.
    #[must_use]
    pub fn batch_elements(mut self, column: impl Into<String>, limit: usize) -> Self {
        self.size = BatchSize::Elements { column: column.into(), limit };
        self
    }

    /// Whether the last batch of an epoch is left out: the rows that were too few for a full one, or, where batches
    /// are measured in elements, the last one always.
    #[must_use]
    pub fn drop_last(mut self, drop: bool) -> Self {
        self.drop_last = drop;
        self
    }

    /// The order of the rows.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Of `world_size` ranks that each run this loader, the rows of `rank`: of the epoch's rows in their order, every
    /// `world_size`-th. Each rank computes the query and leaves out what others get.
    #[must_use]
    pub fn shard(mut self, rank: u64, world_size: u64, remainder: Remainder) -> Self {
        self.shard = Some(Shard { rank, world_size, remainder });
        self
    }

    /// How many batches may be ready ahead; the query waits while there are as many. 0 counts as 1.
    #[must_use]
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches.clamp(1, tokio::sync::Semaphore::MAX_PERMITS);
        self
    }

    /// What each batch holds.
    pub fn schema(&self) -> &TensorDictSchema {
        self.converter.schema()
    }

    /// Starts an epoch. Must be called inside a tokio runtime, on which the query then runs.
    ///
    /// # Errors
    ///
    /// An [option](Error::is_option) error for settings that don't go together, an order that can't be kept, or outside
    /// a runtime; an [engine](Error::is_engine) error if the query can't be planned, or files that it reads have changed
    /// since the loader was made. Errors of the run come through the
    /// stream.
    pub async fn epoch(&self, epoch: u64) -> Result<Batches> {
        let state = LoaderState { epoch, batches: 0, rows: 0, loader: self.settings() };
        self.begin(state).await
    }

    /// Goes on where a state says, with exactly the batch that comes next.
    ///
    /// The query runs from its start, and rows that were taken before are dropped, unconverted.
    ///
    /// # Errors
    ///
    /// As [`epoch`](Self::epoch), and an [option](Error::is_option) error if the state is of a loader with other
    /// settings or columns, or the order is [`AsComputed`](Order::AsComputed), in which no place can be found again.
    pub async fn resume(&self, state: &LoaderState) -> Result<Batches> {
        let settings = self.settings();
        state.ensure_of(&settings)?;
        self.ensure_ordered("resuming")?;
        self.begin(state.clone()).await
    }

    /// As [`epoch`](Self::epoch), for a training loop that isn't asynchronous. The query runs on threads of its own.
    ///
    /// # Errors
    ///
    /// As [`epoch`](Self::epoch).
    pub fn epoch_blocking(&self, epoch: u64) -> Result<BlockingBatches> {
        let loader = self.clone();
        BlockingBatches::start(async move { loader.epoch(epoch).await })
    }

    /// As [`resume`](Self::resume), for a training loop that isn't asynchronous.
    ///
    /// # Errors
    ///
    /// As [`resume`](Self::resume).
    pub fn resume_blocking(&self, state: &LoaderState) -> Result<BlockingBatches> {
        let (loader, state) = (self.clone(), state.clone());
        BlockingBatches::start(async move { loader.resume(&state).await })
    }

    async fn begin(&self, state: LoaderState) -> Result<Batches> {
        let runtime = Handle::try_current()
            .map_err(|_| Error::option("no tokio runtime to run the query on").remedy("use `epoch_blocking`"))?;
        if let Some(shard) = self.shard {
            shard.ensure_valid()?;
            self.ensure_ordered("a shard")?;
            if shard.remainder != Remainder::Keep && matches!(self.size, BatchSize::Elements { .. }) {
                let message = "ranks of as many rows have different numbers of batches that are measured in elements";
                return Err(Error::option(message).remedy("use `batch_size`, or `Remainder::Keep`"));
            }
        }
        let cut = Cut::try_new(&self.size, self.source.schema())?;
        let input = self.source.open(&self.order, state.epoch).await?;
        let (sender, receiver) = mpsc::channel(self.prefetch);
        let counters = Arc::new(Counters::default());
        let producer = Producer {
            input,
            converter: Arc::clone(&self.converter),
            dealer: self.shard.map(Dealer::new),
            skip: state.rows,
            cut,
            drop_last: self.drop_last,
            rows: state.rows,
            numbered: self.order != Order::AsComputed,
            counters: Arc::clone(&counters),
            sender,
        };
        let task = runtime.spawn(producer.run()).abort_handle();
        Ok(Batches::new(receiver, task, Arc::clone(&self.converter), counters, state))
    }

    fn ensure_ordered(&self, what: &str) -> Result<()> {
        if self.order != Order::AsComputed {
            return Ok(());
        }
        let message = format!("{what} needs rows that come in the same order each time, and as computed they don't");
        Err(Error::option(message).remedy("set `Order::shuffled` or `Order::AsStored`"))
    }

    /// What must be the same for a state to mean the same.
    fn settings(&self) -> Value {
        let columns: Vec<_> = self.source.schema().fields().iter().map(|field| field.name().clone()).collect();
        let size = match &self.size {
            BatchSize::Rows(rows) => json!({"rows": rows}),
            BatchSize::Elements { column, limit } => json!({"elements": limit, "of": column}),
        };
        let order = match &self.order {
            Order::AsComputed => json!("as computed"),
            Order::AsStored => json!("as stored"),
            Order::Shuffled { seed, keys } => json!({"seed": seed, "keys": keys}),
        };
        let shard = self.shard.map(|Shard { rank, world_size, remainder }| {
            json!({"rank": rank, "world_size": world_size, "remainder": remainder.word()})
        });
        json!({"columns": columns, "batch": size, "drop_last": self.drop_last, "order": order, "shard": shard})
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("settings", &self.settings()).field("prefetch", &self.prefetch).finish()
    }
}
