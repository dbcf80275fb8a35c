//! Shared memory and semaphores of System V.

use std::{
    fmt,
    io::{self, ErrorKind},
    mem::{MaybeUninit, size_of},
    ptr::NonNull,
    sync::atomic::{AtomicU8, AtomicU32, AtomicU64},
};

/// A segment of shared memory that others change at any time.
pub struct Segment {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a segment is attached to the process, not to a thread, and its bytes are reached by copies and atomics alone.
unsafe impl Send for Segment {}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment of {} bytes", self.bytes)
    }
}

impl Segment {
    /// Attaches the segment of a key.
    ///
    /// # Errors
    /// The system's, [`ErrorKind::NotFound`] where there is none.
    pub fn attach(key: u32) -> io::Result<Self> {
        // SAFETY: the call has no pointers.
        let id = checked(unsafe { libc::shmget(key as i32, 0, 0) })?;
        let mut found = MaybeUninit::<libc::shmid_ds>::uninit();
        // SAFETY: the call writes the structure that it is given.
        checked(unsafe { libc::shmctl(id, libc::IPC_STAT, found.as_mut_ptr()) })?;
        // SAFETY: the call succeeded.
        let bytes = unsafe { found.assume_init() }.shm_segsz;
        // SAFETY: the system chooses the address.
        let start = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() as isize != -1 => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of an item of type `T` at byte `at`, which is to lie within the segment.
    fn item<T>(&self, at: usize) -> NonNull<T> {
        let inside = at.checked_add(size_of::<T>()).is_some_and(|end| end <= self.bytes);
        assert!(inside && at.is_multiple_of(size_of::<T>()), "byte {at} of {}", self.bytes);
        // SAFETY: the byte is within the segment.
        unsafe { self.start.add(at) }.cast()
    }

    /// The number at byte `at`.
    pub fn u64(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the segment, aligned as the segment is to a page; others change it, which an atomic allows.
        unsafe { self.item(at).as_ref() }
    }

    /// The number at byte `at`.
    pub fn u32(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as for `u64`.
        unsafe { self.item(at).as_ref() }
    }

    /// The number at byte `at`.
    pub fn u8(&self, at: usize) -> &AtomicU8 {
        // SAFETY: as for `u64`.
        unsafe { self.item(at).as_ref() }
    }

    /// Copies bytes from `at` on to `to`.
    ///
    /// # Panics
    /// When they are not all within the segment.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        assert!(
            at.checked_add(to.len()).is_some_and(|end| end <= self.bytes),
            "within the segment"
        );
        // SAFETY: both ranges are as long as that, and distinct; a writer that does not keep the order of blocks changes
        // what is copied, not where.
        unsafe {
            self.start.add(at).copy_to_nonoverlapping(NonNull::from(&mut *to).cast(), to.len())
        };
    }

    /// Copies `from` to the bytes from `at` on.
    ///
    /// # Panics
    /// When they are not all within the segment.
    pub fn write(&self, at: usize, from: &[u8]) {
        let inside = at.checked_add(from.len()).is_some_and(|end| end <= self.bytes);
        assert!(inside, "within the segment");
        // SAFETY: as for `read`.
        unsafe {
            self.start.add(at).copy_from_nonoverlapping(NonNull::from(from).cast(), from.len())
        };
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: attached, and nothing refers to it any more.
        unsafe { libc::shmdt(self.start.as_ptr().cast()) };
    }
}

/// Behaviour of a change of semaphores that would have to wait, and its state after the process ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Waits, and stands when the process ends.
    Lasting,
    /// Fails with [`ErrorKind::WouldBlock`] in place of waiting, and stands.
    AtOnce,
    /// Fails in place of waiting, and is taken back when the process ends.
    Held,
}

/// A set of semaphores.
#[derive(Debug)]
pub struct Semaphores(i32);

impl Semaphores {
    /// The set of a key, of at least `count`.
    ///
    /// # Errors
    /// The system's.
    pub fn open(key: u32, count: i32) -> io::Result<Self> {
        // SAFETY: the call has no pointers.
        checked(unsafe { libc::semget(key as i32, count, 0) }).map(Self)
    }

    /// Adds to semaphores by their numbers, to all at once and only while none would be below zero.
    ///
    /// # Errors
    /// The system's: a set may have been removed.
    pub fn change(&self, changes: &[(u16, i16)], change: Change) -> io::Result<()> {
        let flags = match change {
            Change::Lasting => 0,
            Change::AtOnce => libc::IPC_NOWAIT,
            Change::Held => libc::IPC_NOWAIT | libc::SEM_UNDO,
        };
        let operation = |&(number, by): &(u16, i16)| libc::sembuf {
            sem_num: number,
            sem_op: by,
            sem_flg: flags as i16,
        };
        let mut operations: Vec<libc::sembuf> = changes.iter().map(operation).collect();
        loop {
            // SAFETY: the pointer and the length describe `operations`.
            let done = unsafe { libc::semop(self.0, operations.as_mut_ptr(), operations.len()) };
            match checked(done) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done.map(drop),
            }
        }
    }
}

/// The result of a call of the system.
fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
