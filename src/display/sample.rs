//! Some of the numbers of a tensor, so that what is shown costs the same however many there are.

use tch::kind::Element;
use tch::{Device, Kind, TchError, Tensor};

use crate::dict::has_strides;
use crate::index::written_out;

/// Values that are looked at of an entry.
pub(super) const VALUES: usize = 4096;

/// Numbers of one kind.
pub(super) enum Numbers {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
}

/// How many of those looked at are so.
#[derive(Clone, Copy, Default)]
pub(super) struct Share {
    pub(super) count: u64,
    pub(super) of: u64,
}

/// Numbers of an entry that are no nulls, and how many of those looked at are.
pub(super) struct Sample {
    pub(super) numbers: Numbers,
    /// Where there is a mask.
    pub(super) nulls: Option<Share>,
    /// Whether there are more than were looked at.
    pub(super) partial: bool,
}

impl Share {
    pub(super) fn add(&mut self, so: bool) {
        self.count += u64::from(so);
        self.of += 1;
    }
}

/// Numbers of these tensors, all of them of one entry, each with its mask if it has one: as many of each tensor, evenly
/// strided in row-major order. `None` if one of them holds no integers, floats or booleans, or doesn't lie in memory.
pub(super) fn sample(parts: &[(&Tensor, Option<&Tensor>)]) -> Option<Sample> {
    let mut kinds = parts.iter().map(|(tensor, _)| tensor.f_kind().ok());
    let first = kinds.next()??;
    let numbers = match first {
        Kind::Bool if kinds.clone().all(|kind| kind == Some(Kind::Bool)) => Numbers::Bools(Vec::new()),
        _ if is_int(first) && kinds.clone().all(|kind| kind.is_some_and(is_int)) => Numbers::Ints(Vec::new()),
        _ if is_real(first) && kinds.all(|kind| kind.is_some_and(is_real)) => Numbers::Floats(Vec::new()),
        _ => return None,
    };
    let mut sample = Sample { numbers, nulls: None, partial: false };
    let most = (VALUES / parts.len()).max(1);
    for (tensor, mask) in parts {
        sample.add(tensor, *mask, most)?;
    }
    Some(sample)
}

/// The lengths of rows that begin and end at these offsets, each with the mask of its rows, or of elements, if it has one.
pub(super) fn sample_lengths(parts: &[(&Tensor, Option<&Tensor>)]) -> Option<Sample> {
    let mut lengths = Vec::new();
    let mut sample = Sample { numbers: Numbers::Ints(Vec::new()), nulls: None, partial: false };
    let most = (VALUES / parts.len().max(1)).max(1);
    for (offsets, mask) in parts {
        let rows = offsets.size().first()? - 1;
        let places = places(&[rows], most);
        sample.partial |= (places.len() as i64) < rows;
        let starts: Vec<i64> = take(offsets, &places).ok()?;
        let ends: Vec<i64> = take(offsets, &places.iter().map(|row| row + 1).collect::<Vec<_>>()).ok()?;
        let valid = mask.and_then(|mask| taken_mask(mask, &[rows], &places));
        for (at, (start, end)) in starts.iter().zip(&ends).enumerate() {
            if sample.is_valid(valid.as_deref(), at) {
                lengths.push(end.saturating_sub(*start));
            }
        }
    }
    sample.numbers = Numbers::Ints(lengths);
    Some(sample)
}

/// How many elements of a mask are false.
pub(super) fn sample_mask(masks: &[&Tensor]) -> Option<Share> {
    let parts: Vec<_> = masks.iter().map(|mask| (*mask, None)).collect();
    let Numbers::Bools(valid) = sample(&parts)?.numbers else {
        return None;
    };
    let mut nulls = Share::default();
    valid.into_iter().for_each(|valid| nulls.add(!valid));
    Some(nulls)
}

impl Sample {
    fn add(&mut self, tensor: &Tensor, mask: Option<&Tensor>, most: usize) -> Option<()> {
        if !has_strides(tensor) {
            return None;
        }
        let sizes = tensor.size();
        let places = places(&sizes, most);
        self.partial |= (places.len() as i64) < total(&sizes);
        let valid = mask.and_then(|mask| taken_mask(mask, &sizes, &places));
        let keep: Vec<bool> = (0..places.len()).map(|at| self.is_valid(valid.as_deref(), at)).collect();
        match &mut self.numbers {
            Numbers::Ints(numbers) => extend(numbers, take(tensor, &places).ok()?, &keep),
            Numbers::Floats(numbers) => extend(numbers, take(tensor, &places).ok()?, &keep),
            Numbers::Bools(numbers) => extend(numbers, take(tensor, &places).ok()?, &keep),
        }
        Some(())
    }

    /// Whether a place is valid, which is counted.
    fn is_valid(&mut self, valid: Option<&[bool]>, at: usize) -> bool {
        let valid = valid.and_then(|valid| valid.get(at).copied());
        if let Some(valid) = valid {
            self.nulls.get_or_insert_default().add(!valid);
        }
        valid != Some(false)
    }
}

fn extend<T>(numbers: &mut Vec<T>, taken: Vec<T>, keep: &[bool]) {
    numbers.extend(taken.into_iter().zip(keep).filter_map(|(number, keep)| keep.then_some(number)));
}

fn is_int(kind: Kind) -> bool {
    matches!(kind, Kind::Uint8 | Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64)
}

fn is_real(kind: Kind) -> bool {
    is_int(kind) || matches!(kind, Kind::Bool | Kind::Half | Kind::BFloat16 | Kind::Float | Kind::Double)
}

fn total(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1, |total, size| total.saturating_mul(*size))
}

/// At most so many places of a tensor of these sizes, counted row by row, one as far from the other as the next. If
/// not all, they go through all columns: the stride has no divisor in common with the size of a row.
fn places(sizes: &[i64], most: usize) -> Vec<i64> {
    let total = total(sizes);
    let most = i64::try_from(most).unwrap_or(i64::MAX).max(1);
    if total <= most {
        return (0..total).collect();
    }
    let row = self::total(sizes.get(1..).unwrap_or_default());
    let mut stride = total / most + i64::from(total % most > 0);
    while divisor(stride, row) > 1 {
        stride += 1;
    }
    // One that is added to the last place may be more than can be counted.
    std::iter::successors(Some(0i64), |at| at.checked_add(stride)).take_while(|at| *at < total).collect()
}

/// The greatest common divisor.
fn divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The mask of these places; `None` if it is no mask of a tensor of these sizes.
fn taken_mask(mask: &Tensor, sizes: &[i64], places: &[i64]) -> Option<Vec<bool>> {
    if !mask.defined() || mask.f_kind().ok()? != Kind::Bool || !has_strides(mask) {
        return None;
    }
    let masked = mask.size();
    if masked.is_empty() && !sizes.is_empty() || !sizes.starts_with(&masked) {
        return None;
    }
    let each = total(&sizes[masked.len()..]).max(1);
    take(mask, &places.iter().map(|place| place / each).collect::<Vec<_>>()).ok()
}

/// The elements at these places, counted row by row. No others are copied from their device.
fn take<T: Element + Copy>(tensor: &Tensor, places: &[i64]) -> Result<Vec<T>, TchError> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let tensor = tensor.f_detach()?;
    let sizes = tensor.size();
    let taken = if sizes.is_empty() {
        tensor.f_reshape([1])?
    } else {
        let mut indices = Vec::with_capacity(sizes.len());
        let mut above = places.to_vec();
        for size in sizes.iter().rev() {
            let index: Vec<i64> = above.iter().map(|place| place % size.max(&1)).collect();
            above.iter_mut().for_each(|place| *place /= size.max(&1));
            indices.push(Some(Tensor::f_from_slice(&index)?.f_to_device(tensor.device())?));
        }
        indices.reverse();
        tensor.f_index(&indices)?
    };
    Vec::try_from(&written_out(&taken.f_to_device(Device::Cpu)?.f_to_kind(T::KIND)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_even_and_go_through_all_columns() {
        assert_eq!(places(&[5], 8), [0, 1, 2, 3, 4]);
        assert_eq!(places(&[], 8), [0]);
        assert_eq!(places(&[0, 3], 8), [] as [i64; 0]);
        assert_eq!(places(&[10], 4), [0, 3, 6, 9]);
        let columns: std::collections::BTreeSet<i64> = places(&[1000, 4], 100).iter().map(|place| place % 4).collect();
        assert_eq!(columns.len(), 4);
        assert!(places(&[1000, 4], 100).len() <= 100);
        assert!(places(&[i64::MAX], 4).len() <= 4);
    }
}
