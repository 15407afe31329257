//! Values that are no tensors, one per element of the batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
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
        Ok(NonTensorStack::with_field(Arc::clone(&self.field), take(&self.values, rows, None)?))
    }
}
