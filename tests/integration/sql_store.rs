//! Tensordicts saved by COPY.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use arrow::util::display::array_value_to_string;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use tempfile::TempDir;
use tensorquery::{DataFrameExt, LoadOptions, Options, SessionStateBuilderExt, load_memmap, load_safetensors};

use crate::sql::{context, register_rows};

/// The forms, and the functions that read them.
pub(crate) const FORMS: [(&str, &str); 2] = [("TENSORDICT", "read_tensordict"), ("SAFETENSORS", "read_safetensors")];

pub(crate) fn place(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

pub(crate) fn listed(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) async fn collect(ctx: &SessionContext, sql: &str) -> RecordBatch {
    let frame = ctx.sql(sql).await.unwrap();
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await.unwrap();
    let schema = batches.first().map_or(schema, RecordBatch::schema);
    concat_batches(&schema, &batches).unwrap()
}

/// Runs a COPY; the rows that it says it wrote.
pub(crate) async fn copy(ctx: &SessionContext, sql: &str) -> u64 {
    let counted = collect(ctx, sql).await;
    assert_eq!((counted.num_rows(), counted.schema().field(0).name().as_str()), (1, "count"));
    counted.column(0).as_primitive::<UInt64Type>().value(0)
}

/// The error of planning or running it, as the library tells it.
pub(crate) async fn error(ctx: &SessionContext, sql: &str) -> tensorquery::Error {
    let ran = match ctx.sql(sql).await {
        Ok(frame) => frame.collect().await,
        Err(error) => Err(error),
    };
    ran.map(|batches| panic!("{sql}: an error is due, got {batches:?}")).unwrap_err().into()
}

pub(crate) fn values(array: &ArrayRef) -> Vec<String> {
    (0..array.len())
        .map(|row| if array.is_null(row) { "NULL".into() } else { array_value_to_string(array, row).unwrap() })
        .collect()
}

pub(crate) async fn explained(ctx: &SessionContext, sql: &str) -> String {
    values(collect(ctx, &format!("EXPLAIN {sql}")).await.column(1)).join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn all_kinds_of_columns_come_back() {
    let folder = TempDir::new().unwrap();
    let ctx = context(4);
    let query =
        "SELECT id, CAST(id AS TINYINT) AS i8, CAST(id % 200 AS TINYINT UNSIGNED) AS u8, CAST(id AS SMALLINT) AS i16,
            CAST(id AS INT) AS i32, CAST(id AS FLOAT) AS f32, id / 2.0 AS f64, arrow_cast(id, 'Float16') AS f16,
            id % 2 = 0 AS b, make_array(id, id + 1) AS l, arrow_cast(make_array(id, 7), 'FixedSizeList(2, Int64)') AS w,
            named_struct('a', id, 'in', named_struct('s', concat('n', id), 'l', make_array(id > 3))) AS st,
            concat('s', id) AS s, arrow_cast(concat('d', id % 3), 'Dictionary(Int32, Utf8)') AS d,
            make_array(concat('x', id)) AS ls, CAST(id AS TIMESTAMP) AS t, CAST(id AS DECIMAL(10, 2)) AS dec,
            arrow_cast(concat('b', id), 'Binary') AS bin
        FROM generate_series(0, 99) AS g(id)";
    let due = collect(&ctx, &format!("{query} ORDER BY id")).await;
    for (stored_as, read) in FORMS {
        let path = place(&folder, stored_as);
        let sql = format!("COPY ({query} ORDER BY id) TO '{path}' STORED AS {stored_as}");
        assert_eq!(copy(&ctx, &sql).await, 100);
        let got = collect(&ctx, &format!("SELECT * FROM {read}('{path}') ORDER BY id")).await;
        let names = |batch: &RecordBatch| -> Vec<String> {
            batch.schema().fields().iter().map(|field| field.name().clone()).collect()
        };
        assert_eq!(names(&got), names(&due));
        for (at, name) in names(&due).iter().enumerate() {
            assert_eq!(values(got.column(at)), values(due.column(at)), "{stored_as} {name}");
        }
        // What the engine's own types become on the way, and what they stay.
        let typed = |name: &str| got.schema().field_with_name(name).unwrap().data_type().clone();
        assert_eq!(typed("i8"), DataType::Int8);
        assert_eq!(typed("f16"), DataType::Float16);
        assert_eq!(typed("d"), *due.schema().field_with_name("d").unwrap().data_type());
        assert_eq!(typed("dec"), DataType::Decimal128(10, 2));
        assert!(matches!(typed("l"), DataType::LargeList(_)) && matches!(typed("w"), DataType::FixedSizeList(_, 2)));
    }
    assert_eq!(listed(&folder), ["SAFETENSORS", "TENSORDICT"], "nothing else is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn masks_lie_beside_and_become_nulls_again() {
    let folder = TempDir::new().unwrap();
    let ctx = context(8);
    register_rows(&ctx);
    let due = collect(&ctx, "SELECT * FROM rows ORDER BY id").await;
    for (stored_as, read) in FORMS {
        let path = place(&folder, stored_as);
        let sql = format!(
            "COPY (SELECT * FROM rows ORDER BY id) TO '{path}' STORED AS {stored_as}
             OPTIONS (nulls 'mask', mask_key '[\"aux\", \"valid\"]')"
        );
        assert_eq!(copy(&ctx, &sql).await, 1000);
        let td = match stored_as {
            "TENSORDICT" => load_memmap(&path, &LoadOptions::default()),
            _ => load_safetensors(&path, &LoadOptions::default()),
        };
        let mask: Vec<bool> = td.unwrap().tensor(["aux", "valid", "x"]).unwrap().try_into().unwrap();
        assert_eq!(mask, (0..1000).map(|id| id % 5 != 0).collect::<Vec<_>>());

        let masked = format!("{read}('{path}', mask_key => ['aux', 'valid'])");
        let got = collect(&ctx, &format!("SELECT * FROM {masked} ORDER BY id")).await;
        assert_eq!(got.num_columns(), 5, "masks are no column then");
        for at in 0..5 {
            assert_eq!(values(got.column(at)), values(due.column(at)), "{stored_as} {at}");
        }
        // Of one column, its own mask; and without the option, a column of masks.
        let sum = collect(&ctx, &format!("SELECT count(x), sum(x), count(*) FROM {masked}")).await;
        let wanted = collect(&ctx, "SELECT count(x), sum(x), count(*) FROM rows").await;
        assert_eq!(sum.columns(), wanted.columns());
        let sql = format!("SELECT count(x), count(*) FILTER (WHERE aux['valid']['x']) FROM {read}('{path}')");
        let raw = collect(&ctx, &sql).await;
        assert_eq!([0, 1].map(|at| raw.column(at).as_primitive::<Int64Type>().value(0)), [1000, 800]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_without_rows_keep_their_columns() {
    let folder = TempDir::new().unwrap();
    let ctx = context(4);
    register_rows(&ctx);
    for (stored_as, read) in FORMS {
        let path = place(&folder, stored_as);
        let sql = format!("COPY (SELECT * FROM rows WHERE id < 0) TO '{path}' STORED AS {stored_as}");
        assert_eq!(copy(&ctx, &format!("{sql} OPTIONS (nulls 'mask')")).await, 0);
        let got = collect(&ctx, &format!("SELECT * FROM {read}('{path}', mask_key => '_mask')")).await;
        assert_eq!((got.num_rows(), got.num_columns()), (0, 5));
        assert_eq!(got.schema().field(2).name(), "l");
        let count = collect(&ctx, &format!("SELECT count(*) FROM {read}('{path}')")).await;
        assert_eq!(values(count.column(0)), ["0"]);
    }
}

/// Also where the rows are in the order of a column whose nulls are filled.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_written_in_the_order_that_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let ctx = context(8);
    register_rows(&ctx);
    for (at, order) in
        ["id DESC", "x DESC NULLS LAST, id", "x ASC NULLS FIRST, id DESC", "id % 7, id"].iter().enumerate()
    {
        for nulls in ["fill", "mask"] {
            let path = place(&folder, &format!("{at}{nulls}"));
            let sql = format!("COPY (SELECT id, x FROM rows ORDER BY {order}) TO '{path}' STORED AS TENSORDICT");
            assert_eq!(copy(&ctx, &format!("{sql} OPTIONS (nulls '{nulls}')")).await, 1000);
            let due = collect(&ctx, &format!("SELECT id FROM rows ORDER BY {order}")).await;
            let got: Vec<i64> =
                load_memmap(&path, &LoadOptions::default()).unwrap().tensor("id").unwrap().try_into().unwrap();
            assert_eq!(got, due.column(0).as_primitive::<Int64Type>().values().to_vec(), "{order}, {nulls}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_may_be_larger_than_memory() {
    let folder = TempDir::new().unwrap();
    let pool = Arc::new(FairSpillPool::new(48 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let config = SessionConfig::new().with_target_partitions(1);
    let state = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    let ctx = SessionContext::new_with_state(state.with_tensordict().build());
    let path = place(&folder, "td");
    // 80 MB, sorted through the disk.
    let query = "SELECT value AS id, value * 0.5 AS a, value + 1 AS b, -value AS c, value * 3 AS d
                 FROM generate_series(1, 2000000) ORDER BY (value * 7919) % 2000003";
    let collected = ctx.sql(&format!("SELECT * FROM ({query}) ORDER BY b DESC")).await.unwrap();
    assert!(collected.to_tensordict(&Options::default()).await.unwrap_err().to_string().contains("memory"), "it is");
    assert_eq!(copy(&ctx, &format!("COPY ({query}) TO '{path}' STORED AS TENSORDICT")).await, 2_000_000);
    let got = collect(&ctx, &format!("SELECT count(*), sum(id), sum(a), min(c) FROM read_tensordict('{path}')")).await;
    assert_eq!(values(got.column(1)), ["2000001000000"]);
    assert_eq!(got.column(2).as_primitive::<Float64Type>().value(0), 1_000_000_500_000.0);
    let first = load_memmap(&path, &LoadOptions::default().rows(0..1)).unwrap();
    let due = collect(&ctx, "SELECT min((value * 7919) % 2000003) FROM generate_series(1, 2000000)").await;
    let key = first.tensor("id").unwrap().int64_value(&[0]) * 7919 % 2_000_003;
    assert_eq!(values(due.column(0)), [key.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_there_stays_until_all_is_written() {
    let folder = TempDir::new().unwrap();
    let ctx = context(4);
    register_rows(&ctx);
    for (stored_as, read) in FORMS {
        let path = place(&folder, stored_as);
        let from = |query: &str, options: &str| format!("COPY ({query}) TO '{path}' STORED AS {stored_as} {options}");
        copy(&ctx, &from("SELECT 1 AS v", "")).await;
        let again = error(&ctx, &from("SELECT 2 AS v", "")).await;
        assert!(again.is_file() && again.to_string().contains("already"), "{again}");
        // A null late in the result, an error of the engine's, a consumer that goes away.
        let overwrite = "OPTIONS (overwrite true)";
        let null = error(&ctx, &from("SELECT nullif(id, 900) AS v FROM rows ORDER BY id", overwrite)).await;
        assert!(null.is_null(), "{null}");
        let engine = error(&ctx, &from("SELECT 1 / (id - 900) AS v FROM rows ORDER BY id", overwrite)).await;
        assert!(engine.is_engine(), "{engine}");
        let frame = ctx.sql(&from("SELECT a.id AS v FROM rows a, rows b, rows c", overwrite)).await.unwrap();
        let mut stream = frame.execute_stream().await.unwrap();
        let waited = tokio::time::timeout(std::time::Duration::from_millis(300), stream.next()).await;
        assert!(waited.is_err(), "a billion rows take longer");
        drop(stream);
        let got = collect(&ctx, &format!("SELECT v FROM {read}('{path}')")).await;
        assert_eq!(values(got.column(0)), ["1"]);
        for _ in 0..200 {
            // A write under way ends before its thread cleans up.
            if listed(&folder).iter().all(|name| !name.starts_with('.')) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(listed(&folder).iter().all(|name| !name.starts_with('.')), "{:?}", listed(&folder));
        copy(&ctx, &from("SELECT 3 AS v", overwrite)).await;
        let got = collect(&ctx, &format!("SELECT v FROM {read}('{path}')")).await;
        assert_eq!(values(got.column(0)), ["3"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_copy_are_checked() {
    let folder = TempDir::new().unwrap();
    let ctx = context(2);
    register_rows(&ctx);
    let cases = [
        (
            "OPTIONS (compression 'zstd')",
            "there is no option 'compression' of COPY to a tensordict; the options are nulls,",
        ),
        ("OPTIONS (nulls 'ignore')", "nulls is 'ignore'; it takes 'raise', 'fill', 'mask'"),
        ("OPTIONS (mask_key 'm')", "mask_key"),
        ("OPTIONS (nulls 'mask', mask_keys 'observed')", "observed"),
        ("OPTIONS (columns 'x')", "columns is 'x'"),
        ("OPTIONS (overwrite 'perhaps')", "overwrite is 'perhaps'; it takes true or false"),
        ("OPTIONS (device 'cuda')", "device"),
        ("OPTIONS (copy 'never')", "copy"),
        ("OPTIONS (single_file_output true)", "single_file_output"),
    ];
    let path = place(&folder, "td");
    for (options, word) in cases {
        let error = error(&ctx, &format!("COPY rows TO '{path}' STORED AS TENSORDICT {options}")).await;
        assert!(error.is_option() && error.to_string().contains(word), "{options}: {error}");
    }
    let copies = [
        (format!("COPY rows TO '{path}' STORED AS TENSORDICT PARTITIONED BY (id)"), "PARTITIONED BY"),
        ("COPY rows TO 's3://bucket/td' STORED AS TENSORDICT".into(), "s3://bucket/td"),
        (
            format!("COPY rows TO '{path}/no/td' STORED AS SAFETENSORS OPTIONS (nulls 'fill')"),
            "make the directory first",
        ),
        (format!("COPY (SELECT 1 AS shape) TO '{path}' STORED AS TENSORDICT"), "'shape': a directory's metadata"),
        (format!("COPY (SELECT 1 AS \"a/b\", 2 AS \"a%2Fb\") TO '{path}' STORED AS TENSORDICT"), "a%252Fb"),
        (format!("COPY (SELECT 1 AS __metadata__) TO '{path}' STORED AS SAFETENSORS"), "__metadata__"),
    ];
    for (sql, word) in copies {
        // One of them is fine: different keys have different files.
        if word == "a%252Fb" {
            copy(&ctx, &sql).await;
            assert!(Path::new(&path).join("a%252Fb.memmap").exists());
            fs::remove_dir_all(&path).unwrap();
            continue;
        }
        let error = error(&ctx, &sql).await;
        assert!(error.to_string().contains(word), "{sql}: {error}");
    }
    assert_eq!(listed(&folder), [] as [&str; 0]);

    // The session's defaults, and what a COPY says over them. The target may be a URL.
    ctx.sql("SET tensordict.nulls = 'mask'").await.unwrap().collect().await.unwrap();
    ctx.sql("SET tensordict.device = 'cpu'").await.unwrap().collect().await.unwrap();
    let target = format!("file://{path}");
    copy(&ctx, &format!("COPY (SELECT x FROM rows) TO '{target}' STORED AS TENSORDICT")).await;
    assert!(load_memmap(&path, &LoadOptions::default()).unwrap().contains_key(["_mask", "x"]));
    let sql = format!("COPY (SELECT x, l FROM rows) TO '{path}/' STORED AS tensordict");
    let columns = "nulls 'fill', overwrite true, columns '{\"l\": {\"nulls\": \"mask\"}}'";
    copy(&ctx, &format!("{sql} OPTIONS ({columns})")).await;
    let td = load_memmap(&path, &LoadOptions::default()).unwrap();
    assert_eq!(td.dict("_mask").unwrap().keys().collect::<Vec<_>>(), ["l"]);
    // The form by the file's name.
    let file = place(&folder, "rows.safetensors");
    copy(&ctx, &format!("COPY (SELECT id FROM rows) TO '{file}'")).await;
    assert_eq!(load_safetensors(&file, &LoadOptions::default()).unwrap().batch_size(), [1000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_readable() {
    let folder = TempDir::new().unwrap();
    let ctx = context(2);
    register_rows(&ctx);
    let path = place(&folder, "td");
    let sql =
        format!("COPY (SELECT id, x FROM rows ORDER BY id) TO '{path}' STORED AS TENSORDICT OPTIONS (nulls 'fill')");
    let plan = explained(&ctx, &sql).await;
    assert!(plan.contains(&format!("DataSinkExec: sink=tensordict='{path}', nulls=fill")), "{plan}");
    assert!(plan.contains("SortPreservingMergeExec: [id@0 ASC NULLS LAST]"), "{plan}");
    assert!(listed(&folder).is_empty(), "a plan writes nothing");
    copy(&ctx, &sql).await;
    let plan = explained(&ctx, &format!("SELECT x FROM read_tensordict('{path}') WHERE x > 3")).await;
    assert!(
        plan.contains(&format!("DataSourceExec: tensordict='{path}', projection=[x], rows=0..1000, partitions=1")),
        "{plan}"
    );
    assert!(plan.contains("TableScan: read_tensordict projection=[x]"), "{plan}");
    let plan = explained(&ctx, &format!("SELECT id FROM read_tensordict('{path}') LIMIT 7")).await;
    assert!(plan.contains("projection=[id], rows=0..7"), "{plan}");
    // How many rows there are is known.
    let plan = explained(&ctx, &format!("SELECT count(*) FROM read_tensordict('{path}')")).await;
    assert!(!plan.contains("DataSourceExec") && plan.contains("PlaceholderRowExec"), "{plan}");
}
