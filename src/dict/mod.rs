//! Containers of leaf values.

mod entry;
mod tensordict;

pub use entry::Entry;
pub use tensordict::TensorDict;
pub(crate) use tensordict::ensure_device;
