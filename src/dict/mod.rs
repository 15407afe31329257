//! Containers of leaf values.

mod dense;
mod entry;
mod keys;
mod lazy;
mod lock;
mod members;
mod names;
mod read;
mod split;
mod stack;
mod tensordict;

pub use entry::Entry;
pub use lazy::LazyStackBuilder;
pub use tensordict::TensorDict;
pub(crate) use tensordict::ensure_device;
