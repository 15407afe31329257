//! What holds for any batch: random nested arrays against an oracle that reads them cell by cell.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, DictionaryArray, FixedSizeListArray, GenericListArray,
    Int32Array, OffsetSizeTrait, PrimitiveArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{
    DataType, Field, Fields, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type, Schema, UInt8Type, UInt16Type,
    UInt32Type,
};
use proptest::prelude::*;
use tch::{Kind, Tensor};
use tensorquery::{Entry, NestedKey, Nulls, Options, TensorDict, Value, from_arrow, from_arrow_chunks};

use crate::show::show;

/// What a cell shows. Floats are bits, with one NaN.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Null,
    Int(i64),
    Float(u64),
    Bool(bool),
    Text(String),
    List(Vec<Cell>),
    Dict(Vec<(String, Cell)>),
}

fn float(value: f64) -> Cell {
    Cell::Float(if value.is_nan() { f64::NAN } else { value }.to_bits())
}

/// Random numbers from a seed, so that a case is told by a few numbers.
struct Draw {
    state: u64,
    null_percent: u64,
}

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn validity(&mut self, rows: usize) -> Option<NullBuffer> {
        // Now and then there is no bitmap at all, or one without nulls.
        match self.below(4) {
            0 => None,
            1 => Some(NullBuffer::new_valid(rows)),
            _ => Some((0..rows).map(|_| self.below(100) >= self.null_percent).collect::<Vec<_>>().into()),
        }
    }

    /// An array that is cut out of a longer one.
    fn array(&mut self, data_type: &DataType, rows: usize) -> ArrayRef {
        let (before, after) = (self.below(3) as usize, self.below(3) as usize);
        self.whole(data_type, before + rows + after).slice(before, rows)
    }

    fn whole(&mut self, data_type: &DataType, rows: usize) -> ArrayRef {
        match data_type {
            DataType::Boolean => {
                let values: Vec<bool> = (0..rows).map(|_| self.below(2) == 1).collect();
                Arc::new(BooleanArray::new(values.into(), self.validity(rows)))
            }
            DataType::Int8 => self.numbers::<Int8Type>(rows, |n| n as i8),
            DataType::Int32 => self.numbers::<Int32Type>(rows, |n| n as i32),
            DataType::Int64 => self.numbers::<Int64Type>(rows, |n| n as i64),
            DataType::UInt8 => self.numbers::<UInt8Type>(rows, |n| n as u8),
            DataType::UInt16 => self.numbers::<UInt16Type>(rows, |n| n as u16),
            DataType::UInt32 => self.numbers::<UInt32Type>(rows, |n| n as u32),
            DataType::Float32 => self.numbers::<Float32Type>(rows, |n| f32::from_bits(n as u32)),
            DataType::Float64 => self.numbers::<Float64Type>(rows, f64::from_bits),
            DataType::Utf8 => {
                let values = StringArray::from_iter_values((0..rows).map(|_| "αb".repeat(self.below(3) as usize)));
                let (offsets, bytes, _) = values.into_parts();
                Arc::new(StringArray::new(offsets, bytes, self.validity(rows)))
            }
            DataType::List(field) => self.list::<i32>(field, rows),
            DataType::LargeList(field) => self.list::<i64>(field, rows),
            DataType::FixedSizeList(field, size) => {
                let values = self.array(field.data_type(), rows * *size as usize);
                let validity = self.validity(rows);
                let array = FixedSizeListArray::try_new_with_length(Arc::clone(field), *size, values, validity, rows);
                Arc::new(array.unwrap())
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().map(|field| self.array(field.data_type(), rows)).collect();
                let validity = self.validity(rows);
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, validity, rows).unwrap())
            }
            DataType::Dictionary(_, values) => {
                let count = 1 + self.below(4);
                let values = self.array(values, count as usize);
                let keys: Vec<i32> = (0..rows).map(|_| self.below(count) as i32).collect();
                Arc::new(DictionaryArray::new(Int32Array::new(keys.into(), self.validity(rows)), values))
            }
            other => panic!("{other}"),
        }
    }

    fn numbers<T: ArrowPrimitiveType>(&mut self, rows: usize, number: fn(u64) -> T::Native) -> ArrayRef {
        let values: Vec<T::Native> = (0..rows).map(|_| number(self.below(u64::MAX))).collect();
        Arc::new(PrimitiveArray::<T>::new(values.into(), self.validity(rows)))
    }

    /// Null rows may have elements, too, and there may be some that no row refers to.
    fn list<O: OffsetSizeTrait>(&mut self, field: &Arc<Field>, rows: usize) -> ArrayRef {
        let mut end = self.below(3) as usize;
        let mut offsets = vec![O::usize_as(end)];
        for _ in 0..rows {
            end += self.below(4) as usize;
            offsets.push(O::usize_as(end));
        }
        let unused = self.below(3) as usize;
        let values = self.array(field.data_type(), end + unused);
        let validity = self.validity(rows);
        Arc::new(GenericListArray::<O>::new(Arc::clone(field), OffsetBuffer::new(offsets.into()), values, validity))
    }
}

fn data_types() -> impl Strategy<Value = DataType> {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let leaf = prop::sample::select(vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Int64)),
    ]);
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            inner.clone().prop_map(move |data_type| DataType::List(item(data_type))),
            inner.clone().prop_map(move |data_type| DataType::LargeList(item(data_type))),
            (inner.clone(), 0..4).prop_map(move |(data_type, size)| DataType::FixedSizeList(item(data_type), size)),
            prop::collection::vec(inner, 0..4).prop_map(|fields| {
                let fields = fields.into_iter().enumerate();
                DataType::Struct(fields.map(|(i, field)| Field::new(format!("f{i}"), field, true)).collect())
            }),
        ]
    })
}

/// Chunks of two columns, none, one or more.
fn chunks() -> impl Strategy<Value = (Arc<Schema>, Vec<RecordBatch>)> {
    let lengths = prop::collection::vec(0usize..7, 0..4);
    (data_types(), data_types(), any::<u64>(), prop::sample::select(vec![0u64, 0, 10, 50]), lengths).prop_map(
        |(a, b, seed, null_percent, lengths)| {
            let fields: Fields = vec![Field::new("a", a, true), Field::new("b", b, true)].into();
            let schema = Arc::new(Schema::new(fields.clone()));
            let mut draw = Draw { state: seed, null_percent };
            let chunk = |rows: usize| {
                let columns = fields.iter().map(|field| draw.array(field.data_type(), rows)).collect();
                RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
            };
            let chunks = lengths.into_iter().map(chunk).collect();
            (schema, chunks)
        },
    )
}

/// The cell as Arrow shows it.
fn cell(array: &dyn Array, row: usize) -> Cell {
    if array.is_null(row) {
        return Cell::Null;
    }
    let list = |values: ArrayRef| Cell::List((0..values.len()).map(|row| cell(&values, row)).collect());
    match array.data_type() {
        DataType::Boolean => Cell::Bool(array.as_boolean().value(row)),
        DataType::Int8 => Cell::Int(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int32 => Cell::Int(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Cell::Int(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Cell::Int(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Cell::Int(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::List(_) => list(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            Cell::Dict(columns.map(|(field, column)| (field.name().clone(), cell(column, row))).collect())
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_dictionary::<Int32Type>();
            cell(dictionary.values(), dictionary.keys().value(row) as usize)
        }
        other => panic!("{other}"),
    }
}

fn is_tensor(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean => true,
        DataType::FixedSizeList(field, _) => is_tensor(field.data_type()),
        other => other.is_numeric(),
    }
}

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
    let nulls = array.logical_nulls();
    let own_valid = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let valid: Vec<bool> = (0..array.len()).map(|row| above[row] && own_valid(row)).collect();
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
        Entry::Dict(dict) => Cell::Dict(dict.iter().map(|(name, entry)| (name.to_owned(), read(entry, row))).collect()),
        other => panic!("{other:?}"),
    }
}

fn mask(dict: &TensorDict, key: &NestedKey) -> Vec<bool> {
    Vec::try_from(dict.tensor(NestedKey::from("_mask").join(key)).unwrap()).unwrap()
}

fn count_masks(dict: &TensorDict) -> usize {
    dict.dict("_mask").map_or(0, |masks| masks.leaves().len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_equal_their_concatenation((schema, chunks) in chunks()) {
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
    fn values_are_those_of_the_columns((schema, chunks) in chunks()) {
        let dict = from_arrow_chunks(&schema, chunks.clone(), &Options::default().nulls(Nulls::Fill)).unwrap();
        let rows: usize = chunks.iter().map(RecordBatch::num_rows).sum();
        prop_assert_eq!(dict.batch_size(), [rows as i64]);
        for (name, at) in [("a", 0), ("b", 1)] {
            let entry = dict.get(name).unwrap();
            let got: Vec<Cell> = (0..rows).map(|row| read(entry, row)).collect();
            let columns = chunks.iter().map(|chunk| chunk.column(at));
            let due: Vec<Cell> = columns
                .flat_map(|column| (0..column.len()).map(|row| expected(cell(column, row), column.data_type())))
                .collect();
            prop_assert_eq!(got, due);
        }
    }

    #[test]
    fn raise_succeeds_where_no_null_shows((schema, chunks) in chunks()) {
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
    fn masks_say_which_rows_were_valid((schema, chunks) in chunks()) {
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
