//! The command, as a shell runs it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const FLIGHTS: &str = "'examples/data/flights.parquet'";

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorquery"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).stdin(Stdio::null());
    command
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

pub(crate) fn run_with_stdin(command: &mut Command, text: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Stdout of a run that goes well and says nothing on stderr.
pub(crate) fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(text(&output.stderr), "", "{arguments:?}");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    text(&output.stdout)
}

pub(crate) fn json(arguments: &[&str]) -> Value {
    let output = stdout(&[&["--json"], arguments].concat());
    assert!(output.ends_with('\n') && output.lines().count() == 1, "{output}");
    serde_json::from_str(&output).unwrap()
}

pub(crate) fn data(dict: &Value, name: &str) -> Value {
    dict["entries"][name]["data"].clone()
}

/// Checks that a run fails with this exit code and these words in its message; gives it, as text or JSON.
pub(crate) fn check_failure(code: i32, words: &[&str], arguments: &[&str]) {
    let output = run(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert!(message.starts_with("error: "), "{message}");
    for word in words {
        assert!(message.contains(word), "{arguments:?}: '{word}' is not in: {message}");
    }
    for noise in ["panicked", "Error(", "Error during planning", "External error", "RUST_BACKTRACE", "bug report"] {
        assert!(!message.contains(noise), "{message}");
    }
}

pub(crate) fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_result_is_shown_for_people() {
    let shown = stdout(&["SELECT 1 AS x, 'a' AS s, [1, 2] AS l"]);
    let expected = "\
TensorDict  batch_size=[1]  device=none
  x  tensor      int64  [1]     cpu  [1]
  s  non_tensor  Utf8   [1]          [\"a\"]
  l  jagged      int64  [1, *]  cpu  [[1, 2]]
";
    assert_eq!(shown, expected);
}

#[test]
fn json_has_all_values() {
    let dict = json(&["SELECT 7 AS x, 'a' AS s, 1.5 AS f, true AS b"]);
    let expected = r#"{"batch_size":[1],"entries":{
        "x":{"kind":"tensor","dtype":"int64","shape":[1],"data":[7]},
        "s":{"kind":"non_tensor","data":["a"]},
        "f":{"kind":"tensor","dtype":"float64","shape":[1],"data":[{"f":"1.5"}]},
        "b":{"kind":"tensor","dtype":"bool","shape":[1],"data":[true]}}}"#;
    assert_eq!(dict, serde_json::from_str::<Value>(expected).unwrap());
    let count = json(&[&format!("SELECT count(*) AS n, max(distance) AS far FROM {FLIGHTS}")]);
    assert_eq!((data(&count, "n"), data(&count, "far")), (Value::from([336_776]), Value::from([4983])));
}

#[test]
fn several_statements_show_the_last_result() {
    let folder = TempDir::new().unwrap();
    let setup = write(
        &folder,
        "setup.sql",
        "-- a comment; not a statement\nSET tensordict.nulls = 'mask';\n\
         CREATE EXTERNAL TABLE a STORED AS PARQUET LOCATION 'examples/data/airlines.parquet';\n\
         CREATE VIEW v AS SELECT count(*) AS n FROM a; SELECT 'not shown';",
    );
    let query =
        write(&folder, "query.sql", "CREATE TABLE t AS SELECT n + 1 AS k, NULL::INT AS m FROM v; SELECT * FROM t");
    let dict = json(&["-f", &setup, "-f", &query]);
    assert_eq!((data(&dict, "k"), data(&dict, "m")), (Value::from([17]), Value::from([0])));
    assert_eq!(data(&dict["entries"]["_mask"], "m"), Value::from([false]));
    // The query comes after the files.
    assert_eq!(data(&json(&["-f", &setup, "SELECT n * 2 AS n FROM v"]), "n"), Value::from([32]));
    // Statements without a result show nothing.
    assert_eq!(stdout(&["-f", &setup, "CREATE TABLE x AS SELECT 1 AS a"]), "");
    assert_eq!(stdout(&["SET tensordict.nulls = 'fill'"]), "");
    check_failure(
        1,
        &["query.sql.broken: Expected", "Line: 2"],
        &["-f", &write(&folder, "query.sql.broken", "\nSELEC")],
    );
}

#[test]
fn sql_comes_from_stdin() {
    for arguments in [&["--json"][..], &["--json", "-f", "-"]] {
        let output = run_with_stdin(&mut command(arguments), "SET tensordict.nulls = 'fill'; SELECT NULL::INT AS x;");
        let dict: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(data(&dict, "x"), Value::from([0]));
    }
    let output = run_with_stdin(&mut command(&[]), "");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
}

#[test]
fn flags_are_defaults_that_sql_overrides() {
    let query = "SELECT x FROM (VALUES (1), (NULL)) AS t(x)";
    check_failure(1, &["'x': ", "nulls=raise", "nulls=fill"], &[query]);
    assert_eq!(data(&json(&["--nulls", "fill", query]), "x"), Value::from([1, 0]));
    let masked = json(&["--nulls", "mask", "--mask-key", "aux", "--mask-key", "valid", query]);
    assert_eq!(data(&masked["entries"]["aux"]["entries"]["valid"], "x"), Value::from([true, false]));
    let overridden = json(&["--nulls", "mask", &format!("SET tensordict.nulls = 'fill'; {query}")]);
    assert_eq!(overridden["entries"].as_object().unwrap().len(), 1);

    let large = "SELECT arrow_cast(18446744073709551615, 'UInt64') AS x";
    check_failure(1, &["'x': "], &[large]);
    assert_eq!(data(&json(&["--unsigned", "reinterpret", large]), "x"), Value::from([-1]));
    assert_eq!(data(&json(&["--copy", "always", "SELECT 1 AS x"]), "x"), Value::from([1]));
    assert!(stdout(&["--device", "cpu", "SELECT 1 AS x"]).contains("device=cpu"));
    let partitions = stdout(&["--threads", "3", "SHOW datafusion.execution.target_partitions"]);
    assert!(partitions.contains("| 3 "), "{partitions}");
}

#[test]
fn the_memory_limit_holds() {
    let query = format!("SELECT * FROM {FLIGHTS}");
    check_failure(1, &["memory"], &["--memory-limit", "1M", "--nulls", "fill", &query]);
    assert!(stdout(&["--memory-limit", "1G", "--nulls", "fill", &query]).contains("batch_size=[336776]"));
}

#[test]
fn batches_have_exact_sizes() {
    let query = format!("SELECT distance FROM {FLIGHTS} LIMIT 25000");
    let lines = stdout(&["--json", "--batch-size", "10000", &query]);
    let sizes = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["batch_size"][0].clone());
    assert_eq!(sizes.collect::<Vec<_>>(), [10_000, 10_000, 5000]);
    let shown = stdout(&["--batch-size", "2", "SELECT x FROM (VALUES (1), (2), (3)) AS t(x)"]);
    assert_eq!(shown.matches("TensorDict").count(), 2);
    assert!(shown.contains("\n\nTensorDict  batch_size=[1]"), "{shown}");
}

#[test]
fn the_schema_is_shown_without_running() {
    let query = "SELECT 1 / 0 AS x, {a: 1.5} AS s, [1] AS l";
    let shown = stdout(&["--schema", "--nulls", "mask", query]);
    assert!(shown.starts_with("TensorDict  batch_size=[n]\n  x  "), "{shown}");
    assert!(shown.contains("[n, *]") && shown.contains("\n    a  tensor  float64"), "{shown}");
    let entries = json(&["--schema", query])["entries"].clone();
    assert_eq!(entries[2]["key"], Value::from(["s", "a"].map(str::to_owned).to_vec()));
}

#[test]
fn texts_are_shown_as_tables() {
    let explained = stdout(&[&format!("EXPLAIN SELECT dep_delay FROM {FLIGHTS}")]);
    assert!(explained.starts_with("+--") && explained.contains("physical_plan"), "{explained}");
    assert!(stdout(&["DESCRIBE 'examples/data/airlines.parquet'"]).contains("| carrier "));
    let shown = json(&["--nulls", "fill", "SHOW tensordict.nulls"]);
    assert_eq!(data(&shown, "value"), Value::from(vec!["fill"]));
}

#[test]
fn files_are_tables() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let copies = ["parquet", "csv", "json", "arrow"].map(|format| {
        let query = "SELECT x, 'a' AS s FROM (VALUES (1), (2), (3)) AS t(x)";
        format!("COPY ({query}) TO '{}' STORED AS {format}", path(&format!("x.{format}")))
    });
    stdout(&[&copies.join(";")]);
    let mut paths = ["x.parquet", "x.csv", "x.json", "x.arrow"].map(path).to_vec();
    let lines = "{\"x\": 1, \"s\": \"a\"}\n{\"x\": 2, \"s\": \"a\"}\n{\"x\": 3, \"s\": \"a\"}\n";
    paths.extend(["x.jsonl", "x.ndjson", "X.JSON"].map(|name| write(&folder, name, lines)));
    paths.push(write(&folder, "x.tsv", "x\ts\n1\ta\n2\ta\n3\ta\n"));
    write(&folder, "parts/1.csv", "x,s\n1,a\n2,a\n");
    write(&folder, "parts/2.csv", "x,s\n3,a\n");
    paths.extend(["parts", "parts/", "parts/*.csv", "parts/[12].csv"].map(path));
    for path in &paths {
        let expected = (Value::from([1, 2, 3]), Value::from(vec!["a"; 3]));
        let named = json(&["--table", &format!("t={path}"), "SELECT x, s FROM t ORDER BY x"]);
        assert_eq!((data(&named, "x"), data(&named, "s")), expected, "{path}");
        let quoted = json(&[&format!("SELECT x, s FROM '{path}' ORDER BY x")]);
        assert_eq!((data(&quoted, "x"), data(&quoted, "s")), expected, "{path}");
    }
}

#[test]
fn unreadable_files_are_named() {
    let folder = TempDir::new().unwrap();
    let flights = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/airlines.parquet")).unwrap();
    let truncated = write(&folder, "truncated.parquet", &flights[..flights.len() / 2]);
    let unknown = write(&folder, "unknown/x.xyz", "1");
    let directory = unknown.trim_end_matches("x.xyz");
    let nothing = format!("{}/*.csv", folder.path().display());
    for (path, word) in [
        (truncated.as_str(), "can't be read"),
        (&unknown, "known are .parquet"),
        (directory, "none of the files there"),
        (&nothing, "there are no files"),
        ("nowhere/x.parquet", "there is no such file"),
        ("x.xyz", "there is no such file"),
        ("https://example.com/x.parquet", "only local files"),
    ] {
        check_failure(1, &[path, word], &[&format!("SELECT * FROM '{path}'")]);
        check_failure(1, &["t: ", path, word], &["-t", &format!("t={path}"), "SELECT * FROM t"]);
    }
    check_failure(1, &["nowhere.sql"], &["-f", "nowhere.sql"]);
}

#[test]
fn errors_have_a_code_and_a_kind() {
    let refused: [(&str, &str, &[&str]); 8] = [
        ("engine", "No field named nope", &["SELECT nope FROM 'examples/data/airlines.parquet'"]),
        ("engine", "table 'nope' not found", &["SELECT * FROM nope"]),
        ("engine", "SELEC at Line: 1", &["SELEC 1"]),
        ("engine", "Divide by zero", &["SELECT 1 / x AS y FROM (VALUES (0)) AS t(x)"]),
        ("null", "nulls=raise", &["SELECT NULL::INT AS x"]),
        ("option", "it takes 'raise', 'fill', 'mask'", &["SET tensordict.nulls = 'nope'"]),
        ("option", "nope", &["SET tensordict.nope = 'x'"]),
        ("file", "nope.csv", &["SELECT * FROM 'nope.csv'"]),
    ];
    for (kind, word, arguments) in refused {
        check_failure(1, &[word], arguments);
        let output = run(&[&["--json"], arguments].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()));
        let error: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(error["error"], kind, "{error}");
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    let twice = "SELECT 1 AS a, 2 AS a";
    check_failure(1, &["a"], &[twice]);
    check_failure(1, &["x"], &["SELECT l.x, r.x FROM (SELECT 1 AS x) AS l, (SELECT 2 AS x) AS r"]);
    for usage in [
        &["--nulls", "nope", "SELECT 1"][..],
        &["--device", "tpu", "SELECT 1"],
        &["--batch-size", "0", "SELECT 1"],
        &["--threads", "0", "SELECT 1"],
        &["--memory-limit", "1X", "SELECT 1"],
        &["--table", "x.csv", "SELECT 1"],
        &["--nope"],
    ] {
        check_failure(2, &[usage[0]], usage);
    }
    if !tch::Cuda::is_available() {
        check_failure(1, &["cuda:0 is not there"], &["--device", "cuda", "SELECT 1 AS x"]);
    }
}

#[test]
fn help_and_version() {
    assert_eq!(stdout(&["--version"]), format!("tensorquery {}\n", env!("CARGO_PKG_VERSION")));
    let help = stdout(&["--help"]);
    for word in ["Examples:", "--nulls", "Exit codes:"] {
        assert!(help.contains(word), "{help}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let query = format!("SELECT year, distance FROM {FLIGHTS}");
    for arguments in [&["--json", query.as_str()][..], &["--json", "--batch-size", "1000", query.as_str()]] {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut beginning = [0; 16];
        child.stdout.take().unwrap().read_exact(&mut beginning).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_with_130() {
    let endless = "SELECT count(*) AS n FROM generate_series(1, 1000000000000)";
    let mut child = command(&[endless]).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));

    // The prompt stops the query and stays. That it runs shows in the result before it.
    let state = TempDir::new().unwrap();
    let mut command = command(&["-i"]);
    command.env("XDG_STATE_HOME", state.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "SELECT 1 AS x; {endless};").unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.nth(1).unwrap().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    stdin.write_all(b"SELECT 2 AS y;\n").unwrap();
    drop(stdin);
    assert_eq!(lines.nth(1).unwrap().unwrap(), "  y  tensor  int64  [1]  cpu  [2]");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), "stopped\n".to_owned()));
}

#[test]
fn a_prompt_runs_statements_over_several_lines() {
    let state = TempDir::new().unwrap();
    let typed = "CREATE TABLE t AS SELECT 1 AS x;\n\\d\n\\d t\nSELECT ';' AS s,\n -- a comment;\n x FROM t;\n\
        SELECT nope;\n\\nope\n\\?\nSELECT 1 AS a; SELECT 2 AS b;\nquit\nSELECT 'never' AS c;\n";
    let output = run_with_stdin(command(&["-i"]).env("XDG_STATE_HOME", state.path()), typed);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    for part in ["ok\n", "| public | t    | BASE TABLE |", "| x           | Int64 ", "[\";\"]", "\\q", "  a  ", "  b  "]
    {
        assert!(shown.contains(part), "'{part}' is not in: {shown}");
    }
    assert!(!shown.contains("never"));
    let errors = text(&output.stderr);
    assert!(errors.contains("error: No field named nope") && errors.contains("no command \\nope"), "{errors}");
    let history = fs::read_to_string(state.path().join("tensorquery/history")).unwrap();
    assert!(history.contains("CREATE TABLE t AS SELECT 1 AS x;"), "{history}");
}
