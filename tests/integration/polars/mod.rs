//! Polars: lazy queries and frames, in and out.

mod back;
mod ownership;
mod properties;
mod scan;
#[cfg(feature = "datafusion")]
mod sql;
mod streams;
mod types;

use polars::prelude::*;
use polars_arrow::array::{Array as ChunkOf, FixedSizeListArray, ListArray, StructArray};
use polars_arrow::datatypes::{ArrowDataType, Field as ChunkField};
use polars_arrow::offset::{Offsets, OffsetsBuffer};
use tensorquery::{Nulls, Options, PolarsExt};

use crate::show::show;

type Chunk = Box<dyn ChunkOf>;

fn masked() -> Options {
    Options::default().nulls(Nulls::Mask)
}

/// A frame of the one column `c`.
fn frame(column: impl IntoColumn) -> DataFrame {
    DataFrame::new_infer_height(vec![column.into_column().with_name("c".into())]).unwrap()
}

/// A column of one chunk.
fn series(name: &str, chunk: Chunk) -> Series {
    Series::try_from((PlSmallStr::from(name), chunk)).unwrap()
}

/// A frame of the one column `c`, of one chunk.
fn frame_of(chunk: Chunk) -> DataFrame {
    frame(series("c", chunk))
}

/// What the frame gives, with masks.
fn shown(frame: DataFrame) -> String {
    show(&frame.to_tensordict(&masked()).unwrap())
}

fn numbers(values: impl IntoIterator<Item = Option<i64>>) -> Chunk {
    polars_arrow::array::PrimitiveArray::from_iter(values).boxed()
}

fn valid(rows: &[bool]) -> Option<polars_arrow::bitmap::Bitmap> {
    Some(rows.iter().copied().collect())
}

fn item(values: &Chunk) -> Box<ChunkField> {
    Box::new(ChunkField::new("item".into(), values.dtype().clone(), true))
}

/// Rows of `width` values each.
fn array(values: Chunk, width: usize, rows: usize, validity: Option<polars_arrow::bitmap::Bitmap>) -> Chunk {
    let data_type = ArrowDataType::FixedSizeList(item(&values), width);
    FixedSizeListArray::new(data_type, rows, values, validity).boxed()
}

fn lists(values: Chunk, lengths: &[usize], validity: Option<polars_arrow::bitmap::Bitmap>) -> Chunk {
    let offsets: OffsetsBuffer<i64> = Offsets::try_from_lengths(lengths.iter().copied()).unwrap().into();
    ListArray::new(ArrowDataType::LargeList(item(&values)), offsets, values, validity).boxed()
}

fn structs(fields: Vec<(&str, Chunk)>, rows: usize, validity: Option<polars_arrow::bitmap::Bitmap>) -> Chunk {
    let (types, values) = fields
        .into_iter()
        .map(|(name, values)| (ChunkField::new(name.into(), values.dtype().clone(), true), values))
        .unzip();
    StructArray::new(ArrowDataType::Struct(types), rows, values, validity).boxed()
}
