//! Saved tensordicts as lazy queries.

use std::fs;
use std::sync::Arc;

use arrow::array::StringArray;
use polars::prelude::*;
use tch::{Device, Kind, Tensor};
use tensorquery::{
    JaggedTensor, LoadOptions, NonTensorStack, SaveOptions, TensorDict, ToArrowOptions, save_memmap, scan_memmap,
};

const ROWS: i64 = 100_000;

fn saved(dir: &std::path::Path) {
    let lengths: Vec<i64> = (0..ROWS).map(|row| row % 3).collect();
    let offsets = Tensor::cat(&[Tensor::from_slice(&[0i64]), Tensor::from_slice(&lengths).cumsum(0, Kind::Int64)], 0);
    let values = Tensor::arange(lengths.iter().sum::<i64>(), (Kind::Float, Device::Cpu));
    let words: StringArray = (0..ROWS).map(|row| (row % 5 != 0).then(|| format!("w{}", row % 7))).collect();
    let mut td = TensorDict::new([ROWS]);
    td.set("id", Tensor::arange(ROWS, (Kind::Int64, Device::Cpu))).unwrap();
    td.set("pair", Tensor::ones([ROWS, 2], (Kind::Double, Device::Cpu))).unwrap();
    td.set("clicks", JaggedTensor::try_new(values, offsets).unwrap()).unwrap();
    td.set("word", NonTensorStack::new(Arc::new(words))).unwrap();
    td.set(["deep", "flag"], Tensor::arange(ROWS, (Kind::Int64, Device::Cpu)).remainder(2).eq(0)).unwrap();
    td.set(["_mask", "id"], Tensor::arange(ROWS, (Kind::Int64, Device::Cpu)).remainder(4).ne(0)).unwrap();
    save_memmap(&td, dir, &SaveOptions::default()).unwrap();
}

fn masked() -> ToArrowOptions {
    ToArrowOptions::default().mask_key("_mask")
}

#[test]
fn queries_stream_over_what_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("td");
    saved(&dir);
    let query = || {
        let scan = scan_memmap(&dir, &LoadOptions::default(), &masked()).unwrap();
        let clicks = col("clicks").list().len().sum().alias("clicks");
        let flags = col("deep").struct_().field_by_name("flag").sum().alias("flags");
        let pairs = col("pair").arr().sum().sum().alias("pairs");
        scan.filter(col("id").is_not_null())
            .group_by([col("word")])
            .agg([col("id").sum(), clicks, flags, pairs])
            .sort(["word"], Default::default())
    };
    let [streamed, whole] = [Engine::Streaming, Engine::InMemory]
        .map(|engine| query().collect_with_engine(engine).unwrap().unwrap_single());
    assert_eq!(streamed, whole);
    assert_eq!(streamed.height(), 8);
    let sum = |name: &str| streamed.column(name).unwrap().as_materialized_series().sum::<f64>().unwrap() as i64;
    let known = || (0..ROWS).filter(|row| row % 4 != 0);
    assert_eq!(sum("id"), known().sum::<i64>());
    assert_eq!(sum("clicks"), known().map(|row| row % 3).sum::<i64>());
    assert_eq!(sum("flags"), known().filter(|row| row % 2 == 0).count() as i64);
    assert_eq!(sum("pairs"), 2 * known().count() as i64);

    let part = LoadOptions::default().keys(["id"]).rows(10..12);
    let frame = scan_memmap(&dir, &part, &ToArrowOptions::default()).unwrap().collect().unwrap();
    assert_eq!(frame, df!("id" => [10i64, 11]).unwrap());
}

/// The file that memory at an address is a map of.
#[cfg(target_os = "linux")]
fn mapped_file(address: usize) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|bound| usize::from_str_radix(bound, 16).unwrap());
        (start..end).contains(&address).then(|| rest.split_whitespace().nth(4).unwrap_or_default().to_owned())
    })
}

#[test]
#[cfg(target_os = "linux")]
fn numbers_stay_in_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("td");
    saved(&dir);
    let frame = scan_memmap(&dir, &LoadOptions::default(), &masked()).unwrap().collect().unwrap();
    let file = |address: usize| mapped_file(address).map(|path| path.rsplit('/').next().unwrap().to_owned());

    let ids = frame.column("id").unwrap().i64().unwrap();
    let ids = ids.downcast_iter().next().unwrap().values().as_ptr().addr();
    assert_eq!(file(ids).as_deref(), Some("id.memmap"));
    let clicks = frame.column("clicks").unwrap().list().unwrap().get_inner();
    let clicks = clicks.f32().unwrap().downcast_iter().next().unwrap().values().as_ptr().addr();
    assert_eq!(file(clicks).as_deref(), Some("clicks.memmap"));
    // It lives as long as the frame does.
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(frame.column("id").unwrap().i64().unwrap().get(7), Some(7));
    drop(frame);
    assert_eq!(file(ids), None);
}

#[test]
fn what_can_not_be_scanned() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none");
    let error = |dir, load: &LoadOptions| scan_memmap(dir, load, &ToArrowOptions::default()).err().unwrap();
    assert!(error(&none, &LoadOptions::default()).is_file());
    let dir = folder.path().join("td");
    saved(&dir);
    assert!(error(&dir, &LoadOptions::default().keys(["idd"])).is_key());
    fs::write(dir.join("id.memmap"), [0; 8]).unwrap();
    let torn = error(&dir, &LoadOptions::default());
    assert!(torn.is_file() && torn.to_string().contains("id"), "{torn}");
}
