//! Memory of a chunk that several threads fill at a time.

use std::{ops::DerefMut, ops::Range, slice};

/// Memory of a chunk.
pub type Memory = Box<dyn DerefMut<Target = [u8]> + Send>;

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
    /// Nobody else has any of these bytes until the borrow ends.
    ///
    /// # Panics
    /// When it reaches beyond the memory.
    #[expect(clippy::mut_from_ref, reason = "each thread has other bytes")]
    pub(super) unsafe fn part(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.bytes, "a part of the memory");
        // SAFETY: within the memory, and nobody else's, as the caller says.
        unsafe { slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// All of it, to be read.
    ///
    /// # Safety
    /// Nobody writes to it until the borrow ends.
    pub(super) unsafe fn all(&self) -> &[u8] {
        // SAFETY: it is the owner's memory, and nobody writes, as the caller says.
        unsafe { slice::from_raw_parts(self.start, self.bytes) }
    }
}
