//! Which rows of an epoch are one rank's.

use arrow::array::{RecordBatch, UInt64Array};
use arrow::compute::take_record_batch;

use crate::error::{Error, Result};

/// What happens to the rows at an epoch's end that there aren't enough of for every rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remainder {
    /// The first ranks get one row more. Each row goes to exactly one rank.
    #[default]
    Keep,
    /// Nobody gets them. All ranks have as many rows, and batches.
    Drop,
    /// The other ranks get the epoch's first row again. All ranks have as many rows, and batches; of an epoch without
    /// rows, none.
    Pad,
}

impl Remainder {
    pub(super) fn word(self) -> &'static str {
        match self {
            Remainder::Keep => "keep",
            Remainder::Drop => "drop",
            Remainder::Pad => "pad",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(super) rank: u64,
    pub(super) world_size: u64,
    pub(super) remainder: Remainder,
}

impl Shard {
    pub(super) fn ensure_valid(self) -> Result<()> {
        if self.rank < self.world_size {
            return Ok(());
        }
        let message = format!("rank {} is none of {} ranks", self.rank, self.world_size);
        Err(Error::option(message).remedy("ranks count from 0, and there is at least one"))
    }

    /// How many of `total` rows are this rank's when they are dealt in rounds.
    pub(super) fn rows_of(self, total: u64) -> u64 {
        let over = total % self.world_size;
        let more = match self.remainder {
            Remainder::Keep => self.rank < over,
            Remainder::Drop => false,
            Remainder::Pad => over > 0,
        };
        total / self.world_size + u64::from(more)
    }
}

/// Deals the rows of an epoch in rounds: row `i` is rank `i % world_size`'s.
#[derive(Debug)]
pub(super) struct Dealer {
    shard: Shard,
    seen: u64,
    /// Our row of the last round, while it isn't known whether the round becomes full.
    held: Option<RecordBatch>,
    first: Option<RecordBatch>,
}

impl Dealer {
    pub(super) fn new(shard: Shard) -> Self {
        Dealer { shard, seen: 0, held: None, first: None }
    }

    /// Our rows of the next batch, and of those before what was held back.
    pub(super) fn deal(&mut self, batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let Shard { rank, world_size, remainder } = self.shard;
        let rows = batch.num_rows() as u64;
        if rows == 0 {
            return Ok(Vec::new());
        }
        if remainder == Remainder::Pad && self.first.is_none() {
            self.first = Some(take_record_batch(batch, &UInt64Array::from(vec![0]))?);
        }
        let start = self.seen;
        self.seen += rows;
        let into_round = start % world_size;
        let skipped = (rank + world_size - into_round) % world_size;
        let step = usize::try_from(world_size).unwrap_or(usize::MAX);
        let mut ours: Vec<u64> = match skipped < rows {
            true => (skipped..rows).step_by(step).collect(),
            false => Vec::new(),
        };
        let mut dealt = Vec::new();
        let round = |row: u64| (start + row) / world_size;
        let full_rounds = self.seen / world_size;
        // The held row is of the round that was open when the batch began.
        if self.held.is_some() && round(0) < full_rounds {
            dealt.extend(self.held.take());
        }
        let open = match ours.last() {
            Some(row) if remainder == Remainder::Drop && round(*row) >= full_rounds => ours.pop(),
            _ => None,
        };
        if !ours.is_empty() {
            dealt.push(take_record_batch(batch, &UInt64Array::from(ours))?);
        }
        if let Some(row) = open {
            self.held = Some(take_record_batch(batch, &UInt64Array::from(vec![row]))?);
        }
        Ok(dealt)
    }

    /// What is still ours when there are no more rows.
    pub(super) fn end(&mut self) -> Option<RecordBatch> {
        let Shard { rank, world_size, remainder } = self.shard;
        let over = self.seen % world_size;
        (remainder == Remainder::Pad && over > 0 && rank >= over).then(|| self.first.take()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn rows_of(total: i64, size: i64, rank: u64, world_size: u64, remainder: Remainder) -> Vec<i64> {
        let mut dealer = Dealer::new(Shard { rank, world_size, remainder });
        let mut dealt = Vec::new();
        for start in (0..total).step_by(size as usize) {
            let ids = Int64Array::from_iter_values(start..total.min(start + size));
            let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as Arc<dyn Array>)]).unwrap();
            dealt.extend(dealer.deal(&batch).unwrap());
        }
        dealt.extend(dealer.end());
        dealt.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    #[test]
    fn each_row_is_dealt_as_its_place_says() {
        for total in [0, 1, 2, 3, 7, 24, 25] {
            for size in [1, 2, 5, 100] {
                for world in [1, 2, 3, 8] {
                    for rank in 0..world {
                        let of = |remainder| rows_of(total, size, rank as u64, world as u64, remainder);
                        let kept: Vec<i64> = (0..total).filter(|row| row % world == rank).collect();
                        assert_eq!(of(Remainder::Keep), kept);
                        let full = total / world;
                        assert_eq!(of(Remainder::Drop), kept[..full as usize]);
                        let mut padded = kept.clone();
                        if padded.len() < (total as usize).div_ceil(world as usize) {
                            padded.push(0);
                        }
                        assert_eq!(of(Remainder::Pad), padded, "{total} {size} {rank}/{world}");
                        for remainder in [Remainder::Keep, Remainder::Drop, Remainder::Pad] {
                            let shard = Shard { rank: rank as u64, world_size: world as u64, remainder };
                            assert_eq!(shard.rows_of(total as u64), of(remainder).len() as u64);
                        }
                    }
                }
            }
        }
    }
}
