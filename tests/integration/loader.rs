//! Batches for training: sizes, orders, shards, resuming, and what goes wrong meanwhile.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{StreamExt, TryStreamExt};
use proptest::prelude::*;
use tensorquery::{
    DataFrameExt, Error, Loader, LoaderState, Nulls, Options, Order, Remainder, SessionStateBuilderExt, TensorDict,
};

use crate::sql::{context, register_rows};

pub(crate) fn ids(batch: &TensorDict) -> Vec<i64> {
    Vec::try_from(batch.tensor("id").unwrap()).unwrap()
}

pub(crate) async fn loader(ctx: &SessionContext, sql: &str) -> Loader {
    ctx.sql(sql).await.unwrap().tensordict_loader(&Options::default().nulls(Nulls::Mask)).await.unwrap()
}

pub(crate) async fn rows(partitions: usize) -> Loader {
    let ctx = context(partitions);
    register_rows(&ctx);
    loader(&ctx, "SELECT * FROM rows").await
}

pub(crate) async fn epoch(loader: &Loader, epoch: u64) -> Vec<Vec<i64>> {
    let batches = loader.epoch(epoch).await.unwrap();
    batches.map_ok(|batch| ids(&batch)).try_collect().await.unwrap()
}

pub(crate) async fn refused(loader: Loader) -> Error {
    loader.epoch(0).await.unwrap_err()
}

fn shuffled() -> Order {
    Order::shuffled(7, ["id"])
}

/// Numbers from 0, in row groups of 100.
pub(crate) fn write_numbers(path: &std::path::Path, count: i64) {
    let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from_iter_values(0..count)) as ArrayRef)]);
    let batch = batch.unwrap();
    let properties = datafusion::parquet::file::properties::WriterProperties::builder();
    let properties = properties.set_max_row_group_row_count(Some(100)).build();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    // The writer recurs once per row group of what it is given.
    for start in (0..batch.num_rows()).step_by(1000) {
        writer.write(&batch.slice(start, 1000.min(batch.num_rows() - start))).unwrap();
    }
    writer.close().unwrap();
}

pub(crate) async fn numbers(path: &std::path::Path, partitions: usize) -> Loader {
    let ctx = context(partitions);
    ctx.register_parquet("numbers", path.to_str().unwrap(), Default::default()).await.unwrap();
    loader(&ctx, "SELECT * FROM numbers").await
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_exact_and_hold_all_rows() {
    for size in [1, 7, 256, 1000, 5000] {
        for drop_last in [false, true] {
            let loader = rows(4).await.batch_size(size).drop_last(drop_last);
            let batches = epoch(&loader, 0).await;
            let full = 1000 / size;
            let expected = if drop_last { full } else { 1000usize.div_ceil(size) };
            assert_eq!(batches.len(), expected, "{size} {drop_last}");
            assert!(batches[..full].iter().all(|batch| batch.len() == size));
            let mut all = batches.concat();
            all.sort_unstable();
            if !drop_last {
                assert_eq!(all, (0..1000).collect::<Vec<_>>());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_elements_keep_to_their_limit() {
    let loader = rows(2).await.batch_elements("l", 10).order(shuffled());
    let batches: Vec<TensorDict> = loader.epoch(0).await.unwrap().try_collect().await.unwrap();
    assert!(batches.iter().all(|batch| batch.jagged("l").unwrap().values().size()[0] <= 10));
    let mut all: Vec<i64> = batches.iter().flat_map(ids).collect();
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    for (column, word) in [("nope", "nope"), ("id", "lists")] {
        let error = refused(rows(2).await.batch_elements(column, 10)).await;
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shuffle_depends_on_seed_and_epoch_alone() {
    let reference = epoch(&rows(1).await.batch_size(32).order(shuffled()), 3).await;
    for partitions in [1, 2, 8] {
        assert_eq!(epoch(&rows(partitions).await.batch_size(32).order(shuffled()), 3).await, reference);
    }
    let mut all = reference.concat();
    assert_ne!(all, (0..1000).collect::<Vec<_>>());
    // No trace of the order that it came in: of 1000 rows, about as many stay as by chance, one.
    assert!(all.iter().enumerate().filter(|(place, id)| *place as i64 == **id).count() < 8);
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    let loader = rows(2).await.batch_size(32);
    assert_ne!(epoch(&loader.clone().order(shuffled()), 4).await, reference);
    assert_ne!(epoch(&loader.clone().order(Order::shuffled(8, ["id"])), 3).await, reference);
    // The same batches hold the columns beside the key, and no column of ours.
    let batch = loader.order(shuffled()).epoch(3).await.unwrap().next().await.unwrap().unwrap();
    let x = Vec::<f64>::try_from(batch.tensor("x").unwrap()).unwrap();
    for (id, x) in ids(&batch).into_iter().zip(x) {
        assert!(if id % 5 == 0 { x.is_nan() } else { x == id as f64 });
    }
    assert_eq!(batch.keys().count(), 6, "{batch}");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_cannot_be_kept_are_refused() {
    let ctx = context(4);
    register_rows(&ctx);
    for (sql, word) in [
        ("SELECT id, random() AS r FROM rows", "random"),
        ("SELECT id FROM rows LIMIT 10", "LIMIT"),
        ("SELECT id, row_number() OVER () AS n FROM rows", "window"),
        ("SELECT id, array_agg(x) AS l FROM rows GROUP BY id", "array_agg"),
        ("SELECT id, sum(x) AS s FROM rows GROUP BY id", "sum"),
        ("SELECT id FROM rows WHERE id IN (SELECT id FROM rows LIMIT 3)", "LIMIT"),
        ("SELECT x FROM rows", "id"),
        ("SELECT l AS id FROM rows", "told apart"),
    ] {
        let error = refused(loader(&ctx, sql).await.order(shuffled())).await;
        assert!(error.to_string().contains(word), "{sql}: {error}");
    }
    for (sql, word) in [
        ("SELECT * FROM rows", "partitions"),
        ("SELECT id, random() AS r FROM rows", "random"),
        ("SELECT id % 3 AS id, count(*) AS n FROM rows GROUP BY id % 3", "order"),
    ] {
        let error = refused(loader(&ctx, sql).await.order(Order::AsStored)).await;
        assert!(error.is_option() && error.to_string().contains(word), "{sql}: {error}");
    }
    let error = refused(rows(2).await.order(Order::shuffled(1, Vec::<String>::new()))).await;
    assert!(error.is_option(), "{error}");
    // What does not depend on the order is taken.
    let sql = "SELECT a.id, count(*) AS n FROM rows a JOIN rows b ON a.id = b.id GROUP BY a.id";
    assert_eq!(epoch(&loader(&ctx, sql).await.order(shuffled()), 0).await.concat().len(), 1000);
    // Rows that keys don't tell apart show when they come.
    let loader = loader(&ctx, "SELECT id % 10 AS id, x FROM rows").await.order(shuffled());
    let results: Vec<_> = loader.epoch(0).await.unwrap().collect().await;
    let error = results.last().unwrap().as_ref().unwrap_err();
    assert!(error.is_option() && error.to_string().contains("unique"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_stored_is_the_files_order_whatever_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_numbers(&path, 1000);
    for partitions in [1, 4] {
        let loader = numbers(&path, partitions).await.batch_size(64).order(Order::AsStored);
        assert_eq!(epoch(&loader, 0).await.concat(), (0..1000).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_goes_to_one_rank() {
    for world in [1u64, 3, 7, 1500] {
        let mut all = Vec::new();
        for rank in 0..world.min(8) {
            let shard = |remainder| async move {
                let loader = rows(4).await.order(shuffled()).batch_size(10).shard(rank, world, remainder);
                epoch(&loader, 1).await
            };
            all.extend(shard(Remainder::Keep).await.concat());
            let [dropped, padded] = [shard(Remainder::Drop).await, shard(Remainder::Pad).await];
            assert_eq!(dropped.concat().len() as u64, 1000 / world);
            assert_eq!(padded.concat().len() as u64, 1000u64.div_ceil(world));
        }
        let whole = epoch(&rows(1).await.order(shuffled()), 1).await.concat();
        if world <= 8 {
            assert_eq!(all.len(), 1000);
            all.sort_unstable();
            assert_eq!(all, (0..1000).collect::<Vec<_>>());
        } else {
            // Fewer rows than ranks: the first have one each.
            assert_eq!(all, whole[..8]);
        }
    }
    let pads = rows(2).await.order(shuffled()).shard(1400, 1500, Remainder::Pad);
    assert_eq!(epoch(&pads, 1).await.concat(), epoch(&rows(1).await.order(shuffled()), 1).await.concat()[..1]);
    let empty = rows(2).await.order(shuffled()).shard(1400, 1500, Remainder::Keep);
    assert!(epoch(&empty, 1).await.is_empty());
    for (rank, world) in [(0, 0), (3, 3), (u64::MAX, 1)] {
        let error = refused(rows(2).await.order(shuffled()).shard(rank, world, Remainder::Keep)).await;
        assert!(error.is_option() && error.to_string().contains("rank"), "{error}");
    }
    assert!(refused(rows(2).await.shard(0, 2, Remainder::Keep)).await.to_string().contains("Order::shuffled"));
    let elements = rows(2).await.order(shuffled()).batch_elements("l", 10);
    assert!(refused(elements.shard(0, 2, Remainder::Drop)).await.is_option());
}

/// An epoch by so many threads, stopped after each of these numbers of batches and gone on with by another loader.
pub(crate) async fn resumes_as_in_one_go(threads: usize, make: impl AsyncFn(usize) -> Loader, stops: Vec<usize>) {
    let loader = make(threads).await;
    let whole = epoch(&loader, 5).await;
    let mut seen = Vec::new();
    let mut batches = loader.epoch(5).await.unwrap();
    for stop in stops {
        for _ in 0..stop {
            seen.extend(batches.try_next().await.unwrap().map(|batch| ids(&batch)));
        }
        let state = LoaderState::from_json(&batches.state().to_string()).unwrap();
        assert_eq!(state, batches.state());
        assert_eq!((state.epoch(), state.batches()), (5, seen.len() as u64));
        drop(batches);
        batches = make(3).await.resume(&state).await.unwrap();
    }
    seen.extend(batches.map_ok(|batch| ids(&batch)).try_collect::<Vec<_>>().await.unwrap());
    assert_eq!(seen, whole);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Stopped anywhere, and again, an epoch is the same as in one go.
    #[test]
    fn resuming_gives_exactly_the_next_batch(
        stops in prop::collection::vec(0usize..12, 0..4),
        size in prop_oneof![1usize..400],
        elements in any::<bool>(),
        drop_last in any::<bool>(),
        world in 1u64..4,
        remainder in prop_oneof![Just(Remainder::Keep), Just(Remainder::Drop), Just(Remainder::Pad)],
        partitions in 1usize..4,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let make = |partitions| async move {
                let loader = rows(partitions).await.order(shuffled()).drop_last(drop_last);
                match elements {
                    true => loader.batch_elements("l", size).shard(world - 1, world, Remainder::Keep),
                    false => loader.batch_size(size).shard(world - 1, world, remainder),
                }
            };
            resumes_as_in_one_go(partitions, make, stops).await;
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn states_of_other_loaders_are_refused() {
    let loader = rows(2).await.order(shuffled());
    let state = loader.epoch(0).await.unwrap().state();
    for (other, word) in [
        (loader.clone().batch_size(3), "batch"),
        (loader.clone().order(Order::shuffled(8, ["id"])), "order"),
        (loader.clone().drop_last(true), "drop_last"),
        (loader.clone().shard(0, 2, Remainder::Keep), "shard"),
    ] {
        let error = other.resume(&state).await.unwrap_err();
        assert!(error.is_option() && error.to_string().contains(word), "{error}");
    }
    let unordered = rows(2).await;
    let state = unordered.epoch(0).await.unwrap().state();
    assert!(unordered.resume(&state).await.unwrap_err().is_option());
    let text = state.to_string();
    for text in ["", "{}", "[]", "3", "{\"version\":1}", &text.replace("\"version\":1", "\"version\":2"), &text[..40]] {
        assert!(LoaderState::from_json(text).unwrap_err().is_option(), "{text}");
    }
    // One that lies about its place is at the end.
    let lie = loader.epoch(0).await.unwrap().state().to_string().replace("\"rows\":0", "\"rows\":18446744073709551615");
    let rest = loader.resume(&LoaderState::from_json(&lie).unwrap()).await.unwrap();
    assert_eq!(rest.count().await, 0);
}

#[test]
fn the_blocking_iterator_works_in_and_out_of_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // More batches than a tokio task may take at a time.
    let loader = runtime.block_on(rows(4)).order(shuffled()).batch_size(2);
    let take = |loader: &Loader| {
        let mut batches = loader.epoch_blocking(0).unwrap();
        let first = ids(&batches.next().unwrap().unwrap());
        let rest = loader.resume_blocking(&batches.state()).unwrap();
        let rest: Vec<_> = rest.map(|batch| ids(&batch.unwrap())).collect();
        (first, rest)
    };
    let (first, rest) = take(&loader);
    assert_eq!((first.len(), rest.len()), (2, 499));
    assert_eq!(runtime.block_on(async { take(&loader) }), (first, rest));
    // Without a runtime the stream is an error, not a panic.
    let error = futures::executor::block_on(loader.epoch(0)).unwrap_err();
    assert!(error.to_string().contains("epoch_blocking"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_batches_are_made_ahead() {
    for ahead in [1, 3] {
        let loader = rows(4).await.batch_size(10).prefetch(ahead);
        let mut batches = loader.epoch(0).await.unwrap();
        for taken in 0..5 {
            // A slow consumer: all the time in the world to run ahead.
            tokio::time::sleep(Duration::from_millis(40)).await;
            assert_eq!(batches.metrics().batches, taken + ahead as u64);
            batches.next().await.unwrap().unwrap();
        }
        let metrics = batches.metrics();
        assert_eq!(metrics.rows, metrics.batches * 10);
        assert!(metrics.producer_wait > Duration::from_millis(100), "{metrics:?}");
        assert!(metrics.bytes_copied > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_error_once_in_its_place() {
    let ctx = context(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_numbers(&path, 30_000);
    ctx.register_parquet("numbers", path.to_str().unwrap(), Default::default()).await.unwrap();
    let boom = |args: &[ColumnarValue]| {
        let ColumnarValue::Array(ids) = &args[0] else { panic!("no column") };
        assert!(ids.as_any().downcast_ref::<Int64Array>().unwrap().values().iter().all(|id| *id < 20_000), "boom");
        Ok(args[0].clone())
    };
    let boom = create_udf("boom", vec![DataType::Int64], DataType::Int64, Volatility::Immutable, Arc::new(boom));
    ctx.register_udf(boom);
    let loader = loader(&ctx, "SELECT boom(id) AS id FROM numbers").await.batch_size(1000).order(Order::AsStored);
    let mut batches = loader.epoch(0).await.unwrap();
    let mut seen = 0;
    let error = loop {
        match batches.next().await.unwrap() {
            Ok(batch) => seen += batch.batch_size()[0],
            Err(error) => break error,
        }
    };
    assert!(error.is_engine() && error.to_string().contains("boom"), "{error}");
    assert!((1000..=20_000).contains(&seen), "{seen}");
    assert!(batches.next().await.is_none() && batches.next().await.is_none());
    let state = batches.state();
    assert_eq!(state.rows() as i64, seen);
    // The iterator says the same, and the state leads to the same place.
    let mut rest = loader.resume_blocking(&state).unwrap();
    assert!(rest.next().unwrap().is_err());
    assert!(rest.next().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_go_away_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_numbers(&path, 200_000);
    let loader = numbers(&path, 2).await.batch_size(500).order(Order::AsStored).prefetch(1);
    let mut batches = loader.epoch(0).await.unwrap();
    batches.next().await.unwrap().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1000).unwrap();
    let rest: Vec<_> = batches.by_ref().collect().await;
    assert!(rest.last().unwrap().as_ref().unwrap_err().is_engine());
    assert_eq!(rest.iter().filter(|batch| batch.is_err()).count(), 1);
    assert!(refused(loader.clone()).await.is_engine());
    // The engine would read what is there now, and of nothing give nothing.
    write_numbers(&path, 1000);
    for order in [Order::AsComputed, Order::AsStored, shuffled()] {
        let error = refused(loader.clone().order(order)).await;
        assert!(error.is_engine() && error.to_string().contains("was written to"), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    let error = refused(loader.clone()).await;
    assert!(error.is_engine() && error.to_string().contains("numbers.parquet is gone"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_by_the_pool_and_given_back() {
    let sql = "SELECT id, id * 2 AS a, id * 3 AS b, id * 5 AS c FROM numbers";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_numbers(&path, 300_000);
    for (bytes, enough) in [(30_000, false), (6_000_000, true)] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc().unwrap();
        let config = SessionConfig::new().with_target_partitions(1).with_sort_spill_reservation_bytes(1_000_000);
        let state = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
        let ctx = SessionContext::new_with_state(state.with_tensordict().build());
        ctx.register_parquet("numbers", path.to_str().unwrap(), Default::default()).await.unwrap();
        let loader = loader(&ctx, sql).await.order(shuffled()).batch_size(1000);
        let results: Vec<_> = loader.epoch(0).await.unwrap().collect().await;
        if enough {
            // 12 MB of rows: spilled, and the order is that of much memory.
            let spilled: Vec<i64> = results.iter().flat_map(|batch| ids(batch.as_ref().unwrap())).collect();
            assert_eq!(spilled, epoch(&numbers(&path, 4).await.order(shuffled()), 0).await.concat());
        } else {
            assert_eq!(results.len(), 1);
            assert!(results[0].as_ref().unwrap_err().is_engine());
        }
        assert_eq!(pool.reserved(), 0);
        // Dropped in the middle, all is freed, soon.
        let mut batches = loader.epoch(0).await.unwrap();
        batches.next().await.unwrap().ok();
        drop(batches);
        for _ in 0..100 {
            if pool.reserved() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        assert_eq!(pool.reserved(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nulls_and_devices_are_ruled_on() {
    let ctx = context(2);
    register_rows(&ctx);
    let frame = || async { ctx.sql("SELECT id, x FROM rows").await.unwrap() };
    let loader = frame().await.tensordict_loader(&Options::default()).await.unwrap();
    let mut batches = loader.order(shuffled()).batch_size(10).epoch(0).await.unwrap();
    let error = batches.next().await.unwrap().unwrap_err();
    assert!(error.is_null() && error.nested_key().unwrap().to_string().contains('x'), "{error}");
    assert!(batches.next().await.is_none());
    if tch::Cuda::is_available() {
        return;
    }
    let cuda = Options::default().device(tch::Device::Cuda(0));
    assert!(frame().await.tensordict_loader(&cuda).await.unwrap_err().is_device());
}
