//! Runs of a tensor's rows, copied one after the other.

use std::ptr;

use tch::{Device, Tensor};

use super::export::Memory;
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Rows of one of the tensors that are copied from: those from `start` to before `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Which tensor.
    pub(crate) source: usize,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// What one tensor has to be copied from.
struct Source {
    memory: Memory,
    rows: i64,
}

/// The rows of `sources` that `runs` name, `total` in all, one after the other in a new tensor `[total, …]`.
///
/// `None` unless the sources are contiguous on the CPU, of one dtype, which has an Arrow form, and equal in their dims
/// after the first, without `requires_grad`, and in memory as they are read.
///
/// # Errors
///
/// An [index](Error::is_index) error for a run outside a source's rows, and unless the runs have `total` rows;
/// libtorch's if there isn't enough memory.
pub(crate) fn copy_runs(
    sources: &[&Tensor],
    total: i64,
    runs: impl IntoIterator<Item = Run>,
) -> Result<Option<Tensor>> {
    let Some(first) = sources.first() else {
        return Ok(None);
    };
    let mut sizes = first.size();
    let dtype = DType::from(first.f_kind()?);
    let mut held = Vec::with_capacity(sources.len());
    for source in sources {
        let theirs = source.size();
        let (Some(rows), Some(trailing)) = (theirs.first().copied(), theirs.get(1..)) else {
            return Ok(None);
        };
        if sizes.get(1..) != Some(trailing) || source.f_kind()? != dtype.kind() || source.f_is_neg()? {
            return Ok(None);
        }
        match Memory::of(source.shallow_clone(), dtype) {
            Ok(memory) => held.push(Source { memory, rows }),
            Err(_) => return Ok(None),
        }
    }
    sizes[0] = total;
    // libtorch counts the bytes, and says so if there are too many.
    let copy = Tensor::f_empty(&sizes, (dtype.kind(), Device::Cpu))?;
    // Of a source without rows, nothing says it; nothing is copied of it either.
    let width =
        |source: &Source| usize::try_from(source.rows).ok().and_then(|rows| source.memory.bytes().checked_div(rows));
    let mut target = copy.data_ptr().cast::<u8>();
    let mut room = total;
    let mut runs = runs.into_iter().peekable();
    while let Some(Run { source, start, mut end }) = runs.next() {
        // Cells of a row lie one after the other: one copy for all of them.
        while let Some(further) =
            runs.next_if(|next| next.source == source && next.start == end && next.start <= next.end)
        {
            end = further.end;
        }
        let held = held.get(source).ok_or_else(|| Error::index(format!("there is no tensor {source} to copy from")))?;
        if start < 0 || start > end || end > held.rows {
            return Err(Error::index(format!("rows {start} to {end} are out of bounds for {}", held.rows)));
        }
        let left = room - (end - start);
        if left < 0 {
            return Err(Error::index(format!("rows {start} to {end} are more than the {room} left to copy")));
        }
        room = left;
        let width = width(held).unwrap_or_default();
        if start == end || width == 0 || target.is_null() {
            continue;
        }
        // No cast loses anything: 0 ≤ start ≤ end ≤ rows, as checked above.
        let (from, count) = (start as usize * width, (end - start) as usize * width);
        // SAFETY: `memory.start()` is valid for reads of `memory.bytes()` bytes while `memory` lives (checked in
        // `Memory::of`), which are `rows` times `width`, and `from + count` is `end * width`, no more than that.
        // `copy` is a new contiguous tensor of `total` rows, each of as many elements of the same dtype as a row of
        // the source (their dims after the first are equal, checked above), so `width` bytes. `target` moves from its
        // first byte by the bytes that are written, and no run is written that has more rows than are left of `total`
        // (`room`), whatever the iterator gives. The two don't overlap: nobody else has a handle on `copy`. As with
        // every function of libtorch that reads a tensor, a program that writes to a source on another thread meanwhile
        // has a race of its own. Tests: `copies_runs`, `parts_and_wide_rows`, `from_several`, `rejects_runs_outside`.
        unsafe {
            ptr::copy_nonoverlapping(held.memory.start().add(from), target, count);
            target = target.add(count);
        }
    }
    // Memory that was never written must not be shown.
    if room != 0 {
        return Err(Error::index(format!("{room} of {total} rows are missing from what was to be copied")));
    }
    Ok(Some(copy))
}

#[cfg(test)]
mod tests {
    use tch::{IndexOp, Kind};

    use super::*;

    fn run_copy(values: &Tensor, runs: &[(i64, i64)]) -> Result<Option<Tensor>> {
        let total = runs.iter().map(|(start, end)| end.saturating_sub(*start)).fold(0, i64::saturating_add);
        copy_runs(&[values], total, runs.iter().map(|(start, end)| Run { source: 0, start: *start, end: *end }))
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
            assert!(run_copy(&numbers(), &[(0, 1), run]).is_err());
            let runs = [(0, 1), run].map(|(start, end)| Run { source: 0, start, end });
            assert!(copy_runs(&[&numbers()], 3, runs).unwrap_err().is_index(), "{run:?}");
        }
        let run = |start, end| Run { source: 0, start, end };
        // A run that goes back from where the one before ends, too many rows, too few, and another tensor.
        assert!(copy_runs(&[&numbers()], 1, [run(0, 3), run(3, 1)]).unwrap_err().is_index());
        assert!(copy_runs(&[&numbers()], 3, [run(0, 2), run(4, 6)]).unwrap_err().is_index());
        assert!(copy_runs(&[&numbers()], 3, [run(0, 2)]).unwrap_err().is_index());
        assert!(copy_runs(&[&numbers()], 1, [Run { source: 1, start: 0, end: 1 }]).unwrap_err().is_index());
        assert!(copy_runs(&[&numbers()], -1, []).is_err());
        let wide = Tensor::zeros([2, 0], (Kind::Float, Device::Cpu));
        assert!(copy_runs(&[&wide], 1, [run(0, 2)]).unwrap_err().is_index());
    }

    #[test]
    fn from_several() {
        let filler = Tensor::from_slice(&[-1i64, -2]);
        let runs = [(0, 4, 6), (1, 0, 1), (1, 1, 2), (0, 0, 1), (1, 1, 1), (2, 0, 0), (0, 1, 2)];
        let runs = runs.map(|(source, start, end)| Run { source, start, end });
        let empty = numbers().i(..0);
        let copy = copy_runs(&[&numbers(), &filler, &empty], 6, runs).unwrap().unwrap();
        assert_eq!(Vec::<i64>::try_from(copy).unwrap(), [4, 5, -1, -2, 0, 1]);
        // Of another dtype, or in other dims.
        let none = |other: Tensor| assert!(copy_runs(&[&numbers(), &other], 0, []).unwrap().is_none());
        none(filler.to_kind(Kind::Int));
        none(filler.reshape([1, 2]));
        none(filler.get(0));
        assert!(copy_runs(&[], 0, []).unwrap().is_none());
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
