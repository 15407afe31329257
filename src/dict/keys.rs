//! Which entries there are.

use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::Result;
use crate::key::NestedKey;

impl TensorDict {
    /// Only these entries, in this order, sharing storage. A nested key keeps that entry alone. Of a lazy
    /// stack, each member's.
    ///
    /// # Errors
    ///
    /// A [key](crate::Error::is_key) error at the first that is missing, here or in a member.
    pub fn select<K: Into<NestedKey>>(&self, keys: impl IntoIterator<Item = K>) -> Result<TensorDict> {
        let keys: Vec<NestedKey> = keys.into_iter().map(Into::into).collect();
        self.selected(&keys)
    }

    fn selected(&self, keys: &[NestedKey]) -> Result<TensorDict> {
        let dense = match &self.body {
            Body::Lazy(stack) => return stack.try_map(|member| member.selected(keys)).map(TensorDict::lazy),
            Body::Dense(dense) => dense,
        };
        // Each name with the keys below it, in the order in which names come up first.
        let mut picked: indexmap::IndexMap<&str, Vec<NestedKey>> = indexmap::IndexMap::new();
        for key in keys {
            if !self.has(key.names()) {
                return Err(self.missing(key));
            }
            if let Some((name, below)) = key.names().split_first() {
                picked.entry(name).or_default().push(NestedKey::from(below.to_vec()));
            }
        }
        let mut selected = dense.emptied();
        for (name, below) in picked {
            let entry = match dense.entries.get(name) {
                Some(Entry::Dict(dict)) if below.iter().all(|key| !key.is_empty()) => {
                    dict.selected(&below).map_err(|error| error.below(name))?.into()
                }
                Some(entry) => entry.shallow_clone(),
                None => continue,
            };
            selected.entries.insert(name.to_owned(), entry);
        }
        Ok(TensorDict::dense(selected))
    }

    /// All but these entries, sharing storage. Keys that are missing are ignored; a nested dict stays
    /// even if nothing is left in it.
    #[must_use]
    pub fn exclude<K: Into<NestedKey>>(&self, keys: impl IntoIterator<Item = K>) -> TensorDict {
        let mut rest = self.shallow_clone();
        for key in keys {
            rest.take(key.into().names());
        }
        rest
    }
}
