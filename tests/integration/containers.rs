//! Tensordicts, jagged tensors and non-tensor values by hand.

use std::sync::Arc;

use arrow::array::{Array, Int64Array, StringArray};
use tch::{Device, Kind, Tensor};
use tensorquery::{Entry, Index, JaggedTensor, LazyStackBuilder, NestedKey, NonTensorStack, TensorDict, Value};

use crate::show::{show, show_entry, show_jagged, show_tensor};

fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

fn jagged(values: &[i64], offsets: &[i64]) -> JaggedTensor {
    JaggedTensor::try_new(longs(values), longs(offsets)).unwrap()
}

fn strings(values: &[&str]) -> NonTensorStack {
    NonTensorStack::new(Arc::new(StringArray::from(values.to_vec())))
}

/// Every kind of entry, three rows.
fn sample() -> TensorDict {
    let mut dict = TensorDict::new([3]);
    dict.set("x", longs(&[1, 2, 3])).unwrap();
    dict.set("j", jagged(&[1, 2, 3], &[0, 2, 2, 3])).unwrap();
    dict.set("s", strings(&["a", "b", "c"])).unwrap();
    dict.set(["n", "y"], longs(&[4, 5, 6]).reshape([3, 1])).unwrap();
    dict
}

const SAMPLE: &str = r#"{x: int64[3](1, 2, 3), j: jag(int64[3](1, 2, 3); 0, 2, 2, 3), s: nts("a", "b", "c"), n: {y: int64[3, 1](4, 5, 6)}}"#;

#[test]
fn entries_are_found_by_kind() {
    let dict = sample();
    assert_eq!(show(&dict), SAMPLE);
    assert_eq!((dict.len(), dict.is_empty()), (4, false));
    let leaves: Vec<_> = dict.leaves().unwrap().iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(leaves, ["'x'", "'j'", "'s'", "('n', 'y')"]);
    let kinds: Vec<_> = dict.items().unwrap().iter().map(|(_, entry)| (entry.kind(), entry.shape())).collect();
    let expected = [("tensor", vec![3]), ("jagged", vec![3, -1]), ("non_tensor", vec![3]), ("dict", vec![3])];
    assert_eq!(kinds, expected);
    let absent: [NestedKey; 4] = ["z".into(), ["x", "y"].into(), ["n", "z"].into(), Vec::<String>::new().into()];
    assert!(absent.iter().all(|key| dict.get(key).unwrap().is_none()));
    let error = dict.tensor("z").unwrap_err();
    assert_eq!(error.to_string(), "'z': there is no such entry; the keys are 'x', 'j', 's', 'n'");
    assert!(error.is_key());
    let error = dict.tensor("j").unwrap_err();
    assert_eq!(error.to_string(), "'j': the entry is of kind jagged, not tensor");
    for error in [dict.jagged("x").unwrap_err(), dict.non_tensor("x").unwrap_err(), dict.dict("x").unwrap_err()] {
        assert!(error.is_key() && error.nested_key() == Some(&"x".into()), "{error}");
    }
}

#[test]
fn dots_split_nothing() {
    let mut dict = TensorDict::new([1]);
    dict.set("a.b", longs(&[1])).unwrap();
    dict.set(["a", "b"], longs(&[2])).unwrap();
    dict.set("", longs(&[3])).unwrap();
    assert_eq!(show(&dict), "{a.b: int64[1](1), a: {b: int64[1](2)}, : int64[1](3)}");
    assert_eq!(dict.tensor("a.b").unwrap().int64_value(&[0]), 1);
    assert_eq!(dict.tensor(["a", "b"]).unwrap().int64_value(&[0]), 2);
    assert_ne!(NestedKey::from("a.b"), NestedKey::from(["a", "b"]));
}

#[test]
fn replacing_keeps_the_place() {
    let mut dict = sample();
    dict.set("x", longs(&[7, 8, 9])).unwrap();
    dict.set(["n", "z"], longs(&[1, 1, 1])).unwrap();
    assert_eq!(dict.keys().collect::<Vec<_>>(), ["x", "j", "s", "n"]);
    assert_eq!(show_entry(&dict.entry("x").unwrap()), "int64[3](7, 8, 9)");
    assert_eq!(show_entry(&dict.entry("n").unwrap()), "{y: int64[3, 1](4, 5, 6), z: int64[3](1, 1, 1)}");
}

#[test]
fn what_does_not_fit_leaves_the_dict_as_it_was() {
    let mut dict = sample();
    let mut small = TensorDict::new([2]);
    small.set("w", longs(&[1, 2])).unwrap();
    let mut scalar = TensorDict::new([]);
    scalar.set("w", longs(&[1, 2])).unwrap();
    let shapes: Vec<(NestedKey, Entry)> = vec![
        ("x".into(), longs(&[1, 2]).into()),
        ("new".into(), longs(&[1]).get(0).into()),
        ("j".into(), jagged(&[1], &[0, 1]).into()),
        ("s".into(), strings(&["a"]).into()),
        ("n".into(), small.into()),
        // A dict with fewer batch dims takes ours, if its entries have them.
        ("n".into(), scalar.into()),
        (["n", "y"].into(), longs(&[1, 2]).into()),
        (["new", "deep", "y"].into(), longs(&[1, 2]).into()),
    ];
    for (key, entry) in shapes {
        let error = dict.set(&key, entry).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("batch dimension mismatch"), "{error}");
        assert_eq!(show(&dict), SAMPLE, "{key}");
    }
    for key in [vec![], vec!["x", "below"], vec!["j", "below", "more"], vec!["n", "y", "below"]] {
        let error = dict.set(key.as_slice(), longs(&[1, 2, 3])).unwrap_err();
        assert!(error.is_key(), "{error}");
        assert_eq!(show(&dict), SAMPLE, "{key:?}");
    }
    let error = dict.set("x", longs(&[1, 2])).unwrap_err();
    let text = "'x': batch dimension mismatch: the entry has shape [2], the batch size is [3]";
    assert_eq!(error.to_string(), text);
}

#[test]
fn nested_dicts_share_the_leading_dims() {
    let mut dict = TensorDict::new([2]);
    let mut wide = TensorDict::new([2, 3]);
    wide.set("y", Tensor::zeros([2, 3, 4], (Kind::Float, Device::Cpu))).unwrap();
    dict.set("wide", wide).unwrap();
    let mut bare = TensorDict::new([]);
    bare.set("y", longs(&[1, 2])).unwrap();
    dict.set("bare", bare).unwrap();
    assert_eq!(dict.dict("wide").unwrap().batch_size(), [2, 3]);
    assert_eq!(dict.dict("bare").unwrap().batch_size(), [2]);
    // The nested dict's own batch size counts for what is put below it.
    assert!(dict.set(["wide", "z"], longs(&[1, 2])).unwrap_err().is_shape());
    let row = dict.index(1).unwrap();
    assert_eq!(row.dict("wide").unwrap().batch_size(), [3]);
    assert_eq!(dict.select([["wide", "y"]]).unwrap().dict("wide").unwrap().batch_size(), [2, 3]);

    // A ragged dim is no batch dim.
    let mut two = TensorDict::new([2, 2]);
    assert!(two.set("j", jagged(&[1, 2, 3, 4], &[0, 2, 4])).unwrap_err().is_shape());
    assert!(TensorDict::new([2, -1]).set("j", jagged(&[1, 2, 3, 4], &[0, 2, 4])).unwrap_err().is_shape());
}

#[test]
fn removing_selecting_excluding() {
    let mut dict = sample();
    assert_eq!(show_entry(&dict.remove("x").unwrap()), "int64[3](1, 2, 3)");
    assert_eq!(dict.keys().collect::<Vec<_>>(), ["j", "s", "n"]);
    dict.remove(["n", "y"]).unwrap();
    assert!(dict.dict("n").unwrap().is_empty());
    for key in [vec!["x"], vec!["n", "y"], vec!["j", "y"], vec![]] {
        assert!(dict.remove(key.as_slice()).unwrap_err().is_key(), "{key:?}");
    }

    let dict = sample();
    let selected = dict.select(["s", "x"]).unwrap();
    assert_eq!(show(&selected), r#"{s: nts("a", "b", "c"), x: int64[3](1, 2, 3)}"#);
    assert_eq!(selected.tensor("x").unwrap().data_ptr(), dict.tensor("x").unwrap().data_ptr());
    assert_eq!(show(&dict.select([["n", "y"]]).unwrap()), "{n: {y: int64[3, 1](4, 5, 6)}}");
    assert!(dict.select(["x", "z"]).unwrap_err().is_key());
    assert!(dict.select([["x", "z"]]).unwrap_err().is_key());

    let keys: [NestedKey; 4] = ["x".into(), ["n", "y"].into(), "z".into(), ["j", "z"].into()];
    let rest = dict.exclude(keys);
    assert_eq!(show(&rest), r#"{j: jag(int64[3](1, 2, 3); 0, 2, 2, 3), s: nts("a", "b", "c"), n: {}}"#);
    assert_eq!(show(&dict), SAMPLE);
}

#[test]
fn one_row() {
    let dict = sample();
    for (row, expected) in [
        (0, r#"{x: int64[](1), j: int64[2](1, 2), s: nts("a"), n: {y: int64[1](4)}}"#),
        (1, r#"{x: int64[](2), j: int64[0](), s: nts("b"), n: {y: int64[1](5)}}"#),
        (-1, r#"{x: int64[](3), j: int64[1](3), s: nts("c"), n: {y: int64[1](6)}}"#),
        (-3, r#"{x: int64[](1), j: int64[2](1, 2), s: nts("a"), n: {y: int64[1](4)}}"#),
    ] {
        let row = dict.index(row).unwrap();
        assert_eq!(show(&row), expected);
        assert_eq!(row.batch_size(), [0i64; 0]);
        assert_eq!(row.non_tensor("s").unwrap().batch_size(), [0i64; 0]);
    }
    for row in [3, -4, i64::MAX, i64::MIN] {
        let error = dict.index(row).unwrap_err();
        assert!(error.is_index(), "{error}");
        assert_eq!(error.to_string(), format!("row {row} is out of bounds for a batch of 3 (dim 0)"));
    }
    assert!(dict.index(0).unwrap().index(0).unwrap_err().is_index());
    assert!(TensorDict::new([0]).index(0).unwrap_err().is_index());
}

/// A dict of `size` rows, and its rows as text, one by one.
fn rows(size: i64) -> (TensorDict, Vec<String>) {
    let mut dict = TensorDict::new([size]);
    let numbers: Vec<i64> = (0..size).collect();
    let offsets: Vec<i64> = (0..=size).map(|row| row * (row - 1) / 2).collect();
    let values: Vec<i64> = (0..size).flat_map(|row| vec![row; row as usize]).collect();
    dict.set("x", longs(&numbers)).unwrap();
    dict.set("j", jagged(&values, &offsets)).unwrap();
    dict.set("s", NonTensorStack::new(Arc::new(Int64Array::from(numbers)))).unwrap();
    dict.set(["n", "x"], longs(&(0..size).rev().collect::<Vec<_>>())).unwrap();
    let texts = (0..size).map(|row| show(&dict.index(row).unwrap())).collect();
    (dict, texts)
}

fn texts(dict: &TensorDict) -> Vec<String> {
    (0..dict.batch_size()[0]).map(|row| show(&dict.index(row).unwrap())).collect()
}

/// Python's rule for slices, written out.
fn python_slice(size: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<usize> {
    let from_end = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
    let mut at = match start {
        None if step > 0 => 0,
        None => size - 1,
        Some(start) => from_end(start).clamp(if step > 0 { 0 } else { -1 }, if step > 0 { size } else { size - 1 }),
    };
    let stop = match stop {
        None if step > 0 => size,
        None => -1,
        Some(stop) => from_end(stop).clamp(if step > 0 { 0 } else { -1 }, if step > 0 { size } else { size - 1 }),
    };
    let mut rows = Vec::new();
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        rows.push(at as usize);
        at = at.saturating_add(step);
    }
    rows
}

#[test]
fn slices_agree_with_python() {
    let bounds =
        [None, Some(0), Some(1), Some(3), Some(9), Some(-1), Some(-2), Some(-9), Some(i64::MIN), Some(i64::MAX)];
    for size in [0, 1, 4] {
        let (dict, all) = rows(size);
        for (start, stop, step) in
            bounds.iter().flat_map(|start| bounds.iter().map(move |stop| (start, stop))).flat_map(|(start, stop)| {
                [1, 2, 3, 9, i64::MAX, -1, -2, -9, i64::MIN].map(move |step| (*start, *stop, step))
            })
        {
            let sliced = dict.index(Index::Slice { start, stop, step }).unwrap();
            let expected: Vec<_> =
                python_slice(size, start, stop, step).into_iter().map(|row| all[row].clone()).collect();
            assert_eq!(sliced.batch_size(), [expected.len() as i64], "{size}: {start:?}:{stop:?}:{step}");
            assert_eq!(texts(&sliced), expected, "{size}: {start:?}:{stop:?}:{step}");
        }
        assert!(dict.index(Index::Slice { start: None, stop: None, step: 0 }).unwrap_err().is_index());
    }
}

#[test]
fn ranges_lists_and_masks() {
    let (dict, all) = rows(4);
    let pick = |rows: &[usize]| rows.iter().map(|row| all[*row].clone()).collect::<Vec<_>>();
    assert_eq!(texts(&dict.index(1..3).unwrap()), pick(&[1, 2]));
    assert_eq!(texts(&dict.index(-2..).unwrap()), pick(&[2, 3]));
    assert_eq!(texts(&dict.index(..-1).unwrap()), pick(&[0, 1, 2]));
    assert_eq!(texts(&dict.index(..).unwrap()), all);
    assert_eq!(texts(&dict.index(Index::Slice { start: Some(3), stop: Some(1), step: 1 }).unwrap()), pick(&[]));
    assert_eq!(texts(&dict.index(vec![3i64, -4, 3, 1]).unwrap()), pick(&[3, 0, 3, 1]));
    assert_eq!(texts(&dict.index(Vec::<i64>::new()).unwrap()), pick(&[]));
    assert_eq!(texts(&dict.index(vec![false, true, false, true]).unwrap()), pick(&[1, 3]));
    assert_eq!(texts(&dict.index(vec![false; 4]).unwrap()), pick(&[]));
    assert!(dict.index(vec![0i64, 4]).unwrap_err().is_index());
    let error = dict.index(vec![true; 3]).unwrap_err();
    assert!(error.is_index() && error.to_string() == "a mask of 3 can't index a batch of 4 (dim 0)", "{error}");

    // Slices share storage, lists don't.
    let tail = dict.index(2..).unwrap();
    let _ = tail.tensor("x").unwrap().shallow_clone().f_fill_(9).unwrap();
    let picked = dict.index(vec![0i64]).unwrap();
    let _ = picked.tensor("x").unwrap().shallow_clone().f_fill_(9).unwrap();
    assert_eq!(show_entry(&dict.entry("x").unwrap()), "int64[4](0, 1, 9, 9)");
}

#[test]
fn jagged_rows() {
    let (dict, _) = rows(4);
    let jagged = dict.jagged("j").unwrap();
    assert_eq!(show_jagged(&jagged), "jag(int64[6](1, 2, 2, 3, 3, 3); 0, 0, 1, 3, 6)");
    assert_eq!((jagged.num_rows(), jagged.shape()), (4, vec![4, -1]));
    assert_eq!(show_tensor(&jagged.lengths().unwrap()), "int64[4](0, 1, 2, 3)");
    assert_eq!(show_tensor(&jagged.row(-2).unwrap()), "int64[2](2, 2)");
    for row in [4, -5, i64::MIN, i64::MAX] {
        assert!(jagged.row(row).unwrap_err().is_index(), "{row}");
    }
    let sliced = dict.index(2..4).unwrap();
    assert_eq!(show_jagged(&sliced.jagged("j").unwrap()), "jag(int64[5](2, 2, 3, 3, 3); 0, 2, 5)");
    let picked = dict.index(vec![3i64, 0, 1]).unwrap();
    assert_eq!(show_jagged(&picked.jagged("j").unwrap()), "jag(int64[4](3, 3, 3, 1); 0, 3, 3, 4)");
    let trailing = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]).reshape([2, 2]);
    let trailing = JaggedTensor::try_new(trailing, longs(&[0, 0, 2])).unwrap();
    assert_eq!(trailing.shape(), [2, -1, 2]);
    assert_eq!(show_tensor(&trailing.row(1).unwrap()), "float32[2, 2](1, 2, 3, 4)");
}

#[test]
fn offsets_must_fit() {
    let refused = |values: Tensor, offsets: Tensor, text: &str| {
        let error = JaggedTensor::try_new(values, offsets).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains(text), "{error}");
    };
    let three = || longs(&[1, 2, 3]);
    refused(three(), longs(&[]), "at least one number");
    for kind in [Kind::Float, Kind::Bool, Kind::ComplexFloat] {
        refused(three(), longs(&[0, 1]).to_kind(kind), "must be integers");
    }
    for kind in [Kind::Uint8, Kind::Int8, Kind::Int16, Kind::Int] {
        let offsets = longs(&[0, 2, 2, 3]).to_kind(kind);
        let jagged = JaggedTensor::try_new(three(), offsets.shallow_clone()).unwrap();
        assert_eq!(show_jagged(&jagged), "jag(int64[3](1, 2, 3); 0, 2, 2, 3)");
        assert_eq!((jagged.offsets().kind(), offsets.kind()), (Kind::Int64, kind), "widened, not changed");
        refused(three(), longs(&[0, 2, 1, 3]).to_kind(kind), "fall from 2 to 1");
        refused(three(), longs(&[1, 3]).to_kind(kind), "start at 1");
        refused(three(), longs(&[0, 4]).to_kind(kind), "end at 4");
    }
    refused(three(), longs(&[0, -1, 3]).to_kind(Kind::Int16), "fall from 0 to -1");
    refused(three(), longs(&[0, 3]).reshape([1, 2]), "of one dim");
    refused(three(), longs(&[1, 3]), "start at 1");
    refused(three(), longs(&[-1, 3]), "start at -1");
    refused(three(), longs(&[0, 2, 1, 3]), "fall from 2 to 1");
    refused(three(), longs(&[0, 2]), "end at 2, but there are 3 values");
    refused(three(), longs(&[0, 4]), "end at 4, but there are 3 values");
    refused(longs(&[1]).get(0), longs(&[0, 1]), "no dims");
    refused(three(), longs(&[0]), "end at 0, but there are 3 values");
    assert_eq!(jagged(&[], &[0]).num_rows(), 0);
}

#[test]
fn non_tensor_values() {
    let stack = strings(&["a", "b"]);
    assert_eq!(stack.value(1).unwrap(), Value::Text("b".to_owned()));
    let error = stack.value(2).unwrap_err();
    assert!(error.is_index() && error.to_string() == "value 2 is out of bounds for 2", "{error}");
    assert_eq!((stack.batch_size(), stack.values().len()), ([2i64].as_slice(), 2));
}

#[test]
fn devices() {
    let dict = sample();
    assert_eq!(dict.device(), None);
    let moved = dict.to(Device::Cpu).unwrap();
    assert_eq!((moved.device(), moved.dict("n").unwrap().device()), (Some(Device::Cpu), Some(Device::Cpu)));
    assert_eq!(show(&moved), SAMPLE);

    // One more than there are, so that the test holds on machines with CUDA, too.
    let absent = Device::Cuda(usize::try_from(tch::Cuda::device_count()).unwrap());
    let error = dict.to(absent).unwrap_err();
    assert!(error.is_device() && error.to_string().contains("is not there"), "{error}");
    assert!(error.to_string().ends_with("; use device cpu"), "{error}");
    let mut labelled = TensorDict::on_device([1], absent);
    let error = labelled.set("x", longs(&[1])).unwrap_err();
    assert!(error.is_device() && labelled.is_empty(), "{error}");
    assert!(dict.to(Device::Mps).unwrap_err().is_device());
}

#[test]
fn display() {
    let mut dict = sample();
    dict.set("f", Tensor::from_slice(&[0.1f32, f32::NAN, f32::INFINITY])).unwrap();
    dict.set("two words", Tensor::from_slice(&[true, false, true])).unwrap();
    let plain = "\
TensorDict  batch_size=[3]  device=none
  x            tensor      int64    [3]     cpu
  j            jagged      int64    [3, *]  cpu
  s            non_tensor  Utf8     [3]
  n            dict                 [3]
    y          tensor      int64    [3, 1]  cpu
  f            tensor      float32  [3]     cpu
  \"two words\"  tensor      bool     [3]     cpu";
    assert_eq!(dict.to_string(), plain);
    let values = "\
TensorDict  batch_size=[3]  device=none
  x            tensor      int64    [3]     cpu  [1, 2, 3]
  j            jagged      int64    [3, *]  cpu  [[1, 2], [], [3]]
  s            non_tensor  Utf8     [3]          [\"a\", \"b\", \"c\"]
  n            dict                 [3]
    y          tensor      int64    [3, 1]  cpu  [[4], [5], [6]]
  f            tensor      float32  [3]     cpu  [0.1, NaN, inf]
  \"two words\"  tensor      bool     [3]     cpu  [true, false, true]";
    assert_eq!(format!("{dict:#}"), values);
    assert_eq!(TensorDict::new([0]).to_string(), "TensorDict  batch_size=[0]  device=none");

    let (long, _) = rows(6);
    let values = "\
TensorDict  batch_size=[6]  device=cpu
  x    tensor      int64  [6]     cpu  [0, 1, 2, 3, …]
  j    jagged      int64  [6, *]  cpu  [[], [1], [2, 2], [3, 3, 3], …]
  s    non_tensor  Int64  [6]          [0, 1, 2, 3, …]
  n    dict               [6]
    x  tensor      int64  [6]     cpu  [5, 4, 3, 2, …]";
    assert_eq!(format!("{:#}", long.to(Device::Cpu).unwrap()), values);
    let row = "\
TensorDict  batch_size=[]  device=none
  x    tensor      int64  []   cpu  2
  j    tensor      int64  [2]  cpu  [2, 2]
  s    non_tensor  Int64  []        [2]
  n    dict               []
    x  tensor      int64  []   cpu  3";
    assert_eq!(format!("{:#}", long.index(2).unwrap()), row);
}

#[test]
fn tensordicts_can_be_sent() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    let dict = std::thread::spawn(move || send(sample())).join().unwrap();
    assert_eq!(show(&dict), SAMPLE);
}

#[test]
fn undefined_tensors_are_refused() {
    let mut dict = TensorDict::new([]);
    assert!(dict.set("x", Tensor::new()).unwrap_err().is_shape());
    assert!(dict.is_empty());
    assert!(JaggedTensor::try_new(Tensor::new(), Tensor::from_slice(&[0i64])).unwrap_err().is_shape());
    assert!(JaggedTensor::try_new(Tensor::from_slice(&[1i64]), Tensor::new()).unwrap_err().is_shape());
}

#[test]
fn no_two_dims_have_one_name() {
    let named = |name: &str| {
        let mut td = TensorDict::new([2]);
        td.set_names([Some(name)]).unwrap();
        td
    };
    // A nested dict's own dim gives way.
    let mut inner = TensorDict::new([2, 3]);
    inner.set_names([None, Some("b")]).unwrap();
    let mut td = TensorDict::new([2]);
    td.set("inner", inner).unwrap();
    td.set_names([Some("b")]).unwrap();
    assert_eq!(td.dict("inner").unwrap().names().unwrap(), [Some("b".to_owned()), None]);
    // A member's dims aren't named as the stack dim is.
    let mut stack = LazyStackBuilder::new([named("t"), named("t")]).stack_dim_name("time").build().unwrap();
    assert!(stack.append(named("time")).unwrap_err().is_key());
    assert!(stack.insert(0, named("time")).unwrap_err().is_key());
    assert!(stack.edit_member(0, |member| member.set_names([Some("time")])).unwrap_err().is_key());
    assert_eq!(stack.names().unwrap(), ["time", "t"].map(|name| Some(name.to_owned())));
    assert_eq!(stack.members().len(), 2);
    // Stacked nested dicts have the stack dim's name only if it isn't one of theirs.
    let members = [1, 2].map(|_| {
        let mut inner = TensorDict::new([2, 3]);
        inner.set_names([None, Some("time")]).unwrap();
        let mut td = TensorDict::new([2]);
        td.set("inner", inner).unwrap();
        td
    });
    let stack = LazyStackBuilder::new(members).stack_dim_name("time").build().unwrap();
    for td in [stack.shallow_clone(), stack.contiguous().unwrap()] {
        assert_eq!(td.dict("inner").unwrap().names().unwrap(), [None, None, Some("time".to_owned())]);
    }
}
