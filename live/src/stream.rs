//! Streams of heaps or frames, which are put into chunks by their timestamps.

use std::{collections::HashMap, sync::Arc};

use super::{stores, tally::Fate};

/// Windows behind the open one within which a heap is late, not astray.
pub(super) const LATE_WINDOWS: u64 = 16;

/// A number for each sender, which tells them apart.
#[derive(Debug, Default)]
pub struct Sources(HashMap<u64, u16>);

impl Sources {
    /// Number of an address, from 1. Once all are used, further addresses share the last one.
    pub fn number(&mut self, address: u64) -> u16 {
        let next = self.0.len() as u16 + 1;
        match self.0.get(&address) {
            Some(&number) => number,
            None if next == u16::MAX => next,
            None => *self.0.entry(address).or_insert(next),
        }
    }
}

/// Destination of samples.
#[derive(Clone, Copy)]
pub struct Destination<P> {
    /// Unwrapped, in heaps or frames.
    pub slot: u64,
    /// The F-engine or thread.
    pub sender: usize,
    /// Facts about the samples beside time and sender.
    pub facts: P,
    /// The number of the address that they came from.
    pub source: u16,
}

/// Kind of stream that a window receives: heaps ([`Geometry`](super::Geometry)), or frames ([`Frames`](super::Frames)).
pub trait Stream: Clone + Send + 'static {
    /// Memory that samples are put into.
    type Chunk: Send;

    /// Facts about samples beside their time and sender.
    type Facts: Copy + Send;

    /// Heaps or frames of a chunk, one after the other.
    fn slots(&self) -> usize;

    /// Times of one of them.
    fn slot_times(&self) -> usize;

    /// Chunks that are open at a time.
    fn window(&self) -> usize;

    /// F-engines or threads.
    fn senders(&self) -> usize;

    /// Slots that samples fill, all of one chunk.
    fn slots_of(_: &Self::Facts) -> u64 {
        1
    }

    /// Memory of a chunk's samples, shared with the threads that fill it.
    type Memory: Send + Sync;

    /// Resets a used chunk as the empty chunk `number`.
    fn begin(&self, chunk: &mut Self::Chunk, number: u64);

    /// Claims the place of samples of `bytes` bytes in their chunk, or returns another fate. Claimed places never overlap.
    fn claim(
        &self,
        chunk: &mut Self::Chunk,
        place: &Destination<Self::Facts>,
        bytes: usize,
    ) -> Fate;

    /// Memory of a chunk.
    fn memory(chunk: &mut Self::Chunk) -> &mut Arc<Self::Memory>;

    /// Brings samples, or a part of them that begins at a byte, to their place.
    ///
    /// # Safety
    /// The place was claimed for them, and no other thread fills it now.
    unsafe fn fill(
        &self,
        memory: &Self::Memory,
        place: &Destination<Self::Facts>,
        offset: usize,
        bytes: &[u8],
    );
}

/// Right to fill a place of a chunk, which is not handed out before.
pub struct Ticket<S: Stream> {
    pub(super) memory: Arc<S::Memory>,
    pub(super) place: Destination<S::Facts>,
}

impl<S: Stream> Ticket<S> {
    /// Brings the samples, or a part of them that begins at a byte, to their place.
    pub(super) fn fill(&mut self, stream: &S, offset: usize, bytes: &[u8]) {
        // SAFETY: a ticket is given for a place that was taken, once, and not cloned.
        unsafe { stream.fill(&self.memory, &self.place, offset, bytes) };
    }
}

impl<S: Stream> Drop for Ticket<S> {
    fn drop(&mut self) {
        stores::settle();
    }
}
