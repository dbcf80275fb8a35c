//! Beamforming on several GPUs, which share the channels.

use std::sync::Arc;

use super::{Backend, Beams, Kernel, Shape, Weight, gpu::GpuBackend};
use crate::{Layout, Result, device::Gpu, samples::Samples, split::Parts};

/// A beamformer of which each channel is on one of the GPUs.
pub(super) struct Split {
    shape: Shape,
    parts: Parts<GpuBackend>,
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
        Ok(Self { shape: *shape, parts })
    }
}

impl Backend for Split {
    fn set_weights(&mut self, weights: &[Weight]) -> Result<()> {
        let channel = self.shape.weights() / self.shape.channels;
        let all = self.parts.ranges().map(|range| range.start * channel..range.end * channel);
        let all: Vec<_> = all.map(|range| &weights[range]).collect();
        self.parts.each(all, |part, weights| part.backend.set_weights(weights))
    }

    fn set_shifts(&mut self, shifts: &[u32]) -> Result<()> {
        let channel = self.shape.shifts() / self.shape.channels;
        let all = self.parts.ranges().map(|range| range.start * channel..range.end * channel);
        let all: Vec<_> = all.map(|range| &shifts[range]).collect();
        self.parts.each(all, |part, shifts| part.backend.set_shifts(shifts))
    }

    fn beamform(&mut self, voltages: &Samples<'_>, beams: &mut Beams) -> Result<()> {
        let polarisations = self.shape.polarisations;
        let mut rooms = Vec::new();
        let mut rest = beams.room();
        for channels in self.parts.ranges() {
            let (room, after) = rest.split(channels.len());
            rooms.push(room);
            rest = after;
        }
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

    fn wait(&mut self) -> Result<()> {
        self.parts.each_alone(Backend::wait)
    }

    fn device_name(&self) -> &str {
        self.parts.name()
    }

    fn kernel(&self) -> Kernel {
        self.parts.first().kernel()
    }
}
