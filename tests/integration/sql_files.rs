//! Each file under `sql/` gives what is stored beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Set it to write what the files give instead of comparing.
const UPDATE: &str = "UPDATE_EXPECTED";

#[test]
fn sql_files_give_what_is_stored_beside_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut ran = 0;
    for file in fs::read_dir(root.join("sql")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        // On several threads rows have an order only where it is asked for.
        let output = Command::new(env!("CARGO_BIN_EXE_tensorquery"))
            .current_dir(root)
            .args(["--threads", "3", "-f"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
        let got = String::from_utf8(output.stdout).unwrap();
        let stored = file.with_extension("txt");
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&stored, &got).unwrap();
        }
        let expected = fs::read_to_string(&stored).unwrap();
        assert_eq!(got, expected, "{} gives something else than {}", file.display(), stored.display());
        ran += 1;
    }
    println!("{ran} SQL files ran");
    assert!(ran >= 8);
}
