//! One binary for all integration tests, so that the engine and libtorch are linked once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

mod arguments;
#[cfg(feature = "datafusion")]
mod command;
#[cfg(feature = "datafusion")]
mod command_words;
#[cfg(feature = "datafusion")]
mod conformance;
mod containers;
#[cfg(feature = "datafusion")]
mod engine_fields;
#[cfg(feature = "datafusion")]
mod engine_plans;
#[cfg(feature = "datafusion")]
mod engine_streams;
#[cfg(feature = "datafusion")]
mod explain;
mod non_tensors;
mod ownership;
mod peers;
mod properties;
#[cfg(feature = "datafusion")]
mod relations;
mod show;
#[cfg(feature = "datafusion")]
mod sql;
#[cfg(feature = "datafusion")]
mod sql_files;
mod tidy;
mod vectors;
