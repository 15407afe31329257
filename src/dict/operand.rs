//! What stands beside each leaf in an operation: a number, a tensor over the batch, or another tensordict.

use tch::Tensor;

use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::index::elements;
use crate::tensor::Number;
use crate::tensor::{JaggedTensor, NonTensorStack};

/// The right side of an operation on all leaves.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Operand<'a> {
    /// The same number for every element.
    Number(Number),
    /// A tensor that is broadcast to the batch size: its value at a place of the batch counts for all that
    /// is there.
    Tensor(&'a Tensor),
    /// A tensordict of the same batch size and keys, entry by entry.
    Dict(&'a TensorDict),
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl From<$type> for Operand<'_> {
            fn from(value: $type) -> Self {
                Operand::Number(value.into())
            }
        }
    )*};
}

numbers!(i32, i64, f32, f64);

impl From<Number> for Operand<'_> {
    fn from(number: Number) -> Self {
        Operand::Number(number)
    }
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Operand::Tensor(tensor)
    }
}

impl<'a> From<&'a TensorDict> for Operand<'a> {
    fn from(dict: &'a TensorDict) -> Self {
        Operand::Dict(dict)
    }
}

/// What goes along while the leaves are walked through.
#[derive(Debug)]
pub(super) enum Side {
    /// A tensor over the first batch dims, each of their size or 1.
    Lead(Tensor),
    /// Its entries at the same keys.
    Dict(TensorDict),
}

/// What a side has for one leaf.
#[derive(Debug)]
pub(super) enum Beside {
    Tensor(Tensor),
    NonTensor(NonTensorStack),
}

impl Side {
    /// A tensor that torch can broadcast to the batch size.
    pub(super) fn broadcast(tensor: &Tensor, batch_size: &[i64]) -> Result<Side> {
        ensure_shaped(tensor)?;
        let sizes = tensor.size();
        let fits = sizes.len() <= batch_size.len()
            && sizes.iter().rev().zip(batch_size.iter().rev()).all(|(size, batch)| *size == 1 || size == batch);
        if !fits {
            return Err(Error::shape(format!(
                "a tensor of shape {sizes:?} can't be broadcast to the batch size {batch_size:?}"
            )));
        }
        let mut lead = tensor.shallow_clone();
        for _ in sizes.len()..batch_size.len() {
            lead = lead.f_unsqueeze(0)?;
        }
        Ok(Side::Lead(lead))
    }

    /// A tensor whose shape is the batch size or its first dims.
    pub(super) fn covering(tensor: &Tensor, batch_size: &[i64]) -> Result<Side> {
        ensure_shaped(tensor)?;
        let sizes = tensor.size();
        if !batch_size.starts_with(&sizes) || sizes.contains(&-1) {
            return Err(Error::shape(format!(
                "a mask of shape {sizes:?} doesn't cover the batch size {batch_size:?}; its shape must be the batch \
                 size or its first dims"
            )));
        }
        Ok(Side::Lead(tensor.shallow_clone()))
    }

    /// A tensordict of this batch size.
    pub(super) fn dict(dict: &TensorDict, batch_size: &[i64]) -> Result<Side> {
        if dict.batch_size() != batch_size {
            return Err(Error::shape(format!(
                "the batch sizes differ: {batch_size:?} here, {:?} in the other tensordict",
                dict.batch_size()
            )));
        }
        Ok(Side::Dict(dict.shallow_clone()))
    }

    /// The side of each of `count` pieces along batch dim `dim`.
    pub(super) fn split(&self, dim: usize, count: usize) -> Result<Vec<Side>> {
        match self {
            Side::Lead(lead) => match lead.size().get(dim) {
                None => Ok((0..count).map(|_| Side::Lead(lead.shallow_clone())).collect()),
                Some(1) => {
                    let shared = lead.f_select(dim as i64, 0)?;
                    Ok((0..count).map(|_| Side::Lead(shared.shallow_clone())).collect())
                }
                Some(_) => Ok(lead.f_unbind(dim as i64)?.into_iter().map(Side::Lead).collect()),
            },
            Side::Dict(dict) => {
                let pieces = dict.unbind(dim as i64)?;
                if pieces.len() != count {
                    return Err(Error::shape(format!(
                        "along dim {dim} there are {count} places here, {} in the other tensordict",
                        pieces.len()
                    )));
                }
                Ok(pieces.into_iter().map(Side::Dict).collect())
            }
        }
    }

    /// The side of the nested dict at `name`.
    pub(super) fn below(&self, name: &str) -> Result<Side> {
        match self {
            Side::Lead(lead) => Ok(Side::Lead(lead.shallow_clone())),
            Side::Dict(dict) => match dict.entry(name)? {
                Entry::Dict(below) => Ok(Side::Dict(below)),
                other => Err(kinds("dict", &other)),
            },
        }
    }

    /// What stands beside the tensor at `name`, in as many dims where it is a tensor over the batch.
    pub(super) fn beside_tensor(&self, name: &str, tensor: &Tensor) -> Result<Tensor> {
        match self {
            Side::Lead(lead) => with_dims(lead, tensor.dim()),
            Side::Dict(dict) => match dict.entry(name)? {
                Entry::Tensor(other) => Ok(other),
                other => Err(kinds("tensor", &other)),
            },
        }
    }

    /// What stands beside the values of the jagged tensor at `name`.
    pub(super) fn beside_jagged(&self, name: &str, jagged: &JaggedTensor) -> Result<Tensor> {
        match self {
            Side::Lead(lead) => {
                let per_value = match lead.size().first() {
                    None | Some(1) => lead.shallow_clone(),
                    Some(_) => {
                        let lengths = jagged.lengths()?.f_to_device(lead.device())?;
                        lead.f_repeat_interleave_self_tensor(&lengths, 0, None)?
                    }
                };
                with_dims(&per_value, jagged.values().dim())
            }
            Side::Dict(dict) => match dict.entry(name)? {
                Entry::Jagged(other) => {
                    ensure_same_offsets(jagged, &other)?;
                    Ok(other.values().shallow_clone())
                }
                other => Err(kinds("jagged", &other)),
            },
        }
    }

    /// What stands beside the non-tensor values at `name`.
    pub(super) fn beside_non_tensor(&self, name: &str) -> Result<Beside> {
        match self {
            Side::Lead(lead) => Ok(Beside::Tensor(lead.shallow_clone())),
            Side::Dict(dict) => match dict.entry(name)? {
                Entry::NonTensor(other) => Ok(Beside::NonTensor(other)),
                other => Err(kinds("non_tensor", &other)),
            },
        }
    }
}

fn kinds(here: &str, other: &Entry) -> Error {
    Error::key(format!("the entry is of kind {here} here, {} in the other tensordict", other.kind()))
}

/// The tensor with dims of size 1 at the end, `dims` in all.
pub(super) fn with_dims(tensor: &Tensor, dims: usize) -> Result<Tensor> {
    let mut longer = tensor.shallow_clone();
    for _ in tensor.dim()..dims {
        longer = longer.f_unsqueeze(-1)?;
    }
    Ok(longer)
}

pub(super) fn ensure_shaped(tensor: &Tensor) -> Result<()> {
    if !tensor.defined() {
        return Err(Error::shape("the tensor is undefined: it has no shape, dtype or device"));
    }
    match tensor.f_internal_shape_as_tensor() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::shape("the tensor is one of libtorch's nested tensors, which have no one shape")
            .remedy("JaggedTensor::from_strided_nested makes a jagged tensor of it")),
    }
}

/// Fails at the first row whose lengths differ.
pub(super) fn ensure_same_offsets(jagged: &JaggedTensor, other: &JaggedTensor) -> Result<()> {
    let lengths = |jagged: &JaggedTensor| -> Result<Vec<i64>> { elements(&jagged.lengths()?) };
    let (here, there) = (lengths(jagged)?, lengths(other)?);
    if here.len() != there.len() {
        return Err(Error::shape(format!(
            "the offsets differ: {} rows here, {} in the other jagged tensor",
            here.len(),
            there.len()
        )));
    }
    match here.iter().zip(&there).enumerate().find(|(_, (here, there))| here != there) {
        None => Ok(()),
        Some((row, (here, there))) => Err(Error::shape(format!(
            "the offsets differ: the row has {here} elements here, {there} in the other jagged tensor"
        ))
        .at_row(row)),
    }
}
