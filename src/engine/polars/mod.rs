//! Lazy pipelines and frames of Polars, and tensordicts as frames. The files come in the order a query meets them.

mod ext;

mod announced;

mod apart;

mod query;

mod batches;

mod columns;

mod iter;

mod to_polars;

mod scan_memmap;

mod error;

pub use ext::PolarsExt;
pub use iter::TensorDictIter;
pub use scan_memmap::scan_memmap;
pub use to_polars::to_polars;
