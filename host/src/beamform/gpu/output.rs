//! Results of a piece and their way to the host.

use std::sync::Arc;

use corrust_gpu::abi::beamform::UNIT_TIMES;
use rayon::prelude::*;

use crate::{
    beamform::{beams::Room, shape::Shape},
    device::{
        gpu::{Gpu, LockedBytes, Stream},
        memory::Buffer,
    },
    error::Result,
};

/// Message of the `expect` that the array of a room is contiguous.
pub(super) const IN_ORDER: &str = "room was made in standard order";

/// Results of a piece.
pub(super) struct Output {
    pub(super) samples: Buffer,
    pub(super) powers: Buffer,
    pub(super) scratch: Scratch,
    /// Samples and powers on the host.
    pub(super) host_samples: LockedBytes,
    pub(super) host_powers: LockedBytes,
    pub(super) pending: Option<Pending>,
}

/// Memory of a launch beside its input and output.
pub(super) struct Scratch {
    /// Voltages in aligned rows, where those as delivered are not.
    pub(super) padded: Buffer,
    /// Sums over the dishes of earlier launches.
    pub(super) partial: Buffer,
}

/// A piece whose results are not in their place yet.
pub(super) struct Pending {
    pub(super) stream: Stream,
    pub(super) first_time: usize,
    pub(super) times: usize,
}

/// Makes locked memory at least `bytes` long.
pub(super) fn reserve(gpu: &Arc<dyn Gpu>, memory: &mut LockedBytes, bytes: usize) -> Result<()> {
    if memory.len() < bytes {
        *memory = gpu.locked_bytes(bytes)?;
    }
    Ok(())
}

/// Bytes from one row of `times` time samples to the next.
pub(super) fn pitch(shape: &Shape, times: usize) -> usize {
    times.next_multiple_of(UNIT_TIMES as usize) * shape.output.bytes()
}

impl Output {
    pub(super) fn new(gpu: &Arc<dyn Gpu>) -> Result<Self> {
        Ok(Self {
            samples: Buffer::new(gpu, 0)?,
            powers: Buffer::new(gpu, 0)?,
            scratch: Scratch::new(gpu)?,
            host_samples: gpu.locked_bytes(1)?,
            host_powers: gpu.locked_bytes(1)?,
            pending: None,
        })
    }

    /// Waits for a piece and copies its results to their place in the room.
    pub(super) fn place(
        &self,
        gpu: &Arc<dyn Gpu>,
        shape: &Shape,
        piece: &Pending,
        room: &mut Room<'_>,
    ) -> Result<()> {
        gpu.wait(piece.stream)?;
        let (.., row_bytes) = room.samples.dim();
        let sample_bytes = shape.output.bytes();
        let times = row_bytes / sample_bytes;
        let copy = |row: &mut [u8], from: &[u8], size: usize| {
            row[size * piece.first_time..][..size * piece.times]
                .copy_from_slice(&from[..size * piece.times]);
        };
        let pitch = pitch(shape, piece.times);
        let (samples, powers): (&[u8], &[u8]) = (&self.host_samples, &self.host_powers);
        // Rows of times of all beams.
        let beams = room.samples.outer_iter_mut().into_par_iter();
        beams.zip(samples.par_chunks_exact(pitch * shape.streams())).for_each(|(beam, samples)| {
            let rows = beam.into_slice().expect(IN_ORDER);
            rows.par_chunks_exact_mut(row_bytes)
                .zip(samples.par_chunks_exact(pitch))
                .for_each(|(row, from)| copy(row, from, sample_bytes));
        });
        if let Some(incoherent) = &mut room.incoherent {
            let rows = incoherent.as_slice_mut().expect(IN_ORDER);
            bytemuck::cast_slice_mut(rows)
                .par_chunks_exact_mut(4 * times)
                .zip(powers.par_chunks_exact(4 * piece.times))
                .for_each(|(row, from)| copy(row, from, 4));
        }
        Ok(())
    }
}

impl Scratch {
    pub(super) fn new(gpu: &Arc<dyn Gpu>) -> Result<Self> {
        Ok(Self { padded: Buffer::new(gpu, 0)?, partial: Buffer::new(gpu, 0)? })
    }
}
