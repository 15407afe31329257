//! Values that are no tensors, as JSON has them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, NullArray, StringArray, StructArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{Field, Fields};
use serde_json::Value as Json;

use crate::error::{Error, Result};
use crate::tensor::Value;

/// Appends a value as the JSON that Python is to see: bytes as hex, decimals and intervals as text, times in ISO 8601,
/// structs as objects, maps as lists of pairs, and floats that JSON has no form for as null.
pub(super) fn write_value(value: &Value, text: &mut Vec<u8>) {
    let list = |open: u8, close: u8, text: &mut Vec<u8>, items: &mut dyn Iterator<Item = Vec<u8>>| {
        text.push(open);
        for (i, item) in items.enumerate() {
            if i > 0 {
                text.push(b',');
            }
            text.extend(item);
        }
        text.push(close);
    };
    let written = |value: &Value| {
        let mut text = Vec::new();
        write_value(value, &mut text);
        text
    };
    match value {
        Value::Null => text.extend(b"null"),
        Value::Bool(value) => text.extend(value.to_string().bytes()),
        Value::Int(value) => text.extend(value.to_string().bytes()),
        Value::UInt(value) => text.extend(value.to_string().bytes()),
        Value::Float(value) if !value.is_finite() => text.extend(b"null"),
        Value::Float(value) => text.extend(format!("{value:?}").bytes()),
        Value::Text(value) => write_text(value, text),
        Value::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            write_text(&hex, text);
        }
        Value::List(values) => list(b'[', b']', text, &mut values.iter().map(written)),
        Value::Map(pairs) => list(
            b'[',
            b']',
            text,
            &mut pairs.iter().map(|(key, value)| [b"[", &*written(key), b",", &*written(value), b"]"].concat()),
        ),
        Value::Struct(fields) => list(
            b'{',
            b'}',
            text,
            &mut fields.iter().map(|(name, value)| {
                let mut item = Vec::new();
                write_text(name, &mut item);
                item.push(b':');
                item.extend(written(value));
                item
            }),
        ),
        other => write_text(&other.to_string(), text),
    }
}

/// A string in quotes.
pub(super) fn write_text(value: &str, text: &mut Vec<u8>) {
    text.extend(Json::from(value).to_string().bytes());
}

/// The length of a value that is a list in JSON.
pub(super) fn list_length(value: &Value) -> Option<usize> {
    match value {
        Value::List(values) => Some(values.len()),
        Value::Map(pairs) => Some(pairs.len()),
        _ => None,
    }
}

/// JSON values as one column: strings, booleans, int64, uint64, float64, and lists and structs of such; null where they
/// are null or, in a struct, missing.
///
/// # Errors
///
/// A [schema](Error::is_schema) error for values that have no type in common.
pub(super) fn column(values: &[&Json]) -> Result<ArrayRef> {
    let values: Vec<Option<&Json>> = values.iter().map(|value| Some(*value).filter(|value| !value.is_null())).collect();
    build(&values)
}

fn build(values: &[Option<&Json>]) -> Result<ArrayRef> {
    let present = || values.iter().copied().flatten();
    if present().next().is_none() {
        return Ok(Arc::new(NullArray::new(values.len())));
    }
    if present().all(Json::is_string) {
        return Ok(Arc::new(StringArray::from_iter(values.iter().map(|value| value.and_then(Json::as_str)))));
    }
    if present().all(Json::is_boolean) {
        return Ok(Arc::new(BooleanArray::from_iter(values.iter().map(|value| value.and_then(Json::as_bool)))));
    }
    if present().all(Json::is_i64) {
        return Ok(Arc::new(Int64Array::from_iter(values.iter().map(|value| value.and_then(Json::as_i64)))));
    }
    if present().all(Json::is_u64) {
        return Ok(Arc::new(UInt64Array::from_iter(values.iter().map(|value| value.and_then(Json::as_u64)))));
    }
    if present().all(Json::is_number) {
        return Ok(Arc::new(Float64Array::from_iter(values.iter().map(|value| value.and_then(Json::as_f64)))));
    }
    let nulls = || Some(NullBuffer::from_iter(values.iter().map(Option::is_some)));
    if present().all(Json::is_array) {
        let lists: Vec<&[Json]> = values.iter().map(|value| list(*value)).collect();
        let items: Vec<&Json> = lists.iter().copied().flatten().collect();
        let items = column(&items)?;
        let field = Arc::new(Field::new(Field::LIST_FIELD_DEFAULT_NAME, items.data_type().clone(), true));
        let offsets = OffsetBuffer::<i32>::from_lengths(lists.iter().map(|list| list.len()));
        return Ok(Arc::new(ListArray::try_new(field, offsets, items, nulls())?));
    }
    if present().all(Json::is_object) {
        return structs(values, nulls());
    }
    let kinds: Vec<_> = present().map(kind).collect();
    let other = kinds.iter().find(|kind| **kind != kinds[0]).copied().unwrap_or("number");
    Err(Error::schema(format!("its values are of different kinds, {} and {other}", kinds[0]))
        .remedy("give them one type where they are saved"))
}

fn list(value: Option<&Json>) -> &[Json] {
    value.and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn structs(values: &[Option<&Json>], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let objects: Vec<_> = values.iter().map(|value| value.and_then(Json::as_object)).collect();
    let mut names: indexmap::IndexSet<&String> = indexmap::IndexSet::new();
    objects.iter().flatten().for_each(|object| names.extend(object.keys()));
    let mut columns = Vec::with_capacity(names.len());
    for name in &names {
        let items = objects.iter().map(|object| object.and_then(|object| object.get(*name)));
        let items: Vec<_> = items.map(|item| item.filter(|item| !item.is_null())).collect();
        columns.push(build(&items).map_err(|error| error.below(name))?);
    }
    let typed = |(name, column): (&&String, &ArrayRef)| Field::new(name.as_str(), column.data_type().clone(), true);
    let fields: Fields = names.iter().zip(&columns).map(typed).collect();
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, values.len())?))
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "list",
        Json::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String> {
        let json: Json = serde_json::from_str(text).unwrap();
        let values: Vec<&Json> = json.as_array().unwrap().iter().collect();
        let column = column(&values)?;
        let mut back = Vec::new();
        let values = (0..values.len()).map(|row| Value::from_array(&column, row)).collect::<Result<_>>()?;
        write_value(&Value::List(values), &mut back);
        Ok(format!("{} {}", column.data_type(), String::from_utf8(back).unwrap()))
    }

    #[test]
    fn columns_of_json() {
        let due = [
            ("[]", "Null []"),
            ("[null,null]", "Null [null,null]"),
            (r#"["a",null,"\"\n"]"#, r#"Utf8 ["a",null,"\"\n"]"#),
            ("[true,null]", "Boolean [true,null]"),
            ("[1,-2]", "Int64 [1,-2]"),
            ("[18446744073709551615,1]", "UInt64 [18446744073709551615,1]"),
            ("[1,2.5,null]", "Float64 [1.0,2.5,null]"),
        ];
        for (json, expected) in due {
            assert_eq!(read(json).unwrap(), expected);
        }
        for json in ["[[1],[],null,[2,3]]", "[[[\"a\"]],[]]", r#"[{"a":1,"b":["x"]},null,{"a":null,"b":null}]"#, "[{}]"]
        {
            assert!(read(json).unwrap().ends_with(&format!(" {json}")), "{}", read(json).unwrap());
        }
        for json in ["[1,\"a\"]", "[[1],[\"a\"]]", "[[1],2]"] {
            assert!(read(json).unwrap_err().is_schema(), "{json}");
        }
        assert!(read(r#"[{"a":1},{"a":"x"}]"#).unwrap_err().to_string().contains("'a'"));
    }

    #[test]
    fn what_json_lacks() {
        let text = |value: Value| {
            let mut text = Vec::new();
            write_value(&value, &mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(Value::Float(f64::NAN)), "null");
        assert_eq!(text(Value::Float(f64::NEG_INFINITY)), "null");
        assert_eq!(text(Value::Float(1e300)), "1e300");
        assert_eq!(text(Value::Bytes(vec![0, 255])), "\"00ff\"");
        assert_eq!(text(Value::Map(vec![(Value::Int(1), Value::Null)])), "[[1,null]]");
        assert_eq!(text(Value::Struct(vec![("a\"".to_owned(), Value::Bool(true))])), r#"{"a\"":true}"#);
    }
}
