use std::sync::Arc;
use arrow::array::*;
use arrow::datatypes::*;
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
    let ctx = context(4);
    register_rows(&ctx);
    ctx.sql("CREATE TABLE small(a INT, b DOUBLE, c VARCHAR) AS VALUES (1, 1.5, 'x'), (2, NULL, NULL), (NULL, 2.5, 'z')").await.unwrap().collect().await.unwrap();
    for sql in [
        "SELECT count(*) FROM tensordict((SELECT * FROM rows), nulls=>'fill') p JOIN tensordict((SELECT id, x FROM rows), nulls=>'fill') q ON p.id = q.id AND p.x = q.x",
        "SELECT p.a, q.a AS qa FROM tensordict((SELECT a FROM small), nulls=>'fill') p JOIN tensordict((SELECT a FROM small), nulls=>'fill') q ON p.a = q.a ORDER BY 1",
        "SELECT p.*, q._mask AS qm FROM tensordict((SELECT a FROM small), nulls=>'mask') p JOIN tensordict((SELECT a FROM small), nulls=>'mask') q ON p.a = q.a ORDER BY 1",
        "WITH c AS (SELECT * FROM tensordict((SELECT * FROM small), nulls=>'mask')) SELECT * FROM c ORDER BY a",
        "SELECT a FROM small WHERE coalesce(a, 0) IN (SELECT a FROM tensordict((SELECT a FROM small), nulls=>'fill'))",
        "SELECT (SELECT min(a) FROM tensordict((SELECT a FROM small), nulls=>'fill')) AS m",
        "SELECT c FROM small s WHERE EXISTS (SELECT 1 FROM tensordict((SELECT a FROM small), nulls=>'fill') t WHERE t.a = s.a)",
        "SELECT s.a, l.b FROM small s, LATERAL (SELECT b FROM tensordict((SELECT a, b FROM small), nulls=>'fill') t WHERE t.a = s.a) l",
        "SELECT s.a, l.b FROM small s, LATERAL (SELECT b FROM tensordict((SELECT a, b FROM small z WHERE z.a = s.a), nulls=>'fill') t) l",
        "SELECT * FROM tensordict((SELECT a FROM small), nulls=>'fill') UNION ALL SELECT * FROM tensordict((SELECT a FROM small), nulls=>'fill')",
        "SELECT * FROM tensordict((SELECT a FROM small), nulls=>'mask') UNION ALL SELECT * FROM tensordict((SELECT a FROM small), nulls=>'mask')",
        "SELECT * FROM tensordict((SELECT a FROM small), nulls=>'fill') UNION ALL SELECT a FROM small",
        "SELECT c FROM tensordict((SELECT c FROM small), nulls=>'mask') UNION ALL SELECT c FROM small",
        "SELECT * FROM tensordict((SELECT * FROM tensordict((SELECT a FROM small), nulls=>'fill')), nulls=>'mask')",
        "SELECT * FROM tensordict((SELECT * FROM tensordict((SELECT a FROM small), nulls=>'mask')), nulls=>'mask')",
        "SELECT * FROM tensordict((SELECT * FROM tensordict((SELECT a FROM small), nulls=>'mask')), nulls=>'mask', mask_key=>'m2')",
        "SELECT a, lag(a) OVER (ORDER BY a) AS l, row_number() OVER (ORDER BY a DESC) AS r FROM tensordict((SELECT a FROM small), nulls=>'fill')",
        "SELECT a, count(*) AS n FROM tensordict((SELECT a FROM small UNION ALL SELECT 0), nulls=>'fill') GROUP BY a ORDER BY a",
        "SELECT DISTINCT x FROM tensordict((SELECT CAST(x AS BIGINT) x FROM rows WHERE id < 6), nulls=>'fill') ORDER BY 1",
        "SELECT u FROM (SELECT unnest(l) AS u FROM tensordict((SELECT l FROM rows WHERE id < 9), nulls=>'fill'))",
        "SELECT * FROM tensordict((SELECT a, b FROM small), nulls=>'fill') AS t(p, q)",
        "SELECT * FROM tensordict((SELECT a, b FROM small), nulls=>'mask') AS t(p, q)",
        "SELECT * FROM tensordict((SELECT a, b FROM small), nulls=>'mask') AS t(p, q, m)",
        "SELECT * FROM tensordict((SELECT a FROM small AS t(a, b, c)), nulls=>'fill') AS \"T\"",
        "EXPLAIN SELECT min(a), max(a), count(a) FROM tensordict((SELECT a FROM small), nulls=>'fill')",
        "SELECT min(a), max(a), count(a), count(*) FROM tensordict((SELECT a FROM small), nulls=>'fill')",
        "SELECT * FROM tensordict((SELECT 1 AS \"A.b\", 2 AS \"\", 3 AS \"É\", 4 AS \"a\", 5 AS \"A\"), nulls=>'mask')",
        "SELECT \"A.b\" FROM tensordict((SELECT 1 AS \"A.b\", CAST(NULL AS INT) AS \"\"), nulls=>'mask')",
        "SELECT \"\" FROM tensordict((SELECT 1 AS \"A.b\", CAST(NULL AS INT) AS \"\"), nulls=>'fill')",
        "SELECT * FROM tensordict((SELECT), nulls=>'mask')",
        "SELECT 1 FROM tensordict((SELECT a FROM small), nulls=>'mask')",
        "SELECT count(*) FROM tensordict((SELECT a FROM small), nulls=>'raise')",
        "SELECT a FROM tensordict((SELECT a FROM small), nulls=>'raise') WHERE a IS NOT NULL",
        "SELECT a FROM tensordict((SELECT a FROM small), nulls=>'fill') WHERE a IS NULL",
        "SELECT a FROM tensordict((SELECT a FROM small), nulls=>'fill') ORDER BY a DESC LIMIT 1 OFFSET 1",
        "SELECT NULL AS n, 1 AS x FROM tensordict((SELECT NULL AS n), nulls=>'fill')",
        "SELECT * FROM tensordict((SELECT 0.1::DECIMAL(38,10) AS d, INTERVAL '1 month' AS i, now() AS t, 'NaN'::DOUBLE AS nan, 'inf'::FLOAT AS inf, 9223372036854775807 AS mx, 18446744073709551615 AS um), nulls=>'fill', unsigned=>'reinterpret')",
        "SELECT * FROM tensordict((SELECT 18446744073709551615 AS um), nulls=>'fill')",
        "SELECT * FROM tensordict((SELECT * FROM rows), nulls=>'fill', mask_keys=>['x'])",
        "SELECT * FROM tensordict((VALUES (1), (NULL)), nulls=>'fill')",
        "SELECT * FROM tensordict((TABLE small), nulls=>'fill')",
        "SELECT * FROM tensordict((SELECT a FROM small)) TABLESAMPLE (10)",
        "SELECT * FROM LATERAL tensordict((SELECT a FROM small), nulls=>'fill')",
        "SELECT * FROM TENSORDICT((SELECT a FROM small), NULLS => 'FILL')",
        "SELECT * FROM public.tensordict((SELECT a FROM small), nulls=>'fill')",
        "SELECT * FROM \"tensordict\"((SELECT a FROM small), nulls=>'fill')",
        "SELECT tensordict((SELECT a FROM small))",
        "SELECT t.a, st['v'] FROM tensordict((SELECT id AS a, st FROM rows WHERE id < 3), nulls=>'fill') t ORDER BY a",
        "SELECT arrow_typeof(d) FROM tensordict((SELECT arrow_cast(c, 'Dictionary(Int32, Utf8)') d FROM small), nulls=>'mask')",
        "SELECT * FROM tensordict((SELECT arrow_cast(c, 'Dictionary(Int32, Utf8)') d, arrow_cast(a, 'Dictionary(Int32, Int32)') e FROM small), nulls=>'mask')",
        "SET tensordict.bogus = 'x'", "RESET tensordict.nulls", "SHOW tensordict.device", "RESET tensordict.bogus",
        "SET tensordict.columns = '{\"a\": {\"nulls\": 3}}'", "SET tensordict.mask_keys = '[1]'", "SET tensordict.mask_keys = '[\"x\"'", "SET tensordict.device = 'cuda:-1'",
        "SET tensordict.device = 'cuda:99999999999999999999'", "SET tensordict.nulls = ''", "SET tensordict.mask_key = ''", "SET tensordict.copy = NULL", "SET tensordict.mask_key = '[]'",
        "SELECT * FROM tensordict((SELECT a FROM small), nulls=>NULL)", "SELECT * FROM tensordict((SELECT a FROM small), nulls=>$1)",
        "SELECT * FROM tensordict((SELECT a FROM small), mask_keys=>[])","SELECT * FROM tensordict((SELECT a FROM small), nulls=>'mask', mask_key=>['_mask',''])",
    ] { show(&ctx, sql).await; }
    show(&ctx, "RESET tensordict.mask_key").await;
    for sql in ["CREATE VIEW v AS SELECT * FROM tensordict((SELECT a FROM small), nulls=>'mask')", "SET tensordict.nulls='fill'", "SELECT * FROM v",
        "CREATE VIEW w AS SELECT * FROM tensordict((SELECT a FROM small))", "SET tensordict.nulls='raise'", "SELECT * FROM w",
        "PREPARE q(INT) AS SELECT * FROM tensordict((SELECT a FROM small WHERE a >= $1), nulls=>'fill')", "EXECUTE q(2)",
        "CREATE TABLE dest(a INT)", "INSERT INTO dest SELECT a FROM tensordict((SELECT a FROM small), nulls=>'fill')", "SELECT * FROM dest",
        "CREATE TABLE ctas AS SELECT * FROM tensordict((SELECT * FROM small), nulls=>'mask')", "SELECT * FROM ctas",
        "COPY (SELECT * FROM tensordict((SELECT * FROM small), nulls=>'mask')) TO '/tmp/tq_break.parquet' STORED AS PARQUET",
        "SELECT * FROM '/tmp/tq_break.parquet'",
        "CREATE EXTERNAL TABLE pq STORED AS PARQUET LOCATION '/tmp/tq_break.parquet'", "SELECT * FROM pq", "SELECT min(b), count(b), max(c), count(c) FROM tensordict((SELECT * FROM pq), nulls=>'fill')",
        "EXPLAIN ANALYZE SELECT * FROM tensordict((SELECT * FROM small), nulls=>'mask')",
        "EXPLAIN COPY (SELECT * FROM tensordict((SELECT * FROM small), nulls=>'mask')) TO '/tmp/x.parquet'",
    ] { show(&ctx, sql).await; }
    let _ = (Arc::new(1), DataType::Int8, Int8Array::from(vec![1]), Options::default());
}
