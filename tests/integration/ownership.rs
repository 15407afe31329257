//! When a tensor is the Arrow buffer itself, and that nobody sees it being written.

use std::sync::{Arc, Weak};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, FixedSizeListArray, Float32Array, Int32Array, Int64Array,
    LargeListArray, LargeStringArray, ListArray, PrimitiveArray, RecordBatch, StringArray, StringViewArray,
    StructArray, UInt32Array, UInt64Array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Fields, Int32Type, Int64Type, ToByteSlice, UInt64Type};
use bytes::Bytes;
use tch::Tensor;
use tensorquery::{
    ColumnReceipt, CopyPolicy, CopyReason, NestedKey, Nulls, Options, TensorDict, from_arrow, from_arrow_chunks,
    from_arrow_with_receipt,
};

use crate::show::{column, column_of, show, tensor_field};

fn address<T: ArrowPrimitiveType>(array: &dyn Array) -> usize {
    array.as_primitive::<T>().values().as_ptr().addr()
}

fn address_of(tensor: &Tensor) -> usize {
    tensor.data_ptr().addr()
}

fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, true))
}

/// The result, and what was done to the column at `key`.
fn receipt(batch: RecordBatch, options: &Options, key: impl Into<NestedKey>) -> (TensorDict, ColumnReceipt) {
    let (dict, receipt) = from_arrow_with_receipt(batch, options).unwrap();
    let key = key.into();
    let column = receipt.columns.iter().find(|column| column.key == key).unwrap();
    (dict, column.clone())
}

fn viewed(key: impl Into<NestedKey>, bytes: usize) -> ColumnReceipt {
    ColumnReceipt { key: key.into(), viewed: bytes, copied: 0, reason: None, filled: 0 }
}

fn copied(key: impl Into<NestedKey>, bytes: usize, reason: CopyReason) -> ColumnReceipt {
    ColumnReceipt { key: key.into(), viewed: 0, copied: bytes, reason: Some(reason), filled: 0 }
}

fn refused(batch: RecordBatch, options: Options, reason: CopyReason) {
    let error = from_arrow(batch, &options.copy(CopyPolicy::Never)).unwrap_err();
    assert!(error.is_copy() && error.nested_key() == Some(&"c".into()), "{error}");
    let text = format!("'c': a copy is needed, since {reason}, and copy=never forbids it; use copy=auto");
    assert_eq!(error.to_string(), text);
}

fn large_list(values: ArrayRef, offsets: Vec<i64>) -> LargeListArray {
    LargeListArray::new(item(values.data_type().clone()), OffsetBuffer::new(offsets.into()), values, None)
}

#[test]
fn unique_numbers_are_viewed() {
    let array = Int64Array::from(vec![1, 2, 3]);
    let at = address::<Int64Type>(&array);
    for policy in [CopyPolicy::Auto, CopyPolicy::Never] {
        let array = Int64Array::from(vec![1, 2, 3]);
        let at = address::<Int64Type>(&array);
        let (dict, done) = receipt(column(Arc::new(array)), &Options::default().copy(policy), "c");
        assert_eq!(address_of(&dict.tensor("c").unwrap()), at);
        assert_eq!(done, viewed("c", 24));
    }
    let (dict, done) = receipt(column(Arc::new(array)), &Options::default().copy(CopyPolicy::Always), "c");
    assert_ne!(address_of(&dict.tensor("c").unwrap()), at);
    assert_eq!(done, copied("c", 24, CopyReason::Asked));

    let array = UInt64Array::from(vec![1, 2, 3]);
    let at = address::<UInt64Type>(&array);
    let dict = from_arrow(column(Arc::new(array)), &Options::default()).unwrap();
    assert_eq!(address_of(&dict.tensor("c").unwrap()), at);
}

#[test]
fn unique_lists_are_viewed() {
    let numbers = Int64Array::from(vec![1, 2, 3]);
    let at = address::<Int64Type>(&numbers);
    let list = large_list(Arc::new(numbers), vec![0, 2, 3]);
    let offsets_at = list.value_offsets().as_ptr().addr();
    let (dict, done) = receipt(column(Arc::new(list)), &Options::default().copy(CopyPolicy::Never), "c");
    let jagged = dict.jagged("c").unwrap();
    assert_eq!((address_of(jagged.values()), address_of(jagged.offsets())), (at, offsets_at));
    assert_eq!(done, viewed("c", 48));

    // Offsets of 32 bits widen, the values are viewed all the same.
    let list = || {
        let numbers = Int64Array::from(vec![1, 2, 3]);
        let at = address::<Int64Type>(&numbers);
        let offsets = OffsetBuffer::new(vec![0, 2, 3].into());
        (at, column(Arc::new(ListArray::new(item(DataType::Int64), offsets, Arc::new(numbers), None))))
    };
    let (at, batch) = list();
    let (dict, done) = receipt(batch, &Options::default(), "c");
    assert_eq!(address_of(dict.jagged("c").unwrap().values()), at);
    assert_eq!(done, ColumnReceipt { copied: 24, reason: Some(CopyReason::Widened), ..viewed("c", 24) });
    refused(list().1, Options::default(), CopyReason::Widened);
}

#[test]
fn unique_fixed_size_rows_and_struct_fields_are_viewed() {
    let numbers = Int32Array::from_iter_values(0..12);
    let at = address::<Int32Type>(&numbers);
    let pairs = FixedSizeListArray::new(item(DataType::Int32), 2, Arc::new(numbers), None);
    let triples = FixedSizeListArray::new(item(pairs.data_type().clone()), 3, Arc::new(pairs), None);
    let dict = from_arrow(column(Arc::new(triples)), &Options::default()).unwrap();
    assert_eq!(address_of(&dict.tensor("c").unwrap()), at);

    let numbers = Int32Array::from_iter_values(0..12);
    let at = address::<Int32Type>(&numbers);
    let tensors: ArrayRef = Arc::new(FixedSizeListArray::new(item(DataType::Int32), 6, Arc::new(numbers), None));
    let field = tensor_field("c", &tensors, r#"{"shape": [2, 3], "permutation": [1, 0]}"#);
    let (dict, done) = receipt(column_of(field, tensors), &Options::default(), "c");
    let permuted = dict.tensor("c").unwrap();
    assert_eq!((address_of(&permuted), permuted.stride()), (at, vec![6, 1, 3]));
    assert_eq!(done, viewed("c", 48));

    let numbers = Float32Array::from(vec![1.0, 2.0]);
    let at = numbers.values().as_ptr().addr();
    let fields = Fields::from(vec![Field::new("x", DataType::Float32, true)]);
    let array = StructArray::new(fields, vec![Arc::new(numbers)], Some(NullBuffer::new_valid(2)));
    let (dict, done) = receipt(column(Arc::new(array)), &Options::default(), ["c", "x"]);
    assert_eq!(address_of(&dict.tensor(["c", "x"]).unwrap()), at);
    assert_eq!(done, viewed(["c", "x"], 8));
}

#[test]
fn nulls_of_unique_buffers_are_filled_in_place() {
    let array = || Int64Array::from(vec![Some(1), None, Some(3)]);
    for policy in [CopyPolicy::Auto, CopyPolicy::Never] {
        let array = array();
        let at = address::<Int64Type>(&array);
        let options = Options::default().nulls(Nulls::Mask).copy(policy);
        let (dict, done) = receipt(column(Arc::new(array)), &options, "c");
        assert_eq!(show(&dict), "{c: int64[3](1, 0, 3), _mask: {c: bool[3](T, F, T)}}");
        assert_eq!(address_of(&dict.tensor("c").unwrap()), at);
        assert_eq!(done, ColumnReceipt { filled: 1, ..viewed("c", 24) });
    }

    let array = array();
    let options = Options::default().nulls(Nulls::Fill);
    let (dict, done) = receipt(column(Arc::new(array.clone())), &options, "c");
    assert_eq!(show(&dict), "{c: int64[3](1, 0, 3)}");
    assert_eq!(done, ColumnReceipt { filled: 1, ..copied("c", 24, CopyReason::Shared) });
    assert!(array.is_null(1));
    refused(column(Arc::new(array.clone())), options, CopyReason::Shared);
}

#[test]
fn hidden_elements_are_dropped_by_a_copy() {
    let list = || {
        let numbers = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let validity = Some(NullBuffer::from(vec![true, false, true]));
        LargeListArray::new(item(DataType::Int64), OffsetBuffer::new(vec![0, 1, 2, 3].into()), numbers, validity)
    };
    let options = Options::default().nulls(Nulls::Fill);
    let (dict, done) = receipt(column(Arc::new(list())), &options, "c");
    assert_eq!(show(&dict), "{c: jag(int64[2](1, 3); 0, 1, 1, 2)}");
    assert_eq!(done, ColumnReceipt { filled: 1, ..copied("c", 48, CopyReason::Hidden) });
    refused(column(Arc::new(list())), options, CopyReason::Hidden);
}

#[test]
fn filled_nulls_are_counted_where_they_were() {
    let fields = Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Int64, true)]);
    let x = Arc::new(Int64Array::from(vec![None, None]));
    let array = StructArray::new(fields, vec![x, Arc::new(Int64Array::from(vec![1, 2]))], None);
    let batch = column(Arc::new(array));
    let (_, receipt) = from_arrow_with_receipt(batch, &Options::default().nulls(Nulls::Fill)).unwrap();
    let filled: Vec<_> = receipt.columns.iter().map(|column| (column.key.to_string(), column.filled)).collect();
    assert_eq!(filled, [("('c', 'x')".to_owned(), 2), ("('c', 'y')".to_owned(), 0)]);
}

#[test]
fn shared_buffers_are_copied() {
    let array = Int64Array::from(vec![1, 2, 3]);
    let batch = column(Arc::new(array));
    let (dict, done) = receipt(batch.clone(), &Options::default(), "c");
    assert_eq!(done, copied("c", 24, CopyReason::Shared));
    let _ = dict.tensor("c").unwrap().shallow_clone().f_add_scalar_(10).unwrap();
    assert_eq!(show(&dict), "{c: int64[3](11, 12, 13)}");
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    let again = from_arrow(batch.clone(), &Options::default()).unwrap();
    assert_eq!(show(&again), "{c: int64[3](1, 2, 3)}");
    refused(batch.clone(), Options::default(), CopyReason::Shared);
    assert_eq!(batch.num_rows(), 3);
}

#[test]
fn two_columns_over_one_buffer_do_not_see_each_other() {
    let values = ScalarBuffer::from(vec![1i64, 2, 3]);
    let (a, b) = (Int64Array::new(values.clone(), None), Int64Array::new(values, None));
    let batch = RecordBatch::try_from_iter([("a", Arc::new(a) as ArrayRef), ("b", Arc::new(b))]).unwrap();
    let dict = from_arrow(batch, &Options::default()).unwrap();
    let _ = dict.tensor("a").unwrap().shallow_clone().f_add_scalar_(10).unwrap();
    let _ = dict.tensor("b").unwrap().shallow_clone().f_mul_scalar_(2).unwrap();
    assert_eq!(show(&dict), "{a: int64[3](11, 12, 13), b: int64[3](2, 4, 6)}");
}

#[test]
fn one_array_in_two_columns_is_not_aliased() {
    let array: ArrayRef = Arc::new(large_list(Arc::new(Int64Array::from(vec![Some(1), None])), vec![0, 1, 2]));
    let batch = RecordBatch::try_from_iter([("a", Arc::clone(&array)), ("b", array)]).unwrap();
    let dict = from_arrow(batch, &Options::default().nulls(Nulls::Fill)).unwrap();
    for part in [dict.jagged("a").unwrap().values(), dict.jagged("a").unwrap().offsets()] {
        let _ = part.shallow_clone().f_add_scalar_(7).unwrap();
    }
    assert_eq!(crate::show::show_jagged(&dict.jagged("b").unwrap()), "jag(int64[2](1, 0); 0, 1, 2)");
}

#[test]
fn writing_into_a_view_reaches_nobody_else() {
    let array = Int64Array::from(vec![1, 2, 3]);
    let first = from_arrow(column(Arc::new(array.clone())), &Options::default()).unwrap();
    // The source's last handle goes into the second result.
    let second = from_arrow(column(Arc::new(array)), &Options::default()).unwrap();
    let _ = second.tensor("c").unwrap().shallow_clone().f_add_scalar_(10).unwrap();
    assert_eq!(show(&first), "{c: int64[3](1, 2, 3)}");
    assert_eq!(show(&second), "{c: int64[3](11, 12, 13)}");
}

#[test]
fn slices_are_copied() {
    let parent = column(Arc::new(Int64Array::from(vec![1, 2, 3, 4])));
    let (dict, done) = receipt(parent.slice(1, 2), &Options::default(), "c");
    assert_eq!(show(&dict), "{c: int64[2](2, 3)}");
    assert_eq!(done, copied("c", 16, CopyReason::Part));
    let (_, done) = receipt(parent.slice(0, 2), &Options::default(), "c");
    assert_eq!(done, copied("c", 16, CopyReason::Shared));
    refused(parent.slice(1, 2), Options::default(), CopyReason::Part);
    drop(dict);
    // Without its parent, the slice is still a part, and its head is the whole buffer cut short.
    let tail = parent.slice(1, 3);
    let head = column(Arc::new(Int64Array::from(vec![1, 2, 3, 4]).slice(0, 2)));
    drop(parent);
    assert_eq!(receipt(tail, &Options::default(), "c").1, copied("c", 24, CopyReason::Part));
    assert_eq!(receipt(head, &Options::default(), "c").1, viewed("c", 16));

    let list = large_list(Arc::new(Int64Array::from(vec![1, 2, 3])), vec![0, 1, 2, 3]).slice(1, 2);
    let (dict, done) = receipt(column(Arc::new(list)), &Options::default(), "c");
    assert_eq!(show(&dict), "{c: jag(int64[2](2, 3); 0, 1, 2)}");
    assert_eq!((done.copied >= 40, done.reason), (true, Some(CopyReason::Part)));
}

/// Memory that Arrow can't take over, as that of a memory map; a weak handle tells when it goes.
struct Foreign(Arc<Vec<i64>>);

impl AsRef<[u8]> for Foreign {
    fn as_ref(&self) -> &[u8] {
        self.0.to_byte_slice()
    }
}

fn foreign(values: Vec<i64>) -> (Int64Array, Weak<Vec<i64>>) {
    let owner = Arc::new(values);
    let watch = Arc::downgrade(&owner);
    let buffer = Buffer::from(Bytes::from_owner(Foreign(owner)));
    (Int64Array::new(ScalarBuffer::from(buffer), None), watch)
}

#[test]
fn foreign_memory_is_copied_and_let_go() {
    let (array, owner) = foreign(vec![1, 2, 3]);
    let (dict, done) = receipt(column(Arc::new(array)), &Options::default(), "c");
    assert_eq!(done, copied("c", 24, CopyReason::Foreign));
    assert_eq!(show(&dict), "{c: int64[3](1, 2, 3)}");
    assert!(owner.upgrade().is_none());

    let (array, owner) = foreign(vec![1, 2, 3]);
    let (_, _, nulls) = Int64Array::from(vec![Some(0), None, Some(0)]).into_parts();
    let (_, values, _) = array.into_parts();
    let array = Int64Array::new(values, nulls);
    let held = owner.upgrade().unwrap();
    let (dict, done) = receipt(column(Arc::new(array)), &Options::default().nulls(Nulls::Fill), "c");
    assert_eq!(show(&dict), "{c: int64[3](1, 0, 3)}");
    assert_eq!(done.reason, Some(CopyReason::Foreign));
    assert_eq!(*held, [1, 2, 3]);
    refused(column(Arc::new(foreign(vec![1]).0)), Options::default(), CopyReason::Foreign);
}

#[test]
fn what_must_change_its_layout_is_copied() {
    let numbers = UInt32Array::from(vec![1, 2]);
    let (_, done) = receipt(column(Arc::new(numbers.clone())), &Options::default(), "c");
    assert_eq!(done, copied("c", 16, CopyReason::Widened));
    refused(column(Arc::new(numbers)), Options::default(), CopyReason::Widened);

    let bits = BooleanArray::from(vec![true, false]);
    let (_, done) = receipt(column(Arc::new(bits.clone())), &Options::default(), "c");
    assert_eq!(done, copied("c", 2, CopyReason::Unpacked));
    refused(column(Arc::new(bits)), Options::default(), CopyReason::Unpacked);

    let chunk = || column(Arc::new(Int64Array::from(vec![1])));
    let never = Options::default().copy(CopyPolicy::Never);
    let error = from_arrow_chunks(&chunk().schema(), vec![chunk(), chunk()], &never).unwrap_err();
    assert!(error.is_copy() && error.to_string().contains("several chunks"), "{error}");
}

/// Whether any of the batch is alive once only the result of its row 5 is left.
fn keeps(array: ArrayRef, watch: impl Fn() -> bool) -> (TensorDict, bool) {
    let batch = column(array);
    let row = batch.slice(5, 1);
    drop(batch);
    let dict = from_arrow(row, &Options::default()).unwrap();
    (dict, watch())
}

#[test]
fn a_row_does_not_keep_its_batch_alive() {
    const ROWS: usize = 1 << 20;
    let (array, owner) = foreign(vec![7; ROWS]);
    let (dict, kept) = keeps(Arc::new(array), || owner.upgrade().is_some());
    assert!(!kept);
    assert_eq!(show(&dict), "{c: int64[1](7)}");

    // Strings over memory whose owner is watched: all kinds of offsets, and lists of them.
    let bytes = || {
        let (array, owner) = foreign(vec![i64::from_le_bytes(*b"abcdefgh"); ROWS]);
        (array.values().inner().clone(), owner)
    };
    let ends = |size: i64| OffsetBuffer::new((0..=ROWS as i64).map(|row| row * size).collect());
    let ends_32 = |size: i32| OffsetBuffer::new((0..=ROWS as i32).map(|row| row * size).collect());
    let (values, owner) = bytes();
    let (dict, kept) = keeps(Arc::new(StringArray::new(ends_32(8), values, None)), || owner.upgrade().is_some());
    assert!(!kept);
    assert_eq!(show(&dict), r#"{c: nts("abcdefgh")}"#);
    let (values, owner) = bytes();
    let (_, kept) = keeps(Arc::new(LargeStringArray::new(ends(8), values, None)), || owner.upgrade().is_some());
    assert!(!kept);
    let (values, owner) = bytes();
    let view = (16u128) | (u128::from(u32::from_le_bytes(*b"abcd")) << 32);
    let views = StringViewArray::new(vec![view; ROWS].into(), vec![values], None);
    let (dict, kept) = keeps(Arc::new(views), || owner.upgrade().is_some());
    assert!(!kept);
    assert_eq!(show(&dict), r#"{c: nts("abcdefghabcdefgh")}"#);

    let (values, owner) = bytes();
    let strings: ArrayRef = Arc::new(StringArray::new(ends_32(8), values, None));
    let lists = ListArray::new(item(DataType::Utf8), ends_32(1), Arc::clone(&strings), None);
    drop(strings);
    let (dict, kept) = keeps(Arc::new(lists), || owner.upgrade().is_some());
    assert!(!kept);
    assert_eq!(show(&dict), r#"{c: nts(["abcdefgh"])}"#);

    let (values, owner) = bytes();
    let words: ArrayRef = Arc::new(StringArray::new(ends_32(8), values, None));
    let keys = Int32Array::from(vec![Some(0), None, Some(1), Some(2), Some(3), Some(4), None]);
    let dictionary = DictionaryArray::new(keys, Arc::clone(&words));
    drop(words);
    let options = Options::default().nulls(Nulls::Fill);
    let dict = from_arrow(column(Arc::new(dictionary.slice(4, 3))), &options).unwrap();
    drop(dictionary);
    assert!(owner.upgrade().is_none());
    assert_eq!(show(&dict), r#"{c: nts("abcdefgh", "abcdefgh", null)}"#);

    // The rows of lists of numbers, too.
    let (numbers, owner) = foreign(vec![7; ROWS]);
    let lists = large_list(Arc::new(numbers), (0..=ROWS as i64).collect());
    let (dict, kept) = keeps(Arc::new(lists), || owner.upgrade().is_some());
    assert!(!kept);
    assert_eq!(show(&dict), "{c: jag(int64[1](7); 0, 1)}");
}

#[test]
fn a_short_head_of_a_long_buffer_is_copied() {
    let array = Int64Array::from(vec![7; 1 << 20]).slice(0, 1);
    let (dict, done) = receipt(column(Arc::new(array)), &Options::default(), "c");
    assert_eq!(done, copied("c", 8, CopyReason::Part));
    assert_eq!(show(&dict), "{c: int64[1](7)}");
}

#[test]
fn tensors_outlive_the_dict_and_rows_share_it() {
    let dict = from_arrow(column(Arc::new(Int64Array::from(vec![1, 2, 3]))), &Options::default()).unwrap();
    let row = dict.index(1).unwrap();
    let _ = row.tensor("c").unwrap().shallow_clone().f_add_scalar_(10).unwrap();
    assert_eq!(show(&dict), "{c: int64[3](1, 12, 3)}");
    drop(dict);
    assert_eq!(show(&row), "{c: int64[](12)}");
}

#[test]
fn totals_of_a_receipt() {
    let a: ArrayRef = Arc::new(PrimitiveArray::<Int64Type>::from(vec![1, 2]));
    let b: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
    let batch = RecordBatch::try_from_iter([("a", a), ("b", b)]).unwrap();
    let (_, receipt) = from_arrow_with_receipt(batch, &Options::default()).unwrap();
    assert_eq!((receipt.bytes_viewed(), receipt.bytes_copied()), (16, 2));
}
