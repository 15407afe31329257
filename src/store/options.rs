//! What the caller asks.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::key::NestedKey;

/// How a tensordict is saved.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SaveOptions {
    pub(super) overwrite: bool,
}

impl SaveOptions {
    /// Whether a saved tensordict that is there already is replaced; by default that is an error. Something else that
    /// has the name is never replaced: a directory that is neither empty nor holds a `meta.json`, a symbolic link.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }
}

/// What is loaded of a saved tensordict.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct LoadOptions {
    keys: Option<Vec<NestedKey>>,
    rows: Option<Range<i64>>,
}

impl LoadOptions {
    /// Only these entries, or nested tensordicts with all that is in them. No file of another one is opened.
    pub fn keys<K: Into<NestedKey>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys = Some(keys.into_iter().map(Into::into).collect());
        self
    }

    /// Only these rows, which are numbers along the first batch dim. `0..0` gives keys, kinds, dtypes and shapes, and
    /// touches no values.
    pub fn rows(mut self, rows: Range<i64>) -> Self {
        self.rows = Some(rows);
        self
    }

    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted(self.keys.as_ref().map(|keys| keys.iter().map(NestedKey::names).enumerate().collect()))
    }

    /// The rows that are asked for, of this batch size.
    pub(super) fn part(&self, batch_size: &[i64]) -> Result<Option<(i64, i64)>> {
        let Some(Range { start, end }) = self.rows.clone() else { return Ok(None) };
        let Some(rows) = batch_size.first() else {
            return Err(Error::index("the tensordict has no batch dim, so no rows to choose"));
        };
        if start < 0 || start > end || end > *rows {
            return Err(Error::index(format!("rows {start}..{end} are out of bounds for {rows}")));
        }
        Ok(Some((start, end)))
    }

    /// Which of the keys asked for are found, none yet.
    pub(super) fn unseen(&self) -> Vec<bool> {
        vec![false; self.keys.as_ref().map_or(0, Vec::len)]
    }

    /// Fails for the first key that was asked for and not found.
    pub(super) fn ensure_seen(&self, seen: &[bool]) -> Result<()> {
        let missing = self.keys.iter().flatten().zip(seen).find(|(_, seen)| !**seen);
        match missing {
            None => Ok(()),
            Some((key, _)) => Err(Error::key("there is no such entry among those saved").at(key)),
        }
    }
}

/// The keys that are asked for from here on, by their number; all if `None`.
#[derive(Clone)]
pub(super) struct Wanted<'a>(Option<Vec<(usize, &'a [String])>>);

impl<'a> Wanted<'a> {
    /// What is asked for of the entry of this name, if it is. Notes the keys that end here.
    pub(super) fn below(&self, name: &str, seen: &mut [bool]) -> Option<Wanted<'a>> {
        let Some(keys) = &self.0 else { return Some(Wanted(None)) };
        let mut whole = false;
        let mut below = Vec::new();
        for (number, names) in keys {
            match names.split_first() {
                Some((first, [])) if first == name => {
                    whole = true;
                    seen[*number] = true;
                }
                Some((first, rest)) if first == name => below.push((*number, rest)),
                _ => {}
            }
        }
        if whole {
            // Keys within it are there if it has them, which nobody needs to know.
            below.iter().for_each(|(number, _)| seen[*number] = true);
            return Some(Wanted(None));
        }
        (!below.is_empty()).then_some(Wanted(Some(below)))
    }

    pub(super) fn is_all(&self) -> bool {
        self.0.is_none()
    }
}
