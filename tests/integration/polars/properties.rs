//! What holds for any frame: Polars → tensordict gives what Polars → Arrow → tensordict does.

use arrow::array::{AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType as ArrowType, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
};
use polars::prelude::*;
use polars_arrow::array::{BooleanArray, FixedSizeListArray, ListArray, PrimitiveArray, StructArray, Utf8ViewArray};
use polars_arrow::bitmap::Bitmap;
use polars_arrow::datatypes::{ArrowDataType, Field as ChunkField};
use polars_arrow::offset::OffsetsBuffer;
use polars_arrow::types::NativeType;
use proptest::prelude::*;
use tensorquery::{MaskKeys, Nulls, Options, PolarsExt, ToArrowOptions, from_arrow_chunks, to_polars};

use super::{Chunk, item};
use crate::random::{LEAVES, chunks_of, nested};
use crate::show::show;

fn validity(nulls: Option<&NullBuffer>) -> Option<Bitmap> {
    nulls.map(|nulls| nulls.iter().collect())
}

fn primitive<T: NativeType>(values: &[T], nulls: Option<&NullBuffer>) -> Chunk {
    PrimitiveArray::new(T::PRIMITIVE.into(), values.to_vec().into(), validity(nulls)).boxed()
}

/// The array made anew, value by value, with what null rows hide and what no row refers to.
fn chunk(array: &dyn arrow::array::Array) -> Chunk {
    let nulls = array.nulls();
    let numbers = |offsets: Vec<i64>, values: &dyn arrow::array::Array| {
        let values = chunk(values);
        let offsets = OffsetsBuffer::try_from(polars_arrow::array::PrimitiveArray::from_vec(offsets).values().clone());
        ListArray::new(ArrowDataType::LargeList(item(&values)), offsets.unwrap(), values, validity(nulls)).boxed()
    };
    match array.data_type() {
        ArrowType::Boolean => {
            let values: Bitmap = array.as_boolean().values().iter().collect();
            BooleanArray::new(ArrowDataType::Boolean, values, validity(nulls)).boxed()
        }
        ArrowType::Int8 => primitive(array.as_primitive::<Int8Type>().values(), nulls),
        ArrowType::Int32 => primitive(array.as_primitive::<Int32Type>().values(), nulls),
        ArrowType::Int64 => primitive(array.as_primitive::<Int64Type>().values(), nulls),
        ArrowType::UInt8 => primitive(array.as_primitive::<UInt8Type>().values(), nulls),
        ArrowType::UInt16 => primitive(array.as_primitive::<UInt16Type>().values(), nulls),
        ArrowType::UInt32 => primitive(array.as_primitive::<UInt32Type>().values(), nulls),
        ArrowType::Float32 => primitive(array.as_primitive::<Float32Type>().values(), nulls),
        ArrowType::Float64 => primitive(array.as_primitive::<Float64Type>().values(), nulls),
        ArrowType::Utf8 => Utf8ViewArray::from_slice(array.as_string::<i32>().iter().collect::<Vec<_>>()).boxed(),
        ArrowType::List(_) => {
            let list = array.as_list::<i32>();
            numbers(list.offsets().iter().map(|offset| i64::from(*offset)).collect(), list.values())
        }
        ArrowType::LargeList(_) => {
            let list = array.as_list::<i64>();
            numbers(list.offsets().to_vec(), list.values())
        }
        ArrowType::FixedSizeList(_, size) => {
            let values = chunk(array.as_fixed_size_list().values());
            let data_type = ArrowDataType::FixedSizeList(item(&values), *size as usize);
            FixedSizeListArray::new(data_type, array.len(), values, validity(nulls)).boxed()
        }
        ArrowType::Struct(fields) => {
            let values: Vec<_> = array.as_struct().columns().iter().map(chunk_of).collect();
            let fields = fields.iter().zip(&values);
            let fields = fields
                .map(|(field, values)| ChunkField::new(field.name().as_str().into(), values.dtype().clone(), true));
            StructArray::new(ArrowDataType::Struct(fields.collect()), array.len(), values, validity(nulls)).boxed()
        }
        other => panic!("{other}"),
    }
}

fn chunk_of(array: &arrow::array::ArrayRef) -> Chunk {
    chunk(array.as_ref())
}

/// The chunks as a frame of as many, or one of an empty one.
fn frame(schema: &arrow::datatypes::Schema, chunks: &[RecordBatch]) -> DataFrame {
    let empty = [RecordBatch::new_empty(schema.clone().into())];
    let chunks = if chunks.is_empty() { &empty } else { chunks };
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        let arrays = chunks.iter().map(|batch| chunk_of(batch.column(at))).collect::<Vec<_>>();
        Series::try_from((PlSmallStr::from(field.name().as_str()), arrays)).unwrap().into_column()
    });
    DataFrame::new_infer_height(columns.collect()).unwrap()
}

fn data_types() -> impl Strategy<Value = ArrowType> + Clone {
    nested(LEAVES.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn frames_give_what_their_arrow_arrays_give(
        (schema, chunks) in chunks_of(data_types(), data_types()),
        mask in any::<bool>(),
        (start, length) in (0usize..8, 0usize..20),
    ) {
        let options = Options::default().nulls(if mask { Nulls::Mask } else { Nulls::Fill });
        let frame = frame(&schema, &chunks);
        let rows = frame.height();
        let ours = frame.clone().to_tensordict(&options).unwrap();
        let due = from_arrow_chunks(&schema, chunks.clone(), &options).unwrap();
        prop_assert_eq!(show(&ours), show(&due));
        // Owned alone, its memory may be used.
        let (alone, receipt) = frame.clone().to_tensordict_with_receipt(&options).unwrap();
        drop(receipt);
        prop_assert_eq!(show(&alone), show(&due));

        // A part of it.
        let part = frame.slice(start as i64, length);
        let mut skip = start.min(rows);
        let mut left = length.min(rows - skip);
        let mut parts = Vec::new();
        for batch in &chunks {
            let from = skip.min(batch.num_rows());
            let taken = left.min(batch.num_rows() - from);
            parts.push(batch.slice(from, taken));
            (skip, left) = (skip - from, left - taken);
        }
        let due = from_arrow_chunks(&schema, parts, &options).unwrap();
        prop_assert_eq!(show(&part.to_tensordict(&options).unwrap()), show(&due));
    }

    #[test]
    fn queries_stream_what_frames_do(
        (schema, chunks) in chunks_of(data_types(), data_types()),
        size in 1usize..6,
    ) {
        let options = Options::default().nulls(Nulls::Mask).mask_keys(MaskKeys::Nullable);
        let frame = frame(&schema, &chunks);
        let of_frame = frame.clone().tensordict_stream(&options).unwrap().with_batch_size(size);
        let of_query = frame.lazy().tensordict_stream(&options).unwrap().with_batch_size(size);
        let due: Vec<_> = of_frame.map(|batch| show(&batch.unwrap())).collect();
        let ours: Vec<_> = of_query.map(|batch| show(&batch.unwrap())).collect();
        prop_assert_eq!(ours, due);
    }

    #[test]
    fn tensordicts_come_back_from_polars(
        (schema, chunks) in chunks_of(data_types(), data_types()),
    ) {
        let options = Options::default().nulls(Nulls::Mask);
        let td = from_arrow_chunks(&schema, chunks, &options).unwrap();
        let frame = to_polars(td.shallow_clone(), &ToArrowOptions::default().mask_key("_mask")).unwrap();
        prop_assert_eq!(show(&frame.to_tensordict(&options).unwrap()), show(&td));
    }
}
