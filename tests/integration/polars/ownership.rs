//! When a tensor is the frame's memory itself, and that nobody sees it being written.

use polars::prelude::*;
use tch::Tensor;
use tensorquery::{ColumnReceipt, CopyPolicy, CopyReason, NestedKey, Options, PolarsExt};

use super::{array, frame, frame_of, lists, masked, structs};

fn address_of(tensor: &Tensor) -> usize {
    tensor.data_ptr().addr()
}

/// A column over the memory of `values`.
fn owned(values: Vec<i64>) -> (Column, usize) {
    let address = values.as_ptr().addr();
    (Int64Chunked::from_vec("c".into(), values).into_column(), address)
}

fn receipt_of(frame: DataFrame, options: &Options, key: impl Into<NestedKey>) -> (Tensor, ColumnReceipt) {
    let key = key.into();
    let (dict, receipt) = frame.to_tensordict_with_receipt(options).unwrap();
    let column = receipt.columns.iter().find(|column| column.key == key).unwrap();
    (dict.tensor(&key).unwrap(), column.clone())
}

fn viewed(bytes: usize) -> ColumnReceipt {
    ColumnReceipt { key: "c".into(), viewed: bytes, copied: 0, reason: None, filled: 0 }
}

fn copied(bytes: usize, reason: CopyReason) -> ColumnReceipt {
    ColumnReceipt { key: "c".into(), viewed: 0, copied: bytes, reason: Some(reason), filled: 0 }
}

fn never() -> Options {
    masked().copy(CopyPolicy::Never)
}

#[test]
fn numbers_owned_alone_are_viewed() {
    let (column, address) = owned(vec![1, 2, 3]);
    let (tensor, receipt) = receipt_of(frame(column), &never(), "c");
    assert_eq!((address_of(&tensor), receipt), (address, viewed(24)));
    assert_eq!(Vec::<i64>::try_from(tensor).unwrap(), [1, 2, 3]);

    let halves = Series::new("c".into(), [0.5f32, 2.0]).cast(&DataType::Float16).unwrap();
    let (tensor, receipt) = receipt_of(frame(halves), &never(), "c");
    assert_eq!(
        (Vec::<f64>::try_from(tensor.to_kind(tch::Kind::Double)).unwrap(), receipt),
        (vec![0.5, 2.0], viewed(4))
    );
}

#[test]
fn nulls_are_filled_in_the_frames_own_memory() {
    let values = vec![1i64, 2, 3];
    let address = values.as_ptr().addr();
    let chunk = polars_arrow::array::PrimitiveArray::from_vec(values).with_validity(super::valid(&[true, false, true]));
    let (tensor, receipt) = receipt_of(frame_of(chunk.boxed()), &never(), "c");
    assert_eq!((address_of(&tensor), receipt), (address, ColumnReceipt { filled: 1, ..viewed(24) }));
    assert_eq!(Vec::<i64>::try_from(tensor).unwrap(), [1, 0, 3]);
}

#[test]
fn numbers_inside_arrays_lists_and_structs_are_viewed() {
    let values = || {
        let values = vec![1i64, 2, 3, 4];
        let address = values.as_ptr().addr();
        (polars_arrow::array::PrimitiveArray::from_vec(values).boxed(), address)
    };
    let (chunk, address) = values();
    let pairs = frame_of(array(chunk, 2, 2, None)).to_tensordict(&never()).unwrap();
    assert_eq!(address_of(&pairs.tensor("c").unwrap()), address);

    let (chunk, address) = values();
    let chunk = lists(chunk, &[3, 1], None);
    let offsets = {
        let list = chunk.as_any().downcast_ref::<polars_arrow::array::ListArray<i64>>().unwrap();
        list.offsets().buffer().as_ptr().addr()
    };
    let jagged = frame_of(chunk).to_tensordict(&never()).unwrap().jagged("c").unwrap();
    assert_eq!((address_of(jagged.values()), address_of(jagged.offsets())), (address, offsets));

    let (chunk, address) = values();
    let nested = frame_of(structs(vec![("x", array(chunk, 2, 2, None))], 2, None)).to_tensordict(&never()).unwrap();
    assert_eq!(address_of(&nested.tensor(["c", "x"]).unwrap()), address);
}

#[test]
fn a_query_gives_its_numbers_away() {
    let query = df!("c" => [1i64, 2, 3]).unwrap().lazy().select([col("c") * lit(2)]);
    let td = query.to_tensordict(&never()).unwrap();
    assert_eq!(Vec::<i64>::try_from(td.tensor("c").unwrap()).unwrap(), [2, 4, 6]);
}

#[test]
fn what_others_hold_is_copied_once_and_never_changes() {
    let (column, address) = owned(vec![1, 2, 3]);
    let held = frame(column);
    let (mut tensor, receipt) = receipt_of(held.clone(), &masked(), "c");
    assert_ne!(address_of(&tensor), address);
    assert_eq!(receipt, copied(24, CopyReason::Foreign));
    let _ = tensor.f_add_scalar_(10).unwrap();
    assert_eq!(held, df!("c" => [1i64, 2, 3]).unwrap());
    let error = held.clone().to_tensordict(&never()).unwrap_err();
    assert!(error.is_copy() && error.nested_key() == Some(&"c".into()), "{error}");

    // A query over it: its result is a part of what the frame holds.
    let td = held.clone().lazy().to_tensordict(&masked()).unwrap();
    let _ = td.tensor("c").unwrap().f_add_scalar_(10).unwrap();
    for batch in held.clone().lazy().tensordict_stream(&masked()).unwrap() {
        let _ = batch.unwrap().tensor("c").unwrap().f_add_scalar_(10).unwrap();
    }
    for batch in held.clone().tensordict_stream(&masked()).unwrap().with_batch_size(2) {
        let _ = batch.unwrap().tensor("c").unwrap().f_add_scalar_(10).unwrap();
    }
    assert_eq!(held, df!("c" => [1i64, 2, 3]).unwrap());
    // Once the others are gone it is the tensor's.
    assert_eq!(address_of(&held.to_tensordict(&never()).unwrap().tensor("c").unwrap()), address);
}

#[test]
fn clones_of_a_column_a_series_or_a_chunk_count_as_others() {
    type Keep = fn(&Column) -> Box<dyn std::any::Any>;
    let keeps: [(&str, Keep); 4] = [
        ("column", |column| Box::new(column.clone())),
        ("series", |column| Box::new(column.as_materialized_series().clone())),
        ("chunk", |column| Box::new(column.as_materialized_series().chunks()[0].clone())),
        ("row", |column| Box::new(column.slice(0, 1))),
    ];
    for (name, keep) in keeps {
        let (column, _) = owned(vec![1, 2, 3]);
        let kept = keep(&column);
        let error = frame(column).to_tensordict(&never()).unwrap_err();
        assert!(error.is_copy(), "{name}: {error}");
        drop(kept);
    }
}

#[test]
fn lists_that_others_hold_never_change() {
    let chunk = lists(super::numbers([1, 2, 3].map(Some)), &[2, 1], None);
    let held = frame_of(structs(vec![("l", chunk)], 2, None));
    let before = held.clone();
    let td = held.clone().to_tensordict(&masked()).unwrap();
    let jagged = td.jagged(["c", "l"]).unwrap();
    let _ = jagged.values().shallow_clone().f_add_scalar_(10).unwrap();
    let _ = jagged.offsets().shallow_clone().f_add_scalar_(10).unwrap();
    assert!(held.equals_missing(&before));
    assert_eq!(super::shown(held), "{c: {l: jag(int64[3](1, 2, 3); 0, 2, 3)}}");
}

#[test]
fn slices_and_chunks_are_copied() {
    let (column, _) = owned((0..10_000).collect());
    let slice = column.slice(1, 2);
    drop(column);
    let (tensor, receipt) = receipt_of(frame(slice), &masked(), "c");
    assert_eq!(Vec::<i64>::try_from(tensor).unwrap(), [1, 2]);
    assert_eq!((receipt.viewed, receipt.copied), (0, 16));

    let (mut column, _) = owned(vec![1, 2]);
    column.append(&owned(vec![3]).0).unwrap();
    let (_, receipt) = receipt_of(frame(column), &masked(), "c");
    assert_eq!(receipt, copied(24, CopyReason::Chunked));
}

#[test]
fn copies_by_request() {
    let (column, address) = owned(vec![1, 2, 3]);
    let (tensor, receipt) = receipt_of(frame(column), &masked().copy(CopyPolicy::Always), "c");
    assert_ne!(address_of(&tensor), address);
    assert_eq!(receipt, copied(24, CopyReason::Asked));
}

/// Memory that Polars lends to many columns, such as zeros, is nobody's own.
#[test]
fn memory_of_all_is_copied() {
    let zeros = Int64Chunked::full("c".into(), 0, 100).into_column();
    let td = frame(zeros).to_tensordict(&masked()).unwrap();
    let _ = td.tensor("c").unwrap().f_add_scalar_(1).unwrap();
    let again = frame(Int64Chunked::full("c".into(), 0, 100).into_column()).to_tensordict(&masked()).unwrap();
    assert_eq!(again.tensor("c").unwrap().f_sum(tch::Kind::Int64).unwrap().int64_value(&[]), 0);
}
