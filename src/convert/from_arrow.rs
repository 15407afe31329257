//! Record batches → a tensordict.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::SchemaRef;

use super::receipt::Receipt;
use super::wrap::Wrap;
use crate::dict::{TensorDict, ensure_device};
use crate::error::{Error, Result};
use crate::nulls::{self, Mask};
use crate::options::Options;
use crate::schema::{MaskRule, TensorDictSchema};

/// A record batch as a tensordict of batch size `[num_rows]`, one entry per column, in column order,
/// and the masks last.
///
/// | Arrow type | entry |
/// |---|---|
/// | integers, floats, booleans | tensor `[n]`; unsigned 16, 32, 64 bits widen to int32, int64, int64 |
/// | fixed-size lists of tensor types, `arrow.fixed_shape_tensor` | tensor `[n, …]` |
/// | lists and large lists of tensor types | jagged tensor `[n, *, …]` |
/// | structs | nested tensordict |
/// | all else: strings, times, decimals, dictionaries, maps, lists of lists, … | non-tensor values |
///
/// Buffers that the batch alone owns become tensors without a copy, so pass the batch by value and keep
/// no clone of it; [`CopyPolicy`](crate::CopyPolicy) says more. Nulls follow [`Options::nulls`].
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{Array, Float32Array, Int64Array, RecordBatch};
/// use tensorquery::{Nulls, Options, from_arrow};
///
/// let batch = RecordBatch::try_from_iter([
///     ("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as Arc<dyn Array>),
///     ("score", Arc::new(Float32Array::from(vec![Some(0.5), None, Some(1.5)]))),
/// ])?;
/// let td = from_arrow(batch, &Options::default().nulls(Nulls::Mask))?;
/// assert_eq!(td.batch_size(), [3]);
/// assert!(td.tensor("score")?.double_value(&[1]).is_nan());
/// assert_eq!(Vec::<bool>::try_from(td.tensor(["_mask", "score"])?)?, [true, false, true]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// What [`TensorDictSchema::resolve`] says; nulls under [`Nulls::Raise`](crate::Nulls::Raise); an
/// unsigned number above `i64::MAX`; a copy that the policy forbids; a device that is not there.
pub fn from_arrow(batch: RecordBatch, options: &Options) -> Result<TensorDict> {
    from_arrow_with_receipt(batch, options).map(|(dict, _)| dict)
}

/// As [`from_arrow`], and what was done to each column.
///
/// # Errors
///
/// As [`from_arrow`].
pub fn from_arrow_with_receipt(batch: RecordBatch, options: &Options) -> Result<(TensorDict, Receipt)> {
    Converter::whole(&batch.schema(), options)?.convert(vec![batch])
}

/// Several record batches of one schema as one tensordict; none give one of no rows.
///
/// Each chunk is written straight into its place in the result.
///
/// # Errors
///
/// As [`from_arrow`], and if a chunk isn't of the schema.
pub fn from_arrow_chunks(schema: &SchemaRef, chunks: Vec<RecordBatch>, options: &Options) -> Result<TensorDict> {
    Converter::whole(schema, options)?.convert(chunks).map(|(dict, _)| dict)
}

/// A schema resolved once, to convert any number of batches.
#[derive(Debug)]
pub(crate) struct Converter {
    input: SchemaRef,
    schema: TensorDictSchema,
    options: Options,
}

impl Converter {
    /// For whole results: by default, masks exist where nulls were.
    pub(crate) fn whole(schema: &SchemaRef, options: &Options) -> Result<Self> {
        let resolved = TensorDictSchema::resolve(schema, options)?;
        Self::new(schema, resolved, options)
    }

    /// For streams: the same keys in each batch.
    #[cfg(any(feature = "datafusion", feature = "polars"))]
    pub(crate) fn streaming(schema: &SchemaRef, options: &Options) -> Result<Self> {
        let resolved = TensorDictSchema::resolve_static(schema, options)?;
        Self::new(schema, resolved, options)
    }

    fn new(input: &SchemaRef, schema: TensorDictSchema, options: &Options) -> Result<Self> {
        if let Some(device) = options.target_device() {
            ensure_device(device)?;
        }
        Ok(Converter { input: SchemaRef::clone(input), schema, options: options.clone() })
    }

    #[cfg(any(feature = "datafusion", feature = "polars"))]
    pub(crate) fn schema(&self) -> &TensorDictSchema {
        &self.schema
    }

    /// The schema of the record batches.
    #[cfg(feature = "datafusion")]
    pub(crate) fn input(&self) -> &SchemaRef {
        &self.input
    }

    /// The chunks, one after the other, as one tensordict.
    pub(crate) fn convert(&self, mut chunks: Vec<RecordBatch>) -> Result<(TensorDict, Receipt)> {
        if chunks.is_empty() {
            chunks.push(RecordBatch::new_empty(SchemaRef::clone(&self.input)));
        }
        let mut columns: Vec<Vec<_>> = self.schema.entries().iter().map(|_| Vec::with_capacity(chunks.len())).collect();
        let mut works = Vec::new();
        let mut masks: Vec<Vec<Mask>> = Vec::with_capacity(chunks.len());
        let mut rows = Vec::with_capacity(chunks.len());
        let mut before = 0;
        for chunk in chunks {
            self.ensure_columns(&chunk.schema())?;
            let (_, arrays, num_rows) = chunk.into_parts();
            let ruled = nulls::rule(arrays, &self.schema).map_err(|error| error.after_rows(before))?;
            for (column, (array, work)) in columns.iter_mut().zip(ruled.columns) {
                column.push(array);
                works.extend(work.entries);
            }
            masks.push(ruled.masks.into_inner());
            rows.push(num_rows);
            before += num_rows;
        }

        let mut wrap = Wrap::new(self.options.copy_policy());
        let mut dict = TensorDict::new([i64::try_from(before).unwrap_or(i64::MAX)]);
        for (chunks, spec) in columns.into_iter().zip(self.schema.entries()) {
            dict.insert_trusted(spec.field.name(), wrap.entry(chunks, spec)?);
        }
        works.iter().try_for_each(|work| wrap.note(work))?;
        self.set_masks(masks, &rows, &mut wrap, &mut dict)?;
        let dict = match self.options.target_device() {
            Some(device) => dict.to(device)?,
            None => dict,
        };
        Ok((dict, wrap.into_receipt()))
    }

    /// Columns are taken by their place, so each chunk must have the same ones in the same order.
    fn ensure_columns(&self, chunk: &SchemaRef) -> Result<()> {
        fn names(schema: &SchemaRef) -> impl Iterator<Item = &String> {
            schema.fields().iter().map(|field| field.name())
        }
        if Arc::ptr_eq(chunk, &self.input) || names(chunk).eq(names(&self.input)) {
            return Ok(());
        }
        let [got, announced] = [chunk, &self.input].map(|schema| names(schema).collect::<Vec<_>>());
        Err(Error::schema(format!("a batch has the columns {got:?}, its schema announced {announced:?}")))
    }

    /// Each chunk recorded the same masks in the same order.
    fn set_masks(&self, chunks: Vec<Vec<Mask>>, rows: &[usize], wrap: &mut Wrap, dict: &mut TensorDict) -> Result<()> {
        let Some(first) = chunks.first() else {
            return Ok(());
        };
        for slot in 0..first.len() {
            let of_slot = || chunks.iter().map(|masks| &masks[slot]);
            if first[slot].rule == MaskRule::Observed && of_slot().all(|mask| mask.validity.is_none()) {
                continue;
            }
            let key = self.schema.mask_key().join(&first[slot].key);
            let valid: Vec<BooleanBuffer> = of_slot()
                .zip(rows)
                .map(|(mask, rows)| match &mask.validity {
                    Some(validity) => NullBuffer::inner(validity).clone(),
                    None => BooleanBuffer::new_set(*rows),
                })
                .collect();
            dict.set(&key, wrap.mask(key.clone(), &valid)?)?;
        }
        Ok(())
    }
}
