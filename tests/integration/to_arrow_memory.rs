//! When a column is the tensor's memory itself, and that nobody writes to it afterwards.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type};
use tch::{Device, IndexOp, Kind, Tensor};
use tensorquery::{
    CopyPolicy, Error, JaggedTensor, LoadOptions, NonTensorStack, Options, SaveOptions, TensorDict, ToArrowOptions,
    from_arrow, load_memmap, save_memmap, to_arrow,
};

use crate::to_arrow::{one, plain, show, truth};

/// Where an array's numbers begin.
fn address(array: &dyn Array) -> usize {
    array.to_data().buffers()[0].as_ptr().addr()
}

fn with_policy(dict: TensorDict, copy: CopyPolicy) -> Result<RecordBatch, Error> {
    to_arrow(dict, &ToArrowOptions::default().copy(copy))
}

#[test]
fn numbers_are_viewed() {
    for kind in [Kind::Uint8, Kind::Int8, Kind::Int16, Kind::Int, Kind::Int64, Kind::Half, Kind::Float, Kind::Double] {
        let tensor = Tensor::ones([4, 2], (kind, Device::Cpu));
        let at = tensor.data_ptr().addr();
        let batch = with_policy(one(tensor), CopyPolicy::Never).unwrap();
        let numbers = batch.column(0).as_fixed_size_list().values();
        assert_eq!(address(numbers), at, "{kind:?}");
    }
    let (values, offsets) = (Tensor::from_slice(&[1i64, 2]), Tensor::from_slice(&[0i64, 2]));
    let at = [values.data_ptr().addr(), offsets.data_ptr().addr()];
    let batch = with_policy(one(JaggedTensor::try_new(values, offsets).unwrap()), CopyPolicy::Never).unwrap();
    let rows = batch.column(0).as_list::<i64>();
    assert_eq!([address(rows.values()), rows.offsets().as_ptr().addr()], at);
    let strings: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let batch = with_policy(one(NonTensorStack::new(Arc::clone(&strings))), CopyPolicy::Never).unwrap();
    assert_eq!(address(batch.column(0)), address(&strings));

    let tensor = Tensor::ones([4], (Kind::Int64, Device::Cpu));
    let at = tensor.data_ptr().addr();
    assert_ne!(address(with_policy(one(tensor), CopyPolicy::Always).unwrap().column(0)), at);
}

#[test]
fn maps_of_files_become_arrows() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("td");
    save_memmap(&one(Tensor::from_slice(&[1i64, 2, 3])), &dir, &SaveOptions::default()).unwrap();
    let load = || load_memmap(&dir, &LoadOptions::default()).unwrap();

    let td = load();
    let at = td.tensor("c").unwrap().data_ptr().addr();
    let batch = with_policy(td, CopyPolicy::Never).unwrap();
    assert_eq!(address(batch.column(0)), at);
    // And a tensor's again: nobody else has it.
    let td = from_arrow(batch, &Options::default()).unwrap();
    assert_eq!(Vec::<i64>::try_from(td.tensor("c").unwrap()).unwrap(), [1, 2, 3]);

    // While there is another handle, it can be written to.
    let td = load();
    let mut other = td.tensor("c").unwrap();
    let batch = with_policy(td, CopyPolicy::Auto).unwrap();
    let _ = other.fill_(7);
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    assert_eq!(Vec::<i64>::try_from(load().tensor("c").unwrap()).unwrap(), [1, 2, 3]);
}

#[test]
fn arrows_own_memory_goes_back() {
    let array = Int64Array::from(vec![1, 2, 3]);
    let at = address(&array);
    let mut batch = crate::show::column(Arc::new(array));
    // Any number of times, since the memory is Rust's own again each time.
    for _ in 0..3 {
        let dict = from_arrow(batch, &Options::default().copy(CopyPolicy::Never)).unwrap();
        assert_eq!(dict.tensor("c").unwrap().data_ptr().addr(), at);
        batch = with_policy(dict, CopyPolicy::Never).unwrap();
        assert_eq!(address(batch.column(0)), at);
    }

    // While there is another handle, it isn't given back.
    let dict = from_arrow(batch, &Options::default()).unwrap();
    let mut clone = dict.tensor("c").unwrap().shallow_clone();
    let error = with_policy(dict.shallow_clone(), CopyPolicy::Never).unwrap_err();
    assert!(error.is_copy() && error.nested_key() == Some(&"c".into()), "{error}");
    let batch = plain(dict);
    let _ = clone.f_add_scalar_(10).unwrap();
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    assert_eq!(Vec::<i64>::try_from(clone).unwrap(), [11, 12, 13]);
}

#[test]
fn writes_do_not_reach_the_batch() {
    let tensor = Tensor::from_slice(&[1i64, 2, 3]);
    let dict = one(tensor.shallow_clone());
    let first = plain(dict.shallow_clone());
    let mut clone = tensor.shallow_clone();
    let _ = clone.f_add_scalar_(10).unwrap();
    let second = plain(dict);
    let _ = clone.f_add_scalar_(10).unwrap();
    assert_eq!(show(first.column(0)), "[1, 2, 3]");
    assert_eq!(show(second.column(0)), "[11, 12, 13]");
    assert_eq!(Vec::<i64>::try_from(tensor).unwrap(), [21, 22, 23]);
    // The batch may go anywhere.
    std::thread::spawn(move || assert_eq!(show(second.column(0)), "[11, 12, 13]")).join().unwrap();
}

#[test]
fn a_batch_outlives_its_tensors() {
    let batch = plain(one(Tensor::ones([1000], (Kind::Float, Device::Cpu))));
    let slice = batch.slice(10, 5);
    drop(batch);
    assert_eq!(slice.column(0).as_primitive::<Float32Type>().values(), &[1.0; 5]);
}

#[test]
fn small_parts_do_not_keep_the_whole() {
    let whole = Tensor::ones([10_000], (Kind::Double, Device::Cpu));
    let at = whole.data_ptr().addr();
    let large = plain(one(whole.i(..9_000)));
    assert_eq!(address(large.column(0)), at);
    let small = plain(one(whole.i(..10)));
    assert_ne!(address(small.column(0)), at);
    assert_eq!(small.column(0).as_primitive::<Float64Type>().values(), &[1.0; 10]);
}

#[test]
fn copies_that_are_forbidden() {
    let numbers = || Tensor::arange(6, (Kind::Int64, Device::Cpu)).reshape([2, 3]);
    let cases = [(truth(&[true, false]), "booleans are bits in Arrow"), (numbers().tr(), "aren't contiguous")];
    for (tensor, reason) in cases {
        let error = with_policy(one(tensor), CopyPolicy::Never).unwrap_err();
        assert!(error.is_copy() && error.nested_key() == Some(&"c".into()), "{error}");
        assert!(error.to_string().contains(reason) && error.to_string().contains("copy=auto"), "{error}");
    }
    // Masks are made, not copied.
    let mut dict = one(numbers());
    dict.set(["_mask", "c"], truth(&[true, false])).unwrap();
    let options = ToArrowOptions::default().copy(CopyPolicy::Never).mask_key("_mask");
    assert_eq!(show(to_arrow(dict, &options).unwrap().column(0)), "[[0, 1, 2], null]");
}
