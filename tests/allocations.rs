//! What a conversion takes from Rust's allocator. libtorch has its own, so a tensor counts only with the
//! memory that Arrow or this crate allocated for it.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait, PrimitiveArray,
    RecordBatch, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowNativeType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use tch::{Device, Kind, Tensor};
use tensorquery::{Nulls, Options, Receipt, TensorDict, ToArrowOptions, from_arrow_with_receipt, to_arrow};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

thread_local! {
    /// Per thread, since tests run side by side: bytes ever allocated here, and bytes allocated less those freed.
    static TAKEN: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it is, whose contract is this one's. Counting
// allocates nothing: the cells are initialized at compile time and need no destructor, so they are there
// for as long as their thread is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + layout.size());
        HELD.set(HELD.get() + layout.size().cast_signed());
        // SAFETY: the caller vouches for the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size().cast_signed());
        // SAFETY: the caller got `memory` from `alloc` with this layout, so `System` gave it.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Bookkeeping of one column: its spec, its key, the handle on its memory.
const PER_COLUMN: usize = 4096;

struct Cost {
    dict: TensorDict,
    receipt: Receipt,
    /// Bytes that the conversion allocated, whether or not it freed them again.
    taken: usize,
}

/// Converts the one column in a batch that owns it, and sees that dropping the result gives all back.
fn convert(column: impl Fn() -> ArrayRef, nulls: Nulls) -> Cost {
    let options = Options::default().nulls(nulls);
    let convert = || {
        let batch = RecordBatch::try_from_iter_with_nullable([("column", column(), true)]).unwrap();
        let before = TAKEN.get();
        let (dict, receipt) = from_arrow_with_receipt(batch, &options).unwrap();
        Cost { dict, receipt, taken: TAKEN.get() - before }
    };
    // What is set up once per thread or process is no cost of this conversion.
    drop(convert());
    let before = HELD.get();
    drop(convert());
    assert_eq!(HELD.get(), before, "dropping the tensordict gives every byte back");
    convert()
}

/// A column of 1000 rows and one of 100 times as many, each without the `own` bytes that it is meant to
/// cost, cost the same: the bookkeeping of so many columns.
fn check(column: impl Fn(usize) -> ArrayRef, nulls: Nulls, own: impl Fn(usize) -> usize, columns: usize) {
    let [small, large] = [1000, 100_000].map(|rows| {
        let cost = convert(|| column(rows), nulls);
        assert_eq!(cost.receipt.bytes_copied(), own(rows), "{:?}", cost.receipt);
        cost.taken - own(rows)
    });
    assert_eq!(small, large, "independent of the number of rows");
    assert!(small < columns * PER_COLUMN, "{small} bytes");
}

fn numbers<T: ArrowPrimitiveType>(rows: usize) -> ArrayRef {
    let numbers = (0..rows).map(|row| T::Native::usize_as(row % 100));
    Arc::new(PrimitiveArray::<T>::from_iter_values(numbers))
}

fn lists<O: OffsetSizeTrait>(rows: usize) -> ArrayRef {
    let offsets = OffsetBuffer::<O>::from_lengths((0..rows).map(|row| row % 4));
    let values = numbers::<Float32Type>(offsets[rows].as_usize());
    let field = Field::new("item", values.data_type().clone(), false);
    Arc::new(GenericListArray::new(field.into(), offsets, values, None))
}

fn embeddings(rows: usize) -> ArrayRef {
    let values = numbers::<Float32Type>(rows * 8);
    Arc::new(FixedSizeListArray::new(Field::new("item", values.data_type().clone(), false).into(), 8, values, None))
}

fn structs(rows: usize) -> ArrayRef {
    let columns = [numbers::<Int64Type>(rows), lists::<i64>(rows), embeddings(rows)];
    let fields = columns.iter().enumerate();
    let fields: Vec<_> =
        fields.map(|(i, column)| Field::new(i.to_string(), column.data_type().clone(), false)).collect();
    Arc::new(StructArray::new(fields.into(), columns.to_vec(), None))
}

/// Every third row is null.
fn with_nulls<T: ArrowPrimitiveType>(rows: usize) -> ArrayRef {
    let numbers = (0..rows).map(|row| T::Native::usize_as(row % 100)).collect::<Vec<_>>();
    Arc::new(PrimitiveArray::<T>::new(numbers.into(), Some(validity(rows))))
}

fn validity(rows: usize) -> NullBuffer {
    (0..rows).map(|row| row % 3 != 0).collect::<Vec<_>>().into()
}

const NOTHING: fn(usize) -> usize = |_| 0;

#[test]
fn numbers_are_viewed() {
    check(numbers::<Int8Type>, Nulls::Raise, NOTHING, 1);
    check(numbers::<Int16Type>, Nulls::Raise, NOTHING, 1);
    check(numbers::<Int32Type>, Nulls::Raise, NOTHING, 1);
    check(numbers::<Int64Type>, Nulls::Raise, NOTHING, 1);
    check(numbers::<UInt8Type>, Nulls::Raise, NOTHING, 1);
    check(numbers::<UInt64Type>, Nulls::Raise, NOTHING, 1);
    check(numbers::<Float16Type>, Nulls::Raise, NOTHING, 1);
    check(numbers::<Float32Type>, Nulls::Raise, NOTHING, 1);
    check(numbers::<Float64Type>, Nulls::Raise, NOTHING, 1);
}

#[test]
fn nested_columns_are_viewed() {
    check(lists::<i64>, Nulls::Raise, NOTHING, 1);
    check(embeddings, Nulls::Raise, NOTHING, 1);
    check(structs, Nulls::Raise, NOTHING, 4);
}

#[test]
fn short_offsets_are_widened() {
    check(lists::<i32>, Nulls::Raise, |rows| (rows + 1) * size_of::<i64>(), 1);
}

#[test]
fn wider_numbers_cost_their_bytes() {
    check(numbers::<UInt16Type>, Nulls::Raise, |rows| rows * size_of::<i32>(), 1);
    check(numbers::<UInt32Type>, Nulls::Raise, |rows| rows * size_of::<i64>(), 1);
}

#[test]
fn booleans_cost_a_byte_each() {
    check(|rows| Arc::new(BooleanArray::from(vec![true; rows])), Nulls::Raise, |rows| rows, 1);
}

#[test]
fn nulls_are_filled_in_place() {
    check(with_nulls::<Int64Type>, Nulls::Fill, NOTHING, 1);
    check(with_nulls::<Float32Type>, Nulls::Fill, NOTHING, 1);
    let cost = convert(|| with_nulls::<Int64Type>(100), Nulls::Fill);
    assert_eq!(cost.receipt.columns[0].filled, 34);
}

#[test]
fn masks_cost_a_byte_a_row() {
    check(with_nulls::<Int64Type>, Nulls::Mask, |rows| rows, 2);
    check(with_nulls::<Float32Type>, Nulls::Mask, |rows| rows, 2);
    let cost = convert(|| with_nulls::<Float32Type>(100), Nulls::Mask);
    assert_eq!(cost.dict.tensor(["_mask", "column"]).unwrap().size(), [100]);
}

/// Bytes that the way back allocates for a tensordict of one column.
fn cost_of_the_way_back(dict: impl Fn() -> TensorDict) -> usize {
    let options = ToArrowOptions::default().mask_key("_mask");
    drop(to_arrow(dict(), &options).unwrap());
    let dict = dict();
    let before = TAKEN.get();
    let batch = to_arrow(dict, &options).unwrap();
    let taken = TAKEN.get() - before;
    drop(batch);
    taken
}

#[test]
fn the_way_back_takes_nothing_for_rows() {
    let from_libtorch = |rows: usize| {
        let rows = i64::try_from(rows).unwrap();
        let mut dict = TensorDict::new([rows]);
        dict.set("column", Tensor::ones([rows, 4], (Kind::Float, Device::Cpu))).unwrap();
        dict
    };
    let from_arrow = |column: fn(usize) -> ArrayRef| move |rows| convert(|| column(rows), Nulls::Raise).dict;
    let dicts: [Box<dyn Fn(usize) -> TensorDict>; 4] = [
        Box::new(from_libtorch),
        Box::new(from_arrow(numbers::<Int64Type>)),
        Box::new(from_arrow(embeddings)),
        Box::new(from_arrow(lists::<i64>)),
    ];
    for dict in dicts {
        let [small, large] = [1000, 100_000].map(|rows| cost_of_the_way_back(|| dict(rows)));
        assert_eq!(small, large);
        assert!(small < PER_COLUMN, "{small} bytes");
    }
}

#[test]
fn a_validity_costs_a_bit_a_row() {
    let [small, large] = [1024usize, 102_400].map(|rows| {
        let taken = cost_of_the_way_back(|| convert(|| with_nulls::<Int64Type>(rows), Nulls::Mask).dict);
        taken - rows / 8
    });
    assert_eq!(small, large);
}
