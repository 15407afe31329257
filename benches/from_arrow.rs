//! Columns of every kind to tensors, beside copies of the same bytes.
//!
//! Cost model: `batch + columns × column + copied bytes ÷ memory's speed`. The axes are the column's type,
//! what happens to nulls, and whether the batch owns its memory alone. Input is built, and output
//! dropped, outside the measured time. `ratios` says the same in one table.

#![expect(clippy::expect_used, reason = "in a benchmark, a panic is the report")]

mod inputs;

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use inputs::{COLUMNS, batch, column, owned};
use tensorquery::{Nulls, Options, from_arrow, from_arrow_with_receipt};

fn columns(criterion: &mut Criterion) {
    for name in COLUMNS {
        let mut group = criterion.benchmark_group(name);
        for (mode, nulls) in [("no nulls", Nulls::Raise), ("fill", Nulls::Fill), ("mask", Nulls::Mask)] {
            let column = column(name, nulls != Nulls::Raise);
            let options = Options::default().nulls(nulls);
            let bytes = result_bytes(&column, &options);
            group.throughput(Throughput::Bytes(bytes as u64));
            let convert = |batch: RecordBatch| from_arrow(batch, &options).expect("a conversion");
            group.bench_function(format!("{mode}, owned"), |bencher| {
                bencher.iter_batched(|| batch(vec![owned(&column)]), convert, BatchSize::PerIteration);
            });
            group.bench_function(format!("{mode}, shared"), |bencher| {
                bencher.iter_batched(|| batch(vec![Arc::clone(&column)]), convert, BatchSize::PerIteration);
            });
            let source = vec![1u8; bytes];
            group.bench_function(format!("{mode}, memcpy"), |bencher| {
                bencher.iter_batched(|| (), |()| black_box(&source).clone(), BatchSize::PerIteration);
            });
        }
        group.finish();
    }
}

/// Bytes of the tensors that a column becomes, or of the column itself if it becomes none.
fn result_bytes(column: &ArrayRef, options: &Options) -> usize {
    let (_, receipt) = from_arrow_with_receipt(batch(vec![owned(column)]), options).expect("a conversion");
    match receipt.bytes_viewed() + receipt.bytes_copied() {
        0 => column.to_data().get_slice_memory_size().expect("a size"),
        bytes => bytes,
    }
}

fn tiny_batches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tiny batches");
    let kinds = ["int64", "float32", "float64"].map(|name| column(name, false));
    for rows in [1, 32] {
        let options = Options::default();
        group.bench_function(format!("{rows} × 21 columns"), |bencher| {
            bencher.iter_batched(
                || batch((0..21).map(|i| owned(&kinds[i % kinds.len()].slice(0, rows))).collect()),
                |batch| from_arrow(batch, &options).expect("a conversion"),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(1));
    targets = columns, tiny_batches
}
criterion_main!(benches);
