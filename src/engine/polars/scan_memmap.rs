//! A saved tensordict → a lazy query.

use std::path::Path;

use polars::prelude::{IntoLazy, LazyFrame};

use super::to_polars;
use crate::error::Result;
use crate::options::ToArrowOptions;
use crate::store::{LoadOptions, load_memmap};

/// A saved tensordict as a lazy query of Polars: what [`load_memmap`] loads, as the frame that
/// [`to_polars`](crate::to_polars) makes of it.
///
/// Numbers stay in their files: a column is the map of one, read when the query gets to it and dropped by the system
/// when memory is short, so the streaming engine goes over a tensordict that is larger than memory. What is read at
/// once, if it is among the keys and rows asked for: booleans and masks, an eighth of their size in memory, unsigned
/// numbers of 16 to 64 bits, the offsets of ragged rows, and non-tensor values. Polars' own pushdown of columns doesn't
/// reach these: name the [keys](LoadOptions::keys).
///
/// The files must not be shortened or written to while the query or a frame of it lives.
///
/// ```
/// use polars::prelude::*;
/// use tch::Tensor;
/// use tensorquery::{LoadOptions, SaveOptions, TensorDict, ToArrowOptions, save_memmap, scan_memmap};
///
/// # let folder = tempfile::TempDir::new()?;
/// # let dir = folder.path().join("train");
/// let td = TensorDict::from_entries([("x", Tensor::from_slice(&[1.0f32, 2.0, 3.0]))])?.with_batch_size(&[3])?;
/// save_memmap(&td, &dir, &SaveOptions::default())?;
///
/// let query = scan_memmap(&dir, &LoadOptions::default(), &ToArrowOptions::default())?.filter(col("x").gt(lit(1)));
/// let frame = query.collect_with_engine(Engine::Streaming)?.unwrap_single();
/// assert_eq!(frame, df!("x" => [2.0f32, 3.0])?);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// What [`load_memmap`] and [`to_polars`](crate::to_polars) say.
pub fn scan_memmap(dir: impl AsRef<Path>, load: &LoadOptions, options: &ToArrowOptions) -> Result<LazyFrame> {
    Ok(to_polars(load_memmap(dir, load)?, options)?.lazy())
}
