//! The same data by SQL and by Polars.

use datafusion::prelude::{ParquetReadOptions, SessionContext};
use polars::prelude::*;
use tensorquery::{DataFrameExt, Options, PolarsExt, TensorDict, ToArrowOptions, to_polars};

use super::masked;
use crate::show::show;
use crate::sql::{context, register_rows};

async fn by_sql(ctx: &SessionContext, sql: &str, options: &Options) -> TensorDict {
    ctx.sql(sql).await.unwrap().to_tensordict(options).await.unwrap()
}

/// What a query gives, as a frame.
async fn frame(ctx: &SessionContext, sql: &str) -> DataFrame {
    let td = by_sql(ctx, sql, &masked()).await;
    to_polars(td, &ToArrowOptions::default().mask_key("_mask")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn flights_with_their_weather() {
    let ctx = context(2);
    for table in ["flights", "weather"] {
        let file = format!("{}/examples/data/{table}.parquet", env!("CARGO_MANIFEST_DIR"));
        ctx.register_parquet(table, file, ParquetReadOptions::default()).await.unwrap();
    }
    let flights = frame(&ctx, "SELECT * FROM flights WHERE month = 1").await.lazy();
    let weather = frame(&ctx, "SELECT * FROM weather WHERE month = 1").await.lazy();

    let sql = "SELECT f.flight, f.dep_delay, f.dep_delay > 15 AS late, f.tailnum, w.wind_gust
               FROM flights f JOIN weather w USING (origin, time_hour)
               WHERE f.month = 1 AND w.month = 1 ORDER BY f.time_hour, f.carrier, f.flight";
    let joined = flights
        .clone()
        .join(
            weather,
            [col("origin"), col("time_hour")],
            [col("origin"), col("time_hour")],
            JoinArgs::new(JoinType::Inner),
        )
        .sort(["time_hour", "carrier", "flight"], SortMultipleOptions::new())
        .select([
            col("flight"),
            col("dep_delay"),
            col("dep_delay").gt(lit(15)).alias("late"),
            col("tailnum"),
            col("wind_gust"),
        ]);
    let (ours, theirs) = (by_sql(&ctx, sql, &masked()).await, joined.to_tensordict(&masked()).unwrap());
    assert!(ours.batch_size()[0] > 20_000);
    assert_eq!(show(&ours), show(&theirs));

    let sql = "SELECT tailnum, array_agg(dep_delay ORDER BY time_hour, flight) AS delays, count(*) AS flights
               FROM flights WHERE month = 1 AND tailnum IS NOT NULL GROUP BY tailnum ORDER BY tailnum";
    let lists = flights
        .filter(col("tailnum").is_not_null())
        .sort(["time_hour", "flight"], SortMultipleOptions::new())
        .group_by([col("tailnum")])
        .agg([col("dep_delay").alias("delays"), col("flight").count().cast(DataType::Int64).alias("flights")])
        .sort(["tailnum"], SortMultipleOptions::new());
    let (ours, theirs) = (by_sql(&ctx, sql, &masked()).await, lists.to_tensordict(&masked()).unwrap());
    assert!(ours.batch_size()[0] > 1000);
    assert_eq!(show(&ours), show(&theirs));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_structs_and_strings() {
    let ctx = context(4);
    register_rows(&ctx);
    let all = frame(&ctx, "SELECT * FROM rows ORDER BY id").await.lazy();
    for options in [masked(), Options::default().nulls(tensorquery::Nulls::Fill)] {
        let ours = by_sql(&ctx, "SELECT id, x, l, s, st FROM rows WHERE id % 3 = 0 ORDER BY id", &options).await;
        let theirs = all.clone().filter((col("id") % lit(3)).eq(lit(0))).to_tensordict(&options).unwrap();
        assert_eq!(show(&ours), show(&theirs));
    }
    // Refused alike, with the row that it is.
    let strict = Options::default();
    let sql = ctx.sql("SELECT id, x FROM rows WHERE id > 2 ORDER BY id").await.unwrap();
    let ours = sql.to_tensordict(&strict).await.unwrap_err();
    let theirs = all.filter(col("id").gt(lit(2))).select([col("id"), col("x")]).to_tensordict(&strict).unwrap_err();
    assert!(ours.is_null() && theirs.is_null(), "{ours} {theirs}");
    assert_eq!((theirs.nested_key(), theirs.row()), (ours.nested_key(), Some(2)));
}
