//! Locked tensordicts: entries may be written in place, none added, replaced or removed.

use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};

/// Whether entries may be added, replaced and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lock {
    #[default]
    Open,
    /// Locked by a call on this tensordict.
    Locked,
    /// Locked as a part of the one above.
    Below,
}

impl TensorDict {
    /// Whether this tensordict is locked; a lazy stack also if all its members are.
    pub fn is_locked(&self) -> bool {
        match &self.body {
            _ if self.lock != Lock::Open => true,
            Body::Dense(_) => false,
            Body::Lazy(stack) => !stack.members.is_empty() && stack.members.iter().all(TensorDict::is_locked),
        }
    }

    /// Locks this tensordict and all in it: no entry or member can be added, replaced or removed until it
    /// is [unlocked](Self::unlock). Values may still be written in place.
    pub fn lock(&mut self) {
        if self.lock == Lock::Open {
            self.lock = Lock::Locked;
        }
        self.for_parts(&mut |part| part.set_lock(Lock::Below));
    }

    /// Unlocks this tensordict and all in it.
    ///
    /// # Errors
    ///
    /// A [lock](Error::is_lock) error for a part of a locked tensordict: only the whole can be unlocked.
    pub fn unlock(&mut self) -> Result<()> {
        if self.lock == Lock::Below {
            return Err(Error::lock("a part of a locked tensordict graph can't be unlocked alone")
                .remedy("unlock the tensordict that was locked"));
        }
        self.set_lock(Lock::Open);
        Ok(())
    }

    /// The same tensordict, locked.
    #[must_use]
    pub fn locked(mut self) -> Self {
        self.lock();
        self
    }

    pub(super) fn set_lock(&mut self, lock: Lock) {
        self.lock = lock;
        let below = if lock == Lock::Open { Lock::Open } else { Lock::Below };
        self.for_parts(&mut |part| part.set_lock(below));
    }

    /// Locks a shallow clone, and each part of it, as what it is a clone of.
    pub(super) fn lock_as(&mut self, other: &TensorDict) {
        self.lock = other.lock;
        match (&mut self.body, &other.body) {
            (Body::Dense(dense), Body::Dense(theirs)) => {
                for pair in dense.entries.values_mut().zip(theirs.entries.values()) {
                    if let (Entry::Dict(dict), Entry::Dict(other)) = pair {
                        dict.lock_as(other);
                    }
                }
            }
            (Body::Lazy(stack), Body::Lazy(theirs)) => {
                stack.members.iter_mut().zip(&theirs.members).for_each(|(member, other)| member.lock_as(other));
            }
            _ => {}
        }
    }

    fn for_parts(&mut self, visit: &mut dyn FnMut(&mut TensorDict)) {
        match &mut self.body {
            Body::Dense(dense) => {
                for entry in dense.entries.values_mut() {
                    if let Entry::Dict(dict) = entry {
                        visit(dict);
                    }
                }
            }
            Body::Lazy(stack) => stack.members.iter_mut().for_each(visit),
        }
    }

    pub(super) fn ensure_unlocked(&self) -> Result<()> {
        if self.is_locked() { Err(locked()) } else { Ok(()) }
    }

    /// Fails if any tensordict on the way to `names` is locked.
    pub(super) fn ensure_path_unlocked(&self, names: &[String]) -> Result<()> {
        self.ensure_unlocked()?;
        match &self.body {
            Body::Lazy(stack) => stack.members.iter().try_for_each(|member| member.ensure_path_unlocked(names)),
            Body::Dense(dense) => match names {
                [name, below @ ..] => match dense.entries.get(name) {
                    Some(Entry::Dict(dict)) if !below.is_empty() => dict.ensure_path_unlocked(below),
                    _ => Ok(()),
                },
                [] => Ok(()),
            },
        }
    }
}

fn locked() -> Error {
    Error::lock("Cannot modify locked TensorDict").remedy("unlock it first, or write the values in place")
}
