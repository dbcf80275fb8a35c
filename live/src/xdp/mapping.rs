//! Memory that is shared with the system: buffers of packets, and rings of numbers that say which are whose.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};

/// Mapped memory, which is given back at the end.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: memory belongs to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Private memory, all zero.
    pub fn new(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(bytes: usize, flags: libc::c_int, file: libc::c_int, offset: u64) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the system chooses the place.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), bytes, access, flags, file, offset as libc::off_t)
        };
        match NonNull::new(start) {
            Some(found) if start != libc::MAP_FAILED => Ok(Self { start: found.cast(), bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies bytes from `offset` on to all of `to`; refused where they are beyond the memory.
    ///
    /// # Safety
    /// The system does not write there until the call returns.
    pub unsafe fn copy(&self, offset: usize, to: &mut [u8]) -> bool {
        if offset.checked_add(to.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        // SAFETY: the bytes are within the memory, as was checked, and the system does not write to them.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), to.as_mut_ptr(), to.len())
        };
        true
    }

    /// Place of a value.
    ///
    /// # Panics
    /// When it is beyond the memory, or is not aligned.
    fn at<T>(&self, offset: u64) -> *mut T {
        let offset = offset as usize;
        let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.bytes);
        assert!(fits && offset.is_multiple_of(align_of::<T>()), "a value within the memory");
        // SAFETY: the offset is within the memory.
        unsafe { self.start.as_ptr().add(offset) }.cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, once, and no reference into it exists.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A ring of values: one side puts them in, the other takes them out.
pub(super) struct Ring<T> {
    memory: Mapping,
    offsets: libc::xdp_ring_offset,
    /// A power of two.
    count: u32,
    /// The next value of this side.
    next: u32,
    kind: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Ring of `count` values of a socket, which the system has at `page`.
    pub fn new(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: libc::xdp_ring_offset,
        count: u32,
    ) -> io::Result<Self> {
        let bytes = offsets.desc as usize + count as usize * size_of::<T>();
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let memory = Mapping::map(bytes, flags, socket.as_raw_fd(), page)?;
        Ok(Self { memory, offsets, count, next: 0, kind: std::marker::PhantomData })
    }

    fn number(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the number is within the mapped memory, aligned, and both sides use it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.at(offset)) }
    }

    fn place(&self, index: u32) -> *mut T {
        let within = index & (self.count - 1);
        self.memory.at(self.offsets.desc + u64::from(within) * size_of::<T>() as u64)
    }

    /// Values that the system has put in and were not taken out.
    pub fn there(&self) -> u32 {
        let end = self.number(self.offsets.producer).load(Ordering::Acquire);
        end.wrapping_sub(self.next).min(self.count)
    }

    /// One of the values that are [there](Self::there).
    pub fn get(&self, index: u32) -> T {
        // SAFETY: the value is within the mapped memory, aligned, of plain numbers; the system leaves it until it is taken.
        unsafe { self.place(self.next.wrapping_add(index)).read() }
    }

    /// Takes the first `count` values out.
    pub fn release(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.number(self.offsets.consumer).store(self.next, Ordering::Release);
    }

    /// Puts values in, as many as have room.
    pub fn put(&mut self, values: &mut Vec<T>) {
        let begin = self.number(self.offsets.consumer).load(Ordering::Acquire);
        let room = self.count.saturating_sub(self.next.wrapping_sub(begin)) as usize;
        for value in values.drain(..values.len().min(room)) {
            // SAFETY: the place is within the mapped memory, aligned; the system does not read it before the number says so.
            unsafe { self.place(self.next).write(value) };
            self.next = self.next.wrapping_add(1);
        }
        self.number(self.offsets.producer).store(self.next, Ordering::Release);
    }

    /// Whether the system waits for a call before it looks at the ring.
    pub fn sleeps(&self) -> bool {
        let flags = self.number(self.offsets.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}
