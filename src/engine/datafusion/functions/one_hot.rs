//! `one_hot(x, n)`: a class as a list of n numbers.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use arrow::util::display::array_value_to_string;
use datafusion::logical_expr::Documentation;

use super::column::{Arguments, ColumnFunction, MOST_ELEMENTS, SECTION};
use super::lists::elements_in_all;
use crate::error::{Error, Result};

#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct OneHot;

impl ColumnFunction for OneHot {
    const NAME: &'static str = "one_hot";
    const ARGUMENTS: RangeInclusive<usize> = 2..=2;

    fn example() -> (Vec<DataType>, DataType) {
        (vec![DataType::Int64, DataType::Int64], one_hot_type(1))
    }

    fn documentation() -> Documentation {
        Documentation::builder(
            SECTION,
            "Makes of a class, a whole number from 0 to `n` - 1, a list of `n` int64 that are 0 but for a 1 at its place, as \
             torch's `one_hot` does: a dense tensor `[rows, n]`. A number beyond is an error. A null stays null.",
            "one_hot(x, n)",
        )
        .with_sql_example("```sql\n> SELECT one_hot(2, 4);   -- [0, 0, 1, 0]\n```")
        .with_argument("x", "Whole numbers.")
        .with_argument("n", "How many classes there are: a constant from 1 to 2^24.")
        .build()
    }

    fn field(arguments: &Arguments<'_>) -> Result<Field> {
        if !arguments.column().data_type().is_integer() {
            return Err(arguments.wrong_type("whole numbers"));
        }
        Ok(Field::new(
            Self::NAME,
            one_hot_type(arguments.length(1, "n", MOST_ELEMENTS)?),
            arguments.column().is_nullable(),
        ))
    }

    fn evaluate(arguments: &Arguments<'_>, column: ArrayRef, _: &Field) -> Result<ArrayRef> {
        let n = arguments.length(1, "n", MOST_ELEMENTS)?;
        let all = elements_in_all(arguments, column.len(), n, size_of::<i64>())?;
        // A number that int64 can't hold becomes null, and is no class.
        let classes = cast(&column, &DataType::Int64)?;
        let classes = classes.as_primitive::<Int64Type>();
        let mut numbers = vec![0i64; all];
        for (row, numbers) in numbers.chunks_exact_mut(n as usize).enumerate() {
            if column.is_null(row) {
                continue;
            }
            let class = classes.is_valid(row).then(|| usize::try_from(classes.value(row)).ok()).flatten();
            match class.and_then(|class| numbers.get_mut(class)) {
                Some(number) => *number = 1,
                None => {
                    let message = format!("one_hot got {}, n is {n}", array_value_to_string(&column, row)?);
                    let error = Error::index(message).remedy(format!("it takes classes from 0 to {}", n - 1));
                    return Err(arguments.of_column(error).at_row(row));
                }
            }
        }
        let DataType::FixedSizeList(element, n) = one_hot_type(n) else {
            return Err(Error::schema("one_hot gives fixed-size lists"));
        };
        let (values, nulls) = (Arc::new(Int64Array::from(numbers)), column.nulls().cloned());
        Ok(Arc::new(FixedSizeListArray::try_new_with_length(element, n, values, nulls, column.len())?))
    }
}

fn one_hot_type(n: i32) -> DataType {
    DataType::FixedSizeList(Field::new_list_field(DataType::Int64, false).into(), n)
}
