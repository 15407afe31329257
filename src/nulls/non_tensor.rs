//! What is no tensor: its null rows stay null, unless they are refused.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, GenericListViewArray, OffsetSizeTrait, PrimitiveArray, UInt64Array,
    UnionArray, make_array,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::{nullif, take};
use arrow::datatypes::{ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type, RunEndIndexType, UnionFields};

use super::{refuse, union};
use crate::error::Result;
use crate::options::Nulls;
use crate::schema::EntrySpec;

/// The array, with rows null where a struct above is, and the validity of its rows.
pub(super) fn rule(
    array: ArrayRef,
    above: Option<&NullBuffer>,
    spec: &EntrySpec,
) -> Result<(ArrayRef, Option<NullBuffer>)> {
    // Of dictionaries, unions and runs the values know which rows are null.
    let validity = union(above, array.logical_nulls().as_ref());
    if spec.nulls == Nulls::Raise
        && let Some(found) = find_null(&array)?
    {
        return Err(refuse(spec, found.count, found.row));
    }
    let array = match above {
        Some(above) if above.null_count() > 0 => hide(array, above)?,
        _ => array,
    };
    Ok((array, validity))
}

/// The array with null in the rows that a struct above hides.
pub(crate) fn hide(array: ArrayRef, above: &NullBuffer) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Null => Ok(array),
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => hide_in_runs::<Int16Type>(&array, above),
            DataType::Int32 => hide_in_runs::<Int32Type>(&array, above),
            _ => hide_in_runs::<Int64Type>(&array, above),
        },
        DataType::Union(fields, _) => hide_in_union(array.as_union(), fields, above),
        _ => Ok(nullif(&array, &BooleanArray::new(!above.inner(), None))?),
    }
}

/// Runs have no validity, their values do: each row becomes a run of its own.
fn hide_in_runs<R: RunEndIndexType>(array: &ArrayRef, above: &NullBuffer) -> Result<ArrayRef> {
    let runs = array.as_run::<R>();
    let physical = |row: usize| above.is_valid(row).then(|| runs.get_physical_index(row) as u64);
    let values = take(runs.values(), &(0..runs.len()).map(physical).collect::<UInt64Array>(), None)?;
    let ends = (1..=runs.len()).map(R::Native::usize_as).collect::<Vec<_>>();
    let ends = PrimitiveArray::<R>::new(ends.into(), None);
    let data = array.to_data().into_builder().offset(0).child_data(vec![ends.to_data(), values.to_data()]);
    Ok(make_array(data.build()?))
}

/// Unions have no validity, their children do: each child is written anew for the rows that it holds.
fn hide_in_union(union: &UnionArray, fields: &UnionFields, above: &NullBuffer) -> Result<ArrayRef> {
    let rows = |id: i8| (0..union.len()).filter(move |row| union.type_id(*row) == id);
    let mut offsets = union.offsets().is_some().then(|| vec![0i32; union.len()]);
    let mut children = Vec::with_capacity(fields.len());
    for (id, _) in fields.iter() {
        let place = |row: usize| above.is_valid(row).then(|| union.value_offset(row) as u64);
        let places: UInt64Array = match &mut offsets {
            // Dense: one element per row of the child, in order.
            Some(offsets) => {
                rows(id).zip(0..).for_each(|(row, at)| offsets[row] = at);
                rows(id).map(place).collect()
            }
            None => (0..union.len()).map(place).collect(),
        };
        children.push(take(union.child(id), &places, None)?);
    }
    let offsets = offsets.map(ScalarBuffer::from);
    Ok(Arc::new(UnionArray::try_new(fields.clone(), union.type_ids().clone(), offsets, children)?))
}

struct Found {
    count: usize,
    row: usize,
}

/// Nulls at any depth that some row shows: in lists, maps, structs, selected dictionary values, unions, runs.
fn find_null(array: &dyn Array) -> Result<Option<Found>> {
    if let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        return Ok(Some(Found { count: nulls.null_count(), row: super::first_null(&nulls) }));
    }
    match array.data_type() {
        DataType::List(_) => find_in_list::<i32>(array),
        DataType::LargeList(_) => find_in_list::<i64>(array),
        DataType::ListView(_) => find_in_list_view(array.as_list_view::<i32>()),
        DataType::LargeListView(_) => find_in_list_view(array.as_list_view::<i64>()),
        DataType::FixedSizeList(_, size) => {
            let found = find_null(array.as_fixed_size_list().values())?;
            let width = usize::try_from(*size).unwrap_or_default().max(1);
            Ok(found.map(|found| Found { row: found.row / width, ..found }))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            find_in_rows(
                map.entries(),
                |row| (map.offsets()[row].as_usize(), map.offsets()[row + 1].as_usize()),
                map.len(),
            )
        }
        DataType::Struct(_) => {
            for child in array.as_struct().columns() {
                if let Some(found) = find_null(child)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
        DataType::Dictionary(_, values) if values.is_nested() => {
            let dictionary = array.as_any_dictionary();
            find_null(&take(dictionary.values(), dictionary.keys(), None)?)
        }
        DataType::Union(..) => find_in_union(array.as_union()),
        DataType::RunEndEncoded(ends, values) if values.data_type().is_nested() => match ends.data_type() {
            DataType::Int16 => find_in_runs::<Int16Type>(array),
            DataType::Int32 => find_in_runs::<Int32Type>(array),
            _ => find_in_runs::<Int64Type>(array),
        },
        _ => Ok(None),
    }
}

fn find_in_list<O: OffsetSizeTrait>(array: &dyn Array) -> Result<Option<Found>> {
    let list = array.as_list::<O>();
    let offsets = list.value_offsets();
    find_in_rows(list.values(), |row| (offsets[row].as_usize(), offsets[row + 1].as_usize()), list.len())
}

fn find_in_list_view<O: OffsetSizeTrait>(list: &GenericListViewArray<O>) -> Result<Option<Found>> {
    let bounds = |row: usize| {
        let start = list.offsets()[row].as_usize();
        (start, start + list.sizes()[row].as_usize())
    };
    find_in_rows(list.values(), bounds, list.len())
}

/// Rows that refer to ranges of `values`: nothing outside the ranges counts.
fn find_in_rows(values: &dyn Array, bounds: impl Fn(usize) -> (usize, usize), rows: usize) -> Result<Option<Found>> {
    if find_null(values)?.is_none() {
        return Ok(None);
    }
    let mut first: Option<Found> = None;
    for row in 0..rows {
        let (start, stop) = bounds(row);
        if let Some(found) = find_null(&values.slice(start, stop - start))? {
            first.get_or_insert(Found { row, count: 0 }).count += found.count;
        }
    }
    Ok(first)
}

fn find_in_union(union: &UnionArray) -> Result<Option<Found>> {
    let mut first: Option<Found> = None;
    for row in 0..union.len() {
        if let Some(found) = find_null(&union.value(row))? {
            first.get_or_insert(Found { row, count: 0 }).count += found.count;
        }
    }
    Ok(first)
}

fn find_in_runs<R: RunEndIndexType>(array: &dyn Array) -> Result<Option<Found>> {
    let Some(runs) = array.as_run_opt::<R>() else {
        return Ok(None);
    };
    let mut first: Option<Found> = None;
    for row in 0..runs.len() {
        let physical = runs.get_physical_index(row);
        if let Some(found) = find_null(&runs.values().slice(physical, 1))? {
            first.get_or_insert(Found { row, count: 0 }).count += found.count;
        }
    }
    Ok(first)
}
