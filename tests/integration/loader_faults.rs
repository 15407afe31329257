//! What goes wrong while batches are made: memory, files, functions, and loops that stop.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::Int64Array;
use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use tensorquery::{Batches, Error, Loader, Order, SessionStateBuilderExt};

use crate::loader::{ids, loader, numbers, write_numbers};
use crate::sql::context;

/// A session whose memory has an end.
fn session(bytes: usize) -> (SessionContext, Arc<dyn MemoryPool>) {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc().unwrap();
    let config = SessionConfig::new().with_target_partitions(2);
    let state = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    (SessionContext::new_with_state(state.with_tensordict().build()), pool)
}

async fn in_session(ctx: &SessionContext, path: &Path) -> Loader {
    ctx.register_parquet("numbers", path.to_str().unwrap(), Default::default()).await.unwrap();
    loader(ctx, "SELECT * FROM numbers").await
}

/// The rows before the error, and the error; nothing comes after it.
async fn fails(mut batches: Batches) -> (usize, Error) {
    let mut seen = 0;
    let error = loop {
        match batches.next().await.unwrap() {
            Ok(batch) => seen += ids(&batch).len(),
            Err(error) => break error,
        }
    };
    assert!(batches.next().await.is_none() && batches.next().await.is_none());
    assert_eq!(batches.state().rows(), seen as u64);
    (seen, error)
}

async fn is_given_back(pool: &Arc<dyn MemoryPool>) {
    for _ in 0..200 {
        if pool.reserved() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_loader_holds_is_charged_to_the_pool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_numbers(&path, 100_000);
    for order in [Order::AsStored, Order::streamed(1, 20_000)] {
        let (ctx, pool) = session(10_000_000);
        let loader = in_session(&ctx, &path).await.batch_size(1000).order(order.clone()).prefetch(3);
        let mut batches = loader.epoch(0).await.unwrap();
        // Three batches of 8000 bytes wait, and of the window what they leave.
        for _ in 0..500 {
            if batches.metrics().batches < 3 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let window = if order == Order::AsStored { 0 } else { 160_000 };
        let reserved = pool.reserved();
        assert!((24_000 + window..24_000 + 2 * window + 1_000_000).contains(&reserved), "{order:?} {reserved}");
        let first = batches.next().await.unwrap().unwrap();
        // Dropped in the middle, with a batch of its own still in use.
        drop(batches);
        is_given_back(&pool).await;
        assert_eq!(ids(&first).len(), 1000);
        let all: Vec<_> = loader.epoch(1).await.unwrap().collect().await;
        assert_eq!(all.len(), 100);
        is_given_back(&pool).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_without_room_is_an_error_that_says_for_whom() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_numbers(&path, 100_000);
    let (ctx, pool) = session(300_000);
    let files = in_session(&ctx, &path).await.batch_size(1000);
    // A window of 800 kB, and a batch of as much.
    let window = files.clone().order(Order::streamed(1, 100_000));
    let group = files.clone().order(Order::AsStored).batch_size(100_000);
    for loader in [window, group] {
        let (seen, error) = fails(loader.epoch(0).await.unwrap()).await;
        assert_eq!(seen, 0);
        assert!(error.is_engine() && error.to_string().contains("tensordict loader"), "{error}");
        is_given_back(&pool).await;
    }
    let fits = files.order(Order::streamed(1, 5000)).epoch(0).await.unwrap();
    assert_eq!(
        fits.map(|batch| ids(&batch.unwrap()).len()).fold(0, |sum, rows| async move { sum + rows }).await,
        100_000
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_row_groups_are_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_numbers(&path, 10_000);
    for threads in [1, 4] {
        let ctx = context(threads);
        let boom = |args: &[ColumnarValue]| {
            let ColumnarValue::Array(ids) = &args[0] else { panic!("no column") };
            assert!(!ids.as_any().downcast_ref::<Int64Array>().unwrap().values().contains(&7777), "boom");
            Ok(args[0].clone())
        };
        ctx.register_udf(create_udf(
            "boom",
            vec![DataType::Int64],
            DataType::Int64,
            Volatility::Immutable,
            Arc::new(boom),
        ));
        ctx.register_parquet("numbers", path.to_str().unwrap(), Default::default()).await.unwrap();
        let loader = loader(&ctx, "SELECT boom(id) AS id FROM numbers").await.batch_size(50);
        let (seen, error) = fails(loader.order(Order::streamed(3, 200)).epoch(0).await.unwrap()).await;
        assert!(error.to_string().contains("boom") && seen < 10_000, "{seen} {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_go_away_while_they_are_read_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for deleted in [false, true] {
        let path = folder.path().join("numbers.parquet");
        write_numbers(&path, 200_000);
        let loader = numbers(&path, 2).await.batch_size(500).order(Order::streamed(1, 1000)).prefetch(1);
        let mut batches = loader.epoch(0).await.unwrap();
        batches.next().await.unwrap().unwrap();
        match deleted {
            true => std::fs::remove_file(&path).unwrap(),
            false => std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap(),
        }
        let rest: Vec<_> = batches.collect().await;
        assert!(rest.last().unwrap().as_ref().unwrap_err().is_engine());
        assert!(rest.len() < 399 && rest.iter().filter(|batch| batch.is_err()).count() == 1);
        let error = loader.epoch(1).await.unwrap_err();
        assert!(error.is_engine(), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_stops_ends_the_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_numbers(&path, 300_000);
    let loader = numbers(&path, 4).await.batch_size(100).order(Order::streamed(1, 1000)).prefetch(2);
    let mut batches = loader.epoch(0).await.unwrap();
    batches.next().await.unwrap().unwrap();
    // A slow loop: no more is read than fits ahead of it.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let read = batches.metrics().bytes_read;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(batches.metrics().bytes_read, read);
    assert_eq!(batches.metrics().batches, 3);
    let all: Vec<_> = loader.epoch(0).await.unwrap().collect().await;
    assert_eq!(all.len(), 3000);
    // Dropped while a thread waits for it in the iterator's runtime.
    let mut blocking = tokio::task::spawn_blocking(move || {
        let mut blocking = loader.epoch_blocking(0).unwrap();
        let first = blocking.next().unwrap().unwrap();
        drop(blocking);
        ids(&first).len()
    });
    assert_eq!((&mut blocking).await.unwrap(), 100);
}
