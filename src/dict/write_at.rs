//! Writing to a part of the batch, in place.

use tch::{Device, Kind, Tensor};

use super::dense::{Dense, dims_beyond};
use super::indexing::Route;
use super::indices::{Indices, apply, grid, sizes_after};
use super::lazy::LazyStack;
use super::operand::ensure_shaped;
use super::overwrite::ensure_writable;
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::key::NestedKey;

/// Whether a write is only checked or done. Nothing that was checked fails when it is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Check,
    Write,
}

impl TensorDict {
    /// The entry at `key` in a part of the batch; see [`index`](Self::index).
    ///
    /// # Errors
    ///
    /// What [`index`](Self::index) and [`get`](Self::get) say; a [key](Error::is_key) error if there is no entry.
    pub fn get_at(&self, key: impl Into<NestedKey>, index: impl Into<Indices>) -> Result<Entry> {
        let key = key.into();
        if !self.has(key.names()) {
            return Err(self.missing(&key));
        }
        self.select([key.clone()])?.index(index)?.entry(key)
    }

    /// Writes to the entry at `key` in a part of the batch, in place: other handles on its storage see it. The
    /// value is cast to the entry's dtype and repeated where its dims are 1. Of a place that the index names
    /// twice, the last value stays. Also of locked tensordicts.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([3]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2, 3]))?;
    /// td.set_at("x", Tensor::from_slice(&[30i64, 10]), [2, 0])?;
    /// assert_eq!(Vec::<i64>::try_from(td.tensor("x")?)?, [10, 2, 30]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is no entry, or the value is of another kind; a
    /// [shape](Error::is_shape) error if it doesn't fit the part, and for jagged entries, whose rows can't change
    /// their length in place; what [`index`](Self::index) says. Nothing is written then.
    pub fn set_at(
        &mut self,
        key: impl Into<NestedKey>,
        value: impl Into<Entry>,
        index: impl Into<Indices>,
    ) -> Result<()> {
        let key = key.into();
        if !self.has(key.names()) {
            return Err(self.missing(&key));
        }
        let items = index.into().spread(&self.batch_size())?;
        let value = apart(value.into())?;
        for pass in [Pass::Check, Pass::Write] {
            let written = self.write(key.names(), value.shallow_clone(), &items, pass);
            written.map_err(|error| if error.nested_key().is_some() { error } else { error.at(&key) })?;
        }
        Ok(())
    }

    /// Writes the entries of `source` to a part of the batch, in place. Its batch size is that of the part, or
    /// `[]`, which is repeated. An entry that isn't there yet is made, zero elsewhere; of a lazy stack only in the
    /// members that the index reaches. `source` may share storage with this tensordict.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([3]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2, 3]))?;
    /// td.put_at([0, 1], &td.index([1, 0])?)?;
    /// assert_eq!(Vec::<i64>::try_from(td.tensor("x")?)?, [2, 1, 3]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error naming both batch sizes if they differ; a [lock](Error::is_lock) error for
    /// new entries of a locked tensordict; what [`set_at`](Self::set_at) says. Nothing is written then.
    pub fn put_at(&mut self, index: impl Into<Indices>, source: &TensorDict) -> Result<()> {
        let items = index.into().spread(&self.batch_size())?;
        let source = copied(source)?;
        self.write_dict(&source, &items, Pass::Check)?;
        self.write_dict(&source, &items, Pass::Write)
    }

    fn write(&mut self, names: &[String], value: Entry, items: &[Index], pass: Pass) -> Result<()> {
        match &mut self.body {
            Body::Lazy(stack) => {
                let items = Indices::from(items.to_vec()).spread(&stack.batch_size())?;
                stack.write(&value, &items, &mut |member, value, items| member.write(names, value, items, pass))
            }
            Body::Dense(dense) => match names {
                [] => Err(Error::key("the empty key holds no entry")),
                [name] => dense.write(name, &value, items, pass),
                [name, below @ ..] => match dense.entries.get_mut(name) {
                    Some(Entry::Dict(dict)) => dict.write(below, value, items, pass),
                    _ => Err(Error::key(format!("there is nothing below '{name}'"))),
                },
            },
        }
    }

    fn write_dict(&mut self, source: &TensorDict, items: &[Index], pass: Pass) -> Result<()> {
        match &mut self.body {
            Body::Lazy(stack) => {
                let items = Indices::from(items.to_vec()).spread(&stack.batch_size())?;
                let value = Entry::Dict(source.shallow_clone());
                stack.write(&value, &items, &mut |member, value, items| match value {
                    Entry::Dict(source) => member.write_dict(&source, items, pass),
                    _ => Err(Error::key("a tensordict can only be written to one")),
                })
            }
            Body::Dense(dense) => {
                let sizes = sizes_after(&dense.batch_size, items)?;
                if source.batch_dims() > 0 && source.batch_size() != sizes {
                    return Err(Error::shape(format!(
                        "the source has the batch size {:?}, the part that is written to has {sizes:?}",
                        source.batch_size()
                    )));
                }
                let missing: Vec<_> = source.keys().filter(|name| !dense.entries.contains_key(name)).collect();
                if !missing.is_empty() {
                    self.ensure_unlocked()?;
                }
                let Body::Dense(dense) = &mut self.body else {
                    return Ok(());
                };
                for (name, value) in source.items()? {
                    let below = |error: Error| error.below(&name);
                    if !dense.entries.contains_key(&name) {
                        let mut made = zeros(&value, &source.batch_size(), &dense.batch_size).map_err(below)?;
                        write_entry(&mut made, &value, items, &dense.batch_size, pass).map_err(below)?;
                        if pass == Pass::Write {
                            dense.entries.insert(name, made);
                        }
                        continue;
                    }
                    dense.write(&name, &value, items, pass).map_err(below)?;
                }
                Ok(())
            }
        }
    }
}

type WriteMember<'a> = dyn FnMut(&mut TensorDict, Entry, &[Index]) -> Result<()> + 'a;

impl LazyStack {
    /// Hands each member that the index reaches its piece of the value.
    fn write(&mut self, value: &Entry, items: &[Index], write: &mut WriteMember<'_>) -> Result<()> {
        let (parts, shape, place, spaced) = match self.route(items)? {
            Route::Member { at, items } => return write(&mut self.members[at], value.shallow_clone(), &items),
            Route::Members { parts, shape, place, spaced } => (parts, shape, place, spaced),
        };
        if parts.is_empty() {
            let sizes = self.batch_size();
            return if sizes.contains(&-1) { Ok(()) } else { sizes_after(&sizes, items).map(|_| ()) };
        }
        let mut pieces = vec![value.shallow_clone()];
        // The value of a batch without dims is everyone's, and so is a dim of size 1.
        for size in &shape {
            let mut split = Vec::new();
            for piece in pieces {
                let theirs = piece.shape();
                match theirs.get(place) {
                    Some(1) if *size != 1 => {
                        let one = piece.unbind(place)?;
                        split.extend((0..*size).flat_map(|_| one.iter().map(Entry::shallow_clone)));
                    }
                    Some(theirs) if theirs == size => split.extend(piece.unbind(place)?),
                    None => split.extend((0..*size).map(|_| piece.shallow_clone())),
                    Some(_) => {
                        return Err(Error::shape(format!(
                            "a value of shape {:?} doesn't fit a part of which dim {place} is {size}",
                            value.shape()
                        )));
                    }
                }
            }
            pieces = split;
        }
        for ((at, items), piece) in parts.into_iter().zip(pieces) {
            let piece = if spaced { spaced_entry(piece, place)? } else { piece };
            write(&mut self.members[at], piece, &items)?;
        }
        Ok(())
    }
}

fn spaced_entry(entry: Entry, place: usize) -> Result<Entry> {
    let mut items: Vec<Index> = (0..place).map(|_| Index::from(..)).collect();
    items.push(Index::NewAxis);
    match entry {
        Entry::Tensor(tensor) => Ok(Entry::Tensor(apply(&tensor, &items)?)),
        Entry::NonTensor(values) => values.rearrange(|places| apply(places, &items)).map(Entry::NonTensor),
        Entry::Dict(dict) => dict.index_by(&items).map(Entry::Dict),
        Entry::Jagged(_) => Err(Error::shape("jagged rows can't be written in place")),
    }
}

impl Dense {
    fn write(&mut self, name: &str, value: &Entry, items: &[Index], pass: Pass) -> Result<()> {
        let entry = self.entries.get_mut(name).ok_or_else(|| Error::key("there is no such entry"))?;
        write_entry(entry, value, items, &self.batch_size, pass)
    }
}

fn write_entry(entry: &mut Entry, value: &Entry, items: &[Index], batch_size: &[i64], pass: Pass) -> Result<()> {
    match (entry, value) {
        (Entry::Tensor(tensor), Entry::Tensor(value)) => write_tensor(tensor, value, items, batch_size, pass),
        (Entry::Dict(dict), Entry::Dict(value)) => dict.write_dict(value, items, pass),
        (Entry::NonTensor(values), Entry::NonTensor(value)) => {
            let written = values.overwritten(value, |places| apply(places, items))?;
            if pass == Pass::Write {
                *values = written;
            }
            Ok(())
        }
        (Entry::Jagged(jagged), _) => Err(Error::shape(format!(
            "the rows of a jagged tensor of shape {:?} can't be written in place, they may differ in length",
            jagged.shape()
        ))
        .remedy("write to its values, or set the whole entry")),
        (entry, value) => Err(Error::key(format!(
            "the entry is of kind {}, a value of kind {} can't be written to it",
            entry.kind(),
            value.kind()
        ))),
    }
}

fn write_tensor(tensor: &Tensor, value: &Tensor, items: &[Index], batch_size: &[i64], pass: Pass) -> Result<()> {
    let mut part = sizes_after(batch_size, items)?;
    part.extend(dims_beyond(tensor, batch_size)?);
    ensure_shaped(value)?;
    let value = value.f_expand(&part, false).map_err(|_| {
        Error::shape(format!("a value of shape {:?} doesn't fit the part, whose shape is {part:?}", value.size()))
    })?;
    let value = value.f_to_device(tensor.device())?.f_to_kind(tensor.f_kind()?)?;
    if tensor.requires_grad() && tensor.is_leaf() {
        return Err(Error::shape("a tensor that requires a gradient can't be written in place").remedy("detach it"));
    }
    ensure_writable(tensor, &value)?;
    if pass == Pass::Check || value.numel() == 0 {
        return Ok(());
    }
    let simple = |item: &Index| matches!(item, Index::Row(_) | Index::NewAxis | Index::Slice { step: 1.., .. });
    if items.iter().all(simple) {
        apply(tensor, items)?.f_copy_(&value)?;
        return Ok(());
    }
    // The places one by one, as rows of the batch, so that all kinds of items follow one rule.
    let count = batch_size.iter().try_fold(1i64, |count, size| count.checked_mul(*size));
    let count =
        count.ok_or_else(|| Error::shape(format!("a batch of {batch_size:?} has more places than can be counted")))?;
    // If there is no memory for them, this says so; tch would panic in `arange`, which takes a scalar.
    drop(Tensor::f_empty(count, (Kind::Int64, Device::Cpu))?);
    let places = Tensor::f_arange(count, (Kind::Int64, Device::Cpu))?.f_view(batch_size)?;
    let places = apply(&places, items)?;
    let shape = places.size();
    let mut rest = Vec::<i64>::try_from(places.f_reshape([-1])?)?;
    let mut lists = Vec::with_capacity(batch_size.len());
    for size in batch_size.iter().rev() {
        let rows: Vec<i64> = rest.iter().map(|place| place % size.max(&1)).collect();
        rest.iter_mut().for_each(|place| *place /= size.max(&1));
        lists.push(Some(Tensor::f_from_slice(&rows)?.f_view(shape.as_slice())?.f_to_device(tensor.device())?));
    }
    lists.reverse();
    let _ = tensor.shallow_clone().f_index_put_(&lists, &value, false)?;
    Ok(())
}

/// An entry of zeros (or nulls) for the whole batch, of which `value` is a part without `dims` leading dims.
fn zeros(value: &Entry, part: &[i64], batch_size: &[i64]) -> Result<Entry> {
    match value {
        Entry::Tensor(tensor) => {
            let sizes = [batch_size, &dims_beyond(tensor, part)?].concat();
            Ok(Entry::Tensor(Tensor::f_zeros(sizes, (tensor.f_kind()?, tensor.device()))?))
        }
        Entry::NonTensor(values) => values.nulls(batch_size).map(Entry::NonTensor),
        Entry::Dict(dict) => {
            let sizes = [batch_size, &dict.batch_size()[part.len()..]].concat();
            let mut made = TensorDict::new(sizes.clone());
            for (name, value) in dict.items()? {
                made.set(name.as_str(), zeros(&value, &dict.batch_size(), &sizes)?)?;
            }
            Ok(Entry::Dict(made))
        }
        Entry::Jagged(_) => Err(Error::shape("a jagged entry can't be made of a part of its rows")),
    }
}

/// The same entries in memory of their own, so that writing can't change what is still to be read.
/// A value whose memory is no part of what is written to.
fn apart(value: Entry) -> Result<Entry> {
    match value {
        Entry::Tensor(tensor) => {
            ensure_shaped(&tensor)?;
            // What is no number of its own memory can be none of what is written to either.
            Ok(Entry::Tensor(tensor.f_alias_copy().unwrap_or(tensor)))
        }
        Entry::Dict(dict) => copied(&dict).map(Entry::Dict),
        other => Ok(other),
    }
}

fn copied(source: &TensorDict) -> Result<TensorDict> {
    match &source.body {
        Body::Lazy(stack) => stack.try_map(copied).map(TensorDict::lazy),
        Body::Dense(dense) => dense
            .try_map(|_, entry| {
                Ok(Some(match entry {
                    Entry::Tensor(tensor) => {
                        let mut copy = tensor.f_detach()?.f_empty_like()?;
                        copy.f_copy_(tensor)?;
                        Entry::Tensor(copy)
                    }
                    Entry::Dict(dict) => Entry::Dict(copied(dict)?),
                    other => other.shallow_clone(),
                }))
            })
            .map(TensorDict::dense),
    }
}

impl TensorDict {
    /// The rows of a batch dim that a tensor `int64[k]` names, in its order.
    ///
    /// # Errors
    ///
    /// What [`Index::from_tensor`] and [`index`](Self::index) say; an [index](Error::is_index) error for a dim out
    /// of range or a tensor of other than one dim.
    pub fn index_select(&self, dim: i64, rows: &Tensor) -> Result<TensorDict> {
        let at = self.batch_dim(dim)?;
        let index = Index::from_tensor(rows)?;
        if !matches!(index, Index::Rows(_)) {
            return Err(Error::index(format!("rows to select are integers of one dim, not {:?}", rows.size())));
        }
        let mut items: Vec<Index> = (0..at).map(|_| Index::from(..)).collect();
        items.push(index);
        self.index(items)
    }

    /// The places of the batch where a boolean mask is true, as one dim in front; the mask covers the leading dims.
    ///
    /// # Errors
    ///
    /// What [`Index::from_tensor`] and [`index`](Self::index) say; an [index](Error::is_index) error for a tensor
    /// that is no mask.
    pub fn masked_select(&self, mask: &Tensor) -> Result<TensorDict> {
        match Index::from_tensor(mask)? {
            index @ (Index::Mask(_) | Index::GridMask { .. }) => self.index(index),
            _ => Err(Error::index("a mask is a bool tensor")),
        }
    }

    /// Along a batch dim, for each place of `index` the row that it names there, as `torch.gather`: the batch size
    /// of the result is the index's shape. An index of fewer dims than the batch leaves the last ones whole.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a dim or row out of range or an index that isn't `int64` of at least
    /// one dim; a [shape](Error::is_shape) error for an index larger than the batch, for members that differ in
    /// shape, and jagged entries unless the index has one dim.
    pub fn gather(&self, dim: i64, index: &Tensor) -> Result<TensorDict> {
        if !index.defined() || index.f_kind()? != Kind::Int64 || index.dim() == 0 || index.dim() > self.batch_dims() {
            return Err(Error::index(format!(
                "an index to gather by is int64 of 1 to {} dims, as the batch has",
                self.batch_dims()
            )));
        }
        let at = self.batch_dim(dim)?;
        if at >= index.dim() {
            return Err(Error::index(format!("the index has no dim {at}: its shape is {:?}", index.size())));
        }
        if let Body::Lazy(stack) = &self.body {
            if index.dim() == 1 && stack.stack_dim == 0 {
                return self.index_select(0, index);
            }
            return self.contiguous()?.gather(dim, index);
        }
        let Body::Dense(dense) = &self.body else {
            return Err(Error::index("no batch"));
        };
        let mut gathered = dense.try_map(|_, entry| gather_entry(entry, at, index).map(Some))?;
        gathered.batch_size.splice(..index.dim(), index.size());
        Ok(TensorDict::dense(gathered))
    }
}

fn gather_entry(entry: &Entry, dim: usize, index: &Tensor) -> Result<Entry> {
    match entry {
        Entry::Tensor(tensor) => gather_tensor(tensor, dim, index).map(Entry::Tensor),
        Entry::NonTensor(values) => values.rearrange(|places| gather_tensor(places, dim, index)).map(Entry::NonTensor),
        Entry::Dict(dict) => dict.gather(dim as i64, index).map(Entry::Dict),
        Entry::Jagged(_) if index.dim() == 1 => {
            let item = Index::from_tensor(index)?;
            let rows = entry.shape()[0];
            grid(&item, rows)?;
            entry.select(&item.resolve(rows)?)
        }
        Entry::Jagged(_) => Err(Error::shape("jagged rows have one dim, they can't be gathered in several")),
    }
}

fn gather_tensor(tensor: &Tensor, dim: usize, index: &Tensor) -> Result<Tensor> {
    let dims = index.dim();
    let mut sizes = index.size();
    let shape = tensor.size();
    let beyond = shape.get(dims..).ok_or_else(|| {
        Error::shape(format!("its shape is {shape:?}, of fewer dims than the index, whose shape is {sizes:?}"))
            .remedy("set it anew: another handle on the tensor resized it")
    })?;
    sizes.extend_from_slice(beyond);
    let mut spread = index.f_to_device(tensor.device())?;
    for _ in dims..tensor.dim() {
        spread = spread.f_unsqueeze(-1)?;
    }
    let spread = spread.f_expand(&sizes, false)?;
    tensor.f_gather(dim as i64, &spread, false).map_err(|error| {
        let theirs = Error::from(error);
        match tensor.size().get(dim) {
            Some(_) => Error::index(format!(
                "an index of shape {:?} can't gather from {:?}: {theirs}",
                index.size(),
                tensor.size()
            )),
            None => theirs,
        }
    })
}
