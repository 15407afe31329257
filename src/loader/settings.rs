//! How batches are made of a query, said once.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::field::Empty;
use tracing::{Instrument, info_span};

use super::batches::Batches;
use super::blocking::BlockingBatches;
use super::collate::Collate;
use super::cut::{BatchSize, Cut};
use super::group::{GroupSize, Grouped};
use super::metrics::Counters;
use super::order::Order;
use super::produce::Producer;
use super::shard::{Dealer, Remainder, Shard};
use super::source::{BatchSource, Reading};
use super::state::LoaderState;
use super::window::Shuffle;
use crate::error::{Error, Result};
use crate::schema::TensorDictSchema;

/// How many shuffled rows are put together at a time where batches are of no fixed number of rows.
const SLICE: usize = 1024;

/// Batches for training, epoch after epoch, of a query or of a tensordict's rows.
///
/// Made by `DataFrameExt::tensordict_loader` or [`Loader::of_tensordict`]. Each epoch runs the query anew; a task computes batches ahead while the
/// training loop works on others. Unless told otherwise they are of 256 rows, the last perhaps of fewer, in the order
/// in which they are computed, and two are ready ahead.
///
/// What is held in memory: the batches ahead and the one in use, a record batch of the engine or as many as a batch
/// takes rows of, the windows that rows are shuffled or grouped in, and what the query itself needs. Batches ahead and
/// windows are charged to the engine's memory pool, as `tensordict loader`, if it has one.
#[derive(Clone)]
pub struct Loader {
    source: Arc<dyn BatchSource>,
    size: BatchSize,
    group: Option<Group>,
    collate: Collate,
    drop_last: bool,
    order: Order,
    shard: Option<Shard>,
    prefetch: usize,
}

/// Rows of similar length in a batch.
#[derive(Clone, Debug)]
struct Group {
    column: String,
    window: usize,
}

impl Loader {
    pub(crate) fn new(source: Arc<dyn BatchSource>) -> Self {
        let size = BatchSize::Rows(256);
        let (collate, order) = (Collate::default(), Order::default());
        Loader { source, size, group: None, collate, drop_last: false, order, shard: None, prefetch: 2 }
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

    /// What becomes of rows of different lengths: jagged tensors, unless told otherwise.
    #[must_use]
    pub fn collate(mut self, collate: Collate) -> Self {
        self.collate = collate;
        self
    }

    /// Batches of rows that are of similar length in the list column, so that less of them is padding: each `window`
    /// rows of the order are sorted by length and cut into batches, and these come in random order.
    ///
    /// The larger the window, the less padding, and the less random who is with whom in a batch; what it holds is kept in
    /// memory, and each row is copied once more. Where batches are measured in rows, it is rounded up to whole ones.
    /// Batches are the same for the same seed and epoch, as far as the order is.
    #[must_use]
    pub fn group_by_length(mut self, column: impl Into<String>, window: usize) -> Self {
        self.group = Some(Group { column: column.into(), window: window.max(1) });
        self
    }

    /// Whether the last batch of an epoch is left out: the rows that were too few for a full one, or, where batches
    /// are measured in elements, the last one always. Of batches grouped by length, which rows these are is random.
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
    /// `world_size`-th. Each rank computes the query and leaves out what others get; in the order
    /// [`streamed`](Order::streamed) it gets as large a part of the row groups instead, and reads nothing else.
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

    /// What each batch of a query holds, before it is collated; of a tensordict's rows, what that holds.
    pub fn schema(&self) -> Option<&TensorDictSchema> {
        self.source.schema()
    }

    /// Starts an epoch. Must be called inside a tokio runtime, on which the query then runs.
    ///
    /// The epoch is a span of `tracing`, `tensordict_epoch`, until its batches are dropped; fields say what
    /// [`Batches::metrics`] does, waits in seconds.
    ///
    /// # Errors
    ///
    /// An [option](Error::is_option) error for settings that don't go together, an order that can't be kept, or outside
    /// a runtime; an [engine](Error::is_engine) error if the query can't be planned, or files that it reads have changed
    /// since the loader was made. Errors of the run come through the
    /// stream.
    pub async fn epoch(&self, epoch: u64) -> Result<Batches> {
        let state = LoaderState { epoch, batches: 0, rows: 0, mark: None, loader: self.settings() };
        self.begin(state).await
    }

    /// Goes on where a state says, with exactly the batch that comes next.
    ///
    /// In the orders [`streamed`](Order::streamed) and those of a tensordict it reads what is left, and the window that
    /// it is in the middle of; in [`AsStored`](Order::AsStored), of Parquet files without a filter, and without
    /// [`Remainder::Pad`], too. In others the query runs from its start, and rows that were taken before are dropped,
    /// unconverted.
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
        self.collate.ensure_valid()?;
        let grouped = self.grouped_window();
        // Windows are cut from the epoch's rows, so a window that isn't all taken is cut again.
        let skip_cut = grouped.map_or(0, |window| state.rows % window);
        let taken = state.rows - skip_cut;
        let cut = self.cut(&state, grouped)?;
        let reading = Reading { order: &self.order, epoch: state.epoch, shard: self.shard, taken, mark: state.mark };
        let opened = self.source.open(reading).await?;
        let (sender, receiver) = mpsc::channel(self.prefetch);
        let counters = Arc::new(Counters::new(opened.total.map(|total| total.saturating_sub(state.rows))));
        let span = info_span!(
            "tensordict_epoch",
            epoch = state.epoch,
            order = self.order.name(),
            batches = Empty,
            rows = Empty,
            bytes_read = Empty,
            padding_share = Empty,
            consumer_wait = Empty,
            producer_wait = Empty,
        );
        let producer = Producer {
            source: Arc::clone(&self.source),
            input: opened.chunks,
            dealer: self.shard.filter(|_| !opened.dealt).map(Dealer::new),
            shuffle: self.shuffle(&state, opened.before, opened.layout)?,
            skip: taken.saturating_sub(opened.before),
            cut,
            skip_cut,
            grouped,
            collate: self.collate.clone(),
            drop_last: self.drop_last,
            rows: state.rows,
            marks: state.mark.into_iter().collect(),
            numbered: self.order != Order::AsComputed,
            counters: Arc::clone(&counters),
            held: self.source.charge(),
            sender,
        };
        let task = runtime.spawn(producer.run().instrument(span.clone())).abort_handle();
        Ok(Batches::new(receiver, task, Arc::clone(&self.source), opened.bytes_read, counters, state, span))
    }

    /// How many rows are grouped at a time.
    fn grouped_window(&self) -> Option<u64> {
        let window = self.group.as_ref()?.window;
        let window = match &self.size {
            BatchSize::Rows(rows) => window.checked_next_multiple_of(*rows).unwrap_or(window),
            BatchSize::Elements { .. } => window,
        };
        Some(window as u64)
    }

    fn cut(&self, state: &LoaderState, window: Option<u64>) -> Result<Cut> {
        let Some((group, window)) = self.group.as_ref().zip(window) else {
            return Ok(match &self.size {
                BatchSize::Rows(rows) => Cut::rows(*rows),
                BatchSize::Elements { column, limit } => Cut::elements(*limit, self.source.measure(column)?),
            });
        };
        let size = match &self.size {
            BatchSize::Rows(rows) => GroupSize::Rows(*rows),
            BatchSize::Elements { column, limit } => {
                GroupSize::Elements { limit: *limit, measure: self.source.measure(column)? }
            }
        };
        let measure = self.source.measure(&group.column)?;
        let rows = usize::try_from(window).unwrap_or(usize::MAX);
        let windows = state.rows / window;
        Ok(Cut::Grouped(Grouped::new(size, measure, rows, self.order.seed(), state.epoch, windows)))
    }

    /// What shuffles the rows that are left after `before`.
    fn shuffle(&self, state: &LoaderState, before: u64, layout: u64) -> Result<Option<Shuffle>> {
        let Order::Streamed { seed, window } = self.order else { return Ok(None) };
        if !before.is_multiple_of(window as u64) {
            let message = format!("this state's mark is at row {before}, where no window of {window} rows begins");
            return Err(Error::option(message).remedy("begin an epoch"));
        }
        let slice = match &self.size {
            BatchSize::Rows(rows) if self.group.is_none() => *rows,
            _ => SLICE,
        };
        Ok(Some(Shuffle::new(seed, state.epoch, window, before / window as u64, slice, layout)))
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
        let columns = self.source.columns();
        let size = match &self.size {
            BatchSize::Rows(rows) => json!({"rows": rows}),
            BatchSize::Elements { column, limit } => json!({"elements": limit, "of": column}),
        };
        let group = self.group.as_ref().map(|Group { column, window }| json!({"column": column, "window": window}));
        let shard = self.shard.map(|Shard { rank, world_size, remainder }| {
            json!({"rank": rank, "world_size": world_size, "remainder": remainder.word()})
        });
        json!({
            "columns": columns,
            "rows": self.source.rows(),
            "batch": size,
            "group": group,
            "drop_last": self.drop_last,
            "order": self.order.to_json(),
            "shard": shard,
        })
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("settings", &self.settings()).field("prefetch", &self.prefetch).finish()
    }
}
