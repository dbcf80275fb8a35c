//! Beamforming on several GPUs, which share the channels.

use std::sync::Arc;

use super::gpu::GpuBackend;
use crate::{
    beamform::{
        backend::Backend,
        beams::{Beams, BeamsMut, Room},
        shape::Shape,
    },
    device::gpu::Gpu,
    error::Result,
    layout::Layout,
    samples::view::Samples,
    stream::parts::Parts,
};

/// A beamformer of which each channel is on one of the GPUs.
pub(super) struct Split {
    shape: Shape,
    pub(super) parts: Parts<GpuBackend>,
    /// Beams on their way to one of the GPUs, whose memory the next ones use again.
    beams: Beams,
}

impl Split {
    /// Shares the channels of `shape`; `on` makes the backend of a part.
    pub(super) fn new(
        gpus: Vec<Arc<dyn Gpu>>,
        shape: &Shape,
        on: impl Fn(Arc<dyn Gpu>, &Shape) -> Result<GpuBackend>,
    ) -> Result<Self> {
        let parts = Parts::new(gpus, shape.channels, |gpu, channels| {
            on(gpu, &Shape { channels: channels.len(), ..*shape })
        })?;
        Ok(Self { shape: *shape, parts, beams: Beams::default() })
    }
}

impl Backend for Split {
    fn set_weights(&mut self, weights: &[u8]) -> Result<()> {
        let shares = self.parts.shares(weights);
        self.parts.each(shares, |part, weights| part.backend.set_weights(weights))
    }

    fn set_shifts(&mut self, shifts: &[u32]) -> Result<()> {
        let shares = self.parts.shares(shifts);
        self.parts.each(shares, |part, shifts| part.backend.set_shifts(shifts))
    }

    fn beamform(&mut self, voltages: &Samples<'_>, beams: &mut Beams) -> Result<()> {
        let polarisations = self.shape.polarisations;
        let rooms = self.parts.rooms(beams.room(), Room::split);
        self.parts.feed(
            voltages,
            Layout::Tcn,
            rooms,
            |part, voltages| {
                let channels = &part.range;
                voltages.channels(channels.start * polarisations..channels.end * polarisations)
            },
            |backend, voltages, mut room| backend.beamform_room(voltages, &mut room),
        )
    }

    /// Through the host, wherever the room is.
    fn beamform_device(&mut self, voltages: &Samples<'_>, room: &BeamsMut<'_>) -> Result<()> {
        let (gpus, times) = (self.parts.gpus(), voltages.extents().times);
        let bytes = self.shape.shifts() * times * self.shape.output.bytes();
        let samples = room.samples.owner(gpus, "samples", bytes)?.clone();
        let counts = match &room.clipped {
            Some(counts) => Some((counts, counts.owner(gpus, "counts", self.shape.shifts())?)),
            None => None,
        };
        let counts = counts.map(|(counts, owner)| (counts, owner.clone()));
        let mut beams = std::mem::take(&mut self.beams);
        beams.make_room(&self.shape, times, false);
        self.beamform(voltages, &mut beams)?;
        const WHY: &str = "room was made in standard order";
        room.samples.upload(&samples, 0, beams.samples.as_slice().expect(WHY))?;
        if let Some((counts, owner)) = counts {
            let mut sums = vec![0_u64; self.shape.shifts()];
            let there = counts.read();
            let bytes = bytemuck::cast_slice_mut(&mut sums);
            // SAFETY: as many counts as were checked.
            unsafe { owner.download(there.stream(), there.address(), bytes)? };
            sums.iter_mut().zip(&beams.clipped).for_each(|(sum, clipped)| *sum += clipped);
            counts.upload(&owner, 0, &sums)?;
        }
        self.beams = beams;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.parts.each_alone(Backend::wait)
    }
}
