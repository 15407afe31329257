//! Putting entries and tensordicts together along a new dim.

use tch::Tensor;

use super::lazy::LazyStack;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::tensor::NonTensorStack;

/// The members' entries as one, along batch dim `dim`. There is at least one.
pub(super) fn stack_entries(entries: Vec<Entry>, dim: usize, dim_name: Option<&str>) -> Result<Entry> {
    let kinds: Vec<_> = entries.iter().map(Entry::kind).collect();
    if let Some(other) = kinds.iter().find(|kind| **kind != kinds[0]) {
        return Err(Error::key(format!("the members' entries are of different kinds: {} and {other}", kinds[0]))
            .remedy("get_list gives them one by one"));
    }
    let mut tensors = Vec::new();
    let mut values = Vec::new();
    let mut dicts = Vec::new();
    for entry in entries {
        match entry {
            Entry::Tensor(tensor) => tensors.push(tensor),
            Entry::NonTensor(stack) => values.push(stack),
            Entry::Dict(dict) => dicts.push(dict),
            Entry::Jagged(jagged) => {
                return Err(Error::shape(format!(
                    "jagged tensors can't be stacked: a jagged tensor has one ragged dim, the first of them is {:?}",
                    jagged.shape()
                ))
                .remedy("get_list gives them one by one"));
            }
        }
    }
    if !dicts.is_empty() {
        LazyStack::check(&dicts, false)?;
        let stack = LazyStack::from_trusted(dicts, dim, dim_name.map(str::to_owned));
        return Ok(TensorDict::lazy(stack).into());
    }
    if !values.is_empty() {
        return NonTensorStack::stack(&values, dim).map(Entry::NonTensor);
    }
    stack_tensors(&tensors, dim).map(Entry::Tensor)
}

/// The tensors along a new dim, in the dtype that holds all of theirs.
pub(super) fn stack_tensors(tensors: &[Tensor], dim: usize) -> Result<Tensor> {
    let first = tensors.first().map(Tensor::size).unwrap_or_default();
    if let Some(other) = tensors.iter().map(Tensor::size).find(|size| *size != first) {
        return Err(Error::shape(format!(
            "Failed to stack tensors within a tensordict: their shapes differ, {first:?} and {other:?}"
        ))
        .remedy("get_list gives them one by one, get_padded padded, get_jagged as a jagged tensor"));
    }
    Ok(Tensor::f_stack(tensors, dim as i64)?)
}
