//! The dtype in which numbers meet tensors.

use tch::Tensor;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Number;

impl Number {
    /// A tensor of no dims, in the dtype in which torch computes with `tensor` and a number.
    pub(super) fn beside(self, tensor: &Tensor) -> Result<Tensor> {
        let dtype = DType::from(tensor.f_kind()?);
        let dtype = match (self, dtype) {
            (Number::Int(_), DType::Bool) => DType::Int64,
            (Number::Float(_), DType::Bool) => DType::Float32,
            (Number::Float(_), DType::Uint8 | DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64) => {
                DType::Float32
            }
            (_, dtype) => dtype,
        };
        // To fill with -1 is a way to write 255, to add or compare it is none.
        if let (Number::Int(value @ ..0), DType::Uint8) = (self, dtype) {
            return Err(Error::overflow(format!("{dtype} can't hold {value}")).remedy("cast it with to_dtype"));
        }
        self.to_tensor(dtype.kind(), tensor.device())
    }

    /// A tensor of no dims, in the dtype of `tensor`: a float for integers loses what is after its point.
    pub(super) fn cast(self, tensor: &Tensor) -> Result<Tensor> {
        self.to_tensor(tensor.f_kind()?, tensor.device())
    }
}
