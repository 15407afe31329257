//! Which entries a tensordict takes, what becomes of values that are no tensors, and what goes back to Arrow.

use std::sync::Arc;

use arrow::array::{Array, FixedSizeListArray, Int32Array, Int64Array, StringArray, StructArray};
use arrow::datatypes::{DataType, Field};
use tch::{Device, Kind, Tensor};
use tensorquery::{
    CellIndex, Entry, Error, Index, JaggedTensor, NestedKey, NonTensorStack, Options, Result, TensorDict, Value,
    from_arrow,
};

use crate::key_ops::{at, dict, jagged, lazy, longs, ragged, sample, show_members, strings};
use crate::lazy_stack_vectors::refused;
use crate::show::{column_of, show, show_entry, tensor_field};
use crate::to_arrow::{one, plain};

fn with(sizes: &[i64], key: &str, entry: impl Into<Entry>) -> TensorDict {
    let mut dict = TensorDict::new(sizes);
    dict.set(key, entry).unwrap();
    dict
}

#[test]
fn one_value_for_everyone() {
    assert_eq!(show(&with(&[2, 1], "s", "v")), r#"{s: nts("v", "v")}"#);
    assert_eq!(with(&[2, 1], "s", "v").non_tensor("s").unwrap().batch_size(), [2, 1]);
    assert_eq!(show(&with(&[0], "s", "v")), "{s: nts()}");
    assert_eq!(show(&with(&[], "s", "v")), r#"{s: nts("v")}"#);
    let number = || NonTensorStack::single(Arc::new(Int64Array::from(vec![7]))).unwrap();
    assert_eq!(show(&with(&[2], "s", number())), "{s: nts(7, 7)}");
    assert_eq!(with(&[], "s", number()).non_tensor("s").unwrap().value(0).unwrap(), Value::Int(7));
    for rows in [0, 2] {
        let values = Arc::new(Int64Array::from(vec![7; rows]));
        refused(NonTensorStack::single(values), Error::is_shape, &["one row"]);
    }
    assert_eq!(NonTensorStack::new(Arc::new(StringArray::from(vec!["x"; 0]))).batch_size(), [0]);
    refused(with(&[2], "s", "v").non_tensor("t"), Error::is_key, &["'t'", "'s'"]);
    refused(with(&[2], "x", longs(&[1, 2])).non_tensor("x"), Error::is_key, &["kind tensor"]);
}

#[test]
fn values_along_with_the_batch() {
    let three = || with(&[3], "s", strings(&["a", "b", "c"]));
    let shown = |dict: Result<TensorDict>| show(&dict.unwrap());
    assert_eq!(shown(three().index(0)), r#"{s: nts("a")}"#);
    assert_eq!(three().index(0).unwrap().non_tensor("s").unwrap().batch_size(), [] as [i64; 0]);
    assert_eq!(shown(three().index(1..)), r#"{s: nts("b", "c")}"#);
    assert_eq!(shown(three().index([2, 0, 2])), r#"{s: nts("c", "a", "c")}"#);
    assert_eq!(shown(three().index([true, false, true])), r#"{s: nts("a", "c")}"#);
    assert_eq!(shown(three().index(Vec::<i64>::new())), "{s: nts()}");
    assert_eq!(shown(three().unsqueeze(0).unwrap().expand(&[2, 3])), r#"{s: nts("a", "b", "c", "a", "b", "c")}"#);
    assert_eq!(shown(TensorDict::cat([three(), with(&[1], "s", "d")], 0)), r#"{s: nts("a", "b", "c", "d")}"#);
    let alone = |text: &str| with(&[], "s", text);
    assert_eq!(shown(TensorDict::stack([alone("x"), alone("x")], 0)), r#"{s: nts("x", "x")}"#);
    // Compared with values, one by one; with anything else, never equal.
    let compared = three().eq_elements(&with(&[3], "s", "b")).unwrap();
    assert_eq!(show(&compared), "{s: bool[3](F, T, F)}");
    assert_eq!(shown(three().ne_elements(&with(&[3], "s", "b"))), "{s: bool[3](T, F, T)}");
    assert_eq!(shown(three().eq_elements(&longs(&[1, 2, 3]))), "{s: bool[3](F, F, F)}");
    // Written to in part; what was one value for all becomes several.
    let mut same = with(&[3], "s", "v");
    same.set_at("s", "w", 1).unwrap();
    assert_eq!(show(&same), r#"{s: nts("v", "w", "v")}"#);
    same.put_at([0, 2], &with(&[2], "s", strings(&["y", "z"]))).unwrap();
    assert_eq!(show(&same), r#"{s: nts("y", "w", "z")}"#);
    // A stack's rows may differ in length.
    let uneven = lazy([with(&[2], "s", strings(&["a", "b"])), with(&[1], "s", strings(&["c"]))], 0);
    assert_eq!(show_entry(&uneven.entry("s").unwrap()), r#"nts(["a", "b"], ["c"])"#);
    assert_eq!(show_members(&uneven), [r#"{s: nts("a", "b")}"#, r#"{s: nts("c")}"#]);
    assert_eq!((uneven.batch_size(), uneven.item_shape("s").unwrap()), (vec![2, -1], vec![2, -1]));
    let copy = three().deep_clone().unwrap();
    assert_eq!(show(&copy), show(&three()));
}

#[test]
fn values_of_members_that_differ_are_lists() {
    let words = |words: &[&str]| with(&[words.len() as i64], "s", strings(words));
    // Below other stacks, next to what can't be stacked, and whatever the stack dim.
    let mut uneven = lazy([words(&["a", "b"]), words(&["c"])], 0);
    assert_eq!(
        format!("{uneven:#}"),
        "LazyStackedTensorDict  batch_size=[2, -1]  device=none  stack_dim=0\n  s  non_tensor  LargeList(Utf8)  [2, *]    [[\"a\", \"b\"], [\"c\"]]"
    );
    uneven.set_list("x", vec![longs(&[1, 2]), longs(&[3])]).unwrap();
    let items = |dict: &TensorDict| -> Vec<String> {
        let items = dict.non_tensor_items(true).unwrap().into_iter();
        items
            .map(|(key, values)| format!("{key} {:?} {}", values.batch_size(), show_entry(&values.clone().into())))
            .collect()
    };
    assert_eq!(items(&uneven), [r#"'s' [2] nts(["a", "b"], ["c"])"#]);
    assert_eq!(
        items(&dict(&[2], [("n", uneven.shallow_clone().into())])),
        [r#"('n', 's') [2] nts(["a", "b"], ["c"])"#]
    );
    let columns = lazy([words(&["a", "b"]), words(&["c"])], 1);
    assert_eq!(columns.batch_size(), [-1, 2]);
    assert_eq!(items(&columns), items(&uneven));
    // Dims that all share stay those of the batch, the stack dim among them.
    let grid = |all: &[&str]| words(all).reshape(&[2, all.len() as i64 / 2]).unwrap();
    let wide = || [grid(&["a", "b"]), grid(&["c", "d", "e", "f"])];
    assert_eq!(items(&lazy(wide(), 0)), [r#"'s' [2, 2] nts(["a"], ["b"], ["c", "d"], ["e", "f"])"#]);
    assert_eq!(items(&lazy(wide(), 1)), [r#"'s' [2, 2] nts(["a"], ["c", "d"], ["b"], ["e", "f"])"#]);
    assert_eq!(items(&lazy(wide(), 2)), [r#"'s' [2, 2] nts(["a"], ["c", "d"], ["b"], ["e", "f"])"#]);
    let ragged_twice = lazy([lazy([words(&["a", "b"]), words(&["c"])], 0), lazy([words(&[]), words(&["d"])], 0)], 0);
    assert_eq!(items(&ragged_twice), [r#"'s' [2, 2] nts(["a", "b"], ["c"], [], ["d"])"#]);
    // Another kind of type is said, not made up.
    let numbers = with(&[1], "s", NonTensorStack::new(Arc::new(Int64Array::from(vec![1]))));
    let error = lazy([words(&["a", "b"]), numbers], 0).non_tensor_items(true).unwrap_err();
    assert!(error.is_schema() && error.nested_key() == Some(&"s".into()), "{error}");
}

#[test]
fn values_as_nested_lists_and_in_part() {
    let text = |word: &str| Value::Text(word.to_owned());
    let single = with(&[], "s", "v").non_tensor("s").unwrap();
    assert_eq!(single.to_value().unwrap(), text("v"));
    let same = with(&[2, 1], "s", "v").non_tensor("s").unwrap();
    assert_eq!(same.to_value().unwrap(), Value::List(vec![Value::List(vec![text("v")]), Value::List(vec![text("v")])]));
    assert_eq!(with(&[0], "s", "v").non_tensor("s").unwrap().to_value().unwrap(), Value::List(vec![]));
    assert_eq!(with(&[2, 0], "s", "v").non_tensor("s").unwrap().to_value().unwrap().to_string(), "[[], []]");
    let uneven = lazy([with(&[2], "s", strings(&["a", "b"])), with(&[1], "s", strings(&["c"]))], 0);
    assert_eq!(uneven.non_tensor("s").unwrap().to_value().unwrap().to_string(), r#"[["a", "b"], ["c"]]"#);

    let three = strings(&["a", "b", "c"]);
    let shown = |part: Result<NonTensorStack>| part.unwrap().to_value().unwrap().to_string();
    assert_eq!(shown(three.index(-1)), r#""c""#);
    assert_eq!(shown(three.index(1..)), r#"["b", "c"]"#);
    assert_eq!(shown(three.index(Index::Slice { start: None, stop: None, step: -2 })), r#"["c", "a"]"#);
    assert_eq!(shown(three.index([2, 0, 2])), r#"["c", "a", "c"]"#);
    assert_eq!(shown(three.index([true, false, true])), r#"["a", "c"]"#);
    assert_eq!(shown(three.index(3..)), "[]");
    let grid = with(&[4], "s", strings(&["a", "b", "c", "d"])).reshape(&[2, 2]).unwrap().non_tensor("s").unwrap();
    assert_eq!(shown(grid.index(1)), r#"["c", "d"]"#);
    assert_eq!(shown(grid.index([1, 0])), r#"[["c", "d"], ["a", "b"]]"#);
    assert_eq!(shown(grid.index(..1)), r#"[["a", "b"]]"#);
    for wrong in [Index::from(3), Index::from(-4), [true].into(), Index::NewAxis, Index::Ellipsis] {
        refused(three.index(wrong), Error::is_index, &[]);
    }
    refused(single.index(0), Error::is_index, &["no dim"]);
    // Without columns there can be more rows than memory.
    let endless = with(&[i64::MAX, 0], "s", "v").non_tensor("s").unwrap();
    refused(endless.to_value(), Error::is_shape, &["more than memory holds"]);
}

#[test]
fn lists_by_what_they_hold() {
    let mut pair = TensorDict::new([2]);
    let scalars = || vec![longs(&[1]).get(0), longs(&[2]).get(0)];
    pair.set_list("x", scalars()).unwrap();
    pair.set_list("m", vec![longs(&[1, 2]), longs(&[3, 4])]).unwrap();
    pair.set_list("j", vec![longs(&[1]), longs(&[])]).unwrap();
    pair.set_list("n", vec![dict(&[], [at("y", &[1])]), dict(&[], [at("y", &[2])])]).unwrap();
    let shown =
        "{x: int64[2](1, 2), m: int64[2, 2](1, 2, 3, 4), j: jag(int64[1](1); 0, 1, 1), n: {y: int64[2, 1](1, 2)}}";
    assert_eq!(show(&pair), shown);
    refused(pair.set_list("k", vec![Entry::from(longs(&[1])), "x".into()]), Error::is_key, &["'k'", "kinds"]);
    refused(pair.set_list("k", vec![longs(&[1])]), Error::is_shape, &["'k'"]);
    refused(pair.set("k", longs(&[1]).get(0)), Error::is_shape, &["batch dimension mismatch", "'k'"]);
    assert_eq!(show(&pair), shown);
    let mut stack = lazy([dict(&[3], []), dict(&[3], [])], 0);
    refused(stack.set_list("k", scalars()), Error::is_shape, &["'k'"]);
    refused(stack.set_list("k", vec![longs(&[1, 2]), longs(&[1, 2])]), Error::is_shape, &["'k'"]);
    assert_eq!(show_members(&stack), ["{}", "{}"]);
}

#[test]
fn dicts_in_dicts() {
    let mut outer = TensorDict::new([2]);
    refused(
        outer.set("n", TensorDict::new([3])),
        Error::is_shape,
        &["'n'", "incompatible with the batch-size", "[3]", "[2]"],
    );
    refused(outer.set("n", with(&[], "y", longs(&[1, 2, 3]))), Error::is_shape, &["batch dimension mismatch", "'y'"]);
    outer.set("n", with(&[], "y", longs(&[1, 2]))).unwrap();
    outer.set("w", TensorDict::new([2, 5])).unwrap();
    assert_eq!((outer.dict("n").unwrap().batch_size(), outer.dict("w").unwrap().batch_size()), (vec![2], vec![2, 5]));
    refused(outer.set(["n", "y", "z"], longs(&[1, 2])), Error::is_key, &["'y'", "nothing can be below"]);
    refused(outer.set(Vec::<String>::new(), longs(&[1, 2])), Error::is_key, &["empty key"]);
    refused(outer.entry(["n", "y", "z"]), Error::is_key, &["'y' is of kind tensor"]);
    // Any prefix that all share, and none at all.
    let wide = with(&[2], "x", longs(&[1, 2, 3, 4]).reshape([2, 2]));
    for sizes in [vec![], vec![2], vec![2, 2]] {
        assert_eq!(wide.shallow_clone().with_batch_size(&sizes).unwrap().batch_size(), sizes);
    }
    refused(wide.shallow_clone().with_batch_size(&[3]), Error::is_shape, &["'x'", "[2, 2]", "[3]"]);
    // A dict that lost its entries stays; one without leaves is dropped when keys are joined.
    let emptied = outer.exclude([NestedKey::from(["n", "y"]), "unknown".into()]);
    assert_eq!(show(&emptied), "{n: {}, w: {}}");
    assert_eq!(show(&outer.flatten_keys(".").unwrap()), "{n.y: int64[2](1, 2)}");
    assert_eq!(outer.select([["n", "y"]]).unwrap().nested_keys().len(), 2);
    refused(TensorDict::new([]).index(0), Error::is_index, &[]);
    refused(wide.index((0, 0)), Error::is_index, &["too many indices"]);
    // Basic parts share storage, wholes are the same.
    let x = wide.tensor("x").unwrap();
    for whole in [Index::from(..), Index::Ellipsis] {
        assert_eq!(wide.index(whole).unwrap().tensor("x").unwrap().data_ptr(), x.data_ptr());
    }
    assert_eq!(wide.index(1).unwrap().tensor("x").unwrap().data_ptr(), x.get(1).data_ptr());
}

#[test]
fn jagged_rows_of_the_batch() {
    let rows = || with(&[2], "j", jagged(&[1, 2, 3], &[0, 1, 3]));
    assert_eq!(show(&rows().index(1).unwrap()), "{j: int64[2](2, 3)}");
    assert_eq!(show(&rows().index(1..).unwrap()), "{j: jag(int64[2](2, 3); 0, 2)}");
    assert_eq!(show(&rows().index([false, true]).unwrap()), "{j: jag(int64[2](2, 3); 0, 2)}");
    let whole = TensorDict::cat([rows(), rows()], 0).unwrap();
    assert_eq!(show(&whole), "{j: jag(int64[6](1, 2, 3, 1, 2, 3); 0, 1, 3, 4, 6)}");
    let parts: Vec<_> = whole.split(&[1, 3], 0).unwrap().iter().map(show).collect();
    assert_eq!(parts, ["{j: jag(int64[1](1); 0, 1)}", "{j: jag(int64[5](2, 3, 1, 2, 3); 0, 2, 3, 5)}"]);
    let apart: Vec<_> = rows().unbind(0).unwrap().iter().map(show).collect();
    assert_eq!(apart, ["{j: int64[1](1)}", "{j: int64[2](2, 3)}"]);
    // Of equal lengths, in offsets of their own: the values are compared.
    let other = with(&[2], "j", jagged(&[1, 2, 4], &[0, 1, 3]));
    assert_eq!(show(&rows().eq_elements(&other).unwrap()), "{j: jag(bool[3](T, T, F); 0, 1, 3)}");
    assert!(!rows().equal(&with(&[2], "j", jagged(&[1, 2, 3], &[0, 2, 3]))).unwrap());
}

#[test]
fn stacks_go_back_to_arrow() {
    let show_column = |dict: TensorDict| {
        let batch = plain(dict);
        crate::to_arrow::show(batch.column(0))
    };
    let members = |second: &[i64]| lazy([dict(&[], [at("a", &[1, 2])]), dict(&[], [at("a", second)])], 0);
    assert_eq!(show_column(members(&[3, 4])), "[[1, 2], [3, 4]]");
    assert_eq!(show_column(members(&[3])), "[[1, 2], [3]]", "lists, where lengths differ");
    let error = tensorquery::to_arrow(lazy([sample(), sample()], 0), &tensorquery::ToArrowOptions::default());
    refused(error, Error::is_shape, &[]);
    assert_eq!(plain(ragged().select(["n"]).unwrap()).num_rows(), 2);
    // Rows that lie in the middle of their values.
    let middle = one(jagged(&[0, 1, 2, 3, 4], &[0, 1, 3, 5])).index(1..).unwrap();
    assert_eq!(show_column(middle), "[[1, 2], [3, 4]]");
    let late = JaggedTensor::try_new(longs(&[0, 1, 2]), longs(&[1, 3]));
    refused(late, Error::is_shape, &["offsets start at 1"]);
    // Records whose fields are not in every row.
    let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)];
    let records = StructArray::new(
        fields.into(),
        vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(StringArray::from(vec![None, Some("z")]))],
        None,
    );
    let records = NonTensorStack::new(Arc::new(records));
    assert_eq!(show(&one(records.clone())), r#"{c: nts({a: 1, b: null}, {a: 2, b: "z"})}"#);
    assert_eq!(plain(one(records.clone())).column(0).to_data(), records.values().to_data());
    // A strided nested tensor is no entry: its shape can't be told.
    let nested = JaggedTensor::from_rows(&[longs(&[1]), longs(&[2, 3])]).unwrap().to_strided_nested().unwrap();
    assert!(TensorDict::new([2]).set("x", nested).is_err());
}

#[test]
fn tensors_come_back_in_their_order() {
    let storage = Int32Array::from_iter_values(1..=12);
    let item = Arc::new(Field::new("item", DataType::Int32, false));
    let array: Arc<dyn Array> = Arc::new(FixedSizeListArray::new(item, 6, Arc::new(storage), None));
    let field = tensor_field("c", &array, r#"{"shape":[2,3],"permutation":[1,0]}"#);
    let turned = from_arrow(column_of(field, array), &Options::default()).unwrap();
    let shown = "{c: int32[2, 3, 2](1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12)}";
    assert_eq!(show(&turned), shown);
    let batch = plain(turned);
    assert_eq!(batch.schema().field(0).extension_type_metadata(), Some(r#"{"shape":[3,2]}"#));
    assert_eq!(show(&from_arrow(batch, &Options::default()).unwrap()), shown);
}

#[test]
fn cells_have_two_dims() {
    let m = crate::multi_nested::m();
    for index in [Index::NewAxis, Index::Ellipsis] {
        assert!(m.index(index.clone()).unwrap_err().is_index(), "{index:?}");
        assert!(m.index(CellIndex::from((.., index.clone()))).unwrap_err().is_index(), "{index:?}");
    }
    // Names of dims and dtypes of empties.
    let empty = m.index((0..0, 0..1)).unwrap();
    assert_eq!((empty.shape(), empty.dtype().unwrap()), ([0, 1, -1], m.dtype().unwrap()));
    let negative = m.index(([-1], [-1, 0])).unwrap();
    assert_eq!(crate::multi_nested::show(&negative), "1x2 v[10, 8, 9] o[0, 1, 3]");
    let zeros = Tensor::zeros([2, 0], (Kind::Float, Device::Cpu));
    assert_eq!(show_entry(&zeros.into()), "float32[2, 0]()");
}
