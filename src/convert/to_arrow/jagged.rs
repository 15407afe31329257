//! Jagged tensors → large lists.

use std::sync::Arc;

use arrow::array::{ArrayRef, LargeListArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field};

use super::masks::Mask;
use super::{dense, share};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::options::CopyPolicy;
use crate::tensor::JaggedTensor;

pub(super) fn column(
    name: &str,
    jagged: JaggedTensor,
    rows: usize,
    mask: Mask,
    policy: CopyPolicy,
) -> Result<(Field, ArrayRef)> {
    let (values, offsets) = jagged.into_parts();
    let total = values.size().first().and_then(|total| usize::try_from(*total).ok());
    let total = total.ok_or_else(|| Error::shape(format!("its values have shape {:?}", values.size())))?;
    if offsets.f_kind()? != tch::Kind::Int64 {
        return Err(Error::shape("its offsets are no longer int64"));
    }
    let valid = mask.of_list(&offsets, &values.size())?;
    let (element, values) = dense::column(Field::LIST_FIELD_DEFAULT_NAME, values, total, valid.values, policy)?;
    let offsets = ScalarBuffer::<i64>::from(share::buffer(offsets, DType::Int64, policy)?);
    ensure_offsets(&offsets, rows, total)?;
    let element = Arc::new(element);
    let field = Field::new(name, DataType::LargeList(Arc::clone(&element)), valid.rows.is_some());
    let list = LargeListArray::try_new(element, OffsetBuffer::new(offsets), values, valid.rows)?;
    Ok((field, Arc::new(list)))
}

/// They were checked when the jagged tensor was made, but its handles may have been written to since. Now that
/// nobody can, they are checked for good.
fn ensure_offsets(offsets: &[i64], rows: usize, total: usize) -> Result<()> {
    let ends = offsets.first() == Some(&0) && offsets.last().and_then(|end| usize::try_from(*end).ok()) == Some(total);
    if offsets.len() != rows + 1 || !ends || !offsets.is_sorted() {
        let (count, first, last) = (offsets.len(), offsets.first(), offsets.last());
        return Err(Error::shape(format!(
            "its offsets must be {} numbers that rise from 0 to {total}; they are {count}, from {first:?} to {last:?}",
            rows + 1
        ))
        .remedy("make the jagged tensor anew: its offsets were written to"));
    }
    Ok(())
}
