//! The arithmetic of offsets, which jagged and multi-nested tensors share. A *cell* is a run of values: a
//! jagged tensor has one in a row, a multi-nested one as many as it has columns.

use tch::{Device, Kind, Tensor};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ffi::{self, Run};
use crate::index::{Selection, elements};

/// Offsets of any dtype of integers as `int64`; others as they are, for [`check`] to refuse.
pub(super) fn widened(offsets: Tensor) -> Result<Tensor> {
    ensure_dense(&offsets, "offsets")?;
    match offsets.f_kind()? {
        Kind::Uint8 | Kind::Int8 | Kind::Int16 | Kind::Int => Ok(offsets.f_to_kind(Kind::Int64)?),
        _ => Ok(offsets),
    }
}

/// Fails unless `offsets` is `int64[cells + 1]`, starts at 0, never falls, ends at the length of `values`, and
/// lies on their device. An error names the row, each of `num_cols` cells.
pub(super) fn check(values: &Tensor, offsets: &Tensor, num_cols: i64) -> Result<()> {
    for (tensor, name) in [(values, "values"), (offsets, "offsets")] {
        ensure_dense(tensor, name)?;
    }
    if values.device() != offsets.device() {
        return Err(Error::device(format!(
            "values are on {:?}, offsets on {:?}; both must be on one device",
            values.device(),
            offsets.device()
        )));
    }
    if offsets.f_kind()? != Kind::Int64 || offsets.dim() != 1 || offsets.size()[0] == 0 {
        return Err(Error::shape(format!(
            "offsets are {}{:?}; they must be integers of one dim, with at least one number",
            DType::from(offsets.f_kind()?),
            offsets.size()
        )));
    }
    if values.dim() == 0 {
        return Err(Error::shape("values have no dims; they need at least one"));
    }
    let total = values.size()[0];
    let bounds: Vec<i64> = elements(offsets)?;
    if bounds[0] != 0 {
        return Err(Error::shape(format!("offsets start at {}; they must start at 0", bounds[0])));
    }
    if let Some(cell) = bounds.windows(2).position(|pair| pair[1] < pair[0]) {
        let (from, to) = (bounds[cell], bounds[cell + 1]);
        let row = cell / usize::try_from(num_cols.max(1)).unwrap_or(usize::MAX);
        return Err(Error::shape(format!("offsets fall from {from} to {to}")).at_row(row));
    }
    let end = bounds[bounds.len() - 1];
    if end != total {
        return Err(Error::shape(format!("offsets end at {end}, but there are {total} values")));
    }
    Ok(())
}

/// Fails for a tensor that has no sizes, which tch can't be asked for without a panic.
pub(super) fn ensure_dense(tensor: &Tensor, name: &str) -> Result<()> {
    if !tensor.defined() {
        return Err(Error::shape(format!("{name}: an undefined tensor")));
    }
    match tensor.f_internal_shape_as_tensor() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::shape(format!("{name}: a nested tensor, where a dense one is needed"))
            .remedy("JaggedTensor::from_strided_nested takes nested tensors")),
    }
}

/// Fails unless all are on the device of the first.
pub(super) fn ensure_one_device<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
    let mut devices = tensors.into_iter().map(Tensor::device);
    let Some(first) = devices.next() else { return Ok(()) };
    match devices.find(|device| *device != first) {
        None => Ok(()),
        Some(other) => Err(Error::device(format!("one tensor is on {first:?}, another on {other:?}"))
            .remedy("move them to one device")),
    }
}

/// The dtype that holds all of these, as libtorch promotes them; float32 for none at all.
pub(crate) fn promoted<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Kind> {
    let mut kinds: Vec<Kind> = tensors.into_iter().map(Tensor::f_kind).collect::<Result<_, _>>()?;
    kinds.dedup();
    match kinds[..] {
        [] => Ok(Kind::Float),
        [kind] => Ok(kind),
        _ => {
            let empty = kinds.into_iter().map(|kind| Tensor::f_empty([0], (kind, Device::Cpu)));
            Ok(Tensor::f_cat(&empty.collect::<Result<Vec<_>, _>>()?, 0)?.f_kind()?)
        }
    }
}

/// The number of values in each cell.
pub(super) fn lengths(offsets: &Tensor) -> Result<Tensor> {
    Ok(offsets.f_diff::<&Tensor>(1, 0, None, None)?)
}

/// Where cells of these lengths begin and end, one after the other.
pub(super) fn offsets(lengths: &Tensor) -> Result<Tensor> {
    Ok(lengths.f_cumsum(0, Kind::Int64)?.f_constant_pad_nd([1, 0])?)
}

/// 0 to before `size`.
pub(super) fn count(size: i64, device: Device) -> Result<Tensor> {
    // If there is no memory for them, this says so; tch would panic in `arange`, which takes a scalar.
    drop(Tensor::f_empty([size], (Kind::Int64, device))?);
    Ok(Tensor::f_arange(size, (Kind::Int64, device))?)
}

/// Where each value lies if cell `i` starts at `starts[i]`: value `k` of it at `starts[i] + k`. `offsets` are
/// those of the cells one after the other.
pub(super) fn positions(starts: &Tensor, offsets: &Tensor) -> Result<Tensor> {
    let cells = starts.size()[0];
    let total = offsets.f_int64_value(&[cells])?;
    let first = offsets.f_narrow(0, 0, cells)?;
    // From one value to the next it is one step, and where a cell begins as much more as it is further on.
    // Empty cells begin where the next one does, so their part adds to its; the last may begin after the end.
    let further = starts.f_sub(&first)?.f_constant_pad_nd([1, 0])?.f_diff::<&Tensor>(1, 0, None, None)?;
    let mut steps = Tensor::f_ones([total.saturating_add(1)], (Kind::Int64, starts.device()))?;
    let _ = steps.f_narrow(0, 0, 1)?.f_zero_()?;
    let _ = steps.f_index_add_(0, &first, &further)?;
    let mut places = steps.f_narrow(0, 0, total)?;
    Ok(places.f_cumsum_(0, Kind::Int64)?)
}

/// Writes each value to its place.
pub(super) fn scatter(target: &mut Tensor, places: Tensor, values: &Tensor) -> Result<()> {
    let _ = match values.dim() {
        // Much faster, but its index has as many dims as the values.
        1 => target.f_scatter_(0, &places, values)?,
        _ => target.f_index_put_(&[Some(places)], values, false)?,
    };
    Ok(())
}

/// The cells that lie from `starts` to before `ends`, copied one after the other, with their offsets.
pub(super) fn gather(values: &Tensor, starts: &Tensor, ends: &Tensor) -> Result<(Tensor, Tensor)> {
    if starts.device() == Device::Cpu {
        let (from, to): (Vec<i64>, Vec<i64>) = (elements(starts)?, elements(ends)?);
        // One by one, elements take their places, and eight bytes each to say so: far longer than a run takes to copy.
        let lengths = from.iter().zip(&to).map(|(start, end)| end.checked_sub(*start));
        let mut bounds = Vec::with_capacity(from.len() + 1);
        bounds.push(0i64);
        let mut total = 0i64;
        for length in lengths {
            let end = length.and_then(|length| total.checked_add(length));
            total = end.ok_or_else(|| Error::shape("more rows than can be counted"))?;
            bounds.push(total);
        }
        let runs = from.iter().zip(&to).map(|(start, end)| Run { source: 0, start: *start, end: *end });
        if let Some(copy) = ffi::copy_runs(&[values], total, runs)? {
            return Ok((copy, Tensor::f_from_slice(&bounds)?));
        }
    }
    let offsets = offsets(&ends.f_sub(starts)?)?;
    Ok((values.f_index_select(0, &positions(starts, &offsets)?)?, offsets))
}

/// The values of the cells `start..stop`, viewed.
pub(super) fn view(values: &Tensor, offsets: &Tensor, start: i64, stop: i64) -> Result<Tensor> {
    let first = offsets.f_int64_value(&[start])?;
    let last = offsets.f_int64_value(&[stop])?;
    Ok(values.f_narrow(0, first, last.saturating_sub(first))?)
}

/// The cells `start..stop`, the values viewed.
pub(super) fn narrow(values: &Tensor, offsets: &Tensor, start: i64, stop: i64) -> Result<(Tensor, Tensor)> {
    let bounds = offsets.f_narrow(0, start, stop - start + 1)?;
    let bounds = bounds.f_sub(&offsets.f_narrow(0, start, 1)?)?;
    Ok((view(values, offsets, start, stop)?, bounds))
}

/// What a selection takes of `tensor` along its first dim; one row drops it.
pub(crate) fn select(tensor: &Tensor, selection: &Selection) -> Result<Tensor> {
    let picked = pick(tensor, 0, selection)?;
    match selection {
        Selection::Row(_) => Ok(picked.f_squeeze_dim(0)?),
        _ => Ok(picked),
    }
}

/// What a selection takes of `tensor` along `dim`; one row keeps the dim.
pub(super) fn pick(tensor: &Tensor, dim: i64, selection: &Selection) -> Result<Tensor> {
    Ok(match selection {
        Selection::Row(row) => tensor.f_narrow(dim, *row, 1)?,
        Selection::Slice { start, stop, step } => tensor.f_slice(dim, *start, *stop, *step)?,
        Selection::Rows(rows) => {
            tensor.f_index_select(dim, &Tensor::f_from_slice(rows)?.f_to_device(tensor.device())?)?
        }
    })
}

/// The offsets of `parts` put one after the other.
pub(super) fn join<'a>(parts: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor> {
    let lengths = parts.into_iter().map(lengths).collect::<Result<Vec<_>>>()?;
    offsets(&Tensor::f_cat(&lengths, 0)?)
}

/// Whether dtype, offsets and values are the same.
pub(super) fn equal(left: (&Tensor, &Tensor), right: (&Tensor, &Tensor)) -> Result<bool> {
    ensure_one_device([left.0, right.0])?;
    let alike = left.0.f_kind()? == right.0.f_kind()? && left.0.size() == right.0.size();
    Ok(alike && left.1.f_equal(right.1)? && left.0.f_equal(right.0)?)
}

/// Whether the offsets are the same and the values close.
pub(super) fn allclose(
    left: (&Tensor, &Tensor),
    right: (&Tensor, &Tensor),
    close: impl FnOnce(&Tensor, &Tensor) -> Result<bool>,
) -> Result<bool> {
    ensure_one_device([left.0, right.0])?;
    let (ours, theirs) = (left.0.f_kind()?, right.0.f_kind()?);
    if ours != theirs {
        let found = format!("values of dtypes {} and {} can't be compared", DType::from(ours), DType::from(theirs));
        return Err(Error::shape(found).remedy("cast one with to_dtype"));
    }
    Ok(left.0.size() == right.0.size() && left.1.f_equal(right.1)? && close(left.0, right.0)?)
}

/// How many places `rows` of `width` have.
pub(super) fn room(rows: i64, width: i64, trailing: &[i64]) -> Result<i64> {
    let places = rows.checked_mul(width);
    let numbers = places.and_then(|places| trailing.iter().try_fold(places, |product, dim| product.checked_mul(*dim)));
    match (places, numbers) {
        (Some(places), Some(_)) => Ok(places),
        _ => Err(Error::shape(format!("{rows} rows padded to a length of {width} are more than can be counted"))),
    }
}
