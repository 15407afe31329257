//! Room around the batch.

use tch::Tensor;

use super::TensorDict;
use super::tensordict::Body;
use crate::error::{Error, Result};
use crate::tensor::Number;

impl TensorDict {
    /// The batch with `sizes[i]` more places before and after those of dim `i`, copied; dims without sizes stay. In
    /// the new places tensors hold `value`, cast to their dtype, jagged entries have rows without elements, and what
    /// is no tensor is null.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let td = TensorDict::from_entries([("x", Tensor::from_slice(&[1i64, 2]))])?.with_batch_size(&[2])?;
    /// let padded = td.pad(&[(1, 2)], -1)?;
    /// assert_eq!(Vec::<i64>::try_from(padded.tensor("x")?)?, [-1, 1, 2, -1, -1]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for more sizes than batch dims, negative ones, and places along the stack dim of
    /// a lazy stack whose members differ; an [overflow](Error::is_overflow) error for a value that a dtype can't hold.
    pub fn pad(&self, sizes: &[(i64, i64)], value: impl Into<Number>) -> Result<TensorDict> {
        let value = value.into();
        if sizes.len() > self.batch_dims() {
            return Err(Error::shape(format!("{} pairs of sizes for {} batch dims", sizes.len(), self.batch_dims())));
        }
        if let Some((before, after)) = sizes.iter().find(|(before, after)| *before < 0 || *after < 0) {
            return Err(Error::shape(format!("a dim can't be padded with {before} and {after} places"))
                .remedy("give 0 or more; narrow takes places away"));
        }
        let mut padded = self.shallow_clone();
        for (dim, (before, after)) in sizes.iter().enumerate().filter(|(_, places)| **places != (0, 0)) {
            padded = padded.pad_dim(dim, *before, *after, value)?;
        }
        Ok(padded)
    }

    fn pad_dim(&self, dim: usize, before: i64, after: i64, value: Number) -> Result<TensorDict> {
        if let Body::Lazy(stack) = &self.body {
            if dim != stack.stack_dim {
                let (within, _) = stack.around(dim);
                let members = stack.try_map(|member| member.pad_dim(within, before, after, value))?;
                return Ok(TensorDict::lazy(members));
            }
            let dense = self.contiguous().map_err(|error| {
                error.remedy("along the stack dim, members that differ can't be padded: append members instead")
            })?;
            return dense.pad_dim(dim, before, after, value);
        }
        // Once for all places: they are only written where all is put together.
        let fill = |like: &Tensor, sizes: &[i64]| Ok(value.cast(like)?.f_expand(sizes, false)?);
        let places = |count: i64| {
            let mut sizes = self.batch_size();
            sizes[dim] = count;
            self.refilled(&sizes, sizes.len(), &fill)
        };
        let parts = [places(before)?, self.shallow_clone(), places(after)?];
        let mut padded = TensorDict::cat(parts, dim as i64)?;
        padded.put_names(&self.shared_names());
        Ok(padded)
    }
}
