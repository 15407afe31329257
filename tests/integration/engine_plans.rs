//! Odd plans over the relation: what is filled is what everything above it sees.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StructArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tensorquery::{DataFrameExt, MaskKeys, Nulls, Options, SessionContextExt, SessionStateBuilderExt};

use crate::sql::{context, register_rows};

async fn run(ctx: &SessionContext, sql: &str) -> Result<RecordBatch, tensorquery::Error> {
    let frame = ctx.sql(sql).await?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await?;
    let schema = batches.first().map_or(schema, RecordBatch::schema);
    Ok(concat_batches(&schema, &batches).unwrap())
}

/// The columns as rows of numbers, null as `None`.
async fn rows(ctx: &SessionContext, sql: &str) -> Vec<Vec<Option<i64>>> {
    let batch = run(ctx, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let cast = |column: &ArrayRef| arrow::compute::cast(column, &DataType::Int64).unwrap();
    let columns: Vec<ArrayRef> = batch.columns().iter().map(cast).collect();
    let value = |column: &ArrayRef, row| {
        let column = column.as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| value(column, row)).collect()).collect()
}

async fn execute(ctx: &SessionContext, sql: &str) {
    run(ctx, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn small(partitions: usize) -> SessionContext {
    let ctx = context(partitions);
    execute(&ctx, "CREATE TABLE small(a INT, b BIGINT) AS VALUES (1, -1), (2, NULL), (NULL, 3)").await;
    ctx
}

fn some<const N: usize>(rows: &[[i64; N]]) -> Vec<Vec<Option<i64>>> {
    rows.iter().map(|row| row.iter().copied().map(Some).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sort_sees_the_fill() {
    for partitions in [1, 2, 8] {
        let ctx = small(partitions).await;
        for (sql, expected) in [
            ("SELECT a FROM {} ORDER BY a", vec![[0], [1], [2]]),
            ("SELECT a FROM {} ORDER BY a DESC", vec![[2], [1], [0]]),
            ("SELECT a FROM {} ORDER BY a DESC LIMIT 1 OFFSET 1", vec![[1]]),
            ("SELECT b FROM {} ORDER BY b", vec![[-1], [0], [3]]),
            ("SELECT b FROM (SELECT * FROM {} LIMIT 3) ORDER BY b DESC", vec![[3], [0], [-1]]),
            ("SELECT row_number() OVER (ORDER BY a DESC) r FROM {} ORDER BY a", vec![[3], [2], [1]]),
            ("SELECT first_value(a) OVER (ORDER BY b) f FROM {} ORDER BY a", vec![[1], [1], [1]]),
            ("SELECT first_value(b ORDER BY a) f FROM {}", vec![[3]]),
        ] {
            let sql = sql.replace("{}", "tensordict((SELECT a, b FROM small), nulls => 'fill')");
            assert_eq!(rows(&ctx, &sql).await, some(&expected), "{sql} with {partitions} partitions");
        }
        // Two orders over one relation, one of them the other way round.
        let sql = "SELECT a, row_number() OVER (ORDER BY a) l, row_number() OVER (ORDER BY a DESC) r
            FROM tensordict((SELECT a FROM small), nulls => 'mask') ORDER BY a";
        assert_eq!(rows(&ctx, sql).await, some(&[[0, 1, 3], [1, 2, 2], [2, 3, 1]]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_groups_and_subqueries_see_the_fill() {
    for (partitions, hash_join) in [(1, true), (4, true), (4, false)] {
        let ctx = small(partitions).await;
        execute(&ctx, &format!("SET datafusion.optimizer.prefer_hash_join = {hash_join}")).await;
        execute(&ctx, "SET datafusion.optimizer.repartition_file_min_size = 0").await;
        let filled = "tensordict((SELECT a, b FROM small), nulls => 'fill')";
        for (sql, expected) in [
            ("SELECT p.a, q.b FROM {} p JOIN {} q ON p.a = q.a ORDER BY p.a", vec![[0, 3], [1, -1], [2, 0]]),
            (
                "SELECT a, count(*) FROM (SELECT * FROM {} UNION ALL SELECT 0, 0) GROUP BY a ORDER BY a",
                vec![[0, 2], [1, 1], [2, 1]],
            ),
            ("SELECT min(a), max(b) FROM {}", vec![[0, 3]]),
            ("SELECT count(a), count(*) FROM {}", vec![[3, 3]]),
            ("SELECT count(DISTINCT a), min(b) FROM {} WHERE a = 0", vec![[1, 3]]),
            ("SELECT a, b FROM {} WHERE a IN (SELECT b + 1 FROM {}) ORDER BY a", vec![[0, 3], [1, -1]]),
            (
                "SELECT s.a, l.b FROM {} s, LATERAL (SELECT b FROM {} t WHERE t.a = s.a) l ORDER BY 1",
                vec![[0, 3], [1, -1], [2, 0]],
            ),
            ("SELECT (SELECT min(a) FROM {}) AS m, 1", vec![[0, 1]]),
            ("WITH c AS (SELECT * FROM {}) SELECT p, q FROM c AS t(p, q) ORDER BY p LIMIT 1", vec![[0, 3]]),
            (
                "SELECT a, b FROM tensordict((SELECT * FROM {}), nulls => 'raise') ORDER BY 1",
                vec![[0, 3], [1, -1], [2, 0]],
            ),
        ] {
            let sql = sql.replace("{}", filled);
            assert_eq!(rows(&ctx, &sql).await, some(&expected), "{sql}");
        }
        assert!(rows(&ctx, &format!("SELECT a FROM {filled} WHERE a IS NULL")).await.is_empty());
    }
}

#[tokio::test]
async fn views_prepared_statements_and_tables_keep_what_was_filled() {
    let ctx = small(2).await;
    execute(&ctx, "SET tensordict.nulls = 'fill'").await;
    // A view has the defaults of when it was made.
    execute(&ctx, "CREATE VIEW v AS SELECT * FROM tensordict((SELECT a FROM small))").await;
    execute(&ctx, "SET tensordict.nulls = 'raise'").await;
    assert_eq!(rows(&ctx, "SELECT * FROM v ORDER BY a").await, some(&[[0], [1], [2]]));
    let prepared = "PREPARE q(INT) AS SELECT b FROM tensordict((SELECT b FROM small WHERE a >= $1), nulls => 'fill')";
    execute(&ctx, prepared).await;
    assert_eq!(rows(&ctx, "EXECUTE q(2)").await, some(&[[0]]));
    assert_eq!(rows(&ctx, "EXECUTE q(9)").await, some::<1>(&[]));
    execute(&ctx, "CREATE TABLE dest(a INT)").await;
    execute(&ctx, "INSERT INTO dest SELECT a FROM tensordict((SELECT a FROM small), nulls => 'fill')").await;
    assert_eq!(rows(&ctx, "SELECT a FROM dest ORDER BY a").await, some(&[[0], [1], [2]]));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("masked.parquet");
    let path = path.to_str().unwrap();
    let masked = "SELECT * FROM tensordict((SELECT * FROM small), nulls => 'mask')";
    execute(&ctx, &format!("COPY ({masked}) TO '{path}' STORED AS PARQUET")).await;
    execute(&ctx, &format!("CREATE EXTERNAL TABLE back STORED AS PARQUET LOCATION '{path}'")).await;
    let direct = ctx.sql(&format!("{masked} ORDER BY a")).await.unwrap();
    let back = ctx.sql("SELECT * FROM back ORDER BY a").await.unwrap();
    let options = Options::default();
    assert_eq!(
        crate::conformance::json(&direct.to_tensordict(&options).await.unwrap()),
        crate::conformance::json(&back.to_tensordict(&options).await.unwrap())
    );
    // Statistics of the file are those of before the fill.
    let sql = "COPY (SELECT a FROM small) TO '{}' STORED AS PARQUET".replace("{}", &format!("{path}.raw.parquet"));
    execute(&ctx, &sql).await;
    execute(&ctx, &format!("CREATE EXTERNAL TABLE raw STORED AS PARQUET LOCATION '{path}.raw.parquet'")).await;
    let sql = "SELECT min(a), max(a), count(a), count(*) FROM tensordict((SELECT a FROM raw), nulls => 'fill')";
    assert_eq!(rows(&ctx, sql).await, some(&[[0, 2, 3, 3]]));
}

#[tokio::test]
async fn names_and_options_of_all_sorts() {
    let ctx = small(1).await;
    let sql = r#"SELECT * FROM tensordict((SELECT 1 AS "A.b", 2 AS "", 3 AS "É", 4 AS a, 5 AS "A"), nulls => 'mask')"#;
    let dict = ctx.sql(sql).await.unwrap().to_tensordict(&Options::default()).await.unwrap();
    assert_eq!(dict.keys().collect::<Vec<_>>(), ["A.b", "", "É", "a", "A"]);
    // Unused columns and their options are pruned, an empty name among them.
    let sql = r#"SELECT "A.b" FROM tensordict((SELECT 1 AS "A.b", CAST(NULL AS INT) AS ""), columns => MAP {'': {'nulls': 'mask'}})"#;
    assert_eq!(rows(&ctx, sql).await, some(&[[1]]));
    for (arguments, says) in [
        ("nulls => 'fill', mask_keys => ['a']", "mask_keys is ['a'], but no column's nulls are masked"),
        ("mask_keys => []", "no column's nulls are masked"),
        ("mask_keys => 'nullable'", "no column's nulls are masked"),
        ("nulls => NULL", "nulls is NULL; it takes"),
        ("nulls => 1", "nulls is 1; it takes"),
        ("nulls => $1", "nulls is $1; it takes"),
        ("nulls => ['fill']", "nulls is ['fill']; it takes"),
        ("columns => MAP {'a': 'fill'}", "columns is"),
        ("columns => MAP {'a': {'copy': 'never'}}", "no column option 'copy'"),
        ("columns => MAP {[]: {'nulls': 'fill'}}", "a column's key is []"),
        ("mask_key => []", "mask_key is []"),
        ("mask_key => 1", "mask_key is 1"),
    ] {
        let error =
            run(&ctx, &format!("SELECT * FROM tensordict((SELECT a FROM small), {arguments})")).await.unwrap_err();
        assert!(error.is_option() && error.to_string().contains(says), "{arguments}: {error}");
    }
    for (name, value) in [
        ("bogus", "x"),
        ("nulls", ""),
        ("copy", "sometimes"),
        ("unsigned", "1"),
        ("device", "cuda:-1"),
        ("device", "cuda:99999999999999999999"),
        ("mask_key", "[]"),
        ("mask_keys", "[1]"),
        ("mask_keys", "[\"x\""),
        ("columns", "{\"a\": {\"nulls\": 3}}"),
        ("columns", "a"),
    ] {
        let error = run(&ctx, &format!("SET tensordict.{name} = '{value}'")).await.unwrap_err();
        assert!(error.is_option(), "{name}={value}: {error}");
    }
    // Defaults about masks are for the queries that mask.
    execute(&ctx, "SET tensordict.mask_keys = '[\"a\"]'").await;
    assert_eq!(
        rows(&ctx, "SELECT b FROM tensordict((SELECT b FROM small), nulls => 'fill') ORDER BY b").await.len(),
        3
    );
    let frame = ctx.sql("SELECT 1 AS one").await.unwrap();
    frame.to_tensordict(&ctx.tensordict_options().unwrap()).await.unwrap();
}

#[tokio::test]
async fn many_columns_and_deep_structs() {
    let ctx = small(1).await;
    let columns: Vec<String> =
        (0..500).map(|i| format!("CAST(nullif({i}, {}) AS BIGINT) AS c{i}", i / 2 * 2)).collect();
    let sql = format!("SELECT * FROM tensordict((SELECT {}), nulls => 'mask')", columns.join(", "));
    let dict = ctx.sql(&sql).await.unwrap().to_tensordict(&Options::default()).await.unwrap();
    assert_eq!((dict.keys().count(), dict.dict("_mask").unwrap().keys().count()), (501, 500));
    assert_eq!(Vec::<bool>::try_from(dict.tensor(["_mask", "c498"]).unwrap()).unwrap(), [false]);
    let leaf: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(2), None]));
    let deep = (0..20).fold(leaf, |inner, _| {
        let field = Field::new("s", inner.data_type().clone(), true);
        Arc::new(StructArray::new(vec![field].into(), vec![inner], None))
    });
    ctx.register_batch("deep", RecordBatch::try_from_iter([("s", deep)]).unwrap()).unwrap();
    let sql = "SELECT * FROM tensordict((SELECT s FROM deep), nulls => 'mask')";
    let dict = ctx.sql(sql).await.unwrap().to_tensordict(&Options::default()).await.unwrap();
    let key: Vec<String> = std::iter::repeat_n("s".to_owned(), 21).collect();
    assert_eq!(Vec::<i32>::try_from(dict.tensor(key).unwrap()).unwrap(), [0, 2, 0]);
}

/// `q` itself with its nulls replaced one by one is what the relation gives.
#[tokio::test(flavor = "multi_thread")]
async fn a_naive_fill_agrees() {
    let queries = [
        "SELECT id, x, st['v'] AS v FROM rows",
        "SELECT id, x, nullif(id % 3, 1) AS v FROM rows WHERE id % 7 > 2",
        "SELECT a.id, b.x, a.st['v'] AS v FROM rows a LEFT JOIN rows b ON a.id = b.id * 2",
        "SELECT max(id) AS id, sum(x) AS x, lag(max(id)) OVER (ORDER BY max(id)) AS v FROM rows GROUP BY id / 9",
        "SELECT id, x, NULL::BIGINT AS v FROM rows WHERE id < 30 UNION ALL SELECT id + 5000, NULL, 1 FROM rows",
    ];
    for (partitions, batch_size) in [(1, 8192), (3, 7), (8, 1)] {
        let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_size);
        let state = SessionStateBuilder::new().with_config(config).with_default_features().with_tensordict().build();
        let ctx = SessionContext::new_with_state(state);
        register_rows(&ctx);
        for query in queries {
            let plain = run(&ctx, &format!("{query} ORDER BY id")).await.unwrap();
            let x = plain.column(1).as_primitive::<Float64Type>();
            let v = plain.column(2).as_primitive::<Int64Type>();
            let options =
                Options::default().nulls(Nulls::Mask).mask_keys(MaskKeys::Columns(vec!["x".into(), "v".into()]));
            let relation =
                format!("SELECT * FROM tensordict(({query}), nulls => 'mask', mask_keys => ['x', 'v']) ORDER BY id");
            let inside = ctx.sql(&relation).await.unwrap().to_tensordict(&Options::default()).await.unwrap();
            let outside =
                ctx.sql(&format!("{query} ORDER BY id")).await.unwrap().to_tensordict(&options).await.unwrap();
            for dict in [inside, outside] {
                let ids = plain.column(0).as_primitive::<Int64Type>().values().to_vec();
                assert_eq!(Vec::<i64>::try_from(dict.tensor("id").unwrap()).unwrap(), ids, "{query}");
                let got = Vec::<f64>::try_from(dict.tensor("x").unwrap()).unwrap();
                let same = |(got, x): (&f64, Option<f64>)| x.map_or(got.is_nan(), |x| x == *got);
                assert!(got.iter().zip(x).all(same), "{query}");
                let filled: Vec<i64> = v.iter().map(Option::unwrap_or_default).collect();
                assert_eq!(Vec::<i64>::try_from(dict.tensor("v").unwrap()).unwrap(), filled, "{query}");
                for (name, column) in [("x", plain.column(1)), ("v", plain.column(2))] {
                    let valid: Vec<bool> = (0..column.len()).map(|row| column.is_valid(row)).collect();
                    assert_eq!(Vec::<bool>::try_from(dict.tensor(["_mask", name]).unwrap()).unwrap(), valid);
                }
            }
        }
    }
}
