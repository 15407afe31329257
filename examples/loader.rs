//! Shuffled batches for a training loop that crashes in the middle of an epoch, and goes on.
//!
//! ```text
//! cargo run --example loader
//! ```

use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tensorquery::{DataFrameExt, LoaderState, Options, Order};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ctx = SessionContext::new();
    let flights = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/flights.parquet");
    ctx.register_parquet("flights", flights, ParquetReadOptions::default()).await?;

    // An airline has a flight's number once an hour, so these three tell flights apart.
    let query = "SELECT time_hour, carrier, flight, CAST(distance AS FLOAT) AS distance FROM flights";
    let loader = ctx.sql(query).await?.tensordict_loader(&Options::default()).await?;
    let loader = loader.batch_size(1024).order(Order::shuffled(7, ["time_hour", "carrier", "flight"])).prefetch(4);

    // A training loop that isn't asynchronous.
    let mut miles = 0.0;
    let mut batches = loader.epoch_blocking(0)?;
    for batch in batches.by_ref().take(100) {
        miles += batch?.tensor("distance")?.f_sum(tch::Kind::Double)?.f_double_value(&[])?;
    }
    let saved = batches.state().to_string();
    println!("after {} batches: {saved}", batches.state().batches());
    drop(batches);

    let mut batches = loader.resume_blocking(&LoaderState::from_json(&saved)?)?;
    for batch in batches.by_ref() {
        miles += batch?.tensor("distance")?.f_sum(tch::Kind::Double)?.f_double_value(&[])?;
    }
    let (state, metrics) = (batches.state(), batches.metrics());
    println!("after {} batches of {} flights: {miles} miles", state.batches(), state.rows());
    println!("{metrics}");
    Ok(())
}
