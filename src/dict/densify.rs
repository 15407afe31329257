//! A lazy stack as a dense tensordict.

use arrow::array::new_null_array;
use arrow::datatypes::DataType;
use indexmap::IndexSet;
use tch::{Kind, Tensor};

use super::dense::Dense;
use super::lazy::LazyStack;
use super::read::pad_tensors;
use super::stack::stack_entries;
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::tensor::{JaggedTensor, NonTensorStack, Number, PaddingSide, promoted};

/// What tensors of different shapes become when a lazy stack is made dense.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Ragged {
    /// Jagged tensors. Their one ragged dim is 1, so the stack dim must be 0 and members have no batch dims
    /// of a common size.
    Jagged,
    /// Dense tensors in which each dim is as long as the longest, filled up on a side.
    Padded {
        /// Where the padding goes.
        side: PaddingSide,
        /// What it is, cast to each dtype. Booleans are false there: a mask is of what there is.
        value: Number,
    },
}

impl TensorDict {
    /// A dense tensordict with all entries that any member of a lazy stack has, in the order in which they
    /// come up first. Tensors of one shape are stacked, others become what `ragged` says. A member that
    /// lacks an entry gives a row of no elements, or null for what is no tensor.
    ///
    /// Non-tensor values of members that differ in batch size become one list for each member (within the batch dims
    /// that all share), or are padded with nulls. Jagged entries can only be padded: a jagged tensor has one ragged dim.
    ///
    /// A batch dim along which the members differ is no batch dim of the result, unless it is padded.
    ///
    /// ```
    /// use tch::{Kind, Tensor};
    /// use tensorquery::{Ragged, TensorDict};
    ///
    /// let mut members = [TensorDict::new([]), TensorDict::new([])];
    /// members[0].set("a", Tensor::from_slice(&[1i64, 2, 3]))?;
    /// members[1].set("b", Tensor::from_slice(&[4i64]))?;
    /// let dense = TensorDict::lazy_stack(members, 0)?.densify(Ragged::Jagged)?;
    /// assert_eq!(Vec::<i64>::try_from(dense.jagged("a")?.offsets())?, [0, 3, 3]);
    /// assert_eq!(Vec::<i64>::try_from(dense.jagged("b")?.offsets())?, [0, 0, 1]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for tensors that differ in their number of dims; for jagged ones, if
    /// they differ in another dim than their first, are jagged already, or the stack dim isn't 0; for entries without
    /// dims that some member lacks. A [key](Error::is_key) error for entries of different kinds.
    pub fn densify(&self, ragged: Ragged) -> Result<TensorDict> {
        match &self.body {
            Body::Dense(dense) => dense
                .try_map(|_, entry| match entry {
                    Entry::Dict(dict) => dict.densify(ragged).map(|dict| Some(dict.into())),
                    other => Ok(Some(other.shallow_clone())),
                })
                .map(TensorDict::dense),
            Body::Lazy(stack) => stack.densify(ragged),
        }
    }
}

impl LazyStack {
    fn densify(&self, ragged: Ragged) -> Result<TensorDict> {
        // Stacks of stacks from the inside out.
        if self.members.iter().any(TensorDict::is_lazy) {
            let members = self.members.iter().map(|member| member.densify(ragged)).collect::<Result<Vec<_>>>()?;
            LazyStack::check(&members, false)?;
            return self.with_members(members).densify(ragged);
        }
        let batch_size = self.dense_batch_size(ragged);
        let mut names = TensorDict::lazy(self.shallow_clone()).shared_names();
        names.truncate(batch_size.len());
        if names.iter().all(Option::is_none) {
            names.clear();
        }
        let mut dense = Dense { batch_size, names, device: self.device(), ..Dense::default() };
        let keys: IndexSet<String> = self.members.iter().flat_map(TensorDict::keys).collect();
        for name in keys {
            let path = std::slice::from_ref(&name);
            let entries = self.members.iter().map(|member| member.find(path)).collect::<Result<Vec<_>>>()?;
            let entry = self.dense_entry(entries, ragged).map_err(|error| error.below(&name))?;
            dense.entries.insert(name, entry);
        }
        Ok(TensorDict::dense(dense))
    }

    /// The dims that all entries of the result have in front.
    fn dense_batch_size(&self, ragged: Ragged) -> Vec<i64> {
        match ragged {
            Ragged::Jagged => self.batch_size().into_iter().take_while(|size| *size >= 0).collect(),
            Ragged::Padded { .. } => {
                let members = self.members.iter().map(TensorDict::batch_size);
                let mut sizes = members.fold(Vec::new(), |longest: Vec<i64>, sizes| {
                    sizes.iter().enumerate().map(|(at, size)| *longest.get(at).unwrap_or(&0).max(size)).collect()
                });
                sizes.insert(self.stack_dim.min(sizes.len()), self.members.len() as i64);
                sizes
            }
        }
    }

    fn dense_entry(&self, mut entries: Vec<Option<Entry>>, ragged: Ragged) -> Result<Entry> {
        if let Ragged::Padded { side, value } = ragged {
            for entry in &mut entries {
                if let Some(Entry::Jagged(jagged)) = entry {
                    let padding = padding_for(jagged.values().f_kind()?, value);
                    *entry = Some(jagged.to_padded(side, padding, None)?.into());
                }
            }
        }
        let Some(kind) = entries.iter().flatten().map(Entry::kind).next() else {
            return Err(Error::key("no member has it"));
        };
        if let Some(other) = entries.iter().flatten().find(|entry| entry.kind() != kind) {
            return Err(Error::key(format!(
                "the members' entries are of different kinds: {kind} and {}",
                other.kind()
            ))
            .remedy("get_list gives them one by one"));
        }
        match kind {
            "dict" => {
                let members = entries.into_iter().zip(&self.members).map(|(entry, member)| match entry {
                    Some(Entry::Dict(dict)) => dict,
                    _ => member.blank(),
                });
                let members: Vec<_> = members.collect();
                LazyStack::check(&members, false)?;
                self.with_members(members).densify(ragged).map(Entry::Dict)
            }
            "non_tensor" => self.dense_values(entries, ragged),
            "tensor" => self.dense_tensors(entries, ragged),
            _ => stack_entries(entries.into_iter().flatten().collect(), self.stack_dim, None),
        }
    }

    fn dense_values(&self, entries: Vec<Option<Entry>>, ragged: Ragged) -> Result<Entry> {
        let values = entries.into_iter().zip(&self.members).map(|(entry, member)| match entry {
            Some(Entry::NonTensor(values)) => Ok(values),
            _ => {
                let batch_size = member.batch_size();
                let nulls = NonTensorStack::new(new_null_array(&DataType::Null, 1)).row(0);
                nulls.broadcast(&batch_size)
            }
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        if values.iter().all(|other| other.batch_size() == values[0].batch_size()) {
            return NonTensorStack::stack(&values, self.stack_dim).map(Entry::NonTensor);
        }
        let dims = values[0].batch_size().len();
        if let Some(other) = values.iter().find(|values| values.batch_size().len() != dims) {
            let (first, other) = (values[0].batch_size(), other.batch_size());
            return Err(Error::shape(format!("values of batch sizes {first:?} and {other:?} can't be put together"))
                .remedy("get_list gives them one by one"));
        }
        match ragged {
            Ragged::Jagged if self.stack_dim == 0 => {
                NonTensorStack::stack_lists(&values, self.dense_batch_size(ragged).len() - 1).map(Entry::NonTensor)
            }
            Ragged::Jagged => Err(self.rows_elsewhere()),
            Ragged::Padded { side, .. } => {
                let longest: Vec<i64> = (0..dims)
                    .map(|dim| values.iter().map(|values| values.batch_size()[dim]).max().unwrap_or_default())
                    .collect();
                let padded = values.iter().map(|values| values.padded(&longest, side)).collect::<Result<Vec<_>>>()?;
                NonTensorStack::stack(&padded, self.stack_dim).map(Entry::NonTensor)
            }
        }
    }

    fn rows_elsewhere(&self) -> Error {
        Error::shape(format!("the stack dim is {}, and ragged rows lie along dim 0", self.stack_dim)).remedy(
            "stack along dim 0, as transpose does, or use densify(Ragged::Padded { .. }), get_padded or get_list",
        )
    }

    fn dense_tensors(&self, entries: Vec<Option<Entry>>, ragged: Ragged) -> Result<Entry> {
        let found: Vec<Tensor> =
            entries.iter().flatten().filter_map(Entry::as_tensor).map(Tensor::shallow_clone).collect();
        let first = found.first().map(Tensor::size).unwrap_or_default();
        let alike = found.len() == entries.len() && found.iter().all(|tensor| tensor.size() == first);
        if alike {
            return stack_entries(found.into_iter().map(Entry::Tensor).collect(), self.stack_dim, None);
        }
        if first.is_empty() {
            return Err(Error::shape("some members lack it, and without dims it can't be a row of no elements")
                .remedy("set it in all members, or exclude it"));
        }
        let (kind, device) = (promoted(&found)?, found[0].device());
        let empty: Vec<i64> = std::iter::once(0).chain(first[1..].iter().copied()).collect();
        let mut found = found.into_iter();
        let rows = entries.iter().map(|entry| match entry {
            Some(_) => found.next().ok_or_else(|| Error::key("the entry is no tensor")),
            None => Ok(Tensor::f_zeros(&empty, (kind, device))?),
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        match ragged {
            Ragged::Jagged if self.stack_dim == 0 => JaggedTensor::from_rows(&rows)
                .map(Entry::Jagged)
                .map_err(|error| {
                    error.remedy(
                        "densify(Ragged::Padded { .. }) and get_padded pad every dim, get_list gives the tensors one by one",
                    )
                }),
            Ragged::Jagged => Err(self.rows_elsewhere()),
            Ragged::Padded { side, value } => {
                let padded = pad_tensors(&rows, side, padding_for(kind, value))?;
                Ok(Entry::Tensor(padded.f_movedim_int(0, self.stack_dim as i64)?))
            }
        }
    }
}

/// Masks are of what there is.
fn padding_for(kind: Kind, value: Number) -> Number {
    if kind == Kind::Bool { Number::Int(0) } else { value }
}
