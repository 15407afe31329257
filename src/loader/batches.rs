//! The batches of an epoch, as a training loop takes them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::Stream;
use tokio::sync::mpsc::Receiver;
use tokio::task::AbortHandle;
use tracing::Span;

use super::metrics::{Counters, LoaderMetrics};
use super::produce::Message;
use super::source::BatchSource;
use super::state::LoaderState;
use crate::dict::TensorDict;
use crate::error::{Error, Result};
use crate::schema::TensorDictSchema;

/// The batches of an epoch, computed ahead by a task: a stream of tensordicts with the same keys.
///
/// An error comes in its place, once, and ends the stream. Dropping it stops the query.
pub struct Batches {
    receiver: Receiver<Message>,
    task: AbortHandle,
    source: Arc<dyn BatchSource>,
    bytes_read: Box<dyn Fn() -> u64 + Send + Sync>,
    counters: Arc<Counters>,
    state: LoaderState,
    span: Span,
    waits_since: Option<Instant>,
    ended: bool,
}

impl Batches {
    pub(super) fn new(
        receiver: Receiver<Message>,
        task: AbortHandle,
        source: Arc<dyn BatchSource>,
        bytes_read: Box<dyn Fn() -> u64 + Send + Sync>,
        counters: Arc<Counters>,
        state: LoaderState,
        span: Span,
    ) -> Self {
        Batches { receiver, task, source, bytes_read, counters, state, span, waits_since: None, ended: false }
    }

    /// As [`Loader::schema`](super::Loader::schema).
    pub fn schema(&self) -> Option<&TensorDictSchema> {
        self.source.schema()
    }

    /// Where the epoch has come to: the next batch from here on is the one after the last that was taken.
    ///
    /// [`Loader::resume`](super::Loader::resume) goes on from there, if the loader's order is one that it can go on in.
    pub fn state(&self) -> LoaderState {
        self.state.clone()
    }

    /// What the epoch has cost so far.
    pub fn metrics(&self) -> LoaderMetrics {
        self.counters.read((self.bytes_read)())
    }
}

impl Stream for Batches {
    type Item = Result<TensorDict>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        let message = ready!(self.receiver.poll_recv(cx));
        self.waits_since = None;
        self.counters.consumer_waited(since.elapsed());
        let item = match message {
            Some(Message::Batch { dict, rows, mark, charge }) => {
                self.state.batches += 1;
                self.state.rows += rows;
                self.state.mark = mark;
                // It is the training loop's from here on.
                drop(charge);
                return Poll::Ready(Some(Ok(dict)));
            }
            Some(Message::Failed(error)) => Some(Err(error)),
            Some(Message::End) => None,
            None => Some(Err(Error::engine("the runtime that computes the batches was shut down"))),
        };
        self.ended = true;
        Poll::Ready(item)
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.task.abort();
        let metrics = self.metrics();
        self.span
            .record("batches", metrics.batches)
            .record("rows", metrics.rows)
            .record("bytes_read", metrics.bytes_read);
        self.span.record("padding_share", metrics.padding_share());
        self.span.record("consumer_wait", metrics.consumer_wait.as_secs_f64());
        self.span.record("producer_wait", metrics.producer_wait.as_secs_f64());
    }
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("state", &self.state).field("schema", &self.schema()).finish_non_exhaustive()
    }
}
