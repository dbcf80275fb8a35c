//! Packets of one socket, as a stream takes them in.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    chunks::{Stream, Window},
    spead::Fault,
};

/// Locks a value that no thread leaves half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Understands the packets of one socket.
pub(super) trait Intake<S: Stream>: Send + 'static {
    /// Takes in a packet from a sender.
    ///
    /// # Errors
    /// [`Fault`] of a packet that is none.
    fn take(
        &mut self,
        window: &Mutex<Window<S>>,
        source: u16,
        packet: &[u8],
    ) -> std::result::Result<(), Fault>;

    /// Gives up what is incomplete.
    fn clear(&mut self, window: &Mutex<Window<S>>);
}
