//! How far a query has come, on a terminal that waits for more than a moment.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// A line on stderr while it lives.
pub(crate) struct Meter(Option<(ProgressBar, JoinHandle<()>)>);

impl Meter {
    pub(crate) fn start(visible: bool) -> Self {
        if !visible {
            return Meter(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message("running");
        let late = bar.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            late.set_draw_target(ProgressDrawTarget::stderr());
            late.enable_steady_tick(TICK);
        });
        Meter(Some((bar, task)))
    }

    pub(crate) fn update(&self, rows: u64, batches: u64) {
        if let Some((bar, _)) = &self.0 {
            bar.set_message(format!("{rows} rows in {batches} batches"));
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some((bar, task)) = &self.0 {
            task.abort();
            bar.finish_and_clear();
        }
    }
}
