//! Powers of beams on a grid of a recording.

use std::ops::Range;

use corrust_host::{GridBeamformer, Result, Samples, beamform::grid::GridBeams};

use super::{
    beams::{some, voltages},
    run::Product,
    source::Piece,
};

/// Most bytes of zeros that stand for a long gap at a time.
const SILENCE_BYTES: usize = 1 << 24;

/// Powers of beams on a grid, of a recording whose inputs are as those of [`BeamsOf`](super::BeamsOf).
/// Times that do not fill a last block are left out.
pub struct GridBeamsOf<Tell> {
    plan: GridBeamformer,
    silence: Vec<u8>,
    tell: Tell,
    channels: Option<Range<usize>>,
}

impl<Tell: FnMut(GridBeams) -> Result<()>> GridBeamsOf<Tell> {
    /// Beams of a plan; `tell` is given the beams of each piece.
    pub fn new(plan: GridBeamformer, tell: Tell) -> Self {
        Self { plan, silence: Vec::new(), tell, channels: None }
    }

    /// Forms beams of some channels, all channels of the plan.
    #[must_use]
    pub fn of_channels(self, channels: Range<usize>) -> Self {
        Self { channels: Some(channels), ..self }
    }
}

impl<Tell: FnMut(GridBeams) -> Result<()>> Product for GridBeamsOf<Tell> {
    fn process(&mut self, piece: &Piece<Samples<'_>>) -> Result<()> {
        let shape = *self.plan.shape();
        if let Some(samples) = &piece.samples {
            let mut gaps = Vec::new();
            let samples = some(samples, self.channels.as_ref());
            let voltages = voltages(&samples, [shape.dishes, shape.polarisations], &mut gaps)?;
            return (self.tell)(self.plan.beamform(voltages)?);
        }
        let most = (SILENCE_BYTES / shape.bytes_per_time()).max(1) as u64;
        let mut left = piece.times;
        while left > 0 {
            let times = left.min(most);
            let bytes = times as usize * shape.bytes_per_time();
            self.silence.resize(bytes, shape.encoding.zero()[0]);
            (self.tell)(self.plan.beamform(&self.silence)?)?;
            left -= times;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
