//! Containers of leaf values.

mod apply;
mod arithmetic;
mod choose;
mod compare;
mod create;
mod dense;
mod edit;
mod entry;
mod keys;
mod lazy;
mod lock;
mod members;
mod names;
mod number;
mod operand;
mod overwrite;
mod read;
mod reduce;
mod rename;
mod split;
mod stack;
mod tensordict;
mod update;

pub use entry::Entry;
pub use lazy::LazyStackBuilder;
pub use number::Number;
pub use operand::Operand;
pub use reduce::Reduction;
pub use tensordict::TensorDict;
pub(crate) use tensordict::ensure_device;
pub use update::UpdateOptions;
