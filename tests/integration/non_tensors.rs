//! What stays an Arrow array: strings, maps, dictionaries, times, unions, runs, lists of lists.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    FixedSizeListArray, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, ListViewArray, MapArray,
    MapBuilder, NullArray, RecordBatch, RunArray, StringArray, StringBuilder, StringViewArray,
    TimestampMicrosecondArray, UnionArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, UnionFields};
use tensorquery::{MaskKeys, Nulls, Options, from_arrow, from_arrow_chunks};

use crate::show::{column, show};
use crate::vectors::{arc, column_gives, column_raises, fixed, item, list, raises, structs};

#[test]
fn lists_of_what_is_no_tensor() {
    let numbers = |last: Option<i64>| arc(Int64Array::from(vec![Some(1), Some(2), Some(3), last]));
    let lists = |validity: Option<Vec<bool>>, last| list(vec![0, 1, 3, 4], numbers(last), validity);
    let nested = list(vec![0, 2, 2, 3], arc(lists(None, Some(4))), None);
    column_gives(nested, Nulls::Raise, "{c: nts([[1], [2, 3]], [], [[4]])}");
    let deep = || list(vec![0, 2, 2, 3], arc(lists(None, None)), None);
    column_raises(deep(), 1, 2);
    column_gives(deep(), Nulls::Fill, "{c: nts([[1], [2, 3]], [], [[null]])}");
    let row = || list(vec![0, 2, 2, 3], arc(lists(Some(vec![true, false, true]), Some(4))), None);
    column_raises(row(), 1, 0);
    column_gives(row(), Nulls::Fill, "{c: nts([[1], null], [], [[4]])}");

    let strings = || list(vec![0, 2, 3, 4], arc(StringArray::from(vec![Some("a"), None, Some("b"), None])), None);
    column_raises(strings(), 2, 0);
    column_gives(strings(), Nulls::Fill, r#"{c: nts(["a", null], ["b"], [null])}"#);
    column_gives(strings().slice(1, 1), Nulls::Raise, r#"{c: nts(["b"])}"#);

    let records = structs(
        vec![("x", arc(Int64Array::from(vec![Some(1), None]))), ("y", arc(StringArray::from(vec!["a", "b"])))],
        None,
    );
    let records = || list(vec![0, 1, 2, 2], arc(records.clone()), Some(vec![true, true, false]));
    let expected = r#"{c: nts([{x: 1, y: "a"}], [{x: null, y: "b"}], null), _mask: {c: bool[3](T, T, F)}}"#;
    column_gives(records(), Nulls::Mask, expected);
    column_raises(records(), 1, 2);
    column_raises(records().slice(0, 2), 1, 1);

    let nulls = || list(vec![0, 1, 1], arc(NullArray::new(1)), None);
    column_raises(nulls(), 1, 0);
    column_gives(nulls(), Nulls::Fill, "{c: nts([null], [])}");
}

type Pairs = Vec<(&'static str, Option<i64>)>;

fn map(rows: Vec<Option<Pairs>>) -> MapArray {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), arrow::array::Int64Builder::new());
    for row in rows {
        for (key, value) in row.iter().flatten() {
            builder.keys().append_value(key);
            builder.values().append_option(*value);
        }
        builder.append(row.is_some()).unwrap();
    }
    builder.finish()
}

#[test]
fn maps_and_list_views() {
    let maps = || map(vec![Some(vec![("a", Some(1)), ("b", Some(2))]), Some(vec![]), None]);
    column_gives(maps(), Nulls::Mask, r#"{c: nts({"a": 1, "b": 2}, {}, null), _mask: {c: bool[3](T, T, F)}}"#);
    column_raises(maps(), 1, 2);
    // A null inside a map or a list view is refused as any other.
    let inner = || map(vec![Some(vec![("a", Some(1))]), Some(vec![("b", None)])]);
    column_raises(inner(), 1, 1);
    column_gives(inner(), Nulls::Fill, r#"{c: nts({"a": 1}, {"b": null})}"#);

    let view = |last: Option<i64>| {
        let values = arc(Int64Array::from(vec![Some(1), Some(2), last]));
        ListViewArray::new(item(DataType::Int64), vec![0, 2, 0].into(), vec![2, 1, 0].into(), values, None)
    };
    column_gives(view(Some(3)), Nulls::Raise, "{c: nts([1, 2], [3], [])}");
    column_raises(view(None), 1, 1);
    column_gives(view(None), Nulls::Fill, "{c: nts([1, 2], [null], [])}");
    column_gives(view(None).slice(0, 1), Nulls::Raise, "{c: nts([1, 2])}");
}

#[test]
fn strings_and_bytes() {
    let values = || vec![Some("a"), None, Some("ccc")];
    let expected = r#"{c: nts("a", null, "ccc"), _mask: {c: bool[3](T, F, T)}}"#;
    column_gives(StringArray::from(values()), Nulls::Mask, expected);
    column_gives(LargeStringArray::from(values()), Nulls::Mask, expected);
    column_gives(StringViewArray::from(values()), Nulls::Mask, expected);
    column_raises(StringViewArray::from(values()), 1, 1);
    for rows in [0, 1] {
        let dict = from_arrow(column(arc(StringArray::from(vec!["a"; rows]))), &Options::default()).unwrap();
        assert_eq!(dict.non_tensor("c").unwrap().batch_size(), [rows as i64]);
    }

    let bytes = || vec![Some(b"ab".as_slice()), None];
    let expected = "{c: nts(0x6162, null)}";
    column_gives(BinaryArray::from(bytes()), Nulls::Fill, expected);
    column_gives(LargeBinaryArray::from(bytes()), Nulls::Fill, expected);
    column_gives(BinaryViewArray::from(bytes()), Nulls::Fill, expected);
    let sized = FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes().into_iter(), 2).unwrap();
    column_gives(sized, Nulls::Fill, expected);
}

fn dictionary(keys: Vec<Option<i32>>, values: ArrayRef) -> DictionaryArray<Int32Type> {
    DictionaryArray::new(Int32Array::from(keys), values)
}

#[test]
fn dictionaries() {
    let words = || arc(StringArray::from(vec![Some("a"), Some("b")]));
    let null_key = || dictionary(vec![Some(0), Some(1), None, Some(0)], words());
    column_raises(null_key(), 1, 2);
    column_gives(null_key(), Nulls::Mask, r#"{c: nts("a", "b", null, "a"), _mask: {c: bool[4](T, T, F, T)}}"#);

    // A null among the values counts where a row selects it, and only there.
    let null_value = || arc(StringArray::from(vec![Some("a"), None]));
    let selected = || dictionary(vec![Some(0), Some(1), Some(0)], null_value());
    column_raises(selected(), 1, 1);
    column_gives(selected(), Nulls::Fill, r#"{c: nts("a", null, "a")}"#);
    column_gives(selected(), Nulls::Mask, r#"{c: nts("a", null, "a"), _mask: {c: bool[3](T, F, T)}}"#);
    column_gives(dictionary(vec![Some(0), Some(0)], null_value()), Nulls::Raise, r#"{c: nts("a", "a")}"#);
    let numbers = dictionary(vec![Some(0), Some(1), Some(0)], arc(Int64Array::from(vec![10, 20])));
    column_gives(numbers, Nulls::Raise, "{c: nts(10, 20, 10)}");
}

#[test]
fn times_decimals_and_nulls() {
    let times = TimestampMicrosecondArray::from(vec![Some(0), None]);
    column_gives(times, Nulls::Mask, "{c: nts(1970-01-01T00:00:00, null), _mask: {c: bool[2](T, F)}}");
    let decimals = Decimal128Array::from(vec![150, -200]).with_precision_and_scale(5, 2).unwrap();
    column_gives(decimals, Nulls::Raise, "{c: nts(1.50, -2.00)}");
    column_raises(NullArray::new(2), 2, 0);
    column_gives(NullArray::new(2), Nulls::Mask, "{c: nts(null, null), _mask: {c: bool[2](F, F)}}");
    column_gives(NullArray::new(0), Nulls::Raise, "{c: nts()}");
}

fn union(last: Option<i64>) -> UnionArray {
    let fields = [(0, Field::new("i", DataType::Int64, true)), (1, Field::new("s", DataType::Utf8, true))];
    let fields: UnionFields = fields.into_iter().map(|(id, field)| (id, Arc::new(field))).collect();
    let children =
        vec![arc(Int64Array::from(vec![Some(1), None, last])), arc(StringArray::from(vec![None, Some("b"), None]))];
    UnionArray::try_new(fields, vec![0, 1, 0].into(), None, children).unwrap()
}

#[test]
fn unions_and_runs() {
    // Their rows have no validity of their own; but a null is a null, to `raise` and to `mask`.
    column_raises(union(None), 1, 2);
    column_gives(union(None), Nulls::Mask, r#"{c: nts(1, "b", null), _mask: {c: bool[3](T, T, F)}}"#);
    column_gives(union(Some(3)), Nulls::Raise, r#"{c: nts(1, "b", 3)}"#);

    let runs = || {
        RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &Int64Array::from(vec![Some(5), None])).unwrap()
    };
    column_raises(runs(), 1, 2);
    column_gives(runs(), Nulls::Mask, "{c: nts(5, 5, null), _mask: {c: bool[3](T, T, F)}}");
    // Where keys may not depend on data, the schema tells that there may be nulls.
    for array in [arc(runs()), arc(union(None))] {
        let schema = Schema::new(vec![Field::new("c", array.data_type().clone(), false)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap();
        let options = Options::default().nulls(Nulls::Mask).mask_keys(MaskKeys::Nullable);
        let dict = from_arrow(batch, &options).unwrap();
        assert_eq!(Vec::<bool>::try_from(dict.tensor(["_mask", "c"]).unwrap()).unwrap(), [true, true, false]);
    }
    column_gives(runs().slice(0, 2), Nulls::Raise, "{c: nts(5, 5)}");
    raises(column(arc(structs(vec![("u", arc(union(None)))], None))), ["c", "u"], 1, 2);
}

#[test]
fn chunks_of_what_is_no_tensor_are_joined() {
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &Int64Array::from(vec![5, 6])).unwrap();
    let values = arc(Int64Array::from(vec![1, 2]));
    let view = ListViewArray::new(item(DataType::Int64), vec![0, 1].into(), vec![2, 1].into(), values, None);
    let decimals = Decimal128Array::from(vec![150, -200]).with_precision_and_scale(5, 2).unwrap();
    let arrays: Vec<(ArrayRef, &str)> = vec![
        (arc(runs), "5, 6, 5, 5"),
        (arc(union(Some(3))), r#""b", 3, 1, "b""#),
        (arc(map(vec![Some(vec![("a", Some(1))]), Some(vec![])])), r#"{}, {"a": 1}, {}"#),
        (arc(view), "[2], [1, 2], [2]"),
        (arc(decimals), "-2.00, 1.50, -2.00"),
        (arc(NullArray::new(2)), "null, null, null"),
        (arc(StringViewArray::from(vec!["a", "b"])), r#""b", "a", "b""#),
        (arc(fixed(arc(StringArray::from(vec!["a", "b"])), 1, None)), r#"["b"], ["a"], ["b"]"#),
        (arc(dictionary(vec![Some(1), Some(0)], arc(StringArray::from(vec!["a", "b"])))), r#""a", "b", "a""#),
    ];
    for (array, expected) in arrays {
        let batch = column(array);
        let chunks = vec![batch.slice(1, batch.num_rows() - 1), batch.slice(0, 2)];
        let options = Options::default().nulls(Nulls::Fill);
        let dict = from_arrow_chunks(&batch.schema(), chunks, &options).unwrap();
        assert_eq!(show(&dict), format!("{{c: nts({expected})}}"));
    }
}

#[test]
fn dense_unions_under_null_structs() {
    let fields: UnionFields = [(3, Arc::new(Field::new("i", DataType::Int64, true)))].into_iter().collect();
    // Two rows share one element; only one of them is hidden.
    let children = vec![arc(Int64Array::from(vec![7, 8]))];
    let array = UnionArray::try_new(fields, vec![3, 3, 3].into(), Some(vec![0, 0, 1].into()), children).unwrap();
    let array = structs(vec![("u", arc(array))], Some(vec![false, true, true]));
    column_gives(array.slice(0, 2), Nulls::Fill, "{c: {u: nts(null, 7)}}");
    column_gives(array, Nulls::Fill, "{c: {u: nts(null, 7, 8)}}");
}

#[test]
fn null_structs_hide_runs_and_unions() {
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &Int64Array::from(vec![5, 6])).unwrap();
    let array = structs(vec![("r", arc(runs)), ("u", arc(union(Some(3))))], Some(vec![true, false, false]));
    let expected = r#"{c: {r: nts(5, null, null), u: nts(1, null, null)}, _mask: {c: {r: bool[3](T, F, F), u: bool[3](T, F, F)}}}"#;
    column_gives(array, Nulls::Mask, expected);
}

#[test]
fn rows_of_nothing_are_rows() {
    let strings = Arc::new(StringArray::from_iter_values([] as [&str; 0]));
    let field = Arc::new(Field::new("item", DataType::Utf8, true));
    let rows = FixedSizeListArray::try_new_with_length(field, 0, strings, None, 3).unwrap();
    let dict = from_arrow(column(Arc::new(rows)), &Options::default()).unwrap();
    assert_eq!(show(&dict.index(vec![2, 0]).unwrap()), "{c: nts([], [])}");
}
