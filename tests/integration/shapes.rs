//! Batch dims in other shapes and orders, of dense tensordicts and lazy stacks alike.

use std::sync::Arc;

use arrow::array::Int64Array;
use proptest::prelude::*;
use tch::{Device, Kind, Tensor};
use tensorquery::{JaggedTensor, NonTensorStack, Result, TensorDict};

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
    assert!(ragged.roll(1, 1).unwrap_err().is_shape() && ragged.expand(&[3, 2, -1]).unwrap_err().is_shape());
    assert_eq!(ragged.roll(1, 0).unwrap().members()[0].batch_size(), [5]);
    let single = TensorDict::lazy_stack([row(3)], 0).unwrap();
    assert_eq!(single.expand(&[4, 3]).unwrap().batch_size(), [4, 3]);
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
        assert_eq!(dict.transpose(0, 1).unwrap().names(), [name("b"), name("a")]);
        assert_eq!(dict.unsqueeze(0).unwrap().names(), [None, name("a"), name("b")]);
        assert_eq!(dict.reshape(&[6]).unwrap().names(), [None]);
        assert_eq!(dict.flip(&[0]).unwrap().names(), [name("a"), name("b")]);
        assert_eq!(dict.split(&[1, 1], 0).unwrap()[0].names(), [name("a"), name("b")]);
        assert_eq!(dict.unbind(0).unwrap()[0].names(), [name("b")]);
        assert_eq!(dict.to_lazy_stack(1).unwrap().names(), [name("a"), name("b")]);
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

fn check_one(sizes: &[i64], dim: usize, new: &[i64]) {
    expect(&lazy(sizes, dim).reshape(new).unwrap(), sizes, &|tensor| tensor.reshape(new));
}
