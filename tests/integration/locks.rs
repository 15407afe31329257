//! What a lock forbids, what it allows, and what comes out of locked stacks locked.

use tch::{Kind, Tensor};
use tensorquery::{TensorDict, UpdateOptions};

use crate::key_ops::{at, dict, lazy, longs, ragged, show_members};
use crate::show::show;

fn pair() -> TensorDict {
    let member = |values: &[i64]| dict(&[2], [at("a", values), ("n", dict(&[2], [at("y", values)]).into())]);
    lazy([member(&[1, 2]), member(&[3, 4])], 0)
}

fn states(parts: &[TensorDict]) -> Vec<bool> {
    parts.iter().map(TensorDict::is_locked).collect()
}

#[test]
fn parts_of_locked_stacks_are_locked() {
    let stack = pair().locked();
    for (what, part) in [
        ("a row", stack.index(0)),
        ("a column", stack.index((.., 0))),
        ("a slice", stack.index(1..)),
        ("a list", stack.index([1, 1])),
        ("a mask", stack.index([true, false])),
        ("another shape", stack.reshape(&[4])),
        ("a view", stack.view(&[1, 2, 2])),
        ("the same shape", stack.reshape(&[2, 2])),
        ("one dim", stack.flatten(0, 1)),
        ("two dims of the stack's", stack.unflatten(0, &[2, 1])),
        ("two dims of the members'", stack.unflatten(1, &[2, 1])),
        ("a new dim", stack.unsqueeze(0)),
        ("no dim of size 1", stack.squeeze(None)),
        ("the only member", lazy([pair()], 0).locked().squeeze(0)),
        ("another order", stack.transpose(0, 1)),
        ("itself", stack.to_lazy_stack(0)),
        ("stacked anew", stack.to_lazy_stack(1)),
        ("a sum", stack.add(1)),
        ("a negation", stack.neg()),
        ("a cast", stack.to_dtype(Kind::Float)),
        ("joined", TensorDict::cat(stack.split(&[1, 1], 0).unwrap(), 0)),
    ] {
        assert!(part.unwrap().is_locked(), "{what}");
    }
    assert_eq!(states(&stack.unbind(0).unwrap()), [true, true], "the members");
    assert_eq!(states(&stack.unbind(1).unwrap()), [true, true]);
    assert_eq!(states(&stack.split(&[1, 0, 1], 0).unwrap()), [true, false, true], "without members it is free");
    assert_eq!(states(&stack.split(&[1, 1], 1).unwrap()), [true, true]);
    assert_eq!(states(&stack.chunk(2, 0).unwrap()), [true, true]);
}

#[test]
fn copies_and_choices_are_free() {
    let stack = pair().locked();
    let condition = Tensor::from_slice(&[true, false]);
    for (what, made) in [
        ("a handle", Ok(stack.shallow_clone())),
        ("a copy", stack.deep_clone()),
        ("chosen entries", stack.select(["a"])),
        ("entries left", Ok(stack.exclude(["a"]))),
        ("applied", stack.apply(|tensor| Ok(tensor.shallow_clone()))),
        ("no rows", stack.index(2..2)),
        ("no rows of a list", stack.index(Vec::<i64>::new())),
        ("a cell", stack.index((0, 1))),
        ("dense", stack.contiguous()),
        ("filled", stack.masked_fill(&condition, 0)),
        ("without entries", Ok(stack.empty())),
        ("replaced", stack.replace(&dict(&[2], [("a", longs(&[0; 4]).reshape([2, 2]).into())]))),
    ] {
        assert!(!made.unwrap().is_locked(), "{what}");
    }
    // Parts of a dense tensordict are new ones.
    let dense = stack.contiguous().unwrap().locked();
    for part in [dense.index(0), dense.index(..), dense.reshape(&[4]), dense.reshape(&[2, 2]), dense.squeeze(None)] {
        assert!(!part.unwrap().is_locked());
    }
    assert_eq!(states(&dense.unbind(0).unwrap()), [false, false]);
    // A part that was set free is free alone.
    let mut part = stack.index(1..).unwrap();
    part.unlock().unwrap();
    part.set("b", longs(&[1, 2]).reshape([1, 2])).unwrap();
    assert!(stack.is_locked() && !stack.members()[1].contains_key("b"));
}

#[test]
fn what_is_read_by_key_is_free_and_apart() {
    for mut whole in [pair(), pair().contiguous().unwrap()] {
        whole.lock();
        let mut nested = whole.dict("n").unwrap();
        nested.set("z", longs(&[0; 4]).reshape([2, 2])).unwrap();
        assert!(!whole.contains_key(["n", "z"]));
        assert!(whole.set(["n", "z"], longs(&[0; 4]).reshape([2, 2])).unwrap_err().is_lock());
    }
    // The members of a locked stack, taken out.
    let mut member = pair().locked().into_members().unwrap().swap_remove(0);
    assert!(member.unlock().unwrap_err().to_string().contains("shallow_clone"));
    member.shallow_clone().set("z", longs(&[0, 0])).unwrap();
}

#[test]
fn values_are_written_all_the_same() {
    let mut stack = pair().locked();
    let source = pair().mul(10).unwrap();
    stack.update_(&source).unwrap();
    stack.set_("a", longs(&[5, 6, 7, 8]).reshape([2, 2])).unwrap();
    stack.set_at("a", longs(&[0]).get(0), (0, 0)).unwrap();
    stack.put_at(1, &dict(&[2], [at("a", &[1, 1])])).unwrap();
    stack.apply_(|tensor| Ok(tensor.f_neg()?)).unwrap();
    let shown = "{a: int64[2, 2](0, -6, -1, -1), n: {y: int64[2, 2](-10, -20, -30, -40)}}";
    assert_eq!(show(&stack), shown);
    stack.update_with(&pair(), &UpdateOptions::default().in_place(true)).unwrap();
    assert_eq!(show(&stack), show(&pair()));
    for error in [
        stack.update(&pair()).unwrap_err(),
        stack.rename_key("a", "b", false).unwrap_err(),
        stack.delete("a").unwrap_err(),
        stack.clear().unwrap_err(),
        stack.create_nested("m").unwrap_err(),
        stack.setdefault("m", longs(&[0; 4]).reshape([2, 2])).unwrap_err(),
        stack.put_at(0, &dict(&[2], [at("new", &[1, 1])])).unwrap_err(),
    ] {
        assert!(error.is_lock() && error.to_string().contains("Cannot modify locked TensorDict"), "{error}");
    }
    assert_eq!(show(&stack), show(&pair()));
}

#[test]
fn locked_members_of_open_stacks() {
    let mut stack = ragged();
    stack.append(dict(&[], [at("a", &[7])]).locked()).unwrap();
    assert!(!stack.is_locked() && stack.members()[2].is_locked());
    assert!(stack.edit_member(2, |member| member.set("b", longs(&[1]))).unwrap_err().is_lock());
    assert!(stack.set("c", longs(&[1, 2, 3])).unwrap_err().is_lock(), "each member gets its piece");
    assert_eq!(show_members(&stack)[2], "{a: int64[1](7)}");
    stack.edit_member(0, |member| member.set("b", longs(&[1]))).unwrap();
    assert!(stack.index(2).unwrap().is_locked() && !stack.index(0).unwrap().is_locked());
    stack.lock();
    stack.unlock().unwrap();
    assert!(!stack.members()[2].is_locked(), "all are freed together");
}
