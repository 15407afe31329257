//! A tensordict → a frame.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, TimeUnit};
use polars::prelude::{Column, DataFrame, Series};
use polars_arrow::array as theirs;
use polars_arrow::datatypes::{ArrowDataType, Field as PolarsField};
use polars_arrow::offset::OffsetsBuffer;

use crate::convert::to_arrow;
use crate::dict::TensorDict;
use crate::error::{Error, Result};
use crate::ffi;
use crate::options::ToArrowOptions;
use crate::schema::{Elements, MAX_LEVELS, reject_deep};

/// A tensordict of one batch dim as a Polars frame of so many rows, one column per entry, in key order.
///
/// What [`to_arrow`] says holds here as well, of masks, memory and copies; its columns become Polars':
///
/// | entry | column |
/// |---|---|
/// | tensor `[n]` | numbers or `Boolean` |
/// | tensor `[n, d, …]` | `Array` of shape `(d, …)` |
/// | jagged tensor `[n, *, …]` | `List` of the above |
/// | nested tensordict | `Struct` |
/// | non-tensor values | the type that they had, with the categories of an `Enum` or `Categorical` |
///
/// Numbers share the tensor's memory, as with [`to_arrow`]. For a lazy pipeline, call `lazy()` on the frame.
///
/// ```
/// use polars::prelude::*;
/// use tch::Tensor;
/// use tensorquery::{PolarsExt, TensorDict, ToArrowOptions, to_polars};
///
/// let mut td = TensorDict::new([3]);
/// td.set("score", Tensor::from_slice(&[0.5f32, 0.25, 1.0]))?;
/// td.set(["_mask", "score"], Tensor::from_slice(&[true, false, true]))?;
///
/// let frame = to_polars(td, &ToArrowOptions::default().mask_key("_mask"))?;
/// assert_eq!(frame, df!("score" => [Some(0.5f32), None, Some(1.0)])?);
/// let best = frame.lazy().filter(col("score").gt(lit(0.75))).collect()?;
/// assert_eq!(best.height(), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// What [`to_arrow`] says; a [schema](Error::is_schema) error for non-tensor values of a type that Polars lacks:
/// maps, unions, intervals, list views, runs, dictionaries of other things than strings; an
/// [overflow](Error::is_overflow) error for times in seconds, which Polars hasn't, that are too large in milliseconds;
/// an [engine](Error::is_engine) error for values that Polars takes for nulls: times outside of the day, strings that
/// aren't among the categories that metadata says.
pub fn to_polars(dict: TensorDict, options: &ToArrowOptions) -> Result<DataFrame> {
    let batch: RecordBatch = to_arrow(dict, options)?;
    let (schema, arrays, rows) = batch.into_parts();
    reject_deep(schema.fields(), MAX_LEVELS)?;
    let columns = schema.fields().iter().zip(arrays).map(|(field, array)| column(field, &array));
    Ok(DataFrame::new(rows, columns.collect::<Result<_>>()?)?)
}

fn column(field: &Field, array: &ArrayRef) -> Result<Column> {
    // Polars panics at metadata of its own making that somebody has changed, and at time zones it doesn't know.
    let import = AssertUnwindSafe(|| -> Result<Column> {
        let theirs = import(field, array)?;
        let field = typed(field, &*theirs)?;
        let series = Series::try_from((&field, theirs))?;
        match series.null_count().saturating_sub(array.logical_null_count()) {
            0 => Ok(Column::from(series)),
            lost => Err(Error::engine(format!("Polars takes {lost} of its values for nulls"))),
        }
    });
    let column = catch_unwind(import).unwrap_or_else(|panic| Err(Error::panicked(panic)));
    column.map_err(|error| error.at(field.name()).remedy("cast the values to a type that Polars has"))
}

/// The array as Polars has it. Fixed-size lists are put together here, one level for each dim of a tensor: through
/// the C Data Interface, Polars can't take those that hold nothing.
fn import(field: &Field, array: &ArrayRef) -> Result<Box<dyn theirs::Array>> {
    match field.data_type() {
        DataType::FixedSizeList(item, size) => {
            let list = array.as_fixed_size_list();
            let mut array = import(item, list.values())?;
            let dims = dims(field)?.unwrap_or_else(|| vec![usize::try_from(*size).unwrap_or_default()]);
            let mut item = typed(item, &*array)?;
            for (dim, size) in dims.iter().enumerate().rev() {
                let rows = dims[..dim].iter().product::<usize>() * list.len();
                let validity = if dim == 0 { ffi::to_polars_validity(list.nulls())? } else { None };
                let list = ArrowDataType::FixedSizeList(Box::new(item), *size);
                array = Box::new(theirs::FixedSizeListArray::try_new(list.clone(), rows, array, validity)?);
                item = PolarsField::new("item".into(), list, true);
            }
            Ok(array)
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            lists(item, list.offsets().inner().clone(), list.values(), list.nulls())
        }
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let offsets = list.offsets().iter().map(|offset| i64::from(*offset)).collect();
            lists(item, offsets, list.values(), list.nulls())
        }
        DataType::Struct(fields) => {
            let structs = array.as_struct();
            let values = fields.iter().zip(structs.columns()).map(|(field, column)| import(field, column));
            let values = values.collect::<Result<Vec<_>>>()?;
            let fields = fields.iter().zip(&values).map(|(field, values)| typed(field, &**values));
            let data_type = ArrowDataType::Struct(fields.collect::<Result<_>>()?);
            let validity = ffi::to_polars_validity(structs.nulls())?;
            Ok(Box::new(theirs::StructArray::try_new(data_type, structs.len(), values, validity)?))
        }
        DataType::Timestamp(TimeUnit::Second, zone) => {
            milliseconds(array, &DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))
        }
        DataType::Duration(TimeUnit::Second) => milliseconds(array, &DataType::Duration(TimeUnit::Millisecond)),
        _ => ffi::to_polars_array(array),
    }
}

/// Times in seconds, which Polars would multiply without a look at what comes of it.
fn milliseconds(array: &ArrayRef, data_type: &DataType) -> Result<Box<dyn theirs::Array>> {
    let checked = CastOptions { safe: false, ..CastOptions::default() };
    let times = cast_with_options(array, data_type, &checked)
        .map_err(|_| Error::overflow("a time in seconds is too large in milliseconds, of which Polars has 64 bits"))?;
    ffi::to_polars_array(&times)
}

fn lists(
    item: &Field,
    offsets: ScalarBuffer<i64>,
    values: &ArrayRef,
    nulls: Option<&NullBuffer>,
) -> Result<Box<dyn theirs::Array>> {
    let values = import(item, values)?;
    let data_type = ArrowDataType::LargeList(Box::new(typed(item, &*values)?));
    let offsets = ffi::to_polars_array(&Int64Array::new(offsets, None))?;
    let offsets = offsets.as_any().downcast_ref::<theirs::PrimitiveArray<i64>>().map(|array| array.values().clone());
    let offsets = offsets.ok_or_else(|| Error::engine("offsets came back as another type"))?;
    let offsets = OffsetsBuffer::try_from(offsets)?;
    Ok(Box::new(theirs::ListArray::try_new(data_type, offsets, values, ffi::to_polars_validity(nulls)?)?))
}

/// The field with the type that its values have now.
fn typed(field: &Field, values: &dyn theirs::Array) -> Result<PolarsField> {
    Ok(PolarsField { dtype: values.dtype().clone(), ..ffi::polars_field(field)? })
}

/// The dims of a fixed-shape tensor as they lie in memory, if that is how its values are read.
fn dims(field: &Field) -> Result<Option<Vec<usize>>> {
    let DataType::FixedSizeList(item, _) = field.data_type() else {
        return Ok(None);
    };
    let elements = match item.data_type() {
        // A level of its own.
        DataType::FixedSizeList(..) => None,
        _ => Elements::of(field)?.filter(|elements| elements.permutation.is_sorted()),
    };
    Ok(elements.map(|elements| elements.physical).filter(|dims| !dims.is_empty()))
}
