//! The copy rule: when a tensor may be the Arrow buffer itself.

use arrow::buffer::{Buffer, MutableBuffer};

use super::Wrap;
use crate::convert::is_small_part;
use crate::convert::receipt::{CopyReason, refuse};
use crate::error::Result;
use crate::nulls::{Cause, EntryWork};
use crate::options::CopyPolicy;

impl Wrap {
    /// The buffer to build the tensor on: itself where that is sound and wanted, else `None` and the
    /// buffer back, to be copied.
    ///
    /// Tensors can be written in place, so a view needs proof that nobody else sees the memory.
    /// `Buffer::into_mutable` gives it: it succeeds only for the sole owner of a whole allocation made by
    /// Rust's allocator.
    ///
    /// # Errors
    ///
    /// `CopyPolicy::Never` and no view is possible.
    pub(super) fn own(&mut self, buffer: Buffer) -> Result<Result<MutableBuffer, Buffer>> {
        if self.policy == CopyPolicy::Always {
            self.copies(CopyReason::Asked)?;
            return Ok(Err(buffer));
        }
        if self.policy == CopyPolicy::Auto && is_small_part(buffer.len(), buffer.capacity()) {
            self.copies(CopyReason::Part)?;
            return Ok(Err(buffer));
        }
        let reason = CopyReason::from(Cause::of(&buffer));
        match buffer.into_mutable() {
            Ok(owned) => {
                if let Some(column) = self.current() {
                    column.viewed += owned.len();
                }
                Ok(Ok(owned))
            }
            Err(shared) => {
                self.copies(reason)?;
                Ok(Err(shared))
            }
        }
    }

    /// Notes that the column is copied, or refuses to.
    pub(super) fn copies(&mut self, reason: CopyReason) -> Result<()> {
        if self.policy == CopyPolicy::Never {
            return Err(refuse(reason));
        }
        if let Some(column) = self.current() {
            column.reason.get_or_insert(reason);
        }
        Ok(())
    }

    /// Adds what the nulls stage did to an entry before it was wrapped. A buffer that was copied there
    /// is no view, though the tensor is built on the copy.
    ///
    /// # Errors
    ///
    /// `CopyPolicy::Never` and the stage had to copy.
    pub(in crate::convert) fn note(&mut self, work: &EntryWork) -> Result<()> {
        let reason = work.cause.map(CopyReason::from);
        if let (CopyPolicy::Never, Some(reason)) = (self.policy, reason) {
            return Err(refuse(reason).at(&work.key));
        }
        if let Some(column) = self.receipt.columns.iter_mut().rev().find(|column| column.key == work.key) {
            column.filled += work.filled;
            column.copied += work.bytes_copied;
            column.viewed = column.viewed.saturating_sub(work.bytes_copied);
            column.reason = column.reason.or(reason);
        }
        Ok(())
    }

    pub(super) fn copied(&mut self, bytes: usize) {
        if let Some(column) = self.current() {
            column.copied += bytes;
        }
    }
}
