//! Jagged tensors joined, compared, and computed with.

use tch::{Kind, Tensor};

use super::JaggedTensor;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::ragged;

impl JaggedTensor {
    /// The rows of `parts` one after the other. dtypes are promoted.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::JaggedTensor;
    ///
    /// let jagged = JaggedTensor::try_new(Tensor::from_slice(&[1, 2, 3]), Tensor::from_slice(&[0i64, 1, 3]))?;
    /// let twice = JaggedTensor::cat(&[&jagged, &jagged])?;
    /// assert_eq!(Vec::<i64>::try_from(twice.offsets()).unwrap(), [0, 1, 3, 4, 6]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if there are no parts, or their dims after the ragged one differ; a
    /// [device](Error::is_device) error if they are on different devices.
    pub fn cat(parts: &[&JaggedTensor]) -> Result<JaggedTensor> {
        let Some((first, rest)) = parts.split_first() else {
            return Err(Error::shape("no jagged tensors to concatenate; at least one is needed"));
        };
        let trailing = first.shape().split_off(2);
        if let Some(other) = rest.iter().find(|other| other.shape()[2..] != trailing[..]) {
            return Err(Error::shape(format!(
                "jagged tensors of shapes {:?} and {:?} can't be concatenated; dims after the ragged one must be equal",
                first.shape(),
                other.shape()
            )));
        }
        ragged::ensure_one_device(parts.iter().map(|part| &part.values))?;
        let values: Vec<&Tensor> = parts.iter().map(|part| &part.values).collect();
        let offsets = ragged::join(parts.iter().map(|part| &part.offsets))?;
        Ok(JaggedTensor::from_trusted(Tensor::f_cat(&values, 0)?, offsets))
    }

    /// The values where `mask` is true, each in its row: rows get shorter, none goes. `mask` is `bool[total]`, one for
    /// each of the [values](Self::values). Values are copied; gradients flow back to them.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::JaggedTensor;
    ///
    /// let jagged = JaggedTensor::try_new(Tensor::from_slice(&[5i64, -1, 7]), Tensor::from_slice(&[0i64, 2, 3]))?;
    /// let positive = jagged.filter(&jagged.values().f_gt(0)?)?;
    /// assert_eq!(Vec::<i64>::try_from(positive.values()).unwrap(), [5, 7]);
    /// assert_eq!(Vec::<i64>::try_from(positive.offsets()).unwrap(), [0, 1, 2]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if `mask` isn't `bool` of one dim, as long as the values; a
    /// [device](Error::is_device) error if it is on another device.
    pub fn filter(&self, mask: &Tensor) -> Result<JaggedTensor> {
        ragged::ensure_dense(mask, "mask")?;
        ragged::ensure_one_device([&self.values, mask])?;
        let total = self.values.size().first().copied().unwrap_or_default();
        if mask.f_kind()? != Kind::Bool || mask.size() != [total] {
            return Err(Error::shape(format!(
                "the mask is {}{:?}; it must be bool[{total}], one for each value",
                DType::from(mask.f_kind()?),
                mask.size()
            )));
        }
        // How many are true before each value, and before the end.
        let before = mask.f_cumsum(0, Kind::Int64)?.f_constant_pad_nd([1, 0])?;
        let offsets = before.f_index_select(0, &self.offsets)?;
        let values = self.values.f_index_select(0, &mask.f_nonzero()?.f_squeeze_dim(1)?)?;
        JaggedTensor::try_new(values, offsets)
    }

    /// The same rows with other values: what `map` makes of all values at once, as many as there were.
    ///
    /// ```
    /// use tch::{Kind, Tensor};
    /// use tensorquery::JaggedTensor;
    ///
    /// let tokens = JaggedTensor::try_new(Tensor::from_slice(&[1i64, 2, 0]), Tensor::from_slice(&[0i64, 1, 3]))?;
    /// let table = Tensor::f_randn([3, 8], tch::kind::FLOAT_CPU)?;
    /// let embedded = tokens.map_values(|tokens| table.f_index_select(0, tokens))?;
    /// assert_eq!(embedded.shape(), [2, -1, 8]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `map` returns; a [shape](Error::is_shape) error if it changes the number of values; a
    /// [device](Error::is_device) error if it moves them.
    pub fn map_values<E>(&self, map: impl FnOnce(&Tensor) -> Result<Tensor, E>) -> Result<JaggedTensor>
    where
        Error: From<E>,
    {
        let values = map(&self.values)?;
        ragged::ensure_dense(&values, "mapped values")?;
        let (before, after) = (self.values.size(), values.size());
        if after.first() != before.first() {
            let found = format!("values of shape {before:?} were mapped to shape {after:?}");
            return Err(Error::shape(found).remedy("the first dim must keep its size"));
        }
        ragged::ensure_one_device([&self.values, &values])?;
        Ok(JaggedTensor::from_trusted(values, self.offsets.shallow_clone()))
    }

    /// Whether shape, dtype, offsets and values are the same. NaN differs from itself.
    ///
    /// # Errors
    ///
    /// A [device](Error::is_device) error if the two are on different devices.
    pub fn equal(&self, other: &JaggedTensor) -> Result<bool> {
        ragged::equal((&self.values, &self.offsets), (&other.values, &other.offsets))
    }

    /// Whether the offsets are the same and all values close: |a − b| ≤ `atol` + `rtol` · |b|.
    /// PyTorch's own choice is 1e-5 and 1e-8. NaN is close to NaN if `equal_nan` says so.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the dtypes differ; a [device](Error::is_device) error if the devices do.
    pub fn allclose(&self, other: &JaggedTensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
        let (left, right) = ((&self.values, &self.offsets), (&other.values, &other.offsets));
        ragged::allclose(left, right, |left, right| Ok(left.f_allclose(right, rtol, atol, equal_nan)?))
    }

    /// The same rows with values of another dtype; offsets stay as they are.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn to_dtype(&self, dtype: DType) -> Result<JaggedTensor> {
        self.map_values(|values| values.f_to_kind(dtype.kind()))
    }
}
