//! Dense forms of tensordicts that differ: jagged, padded, and sequences with their masks.

use std::sync::Arc;

use arrow::array::{Int64Array, StringArray};
use tch::{Device, Kind, Tensor};
use tensorquery::{
    Entry, JaggedTensor, LazyStackBuilder, NestedKey, NonTensorStack, PadSequence, PaddingSide, Ragged, TensorDict,
};

use crate::lazy_stacks::{batch, filled, lazy, longs, says};
use crate::show::{show, show_tensor};

#[test]
fn dense_forms_have_the_keys_of_any_member() {
    let entry = |key: &'static str, values: &[i64]| (NestedKey::from(key), Entry::from(longs(values)));
    let deep = |value: i64| (NestedKey::from(["d", "e"]), Entry::from(longs(&[value])));
    let first = TensorDict::from_entries([entry("a", &[1]), entry("b", &[1, 2]), deep(1)]).unwrap();
    let second = TensorDict::from_entries([entry("b", &[1]), entry("c", &[1, 2]), deep(2)]).unwrap();
    let stack = LazyStackBuilder::new([first, second]).stack_dim_name("t").build().unwrap();
    let dense = stack.densify(Ragged::Jagged).unwrap();
    let expected = "{a: jag(int64[1](1); 0, 1, 1), b: jag(int64[3](1, 2, 1); 0, 2, 3), \
                    d: {e: int64[2, 1](1, 2)}, c: jag(int64[2](1, 2); 0, 0, 2)}";
    assert_eq!(show(&dense), expected);
    assert_eq!((dense.names().unwrap(), dense.is_lazy()), (vec![Some("t".to_owned())], false));
    let dense = stack.densify(Ragged::Padded { side: PaddingSide::Left, value: (-1).into() }).unwrap();
    let expected = "{a: int64[2, 1](1, -1), b: int64[2, 2](1, 2, -1, 1), d: {e: int64[2, 1](1, 2)}, \
                    c: int64[2, 2](-1, -1, 1, 2)}";
    assert_eq!(show(&dense), expected);

    // A batch dim along which members differ is ragged, or padded.
    let stack = lazy([batch(&[1, 2]), batch(&[3])]);
    let jagged = stack.densify(Ragged::Jagged).unwrap();
    assert_eq!((jagged.batch_size(), show(&jagged)), (vec![2], "{a: jag(int64[3](1, 2, 3); 0, 2, 3)}".to_owned()));
    let square = stack.densify(Ragged::Padded { side: PaddingSide::Right, value: 0.into() }).unwrap();
    assert_eq!((square.batch_size(), show(&square)), (vec![2, 2], "{a: int64[2, 2](1, 2, 3, 0)}".to_owned()));
    let columns = TensorDict::lazy_stack([batch(&[1, 2]), batch(&[3])], 1).unwrap();
    let error = columns.densify(Ragged::Jagged).unwrap_err();
    says(&error, &["'a'", "stack dim", "Padded"]);
    let square = columns.densify(Ragged::Padded { side: PaddingSide::Right, value: 0.into() }).unwrap();
    assert_eq!(show(&square), "{a: int64[2, 2](1, 3, 2, 0)}");

    // Masks are of what there is.
    let masked = |values: &[i64]| {
        let mut dict = batch(values);
        dict.set("m", Tensor::ones([values.len() as i64], (Kind::Bool, Device::Cpu))).unwrap();
        dict
    };
    let padded = Ragged::Padded { side: PaddingSide::Right, value: (-1).into() };
    let square = lazy([masked(&[1, 2]), masked(&[3])]).densify(padded).unwrap();
    assert_eq!(show(&square), "{a: int64[2, 2](1, 2, 3, -1), m: bool[2, 2](T, T, T, F)}");

    // Values that are no tensors: null where a member lacks them. Numbers without dims can't be missing.
    let text = TensorDict::from_entries([("s", "x")]).unwrap();
    let dense = lazy([TensorDict::new([]), text]).densify(Ragged::Jagged).unwrap();
    assert_eq!(show(&dense), r#"{s: nts(null, "x")}"#);
    let number = TensorDict::from_entries([("n", longs(&[1]).get(0))]).unwrap();
    let error = lazy([TensorDict::new([]), number]).densify(Ragged::Jagged).unwrap_err();
    says(&error, &["'n'"]);
    // Equal members make what stacking makes; a dense tensordict is as dense as it gets.
    let same = lazy([batch(&[1, 2]), batch(&[3, 4])]).densify(Ragged::Jagged).unwrap();
    assert_eq!((same.batch_size(), show(&same)), (vec![2, 2], "{a: int64[2, 2](1, 2, 3, 4)}".to_owned()));
    assert_eq!(show(&same.densify(Ragged::Jagged).unwrap()), show(&same));
}

#[test]
fn sequences_are_padded_and_masked() {
    let sequence = |a: &[i64], rows: i64| {
        let b = Tensor::ones([rows, 2], (Kind::Float, Device::Cpu));
        TensorDict::from_entries([("a", longs(a)), ("b", b)]).unwrap()
    };
    let sequences = [sequence(&[0, 1], 2), sequence(&[0, 1, 2], 1)];
    let padded = TensorDict::pad_sequence(&sequences, &PadSequence::default().masks("masks")).unwrap();
    assert_eq!(padded.batch_size(), [2]);
    let expected = "{a: int64[2, 3](0, 1, 0, 0, 1, 2), b: float32[2, 2, 2](1, 1, 1, 1, 1, 1, 0, 0), \
                    masks: {a: bool[2, 3](T, T, F, T, T, T), b: bool[2, 2](T, T, T, F)}}";
    assert_eq!(show(&padded), expected);
    let left = PadSequence::default().side(PaddingSide::Left).value(-1.0).masks(["m", "n"]);
    let padded = TensorDict::pad_sequence(&sequences, &left).unwrap();
    assert_eq!(show_tensor(&padded.tensor("a").unwrap()), "int64[2, 3](-1, 0, 1, 0, 1, 2)");
    assert_eq!(show_tensor(&padded.tensor(["m", "n", "a"]).unwrap()), "bool[2, 3](F, T, T, T, T, T)");
    let back = padded.unpad_sequence(&left).unwrap();
    for (member, sequence) in back.members().iter().zip(&sequences) {
        assert_eq!(show(member), show(sequence));
    }
    let member = back.members()[1].tensor("a").unwrap();
    let whole = padded.tensor("a").unwrap();
    assert_eq!(member.data_ptr(), whole.get(1).data_ptr(), "views");

    // A batch dim: its size becomes the longest, values that are no tensors are padded with nulls.
    let named = |words: &[&str]| {
        let mut dict = batch(&vec![1; words.len()]);
        dict.set("s", NonTensorStack::new(Arc::new(StringArray::from(words.to_vec())))).unwrap();
        dict
    };
    let sequences = [named(&["x", "y"]), named(&["q", "r", "t"])];
    let options = PadSequence::default().masks("masks").value_of("a", 5.0);
    let padded = TensorDict::pad_sequence(&sequences, &options).unwrap();
    assert_eq!(padded.batch_size(), [2, 3]);
    let expected = "{a: int64[2, 3](1, 1, 5, 1, 1, 1), s: nts(\"x\", \"y\", null, \"q\", \"r\", \"t\"), \
                    masks: {a: bool[2, 3](T, T, F, T, T, T), s: bool[2, 3](T, T, F, T, T, T)}}";
    assert_eq!(show(&padded), expected);
    let back = padded.unpad_sequence(&options).unwrap();
    assert_eq!(back.batch_size(), [2, -1]);
    assert_eq!(show(&back.members()[0]), r#"{a: int64[2](1, 1), s: nts("x", "y")}"#);

    let no_masks = PadSequence::default();
    assert!(padded.unpad_sequence(&no_masks).unwrap_err().is_option());
    assert!(padded.unpad_sequence(&PadSequence::default().masks("other")).unwrap_err().is_key());
    assert!(TensorDict::pad_sequence(&[], &no_masks).unwrap_err().is_shape());
    let unknown = PadSequence::default().value_of("z", 1.0);
    assert!(TensorDict::pad_sequence(&sequences, &unknown).unwrap_err().is_key());
    for dim in [1, -2, i64::MAX, i64::MIN] {
        let error = TensorDict::pad_sequence(&sequences, &PadSequence::default().dim(dim)).unwrap_err();
        assert!(error.is_shape(), "{dim}: {error}");
    }
    let other = [filled(&[2, 3], 1, &[]), filled(&[1, 4], 1, &[])];
    let error = TensorDict::pad_sequence(&other, &no_masks).unwrap_err();
    says(&error, &["'a'", "[2, 3]", "[1, 4]"]);
    let scalars = [filled(&[], 1, &[]), filled(&[], 1, &[])];
    assert!(TensorDict::pad_sequence(&scalars, &no_masks).unwrap_err().is_shape());
    // The last dim of each.
    let wide = [filled(&[2, 3], 1, &[2]), filled(&[2, 1], 1, &[2])];
    let last = PadSequence::default().dim(-1).masks("m");
    let padded = TensorDict::pad_sequence(&wide, &last).unwrap();
    assert_eq!((padded.batch_size(), padded.tensor("a").unwrap().size()), (vec![2, 2], vec![2, 2, 3]));
    let mask = "bool[2, 2, 3](T, T, T, T, T, T, T, F, F, T, F, F)";
    assert_eq!(show_tensor(&padded.tensor(["m", "a"]).unwrap()), mask);
    assert_eq!(padded.unpad_sequence(&last).unwrap().members()[1].tensor("a").unwrap().size(), [2, 1]);
}

#[test]
fn jagged_entries_of_members_are_padded() {
    let rows = |rows: &[&[i64]]| {
        let rows: Vec<_> = rows.iter().map(|row| longs(row)).collect();
        let mut dict = TensorDict::new([rows.len() as i64]);
        dict.set("j", JaggedTensor::from_rows(&rows).unwrap()).unwrap();
        dict
    };
    let members = [rows(&[&[1, 2], &[3]]), rows(&[&[4], &[5, 6, 7]])];
    let right = Ragged::Padded { side: PaddingSide::Right, value: 0.into() };
    for (dim, expected) in [
        (0, "{j: int64[2, 2, 3](1, 2, 0, 3, 0, 0, 4, 0, 0, 5, 6, 7)}"),
        (1, "{j: int64[2, 2, 3](1, 2, 0, 4, 0, 0, 3, 0, 0, 5, 6, 7)}"),
    ] {
        let stack = TensorDict::lazy_stack(members.iter().map(TensorDict::shallow_clone), dim).unwrap();
        let padded = stack.get_padded("j", PaddingSide::Left, -1).unwrap().unwrap();
        assert_eq!(show_tensor(&padded), "int64[2, 2, 3](-1, 1, 2, -1, -1, 3, -1, -1, 4, 5, 6, 7)", "members first");
        let dense = stack.densify(right).unwrap();
        assert_eq!((dense.batch_size(), show(&dense).as_str()), (vec![2, 2], expected));
        for error in [stack.get("j").unwrap_err(), stack.densify(Ragged::Jagged).unwrap_err()] {
            says(&error, &["'j'", "one ragged dim", "get_padded", "get_list", "reshape"]);
        }
        says(&stack.get_jagged("j").unwrap_err(), &["'j'", "get_padded", "get_list"]);
        // Dense and lazy forms of such: not dense.
        let again = TensorDict::maybe_dense_stack(members.iter().map(TensorDict::shallow_clone), dim).unwrap();
        assert!(again.is_lazy());
        let error = TensorDict::stack(members.iter().map(TensorDict::shallow_clone), dim).unwrap_err();
        says(&error, &["'j'", "get_padded"]);
    }
    // Members of other batch sizes, one without the entry, one whose entry is dense.
    let mut plain = TensorDict::new([1]);
    plain.set("j", longs(&[8, 9]).view([1, 2])).unwrap();
    let stack = lazy([rows(&[&[1], &[2, 3]]), TensorDict::new([2]), plain]);
    let dense = stack.densify(right).unwrap();
    assert_eq!(show(&dense), "{j: int64[3, 2, 2](1, 0, 2, 3, 0, 0, 0, 0, 8, 9, 0, 0)}");
}

#[test]
fn values_of_members_of_other_sizes_become_lists_or_are_padded() {
    let words = |words: &[&str]| {
        let mut dict = batch(&vec![1; words.len()]);
        dict.set("s", NonTensorStack::new(Arc::new(StringArray::from(words.to_vec())))).unwrap();
        dict
    };
    let stack = lazy([words(&["x", "y"]), words(&[]), batch(&[1]), words(&["z"])]);
    let dense = stack.densify(Ragged::Jagged).unwrap();
    let expected = r#"{a: jag(int64[4](1, 1, 1, 1); 0, 2, 2, 3, 4), s: nts(["x", "y"], [], [null], ["z"])}"#;
    assert_eq!((dense.batch_size(), show(&dense).as_str()), (vec![4], expected));
    let left = Ragged::Padded { side: PaddingSide::Left, value: 0.into() };
    let stack = TensorDict::lazy_stack([words(&["x", "y"]), words(&["z"])], 1).unwrap();
    let dense = stack.densify(left).unwrap();
    let expected = r#"{a: int64[2, 2](1, 0, 1, 1), s: nts("x", null, "y", "z")}"#;
    assert_eq!((dense.batch_size(), show(&dense).as_str()), (vec![2, 2], expected));
    let error = TensorDict::lazy_stack([words(&["x"]), words(&[])], 1).unwrap();
    says(&error.exclude(["a"]).densify(Ragged::Jagged).unwrap_err(), &["'s'", "stack dim is 1", "Padded"]);
    // Lists lie within the batch dims that all share, nested where more than one is ragged.
    let grid = |sizes: &[i64]| {
        let count = sizes.iter().product::<i64>();
        let numbers = NonTensorStack::new(Arc::new(Int64Array::from_iter_values(0..count)));
        let mut dict = TensorDict::new([count]);
        dict.set("s", numbers).unwrap();
        dict.reshape(sizes).unwrap()
    };
    let dense = lazy([grid(&[2, 1]), grid(&[2, 2])]).densify(Ragged::Jagged).unwrap();
    assert_eq!((dense.batch_size(), show(&dense).as_str()), (vec![2, 2], "{s: nts([0], [1], [0, 1], [2, 3])}"));
    assert_eq!(dense.non_tensor("s").unwrap().batch_size(), [2, 2]);
    let dense = lazy([grid(&[2, 1]), grid(&[1, 2])]).densify(Ragged::Jagged).unwrap();
    assert_eq!((dense.batch_size(), show(&dense).as_str()), (vec![2], "{s: nts([[0], [1]], [[0, 1]])}"));
}
