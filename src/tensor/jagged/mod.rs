//! Rows of different lengths in one flat tensor.

mod nested;
mod ops;
mod padding;
mod reduce;

use tch::{Device, Kind, Tensor};

use super::ragged;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::{Extent, Index, Selection, elements};

pub(crate) use nested::strided_nested;
pub use padding::PaddingSide;
pub(crate) use padding::pad_rows;

/// A tensor whose dim 1 is ragged: row `i` is `values[offsets[i]..offsets[i + 1]]`.
///
/// `values` has shape `[total, …]` and any dtype, `offsets` is `int64[rows + 1]`, starts at 0, never
/// falls and ends at `total`. Both are on one device.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::JaggedTensor;
///
/// let jagged = JaggedTensor::try_new(Tensor::from_slice(&[1, 2, 3]), Tensor::from_slice(&[0i64, 2, 2, 3]))?;
/// assert_eq!(jagged.shape(), [3, -1]);
/// assert_eq!(Vec::<i32>::try_from(jagged.row(0)?).unwrap(), [1, 2]);
/// assert_eq!(jagged.row(1)?.size(), [0]);
/// # Ok::<_, tensorquery::Error>(())
/// ```
#[derive(Debug)]
pub struct JaggedTensor {
    values: Tensor,
    offsets: Tensor,
}

impl JaggedTensor {
    /// Puts values and offsets together. Offsets of narrower integers are widened, those of `int64` share storage.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if `offsets` are not integers of one dim, don't start at 0,
    /// fall somewhere, or don't end at the length of `values`; a [device](Error::is_device) error if
    /// the two are on different devices.
    pub fn try_new(values: Tensor, offsets: Tensor) -> Result<Self> {
        let jagged = JaggedTensor { values, offsets: ragged::widened(offsets)? };
        jagged.validate()?;
        Ok(jagged)
    }

    /// For offsets that a conversion made or checked itself. Not asserted: another handle may have written to them since.
    pub(crate) fn from_trusted(values: Tensor, offsets: Tensor) -> Self {
        JaggedTensor { values, offsets }
    }

    fn validate(&self) -> Result<()> {
        ragged::check(&self.values, &self.offsets, 1)
    }

    /// These rows, one after the other: tensors `[length, …]` whose other dims are equal. dtypes are promoted.
    ///
    /// No rows give float32 values of shape `[0]`.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a row without dims, undefined, nested, or with other dims than the
    /// first; a [device](Error::is_device) error if they are on different devices.
    pub fn from_rows(rows: &[Tensor]) -> Result<Self> {
        for (at, row) in rows.iter().enumerate() {
            ragged::ensure_dense(row, "rows").map_err(|error| error.at_row(at))?;
        }
        JaggedTensor::from_dense_rows(rows)
    }

    /// As [`from_rows`](Self::from_rows), of rows that are known to be neither undefined nor nested.
    pub(crate) fn from_dense_rows(rows: &[Tensor]) -> Result<Self> {
        let mut lengths = Vec::with_capacity(rows.len());
        let mut first: Option<Vec<i64>> = None;
        for (at, row) in rows.iter().enumerate() {
            let size = row.size();
            let Some((length, trailing)) = size.split_first() else {
                return Err(Error::shape("a row has no dims; it needs at least one").at_row(at));
            };
            let first = first.get_or_insert_with(|| trailing.to_vec());
            if trailing != first {
                let found = format!("a row has shape {size:?}, but rows before it end in {first:?}");
                return Err(Error::shape(found).at_row(at));
            }
            lengths.push(*length);
        }
        ragged::ensure_one_device(rows)?;
        let Some(row) = rows.first() else {
            let values = Tensor::f_empty([0], (Kind::Float, Device::Cpu))?;
            return JaggedTensor::try_new(values, Tensor::f_from_slice(&[0i64])?);
        };
        let lengths = Tensor::f_from_slice(&lengths)?.f_to_device(row.device())?;
        Ok(JaggedTensor::from_trusted(Tensor::f_cat(rows, 0)?, ragged::offsets(&lengths)?))
    }

    /// All rows' elements, one after the other: `[total, …]`.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Where rows begin and end in the values: `int64[rows + 1]`.
    pub fn offsets(&self) -> &Tensor {
        &self.offsets
    }

    /// Values and offsets.
    pub(crate) fn into_parts(self) -> (Tensor, Tensor) {
        (self.values, self.offsets)
    }

    /// The number of elements in each row: `int64[rows]`.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn lengths(&self) -> Result<Tensor> {
        ragged::lengths(&self.offsets)
    }

    /// The offsets as `int32[rows + 1]`, which attention kernels for sequences of different lengths take.
    ///
    /// # Errors
    ///
    /// An [overflow](Error::is_overflow) error if there are more values than 32 bits count.
    pub fn cumulative_lengths(&self) -> Result<Tensor> {
        let total = self.values.size().first().copied().unwrap_or_default();
        if i32::try_from(total).is_err() {
            let found = format!("{total} values are more than the {} that int32 offsets count", i32::MAX);
            return Err(Error::overflow(found).remedy("take fewer rows at a time"));
        }
        Ok(self.offsets.f_to_kind(Kind::Int)?)
    }

    /// The length of the longest row; 0 without rows.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn max_length(&self) -> Result<i64> {
        match self.num_rows() {
            0 => Ok(0),
            _ => Ok(self.lengths()?.f_max()?.f_int64_value(&[])?),
        }
    }

    /// The number of rows.
    pub fn num_rows(&self) -> i64 {
        self.offsets.size().first().map_or(0, |count| (count - 1).max(0))
    }

    /// The shape with -1 for the ragged dim: `[rows, -1, …]`.
    pub fn shape(&self) -> Vec<i64> {
        let trailing = self.values.size();
        [self.num_rows(), -1].into_iter().chain(trailing.into_iter().skip(1)).collect()
    }

    /// The dtype of the values.
    ///
    /// # Errors
    ///
    /// The values' dtype has no name in tch.
    pub fn dtype(&self) -> Result<DType> {
        Ok(self.values.f_kind()?.into())
    }

    /// The device of values and offsets.
    pub fn device(&self) -> Device {
        self.values.device()
    }

    /// One row as a tensor `[length, …]` that shares the values' storage. Negative rows count from the end.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error outside the rows.
    pub fn row(&self, row: i64) -> Result<Tensor> {
        let row = Extent::Rows(self.num_rows()).at(row)?;
        ragged::view(&self.values, &self.offsets, row, row + 1)
    }

    /// Every row as a tensor `[length, …]` that shares the values' storage.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn unbind(&self) -> Result<Vec<Tensor>> {
        if self.num_rows() == 0 {
            return Ok(Vec::new());
        }
        Ok(self.values.f_split_with_sizes(elements(&self.lengths()?)?, 0)?)
    }

    /// Some of the rows, offsets from 0. A number gives a jagged tensor of that one row;
    /// [`row`](Self::row) gives it as a tensor.
    ///
    /// Numbers and slices of step 1 share the values' storage; other slices, lists and masks copy.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::JaggedTensor;
    ///
    /// let jagged = JaggedTensor::try_new(Tensor::from_slice(&[1, 2, 3]), Tensor::from_slice(&[0i64, 2, 2, 3]))?;
    /// assert_eq!(jagged.index(1..)?.shape(), [2, -1]);
    /// assert_eq!(Vec::<i32>::try_from(jagged.index([2, 0])?.values()).unwrap(), [3, 1, 2]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a row out of bounds, a mask of another length, or a step of 0.
    pub fn index(&self, index: impl Into<Index>) -> Result<JaggedTensor> {
        self.index_with(&index.into().resolve_in(Extent::Rows(self.num_rows()))?)
    }

    pub(crate) fn index_with(&self, selection: &Selection) -> Result<JaggedTensor> {
        let (values, offsets) = match selection {
            Selection::Row(row) => ragged::narrow(&self.values, &self.offsets, *row, row + 1)?,
            Selection::Slice { start, stop, step: 1 } => ragged::narrow(&self.values, &self.offsets, *start, *stop)?,
            _ => {
                let rows = self.num_rows();
                let starts = ragged::pick(&self.offsets.f_narrow(0, 0, rows)?, 0, selection)?;
                let ends = ragged::pick(&self.offsets.f_narrow(0, 1, rows)?, 0, selection)?;
                ragged::gather(&self.values, &starts, &ends)?
            }
        };
        Ok(JaggedTensor::from_trusted(values, offsets))
    }

    /// The same rows on `device`; nothing is copied if they are there already.
    ///
    /// # Errors
    ///
    /// libtorch can't reach the device.
    pub fn to_device(&self, device: Device) -> Result<JaggedTensor> {
        let values = self.values.f_to_device(device)?;
        Ok(JaggedTensor { values, offsets: self.offsets.f_to_device(device)? })
    }

    /// Another handle on the same storage.
    #[must_use]
    pub fn shallow_clone(&self) -> JaggedTensor {
        JaggedTensor { values: self.values.shallow_clone(), offsets: self.offsets.shallow_clone() }
    }
}
