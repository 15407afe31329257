//! Tensordicts from directories of memory-mapped files.

use std::path::Path;

use serde_json::{Map, Value as Json};
use tch::{Device, Kind, Tensor};

use super::LoadOptions;
use super::columns::ensure_shallow;
use super::json;
use super::kinds::{Stored, extent, nothing};
use super::names::{encoded, legacy};
use super::open::{Folder, Opened};
use super::options::Wanted;
use super::replace::missing;
use super::values::{class, part_of, read_values};
use crate::dict::{Entry, LazyStackBuilder, TensorDict};
use crate::error::{Error, Result};
use crate::tensor::JaggedTensor;

/// The newest version of the format that is known.
const VERSION: i64 = 1;

/// Loads a directory that [`save_memmap`](crate::save_memmap), [`MemmapWriter`](crate::MemmapWriter) or Python's
/// `TensorDict.memmap` wrote.
///
/// Tensors are maps of the files: a part of one is read when it is touched, and what is written to a tensor stays in
/// memory. The exceptions are booleans, which are checked to be 0 or 1, lengths of ragged rows, unsigned numbers of 16
/// to 64 bits, which widen as those of columns do, and what is no tensor: these are read, the rows asked for alone.
/// Strided nested tensors become jagged ones. Lazy stacks are lazy stacks again; [`rows`](LoadOptions::rows) of one that
/// is stacked along the first dim are its members. Values that Python wrote become Arrow strings, booleans, int64,
/// float64, and lists and structs of such.
///
/// All that the files say is checked against their sizes before anything is allocated, and no path leads out of the
/// directory. A directory that a save replaces meanwhile gives the old tensordict or an error. The files must not be
/// shortened or written to while a tensor of theirs lives: the system ends a process that reads behind the end of a map.
///
/// # Errors
///
/// A [file](Error::is_file) error, with the key, if the directory can't be read, or isn't what it should be: a file is
/// missing, shorter or longer than it should be, a symbolic link, or says what can't be; a [key](Error::is_key) error
/// for a key that is asked for and not there; an [index](Error::is_index) error for rows out of bounds; a
/// [schema](Error::is_schema) error for non-tensor values of different types, and a [shape](Error::is_shape) error for a
/// nested tensor whose rows differ in another dim than their first, which no entry holds.
pub fn load_memmap(dir: impl AsRef<Path>, options: &LoadOptions) -> Result<TensorDict> {
    let dir = dir.as_ref();
    let folder = Folder::open(dir).map_err(|error| missing(dir, error))?;
    let mut reader = Reader { options, seen: options.unseen() };
    let td = reader.load(&folder, &options.wanted(), true, 0)?;
    options.ensure_seen(&reader.seen)?;
    Ok(td)
}

struct Reader<'a> {
    options: &'a LoadOptions,
    /// Which of the keys asked for are there.
    seen: Vec<bool>,
}

impl Reader<'_> {
    /// The tensordict in a directory; all its rows unless `part`.
    fn load(&mut self, folder: &Folder, wanted: &Wanted<'_>, part: bool, depth: usize) -> Result<TensorDict> {
        ensure_shallow(depth)?;
        let metadata = json::parse(&folder.read("meta.json")?)?;
        let class = class(&metadata).map(str::to_owned);
        let Json::Object(metadata) = metadata else {
            return Err(Error::file(format!("the metadata in '{}' is no object", folder.path().display())));
        };
        match metadata.get("_format_version") {
            None => {}
            // Of an entry of that name, which older versions had no place for.
            Some(Json::Object(_)) => {}
            Some(version) if version.as_i64().is_some_and(|version| version <= VERSION) => {}
            Some(version) => {
                return Err(Error::file(format!(
                    "it has the format version {version}, those up to {VERSION} are known"
                )));
            }
        }
        match class.as_deref() {
            Some("TensorDict") => self.load_dict(folder, metadata, wanted, part, depth),
            Some("LazyStackedTensorDict") => self.load_stack(folder, &metadata, wanted, part, depth),
            Some(class) => Err(Error::file(format!("it holds a {class}, which is no tensordict"))
                .remedy("save it as a plain TensorDict, in Python with to_tensordict()")),
            None => Err(Error::file(format!("'_type' is missing in '{}'", folder.path().display()))),
        }
    }

    fn load_dict(
        &mut self,
        folder: &Folder,
        metadata: Map<String, Json>,
        wanted: &Wanted<'_>,
        part: bool,
        depth: usize,
    ) -> Result<TensorDict> {
        let batch_size = json::sizes(&metadata, "shape")?;
        let rows = if part { self.options.part(&batch_size)? } else { None };
        let sizes = part_of(&batch_size, rows);
        let labelled = metadata.get("device").and_then(Json::as_str) == Some("cpu");
        let mut td = if labelled { TensorDict::on_device(sizes, Device::Cpu) } else { TensorDict::new(sizes) };
        let names = if metadata.get("_names").is_some_and(Json::is_object) {
            None
        } else {
            json::dim_names(&metadata, "_names")?
        };
        for (name, described) in metadata {
            // Other items are about the tensordict itself.
            let Json::Object(described) = described else { continue };
            let Some(wanted) = wanted.below(&name, &mut self.seen) else { continue };
            let entry = self.load_entry(folder, &name, &described, &batch_size, rows, &wanted, depth);
            td.set(name.as_str(), entry.map_err(|error| error.below(&name))?)?;
        }
        if let Some(names) = names {
            td.set_names(names)?;
        }
        Ok(td)
    }

    #[expect(clippy::too_many_arguments, reason = "where it is, what is said of it, what is asked for")]
    fn load_entry(
        &mut self,
        folder: &Folder,
        name: &str,
        described: &Map<String, Json>,
        batch_size: &[i64],
        rows: Option<(i64, i64)>,
        wanted: &Wanted<'_>,
        depth: usize,
    ) -> Result<Entry> {
        if described.contains_key("type") {
            let within = match folder.folder(&encoded(name))? {
                None => legacy(name).map(|name| folder.folder(name)).transpose()?.flatten(),
                within => within,
            };
            let within = within.ok_or_else(|| Error::file(format!("there is no directory '{}'", encoded(name))))?;
            let kind = described.get("type").and_then(Json::as_str).unwrap_or_default();
            if !kind.starts_with("NonTensor") {
                return self.load(&within, wanted, rows.is_some(), depth + 1).map(Entry::Dict);
            }
            if !wanted.is_all() {
                return Err(Error::key("it is no tensordict, there is nothing below it"));
            }
            return read_values(&within, batch_size, rows).map(Entry::NonTensor);
        }
        if !wanted.is_all() {
            return Err(Error::key("it is no tensordict, there is nothing below it"));
        }
        let stored = Stored::of_torch(json::text(described, "dtype")?)?;
        let shape = json::sizes(described, "shape")?;
        if described.get("is_nested").and_then(Json::as_bool).unwrap_or(false) {
            return load_jagged(folder, name, described, stored, &shape, rows).map(Entry::Jagged);
        }
        if !shape.starts_with(batch_size) {
            return Err(Error::file(format!("its shape is {shape:?}, but the batch size is {batch_size:?}")));
        }
        let (numel, bytes) = extent(&shape, stored.size())?;
        let tensor = match numel {
            _ if none_of(rows) => {
                return stored.settled(nothing(&part_of(&shape, rows), stored.mapped())?).map(Entry::Tensor);
            }
            0 => nothing(&shape, stored.mapped())?,
            numel => sized(folder, name, ".memmap", bytes)?.map(numel, stored.mapped())?.f_view(shape.as_slice())?,
        };
        stored.settled(narrowed(&tensor, rows)?).map(Entry::Tensor)
    }

    fn load_stack(
        &mut self,
        folder: &Folder,
        metadata: &Map<String, Json>,
        wanted: &Wanted<'_>,
        part: bool,
        depth: usize,
    ) -> Result<TensorDict> {
        let stack_dim = metadata.get("stack_dim").and_then(Json::as_u64).and_then(|dim| usize::try_from(dim).ok());
        let stack_dim = stack_dim.ok_or_else(|| Error::file("'stack_dim' in its metadata is missing or no dim"))?;
        let dim = i64::try_from(stack_dim).unwrap_or(i64::MAX);
        let mut count = 0u64;
        let expected = metadata.get("_members").and_then(Json::as_u64);
        while expected.is_none_or(|expected| count < expected) && folder.folder(&count.to_string())?.is_some() {
            count += 1;
        }
        if expected.is_some_and(|expected| expected != count) {
            return Err(Error::file(format!("there is no member '{count}' in '{}'", folder.path().display())));
        }
        // Along the stack dim, rows are members.
        let chosen = if part && stack_dim == 0 { self.options.part(&[count as i64])? } else { None };
        let (start, end) = chosen.map_or((0, count), |(start, end)| (start.unsigned_abs(), end.unsigned_abs()));
        let mut members = Vec::new();
        for at in start..end {
            let member = folder.folder(&at.to_string())?;
            let member = member.ok_or_else(|| Error::file(format!("there is no member '{at}' any more")))?;
            let member = self.load(&member, wanted, part && stack_dim > 0, depth + 1);
            members.push(member.map_err(|error| error.of_member(at as usize, stack_dim))?);
        }
        let none = members.is_empty();
        let mut builder = LazyStackBuilder::new(members).stack_dim(dim);
        if none {
            builder = self.like_members(folder, metadata, builder, (stack_dim, count), wanted, part, depth)?;
        }
        if let Some(name) = metadata.get("stack_dim_name").and_then(Json::as_str) {
            builder = builder.stack_dim_name(name);
        }
        builder.build()
    }

    /// What the members of a stack without any would be.
    #[expect(clippy::too_many_arguments, reason = "where it is, what is said of it, what is asked for")]
    fn like_members(
        &mut self,
        folder: &Folder,
        metadata: &Map<String, Json>,
        builder: LazyStackBuilder,
        (stack_dim, count): (usize, u64),
        wanted: &Wanted<'_>,
        part: bool,
        depth: usize,
    ) -> Result<LazyStackBuilder> {
        if count > 0 {
            // There are members, but none were asked for.
            let first = folder.folder("0")?.ok_or_else(|| Error::file("there is no member '0' any more"))?;
            let first = self.load(&first, wanted, part && stack_dim > 0, depth + 1)?;
            let builder = builder.batch_size(first.batch_size());
            return Ok(match first.device() {
                Some(device) => builder.device(device),
                None => builder,
            });
        }
        if !metadata.contains_key("_batch_size") {
            return Ok(builder);
        }
        let mut sizes = json::sizes(metadata, "_batch_size")?;
        if stack_dim >= sizes.len() {
            return Err(Error::file("its stack dim is none of its batch dims"));
        }
        sizes.remove(stack_dim);
        if part && stack_dim > 0 {
            sizes = part_of(&sizes, self.options.part(&sizes)?);
        }
        let builder = builder.batch_size(sizes);
        Ok(match metadata.get("_device").and_then(Json::as_str) {
            Some("cpu") => builder.device(Device::Cpu),
            _ => builder,
        })
    }
}

/// Whether no rows are asked for, so that no file of values needs to be opened.
pub(super) fn none_of(rows: Option<(i64, i64)>) -> bool {
    rows.is_some_and(|(start, end)| start == end)
}

/// The file of a tensor, which must have so many bytes.
fn sized(folder: &Folder, name: &str, suffix: &str, bytes: u64) -> Result<Opened> {
    let called = encoded(name) + suffix;
    let file = match folder.file(&called)? {
        None => legacy(name).map(|name| folder.file(&format!("{name}{suffix}"))).transpose()?.flatten(),
        file => file,
    };
    let file =
        file.ok_or_else(|| Error::file(format!("there is no file '{called}' in '{}'", folder.path().display())))?;
    if file.bytes() != bytes {
        return Err(Error::file(format!(
            "'{}' has {} bytes, by its dtype and shape it has {bytes}",
            file.path().display(),
            file.bytes()
        )));
    }
    Ok(file)
}

pub(super) fn narrowed(tensor: &Tensor, rows: Option<(i64, i64)>) -> Result<Tensor> {
    match rows {
        None => Ok(tensor.shallow_clone()),
        Some((start, end)) => Ok(tensor.f_narrow(0, start, end - start)?),
    }
}

/// A strided nested tensor, whose rows lie one after the other. `sizes` is the shape of the matrix of theirs.
fn load_jagged(
    folder: &Folder,
    name: &str,
    described: &Map<String, Json>,
    stored: Stored,
    sizes: &[i64],
    rows: Option<(i64, i64)>,
) -> Result<JaggedTensor> {
    let (num_rows, dims) = match *sizes {
        [num_rows, dims] if dims > 0 => (num_rows, dims),
        _ => return Err(Error::file(format!("{sizes:?} is no shape of a matrix of rows and their sizes"))),
    };
    if none_of(rows) && described.contains_key("trailing") {
        let shape: Vec<i64> = std::iter::once(0).chain(json::sizes(described, "trailing")?).collect();
        let offsets = Tensor::f_zeros([1], (Kind::Int64, Device::Cpu))?;
        extent(&shape, stored.size())?;
        return JaggedTensor::try_new(stored.settled(nothing(&shape, stored.mapped())?)?, offsets);
    }
    let (start, stop) = rows.unwrap_or((0, num_rows));
    if stop > num_rows {
        return Err(Error::file(format!("it has {num_rows} rows, fewer than its batch")));
    }
    let (numel, bytes) = extent(sizes, size_of::<i64>())?;
    let (lengths, trailing) = match numel {
        0 => (nothing(&[0], Kind::Int64)?, None),
        numel => {
            let matrix = sized(folder, name, ".shape.memmap", bytes)?.map(numel, Kind::Int64)?.f_view(sizes)?;
            // Rows behind those asked for are nobody's business.
            let matrix = matrix.f_narrow(0, 0, stop.max(1))?;
            let first = Vec::<i64>::try_from(matrix.f_select(0, 0)?)?;
            let others = matrix.f_narrow(1, 1, dims - 1)?;
            let same = others.f_eq_tensor(&others.f_narrow(0, 0, 1)?)?.f_all()?.f_int64_value(&[])? != 0;
            if !same {
                return Err(Error::shape(
                    "its rows differ in another dim than their first, which no jagged tensor does",
                )
                .remedy("save it in Python as a lazy stack"));
            }
            (matrix.f_select(1, 0)?.f_narrow(0, 0, stop)?, Some(first[1..].to_vec()))
        }
    };
    let trailing = match trailing {
        Some(trailing) => trailing,
        None if described.contains_key("trailing") => json::sizes(described, "trailing")?,
        None => vec![0; usize::try_from(dims - 1).unwrap_or_default()],
    };
    let (row, row_bytes) = extent(&trailing, stored.size())?;
    // What the lengths add up to is known once they are; until then, the file says how many there are.
    let file = folder.file(&format!("{}.memmap", encoded(name)))?;
    let file = match file {
        None => legacy(name).map(|name| folder.file(&format!("{name}.memmap"))).transpose()?.flatten(),
        file => file,
    };
    let there = file.as_ref().map_or(0, Opened::bytes);
    let total = match row_bytes {
        0 if there == 0 => None,
        0 => return Err(Error::file(format!("its file has {there} bytes, its rows have none"))),
        size if there % size == 0 => Some((there / size) as i64),
        size => return Err(Error::file(format!("its file has {there} bytes, which are no elements of {size}"))),
    };
    let bad = || Error::file(format!("the lengths of its rows don't add up to the {} there are", total.unwrap_or(0)));
    let (before, offsets) = add_up(&lengths, start, total.unwrap_or(1 << 40))?.ok_or_else(bad)?;
    let length = offsets.f_int64_value(&[stop - start])?;
    let end = before.checked_add(length).ok_or_else(bad)?;
    if total.is_some_and(|total| end > total || (stop == num_rows && end != total)) {
        return Err(bad());
    }
    let shape: Vec<i64> = std::iter::once(end).chain(trailing).collect();
    let values = match (file, end.checked_mul(row)) {
        (_, None) => return Err(bad()),
        (Some(file), Some(numel @ 1..)) => file.map(numel, stored.mapped())?.f_view(shape.as_slice())?,
        (_, Some(_)) => nothing(&shape, stored.mapped())?,
    };
    JaggedTensor::try_new(stored.settled(values.f_narrow(0, before, length)?)?, offsets)
}

/// Where the rows from `start` on begin in the values, and their offsets from there; `None` if a length is less than 0
/// or above `limit`, or all are more than can be counted.
fn add_up(lengths: &Tensor, start: i64, limit: i64) -> Result<Option<(i64, Tensor)>> {
    let count = lengths.numel() as i64;
    if count > 0 {
        let (least, most) = (lengths.f_min()?.f_int64_value(&[])?, lengths.f_max()?.f_int64_value(&[])?);
        if least < 0 || most > limit {
            return Ok(None);
        }
        // A sum that could have wrapped around is also taken of floats, which don't.
        if most.checked_mul(count).is_none()
            && lengths.f_sum(Kind::Double)?.f_double_value(&[])? > i64::MAX as f64 / 2.0
        {
            return Ok(None);
        }
    }
    let before = lengths.f_narrow(0, 0, start)?.f_sum(Kind::Int64)?.f_int64_value(&[])?;
    let zero = Tensor::f_zeros([1], (Kind::Int64, Device::Cpu))?;
    let ends = lengths.f_narrow(0, start, count - start)?.f_cumsum(0, Kind::Int64)?;
    Ok(Some((before, Tensor::f_cat(&[zero, ends], 0)?)))
}
