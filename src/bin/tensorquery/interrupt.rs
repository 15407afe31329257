//! Ctrl-C: stops the running query; with none running, or a second time, ends the process.

use std::future::Future;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::task::AbortHandle;

use crate::failure::{Failure, Stopped};

/// What shells expect of a process that Ctrl-C ended.
pub(crate) const EXIT_CODE: u8 = 130;

static RUNNING: Mutex<Option<AbortHandle>> = Mutex::new(None);
/// A task is aborted where it waits; one that writes looks here instead.
static STOPPED: AtomicBool = AtomicBool::new(false);

fn set_running(handle: Option<AbortHandle>) -> Option<AbortHandle> {
    std::mem::replace(&mut *RUNNING.lock().unwrap_or_else(PoisonError::into_inner), handle)
}

/// Takes over Ctrl-C for the rest of the process.
pub(crate) async fn listen() -> Result<(), Failure> {
    tokio::spawn(async {
        while tokio::signal::ctrl_c().await.is_ok() {
            STOPPED.store(true, Ordering::Relaxed);
            match set_running(None) {
                Some(running) => running.abort(),
                None => std::process::exit(EXIT_CODE.into()),
            }
        }
    });
    Ok(())
}

/// Runs `work` so that Ctrl-C stops it.
pub(crate) async fn stoppable<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    STOPPED.store(false, Ordering::Relaxed);
    let task = tokio::spawn(work);
    set_running(Some(task.abort_handle()));
    let done = task.await;
    set_running(None);
    match done {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(Failure::Interrupted),
        Err(error) => Err(Failure::new("engine", format!("the query's task failed: {error}"))),
    }
}

/// A writer that Ctrl-C stops.
pub(crate) struct StoppableWriter<W>(pub(crate) W);

impl<W: Write> Write for StoppableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if STOPPED.load(Ordering::Relaxed) { Err(io::Error::other(Stopped)) } else { self.0.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
