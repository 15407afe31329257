//! Tensordicts of the same structure with other tensors: copies, casts, zeros, dense ones.

use tch::{Device, Kind, TchError, Tensor};

use super::dense::Dense;
use super::overwrite::has_strides;
use super::stack::same_kind;
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{JaggedTensor, Number, promoted};

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

    /// Takes the device label off this tensordict and all in it. Tensors stay where they are, and what is put in
    /// from here on is not moved. Also of locked tensordicts.
    pub fn clear_device(&mut self) {
        match &mut self.body {
            Body::Dense(dense) => {
                dense.device = None;
                for entry in dense.entries.values_mut() {
                    if let Entry::Dict(dict) = entry {
                        dict.clear_device();
                    }
                }
            }
            Body::Lazy(stack) => {
                stack.members.iter_mut().for_each(TensorDict::clear_device);
                stack.blank.clear_device();
            }
        }
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
    /// it has beyond the batch. Non-tensor values are null.
    ///
    /// Where rows differ in length, jagged or in the members of a lazy stack, the new ones have no elements: under
    /// a batch of one dim they are jagged, under any other a tensor with a dim of size 0.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a negative size, and for entries of a lazy stack that differ in their number
    /// of dims; a [key](Error::is_key) error if they differ in kind; libtorch's if there isn't enough memory.
    pub fn new_zeros(&self, batch_size: impl Into<Vec<i64>>) -> Result<TensorDict> {
        let batch_size = batch_size.into();
        if let Some(size) = batch_size.iter().find(|size| **size < 0) {
            return Err(Error::shape(format!("a batch size can't be {size}")));
        }
        self.refilled(&batch_size, self.batch_dims(), &zeros)
    }

    /// As [`Entry::refilled`], dense. Nothing is stacked for it.
    pub(super) fn refilled(&self, batch_size: &[i64], dims: usize, fill: &Fill<'_>) -> Result<TensorDict> {
        let below = self.batch_size().into_iter().skip(dims).take_while(|size| *size >= 0);
        let sizes = batch_size.iter().copied().chain(below).collect();
        let mut made = Dense { batch_size: sizes, device: self.device(), ..Dense::default() };
        for name in self.keys() {
            let entry = match &self.body {
                Body::Dense(dense) => dense.entries.get(&name).map(|entry| entry.refilled(batch_size, dims, fill)),
                Body::Lazy(_) => Some(self.refilled_members(&name, batch_size, dims, fill)),
            };
            if let Some(entry) = entry {
                made.entries.insert(name.clone(), entry.map_err(|error| error.below(&name))?);
            }
        }
        Ok(TensorDict::dense(made))
    }

    /// One entry for those of all members of a lazy stack.
    fn refilled_members(&self, name: &str, batch_size: &[i64], dims: usize, fill: &Fill<'_>) -> Result<Entry> {
        let entries = self.list_at(&[name.to_owned()], None)?.into_flat();
        same_kind(&entries)?;
        let values = entries.iter().filter_map(|entry| match entry {
            Entry::Tensor(tensor) => Some(tensor),
            Entry::Jagged(jagged) => Some(jagged.values()),
            _ => None,
        });
        let kind = promoted(values)?;
        let shape = self.item_shape(name)?;
        match entries.into_iter().next() {
            Some(Entry::Tensor(first)) => refilled(&first, kind, &shape, batch_size, dims, fill),
            Some(Entry::Jagged(first)) => refilled(first.values(), kind, &shape, batch_size, dims, fill),
            Some(Entry::NonTensor(first)) => {
                Ok(first.nulls(&without_ragged(resized(&shape, batch_size, dims)?))?.into())
            }
            _ => self.dict(name)?.refilled(batch_size, dims, fill).map(Entry::Dict),
        }
    }

    /// Whether it is dense and all its tensors lie in contiguous memory, so that [`contiguous`](Self::contiguous) copies
    /// none. A lazy stack, here or below, never is.
    pub fn is_contiguous(&self) -> bool {
        let Body::Dense(dense) = &self.body else { return false };
        dense.entries.values().all(|entry| match entry {
            Entry::Tensor(tensor) => in_one_piece(tensor),
            Entry::Jagged(jagged) => in_one_piece(jagged.values()) && in_one_piece(jagged.offsets()),
            Entry::NonTensor(_) => true,
            Entry::Dict(dict) => dict.is_contiguous(),
        })
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
                let (batch_size, mut names) = (self.batch_size(), self.shared_names());
                if batch_size.contains(&-1) {
                    return Err(Error::shape(format!(
                        "the members of the lazy stack differ in batch size, {batch_size:?}, so it can't be made dense"
                    ))
                    .remedy("pad the members, or go through them one by one"));
                }
                if names.iter().filter(|name| name.is_some()).count() <= usize::from(stack.dim_name().is_some()) {
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

/// Sparse tensors can't be asked.
fn in_one_piece(tensor: &Tensor) -> bool {
    has_strides(tensor) && tensor.is_contiguous()
}

/// What is put in a tensor of these sizes, which has the dtype and device of another.
pub(super) type Fill<'a> = dyn Fn(&Tensor, &[i64]) -> Result<Tensor> + 'a;

/// Zeros, as a [`Fill`].
pub(super) fn zeros(like: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    Ok(Tensor::f_zeros(sizes, (like.f_kind()?, like.device()))?)
}

impl Entry {
    /// An entry of the same kind and dtypes in a batch of these sizes instead of its first `dims` dims: tensors hold
    /// what `fill` gives, rows of different lengths no elements, and what is no tensor is null.
    pub(super) fn refilled(&self, batch_size: &[i64], dims: usize, fill: &Fill<'_>) -> Result<Entry> {
        let shape = self.shape();
        match self {
            Entry::Tensor(tensor) => refilled(tensor, tensor.f_kind()?, &shape, batch_size, dims, fill),
            Entry::Jagged(jagged) => {
                refilled(jagged.values(), jagged.values().f_kind()?, &shape, batch_size, dims, fill)
            }
            Entry::NonTensor(values) => Ok(values.nulls(&resized(&shape, batch_size, dims)?)?.into()),
            Entry::Dict(dict) => dict.refilled(batch_size, dims, fill).map(Entry::Dict),
        }
    }
}

/// For an entry of this shape and dtype, on the device of `like`.
fn refilled(
    like: &Tensor,
    kind: Kind,
    shape: &[i64],
    batch_size: &[i64],
    dims: usize,
    fill: &Fill<'_>,
) -> Result<Entry> {
    let device = like.device();
    let sizes = resized(shape, batch_size, dims)?;
    if let [rows @ (0..), -1, trailing @ ..] = sizes.as_slice()
        && !trailing.contains(&-1)
    {
        let values = Tensor::f_zeros([&[0], trailing].concat(), (kind, device))?;
        let offsets = Tensor::f_zeros([rows.saturating_add(1)], (Kind::Int64, device))?;
        return Ok(JaggedTensor::from_trusted(values, offsets).into());
    }
    let like = Tensor::f_empty([0], (kind, device))?;
    Ok(fill(&like, &without_ragged(sizes))?.into())
}

/// The sizes with `batch_size` instead of the first `dims`.
fn resized(shape: &[i64], batch_size: &[i64], dims: usize) -> Result<Vec<i64>> {
    let beyond = shape.get(dims..).ok_or_else(|| {
        Error::shape(format!("its shape is {shape:?}, of fewer dims than its batch"))
            .remedy("set it anew: members differ in their number of dims, or another handle resized it")
    })?;
    Ok([batch_size, beyond].concat())
}

/// No elements where rows differ in length.
fn without_ragged(sizes: Vec<i64>) -> Vec<i64> {
    sizes.into_iter().map(|size| size.max(0)).collect()
}
