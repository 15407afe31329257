//! Rows put in another order, a window of them at a time.

use std::collections::VecDeque;

use arrow::array::{Array, RecordBatch};
use arrow::compute::interleave_record_batch;

use super::Batcher;
use super::permute::Random;
use super::source::{Chunk, Mark, Place};
use crate::error::Result;

/// What random numbers are for, so that those for one thing say nothing of those for another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Pieces = 0,
    Rows = 1,
    Groups = 2,
}

impl Purpose {
    /// The random numbers of a window.
    pub(super) fn random(self, seed: u64, epoch: u64, window: u64) -> Random {
        Random::new(seed, epoch, (window << 2) | self as u64)
    }
}

/// A run of rows, cut into windows of so many; the last may be shorter.
#[derive(Debug)]
pub(super) struct Windows {
    size: usize,
    waiting: Batcher,
    bytes: usize,
}

/// Rows of one window, as they came.
#[derive(Debug)]
pub(super) struct Window {
    chunks: Vec<RecordBatch>,
    pub(super) bytes: usize,
}

/// A row of a window: its chunk, and its place there.
pub(super) type Row = (usize, usize);

impl Windows {
    pub(super) fn new(size: usize) -> Self {
        Windows { size, waiting: Batcher::new(size), bytes: 0 }
    }

    pub(super) fn push(&mut self, rows: RecordBatch) {
        self.bytes += shown_bytes(&rows);
        self.waiting.push(rows);
    }

    /// Bytes of the rows that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn full(&mut self) -> Option<Window> {
        (self.waiting.rows() >= self.size).then(|| self.take())
    }

    /// The rows that are left at the end, if any.
    pub(super) fn rest(&mut self) -> Option<Window> {
        (self.waiting.rows() > 0).then(|| self.take())
    }

    fn take(&mut self) -> Window {
        let chunks = self.waiting.take(self.size);
        let bytes = chunks.iter().map(shown_bytes).sum();
        // Parts of rows in one buffer don't add up exactly.
        self.bytes = if self.waiting.rows() == 0 { 0 } else { self.bytes.saturating_sub(bytes) };
        Window { chunks, bytes }
    }
}

impl Window {
    /// Its rows in the order in which they came.
    pub(super) fn rows(&self) -> Vec<Row> {
        let rows = self.chunks.iter().map(RecordBatch::num_rows);
        rows.enumerate().flat_map(|(chunk, rows)| (0..rows).map(move |row| (chunk, row))).collect()
    }

    /// At least one row, copied.
    pub(super) fn pick(&self, rows: &[Row]) -> Result<RecordBatch> {
        let chunks: Vec<_> = self.chunks.iter().collect();
        Ok(interleave_record_batch(&chunks, rows)?)
    }
}

/// Bytes that the rows take, without what their buffers hold beyond them.
pub(crate) fn shown_bytes(rows: &RecordBatch) -> usize {
    rows.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum()
}

/// Shuffles the rows of each window; the order depends on seed, epoch, and the window's number.
#[derive(Debug)]
pub(super) struct Shuffle {
    seed: u64,
    epoch: u64,
    size: u64,
    layout: u64,
    windows: Windows,
    /// Where the rows that wait are from, each with how many there are.
    places: VecDeque<(Place, u64)>,
    /// Windows shuffled so far.
    number: u64,
    open: Option<(Window, Vec<Row>)>,
    /// How many rows are given at a time.
    slice: usize,
}

impl Shuffle {
    /// Goes on after `number` windows.
    pub(super) fn new(seed: u64, epoch: u64, size: usize, number: u64, slice: usize, layout: u64) -> Self {
        let windows = Windows::new(size);
        Shuffle { seed, epoch, size: size as u64, layout, windows, places: VecDeque::new(), number, open: None, slice }
    }

    pub(super) fn push(&mut self, chunk: Chunk) {
        if chunk.rows.num_rows() > 0 {
            self.places.push_back((chunk.place, chunk.rows.num_rows() as u64));
            self.windows.push(chunk.rows);
        }
    }

    /// Bytes of the rows held.
    pub(super) fn bytes(&self) -> usize {
        self.windows.bytes() + self.open.as_ref().map_or(0, |(window, _)| window.bytes)
    }

    /// The next rows of a window, if they are here, and where the window began; at the end, also of the last one.
    pub(super) fn next(&mut self, ended: bool) -> Result<Option<(RecordBatch, Option<Mark>)>> {
        let mut began = None;
        if self.open.is_none() {
            let window = match self.windows.full() {
                None if ended => self.windows.rest(),
                window => window,
            };
            let Some(window) = window else { return Ok(None) };
            let mut rows = window.rows();
            began = self.begin(rows.len() as u64);
            Purpose::Rows.random(self.seed, self.epoch, self.number).shuffle(&mut rows);
            self.number += 1;
            self.open = Some((window, rows));
        }
        let Some((window, rows)) = &mut self.open else { return Ok(None) };
        // From the end, so that what is left needn't move; the last row is the first.
        let mut given = rows.split_off(rows.len() - self.slice.min(rows.len()));
        given.reverse();
        let picked = window.pick(&given)?;
        if rows.is_empty() {
            self.open = None;
        }
        Ok(Some((picked, began)))
    }

    /// Where the window's first row is from; leaves those of the next.
    fn begin(&mut self, mut rows: u64) -> Option<Mark> {
        let place = self.places.front()?.0;
        while let Some((place, left)) = self.places.front_mut() {
            let taken = rows.min(*left);
            (place.row, *left, rows) = (place.row + taken, *left - taken, rows - taken);
            if *left > 0 {
                break;
            }
            self.places.pop_front();
        }
        Some(Mark { place, rows: self.number * self.size, layout: self.layout })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn shuffled(chunks: &[i64], size: usize, slice: usize, skip: u64) -> Vec<(i64, Option<Mark>)> {
        let mut shuffle = Shuffle::new(3, 4, size, skip, slice, 9);
        let (mut start, mut seen) = (skip as i64 * size as i64, Vec::new());
        let collect = |shuffle: &mut Shuffle, ended: bool, seen: &mut Vec<(i64, Option<Mark>)>| {
            while let Some((rows, mark)) = shuffle.next(ended).unwrap() {
                let values = rows.column(0).as_primitive::<Int64Type>().values().to_vec();
                seen.extend(values.into_iter().enumerate().map(|(at, id)| (id, mark.filter(|_| at == 0))));
            }
        };
        for (piece, rows) in chunks.iter().enumerate() {
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + rows));
            let rows_of = RecordBatch::try_from_iter([("id", ids)]).unwrap();
            shuffle.push(Chunk { rows: rows_of, place: Place { piece: piece as u64, row: 0 } });
            collect(&mut shuffle, false, &mut seen);
            start += rows;
        }
        collect(&mut shuffle, true, &mut seen);
        assert_eq!(shuffle.bytes(), 0);
        seen
    }

    #[test]
    fn the_order_depends_on_windows_not_on_chunks() {
        let ids = |chunks: &[i64], slice| -> Vec<i64> {
            shuffled(chunks, 16, slice, 0).into_iter().map(|(id, _)| id).collect()
        };
        let reference = ids(&[50], 5);
        assert_eq!(ids(&[1, 0, 20, 29], 7), reference);
        assert_eq!(ids(&[49, 1], 100), reference);
        for (number, window) in reference.chunks(16).enumerate() {
            let mut window = window.to_vec();
            let start = number as i64 * 16;
            assert!(!window.is_sorted() || window.len() < 16);
            window.sort_unstable();
            assert_eq!(window, (start..start + window.len() as i64).collect::<Vec<_>>());
        }
        // From the second window on.
        let rest: Vec<_> = shuffled(&[34], 16, 5, 1).into_iter().map(|(id, _)| id).collect();
        assert_eq!(rest, reference[16..]);
    }

    #[test]
    fn windows_know_where_they_begin() {
        let marks: Vec<_> = shuffled(&[10, 30, 10], 16, 5, 0).into_iter().filter_map(|(_, mark)| mark).collect();
        let mark = |piece, row, rows| Mark { place: Place { piece, row }, rows, layout: 9 };
        assert_eq!(marks, [mark(0, 0, 0), mark(1, 6, 16), mark(1, 22, 32), mark(2, 8, 48)]);
    }
}
