//! Which parts of a table a rank reads, in an order of random parts.

use std::ops::Range;

use twox_hash::XxHash64;

use super::shard::{Remainder, Shard};
use super::source::{Mark, Reading};
use super::window::Purpose;
use crate::error::{Error, Result};

/// A run of rows of one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) piece: usize,
    pub(crate) rows: Range<u64>,
}

/// What a rank reads of an epoch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) segments: Vec<Segment>,
    /// The number of the first segment in the epoch, when it goes on in the middle.
    pub(crate) first: u64,
    /// Rows that come of the first segment and are none of the rest.
    pub(crate) skip: u64,
    /// The row of the first segment that comes first.
    pub(crate) row: u64,
    /// How many rows of the epoch came before.
    pub(crate) before: u64,
    /// Of all pieces, see [`Opened::layout`](super::source::Opened::layout).
    pub(crate) layout: u64,
}

impl Part {
    /// How many rows it has, before any filter.
    pub(crate) fn rows(&self) -> u64 {
        self.segments.iter().map(|segment| segment.rows.end - segment.rows.start).sum()
    }
}

/// The part of a rank: pieces of these numbers of rows, put in random order, one after the other, cut into as many
/// equal parts as there are ranks.
///
/// Where not all of these rows come (`filtered`), a rank's rows can't be counted beforehand.
pub(crate) fn part_of(pieces: &[u64], filtered: bool, seed: u64, reading: &Reading<'_>) -> Result<Part> {
    let mut order: Vec<usize> = (0..pieces.len()).filter(|piece| pieces[*piece] > 0).collect();
    Purpose::Pieces.random(seed, reading.epoch, 0).shuffle(&mut order);
    let mut segments = match reading.shard {
        None => cut(pieces, &order, 0..total(pieces)),
        Some(shard) => of_rank(pieces, &order, shard, filtered)?,
    };
    let layout = layout(pieces);
    let Some(Mark { place, rows: before, layout: of_mark }) = reading.mark else {
        return Ok(Part { segments, first: 0, skip: 0, row: 0, before: 0, layout });
    };
    if of_mark != layout {
        let message = "the files have other row groups than when this state was made, so its place in them isn't there";
        return Err(Error::option(message).remedy("read the files as they were, or begin an epoch"));
    }
    let done = usize::try_from(place.piece).unwrap_or(usize::MAX).min(segments.len());
    segments.drain(..done);
    let mut part = Part { segments, first: place.piece, skip: 0, row: place.row, before, layout };
    match part.segments.first_mut() {
        Some(_) if filtered => part.skip = place.row,
        Some(segment) => segment.rows.start = segment.rows.start.saturating_add(place.row).min(segment.rows.end),
        None => {}
    }
    Ok(part)
}

/// All pieces in their order, from the first row that a rank still needs: each gets every so many-th of the rows.
///
/// Where rows can't be counted, or an epoch may end with its first row again, from the beginning.
pub(crate) fn stored_part(pieces: &[u64], filtered: bool, reading: &Reading<'_>) -> Part {
    let padded = reading.shard.is_some_and(|shard| shard.remainder == Remainder::Pad);
    let before = if filtered || padded { 0 } else { reading.taken };
    let order: Vec<usize> = (0..pieces.len()).collect();
    let start = before.saturating_mul(reading.shard.map_or(1, |shard| shard.world_size));
    Part {
        segments: cut(pieces, &order, start..total(pieces)),
        first: 0,
        skip: 0,
        row: 0,
        before,
        layout: layout(pieces),
    }
}

/// XXH64 of how many rows each piece has.
fn layout(pieces: &[u64]) -> u64 {
    let bytes: Vec<u8> = pieces.iter().flat_map(|rows| rows.to_le_bytes()).collect();
    XxHash64::oneshot(0, &bytes)
}

fn total(pieces: &[u64]) -> u64 {
    pieces.iter().fold(0, |total, rows| total.saturating_add(*rows))
}

fn of_rank(pieces: &[u64], order: &[usize], shard: Shard, filtered: bool) -> Result<Vec<Segment>> {
    let Shard { rank, world_size, remainder } = shard;
    if filtered && remainder != Remainder::Keep {
        let message =
            "how many rows a filter leaves to each rank isn't known before they are read, so they can't have as many";
        let remedy = "use `Remainder::Keep`, store the filtered rows and load these, or use `Order::shuffled`";
        return Err(Error::option(message).remedy(remedy));
    }
    let total = total(pieces);
    let (each, over) = (total / world_size, total % world_size);
    let start = match remainder {
        Remainder::Drop => rank * each,
        Remainder::Keep | Remainder::Pad => rank * each + rank.min(over),
    };
    let more = u64::from(remainder != Remainder::Drop && rank < over);
    let mut segments = cut(pieces, order, start..start + each + more);
    if remainder == Remainder::Pad && over > 0 && rank >= over {
        segments.extend(cut(pieces, order, 0..1));
    }
    Ok(segments)
}

/// The rows of a range, of pieces that come one after the other.
fn cut(pieces: &[u64], order: &[usize], range: Range<u64>) -> Vec<Segment> {
    let mut start = 0u64;
    let mut segments = Vec::new();
    for piece in order {
        let end = start.saturating_add(pieces[*piece]);
        let rows = range.start.max(start)..range.end.min(end);
        if rows.start < rows.end {
            segments.push(Segment { piece: *piece, rows: rows.start - start..rows.end - start });
        }
        start = end;
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Order;
    use crate::loader::source::Place;

    fn part(pieces: &[u64], filtered: bool, shard: Option<Shard>, mark: Option<Mark>) -> Result<Part> {
        let order = Order::streamed(3, 1);
        part_of(pieces, filtered, 3, &Reading { order: &order, epoch: 1, shard, taken: 0, mark })
    }

    fn rows(part: &Part) -> Vec<(usize, u64)> {
        part.segments.iter().flat_map(|s| s.rows.clone().map(|row| (s.piece, row))).collect()
    }

    #[test]
    fn each_row_is_read_by_one_rank() {
        let pieces = [5, 0, 7, 1, 12];
        let whole = rows(&part(&pieces, false, None, None).unwrap());
        assert_eq!(whole.len(), 25);
        for world_size in [1, 2, 3, 7, 25, 40] {
            let of = |rank, remainder| {
                let shard = Shard { rank, world_size, remainder };
                rows(&part(&pieces, false, Some(shard), None).unwrap())
            };
            let kept: Vec<_> = (0..world_size).flat_map(|rank| of(rank, Remainder::Keep)).collect();
            assert_eq!(kept, whole, "in {world_size} parts");
            for rank in 0..world_size {
                assert_eq!(of(rank, Remainder::Drop).len() as u64, 25 / world_size);
                let padded = of(rank, Remainder::Pad);
                assert_eq!(padded.len() as u64, 25u64.div_ceil(world_size));
                let own = of(rank, Remainder::Keep);
                assert_eq!(padded[..own.len()], own);
                assert!(padded[own.len()..].iter().all(|row| *row == whole[0]));
            }
        }
        let shard = Shard { rank: 0, world_size: 2, remainder: Remainder::Drop };
        assert!(part(&pieces, true, Some(shard), None).unwrap_err().is_option());
        assert!(part(&[], false, Some(shard), None).unwrap().segments.is_empty());
    }

    #[test]
    fn what_is_stored_goes_on_at_the_row_that_is_needed() {
        let pieces = [5, 0, 7];
        let of = |remainder, filtered, taken| {
            let shard = Some(Shard { rank: 1, world_size: 2, remainder });
            stored_part(&pieces, filtered, &Reading { order: &Order::AsStored, epoch: 0, shard, taken, mark: None })
        };
        let rest = of(Remainder::Keep, false, 4);
        assert_eq!((rows(&rest), rest.before), (vec![(2, 3), (2, 4), (2, 5), (2, 6)], 4));
        assert!(rows(&of(Remainder::Drop, false, u64::MAX)).is_empty());
        for all in [of(Remainder::Pad, false, 4), of(Remainder::Keep, true, 4)] {
            assert_eq!((all.rows(), all.before), (12, 0));
        }
    }

    #[test]
    fn a_part_goes_on_in_the_middle() {
        let pieces = [5, 0, 7, 1, 12];
        let whole = part(&pieces, false, None, None).unwrap();
        let mut before = 0;
        for (number, segment) in whole.segments.iter().enumerate() {
            for row in [0, segment.rows.end / 2] {
                let place = Place { piece: number as u64, row };
                let mark = Mark { place, rows: before + row, layout: layout(&pieces) };
                let rest = part(&pieces, false, None, Some(mark)).unwrap();
                assert_eq!(rows(&rest), rows(&whole)[(before + row) as usize..]);
                let rest = part(&pieces, true, None, Some(mark)).unwrap();
                assert_eq!(rows(&rest), rows(&whole)[before as usize..]);
                assert_eq!(rest.skip, row);
            }
            before += segment.rows.end;
        }
        // A place that there isn't is the end.
        let place = Place { piece: u64::MAX, row: u64::MAX };
        let beyond = Mark { place, rows: 0, layout: layout(&pieces) };
        assert!(part(&pieces, false, None, Some(beyond)).unwrap().segments.is_empty());
        // In other pieces it would be another place.
        assert!(part(&[5, 7, 1, 12], false, None, Some(beyond)).unwrap_err().is_option());
    }
}
