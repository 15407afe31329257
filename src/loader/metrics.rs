//! What an epoch has cost so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::convert::Receipt;

/// What an epoch has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoaderMetrics {
    /// Batches made, those that wait to be taken included.
    pub batches: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of tensors that were written anew.
    pub bytes_copied: u64,
    /// Bytes of tensors that are the engine's own memory.
    pub bytes_viewed: u64,
    /// How long the training loop waited for batches. Where this grows, the query is the bottleneck.
    pub consumer_wait: Duration,
    /// How long batches waited to be taken. Where this grows, the training loop is the bottleneck.
    pub producer_wait: Duration,
}

/// The same, written to by two sides.
#[derive(Debug, Default)]
pub(super) struct Counters {
    batches: AtomicU64,
    rows: AtomicU64,
    bytes_copied: AtomicU64,
    bytes_viewed: AtomicU64,
    consumer_nanos: AtomicU64,
    producer_nanos: AtomicU64,
}

impl Counters {
    pub(super) fn made(&self, rows: u64, receipt: &Receipt) {
        add(&self.batches, 1);
        add(&self.rows, rows);
        add(&self.bytes_copied, receipt.bytes_copied() as u64);
        add(&self.bytes_viewed, receipt.bytes_viewed() as u64);
    }

    pub(super) fn consumer_waited(&self, time: Duration) {
        add(&self.consumer_nanos, nanos(time));
    }

    pub(super) fn producer_waited(&self, time: Duration) {
        add(&self.producer_nanos, nanos(time));
    }

    pub(super) fn read(&self) -> LoaderMetrics {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LoaderMetrics {
            batches: of(&self.batches),
            rows: of(&self.rows),
            bytes_copied: of(&self.bytes_copied),
            bytes_viewed: of(&self.bytes_viewed),
            consumer_wait: Duration::from_nanos(of(&self.consumer_nanos)),
            producer_wait: Duration::from_nanos(of(&self.producer_nanos)),
        }
    }
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
