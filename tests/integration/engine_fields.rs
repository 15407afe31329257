//! Fields of structs in SQL: nulls of each level reach the value.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int8Array, Int32Array, MapArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type, Schema};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tensorquery::{DataFrameExt, MaskKeys, Nulls, Options};

use crate::sql::context;

fn field(name: &str, data_type: DataType, nullable: bool) -> FieldRef {
    Arc::new(Field::new(name, data_type, nullable))
}

/// `outer{inner{v}}` of 1, 2, 3 where `outer` alone is null in the second row.
fn outer(nullable_below: bool) -> RecordBatch {
    let v = field("v", DataType::Int32, nullable_below);
    let w = field("w", DataType::Int32, nullable_below);
    let values: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![1, 2, 3])), Arc::new(Int32Array::from(vec![4, 5, 6]))];
    let inner = StructArray::new(Fields::from(vec![v, w]), values, None);
    let fields = Fields::from(vec![field("inner", inner.data_type().clone(), nullable_below)]);
    let nulls = NullBuffer::from(vec![true, false, true]);
    let outer = StructArray::new(fields, vec![Arc::new(inner)], Some(nulls));
    let schema = Schema::new(vec![field("outer", outer.data_type().clone(), true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(outer)]).unwrap()
}

fn masked() -> Options {
    Options::default().nulls(Nulls::Mask).mask_keys(MaskKeys::Nullable)
}

async fn ints(ctx: &SessionContext, sql: &str) -> Vec<Option<i64>> {
    let frame = ctx.sql(sql).await.unwrap();
    let mut values = Vec::new();
    for batch in frame.collect().await.unwrap() {
        let column = arrow::compute::cast(batch.column(0), &DataType::Int64).unwrap();
        values.extend(column.as_primitive::<Int64Type>());
    }
    values
}

async fn check_all(ctx: &SessionContext) {
    for path in ["outer['inner']['v']", "t.outer.inner.v", "get_field(outer, 'inner', 'v')"] {
        let dict =
            ctx.sql(&format!("SELECT {path} AS v FROM t")).await.unwrap().to_tensordict(&masked()).await.unwrap();
        assert_eq!(Vec::<i32>::try_from(dict.tensor("v").unwrap()).unwrap(), [1, 0, 3], "{path}");
        assert_eq!(Vec::<bool>::try_from(dict.tensor(["_mask", "v"]).unwrap()).unwrap(), [true, false, true]);
    }
    for (sql, expected) in [
        ("SELECT count(*) FROM t WHERE outer['inner']['v'] IS NULL", vec![Some(1)]),
        ("SELECT outer['inner']['v'] FROM t WHERE outer['inner']['v'] > 1", vec![Some(3)]),
        ("SELECT count(outer['inner']['v']) FROM t", vec![Some(2)]),
        ("SELECT sum(outer['inner']['v']) FROM t", vec![Some(4)]),
        ("SELECT min(outer['inner']['w']) FROM t WHERE outer['inner']['v'] IS DISTINCT FROM 1", vec![Some(6)]),
        ("SELECT i['v'] FROM (SELECT outer['inner'] AS i FROM t)", vec![Some(1), None, Some(3)]),
        ("SELECT outer['inner']['v'] FROM t ORDER BY 1 NULLS FIRST", vec![None, Some(1), Some(3)]),
        ("SELECT count(*) FROM t GROUP BY outer['inner']['v'] ORDER BY outer['inner']['v']", vec![Some(1); 3]),
        ("SELECT count(*) FROM t a JOIN t b ON a.outer['inner']['v'] = b.outer['inner']['v']", vec![Some(2)]),
        ("SELECT (SELECT max(outer['inner']['v']) FROM t WHERE outer['inner']['w'] < 6)", vec![Some(1)]),
        ("SELECT v FROM (SELECT unnest(outer['inner']) AS i FROM t) AS u(v, w)", vec![Some(1), None, Some(3)]),
        ("SELECT i['v'] FROM (SELECT unnest(outer) FROM t) AS u(i)", vec![Some(1), None, Some(3)]),
    ] {
        assert_eq!(ints(ctx, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_null_struct_has_null_fields_in_memory_and_in_parquet() {
    for nullable_below in [true, false] {
        let ctx = context(1);
        ctx.register_batch("t", outer(nullable_below)).unwrap();
        check_all(&ctx).await;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let frame = ctx.table("t").await.unwrap();
        frame.write_parquet(path.to_str().unwrap(), DataFrameWriteOptions::new(), None).await.unwrap();
        ctx.deregister_table("t").unwrap();
        ctx.register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
        check_all(&ctx).await;
        ctx.sql("SET datafusion.execution.parquet.pushdown_filters = true").await.unwrap();
        check_all(&ctx).await;
        // The access still moves into the scan.
        let plan = ctx.sql("EXPLAIN SELECT outer['inner']['v'] AS v FROM t").await.unwrap().collect().await.unwrap();
        let plan = arrow::util::pretty::pretty_format_batches(&plan).unwrap().to_string();
        assert!(plan.contains("projection=[get_field(outer@0, inner, v) as v]"), "{plan}");
    }
}

#[tokio::test]
async fn other_sessions_are_left_alone() {
    let ctx = SessionContext::new();
    ctx.register_batch("t", outer(true)).unwrap();
    // What DataFusion does is its own matter; a change would show here, and ours could go.
    assert_eq!(ints(&ctx, "SELECT outer['inner']['v'] FROM t").await, [Some(1), Some(2), Some(3)]);
}

#[tokio::test]
async fn dictionaries_and_maps_of_structs() {
    let fields = Fields::from(vec![field("v", DataType::Int32, false)]);
    let nulls = NullBuffer::from(vec![true, false]);
    let values = StructArray::new(fields, vec![Arc::new(Int32Array::from(vec![7, 8]))], Some(nulls));
    let keys = Int8Array::from(vec![Some(0), Some(1), None, Some(0)]);
    let encoded = DictionaryArray::new(keys, Arc::new(values));
    let entries = StructArray::new(
        Fields::from(vec![field("keys", DataType::Utf8, false), field("values", DataType::Int32, true)]),
        vec![
            Arc::new(StringArray::from(vec!["a", "a", "a", "b"])),
            Arc::new(Int32Array::from(vec![Some(1), Some(2), None, Some(4)])),
        ],
        None,
    );
    let offsets = OffsetBuffer::new(vec![0, 1, 2, 3, 4].into());
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let map = MapArray::new(field("entries", entries.data_type().clone(), false), offsets, entries, Some(nulls), false);
    let batch = RecordBatch::try_from_iter([("d", Arc::new(encoded) as ArrayRef), ("m", Arc::new(map))]).unwrap();
    let ctx = context(1);
    ctx.register_batch("t", batch).unwrap();
    let expected = [Some(7), None, None, Some(7)];
    assert_eq!(ints(&ctx, "SELECT CAST(d['v'] AS INT) FROM t").await, expected);
    assert_eq!(ints(&ctx, "SELECT m['a'] FROM t").await, [Some(1), None, None, None]);
    let dict = ctx.sql("SELECT m['a'] AS a FROM t").await.unwrap().to_tensordict(&masked()).await.unwrap();
    assert_eq!(Vec::<i32>::try_from(dict.tensor("a").unwrap()).unwrap(), [1, 0, 0, 0]);
}

#[tokio::test]
async fn constructors_and_constants() {
    let ctx = context(1);
    ctx.register_batch("t", outer(true)).unwrap();
    for (sql, expected) in [
        ("SELECT named_struct('a', 1, 'b', named_struct('c', 5))['b']['c'] FROM t", vec![Some(5); 3]),
        ("SELECT named_struct('o', outer)['o']['inner']['v'] FROM t", vec![Some(1), None, Some(3)]),
        ("SELECT struct(outer, 1)['c0']['inner']['v'] FROM t", vec![Some(1), None, Some(3)]),
        ("SELECT (CASE WHEN true THEN NULL ELSE outer END)['inner']['v'] FROM t", vec![None; 3]),
        ("SELECT arrow_cast(outer['inner'], 'Struct(\"v\": Int64)')['v'] FROM t", vec![Some(1), None, Some(3)]),
        ("SELECT array_agg(outer)[2]['inner']['v'] FROM t", vec![None]),
        ("SELECT x['inner']['v'] FROM (SELECT unnest(array_agg(outer)) x FROM t)", vec![Some(1), None, Some(3)]),
        ("SELECT outer['inner']['v'] FROM t LIMIT 0", vec![]),
    ] {
        assert_eq!(ints(&ctx, sql).await, expected, "{sql}");
    }
    let error = ctx.sql("SELECT outer['inner']['z'] FROM t").await.unwrap_err();
    assert!(error.to_string().contains('z'), "{error}");
}

/// The engine's unnest announces fields of a nullable struct as never null; ours as what they are.
#[tokio::test]
async fn unnested_fields_are_masked_whether_listed_or_not() {
    let ctx = context(1);
    ctx.register_batch("t", outer(false)).unwrap();
    let sql = "SELECT * FROM tensordict((SELECT i FROM (SELECT unnest(outer) FROM t) AS u(i)), nulls => 'mask')";
    let dict = ctx.sql(sql).await.unwrap().to_tensordict(&Options::default()).await.unwrap();
    assert_eq!(Vec::<bool>::try_from(dict.tensor(["_mask", "i", "v"]).unwrap()).unwrap(), [true, false, true]);
    let listed = sql.replace("'mask')", "'mask', mask_keys => ['i'])");
    let dict = ctx.sql(&listed).await.unwrap().to_tensordict(&Options::default()).await.unwrap();
    assert_eq!(Vec::<bool>::try_from(dict.tensor(["_mask", "i", "v"]).unwrap()).unwrap(), [true, false, true]);
}
