//! A tensor's memory as an Arrow buffer, without a copy where nobody can write to it any more.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use tch::{Device, Tensor};
use torch_sys::C_tensor;

use super::blob::{Blob, last_exception, scalar_type};
use crate::dtype::DType;
use crate::error::{Error, Result};

// The C interface that libtorch keeps stable: torch/csrc/stable/c/shim.h and the header that it includes,
// torch/csrc/inductor/aoti_torch/c/shim.h, of 2.13.0. Each writes its answer and returns 0 on success.
unsafe extern "C" {
    fn torch_get_const_data_ptr(tensor: *mut C_tensor, data: *mut *const c_void) -> i32;
    fn aoti_torch_get_layout(tensor: *mut C_tensor, layout: *mut i32) -> i32;
    fn aoti_torch_get_storage_size(tensor: *mut C_tensor, bytes: *mut i64) -> i32;
    fn aoti_torch_get_storage_offset(tensor: *mut C_tensor, elements: *mut i64) -> i32;
}

/// c10::Layout::Strided.
const STRIDED: i32 = 0;

/// Whether the elements lie at strides in one piece of memory: neither sparse, nor nested, nor a backend's own form.
///
/// # Errors
///
/// Only if libtorch fails.
pub(crate) fn is_strided(tensor: &Tensor) -> Result<bool> {
    Ok(tensor.defined() && ask(tensor, -1, aoti_torch_get_layout)? == STRIDED)
}

/// What one of the functions above says of a tensor; `empty` is any value of the answer's type.
fn ask<T>(tensor: &Tensor, empty: T, question: unsafe extern "C" fn(*mut C_tensor, *mut T) -> i32) -> Result<T> {
    let mut answer = empty;
    // SAFETY: `question` is one of the functions above. The handle is valid for as long as `tensor` is
    // borrowed, and only read; the answer goes to a place of the type that the header declares.
    match unsafe { question(tensor.as_ptr().cast_mut(), &mut answer) } {
        0 => Ok(answer),
        _ => Err(Error::from(tch::TchError::Torch(last_exception()))),
    }
}

/// The bytes of a contiguous CPU tensor.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Where they begin; null if there are none.
    start: *const u8,
    bytes: usize,
    /// Bytes before `start` in the same storage.
    before: usize,
    /// Bytes of the storage.
    held: usize,
    /// What an element's address must be a multiple of.
    alignment: usize,
    owner: Owner,
}

/// What keeps the memory.
enum Owner {
    Tensor(Tensor),
    /// The tensor is gone, others use its storage.
    Blob {
        _kept: Arc<Blob>,
    },
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Owner::Tensor(_) => "Tensor",
            Owner::Blob { .. } => "Blob",
        })
    }
}

impl Memory {
    /// The memory of `tensor`, which must be strided, contiguous, on the CPU and without `requires_grad`.
    ///
    /// # Errors
    ///
    /// It isn't such, its dtype has no Arrow form, or its storage is smaller than its shape says.
    pub(crate) fn of(tensor: Tensor, dtype: DType) -> Result<Memory> {
        let (_, size) = scalar_type(dtype)?;
        let fits = is_strided(&tensor)?
            && tensor.device() == Device::Cpu
            && tensor.is_contiguous()
            && tensor.f_kind()? == dtype.kind()
            && !tensor.requires_grad();
        if !fits {
            return Err(Error::shape(format!("only a contiguous {dtype} tensor on the CPU is an Arrow buffer")));
        }
        let numbers = tensor.size().iter().try_fold(size, |bytes, dim| bytes.checked_mul(usize::try_from(*dim).ok()?));
        let held = usize::try_from(ask(&tensor, 0, aoti_torch_get_storage_size)?).ok();
        let before = usize::try_from(ask(&tensor, 0, aoti_torch_get_storage_offset)?).ok();
        let before = before.and_then(|elements| elements.checked_mul(size));
        let (Some(bytes), Some(held), Some(before)) = (numbers, held, before) else {
            return Err(Error::shape(format!("{:?} is no shape of a tensor in memory", tensor.size())));
        };
        if bytes > 0 && before.checked_add(bytes).is_none_or(|end| end > held) {
            return Err(Error::shape(format!(
                "shape {:?} needs {bytes} bytes from byte {before} on, its storage has {held}",
                tensor.size()
            )));
        }
        // The pointer that is not for writing: the other kind would end the sharing of a copy-on-write storage.
        let start = ask(&tensor, ptr::null(), torch_get_const_data_ptr)?.cast::<u8>();
        if bytes > 0 && start.is_null() {
            return Err(Error::shape("the tensor has a shape but no memory"));
        }
        Ok(Memory { start, bytes, before, held, alignment: size, owner: Owner::Tensor(tensor) })
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it begins; null if it has no bytes.
    pub(super) fn start(&self) -> *const u8 {
        self.start
    }

    /// The length of the storage that it is a part of, which a view keeps alive.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The memory itself as a buffer, or the memory back if that can't be had without a copy.
    ///
    /// * Memory that Arrow allocated becomes Arrow's again, and the map of a file becomes Arrow's, if this was the last
    ///   tensor of its storage.
    /// * Memory that libtorch allocated becomes copy-on-write: whoever still has a tensor of the storage reads
    ///   the same memory, and writes to a copy.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub(crate) fn share(self) -> Result<Result<Buffer, Memory>> {
        if self.bytes == 0 {
            return Ok(Ok(Buffer::from(MutableBuffer::new(0))));
        }
        let Owner::Tensor(tensor) = self.owner else {
            return Ok(Err(self));
        };
        if !self.start.addr().is_multiple_of(self.alignment) {
            return Ok(Err(Memory { owner: Owner::Tensor(tensor), ..self }));
        }
        if let Some(blob) = Blob::at(self.start.addr() - self.before) {
            // If it was the last of its storage, libtorch calls the deleter now, and the blob is ours alone.
            drop(tensor);
            return Ok(match Arc::try_unwrap(blob) {
                Ok(blob) => Ok(blob.into_buffer().slice_with_length(self.before, self.bytes)),
                Err(blob) => Err(Memory { owner: Owner::Blob { _kept: blob }, ..self }),
            });
        }
        let Ok(frozen) = tensor.f_internal_lazy_clone() else {
            // A memory map of libtorch's, pinned memory, another library's: it has a deleter of its own.
            return Ok(Err(Memory { owner: Owner::Tensor(tensor), ..self }));
        };
        drop(tensor);
        let start = ask(&frozen, ptr::null(), torch_get_const_data_ptr)?.cast::<u8>();
        let Some(start) = NonNull::new(start.cast_mut()) else {
            return Err(Error::shape("a copy-on-write tensor has no memory"));
        };
        // SAFETY: "no guarantee that the given pointer is valid for `len` bytes" (from_custom_allocation, Arrow
        // 59.3): a contiguous tensor's elements are `bytes` bytes from its data pointer on, within its storage
        // (checked in `of`; a lazy clone has the same shape, offset and storage size), and initialised as far as
        // any tensor's. They live as long as `frozen`, which the buffer owns. They don't change: libtorch writes
        // only through mutable data pointers, and asking for one gives every other storage of the memory a copy
        // of its own first (c10/core/impl/COW.h: "Copies shared data on write"); for `frozen` itself nobody
        // asks, since `Frozen` shows it to nobody. Tests: `writes_to_others_are_not_seen`,
        // `outlives_its_tensor`, `no_write_reaches_a_view`.
        Ok(Ok(unsafe { Buffer::from_custom_allocation(start, self.bytes, Arc::new(Frozen { _tensor: frozen })) }))
    }

    /// A copy in memory that Arrow allocates.
    pub(crate) fn copy(&self) -> Buffer {
        let mut copy = MutableBuffer::with_capacity(self.bytes);
        if self.bytes > 0 {
            // SAFETY: `start` is valid for reads of `bytes` bytes (checked in `of`) while the owner, a tensor
            // or a blob, lives; the target is a new allocation of at least as many, so they don't overlap, and
            // after the copy so many of its bytes are initialised, which is all that `set_len` asks for. As with
            // every function of libtorch that reads a tensor, a program that writes to the storage on another
            // thread meanwhile has a race of its own. Tests: `copies`, `shared_blobs_are_given_back`.
            unsafe {
                ptr::copy_nonoverlapping(self.start, copy.as_mut_ptr(), self.bytes);
                copy.set_len(self.bytes);
            }
        }
        Buffer::from(copy)
    }
}

/// A copy-on-write tensor that a buffer owns.
struct Frozen {
    _tensor: Tensor,
}

// SAFETY: nothing can be done through `&Frozen`: its field is private to this file, and no code reads it. Dropping
// takes the whole value, once, on one thread, for which `Tensor` being `Send` suffices. libtorch counts the owners
// of copy-on-write memory atomically and under a lock (COWDeleter.h). Test: `dropped_on_another_thread`.
unsafe impl Sync for Frozen {}

#[cfg(test)]
mod tests {
    use tch::{IndexOp, Kind};

    use super::super::tensor_over;
    use super::*;

    fn memory(tensor: Tensor) -> Memory {
        let dtype = DType::from(tensor.kind());
        Memory::of(tensor, dtype).unwrap()
    }

    fn view(tensor: Tensor) -> Buffer {
        memory(tensor).share().unwrap().unwrap()
    }

    fn numbers() -> Tensor {
        Tensor::from_slice(&[1i64, 2, 3, 4])
    }

    fn blob() -> Tensor {
        tensor_over(MutableBuffer::from(vec![1i64, 2, 3, 4]), DType::Int64, &[4]).unwrap()
    }

    #[test]
    fn outlives_its_tensor() {
        let tensor = numbers();
        let address = tensor.data_ptr().addr();
        let buffer = view(tensor);
        assert_eq!(buffer.as_ptr().addr(), address);
        let part = buffer.slice(8);
        drop(buffer);
        assert_eq!(part.typed_data::<i64>(), [2, 3, 4]);
    }

    #[test]
    fn parts_of_a_storage() {
        let tensor = numbers();
        let part = memory(tensor.i(1..3));
        assert_eq!((part.bytes(), part.held(), part.before), (16, 32, 8));
        assert_eq!(part.share().unwrap().unwrap().typed_data::<i64>(), [2, 3]);
    }

    #[test]
    fn writes_to_others_are_not_seen() {
        let mut tensor = numbers();
        let row = tensor.i(1..);
        let buffer = view(tensor.shallow_clone());
        let _ = tensor.f_add_scalar_(10).unwrap();
        assert_eq!(buffer.typed_data::<i64>(), [1, 2, 3, 4]);
        // The tensors of the storage still see each other.
        assert_eq!(Vec::<i64>::try_from(row).unwrap(), [12, 13, 14]);
        assert_eq!(Vec::<i64>::try_from(tensor).unwrap(), [11, 12, 13, 14]);
    }

    /// Every way to write that has code of its own in libtorch.
    #[test]
    fn no_write_reaches_a_view() {
        let other = Tensor::from_slice(&[9.0f32, 8.0, 7.0, 6.0]);
        let at = Tensor::from_slice(&[0i64, 3]);
        let mask = Tensor::from_slice(&[true, false, true, false]);
        type Write = fn(&mut Tensor, &Tensor, &Tensor, &Tensor);
        let writes: [(&str, Write); 14] = [
            ("add", |t, o, _, _| drop(t.f_add_(o).unwrap())),
            ("zero", |t, _, _, _| drop(t.f_zero_().unwrap())),
            ("fill", |t, _, _, _| drop(t.f_fill_(5.0).unwrap())),
            ("copy", |t, o, _, _| t.copy_(o)),
            ("copy strided", |t, o, _, _| t.i(1..).copy_(&o.f_flip([0]).unwrap().i(..3))),
            ("copy dtype", |t, o, _, _| t.copy_(&o.to_kind(Kind::Double))),
            ("index_fill", |t, _, at, _| drop(t.f_index_fill_(0, at, 5.0).unwrap())),
            ("index_put", |t, o, at, _| drop(t.f_index_put_(&[Some(at)], &o.i(..2), false).unwrap())),
            ("scatter", |t, o, at, _| drop(t.f_scatter_(0, at, o).unwrap())),
            ("masked_fill", |t, _, _, mask| drop(t.f_masked_fill_(mask, 5.0).unwrap())),
            ("masked_scatter", |t, o, _, mask| drop(t.f_masked_scatter_(mask, o).unwrap())),
            ("random", |t, _, _, _| drop(t.f_uniform_(5.0, 6.0).unwrap())),
            ("out", |t, o, _, _| drop(o.f_mul_out(t, o).unwrap())),
            ("matmul out", |t, o, _, _| {
                let matrix = Tensor::eye(4, (Kind::Float, Device::Cpu));
                drop(matrix.f_mv_out(t, o).unwrap());
            }),
        ];
        for (name, write) in writes {
            let mut tensor = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]);
            let (first, second) = (view(tensor.shallow_clone()), view(tensor.shallow_clone()));
            write(&mut tensor, &other, &at, &mask);
            assert_ne!(Vec::<f32>::try_from(tensor).unwrap(), [1.0, 2.0, 3.0, 4.0], "{name} wrote");
            for buffer in [first, second] {
                assert_eq!(buffer.typed_data::<f32>(), [1.0, 2.0, 3.0, 4.0], "{name}");
            }
        }
    }

    #[test]
    fn blobs_become_arrows_again() {
        let tensor = blob();
        let address = tensor.data_ptr().addr();
        let buffer = view(tensor);
        assert_eq!(buffer.typed_data::<i64>(), [1, 2, 3, 4]);
        assert_eq!(buffer.into_mutable().unwrap().as_ptr().addr(), address);
        assert!(Blob::at(address).is_none());
        // Nothing but a part is left of it.
        let part = blob().i(2..);
        assert_eq!(view(part).typed_data::<i64>(), [3, 4]);
    }

    #[test]
    fn shared_blobs_are_given_back() {
        let tensor = blob();
        let address = tensor.data_ptr().addr();
        let mut row = tensor.i(1..);
        let kept = memory(tensor).share().unwrap().unwrap_err();
        let copy = kept.copy();
        let _ = row.f_add_scalar_(10).unwrap();
        assert_eq!(copy.typed_data::<i64>(), [1, 2, 3, 4]);
        // The memory is there for as long as either wants it.
        drop(row);
        assert_eq!(kept.copy().typed_data::<i64>(), [1, 12, 13, 14]);
        assert!(Blob::at(address).is_none());
        assert!(kept.share().unwrap().is_err());
    }

    #[test]
    fn one_of_many_threads_gets_a_blob() {
        for _ in 0..200 {
            let tensor = blob();
            let threads: Vec<_> = (0..4)
                .map(|_| tensor.shallow_clone())
                .map(|tensor| std::thread::spawn(move || memory(tensor).share().unwrap().map_err(|kept| kept.copy())))
                .collect();
            drop(tensor);
            let shared: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(shared.iter().filter(|shared| shared.is_ok()).count() <= 1);
            for buffer in shared {
                assert_eq!(buffer.unwrap_or_else(|copy| copy).typed_data::<i64>(), [1, 2, 3, 4]);
            }
        }
    }

    #[test]
    fn dropped_on_another_thread() {
        let mut tensor = numbers();
        let buffer = view(tensor.shallow_clone());
        let reader = buffer.clone();
        let thread = std::thread::spawn(move || {
            assert_eq!(reader.typed_data::<i64>(), [1, 2, 3, 4]);
            drop(reader);
        });
        drop(buffer);
        let _ = tensor.f_add_scalar_(1).unwrap();
        thread.join().unwrap();
        assert_eq!(Vec::<i64>::try_from(tensor).unwrap(), [2, 3, 4, 5]);
    }

    #[test]
    fn copies() {
        let tensor = numbers();
        let address = tensor.data_ptr().addr();
        let copy = memory(tensor).copy();
        assert_ne!(copy.as_ptr().addr(), address);
        assert_eq!(copy.typed_data::<i64>(), [1, 2, 3, 4]);
        assert!(memory(Tensor::zeros([0, 3], (Kind::Float, Device::Cpu))).copy().is_empty());
    }

    #[test]
    fn empty_tensors_need_no_memory() {
        assert!(view(Tensor::zeros([3, 0], (Kind::Float, Device::Cpu))).is_empty());
    }

    #[test]
    fn rejects_what_has_no_such_memory() {
        let refused = |tensor: Tensor, dtype| assert!(Memory::of(tensor, dtype).unwrap_err().is_shape());
        refused(numbers(), DType::Int32);
        refused(numbers().reshape([2, 2]).tr(), DType::Int64);
        refused(numbers().to_kind(Kind::Float).set_requires_grad(true), DType::Float32);
        let sparse = Tensor::eye(2, (Kind::Float, Device::Cpu)).to_sparse_sparse_dim(2);
        assert!(!is_strided(&sparse).unwrap());
        refused(sparse, DType::Float32);
        assert!(!is_strided(&Tensor::new()).unwrap());
    }

    #[test]
    fn unaligned_memory_is_not_shared() {
        let bytes = Tensor::zeros([17], (Kind::Uint8, Device::Cpu));
        // SAFETY: `bytes` lives longer than the tensor over 16 of its 17 bytes.
        let odd =
            unsafe { Tensor::from_blob(bytes.data_ptr().cast::<u8>().add(1), &[2], &[1], Kind::Int64, Device::Cpu) };
        assert_eq!(memory(odd).share().unwrap().unwrap_err().copy().typed_data::<i64>(), [0, 0]);
    }

    #[test]
    fn other_allocators_memory_is_not_shared() {
        let mut bytes = [1u8, 2];
        // SAFETY: `bytes` lives longer than the tensor.
        let foreign = unsafe { Tensor::from_blob(bytes.as_mut_ptr(), &[2], &[1], Kind::Uint8, Device::Cpu) };
        assert_eq!(memory(foreign).share().unwrap().unwrap_err().copy().as_slice(), [1, 2]);
    }
}
