//! Lazy stacks as record batches.

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use tch::Tensor;
use tensorquery::{TensorDict, ToArrowOptions, to_arrow};

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
