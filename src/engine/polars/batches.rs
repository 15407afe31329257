//! A frame → record batches.

use std::collections::BTreeSet;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use polars::prelude::DataFrame;

use super::announced::Announced;
use super::columns;
use crate::error::Result;

/// The rows of a frame, cut where any of its columns is. Nothing is copied, and what the frame alone owned of the
/// numbers, the record batches alone own.
///
/// # Errors
///
/// The frame is not what was announced.
pub(super) fn record_batches(frame: DataFrame, announced: &Announced) -> Result<Vec<RecordBatch>> {
    announced.check(&frame)?;
    let rows = frame.height();
    let fields = announced.schema.fields();
    let chunks = frame.into_columns().into_iter().zip(fields).map(|(column, field)| {
        let series = column.take_materialized_series();
        columns::chunks(series, field).map_err(|error| error.at(field.name()))
    });
    let columns = chunks.collect::<Result<Vec<_>>>()?;
    let ends: BTreeSet<usize> = match columns.is_empty() {
        true => [rows].into_iter().filter(|rows| *rows > 0).collect(),
        false => columns.iter().flat_map(|chunks| ends(chunks)).collect(),
    };
    let mut parts: Vec<_> =
        columns.into_iter().map(|chunks| Parts { chunks: chunks.into_iter(), left: None }).collect();
    let mut start = 0;
    ends.into_iter()
        .map(|end| {
            let rows = end - start;
            start = end;
            let arrays = parts.iter_mut().filter_map(|parts| parts.take(rows)).collect();
            let row_count = RecordBatchOptions::new().with_row_count(Some(rows));
            Ok(RecordBatch::try_new_with_options(SchemaRef::clone(&announced.schema), arrays, &row_count)?)
        })
        .collect()
}

/// Rows up to the end of each chunk that has some.
fn ends(chunks: &[ArrayRef]) -> impl Iterator<Item = usize> {
    let mut end = 0;
    chunks.iter().filter(|chunk| !chunk.is_empty()).map(move |chunk| {
        end += chunk.len();
        end
    })
}

/// A column that is taken part by part, none of which reaches past a chunk.
struct Parts {
    chunks: std::vec::IntoIter<ArrayRef>,
    left: Option<ArrayRef>,
}

impl Parts {
    fn take(&mut self, rows: usize) -> Option<ArrayRef> {
        let chunk = self.left.take().or_else(|| self.chunks.find(|chunk| !chunk.is_empty()))?;
        if chunk.len() == rows {
            // Whole: still its buffers' only owner.
            return Some(chunk);
        }
        self.left = Some(chunk.slice(rows, chunk.len() - rows));
        Some(chunk.slice(0, rows))
    }
}
