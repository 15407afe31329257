//! Writing to a part of the batch, in place.

use tch::Tensor;

use super::apply::{Visit, keep};
use super::create::zeros;
use super::dense::Dense;
use super::indexing::Route;
use super::indices::{Indices, along, apply, sizes_after};
use super::lazy::LazyStack;
use super::operand::{Operand, Side, ensure_shaped};
use super::tensordict::Body;
use super::write_leaf::copied;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::key::NestedKey;

/// Nothing that was checked fails when it is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Checks all that can be without the entries that are missing.
    Check,
    /// Makes the entries that are missing, and checks.
    Make,
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
    /// twice, the last value stays. Also of locked tensordicts. The value may share storage with the tensordict.
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
    /// [shape](Error::is_shape) error if it doesn't fit the part, for jagged rows of another length, and for a
    /// tensor whose elements share memory; libtorch's for a leaf tensor for which gradients are recorded; what
    /// [`index`](Self::index) says. Nothing is written then.
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
        let dims = sizes_after(&self.batch_size(), &items)?.len() + self.rest_dims(key.names()).unwrap_or_default();
        let value = value.into();
        if let Entry::Tensor(tensor) = &value {
            ensure_shaped(tensor).map_err(|error| error.at(&key))?;
        }
        let value = padded(copied(&value)?, dims)?;
        for pass in [Pass::Check, Pass::Write] {
            let written = self.write(key.names(), &value, &items, pass);
            written.map_err(|error| if error.nested_key().is_some() { error } else { error.at(&key) })?;
        }
        Ok(())
    }

    /// Writes to a part of the batch, in place: the entries of a tensordict, or a number or a tensor to every tensor.
    ///
    /// A tensordict's batch size is that of the part, or can be expanded to it. An entry that isn't there yet is made,
    /// zero elsewhere; of a lazy stack only in the members that the index reaches.
    ///
    /// A tensor is broadcast to the batch size of the part: its value at a place of the batch goes to all that is there,
    /// as in [`add`](Self::add). Tensors and numbers reach jagged rows too, and of a lazy stack what only some members
    /// have; non-tensor values stay. They are cast to each dtype: a float loses what is after its point where integers
    /// are.
    ///
    /// What is written may share storage with this tensordict.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([3]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2, 3]))?;
    /// let numbers = |td: &TensorDict| Vec::<i64>::try_from(td.tensor("x").unwrap()).unwrap();
    /// td.put_at([0, 1], &td.index([1, 0])?)?;
    /// assert_eq!(numbers(&td), [2, 1, 3]);
    /// td.put_at([true, false, true], 0)?;
    /// assert_eq!(numbers(&td), [0, 1, 0]);
    /// td.put_at(1.., &Tensor::from_slice(&[7i64, 8]))?;
    /// assert_eq!(numbers(&td), [0, 7, 8]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error naming both batch sizes if they don't fit, or if a tensor can't be broadcast to
    /// the part's; a [lock](Error::is_lock) error for new entries of a locked tensordict; an
    /// [overflow](Error::is_overflow) error, with the key, if a dtype of integers can't hold a number; what
    /// [`set_at`](Self::set_at) says. Nothing is written then.
    pub fn put_at<'a>(&mut self, index: impl Into<Indices>, value: impl Into<Operand<'a>>) -> Result<()> {
        let index = index.into();
        let (number, tensor) = match value.into() {
            Operand::Dict(source) => return self.put_part(index, source, true),
            Operand::Number(number) => (Some(number), None),
            Operand::Tensor(tensor) => (None, Some(tensor)),
        };
        let part = self.index(index.clone())?.filter_non_tensor();
        let side = tensor.map(|tensor| Side::broadcast(tensor, &part.batch_size())).transpose()?;
        let mut spread = |_: &NestedKey, tensor: &Tensor, sides: &[Tensor]| {
            let value = match (number, sides) {
                (Some(number), _) => number.cast(tensor)?,
                (None, [value]) => value.shallow_clone(),
                (None, _) => return Ok(None),
            };
            Ok(Some(value.f_expand(tensor.size(), false)?))
        };
        let mut visit = Visit { tensor: &mut spread, non_tensor: &mut keep, same_keys: false };
        let source = part.walk(side.as_slice(), &mut visit)?.unwrap_or_else(|| part.blank());
        self.put_part(index, &source, true)
    }

    /// As [`put_at`](Self::put_at), but all entries of `source` must be there.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error for an entry that isn't there; what [`put_at`](Self::put_at) says.
    pub fn update_at(&mut self, index: impl Into<Indices>, source: &TensorDict) -> Result<()> {
        self.put_part(index.into(), source, false)
    }

    fn put_part(&mut self, indices: Indices, source: &TensorDict, create: bool) -> Result<()> {
        let items = indices.spread(&self.batch_size())?;
        let part = sizes_after(&self.batch_size(), &items)?;
        let theirs = source.batch_size();
        let fits = |(size, theirs): (&i64, &i64)| size == theirs || *theirs == 1 || *size < 0 || *theirs < 0;
        if theirs.len() > part.len() || !part.iter().rev().zip(theirs.iter().rev()).all(fits) {
            return Err(misfit(&theirs, &part));
        }
        let Entry::Dict(source) = padded(Entry::Dict(source.deep_clone()?), part.len())? else {
            return Ok(());
        };
        let grows = self.write_dict(&source, &items, Pass::Check)?;
        if let (Some(key), false) = (&grows, create) {
            return Err(self.missing(key));
        }
        if grows.is_none() {
            return self.write_dict(&source, &items, Pass::Write).map(|_| ());
        }
        // Entries are made aside, since a member that is reached twice can get pieces that don't fit each other.
        let mut grown = self.twin();
        grown.write_dict(&source, &items, Pass::Make)?;
        grown.write_dict(&source, &items, Pass::Write)?;
        *self = grown;
        Ok(())
    }

    /// Other handles on the same entries, locked in the same places.
    fn twin(&self) -> TensorDict {
        let twin = |entry: &Entry| match entry {
            Entry::Dict(dict) => Entry::Dict(dict.twin()),
            entry => entry.shallow_clone(),
        };
        let body = match &self.body {
            Body::Dense(dense) => {
                let entries = dense.entries.iter().map(|(name, entry)| (name.clone(), twin(entry))).collect();
                Body::Dense(Dense { entries, ..dense.emptied() })
            }
            Body::Lazy(stack) => Body::Lazy(stack.with_members(stack.members.iter().map(TensorDict::twin).collect())),
        };
        TensorDict { body, lock: self.lock }
    }

    /// How many dims the entry at `names` has beyond the batch's.
    fn rest_dims(&self, names: &[String]) -> Option<usize> {
        match (&self.body, names) {
            (Body::Lazy(stack), _) => stack.members.first()?.rest_dims(names),
            (Body::Dense(_), []) => None,
            (Body::Dense(dense), [name]) => dense.entries.get(name)?.shape().len().checked_sub(dense.batch_size.len()),
            (Body::Dense(dense), [name, below @ ..]) => {
                let dict = dense.entries.get(name)?.as_dict()?;
                (dict.rest_dims(below)? + dict.batch_dims()).checked_sub(dense.batch_size.len())
            }
        }
    }

    fn write(&mut self, names: &[String], value: &Entry, items: &[Index], pass: Pass) -> Result<()> {
        match &mut self.body {
            Body::Lazy(stack) => {
                let items = Indices::from(items.to_vec()).spread(&stack.batch_size())?;
                stack.write(value, &items, &mut |member, value, items| member.write(names, &value, items, pass))
            }
            Body::Dense(dense) => match names {
                [] => Err(Error::key("the empty key holds no entry")),
                [name] => dense.write(name, value, items, pass).map(|_| ()),
                [name, below @ ..] => match dense.entries.get_mut(name) {
                    Some(Entry::Dict(dict)) => dict.write(below, value, items, pass),
                    _ => Err(Error::key(format!("there is nothing below '{name}'"))),
                },
            },
        }
    }

    /// Gives the key of an entry that was missing. The source has as many batch dims as the part.
    pub(super) fn write_dict(&mut self, source: &TensorDict, items: &[Index], pass: Pass) -> Result<Option<NestedKey>> {
        let part = sizes_after(&self.batch_size(), items)?;
        let theirs = source.batch_size();
        let fits = |(size, theirs): (&i64, &i64)| size == theirs || *theirs == 1 || *size < 0 || *theirs < 0;
        if theirs.len() != part.len() || !part.iter().zip(&theirs).all(fits) {
            return Err(misfit(&theirs, &part));
        }
        let locked = self.ensure_unlocked();
        let mut missing = None;
        match &mut self.body {
            Body::Lazy(stack) => {
                let items = Indices::from(items.to_vec()).spread(&stack.batch_size())?;
                let value = Entry::Dict(source.shallow_clone());
                stack.write(&value, &items, &mut |member, value, items| match value {
                    Entry::Dict(source) => {
                        let theirs = member.write_dict(&source, items, pass)?;
                        missing = missing.take().or(theirs);
                        Ok(())
                    }
                    _ => Err(Error::key("a tensordict can only be written to one")),
                })?;
            }
            Body::Dense(dense) => {
                let whole = theirs == dense.batch_size && items.iter().all(|item| *item == Index::from(..));
                for (name, value) in source.items()? {
                    let below = |error: Error| error.below(&name);
                    if !dense.entries.contains_key(&name) {
                        locked.clone().map_err(below)?;
                        missing = missing.or_else(|| Some(NestedKey::from(&name)));
                        let entry = match &value {
                            value if whole => copied(value),
                            // Rows that are written to keep their lengths, and these would have none.
                            Entry::Jagged(_) => Err(Error::shape("a jagged entry can't be made of a part of its rows")),
                            value => value.refilled(&dense.batch_size, part.len(), &zeros),
                        };
                        let entry = dense.fit(std::slice::from_ref(&name), entry.map_err(below)?).map_err(below)?;
                        if pass == Pass::Check {
                            continue;
                        }
                        dense.put(std::slice::from_ref(&name), entry);
                    }
                    let theirs = dense.write(&name, &value, items, pass).map_err(below)?;
                    missing = missing.or_else(|| theirs.map(|key| NestedKey::from(&name).join(&key)));
                }
            }
        }
        Ok(missing)
    }
}

fn misfit(theirs: &[i64], part: &[i64]) -> Error {
    Error::shape(format!("the source has the batch size {theirs:?}, the part that is written to has {part:?}"))
}

/// The entry with new dims in front, so that it has as many as what it is written to.
fn padded(entry: Entry, dims: usize) -> Result<Entry> {
    let added = dims.saturating_sub(entry.shape().len());
    if added == 0 {
        return Ok(entry);
    }
    let items = vec![Index::NewAxis; added];
    Ok(match entry {
        Entry::Tensor(tensor) if tensor.defined() => Entry::Tensor(apply(&tensor, &items)?),
        Entry::NonTensor(values) => Entry::NonTensor(values.rearrange(|places| apply(places, &items))?),
        Entry::Dict(dict) => Entry::Dict(dict.index_by(&items)?),
        other => other,
    })
}

type WriteMember<'a> = dyn FnMut(&mut TensorDict, Entry, &[Index]) -> Result<()> + 'a;

impl LazyStack {
    /// Hands each member that the index reaches its piece of the value.
    fn write(&mut self, value: &Entry, items: &[Index], write: &mut WriteMember<'_>) -> Result<()> {
        let (parts, shape, place, spaced) = match self.route(items)? {
            Route::Member { at, items } => return self.write_member(at, value.shallow_clone(), &items, write),
            Route::Members { parts, shape, place, spaced } => (parts, shape, place, spaced),
        };
        if parts.is_empty() {
            let sizes = self.batch_size();
            return if sizes.contains(&-1) { Ok(()) } else { sizes_after(&sizes, items).map(|_| ()) };
        }
        let mut pieces = vec![value.shallow_clone()];
        // What is one along a dim is everyone's.
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
                    _ => {
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
            self.write_member(at, piece, &items, write)?;
        }
        Ok(())
    }

    fn write_member(&mut self, at: usize, value: Entry, items: &[Index], write: &mut WriteMember<'_>) -> Result<()> {
        write(&mut self.members[at], value, items).map_err(|error| error.of_member(at, self.stack_dim))
    }
}

fn spaced_entry(entry: Entry, place: usize) -> Result<Entry> {
    let items = along(place, Index::NewAxis);
    match entry {
        Entry::Tensor(tensor) => Ok(Entry::Tensor(apply(&tensor, &items)?)),
        Entry::NonTensor(values) => values.rearrange(|places| apply(places, &items)).map(Entry::NonTensor),
        Entry::Dict(dict) => dict.index_by(&items).map(Entry::Dict),
        Entry::Jagged(_) => Err(Error::shape("jagged rows can't be written in place")),
    }
}
