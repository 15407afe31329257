//! SQL queries that return **tensordicts**: dictionaries of libtorch tensors that share a batch size.
//!
//! ```text
//!  SQL · DataFrame ──► record batches ──► nulls refused, filled or masked ──► tensors ──► TensorDict
//!  LazyFrame                 ▲                                                               │
//!                            └───────────── to_arrow: masks are validity again ◄─────────────┘
//! ```
//!
//! Start with [`from_arrow`] for a record batch of your own, with [`DataFrameExt`] for a DataFusion query, or with
//! `PolarsExt` for a Polars one.
//! [`Options`] says what happens to nulls, which masks exist, what may share memory and where the result goes.
//! [`TensorDictSchema`] tells what will come before anything runs. [`to_arrow`] is the way back.
//!
//! A [`TensorDict`] holds [entries](Entry) of four kinds: tensors, [jagged tensors](JaggedTensor),
//! [non-tensor values](NonTensorStack) and nested tensordicts. It is dense or a [lazy stack](TensorDict::lazy_stack)
//! of others that needn't agree. [`MultiNestedTensor`] holds rows and columns of lists.
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{Array, ListArray, RecordBatch, StringArray};
//! use arrow::datatypes::Int32Type;
//! use tensorquery::{Options, from_arrow};
//!
//! let tokens = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), Some(2)]), Some(vec![])]);
//! let batch = RecordBatch::try_from_iter([
//!     ("tokens", Arc::new(tokens) as Arc<dyn Array>),
//!     ("text", Arc::new(StringArray::from(vec!["a b", ""]))),
//! ])?;
//! let td = from_arrow(batch, &Options::default())?;
//! assert_eq!(
//!     td.to_string(),
//!     "TensorDict  batch_size=[2]  device=none
//!   tokens  jagged      int32  [2, *]  cpu
//!   text    non_tensor  Utf8   [2]"
//! );
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # What becomes what
//!
//! See [`from_arrow`], and [`to_arrow`] for the way back. Types, kinds and shapes come from the schema, never from
//! the data.
//!
//! # Memory
//!
//! Tensors can be written in place, Arrow buffers are shared and immutable. A buffer becomes a tensor without a
//! copy only if it is proved to be the result's alone; [`CopyPolicy`] has the words, [`Receipt`] says what was done.
//! On the way back, a tensor's memory becomes a column without a copy if no handle is left that could write to it, or
//! if libtorch can be made to copy it before anybody does.
//!
//! # Notebooks
//!
//! [`TensorDict::to_html`] is a table of what is in it, with histograms; evcxr, the Jupyter kernel for Rust, shows it for
//! the value at the end of a cell. [`JaggedTensor`], [`MultiNestedTensor`], [`NonTensorStack`] and [`TensorDictSchema`]
//! have the same.
//!
//! # Features
//!
//! `datafusion` (default): SQL and DataFrames. `cli` (default): the command. `polars`: lazy queries and frames of
//! Polars, `PolarsExt`, `to_polars` and `scan_memmap`. Without any, the library is [`from_arrow`], [`to_arrow`] and the containers.

mod key;

mod error;

mod options;

mod dtype;

mod index;

mod schema;

mod nulls;

#[expect(unsafe_code, reason = "the one place for it; see its page")]
mod ffi;

mod tensor;

mod dict;

mod convert;

mod display;

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod store;

#[cfg(any(feature = "datafusion", feature = "polars"))]
mod loader;

mod engine;

pub use convert::{
    ColumnReceipt, CopyReason, Receipt, from_arrow, from_arrow_chunks, from_arrow_with_receipt, to_arrow,
};
pub use dict::{
    Entry, Indices, LazyStackBuilder, Nested, Operand, PadSequence, Ragged, Reduction, TensorDict, UpdateOptions,
};
pub use display::write_json;
pub use dtype::DType;
#[cfg(feature = "datafusion")]
pub use engine::datafusion::{
    DataFrameExt, Progress, PushTensorizeBelowMerge, SessionContextExt, SessionStateBuilderExt, TensorDictStream,
    TensorizeExtensionPlanner, TensorizeQueryPlanner, tensorize,
};
#[cfg(feature = "polars")]
pub use engine::polars::{PolarsExt, TensorDictIter, scan_memmap, to_polars};
pub use error::{Error, Result};
pub use index::Index;
pub use key::NestedKey;
#[cfg(feature = "datafusion")]
pub use loader::{Batches, BlockingBatches, Collate, Loader, LoaderMetrics, LoaderState, Order, Remainder};
pub use options::{
    ColumnOptions, CopyPolicy, DEFAULT_MASK_KEY, MaskKeys, Nulls, OptionValue, Options, ToArrowOptions, Unsigned,
};
pub use schema::{EntrySpec, TensorDictSchema};
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use store::{
    LoadOptions, MemmapWriter, SafetensorsWriter, SaveOptions, load_memmap, load_safetensors, save_memmap,
    save_safetensors,
};
pub use tensor::{CellIndex, JaggedTensor, MultiNestedTensor, NonTensorStack, Number, PaddingSide, Value};

/// The project's own pages, whose examples run with the documentation's.
#[doc(hidden)]
#[cfg(all(doctest, feature = "datafusion"))]
pub mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
}
