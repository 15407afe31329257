//! libtorch's own nested tensors.

use tch::{Device, Tensor};

use super::JaggedTensor;
use crate::error::{Error, Result};
use crate::tensor::ragged;

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
    /// A [shape](Error::is_shape) error without rows, which libtorch has no such tensor of.
    pub fn to_strided_nested(&self) -> Result<Tensor> {
        // libtorch reads where the offsets say, and another handle may have changed them.
        self.validate()?;
        let trailing = self.shape().split_off(2);
        let rows = self.num_rows();
        if rows == 0 {
            return Err(no_rows());
        }
        // For each row its sizes, its strides, and where it starts. libtorch wants them on the CPU, and contiguous.
        let each_row = |dims: &[i64]| -> Result<Tensor> {
            Ok(Tensor::f_from_slice(dims)?.f_unsqueeze(0)?.f_expand([rows, dims.len() as i64], false)?)
        };
        let offsets = self.offsets.f_to_device(Device::Cpu)?;
        let sizes = Tensor::f_cat(&[ragged::lengths(&offsets)?.f_unsqueeze(1)?, each_row(&trailing)?], 1)?;
        let mut strides = vec![1i64];
        for dim in trailing.iter().rev() {
            let stride = strides[strides.len() - 1].checked_mul(*dim);
            strides.push(stride.ok_or_else(|| Error::shape("rows too large to be counted"))?);
        }
        strides.reverse();
        let starts = offsets.f_narrow(0, 0, rows)?.f_mul_scalar(strides[0])?;
        let buffer = self.values.f_contiguous()?.f_reshape([-1])?;
        let strides = each_row(&strides)?.f_contiguous()?;
        Ok(buffer.f_internal_nested_view_from_buffer(&sizes, &strides, &starts)?)
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
        let values = match nested.dim() {
            0 | 1 => nested.f_narrow(0, 0, 0)?,
            _ => nested.f_flatten(0, 1)?,
        };
        let offsets = Tensor::f_from_slice(&[0i64])?.f_to_device(nested.device())?;
        Ok(JaggedTensor::from_trusted(values, offsets))
    }
}

/// These tensors, which may differ in the size of any dim, copied into one nested tensor of layout strided.
pub(crate) fn strided_nested(tensors: &[Tensor]) -> Result<Tensor> {
    let mut sizes: Vec<i64> = Vec::new();
    let mut flat = Vec::with_capacity(tensors.len());
    let mut first = None;
    for tensor in tensors {
        ragged::ensure_dense(tensor, "rows")?;
        let size = tensor.size();
        let first = first.get_or_insert_with(|| size.clone());
        if size.is_empty() || size.len() != first.len() {
            return Err(Error::shape(format!(
                "tensors of shapes {first:?} and {size:?} are no rows of one nested tensor, which have equally many dims"
            ))
            .remedy("get_list gives them one by one"));
        }
        sizes.extend(size);
        flat.push(tensor.f_reshape([-1])?);
    }
    let Some(first) = first else { return Err(no_rows()) };
    ragged::ensure_one_device(tensors)?;
    let sizes = Tensor::f_from_slice(&sizes)?.f_view([tensors.len() as i64, first.len() as i64])?;
    let (strides, starts) = Tensor::f_internal_nested_compute_contiguous_strides_offsets(&sizes)?;
    Ok(Tensor::f_cat(&flat, 0)?.f_internal_nested_view_from_buffer(&sizes, &strides, &starts)?)
}

/// Of a matrix of no sizes, libtorch reads the first row all the same.
fn no_rows() -> Error {
    Error::shape("libtorch can't hold a nested tensor of no rows").remedy("skip empty batches")
}
