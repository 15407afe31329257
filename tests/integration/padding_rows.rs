//! Rows added to the batch, and shares along it.

use tch::{Kind, Tensor};
use tensorquery::{LazyStackBuilder, PadSequence, PaddingSide, Reduction, TensorDict};

use crate::key_ops::{SAMPLE, at, dict, floats, jagged, lazy, longs, ragged, sample, show_members, strings};
use crate::show::{show, show_tensor};
use crate::updating::both;

#[test]
fn padding_batch_dims() {
    let padded = sample().pad(&[(1, 2)], -1).unwrap();
    let shown = r#"{x: int64[5](-1, 1, 2, -1, -1), j: jag(int64[3](1, 2, 3); 0, 0, 2, 3, 3, 3), s: nts(null, "a", "b", null, null), n: {y: int64[5](-1, 3, 4, -1, -1), t: nts(null, "p", "q", null, null)}}"#;
    assert_eq!((show(&padded).as_str(), padded.batch_size()), (shown, vec![5]));
    for none in [vec![], vec![(0, 0)]] {
        assert_eq!(show(&sample().pad(&none, 0).unwrap()), SAMPLE);
    }
    let (stack, dense) = both(&[1, 2, 3, 4], 2, 3, 0);
    let padded = dense.pad(&[(0, 1), (1, 0)], 0.0).unwrap();
    assert_eq!((padded.batch_size(), padded.dict("n").unwrap().batch_size()), (vec![3, 4], vec![3, 4]));
    assert_eq!(show_tensor(&padded.tensor("x").unwrap()), "int64[3, 4](0, 3, 4, 1, 0, 4, 1, 2, 0, 0, 0, 0)");
    assert!(padded.index((..2, 1..)).unwrap().equal(&dense).unwrap());
    let of_stack = stack.pad(&[(0, 1), (1, 0)], 0).unwrap();
    assert_eq!((of_stack.is_lazy(), show(&of_stack)), (false, show(&padded)));
    let mut named = dict(&[2], [("f", floats(&[1.0, 2.0]).into())]);
    named.set_names([Some("row")]).unwrap();
    let padded = named.pad(&[(0, 1)], f64::NAN).unwrap();
    assert_eq!(
        (show(&padded).as_str(), padded.names().unwrap()),
        ("{f: float32[3](1, 2, NaN)}", named.names().unwrap())
    );

    for wrong in [vec![(-1, 0)], vec![(0, i64::MIN)], vec![(0, 0), (0, 0)]] {
        assert!(sample().pad(&wrong, 0).unwrap_err().is_shape(), "{wrong:?}");
    }
    assert!(TensorDict::new([2]).pad(&[(i64::MAX, i64::MAX)], 0).unwrap_err().is_shape());
    assert!(dict(&[1], [at("x", &[1])]).pad(&[(i64::MAX - 1, 0)], 0).is_err());
    assert!(ragged().pad(&[(1, 0)], 0).unwrap_err().is_shape());
    let bytes = dict(&[1], [("b", longs(&[1]).to_kind(Kind::Uint8).into())]);
    let error = bytes.pad(&[(1, 0)], 300).unwrap_err();
    assert!(error.is_overflow() && error.nested_key() == Some(&"b".into()), "{error}");
    // Gradients come back to what was padded.
    let weights = Tensor::from_slice(&[1.0f32, 2.0]).set_requires_grad(true);
    let padded = dict(&[2], [("w", weights.shallow_clone().into())]).pad(&[(1, 1)], 5).unwrap();
    padded.tensor("w").unwrap().sum(Kind::Float).backward();
    assert_eq!(show_tensor(&weights.grad()), "float32[2](1, 1)");
}

#[test]
fn shares_along_a_dim() {
    let logs = |values: &[f64]| Tensor::from_slice(&values.iter().map(|value| value.ln()).collect::<Vec<_>>());
    let member = |values: &[f64]| dict(&[2], [("x", logs(values).into()), ("s", strings(&["a", "b"]).into())]);
    let mut stack = lazy([member(&[1.0, 1.0]), member(&[3.0, 1.0])], 0);
    stack.edit_member(1, |member| member.set("own", logs(&[1.0, 3.0]))).unwrap();
    stack.set_names([Some("t"), None]).unwrap();
    let close = |dict: &TensorDict, expected: &[f64]| {
        let difference = (dict.tensor("x").unwrap().reshape([-1]) - Tensor::from_slice(expected)).abs().max();
        assert!(difference.double_value(&[]) < 1e-12, "{dict:#}");
    };
    let across = stack.softmax(0).unwrap();
    close(&across, &[0.25, 0.5, 0.75, 0.5]);
    assert_eq!(
        (across.stack_dim(), across.names().unwrap(), across.members()[1].len()),
        (Some(0), stack.names().unwrap(), 2)
    );
    let within = stack.softmax(-1).unwrap();
    close(&within, &[0.5, 0.5, 0.75, 0.25]);
    assert_eq!((within.is_lazy(), within.members()[1].len()), (true, 3), "what one member has counts");
    close(&stack.contiguous().unwrap().softmax(0).unwrap(), &[0.25, 0.5, 0.75, 0.5]);
    // The logarithm of the sum of what was in the logarithms.
    let sums = stack.reduce_dim(Reduction::LogSumExp, 1, false).unwrap();
    close(&sums.exp().unwrap(), &[2.0, 4.0]);
    let kept = stack.reduce_dim(Reduction::LogSumExp, 0, true).unwrap();
    assert_eq!((kept.batch_size(), kept.is_lazy()), (vec![1, 2], false));
    let all = stack.exclude(["own"]).contiguous().unwrap().reduce(Reduction::LogSumExp).unwrap();
    assert!((all.double_value(&[]).exp() - 6.0).abs() < 1e-12);
    close(&stack.reduce_leaves(Reduction::LogSumExp).unwrap().exp().unwrap(), &[6.0]);

    for dim in [2, -3, i64::MAX, i64::MIN] {
        assert!(stack.softmax(dim).unwrap_err().is_index(), "{dim}");
    }
    let error = sample().softmax(0).unwrap_err();
    assert!(error.kind() == "libtorch" && error.nested_key() == Some(&"x".into()), "{error}");
    let rows = dict(&[2], [("j", jagged(&[1, 2, 3], &[0, 2, 3]).into())]);
    let error = rows.softmax(0).unwrap_err();
    assert!(error.is_shape() && error.nested_key() == Some(&"j".into()), "{error}");
    assert!(ragged().softmax(0).unwrap_err().is_shape());
    assert!(ragged().reduce_dim(Reduction::Max, 0, false).unwrap_err().is_shape());
    assert!(TensorDict::new([]).softmax(0).unwrap_err().is_index());
    let empty = LazyStackBuilder::new([]).batch_size([2]).build().unwrap();
    assert_eq!(empty.softmax(0).unwrap().batch_size(), [0, 2]);
}

#[test]
fn sequences_share_keys() {
    let first = dict(&[], [at("a", &[1, 2]), ("own", longs(&[1]).into())]);
    let second = dict(&[], [("a", longs(&[3]).to_kind(Kind::Int8).into()), ("s", "x".into())]);
    let padded = TensorDict::pad_sequence(&[first, second], &PadSequence::default()).unwrap();
    assert_eq!(show(&padded), "{a: int64[2, 2](1, 2, 3, 0)}", "what both have");
    let bytes = |values: &[i64]| dict(&[], [("a", longs(values).to_kind(Kind::Uint8).into())]);
    let options = PadSequence::default().side(PaddingSide::Left).value(7).masks("m");
    let padded = TensorDict::pad_sequence(&[bytes(&[1, 2]), bytes(&[3])], &options).unwrap();
    assert_eq!(show(&padded), "{a: uint8[2, 2](1, 2, 7, 3), m: {a: bool[2, 2](T, T, F, T)}}", "the dtype is kept");
    assert_eq!(show_members(&padded.unpad_sequence(&options).unwrap()), ["{a: uint8[2](1, 2)}", "{a: uint8[1](3)}"]);
    // Nested entries have masks at their keys.
    let nested = |values: &[i64]| dict(&[], [("n", dict(&[], [at("y", values)]).into())]);
    let options = PadSequence::default().masks("masks");
    let padded = TensorDict::pad_sequence(&[nested(&[1]), nested(&[2, 3])], &options).unwrap();
    let shown = "{n: {y: int64[2, 2](1, 0, 2, 3)}, masks: {n: {y: bool[2, 2](T, F, T, T)}}}";
    assert_eq!(show(&padded), shown);
    assert_eq!(show_members(&padded.unpad_sequence(&options).unwrap())[0], "{n: {y: int64[1](1)}}");
    let single = TensorDict::pad_sequence(&[bytes(&[1, 2])], &PadSequence::default()).unwrap();
    assert_eq!(show(&single), "{a: uint8[1, 2](1, 2)}");
}
