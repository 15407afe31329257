//! Batches in random order as files are read: `Order::streamed`.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch};
use arrow::datatypes::Int32Type;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use futures::TryStreamExt;
use proptest::prelude::*;
use tensorquery::{Collate, Loader, LoaderState, Order, Remainder};

use crate::loader::{epoch, ids, loader, refused, resumes_as_in_one_go, rows};
use crate::sql::{context, register_rows};

/// `id`, and a list `l` of `id * 7 % 23` elements.
pub(crate) fn write_lists(path: &Path, rows: std::ops::Range<i64>, row_group: usize) {
    let lists = rows.clone().map(|id| Some(vec![Some(id as i32); (id * 7 % 23) as usize]));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
    let batch = RecordBatch::try_from_iter([("id", ids), ("l", lists)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(row_group)).build();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    for start in (0..batch.num_rows()).step_by(row_group) {
        writer.write(&batch.slice(start, row_group.min(batch.num_rows() - start))).unwrap();
    }
    writer.close().unwrap();
}

const ROWS: i64 = 3537;

/// Three files of rows 0..3537, in row groups of 100, 50 and 300 rows.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_lists(&folder.path().join("a.parquet"), 0..1000, 100);
    write_lists(&folder.path().join("b.parquet"), 1000..1037, 50);
    write_lists(&folder.path().join("c.parquet"), 1037..ROWS, 300);
    folder
}

async fn files(folder: &Path, threads: usize, sql: &str) -> Loader {
    let ctx = context(threads);
    ctx.register_parquet("files", folder.to_str().unwrap(), Default::default()).await.unwrap();
    loader(&ctx, sql).await.batch_size(64).order(Order::streamed(7, 250))
}

const ALL: &str = "SELECT id, l FROM files";

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_the_same_whatever_the_threads() {
    let folder = folder();
    let reference = epoch(&files(folder.path(), 1, ALL).await, 2).await;
    for threads in [3, 8] {
        assert_eq!(epoch(&files(folder.path(), threads, ALL).await, 2).await, reference);
    }
    assert!(reference[..reference.len() - 1].iter().all(|batch| batch.len() == 64));
    let all = reference.concat();
    assert_eq!(sorted(all.clone()), (0..ROWS).collect::<Vec<_>>());
    let loader = files(folder.path(), 2, ALL).await;
    assert_ne!(epoch(&loader, 3).await.concat(), all);
    assert_ne!(epoch(&loader.clone().order(Order::streamed(8, 250)), 2).await.concat(), all);
    // A batch is of several places in the files, its rows are in no order, and windows are of several row groups.
    for batch in &reference {
        assert!(!batch.is_sorted());
    }
    let groups = |ids: &[i64]| ids.iter().map(|id| id / 100).collect::<std::collections::BTreeSet<_>>().len();
    assert!(reference.iter().filter(|batch| groups(batch) >= 3).count() > reference.len() / 2);
    // With a window of one row, row groups come one after the other as they are stored.
    let unmixed = epoch(&loader.order(Order::streamed(7, 0)), 2).await.concat();
    assert!(unmixed.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() > 3400);
    assert_ne!(unmixed, (0..ROWS).collect::<Vec<_>>());
    assert_eq!(sorted(unmixed), (0..ROWS).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_read_their_own_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    write_lists(&folder.path().join("a.parquet"), 0..64_000, 1000);
    let mut bytes = Vec::new();
    for world in [1u64, 2, 4, 8] {
        let mut all = Vec::new();
        let mut most = 0;
        for rank in 0..world {
            // A session of its own, as a process has.
            let loader = files(folder.path(), 4, ALL).await.shard(rank, world, Remainder::Keep);
            let mut batches = loader.epoch(0).await.unwrap();
            while let Some(batch) = batches.try_next().await.unwrap() {
                all.extend(ids(&batch));
            }
            most = most.max(batches.metrics().bytes_read);
        }
        assert_eq!(sorted(all), (0..64_000).collect::<Vec<_>>());
        bytes.push(most as f64);
    }
    for (bytes_of, share) in bytes.iter().zip([1.0, 0.5, 0.25, 0.125]) {
        let expected = bytes[0] * share;
        assert!((expected * 0.8..=expected * 1.4).contains(bytes_of), "{bytes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_have_as_many_rows_if_they_are_to() {
    let folder = folder();
    let whole = epoch(&files(folder.path(), 1, ALL).await.order(Order::streamed(7, 1)), 0).await.concat();
    for world in [2u64, 7, 4000] {
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for rank in [0, 1, 2, 6, 3536, 3999].into_iter().filter(|rank| *rank < world) {
            let of = |remainder| {
                let loader = files(folder.path(), 3, ALL);
                async move { epoch(&loader.await.shard(rank, world, remainder), 0).await.concat() }
            };
            kept.extend(of(Remainder::Keep).await);
            let own = of(Remainder::Drop).await;
            assert_eq!(own.len() as u64, ROWS as u64 / world);
            dropped.extend(own);
            let padded = of(Remainder::Pad).await;
            assert_eq!(padded.len() as u64, (ROWS as u64).div_ceil(world));
        }
        if world == 2 {
            assert_eq!(sorted(kept), (0..ROWS).collect::<Vec<_>>());
        }
        dropped.sort_unstable();
        assert!(dropped.windows(2).all(|pair| pair[0] < pair[1]), "no row twice");
    }
    // Fewer rows than ranks: those without get the epoch's first, or nothing.
    let last = files(folder.path(), 2, ALL).await;
    assert_eq!(epoch(&last.clone().shard(3999, 4000, Remainder::Pad), 0).await.concat(), whole[..1]);
    assert!(epoch(&last.shard(3999, 4000, Remainder::Keep), 0).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_and_projections_are_computed() {
    let folder = folder();
    let sql = "SELECT id * 2 AS id, l FROM files WHERE id % 3 = 0 AND id < 2000";
    let expected: Vec<i64> = (0..2000).filter(|id| id % 3 == 0).map(|id| id * 2).collect();
    let reference = epoch(&files(folder.path(), 1, sql).await, 1).await;
    assert_eq!(epoch(&files(folder.path(), 8, sql).await, 1).await, reference);
    assert_eq!(sorted(reference.concat()), expected);
    let mut all = Vec::new();
    for rank in 0..5 {
        all.extend(epoch(&files(folder.path(), 2, sql).await.shard(rank, 5, Remainder::Keep), 1).await.concat());
    }
    assert_eq!(sorted(all), expected);
    for remainder in [Remainder::Drop, Remainder::Pad] {
        let error = refused(files(folder.path(), 2, sql).await.shard(0, 5, remainder)).await;
        assert!(error.is_option() && error.to_string().contains("filter"), "{error}");
    }
    // What rules on nulls goes on row by row.
    let ruled = format!("SELECT * FROM tensordict(({sql}), nulls => 'mask')");
    assert_eq!(epoch(&files(folder.path(), 3, &ruled).await, 1).await, reference);
    // Where the scan itself filters, too.
    let ctx = context(2);
    ctx.sql("SET datafusion.execution.parquet.pushdown_filters = true").await.unwrap();
    ctx.register_parquet("files", folder.path().to_str().unwrap(), Default::default()).await.unwrap();
    let pushed = loader(&ctx, sql).await.batch_size(64).order(Order::streamed(7, 250));
    assert_eq!(epoch(&pushed, 1).await, reference);
    assert!(refused(pushed.shard(0, 5, Remainder::Drop)).await.is_option());
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_other_kinds_are_refused_by_name() {
    let folder = folder();
    for (sql, word) in [
        ("SELECT id, l FROM files LIMIT 10", "LIMIT"),
        ("SELECT id, l FROM files ORDER BY id DESC", "SortExec"),
        ("SELECT a.id FROM files a JOIN files b ON a.id = b.id", "JoinExec"),
        ("SELECT id % 3 AS id FROM files GROUP BY id % 3", "AggregateExec"),
        ("SELECT id FROM files UNION ALL SELECT id FROM files", "UnionExec"),
        ("SELECT unnest(l) AS id FROM files", "UnnestExec"),
        ("SELECT row_number() OVER () AS id FROM files", "WindowAggExec"),
        ("SELECT id, random() AS r FROM files", "random"),
        ("SELECT column1 AS id FROM (VALUES (1))", "DataSourceExec"),
    ] {
        let error = refused(files(folder.path(), 4, sql).await).await;
        assert!(error.is_option() && error.to_string().contains(word), "{sql}: {error}");
    }
    let ctx = context(2);
    register_rows(&ctx);
    let error = refused(rows(2).await.order(Order::streamed(1, 10))).await;
    assert!(error.is_option() && error.to_string().contains("reads no Parquet files"), "{error}");
    let error = refused(rows(2).await.order(Order::permuted(1))).await;
    assert!(error.is_option() && error.to_string().contains("Order::permuted"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Stopped anywhere, and again, an epoch is the same as in one go.
    #[test]
    fn resuming_goes_on_with_the_next_batch(
        stops in prop::collection::vec(0usize..20, 0..4),
        size in prop_oneof![1usize..300],
        window in prop_oneof![Just(1usize), 2usize..2000],
        group in prop::option::of(1usize..1000),
        elements in any::<bool>(),
        drop_last in any::<bool>(),
        filter in any::<bool>(),
        world in 1u64..4,
        threads in 1usize..5,
        stored in prop::option::of(prop_oneof![Just(Remainder::Keep), Just(Remainder::Drop), Just(Remainder::Pad)]),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let folder = folder();
        runtime.block_on(async {
            let sql = if filter { "SELECT id, l FROM files WHERE id % 5 != 1" } else { ALL };
            let make = |threads| {
                let loader = files(folder.path(), threads, sql);
                async move {
                    let mut loader = loader.await.order(Order::streamed(3, window)).drop_last(drop_last);
                    if stored.is_some() {
                        loader = loader.order(Order::AsStored);
                    }
                    loader = if elements { loader.batch_elements("l", size * 5) } else { loader.batch_size(size) };
                    let remainder = stored.filter(|_| !elements).unwrap_or(Remainder::Keep);
                    loader = loader.shard(world - 1, world, remainder);
                    if let Some(window) = group { loader.group_by_length("l", window) } else { loader }
                }
            };
            resumes_as_in_one_go(threads, make, stops).await;
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_reads_what_is_left_and_a_window() {
    let folder = tempfile::tempdir().unwrap();
    write_lists(&folder.path().join("a.parquet"), 0..64_000, 1000);
    let half = "SELECT id, l FROM files WHERE id % 2 = 0";
    // How many row groups more than the rest it may read: those of a window, and the one that it begins in.
    let streamed = Order::streamed(7, 4000);
    for (sql, order, more) in [(ALL, streamed.clone(), 5.0), (half, streamed, 9.0), (ALL, Order::AsStored, 1.0)] {
        let make = || async { files(folder.path(), 1, sql).await.order(order.clone()).prefetch(1) };
        let mut batches = make().await.epoch(0).await.unwrap();
        let mut states = vec![batches.state()];
        while batches.try_next().await.unwrap().is_some() {
            states.push(batches.state());
        }
        let total = batches.metrics().bytes_read as f64;
        let rows = states.last().unwrap().rows() as f64;
        for state in states.iter().step_by(states.len() / 7) {
            let mut rest = make().await.resume(state).await.unwrap();
            while rest.try_next().await.unwrap().is_some() {}
            let read = rest.metrics().bytes_read as f64 / total;
            let left = 1.0 - state.rows() as f64 / rows;
            assert!(read <= left + more / 64.0 + 0.01, "{sql}: {read} of the bytes for {left} of the rows");
        }
        if order == Order::AsStored {
            continue;
        }
        let text = states[states.len() / 2].to_string();
        assert!(text.len() < 400 && text.contains("\"piece\":"), "{text}");
        // A mark that lies leads to no panic, and to no rows twice.
        for lie in ["\"piece\":18446744073709551615", "\"piece\":3"] {
            let piece = text.split("\"piece\":").nth(1).unwrap().split(',').next().unwrap();
            let lie = LoaderState::from_json(&text.replace(&format!("\"piece\":{piece}"), lie)).unwrap();
            let rest = make().await.resume(&lie).await.unwrap();
            rest.map_ok(|batch| ids(&batch)).try_collect::<Vec<_>>().await.unwrap();
        }
        let other = tempfile::tempdir().unwrap();
        write_lists(&other.path().join("a.parquet"), 0..64_000, 999);
        let others = files(other.path(), 1, sql).await.order(order.clone());
        let error = others.resume(&LoaderState::from_json(&text).unwrap()).await.unwrap_err();
        assert!(error.is_option() && error.to_string().contains("row groups"), "{error}");
        let lie = LoaderState::from_json(&text.replace("\"mark\":{\"piece\"", "\"mark\":{\"pieces\""));
        assert!(lie.unwrap_err().to_string().contains("mark"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_batches_are_padded_and_grouped() {
    let folder = folder();
    let padded = |loader: Loader| async move {
        let mut batches = loader.collate(Collate::Padded(Default::default())).epoch(0).await.unwrap();
        let mut all = Vec::new();
        while let Some(batch) = batches.try_next().await.unwrap() {
            assert_eq!(batch.tensor("l").unwrap().dim(), 2);
            all.extend(ids(&batch));
        }
        assert_eq!(sorted(all), (0..ROWS).collect::<Vec<_>>());
        batches.metrics().padding_share()
    };
    let plain = padded(files(folder.path(), 3, ALL).await).await;
    let grouped = padded(files(folder.path(), 3, ALL).await.group_by_length("l", 640)).await;
    // Lengths are spread evenly from 0 to 22: half of it is padding, and of ten batches in a window a twentieth.
    assert!((0.4..0.55).contains(&plain) && grouped < 0.15, "{plain} {grouped}");
}
