//! Processes that end while they save.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tch::{Device, Kind, Tensor};
use tempfile::TempDir;
use tensorquery::{LoadOptions, MemmapWriter, SaveOptions, TensorDict, load_memmap, save_memmap, save_safetensors};

const TARGET: &str = "TENSORQUERY_TEST_TARGET";

/// Many columns that all hold the same number.
fn generation(number: i64) -> TensorDict {
    let mut td = TensorDict::new([64]);
    for column in 0..20 {
        td.set(["nested", &format!("c{column}")], Tensor::full([64, 16], number, (Kind::Int64, Device::Cpu))).unwrap();
    }
    td
}

fn the_generation(td: &TensorDict) -> i64 {
    let numbers: Vec<i64> =
        td.leaves().unwrap().iter().map(|(_, entry)| entry.as_tensor().unwrap().int64_value(&[0, 0])).collect();
    assert!(numbers.len() == 20 && numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
    numbers[0]
}

/// This binary again, to run one of the tests that only do something there.
fn child(test: &str, target: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", &format!("store_crash::{test}"), "--ignored", "--nocapture"]).env(TARGET, target);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn target() -> Option<PathBuf> {
    env::var_os(TARGET).map(PathBuf::from)
}

#[test]
#[ignore = "a child process of the next test"]
fn saves_for_ever() {
    let Some(target) = target() else { return };
    for number in 1.. {
        let options = SaveOptions::default().overwrite(true);
        save_memmap(&generation(number), target.join("td"), &options).unwrap();
        save_safetensors(&generation(number), target.join("file"), &options).unwrap();
    }
}

#[test]
fn a_killed_save_leaves_the_old_or_the_new() {
    let folder = TempDir::new().unwrap();
    let options = SaveOptions::default().overwrite(true);
    let mut last = 0;
    for round in 0..12u64 {
        save_memmap(&generation(0), folder.path().join("td"), &options).unwrap();
        let mut child = child("saves_for_ever", folder.path()).spawn().unwrap();
        // While it saves, there is never anything but one whole generation; a directory that is gone already is told.
        let started = Instant::now();
        let mut seen = 0;
        while seen == 0 && started.elapsed() < Duration::from_secs(60) {
            match load_memmap(folder.path().join("td"), &LoadOptions::default()) {
                Ok(td) => seen = the_generation(&td),
                Err(error) => assert!(error.is_file(), "{error}"),
            }
        }
        last = last.max(seen);
        sleep(Duration::from_millis(7 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let td = load_memmap(folder.path().join("td"), &LoadOptions::default()).unwrap();
        last = last.max(the_generation(&td));
        if folder.path().join("file").exists() {
            let td = tensorquery::load_safetensors(folder.path().join("file"), &LoadOptions::default()).unwrap();
            the_generation(&td);
        }
    }
    assert!(last > 0, "no child saved anything");
}

#[test]
#[ignore = "a child process of the next test"]
fn saves_more_than_it_may() {
    let Some(target) = target() else { return };
    let options = SaveOptions::default().overwrite(true);
    let mut large = TensorDict::new([1 << 20]);
    large.set("c", Tensor::zeros([1 << 20], (Kind::Int64, Device::Cpu))).unwrap();
    for error in [
        save_memmap(&large, target.join("td"), &options).unwrap_err(),
        save_safetensors(&large, target.join("file"), &options).unwrap_err(),
    ] {
        assert!(error.is_file() && error.to_string().contains("'c'"), "{error}");
    }
    let mut writer = MemmapWriter::new(target.join("td"), &options).unwrap();
    writer.append(&large.index(0..2).unwrap()).unwrap();
    assert!(writer.append(&large).unwrap_err().is_file());
    assert!(writer.append(&large.index(0..2).unwrap()).unwrap_err().to_string().contains("failed before"));
    assert!(writer.finish().unwrap_err().is_file());
    std::process::exit(77);
}

#[test]
fn a_write_that_fails_leaves_the_old() {
    let folder = TempDir::new().unwrap();
    save_memmap(&generation(5), folder.path().join("td"), &SaveOptions::default()).unwrap();
    save_safetensors(&generation(5), folder.path().join("file"), &SaveOptions::default()).unwrap();
    // Files of no more than a megabyte, as if the disk were full.
    let limited = child("saves_more_than_it_may", folder.path());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$@\"", "sh"])
        .arg(limited.get_program())
        .args(limited.get_args());
    let status = shell.env(TARGET, folder.path()).stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(77));
    let td = load_memmap(folder.path().join("td"), &LoadOptions::default()).unwrap();
    assert_eq!(the_generation(&td), 5);
    let td = tensorquery::load_safetensors(folder.path().join("file"), &LoadOptions::default()).unwrap();
    assert_eq!(the_generation(&td), 5);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3 - 1, "nothing half is left");
}
