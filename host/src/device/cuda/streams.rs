//! Points in streams, and the page-locked memory that copies pass through.

use cust::{memory::LockedBuffer, sys};

use super::facts::check;
use crate::error::Result;

/// Bytes of each of the page-locked buffers through which results are copied to the host: small enough that the first
/// copy starts soon and all buffers stay in the CPU's last-level cache, large enough to keep all threads busy.
pub(super) const STAGING_BYTES: usize = 8 << 20;

/// Number of buffers: one being copied, one waiting, one being filled, and one spare.
pub(super) const STAGING_SLOTS: usize = 4;

/// A point in a stream.
pub(super) struct Event(pub(super) sys::CUevent);

// SAFETY: events may be used by any thread whose current context is theirs.
unsafe impl Send for Event {}

impl Event {
    pub(super) fn new(name: &str, timing: bool) -> Result<Self> {
        let flags = if timing {
            sys::CUevent_flags_enum::CU_EVENT_DEFAULT
        } else {
            sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING
        };
        let mut event = std::ptr::null_mut();
        // SAFETY: `event` is written.
        check(name, unsafe { sys::cuEventCreate(&mut event, flags as u32) })?;
        Ok(Self(event))
    }

    pub(super) fn record(&self, name: &str, stream: sys::CUstream) -> Result<()> {
        // SAFETY: an event and a stream of one device.
        check(name, unsafe { sys::cuEventRecord(self.0, stream) })
    }

    pub(super) fn synchronize(&self, name: &str) -> Result<()> {
        // SAFETY: a live event.
        check(name, unsafe { sys::cuEventSynchronize(self.0) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: destroyed once; the driver keeps what is still waited for.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

/// Page-locked memory, and the event that says when it is free.
pub(super) type Slot = (LockedBuffer<u8>, Event);

/// A stream that several threads enqueue copies on.
#[derive(Clone, Copy)]
pub(super) struct SharedStream(pub(super) sys::CUstream);

// SAFETY: any thread whose current context is the stream's may use it.
unsafe impl Send for SharedStream {}
// SAFETY: as above.
unsafe impl Sync for SharedStream {}

impl SharedStream {
    pub(super) fn raw(self) -> sys::CUstream {
        self.0
    }
}

/// Page-locked memory that downloads pass through, one slot after the other.
pub(super) struct Staging {
    pub(super) slots: [Slot; STAGING_SLOTS],
    pub(super) next: usize,
}

impl Staging {
    /// The slot whose turn it is, no longer on its way, and its event.
    pub(super) fn next_slot(&mut self, name: &str) -> Result<&mut Slot> {
        let slot = self.next;
        self.next = (slot + 1) % STAGING_SLOTS;
        self.slots[slot].1.synchronize(name)?;
        Ok(&mut self.slots[slot])
    }
}
