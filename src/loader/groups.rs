//! What a stream has read of a query and not converted yet.

use arrow::array::RecordBatch;

use super::Batcher;

/// Record batches in, as they come; the groups to convert out. Ends once, and gives nothing after an error.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    batcher: Option<Batcher>,
    /// Without a batcher, each record batch is a group.
    whole: Option<RecordBatch>,
    ended: bool,
}

impl Groups {
    /// Groups of exactly `rows` rows from here on, rows that wait included; the last perhaps of fewer. 0 counts as 1.
    pub(crate) fn with_size(mut self, rows: usize) -> Self {
        match &mut self.batcher {
            Some(batcher) => batcher.set_size(rows),
            none => *none = Some(Batcher::new(rows)),
        }
        self.whole.take().into_iter().for_each(|batch| self.push(batch));
        self
    }

    pub(crate) fn push(&mut self, batch: RecordBatch) {
        match &mut self.batcher {
            Some(batcher) => batcher.push(batch),
            None => self.whole = (batch.num_rows() > 0).then_some(batch),
        }
    }

    /// Nothing more comes; what is left is the last group.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Nothing more comes, and what is left is not wanted.
    pub(crate) fn fail(&mut self) {
        *self = Groups { batcher: None, whole: None, ended: true };
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// The next group, if there is one without reading on.
    pub(crate) fn next_ready(&mut self) -> Option<Vec<RecordBatch>> {
        match &mut self.batcher {
            Some(batcher) => {
                let full = batcher.next_full();
                if full.is_none() && self.ended { batcher.rest() } else { full }
            }
            None => self.whole.take().map(|batch| vec![batch]),
        }
    }
}
