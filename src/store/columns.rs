//! The columns of a tensordict, in files that grow batch by batch.

use std::collections::HashMap;
use std::path::PathBuf;

use indexmap::IndexMap;
use tch::{Kind, Tensor};

use super::kinds::{safetensors_dtype, torch_name};
use super::names::{encoded, ensure_free};
use super::sink::Sink;
use super::values::Values;
use crate::dict::{Entry, TensorDict, has_strides};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::schema::MAX_LEVELS;
use crate::tensor::JaggedTensor;

/// What the columns are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Files that stay: a nested tensordict in a directory of its own, lengths of ragged rows as a matrix of sizes.
    Memmap,
    /// Files that are joined: lengths of ragged rows as offsets, a lazy stack's entries stacked.
    Safetensors,
}

/// The columns of one tensordict, in a directory.
pub(super) struct Level {
    pub(super) place: PathBuf,
    pub(super) form: Form,
    /// The first size as far as it is written.
    pub(super) batch_size: Vec<i64>,
    pub(super) names: Vec<Option<String>>,
    pub(super) labelled: bool,
    /// Of a lazy stack whose entries are written stacked.
    pub(super) stack_dim: Option<usize>,
    pub(super) columns: IndexMap<String, Column>,
    batches: usize,
}

pub(super) enum Column {
    Tensor(Dense),
    Jagged(Ragged),
    Values(Box<Values>),
    Dict(Level),
    /// A lazy stack, which is written whole by [`super::write_memmap`].
    Stack,
}

/// A tensor that grows along its first dim.
pub(super) struct Dense {
    pub(super) sink: Sink,
    pub(super) kind: Kind,
    /// The first size as far as it is written.
    pub(super) shape: Vec<i64>,
}

/// Rows of different lengths.
pub(super) struct Ragged {
    pub(super) values: Sink,
    /// `int64`: for each row its sizes, or where it ends, after a 0.
    pub(super) rows: Sink,
    pub(super) kind: Kind,
    pub(super) num_rows: i64,
    /// The length of all rows together.
    pub(super) total: i64,
    /// The sizes of the dims after the ragged one.
    pub(super) trailing: Vec<i64>,
}

impl Level {
    /// Columns as this tensordict's in a new directory, without rows.
    pub(super) fn open(td: &TensorDict, place: PathBuf, form: Form, depth: usize) -> Result<Level> {
        ensure_shallow(depth)?;
        std::fs::create_dir(&place).map_err(|error| Error::io(&place, "made", error))?;
        let mut batch_size = td.batch_size();
        if batch_size.contains(&-1) {
            return Err(Error::shape(format!("the members of a lazy stack differ in batch size, {batch_size:?}"))
                .remedy("save_memmap keeps them as they are"));
        }
        let mut taken = HashMap::from([("meta.json".to_owned(), "the metadata".to_owned())]);
        let mut columns = IndexMap::new();
        for (name, entry) in entries(td, form)? {
            let at = |error: Error| error.below(&name);
            if form == Form::Memmap {
                ensure_free(&name)?;
            }
            let files = files(&name, &entry);
            for file in &files {
                if let Some(other) = taken.insert(file.clone(), name.clone()) {
                    return Err(Error::key(format!("its file '{file}' would be that of '{other}', too"))
                        .at(name.as_str())
                        .remedy("rename one of them"));
                }
            }
            let place = place.join(&files[0]);
            let column = Column::open(&entry, place, form, depth).map_err(at)?;
            columns.insert(name, column);
        }
        if let Some(rows) = batch_size.first_mut() {
            *rows = 0;
        }
        let names = td.names();
        let labelled = td.device().is_some();
        Ok(Level { place, form, batch_size, names, labelled, stack_dim: td.stack_dim(), columns, batches: 0 })
    }

    /// Fails unless a tensordict's rows can be put after those that are there. Nothing is written.
    pub(super) fn check(&self, td: &TensorDict) -> Result<()> {
        if self.stack_dim != td.stack_dim() {
            return Err(Error::shape("one batch is a lazy stack, another isn't, or along another dim")
                .remedy("make all dense with contiguous() or densify()"));
        }
        let sizes = td.batch_size();
        if sizes.len() != self.batch_size.len() || sizes.get(1..) != self.batch_size.get(1..) {
            return Err(Error::shape(format!(
                "the batch size is {sizes:?}, batches before had [n, …] as in {:?}",
                self.batch_size
            )));
        }
        if self.batches > 0 && sizes.is_empty() {
            return Err(Error::shape("a batch without dims has no rows to put after others"));
        }
        let entries = entries(td, self.form)?;
        if let Some((name, _)) = entries.iter().find(|(name, _)| !self.columns.contains_key(name)) {
            return Err(Error::key("batches before have no such entry").at(name.as_str()));
        }
        for (name, column) in &self.columns {
            let entry = entries.iter().find(|(theirs, _)| theirs == name);
            let entry = entry.ok_or_else(|| Error::key("batches before have it, this one doesn't").at(name.as_str()));
            column.check(&entry?.1, &sizes, self.batches > 0).map_err(|error| error.below(name))?;
        }
        Ok(())
    }

    /// Puts a tensordict's rows after those that are there; [`check`](Self::check) it before.
    pub(super) fn write(&mut self, td: &TensorDict) -> Result<()> {
        for (name, entry) in entries(td, self.form)? {
            let Some(column) = self.columns.get_mut(&name) else { continue };
            column.write(&entry, self.form).map_err(|error| error.below(&name))?;
        }
        if let (Some(written), Some(rows)) = (self.batch_size.first_mut(), td.batch_size().first()) {
            *written += rows;
        }
        self.batches += 1;
        Ok(())
    }
}

impl Column {
    fn open(entry: &Entry, place: PathBuf, form: Form, depth: usize) -> Result<Column> {
        Ok(match entry {
            Entry::Tensor(tensor) => {
                let kind = storable(tensor, form)?;
                let mut shape = tensor.size();
                if let Some(rows) = shape.first_mut() {
                    *rows = 0;
                }
                Column::Tensor(Dense { sink: Sink::new(place), kind, shape })
            }
            Entry::Jagged(jagged) => {
                let kind = storable(jagged.values(), form)?;
                let mut rows = Sink::new(place.with_extension("shape.memmap"));
                if form == Form::Safetensors {
                    rows.put(&0i64.to_ne_bytes())?;
                }
                let trailing = jagged.shape().split_off(2);
                Column::Jagged(Ragged { values: Sink::new(place), rows, kind, num_rows: 0, total: 0, trailing })
            }
            Entry::NonTensor(values) => Column::Values(Box::new(Values::open(&place, values, form == Form::Memmap)?)),
            Entry::Dict(dict) if dict.is_lazy() && form == Form::Memmap => {
                super::write_memmap::write_stack(dict, place, depth + 1)?;
                Column::Stack
            }
            Entry::Dict(dict) => Column::Dict(Level::open(dict, place, form, depth + 1)?),
        })
    }

    fn check(&self, entry: &Entry, batch_size: &[i64], more: bool) -> Result<()> {
        match (self, entry) {
            (Column::Tensor(dense), Entry::Tensor(tensor)) => {
                storable(tensor, Form::Memmap)?;
                ensure_same("dtype", &DType::from(dense.kind), &DType::from(tensor.f_kind()?))?;
                let shape = tensor.size();
                if !shape.starts_with(batch_size) {
                    return Err(Error::shape(format!("its shape is {shape:?}, but the batch size is {batch_size:?}"))
                        .remedy("set it anew: another handle on the tensor resized it"));
                }
                ensure_same("shape after the first dim", &dense.shape.get(1..), &shape.get(1..))
            }
            (Column::Jagged(ragged), Entry::Jagged(jagged)) => {
                storable(jagged.values(), Form::Memmap)?;
                ensure_same("dtype", &DType::from(ragged.kind), &jagged.dtype()?)?;
                ensure_same("shape after the ragged dim", &ragged.trailing, &jagged.shape().split_off(2))?;
                // Another handle may have written to the offsets.
                let jagged = JaggedTensor::try_new(jagged.values().shallow_clone(), jagged.offsets().shallow_clone())?;
                ensure_same("number of rows", &batch_size.first().copied().unwrap_or_default(), &jagged.num_rows())
            }
            (Column::Values(values), Entry::NonTensor(stack)) => {
                ensure_same("type", values.data_type(), stack.data_type())?;
                ensure_same("batch size", &batch_size, &stack.batch_size())
            }
            (Column::Dict(level), Entry::Dict(dict)) => level.check(dict),
            (Column::Stack, Entry::Dict(dict)) if !more && dict.is_lazy() => Ok(()),
            (Column::Stack, Entry::Dict(dict)) if dict.is_lazy() => {
                Err(Error::shape("a lazy stack in a directory has no rows to put others after")
                    .remedy("make it dense with contiguous() or densify()"))
            }
            (column, entry) => {
                Err(Error::key(format!("it is of kind {}, in batches before {}", entry.kind(), column.kind())))
            }
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Column::Tensor(_) => "tensor",
            Column::Jagged(_) => "jagged",
            Column::Values(_) => "non_tensor",
            Column::Dict(_) | Column::Stack => "dict",
        }
    }

    fn write(&mut self, entry: &Entry, form: Form) -> Result<()> {
        match (self, entry) {
            (Column::Tensor(dense), Entry::Tensor(tensor)) => {
                dense.sink.put_tensor(tensor)?;
                grow(dense.shape.first_mut(), tensor.size().first().copied())
            }
            (Column::Jagged(ragged), Entry::Jagged(jagged)) => {
                ragged.values.put_tensor(jagged.values())?;
                match form {
                    Form::Memmap => {
                        // A row of sizes for each row.
                        let lengths = jagged.lengths()?.f_unsqueeze(1)?;
                        let trailing = Tensor::f_from_slice(&ragged.trailing)?.f_to_device(lengths.device())?;
                        let trailing = trailing.f_unsqueeze(0)?.f_expand([jagged.num_rows(), -1], false)?;
                        ragged.rows.put_tensor(&Tensor::f_cat(&[lengths, trailing], 1)?)?;
                    }
                    Form::Safetensors => {
                        let before = Tensor::f_from_slice(&[ragged.total])?.f_to_device(jagged.device())?;
                        let ends = jagged.offsets().f_narrow(0, 1, jagged.num_rows())?;
                        ragged.rows.put_tensor(&ends.f_add(&before)?)?;
                    }
                }
                grow(Some(&mut ragged.total), jagged.values().size().first().copied())?;
                grow(Some(&mut ragged.num_rows), Some(jagged.num_rows()))
            }
            (Column::Values(values), Entry::NonTensor(stack)) => values.put(stack),
            (Column::Dict(level), Entry::Dict(dict)) => level.write(dict),
            _ => Ok(()),
        }
    }
}

fn grow(size: Option<&mut i64>, by: Option<i64>) -> Result<()> {
    if let (Some(size), Some(by)) = (size, by) {
        *size = size.checked_add(by).ok_or_else(|| Error::shape("more rows than can be counted"))?;
    }
    Ok(())
}

fn ensure_same<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, before: &T, now: &T) -> Result<()> {
    match before == now {
        true => Ok(()),
        false => Err(Error::shape(format!("its {what} is {now:?}, in batches before {before:?}"))),
    }
}

/// The element type of a tensor that can be saved.
fn storable(tensor: &Tensor, form: Form) -> Result<Kind> {
    if !has_strides(tensor) {
        return Err(Error::schema("sparse and nested tensors can't be saved").remedy("make it dense, or jagged"));
    }
    let kind = tensor.f_kind()?;
    match form {
        Form::Memmap => torch_name(kind).map(|_| kind),
        Form::Safetensors => safetensors_dtype(kind).map(|_| kind),
    }
}

pub(super) fn ensure_shallow(depth: usize) -> Result<()> {
    match depth <= MAX_LEVELS {
        true => Ok(()),
        false => Err(Error::key(format!("it nests deeper than {MAX_LEVELS} levels"))
            .remedy("flatten_keys makes one level of them")),
    }
}

/// Names and entries that are written. Those of a lazy stack are stacked, and must be those of all its members.
fn entries(td: &TensorDict, form: Form) -> Result<Vec<(String, Entry)>> {
    if td.is_lazy() {
        if form == Form::Memmap {
            return Err(Error::shape("a lazy stack has no rows to put others after")
                .remedy("make it dense with contiguous() or densify(), or save it whole with save_memmap"));
        }
        for member in td.members() {
            if let Some(name) = member.keys().find(|name| !td.contains_key(name.as_str())) {
                return Err(Error::key(
                    "not all members of the lazy stack have it, and safetensors have no form for that",
                )
                .at(name)
                .remedy("save_memmap keeps the members as they are"));
            }
        }
    }
    td.items()
}

/// The files and directories of an entry, the main one first.
fn files(name: &str, entry: &Entry) -> Vec<String> {
    let encoded = encoded(name);
    match entry {
        Entry::Tensor(_) => vec![format!("{encoded}.memmap")],
        Entry::Jagged(_) => vec![format!("{encoded}.memmap"), format!("{encoded}.shape.memmap")],
        Entry::NonTensor(_) | Entry::Dict(_) => vec![encoded],
    }
}
