//! Packets of one socket, as a stream takes them in.

use std::{
    borrow::Cow,
    marker::PhantomData,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{
    ring::Slots,
    spead::Fault,
    stream::{Stream, Ticket},
    window::Window,
};

/// Locks a value that no thread leaves half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A packet in the ring.
#[derive(Clone)]
pub(super) struct Arrived {
    /// The sender's number.
    pub source: u16,
    pub slot: u32,
    /// Its bytes in the ring.
    pub bytes: Range<usize>,
}

/// Understands the packets of one socket. Samples are brought to their places while nothing is locked.
pub(super) trait Intake<S: Stream>: Send + 'static {
    /// Takes in packets that lie in a ring, given as memory and slots; `fault` gets the faults of packets that are
    /// refused.
    fn take_in(
        &mut self,
        window: &Mutex<Window<S>>,
        ring: (&[u8], &mut Slots),
        packets: &[Arrived],
        fault: &mut dyn FnMut(Fault),
    );

    /// Finishes work in progress, as no packets come for a while.
    fn rest(&mut self, _ring: (&[u8], &mut Slots)) {}

    /// Gives up incomplete heaps.
    fn clear(&mut self, window: &Mutex<Window<S>>, ring: (&[u8], &mut Slots));
}

/// Kind of stream whose packets are independent of each other.
pub trait Single: Stream {
    /// Reserves the places of a packet's samples, and hands tickets and samples to `each`. Samples without one are counted.
    ///
    /// # Errors
    /// [`Fault`] of a packet that is refused.
    fn reserve<'a>(
        window: &mut Window<Self>,
        source: u16,
        packet: &'a [u8],
        each: &mut dyn FnMut(Ticket<Self>, Cow<'a, [u8]>),
    ) -> Result<(), Fault>;
}

impl<S: Single> Window<S> {
    /// Puts the samples of a packet from a sender where they belong.
    ///
    /// # Errors
    /// [`Fault`] of a packet that is refused; samples that have no place are counted.
    pub fn packet(&mut self, source: u16, packet: &[u8]) -> Result<(), Fault> {
        let stream = self.stream().clone();
        let each =
            &mut |mut ticket: Ticket<S>, bytes: Cow<'_, [u8]>| ticket.fill(&stream, 0, &bytes);
        S::reserve(self, source, packet, each)
    }
}

/// Takes in packets that stand each by itself.
pub(super) struct Singles<S>(pub PhantomData<S>);

impl<S: Single> Intake<S> for Singles<S> {
    fn take_in(
        &mut self,
        window: &Mutex<Window<S>>,
        (room, _): (&[u8], &mut Slots),
        packets: &[Arrived],
        fault: &mut dyn FnMut(Fault),
    ) {
        let mut places = Vec::with_capacity(packets.len());
        let stream = {
            let mut window = lock(window);
            for Arrived { source, bytes, .. } in packets {
                let each = &mut |ticket, bytes| places.push((ticket, bytes));
                let taken = S::reserve(&mut window, *source, &room[bytes.clone()], each);
                taken.err().into_iter().for_each(&mut *fault);
            }
            window.stream().clone()
        };
        for (mut ticket, bytes) in places {
            ticket.fill(&stream, 0, &bytes);
        }
    }

    fn clear(&mut self, _: &Mutex<Window<S>>, _: (&[u8], &mut Slots)) {}
}
