//! What a conversion costs, as a multiple of copying the same bytes: `cargo bench --bench ratios`.
//!
//! Conversion and copy take turns within each round, and a round's ratio is taken before the median of
//! the rounds is, so a machine that is busy or changes its clock disturbs both alike. Input is built, and
//! output dropped, outside the measured time.

#![expect(clippy::expect_used, reason = "in a benchmark, a panic is the report")]

mod inputs;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use inputs::{COLUMNS, VALUES, batch, column, owned};
use tensorquery::{Nulls, Options, TensorDict, from_arrow, from_arrow_with_receipt};

const ROUNDS: usize = 25;
/// Small batches in a round.
const BATCHES: usize = 500;

fn main() {
    // `cargo test --benches` runs this too, and needs no more than to see it run.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { ROUNDS } else { 1 };
    filled(rounds);
    println!();
    without_nulls(rounds);
    println!();
    tiny(rounds);
}

/// Columns with nulls, in one memory: ours alone, filled in place, or somebody else's too, copied once.
fn filled(rounds: usize) {
    println!("Time to convert {VALUES} values, one row in five null, ÷ time to copy the same bytes and write the mask");
    println!("(owned: a copy within memory that is there; shared: a copy into new memory)\n");
    println!("| column | fill, owned | fill, shared | mask, owned | mask, shared |");
    println!("|---|---|---|---|---|");
    for name in COLUMNS.into_iter().filter(|name| *name != "utf8") {
        let column = column(name, true);
        let mut cells = Vec::new();
        for nulls in [Nulls::Fill, Nulls::Mask] {
            let options = Options::default().nulls(nulls);
            let mask = if nulls == Nulls::Mask { masks(name) * column.len() } else { 0 };
            cells.push(ratio(rounds, &options, mask, true, || batch(vec![owned(&column)])));
            cells.push(ratio(rounds, &options, mask, false, || batch(vec![Arc::clone(&column)])));
        }
        row(name, &cells);
    }
}

fn without_nulls(rounds: usize) {
    println!("Time to convert {VALUES} values without nulls: of a batch that owns them, in µs;");
    println!("of a shared one, ÷ time to copy the same bytes into new memory\n");
    println!("| column | viewed | copied | owned, µs | shared |");
    println!("|---|---|---|---|---|");
    let options = Options::default();
    for name in COLUMNS {
        let column = column(name, false);
        let (_, receipt) = from_arrow_with_receipt(batch(vec![owned(&column)]), &options).expect("a conversion");
        let times = (0..rounds).map(|_| convert(batch(vec![owned(&column)]), &options).0.as_secs_f64() * 1e6);
        let micros = median(times.collect());
        let shared = match name {
            "utf8" => "–".to_owned(),
            _ => format!("{:.2}", ratio(rounds, &options, 0, false, || batch(vec![Arc::clone(&column)]))),
        };
        let (viewed, copied) = (receipt.bytes_viewed(), receipt.bytes_copied());
        println!("| {name} | {viewed} | {copied} | {micros:.1} | {shared} |");
    }
}

/// The fixed price of a batch and of a column, which rows don't change. Between batches that are computed
/// there is other work, after which our code and the columns' handles are no longer in the caches.
fn tiny(rounds: usize) {
    println!("Time to convert a batch, µs: one after the other, and each after 64 MiB of other work\n");
    println!("| columns | rows | warm | of it, a column | cold | of it, a column |");
    println!("|---|---|---|---|---|---|");
    let kinds = [column("int64", false), column("float32", false), column("float64", false)];
    for columns in [1, 21] {
        for rows in [1, 32, VALUES] {
            let build = || batch((0..columns).map(|i| owned(&kinds[i % kinds.len()].slice(0, rows))).collect());
            let warm = if rows == VALUES { 2 } else { BATCHES };
            let cells = [(warm, 0), (2, 64 << 20)].map(|(batches, other_work)| {
                let micros = median((0..rounds).map(|_| price(batches, other_work, build)).collect());
                format!("{micros:.2} | {:.2}", micros / columns as f64)
            });
            let cells = if rows == VALUES { ["– | –".to_owned(), cells[1].clone()] } else { cells };
            println!("| {columns} | {rows} | {} |", cells.join(" | "));
        }
    }
}

/// Microseconds a batch, each converted after `other_work` bytes were written.
fn price(batches: usize, other_work: usize, build: impl Fn() -> RecordBatch) -> f64 {
    let batches: Vec<RecordBatch> = (0..batches).map(|_| build()).collect();
    let (count, options) = (batches.len() as f64, Options::default());
    let mut dicts = Vec::with_capacity(batches.len());
    let mut time = Duration::ZERO;
    for batch in batches {
        if other_work > 0 {
            black_box(vec![1u8; other_work]);
        }
        let (took, dict) = convert(batch, &options);
        time += took;
        dicts.push(dict);
    }
    time.as_secs_f64() * 1e6 / count
}

/// Masks that a column has: one, or one per field of a struct.
fn masks(name: &str) -> usize {
    if name == "struct of 3" { 3 } else { 1 }
}

/// Median over the rounds of the time to convert a batch ÷ the time to copy as many bytes and to write
/// `mask` bytes. `warm` copies into memory that is there, as a conversion in place writes to it.
fn ratio(rounds: usize, options: &Options, mask: usize, warm: bool, input: impl Fn() -> RecordBatch) -> f64 {
    let (_, receipt) = from_arrow_with_receipt(input(), options).expect("a conversion");
    let bytes = receipt.bytes_viewed() + receipt.bytes_copied() - mask;
    let source = vec![1u8; bytes];
    let mut target = vec![2u8; bytes];
    let ratios = (0..rounds).map(|_| {
        let (ours, dict) = convert(input(), options);
        drop(dict);
        let start = Instant::now();
        let copy = if warm {
            target.copy_from_slice(black_box(&source));
            Vec::new()
        } else {
            black_box(&source).clone()
        };
        let mask = vec![1u8; black_box(mask)];
        let theirs = start.elapsed();
        black_box((&target, copy, mask));
        ours.as_secs_f64() / theirs.as_secs_f64()
    });
    median(ratios.collect())
}

fn convert(batch: RecordBatch, options: &Options) -> (Duration, TensorDict) {
    let start = Instant::now();
    let dict = from_arrow(batch, options).expect("a conversion");
    (start.elapsed(), dict)
}

fn row(name: &str, cells: &[f64]) {
    let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:.2}")).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
