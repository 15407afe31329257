//! Jagged rows as dense ones, padded, and back.

use std::fmt;

use tch::{Device, Kind, Tensor};

use super::JaggedTensor;
use crate::error::{Error, Result};
use crate::ffi::{self, Run};
use crate::index::elements;
use crate::tensor::{Number, ragged};

/// On which side of a row padding goes. A row too long for its room loses elements on the same side.
///
/// ```
/// use tch::Tensor;
/// use tensorquery::{JaggedTensor, PaddingSide};
///
/// let rows = JaggedTensor::from_rows(&[Tensor::from_slice(&[1, 2, 3]), Tensor::from_slice(&[4])])?;
/// let left = rows.to_padded(PaddingSide::Left, 0, Some(2))?;
/// assert_eq!(Vec::<Vec<i32>>::try_from(left).unwrap(), [[2, 3], [0, 4]]);
/// # Ok::<_, tensorquery::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PaddingSide {
    /// Before the row: rows end together, as decoders that go on from the last element need.
    Left,
    /// After the row: rows begin together.
    #[default]
    Right,
}

impl fmt::Display for PaddingSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PaddingSide::Left => "left",
            PaddingSide::Right => "right",
        })
    }
}

impl JaggedTensor {
    /// Dense rows `[rows, length, …]` of the same dtype, where `value` (cast to it) fills what rows leave free.
    ///
    /// `length` is the longest row's if not given. Longer rows are cut, on the side of the padding.
    /// Gradients flow back to the values.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::{JaggedTensor, PaddingSide};
    ///
    /// let jagged = JaggedTensor::from_rows(&[Tensor::from_slice(&[1, 2, 3]), Tensor::from_slice(&[4])])?;
    /// let padded = jagged.to_padded(PaddingSide::Left, 0, None)?;
    /// assert_eq!(Vec::<Vec<i32>>::try_from(padded).unwrap(), [[1, 2, 3], [0, 0, 4]]);
    /// let padded = jagged.to_padded(PaddingSide::Right, -1, Some(2))?;
    /// assert_eq!(Vec::<Vec<i32>>::try_from(padded).unwrap(), [[1, 2], [4, -1]]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a negative length or more room than can be counted; an
    /// [overflow](Error::is_overflow) error for a `value` that the dtype can't hold.
    pub fn to_padded(&self, side: PaddingSide, value: impl Into<Number>, length: Option<i64>) -> Result<Tensor> {
        let (lengths, longest) = (self.lengths()?, self.max_length()?);
        let length = checked(length)?.unwrap_or(longest);
        let value = value.into().to_tensor(self.values.f_kind()?, self.device())?;
        if let Some(padded) = self.padded_by_run(side, &value, length)? {
            return Ok(padded);
        }
        if longest <= length {
            return self.spread(&lengths, side, &value, length);
        }
        let kept = lengths.f_clamp_max(length)?;
        let mut starts = self.offsets.f_narrow(0, 0, self.num_rows())?;
        if side == PaddingSide::Left {
            starts = starts.f_add(&lengths.f_sub(&kept)?)?;
        }
        let (values, offsets) = ragged::gather(&self.values, &starts, &starts.f_add(&kept)?)?;
        JaggedTensor::from_trusted(values, offsets).spread(&kept, side, &value, length)
    }

    /// As [`spread`](Self::spread) and cut to `width`, by run, where that can be.
    fn padded_by_run(&self, side: PaddingSide, value: &Tensor, width: i64) -> Result<Option<Tensor>> {
        if self.device() != Device::Cpu {
            return Ok(None);
        }
        let bounds: Vec<i64> = elements(&self.offsets)?;
        let rows: Vec<Run> = bounds.windows(2).map(|pair| Run { source: 0, start: pair[0], end: pair[1] }).collect();
        pad_runs(vec![&self.values], &rows, side, value, width)
    }

    /// Each row in room for `width`, which all fit into.
    fn spread(&self, lengths: &Tensor, side: PaddingSide, value: &Tensor, width: i64) -> Result<Tensor> {
        let rows = self.num_rows();
        let trailing = self.shape().split_off(2);
        let places = ragged::room(rows, width, &trailing)?;
        let sized = |leading: &[i64]| [leading, &trailing].concat();
        let mut padded = Tensor::f_empty(sized(&[places]), (self.values.f_kind()?, self.device()))?;
        let _ = padded.f_fill_tensor_(value)?;
        let places = ragged::positions(&starts(lengths, side, width)?, &self.offsets)?;
        ragged::scatter(&mut padded, places, &self.values)?;
        Ok(padded.f_reshape(sized(&[rows, width]))?)
    }

    /// The elements of `padded` that are no padding, the inverse of [`to_padded`](Self::to_padded).
    ///
    /// `padded` is `[rows, length, …]` of any dtype, `lengths` holds the `rows` lengths, integers of one dim.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::{JaggedTensor, PaddingSide};
    ///
    /// let padded = Tensor::from_slice2(&[[1, 2, 3], [0, 0, 4]]);
    /// let jagged = JaggedTensor::from_padded(&padded, &Tensor::from_slice(&[3, 1]), PaddingSide::Left)?;
    /// assert_eq!(Vec::<i32>::try_from(jagged.row(1)?).unwrap(), [4]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if `padded` has fewer than two dims, there isn't one length for each row,
    /// or a length is negative or more than there is room for.
    pub fn from_padded(padded: &Tensor, lengths: &Tensor, side: PaddingSide) -> Result<JaggedTensor> {
        let (rows, width) = rows_and_width(padded)?;
        ragged::ensure_dense(lengths, "lengths")?;
        let kind = lengths.f_kind()?;
        let integers = matches!(kind, Kind::Uint8 | Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64);
        if !integers || lengths.size() != [rows] {
            return Err(Error::shape(format!(
                "lengths are {kind:?}{:?}; they must be integers, one for each of the {rows} rows",
                lengths.size()
            )));
        }
        let lengths = lengths.f_to_kind(Kind::Int64)?.f_to_device(padded.device())?;
        let found: Vec<i64> = elements(&lengths)?;
        if let Some(row) = found.iter().position(|length| !(0..=width).contains(length)) {
            let found = format!("a length of {} in rows of {width}", found[row]);
            return Err(Error::shape(found).at_row(row));
        }
        let starts = starts(&lengths, side, width)?;
        let (values, offsets) = ragged::gather(&padded.f_flatten(0, 1)?, &starts, &starts.f_add(&lengths)?)?;
        Ok(JaggedTensor::from_trusted(values, offsets))
    }

    /// The elements of `padded` where `mask` is true. `padded` is `[rows, length, …]`, `mask` is
    /// `bool[rows, length]`. True may be anywhere; what is true in a row makes the row.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if `padded` has fewer than two dims, or `mask` is not `bool` of their
    /// sizes; a [device](Error::is_device) error if the two are on different devices.
    pub fn from_masked(padded: &Tensor, mask: &Tensor) -> Result<JaggedTensor> {
        let (rows, width) = rows_and_width(padded)?;
        ragged::ensure_dense(mask, "mask")?;
        ragged::ensure_one_device([padded, mask])?;
        if mask.f_kind()? != Kind::Bool || mask.size() != [rows, width] {
            return Err(Error::shape(format!(
                "the mask is {:?}{:?}; it must be bool[{rows}, {width}]",
                mask.f_kind()?,
                mask.size()
            )));
        }
        let places = mask.f_flatten(0, 1)?.f_nonzero()?.f_squeeze_dim(1)?;
        let lengths = mask.f_sum_dim_intlist(1, false, Kind::Int64)?;
        let values = padded.f_flatten(0, 1)?.f_index_select(0, &places)?;
        Ok(JaggedTensor::from_trusted(values, ragged::offsets(&lengths)?))
    }

    /// Where [`to_padded`](Self::to_padded) with the same arguments puts elements: `bool[rows, length]`,
    /// true for elements, false for padding.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for a negative length.
    pub fn mask(&self, side: PaddingSide, length: Option<i64>) -> Result<Tensor> {
        let width = match checked(length)? {
            Some(length) => length,
            None => self.max_length()?,
        };
        let places = ragged::count(width, self.device())?.f_unsqueeze(0)?;
        let lengths = self.lengths()?.f_unsqueeze(1)?;
        Ok(match side {
            PaddingSide::Right => places.f_lt_tensor(&lengths)?,
            PaddingSide::Left => places.f_ge_tensor(&lengths.f_rsub_scalar(width)?)?,
        })
    }
}

/// Tensors `[length, …]` as rows `[rows, width, …]` that all fit into, where they can be copied by run.
pub(crate) fn pad_rows(rows: &[Tensor], side: PaddingSide, value: &Tensor, width: i64) -> Result<Option<Tensor>> {
    let runs = rows.iter().enumerate().map(|(source, row)| {
        let end = row.size().first().copied();
        end.map(|end| Run { source, start: 0, end })
    });
    match runs.collect::<Option<Vec<_>>>() {
        Some(runs) => pad_runs(rows.iter().collect(), &runs, side, value, width),
        None => Ok(None),
    }
}

/// Rows and what fills them up copied in turn: `[rows, width, …]`. Those that are longer are cut on the side of the
/// padding. `None` where [`copy_runs`](ffi::copy_runs) has it.
fn pad_runs(
    sources: Vec<&Tensor>,
    rows: &[Run],
    side: PaddingSide,
    value: &Tensor,
    width: i64,
) -> Result<Option<Tensor>> {
    let Some(trailing) = sources.first().map(|first| first.size()).filter(|size| !size.is_empty()) else {
        return Ok(None);
    };
    let trailing = &trailing[1..];
    let count = rows.len() as i64;
    let places = ragged::room(count, width, trailing)?;
    let kept = |row: &Run| row.end.saturating_sub(row.start).min(width);
    let gap = width - rows.iter().map(kept).min().unwrap_or(width).max(0);
    let filler = value.f_expand([&[gap], trailing].concat(), false)?.f_contiguous()?;
    let last = sources.len();
    let mut sources = sources;
    sources.push(&filler);
    // Rows that another handle made end before they start are runs that don't exist.
    let runs = rows.iter().flat_map(|row| {
        let (Run { source, start, end }, kept) = (*row, kept(row));
        let padding = Run { source: last, start: 0, end: width.saturating_sub(kept) };
        match side {
            PaddingSide::Right => [Run { source, start, end: start.saturating_add(kept) }, padding],
            PaddingSide::Left => [padding, Run { source, start: end.saturating_sub(kept), end }],
        }
    });
    match ffi::copy_runs(&sources, places, runs.filter(|run| run.start != run.end))? {
        Some(padded) => Ok(Some(padded.f_reshape([&[count, width], trailing].concat())?)),
        None => Ok(None),
    }
}

fn checked(length: Option<i64>) -> Result<Option<i64>> {
    match length {
        Some(length) if length < 0 => Err(Error::shape(format!("rows can't be padded to a length of {length}"))),
        length => Ok(length),
    }
}

/// Where each row starts in padded rows of `width`, all put one after the other.
fn starts(lengths: &Tensor, side: PaddingSide, width: i64) -> Result<Tensor> {
    let rows = ragged::count(lengths.size()[0], lengths.device())?.f_mul_scalar(width)?;
    match side {
        PaddingSide::Right => Ok(rows),
        PaddingSide::Left => Ok(rows.f_add(&lengths.f_rsub_scalar(width)?)?),
    }
}

fn rows_and_width(padded: &Tensor) -> Result<(i64, i64)> {
    ragged::ensure_dense(padded, "padded rows")?;
    match padded.size()[..] {
        [rows, width, ..] => Ok((rows, width)),
        ref size => {
            Err(Error::shape(format!("padded rows have shape {size:?}; they need two dims, rows and elements")))
        }
    }
}
