//! What is saved is what is loaded.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Decimal128Array, Float64Array, Int32Array, ListArray, NullArray, StringArray,
    StringViewArray, StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Float64Type};
use proptest::prelude::*;
use tch::{Device, IndexOp, Kind, Tensor};
use tempfile::TempDir;
use tensorquery::{
    Entry, JaggedTensor, LazyStackBuilder, LoadOptions, MemmapWriter, NestedKey, NonTensorStack, Nulls, Options,
    SafetensorsWriter, SaveOptions, TensorDict, from_arrow_chunks, load_memmap, load_safetensors, save_memmap,
    save_safetensors, write_json,
};

use crate::random::{LEAVES, chunks};

/// All that a tensordict holds, as text; and what the text doesn't say.
pub(crate) fn show(td: &TensorDict) -> String {
    let mut text = Vec::new();
    write_json(td, &mut text).unwrap();
    let mut text = String::from_utf8(text).unwrap();
    more(td, &mut text);
    text
}

fn more(td: &TensorDict, text: &mut String) {
    text.push_str(&format!("\n{:?} {:?}", td.names(), td.stack_dim_name()));
    for member in td.members() {
        more(member, text);
    }
    if td.is_lazy() {
        return;
    }
    for (name, entry) in td.items().unwrap() {
        match entry {
            Entry::NonTensor(values) => {
                // Arrow files number their dictionaries, which is no part of the type.
                let data_type = format!("{:?}", values.data_type());
                let numbered = |part: &str| part.trim_start_matches(|digit: char| digit.is_ascii_digit()).to_owned();
                let data_type: Vec<_> = data_type.split(", dict_id: ").map(numbered).collect();
                text.push_str(&format!("\n{name} {} {:?}", data_type.concat(), values.batch_size()))
            }
            Entry::Jagged(jagged) => text.push_str(&format!("\n{name} {:?}", jagged.shape())),
            Entry::Dict(dict) => more(&dict, text),
            _ => {}
        }
    }
}

fn lists(rows: &[&[i64]]) -> JaggedTensor {
    let rows: Vec<Tensor> = rows.iter().map(|row| Tensor::from_slice(row)).collect();
    JaggedTensor::from_rows(&rows).unwrap()
}

fn values(array: impl arrow::array::Array + 'static) -> NonTensorStack {
    NonTensorStack::new(Arc::new(array))
}

/// Saved and loaded in both forms. Device labels are the directory's alone.
fn both(td: &TensorDict) -> [TensorDict; 2] {
    let folder = TempDir::new().unwrap();
    let (dir, file) = (folder.path().join("td"), folder.path().join("td.safetensors"));
    save_memmap(td, &dir, &SaveOptions::default()).unwrap();
    save_safetensors(td, &file, &SaveOptions::default()).unwrap();
    let loaded = [load_memmap(&dir, &LoadOptions::default()), load_safetensors(&file, &LoadOptions::default())];
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    loaded.map(Result::unwrap)
}

fn comes_back(td: &TensorDict) {
    for loaded in both(td) {
        assert_eq!(show(&loaded), show(td));
    }
}

pub(crate) fn sample() -> TensorDict {
    let mut td = TensorDict::new([3]);
    td.set("x", Tensor::from_slice(&[1.5f32, f32::NAN, -0.0])).unwrap();
    td.set(["nested", "deep", "y"], Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6]).view([3, 2])).unwrap();
    td.set(["_mask", "x"], Tensor::from_slice(&[true, false, true])).unwrap();
    td.set("tokens", lists(&[&[1, 2], &[], &[3]])).unwrap();
    let wide = Tensor::arange(8, (Kind::Float, Device::Cpu)).view([2, 2, 2]);
    let offsets = Tensor::from_slice(&[0i64, 0, 2, 2]);
    td.set("wide", JaggedTensor::try_new(wide, offsets).unwrap()).unwrap();
    td.set("text", values(StringViewArray::from(vec![Some("a \"b\"\n"), None, Some("größe")]))).unwrap();
    td.set_names([Some("time")]).unwrap();
    td
}

#[test]
fn a_sample_of_all_kinds() {
    comes_back(&sample());
}

#[test]
fn every_dtype() {
    let kinds = [
        Kind::Bool,
        Kind::Uint8,
        Kind::Int8,
        Kind::Int16,
        Kind::Int,
        Kind::Int64,
        Kind::Half,
        Kind::BFloat16,
        Kind::Float,
        Kind::Double,
        Kind::ComplexFloat,
        Kind::ComplexHalf,
        Kind::ComplexDouble,
    ];
    let folder = TempDir::new().unwrap();
    let mut td = TensorDict::new([3]);
    // An odd number of bytes before wider ones.
    for kind in kinds {
        td.set(format!("{kind:?}"), Tensor::from_slice(&[0i64, 1, 1]).to_kind(kind)).unwrap();
    }
    let check = |loaded: &TensorDict| {
        for key in loaded.keys() {
            let (found, due) = (loaded.tensor(key.as_str()).unwrap(), td.tensor(key.as_str()).unwrap());
            assert_eq!(found.kind(), due.kind());
            // libtorch compares no complex numbers of 16 bits.
            let plain = |tensor: &Tensor| {
                if key.starts_with("Complex") {
                    tensor.view_as_real().to_kind(Kind::Double)
                } else {
                    tensor.shallow_clone()
                }
            };
            assert!(plain(&found).equal(&plain(&due)), "{key}");
        }
    };
    save_memmap(&td, folder.path().join("td"), &SaveOptions::default()).unwrap();
    let loaded = load_memmap(folder.path().join("td"), &LoadOptions::default()).unwrap();
    assert_eq!(loaded.len(), kinds.len());
    check(&loaded);
    let file = folder.path().join("td.safetensors");
    let error = save_safetensors(&td, &file, &SaveOptions::default()).unwrap_err();
    assert!(error.is_schema() && error.to_string().contains("'ComplexHalf'"), "{error}");
    let td = td.exclude(["ComplexHalf", "ComplexDouble"]);
    save_safetensors(&td, &file, &SaveOptions::default()).unwrap();
    let loaded = load_safetensors(&file, &LoadOptions::default()).unwrap();
    assert_eq!(loaded.len(), kinds.len() - 2);
    check(&loaded);
}

#[test]
fn empty_ones() {
    comes_back(&TensorDict::new([]));
    comes_back(&TensorDict::new([5]));
    comes_back(&TensorDict::new([0, 3]));
    comes_back(&sample().index(0..0).unwrap());
    comes_back(&TensorDict::from_entries([("x", Tensor::from(3i64))]).unwrap());
    let mut td = TensorDict::new([2, 0]);
    td.set("x", Tensor::zeros([2, 0, 4], (Kind::Float, Device::Cpu))).unwrap();
    td.set("s", "value").unwrap();
    comes_back(&td);
    let mut td = TensorDict::new([2]);
    td.set("none", lists(&[&[], &[]])).unwrap();
    let rowless =
        JaggedTensor::try_new(Tensor::zeros([5, 0], (Kind::Int, Device::Cpu)), Tensor::from_slice(&[0i64, 2, 5]));
    td.set("rowless", rowless.unwrap()).unwrap();
    comes_back(&td);
}

#[test]
fn any_key_is_a_file() {
    let mut td = TensorDict::new([1]);
    for name in
        ["a/b", "../x", "..", ".", "", " ", "größe", "a.b", "%", "%2F", "C:\\x", "new\nline", "nul\0", "x.shape"]
    {
        td.set(["in", name], Tensor::from_slice(&[1i64])).unwrap();
        td.set(["of", name, "y"], Tensor::from_slice(&[2i64])).unwrap();
        td.set(["text", name], "v").unwrap();
    }
    comes_back(&td);
}

#[test]
fn keys_that_would_be_lost() {
    let folder = TempDir::new().unwrap();
    let save = |td: &TensorDict| save_memmap(td, folder.path().join("td"), &SaveOptions::default());
    for name in ["shape", "device", "_type", "_class", "_format_version", "_names"] {
        let mut td = TensorDict::new([1]);
        td.set(["n", name], Tensor::from_slice(&[1i64])).unwrap();
        let error = save(&td).unwrap_err();
        assert!(error.is_key() && error.nested_key() == Some(&NestedKey::from(["n", name])), "{error}");
        save_safetensors(&td, folder.path().join(name), &SaveOptions::default()).unwrap();
    }
    let mut td = TensorDict::new([1]);
    td.set("x", lists(&[&[1]])).unwrap();
    td.set("x.shape", Tensor::from_slice(&[1i64])).unwrap();
    assert!(save(&td).unwrap_err().is_key());
    let mut td = TensorDict::new([1]);
    td.set(["meta.json", "a"], Tensor::from_slice(&[1i64])).unwrap();
    assert!(save(&td).unwrap_err().is_key());
    let mut td = TensorDict::new([1]);
    td.set(["a", "b"], Tensor::from_slice(&[1i64])).unwrap();
    td.set("a.b", Tensor::from_slice(&[1i64])).unwrap();
    save(&td).unwrap();
    let error = save_safetensors(&td, folder.path().join("same"), &SaveOptions::default()).unwrap_err();
    assert!(error.is_key() && error.to_string().contains("'a.b'"), "{error}");
    assert!(!folder.path().join("same").exists());
}

#[test]
fn arrow_types_come_back() {
    let list = ListArray::from_iter_primitive::<Float64Type, _, _>([
        Some(vec![Some(1.5), None]),
        Some(vec![Some(f64::NAN), Some(f64::INFINITY)]),
    ]);
    let fields = vec![
        (Arc::new(Field::new("a", DataType::Int32, true)), Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef),
        (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(StringArray::from(vec![None, Some("x")]))),
    ];
    let mut td = TensorDict::new([2]);
    td.set("time", values(TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone("Europe/Berlin")))
        .unwrap();
    td.set("price", values(Decimal128Array::from(vec![100, -5]).with_precision_and_scale(10, 2).unwrap())).unwrap();
    td.set("bytes", values(BinaryArray::from(vec![Some(b"\0\xff".as_slice()), None]))).unwrap();
    td.set("list", values(list)).unwrap();
    td.set("struct", values(StructArray::from(fields))).unwrap();
    td.set("big", values(UInt64Array::from(vec![u64::MAX, 0]))).unwrap();
    td.set("null", values(NullArray::new(2))).unwrap();
    comes_back(&td);
    comes_back(&td.index(1).unwrap());
    let grid = td.reshape(&[2, 1]).unwrap().expand(&[2, 3]).unwrap();
    comes_back(&grid);
    let mut nan = TensorDict::new([]);
    nan.set("nan", NonTensorStack::single(Arc::new(Float64Array::from(vec![f64::NAN]))).unwrap()).unwrap();
    comes_back(&nan);
}

#[test]
fn lazy_stacks() {
    let member = |names: &[&str], length: i64| {
        let mut member = TensorDict::new([length]);
        for name in names {
            member.set(*name, Tensor::arange(length, (Kind::Int64, Device::Cpu))).unwrap();
        }
        member
    };
    let folder = TempDir::new().unwrap();
    let keep = |td: &TensorDict| {
        let dir = folder.path().join("td");
        save_memmap(td, &dir, &SaveOptions::default().overwrite(true)).unwrap();
        let loaded = load_memmap(&dir, &LoadOptions::default()).unwrap();
        assert_eq!(show(&loaded), show(td));
        loaded
    };
    let builder = LazyStackBuilder::new([member(&["a", "b"], 2), member(&["b", "c"], 3)]).stack_dim(1);
    let uneven = builder.stack_dim_name("episode").build().unwrap();
    assert_eq!(keep(&uneven).batch_size(), [-1, 2]);
    let mut outer = TensorDict::new([2]);
    outer.set("stack", TensorDict::lazy_stack([member(&["a"], 2), member(&["a", "b"], 2)], 0).unwrap()).unwrap();
    keep(&outer);
    keep(&LazyStackBuilder::new([]).batch_size([3, 4]).stack_dim(1).stack_dim_name("t").build().unwrap());
    keep(&TensorDict::lazy_stack([outer.shallow_clone(), outer.shallow_clone()], 0).unwrap());
    let error = save_safetensors(&outer, folder.path().join("f"), &SaveOptions::default()).unwrap_err();
    assert!(error.is_key() && error.to_string().contains("'b'"), "{error}");
    assert!(save_safetensors(&uneven, folder.path().join("f"), &SaveOptions::default()).unwrap_err().is_shape());
    // With all entries alike, both forms have room for one.
    for dim in [0, 1] {
        let even = LazyStackBuilder::new([member(&["a"], 3), member(&["a"], 3)]).stack_dim(dim).build().unwrap();
        comes_back(&even);
        let mut within = TensorDict::new([]);
        within.set("stack", even).unwrap();
        comes_back(&within);
    }
    // Rows of a stack along the first dim are its members.
    let dir = folder.path().join("rows");
    save_memmap(&outer, &dir, &SaveOptions::default()).unwrap();
    let part = load_memmap(&dir, &LoadOptions::default().rows(1..2)).unwrap();
    assert_eq!(show(&part), show(&outer.index(1..2).unwrap()));
}

#[test]
fn deeper_than_the_limit() {
    let nested = |levels: usize| {
        let mut td = TensorDict::new([]);
        td.set(vec!["d".to_owned(); levels], Tensor::from(1i64)).unwrap();
        td
    };
    comes_back(&nested(65));
    let folder = TempDir::new().unwrap();
    assert!(save_memmap(&nested(66), folder.path().join("d"), &SaveOptions::default()).unwrap_err().is_key());
    assert!(save_safetensors(&nested(66), folder.path().join("f"), &SaveOptions::default()).unwrap_err().is_key());
}

#[test]
fn parts_are_loaded_alone() {
    let folder = TempDir::new().unwrap();
    let (dir, file) = (folder.path().join("td"), folder.path().join("f"));
    let td = sample();
    save_memmap(&td, &dir, &SaveOptions::default()).unwrap();
    save_safetensors(&td, &file, &SaveOptions::default()).unwrap();
    for (start, end) in [(0, 3), (1, 3), (0, 1), (2, 2), (0, 0), (3, 3)] {
        let options = LoadOptions::default().rows(start..end);
        let due = show(&td.index(start..end).unwrap());
        assert_eq!(show(&load_memmap(&dir, &options).unwrap()), due);
        assert_eq!(show(&load_safetensors(&file, &options).unwrap()), due);
    }
    for rows in [-1..1, 0..4, 4..4, std::ops::Range { start: 2, end: 1 }] {
        let options = LoadOptions::default().rows(rows);
        assert!(load_memmap(&dir, &options).unwrap_err().is_index());
        assert!(load_safetensors(&file, &options).unwrap_err().is_index());
    }
    // No file of another key is opened.
    fs::remove_file(dir.join("x.memmap")).unwrap();
    fs::remove_dir_all(dir.join("text")).unwrap();
    let keys = [NestedKey::from("tokens"), NestedKey::from(["nested", "deep"])];
    let options = LoadOptions::default().keys(keys);
    let due = td.select([NestedKey::from(["nested", "deep", "y"]), NestedKey::from("tokens")]).unwrap();
    assert_eq!(show(&load_memmap(&dir, &options).unwrap()), show(&due));
    assert_eq!(show(&load_safetensors(&file, &options).unwrap()), show(&due));
    for key in [NestedKey::from("no"), NestedKey::from(["tokens", "no"]), NestedKey::from(["nested", "no"])] {
        let options = LoadOptions::default().keys([key]);
        assert!(load_memmap(&dir, &options).unwrap_err().is_key());
        assert!(load_safetensors(&file, &options).unwrap_err().is_key());
    }
}

#[test]
fn writes_to_a_tensor_stay_in_memory() {
    let folder = TempDir::new().unwrap();
    let (dir, file) = (folder.path().join("td"), folder.path().join("f"));
    save_memmap(&sample(), &dir, &SaveOptions::default()).unwrap();
    save_safetensors(&sample(), &file, &SaveOptions::default()).unwrap();
    let load = || {
        [load_memmap(&dir, &LoadOptions::default()).unwrap(), load_safetensors(&file, &LoadOptions::default()).unwrap()]
    };
    for loaded in load() {
        let _ = loaded.tensor("x").unwrap().fill_(7);
        let _ = loaded.jagged("tokens").unwrap().values().i(..).fill_(7);
    }
    for loaded in load() {
        assert_eq!(show(&loaded), show(&sample()));
    }
}

#[test]
fn batches_one_after_the_other() {
    let folder = TempDir::new().unwrap();
    let (dir, file) = (folder.path().join("td"), folder.path().join("f"));
    let parts = [(0, 1), (1, 1), (1, 3)].map(|(start, end)| sample().index(start..end).unwrap());
    let mut directory = MemmapWriter::new(&dir, &SaveOptions::default()).unwrap();
    let mut single = SafetensorsWriter::new(&file, &SaveOptions::default()).unwrap();
    for part in &parts {
        directory.append(part).unwrap();
        single.append(part).unwrap();
        // What doesn't fit is told, and changes nothing.
        let mut other = sample();
        other.set("more", Tensor::from_slice(&[1i64, 2, 3])).unwrap();
        let mut casted = sample();
        casted.set("x", Tensor::from_slice(&[1i64, 2, 3])).unwrap();
        let mut shaped = sample();
        shaped.set("x", Tensor::zeros([3, 2], (Kind::Float, Device::Cpu))).unwrap();
        let mut kind = sample();
        kind.set("tokens", Tensor::from_slice(&[1i64, 2, 3])).unwrap();
        let lacking = sample().exclude(["x"]);
        let mut typed = sample();
        typed.set("text", values(StringArray::from(vec!["a", "b", "c"]))).unwrap();
        for (td, key) in
            [(other, "more"), (casted, "x"), (shaped, "x"), (kind, "tokens"), (lacking, "x"), (typed, "text")]
        {
            for error in [directory.append(&td).unwrap_err(), single.append(&td).unwrap_err()] {
                assert_eq!(error.nested_key(), Some(&NestedKey::from(key)), "{error}");
            }
        }
    }
    assert!(!dir.exists() && !file.exists());
    directory.finish().unwrap();
    single.finish().unwrap();
    assert_eq!(show(&load_memmap(&dir, &LoadOptions::default()).unwrap()), show(&sample()));
    assert_eq!(show(&load_safetensors(&file, &LoadOptions::default()).unwrap()), show(&sample()));
    for (start, end) in [(0, 1), (0, 2), (2, 3)] {
        let part = load_memmap(&dir, &LoadOptions::default().rows(start..end)).unwrap();
        assert_eq!(show(&part), show(&sample().index(start..end).unwrap()));
    }
    let never = MemmapWriter::new(folder.path().join("never"), &SaveOptions::default()).unwrap();
    assert!(never.finish().unwrap_err().is_shape());
    drop(MemmapWriter::new(folder.path().join("dropped"), &SaveOptions::default()).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn more_columns_than_open_files() {
    let mut td = TensorDict::new([2]);
    for column in 0..3000 {
        td.set(format!("c{column}"), Tensor::from_slice(&[column, column + 1])).unwrap();
    }
    comes_back(&td);
}

#[test]
fn tensors_that_are_not_contiguous() {
    let mut td = TensorDict::new([3]);
    let wide = Tensor::arange(6, (Kind::Float, Device::Cpu)).view([2, 3]);
    td.set("t", wide.tr()).unwrap();
    td.set("e", Tensor::from_slice(&[1i64]).expand([3], false)).unwrap();
    td.set("g", Tensor::from_slice(&[1.0, 2.0, 3.0]).set_requires_grad(true)).unwrap();
    let large = Tensor::arange(3 << 20, (Kind::Int64, Device::Cpu)).view([1 << 20, 3]).tr();
    td.set("large", &large - 1).unwrap();
    td.set("c", Tensor::from_slice(&[1.0, 2.0, 3.0]).to_kind(Kind::ComplexFloat).conj()).unwrap();
    let folder = TempDir::new().unwrap();
    save_memmap(&td, folder.path().join("td"), &SaveOptions::default()).unwrap();
    let loaded = load_memmap(folder.path().join("td"), &LoadOptions::default()).unwrap();
    for key in ["t", "e", "g", "large"] {
        assert!(loaded.tensor(key).unwrap().equal(&td.tensor(key).unwrap()), "{key}");
    }
}

#[test]
fn what_is_there_stays() {
    let folder = TempDir::new().unwrap();
    let (dir, file) = (folder.path().join("td"), folder.path().join("f"));
    let other = TensorDict::from_entries([("y", Tensor::from_slice(&[1i64]))]).unwrap();
    save_memmap(&sample(), &dir, &SaveOptions::default()).unwrap();
    save_safetensors(&sample(), &file, &SaveOptions::default()).unwrap();
    let held = load_memmap(&dir, &LoadOptions::default()).unwrap();
    assert!(save_memmap(&other, &dir, &SaveOptions::default()).unwrap_err().is_file());
    assert!(save_safetensors(&other, &file, &SaveOptions::default()).unwrap_err().is_file());
    assert_eq!(show(&load_memmap(&dir, &LoadOptions::default()).unwrap()), show(&sample()));
    // A save that fails on the way leaves the old.
    let mut reserved = TensorDict::new([]);
    reserved.set("a", Tensor::from(1i64)).unwrap();
    reserved.set(["b", "shape"], Tensor::from(1i64)).unwrap();
    let overwrite = SaveOptions::default().overwrite(true);
    assert!(save_memmap(&reserved, &dir, &overwrite).is_err());
    assert_eq!(show(&load_memmap(&dir, &LoadOptions::default()).unwrap()), show(&sample()));
    save_memmap(&other, &dir, &overwrite).unwrap();
    save_safetensors(&other, &file, &overwrite).unwrap();
    assert_eq!(show(&load_memmap(&dir, &LoadOptions::default()).unwrap()), show(&other));
    assert_eq!(show(&load_safetensors(&file, &LoadOptions::default()).unwrap()), show(&other));
    assert_eq!(show(&held), show(&sample()), "maps of what was there still hold");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    assert!(save_memmap(&other, Path::new("/"), &SaveOptions::default()).unwrap_err().is_file());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_columns_come_back((schema, chunks) in chunks(&LEAVES)) {
        let options = Options::default().nulls(Nulls::Mask);
        let td = from_arrow_chunks(&schema, chunks.clone(), &options).unwrap();
        for loaded in both(&td) {
            prop_assert_eq!(show(&loaded), show(&td));
        }
    }
}

#[test]
fn a_first_batch_that_is_refused_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let batch = |number: i64, offsets: &Tensor| {
        let members = [1, 2].map(|_| TensorDict::from_entries([("q", Tensor::from_slice(&[number]))]).unwrap());
        let mut td = TensorDict::new([2]);
        td.set("stack", TensorDict::lazy_stack(members, 0).unwrap()).unwrap();
        let values = Tensor::from_slice(&[number, number]);
        td.set("lists", JaggedTensor::try_new(values, offsets.shallow_clone()).unwrap()).unwrap();
        td
    };
    let offsets = Tensor::from_slice(&[0i64, 1, 2]);
    let refused = batch(1, &offsets);
    let _ = offsets.get(1).fill_(5);
    let written = batch(2, &Tensor::from_slice(&[0i64, 1, 2]));
    let mut writer = MemmapWriter::new(folder.path().join("td"), &SaveOptions::default()).unwrap();
    assert!(writer.append(&refused).unwrap_err().is_shape());
    writer.append(&written).unwrap();
    writer.finish().unwrap();
    let loaded = load_memmap(folder.path().join("td"), &LoadOptions::default()).unwrap();
    assert_eq!(show(&loaded), show(&written));
}
