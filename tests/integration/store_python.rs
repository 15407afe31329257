//! Python opens what we save, and we open what it saves: two halves of `scripts/python.sh`.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    BinaryArray, Decimal128Array, Int32Array, Int64Array, ListArray, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type};
use tch::{Device, Kind, Tensor};
use tensorquery::{
    Entry, JaggedTensor, LazyStackBuilder, LoadOptions, MemmapWriter, NestedKey, NonTensorStack, SaveOptions,
    TensorDict, load_memmap, load_safetensors, save_memmap, save_safetensors,
};

use crate::store::show;

const DTYPES: [(&str, Kind); 11] = [
    ("bool", Kind::Bool),
    ("uint8", Kind::Uint8),
    ("int8", Kind::Int8),
    ("int16", Kind::Int16),
    ("int32", Kind::Int),
    ("int64", Kind::Int64),
    ("float16", Kind::Half),
    ("bfloat16", Kind::BFloat16),
    ("float32", Kind::Float),
    ("float64", Kind::Double),
    ("complex64", Kind::ComplexFloat),
];
const KEYS: [&str; 10] = ["a/b", "../x", "..", ".", "", " ", "größe", "a.b", "%2F", "nl\n"];

fn folder(side: &str) -> Option<PathBuf> {
    env::var_os("TENSORQUERY_PYTHON_FOLDER").map(|folder| PathBuf::from(folder).join(side))
}

fn values(array: impl arrow::array::Array + 'static) -> NonTensorStack {
    NonTensorStack::new(Arc::new(array))
}

fn jagged(rows: &[&[i64]]) -> JaggedTensor {
    JaggedTensor::from_rows(&rows.iter().map(|row| Tensor::from_slice(row)).collect::<Vec<_>>()).unwrap()
}

fn dense() -> TensorDict {
    let mut td = TensorDict::new([3]);
    for (name, kind) in DTYPES {
        td.set(["dtypes", name], Tensor::from_slice(&[0i64, 1, 1]).to_kind(kind)).unwrap();
    }
    td.set(["nested", "y"], Tensor::arange(6, (Kind::Int64, Device::Cpu)).view([3, 2])).unwrap();
    td.set("none", Tensor::zeros([3, 0], (Kind::Float, Device::Cpu))).unwrap();
    td.set_names([Some("time")]).unwrap();
    td
}

fn member(length: i64) -> TensorDict {
    let mut member = TensorDict::new([length]);
    member.set("a", Tensor::arange(length, (Kind::Int64, Device::Cpu))).unwrap();
    member
}

#[test]
#[ignore = "scripts/python.sh"]
fn saves_for_python() {
    let Some(folder) = folder("rust") else { return };
    let options = SaveOptions::default();
    let mut td = dense();
    td.set(["_mask", "x"], Tensor::from_slice(&[true, false, true])).unwrap();
    td.set("tokens", jagged(&[&[1, 2], &[], &[3]])).unwrap();
    td.set("text", values(StringViewArray::from(vec![Some("a \"b\"\n"), None, Some("größe")]))).unwrap();
    save_safetensors(&td, folder.join("all.safetensors"), &options).unwrap();
    for key in KEYS {
        td.set(["keys", key], Tensor::from_slice(&[1i64, 2, 3])).unwrap();
    }
    let wide = Tensor::arange(8, (Kind::Float, Device::Cpu)).view([2, 2, 2]);
    td.set("wide", JaggedTensor::try_new(wide, Tensor::from_slice(&[0i64, 0, 2, 2])).unwrap()).unwrap();
    td.set("hollow", jagged(&[&[], &[], &[]])).unwrap();
    let lists = |rows: [&[i32]; 3]| {
        let rows = rows.map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>()));
        values(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
    };
    td.set("pairs", lists([&[1, 2], &[3, 4], &[5, 6]])).unwrap();
    td.set("ragged", lists([&[1], &[], &[2, 3]])).unwrap();
    td.set("time", values(TimestampMicrosecondArray::from(vec![Some(1), None, Some(1_000_000)]))).unwrap();
    let prices = Decimal128Array::from(vec![100, -5, 0]).with_precision_and_scale(10, 2).unwrap();
    td.set("price", values(prices)).unwrap();
    td.set("bytes", values(BinaryArray::from(vec![Some(b"\0\xff".as_slice()), None, Some(b"")]))).unwrap();
    let field = Arc::new(Field::new("a", DataType::Int32, true));
    let column = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    td.set("struct", values(StructArray::from(vec![(field, column as _)]))).unwrap();
    save_memmap(&td, folder.join("all"), &options).unwrap();
    assert_eq!(show(&load_memmap(folder.join("all"), &LoadOptions::default()).unwrap()), show(&td));

    let mut grid = TensorDict::new([4]);
    grid.set("s", values(StringArray::from(vec!["a", "b", "c", "d"]))).unwrap();
    let pairs = (0..4).map(|row| Some(vec![Some(2 * row + 1), Some(2 * row + 2)]));
    grid.set("l", values(ListArray::from_iter_primitive::<Int32Type, _, _>(pairs))).unwrap();
    save_memmap(&grid.reshape(&[2, 2]).unwrap(), folder.join("grid"), &options).unwrap();

    let mut single = TensorDict::new([]);
    single.set("s", "value").unwrap();
    single.set("n", NonTensorStack::single(Arc::new(Int64Array::from(vec![7]))).unwrap()).unwrap();
    single.set("x", Tensor::from(1.5f32)).unwrap();
    save_memmap(&single, folder.join("single"), &options).unwrap();

    let mut second = member(3);
    second.set("b", Tensor::from_slice(&[1.0f32; 3])).unwrap();
    let lazy = LazyStackBuilder::new([member(2), second]).stack_dim_name("episode").build().unwrap();
    save_memmap(&lazy, folder.join("lazy"), &options).unwrap();
    let even = TensorDict::lazy_stack([member(2), member(2)], 1).unwrap();
    save_safetensors(&even, folder.join("lazy.safetensors"), &options).unwrap();

    let mut writer = MemmapWriter::new(folder.join("streamed"), &options).unwrap();
    let mut last = None;
    for start in [0i64, 2, 4] {
        let mut batch = TensorDict::new([2]);
        batch.set("x", Tensor::from_slice(&[start, start + 1])).unwrap();
        batch.set("j", jagged(&[&[0], &[0, 1]])).unwrap();
        batch.set("s", values(StringArray::from(vec!["a", "b"]))).unwrap();
        writer.append(&batch).unwrap();
        last = Some(batch);
    }
    writer.finish().unwrap();
    save_memmap(&last.unwrap().index(0..0).unwrap(), folder.join("empty"), &options).unwrap();

    let mut over = TensorDict::new([3]);
    over.set("text", values(StringArray::from(vec!["a", "b", "c"]))).unwrap();
    over.set("one", values(StringArray::from(vec!["a", "b", "c"]))).unwrap();
    save_memmap(&over, folder.join("../python/over"), &options).unwrap();
}

fn texts(values: [Option<&str>; 3]) -> Entry {
    self::values(StringArray::from(values.to_vec())).into()
}

#[test]
#[ignore = "scripts/python.sh"]
fn opens_what_python_saved() {
    let Some(folder) = folder("python") else { return };
    let load = |name: &str| load_memmap(folder.join(name), &LoadOptions::default()).unwrap();
    let compare = |loaded: &TensorDict, due: &TensorDict| {
        let keys = |td: &TensorDict| {
            let mut keys = td.leaf_keys();
            keys.sort();
            keys
        };
        assert_eq!(keys(loaded), keys(due));
        assert_eq!((loaded.batch_size(), loaded.names().unwrap()), (due.batch_size(), due.names().unwrap()));
        for key in keys(due) {
            let entry = |td: &TensorDict| {
                let tensor = td.entry(&key).unwrap();
                match tensor.as_tensor().filter(|tensor| tensor.kind() == Kind::ComplexFloat) {
                    Some(tensor) => Entry::Tensor(tensor.view_as_real().copy()),
                    None => tensor,
                }
            };
            let shown = |td: &TensorDict| show(&TensorDict::from_entries([("entry", entry(td))]).unwrap());
            assert_eq!(shown(loaded), shown(due), "{key}");
        }
    };
    let mut due = dense();
    for key in KEYS {
        due.set(["keys", key], Tensor::from_slice(&[1i64, 2, 3])).unwrap();
    }
    due.set("one", texts([Some("value"); 3])).unwrap();
    compare(&load_safetensors(folder.join("all.safetensors"), &LoadOptions::default()).unwrap(), &due);
    due.set("text", texts([Some("a \"b\"\n"), None, Some("größe")])).unwrap();
    let field = Arc::new(Field::new("a", DataType::Int64, true));
    due.set("pairs", values(StructArray::from(vec![(field, Arc::new(Int64Array::from(vec![0, 1, 2])) as _)]))).unwrap();
    compare(&load("all"), &due);

    let wide = load("wide");
    assert_eq!(Vec::<i32>::try_from(wide.tensor("u16").unwrap()).unwrap(), [65535, 1]);
    assert_eq!(Vec::<i64>::try_from(wide.tensor("u32").unwrap()).unwrap(), [4_294_967_295, 1]);
    assert_eq!(Vec::<i64>::try_from(wide.tensor("u64").unwrap()).unwrap(), [5, 1]);
    assert_eq!(wide.tensor("c32").unwrap().kind(), Kind::ComplexHalf);

    let nested = load("nested").jagged("x").unwrap();
    assert_eq!(Vec::<i64>::try_from(nested.values()).unwrap(), [0, 1, 2]);
    assert_eq!(Vec::<i64>::try_from(nested.offsets()).unwrap(), [0, 1, 3]);

    let lazy = load("lazy");
    assert_eq!((lazy.batch_size(), lazy.stack_dim_name()), (vec![2, -1], Some("episode")));
    assert!(lazy.members()[1].contains_key("b") && !lazy.members()[0].contains_key("b"));
    let grid = load("grid");
    let due = values(StringArray::from(vec!["a", "b", "c", "d"]));
    assert_eq!(grid.non_tensor("s").unwrap().batch_size(), [2, 2]);
    assert_eq!(grid.non_tensor("s").unwrap().values(), due.values());

    let lazy = load_safetensors(folder.join("lazy.safetensors"), &LoadOptions::default()).unwrap();
    assert_eq!((lazy.stack_dim(), lazy.batch_size()), (Some(1), vec![2, 2]));
    let model = load_safetensors(folder.join("model.safetensors"), &LoadOptions::default()).unwrap();
    assert_eq!(model.leaf_keys().len(), 2);
    assert_eq!(model.tensor(NestedKey::from(["0", "bias"])).unwrap().size(), [4]);
    assert_eq!(model.tensor(["0", "weight"]).unwrap().size(), [4, 3]);

    let over = load("over");
    let found = |name: &str| over.non_tensor(name).unwrap().to_value().unwrap().to_string();
    assert_eq!((found("text"), found("one")), ("[\"p\", \"q\", \"r\"]".into(), "[\"new\", \"new\", \"new\"]".into()));
}
