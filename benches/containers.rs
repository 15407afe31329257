//! What parts of ragged tensors cost: `cargo bench --bench containers`.
//!
//! First the price of one row, which the number of rows must not change. Then what copies, as a multiple of
//! the time that libtorch takes to copy as many bytes; both take turns within each round, and a round's
//! ratio is taken before the median of the rounds is.

#![expect(clippy::expect_used, reason = "in a benchmark, a panic is the report")]

use std::hint::black_box;
use std::time::Instant;

use tch::{Device, Kind, Tensor};
use tensorquery::{JaggedTensor, MultiNestedTensor, PaddingSide, TensorDict};

const ROUNDS: usize = 25;
/// Rows read in a round.
const READS: i64 = 2000;
/// Cells in a row.
const COLS: i64 = 4;
/// Cells have 0 to before 2 · `LENGTH` values.
const LENGTH: i64 = 16;

fn main() {
    // `cargo test --benches` runs this too, and needs no more than to see it run.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let (rounds, few, many) = if measured { (ROUNDS, 1000, 1_000_000) } else { (1, 10, 100) };
    println!("Time to take one of so many rows, µs\n");
    println!("| taken | {few} | {many} | ratio |");
    println!("|---|---|---|---|");
    let (small, large) = (Ragged::new(few, Kind::Float), Ragged::new(many, Kind::Float));
    access(rounds, "jagged.row", [&small, &large], |ragged, row| black_box(ragged.jagged.row(row)).is_ok());
    access(rounds, "jagged.index", [&small, &large], |ragged, row| black_box(ragged.jagged.index(row)).is_ok());
    access(rounds, "mnt.index(row)", [&small, &large], |ragged, row| black_box(ragged.mnt.index(row)).is_ok());
    access(rounds, "mnt.index(32 rows)", [&small, &large], |ragged, row| {
        black_box(ragged.mnt.index(row.max(32) - 32..row.max(32))).is_ok()
    });
    access(rounds, "mnt.cell", [&small, &large], |ragged, row| black_box(ragged.mnt.cell(row, 1)).is_ok());
    drop((small, large));

    let rows = if measured { 100_000 } else { 100 };
    println!(
        "\nTime ÷ time libtorch takes for the same bytes, {rows} rows of {COLS} cells of {} values on average",
        LENGTH
    );
    println!(
        "(elements: to index_select them, one index each; rows: to index_select rows of equal length; copy: to copy)\n"
    );
    println!("| dtype | done | ÷ elements | ÷ rows | ÷ copy |");
    println!("|---|---|---|---|---|");
    for kind in [Kind::Uint8, Kind::Float, Kind::Int64] {
        copies(rounds, rows, kind);
    }
    println!("\nTime to read a key of a lazy stack ÷ time of torch.stack for the same tensors\n");
    println!("| members | of so many values | stacked | padded | jagged |");
    println!("|---|---|---|---|---|");
    let members = if measured { 10_000 } else { 10 };
    for values in [1, 64, 4096] {
        stacked(rounds, members, values);
    }
}

/// Reading a key against stacking tensors that are in a list already.
fn stacked(rounds: usize, members: i64, values: i64) {
    let tensors: Vec<Tensor> = (0..members).map(|_| Tensor::ones([values], (Kind::Float, Device::Cpu))).collect();
    let dicts = tensors.iter().map(|tensor| TensorDict::from_entries([("a", tensor.shallow_clone())]));
    let dicts = dicts.collect::<Result<Vec<_>, _>>().expect("members");
    let stack = TensorDict::lazy_stack(dicts, 0).expect("a stack");
    let by_torch = || Tensor::stack(&tensors, 0);
    let ways: [&dyn Fn() -> Tensor; 3] = [
        &|| stack.tensor("a").expect("stacked"),
        &|| stack.get_padded("a", PaddingSide::Right, 0).expect("padded").expect("all have it"),
        &|| stack.get_jagged("a").expect("jagged").expect("all have it").values().shallow_clone(),
    ];
    let cells = ways.map(|way| {
        let ratios = (0..rounds).map(|_| timed(way) / timed(&by_torch)).collect();
        format!("{:.2}", median(ratios))
    });
    println!("| {members} | {values} | {} |", cells.join(" | "));
}

struct Ragged {
    jagged: JaggedTensor,
    mnt: MultiNestedTensor,
}

impl Ragged {
    fn new(rows: i64, kind: Kind) -> Ragged {
        let mut state = 7u64;
        let lengths = (0..rows * COLS).map(|_| draw(&mut state, 2 * LENGTH)).collect::<Vec<_>>();
        let ends = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        let offset: Vec<i64> = std::iter::once(0).chain(ends).collect();
        let values = Tensor::ones([offset[offset.len() - 1]], (kind, Device::Cpu));
        let by_row: Vec<i64> = offset.iter().copied().step_by(COLS as usize).collect();
        let jagged = JaggedTensor::try_new(values.shallow_clone(), Tensor::from_slice(&by_row)).expect("jagged");
        let mnt = MultiNestedTensor::try_new(rows, COLS, values, Tensor::from_slice(&offset)).expect("an mnt");
        Ragged { jagged, mnt }
    }
}

/// A number below `bound`.
fn draw(state: &mut u64, bound: i64) -> i64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % bound.unsigned_abs()).cast_signed()
}

fn access(rounds: usize, name: &str, sizes: [&Ragged; 2], take: impl Fn(&Ragged, i64) -> bool) {
    let mut state = 1;
    let mut micros = [Vec::new(), Vec::new()];
    let ratios = (0..rounds).map(|_| {
        let took = sizes.map(|ragged| {
            let rows: Vec<i64> = (0..READS).map(|_| draw(&mut state, ragged.jagged.num_rows())).collect();
            let start = Instant::now();
            for row in &rows {
                assert!(take(ragged, *row), "{name} of row {row}");
            }
            start.elapsed().as_secs_f64() * 1e6 / READS as f64
        });
        micros[0].push(took[0]);
        micros[1].push(took[1]);
        took[1] / took[0]
    });
    let ratio = median(ratios.collect());
    let [few, many] = micros.map(median);
    println!("| {name} | {few:.2} | {many:.2} | {ratio:.2} |");
}

fn copies(rounds: usize, rows: i64, kind: Kind) {
    let Ragged { jagged, mnt } = Ragged::new(rows, kind);
    let mut state = 3;
    let picked: Vec<i64> = (0..rows / 2).map(|_| draw(&mut state, rows)).collect();
    let mut line = |name: &str, ours: &dyn Fn() -> Tensor| {
        let bytes = ours();
        let (count, kind) = (bytes.numel() as i64, bytes.kind());
        // The same bytes, as single elements and as rows of equal length.
        let flat = Tensor::ones([count], (kind, Device::Cpu));
        let elements: Vec<i64> = (0..count).map(|_| draw(&mut state, count)).collect();
        // Elements are near one another within a row, as those of a selected row are.
        let elements = Tensor::from_slice(&elements).floor_divide_scalar(64) * 64;
        let elements =
            (elements + Tensor::arange(count, (Kind::Int64, Device::Cpu)).remainder(64)).clamp_max(count - 1);
        let dense = flat.narrow(0, 0, count / (COLS * LENGTH) * COLS * LENGTH).reshape([-1, COLS * LENGTH]);
        let order: Vec<i64> = (0..dense.size()[0]).map(|_| draw(&mut state, dense.size()[0])).collect();
        let order = Tensor::from_slice(&order);
        let theirs: [&dyn Fn() -> Tensor; 3] =
            [&|| flat.index_select(0, &elements), &|| dense.index_select(0, &order), &|| flat.copy()];
        let ratios = (0..rounds).map(|_| {
            let ours = timed(ours);
            theirs.map(|theirs| ours / timed(theirs))
        });
        let ratios: Vec<[f64; 3]> = ratios.collect();
        let cells: Vec<String> =
            (0..3).map(|at| format!("{:.2}", median(ratios.iter().map(|ratio| ratio[at]).collect()))).collect();
        println!("| {kind:?} | {name} | {} |", cells.join(" | "));
    };
    let owned = |values: &Tensor| values.shallow_clone();
    line("jagged.index(half the rows)", &|| owned(jagged.index(picked.as_slice()).expect("rows").values()));
    line("mnt.index(half the rows)", &|| owned(mnt.index(picked.as_slice()).expect("rows").values()));
    line("mnt.index((.., 1))", &|| owned(mnt.index((.., 1)).expect("a column").values()));
    let columns = mnt.to_jagged().expect("columns");
    let columns: Vec<&JaggedTensor> = columns.iter().collect();
    line("from_jagged of 4 columns", &|| owned(MultiNestedTensor::from_jagged(&columns).expect("an mnt").values()));
    line("jagged.to_padded", &|| jagged.to_padded(PaddingSide::Right, 0, None).expect("rows"));
    let padded = jagged.to_padded(PaddingSide::Right, 0, None).expect("rows");
    let lengths = jagged.lengths().expect("lengths");
    line("jagged from_padded", &|| {
        owned(JaggedTensor::from_padded(&padded, &lengths, PaddingSide::Right).expect("rows").values())
    });
    line("jagged cat of 2", &|| owned(JaggedTensor::cat(&[&jagged, &jagged]).expect("rows").values()));
}

fn timed(work: &dyn Fn() -> Tensor) -> f64 {
    let start = Instant::now();
    let made = black_box(work());
    let took = start.elapsed();
    drop(made);
    took.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
