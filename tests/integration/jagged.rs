//! Jagged tensors as training uses them: taken apart, joined, padded, and as libtorch's nested tensors.

use proptest::prelude::*;
use tch::{Device, Kind, Tensor};
use tensorquery::{DType, Error, Index, JaggedTensor, PaddingSide};

use crate::show::{show_jagged, show_tensor};

pub(crate) fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

pub(crate) fn rows(lists: &[&[i64]]) -> JaggedTensor {
    JaggedTensor::from_rows(&lists.iter().map(|list| longs(list)).collect::<Vec<_>>()).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<i64> {
    Vec::try_from(tensor.flatten(0, -1).to_kind(Kind::Int64)).unwrap()
}

/// `[1, 2], [], [3]`
pub(crate) fn j() -> JaggedTensor {
    rows(&[&[1, 2], &[], &[3]])
}

/// Three rows of pairs.
pub(crate) fn pairs() -> JaggedTensor {
    let values = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).reshape([3, 2]);
    JaggedTensor::try_new(values, longs(&[0, 1, 1, 3])).unwrap()
}

#[track_caller]
pub(crate) fn fails<T>(result: Result<T, Error>, is: fn(&Error) -> bool, text: &str) {
    let error = result.err().unwrap();
    assert!(is(&error) && error.to_string().contains(text), "{error} ({})", error.kind());
}

#[test]
fn made_of_rows() {
    assert_eq!(show_jagged(&j()), "jag(int64[3](1, 2, 3); 0, 2, 2, 3)");
    let from = JaggedTensor::from_rows;
    let wide = [longs(&[1, 2]).reshape([1, 2]), Tensor::from_slice::<f32>(&[]).reshape([0, 2])];
    let wide = from(&wide).unwrap();
    assert_eq!((show_jagged(&wide), wide.shape()), ("jag(float32[1, 2](1, 2); 0, 1, 1)".to_owned(), vec![2, -1, 2]));
    assert_eq!(show_jagged(&from(&[]).unwrap()), "jag(float32[0](); 0)");
    assert_eq!(show_jagged(&from(&[longs(&[])]).unwrap()), "jag(int64[0](); 0, 0)");
    let error = from(&[longs(&[1]), longs(&[1, 2]).reshape([1, 2])]).unwrap_err();
    assert_eq!((error.is_shape(), error.row()), (true, Some(1)), "{error}");
    fails(from(&[longs(&[1]).get(0)]), Error::is_shape, "a row has no dims");
    fails(from(&[Tensor::new()]), Error::is_shape, "undefined");
    fails(from(&[j().to_strided_nested().unwrap()]), Error::is_shape, "a nested tensor");
    fails(JaggedTensor::try_new(j().to_strided_nested().unwrap(), longs(&[0])), Error::is_shape, "a nested tensor");
}

#[test]
fn lengths() {
    assert_eq!(show_tensor(&j().lengths().unwrap()), "int64[3](2, 0, 1)");
    assert_eq!(show_tensor(&j().cumulative_lengths().unwrap()), "int32[4](0, 2, 2, 3)");
    assert_eq!(
        (j().max_length().unwrap(), rows(&[]).max_length().unwrap(), rows(&[&[]]).max_length().unwrap()),
        (2, 0, 0)
    );
    // Values without storage, so that there can be many.
    let many = i64::from(i32::MAX) + 1;
    let values = Tensor::zeros([1], (Kind::Uint8, Device::Cpu)).expand([many], false);
    let many = JaggedTensor::try_new(values, longs(&[0, many])).unwrap();
    fails(many.cumulative_lengths(), Error::is_overflow, "2147483648 values are more than the 2147483647");
    assert_eq!(many.max_length().unwrap(), i64::from(i32::MAX) + 1);
}

#[test]
fn indexing() {
    let gives = |index: Index, expected: &str| assert_eq!(show_jagged(&j().index(index).unwrap()), expected);
    gives(0.into(), "jag(int64[2](1, 2); 0, 2)");
    gives((-1).into(), "jag(int64[1](3); 0, 1)");
    gives((1..).into(), "jag(int64[1](3); 0, 0, 1)");
    gives((..).into(), "jag(int64[3](1, 2, 3); 0, 2, 2, 3)");
    gives((5..9).into(), "jag(int64[0](); 0)");
    gives([2, 0, 0].into(), "jag(int64[5](3, 1, 2, 1, 2); 0, 1, 3, 5)");
    gives([true, false, true].into(), "jag(int64[3](1, 2, 3); 0, 2, 3)");
    gives(Vec::<i64>::new().into(), "jag(int64[0](); 0)");
    gives(Index::Slice { start: None, stop: None, step: -2 }, "jag(int64[3](3, 1, 2); 0, 1, 3)");
    gives(Index::Slice { start: None, stop: None, step: 2 }, "jag(int64[3](1, 2, 3); 0, 2, 3)");
    gives(Index::from_tensor(&longs(&[2, 1]).to_kind(Kind::Int)).unwrap(), "jag(int64[1](3); 0, 1, 1)");
    assert_eq!(show_jagged(&pairs().index([2]).unwrap()), "jag(float32[2, 2](3, 4, 5, 6); 0, 2)");
    fails(j().index(3), Error::is_index, "row 3 is out of bounds for 3 rows");
    fails(j().index([0, -4]), Error::is_index, "row -4 is out of bounds for 3 rows");
    fails(j().index([true]), Error::is_index, "a mask of 1 can't index 3 rows");
    fails(j().row(-4), Error::is_index, "row -4 is out of bounds for 3 rows");

    let jagged = pairs();
    let address = |tensor: &Tensor| tensor.data_ptr() as usize;
    let base = address(jagged.values());
    assert_eq!(address(jagged.index(1..).unwrap().values()), base + 8);
    assert_eq!(address(jagged.index(2).unwrap().values()), base + 8);
    assert_eq!(address(&jagged.row(2).unwrap()), base + 8);
    assert_ne!(address(jagged.index([0]).unwrap().values()), base);
    let unbound = jagged.unbind().unwrap();
    let shown: Vec<_> = unbound.iter().map(show_tensor).collect();
    assert_eq!(shown, ["float32[1, 2](1, 2)", "float32[0, 2]()", "float32[2, 2](3, 4, 5, 6)"]);
    assert_eq!(address(&unbound[2]), base + 8);
    assert!(rows(&[]).unbind().unwrap().is_empty());
}

#[test]
fn joining() {
    let cat = JaggedTensor::cat;
    let short = rows(&[&[1], &[2, 3]]);
    assert_eq!(show_jagged(&cat(&[&short, &short]).unwrap()), "jag(int64[6](1, 2, 3, 1, 2, 3); 0, 1, 3, 4, 6)");
    let joined = cat(&[&j().index(1..).unwrap(), &rows(&[]).to_dtype(DType::Int32).unwrap(), &j()]).unwrap();
    assert_eq!(show_jagged(&joined), "jag(int64[4](3, 1, 2, 3); 0, 0, 1, 3, 3, 4)");
    let floats = short.to_dtype(DType::Float32).unwrap();
    assert_eq!(
        show_jagged(&cat(&[&short, &floats.index(0).unwrap()]).unwrap()),
        "jag(float32[4](1, 2, 3, 1); 0, 1, 3, 4)"
    );
    assert_eq!(cat(&[&pairs(), &pairs()]).unwrap().shape(), [6, -1, 2]);
    assert!(cat(&[&pairs().index(..2).unwrap(), &pairs().index(2..).unwrap()]).unwrap().equal(&pairs()).unwrap());
    fails(cat(&[]), Error::is_shape, "at least one");
    fails(cat(&[&pairs(), &j()]), Error::is_shape, "shapes [3, -1, 2] and [3, -1]");
    // No values, but other dims all the same.
    fails(cat(&[&pairs(), &rows(&[])]), Error::is_shape, "can't be concatenated");
}

#[test]
fn mapping() {
    let doubled = j().map_values(|values| values.f_mul_scalar(2)).unwrap();
    assert_eq!(show_jagged(&doubled), "jag(int64[3](2, 4, 6); 0, 2, 2, 3)");
    let mapped = j().map_values(|values| values.f_unsqueeze(1)).unwrap();
    assert_eq!(mapped.shape(), [3, -1, 1]);
    fails(j().map_values(|values| values.f_narrow(0, 0, 2)), Error::is_shape, "shape [3] were mapped to shape [2]");
    fails(j().map_values(|values| values.f_sum(Kind::Int64)), Error::is_shape, "to shape []");
    fails(j().map_values(|_| Ok::<_, Error>(Tensor::new())), Error::is_shape, "undefined");
    assert_eq!(j().map_values(|values| values.f_narrow(0, 0, 9)).unwrap_err().kind(), "libtorch");
    assert_eq!(show_jagged(&j().to_dtype(DType::Bool).unwrap()), "jag(bool[3](T, T, T); 0, 2, 2, 3)");
}

#[test]
fn padding() {
    let (left, right) = (PaddingSide::Left, PaddingSide::Right);
    assert_eq!((PaddingSide::default(), left.to_string(), right.to_string()), (right, "left".into(), "right".into()));
    let jagged = rows(&[&[1, 2, 3], &[4]]);
    let padded = |side, value: i64, length| show_tensor(&jagged.to_padded(side, value, length).unwrap());
    assert_eq!(padded(right, 0, None), "int64[2, 3](1, 2, 3, 4, 0, 0)");
    assert_eq!(padded(left, 0, None), "int64[2, 3](1, 2, 3, 0, 0, 4)");
    assert_eq!(padded(right, -1, None), "int64[2, 3](1, 2, 3, 4, -1, -1)");
    assert_eq!(padded(right, 0, Some(4)), "int64[2, 4](1, 2, 3, 0, 4, 0, 0, 0)");
    assert_eq!(padded(left, 0, Some(4)), "int64[2, 4](0, 1, 2, 3, 0, 0, 0, 4)");
    // What is cut, is cut on the padding's side.
    assert_eq!(padded(right, 9, Some(2)), "int64[2, 2](1, 2, 4, 9)");
    assert_eq!(padded(left, 9, Some(2)), "int64[2, 2](2, 3, 9, 4)");
    assert_eq!(padded(left, 9, Some(0)), "int64[2, 0]()");
    assert_eq!(show_tensor(&jagged.to_padded(right, 1.7, Some(1)).unwrap()), "int64[2, 1](1, 4)");
    assert_eq!(show_tensor(&j().to_padded(right, 1.7, None).unwrap()), "int64[3, 2](1, 2, 1, 1, 3, 1)");

    let wide = "float32[3, 2, 2](1, 2, -1, -1, -1, -1, -1, -1, 3, 4, 5, 6)";
    assert_eq!(show_tensor(&pairs().to_padded(right, -1, None).unwrap()), wide);
    let wide = "float32[3, 2, 2](-1, -1, 1, 2, -1, -1, -1, -1, 3, 4, 5, 6)";
    assert_eq!(show_tensor(&pairs().to_padded(left, -1, None).unwrap()), wide);
    assert_eq!(show_tensor(&pairs().to_padded(left, 0, Some(1)).unwrap()), "float32[3, 1, 2](1, 2, 0, 0, 5, 6)");
    for dtype in [DType::Uint8, DType::Int8, DType::Int16, DType::Int32, DType::Float16, DType::Bfloat16, DType::Bool] {
        let padded = j().to_dtype(dtype).unwrap().to_padded(right, 0, None).unwrap();
        assert_eq!(DType::from(padded.kind()), dtype);
        assert_eq!(numbers(&padded.to_kind(Kind::Bool)), [1, 1, 0, 0, 1, 0]);
    }

    assert_eq!(show_tensor(&rows(&[]).to_padded(right, 0, None).unwrap()), "float32[0, 0]()");
    assert_eq!(rows(&[]).to_padded(left, 0, Some(3)).unwrap().size(), [0, 3]);
    assert_eq!(show_tensor(&rows(&[&[], &[]]).to_padded(left, 7, Some(1)).unwrap()), "int64[2, 1](7, 7)");
    for length in [-1, i64::MIN] {
        fails(j().to_padded(right, 0, Some(length)), Error::is_shape, "can't be padded to a length of");
        fails(j().mask(right, Some(length)), Error::is_shape, "can't be padded to a length of");
    }
    fails(j().to_padded(right, 0, Some(i64::MAX)), Error::is_shape, "more than can be counted");
    fails(pairs().to_padded(right, 0, Some(i64::MAX / 4)), Error::is_shape, "more than can be counted");
    assert!(j().to_padded(right, 0, Some(i64::MAX / 30)).is_err());
    assert!(j().mask(left, Some(i64::MAX)).is_err());
    assert!(j().to_padded(right, f64::NAN, None).is_err());

    for (dtype, value) in [
        (DType::Int8, 128.0),
        (DType::Int16, -32769.0),
        (DType::Uint8, 256.0),
        (DType::Int64, 1e19),
        (DType::Float16, 1e5),
        (DType::Float32, -1e39),
        (DType::Int32, f64::INFINITY),
    ] {
        fails(j().to_dtype(dtype).unwrap().to_padded(right, value, None), Error::is_overflow, "can't hold");
    }
    fails(
        j().to_dtype(DType::Int16).unwrap().to_padded(right, 1 << 15, None),
        Error::is_overflow,
        "int16 can't hold 32768",
    );
    let infinite = j().to_dtype(DType::Float16).unwrap().to_padded(right, f64::INFINITY, None).unwrap();
    assert_eq!(show_tensor(&infinite), "float16[3, 2](1, 2, inf, inf, 3, inf)");

    // Padding gets no gradient, values do.
    let leaf = Tensor::from_slice(&[1.0f32, 2.0, 3.0]).set_requires_grad(true);
    let tracked = JaggedTensor::try_new(leaf.shallow_clone(), longs(&[0, 1, 3])).unwrap();
    let padded = tracked.to_padded(left, 5, Some(1)).unwrap();
    (padded * 2.0).sum(Kind::Float).backward();
    assert_eq!(show_tensor(&leaf.grad()), "float32[3](2, 0, 2)");
}

#[test]
fn masks() {
    let (left, right) = (PaddingSide::Left, PaddingSide::Right);
    let jagged = rows(&[&[0, 1], &[0, 1, 2]]);
    let mask = |side, length| show_tensor(&jagged.mask(side, length).unwrap());
    assert_eq!(mask(right, None), "bool[2, 3](T, T, F, T, T, T)");
    assert_eq!(mask(left, None), "bool[2, 3](F, T, T, T, T, T)");
    assert_eq!(mask(right, Some(1)), "bool[2, 1](T, T)");
    assert_eq!(mask(left, Some(4)), "bool[2, 4](F, F, T, T, F, T, T, T)");
    assert_eq!(mask(left, Some(1)), "bool[2, 1](T, T)");
    assert_eq!(rows(&[]).mask(left, None).unwrap().size(), [0, 0]);
    assert_eq!(show_tensor(&pairs().mask(right, None).unwrap()), "bool[3, 2](T, F, F, F, T, T)");
}

#[test]
fn unpadding() {
    let (left, right) = (PaddingSide::Left, PaddingSide::Right);
    for side in [left, right] {
        for jagged in [j(), pairs(), rows(&[]), rows(&[&[]]), j().to_dtype(DType::Bool).unwrap()] {
            let padded = jagged.to_padded(side, 1, Some(3)).unwrap();
            let back = JaggedTensor::from_padded(&padded, &jagged.lengths().unwrap(), side).unwrap();
            assert_eq!(show_jagged(&back), show_jagged(&jagged));
            let back = JaggedTensor::from_masked(&padded, &jagged.mask(side, Some(3)).unwrap()).unwrap();
            assert_eq!(show_jagged(&back), show_jagged(&jagged));
        }
    }
    let padded = longs(&[1, 2, 3, 4]).reshape([2, 2]);
    let from = |lengths: &Tensor| JaggedTensor::from_padded(&padded, lengths, right);
    for kind in [Kind::Uint8, Kind::Int8, Kind::Int, Kind::Int64] {
        assert_eq!(show_jagged(&from(&longs(&[2, 1]).to_kind(kind)).unwrap()), "jag(int64[3](1, 2, 3); 0, 2, 3)");
    }
    // Rows and elements swapped, not copied.
    let swapped = JaggedTensor::from_padded(&padded.transpose(0, 1), &longs(&[1, 2]), left).unwrap();
    assert_eq!(show_jagged(&swapped), "jag(int64[3](3, 2, 4); 0, 1, 3)");
    let error = from(&longs(&[2, 3])).unwrap_err();
    assert_eq!((error.is_shape(), error.row()), (true, Some(1)), "{error}");
    fails(from(&longs(&[i64::MIN, 0])), Error::is_shape, "in rows of 2");
    fails(from(&longs(&[1])), Error::is_shape, "one for each of the 2 rows");
    fails(from(&longs(&[1, 1]).to_kind(Kind::Float)), Error::is_shape, "must be integers");
    fails(from(&Tensor::new()), Error::is_shape, "undefined");
    fails(JaggedTensor::from_padded(&longs(&[1]), &longs(&[1]), left), Error::is_shape, "need two dims");
    fails(JaggedTensor::from_padded(&Tensor::new(), &longs(&[1]), left), Error::is_shape, "undefined");

    let scattered = Tensor::from_slice(&[true, false, false, true]).reshape([2, 2]);
    assert_eq!(show_jagged(&JaggedTensor::from_masked(&padded, &scattered).unwrap()), "jag(int64[2](1, 4); 0, 1, 2)");
    for mask in [scattered.flatten(0, 1), scattered.to_kind(Kind::Uint8), scattered.narrow(0, 0, 1)] {
        fails(JaggedTensor::from_masked(&padded, &mask), Error::is_shape, "it must be bool[2, 2]");
    }
    fails(JaggedTensor::from_masked(&padded, &Tensor::new()), Error::is_shape, "undefined");
    fails(JaggedTensor::from_masked(&longs(&[1]), &scattered), Error::is_shape, "need two dims");
}

#[test]
fn nested_tensors_of_libtorch() {
    for jagged in [pairs(), j(), j().index(..2).unwrap(), rows(&[&[]]), j().to_dtype(DType::Uint8).unwrap()] {
        let nested = jagged.to_strided_nested().unwrap();
        assert_eq!(nested.dim(), jagged.shape().len());
        let back = JaggedTensor::from_strided_nested(&nested).unwrap();
        assert_eq!(show_jagged(&back), show_jagged(&jagged));
    }
    let jagged = pairs();
    let nested = jagged.to_strided_nested().unwrap();
    assert_eq!(nested.unbind(0)[2].data_ptr() as usize, jagged.values().data_ptr() as usize + 8);
    // libtorch's padding agrees with ours.
    let theirs = nested.to_padded_tensor(-1.0, None::<&[i64]>);
    assert_eq!(show_tensor(&theirs), show_tensor(&jagged.to_padded(PaddingSide::Right, -1, None).unwrap()));
    let strided = JaggedTensor::try_new(longs(&[1, 0, 2, 0]).slice(0, 0, None, 2), longs(&[0, 2])).unwrap();
    let back = JaggedTensor::from_strided_nested(&strided.to_strided_nested().unwrap()).unwrap();
    assert_eq!(show_jagged(&back), "jag(int64[2](1, 2); 0, 2)");

    fails(rows(&[]).to_strided_nested(), Error::is_shape, "of no rows");
    let empty = JaggedTensor::from_strided_nested(&longs(&[]).reshape([0, 3, 2])).unwrap();
    assert_eq!((show_jagged(&empty), empty.shape()), ("jag(int64[0, 2](); 0)".to_owned(), vec![0, -1, 2]));
    let dense = JaggedTensor::from_strided_nested(&longs(&[1, 2, 3, 4]).reshape([2, 2])).unwrap();
    assert_eq!(show_jagged(&dense), "jag(int64[4](1, 2, 3, 4); 0, 2, 4)");
    // Rows [1, 2] and [1, 1] differ in their second dim.
    let sizes = longs(&[1, 2, 1, 1]).reshape([2, 2]);
    let (strides, offsets) = Tensor::internal_nested_compute_contiguous_strides_offsets(&sizes);
    let uneven = longs(&[1, 2, 3]).internal_nested_view_from_buffer(&sizes, &strides, &offsets);
    fails(JaggedTensor::from_strided_nested(&uneven), Error::is_shape, "a row has shape [1, 1]");
    fails(JaggedTensor::from_strided_nested(&Tensor::new()), Error::is_shape, "undefined");
    assert!(JaggedTensor::from_strided_nested(&longs(&[1]).get(0)).is_err());
}

#[test]
fn comparing() {
    let close = |left: &JaggedTensor, right: &JaggedTensor| left.allclose(right, 1e-5, 1e-8, false).unwrap();
    assert!(j().equal(&j()).unwrap() && close(&j(), &j()));
    // The same values in other rows.
    let other = rows(&[&[1], &[2], &[3]]);
    assert!(!j().equal(&other).unwrap() && !close(&j(), &other));
    let more = rows(&[&[1, 2], &[], &[3], &[]]);
    assert!(!j().equal(&more).unwrap() && !close(&j(), &more));
    let off = rows(&[&[1, 2], &[], &[4]]);
    assert!(!j().equal(&off).unwrap() && !close(&j(), &off) && j().allclose(&off, 0.0, 1.0, false).unwrap());
    assert!(!pairs().equal(&j()).unwrap());
    let floats = j().to_dtype(DType::Float32).unwrap();
    assert!(!j().equal(&floats).unwrap());
    fails(j().allclose(&floats, 1e-5, 1e-8, false), Error::is_shape, "dtypes int64 and float32");
    let near = floats.map_values(|values| values.f_mul_scalar(1.0 + 1e-6)).unwrap();
    assert!(close(&floats, &near) && !floats.equal(&near).unwrap());
    let nan = JaggedTensor::from_rows(&[Tensor::from_slice(&[f32::NAN])]).unwrap();
    assert!(!close(&nan, &nan) && nan.allclose(&nan, 1e-5, 1e-8, true).unwrap());
    let moved = j().to_device(Device::Cpu).unwrap();
    assert_eq!(moved.values().data_ptr(), moved.shallow_clone().values().data_ptr());
}

fn slice_part() -> impl Strategy<Value = Index> {
    let bound = || prop_oneof![Just(None), (-9i64..9).prop_map(Some)];
    (bound(), bound(), prop_oneof![-3i64..0, 1i64..4]).prop_map(|(start, stop, step)| Index::Slice {
        start,
        stop,
        step,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn padding_agrees_with_lists(
        lists in prop::collection::vec(prop::collection::vec(0i64..99, 0..6), 0..8),
        length in prop::option::of(0i64..8),
        left in any::<bool>(),
    ) {
        let jagged = rows(&lists.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let side = if left { PaddingSide::Left } else { PaddingSide::Right };
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0) as i64;
        let width = length.unwrap_or(longest);
        let padded = jagged.to_padded(side, -1, length).unwrap();
        prop_assert_eq!(padded.size(), [lists.len() as i64, width]);
        let expected: Vec<i64> = lists.iter().flat_map(|list| {
            let mut row: Vec<i64> = if left { list.iter().rev().copied().collect() } else { list.clone() };
            row.resize(width as usize, -1);
            if left { row.reverse() }
            row
        }).collect();
        prop_assert_eq!(numbers(&padded), expected.clone());
        let mask = jagged.mask(side, length).unwrap();
        prop_assert_eq!(numbers(&mask), expected.iter().map(|at| i64::from(*at >= 0)).collect::<Vec<_>>());
        let kept = JaggedTensor::from_masked(&padded, &mask).unwrap();
        let again = JaggedTensor::from_padded(&padded, &kept.lengths().unwrap(), side).unwrap();
        prop_assert!(kept.equal(&again).unwrap());
        if width >= longest {
            prop_assert_eq!(numbers(kept.values()), numbers(jagged.values()));
            prop_assert_eq!(numbers(kept.offsets()), numbers(jagged.offsets()));
        }
    }

    #[test]
    fn slices_agree_with_rows(
        lists in prop::collection::vec(prop::collection::vec(0i64..99, 0..4), 0..8), index in slice_part(),
    ) {
        let jagged = rows(&lists.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let places = longs(&(0..lists.len() as i64).collect::<Vec<_>>());
        // Rows of one number each, taken the same way, tell which they are.
        let singles = JaggedTensor::from_rows(&places.split(1, 0)).unwrap().index(index.clone());
        let taken: Vec<_> = numbers(singles.unwrap().values()).into_iter().map(|at| lists[at as usize].clone()).collect();
        let found = jagged.index(index).unwrap();
        let found: Vec<_> = found.unbind().unwrap().iter().map(numbers).collect();
        prop_assert_eq!(found, taken);
    }
}
