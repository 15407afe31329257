//! Numbers: NaN for floats, 0 for integers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use half::f16;

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
            let length = values.len();
            let mut buffer = into_writable(values.into_inner(), place, work);
            scatter(buffer.typed_data_mut::<T::Native>(), &validity, value);
            ScalarBuffer::new(buffer.into(), 0, length)
        }
    };
    Arc::new(PrimitiveArray::<T>::new(values, None).with_data_type(data_type))
}

/// The buffer itself if it is ours alone, else a copy.
fn into_writable(buffer: Buffer, place: &Place<'_>, work: &mut Work) -> MutableBuffer {
    let cause = Cause::of(&buffer);
    buffer.into_mutable().unwrap_or_else(|shared| {
        work.copied(place.spec, shared.len(), cause);
        let mut copy = MutableBuffer::with_capacity(shared.len());
        copy.extend_from_slice(shared.as_slice());
        copy
    })
}

/// Writes `value` wherever `validity` is unset, 64 rows at a time.
fn scatter<T: Copy>(values: &mut [T], validity: &NullBuffer, value: T) {
    let words = validity.inner().bit_chunks();
    for (word, rows) in words.iter_padded().zip(values.chunks_mut(64)) {
        let mut nulls = !word;
        if rows.len() < 64 {
            nulls &= (1 << rows.len()) - 1;
        }
        while nulls != 0 {
            rows[nulls.trailing_zeros() as usize] = value;
            nulls &= nulls - 1;
        }
    }
}
