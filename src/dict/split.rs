//! Taking a tensordict apart along a batch dim.

use super::dense::{Dense, dims_beyond};
use super::indices::along;
use super::lazy::LazyStack;
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::index::{Index, room};

impl TensorDict {
    /// One tensordict for each place along a batch dim, which it loses; tensors share storage. Along its
    /// stack dim a lazy stack gives its members.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a dim out of range; a [shape](Error::is_shape) error for a
    /// dim of a lazy stack along which the members differ, and for a jagged entry unless `dim` is 0.
    pub fn unbind(&self, dim: i64) -> Result<Vec<TensorDict>> {
        let at = self.batch_dim(dim)?;
        match &self.body {
            Body::Dense(dense) => {
                let size = dense.batch_size[at].max(0);
                let mut emptied = dense.emptied();
                emptied.batch_size.remove(at);
                if !emptied.names.is_empty() {
                    emptied.names.remove(at);
                }
                let mut parts: Vec<Dense> = room(size)?;
                parts.extend((0..size).map(|_| emptied.emptied()));
                for (name, entry) in &dense.entries {
                    if let Entry::Tensor(tensor) = entry {
                        dims_beyond(tensor, &dense.batch_size).map_err(|error| error.below(name))?;
                    }
                    let pieces = entry.shallow_clone().unbind(at).map_err(|error| error.below(name))?;
                    for (part, piece) in parts.iter_mut().zip(pieces) {
                        part.entries.insert(name.clone(), piece);
                    }
                }
                Ok(parts.into_iter().map(TensorDict::dense).collect())
            }
            Body::Lazy(stack) if at == stack.stack_dim => Ok(stack.members.iter().map(TensorDict::handle).collect()),
            Body::Lazy(stack) => {
                let (within, stack_dim) = stack.around(at);
                if stack.member_batch_size()[within] < 0 {
                    return Err(uneven(at));
                }
                if stack.members.is_empty() {
                    let blanks = stack.blank.unbind(within as i64)?.into_iter();
                    let empty =
                        |blank| LazyStack { stack_dim, blank: Box::new(blank), ..stack.with_members(Vec::new()) };
                    return Ok(blanks.map(|blank| TensorDict::lazy(empty(blank)).locked_as(self)).collect());
                }
                let mut columns: Vec<Vec<TensorDict>> = Vec::new();
                for member in &stack.members {
                    for (place, piece) in member.unbind(within as i64)?.into_iter().enumerate() {
                        match columns.get_mut(place) {
                            Some(column) => column.push(piece),
                            None => columns.push(vec![piece]),
                        }
                    }
                }
                Ok(columns.into_iter().map(|column| stack.restacked(column, stack_dim).locked_as(self)).collect())
            }
        }
    }

    /// Parts of these sizes along a batch dim; tensors share storage. A lazy stack's parts are lazy stacks.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let td = TensorDict::from_entries([("x", Tensor::from_slice(&[1i64, 2, 3]))])?.with_batch_size(&[3])?;
    /// let parts = td.split(&[1, 2], 0)?;
    /// assert_eq!(Vec::<i64>::try_from(parts[1].tensor("x")?)?, [2, 3]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the sizes are negative or don't sum up to that of the dim, here or in a
    /// member; an [index](Error::is_index) error for a dim out of range.
    pub fn split(&self, sizes: &[i64], dim: i64) -> Result<Vec<TensorDict>> {
        let at = self.batch_dim(dim)?;
        let total = sizes.iter().try_fold(0i64, |sum, size| sum.checked_add(*size).filter(|_| *size >= 0));
        let due = self.batch_size()[at];
        if total.is_none() || (due >= 0 && total != Some(due)) {
            let due = if due < 0 { "the members' sizes" } else { &due.to_string() };
            return Err(Error::shape(format!("parts of sizes {sizes:?} don't make {due}")).at_dim(at));
        }
        match &self.body {
            Body::Lazy(stack) if at != stack.stack_dim => {
                let (within, _) = stack.around(at);
                let mut parts: Vec<LazyStack> = sizes.iter().map(|_| stack.with_members(Vec::new())).collect();
                for (at, member) in stack.members.iter().enumerate() {
                    let pieces = member.split(sizes, within as i64);
                    let pieces = pieces.map_err(|error| error.of_member(at, stack.stack_dim))?;
                    parts.iter_mut().zip(pieces).for_each(|(part, piece)| part.members.push(piece));
                }
                if stack.members.is_empty() {
                    let blanks = stack.blank.split(sizes, within as i64)?;
                    parts.iter_mut().zip(blanks).for_each(|(part, blank)| *part.blank = blank);
                }
                Ok(parts.into_iter().map(|part| TensorDict::lazy(part).locked_as(self)).collect())
            }
            Body::Lazy(stack) => {
                let mut members = stack.members.iter().map(TensorDict::handle);
                let part = |size: &i64| {
                    let members = members.by_ref().take(usize::try_from(*size).unwrap_or_default()).collect();
                    TensorDict::lazy(LazyStack { members, ..stack.with_members(Vec::new()) })
                };
                Ok(sizes.iter().map(part).collect())
            }
            Body::Dense(_) => {
                let mut start = 0;
                let mut parts = room(sizes.len() as i64)?;
                for size in sizes {
                    let items = along(at, Index::from(start..start + size));
                    parts.push(self.index_by(&items)?);
                    start += size;
                }
                Ok(parts)
            }
        }
    }

    /// Parts of `size` rows along a batch dim, the last perhaps of fewer.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a size below 1 and for a dim along which members differ; an
    /// [index](Error::is_index) error for a dim out of range.
    pub fn split_every(&self, size: i64, dim: i64) -> Result<Vec<TensorDict>> {
        let (at, total) = self.even_dim(dim)?;
        if size < 1 {
            return Err(Error::shape(format!("parts of {size} rows can't be cut from dim {at}, which is {total}")));
        }
        let whole = total / size;
        let mut sizes: Vec<i64> = room(whole)?;
        sizes.extend((0..whole).map(|_| size));
        // A dim of no rows is one part.
        if total % size > 0 || total == 0 {
            sizes.push(total % size);
        }
        self.split(&sizes, dim)
    }

    /// At most `count` parts of equal size along a batch dim, the last perhaps of fewer.
    ///
    /// # Errors
    ///
    /// As [`split_every`](Self::split_every), and for a count below 1.
    pub fn chunk(&self, count: i64, dim: i64) -> Result<Vec<TensorDict>> {
        let (_, total) = self.even_dim(dim)?;
        if count < 1 {
            return Err(Error::shape(format!("there can't be {count} parts")));
        }
        self.split_every(if total > 0 { (total - 1) / count + 1 } else { 1 }, dim)
    }

    /// `count` parts along a batch dim, of which the first are one longer where it doesn't come out even.
    ///
    /// # Errors
    ///
    /// As [`split_every`](Self::split_every), and for a count below 1.
    pub fn tensor_split(&self, count: i64, dim: i64) -> Result<Vec<TensorDict>> {
        let (at, total) = self.even_dim(dim)?;
        if count < 1 {
            return Err(Error::shape(format!("{count} parts can't be cut from dim {at}, which is {total}")));
        }
        let mut sizes = room(count)?;
        sizes.extend((0..count).map(|part| total / count + i64::from(part < total % count)));
        self.split(&sizes, dim)
    }

    /// A lazy stack along a batch dim: of a dense tensordict, of views of its rows. A lazy stack along another dim is
    /// taken apart and stacked anew.
    ///
    /// # Errors
    ///
    /// As [`unbind`](Self::unbind).
    pub fn to_lazy_stack(&self, dim: i64) -> Result<TensorDict> {
        let at = self.batch_dim(dim)?;
        if self.stack_dim() == Some(at) {
            return Ok(self.handle());
        }
        let (mut batch_size, mut names) = (self.batch_size(), self.shared_names());
        let name = names.remove(at);
        let mut stack = LazyStack::from_trusted(self.unbind(dim)?, at, name);
        if stack.members.is_empty() {
            batch_size.remove(at);
            if names.iter().all(Option::is_none) {
                names.clear();
            }
            *stack.blank = TensorDict::dense(Dense { batch_size, names, device: self.device(), ..Dense::default() });
        }
        Ok(TensorDict::lazy(stack))
    }

    /// A batch dim and its size, which all members have.
    pub(super) fn even_dim(&self, dim: i64) -> Result<(usize, i64)> {
        let at = self.batch_dim(dim)?;
        match self.batch_size()[at] {
            ..0 => Err(uneven(at)),
            size => Ok((at, size)),
        }
    }

    /// The batch dim meant by `dim`; negative ones count from the end.
    pub(super) fn batch_dim(&self, dim: i64) -> Result<usize> {
        let dims = self.batch_dims() as i64;
        let at = if dim < 0 { dim.saturating_add(dims) } else { dim };
        match usize::try_from(at) {
            Ok(place) if at < dims => Ok(place),
            _ if dims == 0 => Err(Error::index(format!("dim {dim} is out of range: there are no batch dims"))),
            _ => Err(Error::index(format!(
                "dim {dim} is out of range: batch dims lie between {} and {}",
                -dims,
                dims - 1
            ))),
        }
    }
}

fn uneven(dim: usize) -> Error {
    Error::shape(format!("the members differ along dim {dim}, so they have no rows or parts along it in common"))
        .remedy("index cuts each member, densify pads them, reshape(&[-1]) puts their rows one after the other")
}
