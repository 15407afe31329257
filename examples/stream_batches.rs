//! Batches of an exact size, as a query computes them, fed to a model: does distance tell air time?
//!
//! ```text
//! cargo run --example stream_batches
//! ```

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::TryStreamExt;
use tch::nn::{self, Module, OptimizerConfig};
use tch::{Device, Kind};
use tensorquery::{DataFrameExt, Options, SessionStateBuilderExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let state = SessionStateBuilder::new().with_default_features().with_tensordict().build();
    let ctx = SessionContext::new_with_state(state);
    let flights = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/flights.parquet");
    ctx.register_parquet("flights", flights, ParquetReadOptions::default()).await?;

    tch::manual_seed(7);
    let variables = nn::VarStore::new(Device::Cpu);
    let model = nn::linear(variables.root(), 1, 1, nn::LinearConfig::default());
    let mut optimizer = nn::Adam::default().build(&variables, 0.05)?;

    // Thousands of miles and hours, so that both are about one.
    let query = "SELECT CAST(distance AS FLOAT) / 1000 AS distance, CAST(air_time AS FLOAT) / 60 AS air_time
                 FROM flights WHERE air_time IS NOT NULL";
    let (mut first, mut last) = (None, 0.0);
    // Rows without a null need no mask, and the columns' nulls are refused: none may slip in.
    let mut batches = ctx.sql(query).await?.tensordict_stream(&Options::default()).await?.with_batch_size(1024);
    let mut steps = 0;
    while let Some(batch) = batches.try_next().await? {
        let input = batch.tensor("distance")?.f_unsqueeze(1)?;
        let target = batch.tensor("air_time")?.f_unsqueeze(1)?;
        let loss = model.forward(&input).f_mse_loss(&target, tch::Reduction::Mean)?;
        optimizer.backward_step(&loss);
        last = loss.f_to_kind(Kind::Double)?.f_double_value(&[])?;
        first.get_or_insert(last);
        steps += 1;
    }
    println!("{steps} steps of 1024 flights: mean squared error {:.3} → {last:.3} hours²", first.unwrap_or(last));
    Ok(())
}
