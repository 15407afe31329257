//! What a relation can't honour, and what it hands on to the end of the query.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, RunArray, StringArray, StructArray, UInt64Array, UnionArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int32Type, Schema, UnionFields};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use tensorquery::{
    DataFrameExt, MaskKeys, Nulls, Options, SessionContextExt, TensorDict, TensorDictSchema, from_arrow, write_json,
};

use crate::sql::{context, register_rows, tensordict};

async fn error_of(ctx: &SessionContext, sql: &str) -> tensorquery::Error {
    tensordict(ctx, sql).await.map(|dict| dict.to_string()).unwrap_err()
}

fn numbers(dict: &TensorDict, key: &str) -> Vec<i64> {
    Vec::try_from(dict.tensor(key).unwrap()).unwrap()
}

const LARGE: &str = "SELECT u, id FROM (VALUES (18446744073709551615, 1), (7, 2)) AS t(u, id)";

#[tokio::test]
async fn unsigned_numbers_are_reinterpreted_where_the_relation_says_so() {
    let ctx = context(2);
    let large = format!("SELECT arrow_cast(u, 'UInt64') AS u, id FROM ({LARGE}) AS t");
    let checked = format!("SELECT * FROM tensordict(({large})) ORDER BY id");
    let error = error_of(&ctx, &checked).await;
    assert!(error.is_overflow() && error.to_string().contains("unsigned=reinterpret"), "{error}");
    // The advice works, through what comes after the relation too.
    for sql in [
        format!("SELECT * FROM tensordict(({large}), unsigned => 'reinterpret') ORDER BY id"),
        format!("SELECT * FROM tensordict(({large}), columns => {{'u': {{'unsigned': 'reinterpret'}}}}) ORDER BY id"),
        format!(
            "SELECT v AS u, d.id FROM (SELECT u AS v, id FROM tensordict(({large}), unsigned => 'reinterpret')) AS d
             JOIN (VALUES (1), (2)) AS o(id) ON o.id = d.id ORDER BY d.id"
        ),
    ] {
        assert_eq!(numbers(&tensordict(&ctx, &sql).await.unwrap(), "u"), [-1, 7], "{sql}");
        let stream = ctx.sql(&sql).await.unwrap().tensordict_stream(&Options::default()).await.unwrap();
        let dicts: Vec<TensorDict> = stream.try_collect().await.unwrap();
        let rows: Vec<i64> = dicts.iter().flat_map(|dict| numbers(dict, "u")).collect();
        assert_eq!(rows, [-1, 7], "{sql}");
    }
    // Lists and structs of them, and no other column.
    let nested = format!("SELECT [u] AS l, named_struct('u', u) AS s, u AS w FROM ({large}) AS t WHERE id = 1");
    let options = "columns => {'l': {'unsigned': 'reinterpret'}, 's': {'unsigned': 'reinterpret'}}";
    let sql = format!("SELECT l, s FROM tensordict(({nested}), {options})");
    let dict = tensordict(&ctx, &sql).await.unwrap();
    assert_eq!(Vec::<i64>::try_from(dict.jagged("l").unwrap().values()).unwrap(), [-1]);
    assert_eq!(Vec::<i64>::try_from(dict.tensor(["s", "u"]).unwrap()).unwrap(), [-1]);
    let error = error_of(&ctx, &format!("SELECT * FROM tensordict(({nested}), {options})")).await;
    assert!(error.is_overflow() && error.to_string().contains("'w'"), "{error}");
}

#[tokio::test]
async fn what_the_sink_decides_is_refused_in_a_relation() {
    let ctx = context(2);
    register_rows(&ctx);
    for relation in ["tensordict", "tensordict_schema"] {
        for (option, value) in [("copy", "never"), ("device", "cpu")] {
            let error =
                error_of(&ctx, &format!("SELECT * FROM {relation}((SELECT id FROM rows), {option} => '{value}')"))
                    .await;
            assert!(error.is_option(), "{error}");
            let remedy =
                format!("SET tensordict.{option} = '{value}', --{option} of the command, or Options::{option}");
            assert!(error.to_string().contains(&remedy), "{error}");
        }
    }
    // As the session's defaults they are no hindrance.
    ctx.sql("SET tensordict.copy = 'always'").await.unwrap();
    let dict = tensordict(&ctx, "SELECT * FROM tensordict((SELECT id FROM rows WHERE id < 2)) ORDER BY id").await;
    assert_eq!(numbers(&dict.unwrap(), "id"), [0, 1]);
}

#[tokio::test]
async fn correlated_relations_are_refused_with_what_to_write() {
    let ctx = context(2);
    let t = "(VALUES (1), (2)) AS t(x)";
    for sql in [
        format!("SELECT * FROM {t}, LATERAL tensordict((SELECT t.x + 1 AS y))"),
        format!("SELECT * FROM {t} CROSS JOIN LATERAL (SELECT * FROM tensordict((SELECT t.x + 1 AS y)))"),
        format!(
            "SELECT x, (SELECT max(y) FROM tensordict((SELECT v AS y FROM (VALUES (1)) AS u(v) WHERE v = t.x))) FROM {t}"
        ),
        format!(
            "SELECT x FROM {t} WHERE EXISTS (SELECT 1 FROM tensordict((SELECT v FROM (VALUES (1)) AS u(v) WHERE v = t.x)))"
        ),
        format!(
            "SELECT x FROM {t} WHERE x IN (SELECT v FROM tensordict((SELECT v FROM (VALUES (1)) AS u(v)
            WHERE EXISTS (SELECT 1 FROM (VALUES (1)) AS w(k) WHERE k = t.x))))"
        ),
    ] {
        let error = error_of(&ctx, &sql).await.to_string();
        assert!(error.contains("not supported; join with it: SELECT"), "{sql}: {error}");
        assert!(error.contains("LATERAL"), "{sql}: {error}");
    }
    // A correlation that stays inside, or outside, is none of the relation's business.
    for (sql, expected) in [
        (
            "SELECT x FROM tensordict((SELECT a.x, b.y FROM (VALUES (1), (2)) AS a(x), LATERAL (SELECT v AS y
            FROM (VALUES (1)) AS u(v) WHERE v = a.x) b))",
            vec![1],
        ),
        (
            "SELECT x FROM tensordict((SELECT x FROM (VALUES (1), (2)) AS t(x)
            WHERE EXISTS (SELECT 1 FROM (VALUES (2)) AS u(v) WHERE v = t.x)))",
            vec![2],
        ),
        (
            "SELECT x FROM (VALUES (1), (2)) AS t(x) WHERE EXISTS (SELECT 1 FROM tensordict((SELECT v
            FROM (VALUES (2)) AS u(v))) AS d WHERE d.v = t.x)",
            vec![2],
        ),
        (
            "SELECT x FROM (VALUES (1), (2)) AS t(x) JOIN tensordict((SELECT v FROM (VALUES (2)) AS u(v))) AS d
            ON d.v = t.x",
            vec![2],
        ),
    ] {
        assert_eq!(numbers(&tensordict(&ctx, sql).await.unwrap(), "x"), expected, "{sql}");
    }
}

fn field(name: &str, data_type: DataType, nullable: bool) -> FieldRef {
    Arc::new(Field::new(name, data_type, nullable))
}

/// `s{…}`, null in its second row of three.
fn under_a_null(children: Vec<(&str, ArrayRef)>, required: bool) -> RecordBatch {
    let fields: Fields =
        children.iter().map(|(name, child)| field(name, child.data_type().clone(), !required)).collect();
    let nulls = NullBuffer::from(vec![true, false, true]);
    let children = children.into_iter().map(|(_, child)| child).collect();
    let structs = StructArray::new(fields, children, Some(nulls));
    let schema = Schema::new(vec![field("s", structs.data_type().clone(), true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(structs)]).unwrap()
}

#[tokio::test]
async fn fields_without_validity_are_null_below_null_structs() {
    let fields: UnionFields = [(0, field("i", DataType::Int64, true))].into_iter().collect();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9]));
    let sparse = UnionArray::try_new(fields.clone(), vec![0; 3].into(), None, vec![Arc::clone(&numbers)]).unwrap();
    let dense = UnionArray::try_new(fields, vec![0; 3].into(), Some(vec![0, 1, 2].into()), vec![numbers]).unwrap();
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![3]), &StringArray::from(vec!["a"])).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![("u", Arc::new(sparse)), ("d", Arc::new(dense)), ("r", Arc::new(runs))];
    let ctx = context(1);
    ctx.register_batch("t", under_a_null(columns, false)).unwrap();
    for (name, shown) in [("u", ["7", "null", "9"]), ("d", ["7", "null", "9"]), ("r", ["\"a\"", "null", "\"a\""])] {
        let sql = format!("SELECT s['{name}'] AS c FROM t");
        let options = Options::default().nulls(Nulls::Mask);
        let dict = ctx.sql(&sql).await.unwrap().to_tensordict(&options).await.unwrap();
        let values: Vec<_> = (0..3).map(|row| dict.non_tensor("c").unwrap().value(row).unwrap().to_string()).collect();
        assert_eq!(values, shown, "{name}");
        let mask: Vec<bool> = Vec::try_from(dict.tensor(["_mask", "c"]).unwrap()).unwrap();
        assert_eq!(mask, [true, false, true], "{name}");
    }
}

#[tokio::test]
async fn required_fields_of_nullable_structs_are_nullable_once_unnested() {
    let ctx = context(1);
    let inner = StructArray::new(
        Fields::from(vec![field("v", DataType::Int32, false)]),
        vec![Arc::new(Int32Array::from(vec![1, 2, 3]))],
        None,
    );
    let columns: Vec<(&str, ArrayRef)> = vec![("a", Arc::new(Int64Array::from(vec![1, 2, 3]))), ("i", Arc::new(inner))];
    ctx.register_batch("t", under_a_null(columns, true)).unwrap();
    let unnested = "SELECT a, i FROM (SELECT unnest(s) FROM t) AS u(a, i)";
    let relation = format!("SELECT * FROM tensordict(({unnested}), nulls => 'mask')");
    let masks = |dict: &TensorDict| {
        let mask = |dict: &TensorDict, key: &[&str]| Vec::<bool>::try_from(dict.tensor(key).unwrap()).unwrap();
        [mask(dict, &["_mask", "a"]), mask(dict, &["_mask", "i", "v"])]
    };
    let expected = [vec![true, false, true], vec![true, false, true]];
    let dict = tensordict(&ctx, &relation).await.unwrap();
    assert_eq!((numbers(&dict, "a"), masks(&dict)), (vec![1, 0, 3], expected.clone()));
    // A stream announces the masks that come.
    let options = Options::default().nulls(Nulls::Mask);
    let stream = ctx.sql(unnested).await.unwrap().tensordict_stream(&options).await.unwrap();
    let dicts: Vec<TensorDict> = stream.try_collect().await.unwrap();
    assert_eq!(masks(&dicts[0]), expected);
    let schema = ctx.sql(unnested).await.unwrap().tensordict_schema(&options).unwrap();
    assert!(schema.iter().all(|entry| entry.nullable()), "{schema}");
    // Struct by struct, all the way down.
    let deep =
        "SELECT * FROM tensordict((SELECT unnest(i) FROM (SELECT unnest(s) FROM t) AS u(a, i)), nulls => 'fill')";
    let dict = tensordict(&ctx, deep).await.unwrap();
    let (_, entry) = dict.iter().next().unwrap();
    assert_eq!(entry.kind(), "tensor");
    let error = error_of(&ctx, &format!("SELECT * FROM tensordict(({unnested}))")).await;
    assert!(error.is_null(), "{error}");
}

#[test]
fn nulls_are_counted_where_they_were_looked_for() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), None]));
    let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
    let error = from_arrow(batch, &Options::default()).unwrap_err().to_string();
    assert!(error.starts_with("'x': 2 nulls in one record batch of a column whose nulls are refused"), "{error}");
}

/// Runs on a stack of the size that threads have by default.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

fn nested(levels: usize, required: bool) -> RecordBatch {
    let mut array: ArrayRef = Arc::new(UInt64Array::from(vec![7]));
    for _ in 0..levels {
        let fields = Fields::from(vec![field("a", array.data_type().clone(), !required)]);
        array = Arc::new(StructArray::new(fields, vec![array], None));
    }
    RecordBatch::try_from_iter([("s", array)]).unwrap()
}

#[test]
fn deep_types_are_an_error() {
    on_a_small_stack(|| {
        for levels in [65, 200, 500] {
            let error = from_arrow(nested(levels, true), &Options::default()).unwrap_err();
            assert!(error.is_schema(), "{error}");
            assert!(error.to_string().starts_with("'s': its type nests deeper than 64 levels; "), "{error}");
        }
        let dict = from_arrow(nested(64, true), &Options::default()).unwrap();
        assert!(format!("{dict:#}").contains("tensor"));
        write_json(&dict, &mut Vec::new()).unwrap();
        // Masks lie as deep as their columns, below the mask key.
        let masked = Options::default().nulls(Nulls::Mask).mask_keys(MaskKeys::Nullable);
        let error = from_arrow(nested(64, false), &masked).unwrap_err();
        assert!(error.to_string().contains("deeper than 63 levels"), "{error}");
        from_arrow(nested(63, false), &masked).unwrap();
        let error = from_arrow(nested(1, false), &masked.clone().mask_key(["m"; 65])).unwrap_err();
        assert!(error.is_option() && error.to_string().contains("65 names"), "{error}");
        let error = from_arrow(nested(1, false), &masked.mask_key("")).unwrap_err();
        assert!(error.is_option() && error.to_string().contains("not empty"), "{error}");
    });
    let mut list = DataType::Int64;
    for _ in 0..65 {
        list = DataType::List(field("item", list, true));
    }
    let schema = Schema::new(vec![Field::new("l", list, true)]);
    assert!(TensorDictSchema::resolve(&schema, &Options::default()).unwrap_err().is_schema());
}

#[tokio::test]
async fn settings_are_reset_by_name() {
    let ctx = context(1);
    for set in ["nulls = 'mask'", "mask_key = 'm'", "columns = '{\"x\": {\"nulls\": \"fill\"}}'"] {
        ctx.sql(&format!("SET tensordict.{set}")).await.unwrap();
    }
    ctx.reset_tensordict_option("columns").unwrap();
    assert_eq!(ctx.tensordict_options().unwrap(), Options::default().nulls(Nulls::Mask).mask_key("m"));
    ctx.reset_tensordict_option("mask_key").unwrap();
    ctx.reset_tensordict_option("nulls").unwrap();
    assert_eq!(ctx.tensordict_options().unwrap(), Options::default());
    assert!(ctx.reset_tensordict_option("nope").unwrap_err().is_option());
}
