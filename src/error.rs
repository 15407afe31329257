//! The one error type: what went wrong, where, and what to do about it.

use std::fmt;
use std::sync::Arc;

use crate::key::NestedKey;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, the key (and row, where known) it went wrong at, and what to do about it.
///
/// Ask the predicates ([`is_null`](Error::is_null), [`is_key`](Error::is_key), …) which kind it is.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    message: String,
    key: Option<NestedKey>,
    row: Option<usize>,
    dim: Option<usize>,
    /// Of lazy stacks, the outer first.
    members: Vec<usize>,
    remedy: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Key,
    Shape,
    Index,
    Option,
    Overflow,
    Device,
    Copy,
    Lock,
    Schema,
    File,
    Engine,
    Libtorch,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Key => "key",
            Kind::Shape => "shape",
            Kind::Index => "index",
            Kind::Option => "option",
            Kind::Overflow => "overflow",
            Kind::Device => "device",
            Kind::Copy => "copy",
            Kind::Lock => "lock",
            Kind::Schema => "schema",
            Kind::File => "file",
            Kind::Engine => "engine",
            Kind::Libtorch => "libtorch",
        }
    }
}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Arc::new(Inner {
            kind,
            message: message.into(),
            key: None,
            row: None,
            dim: None,
            members: Vec::new(),
            remedy: None,
            source: None,
        }))
    }

    /// Nulls that `Nulls::Raise` refuses.
    pub(crate) fn null(message: impl Into<String>) -> Self {
        Error::new(Kind::Null, message)
    }

    /// A key that is missing, taken, or not usable.
    pub(crate) fn key(message: impl Into<String>) -> Self {
        Error::new(Kind::Key, message)
    }

    /// Shapes, batch sizes or offsets that don't fit together.
    pub(crate) fn shape(message: impl Into<String>) -> Self {
        Error::new(Kind::Shape, message)
    }

    /// An index outside the batch.
    pub(crate) fn index(message: impl Into<String>) -> Self {
        Error::new(Kind::Index, message)
    }

    /// An option with an unknown name or a value that it does not take.
    pub(crate) fn option(message: impl Into<String>) -> Self {
        Error::new(Kind::Option, message)
    }

    /// A number that the tensor's dtype can't hold.
    pub(crate) fn overflow(message: impl Into<String>) -> Self {
        Error::new(Kind::Overflow, message)
    }

    /// A device that is not there.
    pub(crate) fn device(message: impl Into<String>) -> Self {
        Error::new(Kind::Device, message)
    }

    /// A copy that `CopyPolicy::Never` forbids.
    pub(crate) fn copy(message: impl Into<String>) -> Self {
        Error::new(Kind::Copy, message)
    }

    /// A change of a tensordict that is locked.
    pub(crate) fn lock(message: impl Into<String>) -> Self {
        Error::new(Kind::Lock, message)
    }

    /// A column type that can't be read as declared.
    pub(crate) fn schema(message: impl Into<String>) -> Self {
        Error::new(Kind::Schema, message)
    }

    /// A file that can't be read or written, or that holds what it shouldn't.
    pub(crate) fn file(message: impl Into<String>) -> Self {
        Error::new(Kind::File, message)
    }

    /// What the operating system says of a file.
    pub(crate) fn io(path: &std::path::Path, done: &str, source: std::io::Error) -> Self {
        Error::file(format!("'{}' can't be {done}: {source}", path.display())).caused_by(Arc::new(source))
    }

    /// An error that a query engine reported.
    #[cfg(any(feature = "datafusion", feature = "polars"))]
    pub(crate) fn engine(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = source.into();
        Error::new(Kind::Engine, source.to_string()).caused_by(source.into())
    }

    /// A panic in what a query engine ran, such as a function of the user's.
    #[cfg(any(feature = "datafusion", feature = "polars"))]
    pub(crate) fn panicked(panic: Box<dyn std::any::Any + Send>) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Error::engine(format!("the query panicked: {said}"))
    }

    fn inner(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }

    fn caused_by(mut self, source: Arc<dyn std::error::Error + Send + Sync>) -> Self {
        self.inner().source = Some(source);
        self
    }

    pub(crate) fn at(mut self, key: impl Into<NestedKey>) -> Self {
        self.inner().key = Some(key.into());
        self
    }

    /// The key, if known, lies below this name.
    pub(crate) fn below(mut self, name: &str) -> Self {
        let key = NestedKey::from(name);
        self.inner().key = Some(self.0.key.as_ref().map_or(key.clone(), |below| key.join(below)));
        self
    }

    pub(crate) fn at_row(mut self, row: usize) -> Self {
        self.inner().row = Some(row);
        self
    }

    /// The batch dim that it is about.
    pub(crate) fn at_dim(mut self, dim: usize) -> Self {
        self.inner().dim = Some(dim);
        self
    }

    /// It is about a member of a lazy stack. The dim, if known, becomes that of the stack.
    pub(crate) fn of_member(mut self, member: usize, stack_dim: usize) -> Self {
        let inner = self.inner();
        inner.dim = inner.dim.map(|dim| if dim < stack_dim { dim } else { dim + 1 });
        inner.members.insert(0, member);
        self
    }

    /// Counts the row, if known, from further back: `by` rows came before the part it was counted in.
    pub(crate) fn after_rows(mut self, by: usize) -> Self {
        self.inner().row = self.0.row.map(|row| row + by);
        self
    }

    /// The same without its row, for one that would mean nothing to the caller.
    #[cfg(feature = "datafusion")]
    pub(crate) fn without_row(mut self) -> Self {
        self.inner().row = None;
        self
    }

    /// It is about this file or directory, which the message names if it doesn't yet.
    #[cfg(all(feature = "datafusion", any(target_os = "linux", target_os = "macos")))]
    pub(crate) fn in_file(mut self, path: &std::path::Path) -> Self {
        let path = path.display().to_string();
        if !self.0.message.contains(&path) {
            self.inner().message = format!("'{path}': {}", self.0.message);
        }
        self
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.inner().remedy = Some(remedy.into());
        self
    }

    /// Nulls met a column whose nulls are refused.
    pub fn is_null(&self) -> bool {
        self.0.kind == Kind::Null
    }

    /// A key is missing, taken, or can't be used.
    pub fn is_key(&self) -> bool {
        self.0.kind == Kind::Key
    }

    /// Shapes, batch sizes or offsets don't fit together.
    pub fn is_shape(&self) -> bool {
        self.0.kind == Kind::Shape
    }

    /// An index lies outside the batch.
    pub fn is_index(&self) -> bool {
        self.0.kind == Kind::Index
    }

    /// An option has an unknown name or a value that it does not take.
    pub fn is_option(&self) -> bool {
        self.0.kind == Kind::Option
    }

    /// A number is too large for the tensor's dtype.
    pub fn is_overflow(&self) -> bool {
        self.0.kind == Kind::Overflow
    }

    /// The device asked for is not there.
    pub fn is_device(&self) -> bool {
        self.0.kind == Kind::Device
    }

    /// A copy was needed that the copy policy forbids.
    pub fn is_copy(&self) -> bool {
        self.0.kind == Kind::Copy
    }

    /// A tensordict is locked.
    pub fn is_lock(&self) -> bool {
        self.0.kind == Kind::Lock
    }

    /// A column's type can't be read as it is declared.
    pub fn is_schema(&self) -> bool {
        self.0.kind == Kind::Schema
    }

    /// A file can't be read or written, or holds something else than it should.
    pub fn is_file(&self) -> bool {
        self.0.kind == Kind::File
    }

    /// The query engine failed: planning, reading or running.
    pub fn is_engine(&self) -> bool {
        self.0.kind == Kind::Engine
    }

    /// The kind as one lower-case word, for machines: `null`, `key`, `shape`, `index`, `option`,
    /// `overflow`, `device`, `copy`, `lock`, `schema`, `file`, `engine` or `libtorch`.
    pub fn kind(&self) -> &'static str {
        self.0.kind.name()
    }

    /// The entry or column at fault, if it is one.
    pub fn nested_key(&self) -> Option<&NestedKey> {
        self.0.key.as_ref()
    }

    /// The row at fault, counted from the start of what was converted: the batch, or a query's result.
    ///
    /// Of a query that runs in several partitions there is none: which of them meets a null first, and how many
    /// rows it had by then, differs from run to run.
    pub fn row(&self) -> Option<usize> {
        self.0.row
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind: _, message, key, row, dim, members, remedy, source: _ } = &*self.0;
        if let Some(key) = key {
            write!(f, "{key}: ")?;
        }
        f.write_str(message)?;
        let row = row.map(|row| format!("row {row}"));
        let dim = dim.map(|dim| format!("dim {dim}"));
        let members = members.iter().map(|member| format!("member {member}"));
        let places: Vec<_> = dim.into_iter().chain(members).chain(row).collect();
        if !places.is_empty() {
            write!(f, " ({})", places.join(", "))?;
        }
        if let Some(remedy) = remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}

/// The kind and what [`Display`](fmt::Display) says, so that an error which leaves `main` can be read.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} error: {self}", self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<tch::TchError> for Error {
    fn from(source: tch::TchError) -> Self {
        // libtorch appends its C++ stack to the message; the first line says what was wrong.
        let text = source.to_string();
        Error::new(Kind::Libtorch, text.lines().next().unwrap_or_default()).caused_by(Arc::new(source))
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(source: arrow::error::ArrowError) -> Self {
        Error::new(Kind::Schema, source.to_string()).caused_by(Arc::new(source))
    }
}
