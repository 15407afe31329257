//! Rows added at the ends of batch dims.

use tch::{Kind, Tensor};

use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::tensor::{JaggedTensor, NonTensorStack, Number};

impl TensorDict {
    /// The batch with `amounts[i].0` rows more before and `amounts[i].1` after along dim `i`: of `value`, cast to the
    /// dtype; of nulls, where entries are no tensors; empty ones of jagged entries. Dims without amounts stay. A lazy
    /// stack is made [dense](Self::contiguous) first.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2]))?;
    /// assert_eq!(Vec::<i64>::try_from(td.pad(&[(1, 2)], -1)?.tensor("x")?)?, [-1, 1, 2, -1, -1]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error for more amounts than batch dims or a negative one, and for a lazy stack whose
    /// members differ; an [overflow](Error::is_overflow) error, with the key, if a dtype can't hold `value`.
    pub fn pad(&self, amounts: &[(i64, i64)], value: impl Into<Number>) -> Result<TensorDict> {
        let sizes = self.batch_size();
        if amounts.len() > sizes.len() || amounts.iter().any(|(before, after)| *before < 0 || *after < 0) {
            return Err(Error::shape(format!("a batch size of {sizes:?} can't be padded by {amounts:?}")));
        }
        self.padded(amounts, value.into())
    }

    fn padded(&self, amounts: &[(i64, i64)], value: Number) -> Result<TensorDict> {
        let Body::Dense(dense) = &self.body else {
            return self.contiguous()?.padded(amounts, value);
        };
        let mut padded = dense.try_map(|_, entry| pad_entry(entry, amounts, value).map(Some))?;
        for (size, (before, after)) in padded.batch_size.iter_mut().zip(amounts) {
            let grown = size.checked_add(*before).and_then(|size| size.checked_add(*after));
            *size = grown.ok_or_else(|| Error::shape("more rows than can be counted"))?;
        }
        Ok(TensorDict::dense(padded))
    }
}

fn pad_entry(entry: &Entry, amounts: &[(i64, i64)], value: Number) -> Result<Entry> {
    match entry {
        Entry::Dict(dict) => dict.padded(amounts, value).map(Entry::Dict),
        Entry::Tensor(tensor) => {
            let value = value.cast(tensor)?;
            let fill = |sizes: Vec<i64>| Ok(value.f_expand(sizes, false)?);
            around(tensor.shallow_clone(), amounts, Tensor::size, fill, |parts, dim| {
                Ok(Tensor::f_cat(parts, dim as i64)?)
            })
            .map(Entry::Tensor)
        }
        Entry::NonTensor(values) => {
            let fill = |sizes: Vec<i64>| values.nulls(&sizes);
            around(values.clone(), amounts, |part| part.batch_size().to_vec(), fill, NonTensorStack::cat)
                .map(Entry::NonTensor)
        }
        Entry::Jagged(jagged) => {
            let empty = |sizes: Vec<i64>| {
                let rows = sizes.first().copied().unwrap_or_default().saturating_add(1);
                let offsets = Tensor::f_zeros([rows], (Kind::Int64, jagged.device()))?;
                JaggedTensor::try_new(jagged.values().f_narrow(0, 0, 0)?, offsets)
            };
            let join = |parts: &[JaggedTensor], _| JaggedTensor::cat(&parts.iter().collect::<Vec<_>>());
            around(jagged.shallow_clone(), amounts, JaggedTensor::shape, empty, join).map(Entry::Jagged)
        }
    }
}

/// The whole between filled parts, dim by dim.
fn around<T>(
    mut whole: T,
    amounts: &[(i64, i64)],
    sizes: impl Fn(&T) -> Vec<i64>,
    fill: impl Fn(Vec<i64>) -> Result<T>,
    join: impl Fn(&[T], usize) -> Result<T>,
) -> Result<T> {
    for (dim, (before, after)) in amounts.iter().enumerate() {
        let part = |amount: i64| {
            let mut sizes = sizes(&whole);
            sizes[dim] = amount;
            fill(sizes)
        };
        if *before > 0 || *after > 0 {
            let (before, after) = (part(*before)?, part(*after)?);
            whole = join(&[before, whole, after], dim)?;
        }
    }
    Ok(whole)
}
