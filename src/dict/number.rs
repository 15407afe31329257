//! Numbers in operations on tensors.

use tch::{Kind, Tensor};

use crate::dtype::DType;
use crate::error::{Error, Result};

/// A number in an operation on tensors. As in torch it bends to their dtype: an integer keeps it, a float
/// makes integers `float32`, any makes booleans numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

macro_rules! numbers {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Number {
            fn from(value: $type) -> Self {
                Number::$variant(value.into())
            }
        }
    )*};
}

numbers!(i32 => Int, i64 => Int, f32 => Float, f64 => Float);

// Not as a `tch::Scalar`: a fallible function that gets one panics when it fails, since the scalar is dropped
// before the error is fetched, and its drop takes the error for its own.
impl Number {
    /// A tensor of no dims, in the dtype in which torch computes with `tensor` and a number.
    pub(super) fn beside(self, tensor: &Tensor) -> Result<Tensor> {
        let dtype = DType::from(tensor.f_kind()?);
        let dtype = match (self, dtype) {
            (Number::Int(_), DType::Bool) => DType::Int64,
            (Number::Float(_), DType::Bool) => DType::Float32,
            (Number::Float(_), dtype) if range(dtype).is_some() => DType::Float32,
            (_, dtype) => dtype,
        };
        self.tensor(dtype, tensor)
    }

    /// A tensor of no dims, in the dtype of `tensor`: a float for integers loses what is after its point.
    pub(super) fn cast(self, tensor: &Tensor) -> Result<Tensor> {
        self.tensor(tensor.f_kind()?.into(), tensor)
    }

    fn tensor(self, dtype: DType, like: &Tensor) -> Result<Tensor> {
        let one = match (self, range(dtype)) {
            (Number::Int(value), None) => Tensor::f_from_slice(&[value])?,
            (Number::Float(value), None) => Tensor::f_from_slice(&[value])?,
            (Number::Int(value), Some((low, high))) if (low..=high).contains(&value) => Tensor::f_from_slice(&[value])?,
            // The largest integer plus one is exact as a float, the largest need not be.
            (Number::Float(value), Some((low, high)))
                if value.trunc() >= low as f64 && value.trunc() < high as f64 + 1.0 =>
            {
                Tensor::f_from_slice(&[value as i64])?
            }
            (Number::Int(value), Some(_)) => return Err(too_large(value, dtype)),
            (Number::Float(value), Some(_)) => return Err(too_large(value, dtype)),
        };
        Ok(one.f_squeeze()?.f_to_kind(dtype.kind())?.f_to_device(like.device())?)
    }
}

/// The smallest and largest integer of a dtype of integers.
fn range(dtype: DType) -> Option<(i64, i64)> {
    match dtype.kind() {
        Kind::Uint8 => Some((0, u8::MAX.into())),
        Kind::Int8 => Some((i8::MIN.into(), i8::MAX.into())),
        Kind::Int16 => Some((i16::MIN.into(), i16::MAX.into())),
        Kind::Int => Some((i32::MIN.into(), i32::MAX.into())),
        Kind::Int64 => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}

fn too_large(value: impl std::fmt::Display, dtype: DType) -> Error {
    Error::overflow(format!("{value} can't be held by the tensor's dtype, {dtype}")).remedy("cast it with to_dtype")
}
