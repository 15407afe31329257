//! The `tensorquery` command: SQL in, tensordicts of libtorch tensors out.
//!
//! `main` reads the flags ([`args`]), sets up a session ([`session`], [`files`]), and runs either the
//! statements it was given ([`query`]) or a prompt ([`prompt`]). What comes out is written by [`output`].

mod args;
mod failure;
mod files;
mod interrupt;
mod output;
mod progress;
mod prompt;
mod query;
mod session;

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use args::Args;
use clap::Parser;
use failure::Failure;
use output::Printer;
use query::Source;

/// Planning recurses over the query; a thread's usual two megabytes are few for a long one.
const STACK_BYTES: usize = 16 << 20;
/// How long running work may take to stop before the process ends regardless.
const GRACE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let args = Args::parse();
    let printer = Arc::new(Printer::new(&args));
    match start(&args, &printer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => printer.report(&failure),
    }
}

fn start(args: &Args, printer: &Arc<Printer>) -> Result<(), Failure> {
    let sources = read_sources(args)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        builder.worker_threads(threads.get());
        tch::set_num_threads(i32::try_from(threads.get()).unwrap_or(i32::MAX));
    }
    let runtime = builder
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|error| Failure::new("io", format!("can't start threads: {error}")))?;
    let done = runtime.block_on(interrupt::listen()).and_then(|()| {
        let context = runtime.block_on(interrupt::stoppable(session::open(args.clone())))?;
        if !sources.is_empty() {
            let statements = query::parse(&context, &sources)?;
            let last_is_shown = !args.prompts();
            let work = query::run_all(context.clone(), statements, last_is_shown, Arc::clone(printer));
            runtime.block_on(interrupt::stoppable(work))?;
        }
        if args.prompts() { prompt::run(&runtime, &context, printer) } else { Ok(()) }
    });
    runtime.shutdown_timeout(GRACE);
    done
}

/// The SQL to run before the prompt, or instead of one: files in order, the query, or else stdin.
fn read_sources(args: &Args) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for path in &args.files {
        sources.push(if path == Path::new("-") { read_stdin()? } else { read_file(path)? });
    }
    if let Some(sql) = &args.query {
        sources.push(Source { name: None, sql: sql.clone() });
    }
    if sources.is_empty() && !args.prompts() {
        sources.push(read_stdin()?);
    }
    Ok(sources)
}

fn read_file(path: &Path) -> Result<Source, Failure> {
    let sql = fs::read_to_string(path)
        .map_err(|error| Failure::new("file", format!("can't read {}: {error}", path.display())))?;
    Ok(Source { name: Some(path.display().to_string()), sql })
}

fn read_stdin() -> Result<Source, Failure> {
    let mut sql = String::new();
    io::stdin()
        .lock()
        .read_to_string(&mut sql)
        .map_err(|error| Failure::new("file", format!("can't read SQL from stdin: {error}")))?;
    Ok(Source { name: None, sql })
}

impl Args {
    /// Whether a prompt opens: asked for, or nothing else was and somebody is there to type.
    fn prompts(&self) -> bool {
        let nothing_given = self.query.is_none() && self.files.is_empty();
        self.interactive || (nothing_given && io::stdin().is_terminal())
    }
}
