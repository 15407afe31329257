//! A dictionary of entries that share a batch size.

use indexmap::IndexMap;
use tch::{Device, Tensor};

use super::Entry;
use crate::error::{Error, Result};
use crate::index::{Index, Selection};
use crate::key::NestedKey;
use crate::tensor::{JaggedTensor, NonTensorStack};

/// Entries under names, in insertion order, whose leading dims are all the batch size.
///
/// Tensors in it share their storage with their clones, as torch's do; a `TensorDict` is `Send` and not
/// `Sync`, as `tch::Tensor` is.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::TensorDict;
///
/// let mut td = TensorDict::new([2]);
/// td.set("x", Tensor::from_slice(&[1.5f32, 2.5]))?;
/// td.set(["nested", "y"], Tensor::from_slice(&[3i64, 4]))?;
/// assert_eq!(td.tensor(["nested", "y"])?.size(), [2]);
/// assert!(td.set("z", Tensor::from_slice(&[1i64, 2, 3])).unwrap_err().is_shape());
///
/// let row = td.index(-1)?;
/// assert_eq!(row.batch_size(), [] as [i64; 0]);
/// assert_eq!(row.tensor("x")?.double_value(&[]), 2.5);
/// # Ok::<_, tensorquery::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct TensorDict {
    batch_size: Vec<i64>,
    device: Option<Device>,
    entries: IndexMap<String, Entry>,
}

impl TensorDict {
    /// An empty tensordict with a batch size and no device label.
    pub fn new(batch_size: impl Into<Vec<i64>>) -> Self {
        TensorDict { batch_size: batch_size.into(), device: None, entries: IndexMap::new() }
    }

    /// An empty tensordict that moves what is put in to `device`.
    pub fn on_device(batch_size: impl Into<Vec<i64>>, device: Device) -> Self {
        TensorDict { device: Some(device), ..TensorDict::new(batch_size) }
    }

    /// The leading dims that all entries share.
    pub fn batch_size(&self) -> &[i64] {
        &self.batch_size
    }

    /// The device that all tensors are on, where one was asked for.
    pub fn device(&self) -> Option<Device> {
        self.device
    }

    /// The number of entries at the root.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names at the root, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Names and entries at the root, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Names and entries at the root, in order.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (String, Entry)> {
        self.entries.into_iter()
    }

    /// Every entry at any depth that is no dict, in order.
    pub fn leaves(&self) -> Vec<(NestedKey, &Entry)> {
        let mut leaves = Vec::new();
        self.collect_leaves(&NestedKey::default(), &mut leaves);
        leaves
    }

    fn collect_leaves<'a>(&'a self, above: &NestedKey, leaves: &mut Vec<(NestedKey, &'a Entry)>) {
        for (name, entry) in &self.entries {
            let key = above.child(name);
            match entry {
                Entry::Dict(dict) => dict.collect_leaves(&key, leaves),
                _ => leaves.push((key, entry)),
            }
        }
    }

    /// The entry at `key`, if there is one.
    pub fn get(&self, key: impl Into<NestedKey>) -> Option<&Entry> {
        let key = key.into();
        let (last, above) = key.names().split_last()?;
        let parent = above.iter().try_fold(self, |dict, name| dict.entries.get(name)?.as_dict())?;
        parent.entries.get(last)
    }

    /// The entry at `key`.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error that lists the keys there are.
    pub fn entry(&self, key: impl Into<NestedKey>) -> Result<&Entry> {
        let key = key.into();
        self.get(&key).ok_or_else(|| self.missing(&key))
    }

    fn missing(&self, key: &NestedKey) -> Error {
        let keys: Vec<_> = self.keys().map(|name| format!("'{name}'")).collect();
        Error::key("there is no such entry").at(key).remedy(format!("the keys are {}", keys.join(", ")))
    }

    /// The dense tensor at `key`.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is no entry or it is of another kind.
    pub fn tensor(&self, key: impl Into<NestedKey>) -> Result<&Tensor> {
        self.typed(key.into(), "tensor", Entry::as_tensor)
    }

    /// The jagged tensor at `key`.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is no entry or it is of another kind.
    pub fn jagged(&self, key: impl Into<NestedKey>) -> Result<&JaggedTensor> {
        self.typed(key.into(), "jagged", Entry::as_jagged)
    }

    /// The non-tensor values at `key`.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is no entry or it is of another kind.
    pub fn non_tensor(&self, key: impl Into<NestedKey>) -> Result<&NonTensorStack> {
        self.typed(key.into(), "non_tensor", Entry::as_non_tensor)
    }

    /// The nested tensordict at `key`.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is no entry or it is of another kind.
    pub fn dict(&self, key: impl Into<NestedKey>) -> Result<&TensorDict> {
        self.typed(key.into(), "dict", Entry::as_dict)
    }

    fn typed<'a, T>(&'a self, key: NestedKey, kind: &str, pick: impl Fn(&'a Entry) -> Option<T>) -> Result<T> {
        let entry = self.entry(&key)?;
        pick(entry).ok_or_else(|| Error::key(format!("the entry is of kind {}, not {kind}", entry.kind())).at(key))
    }

    /// Puts an entry at `key`, making the dicts above it where they are missing. An entry that is there
    /// already is replaced and keeps its place.
    ///
    /// With a device label, the entry moves to that device. A nested tensordict with fewer batch dims
    /// takes this one's batch size.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the entry's leading dims aren't the batch size; a
    /// [key](Error::is_key) error for the empty key or one that leads through an entry that is no dict.
    /// The tensordict is then as before.
    pub fn set(&mut self, key: impl Into<NestedKey>, entry: impl Into<Entry>) -> Result<()> {
        let key = key.into();
        let entry = self.fitted(entry.into()).map_err(|error| error.at(&key))?;
        self.place(&key, key.names(), entry)
    }

    fn place(&mut self, key: &NestedKey, names: &[String], entry: Entry) -> Result<()> {
        match names {
            [] => Err(Error::key("the empty key holds no entry")),
            [name] => {
                self.entries.insert(name.clone(), entry);
                Ok(())
            }
            [name, below @ ..] => match self.entries.get_mut(name) {
                Some(Entry::Dict(dict)) => {
                    // The nested dict may have more batch dims than this one.
                    let entry = dict.fitted(entry).map_err(|error| error.at(key))?;
                    dict.place(key, below, entry)
                }
                Some(leaf) => {
                    Err(Error::key(format!("'{name}' is of kind {}, nothing can be below it", leaf.kind())).at(key))
                }
                None => {
                    let mut dict = TensorDict { device: self.device, ..TensorDict::new(self.batch_size.clone()) };
                    dict.place(key, below, entry)?;
                    self.entries.insert(name.clone(), Entry::Dict(dict));
                    Ok(())
                }
            },
        }
    }

    /// The entry with this batch size and on this device.
    fn fitted(&self, entry: Entry) -> Result<Entry> {
        let entry = match entry {
            Entry::Dict(dict) if dict.batch_size.len() < self.batch_size.len() => {
                Entry::Dict(dict.with_batch_size(&self.batch_size)?)
            }
            entry => entry,
        };
        if let Entry::Tensor(tensor) = &entry
            && !tensor.defined()
        {
            return Err(Error::shape("the tensor is undefined: it has no shape, dtype or device"));
        }
        let shape = entry.shape();
        // A ragged dim (-1) is no batch dim, so no size matches it.
        if !shape.starts_with(&self.batch_size) || self.batch_size.iter().any(|size| *size < 0) {
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

    /// The same entries under a batch size that all of them have as leading dims.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error at the first entry that hasn't.
    pub fn with_batch_size(self, batch_size: &[i64]) -> Result<Self> {
        let mut resized = TensorDict { device: self.device, ..TensorDict::new(batch_size) };
        for (name, entry) in self.entries {
            resized.set(name, entry)?;
        }
        Ok(resized)
    }

    /// Takes the entry at `key` out.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is none.
    pub fn remove(&mut self, key: impl Into<NestedKey>) -> Result<Entry> {
        let key = key.into();
        self.take(key.names()).ok_or_else(|| self.missing(&key))
    }

    fn take(&mut self, names: &[String]) -> Option<Entry> {
        match names {
            [] => None,
            [name] => self.entries.shift_remove(name),
            [name, below @ ..] => match self.entries.get_mut(name)? {
                Entry::Dict(dict) => dict.take(below),
                _ => None,
            },
        }
    }

    /// Takes out the masks at and below `mask_key` that are true throughout, and dicts left empty.
    #[cfg(feature = "datafusion")]
    pub(crate) fn drop_idle_masks(&mut self, mask_key: &NestedKey) -> Result<()> {
        fn is_idle(entry: &mut Entry) -> Result<bool> {
            match entry {
                Entry::Tensor(mask) => Ok(mask.f_all()?.f_int64_value(&[])? != 0),
                Entry::Dict(masks) => {
                    let mut idle = Vec::new();
                    for (name, entry) in &mut masks.entries {
                        if is_idle(entry)? {
                            idle.push(name.clone());
                        }
                    }
                    masks.entries.retain(|name, _| !idle.contains(name));
                    Ok(masks.is_empty())
                }
                _ => Ok(false),
            }
        }
        let Some((root, _)) = mask_key.split_first() else {
            return Ok(());
        };
        if let Some(masks) = self.entries.get_mut(root)
            && is_idle(masks)?
        {
            self.entries.shift_remove(root);
        }
        Ok(())
    }

    /// Only these entries, in this order, sharing storage. A nested key keeps that entry alone.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error at the first that is missing.
    pub fn select<K: Into<NestedKey>>(&self, keys: impl IntoIterator<Item = K>) -> Result<TensorDict> {
        let mut selected = TensorDict { device: self.device, ..TensorDict::new(self.batch_size.clone()) };
        for key in keys {
            let key = key.into();
            let entry = self.entry(&key)?.shallow_clone();
            // Dicts on the way keep their own batch size, which may have more dims than ours.
            for depth in 1..key.names().len() {
                let above = NestedKey::from(key.names()[..depth].to_vec());
                if selected.get(&above).is_none() {
                    let dict = self.dict(&above)?;
                    let empty = TensorDict { device: dict.device, ..TensorDict::new(dict.batch_size.clone()) };
                    selected.set(above, empty)?;
                }
            }
            selected.set(key, entry)?;
        }
        Ok(selected)
    }

    /// All but these entries, sharing storage. Keys that are missing are ignored; a nested dict stays
    /// even if nothing is left in it.
    pub fn exclude<K: Into<NestedKey>>(&self, keys: impl IntoIterator<Item = K>) -> TensorDict {
        let mut rest = self.shallow_clone();
        for key in keys {
            rest.take(key.into().names());
        }
        rest
    }

    /// Part of the batch along its first dim.
    ///
    /// One row drops the dim; a jagged entry's row is a dense tensor. Rows and slices share storage
    /// (of jagged entries, slices with step 1), lists and masks copy.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a row out of bounds, a mask of another length, a step of 0,
    /// or a batch without dims.
    pub fn index(&self, index: impl Into<Index>) -> Result<TensorDict> {
        let size = self.batch_size.first();
        let size = size.ok_or_else(|| Error::index("a tensordict without batch dims can't be indexed"))?;
        self.index_with(&index.into().resolve(*size)?)
    }

    pub(super) fn index_with(&self, selection: &Selection) -> Result<TensorDict> {
        let batch_size: Vec<i64> = selection.size().into_iter().chain(self.batch_size[1..].iter().copied()).collect();
        let mut indexed = TensorDict { device: self.device, ..TensorDict::new(batch_size) };
        for (name, entry) in &self.entries {
            let entry = entry.select(selection).map_err(|error| error.at(name))?;
            indexed.entries.insert(name.clone(), entry);
        }
        Ok(indexed)
    }

    /// The whole tensordict on `device`, labelled with it. Non-tensor values stay where they are.
    ///
    /// # Errors
    ///
    /// A [device](Error::is_device) error if it is not there; libtorch's own if the move fails.
    pub fn to(&self, device: Device) -> Result<TensorDict> {
        ensure_device(device)?;
        let mut moved = TensorDict::on_device(self.batch_size.clone(), device);
        for (name, entry) in &self.entries {
            moved.entries.insert(name.clone(), entry.to_device(device).map_err(|error| error.at(name))?);
        }
        Ok(moved)
    }

    /// Another tensordict with handles on the same storage.
    #[must_use]
    pub fn shallow_clone(&self) -> TensorDict {
        let entries = self.entries.iter().map(|(name, entry)| (name.clone(), entry.shallow_clone()));
        TensorDict { batch_size: self.batch_size.clone(), device: self.device, entries: entries.collect() }
    }
}

/// Fails if `device` can't be used here.
pub(crate) fn ensure_device(device: Device) -> Result<()> {
    match device {
        Device::Cpu => Ok(()),
        Device::Cuda(index) => {
            let count = usize::try_from(tch::Cuda::device_count()).unwrap_or_default();
            if index < count {
                return Ok(());
            }
            let reason = match count {
                0 => "libtorch finds no CUDA device here".to_owned(),
                count => format!("the CUDA devices here are cuda:0 to cuda:{}", count - 1),
            };
            Err(Error::device(format!("device cuda:{index} is not there: {reason}")).remedy("use device cpu"))
        }
        Device::Mps | Device::Vulkan => {
            Err(Error::device(format!("device {device:?} is not supported")).remedy("use cpu or cuda"))
        }
    }
}
