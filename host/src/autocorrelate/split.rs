//! Autocorrelation on several GPUs, which share the rows: each gets the counts of the sensors from the first
//! to the last that its rows need.

use std::{ops::Range, sync::Arc};

use crate::{
    autocorrelate::{backend::Backend, shape::Shape, state::State, sums_mut::SumsMut},
    device::gpu::Gpu,
    error::Result,
    kernels::autocorrelate::Kernel,
    layout::Layout,
    samples::view::Samples,
    stream::parts::Parts,
};

/// The state of a stream, each row of which is on one of the GPUs.
pub(super) struct Split {
    shape: Shape,
    pairs: Vec<[u32; 2]>,
    instants: u64,
    pub(super) parts: Parts<RowPart>,
    /// The state on its way to one of the GPUs, whose memory the next one uses again.
    state: Option<State>,
}

/// Some of the rows.
pub(super) struct RowPart {
    pub(super) kernel: Kernel,
    backend: Box<dyn Backend>,
    sensors: Range<usize>,
    /// The state as it was asked for last, whose memory is used again.
    state: State,
}

impl Split {
    /// Puts `state` on `gpus`; `on` makes the backend of a part.
    pub(super) fn new(
        gpus: Vec<Arc<dyn Gpu>>,
        state: State,
        on: impl Fn(Arc<dyn Gpu>, State) -> Result<(Kernel, Box<dyn Backend>)>,
    ) -> Result<Self> {
        let parts = Parts::new(gpus, state.pairs.len(), |gpu, rows| {
            let needed = state.pairs[rows.clone()].as_flattened();
            let first = *needed.iter().min().expect("a part has rows");
            let last = *needed.iter().max().expect("a part has rows");
            let sensors = first as usize..last as usize + 1;
            let state = state.rows(rows, first, sensors.len());
            let room = State::new(state.shape, state.pairs.clone());
            let (kernel, backend) = on(gpu, state)?;
            Ok(RowPart { kernel, backend, sensors, state: room })
        })?;
        let State { shape, pairs, instants, .. } = state;
        Ok(Self { shape, pairs, instants, parts, state: None })
    }
}

impl Backend for Split {
    fn accumulate(&mut self, counts: &Samples<'_>) -> Result<()> {
        self.parts.feed(
            counts,
            Layout::Tcn,
            std::iter::repeat(()),
            |part, counts| counts.inputs(part.backend.sensors.clone()),
            |part, counts, ()| part.backend.accumulate(counts),
        )?;
        self.instants += counts.extents().times as u64;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.parts.each_alone(|part| part.backend.wait())
    }

    fn state_into(&mut self, state: &mut State) -> Result<()> {
        self.parts.each_alone(|part| part.backend.state_into(&mut part.state))?;
        state.make_room(&self.shape, &self.pairs);
        state.instants = self.instants;
        let rows: Vec<_> = self.parts.ranges().collect();
        for (rows, part) in rows.iter().zip(self.parts.backends()) {
            state.set_rows(rows, &part.state);
        }
        Ok(())
    }

    /// Through the host, wherever the room is.
    fn snapshot_device(&mut self, room: &SumsMut<'_>) -> Result<()> {
        let (gpus, rows) = (self.parts.gpus(), self.pairs.len());
        let products = room.products.owner(gpus, "sums", self.shape.points() * rows)?.clone();
        let totals = match &room.totals {
            Some(totals) => Some((totals, totals.owner(gpus, "totals", 2 * rows)?.clone())),
            None => None,
        };
        let state = self.state.take();
        let mut state = state.unwrap_or_else(|| State::new(self.shape, self.pairs.clone()));
        self.state_into(&mut state)?;
        room.products.upload(&products, 0, &state.products)?;
        if let Some((totals, owner)) = totals {
            totals.upload(&owner, 0, state.totals.as_flattened())?;
        }
        self.state = Some(state);
        Ok(())
    }
}
