//! Arithmetic on every leaf.

use tch::{Scalar, TchError, Tensor};

use super::apply::{Visit, keep};
use super::operand::{Beside, Number, Operand, Side};
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::tensor::NonTensorStack;

/// An operation on two tensors.
pub(super) type OfTensors = fn(&Tensor, &Tensor) -> Result<Tensor, TchError>;
/// The same operation on a tensor and a number.
pub(super) type OfNumber = fn(&Tensor, Scalar) -> Result<Tensor, TchError>;

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident: $tensors:ident, $number:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// As [`add`](Self::add).
        pub fn $name<'a>(&self, other: impl Into<Operand<'a>>) -> Result<TensorDict> {
            self.arithmetic(other.into(), Tensor::$tensors, Tensor::$number)
        }
    )*};
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident: $function:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// libtorch's, with the key: the dtype has no such operation.
        pub fn $name(&self) -> Result<TensorDict> {
            self.each(Tensor::$function)
        }
    )*};
}

/// # Arithmetic
///
/// Every tensor and the values of every jagged tensor, at any depth, of each member of a lazy stack; non-tensor
/// values stay as they are. Dtypes follow torch's rules. The result is locked if the tensordict is.
impl TensorDict {
    /// The sum.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("x", Tensor::from_slice(&[1i64, 2, 3, 4]).reshape([2, 2]))?;
    /// let per_row = Tensor::from_slice(&[10i64, 20]);
    /// let sum = td.add(&per_row)?.add(&td)?.add(1)?;
    /// assert_eq!(Vec::<i64>::try_from(sum.tensor("x")?.reshape(-1)).unwrap(), [13, 15, 27, 29]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if a tensor can't be broadcast to the batch size, a tensordict has
    /// another one, or two jagged tensors' rows differ in length; a [key](Error::is_key) error unless both
    /// tensordicts have the same keys; libtorch's own, with the key.
    pub fn add<'a>(&self, other: impl Into<Operand<'a>>) -> Result<TensorDict> {
        self.arithmetic(other.into(), Tensor::f_add, Tensor::f_add_scalar)
    }

    binary! {
        /// The difference.
        sub: f_sub, f_sub_scalar;
        /// The product.
        mul: f_mul, f_mul_scalar;
        /// The quotient, a float.
        div: f_div, f_div_scalar;
        /// This to the power of the other.
        pow: f_pow, f_pow_tensor_scalar;
        /// What is left of a division, with the sign of the divisor.
        remainder: f_remainder_tensor, f_remainder;
        /// The larger of the two.
        maximum: f_maximum, f_clamp_min;
        /// The smaller of the two.
        minimum: f_minimum, f_clamp_max;
        /// Bits, or booleans, that are set in both.
        bitwise_and: f_bitwise_and_tensor, f_bitwise_and;
        /// Bits, or booleans, that are set in either.
        bitwise_or: f_bitwise_or_tensor, f_bitwise_or;
        /// Bits, or booleans, that are set in one alone.
        bitwise_xor: f_bitwise_xor_tensor, f_bitwise_xor;
    }

    unary! {
        /// The negative.
        neg: f_neg;
        /// The absolute value.
        abs: f_abs;
        /// The sign: -1, 0 or 1.
        sign: f_sign;
        /// The square root.
        sqrt: f_sqrt;
        /// One divided by the square root.
        rsqrt: f_rsqrt;
        /// The square.
        square: f_square;
        /// One divided by it.
        reciprocal: f_reciprocal;
        /// e to its power.
        exp: f_exp;
        /// e to its power, minus 1.
        expm1: f_expm1;
        /// The natural logarithm.
        log: f_log;
        /// The logarithm to base 2.
        log2: f_log2;
        /// The logarithm to base 10.
        log10: f_log10;
        /// The natural logarithm of it plus 1.
        log1p: f_log1p;
        /// The sine.
        sin: f_sin;
        /// The cosine.
        cos: f_cos;
        /// The tangent.
        tan: f_tan;
        /// The arc sine.
        asin: f_asin;
        /// The arc cosine.
        acos: f_acos;
        /// The arc tangent.
        atan: f_atan;
        /// The hyperbolic sine.
        sinh: f_sinh;
        /// The hyperbolic cosine.
        cosh: f_cosh;
        /// The hyperbolic tangent.
        tanh: f_tanh;
        /// The logistic function.
        sigmoid: f_sigmoid;
        /// The error function.
        erf: f_erf;
        /// One minus the error function.
        erfc: f_erfc;
        /// The logarithm of the absolute value of the gamma function.
        lgamma: f_lgamma;
        /// The integer below.
        floor: f_floor;
        /// The integer above.
        ceil: f_ceil;
        /// The nearest integer, the even one of two.
        round: f_round;
        /// The integer towards 0.
        trunc: f_trunc;
        /// What is after the point.
        frac: f_frac;
        /// Bits, or booleans, turned over.
        bitwise_not: f_bitwise_not;
        /// Whether it is 0 or false: `bool`.
        logical_not: f_logical_not;
        /// Whether it is no number: `bool`.
        isnan: f_isnan;
        /// Whether it is infinite: `bool`.
        isinf: f_isinf;
        /// Whether it is a number and not infinite: `bool`.
        isfinite: f_isfinite;
    }

    /// Numbers below `min` become `min`, those above `max` become `max`.
    ///
    /// # Errors
    ///
    /// libtorch's, with the key: booleans can't be clamped.
    pub fn clamp(&self, min: impl Into<Number>, max: impl Into<Number>) -> Result<TensorDict> {
        let (min, max) = (min.into(), max.into());
        self.each(|tensor| tensor.f_clamp::<Scalar>(min.into(), max.into()))
    }

    fn each(&self, function: impl Fn(&Tensor) -> Result<Tensor, TchError>) -> Result<TensorDict> {
        Ok(self.apply(|tensor| Ok(function(tensor)?))?.locked_as(self))
    }

    fn arithmetic(&self, other: Operand<'_>, tensors: OfTensors, number: OfNumber) -> Result<TensorDict> {
        Ok(self.operate(other, tensors, number, &mut keep)?.locked_as(self))
    }

    /// One of two functions on every leaf: that on tensors, or that on a number.
    pub(super) fn operate(
        &self,
        other: Operand<'_>,
        tensors: OfTensors,
        number: OfNumber,
        non_tensor: &mut dyn FnMut(&NonTensorStack, &[Beside]) -> Result<Option<Entry>>,
    ) -> Result<TensorDict> {
        let (side, scalar) = match other {
            Operand::Number(number) => (None, Some(number)),
            Operand::Tensor(tensor) => (Some(Side::broadcast(tensor, &self.batch_size())?), None),
            Operand::Dict(dict) => (Some(Side::dict(dict, &self.batch_size())?), None),
        };
        let mut tensor = |_: &NestedKey, tensor: &Tensor, others: &[Tensor]| match (others, scalar) {
            ([other], _) => {
                ensure_same_dims(tensor, other)?;
                Ok(Some(tensors(tensor, other)?))
            }
            (_, Some(scalar)) => Ok(Some(number(tensor, scalar.into())?)),
            _ => Ok(None),
        };
        let mut visit = Visit { tensor: &mut tensor, non_tensor, same_keys: true };
        Ok(self.walk(side.as_slice(), &mut visit)?.unwrap_or_else(|| self.blank()))
    }

    fn locked_as(self, other: &TensorDict) -> TensorDict {
        if other.is_locked() { self.locked() } else { self }
    }
}

/// Fails if torch would put the dims of two entries together from the end, across batch dims.
pub(super) fn ensure_same_dims(tensor: &Tensor, other: &Tensor) -> Result<()> {
    if tensor.dim() == other.dim() {
        return Ok(());
    }
    Err(Error::shape(format!(
        "the entries have different numbers of dims: shape {:?} here, {:?} in the other tensordict",
        tensor.size(),
        other.size()
    )))
}
