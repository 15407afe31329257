//! What each type of Polars becomes.

use std::sync::Arc;

use arrow::array::{Array as _, AsArray};
use arrow::datatypes::{DataType as ArrowType, TimeUnit as ArrowUnit, UInt8Type, UInt32Type};
use polars::prelude::*;
use polars_arrow::array::PrimitiveArray;
use polars_arrow::datatypes::{ArrowDataType, ExtensionType};
use tensorquery::{Nulls, Options, PolarsExt};

use super::{array, frame, frame_of, lists, masked, numbers, series, shown, structs, valid};

fn nullable(name: &str) -> Series {
    Series::new(name.into(), [Some(1i64), None, Some(3)])
}

#[test]
fn numbers_of_every_width() {
    for (dtype, name) in [
        (DataType::Int8, "int8"),
        (DataType::Int16, "int16"),
        (DataType::Int32, "int32"),
        (DataType::Int64, "int64"),
        (DataType::UInt8, "uint8"),
        (DataType::UInt16, "int32"),
        (DataType::UInt32, "int64"),
        (DataType::UInt64, "int64"),
    ] {
        let column = nullable("c").cast(&dtype).unwrap();
        let due = format!("{{c: {name}[3](1, 0, 3), _mask: {{c: bool[3](T, F, T)}}}}");
        assert_eq!(shown(frame(column)), due, "{dtype}");
    }
    for (dtype, name) in
        [(DataType::Float16, "float16"), (DataType::Float32, "float32"), (DataType::Float64, "float64")]
    {
        let column = nullable("c").cast(&dtype).unwrap();
        let due = format!("{{c: {name}[3](1, NaN, 3), _mask: {{c: bool[3](T, F, T)}}}}");
        assert_eq!(shown(frame(column)), due, "{dtype}");
    }
    let column = Series::new("c".into(), [Some(true), None, Some(false)]);
    assert_eq!(shown(frame(column)), "{c: bool[3](T, F, F), _mask: {c: bool[3](T, F, T)}}");
}

#[test]
fn large_integers_stay_as_they_are() {
    let column = Series::new("c".into(), [Some((1i64 << 53) + 1), None]);
    assert_eq!(shown(frame(column)), "{c: int64[2](9007199254740993, 0), _mask: {c: bool[2](T, F)}}");
    let error = frame(Series::new("c".into(), [1u64, 1 << 63])).to_tensordict(&masked()).unwrap_err();
    assert!(error.is_overflow() && error.row() == Some(1) && error.nested_key() == Some(&"c".into()), "{error}");
}

#[test]
fn nulls_are_refused_by_default() {
    let error = frame(nullable("c")).to_tensordict(&Options::default()).unwrap_err();
    assert!(error.is_null() && error.row() == Some(1) && error.nested_key() == Some(&"c".into()), "{error}");
    let filled = frame(nullable("c")).to_tensordict(&Options::default().nulls(Nulls::Fill)).unwrap();
    assert_eq!(crate::show::show(&filled), "{c: int64[3](1, 0, 3)}");
}

#[test]
fn arrays_are_trailing_dims() {
    let flat = numbers([Some(1), None, Some(3), Some(4), Some(5), Some(6), Some(7), Some(8)]);
    let pairs = array(flat, 2, 4, None);
    assert_eq!(shown(frame_of(pairs.clone())), "{c: int64[4, 2](1, 0, 3, 4, 5, 6, 7, 8)}");
    let nested = array(pairs.clone(), 2, 2, valid(&[true, false]));
    assert_eq!(shown(frame_of(nested)), "{c: int64[2, 2, 2](1, 0, 3, 4, 0, 0, 0, 0), _mask: {c: bool[2](T, F)}}");
    // Of no width, which still has rows.
    assert_eq!(shown(frame_of(array(numbers([]), 0, 3, None))), "{c: int64[3, 0]()}");
    let booleans = polars_arrow::array::BooleanArray::from_slice([true, false, true, true]).boxed();
    assert_eq!(shown(frame_of(array(booleans, 2, 2, None))), "{c: bool[2, 2](T, F, T, T)}");
}

#[test]
fn lists_are_jagged() {
    let rows = lists(numbers([Some(1), None, Some(3)]), &[2, 0, 1], valid(&[true, false, true]));
    assert_eq!(shown(frame_of(rows)), "{c: jag(int64[3](1, 0, 3); 0, 2, 2, 3), _mask: {c: bool[3](T, F, T)}}");
    let pairs = array(numbers([1, 2, 3, 4].map(Some)), 2, 2, None);
    assert_eq!(shown(frame_of(lists(pairs, &[0, 2], None))), "{c: jag(int64[2, 2](1, 2, 3, 4); 0, 0, 2)}");
    let rows = lists(lists(numbers([1, 2, 3].map(Some)), &[1, 2], None), &[2, 0], None);
    assert_eq!(shown(frame_of(rows)), "{c: nts([[1], [2, 3]], [])}");
}

#[test]
fn structs_are_nested() {
    let inner = structs(vec![("v", numbers([Some(1), Some(2), None]))], 3, None);
    let text = Series::new("s".into(), ["a", "b", "c"]).into_chunks().remove(0);
    let outer = structs(vec![("inner", inner), ("s", text)], 3, valid(&[true, false, true]));
    assert_eq!(
        shown(frame_of(outer)),
        r#"{c: {inner: {v: int64[3](1, 0, 0)}, s: nts("a", null, "c")}, _mask: {c: {inner: {v: bool[3](T, F, F)}, s: bool[3](T, F, T)}}}"#
    );
    assert_eq!(shown(frame_of(structs(vec![], 2, None))), "{c: {}}");
}

/// The Arrow array of a column that is no tensor.
fn kept(column: impl IntoColumn) -> arrow::array::ArrayRef {
    let td = frame(column).to_tensordict(&masked()).unwrap();
    Arc::clone(td.non_tensor("c").unwrap().values())
}

#[test]
fn what_is_no_number_is_kept_in_its_type() {
    let ints = || nullable("c");
    let zone = TimeZone::opt_try_new(Some("Europe/Berlin")).unwrap();
    for (dtype, due) in [
        (DataType::Date, ArrowType::Date32),
        (DataType::Time, ArrowType::Time64(ArrowUnit::Nanosecond)),
        (DataType::Duration(TimeUnit::Milliseconds), ArrowType::Duration(ArrowUnit::Millisecond)),
        (DataType::Datetime(TimeUnit::Nanoseconds, None), ArrowType::Timestamp(ArrowUnit::Nanosecond, None)),
        (
            DataType::Datetime(TimeUnit::Microseconds, zone),
            ArrowType::Timestamp(ArrowUnit::Microsecond, Some("Europe/Berlin".into())),
        ),
        (DataType::Decimal(10, 2), ArrowType::Decimal128(10, 2)),
        (DataType::String, ArrowType::Utf8View),
    ] {
        let values = kept(ints().cast(&dtype).unwrap());
        assert_eq!(values.data_type(), &due);
        assert_eq!((values.len(), values.null_count()), (3, 1), "{dtype}");
        assert!(values.is_null(1), "{dtype}");
    }
    let decimals = kept(ints().cast(&DataType::Decimal(10, 2)).unwrap());
    assert_eq!(decimals.as_primitive::<arrow::datatypes::Decimal128Type>().value(2), 300);
    let bytes = kept(Series::new("c".into(), [Some(b"a".as_slice()), None, Some(b"longer than twelve bytes")]));
    assert_eq!(
        bytes.as_binary_view().iter().collect::<Vec<_>>(),
        [Some(b"a".as_slice()), None, Some(b"longer than twelve bytes")]
    );
    let nulls = kept(Series::new_null("c".into(), 3));
    assert_eq!((nulls.data_type(), nulls.len()), (&ArrowType::Null, 3));
}

#[test]
fn categories_are_dictionaries_and_codes_on_request() {
    let words = Series::new("c".into(), [Some("b"), None, Some("a"), Some("b")]);
    let table = FrozenCategories::new(["a", "b", "never"]).unwrap();
    let levels = words.cast(&DataType::from_frozen_categories(table)).unwrap();
    let values = kept(levels.clone());
    let dictionary = values.as_dictionary::<UInt8Type>();
    assert_eq!(dictionary.keys().iter().collect::<Vec<_>>(), [Some(1), None, Some(0), Some(1)]);
    let categories = dictionary.values().as_string_view().iter().flatten().collect::<Vec<_>>();
    assert_eq!(categories, ["a", "b", "never"]);
    assert_eq!(shown(frame(levels.clone())), r#"{c: nts("b", null, "a", "b"), _mask: {c: bool[4](T, F, T, T)}}"#);

    let codes = frame(levels).lazy().select([col("c").to_physical()]).to_tensordict(&masked()).unwrap();
    assert_eq!(crate::show::show(&codes), "{c: uint8[4](1, 0, 0, 1), _mask: {c: bool[4](T, F, T, T)}}");

    let global = words.cast(&DataType::from_categories(Categories::global())).unwrap();
    let values = kept(global.clone());
    assert_eq!(values.as_dictionary::<UInt32Type>().values().len(), 2);
    // In several chunks, each with a table of its own.
    let mut twice = global.clone();
    twice.append(&global.slice(2, 1)).unwrap();
    assert_eq!(shown(frame(twice)), r#"{c: nts("b", null, "a", "b", "a"), _mask: {c: bool[5](T, F, T, T, T)}}"#);
}

#[test]
fn wide_integers_name_the_column() {
    for dtype in [DataType::Int128, DataType::UInt128, DataType::List(Box::new(DataType::Int128))] {
        let column = Series::new_empty("c".into(), &dtype);
        for error in [
            frame(column.clone()).to_tensordict(&masked()).unwrap_err(),
            frame(column.clone()).tensordict_schema(&masked()).unwrap_err(),
            frame(column.clone()).lazy().tensordict_stream(&masked()).unwrap_err(),
        ] {
            assert!(error.is_schema() && error.nested_key() == Some(&"c".into()), "{error}");
            assert!(error.to_string().contains("128"), "{error}");
        }
    }
    let cast = frame(nullable("c").cast(&DataType::Int128).unwrap()).lazy();
    let cast = cast.select([col("c").cast(DataType::Int64)]).to_tensordict(&masked()).unwrap();
    assert_eq!(crate::show::show(&cast), "{c: int64[3](1, 0, 3), _mask: {c: bool[3](T, F, T)}}");
}

#[test]
fn fixed_shape_tensors_keep_shape_and_permutation() {
    let storage = array(numbers((0..6).map(Some)), 6, 1, None);
    let extension = |metadata: &str| {
        let data_type = ArrowDataType::Extension(Box::new(ExtensionType {
            name: "arrow.fixed_shape_tensor".into(),
            inner: storage.dtype().clone(),
            metadata: Some(metadata.into()),
        }));
        let mut chunk = storage.clone();
        *chunk.dtype_mut() = data_type;
        frame_of(chunk)
    };
    assert_eq!(shown(extension(r#"{"shape": [2, 3]}"#)), "{c: int64[1, 2, 3](0, 1, 2, 3, 4, 5)}");
    let permuted = extension(r#"{"shape": [2, 3], "permutation": [1, 0]}"#);
    assert_eq!(shown(permuted), "{c: int64[1, 3, 2](0, 3, 1, 4, 2, 5)}");
    assert!(extension(r#"{"shape": [4]}"#).to_tensordict(&masked()).unwrap_err().is_schema());
}

/// Six rows of strings, lists and booleans, in two chunks.
fn mixed() -> DataFrame {
    let part = |from: i64| {
        let words: Vec<_> = (from..from + 3).map(|i| (i % 3 != 0).then(|| "é".repeat(i as usize * 4))).collect();
        let flags: Vec<_> = (from..from + 3).map(|i| (i % 4 != 0).then_some(i % 2 == 0)).collect();
        let rows =
            lists(numbers((0..6).map(|i| (i != 2).then_some(from * 10 + i))), &[1, 2, 3], valid(&[true, false, true]));
        let list = series("l", rows);
        DataFrame::new_infer_height(vec![
            Column::new("s".into(), words),
            list.into_column(),
            Column::new("b".into(), flags),
        ])
        .unwrap()
    };
    part(0).vstack(&part(3)).unwrap()
}

#[test]
fn slices_equal_rows_built_fresh() {
    let rows = |frame: DataFrame| shown(frame);
    for (start, length) in [(0, 6), (3, 2), (1, 4), (2, 2), (5, 1), (4, 0)] {
        let slice = mixed().slice(start, length);
        // Gathered rows are in new memory.
        let places: Vec<IdxSize> = (start as IdxSize..(start as usize + length) as IdxSize).collect();
        let fresh = mixed().take(&IdxCa::from_vec("i".into(), places)).unwrap();
        assert_eq!(rows(slice.clone()), rows(fresh.clone()), "{start} {length}");
        let twice = slice.vstack(&mixed().slice(0, 2)).unwrap();
        let fresh = fresh.vstack(&mixed().slice(0, 2)).unwrap();
        assert_eq!(rows(twice), rows(fresh.clone()), "{start} {length}");
        let mut rechunked = fresh;
        rechunked.rechunk_mut();
        let slice = mixed().slice(start, length).vstack(&mixed().slice(0, 2)).unwrap();
        assert_eq!(rows(slice), rows(rechunked));
    }
    assert_eq!(
        rows(mixed().slice(3, 2)),
        r#"{s: nts(null, "éééééééééééééééé"), l: jag(int64[1](30); 0, 1, 1), b: bool[2](F, F), _mask: {s: bool[2](F, T), l: bool[2](T, F), b: bool[2](T, F)}}"#
    );
}

#[test]
fn columns_may_be_cut_in_different_places() {
    let mut first = Series::new("a".into(), [1i64, 2, 3]);
    first.append(&Series::new("a".into(), [4i64, 5])).unwrap();
    let mut second = Series::new("b".into(), [1i64]);
    for part in [[2i64, 3].as_slice(), &[], &[4, 5]] {
        second.append(&Series::new("b".into(), part)).unwrap();
    }
    let whole = Series::new("c".into(), [1i64, 2, 3, 4, 5]);
    let columns = vec![first.into_column(), second.into_column(), whole.into_column()];
    let frame = DataFrame::new_infer_height(columns).unwrap();
    let rows = "int64[5](1, 2, 3, 4, 5)";
    assert_eq!(shown(frame), format!("{{a: {rows}, b: {rows}, c: {rows}}}"));
}

#[test]
fn no_rows_and_no_columns() {
    let schema = Schema::from_iter([
        Field::new("i".into(), DataType::Int64),
        Field::new("b".into(), DataType::Boolean),
        Field::new("l".into(), DataType::List(Box::new(DataType::Int64))),
        Field::new("a".into(), DataType::Array(Box::new(DataType::Float32), 2)),
        Field::new("s".into(), DataType::String),
    ]);
    let due = "{i: int64[0](), b: bool[0](), l: jag(int64[0](); 0), a: float32[0, 2](), s: nts()}";
    assert_eq!(shown(DataFrame::empty_with_schema(&schema)), due);
    let none = df!("i" => [1i64], "s" => ["x"]).unwrap().lazy().filter(lit(false));
    let none = none.to_tensordict(&masked()).unwrap();
    assert_eq!((none.batch_size(), crate::show::show(&none)), (vec![0], "{i: int64[0](), s: nts()}".to_owned()));

    for height in [0, 3] {
        let td = DataFrame::empty_with_height(height).to_tensordict(&masked()).unwrap();
        assert_eq!((td.batch_size(), td.len()), (vec![height as i64], 0));
    }
}

#[test]
fn names_may_be_odd() {
    let frame = df!("" => [1i64], "a.b" => [2i64], "nul\0byte" => [3i64], "é/…" => [4i64]).unwrap();
    let td = frame.to_tensordict(&masked()).unwrap();
    assert_eq!(Vec::<i64>::try_from(td.tensor("nul\0byte").unwrap()).unwrap(), [3]);
    assert_eq!(td.keys().count(), 4);
    let error = df!("_mask" => [1i64]).unwrap().to_tensordict(&masked()).unwrap_err();
    assert!(error.is_key(), "{error}");
}

#[test]
fn deep_types_are_an_error() {
    let deep = (0..200).fold(DataType::Int64, |inner, _| DataType::List(Box::new(inner)));
    let error = frame(Series::new_empty("c".into(), &deep)).to_tensordict(&masked()).unwrap_err();
    assert!(error.is_schema() && error.nested_key() == Some(&"c".into()), "{error}");
    let fair = (0..60).fold(DataType::Int64, |inner, _| DataType::List(Box::new(inner)));
    assert_eq!(shown(frame(Series::new_empty("c".into(), &fair))), "{c: nts()}");
}

#[test]
fn types_that_can_not_be_are_an_error() {
    for precision in [0, 300] {
        let dtype = DataType::Decimal(precision, 0);
        let query = df!("c" => [1i64]).unwrap().lazy();
        let query =
            query.select([col("c").map(Ok, move |_, field| Ok(Field::new(field.name().clone(), dtype.clone())))]);
        for error in [
            query.tensordict_schema(&masked()).unwrap_err(),
            query.clone().to_tensordict(&masked()).unwrap_err(),
            query.tensordict_stream(&masked()).unwrap_err(),
        ] {
            assert!(error.is_schema() && error.nested_key() == Some(&"c".into()), "{error}");
            assert!(error.to_string().contains("decimal[") && !error.to_string().contains("panic"), "{error}");
        }
    }
}

#[test]
fn constants_are_columns() {
    let query = df!("x" => [1i64, 2]).unwrap().lazy().with_columns([lit(7i32).alias("seven"), lit("w").alias("w")]);
    let td = query.to_tensordict(&masked()).unwrap();
    assert_eq!(crate::show::show(&td), r#"{x: int64[2](1, 2), seven: int32[2](7, 7), w: nts("w", "w")}"#);
    let column = Column::new_scalar("c".into(), Scalar::from(2.5f64), 3);
    assert_eq!(shown(frame(column)), "{c: float64[3](2.5, 2.5, 2.5)}");
}

#[test]
fn schemas_are_told_before_the_query_runs() {
    let never = |_: Column| -> PolarsResult<Column> { panic!("it ran") };
    let query = df!("x" => [1i64], "s" => ["a"]).unwrap().lazy();
    let query = query.with_column(col("x").map(never, |_, field| Ok(field.clone())).alias("y"));
    let schema = query.tensordict_schema(&masked()).unwrap();
    let told: Vec<_> =
        schema.iter().map(|entry| format!("{} {} {}", entry.key(), entry.kind(), entry.shape())).collect();
    assert_eq!(told, ["'x' tensor [n]", "'s' non_tensor [n]", "'y' tensor [n]"]);
    let error = query.clone().tensordict_schema(&masked().column("z", |column| column)).unwrap_err();
    assert!(error.is_key(), "{error}");
    let missing = query.select([col("nowhere")]).tensordict_schema(&masked()).unwrap_err();
    assert!(missing.is_engine() && missing.to_string().contains("nowhere"), "{missing}");
}

#[test]
fn a_function_that_gives_another_type_is_an_error() {
    let text = |column: Column| column.cast(&DataType::String);
    let query = df!("x" => [1i64, 2]).unwrap().lazy();
    let query = query.select([col("x").map(text, |_, field| Ok(field.clone()))]);
    let errors = [
        query.clone().to_tensordict(&masked()).unwrap_err(),
        query.tensordict_stream(&masked()).unwrap().next().unwrap().unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_engine(), "{error}");
    }
    let chunk = PrimitiveArray::from_vec(vec![1i64]).boxed();
    assert_eq!(shown(frame_of(chunk)), "{c: int64[1](1)}");
}
