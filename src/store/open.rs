//! Directories and files as they were when they were opened.
//!
//! What is opened is held, and everything below is opened from there: a directory that another process replaces
//! meanwhile is read as it was, or is gone, never half of each. A symbolic link below is refused, so that no path leads
//! out; so is what is no plain file, which could be waited for forever.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use tch::{Kind, Tensor};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ffi;

/// An open directory.
pub(super) struct Folder {
    handle: OwnedFd,
    /// For messages.
    path: PathBuf,
}

/// An open file.
pub(super) struct Opened {
    file: File,
    path: PathBuf,
    bytes: u64,
}

const FILE: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Folder> {
        let handle = openat(CWD, path, FOLDER, Mode::empty()).map_err(|error| unreadable(path, error.into()))?;
        Ok(Folder { handle, path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of this name in it, if there is one.
    pub(super) fn folder(&self, name: &str) -> Result<Option<Folder>> {
        let path = self.path.join(name);
        match openat(&self.handle, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(handle) => Ok(Some(Folder { handle, path })),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(unreadable(&path, error.into())),
        }
    }

    /// The file of this name in it, if there is one.
    pub(super) fn file(&self, name: &str) -> Result<Option<Opened>> {
        let path = self.path.join(name);
        match openat(&self.handle, name, FILE | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(handle) => Opened::new(handle, path).map(Some),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(unreadable(&path, error.into())),
        }
    }

    /// All of a file that must be there.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let file = self.file(name)?.ok_or_else(|| {
            Error::file(format!("there is no '{name}' in '{}'", self.path.display()))
                .remedy("it is no saved tensordict, or was changed")
        })?;
        file.read()
    }
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        return Error::file(format!("'{}' is a symbolic link, which could lead anywhere", path.display()))
            .remedy("put the file itself there");
    }
    Error::io(path, "read", error)
}

impl Opened {
    pub(super) fn open(path: &Path) -> Result<Opened> {
        let handle = openat(CWD, path, FILE, Mode::empty()).map_err(|error| unreadable(path, error.into()))?;
        Opened::new(handle, path.to_owned())
    }

    fn new(handle: OwnedFd, path: PathBuf) -> Result<Opened> {
        let file = File::from(handle);
        let metadata = file.metadata().map_err(|error| Error::io(&path, "read", error))?;
        if !metadata.is_file() {
            return Err(Error::file(format!("'{}' is no file", path.display())));
        }
        Ok(Opened { file, path, bytes: metadata.len() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length when it was opened.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of it.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        (&self.file)
            .take(self.bytes)
            .read_to_end(&mut content)
            .map_err(|error| Error::io(&self.path, "read", error))?;
        Ok(content)
    }

    /// So many bytes from a place on.
    pub(super) fn read_at(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        if at.checked_add(length).is_none_or(|end| end > self.bytes) {
            return Err(Error::file(format!("'{}' ends before byte {at} + {length}", self.path.display())));
        }
        let length = usize::try_from(length).map_err(|_| Error::file("more bytes than memory can hold"))?;
        let mut content = vec![0; length];
        self.file.read_exact_at(&mut content, at).map_err(|error| Error::io(&self.path, "read", error))?;
        Ok(content)
    }

    /// Its first elements as a tensor of one dim, which are read when they are touched. Writes to the tensor stay in
    /// memory.
    pub(super) fn map(&self, numel: i64, kind: Kind) -> Result<Tensor> {
        ffi::tensor_mapped(&self.file, DType::from(kind), numel)
            .map_err(|error| Error::file(format!("'{}': {error}", self.path.display())))
    }
}
