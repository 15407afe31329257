//! Random nested arrays, and what their cells show.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, DictionaryArray, FixedSizeListArray, GenericListArray,
    Int32Array, NullArray, OffsetSizeTrait, PrimitiveArray, RecordBatch, StringArray, StringViewArray, StructArray,
    make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Fields, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type, Schema,
    TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type,
};
use proptest::prelude::*;

/// What a cell shows. Floats are bits, with one NaN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Float(u64),
    Bool(bool),
    Text(String),
    List(Vec<Cell>),
    Dict(Vec<(String, Cell)>),
}

pub(crate) fn float(value: f64) -> Cell {
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
            DataType::Utf8View => {
                let values: StringViewArray =
                    (0..rows).map(|_| "αβγδεζη".repeat(self.below(4) as usize)).map(Some).collect();
                let (views, buffers, _) = values.into_parts();
                Arc::new(StringViewArray::new(views, buffers, self.validity(rows)))
            }
            DataType::Timestamp(..) | DataType::Decimal128(..) => {
                let numbers = match data_type {
                    DataType::Timestamp(..) => self.numbers::<TimestampMillisecondType>(rows, |n| n as i64),
                    _ => self.numbers::<Decimal128Type>(rows, |n| i128::from(n % 10_000)),
                };
                make_array(numbers.to_data().into_builder().data_type(data_type.clone()).build().unwrap())
            }
            DataType::Null => Arc::new(NullArray::new(rows)),
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

/// Types of columns that the other properties are about.
pub(crate) const LEAVES: [DataType; 10] = [
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
];

/// `leaves`, dictionaries, and lists and structs of such.
pub(crate) fn data_types(leaves: &[DataType]) -> impl Strategy<Value = DataType> + use<> {
    let dictionaries = [DataType::Utf8, DataType::Int64]
        .map(|values| DataType::Dictionary(Box::new(DataType::Int32), Box::new(values)));
    nested([leaves, &dictionaries].concat())
}

/// `leaves`, and lists and structs of such.
pub(crate) fn nested(leaves: Vec<DataType>) -> impl Strategy<Value = DataType> + Clone {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let leaf = prop::sample::select(leaves);
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
pub(crate) fn chunks(leaves: &[DataType]) -> impl Strategy<Value = (Arc<Schema>, Vec<RecordBatch>)> + use<> {
    chunks_of(data_types(leaves), data_types(leaves))
}

/// Chunks of two columns of these types.
pub(crate) fn chunks_of(
    first: impl Strategy<Value = DataType>,
    second: impl Strategy<Value = DataType>,
) -> impl Strategy<Value = (Arc<Schema>, Vec<RecordBatch>)> {
    let lengths = prop::collection::vec(0usize..7, 0..4);
    (first, second, any::<u64>(), prop::sample::select(vec![0u64, 0, 10, 50]), lengths).prop_map(
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
pub(crate) fn cell(array: &dyn Array, row: usize) -> Cell {
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
        DataType::Utf8View => Cell::Text(array.as_string_view().value(row).to_owned()),
        DataType::Timestamp(..) => Cell::Int(array.as_primitive::<TimestampMillisecondType>().value(row)),
        DataType::Decimal128(..) => Cell::Text(array.as_primitive::<Decimal128Type>().value(row).to_string()),
        DataType::Null => Cell::Null,
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

pub(crate) fn is_tensor(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean => true,
        DataType::FixedSizeList(field, _) => is_tensor(field.data_type()),
        other => other.is_integer() || other.is_floating(),
    }
}
