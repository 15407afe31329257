//! Files as tables: their format by their extension, for `--table` and for quoted paths in `FROM`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use super::failure::{FileError, plain};

/// An extension, the engine's name of the format, and an option that the format needs.
type Known = (&'static str, &'static str, Option<(&'static str, &'static str)>);

const FORMATS: [Known; 10] = [
    ("parquet", "parquet", None),
    ("pq", "parquet", None),
    ("csv", "csv", None),
    ("tsv", "csv", Some(("format.delimiter", "\t"))),
    ("json", "json", None),
    ("jsonl", "json", None),
    ("ndjson", "json", None),
    ("arrow", "arrow", None),
    ("ipc", "arrow", None),
    ("feather", "arrow", None),
];
const COMPRESSIONS: [&str; 4] = ["gz", "bz2", "xz", "zst"];

/// What a file's extension says.
struct Format {
    /// With the compression's: `csv.gz`.
    extension: String,
    name: &'static str,
    options: HashMap<String, String>,
}

impl Format {
    fn of(path: &str) -> Option<Format> {
        let mut parts = path.rsplit(['/', '\\']).next()?.rsplit('.');
        let mut extension = parts.next()?;
        let compression = COMPRESSIONS.into_iter().find(|compression| extension.eq_ignore_ascii_case(compression));
        if compression.is_some() {
            extension = parts.next()?;
        }
        // Something must be left for the name: `csv` is no CSV file.
        parts.next()?;
        let (_, name, option) = FORMATS.into_iter().find(|(known, _, _)| extension.eq_ignore_ascii_case(known))?;
        if compression.is_some() && !matches!(name, "csv" | "json") {
            return None;
        }
        let mut options = HashMap::new();
        options.extend(option.map(|(key, value)| (key.to_owned(), value.to_owned())));
        options.extend(compression.map(|compression| ("format.compression".to_owned(), compression.to_owned())));
        let suffix = compression.map_or(0, |compression| compression.len() + 1);
        let extension = path[path.len() - suffix - extension.len()..].to_owned();
        Some(Format { extension, name, options })
    }
}

fn known_extensions() -> String {
    let known = FORMATS.iter().map(|(extension, _, _)| *extension).chain(["safetensors"]);
    known.map(|extension| format!(".{extension}")).collect::<Vec<_>>().join(" ")
}

/// The table of the file, directory or glob `path`.
pub(crate) async fn table_at(state: &SessionState, path: &str) -> Result<Arc<dyn TableProvider>> {
    let remote = path.contains("://");
    let local = Path::new(path);
    let glob = path.contains(['*', '?', '[']) && !local.exists();
    if !remote && !glob {
        check_readable(path)?;
    }
    if remote && !path.starts_with("file://") {
        return Err(FileError(format!("{path}: only local files can be read")).into());
    }
    if let Some(table) = saved_at(state, path).await? {
        return Ok(table);
    }
    let directory = if !remote && local.is_dir() && !path.ends_with('/') { "/" } else { "" };
    let url = ListingTableUrl::parse(format!("{path}{directory}"))?;
    let format = match url.is_collection() || glob {
        true => format_within(state, &url, path).await?,
        false => Format::of(path),
    };
    let format = format.ok_or_else(|| {
        let unknown = match url.is_collection() || glob {
            true => "none of the files there has an extension that is known",
            false => "its extension is none that is known",
        };
        FileError(format!("{path}: {unknown}; known are {}", known_extensions()))
    })?;
    let missing = || FileError(format!("{path}: reading {} files is not built in", format.name));
    let factory = state.get_file_format_factory(format.name).ok_or_else(missing)?;
    let options = ListingOptions::new(factory.create(state, &format.options)?).with_file_extension(format.extension);
    let config = ListingTableConfig::new(url).with_listing_options(options);
    let config = config.infer_partitions_from_path(state).await?;
    let config = config.infer_schema(state).await.map_err(|error| unreadable(path, error))?;
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// The table of a saved tensordict: a directory with its metadata, or a safetensors file.
async fn saved_at(state: &SessionState, path: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let place = path.strip_prefix("file://").unwrap_or(path);
    let is_safetensors = Path::new(place).extension().is_some_and(|found| found.eq_ignore_ascii_case("safetensors"));
    let word = match is_safetensors {
        true => "SAFETENSORS",
        false if Path::new(place).join("meta.json").is_file() => "TENSORDICT",
        false => return Ok(None),
    };
    let Some(factory) = state.table_factories().get(word) else { return Ok(None) };
    let table = CreateExternalTable::builder(TableReference::bare("saved"), path, word, Arc::new(DFSchema::empty()));
    factory.create(state, &table.build()).await.map(Some)
}

fn check_readable(path: &str) -> Result<(), FileError> {
    let opened = std::fs::File::open(path).map(|_| ());
    opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => FileError(format!("{path}: there is no such file, directory or table")),
        _ => FileError(format!("{path}: {error}")),
    })
}

/// The engine's message does not say which file it is about; ours does.
fn unreadable(path: &str, error: DataFusionError) -> DataFusionError {
    match error.find_root() {
        DataFusionError::External(inner) if inner.is::<FileError>() => error,
        _ => FileError(format!("{path}: can't be read: {}", plain(&error.strip_backtrace()))).into(),
    }
}

/// The format of the first file with one; all files of a table share its extension.
async fn format_within(state: &SessionState, url: &ListingTableUrl, path: &str) -> Result<Option<Format>> {
    let store = state.runtime_env().object_store(url)?;
    let mut files = url.list_all_files(state, store.as_ref(), "").await?;
    let mut any = false;
    while let Some(file) = files.try_next().await? {
        if let Some(format) = Format::of(file.location.as_ref()) {
            return Ok(Some(format));
        }
        any = true;
    }
    if any { Ok(None) } else { Err(FileError(format!("{path}: there are no files")).into()) }
}

/// Makes tables of the paths that queries name.
#[derive(Debug, Default)]
pub(crate) struct PathTables {
    /// Used only for its link to the session, whose own type can't be named from here.
    inner: DynamicListTableFactory,
}

impl PathTables {
    /// Looks up formats and settings in this session from now on.
    pub(crate) fn serve(&self, context: &SessionContext) {
        self.inner.session_store().with_state(context.state_weak_ref());
    }
}

#[async_trait]
impl UrlTableFactory for PathTables {
    /// `None` lets the engine say that there is no table of that name.
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !looks_like_path(name) {
            return Ok(None);
        }
        let session = self.inner.session_store().get_session().upgrade();
        let state = session.and_then(|session| session.read().as_any().downcast_ref::<SessionState>().cloned());
        match state {
            Some(state) => table_at(&state, name).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Only names that the session has no table for get here, so a dot is enough.
fn looks_like_path(name: &str) -> bool {
    name.contains(['/', '\\', '*', '?', '.']) || Path::new(name).exists()
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn formats() {
        let format = |path| Format::of(path).map(|format| (format.extension, format.name));
        assert_eq!(format("a/b.parquet"), Some(("parquet".to_owned(), "parquet")));
        assert_eq!(format("b.CSV"), Some(("CSV".to_owned(), "csv")));
        assert_eq!(format("x.y.csv.gz"), Some(("csv.gz".to_owned(), "csv")));
        assert_eq!(format("x.ndjson"), Some(("ndjson".to_owned(), "json")));
        for path in ["csv", "a.csv/b", "x.parquet.gz", "x.gz", "x.txt", ""] {
            assert_eq!(format(path), None, "{path}");
        }
    }
}
