//! Masks → the validity of columns.

use arrow::buffer::NullBuffer;
use indexmap::IndexMap;
use tch::{Device, Kind, Tensor};

use super::share;
use crate::dict::{Entry, TensorDict};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::options::CopyPolicy;
use crate::tensor::JaggedTensor;

/// The mask of one entry, or the masks below it, if there are any.
pub(super) struct Mask {
    /// Where it is, the masks' own key first.
    key: NestedKey,
    entry: Option<Entry>,
}

/// The masks of a dict's entries.
pub(super) struct FieldMasks {
    key: NestedKey,
    masks: Vec<(String, Entry)>,
}

/// What is valid of a column: its rows, or the elements in them.
#[derive(Default)]
pub(super) struct Valid {
    pub(super) rows: Option<NullBuffer>,
    pub(super) elements: Option<NullBuffer>,
}

/// What is valid of a list: its rows, or what of their values.
#[derive(Default)]
pub(super) struct ListValid {
    pub(super) rows: Option<NullBuffer>,
    pub(super) values: Valid,
}

impl Mask {
    pub(super) fn is_none(&self) -> bool {
        self.entry.is_none()
    }

    /// Of a tensor of this shape.
    pub(super) fn of_tensor(self, shape: &[i64]) -> Result<Valid> {
        let key = self.key.clone();
        let valid = match self.leaf()? {
            None => Ok(Valid::default()),
            Some(Entry::Tensor(mask)) => validity(mask, shape),
            Some(entry) => Err(no_mask(&entry)),
        };
        valid.map_err(|error| error.at(&key))
    }

    /// Of rows that begin and end at these offsets in values of this shape.
    pub(super) fn of_list(self, offsets: &Tensor, values: &[i64]) -> Result<ListValid> {
        let key = self.key.clone();
        let valid = match self.leaf()? {
            None => Ok(ListValid::default()),
            Some(Entry::Jagged(mask)) => elements(mask, offsets)
                .and_then(|mask| validity(mask, values))
                .map(|values| ListValid { rows: None, values }),
            Some(Entry::Tensor(mask)) => {
                let rows = offsets.size().first().map_or(0, |count| count - 1);
                validity(mask, &[rows]).map(|valid| ListValid { rows: valid.rows, values: Valid::default() })
            }
            Some(entry) => Err(no_mask(&entry)),
        };
        valid.map_err(|error| error.at(&key))
    }

    /// The mask of an entry that is no dict.
    fn leaf(self) -> Result<Option<Entry>> {
        match self.entry {
            Some(Entry::Dict(masks)) => {
                let masks = FieldMasks { key: self.key, masks: masks.into_entries().collect() };
                masks.finish().map(|()| None)
            }
            entry => Ok(entry),
        }
    }

    /// The validity of a struct's own rows, and the masks of its fields.
    pub(super) fn into_fields(self, rows: i64) -> Result<(Option<NullBuffer>, FieldMasks)> {
        match self.entry {
            Some(Entry::Dict(masks)) => Ok((None, FieldMasks { key: self.key, masks: masks.into_entries().collect() })),
            _ => Ok((self.of_tensor(&[rows])?.rows, FieldMasks::none())),
        }
    }
}

impl FieldMasks {
    pub(super) fn none() -> Self {
        FieldMasks { key: NestedKey::default(), masks: Vec::new() }
    }

    /// Takes the masks out of a tensordict, and the dicts above them in which nothing else is. There may be none:
    /// a conversion in which no null was leaves none.
    pub(super) fn take(dict: &mut TensorDict, key: &NestedKey) -> Result<Self> {
        if key.is_empty() {
            return Err(Error::option("mask_key has no names").remedy("it takes one name or more"));
        }
        if !dict.contains_key(key) {
            return Ok(FieldMasks::none());
        }
        let masks = match dict.remove(key)? {
            Entry::Dict(masks) => masks.into_entries().collect(),
            entry => {
                return Err(Error::key(format!(
                    "masks are a dict of boolean tensors, this is of kind {}",
                    entry.kind()
                ))
                .at(key)
                .remedy("name the dict that has a mask for each column in mask_key, or leave mask_key out"));
            }
        };
        for depth in (1..key.names().len()).rev() {
            let above = NestedKey::from(key.names()[..depth].to_vec());
            if !dict.dict(&above)?.is_empty() {
                break;
            }
            dict.remove(above)?;
        }
        Ok(FieldMasks { key: key.clone(), masks })
    }

    /// Takes the mask of the entry called `name`.
    pub(super) fn of(&mut self, name: &str) -> Mask {
        let at = self.masks.iter().position(|(masked, _)| masked == name);
        Mask { key: self.key.child(name), entry: at.map(|at| self.masks.swap_remove(at).1) }
    }

    /// All masks were taken.
    pub(super) fn finish(mut self) -> Result<()> {
        let Some((name, entry)) = self.masks.pop() else {
            return Ok(());
        };
        let key = self.key.child(name);
        match entry {
            // The masks in it have no column either.
            Entry::Dict(masks) if !masks.is_empty() => {
                FieldMasks { key, masks: masks.into_entries().collect() }.finish()
            }
            _ => Err(Error::key("there is no column that this would be the mask of")
                .at(key)
                .remedy("remove it, or the mask_key under which it is")),
        }
    }
}

fn validity(mask: Tensor, shape: &[i64]) -> Result<Valid> {
    let sizes = mask.size();
    if mask.f_kind().ok() != Some(Kind::Bool) || sizes.is_empty() || !shape.starts_with(&sizes) {
        let dtype = mask.f_kind().map_or_else(|_| "of no known dtype".to_owned(), |kind| DType::from(kind).to_string());
        let rows = shape.first().copied().unwrap_or_default();
        let deeper =
            if shape.len() > 1 { format!(", or of more of the leading dims of {shape:?}") } else { String::new() };
        return Err(Error::shape(format!("a mask is bool[{rows}]{deeper}, this is {dtype}{sizes:?}"))
            .remedy("operations on all leaves reach masks too: exclude them before"));
    }
    // Packed bits are made, not copied from a column, so no copy policy forbids them.
    let bits = |mask: Tensor| share::bits(mask, CopyPolicy::Auto).map(NullBuffer::new);
    if sizes.len() == 1 {
        return Ok(Valid { rows: Some(bits(mask)?), elements: None });
    }
    let spread: Vec<i64> = sizes.iter().copied().chain(shape[sizes.len()..].iter().map(|_| 1)).collect();
    let each = mask.f_reshape(spread)?.f_expand(shape, false)?.f_reshape([-1])?;
    Ok(Valid { rows: None, elements: Some(bits(each)?) })
}

/// The mask's values, if its rows are as long as those that it is the mask of.
fn elements(mask: JaggedTensor, offsets: &Tensor) -> Result<Tensor> {
    let (values, theirs) = mask.into_parts();
    if theirs.f_to_device(Device::Cpu)?.f_equal(&offsets.f_to_device(Device::Cpu)?)? {
        return Ok(values);
    }
    Err(Error::shape("the rows of the mask aren't as long as those of its column")
        .remedy("a mask of a list's elements has one boolean for each of them, one of its rows has one for each row"))
}

fn no_mask(entry: &Entry) -> Error {
    Error::key(format!("masks are boolean tensors, this is of kind {}", entry.kind()))
}

/// Gives each member of a lazy stack the masks that only others have, all true: where a member had no null, its
/// conversion may have made none. The masks alone may be a stack of rows, in a tensordict that is dense otherwise; the
/// rows are then taken apart as they are.
pub(super) fn complete(dict: &TensorDict, key: &NestedKey) -> Result<TensorDict> {
    let by_row = !dict.is_lazy() && dict.batch_dims() > 0 && dict.contains_key(key);
    if by_row
        && let Some(Entry::Dict(masks)) = dict.get(key)?
        && masks.holds_lazy()
    {
        return complete(&dict.to_lazy_stack(0)?, key);
    }
    let mut dims = IndexMap::new();
    find_masks(dict, key, &mut dims)?;
    with_masks(dict, key, &dims)
}

/// The number of dims of each mask that any member has.
fn find_masks(dict: &TensorDict, key: &NestedKey, dims: &mut IndexMap<NestedKey, usize>) -> Result<()> {
    if dict.is_lazy() {
        return dict.members().iter().try_for_each(|member| find_masks(member, key, dims));
    }
    for mask in dict.leaf_keys().into_iter().filter(|leaf| leaf.starts_with(key)) {
        let shape = dict.item_shape(&mask)?;
        dims.insert(mask, shape.len());
    }
    Ok(())
}

fn with_masks(dict: &TensorDict, key: &NestedKey, dims: &IndexMap<NestedKey, usize>) -> Result<TensorDict> {
    if let Some(stack_dim) = dict.stack_dim().filter(|_| !dict.members().is_empty()) {
        let members = dict.members().iter().map(|member| with_masks(member, key, dims));
        return TensorDict::lazy_stack(members.collect::<Result<Vec<_>>>()?, stack_dim as i64);
    }
    let mut dict = dict.shallow_clone();
    for (mask, dims) in dims {
        let column = NestedKey::from(mask.names()[key.names().len()..].to_vec());
        if dict.contains_key(mask) {
            continue;
        }
        // What is not there is null; of a list, no elements are.
        let valid = dict.contains_key(&column);
        let shape = if valid { dict.item_shape(column)? } else { dict.batch_size() };
        if let Some(sizes) = shape.get(..*dims).filter(|sizes| !sizes.contains(&-1)) {
            let options = (Kind::Bool, dict.device().unwrap_or(Device::Cpu));
            dict.set(mask, if valid { Tensor::f_ones(sizes, options)? } else { Tensor::f_zeros(sizes, options)? })?;
        }
    }
    Ok(dict)
}
