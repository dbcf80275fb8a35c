//! Random data, and where it lies.

use std::{cell::Cell, rc::Rc, sync::Arc};

use crate::model::Model;
use corrust_host::{
    Encoding, Result,
    device::{Buffer, Gpu, LockedBytes, Rows, Stream},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use rayon::prelude::*;

/// Bytes that a thread makes at a time.
const PIECE: usize = 1 << 20;

/// Random bytes, the same at every call.
pub fn random_bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes.par_chunks_mut(PIECE).enumerate().for_each(|(seed, piece)| {
        StdRng::seed_from_u64(seed as u64).fill(piece);
    });
    bytes
}

/// `units` times the bytes that `make` makes of random codes.
fn coded<const CODES: usize, const BYTES: usize>(
    units: usize,
    make: impl Fn(&[u8; CODES]) -> [u8; BYTES] + Sync,
) -> Vec<u8> {
    let mut bytes = vec![0; units * BYTES];
    // Codes of a piece do not leave a core's cache.
    let codes = || vec![0; PIECE * CODES / BYTES];
    let pieces = bytes.par_chunks_mut(PIECE / BYTES * BYTES).enumerate();
    pieces.for_each_init(codes, |codes, (seed, piece)| {
        let units = piece.as_chunks_mut::<BYTES>().0;
        let codes = &mut codes[..CODES * units.len()];
        StdRng::seed_from_u64(seed as u64).fill(codes);
        units.iter_mut().zip(codes.as_chunks().0).for_each(|(unit, codes)| *unit = make(codes));
    });
    bytes
}

/// The same bytes in page-locked memory.
///
/// # Errors
/// As [`Gpu::locked_bytes`].
pub fn locked(gpu: &Arc<dyn Gpu>, bytes: &[u8]) -> Result<LockedBytes> {
    let mut locked = gpu.locked_bytes(bytes.len())?;
    if Model::is(gpu) {
        return Ok(locked);
    }
    let pieces = locked.par_chunks_mut(PIECE).zip(bytes.par_chunks(PIECE));
    pieces.for_each(|(to, from)| to.copy_from_slice(from));
    Ok(locked)
}

/// Random halves between -2 and 2.
pub fn random_halves(length: usize) -> Vec<u8> {
    let mut bytes = random_bytes(length);
    bytes.par_chunks_exact_mut(2).for_each(|half| half[1] &= 0xbf);
    bytes
}

/// Gaussian noise at a telescope's usual level: either part has a standard deviation of 20 units for `ci8`, 2.8
/// for 4 bits, 1 for `cf16`.
pub fn gaussian(encoding: Encoding, samples: usize) -> Vec<u8> {
    // Values of a byte's 256 codes: quantiles of the normal distribution.
    let mut normal: Vec<f64> = {
        let mut random = StdRng::seed_from_u64(0);
        let sum = |random: &mut StdRng| (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        (0..1 << 16).map(|_| sum(&mut random)).collect()
    };
    normal.sort_by(f64::total_cmp);
    let value = |code: u8| normal[256 * usize::from(code) + 128];
    match encoding {
        Encoding::Ci8 => {
            let table: Vec<u8> = (0..=255).map(|c| (20.0 * value(c)).round() as i8 as u8).collect();
            coded(2 * samples, |&[code]| [table[usize::from(code)]])
        }
        Encoding::Ci4 | Encoding::Ci4Offset => {
            let flip = if encoding == Encoding::Ci4Offset { 8 } else { 0 };
            let nibble = |c| (2.8 * value(c)).round().clamp(-7.0, 7.0) as i8 as u8 & 15 ^ flip;
            let table: Vec<u8> = (0..=255).map(nibble).collect();
            let code = |code: u8| table[usize::from(code)];
            coded(samples, |&[re, im]| [code(re) << 4 | code(im)])
        }
        Encoding::Cf16 => {
            let half = |c| half::f16::from_f64(value(c)).to_le_bytes();
            let table: Vec<[u8; 2]> = (0..=255).map(half).collect();
            coded(2 * samples, |&[code]| table[usize::from(code)])
        }
        // Noise sets as many bits as it clears.
        Encoding::B1 | Encoding::B2 => {
            let words = samples.div_ceil(encoding.times()) * encoding.planes();
            random_bytes(words * encoding.bytes())
        }
    }
}

#[derive(Clone)]
pub(crate) enum SampleMemory {
    Device(Rc<Ring>),
    Host(Rc<Vec<u8>>),
    /// In page-locked memory.
    Locked(Rc<LockedBytes>),
}

/// Copies of the same bytes in device memory, used in rotation: enough copies that each has left the L2 cache
/// before it is used again.
pub struct Ring {
    buffer: Buffer,
    slot: usize,
    slots: usize,
    next: Cell<usize>,
}

impl Ring {
    /// Brings `bytes` to every place of the ring.
    ///
    /// # Errors
    /// [`corrust_host::Error::OutOfMemory`]; the device's own.
    pub fn new(gpu: &Arc<dyn Gpu>, bytes: &[u8]) -> Result<Self> {
        let ring = Self::empty(gpu, bytes.len())?;
        let (first, stream) = (ring.buffer.address(), Stream::default());
        // SAFETY: a slot has room for the bytes, and the slots lie side by side.
        unsafe {
            gpu.upload(stream, first, bytes)?;
            for slot in 1..ring.slots {
                let address = first + (slot * ring.slot) as u64;
                gpu.copy_rows(stream, address, first, &Rows::one(bytes.len()))?;
            }
        }
        gpu.wait(stream)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_its_standard_deviation() {
        const SAMPLES: usize = 100_000;
        let check = |values: Vec<f64>, sigma: f64| {
            assert_eq!(values.len(), 2 * SAMPLES);
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|value| value * value).sum::<f64>();
            let found = (square / values.len() as f64).sqrt();
            assert!(mean.abs() < 0.02 * sigma && (found / sigma - 1.0).abs() < 0.03, "{found}");
        };
        let bytes = gaussian(Encoding::Ci8, SAMPLES);
        check(bytes.iter().map(|&byte| f64::from(byte as i8)).collect(), 20.0);
        let nibbles = |bytes: &[u8], excess: u8| {
            let parts = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            parts.map(|nibble| f64::from(((nibble ^ excess) << 4) as i8 >> 4)).collect()
        };
        check(nibbles(&gaussian(Encoding::Ci4, SAMPLES), 0), 2.8);
        check(nibbles(&gaussian(Encoding::Ci4Offset, SAMPLES), 8), 2.8);
        let bytes = gaussian(Encoding::Cf16, SAMPLES);
        let halves = bytes.as_chunks::<2>().0.iter();
        check(halves.map(|&half| half::f16::from_le_bytes(half).to_f64()).collect(), 1.0);
    }
}
