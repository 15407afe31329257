//! What the way back costs: `cargo bench --bench to_arrow`.
//!
//! A table: microseconds to make a record batch of a tensordict of one column, for more and more rows. Input is built,
//! and output dropped, outside the measured time.

#![expect(clippy::expect_used, reason = "in a benchmark, a panic is the report")]

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Float32Array, RecordBatch};
use tch::{Device, Kind, Tensor};
use tensorquery::{CopyPolicy, JaggedTensor, Options, TensorDict, ToArrowOptions, from_arrow, to_arrow};

const ROUNDS: usize = 101;
const ROWS: [i64; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn main() {
    // `cargo test --benches` runs this too, and needs no more than to see it run.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { ROUNDS } else { 1 };
    println!("Microseconds to make a record batch of a tensordict of one column\n");
    println!("| column | {} rows |", ROWS.map(|rows| rows.to_string()).join(" rows | "));
    println!("|---|---|---|---|---|");
    row("float32 of libtorch", rounds, CopyPolicy::Never, |rows| of_tensor(Tensor::ones([rows], options(Kind::Float))));
    row("float32[16] of libtorch", rounds, CopyPolicy::Never, |rows| {
        of_tensor(Tensor::ones([rows / 16, 16], options(Kind::Float)))
    });
    row("float32 of Arrow", rounds, CopyPolicy::Never, of_arrow);
    row("jagged float32, 10 a row", rounds, CopyPolicy::Never, jagged);
    row("float32, copied", rounds, CopyPolicy::Always, |rows| of_tensor(Tensor::ones([rows], options(Kind::Float))));
    row("bool, packed", rounds, CopyPolicy::Auto, |rows| of_tensor(Tensor::ones([rows], options(Kind::Bool))));
}

fn options(kind: Kind) -> (Kind, Device) {
    (kind, Device::Cpu)
}

fn of_tensor(tensor: Tensor) -> TensorDict {
    let mut dict = TensorDict::new([tensor.size()[0]]);
    dict.set("c", tensor).expect("an entry");
    dict
}

fn of_arrow(rows: i64) -> TensorDict {
    let rows = usize::try_from(rows).expect("a number of rows");
    let numbers: ArrayRef = Arc::new(Float32Array::from(vec![1.0; rows]));
    let batch = RecordBatch::try_from_iter([("c", numbers)]).expect("one column");
    from_arrow(batch, &Options::default()).expect("a conversion")
}

fn jagged(rows: i64) -> TensorDict {
    let rows = rows / 10;
    let offsets = Tensor::arange(rows + 1, options(Kind::Int64)) * 10;
    let values = Tensor::ones([rows * 10], options(Kind::Float));
    let mut dict = TensorDict::new([rows]);
    dict.set("c", JaggedTensor::try_new(values, offsets).expect("offsets")).expect("an entry");
    dict
}

fn row(name: &str, rounds: usize, copy: CopyPolicy, input: impl Fn(i64) -> TensorDict) {
    let options = ToArrowOptions::default().copy(copy);
    let cells = ROWS.map(|rows| {
        let times = (0..rounds).map(|_| {
            let dict = input(rows);
            let start = Instant::now();
            let batch = to_arrow(dict, &options).expect("a conversion");
            let time = start.elapsed();
            drop(batch);
            time.as_secs_f64() * 1e6
        });
        format!("{:.1}", median(times.collect()))
    });
    println!("| {name} | {} |", cells.join(" | "));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
