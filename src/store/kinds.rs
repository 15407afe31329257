//! Element types by the names that the two forms have for them.

use safetensors::Dtype;
use tch::{Device, Kind, Tensor};

use crate::error::{Error, Result};

/// How a file's elements are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// As they are.
    Plain(Kind),
    /// Unsigned numbers of 2, 4 or 8 bytes, which become wider signed ones.
    Unsigned(usize),
}

const KINDS: [(Kind, &str, Option<Dtype>); 13] = [
    (Kind::Bool, "torch.bool", Some(Dtype::BOOL)),
    (Kind::Uint8, "torch.uint8", Some(Dtype::U8)),
    (Kind::Int8, "torch.int8", Some(Dtype::I8)),
    (Kind::Int16, "torch.int16", Some(Dtype::I16)),
    (Kind::Int, "torch.int32", Some(Dtype::I32)),
    (Kind::Int64, "torch.int64", Some(Dtype::I64)),
    (Kind::Half, "torch.float16", Some(Dtype::F16)),
    (Kind::BFloat16, "torch.bfloat16", Some(Dtype::BF16)),
    (Kind::Float, "torch.float32", Some(Dtype::F32)),
    (Kind::Double, "torch.float64", Some(Dtype::F64)),
    (Kind::ComplexHalf, "torch.complex32", None),
    (Kind::ComplexFloat, "torch.complex64", Some(Dtype::C64)),
    (Kind::ComplexDouble, "torch.complex128", None),
];

const UNSIGNED: [(usize, &str, Dtype); 3] =
    [(2, "torch.uint16", Dtype::U16), (4, "torch.uint32", Dtype::U32), (8, "torch.uint64", Dtype::U64)];

/// torch's name of an element type.
pub(super) fn torch_name(kind: Kind) -> Result<&'static str> {
    let found = KINDS.iter().find(|(known, ..)| *known == kind);
    found.map(|(_, name, _)| *name).ok_or_else(|| unstorable(kind, "a directory"))
}

/// The name of an element type in safetensors.
pub(super) fn safetensors_dtype(kind: Kind) -> Result<Dtype> {
    let found = KINDS.iter().find(|(known, ..)| *known == kind);
    found.and_then(|(.., dtype)| *dtype).ok_or_else(|| unstorable(kind, "safetensors"))
}

fn unstorable(kind: Kind, form: &str) -> Error {
    Error::schema(format!("{form} has no form for tensors of {kind:?}")).remedy("cast it with to_dtype")
}

impl Stored {
    /// The type that torch calls so.
    pub(super) fn of_torch(name: &str) -> Result<Stored> {
        let plain = KINDS.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| Stored::Plain(*kind));
        let unsigned =
            || UNSIGNED.iter().find(|(_, known, _)| *known == name).map(|(size, ..)| Stored::Unsigned(*size));
        plain.or_else(unsigned).ok_or_else(|| Error::file(format!("'{name}' is no dtype that can be read")))
    }

    /// The type that safetensors call so.
    pub(super) fn of_safetensors(dtype: Dtype) -> Result<Stored> {
        let plain = KINDS.iter().find(|(.., known)| *known == Some(dtype)).map(|(kind, ..)| Stored::Plain(*kind));
        let unsigned = || UNSIGNED.iter().find(|(.., known)| *known == dtype).map(|(size, ..)| Stored::Unsigned(*size));
        plain.or_else(unsigned).ok_or_else(|| Error::file(format!("tensors of {dtype} can't be read")))
    }

    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            Stored::Plain(kind) => size_of(kind),
            Stored::Unsigned(size) => size,
        }
    }

    /// As what the bytes are mapped.
    pub(super) fn mapped(self) -> Kind {
        match self {
            Stored::Plain(kind) => kind,
            Stored::Unsigned(2) => Kind::Int16,
            Stored::Unsigned(4) => Kind::Int,
            Stored::Unsigned(_) => Kind::Int64,
        }
    }

    /// The tensor that was mapped as [`mapped`](Self::mapped) says, checked and widened where its type needs it. Only
    /// then is it read.
    pub(super) fn settled(self, tensor: Tensor) -> Result<Tensor> {
        match self {
            Stored::Plain(Kind::Bool) => {
                // Any other byte than 0 and 1 is no boolean, to libtorch's code and to Rust's.
                if tensor.numel() > 0 && tensor.f_view_dtype(Kind::Uint8)?.f_max()?.f_int64_value(&[])? > 1 {
                    return Err(Error::file("a boolean is neither 0 nor 1: the file holds something else"));
                }
                Ok(tensor)
            }
            Stored::Plain(_) => Ok(tensor),
            Stored::Unsigned(2) => lower_bits(&tensor.f_to_kind(Kind::Int)?, 0xffff),
            Stored::Unsigned(4) => lower_bits(&tensor.f_to_kind(Kind::Int64)?, 0xffff_ffff),
            Stored::Unsigned(_) => {
                if tensor.numel() > 0 && tensor.f_min()?.f_int64_value(&[])? < 0 {
                    return Err(Error::overflow(format!("an unsigned number is above {}", i64::MAX)));
                }
                Ok(tensor)
            }
        }
    }
}

fn lower_bits(tensor: &Tensor, mask: i64) -> Result<Tensor> {
    let mask = Tensor::f_from_slice(&[mask])?.f_to_kind(tensor.f_kind()?)?;
    Ok(tensor.f_bitwise_and_tensor(&mask)?)
}

/// Bytes of an element of a type that can be saved.
pub(super) fn size_of(kind: Kind) -> usize {
    match kind {
        Kind::Bool | Kind::Uint8 | Kind::Int8 => 1,
        Kind::Int16 | Kind::Half | Kind::BFloat16 => 2,
        Kind::Int | Kind::Float | Kind::ComplexHalf => 4,
        Kind::ComplexDouble => 16,
        _ => 8,
    }
}

/// The sizes of a file's tensor, its elements and bytes. Nothing is allocated for it.
pub(super) fn extent(shape: &[i64], size: usize) -> Result<(i64, u64)> {
    let numel = shape.iter().try_fold(1i64, |numel, dim| match *dim {
        dim if dim < 0 => None,
        dim => numel.checked_mul(dim),
    });
    // A size of 0 hides others that couldn't be counted without it.
    let countable = shape.iter().try_fold(1i64, |numel, dim| numel.checked_mul((*dim).max(1)));
    let bytes = numel.and_then(|numel| numel.checked_mul(i64::try_from(size).ok()?));
    match (numel, bytes, countable) {
        (Some(numel), Some(bytes), Some(_)) => Ok((numel, bytes.unsigned_abs())),
        _ => Err(Error::file(format!("{shape:?} is no shape of a tensor in a file"))),
    }
}

/// No elements of a shape that has none.
pub(super) fn nothing(shape: &[i64], kind: Kind) -> Result<Tensor> {
    Ok(Tensor::f_zeros(shape, (kind, Device::Cpu))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_agree_with_tch() {
        for (kind, ..) in KINDS {
            assert_eq!(size_of(kind), kind.elt_size_in_bytes(), "{kind:?}");
            assert_eq!(Stored::of_torch(torch_name(kind).unwrap()).unwrap(), Stored::Plain(kind));
            if let Ok(dtype) = safetensors_dtype(kind) {
                assert_eq!(Stored::of_safetensors(dtype).unwrap(), Stored::Plain(kind));
                assert_eq!(dtype.bitsize(), 8 * size_of(kind));
            }
        }
        for (size, name, dtype) in UNSIGNED {
            assert_eq!(Stored::of_torch(name).unwrap(), Stored::of_safetensors(dtype).unwrap());
            assert_eq!(Stored::Unsigned(size).mapped().elt_size_in_bytes(), size);
        }
        assert!(torch_name(Kind::QInt8).is_err() && Stored::of_torch("torch.qint8").is_err());
    }

    #[test]
    fn shapes_are_counted_without_overflow() {
        assert_eq!(extent(&[2, 3], 4).unwrap(), (6, 24));
        assert_eq!(extent(&[], 8).unwrap(), (1, 8));
        assert_eq!(extent(&[0, 5], 8).unwrap(), (0, 0));
        for shape in [vec![-1], vec![i64::MAX, 2], vec![i64::MAX], vec![0, i64::MAX, i64::MAX], vec![1 << 32; 2]] {
            assert!(extent(&shape, 8).unwrap_err().is_file(), "{shape:?}");
        }
    }

    #[test]
    fn unsigned_numbers_widen() {
        let bits = Tensor::from_slice(&[-1i16, 5]);
        assert_eq!(Vec::<i32>::try_from(Stored::Unsigned(2).settled(bits).unwrap()).unwrap(), [65535, 5]);
        let bits = Tensor::from_slice(&[-1i32, 5]);
        assert_eq!(Vec::<i64>::try_from(Stored::Unsigned(4).settled(bits).unwrap()).unwrap(), [4294967295, 5]);
        assert!(Stored::Unsigned(8).settled(Tensor::from_slice(&[-1i64])).unwrap_err().is_overflow());
    }
}
