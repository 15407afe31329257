//! Comparing tensordicts.

use tch::{Device, Kind, Tensor};

use super::apply::{OnNonTensor, Visit};
use super::arithmetic::OfTensors;
use super::operand::{Beside, Operand, Side};
use super::tensordict::Body;
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::tensor::NonTensorStack;

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident: $function:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// As [`eq_elements`](Self::eq_elements); a [key](Error::is_key) error at non-tensor values, which have
        /// no order.
        pub fn $name<'a>(&self, other: impl Into<Operand<'a>>) -> Result<TensorDict> {
            self.compared(other.into(), Tensor::$function, &mut no_order)
        }
    )*};
}

/// # Comparison
///
/// Element by element, each gives a tensordict of `bool` without names of dims.
impl TensorDict {
    /// Whether elements are equal. Non-tensor values give a `bool` tensor of their batch: compared with a
    /// tensordict's one by one, with a number or tensor never equal.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2]))?;
    /// assert_eq!(Vec::<bool>::try_from(td.eq_elements(2)?.tensor("x")?).unwrap(), [false, true]);
    /// assert!(td.eq_elements(&td)?.all()? && !td.eq_elements(2)?.all()? && td.ge_elements(2)?.any()?);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if a tensor can't be broadcast to the batch size, a tensordict has
    /// another one, or two jagged tensors' rows differ in length; a [key](Error::is_key) error unless both
    /// tensordicts have the same keys; an [overflow](Error::is_overflow) error for an integer that a tensor
    /// of integers can't hold; libtorch's own, with the key.
    pub fn eq_elements<'a>(&self, other: impl Into<Operand<'a>>) -> Result<TensorDict> {
        self.compared(other.into(), Tensor::f_eq_tensor, &mut |values, others| {
            equal_places(values, others).map(|equal| Some(equal.into()))
        })
    }

    /// Whether elements differ: the contrary of [`eq_elements`](Self::eq_elements).
    ///
    /// # Errors
    ///
    /// As [`eq_elements`](Self::eq_elements).
    pub fn ne_elements<'a>(&self, other: impl Into<Operand<'a>>) -> Result<TensorDict> {
        self.compared(other.into(), Tensor::f_ne_tensor, &mut |values, others| {
            Ok(Some(equal_places(values, others)?.f_logical_not()?.into()))
        })
    }

    orders! {
        /// Whether elements are below the other's.
        lt_elements: f_lt_tensor;
        /// Whether elements are below the other's or equal.
        le_elements: f_le_tensor;
        /// Whether elements are above the other's.
        gt_elements: f_gt_tensor;
        /// Whether elements are above the other's or equal.
        ge_elements: f_ge_tensor;
    }

    fn compared(
        &self,
        other: Operand<'_>,
        function: OfTensors,
        non_tensor: &mut OnNonTensor<'_>,
    ) -> Result<TensorDict> {
        let mut compared = self.operate(other, function, non_tensor)?;
        compared.put_names(&vec![None; compared.batch_dims()]);
        Ok(compared)
    }

    /// Whether every element of every tensor and jagged tensor is true, or not 0; also where there is none.
    /// Of a lazy stack, each member's. Non-tensor values don't count.
    ///
    /// # Errors
    ///
    /// libtorch's, with the key.
    pub fn all(&self) -> Result<bool> {
        let mut all = true;
        self.look(|_, tensor| {
            all = all && tensor.f_all()?.f_int64_value(&[])? != 0;
            Ok(())
        })?;
        Ok(all)
    }

    /// Whether any element of any tensor or jagged tensor is true, or not 0. Of a lazy stack, each member's.
    /// Non-tensor values don't count.
    ///
    /// # Errors
    ///
    /// libtorch's, with the key.
    pub fn any(&self) -> Result<bool> {
        let mut any = false;
        self.look(|_, tensor| {
            any = any || tensor.f_any()?.f_int64_value(&[])? != 0;
            Ok(())
        })?;
        Ok(any)
    }

    /// Whether all elements are near the other's: they differ by no more than `atol + rtol * |other|`.
    /// Non-tensor values must be equal. With `equal_nan`, NaN is near NaN.
    ///
    /// # Errors
    ///
    /// As [`eq_elements`](Self::eq_elements); a [shape](Error::is_shape) error for entries of different
    /// shapes; libtorch's, with the key, for those of different dtypes.
    pub fn allclose(&self, other: &TensorDict, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
        let side = Side::dict(other, &self.batch_size())?;
        let (mut tensors_near, mut values_equal) = (true, true);
        let mut visit = Visit {
            tensor: &mut |_, tensor, others| {
                let [other] = others else { return Ok(None) };
                if tensor.size() != other.size() {
                    return Err(Error::shape(format!(
                        "shapes differ: {:?} here, {:?} in the other tensordict",
                        tensor.size(),
                        other.size()
                    )));
                }
                tensors_near &= match (tensor.f_kind()?, other.f_kind()?) {
                    (Kind::Bool, Kind::Bool) => tensor.f_equal(other)?,
                    _ => tensor.f_allclose(other, rtol, atol, equal_nan)?,
                };
                Ok(None)
            },
            non_tensor: &mut |values, others| {
                values_equal &= equal_places(values, others)?.f_all()?.f_int64_value(&[])? != 0;
                Ok(None)
            },
            same_keys: true,
        };
        self.walk(&[side], &mut visit)?;
        Ok(tensors_near && values_equal)
    }

    /// Whether two tensordicts hold the same: batch size, keys, and at each key kind, dtype, shape, values
    /// and offsets. NaN is equal to nothing. A lazy stack equals the dense tensordict with its entries. The
    /// order of keys, names of dims, devices and locks don't count.
    ///
    /// # Errors
    ///
    /// libtorch's: a dtype that it can't compare.
    pub fn equal(&self, other: &TensorDict) -> Result<bool> {
        if self.batch_size() != other.batch_size() {
            return Ok(false);
        }
        let (dense, theirs) = match (&self.body, &other.body) {
            (Body::Lazy(stack), _) => {
                let pieces = other.unbind(stack.stack_dim as i64)?;
                return all_equal(stack.members.iter().zip(&pieces), |(member, piece)| member.equal(piece));
            }
            (Body::Dense(_), Body::Lazy(_)) => return other.equal(self),
            (Body::Dense(dense), Body::Dense(theirs)) => (dense, theirs),
        };
        if dense.entries.len() != theirs.entries.len() {
            return Ok(false);
        }
        all_equal(&dense.entries, |(name, entry)| match theirs.entries.get(name) {
            None => Ok(false),
            Some(other) => entries_equal(entry, other).map_err(|error| error.below(name)),
        })
    }
}

fn all_equal<T>(pairs: impl IntoIterator<Item = T>, equal: impl Fn(T) -> Result<bool>) -> Result<bool> {
    for pair in pairs {
        if !equal(pair)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn entries_equal(entry: &Entry, other: &Entry) -> Result<bool> {
    match (entry, other) {
        (Entry::Tensor(tensor), Entry::Tensor(other)) => tensors_equal(tensor, other),
        (Entry::Jagged(jagged), Entry::Jagged(other)) => {
            Ok(tensors_equal(jagged.offsets(), other.offsets())? && tensors_equal(jagged.values(), other.values())?)
        }
        (Entry::NonTensor(values), Entry::NonTensor(other)) => Ok(values.batch_size() == other.batch_size()
            && all_equal(0..values.values().len(), |at| Ok(values.value(at)? == other.value(at)?))?),
        (Entry::Dict(dict), Entry::Dict(other)) => dict.equal(other),
        _ => Ok(false),
    }
}

fn tensors_equal(tensor: &Tensor, other: &Tensor) -> Result<bool> {
    if tensor.f_kind()? != other.f_kind()? || tensor.size() != other.size() {
        return Ok(false);
    }
    Ok(tensor.f_equal(&other.f_to_device(tensor.device())?)?)
}

/// At each place of the batch, whether the value is the other's.
fn equal_places(values: &NonTensorStack, others: &[Beside]) -> Result<Tensor> {
    let [Beside::NonTensor(other)] = others else {
        return Ok(Tensor::f_zeros(values.batch_size(), (Kind::Bool, Device::Cpu))?);
    };
    if values.batch_size() != other.batch_size() {
        return Err(Error::shape(format!(
            "the batch sizes of the values differ: {:?} here, {:?} in the other tensordict",
            values.batch_size(),
            other.batch_size()
        )));
    }
    let equal = (0..values.values().len()).map(|at| Ok(values.value(at)? == other.value(at)?));
    let equal = equal.collect::<Result<Vec<bool>>>()?;
    Ok(Tensor::f_from_slice(&equal)?.f_view(values.batch_size())?)
}

fn no_order(_: &NonTensorStack, _: &[Beside]) -> Result<Option<Entry>> {
    Err(Error::key("non-tensor values have no order").remedy("leave them out with filter_non_tensor"))
}
