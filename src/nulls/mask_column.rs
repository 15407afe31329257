//! Masks as a column: one struct, nested as the mask key and the keys are.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, StructArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Fields};

use super::{Mask, Masks};
use crate::error::Result;

/// The mask column that the operator appends: one struct, nested as the mask key and the keys are.
pub(crate) fn mask_column(masks: Masks, num_rows: usize, field: &Field) -> Result<ArrayRef> {
    let mut masks = masks.0.into_iter();
    let column = build_masks(field.data_type(), &mut masks, num_rows)?;
    debug_assert!(masks.next().is_none(), "each recorded mask has a field");
    Ok(column)
}

/// `masks` come in the order of the schema, which is the order of the leaves of the mask column.
fn build_masks(data_type: &DataType, masks: &mut impl Iterator<Item = Mask>, num_rows: usize) -> Result<ArrayRef> {
    match data_type {
        DataType::Struct(fields) => {
            let children = fields
                .iter()
                .map(|field| build_masks(field.data_type(), masks, num_rows))
                .collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new(Fields::clone(fields), children, None)?))
        }
        _ => {
            let validity = masks.next().and_then(|mask| mask.validity);
            let values = validity.map_or_else(|| BooleanBuffer::new_set(num_rows), NullBuffer::into_inner);
            Ok(Arc::new(BooleanArray::new(values, None)))
        }
    }
}
