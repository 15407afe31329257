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
    ///
    /// The members that a locked stack gives are locked handles, and so are parts, orders and shapes of it that stay
    /// lazy, and results of arithmetic and casts. Each can be unlocked for itself: what is then added to it isn't added
    /// here. Free are copies, chosen entries, dicts read by key, what is made dense, and parts of a dense tensordict.
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
    /// A [lock](Error::is_lock) error for a member that [`into_members`](Self::into_members) took out of a locked stack:
    /// only the whole can be unlocked. A [`shallow_clone`](Self::shallow_clone) of it is free.
    pub fn unlock(&mut self) -> Result<()> {
        if self.lock == Lock::Below {
            return Err(Error::lock("a part of a locked tensordict graph can't be unlocked alone")
                .remedy("unlock the tensordict that was locked, or use a shallow_clone of the part"));
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

    /// Another handle, locked as this one is: what a lazy stack gives of its members are the members.
    pub(super) fn handle(&self) -> TensorDict {
        self.shallow_clone().locked_as(self)
    }

    /// Locked if the other is.
    pub(super) fn locked_as(self, other: &TensorDict) -> TensorDict {
        if other.is_locked() { self.locked() } else { self }
    }

    pub(super) fn set_lock(&mut self, lock: Lock) {
        self.lock = lock;
        let below = if lock == Lock::Open { Lock::Open } else { Lock::Below };
        self.for_parts(&mut |part| part.set_lock(below));
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
