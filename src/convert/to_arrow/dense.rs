//! Dense tensors → numbers and booleans, in fixed-size lists or not.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeListArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
};
use tch::Tensor;

use super::masks::Valid;
use super::share;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::options::CopyPolicy;
use crate::schema::fixed_shape_field;

/// A tensor `[rows, …]` as a column whose rows or elements are nullable if their validity is given.
pub(super) fn column(
    name: &str,
    tensor: Tensor,
    rows: usize,
    valid: Valid,
    policy: CopyPolicy,
) -> Result<(Field, ArrayRef)> {
    let shape = tensor.size().into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
    let dims = match shape.as_deref() {
        Ok([length, dims @ ..]) if *length == rows => dims,
        _ => {
            // The tensordict saw to it, but another handle may have resized the tensor since.
            let shape = tensor.size();
            return Err(Error::shape(format!("its shape is {shape:?}, but the batch size is [{rows}]")));
        }
    };
    let nullable = valid.rows.is_some();
    if dims.is_empty() {
        let numbers = numbers(tensor, valid.rows, policy)?;
        return Ok((Field::new(name, numbers.data_type().clone(), nullable), numbers));
    }
    let elements_nullable = valid.elements.is_some();
    let numbers = numbers(tensor, valid.elements, policy)?;
    let element = Field::new(Field::LIST_FIELD_DEFAULT_NAME, numbers.data_type().clone(), elements_nullable);
    let field = fixed_shape_field(name, element, dims, nullable)?;
    let DataType::FixedSizeList(element, size) = field.data_type() else {
        return Err(Error::schema(format!("{} is no fixed-size list", field.data_type())));
    };
    let list = FixedSizeListArray::try_new_with_length(Arc::clone(element), *size, numbers, valid.rows, rows)?;
    Ok((field, Arc::new(list)))
}

/// All elements in row-major order.
fn numbers(tensor: Tensor, validity: Option<NullBuffer>, policy: CopyPolicy) -> Result<ArrayRef> {
    let kind = tensor.f_kind().map_err(|error| {
        Error::schema(format!("its dtype has no name here: {}", Error::from(error)))
            .remedy("cast it to one that has, such as int64 or float32")
    })?;
    let dtype = DType::from(kind);
    match dtype {
        DType::Bool => Ok(Arc::new(BooleanArray::new(share::bits(tensor, policy)?, validity))),
        DType::Uint8 => primitive::<UInt8Type>(tensor, dtype, validity, policy),
        DType::Int8 => primitive::<Int8Type>(tensor, dtype, validity, policy),
        DType::Int16 => primitive::<Int16Type>(tensor, dtype, validity, policy),
        DType::Int32 => primitive::<Int32Type>(tensor, dtype, validity, policy),
        DType::Int64 => primitive::<Int64Type>(tensor, dtype, validity, policy),
        DType::Float16 => primitive::<Float16Type>(tensor, dtype, validity, policy),
        DType::Float32 => primitive::<Float32Type>(tensor, dtype, validity, policy),
        DType::Float64 => primitive::<Float64Type>(tensor, dtype, validity, policy),
        DType::Bfloat16 => Err(Error::schema("its dtype is bfloat16, which no Arrow type holds")
            .remedy("cast it to float32, which holds all its values")),
        DType::Other(_) => Err(Error::schema(format!("its dtype is {dtype}, which no Arrow type holds"))
            .remedy("cast it to integers or floats: of complex numbers, view_as_real gives the two parts")),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    tensor: Tensor,
    dtype: DType,
    validity: Option<NullBuffer>,
    policy: CopyPolicy,
) -> Result<ArrayRef> {
    let numbers = ScalarBuffer::<T::Native>::from(share::buffer(tensor, dtype, policy)?);
    Ok(Arc::new(PrimitiveArray::<T>::try_new(numbers, validity)?))
}
