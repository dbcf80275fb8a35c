//! Memory of a GPU.

use std::{fmt, marker::PhantomData, ops::Range, sync::Arc};

use bytemuck::Pod;

use super::gpu::{Gpu, Rows, Stream};
use crate::error::{Error, Result};

/// Device memory, freed when dropped.
pub struct Buffer {
    gpu: Arc<dyn Gpu>,
    address: u64,
    bytes: usize,
}

impl Buffer {
    /// Reserves `bytes` bytes, contents undefined. None cost nothing, and have the address 0.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    pub fn new(gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<Self> {
        let address = if bytes > 0 { gpu.allocate(bytes)? } else { 0 };
        Ok(Self { gpu: gpu.clone(), address, bytes })
    }

    /// GPU that has the memory.
    pub(crate) fn gpu(&self) -> &Arc<dyn Gpu> {
        &self.gpu
    }

    /// Device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the buffer at least `bytes` long; contents are undefined where it was shorter.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.bytes {
            // The old memory is freed first: both need not fit together.
            if self.address != 0 {
                // SAFETY: the address is this buffer's, and replaced or never used again.
                unsafe { self.gpu.free(self.address) };
            }
            (self.address, self.bytes) = (0, 0);
            self.address = self.gpu.allocate(bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Copies `values` to the start of the buffer, in the stream's order.
    pub fn upload<T: Pod>(&self, stream: Stream, values: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        assert!(bytes.len() <= self.bytes, "upload beyond the buffer");
        // SAFETY: within the buffer.
        unsafe { self.gpu.upload(stream, self.address, bytes) }
    }

    /// Copies the start of the buffer to `values` and waits for it.
    pub fn download<T: Pod>(&self, stream: Stream, values: &mut [T]) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        assert!(bytes.len() <= self.bytes, "download beyond the buffer");
        // SAFETY: within the buffer.
        unsafe { self.gpu.download(stream, self.address, bytes) }
    }

    /// Sets the buffer to zero, in the stream's order.
    pub fn clear(&self, stream: Stream) -> Result<()> {
        // SAFETY: the buffer's own memory.
        unsafe { self.gpu.set_rows(stream, self.address, &Rows::one(self.bytes), 0) }
    }

    /// The buffer as elements of type `T`, as many as it has room for, for work on the GPU's default
    /// stream.
    pub fn slice<T: Pod>(&self) -> DeviceSlice<'_, T> {
        DeviceSlice {
            address: self.address,
            len: self.bytes / size_of::<T>(),
            stream: Stream::default(),
            gpu: identity(&self.gpu),
            elements: PhantomData,
        }
    }

    /// [`slice`](Self::slice), to be written.
    pub fn slice_mut<T: Pod>(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut(self.slice())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.address != 0 {
            // SAFETY: reserved by `new` or `reserve`, freed once.
            unsafe { self.gpu.free(self.address) };
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x}, {} bytes)", self.address, self.bytes)
    }
}

/// Number that tells open GPUs apart.
fn identity(gpu: &Arc<dyn Gpu>) -> usize {
    Arc::as_ptr(gpu).cast::<()>().addr()
}

/// Elements in a GPU's memory, to be read by work in the order of a stream. Work enqueued there may
/// still read them after the borrow has ended: until a plan's results were read or it was
/// [waited](crate::Correlator::wait) for, they must stay unchanged.
///
/// ```
/// use corrust_host::{Correlator, Device, Encoding, Layout, device::{Buffer, Stream}, samples::Samples};
///
/// let gpu = Device::Sim.open()?;
/// let buffer = Buffer::new(&gpu, 3 * 2)?;
/// buffer.upload(Stream::default(), &[1_i8, 2, 3, 4, 5, 6])?;
///
/// // One input, one channel, three times.
/// let mut correlator = Correlator::builder(1, 1).gpu(gpu).build()?;
/// let samples = Samples::new(buffer.slice(), 1, 1, Encoding::Ci8, Layout::Tcn)?;
/// correlator.accumulate(samples)?;
/// assert_eq!(correlator.dump()?.visibilities.integer().unwrap()[[0, 0]].re, 91);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeviceSlice<'a, T = u8> {
    address: u64,
    len: usize,
    stream: Stream,
    /// The GPU's [`identity`], 0 for one that the caller vouches for.
    gpu: usize,
    elements: PhantomData<&'a [T]>,
}

impl<'a, T: Pod> DeviceSlice<'a, T> {
    /// `len` elements at a device address, for work in the order of `stream`
    /// ([`Stream::from_raw`] of the caller's `CUstream`).
    ///
    /// # Safety
    /// They are in the memory of the GPU of the plan that they are given to, and stay there until the stream has done
    /// this work. The stream lives as long as [`Stream::from_raw`] says.
    pub const unsafe fn from_raw(address: u64, len: usize, stream: Stream) -> Self {
        Self { address, len, stream, gpu: 0, elements: PhantomData }
    }

    /// The same, for work in the order of `stream`.
    pub const fn on(self, stream: Stream) -> Self {
        Self { stream, ..self }
    }

    /// The elements of a range.
    ///
    /// # Panics
    /// If the range ends after the last element.
    pub fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "elements {range:?}");
        let address = self.address + (range.start * size_of::<T>()) as u64;
        Self { address, len: range.len(), ..self }
    }

    /// The elements from `first` on.
    pub(crate) fn from(self, first: usize) -> Self {
        self.part(first..self.len)
    }

    /// Device address.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Number of elements.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The stream in whose order they are to be used.
    pub const fn stream(&self) -> Stream {
        self.stream
    }

    /// The one of some GPUs that has the elements in its memory: where the caller vouches and none knows the address,
    /// the first.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(crate) fn owner<'b>(&self, gpus: &'b [Arc<dyn Gpu>]) -> Result<&'b Arc<dyn Gpu>> {
        match gpus.iter().find(|gpu| self.gpu == identity(gpu)) {
            Some(gpu) => Ok(gpu),
            None => {
                self.check(&gpus[0])?;
                Ok(gpus.iter().find(|gpu| gpu.holds(self.address)).unwrap_or(&gpus[0]))
            }
        }
    }

    /// Checks that the elements are in the memory of `gpu`.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(crate) fn check(&self, gpu: &Arc<dyn Gpu>) -> Result<()> {
        if self.gpu == 0 || self.gpu == identity(gpu) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "device memory at {:#x} of another GPU: expected memory of the plan's, {}",
            self.address,
            gpu.facts().name
        )))
    }
}

/// Elements in a GPU's memory, to be written by work in the order of a stream. Work enqueued there may
/// still write them after the borrow has ended: see [`DeviceSlice`].
#[derive(Debug)]
pub struct DeviceSliceMut<'a, T = u8>(DeviceSlice<'a, T>);

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// `len` elements at a device address, for work in the order of `stream`.
    ///
    /// # Safety
    /// As for [`DeviceSlice::from_raw`]; nothing else uses them until the stream has done this work.
    pub const unsafe fn from_raw(address: u64, len: usize, stream: Stream) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { DeviceSlice::from_raw(address, len, stream) })
    }

    /// The same, for work in the order of `stream`.
    pub const fn on(self, stream: Stream) -> Self {
        Self(self.0.on(stream))
    }

    /// The first `len` of them.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn first(self, len: usize) -> Self {
        Self(self.0.part(0..len))
    }

    /// To be read only.
    pub(crate) const fn read(&self) -> DeviceSlice<'_, T> {
        self.0
    }

    /// The one of some GPUs that has the elements, `expected` of them, in its memory; see
    /// [`DeviceSlice::owner`].
    ///
    /// # Errors
    /// [`Error::Invalid`], with `what` they are to be.
    pub(crate) fn owner<'b>(
        &self,
        gpus: &'b [Arc<dyn Gpu>],
        what: &str,
        expected: usize,
    ) -> Result<&'b Arc<dyn Gpu>> {
        let gpu = self.0.owner(gpus)?;
        self.check(gpu, what, expected)?;
        Ok(gpu)
    }

    /// Copies `values` to the elements from `first` on, in the order of the stream. `gpu` is their
    /// [`owner`](Self::owner).
    pub(crate) fn upload(&self, gpu: &Arc<dyn Gpu>, first: usize, values: &[T]) -> Result<()> {
        assert!(first + values.len() <= self.0.len, "upload beyond the room");
        let address = self.0.address + (first * size_of::<T>()) as u64;
        // SAFETY: within the elements, which are in the memory of `gpu`.
        unsafe { gpu.upload(self.0.stream, address, bytemuck::cast_slice(values)) }
    }

    /// Checks that there are `expected` elements, in the memory of `gpu`.
    ///
    /// # Errors
    /// [`Error::Invalid`], with `what` they are to be.
    pub(crate) fn check(&self, gpu: &Arc<dyn Gpu>, what: &str, expected: usize) -> Result<()> {
        self.0.check(gpu)?;
        if self.0.len != expected {
            return Err(Error::invalid(format!(
                "room on the device for {} {what}: expected {expected}",
                self.0.len
            )));
        }
        Ok(())
    }
}
