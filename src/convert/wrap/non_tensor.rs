//! What is no tensor stays an Arrow array.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, MutableArrayData, OffsetSizeTrait, UInt64Array, make_array, new_empty_array,
};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::error::Result;
use crate::schema::EntrySpec;
use crate::tensor::NonTensorStack;

/// Waste that is not worth a copy.
const TOLERATED_WASTE: usize = 64 * 1024;

pub(super) fn wrap(mut chunks: Vec<ArrayRef>, spec: &EntrySpec) -> Result<NonTensorStack> {
    let values = match chunks.len() {
        0 => new_empty_array(spec.field.data_type()),
        1 => compact(chunks.remove(0))?,
        _ => join(chunks)?,
    };
    // A null row of a struct above shows in a field that has no nulls of its own.
    let field = match spec.nullable == spec.field.is_nullable() {
        true => Arc::clone(&spec.field),
        false => Arc::new(spec.field.as_ref().clone().with_nullable(spec.nullable)),
    };
    Ok(NonTensorStack::with_field(field, values))
}

/// All chunks in one array; strings and bytes past what 32-bit offsets reach get 64-bit ones,
/// and dictionaries past what their keys reach get 64-bit keys.
fn join(mut chunks: Vec<ArrayRef>) -> Result<ArrayRef> {
    let wide = match chunks[0].data_type() {
        DataType::Utf8 => Some(DataType::LargeUtf8),
        DataType::Binary => Some(DataType::LargeBinary),
        DataType::List(field) => Some(DataType::LargeList(Arc::clone(field))),
        _ => None,
    };
    if let Some(wide) = wide {
        let extent = |chunk: &ArrayRef| match chunk.data_type() {
            DataType::Utf8 => chunk.as_string::<i32>().offsets().last().copied(),
            DataType::Binary => chunk.as_binary::<i32>().offsets().last().copied(),
            DataType::List(_) => chunk.as_list::<i32>().offsets().last().copied(),
            _ => None,
        };
        let extent = |chunk| extent(chunk).map_or(0, i64::from);
        if chunks.iter().map(extent).sum::<i64>() > i64::from(i32::MAX) {
            chunks = chunks.iter().map(|chunk| cast(chunk, &wide)).collect::<Result<_, _>>()?;
        }
    }
    match (concat_all(&chunks), chunks[0].data_type()) {
        // Each chunk's keys count its own values; all values together may need wider keys.
        (Err(ArrowError::DictionaryKeyOverflowError), DataType::Dictionary(_, values)) => {
            let wide = DataType::Dictionary(Box::new(DataType::Int64), values.clone());
            let chunks = chunks.iter().map(|chunk| cast(chunk, &wide)).collect::<Result<Vec<_>, _>>()?;
            Ok(concat_all(&chunks)?)
        }
        (joined, _) => Ok(joined?),
    }
}

fn concat_all(chunks: &[ArrayRef]) -> Result<ArrayRef, ArrowError> {
    concat(&chunks.iter().map(AsRef::as_ref).collect::<Vec<_>>())
}

/// A copy of what the array shows, if it keeps much more than that alive: a row cut out of a large
/// batch must not keep the batch.
fn compact(array: ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => {
            let views = array.as_string_view();
            let held: usize = views.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
            if wasteful(held, || views.total_buffer_bytes_used()) { Arc::new(views.gc()) } else { array }
        }
        DataType::BinaryView => {
            let views = array.as_binary_view();
            let held: usize = views.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
            if wasteful(held, || views.total_buffer_bytes_used()) { Arc::new(views.gc()) } else { array }
        }
        DataType::Dictionary(key, _) if selects_little(&array) => select_values(&array, key)?,
        _ => {
            let data = array.to_data();
            match shown(&data) {
                Some(shown) if wasteful(data.get_array_memory_size(), || shown) => {
                    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
                    copy.try_extend(0, 0, data.len())?;
                    make_array(copy.freeze())
                }
                _ => array,
            }
        }
    })
}

/// Whether a dictionary has many more values than rows to select them.
fn selects_little(array: &ArrayRef) -> bool {
    let values = array.as_any_dictionary().values();
    values.len() / 2 > array.len() && values.get_array_memory_size() > TOLERATED_WASTE
}

/// The dictionary with one value per row and no others.
fn select_values(array: &ArrayRef, key: &DataType) -> Result<ArrayRef> {
    let dictionary = array.as_any_dictionary();
    let values = compact(take(dictionary.values(), dictionary.keys(), None)?)?;
    // There were more values than rows, so the key type can count the rows.
    let keys = cast(&UInt64Array::from_iter_values(0..array.len() as u64), key)?.to_data();
    let data = keys.into_builder().data_type(array.data_type().clone()).nulls(array.nulls().cloned());
    Ok(make_array(data.add_child_data(values.to_data()).build()?))
}

/// Bytes that the rows refer to. Lists count the elements of their rows alone, which
/// `ArrayData::get_slice_memory_size` does not.
fn shown(data: &ArrayData) -> Option<usize> {
    fn elements<O: OffsetSizeTrait>(data: &ArrayData) -> Option<usize> {
        let offsets = &data.buffers()[0].typed_data::<O>()[data.offset()..];
        // A list of no rows may come without offsets.
        let (first, last) = (offsets.first()?.as_usize(), offsets.get(data.len())?.as_usize());
        Some(shown(&data.child_data()[0].slice(first, last - first))? + (data.len() + 1) * size_of::<O>())
    }
    let below = match data.data_type() {
        DataType::List(_) | DataType::Map(..) => elements::<i32>(data)?,
        DataType::LargeList(_) => elements::<i64>(data)?,
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).ok()?;
            shown(&data.child_data()[0].slice(data.offset() * size, data.len() * size))?
        }
        DataType::Struct(_) => data.child_data().iter().map(shown).sum::<Option<usize>>()?,
        _ => return data.get_slice_memory_size().ok(),
    };
    Some(below + data.nulls().map_or(0, |_| data.len().div_ceil(8)))
}

/// What the rows of views show is counted row by row, so only where it matters.
fn wasteful(held: usize, shown: impl FnOnce() -> usize) -> bool {
    held > TOLERATED_WASTE && {
        let shown = shown();
        held.saturating_sub(shown) > TOLERATED_WASTE.max(shown)
    }
}
