//! There and back: what a batch is after a tensordict, and a tensordict after a batch.
//!
//! A batch comes back with the same values and nulls, but for what tensors can't say: 32-bit offsets and unsigned
//! numbers are wider, lists of lists of one size are one list, elements that were null are filled, and where a struct
//! was null each of its fields is.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use proptest::prelude::*;
use tensorquery::{Nulls, Options, TensorDict, ToArrowOptions, from_arrow, to_arrow};

use crate::random::{Cell, LEAVES, cell, chunks, float, is_tensor};
use crate::show::show;

/// The type that the column comes back with; fields keep neither metadata nor nullability here.
fn type_after(data_type: &DataType) -> DataType {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    match data_type {
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::FixedSizeList(..) if is_tensor(data_type) => {
            let (mut leaf, mut width) = (data_type, 1);
            while let DataType::FixedSizeList(element, size) = leaf {
                width *= size;
                leaf = element.data_type();
            }
            DataType::FixedSizeList(item(type_after(leaf)), width)
        }
        DataType::List(element) | DataType::LargeList(element) if is_tensor(element.data_type()) => {
            DataType::LargeList(item(type_after(element.data_type())))
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| Field::new(field.name(), type_after(field.data_type()), true));
            DataType::Struct(fields.collect())
        }
        other => other.clone(),
    }
}

/// The type with all its fields nullable and without metadata.
fn bare(data_type: &DataType) -> DataType {
    let child = |field: &Field| Field::new(field.name(), bare(field.data_type()), true);
    match data_type {
        DataType::List(element) => DataType::List(child(element).into()),
        DataType::LargeList(element) => DataType::LargeList(child(element).into()),
        DataType::FixedSizeList(element, size) => DataType::FixedSizeList(child(element).into(), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| child(field)).collect()),
        other => other.clone(),
    }
}

/// The elements of a tensor's row one after the other, nulls filled.
fn flat(shown: &Cell, data_type: &DataType, into: &mut Vec<Cell>) {
    match (data_type, shown) {
        (DataType::FixedSizeList(element, _), Cell::List(cells)) => {
            cells.iter().for_each(|cell| flat(cell, element.data_type(), into));
        }
        (DataType::FixedSizeList(element, size), _) => {
            (0..*size).for_each(|_| flat(&Cell::Null, element.data_type(), into));
        }
        (DataType::Boolean, Cell::Null) => into.push(Cell::Bool(false)),
        (DataType::Float32 | DataType::Float64, Cell::Null) => into.push(float(f64::NAN)),
        (_, Cell::Null) => into.push(Cell::Int(0)),
        (_, shown) => into.push(shown.clone()),
    }
}

fn row_of_tensor(shown: &Cell, data_type: &DataType) -> Cell {
    let mut cells = Vec::new();
    flat(shown, data_type, &mut cells);
    match data_type {
        DataType::FixedSizeList(..) => Cell::List(cells),
        _ => cells.remove(0),
    }
}

/// What a cell comes back as.
fn cell_after(shown: Cell, data_type: &DataType) -> Cell {
    match data_type {
        // Nobody below could say that the row was null.
        DataType::Struct(fields) if fields.is_empty() => shown,
        DataType::Struct(fields) => {
            let cells = match shown {
                Cell::Dict(cells) => cells,
                _ => fields.iter().map(|field| (field.name().clone(), Cell::Null)).collect(),
            };
            let cells = cells.into_iter().zip(fields);
            Cell::Dict(cells.map(|((name, cell), field)| (name, cell_after(cell, field.data_type()))).collect())
        }
        DataType::List(element) | DataType::LargeList(element) if is_tensor(element.data_type()) => match shown {
            Cell::List(cells) => {
                Cell::List(cells.iter().map(|cell| row_of_tensor(cell, element.data_type())).collect())
            }
            _ => Cell::Null,
        },
        data_type if is_tensor(data_type) => match shown {
            Cell::Null => Cell::Null,
            shown => row_of_tensor(&shown, data_type),
        },
        _ => shown,
    }
}

fn cells(column: &ArrayRef) -> Vec<Cell> {
    (0..column.len()).map(|row| cell(column, row)).collect()
}

fn all_cells(batch: &RecordBatch) -> Vec<Vec<Cell>> {
    batch.columns().iter().map(cells).collect()
}

fn leaves() -> Vec<DataType> {
    let more = [
        DataType::Utf8View,
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("Europe/Paris".into())),
        DataType::Decimal128(6, 2),
        DataType::Null,
    ];
    [LEAVES.as_slice(), &more].concat()
}

fn batches() -> impl Strategy<Value = RecordBatch> {
    chunks(&leaves()).prop_map(|(schema, chunks)| concat_batches(&schema, &chunks).unwrap())
}

fn masked(batch: RecordBatch) -> TensorDict {
    from_arrow(batch, &Options::default().nulls(Nulls::Mask)).unwrap()
}

fn folded(dict: TensorDict) -> RecordBatch {
    to_arrow(dict, &ToArrowOptions::default().mask_key("_mask")).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_comes_back(batch in batches()) {
        // A clone in our hands makes copies of what is else viewed; the values are the same.
        for batch in [batch.clone(), batch.slice(batch.num_rows() / 3, batch.num_rows() / 2)] {
            let after = folded(masked(batch.clone()));
            prop_assert_eq!(after.num_rows(), batch.num_rows());
            let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            prop_assert_eq!(names(&after.schema()), names(&batch.schema()));
            for (column, was) in after.columns().iter().zip(batch.columns()) {
                column.to_data().validate_full().unwrap();
                prop_assert_eq!(bare(column.data_type()), bare(&type_after(was.data_type())));
                let due: Vec<_> =
                    cells(was).into_iter().map(|cell| cell_after(cell, was.data_type())).collect();
                prop_assert_eq!(cells(column), due, "{:?}", was);
            }
        }
    }

    #[test]
    fn once_back_it_comes_back_as_it_is(batch in batches()) {
        let once = folded(masked(batch));
        let twice = folded(masked(once.clone()));
        prop_assert_eq!(all_cells(&twice), all_cells(&once));
        for (one, two) in once.columns().iter().zip(twice.columns()) {
            prop_assert_eq!(bare(one.data_type()), bare(two.data_type()));
        }
    }

    #[test]
    fn a_tensordict_comes_back(batch in batches()) {
        let dict = masked(batch);
        let due = show(&dict);
        // Masks are columns of booleans unless they are said to be masks.
        let batch = to_arrow(dict, &ToArrowOptions::default()).unwrap();
        let after = from_arrow(batch, &Options::default().nulls(Nulls::Fill)).unwrap();
        prop_assert_eq!(show(&after), due);
    }

    #[test]
    fn parts_are_parts_of_the_whole(batch in batches(), start in 0usize..4, stop in 0usize..12) {
        let rows = batch.num_rows();
        let (start, stop) = (start.min(rows), stop.clamp(start.min(rows), rows));
        let dict = masked(batch);
        let whole = folded(dict.shallow_clone());
        let part = folded(dict.index(start as i64..stop as i64).unwrap());
        prop_assert_eq!(all_cells(&part), all_cells(&whole.slice(start, stop - start)));
        let turned = folded(dict.index((0..rows as i64).rev().collect::<Vec<_>>()).unwrap());
        let mut due = all_cells(&whole);
        due.iter_mut().for_each(|column| column.reverse());
        prop_assert_eq!(all_cells(&turned), due);
    }
}
