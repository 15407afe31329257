//! Tensordicts from safetensors files.

use std::path::Path;

use safetensors::tensor::Metadata;
use serde_json::{Map, Value as Json};
use tch::{Device, Kind, Tensor};

use super::LoadOptions;
use super::arrow_file::ArrowFile;
use super::columns::ensure_shallow;
use super::json;
use super::kinds::{Stored, extent, nothing};
use super::open::Opened;
use super::options::Wanted;
use super::read_memmap::{narrowed, none_of};
use super::values::{part_of, read_arrow};
use super::write_safetensors::{MAX_HEADER, METADATA, VERSION};
use crate::dict::{Entry, LazyStackBuilder, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::tensor::{JaggedTensor, NonTensorStack};

/// Loads a file that [`save_safetensors`](crate::save_safetensors), [`SafetensorsWriter`](crate::SafetensorsWriter) or
/// Python's `tensordict.to_safetensors` wrote. Any other safetensors file, such as a model's, becomes nested tensordicts
/// without batch dims: names are split at their dots.
///
/// Tensors are parts of one map of the file: a part is read when it is touched, and what is written to a tensor stays in
/// memory. The exceptions are those of [`load_memmap`](crate::load_memmap), and tensors that don't begin at a multiple
/// of their element's size, which are copied.
///
/// All that the header says is checked against the file's size before anything is allocated. The file must not be
/// shortened or written to while a tensor of it lives: the system ends a process that reads behind the end of a map.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::{LoadOptions, SaveOptions, TensorDict, load_safetensors, save_safetensors};
///
/// # let folder = tempfile::TempDir::new()?;
/// # let file = folder.path().join("train.safetensors");
/// let mut td = TensorDict::new([2]);
/// td.set("x", Tensor::from_slice(&[1.0f32, 2.0]))?;
/// td.set(["nested", "y"], Tensor::from_slice(&[3i64, 4]))?;
/// save_safetensors(&td, &file, &SaveOptions::default())?;     // in Python: tensordict.from_safetensors(file)
///
/// let part = load_safetensors(&file, &LoadOptions::default().keys([["nested", "y"]]))?;
/// assert_eq!(Vec::<i64>::try_from(part.tensor(["nested", "y"])?)?, [3, 4]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// A [file](Error::is_file) error, with the key where it is known, if the file can't be read, or isn't what it should
/// be; a [key](Error::is_key) error for a key that is asked for and not there; an [index](Error::is_index) error for
/// rows out of bounds.
pub fn load_safetensors(file: impl AsRef<Path>, options: &LoadOptions) -> Result<TensorDict> {
    let file = Opened::open(file.as_ref())?;
    let (header, start) = read_header(&file)?;
    let bytes = i64::try_from(file.bytes()).map_err(|_| Error::file("more bytes than can be counted"))?;
    let mut reader =
        Reader { content: file.map(bytes, Kind::Uint8)?, start, header, options, seen: options.unseen(), used: 0 };
    let described = reader.header.metadata().as_ref().and_then(|metadata| metadata.get(METADATA)).cloned();
    let td = match described {
        None => reader.load_flat()?,
        Some(described) => reader.load_described(&described)?,
    };
    options.ensure_seen(&reader.seen)?;
    Ok(td)
}

/// The header, which fits the file's size, and where it ends.
fn read_header(file: &Opened) -> Result<(Metadata, u64)> {
    let broken = |how: String| Error::file(format!("'{}' is no safetensors file: {how}", file.path().display()));
    let length: [u8; 8] = match file.bytes() {
        0..8 => return Err(broken(format!("it has {} bytes", file.bytes()))),
        _ => file.read_at(0, 8)?.try_into().unwrap_or_default(),
    };
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER || length > file.bytes() - 8 {
        let found = format!("its header is to have {length} bytes, the file has {}", file.bytes());
        return Err(broken(found));
    }
    let text = file.read_at(8, length)?;
    // A name that stands twice, and what nests deep, is found here.
    json::parse(&text)?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
    let due = (8 + length).checked_add(header.data_len() as u64);
    if due != Some(file.bytes()) {
        let found =
            format!("its tensors have {} bytes, after the header are {}", header.data_len(), file.bytes() - 8 - length);
        return Err(broken(found));
    }
    Ok((header, 8 + length))
}

struct Reader<'a> {
    /// The file as bytes.
    content: Tensor,
    /// Where the header ends.
    start: u64,
    header: Metadata,
    options: &'a LoadOptions,
    /// Which of the keys asked for are there.
    seen: Vec<bool>,
    /// How many of the file's tensors the description names.
    used: usize,
}

impl Reader<'_> {
    /// All tensors, their names split at the dots.
    fn load_flat(&mut self) -> Result<TensorDict> {
        let mut td = TensorDict::new([]);
        if self.options.part(&[])?.is_some() {
            return Ok(td);
        }
        for name in self.header.offset_keys() {
            let key = NestedKey::from(name.split('.').map(str::to_owned).collect::<Vec<_>>());
            ensure_shallow(key.names().len() - 1)?;
            let mut wanted = Some(self.options.wanted());
            for name in key.names() {
                wanted = wanted.and_then(|wanted| wanted.below(name, &mut self.seen));
            }
            if wanted.is_some_and(|wanted| wanted.is_all()) {
                let tensor = self.tensor(&name, None).map_err(|error| error.at(&key))?;
                td.set(&key, tensor)?;
            }
        }
        Ok(td)
    }

    fn load_described(&mut self, described: &str) -> Result<TensorDict> {
        let described = json::parse(described.as_bytes())?;
        match described.get("version") {
            Some(version) if version.as_u64() == Some(VERSION) => {}
            version => {
                let version = version.unwrap_or(&Json::Null);
                return Err(Error::file(format!("its description has the version {version}, {VERSION} is known")));
            }
        }
        let root = described.get("root").and_then(Json::as_object);
        let root = root.ok_or_else(|| Error::file("its description has no root"))?;
        let wanted = self.options.wanted();
        let whole = wanted.is_all();
        let td = self.load_level(root, &wanted, 0)?;
        let count = self.header.offset_keys().len();
        if whole && self.used != count {
            return Err(Error::file(format!("it has {count} tensors, its description names {}", self.used)));
        }
        Ok(td)
    }

    fn load_level(&mut self, level: &Map<String, Json>, wanted: &Wanted<'_>, depth: usize) -> Result<TensorDict> {
        ensure_shallow(depth)?;
        if let Some(class) = level.get("class") {
            return Err(Error::file(format!("it holds a {class}, which is no tensordict")));
        }
        let batch_size = json::sizes(level, "batch_size")?;
        let rows = self.options.part(&batch_size)?;
        let keys = level.get("keys").and_then(Json::as_object);
        let keys = keys.ok_or_else(|| Error::file("'keys' is missing in its description"))?;
        let mut td = TensorDict::new(part_of(&batch_size, rows));
        for (name, described) in keys {
            let Some(wanted) = wanted.below(name, &mut self.seen) else { continue };
            let entry = described.as_object().ok_or_else(|| Error::file("its description is no object"));
            let entry = entry.and_then(|described| self.load_entry(described, &batch_size, rows, &wanted, depth));
            td.set(name.as_str(), entry.map_err(|error| error.below(name))?)?;
        }
        if let Some(names) = json::dim_names(level, "names")? {
            td.set_names(names)?;
        }
        match level.get("stack_dim") {
            None | Some(Json::Null) => Ok(td),
            Some(dim) => {
                let dim = dim.as_u64().and_then(|dim| usize::try_from(dim).ok()).filter(|dim| *dim < batch_size.len());
                stacked(td, dim.ok_or_else(|| Error::file("its stack dim is none of its batch dims"))?)
            }
        }
    }

    fn load_entry(
        &mut self,
        described: &Map<String, Json>,
        batch_size: &[i64],
        rows: Option<(i64, i64)>,
        wanted: &Wanted<'_>,
        depth: usize,
    ) -> Result<Entry> {
        let kind = described.get("kind").and_then(Json::as_str);
        let level = described.get("td").and_then(Json::as_object);
        if let (Some(level), None) = (level, kind) {
            return self.load_level(level, wanted, depth + 1).map(Entry::Dict);
        }
        if !wanted.is_all() {
            return Err(Error::key("it is no tensordict, there is nothing below it"));
        }
        match (level, kind) {
            (Some(level), Some("jagged")) => self.jagged(level, batch_size, rows).map(Entry::from),
            (Some(level), Some("non_tensor")) => {
                let bytes = self.tensor(part(level, "arrow")?, None)?;
                if bytes.f_kind()? != Kind::Uint8 || bytes.dim() != 1 {
                    return Err(Error::file("its Arrow file is no tensor of bytes"));
                }
                read_arrow(&ArrowFile::open(&bytes)?, batch_size, rows).map(Entry::NonTensor)
            }
            (Some(_), Some(kind)) => Err(Error::file(format!("it is of the kind '{kind}', which isn't known"))),
            _ => match (described.get("tensor").and_then(Json::as_str), described.get("non_tensor")) {
                (Some(name), _) => {
                    let tensor = self.tensor(name, rows)?;
                    let sizes = part_of(batch_size, rows);
                    if !tensor.size().starts_with(&sizes) {
                        return Err(Error::file(format!(
                            "its shape is {:?}, but the batch size is {sizes:?}",
                            tensor.size()
                        )));
                    }
                    Ok(tensor.into())
                }
                (None, Some(value)) => {
                    let value = super::json_values::column(&[value])?;
                    Ok(NonTensorStack::single(value)?.broadcast(&part_of(batch_size, rows))?.into())
                }
                (None, None) => Err(Error::file("its description says not what it is")),
            },
        }
    }

    /// A jagged tensor, or some of its rows: of the others neither values nor offsets are read.
    fn jagged(
        &mut self,
        level: &Map<String, Json>,
        batch_size: &[i64],
        rows: Option<(i64, i64)>,
    ) -> Result<JaggedTensor> {
        let (values, offsets) = (part(level, "values")?, part(level, "offsets")?);
        let num_rows = batch_size.first().copied().unwrap_or_default();
        let (start, end) = rows.unwrap_or((0, num_rows));
        if none_of(rows) {
            self.used += 1;
            let offsets = Tensor::f_zeros([1], (Kind::Int64, Device::Cpu))?;
            return JaggedTensor::try_new(self.tensor(values, Some((0, 0)))?, offsets);
        }
        let offsets = self.tensor(offsets, None)?;
        if offsets.size() != [num_rows.saturating_add(1)] || offsets.f_kind()? != Kind::Int64 {
            return Err(Error::file(format!("its offsets are not those of the batch size {batch_size:?}")));
        }
        let (first, last) = (offsets.f_int64_value(&[start])?, offsets.f_int64_value(&[end])?);
        let there = self.header.info(values).and_then(|info| info.shape.first()).map(|size| *size as i64);
        let whole = (start > 0 || first == 0) && (end < num_rows || Some(last) == there);
        if !whole || first < 0 || first > last {
            return Err(Error::file(format!("its offsets, from {first} to {last}, are not those of its values")));
        }
        let offsets = offsets.f_narrow(0, start, end - start + 1)?.f_sub(&Tensor::f_from_slice(&[first])?)?;
        JaggedTensor::try_new(self.tensor(values, Some((first, last)))?, offsets)
    }

    /// A tensor of the file, or some of its rows.
    fn tensor(&mut self, name: &str, rows: Option<(i64, i64)>) -> Result<Tensor> {
        let info = self.header.info(name).ok_or_else(|| Error::file(format!("there is no tensor '{name}'")))?;
        self.used += 1;
        let stored = Stored::of_safetensors(info.dtype)?;
        let shape: Option<Vec<i64>> = info.shape.iter().map(|size| i64::try_from(*size).ok()).collect();
        let shape = shape.ok_or_else(|| Error::file(format!("{:?} is no shape of a tensor", info.shape)))?;
        let (numel, bytes) = extent(&shape, stored.size())?;
        if rows.is_some_and(|(_, end)| shape.first().is_none_or(|rows| end > *rows)) {
            return Err(Error::file(format!("its shape is {shape:?}, which has not the rows of its batch")));
        }
        if numel == 0 {
            return narrowed(&nothing(&shape, stored.mapped())?, rows);
        }
        // Checked against the file's size, which is an i64.
        let mut start = (self.start + info.data_offsets.0 as u64) as i64;
        let (mut bytes, mut shape) = (bytes as i64, shape);
        if let Some((from, to)) = rows {
            let row = bytes / shape[0];
            (start, bytes, shape[0]) = (start + from * row, (to - from) * row, to - from);
        }
        let mut part = self.content.f_narrow(0, start, bytes)?;
        if start % stored.size() as i64 != 0 {
            part = part.f_alias_copy()?;
        }
        stored.settled(part.f_view_dtype(stored.mapped())?.f_view(shape.as_slice())?)
    }
}

/// The name of a tensor that an entry is made of.
fn part<'a>(level: &'a Map<String, Json>, name: &str) -> Result<&'a str> {
    let found = level.get("keys").and_then(|keys| keys.get(name)?.get("tensor")?.as_str());
    found.ok_or_else(|| Error::file(format!("its description names no '{name}'")))
}

/// A lazy stack of the parts of a tensordict along a dim.
fn stacked(td: TensorDict, dim: usize) -> Result<TensorDict> {
    let mut names = td.names()?;
    let mut sizes = td.batch_size();
    let at = i64::try_from(dim).unwrap_or(i64::MAX);
    let mut builder = LazyStackBuilder::new(td.unbind(at)?).stack_dim(at);
    if sizes[dim] == 0 {
        sizes.remove(dim);
        builder = builder.batch_size(sizes);
    }
    if let Some(name) = names.swap_remove(dim) {
        builder = builder.stack_dim_name(name);
    }
    builder.build()
}
