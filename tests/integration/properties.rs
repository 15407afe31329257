//! What holds for any batch: random nested arrays against an oracle that reads them cell by cell.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use proptest::prelude::*;
use tch::{Kind, Tensor};
use tensorquery::{Entry, NestedKey, Nulls, Options, TensorDict, Value, from_arrow, from_arrow_chunks};

use crate::random::{Cell, LEAVES, cell, chunks, float, is_tensor};
use crate::show::show;

/// Nulls of a tensor column filled; `shown` is null where a level above is.
fn filled(shown: Cell, data_type: &DataType) -> Cell {
    match (data_type, shown) {
        (DataType::FixedSizeList(field, size), Cell::Null) => {
            Cell::List((0..*size).map(|_| filled(Cell::Null, field.data_type())).collect())
        }
        (DataType::FixedSizeList(field, _), Cell::List(cells)) => {
            Cell::List(cells.into_iter().map(|cell| filled(cell, field.data_type())).collect())
        }
        (DataType::Boolean, Cell::Null) => Cell::Bool(false),
        (DataType::Float32 | DataType::Float64, Cell::Null) => float(f64::NAN),
        (_, Cell::Null) => Cell::Int(0),
        (_, shown) => shown,
    }
}

/// What the tensordict is to hold for a cell.
fn expected(shown: Cell, data_type: &DataType) -> Cell {
    match data_type {
        DataType::Struct(fields) => {
            let cells = match shown {
                Cell::Dict(cells) => cells,
                _ => fields.iter().map(|field| (field.name().clone(), Cell::Null)).collect(),
            };
            let cells = cells.into_iter().zip(fields);
            Cell::Dict(cells.map(|((name, cell), field)| (name, expected(cell, field.data_type()))).collect())
        }
        DataType::List(field) | DataType::LargeList(field) if is_tensor(field.data_type()) => match shown {
            Cell::List(cells) => Cell::List(cells.into_iter().map(|cell| filled(cell, field.data_type())).collect()),
            _ => Cell::List(vec![]),
        },
        data_type if is_tensor(data_type) => filled(shown, data_type),
        _ => shown,
    }
}

/// Whether a null shows at any depth. A struct without fields shows its own.
fn shows_null(shown: &Cell) -> bool {
    match shown {
        Cell::Null => true,
        Cell::List(cells) => cells.iter().any(shows_null),
        Cell::Dict(cells) => cells.iter().any(|(_, cell)| shows_null(cell)),
        _ => false,
    }
}

/// Row validity of the entries at and below a column, of those that have a mask.
fn validities(array: &dyn Array, above: &[bool], key: NestedKey, masks: &mut Vec<(NestedKey, Vec<bool>)>) {
    // A dictionary's valid key may name a null value.
    let coded = matches!(array.data_type(), DataType::Dictionary(..));
    let is_valid = |row: usize| array.is_valid(row) && !(coded && shows_null(&cell(array, row)));
    let valid: Vec<bool> = (0..array.len()).map(|row| above[row] && is_valid(row)).collect();
    match array.data_type() {
        DataType::Struct(fields) if !fields.is_empty() => {
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                validities(column, &valid, key.child(field.name()), masks);
            }
        }
        _ if valid.contains(&false) => masks.push((key, valid)),
        _ => {}
    }
}

fn tensor_cell(tensor: &Tensor) -> Cell {
    match (tensor.dim(), tensor.kind()) {
        (0, Kind::Bool) => Cell::Bool(tensor.int64_value(&[]) != 0),
        (0, Kind::Float | Kind::Double) => float(tensor.double_value(&[])),
        (0, _) => Cell::Int(tensor.int64_value(&[])),
        _ => Cell::List((0..tensor.size()[0]).map(|at| tensor_cell(&tensor.get(at))).collect()),
    }
}

fn value_cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(value) => Cell::Bool(value),
        Value::Int(value) => Cell::Int(value),
        Value::UInt(value) => Cell::Int(value as i64),
        Value::Float(value) => float(value),
        Value::Text(value) => Cell::Text(value),
        Value::List(values) => Cell::List(values.into_iter().map(value_cell).collect()),
        Value::Struct(fields) => {
            Cell::Dict(fields.into_iter().map(|(name, value)| (name, value_cell(value))).collect())
        }
        other => panic!("{other:?}"),
    }
}

/// The cell as the tensordict holds it.
fn read(entry: &Entry, row: usize) -> Cell {
    match entry {
        Entry::Tensor(tensor) => tensor_cell(&tensor.get(row as i64)),
        Entry::Jagged(jagged) => tensor_cell(&jagged.row(row as i64).unwrap()),
        Entry::NonTensor(values) => value_cell(values.value(row).unwrap()),
        Entry::Dict(dict) => {
            Cell::Dict(dict.items().unwrap().iter().map(|(name, entry)| (name.clone(), read(entry, row))).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn mask(dict: &TensorDict, key: &NestedKey) -> Vec<bool> {
    Vec::try_from(dict.tensor(NestedKey::from("_mask").join(key)).unwrap()).unwrap()
}

fn count_masks(dict: &TensorDict) -> usize {
    dict.dict("_mask").map_or(0, |masks| masks.leaf_keys().len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_equal_their_concatenation((schema, chunks) in chunks(&LEAVES)) {
        for nulls in [Nulls::Raise, Nulls::Fill, Nulls::Mask] {
            let options = Options::default().nulls(nulls);
            let joined = concat_batches(&schema, &chunks).unwrap();
            let (whole, parts) = (from_arrow(joined, &options), from_arrow_chunks(&schema, chunks.clone(), &options));
            match (whole, parts) {
                (Ok(whole), Ok(parts)) => prop_assert_eq!(show(&parts), show(&whole)),
                (Err(whole), Err(parts)) => prop_assert!(whole.is_null() && parts.is_null(), "{} {}", whole, parts),
                (whole, parts) => prop_assert!(false, "{:?} for {:?}", parts, whole),
            }
        }
    }

    #[test]
    fn values_are_those_of_the_columns((schema, chunks) in chunks(&LEAVES)) {
        let dict = from_arrow_chunks(&schema, chunks.clone(), &Options::default().nulls(Nulls::Fill)).unwrap();
        let rows: usize = chunks.iter().map(RecordBatch::num_rows).sum();
        prop_assert_eq!(dict.batch_size(), [rows as i64]);
        for (name, at) in [("a", 0), ("b", 1)] {
            let entry = dict.entry(name).unwrap();
            let got: Vec<Cell> = (0..rows).map(|row| read(&entry, row)).collect();
            let columns = chunks.iter().map(|chunk| chunk.column(at));
            let due: Vec<Cell> = columns
                .flat_map(|column| (0..column.len()).map(|row| expected(cell(column, row), column.data_type())))
                .collect();
            prop_assert_eq!(got, due);
        }
    }

    #[test]
    fn raise_succeeds_where_no_null_shows((schema, chunks) in chunks(&LEAVES)) {
        let columns = || chunks.iter().flat_map(|chunk| chunk.columns());
        let null = columns().any(|column| (0..column.len()).any(|row| shows_null(&cell(column, row))));
        match from_arrow_chunks(&schema, chunks.clone(), &Options::default()) {
            Ok(dict) => prop_assert!(!null, "{}", show(&dict)),
            Err(error) => {
                prop_assert!(null && error.is_null(), "{}", error);
                // The row that it names shows a null in the column that it names.
                let (name, row) = (error.nested_key().unwrap().names()[0].clone(), error.row().unwrap());
                let cells: Vec<Cell> = chunks
                    .iter()
                    .map(|chunk| chunk.column_by_name(&name).unwrap())
                    .flat_map(|column| (0..column.len()).map(|row| cell(column, row)))
                    .collect();
                prop_assert!(shows_null(&cells[row]), "{}: {:?}", error, cells);
            }
        }
    }

    #[test]
    fn masks_say_which_rows_were_valid((schema, chunks) in chunks(&LEAVES)) {
        let joined = concat_batches(&schema, &chunks).unwrap();
        let mut due = Vec::new();
        for (field, column) in schema.fields().iter().zip(joined.columns()) {
            validities(column, &vec![true; column.len()], field.name().into(), &mut due);
        }
        let dict = from_arrow_chunks(&schema, chunks, &Options::default().nulls(Nulls::Mask)).unwrap();
        prop_assert_eq!(count_masks(&dict), due.len());
        for (key, valid) in due {
            prop_assert_eq!(mask(&dict, &key), valid);
        }
    }
}
