//! The copy rule: when a tensor may be the Arrow buffer itself.

use arrow::buffer::{Buffer, MutableBuffer};

use super::Wrap;
use crate::convert::receipt::CopyReason;
use crate::error::{Error, Result};
use crate::options::CopyPolicy;

/// A view may keep so many bytes alive that it doesn't show, or as many again as it shows.
const TOLERATED_WASTE: usize = 4096;

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
        let waste = buffer.capacity().saturating_sub(buffer.len());
        if self.policy == CopyPolicy::Auto && waste > TOLERATED_WASTE.max(buffer.len()) {
            self.copies(CopyReason::Part)?;
            return Ok(Err(buffer));
        }
        let reason = if buffer.ptr_offset() > 0 {
            CopyReason::Part
        } else if buffer.strong_count() > 1 {
            CopyReason::Shared
        } else {
            CopyReason::Foreign
        };
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
            return Err(Error::copy(format!("a copy is needed, since {reason}, and copy=never forbids it"))
                .remedy("use copy=auto"));
        }
        if let Some(column) = self.current() {
            column.reason.get_or_insert(reason);
        }
        Ok(())
    }

    pub(super) fn copied(&mut self, bytes: usize) {
        if let Some(column) = self.current() {
            column.copied += bytes;
        }
    }
}
