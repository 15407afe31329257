//! Leaf values beside `tch::Tensor`.

mod fill;
mod jagged;
mod multi_nested;
mod non_tensor;
mod ragged;
mod value;

pub use fill::FillValue;
pub use jagged::{JaggedTensor, PaddingSide};
pub use multi_nested::{CellIndex, MultiNestedTensor};
pub use non_tensor::NonTensorStack;
pub use value::Value;
