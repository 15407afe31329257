//! Element types, in torch's names.

use std::fmt;

use arrow::datatypes::DataType;
use tch::Kind;

/// The element type of a tensor, in torch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// 8-bit unsigned integer.
    Uint8,
    /// 8-bit signed integer.
    Int8,
    /// 16-bit signed integer.
    Int16,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// IEEE half precision.
    Float16,
    /// IEEE single precision.
    Float32,
    /// IEEE double precision.
    Float64,
    /// The upper half of a single-precision float.
    Bfloat16,
    /// One byte per value, 0 or 1.
    Bool,
    /// A type that tensors can have but no column of a query gives: complex, quantized, 8-bit floats.
    Other(Kind),
}

impl DType {
    /// What an Arrow number becomes. Unsigned 16, 32 and 64 bits widen (64 to signed 64), since
    /// libtorch has hardly a kernel for them. `None` for what is no number or boolean.
    pub(crate) fn of_arrow(data_type: &DataType) -> Option<DType> {
        Some(match data_type {
            DataType::UInt8 => DType::Uint8,
            DataType::Int8 => DType::Int8,
            DataType::Int16 => DType::Int16,
            DataType::Int32 | DataType::UInt16 => DType::Int32,
            DataType::Int64 | DataType::UInt32 | DataType::UInt64 => DType::Int64,
            DataType::Float16 => DType::Float16,
            DataType::Float32 => DType::Float32,
            DataType::Float64 => DType::Float64,
            DataType::Boolean => DType::Bool,
            _ => return None,
        })
    }

    /// Whether it is integers, or booleans, which count as 0 and 1.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, DType::Uint8 | DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 | DType::Bool)
    }

    /// The same type by tch's name.
    pub fn kind(self) -> Kind {
        match self {
            DType::Uint8 => Kind::Uint8,
            DType::Int8 => Kind::Int8,
            DType::Int16 => Kind::Int16,
            DType::Int32 => Kind::Int,
            DType::Int64 => Kind::Int64,
            DType::Float16 => Kind::Half,
            DType::Float32 => Kind::Float,
            DType::Float64 => Kind::Double,
            DType::Bfloat16 => Kind::BFloat16,
            DType::Bool => Kind::Bool,
            DType::Other(kind) => kind,
        }
    }
}

impl From<Kind> for DType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Uint8 => DType::Uint8,
            Kind::Int8 => DType::Int8,
            Kind::Int16 => DType::Int16,
            Kind::Int => DType::Int32,
            Kind::Int64 => DType::Int64,
            Kind::Half => DType::Float16,
            Kind::Float => DType::Float32,
            Kind::Double => DType::Float64,
            Kind::BFloat16 => DType::Bfloat16,
            Kind::Bool => DType::Bool,
            other => DType::Other(other),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::Uint8 => "uint8",
            DType::Int8 => "int8",
            DType::Int16 => "int16",
            DType::Int32 => "int32",
            DType::Int64 => "int64",
            DType::Float16 => "float16",
            DType::Float32 => "float32",
            DType::Float64 => "float64",
            DType::Bfloat16 => "bfloat16",
            DType::Bool => "bool",
            DType::Other(kind) => return write!(f, "{kind:?}"),
        })
    }
}
