//! Batches for training.
//!
//! ```text
//! rows ──► order ──► shard ──► shuffle ──► skip ──► cut, group ──► make, collate ──► bounded queue ──► training loop
//!   (a BatchSource: a query, or a tensordict) └─────── produce.rs, a task ahead ────────┘      (Batches)
//! ```

mod batcher;
mod groups;

#[cfg(feature = "datafusion")]
mod batches;
#[cfg(feature = "datafusion")]
mod blocking;
#[cfg(feature = "datafusion")]
mod collate;
#[cfg(feature = "datafusion")]
mod cut;
#[cfg(feature = "datafusion")]
mod group;
#[cfg(feature = "datafusion")]
mod held;
#[cfg(feature = "datafusion")]
mod metrics;
#[cfg(feature = "datafusion")]
mod order;
#[cfg(feature = "datafusion")]
mod permute;
#[cfg(feature = "datafusion")]
mod pieces;
#[cfg(feature = "datafusion")]
mod produce;
#[cfg(feature = "datafusion")]
mod settings;
#[cfg(feature = "datafusion")]
mod shard;
#[cfg(feature = "datafusion")]
mod source;
#[cfg(feature = "datafusion")]
mod state;
#[cfg(feature = "datafusion")]
mod window;

use batcher::Batcher;
#[cfg(feature = "datafusion")]
pub use batches::Batches;
#[cfg(feature = "datafusion")]
pub use blocking::BlockingBatches;
#[cfg(feature = "datafusion")]
pub use collate::Collate;
#[cfg(feature = "datafusion")]
pub(crate) use cut::{Measure, measure_lists};
pub(crate) use groups::Groups;
#[cfg(feature = "datafusion")]
pub use metrics::LoaderMetrics;
#[cfg(feature = "datafusion")]
pub use order::Order;
#[cfg(feature = "datafusion")]
pub(crate) use order::{DistinctRows, is_key_type, shuffle_keys};
#[cfg(feature = "datafusion")]
pub(crate) use pieces::{Part, Segment, part_of, stored_part};
#[cfg(feature = "datafusion")]
pub use settings::Loader;
#[cfg(feature = "datafusion")]
pub use shard::Remainder;
#[cfg(feature = "datafusion")]
pub(crate) use source::{BatchSource, Charge, Chunk, Made, Opened, Place, Reading};
#[cfg(feature = "datafusion")]
pub use state::LoaderState;
#[cfg(feature = "datafusion")]
pub(crate) use window::shown_bytes;
