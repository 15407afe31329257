//! Rows and columns of cells, each a list of numbers of its own length.

mod convert;
mod index;
mod ops;

use std::fmt;

use tch::{Device, Kind, Tensor};

use super::ragged;
use crate::dtype::DType;
use crate::error::{Error, Result};

pub use index::CellIndex;

/// A tensor `[num_rows, num_cols, *]`: each cell is a list of its own length.
///
/// Cell `(i, j)` is `values[offset[i * num_cols + j]..offset[i * num_cols + j + 1]]`. `values` has one dim and any
/// dtype, `offset` is `int64[num_rows * num_cols + 1]`, starts at 0, never falls and ends at the number of values.
/// Both are on one device.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::MultiNestedTensor;
///
/// let list = |numbers: &[i64]| Tensor::from_slice(numbers);
/// let mnt = MultiNestedTensor::from_tensor_mat(&[
///     [list(&[1, 2]), list(&[3])],
///     [list(&[4]), list(&[5, 6, 7])],
///     [list(&[8, 9]), list(&[10])],
/// ])?;
/// assert_eq!(mnt.to_string(), "MultiNestedTensor(num_rows=3, num_cols=2, device='cpu')");
/// assert_eq!(Vec::<i64>::try_from(mnt.offset()).unwrap(), [0, 2, 3, 4, 7, 9, 10]);
/// assert_eq!(Vec::<i64>::try_from(mnt.cell(1, 1)?).unwrap(), [5, 6, 7]);
/// assert_eq!(mnt.index(..2)?.shape(), [2, 2, -1]);
/// assert_eq!(mnt.index((.., 0))?.shape(), [3, 1, -1]);
/// assert_eq!(mnt.index([2, 1, 2, 0])?.shape(), [4, 2, -1]);
/// assert_eq!(mnt.to_dense(-1)?.size(), [3, 2, 3]);
/// # Ok::<_, tensorquery::Error>(())
/// ```
#[derive(Debug)]
pub struct MultiNestedTensor {
    num_rows: i64,
    num_cols: i64,
    values: Tensor,
    offset: Tensor,
}

impl MultiNestedTensor {
    /// Puts values and offset together. An offset of narrower integers is widened.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if a size is negative, `values` has not one dim, or `offset` is not
    /// `num_rows * num_cols + 1` integers, doesn't start at 0, falls somewhere, or doesn't end at the number of values;
    /// a [device](Error::is_device) error if the two are on different devices.
    pub fn try_new(num_rows: i64, num_cols: i64, values: Tensor, offset: Tensor) -> Result<Self> {
        let mnt = MultiNestedTensor { num_rows, num_cols, values, offset: ragged::widened(offset)? };
        mnt.validate()?;
        // Rows and columns of it are views, if it is contiguous.
        let offset = mnt.offset.f_contiguous()?;
        Ok(MultiNestedTensor { offset, ..mnt })
    }

    /// For offsets that were computed here, from some that another handle may have written to.
    fn from_trusted(num_rows: i64, num_cols: i64, (values, offset): (Tensor, Tensor)) -> Self {
        MultiNestedTensor { num_rows, num_cols, values, offset }
    }

    fn validate(&self) -> Result<()> {
        let MultiNestedTensor { num_rows, num_cols, values, offset } = self;
        if *num_rows < 0 || *num_cols < 0 {
            let found = format!("{num_rows} rows and {num_cols} columns; sizes can't be negative");
            return Err(Error::shape(found));
        }
        ragged::check(values, offset, *num_cols)?;
        if values.dim() != 1 {
            return Err(Error::shape(format!("values have shape {:?}; they must be of one dim", values.size())));
        }
        let count = offset.size()[0];
        if num_rows.checked_mul(*num_cols).and_then(|cells| cells.checked_add(1)) != Some(count) {
            return Err(Error::shape(format!(
                "{count} offsets don't fit {num_rows} rows of {num_cols} columns; one more than cells is needed"
            )));
        }
        Ok(())
    }

    /// Makes one of a matrix of tensors of one dim: `rows[i][j]` is cell `(i, j)`. dtypes are promoted, that of
    /// an empty tensor too. No cells at all give float32 values.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if rows have different lengths, or a tensor is undefined or not of one dim; a
    /// [device](Error::is_device) error if tensors are on different devices.
    pub fn from_tensor_mat(rows: &[impl AsRef<[Tensor]>]) -> Result<Self> {
        let num_cols = rows.first().map_or(0, |row| row.as_ref().len());
        let mut lengths = Vec::with_capacity(rows.len().saturating_mul(num_cols));
        for (at, row) in rows.iter().enumerate() {
            let row = row.as_ref();
            if row.len() != num_cols {
                let found = format!("a row of {} cells after rows of {num_cols}", row.len());
                return Err(Error::shape(found).at_row(at).remedy("the length of each row must be the same"));
            }
            for (col, cell) in row.iter().enumerate() {
                let name = || format!("column {col}");
                ragged::ensure_dense(cell, "cells").map_err(|error| error.at(name()).at_row(at))?;
                let [length] = cell.size()[..] else {
                    let found = format!("a cell of shape {:?}; it needs to be 1-dimensional", cell.size());
                    return Err(Error::shape(found).at(name()).at_row(at));
                };
                lengths.push(length);
            }
        }
        let cells: Vec<&Tensor> = rows.iter().flat_map(|row| row.as_ref()).collect();
        ragged::ensure_one_device(cells.iter().copied())?;
        let (num_rows, num_cols) = (rows.len() as i64, num_cols as i64);
        let Some(first) = cells.first() else {
            return MultiNestedTensor::empty(num_rows, num_cols, Kind::Float, Device::Cpu);
        };
        let lengths = Tensor::f_from_slice(&lengths)?.f_to_device(first.device())?;
        let parts = (Tensor::f_cat(&cells, 0)?, ragged::offsets(&lengths)?);
        Ok(MultiNestedTensor::from_trusted(num_rows, num_cols, parts))
    }

    /// Rows without columns, or columns without rows.
    fn empty(num_rows: i64, num_cols: i64, kind: Kind, device: Device) -> Result<Self> {
        let values = Tensor::f_empty([0], (kind, device))?;
        let offset = Tensor::f_zeros([1], (Kind::Int64, device))?;
        MultiNestedTensor::try_new(num_rows, num_cols, values, offset)
    }

    /// The number of rows.
    pub fn num_rows(&self) -> i64 {
        self.num_rows
    }

    /// The number of columns.
    pub fn num_cols(&self) -> i64 {
        self.num_cols
    }

    /// The number of rows, as [`num_rows`](Self::num_rows).
    pub fn len(&self) -> usize {
        usize::try_from(self.num_rows).unwrap_or_default()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.num_rows == 0
    }

    /// All cells' numbers, row by row: one dim.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Where cells begin and end in the values: `int64[num_rows * num_cols + 1]`.
    pub fn offset(&self) -> &Tensor {
        &self.offset
    }

    /// The number of values in each cell: `int64[num_rows, num_cols]`.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn lengths(&self) -> Result<Tensor> {
        Ok(ragged::lengths(&self.offset)?.f_reshape([self.num_rows, self.num_cols])?)
    }

    /// The shape with -1 for the ragged dim: `[num_rows, num_cols, -1]`.
    pub fn shape(&self) -> [i64; 3] {
        [self.num_rows, self.num_cols, -1]
    }

    /// The number of dims, 3.
    pub fn dim(&self) -> usize {
        3
    }

    /// The size of dim 0 (or -3), the rows, or of dim 1 (or -2), the columns.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for the ragged dim and for those that aren't there.
    pub fn size(&self, dim: i64) -> Result<i64> {
        match dim {
            0 | -3 => Ok(self.num_rows),
            1 | -2 => Ok(self.num_cols),
            2 | -1 => Err(Error::index(format!("dim {dim} of a multi-nested tensor does not have a fixed length"))),
            _ => Err(Error::index(format!("Dimension out of range: {dim} is not within [-3, 2]"))),
        }
    }

    /// The dtype of the values.
    ///
    /// # Errors
    ///
    /// The values' dtype has no name in tch.
    pub fn dtype(&self) -> Result<DType> {
        Ok(self.values.f_kind()?.into())
    }

    /// Whether the values are floats.
    pub fn is_floating_point(&self) -> bool {
        self.values.f_is_floating_point().unwrap_or(false)
    }

    /// The device of values and offset.
    pub fn device(&self) -> Device {
        self.values.device()
    }

    /// The fields: number of rows, number of columns, values and offset, as [`try_new`](Self::try_new) takes them.
    pub fn into_parts(self) -> (i64, i64, Tensor, Tensor) {
        (self.num_rows, self.num_cols, self.values, self.offset)
    }

    /// Another handle on the same storage.
    #[must_use]
    pub fn shallow_clone(&self) -> Self {
        self.with(self.values.shallow_clone(), self.offset.shallow_clone())
    }

    /// A copy with storage of its own.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn copy(&self) -> Result<Self> {
        let values = self.values.f_to_dtype(self.values.f_kind()?, false, true)?;
        Ok(self.with(values, self.offset.f_to_dtype(Kind::Int64, false, true)?))
    }

    /// The same cells on `device`; nothing is copied if they are there already.
    ///
    /// # Errors
    ///
    /// libtorch can't reach the device.
    pub fn to_device(&self, device: Device) -> Result<Self> {
        Ok(self.with(self.values.f_to_device(device)?, self.offset.f_to_device(device)?))
    }

    /// The same cells with values of another dtype; the offset stays as it is.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn to_dtype(&self, dtype: DType) -> Result<Self> {
        Ok(self.with(self.values.f_to_kind(dtype.kind())?, self.offset.shallow_clone()))
    }

    /// A copy in page-locked memory, from where the GPU copies by itself.
    ///
    /// # Errors
    ///
    /// A [device](Error::is_device) error without CUDA, which alone can lock pages, and if the cells aren't on the CPU.
    pub fn pin_memory(&self) -> Result<Self> {
        if self.device() != Device::Cpu {
            let found = format!("cells on {:?} can't be pinned", self.device());
            return Err(Error::device(found).remedy("move them to the cpu first"));
        }
        if !tch::Cuda::is_available() {
            return Err(Error::device("memory is pinned by CUDA, which isn't there").remedy("leave it unpinned"));
        }
        let pin = |tensor: &Tensor| tensor.f_pin_memory(Device::Cuda(0));
        Ok(self.with(pin(&self.values)?, pin(&self.offset)?))
    }

    /// Whether values and offset are both in page-locked memory.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn is_pinned(&self) -> Result<bool> {
        if !tch::Cuda::is_available() {
            return Ok(false);
        }
        let pinned = |tensor: &Tensor| tensor.f_is_pinned(Device::Cuda(0));
        Ok(pinned(&self.values)? && pinned(&self.offset)?)
    }

    /// Another of the same sizes.
    fn with(&self, values: Tensor, offset: Tensor) -> Self {
        MultiNestedTensor { num_rows: self.num_rows, num_cols: self.num_cols, values, offset }
    }
}

impl fmt::Display for MultiNestedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = match self.device() {
            Device::Cuda(index) => format!("cuda:{index}"),
            other => format!("{other:?}").to_lowercase(),
        };
        let MultiNestedTensor { num_rows, num_cols, .. } = self;
        write!(f, "MultiNestedTensor(num_rows={num_rows}, num_cols={num_cols}, device='{device}')")
    }
}
