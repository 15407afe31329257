//! SQL and DataFrames, by Apache DataFusion. The files come in the order a query meets them.

mod ext;

mod config;

mod relation;

mod functions;

mod logical;

mod planner;

mod exec;

mod rule;

mod stream;

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod saved;

mod source;

mod scan;

mod files;

mod repeatable;

mod error;

pub use ext::{DataFrameExt, Progress, SessionContextExt, SessionStateBuilderExt};
pub use planner::{TensorizeExtensionPlanner, TensorizeQueryPlanner};
pub use rule::{PushTensorizeBelowMerge, tensorize};
pub use stream::TensorDictStream;
