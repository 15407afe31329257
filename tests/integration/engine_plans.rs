use datafusion::prelude::*;
use tensorquery::{DataFrameExt, Options, Nulls, SessionContextExt};
use crate::sql::{context, register_rows};

async fn show(ctx: &SessionContext, sql: &str) {
    let out = async {
        let options = ctx.tensordict_options()?;
        let frame = ctx.sql(sql).await?;
        let batches = frame.clone().collect().await.map_err(tensorquery::Error::from)?;
        let table = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        let dict = frame.to_tensordict(&options.clone().nulls(Nulls::Fill)).await?;
        Ok::<_, tensorquery::Error>(format!("{}\n{dict}", table.lines().take(12).collect::<Vec<_>>().join("\n")))
    }.await;
    match out { Ok(o) => println!("== {sql}\n{o}"), Err(e) => println!("== {sql}\nERR {e}") }
}

#[tokio::test(flavor = "multi_thread")]
async fn probe() {
    for p in [1,4] {
    let ctx = context(p);
    register_rows(&ctx);
    ctx.sql("CREATE TABLE small(a INT, b DOUBLE, c VARCHAR) AS VALUES (1, 1.5, 'x'), (2, NULL, NULL), (NULL, 2.5, 'z')").await.unwrap().collect().await.unwrap();
    for sql in [
        "SELECT a, lag(a) OVER (ORDER BY a) AS l, row_number() OVER (ORDER BY a DESC) AS r FROM tensordict((SELECT a FROM small), nulls=>'fill')",
        "WITH c AS (SELECT * FROM tensordict((SELECT * FROM small), nulls=>'mask')) SELECT * FROM c ORDER BY a",
        "EXPLAIN SELECT a FROM tensordict((SELECT a FROM small), nulls=>'fill') ORDER BY a DESC LIMIT 1 OFFSET 1",
        "SELECT a FROM tensordict((SELECT a FROM small), nulls=>'fill') ORDER BY a DESC LIMIT 1 OFFSET 1",
        "SELECT id, st['v'] v FROM tensordict((SELECT id, st FROM rows WHERE id < 6), nulls=>'fill') ORDER BY st['v'], id",
        "SELECT CAST(x AS BIGINT) v FROM tensordict((SELECT CAST(x AS BIGINT) x, id FROM rows), nulls=>'fill') ORDER BY x, id LIMIT 3 ",
        "SELECT p.x, q.x qx FROM tensordict((SELECT CAST(x AS BIGINT) x FROM rows WHERE id < 11), nulls=>'fill') p JOIN tensordict((SELECT CAST(x AS BIGINT) x FROM rows WHERE id < 3), nulls=>'fill') q ON p.x = q.x ORDER BY p.x",
    ] { show(&ctx, sql).await; }
    ctx.sql("SET datafusion.optimizer.prefer_hash_join=false").await.unwrap();
    show(&ctx, "SELECT p.x, q.x qx FROM tensordict((SELECT CAST(x AS BIGINT) x FROM rows WHERE id < 11), nulls=>'fill') p JOIN tensordict((SELECT CAST(x AS BIGINT) x FROM rows WHERE id < 3), nulls=>'fill') q ON p.x = q.x").await;
    }
    let _ = Options::default();
}
