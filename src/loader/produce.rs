//! The task that computes batches ahead.

use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc::Sender;

use super::collate::Collate;
use super::cut::Cut;
use super::metrics::Counters;
use super::shard::Dealer;
use super::source::{BatchSource, Charge, Chunk, Mark};
use super::window::Shuffle;
use crate::dict::TensorDict;
use crate::error::{Error, Result};

/// What the task tells the training loop.
pub(super) enum Message {
    Batch {
        dict: TensorDict,
        rows: u64,
        /// Where to read on after it.
        mark: Option<Mark>,
        /// Of the memory that it takes while it waits.
        charge: Box<dyn Charge>,
    },
    Failed(Error),
    /// Said, so that a task that was stopped isn't taken for an epoch that ended.
    End,
}

pub(super) struct Producer {
    pub(super) source: Arc<dyn BatchSource>,
    pub(super) input: BoxStream<'static, Result<Chunk>>,
    pub(super) dealer: Option<Dealer>,
    pub(super) shuffle: Option<Shuffle>,
    /// Rows still to leave out before they are cut: those of batches that were taken before.
    pub(super) skip: u64,
    pub(super) cut: Cut,
    /// Rows to leave out after that, in whole batches: those of a window that is grouped.
    pub(super) skip_cut: u64,
    /// How many rows a window has that is grouped.
    pub(super) grouped: Option<u64>,
    pub(super) collate: Collate,
    pub(super) drop_last: bool,
    /// Rows of this epoch in batches made so far, skipped ones included.
    pub(super) rows: u64,
    /// Where the windows began that are shuffled and not yet all taken, in order.
    pub(super) marks: VecDeque<Mark>,
    /// Whether a row's number means anything: the same row has it in each run.
    pub(super) numbered: bool,
    pub(super) counters: Arc<Counters>,
    /// Of the rows in windows.
    pub(super) held: Box<dyn Charge>,
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
        while let Some(chunk) = self.input.next().await {
            let chunk = chunk?;
            match &mut self.dealer {
                Some(dealer) => {
                    for rows in dealer.deal(&chunk.rows)? {
                        self.take(rows.into()).await?;
                    }
                }
                None => self.take(chunk).await?,
            }
        }
        if let Some(rows) = self.dealer.as_mut().and_then(Dealer::end) {
            self.take(rows.into()).await?;
        }
        self.shuffled(true).await?;
        self.cut.end()?;
        self.send_full().await?;
        if !self.drop_last
            && let Some(rest) = self.cut.rest()?
        {
            self.send(rest).await?;
        }
        Ok(())
    }

    async fn take(&mut self, chunk: Chunk) -> Result<(), Stop> {
        match &mut self.shuffle {
            Some(shuffle) => {
                shuffle.push(chunk);
                self.account()?;
                self.shuffled(false).await
            }
            None => {
                self.push(chunk.rows)?;
                self.send_full().await
            }
        }
    }

    /// Sends what is in windows that are full; at the end, what is left.
    async fn shuffled(&mut self, ended: bool) -> Result<(), Stop> {
        while let Some(shuffle) = &mut self.shuffle
            && let Some((rows, began)) = shuffle.next(ended)?
        {
            self.marks.extend(began);
            self.push(rows)?;
            self.send_full().await?;
        }
        Ok(())
    }

    fn push(&mut self, rows: RecordBatch) -> Result<()> {
        let count = rows.num_rows();
        match usize::try_from(self.skip) {
            Ok(skip) if skip < count => {
                self.skip = 0;
                self.cut.push(rows.slice(skip, count - skip))?;
            }
            _ => self.skip -= count as u64,
        }
        self.account()
    }

    fn account(&mut self) -> Result<()> {
        let shuffled = self.shuffle.as_ref().map_or(0, Shuffle::bytes);
        self.held.resize(shuffled + self.cut.bytes())
    }

    async fn send_full(&mut self) -> Result<(), Stop> {
        while let Some(group) = self.cut.next_full()? {
            self.send(group).await?;
        }
        Ok(())
    }

    /// Waits for a place first, then makes the batch: no more of them exist than there are places.
    async fn send(&mut self, group: Vec<RecordBatch>) -> Result<(), Stop> {
        let rows = group.iter().map(|batch| batch.num_rows() as u64).sum();
        if self.skip_cut > 0 {
            self.skip_cut = self.skip_cut.saturating_sub(rows);
            return Ok(());
        }
        let asked = Instant::now();
        let sender = self.sender.clone();
        let place = sender.reserve().await.map_err(|_| Gone)?;
        self.counters.producer_waited(asked.elapsed());
        let before = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let mut made = self.source.make(group).map_err(|error| match self.numbered {
            true => error.after_rows(before),
            false => error.without_row(),
        })?;
        let mut charge = self.source.charge();
        let (dict, waste) = self.collate.apply(std::mem::take(&mut made.dict))?;
        charge.resize(usize::try_from(made.bytes_copied + made.bytes_viewed + waste.bytes).unwrap_or(usize::MAX))?;
        self.rows += rows;
        self.counters.made(rows, &made, waste);
        let mark = self.mark();
        place.send(Message::Batch { dict, rows, mark, charge });
        Ok(())
    }

    /// Where to read on after the rows sent so far: the beginning of the window that the next batch begins in.
    fn mark(&mut self) -> Option<Mark> {
        let needed = self.grouped.map_or(self.rows, |window| self.rows - self.rows % window);
        while self.marks.get(1).is_some_and(|next| next.rows <= needed) {
            self.marks.pop_front();
        }
        self.marks.front().copied()
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("rows", &self.rows).finish_non_exhaustive()
    }
}
