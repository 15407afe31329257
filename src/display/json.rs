//! A whole tensordict as JSON, written as it is read, so that nothing is held twice.

use std::io::{self, Write};

use tch::{Device, Kind, Tensor};

use crate::dict::{Entry, TensorDict};
use crate::dtype::DType;
use crate::index::written_out;
use crate::tensor::{NonTensorStack, Value};

/// Writes the whole tensordict as one JSON object.
///
/// ```text
/// {"batch_size": [n], "entries": {name: ENTRY, …}}
/// ENTRY = {"kind": "tensor",     "dtype": "int64", "shape": […], "data": [flat, row-major]}
///       | {"kind": "jagged",     "offsets": [n + 1 integers], "values": {"dtype", "shape", "data"}}
///       | {"kind": "non_tensor", "data": [one value per element of the batch]}
///       | {"kind": "dict",       "batch_size": […], "entries": {…}}
///       | {"kind": "dict",       "batch_size": […], "stack_dim": d, "members": [{"batch_size", …}, …]}
/// ```
///
/// The last form is that of a lazy stack, at the root too. Integers, booleans, strings and nulls are JSON's own. Floats are `{"f": "1.5"}` (also `nan`, `inf`,
/// `-inf`), in the shortest form that reads back as the same float64. Other values: `{"bytes": "hex"}`,
/// `{"decimal": "1.50"}`, `{"time": "ISO 8601"}`, `{"duration_us": n}` (`{"duration_ns": n}` where that
/// is no whole number), `{"interval": {"months", "days", "ns"}}`, `{"struct": {…}}`, lists as arrays, maps
/// as arrays of `{"pair": [key, value]}`.
///
/// # Errors
///
/// The writer's; a tensor that libtorch can't copy to the CPU.
pub fn write_json(dict: &TensorDict, writer: &mut dyn Write) -> io::Result<()> {
    writer.write_all(b"{")?;
    write_members(dict, writer)?;
    writer.write_all(b"}")
}

fn write_members(dict: &TensorDict, writer: &mut dyn Write) -> io::Result<()> {
    write!(writer, "\"batch_size\":{:?},", dict.batch_size())?;
    if let Some(dim) = dict.stack_dim() {
        write!(writer, "\"stack_dim\":{dim},\"members\":")?;
        return write_list(dict.members(), writer, write_json);
    }
    writer.write_all(b"\"entries\":{")?;
    for (i, (name, entry)) in dict.items().map_err(io::Error::other)?.iter().enumerate() {
        if i > 0 {
            writer.write_all(b",")?;
        }
        write_string(name, writer)?;
        write!(writer, ":{{\"kind\":\"{}\",", entry.kind())?;
        match entry {
            Entry::Tensor(tensor) => write_tensor(tensor, writer)?,
            Entry::Jagged(jagged) => {
                writer.write_all(b"\"offsets\":")?;
                write_numbers(jagged.offsets(), writer)?;
                writer.write_all(b",\"values\":{")?;
                write_tensor(jagged.values(), writer)?;
                writer.write_all(b"}")?;
            }
            Entry::NonTensor(values) => {
                writer.write_all(b"\"data\":")?;
                write_non_tensor(values, writer)?;
            }
            Entry::Dict(dict) => write_members(dict, writer)?,
        }
        writer.write_all(b"}")?;
    }
    writer.write_all(b"}")
}

fn write_tensor(tensor: &Tensor, writer: &mut dyn Write) -> io::Result<()> {
    let dtype = DType::from(tensor.f_kind().map_err(io::Error::other)?);
    write!(writer, "\"dtype\":\"{dtype}\",\"shape\":{:?},\"data\":", tensor.size())?;
    write_numbers(tensor, writer)
}

/// All numbers of a tensor in row-major order, a part at a time.
fn write_numbers(tensor: &Tensor, writer: &mut dyn Write) -> io::Result<()> {
    const PART: i64 = 1 << 16;
    let flat = tensor.f_reshape([-1]).map_err(io::Error::other)?;
    let count = flat.size()[0];
    writer.write_all(b"[")?;
    let mut start = 0;
    while start < count {
        let length = PART.min(count - start);
        let part = flat.f_narrow(0, start, length).and_then(|part| written_out(&part.f_to_device(Device::Cpu)?));
        write_part(&part.map_err(io::Error::other)?, start > 0, writer)?;
        start += length;
    }
    writer.write_all(b"]")
}

fn write_part(part: &Tensor, mut comma: bool, writer: &mut dyn Write) -> io::Result<()> {
    let mut separate = |writer: &mut dyn Write| {
        if comma {
            writer.write_all(b",")?;
        }
        comma = true;
        io::Result::Ok(())
    };
    let kind = part.f_kind().map_err(io::Error::other)?;
    match kind {
        Kind::Bool => {
            for value in Vec::<bool>::try_from(part).map_err(io::Error::other)? {
                separate(writer)?;
                write!(writer, "{value}")?;
            }
        }
        Kind::Uint8 | Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64 => {
            let wide = part.f_to_kind(Kind::Int64).map_err(io::Error::other)?;
            for value in Vec::<i64>::try_from(wide).map_err(io::Error::other)? {
                separate(writer)?;
                write!(writer, "{value}")?;
            }
        }
        _ => {
            let wide = part.f_to_kind(Kind::Double).map_err(io::Error::other)?;
            for value in Vec::<f64>::try_from(wide).map_err(io::Error::other)? {
                separate(writer)?;
                write_float(value, writer)?;
            }
        }
    }
    Ok(())
}

fn write_float(value: f64, writer: &mut dyn Write) -> io::Result<()> {
    if value.is_nan() { writer.write_all(b"{\"f\":\"nan\"}") } else { write!(writer, "{{\"f\":\"{value:?}\"}}") }
}

fn write_non_tensor(values: &NonTensorStack, writer: &mut dyn Write) -> io::Result<()> {
    writer.write_all(b"[")?;
    for row in 0..values.values().len() {
        if row > 0 {
            writer.write_all(b",")?;
        }
        write_value(&values.value(row).map_err(io::Error::other)?, writer)?;
    }
    writer.write_all(b"]")
}

fn write_value(value: &Value, writer: &mut dyn Write) -> io::Result<()> {
    match value {
        Value::Null => writer.write_all(b"null"),
        Value::Bool(value) => write!(writer, "{value}"),
        Value::Int(value) => write!(writer, "{value}"),
        Value::UInt(value) => write!(writer, "{value}"),
        Value::Float(value) => write_float(*value, writer),
        Value::Text(value) => write_string(value, writer),
        Value::Bytes(bytes) => {
            writer.write_all(b"{\"bytes\":\"")?;
            bytes.iter().try_for_each(|byte| write!(writer, "{byte:02x}"))?;
            writer.write_all(b"\"}")
        }
        Value::Decimal { .. } => write!(writer, "{{\"decimal\":\"{value}\"}}"),
        Value::Temporal { .. } => match value.as_nanoseconds() {
            Some(nanoseconds) if nanoseconds % 1000 == 0 => {
                write!(writer, "{{\"duration_us\":{}}}", nanoseconds / 1000)
            }
            Some(nanoseconds) => write!(writer, "{{\"duration_ns\":{nanoseconds}}}"),
            None => write!(writer, "{{\"time\":\"{value}\"}}"),
        },
        Value::Interval { months, days, nanoseconds } => {
            write!(writer, "{{\"interval\":{{\"months\":{months},\"days\":{days},\"ns\":{nanoseconds}}}}}")
        }
        Value::List(values) => write_list(values, writer, |value, writer| write_value(value, writer)),
        Value::Map(pairs) => write_list(pairs, writer, |(key, value), writer| {
            writer.write_all(b"{\"pair\":[")?;
            write_value(key, writer)?;
            writer.write_all(b",")?;
            write_value(value, writer)?;
            writer.write_all(b"]}")
        }),
        Value::Struct(fields) => {
            writer.write_all(b"{\"struct\":{")?;
            for (i, (name, value)) in fields.iter().enumerate() {
                if i > 0 {
                    writer.write_all(b",")?;
                }
                write_string(name, writer)?;
                writer.write_all(b":")?;
                write_value(value, writer)?;
            }
            writer.write_all(b"}}")
        }
    }
}

fn write_list<T>(
    items: &[T],
    writer: &mut dyn Write,
    write: impl Fn(&T, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    writer.write_all(b"[")?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            writer.write_all(b",")?;
        }
        write(item, writer)?;
    }
    writer.write_all(b"]")
}

fn write_string(text: &str, writer: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(writer, text).map_err(io::Error::other)
}
