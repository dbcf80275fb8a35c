//! An F-engine whose spectra stay where they are made.

use std::ops::Range;

use super::{
    plan::Channeliser,
    shape::{self as channelise, SpectrumEncoding},
    spectra::Spectra,
};
use crate::{
    device::{gpu::Stream, memory::Buffer},
    error::{Error, Result},
    samples::{
        extents::Memory, missing::missing_within, raw::RawSamples, shape::Shape, view::Samples,
    },
};

/// An F-engine whose spectra are correlated. On a GPU they stay there.
pub struct Engine {
    plan: Channeliser,
    /// On a GPU: room for the spectra of a block, and for the counts of clipped samples.
    room: Option<[Buffer; 2]>,
    /// Spectra of the current block, without samples where they are in the room.
    spectra: Spectra,
    clipped: Vec<u64>,
    /// Whether the current spectra are in the room.
    on_device: bool,
}

impl Engine {
    /// A stream that begins.
    ///
    /// # Errors
    /// [`Error::Invalid`] when spectra are of `cf32`, which are not correlated; [`Error::OutOfMemory`].
    pub fn new(mut plan: Channeliser) -> Result<Self> {
        correlated(plan.shape())?;
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
        let (spectra, clipped) = (Spectra::default(), vec![0; inputs]);
        Ok(Self { plan, room, spectra, clipped, on_device: false })
    }

    /// The plan.
    pub fn plan(&mut self) -> &mut Channeliser {
        &mut self.plan
    }

    /// Number of spectra of `samples` raw samples of each input.
    pub fn spectra_of(&self, samples: u64) -> u64 {
        self.plan.shape().spectra(samples)
    }

    /// Shape of the spectra, as a correlator takes them.
    pub fn shape(&self) -> Result<Shape> {
        correlated(self.plan.shape())
    }

    /// Makes the spectra that more samples complete; how many they are.
    pub fn feed(&mut self, samples: RawSamples<'_>) -> Result<usize> {
        match &mut self.room {
            None => self.plan.channelise_into(samples, &mut self.spectra)?,
            Some([room, counts]) => {
                self.spectra = self.plan.channelise_buffer(samples, room, counts)?;
            }
        }
        self.on_device = self.room.is_some();
        Ok(self.count())
    }

    /// Makes the spectra that are left at the stream's end, and returns their number.
    pub fn finish(&mut self) -> Result<usize> {
        self.spectra = self.plan.finish()?;
        // They are few, and come to the host.
        self.on_device = false;
        Ok(self.count())
    }

    fn count(&mut self) -> usize {
        let counts = self.clipped.iter_mut().zip(&self.spectra.clipped);
        counts.for_each(|(sum, count)| *sum += count);
        self.spectra.times()
    }

    /// The number of the first of the spectra that were made last.
    pub fn first(&self) -> u64 {
        self.spectra.first
    }

    /// The spectra that were made last.
    pub fn view(&self) -> Samples<'_> {
        match &self.room {
            Some([room, _]) if self.on_device => {
                let Spectra { encoding, layout, extents, .. } = self.spectra;
                let SpectrumEncoding::Voltage(encoding) = encoding else { unreachable!("checked") };
                let memory = Memory::Device(room.slice());
                Samples::dense(memory, encoding.into(), layout, extents)
                    .missing(&self.spectra.missing)
            }
            _ => self.spectra.samples().expect("what is correlated was checked"),
        }
    }

    /// Number of the spectra within `range` that miss an input.
    pub fn missing_within(&self, range: &Range<usize>) -> usize {
        missing_within(&self.spectra.missing, range)
    }

    /// Samples of each input that were clipped so far.
    pub fn clipped(&self) -> Result<Vec<u64>> {
        let mut clipped = self.clipped.clone();
        if let Some([_, counts]) = &self.room {
            let mut on_device = vec![0; clipped.len()];
            counts.download(Stream::default(), &mut on_device)?;
            clipped.iter_mut().zip(on_device).for_each(|(sum, count)| *sum += count);
        }
        Ok(clipped)
    }
}

/// Shape of spectra, as a correlator takes them.
fn correlated(shape: &channelise::Shape) -> Result<Shape> {
    let SpectrumEncoding::Voltage(encoding) = shape.encoding else {
        return Err(Error::invalid(
            "spectra of cf32: expected ci8, ci4, ci4-offset or cf16, which are correlated and beamformed",
        ));
    };
    let (inputs, channels) = (shape.inputs, shape.channels);
    Ok(Shape { inputs, channels, encoding, layout: shape.layout })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::choice::Device;

    #[test]
    fn spectra_that_are_not_correlated_are_refused() {
        let plan = Channeliser::builder(1, 8).output(SpectrumEncoding::Cf32).device(Device::Cpu);
        let refused = Engine::new(plan.build().unwrap()).err().unwrap().to_string();
        assert!(refused.contains("cf32: expected ci8"), "{refused}");
    }
}
