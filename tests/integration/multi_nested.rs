//! Multi-nested tensors: one line per case, against lists of lists of lists.

use proptest::prelude::*;
use tch::{Device, Kind, Tensor};
use tensorquery::{CellIndex, DType, Error, Index, JaggedTensor, MultiNestedTensor};

use crate::multi_nested_ops::holes;
use crate::show::show_tensor;

pub(crate) type Lists = Vec<Vec<Vec<i64>>>;

pub(crate) fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

pub(crate) fn mnt(lists: &Lists) -> MultiNestedTensor {
    let rows: Vec<Vec<Tensor>> = lists.iter().map(|row| row.iter().map(|cell| longs(cell)).collect()).collect();
    // With no cell at all there is no dtype to be told.
    MultiNestedTensor::from_tensor_mat(&rows).unwrap().to_dtype(DType::Int64).unwrap()
}

pub(crate) fn m() -> MultiNestedTensor {
    mnt(&vec![vec![vec![1, 2], vec![3]], vec![vec![4], vec![5, 6, 7]], vec![vec![8, 9], vec![10]]])
}

pub(crate) fn mm() -> MultiNestedTensor {
    mnt(&vec![vec![vec![1, 2], vec![3], vec![], vec![4, 5]], vec![vec![6], vec![], vec![7, 8, 9], vec![10]]])
}

pub(crate) fn numbers(tensor: &Tensor) -> Vec<i64> {
    Vec::try_from(tensor.to_kind(Kind::Int64)).unwrap()
}

/// `3×2 v[…] o[…]`
pub(crate) fn show(mnt: &MultiNestedTensor) -> String {
    let (rows, cols) = (mnt.num_rows(), mnt.num_cols());
    format!("{rows}x{cols} v{:?} o{:?}", numbers(mnt.values()), numbers(mnt.offset()))
}

fn gives(mnt: &MultiNestedTensor, index: impl Into<CellIndex>, expected: &str) {
    assert_eq!(show(&mnt.index(index).unwrap()), expected);
}

fn slice(start: Option<i64>, stop: Option<i64>, step: i64) -> Index {
    Index::Slice { start, stop, step }
}

#[track_caller]
pub(crate) fn fails<T>(result: Result<T, Error>, is: fn(&Error) -> bool, text: &str) {
    let error = result.err().unwrap();
    assert!(is(&error) && error.to_string().contains(text), "{error} ({})", error.kind());
}

#[test]
fn cells() {
    let m = m();
    assert_eq!(show_tensor(&m.cell(0, 0).unwrap()), "int64[2](1, 2)");
    assert_eq!(show_tensor(&m.cell(1, 1).unwrap()), "int64[3](5, 6, 7)");
    assert_eq!(show_tensor(&m.cell(-1, -1).unwrap()), "int64[1](10)");
    assert_eq!(show_tensor(&mm().cell(1, 1).unwrap()), "int64[0]()");
    for (row, col) in [(3, 0), (-4, 0), (i64::MAX, 0), (i64::MIN, 0)] {
        fails(m.cell(row, col), Error::is_index, &format!("row {row} is out of bounds for 3 rows"));
    }
    for col in [2, -3, i64::MAX, i64::MIN] {
        fails(m.cell(0, col), Error::is_index, &format!("column {col} is out of bounds for 2 columns"));
    }
}

#[test]
fn rows() {
    let m = m();
    gives(&m, 0, "1x2 v[1, 2, 3] o[0, 2, 3]");
    gives(&m, ..2, "2x2 v[1, 2, 3, 4, 5, 6, 7] o[0, 2, 3, 4, 7]");
    gives(&m, 1.., "2x2 v[4, 5, 6, 7, 8, 9, 10] o[0, 1, 4, 6, 7]");
    let picked = "4x2 v[8, 9, 10, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3] o[0, 2, 3, 4, 7, 9, 10, 12, 13]";
    gives(&m, [2, 1, 2, 0], picked);
    gives(&m, Vec::<i64>::new(), "0x2 v[] o[0]");
    let first_and_last = "2x2 v[1, 2, 3, 8, 9, 10] o[0, 2, 3, 5, 6]";
    gives(&m, slice(None, None, 2), first_and_last);
    gives(&m, [true, false, true], first_and_last);
    for (start, stop) in [(5, 3), (3, 3), (0, 0)] {
        gives(&m, start..stop, "0x2 v[] o[0]");
    }
    let reversed = "3x2 v[8, 9, 10, 4, 5, 6, 7, 1, 2, 3] o[0, 2, 3, 4, 7, 9, 10]";
    gives(&m, (0..3).rev().collect::<Vec<i64>>(), reversed);
    gives(&m, slice(None, None, -1), reversed);
    gives(&m, slice(Some(2), Some(0), -1), "2x2 v[8, 9, 10, 4, 5, 6, 7] o[0, 2, 3, 4, 7]");
    // Bounds are cut, as Python cuts them.
    for all in [0..100, -100..100, -3..3] {
        gives(&m, all, &show(&m));
    }
    gives(&m, 2..100, "1x2 v[8, 9, 10] o[0, 2, 3]");
    gives(&m, -100..2, "2x2 v[1, 2, 3, 4, 5, 6, 7] o[0, 2, 3, 4, 7]");
    gives(&m, ..-4, "0x2 v[] o[0]");
    gives(&m, 100..110, "0x2 v[] o[0]");
    gives(&m, 1..=1, "1x2 v[4, 5, 6, 7] o[0, 1, 4]");
    gives(&m, ..=-1, &show(&m));
    gives(&m, -1..=-1, "1x2 v[8, 9, 10] o[0, 2, 3]");
    gives(&m, ..=i64::MAX, &show(&m));
    for row in [3, -4] {
        fails(m.index(row), Error::is_index, "out of bounds for 3 rows");
        fails(m.index([row]), Error::is_index, "out of bounds for 3 rows");
    }
    fails(m.index([true, false]), Error::is_index, "a mask of 2 can't index 3 rows");
    fails(m.index(slice(None, None, 0)), Error::is_index, "step can't be 0");
}

#[test]
fn columns_and_pairs() {
    let m = m();
    gives(&m, (.., 0), "3x1 v[1, 2, 4, 8, 9] o[0, 2, 3, 5]");
    gives(&m, (.., 1), "3x1 v[3, 5, 6, 7, 10] o[0, 1, 4, 5]");
    gives(&m, (.., [1, 0]), "3x2 v[3, 1, 2, 5, 6, 7, 4, 10, 8, 9] o[0, 1, 3, 6, 7, 8, 10]");
    let repeated = "3x3 v[1, 2, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 8, 9, 10] o[0, 2, 4, 5, 6, 7, 10, 12, 14, 15]";
    gives(&m, (.., [0, 0, 1]), repeated);
    gives(&m, ([0, 2], [1, 0]), "2x2 v[3, 1, 2, 10, 8, 9] o[0, 1, 3, 4, 6]");
    gives(&m, (.., slice(Some(2), Some(1), 1)), "3x0 v[] o[0]");
    gives(&m, (1, 1), "1x1 v[5, 6, 7] o[0, 3]");
    gives(&m, ([false, true, true], [true, false]), "2x1 v[4, 8, 9] o[0, 1, 3]");
    gives(&m, (.., 1..9), "3x1 v[3, 5, 6, 7, 10] o[0, 1, 4, 5]");
    gives(&m, (slice(None, None, -2), slice(None, None, -1)), "2x2 v[10, 8, 9, 3, 1, 2] o[0, 1, 3, 4, 6]");
    fails(m.index((0, 2)), Error::is_index, "column 2 is out of bounds for 2 columns");
    fails(m.index((.., [0, -3])), Error::is_index, "column -3 is out of bounds for 2 columns");
    fails(m.index((3, 0)), Error::is_index, "row 3 is out of bounds for 3 rows");
    fails(m.index((.., [true; 3])), Error::is_index, "a mask of 3 can't index 2 columns");

    let mm = mm();
    gives(&mm, (.., 1..3), "2x2 v[3, 7, 8, 9] o[0, 1, 1, 1, 4]");
    gives(&mm, (.., ..3), "2x3 v[1, 2, 3, 6, 7, 8, 9] o[0, 2, 3, 3, 4, 4, 7]");
    gives(&mm, (.., 2..), "2x2 v[4, 5, 7, 8, 9, 10] o[0, 0, 2, 5, 6]");
    gives(&mm, (.., [3, 0]), "2x2 v[4, 5, 1, 2, 10, 6] o[0, 2, 4, 5, 6]");
    gives(&mm, (.., -3..-1), "2x2 v[3, 7, 8, 9] o[0, 1, 1, 1, 4]");
    gives(&mm, (1, 1..3), "1x2 v[7, 8, 9] o[0, 0, 3]");
}

#[test]
fn tensors_as_indices() {
    let m = m();
    let take = |tensor: &Tensor| Index::from_tensor(tensor);
    for kind in [Kind::Int8, Kind::Int16, Kind::Int, Kind::Int64] {
        let rows = longs(&[2, -3]).to_kind(kind);
        gives(&m, take(&rows).unwrap(), "2x2 v[8, 9, 10, 1, 2, 3] o[0, 2, 3, 5, 6]");
        gives(&m, take(&rows.get(0)).unwrap(), "1x2 v[8, 9, 10] o[0, 2, 3]");
    }
    let mask = Tensor::from_slice(&[true, false, true]);
    gives(&m, take(&mask).unwrap(), "2x2 v[1, 2, 3, 8, 9, 10] o[0, 2, 3, 5, 6]");
    gives(&m, (.., take(&longs(&[1, 5, 0, 5]).slice(0, 0, None, 2)).unwrap()), &show(&m.index((.., [1, 0])).unwrap()));
    fails(m.index(take(&mask.slice(0, 0, 2, 1)).unwrap()), Error::is_index, "a mask of 2 can't index 3 rows");
    fails(take(&longs(&[1]).to_kind(Kind::Uint8)), Error::is_index, "a tensor of Uint8[1] can't be an index");
    for other in [Index::Ellipsis, Index::NewAxis, Index::from(true)] {
        fails(m.index(other.clone()), Error::is_index, "an index of other dims than one");
        fails(m.index((.., other)), Error::is_index, "an index of other dims than one");
    }
    for grid in [longs(&[1, 2]).reshape([1, 2]), mask.reshape([3, 1]), mask.get(0)] {
        fails(m.index(take(&grid).unwrap()), Error::is_index, "an index of other dims than one");
    }
    let words = "cast it to int64 for a list of rows or to bool for a mask";
    fails(take(&longs(&[1]).to_kind(Kind::Float)), Error::is_index, words);
    fails(take(&Tensor::new()), Error::is_index, "undefined");
    let nested = JaggedTensor::from_rows(&[longs(&[1]), longs(&[2, 3])]).unwrap().to_strided_nested().unwrap();
    fails(take(&nested), Error::is_index, "nested");
}

#[test]
fn along_a_dim() {
    let m = m();
    for (rows, cols) in [(0, 1), (-3, -2)] {
        assert_eq!(show(&m.select(1, rows).unwrap()), "1x2 v[4, 5, 6, 7] o[0, 1, 4]");
        assert_eq!(show(&m.select([1, 0], cols).unwrap()), show(&m.index((.., [1, 0])).unwrap()));
        assert_eq!(show(&m.index_select(rows, &longs(&[2, 0])).unwrap()), show(&m.index([2, 0]).unwrap()));
        assert_eq!(show(&m.index_select(cols, &longs(&[1])).unwrap()), show(&m.index((.., 1)).unwrap()));
        assert_eq!(show(&m.narrow(rows, 1, 1).unwrap()), show(&m.index(1).unwrap()));
        assert_eq!(show(&m.narrow(cols, 1, 9).unwrap()), show(&m.index((.., 1)).unwrap()));
    }
    for length in [3, 9, i64::MAX] {
        assert_eq!(show(&m.narrow(0, 0, length).unwrap()), show(&m));
    }
    for length in [0, -1, i64::MIN] {
        assert_eq!(show(&m.narrow(0, 1, length).unwrap()), "0x2 v[] o[0]");
    }
    assert_eq!(show(&m.narrow(0, i64::MAX, 5).unwrap()), "0x2 v[] o[0]");
    fails(m.narrow(0, -1, 1), Error::is_index, "a start can't be negative");
    fails(m.index_select(0, &longs(&[1]).get(0)), Error::is_index, "integers of one dim");
    fails(m.index_select(0, &Tensor::from_slice(&[true; 3])), Error::is_index, "integers of one dim");
    for dim in [2, -1] {
        fails(m.size(dim), Error::is_index, "not have a fixed length");
        fails(m.select(0, dim), Error::is_index, "not have a fixed length");
        fails(m.narrow(dim, 0, 1), Error::is_index, "not have a fixed length");
        fails(MultiNestedTensor::cat(&[&m], dim), Error::is_index, "not have a fixed length");
    }
    for dim in [3, -4, i64::MAX, i64::MIN] {
        fails(m.size(dim), Error::is_index, "Dimension out of range");
        fails(m.index_select(dim, &longs(&[0])), Error::is_index, "Dimension out of range");
        fails(MultiNestedTensor::cat(&[&m], dim), Error::is_index, "Dimension out of range");
    }
}

#[test]
fn properties() {
    let m = m();
    assert_eq!((m.num_rows(), m.num_cols(), m.len(), m.is_empty()), (3, 2, 3, false));
    assert_eq!((m.shape(), m.dim()), ([3, 2, -1], 3));
    for (dim, size) in [(0, 3), (-3, 3), (1, 2), (-2, 2)] {
        assert_eq!(m.size(dim).unwrap(), size);
    }
    assert_eq!((m.dtype().unwrap(), m.device(), m.is_floating_point()), (DType::Int64, Device::Cpu, false));
    assert!(m.to_dtype(DType::Float32).unwrap().is_floating_point());
    assert_eq!(m.to_string(), "MultiNestedTensor(num_rows=3, num_cols=2, device='cpu')");
    assert_eq!(show_tensor(&m.lengths().unwrap()), "int64[3, 2](2, 1, 1, 3, 2, 1)");
    let rows: Vec<_> = m.iter().map(|row| show(&row.unwrap())).collect();
    assert_eq!(rows, ["1x2 v[1, 2, 3] o[0, 2, 3]", "1x2 v[4, 5, 6, 7] o[0, 1, 4]", "1x2 v[8, 9, 10] o[0, 2, 3]"]);
    let (rows, cols, values, offset) = m.shallow_clone().into_parts();
    assert_eq!(show(&MultiNestedTensor::try_new(rows, cols, values, offset).unwrap()), show(&m));
}

#[test]
fn construction_is_checked() {
    let shape = Error::is_shape;
    let new = MultiNestedTensor::try_new;
    let three = || longs(&[1, 2, 3]);
    assert_eq!(show(&new(1, 2, three(), longs(&[0, 2, 3])).unwrap()), "1x2 v[1, 2, 3] o[0, 2, 3]");
    fails(new(1, 1, three(), longs(&[0, 2, 3])), shape, "3 offsets don't fit 1 rows of 1 columns");
    fails(new(2, 2, three(), longs(&[0, 2, 3])), shape, "3 offsets don't fit 2 rows of 2 columns");
    fails(new(0, 2, longs(&[]), longs(&[0, 0, 0])), shape, "3 offsets don't fit");
    fails(new(1, 2, three(), longs(&[1, 2, 3])), shape, "start at 1");
    fails(new(1, 2, three(), longs(&[0, 2, 2])), shape, "end at 2, but there are 3 values");
    fails(new(1, 2, three(), longs(&[0, 2, i64::MAX])), shape, "there are 3 values");
    let error = new(2, 2, three(), longs(&[0, 2, 2, 1, 3])).unwrap_err();
    assert_eq!((error.is_shape(), error.row(), error.to_string().contains("fall from 2 to 1")), (true, Some(1), true));
    fails(new(1, 2, three(), longs(&[0, i64::MAX, i64::MIN])), shape, "fall from");
    for kind in [Kind::Uint8, Kind::Int8, Kind::Int16, Kind::Int] {
        let widened = new(1, 2, three(), longs(&[0, 2, 3]).to_kind(kind)).unwrap();
        assert_eq!((widened.offset().kind(), numbers(widened.offset())), (Kind::Int64, vec![0, 2, 3]), "{kind:?}");
    }
    fails(new(1, 2, three(), longs(&[0, -1, 3]).to_kind(Kind::Int8)), shape, "fall from 0 to -1");
    fails(new(1, 2, three(), longs(&[0, 2, 3]).to_kind(Kind::Float)), shape, "must be integers");
    fails(new(1, 2, three(), longs(&[0, 2, 3]).reshape([3, 1])), shape, "of one dim");
    fails(new(1, 2, three(), longs(&[])), shape, "at least one number");
    fails(new(1, 2, three().reshape([3, 1]), longs(&[0, 2, 3])), shape, "must be of one dim");
    fails(new(1, 2, three().get(0), longs(&[0, 2, 3])), shape, "no dims");
    fails(new(1, 2, Tensor::new(), longs(&[0, 2, 3])), shape, "undefined");
    fails(new(1, 2, three(), Tensor::new()), shape, "undefined");
    let nested = JaggedTensor::from_rows(&[three(), longs(&[4])]).unwrap().to_strided_nested().unwrap();
    fails(new(1, 2, nested.shallow_clone(), longs(&[0, 2, 3])), shape, "a nested tensor");
    fails(new(1, 2, three(), nested), shape, "a nested tensor");
    for (rows, cols) in [(-1, 2), (1, -2), (-1, -2), (i64::MIN, i64::MIN)] {
        fails(new(rows, cols, three(), longs(&[0, 2, 3])), shape, "can't be negative");
    }
    for (rows, cols) in [(i64::MAX, i64::MAX), (i64::MAX, 1), (i64::MAX, 2), (1 << 32, 1 << 32)] {
        fails(new(rows, cols, longs(&[]), longs(&[0])), shape, "don't fit");
    }
    // Offsets need not be contiguous.
    let strided = longs(&[0, 9, 2, 9, 3, 9]).slice(0, 0, None, 2);
    let strided = new(1, 2, three(), strided).unwrap();
    assert!(strided.offset().is_contiguous());
    assert_eq!(show(&strided.index((.., 1)).unwrap()), "1x1 v[3] o[0, 1]");
    let strided = longs(&[1, 9, 2, 9, 3, 9]).slice(0, 0, None, 2);
    let mnt = new(3, 1, strided, longs(&[0, 1, 1, 3])).unwrap();
    assert_eq!(show(&mnt.index([2, 0]).unwrap()), "2x1 v[2, 3, 1] o[0, 2, 3]");
    assert_eq!(show_tensor(&mnt.to_dense(0).unwrap()), "int64[3, 1, 2](1, 0, 0, 0, 2, 3)");
}

#[test]
fn from_a_matrix_of_tensors() {
    let from = |rows: &[Vec<Tensor>]| MultiNestedTensor::from_tensor_mat(rows);
    let error = from(&[vec![longs(&[1]), longs(&[2])], vec![longs(&[3])]]).unwrap_err();
    let text = "a row of 1 cells after rows of 2 (row 1); the length of each row must be the same";
    assert_eq!((error.is_shape(), error.to_string().as_str()), (true, text));
    fails(from(&[vec![longs(&[1]), longs(&[2]).reshape([1, 1])]]), Error::is_shape, "needs to be 1-dimensional");
    fails(from(&[vec![longs(&[1]).get(0)]]), Error::is_shape, "needs to be 1-dimensional");
    fails(from(&[vec![Tensor::new()]]), Error::is_shape, "undefined");
    let promoted = from(&[vec![longs(&[1]), Tensor::from_slice(&[2.5f32])]]).unwrap();
    assert_eq!(show_tensor(promoted.values()), "float32[2](1, 2.5)");
    let promoted = from(&[vec![longs(&[1]), Tensor::from_slice::<f32>(&[])]]).unwrap();
    assert_eq!(show_tensor(promoted.values()), "float32[1](1)");
    assert_eq!(show(&from(&[]).unwrap()), "0x0 v[] o[0]");
    assert_eq!(show(&from(&[vec![], vec![]]).unwrap()), "2x0 v[] o[0]");
    assert_eq!(from(&[]).unwrap().dtype().unwrap(), DType::Float32);
}

#[test]
fn views_share_and_the_rest_copies() {
    let m = m();
    let at =
        |mnt: &MultiNestedTensor| (mnt.values().data_ptr() as usize).wrapping_sub(m.values().data_ptr() as usize) / 8;
    assert_eq!(at(&m.index(1).unwrap()), 3);
    assert_eq!(at(&m.index(1..).unwrap()), 3);
    assert_eq!(at(&m.index((1, 1..)).unwrap()), 4);
    assert_eq!(at(&m.shallow_clone()), 0);
    assert_eq!(at(&m.to_device(Device::Cpu).unwrap()), 0);
    assert_eq!(m.cell(1, 1).unwrap().data_ptr() as usize, m.values().data_ptr() as usize + 32);
    for copied in
        [m.index([1]), m.index((.., 0)), m.index(slice(None, None, 2)), m.copy(), MultiNestedTensor::cat(&[&m], 0)]
    {
        assert!(at(&copied.unwrap()) >= 10);
    }
    let (clone, copy) = (m.shallow_clone(), m.copy().unwrap());
    assert_ne!(copy.offset().data_ptr(), m.offset().data_ptr());
    assert_eq!(clone.offset().data_ptr(), m.offset().data_ptr());

    // What is filled in a view is filled in the whole.
    let whole = holes();
    whole.index(1..).unwrap().fillna_col(1, 7).unwrap();
    assert_eq!(numbers(whole.values()), [100, -1, 100, -1, -1, -1, 7, 7]);
    whole.index([0]).unwrap().fillna_col(1, 8).unwrap();
    assert_eq!(numbers(whole.values()), [100, -1, 100, -1, -1, -1, 7, 7]);
    let mut same = whole.shallow_clone();
    same.fillna_col(0, 9).unwrap();
    assert_eq!(numbers(whole.values()), [100, 9, 100, -1, -1, 9, 7, 7]);
}

#[test]
fn empties_keep_dtype_and_shape() {
    for dtype in [DType::Int64, DType::Uint8, DType::Bool, DType::Float16, DType::Bfloat16] {
        let m = m().to_dtype(dtype).unwrap();
        for (index, shape) in [
            (CellIndex::from(0..0), [0, 2, -1]),
            ((0..0, 1).into(), [0, 1, -1]),
            ((0..0, [1, 2 - 2]).into(), [0, 2, -1]),
            ((0..0, 0..1).into(), [0, 1, -1]),
            ((.., 0..0).into(), [3, 0, -1]),
            ((.., Vec::<i64>::new()).into(), [3, 0, -1]),
            ((Vec::<i64>::new(), [false, false]).into(), [0, 0, -1]),
            (vec![false; 3].into(), [0, 2, -1]),
        ] {
            let empty = m.index(index.clone()).unwrap();
            assert_eq!((empty.shape(), empty.dtype().unwrap()), (shape, dtype), "{index:?}");
            assert_eq!((numbers(empty.offset()), empty.values().size()), (vec![0], vec![0]), "{index:?}");
            assert_eq!(empty.iter().count(), shape[0] as usize);
            fails(empty.cell(0, 0), Error::is_index, "out of bounds");
        }
    }
    // More rows than memory, but nothing in them.
    let endless = MultiNestedTensor::try_new(i64::MAX, 0, longs(&[]), longs(&[0])).unwrap();
    assert_eq!(endless.index(5..).unwrap().num_rows(), i64::MAX - 5);
    assert_eq!(endless.index(slice(None, None, i64::MAX)).unwrap().num_rows(), 1);
    fails(endless.index(slice(None, None, -1)), Error::is_index, "more than memory holds");
    assert_eq!(endless.index(slice(None, None, i64::MIN)).unwrap().num_rows(), 1);
    assert_eq!(endless.to_dense(0).unwrap().size(), [i64::MAX, 0, 0]);
}

#[test]
fn any_dtype() {
    for dtype in
        [DType::Uint8, DType::Int8, DType::Int16, DType::Int32, DType::Float16, DType::Float64, DType::Bfloat16]
    {
        let m = m().to_dtype(dtype).unwrap();
        gives(&m, ([2, 0], [1, 0]), "2x2 v[10, 8, 9, 3, 1, 2] o[0, 1, 3, 4, 6]");
        assert_eq!(m.index((.., 1)).unwrap().dtype().unwrap(), dtype);
        assert_eq!(MultiNestedTensor::cat(&[&m, &m], 1).unwrap().dtype().unwrap(), dtype);
        assert_eq!(DType::from(m.to_dense(0).unwrap().kind()), dtype);
        assert!(m.equal(&m.copy().unwrap()).unwrap() && m.allclose(&m, 1e-5, 1e-8, false).unwrap(), "{dtype}");
        assert_eq!(numbers(m.offset()), [0, 2, 3, 4, 7, 9, 10]);
    }
    let bools =
        MultiNestedTensor::from_tensor_mat(&[[Tensor::from_slice(&[true]), Tensor::from_slice(&[true, false])]]);
    let bools = bools.unwrap();
    assert_eq!(show_tensor(bools.index((.., [1, 0])).unwrap().values()), "bool[3](T, F, T)");
    assert!(bools.allclose(&bools, 1e-5, 1e-8, false).unwrap());
}

/// One way to take part of a dim, and the same for a list.
fn part() -> impl Strategy<Value = Index> {
    let bound = || prop_oneof![Just(None), (-12i64..12).prop_map(Some)];
    prop_oneof![
        (-11i64..11).prop_map(Index::Row),
        (bound(), bound(), prop_oneof![-4i64..0, 1i64..5, Just(i64::MAX), Just(i64::MIN)])
            .prop_map(|(start, stop, step)| Index::Slice { start, stop, step }),
        prop::collection::vec(-9i64..9, 0..6).prop_map(Index::Rows),
        prop::collection::vec(any::<bool>(), 0..10).prop_map(Index::Mask),
    ]
}

/// Which of `size` places an index takes, told as Python would; `None` for an error.
fn places(index: &Index, size: i64) -> Option<Vec<usize>> {
    let one = |at: i64| {
        let at = if at < 0 { at + size } else { at };
        (0..size).contains(&at).then_some(at as usize)
    };
    match index {
        Index::Row(row) => Some(vec![one(*row)?]),
        Index::Rows(rows) => rows.iter().map(|row| one(*row)).collect(),
        Index::Mask(mask) => (mask.len() as i64 == size).then(|| (0..mask.len()).filter(|at| mask[*at]).collect()),
        Index::Slice { start, stop, step } => {
            let from_end = |bound: i64| if bound < 0 { bound + size } else { bound };
            // Steps are taken one by one over all places there are.
            let mut all: Vec<i64> = (0..size).collect();
            if *step < 0 {
                all.reverse();
                all.retain(|at| start.is_none_or(|start| *at <= from_end(start)));
                all.retain(|at| stop.is_none_or(|stop| *at > from_end(stop)));
            } else {
                all.retain(|at| start.is_none_or(|start| *at >= from_end(start)));
                all.retain(|at| stop.is_none_or(|stop| *at < from_end(stop)));
            }
            let step = usize::try_from(step.unsigned_abs()).unwrap();
            Some(all.into_iter().step_by(step).map(|at| at as usize).collect())
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn lists() -> impl Strategy<Value = Lists> {
    (0usize..9, 0usize..9).prop_flat_map(|(rows, cols)| {
        let cell = prop::collection::vec(-99i64..99, 0..4);
        prop::collection::vec(prop::collection::vec(cell, cols), rows)
    })
}

fn cols_of(lists: &Lists) -> i64 {
    lists.first().map_or(0, |row| row.len() as i64)
}

pub(crate) fn to_lists(mnt: &MultiNestedTensor) -> Lists {
    let cell = |row, col| numbers(&mnt.cell(row, col).unwrap());
    (0..mnt.num_rows()).map(|row| (0..mnt.num_cols()).map(|col| cell(row, col)).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn indexing_agrees_with_lists(lists in lists(), rows in part(), cols in part()) {
        let mnt = mnt(&lists);
        prop_assert_eq!(to_lists(&mnt), lists.clone());
        let places = (places(&rows, lists.len() as i64), places(&cols, cols_of(&lists)));
        let found = mnt.index((rows, cols));
        let (Some(rows), Some(cols)) = places else {
            prop_assert!(found.unwrap_err().is_index());
            return Ok(());
        };
        let expected: Lists = rows.iter().map(|row| cols.iter().map(|col| lists[*row][*col].clone()).collect()).collect();
        let found = found.unwrap();
        prop_assert_eq!(found.shape(), [rows.len() as i64, cols.len() as i64, -1]);
        prop_assert_eq!(to_lists(&found), expected);
    }
}
