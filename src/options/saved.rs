//! How SQL writes and reads saved tensordicts, beside [`Options`](super::Options).

use std::ops::Range;

use super::{OptionValue, mask_key};
use crate::error::{Error, Result};
use crate::key::NestedKey;

/// What a query reads of a saved tensordict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadOptions {
    mask_key: Option<NestedKey>,
    rows: Option<Range<i64>>,
}

impl ReadOptions {
    /// Sets an option by its name.
    ///
    /// # Errors
    ///
    /// An [option](Error::is_option) error for an unknown name, or a value that the option doesn't take.
    pub(crate) fn set(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        match name {
            "mask_key" => self.mask_key = Some(mask_key(name, value)?),
            "rows" => self.rows = Some(rows(value)?),
            _ => {
                return Err(Error::option(format!("there is no option '{name}' of reading"))
                    .remedy("the options are mask_key, rows"));
            }
        }
        Ok(())
    }

    /// Where the masks are that become the validity of columns.
    pub(crate) fn mask_key(&self) -> Option<&NestedKey> {
        self.mask_key.as_ref()
    }

    /// The only rows that are read.
    pub(crate) fn rows(&self) -> Option<&Range<i64>> {
        self.rows.as_ref()
    }
}

/// The first row, and the one after the last.
fn rows(value: &OptionValue) -> Result<Range<i64>> {
    let number = |value: &OptionValue| match value {
        OptionValue::Other(text) => text.parse().ok().filter(|row: &i64| *row >= 0),
        _ => None,
    };
    let range = match value {
        OptionValue::List(ends) => match ends.as_slice() {
            [start, end] => number(start).zip(number(end)).filter(|(start, end)| start <= end),
            _ => None,
        },
        _ => None,
    };
    let (start, end) = range.ok_or_else(|| {
        Error::option(format!("rows is {value}")).remedy("it takes the first row and the one after the last: [0, 100]")
    })?;
    Ok(start..end)
}

/// Whether something is to be done.
pub(crate) fn flag(name: &str, value: &OptionValue) -> Result<bool> {
    match value {
        OptionValue::Text(text) | OptionValue::Other(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        OptionValue::Text(text) | OptionValue::Other(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(Error::option(format!("{name} is {value}")).remedy("it takes true or false")),
    }
}
