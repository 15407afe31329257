//! What tensordicts add to a query over Parquet, in time and in memory: `cargo bench --bench sql`.
//!
//! The same plan runs with and without us, in turns, and a round's ratio is taken before the median of the
//! rounds is. The files lie in the page cache. The plain ones are neither compressed nor dictionary-encoded, so that
//! the scan we are compared with is as fast as it can be; the others are written with what writers choose by themselves:
//! a dictionary and zstd. Peaks of memory are each a process of its own.

#![expect(clippy::expect_used, reason = "in a benchmark, a panic is the report")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use std::{env, fs};

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use datafusion::dataframe::DataFrame;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;
use tensorquery::{DataFrameExt, Nulls, Options};
use tokio::runtime::Runtime;

/// As in the command: a scan allocates and frees by the megabyte, and with glibc's allocator page faults are most of it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 15;
const PARTITIONS: usize = 2;
const ROW_GROUP: usize = 1 << 18;
const ROW_GROUPS: usize = 8;
/// Numbers in a column that a dictionary is of use for.
const DISTINCT: u64 = 4096;

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/flights.parquet");

/// Name, file, query and whether nulls become masks.
const WORKLOADS: [(&str, &str, &str, Nulls); 7] = [
    ("20 numbers, plain", "numbers.parquet", "SELECT * FROM t", Nulls::Raise),
    ("20 numbers, plain, 20% null, masks", "nullable.parquet", "SELECT * FROM t", Nulls::Mask),
    ("20 numbers, encoded", "encoded.parquet", "SELECT * FROM t", Nulls::Raise),
    ("20 numbers, encoded, 20% null, masks", "encoded_nullable.parquet", "SELECT * FROM t", Nulls::Mask),
    ("lists, plain", "lists.parquet", "SELECT * FROM t", Nulls::Raise),
    ("lists, plain, 20% null, masks", "nullable_lists.parquet", "SELECT * FROM t", Nulls::Mask),
    ("flights", FLIGHTS, "SELECT * FROM t", Nulls::Mask),
];

#[derive(Clone, Copy)]
enum Mode {
    Drain,
    Stream,
    Collect,
    Dict,
}

const MODES: [(&str, Mode); 4] =
    [("drain", Mode::Drain), ("stream", Mode::Stream), ("collect", Mode::Collect), ("dict", Mode::Dict)];

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, flag, folder, workload, mode] = arguments.as_slice()
        && flag == "--peak"
    {
        let workload = workload.parse().expect("a number");
        let (_, mode) = MODES.iter().find(|(name, _)| name == mode).expect("a mode");
        let runtime = runtime();
        runtime.block_on(run(Path::new(folder), workload, *mode));
        println!("{}", peak());
        return;
    }
    // `cargo test --benches` runs this too, and needs no more than to see it run.
    let (rounds, groups) = if arguments.iter().any(|a| a == "--bench") { (ROUNDS, ROW_GROUPS) } else { (1, 1) };
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), groups);
    times(folder.path(), rounds);
    println!();
    peaks(folder.path());
}

fn times(folder: &Path, rounds: usize) {
    println!("Time with tensordicts ÷ time without, {PARTITIONS} partitions\n");
    println!("| query | rows | stream ÷ execute_stream | to_tensordict ÷ collect |");
    println!("|---|---|---|---|");
    let runtime = runtime();
    for (workload, (name, ..)) in WORKLOADS.iter().enumerate() {
        let seconds = |mode| {
            let start = Instant::now();
            let rows = runtime.block_on(run(folder, workload, mode));
            (start.elapsed().as_secs_f64(), rows)
        };
        let rows = seconds(Mode::Drain).1;
        let ratio = |ours, theirs| {
            let mut ratios: Vec<f64> = (0..rounds).map(|_| seconds(ours).0 / seconds(theirs).0).collect();
            ratios.sort_by(f64::total_cmp);
            ratios[rounds / 2]
        };
        let (stream, dict) = (ratio(Mode::Stream, Mode::Drain), ratio(Mode::Dict, Mode::Collect));
        println!("| {name} | {rows} | {stream:.3} | {dict:.3} |");
    }
}

fn peaks(folder: &Path) {
    println!("Peak of memory, MiB\n");
    println!("| query | execute_stream | stream | collect | to_tensordict |");
    println!("|---|---|---|---|---|");
    for (workload, (name, ..)) in WORKLOADS.iter().enumerate() {
        let cells = MODES.iter().map(|(mode, _)| {
            let program = env::current_exe().expect("this program");
            let mut command = Command::new(program);
            command.arg("--peak").arg(folder).arg(workload.to_string()).arg(mode);
            let output = command.output().expect("a run");
            String::from_utf8(output.stdout).expect("a number").trim().to_owned()
        });
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

/// The process's largest resident memory so far, in MiB.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.map_or_else(|| "–".to_owned(), |kibibytes| format!("{:.0}", kibibytes / 1024.0))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(PARTITIONS).enable_all().build().expect("a runtime")
}

/// Runs a workload and gives its number of rows.
async fn run(folder: &Path, workload: usize, mode: Mode) -> usize {
    let (_, file, sql, nulls) = WORKLOADS[workload];
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(PARTITIONS));
    let path = folder.join(file);
    ctx.register_parquet("t", path.to_string_lossy(), ParquetReadOptions::default()).await.expect("a file");
    let frame = ctx.sql(sql).await.expect("a query");
    consume(frame, mode, &Options::default().nulls(nulls)).await
}

async fn consume(frame: DataFrame, mode: Mode, options: &Options) -> usize {
    match mode {
        Mode::Drain => {
            let stream = frame.execute_stream().await.expect("a plan");
            let rows = stream.try_fold(0, async |rows, batch| Ok(rows + batch.num_rows()));
            rows.await.expect("batches")
        }
        Mode::Stream => {
            let mut stream = frame.tensordict_stream(options).await.expect("a plan");
            let mut rows = 0;
            while let Some(dict) = stream.try_next().await.expect("tensordicts") {
                rows += usize::try_from(dict.batch_size()[0]).expect("rows");
            }
            rows
        }
        Mode::Collect => frame.collect().await.expect("batches").iter().map(RecordBatch::num_rows).sum(),
        Mode::Dict => {
            let dict = frame.to_tensordict(options).await.expect("a tensordict");
            usize::try_from(dict.batch_size()[0]).expect("rows")
        }
    }
}

fn write(folder: &Path, groups: usize) {
    let plain = || WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).set_dictionary_enabled(false);
    let encoded = || WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    for (file, nulls) in [("numbers.parquet", false), ("nullable.parquet", true)] {
        write_file(&folder.join(file), groups, plain(), |seed| numbers(seed, u64::MAX, nulls));
    }
    for (file, nulls) in [("encoded.parquet", false), ("encoded_nullable.parquet", true)] {
        write_file(&folder.join(file), groups, encoded(), |seed| numbers(seed, DISTINCT, nulls));
    }
    for (file, nulls) in [("lists.parquet", false), ("nullable_lists.parquet", true)] {
        write_file(&folder.join(file), groups, plain(), |seed| lists(seed, nulls));
    }
}

fn write_file(path: &Path, groups: usize, properties: WriterPropertiesBuilder, batch: impl Fn(u64) -> RecordBatch) {
    let properties = properties.set_max_row_group_row_count(Some(ROW_GROUP)).build();
    let file = fs::File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch(0).schema(), Some(properties)).expect("a writer");
    for group in 0..groups {
        writer.write(&batch(group as u64)).expect("a row group");
    }
    writer.close().expect("a file");
}

/// 20 columns of four types, of so many distinct numbers each.
fn numbers(seed: u64, distinct: u64, nulls: bool) -> RecordBatch {
    let validity = || nulls.then(|| validity(seed, ROW_GROUP));
    let columns = (0..20).map(|i| {
        let numbers = (0..ROW_GROUP).map(|row| (random(seed * 64 + i, row) >> 11) % distinct);
        let column: ArrayRef = match i % 4 {
            0 => Arc::new(Int64Array::new(numbers.map(u64::cast_signed).collect(), validity())),
            1 => Arc::new(Float32Array::new(numbers.map(|number| number as f32).collect(), validity())),
            2 => Arc::new(Float64Array::new(numbers.map(|number| number as f64).collect(), validity())),
            _ => Arc::new(Int32Array::new(numbers.map(|number| number as i32).collect(), validity())),
        };
        (format!("c{i}"), column, nulls)
    });
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

/// Tokens: an eighth as many rows as of numbers, of 0 to 128 elements.
fn lists(seed: u64, nulls: bool) -> RecordBatch {
    let rows = ROW_GROUP / 8;
    let validity = nulls.then(|| validity(seed, rows));
    let valid = |row: usize| validity.as_ref().is_none_or(|validity| validity.is_valid(row));
    let lengths = (0..rows).map(|row| if valid(row) { random(seed, row) as usize % 129 } else { 0 });
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    let tokens = (0..offsets[rows]).map(|i| random(seed, i as usize) as i32);
    let field = Field::new("item", DataType::Int32, false);
    let tokens = Arc::new(Int32Array::from_iter_values(tokens));
    let lists = ListArray::new(field.into(), offsets, tokens, validity.clone());
    RecordBatch::try_from_iter_with_nullable([("tokens", Arc::new(lists) as ArrayRef, nulls)]).expect("a batch")
}

/// One row in five is null, at random.
fn validity(seed: u64, rows: usize) -> NullBuffer {
    (0..rows).map(|row| !random(seed, row).is_multiple_of(5)).collect::<Vec<_>>().into()
}

/// The same number for the same place in every run (the finalizer of SplitMix64).
fn random(seed: u64, row: usize) -> u64 {
    let mut bits = (seed << 40 ^ (row as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
