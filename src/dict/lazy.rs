//! A stack of tensordicts, each kept as it is.

use tch::Device;

use super::stack::stack_entries;
use super::tensordict::{Body, Fitted};
use super::{Entry, LazyStackBuilder, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;

/// Members along a new batch dim.
#[derive(Debug)]
pub(super) struct LazyStack {
    pub(super) members: Vec<TensorDict>,
    /// The place of the new dim among the batch dims.
    pub(super) stack_dim: usize,
    pub(super) stack_dim_name: Option<String>,
    /// What a member would be: batch size, names and device of a stack without members.
    pub(super) blank: Box<TensorDict>,
}

impl LazyStack {
    /// A stack of members that were checked against each other, at least one.
    pub(super) fn from_trusted(members: Vec<TensorDict>, stack_dim: usize, stack_dim_name: Option<String>) -> Self {
        LazyStack { members, stack_dim, stack_dim_name, blank: Box::default() }
    }

    /// Checks that tensordicts can be stacked: as many batch dims, one device, with `strict` one batch size.
    pub(super) fn check(members: &[TensorDict], strict: bool) -> Result<()> {
        let Some(first) = members.first() else {
            return Ok(());
        };
        for (at, member) in members.iter().enumerate().skip(1) {
            check_device(first, member, at)?;
            let (sizes, theirs) = (first.batch_size(), member.batch_size());
            if sizes.len() != theirs.len() || (strict && sizes != theirs) {
                return Err(Error::shape(format!(
                    "the batch sizes of tensordicts in a stack differ: member 0 has {sizes:?}, member {at} has {theirs:?}"
                ))
                .remedy(match strict && sizes.len() == theirs.len() {
                    true => "leave strict_shape off to stack them with -1 where they differ",
                    false => "members need the same number of batch dims",
                }));
            }
        }
        Ok(())
    }

    /// The name of the stack dim, unless a dim of the members has it, too: those are asked for theirs by the same name.
    pub(super) fn dim_name(&self) -> Option<&str> {
        let name = self.stack_dim_name.as_deref()?;
        let mut like_members = self.members.iter().chain(self.members.is_empty().then_some(&*self.blank));
        (!like_members.any(|member| has_name(member, name))).then_some(name)
    }

    pub(super) fn batch_dims(&self) -> usize {
        1 + self.members.first().unwrap_or(&self.blank).batch_dims()
    }

    /// The members' batch size, -1 where they differ.
    pub(super) fn member_batch_size(&self) -> Vec<i64> {
        let mut sizes = self.members.first().unwrap_or(&self.blank).batch_size();
        for member in self.members.iter().skip(1) {
            for (size, theirs) in sizes.iter_mut().zip(member.batch_size()) {
                if *size != theirs {
                    *size = -1;
                }
            }
        }
        sizes
    }

    pub(super) fn batch_size(&self) -> Vec<i64> {
        let mut sizes = self.member_batch_size();
        sizes.insert(self.stack_dim.min(sizes.len()), self.members.len() as i64);
        sizes
    }

    pub(super) fn device(&self) -> Option<Device> {
        self.members.first().unwrap_or(&self.blank).device()
    }

    /// The same stack over members made from these one by one.
    pub(super) fn try_map(&self, mut make: impl FnMut(&TensorDict) -> Result<TensorDict>) -> Result<LazyStack> {
        if self.members.is_empty() {
            let blank = Box::new(make(&self.blank)?);
            return Ok(LazyStack { blank, ..self.with_members(Vec::new()) });
        }
        Ok(self.with_members(self.members.iter().map(make).collect::<Result<_>>()?))
    }

    /// The same dim and name over other members.
    pub(super) fn with_members(&self, members: Vec<TensorDict>) -> LazyStack {
        let blank = match self.members.first() {
            _ if !members.is_empty() => TensorDict::default(),
            Some(first) => first.blank(),
            None => self.blank.shallow_clone(),
        };
        let (stack_dim, stack_dim_name) = (self.stack_dim, self.stack_dim_name.clone());
        LazyStack { members, stack_dim, stack_dim_name, blank: Box::new(blank) }
    }

    /// For a batch dim that is not the stack dim: where it is in the members, and where the stack dim is
    /// once that dim is gone.
    pub(super) fn around(&self, dim: usize) -> (usize, usize) {
        if dim < self.stack_dim { (dim, self.stack_dim - 1) } else { (dim - 1, self.stack_dim) }
    }

    /// Members made from these, stacked at `stack_dim`.
    pub(super) fn restacked(&self, members: Vec<TensorDict>, stack_dim: usize) -> TensorDict {
        TensorDict::lazy(LazyStack { stack_dim, ..self.with_members(members) })
    }

    pub(super) fn shallow_clone(&self) -> LazyStack {
        self.with_members(self.members.iter().map(TensorDict::shallow_clone).collect())
    }

    /// The names that every member has, in the order of the first.
    pub(super) fn keys(&self) -> Vec<String> {
        let Some((first, rest)) = self.members.split_first() else {
            return Vec::new();
        };
        first.keys().filter(|name| rest.iter().all(|member| member.has(std::slice::from_ref(name)))).collect()
    }

    pub(super) fn collect_leaf_keys(&self, above: &NestedKey, keys: &mut Vec<NestedKey>) {
        let Some((first, rest)) = self.members.split_first() else {
            return;
        };
        let mut candidates = Vec::new();
        first.collect_leaf_keys(&NestedKey::default(), &mut candidates);
        let shared = candidates.into_iter().filter(|key| rest.iter().all(|member| member.has(key.names())));
        keys.extend(shared.map(|key| above.join(&key)));
    }

    pub(super) fn has(&self, names: &[String]) -> bool {
        !self.members.is_empty() && self.members.iter().all(|member| member.has(names))
    }

    /// What each member has at `names`, or `None` if one lacks it.
    pub(super) fn find_each(&self, names: &[String]) -> Result<Option<Vec<Entry>>> {
        if !self.has(names) {
            return Ok(None);
        }
        self.members.iter().map(|member| member.find(names)).collect()
    }

    pub(super) fn find(&self, names: &[String]) -> Result<Option<Entry>> {
        match self.find_each(names)? {
            None => Ok(None),
            Some(entries) => stack_entries(entries, self.stack_dim, self.stack_dim_name.as_deref()).map(Some),
        }
    }

    /// A piece for each member, checked against all of them.
    pub(super) fn fit(&self, names: &[String], entry: Entry) -> Result<Fitted> {
        let sizes = self.batch_size();
        let entry = match entry {
            Entry::Dict(dict) if dict.batch_dims() < sizes.len() && !sizes.contains(&-1) => {
                Entry::Dict(dict.shallow_clone().with_batch_size(&sizes)?)
            }
            entry => entry,
        };
        let shape = entry.shape();
        let single = matches!(&entry, Entry::NonTensor(values) if values.batch_size().is_empty());
        if single {
            let pieces = self.members.iter().map(|member| member.fit(names, entry.shallow_clone()));
            return pieces.collect::<Result<_>>().map(Fitted::Pieces);
        }
        let fits = shape.len() >= sizes.len() && sizes.iter().zip(&shape).all(|(size, theirs)| size == theirs);
        if !fits {
            return Err(Error::shape(format!(
                "batch dimension mismatch: the entry has shape {shape:?}, the batch size is {sizes:?}"
            )));
        }
        let pieces = entry.unbind(self.stack_dim)?;
        let pieces = self.members.iter().zip(pieces).map(|(member, piece)| member.fit(names, piece));
        pieces.collect::<Result<_>>().map(Fitted::Pieces)
    }

    pub(super) fn put(&mut self, names: &[String], fitted: Fitted) {
        if let Fitted::Pieces(pieces) = fitted {
            for (member, piece) in self.members.iter_mut().zip(pieces) {
                member.put(names, piece);
            }
        }
    }

    /// Takes the entry out of every member that has it and gives one of them.
    pub(super) fn take(&mut self, names: &[String]) -> Option<Entry> {
        self.members.iter_mut().fold(None, |taken, member| member.take(names).or(taken))
    }
}

/// Whether a batch dim has this name.
pub(super) fn has_name(dict: &TensorDict, name: &str) -> bool {
    dict.shared_names().iter().flatten().any(|theirs| theirs == name)
}

fn check_device(first: &TensorDict, member: &TensorDict, at: usize) -> Result<()> {
    if first.device() == member.device() {
        return Ok(());
    }
    let named = |dict: &TensorDict| dict.device().map_or("no device".to_owned(), |device| format!("{device:?}"));
    Err(Error::device(format!(
        "devices differ: member 0 is labelled with {}, member {at} with {}",
        named(first),
        named(member)
    ))
    .remedy("move them with to(device) first"))
}

impl TensorDict {
    /// No entries; the same batch size, names and device.
    pub(super) fn blank(&self) -> TensorDict {
        match &self.body {
            Body::Dense(dense) => TensorDict::dense(dense.emptied()),
            Body::Lazy(stack) => {
                TensorDict::lazy(stack.with_members(stack.members.iter().map(TensorDict::blank).collect()))
            }
        }
    }

    /// A stack of these tensordicts along a new batch dim, each kept as it is: keys, shapes and batch
    /// sizes may differ, and entries are stacked when they are read.
    ///
    /// `dim` lies between −(batch dims + 1) and batch dims of the members; negative ones count from the
    /// end. More choices: [`LazyStackBuilder`].
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut short = TensorDict::new([3]);
    /// short.set("a", Tensor::from_slice(&[0i64, 0, 0]))?;
    /// let mut long = TensorDict::new([4]);
    /// long.set("a", Tensor::from_slice(&[1i64, 1, 1, 1]))?;
    /// let stack = TensorDict::lazy_stack([short, long], 0)?;
    /// assert_eq!(stack.batch_size(), [2, -1]);
    /// assert!(stack.get("a").unwrap_err().is_shape());
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for no members, or members whose batch dims differ in number; a
    /// [device](Error::is_device) error if their devices do; an [index](Error::is_index) error for `dim`.
    pub fn lazy_stack(members: impl IntoIterator<Item = TensorDict>, dim: i64) -> Result<TensorDict> {
        let members: Vec<_> = members.into_iter().collect();
        if members.is_empty() {
            return Err(Error::shape("items cannot be empty: nothing says what an empty stack would be")
                .remedy("use LazyStackBuilder with a batch size"));
        }
        LazyStackBuilder::new(members).stack_dim(dim).build()
    }
}

/// The place of a new dim among `dims`: `dim` from the front, or negative from the end.
pub(super) fn new_dim(dim: i64, dims: usize) -> Result<usize> {
    let dims = dims as i64;
    let at = if dim < 0 { dim.saturating_add(dims + 1) } else { dim };
    match usize::try_from(at) {
        Ok(place) if at <= dims => Ok(place),
        _ => Err(Error::index(format!("dim {dim} is out of range: a new dim lies between {} and {dims}", -dims - 1))),
    }
}
