//! The two forms of saved tensordicts.

use std::path::{Path, PathBuf};

use datafusion::datasource::listing::ListingTableUrl;

use crate::dict::TensorDict;
use crate::error::{Error, Result};
use crate::store::{LoadOptions, MemmapWriter, SafetensorsWriter, SaveOptions, load_memmap, load_safetensors};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A directory of memory-mapped files.
    TensorDict,
    /// One file.
    Safetensors,
}

impl Form {
    pub(super) const ALL: [Form; 2] = [Form::TensorDict, Form::Safetensors];

    /// Its name in `STORED AS`, and the extension of its files.
    pub(super) fn word(self) -> &'static str {
        match self {
            Form::TensorDict => "tensordict",
            Form::Safetensors => "safetensors",
        }
    }

    /// The function that reads it.
    pub(super) fn function(self) -> &'static str {
        match self {
            Form::TensorDict => "read_tensordict",
            Form::Safetensors => "read_safetensors",
        }
    }

    pub(super) fn load(self, path: &Path, options: &LoadOptions) -> Result<TensorDict> {
        let loaded = match self {
            Form::TensorDict => load_memmap(path, options),
            Form::Safetensors => load_safetensors(path, options),
        };
        loaded.map_err(|error| error.in_file(path))
    }

    pub(super) fn writer(self, path: &Path, options: &SaveOptions) -> Result<Writer> {
        match self {
            Form::TensorDict => MemmapWriter::new(path, options).map(Writer::TensorDict),
            Form::Safetensors => SafetensorsWriter::new(path, options).map(Writer::Safetensors),
        }
    }
}

/// A save that grows. Dropped before it is finished, it leaves nothing.
pub(super) enum Writer {
    TensorDict(MemmapWriter),
    Safetensors(SafetensorsWriter),
}

impl Writer {
    pub(super) fn append(&mut self, td: &TensorDict) -> Result<()> {
        match self {
            Writer::TensorDict(writer) => writer.append(td),
            Writer::Safetensors(writer) => writer.append(td),
        }
    }

    pub(super) fn finish(self) -> Result<()> {
        match self {
            Writer::TensorDict(writer) => writer.finish(),
            Writer::Safetensors(writer) => writer.finish(),
        }
    }
}

/// A path, or the one of a `file://` URL.
pub(super) fn local_path(location: &str) -> Result<PathBuf> {
    if !location.contains("://") {
        return Ok(PathBuf::from(location));
    }
    let url = ListingTableUrl::parse(location).map_err(Error::from)?;
    let path = Some(url.get_url()).filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
    path.ok_or_else(|| {
        Error::file(format!("'{location}' is not on this machine's file system, so it can't be mapped"))
            .remedy("name a local path, and copy the files from or to elsewhere")
    })
}
