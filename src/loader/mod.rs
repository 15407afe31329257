//! Batches for training.

mod batcher;
mod groups;

use batcher::Batcher;
pub(crate) use groups::Groups;
