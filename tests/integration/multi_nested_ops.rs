//! Multi-nested tensors made dense, filled, joined, compared, and made of jagged columns.

use proptest::prelude::*;
use tch::{Device, Kind, Tensor};
use tensorquery::{CellIndex, DType, Error, JaggedTensor, MultiNestedTensor};

use crate::multi_nested::{fails, lists, longs, m, mm, mnt, numbers, show, to_lists};
use crate::show::{show_jagged, show_tensor};

#[test]
fn dense() {
    let expected = "int64[3, 2, 3](1, 2, -1, 3, -1, -1, 4, -1, -1, 5, 6, 7, 8, 9, -1, 10, -1, -1)";
    assert_eq!(show_tensor(&m().to_dense(-1).unwrap()), expected);
    assert_eq!(show_tensor(&m().index((0, ..)).unwrap().to_dense(1.7).unwrap()), "int64[1, 2, 2](1, 2, 3, 1)");
    let bytes = m().index(0).unwrap().to_dtype(DType::Uint8).unwrap();
    assert_eq!(show_tensor(&bytes.to_dense(-1).unwrap()), "uint8[1, 2, 2](1, 2, 3, 255)");
    let bools = bytes.to_dtype(DType::Bool).unwrap();
    assert_eq!(show_tensor(&bools.to_dense(0).unwrap()), "bool[1, 2, 2](T, T, T, F)");
    assert!(m().to_dense(f64::NAN).is_err());
    assert_eq!(
        m().to_dtype(DType::Float16).unwrap().to_dense(f64::NAN).unwrap().isnan().sum(Kind::Int64).int64_value(&[]),
        8
    );
    // All empty, no rows, no columns.
    assert_eq!(mnt(&vec![vec![vec![], vec![]]]).to_dense(0).unwrap().size(), [1, 2, 0]);
    assert_eq!(m().index(0..0).unwrap().to_dense(0).unwrap().size(), [0, 2, 0]);
    assert_eq!(m().index((.., 0..0)).unwrap().to_dense(0).unwrap().size(), [3, 0, 0]);
}

pub(crate) fn holes() -> MultiNestedTensor {
    mnt(&vec![vec![vec![100, -1], vec![100, -1, -1]], vec![vec![-1], vec![-1, -1]]])
}

#[test]
fn filling_a_column() {
    let mut first = holes();
    first.fillna_col(0, 0).unwrap();
    assert_eq!(numbers(first.values()), [100, 0, 100, -1, -1, 0, -1, -1]);
    let mut second = holes();
    second.fillna_col(-1, 1).unwrap();
    assert_eq!(numbers(second.values()), [100, -1, 100, 1, 1, -1, 1, 1]);
    second.fillna_col(1, 7).unwrap();
    assert_eq!(numbers(second.values()), [100, -1, 100, 1, 1, -1, 1, 1]);

    let nan = f32::NAN;
    let values = Tensor::from_slice(&[100.0, nan, nan, 100.0, nan, nan, nan, 100.0]);
    let mut floats = MultiNestedTensor::try_new(2, 2, values, longs(&[0, 2, 5, 6, 8])).unwrap();
    floats.fillna_col(0, 0).unwrap();
    assert_eq!(show_tensor(floats.values()), "float32[8](100, 0, NaN, 100, NaN, 0, NaN, 100)");
    let mut minus = MultiNestedTensor::from_tensor_mat(&[[Tensor::from_slice(&[-1.0, f64::NAN])]]).unwrap();
    minus.fillna_col(0, 2.5).unwrap();
    assert_eq!(show_tensor(minus.values()), "float64[2](-1, 2.5)");

    // A float is cut, a number that doesn't fit refused, uint8 has 255 for -1.
    first.fillna_col(1, 2.9).unwrap();
    assert_eq!(numbers(first.values()), [100, 0, 100, 2, 2, 0, 2, 2]);
    let mut bytes = holes().to_dtype(DType::Uint8).unwrap();
    bytes.fillna_col(0, 5).unwrap();
    assert_eq!(numbers(bytes.values()), [100, 5, 100, 255, 255, 5, 255, 255]);
    assert!(bytes.fillna_col(1, 300).is_err());
    let mut small = holes().to_dtype(DType::Int8).unwrap();
    assert!(small.fillna_col(0, 128).is_err() && small.fillna_col(0, f64::NAN).is_err());
    let mut bools = holes().to_dtype(DType::Bool).unwrap();
    bools.fillna_col(0, 0).unwrap();
    assert_eq!(numbers(bools.values()), [1; 8]);
    let mut bools = MultiNestedTensor::from_tensor_mat(&[[Tensor::from_slice(&[true, false])]]).unwrap();
    bools.fillna_col(0, 1).unwrap();
    assert_eq!(numbers(bools.values()), [1, 0]);

    for col in [2, -3, i64::MAX] {
        fails(first.fillna_col(col, 0), Error::is_index, "out of bounds for 2 columns");
    }
    fails(m().index((.., 0..0)).unwrap().fillna_col(0, 0), Error::is_index, "out of bounds for 0 columns");
    m().index(0..0).unwrap().fillna_col(1, 0).unwrap();
    let leaf = Tensor::from_slice(&[1.0f32, f32::NAN]).set_requires_grad(true);
    let mut leaf = MultiNestedTensor::try_new(1, 1, leaf, longs(&[0, 2])).unwrap();
    assert!(leaf.fillna_col(0, 0).unwrap_err().to_string().contains("leaf"));
}

#[test]
fn filling_a_column_with_one_number_each() {
    let mut each = holes();
    each.fillna_col_with(1, &longs(&[1, 2, 3, 4])).unwrap();
    assert_eq!(numbers(each.values()), [100, -1, 100, 1, 2, -1, 3, 4]);
    each.fillna_col_with(0, &Tensor::from_slice(&[9.9f32])).unwrap();
    assert_eq!(numbers(each.values()), [100, 9, 100, 1, 2, 9, 3, 4]);
    let mut one = holes();
    one.fillna_col_with(0, &longs(&[6]).get(0).to_kind(Kind::Int8)).unwrap();
    assert_eq!(numbers(one.values()), [100, 6, 100, -1, -1, 6, -1, -1]);
    for wrong in [longs(&[1, 2, 3]), longs(&[]), longs(&[1, 2, 3, 4]).reshape([2, 2])] {
        fails(one.fillna_col_with(1, &wrong), Error::is_shape, "for 4 missing ones in column 1");
    }
    fails(one.fillna_col_with(1, &Tensor::new()), Error::is_shape, "undefined");
    fails(one.fillna_col_with(2, &longs(&[1])), Error::is_index, "out of bounds");
    let mut small = holes().to_dtype(DType::Int8).unwrap();
    for large in [longs(&[200]), longs(&[-129]), Tensor::from_slice(&[f32::NAN]), Tensor::from_slice(&[1e30])] {
        fails(small.fillna_col_with(1, &large), Error::is_overflow, "can't hold");
    }
    assert_eq!(numbers(small.values()), numbers(holes().values()));
}

#[test]
fn joining() {
    let (m, mm) = (m(), mm());
    let cat = |parts: &[&MultiNestedTensor], dim| MultiNestedTensor::cat(parts, dim);
    let part = |index: CellIndex| m.index(index).unwrap();
    let joined = cat(&[&mm, &mm.index((.., 1..3)).unwrap()], 1).unwrap();
    let expected = "2x6 v[1, 2, 3, 4, 5, 3, 6, 7, 8, 9, 10, 7, 8, 9] o[0, 2, 3, 3, 5, 6, 6, 7, 7, 10, 11, 11, 14]";
    assert_eq!(show(&joined), expected);
    for (rows, cols) in [(0, 1), (-3, -2)] {
        assert_eq!(show(&cat(&[&part((..1).into()), &part((1..).into())], rows).unwrap()), show(&m));
        assert_eq!(show(&cat(&[&part((.., ..1).into()), &part((.., 1..).into())], cols).unwrap()), show(&m));
        assert_eq!(show(&cat(&[&part((0..0).into()), &m], rows).unwrap()), show(&m));
        assert_eq!(show(&cat(&[&m, &part((.., 0..0).into())], cols).unwrap()), show(&m));
        assert_eq!(cat(&[&m, &m], rows).unwrap().shape(), [6, 2, -1]);
        let none = part((.., 0..0).into());
        assert_eq!(show(&cat(&[&none, &none], cols).unwrap()), "3x0 v[] o[0]");
        let floats = m.to_dtype(DType::Float32).unwrap();
        assert_eq!(
            show_tensor(cat(&[&part(0.into()), &floats.index(0).unwrap()], rows).unwrap().values()),
            "float32[6](1, 2, 3, 1, 2, 3)"
        );
        assert_eq!(
            show_tensor(cat(&[&part(0.into()), &floats.index(0).unwrap()], cols).unwrap().values()),
            "float32[6](1, 2, 3, 1, 2, 3)"
        );
    }
    fails(cat(&[], 0), Error::is_shape, "Cannot concatenate");
    fails(cat(&[&m, &mm], 0), Error::is_shape, "num_cols must be the same: 2 and 4");
    fails(cat(&[&m, &mm], 1), Error::is_shape, "num_rows must be the same: 3 and 2");
    let endless = MultiNestedTensor::try_new(i64::MAX, 0, longs(&[]), longs(&[0])).unwrap();
    fails(cat(&[&endless, &endless], 0), Error::is_shape, "can be counted");
    let wide = MultiNestedTensor::try_new(0, i64::MAX, longs(&[]), longs(&[0])).unwrap();
    fails(cat(&[&wide, &wide], 1), Error::is_shape, "can be counted");
}

#[test]
fn comparing() {
    let m = m();
    let close = |left: &MultiNestedTensor, right: &MultiNestedTensor| left.allclose(right, 1e-5, 1e-8, false).unwrap();
    assert!(m.equal(&m).unwrap() && close(&m, &m));
    for other in [m.index(..2).unwrap(), m.index((.., [1, 0])).unwrap(), m.index([0, 0, 0]).unwrap()] {
        assert!(!m.equal(&other).unwrap() && !close(&m, &other));
    }
    let reshaped = MultiNestedTensor::try_new(2, 3, m.values().shallow_clone(), m.offset().shallow_clone()).unwrap();
    assert!(!m.equal(&reshaped).unwrap() && !close(&m, &reshaped));
    let floats = m.to_dtype(DType::Float64).unwrap();
    assert!(!m.equal(&floats).unwrap());
    fails(m.allclose(&floats, 1e-5, 1e-8, false), Error::is_shape, "dtypes int64 and float64");
    let near = floats.to_dense(0).unwrap().flatten(0, -1).slice(0, 0, 10, 1) * 0.0 + floats.values() * (1.0 + 1e-6);
    let near = MultiNestedTensor::try_new(3, 2, near, m.offset().shallow_clone()).unwrap();
    assert!(close(&floats, &near) && !floats.equal(&near).unwrap());
    assert!(!floats.allclose(&near, 1e-9, 0.0, false).unwrap());
    // Offsets are compared exactly, however large.
    let big = |at| {
        let values = Tensor::zeros([300_000], (Kind::Uint8, Device::Cpu));
        MultiNestedTensor::try_new(1, 2, values, longs(&[0, at, 300_000])).unwrap()
    };
    assert!(close(&big(200_000), &big(200_000)) && !close(&big(200_000), &big(200_001)));
    let nan = MultiNestedTensor::from_tensor_mat(&[[Tensor::from_slice(&[f32::NAN])]]).unwrap();
    assert!(!close(&nan, &nan) && nan.allclose(&nan, 1e-5, 1e-8, true).unwrap() && !nan.equal(&nan).unwrap());
}

#[test]
fn jagged_columns() {
    let jagged =
        |rows: &[&[i64]]| JaggedTensor::from_rows(&rows.iter().map(|row| longs(row)).collect::<Vec<_>>()).unwrap();
    let (a, b) = (jagged(&[&[1, 2], &[], &[3]]), jagged(&[&[], &[4], &[5, 6]]));
    let both = MultiNestedTensor::from_jagged(&[&a, &b]).unwrap();
    assert_eq!(show(&both), "3x2 v[1, 2, 4, 3, 5, 6] o[0, 2, 2, 2, 3, 4, 6]");
    let back: Vec<_> = both.to_jagged().unwrap().iter().map(show_jagged).collect();
    assert_eq!(back, [show_jagged(&a), show_jagged(&b)]);
    assert_eq!(show_jagged(&m().to_jagged().unwrap()[1]), "jag(int64[5](3, 5, 6, 7, 10); 0, 1, 4, 5)");

    let mixed = b.to_dtype(DType::Float32).unwrap();
    assert_eq!(MultiNestedTensor::from_jagged(&[&a, &mixed]).unwrap().dtype().unwrap(), DType::Float32);
    // Jagged slices and strided values come as they are.
    let wide = JaggedTensor::try_new(longs(&[7, 0, 8, 0]).slice(0, 0, None, 2), longs(&[0, 1, 1, 2])).unwrap();
    let both = MultiNestedTensor::from_jagged(&[&wide.index(1..).unwrap(), &a.index(..2).unwrap()]).unwrap();
    assert_eq!(show(&both), "2x2 v[1, 2, 8] o[0, 0, 2, 3, 3]");
    assert_eq!(show(&MultiNestedTensor::from_jagged(&[&a.index(0..0).unwrap()]).unwrap()), "0x1 v[] o[0]");

    let single = m().index((.., 0)).unwrap();
    assert_eq!(single.to_jagged().unwrap()[0].values().data_ptr(), single.values().data_ptr());
    let alone = MultiNestedTensor::from_jagged(&[&a]).unwrap();
    assert_ne!(alone.values().data_ptr(), a.values().data_ptr());

    fails(MultiNestedTensor::from_jagged(&[]), Error::is_shape, "at least one");
    let short = a.index(..2).unwrap();
    fails(MultiNestedTensor::from_jagged(&[&a, &short]), Error::is_shape, "column 1 has 2 rows, column 0 has 3");
    let wide = JaggedTensor::from_rows(&[longs(&[1, 2]).reshape([1, 2])]).unwrap();
    fails(MultiNestedTensor::from_jagged(&[&wide]), Error::is_shape, "column 0 has shape [1, -1, 2]");

    // Gradients come back to the columns.
    let leaf = Tensor::from_slice(&[1.0f32, 2.0, 3.0]).set_requires_grad(true);
    let column = JaggedTensor::try_new(leaf.shallow_clone(), longs(&[0, 1, 3])).unwrap();
    let joined = MultiNestedTensor::from_jagged(&[&column, &column]).unwrap();
    joined.index((1, 0)).unwrap().to_dense(0).unwrap().sum(Kind::Float).backward();
    assert_eq!(show_tensor(&leaf.grad()), "float32[3](0, 1, 1)");
}

#[test]
fn devices_and_pinning() {
    let m = m();
    let absent = Device::Cuda(usize::try_from(tch::Cuda::device_count()).unwrap());
    assert!(m.to_device(absent).is_err());
    if tch::Cuda::is_available() {
        let pinned = m.pin_memory().unwrap();
        assert!(pinned.is_pinned().unwrap() && !m.is_pinned().unwrap());
        let moved = m.to_device(Device::Cuda(0)).unwrap();
        assert_eq!(moved.to_string(), "MultiNestedTensor(num_rows=3, num_cols=2, device='cuda:0')");
        let part = moved.index(([2, 0], 1..)).unwrap();
        assert_eq!((part.device(), part.offset().device()), (Device::Cuda(0), Device::Cuda(0)));
        fails(m.equal(&moved), Error::is_device, "move them to one device");
        fails(moved.pin_memory(), Error::is_device, "move them to the cpu first");
    } else {
        assert!(!m.is_pinned().unwrap());
        fails(m.pin_memory(), Error::is_device, "pinned by CUDA, which isn't there");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn joining_and_splitting_agree_with_lists(lists in lists(), at in 0i64..9) {
        let mnt = mnt(&lists);
        let rows = [&mnt.index(..at).unwrap(), &mnt.index(at..).unwrap()];
        prop_assert_eq!(to_lists(&MultiNestedTensor::cat(&rows, 0).unwrap()), lists.clone());
        let cols = [&mnt.index((.., ..at)).unwrap(), &mnt.index((.., at..)).unwrap()];
        let joined = MultiNestedTensor::cat(&cols, 1).unwrap();
        prop_assert!(joined.equal(&mnt).unwrap());
        let columns = mnt.to_jagged().unwrap();
        prop_assert_eq!(columns.len() as i64, mnt.num_cols());
        if !columns.is_empty() {
            let joined = MultiNestedTensor::from_jagged(&columns.iter().collect::<Vec<_>>()).unwrap();
            prop_assert!(joined.equal(&mnt).unwrap());
        }
        let dense = mnt.to_dense(-100).unwrap();
        let longest = lists.iter().flatten().map(Vec::len).max().unwrap_or(0);
        prop_assert_eq!(dense.size(), [mnt.num_rows(), mnt.num_cols(), longest as i64]);
        let padded = lists.iter().flatten().flat_map(|cell| {
            cell.iter().copied().chain(std::iter::repeat(-100)).take(longest).collect::<Vec<_>>()
        });
        prop_assert_eq!(numbers(&dense.flatten(0, -1)), padded.collect::<Vec<_>>());
    }
}
