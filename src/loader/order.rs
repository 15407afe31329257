//! The order of an epoch's rows.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array, make_comparator};
use arrow::compute::{CastOptions, SortOptions, cast_with_options};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use serde_json::{Value, json};
use twox_hash::XxHash64;

use crate::error::{Error, Result};

/// The order in which the rows of an epoch come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// As the query computes them. It is the fastest, and differs from run to run where several threads compute: there
    /// are no shards of it, and no resuming.
    #[default]
    AsComputed,
    /// As they are stored, epoch after epoch. Scans, filters and projections of Parquet files read as many row groups at
    /// a time as the session has partitions (`target_partitions`); without a filter, resuming skips those that are done.
    /// Other queries run in one partition, so with one thread; plans in which that doesn't fix the order (joins, groups,
    /// sorts, tables in several partitions) are refused.
    AsStored,
    /// All rows in random order, another each epoch: any order is as likely as any other, as far as a 64-bit hash
    /// goes. The engine sorts the whole result by the hash before the first batch comes, with all its threads, and
    /// spills to disk what its memory pool has no room for.
    ///
    /// Make it with [`Order::shuffled`].
    #[non_exhaustive]
    Shuffled {
        /// Of the same seed and epoch comes the same order.
        seed: u64,
        /// Columns of the result that together are unique: the identity of a row.
        keys: Vec<String>,
    },
    /// Row groups of Parquet files in random order, and their rows shuffled a window at a time: as they are read,
    /// without a sort.
    ///
    /// Make it with [`Order::streamed`].
    #[non_exhaustive]
    Streamed {
        /// Of the same seed and epoch comes the same order.
        seed: u64,
        /// How many rows are shuffled at a time.
        window: usize,
    },
    /// All rows of a tensordict in random order, another each epoch. A row's number is computed from its place, so it
    /// costs nothing but that reading jumps about.
    ///
    /// Make it with [`Order::permuted`].
    #[non_exhaustive]
    Permuted {
        /// Of the same seed and epoch comes the same order.
        seed: u64,
    },
}

impl Order {
    /// A shuffle of all rows by `seed`, the epoch, and `keys`: columns of the result that are unique together, of
    /// integers, booleans, strings, binaries, dates or times.
    ///
    /// A row's place depends on these alone, so it is the same whatever the number of threads, files or partitions.
    /// The hash is XXH64, over the seed, the epoch and each key, and will stay so. Rows of equal keys are an error when
    /// they come.
    pub fn shuffled<K: Into<String>>(seed: u64, keys: impl IntoIterator<Item = K>) -> Self {
        Order::Shuffled { seed, keys: keys.into_iter().map(Into::into).collect() }
    }

    /// A shuffle of what is read, as it is read: the row groups of all files in random order by `seed` and the epoch,
    /// and each `window` rows that come of them (0 counts as 1) in random order. Queries must be scans, filters and
    /// projections of Parquet files.
    ///
    /// How random it is: a row's neighbours in a batch are from as many row groups as a window holds, which are random
    /// ones; two rows of one row group are seldom far apart. A window should be of many row groups where rows that are
    /// stored together are alike. Files of few row groups are hardly shuffled beyond it.
    ///
    /// What it costs: the first batch waits for the first window, whose rows are held in memory, and each row is copied
    /// once more. As many row groups are read at a time as the session has partitions (`target_partitions`); the order
    /// doesn't depend on it, nor on the size of record batches. It does on how files are cut into row groups, and on
    /// their names' order.
    ///
    /// A rank reads its own part of the row groups in their order, and at most two groups with others. Resuming reads
    /// what is left, and the window that it is in the middle of; under a filter, the row group that this one began in
    /// too.
    pub fn streamed(seed: u64, window: usize) -> Self {
        Order::Streamed { seed, window: window.max(1) }
    }

    /// A shuffle of a tensordict's rows by `seed` and the epoch: an exact permutation of their numbers.
    pub fn permuted(seed: u64) -> Self {
        Order::Permuted { seed }
    }

    /// As it is written in Rust.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Order::AsComputed => "AsComputed",
            Order::AsStored => "AsStored",
            Order::Shuffled { .. } => "shuffled",
            Order::Streamed { .. } => "streamed",
            Order::Permuted { .. } => "permuted",
        }
    }

    /// Orders that aren't random have the seed 0 for what else is.
    pub(super) fn seed(&self) -> u64 {
        match self {
            Order::AsComputed | Order::AsStored => 0,
            Order::Shuffled { seed, .. } | Order::Streamed { seed, .. } | Order::Permuted { seed } => *seed,
        }
    }

    /// What must be the same for an epoch to be the same.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Order::AsComputed => json!("as computed"),
            Order::AsStored => json!("as stored"),
            Order::Shuffled { seed, keys } => json!({"seed": seed, "keys": keys}),
            Order::Streamed { seed, window } => json!({"seed": seed, "window": window}),
            Order::Permuted { seed } => json!({"seed": seed}),
        }
    }
}

/// Whether a column of this type can be a part of a row's identity.
pub(crate) fn is_key_type(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_temporal() && !matches!(data_type, DataType::Interval(_))
        || data_type.is_string()
        || matches!(data_type, DataType::Boolean | DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// A number per row, by which an epoch is sorted.
///
/// It starts from XXH64 of the epoch's eight bytes, seeded with `seed`; each key is hashed in turn, seeded with what
/// came before: nothing for a null, else the byte 1 and the value: bytes as they are, all else as a 64-bit integer. Numbers
/// are little-endian.
pub(crate) fn shuffle_keys(seed: u64, epoch: u64, keys: &[ArrayRef], rows: usize) -> Result<UInt64Array> {
    let start = XxHash64::oneshot(seed, &epoch.to_le_bytes());
    let mut hashes = vec![start; rows];
    let mut buffer = Vec::new();
    for key in keys {
        let key = plain(key)?;
        for (row, hash) in hashes.iter_mut().enumerate() {
            buffer.clear();
            if key.is_valid(row) {
                buffer.push(1);
                match key.data_type() {
                    DataType::LargeBinary => buffer.extend_from_slice(key.as_binary::<i64>().value(row)),
                    DataType::UInt64 => buffer.extend(key.as_primitive::<UInt64Type>().value(row).to_le_bytes()),
                    _ => buffer.extend(key.as_primitive::<Int64Type>().value(row).to_le_bytes()),
                }
            }
            *hash = XxHash64::oneshot(*hash, &buffer);
        }
    }
    Ok(hashes.into())
}

/// A key as one of the three types that are hashed.
fn plain(key: &ArrayRef) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = |key: &ArrayRef, to: &DataType| cast_with_options(key, to, &options);
    Ok(match key.data_type() {
        DataType::UInt64 => ArrayRef::clone(key),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            cast(&cast(key, &DataType::LargeUtf8)?, &DataType::LargeBinary)?
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => cast(key, &DataType::LargeBinary)?,
        // These are stored in 32 bits.
        DataType::Date32 | DataType::Time32(_) => cast(&cast(key, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(key, &DataType::Int64)?,
    })
}

/// Refuses two rows of one identity: nothing would say which comes first. Of sorted rows these are neighbours.
#[derive(Debug)]
pub(crate) struct DistinctRows {
    /// The places of the number that is sorted by, and of the keys.
    columns: Vec<usize>,
    names: Vec<String>,
    last: Option<RecordBatch>,
}

impl DistinctRows {
    pub(crate) fn new(columns: Vec<usize>, names: Vec<String>) -> Self {
        DistinctRows { columns, names, last: None }
    }

    pub(crate) fn check(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let compare = |left: &RecordBatch, right: &RecordBatch| {
            let pairs = self.columns.iter().map(|column| (left.column(*column), right.column(*column)));
            let compared = pairs.map(|(left, right)| make_comparator(left, right, SortOptions::default()));
            compared.collect::<Result<Vec<_>, _>>()
        };
        let within = compare(batch, batch)?;
        let equal = |row: usize| within.iter().all(|compare| compare(row - 1, row).is_eq());
        let mut repeated = (1..batch.num_rows()).any(equal);
        if let Some(last) = &self.last {
            repeated |= compare(last, batch)?.iter().all(|compare| compare(0, 0).is_eq());
        }
        if repeated {
            let message = format!("two rows have the same {:?}, so their order isn't fixed", self.names);
            return Err(Error::option(message).remedy("name columns that are unique together in `Order::shuffled`"));
        }
        // Taken, not sliced: a slice would keep the whole batch.
        let row = UInt64Array::from(vec![batch.num_rows() as u64 - 1]);
        self.last = Some(arrow::compute::take_record_batch(batch, &row)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, Date32Array, Int8Array, Int64Array, StringArray, StringViewArray};

    use super::*;

    /// The order of an epoch must outlive versions of all libraries.
    #[test]
    fn the_hash_is_xxh64() {
        assert_eq!(XxHash64::oneshot(0, b""), 0xef46_db37_51d8_e999);
        assert_eq!(XxHash64::oneshot(0, b"abc"), 0x44bc_2cf5_ad77_0999);
        let start = XxHash64::oneshot(7, &[3, 0, 0, 0, 0, 0, 0, 0]);
        let one = XxHash64::oneshot(start, &[1, 5, 0, 0, 0, 0, 0, 0, 0]);
        let two = XxHash64::oneshot(one, b"\x01ab");
        let null = XxHash64::oneshot(XxHash64::oneshot(start, b""), b"");
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), None]));
        assert_eq!(shuffle_keys(7, 3, &[ids, names], 2).unwrap().values(), &[two, null]);
    }

    #[test]
    fn the_hash_is_of_the_value_not_of_the_type() {
        let of = |key: ArrayRef| shuffle_keys(1, 2, &[key], 1).unwrap().value(0);
        let five = of(Arc::new(Int64Array::from(vec![5])));
        assert_eq!(of(Arc::new(Int8Array::from(vec![5]))), five);
        assert_eq!(of(Arc::new(UInt64Array::from(vec![5]))), five);
        assert_eq!(of(Arc::new(Date32Array::from(vec![5]))), five);
        assert_eq!(of(Arc::new(BooleanArray::from(vec![true]))), of(Arc::new(Int64Array::from(vec![1]))));
        assert_eq!(of(Arc::new(StringViewArray::from(vec!["x"]))), of(Arc::new(StringArray::from(vec!["x"]))));
        assert_ne!(five, shuffle_keys(1, 3, &[Arc::new(Int64Array::from(vec![5]))], 1).unwrap().value(0));
        assert_ne!(five, shuffle_keys(2, 2, &[Arc::new(Int64Array::from(vec![5]))], 1).unwrap().value(0));
    }

    #[test]
    fn equal_neighbours_are_refused_also_across_batches() {
        let batch = |ids: Vec<Option<i64>>| {
            RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(ids)) as ArrayRef)]).unwrap()
        };
        let mut rows = DistinctRows::new(vec![0], vec!["id".into()]);
        rows.check(&batch(vec![Some(1), Some(2)])).unwrap();
        rows.check(&batch(vec![])).unwrap();
        assert!(rows.check(&batch(vec![Some(2)])).unwrap_err().is_option());
        let mut rows = DistinctRows::new(vec![0], vec!["id".into()]);
        assert!(rows.check(&batch(vec![Some(1), None, None])).unwrap_err().to_string().contains("id"));
    }
}
