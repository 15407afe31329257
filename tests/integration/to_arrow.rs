//! What each entry becomes on the way back, and what refuses to go.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, DictionaryArray, Int64Array, NullArray, RecordBatch, StringArray,
    StringViewArray, TimestampMicrosecondArray, UnionArray,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{
    DataType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, UInt8Type, UnionFields,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use tch::{Device, IndexOp, Kind, Tensor};
use tensorquery::{
    Entry, Error, JaggedTensor, NestedKey, NonTensorStack, Nulls, Options, TensorDict, ToArrowOptions, from_arrow,
    to_arrow,
};

pub(crate) fn one(entry: impl Into<Entry>) -> TensorDict {
    let entry = entry.into();
    let mut dict = TensorDict::new([entry.shape()[0]]);
    dict.set("c", entry).unwrap();
    dict
}

pub(crate) fn plain(dict: TensorDict) -> RecordBatch {
    to_arrow(dict, &ToArrowOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn folded(dict: TensorDict) -> RecordBatch {
    to_arrow(dict, &ToArrowOptions::default().mask_key("_mask")).unwrap_or_else(|error| panic!("{error}"))
}

/// `[1, null, 3]`
pub(crate) fn show(array: &dyn Array) -> String {
    let options = FormatOptions::default().with_null("null");
    let format = ArrayFormatter::try_new(array, &options).unwrap();
    let rows: Vec<_> = (0..array.len()).map(|row| format.value(row).to_string()).collect();
    format!("[{}]", rows.join(", "))
}

/// The one column's type and rows.
fn gives(entry: impl Into<Entry>, data_type: &DataType, rows: &str) {
    let batch = plain(one(entry));
    let column = batch.column(0);
    assert_eq!((column.data_type(), show(column).as_str()), (data_type, rows));
    assert_eq!((batch.schema().field(0).name().as_str(), batch.schema().field(0).is_nullable()), ("c", false));
    column.to_data().validate_full().unwrap();
}

fn refused(dict: TensorDict, key: impl Into<NestedKey>, kind: fn(&Error) -> bool, text: &str) {
    let error = to_arrow(dict, &ToArrowOptions::default().mask_key("_mask")).unwrap_err();
    assert!(kind(&error), "{} {error}", error.kind());
    assert_eq!(error.nested_key(), Some(&key.into()), "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

fn list(data_type: DataType, size: i32) -> DataType {
    DataType::FixedSizeList(Field::new("item", data_type, false).into(), size)
}

fn extension(field: &Field) -> (&str, &str) {
    (field.extension_type_name().unwrap_or_default(), field.extension_type_metadata().unwrap_or_default())
}

fn jagged(values: Tensor, offsets: &[i64]) -> JaggedTensor {
    JaggedTensor::try_new(values, Tensor::from_slice(offsets)).unwrap()
}

pub(crate) fn truth(values: &[bool]) -> Tensor {
    Tensor::from_slice(values)
}

#[test]
fn numbers_of_each_dtype() {
    let numbers = |kind| Tensor::from_slice(&[1i64, 0, 1]).to_kind(kind);
    for (kind, data_type) in [
        (Kind::Uint8, DataType::UInt8),
        (Kind::Int8, DataType::Int8),
        (Kind::Int16, DataType::Int16),
        (Kind::Int, DataType::Int32),
        (Kind::Int64, DataType::Int64),
    ] {
        gives(numbers(kind), &data_type, "[1, 0, 1]");
    }
    for (kind, data_type) in
        [(Kind::Half, DataType::Float16), (Kind::Float, DataType::Float32), (Kind::Double, DataType::Float64)]
    {
        let shown = if kind == Kind::Half { "[1, 0, 1]" } else { "[1.0, 0.0, 1.0]" };
        gives(numbers(kind), &data_type, shown);
    }
    gives(numbers(Kind::Bool), &DataType::Boolean, "[true, false, true]");
    gives(Tensor::from_slice(&[f32::NAN, f32::INFINITY]), &DataType::Float32, "[NaN, inf]");
    gives(Tensor::zeros([0], (Kind::Int64, Device::Cpu)), &DataType::Int64, "[]");
}

#[test]
fn rows_of_a_shape() {
    let six = || Tensor::arange(6, (Kind::Int64, Device::Cpu));
    gives(six().reshape([2, 3]), &list(DataType::Int64, 3), "[[0, 1, 2], [3, 4, 5]]");
    gives(six().reshape([1, 3, 2]), &list(DataType::Int64, 6), "[[0, 1, 2, 3, 4, 5]]");
    gives(truth(&[true, false]).reshape([1, 2]), &list(DataType::Boolean, 2), "[[true, false]]");
    // No rows, and rows without elements.
    gives(Tensor::zeros([0, 3], (Kind::Float, Device::Cpu)), &list(DataType::Float32, 3), "[]");
    gives(Tensor::zeros([2, 0], (Kind::Float, Device::Cpu)), &list(DataType::Float32, 0), "[[], []]");
    gives(Tensor::zeros([2, 3, 0], (Kind::Bool, Device::Cpu)), &list(DataType::Boolean, 0), "[[], []]");

    for (shape, metadata) in
        [(vec![2, 3], r#"{"shape":[3]}"#), (vec![1, 3, 2], r#"{"shape":[3,2]}"#), (vec![6, 1], r#"{"shape":[1]}"#)]
    {
        let batch = plain(one(six().reshape(&shape)));
        assert_eq!(extension(batch.schema().field(0)), ("arrow.fixed_shape_tensor", metadata));
        let back = from_arrow(batch, &Options::default()).unwrap();
        assert_eq!(back.tensor("c").unwrap().size(), shape);
    }
    let batch = plain(one(Tensor::zeros([2, 3, 0], (Kind::Float, Device::Cpu))));
    assert_eq!(extension(batch.schema().field(0)), ("arrow.fixed_shape_tensor", r#"{"shape":[3,0]}"#));
    assert_eq!(from_arrow(batch, &Options::default()).unwrap().tensor("c").unwrap().size(), [2, 3, 0]);
}

#[test]
fn what_is_not_contiguous_is_laid_out() {
    let numbers = Tensor::arange(6, (Kind::Int64, Device::Cpu)).reshape([2, 3]);
    gives(numbers.tr(), &list(DataType::Int64, 2), "[[0, 3], [1, 4], [2, 5]]");
    gives(numbers.select(1, 1), &DataType::Int64, "[1, 4]");
    gives(Tensor::from(7i64).expand([3], false), &DataType::Int64, "[7, 7, 7]");
    gives(truth(&[true, false, true]).flip([0]).i(1..), &DataType::Boolean, "[false, true]");
    gives(numbers.i((1.., 1..)), &list(DataType::Int64, 2), "[[4, 5]]");
    // The imaginary part of a conjugate is a view whose numbers are negated when read.
    let complex = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]).reshape([2, 2]).view_as_complex();
    let imaginary = complex.f_conj().unwrap().f_imag().unwrap();
    gives(imaginary, &DataType::Float32, "[-2.0, -4.0]");
    gives(complex.f_conj().unwrap().f_imag().unwrap().contiguous(), &DataType::Float32, "[-2.0, -4.0]");
}

#[test]
fn gradients_stay_behind() {
    let weight = Tensor::from_slice(&[1.0f32, 2.0]).set_requires_grad(true);
    gives(&weight * 2.0, &DataType::Float32, "[2.0, 4.0]");
    gives(weight.shallow_clone(), &DataType::Float32, "[1.0, 2.0]");
    let loss = (&weight * 3.0).sum(Kind::Float);
    loss.backward();
    assert_eq!(Vec::<f32>::try_from(weight.grad()).unwrap(), [3.0, 3.0]);
}

#[test]
fn jagged_rows() {
    let large = |element: Field| DataType::LargeList(element.into());
    let numbers = large(Field::new("item", DataType::Int64, false));
    let five = || Tensor::arange(5, (Kind::Int64, Device::Cpu));
    gives(jagged(five(), &[0, 2, 2, 5]), &numbers, "[[0, 1], [], [2, 3, 4]]");
    gives(jagged(five().i(..0), &[0]), &numbers, "[]");
    gives(jagged(five().i(..0), &[0, 0, 0]), &numbers, "[[], []]");
    gives(
        jagged(truth(&[true, false]), &[0, 0, 2]),
        &large(Field::new("item", DataType::Boolean, false)),
        "[[], [true, false]]",
    );

    // A part of the rows has offsets of its own, rows in another order are compacted.
    let rows = one(jagged(five(), &[0, 2, 2, 5]));
    assert_eq!(show(plain(rows.index(1..3).unwrap()).column(0)), "[[], [2, 3, 4]]");
    let turned = rows.index(vec![2, 0]).unwrap();
    assert_eq!(show(plain(turned).column(0)), "[[2, 3, 4], [0, 1]]");

    let pairs = Tensor::arange(6, (Kind::Float, Device::Cpu)).reshape([3, 2]);
    let batch = plain(one(jagged(pairs, &[0, 1, 3])));
    assert_eq!(show(batch.column(0)), "[[[0.0, 1.0]], [[2.0, 3.0], [4.0, 5.0]]]");
    let DataType::LargeList(element) = batch.column(0).data_type() else { panic!("{:?}", batch.schema()) };
    assert_eq!(extension(element), ("arrow.fixed_shape_tensor", r#"{"shape":[2]}"#));
    assert_eq!(element.data_type(), &list(DataType::Float32, 2));
}

#[test]
fn values_that_are_no_tensors_keep_their_type() {
    let strings: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![Some("a"), None])),
        Arc::new(StringViewArray::from(vec!["a string that is not short", ""])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None]).with_timezone("Europe/Paris")),
        Arc::new(Decimal128Array::from(vec![150, -200]).with_precision_and_scale(5, 2).unwrap()),
        Arc::new([Some("a"), None].into_iter().collect::<DictionaryArray<Int8Type>>()),
        Arc::new(NullArray::new(2)),
    ];
    for array in arrays {
        let batch = plain(one(NonTensorStack::new(Arc::clone(&array))));
        assert_eq!(batch.column(0), &array);
        assert!(batch.schema().field(0).is_nullable());
    }

    // The field that they came with is theirs, but for its name.
    let metadata = [("ARROW:extension:name".to_owned(), "arrow.json".to_owned())];
    let field = Field::new("was", DataType::Utf8, true).with_metadata(metadata.into());
    let dict = from_arrow(crate::show::column_of(field, strings), &Options::default().nulls(Nulls::Fill));
    let mut dict = dict.unwrap();
    let values = dict.remove("was").unwrap();
    dict.set("now", values).unwrap();
    let batch = plain(dict);
    let field = batch.schema().field(0).clone();
    assert_eq!((field.name().as_str(), field.extension_type_name()), ("now", Some("arrow.json")));
}

#[test]
fn dicts_are_structs() {
    let mut dict = TensorDict::new([2]);
    dict.set("b", Tensor::from_slice(&[1i64, 2])).unwrap();
    dict.set(["c", "d"], Tensor::from_slice(&[1.0f64, 2.0]).reshape([2, 1])).unwrap();
    dict.set(["c", "nothing"], TensorDict::new([2])).unwrap();
    let batch = plain(dict);
    assert_eq!(batch.num_columns(), 2);
    let structs = batch.column(1).as_struct();
    assert_eq!(structs.column_names(), ["d", "nothing"]);
    assert_eq!((show(structs.column(0)), structs.column(1).len()), ("[[1.0], [2.0]]".to_owned(), 2));
    let DataType::Struct(fields) = batch.schema().field(1).data_type().clone() else { panic!("no struct") };
    assert_eq!(extension(&fields[0]).1, r#"{"shape":[1]}"#);

    // More batch dims are dims of the rows.
    let mut dict = TensorDict::new([2]);
    let mut inner = TensorDict::new([2, 3]);
    inner.set("x", Tensor::zeros([2, 3], (Kind::Float, Device::Cpu))).unwrap();
    dict.set("inner", inner).unwrap();
    dict.set("empty", TensorDict::new([2, 5])).unwrap();
    let batch = plain(dict);
    assert_eq!(batch.column(0).as_struct().column(0).data_type(), &list(DataType::Float32, 3));
    assert_eq!((batch.column(1).len(), batch.column(1).as_struct().num_columns()), (2, 0));
}

#[test]
fn rows_are_one_batch_dim() {
    for (sizes, text) in [(vec![], "the batch size is []"), (vec![2, 3], "the batch size is [2, 3]")] {
        let error = to_arrow(TensorDict::new(sizes.clone()), &ToArrowOptions::default()).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains(text), "{error}");
        if sizes.len() > 1 {
            assert!(error.to_string().contains("flatten"), "{error}");
        }
    }
    assert!(to_arrow(TensorDict::new([-1]), &ToArrowOptions::default()).unwrap_err().is_shape());
    // Rows count without columns.
    let batch = plain(TensorDict::new([3]));
    assert_eq!((batch.num_rows(), batch.num_columns()), (3, 0));
    assert_eq!(from_arrow(batch, &Options::default()).unwrap().batch_size(), [3]);
}

#[test]
fn dtypes_and_layouts_without_a_column() {
    let nested = |tensor: Tensor| {
        let mut dict = TensorDict::new([2]);
        dict.set(["a", "b"], tensor).unwrap();
        dict
    };
    let floats = || Tensor::from_slice(&[1.0f32, 2.0]);
    refused(nested(floats().to_kind(Kind::BFloat16)), ["a", "b"], Error::is_schema, "dtype is bfloat16");
    refused(nested(floats().to_kind(Kind::ComplexFloat)), ["a", "b"], Error::is_schema, "dtype is ComplexFloat");
    let quantized = floats().quantize_per_tensor(0.1, 0, Kind::QInt8);
    refused(nested(quantized), ["a", "b"], Error::is_schema, "dtype is QInt8");
    refused(one(floats().to_sparse_sparse_dim(1)), "c", Error::is_schema, "to_dense");
    let rows = jagged(floats().to_kind(Kind::BFloat16), &[0, 1, 2]);
    refused(one(rows), "c", Error::is_schema, "dtype is bfloat16");
}

#[test]
fn what_other_handles_did_is_noticed() {
    let numbers = Tensor::from_slice(&[1i64, 2]);
    let dict = one(numbers.shallow_clone());
    let _ = numbers.shallow_clone().f_resize_([3]).unwrap();
    refused(dict, "c", Error::is_shape, "its shape is [3], but the batch size is [2]");

    let offsets = Tensor::from_slice(&[0i64, 1, 2]);
    let rows = JaggedTensor::try_new(Tensor::from_slice(&[1i64, 2]), offsets.shallow_clone()).unwrap();
    let dict = one(rows);
    let _ = offsets.i(1).f_fill_(5).unwrap();
    refused(dict, "c", Error::is_shape, "offsets");
}

#[test]
fn masks_are_validity() {
    let mut dict = TensorDict::new([3]);
    dict.set("x", Tensor::from_slice(&[1.0f32, f32::NAN, f32::NAN])).unwrap();
    dict.set("pair", Tensor::arange(6, (Kind::Int64, Device::Cpu)).reshape([3, 2])).unwrap();
    dict.set("rows", jagged(Tensor::from_slice(&[1i64, 2, 3]), &[0, 2, 2, 3])).unwrap();
    dict.set("text", NonTensorStack::new(Arc::new(StringArray::from(vec![Some("a"), None, Some("c")])))).unwrap();
    dict.set(["s", "flag"], truth(&[true, false, true])).unwrap();
    dict.set(["s", "deep", "z"], Tensor::from_slice(&[7i8, 8, 9])).unwrap();
    dict.set("all", Tensor::from_slice(&[1u8, 2, 3])).unwrap();
    dict.set("none", Tensor::from_slice(&[1u8, 2, 3])).unwrap();
    for (key, mask) in [
        (NestedKey::from("x"), [true, true, false]),
        ("pair".into(), [false, true, true]),
        ("rows".into(), [true, false, true]),
        ("text".into(), [true, false, false]),
        (["s", "flag"].into(), [true, false, true]),
        (["s", "deep", "z"].into(), [false, false, true]),
        ("all".into(), [true, true, true]),
    ] {
        dict.set(NestedKey::from("_mask").join_for_test(&key), truth(&mask)).unwrap();
    }
    let with_masks = plain(dict.shallow_clone());
    assert!(with_masks.column_by_name("_mask").is_some_and(|masks| masks.as_struct().num_columns() == 6));

    let batch = folded(dict);
    let rows: Vec<_> = batch.columns().iter().map(show_column).collect();
    assert_eq!(
        rows,
        [
            "[1.0, NaN, null]",
            "[null, [2, 3], [4, 5]]",
            "[[1, 2], null, [3]]",
            "[a, null, null]",
            "[{flag: true, deep: {z: null}}, {flag: null, deep: {z: null}}, {flag: true, deep: {z: 9}}]",
            "[1, 2, 3]",
            "[1, 2, 3]",
        ]
    );
    let nullable: Vec<_> = batch.schema().fields().iter().map(|field| field.is_nullable()).collect();
    assert_eq!(nullable, [true, true, true, true, false, true, false]);
}

fn show_column(column: &ArrayRef) -> String {
    column.to_data().validate_full().unwrap();
    show(column)
}

trait Join {
    fn join_for_test(&self, below: &NestedKey) -> NestedKey;
}

impl Join for NestedKey {
    fn join_for_test(&self, below: &NestedKey) -> NestedKey {
        NestedKey::from([self.names(), below.names()].concat())
    }
}

#[test]
fn masks_in_other_places() {
    let masked = |key: NestedKey| {
        let mut dict = TensorDict::new([2]);
        dict.set("x", Tensor::from_slice(&[1i64, 0])).unwrap();
        dict.set(key.join_for_test(&"x".into()), truth(&[true, false])).unwrap();
        dict
    };
    let key = NestedKey::from(["m", "n"]);
    let options = ToArrowOptions::default().mask_key(&key);
    let batch = to_arrow(masked(key.clone()), &options).unwrap();
    assert_eq!((batch.num_columns(), show(batch.column(0)).as_str()), (1, "[1, null]"));
    // What else is in the dict above the masks stays.
    let mut dict = masked(key.clone());
    dict.set(["m", "other"], Tensor::from_slice(&[1i64, 2])).unwrap();
    assert_eq!(to_arrow(dict, &options).unwrap().schema().field(1).name(), "m");
    // There may be no masks at all.
    let batch = to_arrow(one(Tensor::from_slice(&[1i64, 2])), &options).unwrap();
    assert_eq!(show(batch.column(0)), "[1, 2]");
    let error = to_arrow(TensorDict::new([0]), &ToArrowOptions::default().mask_key(Vec::<String>::new())).unwrap_err();
    assert!(error.is_option(), "{error}");

    // A struct's own rows, and those of one without fields.
    let mut dict = TensorDict::new([2]);
    dict.set(["s", "x"], Tensor::from_slice(&[1i64, 2])).unwrap();
    dict.set("e", TensorDict::new([2])).unwrap();
    dict.set(["_mask", "s"], truth(&[false, true])).unwrap();
    dict.set(["_mask", "e"], truth(&[true, false])).unwrap();
    let batch = folded(dict);
    assert_eq!(show(batch.column(0)), "[null, {x: 2}]");
    assert!(batch.column(1).is_null(1) && batch.column(1).is_valid(0));
}

#[test]
fn masks_of_values_whose_nulls_lie_elsewhere() {
    let union = || {
        let fields = [(0, Arc::new(Field::new("n", DataType::Int64, true)))];
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let ids = ScalarBuffer::from(vec![0i8, 0]);
        UnionArray::try_new(fields.into_iter().collect::<UnionFields>(), ids, None, vec![numbers]).unwrap()
    };
    for values in [Arc::new(union()) as ArrayRef, Arc::new(NullArray::new(2))] {
        let mut dict = one(NonTensorStack::new(values));
        dict.set(["_mask", "c"], truth(&[true, false])).unwrap();
        let nulls = folded(dict).column(0).logical_nulls().unwrap();
        assert!(nulls.is_null(1));
    }
}

#[test]
fn masks_that_are_none() {
    let with = |key: NestedKey, entry: Entry| {
        let mut dict = TensorDict::new([2]);
        dict.set("x", Tensor::from_slice(&[1i64, 2])).unwrap();
        dict.set(["s", "y"], Tensor::from_slice(&[1i64, 2])).unwrap();
        dict.set(key, entry).unwrap();
        dict
    };
    let mask = || Entry::from(truth(&[true, false]));
    let refused_at = |key: &[&str], entry: Entry, kind: fn(&Error) -> bool, text: &str| {
        refused(with(NestedKey::from(key), entry), key, kind, text);
    };
    refused_at(&["_mask", "z"], mask(), Error::is_key, "no column");
    refused_at(&["_mask", "s", "z"], mask(), Error::is_key, "no column");
    refused_at(&["_mask", "x", "z"], mask(), Error::is_key, "no column");
    refused_at(&["_mask", "z", "deep"], mask(), Error::is_key, "no column");
    refused_at(&["_mask"], mask(), Error::is_key, "kind tensor");
    let numbers = || Entry::from(Tensor::from_slice(&[1i64, 0]));
    refused_at(&["_mask", "x"], numbers(), Error::is_shape, "a mask is bool[2], this is int64[2]");
    let wide = Entry::from(truth(&[true, false]).reshape([2, 1]));
    refused_at(&["_mask", "s", "y"], wide, Error::is_shape, "a mask is bool[2], this is bool[2, 1]");
    let text = NonTensorStack::new(Arc::new(StringArray::from(vec!["a", "b"])));
    refused_at(&["_mask", "x"], text.into(), Error::is_key, "kind non_tensor");
}

#[test]
fn numbers_read_back_by_arrows_types() {
    let mut dict = TensorDict::new([1]);
    let one = |kind| Tensor::ones([1], (kind, Device::Cpu));
    let kinds = [Kind::Uint8, Kind::Int8, Kind::Int16, Kind::Int, Kind::Half, Kind::Float, Kind::Double];
    for kind in kinds {
        dict.set(format!("{kind:?}"), one(kind)).unwrap();
    }
    let batch = plain(dict);
    let column = |at: usize| batch.column(at);
    assert_eq!(column(0).as_primitive::<UInt8Type>().value(0), 1);
    assert_eq!(column(1).as_primitive::<Int8Type>().value(0), 1);
    assert_eq!(column(2).as_primitive::<Int16Type>().value(0), 1);
    assert_eq!(column(3).as_primitive::<Int32Type>().value(0), 1);
    assert_eq!(f32::from(column(4).as_primitive::<Float16Type>().value(0)), 1.0);
    assert_eq!(column(5).as_primitive::<Float32Type>().value(0), 1.0);
    assert_eq!(column(6).as_primitive::<Float64Type>().value(0), 1.0);
}
