//! Lazy stacks, case by case: what they are built of, what reading and indexing give, what writing changes.

use tch::{Device, Kind, Tensor};
use tensorquery::{
    Entry, Error, Index, LazyStackBuilder, Nested, NestedKey, PaddingSide, Ragged, Reduction, Result, TensorDict,
    UpdateOptions,
};

use crate::key_ops::{at, dict, floats, is_key_error_at, jagged, lazy, longs, ragged, show_members, strings};
use crate::show::{show, show_entry, show_jagged, show_tensor};

fn name(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Batch size `[values]`, one entry `a`.
fn row(values: &[i64]) -> TensorDict {
    dict(&[values.len() as i64], [at("a", values)])
}

/// Zeros of this shape, all of it batch dims.
fn block(sizes: &[i64]) -> TensorDict {
    dict(sizes, [("a", Tensor::zeros(sizes, (Kind::Int64, Device::Cpu)).into())])
}

/// Members of 3 and of 5.
fn uneven() -> TensorDict {
    lazy([row(&[0, 1, 2]), row(&[100, 101, 102, 103, 104])], 0)
}

#[track_caller]
pub(crate) fn refused<T>(result: Result<T>, is: fn(&Error) -> bool, words: &[&str]) {
    let error = result.err().unwrap();
    let text = error.to_string();
    assert!(
        is(&error) && words.iter().all(|word| text.contains(word)),
        "{text} ({}) lacks one of {words:?}",
        error.kind()
    );
}

#[test]
fn stacks_without_members() {
    let empty = LazyStackBuilder::new([]).batch_size([3, 4]).stack_dim(1).device(Device::Cpu);
    let empty = empty.names([Some("x"), Some("t"), None]).build().unwrap();
    assert_eq!((empty.batch_size(), empty.names().unwrap()), (vec![3, 0, 4], vec![name("x"), name("t"), None]));
    assert_eq!((empty.device(), empty.len(), empty.numel()), (Some(Device::Cpu), 0, 0));
    assert_eq!(show(&empty.densify(Ragged::Jagged).unwrap()), "{}");
    // The first member says what the others are.
    let mut stack = LazyStackBuilder::new([]).build().unwrap();
    stack.append(row(&[1, 2]).to(Device::Cpu).unwrap()).unwrap();
    assert_eq!((stack.batch_size(), stack.device()), (vec![1, 2], Some(Device::Cpu)));
    refused(stack.append(row(&[3, 4])), Error::is_device, &["Devices differ"]);
    // No items for no members.
    let mut stack = LazyStackBuilder::new([]).build().unwrap();
    stack.set_list("a", Vec::<Tensor>::new()).unwrap();
    refused(stack.set_list("a", vec![longs(&[1])]), Error::is_shape, &[]);
    refused(TensorDict::maybe_dense_stack([], 0), Error::is_shape, &["items cannot be empty"]);
}

#[test]
fn device_labels_are_the_members() {
    let stack = LazyStackBuilder::new([row(&[1])]).device(Device::Cuda(0)).build().unwrap();
    assert_eq!(stack.device(), None, "no member has one");
    let moved = lazy([row(&[1]), row(&[2])], 0).to(Device::Cpu).unwrap();
    assert_eq!((moved.device(), moved.members()[1].device()), (Some(Device::Cpu), Some(Device::Cpu)));
}

#[test]
fn stacks_where_entries_go_together() {
    let entries = |names: [&'static str; 2]| {
        let mut dict = dict(&[], []);
        for name in names {
            dict.set(name, longs(&[1])).unwrap();
        }
        dict
    };
    let swapped = TensorDict::maybe_dense_stack([entries(["a", "b"]), entries(["b", "a"])], 0).unwrap();
    assert_eq!((swapped.is_lazy(), show(&swapped).as_str()), (false, "{a: int64[2, 1](1, 1), b: int64[2, 1](1, 1)}"));
    let mixed = [dict(&[], [at("a", &[1])]), dict(&[], [("a", floats(&[0.5]).into())])];
    let mixed = TensorDict::maybe_dense_stack(mixed, 0).unwrap();
    assert_eq!((mixed.is_lazy(), show(&mixed).as_str()), (false, "{a: float32[2, 1](1, 0.5)}"));
    let words = |word: &'static str| dict(&[], [("s", word.into())]);
    for (second, shown) in [("x", r#"{s: nts("x", "x")}"#), ("y", r#"{s: nts("x", "y")}"#)] {
        let stack = TensorDict::maybe_dense_stack([words("x"), words(second)], 0).unwrap();
        assert_eq!((stack.is_lazy(), show(&stack).as_str()), (false, shown));
    }
    // A nested dict that can't be dense is lazy in a dense one.
    let nested =
        |values: &[i64]| dict(&[], [("n", dict(&[], [at("a", values)]).into()), ("x", longs(&[7]).get(0).into())]);
    let stack = TensorDict::maybe_dense_stack([nested(&[0; 3]), nested(&[0; 4])], 0).unwrap();
    assert_eq!((stack.is_lazy(), stack.dict("n").unwrap().is_lazy()), (false, true));
    assert_eq!(
        (show_entry(&stack.entry("x").unwrap()).as_str(), stack.item_shape(["n", "a"]).unwrap()),
        ("int64[2](7, 7)", vec![2, -1])
    );
    // Along another dim, and with names.
    let builder = LazyStackBuilder::from_list([[("a", longs(&[1, 2]))], [("a", longs(&[3, 4]))]]).unwrap();
    let stack = builder.members_batch_size([2]).stack_dim(1).names([Some("row"), Some("t")]).build().unwrap();
    assert_eq!((stack.stack_dim_name(), stack.members()[0].names().unwrap()), (Some("t"), vec![name("row")]));
    assert_eq!(show(&stack), "{a: int64[2, 2](1, 3, 2, 4)}");
}

#[test]
fn what_is_read() {
    let mixed = lazy([dict(&[], [at("a", &[1])]), dict(&[], [("a", floats(&[0.5]).into())])], 0);
    assert_eq!(show(&mixed), "{a: float32[2, 1](1, 0.5)}", "promoted");
    assert_eq!(show_jagged(&mixed.get_jagged("a").unwrap().unwrap()), "jag(float32[2](1, 0.5); 0, 1, 2)");

    // Nested dicts are stacked as the members are, and their tensors are the members'.
    let member = |value: i64| dict(&[1], [("n", dict(&[1], [at("y", &[value])]).into())]);
    let stack = LazyStackBuilder::new([member(1), member(2)]).stack_dim(1).stack_dim_name("t").build().unwrap();
    let nested = stack.dict("n").unwrap();
    assert_eq!((nested.stack_dim(), nested.stack_dim_name(), nested.batch_size()), (Some(1), Some("t"), vec![1, 2]));
    nested.members()[1].shallow_clone().fill_(9).unwrap();
    assert_eq!(show_entry(&stack.entry(["n", "y"]).unwrap()), "int64[1, 2](1, 9)");
    assert_eq!(stack.item_shape("n").unwrap(), [1, 2]);

    // Nothing is below a leaf.
    let both = lazy([row(&[1, 2]), row(&[3])], 0);
    for dict in [&both, &row(&[1])] {
        assert!(dict.get(["a", "b"]).unwrap().is_none() && !dict.contains_key(["a", "b"]));
        let error = dict.entry(["a", "b"]).unwrap_err();
        assert!(is_key_error_at(&error, ["a", "b"]) && error.to_string().contains("'a' is of kind tensor"), "{error}");
        assert!(dict.shallow_clone().remove(["a", "b"]).unwrap_err().is_key());
    }
    assert!(is_key_error_at(&both.item_shape(["a", "b"]).unwrap_err(), ["a", "b"]));

    // Shapes of as many dims can be told, others not.
    let depths = lazy([dict(&[], [at("a", &[1])]), dict(&[], [("a", longs(&[1]).reshape([1, 1]).into())])], 0);
    assert_eq!(depths.item_shape("a").unwrap(), [-1]);
    refused(depths.get("a"), Error::is_shape, &["Failed to stack tensors within a tensordict"]);
    // Two dims that differ are no jagged tensor, nor is the last alone.
    for second in [[1, 4], [2, 4]] {
        let wide =
            [[2, 3], second].map(|sizes| dict(&[], [("a", Tensor::zeros(sizes, (Kind::Int64, Device::Cpu)).into())]));
        refused(lazy(wide, 0).get_jagged("a"), Error::is_shape, &["'a'", "get_padded"]);
    }
    // Values that are no tensors are read as they are, and not padded.
    let words = lazy([dict(&[], [("s", "x".into())]), dict(&[], [("s", "y".into())])], 0);
    assert_eq!(show(&words), r#"{s: nts("x", "y")}"#);
    let list = words.get_list("s").unwrap().unwrap().into_flat();
    assert_eq!(list.iter().map(show_entry).collect::<Vec<_>>(), [r#"nts("x")"#, r#"nts("y")"#]);
    refused(words.get_padded("s", PaddingSide::Right, 0), Error::is_key, &["'s'", "non_tensor"]);
    // All forms are there for members of one shape as well.
    let same = lazy([row(&[1, 2]), row(&[3, 4])], 1);
    assert_eq!(show_tensor(&same.get_padded("a", PaddingSide::Left, 0).unwrap().unwrap()), "int64[2, 2](1, 2, 3, 4)");
    assert_eq!(show_jagged(&same.get_jagged("a").unwrap().unwrap()), "jag(int64[4](1, 2, 3, 4); 0, 2, 4)");
    let list = same.get_list("a").unwrap().unwrap();
    assert!(matches!(list, Nested::List(ref items) if items.len() == 2), "{list:?}");
}

#[test]
fn members_of_three_dims() {
    let stack = lazy([block(&[3, 4]), block(&[3, 5])], 1);
    assert_eq!(stack.batch_size(), [3, 2, -1]);
    let sizes = |index: Vec<Index>| stack.index(index).unwrap().batch_size();
    assert_eq!(sizes(vec![0.into()]), [2, -1]);
    assert_eq!(sizes(vec![Index::from(..), Index::from(..), 0.into()]), [3, 2]);
    assert_eq!(sizes(vec![Index::from(..), Index::from(..), Index::from(-2..)]), [3, 2, 2]);
    assert_eq!(sizes(vec![Index::from(..), 0.into(), Index::from(..)]), [3, 4]);
    // What is fixed in the stack is fixed for who comes.
    let mut stack = stack;
    stack.append(block(&[3, 9])).unwrap();
    refused(stack.append(block(&[2, 4])), Error::is_shape, &["[3, -1]", "[2, 4]"]);
    assert_eq!(stack.batch_size(), [3, 3, -1]);
}

#[test]
fn picking_from_members_that_differ() {
    let stack = uneven();
    let picked = stack.gather(0, &longs(&[1, 0, 1])).unwrap();
    assert_eq!((picked.is_lazy(), picked.batch_size()), (true, vec![3, -1]));
    assert_eq!(show_members(&picked)[1], "{a: int64[3](0, 1, 2)}");
    let kept = stack.masked_select(&Tensor::from_slice(&[false, true])).unwrap();
    assert_eq!(show_members(&kept), ["{a: int64[5](100, 101, 102, 103, 104)}"]);
    assert_eq!(stack.index([true, true]).unwrap().batch_size(), [2, -1]);
    // A gathered entry that only some members have is left out.
    let both = lazy([dict(&[], [at("a", &[1])]), dict(&[], [at("a", &[2]), at("b", &[3])])], 0);
    assert_eq!(show(&both.gather(0, &longs(&[1, 1])).unwrap().select(["a"]).unwrap()), "{a: int64[2, 1](2, 2)}");
    assert_eq!(show(&both.gather(0, &longs(&[])).unwrap()).split(':').next(), Some("{a"), "of no rows");
}

#[test]
fn one_member_is_written_to() {
    let mut stack = lazy([row(&[1, 2]), row(&[3, 4])], 0);
    stack.put_at(0, &dict(&[2], [at("a", &[5, 6]), at("b", &[7, 8])])).unwrap();
    assert_eq!(show_members(&stack), ["{a: int64[2](5, 6), b: int64[2](7, 8)}", "{a: int64[2](3, 4)}"]);
    let mut stack = lazy([row(&[1, 2]), row(&[3, 4])], 0);
    let none = dict(&[], [("b", longs(&[0]).get(0).into())]);
    stack.put_at([true, false], &none).unwrap();
    assert!(!stack.contains_key("b"));
    stack.put_at([false, true], &none).unwrap();
    assert_eq!(show_entry(&stack.entry("b").unwrap()), "int64[2, 2](0, 0, 0, 0)");
    // Of a place named twice, the last value stays.
    stack.set_at("a", longs(&[1, 2, 3]), ([0, 0, 0], [1, 1, 1])).unwrap();
    stack.set_at("b", longs(&[5, 6, 7, 8]).reshape([2, 2]), [1, 1]).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 2](1, 3, 3, 4), b: int64[2, 2](0, 0, 7, 8)}");
    // A number for all that the index reaches.
    stack.put_at((.., 0), 9).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 2](9, 3, 9, 4), b: int64[2, 2](9, 0, 9, 8)}");
    let mut own = ragged();
    own.lock();
    own.put_at(1, -1).unwrap();
    assert_eq!(show_members(&own)[1], "{a: int64[1](-1), n: {y: int64[1](-1)}, b: int64[1](-1)}");
    let mut kinds = dict(&[2], [("s", strings(&["a", "b"]).into()), ("f", floats(&[1.0, 2.0]).into())]);
    kinds.set(["n", "i"], longs(&[1, 2]).to_kind(Kind::Uint8)).unwrap();
    kinds.put_at(1.., 3).unwrap();
    let shown = r#"{s: nts("a", "b"), f: float32[2](1, 3), n: {i: uint8[2](1, 3)}}"#;
    assert_eq!(show(&kinds), shown);
    let error = kinds.put_at(0, 300).unwrap_err();
    assert!(error.is_overflow() && error.nested_key() == Some(&["n", "i"].into()), "{error}");
    refused(kinds.put_at(2, 0), Error::is_index, &["out of bounds"]);
    kinds.set("j", jagged(&[1, 2, 3], &[0, 2, 3])).unwrap();
    kinds.put_at(0, 0).unwrap();
    assert_eq!(show_entry(&kinds.entry("j").unwrap()), "jag(int64[3](0, 0, 3); 0, 2, 3)");
}

#[test]
fn cells_of_stacks_of_stacks() {
    let bare = || TensorDict::new([]);
    let mut stack = TensorDict::lazy_stack((0..3).map(|_| lazy([bare(), bare()], 0)), 1).unwrap();
    let ones = |i: i64, j: i64| Tensor::ones([1 + 3 * i + j], (Kind::Int64, Device::Cpu));
    let rows = (0..2).map(|i| (0..3).map(|j| ones(i, j)).collect::<Vec<_>>()).collect::<Vec<_>>();
    stack.set_list("a", rows).unwrap();
    for (i, j) in [(0, 0), (0, 2), (1, 0), (1, 2)] {
        assert_eq!(stack.index((i, j)).unwrap().tensor("a").unwrap().size(), [1 + 3 * i + j]);
    }
    // Items of several kinds, and nulls.
    let mut pair = lazy([bare(), bare()], 0);
    pair.set_list("m", vec![Entry::from(longs(&[1])), "x".into()]).unwrap();
    assert_eq!(show_members(&pair), ["{m: int64[1](1)}", r#"{m: nts("x")}"#]);
    refused(pair.get("m"), Error::is_key, &["'m'", "different kinds"]);
}

#[test]
fn taken_over_from_others() {
    let mut stack = lazy([TensorDict::new([]), TensorDict::new([])], 0);
    stack.update(&lazy([dict(&[], [at("b", &[1])]), dict(&[], [at("c", &[2])])], 0)).unwrap();
    assert_eq!(show_members(&stack), ["{b: int64[1](1)}", "{c: int64[1](2)}"]);
    let resize = UpdateOptions::default().update_batch_size(true);
    for values in [vec![1], vec![1, 2, 3]] {
        let source = TensorDict::lazy_stack(values.iter().map(|value| dict(&[], [at("a", &[*value])])), 0).unwrap();
        let mut two = lazy([dict(&[], [at("a", &[8])]), dict(&[], [at("a", &[9])])], 0);
        two.update_with(&source, &resize).unwrap();
        assert_eq!(show(&two), show(&source));
    }
    // A stack's batch size is its members'.
    assert_eq!(uneven().with_batch_size(&[2, -1]).unwrap().batch_size(), [2, -1]);
    for sizes in [vec![2], vec![], vec![2, 3]] {
        refused(uneven().with_batch_size(&sizes), Error::is_shape, &["[2, -1]"]);
    }
    assert_eq!(uneven().auto_batch_size(None).unwrap().batch_size(), [2, -1]);
}

#[test]
fn parts_put_together_again() {
    for dim in [0, 1] {
        let stack = TensorDict::lazy_stack([row(&[1, 2]), row(&[3, 4]), row(&[5, 6])], dim).unwrap();
        let parts = stack.split(&[2, 0, 1], dim).unwrap();
        assert_eq!(parts[1].batch_size()[dim as usize], 0);
        let back = TensorDict::cat(parts, dim).unwrap();
        assert_eq!((show(&back), back.stack_dim()), (show(&stack), stack.stack_dim()));
    }
    for dim in [0, 1] {
        let stack = TensorDict::lazy_stack([row(&[1, 2]), row(&[3]), row(&[5, 6])], dim).unwrap();
        let back = TensorDict::cat(stack.split(&[2, 0, 1], dim).unwrap(), dim).unwrap();
        assert_eq!((show_members(&back), back.batch_size()), (show_members(&stack), stack.batch_size()));
        refused(TensorDict::cat([stack.shallow_clone(), stack.shallow_clone()], 2), Error::is_index, &[]);
    }
    // The name of the stack dim is lost, the members keep theirs.
    let mut named = lazy([row(&[1, 2]), row(&[3, 4])], 0);
    named.set_names([Some("s"), Some("r")]).unwrap();
    let joined = TensorDict::cat([named.shallow_clone(), named], 0).unwrap();
    assert_eq!(joined.names().unwrap(), [None, name("r")]);

    let five = row(&[1, 2, 3, 4, 5]);
    let sizes = |parts: Vec<TensorDict>| parts.iter().map(|part| part.batch_size()[0]).collect::<Vec<_>>();
    assert_eq!(sizes(five.tensor_split(4, 0).unwrap()), [2, 1, 1, 1]);
    assert_eq!(sizes(five.tensor_split(7, -1).unwrap()), [1, 1, 1, 1, 1, 0, 0]);
    assert_eq!(sizes(uneven().tensor_split(2, 0).unwrap()), [1, 1]);
    for (count, dim) in [(0, 0), (-1, 0), (2, 1)] {
        refused(uneven().tensor_split(count, dim), Error::is_shape, &[]);
    }
}

#[test]
fn names_along_the_way() {
    let stack = LazyStackBuilder::new([row(&[1, 2]), row(&[3, 4])]).stack_dim_name("s").build().unwrap();
    let one = |dict: TensorDict| dict.names().unwrap();
    let kept = [name("s"), None];
    assert_eq!(stack.names().unwrap(), kept);
    assert_eq!(one(stack.index(0).unwrap()), [None]);
    assert_eq!(one(stack.index((.., 0)).unwrap()), [name("s")]);
    assert_eq!(one(stack.transpose(0, 1).unwrap()), [None, name("s")]);
    assert_eq!(one(stack.unsqueeze(0).unwrap()), [None, name("s"), None]);
    assert_eq!(one(stack.reshape(&[4]).unwrap()), [None]);
    assert_eq!(one(stack.reshape(&[1, 2, 2]).unwrap()), [None, None, None]);
    for same in [
        stack.shallow_clone(),
        stack.deep_clone().unwrap(),
        stack.apply(|tensor| Ok(tensor.shallow_clone())).unwrap(),
        stack.add(1).unwrap(),
        stack.index(1..).unwrap(),
        stack.index([0]).unwrap(),
        stack.split(&[1, 1], 0).unwrap().remove(1),
        stack.densify(Ragged::Jagged).unwrap(),
        stack.to_lazy_stack(1).unwrap(),
    ] {
        assert_eq!(same.names().unwrap(), kept, "{same}");
    }
    for without in [stack.contiguous().unwrap(), stack.eq_elements(&stack).unwrap()] {
        assert_eq!(without.names().unwrap(), [None, None]);
    }
    assert_eq!(one(stack.reduce_dim(Reduction::Sum, 1, false).unwrap()), [None]);
    // Taken apart along another dim, the stack dim is still itself.
    assert_eq!(one(stack.unbind(1).unwrap().remove(0)), [name("s")]);

    // Names that members don't share are no one answer; none clears all; one too few or twice is refused.
    let mut second = row(&[3, 4]);
    second.set_names([Some("other")]).unwrap();
    let mut first = row(&[1, 2]);
    first.set_names([Some("r")]).unwrap();
    let mut unlike = lazy([first, second], 0);
    refused(unlike.names(), Error::is_key, &["member 0 has 'r'", "member 1 has 'other'", "dim 1", "set_names"]);
    let deeper = lazy([unlike.shallow_clone(), unlike.shallow_clone()], 1);
    refused(deeper.names(), Error::is_key, &["dim 2", "member 0"]);
    refused(lazy([row(&[1, 2]), unlike.members()[0].shallow_clone()], 1).names(), Error::is_key, &["no name", "dim 0"]);
    // Nothing else minds: what comes of it has no name there.
    assert_eq!(one(unlike.reshape(&[4]).unwrap()), [None]);
    assert_eq!(one(unlike.expand(&[3, 2, 2]).unwrap()), [None, None, None]);
    assert_eq!(one(unlike.index(1).unwrap()), [name("other")]);
    unlike.set_names([Some("s"), Some("r")]).unwrap();
    assert_eq!(unlike.members()[1].names().unwrap(), [name("r")]);
    refused(unlike.set_names([Some("s")]), Error::is_shape, &["1 names"]);
    refused(unlike.set_names([Some("s"), Some("s")]), Error::is_key, &["'s'"]);
    unlike.set_names([None::<&str>, None]).unwrap();
    assert_eq!((unlike.names().unwrap(), unlike.members()[0].names().unwrap()), (vec![None, None], vec![None]));
}

#[test]
fn other_shapes_of_stacks() {
    let stack = || lazy([row(&[1, 2]), row(&[3, 4])], 0);
    let address = |dict: &TensorDict| dict.tensor("a").unwrap().data_ptr();
    for (sizes, lazy) in [(vec![1, 2, 2], true), (vec![2, 1, 2], true), (vec![2, 2, 1, 1], true), (vec![4], true)] {
        let seen = stack().view(&sizes).unwrap();
        assert_eq!((seen.is_lazy(), seen.batch_size()), (lazy, sizes.clone()));
        assert_eq!(show_entry(&seen.entry("a").unwrap()), format!("int64{sizes:?}(1, 2, 3, 4)"));
        assert_eq!(show(&seen.view(&[2, 2]).unwrap()), show(&stack()));
    }
    assert!(stack().squeeze(0).unwrap().is_lazy(), "a dim of another size stays");
    let alone = lazy([row(&[1, 2])], 1);
    assert_eq!(address(&alone.squeeze(1).unwrap()), address(&alone.members()[0]));
    assert_eq!(alone.squeeze(None).unwrap().batch_size(), [2]);
    for dim in [2, -3] {
        refused(stack().squeeze(dim), Error::is_index, &["out of range"]);
        refused(stack().unbind(dim), Error::is_index, &["out of range"]);
    }
    for dim in [3, -4] {
        refused(stack().unsqueeze(dim), Error::is_index, &["out of range"]);
    }
    for (dim, stack_dim) in [(0, 1), (1, 0), (2, 0), (-1, 0)] {
        assert_eq!(stack().unsqueeze(dim).unwrap().stack_dim(), Some(stack_dim), "{dim}");
    }
    // Dense, where members have one shape; a member that is alone is everyone, where it can't be.
    assert!(!stack().expand(&[3, 2, 2]).unwrap().is_lazy());
    let ragged = TensorDict::lazy_stack([lazy([row(&[1]), row(&[1, 2])], 0)], 0).unwrap();
    let wide = ragged.expand(&[3, 2, -1]).unwrap();
    assert_eq!((wide.is_lazy(), wide.batch_size(), wide.members().len()), (true, vec![3, 2, -1], 3));
    // A new dim is repeated in front of members that differ.
    assert_eq!(uneven().expand(&[3, 2, -1]).unwrap().batch_size(), [3, 2, -1]);
    // The same members again.
    let stack = stack();
    let twice = stack.repeat(&[2, 1]).unwrap();
    let each: Vec<_> = twice.members().iter().map(address).collect();
    let [first, second] = [&stack.members()[0], &stack.members()[1]].map(address);
    assert_eq!(each, [first, second, first, second]);
    let each: Vec<_> = stack.repeat_interleave(2, 0).unwrap().members().iter().map(address).collect();
    assert_eq!(each, [first, first, second, second]);
    assert_eq!(show(&stack.repeat(&[1, 2]).unwrap()), "{a: int64[2, 4](1, 2, 1, 2, 3, 4, 3, 4)}");
}

#[test]
fn dicts_are_set_in_stacks() {
    let mut stack = lazy([row(&[1, 2]), row(&[3, 4])], 0);
    let four = || longs(&[5, 6, 7, 8]).reshape([2, 2]);
    // One of fewer dims takes over the batch size, also if it is locked.
    for sizes in [vec![], vec![2], vec![2, 2]] {
        let nested = dict(&sizes, [("y", four().into())]).locked();
        stack.set("n", nested.shallow_clone().locked()).unwrap();
        assert_eq!(show_members(&stack.dict("n").unwrap()), ["{y: int64[2](5, 6)}", "{y: int64[2](7, 8)}"]);
        assert_eq!(stack.dict("n").unwrap().batch_size(), [2, 2]);
        let mut dense = dict(&[2, 2], []);
        dense.set("n", nested).unwrap();
        assert_eq!(dense.dict("n").unwrap().batch_size(), [2, 2]);
    }
    refused(stack.set("n", dict(&[], [at("y", &[1, 2])])), Error::is_shape, &["'n', 'y'", "[2, 2]"]);
    refused(stack.set("n", dict(&[3], [at("y", &[1, 2, 3])])), Error::is_shape, &["'n'"]);
    let mut rows = uneven();
    refused(rows.set("n", dict(&[2], [])), Error::is_shape, &["'n'", "[2, -1]"]);
    rows.set("n", uneven()).unwrap();
    assert_eq!(rows.item_shape(["n", "a"]).unwrap(), [2, -1]);
}

#[test]
fn keys_of_stacks() {
    let text = |keys: &[NestedKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let member = |more: &'static str| {
        let mut member = dict(&[], [at("z", &[1]), at(more, &[1])]);
        member.set(["n", "a"], longs(&[1])).unwrap();
        member.set(["n", more], longs(&[1])).unwrap();
        member
    };
    let stack = lazy([member("x"), member("y")], 0);
    assert_eq!(text(&stack.nested_keys()), "'z' ('n', 'a') 'n'");
    assert_eq!(text(&stack.leaf_keys()), "'z' ('n', 'a')");
    assert_eq!((stack.sorted_keys().join(" ").as_str(), stack.len()), ("n z", 2));
    assert!(stack.contains_key(["n", "a"]) && !stack.contains_key(["n", "x"]) && !stack.is_empty());
    assert!(lazy([dict(&[], [at("a", &[1])]), dict(&[], [])], 0).is_empty(), "no leaf is shared");
    // Reading entry by entry fails where one can't be stacked, keys never do.
    let rows = uneven();
    assert!(rows.items().unwrap_err().is_shape() && rows.leaves().unwrap_err().is_shape());
    assert_eq!(rows.keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn errors_tell_of_a_way_out() {
    let stack = uneven();
    let results = [
        stack.unbind(1).map(drop),
        stack.to_lazy_stack(-1).map(drop),
        stack.narrow(1, 0, 1).map(drop),
        stack.roll(1, 1).map(drop),
        stack.split_every(1, 1).map(drop),
        stack.chunk(2, 1).map(drop),
        stack.tensor_split(2, 1).map(drop),
    ];
    for result in results {
        refused(result, Error::is_shape, &["differ along dim 1", "index", "densify", "reshape"]);
    }
    let (text, flat, square) = (("a", "x".into()), at("a", &[1]), ("a", longs(&[1]).view([1, 1]).into()));
    let kinds = lazy([dict(&[], [text]), row(&[1]).with_batch_size(&[]).unwrap()], 0);
    refused(kinds.densify(Ragged::Jagged), Error::is_key, &["'a'", "non_tensor and tensor", "get_list"]);
    let dims = lazy([dict(&[], [flat]), dict(&[], [square])], 0);
    refused(dims.get_padded("a", PaddingSide::Left, 0), Error::is_shape, &["'a'", "[1]", "[1, 1]", "get_list"]);
    refused(dims.get("a"), Error::is_shape, &["'a'", "get_list", "get_padded", "get_jagged", "get_nested"]);
}
