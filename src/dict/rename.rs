//! Entries under other keys.

use indexmap::IndexSet;

use super::tensordict::{Body, Fitted};
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;

impl TensorDict {
    /// Puts the entry at `old` at `new`, where it comes last. With `safe`, an entry at `new` is an error; without,
    /// it is replaced. Of a lazy stack, in every member.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is no entry at `old`, in some member of a lazy stack; if `new` is
    /// below `old` or a leaf; with `safe`, if there is an entry at `new`. A [shape](Error::is_shape) error if
    /// the entry doesn't fit there; a [lock](Error::is_lock) error. The tensordict is then as before.
    pub fn rename_key(&mut self, old: impl Into<NestedKey>, new: impl Into<NestedKey>, safe: bool) -> Result<()> {
        let (old, new) = (old.into(), new.into());
        self.ensure_path_unlocked(old.names()).map_err(|error| error.at(&old))?;
        if old == new {
            return if self.has(old.names()) { Ok(()) } else { Err(self.missing(&old)) };
        }
        if new.starts_with(&old) {
            return Err(Error::key(format!("the entry can't be put below itself, at {new}")).at(&old));
        }
        let fitted = self.fit_renamed(old.names(), new.names(), safe)?;
        self.put_renamed(old.names(), new.names(), fitted);
        Ok(())
    }

    /// The entry at `old` as it would lie at `new`; nothing is changed.
    fn fit_renamed(&self, old: &[String], new: &[String], safe: bool) -> Result<Fitted> {
        if let Body::Lazy(stack) = &self.body {
            let fitted = stack.members.iter().map(|member| member.fit_renamed(old, new, safe));
            return fitted.collect::<Result<_>>().map(Fitted::Pieces);
        }
        // Within a nested dict it is the dict's own matter: it may be a lazy stack whose entries differ.
        if let Some((name, old, new)) = shared_name(old, new)
            && let Some(Entry::Dict(dict)) = self.find(std::slice::from_ref(name))?
        {
            return dict.fit_renamed(old, new, safe).map_err(|error| error.below(name));
        }
        let entry = self.find(old)?.ok_or_else(|| self.missing(&NestedKey::from(old.to_vec())))?;
        if safe && self.has_in_any(new) {
            return Err(Error::key("there is an entry at this key already")
                .at(NestedKey::from(new.to_vec()))
                .remedy("without safe it is replaced"));
        }
        self.fit(new, entry).map_err(|error| error.at(NestedKey::from(new.to_vec())))
    }

    fn put_renamed(&mut self, old: &[String], new: &[String], fitted: Fitted) {
        match (&mut self.body, fitted) {
            (Body::Lazy(stack), Fitted::Pieces(pieces)) => {
                for (member, piece) in stack.members.iter_mut().zip(pieces) {
                    member.put_renamed(old, new, piece);
                }
            }
            (Body::Lazy(_), Fitted::Whole(_)) => {}
            (Body::Dense(dense), fitted) => {
                if let Some((name, old, new)) = shared_name(old, new)
                    && let Some(Entry::Dict(dict)) = dense.entries.get_mut(name)
                {
                    return dict.put_renamed(old, new, fitted);
                }
                dense.take(old);
                if let [name] = new {
                    dense.entries.shift_remove(name);
                }
                dense.put(new, fitted);
            }
        }
    }

    /// All leaves at the root, under their names joined by `separator`. Dicts without leaves are left out.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([1]);
    /// td.set(["a", "b"], Tensor::from_slice(&[0i64]))?;
    /// let flat = td.flatten_keys(".")?;
    /// assert!(flat.contains_key("a.b"));
    /// assert!(flat.unflatten_keys(".")?.contains_key(["a", "b"]));
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error for two leaves of one name, and for a lazy stack whose members have
    /// different keys; entries of a nested lazy stack that can't be stacked, see [`get`](Self::get).
    pub fn flatten_keys(&self, separator: &str) -> Result<TensorDict> {
        self.ensure_members_share_keys()?;
        self.flattened(separator)
    }

    fn flattened(&self, separator: &str) -> Result<TensorDict> {
        let dense = match &self.body {
            Body::Lazy(stack) => return stack.try_map(|member| member.flattened(separator)).map(TensorDict::lazy),
            Body::Dense(dense) => dense,
        };
        let mut flat = dense.emptied();
        for key in self.leaf_keys() {
            let name = key.names().join(separator);
            if flat.entries.contains_key(&name) {
                return Err(Error::key(format!("two entries would have the flattened key '{name}'"))
                    .at(&key)
                    .remedy("use another separator"));
            }
            let entry = self.entry(&key)?;
            flat.entries.insert(name, entry);
        }
        Ok(TensorDict::dense(flat))
    }

    /// Entries at the root whose names contain `separator` as leaves of nested dicts, which come after the
    /// other entries. Names between separators may be empty.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error for an entry whose place is taken, and for a lazy stack whose members
    /// have different keys; an [option](Error::is_option) error for an empty separator.
    pub fn unflatten_keys(&self, separator: &str) -> Result<TensorDict> {
        if separator.is_empty() {
            return Err(Error::option("the separator is empty; it takes at least one character"));
        }
        self.ensure_members_share_keys()?;
        self.unflattened(separator)
    }

    fn unflattened(&self, separator: &str) -> Result<TensorDict> {
        let dense = match &self.body {
            Body::Lazy(stack) => return stack.try_map(|member| member.unflattened(separator)).map(TensorDict::lazy),
            Body::Dense(dense) => dense,
        };
        let (flat, whole): (Vec<_>, Vec<_>) = dense.entries.iter().partition(|(name, _)| name.contains(separator));
        let mut nested = dense.emptied();
        nested.entries.extend(whole.into_iter().map(|(name, entry)| (name.clone(), entry.shallow_clone())));
        let mut nested = TensorDict::dense(nested);
        for (name, entry) in flat {
            let key = NestedKey::from(name.split(separator).map(str::to_owned).collect::<Vec<_>>());
            if nested.has_in_any(key.names()) {
                return Err(Error::key(format!("there is an entry at the unflattened key {key} already")).at(name));
            }
            nested.set(key, entry.shallow_clone())?;
        }
        Ok(nested)
    }

    /// Fails if members of a lazy stack, at any depth, have different keys.
    fn ensure_members_share_keys(&self) -> Result<()> {
        match &self.body {
            Body::Dense(dense) => dense.entries.iter().try_for_each(|(name, entry)| match entry {
                Entry::Dict(dict) => dict.ensure_members_share_keys().map_err(|error| error.below(name)),
                _ => Ok(()),
            }),
            Body::Lazy(stack) => {
                stack.members.iter().try_for_each(TensorDict::ensure_members_share_keys)?;
                let shared: IndexSet<NestedKey> = self.nested_keys().into_iter().collect();
                let mut keys = stack.members.iter().flat_map(TensorDict::nested_keys);
                match keys.find(|key| !shared.contains(key)) {
                    None => Ok(()),
                    Some(key) => Err(Error::key("some members of the lazy stack have this entry, others don't")
                        .at(key)
                        .remedy("select the keys that all have")),
                }
            }
        }
    }
}

/// The first name, if both keys lie below it, and the rest of both.
fn shared_name<'a>(old: &'a [String], new: &'a [String]) -> Option<(&'a String, &'a [String], &'a [String])> {
    match (old, new) {
        ([name, old @ ..], [other, new @ ..]) if name == other && !old.is_empty() && !new.is_empty() => {
            Some((name, old, new))
        }
        _ => None,
    }
}
