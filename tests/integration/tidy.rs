//! The house rules that a test can hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

fn sources(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root().join(folder), "rs", &mut found);
    found
}

/// The rows of ARCHITECTURE.md's table of who may import whom.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let text = read("ARCHITECTURE.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let names =
            |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        (names(cells[0]).into_iter().next().unwrap(), names(cells[2]))
    })
    .collect()
}

#[test]
fn modules_import_what_the_architecture_allows() {
    let allowed = allowed();
    for path in sources("src") {
        let relative = path.strip_prefix(root().join("src")).unwrap();
        let module = relative.components().next().unwrap().as_os_str().to_string_lossy();
        let module = module.trim_end_matches(".rs").to_owned();
        // The command is a crate of its own: what it calls `crate` are its own modules.
        if module == "lib" || module == "bin" {
            continue;
        }
        let may = allowed.get(&module).unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for `{module}`"));
        for line in fs::read_to_string(&path).unwrap().lines() {
            let Some((_, rest)) = line.split_once("crate::") else { continue };
            if line.trim_start().starts_with("//") {
                continue;
            }
            let used: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            // Items at the root, in docs and macros, begin in upper case.
            let fine = used.is_empty() || used == module || may.contains(&used);
            assert!(fine, "{}: `{module}` may not import `{used}`: {line}", relative.display());
        }
    }
}

#[test]
fn files_can_be_held_in_the_head() {
    for path in sources("src").into_iter().chain(sources("tests")) {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        assert!(lines <= 500, "{} has {lines} lines; two files are better", path.display());
    }
}

#[test]
fn unsafe_lives_in_one_folder() {
    for path in sources("src") {
        let relative = path.strip_prefix(root()).unwrap();
        if relative.starts_with("src/ffi") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let found = text.lines().find(|line| line.contains("unsafe ") && !line.trim_start().starts_with("//"));
        assert_eq!(found, None, "{}", relative.display());
    }
}

#[test]
fn the_readme_mentions_every_example_and_sql_file() {
    let readme = read("README.md");
    for (folder, extension) in [("examples", "rs"), ("examples/notebooks", "ipynb"), ("sql", "sql")] {
        let mut found = Vec::new();
        files(&root().join(folder), extension, &mut found);
        // A crate that the notebooks use is no example.
        found.retain(|path| !path.starts_with(root().join("examples/notebooks/shared")));
        assert!(!found.is_empty());
        for path in found {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(readme.contains(&name), "README.md doesn't mention {folder}/{name}");
        }
    }
}

/// Crates on top of ours hand on what our build script tells them; all places name it alike.
#[test]
fn crates_on_top_are_told_how_to_link() {
    assert!(read("Cargo.toml").contains("links = \"tensorquery\""));
    assert!(read("build.rs").contains("cargo::metadata=LINK_ARGS="));
    assert!(read("README.md").contains("std::env::var(\"DEP_TENSORQUERY_LINK_ARGS\")"));
    assert!(read("examples/notebooks/shared/build.rs").contains("env::var(\"DEP_TENSORQUERY_LINK_ARGS\")"));
}
