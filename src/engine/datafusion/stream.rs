//! Tensordicts as a query computes them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt};
use tch::Device;
use tokio::task::JoinHandle;

use crate::convert::Converter;
use crate::dict::TensorDict;
use crate::error::{Error, Result};
use crate::loader::Groups;
use crate::options::Options;
use crate::schema::TensorDictSchema;

/// A query's result as a stream of tensordicts, each converted when it is asked for.
///
/// They have the same keys throughout. Without a [batch size](Self::with_batch_size) they are as large
/// as the engine's record batches. An error ends the stream. Dropping it stops the query.
///
/// On the CPU the conversion runs where the stream is polled, as an operator's work does; moves to
/// another device run on a thread for blocking work.
pub struct TensorDictStream {
    input: SendableRecordBatchStream,
    converter: Arc<Converter>,
    groups: Groups,
    moves: bool,
    moving: Option<JoinHandle<Result<TensorDict>>>,
}

impl TensorDictStream {
    /// `options` are those left once nulls are ruled on.
    pub(super) fn try_new(input: SendableRecordBatchStream, options: &Options) -> Result<Self> {
        let converter = Arc::new(Converter::streaming(&input.schema(), options)?);
        let moves = options.target_device().is_some_and(|device| device != Device::Cpu);
        Ok(TensorDictStream { input, converter, groups: Groups::default(), moves, moving: None })
    }

    /// Tensordicts of exactly `rows` rows each, the last perhaps of fewer. 0 counts as 1.
    ///
    /// Rows of one record batch are cut out of it, rows of several are put together; each row is
    /// copied at most once. In the midst of a stream, it holds for the rows that come.
    #[must_use]
    pub fn with_batch_size(mut self, rows: usize) -> Self {
        self.groups = self.groups.with_size(rows);
        self
    }

    /// What each tensordict holds, known before the first comes.
    pub fn schema(&self) -> &TensorDictSchema {
        self.converter.schema()
    }

    /// The next chunks to convert together, or `None` at the end.
    fn poll_chunks(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<RecordBatch>>>> {
        loop {
            if let Some(group) = self.groups.next_ready() {
                return Poll::Ready(Some(Ok(group)));
            }
            if self.groups.is_ended() {
                return Poll::Ready(None);
            }
            match ready!(self.poll_input(cx)) {
                None => self.groups.end(),
                Some(Ok(batch)) => self.groups.push(batch),
                Some(Err(error)) => {
                    self.groups.fail();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    /// The engine's next batch. A panic in a function of the query is the query's error, as it is where
    /// the function runs in a task of its own.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        // After a panic the input is not polled again, so nobody sees the state that it was left in.
        match catch_unwind(AssertUnwindSafe(|| self.input.poll_next_unpin(cx))) {
            Ok(polled) => polled.map_err(Error::from),
            Err(panic) => Poll::Ready(Some(Err(Error::panicked(panic)))),
        }
    }
}

impl Stream for TensorDictStream {
    type Item = Result<TensorDict>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.moving.is_none() {
            let chunks = match ready!(self.poll_chunks(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(chunks)) => chunks,
            };
            let converter = Arc::clone(&self.converter);
            let convert = move || converter.convert(chunks).map(|(dict, _)| dict);
            if !self.moves {
                let converted = convert();
                if converted.is_err() {
                    self.groups.fail();
                }
                return Poll::Ready(Some(converted));
            }
            self.moving = Some(tokio::task::spawn_blocking(convert));
        }
        let Some(moving) = &mut self.moving else {
            return Poll::Ready(None);
        };
        let moved = ready!(Pin::new(moving).poll(cx)).unwrap_or_else(|error| Err(Error::engine(error)));
        self.moving = None;
        if moved.is_err() {
            self.groups.fail();
        }
        Poll::Ready(Some(moved))
    }
}

impl fmt::Debug for TensorDictStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorDictStream").field("schema", self.schema()).finish_non_exhaustive()
    }
}
