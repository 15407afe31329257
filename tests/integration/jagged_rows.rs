//! Rows of jagged tensors reduced, filtered, and copied by run, and what tries to break that.

use proptest::prelude::*;
use tch::{Device, Kind, Tensor};
use tensorquery::{DType, Error, JaggedTensor, MultiNestedTensor, PaddingSide};

use crate::jagged::{fails, j, longs, pairs, rows};
use crate::show::{show_jagged, show_tensor};

#[test]
fn rows_reduced() {
    let sums = |jagged: &JaggedTensor| show_tensor(&jagged.sum_rows().unwrap());
    let means = |jagged: &JaggedTensor| show_tensor(&jagged.mean_rows(f64::NAN).unwrap());
    let extremes =
        |jagged: &JaggedTensor| (show_tensor(&jagged.max_rows(7).unwrap()), show_tensor(&jagged.min_rows(7).unwrap()));
    assert_eq!((sums(&j()).as_str(), means(&j()).as_str()), ("int64[3](3, 0, 3)", "float32[3](1.5, NaN, 3)"));
    assert_eq!(extremes(&j()), ("int64[3](2, 7, 3)".to_owned(), "int64[3](1, 7, 3)".to_owned()));
    assert_eq!(sums(&pairs()), "float32[3, 2](1, 2, 0, 0, 8, 10)");
    assert_eq!(means(&pairs()), "float32[3, 2](1, 2, NaN, NaN, 4, 5)");
    assert_eq!(show_tensor(&pairs().max_rows(f64::NEG_INFINITY).unwrap()), "float32[3, 2](1, 2, -inf, -inf, 5, 6)");
    // Every dtype, with rows of its own smallest and largest.
    for (kind, least, most) in [
        (Kind::Uint8, 0, 255),
        (Kind::Int8, -128, 127),
        (Kind::Int16, i64::from(i16::MIN), i64::from(i16::MAX)),
        (Kind::Int, i64::from(i32::MIN), i64::from(i32::MAX)),
        (Kind::Int64, i64::MIN, i64::MAX),
    ] {
        let jagged = JaggedTensor::try_new(longs(&[least, least, most, most]).to_kind(kind), longs(&[0, 2, 2, 4]));
        let jagged = jagged.unwrap();
        let dtype = DType::from(kind);
        let shown = format!("{dtype}[3]({least}, 7, {most})");
        assert_eq!(extremes(&jagged), (shown.clone(), shown));
        assert_eq!(jagged.sum_rows().unwrap().kind(), Kind::Int64);
        assert_eq!(jagged.mean_rows(0).unwrap().kind(), Kind::Float);
        fails(jagged.max_rows(f64::NAN), Error::is_overflow, "can't hold NaN");
        fails(jagged.min_rows(f64::INFINITY), Error::is_overflow, "can't hold inf");
    }
    let bools = JaggedTensor::try_new(longs(&[1, 0, 1]).to_kind(Kind::Bool), longs(&[0, 2, 2, 3])).unwrap();
    assert_eq!((sums(&bools).as_str(), means(&bools).as_str()), ("int64[3](1, 0, 1)", "float32[3](0.5, NaN, 1)"));
    assert_eq!(show_tensor(&bools.max_rows(0).unwrap()), "bool[3](T, F, T)");
    assert_eq!(show_tensor(&bools.min_rows(1).unwrap()), "bool[3](F, T, T)");
    for kind in [Kind::Half, Kind::BFloat16, Kind::Float, Kind::Double] {
        // More than a half counts one by one.
        let many = Tensor::ones([5000], (kind, Device::Cpu));
        let many = JaggedTensor::try_new(many, longs(&[0, 4096, 4096, 5000])).unwrap();
        let dtype = DType::from(kind);
        assert_eq!(show_tensor(&many.sum_rows().unwrap().to_kind(Kind::Double)), "float64[3](4096, 0, 904)", "{dtype}");
        let shown = [many.mean_rows(0.5).unwrap(), many.max_rows(-2).unwrap()]
            .map(|rows| (rows.kind(), show_tensor(&rows.to_kind(Kind::Double))));
        assert_eq!(shown.map(|(kind, _)| kind), [kind, kind]);
        let two = many.map_values(|values| values.f_mul_scalar(f64::NAN)).unwrap();
        assert!(
            two.max_rows(0).unwrap().get(0).isnan().int64_value(&[]) == 1
                && two.min_rows(0).unwrap().double_value(&[1]) == 0.0
        );
    }
    let infinite = JaggedTensor::from_rows(&[Tensor::from_slice(&[f32::NEG_INFINITY; 2])]).unwrap();
    assert_eq!(show_tensor(&infinite.max_rows(0).unwrap()), "float32[1](-inf)");
    // No rows, no values, no columns.
    for (values, offsets, shape) in [
        (vec![0i64], vec![0i64], vec![0i64]),
        (vec![0, 2], vec![0, 0], vec![1, 2]),
        (vec![3, 0], vec![0, 1, 3], vec![2, 0]),
    ] {
        let jagged =
            JaggedTensor::try_new(Tensor::zeros(&values, (Kind::Float, Device::Cpu)), longs(&offsets)).unwrap();
        for reduced in [jagged.sum_rows(), jagged.mean_rows(1), jagged.max_rows(1), jagged.min_rows(1)] {
            assert_eq!(reduced.unwrap().size(), shape);
        }
    }
    assert!(
        JaggedTensor::try_new(longs(&[1, 2]).to_kind(Kind::ComplexFloat), longs(&[0, 2])).unwrap().max_rows(0).is_err()
    );
}

#[test]
fn gradients_of_reduced_rows() {
    let values = Tensor::from_slice(&[1.0f32, 3.0, 3.0, f32::NAN, 5.0]).set_requires_grad(true);
    let jagged = JaggedTensor::try_new(values.shallow_clone(), longs(&[0, 3, 3, 5])).unwrap();
    let known = jagged.filter(&values.isfinite()).unwrap();
    let gradient = |reduced: Tensor| {
        let weights = Tensor::from_slice(&[1.0f32, 10.0, 100.0]);
        show_tensor(&Tensor::run_backward(&[reduced.dot(&weights)], &[&values], true, false)[0])
    };
    assert_eq!(gradient(known.sum_rows().unwrap()), "float32[5](1, 1, 1, 0, 100)");
    let thirds = gradient(
        known
            .map_values(|values| values.f_mul_scalar(3.0))
            .unwrap()
            .mean_rows(f64::NAN)
            .unwrap()
            .nan_to_num(0.0, None, None),
    );
    assert_eq!(thirds, "float32[5](1, 1, 1, 0, 300)");
    assert_eq!(gradient(known.max_rows(0).unwrap()), "float32[5](0, 0.5, 0.5, 0, 100)");
    assert_eq!(gradient(known.min_rows(0).unwrap()), "float32[5](1, 0, 0, 0, 100)");
}

#[test]
fn values_filtered() {
    let filtered = |mask: &[bool]| show_jagged(&j().filter(&Tensor::from_slice(mask)).unwrap());
    assert_eq!(filtered(&[false, true, true]), "jag(int64[2](2, 3); 0, 1, 1, 2)");
    assert_eq!(filtered(&[false; 3]), "jag(int64[0](); 0, 0, 0, 0)");
    assert_eq!(filtered(&[true; 3]), show_jagged(&j()));
    let wide = pairs().filter(&Tensor::from_slice(&[true, false, true])).unwrap();
    assert_eq!(show_jagged(&wide), "jag(float32[2, 2](1, 2, 5, 6); 0, 1, 1, 2)");
    assert_eq!(show_jagged(&rows(&[]).filter(&Tensor::from_slice::<bool>(&[])).unwrap()), "jag(float32[0](); 0)");
    fails(j().filter(&Tensor::from_slice(&[true])), Error::is_shape, "bool[1]; it must be bool[3]");
    fails(j().filter(&longs(&[1, 1, 1])), Error::is_shape, "int64[3]; it must be bool[3]");
    fails(j().filter(&Tensor::from_slice(&[true; 3]).reshape([3, 1])), Error::is_shape, "bool[3, 1]");
    fails(j().filter(&Tensor::new()), Error::is_shape, "undefined");
    fails(j().filter(&j().to_strided_nested().unwrap()), Error::is_shape, "nested");
    // Offsets that another handle changed.
    for changed in [[0i64, 2, 9, 3], [0, 2, -1, 3], [0, 2, 1, 3], [0, 2, i64::MAX, 3], [0, 2, i64::MIN, 3]] {
        let mut offsets = longs(&[0, 2, 2, 3]);
        let jagged = JaggedTensor::try_new(longs(&[1, 2, 3]), offsets.shallow_clone()).unwrap();
        offsets.copy_(&longs(&changed));
        assert!(jagged.filter(&Tensor::from_slice(&[true, true, false])).is_err(), "{changed:?}");
        for reduced in [jagged.sum_rows(), jagged.mean_rows(1), jagged.max_rows(1), jagged.min_rows(1)] {
            assert!(reduced.is_err(), "{changed:?}");
        }
        for side in [PaddingSide::Left, PaddingSide::Right] {
            assert!(jagged.to_padded(side, 0, None).is_err(), "{changed:?}");
            assert!(jagged.to_padded(side, 0, Some(2)).is_err(), "{changed:?}");
        }
    }
}

/// All that makes something of a jagged tensor's rows.
fn all_ways(jagged: &JaggedTensor) -> Vec<Result<Tensor, Error>> {
    let mask = jagged.values().ones_like().to_kind(Kind::Bool);
    let values = |jagged: JaggedTensor| jagged.values().shallow_clone();
    let mut ways = vec![jagged.sum_rows(), jagged.mean_rows(1), jagged.max_rows(1), jagged.min_rows(1)];
    ways.push(jagged.filter(&mask).map(values));
    ways.push(MultiNestedTensor::from_jagged(&[jagged, jagged]).map(|mnt| mnt.values().shallow_clone()));
    for side in [PaddingSide::Left, PaddingSide::Right] {
        ways.extend([None, Some(0), Some(1), Some(7)].map(|length| jagged.to_padded(side, 0, length)));
    }
    ways
}

#[test]
fn odd_values() {
    // Zeros that libtorch keeps no memory for.
    let zeros = Tensor::f_internal_efficientzerotensor([3], (Kind::Float, Device::Cpu)).unwrap();
    let jagged = JaggedTensor::try_new(zeros, longs(&[0, 2, 2, 3])).unwrap();
    for made in all_ways(&jagged).into_iter().flatten() {
        assert!(made.abs().sum(Kind::Double).double_value(&[]) <= 7.0);
    }
    // One number that is many: strides of 0, contiguous nowhere.
    let expanded = Tensor::from_slice(&[2i64]).expand([3], false);
    let jagged = JaggedTensor::try_new(expanded, longs(&[0, 2, 2, 3])).unwrap();
    assert_eq!(show_tensor(&jagged.sum_rows().unwrap()), "int64[3](4, 0, 2)");
    let padded = jagged.to_padded(PaddingSide::Left, -1, None).unwrap();
    assert_eq!(show_tensor(&padded), "int64[3, 2](2, 2, -1, -1, -1, 2)");
    // More than memory holds.
    let endless = Tensor::zeros([1], (Kind::Uint8, Device::Cpu)).expand([1 << 50], false);
    let jagged = JaggedTensor::try_new(endless, longs(&[0, 1 << 50])).unwrap();
    let ways = [jagged.sum_rows(), jagged.mean_rows(0), jagged.max_rows(0), jagged.min_rows(0)];
    assert!(ways.iter().all(Result::is_err));
    assert!(jagged.to_padded(PaddingSide::Right, 0, None).is_err());
    fails(j().to_padded(PaddingSide::Right, 0, Some(i64::MAX)), Error::is_shape, "can be counted");
    assert!(j().to_padded(PaddingSide::Left, 0, Some(i64::MAX / 4)).is_err(), "more than memory");
    // Rows of nothing can be as long as can be counted.
    let nothing = JaggedTensor::try_new(Tensor::zeros([2, 0], (Kind::Float, Device::Cpu)), longs(&[0, 2])).unwrap();
    let padded = nothing.to_padded(PaddingSide::Left, 0, Some(i64::MAX)).unwrap();
    assert_eq!(padded.size(), [1, i64::MAX, 0]);
    // Sparse values, complex ones, and those of other strides.
    let sparse = Tensor::eye(3, (Kind::Float, Device::Cpu)).to_sparse_sparse_dim(1);
    if let Ok(jagged) = JaggedTensor::try_new(sparse, longs(&[0, 2, 2, 3])) {
        let ways = [jagged.max_rows(1), jagged.to_padded(PaddingSide::Left, 0, None)];
        assert!(ways.into_iter().flatten().all(|made| made.defined()));
    }
    let complex = longs(&[1, 2, 3]).to_kind(Kind::ComplexFloat);
    let complex = JaggedTensor::try_new(complex, longs(&[0, 2, 2, 3])).unwrap();
    assert_eq!(complex.sum_rows().unwrap().real().double_value(&[0]), 3.0);
    assert_eq!(complex.to_padded(PaddingSide::Left, 0, None).unwrap().size(), [3, 2]);
    let turned = longs(&[1, 10, 2, 20, 3, 30]).reshape([3, 2]).tr().contiguous().tr();
    let turned = JaggedTensor::try_new(turned, longs(&[0, 2, 2, 3])).unwrap();
    assert_eq!(show_tensor(&turned.sum_rows().unwrap()), "int64[3, 2](3, 30, 0, 0, 3, 30)");
    assert_eq!(show_tensor(&turned.max_rows(0).unwrap()), "int64[3, 2](2, 20, 0, 0, 3, 30)");
    // Values that another handle resized.
    for size in [vec![], vec![2], vec![9], vec![3, 2]] {
        let mut values = longs(&[1, 2, 3]);
        let jagged = JaggedTensor::try_new(values.shallow_clone(), longs(&[0, 2, 2, 3])).unwrap();
        let _ = values.resize_(&size);
        for made in all_ways(&jagged).into_iter().flatten() {
            assert!(made.defined(), "{size:?}");
        }
    }
    for offsets in [vec![], vec![0i64], vec![0, 1 << 40]] {
        let mut changed = longs(&[0, 2, 2, 3]);
        let jagged = JaggedTensor::try_new(longs(&[1, 2, 3]), changed.shallow_clone()).unwrap();
        let size = [offsets.len() as i64];
        changed.resize_(size).copy_(&longs(&offsets));
        for made in all_ways(&jagged).into_iter().flatten() {
            assert!(made.defined(), "{offsets:?}");
        }
    }
}

#[test]
fn endless_rows_without_columns() {
    let endless = MultiNestedTensor::try_new(i64::MAX, 0, longs(&[]), longs(&[0])).unwrap();
    let joined = MultiNestedTensor::cat(&[&endless, &endless], 1).unwrap();
    assert_eq!(joined.shape(), [i64::MAX, 0, -1]);
    let empty = rows(&[&[], &[]]);
    assert_eq!(MultiNestedTensor::from_jagged(&[&empty, &empty]).unwrap().shape(), [2, 2, -1]);
}

#[test]
fn gradients_of_views() {
    // The values are a view of a leaf, and are padded, taken out of padding, and put side by side.
    let leaf = Tensor::from_slice(&[9.0f32, 1.0, 2.0, 3.0]).set_requires_grad(true);
    let jagged = JaggedTensor::try_new(leaf.narrow(0, 1, 3), longs(&[0, 2, 2, 3])).unwrap();
    let gradient =
        |made: Tensor| show_tensor(&Tensor::run_backward(&[made.sum(Kind::Float)], &[&leaf], true, false)[0]);
    for side in [PaddingSide::Left, PaddingSide::Right] {
        let padded = jagged.to_padded(side, 5.0, None).unwrap();
        let back = JaggedTensor::from_padded(&padded, &jagged.lengths().unwrap(), side).unwrap();
        assert!(back.equal(&jagged).unwrap());
        assert_eq!(gradient(padded), "float32[4](0, 1, 1, 1)");
        assert_eq!(gradient(back.values() * 2.0), "float32[4](0, 2, 2, 2)");
        let cut = jagged.to_padded(side, 5.0, Some(1)).unwrap();
        let kept = if side == PaddingSide::Left { "0, 0, 1, 1" } else { "0, 1, 0, 1" };
        assert_eq!(gradient(cut), format!("float32[4]({kept})"));
    }
    let cells = MultiNestedTensor::from_jagged(&[&jagged, &jagged]).unwrap();
    assert_eq!(gradient(cells.values().shallow_clone()), "float32[4](0, 2, 2, 2)");
    let same = tch::no_grad(|| jagged.to_padded(PaddingSide::Right, 0, None).unwrap());
    assert_eq!((show_tensor(&same).as_str(), same.requires_grad()), ("float32[3, 2](1, 2, 0, 0, 3, 0)", false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With and without gradients, rows are copied in two ways. Both give what lists give.
    #[test]
    fn both_ways_agree_with_lists(
        lists in prop::collection::vec(prop::collection::vec(-9i64..9, 0..6), 0..6),
        kept in prop::collection::vec(any::<bool>(), 36),
        length in prop::option::of(0i64..8),
        wide in any::<bool>(),
    ) {
        let mut flat = longs(&lists.concat()).to_kind(Kind::Float);
        if wide {
            flat = Tensor::stack(&[&flat, &(&flat * 100.0)], 1);
        }
        let ends = lists.iter().scan(0, |end, list| { *end += list.len() as i64; Some(*end) });
        let offsets: Vec<i64> = std::iter::once(0).chain(ends).collect();
        let by_run = JaggedTensor::try_new(flat.shallow_clone(), longs(&offsets)).unwrap();
        let recorded = JaggedTensor::try_new(flat.copy().set_requires_grad(true), longs(&offsets)).unwrap();
        for side in [PaddingSide::Left, PaddingSide::Right] {
            let [ours, theirs] = [&by_run, &recorded].map(|jagged| jagged.to_padded(side, -0.5, length).unwrap());
            prop_assert_eq!(show_tensor(&ours), show_tensor(&theirs.detach()));
            let width = ours.size()[1];
            let lengths = by_run.lengths().unwrap().clamp_max(width);
            let [ours, theirs] = [ours, theirs].map(|padded| JaggedTensor::from_padded(&padded, &lengths, side).unwrap());
            prop_assert_eq!(show_jagged(&ours), show_jagged(&theirs.map_values(|values| values.f_detach()).unwrap()));
        }
        if !wide {
            let [ours, theirs] = [&by_run, &recorded].map(|jagged| MultiNestedTensor::from_jagged(&[jagged, &by_run, jagged]).unwrap());
            prop_assert_eq!(show_tensor(ours.values()), show_tensor(&theirs.values().detach()));
            prop_assert_eq!(show_tensor(ours.offset()), show_tensor(theirs.offset()));
        }
        // Row by row.
        let mask: Vec<bool> = kept[..flat.size()[0] as usize].to_vec();
        let filtered = by_run.filter(&Tensor::from_slice(&mask)).unwrap();
        let column = |tensor: &Tensor| Vec::<f64>::try_from(if wide { tensor.select(1, 1) / 100.0 } else { tensor.shallow_clone() }.to_kind(Kind::Double)).unwrap();
        let of = |reduced: Result<Tensor, Error>| column(&reduced.unwrap());
        let chosen: Vec<Vec<f64>> = lists.iter().scan(0, |at, list| {
            let row = list.iter().zip(&mask[*at..]).filter(|(_, keep)| **keep).map(|(value, _)| *value as f64).collect();
            *at += list.len();
            Some(row)
        }).collect();
        prop_assert_eq!(column(filtered.values()), chosen.concat());
        let expected = |reduce: fn(&[f64]) -> f64| -> Vec<f64> { chosen.iter().map(|row| reduce(row)).collect() };
        let largest: fn(&[f64]) -> f64 = |row| row.iter().copied().reduce(f64::max).unwrap_or(-100.0);
        prop_assert_eq!(of(filtered.sum_rows()), expected(|row| row.iter().sum()));
        let empty = if wide { -10_000.0 } else { -100.0 };
        prop_assert_eq!(of(filtered.max_rows(empty)), expected(largest));
        let smallest: fn(&[f64]) -> f64 = |row| row.iter().copied().reduce(f64::min).unwrap_or(-100.0);
        prop_assert_eq!(of(filtered.min_rows(empty)), expected(smallest));
        let means = of(filtered.mean_rows(empty));
        let mean: fn(&[f64]) -> f64 = |row| if row.is_empty() { -100.0 } else { row.iter().sum::<f64>() / row.len() as f64 };
        prop_assert!(means.iter().zip(expected(mean)).all(|(ours, theirs)| (ours - theirs).abs() < 1e-5));
    }
}

#[test]
fn long_rows_lose_nothing() {
    let count = (1i64 << 24) + 4;
    for kind in [Kind::Float, Kind::BFloat16] {
        let ones = JaggedTensor::try_new(Tensor::ones([count], (kind, Device::Cpu)), longs(&[0, count])).unwrap();
        let sum = ones.sum_rows().unwrap();
        assert_eq!(
            (sum.kind(), sum.double_value(&[0])),
            (kind, if kind == Kind::Float { count } else { 1 << 24 } as f64)
        );
        assert_eq!(ones.mean_rows(0).unwrap().double_value(&[0]), 1.0);
    }
    // A sum of integers can be more than they hold, their mean can't.
    let largest = JaggedTensor::try_new(longs(&[i64::MAX, i64::MAX]), longs(&[0, 2])).unwrap();
    assert_eq!(largest.mean_rows(0).unwrap().double_value(&[0]), i64::MAX as f64);
}
