//! `fill_null(x, value)`: numbers for nulls, also in lists.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait, Scalar};
use arrow::compute::is_not_null;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::Documentation;

use super::column::{Arguments, ColumnFunction, SECTION};
use super::lists::is_number;
use crate::error::{Error, Result};

#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FillNull;

impl ColumnFunction for FillNull {
    const NAME: &'static str = "fill_null";
    const ARGUMENTS: RangeInclusive<usize> = 2..=2;

    fn example() -> (Vec<DataType>, DataType) {
        (vec![DataType::Float64, DataType::Float64], DataType::Float64)
    }

    fn documentation() -> Documentation {
        Documentation::builder(
            SECTION,
            "Puts `value` where a number or boolean is null: in the column, or in its lists, however deep. The type stays, \
             which of the engine's `coalesce(x, value)` it need not. Null lists stay null: they have no numbers. The \
             fields of a struct are columns of their own: `fill_null(s['f'], 0)`.",
            "fill_null(x, value)",
        )
        .with_sql_example("```sql\n> SELECT fill_null([1, NULL, 3], 0);   -- [1, 0, 3]\n```")
        .with_argument("x", "Numbers, booleans, or lists of them at any depth.")
        .with_argument("value", "A constant that their type can hold.")
        .with_related_udf("coalesce")
        .build()
    }

    fn field(arguments: &Arguments<'_>) -> Result<Field> {
        let column = arguments.column();
        let Some(leaf) = leaf(column.data_type()) else {
            return Err(arguments
                .wrong_type("numbers, booleans, or lists of them")
                .remedy("of a struct, fill the fields that are: fill_null(s['f'], 0)"));
        };
        if arguments.value(1, "value", leaf)?.is_null() {
            return Err(arguments.wrong("value", "NULL").remedy("write a number or boolean"));
        }
        let filled = filled(column);
        // A tensor's shape stays.
        let extension = column.metadata().iter().filter(|(key, _)| key.starts_with("ARROW:extension:"));
        let extension = extension.map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(Field::new(Self::NAME, filled.data_type().clone(), filled.is_nullable()).with_metadata(extension))
    }

    fn evaluate(arguments: &Arguments<'_>, column: ArrayRef, field: &Field) -> Result<ArrayRef> {
        let leaf =
            leaf(field.data_type()).ok_or_else(|| arguments.wrong_type("numbers, booleans, or lists of them"))?;
        let value = arguments.value(1, "value", leaf)?.to_scalar()?;
        fill(&column, field.data_type(), &value)
    }
}

/// The type of the numbers that are to be filled.
fn leaf(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            leaf(element.data_type())
        }
        number => is_number(number).then_some(number),
    }
}

/// The field without nulls among its numbers.
fn filled(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(element) => DataType::List(filled(element)),
        DataType::LargeList(element) => DataType::LargeList(filled(element)),
        DataType::FixedSizeList(element, size) => DataType::FixedSizeList(filled(element), *size),
        _ => return Arc::new(field.as_ref().clone().with_nullable(false)),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

fn fill(array: &ArrayRef, to: &DataType, value: &Scalar<ArrayRef>) -> Result<ArrayRef> {
    match to {
        DataType::List(element) => fill_lists::<i32>(array, element, value),
        DataType::LargeList(element) => fill_lists::<i64>(array, element, value),
        DataType::FixedSizeList(element, size) => {
            let lists = array.as_fixed_size_list_opt().ok_or_else(|| other_than(array, to))?;
            let values = fill(lists.values(), element.data_type(), value)?;
            let (nulls, rows) = (lists.nulls().cloned(), lists.len());
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(element), *size, values, nulls, rows)?))
        }
        _ if array.null_count() == 0 => Ok(Arc::clone(array)),
        _ => Ok(zip(&is_not_null(array)?, array, value)?),
    }
}

fn fill_lists<O: OffsetSizeTrait>(array: &ArrayRef, element: &FieldRef, value: &Scalar<ArrayRef>) -> Result<ArrayRef> {
    let lists = array.as_list_opt::<O>().ok_or_else(|| other_than(array, element.data_type()))?;
    let values = fill(lists.values(), element.data_type(), value)?;
    let offsets = lists.offsets().clone();
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(element), offsets, values, lists.nulls().cloned())?))
}

fn other_than(array: &ArrayRef, planned: &DataType) -> Error {
    Error::schema(format!("fill_null was planned for {planned}, and got {}", array.data_type()))
}
