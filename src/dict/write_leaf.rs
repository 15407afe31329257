//! Writing to a part of one entry, in place.

use std::collections::HashMap;

use tch::Tensor;

use super::Entry;
use super::dense::{Dense, dims_beyond};
use super::indices::{apply, coordinates, sizes_after};
use super::operand::ensure_shaped;
use super::overwrite::{ensure_same_layout, ensure_writable};
use super::write_at::Pass;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::key::NestedKey;
use crate::tensor::JaggedTensor;

impl Dense {
    /// Gives the key below `name` of an entry that was missing.
    pub(super) fn write(
        &mut self,
        name: &str,
        value: &Entry,
        items: &[Index],
        pass: Pass,
    ) -> Result<Option<NestedKey>> {
        let batch_size = &self.batch_size;
        let entry = self.entries.get_mut(name).ok_or_else(|| Error::key("there is no such entry"))?;
        match (entry, value) {
            (Entry::Tensor(tensor), Entry::Tensor(value)) => write_tensor(tensor, value, items, batch_size, pass)?,
            (Entry::Dict(dict), Entry::Dict(value)) => return dict.write_dict(value, items, pass),
            (Entry::NonTensor(values), Entry::NonTensor(value)) => {
                let written = values.overwritten(value, |places| apply(places, items))?;
                if pass == Pass::Write {
                    *values = written;
                }
            }
            (Entry::Jagged(jagged), value) => write_rows(jagged, value, items, pass)?,
            (entry, value) => {
                return Err(Error::key(format!(
                    "the entry is of kind {}, a value of kind {} can't be written to it",
                    entry.kind(),
                    value.kind()
                )));
            }
        }
        Ok(None)
    }
}

/// Writes rows that are as long as those that they replace.
fn write_rows(jagged: &JaggedTensor, value: &Entry, items: &[Index], pass: Pass) -> Result<()> {
    let rows = coordinates(&[jagged.num_rows()], items)?;
    let rows = rows.first().map(|rows| Ok::<_, Error>(Vec::<i64>::try_from(rows.f_reshape([-1])?)?)).transpose()?;
    let rows = rows.unwrap_or_default();
    let values = match value {
        Entry::Jagged(value) if items.len() < 2 => {
            (0..value.num_rows()).map(|row| value.row(row)).collect::<Result<Vec<_>>>()?
        }
        Entry::Tensor(value) if matches!(items, [Index::Row(_)]) => vec![value.shallow_clone()],
        _ => Vec::new(),
    };
    let targets = rows.iter().map(|row| jagged.row(*row)).collect::<Result<Vec<_>>>()?;
    if values.iter().map(Tensor::size).ne(targets.iter().map(Tensor::size)) {
        return Err(Error::shape(format!(
            "the rows of a jagged tensor of shape {:?} can only be written in place by jagged rows of the same lengths",
            jagged.shape()
        ))
        .remedy("set the whole entry"));
    }
    ensure_writable(jagged.values())?;
    if pass == Pass::Write {
        for (mut target, value) in targets.into_iter().zip(values) {
            target.f_copy_(&value)?;
        }
    }
    Ok(())
}

fn write_tensor(tensor: &Tensor, value: &Tensor, items: &[Index], batch_size: &[i64], pass: Pass) -> Result<()> {
    let part = sizes_after(batch_size, items)?;
    let rest = dims_beyond(tensor, batch_size)?;
    ensure_shaped(value)?;
    let sizes = [part.as_slice(), &rest].concat();
    // Dims that are missing would be taken for others.
    let expanded = if value.dim() == sizes.len() { value.f_expand(&sizes, false).ok() } else { None };
    let expanded = expanded.ok_or_else(|| {
        Error::shape(format!("a value of shape {:?} doesn't fit the part, whose shape is {sizes:?}", value.size()))
    })?;
    let value = expanded.f_to_device(tensor.device())?.f_to_kind(tensor.f_kind()?)?;
    ensure_same_layout(tensor, &value)?;
    ensure_writable(tensor)?;
    if pass != Pass::Write || value.numel() == 0 {
        return Ok(());
    }
    let simple = |item: &Index| matches!(item, Index::Row(_) | Index::NewAxis | Index::Slice { step: 1.., .. });
    if items.iter().all(simple) {
        apply(tensor, items)?.f_copy_(&value)?;
        return Ok(());
    }
    let counted = part.iter().try_fold(1i64, |count, size| count.checked_mul(*size));
    let Some(count) = counted.filter(|_| !part.contains(&0)) else {
        return Ok(());
    };
    // The places one by one, so that all kinds of items follow one rule. There is one value for each.
    let columns = coordinates(batch_size, items)?;
    let columns = columns.iter().map(|rows| Ok(Vec::<i64>::try_from(rows.f_reshape([-1])?)?));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let mut values = value.f_reshape([&[count], rest.as_slice()].concat())?;
    let last = last_of_each(&columns, count);
    if last.len() as i64 != count {
        values = values.f_index_select(0, &Tensor::f_from_slice(&last)?.f_to_device(tensor.device())?)?;
    }
    let mut lists = Vec::with_capacity(columns.len());
    for column in columns {
        let rows: Vec<i64> = last.iter().filter_map(|at| column.get(usize::try_from(*at).ok()?).copied()).collect();
        lists.push(Some(Tensor::f_from_slice(&rows)?.f_to_device(tensor.device())?));
    }
    let mut target = tensor.shallow_clone();
    if lists.is_empty() {
        return Ok(target.f_copy_(&values.f_select(0, 0)?)?);
    }
    let _ = target.f_index_put_(&lists, &values, false)?;
    Ok(())
}

/// Of the elements that name the same place, the last: libtorch writes in no certain order.
fn last_of_each(columns: &[Vec<i64>], count: i64) -> Vec<i64> {
    let mut last = HashMap::new();
    for at in 0..count {
        let place: Vec<i64> =
            columns.iter().filter_map(|column| column.get(usize::try_from(at).ok()?).copied()).collect();
        last.insert(place, at);
    }
    let mut last: Vec<i64> = last.into_values().collect();
    last.sort_unstable();
    last
}

/// The same entry in memory of its own, so that writing can't change what is still to be read.
pub(super) fn copied(entry: &Entry) -> Result<Entry> {
    Ok(match entry {
        Entry::Tensor(tensor) if tensor.defined() => Entry::Tensor(tensor.f_alias_copy()?),
        Entry::Dict(dict) => Entry::Dict(dict.deep_clone()?),
        Entry::Jagged(jagged) => {
            let values = jagged.values().f_alias_copy()?;
            Entry::Jagged(JaggedTensor::from_trusted(values, jagged.offsets().shallow_clone()))
        }
        entry => entry.shallow_clone(),
    })
}
