//! Files that are not what they should be.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tch::Tensor;
use tempfile::TempDir;
use tensorquery::{
    Error, JaggedTensor, LoadOptions, SaveOptions, TensorDict, load_memmap, load_safetensors, save_memmap,
    save_safetensors,
};

use crate::store::{sample, show};

fn load(dir: &Path) -> Result<TensorDict, Error> {
    load_memmap(dir, &LoadOptions::default())
}

fn open(file: &Path) -> Result<TensorDict, Error> {
    load_safetensors(file, &LoadOptions::default())
}

/// A saved sample, which each case damages.
struct Saved {
    _folder: TempDir,
    dir: PathBuf,
    file: PathBuf,
}

fn saved() -> Saved {
    let folder = TempDir::new().unwrap();
    let (dir, file) = (folder.path().join("td"), folder.path().join("f"));
    save_memmap(&sample(), &dir, &SaveOptions::default()).unwrap();
    save_safetensors(&sample(), &file, &SaveOptions::default()).unwrap();
    Saved { _folder: folder, dir, file }
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn files_cut_at_any_byte() {
    let saved = saved();
    let due = show(&sample());
    let mut all = Vec::new();
    files(&saved.dir, &mut all);
    assert_eq!(all.len(), 13, "{all:?}");
    for path in all {
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let error = load(&saved.dir).map(|td| show(&td)).unwrap_err();
            assert!(error.is_file(), "{} at {length}: {error}", path.display());
        }
        fs::write(&path, [&*whole, b" "].concat()).unwrap();
        match load(&saved.dir) {
            // JSON may end in a space; what else is longer than it should be isn't whole.
            Ok(td) => assert!(path.ends_with("meta.json") && show(&td) == due, "{}", path.display()),
            Err(error) => assert!(error.is_file(), "{}: {error}", path.display()),
        }
        fs::remove_file(&path).unwrap();
        assert!(load(&saved.dir).unwrap_err().is_file(), "without {}", path.display());
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(show(&load(&saved.dir).unwrap()), due);
    let whole = fs::read(&saved.file).unwrap();
    for length in 0..whole.len() {
        fs::write(&saved.file, &whole[..length]).unwrap();
        assert!(open(&saved.file).unwrap_err().is_file(), "at {length}");
    }
    fs::write(&saved.file, [&*whole, b"\0"].concat()).unwrap();
    assert!(open(&saved.file).unwrap_err().is_file());
}

/// Whatever a byte becomes, there is a tensordict or an error, and what there is can be read.
#[test]
fn bytes_changed_anywhere() {
    let saved = saved();
    let mut all = vec![saved.file.clone()];
    files(&saved.dir, &mut all);
    let mut rejected = 0;
    // What panics within Arrow's reader is caught; its message would only fill the screen.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = std::panic::catch_unwind(|| {
        let mut rejected = 0;
        for path in &all {
            let whole = fs::read(path).unwrap();
            for at in (0..whole.len()).step_by(1 + whole.len() / 400) {
                for value in [0x00, 0xff, whole[at] ^ 0x40, b'9'] {
                    let mut changed = whole.clone();
                    changed[at] = value;
                    fs::write(path, changed).unwrap();
                    let loaded = if *path == saved.file { open(path) } else { load(&saved.dir) };
                    match loaded {
                        Ok(td) => drop(td.items().map(|_| show(&td))),
                        Err(_) => rejected += 1,
                    }
                }
            }
            fs::write(path, whole).unwrap();
        }
        rejected
    });
    std::panic::set_hook(hook);
    rejected += outcome.unwrap();
    assert!(rejected > 1000, "{rejected}");
}

/// The metadata with one value exchanged, at a JSON pointer.
fn with(dir: &Path, pointer: &str, value: Value) -> Result<TensorDict, Error> {
    let path = dir.join("meta.json");
    let whole = fs::read(&path).unwrap();
    let mut metadata: Value = serde_json::from_slice(&whole).unwrap();
    *metadata.pointer_mut(pointer).unwrap() = value;
    fs::write(&path, metadata.to_string()).unwrap();
    let loaded = load(dir);
    fs::write(&path, whole).unwrap();
    loaded
}

#[test]
fn metadata_that_lies() {
    let saved = saved();
    let cases = [
        ("/x/shape", json!([4])),
        ("/x/shape", json!([2])),
        ("/x/shape", json!([-3])),
        ("/x/shape", json!([3.5])),
        ("/x/shape", json!([3, i64::MAX])),
        ("/x/shape", json!([3, i64::MAX, i64::MAX])),
        ("/x/shape", json!([3, 0, i64::MAX, i64::MAX])),
        ("/x/shape", json!([1u64 << 63])),
        ("/x/shape", json!("3")),
        ("/x/dtype", json!("torch.float64")),
        ("/x/dtype", json!("torch.bool")),
        ("/x/dtype", json!("os.system")),
        ("/x/dtype", json!(null)),
        ("/x/is_nested", json!(true)),
        ("/tokens/shape", json!([3, 2])),
        ("/tokens/shape", json!([2, 1])),
        ("/tokens/shape", json!([i64::MAX, i64::MAX])),
        ("/tokens/shape", json!([3])),
        ("/tokens/dtype", json!("torch.int32")),
        ("/tokens/dtype", json!("torch.complex128")),
        ("/wide/shape", json!([3, 1])),
        ("/text/type", json!("TensorDict")),
        ("/nested/type", json!("NonTensorStack")),
        ("/shape", json!([2])),
        ("/shape", json!([i64::MAX])),
        ("/shape", json!([])),
        ("/shape", json!(null)),
        ("/_class", json!("posix:system")),
        ("/_class", json!("tensordict:LazyStackedTensorDict")),
        ("/_class", json!("")),
        ("/_format_version", json!(2)),
        ("/_format_version", json!("1")),
        ("/_names", json!(["a", "b"])),
        ("/_names", json!("a")),
    ];
    for (pointer, value) in cases {
        let loaded = with(&saved.dir, pointer, value.clone());
        // Fewer batch dims are a prefix of all shapes but those of ragged and non-tensor entries.
        let error = loaded.map(|td| show(&td)).unwrap_err();
        assert!(error.is_file() || error.is_shape(), "{pointer} {value}: {error}");
    }
    assert!(load(&saved.dir).is_ok());
    let text = fs::read_to_string(saved.dir.join("meta.json")).unwrap();
    fs::write(saved.dir.join("meta.json"), text.replacen('{', "{\"x\":{},", 1)).unwrap();
    assert!(load(&saved.dir).unwrap_err().to_string().contains("'x' stands twice"));
}

#[test]
fn sizes_of_rows_that_lie() {
    let saved = saved();
    let path = saved.dir.join("tokens.shape.memmap");
    for lengths in
        [[2, 0, 2], [3, -1, 1], [i64::MAX, 1, 1], [i64::MAX, i64::MAX, 5], [i64::MIN, i64::MIN, 3], [0, 0, 0]]
    {
        let bytes: Vec<u8> = lengths.iter().flat_map(|length: &i64| length.to_ne_bytes()).collect();
        fs::write(&path, bytes).unwrap();
        assert!(load(&saved.dir).unwrap_err().is_file(), "{lengths:?}");
    }
    // Rows without elements take no bytes, so the file can't tell how many there are.
    let dir = saved.dir.with_file_name("rowless");
    fs::create_dir(&dir).unwrap();
    let metadata = json!({
        "_type": "<class 'tensordict._td.TensorDict'>", "shape": [2],
        "x": {"dtype": "torch.int64", "shape": [2, 2], "is_nested": true},
    });
    fs::write(dir.join("meta.json"), metadata.to_string()).unwrap();
    fs::write(dir.join("x.memmap"), "").unwrap();
    for lengths in [[i64::MAX, 0, i64::MAX, 0], [i64::MIN, 0, 1, 0], [1 << 62, 0, 1 << 62, 0]] {
        let bytes: Vec<u8> = lengths.iter().flat_map(|length: &i64| length.to_ne_bytes()).collect();
        fs::write(dir.join("x.shape.memmap"), bytes).unwrap();
        assert!(load(&dir).unwrap_err().is_file(), "{lengths:?}");
    }
}

#[test]
fn booleans_are_zero_or_one() {
    let saved = saved();
    fs::write(saved.dir.join("_mask/x.memmap"), [0, 2, 1]).unwrap();
    let error = load(&saved.dir).unwrap_err();
    assert!(error.is_file() && error.to_string().contains("('_mask', 'x')"), "{error}");
    assert!(load_memmap(&saved.dir, &LoadOptions::default().rows(2..3)).is_ok(), "only rows asked for are read");
}

#[test]
fn no_path_leads_out() {
    let saved = saved();
    let outside = saved.dir.with_file_name("outside");
    fs::write(&outside, [0; 12]).unwrap();
    let link = |name: &str, to: &Path| {
        let path = saved.dir.join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        symlink(to, path).unwrap();
        load(&saved.dir).unwrap_err()
    };
    let copy = saved.dir.with_file_name("copy");
    save_memmap(&sample(), &copy, &SaveOptions::default()).unwrap();
    assert!(link("x.memmap", &outside).to_string().contains("symbolic link"));
    fs::remove_file(saved.dir.join("x.memmap")).unwrap();
    fs::copy(copy.join("x.memmap"), saved.dir.join("x.memmap")).unwrap();
    assert!(link("nested", &copy.join("nested")).is_file());
    // The directory itself may be named by a link.
    let named = saved.dir.with_file_name("named");
    symlink(&copy, &named).unwrap();
    assert_eq!(show(&load(&named).unwrap()), show(&sample()));
    assert!(save_memmap(&sample(), &named, &SaveOptions::default().overwrite(true)).unwrap_err().is_file());
    // Keys are names, not paths.
    for key in ["../outside", "/etc/passwd", "..", "x/../../outside"] {
        let dir = saved.dir.with_file_name("keys");
        fs::create_dir_all(&dir).unwrap();
        let metadata = json!({
            "_type": "<class 'tensordict._td.TensorDict'>", "shape": [],
            key: {"dtype": "torch.uint8", "shape": [1]},
        });
        fs::write(dir.join("meta.json"), metadata.to_string()).unwrap();
        assert!(load(&dir).unwrap_err().is_file(), "{key}");
        let metadata =
            json!({"_type": "<class 'tensordict._td.TensorDict'>", "shape": [], key: {"type": "TensorDict"}});
        fs::write(dir.join("meta.json"), metadata.to_string()).unwrap();
        assert!(load(&dir).unwrap_err().is_file(), "{key}");
    }
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let saved = saved();
    for name in ["x.memmap", "meta.json"] {
        let path = saved.dir.join(name);
        let whole = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(load(&saved.dir).unwrap_err().to_string().contains("is no file"));
        assert!(open(&path).unwrap_err().is_file());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(load(&saved.dir).unwrap_err().is_file());
        fs::remove_dir(&path).unwrap();
        fs::write(&path, whole).unwrap();
    }
    for path in ["/dev/zero", "/", "/does/not/exist", "", "/proc/self/mem"] {
        assert!(load(Path::new(path)).unwrap_err().is_file(), "{path}");
        assert!(open(Path::new(path)).unwrap_err().is_file(), "{path}");
    }
}

#[test]
fn depth_has_a_limit() {
    let folder = TempDir::new().unwrap();
    let mut dir = folder.path().to_owned();
    let dict = json!({"_type": "<class 'tensordict._td.TensorDict'>", "shape": [], "d": {"type": "TensorDict"}});
    let stack = json!({"_type": "<class 'tensordict._lazy.LazyStackedTensorDict'>", "stack_dim": 0});
    for (metadata, name) in [(dict, "d"), (stack, "0")] {
        let root = dir.join(format!("root{name}"));
        dir = root.clone();
        for _ in 0..400 {
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("meta.json"), metadata.to_string()).unwrap();
            dir = dir.join(name);
        }
        let error = load(&root).unwrap_err();
        assert!(error.to_string().contains("deeper than 64"), "{error}");
        dir = folder.path().to_owned();
    }
    let bomb = folder.path().join("bomb");
    fs::create_dir(&bomb).unwrap();
    for text in ["[".repeat(1 << 20), "{\"a\":".repeat(1 << 20)] {
        fs::write(bomb.join("meta.json"), text).unwrap();
        assert!(load(&bomb).unwrap_err().is_file());
    }
}

/// A file of this header and so many bytes after it.
fn safetensors(path: &Path, header: &str, bytes: usize) -> Result<TensorDict, Error> {
    let content = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; bytes]].concat();
    fs::write(path, content).unwrap();
    open(path)
}

#[test]
fn headers_that_lie() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    let cases = [
        (r#"{"x":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}}"#, 4),
        (r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}"#, 8),
        (r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 8),
        (r#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 4),
        (r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, 8),
        (r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#, 4),
        (r#"{"x":{"dtype":"F32","shape":[9223372036854775807,9223372036854775807],"data_offsets":[0,4]}}"#, 4),
        (r#"{"x":{"dtype":"F32","shape":[0,9223372036854775807,9223372036854775807],"data_offsets":[0,0]}}"#, 0),
        (r#"{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4),
        (r#"{"x":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}"#, 1),
        (
            r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
            4,
        ),
        (r#"{"__metadata__":{"tensordict":"{\"version\":2}"}}"#, 0),
        (r#"{"__metadata__":{"tensordict":"{\"version\":1}"}}"#, 0),
        (r#"{"__metadata__":{"tensordict":"nonsense"}}"#, 0),
        (
            r#"{"__metadata__":{"tensordict":"{\"version\":1,\"root\":{\"batch_size\":[],\"keys\":{\"x\":{\"tensor\":\"x\"}}}}"}}"#,
            0,
        ),
        ("[]", 0),
        ("", 0),
    ];
    for (header, bytes) in cases {
        let error = safetensors(&path, header, bytes).map(|td| show(&td)).unwrap_err();
        assert!(error.is_file(), "{header}: {error}");
    }
    let twice =
        r#"{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    assert!(safetensors(&path, twice, 1).unwrap_err().to_string().contains("'x' stands twice"));
    for length in [u64::MAX, 1 << 40, 100_000_001, 9] {
        fs::write(&path, [&length.to_le_bytes()[..], b"{}"].concat()).unwrap();
        assert!(open(&path).unwrap_err().is_file());
    }
    // A tensor that the description leaves out, and one that is in it.
    let level = r#"{\"batch_size\":[],\"names\":null,\"keys\":{}}"#;
    let header = format!(
        r#"{{"__metadata__":{{"tensordict":"{{\"version\":1,\"root\":{level}}}"}},"x":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#
    );
    assert!(safetensors(&path, &header, 1).unwrap_err().to_string().contains("1 tensors"));
}

#[test]
fn tensors_that_begin_anywhere() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    let header = r#"{"k":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"x":{"dtype":"F64","shape":[2],"data_offsets":[3,19]}}"#;
    let mut content = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[1, 2, 3]].concat();
    content.extend([1.5f64, -2.5].iter().flat_map(|value| value.to_le_bytes()));
    fs::write(&path, content).unwrap();
    let td = open(&path).unwrap();
    assert_eq!(Vec::<f64>::try_from(td.tensor("x").unwrap()).unwrap(), [1.5, -2.5]);
    // What we write begins at multiples of its element's size.
    let mut odd = TensorDict::new([]);
    odd.set("k", tch::Tensor::from_slice(&[1u8, 2, 3])).unwrap();
    odd.set("x", tch::Tensor::from_slice(&[1.5f64, 2.5])).unwrap();
    save_safetensors(&odd, &path, &SaveOptions::default().overwrite(true)).unwrap();
    let td = open(&path).unwrap();
    assert_eq!(td.tensor("x").unwrap().data_ptr().addr() % 8, 0);
    assert_eq!(show(&td), show(&odd));
}

/// A directory of one value in a stack of a batch of these sizes.
fn one_value(shape: Value, stack: Value) -> TempDir {
    let folder = TempDir::new().unwrap();
    let write = |path: &str, content: Value| fs::write(folder.path().join(path), content.to_string()).unwrap();
    fs::create_dir_all(folder.path().join("x/0")).unwrap();
    write(
        "meta.json",
        json!({"_class": "tensordict:TensorDict", "device": "None", "shape": shape, "x": {"type": "NonTensorStack"}}),
    );
    write("x/meta.json", stack);
    write("x/0/meta.json", json!({"_class": "tensordict:NonTensorData", "data": "v"}));
    folder
}

#[test]
fn values_of_more_places_than_memory() {
    let members = || json!({"_class": "tensordict:NonTensorStack", "stack_dim": 0});
    for shape in [json!([1, 1i64 << 40]), json!([1, 1i64 << 40, 1i64 << 40]), json!([1, i64::MAX, 2])] {
        let error = load(one_value(shape.clone(), members()).path()).unwrap_err();
        assert!(error.is_file() && error.to_string().contains("memory"), "{shape}: {error}");
    }
    let few = load(one_value(json!([1, 3]), members()).path()).unwrap();
    assert_eq!(few.non_tensor("x").unwrap().batch_size(), [1, 3]);
    // No rows hide sizes that can't be counted.
    let none = one_value(json!([0, i64::MAX, 2]), json!({"_class": "tensordict:NonTensorStack", "data": []}));
    assert_eq!(load(none.path()).unwrap().batch_size(), [0, i64::MAX, 2]);
    let part = load_memmap(none.path(), &LoadOptions::default().rows(0..0)).unwrap();
    assert_eq!(part.non_tensor("x").unwrap().values().len(), 0);
}

/// Whatever the offsets say, no row is read from outside of its values.
#[test]
fn offsets_in_a_file_are_checked_for_the_rows_asked_for() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("f");
    let rows = [&[1i64][..], &[2, 3], &[4]].map(Tensor::from_slice);
    let mut td = TensorDict::new([3]);
    td.set("x", JaggedTensor::from_rows(&rows).unwrap()).unwrap();
    save_safetensors(&td, &file, &SaveOptions::default()).unwrap();
    let whole = fs::read(&file).unwrap();
    let header = 8 + usize::try_from(u64::from_le_bytes(whole[..8].try_into().unwrap())).unwrap();
    let described: Value = serde_json::from_slice(&whole[8..header]).unwrap();
    let at = header + described["x.offsets"]["data_offsets"][0].as_u64().unwrap() as usize;
    let cases: [([i64; 4], [bool; 3]); 6] = [
        ([0, 1, 3, 4], [true, true, true]),
        ([0, 1, 3, 5], [true, true, false]),
        ([0, 1, 3, 3], [true, true, false]),
        ([1, 1, 3, 4], [false, true, true]),
        ([0, -1, 3, 4], [false, false, true]),
        ([0, i64::MAX, i64::MIN, 4], [false, false, false]),
    ];
    for (offsets, fine) in cases {
        let mut content = whole.clone();
        content[at..at + 32].copy_from_slice(&offsets.map(i64::to_le_bytes).concat());
        fs::write(&file, content).unwrap();
        assert_eq!(open(&file).is_ok(), fine == [true; 3], "{offsets:?}");
        for (row, fine) in fine.into_iter().enumerate() {
            let row = row as i64;
            let part = load_safetensors(&file, &LoadOptions::default().rows(row..row + 1));
            match part {
                Ok(part) => assert!(fine && show(&part) == show(&td.index(row..row + 1).unwrap()), "{offsets:?} {row}"),
                Err(error) => assert!(!fine && error.is_file(), "{offsets:?} {row}: {error}"),
            }
        }
    }
}

/// Likewise of lengths, and those of rows behind are nobody's business.
#[test]
fn lengths_in_a_directory_are_checked_for_the_rows_asked_for() {
    let saved = saved();
    let lengths: Vec<i64> = {
        let offsets = Vec::<i64>::try_from(sample().jagged("tokens").unwrap().offsets().shallow_clone()).unwrap();
        offsets.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    let path = saved.dir.join("tokens.shape.memmap");
    for (at, bad) in [(2, -1), (2, i64::MAX), (0, -1), (0, i64::MAX), (1, 1 << 40)] {
        let mut damaged = lengths.clone();
        damaged[at] = bad;
        fs::write(&path, damaged.iter().flat_map(|length| length.to_ne_bytes()).collect::<Vec<_>>()).unwrap();
        for row in 0..3 {
            let part = load_memmap(&saved.dir, &LoadOptions::default().keys(["tokens"]).rows(row..row + 1));
            let reached = row as usize >= at;
            assert_eq!(part.as_ref().err().map(Error::is_file), reached.then_some(true), "{bad} at {at}, row {row}");
        }
    }
}
