//! Types of arrow-rs and of polars-arrow: which is which.
//!
//! The functions here are what the unsafe blocks of `c_data.rs` rest on: an array of one type must have the layout
//! of the other, by the Arrow specification.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use polars_arrow::datatypes::{ArrowDataType, Field as PolarsField, IntegerType, TimeUnit as PolarsTimeUnit};

use crate::error::{Error, Result};

const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// The type under its name in arrow-rs. An extension is its storage; its name is the field's matter.
///
/// # Errors
///
/// A [schema](Error::is_schema) error if arrow-rs has none.
pub(super) fn arrow_type(data_type: &ArrowDataType) -> Result<DataType> {
    let none = || Error::schema(format!("Arrow has no type like {data_type:?}"));
    let small = |number: usize| i32::try_from(number).map_err(|_| none());
    Ok(match data_type {
        ArrowDataType::Null => DataType::Null,
        ArrowDataType::Boolean => DataType::Boolean,
        ArrowDataType::Int8 => DataType::Int8,
        ArrowDataType::Int16 => DataType::Int16,
        ArrowDataType::Int32 => DataType::Int32,
        ArrowDataType::Int64 => DataType::Int64,
        ArrowDataType::UInt8 => DataType::UInt8,
        ArrowDataType::UInt16 => DataType::UInt16,
        ArrowDataType::UInt32 => DataType::UInt32,
        ArrowDataType::UInt64 => DataType::UInt64,
        ArrowDataType::Float16 => DataType::Float16,
        ArrowDataType::Float32 => DataType::Float32,
        ArrowDataType::Float64 => DataType::Float64,
        ArrowDataType::Date32 => DataType::Date32,
        ArrowDataType::Time64(unit) => DataType::Time64(arrow_unit(unit)),
        ArrowDataType::Duration(unit) => DataType::Duration(arrow_unit(unit)),
        ArrowDataType::Timestamp(unit, zone) => {
            DataType::Timestamp(arrow_unit(unit), zone.as_ref().map(|zone| Arc::from(zone.as_str())))
        }
        ArrowDataType::Decimal(precision, scale) => match (u8::try_from(*precision), i8::try_from(*scale)) {
            (Ok(precision), Ok(scale)) => DataType::Decimal128(precision, scale),
            _ => return Err(none()),
        },
        ArrowDataType::Utf8View => DataType::Utf8View,
        ArrowDataType::BinaryView => DataType::BinaryView,
        ArrowDataType::LargeList(item) => DataType::LargeList(Arc::new(arrow_field(item)?)),
        ArrowDataType::FixedSizeList(item, size) => {
            DataType::FixedSizeList(Arc::new(arrow_field(item)?), small(*size)?)
        }
        ArrowDataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(arrow_field).collect::<Result<Vec<_>>>()?.into())
        }
        ArrowDataType::Dictionary(keys, values, _) => {
            let keys = match keys {
                IntegerType::UInt8 => DataType::UInt8,
                IntegerType::UInt16 => DataType::UInt16,
                IntegerType::UInt32 => DataType::UInt32,
                _ => return Err(none()),
            };
            DataType::Dictionary(Box::new(keys), Box::new(arrow_type(values)?))
        }
        ArrowDataType::Extension(extension) => arrow_type(&extension.inner)?,
        // Strings and bytes with offsets are not for Polars' columns, and must stay out: of a slice of them,
        // polars-arrow 0.55 exports offsets that begin at the slice, and says that they begin before it.
        _ => return Err(none()),
    })
}

/// The field under its names in arrow-rs.
///
/// # Errors
///
/// A [schema](Error::is_schema) error if arrow-rs has no such type.
pub(crate) fn arrow_field(field: &PolarsField) -> Result<Field> {
    let mut metadata: HashMap<String, String> = HashMap::new();
    for (key, value) in field.metadata.iter().flat_map(|metadata| metadata.iter()) {
        metadata.insert(key.to_string(), value.to_string());
    }
    if let ArrowDataType::Extension(extension) = &field.dtype {
        metadata.insert(EXTENSION_NAME.to_owned(), extension.name.to_string());
        // Arrow's columnar format: absent and empty metadata are the same.
        let said = extension.metadata.as_ref().map(ToString::to_string).unwrap_or_default();
        metadata.insert(EXTENSION_METADATA.to_owned(), said);
    }
    let data_type = arrow_type(&field.dtype)?;
    Ok(Field::new(field.name.as_str(), data_type, field.is_nullable).with_metadata(metadata))
}

/// The type under its name in polars-arrow.
///
/// # Errors
///
/// A [schema](Error::is_schema) error if polars-arrow has none, or Polars itself can't read it.
pub(super) fn polars_type(data_type: &DataType) -> Result<ArrowDataType> {
    let none = || Error::schema(format!("Polars has no type like {data_type}"));
    let size = |number: i32| usize::try_from(number).map_err(|_| none());
    Ok(match data_type {
        DataType::Null => ArrowDataType::Null,
        DataType::Boolean => ArrowDataType::Boolean,
        DataType::Int8 => ArrowDataType::Int8,
        DataType::Int16 => ArrowDataType::Int16,
        DataType::Int32 => ArrowDataType::Int32,
        DataType::Int64 => ArrowDataType::Int64,
        DataType::UInt8 => ArrowDataType::UInt8,
        DataType::UInt16 => ArrowDataType::UInt16,
        DataType::UInt32 => ArrowDataType::UInt32,
        DataType::UInt64 => ArrowDataType::UInt64,
        DataType::Float16 => ArrowDataType::Float16,
        DataType::Float32 => ArrowDataType::Float32,
        DataType::Float64 => ArrowDataType::Float64,
        DataType::Date32 => ArrowDataType::Date32,
        DataType::Date64 => ArrowDataType::Date64,
        DataType::Time32(unit) => ArrowDataType::Time32(polars_unit(unit)),
        DataType::Time64(unit) => ArrowDataType::Time64(polars_unit(unit)),
        DataType::Duration(unit) => ArrowDataType::Duration(polars_unit(unit)),
        DataType::Timestamp(unit, zone) => {
            ArrowDataType::Timestamp(polars_unit(unit), zone.as_ref().map(|zone| zone.as_ref().into()))
        }
        // Polars' decimals have a scale of 0 or more.
        DataType::Decimal128(precision, scale) => match usize::try_from(*scale) {
            Ok(scale) => ArrowDataType::Decimal(usize::from(*precision), scale),
            Err(_) => return Err(none()),
        },
        DataType::Utf8 => ArrowDataType::Utf8,
        DataType::LargeUtf8 => ArrowDataType::LargeUtf8,
        DataType::Utf8View => ArrowDataType::Utf8View,
        DataType::Binary => ArrowDataType::Binary,
        DataType::LargeBinary => ArrowDataType::LargeBinary,
        DataType::BinaryView => ArrowDataType::BinaryView,
        DataType::FixedSizeBinary(bytes) => ArrowDataType::FixedSizeBinary(size(*bytes)?),
        DataType::List(item) => ArrowDataType::List(Box::new(polars_field(item)?)),
        DataType::LargeList(item) => ArrowDataType::LargeList(Box::new(polars_field(item)?)),
        DataType::FixedSizeList(item, length) => {
            ArrowDataType::FixedSizeList(Box::new(polars_field(item)?), size(*length)?)
        }
        DataType::Struct(fields) => {
            ArrowDataType::Struct(fields.iter().map(|field| polars_field(field)).collect::<Result<_>>()?)
        }
        DataType::Dictionary(keys, values) => {
            let keys = match keys.as_ref() {
                DataType::Int8 => IntegerType::Int8,
                DataType::Int16 => IntegerType::Int16,
                DataType::Int32 => IntegerType::Int32,
                DataType::Int64 => IntegerType::Int64,
                DataType::UInt8 => IntegerType::UInt8,
                DataType::UInt16 => IntegerType::UInt16,
                DataType::UInt32 => IntegerType::UInt32,
                DataType::UInt64 => IntegerType::UInt64,
                _ => return Err(none()),
            };
            let values = match values.as_ref() {
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => polars_type(values)?,
                _ => return Err(none()),
            };
            ArrowDataType::Dictionary(keys, Box::new(values), false)
        }
        _ => return Err(none()),
    })
}

/// The field under its names in polars-arrow, extensions as their storage.
///
/// # Errors
///
/// As [`polars_type`].
pub(crate) fn polars_field(field: &Field) -> Result<PolarsField> {
    let known =
        field.metadata().iter().filter(|(key, _)| ![EXTENSION_NAME, EXTENSION_METADATA].contains(&key.as_str()));
    let metadata: BTreeMap<_, _> = known.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    let data_type = polars_type(field.data_type())?;
    Ok(PolarsField::new(field.name().as_str().into(), data_type, field.is_nullable()).with_metadata(metadata))
}

fn arrow_unit(unit: &PolarsTimeUnit) -> TimeUnit {
    match unit {
        PolarsTimeUnit::Second => TimeUnit::Second,
        PolarsTimeUnit::Millisecond => TimeUnit::Millisecond,
        PolarsTimeUnit::Microsecond => TimeUnit::Microsecond,
        PolarsTimeUnit::Nanosecond => TimeUnit::Nanosecond,
    }
}

fn polars_unit(unit: &TimeUnit) -> PolarsTimeUnit {
    match unit {
        TimeUnit::Second => PolarsTimeUnit::Second,
        TimeUnit::Millisecond => PolarsTimeUnit::Millisecond,
        TimeUnit::Microsecond => PolarsTimeUnit::Microsecond,
        TimeUnit::Nanosecond => PolarsTimeUnit::Nanosecond,
    }
}
