//! libtorch's own nested tensors.

use tch::{Device, Tensor};

use super::JaggedTensor;
use crate::error::{Error, Result};

impl JaggedTensor {
    /// The rows as libtorch's nested tensor of layout strided, which shares the values' storage if they are
    /// contiguous. tch can't print one or ask for its sizes; libtorch's kernels for nested tensors take it.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::JaggedTensor;
    ///
    /// let rows = JaggedTensor::from_rows(&[Tensor::from_slice(&[1.0, 2.0]), Tensor::from_slice(&[3.0])])?;
    /// let doubled = rows.to_strided_nested()?.f_mul_scalar(2.0)?;
    /// let doubled = JaggedTensor::from_strided_nested(&doubled)?;
    /// assert_eq!(Vec::<f64>::try_from(doubled.row(0)?).unwrap(), [2.0, 4.0]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn to_strided_nested(&self) -> Result<Tensor> {
        let trailing = self.values.size().split_off(1);
        let lengths = self.lengths()?.f_to_device(Device::Cpu)?.f_unsqueeze(1)?;
        // libtorch wants the sizes of each row, on the CPU.
        let sizes = match trailing.len() {
            0 => lengths,
            dims => {
                let trailing = Tensor::f_from_slice(&trailing)?.f_unsqueeze(0)?;
                let trailing = trailing.f_expand([self.num_rows(), dims as i64], false)?;
                Tensor::f_cat(&[lengths, trailing], 1)?
            }
        };
        let (strides, offsets) = Tensor::f_internal_nested_compute_contiguous_strides_offsets(&sizes)?;
        let buffer = self.values.f_contiguous()?.f_reshape([-1])?;
        Ok(buffer.f_internal_nested_view_from_buffer(&sizes, &strides, &offsets)?)
    }

    /// The rows of libtorch's nested tensor of layout strided, copied one after the other. Dims after the ragged
    /// one, the first of a row, must be equal. A dense tensor is taken as one whose rows have equal lengths.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for an undefined tensor, and where a dim after the first of a row differs
    /// between rows.
    pub fn from_strided_nested(nested: &Tensor) -> Result<JaggedTensor> {
        if !nested.defined() {
            return Err(Error::shape("an undefined tensor has no rows"));
        }
        let rows = nested.f_unbind(0)?;
        if !rows.is_empty() {
            return JaggedTensor::from_rows(&rows);
        }
        // Of no rows, libtorch keeps the dtype alone.
        let values = Tensor::f_empty([0], (nested.f_kind()?, nested.device()))?;
        let offsets = Tensor::f_from_slice(&[0i64])?.f_to_device(nested.device())?;
        Ok(JaggedTensor::from_trusted(values, offsets))
    }
}
