//! Elements as shares of those along a batch dim.

use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};

impl TensorDict {
    /// Each tensor's softmax along a batch dim: the exponentials of its elements over their sum. Non-tensor values stay.
    /// A lazy stack stays lazy; along its stack dim, with the entries that all members have.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("x", Tensor::from_slice(&[0.0f64, 0.0]))?;
    /// assert_eq!(Vec::<f64>::try_from(td.softmax(0)?.tensor("x")?).unwrap(), [0.5, 0.5]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for `dim`; a [shape](Error::is_shape) error for a jagged entry, and for members
    /// that differ along the stack dim; libtorch's, with the key, for a dtype of integers.
    pub fn softmax(&self, dim: i64) -> Result<TensorDict> {
        let at = self.batch_dim(dim)?;
        match &self.body {
            Body::Lazy(stack) if at == stack.stack_dim => {
                let mut shares = self.contiguous()?.softmax(dim)?;
                shares.put_names(&self.shared_names());
                shares.to_lazy_stack(dim)
            }
            Body::Lazy(stack) => {
                let (within, _) = stack.around(at);
                stack.try_map(|member| member.softmax(within as i64)).map(TensorDict::lazy)
            }
            Body::Dense(dense) => dense
                .try_map(|_, entry| match entry {
                    Entry::Tensor(tensor) => Ok(Some(tensor.f_softmax(at as i64, None)?.into())),
                    Entry::NonTensor(values) => Ok(Some(values.clone().into())),
                    Entry::Dict(dict) => Ok(Some(dict.softmax(at as i64)?.into())),
                    Entry::Jagged(jagged) => Err(Error::shape(format!(
                        "a jagged tensor of shape {:?} has rows of different lengths, there is no softmax along them",
                        jagged.shape()
                    ))
                    .remedy("pad it with the smallest number, or exclude it")),
                })
                .map(TensorDict::dense),
        }
    }
}
