//! What becomes of rows of different lengths in a batch.

use tch::Tensor;

use crate::dict::{Entry, PadSequence, TensorDict};
use crate::error::{Error, Result};

/// What becomes of rows of different lengths in a batch.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Collate {
    /// They stay jagged tensors: values, and offsets that say where rows begin.
    #[default]
    Jagged,
    /// They become dense, `[rows, longest, …]`, padded on a side with a value; a mask `bool[rows, longest]` of each, if
    /// the padding names a key for them, is true where there is data. Without rows, the longest is 0.
    ///
    /// ```
    /// use tensorquery::{Collate, PadSequence, PaddingSide};
    ///
    /// let padding = PadSequence::default().value(-1).side(PaddingSide::Left).masks("is_data");
    /// let collate = Collate::Padded(padding);
    /// # assert!(matches!(collate, Collate::Padded(_)));
    /// ```
    Padded(PadSequence),
    /// The batch is a [lazy stack](TensorDict::lazy_stack) of its rows, each with its own length.
    LazyStack,
}

/// What padding has cost, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waste {
    /// Those that are padding.
    pub(super) padding: u64,
    /// All in the padded tensors.
    pub(super) padded: u64,
    /// Bytes of the padded tensors and masks.
    pub(super) bytes: u64,
}

impl Collate {
    /// Refuses what no batch can be made by.
    pub(super) fn ensure_valid(&self) -> Result<()> {
        match self {
            Collate::Padded(padding) if padding.dim != 0 => {
                let message = format!("rows of a batch differ along their dim 0, not {}", padding.dim);
                Err(Error::option(message).remedy("leave out `PadSequence::dim`"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn apply(&self, dict: TensorDict) -> Result<(TensorDict, Waste)> {
        match self {
            Collate::Jagged => Ok((dict, Waste::default())),
            Collate::Padded(padding) => pad(dict, padding),
            Collate::LazyStack => Ok((dict.to_lazy_stack(0)?, Waste::default())),
        }
    }
}

fn pad(mut dict: TensorDict, padding: &PadSequence) -> Result<(TensorDict, Waste)> {
    let mut waste = Waste::default();
    let leaves = dict.leaves()?;
    if let Some(unknown) = padding.values.keys().find(|key| !leaves.iter().any(|(leaf, _)| leaf == *key)) {
        return Err(Error::key("there is a padding value for it, but it is no column of the batch").at(unknown));
    }
    for (key, entry) in leaves {
        let Entry::Jagged(rows) = entry else { continue };
        let padded = rows.to_padded(padding.side, padding.value_for(&key), None);
        let padded = padded.map_err(|error| error.at(&key))?;
        waste.padded += padded.numel() as u64;
        waste.padding += padded.numel().saturating_sub(rows.values().numel()) as u64;
        waste.bytes += bytes(&padded)?;
        dict.set(&key, padded)?;
        if let Some(root) = &padding.masks {
            let place = root.join(&key);
            if dict.contains_key(&place) {
                let message = "there is something already where the padding's mask would go";
                return Err(Error::key(message).at(place).remedy("give the padding's masks another key"));
            }
            let mask = rows.mask(padding.side, None)?;
            waste.bytes += bytes(&mask)?;
            dict.set(&place, mask)?;
        }
    }
    Ok((dict, waste))
}

pub(super) fn bytes(tensor: &Tensor) -> Result<u64> {
    Ok(tensor.numel() as u64 * tensor.f_kind()?.elt_size_in_bytes() as u64)
}
