//! A lazy Polars pipeline over Parquet files that ends in training batches: does the weather tell delays?
//!
//! ```text
//! cargo run --example polars_pipeline --features polars,polars/parquet
//! ```

use polars::prelude::*;
use tch::nn::{self, Module, OptimizerConfig};
use tch::{Device, Kind, Tensor};
use tensorquery::{Nulls, Options, PolarsExt, ToArrowOptions, to_polars};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scan = |table: &str| {
        let path = format!("{}/examples/data/{table}.parquet", env!("CARGO_MANIFEST_DIR"));
        LazyFrame::scan_parquet(PlRefPath::new(path), ScanArgsParquet::default())
    };
    let hour = [col("origin"), col("time_hour")];
    let scaled = |name: &str, by: f32| col(name).cast(DataType::Float32) / lit(by);
    let weather = scan("weather")?.select([
        col("origin"),
        col("time_hour"),
        as_struct(vec![scaled("temp", 100.0), scaled("humid", 100.0), scaled("wind_gust", 100.0)]).alias("weather"),
    ]);
    // In the order of the flights, so that each run is the same.
    let mut left = JoinArgs::new(JoinType::Left);
    left.maintain_order = MaintainOrderJoin::Left;
    let flights = scan("flights")?.filter(col("dep_delay").is_not_null()).join(weather, &hour, &hour, left).select([
        col("flight"),
        col("weather"),
        scaled("dep_delay", 60.0).alias("hours_late"),
    ]);
    // What nobody measured is masked, not zero.
    let options = Options::default().column("weather", |weather| weather.nulls(Nulls::Mask));

    // What will come is known before anything runs.
    for entry in flights.tensordict_schema(&options)?.iter() {
        println!("{:12} {:8} {}", entry.key().to_string(), entry.kind(), entry.shape());
    }

    tch::manual_seed(7);
    let variables = nn::VarStore::new(Device::Cpu);
    let model = nn::linear(variables.root(), 6, 1, nn::LinearConfig::default());
    let mut optimizer = nn::Adam::default().build(&variables, 0.01)?;

    let (mut first, mut last, mut steps) = (None, 0.0, 0);
    let mut scored = None;
    for batch in flights.tensordict_stream(&options)?.with_batch_size(2048) {
        let mut batch = batch?;
        let mut columns = Vec::new();
        for name in ["temp", "humid", "wind_gust"] {
            columns.push(batch.tensor(["weather", name])?.f_nan_to_num(0.0, None, None)?);
            columns.push(batch.tensor(["_mask", "weather", name])?.f_to_kind(Kind::Float)?);
        }
        let input = Tensor::f_stack(&columns, 1)?;
        let guess = model.forward(&input);
        let loss = guess.f_mse_loss(&batch.tensor("hours_late")?.f_unsqueeze(1)?, tch::Reduction::Mean)?;
        optimizer.backward_step(&loss);
        last = loss.f_to_kind(Kind::Double)?.f_double_value(&[])?;
        first.get_or_insert(last);
        steps += 1;
        batch.set("guess", guess.f_detach()?.f_squeeze()?)?;
        scored = Some(batch);
    }
    println!("{steps} steps of 2048 flights: mean squared error {:.3} → {last:.3} hours²", first.unwrap_or(last));

    // And back: the last batch as a frame, its masks nulls again.
    if let Some(batch) = scored {
        let frame = to_polars(batch, &ToArrowOptions::default().mask_key("_mask"))?;
        let rows = frame.height();
        let order = SortMultipleOptions::new().with_order_descending(true);
        let worst = frame.lazy().sort(["guess"], order).select([col("flight")]).first().collect()?;
        println!("of the last {rows} flights, {} is expected to be the latest", worst.column("flight")?.get(0)?);
    }
    Ok(())
}
