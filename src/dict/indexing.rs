//! Parts of the batch.

use super::dense::Dense;
use super::indices::{Indices, Layout, apply, dims_of, grid, sizes_after};
use super::lazy::LazyStack;
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::index::{Index, Selection};

impl TensorDict {
    /// Part of the batch.
    ///
    /// One row drops its dim; a jagged entry's row is a dense tensor. Rows and slices share storage (of jagged
    /// entries, slices with step 1), lists and masks copy.
    ///
    /// Along its stack dim a lazy stack gives the member for a row, and a lazy stack of the members for all else;
    /// they are the same members, not copies. Other dims are each member's, which counts its own rows from the
    /// end. Where no member is left, the result is dense, with the entries that all had.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::{Index, TensorDict};
    ///
    /// let mut td = TensorDict::new([2, 3]);
    /// td.set("x", Tensor::from_slice(&[0i64, 1, 2, 10, 11, 12]).view([2, 3]))?;
    /// let numbers = |td: TensorDict| Vec::<i64>::try_from(td.tensor("x").unwrap().reshape([-1])).unwrap();
    /// assert_eq!(numbers(td.index(-1)?), [10, 11, 12]);
    /// assert_eq!(numbers(td.index((.., 0))?), [0, 10]);
    /// assert_eq!(numbers(td.index(([0, 1], [2, 0]))?), [2, 10]);
    /// assert_eq!(td.index((Index::NewAxis, .., 1..))?.batch_size(), [1, 2, 2]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for more items than batch dims, a row out of bounds, a mask of another
    /// shape, a step of 0, or lists that don't go together; a [shape](Error::is_shape) error for new dims or grids
    /// of a jagged entry, whose rows can only be chosen.
    pub fn index(&self, index: impl Into<Indices>) -> Result<TensorDict> {
        let indices = index.into();
        let batch_size = self.batch_size();
        if let (Body::Dense(dense), Some(index), Some(size)) = (&self.body, indices.single(), batch_size.first()) {
            return dense.index_with(&index.resolve(*size)?);
        }
        let mut indexed = self.index_by(&indices.spread(&batch_size)?)?;
        if indexed.is_lazy() && self.is_locked() {
            indexed.lock();
        }
        Ok(indexed)
    }

    pub(super) fn index_with(&self, selection: &Selection) -> Result<TensorDict> {
        match &self.body {
            Body::Dense(dense) => dense.index_with(selection),
            Body::Lazy(_) => {
                let item = match selection {
                    Selection::Row(row) => Index::Row(*row),
                    Selection::Slice { start, stop, step } => {
                        Index::Slice { start: Some(*start), stop: Some(*stop), step: *step }
                    }
                    Selection::Rows(rows) => Index::Rows(rows.clone()),
                };
                self.index(item)
            }
        }
    }

    /// By one item for each batch dim that the caller knows; further ones are taken whole.
    pub(super) fn index_by(&self, items: &[Index]) -> Result<TensorDict> {
        match &self.body {
            Body::Dense(dense) => dense.index_by(items).map(TensorDict::dense),
            Body::Lazy(stack) => {
                let items = Indices::from(items.to_vec()).spread(&stack.batch_size())?;
                stack.index_by(&items)
            }
        }
    }
}

impl Dense {
    fn index_with(&self, selection: &Selection) -> Result<TensorDict> {
        let batch_size = selection.size().into_iter().chain(self.batch_size[1..].iter().copied()).collect();
        let mut indexed = self.try_map(|_, entry| entry.select(selection).map(Some))?;
        indexed.batch_size = batch_size;
        if selection.size().is_none() && !indexed.names.is_empty() {
            indexed.names.remove(0);
        }
        Ok(TensorDict::dense(indexed))
    }

    fn index_by(&self, items: &[Index]) -> Result<Dense> {
        let batch_size = sizes_after(&self.batch_size, items)?;
        let mut indexed = self.try_map(|_, entry| index_entry(entry, items).map(Some))?;
        if !self.names.is_empty() {
            indexed.names = names_after(&self.names, items, batch_size.len());
        }
        indexed.batch_size = batch_size;
        Ok(indexed)
    }
}

fn names_after(names: &[Option<String>], items: &[Index], dims: usize) -> Vec<Option<String>> {
    let layout = Layout::of(items);
    let mut after = vec![None; dims];
    let lists = items.iter().filter(|item| matches!(item, Index::Rows(_) | Index::Mask(_) | Index::Grid { .. }));
    // A dim of several lists is nobody's.
    let keeps = lists.count() <= 1 && layout.block <= 1;
    let mut source = names.iter();
    for (item, place) in items.iter().zip(&layout.places) {
        let name = if dims_of(item) == 1 { source.next().cloned().flatten() } else { None };
        match (item, place) {
            (Index::Slice { .. }, Some(place)) => after[*place] = name,
            (Index::Rows(_) | Index::Mask(_) | Index::Grid { .. }, Some(place)) if keeps => after[*place] = name,
            _ => {}
        }
    }
    // Dims that no item named follow.
    let rest: Vec<_> = source.cloned().collect();
    let start = dims.saturating_sub(rest.len());
    after[start..].clone_from_slice(&rest);
    after
}

fn index_entry(entry: &Entry, items: &[Index]) -> Result<Entry> {
    match entry {
        Entry::Tensor(tensor) => apply(tensor, items).map(Entry::Tensor),
        Entry::NonTensor(values) => values.rearrange(|places| apply(places, items)).map(Entry::NonTensor),
        Entry::Dict(dict) => dict.index_by(items).map(Entry::Dict),
        Entry::Jagged(jagged) => match items {
            [] => Ok(entry.shallow_clone()),
            [Index::Grid { .. } | Index::NewAxis] | [_, _, ..] => Err(Error::shape(format!(
                "a jagged tensor of shape {:?} has one dim of rows, which can be chosen but not rearranged",
                jagged.shape()
            ))
            .remedy("make it dense with to_padded, or exclude it")),
            [item] => entry.select(&item.resolve(jagged.num_rows())?),
        },
    }
}

/// The parts of a stack that an index reaches.
pub(super) enum Route {
    /// One member.
    Member { at: usize, items: Vec<Index> },
    /// Members in a grid of `shape`, whose dims lie at `place` in the result.
    Members {
        parts: Vec<(usize, Vec<Index>)>,
        shape: Vec<i64>,
        place: usize,
        /// Whether each part has a dim of size 1 at `place`, which keeps lists apart that are apart in the stack.
        spaced: bool,
    },
}

impl LazyStack {
    /// `items` has one for each batch dim.
    pub(super) fn route(&self, items: &[Index]) -> Result<Route> {
        let mut dims = 0;
        let position = items.iter().position(|item| {
            dims += dims_of(item);
            dims == self.stack_dim + 1
        });
        let at = position.ok_or_else(|| Error::index("too few indices"))?;
        let size = self.members.len() as i64;
        let layout = Layout::of(items);
        let others: Vec<Index> =
            items.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, item)| item.clone()).collect();
        let Some((rows, shape)) = grid(&items[at], size)? else {
            let selection = items[at].resolve(size)?;
            if let Selection::Row(row) = selection {
                return Ok(Route::Member { at: usize::try_from(row).unwrap_or_default(), items: others });
            }
            let spaced = Layout::splits_block(items, at);
            let mut part = others;
            if spaced {
                part.insert(at, Index::NewAxis);
            }
            let rows = selection.rows();
            let shape = vec![rows.len() as i64];
            let parts = rows.into_iter().map(|row| (usize::try_from(row).unwrap_or_default(), part.clone())).collect();
            let place = layout.places[at].unwrap_or_default();
            return Ok(Route::Members { parts, shape, place, spaced });
        };
        let place = layout.places[at].unwrap_or_default();
        let lists = others.iter().any(|item| matches!(item, Index::Rows(_) | Index::Mask(_) | Index::Grid { .. }));
        if !lists {
            let parts =
                rows.into_iter().map(|row| (usize::try_from(row).unwrap_or_default(), others.clone())).collect();
            return Ok(Route::Members { parts, shape, place, spaced: false });
        }
        self.pair(items, at, place)
    }

    /// Lists on the stack dim and on others: place by place.
    fn pair(&self, items: &[Index], at: usize, place: usize) -> Result<Route> {
        let sizes = self.batch_size();
        let mut source = 0;
        let mut grids = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let size = sizes.get(source).copied().unwrap_or_default();
            source += dims_of(item);
            let listed = match item {
                // Each member counts from its own end.
                Index::Rows(rows) if size < 0 => Some((rows.clone(), vec![rows.len() as i64])),
                Index::Grid { rows, shape } if size < 0 => Some((rows.clone(), shape.clone())),
                Index::Mask(_) if size < 0 => {
                    return Err(Error::index("a mask can't index a dim along which the members differ"));
                }
                item => grid(item, size)?,
            };
            if let Some((rows, shape)) = listed {
                let rows = tch::Tensor::f_from_slice(&rows)?.f_view(shape.as_slice())?;
                grids.push((i, rows));
            }
        }
        let tensors: Vec<_> = grids.iter().map(|(_, grid)| grid).collect();
        let together = tch::Tensor::f_broadcast_tensors(&tensors)
            .map_err(|_| Error::index("lists of different lengths can't be taken in pairs"))?;
        let shape = together.first().map(tch::Tensor::size).unwrap_or_default();
        let columns =
            together.iter().map(|grid| Ok(Vec::<i64>::try_from(grid.f_reshape([-1])?)?)).collect::<Result<Vec<_>>>()?;
        let count = columns.first().map_or(0, Vec::len);
        let mut parts = Vec::with_capacity(count);
        for element in 0..count {
            let mut part: Vec<Index> = items.to_vec();
            let mut member = 0;
            for ((i, _), column) in grids.iter().zip(&columns) {
                if *i == at {
                    member = usize::try_from(column[element]).unwrap_or_default();
                }
                part[*i] = Index::Row(column[element]);
            }
            part.remove(at);
            parts.push((member, part));
        }
        Ok(Route::Members { parts, shape, place, spaced: false })
    }

    fn index_by(&self, items: &[Index]) -> Result<TensorDict> {
        match self.route(items)? {
            Route::Member { at, items } => self.members[at].index_part(&items),
            Route::Members { parts, shape, place, spaced } => {
                if parts.is_empty() {
                    return self.index_nothing(items);
                }
                let parts = parts.into_iter().map(|(at, items)| {
                    let part = self.members[at].index_part(&items)?;
                    if spaced { part.without_dim(place) } else { Ok(part) }
                });
                let mut parts = parts.collect::<Result<Vec<_>>>()?;
                // Innermost dim first.
                for dim in (0..shape.len()).rev() {
                    let size = usize::try_from(shape[dim]).unwrap_or_default().max(1);
                    let name = if shape.len() == 1 { self.stack_dim_name.clone() } else { None };
                    let mut stacked = Vec::with_capacity(parts.len() / size);
                    let mut rest = parts.into_iter().peekable();
                    while rest.peek().is_some() {
                        let members: Vec<_> = rest.by_ref().take(size).collect();
                        stacked.push(TensorDict::lazy(LazyStack::from_trusted(members, place, name.clone())));
                    }
                    parts = stacked;
                }
                parts.pop().ok_or_else(|| Error::index("the index reaches nothing"))
            }
        }
    }

    /// The entries that all members have, dense, of no rows: in the shapes of the first member.
    fn index_nothing(&self, items: &[Index]) -> Result<TensorDict> {
        let Some(first) = self.members.first() else {
            if items.iter().all(|item| *item == Index::from(..)) {
                return Ok(TensorDict::lazy(self.shallow_clone()));
            }
            let blank = Dense { batch_size: self.batch_size(), device: self.device(), ..Dense::default() };
            return blank.index_by(items).map(TensorDict::dense);
        };
        let keys: Vec<_> = first.leaf_keys().into_iter().filter(|key| self.has(key.names())).collect();
        let one = TensorDict::lazy(self.with_members(vec![first.select(keys)?])).contiguous()?;
        let mut dims = 0;
        let mut items = items.to_vec();
        for item in &mut items {
            dims += dims_of(item);
            if dims_of(item) == 1 && dims == self.stack_dim + 1 {
                // Lists keep their lengths, since others may be broadcast to them.
                *item = match grid(item, self.members.len() as i64)? {
                    Some((rows, shape)) => Index::Grid { rows: vec![0; rows.len()], shape },
                    None => Index::from(0..0),
                };
            }
        }
        one.index_by(&items)
    }
}

impl TensorDict {
    /// A member's part; itself where it is taken whole.
    fn index_part(&self, items: &[Index]) -> Result<TensorDict> {
        let whole = |item: &Index| *item == Index::from(..);
        if items.iter().all(whole) {
            return Ok(self.shallow_clone());
        }
        self.index_by(items)
    }

    /// A batch dim of size 1 gone.
    fn without_dim(&self, dim: usize) -> Result<TensorDict> {
        let mut items: Vec<Index> = (0..dim).map(|_| Index::from(..)).collect();
        items.push(Index::Row(0));
        self.index_by(&items)
    }
}
