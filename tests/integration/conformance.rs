//! The cases under `tests/conformance`, whose expected results came from the reference implementation.

use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ipc::reader::FileReader;
use datafusion::datasource::file_format::options::ArrowReadOptions;
use serde_json::Value;
use tensorquery::{CopyPolicy, DataFrameExt, Options, TensorDict, from_arrow_chunks, write_json};

/// A case that we treat differently on purpose.
enum Difference {
    /// Unsigned numbers widen: values are the same, the dtype is wider.
    Widened,
    /// A number above `i64::MAX`: an error.
    Overflow,
    /// Nulls that the reference only warns of, or says nothing about, are errors under `raise`.
    StrictNulls,
    /// Two columns of one name: an error, where the reference keeps the last.
    DuplicateNames,
    /// Nulls that are the values of dictionaries and runs have masks, where the reference gives none.
    ValueMasks,
}

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) options: Options,
    pub(crate) expected: Value,
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) path: PathBuf,
}

pub(crate) fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let mut files: Vec<PathBuf> = ["from_arrow", "from_arrow_random"]
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files.iter().map(|path| read_case(path)).collect()
}

fn read_case(path: &Path) -> Case {
    let text = fs::read_to_string(path).unwrap();
    let case: Value = serde_json::from_str(&text).unwrap();
    let mut options = Options::default();
    for (name, value) in case["options"].as_object().unwrap() {
        match (name.as_str(), value) {
            ("copy", Value::Bool(true)) => options = options.copy(CopyPolicy::Always),
            (name, Value::String(text)) => options.set(name, text.as_str()).unwrap(),
            (name, Value::Array(names)) => {
                let names: Vec<&str> = names.iter().map(|name| name.as_str().unwrap()).collect();
                options.set(name, names).unwrap();
            }
            other => panic!("{other:?} in {}", path.display()),
        }
    }
    let arrow = path.with_extension("arrow");
    let reader = FileReader::try_new(fs::File::open(&arrow).unwrap(), None).unwrap();
    let schema = reader.schema();
    let batches = reader.collect::<Result<_, _>>().unwrap();
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    Case { name, options, expected: case["expected"].clone(), schema, batches, path: arrow }
}

/// The deliberate differences, with their reason.
fn difference(case: &Case) -> Option<Difference> {
    let name = case.name.as_str();
    // libtorch computes with signed numbers, so unsigned ones widen, and those above i64::MAX are errors.
    if has_large_unsigned(&case.expected) {
        return Some(Difference::Overflow);
    }
    // `raise` means raise, also where the reference announces it for later.
    if name.ends_with("__raise") && has_null(&case.expected) {
        return Some(Difference::StrictNulls);
    }
    // A tensordict has room for one.
    if name.starts_with("duplicate_column_names") {
        return Some(Difference::DuplicateNames);
    }
    // A mask says where nulls were, wherever Arrow keeps them.
    if ["dictionary_null_value__mask", "run_end_encoded__mask"].contains(&name) {
        return Some(Difference::ValueMasks);
    }
    has_unsigned(&case.schema).then_some(Difference::Widened)
}

fn has_null(expected: &Value) -> bool {
    match expected {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

fn has_large_unsigned(expected: &Value) -> bool {
    match expected {
        Value::Object(members) if members.get("dtype").is_some_and(|dtype| dtype == "uint64") => {
            members["data"].as_array().unwrap().iter().any(|value| value.as_i64().is_none())
        }
        Value::Object(members) => members.values().any(has_large_unsigned),
        _ => false,
    }
}

fn has_unsigned(schema: &SchemaRef) -> bool {
    fn inside(data_type: &DataType) -> bool {
        match data_type {
            DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => true,
            DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                inside(field.data_type())
            }
            DataType::Struct(fields) => fields.iter().any(|field| inside(field.data_type())),
            _ => false,
        }
    }
    schema.fields().iter().any(|field| inside(field.data_type()))
}

/// The reference's dtype names after widening.
fn widened(expected: &Value) -> Value {
    match expected {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                let value = match (name.as_str(), value.as_str()) {
                    ("dtype", Some("uint16")) => Value::from("int32"),
                    ("dtype", Some("uint32" | "uint64")) => Value::from("int64"),
                    _ => widened(value),
                };
                (name.clone(), value)
            })
            .collect(),
        other => other.clone(),
    }
}

fn is_float(members: &serde_json::Map<String, Value>) -> bool {
    members.len() == 1 && members.get("f").is_some_and(Value::is_string)
}

/// Floats compare by their bits, all else as it is; the order of keys counts.
fn assert_same(got: &Value, expected: &Value, at: &str) {
    match (got, expected) {
        (Value::Object(got), Value::Object(expected)) if is_float(expected) => {
            let parse = |text: &Value| text.as_str().unwrap().parse::<f64>().unwrap();
            let (got, expected) = (parse(&got["f"]), parse(&expected["f"]));
            let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
            assert!(same, "{at}: {got} for {expected}");
        }
        (Value::Object(got), Value::Object(expected)) => {
            let names = |members: &serde_json::Map<String, Value>| members.keys().cloned().collect::<Vec<_>>();
            if at.ends_with("/entries") {
                assert_eq!(names(got), names(expected), "{at}");
            } else {
                assert_eq!(got.len(), expected.len(), "{at}: {got:?} for {expected:?}");
            }
            for (name, expected) in expected {
                let got = got.get(name).unwrap_or_else(|| panic!("{at}/{name} is missing"));
                assert_same(got, expected, &format!("{at}/{name}"));
            }
        }
        (Value::Array(got), Value::Array(expected)) => {
            assert_eq!(got.len(), expected.len(), "{at}: {got:?} for {expected:?}");
            for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
                assert_same(got, expected, &format!("{at}/{i}"));
            }
        }
        _ => assert_eq!(got, expected, "{at}"),
    }
}

pub(crate) fn json(dict: &TensorDict) -> Value {
    let mut bytes = Vec::new();
    write_json(dict, &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)))
}

/// Checks what a case gave; says whether it is one of the deliberate differences.
pub(crate) fn check(case: &Case, result: tensorquery::Result<TensorDict>) -> bool {
    let name = &case.name;
    let difference = difference(case);
    match (&difference, result) {
        (Some(Difference::Overflow), Err(error)) if error.is_overflow() => assert!(error.row().is_some(), "{name}"),
        // Of several columns, one with nulls may come before the one with the large number.
        (Some(Difference::Overflow), Err(error)) if error.is_null() && name.ends_with("__raise") => {}
        (Some(Difference::StrictNulls), Err(error)) => assert!(error.is_null(), "{name}: {error}"),
        (Some(Difference::DuplicateNames), Err(error)) => assert!(error.is_key(), "{name}: {error}"),
        (Some(Difference::Widened) | None, result) => match (case.expected.get("error"), result) {
            (Some(_), Err(_)) => {}
            (Some(error), Ok(dict)) => panic!("{name}: {error} is due, got {dict:#}"),
            (None, Err(error)) => panic!("{name}: {error}"),
            (None, Ok(dict)) => assert_same(&json(&dict), &widened(&case.expected), name),
        },
        (Some(Difference::ValueMasks), Ok(dict)) => {
            let mut got = json(&dict);
            let masks = got["entries"].as_object_mut().unwrap().shift_remove("_mask").unwrap();
            assert_same(&got, &case.expected, name);
            let values = got["entries"]["x"]["data"].as_array().unwrap();
            let valid: Vec<bool> = values.iter().map(|value| !value.is_null()).collect();
            assert!(valid.contains(&false) && masks["entries"]["x"]["data"] == Value::from(valid), "{name}: {masks}");
        }
        (Some(_), result) => panic!("{name}: an error is due, got {result:?}"),
    }
    difference.is_some()
}

/// The same cases, read by the engine from the file and converted at the end of a query.
#[tokio::test(flavor = "multi_thread")]
async fn cases_pass_through_sql() {
    let (mut ran, mut unreadable) = (0, Vec::new());
    for case in cases() {
        let ctx = crate::sql::context(1);
        // The engine has no way to say two columns of one name apart, and can't scan some types.
        if case.name.starts_with("duplicate_column_names") {
            unreadable.push(format!("{}: two columns of one name", case.name));
            continue;
        }
        let options = ArrowReadOptions::default();
        let registered = ctx.register_arrow("cases", &case.path.to_string_lossy(), options).await;
        let rows = match registered {
            Ok(()) => ctx.sql("SELECT * FROM cases").await.unwrap().collect().await,
            Err(error) => Err(error),
        };
        if let Err(error) = rows {
            unreadable.push(format!("{}: {}", case.name, error.to_string().lines().next().unwrap_or_default()));
            continue;
        }
        let frame = ctx.sql("SELECT * FROM cases").await.unwrap();
        check(&case, frame.to_tensordict(&case.options).await);
        ran += 1;
    }
    println!(
        "{ran} conformance cases ran through SQL, {} that the engine can't read: {unreadable:#?}",
        unreadable.len()
    );
    assert!(ran > 500, "{ran}");
}

#[test]
fn cases_pass_directly() {
    let cases = cases();
    let different = cases
        .iter()
        .filter(|case| check(case, from_arrow_chunks(&case.schema, case.batches.clone(), &case.options)))
        .count();
    println!("{} conformance cases ran, {different} of them deliberate differences", cases.len());
    assert_eq!(cases.len(), 582);
}
