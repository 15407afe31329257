//! Taking entries out and putting them in by key.

use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;

impl TensorDict {
    /// As [`remove`](Self::remove), but gives `default` if there is no entry, and takes nothing out then.
    ///
    /// # Errors
    ///
    /// As [`remove`](Self::remove) for an entry that is there.
    pub fn remove_or(&mut self, key: impl Into<NestedKey>, default: impl Into<Entry>) -> Result<Entry> {
        let key = key.into();
        if self.has(key.names()) { self.remove(key) } else { Ok(default.into()) }
    }

    /// Takes an entry out without reading it; of a lazy stack, out of every member that has it.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if it is nowhere; a [lock](Error::is_lock) error.
    pub fn delete(&mut self, key: impl Into<NestedKey>) -> Result<()> {
        let key = key.into();
        self.ensure_path_unlocked(key.names()).map_err(|error| error.at(&key))?;
        if !self.has_in_any(key.names()) {
            return Err(self.missing(&key));
        }
        self.take(key.names());
        Ok(())
    }

    /// Takes out the last entry; of a lazy stack, the last that every member has.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is none; otherwise as [`remove`](Self::remove).
    pub fn pop_item(&mut self) -> Result<(String, Entry)> {
        let name = self.keys().last().ok_or_else(|| Error::key("there is no entry to take out"))?;
        let entry = self.remove(name.as_str())?;
        Ok((name, entry))
    }

    /// The entry at `key`; if there is none, `default`, which is [`set`](Self::set) first.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`set`](Self::set).
    pub fn setdefault(&mut self, key: impl Into<NestedKey>, default: impl Into<Entry>) -> Result<Entry> {
        let key = key.into();
        if let Some(entry) = self.get(&key)? {
            return Ok(entry);
        }
        self.set(&key, default)?;
        self.entry(&key)
    }

    /// Takes all entries out, of a lazy stack out of every member; the batch size stays.
    ///
    /// # Errors
    ///
    /// A [lock](Error::is_lock) error if it or a member is locked; nothing is taken out then.
    pub fn clear(&mut self) -> Result<()> {
        self.ensure_members_unlocked()?;
        self.take_all();
        Ok(())
    }

    fn ensure_members_unlocked(&self) -> Result<()> {
        self.ensure_unlocked()?;
        self.members().iter().try_for_each(TensorDict::ensure_members_unlocked)
    }

    fn take_all(&mut self) {
        match &mut self.body {
            Body::Dense(dense) => dense.entries.clear(),
            Body::Lazy(stack) => stack.members.iter_mut().for_each(TensorDict::take_all),
        }
    }

    /// Puts an empty dict at `key`, with the batch size, names and device of the dict that it is in. An
    /// entry that is there is replaced.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn create_nested(&mut self, key: impl Into<NestedKey>) -> Result<()> {
        let key = key.into();
        let above = key.names().split_last().map(|(_, above)| above).unwrap_or_default();
        let nested = match self.find(above)? {
            Some(Entry::Dict(dict)) => dict.blank(),
            _ => self.blank(),
        };
        self.set(&key, nested)
    }
}
