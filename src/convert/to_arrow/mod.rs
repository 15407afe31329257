//! A tensordict → a record batch.

mod dense;
mod jagged;
mod masks;
mod non_tensor;
mod share;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};

use self::masks::{FieldMasks, Mask};
use crate::dict::{Entry, Ragged, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::options::{CopyPolicy, ToArrowOptions};

/// A tensordict of one batch dim as a record batch of so many rows, one column per entry, in key order.
///
/// | entry | column |
/// |---|---|
/// | tensor `[n]` | numbers or booleans of the same type |
/// | tensor `[n, …]` | fixed-size lists, with the extension type `arrow.fixed_shape_tensor` |
/// | jagged tensor `[n, *, …]` | large lists of the above |
/// | non-tensor values | the Arrow array that they are, with its field |
/// | nested tensordict | struct, its fields in key order |
/// | lazy stack along dim 0 | what [`densify`](TensorDict::densify) makes of it: lists where its members differ |
///
/// Tensors that require a gradient are detached, those on other devices and those that aren't contiguous are
/// copied. NaN stays NaN. A tensordict without entries keeps its rows.
///
/// # Nulls
///
/// With [`ToArrowOptions::mask_key`], each mask becomes the validity of its column: `(mask_key, "c")` that of `c`,
/// `(mask_key, "c", "x")` that of the field `x` of the struct `c`. The masks are then no columns. Columns without
/// a mask have no nulls (non-tensor values keep theirs), and a mask makes its column nullable, whatever it holds.
///
/// A mask `bool[n]` is of rows. One of more dims is of the elements: `bool[n, *]` in the rows of a jagged tensor,
/// `bool[n, k]` in those of a tensor `[n, k, …]`. So a lazy stack's members bring theirs: masks without dims are of
/// the rows that they become, others of what is in them, and a member without the mask that another has is valid.
///
/// Since [`from_arrow`](crate::from_arrow) gives the masks of a struct's fields, a row in which the struct was null
/// comes back as one in which each field is.
///
/// # Memory
///
/// A contiguous tensor of numbers on the CPU becomes the column without a copy, in one of two ways. If its memory
/// came from Arrow and no other handle on it is left, Arrow gets it back; so pass the tensordict by value and keep
/// no clone of its tensors. If libtorch allocated it, it becomes copy-on-write: other handles may stay, and whoever
/// writes to one gets a copy of the memory first. The rest is copied once; booleans are packed to bits.
/// [`ToArrowOptions::copy`] forbids or forces copies. Small parts of large storages are copied.
///
/// Don't use a clone of a tensor on another thread while it is being converted.
///
/// ```
/// use arrow::array::AsArray;
/// use arrow::datatypes::Float32Type;
/// use tch::Tensor;
/// use tensorquery::{TensorDict, ToArrowOptions, to_arrow};
///
/// let mut td = TensorDict::new([2]);
/// td.set("score", Tensor::from_slice(&[0.5f32, 0.25]))?;
/// td.set("embedding", Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6]).reshape([2, 3]))?;
/// td.set(["_mask", "score"], Tensor::from_slice(&[true, false]))?;
///
/// let batch = to_arrow(td, &ToArrowOptions::default().mask_key("_mask"))?;
/// assert_eq!(batch.num_columns(), 2);
/// let scores = batch.column(0).as_primitive::<Float32Type>();
/// assert_eq!(scores.iter().collect::<Vec<_>>(), [Some(0.5), None]);
/// # Ok::<_, tensorquery::Error>(())
/// ```
///
/// # Errors
///
/// A [shape](Error::is_shape) error if there isn't exactly one batch dim, an entry no longer has the batch size or
/// offsets are no offsets any more, since another handle changed them, or a mask isn't one boolean per row or element; a
/// [schema](Error::is_schema) error for a dtype that no column has (bfloat16, complex, quantized) or a layout that
/// isn't strided; a [key](Error::is_key) error for a mask without a column or an entry among the masks that is
/// none; a [copy](Error::is_copy) error if one is needed and forbidden.
pub fn to_arrow(mut dict: TensorDict, options: &ToArrowOptions) -> Result<RecordBatch> {
    if dict.holds_lazy() {
        if let Some(key) = options.masks() {
            dict = masks::complete(&dict, key)?;
        }
        dict = dict.densify(Ragged::Jagged)?;
    }
    let rows = num_rows(&dict)?;
    let masks = match options.masks() {
        Some(key) => FieldMasks::take(&mut dict, key)?,
        None => FieldMasks::none(),
    };
    let (fields, columns) = Export { rows, copy: options.copy_policy() }.fields(dict, masks, &NestedKey::default())?;
    let row_count = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &row_count)?)
}

fn num_rows(dict: &TensorDict) -> Result<usize> {
    match dict.batch_size().as_slice() {
        [rows] => usize::try_from(*rows).map_err(|_| Error::shape(format!("batch size [{rows}] is none"))),
        [] => Err(Error::shape("the batch size is [], but a record batch has rows, which are one batch dim")
            .remedy("give its entries a dim of size 1 in front, and the batch size [1]")),
        sizes => Err(Error::shape(format!(
            "the batch size is {sizes:?}, but a record batch has rows, which are one batch dim"
        ))
        .remedy("flatten the batch dims into one, or keep the first alone: with_batch_size")),
    }
}

/// What holds for all columns.
#[derive(Clone, Copy)]
struct Export {
    rows: usize,
    copy: CopyPolicy,
}

impl Export {
    /// The entries of a dict, each with its mask.
    fn fields(
        self,
        dict: TensorDict,
        mut masks: FieldMasks,
        above: &NestedKey,
    ) -> Result<(Vec<FieldRef>, Vec<ArrayRef>)> {
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for (name, entry) in dict.into_entries() {
            let key = above.child(&name);
            let mask = masks.of(&name);
            let (field, column) = self.column(&name, entry, mask, &key).map_err(|error| {
                // Errors of masks and of entries further down know their key.
                if error.nested_key().is_some() { error } else { error.at(&key) }
            })?;
            fields.push(Arc::new(field));
            columns.push(column);
        }
        masks.finish()?;
        Ok((fields, columns))
    }

    fn column(self, name: &str, entry: Entry, mask: Mask, key: &NestedKey) -> Result<(Field, ArrayRef)> {
        match entry {
            Entry::Tensor(tensor) => {
                let valid = mask.of_tensor(&tensor.size())?;
                dense::column(name, tensor, self.rows, valid, self.copy)
            }
            Entry::Jagged(jagged) => jagged::column(name, jagged, self.rows, mask, self.copy),
            Entry::NonTensor(values) => non_tensor::column(name, &values, self.rows, mask),
            Entry::Dict(dict) => {
                if dict.batch_size().first().and_then(|rows| usize::try_from(*rows).ok()) != Some(self.rows) {
                    let sizes = dict.batch_size();
                    return Err(Error::shape(format!(
                        "its batch size is {sizes:?}, that of the whole [{}]",
                        self.rows
                    )));
                }
                let (validity, masks) = mask.into_fields(self.rows as i64)?;
                let (fields, columns) = self.fields(dict, masks, key)?;
                let field = Field::new(name, DataType::Struct(fields.clone().into()), validity.is_some());
                let array = StructArray::try_new_with_length(fields.into(), columns, validity, self.rows)?;
                Ok((field, Arc::new(array)))
            }
        }
    }
}
