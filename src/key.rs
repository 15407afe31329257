//! Where a value lives: a path of names.

use std::fmt;
use std::sync::Arc;

/// The path to an entry of a tensordict: one name, or several for an entry in nested dicts.
///
/// A name is any string. A dot in it is only a character: `"a.b"` is one name, `["a", "b"]` are two.
///
/// ```
/// use tensorquery::NestedKey;
///
/// let flat = NestedKey::from("a.b");
/// let nested = NestedKey::from(["a", "b"]);
/// assert_eq!(flat.names(), ["a.b"]);
/// assert_eq!(nested.names(), ["a", "b"]);
/// assert_eq!(flat.to_string(), "'a.b'");
/// assert_eq!(nested.to_string(), "('a', 'b')");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NestedKey(Arc<[String]>);

impl NestedKey {
    /// The names from the root down. Empty only for a key made from no names, which no entry has.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The first name and the rest, or `None` for the empty key.
    pub fn split_first(&self) -> Option<(&str, NestedKey)> {
        let (first, rest) = self.0.split_first()?;
        Some((first, NestedKey(rest.into())))
    }

    /// Whether the key has no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This key with one more name below it.
    pub fn child(&self, name: impl Into<String>) -> NestedKey {
        NestedKey(self.0.iter().cloned().chain([name.into()]).collect())
    }

    /// This key with all names of `other` below it.
    pub fn join(&self, other: &NestedKey) -> NestedKey {
        NestedKey(self.0.iter().chain(other.names()).cloned().collect())
    }

    /// Whether `prefix` is this key or one of the dicts above it.
    pub fn starts_with(&self, prefix: &NestedKey) -> bool {
        self.0.starts_with(&prefix.0)
    }
}

/// A lone name in single quotes, several as a tuple, as the field prints nested keys.
impl fmt::Display for NestedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [name] => write!(f, "'{name}'"),
            names => {
                f.write_str("(")?;
                for (i, name) in names.iter().enumerate() {
                    let separator = if i == 0 { "" } else { ", " };
                    write!(f, "{separator}'{name}'")?;
                }
                f.write_str(")")
            }
        }
    }
}

impl From<&str> for NestedKey {
    fn from(name: &str) -> Self {
        NestedKey([name.to_owned()].into())
    }
}

impl From<String> for NestedKey {
    fn from(name: String) -> Self {
        NestedKey([name].into())
    }
}

impl From<&String> for NestedKey {
    fn from(name: &String) -> Self {
        NestedKey([name.clone()].into())
    }
}

impl From<&NestedKey> for NestedKey {
    fn from(key: &NestedKey) -> Self {
        key.clone()
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for NestedKey {
    fn from(names: [S; N]) -> Self {
        NestedKey(names.into_iter().map(Into::into).collect())
    }
}

impl From<&[&str]> for NestedKey {
    fn from(names: &[&str]) -> Self {
        NestedKey(names.iter().map(|name| (*name).to_owned()).collect())
    }
}

impl From<Vec<&str>> for NestedKey {
    fn from(names: Vec<&str>) -> Self {
        NestedKey::from(names.as_slice())
    }
}

impl From<Vec<String>> for NestedKey {
    fn from(names: Vec<String>) -> Self {
        NestedKey(names.into())
    }
}
