//! What batches of a loader cost, as a multiple of draining the same query: `cargo bench --bench loader`.
//!
//! Loader and query take turns within each round, and a round's ratio is taken before the median of the rounds is, so a
//! machine that is busy or changes its clock disturbs both alike.

#![expect(clippy::expect_used, reason = "in a benchmark, a panic is the report")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use datafusion::dataframe::DataFrame;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;
use tensorquery::{DataFrameExt, Loader, Options, Order};

const ROUNDS: usize = 15;
const ROWS: i64 = 2_000_000;
const ROW_GROUP: i64 = 50_000;
const BATCH: usize = 1024;

fn main() {
    // `cargo test --benches` runs this too, and needs no more than to see it run.
    let bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, rows) = if bench { (ROUNDS, ROWS) } else { (1, ROW_GROUP * 2) };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.parquet");
    write(&path, rows);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(table(&path, rounds, rows));
}

/// An `int64` key and eight `float32` columns.
fn write(path: &Path, rows: i64) {
    let batch = |start: i64| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + ROW_GROUP));
        let numbers = (0..8).map(|column| {
            let values = (start..start + ROW_GROUP).map(|row| ((row * 7919 + column * 31) % 10_007) as f32);
            (format!("x{column}"), Arc::new(Float32Array::from_iter_values(values)) as ArrayRef)
        });
        RecordBatch::try_from_iter([(String::from("id"), ids)].into_iter().chain(numbers)).expect("a record batch")
    };
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch(0).schema(), None).expect("a writer");
    for start in (0..rows).step_by(ROW_GROUP as usize) {
        writer.write(&batch(start)).expect("a row group");
        writer.flush().expect("its end");
    }
    writer.close().expect("a footer");
}

async fn table(path: &Path, rounds: usize, rows: i64) {
    let partitions = std::thread::available_parallelism().map_or(1, usize::from);
    println!("Time of an epoch of {rows} rows in batches of {BATCH}, ÷ time to drain the query with as many threads\n");
    println!("| order | {partitions} threads | 1 thread |");
    println!("|---|---|---|");
    let orders = [
        ("AsComputed", Order::AsComputed),
        ("AsStored", Order::AsStored),
        ("streamed, window 100k rows", Order::streamed(7, 100_000)),
        ("shuffled", Order::shuffled(7, ["id"])),
    ];
    for (name, order) in orders {
        let mut cells = Vec::new();
        for threads in [partitions, 1] {
            let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads));
            let frame = context.read_parquet(path.to_str().expect("a path"), ParquetReadOptions::default());
            let frame = frame.await.expect("a table");
            let loader = frame.clone().tensordict_loader(&Options::default()).await.expect("a loader");
            let loader = loader.batch_size(BATCH).order(order.clone());
            cells.push(format!("{:.2}", ratio(rounds, rows, &frame, &loader).await));
        }
        println!("| {name} | {} |", cells.join(" | "));
    }
}

async fn ratio(rounds: usize, rows: i64, frame: &DataFrame, loader: &Loader) -> f64 {
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let theirs = drain(frame.clone(), rows).await;
        let start = Instant::now();
        let mut batches = loader.epoch(round as u64).await.expect("an epoch");
        let mut seen = 0;
        while let Some(batch) = batches.try_next().await.expect("a batch") {
            seen += batch.batch_size()[0];
        }
        let ours = start.elapsed();
        assert_eq!(seen, rows);
        ratios.push(ours.as_secs_f64() / theirs.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

async fn drain(frame: DataFrame, rows: i64) -> Duration {
    let start = Instant::now();
    let mut batches = frame.execute_stream().await.expect("a stream");
    let mut seen = 0;
    while let Some(batch) = batches.try_next().await.expect("a record batch") {
        seen += batch.num_rows() as i64;
    }
    assert_eq!(seen, rows);
    start.elapsed()
}
