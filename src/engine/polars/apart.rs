//! Where queries run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use tokio::runtime::Handle;

use crate::error::{Error, Result};

/// Plans are walked by recursion, so a thread of ours has the stack of a program's first.
const STACK: usize = 8 << 20;

/// Starts `work` on a thread of its own.
///
/// # Errors
///
/// The system has no thread left.
pub(super) fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    thread::Builder::new().name("tensorquery-polars".to_owned()).stack_size(STACK).spawn(work).map_err(Error::engine)
}

/// What `work` gives.
///
/// Polars blocks the thread that runs a query, and panics if that belongs to an asynchronous runtime: then a thread of
/// ours does it. All others do it themselves. Above all Polars' own, on which a function of the user's may ask: it
/// would wait for us while we wait for its pool.
///
/// # Errors
///
/// A panic in `work`; the system has no thread left.
pub(super) fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    match Handle::try_current() {
        Ok(_) => start(work)?.join(),
        Err(_) => catch_unwind(AssertUnwindSafe(work)),
    }
    .map_err(Error::panicked)
}
