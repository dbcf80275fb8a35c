//! Beams of a stream.

use std::ops::Range;

use corrust_host::{
    Beamformer, Error, Result, Samples,
    beamform::{Beams, Shape},
    samples::{Extents, Missing, Strides},
};

use super::{run::Product, source::Piece};

/// Beams of a recording whose inputs are all dishes of one polarisation, then all of the other; or are the dishes, with a
/// channel for each channel and polarisation.
pub struct BeamsOf<'a, Tell> {
    beamformer: Beamformer,
    beams: Beams,
    tell: Tell,
    steer: Option<Steer<'a>>,
    channels: Option<Range<usize>>,
}

/// May give a plan other weights before the samples from a time on.
type Steer<'a> = Box<dyn FnMut(&mut Beamformer, u64) -> Result<()> + 'a>;

impl<'a, Tell: FnMut(u64, Option<&mut Beams>, u64) -> Result<()>> BeamsOf<'a, Tell> {
    /// Beams of a plan; `tell` is given the first time of each piece, its beams, none within a long gap, and how many
    /// times it has. It may exchange beams with others, whose memory is used again.
    pub fn new(beamformer: Beamformer, tell: Tell) -> Self {
        Self { beamformer, beams: Beams::default(), tell, steer: None, channels: None }
    }

    /// Forms beams of some channels, all channels of the plan.
    #[must_use]
    pub fn of_channels(self, channels: Range<usize>) -> Self {
        Self { channels: Some(channels), ..self }
    }

    /// Calls `steer` with the plan and the first time of each piece before the piece's beams are formed: weights and shifts
    /// that it sets hold from that time on.
    #[must_use]
    pub fn steered(mut self, steer: impl FnMut(&mut Beamformer, u64) -> Result<()> + 'a) -> Self {
        self.steer = Some(Box::new(steer));
        self
    }
}

impl<Tell: FnMut(u64, Option<&mut Beams>, u64) -> Result<()>> Product for BeamsOf<'_, Tell> {
    fn process(&mut self, piece: &Piece<Samples<'_>>) -> Result<()> {
        let Some(samples) = &piece.samples else {
            return (self.tell)(piece.start, None, piece.times);
        };
        if let Some(steer) = &mut self.steer {
            steer(&mut self.beamformer, piece.start)?;
        }
        let Shape { dishes, polarisations, .. } = *self.beamformer.shape();
        let mut gaps = Vec::new();
        let samples = some(samples, self.channels.as_ref());
        let voltages = voltages(&samples, [dishes, polarisations], &mut gaps)?;
        self.beamformer.beamform_into(voltages, &mut self.beams)?;
        (self.tell)(piece.start, Some(&mut self.beams), piece.times)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The samples of some channels, or all.
pub(super) fn some<'a>(samples: &Samples<'a>, channels: Option<&Range<usize>>) -> Samples<'a> {
    channels.map_or(*samples, |range| samples.channels(range.clone()))
}

/// The samples with a channel for each channel and polarisation, as beamformers take them, and with their missing ones, which
/// are written to `gaps`.
pub(super) fn voltages<'a>(
    samples: &Samples<'a>,
    [dishes, polarisations]: [usize; 2],
    gaps: &'a mut Vec<Missing>,
) -> Result<Samples<'a>> {
    let (Extents { channels, inputs, times }, strides) = (samples.extents(), samples.strides());
    if inputs == dishes {
        return Ok(*samples);
    }
    if inputs != dishes * polarisations
        || polarisations > 1 && strides.channel != inputs * strides.input
    {
        return Err(Error::invalid(format!(
            "samples of {inputs} inputs: expected {dishes} dishes x {polarisations} polarisations, the channels one \
             after the other"
        )));
    }
    let extents = Extents { channels: channels * polarisations, inputs: dishes, times };
    let strides = Strides { channel: dishes * strides.input, ..strides };
    let voltages = Samples::strided(samples.memory(), samples.element(), extents, strides)?;
    *gaps = by_dish(samples.gaps(), dishes, polarisations);
    Ok(match samples.is_zeroed() {
        true => voltages.missing_zeroed(gaps),
        false => voltages.missing(gaps),
    })
}

/// The missing samples, counted by channels and polarisations, and dishes.
fn by_dish(
    gaps: impl Iterator<Item = Missing>,
    dishes: usize,
    polarisations: usize,
) -> Vec<Missing> {
    let mut all = Vec::new();
    for gap in gaps {
        for polarisation in 0..polarisations {
            let first = polarisation * dishes;
            let inputs = gap.inputs.start.max(first)..gap.inputs.end.min(first + dishes);
            if inputs.is_empty() {
                continue;
            }
            let inputs = inputs.start - first..inputs.end - first;
            all.extend(gap.channels.clone().map(|channel| {
                let stream = channel * polarisations + polarisation;
                Missing {
                    times: gap.times.clone(),
                    channels: stream..stream + 1,
                    inputs: inputs.clone(),
                }
            }));
        }
    }
    all
}
