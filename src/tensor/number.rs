//! Numbers in operations on tensors.

use tch::{Device, Kind, Tensor};

use crate::dtype::DType;
use crate::error::{Error, Result};

/// A number in an operation on tensors, written as one: `-1`, `0.5`, `f64::NAN`.
///
/// As in torch it bends to their dtype. In arithmetic an integer keeps it, a float makes integers `float32`, any makes
/// booleans numbers. Where integers are filled, a float is cut to one. In `uint8`, negative numbers count from 256: -1
/// is 255.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::{JaggedTensor, Number, PaddingSide};
///
/// let rows = JaggedTensor::from_rows(&[Tensor::from_slice(&[1i8, 2]), Tensor::from_slice(&[3i8])])?;
/// let padded = rows.to_padded(PaddingSide::Right, Number::Float(-1.5), None)?;
/// assert_eq!(Vec::<Vec<i8>>::try_from(padded).unwrap(), [[1, 2], [3, -1]]);
/// assert!(rows.to_padded(PaddingSide::Right, 200, None).unwrap_err().is_overflow());
/// # Ok::<_, tensorquery::Error>(())
/// ```
// tch's `Scalar` is no argument for what may fail: dropped before the error is fetched, it takes the error for its
// own, and panics.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Number {
    /// A tensor of no dims. Fails for a number that the dtype has no room for.
    pub(crate) fn to_tensor(self, kind: Kind, device: Device) -> Result<Tensor> {
        let refused = |value: &dyn std::fmt::Display| {
            let dtype = DType::from(kind);
            Err(Error::overflow(format!("{dtype} can't hold {value}")).remedy("fill with a number that it holds"))
        };
        let held = match kind {
            Kind::Uint8 => -255..=255,
            Kind::Int8 => i64::from(i8::MIN)..=i64::from(i8::MAX),
            Kind::Int16 => i64::from(i16::MIN)..=i64::from(i16::MAX),
            Kind::Int => i64::from(i32::MIN)..=i64::from(i32::MAX),
            _ => i64::MIN..=i64::MAX,
        };
        let integers = matches!(kind, Kind::Uint8 | Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64);
        let filled = match self {
            Number::Int(value) if !held.contains(&value) => return refused(&value),
            Number::Int(value) => Tensor::f_from_slice(&[value])?,
            Number::Float(value) if integers => {
                // 2^63 is the first float that int64 has no room for.
                let counted = value >= i64::MIN as f64 && value < i64::MAX as f64;
                let cut = value as i64;
                if !counted || !held.contains(&cut) {
                    return refused(&value);
                }
                Tensor::f_from_slice(&[cut])?
            }
            Number::Float(value) => Tensor::f_from_slice(&[value])?,
        };
        let filled = filled.f_to_kind(kind)?.f_squeeze_dim(0)?;
        if let (Number::Float(value), Kind::Half | Kind::BFloat16 | Kind::Float) = (self, kind)
            && value.is_finite()
            && !filled.f_double_value(&[])?.is_finite()
        {
            return refused(&value);
        }
        Ok(filled.f_to_device(device)?)
    }
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
