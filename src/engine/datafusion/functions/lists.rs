//! Lists of numbers or booleans, of the three layouts, read and gathered alike.

use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, MutableArrayData, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;

use super::column::Arguments;
use crate::error::{Error, Result};

/// Whether the functions take values of this type.
pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating() || *data_type == DataType::Boolean
}

/// 0, or false.
pub(super) fn zero_of(element: &DataType) -> Result<ScalarValue> {
    match element {
        DataType::Boolean => Ok(false.into()),
        number => Ok(ScalarValue::new_zero(number)?),
    }
}

/// The elements' field, and how many there are where the type says it.
pub(super) fn elements_of<'a>(arguments: &Arguments<'a>) -> Result<(&'a FieldRef, Option<i32>)> {
    let (element, size) = match arguments.column().data_type() {
        DataType::List(element) | DataType::LargeList(element) => (element, None),
        DataType::FixedSizeList(element, size) => (element, Some(*size)),
        _ => return Err(arguments.wrong_type("lists of numbers or booleans")),
    };
    match is_number(element.data_type()) {
        true => Ok((element, size)),
        false => Err(arguments.wrong_type("lists of numbers or booleans")),
    }
}

/// A column of lists.
pub(super) enum Lists<'a> {
    Small(&'a ListArray),
    Large(&'a LargeListArray),
    Fixed(&'a FixedSizeListArray),
}

impl<'a> Lists<'a> {
    pub(super) fn of(array: &'a ArrayRef) -> Result<Lists<'a>> {
        match array.data_type() {
            DataType::List(_) => Ok(Lists::Small(array.as_list())),
            DataType::LargeList(_) => Ok(Lists::Large(array.as_list())),
            DataType::FixedSizeList(..) => Ok(Lists::Fixed(array.as_fixed_size_list())),
            other => Err(Error::option(format!("{other} is no list"))),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Lists::Small(lists) => lists.len(),
            Lists::Large(lists) => lists.len(),
            Lists::Fixed(lists) => lists.len(),
        }
    }

    pub(super) fn values(&self) -> &'a ArrayRef {
        match self {
            Lists::Small(lists) => lists.values(),
            Lists::Large(lists) => lists.values(),
            Lists::Fixed(lists) => lists.values(),
        }
    }

    pub(super) fn nulls(&self) -> Option<&'a NullBuffer> {
        match self {
            Lists::Small(lists) => (*lists).nulls(),
            Lists::Large(lists) => (*lists).nulls(),
            Lists::Fixed(lists) => (*lists).nulls(),
        }
    }

    /// Where the row's elements are among the values; `None` for a null row.
    pub(super) fn row(&self, row: usize) -> Option<Range<usize>> {
        if self.nulls().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(match self {
            Lists::Small(lists) => lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize,
            Lists::Large(lists) => lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize,
            Lists::Fixed(lists) => {
                let size = lists.value_length() as usize;
                row * size..(row + 1) * size
            }
        })
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Option<Range<usize>>> {
        (0..self.len()).map(|row| self.row(row))
    }
}

/// What a gathered array consists of.
pub(super) enum Run {
    /// So many times the fill.
    Fill(usize),
    Values(Range<usize>),
}

/// `runs` one after the other, `len` elements in all.
pub(super) fn gather(
    values: &ArrayRef,
    fill: &ScalarValue,
    len: usize,
    runs: impl Iterator<Item = Run>,
) -> Result<ArrayRef> {
    /// The fill is written so often at a time.
    const STRIDE: usize = 1024;
    let fills = fill.to_array_of_size(STRIDE.min(len))?.to_data();
    let data = values.to_data();
    let mut gathered = MutableArrayData::new(vec![&data, &fills], false, len);
    for run in runs {
        match run {
            Run::Values(range) => gathered.try_extend(0, range.start, range.end)?,
            Run::Fill(mut count) => {
                while count > 0 {
                    let some = count.min(fills.len());
                    gathered.try_extend(1, 0, some)?;
                    count -= some;
                }
            }
        }
    }
    Ok(make_array(gathered.freeze()))
}

/// `rows` × `n` elements, if an array can have as many and there is memory for them.
pub(super) fn elements_in_all(arguments: &Arguments<'_>, rows: usize, n: i32, width: usize) -> Result<usize> {
    let elements = usize::try_from(n).ok().and_then(|n| rows.checked_mul(n)).filter(|all| *all <= i32::MAX as usize);
    let bytes = elements.and_then(|all| all.checked_mul(width));
    // The memory is asked for, and given back, before anything relies on it.
    let there = bytes.is_some_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
    match elements.filter(|_| there) {
        Some(elements) => Ok(elements),
        None => {
            let message = format!("{rows} rows of {n} elements are more than a record batch has room for");
            let error = Error::option(message)
                .remedy("SET datafusion.execution.batch_size to fewer rows, or choose a smaller n");
            Err(arguments.of_column(error))
        }
    }
}
