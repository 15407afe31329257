//! Batch dims in another shape or order.

use tch::Tensor;

use super::dense::{Dense, dims_beyond};
use super::indices::along;
use super::lazy::{LazyStack, new_dim};
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::index::room;

impl TensorDict {
    /// The batch in another shape of as many places; one size may be -1 and is worked out. Names are lost.
    ///
    /// A lazy stack of which consecutive dims become one, or one dim several, stays lazy and regroups its members; any
    /// other shape makes it dense, for which its members must have one shape.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([6]);
    /// td.set("x", Tensor::from_slice(&[0i64, 1, 2, 3, 4, 5]))?;
    /// assert_eq!(td.reshape(&[2, -1])?.tensor("x")?.size(), [2, 3]);
    /// assert!(td.reshape(&[4, -1]).unwrap_err().is_shape());
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the places don't come out even, and for a jagged entry, whose rows are one
    /// dim.
    pub fn reshape(&self, batch_size: &[i64]) -> Result<TensorDict> {
        self.reshaped(batch_size, true)
    }

    /// As [`reshape`](Self::reshape), without copying anything: tensors share storage, lazy stacks stay lazy.
    ///
    /// # Errors
    ///
    /// As [`reshape`](Self::reshape), and if an entry's memory can't be seen in that shape.
    pub fn view(&self, batch_size: &[i64]) -> Result<TensorDict> {
        self.reshaped(batch_size, false)
    }

    fn reshaped(&self, batch_size: &[i64], copies: bool) -> Result<TensorDict> {
        let old = self.batch_size();
        if old.contains(&-1) && batch_size == [-1] && copies {
            return self.merge_dims(0, old.len() - 1, copies).map(|flat| flat.regrouped_from(self));
        }
        let new = complete(&old, batch_size)?;
        if new == old {
            return Ok(self.whole());
        }
        if self.is_lazy() {
            return self.lazy_reshaped(&old, &new, copies).map(|shaped| shaped.regrouped_from(self));
        }
        self.dense_op(
            |dense| Dense { batch_size: new.clone(), names: Vec::new(), ..dense.emptied() },
            &|tensor| {
                let sizes = [&new[..], &dims_beyond(tensor, &old)?].concat();
                if copies {
                    return Ok(tensor.f_reshape(&sizes)?);
                }
                tensor.f_view(sizes.as_slice()).map_err(|_| {
                    let from = tensor.size();
                    Error::shape(format!("a tensor of shape {from:?} can't be seen as {sizes:?} where it lies"))
                        .remedy("Call `reshape`, which copies where it must")
                })
            },
            &|dict| dict.reshaped(&[&new[..], &dict.batch_size()[old.len()..]].concat(), copies),
        )
    }

    fn lazy_reshaped(&self, old: &[i64], new: &[i64], copies: bool) -> Result<TensorDict> {
        let (front, back) = common_ends(old, new);
        // The dims that change.
        let (before, after) = (&old[front..old.len() - back], &new[front..new.len() - back]);
        let even = numel(before)? == numel(after)?;
        match (before, after) {
            ([_], [_, ..]) if even => self.split_dim(front, after, copies),
            ([_, ..], [_]) if even => self.merge_dims(front, front + before.len() - 1, copies),
            // Dims of size 1 come or go.
            ([], _) if even => after.iter().try_fold(self.whole(), |dict, _| dict.unsqueeze(front as i64)),
            (_, []) if even => before.iter().try_fold(self.whole(), |dict, _| dict.squeeze(front as i64)),
            _ if copies => self.contiguous()?.reshaped(new, copies),
            _ => Err(Error::shape(format!("a lazy stack of batch size {old:?} can't be seen as {new:?}"))
                .remedy("Call `reshape`, which makes it dense")),
        }
    }

    /// What became of the dims of another tensordict: their names are lost, and the lock of a lazy stack holds.
    fn regrouped_from(mut self, whole: &TensorDict) -> TensorDict {
        self.put_names(&vec![None; self.batch_dims()]);
        if self.is_lazy() && whole.is_lazy() { self.locked_as(whole) } else { self }
    }

    /// The batch dims from `start` to `end`, both included, as one. Dims of a lazy stack along which its members differ
    /// may be among them.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for dims out of range or an end before the start; a
    /// [shape](Error::is_shape) error for a jagged entry.
    pub fn flatten(&self, start: i64, end: i64) -> Result<TensorDict> {
        let (first, last) = (self.batch_dim(start)?, self.batch_dim(end)?);
        if last < first {
            return Err(Error::index(format!("dims {start} to {end} are none: the end comes before the start")));
        }
        if first == last {
            return Ok(self.whole());
        }
        self.merge_dims(first, last, true).map(|flat| flat.regrouped_from(self))
    }

    fn merge_dims(&self, first: usize, last: usize, copies: bool) -> Result<TensorDict> {
        let old = self.batch_size();
        if first >= last {
            return Ok(self.whole());
        }
        let stack = match &self.body {
            Body::Lazy(stack) => stack,
            Body::Dense(_) => {
                let merged = numel(&old[first..=last])?;
                return self.reshaped(&[&old[..first], &[merged], &old[last + 1..]].concat(), copies);
            }
        };
        if !(first..=last).contains(&stack.stack_dim) {
            let within = |dim: usize| if dim < stack.stack_dim { dim } else { dim - 1 };
            let stack_dim = if last < stack.stack_dim { stack.stack_dim - (last - first) } else { stack.stack_dim };
            let flat = stack.remade(stack_dim, |member| member.merge_dims(within(first), within(last), copies))?;
            return Ok(TensorDict::lazy(flat));
        }
        let mut parts = vec![self.handle()];
        for _ in first..=last {
            let pieces = parts.iter().map(|part| part.unbind(first as i64)).collect::<Result<Vec<_>>>()?;
            parts = pieces.into_iter().flatten().collect();
        }
        if parts.is_empty() && !stack.members.is_empty() {
            // Members without rows have entries all the same.
            return self.contiguous()?.merge_dims(first, last, copies);
        }
        LazyStack::check(&parts, false)?;
        let mut flat = LazyStack::from_trusted(parts, first, None);
        if flat.members.is_empty() {
            let batch_size = [&old[..first], &old[last + 1..]].concat();
            *flat.blank = TensorDict::dense(Dense { batch_size, device: self.device(), ..Dense::default() });
        }
        Ok(TensorDict::lazy(flat).locked_as(self))
    }

    /// One batch dim as several of these sizes, one of which may be -1 and is worked out.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the sizes don't come out even, and for a jagged entry; an
    /// [index](Error::is_index) error for a dim out of range.
    pub fn unflatten(&self, dim: i64, sizes: &[i64]) -> Result<TensorDict> {
        let at = self.batch_dim(dim)?;
        let old = self.batch_size();
        if old[at] < 0 {
            return Err(Error::shape(format!("the members differ along dim {dim}, which can't be split evenly")));
        }
        let sizes = complete(&old[at..=at], sizes)?;
        if sizes.is_empty() {
            return Err(Error::shape("a dim can't become no dims").remedy("squeeze takes dims of size 1 away"));
        }
        if sizes.len() == 1 {
            return Ok(self.whole());
        }
        self.split_dim(at, &sizes, true).map(|split| split.regrouped_from(self))
    }

    /// By sizes that are those of the dim, all together.
    fn split_dim(&self, at: usize, sizes: &[i64], copies: bool) -> Result<TensorDict> {
        let stack = match &self.body {
            Body::Lazy(stack) => stack,
            Body::Dense(dense) => {
                let old = &dense.batch_size;
                return self.reshaped(&[&old[..at], sizes, &old[at + 1..]].concat(), copies);
            }
        };
        if at != stack.stack_dim {
            let (within, _) = stack.around(at);
            let stack_dim = if at < stack.stack_dim { stack.stack_dim + sizes.len() - 1 } else { stack.stack_dim };
            let split = stack.remade(stack_dim, |member| member.split_dim(within, sizes, copies))?;
            return Ok(TensorDict::lazy(split));
        }
        // Where there are no members, the first dim of size 0 is the stack's, and dims after it are the members'.
        let outer = match sizes.iter().position(|size| *size == 0) {
            Some(none) if stack.members.is_empty() => none,
            _ => sizes.len(),
        };
        let mut parts: Vec<TensorDict> = if outer == sizes.len() {
            stack.members.iter().map(TensorDict::handle).collect()
        } else {
            let mut batch_size = stack.member_batch_size();
            batch_size.splice(at..at, sizes[outer + 1..].iter().copied());
            let mut empty = LazyStack::from_trusted(Vec::new(), at, None);
            *empty.blank = TensorDict::dense(Dense { batch_size, device: stack.device(), ..Dense::default() });
            let count = numel(&sizes[..outer])?;
            let mut parts = room(count)?;
            parts.extend((0..count).map(|_| TensorDict::lazy(empty.shallow_clone())));
            parts
        };
        // The last dims first, so that each stack is one of the stacks within.
        for size in sizes[..outer].iter().rev() {
            let size = usize::try_from(*size).unwrap_or_default().max(1);
            let mut grouped = Vec::with_capacity(parts.len() / size);
            let mut rest = parts.into_iter().peekable();
            while rest.peek().is_some() {
                let members: Vec<_> = rest.by_ref().take(size).collect();
                grouped.push(TensorDict::lazy(LazyStack::from_trusted(members, at, None)));
            }
            parts = grouped;
        }
        parts.pop().ok_or_else(|| Error::shape("there are no members to split"))
    }

    /// The batch dims in another order; tensors share storage, members stay what they are.
    ///
    /// ```
    /// use tensorquery::TensorDict;
    ///
    /// assert_eq!(TensorDict::new([2, 3, 4]).permute(&[2, 0, 1])?.batch_size(), [4, 2, 3]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error unless each batch dim is named once.
    pub fn permute(&self, dims: &[i64]) -> Result<TensorDict> {
        let order = dims.iter().map(|dim| self.batch_dim(*dim)).collect::<Result<Vec<_>>>()?;
        let mut seen = order.clone();
        seen.sort_unstable();
        if !seen.iter().copied().eq(0..self.batch_dims()) {
            return Err(Error::index(format!(
                "dims {dims:?} are no order of the {} batch dims: each is named once",
                self.batch_dims()
            )));
        }
        if order.is_sorted() {
            return Ok(self.whole());
        }
        if let Body::Lazy(stack) = &self.body {
            let sd = stack.stack_dim;
            let stack_dim = order.iter().position(|dim| *dim == sd).unwrap_or_default();
            let within = |dim: usize| if dim < sd { dim } else { dim - 1 } as i64;
            let members: Vec<i64> = order.iter().filter(|dim| **dim != sd).map(|dim| within(*dim)).collect();
            let permuted = stack.remade(stack_dim, |member| member.permute(&members))?;
            return Ok(TensorDict::lazy(permuted).locked_as(self));
        }
        let with_rest = |dims: usize| -> Vec<i64> {
            order.iter().copied().chain(order.len()..dims).map(|dim| dim as i64).collect()
        };
        self.dense_op(
            |dense| Dense {
                batch_size: order.iter().map(|dim| dense.batch_size[*dim]).collect(),
                names: order.iter().filter_map(|dim| dense.names.get(*dim).cloned()).collect(),
                ..dense.emptied()
            },
            &|tensor| Ok(tensor.f_permute(with_rest(tensor.dim()))?),
            &|dict| dict.permute(&with_rest(dict.batch_dims())),
        )
    }

    /// Two batch dims in each other's place.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for dims out of range.
    pub fn transpose(&self, dim: i64, other: i64) -> Result<TensorDict> {
        let mut order: Vec<i64> = (0..self.batch_dims() as i64).collect();
        order.swap(self.batch_dim(dim)?, self.batch_dim(other)?);
        self.permute(&order)
    }

    /// A batch dim at another place, the others in their order.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for dims out of range.
    pub fn movedim(&self, from: i64, to: i64) -> Result<TensorDict> {
        let mut order: Vec<i64> = (0..self.batch_dims() as i64).collect();
        let (from, to) = (self.batch_dim(from)?, self.batch_dim(to)?);
        let dim = order.remove(from);
        order.insert(to, dim);
        self.permute(&order)
    }

    /// A new batch dim of size 1 at `dim`; negative ones count from the end.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a dim out of range; a [shape](Error::is_shape) error for a jagged entry.
    pub fn unsqueeze(&self, dim: i64) -> Result<TensorDict> {
        let at = new_dim(dim, self.batch_dims())?;
        if let Body::Lazy(stack) = &self.body {
            let (within, stack_dim) =
                if at <= stack.stack_dim { (at, stack.stack_dim + 1) } else { (at - 1, stack.stack_dim) };
            let spread = stack.remade(stack_dim, |member| member.unsqueeze(within as i64))?;
            return Ok(TensorDict::lazy(spread).locked_as(self));
        }
        let items = along(at, Index::NewAxis);
        self.index(items)
    }

    /// Without a batch dim of size 1, or without all of them; a dim of another size stays. Of a lazy stack of one member
    /// along its stack dim, the member.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a dim out of range.
    pub fn squeeze(&self, dim: impl Into<Option<i64>>) -> Result<TensorDict> {
        let sizes = self.batch_size();
        let dims = match dim.into() {
            Some(dim) => vec![self.batch_dim(dim)?],
            None => (0..sizes.len()).collect(),
        };
        let ones = dims.into_iter().rev().filter(|dim| sizes[*dim] == 1);
        ones.into_iter().try_fold(self.whole(), |dict, dim| dict.squeezed(dim))
    }

    /// Without a dim of size 1.
    fn squeezed(&self, at: usize) -> Result<TensorDict> {
        match &self.body {
            Body::Lazy(stack) if at == stack.stack_dim => match stack.members.as_slice() {
                [only] => Ok(only.handle()),
                _ => Err(Error::shape("a stack of several members can't lose its dim")),
            },
            Body::Lazy(stack) => {
                let (within, stack_dim) = stack.around(at);
                stack.remade(stack_dim, |member| member.squeezed(within)).map(TensorDict::lazy)
            }
            Body::Dense(_) => self.index(along(at, Index::Row(0))),
        }
    }

    /// All of it as a part: a lazy stack's members stay locked.
    fn whole(&self) -> TensorDict {
        if self.is_lazy() { self.handle() } else { self.shallow_clone() }
    }

    /// A dense tensordict with each entry's batch dims changed by an operation on its leading dims.
    pub(super) fn dense_op(
        &self,
        blank: impl FnOnce(&Dense) -> Dense,
        op: &dyn Fn(&Tensor) -> Result<Tensor>,
        nested: &dyn Fn(&TensorDict) -> Result<TensorDict>,
    ) -> Result<TensorDict> {
        let Body::Dense(dense) = &self.body else {
            return self.contiguous()?.dense_op(blank, op, nested);
        };
        let mut made = blank(dense);
        for (name, entry) in &dense.entries {
            let entry = match entry {
                Entry::Tensor(tensor) => op(tensor).map(Entry::Tensor),
                Entry::NonTensor(values) => values.rearrange(op).map(Entry::NonTensor),
                Entry::Dict(dict) => nested(dict).map(Entry::Dict),
                Entry::Jagged(jagged) => Err(Error::shape(format!(
                    "a jagged tensor of shape {:?} has one dim of rows, which can be chosen but not rearranged",
                    jagged.shape()
                ))
                .remedy("make it dense with to_padded, or exclude it")),
            };
            made.entries.insert(name.clone(), entry.map_err(|error| error.below(name))?);
        }
        Ok(TensorDict::dense(made))
    }
}

impl LazyStack {
    /// Members made from these, stacked at `stack_dim`. Where there are none, what a member would be is made likewise.
    pub(super) fn remade(
        &self,
        stack_dim: usize,
        make: impl Fn(&TensorDict) -> Result<TensorDict>,
    ) -> Result<LazyStack> {
        Ok(LazyStack { stack_dim, ..self.try_map(make)? })
    }
}

/// The product of sizes that are not ragged.
fn numel(sizes: &[i64]) -> Result<i64> {
    let product = sizes.iter().try_fold(1i64, |product, size| product.checked_mul(*size));
    product.ok_or_else(|| Error::shape(format!("sizes {sizes:?} have more places than can be counted")))
}

/// New sizes for the places of the old, with a -1 worked out.
fn complete(old: &[i64], new: &[i64]) -> Result<Vec<i64>> {
    let misfit = || Error::shape(format!("a batch size of {old:?} can't become {new:?}"));
    if old.contains(&-1) {
        // Ragged dims stay where they are; those between them and the ends may change.
        let (front, back) = common_ends(old, new);
        let (before, after) = (&old[front..old.len() - back], &new[front..new.len() - back]);
        if before.iter().chain(after).any(|size| *size < 0) || numel(before)? != numel(after)? {
            return Err(misfit().remedy("members differ along a dim: reshape(&[-1]) and flatten make one dim of it"));
        }
        return Ok(new.to_vec());
    }
    let total = numel(old)?;
    let unknown: Vec<usize> = (0..new.len()).filter(|at| new[*at] == -1).collect();
    let known: Vec<i64> = new.iter().copied().filter(|size| *size != -1).collect();
    if unknown.len() > 1 || known.iter().any(|size| *size < 0) {
        return Err(misfit().remedy("one size may be -1"));
    }
    let product = numel(&known)?;
    let mut sizes = new.to_vec();
    match unknown.first() {
        Some(at) if product > 0 && total % product == 0 => sizes[*at] = total / product,
        None if product == total => {}
        _ => return Err(misfit()),
    }
    Ok(sizes)
}

/// How many sizes are equal at the front, and at the end of what is left.
fn common_ends(old: &[i64], new: &[i64]) -> (usize, usize) {
    let front = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let back = old[front..].iter().rev().zip(new[front..].iter().rev()).take_while(|(old, new)| old == new).count();
    (front, back)
}
