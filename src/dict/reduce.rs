//! Sums, means and other numbers that many elements give.

use std::collections::VecDeque;

use tch::{Kind, TchError, Tensor};

use super::dense::Dense;
use super::lazy::LazyStack;
use super::stack::maybe_dense;
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::key::NestedKey;

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

/// What is made of a tensor along one of its dims.
type Reduce<'a> = dyn FnMut(&Tensor, i64) -> Result<Tensor> + 'a;

impl Reduction {
    /// Fails for integers and booleans where only floats have a result.
    fn check(self, tensor: &Tensor) -> Result<()> {
        let dtype = DType::from(tensor.f_kind()?);
        let of_floats = matches!(self, Reduction::Mean | Reduction::Std | Reduction::Var);
        if of_floats && dtype.is_counted() {
            return Err(Error::schema(format!("{self:?} is of floats, the tensors are {dtype}"))
                .remedy("cast first, as by to_dtype(Kind::Float)"));
        }
        Ok(())
    }

    /// Of all elements.
    fn whole(self, tensor: &Tensor) -> Result<Tensor> {
        self.check(tensor)?;
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
        self.check(tensor)?;
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

impl TensorDict {
    /// Each tensor reduced along a batch dim, which is gone, or with `keep_dim` of size 1. Non-tensor values
    /// and the names of dims are left out.
    ///
    /// A lazy stack is made [dense](Self::contiguous) first. If its members differ so that it can't be, each of them is
    /// reduced along a dim other than the stack dim, and what comes of it is dense if it then can be.
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
    /// along the stack dim of a lazy stack whose members differ; a [schema](Error::is_schema) error for integers where
    /// floats are needed; libtorch's, with the key, for another dtype that can't be reduced so.
    pub fn reduce_dim(&self, how: Reduction, dim: i64, keep_dim: bool) -> Result<TensorDict> {
        let dim = self.batch_dim(dim)?;
        self.reduce_along(dim, keep_dim, &mut |tensor, dim| how.along(tensor, dim, keep_dim))
    }

    /// The largest elements along a batch dim, as by [`reduce_dim`](Self::reduce_dim), and where along it each lies:
    /// `int64`, under the same keys. Of equal ones it is any.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([3]);
    /// td.set("x", Tensor::from_slice(&[0.5f32, 2.0, 1.0]))?;
    /// let (largest, places) = td.max_dim(0, false)?;
    /// assert_eq!(largest.tensor("x")?.double_value(&[]), 2.0);
    /// assert_eq!(places.tensor("x")?.int64_value(&[]), 1);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`reduce_dim`](Self::reduce_dim).
    pub fn max_dim(&self, dim: i64, keep_dim: bool) -> Result<(TensorDict, TensorDict)> {
        self.extreme(dim, keep_dim, Tensor::f_max_dim)
    }

    /// As [`max_dim`](Self::max_dim), for the smallest.
    ///
    /// # Errors
    ///
    /// As [`reduce_dim`](Self::reduce_dim).
    pub fn min_dim(&self, dim: i64, keep_dim: bool) -> Result<(TensorDict, TensorDict)> {
        self.extreme(dim, keep_dim, Tensor::f_min_dim)
    }

    fn extreme(
        &self,
        dim: i64,
        keep: bool,
        of: impl Fn(&Tensor, i64, bool) -> Result<(Tensor, Tensor), TchError>,
    ) -> Result<(TensorDict, TensorDict)> {
        let dim = self.batch_dim(dim)?;
        let mut found = VecDeque::new();
        let values = self.reduce_along(dim, keep, &mut |tensor, dim| {
            let (values, places) = of(tensor, dim, keep)?;
            found.push_back(places);
            Ok(values)
        })?;
        // The same leaves come up in the same order.
        let places = self.reduce_along(dim, keep, &mut |_, _| {
            found.pop_front().ok_or_else(|| Error::shape("entries changed while they were reduced"))
        })?;
        Ok((values, places))
    }

    /// Each leaf reduced to one element, under a batch size of no dims; non-tensor values are left out. Jagged tensors
    /// are reduced as well. Of a lazy stack, each leaf that all members have, in whatever shapes.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if a leaf is a tensordict in another member; libtorch's, with the key.
    pub fn reduce_leaves(&self, how: Reduction) -> Result<TensorDict> {
        let mut reduced = Dense { device: self.device(), ..Dense::default() };
        for name in self.keys() {
            if let Some(entry) = self.reduced_leaf(how, &name).map_err(|error| error.below(&name))? {
                reduced.entries.insert(name, entry);
            }
        }
        Ok(TensorDict::dense(reduced))
    }

    /// `None` for what is no tensor.
    fn reduced_leaf(&self, how: Reduction, name: &str) -> Result<Option<Entry>> {
        let mut flat = Vec::new();
        for entry in self.list_at(&[name.to_owned()], None)?.into_flat() {
            match entry {
                Entry::Tensor(tensor) => flat.push(tensor.f_reshape([-1])?),
                Entry::Jagged(jagged) => flat.push(jagged.values().f_reshape([-1])?),
                Entry::NonTensor(_) => return Ok(None),
                Entry::Dict(_) => return self.dict(name)?.reduce_leaves(how).map(|dict| Some(dict.into())),
            }
        }
        match flat.as_slice() {
            [only] => how.whole(only),
            _ => how.whole(&Tensor::f_cat(&flat, 0)?),
        }
        .map(|tensor| Some(tensor.into()))
    }

    /// One number of all elements of all tensors and jagged tensors, also those that only some members of a
    /// lazy stack have, as a tensor of no dims. Different dtypes are promoted to one.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if there are no tensors; a [schema](Error::is_schema) error for integers alone
    /// where floats are needed; libtorch's for another dtype that can't be reduced so, or tensors on several devices.
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

    /// `reduce` takes a tensor and a dim of it.
    fn reduce_along(&self, dim: usize, keep: bool, reduce: &mut Reduce<'_>) -> Result<TensorDict> {
        let dense = match &self.body {
            Body::Lazy(stack) if dim != stack.stack_dim && self.is_ragged() => {
                return stack.reduce_along(dim, keep, reduce);
            }
            Body::Lazy(_) => return self.contiguous()?.reduce_along(dim, keep, reduce),
            Body::Dense(dense) => dense,
        };
        let mut reduced = dense.try_map(|_, entry| match entry {
            Entry::Dict(dict) => Ok(Some(dict.reduce_along(dim, keep, reduce)?.into())),
            Entry::NonTensor(_) => Ok(None),
            Entry::Tensor(tensor) => Ok(Some(reduce(tensor, dim as i64)?.into())),
            Entry::Jagged(jagged) => Err(Error::shape(format!(
                "a jagged tensor of shape {:?} has rows of different lengths and can't be reduced along them",
                jagged.shape()
            ))
            .remedy("pad it, or reduce_leaves")),
        })?;
        reduced.names = Vec::new();
        reduced.batch_size.splice(dim..=dim, keep.then_some(1));
        Ok(TensorDict::dense(reduced))
    }

    /// Whether the members of a lazy stack differ in batch size, or the entries that all have in shape.
    fn is_ragged(&self) -> bool {
        let differs = |key: &NestedKey| self.item_shape(key).is_ok_and(|shape| shape.contains(&-1));
        self.batch_size().contains(&-1) || self.leaf_keys().iter().any(differs)
    }
}

impl LazyStack {
    /// Each member along a dim that is not the stack dim.
    fn reduce_along(&self, dim: usize, keep: bool, reduce: &mut Reduce<'_>) -> Result<TensorDict> {
        let (within, after) = self.around(dim);
        let members = self.members.iter().enumerate().map(|(at, member)| {
            member.reduce_along(within, keep, reduce).map_err(|error| error.of_member(at, self.stack_dim))
        });
        let members = members.collect::<Result<Vec<_>>>()?;
        maybe_dense(members, if keep { self.stack_dim } else { after })
    }
}
