//! Each row of a jagged tensor as one element.

use tch::{Kind, Tensor};

use super::JaggedTensor;
use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::{Number, ragged};

/// # Rows as one element each
///
/// Gradients flow back to the values. What is to be left out of a row, [`filter`](Self::filter) takes away before.
impl JaggedTensor {
    /// The sum of each row: `[rows, …]`, 0 for an empty row. Floats keep their dtype and are summed in `float64`, integers
    /// and booleans give `int64`, as in torch.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn sum_rows(&self) -> Result<Tensor> {
        let kind = self.values.f_kind()?;
        let kind = if DType::from(kind).is_counted() { Kind::Int64 } else { kind };
        Ok(self.sums(wide(kind))?.f_to_kind(kind)?)
    }

    /// The mean of each row: `[rows, …]`, `empty` for an empty row. Floats keep their dtype, integers and booleans give
    /// `float32`; all are summed in `float64`.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::JaggedTensor;
    ///
    /// // What came before, of different lengths and with gaps.
    /// let delays = [vec![4.0f32, f32::NAN, 8.0], vec![], vec![f32::NAN]].map(|row| Tensor::from_slice(&row));
    /// let delays = JaggedTensor::from_rows(&delays)?;
    /// let known = delays.filter(&delays.values().f_isfinite()?)?;
    /// assert_eq!(Vec::<f32>::try_from(known.mean_rows(-1)?).unwrap(), [6.0, -1.0, -1.0]);
    /// assert_eq!(Vec::<f32>::try_from(known.max_rows(f64::NEG_INFINITY)?).unwrap()[0], 8.0);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An [overflow](crate::Error::is_overflow) error for an `empty` that the dtype can't hold.
    pub fn mean_rows(&self, empty: impl Into<Number>) -> Result<Tensor> {
        let kind = self.values.f_kind()?;
        let kind = if DType::from(kind).is_counted() { Kind::Float } else { kind };
        let empty = empty.into().to_tensor(kind, self.device())?;
        let lengths = self.per_row(&self.lengths()?)?;
        // Divided by 1, empty rows have no NaN in their gradients.
        let means = self.sums(wide(kind))?.f_div(&lengths.f_clamp_min(1i64)?)?.f_to_kind(kind)?;
        Ok(means.f_where_self(&lengths.f_to_kind(Kind::Bool)?, &empty)?)
    }

    /// The largest element of each row: `[rows, …]` of the same dtype, `empty` for an empty row. NaN is larger than all.
    /// The gradient of elements that are equally large is shared among them.
    ///
    /// # Errors
    ///
    /// An [overflow](crate::Error::is_overflow) error for an `empty` that the dtype can't hold; libtorch's for a dtype
    /// that has no order.
    pub fn max_rows(&self, empty: impl Into<Number>) -> Result<Tensor> {
        self.extreme(empty.into(), "amax")
    }

    /// As [`max_rows`](Self::max_rows), the smallest. NaN is smaller than all.
    ///
    /// # Errors
    ///
    /// As [`max_rows`](Self::max_rows).
    pub fn min_rows(&self, empty: impl Into<Number>) -> Result<Tensor> {
        self.extreme(empty.into(), "amin")
    }

    fn extreme(&self, empty: Number, reduce: &str) -> Result<Tensor> {
        let kind = self.values.f_kind()?;
        let ordered = if kind == Kind::Bool { Kind::Uint8 } else { kind };
        let values = self.values.f_to_kind(ordered)?;
        let empty = empty.to_tensor(kind, self.device())?.f_to_kind(ordered)?;
        let empty = empty.f_expand(self.reduced_shape(), false)?.f_contiguous()?;
        let rows = self.row_of_each()?;
        let trailing = vec![1i64; values.dim().saturating_sub(1)];
        let rows = rows.f_reshape([rows.size(), trailing].concat())?.f_expand(values.size(), false)?;
        Ok(empty.f_internal_scatter_reduce(0, &rows, &values, reduce, false)?.f_to_kind(kind)?)
    }

    /// The sum of each row, in this dtype.
    fn sums(&self, kind: Kind) -> Result<Tensor> {
        let values = self.values.f_to_kind(kind)?;
        let nothing = Tensor::f_zeros(self.reduced_shape(), (kind, self.device()))?;
        Ok(nothing.f_index_add(0, &self.row_of_each()?, &values)?)
    }

    /// `[rows, …]`.
    fn reduced_shape(&self) -> Vec<i64> {
        [&[self.num_rows()], &self.shape()[2..]].concat()
    }

    /// One number for each row, in as many dims as reduced rows have.
    fn per_row(&self, numbers: &Tensor) -> Result<Tensor> {
        let mut shape = vec![1; self.values.dim().max(1)];
        shape[0] = self.num_rows();
        Ok(numbers.f_reshape(shape)?)
    }

    /// The row that each value belongs to: `int64[total]`.
    fn row_of_each(&self) -> Result<Tensor> {
        Ok(Tensor::f_repeat_interleave(&ragged::lengths(&self.offsets)?, None)?)
    }
}

/// The dtype to sum numbers of a dtype in: libtorch adds one number of a row after the other, so that floats would lose
/// what is small beside the sum so far.
fn wide(kind: Kind) -> Kind {
    match kind {
        Kind::Half | Kind::BFloat16 | Kind::Float => Kind::Double,
        Kind::ComplexFloat => Kind::ComplexDouble,
        kind => kind,
    }
}
