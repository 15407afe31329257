//! What a write to a tensor reaches.

use tch::Tensor;

use crate::error::{Error, Result};
use crate::ffi;

/// Fails where a write to one element may reach another, and for zeros that libtorch keeps no memory for.
pub(crate) fn ensure_apart(tensor: &Tensor) -> Result<()> {
    if tensor.f_internal_is_zerotensor()? {
        return Err(Error::shape("the tensor is zeros that libtorch keeps no memory for").remedy("write into a copy"));
    }
    if !ffi::is_strided(tensor)? || tensor.numel() < 2 {
        return Ok(());
    }
    let mut dims: Vec<(i64, i64)> =
        tensor.stride().into_iter().zip(tensor.size()).filter(|(_, size)| *size > 1).collect();
    dims.sort_unstable();
    // How far the dims so far reach from an element: a step of the next one must go further.
    let mut reach = 0i64;
    for (stride, size) in dims {
        if stride <= reach {
            return Err(Error::shape("elements of the tensor share memory, as of an expanded or unfolded one")
                .remedy("write into a deep_clone"));
        }
        reach = reach.saturating_add(stride.saturating_mul(size - 1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn elements_that_share_memory() {
        let base = Tensor::arange(24, (Kind::Int64, Device::Cpu)).reshape([2, 3, 4]);
        let apart = [
            base.shallow_clone(),
            base.permute([2, 0, 1]),
            base.slice(2, 0, 4, 2),
            base.narrow(1, 0, 1).expand([2, 1, 4], false),
            base.reshape([24]).unfold(0, 3, 3),
            base.get(0).get(0).get(0),
            base.narrow(0, 0, 0).expand([0, 3, 4], false),
            base.get(0).get(0).narrow(0, 0, 1).expand([1, 1, 1], false),
        ];
        assert!(apart.iter().all(|tensor| ensure_apart(tensor).is_ok()));
        let shared = [
            base.get(0).get(0).get(0).expand([2], false),
            base.narrow(1, 0, 1).expand([2, 3, 4], false),
            base.reshape([24]).unfold(0, 3, 2),
            base.as_strided([2, 2], [1, 1], 0),
        ];
        assert!(shared.iter().all(|tensor| ensure_apart(tensor).is_err()));
    }
}
