//! Numbers and booleans, in fixed-size lists or not → dense tensors.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::buffer::MutableBuffer;
use arrow::datatypes::{
    ArrowNativeType, DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use tch::Tensor;

use super::{Wrap, boolean};
use crate::convert::receipt::CopyReason;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ffi;
use crate::options::Unsigned;
use crate::schema::Elements;

/// A tensor `[rows, …]`. `row_of` gives the row of a number by its place, for errors.
pub(super) fn wrap(
    chunks: Vec<ArrayRef>,
    elements: &Elements,
    rows: i64,
    unsigned: Unsigned,
    wrap: &mut Wrap,
    row_of: &dyn Fn(usize) -> usize,
) -> Result<Tensor> {
    let dims = elements.physical.iter().map(|dim| i64::try_from(*dim));
    let mut shape = vec![rows];
    for dim in dims {
        shape.push(dim.map_err(|_| Error::shape("a dim is larger than a tensor can count"))?);
    }
    let chunks: Vec<ArrayRef> = chunks.into_iter().map(numbers_of).collect();
    let Some(data_type) = chunks.first().map(|chunk| chunk.data_type().clone()) else {
        return Ok(Tensor::f_zeros(&shape, (elements.dtype.kind(), tch::Device::Cpu))?);
    };
    let tensor = match data_type {
        DataType::Boolean => {
            let bits: Vec<_> = chunks.iter().map(|chunk| chunk.as_boolean().values().clone()).collect();
            wrap.copies(CopyReason::Unpacked)?;
            boolean::unpack(&bits, &shape, wrap)?
        }
        DataType::Int8 => same::<Int8Type>(chunks, elements.dtype, &shape, wrap)?,
        DataType::Int16 => same::<Int16Type>(chunks, elements.dtype, &shape, wrap)?,
        DataType::Int32 => same::<Int32Type>(chunks, elements.dtype, &shape, wrap)?,
        DataType::Int64 => same::<Int64Type>(chunks, elements.dtype, &shape, wrap)?,
        DataType::UInt8 => same::<UInt8Type>(chunks, elements.dtype, &shape, wrap)?,
        DataType::Float16 => same::<Float16Type>(chunks, elements.dtype, &shape, wrap)?,
        DataType::Float32 => same::<Float32Type>(chunks, elements.dtype, &shape, wrap)?,
        DataType::Float64 => same::<Float64Type>(chunks, elements.dtype, &shape, wrap)?,
        DataType::UInt16 => widen::<UInt16Type, i32>(&chunks, elements.dtype, &shape, wrap)?,
        DataType::UInt32 => widen::<UInt32Type, i64>(&chunks, elements.dtype, &shape, wrap)?,
        DataType::UInt64 => {
            if unsigned == Unsigned::Check {
                check_unsigned(&chunks, row_of)?;
            }
            // The same bits, read as signed.
            same::<UInt64Type>(chunks, elements.dtype, &shape, wrap)?
        }
        other => return Err(Error::schema(format!("{other} is no number"))),
    };
    if elements.permutation.is_sorted() {
        return Ok(tensor);
    }
    let permutation = elements.permutation.iter().map(|dim| i64::try_from(dim + 1).unwrap_or_default());
    Ok(tensor.f_permute([0].into_iter().chain(permutation).collect::<Vec<_>>())?)
}

/// The numbers inside fixed-size lists of any depth. The array is consumed, so that the innermost
/// buffer has no owner but the result.
fn numbers_of(mut array: ArrayRef) -> ArrayRef {
    while let DataType::FixedSizeList(_, size) = array.data_type() {
        let numbers = array.len() * usize::try_from(*size).unwrap_or_default();
        let list = array.as_fixed_size_list().clone();
        drop(array);
        let (_, _, values, _) = list.into_parts();
        array = if values.len() == numbers { values } else { values.slice(0, numbers) };
    }
    array
}

/// Numbers whose bits are the tensor's.
fn same<T: ArrowPrimitiveType>(chunks: Vec<ArrayRef>, dtype: DType, shape: &[i64], wrap: &mut Wrap) -> Result<Tensor> {
    let array = match <[ArrayRef; 1]>::try_from(chunks) {
        Ok([array]) => array,
        Err(chunks) => return join::<T>(chunks, dtype, shape, wrap),
    };
    let primitive = array.as_primitive::<T>().clone();
    // Our clone must be the only owner of the buffer for it to be viewed.
    drop(array);
    let (_, values, _) = primitive.into_parts();
    let owned = match wrap.own(values.into_inner())? {
        Ok(owned) => owned,
        Err(shared) => {
            wrap.copied(shared.len());
            let mut copy = MutableBuffer::with_capacity(shared.len());
            copy.extend_from_slice(shared.as_slice());
            copy
        }
    };
    ffi::tensor_over(owned, dtype, shape)
}

fn join<T: ArrowPrimitiveType>(chunks: Vec<ArrayRef>, dtype: DType, shape: &[i64], wrap: &mut Wrap) -> Result<Tensor> {
    wrap.copies(CopyReason::Chunked)?;
    let total = chunks.iter().map(|chunk| chunk.len()).sum::<usize>() * size_of::<T::Native>();
    wrap.copied(total);
    let mut joined = MutableBuffer::with_capacity(total);
    for chunk in chunks {
        joined.extend_from_slice(chunk.as_primitive::<T>().values());
    }
    ffi::tensor_over(joined, dtype, shape)
}

fn widen<T: ArrowPrimitiveType, W: ArrowNativeType + From<T::Native>>(
    chunks: &[ArrayRef],
    dtype: DType,
    shape: &[i64],
    wrap: &mut Wrap,
) -> Result<Tensor> {
    wrap.copies(CopyReason::Widened)?;
    let total = chunks.iter().map(|chunk| chunk.len()).sum::<usize>();
    wrap.copied(total * size_of::<W>());
    let mut wide: Vec<W> = Vec::with_capacity(total);
    for chunk in chunks {
        wide.extend(chunk.as_primitive::<T>().values().iter().map(|number| W::from(*number)));
    }
    ffi::tensor_over(MutableBuffer::from(wide), dtype, shape)
}

fn check_unsigned(chunks: &[ArrayRef], row_of: &dyn Fn(usize) -> usize) -> Result<()> {
    let mut before = 0;
    for chunk in chunks {
        let numbers = chunk.as_primitive::<UInt64Type>().values();
        let all = numbers.iter().fold(0, |bits, number| bits | number);
        if all > i64::MAX as u64 {
            let at = numbers.iter().position(|number| *number > i64::MAX as u64).unwrap_or_default();
            return Err(Error::overflow(format!("{} is larger than int64 holds", numbers[at]))
                .at_row(row_of(before + at))
                .remedy("cast the column to a decimal, string or float, or set unsigned=reinterpret"));
        }
        before += numbers.len();
    }
    Ok(())
}
