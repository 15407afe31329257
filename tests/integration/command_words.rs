//! What the command says where something is wrong or missing, and the words that it takes.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use datafusion::parquet::arrow::ArrowWriter;
use tempfile::TempDir;

use crate::command::{FLIGHTS, check_failure, command, data, json, run, run_with_stdin, stdout, text, write};

#[test]
fn scripts_show_the_progress_of_a_build() {
    for script in ["scripts/demo.sh", "scripts/test.sh"] {
        let script = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(script)).unwrap();
        // The first cargo command is the one that compiles everything.
        let first = script.lines().find(|line| line.starts_with("cargo ")).unwrap();
        assert!(!first.contains("--quiet"), "{first}");
    }
}

#[test]
fn flags_take_the_words_of_the_options() {
    let large = "SELECT arrow_cast(18446744073709551615, 'UInt64') AS x";
    check_failure(1, &["'x': "], &["--unsigned", "check", large]);
    assert_eq!(data(&json(&["--unsigned", "reinterpret", large]), "x"), serde_json::Value::from([-1]));
    for copy in ["auto", "always", "ALWAYS"] {
        assert_eq!(data(&json(&["--copy", copy, "SELECT 1 AS x"]), "x"), serde_json::Value::from([1]));
    }
    check_failure(1, &["copy"], &["--copy", "never", "SELECT true AS x"]);
    check_failure(2, &["--copy", "it takes 'auto', 'always', 'never'"], &["--copy", "SELECT 1"]);
    check_failure(2, &["--unsigned", "it takes 'check', 'reinterpret'"], &["--unsigned", "yes", "SELECT 1"]);
}

#[test]
fn wrong_values_are_named_once() {
    for (flag, value, says) in [
        ("--nulls", "nope", "invalid value 'nope' for '--nulls <raise|fill|mask>': it takes 'raise', 'fill', 'mask'\n"),
        ("--device", "tpu", ": it takes 'cpu', "),
        ("--mask-key", "", ": it takes names that are not empty"),
        ("--batch-size", "0", ": it must be at least 1\n"),
        ("--threads", "0", ": it must be at least 1\n"),
        ("--threads", "many", ": it must be a whole number of at least 1\n"),
        ("--threads", "-1", ""),
        ("--batch-size", "99999999999999999999999", ": it must be a whole number of at least 1\n"),
    ] {
        let flag = format!("{flag}={value}");
        check_failure(2, &[says], &[&flag, "SELECT 1"]);
        assert!(text(&run(&[&flag, "SELECT 1"]).stderr).matches("nope").count() <= 1);
    }
}

#[test]
fn memory_errors_speak_of_the_flag() {
    let sorted = format!("SELECT * FROM {FLIGHTS} ORDER BY dep_delay");
    for query in [format!("SELECT * FROM {FLIGHTS}"), sorted] {
        let arguments = ["--memory-limit", "4M", "--nulls", "fill", &query];
        check_failure(1, &["--memory-limit 4M", "--batch-size", "Failed to allocate"], &arguments);
        let message = text(&run(&arguments).stderr);
        assert!(!message.contains("datafusion.") && message.lines().count() == 1, "{message}");
    }
    // Where the setting was made in SQL, the engine's own words are the right ones.
    let query = format!("SET datafusion.runtime.memory_limit = '4M'; SELECT * FROM {FLIGHTS} ORDER BY dep_delay");
    let message = text(&run(&["--nulls", "fill", &query]).stderr);
    assert!(message.contains("datafusion.runtime.memory_limit"), "{message}");
}

fn prompt(typed: &str) -> (String, String) {
    let state = TempDir::new().unwrap();
    let output = run_with_stdin(command(&["-i"]).env("XDG_STATE_HOME", state.path()), typed);
    assert_eq!(output.status.code(), Some(0));
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_prompt_helps() {
    for ask in ["help", "help;", "HELP ;", "\\?", "\\h"] {
        let (shown, errors) = prompt(&format!("{ask}\nSELECT 'later' AS s;\n"));
        assert_eq!(errors, "", "{ask}");
        for word in ["help, \\?, \\h", "\\q, quit, exit", "\\d NAME", "later"] {
            assert!(shown.contains(word), "{ask}: {shown}");
        }
    }
    for leave in ["quit", "exit;", "\\q", "EXIT"] {
        let (shown, errors) = prompt(&format!("SELECT 'first' AS s;\n{leave}\nSELECT 'later' AS s;\n"));
        assert!(shown.contains("first") && !shown.contains("later") && errors.is_empty(), "{leave}: {shown}{errors}");
    }
    // Inside a statement they are words like any other.
    let (shown, _) = prompt("SELECT 1 AS\nhelp\n;\n");
    assert!(shown.contains("  help  tensor"), "{shown}");
}

#[test]
fn the_prompt_says_how_to_get_a_table() {
    let (shown, errors) = prompt("\\d\n");
    for word in ["no tables yet", "SELECT * FROM 'data.parquet'", "CREATE VIEW", "--table"] {
        assert!(shown.contains(word), "{shown}{errors}");
    }
    // What it says works.
    let (shown, errors) = prompt("CREATE VIEW a AS SELECT * FROM 'examples/data/airlines.parquet';\n\\d\n");
    assert!(shown.contains("| a ") && errors.is_empty(), "{shown}{errors}");
}

#[test]
fn a_cut_row_has_one_ellipsis() {
    let shown = stdout(&["SELECT [123456789012345, 2, 3, 4, 5] AS l FROM generate_series(1, 6)"]);
    assert!(shown.contains('…') && !shown.contains("……"), "{shown}");
}

#[test]
fn errors_of_syntax_name_the_line_and_nothing_runs() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out.csv");
    let copy = format!("COPY (SELECT 1 AS x) TO '{}';\n", out.display());
    for (rest, words) in [
        ("\nSELEC 2;\n", ["SELEC", "Line: 3"]),
        ("SELECT 1\nFROM (SELECT 2;\n", ["Expected: ", "Line: 3"]),
        ("SELECT (2", ["Expected: ), found: EOF", "in the statement that begins at Line: 2"]),
        ("SELECT 1;\n\nSELECT 'abc", ["Unterminated string", "Line: 4"]),
        ("SELECT 1 SELECT 2", ["end of statement", "Line: 2"]),
        (&format!("SELECT {}1{}", "(".repeat(200), ")".repeat(200)), ["recursion limit", "begins at Line: 2"]),
    ] {
        let file = write(&folder, "a.sql", format!("{copy}{rest}"));
        check_failure(1, &[&["a.sql: "], &words[..]].concat(), &["-f", &file]);
        assert!(!out.exists());
    }
    for readable in [stdout(&["--help"]), fs::read_to_string("README.md").unwrap()] {
        assert!(readable.contains("parsed"), "{readable}");
    }
}

#[test]
fn two_columns_of_one_name_in_a_file_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false); 2]));
    let columns = [1, 2].map(|value| Arc::new(Int64Array::from(vec![value])) as ArrayRef);
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).unwrap();
    let mut parquet = ArrowWriter::try_new(File::create(path("t.parquet")).unwrap(), schema, None).unwrap();
    parquet.write(&batch).unwrap();
    parquet.close().unwrap();
    let mut file = FileWriter::try_new(File::create(path("t.arrow")).unwrap(), &batch.schema()).unwrap();
    file.write(&batch).unwrap();
    file.finish().unwrap();
    let mut stream = StreamWriter::try_new(File::create(path("t.ipc")).unwrap(), &batch.schema()).unwrap();
    stream.write(&batch).unwrap();
    stream.finish().unwrap();
    for name in ["t.parquet", "t.arrow", "t.ipc"] {
        let path = path(name).to_str().unwrap().to_owned();
        let words = [path.as_str(), "two columns named 'a'"];
        check_failure(1, &words, &[&format!("SELECT * FROM '{path}'")]);
        check_failure(1, &words, &["-t", &format!("t={path}"), "SELECT 1 AS x"]);
        let stored = if name == "t.parquet" { "PARQUET" } else { "ARROW" };
        check_failure(1, &words, &[&format!("CREATE EXTERNAL TABLE t STORED AS {stored} LOCATION '{path}'")]);
        let message = text(&run(&["--json", &format!("SELECT * FROM '{path}'")]).stdout);
        assert!(message.contains("\"error\":\"file\""), "{message}");
    }
}

#[test]
fn reset_takes_back_what_was_set() {
    let query = "SELECT x FROM (VALUES (1), (NULL)) AS t(x)";
    let reset =
        format!("SET tensordict.nulls = 'mask'; SET tensordict.mask_key = 'm'; RESET tensordict.nulls; {query}");
    check_failure(1, &["nulls=raise"], &[&reset]);
    let masked = reset.replace("RESET tensordict.nulls", "RESET tensordict.mask_key");
    assert_eq!(data(&json(&[&masked])["entries"]["_mask"], "x"), serde_json::Value::from([true, false]));
    check_failure(1, &["there is no option 'nope'", "nulls, mask_key"], &["RESET tensordict.nope"]);
    assert_eq!(stdout(&["RESET datafusion.execution.batch_size"]), "");
    let (shown, errors) = prompt("SET tensordict.nulls = 'fill';\nRESET tensordict.nulls;\nSHOW tensordict.nulls;\n");
    assert!(shown.starts_with("ok\nok\n") && !shown.contains("fill") && errors.is_empty(), "{shown}{errors}");
}

#[test]
fn wrong_settings_are_refused_when_set() {
    for (setting, says) in [
        ("nulls = ''", "it takes 'raise'"),
        ("mask_key = ''", "not empty"),
        ("mask_key = '[]'", "non-empty list"),
        ("mask_key = '[\"a\", \"\"]'", "not empty"),
        ("mask_key = '[a'", "begins as JSON but is none"),
        ("mask_key = '{\"a\": 1}'", "it takes a name"),
        ("mask_keys = ''", "it takes 'observed'"),
        ("mask_keys = '[1]'", "non-empty list"),
        ("mask_keys = '[[]]'", "non-empty list"),
        ("copy = ''", "it takes 'auto'"),
        ("unsigned = 1", "it takes 'check'"),
        ("device = ''", "it takes 'cpu'"),
        ("device = 'cuda:-1'", "it takes 'cpu'"),
        ("columns = ''", "options by column"),
        ("columns = '{'", "begins as JSON but is none"),
        ("columns = '{\"a\": {\"nulls\": \"no\"}}'", "it takes 'raise'"),
        ("columns = '{\"a\": {\"copy\": \"auto\"}}'", "no column option"),
    ] {
        let set = format!("SET tensordict.{setting}");
        check_failure(1, &[says], &[&set]);
        let message = text(&run(&["--json", &set]).stdout);
        assert!(message.contains("\"error\":\"option\""), "{set}: {message}");
    }
}

#[test]
fn long_queries_are_planned() {
    let sum = vec!["1"; 2000].join("+");
    assert_eq!(data(&json(&[&format!("SELECT {sum} AS x")]), "x"), serde_json::Value::from([2000]));
    let mut views = "CREATE VIEW v0 AS SELECT 1 AS s;".to_owned();
    for i in 1..=10 {
        let (open, close) = ("named_struct('a', ".repeat(20), ")".repeat(20));
        views.push_str(&format!("CREATE VIEW v{i} AS SELECT {open}s{close} AS s FROM v{};", i - 1));
    }
    check_failure(1, &["'s': ", "nests deeper than 64 levels"], &[&format!("{views} SELECT * FROM v10")]);
    let shallow = format!("{views} SELECT * FROM v3");
    assert!(stdout(&[&shallow]).contains("tensor  int64"));
}

#[test]
fn results_are_saved_and_saved_ones_are_tables() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (dir, file) = (path("train"), path("train.safetensors"));
    let query = "SELECT x, concat('s', x) AS s FROM (VALUES (1), (2), (NULL)) AS t(x) ORDER BY x";
    let shown = stdout(&["--nulls", "mask", &format!("COPY ({query}) TO '{dir}/' STORED AS TENSORDICT")]);
    assert!(shown.contains("count  tensor  int64  [1]  cpu  [3]"), "{shown}");
    stdout(&[&format!("COPY ({query}) TO '{file}' OPTIONS (nulls 'fill')")]);
    let expected = serde_json::Value::from([1, 2, 0]);
    for place in [dir.clone(), format!("{dir}/"), file.clone(), format!("file://{dir}")] {
        assert_eq!(data(&json(&[&format!("SELECT x, s FROM '{place}'")]), "x"), expected, "{place}");
        assert_eq!(data(&json(&["-t", &format!("t={place}"), "SELECT x, s FROM t"]), "x"), expected, "{place}");
    }
    let masked = format!("SELECT x FROM read_tensordict('{dir}', mask_key => '_mask')");
    assert_eq!(
        data(&json(&["--nulls", "mask", &masked])["entries"]["_mask"], "x"),
        serde_json::Value::from([true, true, false])
    );
    check_failure(
        1,
        &[&dir, "is there already"],
        &[&format!("COPY ({query}) TO '{dir}' STORED AS TENSORDICT OPTIONS (nulls 'fill')")],
    );
    check_failure(
        1,
        &["option 'zip'", "overwrite"],
        &[&format!("COPY ({query}) TO '{dir}' STORED AS TENSORDICT OPTIONS (zip 9)")],
    );
    let broken = write(&folder, "broken.safetensors", "no");
    check_failure(1, &[&broken, "safetensors"], &[&format!("SELECT * FROM '{broken}'")]);
}
