//! A query over Parquet files, its result as one tensordict.
//!
//! ```text
//! cargo run --example sql_to_tensordict
//! ```

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tch::Kind;
use tensorquery::{DataFrameExt, Nulls, Options, SessionStateBuilderExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let state = SessionStateBuilder::new().with_default_features().with_tensordict().build();
    let ctx = SessionContext::new_with_state(state);
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data");
    for table in ["flights", "weather"] {
        ctx.register_parquet(table, format!("{data}/{table}.parquet"), ParquetReadOptions::default()).await?;
    }

    let frame = ctx
        .sql(
            "SELECT f.dep_delay, named_struct('temp', w.temp, 'gust', w.wind_gust) AS weather
             FROM flights f JOIN weather w USING (origin, time_hour)
             WHERE f.month = 1 ORDER BY f.time_hour, f.flight",
        )
        .await?;
    let options = Options::default().nulls(Nulls::Mask);

    // What will come is known before the query runs.
    for entry in frame.tensordict_schema(&options)?.iter() {
        println!("{:24} {:10} {}", entry.key().to_string(), entry.kind(), entry.shape());
    }

    let td = frame.to_tensordict(&options).await?;
    println!("\n{td:#}\n");

    // A mean over the gusts that were measured: the mask says which.
    let gust = td.tensor(["weather", "gust"])?;
    let measured = td.tensor(["_mask", "weather", "gust"])?;
    let mean = gust.f_masked_select(&measured)?.f_mean(Kind::Double)?.f_double_value(&[])?;
    println!(
        "{} of {} gusts were measured, {mean:.1} mph on average",
        measured.f_sum(Kind::Int64)?.f_int64_value(&[])?,
        gust.size()[0]
    );
    Ok(())
}
