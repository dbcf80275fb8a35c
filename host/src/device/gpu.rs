//! A machine that runs the kernels: a CUDA device or the simulator, behind one trait.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytemuck::Pod;
use corrust_gpu::abi::{Entry, Kernel, Target};

use crate::error::Result;

/// A sequence of operations on a GPU: operations of one stream run in order, operations of different streams
/// may overlap.
///
/// On a CUDA device it is a `CUstream`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stream(u64);

impl Stream {
    /// The stream of a `CUstream`'s address; 0 is the GPU's default stream. It has to live until the call that it
    /// is given to returns: later work of a plan waits on a stream of the plan's own.
    pub const fn from_raw(stream: u64) -> Self {
        Self(stream)
    }

    /// The address of the `CUstream`.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// Name, size and capability of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Name as the driver gives it.
    pub name: String,
    /// Identifier as `nvidia-smi -L` gives it; empty where there is none.
    pub uuid: String,
    /// Bytes of device memory.
    pub memory: u64,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that one block may take.
    pub shared_bytes: u32,
    /// Bytes of the L2 cache.
    pub l2_bytes: u64,
    /// CUDA version of the driver, major and minor.
    pub driver: (u32, u32),
}

impl Facts {
    /// Whether the GPU runs kernels of `target`.
    pub fn runs(&self, target: Target) -> bool {
        match target {
            Target::Sm80 => self.capability >= (8, 0),
            Target::Sm90a => self.capability == (9, 0),
        }
    }
}

/// A three-dimensional array of bytes in device memory, as the copy engine of compute capability 9.0
/// reads it: in boxes whose rows are 128 or 32 bytes, swizzled in shared memory (16-byte chunk `c` of row
/// `r` at place `c ^ (r % 8)` or `c ^ (r / 4 % 2)`), or others, one after the other, with zeros for what
/// lies outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// Device address, a multiple of 16.
    pub address: u64,
    /// Bytes of a row, rows of a plane, planes.
    pub sizes: [u64; 3],
    /// Bytes from one row to the next and from one plane to the next, multiples of 16.
    pub strides: [u64; 2],
    /// Bytes of a row of a box, a multiple of 16, 128 at most.
    pub box_bytes: u32,
    /// Rows of a box, 256 at most.
    pub box_rows: u32,
}

/// Host memory that the GPU copies from and to by itself: page-locked where there is a GPU. Samples that
/// are received into it reach the device at the full speed of the bus.
///
/// ```
/// use corrust_host::{Beamformer, Device, Encoding};
///
/// let gpu = Device::Sim.open()?;
/// let mut voltages = gpu.locked_bytes(3 * 2)?;
/// voltages.copy_from_slice(&[0x12, 0x01, 0x10, 0x70, 0x70, 0x70]);
///
/// let beamformer = Beamformer::builder(3, 1).encoding(Encoding::Ci4);
/// let mut beamformer = beamformer.device(Device::Sim).build()?;
/// beamformer.set_weights(&[[1_i8, 0]; 3])?;
/// assert_eq!(beamformer.beamform(&voltages)?.samples[[0, 0, 0, 0]], 0x23);
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub struct LockedBytes(Box<dyn DerefMut<Target = [u8]> + Send + Sync>);

impl LockedBytes {
    /// Memory that some owner keeps in place.
    pub(super) fn new(bytes: impl DerefMut<Target = [u8]> + Send + Sync + 'static) -> Self {
        Self(Box::new(bytes))
    }
}

impl Deref for LockedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for LockedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for LockedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockedBytes({})", self.len())
    }
}

/// Rows of bytes that are copied from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Byte at which the first row that is read begins.
    pub from: usize,
    /// Bytes from one row that is read to the next.
    pub from_pitch: usize,
    /// Byte at which the first row is written.
    pub to: usize,
    /// Bytes from one written row to the next.
    pub to_pitch: usize,
    /// Bytes of a row.
    pub width: usize,
    /// Number of rows.
    pub count: usize,
}

impl Rows {
    /// One row of `bytes` bytes, from start to start.
    pub const fn one(bytes: usize) -> Self {
        Self { from: 0, from_pitch: bytes, to: 0, to_pitch: bytes, width: bytes, count: 1 }
    }
}

/// A machine that runs the kernels.
pub trait Gpu: Send + Sync + fmt::Debug {
    /// Name in errors: `cuda:1`.
    fn name(&self) -> &str;

    /// Name, size and capability.
    fn facts(&self) -> &Facts;

    /// Bytes of device memory free now.
    fn free_bytes(&self) -> Result<u64>;

    /// Reserves device memory, aligned to 256 bytes, contents undefined.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// Gives back what [`Self::allocate`] reserved, once nothing uses it any more.
    ///
    /// # Safety
    /// `address` came from [`Self::allocate`] of this GPU and was not freed before.
    unsafe fn free(&self, address: u64);

    /// Whether an address lies in this GPU's memory, as far as is known: memory that a caller names by number alone may
    /// have been freed, or be another's.
    fn holds(&self, address: u64) -> bool;

    /// A stream beside the default one; it lives as long as the GPU.
    fn create_stream(&self) -> Result<Stream>;

    /// A stream whose kernels go before those of others where both wait for room.
    fn create_urgent_stream(&self) -> Result<Stream> {
        self.create_stream()
    }

    /// Makes work that is enqueued on `later` from now on wait for the work now on `earlier`.
    fn order(&self, earlier: Stream, later: Stream) -> Result<()>;

    /// Copies `bytes` bytes to device memory, in the stream's order: the bytes that `fill(first, part)` writes
    /// to parts of page-locked memory, in any order and on many threads, each part from its byte `first`
    /// on. Nothing is called after the return.
    ///
    /// # Safety
    /// `address` is device memory with room for `bytes`.
    unsafe fn upload_filled(
        &self,
        stream: Stream,
        address: u64,
        bytes: usize,
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<()>;

    /// Copies from device memory after the work on the stream, and waits for the copy.
    ///
    /// # Safety
    /// `address` is device memory of that many bytes.
    unsafe fn download(&self, stream: Stream, address: u64, bytes: &mut [u8]) -> Result<()>;

    /// Reserves host memory, all zero, that [`Self::copy_in`] and [`Self::copy_out`] use without
    /// passing through other memory.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the system does not give that much.
    fn locked_bytes(&self, bytes: usize) -> Result<LockedBytes> {
        Ok(LockedBytes::new(vec![0; bytes]))
    }

    /// Whether [`Self::copy_in`] and [`Self::copy_out`] use these bytes without passing through other
    /// memory: those of [`Self::locked_bytes`], and what others page-locked for the GPU.
    fn is_locked(&self, _bytes: &[u8]) -> bool {
        true
    }

    /// Device address at which kernels read and write [`Self::locked_bytes`] of this GPU where they lie.
    ///
    /// # Errors
    /// [`crate::Error::Device`] of memory that it does not reach.
    fn reach(&self, bytes: &LockedBytes) -> Result<u64>;

    /// Copies rows of `bytes` to device memory, in the stream's order, without waiting if the bytes are
    /// [locked](Self::is_locked).
    ///
    /// # Safety
    /// `address` is device memory with room for the rows, which lie within `bytes` and are neither changed nor freed
    /// until the stream has done this work.
    unsafe fn copy_in(&self, stream: Stream, address: u64, bytes: &[u8], rows: &Rows)
    -> Result<()>;

    /// Copies rows from device memory to device memory, in the stream's order.
    ///
    /// # Safety
    /// Both addresses are device memory of the rows' sizes, which do not overlap.
    unsafe fn copy_rows(&self, stream: Stream, to: u64, from: u64, rows: &Rows) -> Result<()>;

    /// Copies `bytes` bytes of another GPU's memory to this one's, as `fetch` does, where this GPU reaches it. Returns whether it
    /// does; if not, nothing is copied.
    ///
    /// # Safety
    /// As for `fetch`.
    unsafe fn fetch_peer(
        &self,
        _stream: Stream,
        _to: u64,
        _address: u64,
        _bytes: usize,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Copies from device memory, in the stream's order, without waiting if the bytes are
    /// [locked](Self::is_locked).
    ///
    /// # Safety
    /// `address` is device memory of as many bytes as `bytes`, which are neither used nor freed until the stream has
    /// done this work.
    unsafe fn copy_out(&self, stream: Stream, address: u64, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.download(stream, address, bytes) }
    }

    /// Sets the bytes of the rows that `rows` leads to from `address` on to `byte`, in the stream's order.
    ///
    /// # Safety
    /// They are in device memory.
    unsafe fn set_rows(&self, stream: Stream, address: u64, rows: &Rows, byte: u8) -> Result<()>;

    /// The 128 bytes that stand for a tensor map in a kernel's memory, 64-byte aligned there.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the GPU has no copy engine for tensors or refuses the map.
    fn tensor_map(&self, map: &TensorMap) -> Result<[u8; 128]>;

    /// Starts `blocks` blocks of a kernel, in the stream's order. Zero blocks do nothing.
    ///
    /// # Safety
    /// `parameters` are of the kernel's type, and with them it stays within allocated memory.
    unsafe fn launch_bytes(
        &self,
        stream: Stream,
        entry: &Entry,
        blocks: u32,
        parameters: &[u8],
    ) -> Result<()>;

    /// Waits for everything on the stream.
    fn wait(&self, stream: Stream) -> Result<()>;

    /// Whether everything on the stream is done.
    fn is_done(&self, stream: Stream) -> Result<bool> {
        self.wait(stream).map(|()| true)
    }

    /// Time that the GPU takes for what `work` enqueues on `stream`.
    fn time(&self, stream: Stream, work: &mut dyn FnMut() -> Result<()>) -> Result<Duration> {
        self.wait(stream)?;
        let start = Instant::now();
        work()?;
        self.wait(stream)?;
        Ok(start.elapsed())
    }
}

/// Locks what no panic can leave half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl dyn Gpu {
    /// Copies to device memory, in the stream's order; `bytes` may be reused on return.
    ///
    /// # Safety
    /// `address` is device memory with room for `bytes`.
    pub unsafe fn upload(&self, stream: Stream, address: u64, bytes: &[u8]) -> Result<()> {
        let fill = |first: usize, part: &mut [u8]| {
            part.copy_from_slice(&bytes[first..first + part.len()]);
        };
        // SAFETY: the caller's promise.
        unsafe { self.upload_filled(stream, address, bytes.len(), &fill) }
    }

    /// Copies `bytes` bytes of the memory of the GPU `from` to this one's, in the order of a stream of this one alone: the work
    /// on them there has been waited for. They pass through the host's memory where this GPU does not
    /// [reach](Gpu::fetch_peer) the other.
    ///
    /// # Safety
    /// `to` is memory of this GPU and `address` memory of `from`, both of the number of bytes that is copied. What is read stays
    /// until the stream has done this work.
    pub unsafe fn fetch(
        &self,
        (stream, to): (Stream, u64),
        (from, address): (&dyn Gpu, u64),
        bytes: usize,
    ) -> Result<()> {
        const PART: usize = 1 << 22;
        // SAFETY: the caller's promise.
        if unsafe { self.fetch_peer(stream, to, address, bytes)? } {
            return Ok(());
        }
        let mut there = vec![0; PART.min(bytes)];
        for first in (0..bytes).step_by(PART) {
            let there = &mut there[..PART.min(bytes - first)];
            // SAFETY: the caller's promise.
            unsafe {
                from.download(Stream::default(), address + first as u64, there)?;
                self.upload(stream, to + first as u64, there)?;
            }
        }
        Ok(())
    }

    /// Starts `blocks` blocks of `kernel`.
    ///
    /// # Safety
    /// With these parameters the kernel stays within device memory.
    pub unsafe fn launch<P: Pod>(
        &self,
        stream: Stream,
        kernel: &Kernel<P>,
        blocks: u32,
        parameters: &P,
    ) -> Result<()> {
        // SAFETY: the caller's promise; the kernel takes P.
        unsafe { self.launch_bytes(stream, &kernel.entry, blocks, bytemuck::bytes_of(parameters)) }
    }
}
