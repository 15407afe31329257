//! The same for a training loop that isn't asynchronous.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};

use super::batches::Batches;
use super::metrics::LoaderMetrics;
use super::state::LoaderState;
use crate::dict::TensorDict;
use crate::error::{Error, Result};
use crate::schema::TensorDictSchema;

/// [`Batches`] as an iterator: the query runs on threads of its own, and the caller's is blocked while it waits.
///
/// Any thread may ask, also one of an asynchronous runtime, which then does nothing else meanwhile.
#[derive(Debug)]
pub struct BlockingBatches {
    // Dropped first, so that the query is stopped before its threads are.
    batches: Batches,
    _runtime: Background,
}

impl BlockingBatches {
    pub(super) fn start<F>(begin: F) -> Result<Self>
    where
        F: Future<Output = Result<Batches>> + Send + 'static,
    {
        let runtime = Background::try_new()?;
        let begun = runtime.0.as_ref().map(|runtime| runtime.spawn(begin));
        let batches = match begun {
            Some(begun) => wait(begun).map_err(Error::engine)??,
            None => return Err(Error::engine("there is no runtime")),
        };
        Ok(BlockingBatches { batches, _runtime: runtime })
    }

    /// As [`Batches::schema`].
    pub fn schema(&self) -> Option<&TensorDictSchema> {
        self.batches.schema()
    }

    /// As [`Batches::state`].
    pub fn state(&self) -> LoaderState {
        self.batches.state()
    }

    /// As [`Batches::metrics`].
    pub fn metrics(&self) -> LoaderMetrics {
        self.batches.metrics()
    }
}

impl Iterator for BlockingBatches {
    type Item = Result<TensorDict>;

    fn next(&mut self) -> Option<Self::Item> {
        wait(self.batches.next())
    }
}

/// A runtime that may be dropped anywhere: tokio's own panics where a thread must not block.
#[derive(Debug)]
struct Background(Option<Runtime>);

impl Background {
    fn try_new() -> Result<Self> {
        let runtime = Builder::new_multi_thread().thread_name("tensorquery-loader").build().map_err(Error::engine)?;
        Ok(Background(Some(runtime)))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks until it is ready. What is waited for runs on the runtime's threads, so any thread may wait, where tokio's
/// and futures' own ways panic on threads that belong to a runtime.
fn wait<F: Future>(future: F) -> F::Output {
    // On a runtime's thread a channel gives way after so many messages, and is woken when the thread gets back to the
    // runtime: never, while it waits here.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
