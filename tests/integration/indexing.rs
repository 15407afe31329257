//! Indices over several dims, of dense tensordicts and lazy stacks.

use std::sync::Arc;

use arrow::array::Int64Array;
use proptest::prelude::*;
use tch::{Device, IndexOp, Kind, Tensor};
use tensorquery::{Error, Index, Indices, JaggedTensor, LazyStackBuilder, NonTensorStack, TensorDict};

use crate::show::{show, show_tensor};

fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

fn member(values: &[i64]) -> TensorDict {
    TensorDict::from_entries([("a", longs(values))]).unwrap().with_batch_size(&[values.len() as i64]).unwrap()
}

/// Four members of batch size [3], `a` = 100 * member + row.
fn stack(dim: i64) -> TensorDict {
    let members = (0..4).map(|i| member(&[100 * i, 100 * i + 1, 100 * i + 2]));
    TensorDict::lazy_stack(members, dim).unwrap()
}

/// Members of batch sizes [3] and [5].
fn ragged() -> TensorDict {
    TensorDict::lazy_stack([member(&[0, 1, 2]), member(&[100, 101, 102, 103, 104])], 0).unwrap()
}

fn a(dict: &TensorDict) -> String {
    show_tensor(&dict.tensor("a").unwrap())
}

fn gives(dict: &TensorDict, index: impl Into<Indices>, lazy: bool, batch_size: &[i64], expected: &[i64]) {
    let index = index.into();
    let text = format!("{index:?}");
    let part = dict.index(index).unwrap();
    assert_eq!((part.is_lazy(), part.batch_size()), (lazy, batch_size.to_vec()), "{text}");
    let values = part.tensor("a").unwrap();
    assert_eq!(values.size(), batch_size, "{text}");
    assert_eq!(Vec::<i64>::try_from(values.reshape([-1])).unwrap(), expected, "{text}");
}

fn slice(start: Option<i64>, stop: Option<i64>, step: i64) -> Index {
    Index::Slice { start, stop, step }
}

fn tensor(index: &Tensor) -> Index {
    Index::from_tensor(index).unwrap()
}

fn refused(result: tensorquery::Result<TensorDict>, words: &[&str]) {
    let error: Error = result.unwrap_err();
    let text = error.to_string();
    assert!(error.is_index() && words.iter().all(|word| text.contains(word)), "{text} lacks one of {words:?}");
}

#[test]
fn along_the_stack_dim() {
    let stack = stack(0);
    let address = |dict: &TensorDict| dict.tensor("a").unwrap().data_ptr();
    for at in [1, -3] {
        let part = stack.index(at).unwrap();
        assert_eq!((part.batch_size(), address(&part)), (vec![3], address(&stack.members()[1])), "the member itself");
    }
    gives(&stack, 1..3, true, &[2, 3], &[100, 101, 102, 200, 201, 202]);
    gives(&stack, 2..2, false, &[0, 3], &[]);
    gives(&stack, [3, 3], true, &[2, 3], &[300, 301, 302, 300, 301, 302]);
    let twice = stack.index([3, 3]).unwrap();
    assert_eq!(address(&twice.members()[0]), address(&twice.members()[1]), "the same member twice");
    let grid = tensor(&longs(&[0, 1, 2, 3]).view([2, 2]));
    gives(&stack, grid, true, &[2, 2, 3], &[0, 1, 2, 100, 101, 102, 200, 201, 202, 300, 301, 302]);
    gives(&stack, [true, false, true, false], true, &[2, 3], &[0, 1, 2, 200, 201, 202]);
    gives(&stack, slice(None, None, -1), true, &[4, 3], &[300, 301, 302, 200, 201, 202, 100, 101, 102, 0, 1, 2]);
    gives(&stack, slice(Some(3), None, -2), true, &[2, 3], &[300, 301, 302, 100, 101, 102]);
    gives(&stack, tensor(&longs(&[2]).get(0)), false, &[3], &[200, 201, 202]);
    gives(&stack, (), true, &[4, 3], &[0, 1, 2, 100, 101, 102, 200, 201, 202, 300, 301, 302]);
    assert_eq!(stack.index(..).unwrap().members().len(), 4);
    gives(&stack, [Index::from(vec![false; 4])], false, &[0, 3], &[]);
    gives(&stack, [Index::Grid { rows: vec![], shape: vec![2, 0] }], false, &[2, 0, 3], &[]);
    for at in [4, -5, i64::MIN] {
        refused(stack.index(at), &["out of bounds"]);
    }
    refused(stack.index([true, false]), &["a mask of 2", "4"]);
    refused(stack.index(vec![0, 4]), &["out of bounds"]);
    refused(stack.index((0, 0, 0)), &["too many indices"]);
    refused(stack.index([Index::Ellipsis, Index::Ellipsis]), &["one ellipsis"]);
}

#[test]
fn along_several_dims() {
    let stack = stack(0);
    gives(&stack, (0, 1), false, &[], &[1]);
    gives(&stack, ([0, 1], [1, 2]), true, &[2], &[1, 102]);
    gives(&stack, (1..3, [0, 2]), true, &[2, 2], &[100, 102, 200, 202]);
    let all = [0, 1, 2, 100, 101, 102, 200, 201, 202, 300, 301, 302];
    gives(&stack, Index::NewAxis, true, &[1, 4, 3], &all);
    assert_eq!(stack.index(Index::NewAxis).unwrap().stack_dim(), Some(1));
    gives(&stack, (Index::Ellipsis, 0), true, &[4], &[0, 100, 200, 300]);
    gives(&stack, (Index::Ellipsis, Index::NewAxis), true, &[4, 3, 1], &all);
    gives(&stack, (.., -1), true, &[4], &[2, 102, 202, 302]);
    let mut mask = vec![false; 12];
    for at in [0, 2, 7] {
        mask[at] = true;
    }
    gives(&stack, Index::GridMask { mask, shape: vec![4, 3] }, true, &[3], &[0, 2, 201]);
    gives(&stack, ([0, 1], Index::NewAxis, [1, 2]), true, &[2, 1], &[1, 102]);
    gives(
        &stack,
        (Index::Grid { rows: vec![0, 1, 2, 3], shape: vec![2, 2] }, [0, 1]),
        true,
        &[2, 2],
        &[0, 101, 200, 301],
    );
    refused(stack.index(([0, 1], [0, 1, 2])), &["pairs"]);
    refused(stack.index(Index::GridMask { mask: vec![true; 4], shape: vec![2, 2] }), &["[2, 2]", "[4, 3]"]);
    refused(stack.index(Index::Grid { rows: vec![0], shape: vec![2] }), &["grid"]);

    let columns = self::stack(1);
    gives(&columns, 0, true, &[4], &[0, 100, 200, 300]);
    assert_eq!(columns.index(0).unwrap().stack_dim(), Some(0));
    gives(&columns, (.., 1..3), true, &[3, 2], &[100, 200, 101, 201, 102, 202]);
    assert_eq!(columns.index((.., 1..3)).unwrap().stack_dim(), Some(1));
    gives(&columns, ([0, 1], [2, 3]), true, &[2], &[200, 301]);
    gives(&columns, (Index::NewAxis, .., 0), false, &[1, 3], &[0, 1, 2]);
    gives(&columns, (.., Vec::<i64>::new()), false, &[3, 0], &[]);
}

#[test]
fn members_count_their_own_rows() {
    let ragged = ragged();
    gives(&ragged, (.., 0), true, &[2], &[0, 100]);
    gives(&ragged, (.., -1), true, &[2], &[2, 104]);
    gives(&ragged, (.., ..2), true, &[2, 2], &[0, 1, 100, 101]);
    assert_eq!(ragged.index((.., ..4)).unwrap().batch_size(), [2, -1]);
    gives(&ragged, ([0, 1], [-1, -1]), true, &[2], &[2, 104]);
    refused(ragged.index((.., 4)), &["out of bounds"]);
    refused(ragged.index((.., [true, true, false])), &["mask"]);
    refused(ragged.index(([0, 1], [true, true])), &["mask", "differ"]);
    refused(ragged.index(Index::GridMask { mask: vec![true; 6], shape: vec![2, 3] }), &["mask"]);
    // Three dims, one of them ragged.
    let wide = |columns: i64| {
        let tensor = Tensor::arange(3 * columns, (Kind::Int64, Device::Cpu)).view([3, columns]);
        TensorDict::from_entries([("a", tensor)]).unwrap().with_batch_size(&[3, columns]).unwrap()
    };
    let stack = TensorDict::lazy_stack([wide(4), wide(5)], 1).unwrap();
    assert_eq!(stack.batch_size(), [3, 2, -1]);
    for (index, batch_size) in [
        (Indices::from(0), vec![2, -1]),
        ((.., .., 0).into(), vec![3, 2]),
        ((.., .., -2..).into(), vec![3, 2, 2]),
        ((.., 0).into(), vec![3, 4]),
    ] {
        assert_eq!(stack.index(index).unwrap().batch_size(), batch_size);
    }
}

#[test]
fn entries_of_every_kind() {
    let mut dict = TensorDict::new([2, 3]);
    dict.set("a", longs(&[0, 1, 2, 10, 11, 12]).view([2, 3])).unwrap();
    let values = NonTensorStack::new(Arc::new(Int64Array::from(vec![0, 10])));
    let rows = TensorDict::from_entries([("s", values.clone())]).unwrap().with_batch_size(&[2]).unwrap();
    let columns = TensorDict::lazy_stack((0..3).map(|_| rows.shallow_clone()), 1).unwrap();
    dict.set("s", columns.non_tensor("s").unwrap()).unwrap();
    let mut deep = TensorDict::new([2, 3, 2]);
    deep.set("x", Tensor::arange(12, (Kind::Int64, Device::Cpu)).view([2, 3, 2])).unwrap();
    dict.set("deep", deep).unwrap();
    let part = dict.index((.., [2, 0])).unwrap();
    let expected = "{a: int64[2, 2](2, 0, 12, 10), s: nts(0, 0, 10, 10), \
                    deep: {x: int64[2, 2, 2](4, 5, 0, 1, 10, 11, 6, 7)}}";
    assert_eq!(show(&part), expected);
    assert_eq!((part.batch_size(), part.dict("deep").unwrap().batch_size()), (vec![2, 2], vec![2, 2, 2]));
    assert_eq!(part.non_tensor("s").unwrap().batch_size(), [2, 2]);
    assert_eq!(show(&dict.index((1, -1)).unwrap()), "{a: int64[](12), s: nts(10), deep: {x: int64[2](10, 11)}}");

    let jagged = JaggedTensor::try_new(longs(&[1, 2, 3]), longs(&[0, 2, 2, 3])).unwrap();
    let ragged = TensorDict::from_entries([("j", jagged)]).unwrap().with_batch_size(&[3]).unwrap();
    assert_eq!(show(&ragged.index((Index::Ellipsis, [2, 0])).unwrap()), "{j: jag(int64[3](3, 1, 2); 0, 1, 3)}");
    for index in [Indices::from(Index::NewAxis), Index::Grid { rows: vec![0], shape: vec![1, 1] }.into()] {
        let error = ragged.index(index).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("'j'"), "{error}");
    }
}

#[test]
fn names_follow() {
    let name = |text: &str| Some(text.to_owned());
    let mut dict = TensorDict::new([2, 3]);
    dict.set_names([Some("a"), Some("b")]).unwrap();
    let names = |index: Indices| dict.index(index).unwrap().names().unwrap();
    assert_eq!(names(0.into()), [name("b")]);
    assert_eq!(names((.., 0).into()), [name("a")]);
    assert_eq!(names(Index::NewAxis.into()), [None, name("a"), name("b")]);
    assert_eq!(names([1, 0].into()), [name("a"), name("b")]);
    assert_eq!(names((.., 1..).into()), [name("a"), name("b")]);
    assert_eq!(names(([0, 1], [1, 2]).into()), [None]);
    let stack = LazyStackBuilder::new([member(&[1, 2]), member(&[3, 4])]).stack_dim_name("s").build().unwrap();
    let names = |index: Indices| stack.index(index).unwrap().names().unwrap();
    assert_eq!(names(0.into()), [None]);
    assert_eq!(names((.., 0).into()), [name("s")]);
    assert_eq!(names((1..).into()), [name("s"), None]);
    assert_eq!(names([0].into()), [name("s"), None]);
    assert_eq!(names(Index::NewAxis.into()), [None, name("s"), None]);
}

#[test]
fn parts_of_locked_stacks() {
    let stack = stack(0).locked();
    assert!(stack.index(1..).unwrap().is_locked());
    assert!(!stack.index(2..2).unwrap().is_locked(), "what is made anew is free");
    assert!(!stack.members()[0].index(0).unwrap().is_locked());
    let empty = LazyStackBuilder::new([]).batch_size([3]).build().unwrap();
    assert_eq!(empty.index(..).unwrap().batch_size(), [0, 3]);
    refused(empty.index(0), &["out of bounds"]);
}

/// One item for a dim of this size.
fn item(size: i64) -> impl Strategy<Value = Index> {
    let bound = || proptest::option::of(-size - 1..=size + 1);
    let rows = proptest::collection::vec(-size..size, 2);
    prop_oneof![
        3 => (bound(), bound(), prop_oneof![Just(1i64), Just(2), Just(-1)]).prop_map(|(a, b, step)| slice(a, b, step)),
        2 => (-size..size).prop_map(Index::Row),
        2 => rows.prop_map(Index::Rows),
        1 => proptest::collection::vec(-size..size, 4).prop_map(|rows| Index::Grid { rows, shape: vec![2, 2] }),
        1 => proptest::collection::vec(any::<bool>(), size as usize).prop_map(Index::Mask),
    ]
}

/// The same index with torch alone.
fn reference(tensor: &Tensor, items: &[Index]) -> Option<Tensor> {
    let mut result = tensor.shallow_clone();
    let mut lists: Vec<Option<Tensor>> = Vec::new();
    let mut dim = 0;
    for item in items {
        let size = result.size().get(dim).copied().unwrap_or_default();
        let list = |rows: &[i64], shape: &[i64]| longs(rows).remainder(size).view(shape);
        match item {
            Index::NewAxis => result = result.unsqueeze(dim as i64),
            Index::Row(row) => {
                result = result.select(dim as i64, *row);
                continue;
            }
            Index::Slice { start, stop, step: -1 } => {
                let rows: Vec<i64> = (0..size).collect();
                let cut = |bound: &Option<i64>, default: i64| {
                    bound.map_or(default, |b| if b < 0 { (b + size).max(-1) } else { b.min(size - 1) })
                };
                let (start, stop) = (cut(start, size - 1), cut(stop, -1));
                let rows: Vec<i64> = rows.into_iter().rev().filter(|row| *row <= start && *row > stop).collect();
                result = result.index_select(dim as i64, &longs(&rows));
            }
            Index::Slice { start, stop, step } => {
                result = result.slice(dim as i64, start.unwrap_or(0), stop.unwrap_or(i64::MAX), *step);
            }
            Index::Rows(rows) => lists.push(Some(list(rows, &[rows.len() as i64]))),
            Index::Grid { rows, shape } => lists.push(Some(list(rows, shape))),
            Index::Mask(mask) => lists.push(Some(Tensor::from_slice(mask).nonzero().view([-1]))),
            Index::GridMask { mask, .. } => {
                result = result.unsqueeze(dim as i64);
                lists.push(Some(Tensor::from_slice(mask).nonzero().view([-1])));
            }
            other => panic!("{other:?}"),
        }
        if lists.len() == dim {
            lists.push(None);
        }
        dim += 1;
    }
    if lists.iter().all(Option::is_none) { Some(result) } else { result.f_index(&lists).ok() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn lazy_stacks_index_as_dense_tensors_do(
        dim in 0usize..3, a in item(2), b in item(3), c in item(4), new in 0usize..6, flag in 0usize..16, keep in any::<bool>(),
    ) {
        let mut items = vec![a, b, c];
        if new < 4 {
            items.insert(new, Index::NewAxis);
        }
        if flag < items.len() {
            items.insert(flag, Index::from(keep));
        }
        let dense = Tensor::arange(2 * 3 * 4 * 2, (Kind::Int64, Device::Cpu)).view([2, 3, 4, 2]);
        let expected = reference(&dense, &items);
        let whole = TensorDict::from_entries([("a", dense.shallow_clone())]).unwrap().with_batch_size(&[2, 3, 4]).unwrap();
        let members = (0..dense.size()[dim]).map(|at| {
            let part = dense.select(dim as i64, at);
            let batch_size: Vec<i64> = part.size()[..2].to_vec();
            TensorDict::from_entries([("a", part)]).unwrap().with_batch_size(&batch_size).unwrap()
        });
        let stack = TensorDict::lazy_stack(members, dim as i64).unwrap();
        for dict in [&whole, &stack] {
            let part = dict.index(items.clone());
            let Some(expected) = &expected else {
                prop_assert!(part.unwrap_err().is_index());
                continue;
            };
            let part = part.unwrap();
            let got = part.tensor("a").unwrap();
            prop_assert_eq!(got.size(), expected.size());
            prop_assert_eq!(&part.batch_size(), &expected.size()[..expected.dim() - 1].to_vec());
            prop_assert!(got.equal(expected));
        }
    }
}

#[test]
fn errors_name_the_callers_dim_and_the_member() {
    // Members of 2 and 4 rows of 3, and their dims are one less than the stack's.
    let wide = |rows: i64| {
        let tensor = Tensor::zeros([rows, 3], (Kind::Int64, Device::Cpu));
        TensorDict::from_entries([("a", tensor)]).unwrap().with_batch_size(&[rows, 3]).unwrap()
    };
    let mut stack = TensorDict::lazy_stack([wide(4), wide(2)], 0).unwrap();
    refused(stack.index((.., 3)), &["row 3 is out of bounds", "dim 1, member 1"]);
    refused(stack.index((.., .., -4)), &["row -4 is out of bounds", "dim 2"]);
    refused(stack.index(2), &["row 2 is out of bounds", "dim 0"]);
    refused(stack.index((.., [0, 3])), &["row 3 is out of bounds", "dim 1, member 1"]);
    let error = stack.put_at((.., 3), 1).unwrap_err();
    assert!(error.is_index() && error.to_string().contains("dim 1, member 1"), "{error}");
    let error = stack.set_at("a", longs(&[1, 1, 1]), (.., 3)).unwrap_err();
    assert!(error.is_index() && error.to_string().contains("dim 1, member 1"), "{error}");
    // Stacked at the end, their dims are the stack's; of stacks of stacks, each member on the way is named.
    let columns = TensorDict::lazy_stack([wide(4), wide(2)], 2).unwrap();
    refused(columns.index(3), &["dim 0, member 1"]);
    let twice = TensorDict::lazy_stack([columns.shallow_clone(), columns], 0).unwrap();
    refused(twice.index((.., 3)), &["dim 1, member 0, member 1"]);
    let error = stack.split(&[1, 2], 1).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("[1, 2] don't make 4 (dim 1, member 0)"), "{error}");
    let error = stack.split(&[1, 1], -1).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("[1, 1] don't make 3 (dim 2)"), "{error}");
}

#[test]
fn masks_over_no_dims() {
    let stack = stack(0);
    let all = [0, 1, 2, 100, 101, 102, 200, 201, 202, 300, 301, 302];
    gives(&stack, true, true, &[1, 4, 3], &all);
    gives(&stack, (true, 1), false, &[1, 3], &[100, 101, 102]);
    gives(&stack, (true, [2, 0]), true, &[2, 3], &[200, 201, 202, 0, 1, 2]);
    assert_eq!(stack.index(false).unwrap().batch_size(), [0, 4, 3]);
    gives(&stack, (false, [2]), false, &[0, 3], &[]);
    gives(&stack.members()[0], (.., true), false, &[3, 1], &[0, 1, 2]);
    gives(&TensorDict::from_entries([("a", longs(&[7]).get(0))]).unwrap(), true, false, &[1], &[7]);
    refused(stack.index((false, [2, 0])), &["pairs"]);
    refused(stack.members()[0].index((true, [0, 1], Index::Ellipsis, 0)), &["too many indices"]);
}

#[test]
fn stacks_without_members() {
    let builder = || LazyStackBuilder::new([]).batch_size([3, -1]).stack_dim(1).stack_dim_name("s");
    let empty = builder().build().unwrap();
    for (index, batch_size, stack_dim) in [
        (Indices::from(()), vec![3, 0, -1], 1),
        (0.into(), vec![0, -1], 0),
        (Index::NewAxis.into(), vec![1, 3, 0, -1], 2),
        ((.., 1..).into(), vec![3, 0, -1], 1),
        ((.., Vec::<i64>::new(), 5).into(), vec![3, 0], 1),
        (([0, 1], .., 0).into(), vec![2, 0], 1),
        ((.., .., ..2).into(), vec![3, 0, -1], 1),
    ] {
        let part = empty.index(index).unwrap();
        assert_eq!((part.batch_size(), part.stack_dim()), (batch_size, Some(stack_dim)));
        assert_eq!(part.names().unwrap()[stack_dim].as_deref(), Some("s"));
    }
    refused(empty.index(3), &["row 3 is out of bounds for a batch of 3"]);
    refused(empty.index((.., 0)), &["row 0 is out of bounds for a batch of 0"]);
    assert!(!empty.index((.., Index::Grid { rows: vec![], shape: vec![0, 2] }, 0)).unwrap().is_lazy());
}

#[test]
fn nothing_has_the_shapes_of_the_first_member() {
    let jagged = JaggedTensor::try_new(Tensor::from_slice(&[1.0f32, 2.0, 3.0]), longs(&[0, 2, 3])).unwrap();
    let mut first = TensorDict::new([2]);
    first.set("j", jagged).unwrap();
    first.set("s", NonTensorStack::new(Arc::new(Int64Array::from(vec![0, 10])))).unwrap();
    first.set(["n", "x"], Tensor::zeros([2, 7], (Kind::Int, Device::Cpu))).unwrap();
    let mut second = first.shallow_clone();
    first.set("own", longs(&[1, 2])).unwrap();
    second.set(["n", "x"], Tensor::zeros([2, 5], (Kind::Int, Device::Cpu))).unwrap();
    let stack = TensorDict::lazy_stack([first, second], 1).unwrap();
    for (index, shapes) in [
        (Indices::from((.., 0..0)), vec!["float32[2, 0, 0]()", "nts()", "{x: int32[2, 0, 7]()}"]),
        ((0, [false, false]).into(), vec!["jag(float32[0](); 0)", "nts()", "{x: int32[0, 7]()}"]),
    ] {
        let part = stack.index(index).unwrap();
        assert_eq!(show(&part), format!("{{j: {}, s: {}, n: {}}}", shapes[0], shapes[1], shapes[2]));
        assert!(!part.is_lazy());
        assert_eq!(part.non_tensor("s").unwrap().batch_size(), part.batch_size());
    }
}

#[test]
fn sizes_that_are_none() {
    refused(TensorDict::new([-1]).index(0..1), &["-1"]);
    refused(TensorDict::new([3]).index(Index::GridMask { mask: vec![true], shape: vec![3] }), &["1 values", "[3]"]);
    refused(TensorDict::new([3]).index(([0, 1], true, [1])), &["too many indices"]);
    refused(TensorDict::new([3, 3]).index(([0, 1], [0, 1, 2])), &["pairs"]);
    let huge = TensorDict::new([i64::MAX, i64::MAX]);
    assert_eq!(huge.index((0, 1..)).unwrap().batch_size(), [i64::MAX - 1]);
    let grid = Index::Grid { rows: vec![], shape: vec![i64::MAX, i64::MAX, 0] };
    assert_eq!(TensorDict::new([3]).index(grid).unwrap().batch_size(), [i64::MAX, i64::MAX, 0]);
}

#[test]
fn tensors_as_indices() {
    let stack = stack(0);
    let mask = Tensor::from_slice(&[true, false, false, true]);
    assert_eq!(a(&stack.index(tensor(&mask)).unwrap()), "int64[2, 3](0, 1, 2, 300, 301, 302)");
    let dense = stack.tensor("a").unwrap();
    let mask = dense.remainder(100).eq(1);
    let part = stack.index(tensor(&mask)).unwrap();
    assert_eq!(a(&part), show_tensor(&dense.index(&[Some(mask)])));
    assert_eq!(a(&part), show_tensor(&dense.i((.., 1))));
    assert_eq!(tensor(&Tensor::from(true)), Index::from(true));
    for wrong in [Tensor::from_slice(&[0.0f32]), Tensor::from_slice(&[0u8]), Tensor::from(1u8), Tensor::new()] {
        assert!(Index::from_tensor(&wrong).unwrap_err().is_index());
    }
}
