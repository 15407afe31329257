//! Reading the entries of members that differ.

use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::Result;
use crate::key::NestedKey;

impl TensorDict {
    /// The shape of an entry without stacking anything: -1 where the members of a lazy stack differ, and
    /// `[-1]` where they differ in their number of dims.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut members = [TensorDict::new([]), TensorDict::new([])];
    /// members[0].set("a", Tensor::from_slice(&[0.0f32; 3]))?;
    /// members[1].set("a", Tensor::from_slice(&[0.0f32; 4]))?;
    /// let stack = TensorDict::lazy_stack(members, 0)?;
    /// assert_eq!(stack.item_shape("a")?, [2, -1]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [key](crate::Error::is_key) error if there is no entry, or some member has none.
    pub fn item_shape(&self, key: impl Into<NestedKey>) -> Result<Vec<i64>> {
        let key = key.into();
        self.shape_at(key.names()).ok_or_else(|| self.missing(&key))
    }

    fn shape_at(&self, names: &[String]) -> Option<Vec<i64>> {
        match &self.body {
            Body::Dense(dense) => match names {
                [] => None,
                [name] => dense.entries.get(name).map(Entry::shape),
                [name, below @ ..] => dense.entries.get(name)?.as_dict()?.shape_at(below),
            },
            Body::Lazy(stack) => {
                let mut shapes = stack.members.iter().map(|member| member.shape_at(names));
                let mut shape = shapes.next()??;
                for theirs in shapes {
                    let theirs = theirs?;
                    if theirs.len() != shape.len() {
                        return Some(vec![-1]);
                    }
                    for (size, other) in shape.iter_mut().zip(theirs) {
                        if *size != other {
                            *size = -1;
                        }
                    }
                }
                shape.insert(stack.stack_dim.min(shape.len()), stack.members.len() as i64);
                Some(shape)
            }
        }
    }
}
