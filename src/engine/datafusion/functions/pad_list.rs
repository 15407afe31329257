//! `pad_list(list, n [, value [, side]])`: lists of n elements.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Documentation;

use super::column::{Arguments, ColumnFunction, MOST_ELEMENTS, SECTION, Side};
use super::lists::{Lists, Run, elements_in_all, elements_of, gather, zero_of};
use crate::error::{Error, Result};

#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PadList;

impl ColumnFunction for PadList {
    const NAME: &'static str = "pad_list";
    const ARGUMENTS: RangeInclusive<usize> = 2..=4;

    fn example() -> (Vec<DataType>, DataType) {
        let element = Field::new_list_field(DataType::Float32, true);
        let types = vec![DataType::List(element.clone().into()), DataType::Int64, DataType::Float64, DataType::Utf8];
        (types, DataType::FixedSizeList(element.into(), 1))
    }

    fn documentation() -> Documentation {
        Documentation::builder(
            SECTION,
            "Makes each list one of `n` elements, so that the column becomes a dense tensor `[rows, n]`: what is missing \
             is `value`. A list of more elements is an error; `truncate_list` shortens it. A null list stays null, nulls \
             in lists stay what they are.",
            "pad_list(list, n [, value [, side]])",
        )
        .with_sql_example("```sql\n> SELECT pad_list([1, 2], 4, -1);   -- [1, 2, -1, -1]\n```")
        .with_argument("list", "A list of numbers or booleans.")
        .with_argument("n", "How many elements each list is to have: a constant from 1 to 2^24.")
        .with_argument("value", "A constant that the elements' type can hold, or NULL. Default: 0 or false.")
        .with_argument("side", "'right' (the default) or 'left': where `value` is put.")
        .with_related_udf("truncate_list")
        .build()
    }

    fn field(arguments: &Arguments<'_>) -> Result<Field> {
        let (element, size) = elements_of(arguments)?;
        let n = arguments.length(1, "n", MOST_ELEMENTS)?;
        arguments.side(3)?;
        if let Some(size) = size.filter(|size| *size > n) {
            return Err(arguments.of_column(too_long(size as usize, n)));
        }
        let nullable = element.is_nullable() || value(arguments, element)?.is_null();
        let element = element.as_ref().clone().with_nullable(nullable);
        Ok(Field::new(Self::NAME, DataType::FixedSizeList(element.into(), n), arguments.column().is_nullable()))
    }

    fn evaluate(arguments: &Arguments<'_>, column: ArrayRef, field: &Field) -> Result<ArrayRef> {
        let (element, _) = elements_of(arguments)?;
        let (n, side, value) =
            (arguments.length(1, "n", MOST_ELEMENTS)?, arguments.side(3)?, value(arguments, element)?);
        let lists = Lists::of(&column)?;
        let padded = |values: ArrayRef| -> Result<ArrayRef> {
            let DataType::FixedSizeList(element, n) = field.data_type() else {
                return Err(Error::schema(format!("{} is no fixed-size list", field.data_type())));
            };
            let nulls = lists.nulls().cloned();
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(element), *n, values, nulls, lists.len())?))
        };
        if let Lists::Fixed(lists) = &lists
            && lists.value_length() == n
        {
            return padded(Arc::clone(lists.values()));
        }
        let width = element.data_type().primitive_width().unwrap_or(1);
        let all = elements_in_all(arguments, lists.len(), n, width)?;
        let n = n as usize;
        for (row, range) in lists.rows().enumerate() {
            if let Some(range) = range.filter(|range| range.len() > n) {
                return Err(arguments.of_column(too_long(range.len(), n as i32)).at_row(row));
            }
        }
        let runs = lists.rows().flat_map(|range| {
            let range = range.unwrap_or(0..0);
            let fill = Run::Fill(n - range.len());
            match side {
                Side::Left => [fill, Run::Values(range)],
                Side::Right => [Run::Values(range), fill],
            }
        });
        padded(gather(lists.values(), &value, all, runs)?)
    }
}

fn value(arguments: &Arguments<'_>, element: &FieldRef) -> Result<ScalarValue> {
    match arguments.has(2) {
        true => arguments.value(2, "value", element.data_type()),
        false => zero_of(element.data_type()),
    }
}

fn too_long(len: usize, n: i32) -> Error {
    Error::shape(format!("pad_list got a list of {len} elements, n is {n}"))
        .remedy(format!("shorten it before: pad_list(truncate_list(list, {n}), {n})"))
}
