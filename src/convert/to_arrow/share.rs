//! The copy rule of the way back: when a column is the tensor's memory itself.

use arrow::buffer::{BooleanBuffer, Buffer};
use tch::{Device, Tensor};

use crate::convert::is_small_part;
use crate::convert::receipt::{CopyReason, refuse};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ffi::{self, Memory};
use crate::options::CopyPolicy;

/// The elements in row-major order: the tensor's memory, or a copy.
pub(super) fn buffer(tensor: Tensor, dtype: DType, policy: CopyPolicy) -> Result<Buffer> {
    let laid_out = lay_out(tensor, policy)?;
    let memory = Memory::of(laid_out.tensor, dtype)?;
    if !laid_out.fresh {
        if policy == CopyPolicy::Always {
            return Ok(memory.copy());
        }
        if policy == CopyPolicy::Auto && is_small_part(memory.bytes(), memory.held()) {
            return Ok(memory.copy());
        }
    }
    match memory.share()? {
        Ok(buffer) => Ok(buffer),
        Err(_) if policy == CopyPolicy::Never => Err(refuse("other handles on the tensor's memory may write to it")),
        Err(kept) => Ok(kept.copy()),
    }
}

/// Booleans as bits.
pub(super) fn bits(tensor: Tensor, policy: CopyPolicy) -> Result<BooleanBuffer> {
    if policy == CopyPolicy::Never {
        return Err(refuse(CopyReason::Unpacked));
    }
    let bytes = buffer(tensor, DType::Bool, CopyPolicy::Auto)?;
    let bytes = bytes.as_slice();
    Ok(BooleanBuffer::collect_bool(bytes.len(), |at| bytes[at] != 0))
}

/// A tensor whose memory is as Arrow wants it.
struct LaidOut {
    tensor: Tensor,
    /// Whether it was written for this alone.
    fresh: bool,
}

fn lay_out(tensor: Tensor, policy: CopyPolicy) -> Result<LaidOut> {
    if !ffi::is_strided(&tensor)? {
        return Err(Error::schema(
            "its elements don't lie at strides: it is sparse, nested or of a backend's own layout",
        )
        .remedy("make it a dense tensor first: to_dense"));
    }
    let mut laid_out = LaidOut { tensor, fresh: false };
    if laid_out.tensor.requires_grad() {
        laid_out.tensor = laid_out.tensor.f_detach()?;
    }
    let device = laid_out.tensor.device();
    if device != Device::Cpu {
        laid_out.write(policy, format_args!("it is on {device:?}"), |tensor| tensor.f_to_device(Device::Cpu))?;
    }
    if laid_out.tensor.f_is_neg()? {
        laid_out.write(policy, "its numbers are negated when they are read", Tensor::f_resolve_neg)?;
    }
    if !laid_out.tensor.is_contiguous() {
        laid_out.write(policy, "its elements aren't contiguous", Tensor::f_contiguous)?;
    }
    Ok(laid_out)
}

impl LaidOut {
    fn write(
        &mut self,
        policy: CopyPolicy,
        reason: impl std::fmt::Display,
        write: impl FnOnce(&Tensor) -> Result<Tensor, tch::TchError>,
    ) -> Result<()> {
        if policy == CopyPolicy::Never {
            return Err(refuse(reason));
        }
        self.tensor = write(&self.tensor)?;
        self.fresh = true;
        Ok(())
    }
}
