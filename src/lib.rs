//! SQL queries that return tensordicts: dictionaries of libtorch tensors that share a batch size.

mod key;

mod error;

mod options;

mod dtype;

mod schema;

mod nulls;

#[expect(unsafe_code, reason = "the one place for it; see its page")]
mod ffi;

mod tensor;

mod dict;

mod convert;

mod display;

#[cfg(feature = "datafusion")]
mod loader;

mod engine;

pub use convert::{ColumnReceipt, CopyReason, Receipt, from_arrow, from_arrow_chunks, from_arrow_with_receipt};
pub use dict::{Entry, Index, TensorDict};
pub use display::write_json;
pub use dtype::DType;
#[cfg(feature = "datafusion")]
pub use engine::datafusion::{
    DataFrameExt, Progress, PushTensorizeBelowMerge, SessionContextExt, SessionStateBuilderExt, TensorDictStream,
    TensorizeExtensionPlanner, TensorizeQueryPlanner, tensorize,
};
pub use error::{Error, Result};
pub use key::NestedKey;
pub use options::{ColumnOptions, CopyPolicy, DEFAULT_MASK_KEY, MaskKeys, Nulls, OptionValue, Options, Unsigned};
pub use schema::{EntrySpec, TensorDictSchema};
pub use tensor::{JaggedTensor, NonTensorStack, Value};
