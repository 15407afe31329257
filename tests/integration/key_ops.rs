//! Entries by key: choosing, renaming, taking out.

use std::sync::Arc;

use arrow::array::StringArray;
use tch::Tensor;
use tensorquery::{Entry, Error, JaggedTensor, LazyStackBuilder, NestedKey, NonTensorStack, TensorDict};

use crate::show::{show, show_entry};

pub(crate) fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

pub(crate) fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(values)
}

pub(crate) fn jagged(values: &[i64], offsets: &[i64]) -> JaggedTensor {
    JaggedTensor::try_new(longs(values), longs(offsets)).unwrap()
}

pub(crate) fn strings(values: &[&str]) -> NonTensorStack {
    NonTensorStack::new(Arc::new(StringArray::from(values.to_vec())))
}

/// A tensordict of these entries.
pub(crate) fn dict<const N: usize>(batch_size: &[i64], entries: [(&str, Entry); N]) -> TensorDict {
    let mut dict = TensorDict::new(batch_size);
    for (name, entry) in entries {
        dict.set(name, entry).unwrap();
    }
    dict
}

/// A tensor of `int64` under a name.
pub(crate) fn at<'a>(name: &'a str, values: &[i64]) -> (&'a str, Entry) {
    (name, longs(values).into())
}

pub(crate) fn lazy<const N: usize>(members: [TensorDict; N], dim: i64) -> TensorDict {
    TensorDict::lazy_stack(members, dim).unwrap()
}

/// Members as text, one by one: those of different keys and shapes can't be read stacked.
pub(crate) fn show_members(stack: &TensorDict) -> Vec<String> {
    stack.members().iter().map(show).collect()
}

/// Every kind of entry, two rows.
pub(crate) fn sample() -> TensorDict {
    let nested = dict(&[2], [at("y", &[3, 4]), ("t", strings(&["p", "q"]).into())]);
    let jagged = jagged(&[1, 2, 3], &[0, 2, 3]);
    dict(&[2], [at("x", &[1, 2]), ("j", jagged.into()), ("s", strings(&["a", "b"]).into()), ("n", nested.into())])
}

pub(crate) const SAMPLE: &str = r#"{x: int64[2](1, 2), j: jag(int64[3](1, 2, 3); 0, 2, 3), s: nts("a", "b"), n: {y: int64[2](3, 4), t: nts("p", "q")}}"#;

/// Two members of different lengths; the second has one entry more, and a nested dict in both.
pub(crate) fn ragged() -> TensorDict {
    let nested = |values: &[i64]| Entry::from(dict(&[], [at("y", values)]));
    let first = dict(&[], [at("a", &[1, 2]), ("n", nested(&[5]))]);
    let second = dict(&[], [at("a", &[3]), ("n", nested(&[6])), at("b", &[4])]);
    lazy([first, second], 0)
}

pub(crate) const RAGGED: [&str; 2] =
    ["{a: int64[2](1, 2), n: {y: int64[1](5)}}", "{a: int64[1](3), n: {y: int64[1](6)}, b: int64[1](4)}"];

pub(crate) fn is_key_error_at(error: &Error, key: impl Into<NestedKey>) -> bool {
    error.is_key() && error.nested_key() == Some(&key.into())
}

fn text(keys: &[NestedKey]) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn selecting_what_there_is() {
    let keys: [NestedKey; 4] = ["s".into(), "z".into(), ["n", "y"].into(), ["x", "z"].into()];
    let selected = sample().select_existing(keys);
    assert_eq!(show(&selected), r#"{s: nts("a", "b"), n: {y: int64[2](3, 4)}}"#);
    assert_eq!(show(&sample().select_existing([["n", "z"]])), "{}");

    assert!(is_key_error_at(&ragged().select(["a", "b"]).unwrap_err(), "b"));
    assert!(is_key_error_at(&sample().select([["n", "z"]]).unwrap_err(), ["n", "z"]));
    assert_eq!(show_members(&ragged().select(["a"]).unwrap()), ["{a: int64[2](1, 2)}", "{a: int64[1](3)}"]);
    let selected = ragged().select_existing(["b", "a"]);
    assert_eq!(show_members(&selected), ["{a: int64[2](1, 2)}", "{b: int64[1](4), a: int64[1](3)}"]);
    assert_eq!(show_members(&ragged().exclude(["a", "n"])), ["{}", "{b: int64[1](4)}"]);
    // In a nested stack, too.
    let outer = dict(&[2], [("l", ragged().into())]);
    let selected = outer.select_existing([["l", "b"]]);
    assert_eq!(show_members(&selected.dict("l").unwrap()), ["{}", "{b: int64[1](4)}"]);
    // What is selected is unlocked.
    assert!(!sample().locked().select(["x"]).unwrap().is_locked());
}

#[test]
fn splitting_keys() {
    let split = sample().split_keys([vec![NestedKey::from(["n", "y"]), "s".into()], vec!["x".into()]]).unwrap();
    let shown: Vec<_> = split.iter().map(show).collect();
    let rest = r#"{j: jag(int64[3](1, 2, 3); 0, 2, 3), n: {t: nts("p", "q")}}"#;
    assert_eq!(shown, [r#"{n: {y: int64[2](3, 4)}, s: nts("a", "b")}"#, "{x: int64[2](1, 2)}", rest]);
    assert_eq!(sample().split_keys(Vec::<Vec<&str>>::new()).unwrap().len(), 1);
    assert!(is_key_error_at(&sample().split_keys([vec!["x"], vec!["z"]]).unwrap_err(), "z"));
    assert!(is_key_error_at(&sample().split_keys([vec!["x"], vec!["x"]]).unwrap_err(), "x"));
    let below = [vec![NestedKey::from("n")], vec![["n", "y"].into()]];
    assert!(is_key_error_at(&sample().split_keys(below).unwrap_err(), ["n", "y"]));
    let split = ragged().split_keys([["a"]]).unwrap();
    assert_eq!(show_members(&split[1]), ["{n: {y: int64[1](5)}}", "{n: {y: int64[1](6)}, b: int64[1](4)}"]);
    assert!(ragged().split_keys([["b"]]).unwrap_err().is_key());
}

#[test]
fn flattening_keys() {
    let mut sample = sample();
    sample.create_nested("empty").unwrap();
    let flat = sample.flatten_keys(".").unwrap();
    assert_eq!(flat.keys().collect::<Vec<_>>(), ["x", "j", "s", "n.y", "n.t"]);
    assert_eq!(flat.tensor("n.y").unwrap().data_ptr(), sample.tensor(["n", "y"]).unwrap().data_ptr());
    let nested = flat.unflatten_keys(".").unwrap();
    assert_eq!(show(&nested), SAMPLE);
    assert_eq!(sample.flatten_keys("").unwrap().keys().nth(3).unwrap(), "ny");

    let mut taken = dict(&[2], [at("n.y", &[1, 2])]);
    taken.set(["n", "y"], longs(&[3, 4])).unwrap();
    let error = taken.flatten_keys(".").unwrap_err();
    assert!(is_key_error_at(&error, ["n", "y"]) && error.to_string().contains("'n.y'"), "{error}");
    assert!(taken.flatten_keys("_").is_ok());

    let odd = dict(&[1], [at(".a", &[1]), at("b..c", &[2]), at("d.", &[3])]).unflatten_keys(".").unwrap();
    assert_eq!(text(&odd.leaf_keys()), "('', 'a') ('b', '', 'c') ('d', '')", "names between separators may be empty");
    for entries in
        [[at("a", &[1]), at("a.b", &[2])], [at("a.b", &[2]), at("a", &[1])], [at("a.b", &[1]), at("a.b.c", &[2])]]
    {
        let clash = dict(&[1], entries).unflatten_keys(".").unwrap_err();
        assert!(clash.is_key(), "{clash}");
    }
    let error = taken.unflatten_keys(".").unwrap_err();
    assert!(is_key_error_at(&error, "n.y"), "{error}");
    assert!(taken.unflatten_keys("").unwrap_err().is_option());
    // A dict that is there takes in what comes.
    let mut joined = dict(&[1], [at("a.b", &[1])]);
    joined.set(["a", "c"], longs(&[2])).unwrap();
    assert_eq!(show(&joined.unflatten_keys(".").unwrap()), "{a: {c: int64[1](2), b: int64[1](1)}}");
    assert_eq!(show(&joined), "{a.b: int64[1](1), a: {c: int64[1](2)}}", "the original is as it was");
}

#[test]
fn flattening_keys_of_stacks() {
    for (error, key) in
        [(ragged().flatten_keys(".").unwrap_err(), "b"), (ragged().unflatten_keys(".").unwrap_err(), "b")]
    {
        assert!(is_key_error_at(&error, key), "{error}");
    }
    let same = ragged().exclude(["b"]);
    let flat = same.flatten_keys("/").unwrap();
    assert!(flat.is_lazy());
    let shown = ["{a: int64[2](1, 2), n/y: int64[1](5)}", "{a: int64[1](3), n/y: int64[1](6)}"];
    assert_eq!(show_members(&flat), shown);
    assert_eq!(show_members(&flat.unflatten_keys("/").unwrap()), show_members(&same));
    // A nested stack is read, and so must be stackable.
    let outer = |stack: TensorDict| dict(&[2], [("l", stack.into())]);
    let error = outer(ragged()).flatten_keys(".").unwrap_err();
    assert!(is_key_error_at(&error, ["l", "b"]), "{error}");
    let error = outer(same.shallow_clone()).flatten_keys(".").unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&["l", "a"].into()), "{error}");
    let read = outer(same.exclude(["a"])).flatten_keys(".").unwrap();
    assert_eq!(show(&read), "{l.n.y: int64[2, 1](5, 6)}");
}

#[test]
fn renaming() {
    let mut sample = sample();
    sample.rename_key("x", "z", true).unwrap();
    sample.rename_key(["n", "y"], ["n", "w"], true).unwrap();
    sample.rename_key("s", ["m", "s"], true).unwrap();
    assert_eq!(text(&sample.leaf_keys()), "'j' ('n', 't') ('n', 'w') 'z' ('m', 's')");
    sample.rename_key(["n", "w"], "n", false).unwrap();
    let shown = r#"{j: jag(int64[3](1, 2, 3); 0, 2, 3), z: int64[2](1, 2), m: {s: nts("a", "b")}, n: int64[2](3, 4)}"#;
    assert_eq!(show(&sample), shown);
    sample.rename_key("z", "z", true).unwrap();
    for (old, new, safe) in [
        (vec!["q"], vec!["r"], false),
        (vec!["q"], vec!["q"], false),
        (vec!["z"], vec!["n"], true),
        (vec!["m"], vec!["m", "deep"], false),
        (vec!["z"], vec!["n", "below"], false),
        (vec!["z"], vec![], false),
        (vec![], vec!["z"], false),
        (vec!["m", "q"], vec!["m", "r"], false),
    ] {
        let error = sample.rename_key(old.as_slice(), new.as_slice(), safe).unwrap_err();
        assert!(error.is_key(), "{old:?} {new:?}: {error}");
        assert_eq!(show(&sample), shown, "{old:?} {new:?}");
    }
    sample.rename_key("z", "n", false).unwrap();
    assert_eq!(show_entry(&sample.entry("n").unwrap()), "int64[2](1, 2)");

    // It may not fit in a dict of more dims.
    let mut wide = dict(&[2], [at("x", &[1, 2]), ("w", TensorDict::new([2, 3]).into())]);
    assert!(wide.rename_key("x", ["w", "x"], true).unwrap_err().is_shape());
    assert!(wide.contains_key("x"));
    wide.lock();
    assert!(wide.rename_key("x", "y", true).unwrap_err().is_lock());
}

#[test]
fn renaming_in_stacks() {
    let mut stack = ragged();
    let error = stack.rename_key("b", "c", false).unwrap_err();
    assert!(is_key_error_at(&error, "b"), "{error}");
    let error = stack.rename_key("a", "b", true).unwrap_err();
    assert!(is_key_error_at(&error, "b"), "{error}");
    assert_eq!(show_members(&stack), RAGGED);
    stack.rename_key("a", "b", false).unwrap();
    assert_eq!(
        show_members(&stack),
        ["{n: {y: int64[1](5)}, b: int64[2](1, 2)}", "{n: {y: int64[1](6)}, b: int64[1](3)}"]
    );
    // Within a nested stack whose entries can't be stacked.
    let mut outer = dict(&[2], [("l", ragged().into())]);
    outer.rename_key(["l", "a"], ["l", "c"], true).unwrap();
    assert_eq!(outer.item_shape(["l", "c"]).unwrap(), [2, -1]);
    assert!(outer.rename_key(["l", "c"], "c", true).unwrap_err().is_shape());
    assert!(is_key_error_at(&outer.rename_key(["l", "b"], ["l", "d"], true).unwrap_err(), ["l", "b"]));
}

#[test]
fn taking_out() {
    let mut sample = sample();
    assert_eq!(show_entry(&sample.remove_or("x", longs(&[0])).unwrap()), "int64[2](1, 2)");
    assert_eq!(show_entry(&sample.remove_or("x", longs(&[0])).unwrap()), "int64[1](0)");
    sample.delete(["n", "t"]).unwrap();
    assert!(is_key_error_at(&sample.delete(["n", "t"]).unwrap_err(), ["n", "t"]));
    let (name, entry) = sample.pop_item().unwrap();
    assert_eq!((name.as_str(), show_entry(&entry).as_str()), ("n", "{y: int64[2](3, 4)}"));
    assert_eq!(sample.keys().collect::<Vec<_>>(), ["j", "s"]);
    sample.lock();
    for error in [
        sample.delete("j").unwrap_err(),
        sample.pop_item().unwrap_err(),
        sample.clear().unwrap_err(),
        sample.remove_or("j", longs(&[0])).unwrap_err(),
        sample.setdefault("k", longs(&[0, 0])).unwrap_err(),
        sample.create_nested("k").unwrap_err(),
    ] {
        assert!(error.is_lock(), "{error}");
    }
    sample.unlock().unwrap();
    sample.clear().unwrap();
    assert_eq!((show(&sample).as_str(), sample.batch_size()), ("{}", vec![2]));
    assert!(sample.pop_item().unwrap_err().is_key());

    let mut stack = ragged();
    // What can't be read stacked can't be taken out so, but deleted.
    assert!(stack.remove_or("a", longs(&[0])).unwrap_err().is_shape());
    assert_eq!(show_entry(&stack.remove_or("b", longs(&[0])).unwrap()), "int64[1](0)");
    assert_eq!(show_members(&stack), RAGGED);
    stack.delete("a").unwrap();
    stack.delete("b").unwrap();
    assert!(stack.delete("b").unwrap_err().is_key());
    assert_eq!(stack.pop_item().unwrap().0, "n");
    assert_eq!(show_members(&stack), ["{}", "{}"]);
    let mut stack = lazy([sample.shallow_clone(), dict(&[2], [at("x", &[1, 2])]).locked()], 0);
    assert!(stack.clear().unwrap_err().is_lock(), "a member is locked");
    assert_eq!(stack.members()[1].len(), 1);
}

#[test]
fn putting_in_what_is_missing() {
    let mut sample = sample();
    assert_eq!(show_entry(&sample.setdefault("x", longs(&[0])).unwrap()), "int64[2](1, 2)");
    assert_eq!(show_entry(&sample.setdefault(["n", "z"], longs(&[7, 8])).unwrap()), "int64[2](7, 8)");
    assert!(sample.setdefault("q", longs(&[0])).unwrap_err().is_shape());
    assert!(!sample.contains_key("q"));
    let mut stack = ragged();
    assert_eq!(show_entry(&stack.setdefault("b", longs(&[8, 9])).unwrap()), "int64[2](8, 9)");
    assert!(stack.setdefault("a", longs(&[8, 9])).unwrap_err().is_shape(), "it is there, but not to be stacked");

    stack.create_nested("new").unwrap();
    stack.create_nested(["n", "new"]).unwrap();
    assert_eq!(stack.dict(["n", "new"]).unwrap().batch_size(), [2]);
    let mut wide = dict(&[2], [("w", TensorDict::new([2, 3]).into())]);
    wide.create_nested(["w", "new"]).unwrap();
    wide.create_nested(["p", "q"]).unwrap();
    assert_eq!(wide.dict(["w", "new"]).unwrap().batch_size(), [2, 3]);
    assert_eq!(wide.dict(["p", "q"]).unwrap().batch_size(), [2]);
    assert!(wide.create_nested(Vec::<String>::new()).unwrap_err().is_key());
    assert!(wide.is_empty() && wide.len() == 2, "dicts without leaves are empty");
    let uneven = lazy([TensorDict::new([3]), TensorDict::new([5])], 0);
    let mut outer = lazy([uneven.shallow_clone(), uneven], 0);
    outer.create_nested("new").unwrap();
    assert_eq!(outer.dict("new").unwrap().batch_size(), [2, 2, -1]);
}

#[test]
fn keys_in_order() {
    let sample = sample();
    assert_eq!(text(&sample.nested_keys()), "'x' 'j' 's' ('n', 'y') ('n', 't') 'n'");
    assert_eq!(sample.sorted_keys(), ["j", "n", "s", "x"]);
    let outer = dict(&[2], [("l", ragged().into()), at("k", &[1, 2])]);
    assert_eq!(text(&outer.nested_keys()), "('l', 'a') ('l', 'n', 'y') ('l', 'n') 'l' 'k'");
    assert_eq!(text(&ragged().nested_keys()), "'a' ('n', 'y') 'n'");
    let none = LazyStackBuilder::new([]).build().unwrap();
    assert_eq!((none.nested_keys().len(), none.sorted_keys().len()), (0, 0));
    assert_eq!(none.non_tensor_items(true).unwrap().len(), 0);

    let items = |dict: &TensorDict, nested| -> Vec<String> {
        let items = dict.non_tensor_items(nested).unwrap().into_iter();
        items.map(|(key, values)| format!("{key} {}", show_entry(&values.into()))).collect()
    };
    assert_eq!(items(&sample, false), [r#"'s' nts("a", "b")"#]);
    assert_eq!(items(&sample, true), [r#"'s' nts("a", "b")"#, r#"('n', 't') nts("p", "q")"#]);
    let members = || sample.unbind(0).unwrap();
    let mut stack = TensorDict::lazy_stack(members(), 0).unwrap();
    assert_eq!(items(&stack, true), items(&sample, true), "though j can't be read");
    stack.edit_member(0, |member| member.delete("s")).unwrap();
    assert_eq!(items(&stack, false), [] as [String; 0]);

    assert_eq!(
        show(&sample.filter_non_tensor()),
        "{x: int64[2](1, 2), j: jag(int64[3](1, 2, 3); 0, 2, 3), n: {y: int64[2](3, 4)}}"
    );
    let filtered = stack.filter_non_tensor();
    assert_eq!(show_members(&filtered)[1], "{x: int64[](2), j: int64[1](3), n: {y: int64[](4)}}");
    let mut hollow = sample.select(["x"]).unwrap();
    hollow.create_nested(["e", "f"]).unwrap();
    hollow.set(["g", "h"], longs(&[1, 2])).unwrap();
    hollow.create_nested(["g", "i"]).unwrap();
    assert_eq!(show(&hollow.filter_empty()), "{x: int64[2](1, 2), g: {h: int64[2](1, 2)}}");
    let half = lazy([dict(&[], [("e", TensorDict::new([]).into())]), dict(&[], [])], 0);
    assert_eq!(show_members(&half.filter_empty()), ["{}", "{}"]);
}

#[test]
fn keys_that_some_members_have() {
    let stack = || lazy([dict(&[], [at("a", &[1])]), dict(&[], [at("a", &[2]), at("b", &[3])])], 0);
    let mut whole = stack();
    assert_eq!(whole.keys().collect::<Vec<_>>(), ["a"]);
    assert!(whole.get("b").unwrap().is_none() && whole.entry("b").unwrap_err().is_key());
    assert_eq!(show_entry(&whole.members()[1].entry("b").unwrap()), "int64[1](3)");
    whole.set("b", Tensor::from_slice(&[0i64; 20]).reshape([2, 10])).unwrap();
    assert_eq!(whole.item_shape("b").unwrap(), [2, 10]);
    assert!(whole.members().iter().all(|member| member.contains_key("b")));

    // One member's own entry, by a list as in Python: each takes its piece.
    let mut pieces = lazy([TensorDict::new([]), TensorDict::new([])], 0);
    for (place, piece) in [longs(&[1, 1]), longs(&[0])].into_iter().enumerate() {
        pieces.edit_member(place as i64, |member| member.set("a", piece)).unwrap();
    }
    assert_eq!(show_entry(&pieces.members()[1].entry("a").unwrap()), "int64[1](0)");

    // What is appended brings its keys.
    let mut grown = stack().exclude(["b"]);
    grown.append(dict(&[], [at("a", &[5]), at("c", &[6])])).unwrap();
    assert_eq!((grown.batch_size(), grown.sorted_keys()), (vec![3], vec!["a".to_owned()]));
    let (front, back) = (dict(&[], [at("a", &[900])]), dict(&[], [at("a", &[7])]));
    grown.insert(-100, front).unwrap();
    grown.insert(100, back).unwrap();
    assert_eq!(show_entry(&grown.entry("a").unwrap()), "int64[5, 1](900, 1, 2, 5, 7)");
}
