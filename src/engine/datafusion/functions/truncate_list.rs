//! `truncate_list(list, n [, side])`: lists of n elements or fewer.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::Documentation;

use super::column::{Arguments, ColumnFunction, SECTION, Side};
use super::lists::{Lists, Run, elements_of, gather, zero_of};
use crate::error::{Error, Result};

#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TruncateList;

impl ColumnFunction for TruncateList {
    const NAME: &'static str = "truncate_list";
    const ARGUMENTS: RangeInclusive<usize> = 2..=3;

    fn example() -> (Vec<DataType>, DataType) {
        let list = DataType::new_list(DataType::Float32, true);
        (vec![list.clone(), DataType::Int64, DataType::Utf8], list)
    }

    fn documentation() -> Documentation {
        Documentation::builder(
            SECTION,
            "Takes from each list what it has beyond `n` elements. A list of variable length stays one, a fixed-size list \
             has `n` elements, or as many as it had. Null lists and nulls in lists stay. What lies in the middle of a \
             list is the engine's `array_slice`.",
            "truncate_list(list, n [, side])",
        )
        .with_sql_example("```sql\n> SELECT truncate_list([1, 2, 3], 2, 'left');   -- [2, 3]\n```")
        .with_argument("list", "A list of numbers or booleans.")
        .with_argument("n", "How many elements a list keeps at most: a constant from 1.")
        .with_argument("side", "'right' (the default) or 'left': where elements are taken away.")
        .with_related_udf("pad_list")
        .build()
    }

    fn field(arguments: &Arguments<'_>) -> Result<Field> {
        let (element, size) = elements_of(arguments)?;
        let n = arguments.length(1, "n", i32::MAX)?;
        arguments.side(2)?;
        let data_type = match size {
            Some(size) => DataType::FixedSizeList(Arc::clone(element), size.min(n)),
            None => arguments.column().data_type().clone(),
        };
        Ok(Field::new(Self::NAME, data_type, arguments.column().is_nullable()))
    }

    fn evaluate(arguments: &Arguments<'_>, column: ArrayRef, field: &Field) -> Result<ArrayRef> {
        let (n, side) = (arguments.length(1, "n", i32::MAX)? as usize, arguments.side(2)?);
        let lists = Lists::of(&column)?;
        if lists.rows().flatten().all(|range| range.len() <= n) && column.data_type() == field.data_type() {
            return Ok(column);
        }
        let kept = |range: std::ops::Range<usize>| match side {
            Side::Right => range.start..range.end.min(range.start + n),
            Side::Left => range.start.max(range.end.saturating_sub(n))..range.end,
        };
        // Null rows of fixed-size lists have elements, too.
        let (nothing, hidden) = match field.data_type() {
            DataType::FixedSizeList(element, size) => (zero_of(element.data_type())?, *size as usize),
            DataType::List(element) | DataType::LargeList(element) => (zero_of(element.data_type())?, 0),
            other => return Err(Error::schema(format!("{other} is no list"))),
        };
        let rows = || lists.rows().map(|range| range.map(kept));
        let len = rows().map(|range| range.map_or(hidden, |range| range.len())).sum();
        let runs = rows().map(|range| range.map_or(Run::Fill(hidden), Run::Values));
        let values = gather(lists.values(), &nothing, len, runs)?;
        let lengths = rows().map(|range| range.map_or(0, |range| range.len()));
        match (&lists, field.data_type()) {
            (Lists::Fixed(lists), DataType::FixedSizeList(element, size)) => {
                let (nulls, rows) = (lists.nulls().cloned(), lists.len());
                let lists = FixedSizeListArray::try_new_with_length(Arc::clone(element), *size, values, nulls, rows)?;
                Ok(Arc::new(lists))
            }
            (Lists::Large(_), DataType::LargeList(element)) => shorter::<i64>(element, lengths, values, &column),
            (_, DataType::List(element)) => shorter::<i32>(element, lengths, values, &column),
            (_, other) => Err(Error::schema(format!("{other} is no list"))),
        }
    }
}

fn shorter<O: OffsetSizeTrait>(
    element: &FieldRef,
    lengths: impl Iterator<Item = usize>,
    values: ArrayRef,
    column: &ArrayRef,
) -> Result<ArrayRef> {
    // They add up to no more than those of the column, which its offsets can count.
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(element), offsets, values, column.nulls().cloned())?))
}
