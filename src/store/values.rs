//! Columns that are no tensors: an Arrow file for us, JSON for Python.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use serde_json::Value as Json;

use super::arrow_file::{ArrowFile, ArrowWriter};
use super::json;
use super::json_values::{column, list_length, write_value};
use super::open::{Folder, Opened};
use super::sink::{Sink, sync, write_file};
use crate::error::{Error, Result};
use crate::schema::MAX_LEVELS;
use crate::tensor::{NonTensorStack, Value};

/// The Arrow file in a column's directory.
pub(super) const ARROW: &str = "values.arrow";

/// How the metadata of a stack of values begins that has an [`ARROW`] file beside it. Where Python writes it anew, it
/// says nothing of the file, and then the JSON counts.
const STACK: &str = concat!(
    r#"{"_type":"<class 'tensordict.tensorclass.NonTensorStack'>","_class":"tensordict:NonTensorStack","#,
    r#""_format_version":1,"stack_dim":0,"device":null,"_arrow":"values.arrow""#
);

/// The metadata of one value, up to it.
const SINGLE: &str = concat!(
    r#"{"_type":"<class 'tensordict.tensorclass.NonTensorData'>","_metadata":null,"_is_non_tensor":true,"#,
    r#""data":"#
);

/// Rows that are read at a time where they are written anew.
const AT_A_TIME: u64 = 4096;

/// A column of values that grows.
pub(super) struct Values {
    place: PathBuf,
    field: FieldRef,
    /// The sizes of the batch, the first as far as it is written.
    batch_size: Vec<i64>,
    arrow: ArrowWriter,
    /// `meta.json`, where there is to be one.
    json: Option<Sink>,
    lists: Lists,
}

/// How many values there are, how many are lists in JSON, and their length while they have one.
#[derive(Default)]
struct Lists {
    values: usize,
    lists: usize,
    length: Option<usize>,
    differ: bool,
}

impl Values {
    /// A column like this in a new directory, without values.
    pub(super) fn open(place: &Path, values: &NonTensorStack, json: bool) -> Result<Values> {
        std::fs::create_dir(place).map_err(|error| Error::io(place, "made", error))?;
        let field = Arc::clone(values.field());
        // What it was made of may not have known its field.
        let field = match field.data_type() == values.data_type() {
            true => field,
            false => Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone())),
        };
        let field = Arc::new(field.as_ref().clone().with_nullable(true));
        let mut json = json.then(|| Sink::new(place.join("meta.json")));
        let mut batch_size = values.batch_size().to_vec();
        if let Some(json) = &mut json {
            match batch_size.first_mut() {
                None => json.put(SINGLE.as_bytes())?,
                Some(_) => json.put([STACK, r#","data":["#].concat().as_bytes())?,
            }
        }
        if let Some(rows) = batch_size.first_mut() {
            *rows = 0;
        }
        let arrow = ArrowWriter::new(Sink::new(place.join(ARROW)), &field)?;
        Ok(Values { place: place.to_owned(), field, batch_size, arrow, json, lists: Lists::default() })
    }

    pub(super) fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    /// Whether it holds the one value of a batch without dims.
    pub(super) fn is_single(&self) -> bool {
        self.batch_size.is_empty()
    }

    pub(super) fn put(&mut self, values: &NonTensorStack) -> Result<()> {
        self.arrow.put(values.values())?;
        let Some(json) = &mut self.json else { return Ok(()) };
        let mut text = Vec::new();
        let mut next = 0;
        let (rows, within) = match values.batch_size().split_first() {
            None => (1, &[] as &[i64]),
            Some((rows, within)) => (*rows, within),
        };
        for row in 0..rows {
            if row > 0 || self.batch_size.first().is_some_and(|before| *before > 0) {
                text.push(b',');
            }
            write_nested(values, within, &mut next, &mut self.lists, &mut text)?;
            if text.len() > 1 << 16 {
                json.put(&text)?;
                text.clear();
            }
        }
        if self.batch_size.is_empty() {
            // It is read again, to see whether Python changed it.
            json::parse(&text).map_err(|error| error.remedy("give a struct's fields names that differ"))?;
        }
        json.put(&text)?;
        if let Some(before) = self.batch_size.first_mut() {
            *before += rows;
        }
        Ok(())
    }

    /// Everything on the disk; the Arrow file.
    pub(super) fn finish(self) -> Result<Sink> {
        let arrow = self.arrow.finish()?;
        if let Some(mut json) = self.json {
            let Lists { values, lists, differ, .. } = self.lists;
            let ambiguous = match self.batch_size.len() {
                0 => false,
                1 => values > 0 && lists == values && !differ,
                _ => lists > 0,
            };
            if ambiguous {
                // Python takes a list of lists of one length for a batch of another dim, so it gets a directory for
                // each value.
                drop(json);
                let path = self.place.join("meta.json");
                if path.exists() {
                    std::fs::remove_file(&path).map_err(|error| Error::io(&path, "removed", error))?;
                }
                let source = Opened::open(arrow.path())?;
                write_members(&self.place, &self.batch_size, &ArrowFile::open(&source)?, &mut 0, STACK)?;
            } else {
                json.put(if self.batch_size.is_empty() { b"}" } else { b"]}" })?;
                json.finish()?;
            }
        }
        sync(&self.place)?;
        Ok(arrow)
    }
}

/// The next values in JSON, in lists of these sizes.
fn write_nested(
    values: &NonTensorStack,
    sizes: &[i64],
    next: &mut usize,
    lists: &mut Lists,
    text: &mut Vec<u8>,
) -> Result<()> {
    let Some((size, within)) = sizes.split_first() else {
        let value = values.value(*next)?;
        *next += 1;
        lists.count(&value);
        write_value(&value, text);
        return Ok(());
    };
    text.push(b'[');
    for place in 0..*size {
        if place > 0 {
            text.push(b',');
        }
        write_nested(values, within, next, lists, text)?;
    }
    text.push(b']');
    Ok(())
}

impl Lists {
    fn count(&mut self, value: &Value) {
        self.values += 1;
        if let Some(length) = list_length(value) {
            self.lists += 1;
            self.differ |= *self.length.get_or_insert(length) != length;
        }
    }
}

/// A stack of values as directories, one for each.
fn write_members(place: &Path, sizes: &[i64], values: &ArrowFile<'_>, next: &mut u64, head: &str) -> Result<()> {
    write_file(place.join("meta.json"), [head, "}"].concat().as_bytes())?;
    let Some((size, within)) = sizes.split_first() else { return Ok(()) };
    let inner = STACK.split(r#","_arrow""#).next().unwrap_or(STACK);
    let mut waiting: Option<(u64, ArrayRef)> = None;
    for member in 0..*size {
        let member = place.join(member.to_string());
        std::fs::create_dir(&member).map_err(|error| Error::io(&member, "made", error))?;
        if within.is_empty() {
            let (start, part) = match waiting.take() {
                Some((start, part)) if *next < start + part.len() as u64 => (start, part),
                _ => (*next, values.read(*next, (*next + AT_A_TIME).min(values.rows()))?),
            };
            let mut text = SINGLE.as_bytes().to_vec();
            write_value(&Value::from_array(&part, (*next - start) as usize)?, &mut text);
            text.push(b'}');
            write_file(member.join("meta.json"), &text)?;
            waiting = Some((start, part));
            *next += 1;
        } else {
            write_members(&member, within, values, next, inner)?;
        }
        sync(&member)?;
    }
    Ok(())
}

/// Reads the values in a directory, of a batch of these sizes. With `rows`, those of its first dim alone.
pub(super) fn read_values(folder: &Folder, batch_size: &[i64], rows: Option<(i64, i64)>) -> Result<NonTensorStack> {
    let file = folder
        .file("meta.json")?
        .ok_or_else(|| Error::file(format!("there is no 'meta.json' in '{}'", folder.path().display())))?;
    let head = file.read_at(0, (STACK.len() as u64).min(file.bytes()))?;
    if head == STACK.as_bytes() {
        // The JSON isn't read, but was written to its end.
        if file.read_at(file.bytes() - 1, 1)? != b"}" || file.bytes() == STACK.len() as u64 {
            return Err(Error::file(format!("'{}' is cut off", file.path().display())));
        }
        let arrow = folder.file(ARROW)?;
        let arrow = arrow.ok_or_else(|| Error::file(format!("there is no '{ARROW}' in its directory")))?;
        return read_arrow(&arrow_values(&arrow)?, batch_size, rows);
    }
    let metadata = json::parse(&file.read()?)?;
    if class(&metadata) == Some("NonTensorData") {
        return read_single(folder, &metadata)?.broadcast(&part_of(batch_size, rows));
    }
    let mut found = Vec::new();
    match metadata.get("data") {
        Some(data @ Json::Array(_)) => flatten(data, batch_size, &mut found)?,
        Some(Json::String(_)) => return Err(pickled()),
        _ => read_members(folder, batch_size, &mut found, 0)?,
    }
    stack(&found, batch_size, rows)
}

pub(super) fn arrow_values(source: &Opened) -> Result<ArrowFile<'_>> {
    ArrowFile::open(source)
}

/// The values of an Arrow file as those of a batch.
pub(super) fn read_arrow(
    values: &ArrowFile<'_>,
    batch_size: &[i64],
    rows: Option<(i64, i64)>,
) -> Result<NonTensorStack> {
    let counted = |sizes: &[i64]| sizes.iter().try_fold(1u64, |count, size| count.checked_mul(size.unsigned_abs()));
    if counted(batch_size) != Some(values.rows()) {
        return Err(Error::file(format!(
            "its Arrow file has {} values, which is not the batch size {batch_size:?}",
            values.rows()
        )));
    }
    let within = counted(batch_size.get(1..).unwrap_or_default()).unwrap_or_default();
    let (start, end) = match rows {
        None => (0, values.rows()),
        Some((start, end)) => (start.unsigned_abs() * within, end.unsigned_abs() * within),
    };
    let array = values.read(start, end)?;
    NonTensorStack::with_field(Arc::clone(values.field()), array).shaped(&part_of(batch_size, rows))
}

/// JSON values as those of a batch.
pub(super) fn stack(values: &[Json], batch_size: &[i64], rows: Option<(i64, i64)>) -> Result<NonTensorStack> {
    let part = match (rows, batch_size.first()) {
        (Some((start, end)), Some(1..)) => {
            // There are as many values as places in the batch, so many in each row.
            let within = values.len() as i64 / batch_size[0];
            &values[(start * within) as usize..(end * within) as usize]
        }
        _ => values,
    };
    let part: Vec<&Json> = part.iter().collect();
    NonTensorStack::new(column(&part)?).shaped(&part_of(batch_size, rows))
}

/// The batch size that is left of one.
pub(super) fn part_of(batch_size: &[i64], rows: Option<(i64, i64)>) -> Vec<i64> {
    let mut sizes = batch_size.to_vec();
    if let (Some(first), Some((start, end))) = (sizes.first_mut(), rows) {
        *first = end - start;
    }
    sizes
}

/// The one value in a directory: the Arrow file's, if that is what the JSON says.
fn read_single(folder: &Folder, metadata: &Json) -> Result<NonTensorStack> {
    let said = metadata.get("data").ok_or_else(pickled)?;
    if let Some(arrow) = folder.file(ARROW)? {
        let values = arrow_values(&arrow)?;
        if values.rows() == 1 {
            let exact = read_arrow(&values, &[], None)?;
            let mut text = Vec::new();
            write_value(&exact.value(0)?, &mut text);
            if json::parse(&text).is_ok_and(|value| value == *said) {
                return Ok(exact);
            }
        }
    }
    NonTensorStack::single(column(&[said])?)
}

fn pickled() -> Error {
    Error::file("its values are pickled, which runs what a file says").remedy("save values that JSON has a form for")
}

/// All values of nested lists, which are as the batch size says.
fn flatten(data: &Json, sizes: &[i64], found: &mut Vec<Json>) -> Result<()> {
    let Some((size, within)) = sizes.split_first() else {
        found.push(data.clone());
        return Ok(());
    };
    let list = data.as_array().filter(|list| i64::try_from(list.len()) == Ok(*size));
    let list = list.ok_or_else(|| Error::file("its values are not as many as the batch size says"))?;
    list.iter().try_for_each(|item| flatten(item, within, found))
}

/// All values of the directories `0`, `1`, … in a directory.
fn read_members(folder: &Folder, sizes: &[i64], found: &mut Vec<Json>, depth: usize) -> Result<()> {
    let few = || Error::file("its values are not as many as the batch size says");
    let (size, within) = sizes.split_first().ok_or_else(few)?;
    if depth > MAX_LEVELS {
        return Err(Error::file(format!("it nests deeper than {MAX_LEVELS} levels")));
    }
    for member in 0..*size {
        let member = folder.folder(&member.to_string())?.ok_or_else(few)?;
        let metadata = json::parse(&member.read("meta.json")?)?;
        match (class(&metadata), metadata.get("data")) {
            (Some("NonTensorData"), Some(data)) => {
                let places = within.iter().try_fold(1i64, |places, size| places.checked_mul(*size));
                let places = places.and_then(|places| usize::try_from(places).ok());
                let places = places.filter(|places| found.try_reserve(*places).is_ok());
                let places = places.ok_or_else(|| Error::file("one value has more places than memory holds"))?;
                found.extend((0..places).map(|_| data.clone()));
            }
            (Some("NonTensorData"), None) | (_, Some(Json::String(_))) => return Err(pickled()),
            (_, Some(data)) => flatten(data, within, found)?,
            (_, None) => read_members(&member, within, found, depth + 1)?,
        }
    }
    Ok(())
}

/// The class that a metadata's `_class` or `_type` names, without its module.
pub(super) fn class(metadata: &Json) -> Option<&str> {
    let text = |name| metadata.get(name).and_then(Json::as_str);
    match text("_class") {
        Some(class) => class.rsplit([':', '.']).next(),
        None => text("_type")?.strip_suffix("'>")?.rsplit('.').next(),
    }
}
