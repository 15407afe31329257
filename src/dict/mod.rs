//! Containers of leaf values.

mod entry;
mod index;
mod tensordict;

pub use entry::Entry;
pub use index::Index;
pub use tensordict::TensorDict;
pub(crate) use tensordict::ensure_device;
