//! What a key holds.

use std::sync::Arc;

use arrow::array::StringArray;
use tch::{Device, Tensor};

use super::TensorDict;
use crate::error::{Error, Result};
use crate::index::Selection;
use crate::tensor::{JaggedTensor, NonTensorStack, select};

/// What a key of a tensordict holds.
#[derive(Debug)]
#[non_exhaustive]
pub enum Entry {
    /// A dense tensor.
    Tensor(Tensor),
    /// Rows of different lengths.
    Jagged(JaggedTensor),
    /// Values that are no tensors.
    NonTensor(NonTensorStack),
    /// A nested tensordict.
    Dict(TensorDict),
}

impl Entry {
    /// `tensor`, `jagged`, `non_tensor` or `dict`.
    pub fn kind(&self) -> &'static str {
        match self {
            Entry::Tensor(_) => "tensor",
            Entry::Jagged(_) => "jagged",
            Entry::NonTensor(_) => "non_tensor",
            Entry::Dict(_) => "dict",
        }
    }

    /// The entry's pieces along a batch dim, which share storage.
    pub(super) fn unbind(self, dim: usize) -> Result<Vec<Entry>> {
        match self {
            Entry::Tensor(tensor) => Ok(tensor.f_unbind(dim as i64)?.into_iter().map(Entry::Tensor).collect()),
            Entry::Jagged(jagged) if dim == 0 => {
                (0..jagged.num_rows()).map(|row| jagged.row(row).map(Entry::Tensor)).collect()
            }
            Entry::Jagged(jagged) => Err(Error::shape(format!(
                "a jagged tensor of shape {:?} can only be taken apart along dim 0",
                jagged.shape()
            ))),
            Entry::NonTensor(values) => Ok(values.unbind(dim)?.into_iter().map(Entry::NonTensor).collect()),
            Entry::Dict(dict) => Ok(dict.unbind(dim as i64)?.into_iter().map(Entry::Dict).collect()),
        }
    }

    /// The shape, batch first; -1 for a ragged dim and for each dim of one of libtorch's nested tensors. For a dict, its
    /// batch size.
    pub fn shape(&self) -> Vec<i64> {
        match self {
            Entry::Tensor(tensor) if tensor.f_internal_shape_as_tensor().is_ok() => tensor.size(),
            Entry::Tensor(tensor) => vec![-1; tensor.dim()],
            Entry::Jagged(jagged) => jagged.shape(),
            Entry::NonTensor(values) => values.batch_size().to_vec(),
            Entry::Dict(dict) => dict.batch_size(),
        }
    }

    /// The dense tensor, if it is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Entry::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The jagged tensor, if it is one.
    pub fn as_jagged(&self) -> Option<&JaggedTensor> {
        match self {
            Entry::Jagged(jagged) => Some(jagged),
            _ => None,
        }
    }

    /// The non-tensor values, if they are such.
    pub fn as_non_tensor(&self) -> Option<&NonTensorStack> {
        match self {
            Entry::NonTensor(values) => Some(values),
            _ => None,
        }
    }

    /// The nested tensordict, if it is one.
    pub fn as_dict(&self) -> Option<&TensorDict> {
        match self {
            Entry::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    /// The nested tensordict itself, if it is one.
    pub fn into_dict(self) -> Option<TensorDict> {
        match self {
            Entry::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    /// Another handle on the same storage.
    #[must_use]
    pub fn shallow_clone(&self) -> Entry {
        match self {
            Entry::Tensor(tensor) => Entry::Tensor(tensor.shallow_clone()),
            Entry::Jagged(jagged) => Entry::Jagged(jagged.shallow_clone()),
            Entry::NonTensor(values) => Entry::NonTensor(values.clone()),
            Entry::Dict(dict) => Entry::Dict(dict.shallow_clone()),
        }
    }

    pub(super) fn to_device(&self, device: Device) -> Result<Entry> {
        Ok(match self {
            Entry::Tensor(tensor) => Entry::Tensor(tensor.f_to_device(device)?),
            Entry::Jagged(jagged) => Entry::Jagged(jagged.to_device(device)?),
            Entry::NonTensor(values) => Entry::NonTensor(values.clone()),
            Entry::Dict(dict) => Entry::Dict(dict.to(device)?),
        })
    }

    pub(super) fn select(&self, selection: &Selection) -> Result<Entry> {
        match self {
            Entry::Tensor(tensor) => select(tensor, selection).map(Entry::Tensor),
            Entry::Jagged(jagged) => match selection {
                Selection::Row(row) => jagged.row(*row).map(Entry::Tensor),
                _ => jagged.index_with(selection).map(Entry::Jagged),
            },
            Entry::NonTensor(values) => values.index_with(selection).map(Entry::NonTensor),
            Entry::Dict(dict) => dict.index_with(selection).map(Entry::Dict),
        }
    }
}

impl From<Tensor> for Entry {
    fn from(tensor: Tensor) -> Self {
        Entry::Tensor(tensor)
    }
}

impl From<JaggedTensor> for Entry {
    fn from(jagged: JaggedTensor) -> Self {
        Entry::Jagged(jagged)
    }
}

impl From<NonTensorStack> for Entry {
    fn from(values: NonTensorStack) -> Self {
        Entry::NonTensor(values)
    }
}

/// One value for the whole batch.
impl From<&str> for Entry {
    fn from(text: &str) -> Self {
        Entry::NonTensor(NonTensorStack::new(Arc::new(StringArray::from(vec![text]))).row(0))
    }
}

impl From<TensorDict> for Entry {
    fn from(dict: TensorDict) -> Self {
        Entry::Dict(dict)
    }
}
