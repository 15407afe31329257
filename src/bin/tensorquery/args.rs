//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;
use tensorquery::Options;

const EXAMPLES: &str = "\
Examples:
  tensorquery \"SELECT dep_delay, distance FROM 'flights.parquet' WHERE dep_delay IS NOT NULL\"
  tensorquery --nulls mask --table flights=data/flights.parquet \"SELECT * FROM flights\"
  tensorquery --json --batch-size 1024 \"SELECT * FROM 'data/*.csv'\" | head -1
  tensorquery -f setup.sql -f query.sql
  tensorquery --schema \"SELECT * FROM 'flights.parquet'\"
  tensorquery -t logs=logs/            (a prompt: \\? for help)

Tables:
  Paths in single quotes are tables: a file, a directory, or a glob such as 'data/*.parquet'.
  Formats go by extension: .parquet .pq, .csv .tsv, .json .jsonl .ndjson (one object a line),
  .arrow .ipc .feather; CSV and JSON also compressed, as .csv.gz (.gz .bz2 .xz .zst).
  A saved tensordict is one too: its directory, or a .safetensors file.
  For other cases there is CREATE EXTERNAL TABLE.

  COPY (SELECT …) TO 'train/' STORED AS TENSORDICT saves a result; SAFETENSORS does so to one file.

Results:
  The last statement's result is shown as a tensordict: each entry's key, kind, dtype, shape,
  device and first values. EXPLAIN, SHOW and DESCRIBE are shown as text tables.
  CREATE, DROP, SET and the like show nothing.
  All statements are parsed first: where one can't be, none runs.
  --json writes all values: {\"batch_size\": [n], \"entries\": {…}}, also of EXPLAIN and the like.
  An error is then {\"error\": kind, \"message\": text}, on stdout too.

Defaults:
  --nulls, --mask-key, --mask-keys, --copy, --unsigned and --device are the session's defaults.
  SQL overrides them: SET tensordict.nulls = 'mask' for what follows, RESET tensordict.nulls for the library's
  default, and tensordict((SELECT …), nulls => 'fill') for one relation.

Exit codes:
  0 done; 1 the query or its data is at fault; 2 the command line is; 130 Ctrl-C.";

/// SQL queries that return tensordicts: dictionaries of libtorch tensors that share a batch size.
///
/// Without a query or file, SQL is read from stdin, or at a prompt if stdin is a terminal.
#[derive(Clone, Debug, Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Args {
    /// SQL to run, after any files; of several statements (with `;`) the last one's result is shown
    pub(crate) query: Option<String>,

    /// A file of SQL to run, `-` for stdin; may be repeated. All is parsed before anything runs
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Open a prompt after the files and the query, even if stdin is no terminal
    #[arg(short, long, conflicts_with_all = ["schema", "json", "batch_size"])]
    pub(crate) interactive: bool,

    /// A table of files; may be repeated
    #[arg(short, long = "table", value_name = "NAME=PATH", value_parser = table)]
    pub(crate) tables: Vec<(String, String)>,

    /// What happens to nulls: raise (an error, the default), fill (0, NaN, false), mask (fill, and boolean masks)
    #[arg(long, value_name = "raise|fill|mask", value_parser = option("nulls"))]
    pub(crate) nulls: Option<String>,

    /// Where masks go [default: _mask]; repeated, the names of a nested key
    #[arg(long, value_name = "NAME", value_parser = option("mask_key"))]
    pub(crate) mask_key: Vec<String>,

    /// Columns that get masks: observed (that had nulls, the default), nullable (that may), or names; repeated, of several
    #[arg(long, value_name = "observed|nullable|COLUMN", value_parser = mask_keys)]
    pub(crate) mask_keys: Vec<String>,

    /// Copies of the query's result: auto (where memory can't be shared safely, the default), always, never (an error)
    #[arg(long, value_name = "auto|always|never", value_parser = option("copy"))]
    pub(crate) copy: Option<String>,

    /// Unsigned numbers above the largest int64: check (an error, the default), reinterpret (as negative ones)
    #[arg(long, value_name = "check|reinterpret", value_parser = option("unsigned"))]
    pub(crate) unsigned: Option<String>,

    /// The device to move results to
    #[arg(long, value_name = "cpu|cuda[:N]", value_parser = option("device"))]
    pub(crate) device: Option<String>,

    /// Show the result as tensordicts of N rows (the last may be shorter), each as soon as it is computed
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) batch_size: Option<NonZeroUsize>,

    /// Threads for the query and for libtorch [default: one per core]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Memory for the query, as 512M or 2G; what may, spills to disk, the rest fails
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_limit: Option<Size>,

    /// Write whole results as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,

    /// Show what the last statement's result would be, without running it
    #[arg(long, conflicts_with = "batch_size")]
    pub(crate) schema: bool,

    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// `NAME=PATH`.
fn table(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.to_owned())),
        _ => Err("it takes a name and a path, as in flights=data/flights.parquet".to_owned()),
    }
}

/// A value that the library's option of that name takes.
fn option(name: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |text| match Options::default().set(name, text) {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => {
            // The parser of flags has already said which flag it is and what it was given.
            let message = error.to_string();
            let said = format!("{name} is '{text}'; ");
            Err(message.strip_prefix(&said).unwrap_or(&message).to_owned())
        }
    }
}

/// One of several columns, a word that stands for some, or JSON as `SET` takes it.
fn mask_keys(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("it takes 'observed', 'nullable', or columns".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A number of rows or threads.
fn count(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse::<usize>() {
        Ok(number) => NonZeroUsize::new(number).ok_or_else(|| "it must be at least 1".to_owned()),
        Err(_) => Err("it must be a whole number of at least 1".to_owned()),
    }
}

/// A number of bytes, and how it was written.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    pub(crate) bytes: usize,
    pub(crate) text: String,
}

fn size(text: &str) -> Result<Size, String> {
    Ok(Size { bytes: bytes(text)?, text: text.to_owned() })
}

/// A number of bytes: `1000`, `512K`, `1.5G`, `2GiB` (all powers of 1024), or `2GB` (of 1000).
fn bytes(text: &str) -> Result<usize, String> {
    let refused = || "it takes a number of bytes such as 1000000, 512K, 1.5G, 2GiB or 2GB".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| refused())?;
    let unit = unit.trim().to_ascii_lowercase();
    let (power, base) = match unit.as_str() {
        "" | "b" => (0, 1.0),
        unit => {
            let power = unit.chars().next().and_then(|letter| "kmgt".find(letter)).ok_or_else(refused)?;
            let base = match &unit[1..] {
                "" | "i" | "ib" => 1024.0_f64,
                "b" => 1000.0,
                _ => return Err(refused()),
            };
            (power as i32 + 1, base)
        }
    };
    let bytes = number * base.powi(power);
    if bytes < 1.0 || bytes > isize::MAX as f64 { Err(refused()) } else { Ok(bytes as usize) }
}

#[cfg(test)]
mod tests {
    use super::{Args, bytes};
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn sizes() {
        let sizes = ["1000", "1k", "512KiB", "1.5G", "2GB", "3 MiB", "1T"].map(|text| bytes(text).unwrap());
        assert_eq!(sizes, [1000, 1024, 512 << 10, 3 << 29, 2_000_000_000, 3 << 20, 1 << 40]);
        for text in ["", "G", "-1", "0", "1X", "1KBB", "1.2.3", "99999999T", "1é"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
