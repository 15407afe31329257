//! Functions on every leaf.

use tch::Tensor;

use super::dense::Dense;
use super::operand::{Beside, Side, ensure_shaped};
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::tensor::{JaggedTensor, NonTensorStack};

/// What is done with a tensor or a jagged tensor's values, given the key and what each side has for it.
type OnTensor<'a> = dyn FnMut(&NestedKey, &Tensor, &[Tensor]) -> Result<Option<Tensor>> + 'a;

/// What is done with non-tensor values, given what each side has for them.
pub(super) type OnNonTensor<'a> = dyn FnMut(&NonTensorStack, &[Beside]) -> Result<Option<Entry>> + 'a;

/// What is done with each leaf. Both functions may leave it out.
pub(super) struct Visit<'a> {
    pub(super) tensor: &'a mut OnTensor<'a>,
    pub(super) non_tensor: &'a mut OnNonTensor<'a>,
    /// Whether tensordicts on the sides may have no other keys.
    pub(super) same_keys: bool,
}

/// Leaves non-tensor values as they are.
pub(super) fn keep(values: &NonTensorStack, _: &[Beside]) -> Result<Option<Entry>> {
    Ok(Some(values.clone().into()))
}

impl TensorDict {
    /// A tensordict of what `function` gives for each tensor and for the values of each jagged tensor, at
    /// any depth. Of a lazy stack, each member's, those that only some have included. Non-tensor values
    /// stay as they are.
    ///
    /// What it gives has the batch size as leading dims; for the values of a jagged tensor, as many values.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2]))?;
    /// let doubled = td.apply(|tensor| Ok(tensor.f_mul_scalar(2i64)?))?;
    /// assert_eq!(Vec::<i64>::try_from(doubled.tensor("x")?).unwrap(), [2, 4]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `function` gives; a [shape](Error::is_shape) error if its result doesn't fit. Both name the key.
    pub fn apply(&self, mut function: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<TensorDict> {
        self.named_apply(|_, tensor| function(tensor))
    }

    /// As [`apply`](Self::apply), with the key of each leaf. In a lazy stack it is the key in the member.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub fn named_apply(&self, mut function: impl FnMut(&NestedKey, &Tensor) -> Result<Tensor>) -> Result<TensorDict> {
        let applied = self.filter_apply(|key, tensor| function(key, tensor).map(Some))?;
        Ok(applied.unwrap_or_else(|| self.blank()))
    }

    /// As [`named_apply`](Self::named_apply), without the leaves for which `function` gives `None`. A dict
    /// that loses all it has goes as well, and `None` is the result if that is the root. Members of a
    /// stack that lose all are empty.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub fn filter_apply(
        &self,
        mut function: impl FnMut(&NestedKey, &Tensor) -> Result<Option<Tensor>>,
    ) -> Result<Option<TensorDict>> {
        let mut visit =
            Visit { tensor: &mut |key, tensor, _| function(key, tensor), non_tensor: &mut keep, same_keys: false };
        self.walk(&[], &mut visit)
    }

    /// As [`apply`](Self::apply), with the tensors at the same key of other tensordicts, in their order, and if asked
    /// for, under a batch size that is not this one's.
    ///
    /// The others have the same batch size and at least the same keys; if any is a lazy stack, so is the result. Under
    /// another batch size the result is dense, at every level, without names of dims: leaves of lazy stacks are stacked
    /// first, those that all members have, and what `function` gives has the other batch size as leading dims. So do
    /// non-tensor values that stay.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let models = [[1.0f32, 2.0], [3.0, 6.0], [5.0, 1.0]].map(|weights| {
    ///     TensorDict::from_entries([("w", Tensor::from_slice(&weights))])
    /// });
    /// let [first, second, third] = models;
    /// let (first, others) = (first?, [&second?, &third?]);
    /// let median = first.apply_with(&others, None, |weights, others| {
    ///     let all: Vec<&Tensor> = std::iter::once(weights).chain(others).collect();
    ///     Ok(Tensor::f_stack(&all, 0)?.f_median_dim(0, false)?.0)
    /// })?;
    /// assert_eq!(Vec::<f32>::try_from(median.tensor("w")?)?, [3.0, 2.0]);
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2]))?;
    /// td.set(["n", "y"], Tensor::from_slice(&[3i64, 4, 5, 6]).f_view([2, 2])?)?;
    /// let first = td.apply_with(&[], Some(&[]), |tensor, _| Ok(tensor.f_select(0, 0)?))?;
    /// assert_eq!(first.batch_size(), [] as [i64; 0]);
    /// assert_eq!(first.tensor(["n", "y"])?.size(), [2]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply); a [shape](Error::is_shape) error for others of another batch size, for jagged
    /// tensors whose rows differ in length, and under another batch size for leaves that can't be stacked; a
    /// [key](Error::is_key) error for an entry that another hasn't, or has of another kind.
    pub fn apply_with(
        &self,
        others: &[&TensorDict],
        batch_size: Option<&[i64]>,
        mut function: impl FnMut(&Tensor, &[Tensor]) -> Result<Tensor>,
    ) -> Result<TensorDict> {
        let sides = others.iter().map(|other| Side::dict(other, &self.batch_size())).collect::<Result<Vec<_>>>()?;
        let mut visit = Visit {
            tensor: &mut |_, tensor, others| function(tensor, others).map(Some),
            non_tensor: &mut keep,
            same_keys: false,
        };
        match batch_size {
            None => Ok(self.walk(&sides, &mut visit)?.unwrap_or_else(|| self.blank())),
            Some(sizes) => self.walk_stacked(&NestedKey::default(), sizes, &sides, &mut visit),
        }
    }

    /// Writes what `function` gives for each leaf into that leaf, cast to its dtype. Locked tensordicts
    /// may be written to as well. Every result is there before the first is written.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply) and [`update_`](Self::update_).
    pub fn apply_(&mut self, function: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<()> {
        let applied = self.apply(function)?;
        self.update_(&applied)
    }

    /// Calls `look` with each tensor and the values of each jagged tensor.
    pub(super) fn look(&self, mut look: impl FnMut(&NestedKey, &Tensor) -> Result<()>) -> Result<()> {
        self.filter_apply(|key, tensor| look(key, tensor).map(|()| None)).map(|_| ())
    }

    /// A tensordict of what `visit` makes of each leaf; `None` if it left out all that there was.
    pub(super) fn walk(&self, sides: &[Side], visit: &mut Visit<'_>) -> Result<Option<TensorDict>> {
        self.walk_below(&NestedKey::default(), sides, visit)
    }

    /// What `visit` makes of each leaf, read from all members at once, dense under another batch size.
    fn walk_stacked(
        &self,
        above: &NestedKey,
        batch_size: &[i64],
        sides: &[Side],
        visit: &mut Visit<'_>,
    ) -> Result<TensorDict> {
        let mut walked = Dense { batch_size: batch_size.to_vec(), device: self.device(), ..Dense::default() };
        for name in self.keys() {
            let key = above.child(&name);
            let made = match self.entry(name.as_str()).map_err(|error| named(error, &key))? {
                Entry::Dict(dict) => {
                    let sides = sides.iter().map(|side| side.below(&name)).collect::<Result<Vec<_>>>();
                    let sides = sides.map_err(|error| named(error, &key))?;
                    ensure_same_sizes(&dict.batch_size(), &key, &sides)?;
                    Some(dict.walk_stacked(&key, batch_size, &sides, visit)?.into())
                }
                leaf => visit_entry(&leaf, &name, &key, sides, visit).map_err(|error| named(error, &key))?,
            };
            let names = std::slice::from_ref(&name);
            if let Some(made) = made {
                let fitted = walked.fit(names, made).map_err(|error| named(error, &key))?;
                walked.put(names, fitted);
            }
        }
        Ok(TensorDict::dense(walked))
    }

    fn walk_below(&self, above: &NestedKey, sides: &[Side], visit: &mut Visit<'_>) -> Result<Option<TensorDict>> {
        let dense = match &self.body {
            Body::Lazy(stack) => {
                let mut splits = sides
                    .iter()
                    .map(|side| side.split(stack.stack_dim, stack.members.len()).map(Vec::into_iter))
                    .collect::<Result<Vec<_>>>()?;
                let mut left = stack.members.is_empty();
                let mut members = Vec::with_capacity(stack.members.len());
                for (at, member) in stack.members.iter().enumerate() {
                    let sides: Vec<_> = splits.iter_mut().filter_map(Iterator::next).collect();
                    let walked = member.walk_below(above, &sides, visit);
                    let walked = walked.map_err(|error| error.of_member(at, stack.stack_dim))?;
                    left |= walked.is_some();
                    members.push(walked.unwrap_or_else(|| member.blank()));
                }
                return Ok(left.then(|| TensorDict::lazy(stack.with_members(members))));
            }
            Body::Dense(dense) => dense,
        };
        let lazy = sides.iter().find_map(|side| match side {
            Side::Dict(dict) => dict.as_stack().ok(),
            Side::Lead(_) => None,
        });
        if let Some(stack) = lazy {
            let mut pieces = stack.with_members(self.unbind(stack.stack_dim as i64)?);
            pieces.stack_dim_name = self.shared_names().into_iter().nth(stack.stack_dim).flatten();
            return TensorDict::lazy(pieces).walk_below(above, sides, visit);
        }
        ensure_same_sizes(&dense.batch_size, above, sides)?;
        if visit.same_keys {
            ensure_no_more_keys(dense, above, sides)?;
        }
        let mut walked = dense.emptied();
        for (name, entry) in &dense.entries {
            let key = above.child(name);
            if let Some(made) = visit_entry(entry, name, &key, sides, visit).map_err(|error| named(error, &key))? {
                let names = std::slice::from_ref(name);
                let fitted = walked.fit(names, made).map_err(|error| named(error, &key))?;
                walked.put(names, fitted);
            }
        }
        let left = dense.entries.is_empty() || !walked.entries.is_empty();
        Ok(left.then(|| TensorDict::dense(walked)))
    }
}

fn visit_entry(
    entry: &Entry,
    name: &str,
    key: &NestedKey,
    sides: &[Side],
    visit: &mut Visit<'_>,
) -> Result<Option<Entry>> {
    match entry {
        Entry::Tensor(tensor) => {
            let others = sides.iter().map(|side| side.beside_tensor(name, tensor)).collect::<Result<Vec<_>>>()?;
            Ok((visit.tensor)(key, tensor, &others)?.map(Entry::Tensor))
        }
        Entry::Jagged(jagged) => {
            let others = sides.iter().map(|side| side.beside_jagged(name, jagged)).collect::<Result<Vec<_>>>()?;
            let values = (visit.tensor)(key, jagged.values(), &others)?;
            values.map(|values| with_values(jagged, values).map(Entry::Jagged)).transpose()
        }
        Entry::NonTensor(values) => {
            let others = sides.iter().map(|side| side.beside_non_tensor(name)).collect::<Result<Vec<_>>>()?;
            (visit.non_tensor)(values, &others)
        }
        Entry::Dict(dict) => {
            let sides = sides.iter().map(|side| side.below(name)).collect::<Result<Vec<_>>>()?;
            Ok(dict.walk_below(key, &sides, visit)?.map(Entry::Dict))
        }
    }
}

/// The same rows with other values, as many.
pub(super) fn with_values(jagged: &JaggedTensor, values: Tensor) -> Result<JaggedTensor> {
    ensure_shaped(&values)?;
    let (before, after) = (jagged.values().size(), values.size());
    if before.first() != after.first() {
        return Err(Error::shape(format!(
            "the values of a jagged tensor have shape {before:?}, what comes of them {after:?}; their number must stay"
        )));
    }
    let offsets = jagged.offsets().f_to_device(values.device())?;
    Ok(JaggedTensor::from_trusted(values, offsets))
}

/// Fails if the batch sizes differ: members of stacks may, though those of the stacks are equal.
fn ensure_same_sizes(here: &[i64], above: &NestedKey, sides: &[Side]) -> Result<()> {
    for side in sides {
        if let Side::Dict(dict) = side
            && dict.batch_size().iter().zip(here).any(|(theirs, size)| theirs != size)
        {
            let there = dict.batch_size();
            let error =
                Error::shape(format!("the batch sizes differ: {here:?} here, {there:?} in the other tensordict"));
            return Err(if above.is_empty() { error } else { error.at(above) });
        }
    }
    Ok(())
}

fn ensure_no_more_keys(dense: &Dense, above: &NestedKey, sides: &[Side]) -> Result<()> {
    for side in sides {
        if let Side::Dict(dict) = side
            && let Some(name) = dict.keys().find(|name| !dense.entries.contains_key(name))
        {
            return Err(Error::key("the other tensordict has this entry, this one hasn't")
                .at(above.child(name))
                .remedy("select the keys that both have"));
        }
    }
    Ok(())
}

/// The error with the key, unless it has one.
pub(super) fn named(error: Error, key: &NestedKey) -> Error {
    if error.nested_key().is_some_and(|found| found.starts_with(key)) { error } else { error.at(key) }
}
