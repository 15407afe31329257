//! One binary for all integration tests, so that the engine and libtorch are linked once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

mod arguments;
mod command;
mod conformance;
mod containers;
mod engine_fields;
mod engine_plans;
mod engine_streams;
mod explain;
mod non_tensors;
mod ownership;
mod peers;
mod properties;
mod show;
mod sql;
mod sql_files;
mod tidy;
mod vectors;
