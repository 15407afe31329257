//! Fixed-size lists: a null row has each of its elements filled.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, FixedSizeListArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::FieldRef;

use super::{Place, Work, elements, union};
use crate::error::Result;

pub(super) fn rule(
    array: ArrayRef,
    above: Option<NullBuffer>,
    child: &FieldRef,
    size: i32,
    place: &Place<'_>,
    work: &mut Work,
) -> Result<ArrayRef> {
    place.check(array.nulls())?;
    let length = array.len();
    let list = array.as_fixed_size_list().clone();
    drop(array);
    let (_, _, values, nulls) = list.into_parts();
    let width = usize::try_from(size).unwrap_or_default();
    // Filling the elements under a null row once is enough, so their validity joins the elements' own.
    let validity = union(above.as_ref(), nulls.as_ref()).map(|validity| expand(&validity, width));
    let values = elements(values, validity, child.data_type(), &place.inside(width), work)?;
    Ok(Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(child), size, values, None, length)?))
}

/// Each row's validity `width` times. Arrow's own `NullBuffer::expand` does it bit by bit.
fn expand(validity: &NullBuffer, width: usize) -> NullBuffer {
    let mut expanded = BooleanBufferBuilder::new(validity.len() * width);
    validity.iter().for_each(|valid| expanded.append_n(width, valid));
    NullBuffer::new(expanded.finish())
}
