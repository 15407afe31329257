//! Batches for training.
//!
//! ```text
//! query ──► order ──► shard ──► skip ──► cut ──► convert ──► bounded queue ──► training loop
//!  (BatchSource: an engine's)   └──────────── produce.rs, a task ahead ────┘     (Batches)
//! ```

mod batcher;
mod groups;

#[cfg(feature = "datafusion")]
mod batches;
#[cfg(feature = "datafusion")]
mod blocking;
#[cfg(feature = "datafusion")]
mod cut;
#[cfg(feature = "datafusion")]
mod metrics;
#[cfg(feature = "datafusion")]
mod order;
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

use batcher::Batcher;
#[cfg(feature = "datafusion")]
pub use batches::Batches;
#[cfg(feature = "datafusion")]
pub use blocking::BlockingBatches;
pub(crate) use groups::Groups;
#[cfg(feature = "datafusion")]
pub use metrics::LoaderMetrics;
#[cfg(feature = "datafusion")]
pub use order::Order;
#[cfg(feature = "datafusion")]
pub(crate) use order::{DistinctRows, is_key_type, shuffle_keys};
#[cfg(feature = "datafusion")]
pub use settings::Loader;
#[cfg(feature = "datafusion")]
pub use shard::Remainder;
#[cfg(feature = "datafusion")]
pub(crate) use source::{BatchSource, RecordBatches};
#[cfg(feature = "datafusion")]
pub use state::LoaderState;
