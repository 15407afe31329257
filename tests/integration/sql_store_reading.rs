//! Saved tensordicts in FROM.

use std::fs;
use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int64Type};
use arrow::util::display::array_value_to_string;
use futures::StreamExt;
use tch::Tensor;
use tempfile::TempDir;
use tensorquery::{
    DataFrameExt, Nulls, Options, Order, SaveOptions, SessionContextExt, TensorDict, save_memmap, save_safetensors,
};

use crate::sql::{context, register_rows};
use crate::sql_store::{FORMS, collect, copy, error, place, values};
use crate::store::show;

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
