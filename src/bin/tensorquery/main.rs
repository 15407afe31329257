//! The `tensorquery` command: SQL in, tensordicts of libtorch tensors out.
//!
//! `main` reads the flags ([`args`]), sets up a session ([`session`], [`files`], [`columns`]), and runs either the
//! statements it was given ([`query`]) or a prompt ([`prompt`]). What comes out is written by [`output`]; [`hints`] says what to
//! do about the engine's errors.

mod args;
mod columns;
mod failure;
mod files;
mod hints;
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
use std::{fs, io};

use args::Args;
use clap::Parser;
use failure::Failure;
use output::Printer;
use prompt::Prompt;
use query::Source;
use tokio::runtime::Runtime;

/// Not all that recurses over the query is protected by the engine; a thread's usual two megabytes are few for a
/// long one. What isn't used takes no memory.
const STACK_BYTES: usize = 128 << 20;

/// Scans allocate and free by the megabyte. With glibc's allocator the pages go back to the system and come again
/// zeroed, which took more time than decoding Parquet did.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    let done = run(args, &runtime, &sources, printer);
    runtime.shutdown_timeout(interrupt::GRACE);
    done
}

fn run(args: &Args, runtime: &Runtime, sources: &[Source], printer: &Arc<Printer>) -> Result<(), Failure> {
    // The editor takes Ctrl-C for itself when it opens; whoever comes last has it.
    let prompt = if args.prompts() { Some(Prompt::open()?) } else { None };
    interrupt::listen()?;
    let context = runtime.block_on(interrupt::stoppable(session::open(args.clone())))?;
    let statements = query::parse(&context, sources)?;
    let last_is_shown = prompt.is_none();
    let work = query::run_all(context.clone(), statements, last_is_shown, Arc::clone(printer));
    runtime.block_on(interrupt::stoppable(work))?;
    match prompt {
        Some(prompt) => prompt.run(runtime, &context, printer),
        None => Ok(()),
    }
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
