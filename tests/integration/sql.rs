//! The relations, the session defaults, the extension traits.

use std::sync::Arc;

use arrow::array::{Array, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use tensorquery::{
    DataFrameExt, MaskKeys, NestedKey, Nulls, Options, SessionContextExt, SessionStateBuilderExt, TensorDict,
};

pub(crate) fn context(partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions).with_information_schema(true);
    let state = SessionStateBuilder::new().with_config(config).with_default_features().with_tensordict().build();
    SessionContext::new_with_state(state)
}

/// Rows 0..1000 in 8 partitions of several batches: `id`, `x` (every 5th null), `l`, `s`, `st`.
pub(crate) fn register_rows(ctx: &SessionContext) {
    let fields = vec![Field::new("v", DataType::Int64, true)];
    let batch = |start: i64| {
        let ids: Vec<i64> = (start..start + 25).collect();
        let x: Float64Array = ids.iter().map(|id| (id % 5 != 0).then_some(*id as f64)).collect();
        let l = ListArray::from_iter_primitive::<Int32Type, _, _>(
            ids.iter().map(|id| (id % 4 != 0).then(|| vec![Some(*id as i32); (*id % 3) as usize])),
        );
        let s: StringArray = ids.iter().map(|id| (id % 7 != 0).then(|| format!("s{id}"))).collect();
        let v: Int64Array = ids.iter().map(|id| (id % 2 != 0).then_some(*id)).collect();
        let st = StructArray::new(fields.clone().into(), vec![Arc::new(v)], None);
        RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(Int64Array::from(ids)) as Arc<dyn Array>, false),
            ("x", Arc::new(x), true),
            ("l", Arc::new(l), true),
            ("s", Arc::new(s), true),
            ("st", Arc::new(st), false),
        ])
        .unwrap()
    };
    let partitions: Vec<Vec<RecordBatch>> = (0..8).map(|p| (0..5).map(|b| batch((p * 5 + b) * 25)).collect()).collect();
    let table = MemTable::try_new(partitions[0][0].schema(), partitions).unwrap();
    ctx.register_table("rows", Arc::new(table)).unwrap();
}

pub(crate) async fn tensordict(ctx: &SessionContext, sql: &str) -> tensorquery::Result<TensorDict> {
    let options = ctx.tensordict_options()?;
    ctx.sql(sql).await?.to_tensordict(&options).await
}

async fn error_of(ctx: &SessionContext, sql: &str) -> tensorquery::Error {
    match tensordict(ctx, sql).await {
        Ok(dict) => panic!("an error is due, got {dict}"),
        Err(error) => error,
    }
}

fn ints(dict: &TensorDict, key: impl Into<NestedKey>) -> Vec<i64> {
    Vec::try_from(dict.tensor(key).unwrap()).unwrap()
}

fn bools(dict: &TensorDict, key: impl Into<NestedKey>) -> Vec<bool> {
    Vec::try_from(dict.tensor(key).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn order_outside_is_kept_with_eight_partitions() {
    let ctx = context(8);
    register_rows(&ctx);
    let descending: Vec<i64> = (0..1000).rev().collect();
    let sql = "SELECT * FROM tensordict((SELECT * FROM rows), nulls => 'mask') ORDER BY id DESC";
    assert_eq!(ints(&tensordict(&ctx, sql).await.unwrap(), "id"), descending);
    // The same where the order is below the operator that the sink adds.
    let frame = ctx.sql("SELECT * FROM rows ORDER BY id DESC").await.unwrap();
    let dict = frame.to_tensordict(&Options::default().nulls(Nulls::Fill)).await.unwrap();
    assert_eq!(ints(&dict, "id"), descending);
    // And where a filled column is the sort key, so that the operator must stay above the merge.
    let frame = ctx.sql("SELECT x, id FROM rows ORDER BY x NULLS FIRST, id").await.unwrap();
    let dict = frame.to_tensordict(&Options::default().nulls(Nulls::Fill)).await.unwrap();
    let ids = ints(&dict, "id");
    assert_eq!(ids[..200], (0..200).map(|row| row * 5).collect::<Vec<_>>());
    assert!(ids[200..].is_sorted());
}

#[tokio::test(flavor = "multi_thread")]
async fn order_by_a_filled_column_sees_the_fill() {
    for partitions in [1, 2, 8] {
        let ctx = context(partitions);
        register_rows(&ctx);
        let flights = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/flights.parquet");
        ctx.register_parquet("flights", flights, Default::default()).await.unwrap();
        for nulls in ["fill", "mask"] {
            let from = format!("FROM tensordict((SELECT dep_delay AS d, flight FROM flights), nulls => '{nulls}')");
            let d = ints(&tensordict(&ctx, &format!("SELECT d {from} ORDER BY d")).await.unwrap(), "d");
            assert!(d.len() == 336_776 && d.is_sorted(), "{partitions} {nulls}");
            let top = ints(&tensordict(&ctx, &format!("SELECT d {from} ORDER BY d DESC LIMIT 2")).await.unwrap(), "d");
            assert_eq!(top, [1301, 1137], "{partitions} {nulls}");
            let f = ints(&tensordict(&ctx, &format!("SELECT * {from} ORDER BY flight, d")).await.unwrap(), "flight");
            assert!(f.is_sorted(), "{partitions} {nulls}");
        }
        let sql = "SELECT st['v'] AS v FROM rows";
        let sql = format!("SELECT v FROM tensordict(({sql}), nulls => 'fill') ORDER BY v LIMIT 501");
        let v = ints(&tensordict(&ctx, &sql).await.unwrap(), "v");
        assert_eq!((v[0], v[499], v[500]), (0, 0, 1), "{partitions}");
    }
}

#[tokio::test]
async fn order_inside_is_refused() {
    let ctx = context(2);
    register_rows(&ctx);
    for sql in [
        "SELECT * FROM tensordict((SELECT * FROM rows ORDER BY id), nulls => 'fill')",
        "SELECT * FROM tensordict((WITH r AS (SELECT * FROM rows) (SELECT * FROM r ORDER BY id)), nulls => 'fill')",
    ] {
        let error = error_of(&ctx, sql).await;
        assert!(error.to_string().contains("ORDER BY inside tensordict(…) has no effect"), "{error}");
    }
    // With a limit it has one.
    let sql = "SELECT id FROM tensordict((SELECT * FROM rows ORDER BY id DESC LIMIT 3), nulls => 'fill') ORDER BY id";
    assert_eq!(ints(&tensordict(&ctx, sql).await.unwrap(), "id"), [997, 998, 999]);
}

#[tokio::test]
async fn masks_are_keys_of_the_relation_and_observed_in_results() {
    let ctx = context(2);
    register_rows(&ctx);
    // A relation has the masks of all that is nullable, whatever its rows.
    let sql = "SELECT * FROM tensordict((SELECT x, s, id FROM rows WHERE id IN (1, 2)), nulls => 'mask', mask_key => 'ok') ORDER BY id";
    let dict = tensordict(&ctx, sql).await.unwrap();
    assert_eq!(dict.keys().collect::<Vec<_>>(), ["x", "s", "id", "ok"]);
    assert_eq!(dict.dict("ok").unwrap().keys().collect::<Vec<_>>(), ["x", "s"]);
    assert_eq!(bools(&dict, ["ok", "x"]), [true, true]);
    // A whole result has those of what was null.
    let options = Options::default().nulls(Nulls::Mask);
    let frame = ctx.sql("SELECT x, s, id FROM rows WHERE id IN (1, 7) ORDER BY id").await.unwrap();
    let dict = frame.to_tensordict(&options).await.unwrap();
    assert_eq!(dict.dict("_mask").unwrap().keys().collect::<Vec<_>>(), ["s"]);
    assert_eq!(bools(&dict, ["_mask", "s"]), [true, false]);
    let frame = ctx.sql("SELECT x, id FROM rows WHERE id = 1").await.unwrap();
    assert_eq!(frame.to_tensordict(&options).await.unwrap().keys().collect::<Vec<_>>(), ["x", "id"]);
    // Masks can be selected by name.
    let sql = "SELECT _mask['x'] AS known FROM tensordict((SELECT x, id FROM rows), nulls => 'mask') WHERE id < 2 ORDER BY id";
    assert_eq!(bools(&tensordict(&ctx, sql).await.unwrap(), "known"), [false, true]);
}

#[tokio::test]
async fn a_filter_on_a_filled_column_sees_the_fill() {
    let ctx = context(4);
    register_rows(&ctx);
    let count = |sql: &'static str| {
        let ctx = ctx.clone();
        async move { tensordict(&ctx, sql).await.unwrap().batch_size()[0] }
    };
    // 500 odd values; the others are null and become 0.
    let zeros = "SELECT * FROM tensordict((SELECT st['v'] AS v FROM rows), nulls => 'fill') WHERE v = 0";
    assert_eq!(count(zeros).await, 500);
    let below = "SELECT * FROM tensordict((SELECT st['v'] AS v FROM rows WHERE st['v'] = 0), nulls => 'fill')";
    assert_eq!(count(below).await, 0);
    let masked = "SELECT * FROM tensordict((SELECT x, id FROM rows), nulls => 'mask') WHERE NOT _mask['x']";
    assert_eq!(count(masked).await, 200);
}

#[tokio::test]
async fn raise_names_column_and_row() {
    let ctx = context(1);
    let error = error_of(&ctx, "SELECT x FROM (VALUES (1), (NULL), (NULL)) AS t(x)").await;
    assert!(error.is_null());
    assert_eq!((error.nested_key(), error.row()), (Some(&NestedKey::from("x")), Some(1)));
    assert!(error.to_string().starts_with("'x': 2 nulls in one record batch"), "{error}");
    // Of eight partitions any may be the first to report.
    register_rows(&ctx);
    let error = error_of(&ctx, "SELECT id, x FROM rows").await;
    let said = "'x': nulls in a column whose nulls are refused (nulls=raise); \
                nulls=fill replaces nulls, nulls=mask replaces them and says where they were";
    assert_eq!((error.is_null(), error.row(), error.to_string().as_str()), (true, None, said));
    // Inside a struct, and for what is no tensor.
    let error = error_of(&ctx, "SELECT st FROM rows").await;
    assert_eq!(error.nested_key(), Some(&NestedKey::from(["st", "v"])));
    assert!(error_of(&ctx, "SELECT s FROM rows").await.is_null());
    // What isn't delivered isn't checked.
    let sql = "SELECT x FROM tensordict((SELECT x, id FROM rows), nulls => 'raise') WHERE id % 5 = 1 LIMIT 2";
    assert_eq!(tensordict(&ctx, sql).await.unwrap().batch_size(), [2]);
}

#[tokio::test]
async fn strings_keep_the_nulls_that_were_ruled_on() {
    let ctx = context(2);
    register_rows(&ctx);
    let sql =
        "SELECT s, _mask FROM tensordict((SELECT s, id FROM rows), nulls => 'mask') WHERE id IN (7, 8) ORDER BY id";
    let dict = tensordict(&ctx, sql).await.unwrap();
    let strings = dict.non_tensor("s").unwrap();
    assert_eq!(strings.value(0).unwrap().to_string(), "null");
    assert_eq!(strings.value(1).unwrap().to_string(), "\"s8\"");
    // A new column made of them is not ruled on.
    let sql = "SELECT upper(s) AS u FROM tensordict((SELECT s FROM rows), nulls => 'mask')";
    assert!(error_of(&ctx, sql).await.is_null());
}

#[tokio::test]
async fn options_by_name_by_column_and_by_session() {
    let ctx = context(2);
    register_rows(&ctx);
    let sql = "SELECT * FROM tensordict((SELECT x, st, id FROM rows), nulls => 'fill',
        columns => MAP {['st', 'v']: {'nulls': 'mask'}}, mask_key => ['m', 'n']) ORDER BY id LIMIT 2";
    let dict = tensordict(&ctx, sql).await.unwrap();
    assert_eq!(dict.keys().collect::<Vec<_>>(), ["x", "st", "id", "m"]);
    assert_eq!(bools(&dict, ["m", "n", "st", "v"]), [false, true]);
    assert!(!dict.contains_key(["m", "n", "x"]));

    ctx.sql("SET tensordict.nulls = 'mask'").await.unwrap().collect().await.unwrap();
    ctx.sql("SET tensordict.mask_key = '[\"a\", \"b\"]'").await.unwrap().collect().await.unwrap();
    let dict = tensordict(&ctx, "SELECT x FROM rows ORDER BY id LIMIT 2").await.unwrap();
    assert_eq!(bools(&dict, ["a", "b", "x"]), [false, true]);
    // An argument wins over the session; its idle mask key does not stand in the way.
    let dict = tensordict(&ctx, "SELECT * FROM tensordict((SELECT x FROM rows), nulls => 'fill')").await.unwrap();
    assert_eq!(dict.keys().collect::<Vec<_>>(), ["x"]);
    let shown = ctx.sql("SHOW tensordict.nulls").await.unwrap().collect().await.unwrap();
    assert!(format!("{shown:?}").contains("mask"));
    let refused = ctx.sql("SET tensordict.nulls = 'maybe'").await;
    let error = tensorquery::Error::from(refused.unwrap_err());
    assert!(error.is_option() && error.to_string().contains("'raise', 'fill', 'mask'"), "{error}");
}

#[tokio::test]
async fn calls_that_make_no_sense_say_what_to_write() {
    let ctx = context(2);
    register_rows(&ctx);
    for (call, says) in [
        ("tensordict(rows)", "takes a query in parentheses, got rows"),
        ("tensordict('SELECT 1')", "takes a query in parentheses, got 'SELECT 1'"),
        ("tensordict()", "got nothing"),
        ("tensordict((SELECT id FROM rows), 'mask')", "options by name"),
        ("tensordict((SELECT id FROM rows), null_mode => 'mask')", "there is no option 'null_mode'"),
        ("tensordict((SELECT id FROM rows), nulls => 'maybe')", "it takes 'raise', 'fill', 'mask'"),
        ("tensordict((SELECT id FROM rows), nulls => mask)", "nulls is mask; it takes"),
        ("tensordict((SELECT id FROM rows), nulls => 'fill', nulls => 'mask')", "given nulls twice"),
        ("tensordict((SELECT x FROM rows), nulls => 'fill', mask_key => 'm')", "no column's nulls are masked"),
        ("tensordict((SELECT x, id AS m FROM rows), nulls => 'mask', mask_key => 'm')", "name of a column"),
        ("tensordict((SELECT x FROM rows), nulls => 'mask', mask_keys => 'observed')", "can't depend on its data"),
        ("tensordict((SELECT x FROM rows), nulls => 'mask', mask_keys => ['y'])", "is not there"),
        ("tensordict((SELECT x FROM rows), columns => MAP {'y': {'nulls': 'fill'}})", "the columns are 'x'"),
        ("tensordict((SELECT x FROM rows), nulls => 'fill') WITH ORDINALITY", "no modifiers"),
        ("tensordict((SELECT a.id, b.id FROM rows a JOIN rows b ON a.id = b.id))", "two columns have this name"),
        ("tensordict((SELECT y FROM rows))", "y"),
    ] {
        let error = error_of(&ctx, &format!("SELECT * FROM {call}")).await;
        assert!(error.to_string().contains(says), "{call}: {error}");
    }
    // A table may have our name; only the call is ours.
    ctx.sql("CREATE TABLE tensordict AS SELECT 1::BIGINT AS one").await.unwrap().collect().await.unwrap();
    assert_eq!(ints(&tensordict(&ctx, "SELECT * FROM tensordict").await.unwrap(), "one"), [1]);
}

#[tokio::test]
async fn a_schema_is_told_without_running() {
    let ctx = context(2);
    register_rows(&ctx);
    let sql = "SELECT path, kind, dtype, shape, nullable, mask_path
        FROM tensordict_schema((SELECT *, 1 / (id - id) AS fails FROM rows), nulls => 'mask')";
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    let table = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    assert_eq!(
        table,
        "\
+-------+------------+---------+--------+----------+------------+
| path  | kind       | dtype   | shape  | nullable | mask_path  |
+-------+------------+---------+--------+----------+------------+
| id    | tensor     | int64   | [n]    | false    |            |
| x     | tensor     | float64 | [n]    | true     | _mask.x    |
| l     | jagged     | int32   | [n, *] | true     | _mask.l    |
| s     | non_tensor |         | [n]    | true     | _mask.s    |
| st    | dict       |         | [n]    | false    |            |
| st.v  | tensor     | int64   | [n]    | true     | _mask.st.v |
| fails | tensor     | int64   | [n]    | false    |            |
+-------+------------+---------+--------+----------+------------+"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_have_the_same_keys_and_exact_batches() {
    let ctx = context(8);
    register_rows(&ctx);
    let options = Options::default().nulls(Nulls::Mask);
    let frame = ctx.sql("SELECT * FROM rows ORDER BY id").await.unwrap();
    let whole = frame.clone().to_tensordict(&options).await.unwrap();
    let stream = frame.clone().tensordict_stream(&options).await.unwrap().with_batch_size(64);
    let dicts: Vec<TensorDict> = stream.try_collect().await.unwrap();
    assert_eq!(dicts.len(), 16);
    for (i, dict) in dicts.iter().enumerate() {
        let start = i as i64 * 64;
        let rows = whole.index(start..start + 64).unwrap();
        assert_eq!(dict.batch_size(), rows.batch_size());
        assert_eq!(crate::conformance::json(dict), crate::conformance::json(&rows));
    }
    let empty = ctx.sql("SELECT id, x, l FROM rows WHERE id < 0").await.unwrap();
    let stream = empty.clone().tensordict_stream(&options).await.unwrap();
    let keys: Vec<_> = stream.schema().entries().iter().map(|entry| entry.key().to_string()).collect();
    assert_eq!(keys, ["'id'", "'x'", "'l'", "'_mask'"]);
    assert!(stream.try_collect::<Vec<_>>().await.unwrap().is_empty());
    let dict = empty.to_tensordict(&options).await.unwrap();
    assert_eq!((dict.batch_size(), dict.jagged("l").unwrap().shape()), (vec![0], vec![0, -1]));
}

#[tokio::test]
async fn an_error_ends_a_stream() {
    let ctx = context(1);
    register_rows(&ctx);
    let frame = ctx.sql("SELECT id, x FROM rows").await.unwrap();
    let mut stream = frame.tensordict_stream(&Options::default()).await.unwrap();
    assert!(stream.try_next().await.unwrap_err().is_null());
    assert!(stream.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_device_that_is_not_there_fails_before_the_query_starts() {
    let ctx = context(2);
    register_rows(&ctx);
    let frame = ctx.sql("SELECT 1 / (id - id) AS fails FROM rows").await.unwrap();
    let error = frame.to_tensordict(&Options::default().device(tch::Device::Cuda(99))).await.unwrap_err();
    assert!(error.is_device() && error.to_string().contains("cuda:99"), "{error}");
}

#[tokio::test]
async fn a_registered_table_never_sees_writes_to_its_tensors() {
    let ctx = context(1);
    register_rows(&ctx);
    let first = tensordict(&ctx, "SELECT id FROM rows").await.unwrap();
    let _ = first.tensor("id").unwrap().shallow_clone().f_add_scalar_(10).unwrap();
    let second = tensordict(&ctx, "SELECT id FROM rows").await.unwrap();
    assert_eq!(ints(&second, "id"), (0..1000).collect::<Vec<_>>());
    // A result of one batch, which could be viewed if nobody else held it.
    let table =
        RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1, 2, 3])) as Arc<dyn Array>)]).unwrap();
    ctx.register_batch("one", table).unwrap();
    let first = tensordict(&ctx, "SELECT x FROM one").await.unwrap();
    let _ = first.tensor("x").unwrap().shallow_clone().f_add_scalar_(10).unwrap();
    assert_eq!(ints(&tensordict(&ctx, "SELECT x FROM one").await.unwrap(), "x"), [1, 2, 3]);
}

#[tokio::test]
async fn an_empty_selection_keeps_its_types() {
    let ctx = context(2);
    register_rows(&ctx);
    let sql = "SELECT id, id > 1 AS b, make_array(id) AS l FROM rows WHERE false";
    let dict = tensordict(&ctx, sql).await.unwrap();
    assert_eq!(
        dict.to_string(),
        "TensorDict  batch_size=[0]  device=none
  id  tensor  int64  [0]     cpu
  b   tensor  bool   [0]     cpu
  l   jagged  int64  [0, *]  cpu"
    );
}

#[tokio::test]
async fn validity_of_outer_structs_reaches_fields_of_fields() {
    let ctx = context(1);
    register_nested(&ctx);
    let options = Options::default().nulls(Nulls::Mask).mask_keys(MaskKeys::Nullable);
    let dict = ctx.sql("SELECT * FROM t").await.unwrap().to_tensordict(&options).await.unwrap();
    let key = ["outer", "inner", "v"];
    assert_eq!(Vec::<i32>::try_from(dict.tensor(key).unwrap()).unwrap(), [1, 0, 3]);
    assert_eq!(bools(&dict, ["_mask", "outer", "inner", "v"]), [true, false, true]);
}

/// `outer{inner{v: [1, 2, 3]}}`, where only the outer struct is null at row 1.
fn register_nested(ctx: &SessionContext) {
    let inner_fields = vec![Field::new("v", DataType::Int32, true)];
    let values = arrow::array::Int32Array::from(vec![1, 2, 3]);
    let inner = StructArray::new(inner_fields.clone().into(), vec![Arc::new(values)], None);
    let outer_fields = vec![Field::new("inner", DataType::Struct(inner_fields.into()), true)];
    let nulls = arrow::buffer::NullBuffer::from(vec![true, false, true]);
    let outer = StructArray::new(outer_fields.clone().into(), vec![Arc::new(inner)], Some(nulls));
    let schema = Schema::new(vec![Field::new("outer", DataType::Struct(outer_fields.into()), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(outer)]).unwrap();
    ctx.register_batch("t", batch).unwrap();
}

#[tokio::test]
async fn a_field_is_null_where_its_struct_is() {
    let ctx = context(1);
    register_nested(&ctx);
    let options = Options::default().nulls(Nulls::Mask);
    for query in
        ["SELECT outer['inner']['v'] AS v FROM t", "SELECT i['v'] AS v FROM (SELECT outer['inner'] AS i FROM t)"]
    {
        let dict = ctx.sql(query).await.unwrap().to_tensordict(&options).await.unwrap();
        assert_eq!(Vec::<i32>::try_from(dict.tensor("v").unwrap()).unwrap(), [1, 0, 3], "{query}");
        assert_eq!(bools(&dict, ["_mask", "v"]), [true, false, true], "{query}");
    }
    let count = |filter: &'static str| {
        let (ctx, query) = (ctx.clone(), format!("SELECT count(*) AS n FROM t WHERE {filter}"));
        async move { ints(&ctx.sql(&query).await.unwrap().to_tensordict(&Options::default()).await.unwrap(), "n") }
    };
    assert_eq!(count("outer['inner']['v'] IS NULL").await, [1]);
    assert_eq!(count("outer['inner']['v'] = 2").await, [0]);
    assert_eq!(count("outer['inner'] IS NULL").await, [1]);
}
