//! A query over Parquet files, row group by row group, in any order.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    DefaultParquetFileReaderFactory, ParquetAccessPlan, ParquetRowSelection, RowGroupAccess,
};
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;

use super::repeatable::first_of;
use crate::error::{Error, Result};
use crate::loader::{Chunk, Opened, Part, Place, Segment};

/// What keeps the rows of a scan in their order and gives of each at most one.
const ROW_BY_ROW: [&str; 5] = ["DataSourceExec", "FilterExec", "ProjectionExec", "CooperativeExec", "TensorizeExec"];
/// Files whose ends are read at a time.
const FOOTERS_AT_A_TIME: usize = 16;
/// Record batches that wait for those before them, of each row group that is being read.
const AHEAD: usize = 2;

const REMEDY: &str = "use `Order::shuffled`, or store the query's result in Parquet files and load these";

/// A plan that scans, filters and projects Parquet files, and the row groups that it reads.
pub(super) struct Scan {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    files: Vec<PartitionedFile>,
    /// Of each row group: its file, and its number there.
    groups: Vec<(usize, usize)>,
    /// How many row groups each file has.
    groups_in: Vec<usize>,
    /// How many rows each row group has.
    pub(super) rows: Vec<u64>,
    /// Whether not all of them come.
    pub(super) filtered: bool,
}

impl Scan {
    /// Refuses plans of other kinds.
    ///
    /// # Errors
    ///
    /// An [option](Error::is_option) error that names the node.
    pub(super) fn ensure_fits(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        ensure_row_by_row(plan)?;
        let (config, _) = parquet(leaf_of(plan))?;
        let in_parts = |file: &&PartitionedFile| {
            let chosen = file.extension::<ParquetAccessPlan>().is_some();
            file.range.is_some() || chosen || file.extension::<ParquetRowSelection>().is_some()
        };
        match config.file_groups.iter().flat_map(FileGroup::iter).find(in_parts) {
            None => Ok(()),
            Some(file) => {
                let message =
                    format!("the table reads parts of {} alone, so its row groups can't be chosen", file.path());
                Err(Error::option(message).remedy(REMEDY))
            }
        }
    }

    /// Reads the end of each file, unless the session remembers it. Files are in the plan's order, or in that of their
    /// names (`by_name`).
    ///
    /// # Errors
    ///
    /// What [`ensure_fits`](Self::ensure_fits) says; an [engine](Error::is_engine) error for files that can't be read.
    pub(super) async fn try_new(
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        by_name: bool,
    ) -> Result<Self> {
        Self::ensure_fits(&plan)?;
        let (config, source) = parquet(leaf_of(&plan))?;
        let filter = first_of(&plan, |node| (node.name() == "FilterExec").then_some(()))?;
        let filtered = source.filter().is_some() || filter.is_some();
        let mut files: Vec<_> = config.file_groups.iter().flat_map(FileGroup::iter).cloned().collect();
        if by_name {
            files.sort_by(|left, right| left.path().cmp(right.path()));
        }

        let factory: Arc<dyn ParquetFileReaderFactory> = match source.parquet_file_reader_factory() {
            Some(factory) => Arc::clone(factory),
            None => {
                let store = context.runtime_env().object_store(&config.object_store_url)?;
                Arc::new(DefaultParquetFileReaderFactory::new(store))
            }
        };
        let footers = stream::iter(files.clone()).map(|file| row_counts(Arc::clone(&factory), file));
        let counts: Vec<Vec<u64>> = footers.buffered(FOOTERS_AT_A_TIME).try_collect().await?;
        let groups = counts.iter().enumerate().flat_map(|(file, rows)| (0..rows.len()).map(move |group| (file, group)));
        let groups_in = counts.iter().map(Vec::len).collect();
        Ok(Scan { groups: groups.collect(), groups_in, rows: counts.concat(), plan, context, files, filtered })
    }

    /// A part's segments one after the other; `threads` are read at a time.
    pub(super) fn read(self, part: Part, threads: usize) -> Result<Opened> {
        let total = (!self.filtered).then(|| part.rows().saturating_add(part.before));
        let Part { segments, first, row, skip, before, layout } = part;
        let count = segments.len();
        let opened = |chunks, bytes_read| Opened { chunks, dealt: true, before, total, layout, bytes_read };
        if count == 0 {
            return Ok(opened(stream::empty().boxed(), Box::new(|| 0)));
        }
        let groups = segments.iter().map(|segment| self.file_group(segment)).collect();
        let plan = with_file_groups(Arc::clone(&self.plan), groups)?;
        let running = Running {
            plan: Arc::clone(&plan),
            context: self.context,
            tasks: VecDeque::new(),
            started: 0,
            count,
            threads: threads.max(1),
            place: Place { piece: first, row: row.saturating_sub(skip) },
            skip,
        };
        let chunks = stream::try_unfold(running, Running::next).boxed();
        Ok(opened(chunks, Box::new(move || bytes_scanned(&plan))))
    }

    /// A file group of one segment.
    fn file_group(&self, segment: &Segment) -> FileGroup {
        let (file, group) = self.groups[segment.piece];
        let mut access = ParquetAccessPlan::new_none(self.groups_in[file]);
        let total = self.rows[segment.piece];
        access.set(group, access_to(segment, total));
        // What is known of the whole file isn't true of a part of it.
        let file = PartitionedFile { statistics: None, ordering: None, ..self.files[file].clone() };
        FileGroup::new(vec![file.with_extension(access)])
    }
}

fn access_to(segment: &Segment, total: u64) -> RowGroupAccess {
    if segment.rows == (0..total) {
        return RowGroupAccess::Scan;
    }
    let rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    let selectors = [
        RowSelector::skip(rows(segment.rows.start)),
        RowSelector::select(rows(segment.rows.end - segment.rows.start)),
        RowSelector::skip(rows(total - segment.rows.end)),
    ];
    let selectors: Vec<_> = selectors.into_iter().filter(|selector| selector.row_count > 0).collect();
    RowGroupAccess::Selection(RowSelection::from(selectors))
}

fn ensure_row_by_row(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let refused = first_of(plan, |node| match node.name() {
        name if !ROW_BY_ROW.contains(&name) => Some(format!("`{name}` is no scan, filter or projection")),
        name if node.fetch().is_some() => Some(format!("`{name}` has a LIMIT")),
        _ => None,
    })?;
    match refused {
        Some(what) => {
            let message =
                format!("{what}, and only these can be computed row group by row group, in `Order::streamed`");
            Err(Error::option(message).remedy(REMEDY))
        }
        None => Ok(()),
    }
}

/// The leaf of a plan whose nodes have one child each.
fn leaf_of(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    let mut node = plan;
    while let Some(child) = node.children().first() {
        node = child;
    }
    node
}

fn parquet(leaf: &Arc<dyn ExecutionPlan>) -> Result<(&FileScanConfig, &ParquetSource)> {
    let scan = leaf.downcast_ref::<DataSourceExec>();
    let scan = scan.and_then(|scan| scan.downcast_to_file_source::<ParquetSource>());
    scan.ok_or_else(|| {
        let message =
            format!("`{}` reads no Parquet files, which have the row groups of `Order::streamed`", leaf.name());
        Error::option(message).remedy(REMEDY)
    })
}

/// How many rows the row groups of a file have.
async fn row_counts(factory: Arc<dyn ParquetFileReaderFactory>, file: PartitionedFile) -> Result<Vec<u64>> {
    let hint = file.metadata_size_hint;
    let mut reader = factory.create_reader(0, file, hint, &ExecutionPlanMetricsSet::new())?;
    let metadata = reader.get_metadata(None).await.map_err(DataFusionError::from)?;
    Ok(metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).collect())
}

/// The plan with other files, one partition for each group, which keep to theirs.
fn with_file_groups(plan: Arc<dyn ExecutionPlan>, groups: Vec<FileGroup>) -> Result<Arc<dyn ExecutionPlan>> {
    let rewritten = plan.transform_up(|node| {
        let Some(config) = node.downcast_ref::<DataSourceExec>() else { return Ok(Transformed::no(node)) };
        let Some(config) = config.data_source().downcast_ref::<FileScanConfig>() else {
            return Ok(Transformed::no(node));
        };
        let config = FileScanConfigBuilder::from(config.clone())
            .with_file_groups(groups.clone())
            .with_output_ordering(Vec::new())
            .with_output_partitioning(None)
            // Else whichever partition is idle takes the next file of all.
            .with_preserve_order(true)
            .build();
        Ok(Transformed::yes(DataSourceExec::from_data_source(config) as Arc<dyn ExecutionPlan>))
    })?;
    Ok(rewritten.data)
}

/// Bytes that the scans of a plan have read.
pub(super) fn bytes_scanned(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name("bytes_scanned"));
    let own = own.map_or(0, |bytes| bytes.as_usize() as u64);
    own + plan.children().into_iter().map(bytes_scanned).sum::<u64>()
}

type Sent = Result<arrow::array::RecordBatch, DataFusionError>;

/// Partitions of a plan that are computed ahead, of which one after the other is given.
struct Running {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    tasks: VecDeque<(mpsc::Receiver<Sent>, SpawnedTask<()>)>,
    started: usize,
    count: usize,
    threads: usize,
    /// Of the next row.
    place: Place,
    /// Rows of the first partition that are still to be left out.
    skip: u64,
}

impl Running {
    async fn next(mut self) -> Result<Option<(Chunk, Running)>> {
        loop {
            while self.tasks.len() < self.threads && self.started < self.count {
                self.start()?;
            }
            let Some((receiver, _)) = self.tasks.front_mut() else { return Ok(None) };
            match receiver.recv().await {
                Some(rows) => {
                    let rows = rows?;
                    let (count, place) = (rows.num_rows() as u64, self.place);
                    let skipped = self.skip.min(count);
                    self.skip -= skipped;
                    self.place.row += count;
                    let rows = rows.slice(skipped as usize, (count - skipped) as usize);
                    let place = Place { row: place.row + skipped, ..place };
                    return Ok(Some((Chunk { rows, place }, self)));
                }
                None => {
                    // A task that panicked has sent no error of its own.
                    if let Some((_, task)) = self.tasks.pop_front() {
                        task.join().await.map_err(|error| match error.try_into_panic() {
                            Ok(panic) => Error::panicked(panic),
                            Err(error) => Error::engine(error),
                        })?;
                    }
                    self.place = Place { piece: self.place.piece + 1, row: 0 };
                    self.skip = 0;
                }
            }
        }
    }

    fn start(&mut self) -> Result<()> {
        let mut rows = self.plan.execute(self.started, Arc::clone(&self.context))?;
        let (sender, receiver) = mpsc::channel(AHEAD);
        let task = SpawnedTask::spawn(async move {
            while let Some(batch) = rows.next().await {
                let failed = batch.is_err();
                // After an error nothing more comes.
                if sender.send(batch).await.is_err() || failed {
                    return;
                }
            }
        });
        self.tasks.push_back((receiver, task));
        self.started += 1;
        Ok(())
    }
}
