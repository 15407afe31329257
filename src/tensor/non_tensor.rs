//! Values that are no tensors, one per element of the batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MutableArrayData, UInt64Array, make_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};

use super::Value;
use crate::error::{Error, Result};

/// A column that stays as Arrow has it: strings, times, decimals, lists of lists, …
///
/// One value per element of the batch, in row-major order; a batch of no dims holds one value.
#[derive(Clone, Debug)]
pub struct NonTensorStack {
    field: FieldRef,
    values: ArrayRef,
    batch_size: Vec<i64>,
}

impl NonTensorStack {
    /// One value per row of `values`.
    pub fn new(values: ArrayRef) -> Self {
        let field = Arc::new(Field::new("", values.data_type().clone(), true));
        NonTensorStack::with_field(field, values)
    }

    /// As [`new`](Self::new), with the Arrow field that the values come from (extension types live there).
    pub(crate) fn with_field(field: FieldRef, values: ArrayRef) -> Self {
        let rows = i64::try_from(values.len()).unwrap_or(i64::MAX);
        NonTensorStack { field, values, batch_size: vec![rows] }
    }

    /// The values as an Arrow array.
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// The Arrow type of the values.
    pub fn data_type(&self) -> &DataType {
        self.values.data_type()
    }

    /// The Arrow field that the values come from.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The sizes of the batch: `[rows]`, or `[]` for the value of one row.
    pub fn batch_size(&self) -> &[i64] {
        &self.batch_size
    }

    /// The value at a place in the values.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error past the end.
    pub fn value(&self, row: usize) -> Result<Value> {
        if row >= self.values.len() {
            return Err(Error::index(format!("value {row} is out of bounds for {}", self.values.len())));
        }
        Value::from_array(&self.values, row)
    }

    pub(crate) fn row(&self, row: usize) -> NonTensorStack {
        NonTensorStack { field: Arc::clone(&self.field), values: self.values.slice(row, 1), batch_size: vec![] }
    }

    pub(crate) fn slice(&self, start: usize, stop: usize) -> NonTensorStack {
        NonTensorStack::with_field(Arc::clone(&self.field), self.values.slice(start, stop - start))
    }

    pub(crate) fn select(&self, rows: &UInt64Array) -> Result<NonTensorStack> {
        let values = if has_rows_of_nothing(self.data_type()) {
            pick(&self.values, rows)?
        } else {
            take(&self.values, rows, None)?
        };
        Ok(NonTensorStack::with_field(Arc::clone(&self.field), values))
    }
}

/// Whether there are fixed-size lists of size 0 in it, of which Arrow's `take` (59.3) loses the rows.
fn has_rows_of_nothing(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(_, 0) => true,
        DataType::FixedSizeList(field, _)
        | DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => has_rows_of_nothing(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_rows_of_nothing(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_rows_of_nothing(field.data_type())),
        DataType::Dictionary(_, values) => has_rows_of_nothing(values),
        _ => false,
    }
}

/// The rows one by one.
fn pick(values: &ArrayRef, rows: &UInt64Array) -> Result<ArrayRef> {
    let data = values.to_data();
    let mut picked = MutableArrayData::new(vec![&data], false, rows.len());
    for row in rows.values() {
        let row = usize::try_from(*row).ok().filter(|row| *row < values.len());
        let row = row.ok_or_else(|| Error::index(format!("a row is out of bounds for {}", values.len())))?;
        picked.try_extend(0, row, row + 1)?;
    }
    Ok(make_array(picked.freeze()))
}
