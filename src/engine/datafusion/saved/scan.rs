//! The rows of a saved tensordict, batch by batch.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source::DataSource;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionConfig;
use futures::stream;

use super::columns::{Reads, Saved};
use super::copy::shown;
use crate::dict::TensorDict;
use crate::error::{Error, Result as OurResult};

/// As many batches as are read of the disk at a time, of columns that can't be mapped.
const BATCHES_AT_A_TIME: i64 = 16;

/// Some columns of some rows, in partitions of neighbouring rows: the rows of the first come before those of the second.
#[derive(Clone, Debug)]
pub(super) struct SavedScan {
    saved: Arc<Saved>,
    projection: Vec<usize>,
    schema: SchemaRef,
    partitions: Vec<Range<i64>>,
    /// Rows of each partition at most.
    fetch: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
}

impl SavedScan {
    pub(super) fn try_new(
        saved: Saved,
        projection: Vec<usize>,
        limit: Option<usize>,
        config: &SessionConfig,
    ) -> Result<SavedScan> {
        let schema = Arc::new(saved.schema.project(&projection)?);
        let Range { start, end } = saved.rows;
        let rows = match limit {
            Some(limit) => start..end.min(start.saturating_add(at_most(limit))),
            None => start..end,
        };
        let partitions = split(rows, at_most(config.batch_size()), at_most(config.target_partitions()));
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(SavedScan { saved: Arc::new(saved), projection, schema, partitions, fetch: None, metrics })
    }

    fn rows_of(&self, partition: usize) -> Range<i64> {
        let Range { start, end } = self.partitions[partition];
        match self.fetch {
            Some(fetch) => start..end.min(start.saturating_add(at_most(fetch))),
            None => start..end,
        }
    }
}

fn at_most(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Rows in as many parts, each of whole batches but the last.
fn split(rows: Range<i64>, batch: i64, parts: i64) -> Vec<Range<i64>> {
    let batch = batch.max(1);
    let batches = (rows.end - rows.start + batch - 1) / batch;
    let size = ((batches + parts.max(1) - 1) / parts.max(1)).max(1).saturating_mul(batch);
    let mut split = Vec::new();
    let mut start = rows.start;
    while start < rows.end {
        let end = start.saturating_add(size).min(rows.end);
        split.push(start..end);
        start = end;
    }
    if split.is_empty() {
        split.push(rows);
    }
    split
}

impl DataSource for SavedScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows_of(partition);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let batches = Batches {
            saved: Arc::clone(&self.saved),
            projection: self.projection.clone(),
            schema: SchemaRef::clone(&self.schema),
            batch: at_most(context.session_config().batch_size()).max(1),
            next: rows.start,
            rows,
            kept: [const { None }; 3],
        };
        let batches = batches.map(move |batch| {
            let batch = batch?;
            baseline.record_output(batch.num_rows());
            Ok(batch)
        });
        let schema = SchemaRef::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches))))
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, path) = (self.saved.source.form.word(), shown(&self.saved.source.path));
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let start = self.partitions.first().map_or(0, |rows| rows.start);
        let end = self.partitions.last().map_or(0, |rows| rows.end);
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let (names, partitions) = (names.join(", "), self.partitions.len());
                write!(f, "{word}={path}, projection=[{names}], rows={start}..{end}, partitions={partitions}")?;
                self.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "{word}={path}")?;
                writeln!(f, "rows={start}..{end}")
            }
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(SchemaRef::clone(&self.schema))
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let partitions = match partition {
            Some(partition) => partition..(partition + 1).min(self.partitions.len()),
            None => 0..self.partitions.len(),
        };
        let rows: i64 = partitions.map(|at| self.rows_of(at)).map(|rows| rows.end - rows.start).sum();
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = Precision::Exact(usize::try_from(rows).unwrap_or_default());
        for (column, field) in statistics.column_statistics.iter_mut().zip(self.schema.fields()) {
            if !field.is_nullable() {
                column.null_count = Precision::Exact(0);
            }
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(SavedScan { fetch: limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(&self, _: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

/// One partition's batches.
///
/// Columns of numbers are loaded once, since loading maps them, and lengths of rows are added up then; each batch copies
/// its part. Others are read for a few batches at a time.
struct Batches {
    saved: Arc<Saved>,
    projection: Vec<usize>,
    schema: SchemaRef,
    batch: i64,
    rows: Range<i64>,
    next: i64,
    /// What is loaded, by how its columns are read.
    kept: [Option<Kept>; 3],
}

/// Columns that are loaded, for these rows.
struct Kept {
    td: TensorDict,
    rows: Range<i64>,
}

impl Batches {
    fn read(&mut self, rows: Range<i64>) -> OurResult<RecordBatch> {
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.projection.len()];
        for (kept, reads) in [Reads::Nothing, Reads::Rows, Reads::All].into_iter().enumerate() {
            let places: Vec<usize> =
                (0..columns.len()).filter(|at| self.saved.reads(self.projection[*at]) == reads).collect();
            if places.is_empty() {
                continue;
            }
            let part = self.part(kept, reads, &places, &rows)?;
            for place in places {
                columns[place] = part.column_by_name(self.schema.field(place).name()).map(Arc::clone);
            }
        }
        let columns: Option<Vec<ArrayRef>> = columns.into_iter().collect();
        let columns = columns.ok_or_else(|| self.saved.changed())?;
        let count = usize::try_from(rows.end - rows.start).unwrap_or_default();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options);
        batch.map_err(|error| Error::from(error).in_file(&self.saved.source.path))
    }

    /// The columns of one kind, as far as these rows go.
    fn part(&mut self, kept: usize, reads: Reads, places: &[usize], rows: &Range<i64>) -> OurResult<RecordBatch> {
        let slot = &mut self.kept[kept];
        let loaded = match slot.take() {
            Some(loaded) if loaded.rows.start <= rows.start && rows.end <= loaded.rows.end => loaded,
            _ => {
                let columns: Vec<usize> = places.iter().map(|place| self.projection[*place]).collect();
                let window = rows.start.saturating_add(self.batch.saturating_mul(BATCHES_AT_A_TIME));
                let wanted = match reads {
                    Reads::Nothing => Some(self.rows.clone()),
                    Reads::Rows => Some(rows.start..window.min(self.rows.end)),
                    Reads::All => None,
                };
                let td = self.saved.load(&columns, wanted.clone())?;
                let rows = wanted.unwrap_or_else(|| 0..td.batch_size().first().copied().unwrap_or_default());
                Kept { td, rows }
            }
        };
        let loaded = slot.insert(loaded);
        self.saved.batch(&loaded.td, rows.start - loaded.rows.start..rows.end - loaded.rows.start)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.rows.end {
            return None;
        }
        let end = self.next.saturating_add(self.batch).min(self.rows.end);
        let batch = self.read(self.next..end);
        // After an error there is nothing more.
        self.next = if batch.is_ok() { end } else { self.rows.end };
        Some(batch.map_err(Into::into))
    }
}
