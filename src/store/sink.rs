//! Bytes appended to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tch::{Kind, Tensor};

use super::kinds::size_of;
use crate::error::{Error, Result};
use crate::index::written_out;

/// What waits in memory for each file, at most.
const WAITING: usize = 16 << 10;

/// What is copied out of a tensor at a time.
const PIECE: usize = 1 << 20;

/// A new file that grows. It is open only while it is written to, so that there may be more columns than a process may
/// have open files, and isn't there before its first byte.
#[derive(Debug)]
pub(super) struct Sink {
    path: PathBuf,
    waiting: Vec<u8>,
    written: u64,
}

impl Sink {
    pub(super) fn new(path: PathBuf) -> Sink {
        Sink { path, waiting: Vec::new(), written: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes that were put in.
    pub(super) fn bytes(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|error| Error::io(&self.path, "written", error))
    }

    /// All elements of a tensor in row-major order, a piece at a time.
    pub(super) fn put_tensor(&mut self, tensor: &Tensor) -> Result<()> {
        let tensor = tensor.f_detach()?;
        let kind = tensor.f_kind()?;
        let rows = tensor.size().first().copied().unwrap_or(1);
        if tensor.numel() == 0 {
            return Ok(());
        }
        // What isn't contiguous is copied by its first dim, so never all at once.
        let row_bytes = tensor.numel() / usize::try_from(rows).unwrap_or(1) * size_of(kind);
        let at_a_time = if tensor.is_contiguous() { rows } else { (PIECE / row_bytes).max(1) as i64 };
        let mut start = 0;
        while start < rows {
            let count = at_a_time.min(rows - start);
            let part = if tensor.dim() == 0 { tensor.shallow_clone() } else { tensor.f_narrow(0, start, count)? };
            self.put_flat(&part.f_reshape([-1])?, kind)?;
            start += count;
        }
        Ok(())
    }

    fn put_flat(&mut self, flat: &Tensor, kind: Kind) -> Result<()> {
        let (total, at_a_time) = (flat.numel(), (PIECE / size_of(kind)).min(flat.numel()));
        let mut buffer = vec![0; at_a_time * size_of(kind)];
        let mut start = 0;
        while start < total {
            let count = at_a_time.min(total - start);
            let bytes = &mut buffer[..count * size_of(kind)];
            written_out(&flat.f_narrow(0, start as i64, count as i64)?)?.f_copy_data_u8(bytes, count)?;
            self.put(bytes)?;
            start += count;
        }
        Ok(())
    }

    /// Everything on the disk; whether there is a file, which there isn't without bytes.
    pub(super) fn finish(&mut self) -> Result<bool> {
        self.flush().map_err(|error| Error::io(&self.path, "written", error))?;
        if self.written > 0 {
            sync(&self.path)?;
        }
        Ok(self.written > 0)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        // Two columns must not get into one file.
        if self.written == 0 {
            options.create_new(true).write(true)
        } else {
            options.append(true)
        };
        options.open(&self.path)?.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.waiting.len() + bytes.len() > WAITING {
            self.flush()?;
        }
        if bytes.len() > WAITING {
            self.append(bytes)?;
        } else {
            self.waiting.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            self.append(&waiting)?;
        }
        Ok(())
    }
}

/// Waits until a file or directory is on the disk.
pub(super) fn sync(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| Error::io(path, "written to the disk", error))
}

/// A small file, whole and on the disk.
pub(super) fn write_file(path: PathBuf, bytes: &[u8]) -> Result<()> {
    let mut sink = Sink::new(path);
    sink.put(bytes)?;
    sink.finish().map(|_| ())
}
