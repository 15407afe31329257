//! Options, names, chunks and devices: what is checked before a column is looked at, and what holds for
//! a batch as a whole.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use tch::Device;
use tensorquery::{Entry, Nulls, Options, TensorDict, from_arrow, from_arrow_chunks};

use crate::show::{column, show};
use crate::vectors::{arc, column_gives, gives, ragged, some, structs};

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn chunks_are_joined() {
    let chunk = |numbers: Vec<i64>, rows: Vec<Vec<i64>>| {
        table(vec![
            ("n", arc(Int64Array::from(numbers))),
            ("l", arc(ragged::<i32>(rows.into_iter().map(some).collect()))),
        ])
    };
    let chunks = vec![chunk(vec![1, 2], vec![vec![1], vec![2, 3]]), chunk(vec![3], vec![vec![]])];
    let dict = from_arrow_chunks(&chunks[0].schema(), chunks.clone(), &Options::default()).unwrap();
    assert_eq!(show(&dict), "{n: int64[3](1, 2, 3), l: jag(int64[3](1, 2, 3); 0, 1, 3, 3)}");
    let none = from_arrow_chunks(&chunks[0].schema(), vec![], &Options::default()).unwrap();
    assert_eq!(show(&none), "{n: int64[0](), l: jag(int64[0](); 0)}");

    // Rows of errors count over all chunks.
    let with_null = table(vec![("n", arc(Int64Array::from(vec![Some(1), None])))]);
    let schema = with_null.schema();
    let chunks = vec![with_null.slice(0, 1), with_null.slice(0, 1), with_null];
    let error = from_arrow_chunks(&schema, chunks, &Options::default()).unwrap_err();
    assert_eq!(error.row(), Some(3), "{error}");
}

#[test]
fn chunks_must_have_the_columns_of_the_schema() {
    let ab = table(vec![("a", arc(Int64Array::from(vec![1]))), ("b", arc(Int64Array::from(vec![2])))]);
    let ba = table(vec![("b", arc(Int64Array::from(vec![2]))), ("a", arc(Int64Array::from(vec![1])))]);
    let a = table(vec![("a", arc(Int64Array::from(vec![1])))]);
    for (schema, chunk) in [(&ab, &ba), (&ab, &a), (&a, &ab)] {
        let error = from_arrow_chunks(&schema.schema(), vec![chunk.clone()], &Options::default()).unwrap_err();
        assert!(error.is_schema(), "{error}");
    }
    let other = table(vec![("a", arc(Int32Array::from(vec![1])))]);
    let error = from_arrow_chunks(&a.schema(), vec![other], &Options::default()).unwrap_err();
    assert!(error.is_schema() && error.nested_key() == Some(&"a".into()), "{error}");
}

fn two_columns() -> RecordBatch {
    table(vec![("a", arc(Int64Array::from(vec![1, 2]))), ("b", arc(StringArray::from(vec![Some("x"), None])))])
}

#[test]
fn mask_keys() {
    let masked = Options::default().nulls(Nulls::Mask);
    let nested = masked.clone().mask_key(["m", "n"]);
    let dict = from_arrow(two_columns(), &nested).unwrap();
    assert_eq!(show(&dict), r#"{a: int64[2](1, 2), b: nts("x", null), m: {n: {b: bool[2](T, F)}}}"#);
    for key in [vec!["a"], vec!["a", "z"]] {
        let error = from_arrow(two_columns(), &masked.clone().mask_key(key.as_slice())).unwrap_err();
        assert!(error.is_key() && error.nested_key() == Some(&"a".into()), "{error}");
    }

    // Even where no column has a null: whether it fails must not depend on the data.
    let taken = || table(vec![("_mask", arc(Int64Array::from(vec![1])))]);
    let error = from_arrow(taken(), &masked).unwrap_err();
    assert_eq!(
        error.to_string(),
        "'_mask': the mask key is the name of a column; choose another with mask_key, or give the column an alias"
    );
    gives(taken(), Nulls::Raise, "{_mask: int64[1](1)}");
    gives(taken(), Nulls::Fill, "{_mask: int64[1](1)}");
    let field = structs(vec![("_mask", arc(Int64Array::from(vec![1])))], None);
    column_gives(field, Nulls::Mask, "{c: {_mask: int64[1](1)}}");
}

#[test]
fn arguments_are_checked_first() {
    let mut options = Options::default();
    let error = options.set("nulls", "drop").unwrap_err();
    assert!(error.is_option(), "{error}");
    assert_eq!(error.to_string(), "nulls is 'drop'; it takes 'raise', 'fill', 'mask'");
    for nulls in [Nulls::Raise, Nulls::Fill] {
        let error = from_arrow(two_columns(), &Options::default().nulls(nulls).mask_key("m")).unwrap_err();
        assert!(error.is_option(), "{error}");
        let text = "mask_key is 'm', but no column's nulls are masked; set nulls to 'mask', or leave mask_key out";
        assert_eq!(error.to_string(), text);
    }
    let number = tensorquery::OptionValue::Other("3".to_owned());
    let error = options.set("mask_key", number).unwrap_err();
    assert!(error.is_option() && error.to_string().starts_with("mask_key is 3"), "{error}");
    assert!(options.set("mask_key", Vec::<&str>::new()).unwrap_err().is_option());
    let nested: Vec<tensorquery::OptionValue> = vec!["m".into(), vec!["n"].into()];
    options.set("mask_key", nested).unwrap();
    options.set("nulls", "MASK").unwrap();
    let dict = from_arrow(two_columns(), &options).unwrap();
    assert!(dict.contains_key(["m", "n", "b"]));
    let empty = Options::default().nulls(Nulls::Mask).mask_key(Vec::<String>::new());
    assert!(from_arrow(two_columns(), &empty).unwrap_err().is_option());
    let absent = Options::default().column("z", |column| column.nulls(Nulls::Fill));
    let error = from_arrow(two_columns(), &absent).unwrap_err();
    assert!(error.is_key() && error.to_string().contains("the columns are 'a', 'b'"), "{error}");
}

#[test]
fn names_are_kept_as_they_are() {
    let odd = table(vec![("", arc(Int64Array::from(vec![1]))), ("a.b", arc(Int64Array::from(vec![2])))]);
    let dict = from_arrow(odd, &Options::default()).unwrap();
    assert_eq!(dict.keys().collect::<Vec<_>>(), ["", "a.b"]);

    // A tensordict has room for one of a name.
    let field = || Field::new("a", DataType::Int64, true);
    let columns = vec![arc(Int64Array::from(vec![1])), arc(Int64Array::from(vec![2]))];
    let twice = RecordBatch::try_new(Arc::new(Schema::new(vec![field(), field()])), columns.clone()).unwrap();
    let error = from_arrow(twice, &Options::default()).unwrap_err();
    assert!(error.is_key() && error.nested_key() == Some(&"a".into()), "{error}");
    let twice = StructArray::new(Fields::from(vec![field(), field()]), columns, None);
    let error = from_arrow(column(arc(twice)), &Options::default()).unwrap_err();
    assert!(error.is_key() && error.nested_key() == Some(&["c", "a"].into()), "{error}");
}

#[test]
fn batches_without_columns_keep_their_rows() {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(3));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
    let dict = from_arrow_chunks(&schema, vec![batch.clone(), batch], &Options::default()).unwrap();
    assert_eq!(dict.batch_size(), [6]);
    assert_eq!(from_arrow_chunks(&schema, vec![], &Options::default()).unwrap().batch_size(), [0]);
}

#[test]
fn a_device_is_recorded_on_every_dict() {
    fn check(dict: &TensorDict, device: Option<Device>) -> usize {
        assert_eq!(dict.device(), device);
        1 + dict
            .items()
            .unwrap()
            .iter()
            .filter_map(|(_, entry)| Entry::as_dict(entry))
            .map(|dict| check(dict, device))
            .sum::<usize>()
    }
    let batch = || {
        let field = structs(vec![("x", arc(Int64Array::from(vec![Some(1), None])))], None);
        column(arc(field))
    };
    let options = Options::default().nulls(Nulls::Mask);
    assert_eq!(check(&from_arrow(batch(), &options).unwrap(), None), 4);
    assert_eq!(check(&from_arrow(batch(), &options.device(Device::Cpu)).unwrap(), Some(Device::Cpu)), 4);
}
