//! Multi-nested tensors made dense, filled, joined and compared.

use tch::{Device, Kind, Tensor};

use super::MultiNestedTensor;
use crate::error::{Error, Result};
use crate::ffi::{self, Run};
use crate::index::{Extent, Index, elements, room};
use crate::tensor::{JaggedTensor, Number, PaddingSide, ensure_apart, ragged};

impl MultiNestedTensor {
    /// Dense cells `[num_rows, num_cols, longest]` of the same dtype; `fill_value`, cast to it, follows the values
    /// of shorter cells.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for more room than can be counted; an [overflow](Error::is_overflow) error
    /// for a `fill_value` that the dtype can't hold.
    pub fn to_dense(&self, fill_value: impl Into<Number>) -> Result<Tensor> {
        let cells = JaggedTensor::from_trusted(self.values.shallow_clone(), self.offset.shallow_clone());
        let dense = cells.to_padded(PaddingSide::Right, fill_value, None)?;
        let longest = dense.size()[1];
        Ok(dense.f_reshape([self.num_rows, self.num_cols, longest])?)
    }

    /// Replaces what is missing in a column by `fill_value`, in place: through this tensor, those it is a view of, and
    /// views of it. Missing are NaN in floats and -1 in integers (255 in uint8).
    ///
    /// A float is cut to an integer where the values are integers.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a column that isn't there; an [overflow](Error::is_overflow) error
    /// for a `fill_value` that the dtype can't hold; a [shape](Error::is_shape) error for values that share memory, as of
    /// an expanded tensor; libtorch's own if the values are a leaf that requires gradients.
    pub fn fillna_col(&mut self, col_index: i64, fill_value: impl Into<Number>) -> Result<()> {
        let fill_value = fill_value.into().to_tensor(self.values.f_kind()?, self.device())?;
        let missing = self.missing(col_index)?;
        self.put(missing, &fill_value)
    }

    /// As [`fillna_col`](Self::fillna_col), with one number for each missing one in the order of rows, or a single one
    /// for all.
    ///
    /// # Errors
    ///
    /// As for [`fillna_col`](Self::fillna_col); a [shape](Error::is_shape) error for any other count of numbers, an
    /// [overflow](Error::is_overflow) error for a number that integers of the values' dtype can't hold.
    pub fn fillna_col_with(&mut self, col_index: i64, fill_values: &Tensor) -> Result<()> {
        ragged::ensure_dense(fill_values, "fill values")?;
        let missing = self.missing(col_index)?;
        let (wanted, size) = (missing.size()[0], fill_values.size());
        let count = fill_values.numel() as i64;
        if fill_values.dim() > 1 || (count != 1 && count != wanted) {
            let found = format!("fill values of shape {size:?} for {wanted} missing ones in column {col_index}");
            return Err(Error::shape(found).remedy("give one, or one for each"));
        }
        let fill_values = fill_values.f_to_device(self.device())?;
        self.put(missing, &cast(&fill_values.f_reshape([count])?, self.values.f_kind()?)?)
    }

    /// Writes numbers, one for all or one each, to `places`.
    fn put(&mut self, places: Tensor, numbers: &Tensor) -> Result<()> {
        let numbers = numbers.f_expand(places.size(), false)?;
        ensure_apart(&self.values)?;
        let _ = self.values.f_index_put_(&[Some(places)], &numbers, false)?;
        Ok(())
    }

    /// Where in the values those lie that are missing from a column.
    fn missing(&self, col_index: i64) -> Result<Tensor> {
        let all = Index::from(..).resolve_in(Extent::Rows(self.num_rows))?;
        let col = Index::Row(col_index).resolve_in(Extent::Columns(self.num_cols))?;
        let (starts, ends) = self.bounds(&all, &col)?;
        let places = ragged::positions(&starts, &ragged::offsets(&ends.f_sub(&starts)?)?)?;
        let column = self.values.f_detach()?.f_index_select(0, &places)?;
        let missing = match column.f_kind()? {
            // Nothing is missing from booleans.
            Kind::Bool => column.f_logical_xor(&column)?,
            Kind::Uint8 | Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64 => {
                column.f_eq_tensor(&Number::Int(-1).to_tensor(column.f_kind()?, column.device())?)?
            }
            _ => column.f_isnan()?,
        };
        Ok(places.f_masked_select(&missing)?)
    }

    /// The rows (dim 0 or -3) or columns (dim 1 or -2) of `parts` one after the other, copied. dtypes are promoted.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if there are no parts, or their numbers of columns (dim 0) or rows (dim 1)
    /// differ; a [device](Error::is_device) error if they are on different devices; an [index](Error::is_index) error
    /// for another dim.
    pub fn cat(parts: &[&MultiNestedTensor], dim: i64) -> Result<Self> {
        let Some((first, rest)) = parts.split_first() else {
            return Err(Error::shape("Cannot concatenate no multi-nested tensors; at least one is needed"));
        };
        first.size(dim)?;
        let along_rows = matches!(dim, 0 | -3);
        let (name, across): (_, fn(&Self) -> i64) =
            if along_rows { ("num_cols", Self::num_cols) } else { ("num_rows", Self::num_rows) };
        if let Some(other) = rest.iter().find(|other| across(other) != across(first)) {
            let found = format!("{name} must be the same: {} and {}", across(first), across(other));
            return Err(Error::shape(found).remedy(format!("or concatenate along dim {}", i64::from(along_rows))));
        }
        ragged::ensure_one_device(parts.iter().map(|part| &part.values))?;
        if !along_rows {
            let columns = parts.iter().map(|part| (&part.values, &part.offset, part.num_cols));
            return MultiNestedTensor::interleave(&columns.collect::<Vec<_>>(), first.num_rows);
        }
        let values: Vec<&Tensor> = parts.iter().map(|part| &part.values).collect();
        let offset = ragged::join(parts.iter().map(|part| &part.offset))?;
        let num_rows = total(parts.iter().map(|part| part.num_rows))?;
        Ok(MultiNestedTensor::from_trusted(num_rows, first.num_cols, (Tensor::f_cat(&values, 0)?, offset)))
    }

    /// Columns side by side: of each part its values, offset and number of columns. Each value is copied once,
    /// to where it belongs, unless its dtype must change before.
    pub(super) fn interleave(parts: &[(&Tensor, &Tensor, i64)], num_rows: i64) -> Result<Self> {
        let kind = ragged::promoted(parts.iter().map(|(values, ..)| *values))?;
        let num_cols = total(parts.iter().map(|(.., cols)| *cols))?;
        let cells = num_rows.checked_mul(num_cols).ok_or_else(too_many)?;
        let values = parts.iter().map(|(values, ..)| Ok(values.f_to_kind(kind)?)).collect::<Result<Vec<_>>>()?;
        if let Some(joined) = rows_in_turn(&values, parts, num_rows)? {
            return Ok(MultiNestedTensor::from_trusted(num_rows, num_cols, joined));
        }
        let lengths = parts
            .iter()
            .map(|(_, offset, cols)| -> Result<Tensor> { Ok(ragged::lengths(offset)?.f_reshape([num_rows, *cols])?) });
        let lengths = Tensor::f_cat(&lengths.collect::<Result<Vec<_>>>()?, 1)?;
        let offset = ragged::offsets(&lengths.f_reshape([cells])?)?;
        let starts = offset.f_narrow(0, 0, cells)?.f_reshape([num_rows, num_cols])?;
        let size = total(parts.iter().map(|(values, ..)| values.size().first().copied().unwrap_or_default()))?;
        let mut joined = Tensor::f_empty([size], (kind, offset.device()))?;
        let mut col = 0;
        for (values, (_, offset, cols)) in values.iter().zip(parts) {
            let starts = starts.f_narrow(1, col, *cols)?.f_reshape([num_rows * cols])?;
            let places = ragged::positions(&starts, offset)?;
            ragged::scatter(&mut joined, places, values)?;
            col += cols;
        }
        Ok(MultiNestedTensor::from_trusted(num_rows, num_cols, (joined, offset)))
    }

    /// Whether shape, dtype, offset and values are the same. NaN differs from itself.
    ///
    /// # Errors
    ///
    /// A [device](Error::is_device) error if the two are on different devices.
    pub fn equal(&self, other: &Self) -> Result<bool> {
        let same = ragged::equal((&self.values, &self.offset), (&other.values, &other.offset))?;
        Ok(same && self.shape() == other.shape())
    }

    /// Whether shape and offset are the same and all values close: |a − b| ≤ `atol` + `rtol` · |b|.
    /// PyTorch's own choice is 1e-5 and 1e-8. NaN is close to NaN if `equal_nan` says so.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the dtypes differ; a [device](Error::is_device) error if the devices do.
    pub fn allclose(&self, other: &Self, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
        let (left, right) = ((&self.values, &self.offset), (&other.values, &other.offset));
        let close = |left: &Tensor, right: &Tensor| Ok(left.f_allclose(right, rtol, atol, equal_nan)?);
        Ok(ragged::allclose(left, right, close)? && self.shape() == other.shape())
    }
}

/// The values of all parts row by row, copied by run where they can be, and their offset. Parts are as for
/// [`interleave`](MultiNestedTensor::interleave), with `values` of one dtype.
fn rows_in_turn(
    values: &[Tensor],
    parts: &[(&Tensor, &Tensor, i64)],
    num_rows: i64,
) -> Result<Option<(Tensor, Tensor)>> {
    if values.iter().any(|values| values.device() != Device::Cpu) {
        return Ok(None);
    }
    let bounds = parts.iter().map(|(_, offset, _)| elements::<i64>(offset)).collect::<Result<Vec<_>>>()?;
    let total = total(bounds.iter().map(|bounds| bounds.last().copied().unwrap_or_default()))?;
    // Where another handle has changed an offset, its rows aren't to be found.
    let whole = |(bounds, (_, _, cols)): (&Vec<i64>, &(_, _, i64))| {
        num_rows.checked_mul(*cols).and_then(|cells| cells.checked_add(1)) == i64::try_from(bounds.len()).ok()
    };
    // Without columns, there can be more rows than can be walked through.
    if total == 0 || !bounds.iter().zip(parts).all(whole) {
        return Ok(None);
    }
    let num_rows = num_rows as usize;
    let width = |source: usize| parts[source].2 as usize;
    let runs = (0..num_rows).flat_map(|row| {
        let (bounds, width) = (&bounds, &width);
        (0..parts.len()).map(move |source| {
            let first = row * width(source);
            Run { source, start: bounds[source][first], end: bounds[source][first + width(source)] }
        })
    });
    let Some(joined) = ffi::copy_runs(&values.iter().collect::<Vec<_>>(), total, runs)? else {
        return Ok(None);
    };
    let cells: i64 = bounds.iter().map(|bounds| bounds.len() as i64 - 1).sum();
    let (mut offset, mut end) = (room(cells + 1)?, 0i64);
    offset.push(end);
    for row in 0..num_rows {
        for (source, bounds) in bounds.iter().enumerate() {
            let first = row * width(source);
            for cell in bounds[first..=first + width(source)].windows(2) {
                // Rows were found to be there, but cells within them may overlap.
                end = end.wrapping_add(cell[1].wrapping_sub(cell[0]));
                offset.push(end);
            }
        }
    }
    Ok(Some((joined, Tensor::f_from_slice(&offset)?)))
}

/// The sum of sizes.
fn total(sizes: impl IntoIterator<Item = i64>) -> Result<i64> {
    sizes.into_iter().try_fold(0i64, i64::checked_add).ok_or_else(too_many)
}

fn too_many() -> Error {
    Error::shape("more rows, columns or values together than can be counted")
}

/// Numbers as `kind`: floats cut to integers, but nothing wrapped around.
fn cast(numbers: &Tensor, kind: Kind) -> Result<Tensor> {
    let cast = numbers.f_to_kind(kind)?;
    if !matches!(kind, Kind::Uint8 | Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64) {
        return Ok(cast);
    }
    let moved = cast.f_to_kind(Kind::Double)?.f_sub(&numbers.f_to_kind(Kind::Double)?)?.f_abs()?;
    if moved.f_lt(1.0)?.f_all()?.f_int64_value(&[])? == 1 {
        return Ok(cast);
    }
    Err(Error::overflow(format!("a fill value that {kind:?} can't hold")))
}
