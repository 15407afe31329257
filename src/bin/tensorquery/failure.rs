//! What went wrong, in words for the person at the terminal.

use std::fmt;
use std::io;

use datafusion::error::DataFusionError;

use super::hints;

/// An error of a table's file: which one, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct FileError(pub(crate) String);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FileError {}

impl From<FileError> for DataFusionError {
    fn from(error: FileError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// Why the command stops.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A query, its data or its files are at fault: exit code 1.
    Error {
        /// One word: a kind of the library's errors, or `file`, `io`.
        kind: &'static str,
        /// What, where, and what to do.
        message: String,
    },
    /// Ctrl-C: exit code 130.
    Interrupted,
    /// Nobody reads our output any more, as after `| head`. That is no error.
    OutputClosed,
}

impl Failure {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Failure::Error { kind, message: message.into() }
    }

    /// The same, in the words of `--memory-limit` where that is what the query ran into: the engine
    /// speaks of settings that nobody made.
    pub(crate) fn message_under(&self, memory_limit: Option<&str>) -> Option<String> {
        let Failure::Error { message, .. } = self else {
            return None;
        };
        match (memory_limit, message.contains(EXHAUSTED)) {
            (Some(limit), true) => {
                // The engine's last line says who asked for how much, after one per consumer of memory.
                let last = message.lines().last().unwrap_or_default();
                let asked = last.split(EXHAUSTED).last().unwrap_or_default().trim_start_matches("Error: ");
                Some(format!(
                    "the query needs more memory than --memory-limit {limit} allows ({asked}); raise the limit, \
                     show the result in parts with --batch-size, or ask for fewer rows or columns"
                ))
            }
            _ => Some(message.clone()),
        }
    }

    /// The same, with what to do about it.
    pub(crate) fn with_hint(self, hint: Option<String>) -> Self {
        match (self, hint) {
            (Failure::Error { kind, message }, Some(hint)) => Failure::new(kind, format!("{message}; {hint}")),
            (failure, _) => failure,
        }
    }

    /// The same, said of a part of the input.
    pub(crate) fn of(self, subject: &str) -> Self {
        match self {
            Failure::Error { kind, message } => Failure::Error { kind, message: format!("{subject}: {message}") },
            other => other,
        }
    }
}

impl From<tensorquery::Error> for Failure {
    fn from(error: tensorquery::Error) -> Self {
        let message = error.to_string();
        if !error.is_engine() {
            return Failure::new(error.kind(), message);
        }
        let message = plain(&message);
        let hint = hints::on_running(&message);
        Failure::new(error.kind(), message).with_hint(hint)
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        match error.find_root() {
            DataFusionError::External(inner) if inner.is::<FileError>() => Failure::new("file", inner.to_string()),
            DataFusionError::SQL(parser, _) => Failure::new("engine", plain(&parser.to_string())),
            _ => tensorquery::Error::from(error).into(),
        }
    }
}

/// An error of writing.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ if error.get_ref().is_some_and(|inner| inner.is::<Stopped>()) => Failure::Interrupted,
            _ => Failure::new("io", format!("can't write the result: {error}")),
        }
    }
}

/// Writing was stopped by Ctrl-C.
#[derive(Debug)]
pub(crate) struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

/// In the engine's messages about memory.
const EXHAUSTED: &str = "Resources exhausted: ";

/// Layers that the engine names in front of its messages; they say nothing to who wrote the query.
const LAYERS: [&str; 8] = [
    "Error during planning: ",
    "External error: ",
    "Execution error: ",
    "Schema error: ",
    "SQL error: ",
    "Arrow error: ",
    "Invalid or Unsupported Configuration: ",
    "sql parser error: ",
];

/// The engine's message without its layers, its catalog's name, and its request for a bug report.
pub(crate) fn plain(message: &str) -> String {
    let message = message.split("\nThis issue was likely caused by a bug").next().unwrap_or_default();
    let message =
        message.replace("datafusion.public.", "").replace("Parquet error: Parquet error: ", "Parquet error: ");
    let mut text = message.trim_end();
    while let Some(rest) = LAYERS.iter().find_map(|layer| text.strip_prefix(layer)) {
        text = rest;
    }
    // These are written with Rust's quotes.
    match text.strip_prefix("ParserError(\"").and_then(|text| text.strip_suffix("\")")) {
        Some(inner) => inner.replace("\\\"", "\"").replace("\\'", "'"),
        None => text.to_owned(),
    }
}
