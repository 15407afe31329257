//! Tensordicts saved by COPY and read in FROM.

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
use tch::Tensor;
use tempfile::TempDir;
use tensorquery::{
    DataFrameExt, LoadOptions, Nulls, Options, Order, SaveOptions, SessionContextExt, SessionStateBuilderExt,
    TensorDict, load_memmap, load_safetensors, save_memmap, save_safetensors,
};

use crate::sql::{context, register_rows};
use crate::store::show;

/// The forms, and the functions that read them.
const FORMS: [(&str, &str); 2] = [("TENSORDICT", "read_tensordict"), ("SAFETENSORS", "read_safetensors")];

fn place(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

fn listed(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn collect(ctx: &SessionContext, sql: &str) -> RecordBatch {
    let frame = ctx.sql(sql).await.unwrap();
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await.unwrap();
    let schema = batches.first().map_or(schema, RecordBatch::schema);
    concat_batches(&schema, &batches).unwrap()
}

/// Runs a COPY; the rows that it says it wrote.
async fn copy(ctx: &SessionContext, sql: &str) -> u64 {
    let counted = collect(ctx, sql).await;
    assert_eq!((counted.num_rows(), counted.schema().field(0).name().as_str()), (1, "count"));
    counted.column(0).as_primitive::<UInt64Type>().value(0)
}

/// The error of planning or running it, as the library tells it.
async fn error(ctx: &SessionContext, sql: &str) -> tensorquery::Error {
    let ran = match ctx.sql(sql).await {
        Ok(frame) => frame.collect().await,
        Err(error) => Err(error),
    };
    ran.map(|batches| panic!("{sql}: an error is due, got {batches:?}")).unwrap_err().into()
}

fn values(array: &ArrayRef) -> Vec<String> {
    (0..array.len())
        .map(|row| if array.is_null(row) { "NULL".into() } else { array_value_to_string(array, row).unwrap() })
        .collect()
}

async fn explained(ctx: &SessionContext, sql: &str) -> String {
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

/// A struct that the masks lie within brings those of its own columns only.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_may_hold_the_masks_of_others() {
    let folder = TempDir::new().unwrap();
    let (ctx, path) = (context(2), place(&folder, "td"));
    let mut td = TensorDict::new([3]);
    td.set("x", Tensor::from_slice(&[1i64, 2, 3])).unwrap();
    td.set(["aux", "y"], Tensor::from_slice(&[4i64, 5, 6])).unwrap();
    td.set(["aux", "valid", "x"], Tensor::from_slice(&[true, false, true])).unwrap();
    save_memmap(&td, &path, &SaveOptions::default()).unwrap();
    let from = format!("read_tensordict('{path}', mask_key => ['aux', 'valid'])");
    let got = collect(&ctx, &format!("SELECT aux FROM {from}")).await;
    assert_eq!(values(got.column(0)), ["{y: 4}", "{y: 5}", "{y: 6}"]);
    let got = collect(&ctx, &format!("SELECT x FROM {from}")).await;
    assert_eq!(values(got.column(0)), ["1", "NULL", "3"]);
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

/// With one partition, rows come as they are stored; each partition of several has neighbouring ones.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_read_as_they_are_stored() {
    let folder = TempDir::new().unwrap();
    let path = place(&folder, "td");
    copy(
        &context(8),
        &format!(
            "COPY (SELECT value AS id, concat('s', value) AS s, make_array(value) AS l
        FROM generate_series(0, 49999) ORDER BY value) TO '{path}' STORED AS TENSORDICT"
        ),
    )
    .await;
    for partitions in [1, 3] {
        let ctx = context(partitions);
        let frame = ctx.sql(&format!("SELECT * FROM read_tensordict('{path}')")).await.unwrap();
        let parts = frame.collect_partitioned().await.unwrap();
        assert_eq!(parts.len(), partitions);
        let batches: Vec<RecordBatch> = parts.into_iter().flatten().collect();
        assert!(batches.iter().all(|batch| batch.num_rows() <= 8192), "batches are the session's");
        let all = concat_batches(&batches[0].schema(), &batches).unwrap();
        assert_eq!(all.column(0).as_primitive::<Int64Type>().values().to_vec(), (0..50000).collect::<Vec<_>>());
        for at in [0, 8191, 8192, 49999] {
            assert_eq!(array_value_to_string(all.column(1), at).unwrap(), format!("s{at}"));
            assert_eq!(array_value_to_string(all.column(2), at).unwrap(), format!("[{at}]"));
        }
    }
    // So a loader may take them in that order.
    let frame = context(4).sql(&format!("SELECT id FROM read_tensordict('{path}')")).await.unwrap();
    let loader = frame.tensordict_loader(&Options::default()).await.unwrap().batch_size(20000).order(Order::AsStored);
    let ids: Vec<i64> = loader
        .epoch_blocking(0)
        .unwrap()
        .flat_map(|batch| Vec::<i64>::try_from(batch.unwrap().tensor("id").unwrap()).unwrap())
        .collect();
    assert_eq!(ids, (0..50000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_may_be_larger_than_memory() {
    let folder = TempDir::new().unwrap();
    let pool = Arc::new(FairSpillPool::new(24 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let config = SessionConfig::new().with_target_partitions(2).with_sort_spill_reservation_bytes(1 << 20);
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
    // 7919 · 1 894 089 is 2 000 003 · 7 499 + 1 … the smallest key is that of whatever row the engine sorts first.
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

/// Planning opens no file of values; a query those of its columns.
#[tokio::test(flavor = "multi_thread")]
async fn only_files_of_the_columns_asked_for_are_opened() {
    let folder = TempDir::new().unwrap();
    let (ctx, path) = (context(2), place(&folder, "td"));
    register_rows(&ctx);
    let sql = format!("COPY (SELECT id, x, l, s FROM rows ORDER BY id) TO '{path}' STORED AS TENSORDICT");
    copy(&ctx, &format!("{sql} OPTIONS (nulls 'mask')")).await;
    for file in ["x.memmap", "l.memmap", "l.shape.memmap", "_mask/x.memmap", "_mask/l.memmap", "_mask/s.memmap"] {
        fs::remove_file(Path::new(&path).join(file)).unwrap();
    }
    let got = collect(&ctx, &format!("SELECT max(id), max(s), count(*) FROM read_tensordict('{path}')")).await;
    assert_eq!(
        got.columns().iter().map(|column| values(column)[0].clone()).collect::<Vec<_>>(),
        ["999", "s999", "1000"]
    );
    let lost = error(&ctx, &format!("SELECT max(x) FROM read_tensordict('{path}')")).await;
    assert!(lost.is_file() && lost.to_string().contains("x.memmap"), "{lost}");
    let lost = error(&ctx, &format!("SELECT max(s) FROM read_tensordict('{path}', mask_key => '_mask')")).await;
    assert!(lost.is_file() && lost.to_string().contains("s.memmap"), "{lost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_rows() {
    let folder = TempDir::new().unwrap();
    let ctx = context(3);
    register_rows(&ctx);
    for (stored_as, read) in FORMS {
        let path = place(&folder, stored_as);
        copy(
            &ctx,
            &format!("COPY (SELECT * FROM rows ORDER BY id) TO '{path}' STORED AS {stored_as} OPTIONS (nulls 'mask')"),
        )
        .await;
        let part = format!("{read}('{path}', rows => [10, 20], mask_key => '_mask')");
        let got = collect(&ctx, &format!("SELECT id, x, l, s, st FROM {part}")).await;
        let due = collect(&ctx, "SELECT id, x, l, s, st FROM rows WHERE id BETWEEN 10 AND 19 ORDER BY id").await;
        for at in 0..5 {
            assert_eq!(values(got.column(at)), values(due.column(at)), "{stored_as} {at}");
        }
        for (sql, due) in [
            (format!("SELECT id FROM {read}('{path}') LIMIT 3 OFFSET 4"), vec!["4", "5", "6"]),
            (format!("SELECT id FROM {read}('{path}', rows => [998, 1000])"), vec!["998", "999"]),
            (format!("SELECT id FROM {read}('{path}', rows => [5, 5])"), vec![]),
            (format!("SELECT count(*) FROM {read}('{path}', rows => [0, 12])"), vec!["12"]),
        ] {
            assert_eq!(values(collect(&ctx, &sql).await.column(0)), due, "{sql}");
        }
        for (rows, word) in [
            ("[0, 1001]", "out of bounds for 1000"),
            ("[3, 2]", "rows is"),
            ("[-1, 2]", "rows is"),
            ("'all'", "rows is"),
            ("[1]", "rows is"),
        ] {
            let error = error(&ctx, &format!("SELECT id FROM {read}('{path}', rows => {rows})")).await;
            assert!(error.to_string().contains(word), "{rows}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn external_tables() {
    let folder = TempDir::new().unwrap();
    let ctx = context(2);
    register_rows(&ctx);
    for (stored_as, _) in FORMS {
        let path = place(&folder, stored_as);
        let save = |query: &str| {
            format!("COPY ({query}) TO '{path}' STORED AS {stored_as} OPTIONS (nulls 'mask', overwrite true)")
        };
        copy(&ctx, &save("SELECT id, x FROM rows ORDER BY id")).await;
        let create = format!("CREATE EXTERNAL TABLE t STORED AS {stored_as} LOCATION '{path}'");
        ctx.sql(&format!("{create} OPTIONS (mask_key '_mask', rows '[0, 10]')"))
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        let got = collect(&ctx, "SELECT count(*), count(x) FROM t").await;
        assert_eq!(got.columns().iter().map(|column| values(column)[0].clone()).collect::<Vec<_>>(), ["10", "8"]);
        // A table reads what is there when it is asked.
        copy(&ctx, &save("SELECT id + 5 AS id, x FROM rows ORDER BY id LIMIT 12")).await;
        assert_eq!(values(collect(&ctx, "SELECT min(id) FROM t").await.column(0)), ["5"]);
        copy(&ctx, &save("SELECT id AS other FROM rows")).await;
        let changed = error(&ctx, "SELECT id FROM t").await;
        assert!(
            changed.is_file() && changed.to_string().contains(&path) && changed.to_string().contains("create it again"),
            "{changed}"
        );
        ctx.sql("DROP TABLE t").await.unwrap().collect().await.unwrap();

        for (sql, word) in [
            (
                format!("CREATE EXTERNAL TABLE u (id BIGINT) STORED AS {stored_as} LOCATION '{path}'"),
                "takes no columns",
            ),
            (format!("{create} OPTIONS (delimiter ';')"), "there is no option 'delimiter'"),
            (format!("CREATE EXTERNAL TABLE u STORED AS {stored_as} LOCATION '{path}x'"), "x'"),
        ] {
            let error = error(&ctx, &sql).await;
            assert!(error.to_string().contains(word), "{sql}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cant_be_read_is_told_with_its_path() {
    let folder = TempDir::new().unwrap();
    let ctx = context(2);
    let file = |name: &str, content: &[u8]| {
        let path = place(&folder, name);
        fs::write(&path, content).unwrap();
        path
    };
    let dir = |name: &str, td: &TensorDict| {
        let path = place(&folder, name);
        save_memmap(td, &path, &SaveOptions::default()).unwrap();
        path
    };
    let x = TensorDict::from_entries([("x", Tensor::from_slice(&[1i64, 2, 3]))]).unwrap();
    let rows = x.shallow_clone().with_batch_size(&[3]).unwrap();
    let tampered = dir("tampered", &rows);
    fs::write(Path::new(&tampered).join("x.memmap"), b"short").unwrap();
    let odd = dir("odd", &rows);
    let metadata = fs::read_to_string(Path::new(&odd).join("meta.json")).unwrap();
    fs::write(Path::new(&odd).join("meta.json"), metadata.replace("torch.int64", "torch.quint8")).unwrap();
    let bfloat =
        TensorDict::from_entries([("w", Tensor::zeros([2], (tch::Kind::BFloat16, tch::Device::Cpu)))]).unwrap();
    let stack = TensorDict::lazy_stack([x.shallow_clone(), x.shallow_clone()], 0).unwrap();
    let model = place(&folder, "model.safetensors");
    let tensors = [("w", Tensor::from_slice(&[1f32]))];
    Tensor::write_safetensors(&tensors, &model).unwrap();
    let cases = [
        ("read_tensordict", place(&folder, "none"), "No such file"),
        ("read_safetensors", place(&folder, "none"), "No such file"),
        ("read_tensordict", folder.path().to_str().unwrap().to_owned(), "there is no 'meta.json'"),
        ("read_safetensors", file("short", b"abc"), "it has 3 bytes"),
        ("read_safetensors", file("long", &[255; 64]), "is no safetensors file"),
        ("read_tensordict", file("file", b"{}"), "Not a directory"),
        ("read_tensordict", odd, "'x': "),
        ("read_tensordict", tampered, "'x': "),
        ("read_tensordict", dir("scalar", &x), "its batch size is []"),
        ("read_safetensors", model, "its batch size is []"),
        ("read_tensordict", dir("bfloat", &bfloat.with_batch_size(&[2]).unwrap()), "'w': "),
        ("read_tensordict", dir("stack", &stack), "lazy stack"),
    ];
    for (read, path, word) in cases {
        let error = error(&ctx, &format!("SELECT * FROM {read}('{path}')")).await.to_string();
        assert!(error.contains(word) && error.contains(&path), "{read} of {path}: {error}");
    }
    for (call, word) in [
        ("read_tensordict()", "got nothing; write read_tensordict('path')"),
        ("read_tensordict(train)", "got train"),
        ("read_tensordict(1)", "got 1"),
        ("read_tensordict('a', 'b')", "takes options by name"),
        ("read_tensordict('a', mask => 'b')", "there is no option 'mask' of reading; the options are mask_key, rows"),
        ("read_tensordict('a', rows => [0, 1], rows => [0, 2])", "is given rows twice"),
        ("read_safetensors('s3://b/a')", "s3://b/a"),
        ("LATERAL read_safetensors('a')", "LATERAL"),
    ] {
        let error = error(&ctx, &format!("SELECT * FROM {call}")).await.to_string();
        assert!(error.contains(word), "{call}: {error}");
    }
}

/// What a query reads is one tensordict, or an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_save_meanwhile_is_noticed() {
    let folder = TempDir::new().unwrap();
    let (ctx, path) = (context(1), place(&folder, "td"));
    let save = |from: i64| {
        let numbers: Vec<i64> = (from..from + 20000).collect();
        let td = TensorDict::from_entries([("x", Tensor::from_slice(&numbers))]).unwrap();
        save_memmap(&td.with_batch_size(&[20000]).unwrap(), &path, &SaveOptions::default().overwrite(true)).unwrap();
    };
    save(0);
    let frame = ctx.sql(&format!("SELECT * FROM read_tensordict('{path}')")).await.unwrap();
    let mut planned = frame.clone().execute_stream().await.unwrap();
    let mut begun = frame.execute_stream().await.unwrap();
    assert_eq!(begun.next().await.unwrap().unwrap().num_rows(), 8192);
    save(100_000);
    let replaced: tensorquery::Error = planned.next().await.unwrap().unwrap_err().into();
    assert!(replaced.is_file() && replaced.to_string().contains("replaced"), "{replaced}");
    assert!(planned.next().await.is_none(), "an error is the end");
    // What was mapped before stays as it was.
    let rest: Vec<RecordBatch> = begun.map(Result::unwrap).collect().await;
    assert_eq!(rest[1].column(0).as_primitive::<Int64Type>().values().last(), Some(&19999));
}

#[tokio::test(flavor = "multi_thread")]
async fn further_batch_dims_and_single_values() {
    let folder = TempDir::new().unwrap();
    let ctx = context(2);
    let mut td = TensorDict::new([2, 3]);
    td.set("x", Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6]).reshape([2, 3])).unwrap();
    let (dir, file) = (place(&folder, "td"), place(&folder, "file"));
    save_memmap(&td, &dir, &SaveOptions::default()).unwrap();
    save_safetensors(&td, &file, &SaveOptions::default()).unwrap();
    for from in [format!("read_tensordict('{dir}')"), format!("read_safetensors('{file}')")] {
        assert_eq!(values(collect(&ctx, &format!("SELECT x FROM {from}")).await.column(0)), ["[1, 2, 3]", "[4, 5, 6]"]);
    }
}

/// Values that only JSON holds have a type once all of them are known.
#[tokio::test(flavor = "multi_thread")]
async fn values_that_python_wrote() {
    let folder = TempDir::new().unwrap();
    let (ctx, path) = (context(2), place(&folder, "td"));
    let td = TensorDict::from_entries([("x", Tensor::from_slice(&[1i64, 2, 3]))]).unwrap();
    save_memmap(&td.with_batch_size(&[3]).unwrap(), &path, &SaveOptions::default()).unwrap();
    let meta = Path::new(&path).join("meta.json");
    let text = fs::read_to_string(&meta).unwrap();
    fs::write(&meta, text.replacen('{', r#"{"v": {"type": "NonTensorStack"}, "#, 1)).unwrap();
    fs::create_dir(Path::new(&path).join("v")).unwrap();
    let stack = r#"{"_type": "<class 'tensordict.tensorclass.NonTensorStack'>", "stack_dim": 0, "device": null, "data": [1, 2, 2.5]}"#;
    fs::write(Path::new(&path).join("v/meta.json"), stack).unwrap();
    let got = collect(&ctx, &format!("SELECT v, x FROM read_tensordict('{path}', rows => [1, 3])")).await;
    assert_eq!(got.schema().field(0).data_type(), &DataType::Float64);
    assert_eq!(
        (values(got.column(0)), values(got.column(1))),
        (vec!["2.0".into(), "2.5".into()], vec!["2".into(), "3".into()])
    );
}

/// A result of SQL goes to disk, is read, and is a tensordict again.
#[tokio::test(flavor = "multi_thread")]
async fn from_query_to_query() {
    let folder = TempDir::new().unwrap();
    let (ctx, path) = (context(4), place(&folder, "td"));
    register_rows(&ctx);
    copy(
        &ctx,
        &format!(
            "COPY (SELECT id, x, s FROM rows ORDER BY id) TO '{path}' STORED AS TENSORDICT OPTIONS (nulls 'mask')"
        ),
    )
    .await;
    let sql = format!(
        "SELECT a.id, a.x, r.l FROM read_tensordict('{path}', mask_key => '_mask') AS a JOIN rows r ON r.id = a.id
         WHERE a.id < 20 ORDER BY a.id"
    );
    let options = ctx.tensordict_options().unwrap().nulls(Nulls::Mask);
    let got = ctx.sql(&sql).await.unwrap().to_tensordict(&options).await.unwrap();
    let due = ctx.sql("SELECT id, x, l FROM rows WHERE id < 20 ORDER BY id").await.unwrap();
    let due = due.to_tensordict(&options).await.unwrap();
    assert_eq!(show(&got), show(&due));
    // Functions and tables may be named alike; views and subqueries read them too.
    ctx.sql(&format!("CREATE VIEW read_tensordict AS SELECT max(id) AS m FROM read_tensordict('{path}')"))
        .await
        .unwrap();
    let got = collect(&ctx, "SELECT m FROM read_tensordict").await;
    assert_eq!(values(got.column(0)), ["999"]);
}
