//! Values that are no tensors: they are an Arrow array already.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Field;

use crate::error::{Error, Result};
use crate::nulls;
use crate::tensor::NonTensorStack;

pub(super) fn column(
    name: &str,
    values: &NonTensorStack,
    rows: usize,
    validity: Option<NullBuffer>,
) -> Result<(Field, ArrayRef)> {
    let array = values.values();
    if array.len() != rows {
        return Err(Error::shape(format!("there are {} values for {rows} rows", array.len())));
    }
    let field = values.field().as_ref().clone().with_name(name).with_data_type(array.data_type().clone());
    let nullable = field.is_nullable() || validity.is_some();
    let array = match validity.filter(|validity| hides_more(validity, array)) {
        Some(validity) => nulls::hide(Arc::clone(array), &validity)?,
        None => Arc::clone(array),
    };
    Ok((field.with_nullable(nullable), array))
}

/// Whether a row is null that isn't yet.
fn hides_more(validity: &NullBuffer, array: &ArrayRef) -> bool {
    NullBuffer::union(array.nulls(), Some(validity)).map_or(0, |nulls| nulls.null_count()) > array.null_count()
}
