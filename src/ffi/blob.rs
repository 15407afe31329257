//! A tensor over memory that Arrow allocated or that is the map of a file, without a copy.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use arrow::buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use memmap2::{MmapMut, MmapOptions};
use tch::{Kind, Tensor};
use torch_sys::C_tensor;

use crate::dtype::DType;
use crate::error::{Error, Result};

// The C interface that libtorch keeps stable: torch/csrc/stable/c/shim.h of 2.13.0.
unsafe extern "C" {
    fn torch_from_blob(
        data: *mut c_void,
        ndim: i64,
        sizes: *const i64,
        strides: *const i64,
        storage_offset: i64,
        dtype: i32,
        device_type: i32,
        device_index: i32,
        tensor: *mut *mut C_tensor,
        layout: i32,
        opaque_metadata: *const u8,
        opaque_metadata_size: i64,
        deleter: extern "C" fn(data: *mut c_void, context: *mut c_void),
        deleter_context: *mut c_void,
    ) -> i32;
    fn torch_exception_get_what_without_backtrace() -> *const c_char;
}

// c10::DeviceType::CPU and c10::Layout::Strided, both 0 since they exist.
const CPU: i32 = 0;
const STRIDED: i32 = 0;
/// A `c10::Device` without an index, which is what a CPU is.
const NO_INDEX: i32 = -1;

/// Memory of which this is the sole owner, and which a libtorch storage uses.
pub(super) enum Blob {
    /// Arrow allocated it.
    Arrow(MutableBuffer),
    /// It is a map of a file; what is written to it stays in memory.
    Map(MmapMut),
}

impl Blob {
    fn address(&self) -> usize {
        match self {
            Blob::Arrow(buffer) => buffer.as_ptr().addr(),
            Blob::Map(map) => map.as_ptr().addr(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Blob::Arrow(buffer) => buffer.len(),
            Blob::Map(map) => map.len(),
        }
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Blob::Arrow(buffer) => buffer.as_mut_ptr(),
            Blob::Map(map) => map.as_mut_ptr(),
        }
    }

    /// The memory as Arrow's, without a copy.
    pub(super) fn into_buffer(self) -> Buffer {
        match self {
            Blob::Arrow(buffer) => Buffer::from(buffer),
            Blob::Map(map) => Buffer::from(Bytes::from_owner(map)),
        }
    }

    /// The blob whose memory begins at `address`, if a storage uses one.
    pub(super) fn at(address: usize) -> Option<Arc<Blob>> {
        blobs(address).get(&address)?.upgrade()
    }
}

type Blobs = HashMap<usize, Weak<Blob>, BuildHasherDefault<AddressHasher>>;

/// Each column of each batch is put in and taken out, on the threads of all partitions.
const SHARDS: usize = 16;

/// The blobs that storages use, by their address; of those, the ones that may begin at this one.
fn blobs(address: usize) -> MutexGuard<'static, Blobs> {
    static BLOBS: LazyLock<[Mutex<Blobs>; SHARDS]> = LazyLock::new(|| {
        [(); SHARDS].map(|()| Mutex::new(HashMap::with_capacity_and_hasher(64, BuildHasherDefault::new())))
    });
    // Large allocations begin at pages, small ones anywhere.
    let shard = ((address >> 12) ^ (address >> 6)) % SHARDS;
    // A map whose lock's holder panicked is whole: inserting and removing don't panic halfway.
    BLOBS[shard].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Addresses differ in their middle bits; one multiplication spreads them.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        let spread = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A contiguous CPU tensor over `buffer`, which it owns from here on.
///
/// # Errors
///
/// The shape needs more bytes than the buffer holds, or its element count or bytes overflow; the
/// buffer isn't aligned for the dtype; the dtype has no Arrow form.
pub(crate) fn tensor_over(buffer: MutableBuffer, dtype: DType, shape: &[i64]) -> Result<Tensor> {
    debug_assert!(dtype != DType::Bool || buffer.iter().all(|byte| *byte <= 1), "booleans are 0 or 1");
    tensor_of(Blob::Arrow(buffer), scalar_type(dtype)?, dtype, shape)
}

/// The first elements of an open file, at least one, as a contiguous CPU tensor of one dim. They are read when they are
/// touched, in the machine's byte order; what is written to the tensor stays in memory. Booleans must be 0 or 1.
///
/// Nobody may shorten the file or write to it while the tensor lives: the system ends a process that reads behind the end
/// of a map, and what the tensor holds where it wasn't written to is what the file holds.
///
/// # Errors
///
/// The file is shorter, or can't be mapped; what [`tensor_over`] says.
pub(crate) fn tensor_mapped(file: &File, dtype: DType, numel: i64) -> Result<Tensor> {
    let form = match dtype {
        DType::Other(Kind::ComplexHalf) => (8, 4),
        DType::Other(Kind::ComplexFloat) => (9, 8),
        DType::Other(Kind::ComplexDouble) => (10, 16),
        _ => scalar_type(dtype)?,
    };
    let (_, size) = form;
    let bytes = usize::try_from(numel).ok().and_then(|numel| numel.checked_mul(size)).filter(|bytes| *bytes > 0);
    let bytes = bytes.ok_or_else(|| Error::shape(format!("{numel} elements can't be mapped")))?;
    let held = file.metadata().map_err(unmapped)?.len();
    if held < bytes as u64 {
        return Err(Error::file(format!("it has {held} bytes, {bytes} were expected")));
    }
    // SAFETY: memmap2 asks that the file isn't changed by anybody while it is mapped, which no program can see to alone;
    // the contract above hands that on, down to the documentation of what loads files. The map is private: it is never
    // written back, no other map of the file sees what is written here, and it has at least `bytes` bytes, all of them
    // initialised, since the file has. Test: `maps_are_private`.
    let map = unsafe { MmapOptions::new().len(bytes).map_copy(file) }.map_err(unmapped)?;
    tensor_of(Blob::Map(map), form, dtype, &[numel])
}

fn unmapped(error: std::io::Error) -> Error {
    Error::file(format!("it can't be mapped into memory: {error}"))
}

/// `code` is the dtype's number for libtorch, `size` its bytes.
fn tensor_of(blob: Blob, (code, size): (i32, usize), dtype: DType, shape: &[i64]) -> Result<Tensor> {
    let needed = shape.iter().try_fold(size, |bytes, dim| bytes.checked_mul(usize::try_from(*dim).ok()?));
    if needed.is_none_or(|needed| needed > blob.len()) {
        return Err(Error::shape(format!("{} bytes can't hold a {dtype} tensor of shape {shape:?}", blob.len())));
    }
    if needed == Some(0) {
        return Ok(Tensor::f_zeros(shape, (dtype.kind(), tch::Device::Cpu))?);
    }
    if !blob.address().is_multiple_of(size) {
        return Err(Error::shape(format!("the buffer of a {dtype} tensor isn't aligned to {size} bytes")));
    }

    let mut strides = vec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim];
    }
    let ndim = i64::try_from(shape.len()).map_err(|_| Error::shape("too many dims"))?;
    let mut blob = blob;
    let data = blob.as_mut_ptr().cast::<c_void>();
    let blob = Arc::new(blob);
    // Before there is a tensor that could be dropped, so that every entry is removed.
    blobs(blob.address()).insert(blob.address(), Arc::downgrade(&blob));
    let context = Arc::into_raw(blob).cast::<c_void>().cast_mut();
    let mut tensor: *mut C_tensor = ptr::null_mut();
    // SAFETY: `data` points to at least as many initialised bytes as shape and dtype need (checked
    // above; `MutableBuffer::len` counts initialised bytes, a map's are those of its file) and is aligned for the
    // dtype; moving the blob into the `Arc` moves none of them. The memory
    // lives until `release` drops the blob at `context`, which libtorch calls once, when the last
    // tensor of the storage goes ("deleter" in shim.h). Nobody else writes to it: the blob holds the
    // `MutableBuffer` or the private map, sole owner of its memory by construction, and shows it to `export.rs` alone,
    // which only reads, or takes it once the storage is gone. `sizes` and `strides` hold `ndim`
    // numbers each and are only read during the call. `Blob` is `Send` and `Sync`, so any thread may
    // release it. Tests: `outlives_its_source`, `released_once`, `rejects_short_buffers`.
    let status = unsafe {
        torch_from_blob(
            data,
            ndim,
            shape.as_ptr(),
            strides.as_ptr(),
            0,
            code,
            CPU,
            NO_INDEX,
            &mut tensor,
            STRIDED,
            ptr::null(),
            0,
            release,
            context,
        )
    };
    if status != 0 || tensor.is_null() {
        // Whether libtorch has called the deleter by now isn't said; leaking the blob is safe either way.
        return Err(Error::from(tch::TchError::Torch(last_exception())));
    }
    // SAFETY: on success shim.h gives a new reference, a heap-allocated `at::Tensor`, which is what
    // `C_tensor` stands for in torch-sys; `Tensor` frees it with `delete` as torch_api.cpp does.
    Ok(unsafe { Tensor::from_ptr(tensor) })
}

extern "C" fn release(_data: *mut c_void, context: *mut c_void) {
    // SAFETY: `context` came from `Arc::into_raw` in `tensor_of`, and libtorch calls a storage's
    // deleter once.
    let blob = unsafe { Arc::from_raw(context.cast::<Blob>().cast_const()) };
    // While the blob lives nothing else has its address.
    blobs(blob.address()).remove(&blob.address());
    drop(blob);
}

pub(super) fn last_exception() -> String {
    // SAFETY: shim.h: the pointer is borrowed and valid until this thread's next exception; it is
    // copied at once.
    let message = unsafe {
        let what = torch_exception_get_what_without_backtrace();
        if what.is_null() { None } else { Some(CStr::from_ptr(what).to_string_lossy().into_owned()) }
    };
    message.unwrap_or_else(|| "libtorch could not make a tensor".to_owned())
}

/// c10::ScalarType's number, and the bytes of an element.
pub(super) fn scalar_type(dtype: DType) -> Result<(i32, usize)> {
    Ok(match dtype {
        DType::Uint8 => (0, 1),
        DType::Int8 => (1, 1),
        DType::Int16 => (2, 2),
        DType::Int32 => (3, 4),
        DType::Int64 => (4, 8),
        DType::Float16 => (5, 2),
        DType::Float32 => (6, 4),
        DType::Float64 => (7, 8),
        DType::Bool => (11, 1),
        DType::Bfloat16 => (15, 2),
        DType::Other(_) => return Err(Error::shape(format!("no Arrow buffer holds {dtype}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(values: Vec<i64>) -> MutableBuffer {
        MutableBuffer::from(values)
    }

    #[test]
    fn outlives_its_source() {
        let source = buffer(vec![1, 2, 3, 4, 5, 6]);
        let address = source.as_ptr().addr();
        let tensor = tensor_over(source, DType::Int64, &[2, 3]).unwrap();
        assert_eq!(tensor.data_ptr().addr(), address);
        let row = tensor.get(1);
        drop(tensor);
        assert_eq!(Vec::<i64>::try_from(row).unwrap(), [4, 5, 6]);
    }

    #[test]
    fn released_once() {
        // Under the address and leak sanitizers a second release or a leak is reported.
        for _ in 0..1000 {
            let tensor = tensor_over(buffer(vec![7; 100]), DType::Int64, &[100]).unwrap();
            let clone = tensor.shallow_clone();
            drop(tensor);
            assert_eq!(clone.sum(tch::Kind::Int64).int64_value(&[]), 700);
        }
    }

    #[test]
    fn released_on_another_thread() {
        let tensor = tensor_over(buffer(vec![1, 2]), DType::Int64, &[2]).unwrap();
        std::thread::spawn(move || drop(tensor)).join().unwrap();
    }

    #[test]
    fn rejects_short_buffers() {
        assert!(tensor_over(buffer(vec![1]), DType::Int64, &[2]).unwrap_err().is_shape());
        assert!(tensor_over(buffer(vec![1]), DType::Int64, &[i64::MAX, i64::MAX]).unwrap_err().is_shape());
        assert!(tensor_over(buffer(vec![1]), DType::Int64, &[-1]).unwrap_err().is_shape());
    }

    #[test]
    fn empty_shapes_need_no_memory() {
        let tensor = tensor_over(buffer(vec![]), DType::Int64, &[3, 0]).unwrap();
        assert_eq!(tensor.size(), [3, 0]);
    }

    #[test]
    fn maps_are_private() {
        use std::io::Write;

        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1, 0, 2, 0, 3]).unwrap();
        let [mut one, other] = [(); 2].map(|()| tensor_mapped(&file, DType::Int16, 2).unwrap());
        let _ = one.fill_(7);
        assert_eq!(Vec::<i16>::try_from(&other).unwrap(), [1, 2]);
        assert_eq!(Vec::<i16>::try_from(tensor_mapped(&file, DType::Int16, 2).unwrap()).unwrap(), [1, 2]);
        assert!(tensor_mapped(&file, DType::Int16, 3).unwrap_err().is_file());
        assert!(tensor_mapped(&file, DType::Int16, i64::MAX).unwrap_err().is_file());
        for numel in [0, -1] {
            assert!(tensor_mapped(&file, DType::Int16, numel).unwrap_err().is_shape());
        }
    }

    #[test]
    fn dtypes_agree_with_libtorch() {
        use DType::*;
        for dtype in [Uint8, Int8, Int16, Int32, Int64, Float16, Float32, Float64, Bool, Bfloat16] {
            let tensor = tensor_over(buffer(vec![0; 4]), dtype, &[4]).unwrap();
            assert_eq!(DType::from(tensor.kind()), dtype);
        }
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[0; 32]).unwrap();
        for kind in [Kind::ComplexHalf, Kind::ComplexFloat, Kind::ComplexDouble, Kind::Half] {
            let tensor = tensor_mapped(&file, DType::from(kind), 2).unwrap();
            assert_eq!((tensor.kind(), tensor.size()), (kind, vec![2]));
        }
    }
}
