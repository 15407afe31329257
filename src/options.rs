//! What the caller asks for, said once: in Rust, in SQL's named arguments, in `SET`, in flags.

#[cfg(all(feature = "datafusion", any(target_os = "linux", target_os = "macos")))]
mod saved;
mod to_arrow;
mod value;

use std::fmt;

use tch::Device;

use crate::error::{Error, Result};
use crate::key::NestedKey;

#[cfg(all(feature = "datafusion", any(target_os = "linux", target_os = "macos")))]
pub(crate) use saved::{ReadOptions, flag};
pub use to_arrow::ToArrowOptions;
pub use value::OptionValue;

/// Where masks go unless the caller names another place.
pub const DEFAULT_MASK_KEY: &str = "_mask";

/// What happens to nulls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Nulls {
    /// A null is an error that names the column, the row and the count.
    #[default]
    Raise,
    /// Nulls become NaN (floats), 0 (integers), false (booleans), an empty row (lists). Rows of
    /// non-tensor columns keep their null.
    Fill,
    /// As [`Fill`](Nulls::Fill), and a boolean tensor per column says which rows were valid.
    Mask,
}

/// Which columns get a mask under [`Nulls::Mask`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MaskKeys {
    /// The columns that had a null row. The keys depend on the data: for whole results.
    Observed,
    /// The columns that may hold nulls by their schema. The keys are known before the query runs:
    /// for streams and SQL relations.
    Nullable,
    /// These columns, whatever their data and schema.
    Columns(Vec<NestedKey>),
}

/// Whether a tensor may share the memory of the Arrow buffer it came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CopyPolicy {
    /// Share when nobody else can see the buffer and it is writable, copy otherwise.
    #[default]
    Auto,
    /// Always copy.
    Always,
    /// Share, or fail with the reason why it can't be.
    Never,
}

/// What happens to an unsigned 64-bit number above `i64::MAX`: libtorch computes with signed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unsigned {
    /// It is an error that names the column and the row.
    #[default]
    Check,
    /// Its bits are read as a signed number, as a C cast does.
    Reinterpret,
}

/// Options of one column (or of all below a nested one). What is not said follows the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColumnOptions {
    nulls: Option<Nulls>,
    unsigned: Option<Unsigned>,
}

impl ColumnOptions {
    /// What happens to this column's nulls.
    pub fn nulls(mut self, nulls: Nulls) -> Self {
        self.nulls = Some(nulls);
        self
    }

    /// What happens to this column's unsigned numbers above `i64::MAX`.
    pub fn unsigned(mut self, unsigned: Unsigned) -> Self {
        self.unsigned = Some(unsigned);
        self
    }
}

/// How a query's result becomes a tensordict.
///
/// ```
/// use tensorquery::{Nulls, Options};
///
/// let options = Options::default()
///     .nulls(Nulls::Fill)
///     .column("dep_delay", |column| column.nulls(Nulls::Mask));
/// assert_eq!(options.to_string(), "nulls=fill, columns={'dep_delay': nulls=mask}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    nulls: Nulls,
    unsigned: Unsigned,
    mask_key: Option<NestedKey>,
    mask_keys: Option<MaskKeys>,
    copy: CopyPolicy,
    device: Option<Device>,
    columns: Vec<(NestedKey, ColumnOptions)>,
    /// What `MaskKeys::Nullable` came to when a query was planned.
    planned_masks: Option<Vec<NestedKey>>,
}

impl Options {
    /// What happens to nulls. Default: [`Nulls::Raise`].
    pub fn nulls(mut self, nulls: Nulls) -> Self {
        self.nulls = nulls;
        self
    }

    /// Where masks go: masks of column `c` at `(mask_key, "c")`. Default: [`DEFAULT_MASK_KEY`].
    pub fn mask_key(mut self, key: impl Into<NestedKey>) -> Self {
        self.mask_key = Some(key.into());
        self
    }

    /// Which columns get masks. Default: [`MaskKeys::Observed`] for whole results,
    /// [`MaskKeys::Nullable`] for streams and SQL relations.
    pub fn mask_keys(mut self, keys: MaskKeys) -> Self {
        self.mask_keys = Some(keys);
        self.planned_masks = None;
        self
    }

    /// Whether tensors may share memory with Arrow. Default: [`CopyPolicy::Auto`].
    pub fn copy(mut self, copy: CopyPolicy) -> Self {
        self.copy = copy;
        self
    }

    /// What happens to unsigned numbers above `i64::MAX`. Default: [`Unsigned::Check`].
    pub fn unsigned(mut self, unsigned: Unsigned) -> Self {
        self.unsigned = unsigned;
        self
    }

    /// The device that the whole result moves to. Without one, tensors are on the CPU and the
    /// tensordict carries no device label.
    pub fn device(mut self, device: impl Into<Option<Device>>) -> Self {
        self.device = device.into();
        self
    }

    /// Options for one column, and for all below it if it is a struct.
    pub fn column(mut self, key: impl Into<NestedKey>, options: impl FnOnce(ColumnOptions) -> ColumnOptions) -> Self {
        self.columns.push((key.into(), options(ColumnOptions::default())));
        self
    }

    /// Sets an option by its name, as SQL's named arguments, `SET tensordict.…` and the command's
    /// flags do: `nulls`, `mask_key`, `mask_keys`, `copy`, `unsigned`, `device`, `columns`.
    ///
    /// # Errors
    ///
    /// An [option](Error::is_option) error for an unknown name or a value that the option does not
    /// take; it lists those that it does.
    pub fn set(&mut self, name: &str, value: impl Into<OptionValue>) -> Result<()> {
        let value = value.into();
        match name {
            "nulls" => self.nulls = word(name, &value, NULLS)?,
            "copy" => self.copy = word(name, &value, COPY)?,
            "unsigned" => self.unsigned = word(name, &value, UNSIGNED)?,
            "mask_key" => self.mask_key = Some(mask_key(name, &value)?),
            "mask_keys" => *self = std::mem::take(self).mask_keys(mask_keys(&value)?),
            "device" => self.device = device(&value)?,
            "columns" => self.columns = columns(&value)?,
            _ => return Err(Self::unknown(name)),
        }
        Ok(())
    }

    /// The error for a name that is no option's.
    pub(crate) fn unknown(name: &str) -> Error {
        Error::option(format!("there is no option '{name}'"))
            .remedy(format!("the options are {}", Self::NAMES.join(", ")))
    }

    /// The names that [`set`](Self::set) takes.
    pub const NAMES: [&str; 7] = ["nulls", "mask_key", "mask_keys", "copy", "unsigned", "device", "columns"];

    /// Where masks go.
    pub(crate) fn resolved_mask_key(&self) -> NestedKey {
        self.mask_key.clone().unwrap_or_else(|| DEFAULT_MASK_KEY.into())
    }

    /// Without what is said of masks where nothing is masked, for defaults that apply to any query. What
    /// `said` names stays, to be refused.
    #[cfg(feature = "datafusion")]
    pub(crate) fn without_idle_masks(mut self, said: impl Fn(&str) -> bool) -> Self {
        if !self.masks_anything() {
            self.mask_key = self.mask_key.filter(|_| said("mask_key"));
            self.mask_keys = self.mask_keys.filter(|_| said("mask_keys"));
        }
        self
    }

    /// The options left to the sink once an operator has ruled on nulls.
    #[cfg(feature = "datafusion")]
    pub(crate) fn after_nulls(&self) -> Options {
        let columns = self.columns.iter().map(|(key, column)| (key.clone(), ColumnOptions { nulls: None, ..*column }));
        Options {
            nulls: Nulls::Raise,
            mask_key: None,
            mask_keys: None,
            planned_masks: None,
            columns: columns.collect(),
            ..self.clone()
        }
    }

    /// The options with those of missing columns left out, for a query that was pruned.
    #[cfg(feature = "datafusion")]
    pub(crate) fn restricted_to(&self, is_column: impl Fn(&str) -> bool) -> Options {
        let kept = |key: &NestedKey| key.names().first().is_some_and(|name| is_column(name));
        let mut options = self.clone();
        options.columns.retain(|(key, _)| kept(key));
        if let Some(MaskKeys::Columns(keys)) = &mut options.mask_keys {
            keys.retain(kept);
        }
        if let Some(keys) = &mut options.planned_masks {
            keys.retain(kept);
        }
        options.without_idle_masks(|_| false)
    }

    pub(crate) fn explicit_mask_key(&self) -> Option<&NestedKey> {
        self.mask_key.as_ref()
    }

    pub(crate) fn explicit_mask_keys(&self) -> Option<&MaskKeys> {
        self.mask_keys.as_ref()
    }

    /// With the masks that a query's keys were announced with. An optimizer may learn that a nullable
    /// column has no nulls; its mask stays all the same.
    #[cfg(feature = "datafusion")]
    pub(crate) fn with_planned_masks(mut self, keys: Vec<NestedKey>) -> Self {
        self.planned_masks = Some(keys);
        self
    }

    pub(crate) fn masks_are_planned(&self) -> bool {
        self.planned_masks.is_some()
    }

    pub(crate) fn mask_keys_or(&self, default: MaskKeys) -> MaskKeys {
        if let Some(keys) = &self.planned_masks {
            return MaskKeys::Columns(keys.clone());
        }
        self.mask_keys.clone().unwrap_or(default)
    }

    pub(crate) fn copy_policy(&self) -> CopyPolicy {
        self.copy
    }

    pub(crate) fn target_device(&self) -> Option<Device> {
        self.device
    }

    /// What happens to the nulls at `key`: the longest override above it, the last of equals.
    pub(crate) fn nulls_at(&self, key: &NestedKey) -> Nulls {
        self.override_at(key, |column| column.nulls).unwrap_or(self.nulls)
    }

    pub(crate) fn unsigned_at(&self, key: &NestedKey) -> Unsigned {
        self.override_at(key, |column| column.unsigned).unwrap_or(self.unsigned)
    }

    fn override_at<T>(&self, key: &NestedKey, pick: impl Fn(&ColumnOptions) -> Option<T>) -> Option<T> {
        let applicable = self.columns.iter().filter(|(prefix, _)| key.starts_with(prefix));
        applicable
            .filter_map(|(prefix, column)| pick(column).map(|value| (prefix.names().len(), value)))
            .max_by_key(|(length, _)| *length)
            .map(|(_, value)| value)
    }

    pub(crate) fn column_overrides(&self) -> impl Iterator<Item = &NestedKey> {
        self.columns.iter().map(|(key, _)| key)
    }

    /// Whether any column's nulls become masks.
    pub(crate) fn masks_anything(&self) -> bool {
        self.nulls == Nulls::Mask || self.columns.iter().any(|(_, column)| column.nulls == Some(Nulls::Mask))
    }
}

const NULLS: &[(&str, Nulls)] = &[("raise", Nulls::Raise), ("fill", Nulls::Fill), ("mask", Nulls::Mask)];
const COPY: &[(&str, CopyPolicy)] =
    &[("auto", CopyPolicy::Auto), ("always", CopyPolicy::Always), ("never", CopyPolicy::Never)];
const UNSIGNED: &[(&str, Unsigned)] = &[("check", Unsigned::Check), ("reinterpret", Unsigned::Reinterpret)];

fn word<T: Copy>(name: &str, value: &OptionValue, words: &[(&str, T)]) -> Result<T> {
    let found = match value {
        OptionValue::Text(text) => words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)),
        _ => None,
    };
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
        Error::option(format!("{name} is {value}")).remedy(format!("it takes {}", words.join(", ")))
    })
}

fn name_of<T: Copy + PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, candidate)| *candidate == value).map_or("", |(word, _)| word)
}

fn nested_key(name: &str, value: &OptionValue) -> Result<NestedKey> {
    fn collect(value: &OptionValue, names: &mut Vec<String>) -> Option<()> {
        match value {
            OptionValue::Text(text) => names.push(text.clone()),
            OptionValue::List(values) => values.iter().try_for_each(|value| collect(value, names))?,
            OptionValue::Map(_) | OptionValue::Other(_) => return None,
        }
        Some(())
    }
    let mut names = Vec::new();
    match collect(value, &mut names) {
        Some(()) if !names.is_empty() => Ok(names.into()),
        _ => Err(Error::option(format!("{name} is {value}"))
            .remedy("it takes a name, or a non-empty list of names for a nested key")),
    }
}

/// A place for masks: each of its names has letters. (A column may have none.)
fn mask_key(name: &str, value: &OptionValue) -> Result<NestedKey> {
    let key = nested_key(name, value)?;
    if key.names().iter().any(String::is_empty) {
        return Err(Error::option(format!("{name} is {value}")).remedy("it takes names that are not empty"));
    }
    Ok(key)
}

fn mask_keys(value: &OptionValue) -> Result<MaskKeys> {
    match value {
        OptionValue::List(keys) => {
            let keys = keys.iter().map(|key| nested_key("mask_keys", key));
            Ok(MaskKeys::Columns(keys.collect::<Result<_>>()?))
        }
        OptionValue::Text(text) if text.eq_ignore_ascii_case("observed") => Ok(MaskKeys::Observed),
        OptionValue::Text(text) if text.eq_ignore_ascii_case("nullable") => Ok(MaskKeys::Nullable),
        _ => Err(Error::option(format!("mask_keys is {value}"))
            .remedy("it takes 'observed', 'nullable', or a list of columns")),
    }
}

fn device(value: &OptionValue) -> Result<Option<Device>> {
    let unknown = || {
        Error::option(format!("device is {value}")).remedy("it takes 'cpu', 'cuda', 'cuda:0', 'cuda:1', … or 'none'")
    };
    let OptionValue::Text(text) = value else {
        return Err(unknown());
    };
    match text.to_ascii_lowercase().as_str() {
        "none" => Ok(None),
        "cpu" => Ok(Some(Device::Cpu)),
        "cuda" => Ok(Some(Device::Cuda(0))),
        other => {
            let index = other.strip_prefix("cuda:").and_then(|index| index.parse().ok());
            Ok(Some(Device::Cuda(index.ok_or_else(unknown)?)))
        }
    }
}

fn columns(value: &OptionValue) -> Result<Vec<(NestedKey, ColumnOptions)>> {
    let malformed = |value: &OptionValue| {
        Error::option(format!("columns is {value}"))
            .remedy("it takes options by column, as in {'speed': {'nulls': 'mask'}}; a nested column's key is a list")
    };
    let OptionValue::Map(entries) = value else {
        return Err(malformed(value));
    };
    let mut columns = Vec::with_capacity(entries.len());
    for (key, options) in entries {
        let key = nested_key("a column's key", key)?;
        let OptionValue::Map(options) = options else {
            return Err(malformed(value));
        };
        let mut column = ColumnOptions::default();
        for (name, value) in options {
            match name {
                OptionValue::Text(name) if name == "nulls" => column.nulls = Some(word(name, value, NULLS)?),
                OptionValue::Text(name) if name == "unsigned" => column.unsigned = Some(word(name, value, UNSIGNED)?),
                _ => {
                    return Err(Error::option(format!("there is no column option {name}"))
                        .at(key)
                        .remedy("a column's options are nulls, unsigned"));
                }
            }
        }
        columns.push((key, column));
    }
    Ok(columns)
}

/// A device as the field writes it: `cpu`, `cuda:0`.
pub(crate) fn device_name(device: Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        Device::Cuda(index) => format!("cuda:{index}"),
        Device::Mps => "mps".to_owned(),
        Device::Vulkan => "vulkan".to_owned(),
    }
}

impl fmt::Display for Nulls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(*self, NULLS))
    }
}

impl fmt::Display for CopyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(*self, COPY))
    }
}

impl fmt::Display for Unsigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(*self, UNSIGNED))
    }
}

impl fmt::Display for MaskKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MaskKeys::Observed => f.write_str("observed"),
            MaskKeys::Nullable => f.write_str("nullable"),
            MaskKeys::Columns(keys) => {
                let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", keys.join(", "))
            }
        }
    }
}

/// `nulls=…`, then what differs from the defaults.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { nulls, unsigned, mask_key, mask_keys, copy, device, columns, planned_masks: _ } = self;
        write!(f, "nulls={nulls}")?;
        if let Some(key) = mask_key {
            write!(f, ", mask_key={key}")?;
        }
        if let Some(keys) = mask_keys {
            write!(f, ", mask_keys={keys}")?;
        }
        if *copy != CopyPolicy::default() {
            write!(f, ", copy={copy}")?;
        }
        if *unsigned != Unsigned::default() {
            write!(f, ", unsigned={unsigned}")?;
        }
        if let Some(device) = device {
            write!(f, ", device={}", device_name(*device))?;
        }
        if !columns.is_empty() {
            f.write_str(", columns={")?;
            for (i, (key, ColumnOptions { nulls, unsigned })) in columns.iter().enumerate() {
                write!(f, "{}{key}:", if i == 0 { "" } else { ", " })?;
                if let Some(nulls) = nulls {
                    write!(f, " nulls={nulls}")?;
                }
                if let Some(unsigned) = unsigned {
                    write!(f, " unsigned={unsigned}")?;
                }
            }
            f.write_str("}")?;
        }
        Ok(())
    }
}
