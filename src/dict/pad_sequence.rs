//! Sequences of different lengths as one padded batch, and back.

use arrow::array::new_null_array;
use arrow::datatypes::DataType;
use indexmap::IndexMap;
use tch::{Kind, Tensor};

use super::read::pad_tensors;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::index::elements;
use crate::key::NestedKey;
use crate::tensor::{NonTensorStack, Number, PaddingSide};

/// How sequences are padded to one length.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::{PadSequence, TensorDict};
///
/// let [short, long] = [2, 3].map(|length| [("a", Tensor::from_slice(&vec![7i64; length]))]);
/// let sequences = [TensorDict::from_entries(short)?, TensorDict::from_entries(long)?];
/// let padded = TensorDict::pad_sequence(&sequences, &PadSequence::default().masks("masks"))?;
/// assert_eq!(Vec::<Vec<i64>>::try_from(padded.tensor("a")?)?, [[7, 7, 0], [7, 7, 7]]);
/// assert_eq!(Vec::<Vec<bool>>::try_from(padded.tensor(["masks", "a"])?)?, [[true, true, false], [true; 3]]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PadSequence {
    pub(crate) dim: i64,
    value: Number,
    pub(crate) values: IndexMap<NestedKey, Number>,
    pub(crate) side: PaddingSide,
    pub(crate) masks: Option<NestedKey>,
}

impl Default for PadSequence {
    fn default() -> Self {
        let value = Number::Int(0);
        PadSequence { dim: 0, value, values: IndexMap::new(), side: PaddingSide::default(), masks: None }
    }
}

impl PadSequence {
    /// The dim of each entry that is padded, 0 by default; negative ones count from the entry's end.
    pub fn dim(mut self, dim: i64) -> Self {
        self.dim = dim;
        self
    }

    /// What the padding is, cast to each dtype; 0 by default.
    pub fn value(mut self, value: impl Into<Number>) -> Self {
        self.value = value.into();
        self
    }

    /// What the padding of one entry is.
    pub fn value_of(mut self, key: impl Into<NestedKey>, value: impl Into<Number>) -> Self {
        self.values.insert(key.into(), value.into());
        self
    }

    /// The side that padding goes to, the right by default.
    pub fn side(mut self, side: PaddingSide) -> Self {
        self.side = side;
        self
    }

    /// Adds boolean masks below this key, true where there is data.
    pub fn masks(mut self, key: impl Into<NestedKey>) -> Self {
        self.masks = Some(key.into());
        self
    }

    pub(crate) fn value_for(&self, key: &NestedKey) -> Number {
        self.values.get(key).copied().unwrap_or(self.value)
    }
}

impl TensorDict {
    /// The sequences along a new dim 0, each entry padded to its longest. Only the entries that all have
    /// are kept. Where the padded dim is a batch dim, values that are no tensors are padded with nulls.
    ///
    /// Masks have the shape `[sequences, batch size…, length]`, or that of the batch where the padded dim is
    /// a batch dim.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for no sequences, entries without the dim, or that differ in others; a
    /// [key](Error::is_key) error for a padding value of an entry that there isn't, or a jagged entry.
    pub fn pad_sequence(sequences: &[TensorDict], options: &PadSequence) -> Result<TensorDict> {
        let Some((first, rest)) = sequences.split_first() else {
            return Err(Error::shape("there are no sequences to pad: the list is empty"));
        };
        let shared = |key: &NestedKey| rest.iter().all(|sequence| sequence.contains_key(key));
        let keys: Vec<NestedKey> = first.leaf_keys().into_iter().filter(shared).collect();
        if let Some(unknown) = options.values.keys().find(|key| !keys.contains(key)) {
            return Err(Error::key("there is a padding value for it, but not all sequences have it").at(unknown));
        }
        let mut batch_size = padded_batch_size(sequences, options.dim)?;
        let dims = batch_size.len();
        batch_size.insert(0, sequences.len() as i64);
        let mut padded = match first.device() {
            Some(device) => TensorDict::on_device(batch_size.clone(), device),
            None => TensorDict::new(batch_size.clone()),
        };
        let mut masks = Vec::new();
        for key in keys {
            let entries = sequences.iter().map(|sequence| sequence.entry(&key)).collect::<Result<Vec<_>>>()?;
            let at = |error: Error| error.at(&key);
            let dim = entry_dim(&entries[0], options.dim).map_err(at)?;
            let lengths = lengths(&entries, dim).map_err(at)?;
            let value = options.value_for(&key);
            padded.set(&key, pad_entries(entries, dim, options.side, value).map_err(at)?)?;
            let beyond = dim >= dims && padded.entry(&key)?.as_non_tensor().is_some();
            if options.masks.is_some() && !beyond {
                let mask = mask(&lengths, options.side)?;
                let shape = if dim < dims { batch_size.clone() } else { [&batch_size[..], &mask.size()[1..]].concat() };
                masks.push((key, spread(&mask, dim.min(dims), &shape)?));
            }
        }
        if let Some(root) = &options.masks {
            for (key, mask) in masks {
                padded.set(root.join(&key), mask)?;
            }
        }
        Ok(padded)
    }

    /// The sequences that [`pad_sequence`](Self::pad_sequence) padded with the same options, as a lazy stack
    /// of views, without the masks.
    ///
    /// # Errors
    ///
    /// An [option](Error::is_option) error if the options name no masks; a [key](Error::is_key) error if a
    /// tensor has no mask; a [shape](Error::is_shape) error for a mask that doesn't fit it.
    pub fn unpad_sequence(&self, options: &PadSequence) -> Result<TensorDict> {
        let root = options.masks.as_ref().ok_or_else(|| {
            Error::option("the options say of no masks, and without them nothing tells data from padding")
                .remedy("give the key of the masks: PadSequence::default().masks(…)")
        })?;
        let padded = self.exclude([root.clone()]);
        let mut masks = Vec::new();
        for key in padded.leaf_keys() {
            let mask = match padded.entry(&key)? {
                // Values that are no tensors are padded along batch dims alone.
                Entry::NonTensor(_) if !self.contains_key(root.join(&key)) => None,
                _ => Some(self.tensor(root.join(&key))?),
            };
            masks.push((key, mask));
        }
        let sequences = padded.unbind(0)?.into_iter().zip(0..).map(|(sequence, at)| {
            let mut batch_size = sequence.batch_size();
            let mut entries = Vec::with_capacity(masks.len());
            for (key, mask) in &masks {
                let entry = sequence.entry(key)?;
                let entry = match mask {
                    Some(mask) => cut(entry, &mask.f_select(0, at)?, options.dim, &mut batch_size),
                    None => Ok(entry),
                };
                entries.push((key, entry.map_err(|error| error.at(key))?));
            }
            TensorDict::from_entries(entries)?.with_batch_size(&batch_size)
        });
        TensorDict::lazy_stack(sequences.collect::<Result<Vec<_>>>()?, 0)
    }
}

/// The batch size of a sequence once padded; sequences must agree in all other dims.
fn padded_batch_size(sequences: &[TensorDict], dim: i64) -> Result<Vec<i64>> {
    let mut padded = sequences[0].batch_size();
    for sequence in &sequences[1..] {
        let sizes = sequence.batch_size();
        let along = usize::try_from(dim).ok();
        let differ = |(at, (ours, theirs)): (usize, (&i64, &i64))| ours != theirs && Some(at) != along;
        if sizes.len() != padded.len() || padded.iter().zip(&sizes).enumerate().any(differ) {
            return Err(Error::shape(format!(
                "the batch sizes of the sequences differ in another dim than {dim}: {padded:?} and {sizes:?}"
            )));
        }
        padded.iter_mut().zip(sizes).for_each(|(ours, theirs)| *ours = theirs.max(*ours));
    }
    Ok(padded)
}

fn entry_dim(entry: &Entry, dim: i64) -> Result<usize> {
    let shape = entry.shape();
    let dims = shape.len() as i64;
    let at = if dim < 0 { dim.saturating_add(dims) } else { dim };
    match (entry, usize::try_from(at)) {
        (Entry::Jagged(_), _) => {
            Err(Error::key("a jagged entry is ragged in itself").remedy("make it dense with to_padded"))
        }
        // Values that are no tensors may have fewer dims; then nothing of them is padded.
        (Entry::NonTensor(_), Ok(at)) => Ok(at),
        (_, Ok(at)) if at < shape.len() => Ok(at),
        _ => Err(Error::shape(format!("there is no dim {dim} to pad in an entry of shape {shape:?}"))),
    }
}

/// How long each entry is along `dim`.
fn lengths(entries: &[Entry], dim: usize) -> Result<Vec<i64>> {
    let first = entries[0].shape();
    let length = |entry: &Entry| {
        let shape = entry.shape();
        let differ = |(at, (ours, theirs)): (usize, (&i64, &i64))| at != dim && ours != theirs;
        if shape.len() != first.len() || first.iter().zip(&shape).enumerate().any(differ) {
            return Err(Error::shape(format!("shapes differ in another dim than {dim}: {first:?} and {shape:?}")));
        }
        Ok(shape.get(dim).copied().unwrap_or(1))
    };
    entries.iter().map(length).collect()
}

fn pad_entries(entries: Vec<Entry>, dim: usize, side: PaddingSide, value: Number) -> Result<Entry> {
    if entries.iter().all(|entry| entry.as_tensor().is_some()) {
        let tensors: Vec<_> = entries.iter().filter_map(Entry::as_tensor).map(Tensor::shallow_clone).collect();
        return pad_tensors(&tensors, side, value).map(Entry::Tensor);
    }
    let values: Option<Vec<_>> = entries.iter().map(|entry| entry.as_non_tensor().cloned()).collect();
    let values = values.ok_or_else(|| Error::key("the sequences have entries of different kinds here"))?;
    let longest = values.iter().filter_map(|stack| stack.batch_size().get(dim).copied()).max();
    let padded = values.into_iter().map(|stack| {
        let missing = longest.unwrap_or_default() - stack.batch_size().get(dim).copied().unwrap_or_default();
        if missing == 0 {
            return Ok(stack);
        }
        let mut sizes = stack.batch_size().to_vec();
        sizes[dim] = missing;
        let nulls = NonTensorStack::new(new_null_array(&DataType::Null, 1)).row(0).broadcast(&sizes)?;
        match side {
            PaddingSide::Left => NonTensorStack::cat(&[nulls, stack], dim),
            PaddingSide::Right => NonTensorStack::cat(&[stack, nulls], dim),
        }
    });
    NonTensorStack::stack(&padded.collect::<Result<Vec<_>>>()?, 0).map(Entry::NonTensor)
}

/// `[sequences, longest]`, true where there is data.
fn mask(lengths: &[i64], side: PaddingSide) -> Result<Tensor> {
    let longest = lengths.iter().copied().max().unwrap_or_default();
    let row = |length: i64| {
        (0..longest).map(move |place| match side {
            PaddingSide::Right => place < length,
            PaddingSide::Left => place >= longest - length,
        })
    };
    let places: Vec<bool> = lengths.iter().flat_map(|length| row(*length)).collect();
    Ok(Tensor::f_from_slice(&places)?.f_view([lengths.len() as i64, longest])?)
}

/// A mask `[sequences, length]` in a shape whose dim 0 is the sequences' and whose dim `1 + dim` the length's.
fn spread(mask: &Tensor, dim: usize, shape: &[i64]) -> Result<Tensor> {
    let mut sizes = vec![1; shape.len()];
    sizes[0] = mask.size()[0];
    sizes[1 + dim] = mask.size()[1];
    Ok(mask.f_view(sizes.as_slice())?.f_expand(shape, false)?.f_contiguous()?)
}

/// The part of an entry where its mask is true, and the batch size that goes with it.
fn cut(entry: Entry, mask: &Tensor, dim: i64, batch_size: &mut [i64]) -> Result<Entry> {
    let (shape, sizes) = (entry.shape(), mask.size());
    let at = entry_dim(&entry, dim)?;
    // The mask's dims are those of the batch, and last the padded one unless it is of the batch.
    let axis = at.min(batch_size.len());
    let fits = sizes.len() == batch_size.len().max(axis + 1) && sizes.get(axis) == shape.get(at);
    if !fits || mask.f_kind()? != Kind::Bool {
        return Err(Error::shape(format!("a mask of shape {sizes:?} doesn't fit an entry of shape {shape:?}")));
    }
    let others: Vec<i64> = (0..sizes.len()).filter(|other| *other != axis).map(|other| other as i64).collect();
    let along = if others.is_empty() { mask.shallow_clone() } else { mask.f_amax(others.as_slice(), false)? };
    let places: Vec<bool> = elements(&along)?;
    let start = places.iter().position(|valid| *valid).unwrap_or_default();
    let length = places.iter().filter(|valid| **valid).count();
    if !places.iter().skip(start).take(length).all(|valid| *valid) {
        return Err(Error::shape("a mask must be true in one piece"));
    }
    if let Some(size) = batch_size.get_mut(at) {
        *size = length as i64;
    }
    let narrow = |tensor: &Tensor| Ok(tensor.f_narrow(at as i64, start as i64, length as i64)?);
    match entry {
        Entry::Tensor(tensor) => narrow(&tensor).map(Entry::Tensor),
        Entry::NonTensor(values) => values.rearrange(narrow).map(Entry::NonTensor),
        other => Ok(other),
    }
}
