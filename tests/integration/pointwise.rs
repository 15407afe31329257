//! The same on every element: functions, arithmetic, comparison, masks, reductions.

use tch::{Kind, Tensor};
use tensorquery::{Entry, NestedKey, Reduction, Result, TensorDict};

use crate::key_ops::{
    SAMPLE, at, dict, floats, is_key_error_at, jagged, lazy, longs, ragged, sample, show_members, strings,
};
use crate::show::{show, show_entry, show_tensor};
use crate::updating::both;

fn doubled(tensor: &Tensor) -> Result<Tensor> {
    Ok(tensor.f_mul_scalar(2i64)?)
}

#[test]
fn applying() {
    let applied = sample().apply(doubled).unwrap();
    let shown = r#"{x: int64[2](2, 4), j: jag(int64[3](2, 4, 6); 0, 2, 3), s: nts("a", "b"), n: {y: int64[2](6, 8), t: nts("p", "q")}}"#;
    assert_eq!(show(&applied), shown);
    let mut seen = Vec::new();
    let same = sample().named_apply(|key, tensor| {
        seen.push(key.to_string());
        Ok(tensor.shallow_clone())
    });
    assert_eq!((show(&same.unwrap()).as_str(), seen.join(" ").as_str()), (SAMPLE, "'x' 'j' ('n', 'y')"));
    assert_eq!(
        show_members(&ragged().apply(doubled).unwrap())[1],
        "{a: int64[1](6), n: {y: int64[1](12)}, b: int64[1](8)}"
    );
    assert!(!sample().locked().apply(doubled).unwrap().is_locked());
    // Other trailing dims are fine, the batch's are not.
    let wide = sample().select(["x"]).unwrap().apply(|tensor| Ok(tensor.f_unsqueeze(1)?)).unwrap();
    assert_eq!(show(&wide), "{x: int64[2, 1](1, 2)}");
    let summed = |key: &'static [&str]| {
        sample().named_apply(move |at, tensor| {
            Ok(if *at == NestedKey::from(key) { tensor.f_narrow(0, 0, 1)? } else { tensor.shallow_clone() })
        })
    };
    for key in [["x"].as_slice(), &["j"], &["n", "y"]] {
        let error = summed(key).unwrap_err();
        assert!(error.is_shape() && error.nested_key() == Some(&key.into()), "{error}");
    }
    let error = sample().apply(|_| Ok(Tensor::new())).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"x".into()), "{error}");
    let error = sample().apply(|tensor| Ok(tensor.f_view([7])?)).unwrap_err();
    assert!(error.kind() == "libtorch" && error.nested_key() == Some(&"x".into()), "{error}");
}

#[test]
fn leaving_leaves_out() {
    let only = |wanted: &'static [&str]| {
        move |key: &NestedKey, tensor: &Tensor| {
            Ok(wanted.iter().any(|name| key.names().iter().any(|n| n == name)).then(|| tensor.shallow_clone()))
        }
    };
    let numbers = sample().filter_non_tensor();
    assert_eq!(show(&numbers.filter_apply(only(&["y"])).unwrap().unwrap()), "{n: {y: int64[2](3, 4)}}");
    assert_eq!(show(&numbers.filter_apply(only(&["x"])).unwrap().unwrap()), "{x: int64[2](1, 2)}");
    assert!(numbers.filter_apply(only(&[])).unwrap().is_none());
    let kept = sample().filter_apply(only(&[])).unwrap().unwrap();
    assert_eq!(show(&kept), r#"{s: nts("a", "b"), n: {t: nts("p", "q")}}"#);
    let kept = ragged().filter_apply(only(&["b"])).unwrap().unwrap();
    assert_eq!(show_members(&kept), ["{}", "{b: int64[1](4)}"]);
    assert!(ragged().filter_apply(only(&[])).unwrap().is_none());
    // What was empty stays.
    let empty = dict(&[2], [("e", TensorDict::new([2]).into()), at("x", &[1, 2])]);
    assert_eq!(show(&empty.filter_apply(only(&[])).unwrap().unwrap()), "{e: {}}");
    assert!(TensorDict::new([2]).filter_apply(only(&[])).unwrap().is_some());
}

#[test]
fn applying_with_others() {
    let sum = |tensor: &Tensor, others: &[Tensor]| -> Result<Tensor> {
        others.iter().try_fold(tensor.shallow_clone(), |sum, other| Ok(sum.f_add(other)?))
    };
    let twice = sample().apply_with(&[&sample()], None, sum).unwrap();
    assert_eq!(show(&twice), show(&sample().apply(doubled).unwrap()));
    assert_eq!(show(&sample().apply_with(&[], None, sum).unwrap()), SAMPLE);
    let thrice = sample().apply_with(&[&sample(), &twice], None, |tensor, others| sum(tensor, &others[1..])).unwrap();
    assert_eq!(show(&thrice.select(["x"]).unwrap()), "{x: int64[2](3, 6)}");
    let exclusive = ragged().apply_with(&[&ragged()], None, sum).unwrap();
    assert_eq!(show_members(&exclusive), show_members(&ragged().apply(doubled).unwrap()));
    // The other may have more keys, not fewer; any may be dense.
    let numbers = sample().select(["x"]).unwrap();
    assert_eq!(show(&numbers.apply_with(&[&sample()], None, sum).unwrap()), "{x: int64[2](2, 4)}");
    assert!(is_key_error_at(&sample().apply_with(&[&sample(), &numbers], None, sum).unwrap_err(), "j"));
    let stacked = TensorDict::lazy_stack(sample().unbind(0).unwrap(), 0).unwrap();
    for (one, others) in [(&sample(), [&sample(), &stacked]), (&stacked, [&sample(), &stacked])] {
        let summed = one.apply_with(&others, None, sum).unwrap();
        assert!(summed.is_lazy());
        assert_eq!(
            show_members(&summed)[1],
            r#"{x: int64[](6), j: int64[1](9), s: nts("b"), n: {y: int64[](12), t: nts("q")}}"#
        );
    }
    let error = sample().apply_with(&[&sample(), &TensorDict::new([3])], None, sum).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("[2] here, [3]"), "{error}");
    let mut other = sample();
    other.set("j", jagged(&[1, 2, 3], &[0, 1, 3])).unwrap();
    let error = sample().apply_with(&[&other], None, sum).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"j".into()) && error.row() == Some(0), "{error}");
    other.set("j", longs(&[1, 2])).unwrap();
    assert!(is_key_error_at(&sample().apply_with(&[&other], None, sum).unwrap_err(), "j"));
}

#[test]
fn applying_under_another_batch_size() {
    let numbers = sample().exclude(["j"]).filter_non_tensor();
    let first = |tensor: &Tensor, _: &[Tensor]| Ok(tensor.f_select(0, 0)?);
    let gives = |dict: &TensorDict, sizes: &[i64], expected: &str| {
        let applied = dict.apply_with(&[], Some(sizes), first).unwrap();
        assert_eq!(
            (show(&applied).as_str(), applied.batch_size(), applied.is_lazy()),
            (expected, sizes.to_vec(), false)
        );
    };
    gives(&numbers, &[], "{x: int64[](1), n: {y: int64[](3)}}");
    assert_eq!(numbers.apply_with(&[], Some(&[]), first).unwrap().dict("n").unwrap().batch_size(), [] as [i64; 0]);
    // More dims than before, with another beside it, and of nothing at all.
    let pairs = |tensor: &Tensor, others: &[Tensor]| Ok(Tensor::f_stack(&[tensor, &others[0]], 1)?);
    let paired = numbers.apply_with(&[&numbers], Some(&[2, 2]), pairs).unwrap();
    assert_eq!(show(&paired), "{x: int64[2, 2](1, 1, 2, 2), n: {y: int64[2, 2](3, 3, 4, 4)}}");
    assert_eq!(TensorDict::new([3]).apply_with(&[], Some(&[7]), first).unwrap().batch_size(), [7]);
    // Stacks are read whole: what all members have, where it can be stacked.
    let stack = TensorDict::lazy_stack(numbers.unbind(0).unwrap(), 0).unwrap();
    gives(&stack, &[], "{x: int64[](1), n: {y: int64[](3)}}");
    let both = [&numbers, &stack].map(|dict| dict.apply_with(&[&stack], Some(&[2, 2]), pairs).unwrap());
    assert_eq!(both.map(|dict| show(&dict)), [show(&paired), show(&paired)]);
    let uneven = lazy([dict(&[], [at("a", &[1])]), dict(&[], [at("a", &[1, 2]), at("b", &[3])])], 0);
    let error = uneven.apply_with(&[], Some(&[]), first).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"a".into()), "{error}");
    // What doesn't have the other batch size is refused, what stays as well; jagged rows stay rows.
    let kept = |tensor: &Tensor, _: &[Tensor]| Ok(tensor.shallow_clone());
    assert_eq!(show(&sample().apply_with(&[], Some(&[]), kept).unwrap()), SAMPLE);
    for (sizes, key) in [([3].as_slice(), "x"), (&[2, 1], "x"), (&[-1], "x")] {
        let error = sample().apply_with(&[], Some(sizes), kept).unwrap_err();
        assert!(error.is_shape() && error.nested_key() == Some(&key.into()), "{error}");
    }
    let error = sample().select(["s"]).unwrap().apply_with(&[], Some(&[3]), kept).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"s".into()), "{error}");
    let error = sample().apply_with(&[], Some(&[]), first).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"j".into()), "{error}");
    let error = numbers.apply_with(&[], Some(&[]), |_, _| Ok(Tensor::new())).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"x".into()), "{error}");
    // Below, batch sizes may differ where the dims above agree.
    let below = |sizes: &[i64]| {
        let inner = dict(sizes, [("y", Tensor::zeros(sizes, (Kind::Float, tch::Device::Cpu)).into())]);
        dict(&[2], [("n", inner.into())])
    };
    let error = below(&[2, 3]).apply_with(&[&below(&[2, 1])], Some(&[2]), kept).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"n".into()), "{error}");
}

#[test]
fn applying_in_place() {
    let mut sample = sample().locked();
    let x = sample.tensor("x").unwrap();
    sample.apply_(|tensor| Ok(tensor.f_mul_scalar(2.5)?)).unwrap();
    assert_eq!(show_tensor(&x), "int64[2](2, 5)");
    let error = sample.apply_(|tensor| Ok(tensor.f_unsqueeze(-1)?)).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"x".into()), "{error}");
    let mut stack = ragged();
    let b = stack.members()[1].tensor("b").unwrap();
    stack.apply_(doubled).unwrap();
    assert_eq!(show_tensor(&b), "int64[1](8)");
    stack.fill_(7).unwrap();
    assert_eq!(show_members(&stack)[0], "{a: int64[2](7, 7), n: {y: int64[1](7)}}");
    stack.zero_().unwrap();
    assert!(!stack.any().unwrap() && show_tensor(&b) == "int64[1](0)");
    let mut bytes = dict(&[1], [at("x", &[1]), ("b", longs(&[1]).to_kind(Kind::Uint8).into())]);
    let error = bytes.fill_(300).unwrap_err();
    assert!(error.is_overflow() && error.nested_key() == Some(&"b".into()), "{error}");
    assert_eq!(show(&bytes), "{x: int64[1](1), b: uint8[1](1)}");
}

#[test]
fn arithmetic_with_numbers() {
    let td = dict(&[2], [at("i", &[4, 9]), ("f", floats(&[0.25, -2.5]).into())]);
    let gives = |made: Result<TensorDict>, expected: &str| assert_eq!(show(&made.unwrap()), expected);
    gives(td.add(1), "{i: int64[2](5, 10), f: float32[2](1.25, -1.5)}");
    gives(td.add(0.5), "{i: float32[2](4.5, 9.5), f: float32[2](0.75, -2)}");
    gives(td.sub(1i64), "{i: int64[2](3, 8), f: float32[2](-0.75, -3.5)}");
    gives(td.mul(-2), "{i: int64[2](-8, -18), f: float32[2](-0.5, 5)}");
    gives(td.div(2), "{i: float32[2](2, 4.5), f: float32[2](0.125, -1.25)}");
    gives(td.pow(2), "{i: int64[2](16, 81), f: float32[2](0.0625, 6.25)}");
    gives(td.remainder(4), "{i: int64[2](0, 1), f: float32[2](0.25, 1.5)}");
    gives(td.maximum(5), "{i: int64[2](5, 9), f: float32[2](5, 5)}");
    gives(td.minimum(0), "{i: int64[2](0, 0), f: float32[2](0, -2.5)}");
    gives(td.clamp(1, 5), "{i: int64[2](4, 5), f: float32[2](1, 1)}");
    gives(td.neg(), "{i: int64[2](-4, -9), f: float32[2](-0.25, 2.5)}");
    gives(td.abs(), "{i: int64[2](4, 9), f: float32[2](0.25, 2.5)}");
    gives(td.sqrt().unwrap().select(["i"]), "{i: float32[2](2, 3)}");
    gives(td.square(), "{i: int64[2](16, 81), f: float32[2](0.0625, 6.25)}");
    gives(td.floor(), "{i: int64[2](4, 9), f: float32[2](0, -3)}");
    gives(td.round(), "{i: int64[2](4, 9), f: float32[2](0, -2)}");
    gives(td.isfinite(), "{i: bool[2](T, T), f: bool[2](T, T)}");
    gives(td.zeros_like().unwrap().exp(), "{i: float32[2](1, 1), f: float32[2](1, 1)}");
    gives(td.select(["i"]).unwrap().bitwise_and(12), "{i: int64[2](4, 8)}");
    gives(td.gt_elements(4).unwrap().bitwise_not(), "{i: bool[2](T, F), f: bool[2](T, T)}");
    for error in [td.bitwise_or(1).unwrap_err(), td.bitwise_not().unwrap_err()] {
        assert!(error.kind() == "libtorch" && error.nested_key() == Some(&"f".into()), "{error}");
    }
    // A number that the dtype can't hold is no other number.
    let bytes = dict(&[2], [("b", longs(&[44, 255]).to_kind(Kind::Uint8).into())]);
    for error in [bytes.add(300).unwrap_err(), bytes.eq_elements(300).unwrap_err(), bytes.mul(-1).unwrap_err()] {
        assert!(error.is_overflow() && error.nested_key() == Some(&"b".into()), "{error}");
    }
    gives(bytes.add(1), "{b: uint8[2](45, 0)}");
    gives(bytes.lt_elements(44.5), "{b: bool[2](T, F)}");
    let truths = dict(&[2], [("t", Tensor::from_slice(&[true, false]).into())]);
    gives(truths.add(1), "{t: int64[2](2, 1)}");
    gives(truths.mul(0.5), "{t: float32[2](0.5, 0)}");
    let precise = dict(&[1], [("d", Tensor::from_slice(&[0.0f64]).into())]);
    gives(precise.add(0.1), "{d: float64[1](0.1)}");
    // Entries of dicts that aren't tensors stay, and what is nested is reached.
    let shown = r#"{x: int64[2](2, 3), j: jag(int64[3](2, 3, 4); 0, 2, 3), s: nts("a", "b"), n: {y: int64[2](4, 5), t: nts("p", "q")}}"#;
    gives(sample().add(1), shown);
    let unbatched = dict(&[], [("x", longs(&[1]).get(0).into())]);
    gives(unbatched.add(0.5), "{x: float32[](1.5)}");
    assert_eq!(show_members(&ragged().add(1).unwrap())[1], "{a: int64[1](4), n: {y: int64[1](7)}, b: int64[1](5)}");
}

#[test]
fn arithmetic_with_tensors() {
    let mut td = dict(&[2], [("x", longs(&[1, 2, 3, 4]).reshape([2, 2]).into())]);
    td.set("j", jagged(&[1, 2, 3], &[0, 2, 3])).unwrap();
    td.set("w", dict(&[2, 2], [("y", longs(&[0, 0, 0, 0]).reshape([2, 2]).into())])).unwrap();
    let per_row = td.add(&longs(&[10, 20])).unwrap();
    let shown =
        "{x: int64[2, 2](11, 12, 23, 24), j: jag(int64[3](11, 12, 23); 0, 2, 3), w: {y: int64[2, 2](10, 10, 20, 20)}}";
    assert_eq!(show(&per_row), shown);
    for one in [longs(&[10]), longs(&[10]).get(0)] {
        let shown = "{x: int64[2, 2](11, 12, 13, 14), j: jag(int64[3](11, 12, 13); 0, 2, 3), w: {y: int64[2, 2](10, 10, 10, 10)}}";
        assert_eq!(show(&td.add(&one).unwrap()), shown);
    }
    for wrong in [longs(&[1, 2, 3]), longs(&[1, 2]).reshape([2, 1]), Tensor::new()] {
        assert!(td.add(&wrong).unwrap_err().is_shape(), "{wrong:?}");
    }
    // Members' pieces along the stack dim, or one for all.
    let columns = || lazy([dict(&[3], [at("a", &[0, 0, 0])]), dict(&[3], [at("a", &[5, 5, 5])])], 1);
    for (tensor, shown) in [
        (longs(&[1, 2, 3, 4, 5, 6]).reshape([3, 2]), "int64[3, 2](1, 7, 3, 9, 5, 11)"),
        (longs(&[1, 2]), "int64[3, 2](1, 7, 1, 7, 1, 7)"),
        (longs(&[1, 2, 3]).reshape([3, 1]), "int64[3, 2](1, 6, 2, 7, 3, 8)"),
        (longs(&[1]), "int64[3, 2](1, 6, 1, 6, 1, 6)"),
    ] {
        assert_eq!(show_entry(&columns().add(&tensor).unwrap().entry("a").unwrap()), shown);
    }
    // Where members differ in size, only what is one for all.
    let uneven = lazy([dict(&[1], [at("a", &[1])]), dict(&[2], [at("a", &[2, 3])])], 0);
    let added = uneven.add(&longs(&[10, 20]).reshape([2, 1])).unwrap();
    assert_eq!(show_members(&added), ["{a: int64[1](11)}", "{a: int64[2](22, 23)}"]);
    assert!(uneven.add(&longs(&[1, 2])).unwrap_err().is_shape());
}

#[test]
fn arithmetic_with_tensordicts() {
    let exclusive = ragged().sub(&ragged()).unwrap();
    assert_eq!(show_members(&exclusive)[1], "{a: int64[1](0), n: {y: int64[1](0)}, b: int64[1](0)}");
    let sum = sample().add(&sample()).unwrap();
    assert_eq!(show(&sum), show(&sample().mul(2).unwrap()));
    // The keys must be the same, either way.
    let fewer = sample().exclude(["x"]);
    assert!(is_key_error_at(&sample().add(&fewer).unwrap_err(), "x"));
    assert!(is_key_error_at(&fewer.add(&sample()).unwrap_err(), "x"));
    let error = sample().add(&sample().exclude([["n", "y"]])).unwrap_err();
    assert!(is_key_error_at(&error, ["n", "y"]), "{error}");
    assert!(is_key_error_at(&ragged().exclude(["b"]).add(&ragged()).unwrap_err(), "b"));
    // Dims aren't matched from the end across the batch.
    let (matrix, vector) =
        (dict(&[2], [("x", longs(&[1, 2, 3, 4]).reshape([2, 2]).into())]), dict(&[2], [at("x", &[1, 2])]));
    let error = matrix.add(&vector).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("shape [2, 2] here, [2]"), "{error}");
    // Nor are members of different sizes, though both stacks have the batch size [2, -1].
    let uneven = |first: &[i64], second: &[i64]| {
        lazy([dict(&[first.len() as i64], [at("a", first)]), dict(&[second.len() as i64], [at("a", second)])], 0)
    };
    let error = uneven(&[1, 2], &[3]).add(&uneven(&[1], &[2, 3])).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("[2] here, [1]"), "{error}");
    let column = dict(&[2], [("x", longs(&[10, 20]).reshape([2, 1]).into())]);
    assert_eq!(show(&matrix.mul(&column).unwrap()), "{x: int64[2, 2](10, 20, 60, 80)}");
    assert!(matrix.add(&TensorDict::new([1])).unwrap_err().is_shape());
}

#[test]
fn locks_and_names_of_results() {
    let mut stack = ragged();
    stack.set_names([Some("s")]).unwrap();
    stack.lock();
    let named = [Some("s".to_owned())];
    for made in [stack.add(1), stack.neg(), stack.to_dtype(Kind::Float), stack.clamp(0, 1)] {
        let made = made.unwrap();
        assert_eq!((made.is_locked(), made.names().unwrap()), (true, named.to_vec()));
    }
    let mask = Tensor::from_slice(&[true, false]);
    for made in [stack.apply(doubled), stack.deep_clone(), stack.masked_fill(&mask, 0), stack.zeros_like()] {
        let made = made.unwrap();
        assert_eq!((made.is_locked(), made.names().unwrap()), (false, named.to_vec()));
    }
    let even = stack.exclude(["a", "b"]);
    assert_eq!(even.eq_elements(1).unwrap().names().unwrap(), [None]);
    assert_eq!(even.contiguous().unwrap().names().unwrap(), [None], "only the stack dim had a name");
    assert_eq!(even.reduce_dim(Reduction::Sum, 0, true).unwrap().names().unwrap(), [None]);
    let mut both_named = lazy([TensorDict::new([1]), TensorDict::new([1])], 0);
    both_named.set_names([Some("s"), Some("t")]).unwrap();
    assert_eq!(both_named.contiguous().unwrap().names().unwrap(), [Some("s".to_owned()), Some("t".to_owned())]);
    assert_eq!(both_named.empty().names().unwrap(), both_named.names().unwrap());
}

#[test]
fn comparing_elements() {
    let shown = |made: Result<TensorDict>| show(&made.unwrap());
    let mut other = sample();
    other.set_("x", longs(&[1, 9])).unwrap();
    other.set_("s", strings(&["a", "z"])).unwrap();
    let equal = r#"{x: bool[2](T, F), j: jag(bool[3](T, T, T); 0, 2, 3), s: bool[2](T, F), n: {y: bool[2](T, T), t: bool[2](T, T)}}"#;
    assert_eq!(shown(sample().eq_elements(&other)), equal);
    let differ = "{x: bool[2](F, T), j: jag(bool[3](F, F, F); 0, 2, 3), s: bool[2](F, T), n: {y: bool[2](F, F), t: bool[2](F, F)}}";
    assert_eq!(shown(sample().ne_elements(&other)), differ);
    let three = dict(&[3], [at("x", &[1, 2, 3])]);
    for (made, expected) in [
        (three.eq_elements(2), "F, T, F"),
        (three.ne_elements(2), "T, F, T"),
        (three.lt_elements(2), "T, F, F"),
        (three.le_elements(2), "T, T, F"),
        (three.gt_elements(2), "F, F, T"),
        (three.ge_elements(2.0), "F, T, T"),
        (three.lt_elements(&longs(&[2, 2, 4])), "T, F, T"),
        (three.ge_elements(&three), "T, T, T"),
    ] {
        assert_eq!(shown(made), format!("{{x: bool[3]({expected})}}"));
    }
    assert_eq!(shown(dict(&[2], [("s", strings(&["a", "b"]).into())]).eq_elements(1)), "{s: bool[2](F, F)}");
    assert!(is_key_error_at(&sample().lt_elements(1).unwrap_err(), "s"));
    let mut offsets = sample();
    offsets.set("j", jagged(&[1, 2, 3], &[0, 1, 3])).unwrap();
    let error = sample().eq_elements(&offsets).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"j".into()), "{error}");
    // Lazy against dense, both ways; exclusive entries count.
    let (stack, dense) = both(&[1, 2, 3], 2, 2, 1);
    assert!(stack.eq_elements(&dense).unwrap().all().unwrap() && dense.eq_elements(&stack).unwrap().all().unwrap());
    assert!(!stack.ne_elements(&dense).unwrap().any().unwrap());
    assert!(ragged().eq_elements(&ragged()).unwrap().all().unwrap());
    let mut changed = ragged().deep_clone().unwrap();
    changed.edit_member(1, |member| member.set_("b", longs(&[0]))).unwrap();
    assert!(!ragged().eq_elements(&changed).unwrap().all().unwrap());
    assert!(TensorDict::new([2]).all().unwrap() && !TensorDict::new([2]).any().unwrap());
}

#[test]
fn comparing_the_whole() {
    let is = |expected: bool, one: &TensorDict, two: &TensorDict| {
        assert_eq!(one.equal(two).unwrap(), expected, "{one} {two}");
        assert_eq!(two.equal(one).unwrap(), expected, "{one} {two}");
    };
    is(true, &sample(), &sample());
    is(true, &ragged(), &ragged());
    let (stack, dense) = both(&[1, 2, 3], 2, 2, 1);
    is(true, &stack, &dense);
    is(false, &stack, &dense.add(1).unwrap());
    let rows = TensorDict::lazy_stack(sample().unbind(0).unwrap(), 0).unwrap();
    is(true, &rows, &sample());
    let changes: [(NestedKey, Entry); 7] = [
        ("x".into(), longs(&[1, 3]).into()),
        ("x".into(), longs(&[1, 2]).to_kind(Kind::Int).into()),
        ("x".into(), longs(&[1, 2]).reshape([2, 1]).into()),
        ("x".into(), strings(&["a", "b"]).into()),
        ("j".into(), jagged(&[1, 2, 3], &[0, 1, 3]).into()),
        (["n", "t"].into(), strings(&["p", "Q"]).into()),
        ("new".into(), longs(&[1, 2]).into()),
    ];
    for (key, entry) in changes {
        let mut changed = sample();
        changed.set(&key, entry).unwrap();
        is(false, &changed, &sample());
        is(false, &changed, &rows);
    }
    is(false, &sample(), &sample().exclude(["x"]));
    is(false, &TensorDict::new([2]), &TensorDict::new([2, 1]));
    is(false, &ragged(), &ragged().exclude(["b"]));
    is(true, &sample(), &sample().select(["n", "s", "j", "x"]).unwrap());
    let nan = dict(&[1], [("f", floats(&[f32::NAN]).into())]);
    is(false, &nan, &nan);

    let near = |one: &TensorDict, two: &TensorDict| one.allclose(two, 1e-3, 0.0, false);
    let one = dict(&[2], [("f", floats(&[1.0, 100.0]).into()), ("s", strings(&["a", "b"]).into())]);
    let mut two = one.deep_clone().unwrap();
    two.set_("f", floats(&[1.0005, 100.05])).unwrap();
    assert!(near(&one, &two).unwrap() && !one.equal(&two).unwrap());
    two.set_("f", floats(&[1.1, 100.0])).unwrap();
    assert!(!near(&one, &two).unwrap());
    two.set_("f", floats(&[1.0, 100.0])).unwrap();
    two.set_("s", strings(&["a", "c"])).unwrap();
    assert!(!near(&one, &two).unwrap());
    assert!(!near(&nan, &nan).unwrap() && nan.allclose(&nan, 0.0, 0.0, true).unwrap());
    let truths = dict(&[1], [("b", Tensor::from_slice(&[true]).into())]);
    assert!(near(&truths, &truths).unwrap() && !near(&truths, &truths.logical_not().unwrap()).unwrap());
    assert!(near(&ragged(), &ragged()).unwrap());
    assert!(is_key_error_at(&near(&one, &nan.new_zeros([2]).unwrap()).unwrap_err(), "s"));
    assert!(
        near(&dict(&[1], [at("x", &[1])]), &dict(&[1], [("x", longs(&[1]).reshape([1, 1]).into())]))
            .unwrap_err()
            .is_shape()
    );
    let error = near(&dict(&[1], [at("x", &[1])]), &dict(&[1], [("x", floats(&[1.0]).into())])).unwrap_err();
    assert!(error.kind() == "libtorch" && error.nested_key() == Some(&"x".into()), "{error}");
}

#[test]
fn errors_name_the_member() {
    let text = |error: tensorquery::Error| error.to_string();
    let fails_at_two =
        |tensor: &Tensor| Ok(if tensor.size() == [1] { tensor.f_narrow(0, 1, 1)? } else { tensor.shallow_clone() });
    let error = text(ragged().select(["a"]).unwrap().apply(fails_at_two).unwrap_err());
    assert!(error.contains("member 1") && error.contains("'a'"), "{error}");
    let pair = |second: i64| lazy([dict(&[], [at("a", &[1])]), dict(&[], [at("a", &vec![2; second as usize])])], 0);
    let error = text(pair(3).add(&pair(2)).unwrap_err());
    assert!(error.contains("member 1") && error.contains("'a'"), "{error}");
    let error = text(lazy([pair(3)], 0).add(&lazy([pair(2)], 0)).unwrap_err());
    assert!(error.contains("member 0") && error.contains("member 1"), "{error}");
    // Below a dense one as well.
    let below = |second| dict(&[2], [("n", pair(second).into())]);
    let error = text(below(3).add(&below(2)).unwrap_err());
    assert!(error.contains("member 1") && error.contains("('n', 'a')"), "{error}");
}
