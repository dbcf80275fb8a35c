//! Memory of a chunk that several threads fill at a time.

use std::{
    mem::MaybeUninit,
    ops::{Deref, DerefMut, Range},
    slice,
    sync::{Arc, OnceLock},
};

use bytemuck::{Pod, Zeroable};
use corrust_host::{
    Error, Result,
    device::{self, Buffer, Gpu, Stream},
    reorder::place::{MOST_BYTES, PayloadPiece, ToPlaces},
};

/// Memory of a chunk.
pub type Memory = Box<dyn DerefMut<Target = [u8]> + Send>;

/// A line of the caches.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes that begin with a line of the caches: stores past the caches take long where they fill a part of one.
struct Lines {
    lines: Vec<Line>,
    bytes: usize,
}

impl Deref for Lines {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }
}

/// So many bytes, all zero.
///
/// # Errors
/// [`Error::OutOfMemory`](corrust_host::Error::OutOfMemory).
pub(super) fn zeros(bytes: usize) -> Result<Memory> {
    let count = bytes.div_ceil(size_of::<Line>());
    let mut lines: Vec<Line> = device::room(count)?;
    ask_for_large_pages(lines.spare_capacity_mut());
    lines.resize(count, Line::zeroed());
    Ok(Box::new(Lines { lines, bytes }))
}

/// Asks the system for huge pages: rows of a chunk are pages apart, and each would take an entry of a core's TLB.
fn ask_for_large_pages(lines: &mut [MaybeUninit<Line>]) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        let lines = lines.as_mut_ptr_range();
        let [start, end] = [lines.start, lines.end].map(|at| at.addr());
        let (start, end) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
        if start < end {
            let first = lines.start.with_addr(start).cast();
            // SAFETY: whole pages of this memory, whose content stays as it is.
            let _ = unsafe { libc::madvise(first, end - start, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = lines;
}

/// Memory that threads write to, each to places that it alone has.
pub struct SharedMemory {
    start: *mut u8,
    bytes: usize,
    /// Keeps the memory in place.
    _owner: Memory,
}

// SAFETY: the memory's owner may be sent, and the pointer is to its memory.
unsafe impl Send for SharedMemory {}

// SAFETY: all access is by `part` and `all`, whose callers see to it that no two meet.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Memory of an owner.
    pub(super) fn new(mut owner: Memory) -> Self {
        let (start, bytes) = (owner.as_mut_ptr(), owner.len());
        Self { start, bytes, _owner: owner }
    }

    /// A part of it, to be written.
    ///
    /// # Safety
    /// No other reference to any of these bytes exists until the borrow ends.
    ///
    /// # Panics
    /// When it reaches beyond the memory.
    #[expect(clippy::mut_from_ref, reason = "each thread has other bytes")]
    pub(super) unsafe fn part(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.bytes, "a part of the memory");
        // SAFETY: within the memory, and not aliased, as the caller promises.
        unsafe { slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// All of it, to be read.
    ///
    /// # Safety
    /// No thread writes to it until the borrow ends.
    pub(super) unsafe fn all(&self) -> &[u8] {
        // SAFETY: it is the owner's memory, and no thread writes to it, as the caller promises.
        unsafe { slice::from_raw_parts(self.start, self.bytes) }
    }
}

/// Memory of a chunk of heaps.
pub enum ChunkMemory {
    /// Memory of the host, which threads fill.
    Host(SharedMemory),
    /// Memory of a GPU, which its kernels fill.
    Device(DeviceMemory),
}

/// Memory of a GPU that samples of heaps are brought to.
pub struct DeviceMemory {
    gpu: Arc<dyn Gpu>,
    buffer: Buffer,
    /// Reason why samples are not there, though they have a place.
    fault: OnceLock<String>,
}

impl DeviceMemory {
    /// So many bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn new(gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<Self> {
        let buffer = Buffer::new(gpu, bytes)?;
        Ok(Self { gpu: gpu.clone(), buffer, fault: OnceLock::new() })
    }

    /// Its bytes on the device.
    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Says that samples could not be brought to it.
    pub(super) fn fail(&self, reason: &str) {
        // The first reason counts.
        let _ = self.fault.set(reason.to_owned());
    }

    /// Checks that all that has a place is there.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub(super) fn check(&self) -> Result<()> {
        self.fault.get().map_or(Ok(()), |reason| Err(Error::Device(reason.clone())))
    }

    /// A copy of some of its bytes.
    ///
    /// # Errors
    /// The GPU's own, and [`Error::Device`] where not all that has a place is there.
    ///
    /// # Panics
    /// When there are not so many bytes.
    pub(super) fn read(&self, range: Range<usize>) -> Result<Vec<u8>> {
        self.check()?;
        let from = self.buffer.slice::<u8>().part(range);
        let mut bytes = device::zeros(from.len())?;
        // SAFETY: a part of the buffer.
        unsafe { self.gpu.download(from.stream(), from.address(), &mut bytes)? };
        Ok(bytes)
    }

    /// Brings bytes of a payload from byte `offset` on to their places, and waits for it: the way of the few that no
    /// [`Carrier`](super::carry::Carrier) takes. `target` is the place of the payload's first sample.
    pub(super) fn bring(&self, places: ToPlaces, target: u64, offset: usize, bytes: &[u8]) {
        let bring = || -> Result<()> {
            let stream = Stream::default();
            let payload = Buffer::new(&self.gpu, bytes.len().next_multiple_of(16))?;
            payload.upload(stream, bytes)?;
            let pieces: Vec<_> = pieces(payload.address(), target, offset, bytes.len()).collect();
            let table = Buffer::new(&self.gpu, size_of_val(&pieces[..]))?;
            table.upload(stream, &pieces)?;
            let places = ToPlaces { pieces: table.address(), count: pieces.len() as u32, ..places };
            // SAFETY: the pieces lie in the payload, and go to a place of this memory that the caller has.
            unsafe { places.kernel().launch(&self.gpu, stream)? };
            self.gpu.wait(stream)
        };
        if let Err(error) = bring() {
            self.fail(&error.to_string());
        }
    }
}

/// Pieces for a kernel of `bytes` bytes of a payload from byte `offset` on, which begin at device address `source`.
pub(super) fn pieces(
    source: u64,
    target: u64,
    offset: usize,
    bytes: usize,
) -> impl Iterator<Item = PayloadPiece> {
    (0..bytes).step_by(MOST_BYTES).map(move |first| PayloadPiece {
        source: source + first as u64,
        target,
        offset: (offset + first) as u32,
        bytes: MOST_BYTES.min(bytes - first) as u32,
    })
}
