//! Lazy stacks as record batches.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use tch::{Device, Kind, Tensor};
use tensorquery::{Nulls, Options, TensorDict, ToArrowOptions, from_arrow, to_arrow};

use crate::lazy_stacks::lazy;
use crate::show::{show_jagged, show_tensor};
use crate::to_arrow::{plain, show};

fn member(values: &[i64]) -> TensorDict {
    TensorDict::from_entries([("a", Tensor::from_slice(values))]).unwrap()
}

#[test]
fn members_that_differ_become_lists() {
    let stack = TensorDict::lazy_stack([member(&[1, 2]), member(&[3])], 0).unwrap();
    let batch = plain(stack.shallow_clone());
    assert_eq!(show(batch.column(0)), "[[1, 2], [3]]");
    assert!(matches!(batch.column(0).data_type(), DataType::LargeList(_)));
    // Entries of single members are empty lists, or null, elsewhere.
    let mut extra = member(&[4]);
    extra.set("b", Tensor::from_slice(&[0.5f32])).unwrap();
    extra.set("s", "x").unwrap();
    let batch = plain(TensorDict::lazy_stack([member(&[1, 2]), extra], 0).unwrap());
    let shown: Vec<_> = batch.columns().iter().map(|column| show(column)).collect();
    assert_eq!(shown, ["[[1, 2], [4]]", "[[], [0.5]]", "[null, x]"]);
    // Members of one shape become what a dense tensordict does, also below.
    let mut dict = TensorDict::new([2]);
    dict.set("n", stack).unwrap();
    let batch = plain(dict);
    assert_eq!(show(batch.column(0).as_struct().column(0)), "[[1, 2], [3]]");
    let same = plain(TensorDict::lazy_stack([member(&[1, 2]), member(&[3, 4])], 0).unwrap());
    assert_eq!(show(same.column(0)), "[[1, 2], [3, 4]]");
    assert!(matches!(same.column(0).data_type(), DataType::FixedSizeList(_, 2)));
}

#[test]
fn what_is_ragged_twice_is_refused() {
    let square = |rows: i64, columns: i64| {
        let tensor = Tensor::ones([rows, columns], (tch::Kind::Float, tch::Device::Cpu));
        TensorDict::from_entries([("a", tensor)]).unwrap()
    };
    let stack = TensorDict::lazy_stack([square(1, 2), square(2, 3)], 0).unwrap();
    let error = to_arrow(stack, &ToArrowOptions::default()).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("'a'"), "{error}");
    let wide = |values: &[i64]| member(values).with_batch_size(&[2]).unwrap();
    let two = TensorDict::lazy_stack([wide(&[1, 2]), wide(&[3, 4])], 0).unwrap();
    let error = to_arrow(two, &ToArrowOptions::default()).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("flatten"), "{error}");
}

/// Without batch dims: one row, whose mask is `[length]`, or nothing.
fn row(values: &[i64], mask: Option<&[bool]>) -> TensorDict {
    let mut dict = member(values);
    if let Some(mask) = mask {
        dict.set(["_mask", "a"], Tensor::from_slice(mask)).unwrap();
    }
    dict
}

fn folded(dict: TensorDict) -> RecordBatch {
    let batch = to_arrow(dict, &ToArrowOptions::default().mask_key("_mask")).unwrap_or_else(|error| panic!("{error}"));
    batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
    batch
}

#[test]
fn masks_of_members_become_the_validity_of_elements() {
    let stack =
        lazy([row(&[1, 2, 3], Some(&[true, false, true])), row(&[], Some(&[])), row(&[4, 5], Some(&[false, true]))]);
    let batch = folded(stack);
    assert_eq!(show(batch.column(0)), "[[1, null, 3], [], [null, 5]]");
    assert_eq!((batch.num_columns(), batch.schema().field(0).is_nullable()), (1, false));
    // Members with batch dims, as they come of conversions; where there was no null, there is no mask.
    let part = |values: Vec<Option<i64>>, words: Vec<Option<&str>>| {
        let columns: [(&str, ArrayRef); 2] =
            [("a", Arc::new(Int64Array::from(values))), ("s", Arc::new(StringArray::from(words)))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        from_arrow(batch, &Options::default().nulls(Nulls::Mask)).unwrap()
    };
    let stack = lazy([
        part(vec![Some(1), None], vec![Some("x"), None]),
        part(vec![Some(3)], vec![Some("y")]),
        part(vec![None, Some(5), None], vec![None, None, Some("z")]),
    ]);
    let batch = folded(stack);
    assert_eq!(show(batch.column(0)), "[[1, null], [3], [null, 5, null]]");
    assert_eq!(show(batch.column(1)), "[[x, null], [y], [null, null, z]]");
    // There and back: what is null in a list is filled, as anywhere else.
    let back = from_arrow(batch, &Options::default().nulls(Nulls::Fill)).unwrap();
    assert_eq!(show_jagged(&back.jagged("a").unwrap()), "jag(int64[6](1, 0, 3, 0, 5, 0); 0, 2, 3, 6)");
}

#[test]
fn masks_of_members_without_dims_are_of_rows() {
    let whole = |values: &[i64], valid: Option<bool>| {
        let mut dict = member(values);
        if let Some(valid) = valid {
            dict.set(["_mask", "a"], Tensor::from_slice(&[valid]).squeeze()).unwrap();
        }
        dict
    };
    let batch = folded(lazy([whole(&[1, 2], Some(true)), whole(&[], Some(false)), whole(&[3], None)]));
    assert_eq!(show(batch.column(0)), "[[1, 2], null, [3]]");
    let back = from_arrow(batch, &Options::default().nulls(Nulls::Mask)).unwrap();
    assert_eq!(show_tensor(&back.tensor(["_mask", "a"]).unwrap()), "bool[3](T, F, T)");
    // Members of one shape, and masks of fewer dims than what they are of.
    let batch = folded(lazy([row(&[1, 2], Some(&[true, false])), row(&[3, 4], None)]));
    assert_eq!(show(batch.column(0)), "[[1, null], [3, 4]]");
    let wide = |rows: i64, mask: &[bool]| {
        let mut dict = TensorDict::from_entries([("a", Tensor::ones([rows, 2], (Kind::Int64, Device::Cpu)))]).unwrap();
        dict.set(["_mask", "a"], Tensor::from_slice(mask)).unwrap();
        dict
    };
    let batch = folded(lazy([wide(1, &[false]), wide(2, &[true, false])]));
    assert_eq!(show(batch.column(0)), "[[null], [[1, 1], null]]");
    let batch = folded(lazy([wide(2, &[true, true]), wide(2, &[true, false])]));
    assert_eq!(show(batch.column(0)), "[[1, 1, 1, 1], [1, 1, null, null]]");
    // In stacks of stacks, below, and though they are locked.
    let below = |values: &[i64], mask: Option<&[bool]>| {
        let mut dict = TensorDict::from_entries([(["n", "a"], Tensor::from_slice(values))]).unwrap();
        if let Some(mask) = mask {
            dict.set(["_mask", "n", "a"], Tensor::from_slice(mask)).unwrap();
        }
        dict
    };
    let batch = folded(lazy([below(&[1], None), below(&[2, 3], Some(&[false, true]))]).locked());
    assert_eq!(show(batch.column(0).as_struct().column(0)), "[[1], [null, 3]]");
    let twice = lazy([lazy([below(&[1], None)]), lazy([below(&[2, 3], Some(&[false, true]))])]);
    let batch = folded(twice.reshape(&[-1]).unwrap());
    assert_eq!(show(batch.column(0).as_struct().column(0)), "[[1], [null, 3]]");
    // Masks that are of something else.
    let error = |dict| to_arrow(dict, &ToArrowOptions::default().mask_key("_mask")).unwrap_err();
    let wrong = error(lazy([row(&[1, 2], Some(&[true])), row(&[3], Some(&[true]))]));
    assert!(wrong.is_shape() && wrong.to_string().contains("('_mask', 'a')"), "{wrong}");
}

#[test]
fn masks_alone_may_be_a_stack() {
    let item = |masks: &[(&str, &[bool])]| {
        let numbers = || Tensor::from_slice(&[1i64, 2]);
        let mut dict = TensorDict::from_entries([("a", numbers()), ("b", numbers())]).unwrap();
        dict.set("s", "x").unwrap();
        dict.set(["n", "c"], Tensor::from_slice(&[5i64]).squeeze()).unwrap();
        dict.create_nested("_mask").unwrap();
        for (name, mask) in masks {
            dict.set(["_mask", *name], Tensor::from_slice(mask)).unwrap();
        }
        dict
    };
    // Dense but for the masks, of which each row has its own.
    let rows = [item(&[("a", &[true, false])]), item(&[("b", &[false, true])]), item(&[])];
    let dict = TensorDict::maybe_dense_stack(rows, 0).unwrap();
    assert!(!dict.is_lazy() && dict.dict("_mask").unwrap().is_lazy());
    let batch = folded(dict);
    let shown: Vec<_> = batch.columns().iter().map(|column| show(column)).collect();
    assert_eq!(shown[..2], ["[[1, null], [1, 2], [1, 2]]", "[[1, 2], [null, 2], [1, 2]]"]);
    assert_eq!((shown[2].as_str(), batch.num_columns()), ("[x, x, x]", 4));
    // Next to lists, masks of which are of rows or of what is in them; and deeper.
    let lists = |values: &[i64], below: &str, mask: &[bool]| {
        let mut dict = TensorDict::from_entries([(["n", "j"], Tensor::from_slice(values))]).unwrap();
        dict.set("k", Tensor::from_slice(values)).unwrap();
        let key = if below == "k" { vec!["_mask", "k"] } else { vec!["_mask", "n", "j"] };
        dict.set(key.as_slice(), Tensor::from_slice(mask)).unwrap();
        dict
    };
    let rows = || [lists(&[1, 2], "k", &[true, false]), lists(&[3], "j", &[false])];
    let dense = TensorDict::lazy_stack(rows(), 0).unwrap().exclude(["_mask"]).densify(tensorquery::Ragged::Jagged);
    let mut dense = dense.unwrap();
    let masks = rows().map(|row| row.dict("_mask").unwrap());
    dense.set("_mask", TensorDict::lazy_stack(masks, 0).unwrap()).unwrap();
    let batch = folded(dense);
    let column = |name: &str| batch.column_by_name(name).unwrap();
    assert_eq!(show(column("k")), "[[1, null], [3]]");
    assert_eq!(show(column("n").as_struct().column(0)), "[[1, 2], [null]]");
    // The same in all rows, as before.
    let same = [item(&[("a", &[true, false])]), item(&[("a", &[false, true])])];
    let batch = folded(TensorDict::lazy_stack(same, 0).unwrap());
    assert_eq!(show(batch.column(0)), "[[1, null], [null, 2]]");
}
