//! Choosing elements by masks.

use tch::Tensor;

use super::TensorDict;
use super::apply::{Visit, keep};
use super::arithmetic::ensure_same_dims;
use super::operand::{Beside, Operand, Side, with_dims};
use crate::error::{Error, Result};
use crate::tensor::NonTensorStack;
use crate::tensor::Number;

impl TensorDict {
    /// Elements of this tensordict where `condition` is true, of the other where it is not. Non-tensor
    /// values are chosen as well, if the other is a tensordict; if not, they stay.
    ///
    /// `condition` is `bool`, and its shape is the batch size or its first dims: a lazy stack whose members
    /// differ in size can be chosen from by member.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2, 3, 4]).reshape([2, 2]))?;
    /// let chosen = td.where_self(&Tensor::from_slice(&[true, false]), 0)?;
    /// assert_eq!(Vec::<i64>::try_from(chosen.tensor("x")?.reshape(-1)).unwrap(), [1, 2, 0, 0]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if `condition` doesn't cover the batch size, and what
    /// [`add`](Self::add) says of the other.
    pub fn where_self<'a>(&self, condition: &Tensor, other: impl Into<Operand<'a>>) -> Result<TensorDict> {
        let batch_size = self.batch_size();
        let mut sides = vec![Side::covering(condition, &batch_size)?];
        let mut scalar = None;
        match other.into() {
            Operand::Number(number) => scalar = Some(number),
            Operand::Tensor(tensor) => sides.push(Side::broadcast(tensor, &batch_size)?),
            Operand::Dict(dict) => sides.push(Side::dict(dict, &batch_size)?),
        }
        let mut visit = Visit {
            tensor: &mut |_, tensor, others| {
                Ok(match (others, scalar) {
                    ([condition, other], _) => {
                        ensure_same_dims(tensor, other)?;
                        Some(tensor.f_where_self(condition, other)?)
                    }
                    ([condition], Some(number)) => Some(tensor.f_where_self(condition, &number.beside(tensor)?)?),
                    _ => None,
                })
            },
            non_tensor: &mut |values, others| match others {
                [Beside::Tensor(condition), Beside::NonTensor(other)] => {
                    choose(values, condition, other).map(|chosen| Some(chosen.into()))
                }
                _ => keep(values, others),
            },
            same_keys: true,
        };
        Ok(self.walk(&sides, &mut visit)?.unwrap_or_else(|| self.blank()))
    }

    /// The tensordict with `value` at all elements where `mask` is true. Dtypes and non-tensor values stay.
    ///
    /// `mask` is `bool`, and its shape is the batch size or its first dims.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if `mask` doesn't cover the batch size; an
    /// [overflow](Error::is_overflow) error, with the key, if a dtype of integers can't hold `value`.
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Number>) -> Result<TensorDict> {
        let value = value.into();
        let side = Side::covering(mask, &self.batch_size())?;
        let mut visit = Visit {
            tensor: &mut |_, tensor, others| {
                let [mask] = others else { return Ok(None) };
                Ok(Some(tensor.f_masked_fill_tensor(mask, &value.cast(tensor)?)?))
            },
            non_tensor: &mut keep,
            same_keys: false,
        };
        Ok(self.walk(&[side], &mut visit)?.unwrap_or_else(|| self.blank()))
    }

    /// As [`masked_fill`](Self::masked_fill), written into the tensors that there are.
    ///
    /// # Errors
    ///
    /// As [`masked_fill`](Self::masked_fill) and [`update_`](Self::update_); then nothing is written.
    pub fn masked_fill_(&mut self, mask: &Tensor, value: impl Into<Number>) -> Result<()> {
        let filled = self.masked_fill(mask, value)?;
        self.update_(&filled)
    }
}

/// The values where the condition, which covers the first batch dims, is true, else the other's.
fn choose(values: &NonTensorStack, condition: &Tensor, other: &NonTensorStack) -> Result<NonTensorStack> {
    if values.batch_size() != other.batch_size() {
        return Err(Error::shape(format!(
            "the batch sizes of the values differ: {:?} here, {:?} in the other tensordict",
            values.batch_size(),
            other.batch_size()
        )));
    }
    let condition = with_dims(&condition.f_to_device(tch::Device::Cpu)?, values.batch_size().len())?;
    let both = NonTensorStack::stack(&[values.clone(), other.clone()], 0)?;
    both.rearrange(|places| Ok(places.f_select(0, 0)?.f_where_self(&condition, &places.f_select(0, 1)?)?))
}
