//! Masks, reductions, and tensordicts made like others.

use proptest::prelude::*;
use tch::{Device, Kind, Tensor};
use tensorquery::{DType, Entry, LazyStackBuilder, Reduction, TensorDict};

use crate::key_ops::{
    RAGGED, SAMPLE, at, dict, floats, is_key_error_at, jagged, lazy, longs, ragged, sample, show_members, strings,
};
use crate::show::{show, show_entry, show_tensor};
use crate::updating::both;

fn mask(values: &[bool]) -> Tensor {
    Tensor::from_slice(values)
}

#[test]
fn filling_by_mask() {
    let mut sample = sample();
    let filled = sample.masked_fill(&mask(&[true, false]), 0).unwrap();
    let shown = r#"{x: int64[2](0, 2), j: jag(int64[3](0, 0, 3); 0, 2, 3), s: nts("a", "b"), n: {y: int64[2](0, 4), t: nts("p", "q")}}"#;
    assert_eq!(show(&filled), shown);
    assert_eq!(show(&sample), SAMPLE);
    let x = sample.tensor("x").unwrap();
    sample.lock();
    sample.masked_fill_(&mask(&[true, false]), 0).unwrap();
    assert_eq!((show(&sample).as_str(), show_tensor(&x).as_str()), (shown, "int64[2](0, 2)"));
    for wrong in [mask(&[true]), mask(&[true; 4]).reshape([2, 2]), Tensor::new()] {
        assert!(sample.masked_fill(&wrong, 0).unwrap_err().is_shape(), "{wrong:?}");
    }
    let error = sample.masked_fill(&longs(&[1, 0]), 0).unwrap_err();
    assert!(error.kind() == "libtorch" && error.nested_key() == Some(&"x".into()), "{error}");
    assert_eq!(show(&dict(&[1], [at("x", &[1])]).masked_fill(&mask(&[true]), -2.9).unwrap()), "{x: int64[1](-2)}");
    let bytes = dict(&[1], [("b", longs(&[1]).to_kind(Kind::Int8).into())]);
    for wrong in [300.0, f64::NAN, f64::INFINITY, -129.0, 128.0] {
        let error = bytes.masked_fill(&mask(&[true]), wrong).unwrap_err();
        assert!(error.is_overflow() && error.nested_key() == Some(&"b".into()), "{error}");
    }
    assert_eq!(show(&bytes.masked_fill(&mask(&[true]), 127.9).unwrap()), "{b: int8[1](127)}");
    for wrong in [2f64.powi(63), -2f64.powi(64)] {
        assert!(dict(&[1], [at("x", &[1])]).fill_(wrong).unwrap_err().is_overflow());
    }
    // A mask of the first dims counts for what is below them.
    let wide = dict(&[2, 2], [("x", longs(&[1, 2, 3, 4]).reshape([2, 2]).into())]);
    assert_eq!(show(&wide.masked_fill(&mask(&[false, true]), 0).unwrap()), "{x: int64[2, 2](1, 2, 0, 0)}");
    assert_eq!(show(&wide.masked_fill(&mask(&[true]).get(0), 0).unwrap()), "{x: int64[2, 2](0, 0, 0, 0)}");
    // By member, and where members differ in size.
    let filled = ragged().masked_fill(&mask(&[false, true]), -1).unwrap();
    let shown = [RAGGED[0], "{a: int64[1](-1), n: {y: int64[1](-1)}, b: int64[1](-1)}"];
    assert_eq!(show_members(&filled), shown);
    let uneven = lazy([dict(&[1], [at("a", &[1])]), dict(&[2], [at("a", &[2, 3])])], 0);
    let filled = uneven.masked_fill(&mask(&[true, false]), 0).unwrap();
    assert_eq!(show_members(&filled), ["{a: int64[1](0)}", "{a: int64[2](2, 3)}"]);
    assert!(uneven.masked_fill(&mask(&[true; 4]).reshape([2, 2]), 0).unwrap_err().is_shape());
}

#[test]
fn choosing_by_condition() {
    let other = || {
        let mut other = sample().mul(10).unwrap();
        other.set_("s", strings(&["A", "B"])).unwrap();
        other
    };
    let chosen = sample().where_self(&mask(&[false, true]), &other()).unwrap();
    let shown = r#"{x: int64[2](10, 2), j: jag(int64[3](10, 20, 3); 0, 2, 3), s: nts("A", "b"), n: {y: int64[2](30, 4), t: nts("p", "q")}}"#;
    assert_eq!(show(&chosen), shown);
    let chosen = sample().where_self(&mask(&[false, true]), 7).unwrap();
    let shown = r#"{x: int64[2](7, 2), j: jag(int64[3](7, 7, 3); 0, 2, 3), s: nts("a", "b"), n: {y: int64[2](7, 4), t: nts("p", "q")}}"#;
    assert_eq!(show(&chosen), shown);
    let chosen = sample().select(["x", "j"]).unwrap().where_self(&mask(&[false, false]), &longs(&[8, 9])).unwrap();
    assert_eq!(show(&chosen), "{x: int64[2](8, 9), j: jag(int64[3](8, 8, 9); 0, 2, 3)}");
    let chosen = ragged().where_self(&mask(&[true, false]), &ragged().neg().unwrap()).unwrap();
    assert_eq!(show_members(&chosen), [RAGGED[0], "{a: int64[1](-3), n: {y: int64[1](-6)}, b: int64[1](-4)}"]);
    // Dense and lazy.
    let (stack, dense) = both(&[1, 2, 3, 4], 2, 2, 1);
    let condition = mask(&[true, false, false, true]).reshape([2, 2]);
    let expected = show(&dense.where_self(&condition, &dense.neg().unwrap()).unwrap());
    assert_eq!(show(&stack.where_self(&condition, &dense.neg().unwrap()).unwrap()), expected);
    assert_eq!(show(&dense.where_self(&condition, &stack.neg().unwrap()).unwrap()), expected);
    // Values of several batch dims.
    let names = |values: [&str; 2]| {
        let rows = dict(&[2], [("s", strings(&values).into())]);
        TensorDict::lazy_stack([rows.shallow_clone(), rows], 0).unwrap().contiguous().unwrap()
    };
    let chosen = names(["a", "b"]).where_self(&condition, &names(["c", "d"])).unwrap();
    assert_eq!(show(&chosen), r#"{s: nts("a", "d", "c", "b")}"#);

    assert!(sample().where_self(&mask(&[true]), 0).unwrap_err().is_shape());
    assert!(is_key_error_at(&sample().where_self(&mask(&[true, false]), &sample().exclude(["s"])).unwrap_err(), "s"));
    let mut single = sample();
    single.set("s", longs(&[1, 2])).unwrap();
    assert!(is_key_error_at(&sample().where_self(&mask(&[true, false]), &single).unwrap_err(), "s"));
}

#[test]
fn reducing_along_a_dim() {
    let td = dict(&[2, 2], [("x", floats(&[1.0, 2.0, 3.0, 5.0]).reshape([2, 2]).into())]);
    for (how, expected) in [
        (Reduction::Sum, "4, 7"),
        (Reduction::Mean, "2, 3.5"),
        (Reduction::Prod, "3, 10"),
        (Reduction::Min, "1, 2"),
        (Reduction::Max, "3, 5"),
        (Reduction::Var, "2, 4.5"),
    ] {
        assert_eq!(show(&td.reduce_dim(how, 0, false).unwrap()), format!("{{x: float32[2]({expected})}}"), "{how:?}");
        let kept = td.reduce_dim(how, -2, true).unwrap();
        assert_eq!((kept.batch_size(), kept.tensor("x").unwrap().size()), (vec![1, 2], vec![1, 2]), "{how:?}");
    }
    let deviation = td.reduce_dim(Reduction::Std, 1, false).unwrap();
    assert_eq!(deviation.batch_size(), [2]);
    assert!((deviation.tensor("x").unwrap().double_value(&[1]) - 2f64.sqrt()).abs() < 1e-6);
    let truths = td.gt_elements(2).unwrap();
    assert_eq!(show(&truths.reduce_dim(Reduction::Any, 0, false).unwrap()), "{x: bool[2](T, T)}");
    assert_eq!(show(&truths.reduce_dim(Reduction::All, 1, false).unwrap()), "{x: bool[2](F, T)}");

    let mut mixed = dict(&[2], [at("x", &[1, 2]), ("s", strings(&["a", "b"]).into())]);
    mixed.set("w", dict(&[2, 3], [("y", Tensor::ones([2, 3, 1], (Kind::Float, Device::Cpu)).into())])).unwrap();
    let summed = mixed.reduce_dim(Reduction::Sum, 0, false).unwrap();
    assert_eq!(show(&summed), "{x: int64[](3), w: {y: float32[3, 1](2, 2, 2)}}");
    assert_eq!(summed.dict("w").unwrap().batch_size(), [3]);
    let error = mixed.reduce_dim(Reduction::Mean, 0, false).unwrap_err();
    assert!(error.is_schema() && error.nested_key() == Some(&"x".into()), "{error}");
    for dim in [1, -2, i64::MAX, i64::MIN] {
        assert!(mixed.reduce_dim(Reduction::Sum, dim, false).unwrap_err().is_index(), "{dim}");
    }
    let error = sample().reduce_dim(Reduction::Sum, 0, false).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"j".into()), "{error}");
    assert!(ragged().reduce_dim(Reduction::Sum, 0, false).unwrap_err().is_shape());
    let empty = dict(&[0], [at("x", &[])]);
    assert_eq!(show(&empty.reduce_dim(Reduction::Sum, 0, false).unwrap()), "{x: int64[](0)}");
    assert!(empty.reduce_dim(Reduction::Max, 0, false).is_err());
}

#[test]
fn members_that_differ_are_reduced_one_by_one() {
    let member = |a: Tensor| {
        let rows = a.size()[0];
        let below = dict(&[rows], [at("b", &vec![1; rows as usize])]);
        dict(&[rows], [("a", a.into()), ("n", below.into()), ("s", "x".into())])
    };
    // Along the dim in which they differ, after which they are alike.
    let stack = lazy([member(longs(&[1, 2])), member(longs(&[3, 4, 5]))], 0);
    let sums = stack.reduce_dim(Reduction::Sum, 1, false).unwrap();
    assert_eq!((sums.is_lazy(), show(&sums).as_str()), (false, "{a: int64[2](3, 12), n: {b: int64[2](2, 3)}}"));
    let kept = stack.reduce_dim(Reduction::Max, -1, true).unwrap();
    assert_eq!(
        (kept.batch_size(), show(&kept).as_str()),
        (vec![2, 1], "{a: int64[2, 1](2, 5), n: {b: int64[2, 1](1, 1)}}")
    );
    assert!(stack.reduce_dim(Reduction::Sum, 0, false).unwrap_err().is_shape());
    let columns = lazy([member(longs(&[1, 2])), member(longs(&[3, 4, 5]))], 1);
    assert_eq!(show(&columns.reduce_dim(Reduction::Sum, 0, false).unwrap()), show(&sums));
    // Along another one, after which they still differ, as entries do here.
    let wide = |a: &[i64]| dict(&[2], [("a", longs(a).reshape([2, -1]).into())]);
    let stack = lazy([wide(&[1, 2]), wide(&[3, 4, 5, 6])], 0);
    let sums = stack.reduce_dim(Reduction::Sum, 1, false).unwrap();
    assert_eq!((sums.batch_size(), sums.is_lazy()), (vec![2], true));
    assert_eq!(sums.members().iter().map(show).collect::<Vec<_>>(), ["{a: int64[1](3)}", "{a: int64[2](8, 10)}"]);
    // Of stacks of stacks, the dims along which neither is stacked.
    let outer = lazy([stack.shallow_clone(), stack.shallow_clone()], 0);
    let sums = outer.reduce_dim(Reduction::Sum, 2, false).unwrap();
    assert_eq!((sums.batch_size(), sums.item_shape("a").unwrap()), (vec![2, 2], vec![2, 2, -1]));
    let error = outer.reduce_dim(Reduction::Sum, 1, false).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("member 0"), "{error}");
    // All of each leaf, jagged ones too; what only some have is left out, as it is when stacks are read.
    let leaves = lazy([sample(), sample().exclude(["x"])], 0).reduce_leaves(Reduction::Sum).unwrap();
    assert_eq!(show(&leaves), "{j: int64[](12), n: {y: int64[](14)}}");
}

#[test]
fn reducing_all() {
    // Members of 3 and of 5.
    let h = lazy(
        [
            dict(&[3], [("a", floats(&[0.0, 1.0, 2.0]).into())]),
            dict(&[5], [("a", floats(&[100.0, 101.0, 102.0, 103.0, 104.0]).into())]),
        ],
        0,
    );
    assert_eq!(show_tensor(&h.reduce(Reduction::Mean).unwrap()), "float32[](64.125)");
    assert_eq!(h.numel(), 8);
    assert_eq!(show(&h.reduce_leaves(Reduction::Mean).unwrap()), "{a: float32[](64.125)}");
    assert_eq!(show_tensor(&ragged().reduce(Reduction::Sum).unwrap()), "int64[](21)", "what one has counts");
    assert_eq!(show_tensor(&sample().reduce(Reduction::Max).unwrap()), "int64[](4)");
    assert_eq!(show_tensor(&sample().reduce(Reduction::Min).unwrap()), "int64[](1)");
    assert_eq!(show_tensor(&sample().reduce(Reduction::Prod).unwrap()), "int64[](144)");
    assert_eq!(show_tensor(&sample().reduce(Reduction::All).unwrap()), "bool[](T)");
    assert_eq!(show_tensor(&sample().zeros_like().unwrap().reduce(Reduction::Any).unwrap()), "bool[](F)");
    let mixed = dict(&[2], [at("i", &[1, 2]), ("f", floats(&[0.5, 1.5]).into())]);
    assert_eq!(show_tensor(&mixed.reduce(Reduction::Sum).unwrap()), "float32[](5)");
    assert_eq!(
        show_tensor(&dict(&[2], [at("i", &[1, 3])]).to_dtype(DType::Float64).unwrap().reduce(Reduction::Var).unwrap()),
        "float64[](2)"
    );
    assert!(TensorDict::new([2]).reduce(Reduction::Sum).unwrap_err().is_shape());
    let leaves = sample().reduce_leaves(Reduction::Sum).unwrap();
    assert_eq!(
        (show(&leaves).as_str(), leaves.batch_size()),
        ("{x: int64[](3), j: int64[](6), n: {y: int64[](7)}}", vec![])
    );

    assert_eq!((TensorDict::new([]).numel(), TensorDict::new([2, 3]).numel(), TensorDict::new([0]).numel()), (1, 6, 0));
    assert_eq!(TensorDict::new([i64::MAX, 2]).numel(), i64::MAX);
    assert_eq!(LazyStackBuilder::new([]).build().unwrap().numel(), 0);
}

#[test]
fn copies() {
    let original = sample();
    let copy = original.deep_clone().unwrap();
    assert_eq!(show(&copy), SAMPLE);
    for key in ["x", "j"] {
        let pointer = |dict: &TensorDict| match dict.entry(key).unwrap() {
            Entry::Jagged(jagged) => jagged.values().data_ptr(),
            entry => entry.as_tensor().unwrap().data_ptr(),
        };
        assert_ne!(pointer(&copy), pointer(&original));
    }
    assert!(!original.locked().deep_clone().unwrap().is_locked());
    let stack = ragged();
    let copy = stack.deep_clone().unwrap();
    assert_eq!(show_members(&copy), RAGGED);
    assert_ne!(copy.members()[1].tensor("b").unwrap().data_ptr(), stack.members()[1].tensor("b").unwrap().data_ptr());
    // An expanded tensor's copy can be written to.
    let mut expanded = dict(&[2], [("x", longs(&[1]).expand([2], false).into())]).deep_clone().unwrap();
    expanded.set_("x", longs(&[3, 4])).unwrap();
    assert_eq!(show(&expanded), "{x: int64[2](3, 4)}");
}

#[test]
fn gradients() {
    let mut td = dict(&[2], [("w", floats(&[1.0, 2.0]).into())]);
    td.requires_grad_(true).unwrap();
    let product = td.mul(&td).unwrap();
    product.tensor("w").unwrap().sum(Kind::Float).backward();
    assert_eq!(show_tensor(&td.tensor("w").unwrap().grad()), "float32[2](2, 4)");
    assert!(!product.detach().unwrap().tensor("w").unwrap().requires_grad());
    let mut product = product;
    let error = product.requires_grad_(false).unwrap_err();
    assert!(error.kind() == "libtorch" && error.nested_key() == Some(&"w".into()), "{error}");
    td.requires_grad_(false).unwrap();
    assert!(!td.tensor("w").unwrap().requires_grad());
    td.set("i", longs(&[1, 2])).unwrap();
    let error = td.requires_grad_(true).unwrap_err();
    assert!(error.kind() == "libtorch" && error.nested_key() == Some(&"i".into()), "{error}");
    assert!(!td.tensor("w").unwrap().requires_grad(), "nothing is set");
}

#[test]
fn casts_zeros_and_ones() {
    let cast = sample().to_dtype(Kind::Float).unwrap();
    let shown = r#"{x: float32[2](1, 2), j: jag(float32[3](1, 2, 3); 0, 2, 3), s: nts("a", "b"), n: {y: float32[2](3, 4), t: nts("p", "q")}}"#;
    assert_eq!(show(&cast), shown);
    assert_eq!(
        show_members(&ragged().to_dtype(DType::Bool).unwrap())[1],
        "{a: bool[1](T), n: {y: bool[1](T)}, b: bool[1](T)}"
    );
    assert_eq!(
        show_members(&ragged().zeros_like().unwrap())[1],
        "{a: int64[1](0), n: {y: int64[1](0)}, b: int64[1](0)}"
    );
    assert_eq!(show(&sample().select(["j"]).unwrap().ones_like().unwrap()), "{j: jag(int64[3](1, 1, 1); 0, 2, 3)}");
    assert_eq!(sample().cpu().unwrap().device(), Some(Device::Cpu));
    let mut labelled = lazy([sample().cpu().unwrap(), sample().cpu().unwrap()], 0);
    labelled.clear_device();
    assert_eq!((labelled.device(), labelled.members()[1].dict("n").unwrap().device()), (None, None));
    labelled.append(sample()).unwrap();
    let mut none = LazyStackBuilder::new([]).device(Device::Cpu).build().unwrap();
    none.clear_device();
    assert_eq!(none.device(), None);
    let absent = usize::try_from(tch::Cuda::device_count()).unwrap();
    assert!(sample().cuda(absent).unwrap_err().is_device());
    let empty = ragged().empty();
    assert_eq!((empty.batch_size(), show_members(&empty)), (vec![2], vec!["{}".to_owned(), "{}".to_owned()]));
}

#[test]
fn zeros_of_another_batch_size() {
    let zeros = sample().new_zeros([3]).unwrap();
    let shown = "{x: int64[3](0, 0, 0), j: jag(int64[0](); 0, 0, 0, 0), s: nts(null, null, null), n: {y: int64[3](0, 0, 0), t: nts(null, null, null)}}";
    assert_eq!((show(&zeros).as_str(), zeros.batch_size()), (shown, vec![3]));
    let mut wide = dict(&[2], [("x", floats(&[1.0, 2.0, 3.0, 4.0]).reshape([2, 2]).into())]);
    wide.set("w", TensorDict::new([2, 5])).unwrap();
    let zeros = wide.new_zeros([1, 1]).unwrap();
    assert_eq!(
        (show(&zeros).as_str(), zeros.dict("w").unwrap().batch_size()),
        ("{x: float32[1, 1, 2](0, 0), w: {}}", vec![1, 1, 5])
    );
    assert!(wide.new_zeros([-1]).unwrap_err().is_shape());
    // Rows without elements, jagged or not as the batch allows.
    let ragged_rows = sample().select(["j"]).unwrap();
    assert_eq!(show(&ragged_rows.new_zeros([2, 2]).unwrap()), "{j: int64[2, 2, 0]()}");
    assert_eq!(show(&ragged_rows.new_zeros([]).unwrap()), "{j: int64[0]()}");
    let whole = ragged_rows.shallow_clone().with_batch_size(&[]).unwrap();
    assert_eq!(show(&whole.new_zeros([]).unwrap()), "{j: jag(int64[0](); 0, 0, 0)}");
    assert_eq!(show(&whole.new_zeros([3]).unwrap()), "{j: int64[3, 2, 0]()}");
    assert!(wide.new_zeros([i64::MAX, i64::MAX]).is_err());
    assert_eq!(show(&sample().select(["s"]).unwrap().new_zeros([]).unwrap()), "{s: nts(null)}");
    assert_eq!(show(&sample().new_zeros([0]).unwrap().select(["x", "s"]).unwrap()), "{x: int64[0](), s: nts()}");
    // A stack's becomes dense.
    let zeros = ragged().exclude(["a"]).new_zeros([3]).unwrap();
    assert!(!zeros.is_lazy());
    assert_eq!(show(&zeros), "{n: {y: int64[3, 1](0, 0, 0)}}");
    let zeros = ragged().new_zeros([3]).unwrap();
    assert_eq!(show(&zeros), "{a: jag(int64[0](); 0, 0, 0, 0), n: {y: int64[3, 1](0, 0, 0)}}");
    assert_eq!(show(&ragged().select(["a"]).unwrap().new_zeros([2, 1]).unwrap()), "{a: int64[2, 1, 0]()}");
    let grid = |sizes: [i64; 2]| dict(&[], [("a", longs(&[0]).expand(sizes, false).into())]);
    let twice = lazy([grid([3, 2]), grid([4, 5])], 0);
    for (batch_size, shown) in [(vec![], "[0, 0]"), (vec![2], "[2, 0, 0]"), (vec![2, 1], "[2, 1, 0, 0]")] {
        assert_eq!(show(&twice.new_zeros(batch_size).unwrap()), format!("{{a: int64{shown}()}}"));
    }
    let nested = dict(&[2], [("l", ragged().select(["a"]).unwrap().into())]);
    assert_eq!(show(&nested.new_zeros([1]).unwrap()), "{l: {a: jag(int64[0](); 0, 0)}}");
    // Of members whose batches differ, too; dtypes are promoted, kinds and dims must be one.
    let uneven = lazy([dict(&[1], [at("a", &[1])]), dict(&[2], [("a", floats(&[2.0, 3.0]).into())])], 0);
    assert_eq!(show(&uneven.new_zeros([2, 1]).unwrap()), "{a: float32[2, 1](0, 0)}");
    let below = dict(&[2], [("n", uneven.into())]).new_zeros([3]).unwrap();
    assert_eq!(
        (show(&below).as_str(), below.dict("n").unwrap().batch_size()),
        ("{n: {a: jag(float32[0](); 0, 0, 0, 0)}}", vec![3])
    );
    let kinds = lazy([dict(&[], [at("a", &[1])]), dict(&[], [("a", "x".into())])], 0);
    assert!(is_key_error_at(&kinds.new_zeros([1]).unwrap_err(), "a"));
    let dims = lazy([dict(&[1], [at("a", &[1])]), dict(&[1], [("a", longs(&[1]).reshape([1, 1]).into())])], 0);
    let error = dims.new_zeros([1]).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"a".into()), "{error}");
}

#[test]
fn largest_and_smallest_with_their_places() {
    let grid = dict(&[2, 3], [("x", longs(&[5, 1, 2, 3, 9, 4]).reshape([2, 3]).into()), ("s", "v".into())]);
    let (largest, places) = grid.max_dim(1, false).unwrap();
    assert_eq!((show(&largest), show(&places)), ("{x: int64[2](5, 9)}".into(), "{x: int64[2](0, 1)}".into()));
    assert_eq!((largest.batch_size(), places.batch_size()), (vec![2], vec![2]));
    let (smallest, places) = grid.min_dim(0, true).unwrap();
    assert_eq!(
        (show(&smallest), show(&places)),
        ("{x: int64[1, 3](3, 1, 2)}".into(), "{x: int64[1, 3](1, 0, 0)}".into())
    );
    assert_eq!((smallest.batch_size(), places.batch_size()), (vec![1, 3], vec![1, 3]));
    // A stack as a dense one, along either dim, and members that differ one by one, nested ones too.
    for stack_dim in [0, 1] {
        let (largest, places) = grid.to_lazy_stack(stack_dim).unwrap().max_dim(1, false).unwrap();
        assert_eq!((show(&largest), show(&places)), ("{x: int64[2](5, 9)}".into(), "{x: int64[2](0, 1)}".into()));
    }
    let member = |a: &[i64], b: &[f32]| {
        dict(&[a.len() as i64], [at("a", a), ("n", dict(&[b.len() as i64], [("b", floats(b).into())]).into())])
    };
    let uneven = lazy([member(&[1, 7], &[0.5, 0.25]), member(&[3, 2, 9], &[0.0, 2.0, 1.0])], 0);
    let (largest, places) = uneven.max_dim(-1, false).unwrap();
    assert_eq!(show(&largest), "{a: int64[2](7, 9), n: {b: float32[2](0.5, 2)}}");
    assert_eq!(show(&places), "{a: int64[2](1, 2), n: {b: int64[2](0, 1)}}");
    assert!(uneven.max_dim(0, false).unwrap_err().is_shape());
    let error = sample().max_dim(0, false).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"j".into()), "{error}");
    assert!(grid.min_dim(2, false).unwrap_err().is_index());
    let error = dict(&[0], [at("x", &[])]).max_dim(0, false).unwrap_err();
    assert!(error.nested_key() == Some(&"x".into()), "{error}");
}

#[test]
fn what_lies_in_one_piece() {
    let columns = dict(&[2], [("x", longs(&[1, 2, 3, 4]).reshape([2, 2]).transpose(0, 1).into())]);
    assert!(
        sample().is_contiguous()
            && !columns.is_contiguous()
            && !dict(&[2], [("n", columns.shallow_clone().into())]).is_contiguous()
    );
    assert!(columns.contiguous().unwrap().is_contiguous() && !ragged().is_contiguous());
    let sparse = Tensor::eye(2, (Kind::Float, Device::Cpu)).to_sparse_sparse_dim(2);
    assert!(!dict(&[2], [("x", sparse.into())]).is_contiguous());
}

#[test]
fn making_dense() {
    let rows = TensorDict::lazy_stack(sample().exclude(["j"]).unbind(0).unwrap(), 0).unwrap();
    let dense = rows.contiguous().unwrap();
    assert!(!dense.is_lazy() && !dense.dict("n").unwrap().is_lazy());
    assert_eq!(show(&dense), show(&sample().exclude(["j"])));
    let error = ragged().contiguous().unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"a".into()), "{error}");
    assert_eq!(show(&ragged().exclude(["a"]).contiguous().unwrap()), "{n: {y: int64[2, 1](5, 6)}}", "b is not shared");
    let uneven = lazy([TensorDict::new([1]), TensorDict::new([2])], 0);
    assert!(uneven.contiguous().unwrap_err().is_shape());
    let none = LazyStackBuilder::new([]).batch_size([3]).stack_dim(1).build().unwrap().contiguous().unwrap();
    assert_eq!((none.is_lazy(), none.batch_size()), (false, vec![3, 0]));
    let transposed = dict(&[2], [("x", longs(&[1, 2, 3, 4]).reshape([2, 2]).transpose(0, 1).into())]);
    let packed = transposed.contiguous().unwrap();
    assert!(packed.tensor("x").unwrap().is_contiguous() && packed.equal(&transposed).unwrap());
    let nested = dict(&[2], [("l", ragged().into()), ("j", jagged(&[1], &[0, 1, 1]).into())]);
    let error = nested.contiguous().unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&["l", "a"].into()), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A stack gives what the dense tensordict gives, whatever is done to its elements.
    #[test]
    fn stacks_compute_as_dense_ones(
        values in prop::collection::vec(-9i64..9, 1..30),
        others in prop::collection::vec(-9i64..9, 1..30),
        (members, rows, dim) in (1usize..4, 0i64..4, 0i64..2),
    ) {
        let (stack, dense) = both(&values, members, rows, dim);
        let (other_stack, other) = both(&others, members, rows, dim);
        prop_assert!(stack.equal(&dense).unwrap());
        prop_assert_eq!(stack.numel(), dense.numel());
        prop_assert_eq!(show(&stack.add(&other_stack).unwrap()), show(&dense.add(&other).unwrap()));
        prop_assert_eq!(show(&dense.sub(&other_stack).unwrap()), show(&stack.sub(&other).unwrap()));
        prop_assert_eq!(show(&stack.lt_elements(&other_stack).unwrap()), show(&dense.lt_elements(&other).unwrap()));
        prop_assert_eq!(show(&stack.abs().unwrap()), show(&dense.abs().unwrap()));
        let over_batch = other.tensor("x").unwrap();
        prop_assert_eq!(show(&stack.mul(&over_batch).unwrap()), show(&dense.mul(&over_batch).unwrap()));
        let mask = over_batch.gt(0);
        prop_assert_eq!(show(&stack.masked_fill(&mask, 5).unwrap()), show(&dense.masked_fill(&mask, 5).unwrap()));
        prop_assert_eq!(
            show(&stack.where_self(&mask, &other_stack).unwrap()),
            show(&dense.where_self(&mask, &other).unwrap())
        );
        prop_assert_eq!(stack.equal(&other).unwrap(), stack.eq_elements(&other).unwrap().all().unwrap());
        for dim in [0, 1] {
            let (stack, dense) = (stack.reduce_dim(Reduction::Sum, dim, false), dense.reduce_dim(Reduction::Sum, dim, false));
            prop_assert_eq!(show(&stack.unwrap()), show(&dense.unwrap()));
        }
        prop_assert_eq!(
            show_tensor(&stack.reduce(Reduction::Sum).unwrap()),
            show_tensor(&dense.reduce(Reduction::Sum).unwrap())
        );
        prop_assert_eq!(show(&stack.new_zeros([2]).unwrap()), show(&dense.new_zeros([2]).unwrap()));
        prop_assert_eq!(show_entry(&stack.ones_like().unwrap().into()), show_entry(&dense.ones_like().unwrap().into()));
    }
}
