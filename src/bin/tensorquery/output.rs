//! What the command writes.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use serde_json::{Value, json};
use tensorquery::{TensorDict, TensorDictSchema, write_json};

use super::args::Args;
use super::failure::Failure;
use super::interrupt::{self, StoppableWriter};

/// How results are shown, and errors.
pub(crate) struct Printer {
    pub(crate) json: bool,
    pub(crate) schema: bool,
    pub(crate) batch_size: Option<NonZeroUsize>,
    /// Whether progress is shown to somebody.
    pub(crate) progress: bool,
    /// `--memory-limit` as it was given, for errors.
    memory_limit: Option<String>,
}

impl Printer {
    pub(crate) fn new(args: &Args) -> Self {
        Printer {
            json: args.json,
            schema: args.schema,
            batch_size: args.batch_size,
            progress: !args.quiet && io::stderr().is_terminal(),
            memory_limit: args.memory_limit.as_ref().map(|limit| limit.text.clone()),
        }
    }

    pub(crate) fn tensordict(&self, dict: &TensorDict) -> Result<(), Failure> {
        if !self.json {
            return line(format_args!("{dict:#}"));
        }
        write(|out| {
            write_json(dict, out)?;
            out.write_all(b"\n")
        })
    }

    /// One of several tensordicts. For people, an empty line is between them.
    pub(crate) fn next_tensordict(&self, dict: &TensorDict, first: bool) -> Result<(), Failure> {
        if !first && !self.json {
            line("")?;
        }
        self.tensordict(dict)
    }

    /// Rows as a text table, or what stands for none.
    pub(crate) fn table(&self, batches: &[RecordBatch], no_rows: &str) -> Result<(), Failure> {
        if batches.iter().all(|batch| batch.num_rows() == 0) {
            return line(no_rows);
        }
        let table = pretty_format_batches(batches).map_err(tensorquery::Error::from)?;
        line(table)
    }

    pub(crate) fn schema(&self, schema: &TensorDictSchema) -> Result<(), Failure> {
        if self.json { line(schema_json(schema)) } else { line(schema) }
    }

    /// Says what went wrong. Gives the exit code that says the same.
    pub(crate) fn report(&self, failure: &Failure) -> ExitCode {
        match failure {
            Failure::OutputClosed => ExitCode::SUCCESS,
            Failure::Interrupted => ExitCode::from(interrupt::EXIT_CODE),
            Failure::Error { kind, .. } => {
                let message = failure.message_under(self.memory_limit.as_deref()).unwrap_or_default();
                // Where even this can't be written, the exit code is all that is left to say it.
                let _unheard = match self.json {
                    true => line(json!({"error": kind, "message": message})),
                    false => writeln!(io::stderr(), "error: {message}").map_err(Failure::from),
                };
                ExitCode::FAILURE
            }
        }
    }
}

/// Writes a line to stdout.
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    write(|out| writeln!(out, "{text}"))
}

type Stdout = BufWriter<StoppableWriter<StdoutLock<'static>>>;

fn write(write: impl FnOnce(&mut Stdout) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(StoppableWriter(io::stdout().lock()));
    let written = write(&mut out).and_then(|()| out.flush());
    // After an error, what is still buffered is not written either.
    let _stdout = out.into_parts();
    Ok(written?)
}

fn schema_json(schema: &TensorDictSchema) -> Value {
    let entries = schema.iter().map(|entry| {
        json!({
            "key": entry.key().names(),
            "kind": entry.kind(),
            "dtype": entry.dtype().map(|dtype| dtype.to_string()),
            "shape": entry.shape(),
            "arrow": entry.field().data_type().to_string(),
            "nullable": entry.nullable(),
            "nulls": entry.nulls().to_string(),
            "mask_key": schema.mask_key_of(entry).map(|key| key.names().to_vec()),
        })
    });
    json!({ "entries": entries.collect::<Vec<_>>() })
}
