//! Tensordicts of the same structure with other tensors: copies, casts, zeros, dense ones.

use tch::{Device, Kind, TchError, Tensor};

use super::dense::Dense;
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{JaggedTensor, Number};

impl TensorDict {
    /// A copy that shares no tensor's storage, unlocked. Non-tensor values can't change and are shared.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn deep_clone(&self) -> Result<TensorDict> {
        match &self.body {
            Body::Lazy(stack) => stack.try_map(TensorDict::deep_clone).map(TensorDict::lazy),
            Body::Dense(dense) => {
                let cloned = dense.try_map(|_, entry| {
                    Ok(Some(match entry {
                        Entry::Tensor(tensor) => tensor.f_alias_copy()?.into(),
                        Entry::Jagged(jagged) => {
                            let (values, offsets) = (jagged.values().f_alias_copy()?, jagged.offsets().f_alias_copy()?);
                            JaggedTensor::from_trusted(values, offsets).into()
                        }
                        Entry::NonTensor(values) => values.clone().into(),
                        Entry::Dict(dict) => dict.deep_clone()?.into(),
                    }))
                })?;
                Ok(TensorDict::dense(cloned))
            }
        }
    }

    /// The same tensors without their history of gradients; storage is shared.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn detach(&self) -> Result<TensorDict> {
        self.apply(|tensor| Ok(tensor.f_detach()?))
    }

    /// Sets for each tensor whether gradients are recorded for it. This also holds for the tensor's other
    /// handles.
    ///
    /// # Errors
    ///
    /// libtorch's, with the key and before anything is set: to record needs floats, to stop needs a tensor
    /// that is no result of recorded operations.
    pub fn requires_grad_(&mut self, requires_grad: bool) -> Result<()> {
        self.look(|_, tensor| {
            if requires_grad {
                // A tensor of the same dtype answers in its place.
                let _ = Tensor::f_zeros(0, (tensor.f_kind()?, Device::Cpu))?.f_set_requires_grad(true)?;
            } else if tensor.requires_grad() && !tensor.f_is_leaf()? {
                let text = "gradients can only be switched off for leaf tensors; detach() gives the values without";
                return Err(TchError::Torch(text.to_owned()).into());
            }
            Ok(())
        })?;
        self.look(|_, tensor| {
            let _ = tensor.f_set_requires_grad(requires_grad)?;
            Ok(())
        })
    }

    /// All tensors cast to a dtype; the result is locked if the tensordict is. Takes a [`DType`] or a
    /// `tch::Kind`.
    ///
    /// # Errors
    ///
    /// libtorch's, with the key, if there is no such cast.
    pub fn to_dtype(&self, dtype: impl Into<DType>) -> Result<TensorDict> {
        let kind = dtype.into().kind();
        let cast = self.apply(|tensor| Ok(tensor.f_to_kind(kind)?))?;
        Ok(cast.locked_as(self))
    }

    /// The whole tensordict in memory that the CPU reads: [`to`](Self::to) it.
    ///
    /// # Errors
    ///
    /// As [`to`](Self::to).
    pub fn cpu(&self) -> Result<TensorDict> {
        self.to(Device::Cpu)
    }

    /// The whole tensordict on a CUDA device: [`to`](Self::to) it.
    ///
    /// # Errors
    ///
    /// As [`to`](Self::to).
    pub fn cuda(&self, index: usize) -> Result<TensorDict> {
        self.to(Device::Cuda(index))
    }

    /// Zeros of the same shapes, dtypes and devices. Non-tensor values stay as they are.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn zeros_like(&self) -> Result<TensorDict> {
        self.apply(|tensor| Ok(tensor.f_zeros_like()?))
    }

    /// Ones of the same shapes, dtypes and devices. Non-tensor values stay as they are.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn ones_like(&self) -> Result<TensorDict> {
        self.apply(|tensor| Ok(tensor.f_ones_like()?))
    }

    /// Writes zeros into all tensors. Non-tensor values stay as they are.
    ///
    /// # Errors
    ///
    /// As [`update_`](Self::update_).
    pub fn zero_(&mut self) -> Result<()> {
        self.fill_(0)
    }

    /// Writes a number into all tensors. Non-tensor values stay as they are.
    ///
    /// # Errors
    ///
    /// An [overflow](Error::is_overflow) error, with the key, if a dtype of integers can't hold `value`; what
    /// [`update_`](Self::update_) says. Then nothing is written.
    pub fn fill_(&mut self, value: impl Into<Number>) -> Result<()> {
        let value = value.into();
        self.apply_(|tensor| Ok(value.cast(tensor)?.f_expand(tensor.size(), false)?))
    }

    /// No entries; the same batch size, names and device. Of a lazy stack, a stack of such members.
    #[must_use]
    pub fn empty(&self) -> TensorDict {
        self.blank()
    }

    /// A dense tensordict of another batch size: every tensor zeros of its dtype on its device, with the dims
    /// it has beyond the batch. Jagged rows have no elements, non-tensor values are null.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a negative size, for jagged tensors unless the batch has one dim
    /// before and after, and for entries of a lazy stack that differ in shape; libtorch's if there isn't
    /// enough memory.
    pub fn new_zeros(&self, batch_size: impl Into<Vec<i64>>) -> Result<TensorDict> {
        let batch_size = batch_size.into();
        if let Some(size) = batch_size.iter().find(|size| **size < 0) {
            return Err(Error::shape(format!("a batch size can't be {size}")));
        }
        self.refilled(&batch_size, self.batch_dims(), 0.into())
    }

    /// As [`Entry::refilled`], dense.
    pub(super) fn refilled(&self, batch_size: &[i64], dims: usize, value: Number) -> Result<TensorDict> {
        let sizes = [batch_size, &self.batch_size()[dims..]].concat();
        let mut made = Dense { batch_size: sizes, device: self.device(), ..Dense::default() };
        for name in self.keys() {
            let entry = self.entry(name.as_str())?.refilled(batch_size, dims, value);
            made.entries.insert(name.clone(), entry.map_err(|error| error.below(&name))?);
        }
        Ok(TensorDict::dense(made))
    }

    /// A dense tensordict with the entries of this one in contiguous memory, copied where they are not. A lazy
    /// stack's are stacked, those that all members have; its stack dim's name stays only where other dims
    /// have names.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error, with the key, for a lazy stack whose members differ in batch size or
    /// whose entries do in shape; a [key](Error::is_key) error if entries differ in kind.
    pub fn contiguous(&self) -> Result<TensorDict> {
        let dense = match &self.body {
            Body::Dense(dense) => dense.emptied(),
            Body::Lazy(stack) => {
                let (batch_size, mut names) = (self.batch_size(), self.names());
                if batch_size.contains(&-1) {
                    return Err(Error::shape(format!(
                        "the members of the lazy stack differ in batch size, {batch_size:?}, so it can't be made dense"
                    ))
                    .remedy("pad the members, or go through them one by one"));
                }
                if names.iter().filter(|name| name.is_some()).count() <= usize::from(stack.stack_dim_name.is_some()) {
                    names.clear();
                }
                Dense { batch_size, names, device: self.device(), ..Dense::default() }
            }
        };
        let mut contiguous = dense;
        for name in self.keys() {
            let entry = match self.entry(name.as_str())? {
                Entry::Tensor(tensor) => tensor.f_contiguous()?.into(),
                Entry::Jagged(jagged) => {
                    let (values, offsets) = (jagged.values().f_contiguous()?, jagged.offsets().f_contiguous()?);
                    JaggedTensor::from_trusted(values, offsets).into()
                }
                Entry::NonTensor(values) => values.into(),
                Entry::Dict(dict) => dict.contiguous().map_err(|error| error.below(&name))?.into(),
            };
            contiguous.entries.insert(name, entry);
        }
        Ok(TensorDict::dense(contiguous))
    }
}

impl Entry {
    /// An entry of the same kind and dtypes in a batch of these sizes instead of its first `dims` dims: tensors hold
    /// `value`, jagged rows no elements, and what is no tensor is null.
    pub(super) fn refilled(&self, batch_size: &[i64], dims: usize, value: Number) -> Result<Entry> {
        let shape = self.shape();
        let beyond = shape.get(dims..).ok_or_else(|| {
            Error::shape(format!("its shape is {shape:?}, of fewer dims than its batch"))
                .remedy("set it anew: another handle on the tensor resized it")
        })?;
        let sizes = [batch_size, beyond].concat();
        Ok(match self {
            Entry::Tensor(tensor) => {
                let mut filled = Tensor::f_empty(sizes, (tensor.f_kind()?, tensor.device()))?;
                let _ = filled.f_fill_tensor_(&value.cast(tensor)?)?;
                filled.into()
            }
            Entry::Jagged(jagged) => {
                let ([rows], 1) = (batch_size, dims) else {
                    return Err(Error::shape(format!(
                        "a jagged tensor of shape {shape:?} has one batch dim, so it can't take the place of {dims} by {batch_size:?}"
                    )));
                };
                let values = jagged.values().f_narrow(0, 0, 0)?.f_alias_copy()?;
                let offsets = Tensor::f_zeros([rows.saturating_add(1)], (Kind::Int64, jagged.device()))?;
                JaggedTensor::from_trusted(values, offsets).into()
            }
            Entry::NonTensor(values) => values.nulls(&sizes)?.into(),
            Entry::Dict(dict) => dict.refilled(batch_size, dims, value)?.into(),
        })
    }
}
