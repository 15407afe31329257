//! The way back.

use super::CopyPolicy;
use crate::key::NestedKey;

/// How a tensordict becomes a record batch.
///
/// ```
/// use tensorquery::{CopyPolicy, DEFAULT_MASK_KEY, ToArrowOptions};
///
/// let options = ToArrowOptions::default().mask_key(DEFAULT_MASK_KEY).copy(CopyPolicy::Never);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ToArrowOptions {
    mask_key: Option<NestedKey>,
    copy: CopyPolicy,
}

impl ToArrowOptions {
    /// Where masks are: the one at `(mask_key, "c")` becomes the validity of column `c`, and no column of its own.
    /// Default: there are none, and all boolean tensors become columns.
    pub fn mask_key(mut self, key: impl Into<NestedKey>) -> Self {
        self.mask_key = Some(key.into());
        self
    }

    /// Whether columns may share memory with tensors. Default: [`CopyPolicy::Auto`].
    pub fn copy(mut self, copy: CopyPolicy) -> Self {
        self.copy = copy;
        self
    }

    pub(crate) fn masks(&self) -> Option<&NestedKey> {
        self.mask_key.as_ref()
    }

    pub(crate) fn copy_policy(&self) -> CopyPolicy {
        self.copy
    }
}
