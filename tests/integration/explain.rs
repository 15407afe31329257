//! Where the operator sits in plans, and what it says of itself there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};
use tensorquery::{DataFrameExt, Nulls, Options, tensorize};

use crate::sql::{context, register_rows};

async fn explain(ctx: &SessionContext, sql: &str) -> String {
    let frame = ctx.sql(sql).await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    displayable(plan.as_ref()).indent(false).to_string()
}

#[tokio::test]
async fn the_operator_shows_its_options_and_columns() {
    let ctx = context(2);
    register_rows(&ctx);
    let sql = "SELECT * FROM tensordict((SELECT * FROM rows), nulls => 'mask', mask_key => 'm')";
    assert_eq!(explain(&ctx, sql).await.to_string(), "TensorizeExec: nulls=mask, mask_key='m', columns=[id: int64 [n], x: float64 [n], l: int32 [n, *], s: non_tensor, st: dict]
  DataSourceExec: partitions=8, partition_sizes=[5, 5, 5, 5, 5, 5, 5, 5]
");
    let plan = ctx.sql(sql).await.unwrap().into_optimized_plan().unwrap();
    assert_eq!(
        plan.display_indent().to_string(),
        "Tensorize: nulls=mask, mask_key='m'
  TableScan: rows projection=[id, x, l, s, st]"
    );
    let tree = ctx.sql(&format!("EXPLAIN FORMAT TREE {sql}")).await.unwrap().collect().await.unwrap();
    let tree = arrow::util::pretty::pretty_format_batches(&tree).unwrap().to_string();
    assert!(tree.contains("mask, mask_key='m'") && tree.contains("l: int32 [n, *]"), "{tree}");
    let verbose = ctx.sql(&format!("EXPLAIN VERBOSE {sql}")).await.unwrap().collect().await.unwrap();
    let verbose = arrow::util::pretty::pretty_format_batches(&verbose).unwrap().to_string();
    assert!(verbose.contains("(filled, masked)"), "{verbose}");
}

#[tokio::test]
async fn projections_and_limits_pass() {
    let ctx = context(2);
    register_rows(&ctx);
    let sql = "SELECT x FROM tensordict((SELECT * FROM rows), nulls => 'mask') LIMIT 3";
    assert_eq!(
        explain(&ctx, sql).await.to_string(),
        "TensorizeExec: nulls=mask, mask_keys=[], columns=[x: float64 [n]]
  CoalescePartitionsExec: fetch=3
    DataSourceExec: partitions=8, partition_sizes=[5, 5, 5, 5, 5, 5, 5, 5], fetch=3
"
    );
}

#[tokio::test]
async fn filters_pass_where_the_values_are_the_same_below() {
    let ctx = context(2);
    register_rows(&ctx);
    let sql = "SELECT x FROM tensordict((SELECT * FROM rows), nulls => 'fill') WHERE id > 5 AND x > 1";
    assert_eq!(
        explain(&ctx, sql).await.to_string(),
        "FilterExec: x@0 > 1
  TensorizeExec: nulls=fill, columns=[x: float64 [n]]
    FilterExec: id@0 > 5, projection=[x@1]
      DataSourceExec: partitions=8, partition_sizes=[5, 5, 5, 5, 5, 5, 5, 5]
"
    );
}

#[tokio::test]
async fn the_operator_sits_below_merges() {
    let ctx = context(8);
    register_rows(&ctx);
    let frame = ctx.sql("SELECT id, x FROM rows ORDER BY id").await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let options = Options::default().nulls(Nulls::Fill);
    let tensorized = tensorize(Arc::clone(&plan), &options).unwrap();
    assert_eq!(
        displayable(tensorized.as_ref()).indent(false).to_string(),
        "SortPreservingMergeExec: [id@0 ASC NULLS LAST]
  TensorizeExec: nulls=fill, columns=[id: int64 [n], x: float64 [n]]
    SortExec: expr=[id@0 ASC NULLS LAST], preserve_partitioning=[true]
      DataSourceExec: partitions=8, partition_sizes=[5, 5, 5, 5, 5, 5, 5, 5]
"
    );
    // Above one with a limit, which drops rows that nobody asked about.
    let frame = ctx.sql("SELECT id, x FROM rows ORDER BY id LIMIT 7").await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let tensorized = tensorize(plan, &options).unwrap();
    assert_eq!(
        displayable(tensorized.as_ref()).indent(false).to_string(),
        "TensorizeExec: nulls=fill, columns=[id: int64 [n], x: float64 [n]]
  SortPreservingMergeExec: [id@0 ASC NULLS LAST], fetch=7
    SortExec: TopK(fetch=7), expr=[id@0 ASC NULLS LAST], preserve_partitioning=[true]
      DataSourceExec: partitions=8, partition_sizes=[5, 5, 5, 5, 5, 5, 5, 5]
"
    );
    // Nothing to do, no operator.
    let plan = ctx.sql("SELECT id FROM rows").await.unwrap().create_physical_plan().await.unwrap();
    assert!(Arc::ptr_eq(&plan, &tensorize(Arc::clone(&plan), &options).unwrap()));
}

#[tokio::test]
async fn explain_analyze_counts() {
    let ctx = context(1);
    register_rows(&ctx);
    let sql = "EXPLAIN ANALYZE SELECT * FROM tensordict((SELECT x FROM rows), nulls => 'fill')";
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    // A registered table's buffers are shared, so that filling copies them: 1000 × 8 bytes.
    for metric in ["output_rows=1.00 K", "nulls_filled=200", "bytes_copied=8.00 K", "fill_time="] {
        assert!(text.contains(metric), "{metric}: {text}");
    }
}

/// Gives one batch and then nothing for ever; tells when it is dropped.
#[derive(Debug)]
struct Endless {
    schema: SchemaRef,
    dropped: Arc<AtomicBool>,
}

struct TellDrop(Arc<AtomicBool>);

impl Drop for TellDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl PartitionStream for Endless {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> datafusion::execution::SendableRecordBatchStream {
        let told = TellDrop(Arc::clone(&self.dropped));
        let array: Arc<dyn Array> = Arc::new(Int64Array::from(vec![Some(1), None]));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![array]).unwrap();
        let rest = stream::pending().map(move |batch| {
            let _told = &told;
            batch
        });
        let batches = stream::once(async { Ok(batch) }).chain(rest);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_stream_stops_the_query() {
    for sql in
        ["SELECT v FROM endless", "SELECT v FROM endless ORDER BY v", "SELECT v, count(*) AS n FROM endless GROUP BY v"]
    {
        let ctx = context(4);
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
        let dropped = Arc::new(AtomicBool::new(false));
        let endless = Endless { schema: Arc::clone(&schema), dropped: Arc::clone(&dropped) };
        let table = datafusion::catalog::streaming::StreamingTable::try_new(schema, vec![Arc::new(endless)]).unwrap();
        ctx.register_table("endless", Arc::new(table)).unwrap();
        let options = Options::default().nulls(Nulls::Fill);
        let frame = ctx.sql(sql).await.unwrap();
        let mut stream = frame.clone().tensordict_stream(&options).await.unwrap();
        let _ = tokio::time::timeout(Duration::from_millis(200), stream.next()).await;
        drop(stream);
        wait_for(&dropped, sql).await;
        // The same for a whole result whose future is dropped.
        dropped.store(false, Ordering::SeqCst);
        let _ = tokio::time::timeout(Duration::from_millis(200), frame.to_tensordict(&options)).await;
        wait_for(&dropped, sql).await;
        assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
    }
}

async fn wait_for(dropped: &AtomicBool, sql: &str) {
    for _ in 0..100 {
        if dropped.load(Ordering::SeqCst) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the source of {sql} still lives a second after the stream was dropped");
}
