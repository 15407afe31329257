//! Arrow ⇄ tensors.

mod from_arrow;
mod receipt;
mod to_arrow;
mod wrap;

#[cfg(any(feature = "datafusion", feature = "polars"))]
pub(crate) use from_arrow::Converter;
pub use from_arrow::{from_arrow, from_arrow_chunks, from_arrow_with_receipt};
pub use receipt::{ColumnReceipt, CopyReason, Receipt};
pub use to_arrow::to_arrow;

/// A view may keep so many bytes alive that it doesn't show, or as many again as it shows.
const TOLERATED_WASTE: usize = 4096;

/// Whether a view of `shown` bytes would waste the memory of `held` ones.
fn is_small_part(shown: usize, held: usize) -> bool {
    held.saturating_sub(shown) > TOLERATED_WASTE.max(shown)
}
