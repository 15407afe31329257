//! Writing to parts of the batch, and picking by tensors.

use std::sync::Arc;

use arrow::array::StringArray;
use proptest::prelude::*;
use tch::{Device, Kind, Tensor};
use tensorquery::{Entry, Error, Index, Indices, JaggedTensor, NonTensorStack, TensorDict};

use crate::key_ops;
use crate::show::{show, show_entry, show_tensor};

fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

fn member(values: &[i64]) -> TensorDict {
    TensorDict::from_entries([("a", longs(values))]).unwrap().with_batch_size(&[values.len() as i64]).unwrap()
}

fn stack(dim: i64) -> TensorDict {
    TensorDict::lazy_stack([member(&[0, 1, 2]), member(&[100, 101, 102])], dim).unwrap()
}

fn words(words: &[&str]) -> NonTensorStack {
    NonTensorStack::new(Arc::new(StringArray::from(words.to_vec())))
}

fn refused(error: &Error, is: impl Fn(&Error) -> bool, parts: &[&str]) {
    let text = error.to_string();
    assert!(is(error) && parts.iter().all(|part| text.contains(part)), "{text} lacks one of {parts:?}");
}

#[test]
fn parts_are_read_and_written() {
    for mut dict in [stack(0), stack(0).stacked_by_hand()] {
        assert_eq!(show_entry(&dict.get_at("a", (.., 1)).unwrap()), "int64[2](1, 101)");
        let handle = dict.index(0).unwrap().tensor("a").unwrap();
        dict.set_at("a", longs(&[7, 8]), (.., 1)).unwrap();
        dict.set_at("a", longs(&[5]), (0, 2..)).unwrap();
        assert_eq!(show(&dict), "{a: int64[2, 3](0, 7, 5, 100, 8, 102)}");
        assert_eq!(show_tensor(&handle), "int64[3](0, 7, 5)", "in place");
        dict.set_at("a", longs(&[1, 2]), ([1, 0], [0, 2])).unwrap();
        assert_eq!(show(&dict), "{a: int64[2, 3](0, 7, 2, 1, 8, 102)}");
        // Cast to the dtype, repeated where it is 1 long.
        dict.set_at("a", Tensor::from_slice(&[2.5f32]), ()).unwrap();
        assert_eq!(show(&dict), "{a: int64[2, 3](2, 2, 2, 2, 2, 2)}");
        dict.set_at("a", longs(&[1, 2]).view([2, 1]), ..).unwrap();
        dict.set_at(
            "a",
            longs(&[9]).get(0),
            Index::GridMask { mask: vec![true, false, false, false, false, true], shape: vec![2, 3] },
        )
        .unwrap();
        assert_eq!(show(&dict), "{a: int64[2, 3](9, 1, 1, 2, 2, 9)}");
        let backwards = Index::Slice { start: None, stop: None, step: -1 };
        dict.set_at("a", longs(&[1, 2, 3]), (0, backwards)).unwrap();
        assert_eq!(show(&dict), "{a: int64[2, 3](3, 2, 1, 2, 2, 9)}");
        dict.lock();
        dict.set_at("a", longs(&[0]).get(0), (1, 1)).unwrap();
        let before = show(&dict);
        assert_eq!(before, "{a: int64[2, 3](3, 2, 1, 2, 0, 9)}");
        refused(&dict.set_at("a", longs(&[1, 2]), 0).unwrap_err(), Error::is_shape, &["'a'", "[2]", "[3]"]);
        refused(&dict.set_at("b", longs(&[1]), 0).unwrap_err(), Error::is_key, &["'b'"]);
        refused(&dict.get_at("b", 0).unwrap_err(), Error::is_key, &["'b'"]);
        refused(&dict.set_at("a", "text", 0).unwrap_err(), Error::is_key, &["'a'", "non_tensor"]);
        refused(&dict.set_at("a", longs(&[1]), 2).unwrap_err(), Error::is_index, &["out of bounds"]);
        assert!(dict.set_at("a", Tensor::new(), 0).unwrap_err().is_shape());
        assert_eq!(show(&dict), before);
    }
}

trait ByHand {
    fn stacked_by_hand(&self) -> TensorDict;
}

impl ByHand for TensorDict {
    fn stacked_by_hand(&self) -> TensorDict {
        let entries = self.items().unwrap();
        TensorDict::from_entries(
            entries.into_iter().map(|(name, entry)| (name.as_str().into(), entry) as (tensorquery::NestedKey, Entry)),
        )
        .unwrap()
        .with_batch_size(&self.batch_size())
        .unwrap()
    }
}

#[test]
fn a_check_before_anything_is_written() {
    let other =
        TensorDict::from_entries([("a", Tensor::from_slice(&[0i64; 5]))]).unwrap().with_batch_size(&[5]).unwrap();
    let mut ragged = TensorDict::lazy_stack([member(&[0, 1, 2]), other], 0).unwrap();
    ragged.set_at("a", longs(&[7, 8]), (.., -1)).unwrap();
    assert_eq!(show(&ragged.members()[0]), "{a: int64[3](0, 1, 7)}");
    assert_eq!(show(&ragged.members()[1]), "{a: int64[5](0, 0, 0, 0, 8)}");
    // Only the second member has no such row.
    assert!(ragged.set_at("a", longs(&[1, 1]), (.., 3)).unwrap_err().is_index());
    let three = longs(&[1, 1, 1, 1, 1, 1]).view([2, 3]);
    assert!(ragged.set_at("a", three, ..).unwrap_err().is_shape());
    assert_eq!(show(&ragged.members()[0]), "{a: int64[3](0, 1, 7)}");
}

#[test]
fn values_that_are_no_tensors() {
    let mut dict = TensorDict::new([3]);
    dict.set("s", words(&["a", "b", "c"])).unwrap();
    dict.set_at("s", words(&["x", "y"]), [2, 0]).unwrap();
    assert_eq!(show(&dict), r#"{s: nts("y", "b", "x")}"#);
    dict.set_at("s", "z", 1..).unwrap();
    assert_eq!(show(&dict), r#"{s: nts("y", "z", "z")}"#);
    assert!(dict.set_at("s", words(&["x", "y"]), 1).unwrap_err().is_shape());
    let jagged = JaggedTensor::try_new(longs(&[1, 2, 3]), longs(&[0, 2, 2, 3])).unwrap();
    dict.set("j", jagged).unwrap();
    refused(&dict.set_at("j", longs(&[1]), 0).unwrap_err(), Error::is_shape, &["'j'", "[3, -1]"]);
}

#[test]
fn dicts_are_written_to_parts() {
    let mut stack = stack(0);
    let source = |value: i64| {
        let mut source = member(&[value, value, value]);
        source.set("b", longs(&[value, 0, 0])).unwrap();
        source
    };
    stack.put_at(0, &source(5)).unwrap();
    assert_eq!(show(&stack.members()[0]), "{a: int64[3](5, 5, 5), b: int64[3](5, 0, 0)}");
    assert!(!stack.contains_key("b"), "only the member that was reached");
    stack.put_at([false, true], &TensorDict::lazy_stack([source(6)], 0).unwrap()).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 3](5, 5, 5, 6, 6, 6), b: int64[2, 3](5, 0, 0, 6, 0, 0)}");
    // A member reached in part: zero elsewhere.
    let mut stack = self::stack(0);
    let column = TensorDict::from_entries([("c", longs(&[7, 8]))]).unwrap().with_batch_size(&[2]).unwrap();
    stack.put_at((.., 1), &column).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 3](0, 1, 2, 100, 101, 102), c: int64[2, 3](0, 7, 0, 0, 8, 0)}");
    // The source may be a part of the target.
    let mut stack = self::stack(0);
    let swapped = stack.index([1, 0]).unwrap();
    stack.put_at([0, 1], &swapped).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 3](100, 101, 102, 0, 1, 2)}");
    let one = TensorDict::from_entries([("a", longs(&[3]).get(0))]).unwrap();
    stack.put_at((.., 0), &one).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 3](3, 101, 102, 3, 1, 2)}");
    let before = show(&stack);
    refused(&stack.put_at(0, &member(&[1, 2])).unwrap_err(), Error::is_shape, &["[2]", "[3]"]);
    let mut wrong = member(&[1, 2, 3]);
    wrong.set("z", longs(&[1, 2, 3])).unwrap();
    wrong.set("a", "text").unwrap();
    assert!(stack.put_at(1, &wrong).unwrap_err().is_key());
    assert_eq!(show(&stack), before);
    stack.lock();
    assert!(stack.put_at(0, &source(1)).unwrap_err().is_lock());
    stack.put_at(0, &member(&[4, 4, 4])).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 3](4, 4, 4, 3, 1, 2)}");

    let mut dense = TensorDict::new([3]);
    dense.set(["n", "x"], longs(&[1, 2, 3])).unwrap();
    let mut source = TensorDict::new([2]);
    source.set(["n", "x"], longs(&[10, 30])).unwrap();
    source.set(["n", "s"], words(&["a", "c"])).unwrap();
    source.set(["m", "y"], longs(&[1, 2])).unwrap();
    dense.put_at([0, 2], &source).unwrap();
    let expected = r#"{n: {x: int64[3](10, 2, 30), s: nts("a", null, "c")}, m: {y: int64[3](1, 0, 2)}}"#;
    assert_eq!(show(&dense), expected);
}

#[test]
fn picking_by_tensors() {
    let stack = stack(0);
    assert_eq!(show(&stack.index_select(1, &longs(&[2, 0])).unwrap()), "{a: int64[2, 2](2, 0, 102, 100)}");
    assert_eq!(show(&stack.index_select(-2, &longs(&[1])).unwrap()), "{a: int64[1, 3](100, 101, 102)}");
    assert!(stack.index_select(2, &longs(&[0])).unwrap_err().is_index());
    assert!(stack.index_select(0, &longs(&[0]).get(0)).unwrap_err().is_index());
    let mask = Tensor::from_slice(&[true, false]);
    assert_eq!(show(&stack.masked_select(&mask).unwrap()), "{a: int64[1, 3](0, 1, 2)}");
    let mask = Tensor::from_slice(&[true, false, false, false, true, true]).view([2, 3]);
    assert_eq!(show(&stack.masked_select(&mask).unwrap()), "{a: int64[3](0, 101, 102)}");
    assert!(stack.masked_select(&longs(&[0])).unwrap_err().is_index());

    let index = longs(&[0, 1, 0, 1, 1, 1]).view([2, 3]);
    let gathered = stack.gather(0, &index).unwrap();
    assert_eq!(show(&gathered), "{a: int64[2, 3](0, 101, 2, 100, 101, 102)}");
    assert!(!gathered.is_lazy());
    assert_eq!(stack.gather(0, &longs(&[1, 1])).unwrap().batch_size(), [2, 3]);
    assert_eq!(show(&stack.gather(1, &longs(&[2, 0]).view([2, 1])).unwrap()), "{a: int64[2, 1](2, 100)}");
    for (dim, index) in [(2, longs(&[0])), (1, longs(&[0])), (0, longs(&[5])), (0, longs(&[0]).get(0))] {
        let error = stack.gather(dim, &index).unwrap_err();
        assert!(error.is_index(), "{error}");
    }
    assert!(stack.gather(0, &longs(&[0; 3]).view([1, 1, 3])).unwrap_err().is_index());
    assert!(stack.gather(0, &Tensor::from_slice(&[0.0f32])).unwrap_err().is_index());
    let mut dict = TensorDict::new([2]);
    dict.set("s", words(&["a", "b"])).unwrap();
    dict.set("j", JaggedTensor::try_new(longs(&[1, 2, 3]), longs(&[0, 2, 3])).unwrap()).unwrap();
    let gathered = dict.gather(0, &longs(&[1, 0, 1])).unwrap();
    assert_eq!(show(&gathered), r#"{s: nts("b", "a", "b"), j: jag(int64[4](3, 1, 2, 3); 0, 1, 3, 4)}"#);
}

#[test]
fn values_are_aligned_from_the_last_dim() {
    let row = member(&[1, 2, 3]);
    let column = TensorDict::from_entries([("a", longs(&[1, 2, 3]).view([3, 1]))]).unwrap();
    let column = column.with_batch_size(&[3, 1]).unwrap();
    let square = || TensorDict::lazy_stack([member(&[0; 3]), member(&[0; 3]), member(&[0; 3])], 0).unwrap();
    for dim in 0..2 {
        let other = TensorDict::lazy_stack([member(&[0; 3]), member(&[0; 3]), member(&[0; 3])], dim).unwrap();
        for mut dict in [other, square().stacked_by_hand()] {
            dict.set_at("a", longs(&[1, 2, 3]), ..).unwrap();
            assert_eq!(show(&dict), "{a: int64[3, 3](1, 2, 3, 1, 2, 3, 1, 2, 3)}");
            dict.put_at(.., &column).unwrap();
            assert_eq!(show(&dict), "{a: int64[3, 3](1, 1, 1, 2, 2, 2, 3, 3, 3)}");
            dict.put_at((), &row).unwrap();
            assert_eq!(show(&dict), "{a: int64[3, 3](1, 2, 3, 1, 2, 3, 1, 2, 3)}");
            let error = dict.put_at(1.., &member(&[1, 2])).unwrap_err();
            refused(&error, Error::is_shape, &["[2]", "[2, 3]"]);
            refused(&dict.put_at(1, &column).unwrap_err(), Error::is_shape, &["[3, 1]", "[3]"]);
        }
    }
    // A source without batch dims, whose nested dict has one of its own.
    let mut deep = TensorDict::new([3]);
    deep.set("x", longs(&[7, 8, 9])).unwrap();
    let source = TensorDict::from_entries([("deep", deep)]).unwrap();
    let mut dict = TensorDict::new([2]);
    let mut inner = TensorDict::new([2, 3]);
    inner.set("x", Tensor::zeros([2, 3], (Kind::Int64, Device::Cpu))).unwrap();
    dict.set("deep", inner).unwrap();
    dict.put_at(.., &source).unwrap();
    assert_eq!(show(&dict), "{deep: {x: int64[2, 3](7, 8, 9, 7, 8, 9)}}");
    // Rows of two are no rows of one, repeated.
    let mut wide = TensorDict::new([2]);
    wide.set("a", Tensor::zeros([2, 2], (Kind::Int64, Device::Cpu))).unwrap();
    assert!(wide.put_at(.., &member(&[1, 2])).unwrap_err().is_shape());
}

#[test]
fn nothing_is_written_if_a_part_can_not_be() {
    let fresh = || Tensor::from_slice(&[1.0f32, 2.0, 3.0]);
    let held = [
        (longs(&[1]).expand([3], false), "share memory"),
        (fresh().set_requires_grad(true), "gradients"),
        (fresh().set_requires_grad(true).slice(0, 0, 3, 1), "gradients"),
    ];
    for (tensor, word) in held {
        let mut dict = member(&[1, 2, 3]);
        dict.set("b", tensor).unwrap();
        let source = TensorDict::from_entries([("a", longs(&[8, 9])), ("b", longs(&[8, 9]))]).unwrap();
        let source = source.with_batch_size(&[2]).unwrap();
        let before = show(&dict);
        for index in [Indices::from(..2), [0, 1].into()] {
            let error = dict.put_at(index.clone(), &source).unwrap_err();
            assert!(error.to_string().contains("'b'") && error.to_string().contains(word), "{error}");
            assert!(dict.put_at(index, 5).is_err());
            assert_eq!(show(&dict), before);
        }
    }
    let mut recorded = TensorDict::new([3]);
    recorded.set("b", fresh().set_requires_grad(true) * 2).unwrap();
    recorded.set_at("b", longs(&[7]).get(0), 0).unwrap();
    assert_eq!(show(&recorded), "{b: float32[3](7, 4, 6)}");
    // A new entry in two shapes, for one member that is named twice.
    let mut pieces = [member(&[1, 1, 1]), member(&[2, 2, 2])];
    pieces[0].set("b", longs(&[1, 2, 3])).unwrap();
    pieces[1].set("b", longs(&[1, 2, 3]).view([3, 1])).unwrap();
    let mut stack = stack(0);
    let before = show(&stack);
    let source = TensorDict::lazy_stack(pieces, 0).unwrap();
    assert!(stack.put_at([1, 1], &source).unwrap_err().is_shape());
    assert_eq!((show(&stack), stack.members()[1].len()), (before, 1));
    stack.put_at([1, 0], &source).unwrap();
    assert_eq!(stack.members()[0].tensor("b").unwrap().size(), [3, 1]);
}

#[test]
fn the_last_value_of_a_place_stays() {
    let count = 300_000;
    let mut dict = TensorDict::new([3]);
    dict.set("x", Tensor::zeros([3], (Kind::Int64, Device::Cpu))).unwrap();
    let rows = Index::Rows((0..count).map(|at| at % 3).collect());
    dict.set_at("x", Tensor::arange(count, (Kind::Int64, Device::Cpu)), rows).unwrap();
    assert_eq!(show(&dict), "{x: int64[3](299997, 299998, 299999)}");
    let mut stack = stack(0);
    stack.set_at("a", longs(&[1, 2, 3]), ([1, 1, 0], [2, 2, 0])).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 3](3, 1, 2, 100, 101, 2)}");
    // The value may be what is written to.
    let shifted = dict.tensor("x").unwrap().slice(0, 0, 2, 1);
    dict.set_at("x", shifted, 1..).unwrap();
    assert_eq!(show(&dict), "{x: int64[3](299997, 299997, 299998)}");
    let mut scalar = TensorDict::from_entries([("x", longs(&[1]).get(0))]).unwrap();
    scalar.set_at("x", longs(&[4]), true).unwrap();
    scalar.set_at("x", Tensor::zeros([0], (Kind::Int64, Device::Cpu)), false).unwrap();
    assert_eq!(show(&scalar), "{x: int64[](4)}");
}

#[test]
fn numbers_are_written_to_all_tensors() {
    let mut dict = TensorDict::new([3]);
    dict.set("x", longs(&[1, 2, 3])).unwrap();
    dict.set(["n", "y"], Tensor::zeros([3, 2], (Kind::Float, Device::Cpu))).unwrap();
    dict.set("s", words(&["a", "b", "c"])).unwrap();
    dict.lock();
    dict.put_at([2, 0], 0.5).unwrap();
    let expected = r#"{x: int64[3](0, 2, 0), n: {y: float32[3, 2](0.5, 0.5, 0, 0, 0.5, 0.5)}, s: nts("a", "b", "c")}"#;
    assert_eq!(show(&dict), expected);
    assert!(dict.put_at(0, f64::NAN).unwrap_err().is_overflow());
    assert!(dict.put_at(3, 1).unwrap_err().is_index());
    assert_eq!(show(&dict), expected);
    let mut stack = stack(1);
    stack.edit_member(0, |member| member.set("own", longs(&[1, 2, 3]))).unwrap();
    stack.put_at((1.., ..), -1).unwrap();
    assert_eq!(show(&stack), "{a: int64[3, 2](0, 100, -1, -1, -1, -1)}");
    assert_eq!(show(&stack.members()[0]), "{a: int64[3](0, -1, -1), own: int64[3](1, -1, -1)}");
}

#[test]
fn tensors_over_the_part_are_written_to_all_tensors() {
    let jagged = JaggedTensor::try_new(longs(&[1, 2, 3, 4]), longs(&[0, 2, 3, 4])).unwrap();
    let entries = [("x", longs(&[1, 2, 3]).into()), ("j", jagged.into()), ("s", words(&["a", "b", "c"]).into())];
    let mut dict = key_ops::dict(&[3], entries);
    dict.set(["n", "y"], Tensor::zeros([3, 2], (Kind::Float, Device::Cpu))).unwrap();
    dict.lock();
    let x = dict.tensor("x").unwrap();
    dict.put_at([2, 0], &Tensor::from_slice(&[7.5f32, -8.0])).unwrap();
    let expected = r#"{x: int64[3](-8, 2, 7), j: jag(int64[4](-8, -8, 3, 7); 0, 2, 3, 4), s: nts("a", "b", "c"), n: {y: float32[3, 2](-8, -8, 0, 0, 7.5, 7.5)}}"#;
    assert_eq!((show(&dict).as_str(), x.int64_value(&[0])), (expected, -8));
    // What doesn't fit is refused, and nothing is written.
    let nested = JaggedTensor::from_rows(&[longs(&[1])]).unwrap().to_strided_nested().unwrap();
    for wrong in [longs(&[1, 2, 3]), longs(&[1, 2]).reshape([2, 1]), longs(&[]), Tensor::new(), nested] {
        refused(&dict.put_at([2, 0], &wrong).unwrap_err(), Error::is_shape, &[]);
    }
    refused(&dict.put_at(3, &longs(&[1])).unwrap_err(), Error::is_index, &[]);
    assert_eq!(show(&dict), expected);
    // One for all, of no part, of a place named twice, and of storage that is written to.
    dict.put_at([0, 0], &longs(&[4, 5])).unwrap();
    dict.put_at(1..1, &longs(&[])).unwrap();
    dict.put_at(1, &longs(&[6]).get(0)).unwrap();
    assert_eq!(show(&dict.select(["x"]).unwrap()), "{x: int64[3](5, 6, 7)}");
    dict.put_at([0, 1, 2], &x.flip([0])).unwrap();
    let shared = x.narrow(0, 0, 2);
    dict.put_at(1.., &shared).unwrap();
    assert_eq!(
        show(&dict.select(["x", "j"]).unwrap()),
        "{x: int64[3](7, 7, 6), j: jag(int64[4](7, 7, 7, 6); 0, 2, 3, 4)}"
    );
    // Members get their pieces, also for what they alone have.
    for dim in [0, 1] {
        let mut stack = stack(dim);
        stack.edit_member(0, |member| member.set("own", longs(&[1, 2, 3]))).unwrap();
        let index: Indices = if dim == 0 { (.., 1..).into() } else { (1.., ..).into() };
        let values = longs(&[1, 2, 3, 4]).reshape([2, 2]);
        stack.put_at(index, &if dim == 0 { values } else { values.tr() }).unwrap();
        assert_eq!(show(&stack.members()[0]), "{a: int64[3](0, 1, 2), own: int64[3](1, 1, 2)}");
        assert_eq!(show(&stack.members()[1]), "{a: int64[3](100, 3, 4)}");
    }
    // A leaf that gradients are recorded for isn't written to.
    let mut leaf = member(&[1, 2, 3]);
    let weights = Tensor::zeros([3], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    leaf.set("w", weights.shallow_clone()).unwrap();
    assert_eq!(leaf.put_at(1.., &longs(&[8, 9])).unwrap_err().kind(), "libtorch");
    assert_eq!(show(&leaf.select(["a"]).unwrap()), "{a: int64[3](1, 2, 3)}");
    tch::no_grad(|| leaf.put_at(1.., &longs(&[8, 9])).unwrap());
    assert_eq!(show(&leaf), "{a: int64[3](1, 8, 9), w: float32[3](0, 8, 9)}");
}

#[test]
fn updates_need_the_entries() {
    let mut stack = stack(0);
    stack.update_at(1, &member(&[7, 8, 9])).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 3](0, 1, 2, 7, 8, 9)}");
    let mut more = member(&[1, 1, 1]);
    more.set(["n", "b"], longs(&[1, 1, 1])).unwrap();
    refused(&stack.update_at(0, &more).unwrap_err(), Error::is_key, &["'n'"]);
    let mut dense = member(&[1, 2, 3]);
    dense.set(["n", "c"], longs(&[1, 2, 3])).unwrap();
    refused(&dense.update_at(0, &more.index(0).unwrap()).unwrap_err(), Error::is_key, &["('n', 'b')"]);
    assert_eq!(show(&dense), "{a: int64[3](1, 2, 3), n: {c: int64[3](1, 2, 3)}}");
}

#[test]
fn jagged_rows_of_the_same_lengths() {
    let jagged = |values: &[i64], offsets: &[i64]| JaggedTensor::try_new(longs(values), longs(offsets)).unwrap();
    let mut dict = TensorDict::new([3]);
    dict.set("j", jagged(&[1, 2, 3], &[0, 2, 2, 3])).unwrap();
    let handle = dict.jagged("j").unwrap();
    dict.set_at("j", longs(&[8, 9]), 0).unwrap();
    dict.set_at("j", jagged(&[5, 6, 7], &[0, 1, 3]), [2, 0]).unwrap();
    assert_eq!(show(&dict), "{j: jag(int64[3](6, 7, 5); 0, 2, 2, 3)}");
    assert_eq!(show_tensor(handle.values()), "int64[3](6, 7, 5)", "in place");
    for (value, index) in [
        (Entry::from(longs(&[8])), Indices::from(0)),
        (longs(&[8, 9]).into(), (..1).into()),
        (jagged(&[5, 6, 7], &[0, 2, 3]).into(), [2, 0].into()),
        (jagged(&[5, 6], &[0, 2]).into(), [2, 0].into()),
    ] {
        refused(&dict.set_at("j", value, index).unwrap_err(), Error::is_shape, &["'j'", "[3, -1]"]);
    }
    // Members take rows of a jagged entry as tensors, and a jagged one that they take whole.
    let mut stack = TensorDict::lazy_stack([TensorDict::new([]), TensorDict::new([]), TensorDict::new([])], 0).unwrap();
    stack.put_at([2, 0, 1], &dict).unwrap();
    assert_eq!(show(&stack.members()[2]), "{j: int64[2](6, 7)}");
    let mut stack = TensorDict::lazy_stack([TensorDict::new([3]), TensorDict::new([3])], 0).unwrap();
    stack.put_at(1, &dict).unwrap();
    assert_eq!(show(&stack.members()[1]), "{j: jag(int64[3](6, 7, 5); 0, 2, 2, 3)}");
    assert!(stack.put_at((0, 1..), &dict.index(1..).unwrap()).unwrap_err().is_shape());
}

#[test]
fn members_that_differ_are_gathered_from() {
    let stack = TensorDict::lazy_stack([member(&[0, 1, 2]), member(&[10, 11, 12, 13])], 0).unwrap();
    let gathered = stack.gather(0, &longs(&[1, 0, 1, 1, 1, 0]).view([2, 3])).unwrap();
    assert_eq!((show(&gathered).as_str(), gathered.is_lazy()), ("{a: int64[2, 3](10, 1, 12, 10, 11, 2)}", true));
    let gathered = stack.gather(1, &longs(&[2, 0, 3, 1]).view([2, 2])).unwrap();
    assert_eq!(show(&gathered), "{a: int64[2, 2](2, 0, 13, 11)}");
    assert_eq!(stack.gather(0, &longs(&[1, 0, 1])).unwrap().batch_size(), [3, -1]);
    for (dim, rows) in [(0, [0, -1]), (1, [3, 0]), (0, [2, 0])] {
        assert!(stack.gather(dim, &longs(&rows).view([1, 2])).unwrap_err().is_index(), "{rows:?}");
    }
    assert!(stack.gather(0, &longs(&[0; 4]).view([1, 4])).unwrap_err().is_index(), "member 0 has 3 rows");
}

fn item(size: i64) -> impl Strategy<Value = Index> {
    prop_oneof![
        (0..size, prop_oneof![Just(1i64), Just(2), Just(-1)]).prop_map(|(start, step)| Index::Slice {
            start: Some(start),
            stop: None,
            step
        }),
        (-size..size).prop_map(Index::Row),
        proptest::collection::vec(-size..size, 3).prop_map(Index::Rows),
        proptest::collection::vec(any::<bool>(), size as usize).prop_map(Index::Mask),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Values go where torch puts them one by one, whatever was repeated, and nothing else changes.
    #[test]
    fn parts_are_written_as_by_torch(
        dim in 0usize..3, a in item(2), b in item(3), c in item(4), ones in 0usize..8, fewer in 0usize..4,
    ) {
        let items = vec![a, b, c];
        let tensor = || Tensor::arange(24, (Kind::Int64, Device::Cpu)).view([2, 3, 4]);
        let whole = TensorDict::from_entries([("a", tensor())]).unwrap().with_batch_size(&[2, 3, 4]).unwrap();
        // Lists in pairs must go together.
        let Ok(part) = whole.index(items.clone()) else { return Ok(()) };
        let places = part.tensor("a").unwrap();
        // Fewer dims, and dims of size 1.
        let mut sizes: Vec<i64> = places.size().into_iter().skip(fewer).collect();
        for (at, size) in sizes.iter_mut().enumerate() {
            if ones & (1 << at) != 0 {
                *size = 1;
            }
        }
        let value = Tensor::arange(sizes.iter().product::<i64>(), (Kind::Int64, Device::Cpu)).view(sizes.as_slice()) + 1000;
        let expected = tensor();
        let spread = value.expand(places.size(), false).reshape([-1]);
        for at in 0..places.numel() as i64 {
            let place = places.reshape([-1]).get(at);
            let _ = expected.view([-1]).index_put_(&[Some(place)], &spread.get(at), false);
        }
        let members = (0..tensor().size()[dim]).map(|at| {
            let part = tensor().select(dim as i64, at).contiguous();
            let batch_size = part.size();
            TensorDict::from_entries([("a", part)]).unwrap().with_batch_size(&batch_size).unwrap()
        });
        let stack = TensorDict::lazy_stack(members, dim as i64).unwrap();
        let source = TensorDict::from_entries([("a", value.shallow_clone())]).unwrap().with_batch_size(&sizes).unwrap();
        for dict in [whole, stack] {
            let mut put = dict.deep_clone().unwrap();
            put.put_at(Indices::from(items.clone()), &source).unwrap();
            prop_assert!(put.tensor("a").unwrap().equal(&expected), "{items:?}");
            let mut set = dict;
            set.set_at("a", value.shallow_clone(), Indices::from(items.clone())).unwrap();
            prop_assert!(set.tensor("a").unwrap().equal(&expected), "{items:?}");
        }
    }
}
