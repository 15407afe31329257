//! The crates that the notebooks use, in one shared library.

pub use {arrow, datafusion, futures, plotters, tch, tensorquery, tokio};
