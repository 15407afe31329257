//! Parts of the batch.

use super::create::zeros;
use super::dense::Dense;
use super::indices::{Indices, Layout, along, apply, dims_of, grid, is_flag, is_listed, sizes_after};
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
    /// they are handles on the members' tensors, not copies: values written in place reach the stack, entries set do
    /// not ([`edit_member`](Self::edit_member) does that). Other dims are each member's, which counts its own rows from the
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
        match (&self.body, indices.single()) {
            (Body::Dense(dense), Some(index)) if !dense.batch_size.is_empty() => {
                let selection = index.resolve(dense.batch_size[0]).map_err(|error| error.at_dim(0))?;
                return dense.index_with(&selection);
            }
            // Members can be chosen without a look at the others.
            (Body::Lazy(stack), Some(index)) if stack.stack_dim == 0 => {
                let selection = index.resolve(stack.members.len() as i64).map_err(|error| error.at_dim(0))?;
                if let Some(chosen) = stack.choose(&selection) {
                    return Ok(self.lock_like(chosen));
                }
            }
            _ => {}
        }
        let indexed = self.index_by(&indices.spread(&self.batch_size())?)?;
        Ok(self.lock_like(indexed))
    }

    /// A part of a locked lazy stack is locked if it is one itself.
    fn lock_like(&self, mut part: TensorDict) -> TensorDict {
        if self.is_lazy() && part.is_lazy() && self.is_locked() {
            part.lock();
        }
        part
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
    // A dim of several lists is nobody's.
    let keeps = items.iter().filter(|item| is_listed(item)).count() <= 1 && layout.block <= 1;
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
            [Index::Grid { .. } | Index::GridMask { .. } | Index::NewAxis] | [_, _, ..] => Err(Error::shape(format!(
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
        let at_dim = |error: Error| error.at_dim(self.stack_dim);
        let Some((rows, shape)) = grid(&items[at], size).map_err(at_dim)? else {
            let selection = items[at].resolve(size).map_err(at_dim)?;
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
        if !others.iter().any(is_listed) {
            let parts =
                rows.into_iter().map(|row| (usize::try_from(row).unwrap_or_default(), others.clone())).collect();
            return Ok(Route::Members { parts, shape, place, spaced: false });
        }
        self.pair(items, at, place)
    }

    /// Lists on the stack dim and on others: place by place.
    fn pair(&self, items: &[Index], at: usize, place: usize) -> Result<Route> {
        let mut sizes = self.batch_size().into_iter();
        let mut listed = Vec::new();
        let mut tensors = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let size = if dims_of(item) == 0 { 1 } else { sizes.next().unwrap_or_default() };
            if let Some((rows, shape)) = grid(item, size)? {
                listed.push(i);
                tensors.push(tch::Tensor::f_from_slice(&rows)?.f_view(shape.as_slice())?);
            }
        }
        let together = tch::Tensor::f_broadcast_tensors(&tensors)
            .map_err(|_| Error::index("lists of different lengths can't be taken in pairs"))?;
        let shape = together.first().map(tch::Tensor::size).unwrap_or_default();
        let mut columns: Vec<Option<Vec<i64>>> = vec![None; items.len()];
        for (i, rows) in listed.into_iter().zip(&together) {
            columns[i] = Some(Vec::try_from(rows.f_reshape([-1])?)?);
        }
        let members = columns[at].clone().unwrap_or_default();
        let parts = members.into_iter().enumerate().map(|(element, member)| {
            let others = items.iter().zip(&columns).enumerate().filter(|(i, (item, _))| *i != at && !is_flag(item));
            let part = others.map(|(_, (item, rows))| match rows {
                Some(rows) => Index::Row(rows[element]),
                None => item.clone(),
            });
            (usize::try_from(member).unwrap_or_default(), part.collect())
        });
        Ok(Route::Members { parts: parts.collect(), shape, place, spaced: false })
    }

    /// These members; `None` if that is none.
    fn choose(&self, selection: &Selection) -> Option<TensorDict> {
        let member = |row: i64| self.members.get(usize::try_from(row).ok()?).map(TensorDict::handle);
        if let Selection::Row(row) = selection {
            return member(*row);
        }
        let members: Vec<_> = selection.rows().into_iter().filter_map(member).collect();
        if members.is_empty() { None } else { Some(TensorDict::lazy(self.with_members(members))) }
    }

    fn member_part(&self, at: usize, items: &[Index]) -> Result<TensorDict> {
        self.members[at].index_part(items).map_err(|error| error.of_member(at, self.stack_dim))
    }

    fn index_by(&self, items: &[Index]) -> Result<TensorDict> {
        match self.route(items)? {
            Route::Member { at, items } => self.member_part(at, &items),
            Route::Members { parts, shape, place, spaced } => {
                if parts.is_empty() {
                    return self.index_nothing(items, shape.len(), place);
                }
                let parts = parts.into_iter().map(|(at, items)| {
                    let part = self.member_part(at, &items)?;
                    if spaced { part.without_dim(place) } else { Ok(part) }
                });
                let mut parts = parts.collect::<Result<Vec<_>>>()?;
                // Innermost dim first.
                for dim in (0..shape.len()).rev() {
                    let size = usize::try_from(shape[dim]).unwrap_or_default().max(1);
                    let name = if shape.len() == 1 { self.dim_name().map(str::to_owned) } else { None };
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

    /// The entries that all members have, dense, of no rows: in the shapes of the first member. A stack that has no
    /// members stays one.
    fn index_nothing(&self, items: &[Index], block: usize, place: usize) -> Result<TensorDict> {
        let mut sizes = sizes_after(&self.first_sizes(), items)?;
        let mut names = self.members.first().unwrap_or(&self.blank).shared_names();
        names.insert(self.stack_dim.min(names.len()), self.dim_name().map(str::to_owned));
        let mut names = names_after(&names, items, sizes.len());
        if !self.members.is_empty() || block != 1 {
            let mut nothing = self.nothing(&sizes)?;
            if names.iter().any(Option::is_some) {
                nothing.names = names;
            }
            return Ok(TensorDict::dense(nothing));
        }
        sizes.remove(place);
        let stack_dim_name = names.remove(place);
        let mut blank = Dense { batch_size: sizes, device: self.device(), ..Dense::default() };
        if names.iter().any(Option::is_some) {
            blank.names = names;
        }
        let blank = Box::new(TensorDict::dense(blank));
        Ok(TensorDict::lazy(LazyStack { members: Vec::new(), stack_dim: place, stack_dim_name, blank }))
    }

    /// The batch size as if all members had the first one's.
    fn first_sizes(&self) -> Vec<i64> {
        let mut sizes = self.members.first().unwrap_or(&self.blank).first_sizes();
        sizes.insert(self.stack_dim.min(sizes.len()), self.members.len() as i64);
        sizes
    }

    fn nothing(&self, sizes: &[i64]) -> Result<Dense> {
        let Some(first) = self.members.first() else {
            return Ok(Dense { batch_size: sizes.to_vec(), device: self.device(), ..Dense::default() });
        };
        first.select(first.leaf_keys().into_iter().filter(|key| self.has(key.names())))?.nothing(sizes)
    }
}

impl TensorDict {
    fn first_sizes(&self) -> Vec<i64> {
        match &self.body {
            Body::Dense(dense) => dense.batch_size.clone(),
            Body::Lazy(stack) => stack.first_sizes(),
        }
    }

    /// The same entries in a batch of these sizes, of which one is 0.
    fn nothing(&self, sizes: &[i64]) -> Result<Dense> {
        let dense = match &self.body {
            Body::Dense(dense) => dense,
            Body::Lazy(stack) => return stack.nothing(sizes),
        };
        let dims = dense.batch_size.len();
        let mut nothing = dense.try_map(|_, entry| {
            Ok(Some(match entry {
                Entry::Dict(dict) => {
                    let sizes: Vec<i64> =
                        sizes.iter().copied().chain(dict.first_sizes().into_iter().skip(dims)).collect();
                    TensorDict::dense(dict.nothing(&sizes)?).into()
                }
                leaf => leaf.refilled(sizes, dims, &zeros)?,
            }))
        })?;
        nothing.batch_size = sizes.to_vec();
        nothing.names.clear();
        Ok(nothing)
    }
}

impl TensorDict {
    /// A member's part; itself where it is taken whole.
    fn index_part(&self, items: &[Index]) -> Result<TensorDict> {
        let whole = |item: &Index| *item == Index::from(..);
        if items.iter().all(whole) {
            return Ok(self.handle());
        }
        self.index_by(items)
    }

    /// A batch dim of size 1 gone.
    fn without_dim(&self, dim: usize) -> Result<TensorDict> {
        let items = along(dim, Index::Row(0));
        self.index_by(&items)
    }
}
