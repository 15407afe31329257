//! Values that are no tensors, one per element of the batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, LargeListArray, MutableArrayData, UInt64Array, make_array, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use tch::{Device, Tensor};

use super::{PaddingSide, Value, ragged};
use crate::error::{Error, Result};
use crate::index::{Index, Selection, elements, room};

/// A column that stays as Arrow has it: strings, times, decimals, lists of lists, …
///
/// One value per element of the batch, in row-major order; a batch of no dims holds one value.
#[derive(Clone, Debug)]
pub struct NonTensorStack {
    field: FieldRef,
    values: ArrayRef,
    batch_size: Vec<i64>,
}

impl NonTensorStack {
    /// One value per row of `values`.
    pub fn new(values: ArrayRef) -> Self {
        let field = Arc::new(Field::new("", values.data_type().clone(), true));
        NonTensorStack::with_field(field, values)
    }

    /// One value, of an array of one row: set in a tensordict, it is that of every element of the batch.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow::array::Int64Array;
    /// use tensorquery::{NonTensorStack, TensorDict};
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("seed", NonTensorStack::single(Arc::new(Int64Array::from(vec![7])))?)?;
    /// assert_eq!(td.non_tensor("seed")?.batch_size(), [2]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for another number of rows.
    pub fn single(values: ArrayRef) -> Result<Self> {
        match values.len() {
            1 => Ok(NonTensorStack { batch_size: vec![], ..NonTensorStack::new(values) }),
            rows => Err(Error::shape(format!("a single value is an array of one row, this has {rows}"))),
        }
    }

    /// As [`new`](Self::new), with the Arrow field that the values come from (extension types live there).
    pub(crate) fn with_field(field: FieldRef, values: ArrayRef) -> Self {
        let rows = i64::try_from(values.len()).unwrap_or(i64::MAX);
        NonTensorStack { field, values, batch_size: vec![rows] }
    }

    /// The same values in a batch of these sizes, of as many places.
    pub(crate) fn shaped(self, batch_size: &[i64]) -> Result<NonTensorStack> {
        let places = batch_size.iter().try_fold(1i64, |places, size| places.checked_mul(*size));
        if places != i64::try_from(self.values.len()).ok() {
            return Err(Error::shape(format!("{} values are no batch of size {batch_size:?}", self.values.len())));
        }
        Ok(NonTensorStack { batch_size: batch_size.to_vec(), ..self })
    }

    /// The values as an Arrow array.
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// The Arrow type of the values.
    pub fn data_type(&self) -> &DataType {
        self.values.data_type()
    }

    /// The Arrow field that the values come from.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The sizes of the batch: `[rows]`, or `[]` for the value of one row.
    pub fn batch_size(&self) -> &[i64] {
        &self.batch_size
    }

    /// The value at a place in the values.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error past the end.
    pub fn value(&self, row: usize) -> Result<Value> {
        if row >= self.values.len() {
            return Err(Error::index(format!("value {row} is out of bounds for {}", self.values.len())));
        }
        Value::from_array(&self.values, row)
    }

    /// All values: one for a batch without dims, else lists nested as the batch is.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow::array::StringArray;
    /// use tensorquery::{NonTensorStack, Value};
    ///
    /// let words = NonTensorStack::new(Arc::new(StringArray::from(vec![Some("a"), None])));
    /// assert_eq!(words.to_value()?, Value::List(vec![Value::Text("a".to_owned()), Value::Null]));
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for more lists than memory holds.
    pub fn to_value(&self) -> Result<Value> {
        let mut values = (0..self.values.len()).map(|row| self.value(row));
        nested(&self.batch_size, &mut values)
    }

    /// Some of the values along the first dim of the batch. A number drops the dim.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow::array::StringArray;
    /// use tensorquery::{NonTensorStack, Value};
    ///
    /// let words = NonTensorStack::new(Arc::new(StringArray::from(vec!["a", "b", "c"])));
    /// assert_eq!(words.index(-1)?.to_value()?, Value::Text("c".to_owned()));
    /// assert_eq!(words.index([2, 0])?.batch_size(), [2]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a batch without dims, a row out of bounds, a mask of another length, or a
    /// step of 0.
    pub fn index(&self, index: impl Into<Index>) -> Result<NonTensorStack> {
        let Some(size) = self.batch_size.first() else {
            return Err(Error::index("a single value has no dim to index"));
        };
        self.index_with(&index.into().resolve(*size)?)
    }

    pub(crate) fn index_with(&self, selection: &Selection) -> Result<NonTensorStack> {
        // Values lie one after the other, which are rows only in a batch of one dim.
        if self.batch_size.len() != 1 {
            return self.rearrange(|places| ragged::select(places, selection));
        }
        match selection {
            Selection::Row(row) => Ok(self.row(position(*row)?)),
            Selection::Slice { start, stop, step: 1 } => {
                Ok(self.part(position(*start)?, position(stop - start)?, vec![stop - start]))
            }
            _ => {
                let rows = selection.rows().into_iter().map(|row| Ok(position(row)? as u64));
                let values = pick(&self.values, &UInt64Array::from(rows.collect::<Result<Vec<_>>>()?))?;
                Ok(NonTensorStack::with_field(Arc::clone(&self.field), values))
            }
        }
    }

    pub(crate) fn row(&self, row: usize) -> NonTensorStack {
        self.part(row, 1, vec![])
    }

    /// `count` values from `start` on, as a batch of that size.
    fn part(&self, start: usize, count: usize, batch_size: Vec<i64>) -> NonTensorStack {
        NonTensorStack { field: Arc::clone(&self.field), values: self.values.slice(start, count), batch_size }
    }

    /// The values at other places: `arrange` gets the places `0..` as `int64` in the shape of the batch and
    /// gives them as they are to be, in the shape that the batch is to have.
    pub(crate) fn rearrange(&self, arrange: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<NonTensorStack> {
        let places = count_up(self.values.len())?.f_view(self.batch_size.as_slice())?;
        let arranged = arrange(&places)?;
        let batch_size = arranged.size();
        let places: Vec<i64> = elements(&arranged)?;
        let start = places.first().copied().unwrap_or_default();
        if places.iter().zip(start..).all(|(place, expected)| *place == expected) {
            return Ok(self.part(usize::try_from(start).unwrap_or_default(), places.len(), batch_size));
        }
        let places: UInt64Array = places.into_iter().map(|place| u64::try_from(place).ok()).collect();
        let values = pick(&self.values, &places)?;
        Ok(NonTensorStack { field: Arc::clone(&self.field), values, batch_size })
    }

    /// The one value of a batch without dims as everyone's in a batch of this size.
    pub(crate) fn broadcast(&self, batch_size: &[i64]) -> Result<NonTensorStack> {
        self.rearrange(|places| Ok(places.f_expand(batch_size, false)?))
    }

    /// The same values but for some places, which `part` gives of the places `0..` in the shape of the batch:
    /// there, those of `new`, repeated where its dims are 1.
    pub(crate) fn overwritten(
        &self,
        new: &NonTensorStack,
        part: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<NonTensorStack> {
        let both = [self.clone(), new.clone()];
        let (typed, joined) = NonTensorStack::join(&both)?;
        let field = Arc::clone(&typed.field);
        let all = count_up(joined.len())?;
        let (count, more) = (self.values.len() as i64, new.values.len() as i64);
        let places = all.f_narrow(0, 0, count)?;
        let target = part(&places.f_view(self.batch_size.as_slice())?)?;
        let source =
            all.f_narrow(0, count, more)?.f_view(new.batch_size.as_slice())?.f_expand(target.size(), false).map_err(
                |_| {
                    Error::shape(format!(
                        "values of batch size {:?} don't fit the part, whose batch size is {:?}",
                        new.batch_size,
                        target.size()
                    ))
                },
            )?;
        let written = places.f_scatter(0, &target.f_reshape([-1])?, &source.f_reshape([-1])?)?;
        let whole = NonTensorStack { field, values: joined, batch_size: vec![count + more] };
        whole.rearrange(|_| Ok(written.f_view(self.batch_size.as_slice())?))
    }

    /// Nulls of the same type in a batch of this size.
    pub(crate) fn nulls(&self, batch_size: &[i64]) -> Result<NonTensorStack> {
        let values = new_null_array(self.data_type(), 1);
        let field = Arc::new(self.field.as_ref().clone().with_nullable(true));
        NonTensorStack { field, values, batch_size: vec![] }.broadcast(batch_size)
    }

    /// The pieces along a batch dim.
    pub(crate) fn unbind(&self, dim: usize) -> Result<Vec<NonTensorStack>> {
        let size = self.batch_size.get(dim).copied().unwrap_or_default();
        let mut pieces = room(size)?;
        for at in 0..size {
            pieces.push(self.rearrange(|places| Ok(places.f_select(dim as i64, at)?))?);
        }
        Ok(pieces)
    }

    /// Values along a new dim; at least one. If their batches differ in size, those from the first dim in which they
    /// do are lists, and the new dim is not behind it.
    ///
    /// Types must be equal, but for nulls without a type and strings or bytes of different layouts.
    pub(crate) fn stack(stacks: &[NonTensorStack], dim: usize) -> Result<NonTensorStack> {
        let Some(sizes) = stacks.first().map(|stack| &stack.batch_size) else {
            return Err(Error::shape("there are no values to stack"));
        };
        if let Some(other) = stacks.iter().find(|stack| stack.batch_size.len() != sizes.len()) {
            return Err(Error::shape(format!(
                "Failed to stack non-tensor values: their batch sizes differ, {sizes:?} and {:?}",
                other.batch_size
            ))
            .remedy("get_list gives them one by one"));
        }
        let same = |at: &usize| stacks.iter().all(|stack| stack.batch_size[*at] == sizes[*at]);
        let shared = (0..sizes.len()).take_while(same).count();
        let stacked = NonTensorStack::stack_lists(stacks, shared)?;
        match dim.min(shared) {
            0 => Ok(stacked),
            dim => stacked.rearrange(|places| Ok(places.f_movedim_int(0, dim as i64)?)),
        }
    }

    /// Values of batches of as many dims along a new first dim; at least one. From their dim `dims` on, in which they
    /// may differ in size, each batch's values are a list: `[stacks, …dims]` lists, nested where further dims follow.
    pub(crate) fn stack_lists(stacks: &[NonTensorStack], dims: usize) -> Result<NonTensorStack> {
        let (first, mut values) = NonTensorStack::join(stacks)?;
        let mut field = Arc::new(first.field.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME));
        for level in (dims..first.batch_size.len()).rev() {
            let mut lengths = Vec::new();
            for stack in stacks {
                // Batches without values can have more places than can be counted.
                let sizes = stack.batch_size[..level].iter();
                let count = sizes.fold(1i64, |count, size| count.saturating_mul(*size));
                let length = usize::try_from(stack.batch_size[level]).unwrap_or_default();
                lengths.append(&mut room(count)?);
                lengths.extend((0..count).map(|_| length));
            }
            let list = LargeListArray::try_new(Arc::clone(&field), OffsetBuffer::from_lengths(lengths), values, None)?;
            field = Arc::new(Field::new(Field::LIST_FIELD_DEFAULT_NAME, list.data_type().clone(), false));
            values = Arc::new(list);
        }
        let batch_size = std::iter::once(stacks.len() as i64).chain(first.batch_size[..dims].iter().copied()).collect();
        Ok(NonTensorStack { field, values, batch_size })
    }

    /// The values in a batch of these sizes, none of them smaller, and nulls around them.
    pub(crate) fn padded(&self, sizes: &[i64], side: PaddingSide) -> Result<NonTensorStack> {
        self.nulls(sizes)?.overwritten(self, |places| {
            let mut part = places.shallow_clone();
            for (dim, (size, theirs)) in sizes.iter().zip(&self.batch_size).enumerate() {
                let start = if side == PaddingSide::Left { size - theirs } else { 0 };
                part = part.f_narrow(dim as i64, start, *theirs)?;
            }
            Ok(part)
        })
    }

    /// Values of several batches one after the other along a dim; at least one.
    pub(crate) fn cat(stacks: &[NonTensorStack], dim: usize) -> Result<NonTensorStack> {
        let (first, joined) = NonTensorStack::join(stacks)?;
        let all = count_up(joined.len())?;
        let mut before = 0;
        let mut places = Vec::with_capacity(stacks.len());
        for stack in stacks {
            let count = stack.values.len() as i64;
            places.push(all.f_narrow(0, before, count)?.f_view(stack.batch_size.as_slice())?);
            before += count;
        }
        let flat = NonTensorStack { field: Arc::clone(&first.field), values: joined, batch_size: vec![before] };
        flat.rearrange(|_| Ok(Tensor::f_cat(&places, dim as i64)?))
    }

    /// All values one after the other, and the stack whose field they have.
    fn join(stacks: &[NonTensorStack]) -> Result<(&NonTensorStack, ArrayRef)> {
        let typed = stacks.iter().find(|stack| stack.data_type() != &DataType::Null).or(stacks.first());
        let typed = typed.ok_or_else(|| Error::shape("there are no values to put together"))?;
        // Nulls without a type take no memory, so there can be more than Arrow's sum of lengths holds.
        let total = stacks.iter().try_fold(0usize, |total, stack| total.checked_add(stack.values.len()));
        ensure_countable(total.unwrap_or(usize::MAX))?;
        let arrays = stacks.iter().map(|stack| {
            if stack.data_type() == typed.data_type() {
                return Ok(Arc::clone(&stack.values));
            }
            match (stack.data_type(), typed.data_type()) {
                (from, to) if from == &DataType::Null || same_values(from, to) => Ok(cast(&stack.values, to)?),
                (from, to) => Err(Error::schema(format!("values of type {from} and {to} can't be put together"))
                    .remedy("get_list gives them one by one")),
            }
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let joined = concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
        Ok((typed, joined))
    }
}

/// The places of so many values, from 0.
fn count_up(values: usize) -> Result<Tensor> {
    ragged::count(ensure_countable(values)?, Device::Cpu)
}

fn ensure_countable(values: usize) -> Result<i64> {
    i64::try_from(values).map_err(|_| Error::shape("more values than can be counted"))
}

/// The next values, nested in lists of these sizes.
fn nested(sizes: &[i64], values: &mut impl Iterator<Item = Result<Value>>) -> Result<Value> {
    let Some((size, within)) = sizes.split_first() else {
        return values.next().unwrap_or_else(|| Err(Error::shape("there are fewer values than places in the batch")));
    };
    let mut list = room(*size)?;
    for _ in 0..*size {
        list.push(nested(within, values)?);
    }
    Ok(Value::List(list))
}

fn position(row: i64) -> Result<usize> {
    usize::try_from(row).map_err(|_| Error::index(format!("row {row} is out of bounds")))
}

/// Whether two types hold the same values in different layouts.
fn same_values(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!((from, to), (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View))
        || matches!((from, to), (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView))
}

/// Whether there are fixed-size lists of size 0 in it, of which Arrow's `take` (59.3) loses the rows.
fn has_rows_of_nothing(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(_, 0) => true,
        DataType::FixedSizeList(field, _)
        | DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => has_rows_of_nothing(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_rows_of_nothing(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_rows_of_nothing(field.data_type())),
        DataType::Dictionary(_, values) => has_rows_of_nothing(values),
        _ => false,
    }
}

/// The values at these rows.
fn pick(values: &ArrayRef, rows: &UInt64Array) -> Result<ArrayRef> {
    if !has_rows_of_nothing(values.data_type()) {
        return Ok(take(values, rows, None)?);
    }
    let data = values.to_data();
    let mut picked = MutableArrayData::new(vec![&data], false, rows.len());
    for row in rows.values() {
        let row = usize::try_from(*row).ok().filter(|row| *row < values.len());
        let row = row.ok_or_else(|| Error::index(format!("a row is out of bounds for {}", values.len())))?;
        picked.try_extend(0, row, row + 1)?;
    }
    Ok(make_array(picked.freeze()))
}
