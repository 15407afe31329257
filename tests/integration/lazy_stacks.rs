//! Stacks of tensordicts that differ: building, reading, members, lists, dense forms, locks, names.

use std::sync::Arc;

use arrow::array::{Int64Array, StringArray};
use tch::{Device, Kind, Tensor};
use tensorquery::{Entry, Error, LazyStackBuilder, Nested, NestedKey, NonTensorStack, PaddingSide, TensorDict};

use crate::show::{show, show_entry, show_jagged, show_tensor};

pub(crate) fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(values)
}

/// Without batch dims, one entry `a`.
pub(crate) fn scalar_batch(values: &[i64]) -> TensorDict {
    TensorDict::from_entries([("a", longs(values))]).unwrap()
}

/// Batch size `[values]`, one entry `a`.
pub(crate) fn batch(values: &[i64]) -> TensorDict {
    scalar_batch(values).with_batch_size(&[values.len() as i64]).unwrap()
}

pub(crate) fn filled(shape: &[i64], value: i64, batch_size: &[i64]) -> TensorDict {
    let tensor = Tensor::full(shape, value, (Kind::Int64, Device::Cpu));
    TensorDict::from_entries([("a", tensor)]).unwrap().with_batch_size(batch_size).unwrap()
}

pub(crate) fn lazy(members: impl IntoIterator<Item = TensorDict>) -> TensorDict {
    TensorDict::lazy_stack(members, 0).unwrap()
}

fn key(name: &str) -> NestedKey {
    name.into()
}

fn padded(stack: &TensorDict, side: PaddingSide, value: f64) -> String {
    show_tensor(&stack.get_padded("a", side, value).unwrap().unwrap())
}

pub(crate) fn says(error: &Error, words: &[&str]) {
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text} lacks one of {words:?}");
}

#[test]
fn members_that_differ_are_read_as_asked() {
    let stack = lazy([scalar_batch(&[0, 0, 0]), scalar_batch(&[1, 1, 1, 1])]);
    assert_eq!(stack.batch_size(), [2]);
    assert_eq!(padded(&stack, PaddingSide::Right, 0.0), "int64[2, 4](0, 0, 0, 0, 1, 1, 1, 1)");
    let jagged = stack.get_jagged("a").unwrap().unwrap();
    assert_eq!(show_jagged(&jagged), "jag(int64[7](0, 0, 0, 1, 1, 1, 1); 0, 3, 7)");
    assert_eq!(stack.item_shape("a").unwrap(), [2, -1]);
    let error = stack.get("a").unwrap_err();
    assert!(error.is_shape());
    let words =
        ["'a'", "Failed to stack tensors within a tensordict", "[3]", "[4]", "get_list", "get_padded", "get_jagged"];
    says(&error, &words);
    // The members are the tensordicts themselves.
    let members: Vec<_> = stack.members().iter().map(|member| member.tensor("a").unwrap()).collect();
    let list = stack.get_list("a").unwrap().unwrap().into_flat();
    for (entry, member) in list.iter().zip(&members) {
        assert_eq!(entry.as_tensor().unwrap().data_ptr(), member.data_ptr());
    }
    assert!(stack.keys().eq(["a"]) && stack.leaf_keys() == [key("a")]);
}

#[test]
fn padding_sides_values_and_dtypes() {
    let stack = lazy([scalar_batch(&[1, 2, 3]), scalar_batch(&[4])]);
    assert_eq!(padded(&stack, PaddingSide::Right, 0.0), "int64[2, 3](1, 2, 3, 4, 0, 0)");
    assert_eq!(padded(&stack, PaddingSide::Left, 0.0), "int64[2, 3](1, 2, 3, 0, 0, 4)");
    assert_eq!(padded(&stack, PaddingSide::Right, -1.0), "int64[2, 3](1, 2, 3, 4, -1, -1)");
    // Cast to the dtype.
    assert_eq!(padded(&stack, PaddingSide::Right, 1.5), "int64[2, 3](1, 2, 3, 4, 1, 1)");
    // The first member's dtype does not decide.
    let mixed = TensorDict::from_entries([("a", floats(&[1.5]))]).unwrap();
    let mixed = lazy([scalar_batch(&[1, 2]), mixed]);
    assert_eq!(padded(&mixed, PaddingSide::Right, 0.0), "float32[2, 2](1, 2, 1.5, 0)");
}

#[test]
fn every_dim_is_padded() {
    let stack = lazy([filled(&[2, 3], 1, &[]), filled(&[1, 4], 2, &[])]);
    let right = "int64[2, 2, 4](1, 1, 1, 0, 1, 1, 1, 0, 2, 2, 2, 2, 0, 0, 0, 0)";
    assert_eq!(padded(&stack, PaddingSide::Right, 0.0), right);
    let left = "int64[2, 2, 4](9, 1, 1, 1, 9, 1, 1, 1, 9, 9, 9, 9, 2, 2, 2, 2)";
    assert_eq!(padded(&stack, PaddingSide::Left, 9.0), left);
    assert!(stack.get_jagged("a").unwrap_err().is_shape(), "two dims differ");
    // A dim of size 1 in one member is padded too, not repeated.
    let stack = lazy([filled(&[2, 3], 1, &[]), filled(&[4, 1], 2, &[])]);
    assert!(padded(&stack, PaddingSide::Right, 0.0).ends_with("2, 0, 0, 2, 0, 0, 2, 0, 0, 2, 0, 0)"));
    // Members come first, whatever the stack dim.
    let wide = TensorDict::lazy_stack([filled(&[3, 2], 1, &[3, 2]), filled(&[4, 2], 2, &[4, 2])], 1).unwrap();
    assert_eq!(wide.get_padded("a", PaddingSide::Right, 0).unwrap().unwrap().size(), [2, 4, 2]);
    for (members, what) in [
        ([filled(&[], 1, &[]), filled(&[], 1, &[])], "dims"),
        ([filled(&[2], 1, &[]), filled(&[2, 2], 1, &[])], "numbers of dims"),
    ] {
        let stack = lazy(members);
        let error = stack.get_padded("a", PaddingSide::Right, 0).unwrap_err();
        assert!(error.is_shape());
        says(&error, &["'a'", what]);
        assert!(stack.get_jagged("a").unwrap_err().is_shape());
    }
}

#[test]
fn stacks_of_stacks() {
    let inner = |members: &[&[i64]]| lazy(members.iter().map(|values| scalar_batch(values)));
    let stack = lazy([inner(&[&[1], &[1, 2]]), inner(&[&[1, 2, 3], &[4]])]);
    assert_eq!((stack.batch_size(), stack.item_shape("a").unwrap()), (vec![2, 2], vec![2, 2, -1]));
    assert_eq!(padded(&stack, PaddingSide::Right, 0.0), "int64[2, 2, 3](1, 0, 0, 1, 2, 0, 1, 2, 3, 4, 0, 0)");
    let error = stack.get_jagged("a").unwrap_err();
    assert!(error.is_shape(), "{error}");
    let list = stack.get_list("a").unwrap().unwrap();
    let Nested::List(rows) = list else { panic!("one level per stack") };
    assert_eq!(rows.into_iter().map(|row| row.into_flat().len()).collect::<Vec<_>>(), [2, 2]);
    // Of different numbers of members: missing ones are padding too.
    let stack = lazy([inner(&[&[1]]), inner(&[&[1, 2, 3], &[4]])]);
    assert_eq!(stack.batch_size(), [2, -1]);
    assert_eq!(padded(&stack, PaddingSide::Right, 0.0), "int64[2, 2, 3](1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0)");
}

#[test]
fn the_stack_dim_and_batch_sizes() {
    let members = (0..10).map(|_| filled(&[3, 4], 1, &[3]));
    let stack = TensorDict::lazy_stack(members, -1).unwrap();
    assert_eq!((stack.batch_size(), stack.stack_dim()), (vec![3, 10], Some(1)));
    assert_eq!(stack.tensor("a").unwrap().size(), [3, 10, 4]);
    assert_eq!(lazy([filled(&[3], 1, &[3]), filled(&[4], 1, &[4])]).batch_size(), [2, -1]);
    let three = [[3, 5], [4, 5], [3, 6]].map(|size| filled(&size, 1, &size));
    assert_eq!(TensorDict::lazy_stack(three, 1).unwrap().batch_size(), [-1, 3, -1]);
    for dim in [2, -3, i64::MAX, i64::MIN] {
        let error = TensorDict::lazy_stack([batch(&[1])], dim).unwrap_err();
        assert!(error.is_index(), "{error}");
    }
    let error = TensorDict::lazy_stack([], 0).unwrap_err();
    says(&error, &["items cannot be empty"]);
    let error = TensorDict::lazy_stack([batch(&[1]), scalar_batch(&[1])], 0).unwrap_err();
    assert!(error.is_shape());
    says(&error, &["batch sizes of tensordicts in a stack differ", "member 1", "[1]", "[]"]);
    let labelled = batch(&[1]).to(Device::Cpu).unwrap();
    let error = TensorDict::lazy_stack([batch(&[1]), labelled], 0).unwrap_err();
    assert!(error.is_device());
    says(&error, &["devices differ"]);
}

#[test]
fn what_a_builder_checks() {
    let two = || [batch(&[1, 2, 3]), batch(&[1, 2, 3, 4])];
    let error = LazyStackBuilder::new(two()).strict_shape(true).build().unwrap_err();
    assert!(error.is_shape());
    says(&error, &["batch sizes of tensordicts in a stack differ", "strict_shape"]);
    assert_eq!(LazyStackBuilder::new(two()).batch_size([2, -1]).build().unwrap().batch_size(), [2, -1]);
    let error = LazyStackBuilder::new(two()).batch_size([2, 3]).build().unwrap_err();
    says(&error, &["[2, -1]", "[2, 3]"]);

    let empty = LazyStackBuilder::new([]).build().unwrap();
    assert_eq!((empty.batch_size(), empty.len(), empty.device(), empty.is_lazy()), (vec![0], 0, None, true));
    let empty = LazyStackBuilder::new([]).batch_size([3, 4]).stack_dim(1).device(Device::Cpu).build().unwrap();
    assert_eq!((empty.batch_size(), empty.device()), (vec![3, 0, 4], Some(Device::Cpu)));
    assert!(empty.get("a").unwrap().is_none() && empty.entry("a").unwrap_err().is_key());
    assert!(LazyStackBuilder::new([]).batch_size([3]).stack_dim(2).build().unwrap_err().is_index());
    assert!(LazyStackBuilder::new([]).batch_size([-2]).build().unwrap_err().is_shape());

    let names = LazyStackBuilder::new(two()).names([Some("time"), Some("row")]).build().unwrap();
    assert_eq!(names.names().unwrap(), [Some("time".to_owned()), Some("row".to_owned())]);
    assert_eq!(names.members()[1].names().unwrap(), [Some("row".to_owned())]);
    let both = LazyStackBuilder::new(two()).names([Some("a"), None]).stack_dim_name("b").build();
    assert!(both.unwrap_err().is_option());
    assert!(LazyStackBuilder::new(two()).names([Some("a")]).build().unwrap_err().is_shape());
    let taken = LazyStackBuilder::new(names.into_members().unwrap()).stack_dim_name("row").build();
    says(&taken.unwrap_err(), &["'row'"]);
}

#[test]
fn stacks_of_lists_of_entries() {
    let lists = || [[("a", floats(&[0.0; 3]))], [("a", floats(&[0.0; 4]))]];
    let stack = LazyStackBuilder::from_list(lists()).unwrap().stack_dim_name("t").build().unwrap();
    assert_eq!((stack.batch_size(), stack.names().unwrap()), (vec![2], vec![Some("t".to_owned())]));
    assert_eq!(stack.members()[1].tensor("a").unwrap().size(), [4]);
    let stack = LazyStackBuilder::from_list(lists()).unwrap().auto_batch_size(None).build().unwrap();
    assert_eq!(stack.batch_size(), [2, -1]);
    let deep = [[("a", Tensor::zeros([3, 4], (Kind::Float, Device::Cpu))), ("b", floats(&[0.0; 3]))]];
    let deep = LazyStackBuilder::from_list(deep).unwrap().auto_batch_size(1).build().unwrap();
    assert_eq!(deep.batch_size(), [1, 3]);
    let fixed = LazyStackBuilder::from_list(lists()).unwrap().members_batch_size([3]).build();
    assert!(fixed.unwrap_err().is_shape(), "the second has 4");
    // Different numbers of batch dims can't be stacked.
    let uneven = [[("a", floats(&[0.0; 3]))], [("a", floats(&[0.0; 3]).get(0))]];
    let uneven = LazyStackBuilder::from_list(uneven).unwrap().auto_batch_size(None).build();
    assert!(uneven.unwrap_err().is_shape());

    let named = |names: [&'static str; 2]| LazyStackBuilder::from_dict(names.into_iter().zip(lists()));
    let swapped = named(["1", "0"]).unwrap().build().unwrap();
    assert_eq!(swapped.members()[0].tensor("a").unwrap().size(), [4]);
    for names in [["0", "2"], ["0", "0"], ["a", "1"], ["00", "1"], ["1", "2"], ["-1", "0"]] {
        assert!(named(names).unwrap_err().is_key(), "{names:?}");
    }
    let none: [[(&str, Tensor); 0]; 0] = [];
    assert_eq!(LazyStackBuilder::from_list(none).unwrap().build().unwrap().batch_size(), [0]);
}

#[test]
fn keys_are_those_of_all_members() {
    let mut second = scalar_batch(&[4, 5, 6]);
    second.set("b", floats(&[1.0, 1.0])).unwrap();
    second.set(["n", "x"], longs(&[1])).unwrap();
    let mut stack = lazy([scalar_batch(&[1, 2, 3]), second]);
    assert!(stack.keys().eq(["a"]));
    assert!(stack.get("b").unwrap().is_none() && !stack.contains_key("b") && !stack.contains_key(["n", "x"]));
    let error = stack.entry("b").unwrap_err();
    assert!(error.is_key());
    says(&error, &["'b'", "member 0"]);
    assert!(stack.item_shape("b").unwrap_err().is_key());
    assert!(stack.get_list("b").unwrap().is_none() && stack.get_jagged("b").unwrap().is_none());
    assert!(stack.get_padded("b", PaddingSide::Right, 0).unwrap().is_none());
    assert_eq!(show_tensor(&stack.members()[1].tensor("b").unwrap()), "float32[2](1, 1)");
    // A default stands in for the members that lack the key.
    let jagged = stack.get_jagged_or("b", &floats(&[7.0])).unwrap();
    assert_eq!(show_jagged(&jagged), "jag(float32[3](7, 1, 1); 0, 1, 3)");
    let text = stack.to_string();
    let expected = "LazyStackedTensorDict  batch_size=[2]  device=none  stack_dim=0
  a             tensor  int64    [2, 3]  cpu
  b (member 1)  tensor  float32  [2]     cpu
  n (member 1)  dict             []";
    assert_eq!(text, expected);
    stack.set("b", Tensor::zeros([2, 10], (Kind::Float, Device::Cpu))).unwrap();
    assert!(stack.keys().eq(["a", "b"]));
    assert_eq!(stack.members()[0].tensor("b").unwrap().size(), [10]);
}

#[test]
fn reading_makes_a_tensor_writing_reaches_the_members() {
    let mut stack = lazy([batch(&[1, 2]), batch(&[3, 4])]);
    let _ = stack.tensor("a").unwrap().f_fill_(9).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 2](1, 2, 3, 4)}");
    stack.set("a", longs(&[5, 6, 7, 8]).view([2, 2])).unwrap();
    assert_eq!(show(&stack.members()[1]), "{a: int64[2](7, 8)}");
    // Pieces are views of what was given.
    let given = longs(&[0, 0, 0, 0]).view([2, 2]);
    stack.set("b", given.shallow_clone()).unwrap();
    let _ = given.shallow_clone().f_fill_(3).unwrap();
    assert_eq!(show_tensor(&stack.members()[0].tensor("b").unwrap()), "int64[2](3, 3)");
    for wrong in [vec![2i64], vec![2, 3], vec![3, 2], vec![]] {
        let before = show(&stack);
        let error = stack.set("a", Tensor::zeros(wrong.as_slice(), (Kind::Int64, Device::Cpu))).unwrap_err();
        assert!(error.is_shape());
        says(&error, &["batch dimension mismatch", "'a'", "[2, 2]"]);
        assert_eq!(show(&stack), before);
    }
    stack.set(["n", "x"], longs(&[1, 2, 3, 4]).view([2, 2])).unwrap();
    assert_eq!(stack.dict("n").unwrap().stack_dim(), Some(0));
    assert_eq!(show(&stack.dict("n").unwrap()), "{x: int64[2, 2](1, 2, 3, 4)}");
    assert!(stack.set(["a", "below"], longs(&[1, 2, 3, 4]).view([2, 2])).unwrap_err().is_key());
    stack.set("s", "one for all").unwrap();
    assert_eq!(show_entry(&stack.members()[0].entry("s").unwrap()), r#"nts("one for all", "one for all")"#);
    // A stack is put in member by member, ragged or not.
    let ragged = LazyStackBuilder::new([filled(&[2, 1], 1, &[2]), filled(&[2, 3], 2, &[2])]).build().unwrap();
    stack.set("r", ragged).unwrap();
    assert_eq!(stack.item_shape(["r", "a"]).unwrap(), [2, 2, -1]);
    let _ = stack.remove("b").unwrap();
    assert!(!stack.contains_key("b") && stack.remove("b").unwrap_err().is_key());
}

#[test]
fn entries_of_different_kinds() {
    let mut text = TensorDict::new([]);
    text.set("a", "x").unwrap();
    let stack = lazy([scalar_batch(&[1]), text]);
    let error = stack.get("a").unwrap_err();
    assert!(error.is_key());
    says(&error, &["'a'", "different kinds", "tensor", "non_tensor"]);
    let kinds: Vec<_> = stack.get_list("a").unwrap().unwrap().into_flat().iter().map(Entry::kind).collect();
    assert_eq!(kinds, ["tensor", "non_tensor"]);
    assert!(stack.get_padded("a", PaddingSide::Right, 0).unwrap_err().is_key());
    assert!(stack.get_jagged("a").unwrap_err().is_key());

    let words = |words: &[&str]| {
        let values = NonTensorStack::new(Arc::new(StringArray::from(words.to_vec())));
        let mut dict = TensorDict::new([words.len() as i64]);
        dict.set("s", values).unwrap();
        dict
    };
    let stack = TensorDict::lazy_stack([words(&["a", "b"]), words(&["c", "d"])], 1).unwrap();
    let values = stack.non_tensor("s").unwrap();
    assert_eq!(values.batch_size(), [2, 2]);
    assert_eq!(show_entry(&values.into()), r#"nts("a", "c", "b", "d")"#);
    let mut numbers = TensorDict::new([2]);
    numbers.set("s", NonTensorStack::new(Arc::new(Int64Array::from(vec![1, 2])))).unwrap();
    let error = lazy([words(&["a", "b"]), numbers]).get("s").unwrap_err();
    assert!(error.is_schema());
    says(&error, &["'s'", "Utf8", "Int64"]);
}

#[test]
fn lists_are_written_item_by_item() {
    let bare = || TensorDict::new([]);
    let mut stack = lazy([bare(), bare()]);
    stack.set_list("a", vec![floats(&[1.0, 1.0]), floats(&[0.0])]).unwrap();
    assert_eq!(show_tensor(&stack.members()[1].tensor("a").unwrap()), "float32[1](0)");
    stack.set_list("b", vec!["a string", "another string"]).unwrap();
    assert_eq!(show_entry(&stack.members()[1].entry("b").unwrap()), r#"nts("another string")"#);
    assert_eq!(show_entry(&stack.entry("b").unwrap()), r#"nts("a string", "another string")"#);
    for length in [0, 1, 3] {
        let error = stack.set_list("c", (0..length).map(|_| floats(&[1.0])).collect::<Vec<_>>()).unwrap_err();
        assert!(error.is_shape(), "{error}");
        assert!(stack.members().iter().all(|member| !member.contains_key("c")), "nothing was written");
    }

    // Nested as the batch is, whichever dim is the stack's.
    let inner = || lazy([bare(), bare()]);
    let mut stack = TensorDict::lazy_stack([inner(), inner(), inner()], 1).unwrap();
    assert_eq!(stack.batch_size(), [2, 3]);
    let ones = |i: i64, j: i64| Tensor::ones([1 + 3 * i + j], (Kind::Int64, Device::Cpu));
    let list = |i| (0..3).map(|j| ones(i, j)).collect::<Vec<_>>();
    stack.set_list(["deep", "a"], vec![list(0), list(1)]).unwrap();
    for (j, member) in stack.members().iter().enumerate() {
        for (i, cell) in member.members().iter().enumerate() {
            assert_eq!(cell.tensor(["deep", "a"]).unwrap().size(), [1 + 3 * i as i64 + j as i64]);
        }
    }
    // A piece that doesn't fit leaves every member as it was.
    let mut stack = lazy([batch(&[1, 2]), batch(&[3, 4])]);
    let error = stack.set_list("b", vec![longs(&[1, 2]), longs(&[1, 2, 3])]).unwrap_err();
    assert!(error.is_shape(), "{error}");
    assert!(stack.members().iter().all(|member| !member.contains_key("b")));

    // A dense tensordict stacks its items, ragged ones into a jagged tensor.
    let mut dense = TensorDict::new([2]);
    dense.set_list("x", vec![longs(&[1, 2]), longs(&[3, 4])]).unwrap();
    dense.set_list("j", vec![longs(&[1, 2]), longs(&[3])]).unwrap();
    dense.set_list("s", vec!["a", "b"]).unwrap();
    let expected = r#"{x: int64[2, 2](1, 2, 3, 4), j: jag(int64[3](1, 2, 3); 0, 2, 3), s: nts("a", "b")}"#;
    assert_eq!(show(&dense), expected);
    assert!(dense.set_list("y", vec![longs(&[1])]).unwrap_err().is_shape());
    assert!(dense.set_list("y", vec![vec![longs(&[1])], vec![longs(&[2])]]).unwrap_err().is_shape());
    assert!(dense.set_list("y", Vec::<Tensor>::new()).unwrap_err().is_shape());
    assert_eq!(show(&dense), expected);
}

#[test]
fn members_are_appended_inserted_and_edited() {
    let mut stack = lazy([scalar_batch(&[0]), scalar_batch(&[100])]);
    stack.insert(-1, scalar_batch(&[900])).unwrap();
    assert_eq!(show(&stack), "{a: int64[3, 1](0, 900, 100)}");
    stack.insert(100, scalar_batch(&[1])).unwrap();
    stack.insert(-100, scalar_batch(&[2])).unwrap();
    assert_eq!(show(&stack), "{a: int64[5, 1](2, 0, 900, 100, 1)}");

    for dim in [0, 1] {
        let mut stack = TensorDict::lazy_stack([batch(&[1, 2, 3, 4]), batch(&[1, 2, 3, 4])], dim).unwrap();
        let mut more = batch(&[5, 6, 7, 8]);
        more.set("b", longs(&[1, 1, 1, 1])).unwrap();
        stack.append(more).unwrap();
        assert_eq!(stack.batch_size()[dim as usize], 3);
        assert!(stack.keys().eq(["a"]));
        let before = show(&stack);
        let error = stack.append(filled(&[17], 1, &[17])).unwrap_err();
        assert!(error.is_shape());
        says(&error, &["batch sizes of tensordicts in a stack differ", "[4]", "[17]"]);
        assert!(stack.append(scalar_batch(&[1, 2, 3, 4])).unwrap_err().is_shape());
        let error = stack.append(batch(&[1, 2, 3, 4]).to(Device::Cpu).unwrap()).unwrap_err();
        assert!(error.is_device());
        says(&error, &["Devices differ"]);
        // All or none.
        assert!(stack.extend([batch(&[1, 2, 3, 4]), batch(&[1])]).unwrap_err().is_shape());
        assert_eq!(show(&stack), before);
        stack.extend([]).unwrap();
        stack.extend([batch(&[1, 2, 3, 4]), batch(&[1, 2, 3, 4])]).unwrap();
        assert_eq!(stack.members().len(), 5);
    }
    // Where sizes differ already, any size may come.
    let mut ragged = lazy([batch(&[1, 2]), batch(&[1, 2, 3])]);
    ragged.append(batch(&[1])).unwrap();
    assert_eq!(ragged.batch_size(), [3, -1]);

    let mut empty = LazyStackBuilder::new([]).build().unwrap();
    empty.append(batch(&[1, 2])).unwrap();
    assert_eq!(empty.batch_size(), [1, 2]);
    let mut empty = LazyStackBuilder::new([]).build().unwrap();
    assert!(empty.extend([batch(&[1, 2]), batch(&[1])]).unwrap_err().is_shape());
    assert_eq!(empty.batch_size(), [0]);
    let mut empty = LazyStackBuilder::new([]).batch_size([3]).stack_dim(1).build().unwrap();
    assert!(empty.append(scalar_batch(&[1])).unwrap_err().is_shape(), "there would be no dim 1");

    let mut stack = lazy([batch(&[1, 2]), batch(&[3, 4])]);
    stack.edit_member(-1, |member| member.set("b", longs(&[1, 1]))).unwrap();
    assert!(stack.members()[1].contains_key("b") && !stack.contains_key("b"));
    for index in [2, -3, i64::MIN] {
        assert!(stack.edit_member(index, |_| Ok(())).unwrap_err().is_index());
    }
    let replaced = stack.edit_member(0, |member| {
        *member = batch(&[1, 2, 3]);
        Ok(())
    });
    assert!(replaced.unwrap_err().is_shape());
    let failed =
        stack.edit_member(0, |member| member.set("c", longs(&[1, 1])).and_then(|()| member.set("d", longs(&[1]))));
    assert!(failed.unwrap_err().is_shape());
    assert!(!stack.members()[0].contains_key("c"), "as it was");
    let error = batch(&[1]).append(batch(&[1])).unwrap_err();
    assert!(error.is_key());
    says(&error, &["dense"]);
}

#[test]
fn locks_reach_every_part() {
    let mut stack = lazy([batch(&[1, 2]), batch(&[3, 4])]);
    stack.set(["n", "x"], longs(&[1, 2, 3, 4]).view([2, 2])).unwrap();
    stack.lock();
    assert!(stack.is_locked() && stack.members().iter().all(TensorDict::is_locked));
    let four = || longs(&[1, 2, 3, 4]).view([2, 2]);
    let errors = [
        stack.set("a", four()).unwrap_err(),
        stack.set(["n", "y"], four()).unwrap_err(),
        stack.set_list("a", vec![longs(&[1, 2]), longs(&[1, 2])]).unwrap_err(),
        stack.append(batch(&[1, 2])).unwrap_err(),
        stack.insert(0, batch(&[1, 2])).unwrap_err(),
        stack.extend([batch(&[1, 2])]).unwrap_err(),
        stack.remove("a").unwrap_err(),
        stack.remove(["n", "x"]).unwrap_err(),
        stack.edit_member(0, |_| Ok(())).unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_lock(), "{error}");
        says(&error, &["Cannot modify locked TensorDict"]);
    }
    // Values may be written in place, handles are unlocked.
    let _ = stack.members()[0].tensor("a").unwrap().f_fill_(7).unwrap();
    assert_eq!(show_tensor(&stack.tensor("a").unwrap()), "int64[2, 2](7, 7, 3, 4)");
    assert!(!stack.shallow_clone().is_locked());
    let mut part = stack.into_members().unwrap().swap_remove(0);
    let error = part.unlock().unwrap_err();
    assert!(error.is_lock());
    says(&error, &["graph"]);
    let mut whole = lazy([batch(&[1]), batch(&[2])]).locked();
    whole.unlock().unwrap();
    assert!(!whole.is_locked() && whole.members().iter().all(|member| !member.is_locked()));
    // Locked if all members are; a stack of none is not.
    assert!(lazy([batch(&[1]).locked(), batch(&[2]).locked()]).is_locked());
    assert!(!lazy([batch(&[1]).locked(), batch(&[2])]).is_locked());
    assert!(!LazyStackBuilder::new([]).build().unwrap().is_locked());
}

#[test]
fn names_of_dims() {
    let mut dict = filled(&[2, 3], 1, &[2, 3]);
    assert_eq!(dict.names().unwrap(), [None, None]);
    dict.set_names([Some("a"), None]).unwrap();
    assert_eq!(dict.names().unwrap(), [Some("a".to_owned()), None]);
    assert!(dict.set_names([Some("a")]).unwrap_err().is_shape());
    assert!(dict.set_names([Some("a"), Some("a")]).unwrap_err().is_key());
    assert_eq!(dict.names().unwrap(), [Some("a".to_owned()), None]);
    dict.set("n", filled(&[2, 3, 4], 1, &[2, 3, 4])).unwrap();
    dict.set_names([Some("b"), Some("c")]).unwrap();
    assert_eq!(dict.dict("n").unwrap().names().unwrap(), [Some("b".to_owned()), Some("c".to_owned()), None]);
    let mut stack = TensorDict::lazy_stack([batch(&[1]), batch(&[2])], 1).unwrap();
    stack.set_names([Some("row"), Some("time")]).unwrap();
    assert_eq!(stack.stack_dim_name(), Some("time"));
    assert_eq!(stack.members()[0].names().unwrap(), [Some("row".to_owned())]);
}

#[test]
fn members_that_differ_in_any_dim_are_a_nested_tensor() {
    let sizes = |stack: &TensorDict| -> Vec<String> {
        let nested = stack.get_nested("a").unwrap().unwrap();
        nested.f_unbind(0).unwrap().iter().map(show_tensor).collect()
    };
    let (wide, tall) = (filled(&[1, 3], 1, &[]), filled(&[2, 2], 2, &[]));
    let rows = ["int64[1, 3](1, 1, 1)", "int64[2, 2](2, 2, 2, 2)"];
    assert_eq!(sizes(&lazy([wide.shallow_clone(), tall.shallow_clone()])), rows);
    let error = lazy([wide, tall]).get_jagged("a").unwrap_err();
    says(&error, &["'a'", "get_nested", "get_padded", "get_list"]);
    // Members come first, whatever the stack dim; dtypes are promoted; strides don't matter.
    let floats = TensorDict::from_entries([("a", Tensor::from_slice(&[0.5f64, 1.5]).view([1, 2]).tr())]).unwrap();
    let stack = TensorDict::lazy_stack([floats.with_batch_size(&[2]).unwrap(), filled(&[3, 1], 7, &[3])], 1).unwrap();
    assert_eq!(sizes(&stack), ["float64[2, 1](0.5, 1.5)", "float64[3, 1](7, 7, 7)"]);
    // Of dense tensordicts, the rows.
    assert_eq!(sizes(&batch(&[1, 2]).unsqueeze(0).unwrap()), ["int64[2](1, 2)"]);
    let refused = |stack: TensorDict, words: &[&str]| {
        let error = stack.get_nested("a").unwrap_err();
        assert!(error.is_shape(), "{error}");
        says(&error, words);
    };
    refused(lazy([filled(&[2], 1, &[]), filled(&[1, 1], 1, &[])]), &["'a'", "[2]", "[1, 1]", "get_list"]);
    refused(lazy([filled(&[], 1, &[])]), &["'a'", "[]"]);
    refused(lazy([lazy([batch(&[1])]), lazy([batch(&[1])])]), &["'a'", "reshape"]);
    assert!(lazy([batch(&[1]), TensorDict::new([1])]).get_nested("a").unwrap().is_none());
}
