//! JSON of files that may hold anything.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{Error, Result};

/// How deep objects and lists may lie in one another: three for each of the levels that a tensordict may have, and
/// values in them.
const MAX_DEPTH: usize = 256;

/// Reads a JSON text. Unlike `serde_json`'s own, a name that stands twice in an object is an error.
///
/// # Errors
///
/// A [file](Error::is_file) error for what is no JSON, names that stand twice, and what nests too deep.
pub(super) fn parse(text: &[u8]) -> Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    // The seed counts by itself.
    deserializer.disable_recursion_limit();
    let seed = Nested { left: MAX_DEPTH };
    let value = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| Error::file(format!("its JSON can't be read: {error}")))
}

/// A value that may nest so deep.
struct Nested {
    left: usize,
}

impl Nested {
    fn below<E: serde::de::Error>(&self) -> Result<Nested, E> {
        match self.left.checked_sub(1) {
            Some(left) => Ok(Nested { left }),
            None => Err(E::custom(format_args!("it nests deeper than {MAX_DEPTH} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Nested {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.below()?)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = items.next_key::<String>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format_args!("'{name}' stands twice in one object")));
            }
            let value = items.next_value_seed(self.below()?)?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// The item of an object as a list of sizes, none of them negative.
pub(super) fn sizes(object: &Map<String, Value>, name: &str) -> Result<Vec<i64>> {
    let found = object.get(name).and_then(Value::as_array);
    let sizes = found.and_then(|list| list.iter().map(|size| size.as_i64().filter(|size| *size >= 0)).collect());
    sizes.ok_or_else(|| Error::file(format!("'{name}' in its metadata is no list of sizes")))
}

/// The item of an object as a string.
pub(super) fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a str> {
    let found = object.get(name).and_then(Value::as_str);
    found.ok_or_else(|| Error::file(format!("'{name}' in its metadata is missing or no string")))
}

/// The item of an object, if it is there and not null, as a list of names of dims.
pub(super) fn dim_names(object: &Map<String, Value>, name: &str) -> Result<Option<Vec<Option<String>>>> {
    let list = match object.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(Error::file(format!("'{name}' in its metadata is no list of names"))),
    };
    let names = list.iter().map(|item| match item {
        Value::Null => Ok(None),
        Value::String(name) => Ok(Some(name.clone())),
        _ => Err(Error::file(format!("'{name}' in its metadata is no list of names"))),
    });
    names.collect::<Result<_>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read() {
        let text = br#"{"a":[1,-2,1.5,true,null,"\u00e4",18446744073709551615],"b":{}}"#;
        assert_eq!(parse(text).unwrap(), serde_json::from_slice::<Value>(text).unwrap());
        for text in ["", "{", "[1,]", "{} {}", "nul", "\"\\ud800\"", "1e999"] {
            assert!(parse(text.as_bytes()).unwrap_err().is_file(), "{text}");
        }
    }

    #[test]
    fn names_that_stand_twice_are_named() {
        let error = parse(br#"{"x":{"a":1,"b":2,"a":3}}"#).unwrap_err().to_string();
        assert!(error.contains("'a' stands twice"), "{error}");
    }

    #[test]
    fn depth_has_a_limit() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(parse(nested(100_000).as_bytes()).unwrap_err().to_string().contains("deeper"));
        assert!(parse(("{\"a\":".repeat(100_000) + "1").as_bytes()).unwrap_err().to_string().contains("deeper"));
    }
}
