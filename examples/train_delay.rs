//! A model trained from a query: how late will a flight arrive, by what is known when it should leave?
//!
//! ```text
//! cargo run --example train_delay
//! ```
//!
//! SQL makes the samples: codes for embeddings, the weather of the hour (with gaps), and for each flight a list of what
//! its aeroplane did before. It learns from eleven months, and must beat the mean of their delays in the twelfth.

use std::error::Error;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::TryStreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use tch::nn::{self, Module, OptimizerConfig};
use tch::{Device, Kind, Reduction, Tensor, no_grad};
use tensorquery::{DataFrameExt, Nulls, Options, SessionStateBuilderExt, TensorDict, TensorDictStream};

const EPOCHS: usize = 2;
const BATCH_SIZE: usize = 1024;
const WEATHER: [&str; 4] = ["temp", "wind", "rain", "visib"];

/// One row per flight that arrived. Times are in minutes since 1970, lateness is in hours.
///
/// Nothing here may tell what is only known later. The list `earlier` has the aeroplane's last flights by schedule, of
/// which some may still be in the air: `landed` says when each had surely landed (an hour is allowed for taxiing), and
/// the model looks at those alone that landed before this flight was to leave. A cancelled one never did. Weather is
/// the measured one, as if its forecast were right.
const SAMPLES: &str = "
    CREATE VIEW samples AS
    WITH carriers AS (
        SELECT carrier, CAST(row_number() OVER (ORDER BY carrier) AS BIGINT) - 1 AS code FROM airlines
    ), dests AS (
        SELECT dest, CAST(row_number() OVER (ORDER BY dest) AS BIGINT) - 1 AS code
        FROM (SELECT DISTINCT dest FROM flights)
    ), legs AS (
        SELECT *, CAST(to_unixtime(time_hour) AS BIGINT) / 60 + minute AS scheduled FROM flights
    ), histories AS (
        SELECT *,
               array_agg(CAST(arr_delay AS FLOAT) / 60) OVER plane AS earlier,
               array_agg(coalesce(scheduled + dep_delay + air_time + 60, 9223372036854775807)) OVER plane AS landed
        FROM legs WHERE tailnum IS NOT NULL
        WINDOW plane AS (PARTITION BY tailnum ORDER BY scheduled, flight ROWS BETWEEN 8 PRECEDING AND 1 PRECEDING)
    )
    SELECT h.month, c.code AS carrier, d.code AS dest, h.scheduled, h.earlier, h.landed,
           arrow_cast([h.hour / 24.0 + h.minute / 1440.0, h.distance / 1000.0], 'FixedSizeList(2, Float32)') AS plan,
           named_struct('temp', CAST(w.temp AS FLOAT) / 100, 'wind', CAST(w.wind_speed AS FLOAT) / 10,
                        'rain', CAST(w.precip AS FLOAT) * 10, 'visib', CAST(w.visib AS FLOAT) / 10) AS weather,
           CAST(h.arr_delay AS FLOAT) / 60 AS late,
           md5(concat_ws(' ', h.scheduled, h.tailnum, h.flight)) AS shuffle
    FROM histories h
    JOIN carriers c ON c.carrier = h.carrier JOIN dests d ON d.dest = h.dest
    LEFT JOIN weather w ON w.origin = h.origin AND w.time_hour = h.time_hour
    WHERE h.arr_delay IS NOT NULL";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let state = SessionStateBuilder::new().with_default_features().with_tensordict().build();
    let ctx = SessionContext::new_with_state(state);
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data");
    for table in ["flights", "weather", "airlines"] {
        ctx.register_parquet(table, format!("{data}/{table}.parquet"), ParquetReadOptions::default()).await?;
    }
    ctx.sql(SAMPLES).await?.collect().await?;
    let count = |table: &str| {
        let query = format!("SELECT * FROM {table}");
        let ctx = &ctx;
        async move { ctx.sql(&query).await?.count().await }
    };
    let carriers = count("airlines").await?;
    let dests = count("(SELECT DISTINCT dest FROM flights)").await?;
    let flights = count("flights WHERE month < 12 AND arr_delay IS NOT NULL").await?;

    tch::manual_seed(7);
    let variables = nn::VarStore::new(Device::Cpu);
    let model = Model::new(&variables.root(), carriers as i64, dests as i64);
    let mut optimizer = nn::Adam::default().build(&variables, 3e-3)?;

    // Shows nothing where stderr is no terminal.
    let bar = ProgressBar::new((EPOCHS * flights) as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} flights  {msg}  {eta} left")?);
    let (mut sum, mut rows) = (0.0, 0);
    for epoch in 0..EPOCHS {
        // The query runs anew for each epoch, so no more than some batches are ever in memory.
        let mut batches = samples(&ctx, "month < 12").await?;
        while let Some(batch) = batches.try_next().await? {
            let late = batch.tensor("late")?;
            let loss = model.predict(&batch)?.f_mse_loss(&late, Reduction::Mean)?;
            optimizer.backward_step(&loss);
            if epoch == 0 {
                sum += late.f_sum(Kind::Double)?.f_double_value(&[])?;
                rows += late.size()[0];
            }
            bar.inc(late.size()[0] as u64);
            bar.set_message(format!("loss {:.3}", loss.f_double_value(&[])?));
        }
    }
    bar.finish_and_clear();

    // The month that it hasn't seen.
    let mean = Tensor::from(sum / rows as f64);
    let (mut model_loss, mut mean_loss, mut held_out) = (0.0, 0.0, 0);
    let mut batches = samples(&ctx, "month = 12").await?;
    while let Some(batch) = batches.try_next().await? {
        let late = batch.tensor("late")?;
        let squares = |predicted: &Tensor| late.f_sub(predicted)?.f_square()?.f_sum(Kind::Double)?.f_double_value(&[]);
        model_loss += squares(&no_grad(|| model.predict(&batch))?)?;
        mean_loss += squares(&mean)?;
        held_out += late.size()[0];
    }
    let (model_loss, mean_loss) = (model_loss / held_out as f64, mean_loss / held_out as f64);
    println!("trained on {rows} flights of January to November, {EPOCHS} times");
    println!("mean squared error on the {held_out} of December, in hours²:");
    println!("  the training flights' mean  {mean_loss:.4}");
    println!("  the model                   {model_loss:.4}");
    if model_loss >= mean_loss {
        return Err("the model has learnt nothing: the mean alone is as good".into());
    }
    Ok(())
}

/// Batches of samples in an order that is as good as random, and the same each time.
async fn samples(ctx: &SessionContext, which: &str) -> Result<TensorDictStream, Box<dyn Error>> {
    let query = format!("SELECT * EXCEPT (month, shuffle) FROM samples WHERE {which} ORDER BY shuffle");
    let options = Options::default().nulls(Nulls::Mask);
    Ok(ctx.sql(&query).await?.tensordict_stream(&options).await?.with_batch_size(BATCH_SIZE))
}

struct Model {
    carrier: nn::Embedding,
    dest: nn::Embedding,
    layers: nn::Sequential,
}

impl Model {
    fn new(path: &nn::Path, carriers: i64, dests: i64) -> Model {
        // The plan's two numbers, two of the history, and of the weather a value and whether it is known.
        let inputs = 8 + 8 + 2 + 2 + 2 * WEATHER.len() as i64;
        let layers = nn::seq()
            .add(nn::linear(path / "hidden", inputs, 64, nn::LinearConfig::default()))
            .add_fn(Tensor::relu)
            .add(nn::linear(path / "out", 64, 1, nn::LinearConfig::default()));
        Model {
            carrier: nn::embedding(path / "carrier", carriers, 8, nn::EmbeddingConfig::default()),
            dest: nn::embedding(path / "dest", dests, 8, nn::EmbeddingConfig::default()),
            layers,
        }
    }

    /// How late each flight will arrive: `float32[rows]`.
    fn predict(&self, batch: &TensorDict) -> tensorquery::Result<Tensor> {
        let mut inputs = vec![
            self.carrier.forward(&batch.tensor("carrier")?),
            self.dest.forward(&batch.tensor("dest")?),
            batch.tensor("plan")?,
            history(batch)?,
        ];
        for name in WEATHER {
            let known = batch.tensor(["_mask", "weather", name])?;
            let value = batch.tensor(["weather", name])?.f_where_self(&known, &Tensor::from(0f32))?;
            inputs.push(Tensor::f_stack(&[value, known.f_to_kind(Kind::Float)?], 1)?);
        }
        Ok(self.layers.forward(&Tensor::f_cat(&inputs, 1)?).f_squeeze_dim(1)?)
    }
}

/// How late the aeroplane was before, on average over the flights that had landed, and whether there were any:
/// `float32[rows, 2]`.
fn history(batch: &TensorDict) -> tensorquery::Result<Tensor> {
    let landed = batch.jagged("landed")?;
    let scheduled = batch.tensor("scheduled")?.f_repeat_interleave_self_tensor(&landed.lengths()?, 0, None)?;
    // A cancelled flight's lateness is null, and nulls of floats are filled with NaN. It never landed.
    let known = batch.jagged("earlier")?.filter(&landed.values().f_lt_tensor(&scheduled)?)?;
    let any = known.lengths()?.f_clamp_max(1)?.f_to_kind(Kind::Float)?;
    Ok(Tensor::f_stack(&[known.mean_rows(0)?, any], 1)?)
}
