//! Where an epoch has come to.

use std::fmt;

use serde_json::{Value, json};

use super::source::{Mark, Place};
use crate::error::{Error, Result};

const VERSION: u64 = 1;

/// Where an epoch has come to: enough to go on with exactly the next batch, in another process and after a crash.
///
/// It counts what the training loop has taken, not what was computed ahead. [`to_string`](ToString::to_string) is a
/// line of JSON to keep beside the model's weights, [`from_json`](LoaderState::from_json) reads it. It holds the
/// loader's settings and its columns' names, and only a loader of the same takes it. The query and its data aren't in
/// it: that they are the same is for the caller to see to.
///
/// In the order [`streamed`](super::Order::streamed) it also says how many row groups are done, in the order that the
/// seed gives them, where the window begins that the next batch is in, and a hash of how many rows all row groups have:
/// files that are cut otherwise are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderState {
    pub(super) epoch: u64,
    pub(super) batches: u64,
    pub(super) rows: u64,
    /// Where to read on, in orders that have such places.
    pub(super) mark: Option<Mark>,
    /// The loader's settings.
    pub(super) loader: Value,
}

impl LoaderState {
    /// The epoch that it is in.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Batches taken in this epoch.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Rows in them.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Reads what [`to_string`](ToString::to_string) wrote.
    ///
    /// # Errors
    ///
    /// An [option](Error::is_option) error for what isn't a state, or is one of another version.
    pub fn from_json(text: &str) -> Result<Self> {
        let unreadable = |what: &str| Error::option(format!("a loader's state can't be read: {what}"));
        let mut value: Value = serde_json::from_str(text).map_err(|error| unreadable(&error.to_string()))?;
        let number = |name: &str| {
            let missing = || unreadable(&format!("`{name}` is no whole number"));
            value.get(name).and_then(Value::as_u64).ok_or_else(missing)
        };
        match number("version")? {
            VERSION => {}
            other => return Err(unreadable(&format!("it is of version {other}, and known is {VERSION}"))),
        }
        let (epoch, batches, rows) = (number("epoch")?, number("batches")?, number("rows")?);
        let mark = value.get("mark").filter(|mark| !mark.is_null()).map(|mark| {
            let part = |name: &str| mark.get(name).and_then(Value::as_u64);
            let mark = (part("piece"), part("row"), part("rows"), part("layout"));
            let (Some(piece), Some(row), Some(before), Some(layout)) = mark else {
                return Err(unreadable("`mark` isn't four whole numbers"));
            };
            match before <= rows {
                true => Ok(Mark { place: Place { piece, row }, rows: before, layout }),
                false => Err(unreadable("its mark lies beyond its rows")),
            }
        });
        let mark = mark.transpose()?;
        let loader = value.get_mut("loader").map(Value::take);
        let loader = loader.filter(Value::is_object).ok_or_else(|| unreadable("`loader` is no object"))?;
        Ok(LoaderState { epoch, batches, rows, mark, loader })
    }

    /// Refuses another loader than the one that it is of.
    pub(super) fn ensure_of(&self, loader: &Value) -> Result<()> {
        if self.loader == *loader {
            return Ok(());
        }
        let names = loader.as_object().into_iter().flat_map(|settings| settings.keys());
        let other: Vec<_> = names.filter(|name| self.loader.get(name) != loader.get(name)).cloned().collect();
        let message = format!("this state is of another loader; they differ in {}", other.join(", "));
        Err(Error::option(message).remedy("make the loader as it was, or begin an epoch"))
    }
}

impl fmt::Display for LoaderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoaderState { epoch, batches, rows, mark, loader } = self;
        let mark = mark.map(|Mark { place, rows, layout }| {
            json!({"piece": place.piece, "row": place.row, "rows": rows, "layout": layout})
        });
        let place = json!({"version": VERSION, "epoch": epoch, "batches": batches, "rows": rows, "mark": mark, "loader": loader});
        place.fmt(f)
    }
}
