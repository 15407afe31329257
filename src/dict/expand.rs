//! Batches repeated.

use super::TensorDict;
use super::dense::{Dense, dims_beyond};
use super::indices::along;
use super::lazy::LazyStack;
use super::stack::maybe_dense;
use super::tensordict::Body;
use crate::error::{Error, Result};
use crate::index::{Index, room};

impl TensorDict {
    /// The batch repeated along dims of size 1 and along new dims in front, without a copy: tensors share storage. -1
    /// keeps a size.
    ///
    /// A lazy stack becomes dense if its members have the same keys and shapes, or come to have them. Otherwise it
    /// stays lazy and keeps every entry; a stack of one member repeats it.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let td = TensorDict::from_entries([("x", Tensor::from_slice(&[1i64, 2]))])?.with_batch_size(&[2])?;
    /// let rows = td.expand(&[3, 2])?;
    /// assert_eq!(Vec::<Vec<i64>>::try_from(rows.tensor("x")?)?, [[1, 2], [1, 2], [1, 2]]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for sizes that the batch can't be repeated to, and for a jagged entry.
    pub fn expand(&self, batch_size: &[i64]) -> Result<TensorDict> {
        let old = self.batch_size();
        let misfit = || Error::shape(format!("a batch size of {old:?} can't be expanded to {batch_size:?}"));
        let added = batch_size.len().checked_sub(old.len()).ok_or_else(misfit)?;
        let mut new = batch_size.to_vec();
        for (at, size) in new.iter_mut().enumerate() {
            let theirs = at.checked_sub(added).map(|at| old[at]);
            match (theirs, *size) {
                (Some(theirs), -1) => *size = theirs,
                // Where members differ, each of them decides.
                (Some(1 | -1) | None, 0..) => {}
                (Some(theirs), size) if theirs == size => {}
                _ => return Err(misfit()),
            }
        }
        if new == old {
            return Ok(self.shallow_clone());
        }
        // Ragged dims aside, the places can be counted.
        let places = new.iter().filter(|size| **size >= 0).try_fold(1i64, |places, size| places.checked_mul(*size));
        places.ok_or_else(|| Error::shape(format!("{batch_size:?} has more places than can be counted")))?;
        if let Body::Lazy(stack) = &self.body {
            let mut expanded = stack.expand(added, &new)?;
            let names: Vec<_> = (0..added).map(|_| None).chain(self.shared_names()).collect();
            expanded.put_names(&names);
            return Ok(expanded);
        }
        self.dense_op(
            |dense| {
                let none = (0..added).map(|_| None);
                let names = if dense.names.is_empty() { Vec::new() } else { none.chain(dense.names.clone()).collect() };
                Dense { batch_size: new.clone(), names, ..dense.emptied() }
            },
            &|tensor| Ok(tensor.f_expand([&new[..], &dims_beyond(tensor, &old)?].concat(), false)?),
            &|dict| dict.expand(&[&new[..], &dict.batch_size()[old.len()..]].concat()),
        )
    }

    /// The batch `repeats[i]` times along dim `i`, one after the other, copied. A lazy stack's members are repeated,
    /// not copied, along its stack dim.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for another number of repeats than of batch dims, a negative one, and jagged
    /// entries.
    pub fn repeat(&self, repeats: &[i64]) -> Result<TensorDict> {
        let sizes = self.batch_size();
        if repeats.len() != sizes.len() || repeats.iter().any(|count| *count < 0) {
            return Err(Error::shape(format!("a batch size of {sizes:?} can't be repeated {repeats:?} times")));
        }
        if let Body::Lazy(stack) = &self.body {
            let mut within = repeats.to_vec();
            let times = within.remove(stack.stack_dim);
            let once = within.iter().all(|count| *count == 1);
            let repeat = |member: &TensorDict| if once { Ok(member.handle()) } else { member.repeat(&within) };
            let repeated = stack.remade(stack.stack_dim, repeat)?;
            let mut members = room(times.saturating_mul(repeated.members.len() as i64))?;
            if !repeated.members.is_empty() {
                members.extend((0..times).flat_map(|_| repeated.members.iter().map(TensorDict::shallow_clone)));
            }
            return Ok(TensorDict::lazy(repeated.with_members(members)));
        }
        let grown = sizes.iter().zip(repeats).map(|(size, count)| size.checked_mul(*count)).collect::<Option<Vec<_>>>();
        let grown = grown.ok_or_else(|| Error::shape("more rows than can be counted"))?;
        let with_rest =
            |dims: usize| -> Vec<i64> { repeats.iter().copied().chain((sizes.len()..dims).map(|_| 1)).collect() };
        self.dense_op(
            |dense| Dense { batch_size: grown, ..dense.emptied() },
            &|tensor| Ok(tensor.f_repeat(with_rest(tensor.dim()))?),
            &|dict| dict.repeat(&with_rest(dict.batch_dims())),
        )
    }

    /// Each row along a batch dim `count` times, copied; of a lazy stack along its stack dim, the same members. Along
    /// other dims each member repeats its own rows.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a count that is negative or makes more rows than memory holds; an
    /// [index](Error::is_index) error for a dim out of range.
    pub fn repeat_interleave(&self, count: i64, dim: i64) -> Result<TensorDict> {
        let at = self.batch_dim(dim)?;
        if count < 0 {
            return Err(Error::shape(format!("rows can't be repeated {count} times")));
        }
        match &self.body {
            Body::Lazy(stack) if at != stack.stack_dim => {
                let (within, _) = stack.around(at);
                let repeat = |member: &TensorDict| member.repeat_interleave(count, within as i64);
                stack.remade(stack.stack_dim, repeat).map(TensorDict::lazy)
            }
            _ => {
                // Rows repeated no times are none, however many.
                let size = if count > 0 { self.batch_size()[at] } else { 0 };
                let mut rows = room(size.saturating_mul(count))?;
                rows.extend((0..size).flat_map(|row| (0..count).map(move |_| row)));
                self.index_rows(at, rows)
            }
        }
    }

    /// The rows along batch dims backwards.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for dims out of range.
    pub fn flip(&self, dims: &[i64]) -> Result<TensorDict> {
        let mut items: Vec<Index> = self.batch_size().iter().map(|_| Index::from(..)).collect();
        for dim in dims {
            items[self.batch_dim(*dim)?] = Index::Slice { start: None, stop: None, step: -1 };
        }
        self.index(items)
    }

    /// The rows along a batch dim moved by `shift` places; those that leave at one end come in at the other.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a dim along which members differ, and for more rows than memory can list;
    /// an [index](Error::is_index) error for a dim out of range.
    pub fn roll(&self, shift: i64, dim: i64) -> Result<TensorDict> {
        let (at, size) = self.even_dim(dim)?;
        let from = if size > 0 { shift.rem_euclid(size) } else { 0 };
        let mut rows = room(size)?;
        rows.extend((size - from..size).chain(0..size - from));
        self.index_rows(at, rows)
    }

    /// `length` rows along a batch dim from `start` on; a negative start counts from the end. Tensors share storage.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for rows or a dim out of range.
    pub fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<TensorDict> {
        let (at, size) = self.even_dim(dim)?;
        let first = if start < 0 { start.saturating_add(size) } else { start };
        let end = first.checked_add(length).filter(|end| first >= 0 && length >= 0 && *end <= size);
        let end = end.ok_or_else(|| {
            Error::index(format!("{length} rows from {start} on are out of bounds for dim {dim}, which is {size}"))
        })?;
        let items = along(at, Index::from(first..end));
        self.index(items)
    }

    fn index_rows(&self, dim: usize, rows: Vec<i64>) -> Result<TensorDict> {
        let items = along(dim, Index::Rows(rows));
        self.index(items)
    }
}

impl LazyStack {
    /// To sizes that fit, with `added` new dims in front.
    fn expand(&self, added: usize, new: &[i64]) -> Result<TensorDict> {
        let stack_dim = self.stack_dim + added;
        let even = !self.member_batch_size().contains(&-1);
        // Made dense first, so that each entry is copied once.
        if even && let Some(dense) = self.dense()? {
            return dense.expand(new);
        }
        let mut within = new.to_vec();
        let count = within.remove(stack_dim);
        let mut stack = self.remade(stack_dim, |member| member.expand(&within))?;
        if let [only] = stack.members.as_slice() {
            let mut members = room(count)?;
            members.extend((0..count).map(|_| only.shallow_clone()));
            stack.members = members;
        }
        match stack.dense()? {
            Some(dense) if !even => Ok(dense),
            _ => Ok(TensorDict::lazy(stack)),
        }
    }

    /// The members as a dense tensordict, if they have the same keys and shapes.
    fn dense(&self) -> Result<Option<TensorDict>> {
        if self.members.is_empty() {
            return Ok(None);
        }
        let members = self.members.iter().map(TensorDict::shallow_clone).collect();
        Ok(Some(maybe_dense(members, self.stack_dim)?).filter(|dict| !dict.is_lazy()))
    }
}
