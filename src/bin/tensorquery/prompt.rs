//! The prompt: statements over several lines, until `;`.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::runtime::Runtime;

use super::failure::Failure;
use super::interrupt::stoppable;
use super::output::{Printer, line};
use super::query::{self, Form, Shown, Source};

const FIRST: &str = "tensorquery> ";
const NEXT: &str = "        ...> ";

const HELP: &str = "\
SELECT …;            run a statement; it may go over several lines, until ;
SELECT … FROM 'x.parquet';    paths in single quotes are tables
SET tensordict.nulls = 'mask';    raise, fill or mask nulls from now on
\\d                   list tables
\\d NAME              the columns of a table
help, \\?, \\h        this help
\\q, quit, exit       leave, as Ctrl-D does; Ctrl-C stops a query or clears the line";

const NO_TABLES: &str = "\
no tables yet. A file is one without any preparation: SELECT * FROM 'data.parquet';
To give one a name: CREATE VIEW flights AS SELECT * FROM 'data.parquet';
or start with --table flights=data.parquet";

const TABLES: &str = "SELECT table_schema AS schema, table_name AS name, table_type AS kind \
    FROM information_schema.tables WHERE table_schema <> 'information_schema' ORDER BY 1, 2";

/// An editor of lines and the file of those that were typed before.
pub(crate) struct Prompt {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl Prompt {
    pub(crate) fn open() -> Result<Self, Failure> {
        let unusable = |error: ReadlineError| Failure::new("io", format!("can't open a prompt: {error}"));
        let mut editor = DefaultEditor::new().map_err(unusable)?;
        let history = history_file();
        if let Some(path) = &history {
            // There is none the first time.
            let _first_time = editor.load_history(path);
        }
        Ok(Prompt { editor, history })
    }

    /// Reads and runs statements until the user leaves.
    pub(crate) fn run(
        mut self,
        runtime: &Runtime,
        context: &SessionContext,
        printer: &Arc<Printer>,
    ) -> Result<(), Failure> {
        let mut text = String::new();
        loop {
            let typed = match self.editor.readline(if text.is_empty() { FIRST } else { NEXT }) {
                Ok(typed) => typed,
                Err(ReadlineError::Interrupted) => {
                    text.clear();
                    continue;
                }
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(Failure::new("io", format!("can't read the line: {error}"))),
            };
            let word = bare(&typed);
            if text.is_empty() && leaves(word) {
                break;
            }
            if text.is_empty() && word.is_empty() {
                continue;
            }
            if text.is_empty() && asks_for_help(word) {
                line(HELP)?;
                continue;
            }
            if text.is_empty() && word.starts_with('\\') {
                self.remember(word);
                let sql = describe(word);
                go_on(
                    sql.and_then(|sql| run_text(runtime, context, printer, Form::Table { no_rows: NO_TABLES }, &sql)),
                    printer,
                )?;
                continue;
            }
            text.push_str(&typed);
            text.push('\n');
            if query::is_complete(context, &text) {
                self.remember(text.trim());
                go_on(run_text(runtime, context, printer, Form::Usual, &text), printer)?;
                text.clear();
            }
        }
        // What was left without `;` is still meant to run when it came through a pipe.
        if text.trim().is_empty() {
            Ok(())
        } else {
            go_on(run_text(runtime, context, printer, Form::Usual, &text), printer)
        }
    }

    /// Adds to the history, at once in the file too: a later crash loses nothing.
    fn remember(&mut self, text: &str) {
        let added = self.editor.add_history_entry(text);
        if let (Ok(true), Some(path)) = (added, &self.history) {
            // A history that can't be kept is no reason to trouble the user.
            let _kept = self.editor.append_history(path);
        }
    }
}

/// A line without what may end it.
fn bare(typed: &str) -> &str {
    typed.trim().trim_end_matches(';').trim_end()
}

fn leaves(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "\\q" | "quit" | "exit")
}

fn asks_for_help(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "help" | "\\?" | "\\h")
}

/// Whether the line is one that the prompt takes and SQL doesn't.
pub(crate) fn is_word(typed: &str) -> bool {
    let word = bare(typed);
    word.starts_with('\\') || leaves(word) || asks_for_help(word)
}

/// The statement behind `\d` and `\d NAME`.
fn describe(command: &str) -> Result<String, Failure> {
    let (word, name) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match (word, name.trim()) {
        ("\\d", "") => Ok(TABLES.to_owned()),
        ("\\d", name) => Ok(format!("DESCRIBE {name}")),
        _ => Err(Failure::new("option", format!("there is no command {word}; \\? lists those that there are"))),
    }
}

/// Runs what was typed and shows every result.
fn run_text(
    runtime: &Runtime,
    context: &SessionContext,
    printer: &Arc<Printer>,
    form: Form,
    sql: &str,
) -> Result<(), Failure> {
    let statements = query::parse(context, &[Source { name: None, sql: sql.to_owned() }])?;
    for statement in statements {
        let (context, printer) = (context.clone(), Arc::clone(printer));
        let work = async move { query::show(&context, statement, form, &printer).await };
        if runtime.block_on(stoppable(work))? == Shown::Nothing {
            line("ok")?;
        }
    }
    Ok(())
}

/// After an error the prompt stays.
fn go_on(done: Result<(), Failure>, printer: &Printer) -> Result<(), Failure> {
    match done {
        Err(Failure::OutputClosed) => Err(Failure::OutputClosed),
        Err(Failure::Interrupted) => {
            let _unheard = writeln!(io::stderr(), "stopped");
            Ok(())
        }
        Err(failure) => {
            printer.report(&failure);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// In the XDG state directory, made if it is not there.
fn history_file() -> Option<PathBuf> {
    let absolute = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let folder = state.join("tensorquery");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
