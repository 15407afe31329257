//! One value of a non-tensor column.

use std::fmt;

use arrow::array::timezone::Tz;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalUnit, IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use chrono::{DateTime, TimeDelta, TimeZone};

use crate::error::Result;

/// One value of a non-tensor column, without loss.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A float; 16 and 32 bits widen.
    Float(f64),
    /// A string.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// `unscaled` × 10^−`scale`.
    Decimal {
        /// All digits, as an integer.
        unscaled: i256,
        /// Digits after the point; negative: zeros before it.
        scale: i8,
    },
    /// A date, time, timestamp or duration: a count of the type's unit.
    Temporal {
        /// The count: days, or the unit of the type.
        value: i64,
        /// The Arrow type, with unit and zone.
        data_type: DataType,
    },
    /// A calendar interval.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanoseconds: i64,
    },
    /// A list of any kind.
    List(Vec<Value>),
    /// Named fields in order.
    Struct(Vec<(String, Value)>),
    /// Pairs in stored order.
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// The value of `array` at `row`, which must be within bounds. Dictionaries, runs and unions are decoded.
    pub(crate) fn from_array(array: &dyn Array, row: usize) -> Result<Value> {
        if array.is_null(row) {
            return Ok(Value::Null);
        }
        macro_rules! number {
            ($type:ty, $value:expr) => {{
                let convert: fn(<$type as arrow::array::ArrowPrimitiveType>::Native) -> Value = $value;
                convert(array.as_primitive::<$type>().value(row))
            }};
        }
        macro_rules! temporal {
            ($type:ty) => {
                Value::Temporal {
                    value: i64::from(array.as_primitive::<$type>().value(row)),
                    data_type: array.data_type().clone(),
                }
            };
        }
        macro_rules! decimal {
            ($type:ty, $scale:expr, $widen:expr) => {
                Value::Decimal { unscaled: $widen(array.as_primitive::<$type>().value(row)), scale: *$scale }
            };
        }
        Ok(match array.data_type() {
            DataType::Null => Value::Null,
            DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
            DataType::Int8 => number!(Int8Type, |v| Value::Int(v.into())),
            DataType::Int16 => number!(Int16Type, |v| Value::Int(v.into())),
            DataType::Int32 => number!(Int32Type, |v| Value::Int(v.into())),
            DataType::Int64 => number!(Int64Type, Value::Int),
            DataType::UInt8 => number!(UInt8Type, |v| Value::UInt(v.into())),
            DataType::UInt16 => number!(UInt16Type, |v| Value::UInt(v.into())),
            DataType::UInt32 => number!(UInt32Type, |v| Value::UInt(v.into())),
            DataType::UInt64 => number!(UInt64Type, Value::UInt),
            DataType::Float16 => number!(Float16Type, |v| Value::Float(v.into())),
            DataType::Float32 => number!(Float32Type, |v| Value::Float(v.into())),
            DataType::Float64 => number!(Float64Type, Value::Float),
            DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
            DataType::LargeUtf8 => Value::Text(array.as_string::<i64>().value(row).to_owned()),
            DataType::Utf8View => Value::Text(array.as_string_view().value(row).to_owned()),
            DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(row).to_owned()),
            DataType::LargeBinary => Value::Bytes(array.as_binary::<i64>().value(row).to_owned()),
            DataType::BinaryView => Value::Bytes(array.as_binary_view().value(row).to_owned()),
            DataType::FixedSizeBinary(_) => Value::Bytes(array.as_fixed_size_binary().value(row).to_owned()),
            DataType::Decimal32(_, scale) => decimal!(Decimal32Type, scale, |v| i256::from_i128(i128::from(v))),
            DataType::Decimal64(_, scale) => decimal!(Decimal64Type, scale, |v| i256::from_i128(i128::from(v))),
            DataType::Decimal128(_, scale) => decimal!(Decimal128Type, scale, i256::from_i128),
            DataType::Decimal256(_, scale) => decimal!(Decimal256Type, scale, |v| v),
            DataType::Date32 => temporal!(Date32Type),
            DataType::Date64 => temporal!(Date64Type),
            DataType::Time32(TimeUnit::Second) => temporal!(Time32SecondType),
            DataType::Time32(_) => temporal!(Time32MillisecondType),
            DataType::Time64(TimeUnit::Nanosecond) => temporal!(Time64NanosecondType),
            DataType::Time64(_) => temporal!(Time64MicrosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => temporal!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => temporal!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => temporal!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => temporal!(TimestampNanosecondType),
            DataType::Duration(TimeUnit::Second) => temporal!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => temporal!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => temporal!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => temporal!(DurationNanosecondType),
            DataType::Interval(IntervalUnit::YearMonth) => {
                let months = array.as_primitive::<IntervalYearMonthType>().value(row);
                Value::Interval { months, days: 0, nanoseconds: 0 }
            }
            DataType::Interval(IntervalUnit::DayTime) => {
                let interval = array.as_primitive::<IntervalDayTimeType>().value(row);
                let nanoseconds = i64::from(interval.milliseconds) * 1_000_000;
                Value::Interval { months: 0, days: interval.days, nanoseconds }
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let interval = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                Value::Interval { months: interval.months, days: interval.days, nanoseconds: interval.nanoseconds }
            }
            DataType::List(_) => list(&array.as_list::<i32>().value(row))?,
            DataType::LargeList(_) => list(&array.as_list::<i64>().value(row))?,
            DataType::ListView(_) => list(&array.as_list_view::<i32>().value(row))?,
            DataType::LargeListView(_) => list(&array.as_list_view::<i64>().value(row))?,
            DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row))?,
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let values = columns.map(|(field, column)| Ok((field.name().clone(), Value::from_array(column, row)?)));
                Value::Struct(values.collect::<Result<_>>()?)
            }
            DataType::Map(..) => {
                let entries = array.as_map().value(row);
                let (keys, values) = (entries.column(0), entries.column(1));
                let pair = |at| Ok((Value::from_array(keys, at)?, Value::from_array(values, at)?));
                Value::Map((0..entries.len()).map(pair).collect::<Result<_>>()?)
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let key = dictionary.normalized_keys_at(row);
                Value::from_array(dictionary.values(), key)?
            }
            DataType::Union(..) => Value::from_array(&array.as_union().value(row), 0)?,
            DataType::RunEndEncoded(ends, _) => {
                macro_rules! run {
                    ($type:ty) => {{
                        let runs = array.as_run::<$type>();
                        Value::from_array(runs.values(), runs.get_physical_index(row))?
                    }};
                }
                match ends.data_type() {
                    DataType::Int16 => run!(Int16Type),
                    DataType::Int32 => run!(Int32Type),
                    _ => run!(Int64Type),
                }
            }
        })
    }
}

impl Value {
    /// A duration in nanoseconds; `None` for all that is no duration.
    pub fn as_nanoseconds(&self) -> Option<i128> {
        let Value::Temporal { value, data_type: DataType::Duration(unit) } = self else {
            return None;
        };
        let nanoseconds = match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        };
        Some(i128::from(*value) * nanoseconds)
    }
}

fn list(values: &dyn Array) -> Result<Value> {
    let values = (0..values.len()).map(|row| Value::from_array(values, row));
    Ok(Value::List(values.collect::<Result<_>>()?))
}

/// The place of one row's value in a dictionary's values.
trait KeyAt {
    fn normalized_keys_at(&self, row: usize) -> usize;
}

impl KeyAt for dyn arrow::array::AnyDictionaryArray + '_ {
    fn normalized_keys_at(&self, row: usize) -> usize {
        macro_rules! key {
            ($type:ty) => {
                self.keys().as_primitive::<$type>().value(row).as_usize()
            };
        }
        match self.keys().data_type() {
            DataType::Int8 => key!(Int8Type),
            DataType::Int16 => key!(Int16Type),
            DataType::Int32 => key!(Int32Type),
            DataType::Int64 => key!(Int64Type),
            DataType::UInt8 => key!(UInt8Type),
            DataType::UInt16 => key!(UInt16Type),
            DataType::UInt32 => key!(UInt32Type),
            _ => key!(UInt64Type),
        }
    }
}

/// Strings in double quotes, bytes as hex, times in ISO 8601, the rest as JSON has it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn join<T>(
            f: &mut fmt::Formatter<'_>,
            (open, close): (char, char),
            items: &[T],
            mut write: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
        ) -> fmt::Result {
            write!(f, "{open}")?;
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write(f, item)?;
            }
            write!(f, "{close}")
        }
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::UInt(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Text(value) => write!(f, "{value:?}"),
            Value::Bytes(value) => {
                f.write_str("0x")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Value::Decimal { unscaled, scale } => f.write_str(&decimal(*unscaled, *scale)),
            Value::Temporal { value, data_type } => f.write_str(&iso_8601(*value, data_type)),
            Value::Interval { months, days, nanoseconds } => {
                write!(f, "{months} months {days} days {nanoseconds} ns")
            }
            Value::List(values) => join(f, ('[', ']'), values, |f, value| write!(f, "{value}")),
            Value::Struct(fields) => join(f, ('{', '}'), fields, |f, (name, value)| write!(f, "{name}: {value}")),
            Value::Map(pairs) => join(f, ('{', '}'), pairs, |f, (key, value)| write!(f, "{key}: {value}")),
        }
    }
}

/// All digits of the scale kept; a negative scale as an exponent: `-2.00`, `1.2E+3`.
fn decimal(unscaled: i256, scale: i8) -> String {
    let text = unscaled.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    if scale < 0 {
        let (head, tail) = digits.split_at(1);
        let point = if tail.is_empty() { "" } else { "." };
        let exponent = i64::from(scale.unsigned_abs()) + tail.len() as i64;
        return format!("{sign}{head}{point}{tail}E+{exponent}");
    }
    let places = usize::from(scale.unsigned_abs());
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let point = if places == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// ISO 8601, with as many digits of a second as the value needs (none, 6 or 9). What the calendar
/// can't reach is written as a count with its unit.
fn iso_8601(value: i64, data_type: &DataType) -> String {
    let counted = || format!("{value} {}", unit_name(data_type));
    match data_type {
        DataType::Date32 => at(value.checked_mul(86_400), 0).map(|t| t.format("%Y-%m-%d").to_string()),
        // A date64 counts milliseconds and is to be whole days; what is not is told as a count.
        DataType::Date64 if value % 86_400_000 == 0 => {
            at(Some(value.div_euclid(1000)), 0).map(|t| t.format("%Y-%m-%d").to_string())
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let (seconds, nanos) = split(value, *unit);
            let within_a_day = (0..86_400).contains(&seconds).then_some(seconds);
            at(within_a_day, nanos).map(|t| format!("{}{}", t.format("%H:%M:%S"), fraction(nanos)))
        }
        DataType::Timestamp(unit, zone) => {
            let (seconds, nanos) = split(value, *unit);
            at(Some(seconds), nanos).map(|utc| {
                let digits = fraction(nanos);
                match zone.as_deref() {
                    None => format!("{}{digits}", utc.format("%Y-%m-%dT%H:%M:%S")),
                    Some(zone) => match zone.parse::<Tz>() {
                        Ok(zone) => {
                            let local = zone.from_utc_datetime(&utc.naive_utc());
                            // Before standard time, offsets had seconds.
                            let offset = local.format("%::z").to_string();
                            let offset = offset.strip_suffix(":00").unwrap_or(&offset);
                            format!("{}{digits}{offset}", local.format("%Y-%m-%dT%H:%M:%S"))
                        }
                        Err(_) => format!("{}{digits}+00:00", utc.format("%Y-%m-%dT%H:%M:%S")),
                    },
                }
            })
        }
        _ => None,
    }
    .unwrap_or_else(counted)
}

fn at(seconds: Option<i64>, nanos: u32) -> Option<DateTime<chrono::Utc>> {
    DateTime::UNIX_EPOCH.checked_add_signed(TimeDelta::new(seconds?, nanos)?)
}

/// Whole seconds (rounded down) and the nanoseconds above.
fn split(value: i64, unit: TimeUnit) -> (i64, u32) {
    let per_second: i64 = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let nanos = value.rem_euclid(per_second) * (1_000_000_000 / per_second);
    (value.div_euclid(per_second), u32::try_from(nanos).unwrap_or_default())
}

fn fraction(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        nanos if nanos % 1000 == 0 => format!(".{:06}", nanos / 1000),
        nanos => format!(".{nanos:09}"),
    }
}

fn unit_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Date32 => "days",
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            match unit {
                TimeUnit::Second => "s",
                TimeUnit::Millisecond => "ms",
                TimeUnit::Microsecond => "us",
                TimeUnit::Nanosecond => "ns",
            }
        }
        _ => "ms",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_their_scale() {
        assert_eq!(decimal(i256::from_i128(-200), 2), "-2.00");
        assert_eq!(decimal(i256::from_i128(5), 3), "0.005");
        assert_eq!(decimal(i256::from_i128(12), -2), "1.2E+3");
        assert_eq!(decimal(i256::from_i128(0), 0), "0");
    }

    #[test]
    fn times_beyond_the_calendar_are_counted() {
        let text = |value, data_type| Value::Temporal { value, data_type }.to_string();
        assert_eq!(text(i64::MAX, DataType::Timestamp(TimeUnit::Second, None)), format!("{} s", i64::MAX));
        assert_eq!(text(-1, DataType::Timestamp(TimeUnit::Nanosecond, None)), "1969-12-31T23:59:59.999999999");
        assert_eq!(
            text(0, DataType::Timestamp(TimeUnit::Second, Some("Europe/Paris".into()))),
            "1970-01-01T01:00:00+01:00"
        );
        assert_eq!(
            text(i64::MIN, DataType::Timestamp(TimeUnit::Nanosecond, Some("America/New_York".into()))),
            "1677-09-20T19:16:41.145224192-04:56:02"
        );
        assert_eq!(text(86_400, DataType::Time32(TimeUnit::Second)), "86400 s");
        assert_eq!(text(1, DataType::Date64), "1 ms");
        assert_eq!(text(-86_400_000, DataType::Date64), "1969-12-31");
    }
}
