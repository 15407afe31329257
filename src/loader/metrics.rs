//! What an epoch has cost so far.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::collate::Waste;
use super::source::Made;

/// What an epoch has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoaderMetrics {
    /// Batches made, those that wait to be taken included.
    pub batches: u64,
    /// Rows in them.
    pub rows: u64,
    /// Rows that will have been in batches at the end, where that is known beforehand: of row groups without a filter and
    /// of tensordicts. After resuming, those that were left.
    pub expected_rows: Option<u64>,
    /// How long ago the epoch began.
    pub elapsed: Duration,
    /// Bytes of tensors that were written anew.
    pub bytes_copied: u64,
    /// Bytes of tensors that are the engine's own memory.
    pub bytes_viewed: u64,
    /// Elements that padding has added, see [`Collate::Padded`](super::Collate::Padded).
    pub padding: u64,
    /// All elements in padded tensors, padding included.
    pub padded: u64,
    /// Bytes that the engine has read from files so far. What it doesn't count isn't in here: it counts those of Parquet.
    pub bytes_read: u64,
    /// How long the training loop waited for batches. Where this grows, the query is the bottleneck.
    pub consumer_wait: Duration,
    /// How long batches waited to be taken. Where this grows, the training loop is the bottleneck.
    pub producer_wait: Duration,
}

impl LoaderMetrics {
    /// Rows per second since the epoch began; before there are any, 0.
    pub fn rows_per_second(&self) -> f64 {
        if self.elapsed.is_zero() { 0.0 } else { self.rows as f64 / self.elapsed.as_secs_f64() }
    }

    /// How long the rest takes at this rate, where it is known how much is left.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.expected_rows?.saturating_sub(self.rows);
        Duration::try_from_secs_f64(left as f64 / self.rows_per_second()).ok()
    }

    /// The share of padding in padded tensors, from 0 to 1; without any, 0.
    pub fn padding_share(&self) -> f64 {
        if self.padded == 0 { 0.0 } else { self.padding as f64 / self.padded as f64 }
    }
}

/// A line to show while an epoch runs.
///
/// ```text
/// 51200 of 335220 rows, 200 batches, 98304 rows/s, 2.9s left, waited 310ms for batches, they 12ms, 18% padding
/// ```
impl fmt::Display for LoaderMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rows)?;
        if let Some(expected) = self.expected_rows {
            write!(f, " of {expected}")?;
        }
        write!(f, " rows, {} batches, {:.0} rows/s", self.batches, self.rows_per_second())?;
        if let Some(left) = self.time_left() {
            write!(f, ", {left:.1?} left")?;
        }
        write!(f, ", waited {:.0?} for batches, they {:.0?}", self.consumer_wait, self.producer_wait)?;
        if self.padded > 0 {
            write!(f, ", {:.0}% padding", self.padding_share() * 100.0)?;
        }
        Ok(())
    }
}

/// The same, written to by two sides.
#[derive(Debug)]
pub(super) struct Counters {
    began: Instant,
    expected_rows: Option<u64>,
    batches: AtomicU64,
    rows: AtomicU64,
    bytes_copied: AtomicU64,
    bytes_viewed: AtomicU64,
    padding: AtomicU64,
    padded: AtomicU64,
    consumer_nanos: AtomicU64,
    producer_nanos: AtomicU64,
}

impl Counters {
    pub(super) fn new(expected_rows: Option<u64>) -> Self {
        Counters {
            began: Instant::now(),
            expected_rows,
            batches: AtomicU64::default(),
            rows: AtomicU64::default(),
            bytes_copied: AtomicU64::default(),
            bytes_viewed: AtomicU64::default(),
            padding: AtomicU64::default(),
            padded: AtomicU64::default(),
            consumer_nanos: AtomicU64::default(),
            producer_nanos: AtomicU64::default(),
        }
    }

    pub(super) fn made(&self, rows: u64, made: &Made, waste: Waste) {
        add(&self.batches, 1);
        add(&self.rows, rows);
        add(&self.bytes_copied, made.bytes_copied + waste.bytes);
        add(&self.bytes_viewed, made.bytes_viewed);
        add(&self.padding, waste.padding);
        add(&self.padded, waste.padded);
    }

    pub(super) fn consumer_waited(&self, time: Duration) {
        add(&self.consumer_nanos, nanos(time));
    }

    pub(super) fn producer_waited(&self, time: Duration) {
        add(&self.producer_nanos, nanos(time));
    }

    pub(super) fn read(&self, bytes_read: u64) -> LoaderMetrics {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LoaderMetrics {
            batches: of(&self.batches),
            rows: of(&self.rows),
            expected_rows: self.expected_rows,
            elapsed: self.began.elapsed(),
            bytes_copied: of(&self.bytes_copied),
            bytes_viewed: of(&self.bytes_viewed),
            padding: of(&self.padding),
            padded: of(&self.padded),
            bytes_read,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_a_line_with_what_is_known() {
        let mut metrics =
            LoaderMetrics { batches: 2, rows: 500, elapsed: Duration::from_secs(2), ..Default::default() };
        assert_eq!(metrics.to_string(), "500 rows, 2 batches, 250 rows/s, waited 0ns for batches, they 0ns");
        metrics.expected_rows = Some(1000);
        metrics.consumer_wait = Duration::from_millis(310);
        (metrics.padding, metrics.padded) = (18, 100);
        let line =
            "500 of 1000 rows, 2 batches, 250 rows/s, 2.0s left, waited 310ms for batches, they 0ns, 18% padding";
        assert_eq!(metrics.to_string(), line);
        // Without rows there is no rate, and no end in sight.
        let begun = LoaderMetrics { expected_rows: Some(3), ..Default::default() };
        assert_eq!(begun.time_left(), None);
        assert_eq!(begun.rows_per_second(), 0.0);
    }
}
