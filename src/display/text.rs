//! A tensordict, and what one will be, as an indented table.

use std::fmt;

use indexmap::IndexSet;
use tch::{Device, Kind, Tensor};

use crate::dict::{Entry, TensorDict};
use crate::dtype::DType;
use crate::options::device_name;
use crate::schema::{EntrySpec, TensorDictSchema};
use crate::tensor::{JaggedTensor, NonTensorStack, promoted};

/// Values shown of a row of numbers, and rows shown of an entry.
const SHOWN: i64 = 4;
/// Characters of values shown of an entry.
const WIDTH: usize = 60;

/// One line per entry: key (nested ones indented), kind, type, shape, device. The alternate form `{:#}`
/// adds the first few values. Of a lazy stack, the entries that all members have, with -1 (`*`) where
/// they differ, then those of single members.
impl fmt::Display for TensorDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.device().map_or("none".to_owned(), device_name);
        let name = if self.is_lazy() { "LazyStackedTensorDict" } else { "TensorDict" };
        write!(f, "{name}  batch_size={:?}  device={device}", self.batch_size())?;
        if let Some(dim) = self.stack_dim() {
            write!(f, "  stack_dim={dim}")?;
        }
        let mut lines = Vec::new();
        describe(self, 1, f.alternate(), &mut lines);
        write_aligned(&lines, f)
    }
}

/// dtype, shape with `*` for the ragged dim, and device. The alternate form `{:#}` adds the first few values.
impl fmt::Display for JaggedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = tensor_device(self.values());
        write!(f, "JaggedTensor  {}  {}  {device}", dtype(self.values()), shape(&self.shape()))?;
        if f.alternate() { write!(f, "  {}", jagged_values(self)) } else { Ok(()) }
    }
}

/// Arrow type and batch size. The alternate form `{:#}` adds the first few values.
impl fmt::Display for NonTensorStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NonTensorStack  {}  {}", cut(&self.data_type().to_string(), 40), shape(self.batch_size()))?;
        if f.alternate() { write!(f, "  {}", non_tensor_values(self)) } else { Ok(()) }
    }
}

/// One line per entry: key (nested ones indented), kind, type, shape with `n` for the batch, and what
/// happens to its nulls if it may have some.
impl fmt::Display for TensorDictSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TensorDict  batch_size=[n]")?;
        let mut lines = Vec::new();
        describe_schema(self, self.entries(), 1, &mut lines);
        write_aligned(&lines, f)
    }
}

/// Each row of cells on a line of its own, all but the last column as wide as its widest cell.
fn write_aligned<const N: usize>(rows: &[[String; N]], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N - 1).map(width).collect();
    for row in rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(&row[N - 1]);
        write!(f, "\n{}", text.trim_end())?;
    }
    Ok(())
}

fn describe_schema(schema: &TensorDictSchema, entries: &[EntrySpec], depth: usize, lines: &mut Vec<[String; 5]>) {
    for entry in entries {
        let name = entry.key().names().last().map_or("", String::as_str);
        let nulls = nulls_of(schema, entry);
        let nulls = if nulls.is_empty() { nulls } else { format!("nulls={nulls}") };
        let key = format!("{}{name}", "  ".repeat(depth));
        lines.push([key, entry.kind().to_owned(), schema_type(entry), entry.shape(), nulls]);
        describe_schema(schema, entry.entries(), depth + 1, lines);
    }
}

/// What happens to an entry's nulls; nothing of one that has none.
pub(super) fn nulls_of(schema: &TensorDictSchema, entry: &EntrySpec) -> String {
    match (entry.nullable(), schema.mask_key_of(entry)) {
        (false, _) => String::new(),
        (true, None) => entry.nulls().to_string(),
        (true, Some(mask)) => format!("{} in {mask}", entry.nulls()),
    }
}

/// The dtype of an entry, the Arrow type of what is no tensor.
pub(super) fn schema_type(entry: &EntrySpec) -> String {
    match entry.dtype() {
        Some(dtype) => dtype.to_string(),
        // Of a dict, the entries below tell.
        None if entry.kind() == "non_tensor" => entry.field().data_type().to_string(),
        None => String::new(),
    }
}

/// Key, kind, type, shape, device and values of each entry.
fn describe(dict: &TensorDict, depth: usize, values: bool, lines: &mut Vec<[String; 6]>) {
    let shared: IndexSet<String> = dict.keys().collect();
    for name in &shared {
        // Tensors of members are not stacked for their type alone: the stack may be as large as memory is.
        let kinds = if values { None } else { members_kinds(dict, name) };
        let entry = if kinds.is_some() { None } else { dict.get(name.as_str()).ok().flatten() };
        // Members of a lazy stack needn't stack: the first tells kind and type.
        let first = || dict.members().first().and_then(|member| member.get(name.as_str()).ok().flatten());
        let stacked = entry.is_some();
        let Some(shown) = entry.or_else(first) else {
            continue;
        };
        let shape = dict.item_shape(name.as_str()).unwrap_or_else(|_| shown.shape());
        // Values are read only where they are shown: on another device that is a transfer each.
        // Lists stand in for dims of non-tensor values in which members differ.
        let whole = shape == shown.shape() || stacked && matches!(shown, Entry::NonTensor(_));
        let mut line = line(name, &shown, &shape, depth, values && whole);
        if let Some(kinds) = kinds.filter(|_| !shape.contains(&-1)) {
            let tensors = kinds.into_iter().map(|kind| Tensor::f_empty([0], (kind, Device::Cpu)));
            if let Ok(kind) = tensors.collect::<Result<Vec<_>, _>>().map_err(Into::into).and_then(|all| promoted(&all))
            {
                line[2] = DType::from(kind).to_string();
            }
        }
        lines.push(line);
        if let Entry::Dict(below) = &shown {
            describe(below, depth + 1, values, lines);
        }
    }
    for (at, member) in dict.members().iter().enumerate() {
        if !member.is_lazy() && member.held().all(|(name, _)| shared.contains(name)) {
            continue;
        }
        for name in member.keys().filter(|name| !shared.contains(name)) {
            if let Ok(Some(entry)) = member.get(name.as_str()) {
                let mut line = line(&name, &entry, &entry.shape(), depth, values);
                line[0].push_str(&format!(" (member {at})"));
                lines.push(line);
            }
        }
    }
}

/// The kinds of the members' tensors under a name, of a lazy stack in which that is what all have.
fn members_kinds(dict: &TensorDict, name: &str) -> Option<IndexSet<Kind>> {
    let mut kinds = IndexSet::new();
    for member in dict.members() {
        match member.held_at(name) {
            None => kinds.extend(members_kinds(member, name)?),
            Some(Entry::Tensor(tensor)) => kinds.extend([tensor.f_kind().ok()?]),
            Some(_) => return None,
        }
    }
    Some(kinds).filter(|kinds| !kinds.is_empty())
}

/// The dtype of a tensor, the Arrow type of what is none.
pub(super) fn type_of(entry: &Entry) -> String {
    match entry {
        Entry::Tensor(tensor) => dtype(tensor),
        Entry::Jagged(jagged) => dtype(jagged.values()),
        Entry::NonTensor(stack) => stack.data_type().to_string(),
        Entry::Dict(_) => String::new(),
    }
}

/// `cpu`, `cuda:0`, …; nothing where there is none.
pub(super) fn device_of(entry: &Entry) -> String {
    match entry {
        Entry::Tensor(tensor) => tensor_device(tensor),
        Entry::Jagged(jagged) => tensor_device(jagged.values()),
        Entry::NonTensor(_) | Entry::Dict(_) => String::new(),
    }
}

pub(super) fn tensor_device(tensor: &Tensor) -> String {
    // An undefined tensor lies nowhere, and panics when it is asked.
    if tensor.defined() { device_name(tensor.device()) } else { String::new() }
}

fn line(name: &str, entry: &Entry, sizes: &[i64], depth: usize, values: bool) -> [String; 6] {
    let (data_type, device) = (type_of(entry), device_of(entry));
    let preview = match entry {
        Entry::Tensor(tensor) if values => tensor_values(tensor),
        Entry::Jagged(jagged) if values => jagged_values(jagged),
        Entry::NonTensor(stack) if values => non_tensor_values(stack),
        _ => String::new(),
    };
    let key = format!("{}{}", "  ".repeat(depth), quoted(name));
    [key, entry.kind().to_owned(), cut(&data_type, 40), shape(sizes), device, preview]
}

/// The name as it is, or quoted where it would not read as one word.
pub(super) fn quoted(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| !c.is_whitespace() && !c.is_control());
    if plain { name.to_owned() } else { format!("{name:?}") }
}

pub(super) fn dtype(tensor: &Tensor) -> String {
    tensor.f_kind().map_or_else(|_| "unknown".to_owned(), |kind| DType::from(kind).to_string())
}

pub(super) fn shape(sizes: &[i64]) -> String {
    let sizes: Vec<_> = sizes.iter().map(|size| if *size < 0 { "*".to_owned() } else { size.to_string() }).collect();
    format!("[{}]", sizes.join(", "))
}

fn tensor_values(tensor: &Tensor) -> String {
    cut(&nested_values(tensor).unwrap_or_default(), WIDTH)
}

/// The first few values as nested lists, of at most `SHOWN` items each.
fn nested_values(tensor: &Tensor) -> Result<String, tch::TchError> {
    let Some(size) = tensor.size().first().copied() else {
        return scalar(tensor);
    };
    let shown = (0..size.min(SHOWN)).map(|at| nested_values(&tensor.f_select(0, at)?));
    let mut items = shown.collect::<Result<Vec<_>, _>>()?;
    items.extend((size > SHOWN).then(|| "…".to_owned()));
    Ok(format!("[{}]", items.join(", ")))
}

fn scalar(tensor: &Tensor) -> Result<String, tch::TchError> {
    let tensor = tensor.f_to_device(Device::Cpu)?;
    Ok(match tensor.f_kind()? {
        Kind::Bool => (tensor.f_int64_value(&[])? != 0).to_string(),
        Kind::Uint8 | Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64 => tensor.f_int64_value(&[])?.to_string(),
        // In the precision of the dtype, so that 0.1 reads as 0.1.
        Kind::Half | Kind::BFloat16 | Kind::Float => format!("{:?}", tensor.f_double_value(&[])? as f32),
        _ => format!("{:?}", tensor.f_double_value(&[])?),
    })
}

fn jagged_values(jagged: &JaggedTensor) -> String {
    let rows = jagged.num_rows();
    let shown = (0..rows.min(SHOWN)).map(|row| jagged.row(row).ok().and_then(|row| nested_values(&row).ok()));
    let mut rows_shown: Vec<_> = shown.map(Option::unwrap_or_default).collect();
    rows_shown.extend((rows > SHOWN).then(|| "…".to_owned()));
    cut(&format!("[{}]", rows_shown.join(", ")), WIDTH)
}

fn non_tensor_values(stack: &NonTensorStack) -> String {
    let count = stack.values().len();
    let shown =
        (0..count.min(SHOWN as usize)).map(|row| stack.value(row).map_or_else(|_| "?".to_owned(), |v| v.to_string()));
    let mut values: Vec<_> = shown.map(|value| cut(&value, WIDTH / 2)).collect();
    values.extend((count > SHOWN as usize).then(|| "…".to_owned()));
    cut(&format!("[{}]", values.join(", ")), WIDTH)
}

/// At most `width` characters, and one ellipsis if there were more.
pub(super) fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some((end, _)) => format!("{}…", text[..end].trim_end_matches('…')),
        None => text.to_owned(),
    }
}
