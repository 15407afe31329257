//! Bits → bytes.

use arrow::buffer::{BooleanBuffer, MutableBuffer};
use tch::Tensor;

use super::Wrap;
use crate::dtype::DType;
use crate::error::Result;
use crate::ffi;
use crate::nulls;

/// Bits of all chunks, one after the other, as a boolean tensor of `shape`.
pub(super) fn unpack(chunks: &[BooleanBuffer], shape: &[i64], wrap: &mut Wrap) -> Result<Tensor> {
    let total = chunks.iter().map(BooleanBuffer::len).sum();
    wrap.copied(total);
    let mut bytes: Vec<u8> = Vec::with_capacity(total);
    for chunk in chunks {
        // Whole 64-bit words, shifted to start at the chunk's first bit.
        let words = chunk.bit_chunks();
        for word in words.iter() {
            bytes.extend_from_slice(&nulls::unpack(word));
        }
        bytes.extend_from_slice(&nulls::unpack(words.remainder_bits())[..words.remainder_len()]);
    }
    ffi::tensor_over(MutableBuffer::from(bytes), DType::Bool, shape)
}
