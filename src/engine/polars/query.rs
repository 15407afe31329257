//! A lazy query, run: as one frame, or batch by batch.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow::array::RecordBatch;
use polars::prelude::{DataFrame, Engine, LazyFrame, PlanCallback};

use super::announced::Announced;
use super::apart::{apart, start};
use super::batches::record_batches;
use crate::error::{Error, Result};

/// Frames of the engine that may wait for the consumer, beside the one in its hands.
const WAITING: usize = 1;

/// The whole result, by the engine that Polars takes for it.
///
/// # Errors
///
/// The engine's, or a panic in what it ran.
pub(super) fn collect(query: LazyFrame) -> Result<DataFrame> {
    Ok(apart(move || query.collect_with_engine(Engine::Auto).map(|results| results.unwrap_single()))??)
}

/// A query that runs on a thread of ours.
///
/// The engine hands each frame to a callback, which waits while the channel is full: so the engine waits too, and
/// memory stays bounded. Once the receiver is dropped the callback says so, and the engine stops.
#[derive(Debug)]
pub(super) struct Running {
    receiver: Receiver<Sent>,
    _place: Place,
}

/// `None` says that the query is over, since a channel that merely ends may belong to a query that a panic has taken
/// apart, or that it has left lying.
type Sent = Option<Result<RecordBatch>>;

impl Running {
    /// # Errors
    ///
    /// The query already ends in a sink; as many streams run as may; the system has no thread left.
    pub(super) fn start(query: LazyFrame, announced: Arc<Announced>) -> Result<Running> {
        let place = Place::take()?;
        let (sender, receiver) = sync_channel(WAITING);
        let at_end = sender.clone();
        let hand_over = move |frame| Ok(hand_over(frame, &announced, &sender));
        let query = query.sink_batches(PlanCallback::new(hand_over), true, None)?;
        start(move || {
            let run = AssertUnwindSafe(move || query.collect_with_engine(Engine::Streaming).map(drop));
            let failed = match catch_unwind(run) {
                Ok(done) => done.map_err(Error::from).err(),
                Err(panic) => Some(Error::panicked(panic)),
            };
            // Whoever dropped the receiver wants to know nothing more.
            let _ = at_end.send(failed.map(Err));
        })?;
        Ok(Running { receiver, _place: place })
    }

    /// The next record batch, once it is there. An error is the last.
    pub(super) fn next(&self) -> Option<Result<RecordBatch>> {
        self.receiver.recv().unwrap_or(None)
    }
}

/// The right to run, which half as many streams have at once as Polars has threads for what waits. A callback that
/// waits takes one of them; all queries of the program share them, and one that finds none left waits without end.
#[derive(Debug)]
struct Place;

static PLACES_TAKEN: AtomicUsize = AtomicUsize::new(0);

impl Place {
    fn take() -> Result<Place> {
        // As Polars reads it, and its default.
        let threads = env::var("POLARS_MAX_BLOCKING_THREAD_COUNT").ok().and_then(|count| count.parse().ok());
        let places = (threads.unwrap_or(512_usize) / 2).max(1);
        let one_more = |taken: usize| (taken < places).then_some(taken + 1);
        PLACES_TAKEN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).map(|_| Place).map_err(|_| {
            Error::engine(format!("{places} streams of Polars run already, as many as may at once")).remedy(
                "read some to their end or drop them, convert small results whole, or start the program with a larger \
                 POLARS_MAX_BLOCKING_THREAD_COUNT, half of which is the limit",
            )
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        PLACES_TAKEN.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Sends what a frame holds; whether to stop.
fn hand_over(frame: DataFrame, announced: &Announced, sender: &SyncSender<Sent>) -> bool {
    // A panic here would leave the engine without an answer.
    let batches = catch_unwind(AssertUnwindSafe(|| record_batches(frame, announced)));
    match batches.unwrap_or_else(|panic| Err(Error::panicked(panic))) {
        Ok(batches) => batches.into_iter().any(|batch| sender.send(Some(Ok(batch))).is_err()),
        Err(error) => {
            let _ = sender.send(Some(Err(error)));
            true
        }
    }
}
