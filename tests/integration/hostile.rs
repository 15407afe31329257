//! What nobody sane would pass: it is refused with words, or done right, and never half done.

use std::sync::Arc;

use arrow::array::{NullArray, StringArray};
use tch::{Device, Kind, Tensor};
use tensorquery::{
    Error, Index, JaggedTensor, LazyStackBuilder, MultiNestedTensor, NonTensorStack, PaddingSide, Ragged, TensorDict,
    ToArrowOptions, to_arrow, write_json,
};

use crate::show::show;

fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

fn batch(values: &[i64]) -> TensorDict {
    let entries = [("a", longs(values))];
    TensorDict::from_entries(entries).unwrap().with_batch_size(&[values.len() as i64]).unwrap()
}

fn texts(values: &[&str]) -> NonTensorStack {
    NonTensorStack::new(Arc::new(StringArray::from(values.to_vec())))
}

fn lazy<const N: usize>(members: [TensorDict; N]) -> TensorDict {
    TensorDict::lazy_stack(members, 0).unwrap()
}

fn floats(shape: &[i64]) -> Tensor {
    Tensor::ones(shape, (Kind::Float, Device::Cpu))
}

#[test]
fn nested_tensors_are_refused() {
    let nested = || JaggedTensor::from_rows(&[longs(&[1, 2]), longs(&[3])]).unwrap().to_strided_nested().unwrap();
    let stack = || lazy([batch(&[1]), batch(&[2])]);
    let refused = [
        TensorDict::new([]).set("x", nested()),
        stack().set("x", nested()),
        stack().set_list("x", vec![nested(), nested()]),
        TensorDict::new([2]).set_list("x", vec![nested(), nested()]),
        batch(&[1, 2]).set_at("a", nested(), ..),
        stack().set_at("a", nested(), ..),
        batch(&[1, 2]).set_("a", nested()),
        stack().set_("a", nested()),
        batch(&[1, 2]).apply(|_| Ok(nested())).map(drop),
        batch(&[1, 2]).add(&nested()).map(drop),
        batch(&[1, 2]).masked_fill(&nested(), 1).map(drop),
        batch(&[1, 2]).where_self(&nested(), 1).map(drop),
        TensorDict::new([2]).set_list("x", vec![Tensor::new(), Tensor::new()]),
        batch(&[1, 2]).put_at(0.., &nested()),
        stack().put_at(0, &Tensor::new()),
        batch(&[1, 2]).apply_with(&[], Some(&[]), |_, _| Ok(nested())).map(drop),
        stack().apply_with(&[], Some(&[2]), |_, _| Ok(Tensor::new())).map(drop),
        stack().get_jagged_or("x", &nested()).map(drop),
        stack().get_jagged_or("x", &Tensor::new()).map(drop),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        assert!(refused.unwrap_err().is_shape(), "{at}");
    }
}

#[test]
fn tensors_resized_behind_the_dict() {
    let made = || {
        let (mut tensor, mut td) = (floats(&[2, 3]), batch(&[1, 2]));
        td.set("x", tensor.shallow_clone()).unwrap();
        let _ = tensor.f_resize_([0i64; 0]).unwrap();
        td
    };
    let refused = [
        made().reshape(&[1, 2]).map(drop),
        made().view(&[1, 2]).map(drop),
        made().expand(&[2, 2]).map(drop),
        made().unbind(0).map(drop),
        made().set_at("x", longs(&[3]), 0),
        batch(&[1, 2]).put_at(.., &made()),
        batch(&[1, 2, 3]).put_at([0, 2], &made()),
        made().gather(0, &longs(&[1])).map(drop),
    ];
    let spread = [made().put_at(.., &longs(&[3, 4])), made().put_at([1, 0], &longs(&[3])), made().put_at(.., 1)];
    assert!(spread.iter().all(Result::is_err), "{spread:?}");
    let first = |tensor: &Tensor, _: &[Tensor]| Ok(tensor.f_select(0, 0)?);
    assert_eq!(made().apply_with(&[], Some(&[]), first).unwrap_err().nested_key(), Some(&"x".into()));
    for (at, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        let text = error.to_string();
        assert!(error.is_shape() && (text.contains("resized it") || text.contains("mismatch")), "{at}: {error}");
    }
}

#[test]
fn offsets_written_behind_the_jagged_tensor() {
    for shape in [&[][..], &[0], &[1], &[2, 2]] {
        let (values, mut offsets) = (longs(&[1, 2, 3]), longs(&[0, 2, 3]));
        let jagged = JaggedTensor::try_new(values, offsets.shallow_clone()).unwrap();
        let _ = offsets.f_resize_(shape).unwrap();
        assert!(jagged.shape()[0] >= 0);
        assert!(jagged.to_strided_nested().is_err(), "{shape:?}");
        let _ = (jagged.index(0), jagged.unbind(), jagged.max_length(), jagged.mask(PaddingSide::Left, None));
        let _ = (jagged.to_padded(PaddingSide::Left, 0, None), JaggedTensor::cat(&[&jagged, &jagged]));
        let _ = (jagged.to_dtype(Kind::Float.into()), MultiNestedTensor::from_jagged(&[&jagged]));
    }
    let (values, mut offsets) = (longs(&[1, 2, 3]), longs(&[0, 2, 3]));
    let jagged = JaggedTensor::try_new(values, offsets.shallow_clone()).unwrap();
    offsets.copy_(&longs(&[i64::MAX, i64::MAX, i64::MAX]));
    assert!(jagged.to_strided_nested().unwrap_err().is_shape());
    assert!(JaggedTensor::cat(&[&jagged, &jagged]).is_ok_and(|joined| joined.row(0).is_ok()));
}

#[test]
fn more_places_than_memory() {
    let td = || TensorDict::new([i64::MAX]);
    let refused = [
        td().unbind(0).map(drop),
        td().to_lazy_stack(0).map(drop),
        td().roll(1, 0).map(drop),
        td().split_every(1, 0).map(drop),
        td().chunk(i64::MAX, 0).map(drop),
        batch(&[1]).repeat_interleave(i64::MAX, 0).map(drop),
        lazy([batch(&[1])]).repeat(&[i64::MAX, 1]).map(drop),
        td().set("x", "text"),
        TensorDict::new([1 << 40]).set("x", "text"),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("memory"), "{at}: {error}");
    }
    td().put_at(.., 1).unwrap();
    assert!(td().put_at(.., &floats(&[2])).unwrap_err().is_shape());
    assert_eq!(td().repeat_interleave(0, 0).unwrap().batch_size(), [0]);
    let step = i64::MAX;
    assert!(TensorDict::new([-1]).index(Index::Slice { start: Some(0), stop: None, step }).is_err());
    assert!(TensorDict::new([i64::MIN]).flip(&[0]).unwrap_err().is_index());
    let columns = MultiNestedTensor::try_new(0, i64::MAX, floats(&[0]), longs(&[0])).unwrap();
    assert!(columns.to_jagged().unwrap_err().is_shape());
    let endless = longs(&[0]).expand([1 << 40], false);
    assert!(Index::from_tensor(&endless).unwrap_err().is_shape());
    assert!(JaggedTensor::try_new(floats(&[0]), endless).unwrap_err().is_shape());
    // Nothing is made for dims that no entry has.
    assert_eq!(TensorDict::new([1 << 40, 3]).index((.., [0, 1])).unwrap().batch_size(), [1 << 40, 2]);
    let mut empty = TensorDict::new([1 << 40]);
    empty.set("x", floats(&[1 << 40, 0])).unwrap();
    empty.set_at("x", floats(&[0]), [0, 1]).unwrap();
    let grid = Index::Grid { rows: vec![], shape: vec![i64::MAX, 0] };
    lazy([batch(&[1])]).set_at("a", longs(&[1]), grid).unwrap();
}

#[test]
fn lists_of_no_values_have_too_many_places() {
    let wide = |rows: i64| {
        let mut dict = TensorDict::new([rows, 0]);
        dict.set("s", "x").unwrap();
        dict
    };
    for rows in [1 << 40, i64::MAX] {
        let error = lazy([wide(rows), wide(0)]).densify(Ragged::Jagged).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("memory"), "{error}");
    }
}

/// Sizes that can be counted, of which no memory can have the bytes.
#[test]
fn more_bytes_than_can_be_counted() {
    for count in [1 << 60, 1 << 61, i64::MAX] {
        let wide = || batch(&[1]).expand(&[count]).unwrap();
        let ragged = || lazy([batch(&[1]), wide()]);
        let mut rows = TensorDict::new([1]);
        rows.set("j", JaggedTensor::from_rows(&[longs(&[1])]).unwrap()).unwrap();
        let mut part = TensorDict::new([count]);
        let refused = [
            wide().contiguous().map(drop),
            wide().deep_clone().map(drop),
            wide().add(1).map(drop),
            batch(&[1]).repeat(&[count]).map(drop),
            batch(&[1]).new_zeros([count]).map(drop),
            rows.new_zeros([count]).map(drop),
            batch(&[1]).pad(&[(count, 0)], 0).map(drop),
            rows.pad(&[(0, count)], 0).map(drop),
            part.put_at(0, &batch(&[1]).index(0).unwrap()),
            rows.jagged("j").unwrap().to_padded(PaddingSide::Right, 0, Some(count)).map(drop),
            ragged().get_padded("a", PaddingSide::Left, 0).map(drop),
            ragged().get_jagged("a").map(drop),
            ragged().get_nested("a").map(drop),
            ragged().densify(Ragged::Jagged).map(drop),
            ragged().densify(Ragged::Padded { side: PaddingSide::Right, value: 0.into() }).map(drop),
            to_arrow(wide(), &ToArrowOptions::default()).map(drop),
        ];
        for (at, refused) in refused.into_iter().enumerate() {
            assert!(refused.is_err(), "{at}: {count}");
        }
    }
}

#[test]
fn writes_are_whole_or_none() {
    let mut td = batch(&[1, 2]);
    td.set("x", floats(&[1]).expand([2], false)).unwrap();
    let mut source = batch(&[7, 8]);
    source.set("x", floats(&[2])).unwrap();
    assert!(td.put_at(.., &source).unwrap_err().is_shape());
    assert!(td.put_at([1, 0], &longs(&[5, 6])).unwrap_err().is_shape());
    assert!(td.put_at(1, 5).unwrap_err().is_shape());
    assert_eq!(show(&td), "{a: int64[2](1, 2), x: float32[2](1, 1)}");

    let mut td = batch(&[1, 2]);
    let mut source = TensorDict::from_entries([("t", texts(&["x", "y"]))]).unwrap();
    source.set("j", JaggedTensor::from_rows(&[longs(&[1])]).unwrap()).unwrap();
    let source = source.with_batch_size(&[]).unwrap();
    assert!(td.put_at(0, &source).unwrap_err().is_shape());
    assert_eq!(show(&td), "{a: int64[2](1, 2)}");
    // Values with dims beyond the batch, as tensors have them.
    td.put_at(0, &source.exclude(["j"])).unwrap();
    assert_eq!(show(&td.exclude(["a"])), r#"{t: nts("x", "y", null, null)}"#);
    assert_eq!(td.non_tensor("t").unwrap().batch_size(), [2, 2]);

    let mut td = batch(&[1, 2]);
    td.set("x", floats(&[2])).unwrap();
    let mut source = batch(&[7, 8]);
    source.set("x", floats(&[2]).to_sparse_sparse_dim(1)).unwrap();
    assert!(td.update_(&source).unwrap_err().is_shape());
    assert_eq!(show(&td), "{a: int64[2](1, 2), x: float32[2](1, 1)}");
}

#[test]
fn values_may_be_parts_of_what_is_written_to() {
    let whole = batch(&[1, 2, 3, 4]);
    let value = whole.tensor("a").unwrap().narrow(0, 0, 3);
    let mut stack = whole.to_lazy_stack(0).unwrap();
    stack.set_at("a", value, 1..4).unwrap();
    assert_eq!(show(&whole), "{a: int64[4](1, 1, 2, 3)}");
}

#[test]
fn locked_members_stay_locked() {
    let mut stack = lazy([batch(&[1]).locked(), batch(&[2])]);
    assert!(stack.edit_member(0, |member| member.set("z", longs(&[1]))).unwrap_err().is_lock());
    stack.edit_member(0, |member| member.set_("a", longs(&[5]))).unwrap();
    assert!(stack.members()[0].is_locked());
    stack.put_at((), &longs(&[8, 9]).reshape([2, 1])).unwrap();
    assert_eq!(show(&stack), "{a: int64[2, 1](8, 9)}");
    let applied = stack.apply_with(&[&stack], None, |tensor, _| Ok(tensor.shallow_clone())).unwrap();
    assert!(!applied.is_locked() && !applied.members()[0].is_locked() && stack.members()[0].is_locked());
}

#[test]
fn rows_of_values_in_several_dims() {
    let mut td = TensorDict::new([4]);
    td.set("s", texts(&["a", "b", "c", "d"])).unwrap();
    let td = td.reshape(&[2, 2]).unwrap();
    for (index, expected) in
        [(Index::from(1), r#"{s: nts("c", "d")}"#), ([1, 0].into(), r#"{s: nts("c", "d", "a", "b")}"#)]
    {
        let part = td.index(index).unwrap();
        assert_eq!(show(&part), expected);
        assert_eq!(part.non_tensor("s").unwrap().batch_size(), part.batch_size());
    }
    assert_eq!(show(&td.index(1..).unwrap()), r#"{s: nts("c", "d")}"#);
}

#[test]
fn stacks_without_members_change_shape() {
    let stack = || LazyStackBuilder::new([]).batch_size([2, 3]).build().unwrap();
    let size = |td: Result<TensorDict, Error>| td.unwrap().batch_size();
    assert_eq!(size(stack().flatten(1, 2)), [0, 6]);
    assert_eq!(size(stack().unflatten(2, &[3, 1])), [0, 2, 3, 1]);
    assert_eq!(size(stack().permute(&[2, 0, 1])), [3, 0, 2]);
    assert_eq!(size(stack().index((.., 0))), [0, 3]);
    assert_eq!(size(stack().repeat(&[i64::MAX, 2, 1])), [0, 4, 3]);
    assert_eq!(stack().unbind(1).unwrap().len(), 2);
    assert_eq!(stack().split(&[1, 1], 1).unwrap()[0].batch_size(), [0, 1, 3]);
    assert_eq!(size(TensorDict::cat([stack(), stack()], 1)), [0, 4, 3]);
    let grid = Index::Grid { rows: vec![0], shape: vec![1, 1] };
    assert_eq!(size(lazy([batch(&[1])]).index((grid, Vec::<i64>::new()))), [1, 0]);
}

#[test]
fn deep_and_wide() {
    let mut deep = batch(&[1]);
    for _ in 0..60 {
        deep = lazy([deep]);
    }
    assert_eq!(deep.shallow_clone().batch_dims(), 61);
    let members = (0..20_000).map(|_| TensorDict::new([]));
    let mut wide = TensorDict::lazy_stack(members, 0).unwrap();
    (0..20_000).for_each(|_| wide.append(TensorDict::new([])).unwrap());
    let names: Vec<String> = (0..20_000).map(|at| at.to_string()).collect();
    let dict = TensorDict::from_entries(names.iter().map(|name| (name.as_str(), longs(&[1])))).unwrap();
    assert!(dict.exclude(names.iter().map(String::as_str)).is_empty());
}

#[test]
fn indices_to_gather_by() {
    let nested = JaggedTensor::from_rows(&[longs(&[0]), longs(&[0, 1])]).unwrap().to_strided_nested().unwrap();
    let endless = longs(&[0]).expand([1 << 45], false);
    let wide = longs(&[0, 0, 0]).view([1, 3]);
    // The batch refuses them where there is no entry to do so.
    let refused = [
        (TensorDict::new([2, 2]), nested.shallow_clone()),
        (lazy([batch(&[1, 2]), batch(&[1, 2])]), nested),
        (TensorDict::new([3]), Tensor::new()),
        (TensorDict::new([3]), longs(&[3])),
        (TensorDict::new([3]), longs(&[-1])),
        (TensorDict::new([3, 2]), wide.shallow_clone()),
        (lazy([TensorDict::new([2]), TensorDict::new([2])]), wide),
    ];
    for (at, (td, index)) in refused.into_iter().enumerate() {
        assert!(td.gather(0, &index).unwrap_err().is_index(), "{at}");
    }
    for td in [TensorDict::new([3]), lazy([batch(&[1]), batch(&[1])])] {
        assert!(td.gather(0, &endless).unwrap_err().is_shape());
    }
}

#[test]
fn more_values_than_memory_has_places_for() {
    let nulls = |rows: usize| NonTensorStack::new(Arc::new(NullArray::new(rows)));
    let td = |rows: i64| {
        let mut td = TensorDict::new([rows]);
        td.set("s", nulls(rows as usize)).unwrap();
        td
    };
    let (many, most) = (1 << 45, i64::MAX);
    for rows in [many, most] {
        assert!(td(rows).unsqueeze(0).is_err());
        assert!(td(rows).index((Index::Ellipsis, 0)).is_err());
        assert!(td(rows).set_at("s", nulls(1), 0).is_err());
        assert!(TensorDict::cat([td(rows), td(rows)], 0).is_err());
        assert!(TensorDict::stack([td(rows), td(rows)], 1).is_err());
    }
    assert!(TensorDict::cat([td(most), td(most), td(most)], 0).unwrap_err().is_shape());
}

/// Zeros that libtorch keeps no memory for: elements are never copied out of it.
fn zeros(shape: &[i64], kind: Kind) -> Tensor {
    Tensor::f_internal_efficientzerotensor(shape, (kind, Device::Cpu)).unwrap()
}

#[test]
fn zeros_without_memory() {
    let nothing = longs(&[]);
    assert_eq!(JaggedTensor::try_new(nothing, zeros(&[3], Kind::Int64)).unwrap().shape(), [2, -1]);
    assert_eq!(Index::from_tensor(&zeros(&[2], Kind::Int64)).unwrap(), Index::Rows(vec![0, 0]));
    assert_eq!(Index::from_tensor(&zeros(&[2], Kind::Bool)).unwrap(), Index::Mask(vec![false; 2]));
    for kind in [Kind::Double, Kind::Int64, Kind::Bool] {
        let mut td = batch(&[1, 2]);
        td.set("z", zeros(&[2], kind)).unwrap();
        let mut text = Vec::new();
        write_json(&td, &mut text).unwrap();
        assert!(String::from_utf8(text).unwrap().contains("\"z\""), "{kind:?}");
        assert!(td.to_html().contains('z') && format!("{td:#}").contains('z'), "{kind:?}");
        // They can't be written to, so nothing else is.
        let mut values = batch(&[8, 9]);
        values.set("z", Tensor::zeros([2], (kind, Device::Cpu))).unwrap();
        assert!(td.put_at(0, 1).unwrap_err().is_shape(), "{kind:?}");
        assert!(td.put_at([1, 0], &values).unwrap_err().is_shape(), "{kind:?}");
        assert!(td.update_(&values).unwrap_err().to_string().contains("no memory"), "{kind:?}");
        assert_eq!(Vec::<i64>::try_from(td.tensor("a").unwrap()).unwrap(), [1, 2], "{kind:?}");
    }
}

#[test]
fn numbers_that_are_negated_when_they_are_read() {
    let negated = |numbers: &[i64]| longs(numbers).f_internal_neg_view().unwrap();
    let jagged = JaggedTensor::try_new(longs(&[5, 6, 7]), negated(&[0, -1, -3])).unwrap();
    assert_eq!(Vec::<i64>::try_from(jagged.row(1).unwrap()).unwrap(), [6, 7]);
    assert!(JaggedTensor::try_new(longs(&[5, 6, 7]), negated(&[0, 1, 3])).unwrap_err().is_shape());
    assert_eq!(Index::from_tensor(&negated(&[0, -1])).unwrap(), Index::Rows(vec![0, 1]));
    // Bytes that are no booleans, as booleans.
    let bytes = Tensor::from_slice(&[2u8, 0, 1]).view_dtype(Kind::Bool);
    assert_eq!(Index::from_tensor(&bytes).unwrap(), Index::Mask(vec![true, false, true]));
}

#[test]
fn elements_that_share_memory_are_not_written_to() {
    let mut td = TensorDict::new([3]);
    td.set("windows", longs(&[0, 1, 2, 3]).unfold(0, 2, 1)).unwrap();
    for index in [Index::from(0), Index::from([2, 0]), Index::from(1..)] {
        let error = td.put_at(index, 9).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("share memory"), "{error}");
    }
    assert_eq!(Vec::<Vec<i64>>::try_from(td.tensor("windows").unwrap()).unwrap(), [[0, 1], [1, 2], [2, 3]]);
    let mut copy = td.deep_clone().unwrap();
    copy.put_at(0, 9).unwrap();
    assert_eq!(Vec::<Vec<i64>>::try_from(copy.tensor("windows").unwrap()).unwrap(), [[9, 9], [1, 2], [2, 3]]);
    // Filled in one column, the others would be, too.
    let expanded = Tensor::from_slice(&[f32::NAN]).expand([4], false);
    let mut cells = MultiNestedTensor::try_new(2, 2, expanded, longs(&[0, 1, 2, 3, 4])).unwrap();
    assert!(cells.fillna_col(0, 1.0).unwrap_err().is_shape());
    assert!(cells.fillna_col_with(0, &Tensor::from_slice(&[1.0f32, 2.0])).unwrap_err().is_shape());
}
