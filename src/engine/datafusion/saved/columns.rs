//! What a saved tensordict is as rows and columns, by its metadata.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};

use super::form::Form;
use crate::convert::to_arrow;
use crate::dict::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::options::{ReadOptions, ToArrowOptions};
use crate::store::LoadOptions;

/// Where it is, and what is asked of it.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) form: Form,
    pub(super) path: PathBuf,
    pub(super) options: ReadOptions,
}

/// A saved tensordict, as it was when it was looked at.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) source: Source,
    pub(super) schema: SchemaRef,
    /// The rows asked for.
    pub(super) rows: Range<i64>,
    /// All rows that are there.
    num_rows: i64,
    /// As the schema's fields.
    columns: Vec<Column>,
    found: Identity,
}

/// One entry at the root.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    has_mask: bool,
    reads: Reads,
}

/// What loading a column's rows reads of the disk at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// Next to nothing: numbers are mapped.
    Nothing,
    /// The values of these rows.
    Rows,
    /// All that was saved, as only all values together say what type they are: JSON of Python's.
    All,
}

/// Which file or directory has the name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(source: &Source) -> Result<Identity> {
        let path = &source.path;
        let metadata = fs::metadata(path).map_err(|error| Error::io(path, "read", error))?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Identity { device: metadata.dev(), inode: metadata.ino(), modified })
    }
}

impl Saved {
    /// Reads the metadata; no values, but of columns whose metadata doesn't tell their type.
    ///
    /// # Errors
    ///
    /// What loading says, with the path; a [shape](Error::is_shape) error for what has no rows, or lazy stacks; what
    /// [`to_arrow`] says of columns that Arrow has no type for; an [index](Error::is_index) error for rows out of bounds.
    pub(super) fn inspect(source: &Source) -> Result<Saved> {
        Saved::read_metadata(source).map_err(|error| error.in_file(&source.path))
    }

    fn read_metadata(source: &Source) -> Result<Saved> {
        // What can't be found is told by the loading.
        let nothing = source.form.load(&source.path, &LoadOptions::default().keys(Vec::<NestedKey>::new()))?;
        let found = Identity::of(source)?;
        ensure_dense(&nothing)?;
        let Some(num_rows) = nothing.batch_size().first().copied() else {
            return Err(Error::shape("its batch size is [], so it has no rows")
                .remedy("load it in Rust, with load_memmap or load_safetensors"));
        };
        let rows = source.options.rows().cloned().unwrap_or(0..num_rows);
        if rows.end > num_rows {
            return Err(Error::index(format!("rows [{}, {}] are out of bounds for {num_rows}", rows.start, rows.end)));
        }
        let mut empty = load(source, LoadOptions::default().rows(0..0))?;
        ensure_dense(&empty)?;
        let mask_names = mask_names(&empty, source.options.mask_key())?;
        let mut columns = Vec::new();
        for (name, entry) in empty.items()? {
            let reads = reads(&entry)?;
            if reads == Reads::All {
                let all = load(source, LoadOptions::default().keys([name.as_str()]))?;
                if let Some(entry) = all.index(0..0)?.get(name.as_str())? {
                    empty.set(name.as_str(), entry)?;
                }
            }
            let has_mask = mask_names.contains(&name);
            columns.push(Column { name, has_mask, reads });
        }
        let schema = to_arrow(empty, &to_arrow_options(source))?.schema();
        // The masks are no column.
        columns.retain(|column| schema.index_of(&column.name).is_ok());
        let saved = Saved { source: source.clone(), schema, rows, num_rows, columns, found };
        saved.ensure_same()?;
        Ok(saved)
    }

    /// How the column at this place of the schema is read.
    pub(super) fn reads(&self, column: usize) -> Reads {
        self.columns[column].reads
    }

    /// Some rows of some columns, with their masks. `None` for all rows that were saved.
    pub(super) fn load(&self, columns: &[usize], rows: Option<Range<i64>>) -> Result<TensorDict> {
        let mut keys: Vec<NestedKey> = Vec::new();
        let mut masks = Vec::new();
        for column in columns.iter().map(|at| &self.columns[*at]) {
            keys.push(column.name.as_str().into());
            if let Some(mask_key) = self.source.options.mask_key().filter(|_| column.has_mask) {
                masks.push(column.name.as_str());
                keys.push(mask_key.child(column.name.as_str()));
            }
        }
        let rows = rows.unwrap_or(0..self.num_rows);
        let mut td = load(&self.source, LoadOptions::default().keys(keys).rows(rows))?;
        self.ensure_same()?;
        // A column that the masks lie within brings those of others.
        if let Some(mask_key) = self.source.options.mask_key() {
            for other in mask_names(&td, Some(mask_key))?.iter().filter(|name| !masks.contains(&name.as_str())) {
                td.remove(mask_key.child(other.as_str()))?;
            }
        }
        Ok(td)
    }

    /// Rows as a record batch: those at these places of a tensordict that was loaded.
    pub(super) fn batch(&self, td: &TensorDict, rows: Range<i64>) -> Result<RecordBatch> {
        to_arrow(td.index(rows)?, &to_arrow_options(&self.source)).map_err(|error| error.in_file(&self.source.path))
    }

    /// Fails if another tensordict has taken the name since this was looked at.
    pub(super) fn ensure_same(&self) -> Result<()> {
        match Identity::of(&self.source)? == self.found {
            true => Ok(()),
            false => Err(self.changed()),
        }
    }

    pub(super) fn changed(&self) -> Error {
        Error::file("it was replaced or written to while the query read it")
            .in_file(&self.source.path)
            .remedy("run the query again")
    }
}

fn load(source: &Source, options: LoadOptions) -> Result<TensorDict> {
    let td = source.form.load(&source.path, &options)?;
    match td.batch_size().as_slice() {
        // Further batch dims are dims of each column.
        [rows, _, ..] if !td.is_lazy() => {
            let rows = *rows;
            td.with_batch_size(&[rows])
        }
        _ => Ok(td),
    }
}

fn to_arrow_options(source: &Source) -> ToArrowOptions {
    match source.options.mask_key() {
        Some(key) => ToArrowOptions::default().mask_key(key.clone()),
        None => ToArrowOptions::default(),
    }
}

fn ensure_dense(td: &TensorDict) -> Result<()> {
    if !td.holds_lazy() {
        return Ok(());
    }
    Err(Error::shape("it holds a lazy stack, whose members may differ in what columns they give")
        .remedy("load it in Rust, make it dense with densify, and save that"))
}

/// The columns that have a mask.
fn mask_names(td: &TensorDict, mask_key: Option<&NestedKey>) -> Result<Vec<String>> {
    let masks = mask_key.map(|key| td.get(key)).transpose()?.flatten();
    Ok(match masks {
        Some(Entry::Dict(masks)) => masks.keys().collect(),
        _ => Vec::new(),
    })
}

fn reads(entry: &Entry) -> Result<Reads> {
    Ok(match entry {
        Entry::Tensor(_) | Entry::Jagged(_) => Reads::Nothing,
        Entry::NonTensor(values) if values.data_type() == &DataType::Null => Reads::All,
        Entry::NonTensor(_) => Reads::Rows,
        Entry::Dict(dict) => {
            let within: Vec<_> = dict.items()?.iter().map(|(_, entry)| reads(entry)).collect::<Result<_>>()?;
            let any = |kind| within.contains(&kind);
            match () {
                () if any(Reads::All) => Reads::All,
                () if any(Reads::Rows) => Reads::Rows,
                () => Reads::Nothing,
            }
        }
    })
}
