//! The spectra of a recording of raw voltages, block by block.

use std::ops::Range;

use super::Voltages;
use crate::{
    Channeliser, Error, Result,
    channelise::{Spectra, SpectrumEncoding},
    correlate::Shape,
    device::{Buffer, Stream},
    format::missing_within,
    samples::{Memory, Samples},
};

/// An F-engine that is fed with a recording. On a GPU spectra stay there.
pub(super) struct SpectraOf {
    voltages: Voltages,
    plan: Channeliser,
    /// On a GPU: room for the spectra of a block, and for the counts of clipped samples.
    room: Option<[Buffer; 2]>,
    /// Of the current block, without samples where they are in the room.
    spectra: Spectra,
    clipped: Vec<u64>,
    ended: bool,
}

impl SpectraOf {
    /// Spectra of a stream that begins with the recording.
    pub(super) fn new(voltages: Voltages, mut plan: Channeliser) -> Result<Self> {
        plan.reset();
        let inputs = plan.shape().inputs;
        let room = match plan.gpu() {
            None => None,
            Some(gpu) => {
                let counts = Buffer::new(gpu, size_of::<u64>() * inputs)?;
                counts.clear(Stream::default())?;
                Some([Buffer::new(gpu, 0)?, counts])
            }
        };
        let spectra = Spectra::default();
        Ok(Self { voltages, plan, room, spectra, clipped: vec![0; inputs], ended: false })
    }

    /// What a correlator takes them for.
    pub(super) fn shape(&self) -> Result<Shape> {
        let shape = self.plan.shape();
        let SpectrumEncoding::Voltage(encoding) = shape.encoding else {
            return Err(Error::invalid(
                "spectra of cf32: expected ci8, ci4, ci4-offset or cf16, which are correlated and \
                 beamformed",
            ));
        };
        let (inputs, channels) = (shape.inputs, shape.channels);
        Ok(Shape { inputs, channels, encoding, layout: shape.layout })
    }

    /// Spectra of the whole recording; `u64::MAX` of a stream whose length nobody knows.
    pub(super) fn recorded(&self) -> u64 {
        match self.voltages.recorded() {
            u64::MAX => u64::MAX,
            times => self.plan.shape().spectra(times),
        }
    }

    /// Goes on to the next block of spectra and says how many they are; [`None`] after the last.
    pub(super) fn next_block(&mut self) -> Result<Option<usize>> {
        while !self.ended {
            match (self.voltages.next_piece()?, &mut self.room) {
                (Some(samples), None) => self.plan.channelise_into(samples, &mut self.spectra)?,
                (Some(samples), Some([room, counts])) => {
                    self.spectra = self.plan.channelise_buffer(samples, room, counts)?;
                }
                (None, _) => {
                    self.ended = true;
                    self.spectra = self.plan.finish()?;
                }
            }
            let counts = self.clipped.iter_mut().zip(&self.spectra.clipped);
            counts.for_each(|(sum, count)| *sum += count);
            if self.spectra.times() > 0 {
                return Ok(Some(self.spectra.times()));
            }
        }
        Ok(None)
    }

    /// The current block.
    pub(super) fn view(&self) -> Samples<'_> {
        match &self.room {
            // Those that are left at the end are few, and come to the host.
            Some([room, _]) if !self.ended => {
                let Spectra { encoding, layout, extents, .. } = self.spectra;
                let SpectrumEncoding::Voltage(encoding) = encoding else { unreachable!("checked") };
                let memory = Memory::Device(room.slice());
                Samples::dense(memory, encoding.into(), layout, extents)
                    .missing(&self.spectra.missing)
            }
            _ => self.spectra.samples().expect("what is correlated was checked"),
        }
    }

    /// Spectra of the current block within `range` of which an input is missing.
    pub(super) fn missing_within(&self, range: &Range<usize>) -> usize {
        missing_within(&self.spectra.missing, range)
    }

    /// Samples of each input that were clipped so far.
    pub(super) fn clipped(&self) -> Result<Vec<u64>> {
        let mut clipped = self.clipped.clone();
        if let Some([_, counts]) = &self.room {
            let mut on_device = vec![0; clipped.len()];
            counts.download(Stream::default(), &mut on_device)?;
            clipped.iter_mut().zip(on_device).for_each(|(sum, count)| *sum += count);
        }
        Ok(clipped)
    }
}
