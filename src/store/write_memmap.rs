//! Tensordicts as directories of memory-mapped files.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use tch::Kind;

use super::SaveOptions;
use super::columns::{Column, Form, Level, ensure_shallow};
use super::kinds::torch_name;
use super::replace::{Staged, Target};
use super::sink::{sync, write_file};
use crate::dict::TensorDict;
use crate::error::{Error, Result};

/// Saves a tensordict as a directory of files that Python's `TensorDict.load_memmap` opens, and
/// [`load_memmap`](crate::load_memmap).
///
/// | entry | in the directory |
/// | --- | --- |
/// | tensor | `<key>.memmap`, its elements in row-major order, without a header |
/// | jagged | the same of its values, and `<key>.shape.memmap`, `int64[rows, dims]`, the sizes of each row. Python opens it as a nested tensor of layout strided; of one without rows, which libtorch can't hold, it says nothing |
/// | non-tensor | a directory with the values as JSON for Python and as an Arrow file, `values.arrow`, from which they come back as they were. Bytes are hex in the JSON, times ISO 8601, decimals text, maps lists of pairs, NaN null |
/// | dict | a directory like this one |
/// | lazy stack | a directory with one like this, `0`, `1`, …, for each member: keys, shapes and batch sizes may differ |
///
/// `meta.json` in each holds dtypes, shapes, the batch size, the names of its dims, and whether there is a device label;
/// the files are for the CPU, whatever the device. Characters of keys that file names can't have are percent-encoded.
///
/// The directory is seen once it is whole: everything is written to one beside it first, and is on the disk before that
/// takes its name. After a crash there is the old directory or the new one. Where the file system can't exchange two
/// directories at once (most can), a crash may leave the old one under another name beside the target, and loading says
/// which. A directory that is cut off on its way is named `.<name>.tensorquery-…` and can be removed.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::{LoadOptions, SaveOptions, TensorDict, load_memmap, save_memmap};
///
/// # let folder = tempfile::TempDir::new()?;
/// # let dir = folder.path().join("train");
/// let td = TensorDict::from_entries([("x", Tensor::from_slice(&[1.0f32, 2.0, 3.0]))])?.with_batch_size(&[3])?;
/// save_memmap(&td, &dir, &SaveOptions::default())?;     // in Python: TensorDict.load_memmap(dir)
///
/// let part = load_memmap(&dir, &LoadOptions::default().rows(1..3))?;
/// assert_eq!(Vec::<f32>::try_from(part.tensor("x")?)?, [2.0, 3.0]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// A [file](Error::is_file) error if the target is there already, unless [`SaveOptions::overwrite`] is on, or can't be
/// written; a [key](Error::is_key) error, with the key, for names that the metadata needs (`shape`, `device`, `_type`,
/// `_class`, `_format_version`, `_names`), keys whose files would be the same, and what nests deeper than 64 levels; a
/// [schema](Error::is_schema) error for tensors that are quantized or sparse. The target is then as before.
pub fn save_memmap(td: &TensorDict, dir: impl AsRef<Path>, options: &SaveOptions) -> Result<()> {
    let staged = Staged::begin(dir.as_ref(), Target::Directory, options.overwrite)?;
    write_tree(td, staged.place(), 0)?;
    staged.publish()
}

/// Writes tensordicts one after the other along dim 0 into a directory as [`save_memmap`] does, in memory that doesn't
/// grow with their number.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::{LoadOptions, MemmapWriter, SaveOptions, TensorDict, load_memmap};
///
/// # let folder = tempfile::TempDir::new()?;
/// # let dir = folder.path().join("train");
/// let mut writer = MemmapWriter::new(&dir, &SaveOptions::default())?;
/// for start in [0i64, 2, 4] {
///     let batch = TensorDict::from_entries([("x", Tensor::from_slice(&[start, start + 1]))])?.with_batch_size(&[2])?;
///     writer.append(&batch)?;
/// }
/// writer.finish()?;
/// assert_eq!(load_memmap(&dir, &LoadOptions::default())?.batch_size(), [6]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct MemmapWriter(Appending);

impl MemmapWriter {
    /// A writer for a directory that is seen once [`finish`](Self::finish) is done. Dropped before, it leaves nothing.
    ///
    /// # Errors
    ///
    /// A [file](Error::is_file) error as of [`save_memmap`].
    pub fn new(dir: impl AsRef<Path>, options: &SaveOptions) -> Result<MemmapWriter> {
        Appending::begin(dir.as_ref(), Target::Directory, Form::Memmap, options).map(MemmapWriter)
    }

    /// Puts a tensordict's rows after those that are there. The first one says what the columns are: keys, kinds,
    /// dtypes, and all sizes but the first.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) or [shape](Error::is_shape) error, with the key, if the tensordict has other columns than
    /// the first, or is or holds a lazy stack; nothing is written then, and the writer goes on. What [`save_memmap`]
    /// says; after an error while writing, the writer takes nothing more.
    pub fn append(&mut self, td: &TensorDict) -> Result<()> {
        self.0.append(td)
    }

    /// Puts the directory in place.
    ///
    /// # Errors
    ///
    /// A [file](Error::is_file) error if it can't be written, and a [shape](Error::is_shape) error if nothing was ever
    /// appended: then nobody knows what the columns are. The target is as before.
    pub fn finish(self) -> Result<()> {
        let (level, staged) = self.0.finish()?;
        finish(level)?;
        staged.publish()
    }
}

/// Columns under way, for either form.
pub(super) struct Appending {
    staged: Staged,
    form: Form,
    level: Option<Level>,
    failed: bool,
}

impl Appending {
    pub(super) fn begin(target: &Path, kind: Target, form: Form, options: &SaveOptions) -> Result<Appending> {
        let staged = Staged::begin(target, kind, options.overwrite)?;
        Ok(Appending { staged, form, level: None, failed: false })
    }

    pub(super) fn append(&mut self, td: &TensorDict) -> Result<()> {
        self.ensure_whole()?;
        let level = match &mut self.level {
            Some(level) => level,
            None => {
                let place = match self.form {
                    Form::Memmap => self.staged.place(),
                    Form::Safetensors => self.staged.workshop(),
                };
                // Half of the columns may be there.
                self.failed = true;
                let level = Level::open(td, place.clone(), self.form, 0)?;
                if let Err(error) = level.check(td) {
                    // A lazy stack is there already, which the next batch needn't have.
                    std::fs::remove_dir_all(&place).map_err(|error| Error::io(&place, "removed", error))?;
                    self.failed = false;
                    return Err(error);
                }
                self.failed = false;
                self.level.insert(level)
            }
        };
        level.check(td)?;
        level.write(td).inspect_err(|_| self.failed = true)
    }

    pub(super) fn finish(self) -> Result<(Level, Staged)> {
        self.ensure_whole()?;
        let level = self.level.ok_or_else(|| {
            Error::shape("nothing was appended, so nothing says what the columns are")
                .remedy("append a batch without rows")
        })?;
        Ok((level, self.staged))
    }

    fn ensure_whole(&self) -> Result<()> {
        match self.failed {
            false => Ok(()),
            true => Err(Error::file("a write failed before, so what is there is not whole").remedy("begin a new save")),
        }
    }
}

/// A tensordict of any kind in a new directory.
fn write_tree(td: &TensorDict, place: PathBuf, depth: usize) -> Result<()> {
    if td.is_lazy() {
        return write_stack(td, place, depth);
    }
    let mut level = Level::open(td, place, Form::Memmap, depth)?;
    level.check(td)?;
    level.write(td)?;
    finish(level)
}

/// A lazy stack in a new directory, each of its members in one of its own.
pub(super) fn write_stack(td: &TensorDict, place: PathBuf, depth: usize) -> Result<()> {
    ensure_shallow(depth)?;
    std::fs::create_dir(&place).map_err(|error| Error::io(&place, "made", error))?;
    let stack_dim = td.stack_dim().unwrap_or_default();
    for (at, member) in td.members().iter().enumerate() {
        write_tree(member, place.join(at.to_string()), depth + 1).map_err(|error| error.of_member(at, stack_dim))?;
    }
    let mut metadata = head("_lazy.LazyStackedTensorDict", "LazyStackedTensorDict");
    metadata.insert("stack_dim".into(), stack_dim.into());
    metadata.insert("stack_dim_name".into(), td.stack_dim_name().into());
    // For us: Python takes as many members as there are directories.
    metadata.insert("_members".into(), td.members().len().into());
    if td.members().is_empty() {
        metadata.insert("_batch_size".into(), td.batch_size().into());
        metadata.insert("_dim_names".into(), td.names()?.into());
        metadata.insert("_device".into(), label(td.device().is_some()).into());
    }
    write_metadata(&place, metadata)
}

/// Everything on the disk, and the metadata of it.
fn finish(level: Level) -> Result<()> {
    let mut metadata = head("_td.TensorDict", "TensorDict");
    metadata.insert("shape".into(), level.batch_size.into());
    metadata.insert("device".into(), label(level.labelled).into());
    if level.names.iter().any(Option::is_some) {
        metadata.insert("_names".into(), level.names.into());
    }
    for (name, column) in level.columns {
        let at = |error: Error| error.below(&name);
        let described = finish_column(column).map_err(at)?;
        metadata.insert(name, described);
    }
    write_metadata(&level.place, metadata)
}

fn finish_column(column: Column) -> Result<Json> {
    let collection = |kind: &str| json!({ "type": kind });
    let tensor = |kind: Kind, shape: &[i64], is_nested: bool| -> Result<Json> {
        Ok(json!({"device": "cpu", "shape": shape, "dtype": torch_name(kind)?, "is_nested": is_nested}))
    };
    match column {
        Column::Tensor(mut dense) => {
            dense.sink.finish()?;
            tensor(dense.kind, &dense.shape, false)
        }
        Column::Jagged(mut ragged) => {
            let values = ragged.values.finish()?;
            let rows = ragged.rows.finish()?;
            if rows && !values {
                // Python leaves out what has no file.
                std::fs::write(ragged.values.path(), b"")
                    .map_err(|error| Error::io(ragged.values.path(), "written", error))?;
                sync(ragged.values.path())?;
            }
            let dims = 1 + ragged.trailing.len() as i64;
            let mut described = tensor(ragged.kind, &[ragged.num_rows, dims], true)?;
            // For us: without rows, the matrix doesn't say.
            described["trailing"] = ragged.trailing.into();
            Ok(described)
        }
        Column::Values(values) => {
            let kind = if values.is_single() { "NonTensorData" } else { "NonTensorStack" };
            values.finish()?;
            Ok(collection(kind))
        }
        Column::Dict(level) => finish(level).map(|()| collection("TensorDict")),
        Column::Stack => Ok(collection("LazyStackedTensorDict")),
    }
}

fn head(module: &str, class: &str) -> Map<String, Json> {
    let items = [
        ("_type", json!(format!("<class 'tensordict.{module}'>"))),
        ("_class", json!(format!("tensordict:{class}"))),
        ("_format_version", json!(1)),
    ];
    items.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn label(labelled: bool) -> &'static str {
    if labelled { "cpu" } else { "None" }
}

fn write_metadata(place: &Path, metadata: Map<String, Json>) -> Result<()> {
    write_file(place.join("meta.json"), Json::Object(metadata).to_string().as_bytes())?;
    sync(place)
}
