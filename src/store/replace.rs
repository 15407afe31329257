//! A save that is seen whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::TempDir;

use super::sink::sync;
use crate::error::{Error, Result};

/// What is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Directory,
    File,
}

/// A save on its way, in a directory beside its target. It is removed with this, whatever comes.
#[derive(Debug)]
pub(super) struct Staged {
    target: PathBuf,
    kind: Target,
    overwrite: bool,
    aside: TempDir,
}

/// What is under way or left over has names that begin so, after a dot and the target's own name.
const MARK: &str = ".tensorquery-";

impl Staged {
    /// # Errors
    ///
    /// A [file](Error::is_file) error if the target can't be written to, or is there already and can't be replaced.
    pub(super) fn begin(target: &Path, kind: Target, overwrite: bool) -> Result<Staged> {
        let name = target.file_name().ok_or_else(|| {
            Error::file(format!("'{}' is no name of a file or directory that can be made", target.display()))
        })?;
        ensure_replaceable(target, kind, overwrite)?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(MARK);
        let parent = parent(target);
        let aside = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(|error| {
            let error = Error::io(parent, "written to", error);
            if parent.exists() { error } else { error.remedy("make the directory first") }
        })?;
        Ok(Staged { target: target.to_owned(), kind, overwrite, aside })
    }

    /// Where the new file or directory is to be made.
    pub(super) fn place(&self) -> PathBuf {
        self.aside.path().join("new")
    }

    /// A directory for what is put together later.
    pub(super) fn workshop(&self) -> PathBuf {
        self.aside.path().join("parts")
    }

    /// Puts what was made and synced at [`place`](Self::place) where it is to be. After a crash, the target is the old
    /// one or the new one, on file systems that can exchange two directories; on others it may be missing, and then the
    /// old one lies beside it.
    pub(super) fn publish(self) -> Result<()> {
        let new = self.place();
        sync(self.aside.path())?;
        ensure_replaceable(&self.target, self.kind, self.overwrite)?;
        let there = self.target.symlink_metadata().is_ok();
        let done = match (self.overwrite && there, self.kind) {
            (false, _) => without_replacing(&new, &self.target),
            (true, Target::File) => fs::rename(&new, &self.target),
            (true, Target::Directory) => self.exchange(&new),
        };
        done.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => taken(&self.target),
            _ => Error::io(&self.target, "put in place", error),
        })?;
        sync(parent(&self.target))
    }

    /// The new directory takes the place of the old one, which is removed with the rest.
    fn exchange(&self, new: &Path) -> io::Result<()> {
        match renameat_with(CWD, new, CWD, &self.target, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => self.one_by_one(new),
            done => Ok(done?),
        }
    }

    /// For file systems that can't exchange: the old one aside, the new one in.
    fn one_by_one(&self, new: &Path) -> io::Result<()> {
        // Not below `aside`, which a later save would be free to remove.
        let mut name = self.aside.path().as_os_str().to_owned();
        name.push(REPLACED);
        let old = PathBuf::from(name);
        fs::rename(&self.target, &old)?;
        if let Err(error) = fs::rename(new, &self.target) {
            fs::rename(&old, &self.target)?;
            return Err(error);
        }
        // What stays of it only takes up room.
        let _ = fs::remove_dir_all(&old);
        Ok(())
    }
}

/// How the name of an old directory ends that had to make room.
const REPLACED: &str = ".replaced";

fn without_replacing(new: &Path, target: &Path) -> io::Result<()> {
    match renameat_with(CWD, new, CWD, target, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if target.symlink_metadata().is_ok() => {
            Err(io::ErrorKind::AlreadyExists.into())
        }
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(new, target),
        done => Ok(done?),
    }
}

fn taken(target: &Path) -> Error {
    Error::file(format!("'{}' is there already", target.display()))
        .remedy("choose another name, or SaveOptions::overwrite")
}

/// Fails unless the target is free, or may be overwritten and is something that a save makes.
fn ensure_replaceable(target: &Path, kind: Target, overwrite: bool) -> Result<()> {
    let metadata = match target.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(target, "looked at", error)),
    };
    if !overwrite {
        return Err(taken(target));
    }
    let refused = |what: &str| {
        Err(Error::file(format!("'{}' {what}, which isn't overwritten", target.display()))
            .remedy("choose another name, or remove it yourself"))
    };
    match kind {
        _ if metadata.is_symlink() => refused("is a symbolic link"),
        Target::File if !metadata.is_file() => refused("is no file"),
        Target::File => Ok(()),
        Target::Directory if !metadata.is_dir() => refused("is no directory"),
        Target::Directory => {
            let mut within = fs::read_dir(target).map_err(|error| Error::io(target, "read", error))?;
            if target.join("meta.json").is_file() || within.next().is_none() {
                return Ok(());
            }
            refused("holds something else than a saved tensordict")
        }
    }
}

/// The error for a target that isn't there, which tells of a save that was cut off while it replaced it.
pub(super) fn missing(target: &Path, error: Error) -> Error {
    if target.symlink_metadata().is_ok() {
        return error;
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let siblings = fs::read_dir(parent(target)).into_iter().flatten().flatten();
    let left = siblings.map(|entry| entry.path()).find(|path| {
        let theirs = path.file_name().unwrap_or_default().to_string_lossy();
        theirs.starts_with(&format!(".{name}{MARK}")) && theirs.ends_with(REPLACED)
    });
    match left {
        Some(left) => error.remedy(format!(
            "a save was cut off while it replaced it: what was there is '{}', rename it back",
            left.display()
        )),
        None => error,
    }
}

fn parent(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(place: &Path, content: &str) {
        fs::create_dir(place).unwrap();
        fs::write(place.join("meta.json"), content).unwrap();
    }

    fn listed(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn directories_change_places_with_and_without_exchange() {
        let folder = TempDir::new().unwrap();
        let target = folder.path().join("td");
        for (content, exchange) in [("1", true), ("2", true), ("3", false)] {
            let staged = Staged::begin(&target, Target::Directory, true).unwrap();
            directory(&staged.place(), content);
            if exchange {
                staged.publish().unwrap();
            } else {
                staged.one_by_one(&staged.place()).unwrap();
                drop(staged);
            }
            assert_eq!(fs::read_to_string(target.join("meta.json")).unwrap(), content);
            assert_eq!(listed(folder.path()), ["td"]);
        }
        let staged = Staged::begin(&target, Target::Directory, true).unwrap();
        assert!(staged.one_by_one(&staged.place()).is_err(), "there is nothing new");
        drop(staged);
        assert_eq!(fs::read_to_string(target.join("meta.json")).unwrap(), "3");
        assert_eq!(listed(folder.path()), ["td"]);
    }

    #[test]
    fn what_a_crash_leaves_is_told() {
        let folder = TempDir::new().unwrap();
        let target = folder.path().join("td");
        let plain = missing(&target, Error::file("missing")).to_string();
        assert_eq!(plain, "missing");
        directory(&folder.path().join(".td.tensorquery-abc.replaced"), "old");
        let told = missing(&target, Error::file("missing")).to_string();
        assert!(told.contains(".td.tensorquery-abc.replaced"), "{told}");
    }

    #[test]
    fn somebody_elses_files_stay() {
        let folder = TempDir::new().unwrap();
        let target = folder.path().join("td");
        let begin = |overwrite| Staged::begin(&target, Target::Directory, overwrite).map(drop);
        fs::create_dir(&target).unwrap();
        begin(true).unwrap();
        assert!(begin(false).unwrap_err().is_file());
        fs::write(target.join("thesis.txt"), "").unwrap();
        assert!(begin(true).unwrap_err().to_string().contains("something else"));
        assert!(Staged::begin(&target, Target::File, true).is_err());
        assert!(Staged::begin(Path::new("/"), Target::Directory, true).is_err());
        assert!(Staged::begin(&folder.path().join("no/td"), Target::Directory, false).is_err());
        // One that comes while a save is on its way isn't replaced either.
        let staged = Staged::begin(&folder.path().join("late"), Target::File, false).unwrap();
        fs::write(staged.place(), "new").unwrap();
        fs::write(folder.path().join("late"), "theirs").unwrap();
        assert!(staged.publish().unwrap_err().to_string().contains("already"));
        assert_eq!(fs::read_to_string(folder.path().join("late")).unwrap(), "theirs");
    }
}
