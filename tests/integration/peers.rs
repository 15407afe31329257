//! Inputs on which other tools for this job return a wrong or surprising value, and reported problems
//! of theirs: here with the right value.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeListArray, Float32Array,
    Float64Array, Int8Array, Int32Array, Int64Array, LargeListArray, ListArray, RecordBatch, StringArray, StructArray,
    Time64MicrosecondArray, UInt64Array,
};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Int8Type, Int64Type, Schema, UInt64Type};
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use tensorquery::{MaskKeys, NestedKey, Nulls, Options, TensorDict, TensorDictSchema, from_arrow, from_arrow_chunks};

use crate::show::{column, column_of, show, tensor_field};

fn gives(array: impl Array + 'static, nulls: Nulls, expected: &str) {
    let dict = from_arrow(column(Arc::new(array)), &Options::default().nulls(nulls)).unwrap();
    assert_eq!(show(&dict), expected);
}

fn overflows(array: impl Array + 'static, row: usize) {
    let error = from_arrow(column(Arc::new(array)), &Options::default()).unwrap_err();
    assert!(error.is_overflow(), "{error}");
    assert_eq!((error.nested_key(), error.row()), (Some(&NestedKey::from("c")), Some(row)), "{error}");
}

fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, true))
}

#[test]
fn large_integers_beside_nulls_stay_integers() {
    let array = || Int64Array::from(vec![Some((1 << 53) + 1), None, Some(3)]);
    let expected = "{c: int64[3](9007199254740993, 0, 3), _mask: {c: bool[3](T, F, T)}}";
    gives(array(), Nulls::Mask, expected);
    assert!(from_arrow(column(Arc::new(array())), &Options::default()).unwrap_err().is_null());
}

#[test]
fn null_is_not_nan() {
    let array = Float32Array::from(vec![Some(1.0), None, Some(f32::NAN)]);
    gives(array, Nulls::Mask, "{c: float32[3](1, NaN, NaN), _mask: {c: bool[3](T, F, T)}}");
}

#[test]
fn booleans_with_nulls_stay_booleans() {
    let array = BooleanArray::from(vec![Some(true), None, Some(false)]);
    gives(array, Nulls::Mask, "{c: bool[3](T, F, F), _mask: {c: bool[3](T, F, T)}}");
}

#[test]
fn unsigned_numbers_never_turn_negative() {
    overflows(UInt64Array::from(vec![0, u64::MAX]), 1);
    gives(UInt64Array::from(vec![1, 2]), Nulls::Raise, "{c: int64[2](1, 2)}");
    gives(UInt64Array::from(vec![i64::MAX as u64]), Nulls::Raise, "{c: int64[1](9223372036854775807)}");

    let rows = || [Some(vec![Some(1)]), Some(vec![]), Some(vec![Some(2), Some(1 << 63)])];
    overflows(ListArray::from_iter_primitive::<UInt64Type, _, _>(rows()), 2);
    overflows(LargeListArray::from_iter_primitive::<UInt64Type, _, _>(rows()), 2);
    let pairs = [Some(vec![Some(1), Some(2)]), Some(vec![Some(3), Some(1 << 63)])];
    overflows(FixedSizeListArray::from_iter_primitive::<UInt64Type, _, _>(pairs, 2), 1);

    // A large number under a null is nobody's number.
    let hidden = UInt64Array::new(vec![1, u64::MAX].into(), Some(vec![true, false].into()));
    gives(hidden, Nulls::Fill, "{c: int64[2](1, 0)}");

    // Rows of errors count over all chunks, and keys lead into structs.
    let chunk = |number: u64| {
        let fields = Fields::from(vec![Field::new("id", DataType::UInt64, true)]);
        column(Arc::new(StructArray::new(fields, vec![Arc::new(UInt64Array::from(vec![0, number]))], None)))
    };
    let error =
        from_arrow_chunks(&chunk(0).schema(), vec![chunk(1), chunk(u64::MAX)], &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "('c', 'id'): 18446744073709551615 is larger than int64 holds (row 3); \
         cast the column to a decimal, string or float, or set unsigned=reinterpret"
    );
}

#[test]
fn large_floats_stay_finite() {
    let dict = from_arrow(column(Arc::new(Float64Array::from(vec![1e300]))), &Options::default()).unwrap();
    assert_eq!(dict.tensor("c").unwrap().double_value(&[0]), 1e300);
}

#[test]
fn no_rows_keep_their_types() {
    let batch = RecordBatch::try_from_iter([
        ("i", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ("b", Arc::new(BooleanArray::from(vec![true, false]))),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), None]))),
        ("s", Arc::new(StringArray::from(vec!["x", "y"]))),
    ])
    .unwrap();
    let expected = "{i: int64[0](), b: bool[0](), l: jag(int64[0](); 0), s: nts()}";
    let options = Options::default();
    assert_eq!(show(&from_arrow(batch.slice(1, 0), &options).unwrap()), expected);
    assert_eq!(show(&from_arrow_chunks(&batch.schema(), vec![], &options).unwrap()), expected);
    assert_eq!(from_arrow(batch.slice(0, 0), &options).unwrap().batch_size(), [0]);
}

#[test]
fn lists_of_equal_lengths_stay_jagged() {
    let rows = [Some(vec![Some(1), Some(2)]), Some(vec![Some(3), Some(4)])];
    let array = ListArray::from_iter_primitive::<Int64Type, _, _>(rows);
    gives(array, Nulls::Raise, "{c: jag(int64[4](1, 2, 3, 4); 0, 2, 4)}");
}

#[test]
fn a_list_may_start_with_a_null() {
    let array = ListArray::from_iter_primitive::<Float64Type, _, _>([None, Some(vec![Some(0.5)])]);
    gives(array, Nulls::Mask, "{c: jag(float64[1](0.5); 0, 0, 1), _mask: {c: bool[2](F, T)}}");
}

#[test]
fn fields_of_a_struct_keep_their_types() {
    let fields = Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Float64, true)]);
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![(1 << 53) + 1, 2])), Arc::new(Float64Array::from(vec![0.5, 1.5]))];
    let array = |validity: Option<NullBuffer>| StructArray::new(fields.clone(), columns.clone(), validity);
    gives(array(None), Nulls::Raise, "{c: {x: int64[2](9007199254740993, 2), y: float64[2](0.5, 1.5)}}");
    // The children's stale values under a null row are gone.
    let expected = "{c: {x: int64[2](9007199254740993, 0), y: float64[2](0.5, NaN)}, \
                    _mask: {c: {x: bool[2](T, F), y: bool[2](T, F)}}}";
    gives(array(Some(vec![true, false].into())), Nulls::Mask, expected);
}

#[test]
fn fixed_shape_tensors_keep_shape_and_permutation() {
    let array = || -> ArrayRef {
        let numbers = Arc::new(Int32Array::from_iter_values(1..=8));
        Arc::new(FixedSizeListArray::new(item(DataType::Int32), 4, numbers, None))
    };
    let flat = column_of(tensor_field("c", &array(), r#"{"shape": [2, 2]}"#), array());
    let dict = from_arrow(flat, &Options::default()).unwrap();
    assert_eq!(show(&dict), "{c: int32[2, 2, 2](1, 2, 3, 4, 5, 6, 7, 8)}");
    let turned = tensor_field("c", &array(), r#"{"shape": [2, 2], "permutation": [1, 0]}"#);
    let dict = from_arrow(column_of(turned, array()), &Options::default()).unwrap();
    assert_eq!(show(&dict), "{c: int32[2, 2, 2](1, 3, 2, 4, 5, 7, 6, 8)}");
}

#[test]
fn what_is_no_number_is_no_tensor_by_default() {
    let dictionary: DictionaryArray<Int8Type> = ["x", "y", "x"].into_iter().collect();
    gives(dictionary, Nulls::Raise, r#"{c: nts("x", "y", "x")}"#);
    gives(StringArray::from(vec!["x"]), Nulls::Raise, r#"{c: nts("x")}"#);
    gives(Date32Array::from(vec![1]), Nulls::Raise, "{c: nts(1970-01-02)}");
    gives(Time64MicrosecondArray::from(vec![1]), Nulls::Raise, "{c: nts(00:00:00.000001)}");
    let decimals = Decimal128Array::from(vec![-1]).with_precision_and_scale(5, 2).unwrap();
    gives(decimals, Nulls::Raise, "{c: nts(-0.01)}");
}

#[test]
fn nulls_reach_two_levels_down() {
    let dict = |name: &str, child: ArrayRef, validity: Option<NullBuffer>| {
        let fields = Fields::from(vec![Field::new(name, child.data_type().clone(), true)]);
        StructArray::new(fields, vec![child], validity)
    };
    let inner = dict("v", Arc::new(Int32Array::from(vec![1, 2, 3])), None);
    let outer = || dict("inner", Arc::new(inner.clone()), Some(vec![true, false, true].into()));
    let expected = "{c: {inner: {v: int32[3](1, 0, 3)}}, _mask: {c: {inner: {v: bool[3](T, F, T)}}}}";
    gives(outer(), Nulls::Mask, expected);
    let error = from_arrow(column(Arc::new(outer())), &Options::default()).unwrap_err();
    assert_eq!((error.nested_key(), error.row()), (Some(&["c", "inner", "v"].into()), Some(1)), "{error}");
}

/// Six rows of strings, lists and booleans, cut out of a longer batch.
fn mixed(first: i64) -> RecordBatch {
    let numbers = first..first + 8;
    let strings: StringArray = numbers.clone().map(|n| (n % 3 != 0).then(|| "é".repeat(n as usize))).collect();
    let rows = numbers.clone().map(|n| (n % 4 != 0).then(|| (0..n % 3).map(Some).collect::<Vec<_>>()));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(rows);
    let flags: BooleanArray = numbers.map(|n| (n % 5 != 0).then_some(n % 2 == 0)).collect();
    let columns: [(&str, ArrayRef); 3] = [("s", Arc::new(strings)), ("l", Arc::new(lists)), ("b", Arc::new(flags))];
    RecordBatch::try_from_iter(columns).unwrap().slice(1, 6)
}

#[test]
fn slices_equal_rows_built_fresh() {
    let options = Options::default().nulls(Nulls::Mask);
    let batch = mixed(0);
    let schema = batch.schema();
    let slices = vec![batch.slice(2, 1), mixed(10).slice(0, 1)];
    // Row by row through builders, so that no offset is left.
    let fresh = concat_batches(&schema, &slices).unwrap();
    let due = r#"{s: nts(null, "ééééééééééé"), l: jag(int64[2](0, 1); 0, 0, 2), b: bool[2](F, F), _mask: {s: bool[2](F, T)}}"#;
    assert_eq!(show(&from_arrow(fresh, &options).unwrap()), due);
    assert_eq!(show(&from_arrow_chunks(&schema, slices, &options).unwrap()), due);
}

fn nullable(numbers: Vec<Option<i64>>, words: Vec<Option<&str>>) -> RecordBatch {
    let lists: Vec<Option<Vec<Option<&str>>>> =
        words.into_iter().map(|word| word.map(|word| vec![Some(word)])).collect();
    let mut builder = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    lists.into_iter().for_each(|list| builder.append_option(list));
    let columns: Vec<ArrayRef> = vec![Arc::new(builder.finish()), Arc::new(Int64Array::from(numbers))];
    let fields = vec![Field::new("w", columns[0].data_type().clone(), true), Field::new("n", DataType::Int64, true)];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn keys_and_types_do_not_depend_on_the_batch() {
    let options = Options::default().nulls(Nulls::Mask).mask_keys(MaskKeys::Nullable);
    let batches = [
        nullable(vec![Some(1), Some(2)], vec![Some("a"), Some("b")]),
        nullable(vec![Some(3), None], vec![Some("c"), None]),
        nullable(vec![None, None], vec![None, None]),
        nullable(vec![], vec![]),
    ];
    let shown: Vec<_> = batches.iter().map(|batch| show(&from_arrow(batch.clone(), &options).unwrap())).collect();
    let due = [
        r#"{w: nts(["a"], ["b"]), n: int64[2](1, 2), _mask: {w: bool[2](T, T), n: bool[2](T, T)}}"#,
        r#"{w: nts(["c"], null), n: int64[2](3, 0), _mask: {w: bool[2](T, F), n: bool[2](T, F)}}"#,
        r#"{w: nts(null, null), n: int64[2](0, 0), _mask: {w: bool[2](F, F), n: bool[2](F, F)}}"#,
        "{w: nts(), n: int64[0](), _mask: {w: bool[0](), n: bool[0]()}}",
    ];
    assert_eq!(shown, due);
    let all = from_arrow_chunks(&batches[0].schema(), batches.to_vec(), &options).unwrap();
    let masks: TensorDict = all.dict("_mask").unwrap().shallow_clone();
    assert_eq!(show(&masks), "{w: bool[6](T, T, T, F, F, F), n: bool[6](T, T, T, F, F, F)}");

    // The keys are told by the schema alone, and masks that depend on the data are refused for streams.
    let schema = TensorDictSchema::resolve_static(&batches[0].schema(), &options).unwrap();
    let masks: Vec<_> = schema.iter().filter_map(|entry| schema.mask_key_of(entry)).collect();
    assert_eq!(masks, [["_mask", "w"].into(), ["_mask", "n"].into()] as [NestedKey; 2]);
    let observed = options.mask_keys(MaskKeys::Observed);
    assert!(TensorDictSchema::resolve_static(&batches[0].schema(), &observed).unwrap_err().is_option());
}

#[test]
fn a_column_has_the_masks_it_is_listed_for() {
    let options = Options::default().nulls(Nulls::Mask).mask_keys(MaskKeys::Columns(vec!["n".into()]));
    let dict = from_arrow(nullable(vec![Some(1)], vec![None]), &options).unwrap();
    assert_eq!(show(&dict), "{w: nts(null), n: int64[1](1), _mask: {n: bool[1](T)}}");
}

#[test]
fn nulls_by_column() {
    let options = Options::default().nulls(Nulls::Fill).column("n", |column| column.nulls(Nulls::Mask));
    let dict = from_arrow(nullable(vec![None], vec![None]), &options).unwrap();
    assert_eq!(show(&dict), "{w: nts(null), n: int64[1](0), _mask: {n: bool[1](F)}}");
    let options = Options::default().nulls(Nulls::Fill).column("n", |column| column.nulls(Nulls::Raise));
    let error = from_arrow(nullable(vec![None], vec![None]), &options).unwrap_err();
    assert!(error.is_null() && error.nested_key() == Some(&"n".into()), "{error}");
}

#[test]
fn writing_changes_neither_a_table_nor_a_file() {
    let table = column(Arc::new(Int64Array::from(vec![1, 2, 3])));
    let path = tempfile::NamedTempFile::new().unwrap();
    let mut writer = FileWriter::try_new(path.reopen().unwrap(), &table.schema()).unwrap();
    writer.write(&table).unwrap();
    writer.finish().unwrap();
    let before = std::fs::read(path.path()).unwrap();
    let read = || FileReader::try_new(path.reopen().unwrap(), None).unwrap().next().unwrap().unwrap();
    for batch in [table.clone(), read()] {
        let first = from_arrow(batch.clone(), &Options::default()).unwrap();
        let second = from_arrow(batch.clone(), &Options::default()).unwrap();
        let _ = first.tensor("c").unwrap().shallow_clone().f_add_scalar_(10).unwrap();
        assert_eq!(show(&first), "{c: int64[3](11, 12, 13)}");
        assert_eq!(show(&second), "{c: int64[3](1, 2, 3)}");
        assert_eq!(show(&from_arrow(batch, &Options::default()).unwrap()), "{c: int64[3](1, 2, 3)}");
    }
    assert_eq!(std::fs::read(path.path()).unwrap(), before);
}

#[test]
fn rows_kept_of_many_batches_weigh_little() {
    let kept: Vec<TensorDict> = (0..100)
        .map(|_| {
            let batch = column(Arc::new(Int64Array::from(vec![7; 1 << 17]))).slice(0, 1);
            let (dict, receipt) = tensorquery::from_arrow_with_receipt(batch, &Options::default()).unwrap();
            // Bytes viewed are what may keep more alive than they show.
            assert_eq!((receipt.bytes_viewed(), receipt.bytes_copied()), (0, 8));
            dict
        })
        .collect();
    assert!(kept.iter().all(|dict| show(dict) == "{c: int64[1](7)}"));
}

#[test]
fn joined_lists_may_pass_32_bits() {
    const ELEMENTS: i32 = 1_200_000_000;
    // Zeros come from the system as pages that nobody has touched, so reading both rows takes no
    // memory, and the result's 2.4 GB are all that is written.
    let zeros: Buffer = MutableBuffer::from_len_zeroed(ELEMENTS as usize).into();
    let row = || {
        let values = Arc::new(Int8Array::new(ScalarBuffer::from(zeros.clone()), None));
        let offsets = OffsetBuffer::new(vec![0, ELEMENTS].into());
        column(Arc::new(ListArray::new(item(DataType::Int8), offsets, values, None)))
    };
    let dict = from_arrow_chunks(&row().schema(), vec![row(), row()], &Options::default()).unwrap();
    let jagged = dict.jagged("c").unwrap();
    let offsets = Vec::<i64>::try_from(jagged.offsets()).unwrap();
    assert_eq!(offsets, [0, 1_200_000_000, 2_400_000_000]);
    assert_eq!(jagged.row(1).unwrap().size(), [1_200_000_000]);
}

#[test]
fn dictionaries_of_chunks_may_outgrow_their_keys() {
    let chunk = |first: i32| {
        let words: Vec<String> = (first..first + 100).map(|n| n.to_string()).collect();
        let dictionary: DictionaryArray<Int8Type> = words.iter().map(String::as_str).collect();
        column(Arc::new(dictionary))
    };
    let dict = from_arrow_chunks(&chunk(0).schema(), vec![chunk(0), chunk(100)], &Options::default()).unwrap();
    let values = dict.non_tensor("c").unwrap();
    assert_eq!(values.batch_size(), [200]);
    assert_eq!(values.value(150).unwrap().to_string(), "\"150\"");
}
