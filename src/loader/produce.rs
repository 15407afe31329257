//! The task that computes batches ahead.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc::Sender;

use super::cut::Cut;
use super::metrics::Counters;
use super::shard::Dealer;
use super::source::RecordBatches;
use crate::convert::Converter;
use crate::dict::TensorDict;
use crate::error::{Error, Result};

/// What the task tells the training loop.
#[derive(Debug)]
pub(super) enum Message {
    Batch {
        dict: TensorDict,
        rows: u64,
    },
    Failed(Error),
    /// Said, so that a task that was stopped isn't taken for an epoch that ended.
    End,
}

pub(super) struct Producer {
    pub(super) input: RecordBatches,
    pub(super) converter: Arc<Converter>,
    pub(super) dealer: Option<Dealer>,
    /// Rows still to leave out: those of batches that were taken before.
    pub(super) skip: u64,
    pub(super) cut: Cut,
    pub(super) drop_last: bool,
    /// Rows of this epoch in batches made so far, skipped ones included.
    pub(super) rows: u64,
    /// Whether a row's number means anything: the same row has it in each run.
    pub(super) numbered: bool,
    pub(super) counters: Arc<Counters>,
    pub(super) sender: Sender<Message>,
}

/// Nobody takes batches any more.
struct Gone;

enum Stop {
    Gone,
    Failed(Error),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Stop::Gone
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

impl Producer {
    /// Runs to the epoch's end, to the first error, or until nobody takes batches any more.
    pub(super) async fn run(self) {
        let sender = self.sender.clone();
        // After a panic nothing of the query is touched again but to drop it.
        let done = AssertUnwindSafe(self.produce()).catch_unwind().await;
        let last = match done {
            Ok(Ok(())) => Message::End,
            Ok(Err(Stop::Gone)) => return,
            Ok(Err(Stop::Failed(error))) => Message::Failed(error),
            Err(panic) => Message::Failed(Error::panicked(panic)),
        };
        // An error here says that nobody listens.
        sender.send(last).await.ok();
    }

    async fn produce(mut self) -> Result<(), Stop> {
        while let Some(batch) = self.input.next().await {
            let batch = batch?;
            match &mut self.dealer {
                Some(dealer) => {
                    for part in dealer.deal(&batch)? {
                        self.push(part);
                    }
                }
                None => self.push(batch),
            }
            self.send_full().await?;
        }
        if let Some(part) = self.dealer.as_mut().and_then(Dealer::end) {
            self.push(part);
            self.send_full().await?;
        }
        if !self.drop_last
            && let Some(rest) = self.cut.rest()
        {
            self.send(rest).await?;
        }
        Ok(())
    }

    fn push(&mut self, part: RecordBatch) {
        let rows = part.num_rows();
        match usize::try_from(self.skip) {
            Ok(skip) if skip < rows => {
                self.skip = 0;
                self.cut.push(part.slice(skip, rows - skip));
            }
            _ => self.skip -= rows as u64,
        }
    }

    async fn send_full(&mut self) -> Result<(), Stop> {
        while let Some(group) = self.cut.next_full() {
            self.send(group).await?;
        }
        Ok(())
    }

    /// Waits for a place first, then makes the batch: no more of them exist than there are places.
    async fn send(&mut self, group: Vec<RecordBatch>) -> Result<(), Stop> {
        let asked = Instant::now();
        let place = self.sender.reserve().await.map_err(|_| Gone)?;
        self.counters.producer_waited(asked.elapsed());
        let rows = group.iter().map(|batch| batch.num_rows() as u64).sum();
        let before = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let (dict, receipt) = self.converter.convert(group).map_err(|error| match self.numbered {
            true => error.after_rows(before),
            false => error.without_row(),
        })?;
        self.rows += rows;
        self.counters.made(rows, &receipt);
        place.send(Message::Batch { dict, rows });
        Ok(())
    }
}
