//! What the command says to those who write what is nearly right.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{FLIGHTS, check_failure, command, data, json, run_with_stdin, stdout, text, write};

#[test]
fn words_of_the_prompt_are_known_elsewhere() {
    for (sql, word) in
        [("help", "help"), ("\\d\n", "\\d"), ("SELECT 1;\n  \\d flights;\n", "\\d flights;"), ("quit", "quit")]
    {
        let output = run_with_stdin(&mut command(&[]), sql);
        let message = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{message}");
        assert!(
            message.ends_with(&format!(
                "{word} is a word of the prompt, which --interactive (-i) opens; --help tells of the command\n"
            )),
            "{message}"
        );
        check_failure(1, &[word, "--help"], &[sql]);
    }
    // In SQL that is right they are what SQL makes of them.
    assert_eq!(data(&json(&["SELECT '\n\\d\n' AS s"]), "s"), Value::from(vec!["\n\\d\n"]));
    check_failure(1, &["Expected: an SQL statement, found: SELEC at Line: 1, Column: 1\n"], &["SELEC help"]);
}

#[test]
fn a_query_without_parentheses_of_its_own_gets_them() {
    for (relation, query) in [
        ("tensordict", "SELECT * FROM tensordict(SELECT 1 AS x)"),
        ("tensordict", "SELECT * FROM TENSORDICT (\nwith a AS (SELECT 1 AS x) SELECT * FROM a, nulls => 'mask')"),
        ("tensordict_schema", "SELECT * FROM tensordict_schema(SELECT 1 AS x)"),
    ] {
        check_failure(
            1,
            &["Expected: ", &format!("parentheses of its own in there: {relation}((SELECT …))")],
            &[query],
        );
    }
    check_failure(1, &["write tensordict((SELECT"], &["SELECT * FROM tensordict(VALUES (1))"]);
}

#[test]
fn missing_tables_are_to_be_given() {
    check_failure(1, &["table 'nope' not found; --table nope=PATH", "FROM 'PATH'"], &["SELECT * FROM nope"]);
    let flights = format!("nope={}", FLIGHTS.trim_matches('\''));
    assert!(stdout(&["--table", &flights, "SELECT flight FROM nope"]).contains("batch_size=[336776]"));
    assert_eq!(data(&json(&[&format!("SELECT count(*) AS n FROM {FLIGHTS}")]), "n"), Value::from([336_776]));
}

#[test]
fn unknown_columns_are_told_the_nearest() {
    for (query, says) in [
        (
            format!("SELECT depdelay FROM {FLIGHTS}"),
            "error: No field named depdelay; known are dep_delay, arr_delay, day, …",
        ),
        ("SELECT b FROM (SELECT 1 AS a)".to_owned(), "error: No field named b; known are a\n"),
        ("SELECT Ab FROM (SELECT 1 AS \"Ab\")".to_owned(), "known are \"Ab\"; capital letters count"),
        ("SELECT t.b FROM (SELECT 1 AS a) AS t".to_owned(), "No field named t.b; known are t.a\n"),
        ("SELECT c FROM (SELECT 1 AS a) AS t, (SELECT 2 AS a) AS u".to_owned(), "known are t.a, u.a\n"),
        ("SELECT b".to_owned(), "No field named b\n"),
    ] {
        let says = says.trim_end_matches('…');
        check_failure(1, &[says], &[&query]);
    }
    check_failure(1, &[", … and 14 more\n"], &[&format!("SELECT depdelay FROM {FLIGHTS}")]);
}

#[test]
fn settings_that_set_can_not_read_are_shown_the_form() {
    for (setting, says) in [
        (
            "columns = {'a': {'nulls': 'mask'}}",
            "columns is {'a': {'nulls': 'mask'}}, which SET can't read; a map is JSON",
        ),
        ("columns = MAP {'a': 1}", "which SET can't read; a map is JSON in single quotes: SET tensordict.columns = '"),
        ("mask_keys = ['a', 'b']", "a list is JSON in single quotes: '[\"a\", \"b\"]'"),
        ("mask_keys = 'a', 'b'", "a list is JSON in single quotes"),
        ("nulls = lower('MASK')", "it takes a word in single quotes"),
        ("columns = 'a'", "columns is 'a'; it takes options by column as JSON, as in '{\"speed\""),
    ] {
        let sql = format!("SET tensordict.{setting}");
        check_failure(1, &[says], &[&sql]);
        check_failure(1, &[says], &[&format!("{sql}; SELECT 1")]);
    }
    // The forms that it shows work.
    let query = "SELECT x, y FROM (VALUES (1, NULL)) AS t(x, y)";
    let map = r#"SET tensordict.columns = '{"y": {"nulls": "mask"}}'"#;
    assert_eq!(data(&json(&[&format!("{map}; {query}")])["entries"]["_mask"], "y"), Value::from([false]));
    let list = r#"SET tensordict.nulls = 'mask'; SET tensordict.mask_keys = '["x", "y"]'"#;
    assert_eq!(data(&json(&[&format!("{list}; {query}")])["entries"]["_mask"], "x"), Value::from([true]));
}

#[test]
fn masks_are_chosen_by_a_flag() {
    let query = "SELECT x, y, {v: z} AS s FROM (VALUES (1, NULL, 3), (2, 5, 6)) AS t(x, y, z)";
    let masks = |flags: &[&str]| {
        let dict = json(&[&["--nulls", "mask"], flags, &[query]].concat());
        let masks = dict["entries"]["_mask"]["entries"].as_object().cloned().unwrap_or_default();
        masks.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(masks(&[]), ["y"]);
    assert_eq!(masks(&["--mask-keys", "observed"]), ["y"]);
    assert!(masks(&["--mask-keys", "Nullable"]).contains(&"y".to_owned()));
    assert_eq!(masks(&["--mask-keys", "x"]), ["x"]);
    assert_eq!(masks(&["--mask-keys", "x", "--mask-keys", "y"]), ["x", "y"]);
    assert_eq!(masks(&["--mask-keys", r#"["x", ["s", "v"]]"#]), ["x", "s"]);
    check_failure(2, &["--mask-keys", "it takes 'observed', 'nullable', or columns"], &["--mask-keys=", query]);
    check_failure(1, &["nope"], &["--nulls", "mask", "--mask-keys", "nope", query]);
}

/// Without the engine's protection of recursion this overflows the stack within a second or two. Planning takes time
/// that grows with the square of the terms, so a build without optimisation is stopped rather than waited for.
#[cfg(unix)]
#[test]
fn deep_expressions_do_not_overflow_the_stack() {
    let folder = TempDir::new().unwrap();
    let file = write(&folder, "deep.sql", format!("SELECT {} AS x", vec!["1"; 10_000].join("+")));
    let mut child = command(&["-f", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(100));
    }
    if child.try_wait().unwrap().is_none() {
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    }
    let output = child.wait_with_output().unwrap();
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 130)), "{code:?}: {}", text(&output.stderr));
    assert!(code == Some(130) || text(&output.stdout).contains("[10000]"));
}
