//! What a conversion did to each column.

use std::fmt;

use crate::error::Error;
use crate::key::NestedKey;
use crate::nulls::Cause;

/// What a conversion did to each column: shared its memory, copied it and why, filled how many nulls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// One per column that has tensors in it, in order; the fields of a struct one by one.
    pub columns: Vec<ColumnReceipt>,
}

/// What a conversion did to one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnReceipt {
    /// The entry.
    pub key: NestedKey,
    /// Bytes of the tensor that are the Arrow buffer itself.
    pub viewed: usize,
    /// Bytes that were written anew.
    pub copied: usize,
    /// Why they were.
    pub reason: Option<CopyReason>,
    /// Null rows and elements that got a fill value.
    pub filled: usize,
}

/// Why a tensor has memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyReason {
    /// [`CopyPolicy::Always`](crate::CopyPolicy::Always).
    Asked,
    /// Somebody else holds the buffer: a registered table, another column, a slice's parent.
    Shared,
    /// The column is a part of a buffer, and a view would keep the rest of it alive.
    Part,
    /// The memory isn't Rust's own: a memory map, a message, another library's.
    Foreign,
    /// Null rows hid elements, which are not in the tensor.
    Hidden,
    /// The column came in several chunks.
    Chunked,
    /// Unsigned numbers widened, or 32-bit offsets.
    Widened,
    /// Booleans are bits in Arrow and bytes in a tensor.
    Unpacked,
}

impl From<Cause> for CopyReason {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Part => CopyReason::Part,
            Cause::Shared => CopyReason::Shared,
            Cause::Foreign => CopyReason::Foreign,
            Cause::Hidden => CopyReason::Hidden,
        }
    }
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyReason::Asked => "copy=always asks for it",
            CopyReason::Shared => "its buffer is shared",
            CopyReason::Part => "it is a part of a larger buffer",
            CopyReason::Foreign => "its memory belongs to another allocator",
            CopyReason::Hidden => "its null rows hide elements, which are dropped",
            CopyReason::Chunked => "it comes in several chunks",
            CopyReason::Widened => "its numbers or offsets must be widened",
            CopyReason::Unpacked => "booleans are bits in Arrow",
        })
    }
}

/// The error of a copy that [`CopyPolicy::Never`](crate::CopyPolicy::Never) forbids.
pub(super) fn refuse(reason: impl fmt::Display) -> Error {
    Error::copy(format!("a copy is needed, since {reason}, and copy=never forbids it")).remedy("use copy=auto")
}

impl Receipt {
    /// Bytes that were written anew, over all columns.
    pub fn bytes_copied(&self) -> usize {
        self.columns.iter().map(|column| column.copied).sum()
    }

    /// Bytes shared with Arrow, over all columns.
    pub fn bytes_viewed(&self) -> usize {
        self.columns.iter().map(|column| column.viewed).sum()
    }
}
