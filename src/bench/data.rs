//! Random data, and where it lies.

use std::{cell::Cell, sync::Arc};

use corrust_host::{
    Result,
    device::{Buffer, Gpu, Stream},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rayon::prelude::*;

/// Random bytes, the same at every call.
pub fn random_bytes(length: usize) -> Vec<u8> {
    const PIECE: usize = 1 << 20;
    let mut bytes = vec![0; length];
    bytes.par_chunks_mut(PIECE).enumerate().for_each(|(seed, piece)| {
        StdRng::seed_from_u64(seed as u64).fill(piece);
    });
    bytes
}

/// Random halves between -2 and 2.
pub fn random_halves(length: usize) -> Vec<u8> {
    let mut bytes = random_bytes(length);
    bytes.par_chunks_exact_mut(2).for_each(|half| half[1] &= 0xbf);
    bytes
}

/// Copies of the same bytes in device memory, as many as it takes that none is in the L2 cache when its
/// turn comes again.
pub struct Ring {
    buffer: Buffer,
    slot: usize,
    slots: usize,
    next: Cell<usize>,
}

impl Ring {
    /// Uploads `bytes` to every place of the ring.
    ///
    /// # Errors
    /// [`corrust_host::Error::OutOfMemory`]; the device's own.
    pub fn new(gpu: &Arc<dyn Gpu>, bytes: &[u8]) -> Result<Self> {
        let ring = Self::empty(gpu, bytes.len())?;
        for slot in 0..ring.slots {
            let address = ring.buffer.address() + (slot * ring.slot) as u64;
            // SAFETY: a slot has room for the bytes.
            unsafe { gpu.upload(Stream::default(), address, bytes)? };
        }
        gpu.wait(Stream::default())?;
        Ok(ring)
    }

    /// Places for `bytes` bytes, contents undefined.
    ///
    /// # Errors
    /// [`corrust_host::Error::OutOfMemory`].
    pub fn empty(gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<Self> {
        let slot = bytes.next_multiple_of(256).max(256);
        let slots = (2 * gpu.facts().l2_bytes as usize).div_ceil(slot) + 1;
        Ok(Self { buffer: Buffer::new(gpu, slots * slot)?, slot, slots, next: Cell::new(0) })
    }

    /// Address of the place whose turn it is.
    pub fn next(&self) -> u64 {
        let slot = self.next.get();
        self.next.set((slot + 1) % self.slots);
        self.buffer.address() + (slot * self.slot) as u64
    }
}
