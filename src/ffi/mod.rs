//! The only folder where unsafe code compiles.
//!
//! Who owns what, from Arrow to a tensor:
//!
//! ```text
//!  arrow MutableBuffer ──moved into──► Blob ──its address is──► context of a libtorch storage
//!  or private map of a file            ▲                        │  shared by every view of the tensor
//!                                      │                        ▼
//!               known by its address ──┘      last tensor of the storage dropped ──► deleter drops the Blob
//! ```
//!
//! A `MutableBuffer` owns its allocation alone by its type, a private map its pages, so no safe code can reach the
//! memory but through the tensor. That is why such a tensor may be written in place.
//!
//! And back, where the memory of a tensor becomes an Arrow buffer, which must never change:
//!
//! ```text
//!  a Blob's storage ──our handle dropped──► was it the last? ──► the MutableBuffer again, Arrow's own
//!                                                    └─ no ────► a copy; the others go on writing to theirs
//!
//!  libtorch's own ──made copy-on-write──► Frozen ──owned by──► arrow Buffer
//!  storage                  └─ who else has a tensor of it gets a copy of their own before they write
//! ```
//!
//! 1. Nobody can count a storage's handles from outside libtorch, so the question is put another way: the
//!    deleter of a Blob runs when its last tensor goes, and only then does the Blob have a single owner.
//! 2. Memory that libtorch allocated is not asked for alone but frozen: `_lazy_clone` gives a second storage of
//!    the same memory, after which libtorch writes for neither without a copy first. `Frozen` is the second
//!    storage, and shows itself to nobody.
//! 3. What has another deleter (pinned memory, other libraries) can't be frozen and is copied.
//!
//! libtorch leaves it to its callers that a storage isn't used on one thread while another changes it, and making
//! it copy-on-write is such a change. tch doesn't enforce that: a `Tensor` can be cloned and sent elsewhere, and
//! written there. A program that uses a tensor's clone on another thread *while* it is being converted has the
//! race that it would have with `resize_`. Once the conversion is done, any thread may use what it likes.
//!
//! Nothing changes hands where rows of tensors are copied into a new one (`runs`): it reads bytes that are
//! checked to be there as for an Arrow buffer, and writes to the new one before anybody else has a handle on it.

mod blob;
#[cfg(feature = "polars")]
mod c_data;
#[cfg(feature = "polars")]
mod c_types;
mod export;
mod runs;

pub(crate) use blob::{tensor_mapped, tensor_over};
#[cfg(feature = "polars")]
pub(crate) use c_data::{
    from_polars_array, from_polars_numbers, from_polars_validity, to_polars_array, to_polars_validity,
};
#[cfg(feature = "polars")]
pub(crate) use c_types::{arrow_field, polars_field};
pub(crate) use export::{Memory, is_strided};
pub(crate) use runs::{Run, copy_runs};
