//! Writes into tensors that there are, all checked before the first.

use std::ops::Range;

use tch::{Kind, TchError, Tensor};

use super::operand::ensure_shaped;
use crate::error::{Error, Result};
use crate::tensor::ensure_apart;

/// Tensors to write into and the values to write.
#[derive(Debug, Default)]
pub(super) struct Overwrites(Vec<(Tensor, Tensor)>);

impl Overwrites {
    /// Takes note of a write if it is possible.
    pub(super) fn add(&mut self, tensor: &Tensor, values: Tensor) -> Result<()> {
        ensure_shaped(&values)?;
        if tensor.size() != values.size() {
            return Err(Error::shape(format!(
                "the entry has shape {:?}, the values to write have {:?}",
                tensor.size(),
                values.size()
            )));
        }
        ensure_same_layout(tensor, &values)?;
        ensure_writable(tensor)?;
        self.0.push((tensor.shallow_clone(), values));
        Ok(())
    }

    /// Writes all. Values in memory that is written to are copied before.
    pub(super) fn run(self) -> Result<()> {
        let written = joined(self.0.iter().filter_map(|(tensor, _)| memory(tensor)).collect());
        let mut writes = Vec::with_capacity(self.0.len());
        for (tensor, values) in self.0 {
            if memory(&tensor).is_some() && tensor.f_is_set_to(&values)? {
                continue;
            }
            let overlaps = memory(&values).is_some_and(|range| meets(&written, &range));
            writes.push((tensor, if overlaps { values.f_alias_copy()? } else { values }));
        }
        for (mut tensor, values) in writes {
            tensor.f_copy_(&values)?;
        }
        Ok(())
    }
}

/// Fails where writing into the tensor would.
pub(super) fn ensure_writable(tensor: &Tensor) -> Result<()> {
    ensure_apart(tensor)?;
    if !tensor.requires_grad() || !gradients_are_recorded()? {
        return Ok(());
    }
    // Views of leaves don't say that they are. Writing nothing does.
    let nothing = || tensor.f_unsqueeze(0)?.f_narrow(0, 0, 0)?.f_zero_().map(|_| ());
    if tensor.f_is_leaf()? || nothing().is_err() {
        let text = "gradients are recorded for the entry, a leaf tensor; write within tch::no_grad, or detach it";
        return Err(TchError::Torch(text.to_owned()).into());
    }
    Ok(())
}

/// Fails if libtorch would refuse to copy one into the other, which it would only say once other entries are written.
pub(super) fn ensure_same_layout(tensor: &Tensor, values: &Tensor) -> Result<()> {
    let strided = has_strides(tensor);
    if strided == has_strides(values) && (strided || tensor.is_sparse() && values.is_sparse()) {
        return Ok(());
    }
    Err(Error::shape("the entry and the values to write are not both dense, or not both sparse")
        .remedy("to_dense makes a dense tensor"))
}

/// Whether the tensor lies in memory with strides; sparse ones don't.
pub(crate) fn has_strides(tensor: &Tensor) -> bool {
    !tensor.is_sparse() && !tensor.is_mkldnn() && tensor.f_internal_has_same_storage_numel(tensor).is_ok()
}

/// From the first to behind the last byte of the tensor.
fn memory(tensor: &Tensor) -> Option<Range<usize>> {
    if !has_strides(tensor) || tensor.numel() == 0 {
        return None;
    }
    let last: i64 = tensor.size().iter().zip(tensor.stride()).map(|(size, stride)| (size - 1) * stride).sum();
    let bytes = usize::try_from(last + 1).ok()?.checked_mul(tensor.f_kind().ok()?.elt_size_in_bytes())?;
    let start = tensor.data_ptr() as usize;
    Some(start..start.checked_add(bytes)?)
}

/// Ranges in ascending order, those that meet joined.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn meets(ranges: &[Range<usize>], range: &Range<usize>) -> bool {
    let after = ranges.partition_point(|other| other.start < range.end);
    after.checked_sub(1).and_then(|last| ranges.get(last)).is_some_and(|last| last.end > range.start)
}

/// Whether operations on this thread are recorded, which `tch::no_grad` turns off.
fn gradients_are_recorded() -> Result<bool> {
    let leaf = Tensor::f_zeros(1, (Kind::Float, tch::Device::Cpu))?.f_set_requires_grad(true)?;
    Ok(leaf.f_neg()?.requires_grad())
}
