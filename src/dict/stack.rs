//! Putting entries and tensordicts together along a new dim.

use indexmap::IndexSet;
use tch::Tensor;

use super::dense::Dense;
use super::lazy::{LazyStack, new_dim};
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::tensor::NonTensorStack;

impl TensorDict {
    /// Tensordicts of the same keys, shapes and batch size as one dense tensordict, along a new batch dim. Of lazy
    /// stacks, the members are stacked pair by pair. dtypes are promoted.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let member = |x: i64| TensorDict::from_entries([("x", Tensor::from_slice(&[x, x + 1]))]);
    /// let stack = TensorDict::stack([member(1)?, member(5)?], 0)?;
    /// assert_eq!(stack.batch_size(), [2]);
    /// assert_eq!(Vec::<Vec<i64>>::try_from(stack.tensor("x")?)?, [[1, 2], [5, 6]]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if the sets of keys differ; a [shape](Error::is_shape) error for no items, other
    /// batch sizes, shapes that differ, and jagged entries; an [index](Error::is_index) error for `dim`.
    /// [`maybe_dense_stack`](Self::maybe_dense_stack) and [`lazy_stack`](Self::lazy_stack) take what differs.
    pub fn stack(items: impl IntoIterator<Item = TensorDict>, dim: i64) -> Result<TensorDict> {
        let items: Vec<_> = items.into_iter().collect();
        let dim = place_of(&items, dim)?;
        stack_dense(items, dim)
    }

    /// Tensordicts as one along a new batch dim: dense as by [`stack`](Self::stack) where they have the same keys and
    /// shapes, else a [lazy stack](Self::lazy_stack). It is decided level by level: a nested tensordict that can't be
    /// dense becomes a lazy stack within a dense tensordict.
    ///
    /// # Errors
    ///
    /// As [`lazy_stack`](Self::lazy_stack).
    pub fn maybe_dense_stack(items: impl IntoIterator<Item = TensorDict>, dim: i64) -> Result<TensorDict> {
        let items: Vec<_> = items.into_iter().collect();
        let dim = place_of(&items, dim)?;
        LazyStack::check(&items, false)?;
        maybe_dense(items, dim)
    }
}

fn place_of(items: &[TensorDict], dim: i64) -> Result<usize> {
    match items.first() {
        Some(first) => new_dim(dim, first.batch_dims()),
        None => Err(Error::shape("items cannot be empty: nothing says what their stack would be")),
    }
}

/// For lazy stacks of as many members along the same dim: the members pair by pair.
fn pairs(items: &[TensorDict], dim: usize) -> Option<(Vec<Vec<TensorDict>>, usize, usize)> {
    let stack_dim = items.first()?.stack_dim()?;
    let count = items[0].members().len();
    if count == 0 || items.iter().any(|item| item.stack_dim() != Some(stack_dim) || item.members().len() != count) {
        return None;
    }
    let pair = |at: usize| items.iter().map(|item| item.members()[at].shallow_clone()).collect();
    let (within, outer) = if dim <= stack_dim { (dim, stack_dim + 1) } else { (dim - 1, stack_dim) };
    Some(((0..count).map(pair).collect(), within, outer))
}

/// The name of the stack dim that all have.
fn shared_name(items: &[TensorDict]) -> Option<String> {
    let name = items.first()?.stack_dim_name()?;
    items.iter().all(|item| item.stack_dim_name() == Some(name)).then(|| name.to_owned())
}

fn stack_dense(items: Vec<TensorDict>, dim: usize) -> Result<TensorDict> {
    if let Some((pairs, within, outer)) = pairs(&items, dim) {
        let members = pairs.into_iter().map(|pair| stack_dense(pair, within)).collect::<Result<Vec<_>>>()?;
        return Ok(TensorDict::lazy(LazyStack::from_trusted(members, outer, shared_name(&items))));
    }
    // What only some members have would be lost.
    items.iter().try_for_each(|item| same_keys(item.members(), "stack"))?;
    let items = items.into_iter().map(|item| if item.is_lazy() { item.contiguous() } else { Ok(item) });
    let items = items.collect::<Result<Vec<_>>>()?;
    LazyStack::check(&items, false)?;
    let (first, rest) = items.split_first().ok_or_else(|| Error::shape("items cannot be empty"))?;
    if let Some(other) = rest.iter().find(|item| item.batch_size() != first.batch_size()) {
        return Err(Error::shape(format!(
            "stacking tensordicts requires one batch size: item 0 has {:?}, another {:?}",
            first.batch_size(),
            other.batch_size()
        ))
        .remedy("lazy_stack takes what differs"));
    }
    same_keys(&items, "stack")?;
    let mut stacked = stacked_blank(first, items.len(), dim);
    for name in first.keys() {
        let entries = items.iter().map(|item| item.entry(name.as_str())).collect::<Result<Vec<_>>>()?;
        let entry = stack_level(entries, dim).map_err(|error| error.below(&name))?;
        stacked.entries.insert(name, entry);
    }
    Ok(TensorDict::dense(stacked))
}

/// Dicts become dense, unlike those of a lazy stack when it is read.
fn stack_level(entries: Vec<Entry>, dim: usize) -> Result<Entry> {
    let shapes: Vec<_> = entries.iter().map(Entry::shape).collect();
    let all_dicts = entries.iter().all(|entry| entry.as_dict().is_some());
    if !all_dicts && shapes.iter().any(|shape| *shape != shapes[0]) {
        return Err(Error::shape(format!("the shapes of the tensors to stack differ: {shapes:?}"))
            .remedy("maybe_dense_stack and lazy_stack take what differs"));
    }
    if !all_dicts {
        return stack_entries(entries, dim, None);
    }
    stack_dense(entries.into_iter().filter_map(Entry::into_dict).collect(), dim).map(Entry::Dict)
}

/// Fails unless all have the keys of the first.
pub(super) fn same_keys(items: &[TensorDict], verb: &str) -> Result<()> {
    let sets: Vec<IndexSet<String>> = items.iter().map(|item| item.keys().collect()).collect();
    let Some((at, other)) = sets.iter().enumerate().find(|(_, set)| **set != sets[0]) else {
        return Ok(());
    };
    let exclusive: Vec<_> = sets[0].symmetric_difference(other).collect();
    Err(Error::key(format!(
        "the sets of keys of the tensordicts to {verb} differ: {exclusive:?} are exclusive to item 0 or item {at}"
    ))
    .remedy("lazy stacks may differ in keys; select those that all have, or convert with mask_keys=nullable, by which masks don't depend on data"))
}

/// The stack of such items, without entries.
fn stacked_blank(item: &TensorDict, count: usize, dim: usize) -> Dense {
    let mut batch_size = item.batch_size();
    batch_size.insert(dim, count as i64);
    let mut names = item.shared_names();
    names.insert(dim, None);
    if names.iter().all(Option::is_none) {
        names.clear();
    }
    Dense { batch_size, names, device: item.device(), ..Dense::default() }
}

/// Items with as many batch dims, at least one.
pub(super) fn maybe_dense(items: Vec<TensorDict>, dim: usize) -> Result<TensorDict> {
    if let Some((pairs, within, outer)) = pairs(&items, dim) {
        let members = pairs.into_iter().map(|pair| maybe_dense(pair, within)).collect::<Result<Vec<_>>>()?;
        return Ok(TensorDict::lazy(LazyStack::from_trusted(members, outer, shared_name(&items))));
    }
    match try_dense(&items, dim)? {
        Some(dense) => Ok(TensorDict::dense(dense)),
        None => Ok(TensorDict::lazy(LazyStack::from_trusted(items, dim, None))),
    }
}

/// `None` if the items can't be dense at this level.
fn try_dense(items: &[TensorDict], dim: usize) -> Result<Option<Dense>> {
    let batch_size = items[0].batch_size();
    let differ = |item: &TensorDict| item.is_lazy() || item.batch_size() != batch_size;
    if items.iter().any(differ) || same_keys(items, "stack").is_err() {
        return Ok(None);
    }
    let mut stacked = stacked_blank(&items[0], items.len(), dim);
    for name in items[0].keys() {
        let entries = items.iter().map(|item| item.entry(name.as_str())).collect::<Result<Vec<_>>>()?;
        let (kind, shape) = (entries[0].kind(), entries[0].shape());
        if entries.iter().any(|entry| entry.kind() != kind) {
            return Ok(None);
        }
        let entry = match kind {
            "dict" => {
                let dicts: Vec<_> = entries.into_iter().filter_map(Entry::into_dict).collect();
                if LazyStack::check(&dicts, false).is_err() {
                    return Ok(None);
                }
                Entry::Dict(maybe_dense(dicts, dim)?)
            }
            "jagged" => return Ok(None),
            _ if entries.iter().any(|entry| entry.shape() != shape) => return Ok(None),
            // Values of types that don't go together stay apart.
            _ => match stack_entries(entries, dim, None) {
                Ok(entry) => entry,
                Err(error) if error.is_schema() => return Ok(None),
                Err(error) => return Err(error.below(&name)),
            },
        };
        stacked.entries.insert(name, entry);
    }
    Ok(Some(stacked))
}

/// Fails unless the members' entries are of one kind.
pub(super) fn same_kind(entries: &[Entry]) -> Result<()> {
    let mut kinds = entries.iter().map(Entry::kind);
    let Some(first) = kinds.next() else { return Ok(()) };
    match kinds.find(|kind| *kind != first) {
        None => Ok(()),
        Some(other) => Err(Error::key(format!("the members' entries are of different kinds: {first} and {other}"))
            .remedy("get_list gives them one by one")),
    }
}

/// The members' entries as one, along batch dim `dim`. There is at least one.
pub(super) fn stack_entries(entries: Vec<Entry>, dim: usize, dim_name: Option<&str>) -> Result<Entry> {
    same_kind(&entries)?;
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
                .remedy("get_padded pads them, get_list gives them one by one; reshape(&[-1]) and TensorDict::cat put their rows one after the other"));
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
    // libtorch checks the shapes, each once; who they belong to is only asked if they differ.
    let refused = match Tensor::f_stack(tensors, dim as i64) {
        Ok(stacked) => return Ok(stacked),
        Err(refused) => refused,
    };
    let first = tensors.first().map(Tensor::size).unwrap_or_default();
    match tensors.iter().map(Tensor::size).find(|size| *size != first) {
        None => Err(refused.into()),
        Some(other) => Err(Error::shape(format!(
            "Failed to stack tensors within a tensordict: their shapes differ, {first:?} and {other:?}"
        ))
        .remedy(
            "get_list gives them one by one, get_padded padded, get_jagged and get_nested as rows of different lengths",
        )),
    }
}
