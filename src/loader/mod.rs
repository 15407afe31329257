//! Batches for training.

mod batcher;

pub(crate) use batcher::Batcher;
