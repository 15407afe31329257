//! What a Polars user sees: methods on lazy queries and frames.

use polars::prelude::{DataFrame, LazyFrame};

use super::announced::Announced;
use super::batches::record_batches;
use super::iter::TensorDictIter;
use super::query;
use crate::convert::{Converter, Receipt};
use crate::dict::TensorDict;
use crate::error::Result;
use crate::options::Options;
use crate::schema::TensorDictSchema;

/// The result of a Polars [`LazyFrame`], or a [`DataFrame`], as tensors.
///
/// Both take the same [`Options`] as SQL and give the same results:
///
/// | Polars type | entry |
/// |---|---|
/// | integers up to 64 bits, floats, `Boolean` | tensor `[n]`; unsigned 16, 32, 64 bits widen |
/// | `Array` of those, nested or not; the extension `arrow.fixed_shape_tensor` | tensor `[n, …]` |
/// | `List` of those | jagged tensor `[n, *, …]` |
/// | `Struct` | nested tensordict |
/// | `String`, `Binary`, `Date`, `Datetime`, `Duration`, `Time`, `Decimal`, `Null`, lists of lists, … | non-tensor values |
/// | `Categorical`, `Enum` | non-tensor values: codes and their table, as an Arrow dictionary |
/// | `Int128`, `UInt128`, `Object` | an error that names the column |
///
/// Codes become a tensor if the query asks for them: `col("c").to_physical()`. An `Enum`'s are places in its
/// categories, a `Categorical`'s the same for a category wherever the program meets it. So too the numbers of dates
/// and times; a `Decimal`'s have 128 bits, so cast it to a float instead.
///
/// All columns may hold nulls by their schema, so a stream with `nulls=mask` has a mask for each.
///
/// # Memory
///
/// A buffer of numbers that the frame alone owns becomes the tensor without a copy, in lists, arrays and structs as
/// well. So the methods take the frame by value: keep no clone of it, nor of its columns. What others hold, what
/// comes in several chunks and slices are copied once. [`CopyPolicy`](crate::CopyPolicy) has the words; in a
/// [`Receipt`], memory that Polars shares is [`Foreign`](crate::CopyReason::Foreign).
///
/// The streaming engine goes on holding each batch that it hands out, so a stream copies numbers once.
///
/// # Engines and threads
///
/// A whole result is computed as by `collect()`, a stream by Polars' streaming engine. To have a whole result from
/// that one, call `collect_with_engine(Engine::Streaming)` and convert the frame. Any thread may ask, also one of an
/// asynchronous runtime, which is blocked meanwhile. A function that Polars runs may convert frames and whole queries,
/// but not read a stream: it would wait for the threads that it takes up.
///
/// # Beside DataFusion
///
/// Both features may be on in one program. A lazy query is no DataFusion table: filters would stop at the border, so
/// each scan would compute all of it, and DataFusion's memory pool would know nothing of what it takes. Hand results
/// over instead: [`to_polars`](crate::to_polars) of what SQL gives is a frame, [`to_arrow`](crate::to_arrow) of what
/// Polars gives a record batch for a `MemTable`.
///
/// ```
/// use polars::prelude::*;
/// use tensorquery::{Nulls, Options, PolarsExt};
///
/// let flights = df!(
///     "origin" => ["JFK", "LGA", "JFK"],
///     "delay" => [Some(12i64), None, Some(-3)],
/// )?;
/// let from_jfk = flights.lazy().filter(col("origin").eq(lit("JFK"))).select([col("delay")]);
///
/// let td = from_jfk.to_tensordict(&Options::default().nulls(Nulls::Mask))?;
/// assert_eq!(Vec::<i64>::try_from(td.tensor("delay")?)?, [12, -3]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait PolarsExt: Sized {
    /// What the result would be, without running the query.
    ///
    /// # Errors
    ///
    /// An [engine](crate::Error::is_engine) error if the query can't be planned, a
    /// [schema](crate::Error::is_schema) error for a type that is neither tensor nor Arrow array; what
    /// [`TensorDictSchema::resolve`] says.
    fn tensordict_schema(&self, options: &Options) -> Result<TensorDictSchema>;

    /// Runs the query, if it is one, and gives its whole result as one tensordict.
    ///
    /// # Errors
    ///
    /// An [engine](crate::Error::is_engine) error if the query fails, a function in it panics or gives another type
    /// than it is declared with; as [`tensordict_schema`](Self::tensordict_schema), and what
    /// [`from_arrow`](crate::from_arrow) says. A device that is not there is an error before the query starts.
    fn to_tensordict(self, options: &Options) -> Result<TensorDict> {
        self.to_tensordict_with_receipt(options).map(|(dict, _)| dict)
    }

    /// As [`to_tensordict`](Self::to_tensordict), and what was done to each column.
    ///
    /// # Errors
    ///
    /// As [`to_tensordict`](Self::to_tensordict).
    fn to_tensordict_with_receipt(self, options: &Options) -> Result<(TensorDict, Receipt)>;

    /// The result batch by batch: of a query as it is computed, in bounded memory; of a frame by its chunks.
    ///
    /// ```
    /// use polars::prelude::*;
    /// use tensorquery::{Options, PolarsExt};
    ///
    /// let numbers = df!("x" => (0..1000i64).collect::<Vec<_>>())?.lazy().select([col("x") * lit(2)]);
    /// let mut rows = Vec::new();
    /// for batch in numbers.tensordict_stream(&Options::default())?.with_batch_size(300) {
    ///     rows.push(batch?.batch_size()[0]);
    /// }
    /// assert_eq!(rows, [300, 300, 300, 100]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`tensordict_schema`](Self::tensordict_schema), `mask_keys=observed`, and a device that is not there.
    /// Errors of the run come through the iterator.
    fn tensordict_stream(self, options: &Options) -> Result<TensorDictIter>;
}

impl PolarsExt for LazyFrame {
    fn tensordict_schema(&self, options: &Options) -> Result<TensorDictSchema> {
        TensorDictSchema::resolve(&Announced::of_query(self)?.schema, options)
    }

    fn to_tensordict_with_receipt(self, options: &Options) -> Result<(TensorDict, Receipt)> {
        let announced = Announced::of_query(&self)?;
        let converter = Converter::whole(&announced.schema, options)?;
        converter.convert(record_batches(query::collect(self)?, &announced)?)
    }

    fn tensordict_stream(self, options: &Options) -> Result<TensorDictIter> {
        TensorDictIter::of_query(self, options)
    }
}

impl PolarsExt for DataFrame {
    fn tensordict_schema(&self, options: &Options) -> Result<TensorDictSchema> {
        TensorDictSchema::resolve(&Announced::of_frame(self)?.schema, options)
    }

    fn to_tensordict_with_receipt(self, options: &Options) -> Result<(TensorDict, Receipt)> {
        let announced = Announced::of_frame(&self)?;
        let converter = Converter::whole(&announced.schema, options)?;
        converter.convert(record_batches(self, &announced)?)
    }

    fn tensordict_stream(self, options: &Options) -> Result<TensorDictIter> {
        TensorDictIter::of_frame(self, options)
    }
}
