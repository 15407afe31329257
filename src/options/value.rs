//! Values of options, as SQL, `SET` and flags write them.

use std::fmt;

/// A value for [`Options::set`](crate::Options::set).
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A word or name.
    Text(String),
    /// Several values: a nested key, or a list of keys.
    List(Vec<OptionValue>),
    /// Values by key.
    Map(Vec<(OptionValue, OptionValue)>),
    /// Anything else, as the user wrote it.
    Other(String),
}

impl From<&str> for OptionValue {
    fn from(text: &str) -> Self {
        OptionValue::Text(text.to_owned())
    }
}

impl From<String> for OptionValue {
    fn from(text: String) -> Self {
        OptionValue::Text(text)
    }
}

impl<T: Into<OptionValue>> From<Vec<T>> for OptionValue {
    fn from(values: Vec<T>) -> Self {
        OptionValue::List(values.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Text(text) => write!(f, "'{text}'"),
            OptionValue::Other(text) => f.write_str(text),
            OptionValue::List(values) => {
                let values: Vec<_> = values.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", values.join(", "))
            }
            OptionValue::Map(entries) => {
                let entries: Vec<_> = entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
        }
    }
}
