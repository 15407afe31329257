//! Leaf values beside `tch::Tensor`.

mod jagged;
mod non_tensor;
mod value;

pub use jagged::JaggedTensor;
pub use non_tensor::NonTensorStack;
pub use value::Value;
