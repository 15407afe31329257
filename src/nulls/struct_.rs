//! Structs: a null row makes every field null there.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::{Masks, Place, Work, rule_entry, union};
use crate::error::{Error, Result};
use crate::options::Nulls;
use crate::schema::EntrySpec;

pub(super) fn rule(
    array: ArrayRef,
    above: Option<&NullBuffer>,
    spec: &EntrySpec,
    entries: &[EntrySpec],
    masks: &mut Masks,
    work: &mut Work,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = spec.output.data_type() else {
        return Err(Error::schema(format!("{} is no struct", array.data_type())).at(&spec.key));
    };
    let length = array.len();
    let structs = array.as_struct().clone();
    drop(array);
    let (_, children, nulls) = structs.into_parts();
    let validity = union(above, nulls.as_ref());
    if entries.is_empty() {
        // Without fields there is nobody below to say that the row was null.
        Place::rows(spec).check(validity.as_ref())?;
        masks.record(spec, validity)?;
        return Ok(Arc::new(StructArray::new_empty_fields(length, None)));
    }
    let children = children
        .into_iter()
        .zip(entries)
        .map(|(child, entry)| {
            // A null struct row counts as a null of its fields, whatever they hold there.
            if entry.nulls == Nulls::Raise && entry.entries().is_empty() {
                Place::rows(entry).check(union(validity.as_ref(), child.nulls()).as_ref())?;
            }
            rule_entry(child, validity.as_ref(), entry, masks, work)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), children, None, length)?))
}
