//! Arrow → Arrow: nulls refused, filled or masked. The only place that knows what a null means.
//!
//! One file per layout. Each takes an array, the validity that structs above impose on its rows, and
//! what the schema says about it, and gives the array without nulls (or, for what is no tensor, with
//! its nulls ruled on). Validity of rows that is to become a mask is handed to [`Masks`].

mod bits;
mod boolean;
mod fixed_size_list;
mod list;
#[cfg(feature = "datafusion")]
mod mask_column;
mod non_tensor;
mod primitive;
mod struct_;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::options::Nulls;
use crate::schema::{EntryKind, EntrySpec, MaskRule, TensorDictSchema};

pub(crate) use bits::unpack;
#[cfg(feature = "datafusion")]
pub(crate) use mask_column::mask_column;
pub(crate) use non_tensor::hide;

/// What the nulls stage did to one column, for metrics and receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Null rows and elements that got a fill value.
    pub(crate) filled: usize,
    /// Bytes written anew.
    pub(crate) bytes_copied: usize,
    /// The same, entry by entry; only those where something was done.
    pub(crate) entries: Vec<EntryWork>,
}

/// What the nulls stage did to one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryWork {
    pub(crate) key: NestedKey,
    pub(crate) filled: usize,
    pub(crate) bytes_copied: usize,
    /// Why bytes were written anew.
    pub(crate) cause: Option<Cause>,
}

/// Why the nulls stage couldn't work on the buffer itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The buffer starts within its allocation.
    Part,
    /// Somebody else holds the buffer.
    Shared,
    /// The memory belongs to another allocator.
    Foreign,
    /// Elements hidden under null rows were dropped.
    Hidden,
}

impl Cause {
    /// Why this buffer can't be written in place, if it can't.
    pub(crate) fn of(buffer: &Buffer) -> Cause {
        if buffer.ptr_offset() > 0 {
            Cause::Part
        } else if buffer.strong_count() > 1 {
            Cause::Shared
        } else {
            Cause::Foreign
        }
    }
}

impl Work {
    fn filled(&mut self, spec: &EntrySpec, count: usize) {
        if count > 0 {
            self.filled += count;
            self.entry(spec).filled += count;
        }
    }

    fn copied(&mut self, spec: &EntrySpec, bytes: usize, cause: Cause) {
        self.bytes_copied += bytes;
        let entry = self.entry(spec);
        entry.bytes_copied += bytes;
        entry.cause.get_or_insert(cause);
    }

    fn entry(&mut self, spec: &EntrySpec) -> &mut EntryWork {
        let at = self.entries.iter().position(|entry| entry.key == spec.key).unwrap_or_else(|| {
            self.entries.push(EntryWork { key: spec.key.clone(), filled: 0, bytes_copied: 0, cause: None });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }
}

/// Row validity of the entries that may have a mask, in the order of the schema.
pub(crate) struct Masks(Vec<Mask>);

/// Validity of one entry's rows. `None` stands for all valid.
pub(crate) struct Mask {
    pub(crate) key: NestedKey,
    pub(crate) rule: MaskRule,
    pub(crate) validity: Option<NullBuffer>,
}

impl Masks {
    /// # Errors
    ///
    /// Nulls that the schema rules out, where a mask was asked for: there is no place for it.
    fn record(&mut self, spec: &EntrySpec, validity: Option<NullBuffer>) -> Result<()> {
        let validity = validity.filter(|validity| validity.null_count() > 0);
        if spec.mask.may_be() {
            self.0.push(Mask { key: spec.key.clone(), rule: spec.mask, validity });
        } else if let (MaskRule::RuledOut, Some(validity)) = (spec.mask, validity) {
            return Err(Error::schema("it holds nulls, but its schema says that it can't, so it has no mask")
                .at(&spec.key)
                .at_row(first_null(&validity))
                .remedy("name the column in mask_keys, or correct the schema of the table"));
        }
        Ok(())
    }

    pub(crate) fn into_inner(self) -> Vec<Mask> {
        self.0
    }
}

/// One record batch's columns after the stage, each with what was done to it, and the masks.
pub(crate) struct Ruled {
    pub(crate) columns: Vec<(ArrayRef, Work)>,
    pub(crate) masks: Masks,
}

/// Rules on the nulls of one record batch's columns.
///
/// # Errors
///
/// A [null](Error::is_null) error at the first column that has nulls and refuses them; a
/// [schema](Error::is_schema) error if a column isn't of the type that the schema was resolved for.
pub(crate) fn rule(columns: Vec<ArrayRef>, schema: &TensorDictSchema) -> Result<Ruled> {
    let mut masks = Masks(Vec::new());
    let columns = columns
        .into_iter()
        .zip(schema.entries())
        .map(|(column, spec)| {
            if column.data_type() != spec.field.data_type() {
                let (got, announced) = (column.data_type(), spec.field.data_type());
                return Err(
                    Error::schema(format!("a batch holds {got}, its schema announced {announced}")).at(&spec.key)
                );
            }
            let mut work = Work::default();
            Ok((rule_entry(column, None, spec, &mut masks, &mut work)?, work))
        })
        .collect::<Result<_>>()?;
    Ok(Ruled { columns, masks })
}

fn rule_entry(
    array: ArrayRef,
    above: Option<&NullBuffer>,
    spec: &EntrySpec,
    masks: &mut Masks,
    work: &mut Work,
) -> Result<ArrayRef> {
    match &spec.kind {
        EntryKind::Dict(entries) => struct_::rule(array, above, spec, entries, masks, work),
        EntryKind::NonTensor => {
            let (array, validity) = non_tensor::rule(array, above, spec)?;
            masks.record(spec, validity)?;
            Ok(array)
        }
        EntryKind::Dense(_) => {
            let validity = union(above, array.nulls());
            let array = elements(array, above.cloned(), spec.output.data_type(), &Place::rows(spec), work)?;
            masks.record(spec, validity)?;
            Ok(array)
        }
        EntryKind::Jagged(_) => {
            let (array, validity) = list::rule(array, above, spec, work)?;
            masks.record(spec, validity)?;
            Ok(array)
        }
    }
}

/// Numbers or booleans, perhaps in fixed-size lists: without nulls of its own or from above.
fn elements(
    array: ArrayRef,
    above: Option<NullBuffer>,
    target: &DataType,
    place: &Place<'_>,
    work: &mut Work,
) -> Result<ArrayRef> {
    match target {
        DataType::FixedSizeList(child, size) => fixed_size_list::rule(array, above, child, *size, place, work),
        DataType::Boolean => boolean::rule(array, above, place, work),
        _ => primitive::rule(array, above, place, work),
    }
}

/// Where in a column an array lies, to name the row of a null and to know whether it is refused.
struct Place<'a> {
    spec: &'a EntrySpec,
    rows: RowOf<'a>,
}

/// From an element's position to its row.
enum RowOf<'a> {
    /// Each row holds so many elements.
    Fixed(usize),
    /// Rows end at these offsets (of `width` elements each).
    Ragged { offsets: &'a dyn Fn(usize) -> usize, width: usize },
}

impl<'a> Place<'a> {
    fn rows(spec: &'a EntrySpec) -> Self {
        Place { spec, rows: RowOf::Fixed(1) }
    }

    /// The same column, `size` elements of a fixed-size list further in.
    fn inside(&self, size: usize) -> Self {
        let rows = match &self.rows {
            RowOf::Fixed(width) => RowOf::Fixed(width * size),
            RowOf::Ragged { offsets, width } => RowOf::Ragged { offsets: *offsets, width: width * size },
        };
        Place { spec: self.spec, rows }
    }

    /// Refuses nulls where the column's nulls are refused.
    fn check(&self, validity: Option<&NullBuffer>) -> Result<()> {
        match validity {
            Some(validity) if self.spec.nulls == Nulls::Raise && validity.null_count() > 0 => {
                let first = first_null(validity);
                let row = match &self.rows {
                    RowOf::Fixed(width) => first / (*width).max(1),
                    RowOf::Ragged { offsets, width } => offsets(first / (*width).max(1)),
                };
                Err(refuse(self.spec, validity.null_count(), row))
            }
            _ => Ok(()),
        }
    }
}

/// The error of `nulls=raise`.
fn refuse(spec: &EntrySpec, count: usize, row: usize) -> Error {
    let nulls = if count == 1 { "null" } else { "nulls" };
    // Batches are ruled on one by one: what others hold was not looked at.
    refused(&format!("{count} {nulls} in one record batch of a column"), &spec.key).at_row(row)
}

fn refused(found: &str, key: &NestedKey) -> Error {
    Error::null(format!("{found} whose nulls are refused (nulls=raise)"))
        .at(key)
        .remedy("nulls=fill replaces nulls, nulls=mask replaces them and says where they were")
}

/// The error of [`rule`] without what depends on the batch that was ruled on first, where several are at once.
#[cfg(feature = "datafusion")]
pub(crate) fn in_some_batch(error: Error) -> Error {
    match error.nested_key() {
        Some(key) if error.is_null() => refused("nulls in a column", key),
        _ => error.without_row(),
    }
}

fn first_null(validity: &NullBuffer) -> usize {
    (!validity.inner()).set_indices().next().unwrap_or_default()
}

/// Valid where both are.
fn union(above: Option<&NullBuffer>, own: Option<&NullBuffer>) -> Option<NullBuffer> {
    NullBuffer::union(above, own).filter(|validity| validity.null_count() > 0)
}
