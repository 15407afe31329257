//! Containers of leaf values.

mod builder;
mod dense;
mod densify;
mod entry;
mod indexing;
mod indices;
mod keys;
mod lazy;
mod lock;
mod members;
mod names;
mod nested;
mod pad_sequence;
mod read;
mod split;
mod stack;
mod tensordict;
mod write_at;

pub use builder::LazyStackBuilder;
pub use densify::Ragged;
pub use entry::Entry;
pub use indices::Indices;
pub use nested::Nested;
pub use pad_sequence::PadSequence;
pub use tensordict::TensorDict;
pub(crate) use tensordict::ensure_device;
