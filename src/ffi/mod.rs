//! The only folder where unsafe code compiles.
//!
//! Who owns what:
//!
//! ```text
//!  arrow MutableBuffer ──moved into──► Box ──its address is──► context of a libtorch storage
//!  (sole owner, writable)                                       │  shared by every view of the tensor
//!                                                               ▼
//!                                   last tensor of the storage dropped ──► deleter drops the Box
//! ```
//!
//! A `MutableBuffer` owns its allocation alone by its type, so no safe code can reach the memory but
//! through the tensor. That is why a tensor over Arrow memory may be written in place.

mod blob;

pub(crate) use blob::tensor_over;
