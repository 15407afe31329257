//! Sums, means and other numbers that many elements give.

use tch::{Kind, Tensor};

use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};

/// How many elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// The sum; of integers and booleans, `int64`.
    Sum,
    /// The mean, of floats.
    Mean,
    /// The product; of integers and booleans, `int64`.
    Prod,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The standard deviation of a sample, of floats.
    Std,
    /// The variance of a sample, of floats.
    Var,
    /// The logarithm of the sum of exponentials.
    LogSumExp,
    /// Whether any is true or not 0.
    Any,
    /// Whether all are true or not 0.
    All,
}

impl Reduction {
    /// Of all elements.
    fn whole(self, tensor: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Reduction::Sum => tensor.f_sum(None::<Kind>)?,
            Reduction::Mean => tensor.f_mean(None::<Kind>)?,
            Reduction::Prod => tensor.f_prod(None::<Kind>)?,
            Reduction::Min => tensor.f_min()?,
            Reduction::Max => tensor.f_max()?,
            Reduction::Std => tensor.f_std(true)?,
            Reduction::Var => tensor.f_var(true)?,
            Reduction::LogSumExp => tensor.f_reshape([-1])?.f_logsumexp([0i64], false)?,
            Reduction::Any => tensor.f_any()?,
            Reduction::All => tensor.f_all()?,
        })
    }

    fn along(self, tensor: &Tensor, dim: i64, keep: bool) -> Result<Tensor> {
        Ok(match self {
            Reduction::Sum => tensor.f_sum_dim_intlist(dim, keep, None::<Kind>)?,
            Reduction::Mean => tensor.f_mean_dim(dim, keep, None::<Kind>)?,
            Reduction::Prod => tensor.f_prod_dim_int(dim, keep, None::<Kind>)?,
            Reduction::Min => tensor.f_amin(dim, keep)?,
            Reduction::Max => tensor.f_amax(dim, keep)?,
            Reduction::Std => tensor.f_std_dim(dim, true, keep)?,
            Reduction::Var => tensor.f_var_dim(dim, true, keep)?,
            Reduction::LogSumExp => tensor.f_logsumexp([dim], keep)?,
            Reduction::Any => tensor.f_any_dim(dim, keep)?,
            Reduction::All => tensor.f_all_dim(dim, keep)?,
        })
    }
}

/// What of each leaf becomes one element.
#[derive(Clone, Copy)]
enum Over {
    Dim { dim: usize, keep: bool },
    Leaf,
}

impl TensorDict {
    /// Each tensor reduced along a batch dim, which is gone, or with `keep_dim` of size 1. Non-tensor values
    /// and the names of dims are left out. A lazy stack is made [dense](Self::contiguous) first.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::{Reduction, TensorDict};
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2, 3, 4]).reshape([2, 2]))?;
    /// let sum = td.reduce_dim(Reduction::Sum, 0, false)?;
    /// assert_eq!(sum.batch_size(), [] as [i64; 0]);
    /// assert_eq!(Vec::<i64>::try_from(sum.tensor("x")?).unwrap(), [4, 6]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for `dim`; a [shape](Error::is_shape) error for a jagged entry, and
    /// for a lazy stack whose members differ; libtorch's, with the key, for a dtype that can't be reduced so.
    pub fn reduce_dim(&self, how: Reduction, dim: i64, keep_dim: bool) -> Result<TensorDict> {
        let dim = self.batch_dim(dim)?;
        self.reduced(how, Over::Dim { dim, keep: keep_dim })
    }

    /// Each leaf reduced to one element, under a batch size of no dims. Otherwise as
    /// [`reduce_dim`](Self::reduce_dim), but that jagged tensors can be reduced.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a lazy stack whose members differ; libtorch's, with the key.
    pub fn reduce_leaves(&self, how: Reduction) -> Result<TensorDict> {
        self.reduced(how, Over::Leaf)
    }

    /// One number of all elements of all tensors and jagged tensors, also those that only some members of a
    /// lazy stack have, as a tensor of no dims. Different dtypes are promoted to one.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if there are no tensors; libtorch's for a dtype that can't be reduced
    /// so, or tensors on several devices.
    pub fn reduce(&self, how: Reduction) -> Result<Tensor> {
        let mut flat = Vec::new();
        self.look(|_, tensor| {
            flat.push(tensor.f_reshape(-1)?);
            Ok(())
        })?;
        if flat.is_empty() {
            return Err(Error::shape("there are no tensors to reduce"));
        }
        how.whole(&Tensor::f_cat(&flat, 0)?)
    }

    /// The number of places in the batch: the product of the batch size, and of a lazy stack the sum over
    /// its members.
    pub fn numel(&self) -> i64 {
        match &self.body {
            Body::Dense(dense) => dense.batch_size.iter().fold(1, |count: i64, size| count.saturating_mul(*size)),
            Body::Lazy(stack) => {
                stack.members.iter().map(TensorDict::numel).fold(0, |count: i64, more| count.saturating_add(more))
            }
        }
    }

    fn reduced(&self, how: Reduction, over: Over) -> Result<TensorDict> {
        let dense = match &self.body {
            Body::Lazy(_) => return self.contiguous()?.reduced(how, over),
            Body::Dense(dense) => dense,
        };
        let mut reduced = dense.try_map(|_, entry| match (entry, over) {
            (Entry::Dict(dict), _) => Ok(Some(dict.reduced(how, over)?.into())),
            (Entry::NonTensor(_), _) => Ok(None),
            (Entry::Tensor(tensor), Over::Leaf) => Ok(Some(how.whole(tensor)?.into())),
            (Entry::Jagged(jagged), Over::Leaf) => Ok(Some(how.whole(jagged.values())?.into())),
            (Entry::Tensor(tensor), Over::Dim { dim, keep }) => Ok(Some(how.along(tensor, dim as i64, keep)?.into())),
            (Entry::Jagged(jagged), Over::Dim { .. }) => Err(Error::shape(format!(
                "a jagged tensor of shape {:?} has rows of different lengths and can't be reduced along them",
                jagged.shape()
            ))
            .remedy("pad it, or reduce_leaves")),
        })?;
        reduced.names = Vec::new();
        match over {
            Over::Leaf => reduced.batch_size.clear(),
            Over::Dim { dim, keep } => {
                reduced.batch_size.splice(dim..=dim, keep.then_some(1));
            }
        }
        Ok(TensorDict::dense(reduced))
    }
}
