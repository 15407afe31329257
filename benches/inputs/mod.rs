//! Record batches to convert, and plain copies of memory to compare with.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait, PrimitiveArray,
    RecordBatch, StringArray, StructArray, make_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, Field, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt32Type,
};

/// Numbers in each column.
pub(crate) const VALUES: usize = 1 << 20;

const LIST_LENGTH: usize = 64;
const EMBEDDING: usize = 768;

pub(crate) const COLUMNS: [&str; 12] = [
    "int8",
    "int16",
    "int32",
    "int64",
    "float32",
    "bool",
    "uint32",
    "list<float32>",
    "large_list<float32>",
    "fixed_size_list<float32, 768>",
    "struct of 3",
    "utf8",
];

/// A column of `VALUES` values, or of as many rows as have so many values together. With `nulls`, one
/// row in five is null, at random.
pub(crate) fn column(name: &str, nulls: bool) -> ArrayRef {
    match name {
        "int8" => numbers::<Int8Type>(VALUES, nulls, |i| i as i8),
        "int16" => numbers::<Int16Type>(VALUES, nulls, |i| i as i16),
        "int32" => numbers::<Int32Type>(VALUES, nulls, |i| i as i32),
        "int64" => numbers::<Int64Type>(VALUES, nulls, |i| i as i64),
        "float32" => numbers::<Float32Type>(VALUES, nulls, |i| i as f32),
        "float64" => numbers::<Float64Type>(VALUES, nulls, |i| i as f64),
        "uint32" => numbers::<UInt32Type>(VALUES, nulls, |i| i as u32),
        "bool" => {
            let values = (0..VALUES).map(|i| random(i) & 4 == 0).collect::<Vec<_>>();
            Arc::new(BooleanArray::new(values.into(), validity(VALUES, nulls)))
        }
        "list<float32>" => lists::<i32>(nulls),
        "large_list<float32>" => lists::<i64>(nulls),
        "fixed_size_list<float32, 768>" => {
            let rows = VALUES / EMBEDDING;
            let values = numbers::<Float32Type>(rows * EMBEDDING, false, |i| i as f32);
            let field = Field::new("item", values.data_type().clone(), false);
            let nulls = validity(rows, nulls);
            Arc::new(FixedSizeListArray::new(field.into(), EMBEDDING as i32, values, nulls))
        }
        "struct of 3" => {
            let columns = ["int64", "float32", "float64"].map(|name| column(name, nulls));
            let fields = columns.iter().enumerate();
            let fields = fields.map(|(i, column)| Field::new(format!("f{i}"), column.data_type().clone(), nulls));
            Arc::new(StructArray::new(fields.collect::<Fields>(), columns.to_vec(), None))
        }
        "utf8" => {
            let values = (0..VALUES).map(|i| (!nulls || !random(i).is_multiple_of(5)).then(|| i.to_string()));
            Arc::new(values.collect::<StringArray>())
        }
        other => unreachable!("no column is called {other}"),
    }
}

fn numbers<T: ArrowPrimitiveType>(rows: usize, nulls: bool, number: impl Fn(usize) -> T::Native) -> ArrayRef {
    let values: ScalarBuffer<T::Native> = (0..rows).map(number).collect::<Vec<_>>().into();
    Arc::new(PrimitiveArray::<T>::new(values, validity(rows, nulls)))
}

/// Rows of 0 to twice `LIST_LENGTH` elements; a null row is empty, as Parquet readers make it.
fn lists<O: OffsetSizeTrait>(nulls: bool) -> ArrayRef {
    let rows = VALUES / LIST_LENGTH;
    let validity = validity(rows, nulls);
    let valid = |row: usize| validity.as_ref().is_none_or(|validity| validity.is_valid(row));
    let lengths = (0..rows).map(|row| if valid(row) { random(row) as usize % (2 * LIST_LENGTH + 1) } else { 0 });
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    let values = numbers::<Float32Type>(offsets[rows].as_usize(), false, |i| i as f32);
    let field = Field::new("item", values.data_type().clone(), false);
    Arc::new(GenericListArray::new(field.into(), offsets, values, validity))
}

fn validity(rows: usize, nulls: bool) -> Option<NullBuffer> {
    nulls.then(|| (0..rows).map(|row| !random(row).is_multiple_of(5)).collect::<Vec<_>>().into())
}

/// The same number for the same row in every run (the finalizer of SplitMix64).
fn random(row: usize) -> u64 {
    let mut bits = (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The columns in a batch, named by their place.
pub(crate) fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let columns = columns.into_iter().enumerate();
    RecordBatch::try_from_iter_with_nullable(columns.map(|(i, column)| (format!("c{i}"), column, true)))
        .expect("columns of one length")
}

/// The same column in memory that nobody else holds.
pub(crate) fn owned(column: &ArrayRef) -> ArrayRef {
    make_array(owned_data(&column.to_data()))
}

fn owned_data(data: &ArrayData) -> ArrayData {
    let buffers = data.buffers().iter().map(|buffer| Buffer::from(buffer.as_slice().to_vec()));
    let nulls = data.nulls().map(|nulls| NullBuffer::new(nulls.inner().iter().collect()));
    ArrayData::builder(data.data_type().clone())
        .len(data.len())
        .buffers(buffers.collect())
        .nulls(nulls)
        .child_data(data.child_data().iter().map(owned_data).collect())
        .build()
        .expect("the same data")
}
