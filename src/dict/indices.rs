//! An index over several batch dims.

use tch::{Device, Kind, Tensor};

use crate::error::{Error, Result};
use crate::index::{Index, Selection};

/// Which part of the batch, one item per dim, as in torch: dims without an item are taken whole.
///
/// Whatever is an [`Index`] is an index of the first dim: `1`, `2..`, `[2, 0]`, a mask. Tuples, lists of `Index`
/// and `()`, which is everything, are indices of several.
///
/// Lists, masks and grids are taken in pairs, as torch does: `([0, 1], [2, 3])` are the places `(0, 2)` and
/// `(1, 3)`. Their dim lies where the first of them was, or in front if a slice or new dim is between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indices(Vec<Index>);

impl<I: Into<Index>> From<I> for Indices {
    fn from(index: I) -> Self {
        Indices(vec![index.into()])
    }
}

impl From<()> for Indices {
    fn from((): ()) -> Self {
        Indices(Vec::new())
    }
}

impl<A: Into<Index>, B: Into<Index>> From<(A, B)> for Indices {
    fn from((a, b): (A, B)) -> Self {
        Indices(vec![a.into(), b.into()])
    }
}

impl<A: Into<Index>, B: Into<Index>, C: Into<Index>> From<(A, B, C)> for Indices {
    fn from((a, b, c): (A, B, C)) -> Self {
        Indices(vec![a.into(), b.into(), c.into()])
    }
}

impl<A: Into<Index>, B: Into<Index>, C: Into<Index>, D: Into<Index>> From<(A, B, C, D)> for Indices {
    fn from((a, b, c, d): (A, B, C, D)) -> Self {
        Indices(vec![a.into(), b.into(), c.into(), d.into()])
    }
}

impl From<Vec<Index>> for Indices {
    fn from(items: Vec<Index>) -> Self {
        Indices(items)
    }
}

impl<const N: usize> From<[Index; N]> for Indices {
    fn from(items: [Index; N]) -> Self {
        Indices(items.into())
    }
}

impl Indices {
    /// The only item, if it is one of a single dim.
    pub(super) fn single(&self) -> Option<&Index> {
        match self.0.as_slice() {
            [Index::Grid { .. } | Index::GridMask { .. } | Index::Ellipsis | Index::NewAxis] => None,
            [index] => Some(index),
            _ => None,
        }
    }

    /// One item for each of the dims, in order, and the new dims between them: no ellipsis, no masks over several
    /// dims. The sizes are those of the dims, -1 where they are ragged.
    pub(super) fn spread(self, sizes: &[i64]) -> Result<Vec<Index>> {
        let used: usize = self.0.iter().map(dims_of).sum();
        let Some(missing) = sizes.len().checked_sub(used) else {
            return Err(Error::index(format!("too many indices: {used} for the batch size {sizes:?}")));
        };
        let ellipses = self.0.iter().filter(|item| **item == Index::Ellipsis).count();
        if ellipses > 1 {
            return Err(Error::index("an index can have one ellipsis"));
        }
        let mut items = Vec::with_capacity(sizes.len());
        let mut at = 0;
        for item in self.0 {
            match item {
                Index::Ellipsis => {
                    items.extend((0..missing).map(|_| Index::from(..)));
                    at += missing;
                }
                Index::GridMask { mask, shape } if count_of(&shape) != Some(mask.len()) => {
                    return Err(Error::index(format!("{} values are no mask of shape {shape:?}", mask.len())));
                }
                Index::GridMask { mask, shape } if !shape.is_empty() => {
                    let theirs = &sizes[at..at + shape.len()];
                    if theirs != shape {
                        return Err(Error::index(format!("a mask of {shape:?} can't index dims of {theirs:?}")));
                    }
                    at += shape.len();
                    items.extend(places(&mask, &shape)?.into_iter().map(Index::Rows));
                }
                item => {
                    at += dims_of(&item);
                    items.push(item);
                }
            }
        }
        items.extend((at..sizes.len()).map(|_| Index::from(..)));
        Ok(items)
    }
}

/// An item for the dim at `dim`, which takes those before it whole.
pub(super) fn along(dim: usize, item: impl Into<Index>) -> Vec<Index> {
    (0..dim).map(|_| Index::from(..)).chain([item.into()]).collect()
}

/// How many dims an item takes the place of.
pub(super) fn dims_of(item: &Index) -> usize {
    match item {
        Index::NewAxis | Index::Ellipsis => 0,
        Index::GridMask { shape, .. } => shape.len(),
        _ => 1,
    }
}

/// Where a mask is true, dim by dim.
fn places(mask: &[bool], shape: &[i64]) -> Result<Vec<Vec<i64>>> {
    let mask = Tensor::f_from_slice(mask)?.f_view(shape)?;
    let places = mask.f_nonzero()?;
    (0..shape.len() as i64).map(|dim| Ok(Vec::try_from(places.f_select(1, dim)?)?)).collect()
}

/// The rows that an item lists, in the dims of their own; `None` for one row, slices and new dims. Of a size below 0,
/// which is a dim along which members differ, each of them counts from its own end.
pub(super) fn grid(item: &Index, size: i64) -> Result<Option<(Vec<i64>, Vec<i64>)>> {
    let resolve = |rows: &Vec<i64>| -> Result<Vec<i64>> {
        match size {
            ..0 => Ok(rows.clone()),
            _ => Ok(Index::Rows(rows.clone()).resolve(size)?.rows()),
        }
    };
    match item {
        Index::Rows(rows) => Ok(Some((resolve(rows)?, vec![rows.len() as i64]))),
        Index::Mask(_) if size < 0 => Err(Error::index("a mask can't index a dim along which the members differ")),
        Index::Mask(_) => {
            let rows = item.resolve(size)?.rows();
            let shape = vec![rows.len() as i64];
            Ok(Some((rows, shape)))
        }
        Index::Grid { rows, shape } => {
            if count_of(shape) != Some(rows.len()) {
                return Err(Error::index(format!("{} rows are no grid of shape {shape:?}", rows.len())));
            }
            Ok(Some((resolve(rows)?, shape.clone())))
        }
        // A mask over no dims lists the only row of a new one.
        Index::GridMask { mask, shape } if shape.is_empty() => {
            let rows: Vec<i64> = mask.iter().filter(|keep| **keep).map(|_| 0).collect();
            let shape = vec![rows.len() as i64];
            Ok(Some((rows, shape)))
        }
        _ => Ok(None),
    }
}

/// How many elements there are in a shape, if they can be counted.
fn count_of(shape: &[i64]) -> Option<usize> {
    let mut sizes = shape.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<Vec<_>>>()?;
    // 0 times anything is 0, wherever it stands.
    sizes.sort_unstable();
    sizes.iter().try_fold(1usize, |count, size| count.checked_mul(*size))
}

/// Whether an item is a mask over no dims.
pub(super) fn is_flag(item: &Index) -> bool {
    matches!(item, Index::GridMask { shape, .. } if shape.is_empty())
}

/// Whether an item is taken in pairs with others.
pub(super) fn is_listed(item: &Index) -> bool {
    matches!(item, Index::Rows(_) | Index::Mask(_) | Index::Grid { .. }) || is_flag(item)
}

/// Where the items' dims lie in the result.
pub(super) struct Layout {
    /// Of each item: the place of its dim; that of the block for listed items; `None` for one row.
    pub(super) places: Vec<Option<usize>>,
    /// The number of dims that the listed items share, together.
    pub(super) block: usize,
}

impl Layout {
    pub(super) fn of(items: &[Index]) -> Layout {
        let listed: Vec<usize> = (0..items.len()).filter(|at| is_listed(&items[*at])).collect();
        let ranks = listed.iter().map(|at| match &items[*at] {
            Index::Grid { shape, .. } => shape.len(),
            _ => 1,
        });
        let block = ranks.max().unwrap_or(0);
        let between = |pair: &[usize]| items[pair[0] + 1..pair[1]].iter().any(|item| !matches!(item, Index::Row(_)));
        let apart = listed.windows(2).any(between);
        let mut next = if apart { block } else { 0 };
        let mut block_at = apart.then_some(0);
        let mut places = Vec::with_capacity(items.len());
        for item in items {
            places.push(match item {
                Index::Row(_) => None,
                item if is_listed(item) => Some(*block_at.get_or_insert_with(|| {
                    let at = next;
                    next += block;
                    at
                })),
                _ => {
                    next += 1;
                    Some(next - 1)
                }
            });
        }
        Layout { places, block }
    }

    /// Whether an item lies between listed ones.
    pub(super) fn splits_block(items: &[Index], at: usize) -> bool {
        items[..at].iter().any(is_listed) && items[at + 1..].iter().any(is_listed)
    }
}

/// Applies items to the leading dims of a tensor.
pub(super) fn apply(tensor: &Tensor, items: &[Index]) -> Result<Tensor> {
    let sizes = tensor.size();
    let mut result = tensor.shallow_clone();
    let mut lists: Vec<Option<Tensor>> = Vec::new();
    let mut source = 0;
    for item in items {
        let dim = lists.len() as i64;
        if *item == Index::NewAxis {
            result = result.f_unsqueeze(dim)?;
            lists.push(None);
            continue;
        }
        if is_flag(item) {
            result = result.f_unsqueeze(dim)?;
        }
        let size = match dims_of(item) {
            0 => 1,
            _ => sizes.get(source).copied().ok_or_else(|| Error::index("too many indices"))?,
        };
        source += dims_of(item);
        if let Some((rows, shape)) = grid(item, size)? {
            lists.push(Some(Tensor::f_from_slice(&rows)?.f_view(shape.as_slice())?.f_to_device(tensor.device())?));
            continue;
        }
        match item.resolve(size)? {
            Selection::Row(row) => {
                result = result.f_select(dim, row)?;
                continue;
            }
            Selection::Slice { start, stop, step } => result = result.f_slice(dim, start, stop, step)?,
            // A slice that goes backwards.
            Selection::Rows(rows) => {
                let rows = Tensor::f_from_slice(&rows)?.f_to_device(tensor.device())?;
                result = result.f_index_select(dim, &rows)?;
            }
        }
        lists.push(None);
    }
    if lists.iter().all(Option::is_none) {
        return Ok(result);
    }
    Ok(result.f_index(&lists)?)
}

/// The sizes that a batch of these sizes has after the items; -1 where members may differ.
pub(super) fn sizes_after(sizes: &[i64], items: &[Index]) -> Result<Vec<i64>> {
    let mut after = Vec::with_capacity(sizes.len());
    let mut shapes = Vec::new();
    let mut source = sizes.iter().copied().enumerate();
    for item in items {
        let (dim, size) = match dims_of(item) {
            0 => (None, 1),
            _ => source.next().map(|(dim, size)| (Some(dim), size)).ok_or_else(|| Error::index("too many indices"))?,
        };
        let at_dim = |error: Error| match dim {
            Some(dim) => error.at_dim(dim),
            None => error,
        };
        if let Some((_, shape)) = grid(item, size).map_err(at_dim)? {
            shapes.push(shape);
            continue;
        }
        match item {
            Index::NewAxis => after.push(1),
            Index::Row(_) if size < 0 => {}
            _ if size < 0 => after.push(-1),
            item => after.extend(item.resolve(size).map_err(at_dim)?.size()),
        }
    }
    after.extend(source.map(|(_, size)| size));
    let layout = Layout::of(items);
    if let Some((_, Some(at))) = items.iter().zip(layout.places).find(|(item, _)| is_listed(item)) {
        after.splice(at..at, together(&shapes)?);
    }
    Ok(after)
}

/// The shape that lists of these shapes have when they are taken in pairs.
fn together(shapes: &[Vec<i64>]) -> Result<Vec<i64>> {
    let dims = shapes.iter().map(Vec::len).max().unwrap_or_default();
    let mut joint = vec![1; dims];
    for shape in shapes {
        for (size, theirs) in joint.iter_mut().rev().zip(shape.iter().rev()) {
            match (*size, *theirs) {
                (_, 1) => {}
                (1, theirs) => *size = theirs,
                (size, theirs) if size == theirs => {}
                _ => return Err(Error::index(format!("lists of shapes {shapes:?} can't be taken in pairs"))),
            }
        }
    }
    Ok(joint)
}

/// Of each place that the items reach in a batch, where it lies along each dim.
pub(super) fn coordinates(batch_size: &[i64], items: &[Index]) -> Result<Vec<Tensor>> {
    let along = |dim: usize| {
        let mut shape = vec![1; batch_size.len()];
        shape[dim] = batch_size[dim];
        apply(&count_up(batch_size[dim])?.f_view(shape.as_slice())?.f_expand(batch_size, false)?, items)
    };
    (0..batch_size.len()).map(along).collect()
}

/// The numbers from 0. tch's `arange` takes a scalar, and so panics where there is no memory for them.
fn count_up(size: i64) -> Result<Tensor> {
    let ones = Tensor::f_ones([size], (Kind::Int64, Device::Cpu))?;
    Ok(ones.f_cumsum(0, Kind::Int64)?.f_sub(&ones)?)
}
