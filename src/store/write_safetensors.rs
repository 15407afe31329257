//! Tensordicts as one safetensors file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value as Json, json};
use tch::Kind;

use super::SaveOptions;
use super::columns::{Column, Form, Level};
use super::kinds::{safetensors_dtype, size_of};
use super::replace::{Staged, Target};
use super::write_memmap::Appending;
use crate::dict::TensorDict;
use crate::error::{Error, Result};
use crate::key::NestedKey;

/// The item of a file's metadata that describes the tensordict, and the version of the description.
pub(super) const METADATA: &str = "tensordict";
pub(super) const VERSION: u64 = 1;

/// The longest header that readers take.
pub(super) const MAX_HEADER: u64 = 100_000_000;

/// Saves a tensordict as a safetensors file that Python's `tensordict.from_safetensors` opens, and
/// [`load_safetensors`](crate::load_safetensors).
///
/// A tensor is under its key, names joined by dots. The file's metadata says how they are a tensordict: batch sizes,
/// names of dims, stack dims. What safetensors have no form for is stored as tensors that Python opens as a nested
/// tensordict, and that are here what they were:
///
/// | entry | in the file |
/// | --- | --- |
/// | jagged | `<key>.values` and `<key>.offsets` |
/// | non-tensor | `<key>.arrow`, the bytes of an Arrow file, which `pyarrow.ipc.open_file` reads |
/// | lazy stack | its entries stacked, so all members must have the same keys, shapes and batch size |
///
/// Device labels are not stored. The file is seen once it is whole: it is written to a directory beside it first, and is
/// on the disk before it takes its name.
///
/// # Errors
///
/// A [file](Error::is_file) error if the target is there already, unless [`SaveOptions::overwrite`] is on, or can't be
/// written; a [key](Error::is_key) error, with the key, for two entries that get one name (`a.b` and `b` in `a`), for
/// keys that not all members of a lazy stack have, and what nests deeper than 64 levels; a [shape](Error::is_shape)
/// error for members that can't be stacked; a [schema](Error::is_schema) error for tensors that are quantized, sparse, or
/// of a complex type that isn't 64 bits wide. The target is then as before.
pub fn save_safetensors(td: &TensorDict, file: impl AsRef<Path>, options: &SaveOptions) -> Result<()> {
    let mut writer = SafetensorsWriter::new(file, options)?;
    writer.append(td)?;
    writer.finish()
}

/// Writes tensordicts one after the other along dim 0 into a file as [`save_safetensors`] does, in memory that doesn't
/// grow with their number. Columns go to files of their own beside the target, which are joined at the end.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::{LoadOptions, SafetensorsWriter, SaveOptions, TensorDict, load_safetensors};
///
/// # let folder = tempfile::TempDir::new()?;
/// # let file = folder.path().join("train.safetensors");
/// let mut writer = SafetensorsWriter::new(&file, &SaveOptions::default())?;
/// for start in [0i64, 2, 4] {
///     let batch = TensorDict::from_entries([("x", Tensor::from_slice(&[start, start + 1]))])?.with_batch_size(&[2])?;
///     writer.append(&batch)?;
/// }
/// writer.finish()?;
/// assert_eq!(load_safetensors(&file, &LoadOptions::default())?.batch_size(), [6]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct SafetensorsWriter(Appending);

impl SafetensorsWriter {
    /// A writer for a file that is seen once [`finish`](Self::finish) is done. Dropped before, it leaves nothing.
    ///
    /// # Errors
    ///
    /// A [file](Error::is_file) error as of [`save_safetensors`].
    pub fn new(file: impl AsRef<Path>, options: &SaveOptions) -> Result<SafetensorsWriter> {
        Appending::begin(file.as_ref(), Target::File, Form::Safetensors, options).map(SafetensorsWriter)
    }

    /// Puts a tensordict's rows after those that are there. The first one says what the columns are: keys, kinds,
    /// dtypes, and all sizes but the first.
    ///
    /// # Errors
    ///
    /// As [`MemmapWriter::append`](crate::MemmapWriter::append); lazy stacks are stacked.
    pub fn append(&mut self, td: &TensorDict) -> Result<()> {
        self.0.append(td)
    }

    /// Joins the columns and puts the file in place.
    ///
    /// # Errors
    ///
    /// As [`MemmapWriter::finish`](crate::MemmapWriter::finish), and a [file](Error::is_file) error for a header of more
    /// than 100 MB, which no reader takes.
    pub fn finish(self) -> Result<()> {
        let (level, staged) = self.0.finish()?;
        let mut pieces = Vec::new();
        let root = describe(level, &NestedKey::default(), &mut pieces)?;
        join(&root, pieces, &staged)?;
        staged.publish()
    }
}

/// A tensor of the file, and the file that its bytes are in.
struct Piece {
    key: NestedKey,
    kind: Kind,
    shape: Vec<i64>,
    path: PathBuf,
    bytes: u64,
}

impl Piece {
    fn name(&self) -> String {
        self.key.names().join(".")
    }
}

/// What the metadata says of a tensordict; its tensors go to `pieces`.
fn describe(level: Level, above: &NestedKey, pieces: &mut Vec<Piece>) -> Result<Json> {
    let batch_size = level.batch_size;
    let mut keys = Map::new();
    let mut put = |key: NestedKey, kind, shape, path: &Path, bytes| {
        let piece = Piece { key, kind, shape, path: path.to_owned(), bytes };
        let name = piece.name();
        pieces.push(piece);
        name
    };
    // A nested tensordict of tensors that have nothing to do with the batch.
    let parts = |kind: &str, parts: &[(&str, String)]| {
        let keys: Map<_, _> =
            parts.iter().map(|(part, name)| ((*part).to_owned(), json!({"tensor": name, "unbatched": true}))).collect();
        json!({"td": {"batch_size": batch_size, "names": null, "keys": keys}, "kind": kind})
    };
    let mut nested = Vec::new();
    for (name, column) in level.columns {
        let key = above.child(&name);
        let at = |error: Error| error.at(&key);
        let described = match column {
            Column::Tensor(mut dense) => {
                dense.sink.finish().map_err(at)?;
                let name = put(key, dense.kind, dense.shape, dense.sink.path(), dense.sink.bytes());
                json!({"tensor": name})
            }
            Column::Jagged(mut ragged) => {
                ragged.values.finish().map_err(at)?;
                ragged.rows.finish().map_err(at)?;
                let shape = std::iter::once(ragged.total).chain(ragged.trailing).collect();
                let (values, rows) = (ragged.values, ragged.rows);
                let values = put(key.child("values"), ragged.kind, shape, values.path(), values.bytes());
                let ends = vec![ragged.num_rows + 1];
                let offsets = put(key.child("offsets"), Kind::Int64, ends, rows.path(), rows.bytes());
                parts("jagged", &[("values", values), ("offsets", offsets)])
            }
            Column::Values(values) => {
                let arrow = values.finish().map_err(at)?;
                let shape = vec![i64::try_from(arrow.bytes()).unwrap_or(i64::MAX)];
                let name = put(key.child("arrow"), Kind::Uint8, shape, arrow.path(), arrow.bytes());
                parts("non_tensor", &[("arrow", name)])
            }
            Column::Dict(level) => {
                nested.push((name.clone(), level, key));
                Json::Null
            }
            Column::Stack => continue,
        };
        keys.insert(name, described);
    }
    for (name, level, key) in nested {
        let below = describe(level, &key, pieces)?;
        keys.insert(name, json!({"td": below}));
    }
    let names = level.names.iter().any(Option::is_some).then_some(level.names);
    let mut described = json!({"batch_size": batch_size, "names": names, "keys": keys});
    if let Some(dim) = level.stack_dim {
        described["stack_dim"] = dim.into();
    }
    Ok(described)
}

/// One file of them all.
fn join(root: &Json, mut pieces: Vec<Piece>, staged: &Staged) -> Result<()> {
    // Wider elements first, so that each tensor begins at a multiple of its element's size.
    pieces.sort_by_key(|piece| std::cmp::Reverse(size_of(piece.kind)));
    let mut keys: HashMap<String, NestedKey> = HashMap::new();
    let mut infos = Vec::with_capacity(pieces.len());
    let mut end = 0usize;
    for piece in &pieces {
        let name = piece.name();
        if name == "__metadata__" {
            return Err(Error::key("safetensors have another use for this name")
                .at(&piece.key)
                .remedy("rename the key"));
        }
        if let Some(other) = keys.insert(name.clone(), piece.key.clone()) {
            return Err(Error::key(format!("its name in the file, '{name}', is that of {other}, too"))
                .at(&piece.key)
                .remedy("rename one of them"));
        }
        let start = end;
        let length = usize::try_from(piece.bytes).ok().and_then(|bytes| start.checked_add(bytes));
        end = length.ok_or_else(|| Error::file("more bytes than can be counted"))?;
        let shape = piece.shape.iter().map(|size| usize::try_from(*size).unwrap_or_default()).collect();
        let info = TensorInfo { dtype: safetensors_dtype(piece.kind)?, shape, data_offsets: (start, end) };
        infos.push((name, info));
    }
    let described = json!({"version": VERSION, "root": root}).to_string();
    let metadata = Metadata::new(Some(HashMap::from([(METADATA.to_owned(), described)])), infos);
    let metadata = metadata.map_err(|error| Error::file(format!("the header can't be made: {error}")))?;
    let header = serde_json::to_vec(&metadata);
    let mut header = header.map_err(|error| Error::file(format!("the header can't be made: {error}")))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = header.len() as u64;
    if length > MAX_HEADER {
        return Err(Error::file(format!("its header has {length} bytes, readers take {MAX_HEADER}"))
            .remedy("save_memmap has no such limit"));
    }
    let place = staged.place();
    let written = |error| Error::io(&place, "written", error);
    let mut file = File::create_new(&place).map_err(written)?;
    file.write_all(&length.to_le_bytes()).and_then(|()| file.write_all(&header)).map_err(written)?;
    for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
        let mut part = File::open(&piece.path).map_err(|error| Error::io(&piece.path, "read", error))?;
        if io::copy(&mut part, &mut file).map_err(written)? != piece.bytes {
            return Err(Error::file("a column's file was changed meanwhile").at(&piece.key));
        }
    }
    file.sync_all().map_err(written)
}
