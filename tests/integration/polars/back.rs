//! Tensordicts as frames.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, DictionaryArray, Int64Array, MapBuilder, StringArray, StringBuilder};
use arrow::datatypes::Int32Type;
use polars::prelude::*;
use tch::{Kind, Tensor};
use tensorquery::{
    CopyPolicy, JaggedTensor, NonTensorStack, Options, PolarsExt, TensorDict, ToArrowOptions, from_arrow, to_polars,
};

use super::{array, frame, lists, masked, numbers, series, shown, structs, valid};

fn back(dict: TensorDict) -> DataFrame {
    to_polars(dict, &ToArrowOptions::default().mask_key("_mask")).unwrap()
}

#[test]
fn entries_of_each_kind() {
    let mut td = TensorDict::new([2]);
    td.set("x", Tensor::from_slice(&[1.5f32, 2.5])).unwrap();
    td.set("image", Tensor::arange(12, (Kind::Int64, tch::Device::Cpu)).reshape([2, 3, 2])).unwrap();
    td.set("flags", Tensor::from_slice(&[true, false, true, true]).reshape([2, 2])).unwrap();
    let rows = JaggedTensor::from_rows(&[Tensor::from_slice(&[1i64, 2]), Tensor::from_slice(&[3i64])]).unwrap();
    td.set("clicks", rows).unwrap();
    td.set("word", NonTensorStack::new(Arc::new(StringArray::from(vec!["a", "b"])))).unwrap();
    td.set(["deep", "y"], Tensor::from_slice(&[1i64, 2])).unwrap();
    td.set(["_mask", "x"], Tensor::from_slice(&[true, false])).unwrap();
    td.set(["_mask", "deep", "y"], Tensor::from_slice(&[false, true])).unwrap();

    let frame = back(td);
    let types: Vec<_> = frame.columns().iter().map(|column| format!("{}: {}", column.name(), column.dtype())).collect();
    assert_eq!(
        types,
        [
            "x: f32",
            "image: array[i64, (3, 2)]",
            "flags: array[bool, 2]",
            "clicks: list[i64]",
            "word: str",
            "deep: struct[1]"
        ]
    );
    assert_eq!(frame.column("x").unwrap().null_count(), 1);
    // All of it comes back as it was, but for what the masks hide.
    assert_eq!(
        shown(frame),
        r#"{x: float32[2](1.5, NaN), image: int64[2, 3, 2](0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), flags: bool[2, 2](T, F, T, T), clicks: jag(int64[3](1, 2, 3); 0, 2, 3), word: nts("a", "b"), deep: {y: int64[2](0, 2)}, _mask: {x: bool[2](T, F), deep: {y: bool[2](F, T)}}}"#
    );
}

#[test]
fn frames_come_back_as_they_were() {
    let words = Series::new("c".into(), [Some("b"), None, Some("a")]);
    let table = FrozenCategories::new(["a", "b", "never"]).unwrap();
    let zone = TimeZone::opt_try_new(Some("Europe/Berlin")).unwrap();
    let ints = Series::new("c".into(), [Some(1i64), None, Some(3)]);
    let cast = |dtype: DataType| ints.cast(&dtype).unwrap();
    let of = |chunk| series("c", chunk);
    let all = [
        ints.clone(),
        cast(DataType::Int8),
        cast(DataType::UInt8),
        cast(DataType::Float16),
        cast(DataType::Float32),
        cast(DataType::Boolean),
        cast(DataType::Date),
        cast(DataType::Time),
        cast(DataType::Duration(TimeUnit::Nanoseconds)),
        cast(DataType::Datetime(TimeUnit::Milliseconds, zone)),
        cast(DataType::Decimal(12, 3)),
        cast(DataType::String),
        cast(DataType::Binary),
        Series::new_null("c".into(), 3),
        words.cast(&DataType::from_frozen_categories(table)).unwrap(),
        words.cast(&DataType::from_categories(Categories::global())).unwrap(),
        of(lists(numbers([1, 2, 3].map(Some)), &[2, 0, 1], valid(&[true, false, true]))),
        of(lists(lists(numbers([1, 2, 3].map(Some)), &[1, 2], None), &[2, 0, 0], valid(&[true, false, true]))),
        of(array(numbers((0..12).map(Some)), 4, 3, None)),
        of(array(array(numbers((0..12).map(Some)), 2, 6, None), 2, 3, None)),
        of(array(numbers([]), 0, 3, None)),
        of(lists(array(numbers((0..6).map(Some)), 2, 3, None), &[1, 0, 2], None)),
        of(structs(vec![("a", numbers([Some(1), None, Some(2)])), ("b", numbers([Some(1), Some(2), None]))], 3, None)),
        of(structs(vec![], 3, None)),
    ];
    for column in all {
        let before = frame(column);
        let after = back(before.clone().to_tensordict(&masked()).unwrap());
        assert_eq!(after.column("c").unwrap().dtype(), before.column("c").unwrap().dtype());
        assert!(after.equals_missing(&before), "{before:?} came back as {after:?}");
        // Slices, too.
        let part = before.slice(1, 2);
        let after = back(part.clone().to_tensordict(&masked()).unwrap());
        assert!(after.equals_missing(&part), "{part:?} came back as {after:?}");
        let none = before.slice(0, 0);
        assert!(back(none.clone().to_tensordict(&masked()).unwrap()).equals_missing(&none));
    }
}

#[test]
fn numbers_share_memory_and_frames_never_change() {
    let mut tensor = Tensor::from_slice(&[1i64, 2, 3]);
    let address = tensor.data_ptr().addr();
    let mut td = TensorDict::new([3]);
    td.set("c", tensor.shallow_clone()).unwrap();
    let frame = to_polars(td, &ToArrowOptions::default().copy(CopyPolicy::Never)).unwrap();
    let series = frame.column("c").unwrap().as_materialized_series();
    assert_eq!(series.i64().unwrap().cont_slice().unwrap().as_ptr().addr(), address);
    let _ = tensor.f_add_scalar_(10).unwrap();
    assert_eq!(frame, df!("c" => [1i64, 2, 3]).unwrap());
    // And its memory isn't Polars' to give away.
    let error = frame.clone().to_tensordict(&Options::default().copy(CopyPolicy::Never)).unwrap_err();
    assert!(error.is_copy(), "{error}");
    let doubled = frame.lazy().select([col("c") * lit(2)]).collect().unwrap();
    assert_eq!(doubled, df!("c" => [2i64, 4, 6]).unwrap());
}

#[test]
fn no_rows_no_columns_no_batch_dim() {
    assert_eq!(back(TensorDict::new([0])).shape(), (0, 0));
    assert_eq!(back(TensorDict::new([5])).shape(), (5, 0));
    let mut td = TensorDict::new([0]);
    td.set("x", Tensor::zeros([0, 2, 3], (Kind::Float, tch::Device::Cpu))).unwrap();
    assert_eq!(back(td).column("x").unwrap().dtype().to_string(), "array[f32, (2, 3)]");
    let mut td = TensorDict::new([2]);
    td.set("x", Tensor::zeros([2, 0, 3], (Kind::Float, tch::Device::Cpu))).unwrap();
    let frame = back(td);
    assert_eq!(frame.shape(), (2, 1));
    assert_eq!(shown(frame), "{x: float32[2, 0, 3]()}");
    assert!(to_polars(TensorDict::new([2, 2]), &ToArrowOptions::default()).unwrap_err().is_shape());
}

#[test]
fn what_polars_lacks_is_an_error_that_names_the_column() {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    maps.append(true).unwrap();
    let keys = arrow::array::Int32Array::from(vec![0]);
    let numbers = DictionaryArray::<Int32Type>::new(keys, Arc::new(Int64Array::from(vec![1])));
    let intervals = arrow::array::IntervalYearMonthArray::from(vec![1]);
    let values: [ArrayRef; 3] = [Arc::new(maps.finish()), Arc::new(numbers), Arc::new(intervals)];
    for values in values {
        let mut td = TensorDict::new([1]);
        td.set("odd", NonTensorStack::new(Arc::clone(&values))).unwrap();
        let error = to_polars(td, &ToArrowOptions::default()).unwrap_err();
        assert!(error.is_schema() && error.nested_key() == Some(&"odd".into()), "{error}");
    }
}

#[test]
fn broken_metadata_is_an_error() {
    let words: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let words = arrow::compute::cast(
        &words,
        &arrow::datatypes::DataType::Dictionary(
            Box::new(arrow::datatypes::DataType::UInt32),
            Box::new(arrow::datatypes::DataType::Utf8),
        ),
    )
    .unwrap();
    let metadata = [("_PL_ENUM_VALUES2".to_owned(), "99;short".to_owned())];
    let field = arrow::datatypes::Field::new("c", words.data_type().clone(), true).with_metadata(metadata.into());
    let td = from_arrow(crate::show::column_of(field, words), &masked()).unwrap();
    let error = to_polars(td, &ToArrowOptions::default()).unwrap_err();
    assert!(error.is_engine() && error.nested_key() == Some(&"c".into()), "{error}");
}

#[test]
fn no_value_changes_on_the_way() {
    use arrow::array::{DurationSecondArray, ListArray, Time32SecondArray, TimestampSecondArray};
    let convert = |values: ArrayRef| {
        let mut td = TensorDict::new([values.len() as i64]);
        td.set("c", NonTensorStack::new(values)).unwrap();
        to_polars(td, &ToArrowOptions::default())
    };
    let in_list = |values: ArrayRef| -> ArrayRef {
        let item = arrow::datatypes::Field::new("item", values.data_type().clone(), true);
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([values.len()]);
        Arc::new(ListArray::new(Arc::new(item), offsets, values, None))
    };
    // Polars has no seconds.
    let times = |large: i64| -> [ArrayRef; 2] {
        let seconds = vec![Some(-2), None, Some(large)];
        [Arc::new(TimestampSecondArray::from(seconds.clone())), Arc::new(DurationSecondArray::from(seconds))]
    };
    for values in times(3) {
        let frame = convert(Arc::clone(&values)).unwrap();
        let column = frame.column("c").unwrap().to_physical_repr();
        assert_eq!(column.i64().unwrap().iter().collect::<Vec<_>>(), [Some(-2000), None, Some(3000)]);
        assert_eq!(convert(in_list(values)).unwrap().height(), 1);
    }
    for values in times(i64::MAX).into_iter().chain(times(i64::MIN)) {
        for values in [in_list(Arc::clone(&values)), values] {
            let error = convert(values).unwrap_err();
            assert!(error.is_overflow() && error.nested_key() == Some(&"c".into()), "{error}");
        }
    }
    // What isn't a time of the day, and what is no category.
    let error = convert(Arc::new(Time32SecondArray::from(vec![Some(1), None, Some(86_400)]))).unwrap_err();
    assert!(error.is_engine() && error.to_string().contains("takes 1 "), "{error}");
    let words: ArrayRef = Arc::new(["a", "x"].into_iter().collect::<DictionaryArray<Int32Type>>());
    let metadata = [("_PL_ENUM_VALUES2".to_owned(), "1;a1;b".to_owned())];
    let field = arrow::datatypes::Field::new("c", words.data_type().clone(), true).with_metadata(metadata.into());
    let td = from_arrow(crate::show::column_of(field, words), &masked()).unwrap();
    let error = to_polars(td, &ToArrowOptions::default()).unwrap_err();
    assert!(error.is_engine() && error.nested_key() == Some(&"c".into()), "{error}");
}

#[test]
fn a_pipeline_goes_on_behind_a_model() {
    let td = df!("x" => [1.0f32, 2.0, 3.0]).unwrap().to_tensordict(&masked()).unwrap();
    let scores = td.tensor("x").unwrap().f_mul_scalar(2.0).unwrap();
    let mut td = td;
    td.set("score", scores).unwrap();
    let best = back(td).lazy().filter(col("score").gt(lit(3.0))).select([col("x")]).collect().unwrap();
    assert_eq!(best, df!("x" => [2.0f32, 3.0]).unwrap());
}
