//! A default in place of the members that lack a key, and what reading such a key says without one.

use tch::Tensor;
use tensorquery::{Error, PaddingSide, Reduction, TensorDict};

use crate::key_ops::{at, dict, is_key_error_at, lazy, longs, ragged};
use crate::lazy_stacks::says;
use crate::show::{show_entry, show_jagged, show_tensor};

/// A dict of a lazy stack, whose second member alone has `n.b`.
fn nested() -> TensorDict {
    let member = |entries: &[(&str, &[i64])]| {
        let mut below = TensorDict::new([]);
        for (name, values) in entries {
            below.set(*name, longs(values)).unwrap();
        }
        dict(&[], [("n", below.into())])
    };
    lazy([member(&[("a", &[1])]), member(&[("a", &[2, 3]), ("b", &[4, 5])])], 0)
}

#[test]
fn defaults_stand_in_for_what_members_lack() {
    let none = longs(&[]);
    for (stack, key) in [(ragged(), vec!["b"]), (nested(), vec!["n", "b"])] {
        let values = if key.len() == 1 { "4" } else { "4, 5" };
        let count = values.split(',').count();
        let list = stack.get_list_or(key.clone(), none.shallow_clone()).unwrap().into_flat();
        let list: Vec<_> = list.iter().map(show_entry).collect();
        assert_eq!(list, ["int64[0]()".to_owned(), format!("int64[{count}]({values})")]);
        let padded = stack.get_padded_or(key.clone(), PaddingSide::Right, -1, &longs(&[7, 8, 9])).unwrap();
        let rest = if count == 1 { "4, -1, -1" } else { "4, 5, -1" };
        assert_eq!(show_tensor(&padded), format!("int64[2, 3](7, 8, 9, {rest})"));
        let jagged = stack.get_jagged_or(key.clone(), &none).unwrap();
        assert_eq!(show_jagged(&jagged), format!("jag(int64[{count}]({values}); 0, 0, {count})"));
        let rows = stack.get_nested_or(key.clone(), &longs(&[6])).unwrap().f_unbind(0).unwrap();
        let rows: Vec<_> = rows.iter().map(show_tensor).collect();
        assert_eq!(rows, ["int64[1](6)".to_owned(), format!("int64[{count}]({values})")]);
        assert!(stack.get_list(key.clone()).unwrap().is_none());
        assert!(stack.get_padded(key.clone(), PaddingSide::Left, 0).unwrap().is_none());
        assert!(stack.get_nested(key).unwrap().is_none());
    }
    // A key that all have needs none; one that none has is the default throughout.
    let list = ragged().get_list_or("a", none.shallow_clone()).unwrap().into_flat();
    assert_eq!(list.iter().map(show_entry).collect::<Vec<_>>(), ["int64[2](1, 2)", "int64[1](3)"]);
    let padded = ragged().get_padded_or("z", PaddingSide::Left, 0, &longs(&[1])).unwrap();
    assert_eq!(show_tensor(&padded), "int64[2, 1](1, 1)");
    // dtypes are promoted, numbers of dims must agree.
    let padded = ragged().get_padded_or("b", PaddingSide::Left, 0.5, &Tensor::from_slice(&[1.5f32, 2.0])).unwrap();
    assert_eq!(show_tensor(&padded), "float32[2, 2](1.5, 2, 0.5, 4)");
    let error = ragged().get_padded_or("b", PaddingSide::Left, 0, &longs(&[1, 2]).reshape([1, 2])).unwrap_err();
    assert!(error.is_shape() && error.nested_key().is_some(), "{error}");
    for error in [
        ragged().get_padded_or("b", PaddingSide::Left, 0, &Tensor::new()).map(drop),
        ragged().get_nested_or("b", &Tensor::new()).map(drop),
        ragged().get_nested_or("b", &longs(&[1]).get(0)).map(drop),
    ] {
        assert!(error.unwrap_err().is_shape());
    }
    assert!(ragged().get_padded_or("n", PaddingSide::Left, 0, &none).unwrap_err().is_key(), "a dict");
}

#[test]
fn a_key_of_some_members_says_which_lack_it() {
    for (stack, key, member) in [(ragged(), vec!["b"], "member 0"), (nested(), vec!["n", "b"], "member 0")] {
        for error in [
            stack.tensor(key.clone()).unwrap_err(),
            stack.entry(key.clone()).unwrap_err(),
            stack.item_shape(key.clone()).unwrap_err(),
        ] {
            assert!(is_key_error_at(&error, key.clone()), "{error}");
            says(&error, &[member, "get_jagged_or", "get_list_or"]);
        }
    }
    // Inside a dense tensordict.
    let within = dict(&[2], [("s", ragged().into())]);
    says(&within.tensor(["s", "b"]).unwrap_err(), &["member 0"]);
    says(&within.tensor(["s", "z"]).unwrap_err(), &["there is no such entry", "the keys are 's'"]);
    let error = ragged().tensor("z").unwrap_err();
    says(&error, &["there is no such entry", "the keys are 'a', 'n'"]);
    assert_eq!(format!("{error:?}"), format!("key error: {error}"), "as it leaves main");
    says(&TensorDict::new([2]).tensor("z").unwrap_err(), &["there is no such entry", "there are none"]);
}

#[test]
fn means_of_integers_say_what_to_do() {
    let longs = dict(&[2], [at("x", &[1, 2])]);
    for how in [Reduction::Mean, Reduction::Std, Reduction::Var] {
        for error in [
            longs.reduce(how).unwrap_err(),
            longs.reduce_leaves(how).map(drop).unwrap_err(),
            longs.reduce_dim(how, 0, false).map(drop).unwrap_err(),
        ] {
            assert!(Error::is_schema(&error));
            says(&error, &["int64", "to_dtype(Kind::Float)"]);
        }
    }
}
