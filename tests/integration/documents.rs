//! The examples by which the reference implementations explain themselves, each with the result that they print.

use std::sync::Arc;

use arrow::array::{Array, Float64Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use tch::{Device, Kind, Tensor};
use tensorquery::{LazyStackBuilder, MultiNestedTensor, Nulls, Options, PaddingSide, TensorDict, from_arrow};

use crate::show::{show, show_entry, show_jagged, show_tensor};

fn zeros(shape: &[i64]) -> Tensor {
    Tensor::zeros(shape, (Kind::Float, Device::Cpu))
}

fn ones(shape: &[i64]) -> Tensor {
    Tensor::ones(shape, (Kind::Float, Device::Cpu))
}

fn dict<const N: usize>(entries: [(&str, Tensor); N]) -> TensorDict {
    TensorDict::from_entries(entries).unwrap()
}

fn size(dict: TensorDict, batch_size: &[i64]) -> TensorDict {
    dict.with_batch_size(batch_size).unwrap()
}

fn lazy<const N: usize>(members: [TensorDict; N]) -> TensorDict {
    TensorDict::lazy_stack(members, 0).unwrap()
}

/// Whether two tensordicts are the same one: their tensors lie at the same addresses.
fn same(ours: &TensorDict, theirs: &TensorDict) -> bool {
    let address = |dict: &TensorDict| dict.tensor("a").unwrap().data_ptr();
    address(ours) == address(theirs) && show(ours) == show(theirs)
}

#[test]
fn lazy_stacks_of_tensordicts_that_differ() {
    let stack = lazy([dict([("a", zeros(&[3]))]), dict([("a", ones(&[4]))])]);
    assert_eq!(stack.batch_size(), [2]);
    assert!(same(&stack.index(0).unwrap(), &stack.members()[0]));
    let padded = stack.get_padded("a", PaddingSide::Right, 0).unwrap().unwrap();
    assert_eq!(show_tensor(&padded), "float32[2, 4](0, 0, 0, 0, 1, 1, 1, 1)");
}

#[test]
fn lazy_stacks_along_another_dim() {
    let members = (0..10).map(|_| size(dict([("a", zeros(&[3, 4]))]), &[3]));
    let stack = TensorDict::lazy_stack(members, -1).unwrap();
    assert_eq!(stack.batch_size(), [3, 10]);
    assert_eq!(stack.tensor("a").unwrap().size(), [3, 10, 4]);
    assert!(same(&stack.index((.., 0)).unwrap(), &stack.members()[0]));
}

#[test]
fn lazy_stacks_of_other_batch_sizes_and_keys() {
    let stack = lazy([size(dict([("a", zeros(&[3]))]), &[3]), size(dict([("a", zeros(&[4]))]), &[4])]);
    assert_eq!(stack.batch_size(), [2, -1]);
    let stack = lazy([dict([("a", zeros(&[3]))]), dict([("a", zeros(&[3])), ("b", ones(&[2]))])]);
    assert_eq!(stack.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(show_tensor(&stack.index(1).unwrap().tensor("b").unwrap()), "float32[2](1, 1)");
}

#[test]
fn lists_are_assigned_to_keys() {
    let mut stack = lazy([TensorDict::new([]), TensorDict::new([])]);
    stack.set_list("a", vec![ones(&[2]), zeros(&[1])]).unwrap();
    assert_eq!(show_tensor(&stack.index(1).unwrap().tensor("a").unwrap()), "float32[1](0)");
    stack.set_list("b", vec!["a string", "another string"]).unwrap();
    assert_eq!(show_entry(&stack.index(1).unwrap().entry("b").unwrap()), r#"nts("another string")"#);
}

#[test]
fn lazy_stacks_from_dicts_and_lists() {
    let lists = || [[("a", zeros(&[3]))], [("a", zeros(&[4]))]];
    let stack = LazyStackBuilder::from_list(lists()).unwrap().stack_dim_name("t").build().unwrap();
    assert_eq!((stack.batch_size(), stack.names().unwrap()), (vec![2], vec![Some("t".to_owned())]));
    assert_eq!(stack.index(1).unwrap().tensor("a").unwrap().size(), [4]);
    let stack = LazyStackBuilder::from_list(lists()).unwrap().auto_batch_size(None).build().unwrap();
    assert_eq!(stack.batch_size(), [2, -1]);
}

#[test]
fn shapes_of_items() {
    let stack = lazy([dict([("a", zeros(&[3]))]), dict([("a", zeros(&[4]))])]);
    assert_eq!(stack.item_shape("a").unwrap(), [2, -1]);
}

#[test]
fn nested_tensors_with_a_default() {
    let first = dict([("a", zeros(&[4])), ("b", zeros(&[4]))]);
    let stack = lazy([first, dict([("a", ones(&[5]))])]);
    let a = stack.get_jagged("a").unwrap().unwrap();
    assert_eq!(show_jagged(&a), "jag(float32[9](0, 0, 0, 0, 1, 1, 1, 1, 1); 0, 4, 9)");
    let b = stack.get_jagged_or("b", &ones(&[4])).unwrap();
    assert_eq!(show_tensor(&b.row(1).unwrap()), "float32[4](1, 1, 1, 1)");
    assert!(stack.get_jagged("b").unwrap().is_none());
}

#[test]
fn members_are_inserted() {
    let mut stack = lazy([dict([("a", zeros(&[3]))])]);
    stack.insert(0, dict([("a", ones(&[3]))])).unwrap();
    assert_eq!(stack.batch_size(), [2]);
    assert_eq!(show_tensor(&stack.index(0).unwrap().tensor("a").unwrap()), "float32[3](1, 1, 1)");
}

#[test]
fn tensors_stay_a_list_on_request() {
    let stack = lazy([dict([("a", zeros(&[3]))]), dict([("a", zeros(&[4]))])]);
    assert!(stack.is_lazy());
    let list: Vec<_> = stack.get_list("a").unwrap().unwrap().into_flat().iter().map(show_entry).collect();
    assert_eq!(list, ["float32[3](0, 0, 0)", "float32[4](0, 0, 0, 0)"]);
}

#[test]
fn stacks_are_dense_where_they_can_be() {
    let zero = |key: &'static str| dict([(key, zeros(&[]))]);
    let dense = TensorDict::maybe_dense_stack([zero("a"), zero("a")], 0).unwrap();
    assert!(!dense.is_lazy() && dense.batch_size() == [2]);
    let lazy = TensorDict::maybe_dense_stack([zero("a"), zero("b")], 0).unwrap();
    assert!(lazy.is_lazy() && lazy.batch_size() == [2]);
}

#[test]
fn tables_become_tensordicts() {
    let ids = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        Some(vec![Some(3)]),
        Some(vec![]),
    ]);
    let batch = RecordBatch::try_from_iter([
        ("x", Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0])) as Arc<dyn Array>),
        ("ids", Arc::new(ids)),
        ("text", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
    ]);
    let dict = from_arrow(batch.unwrap(), &Options::default()).unwrap();
    assert_eq!(show_tensor(&dict.tensor("x").unwrap()), "float64[3](1, 2, 3)");
    let rows: Vec<_> = dict.jagged("ids").unwrap().unbind().unwrap().iter().map(show_tensor).collect();
    assert_eq!(rows, ["int64[2](1, 2)", "int64[1](3)", "int64[0]()"]);
    assert_eq!(show_entry(&dict.entry("text").unwrap()), r#"nts("a", "b", "c")"#);

    let batch =
        RecordBatch::try_from_iter([("y", Arc::new(Float64Array::from(vec![Some(1.0), None])) as Arc<dyn Array>)]);
    let dict = from_arrow(batch.unwrap(), &Options::default().nulls(Nulls::Mask)).unwrap();
    assert_eq!(show(&dict), "{y: float64[2](1, NaN), _mask: {y: bool[2](T, F)}}");
    let batch = RecordBatch::try_from_iter([("y", Arc::new(Int64Array::from(vec![Some(1), None])) as Arc<dyn Array>)]);
    assert!(from_arrow(batch.unwrap(), &Options::default()).unwrap_err().is_null());
}

#[test]
fn multi_nested_tensors() {
    let list = |numbers: &[i64]| Tensor::from_slice(numbers);
    let mnt = MultiNestedTensor::from_tensor_mat(&[
        [list(&[1, 2]), list(&[3])],
        [list(&[4]), list(&[5, 6, 7])],
        [list(&[8, 9]), list(&[10])],
    ])
    .unwrap();
    assert_eq!(mnt.to_string(), "MultiNestedTensor(num_rows=3, num_cols=2, device='cpu')");
    assert_eq!(show_tensor(mnt.values()), "int64[10](1, 2, 3, 4, 5, 6, 7, 8, 9, 10)");
    assert_eq!(show_tensor(mnt.offset()), "int64[7](0, 2, 3, 4, 7, 9, 10)");
    assert_eq!(show_tensor(&mnt.cell(0, 0).unwrap()), "int64[2](1, 2)");
    assert_eq!(show_tensor(&mnt.cell(1, 1).unwrap()), "int64[3](5, 6, 7)");
    let printed = |part: MultiNestedTensor| part.to_string();
    assert_eq!(printed(mnt.index(0).unwrap()), "MultiNestedTensor(num_rows=1, num_cols=2, device='cpu')");
    assert_eq!(printed(mnt.index((.., 0)).unwrap()), "MultiNestedTensor(num_rows=3, num_cols=1, device='cpu')");
    assert_eq!(printed(mnt.index(..2).unwrap()), "MultiNestedTensor(num_rows=2, num_cols=2, device='cpu')");
    assert_eq!(printed(mnt.index([2, 1, 2, 0]).unwrap()), "MultiNestedTensor(num_rows=4, num_cols=2, device='cpu')");
    let dense = "int64[3, 2, 3](1, 2, -1, 3, -1, -1, 4, -1, -1, 5, 6, 7, 8, 9, -1, 10, -1, -1)";
    assert_eq!(show_tensor(&mnt.to_dense(-1).unwrap()), dense);
}
