//! Which entries there are.

use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::tensor::NonTensorStack;

impl TensorDict {
    /// Only these entries, in this order, sharing storage. A nested key keeps that entry alone. Of a lazy
    /// stack, each member's.
    ///
    /// # Errors
    ///
    /// A [key](crate::Error::is_key) error at the first that is missing, here or in a member.
    pub fn select<K: Into<NestedKey>>(&self, keys: impl IntoIterator<Item = K>) -> Result<TensorDict> {
        let keys: Vec<NestedKey> = keys.into_iter().map(Into::into).collect();
        self.ensure_has(&keys)?;
        Ok(self.selected(&keys))
    }

    /// As [`select`](Self::select), without the keys that are missing: each member of a lazy stack keeps
    /// those that it has.
    #[must_use]
    pub fn select_existing<K: Into<NestedKey>>(&self, keys: impl IntoIterator<Item = K>) -> TensorDict {
        self.selected(&keys.into_iter().map(Into::into).collect::<Vec<_>>())
    }

    /// Fails at the first key that this tensordict or a member lacks.
    fn ensure_has(&self, keys: &[NestedKey]) -> Result<()> {
        if let Body::Lazy(stack) = &self.body {
            return stack.members.iter().try_for_each(|member| member.ensure_has(keys));
        }
        keys.iter().find(|key| !self.has(key.names())).map_or(Ok(()), |key| Err(self.missing(key)))
    }

    fn selected(&self, keys: &[NestedKey]) -> TensorDict {
        let dense = match &self.body {
            Body::Lazy(stack) => {
                let members = stack.members.iter().map(|member| member.selected(keys)).collect();
                return TensorDict::lazy(stack.with_members(members));
            }
            Body::Dense(dense) => dense,
        };
        // Each name with the keys below it, in the order in which names come up first.
        let mut picked: indexmap::IndexMap<&str, Vec<NestedKey>> = indexmap::IndexMap::new();
        for key in keys {
            if let Some((name, below)) = key.names().split_first()
                && self.has_in_any(key.names())
            {
                picked.entry(name).or_default().push(NestedKey::from(below.to_vec()));
            }
        }
        let mut selected = dense.emptied();
        for (name, below) in picked {
            let entry = match dense.entries.get(name) {
                Some(Entry::Dict(dict)) if below.iter().all(|key| !key.is_empty()) => dict.selected(&below).into(),
                Some(entry) => entry.shallow_clone(),
                None => continue,
            };
            selected.entries.insert(name.to_owned(), entry);
        }
        TensorDict::dense(selected)
    }

    /// Whether there is an entry at `names`, in a lazy stack in any member.
    pub(super) fn has_in_any(&self, names: &[String]) -> bool {
        match (&self.body, names) {
            (Body::Lazy(stack), names) => stack.members.iter().any(|member| member.has_in_any(names)),
            (Body::Dense(dense), [name, below @ ..]) if !below.is_empty() => match dense.entries.get(name) {
                Some(Entry::Dict(dict)) => dict.has_in_any(below),
                _ => false,
            },
            (Body::Dense(_), names) => self.has(names),
        }
    }

    /// All but these entries, sharing storage. Keys that are missing are ignored; a nested dict stays
    /// even if nothing is left in it.
    #[must_use]
    pub fn exclude<K: Into<NestedKey>>(&self, keys: impl IntoIterator<Item = K>) -> TensorDict {
        let mut rest = self.shallow_clone();
        let mut roots = indexmap::IndexSet::new();
        for key in keys.into_iter().map(Into::into) {
            match key.names() {
                [name] => {
                    roots.insert(name.clone());
                }
                names => {
                    rest.take(names);
                }
            }
        }
        // All at once: to take one out moves those behind it.
        rest.take_roots(&roots);
        rest
    }

    fn take_roots(&mut self, names: &indexmap::IndexSet<String>) {
        match &mut self.body {
            Body::Dense(dense) => dense.entries.retain(|name, _| !names.contains(name)),
            Body::Lazy(stack) => stack.members.iter_mut().for_each(|member| member.take_roots(names)),
        }
    }

    /// One tensordict for each set of keys, and last one with the rest; storage is shared.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([1]);
    /// for name in ["a", "b", "c"] {
    ///     td.set(name, Tensor::from_slice(&[0i64]))?;
    /// }
    /// let split = td.split_keys([vec!["b"], vec!["a"]])?;
    /// let keys: Vec<Vec<String>> = split.iter().map(|td| td.keys().collect()).collect();
    /// assert_eq!(keys, [["b"], ["a"], ["c"]]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error for a key that is missing, here or in a member, or is in two sets, itself
    /// or as a part of another.
    pub fn split_keys<K, S>(&self, sets: impl IntoIterator<Item = S>) -> Result<Vec<TensorDict>>
    where
        K: Into<NestedKey>,
        S: IntoIterator<Item = K>,
    {
        let mut taken: Vec<NestedKey> = Vec::new();
        let mut split = Vec::new();
        for set in sets {
            let set: Vec<NestedKey> = set.into_iter().map(Into::into).collect();
            if let Some(key) = set.iter().find(|key| taken.iter().any(|t| key.starts_with(t) || t.starts_with(key))) {
                return Err(Error::key("the entry, or a part of it, is already in another set").at(key));
            }
            split.push(self.select(&set)?);
            taken.extend(set);
        }
        split.push(self.exclude(&taken));
        Ok(split)
    }

    /// The keys of every entry at any depth, dicts included: what is in a dict comes before the dict. Of a
    /// lazy stack, those that every member has.
    pub fn nested_keys(&self) -> Vec<NestedKey> {
        let mut keys = Vec::new();
        self.collect_nested_keys(&NestedKey::default(), &mut keys);
        keys
    }

    fn collect_nested_keys(&self, above: &NestedKey, keys: &mut Vec<NestedKey>) {
        match &self.body {
            Body::Dense(dense) => {
                for (name, entry) in &dense.entries {
                    let key = above.child(name);
                    if let Entry::Dict(dict) = entry {
                        dict.collect_nested_keys(&key, keys);
                    }
                    keys.push(key);
                }
            }
            Body::Lazy(stack) => {
                let Some((first, rest)) = stack.members.split_first() else { return };
                let shared = first.nested_keys().into_iter().filter(|key| rest.iter().all(|m| m.has(key.names())));
                keys.extend(shared.map(|key| above.join(&key)));
            }
        }
    }

    /// The names at the root in alphabetical order.
    pub fn sorted_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.keys().collect();
        keys.sort_unstable();
        keys
    }

    /// The entries that are no tensors, in order: those at the root, or at any depth. Of a lazy stack, those
    /// that every member has, stacked; see [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// A [schema](Error::is_schema) error for members' values of different types; a [shape](Error::is_shape) error for
    /// batches that differ in their number of dims.
    pub fn non_tensor_items(&self, include_nested: bool) -> Result<Vec<(NestedKey, NonTensorStack)>> {
        let mut items = Vec::new();
        for key in self.leaf_keys() {
            if (include_nested || key.names().len() == 1)
                && self.is_non_tensor(key.names())
                && let Entry::NonTensor(values) = self.entry(&key)?
            {
                items.push((key, values));
            }
        }
        Ok(items)
    }

    /// Whether non-tensor values are at `names`, in a lazy stack in every member. Nothing is stacked.
    fn is_non_tensor(&self, names: &[String]) -> bool {
        match (&self.body, names) {
            (Body::Lazy(stack), names) => stack.members.iter().all(|member| member.is_non_tensor(names)),
            (Body::Dense(dense), [name, below @ ..]) => match dense.entries.get(name) {
                Some(Entry::Dict(dict)) => dict.is_non_tensor(below),
                Some(Entry::NonTensor(_)) => below.is_empty(),
                _ => false,
            },
            (Body::Dense(_), []) => false,
        }
    }

    /// The tensordict without non-tensor values, at any depth and in every member of a lazy stack.
    #[must_use]
    pub fn filter_non_tensor(&self) -> TensorDict {
        self.filtered(&|entry| !matches!(entry, Entry::NonTensor(_)))
    }

    /// The tensordict without dicts that hold no leaf, at any depth and in every member of a lazy stack.
    #[must_use]
    pub fn filter_empty(&self) -> TensorDict {
        self.filtered(&|entry| !matches!(entry, Entry::Dict(dict) if dict.holds_no_leaf()))
    }

    /// Whether there is no leaf, in a lazy stack in no member.
    fn holds_no_leaf(&self) -> bool {
        match &self.body {
            Body::Lazy(stack) => stack.members.iter().all(TensorDict::holds_no_leaf),
            Body::Dense(dense) => dense.entries.values().all(|entry| match entry {
                Entry::Dict(dict) => dict.holds_no_leaf(),
                _ => false,
            }),
        }
    }

    fn filtered(&self, keep: &dyn Fn(&Entry) -> bool) -> TensorDict {
        match &self.body {
            Body::Lazy(stack) => {
                let members = stack.members.iter().map(|member| member.filtered(keep)).collect();
                TensorDict::lazy(stack.with_members(members))
            }
            Body::Dense(dense) => {
                let mut filtered = dense.emptied();
                for (name, entry) in dense.entries.iter().filter(|(_, entry)| keep(entry)) {
                    let entry = match entry {
                        Entry::Dict(dict) => dict.filtered(keep).into(),
                        leaf => leaf.shallow_clone(),
                    };
                    filtered.entries.insert(name.clone(), entry);
                }
                TensorDict::dense(filtered)
            }
        }
    }
}
