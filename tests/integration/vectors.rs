//! What each Arrow type becomes, with and without nulls: one line per case, input and result.
//!
//! Where a line has no result under `raise`, the error must name the key, the count and the row.

use std::sync::Arc;

use arrow::array::types::{Float32Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt16Type};
use arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float16Array, Float32Array, Float64Array, GenericListArray,
    Int8Array, Int16Array, Int32Array, Int64Array, LargeListArray, ListArray, OffsetSizeTrait, RecordBatch,
    StringArray, StructArray, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use half::f16;
use tensorquery::{NestedKey, Nulls, Options, from_arrow};

use crate::show::{column, column_of, show, tensor_field};

pub(crate) fn gives(batch: RecordBatch, nulls: Nulls, expected: &str) {
    let dict =
        from_arrow(batch, &Options::default().nulls(nulls)).unwrap_or_else(|error| panic!("{expected}: {error}"));
    assert_eq!(show(&dict), expected);
}

pub(crate) fn raises(batch: RecordBatch, key: impl Into<NestedKey>, count: usize, row: usize) {
    let key = key.into();
    let error = from_arrow(batch, &Options::default()).unwrap_err();
    assert!(error.is_null(), "{error}");
    assert_eq!((error.nested_key(), error.row()), (Some(&key), Some(row)), "{error}");
    let nulls = if count == 1 { "null" } else { "nulls" };
    let text = format!(
        "{key}: {count} {nulls} in one record batch of a column whose nulls are refused (nulls=raise) (row {row}); \
         nulls=fill replaces nulls, nulls=mask replaces them and says where they were"
    );
    assert_eq!(error.to_string(), text);
}

pub(crate) fn column_gives(array: impl Array + 'static, nulls: Nulls, expected: &str) {
    gives(column(Arc::new(array)), nulls, expected);
}

pub(crate) fn column_raises(array: impl Array + 'static, count: usize, row: usize) {
    raises(column(Arc::new(array)), "c", count, row);
}

pub(crate) fn arc(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

pub(crate) fn some<T>(values: Vec<T>) -> Option<Vec<Option<T>>> {
    Some(values.into_iter().map(Some).collect())
}

pub(crate) fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, true))
}

pub(crate) fn fixed(values: ArrayRef, size: i32, validity: Option<Vec<bool>>) -> FixedSizeListArray {
    let field = item(values.data_type().clone());
    FixedSizeListArray::new(field, size, values, validity.map(NullBuffer::from))
}

pub(crate) fn list(offsets: Vec<i32>, values: ArrayRef, validity: Option<Vec<bool>>) -> ListArray {
    let field = item(values.data_type().clone());
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    ListArray::new(field, offsets, values, validity.map(NullBuffer::from))
}

pub(crate) fn structs(fields: Vec<(&str, ArrayRef)>, validity: Option<Vec<bool>>) -> StructArray {
    let (fields, arrays): (Vec<_>, Vec<_>) =
        fields.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).unzip();
    StructArray::new(Fields::from(fields), arrays, validity.map(NullBuffer::from))
}

#[test]
fn numbers() {
    let int8 = || Int8Array::from(vec![Some(1), None, Some(3)]);
    column_raises(int8(), 1, 1);
    column_gives(int8(), Nulls::Fill, "{c: int8[3](1, 0, 3)}");
    column_gives(int8(), Nulls::Mask, "{c: int8[3](1, 0, 3), _mask: {c: bool[3](T, F, T)}}");

    // libtorch computes with signed numbers, so unsigned ones of 16 bits and more widen.
    let wide = "{c: int64[3](1, 0, 3), _mask: {c: bool[3](T, F, T)}}";
    let int32 = "{c: int32[3](1, 0, 3), _mask: {c: bool[3](T, F, T)}}";
    column_gives(UInt16Array::from(vec![Some(1), None, Some(3)]), Nulls::Mask, int32);
    column_gives(UInt32Array::from(vec![Some(1), None, Some(3)]), Nulls::Mask, wide);
    column_gives(UInt64Array::from(vec![Some(1), None, Some(3)]), Nulls::Mask, wide);
    column_gives(UInt16Array::from(vec![u16::MAX]), Nulls::Raise, "{c: int32[1](65535)}");
    column_gives(UInt32Array::from(vec![u32::MAX]), Nulls::Raise, "{c: int64[1](4294967295)}");

    let large = || column(arc(UInt64Array::from(vec![1, 1 << 63, u64::MAX])));
    let error = from_arrow(large(), &Options::default()).unwrap_err();
    assert!(error.is_overflow() && error.row() == Some(1), "{error}");
    let mut reinterpret = Options::default();
    reinterpret.set("unsigned", "reinterpret").unwrap();
    let dict = from_arrow(large(), &reinterpret).unwrap();
    assert_eq!(show(&dict), format!("{{c: int64[3](1, {}, -1)}}", i64::MIN));

    let half = vec![Some(f16::from_f32(1.5)), None, Some(f16::from_f32(-2.0))];
    column_gives(Float16Array::from(half), Nulls::Fill, "{c: float16[3](1.5, NaN, -2)}");
    let double = Float64Array::from(vec![Some(1.0), None]);
    column_gives(double, Nulls::Mask, "{c: float64[2](1, NaN), _mask: {c: bool[2](T, F)}}");

    let sliced = Int64Array::from(vec![Some(1), None, Some(3), None, Some(5)]).slice(1, 3);
    column_gives(sliced, Nulls::Mask, "{c: int64[3](0, 3, 0), _mask: {c: bool[3](F, T, F)}}");
    let all_valid = Int64Array::new(vec![1, 2].into(), Some(NullBuffer::new_valid(2)));
    column_gives(all_valid, Nulls::Mask, "{c: int64[2](1, 2)}");
}

#[test]
fn booleans() {
    let values = BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]);
    column_gives(values, Nulls::Mask, "{c: bool[4](T, F, F, T), _mask: {c: bool[4](T, F, T, T)}}");
    let sliced = BooleanArray::from(vec![true, false, true, true]).slice(1, 2);
    column_gives(sliced, Nulls::Raise, "{c: bool[2](F, T)}");
}

#[test]
fn fixed_size_lists() {
    let rows = || {
        let rows = [some(vec![1, 2]), None, some(vec![5, 6])];
        FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows, 2)
    };
    column_raises(rows(), 1, 1);
    let masked = "{c: int32[3, 2](1, 2, 0, 0, 5, 6), _mask: {c: bool[3](T, F, T)}}";
    column_gives(rows(), Nulls::Mask, masked);
    column_gives(rows().slice(1, 2), Nulls::Mask, "{c: int32[2, 2](0, 0, 5, 6), _mask: {c: bool[2](F, T)}}");

    let inner = || {
        let rows = [Some(vec![Some(1), None]), some(vec![3, 4])];
        FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows, 2)
    };
    column_raises(inner(), 1, 0);
    column_gives(inner(), Nulls::Mask, "{c: int32[2, 2](1, 0, 3, 4)}");

    let rows = [Some(vec![Some(1.0), None]), None, some(vec![5.0, 6.0])];
    let floats = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2);
    column_gives(floats, Nulls::Mask, "{c: float32[3, 2](1, NaN, NaN, NaN, 5, 6), _mask: {c: bool[3](T, F, T)}}");

    let bits = arc(BooleanArray::from(vec![true, false, true, true, false, true]));
    let booleans = fixed(bits, 2, Some(vec![true, false, true]));
    column_gives(booleans, Nulls::Mask, "{c: bool[3, 2](T, F, F, F, F, T), _mask: {c: bool[3](T, F, T)}}");

    let nested = || {
        let numbers = arc(Int16Array::from_iter_values(1..=12));
        fixed(arc(fixed(numbers, 2, None)), 3, None)
    };
    column_gives(nested(), Nulls::Raise, "{c: int16[2, 3, 2](1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)}");
    column_gives(nested().slice(1, 1), Nulls::Raise, "{c: int16[1, 3, 2](7, 8, 9, 10, 11, 12)}");

    let numbers = (1..=12).map(|n| (n != 10).then_some(n as f32)).collect::<Float32Array>();
    let pairs = fixed(arc(numbers), 2, Some(vec![true, false, true, true, true, true]));
    let nested = || fixed(arc(pairs.clone()), 3, None);
    column_gives(nested(), Nulls::Mask, "{c: float32[2, 3, 2](1, 2, NaN, NaN, 5, 6, 7, 8, 9, NaN, 11, 12)}");
    // The null pair comes before the null number in it, and lies in row 0.
    column_raises(nested(), 1, 0);
    column_raises(nested().slice(1, 1), 1, 0);

    let empty = FixedSizeListArray::try_new_with_length(
        item(DataType::Int32),
        0,
        arc(Int32Array::from_iter_values([])),
        None,
        3,
    );
    column_gives(empty.unwrap(), Nulls::Raise, "{c: int32[3, 0]()}");
    let rows = [Some(vec![Some(1), None]), None];
    let unsigned = FixedSizeListArray::from_iter_primitive::<UInt16Type, _, _>(rows, 2);
    column_gives(unsigned, Nulls::Fill, "{c: int32[2, 2](1, 0, 0, 0)}");

    let strings = || fixed(arc(StringArray::from(vec![Some("a"), Some("b"), Some("c"), None])), 2, None);
    column_raises(strings(), 1, 1);
    column_gives(strings(), Nulls::Fill, r#"{c: nts(["a", "b"], ["c", null])}"#);
    let lists = list(vec![0, 1, 3, 4, 4], arc(Int32Array::from(vec![1, 2, 3, 4])), None);
    column_gives(fixed(arc(lists), 2, None), Nulls::Raise, "{c: nts([[1], [2, 3]], [[4], []])}");
}

#[test]
fn fixed_shape_tensors() {
    let tensors = |numbers: ArrayRef, size: i32, metadata: &str, validity: Option<Vec<bool>>| {
        let array = arc(fixed(numbers, size, validity));
        column_of(tensor_field("c", &array, metadata), array)
    };
    let numbers = |count: i32| arc(Int32Array::from_iter_values(1..=count));
    let flat = tensors(numbers(12), 6, r#"{"shape": [2, 3]}"#, None);
    gives(flat, Nulls::Raise, "{c: int32[2, 2, 3](1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)}");

    let permuted = tensors(numbers(12), 6, r#"{"shape": [2, 3], "permutation": [1, 0]}"#, None);
    let dict = from_arrow(permuted, &Options::default()).unwrap();
    assert_eq!(show(&dict), "{c: int32[2, 3, 2](1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12)}");
    assert_eq!(dict.tensor("c").unwrap().stride(), [6, 1, 3]);

    let values = arc(Int32Array::from_iter_values(0..24));
    let turned = tensors(values, 24, r#"{"shape": [2, 3, 4], "permutation": [2, 0, 1]}"#, None);
    let dict = from_arrow(turned, &Options::default()).unwrap();
    assert_eq!(dict.tensor("c").unwrap().size(), [1, 4, 2, 3]);
    let corner = dict.tensor("c").unwrap().get(0).get(0).reshape([-1]);
    assert_eq!(Vec::<i32>::try_from(corner).unwrap(), [0, 4, 8, 12, 16, 20]);

    let with_null = || tensors(numbers(12), 6, r#"{"shape": [2, 3]}"#, Some(vec![true, false]));
    raises(with_null(), "c", 1, 1);
    let masked = "{c: int32[2, 2, 3](1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0), _mask: {c: bool[2](T, F)}}";
    gives(with_null(), Nulls::Mask, masked);
    let inner = arc(Int32Array::from(vec![Some(1), None, Some(3), Some(4), Some(5), Some(6)]));
    gives(tensors(inner, 6, r#"{"shape": [2, 3]}"#, None), Nulls::Mask, "{c: int32[1, 2, 3](1, 0, 3, 4, 5, 6)}");
    let sliced = tensors(numbers(12), 4, r#"{"shape": [2, 2]}"#, None).slice(1, 2);
    gives(sliced, Nulls::Raise, "{c: int32[2, 2, 2](5, 6, 7, 8, 9, 10, 11, 12)}");
    gives(tensors(numbers(2), 1, r#"{"shape": []}"#, None), Nulls::Raise, "{c: int32[2](1, 2)}");
    let named = tensors(numbers(4), 4, r#"{"shape": [2, 2], "dim_names": ["H", "W"]}"#, None);
    gives(named, Nulls::Raise, "{c: int32[1, 2, 2](1, 2, 3, 4)}");
}

#[test]
fn malformed_fixed_shape_tensors() {
    for metadata in [
        "",
        "[",
        "{}",
        r#"{"shape": 4}"#,
        r#"{"shape": [-4]}"#,
        r#"{"shape": [3]}"#,
        r#"{"shape": [4294967296, 4294967296]}"#,
        r#"{"shape": [2, 2], "permutation": [0, 0]}"#,
        r#"{"shape": [2, 2], "permutation": [0]}"#,
    ] {
        let array = arc(fixed(arc(Int32Array::from_iter_values(0..4)), 4, None));
        let batch = column_of(tensor_field("c", &array, metadata), array);
        let error = from_arrow(batch, &Options::default()).unwrap_err();
        assert!(error.is_schema() && error.nested_key() == Some(&"c".into()), "{metadata}: {error}");
    }
}

pub(crate) fn ragged<O: OffsetSizeTrait>(rows: Vec<Option<Vec<Option<i64>>>>) -> GenericListArray<O> {
    GenericListArray::from_iter_primitive::<Int64Type, _, _>(rows)
}

#[test]
fn lists() {
    let plain = || vec![some(vec![1, 2]), some(vec![3]), some(vec![])];
    column_gives(ragged::<i32>(plain()), Nulls::Raise, "{c: jag(int64[3](1, 2, 3); 0, 2, 3, 3)}");
    column_gives(ragged::<i64>(plain()), Nulls::Raise, "{c: jag(int64[3](1, 2, 3); 0, 2, 3, 3)}");

    let with_null = || ragged::<i32>(vec![some(vec![1, 2]), None, some(vec![3])]);
    column_raises(with_null(), 1, 1);
    column_gives(with_null(), Nulls::Fill, "{c: jag(int64[3](1, 2, 3); 0, 2, 2, 3)}");
    let masked = "{c: jag(int64[3](1, 2, 3); 0, 2, 2, 3), _mask: {c: bool[3](T, F, T)}}";
    column_gives(with_null(), Nulls::Mask, masked);

    let inner = || ragged::<i32>(vec![some(vec![]), Some(vec![Some(1), None]), some(vec![3])]);
    column_raises(inner(), 1, 1);
    column_gives(inner(), Nulls::Mask, "{c: jag(int64[3](1, 0, 3); 0, 0, 2, 3)}");
    let rows = [Some(vec![Some(1.0), None]), None, some(vec![2.0])];
    let floats = ListArray::from_iter_primitive::<arrow::datatypes::Float64Type, _, _>(rows);
    let expected = "{c: jag(float64[3](1, NaN, 2); 0, 2, 2, 3), _mask: {c: bool[3](T, F, T)}}";
    column_gives(floats, Nulls::Mask, expected);

    let four = || ragged::<i32>(vec![some(vec![1, 2]), some(vec![3]), some(vec![]), some(vec![4, 5, 6])]);
    column_gives(four().slice(1, 3), Nulls::Raise, "{c: jag(int64[4](3, 4, 5, 6); 0, 1, 1, 4)}");
    column_gives(four().slice(1, 2), Nulls::Raise, "{c: jag(int64[1](3); 0, 1, 1)}");
    let null_before = ragged::<i32>(vec![Some(vec![Some(1), None]), some(vec![3]), some(vec![4, 5])]);
    column_gives(null_before.slice(1, 2), Nulls::Raise, "{c: jag(int64[3](3, 4, 5); 0, 1, 3)}");

    let hidden = list(vec![0, 2, 4, 5], arc(Int64Array::from_iter_values(1..=5)), Some(vec![true, false, true]));
    column_gives(hidden, Nulls::Fill, "{c: jag(int64[3](1, 2, 5); 0, 2, 2, 3)}");
    let around = list(vec![1, 3, 4], arc(Int64Array::from(vec![9, 1, 2, 3, 9, 9])), None);
    column_gives(around, Nulls::Raise, "{c: jag(int64[3](1, 2, 3); 0, 2, 3)}");

    let none = || arc(Float32Array::from_iter_values([]));
    column_gives(list(vec![0], none(), None), Nulls::Raise, "{c: jag(float32[0](); 0)}");
    column_gives(list(vec![0, 0, 0], none(), None), Nulls::Raise, "{c: jag(float32[0](); 0, 0, 0)}");
    let bits = list(vec![0, 2, 2], arc(BooleanArray::from(vec![Some(true), None])), Some(vec![true, false]));
    column_gives(bits, Nulls::Mask, "{c: jag(bool[2](T, F); 0, 2, 2), _mask: {c: bool[2](T, F)}}");
}

#[test]
fn lists_of_fixed_size_rows() {
    let pairs = fixed(arc(Int32Array::from_iter_values(1..=6)), 2, None);
    let lists = list(vec![0, 2, 3, 3], arc(pairs), None);
    column_gives(lists, Nulls::Raise, "{c: jag(int32[3, 2](1, 2, 3, 4, 5, 6); 0, 2, 3, 3)}");

    let rows = [some(vec![1.0, 2.0]), None, Some(vec![Some(5.0), None])];
    let pairs = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2);
    let lists = || list(vec![0, 2, 2, 3], arc(pairs.clone()), Some(vec![true, false, true]));
    let expected = "{c: jag(float32[3, 2](1, 2, NaN, NaN, 5, NaN); 0, 2, 2, 3), _mask: {c: bool[3](T, F, T)}}";
    column_gives(lists(), Nulls::Mask, expected);
    column_raises(list(vec![0, 0, 2], arc(pairs.slice(0, 2)), None), 1, 1);
    column_raises(list(vec![0, 0, 1], arc(pairs.slice(2, 1)), None), 1, 1);

    let tensors = arc(fixed(arc(Int32Array::from_iter_values(1..=6)), 6, None));
    let field = Arc::new(tensor_field("item", &tensors, r#"{"shape": [2, 3], "permutation": [1, 0]}"#));
    let lists = ListArray::new(field, OffsetBuffer::new(vec![0, 1, 1].into()), tensors, None);
    column_gives(lists, Nulls::Raise, "{c: jag(int32[1, 3, 2](1, 4, 2, 5, 3, 6); 0, 1, 1)}");
}

fn record(x: Vec<Option<i64>>, s: Vec<Option<&str>>, rows: Vec<bool>, validity: Option<Vec<bool>>) -> StructArray {
    let lists = rows.iter().map(|valid| valid.then(|| vec![Some(1), Some(2)]));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    structs(vec![("x", arc(Int64Array::from(x))), ("s", arc(StringArray::from(s))), ("l", arc(lists))], validity)
}

#[test]
fn structs_become_dicts() {
    let plain = record(vec![Some(1), Some(2)], vec![Some("a"), Some("b")], vec![true, true], None);
    let expected = r#"{c: {x: int64[2](1, 2), s: nts("a", "b"), l: jag(int32[4](1, 2, 1, 2); 0, 2, 4)}}"#;
    column_gives(plain, Nulls::Raise, expected);

    let fields = record(vec![None, Some(2)], vec![Some("a"), None], vec![true, false], None);
    let expected = r#"{c: {x: int64[2](0, 2), s: nts("a", null), l: jag(int32[2](1, 2); 0, 2, 2)}, _mask: {c: {x: bool[2](F, T), s: bool[2](T, F), l: bool[2](T, F)}}}"#;
    column_gives(fields, Nulls::Mask, expected);

    let row = || record(vec![Some(1), Some(2)], vec![Some("a"), Some("b")], vec![true, true], Some(vec![true, false]));
    raises(column(arc(row())), ["c", "x"], 1, 1);
    let expected = r#"{c: {x: int64[2](1, 0), s: nts("a", null), l: jag(int32[2](1, 2); 0, 2, 2)}}"#;
    column_gives(row(), Nulls::Fill, expected);
    let null_first =
        record(vec![Some(1), Some(2)], vec![Some("a"), Some("b")], vec![true, true], Some(vec![false, true]));
    let expected = r#"{c: {x: int64[1](2), s: nts("b"), l: jag(int32[2](1, 2); 0, 2)}}"#;
    column_gives(null_first.slice(1, 1), Nulls::Raise, expected);
}

#[test]
fn nulls_of_structs_reach_all_below() {
    let inner = structs(
        vec![
            ("y", arc(Float32Array::from(vec![Some(1.0), Some(2.0), Some(3.0), None]))),
            ("b", arc(BooleanArray::from(vec![true, true, true, false]))),
        ],
        Some(vec![true, false, true, true]),
    );
    let rows = [some(vec![1, 2]), some(vec![3, 4]), some(vec![5, 6]), None];
    let z = FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(rows, 2);
    let outer =
        || structs(vec![("in", arc(inner.clone())), ("z", arc(z.clone()))], Some(vec![true, true, false, true]));
    let expected = "{c: {in: {y: float32[4](1, NaN, NaN, NaN), b: bool[4](T, F, F, F)}, z: int16[4, 2](1, 2, 3, 4, 0, 0, 0, 0)}, \
         _mask: {c: {in: {y: bool[4](T, F, F, F), b: bool[4](T, F, F, T)}, z: bool[4](T, T, F, F)}}}";
    column_gives(outer(), Nulls::Mask, expected);
    raises(column(arc(outer())), ["c", "in", "y"], 3, 1);
}

#[test]
fn structs_without_fields() {
    let empty = |validity: Option<Vec<bool>>| StructArray::new_empty_fields(2, validity.map(NullBuffer::from));
    for nulls in [Nulls::Raise, Nulls::Fill, Nulls::Mask] {
        column_gives(empty(None), nulls, "{c: {}}");
    }
    // No field can say that the row was null, so the struct itself does.
    column_gives(empty(Some(vec![true, false])), Nulls::Fill, "{c: {}}");
    column_gives(empty(Some(vec![true, false])), Nulls::Mask, "{c: {}, _mask: {c: bool[2](T, F)}}");
    column_raises(empty(Some(vec![true, false])), 1, 1);
    let dict = from_arrow(column(arc(empty(None))), &Options::default()).unwrap();
    assert_eq!(dict.dict("c").unwrap().batch_size(), [2]);
    let below = structs(vec![("e", arc(empty(None)))], Some(vec![false, true]));
    raises(column(arc(below)), ["c", "e"], 1, 0);
}

#[test]
fn a_field_that_has_no_nulls_shows_those_of_its_struct() {
    let fields = Fields::from(vec![Field::new("s", DataType::Utf8, false), Field::new("x", DataType::Int64, false)]);
    let columns = vec![arc(StringArray::from(vec!["a", "b"])), arc(Int64Array::from(vec![1, 2]))];
    let array = StructArray::new(fields, columns, Some(vec![true, false].into()));
    let expected = r#"{c: {s: nts("a", null), x: int64[2](1, 0)}, _mask: {c: {s: bool[2](T, F), x: bool[2](T, F)}}}"#;
    column_gives(array, Nulls::Mask, expected);
}

#[test]
fn large_lists_slice_as_lists_do() {
    let rows = vec![some(vec![1, 2]), some(vec![3]), some(vec![4, 5, 6])];
    column_gives(ragged::<i64>(rows).slice(1, 2), Nulls::Raise, "{c: jag(int64[4](3, 4, 5, 6); 0, 1, 4)}");
    let large = LargeListArray::from_iter_primitive::<Int8Type, _, _>([None, some(vec![1i8])]);
    column_gives(large, Nulls::Mask, "{c: jag(int8[1](1); 0, 0, 1), _mask: {c: bool[2](F, T)}}");
}
