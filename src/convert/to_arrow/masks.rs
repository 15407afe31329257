//! Masks → the validity of columns.

use arrow::buffer::NullBuffer;
use tch::{Kind, Tensor};

use super::share;
use crate::dict::{Entry, TensorDict};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::options::CopyPolicy;

/// The mask of one entry, or the masks below it, if there are any.
pub(super) struct Mask {
    /// Where it is, the masks' own key first.
    key: NestedKey,
    entry: Option<Entry>,
}

/// The masks of a dict's entries.
pub(super) struct FieldMasks {
    key: NestedKey,
    masks: Vec<(String, Entry)>,
}

impl Mask {
    /// The validity of a column's rows; `None` if nothing is said of it.
    pub(super) fn validity(self, rows: usize) -> Result<Option<NullBuffer>> {
        match self.entry {
            None => Ok(None),
            Some(Entry::Tensor(mask)) => validity(mask, rows).map(Some).map_err(|error| error.at(&self.key)),
            Some(Entry::Dict(masks)) => {
                let masks = FieldMasks { key: self.key, masks: masks.into_entries().collect() };
                masks.finish().map(|()| None)
            }
            Some(entry) => Err(no_mask(&entry).at(&self.key)),
        }
    }

    /// The validity of a struct's own rows, and the masks of its fields.
    pub(super) fn into_fields(self, rows: usize) -> Result<(Option<NullBuffer>, FieldMasks)> {
        match self.entry {
            Some(Entry::Dict(masks)) => Ok((None, FieldMasks { key: self.key, masks: masks.into_entries().collect() })),
            _ => Ok((self.validity(rows)?, FieldMasks::none())),
        }
    }
}

impl FieldMasks {
    pub(super) fn none() -> Self {
        FieldMasks { key: NestedKey::default(), masks: Vec::new() }
    }

    /// Takes the masks out of a tensordict, and the dicts above them in which nothing else is. There may be none:
    /// a conversion in which no null was leaves none.
    pub(super) fn take(dict: &mut TensorDict, key: &NestedKey) -> Result<Self> {
        if key.is_empty() {
            return Err(Error::option("mask_key has no names").remedy("it takes one name or more"));
        }
        if !dict.contains_key(key) {
            return Ok(FieldMasks::none());
        }
        let masks = match dict.remove(key)? {
            Entry::Dict(masks) => masks.into_entries().collect(),
            entry => {
                return Err(Error::key(format!(
                    "masks are a dict of boolean tensors, this is of kind {}",
                    entry.kind()
                ))
                .at(key)
                .remedy("name the dict that has a mask for each column in mask_key, or leave mask_key out"));
            }
        };
        for depth in (1..key.names().len()).rev() {
            let above = NestedKey::from(key.names()[..depth].to_vec());
            if !dict.dict(&above)?.is_empty() {
                break;
            }
            dict.remove(above)?;
        }
        Ok(FieldMasks { key: key.clone(), masks })
    }

    /// Takes the mask of the entry called `name`.
    pub(super) fn of(&mut self, name: &str) -> Mask {
        let at = self.masks.iter().position(|(masked, _)| masked == name);
        Mask { key: self.key.child(name), entry: at.map(|at| self.masks.swap_remove(at).1) }
    }

    /// All masks were taken.
    pub(super) fn finish(mut self) -> Result<()> {
        let Some((name, entry)) = self.masks.pop() else {
            return Ok(());
        };
        let key = self.key.child(name);
        match entry {
            // The masks in it have no column either.
            Entry::Dict(masks) if !masks.is_empty() => {
                FieldMasks { key, masks: masks.into_entries().collect() }.finish()
            }
            _ => Err(Error::key("there is no column that this would be the mask of")
                .at(key)
                .remedy("remove it, or the mask_key under which it is")),
        }
    }
}

fn validity(mask: Tensor, rows: usize) -> Result<NullBuffer> {
    let shape = mask.size();
    if mask.f_kind().ok() != Some(Kind::Bool) || shape.len() != 1 || usize::try_from(shape[0]).ok() != Some(rows) {
        let dtype = mask.f_kind().map_or_else(|_| "of no known dtype".to_owned(), |kind| DType::from(kind).to_string());
        return Err(Error::shape(format!("a mask is bool[{rows}], this is {dtype}{shape:?}"))
            .remedy("operations on all leaves reach masks too: exclude them before"));
    }
    // Packed bits are made, not copied from a column, so no copy policy forbids them.
    share::bits(mask, CopyPolicy::Auto).map(NullBuffer::new)
}

fn no_mask(entry: &Entry) -> Error {
    Error::key(format!("masks are boolean tensors, this is of kind {}", entry.kind()))
}
