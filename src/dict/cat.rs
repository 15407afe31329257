//! Tensordicts one after the other along a batch dim.

use super::dense::Dense;
use super::lazy::LazyStack;
use super::stack::same_keys;
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::tensor::{JaggedTensor, NonTensorStack};

impl TensorDict {
    /// Tensordicts of the same keys one after the other along a batch dim that they have. dtypes are promoted.
    ///
    /// Of lazy stacks along their stack dim, the members come one after the other, whatever they hold; dense items
    /// are taken apart for it, and stacks without members add nothing, whatever their batch size. Along other dims it is
    /// done member by member.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let part = |x: &[i64]| {
    ///     TensorDict::from_entries([("x", Tensor::from_slice(x))])?.with_batch_size(&[x.len() as i64])
    /// };
    /// let whole = TensorDict::cat([part(&[1, 2])?, part(&[3])?], 0)?;
    /// assert_eq!(whole.batch_size(), [3]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if the sets of keys differ; a [shape](Error::is_shape) error for no items,
    /// shapes that differ in another dim, lazy stacks along different dims or of different numbers of members; an
    /// [index](Error::is_index) error for `dim`; a [device](Error::is_device) error.
    pub fn cat(items: impl IntoIterator<Item = TensorDict>, dim: i64) -> Result<TensorDict> {
        let mut items: Vec<_> = items.into_iter().collect();
        skip_empty(&mut items, dim);
        let first =
            items.first().ok_or_else(|| Error::shape("items cannot be empty: there is nothing to put together"))?;
        let at = first.batch_dim(dim)?;
        LazyStack::check(&items, false)?;
        cat_all(items, at)
    }
}

/// Whether it is a lazy stack without members.
fn has_none(item: &TensorDict) -> bool {
    item.is_lazy() && item.members().is_empty()
}

/// Leaves lazy stacks without members out if others are put together along their stack dim.
fn skip_empty(items: &mut Vec<TensorDict>, dim: i64) {
    let other = items.iter().find(|item| item.is_lazy() && !has_none(item));
    let along = other.is_some_and(|other| other.batch_dim(dim).ok() == other.stack_dim());
    if along {
        items.retain(|item| !has_none(item));
    }
}

fn cat_all(items: Vec<TensorDict>, dim: usize) -> Result<TensorDict> {
    match items.iter().find_map(TensorDict::stack_dim) {
        None => cat_dense(&items, dim),
        Some(stack_dim) => cat_lazy(items, dim, stack_dim),
    }
}

fn cat_lazy(items: Vec<TensorDict>, dim: usize, stack_dim: usize) -> Result<TensorDict> {
    let mut lists = Vec::with_capacity(items.len());
    for item in items {
        let item = if item.is_lazy() { item } else { item.to_lazy_stack(stack_dim as i64)? };
        match item.body {
            Body::Lazy(stack) if stack.stack_dim == stack_dim => lists.push(stack),
            Body::Lazy(stack) => {
                return Err(Error::shape(format!(
                    "lazy stacks to put together have one stack dim: there are {stack_dim} and {}",
                    stack.stack_dim
                ))
                .remedy("to_lazy_stack(dim) stacks them along another"));
            }
            Body::Dense(_) => {}
        }
    }
    let stacks = lists;
    let blank = stacks.first().map(|stack| stack.with_members(Vec::new()));
    let mut blank = blank.ok_or_else(|| Error::shape("items cannot be empty"))?;
    let members = if dim == stack_dim {
        stacks.into_iter().flat_map(|stack| stack.members).collect()
    } else {
        let count = stacks[0].members.len();
        if let Some(other) = stacks.iter().find(|stack| stack.members.len() != count) {
            return Err(Error::shape(format!(
                "lazy stacks of {count} and {} members can't be put together along dim {dim}",
                other.members.len()
            )));
        }
        let within = if dim < stack_dim { dim } else { dim - 1 };
        if count == 0 {
            *blank.blank = cat_all(stacks.iter().map(|stack| stack.blank.shallow_clone()).collect(), within)?;
        }
        let mut columns: Vec<Vec<TensorDict>> = (0..count).map(|_| Vec::new()).collect();
        for stack in stacks {
            columns.iter_mut().zip(stack.members).for_each(|(column, member)| column.push(member));
        }
        columns.into_iter().map(|column| cat_all(column, within)).collect::<Result<Vec<_>>>()?
    };
    LazyStack::check(&members, false)?;
    let mut joined = blank.with_members(members);
    joined.stack_dim_name = None;
    Ok(TensorDict::lazy(joined))
}

fn cat_dense(items: &[TensorDict], dim: usize) -> Result<TensorDict> {
    same_keys(items, "put together")?;
    let mut batch_size = items[0].batch_size();
    let mut total = 0i64;
    for item in items {
        let sizes = item.batch_size();
        let differ = sizes.len() != batch_size.len()
            || sizes.iter().zip(&batch_size).enumerate().any(|(at, (size, first))| at != dim && size != first);
        if differ {
            return Err(Error::shape(format!(
                "batch sizes differ in another dim than {dim}: {batch_size:?} and {sizes:?}"
            )));
        }
        let sum = total.checked_add(sizes[dim]);
        total = sum.ok_or_else(|| Error::shape("more rows than can be counted"))?;
    }
    batch_size[dim] = total;
    let mut names = items[0].shared_names();
    if names.iter().all(Option::is_none) {
        names.clear();
    }
    let mut joined = Dense { batch_size, names, device: items[0].device(), ..Dense::default() };
    for name in items[0].keys() {
        let entries = items.iter().map(|item| item.entry(name.as_str())).collect::<Result<Vec<_>>>()?;
        let entry = cat_entries(&entries, dim).map_err(|error| error.below(&name))?;
        joined.entries.insert(name, entry);
    }
    Ok(TensorDict::dense(joined))
}

fn cat_entries(entries: &[Entry], dim: usize) -> Result<Entry> {
    let shapes: Vec<_> = entries.iter().map(Entry::shape).collect();
    if let Some(tensors) = all(entries, Entry::as_tensor) {
        let differ = |shape: &Vec<i64>| {
            shape.len() != shapes[0].len()
                || shape.iter().zip(&shapes[0]).enumerate().any(|(at, (a, b))| at != dim && a != b)
        };
        if shapes.iter().any(differ) {
            return Err(Error::shape(format!("the shapes differ in another dim than {dim}: {shapes:?}")));
        }
        return Ok(Entry::Tensor(tch::Tensor::f_cat(&tensors, dim as i64)?));
    }
    if let Some(jagged) = all(entries, Entry::as_jagged) {
        return JaggedTensor::cat(&jagged).map(Entry::Jagged);
    }
    if let Some(values) = all(entries, Entry::as_non_tensor) {
        let values: Vec<NonTensorStack> = values.into_iter().cloned().collect();
        return NonTensorStack::cat(&values, dim).map(Entry::NonTensor);
    }
    if let Some(dicts) = all(entries, Entry::as_dict) {
        let dicts: Vec<_> = dicts.into_iter().map(TensorDict::shallow_clone).collect();
        LazyStack::check(&dicts, false)?;
        return cat_all(dicts, dim).map(Entry::Dict);
    }
    let kinds: Vec<_> = entries.iter().map(Entry::kind).collect();
    Err(Error::key(format!("entries of different kinds can't be put together: {kinds:?}")))
}

fn all<'a, T>(entries: &'a [Entry], pick: impl Fn(&'a Entry) -> Option<&'a T>) -> Option<Vec<&'a T>> {
    entries.iter().map(pick).collect()
}
