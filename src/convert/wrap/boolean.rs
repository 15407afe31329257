//! Bits → bytes.

use arrow::buffer::{BooleanBuffer, MutableBuffer};
use tch::Tensor;

use super::Wrap;
use crate::dtype::DType;
use crate::error::Result;
use crate::ffi;

/// Bits of all chunks, one after the other, as a boolean tensor of `shape`.
pub(super) fn unpack(chunks: &[BooleanBuffer], shape: &[i64], wrap: &mut Wrap) -> Result<Tensor> {
    let total = chunks.iter().map(BooleanBuffer::len).sum();
    wrap.copied(total);
    let mut bytes: Vec<u8> = Vec::with_capacity(total);
    for chunk in chunks {
        // Whole 64-bit words, shifted to start at the chunk's first bit.
        let words = chunk.bit_chunks();
        for word in words.iter() {
            word.to_le_bytes().iter().for_each(|bits| bytes.extend_from_slice(&UNPACKED[usize::from(*bits)]));
        }
        let rest = words.remainder_bits();
        bytes.extend((0..words.remainder_len()).map(|bit| (rest >> bit & 1) as u8));
    }
    ffi::tensor_over(MutableBuffer::from(bytes), DType::Bool, shape)
}

/// The eight bytes of each byte of bits, lowest bit first.
static UNPACKED: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[bits][bit] = (bits >> bit & 1) as u8;
            bit += 1;
        }
        bits += 1;
    }
    table
};
