//! An engine turns a query into record batches; nothing else may know that engines exist.

#[cfg(feature = "datafusion")]
pub(crate) mod datafusion;
#[cfg(feature = "polars")]
pub(crate) mod polars;
