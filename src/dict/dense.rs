//! A tensordict that holds its entries itself.

use indexmap::IndexMap;
use tch::{Device, Tensor};

use super::operand::ensure_shaped;
use super::tensordict::{Fitted, ensure_device};
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;

/// Entries in insertion order under a batch size.
#[derive(Debug, Default)]
pub(super) struct Dense {
    pub(super) batch_size: Vec<i64>,
    /// One per batch dim, or none at all where no dim has a name.
    pub(super) names: Vec<Option<String>>,
    pub(super) device: Option<Device>,
    pub(super) entries: IndexMap<String, Entry>,
}

impl Dense {
    /// No entries, the same batch size, names and device.
    pub(super) fn emptied(&self) -> Dense {
        Dense {
            batch_size: self.batch_size.clone(),
            names: self.names.clone(),
            device: self.device,
            entries: IndexMap::new(),
        }
    }

    /// The same batch size, names and device over entries made from these one by one. `make` may leave
    /// some out.
    pub(super) fn try_map(&self, mut make: impl FnMut(&str, &Entry) -> Result<Option<Entry>>) -> Result<Dense> {
        let mut mapped = self.emptied();
        for (name, entry) in &self.entries {
            let made = make(name, entry).map_err(|error| error.below(name))?;
            if let Some(made) = made {
                mapped.entries.insert(name.clone(), made);
            }
        }
        Ok(mapped)
    }

    /// The entry as it would lie at `names`, which are not empty. Nothing is changed.
    pub(super) fn fit(&self, names: &[String], entry: Entry) -> Result<Fitted> {
        let entry = self.fitted(entry)?;
        match names {
            [] => Err(Error::key("the empty key holds no entry")),
            [_] => Ok(Fitted::Whole(entry)),
            [name, below @ ..] => match self.entries.get(name) {
                // The nested dict may have more batch dims than this one.
                Some(Entry::Dict(dict)) => dict.fit(below, entry),
                Some(leaf) => Err(Error::key(format!("'{name}' is of kind {}, nothing can be below it", leaf.kind()))),
                None => Ok(Fitted::Whole(entry)),
            },
        }
    }

    /// Puts in what [`fit`](Self::fit) gave, making the dicts that are missing on the way.
    pub(super) fn put(&mut self, names: &[String], fitted: Fitted) {
        match (names, fitted) {
            ([name], Fitted::Whole(entry)) => {
                self.entries.insert(name.clone(), entry);
            }
            ([name, below @ ..], fitted) => {
                let emptied = self.emptied();
                let entry = self.entries.entry(name.clone()).or_insert_with(|| TensorDict::dense(emptied).into());
                if let Entry::Dict(dict) = entry {
                    dict.put(below, fitted);
                }
            }
            ([], _) => {}
        }
    }

    /// The entry with this batch size and on this device.
    fn fitted(&self, entry: Entry) -> Result<Entry> {
        let entry = match entry {
            Entry::Dict(dict) if dict.batch_dims() < self.batch_size.len() => {
                Entry::Dict(dict.shallow_clone().with_batch_size(&self.batch_size)?)
            }
            Entry::NonTensor(values) if values.batch_size().is_empty() && !self.batch_size.is_empty() => {
                Entry::NonTensor(values.broadcast(&self.batch_size)?)
            }
            entry => entry,
        };
        if let Entry::Tensor(tensor) = &entry {
            ensure_shaped(tensor)?;
        }
        let shape = entry.shape();
        // A ragged dim (-1) is no batch dim, so no size matches it.
        if !shape.starts_with(&self.batch_size) || self.batch_size.iter().any(|size| *size < 0) {
            if entry.as_dict().is_some() {
                return Err(Error::shape(format!(
                    "batch dimension mismatch: the nested tensordict's {shape:?} is incompatible with the batch-size {:?}",
                    self.batch_size
                )));
            }
            return Err(Error::shape(format!(
                "batch dimension mismatch: the entry has shape {shape:?}, the batch size is {:?}",
                self.batch_size
            )));
        }
        match self.device {
            Some(device) => {
                ensure_device(device)?;
                entry.to_device(device)
            }
            None => Ok(entry),
        }
    }

    pub(super) fn take(&mut self, names: &[String]) -> Option<Entry> {
        match names {
            [] => None,
            [name] => self.entries.shift_remove(name),
            [name, below @ ..] => match self.entries.get_mut(name)? {
                Entry::Dict(dict) => dict.take(below),
                _ => None,
            },
        }
    }

    pub(super) fn collect_leaf_keys(&self, above: &NestedKey, keys: &mut Vec<NestedKey>) {
        for (name, entry) in &self.entries {
            let key = above.child(name);
            match entry {
                Entry::Dict(dict) => dict.collect_leaf_keys(&key, keys),
                _ => keys.push(key),
            }
        }
    }
}

/// The dims of a tensor beyond those of the batch. It had them when it was set, but another handle may have resized it.
pub(super) fn dims_beyond(tensor: &Tensor, batch_size: &[i64]) -> Result<Vec<i64>> {
    let shape = tensor.size();
    match shape.strip_prefix(batch_size) {
        Some(beyond) => Ok(beyond.to_vec()),
        None => Err(Error::shape(format!("its shape is {shape:?}, but the batch size is {batch_size:?}"))
            .remedy("set it anew: another handle on the tensor resized it")),
    }
}
