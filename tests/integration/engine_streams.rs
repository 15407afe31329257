//! Streams and results under hostile conditions: panics, little memory, drops, odd batch sizes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{StreamExt, TryStreamExt};
use tensorquery::{DataFrameExt, Nulls, Options, SessionStateBuilderExt, TensorDict};

use crate::sql::{context, register_rows};

fn masked() -> Options {
    Options::default().nulls(Nulls::Mask)
}

fn register_boom(ctx: &SessionContext) {
    let boom = |_: &[ColumnarValue]| -> datafusion::error::Result<ColumnarValue> { panic!("boom") };
    let returns = DataType::Int64;
    ctx.register_udf(create_udf("boom", vec![DataType::Int64], returns, Volatility::Volatile, Arc::new(boom)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_function_is_an_error() {
    for partitions in [1, 4] {
        let ctx = context(partitions);
        register_rows(&ctx);
        register_boom(&ctx);
        for sql in [
            "SELECT boom(id) AS b FROM rows",
            "SELECT boom(id) AS b FROM rows ORDER BY b",
            "SELECT sum(boom(id)) AS b FROM rows GROUP BY id % 3",
        ] {
            let result = ctx.sql(sql).await.unwrap().to_tensordict(&masked()).await;
            assert!(result.unwrap_err().is_engine(), "{sql}");
            let stream = ctx.sql(sql).await.unwrap().tensordict_stream(&masked()).await.unwrap();
            let mut stream = stream.with_batch_size(10);
            assert!(stream.next().await.unwrap().unwrap_err().is_engine(), "{sql}");
            assert!(stream.next().await.is_none());
            assert!(stream.next().await.is_none());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_size_midway_loses_no_row() {
    let rows = context(1).sql("SELECT value AS id FROM generate_series(0, 99)").await.unwrap();
    let mut stream = rows.tensordict_stream(&masked()).await.unwrap();
    let mut seen: Vec<Vec<i64>> = Vec::new();
    for size in [10, 30, 4, 50, 50] {
        stream = stream.with_batch_size(size);
        seen.push(Vec::try_from(stream.next().await.unwrap().unwrap().tensor("id").unwrap()).unwrap());
    }
    assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [10, 30, 4, 50, 6]);
    assert_eq!(seen.concat(), (0..100).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn little_memory_is_an_error_and_all_is_given_back() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(20_000));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc().unwrap();
    let config = SessionConfig::new().with_target_partitions(2);
    let state = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    let ctx = SessionContext::new_with_state(state.with_tensordict().build());
    register_rows(&ctx);
    let error = ctx.sql("SELECT * FROM rows").await.unwrap().to_tensordict(&masked()).await.unwrap_err();
    assert!(error.to_string().contains("tensordict result"), "{error}");
    assert_eq!(pool.reserved(), 0);
    let dict = ctx.sql("SELECT id FROM rows").await.unwrap().to_tensordict(&masked()).await.unwrap();
    assert_eq!((dict.batch_size(), pool.reserved()), (vec![1000], 0));
    // A stream needs no more than its batches.
    let frame = ctx.sql("SELECT * FROM rows").await.unwrap();
    let mut stream = frame.tensordict_stream(&masked()).await.unwrap().with_batch_size(7);
    assert_eq!(stream.next().await.unwrap().unwrap().batch_size(), [7]);
    drop(stream);
    assert_eq!(pool.reserved(), 0);
}

/// Rows of batches of odd sizes, with an empty one between.
fn register_odd(ctx: &SessionContext) {
    let sizes = [3, 0, 1, 7, 2, 0, 13, 1];
    let mut start = 0;
    let batches: Vec<RecordBatch> = sizes
        .map(|size| {
            let ids: Vec<i64> = (start..start + size).collect();
            start += size;
            let s: StringArray = ids.iter().map(|id| (id % 4 != 1).then(|| "é".repeat(*id as usize))).collect();
            let lists = ids.iter().map(|id| (id % 3 != 1).then(|| vec![Some(*id as i32); (*id % 5) as usize]));
            let l = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
            RecordBatch::try_from_iter_with_nullable([
                ("id", Arc::new(Int64Array::from(ids)) as ArrayRef, false),
                ("s", Arc::new(s), true),
                ("l", Arc::new(l), true),
            ])
            .unwrap()
        })
        .to_vec();
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    ctx.register_table("odd", Arc::new(table)).unwrap();
}

#[tokio::test]
async fn batches_of_any_size_hold_the_same_rows() {
    let ctx = context(1);
    register_odd(&ctx);
    let frame = ctx.sql("SELECT * FROM odd").await.unwrap();
    let whole = frame.clone().to_tensordict(&masked()).await.unwrap();
    for size in [0, 1, 2, 3, 5, 8, 26, 27, 28, usize::MAX] {
        let stream = frame.clone().tensordict_stream(&masked()).await.unwrap().with_batch_size(size);
        let dicts: Vec<TensorDict> = stream.try_collect().await.unwrap();
        assert_eq!(dicts.len(), 27_usize.div_ceil(size.clamp(1, 27)));
        let mut start = 0;
        for dict in dicts {
            let stop = start + dict.batch_size()[0];
            let rows = whole.index(start..stop).unwrap();
            assert_eq!(crate::conformance::json(&dict), crate::conformance::json(&rows), "{size}");
            start = stop;
        }
        assert_eq!(start, 27);
    }
}

#[tokio::test]
async fn streams_are_independent_and_stay_ended() {
    let ctx = context(1);
    register_odd(&ctx);
    let frame = ctx.sql("SELECT id FROM odd").await.unwrap();
    let mut one = frame.clone().tensordict_stream(&masked()).await.unwrap().with_batch_size(4);
    let mut two = frame.tensordict_stream(&masked()).await.unwrap().with_batch_size(4);
    for start in (0..24).step_by(4) {
        for stream in [&mut one, &mut two] {
            let dict = stream.next().await.unwrap().unwrap();
            let ids = Vec::<i64>::try_from(dict.tensor("id").unwrap()).unwrap();
            assert_eq!(ids, (start..start + 4).collect::<Vec<_>>());
            // A slow consumer finds its rows where they were.
            tokio::task::yield_now().await;
        }
    }
    drop(two);
    assert_eq!(one.next().await.unwrap().unwrap().batch_size(), [3]);
    assert!(one.next().await.is_none());
    assert!(one.next().await.is_none());
}

#[tokio::test]
async fn an_error_in_the_middle_ends_the_stream() {
    let ctx = context(1);
    register_odd(&ctx);
    let sql = "SELECT 10 / (id - 12) AS d FROM odd";
    let stream = ctx.sql(sql).await.unwrap().tensordict_stream(&masked()).await.unwrap();
    let results: Vec<_> = stream.collect().await;
    assert!(results.len() > 1 && results[..results.len() - 1].iter().all(Result::is_ok));
    assert!(results.last().unwrap().as_ref().unwrap_err().to_string().contains("Divide by zero"));
}

#[test]
fn any_runtime_will_do() {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let ctx = context(4);
            register_rows(&ctx);
            let frame = ctx.sql("SELECT id FROM rows ORDER BY id").await.unwrap();
            let whole = frame.clone().to_tensordict(&masked()).await.unwrap();
            let stream = frame.tensordict_stream(&masked()).await.unwrap().with_batch_size(300);
            let dicts: Vec<TensorDict> = stream.try_collect().await.unwrap();
            (whole.batch_size().to_vec(), dicts.len())
        })
    };
    assert_eq!(work(), (vec![1000], 4));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    assert_eq!(runtime.block_on(async { tokio::task::spawn_blocking(work).await.unwrap() }), (vec![1000], 4));
    runtime.block_on(async {
        let blocking = tokio::task::spawn_blocking(|| {
            tokio::runtime::Handle::current().block_on(async {
                let ctx = context(4);
                register_rows(&ctx);
                let frame = ctx.sql("SELECT id FROM rows").await.unwrap();
                frame.to_tensordict(&masked()).await.unwrap().batch_size().to_vec()
            })
        });
        assert_eq!(blocking.await.unwrap(), [1000]);
    });
}

#[tokio::test]
async fn keys_do_not_depend_on_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let ctx = context(1);
    for (name, rows) in [("a", "(1, 'x'), (2, 'y')"), ("b", "(NULL, NULL), (NULL, NULL)")] {
        let sql = format!(
            "COPY (SELECT CAST(i AS BIGINT) AS i, CASE WHEN s IS NULL THEN NULL ELSE make_array(s) END AS l
             FROM (VALUES {rows}) AS t(i, s)) TO '{path}/{name}.parquet' STORED AS PARQUET"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    let sql = format!("CREATE EXTERNAL TABLE t(i BIGINT, l VARCHAR[]) STORED AS PARQUET LOCATION '{path}/'");
    ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    let frame = ctx.sql("SELECT * FROM t").await.unwrap();
    let stream = frame.tensordict_stream(&masked()).await.unwrap().with_batch_size(2);
    let dicts: Vec<TensorDict> = stream.try_collect().await.unwrap();
    assert_eq!(dicts.len(), 2);
    let mut masks = Vec::new();
    for dict in &dicts {
        assert_eq!(dict.keys().collect::<Vec<_>>(), ["i", "l", "_mask"]);
        masks.push(Vec::<bool>::try_from(dict.tensor(["_mask", "i"]).unwrap()).unwrap());
        assert_eq!(masks.last().unwrap(), &Vec::<bool>::try_from(dict.tensor(["_mask", "l"]).unwrap()).unwrap());
    }
    masks.sort();
    assert_eq!(masks, [[false, false], [true, true]]);
}

#[tokio::test]
async fn a_row_kept_from_a_large_batch_is_small() {
    let ctx = context(1);
    let rows = 1_000_000;
    let table =
        RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)]).unwrap();
    ctx.register_batch("t", table).unwrap();
    let dict = ctx.sql("SELECT x + 1 AS x, CAST(x AS VARCHAR) AS s FROM t LIMIT 1").await.unwrap();
    let dict = dict.to_tensordict(&masked()).await.unwrap();
    assert!(dict.tensor("x").unwrap().numel() == 1);
    let bytes = dict.non_tensor("s").unwrap().values().get_array_memory_size();
    assert!(bytes < 100_000, "{bytes}");
}

/// An optimizer may find that a nullable column has no nulls; keys are those that were announced.
#[tokio::test]
async fn masks_do_not_depend_on_the_optimizer() {
    let ctx = context(2);
    register_rows(&ctx);
    for (query, masks) in [
        ("SELECT nullif(1, 0) AS a, nullif(id, 3) AS b FROM rows", vec!["a", "b"]),
        ("SELECT b.id AS a FROM rows r LEFT JOIN rows b ON r.id = b.id WHERE b.id > 3", vec!["a"]),
        ("SELECT coalesce(x, 1) AS a, CASE WHEN true THEN id ELSE NULL END AS b FROM rows", vec!["b"]),
    ] {
        let sql = format!("SELECT * FROM tensordict(({query}), nulls => 'mask')");
        let dict = ctx.sql(&sql).await.unwrap().to_tensordict(&Options::default()).await.unwrap();
        assert_eq!(dict.dict("_mask").unwrap().keys().collect::<Vec<_>>(), masks, "{query}");
        let stream = ctx.sql(query).await.unwrap().tensordict_stream(&masked()).await.unwrap();
        let mask = stream.schema().find(&"_mask".into()).unwrap();
        assert_eq!(mask.entries().iter().map(|entry| entry.field().name()).collect::<Vec<_>>(), masks, "{query}");
        // Named by the outer query, where the optimizer prunes and joins again.
        let sql = format!("SELECT _mask['{}'] AS m FROM tensordict(({query}), nulls => 'mask') LIMIT 1", masks[0]);
        let dict = ctx.sql(&sql).await.unwrap().to_tensordict(&Options::default()).await.unwrap();
        assert_eq!(Vec::<bool>::try_from(dict.tensor("m").unwrap()).unwrap(), [true], "{query}");
    }
}
