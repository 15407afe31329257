//! Arrays between two implementations of Arrow, arrow-rs and polars-arrow, through the C Data Interface.
//!
//! Both have its struct, `struct ArrowArray` of Arrow's specification ("The Arrow C data interface"), under names
//! of their own. An exported array keeps its memory until the struct's `release` is called, which whoever holds the
//! struct last does once. So handing an array over is handing that struct over. Types are handed over as values, by
//! the table in `c_types.rs`, since names in the schema's struct can't hold every string.

use std::mem;
use std::ptr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, NullArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;
use arrow::ffi::{FFI_ArrowArray, from_ffi_and_data_type};
use polars_arrow::array as theirs;
use polars_arrow::bitmap::Bitmap;
use polars_arrow::ffi::{ArrowArray, export_array_to_c, import_array_from_c};
use polars_arrow::types::NativeType;

use super::c_types::{arrow_type, polars_type};
use crate::error::{Error, Result};

// Both are the specification's struct, so they have its size and alignment.
const _: () = assert!(size_of::<ArrowArray>() == size_of::<FFI_ArrowArray>());
const _: () = assert!(align_of::<ArrowArray>() == align_of::<FFI_ArrowArray>());

/// The array as arrow-rs has it, over the same memory, which it doesn't own alone.
///
/// # Errors
///
/// A [schema](Error::is_schema) error for a type that arrow-rs lacks.
pub(crate) fn from_polars_array(array: Box<dyn theirs::Array>) -> Result<ArrayRef> {
    let data_type = arrow_type(array.dtype())?;
    if data_type == DataType::Null {
        // polars-arrow gives it the buffer that the specification says it hasn't.
        return Ok(Arc::new(NullArray::new(array.len())));
    }
    let mut exported = export_array_to_c(array);
    // SAFETY: "the pointer must point to a valid FFI_ArrowArray" (from_raw, arrow-data 59.3): polars-arrow's
    // `ArrowArray` is `#[repr(C)]` with the fields of the specification in its order, as is `FFI_ArrowArray`; the
    // size and alignment are asserted above. `from_raw` moves the struct out and leaves a released one, whose
    // drop does nothing, so `release` is called once, by the new owner. Tests: `numbers_share_memory`,
    // `released_once`.
    let array = unsafe { FFI_ArrowArray::from_raw((&raw mut exported).cast::<FFI_ArrowArray>()) };
    // SAFETY: "This struct assumes that the incoming data agrees with the C data interface": it was exported a line
    // ago, and `data_type` is what `arrow_type` says of that very array's type, children included: one
    // type of the specification under both names. Tests: `every_type_comes_and_goes`, `slices`.
    let data = unsafe { from_ffi_and_data_type(array, data_type) }?;
    Ok(make_array(data))
}

/// The array as polars-arrow has it, over the same memory.
///
/// # Errors
///
/// A [schema](Error::is_schema) error for a type that polars-arrow lacks, an [engine](Error::is_engine) error if it
/// can't import the array.
pub(crate) fn to_polars_array(array: &dyn Array) -> Result<Box<dyn theirs::Array>> {
    let data_type = polars_type(array.data_type())?;
    let exported = FFI_ArrowArray::new(&array.to_data());
    // SAFETY: the same struct under two names, see above. It is read once, and the original forgotten, so there is
    // one owner. Tests: `numbers_share_memory`, `released_once`.
    let moved = unsafe { ptr::read((&raw const exported).cast::<ArrowArray>()) };
    mem::forget(exported);
    // SAFETY: "relies on a ArrowArray being valid according to the C data interface" (polars-arrow 0.55): arrow-rs
    // exported it a line ago, and `data_type` is what `polars_type` says of that very array's type. What
    // arrow-rs exports never changes (`Buffer` is immutable), as polars-arrow's shared buffers demand. Tests:
    // `every_type_comes_and_goes`, `slices`.
    unsafe { import_array_from_c(moved, data_type) }.map_err(Error::engine)
}

/// Numbers that others hold as well, as a buffer over the same memory.
///
/// # Errors
///
/// None, as long as `T` is a type of arrow-rs too.
pub(crate) fn from_polars_numbers<T: NativeType>(values: theirs::PrimitiveArray<T>) -> Result<Buffer> {
    let length = values.len() * size_of::<T>();
    let data = from_polars_array(Box::new(values))?.to_data();
    let buffer = data.buffers().first().ok_or_else(|| Error::schema("numbers came without their memory"))?;
    Ok(buffer.slice_with_length(data.offset() * size_of::<T>(), length))
}

/// Validity over the same memory.
///
/// # Errors
///
/// Only if the C Data Interface fails.
pub(crate) fn from_polars_validity(validity: Option<Bitmap>) -> Result<Option<NullBuffer>> {
    let Some(bits) = validity.filter(|bits| bits.unset_bits() > 0) else {
        return Ok(None);
    };
    let bits = theirs::BooleanArray::new(polars_arrow::datatypes::ArrowDataType::Boolean, bits, None);
    let bits = from_polars_array(Box::new(bits))?;
    Ok(bits.as_boolean_opt().map(|bits| NullBuffer::new(bits.values().clone())))
}

/// Validity over the same memory, the other way.
///
/// # Errors
///
/// Only if the C Data Interface fails.
pub(crate) fn to_polars_validity(validity: Option<&NullBuffer>) -> Result<Option<Bitmap>> {
    let Some(validity) = validity.filter(|validity| validity.null_count() > 0) else {
        return Ok(None);
    };
    let bits = to_polars_array(&BooleanArray::new(BooleanBuffer::clone(validity.inner()), None))?;
    Ok(bits.as_any().downcast_ref::<theirs::BooleanArray>().map(|bits| bits.values().clone()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BinaryArray, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, Int64Array, LargeListArray, ListArray,
        StringArray, StringViewArray, StructArray, new_empty_array,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::compute::cast;
    use arrow::datatypes::{Field, Int32Type, Int64Type, TimeUnit};

    use super::*;

    fn numbers() -> ArrayRef {
        Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4), None, Some(6)]))
    }

    fn item(data_type: &DataType) -> Arc<Field> {
        Arc::new(Field::new("item", data_type.clone(), true))
    }

    /// Six rows of each type that both crates have.
    fn arrays() -> Vec<ArrayRef> {
        let words = ["a", "", "longer than twelve bytes", "é", "b", "another that is longer"];
        let words = words.iter().enumerate().map(|(row, word)| (row != 3).then_some(*word)).collect::<Vec<_>>();
        let list = |offsets: Vec<i64>| {
            let offsets = OffsetBuffer::new(offsets.into());
            LargeListArray::new(
                item(&DataType::Int64),
                offsets,
                numbers(),
                Some(vec![true, true, false, true, true, true].into()),
            )
        };
        let fields = vec![Field::new("x", DataType::Int64, true), Field::new("b", DataType::Boolean, true)];
        let booleans: ArrayRef =
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true), Some(true), None]));
        let validity = Some(vec![true, false, true, true, true, true].into());
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(NullArray::new(6)),
            Arc::clone(&booleans),
            Arc::new(StringArray::from(words.clone())),
            Arc::new(StringViewArray::from(words.clone())),
            Arc::new(BinaryArray::from_iter(words.iter().map(|word| word.map(str::as_bytes)))),
            Arc::new(FixedSizeBinaryArray::try_from_iter((0..6u8).map(|byte| [byte; 3])).unwrap()),
            Arc::new(list(vec![0, 0, 2, 2, 3, 5, 6])),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                (0..6).map(|row| Some(vec![Some(row); row as usize])),
            )),
            Arc::new(FixedSizeListArray::new(item(&DataType::Int64), 1, numbers(), validity.clone())),
            Arc::new(StructArray::new(fields.into(), vec![numbers(), booleans], validity)),
            Arc::new(["a", "b", "a", "c", "b", "a"].into_iter().collect::<DictionaryArray<Int32Type>>()),
        ];
        let numbers = numbers();
        for data_type in [
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Float16,
            DataType::Float32,
            DataType::Float64,
            DataType::LargeUtf8,
            DataType::Date64,
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Duration(TimeUnit::Microsecond),
            DataType::Timestamp(TimeUnit::Millisecond, Some("Europe/Berlin".into())),
            DataType::Decimal128(20, 2),
        ] {
            arrays.push(cast(&numbers, &data_type).unwrap());
        }
        arrays.push(cast(&cast(&numbers, &DataType::Int32).unwrap(), &DataType::Date32).unwrap());
        arrays
    }

    /// There and back. 32-bit offsets and other widths that Polars doesn't keep come back only from itself.
    fn there_and_back(array: &ArrayRef) -> Option<ArrayRef> {
        let theirs = to_polars_array(array).unwrap();
        assert_eq!((theirs.len(), theirs.null_count()), (array.len(), array.logical_null_count()), "{array:?}");
        from_polars_array(theirs).ok()
    }

    #[test]
    fn every_type_comes_and_goes() {
        let mut back = 0;
        for array in arrays() {
            if let Some(again) = there_and_back(&array) {
                assert_eq!(&again, &array);
                again.to_data().validate_full().unwrap();
                back += 1;
            }
            // No rows at all.
            assert_eq!(to_polars_array(&new_empty_array(array.data_type())).unwrap().len(), 0);
        }
        assert_eq!(back, 22);
    }

    #[test]
    fn slices() {
        for array in arrays() {
            for (start, length) in [(0, 6), (1, 3), (3, 3), (5, 1), (2, 0)] {
                let slice = array.slice(start, length);
                if let Some(again) = there_and_back(&slice) {
                    assert_eq!(&again, &slice, "{start} {length}");
                    again.to_data().validate_full().unwrap();
                }
                // Sliced over there.
                let theirs = to_polars_array(&array).unwrap().sliced(start, length);
                if let Ok(again) = from_polars_array(theirs) {
                    assert_eq!(&again, &slice, "{start} {length}");
                }
            }
        }
    }

    #[test]
    fn numbers_share_memory() {
        let source = Int64Array::from(vec![1, 2, 3]);
        let address = source.values().as_ptr().addr();
        let theirs = to_polars_array(&source).unwrap();
        let values = theirs.as_any().downcast_ref::<theirs::PrimitiveArray<i64>>().unwrap().clone();
        assert_eq!(values.values().as_ptr().addr(), address);
        let again = from_polars_array(theirs).unwrap();
        assert_eq!(again.as_primitive::<Int64Type>().values().as_ptr().addr(), address);
        let part = from_polars_numbers(values.clone().sliced(1, 2)).unwrap();
        assert_eq!((part.as_ptr().addr(), part.typed_data::<i64>()), (address + 8, [2, 3].as_slice()));
        // Neither side lets what others hold be written.
        assert!(part.into_mutable().is_err());
        assert!(values.into_inner().1.into_mut().is_left());
    }

    #[test]
    fn released_once() {
        // Under the address and leak sanitizers a second release or a leak is reported.
        for _ in 0..1000 {
            for array in [numbers(), Arc::new(StringViewArray::from(vec!["longer than twelve bytes"; 3]))] {
                let again = there_and_back(&array).unwrap();
                drop(array);
                let thread = std::thread::spawn(move || again.len());
                assert!(thread.join().unwrap() > 2);
            }
        }
        let values = vec![1i64, 2, 3];
        let address = values.as_ptr().addr();
        let buffer = from_polars_numbers(theirs::PrimitiveArray::from_vec(values)).unwrap();
        assert_eq!((buffer.as_ptr().addr(), buffer.typed_data::<i64>()), (address, [1, 2, 3].as_slice()));
    }

    #[test]
    fn validity_keeps_its_bits() {
        let nulls = NullBuffer::from((0..100).map(|row| row % 3 != 0).collect::<Vec<_>>());
        for (start, length) in [(0, 100), (1, 70), (9, 3), (64, 36)] {
            let part = nulls.slice(start, length);
            let theirs = to_polars_validity(Some(&part)).unwrap();
            assert_eq!(theirs.as_ref().unwrap().iter().collect::<Vec<_>>(), part.iter().collect::<Vec<_>>());
            assert_eq!(from_polars_validity(theirs).unwrap(), Some(part));
        }
        assert!(to_polars_validity(Some(&NullBuffer::new_valid(3))).unwrap().is_none());
        assert!(from_polars_validity(Some(Bitmap::new_with_value(true, 3))).unwrap().is_none());
    }

    #[test]
    fn types_that_one_side_lacks() {
        let wide = theirs::PrimitiveArray::from_vec(vec![1i128]);
        assert!(from_polars_array(Box::new(wide)).unwrap_err().is_schema());
        let list = cast(&numbers(), &DataType::ListView(item(&DataType::Int64)));
        let unfit: [ArrayRef; 2] = [
            list.unwrap_or_else(|_| new_empty_array(&DataType::ListView(item(&DataType::Int64)))),
            new_empty_array(&DataType::Decimal128(10, -2)),
        ];
        for array in unfit {
            assert!(to_polars_array(&array).unwrap_err().is_schema());
        }
    }
}
