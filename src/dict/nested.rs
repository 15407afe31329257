//! Lists nested as the batch is.

use super::lazy::LazyStack;
use super::operand::ensure_shaped;
use super::stack::stack_entries;
use super::tensordict::{Body, Fitted};
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::tensor::JaggedTensor;

/// A value, or a list of such, nested as a batch is: one level per batch dim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nested<T> {
    /// One value.
    Value(T),
    /// The items along one dim.
    List(Vec<Nested<T>>),
}

impl<T> Nested<T> {
    /// All values in order, without the lists around them.
    pub fn into_flat(self) -> Vec<T> {
        match self {
            Nested::Value(value) => vec![value],
            Nested::List(items) => items.into_iter().flat_map(Nested::into_flat).collect(),
        }
    }

    /// The number of items of a list; `None` for a value.
    fn length(&self) -> Option<usize> {
        match self {
            Nested::Value(_) => None,
            Nested::List(items) => Some(items.len()),
        }
    }
}

impl<T: Into<Entry>> From<T> for Nested<Entry> {
    fn from(entry: T) -> Self {
        Nested::Value(entry.into())
    }
}

impl<T: Into<Nested<Entry>>> From<Vec<T>> for Nested<Entry> {
    fn from(items: Vec<T>) -> Self {
        Nested::List(items.into_iter().map(Into::into).collect())
    }
}

impl TensorDict {
    /// Puts the items of a list at `key`, one for each place of the batch. Lists are nested in the order of
    /// the batch dims, whichever of them is the stack dim; a nesting that ends early leaves the last dims
    /// to its entries.
    ///
    /// A member of a lazy stack without batch dims gets its item as it is, so items may differ in shape. A
    /// dense tensordict stacks its items; tensors of different lengths become a jagged tensor.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut stack = TensorDict::lazy_stack([TensorDict::new([]), TensorDict::new([])], 0)?;
    /// stack.set_list("a", vec![Tensor::from_slice(&[1.0f32, 1.0]), Tensor::from_slice(&[0.0f32])])?;
    /// assert_eq!(stack.members()[1].tensor("a")?.size(), [1]);
    /// assert_eq!(stack.item_shape("a")?, [2, -1]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a list of another length than its batch dim, or items that don't
    /// fit; what [`set`](Self::set) says. The tensordict is then as before.
    pub fn set_list(&mut self, key: impl Into<NestedKey>, items: impl Into<Nested<Entry>>) -> Result<()> {
        let key = key.into();
        let at = |error: Error| if error.nested_key().is_some() { error } else { error.at(&key) };
        let fitted = self.fit_list(key.names(), items.into()).map_err(at)?;
        self.put(key.names(), fitted);
        Ok(())
    }

    fn fit_list(&self, names: &[String], items: Nested<Entry>) -> Result<Fitted> {
        match &self.body {
            Body::Lazy(stack) => stack.fit_list(names, items),
            Body::Dense(dense) => {
                let entry = gather(items, &dense.batch_size)?;
                self.fit(names, entry)
            }
        }
    }
}

impl LazyStack {
    fn fit_list(&self, names: &[String], items: Nested<Entry>) -> Result<Fitted> {
        let mut columns: Vec<Nested<Entry>> = Vec::with_capacity(self.members.len());
        if let Nested::Value(entry) = items {
            return self.fit(names, entry);
        }
        transpose(items, self.stack_dim, self.members.len(), &mut columns)?;
        let pieces = self.members.iter().zip(columns).map(|(member, column)| member.fit_list(names, column));
        pieces.collect::<Result<_>>().map(Fitted::Pieces)
    }
}

/// The items along level `dim` of a list, each in the lists that were around it.
fn transpose(items: Nested<Entry>, dim: usize, count: usize, columns: &mut Vec<Nested<Entry>>) -> Result<()> {
    let list = match items {
        Nested::List(list) => list,
        Nested::Value(entry) => {
            let pieces = entry.unbind(dim)?;
            ensure_length(pieces.len(), count)?;
            columns.extend(pieces.into_iter().map(Nested::Value));
            return Ok(());
        }
    };
    if dim == 0 {
        ensure_length(list.len(), count)?;
        columns.extend(list);
        return Ok(());
    }
    let mut rows: Vec<Vec<Nested<Entry>>> = (0..count).map(|_| Vec::with_capacity(list.len())).collect();
    for item in list {
        let mut across = Vec::with_capacity(count);
        transpose(item, dim - 1, count, &mut across)?;
        rows.iter_mut().zip(across).for_each(|(row, item)| row.push(item));
    }
    columns.extend(rows.into_iter().map(Nested::List));
    Ok(())
}

fn ensure_length(length: usize, size: usize) -> Result<()> {
    if length == size {
        return Ok(());
    }
    Err(Error::shape(format!("batch dimension mismatch: a list of {length} items for a batch dim of {size}")))
}

/// The items of a list as one entry whose leading dims are `batch_size`.
fn gather(items: Nested<Entry>, batch_size: &[i64]) -> Result<Entry> {
    let (list, size) = match (items, batch_size) {
        (Nested::Value(entry), _) => {
            if let Entry::Tensor(tensor) = &entry {
                ensure_shaped(tensor)?;
            }
            return Ok(entry);
        }
        (Nested::List(list), [size, ..]) => (list, *size),
        (Nested::List(list), []) => {
            return Err(Error::shape(format!("a list of {} items where the batch has no dim left", list.len()))
                .remedy("give a tensor"));
        }
    };
    ensure_length(list.len(), usize::try_from(size).unwrap_or_default())?;
    if let Some(other) = list.iter().find(|item| item.length().is_some() != list[0].length().is_some()) {
        return Err(Error::shape(format!("a list mixes values and lists (of {:?})", other.length())));
    }
    let entries = list.into_iter().map(|item| gather(item, &batch_size[1..])).collect::<Result<Vec<_>>>()?;
    if entries.is_empty() {
        return Err(Error::shape("an empty list says neither dtype nor shape").remedy("give an empty tensor"));
    }
    let tensors: Option<Vec<_>> = entries.iter().map(Entry::as_tensor).collect();
    let ragged = tensors.is_some_and(|tensors| {
        let mut shapes = tensors.iter().map(|tensor| tensor.size());
        let first = shapes.next();
        shapes.any(|shape| Some(shape) != first)
    });
    if ragged && batch_size.len() == 1 {
        let tensors = entries.into_iter().filter_map(|entry| match entry {
            Entry::Tensor(tensor) => Some(tensor),
            _ => None,
        });
        return JaggedTensor::from_rows(&tensors.collect::<Vec<_>>()).map(Entry::Jagged);
    }
    stack_entries(entries, 0, None)
}
