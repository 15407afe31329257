//! Tensordicts put together and taken apart.

use std::sync::Arc;

use arrow::array::StringArray;
use tch::{Device, Kind, Tensor};
use tensorquery::{Error, JaggedTensor, LazyStackBuilder, NonTensorStack, TensorDict};

use crate::show::{show, show_entry};

fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

fn bare(key: &str, values: &[i64]) -> TensorDict {
    TensorDict::from_entries([(key, longs(values))]).unwrap()
}

fn batch(values: &[i64]) -> TensorDict {
    bare("a", values).with_batch_size(&[values.len() as i64]).unwrap()
}

fn lazy<const N: usize>(members: [TensorDict; N]) -> TensorDict {
    TensorDict::lazy_stack(members, 0).unwrap()
}

fn says(error: &Error, is: impl Fn(&Error) -> bool, words: &[&str]) {
    let text = error.to_string();
    assert!(is(error) && words.iter().all(|word| text.contains(word)), "{text} lacks one of {words:?}");
}

#[test]
fn dense_stacks() {
    let stack = TensorDict::stack([batch(&[1, 2]), batch(&[3, 4])], 0).unwrap();
    assert_eq!(
        (stack.is_lazy(), stack.batch_size(), show(&stack)),
        (false, vec![2, 2], "{a: int64[2, 2](1, 2, 3, 4)}".to_owned())
    );
    let columns = TensorDict::stack([batch(&[1, 2]), batch(&[3, 4])], -1).unwrap();
    assert_eq!(show(&columns), "{a: int64[2, 2](1, 3, 2, 4)}");
    // Keys in another order, dtypes promoted, values stacked, dicts too.
    let mut first = batch(&[1, 2]);
    first.set("s", NonTensorStack::new(Arc::new(StringArray::from(vec!["x", "y"])))).unwrap();
    first.set(["n", "z"], longs(&[1, 2])).unwrap();
    let mut second = TensorDict::new([2]);
    second.set(["n", "z"], Tensor::from_slice(&[0.5f32, 1.5])).unwrap();
    second.set("s", "same").unwrap();
    second.set("a", longs(&[3, 4])).unwrap();
    let stack = TensorDict::stack([first.shallow_clone(), second], 0).unwrap();
    let expected =
        r#"{a: int64[2, 2](1, 2, 3, 4), s: nts("x", "y", "same", "same"), n: {z: float32[2, 2](1, 2, 0.5, 1.5)}}"#;
    assert_eq!((show(&stack).as_str(), stack.dict("n").unwrap().is_lazy()), (expected, false));

    let error = TensorDict::stack([batch(&[1, 2]), first], 0).unwrap_err();
    says(&error, Error::is_key, &["sets of keys", "exclusive", "\"s\"", "\"n\""]);
    let error = TensorDict::stack([bare("a", &[1, 2]), bare("a", &[1])], 0).unwrap_err();
    says(&error, Error::is_shape, &["'a'", "shapes of the tensors to stack", "[2]", "[1]"]);
    let error = TensorDict::stack([batch(&[1, 2]), batch(&[1])], 0).unwrap_err();
    says(&error, Error::is_shape, &["stacking tensordicts requires", "[2]", "[1]"]);
    says(&TensorDict::stack([], 0).unwrap_err(), Error::is_shape, &["items cannot be empty"]);
    assert!(TensorDict::stack([batch(&[1])], 2).unwrap_err().is_index());
    let error = TensorDict::stack([batch(&[1]), batch(&[1]).to(Device::Cpu).unwrap()], 0).unwrap_err();
    assert!(error.is_device());
}

#[test]
fn dense_where_they_can_be() {
    let one = |values: &[i64]| {
        let mut dict = bare("x", &[1]);
        dict.set(["n", "a"], longs(values)).unwrap();
        dict
    };
    let same = TensorDict::maybe_dense_stack([one(&[1, 2]), one(&[3, 4])], 0).unwrap();
    assert!(!same.is_lazy() && !same.dict("n").unwrap().is_lazy());
    // Level by level.
    let mixed = TensorDict::maybe_dense_stack([one(&[1, 2, 3]), one(&[1, 2, 3, 4])], 0).unwrap();
    assert_eq!((mixed.is_lazy(), mixed.tensor("x").unwrap().size()), (false, vec![2, 1]));
    let nested = mixed.dict("n").unwrap();
    assert_eq!((nested.is_lazy(), nested.item_shape("a").unwrap()), (true, vec![2, -1]));
    assert!(TensorDict::maybe_dense_stack([bare("a", &[1]), bare("b", &[1])], 0).unwrap().is_lazy());
    assert!(TensorDict::maybe_dense_stack([bare("a", &[1]), bare("a", &[1, 2])], 0).unwrap().is_lazy());
    assert!(TensorDict::maybe_dense_stack([batch(&[1]), batch(&[1, 2])], 0).unwrap().is_lazy());
    assert!(TensorDict::maybe_dense_stack([batch(&[1]), bare("a", &[1, 2])], 0).unwrap_err().is_shape());
    let jagged = || {
        let jagged = JaggedTensor::try_new(longs(&[1, 2]), longs(&[0, 2])).unwrap();
        TensorDict::from_entries([("j", jagged)]).unwrap().with_batch_size(&[1]).unwrap()
    };
    assert!(TensorDict::maybe_dense_stack([jagged(), jagged()], 0).unwrap().is_lazy());
    assert!(TensorDict::stack([jagged(), jagged()], 0).unwrap_err().is_shape());
    let text = |text: &str| TensorDict::from_entries([("s", text)]).unwrap();
    let words = TensorDict::maybe_dense_stack([text("x"), text("x")], 0).unwrap();
    assert_eq!(show(&words), r#"{s: nts("x", "x")}"#);
    // Lazy stacks of as many members: pair by pair.
    let pair = |offset: i64| lazy([batch(&[offset, offset + 1]), batch(&[offset + 2, offset + 3])]);
    for (dim, stack_dim, batch_size) in [(0, 1, [3, 2, 2]), (1, 0, [2, 3, 2]), (2, 0, [2, 2, 3])] {
        let stack = TensorDict::maybe_dense_stack([pair(0), pair(10), pair(20)], dim).unwrap();
        assert_eq!((stack.stack_dim(), stack.batch_size()), (Some(stack_dim), batch_size.to_vec()));
        let dense = Tensor::stack(&[0, 10, 20].map(|offset| pair(offset).tensor("a").unwrap()), dim);
        assert!(stack.tensor("a").unwrap().equal(&dense));
        assert!(TensorDict::stack([pair(0), pair(10), pair(20)], dim).unwrap().tensor("a").unwrap().equal(&dense));
    }
}

#[test]
fn stacks_of_stacks_keep_names_and_entries() {
    let named = |name: &str| LazyStackBuilder::new([batch(&[1]), batch(&[2])]).stack_dim_name(name).build().unwrap();
    let names = |items| TensorDict::maybe_dense_stack(items, 0).unwrap().names().unwrap();
    assert_eq!(names([named("s"), named("s")]), [None, Some("s".to_owned()), None]);
    assert_eq!(names([named("s"), named("t")]), [None, None, None]);
    let mut extra = batch(&[3]);
    extra.set("b", longs(&[4])).unwrap();
    let (mixed, dense) = (lazy([batch(&[1]), extra]), TensorDict::stack([batch(&[1]), batch(&[2])], 0).unwrap());
    let error = TensorDict::stack([dense.shallow_clone(), mixed.shallow_clone()], 0).unwrap_err();
    says(&error, Error::is_key, &["sets of keys", "exclusive", "b"]);
    let apart = TensorDict::maybe_dense_stack([dense, mixed], 0).unwrap();
    assert!(apart.members()[1].members()[1].contains_key("b"));
}

#[test]
fn one_after_the_other() {
    let whole = TensorDict::cat([batch(&[1, 2]), batch(&[3])], 0).unwrap();
    assert_eq!((whole.batch_size(), show(&whole)), (vec![3], "{a: int64[3](1, 2, 3)}".to_owned()));
    let mut first = batch(&[1, 2]);
    first.set("j", JaggedTensor::try_new(longs(&[1, 2, 3]), longs(&[0, 1, 3])).unwrap()).unwrap();
    first.set("s", "x").unwrap();
    first.set(["n", "y"], longs(&[1, 2])).unwrap();
    let whole = TensorDict::cat([first.shallow_clone(), first.shallow_clone()], -1).unwrap();
    let expected = r#"{a: int64[4](1, 2, 1, 2), j: jag(int64[6](1, 2, 3, 1, 2, 3); 0, 1, 3, 4, 6), s: nts("x", "x", "x", "x"), n: {y: int64[4](1, 2, 1, 2)}}"#;
    assert_eq!(show(&whole), expected);
    says(&TensorDict::cat([first, batch(&[1])], 0).unwrap_err(), Error::is_key, &["exclusive"]);
    says(&TensorDict::cat([], 0).unwrap_err(), Error::is_shape, &["empty"]);
    assert!(TensorDict::cat([batch(&[1])], 1).unwrap_err().is_index());
    assert!(TensorDict::cat([bare("a", &[1])], 0).unwrap_err().is_index());
    let wide = |rows: i64, columns: i64| {
        let tensor = Tensor::ones([rows, columns], (Kind::Int64, Device::Cpu));
        TensorDict::from_entries([("a", tensor)]).unwrap().with_batch_size(&[rows, columns]).unwrap()
    };
    assert_eq!(TensorDict::cat([wide(2, 3), wide(2, 1)], 1).unwrap().batch_size(), [2, 4]);
    says(&TensorDict::cat([wide(2, 3), wide(3, 3)], 1).unwrap_err(), Error::is_shape, &["[2, 3]", "[3, 3]"]);
    let trailing = |columns: i64| wide(2, columns).with_batch_size(&[2]).unwrap();
    says(&TensorDict::cat([trailing(1), trailing(2)], 0).unwrap_err(), Error::is_shape, &["'a'"]);
}

#[test]
fn lazy_stacks_one_after_the_other() {
    let mut extra = batch(&[7, 8]);
    extra.set("b", longs(&[1, 1])).unwrap();
    let stack = lazy([batch(&[1, 2]), batch(&[3, 4, 5]), extra]);
    let parts = [
        stack.index(0..1).unwrap(),
        LazyStackBuilder::new([]).batch_size([2]).build().unwrap(),
        stack.index(1..).unwrap(),
    ];
    let joined = TensorDict::cat(parts, 0).unwrap();
    assert_eq!((joined.batch_size(), joined.members().len()), (vec![3, -1], 3));
    for (ours, theirs) in joined.members().iter().zip(stack.members()) {
        assert_eq!(show(ours), show(theirs));
        assert_eq!(ours.tensor("a").unwrap().data_ptr(), theirs.tensor("a").unwrap().data_ptr());
    }
    // Stacks without members add nothing, whatever they are stacks of; parts of no rows neither.
    let none = LazyStackBuilder::new([]).build().unwrap();
    let joined = TensorDict::cat([none, stack.shallow_clone(), stack.index(0..0).unwrap()], 0).unwrap();
    assert_eq!((joined.batch_size(), joined.members().len()), (vec![3, -1], 3));
    // Dense items are taken apart; other dims are each member's.
    let dense = TensorDict::stack([batch(&[1, 2]), batch(&[3, 4])], 0).unwrap();
    let both = TensorDict::cat([lazy([batch(&[5, 6])]), dense.shallow_clone()], 0).unwrap();
    assert_eq!(show(&both), "{a: int64[3, 2](5, 6, 1, 2, 3, 4)}");
    let wide = TensorDict::cat([dense.to_lazy_stack(0).unwrap(), dense.shallow_clone()], 1).unwrap();
    assert_eq!((wide.is_lazy(), show(&wide)), (true, "{a: int64[2, 4](1, 2, 1, 2, 3, 4, 3, 4)}".to_owned()));
    let other = dense.to_lazy_stack(1).unwrap();
    says(&TensorDict::cat([dense.to_lazy_stack(0).unwrap(), other], 0).unwrap_err(), Error::is_shape, &["stack dim"]);
    let three = lazy([batch(&[1, 2]), batch(&[1, 2]), batch(&[1, 2])]);
    says(
        &TensorDict::cat([dense.to_lazy_stack(0).unwrap(), three], 1).unwrap_err(),
        Error::is_shape,
        &["2 and 3 members"],
    );
}

#[test]
fn taken_apart() {
    let dict = batch(&[1, 2, 3, 4, 5]);
    let text =
        |parts: Vec<TensorDict>| parts.iter().map(|part| show_entry(&part.entry("a").unwrap())).collect::<Vec<_>>();
    assert_eq!(text(dict.split(&[2, 0, 3], 0).unwrap()), ["int64[2](1, 2)", "int64[0]()", "int64[3](3, 4, 5)"]);
    assert_eq!(text(dict.split_every(2, -1).unwrap()), ["int64[2](1, 2)", "int64[2](3, 4)", "int64[1](5)"]);
    assert_eq!(text(dict.chunk(2, 0).unwrap()), ["int64[3](1, 2, 3)", "int64[2](4, 5)"]);
    assert_eq!(text(batch(&[]).chunk(3, 0).unwrap()), ["int64[0]()"]);
    assert_eq!(text(dict.chunk(i64::MAX, 0).unwrap()).len(), 5);
    for sizes in [vec![2, 2], vec![6], vec![-1, 6], vec![i64::MAX, 1], vec![]] {
        says(&dict.split(&sizes, 0).unwrap_err(), Error::is_shape, &["5"]);
    }
    for error in [dict.split_every(0, 0), dict.split_every(-1, 0), dict.chunk(0, 0)].map(Result::unwrap_err) {
        assert!(error.is_shape(), "{error}");
    }
    assert!(dict.split(&[5], 1).unwrap_err().is_index());

    let ragged = lazy([batch(&[1, 2]), batch(&[3, 4, 5]), batch(&[6])]);
    let parts = ragged.split(&[2, 0, 1], 0).unwrap();
    assert_eq!(parts.iter().map(|part| part.members().len()).collect::<Vec<_>>(), [2, 0, 1]);
    let back = TensorDict::cat(parts, 0).unwrap();
    assert_eq!(back.item_shape("a").unwrap(), ragged.item_shape("a").unwrap());
    assert!(ragged.split(&[1, 1], 1).unwrap_err().is_shape() && ragged.split_every(1, 1).unwrap_err().is_shape());
    let even = lazy([batch(&[1, 2, 3]), batch(&[4, 5, 6])]);
    let parts = even.split(&[1, 2], 1).unwrap();
    assert_eq!((parts[1].is_lazy(), show(&parts[1])), (true, "{a: int64[2, 2](2, 3, 5, 6)}".to_owned()));

    let rows = even.unbind(1).unwrap();
    assert_eq!((rows.len(), rows[0].is_lazy(), show(&rows[0])), (3, true, "{a: int64[2](1, 4)}".to_owned()));
    assert!(ragged.unbind(1).unwrap_err().is_shape() && ragged.unbind(2).unwrap_err().is_index());
    // Stacked anew along another dim.
    let cube =
        TensorDict::from_entries([("a", Tensor::arange(24, (Kind::Int64, Device::Cpu)).view([3, 2, 4]))]).unwrap();
    let cube = cube.with_batch_size(&[3, 2, 4]).unwrap();
    let stack = cube.to_lazy_stack(1).unwrap();
    for (dim, members) in [(0, 3), (1, 2), (-1, 4)] {
        let again = stack.to_lazy_stack(dim).unwrap();
        assert_eq!((again.members().len(), again.batch_size()), (members, vec![3, 2, 4]));
        assert!(again.tensor("a").unwrap().equal(&cube.tensor("a").unwrap()));
    }
    let none = batch(&[]).to_lazy_stack(0).unwrap();
    assert_eq!((none.batch_size(), none.is_lazy()), (vec![0], true));
}
