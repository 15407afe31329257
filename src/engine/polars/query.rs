//! A lazy query, run: as one frame, or batch by batch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
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
pub(super) struct Running(Receiver<Sent>);

/// `None` says that the query is over, since a channel that merely ends may belong to a query that a panic has taken
/// apart, or that it has left lying.
type Sent = Option<Result<RecordBatch>>;

impl Running {
    /// # Errors
    ///
    /// The query already ends in a sink; the system has no thread left.
    pub(super) fn start(query: LazyFrame, announced: Arc<Announced>) -> Result<Running> {
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
        Ok(Running(receiver))
    }

    /// The next record batch, once it is there. An error is the last.
    pub(super) fn next(&self) -> Option<Result<RecordBatch>> {
        self.0.recv().unwrap_or(None)
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
