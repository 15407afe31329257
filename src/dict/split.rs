//! Taking a tensordict apart along a batch dim.

use super::TensorDict;
use super::dense::Dense;
use super::tensordict::Body;
use crate::error::{Error, Result};

impl TensorDict {
    /// One tensordict for each place along a batch dim, which it loses; tensors share storage. Along its
    /// stack dim a lazy stack gives its members.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a dim out of range; a [shape](Error::is_shape) error for a
    /// dim of a lazy stack along which the members differ, and for a jagged entry unless `dim` is 0.
    pub fn unbind(&self, dim: i64) -> Result<Vec<TensorDict>> {
        let at = self.batch_dim(dim)?;
        match &self.body {
            Body::Dense(dense) => {
                let size = usize::try_from(dense.batch_size[at]).unwrap_or_default();
                let mut emptied = dense.emptied();
                emptied.batch_size.remove(at);
                if !emptied.names.is_empty() {
                    emptied.names.remove(at);
                }
                let mut parts: Vec<Dense> = (0..size).map(|_| emptied.emptied()).collect();
                for (name, entry) in &dense.entries {
                    let pieces = entry.shallow_clone().unbind(at).map_err(|error| error.below(name))?;
                    for (part, piece) in parts.iter_mut().zip(pieces) {
                        part.entries.insert(name.clone(), piece);
                    }
                }
                Ok(parts.into_iter().map(TensorDict::dense).collect())
            }
            Body::Lazy(stack) if at == stack.stack_dim => {
                Ok(stack.members.iter().map(TensorDict::shallow_clone).collect())
            }
            Body::Lazy(stack) => {
                let (within, stack_dim) = stack.around(at);
                if stack.member_batch_size()[within] < 0 {
                    return Err(Error::shape(format!(
                        "the members differ along dim {at}, so the stack can't be taken apart along it"
                    )));
                }
                let mut columns: Vec<Vec<TensorDict>> = Vec::new();
                for member in &stack.members {
                    for (place, piece) in member.unbind(within as i64)?.into_iter().enumerate() {
                        match columns.get_mut(place) {
                            Some(column) => column.push(piece),
                            None => columns.push(vec![piece]),
                        }
                    }
                }
                Ok(columns.into_iter().map(|column| stack.restacked(column, stack_dim)).collect())
            }
        }
    }

    /// The batch dim meant by `dim`; negative ones count from the end.
    pub(super) fn batch_dim(&self, dim: i64) -> Result<usize> {
        let dims = self.batch_dims() as i64;
        let at = if dim < 0 { dim.saturating_add(dims) } else { dim };
        match usize::try_from(at) {
            Ok(place) if at < dims => Ok(place),
            _ if dims == 0 => Err(Error::index(format!("dim {dim} is out of range: there are no batch dims"))),
            _ => Err(Error::index(format!(
                "dim {dim} is out of range: batch dims lie between {} and {}",
                -dims,
                dims - 1
            ))),
        }
    }
}
