//! Picking parts of the batch by tensors.

use tch::{Kind, Tensor};

use super::dense::dims_beyond;
use super::indices::{along, coordinates, grid};
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::index::{Index, elements};

impl TensorDict {
    /// The rows of a batch dim that a tensor `int64[k]` names, in its order.
    ///
    /// # Errors
    ///
    /// What [`Index::from_tensor`] and [`index`](Self::index) say; an [index](Error::is_index) error for a dim out
    /// of range or a tensor of other than one dim.
    pub fn index_select(&self, dim: i64, rows: &Tensor) -> Result<TensorDict> {
        let at = self.batch_dim(dim)?;
        let index = Index::from_tensor(rows)?;
        if !matches!(index, Index::Rows(_)) {
            return Err(Error::index(format!("rows to select are integers of one dim, not {:?}", rows.size())));
        }
        let items = along(at, index);
        self.index(items)
    }

    /// The places of the batch where a boolean mask is true, as one dim in front; the mask covers the leading dims.
    ///
    /// # Errors
    ///
    /// What [`Index::from_tensor`] and [`index`](Self::index) say; an [index](Error::is_index) error for a tensor
    /// that is no mask.
    pub fn masked_select(&self, mask: &Tensor) -> Result<TensorDict> {
        match Index::from_tensor(mask)? {
            index @ (Index::Mask(_) | Index::GridMask { .. }) => self.index(index),
            _ => Err(Error::index("a mask is a bool tensor")),
        }
    }

    /// Along a batch dim, for each place of `index` the row that it names there, as `torch.gather`: the batch size
    /// of the result is the index's shape. An index of fewer dims than the batch leaves the last ones whole.
    ///
    /// The result is dense, but lazy where the members of a lazy stack differ in shape, and for an index of one dim
    /// along the stack dim, which chooses members.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a dim or row out of range or an index that isn't `int64` of at least
    /// one dim, or larger than the batch; a [shape](Error::is_shape) error for jagged entries unless the index has
    /// one dim.
    pub fn gather(&self, dim: i64, index: &Tensor) -> Result<TensorDict> {
        let dense = index.defined() && index.f_internal_shape_as_tensor().is_ok();
        if !dense || index.f_kind()? != Kind::Int64 || index.dim() == 0 || index.dim() > self.batch_dims() {
            return Err(Error::index(format!(
                "an index to gather by is int64 of 1 to {} dims, as the batch has",
                self.batch_dims()
            )));
        }
        let at = self.batch_dim(dim)?;
        if at >= index.dim() {
            return Err(Error::index(format!("the index has no dim {at}: its shape is {:?}", index.size())));
        }
        ensure_within(&self.batch_size(), at, index)?;
        if let Body::Lazy(stack) = &self.body {
            if index.dim() == 1 && stack.stack_dim == 0 {
                return self.index_select(0, index);
            }
            return match self.contiguous() {
                Err(error) if error.is_shape() => self.index(in_pairs(at, index)?),
                dense => dense?.gather(dim, index),
            };
        }
        let Body::Dense(dense) = &self.body else {
            return Err(Error::index("no batch"));
        };
        let mut gathered = dense.try_map(|_, entry| gather_entry(entry, &dense.batch_size, at, index).map(Some))?;
        gathered.batch_size.splice(..index.dim(), index.size());
        Ok(TensorDict::dense(gathered))
    }
}

/// Fails for an index that reaches beyond the batch, which need not have entries that would say so.
fn ensure_within(batch_size: &[i64], dim: usize, index: &Tensor) -> Result<()> {
    let rows: Vec<i64> = elements(index)?;
    // Where members differ, each of them decides.
    let within = |size: i64, row: i64| size < 0 || row < size;
    if let Some(row) = rows.iter().find(|row| **row < 0 || !within(batch_size[dim], **row)) {
        let size = batch_size[dim];
        return Err(Error::index(format!(
            "row {row} is out of bounds for a batch of {size}; rows to gather count from 0"
        ))
        .at_dim(dim));
    }
    let sizes = index.size();
    let fits =
        sizes.iter().zip(batch_size).enumerate().all(|(at, (theirs, size))| at == dim || within(*size, theirs - 1));
    if rows.is_empty() || fits {
        return Ok(());
    }
    Err(Error::index(format!(
        "an index of shape {sizes:?} is larger than the batch, {batch_size:?}, in a dim beside {dim}"
    )))
}

/// The rows to gather as lists that are taken in pairs: along other dims, each place is its own.
fn in_pairs(dim: usize, index: &Tensor) -> Result<Vec<Index>> {
    let shape = index.size();
    let places = coordinates(&shape, &[])?;
    let grids = places.iter().enumerate().map(|(at, place)| {
        let rows = if at == dim { index } else { place };
        Ok(Index::Grid { rows: elements(rows)?, shape: shape.clone() })
    });
    grids.collect()
}

fn gather_entry(entry: &Entry, batch_size: &[i64], dim: usize, index: &Tensor) -> Result<Entry> {
    match entry {
        Entry::Tensor(tensor) => {
            dims_beyond(tensor, batch_size)?;
            gather_tensor(tensor, dim, index).map(Entry::Tensor)
        }
        Entry::NonTensor(values) => values.rearrange(|places| gather_tensor(places, dim, index)).map(Entry::NonTensor),
        Entry::Dict(dict) => dict.gather(dim as i64, index).map(Entry::Dict),
        Entry::Jagged(_) if index.dim() == 1 => {
            let item = Index::from_tensor(index)?;
            let rows = entry.shape()[0];
            grid(&item, rows)?;
            entry.select(&item.resolve(rows)?)
        }
        Entry::Jagged(_) => Err(Error::shape("jagged rows have one dim, they can't be gathered in several")),
    }
}

/// The index has no more dims than the tensor.
fn gather_tensor(tensor: &Tensor, dim: usize, index: &Tensor) -> Result<Tensor> {
    let (shape, dims) = (tensor.size(), index.dim());
    let sizes = index.size().into_iter().chain(shape.iter().copied().skip(dims)).collect::<Vec<_>>();
    let mut spread = index.f_to_device(tensor.device())?;
    for _ in dims..shape.len() {
        spread = spread.f_unsqueeze(-1)?;
    }
    let spread = spread.f_expand(&sizes, false)?;
    tensor.f_gather(dim as i64, &spread, false).map_err(|error| {
        let theirs = Error::from(error);
        Error::index(format!("an index of shape {:?} can't gather from {shape:?}: {theirs}", index.size()))
    })
}
