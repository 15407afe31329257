//! Batch dims in other shapes and orders, of dense tensordicts and lazy stacks alike.

use std::sync::Arc;

use arrow::array::Int64Array;
use proptest::prelude::*;
use tch::{Device, Kind, Tensor};
use tensorquery::{JaggedTensor, LazyStackBuilder, NonTensorStack, Result, TensorDict};

use crate::show::show;

fn arange(sizes: &[i64]) -> Tensor {
    Tensor::arange(sizes.iter().product::<i64>(), (Kind::Int64, Device::Cpu)).view(sizes)
}

/// Entries of every kind but jagged: a tensor with a dim of its own, values, a nested dict with one more batch dim.
fn dense(sizes: &[i64]) -> TensorDict {
    let mut dict = TensorDict::new(sizes);
    dict.set("a", arange(&[sizes, &[2]].concat())).unwrap();
    let count = sizes.iter().product::<i64>();
    let values = NonTensorStack::new(Arc::new(Int64Array::from_iter_values(0..count)));
    let flat = TensorDict::from_entries([("s", values)]).unwrap().with_batch_size(&[count]).unwrap();
    dict.set("s", flat.reshape(sizes).unwrap().non_tensor("s").unwrap()).unwrap();
    let wide = [sizes, &[3]].concat();
    let mut deep = TensorDict::new(wide.as_slice());
    deep.set("x", arange(&wide)).unwrap();
    dict.set("deep", deep).unwrap();
    dict
}

fn lazy(sizes: &[i64], dim: usize) -> TensorDict {
    dense(sizes).to_lazy_stack(dim as i64).unwrap()
}

/// The same operation on the batch's dims of each tensor, by torch alone.
fn expect(dict: &TensorDict, sizes: &[i64], op: &dyn Fn(&Tensor) -> Tensor) {
    let places = op(&arange(sizes));
    assert_eq!(dict.batch_size(), places.size());
    let rows = places.reshape([-1]);
    let pick = |rest: &[i64]| {
        let count = sizes.iter().product::<i64>();
        let flat = arange(&[sizes, rest].concat()).view([&[count], rest].concat().as_slice());
        flat.index_select(0, &rows).view([&places.size()[..], rest].concat().as_slice())
    };
    assert!(dict.tensor("a").unwrap().equal(&pick(&[2])), "{dict:#}");
    assert!(dict.tensor(["deep", "x"]).unwrap().equal(&pick(&[3])), "{dict:#}");
    assert_eq!(dict.dict("deep").unwrap().batch_size(), [&places.size()[..], &[3]].concat());
    let values = dict.non_tensor("s").unwrap();
    assert_eq!(values.batch_size(), places.size());
    let numbers: Vec<String> = (0..values.values().len()).map(|at| values.value(at).unwrap().to_string()).collect();
    assert_eq!(numbers, Vec::<i64>::try_from(rows).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>());
}

fn check(sizes: &[i64], ours: &dyn Fn(&TensorDict) -> Result<TensorDict>, theirs: &dyn Fn(&Tensor) -> Tensor) {
    expect(&ours(&dense(sizes)).unwrap(), sizes, theirs);
    for dim in 0..sizes.len() {
        expect(&ours(&lazy(sizes, dim)).unwrap(), sizes, theirs);
    }
}

#[test]
fn reshaping() {
    let sizes = [2, 3, 4];
    for new in [
        vec![24],
        vec![6, 4],
        vec![2, 12],
        vec![4, 6],
        vec![2, 3, 2, 2],
        vec![1, 2, 3, 4],
        vec![2, 3, 4, 1],
        vec![3, 2, 4],
    ] {
        check(&sizes, &|dict| dict.reshape(&new), &|tensor| tensor.reshape(new.as_slice()));
    }
    check(&sizes, &|dict| dict.reshape(&[6, -1]), &|tensor| tensor.reshape([6, -1]));
    check(&sizes, &|dict| dict.flatten(0, 1), &|tensor| tensor.flatten(0, 1));
    check(&sizes, &|dict| dict.flatten(-2, -1), &|tensor| tensor.flatten(1, 2));
    check(&sizes, &|dict| dict.flatten(0, 2), &|tensor| tensor.flatten(0, 2));
    check(&sizes, &|dict| dict.unflatten(2, &[2, -1]), &|tensor| tensor.view([2, 3, 2, 2]));
    expect(&dense(&[0, 3]).reshape(&[3, 0]).unwrap(), &[0, 3], &|tensor| tensor.reshape([3, 0]));
    // A stack without members has no entries, but a batch size.
    assert_eq!(lazy(&[0, 3], 0).reshape(&[0]).unwrap().batch_size(), [0]);
    for wrong in [vec![5], vec![-1, -1], vec![-2, 12], vec![7, -1], vec![0, -1], vec![i64::MAX, i64::MAX], vec![]] {
        assert!(dense(&sizes).reshape(&wrong).unwrap_err().is_shape(), "{wrong:?}");
        assert!(lazy(&sizes, 1).reshape(&wrong).unwrap_err().is_shape(), "{wrong:?}");
    }
    assert!(dense(&sizes).flatten(1, 0).unwrap_err().is_index());
    assert!(dense(&sizes).flatten(0, 3).unwrap_err().is_index());
    assert!(lazy(&sizes, 1).unflatten(1, &[]).unwrap_err().is_shape());
}

#[test]
fn stacks_stay_lazy_where_they_can() {
    let stack = lazy(&[2, 3, 4], 1);
    assert!(stack.reshape(&[6, 4]).unwrap().is_lazy() && stack.view(&[6, 4]).unwrap().is_lazy());
    assert_eq!(stack.reshape(&[6, 4]).unwrap().members().len(), 6);
    assert!(!stack.reshape(&[4, 6]).unwrap().is_lazy());
    let error = stack.view(&[4, 6]).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("Call `reshape`"), "{error}");
    let turned = TensorDict::from_entries([("a", arange(&[2, 3]).tr())]).unwrap().with_batch_size(&[3, 2]).unwrap();
    let error = turned.view(&[6]).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("Call `reshape`"), "{error}");
    assert_eq!(turned.reshape(&[6]).unwrap().batch_size(), [6]);

    // 60 members as a stack of stacks of stacks, and back.
    let member = |at: i64| {
        TensorDict::from_entries([("a", Tensor::from_slice(&[at, at]))]).unwrap().with_batch_size(&[2]).unwrap()
    };
    for dim in [0, 1] {
        let stack = TensorDict::lazy_stack((0..60).map(member), dim).unwrap();
        let sizes: &[i64] = if dim == 0 { &[3, 4, 5, 2] } else { &[2, 3, 4, 5] };
        let nested = stack.view(sizes).unwrap();
        assert_eq!((nested.batch_size(), nested.members().len()), (sizes.to_vec(), 3));
        assert!(nested.members()[0].members()[0].is_lazy());
        let back = nested.view(&stack.batch_size()).unwrap();
        assert!(back.tensor("a").unwrap().equal(&stack.tensor("a").unwrap()));
        assert_eq!(
            back.members()[17].tensor("a").unwrap().data_ptr(),
            stack.members()[17].tensor("a").unwrap().data_ptr()
        );
    }
    // Members that differ, one after the other.
    let row = |size: i64| TensorDict::from_entries([("a", arange(&[size]))]).unwrap().with_batch_size(&[size]).unwrap();
    let ragged = TensorDict::lazy_stack([row(3), row(5)], 0).unwrap();
    for flat in [ragged.reshape(&[-1]).unwrap(), ragged.flatten(0, 1).unwrap()] {
        assert_eq!(show(&flat), "{a: int64[8](0, 1, 2, 0, 1, 2, 3, 4)}");
    }
    assert!(ragged.view(&[-1]).unwrap_err().is_shape());
    assert!(ragged.unflatten(1, &[1, -1]).unwrap_err().is_shape());
    assert!(ragged.reshape(&[2, 4]).unwrap_err().is_shape());
}

#[test]
fn orders_of_dims() {
    let sizes = [2, 3, 4];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        check(&sizes, &|dict| dict.permute(&order), &|tensor| tensor.permute(order));
    }
    check(&sizes, &|dict| dict.transpose(0, -1), &|tensor| tensor.transpose(0, 2));
    check(&sizes, &|dict| dict.movedim(0, 2), &|tensor| tensor.movedim_int(0, 2));
    check(&sizes, &|dict| dict.movedim(-1, 0), &|tensor| tensor.movedim_int(2, 0));
    check(&sizes, &|dict| dict.unsqueeze(-1), &|tensor| tensor.unsqueeze(3));
    check(&sizes, &|dict| dict.unsqueeze(1), &|tensor| tensor.unsqueeze(1));
    check(&[2, 1, 3], &|dict| dict.squeeze(1), &|tensor| tensor.squeeze_dim(1));
    check(&[2, 1, 3], &|dict| dict.squeeze(0), &|tensor| tensor.shallow_clone());
    check(&[1, 2, 1], &|dict| dict.squeeze(None), &|tensor| tensor.squeeze());
    let dict = dense(&sizes);
    for wrong in [vec![0, 1], vec![0, 1, 1], vec![0, 1, 3], vec![0, 1, -4], vec![0, 1, i64::MIN]] {
        assert!(dict.permute(&wrong).unwrap_err().is_index(), "{wrong:?}");
    }
    for error in [
        dict.transpose(0, 3).unwrap_err(),
        dict.unsqueeze(4).unwrap_err(),
        dict.unsqueeze(-5).unwrap_err(),
        dict.squeeze(3).unwrap_err(),
        dict.movedim(0, 3).unwrap_err(),
    ] {
        assert!(error.is_index(), "{error}");
    }
    // The stack dim moves, the members stay what they are.
    let stack = lazy(&sizes, 1);
    let turned = stack.transpose(0, 1).unwrap();
    assert_eq!(turned.stack_dim(), Some(0));
    assert_eq!(turned.members()[2].tensor("a").unwrap().data_ptr(), stack.members()[2].tensor("a").unwrap().data_ptr());
    let one = lazy(&[1, 3], 0).squeeze(0).unwrap();
    assert!(!one.is_lazy(), "the member");
    let row = |size: i64| TensorDict::from_entries([("a", arange(&[size]))]).unwrap().with_batch_size(&[size]).unwrap();
    let ragged = TensorDict::lazy_stack([row(3), row(5)], 0).unwrap();
    assert_eq!(ragged.transpose(0, 1).unwrap().batch_size(), [-1, 2]);
}

#[test]
fn repeating() {
    let sizes = [2, 1, 3];
    check(&sizes, &|dict| dict.expand(&[2, 4, 3]), &|tensor| tensor.expand([2, 4, 3], false));
    check(&sizes, &|dict| dict.expand(&[5, -1, 4, 3]), &|tensor| tensor.expand([5, 2, 4, 3], false));
    check(&sizes, &|dict| dict.repeat(&[1, 2, 2]), &|tensor| tensor.repeat([1, 2, 2]));
    expect(&dense(&sizes).repeat(&[0, 1, 1]).unwrap(), &sizes, &|tensor| tensor.repeat([0, 1, 1]));
    assert_eq!(lazy(&sizes, 0).repeat(&[0, 1, 1]).unwrap().batch_size(), [0, 1, 3]);
    check(&sizes, &|dict| dict.repeat_interleave(2, 2), &|tensor| tensor.repeat_interleave_self_int(2, 2, None));
    check(&sizes, &|dict| dict.flip(&[0, -1]), &|tensor| tensor.flip([0, 2]));
    check(&sizes, &|dict| dict.roll(1, 2), &|tensor| tensor.roll([1], [2]));
    check(&sizes, &|dict| dict.roll(-5, 2), &|tensor| tensor.roll([-5], [2]));
    check(&sizes, &|dict| dict.narrow(2, -2, 2), &|tensor| tensor.narrow(2, 1, 2));
    let dict = dense(&sizes);
    assert_eq!(dict.expand(&[2, 4, 3]).unwrap().tensor("a").unwrap().data_ptr(), dict.tensor("a").unwrap().data_ptr());
    for wrong in [vec![3, 1, 3], vec![1, 3], vec![2, 1, -2], vec![-1, 2, 1, 3]] {
        assert!(dict.expand(&wrong).unwrap_err().is_shape(), "{wrong:?}");
    }
    for wrong in [vec![1, 2], vec![1, 1, -1], vec![i64::MAX, 2, 2]] {
        assert!(dict.repeat(&wrong).unwrap_err().is_shape(), "{wrong:?}");
    }
    assert!(dict.repeat_interleave(-1, 0).unwrap_err().is_shape());
    for (start, length) in [(0, 4), (-4, 1), (2, 2), (0, -1), (i64::MAX, 1)] {
        assert!(dict.narrow(2, start, length).unwrap_err().is_index(), "{start} {length}");
    }
    let row = |size: i64| TensorDict::from_entries([("a", arange(&[size]))]).unwrap().with_batch_size(&[size]).unwrap();
    let ragged = TensorDict::lazy_stack([row(3), row(5)], 0).unwrap();
    assert_eq!(ragged.repeat(&[2, 1]).unwrap().batch_size(), [4, -1]);
    assert!(ragged.roll(1, 1).unwrap_err().is_shape());
    assert_eq!(ragged.roll(1, 0).unwrap().members()[0].batch_size(), [5]);
    let doubled = ragged.repeat_interleave(2, 1).unwrap();
    assert_eq!(show(&doubled.members()[0]), "{a: int64[6](0, 0, 1, 1, 2, 2)}");
}

#[test]
fn expanding_stacks() {
    let row = |size: i64| TensorDict::from_entries([("a", arange(&[size]))]).unwrap().with_batch_size(&[size]).unwrap();
    // Members of one shape become dense, others stay apart.
    let even = TensorDict::lazy_stack([row(2), row(2)], 0).unwrap().expand(&[3, 2, 2]).unwrap();
    assert_eq!((even.is_lazy(), even.batch_size()), (false, vec![3, 2, 2]));
    let ragged = TensorDict::lazy_stack([row(1), row(2)], 0).unwrap();
    for (sizes, lazy) in [(vec![3, 2, -1], true), (vec![3, -1, 2], false), (vec![-1, 2], false)] {
        let expanded = ragged.expand(&sizes).unwrap();
        let expected: Vec<i64> = if lazy { vec![3, 2, -1] } else { [&sizes[..sizes.len() - 2], &[2, 2]].concat() };
        assert_eq!((expanded.is_lazy(), expanded.batch_size()), (lazy, expected), "{sizes:?}");
    }
    assert_eq!(show(&ragged.expand(&[2, 2]).unwrap()), "{a: int64[2, 2](0, 0, 0, 1)}");
    for wrong in [vec![2, 3], vec![3, -1], vec![-1, 2, -1]] {
        assert!(ragged.expand(&wrong).unwrap_err().is_shape(), "{wrong:?}");
    }
    // One member is repeated, not copied; entries that not all have are kept.
    let single = TensorDict::lazy_stack([ragged.shallow_clone()], 0).unwrap().expand(&[4, 2, -1]).unwrap();
    assert_eq!((single.batch_size(), single.members().len()), (vec![4, 2, -1], 4));
    let address = |at: usize| single.members()[at].members()[1].tensor("a").unwrap().data_ptr();
    assert_eq!(address(0), address(3));
    let mut more = row(2);
    more.set("b", arange(&[2])).unwrap();
    let exclusive = TensorDict::lazy_stack([row(2), more], 0).unwrap().expand(&[3, 2, 2]).unwrap();
    assert_eq!(show(&exclusive.members()[1]), "{a: int64[3, 2](0, 1, 0, 1, 0, 1), b: int64[3, 2](0, 1, 0, 1, 0, 1)}");
}

/// What each operation makes of a batch size is what it makes of a stack without members.
#[test]
fn stacks_without_members() {
    let empty = LazyStackBuilder::new([]).batch_size([3, 4]).build().unwrap();
    type Op = fn(&TensorDict) -> Result<TensorDict>;
    let ops: [(Op, &[i64]); 18] = [
        (|dict| dict.permute(&[2, 0, 1]), &[4, 0, 3]),
        (|dict| dict.transpose(1, 2), &[0, 4, 3]),
        (|dict| dict.unsqueeze(0), &[1, 0, 3, 4]),
        (|dict| dict.unsqueeze(-1), &[0, 3, 4, 1]),
        (|dict| dict.unsqueeze(1)?.squeeze(1), &[0, 3, 4]),
        (|dict| dict.narrow(1, 1, 2), &[0, 2, 4]),
        (|dict| dict.index((.., 0)), &[0, 4]),
        (|dict| dict.index((0..0, [2, 0, 0, 1])), &[0, 4, 4]),
        (|dict| dict.repeat(&[2, 1, 2]), &[0, 3, 8]),
        (|dict| dict.repeat_interleave(2, 1), &[0, 6, 4]),
        (|dict| dict.expand(&[5, -1, 3, 4]), &[5, 0, 3, 4]),
        (|dict| dict.flatten(1, 2), &[0, 12]),
        (|dict| dict.flatten(0, 1), &[0, 4]),
        (|dict| dict.unflatten(2, &[2, -1]), &[0, 3, 2, 2]),
        (|dict| dict.unflatten(0, &[2, 0, 5]), &[2, 0, 5, 3, 4]),
        (|dict| dict.reshape(&[0, 12]), &[0, 12]),
        (|dict| dict.to_lazy_stack(1), &[0, 3, 4]),
        (|dict| TensorDict::cat([dict.shallow_clone(), dict.shallow_clone()], 1), &[0, 6, 4]),
    ];
    for (at, (op, expected)) in ops.into_iter().enumerate() {
        let result = op(&empty).unwrap();
        assert_eq!((result.batch_size(), result.is_lazy()), (expected.to_vec(), true), "operation {at}");
    }
    let sizes = |parts: Vec<TensorDict>| parts.iter().map(TensorDict::batch_size).collect::<Vec<_>>();
    assert_eq!(sizes(empty.split(&[1, 2], 1).unwrap()), [[0, 1, 4], [0, 2, 4]]);
    assert_eq!(sizes(empty.unbind(2).unwrap()), [[0, 3]; 4]);
    // What is left of a stack that was turned has the turned batch size; rows of no length keep their entry.
    let turned = lazy(&[2, 3, 4], 0).permute(&[0, 2, 1]).unwrap();
    assert_eq!(sizes(turned.split(&[0, 2], 0).unwrap()), [[0, 4, 3], [2, 4, 3]]);
    assert_eq!(show(&lazy(&[2, 0], 0).reshape(&[0]).unwrap().select(["a"]).unwrap()), "{a: int64[0, 2]()}");
}

#[test]
fn views_copy_nothing() {
    let turned = || {
        let tensor = arange(&[2, 3]).tr();
        TensorDict::from_entries([("a", tensor)]).unwrap().with_batch_size(&[3, 2]).unwrap()
    };
    let stack = TensorDict::lazy_stack([turned(), turned()], 0).unwrap();
    let error = stack.view(&[2, 6]).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("Call `reshape`"), "{error}");
    assert_eq!(show(&stack.reshape(&[2, 6]).unwrap().members()[0]), "{a: int64[6](0, 3, 1, 4, 2, 5)}");
    let stack = lazy(&[2, 3, 4], 1);
    for sizes in [&[1, 2, 3, 4][..], &[2, 3, 1, 4], &[2, 3, 4, 1, 1]] {
        let view = stack.view(sizes).unwrap();
        assert!(view.is_lazy(), "{sizes:?}");
        expect(&view, &[2, 3, 4], &|tensor| tensor.view(sizes));
        expect(&view.view(&[2, 3, 4]).unwrap(), &[2, 3, 4], &|tensor| tensor.shallow_clone());
    }
    // Ragged dims of nested stacks stay where they are.
    let row = |size: i64| TensorDict::from_entries([("a", arange(&[size]))]).unwrap().with_batch_size(&[size]).unwrap();
    let rows = |first: i64| TensorDict::lazy_stack((first..first + 3).map(row), 0).unwrap();
    let mut dict = TensorDict::new([2, 3]);
    dict.set("n", TensorDict::lazy_stack([rows(1), rows(4)], 0).unwrap()).unwrap();
    for flat in [dict.reshape(&[6]).unwrap(), dict.view(&[-1]).unwrap()] {
        let nested = flat.dict("n").unwrap();
        assert_eq!((nested.batch_size(), nested.members()[5].batch_size()), (vec![6, -1], vec![6]));
    }
    assert_eq!(dict.expand(&[2, 2, 3]).unwrap().dict("n").unwrap().batch_size(), [2, 2, 3, -1]);
}

#[test]
fn more_rows_than_memory_holds() {
    let huge = TensorDict::new([i64::MAX]);
    let row = TensorDict::from_entries([("a", arange(&[2]))]).unwrap().with_batch_size(&[2]).unwrap();
    let stack = row.to_lazy_stack(0).unwrap();
    let ragged = TensorDict::lazy_stack([TensorDict::lazy_stack([row.shallow_clone()], 0).unwrap()], 0).unwrap();
    for error in [
        huge.unbind(0).unwrap_err(),
        huge.split_every(1, 0).unwrap_err(),
        huge.to_lazy_stack(0).unwrap_err(),
        huge.roll(1, 0).unwrap_err(),
        huge.repeat_interleave(2, 0).unwrap_err(),
        huge.repeat(&[2]).unwrap_err(),
        huge.expand(&[2, -1]).unwrap_err(),
        row.repeat_interleave(i64::MAX, 0).unwrap_err(),
        row.expand(&[i64::MAX, 2]).unwrap_err(),
        stack.repeat_interleave(i64::MAX, 0).unwrap_err(),
        stack.repeat(&[i64::MAX]).unwrap_err(),
        ragged.expand(&[i64::MAX, 1, 2]).unwrap_err(),
        LazyStackBuilder::new([]).build().unwrap().unflatten(0, &[i64::MAX, 0]).unwrap_err(),
        TensorDict::cat([huge.shallow_clone(), huge.shallow_clone()], 0).unwrap_err(),
    ] {
        assert!(error.is_shape(), "{error}");
    }
}

#[test]
fn parts_of_locked_stacks_are_locked() {
    let stack = lazy(&[2, 3], 0).locked();
    let made = [stack.reshape(&[2, 3, 1]), stack.flatten(0, 1), stack.unsqueeze(0), stack.view(&[6])];
    assert!(made.into_iter().all(|dict| dict.unwrap().is_locked()));
    let parts = [stack.split(&[1, 1], 0).unwrap(), stack.split(&[1, 2], 1).unwrap(), stack.unbind(1).unwrap()];
    assert!(parts.iter().flatten().all(TensorDict::is_locked));
    assert!(!dense(&[2, 3]).locked().reshape(&[6]).unwrap().is_locked());
    assert!(!stack.reshape(&[3, 2]).unwrap().is_locked(), "what is made anew is free");
}

#[test]
fn rows_of_values_over_several_dims() {
    let dict = dense(&[2, 3]);
    check(&[2, 3], &|dict| dict.index(1), &|tensor| tensor.select(0, 1));
    check(&[2, 3], &|dict| dict.index(1..), &|tensor| tensor.narrow(0, 1, 1));
    check(&[2, 3], &|dict| dict.index([1, 0]), &|tensor| tensor.flip([0]));
    assert_eq!(dict.index(0).unwrap().non_tensor("s").unwrap().batch_size(), [3]);
}

#[test]
fn jagged_rows_are_not_rearranged() {
    let jagged = JaggedTensor::try_new(arange(&[3]), Tensor::from_slice(&[0i64, 2, 3])).unwrap();
    let dict = TensorDict::from_entries([("j", jagged)]).unwrap().with_batch_size(&[2]).unwrap();
    for error in
        [dict.reshape(&[1, 2]), dict.unsqueeze(0), dict.expand(&[3, 2]), dict.repeat(&[2])].map(Result::unwrap_err)
    {
        assert!(error.is_shape() && error.to_string().contains("'j'"), "{error}");
    }
    // What leaves them as they are, or chooses rows, works.
    assert_eq!(show(&dict.reshape(&[-1]).unwrap()), show(&dict));
    assert_eq!(show(&dict.roll(1, 0).unwrap()), "{j: jag(int64[3](2, 0, 1); 0, 1, 3)}");
    assert_eq!(show(&dict.flip(&[0]).unwrap()), "{j: jag(int64[3](2, 0, 1); 0, 1, 3)}");
}

#[test]
fn names_after_operations() {
    let name = |text: &str| Some(text.to_owned());
    for mut dict in [dense(&[2, 3]), lazy(&[2, 3], 0)] {
        dict.set_names([Some("a"), Some("b")]).unwrap();
        assert_eq!(dict.transpose(0, 1).unwrap().names().unwrap(), [name("b"), name("a")]);
        assert_eq!(dict.unsqueeze(0).unwrap().names().unwrap(), [None, name("a"), name("b")]);
        assert_eq!(dict.reshape(&[6]).unwrap().names().unwrap(), [None]);
        assert_eq!(dict.flip(&[0]).unwrap().names().unwrap(), [name("a"), name("b")]);
        assert_eq!(dict.split(&[1, 1], 0).unwrap()[0].names().unwrap(), [name("a"), name("b")]);
        assert_eq!(dict.unbind(0).unwrap()[0].names().unwrap(), [name("b")]);
        assert_eq!(dict.to_lazy_stack(1).unwrap().names().unwrap(), [name("a"), name("b")]);
        assert_eq!(dict.reshape(&[2, 3, 1]).unwrap().names().unwrap(), [None, None, None]);
        assert_eq!(dict.unflatten(0, &[1, 2]).unwrap().names().unwrap(), [None, None, None]);
        assert_eq!(dict.unsqueeze(0).unwrap().flatten(0, 1).unwrap().names().unwrap(), [None, None]);
        assert_eq!(dict.expand(&[4, 2, 3]).unwrap().names().unwrap(), [None, name("a"), name("b")]);
        assert_eq!(dict.unsqueeze(1).unwrap().squeeze(1).unwrap().names().unwrap(), [name("a"), name("b")]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn reshaping_a_stack_is_reshaping_its_tensors(
        dim in 0usize..3,
        sizes in proptest::collection::vec(1i64..4, 3),
        cuts in proptest::collection::vec(any::<bool>(), 6),
    ) {
        // The prime factors of the sizes, put together at random.
        let mut new = vec![1];
        for (size, cut) in sizes.iter().flat_map(|size| [*size, 1]).zip(cuts) {
            if cut { new.push(size) } else { *new.last_mut().unwrap() *= size }
        }
        check_one(&sizes, dim, &new);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn operations_on_a_stack_are_those_on_its_tensors(
        dim in 0usize..3,
        sizes in proptest::collection::vec(1i64..4, 3),
        (at, other) in (-3i64..3, -3i64..3),
        number in 0i64..4,
        repeats in proptest::collection::vec(0i64..3, 3),
        op in 0usize..11,
    ) {
        let place = |dim: i64| dim.rem_euclid(3);
        let (low, high) = (place(at).min(place(other)), place(at).max(place(other)));
        let expanded: Vec<i64> = sizes.iter().map(|size| if *size == 1 { number + 1 } else { *size }).collect();
        let expanded = [&[number + 1], &expanded[..]].concat();
        for dict in [dense(&sizes), lazy(&sizes, dim)] {
            let (ours, theirs): (_, &dyn Fn(&Tensor) -> Tensor) = match op {
                0 => (dict.flatten(low, high), &|tensor| tensor.flatten(low, high)),
                1 => (dict.transpose(at, other), &|tensor| tensor.transpose(at, other)),
                2 => (dict.movedim(at, other), &|tensor| tensor.movedim_int(at, other)),
                3 => (dict.unsqueeze(at), &|tensor| tensor.unsqueeze(at)),
                4 => (dict.squeeze(at), &|tensor| tensor.squeeze_dim(at)),
                5 => (dict.squeeze(None), &|tensor| tensor.squeeze()),
                6 => (dict.expand(&expanded), &|tensor| tensor.expand(&expanded, false)),
                7 if repeats[dim] > 0 => (dict.repeat(&repeats), &|tensor| tensor.repeat(&repeats)),
                8 => (
                    dict.repeat_interleave(number + 1, at),
                    &|tensor| tensor.repeat_interleave_self_int(number + 1, at, None),
                ),
                9 => (dict.flip(&[at]), &|tensor| tensor.flip([at])),
                _ => (dict.roll(number - 2, at), &|tensor| tensor.roll([number - 2], [at])),
            };
            expect(&ours.unwrap(), &sizes, theirs);
        }
    }

    #[test]
    fn parts_put_together_are_the_whole(
        dim in 0usize..3,
        sizes in proptest::collection::vec(1i64..4, 3),
        at in -3i64..3,
        every in 1i64..4,
    ) {
        for whole in [dense(&sizes), lazy(&sizes, dim)] {
            let parts = whole.split_every(every, at).unwrap();
            expect(&TensorDict::cat(parts, at).unwrap(), &sizes, &|tensor| tensor.shallow_clone());
            let rows = whole.unbind(at).unwrap();
            expect(&TensorDict::lazy_stack(rows, at).unwrap(), &sizes, &|tensor| tensor.shallow_clone());
            let rows = whole.unbind(at).unwrap();
            expect(&TensorDict::maybe_dense_stack(rows, at).unwrap(), &sizes, &|tensor| tensor.shallow_clone());
            let rows = dense(&sizes).unbind(at).unwrap();
            expect(&TensorDict::stack(rows, at).unwrap(), &sizes, &|tensor| tensor.shallow_clone());
            expect(&whole.to_lazy_stack(at).unwrap(), &sizes, &|tensor| tensor.shallow_clone());
        }
    }
}

fn check_one(sizes: &[i64], dim: usize, new: &[i64]) {
    expect(&lazy(sizes, dim).reshape(new).unwrap(), sizes, &|tensor| tensor.reshape(new));
}

#[test]
fn room_around_the_batch() {
    let padded = dense(&[2]).pad(&[(1, 2)], 7.5).unwrap();
    let expected = "{a: int64[5, 2](7, 7, 0, 1, 2, 3, 7, 7, 7, 7), s: nts(null, 0, 1, null, null), \
                    deep: {x: int64[5, 3](7, 7, 7, 0, 1, 2, 3, 4, 5, 7, 7, 7, 7, 7, 7)}}";
    assert_eq!(show(&padded), expected);
    for dict in [dense(&[2, 2]), lazy(&[2, 2], 0), lazy(&[2, 2], 1)] {
        let padded = dict.pad(&[(0, 1), (1, 0)], 0).unwrap();
        assert_eq!(padded.batch_size(), [3, 3]);
        let a = "int64[3, 3, 2](0, 0, 0, 1, 2, 3, 0, 0, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0)";
        assert_eq!(crate::show::show_tensor(&padded.tensor("a").unwrap()), a);
        assert_eq!(dict.pad(&[], 0).unwrap().batch_size(), [2, 2]);
        for wrong in [vec![(0, 0); 3], vec![(-1, 0)], vec![(0, i64::MIN)]] {
            assert!(dict.pad(&wrong, 0).unwrap_err().is_shape(), "{wrong:?}");
        }
        assert!(dict.pad(&[(i64::MAX, i64::MAX)], 0).is_err());
    }
    let jagged = JaggedTensor::try_new(arange(&[3]), Tensor::from_slice(&[0i64, 2, 3])).unwrap();
    let dict = TensorDict::from_entries([("j", jagged)]).unwrap().with_batch_size(&[2]).unwrap();
    assert_eq!(show(&dict.pad(&[(1, 1)], 9).unwrap()), "{j: jag(int64[3](0, 1, 2); 0, 0, 2, 3, 3)}");
    let row = |size: i64| TensorDict::from_entries([("a", arange(&[size]))]).unwrap().with_batch_size(&[size]).unwrap();
    let ragged = TensorDict::lazy_stack([row(1), row(2)], 0).unwrap();
    let padded = ragged.pad(&[(0, 0), (1, 0)], 0).unwrap();
    assert_eq!(show(&padded.members()[1]), "{a: int64[3](0, 0, 1)}");
    assert!(ragged.pad(&[(1, 0)], 0).unwrap_err().is_shape());
    let bytes =
        TensorDict::from_entries([("b", arange(&[1]).to_kind(Kind::Int8))]).unwrap().with_batch_size(&[1]).unwrap();
    assert!(bytes.pad(&[(1, 0)], 300).unwrap_err().is_overflow());
}
