//! The operator.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::ProjectionMapping;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions, replace_children_if_necessary,
};
use datafusion::physical_plan::filter_pushdown::{ChildFilterDescription, FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::projection::{ProjectionExec, all_alias_free_columns, make_with_child};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{Stream, StreamExt};

use crate::error::Error;
use crate::nulls;
use crate::options::{MaskKeys, Options};
use crate::schema::{EntrySpec, TensorDictSchema};

/// Rules on nulls, batch by batch: refuses, fills or masks them as the options say.
///
/// It keeps its input's columns in their places, its order and its partitioning, and appends the masks
/// as one struct column:
///
/// ```text
/// TensorizeExec: nulls=mask, columns=[id: int64 [n], tokens: int32 [n, *]]      id, tokens, _mask
///   DataSourceExec: …                                                           id, tokens
/// ```
#[derive(Clone, Debug)]
pub(super) struct TensorizeExec {
    input: Arc<dyn ExecutionPlan>,
    options: Arc<Options>,
    resolved: Arc<TensorDictSchema>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl TensorizeExec {
    /// # Errors
    ///
    /// What [`TensorDictSchema::resolve_static`] says of the input's schema and the options.
    pub(super) fn try_new(input: Arc<dyn ExecutionPlan>, options: Arc<Options>) -> Result<Self> {
        let schema = input.schema();
        let resolved = TensorDictSchema::resolve_static(&schema, &options)?;
        let output = Arc::new(resolved.output_schema(&schema));
        let unchanged = resolved.entries().iter().enumerate().filter(|(_, entry)| entry.keeps_values());
        let mapping: ProjectionMapping = unchanged
            .map(|(index, entry)| {
                let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(entry.field().name(), index));
                (Arc::clone(&column), vec![(column, index)].into())
            })
            .collect();
        let equivalences = input.equivalence_properties().project(&mapping, output);
        let partitioning = input.output_partitioning().project(&mapping, input.equivalence_properties());
        let properties =
            PlanProperties::new(equivalences, partitioning, input.pipeline_behavior(), input.boundedness());
        Ok(TensorizeExec {
            input,
            options,
            resolved: Arc::new(resolved),
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
        })
    }

    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub(super) fn options(&self) -> &Arc<Options> {
        &self.options
    }

    /// Whether the operator would hand each batch on as it is.
    pub(super) fn is_idle(&self) -> bool {
        self.resolved.entries().iter().all(EntrySpec::needs_no_ruling) && self.resolved.mask_field().is_none()
    }

    /// The entry behind an output column, unless that is the masks.
    fn entry_of(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<&EntrySpec> {
        let column = expr.downcast_ref::<Column>()?;
        self.resolved.entries().get(column.index())
    }

    /// Whether rows keep these sort keys.
    pub(super) fn keeps_sort_keys<'a>(&self, mut order: impl Iterator<Item = &'a PhysicalSortExpr>) -> bool {
        order.all(|key| self.entry_of(&key.expr).is_some_and(EntrySpec::keeps_values))
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        replace_children_if_necessary(Arc::new(self.clone()), vec![input])
    }
}

impl DisplayAs for TensorizeExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let describe = |entry: &EntrySpec| match entry.dtype() {
            Some(dtype) => format!("{}: {dtype} {}", entry.field().name(), entry.shape()),
            None => format!("{}: {}", entry.field().name(), entry.kind()),
        };
        let entries = self.resolved.entries();
        match format {
            DisplayFormatType::Default => {
                let columns: Vec<_> = entries.iter().map(describe).collect();
                write!(f, "TensorizeExec: {}, columns=[{}]", self.options, columns.join(", "))
            }
            DisplayFormatType::Verbose => {
                let columns = entries.iter().map(|entry| {
                    let fate = if entry.is_untouched() { "passes" } else { "checked" };
                    let fate = if entry.keeps_values() { fate } else { "filled" };
                    let mask = if self.resolved.has_masks(entry) { ", masked" } else { "" };
                    format!("{} ({fate}{mask})", describe(entry))
                });
                let columns: Vec<_> = columns.collect();
                write!(f, "TensorizeExec: {}, columns=[{}]", self.options, columns.join(", "))
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "{}", self.options)?;
                entries.iter().try_for_each(|entry| writeln!(f, "{}", describe(entry).replacen(": ", "=", 1)))
            }
        }
    }
}

impl ExecutionPlan for TensorizeExec {
    fn name(&self) -> &'static str {
        "TensorizeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// Rows always keep their order. But the engine takes a `true` as leave to sort below by any column,
    /// and a column that is filled has another order there.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.resolved.entries().iter().all(EntrySpec::keeps_values)]
    }

    /// A sorted single stream below must not be dealt out to several.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != 1 {
            return datafusion::common::internal_err!("TensorizeExec has one child, got {}", children.len());
        }
        let input = children.swap_remove(0);
        match options.children_properties {
            ChildrenPropertiesMode::Keep => {
                let metrics = ExecutionPlanMetricsSet::new();
                Ok(Arc::new(TensorizeExec { input, metrics, ..Self::clone(&self) }))
            }
            ChildrenPropertiesMode::Recompute => {
                Ok(Arc::new(TensorizeExec::try_new(input, Arc::clone(&self.options))?))
            }
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(TensorizeStream {
            input: self.input.execute(partition, context)?,
            resolved: Arc::clone(&self.resolved),
            schema: self.schema(),
            alone: self.input.output_partitioning().partition_count() == 1,
            rows: 0,
            baseline: BaselineMetrics::new(&self.metrics, partition),
            fill_time: MetricBuilder::new(&self.metrics).subset_time("fill_time", partition),
            nulls_filled: MetricBuilder::new(&self.metrics).counter("nulls_filled", partition),
            bytes_copied: MetricBuilder::new(&self.metrics).counter("bytes_copied", partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::clone(&inputs[0]);
        for (column, entry) in statistics.column_statistics.iter_mut().zip(self.resolved.entries()) {
            if !entry.keeps_values() {
                *column = ColumnStatistics { null_count: Precision::Exact(0), ..ColumnStatistics::new_unknown() };
            } else if !entry.is_untouched() {
                column.null_count = Precision::Exact(0);
            }
        }
        if self.resolved.mask_field().is_some() {
            statistics.column_statistics.push(ColumnStatistics::new_unknown());
            statistics.total_byte_size = statistics.total_byte_size.to_inexact();
        }
        Ok(Arc::new(statistics))
    }

    /// What `raise` refuses is checked on the rows that are delivered.
    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    /// A projection that drops or reorders columns moves below, if it drops the masks.
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let columns = self.resolved.entries().len();
        let below =
            |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().is_some_and(|column| column.index() < columns);
        let narrows = projection.expr().len() < self.schema().fields().len();
        if !narrows || !all_alias_free_columns(projection.expr()) || !projection.expr().iter().all(|e| below(&e.expr)) {
            return Ok(None);
        }
        let input = make_with_child(projection, &self.input)?;
        let schema = input.schema();
        let options = self.options.restricted_to(|name| schema.index_of(name).is_ok());
        let options = options.mask_keys(MaskKeys::Columns(vec![])).without_idle_masks(|_| false);
        Ok(Some(Arc::new(TensorizeExec::try_new(input, Arc::new(options))?)))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let untouched = self.resolved.entries().iter().enumerate().filter(|(_, entry)| entry.is_untouched());
        let allowed: HashSet<usize> = untouched.map(|(index, _)| index).collect();
        let child = ChildFilterDescription::from_child_with_allowed_indices(&parent_filters, allowed, &self.input)?;
        Ok(FilterDescription::new().with_child(child))
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        if !self.keeps_sort_keys(order.iter()) {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        Ok(match self.input.try_pushdown_sort(order)? {
            SortOrderPushdownResult::Exact { inner } => {
                SortOrderPushdownResult::Exact { inner: self.with_input(inner)? }
            }
            SortOrderPushdownResult::Inexact { inner } => {
                SortOrderPushdownResult::Inexact { inner: self.with_input(inner)? }
            }
            SortOrderPushdownResult::Unsupported => SortOrderPushdownResult::Unsupported,
        })
    }
}

/// One partition's batches. Dropping it drops its input; nothing runs beside it.
struct TensorizeStream {
    input: SendableRecordBatchStream,
    resolved: Arc<TensorDictSchema>,
    schema: SchemaRef,
    /// Whether there is no other partition.
    alone: bool,
    rows: usize,
    baseline: BaselineMetrics,
    fill_time: Time,
    nulls_filled: Count,
    bytes_copied: Count,
}

impl TensorizeStream {
    fn rule(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let _timer = self.fill_time.timer();
        let (_, columns, num_rows) = batch.into_parts();
        let ruled = nulls::rule(columns, &self.resolved).map_err(|error| match self.alone {
            true => error.after_rows(self.rows),
            false => nulls::in_some_batch(error),
        })?;
        self.rows += num_rows;
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (column, work) in ruled.columns {
            self.nulls_filled.add(work.filled);
            self.bytes_copied.add(work.bytes_copied);
            columns.push(column);
        }
        if let Some(field) = self.schema.fields().get(columns.len()) {
            columns.push(nulls::mask_column(ruled.masks, num_rows, field)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        Ok(batch.map_err(Error::from)?)
    }
}

impl Stream for TensorizeStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.input.poll_next_unpin(cx));
        let elapsed = self.baseline.elapsed_compute().clone();
        let timer = elapsed.timer();
        let ruled = next.map(|batch| batch.and_then(|batch| self.rule(batch)));
        timer.done();
        self.baseline.record_poll(Poll::Ready(ruled))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.size_hint()
    }
}

impl RecordBatchStream for TensorizeStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
