//! Writing into the tensors that there are, and taking over another's entries.

use proptest::prelude::*;
use tch::Tensor;
use tensorquery::{Entry, LazyStackBuilder, NestedKey, NonTensorStack, TensorDict, UpdateOptions};

use crate::key_ops::{RAGGED, at, dict, is_key_error_at, jagged, lazy, longs, ragged, sample, show_members, strings};
use crate::show::{show, show_entry};

/// A single value for everyone.
fn single(value: &str) -> NonTensorStack {
    dict(&[1], [("s", strings(&[value]).into())]).index(0).unwrap().non_tensor("s").unwrap()
}

#[test]
fn setting_values_in_place() {
    let mut sample = sample();
    let (x, y) = (sample.tensor("x").unwrap(), sample.tensor(["n", "y"]).unwrap());
    let values = sample.jagged("j").unwrap().values().shallow_clone();
    sample.lock();
    sample.set_("x", Tensor::from_slice(&[7.9f32, -8.9])).unwrap();
    sample.set_(["n", "y"], longs(&[5, 6])).unwrap();
    sample.set_("j", jagged(&[4, 5, 6], &[0, 2, 3])).unwrap();
    sample.set_("s", strings(&["c", "d"])).unwrap();
    sample.set_("n", dict(&[2], [("t", strings(&["r", "s"]).into())])).unwrap();
    let shown = r#"{x: int64[2](7, -8), j: jag(int64[3](4, 5, 6); 0, 2, 3), s: nts("c", "d"), n: {y: int64[2](5, 6), t: nts("r", "s")}}"#;
    assert_eq!(show(&sample), shown);
    assert_eq!((x.int64_value(&[0]), y.int64_value(&[0]), values.int64_value(&[0])), (7, 5, 4), "storage is kept");
    let entries: [(NestedKey, Entry); 8] = [
        ("x".into(), longs(&[1]).into()),
        ("x".into(), longs(&[1, 2]).reshape([2, 1]).into()),
        ("x".into(), Tensor::new().into()),
        ("j".into(), jagged(&[1, 2, 3], &[0, 1, 3]).into()),
        ("j".into(), jagged(&[1, 2, 3], &[0, 3]).into()),
        ("s".into(), strings(&["a"]).into()),
        ("n".into(), dict(&[], [at("y", &[1])]).into()),
        (["n", "y"].into(), longs(&[1, 2, 3]).into()),
    ];
    for (key, entry) in entries {
        let error = sample.set_(&key, entry).unwrap_err();
        assert!(error.is_shape() && error.nested_key().is_some_and(|at| at.starts_with(&key)), "{key}: {error}");
        assert_eq!(show(&sample), shown, "{key}");
    }
    for key in [vec!["q"], vec![], vec!["x", "q"], vec!["n", "q"]] {
        assert!(sample.set_(key.as_slice(), longs(&[1, 2])).unwrap_err().is_key(), "{key:?}");
    }
    for entry in [Entry::from(jagged(&[1, 2, 3], &[0, 2, 3])), dict(&[2], []).into(), strings(&["a", "b"]).into()] {
        let error = sample.set_("x", entry).unwrap_err();
        assert!(is_key_error_at(&error, "x"), "{error}");
    }
}

#[test]
fn setting_values_of_stacks_in_place() {
    let columns = || dict(&[3], [at("a", &[0, 0, 0]), ("s", strings(&["a", "b", "c"]).into())]);
    let mut stack = lazy([columns(), columns()], 1);
    let tensors: Vec<_> = stack.members().iter().map(|member| member.tensor("a").unwrap()).collect();
    stack.set_("a", longs(&[1, 2, 3, 4, 5, 6]).reshape([3, 2])).unwrap();
    let shown: Vec<_> = tensors.iter().map(|tensor| show_entry(&tensor.shallow_clone().into())).collect();
    assert_eq!(shown, ["int64[3](1, 3, 5)", "int64[3](2, 4, 6)"]);
    stack.set_("s", single("z")).unwrap();
    assert_eq!(show_entry(&stack.entry("s").unwrap()), r#"nts("z", "z", "z", "z", "z", "z")"#);
    assert!(stack.set_("a", longs(&[1, 2, 3])).unwrap_err().is_shape());

    let mut stack = ragged();
    assert!(is_key_error_at(&stack.set_("b", longs(&[1, 2])).unwrap_err(), "b"), "a member lacks it");
    assert!(stack.set_("a", longs(&[9, 9]).reshape([2, 1])).unwrap_err().is_shape());
    assert_eq!(show_members(&stack), RAGGED);
    stack.set_("a", jagged(&[7, 8, 9], &[0, 2, 3])).unwrap();
    assert_eq!(show_members(&stack.select(["a"]).unwrap()), ["{a: int64[2](7, 8)}", "{a: int64[1](9)}"]);
}

#[test]
fn updating() {
    let mut sample = sample();
    let mut source = dict(&[2], [at("x", &[8, 9]), at("new", &[1, 2])]);
    source.set(["n", "z"], longs(&[5, 5])).unwrap();
    let x = sample.tensor("x").unwrap();
    sample.update(&source).unwrap();
    assert_eq!(sample.keys().collect::<Vec<_>>(), ["x", "j", "s", "n", "new"]);
    assert_eq!(sample.tensor("x").unwrap().data_ptr(), source.tensor("x").unwrap().data_ptr(), "storage is shared");
    assert_eq!(show_entry(&sample.entry("n").unwrap()), r#"{y: int64[2](3, 4), t: nts("p", "q"), z: int64[2](5, 5)}"#);
    assert_eq!(x.int64_value(&[0]), 1, "the old tensor is replaced");

    let options = UpdateOptions::default().copy(true).keys([NestedKey::from("x"), ["n", "z"].into(), "q".into()]);
    let mut other = TensorDict::new([2]);
    other.update_with(&source, &options).unwrap();
    assert_eq!(show(&other), "{x: int64[2](8, 9), n: {z: int64[2](5, 5)}}");
    assert_ne!(other.tensor("x").unwrap().data_ptr(), source.tensor("x").unwrap().data_ptr());
    assert_ne!(other.tensor(["n", "z"]).unwrap().data_ptr(), source.tensor(["n", "z"]).unwrap().data_ptr());

    // All or nothing.
    let mut wrong = TensorDict::new([]);
    wrong.set("x", longs(&[5, 5])).unwrap();
    wrong.set(["n", "y"], longs(&[5])).unwrap();
    let error = other.update(&wrong).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&["n", "y"].into()), "{error}");
    assert_eq!(show(&other), "{x: int64[2](8, 9), n: {z: int64[2](5, 5)}}");
    // A leaf in a dict's place replaces it, and the other way round.
    other.update(&dict(&[2], [at("n", &[1, 2]), ("x", dict(&[2], []).into())])).unwrap();
    assert_eq!(show(&other), "{x: {}, n: int64[2](1, 2)}");

    let replaced = source.replace(&dict(&[2], [at("x", &[0, 0])])).unwrap();
    assert_eq!(show(&replaced), "{x: int64[2](0, 0), new: int64[2](1, 2), n: {z: int64[2](5, 5)}}");
    assert_eq!(show_entry(&source.entry("x").unwrap()), "int64[2](8, 9)");
}

#[test]
fn updating_what_is_locked() {
    let mut sample = sample().locked();
    let x = sample.tensor("x").unwrap();
    let source = dict(&[2], [at("x", &[8, 9])]);
    let in_place = UpdateOptions::default().in_place(true);
    assert!(sample.update(&source).unwrap_err().is_lock());
    sample.update_with(&source, &in_place).unwrap();
    assert_eq!(x.int64_value(&[1]), 9);
    let error = sample.update_with(&dict(&[2], [at("x", &[0, 0]), at("new", &[1, 2])]), &in_place).unwrap_err();
    assert!(error.is_lock() && error.nested_key() == Some(&"new".into()), "{error}");
    assert_eq!(x.int64_value(&[1]), 9, "nothing is written");
    assert!(sample.is_locked());
    sample.update_(&source).unwrap();

    // A locked member.
    let mut stack = lazy([dict(&[], [at("a", &[1])]), dict(&[], [at("a", &[2])]).locked()], 0);
    assert!(stack.update(&dict(&[2], [("a", longs(&[3, 4]).reshape([2, 1]).into())])).unwrap_err().is_lock());
    assert_eq!(show_members(&stack), ["{a: int64[1](1)}", "{a: int64[1](2)}"]);
    stack.lock();
    let resize = UpdateOptions::default().in_place(true).update_batch_size(true);
    let one = lazy([dict(&[], [at("a", &[5])])], 0);
    assert!(stack.update_with(&one, &resize).unwrap_err().is_lock());
    assert_eq!(show_members(&stack), ["{a: int64[1](1)}", "{a: int64[1](2)}"]);
}

#[test]
fn updating_stacks() {
    // Exclusive keys stay exclusive.
    let mut stack = lazy([TensorDict::new([]), TensorDict::new([])], 0);
    let exclusive = lazy([dict(&[], [at("b", &[1])]), dict(&[], [at("c", &[2, 3])])], 0);
    stack.update(&exclusive).unwrap();
    assert_eq!(show_members(&stack), ["{b: int64[1](1)}", "{c: int64[2](2, 3)}"]);

    // Fewer members are an error, more are ignored.
    let one = lazy([dict(&[], [at("a", &[1])])], 0);
    let error = stack.update(&one).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("has 1 members, this stack 2"), "{error}");
    let three = lazy([1i64, 2, 3].map(|value| dict(&[], [at("a", &[value])])), 0);
    stack.update(&three).unwrap();
    assert_eq!(show_members(&stack)[1], "{c: int64[2](2, 3), a: int64[1](2)}");
    assert_eq!(stack.batch_size(), [2]);

    // Any other source is split along the stack dim.
    let mut columns = lazy([TensorDict::new([3]), TensorDict::new([3])], 1);
    let dense = dict(&[3, 2], [("x", longs(&[1, 2, 3, 4, 5, 6]).reshape([3, 2]).into())]);
    columns.update(&dense).unwrap();
    assert_eq!(show_members(&columns), ["{x: int64[3](1, 3, 5)}", "{x: int64[3](2, 4, 6)}"]);
    columns.update(&TensorDict::lazy_stack(dense.mul(10).unwrap().unbind(0).unwrap(), 0).unwrap()).unwrap();
    assert_eq!(show_members(&columns), ["{x: int64[3](10, 30, 50)}", "{x: int64[3](20, 40, 60)}"]);
    // One that doesn't say its batch size is read as having ours.
    let bare = dict(&[], [("x", longs(&[0, 1, 2, 3, 4, 5]).reshape([3, 2]).into())]);
    columns.update(&bare).unwrap();
    assert_eq!(show_members(&columns), ["{x: int64[3](0, 2, 4)}", "{x: int64[3](1, 3, 5)}"]);
    for wrong in [
        dict(&[2], [at("x", &[1, 2])]),
        dict(&[], [at("x", &[1, 2, 3])]),
        dict(&[3, 3], [("x", longs(&[0; 9]).reshape([3, 3]).into())]),
    ] {
        let error = columns.update(&wrong).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("different shapes"), "{error}");
    }
    // The second member's entry doesn't fit; the first is as it was.
    let mut stack = lazy([dict(&[1], [at("a", &[1])]), dict(&[1], [at("a", &[2])])], 0);
    let source = lazy([dict(&[1], [at("a", &[3])]), dict(&[2], [at("a", &[4, 5])])], 0);
    assert!(stack.update(&source).unwrap_err().is_shape());
    assert_eq!(show_members(&stack), ["{a: int64[1](1)}", "{a: int64[1](2)}"]);

    // A nested stack in a dense tensordict.
    let mut outer = dict(&[2], [("l", ragged().into())]);
    outer.update(&dict(&[2], [("l", exclusive.into())])).unwrap();
    assert_eq!(outer.dict("l").unwrap().members()[1].len(), 4);
    // Dense from lazy: what every member has.
    let mut dense = TensorDict::new([2]);
    dense.update(&ragged().exclude(["a"])).unwrap();
    assert_eq!(show(&dense), "{n: {y: int64[2, 1](5, 6)}}");
    assert!(dense.update(&ragged()).unwrap_err().is_shape());
}

#[test]
fn taking_over_the_batch_size() {
    let resize = UpdateOptions::default().update_batch_size(true);
    let stack =
        |values: &[i64]| TensorDict::lazy_stack(values.iter().map(|value| dict(&[], [at("a", &[*value])])), 0).unwrap();
    let mut two = stack(&[1, 2]);
    two.update_with(&stack(&[3]), &resize).unwrap();
    assert_eq!((show_members(&two), two.batch_size()), (vec!["{a: int64[1](3)}".to_owned()], vec![1]));
    two.update_with(&stack(&[4, 5, 6]), &resize.clone().copy(true)).unwrap();
    assert_eq!(two.batch_size(), [3]);
    assert_eq!(show_entry(&two.entry("a").unwrap()), "int64[3, 1](4, 5, 6)");
    two.update_with(&dict(&[2], [("a", longs(&[7, 8]).reshape([2, 1]).into())]), &resize).unwrap();
    assert_eq!(show_entry(&two.entry("a").unwrap()), "int64[2, 1](7, 8)");
    let lacking = lazy([dict(&[], [at("b", &[1])])], 0);
    let error = two.update_with(&lacking, &resize).unwrap_err();
    assert!(is_key_error_at(&error, "a"), "{error}");
    assert_eq!(two.batch_size(), [2]);
    two.update_with(&LazyStackBuilder::new([]).build().unwrap(), &resize).unwrap_err();

    let mut dense = dict(&[2], [at("x", &[1, 2]), ("n", dict(&[2], [at("y", &[3, 4])]).into())]);
    let source = dict(&[1], [at("z", &[0]), ("n", dict(&[1], [at("y", &[9])]).into()), at("x", &[8])]);
    dense.update_with(&source, &resize).unwrap();
    assert_eq!(show(&dense), "{x: int64[1](8), n: {y: int64[1](9)}, z: int64[1](0)}");
    assert_eq!((dense.batch_size(), dense.dict("n").unwrap().batch_size()), (vec![1], vec![1]));
    let error = dense.update_with(&dict(&[3], [at("x", &[1, 2, 3]), at("z", &[1, 2, 3])]), &resize).unwrap_err();
    assert!(is_key_error_at(&error, ["n", "y"]), "{error}");
    assert_eq!(dense.batch_size(), [1]);
    assert!(dict(&[3], []).update_with(&lazy([dict(&[1], []), dict(&[2], [])], 0), &resize).unwrap_err().is_shape());
}

#[test]
fn writing_over() {
    let mut stack = ragged();
    let tensors: Vec<_> = stack.members().iter().map(|member| member.tensor("a").unwrap()).collect();
    stack.update_(&ragged().exclude(["b"]).mul(10).unwrap()).unwrap();
    let shown: Vec<_> = tensors.iter().map(|tensor| show_entry(&tensor.shallow_clone().into())).collect();
    assert_eq!(shown, ["int64[2](10, 20)", "int64[1](30)"]);
    // All is checked before the first is written.
    let swapped = lazy([dict(&[], [at("a", &[0, 0])]), dict(&[], [at("a", &[0, 0])])], 0);
    for options in [None, Some(UpdateOptions::default().in_place(true))] {
        let error = match &options {
            None => stack.update_(&swapped).unwrap_err(),
            Some(options) => stack.update_with(&swapped, options).unwrap_err(),
        };
        assert!(error.is_shape() && error.nested_key() == Some(&"a".into()), "{error}");
        assert_eq!(show_members(&stack)[0], "{a: int64[2](10, 20), n: {y: int64[1](50)}}");
    }
    let error = stack.update_(&lazy([dict(&[], []), dict(&[], [at("c", &[0])])], 0)).unwrap_err();
    assert!(is_key_error_at(&error, "c"), "{error}");
    let error = stack.update_(&lazy([dict(&[], [("a", strings(&["x"]).into())]), dict(&[], [])], 0)).unwrap_err();
    assert!(is_key_error_at(&error, "a"), "{error}");
}

#[test]
fn sources_in_the_same_memory_are_read_first() {
    let mut pair = dict(&[2], [at("x", &[1, 2]), at("y", &[3, 4])]);
    let swapped = dict(&[2], [("x", pair.entry("y").unwrap()), ("y", pair.entry("x").unwrap())]);
    pair.update_(&swapped).unwrap();
    assert_eq!(show(&pair), "{x: int64[2](3, 4), y: int64[2](1, 2)}");
    let itself = pair.shallow_clone();
    pair.update_(&itself).unwrap();
    assert_eq!(show(&pair), "{x: int64[2](3, 4), y: int64[2](1, 2)}");
    // Shifted by one in one buffer.
    let buffer = longs(&[1, 2, 3, 4, 5]);
    let mut shifted = dict(&[4], [("x", buffer.narrow(0, 1, 4).into())]);
    shifted.update_(&dict(&[4], [("x", buffer.narrow(0, 0, 4).into())])).unwrap();
    assert_eq!(show(&shifted), "{x: int64[4](1, 2, 3, 4)}");
}

#[test]
fn what_cannot_be_written_to() {
    let mut shared = dict(&[2], [at("a", &[1, 2]), ("x", longs(&[1]).expand([2], false).into())]);
    let error = shared.update_(&dict(&[2], [at("a", &[3, 4]), at("x", &[5, 6])])).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"x".into()), "{error}");
    assert_eq!(show_entry(&shared.entry("a").unwrap()), "int64[2](1, 2)");

    let weights = Tensor::from_slice(&[1.0f32, 2.0]).set_requires_grad(true);
    let mut training = dict(&[2], [at("a", &[1, 2]), ("w", weights.into())]);
    let source = dict(&[2], [at("a", &[3, 4]), ("w", Tensor::from_slice(&[5.0f32, 6.0]).into())]);
    let error = training.update_(&source).unwrap_err();
    assert!(error.kind() == "libtorch" && error.nested_key() == Some(&"w".into()), "{error}");
    assert_eq!(show_entry(&training.entry("a").unwrap()), "int64[2](1, 2)");
    tch::no_grad(|| training.update_(&source)).unwrap();
    assert!(training.tensor("w").unwrap().requires_grad());
    assert_eq!(show(&training.detach().unwrap()), "{a: int64[2](3, 4), w: float32[2](5, 6)}");
}

/// Random members of one shape, as a stack and dense.
pub(crate) fn both(values: &[i64], members: usize, rows: i64, dim: i64) -> (TensorDict, TensorDict) {
    let mut place = values.iter().copied().cycle();
    let mut draw = |shape: &[i64]| {
        let count = shape.iter().product::<i64>();
        longs(&place.by_ref().take(count as usize).collect::<Vec<_>>()).reshape(shape)
    };
    let members = (0..members).map(|_| {
        let nested = dict(&[rows], [("y", draw(&[rows, 2]).into())]);
        dict(&[rows], [("x", draw(&[rows]).into()), ("n", nested.into())])
    });
    let stack = TensorDict::lazy_stack(members.collect::<Vec<_>>(), dim).unwrap();
    let dense = stack.contiguous().unwrap();
    (stack, dense)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is written, a stack holds what the dense tensordict does, from a dense or a lazy source.
    #[test]
    fn stacks_are_updated_as_dense_ones(
        old in prop::collection::vec(-9i64..9, 1..30),
        new in prop::collection::vec(-9i64..9, 1..30),
        (members, rows, dim, other) in (1usize..4, 0i64..4, 0i64..2, 0i64..2),
        (in_place, from_stack) in (any::<bool>(), any::<bool>()),
    ) {
        let (mut stack, mut dense) = both(&old, members, rows, dim);
        let (_, source) = both(&new, members, rows, dim);
        let source = if from_stack && rows > 0 { TensorDict::lazy_stack(source.unbind(other).unwrap(), other) } else { Ok(source) };
        let source = source.unwrap();
        let options = UpdateOptions::default().in_place(in_place);
        stack.update_with(&source, &options).unwrap();
        dense.update_with(&source, &options).unwrap();
        prop_assert!(stack.is_lazy() && dense.equal(&source).unwrap());
        prop_assert_eq!(show(&stack), show(&dense));
        stack.zero_().unwrap();
        stack.set_(["n", "y"], source.entry(["n", "y"]).unwrap()).unwrap();
        prop_assert_eq!(show_entry(&stack.entry(["n", "y"]).unwrap()), show_entry(&source.entry(["n", "y"]).unwrap()));
        prop_assert!(!stack.select(["x"]).unwrap().any().unwrap());
    }
}
