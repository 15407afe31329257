//! One binary for all integration tests, so that the engine and libtorch are linked once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

mod arguments;
mod choosing;
#[cfg(feature = "datafusion")]
mod command;
#[cfg(feature = "datafusion")]
mod command_hints;
#[cfg(feature = "datafusion")]
mod command_words;
#[cfg(feature = "datafusion")]
mod conformance;
mod containers;
mod defaults;
mod densifying;
mod documents;
#[cfg(feature = "datafusion")]
mod engine_fields;
#[cfg(feature = "datafusion")]
mod engine_plans;
#[cfg(feature = "datafusion")]
mod engine_streams;
mod entry_rules;
#[cfg(feature = "datafusion")]
mod explain;
#[cfg(feature = "datafusion")]
mod functions;
mod hostile;
mod html;
mod indexed_writes;
mod indexing;
mod jagged;
mod jagged_rows;
mod key_ops;
mod lazy_stack_vectors;
mod lazy_stacks;
#[cfg(feature = "datafusion")]
mod loader;
#[cfg(feature = "datafusion")]
mod loader_collate;
#[cfg(feature = "datafusion")]
mod loader_faults;
#[cfg(feature = "datafusion")]
mod loader_held;
#[cfg(feature = "datafusion")]
mod loader_streamed;
#[cfg(feature = "datafusion")]
mod loader_watched;
mod locks;
mod multi_nested;
mod multi_nested_ops;
mod non_tensors;
mod ownership;
mod padding_rows;
mod peers;
mod pointwise;
#[cfg(feature = "polars")]
mod polars;
mod properties;
mod random;
#[cfg(feature = "datafusion")]
mod relations;
mod round_trip;
mod shapes;
mod show;
#[cfg(feature = "datafusion")]
mod sql;
#[cfg(feature = "datafusion")]
mod sql_files;
#[cfg(all(feature = "datafusion", any(target_os = "linux", target_os = "macos")))]
mod sql_store;
#[cfg(all(feature = "datafusion", any(target_os = "linux", target_os = "macos")))]
mod sql_store_reading;
mod stacking;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod store;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod store_crash;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod store_hostile;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod store_python;
mod tidy;
mod to_arrow;
mod to_arrow_memory;
mod to_arrow_stacks;
mod updating;
mod vectors;
