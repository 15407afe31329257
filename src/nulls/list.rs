//! Lists of numbers: a null row becomes an empty one, and what lay hidden under it is gone.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, GenericListArray, OffsetSizeTrait};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::filter;
use arrow::datatypes::{DataType, FieldRef};

use super::{Cause, Place, RowOf, Work, elements, union};
use crate::error::{Error, Result};
use crate::schema::EntrySpec;

pub(super) fn rule(
    array: ArrayRef,
    above: Option<&NullBuffer>,
    spec: &EntrySpec,
    work: &mut Work,
) -> Result<(ArrayRef, Option<NullBuffer>)> {
    match spec.output.data_type() {
        DataType::List(child) => rule_offsets::<i32>(array, above, child, spec, work),
        DataType::LargeList(child) => rule_offsets::<i64>(array, above, child, spec, work),
        other => Err(Error::schema(format!("{other} is no list")).at(&spec.key)),
    }
}

fn rule_offsets<O: OffsetSizeTrait>(
    array: ArrayRef,
    above: Option<&NullBuffer>,
    child: &FieldRef,
    spec: &EntrySpec,
    work: &mut Work,
) -> Result<(ArrayRef, Option<NullBuffer>)> {
    Place::rows(spec).check(array.nulls())?;
    let list = array.as_list::<O>().clone();
    drop(array);
    let (_, offsets, values, nulls) = list.into_parts();
    let validity = union(above, nulls.as_ref());
    work.filled(spec, validity.as_ref().map_or(0, NullBuffer::null_count));

    let (offsets, values) = window(offsets, values, spec, work);
    let (offsets, values) = match &validity {
        Some(validity) => drop_hidden(offsets, values, validity, spec, work)?,
        None => (offsets, values),
    };
    let row_of = |element: usize| offsets.partition_point(|offset| offset.as_usize() <= element).saturating_sub(1);
    let place = Place { spec, rows: RowOf::Ragged { offsets: &row_of, width: 1 } };
    let values = elements(values, None, child.data_type(), &place, work)?;
    let list = GenericListArray::<O>::try_new(Arc::clone(child), offsets, values, None)?;
    Ok((Arc::new(list), validity))
}

/// The values that the rows refer to, and offsets from 0.
fn window<O: OffsetSizeTrait>(
    offsets: OffsetBuffer<O>,
    values: ArrayRef,
    spec: &EntrySpec,
    work: &mut Work,
) -> (OffsetBuffer<O>, ArrayRef) {
    let (start, stop) = (offsets[0], offsets[offsets.len() - 1]);
    if start.as_usize() == 0 && stop.as_usize() == values.len() {
        return (offsets, values);
    }
    let values = values.slice(start.as_usize(), stop.as_usize() - start.as_usize());
    if start.as_usize() == 0 {
        return (offsets, values);
    }
    work.copied(spec, size_of_val(&*offsets), Cause::Part);
    let rebased: Vec<O> = offsets.iter().map(|offset| *offset - start).collect();
    (OffsetBuffer::new(ScalarBuffer::from(rebased)), values)
}

/// Empties the rows that are null, where they are not empty yet.
fn drop_hidden<O: OffsetSizeTrait>(
    offsets: OffsetBuffer<O>,
    values: ArrayRef,
    validity: &NullBuffer,
    spec: &EntrySpec,
    work: &mut Work,
) -> Result<(OffsetBuffer<O>, ArrayRef)> {
    let hides = |row: usize| validity.is_null(row) && offsets[row] != offsets[row + 1];
    if !(0..validity.len()).any(hides) {
        return Ok((offsets, values));
    }
    let mut kept = BooleanBufferBuilder::new(values.len());
    let mut packed = Vec::with_capacity(offsets.len());
    let mut end = O::zero();
    packed.push(end);
    for row in 0..validity.len() {
        let length = offsets[row + 1] - offsets[row];
        let valid = validity.is_valid(row);
        kept.append_n(length.as_usize(), valid);
        if valid {
            end += length;
        }
        packed.push(end);
    }
    let values = filter(&values, &BooleanArray::new(kept.finish(), None))?;
    let elements = values.to_data().get_slice_memory_size()?;
    work.copied(spec, elements + size_of_val(packed.as_slice()), Cause::Hidden);
    Ok((OffsetBuffer::new(ScalarBuffer::from(packed)), values))
}
