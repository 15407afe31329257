//! Rows of different lengths in one flat tensor.

use tch::{Device, Kind, Tensor};

use crate::dtype::DType;
use crate::error::{Error, Result};

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
    /// Puts values and offsets together.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if `offsets` is not `int64` of one dim, doesn't start at 0,
    /// falls somewhere, or doesn't end at the length of `values`; a [device](Error::is_device) error if
    /// the two are on different devices.
    pub fn try_new(values: Tensor, offsets: Tensor) -> Result<Self> {
        let jagged = JaggedTensor { values, offsets };
        jagged.validate()?;
        Ok(jagged)
    }

    /// For offsets that a conversion made or checked itself.
    pub(crate) fn from_trusted(values: Tensor, offsets: Tensor) -> Self {
        let jagged = JaggedTensor { values, offsets };
        debug_assert!(jagged.validate().is_ok(), "offsets fit the values");
        jagged
    }

    fn validate(&self) -> Result<()> {
        let (values, offsets) = (&self.values, &self.offsets);
        if !values.defined() || !offsets.defined() {
            return Err(Error::shape("values or offsets are an undefined tensor"));
        }
        if values.device() != offsets.device() {
            return Err(Error::device(format!(
                "values are on {:?}, offsets on {:?}; both must be on one device",
                values.device(),
                offsets.device()
            )));
        }
        if offsets.f_kind()? != Kind::Int64 || offsets.dim() != 1 || offsets.size()[0] == 0 {
            return Err(Error::shape(format!(
                "offsets are {}{:?}; they must be int64 of one dim, with at least one number",
                DType::from(offsets.f_kind()?),
                offsets.size()
            )));
        }
        if values.dim() == 0 {
            return Err(Error::shape("values have no dims; they need at least one"));
        }
        let total = values.size()[0];
        let bounds = Vec::<i64>::try_from(&offsets.f_to_device(Device::Cpu)?)?;
        if bounds[0] != 0 {
            return Err(Error::shape(format!("offsets start at {}; they must start at 0", bounds[0])));
        }
        if let Some(row) = bounds.windows(2).position(|pair| pair[1] < pair[0]) {
            let (from, to) = (bounds[row], bounds[row + 1]);
            return Err(Error::shape(format!("offsets fall from {from} to {to}")).at_row(row));
        }
        let end = bounds[bounds.len() - 1];
        if end != total {
            return Err(Error::shape(format!("offsets end at {end}, but there are {total} values")));
        }
        Ok(())
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
        Ok(self.offsets.f_diff::<&Tensor>(1, 0, None, None)?)
    }

    /// The number of rows.
    pub fn num_rows(&self) -> i64 {
        self.offsets.size()[0] - 1
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
        let rows = self.num_rows();
        let at = if row < 0 { row + rows } else { row };
        if !(0..rows).contains(&at) {
            return Err(Error::index(format!("row {row} is out of bounds for {rows} rows")));
        }
        let start = self.offsets.f_int64_value(&[at])?;
        let stop = self.offsets.f_int64_value(&[at + 1])?;
        Ok(self.values.f_narrow(0, start, stop - start)?)
    }

    /// Rows `start..stop`; their values share storage.
    pub(crate) fn slice(&self, start: i64, stop: i64) -> Result<JaggedTensor> {
        let first = self.offsets.f_int64_value(&[start])?;
        let last = self.offsets.f_int64_value(&[stop])?;
        let offsets = self.offsets.f_narrow(0, start, stop - start + 1)?.f_sub_scalar(first)?;
        Ok(JaggedTensor::from_trusted(self.values.f_narrow(0, first, last - first)?, offsets))
    }

    /// The rows at `rows` (`int64[k]`, each within bounds), copied.
    pub(crate) fn select(&self, rows: &Tensor) -> Result<JaggedTensor> {
        let rows = rows.f_to_device(self.device())?;
        let count = self.num_rows();
        let starts = self.offsets.f_narrow(0, 0, count)?.f_index_select(0, &rows)?;
        let lengths = self.lengths()?.f_index_select(0, &rows)?;
        let zero = Tensor::f_zeros([1], (Kind::Int64, self.device()))?;
        let offsets = Tensor::f_cat(&[&zero, &lengths.f_cumsum(0, Kind::Int64)?], 0)?;
        // Where each selected element comes from: its place in the result, moved by its row.
        let shift = starts.f_sub(&offsets.f_narrow(0, 0, rows.size()[0])?)?;
        let shift = shift.f_repeat_interleave_self_tensor(&lengths, 0, None)?;
        let sources = Tensor::f_arange(shift.size()[0], (Kind::Int64, self.device()))?.f_add(&shift)?;
        Ok(JaggedTensor::from_trusted(self.values.f_index_select(0, &sources)?, offsets))
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
