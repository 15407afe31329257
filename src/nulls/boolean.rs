//! Booleans: false.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::NullBuffer;

use super::{Place, Work, union};
use crate::error::Result;

pub(super) fn rule(array: ArrayRef, above: Option<NullBuffer>, place: &Place<'_>, work: &mut Work) -> Result<ArrayRef> {
    place.check(array.nulls())?;
    if array.nulls().is_none() && above.is_none() {
        return Ok(array);
    }
    let (values, nulls) = array.as_boolean().clone().into_parts();
    let values = match union(above.as_ref(), nulls.as_ref()) {
        None => values,
        Some(validity) => {
            work.filled(place.spec, validity.null_count());
            &values & validity.inner()
        }
    };
    Ok(Arc::new(BooleanArray::new(values, None)))
}
