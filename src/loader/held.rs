//! The rows of a tensordict that is there already, in memory or mapped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use async_trait::async_trait;
use futures::{StreamExt, stream};
use tch::Tensor;

use super::collate;
use super::cut::{Measure, no_lists};
use super::order::Order;
use super::permute::{Permutation, Random};
use super::settings::Loader;
use super::source::{BatchSource, Made, Opened, Reading};
use crate::dict::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::index::{Index, elements};
use crate::schema::TensorDictSchema;

/// How many rows' numbers are worked out at a time.
const NUMBERS: u64 = 4096;

/// The rows of a tensordict, by their numbers: its record batches are of these.
struct HeldRows {
    /// Tensors may be sent to another thread, but not be shared.
    dict: Mutex<TensorDict>,
    rows: u64,
}

impl Loader {
    /// Batches of the rows of a tensordict, along its first batch dim. Each batch is copied out of it.
    ///
    /// What is mapped, as [`load_memmap`](crate::load_memmap) does, is read from its files when a batch holds it, so
    /// the tensordict may be larger than memory. The order is [`AsStored`](Order::AsStored), unless it is told to be
    /// [`permuted`](Order::permuted), an exact shuffle without a sort. Ranks and resuming cost nothing: a row's place says
    /// which it is.
    ///
    /// The tensordict's tensors are shared. What is written to them while an epoch runs, is in batches or not.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::{JaggedTensor, Loader, LoaderState, Order, TensorDict};
    ///
    /// let rows = [&[1i64, 2][..], &[], &[3]].map(Tensor::from_slice);
    /// let td = TensorDict::from_entries([("tokens", JaggedTensor::from_rows(&rows)?)])?.with_batch_size(&[3])?;
    /// let loader = Loader::of_tensordict(td)?.batch_size(2).order(Order::permuted(7));
    /// let mut batches = loader.epoch_blocking(0)?;
    /// assert_eq!(batches.next().transpose()?.map(|batch| batch.batch_size()), Some(vec![2]));
    ///
    /// let state = LoaderState::from_json(&batches.state().to_string())?;
    /// let rest = loader.resume_blocking(&state)?.collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(rest.len(), 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if it has no batch dim, or its members differ along the first.
    pub fn of_tensordict(dict: TensorDict) -> Result<Loader> {
        let rows = match dict.batch_size().first() {
            Some(rows) => u64::try_from(*rows).map_err(|_| {
                Error::shape("the first batch dim has no size, as members of the stack differ along it")
                    .remedy("make it dense, or put its rows one after the other: reshape(&[-1])")
            })?,
            None => {
                let error = Error::shape("the batch size is [], so there are no rows to make batches of");
                return Err(error.remedy("give it one: with_batch_size"));
            }
        };
        Ok(Loader::new(Arc::new(HeldRows { dict: Mutex::new(dict), rows })).order(Order::AsStored))
    }
}

impl HeldRows {
    /// Not cloned, which for a lazy stack would be work for each of its members.
    fn dict(&self) -> MutexGuard<'_, TensorDict> {
        // It is only read: whoever panicked has left nothing half done.
        self.dict.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl BatchSource for HeldRows {
    fn schema(&self) -> Option<&TensorDictSchema> {
        None
    }

    fn columns(&self) -> Vec<String> {
        self.dict().keys().collect()
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    async fn open(&self, reading: Reading<'_>) -> Result<Opened> {
        let permutation = match reading.order {
            Order::AsComputed | Order::AsStored => None,
            Order::Permuted { seed } => Some(Permutation::new(self.rows, Random::new(*seed, reading.epoch, 0))),
            other => {
                let why = "is for queries, and a tensordict's rows can be had by number";
                return Err(self.refuse(other, why, "use `Order::permuted`"));
            }
        };
        let (rank, world_size, places) = match reading.shard {
            None => (0, 1, self.rows),
            Some(shard) => (shard.rank, shard.world_size, shard.rows_of(self.rows)),
        };
        let total = self.rows;
        let row = move |place: u64| {
            // Beyond the last row comes what pads the epoch: its first.
            let place = place.checked_mul(world_size).and_then(|place| place.checked_add(rank));
            let place = place.filter(|place| *place < total).unwrap_or(0);
            permutation.as_ref().map_or(place, |permutation| permutation.at(place)) as i64
        };
        let before = reading.taken.min(places);
        let numbers = (before..places).step_by(NUMBERS as usize).map(move |start| {
            let numbers = Int64Array::from_iter_values((start..places.min(start + NUMBERS)).map(&row));
            let rows = RecordBatch::try_from_iter([("row", Arc::new(numbers) as ArrayRef)])?;
            Ok(rows.into())
        });
        let chunks = stream::iter(numbers).boxed();
        Ok(Opened { dealt: true, before, total: Some(places), ..Opened::whole(chunks) })
    }

    fn measure(&self, column: &str) -> Result<Measure> {
        let offsets = match self.dict().get(column)? {
            None => return Err(Error::key("no such entry, so batches can't be measured by it").at(column)),
            Some(Entry::Jagged(rows)) => rows.offsets().shallow_clone(),
            Some(_) => return Err(no_lists(column, "an entry that isn't jagged")),
        };
        Ok(Box::new(move |rows| {
            let starts = Tensor::f_from_slice(&numbers(std::slice::from_ref(rows)))?.f_to_device(offsets.device())?;
            let at = |places: &Tensor| offsets.f_index_select(0, places);
            let one = Tensor::f_ones_like(&starts)?;
            let lengths = at(&starts.f_add(&one)?)?.f_sub(&at(&starts)?)?;
            let lengths: Vec<i64> = elements(&lengths)?;
            Ok(lengths.into_iter().map(|length| usize::try_from(length).unwrap_or(0)).collect())
        }))
    }

    fn make(&self, rows: Vec<RecordBatch>) -> Result<Made> {
        let dict = self.dict().index(Index::Rows(numbers(&rows)))?;
        let mut bytes_copied = 0;
        for (_, entry) in dict.leaves()? {
            bytes_copied += match &entry {
                Entry::Tensor(tensor) => collate::bytes(tensor)?,
                Entry::Jagged(rows) => collate::bytes(rows.values())? + collate::bytes(rows.offsets())?,
                _ => 0,
            };
        }
        Ok(Made { dict, bytes_copied, bytes_viewed: 0 })
    }
}

/// The rows' numbers.
fn numbers(rows: &[RecordBatch]) -> Vec<i64> {
    let columns = rows.iter().map(|rows| rows.column(0).as_primitive::<Int64Type>().values());
    columns.flat_map(|numbers| numbers.iter().copied()).collect()
}
