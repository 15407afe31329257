//! Session defaults: `SET tensordict.nulls = 'mask'`.

use std::any::Any;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::Result;

use crate::error::Error;
use crate::options::{OptionValue, Options};

/// The session's default [`Options`], under the prefix `tensordict`.
#[derive(Clone, Debug, Default)]
pub(super) struct TensorDictConfig {
    options: Options,
    /// What was set, as it was written.
    words: Vec<(String, String)>,
}

impl TensorDictConfig {
    /// The defaults of a session, or ours where none were set up.
    pub(super) fn options(config: &ConfigOptions) -> Options {
        config.extensions.get::<TensorDictConfig>().map(|config| config.options.clone()).unwrap_or_default()
    }

    /// Forgets what was set of one option: the others are set again, each as it was written.
    pub(super) fn reset(&mut self, key: &str) -> crate::error::Result<()> {
        if !Options::NAMES.contains(&key) {
            return Err(Options::unknown(key));
        }
        self.words.retain(|(name, _)| name != key);
        self.options = Options::default();
        self.words.iter().try_for_each(|(name, value)| self.options.set(name, parse(name, value)?))
    }
}

impl ConfigExtension for TensorDictConfig {
    const PREFIX: &'static str = "tensordict";
}

impl ExtensionOptions for TensorDictConfig {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    /// Lists and maps are written as JSON: `SET tensordict.mask_key = '["aux", "valid"]'`.
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.options.set(key, parse(key, value)?)?;
        self.words.retain(|(name, _)| name != key);
        self.words.push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |(name, description): &(&str, &'static str)| ConfigEntry {
            key: format!("{}.{name}", Self::PREFIX),
            value: self.words.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()),
            description,
        };
        DESCRIPTIONS.iter().map(entry).collect()
    }
}

const DESCRIPTIONS: [(&str, &str); Options::NAMES.len()] = [
    ("nulls", "What happens to nulls: raise (default), fill or mask"),
    ("mask_key", "Where masks go: a name (default _mask), or a JSON list of names"),
    ("mask_keys", "Which columns get masks: observed (default for whole results), nullable, or a JSON list"),
    ("copy", "Whether tensors may share memory with Arrow: auto (default), always or never"),
    ("unsigned", "Unsigned numbers above the largest int64: check (default) or reinterpret"),
    ("device", "The device results move to: cpu, cuda, cuda:1, … or none (default)"),
    ("columns", "Options by column as JSON: {\"speed\": {\"nulls\": \"mask\"}}"),
];

/// What begins as JSON must be JSON.
pub(super) fn parse(key: &str, value: &str) -> crate::error::Result<OptionValue> {
    if key == "columns" && !value.starts_with('{') {
        return Err(Error::option(format!("columns is '{value}'"))
            .remedy(r#"it takes options by column as JSON, as in '{"speed": {"nulls": "mask"}}'"#));
    }
    if !value.starts_with(['[', '{']) {
        return Ok(OptionValue::from(value));
    }
    let json = serde_json::from_str(value).map(from_json);
    json.map_err(|error| {
        Error::option(format!("{key} is '{value}', which begins as JSON but is none: {error}"))
            .remedy("lists and maps are JSON, as in '[\"a\", \"b\"]'")
    })
}

fn from_json(value: serde_json::Value) -> OptionValue {
    match value {
        serde_json::Value::String(text) => OptionValue::Text(text),
        serde_json::Value::Array(values) => OptionValue::List(values.into_iter().map(from_json).collect()),
        serde_json::Value::Object(members) => OptionValue::Map(
            members.into_iter().map(|(name, value)| (OptionValue::Text(name), from_json(value))).collect(),
        ),
        other => OptionValue::Other(other.to_string()),
    }
}
