//! Names of batch dims.

use super::TensorDict;
use super::tensordict::Body;
use crate::error::{Error, Result};

impl TensorDict {
    /// The name of each batch dim, where it has one.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if the members of a lazy stack differ in the name of a dim, or only some have one:
    /// [`set_names`](Self::set_names) gives all of them the same.
    pub fn names(&self) -> Result<Vec<Option<String>>> {
        let Body::Lazy(stack) = &self.body else {
            return Ok(self.shared_names());
        };
        let named = |member: &TensorDict, at| member.names().map_err(|error| error.of_member(at, stack.stack_dim));
        let Some((first, rest)) = stack.members.split_first() else {
            return Ok(self.shared_names());
        };
        let names = named(first, 0)?;
        for (member, at) in rest.iter().zip(1..) {
            let theirs = named(member, at)?;
            if let Some(dim) = names.iter().zip(&theirs).position(|(name, theirs)| name != theirs) {
                let word =
                    |name: &Option<String>| name.as_ref().map_or("no name".to_owned(), |name| format!("'{name}'"));
                let found = format!(
                    "members disagree on the name of a dim: member 0 has {}, member {at} has {}",
                    word(&names[dim]),
                    word(&theirs[dim])
                );
                let place = if dim < stack.stack_dim { dim } else { dim + 1 };
                return Err(Error::key(found).at_dim(place).remedy("set_names gives all the same"));
            }
        }
        Ok(self.shared_names())
    }

    /// As [`names`](Self::names); a name that the members of a lazy stack don't share is nobody's.
    pub(super) fn shared_names(&self) -> Vec<Option<String>> {
        match &self.body {
            Body::Dense(dense) if dense.names.is_empty() => vec![None; dense.batch_size.len()],
            Body::Dense(dense) => dense.names.clone(),
            Body::Lazy(stack) => {
                let mut names = stack.members.first().unwrap_or(&stack.blank).shared_names();
                for member in stack.members.iter().skip(1) {
                    for (name, theirs) in names.iter_mut().zip(member.shared_names()) {
                        if *name != theirs {
                            *name = None;
                        }
                    }
                }
                names.insert(stack.stack_dim.min(names.len()), stack.dim_name().map(str::to_owned));
                names
            }
        }
    }

    /// Names the batch dims, one name or `None` per dim; nested dicts take the names of the dims they share. A
    /// dim of their own that has one of these names loses it.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for another number of names than of batch dims; a
    /// [key](Error::is_key) error for a name that is given twice.
    pub fn set_names<S: Into<String>>(&mut self, names: impl IntoIterator<Item = Option<S>>) -> Result<()> {
        let names: Vec<Option<String>> = names.into_iter().map(|name| name.map(Into::into)).collect();
        if names.len() != self.batch_dims() {
            return Err(Error::shape(format!("{} names for {} batch dims", names.len(), self.batch_dims())));
        }
        let mut seen = names.iter().flatten().collect::<Vec<_>>();
        seen.sort_unstable();
        if let Some(pair) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::key(format!("two batch dims can't both be named '{}'", pair[0])));
        }
        self.put_names(&names);
        Ok(())
    }

    /// `names` may be fewer than the batch dims; the others keep theirs.
    pub(super) fn put_names(&mut self, names: &[Option<String>]) {
        match &mut self.body {
            Body::Dense(dense) => {
                let mut all = std::mem::take(&mut dense.names);
                all.resize(dense.batch_size.len(), None);
                all[..names.len()].clone_from_slice(names);
                for own in &mut all[names.len()..] {
                    own.take_if(|own| names.iter().flatten().any(|name| name == own));
                }
                if all.iter().any(Option::is_some) {
                    dense.names = all;
                }
                for entry in dense.entries.values_mut() {
                    if let super::Entry::Dict(dict) = entry {
                        dict.put_names(names);
                    }
                }
            }
            Body::Lazy(stack) => {
                let mut names = names.to_vec();
                if stack.stack_dim < names.len() {
                    stack.stack_dim_name = names.remove(stack.stack_dim);
                }
                if stack.members.is_empty() {
                    stack.blank.put_names(&names);
                }
                stack.members.iter_mut().for_each(|member| member.put_names(&names));
            }
        }
    }
}
