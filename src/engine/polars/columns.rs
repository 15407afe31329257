//! A column's chunks → Arrow arrays, owned as they were.
//!
//! The C Data Interface hides who owns a buffer, so its reader must take all for shared. What becomes tensors is
//! therefore taken apart first, down to its buffers of numbers: one that Polars proves to have no other owner
//! (`Buffer::into_mut` gives its `Vec`) becomes Arrow's own, and may become the tensor. All else, buffers that others
//! hold and what is no tensor, goes through the interface, over the same memory.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, FixedSizeListArray, LargeListArray, PrimitiveArray, StructArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowNativeType, DataType as ArrowType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use polars::prelude::{ArrowField, CompatLevel, DataType, PlSmallStr, PolarsNumericType, Series};
use polars::series::arrow_export::ToArrowConverter;
use polars::series::arrow_export::categorical::CategoricalToArrowConverter;
use polars_arrow::array as theirs;
use polars_arrow::types::NativeType;

use crate::error::{Error, Result};
use crate::ffi;

/// The chunks of a column whose type in Arrow is `field`'s.
///
/// # Errors
///
/// Only if a chunk isn't what the column's type says.
pub(super) fn chunks(series: Series, field: &Field) -> Result<Vec<ArrayRef>> {
    let dtype = series.dtype().clone();
    // Alone, the series gives away its chunks, shared, it gives away clones, whose buffers have two owners.
    let chunks = series.into_chunks().into_iter();
    chunks.map(|chunk| array(chunk, &dtype, field.data_type())).collect()
}

type Chunk = Box<dyn theirs::Array>;

fn array(chunk: Chunk, dtype: &DataType, target: &ArrowType) -> Result<ArrayRef> {
    match (dtype, target) {
        (DataType::Int8, _) => same::<i8, Int8Type>(chunk),
        (DataType::Int16, _) => same::<i16, Int16Type>(chunk),
        (DataType::Int32, _) => same::<i32, Int32Type>(chunk),
        (DataType::Int64, _) => same::<i64, Int64Type>(chunk),
        (DataType::UInt8, _) => same::<u8, UInt8Type>(chunk),
        (DataType::UInt16, _) => same::<u16, UInt16Type>(chunk),
        (DataType::UInt32, _) => same::<u32, UInt32Type>(chunk),
        (DataType::UInt64, _) => same::<u64, UInt64Type>(chunk),
        (DataType::Float32, _) => same::<f32, Float32Type>(chunk),
        (DataType::Float64, _) => same::<f64, Float64Type>(chunk),
        (DataType::Float16, _) => float16(chunk),
        (DataType::Extension(_, storage), _) => array(chunk, storage, target),
        (DataType::List(inner), ArrowType::LargeList(item)) => {
            let list = downcast::<theirs::ListArray<i64>>(&*chunk)?;
            let (offsets, values, validity) = (list.offsets().clone(), list.values().clone(), list.validity().cloned());
            // What is left holds each buffer once.
            drop(chunk);
            let values = array(values, inner, item.data_type())?;
            let offsets = theirs::PrimitiveArray::new(i64::PRIMITIVE.into(), offsets.into_inner(), None);
            let offsets = ScalarBuffer::from(buffer(offsets)?);
            let validity = ffi::from_polars_validity(validity)?;
            Ok(Arc::new(LargeListArray::try_new(Arc::clone(item), OffsetBuffer::new(offsets), values, validity)?))
        }
        (DataType::Array(inner, _), ArrowType::FixedSizeList(item, size)) => {
            let list = downcast::<theirs::FixedSizeListArray>(&*chunk)?;
            let (rows, values, validity) = (list.len(), list.values().clone(), list.validity().cloned());
            drop(chunk);
            let values = array(values, inner, item.data_type())?;
            let validity = ffi::from_polars_validity(validity)?;
            let list = FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, values, validity, rows)?;
            Ok(Arc::new(list))
        }
        (DataType::Struct(inner), ArrowType::Struct(fields)) => {
            let structs = downcast::<theirs::StructArray>(&*chunk)?;
            let (rows, values, validity) = (structs.len(), structs.values().to_vec(), structs.validity().cloned());
            drop(chunk);
            let values = values.into_iter().zip(inner.iter().zip(fields));
            let values = values.map(|(values, (inner, field))| array(values, inner.dtype(), field.data_type()));
            let values = values.collect::<Result<Vec<_>>>()?;
            let validity = ffi::from_polars_validity(validity)?;
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), values, validity, rows)?))
        }
        _ => ffi::from_polars_array(logical(&*chunk, dtype)?),
    }
}

/// The chunk with its logical type, which Polars keeps with the column; categories with their table.
fn logical(chunk: &dyn theirs::Array, dtype: &DataType) -> Result<Chunk> {
    let mut categories = CategoricalToArrowConverter { converters: Default::default(), persist_remap: false };
    categories.initialize(dtype);
    let mut converter = ToArrowConverter { skip_attach_pl_metadata: true, categorical_converter: categories };
    // Without the metadata, which for an `Enum` repeats all of its categories.
    let field = ArrowField::new(PlSmallStr::EMPTY, dtype.to_arrow(CompatLevel::newest()), true);
    Ok(converter.array_to_arrow(chunk, dtype, Cow::Owned(field))?)
}

/// Numbers that have one type in both crates.
fn same<P: NativeType + ArrowNativeType, T: ArrowPrimitiveType<Native = P>>(chunk: Chunk) -> Result<ArrayRef> {
    let array = downcast::<theirs::PrimitiveArray<P>>(&*chunk)?.clone();
    drop(chunk);
    let (data_type, values, validity) = array.into_inner();
    numbers::<T>(buffer(theirs::PrimitiveArray::new(data_type, values, None))?, validity)
}

/// 16-bit floats, whose types in the two crates differ by name alone.
fn float16(chunk: Chunk) -> Result<ArrayRef> {
    type Half = <polars::prelude::Float16Type as PolarsNumericType>::Native;
    let array = downcast::<theirs::PrimitiveArray<Half>>(&*chunk)?.clone();
    drop(chunk);
    let (data_type, values, validity) = array.into_inner();
    match values.try_transmute::<u16>() {
        Ok(bits) => {
            let bits = theirs::PrimitiveArray::new(u16::PRIMITIVE.into(), bits, None);
            numbers::<Float16Type>(buffer(bits)?, validity)
        }
        Err(values) => ffi::from_polars_array(Box::new(theirs::PrimitiveArray::new(data_type, values, validity))),
    }
}

fn numbers<T: ArrowPrimitiveType>(values: Buffer, validity: Option<polars_arrow::bitmap::Bitmap>) -> Result<ArrayRef> {
    let validity = ffi::from_polars_validity(validity)?;
    Ok(Arc::new(PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), validity)?))
}

/// The numbers as Arrow's own buffer if they had no other owner, else over memory that it shares.
fn buffer<P: NativeType + ArrowNativeType>(array: theirs::PrimitiveArray<P>) -> Result<Buffer> {
    let (data_type, values, _) = array.into_inner();
    let shared = |values| ffi::from_polars_numbers(theirs::PrimitiveArray::new(data_type, values, None));
    values.into_mut().either(shared, |owned| Ok(Buffer::from_vec(owned)))
}

fn downcast<A: 'static>(chunk: &dyn theirs::Array) -> Result<&A> {
    let found = chunk.as_any().downcast_ref();
    found.ok_or_else(|| Error::engine(format!("a chunk of Polars is a {:?} inside", chunk.dtype())))
}
