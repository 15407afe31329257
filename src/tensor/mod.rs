//! Leaf values beside `tch::Tensor`.

mod jagged;
mod memory;
mod multi_nested;
mod non_tensor;
mod number;
mod ragged;
mod value;

pub use jagged::{JaggedTensor, PaddingSide};
pub(crate) use jagged::{pad_rows, strided_nested};
pub(crate) use memory::ensure_apart;
pub use multi_nested::{CellIndex, MultiNestedTensor};
pub use non_tensor::NonTensorStack;
pub use number::Number;
pub(crate) use ragged::{promoted, select};
pub use value::Value;
