//! A dictionary of entries that share a batch size, held itself or stacked from members.

use indexmap::IndexMap;
use tch::Device;

use super::Entry;
use super::dense::Dense;
use super::lazy::LazyStack;
use super::lock::Lock;
use crate::error::{Error, Result};
use crate::key::NestedKey;

/// Entries under names, in insertion order, whose leading dims are all the batch size.
///
/// It is either dense, which means that it holds its entries itself, or a
/// [lazy stack](TensorDict::lazy_stack) of other tensordicts, whose entries are stacked when they are
/// read. All methods work on both.
///
/// Tensors in it share their storage with their clones, as torch's do: what [`get`](Self::get) and its
/// kin return are handles. A `TensorDict` is `Send` and not `Sync`, as `tch::Tensor` is.
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
    pub(super) body: Body,
    pub(super) lock: Lock,
}

/// The two kinds of tensordicts.
#[derive(Debug)]
pub(super) enum Body {
    Dense(Dense),
    Lazy(LazyStack),
}

impl Default for Body {
    fn default() -> Self {
        Body::Dense(Dense::default())
    }
}

/// An entry that was checked against the place it is for: whole, or a piece for each member of a stack.
#[derive(Debug)]
pub(super) enum Fitted {
    Whole(Entry),
    Pieces(Vec<Fitted>),
}

impl TensorDict {
    /// An empty tensordict with a batch size and no device label.
    pub fn new(batch_size: impl Into<Vec<i64>>) -> Self {
        TensorDict::dense(Dense { batch_size: batch_size.into(), ..Dense::default() })
    }

    /// An empty tensordict that moves what is put in to `device`.
    pub fn on_device(batch_size: impl Into<Vec<i64>>, device: Device) -> Self {
        TensorDict::dense(Dense { batch_size: batch_size.into(), device: Some(device), ..Dense::default() })
    }

    pub(super) fn dense(dense: Dense) -> Self {
        TensorDict { body: Body::Dense(dense), lock: Lock::default() }
    }

    pub(super) fn lazy(stack: LazyStack) -> Self {
        TensorDict { body: Body::Lazy(stack), lock: Lock::default() }
    }

    /// The leading dims that all entries share; -1 where the members of a lazy stack differ.
    pub fn batch_size(&self) -> Vec<i64> {
        match &self.body {
            Body::Dense(dense) => dense.batch_size.clone(),
            Body::Lazy(stack) => stack.batch_size(),
        }
    }

    /// The number of batch dims.
    pub fn batch_dims(&self) -> usize {
        match &self.body {
            Body::Dense(dense) => dense.batch_size.len(),
            Body::Lazy(stack) => stack.batch_dims(),
        }
    }

    /// The device that all tensors are on, where one was asked for.
    pub fn device(&self) -> Option<Device> {
        match &self.body {
            Body::Dense(dense) => dense.device,
            Body::Lazy(stack) => stack.device(),
        }
    }

    /// The number of entries at the root.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Dense(dense) => dense.entries.len(),
            Body::Lazy(stack) => stack.keys().len(),
        }
    }

    /// Whether there are no leaves: no entries, or only dicts without any. Of a lazy stack, whether there is
    /// none that every member has.
    pub fn is_empty(&self) -> bool {
        self.leaf_keys().is_empty()
    }

    /// The names at the root, in order. Of a lazy stack, those that every member has, in the order of
    /// the first.
    pub fn keys(&self) -> impl Iterator<Item = String> + use<> {
        let keys: Vec<String> = match &self.body {
            Body::Dense(dense) => dense.entries.keys().cloned().collect(),
            Body::Lazy(stack) => stack.keys(),
        };
        keys.into_iter()
    }

    /// The keys of every entry at any depth that is no dict, in order.
    pub fn leaf_keys(&self) -> Vec<NestedKey> {
        let mut keys = Vec::new();
        self.collect_leaf_keys(&NestedKey::default(), &mut keys);
        keys
    }

    pub(super) fn collect_leaf_keys(&self, above: &NestedKey, keys: &mut Vec<NestedKey>) {
        match &self.body {
            Body::Dense(dense) => dense.collect_leaf_keys(above, keys),
            Body::Lazy(stack) => stack.collect_leaf_keys(above, keys),
        }
    }

    /// Names and entries at the root, in order.
    ///
    /// # Errors
    ///
    /// Entries of a lazy stack that can't be stacked; see [`get`](Self::get).
    pub fn items(&self) -> Result<Vec<(String, Entry)>> {
        self.keys().map(|name| self.entry(name.as_str()).map(|entry| (name, entry))).collect()
    }

    /// Every entry at any depth that is no dict, in order.
    ///
    /// # Errors
    ///
    /// As [`items`](Self::items).
    pub fn leaves(&self) -> Result<Vec<(NestedKey, Entry)>> {
        self.leaf_keys().into_iter().map(|key| self.entry(&key).map(|entry| (key, entry))).collect()
    }

    /// The entry at `key`, if there is one. Of a lazy stack, the members' entries are stacked; dicts
    /// become a lazy stack in turn. Non-tensor values of members that differ in batch size are lists from there on. A
    /// key that some member lacks counts as missing.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the members' tensors differ in shape: ask for
    /// [a list](Self::get_list), [a padded tensor](Self::get_padded) or
    /// [a jagged tensor](Self::get_jagged). A [key](Error::is_key) error if they differ in kind. None
    /// for a dense tensordict.
    pub fn get(&self, key: impl Into<NestedKey>) -> Result<Option<Entry>> {
        let key = key.into();
        self.find(key.names()).map_err(|error| if error.nested_key().is_some() { error } else { error.at(key) })
    }

    pub(super) fn find(&self, names: &[String]) -> Result<Option<Entry>> {
        match &self.body {
            Body::Dense(dense) => match names {
                [] => Ok(None),
                [name] => Ok(dense.entries.get(name).map(Entry::shallow_clone)),
                [name, below @ ..] => match dense.entries.get(name) {
                    Some(Entry::Dict(dict)) => dict.find(below),
                    _ => Ok(None),
                },
            },
            Body::Lazy(stack) => stack.find(names),
        }
    }

    /// Whether there is an entry at `key`; in a lazy stack, in every member.
    pub fn contains_key(&self, key: impl Into<NestedKey>) -> bool {
        self.has(key.into().names())
    }

    pub(super) fn has(&self, names: &[String]) -> bool {
        match (&self.body, names) {
            (_, []) => false,
            (Body::Lazy(stack), names) => stack.has(names),
            (Body::Dense(dense), [name]) => dense.entries.contains_key(name),
            (Body::Dense(dense), [name, below @ ..]) => match dense.entries.get(name) {
                Some(Entry::Dict(dict)) => dict.has(below),
                _ => false,
            },
        }
    }

    /// The entry at `key`.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error that lists the keys there are; what [`get`](Self::get) says.
    pub fn entry(&self, key: impl Into<NestedKey>) -> Result<Entry> {
        let key = key.into();
        self.get(&key)?.ok_or_else(|| self.missing(&key))
    }

    pub(super) fn missing(&self, key: &NestedKey) -> Error {
        if let Some((leaf, kind)) = self.leaf_above(key.names()) {
            return Error::key(format!("'{leaf}' is of kind {kind}, there is nothing below it")).at(key);
        }
        if let Some(member) = self.member_without(key.names()) {
            return Error::key(format!("member {member} of the lazy stack has no such entry"))
                .at(key)
                .remedy("get_list_or, get_padded_or, get_jagged_or and get_nested_or take a default for such members");
        }
        let keys: Vec<_> = self.keys().map(|name| format!("'{name}'")).collect();
        let keys =
            if keys.is_empty() { "there are none".to_owned() } else { format!("the keys are {}", keys.join(", ")) };
        Error::key("there is no such entry").at(key).remedy(keys)
    }

    /// The first member, of the lazy stack on the way to `names`, that lacks an entry which others have.
    fn member_without(&self, names: &[String]) -> Option<usize> {
        match (&self.body, names) {
            (Body::Lazy(stack), _) => {
                let lacking = stack.members.iter().position(|member| !member.has(names));
                lacking.filter(|_| self.has_in_any(names))
            }
            (Body::Dense(dense), [name, below @ ..]) => dense.entries.get(name)?.as_dict()?.member_without(below),
            (Body::Dense(_), []) => None,
        }
    }

    /// The name and kind of the entry on the way to `names` that is no dict.
    fn leaf_above<'a>(&self, names: &'a [String]) -> Option<(&'a str, &'static str)> {
        match (&self.body, names) {
            (Body::Lazy(stack), _) => stack.members.first()?.leaf_above(names),
            (Body::Dense(_), [] | [_]) => None,
            (Body::Dense(dense), [name, below @ ..]) => match dense.entries.get(name)? {
                Entry::Dict(dict) => dict.leaf_above(below),
                leaf => Some((name, leaf.kind())),
            },
        }
    }

    /// Puts an entry at `key`, making the dicts above it where they are missing. An entry that is there
    /// already is replaced and keeps its place. A lazy stack gives each member its piece, a view.
    ///
    /// With a device label, the entry moves to that device. A nested tensordict with fewer batch dims
    /// takes this one's batch size; a single non-tensor value becomes everyone's.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the entry's leading dims aren't the batch size; a
    /// [key](Error::is_key) error for the empty key or one that leads through an entry that is no dict;
    /// a [lock](Error::is_lock) error. The tensordict is then as before.
    pub fn set(&mut self, key: impl Into<NestedKey>, entry: impl Into<Entry>) -> Result<()> {
        let key = key.into();
        let at = |error: Error| key.names().iter().rfold(error, |error, name| error.below(name));
        let fitted = self.fit(key.names(), entry.into()).map_err(at)?;
        self.put(key.names(), fitted);
        Ok(())
    }

    /// Checks an entry against the place `names`; changes nothing.
    pub(super) fn fit(&self, names: &[String], entry: Entry) -> Result<Fitted> {
        self.ensure_unlocked()?;
        if let Entry::Tensor(tensor) = &entry
            && tensor.defined()
            && tensor.f_internal_shape_as_tensor().is_err()
        {
            return Err(Error::shape("the tensor is nested in libtorch's own way, which has no shape")
                .remedy("JaggedTensor::from_strided_nested takes it"));
        }
        match &self.body {
            Body::Dense(dense) => dense.fit(names, entry),
            Body::Lazy(stack) => stack.fit(names, entry),
        }
    }

    /// Puts in what [`fit`](Self::fit) gave.
    pub(super) fn put(&mut self, names: &[String], fitted: Fitted) {
        match &mut self.body {
            Body::Dense(dense) => dense.put(names, fitted),
            Body::Lazy(stack) => stack.put(names, fitted),
        }
    }

    /// Puts an entry at the root that is known to fit: made for this batch size, on this device.
    pub(crate) fn insert_trusted(&mut self, name: &str, entry: Entry) {
        if let Body::Dense(dense) = &mut self.body {
            debug_assert!(entry.shape().starts_with(&dense.batch_size), "the entry has the batch size");
            dense.entries.insert(name.to_owned(), entry);
        }
    }

    /// Names and entries at the root, in order; of a lazy stack, none.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (String, Entry)> {
        let entries = match self.body {
            Body::Dense(dense) => dense.entries,
            Body::Lazy(_) => IndexMap::new(),
        };
        entries.into_iter()
    }

    /// The entries that this holds itself, in order; of a lazy stack, none.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&str, &Entry)> {
        let entries = match &self.body {
            Body::Dense(dense) => Some(&dense.entries),
            Body::Lazy(_) => None,
        };
        entries.into_iter().flatten().map(|(name, entry)| (name.as_str(), entry))
    }

    /// The entry that this holds itself under a name; of a lazy stack, none.
    pub(crate) fn held_at(&self, name: &str) -> Option<&Entry> {
        match &self.body {
            Body::Dense(dense) => dense.entries.get(name),
            Body::Lazy(_) => None,
        }
    }

    /// Whether this or a nested tensordict is a lazy stack.
    pub(crate) fn holds_lazy(&self) -> bool {
        match &self.body {
            Body::Lazy(_) => true,
            Body::Dense(dense) => dense.entries.values().filter_map(Entry::as_dict).any(TensorDict::holds_lazy),
        }
    }

    /// Takes the entry at `key` out; of a lazy stack, out of every member that has it.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is none; a [lock](Error::is_lock) error; the stacked entry
    /// can't be made (see [`get`](Self::get)), and then nothing is taken.
    pub fn remove(&mut self, key: impl Into<NestedKey>) -> Result<Entry> {
        let key = key.into();
        self.ensure_path_unlocked(key.names()).map_err(|error| error.at(&key))?;
        let entry = self.entry(&key)?;
        self.take(key.names());
        Ok(entry)
    }

    pub(super) fn take(&mut self, names: &[String]) -> Option<Entry> {
        match &mut self.body {
            Body::Dense(dense) => dense.take(names),
            Body::Lazy(stack) => stack.take(names),
        }
    }

    /// The same entries under a batch size that all of them have as leading dims.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error at the first entry that hasn't, and for a lazy stack unless it
    /// is the batch size that it has.
    pub fn with_batch_size(self, batch_size: &[i64]) -> Result<Self> {
        self.ensure_unlocked()?;
        match self.body {
            Body::Dense(dense) => {
                let kept = dense.names.into_iter().take(batch_size.len()).chain(std::iter::repeat(None));
                let names: Vec<_> = kept.take(batch_size.len()).collect();
                let mut resized =
                    Dense { batch_size: batch_size.to_vec(), names, device: dense.device, ..Dense::default() };
                for (name, entry) in dense.entries {
                    let names = [name];
                    let fitted = resized.fit(&names, entry).map_err(|error| error.below(&names[0]))?;
                    resized.put(&names, fitted);
                }
                Ok(TensorDict::dense(resized))
            }
            Body::Lazy(stack) if stack.batch_size() == batch_size => Ok(TensorDict::lazy(stack)),
            Body::Lazy(stack) => Err(Error::shape(format!(
                "a lazy stack has the batch size {:?} of its members, it can't be set to {batch_size:?}",
                stack.batch_size()
            ))),
        }
    }

    /// Takes out the masks at and below `mask_key` that are true throughout, and dicts left empty.
    #[cfg(feature = "datafusion")]
    pub(crate) fn drop_idle_masks(&mut self, mask_key: &NestedKey) -> Result<()> {
        fn is_idle(entry: &mut Entry) -> Result<bool> {
            match entry {
                Entry::Tensor(mask) => Ok(mask.f_all()?.f_int64_value(&[])? != 0),
                Entry::Dict(TensorDict { body: Body::Dense(masks), .. }) => {
                    let mut idle = Vec::new();
                    for (name, entry) in &mut masks.entries {
                        if is_idle(entry)? {
                            idle.push(name.clone());
                        }
                    }
                    masks.entries.retain(|name, _| !idle.contains(name));
                    Ok(masks.entries.is_empty())
                }
                _ => Ok(false),
            }
        }
        let (Some((root, _)), Body::Dense(dense)) = (mask_key.split_first(), &mut self.body) else {
            return Ok(());
        };
        if let Some(masks) = dense.entries.get_mut(root)
            && is_idle(masks)?
        {
            dense.entries.shift_remove(root);
        }
        Ok(())
    }

    /// The whole tensordict on `device`, labelled with it. Non-tensor values stay where they are.
    ///
    /// # Errors
    ///
    /// A [device](Error::is_device) error if it is not there; libtorch's own if the move fails.
    pub fn to(&self, device: Device) -> Result<TensorDict> {
        ensure_device(device)?;
        match &self.body {
            Body::Dense(dense) => {
                let mut moved = dense.try_map(|_, entry| entry.to_device(device).map(Some))?;
                moved.device = Some(device);
                Ok(TensorDict::dense(moved))
            }
            Body::Lazy(stack) => stack.try_map(|member| member.to(device)).map(TensorDict::lazy),
        }
    }

    /// Another tensordict with handles on the same storage, unlocked.
    #[must_use]
    pub fn shallow_clone(&self) -> TensorDict {
        match &self.body {
            Body::Dense(dense) => {
                let entries = dense.entries.iter().map(|(name, entry)| (name.clone(), entry.shallow_clone()));
                let entries = entries.collect();
                TensorDict::dense(Dense { entries, ..dense.emptied() })
            }
            Body::Lazy(stack) => TensorDict::lazy(stack.shallow_clone()),
        }
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
