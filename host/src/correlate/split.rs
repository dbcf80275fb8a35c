//! Correlation on several GPUs, which share the channels.

use std::sync::Arc;

use super::{cpu, gpu::GpuBackend, visibilities::Room};
use crate::{
    backend::Placed,
    correlate::{
        backend::{Backend, Setup},
        baselines::baselines,
        gates::Gates,
        visibilities::{Visibilities, VisibilitiesMut},
    },
    device::gpu::Gpu,
    error::Result,
    kernels::correlate::Kernel,
    samples::{shape::Shape, view::Samples},
    stream::parts::Parts,
};

/// The visibilities of integrations in the making, each channel's on one of the GPUs.
pub(super) struct Split {
    shape: Shape,
    gates: usize,
    parts: Parts<GpuBackend>,
    /// A dump on its way to one of the GPUs, whose memory the next one uses again.
    visibilities: Visibilities,
}

impl Split {
    /// Reserves the visibilities of a plan on `gpus`.
    pub(super) fn new(gpus: Vec<Arc<dyn Gpu>>, setup: &Setup<'_>) -> Result<Self> {
        let shape = *setup.shape;
        let parts = Parts::new(gpus, shape.channels, |gpu, channels| {
            let shape = Shape { channels: channels.len(), ..shape };
            GpuBackend::new(gpu, &Setup { shape: &shape, ..*setup })
        })?;
        Ok(Self { shape, gates: setup.gates, parts, visibilities: Visibilities::default() })
    }
}

impl Backend for Split {
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        self.parts.feed(
            samples,
            self.shape.layout,
            self.parts
                .ranges()
                .map(|channels| gates.map(|gates| gates.channels(channels)))
                .collect::<Vec<_>>(),
            |part, samples| samples.channels(part.range.clone()),
            |backend, samples, gates| backend.accumulate(samples, gates),
        )
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()> {
        let row = baselines(self.shape.inputs);
        let rooms =
            self.parts.rooms(visibilities.room(), |room, channels| room.split(channels * row));
        self.parts.each(rooms, |part, room| part.backend.dump_room(gate, room))
    }

    /// Through the host, wherever the room is.
    fn dump_device(&mut self, room: &VisibilitiesMut<'_>) -> Result<()> {
        const WHAT: &str = "visibilities";
        let sums = self.shape.channels * baselines(self.shape.inputs);
        let expected = self.gates * sums;
        let owner = match room {
            VisibilitiesMut::Integer(room) => room.owner(self.parts.gpus(), WHAT, expected)?,
            VisibilitiesMut::Float(room) => room.owner(self.parts.gpus(), WHAT, expected)?,
        };
        let owner = owner.clone();
        let mut visibilities = std::mem::take(&mut self.visibilities);
        visibilities.make_room(&self.shape)?;
        for gate in 0..self.gates {
            self.dump_into(gate, &mut visibilities)?;
            match (room, visibilities.room()) {
                (VisibilitiesMut::Integer(to), Room::Integer(from)) => {
                    to.upload(&owner, gate * sums, from)?;
                }
                (VisibilitiesMut::Float(to), Room::Float(from)) => {
                    to.upload(&owner, gate * sums, from)?;
                }
                _ => unreachable!("the plan checked which sums there are"),
            }
        }
        self.visibilities = visibilities;
        Ok(())
    }

    fn reset(&mut self) {
        // Nothing is enqueued.
        self.parts.backends().for_each(Backend::reset);
    }

    fn wait(&mut self) -> Result<()> {
        self.parts.each_alone(Backend::wait)
    }
}

/// The backend of samples all of which it multiplies alike, on some GPUs, or on the CPU where there is none.
pub(super) fn plain(
    gpus: &[Arc<dyn Gpu>],
    setup: &Setup<'_>,
) -> Result<Placed<dyn Backend, Kernel>> {
    Ok(match gpus {
        [] => Placed::new(gpus, cpu::backend(setup)?),
        [gpu] => {
            let backend = GpuBackend::new(gpu.clone(), setup)?;
            Placed::new(gpus, (backend.kernel, Box::new(backend)))
        }
        _ => {
            let split = Split::new(gpus.to_vec(), setup)?;
            let gpus = &gpus[..split.parts.count()];
            Placed::new(gpus, (split.parts.first().kernel, Box::new(split)))
        }
    })
}
