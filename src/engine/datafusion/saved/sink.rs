//! Where a query's result is saved.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::TryStreamExt;

use super::copy::shown;
use super::form::{Form, Writer};
use crate::convert::Converter;
use crate::error::Error;
use crate::nulls;
use crate::options::Options;
use crate::store::SaveOptions;

/// Saves record batches one after the other, each converted and written before the next is asked for. What was there
/// is replaced when all are on the disk; a query that fails or is dropped leaves it as it was.
pub(super) struct SavedSink {
    form: Form,
    path: PathBuf,
    converter: Arc<Converter>,
    options: String,
    overwrite: bool,
    /// Whether the rows have an order, so that the first null is the same each time.
    ordered: bool,
    metrics: ExecutionPlanMetricsSet,
}

impl SavedSink {
    pub(super) fn new(
        form: Form,
        path: PathBuf,
        converter: Converter,
        options: &Options,
        overwrite: bool,
        ordered: bool,
    ) -> SavedSink {
        let (converter, options) = (Arc::new(converter), options.to_string());
        SavedSink { form, path, converter, options, overwrite, ordered, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl fmt::Debug for SavedSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedSink").field("form", &self.form).field("path", &self.path).finish_non_exhaustive()
    }
}

impl DisplayAs for SavedSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, path) = (self.form.word(), shown(&self.path));
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{word}={path}, {}", self.options)?;
                if self.overwrite { f.write_str(", overwrite") } else { Ok(()) }
            }
            DisplayFormatType::TreeRender => writeln!(f, "{word}={path}"),
        }
    }
}

#[async_trait]
impl DataSink for SavedSink {
    fn schema(&self) -> &SchemaRef {
        self.converter.input()
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    async fn write_all(&self, mut data: SendableRecordBatchStream, _: &Arc<TaskContext>) -> Result<u64> {
        let written = MetricBuilder::new(&self.metrics).counter("rows_written", 0);
        let (form, path) = (self.form, self.path.clone());
        let options = SaveOptions::default().overwrite(self.overwrite);
        let converter = Arc::clone(&self.converter);
        // Keys and types that can't be saved show before the query runs.
        let mut writer = blocking(move || {
            let mut writer = form.writer(&path, &options)?;
            append(&converter, vec![], &mut writer)?;
            Ok(writer)
        })
        .await?;
        let mut rows = 0;
        while let Some(batch) = data.try_next().await? {
            let converter = Arc::clone(&self.converter);
            let before = rows;
            rows += batch.num_rows();
            written.add(batch.num_rows());
            let appended = blocking(move || append(&converter, vec![batch], &mut writer).map(|()| writer)).await;
            writer = appended.map_err(|error| match self.ordered {
                true => error.after_rows(before),
                false => nulls::in_some_batch(error),
            })?;
        }
        let path = self.path.clone();
        blocking(move || writer.finish().map_err(|error| error.in_file(&path))).await?;
        Ok(rows as u64)
    }
}

fn append(converter: &Converter, batches: Vec<RecordBatch>, writer: &mut Writer) -> crate::error::Result<()> {
    let (td, _) = converter.convert(batches)?;
    writer.append(&td)
}

/// Files are written on threads that may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
) -> crate::error::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(Error::engine)?
}
