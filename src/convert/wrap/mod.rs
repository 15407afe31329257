//! Columns without nulls → entries: layout and the copy rule.
//!
//! A column comes as chunks of one type. A single chunk may be viewed; several are written one after
//! the other into the tensor's own memory, so a result is never joined in Arrow first.

mod boolean;
mod dense;
mod jagged;
mod non_tensor;
mod own;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use tch::Tensor;

use super::receipt::{ColumnReceipt, CopyReason, Receipt};
use crate::dict::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::options::CopyPolicy;
use crate::schema::{EntryKind, EntrySpec};

/// How columns are wrapped, and the record of it.
pub(super) struct Wrap {
    policy: CopyPolicy,
    receipt: Receipt,
}

impl Wrap {
    pub(super) fn new(policy: CopyPolicy) -> Self {
        Wrap { policy, receipt: Receipt::default() }
    }

    pub(super) fn into_receipt(self) -> Receipt {
        self.receipt
    }

    /// The column as an entry.
    pub(super) fn entry(&mut self, chunks: Vec<ArrayRef>, spec: &EntrySpec) -> Result<Entry> {
        match &spec.kind {
            EntryKind::NonTensor => non_tensor::wrap(chunks, spec).map(Entry::NonTensor),
            EntryKind::Dict(entries) => self.dict(chunks, entries).map(Entry::Dict),
            EntryKind::Dense(elements) => {
                self.column(spec);
                let rows = total(chunks.iter().map(|chunk| chunk.len()))?;
                let width = elements.width().max(1);
                let row_of = |element: usize| element / width;
                dense::wrap(chunks, elements, rows, spec.unsigned, self, &row_of).map(Entry::Tensor)
            }
            EntryKind::Jagged(elements) => {
                self.column(spec);
                jagged::wrap(chunks, elements, spec.unsigned, self).map(Entry::Jagged)
            }
        }
        .map_err(|error| if error.nested_key().is_some() { error } else { error.at(&spec.key) })
    }

    fn dict(&mut self, chunks: Vec<ArrayRef>, entries: &[EntrySpec]) -> Result<TensorDict> {
        let mut dict = TensorDict::new([total(chunks.iter().map(|chunk| chunk.len()))?]);
        let mut fields: Vec<Vec<ArrayRef>> = entries.iter().map(|_| Vec::with_capacity(chunks.len())).collect();
        for chunk in chunks {
            let structs = chunk.as_struct().clone();
            drop(chunk);
            let (_, columns, _) = structs.into_parts();
            for (field, column) in fields.iter_mut().zip(columns) {
                field.push(column);
            }
        }
        for (field, spec) in fields.into_iter().zip(entries) {
            dict.insert_trusted(spec.field.name(), self.entry(field, spec)?);
        }
        Ok(dict)
    }

    /// Validity of rows, chunk by chunk, as a boolean tensor.
    pub(super) fn mask(&mut self, key: NestedKey, chunks: &[BooleanBuffer]) -> Result<Tensor> {
        // A mask is made, not copied from a column, so no copy policy forbids it.
        let reason = Some(CopyReason::Unpacked);
        self.receipt.columns.push(ColumnReceipt { key, viewed: 0, copied: 0, reason, filled: 0 });
        let rows = total(chunks.iter().map(BooleanBuffer::len))?;
        boolean::unpack(chunks, &[rows], self)
    }

    fn column(&mut self, spec: &EntrySpec) {
        let key = spec.key.clone();
        self.receipt.columns.push(ColumnReceipt { key, viewed: 0, copied: 0, reason: None, filled: 0 });
    }

    fn current(&mut self) -> Option<&mut ColumnReceipt> {
        self.receipt.columns.last_mut()
    }
}

fn total(lengths: impl Iterator<Item = usize>) -> Result<i64> {
    i64::try_from(lengths.sum::<usize>()).map_err(|_| Error::shape("more rows than a tensor can count"))
}
