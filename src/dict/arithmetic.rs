//! Arithmetic on every leaf.

use tch::{TchError, Tensor};

use super::TensorDict;
use super::apply::{OnNonTensor, Visit, keep};
use super::operand::{Operand, Side};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::tensor::Number;

/// An operation on two tensors.
pub(super) type OfTensors = fn(&Tensor, &Tensor) -> Result<Tensor, TchError>;

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident: $function:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// As [`add`](Self::add).
        pub fn $name<'a>(&self, other: impl Into<Operand<'a>>) -> Result<TensorDict> {
            self.arithmetic(other.into(), Tensor::$function)
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
    /// tensordicts have the same keys; an [overflow](Error::is_overflow) error for an integer that a tensor
    /// of integers can't hold; libtorch's own, with the key.
    pub fn add<'a>(&self, other: impl Into<Operand<'a>>) -> Result<TensorDict> {
        self.arithmetic(other.into(), Tensor::f_add)
    }

    binary! {
        /// The difference.
        sub: f_sub;
        /// The product.
        mul: f_mul;
        /// The quotient, a float.
        div: f_div;
        /// This to the power of the other.
        pow: f_pow;
        /// What is left of a division, with the sign of the divisor.
        remainder: f_remainder_tensor;
        /// The larger of the two.
        maximum: f_maximum;
        /// The smaller of the two.
        minimum: f_minimum;
        /// Bits, or booleans, that are set in both.
        bitwise_and: f_bitwise_and_tensor;
        /// Bits, or booleans, that are set in either.
        bitwise_or: f_bitwise_or_tensor;
        /// Bits, or booleans, that are set in one alone.
        bitwise_xor: f_bitwise_xor_tensor;
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
    /// As [`add`](Self::add) for a number.
    pub fn clamp(&self, min: impl Into<Number>, max: impl Into<Number>) -> Result<TensorDict> {
        self.maximum(min.into())?.minimum(max.into())
    }

    fn each(&self, function: impl Fn(&Tensor) -> Result<Tensor, TchError>) -> Result<TensorDict> {
        Ok(self.apply(|tensor| Ok(function(tensor)?))?.locked_as(self))
    }

    fn arithmetic(&self, other: Operand<'_>, function: OfTensors) -> Result<TensorDict> {
        Ok(self.operate(other, function, &mut keep)?.locked_as(self))
    }

    /// A function on every leaf and what the other side has for it.
    pub(super) fn operate(
        &self,
        other: Operand<'_>,
        function: OfTensors,
        non_tensor: &mut OnNonTensor<'_>,
    ) -> Result<TensorDict> {
        let (side, number) = match other {
            Operand::Number(number) => (None, Some(number)),
            Operand::Tensor(tensor) => (Some(Side::broadcast(tensor, &self.batch_size())?), None),
            Operand::Dict(dict) => (Some(Side::dict(dict, &self.batch_size())?), None),
        };
        let mut tensor = |_: &NestedKey, tensor: &Tensor, others: &[Tensor]| match (others, number) {
            ([other], _) => {
                ensure_same_dims(tensor, other)?;
                Ok(Some(function(tensor, other)?))
            }
            (_, Some(number)) => Ok(Some(function(tensor, &number.beside(tensor)?)?)),
            _ => Ok(None),
        };
        let mut visit = Visit { tensor: &mut tensor, non_tensor, same_keys: true };
        Ok(self.walk(side.as_slice(), &mut visit)?.unwrap_or_else(|| self.blank()))
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
