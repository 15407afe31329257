//! The members of a lazy stack.

use super::TensorDict;
use super::lazy::{LazyStack, has_name};
use super::tensordict::Body;
use crate::error::{Error, Result};

impl TensorDict {
    /// Whether this is a lazy stack.
    pub fn is_lazy(&self) -> bool {
        matches!(self.body, Body::Lazy(_))
    }

    /// The batch dim along which a lazy stack is stacked.
    pub fn stack_dim(&self) -> Option<usize> {
        self.as_stack().ok().map(|stack| stack.stack_dim)
    }

    /// The name of the dim along which a lazy stack is stacked, if it has one.
    pub fn stack_dim_name(&self) -> Option<&str> {
        self.as_stack().ok()?.dim_name()
    }

    /// The members of a lazy stack, in order; none of a dense tensordict.
    pub fn members(&self) -> &[TensorDict] {
        self.as_stack().map_or(&[], |stack| &stack.members)
    }

    /// The members of a lazy stack, in order. Those of a locked one stay locked; a
    /// [`shallow_clone`](Self::shallow_clone) is free.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error for a dense tensordict.
    pub fn into_members(self) -> Result<Vec<TensorDict>> {
        match self.body {
            Body::Lazy(stack) => Ok(stack.members),
            Body::Dense(_) => Err(dense()),
        }
    }

    pub(super) fn as_stack(&self) -> Result<&LazyStack> {
        match &self.body {
            Body::Lazy(stack) => Ok(stack),
            Body::Dense(_) => Err(dense()),
        }
    }

    fn as_stack_mut(&mut self) -> Result<&mut LazyStack> {
        self.ensure_unlocked()?;
        match &mut self.body {
            Body::Lazy(stack) => Ok(stack),
            Body::Dense(_) => Err(dense()),
        }
    }

    /// Puts a tensordict at the end of a lazy stack.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    pub fn append(&mut self, member: TensorDict) -> Result<()> {
        self.extend([member])
    }

    /// Puts a tensordict into a lazy stack before the member at `index`, as Python's lists do: negative
    /// ones count from the end, those out of bounds are cut to them. A stack without members takes over
    /// the batch size and device of its first.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the batch size isn't the members' (any size will do where
    /// theirs is -1); a [device](Error::is_device) error; a [lock](Error::is_lock) error; a
    /// [key](Error::is_key) error for a dense tensordict, and if one of its dims has the name of the stack dim. The stack is then as before.
    pub fn insert(&mut self, index: i64, member: TensorDict) -> Result<()> {
        let stack = self.as_stack_mut()?;
        stack.admit(std::slice::from_ref(&member))?;
        let count = stack.members.len() as i64;
        let at = if index < 0 { index.saturating_add(count) } else { index }.clamp(0, count);
        stack.adopt(at as usize, vec![member]);
        Ok(())
    }

    /// Puts tensordicts at the end of a lazy stack, all or none.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert), for any of them.
    pub fn extend(&mut self, members: impl IntoIterator<Item = TensorDict>) -> Result<()> {
        let stack = self.as_stack_mut()?;
        let members: Vec<_> = members.into_iter().collect();
        stack.admit(&members)?;
        stack.adopt(stack.members.len(), members);
        Ok(())
    }

    /// Changes one member of a lazy stack: `edit` works on another handle on it, which takes the member's
    /// place if all went well. Negative positions count from the end.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut stack = TensorDict::lazy_stack([TensorDict::new([]), TensorDict::new([])], 0)?;
    /// stack.edit_member(1, |member| member.set("b", Tensor::from_slice(&[1.0f32, 1.0])))?;
    /// assert_eq!(stack.members()[1].tensor("b")?.size(), [2]);
    /// assert!(stack.get("b")?.is_none(), "member 0 lacks it");
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `edit` gives; an [index](Error::is_index) error outside the stack; what
    /// [`insert`](Self::insert) says of the changed member. The stack is then as before.
    pub fn edit_member<T>(&mut self, index: i64, edit: impl FnOnce(&mut TensorDict) -> Result<T>) -> Result<T> {
        let stack = self.as_stack_mut()?;
        let count = stack.members.len() as i64;
        let at = if index < 0 { index.saturating_add(count) } else { index };
        let member = usize::try_from(at).ok().and_then(|at| stack.members.get(at));
        let Some(member) = member else {
            return Err(Error::index(format!("member {index} is out of bounds for a stack of {count}")));
        };
        let mut edited = member.handle();
        let given = edit(&mut edited)?;
        if edited.batch_size() != member.batch_size() || edited.device() != member.device() {
            stack.admit(std::slice::from_ref(&edited))?;
        } else {
            ensure_other_names(stack.dim_name(), &edited)?;
        }
        stack.members[at as usize] = edited;
        Ok(given)
    }
}

impl LazyStack {
    /// Fails unless all of these could be members.
    fn admit(&self, newcomers: &[TensorDict]) -> Result<()> {
        let first = match (self.members.first(), newcomers.first()) {
            (Some(first), _) => first,
            (None, Some(first)) if first.batch_dims() == self.blank.batch_dims() || self.stack_dim == 0 => first,
            (None, Some(first)) => {
                return Err(Error::shape(format!(
                    "the batch sizes of tensordicts in a stack differ: it is for {} batch dims, the new member has {:?}",
                    self.blank.batch_dims(),
                    first.batch_size()
                )));
            }
            (None, None) => return Ok(()),
        };
        let sizes = first.batch_size();
        // Any size goes along a dim in which members differ already.
        let ragged = |dim: usize| self.members.iter().any(|member| member.batch_size().get(dim) != sizes.get(dim));
        let name = self.dim_name();
        for newcomer in newcomers {
            ensure_other_names(name, newcomer)?;
            if newcomer.device() != first.device() {
                return Err(Error::device(format!(
                    "Devices differ: the stack has {:?}, the new member {:?}",
                    first.device(),
                    newcomer.device()
                ))
                .remedy("move it with to(device) first"));
            }
            let theirs = newcomer.batch_size();
            let fits =
                theirs.len() == sizes.len() && (0..sizes.len()).all(|dim| theirs[dim] == sizes[dim] || ragged(dim));
            if !fits {
                let sizes = if self.members.is_empty() { sizes } else { self.member_batch_size() };
                return Err(Error::shape(format!(
                    "the batch sizes of tensordicts in a stack differ: the members have {sizes:?}, the new one has {theirs:?}"
                )));
            }
        }
        Ok(())
    }

    fn adopt(&mut self, at: usize, members: Vec<TensorDict>) {
        self.members.splice(at..at, members);
    }
}

/// Fails if a dim of a member to be has the name of the stack dim.
fn ensure_other_names(stack_dim: Option<&str>, newcomer: &TensorDict) -> Result<()> {
    match stack_dim {
        Some(name) if has_name(newcomer, name) => {
            Err(Error::key(format!("a dim of the new member is named '{name}', as the stack dim is"))
                .remedy("set_names gives it another name"))
        }
        _ => Ok(()),
    }
}

fn dense() -> Error {
    Error::key("a dense tensordict has no members").remedy("make a stack with TensorDict::lazy_stack")
}
