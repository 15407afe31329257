//! Ctrl-C: stops the running query; with none running, or a second time, ends the process.

use std::future::Future;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

use super::failure::{Failure, Stopped};

/// What shells expect of a process that Ctrl-C ended.
pub(crate) const EXIT_CODE: u8 = 130;

/// How long stopped work may take to end before nobody waits for it.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// Whether there is work to stop.
static RUNNING: AtomicBool = AtomicBool::new(false);
/// Tells who waits for the work.
static STOP: Notify = Notify::const_new();
/// Tells work that writes: it is not stopped while it does.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Takes over Ctrl-C for the rest of the process, on a thread of its own: the query may keep all
/// others busy.
pub(crate) fn listen() -> Result<(), Failure> {
    let unable = |error: io::Error| Failure::new("io", format!("can't listen for Ctrl-C: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(unable)?;
    thread::Builder::new().spawn(move || runtime.block_on(stop_or_exit())).map_err(unable)?;
    Ok(())
}

async fn stop_or_exit() {
    while tokio::signal::ctrl_c().await.is_ok() {
        if !RUNNING.swap(false, Ordering::Relaxed) {
            std::process::exit(EXIT_CODE.into());
        }
        STOPPED.store(true, Ordering::Relaxed);
        STOP.notify_waiters();
    }
}

/// Runs `work` so that Ctrl-C stops it.
pub(crate) async fn stoppable<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let stop = STOP.notified();
    STOPPED.store(false, Ordering::Relaxed);
    RUNNING.store(true, Ordering::Relaxed);
    let mut task = tokio::spawn(work);
    let done = tokio::select! {
        () = stop => None,
        done = &mut task => Some(done),
    };
    RUNNING.store(false, Ordering::Relaxed);
    match done {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(Failure::new("engine", format!("the query's task failed: {error}"))),
        None => {
            task.abort();
            // What it leaves behind, files and a line on the terminal, goes first if it goes soon.
            let _stopped = tokio::time::timeout(GRACE, task).await;
            Err(Failure::Interrupted)
        }
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
