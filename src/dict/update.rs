//! Writing one tensordict's entries into another: first all is planned and checked, then done.

use super::dense::Dense;
use super::lazy::LazyStack;
use super::overwrite::Overwrites;
use super::tensordict::{Body, Fitted};
use super::write_leaf::copied;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;

/// How one tensordict is updated with another.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::{TensorDict, UpdateOptions};
///
/// let mut td = TensorDict::new([1]);
/// td.set("x", Tensor::from_slice(&[1i64]))?;
/// let x = td.tensor("x")?;
/// let mut source = TensorDict::new([1]);
/// source.set("x", Tensor::from_slice(&[2i64]))?;
/// source.set("y", Tensor::from_slice(&[3i64]))?;
/// td.update_with(&source, &UpdateOptions::default().in_place(true).keys(["x"]))?;
/// assert_eq!(x.int64_value(&[0]), 2, "written into the tensor that was there");
/// assert!(!td.contains_key("y"));
/// # Ok::<_, tensorquery::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UpdateOptions {
    copy: bool,
    in_place: bool,
    keys: Option<Vec<NestedKey>>,
    batch_size: bool,
}

impl UpdateOptions {
    /// Whether the tensors that are taken over are copied. If not, storage is shared.
    pub fn copy(mut self, copy: bool) -> Self {
        self.copy = copy;
        self
    }

    /// Whether values are written into the tensors that there are, rather than replace them. This is allowed
    /// for a locked tensordict, if no entry is new.
    pub fn in_place(mut self, in_place: bool) -> Self {
        self.in_place = in_place;
        self
    }

    /// The entries to take over, rather than all; those that the source lacks are ignored.
    pub fn keys<K: Into<NestedKey>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys = Some(keys.into_iter().map(Into::into).collect());
        self
    }

    /// Whether the source's batch size is taken over: a lazy stack gets as many members. The source then
    /// has all entries that the tensordict has.
    pub fn update_batch_size(mut self, batch_size: bool) -> Self {
        self.batch_size = batch_size;
        self
    }
}

/// Where values may go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Into the places of entries, and new ones.
    Places,
    /// Into the tensors that there are, and new places.
    TensorsOrPlaces,
    /// Into the tensors that there are.
    Tensors,
}

#[derive(Clone, Copy)]
struct How {
    copy: bool,
    into: Target,
    batch_size: bool,
}

/// What is to be done once all is checked, beside writes into tensors.
enum Plan {
    Entries(Vec<(String, Step)>),
    Whole(Dense),
    Members { plans: Vec<Plan>, more: Vec<TensorDict> },
}

enum Step {
    /// Nothing but writes into a tensor.
    Written,
    Put(Entry),
    Below(Plan),
}

impl TensorDict {
    /// Takes over the entries of another tensordict, which replace those at the same keys; nested dicts are
    /// updated in turn. Storage is shared. The choices are in [`update_with`](Self::update_with).
    ///
    /// A lazy stack is updated member by member: with the members of a lazy stack along the same dim, of
    /// which there are at least as many, or with the pieces of any other tensordict along the stack dim.
    /// Keys that only some members of the source have become keys of those members alone.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if an entry hasn't the batch size, or the source has other pieces
    /// than the stack has members; a [lock](Error::is_lock) error. The tensordict is then as before.
    pub fn update(&mut self, source: &TensorDict) -> Result<()> {
        self.update_with(source, &UpdateOptions::default())
    }

    /// As [`update`](Self::update), with choices.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update); in place, as [`update_`](Self::update_), but that keys may be new; with
    /// another batch size, a [key](Error::is_key) error for an entry that the source lacks.
    pub fn update_with(&mut self, source: &TensorDict, options: &UpdateOptions) -> Result<()> {
        let into = if options.in_place { Target::TensorsOrPlaces } else { Target::Places };
        let how = How { copy: options.copy, into, batch_size: options.batch_size };
        match &options.keys {
            None => self.updated(source, how),
            Some(keys) => self.updated(&source.select_existing(keys), how),
        }
    }

    /// Writes the values of another tensordict into the tensors that there are, cast to their dtypes, which
    /// is allowed for a locked tensordict. Non-tensor values are replaced. A lazy stack is written to member
    /// by member, as in [`update`](Self::update).
    ///
    /// Sources that share storage with what is written are read before.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error for an entry that there isn't, or that is of another kind; a
    /// [shape](Error::is_shape) error for one of another shape, for jagged tensors whose rows differ in
    /// length, and for a tensor whose elements share memory; libtorch's for a tensor that gradients are being
    /// recorded for. Then nothing is written.
    pub fn update_(&mut self, source: &TensorDict) -> Result<()> {
        self.updated(source, How { copy: false, into: Target::Tensors, batch_size: false })
    }

    /// Writes values into the entry at `key`, which every member of a lazy stack must have.
    ///
    /// # Errors
    ///
    /// As [`update_`](Self::update_).
    pub fn set_(&mut self, key: impl Into<NestedKey>, entry: impl Into<Entry>) -> Result<()> {
        let key = key.into();
        let at = |error: Error| if error.nested_key().is_some() { error } else { error.at(&key) };
        if !self.has(key.names()) {
            return Err(self.missing(&key));
        }
        let mut writes = Overwrites::default();
        let plan = self.plan_at(key.names(), entry.into(), &mut writes).map_err(at)?;
        writes.run()?;
        self.carry_out(plan);
        Ok(())
    }

    /// Another tensordict with handles on the same storage, [updated](Self::update) with `source`.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn replace(&self, source: &TensorDict) -> Result<TensorDict> {
        let mut replaced = self.shallow_clone();
        replaced.update(source)?;
        Ok(replaced)
    }

    fn updated(&mut self, source: &TensorDict, how: How) -> Result<()> {
        let mut writes = Overwrites::default();
        let plan = self.plan(source, how, &mut writes)?;
        writes.run()?;
        self.carry_out(plan);
        Ok(())
    }

    fn plan(&self, source: &TensorDict, how: How, writes: &mut Overwrites) -> Result<Plan> {
        match &self.body {
            Body::Lazy(stack) => self.plan_members(stack, source, how, writes),
            Body::Dense(dense) if how.batch_size && dense.batch_size != source.batch_size() => {
                self.ensure_unlocked()?;
                resized(dense, self, source, how).map(Plan::Whole)
            }
            Body::Dense(dense) => {
                let mut steps = Vec::new();
                for name in source.keys() {
                    let entry = source.entry(name.as_str())?;
                    let step = self.plan_entry(dense, &name, entry, how, writes);
                    steps.push((name.clone(), step.map_err(|error| error.below(&name))?));
                }
                Ok(Plan::Entries(steps))
            }
        }
    }

    fn plan_entry(&self, dense: &Dense, name: &str, entry: Entry, how: How, writes: &mut Overwrites) -> Result<Step> {
        match (dense.entries.get(name), entry) {
            (Some(Entry::Dict(dict)), Entry::Dict(source)) => dict.plan(&source, how, writes).map(Step::Below),
            (Some(found), entry) if how.into != Target::Places => write_over(found, entry, writes),
            (None, _) if how.into == Target::Tensors => Err(Error::key("there is no such entry to write into")),
            (_, entry) => {
                self.ensure_unlocked()?;
                let entry = if how.copy { copied(&entry)? } else { entry };
                match dense.fit(&[name.to_owned()], entry)? {
                    Fitted::Whole(entry) => Ok(Step::Put(entry)),
                    Fitted::Pieces(_) => Err(Error::key("the entry can't be taken apart")),
                }
            }
        }
    }

    fn plan_members(&self, stack: &LazyStack, source: &TensorDict, how: How, writes: &mut Overwrites) -> Result<Plan> {
        let pieces = self.pieces_for(stack, source, how)?;
        let (here, there) = (stack.members.len(), pieces.len());
        if there < here && !how.batch_size {
            return Err(Error::shape(format!("the source has {there} members, this stack {here}"))
                .remedy("update_batch_size takes over their number"));
        }
        let plans = stack.members.iter().zip(&pieces).map(|(member, piece)| member.plan(piece, how, writes));
        let plans = plans.collect::<Result<Vec<_>>>()?;
        if here == there || !how.batch_size {
            return Ok(Plan::Members { plans, more: Vec::new() });
        }
        self.ensure_unlocked()?;
        ensure_has_all(self, source)?;
        let more: Vec<_> = pieces.into_iter().skip(here).collect();
        let more = if how.copy { more.iter().map(TensorDict::deep_clone).collect::<Result<_>>()? } else { more };
        if let (Some(first), false) = (stack.members.first(), more.is_empty()) {
            let mut all = vec![first.blank()];
            all.extend(more.iter().map(TensorDict::blank));
            LazyStack::check(&all, false)?;
        }
        Ok(Plan::Members { plans, more })
    }

    /// What each member is updated with.
    fn pieces_for(&self, stack: &LazyStack, source: &TensorDict, how: How) -> Result<Vec<TensorDict>> {
        if source.stack_dim() == Some(stack.stack_dim) {
            return Ok(source.members().iter().map(TensorDict::shallow_clone).collect());
        }
        let (sizes, theirs) = (self.batch_size(), source.batch_size());
        let count = stack.members.len() as i64;
        match theirs.get(stack.stack_dim) {
            Some(size) if *size == count || (how.batch_size && *size >= 0) => source.unbind(stack.stack_dim as i64),
            _ => {
                // The entries may have our batch size though the source doesn't say so.
                let leading: Vec<i64> = sizes.iter().take(stack.stack_dim + 1).copied().collect();
                let reread = source.shallow_clone().with_batch_size(&leading).map_err(|_| {
                    Error::shape(format!("different shapes: the batch size is {sizes:?}, the source has {theirs:?}"))
                })?;
                reread.unbind(stack.stack_dim as i64)
            }
        }
    }

    /// As [`plan`](Self::plan) for one entry that is there.
    fn plan_at(&self, names: &[String], entry: Entry, writes: &mut Overwrites) -> Result<Plan> {
        let how = How { copy: false, into: Target::Tensors, batch_size: false };
        match (&self.body, names) {
            (Body::Lazy(stack), names) => {
                let single = matches!(&entry, Entry::NonTensor(values) if values.batch_size().is_empty());
                let pieces = if single {
                    stack.members.iter().map(|_| entry.shallow_clone()).collect()
                } else {
                    let (shape, sizes) = (entry.shape(), self.batch_size());
                    if !shape.starts_with(&sizes) {
                        return Err(Error::shape(format!(
                            "batch dimension mismatch: the entry has shape {shape:?}, the batch size is {sizes:?}"
                        )));
                    }
                    entry.unbind(stack.stack_dim)?
                };
                let plans =
                    stack.members.iter().zip(pieces).map(|(member, piece)| member.plan_at(names, piece, writes));
                Ok(Plan::Members { plans: plans.collect::<Result<_>>()?, more: Vec::new() })
            }
            (Body::Dense(dense), [name]) => {
                let step = self.plan_entry(dense, name, entry, how, writes).map_err(|error| error.below(name))?;
                Ok(Plan::Entries(vec![(name.clone(), step)]))
            }
            (Body::Dense(dense), [name, below @ ..]) => match dense.entries.get(name) {
                Some(Entry::Dict(dict)) => {
                    let plan = dict.plan_at(below, entry, writes).map_err(|error| error.below(name))?;
                    Ok(Plan::Entries(vec![(name.clone(), Step::Below(plan))]))
                }
                _ => Err(Error::key("there is no such entry to write into")),
            },
            (Body::Dense(_), []) => Err(Error::key("the empty key holds no entry")),
        }
    }

    fn carry_out(&mut self, plan: Plan) {
        match (&mut self.body, plan) {
            (Body::Dense(dense), Plan::Entries(steps)) => {
                for (name, step) in steps {
                    match (step, dense.entries.get_mut(&name)) {
                        (Step::Put(entry), _) => {
                            dense.entries.insert(name, entry);
                        }
                        (Step::Below(plan), Some(Entry::Dict(dict))) => dict.carry_out(plan),
                        (Step::Below(_) | Step::Written, _) => {}
                    }
                }
            }
            (Body::Dense(dense), Plan::Whole(whole)) => *dense = whole,
            (Body::Lazy(stack), Plan::Members { plans, more }) => {
                if let (true, Some(first)) = (plans.is_empty(), stack.members.first()) {
                    *stack.blank = first.blank();
                }
                stack.members.truncate(plans.len());
                for (member, plan) in stack.members.iter_mut().zip(plans) {
                    member.carry_out(plan);
                }
                stack.members.extend(more);
            }
            (Body::Dense(_), Plan::Members { .. }) | (Body::Lazy(_), Plan::Entries(_) | Plan::Whole(_)) => {}
        }
    }
}

/// Values written over an entry of the same kind and shape.
fn write_over(found: &Entry, entry: Entry, writes: &mut Overwrites) -> Result<Step> {
    match (found, entry) {
        (Entry::Tensor(tensor), Entry::Tensor(values)) => writes.add(tensor, values).map(|()| Step::Written),
        (Entry::Jagged(jagged), Entry::Jagged(values)) => {
            super::operand::ensure_same_offsets(jagged, &values)?;
            writes.add(jagged.values(), values.values().shallow_clone()).map(|()| Step::Written)
        }
        (Entry::NonTensor(found), Entry::NonTensor(values)) => {
            let values = if values.batch_size().is_empty() { values.broadcast(found.batch_size())? } else { values };
            if values.batch_size() != found.batch_size() {
                return Err(Error::shape(format!(
                    "the entry has batch size {:?}, the values to write {:?}",
                    found.batch_size(),
                    values.batch_size()
                )));
            }
            Ok(Step::Put(values.into()))
        }
        (found, entry) => Err(Error::key(format!(
            "the entry is of kind {}, values of kind {} can't be written into it",
            found.kind(),
            entry.kind()
        ))),
    }
}

/// The source's entries under its batch size, in the order of those that they replace.
fn resized(dense: &Dense, dict: &TensorDict, source: &TensorDict, how: How) -> Result<Dense> {
    ensure_has_all(dict, source)?;
    let batch_size = source.batch_size();
    if batch_size.contains(&-1) {
        return Err(Error::shape(format!("a dense tensordict can't take over the batch size {batch_size:?}")));
    }
    let names = if batch_size.len() == dense.batch_size.len() { dense.names.clone() } else { Vec::new() };
    let mut resized = Dense { batch_size, names, device: dense.device, ..Dense::default() };
    let added = source.keys().filter(|name| !dense.entries.contains_key(name));
    for name in dense.entries.keys().cloned().chain(added) {
        let entry = source.entry(name.as_str())?;
        let entry = if how.copy { copied(&entry)? } else { entry };
        let names = [name];
        let fitted = resized.fit(&names, entry).map_err(|error| error.below(&names[0]))?;
        resized.put(&names, fitted);
    }
    Ok(resized)
}

fn ensure_has_all(dict: &TensorDict, source: &TensorDict) -> Result<()> {
    match dict.nested_keys().into_iter().find(|key| !source.has_in_any(key.names())) {
        None => Ok(()),
        Some(key) => {
            Err(Error::key("with another batch size, the source must have every entry; it lacks this one").at(key))
        }
    }
}
