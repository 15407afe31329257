//! Arrow → tensors.

mod from_arrow;
mod receipt;
mod wrap;

#[cfg(feature = "datafusion")]
pub(crate) use from_arrow::Converter;
pub use from_arrow::{from_arrow, from_arrow_chunks, from_arrow_with_receipt};
pub use receipt::{ColumnReceipt, CopyReason, Receipt};
