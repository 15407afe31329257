//! Numbers: NaN for floats, 0 for integers.

use std::hint::select_unpredictable;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use half::f16;

use super::bits::{unpack, vectorized};
use super::{Cause, Place, Work, union};
use crate::error::{Error, Result};

pub(super) fn rule(array: ArrayRef, above: Option<NullBuffer>, place: &Place<'_>, work: &mut Work) -> Result<ArrayRef> {
    place.check(array.nulls())?;
    match array.data_type() {
        DataType::Int8 => Ok(fill::<Int8Type>(array, above, 0, place, work)),
        DataType::Int16 => Ok(fill::<Int16Type>(array, above, 0, place, work)),
        DataType::Int32 => Ok(fill::<Int32Type>(array, above, 0, place, work)),
        DataType::Int64 => Ok(fill::<Int64Type>(array, above, 0, place, work)),
        DataType::UInt8 => Ok(fill::<UInt8Type>(array, above, 0, place, work)),
        DataType::UInt16 => Ok(fill::<UInt16Type>(array, above, 0, place, work)),
        DataType::UInt32 => Ok(fill::<UInt32Type>(array, above, 0, place, work)),
        DataType::UInt64 => Ok(fill::<UInt64Type>(array, above, 0, place, work)),
        DataType::Float16 => Ok(fill::<Float16Type>(array, above, f16::NAN, place, work)),
        DataType::Float32 => Ok(fill::<Float32Type>(array, above, f32::NAN, place, work)),
        DataType::Float64 => Ok(fill::<Float64Type>(array, above, f64::NAN, place, work)),
        other => Err(Error::schema(format!("{other} is no number")).at(&place.spec.key)),
    }
}

fn fill<T: ArrowPrimitiveType>(
    array: ArrayRef,
    above: Option<NullBuffer>,
    value: T::Native,
    place: &Place<'_>,
    work: &mut Work,
) -> ArrayRef {
    if array.nulls().is_none() && above.is_none() {
        return array;
    }
    let primitive = array.as_primitive::<T>().clone();
    // Our clone must be the only owner for the buffer to be filled in place.
    drop(array);
    let (data_type, values, nulls) = primitive.into_parts();
    let values = match union(above.as_ref(), nulls.as_ref()) {
        None => values,
        Some(validity) => {
            work.filled(place.spec, validity.null_count());
            let values = values.into_inner();
            let cause = Cause::of(&values);
            match values.into_mutable() {
                // Nobody else sees the buffer.
                Ok(mut owned) => {
                    let numbers = owned.typed_data_mut::<T::Native>();
                    vectorized(
                        #[inline(always)]
                        || fill_in_place(numbers, &validity, value),
                    );
                    ScalarBuffer::new(owned.into(), 0, validity.len())
                }
                Err(shared) => {
                    work.copied(place.spec, shared.len(), cause);
                    let numbers = shared.typed_data::<T::Native>();
                    ScalarBuffer::from(vectorized(
                        #[inline(always)]
                        || filled_copy(numbers, &validity, value),
                    ))
                }
            }
        }
    };
    Arc::new(PrimitiveArray::<T>::new(values, None).with_data_type(data_type))
}

/// Writes `value` wherever `validity` is unset.
#[inline(always)]
fn fill_in_place<T: Copy>(values: &mut [T], validity: &NullBuffer, value: T) {
    let valid = validity.inner().bit_chunks();
    let (chunks, rest) = values.as_chunks_mut::<64>();
    for (chunk, word) in chunks.iter_mut().zip(valid.iter()) {
        match word {
            u64::MAX => {}
            0 => chunk.fill(value),
            _ => chunk.iter_mut().zip(unpack(word)).for_each(|(number, valid)| *number = pick(valid, *number, value)),
        }
    }
    for (number, valid) in rest.iter_mut().zip(unpack(valid.remainder_bits())) {
        *number = pick(valid, *number, value);
    }
}

/// The same in a copy, which goes over the memory once.
#[inline(always)]
fn filled_copy<T: Copy>(values: &[T], validity: &NullBuffer, value: T) -> Vec<T> {
    const WORDS: usize = 8;
    let mut words = validity.inner().bit_chunks().iter_padded();
    let mut valid = [[0; 64]; WORDS];
    let mut copy = Vec::with_capacity(values.len());
    for block in values.chunks(64 * WORDS) {
        for (bytes, word) in valid.iter_mut().zip(&mut words) {
            *bytes = unpack(word);
        }
        copy.extend(block.iter().zip(valid.as_flattened()).map(|(number, valid)| pick(*valid, *number, value)));
    }
    copy
}

/// The number if it is valid, else `value`, without a branch, which nulls at random would mispredict.
#[inline(always)]
fn pick<T>(valid: u8, number: T, value: T) -> T {
    select_unpredictable(valid == 1, number, value)
}
