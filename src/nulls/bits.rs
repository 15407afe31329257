//! Bits → bytes, 64 at a time.

use pulp::Arch;

/// Runs a loop that is compiled for wider vectors, too, where the machine has them.
///
/// Give it a closure that is always inlined and calls nothing that isn't; else the narrow code runs.
pub(super) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(work)
}

/// A byte for each bit, 0 or 1, lowest bit first.
///
/// Compilers make vector code of loops over bytes, not of loops over bits.
#[inline(always)]
pub(crate) fn unpack(word: u64) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (eight, bits) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(word.to_le_bytes()) {
        *eight = UNPACKED[usize::from(bits)];
    }
    bytes
}

/// The eight bytes of each byte of bits.
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
