//! Which part of a dim.

use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use tch::kind::Element;
use tch::{Device, Kind, TchError, Tensor};

use crate::error::{Error, Result};

/// Which part of one dim, a batch's or the rows of a ragged tensor: one row, a slice, a list of rows or a mask.
///
/// Rows and bounds may be negative and then count from the end. Bounds beyond the batch are cut to it,
/// as Python does; rows beyond it are errors.
///
/// Most are written as what they are, a number, a range, a list of either kind:
///
/// ```
/// use tch::Tensor;
/// use tensorquery::Index;
///
/// assert_eq!(Index::from(2..), Index::Slice { start: Some(2), stop: None, step: 1 });
/// assert_eq!(Index::from(..=-1), Index::Slice { start: None, stop: None, step: 1 });
/// assert_eq!(Index::from([true, false]), Index::Mask(vec![true, false]));
/// let shuffled = Tensor::from_slice(&[2i32, 0, 1]);
/// assert_eq!(Index::from_tensor(&shuffled)?, Index::Rows(vec![2, 0, 1]));
/// # Ok::<_, tensorquery::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Index {
    /// One row; the batch loses its first dim.
    Row(i64),
    /// Rows from `start` to before `stop`, each `step`-th; a negative step goes backwards.
    Slice {
        /// The first row; without one, the first (or last, going backwards).
        start: Option<i64>,
        /// The row to stop before; without one, all are taken.
        stop: Option<i64>,
        /// The distance between rows, not 0.
        step: i64,
    },
    /// These rows, in this order, repeats allowed.
    Rows(Vec<i64>),
    /// The rows where the mask is true; it is as long as the batch.
    Mask(Vec<bool>),
    /// Rows arranged in dims of their own, which take the place of the dim.
    Grid {
        /// The rows in row-major order.
        rows: Vec<i64>,
        /// The dims; their product is the number of rows.
        shape: Vec<i64>,
    },
    /// The places where a mask over several dims is true, which become one dim. A mask over none is a new dim,
    /// of size 1 where it is true and 0 where not.
    GridMask {
        /// In row-major order.
        mask: Vec<bool>,
        /// The sizes of the dims.
        shape: Vec<i64>,
    },
    /// All dims that the other items leave.
    Ellipsis,
    /// A new dim of size 1.
    NewAxis,
}

/// What an index counts in: for the words of an error.
#[derive(Clone, Copy)]
pub(crate) enum Extent {
    Batch(i64),
    Rows(i64),
    Columns(i64),
}

impl Extent {
    fn size(self) -> i64 {
        match self {
            Extent::Batch(size) | Extent::Rows(size) | Extent::Columns(size) => size,
        }
    }

    /// The place that `at` names, which may be negative.
    pub(crate) fn at(self, at: i64) -> Result<i64> {
        let place = if at < 0 { at.checked_add(self.size()) } else { Some(at) };
        place
            .filter(|place| (0..self.size()).contains(place))
            .ok_or_else(|| Error::index(format!("{} {at} is out of bounds for {self}", self.one())))
    }

    fn one(self) -> &'static str {
        match self {
            Extent::Batch(_) | Extent::Rows(_) => "row",
            Extent::Columns(_) => "column",
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Batch(size) => write!(f, "a batch of {size}"),
            Extent::Rows(1) | Extent::Columns(1) => write!(f, "1 {}", self.one()),
            Extent::Rows(size) | Extent::Columns(size) => write!(f, "{size} {}s", self.one()),
        }
    }
}

/// An index checked against the size of a batch.
#[derive(Debug)]
pub(crate) enum Selection {
    Row(i64),
    /// `0 <= start <= stop <= size`, `step >= 1`.
    Slice {
        start: i64,
        stop: i64,
        step: i64,
    },
    Rows(Vec<i64>),
}

impl Selection {
    /// The rows, one by one.
    pub(crate) fn rows(&self) -> Vec<i64> {
        match self {
            Selection::Row(row) => vec![*row],
            Selection::Slice { start, stop, step } => walk(*start, *stop, *step).collect(),
            Selection::Rows(rows) => rows.clone(),
        }
    }

    /// The size of the first dim after the selection; `None` if the dim is gone.
    pub(crate) fn size(&self) -> Option<i64> {
        match self {
            Selection::Row(_) => None,
            Selection::Slice { start, stop, step } => {
                Some(if start < stop { (stop - start - 1) / step + 1 } else { 0 })
            }
            Selection::Rows(rows) => Some(rows.len() as i64),
        }
    }
}

/// An empty list with room for so many items: batches without columns, and expanded tensors, can have more places than
/// memory.
pub(crate) fn room<T>(count: i64) -> Result<Vec<T>> {
    let mut list = Vec::new();
    match usize::try_from(count) {
        Ok(count) if list.try_reserve_exact(count).is_ok() => Ok(list),
        _ => Err(Error::shape(format!("{count} places are more than memory holds"))),
    }
}

/// The elements of a tensor of `T`'s dtype, row by row, with one copy.
pub(crate) fn elements<T: Element + Copy>(tensor: &Tensor) -> Result<Vec<T>> {
    drop(room::<T>(i64::try_from(tensor.numel()).unwrap_or(i64::MAX))?);
    Ok(Vec::try_from(&written_out(&tensor.f_to_device(Device::Cpu)?)?.f_reshape([-1])?)?)
}

/// The same elements in memory as they are read, for tch copies out of memory: itself, but for numbers that libtorch
/// negates or conjugates when it reads them, zeros that it keeps no memory for, and booleans, of which a byte may hold
/// more than 0 and 1.
pub(crate) fn written_out(tensor: &Tensor) -> Result<Tensor, TchError> {
    let kind = tensor.f_kind()?;
    if tensor.f_internal_is_zerotensor()? {
        return Tensor::f_zeros(tensor.size(), (kind, tensor.device()));
    }
    match kind {
        Kind::Bool => tensor.f_view_dtype(Kind::Uint8)?.f_logical_not()?.f_logical_not(),
        _ => tensor.f_resolve_conj()?.f_resolve_neg(),
    }
}

fn walk(start: i64, stop: i64, step: i64) -> impl Iterator<Item = i64> {
    let inside = move |row: &i64| if step > 0 { *row < stop } else { *row > stop };
    std::iter::successors(Some(start), move |row| row.checked_add(step)).take_while(inside)
}

impl Index {
    /// The rows that a tensor names: `int8` to `int64` of one dim, a list of rows; of no dims, one row; of
    /// more, a grid of them; `bool`, a mask over as many dims. Copied from the tensor's device.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for any other dtype (`uint8` too: in torch it has meant both, a list
    /// and a mask).
    pub fn from_tensor(index: &Tensor) -> Result<Index> {
        if !index.defined() || index.f_internal_shape_as_tensor().is_err() {
            return Err(Error::index("an undefined or a nested tensor can't be an index"));
        }
        match (index.f_kind()?, index.dim()) {
            (Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64, 0) => Ok(Index::Row(index.f_int64_value(&[])?)),
            (Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64, 1) => Ok(Index::Rows(elements(index)?)),
            (Kind::Bool, 1) => Ok(Index::Mask(elements(index)?)),
            (Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64, _) => {
                Ok(Index::Grid { rows: elements(index)?, shape: index.size() })
            }
            (Kind::Bool, _) => Ok(Index::GridMask { mask: elements(index)?, shape: index.size() }),
            (kind, _) => {
                let found = format!("a tensor of {kind:?}{:?} can't be an index", index.size());
                Err(Error::index(found).remedy("cast it to int64 for a list of rows or to bool for a mask"))
            }
        }
    }

    pub(crate) fn resolve(&self, size: i64) -> Result<Selection> {
        self.resolve_in(Extent::Batch(size))
    }

    pub(crate) fn resolve_in(&self, extent: Extent) -> Result<Selection> {
        let size = extent.size();
        if size < 0 {
            return Err(Error::index(format!("a dim of size {size} can't be indexed")));
        }
        let row = |row: i64| extent.at(row);
        match self {
            Index::Row(at) => Ok(Selection::Row(row(*at)?)),
            Index::Rows(rows) => Ok(Selection::Rows(rows.iter().map(|at| row(*at)).collect::<Result<_>>()?)),
            Index::Mask(mask) => {
                if mask.len() as i64 != size {
                    return Err(Error::index(format!("a mask of {} can't index {extent}", mask.len())));
                }
                Ok(Selection::Rows((0i64..).zip(mask).filter(|(_, keep)| **keep).map(|(at, _)| at).collect()))
            }
            Index::Grid { .. } | Index::GridMask { .. } | Index::Ellipsis | Index::NewAxis => {
                Err(Error::index(format!("an index of other dims than one can't be used for {extent}")))
            }
            Index::Slice { step: 0, .. } => Err(Error::index("a slice's step can't be 0")),
            Index::Slice { .. } if size < 0 => Err(Error::index(format!("{extent} has no rows to slice"))),
            Index::Slice { start, stop, step } => {
                let cut = |bound: i64, low: i64, high: i64| {
                    let bound = if bound < 0 { bound.saturating_add(size) } else { bound };
                    bound.clamp(low, high)
                };
                if *step > 0 {
                    let start = start.map_or(0, |start| cut(start, 0, size));
                    let stop = stop.map_or(size, |stop| cut(stop, 0, size)).max(start);
                    // A step past the end takes the first row alone, whatever its size.
                    Ok(Selection::Slice { start, stop, step: (*step).min(size.max(1)) })
                } else {
                    let start = start.map_or(size - 1, |start| cut(start, -1, size - 1));
                    let stop = stop.map_or(-1, |stop| cut(stop, -1, size - 1));
                    // Without columns, there can be more rows than memory.
                    let count = start.saturating_sub(stop).max(0).unsigned_abs().div_ceil(step.unsigned_abs());
                    let mut rows = Vec::new();
                    if usize::try_from(count).is_err() || rows.try_reserve_exact(count as usize).is_err() {
                        return Err(Error::index(format!("{count} rows backwards are more than memory holds")));
                    }
                    rows.extend(walk(start, stop, *step));
                    Ok(Selection::Rows(rows))
                }
            }
        }
    }
}

impl From<i64> for Index {
    fn from(row: i64) -> Self {
        Index::Row(row)
    }
}

impl From<Range<i64>> for Index {
    fn from(range: Range<i64>) -> Self {
        Index::Slice { start: Some(range.start), stop: Some(range.end), step: 1 }
    }
}

impl From<RangeFrom<i64>> for Index {
    fn from(range: RangeFrom<i64>) -> Self {
        Index::Slice { start: Some(range.start), stop: None, step: 1 }
    }
}

impl From<RangeTo<i64>> for Index {
    fn from(range: RangeTo<i64>) -> Self {
        Index::Slice { start: None, stop: Some(range.end), step: 1 }
    }
}

impl From<RangeInclusive<i64>> for Index {
    fn from(range: RangeInclusive<i64>) -> Self {
        Index::Slice { start: Some(*range.start()), stop: after(*range.end()), step: 1 }
    }
}

impl From<RangeToInclusive<i64>> for Index {
    fn from(range: RangeToInclusive<i64>) -> Self {
        Index::Slice { start: None, stop: after(range.end), step: 1 }
    }
}

/// Where a slice stops whose last row is `last`; `None` for the last one there is.
fn after(last: i64) -> Option<i64> {
    last.checked_add(1).filter(|stop| *stop != 0)
}

impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Self {
        Index::Slice { start: None, stop: None, step: 1 }
    }
}

/// A mask over no dims.
impl From<bool> for Index {
    fn from(keep: bool) -> Self {
        Index::GridMask { mask: vec![keep], shape: vec![] }
    }
}

impl From<Vec<i64>> for Index {
    fn from(rows: Vec<i64>) -> Self {
        Index::Rows(rows)
    }
}

impl From<Vec<bool>> for Index {
    fn from(mask: Vec<bool>) -> Self {
        Index::Mask(mask)
    }
}

impl From<&[i64]> for Index {
    fn from(rows: &[i64]) -> Self {
        Index::Rows(rows.to_vec())
    }
}

impl From<&[bool]> for Index {
    fn from(mask: &[bool]) -> Self {
        Index::Mask(mask.to_vec())
    }
}

impl<const N: usize> From<[i64; N]> for Index {
    fn from(rows: [i64; N]) -> Self {
        Index::Rows(rows.to_vec())
    }
}

impl<const N: usize> From<[bool; N]> for Index {
    fn from(mask: [bool; N]) -> Self {
        Index::Mask(mask.to_vec())
    }
}
