//! Correlation on several GPUs, which share the channels.

use std::{ops::Range, sync::Arc};

use super::{Backend, Kernel, Setup, Shape, Visibilities, baselines, gpu::GpuBackend};
use crate::{Result, device::Gpu, samples::Samples, split::Parts};

/// The visibilities of integrations in the making, each channel's on one of the GPUs.
pub(super) struct Split {
    shape: Shape,
    parts: Parts<GpuBackend>,
}

impl Split {
    /// Reserves the visibilities of a plan on `gpus`.
    pub(super) fn new(gpus: Vec<Arc<dyn Gpu>>, setup: &Setup<'_>) -> Result<Self> {
        let shape = *setup.shape;
        let parts = Parts::new(gpus, shape.channels, |gpu, channels| {
            let shape = Shape { channels: channels.len(), ..shape };
            GpuBackend::new(gpu, &Setup { shape: &shape, ..*setup })
        })?;
        Ok(Self { shape, parts })
    }
}

impl Backend for Split {
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<&[u8]>) -> Result<()> {
        self.parts.feed(
            samples,
            self.shape.layout,
            std::iter::repeat(gates),
            |part, samples| samples.channels(part.range.clone()),
            |backend, samples, gates| backend.accumulate(samples, gates),
        )
    }

    fn accumulate_shares(&mut self, shares: &[Samples<'_>]) -> Result<()> {
        self.parts.each(shares, |part, share| part.backend.accumulate(share, None))
    }

    fn shares(&self) -> Vec<Range<usize>> {
        self.parts.ranges().collect()
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()> {
        let row = baselines(self.shape.inputs);
        let mut rooms = Vec::new();
        let mut rest = visibilities.room();
        for channels in self.parts.ranges() {
            let (room, after) = rest.split(channels.len() * row);
            rooms.push(room);
            rest = after;
        }
        self.parts.each(rooms, |part, room| part.backend.dump_room(gate, room))
    }

    fn reset(&mut self) {
        // Nothing is enqueued.
        self.parts.backends().for_each(Backend::reset);
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
