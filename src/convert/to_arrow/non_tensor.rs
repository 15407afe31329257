//! Values that are no tensors: they are an Arrow array already.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use tch::Tensor;

use super::masks::Mask;
use crate::error::{Error, Result};
use crate::nulls;
use crate::tensor::NonTensorStack;

pub(super) fn column(name: &str, values: &NonTensorStack, rows: usize, mask: Mask) -> Result<(Field, ArrayRef)> {
    let array = values.values();
    if array.len() != rows {
        return Err(Error::shape(format!("there are {} values for {rows} rows", array.len())));
    }
    let (array, validity) = masked(array, mask)?;
    let field = values.field().as_ref().clone().with_name(name).with_data_type(array.data_type().clone());
    let nullable = field.is_nullable() || validity.is_some();
    Ok((field.with_nullable(nullable), hidden(array, validity)?))
}

/// The values with the mask of their elements, if they are lists that have one, and the validity of their rows.
fn masked(array: &ArrayRef, mask: Mask) -> Result<(ArrayRef, Option<NullBuffer>)> {
    let list = match array.as_list_opt::<i64>() {
        Some(list) if !mask.is_none() => list,
        _ => return Ok((Arc::clone(array), mask.of_tensor(&[array.len() as i64])?.rows)),
    };
    // A part of an array has values before its first row and after its last.
    let offsets = list.offsets();
    let (start, end) = (offsets[0], offsets[list.len()]);
    let lengths = Tensor::f_from_slice(&offsets.iter().map(|offset| offset - start).collect::<Vec<_>>())?;
    let valid = mask.of_list(&lengths, &[end - start])?;
    let Some(elements) = valid.values.rows else {
        return Ok((Arc::clone(array), valid.rows));
    };
    let values = list.values().slice(usize::try_from(start).unwrap_or_default(), elements.len());
    let DataType::LargeList(element) = list.data_type() else {
        return Ok((Arc::clone(array), valid.rows));
    };
    let element = Arc::new(element.as_ref().clone().with_nullable(true));
    let offsets = OffsetBuffer::from_lengths(offsets.lengths());
    let list = LargeListArray::try_new(element, offsets, hidden(values, Some(elements))?, list.nulls().cloned())?;
    Ok((Arc::new(list), valid.rows))
}

/// The values with null where they aren't valid.
fn hidden(array: ArrayRef, validity: Option<NullBuffer>) -> Result<ArrayRef> {
    let hides_more = |validity: &NullBuffer| {
        NullBuffer::union(array.nulls(), Some(validity)).map_or(0, |nulls| nulls.null_count()) > array.null_count()
    };
    match validity.filter(hides_more) {
        Some(validity) => nulls::hide(array, &validity),
        None => Ok(array),
    }
}
