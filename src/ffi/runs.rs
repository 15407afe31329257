//! Runs of a tensor's rows, copied one after the other.

use std::ptr;

use tch::{Device, Tensor};

use super::export::Memory;
use crate::dtype::DType;
use crate::error::{Error, Result};

/// The rows of `values` that lie from each of `starts` to before its end, in a new tensor `[rows, …]`.
///
/// `None` unless `values` are contiguous on the CPU, of a dtype that has an Arrow form, without `requires_grad`, and in
/// memory as they are read.
///
/// # Errors
///
/// An [index](Error::is_index) error for a run outside the rows; libtorch's if there isn't enough memory.
pub(crate) fn copy_runs(values: &Tensor, starts: &[i64], ends: &[i64]) -> Result<Option<Tensor>> {
    let dtype = DType::from(values.f_kind()?);
    if values.f_is_neg()? {
        return Ok(None);
    }
    let Ok(memory) = Memory::of(values.shallow_clone(), dtype) else {
        return Ok(None);
    };
    let mut sizes = values.size();
    let Some(first) = sizes.first_mut() else {
        return Ok(None);
    };
    let rows = *first;
    let mut total = 0i64;
    for (start, end) in starts.iter().zip(ends) {
        if *start < 0 || start > end || *end > rows {
            return Err(Error::index(format!("rows {start} to {end} are out of bounds for {rows}")));
        }
        total = total.checked_add(end - start).ok_or_else(|| Error::shape("more rows than can be counted"))?;
    }
    *first = total;
    // libtorch counts the bytes, and says so if there are too many.
    let copy = Tensor::f_empty(&sizes, (dtype.kind(), Device::Cpu))?;
    let width = usize::try_from(rows).ok().and_then(|rows| memory.bytes().checked_div(rows)).unwrap_or_default();
    let mut target = copy.data_ptr().cast::<u8>();
    if total == 0 || width == 0 || target.is_null() {
        return Ok(Some(copy));
    }
    let mut runs = starts.iter().copied().zip(ends.iter().copied()).peekable();
    while let Some((start, mut end)) = runs.next() {
        // Cells of a row lie one after the other: one copy for all of them.
        while let Some((_, further)) = runs.next_if(|(next, _)| *next == end) {
            end = further;
        }
        // No cast loses anything: 0 ≤ start ≤ end ≤ rows, as checked above.
        let (from, count) = (start as usize * width, (end - start) as usize * width);
        // SAFETY: `memory.start()` is valid for reads of `memory.bytes()` bytes while `memory` lives (checked in
        // `Memory::of`), which are `rows` times `width`, and `from + count` is `end * width`, no more than that.
        // `copy` is a new contiguous tensor of `total` rows, each of as many elements of the same dtype as a row of
        // `values`, so `width` bytes; `total` is the sum over the same runs, so `target` moves from its first byte to
        // behind its last. The two don't overlap: nobody else has a handle on `copy`. As with every function of
        // libtorch that reads a tensor, a program that writes to `values` on another thread meanwhile has a race of
        // its own. Tests: `copies_runs`, `parts_and_wide_rows`, `rejects_runs_outside`.
        unsafe {
            ptr::copy_nonoverlapping(memory.start().add(from), target, count);
            target = target.add(count);
        }
    }
    Ok(Some(copy))
}

#[cfg(test)]
mod tests {
    use tch::{IndexOp, Kind};

    use super::*;

    fn run_copy(values: &Tensor, runs: &[(i64, i64)]) -> Result<Option<Tensor>> {
        let (starts, ends): (Vec<_>, Vec<_>) = runs.iter().copied().unzip();
        copy_runs(values, &starts, &ends)
    }

    fn copied(values: &Tensor, runs: &[(i64, i64)]) -> Tensor {
        run_copy(values, runs).unwrap().unwrap()
    }

    fn numbers() -> Tensor {
        Tensor::from_slice(&[0i64, 1, 2, 3, 4, 5])
    }

    #[test]
    fn copies_runs() {
        let copy = copied(&numbers(), &[(4, 6), (0, 0), (1, 3), (1, 3)]);
        assert_eq!(Vec::<i64>::try_from(copy).unwrap(), [4, 5, 1, 2, 1, 2]);
        // Some that touch, in and against their order, and empty ones between.
        let copy = copied(&numbers(), &[(1, 2), (2, 2), (2, 4), (0, 1), (1, 1), (4, 4), (4, 6), (6, 6)]);
        assert_eq!(Vec::<i64>::try_from(copy).unwrap(), [1, 2, 3, 0, 4, 5]);
        assert_eq!(copied(&numbers(), &[]).size(), [0]);
        assert_eq!(copied(&numbers(), &[(6, 6)]).size(), [0]);
        for kind in [Kind::Uint8, Kind::Half, Kind::BFloat16, Kind::Float, Kind::Double, Kind::Bool] {
            let values = numbers().remainder(2).to_kind(kind);
            let copy = copied(&values, &[(1, 4)]);
            assert!(copy.equal(&values.i(1..4)) && copy.kind() == kind, "{kind:?}");
        }
        let source = numbers();
        let copy = copied(&source, &[(0, 6)]);
        assert_ne!(copy.data_ptr(), source.data_ptr());
    }

    #[test]
    fn parts_and_wide_rows() {
        let wide = numbers().reshape([3, 2]);
        assert_eq!(Vec::<Vec<i64>>::try_from(copied(&wide, &[(2, 3), (0, 1)])).unwrap(), [[4, 5], [0, 1]]);
        assert_eq!(Vec::<i64>::try_from(copied(&numbers().i(2..), &[(3, 4), (0, 1)])).unwrap(), [5, 2]);
        let nothing = Tensor::zeros([3, 0], (Kind::Float, Device::Cpu));
        assert_eq!(copied(&nothing, &[(0, 3), (1, 2)]).size(), [4, 0]);
        assert_eq!(copied(&Tensor::zeros([0, 2], (Kind::Float, Device::Cpu)), &[(0, 0)]).size(), [0, 2]);
    }

    #[test]
    fn rejects_runs_outside() {
        for run in [(-1, 1), (2, 1), (0, 7), (7, 7), (i64::MIN, i64::MAX), (0, i64::MAX)] {
            assert!(run_copy(&numbers(), &[(0, 1), run]).unwrap_err().is_index());
        }
    }

    #[test]
    fn more_than_memory_holds_is_an_error() {
        let row = Tensor::zeros([1 << 26], (Kind::Uint8, Device::Cpu));
        assert!(run_copy(&row, &vec![(0, 1 << 26); 1 << 20]).is_err());
    }

    #[test]
    fn leaves_to_libtorch_what_has_no_such_memory() {
        let none = |values: Tensor| assert!(run_copy(&values, &[(0, 1)]).unwrap().is_none());
        none(numbers().reshape([2, 3]).tr());
        none(numbers().to_kind(Kind::Float).set_requires_grad(true));
        none(numbers().to_kind(Kind::ComplexFloat));
        none(numbers().get(0));
        let negated = numbers().f_internal_neg_view().unwrap();
        assert!(negated.is_contiguous());
        none(negated);
    }
}
