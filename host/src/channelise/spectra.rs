//! Results of an F-engine.

use num_complex::Complex;

use crate::{
    channelise::shape::{Shape, SpectrumEncoding},
    device::{host, memory::DeviceSliceMut},
    error::{Error, Result},
    layout::Layout,
    sample::Encoding,
    samples::{
        extents::{Extents, Memory},
        missing::Missing,
        view::Samples,
    },
};

/// Spectra that a block of raw samples completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spectra {
    /// Number of the first of them, counted from the stream's start.
    pub first: u64,
    /// Samples, `[spectrum][channel][input]` (`tcn`) or `[channel][input][spectrum]` (`cnt`).
    pub bytes: Vec<u8>,
    /// Encoding of a sample.
    pub encoding: SpectrumEncoding,
    /// Order of the axes.
    pub layout: Layout,
    /// Number of samples along each axis; a spectrum is a time sample.
    pub extents: Extents,
    /// Spectra of inputs, counted from the first of these, that are zero because a raw sample is missing.
    pub missing: Vec<Missing>,
    /// Samples of each input of which at least one component was clamped.
    pub clipped: Vec<u64>,
}

impl Default for Spectra {
    fn default() -> Self {
        Self {
            first: 0,
            bytes: Vec::new(),
            encoding: Encoding::Ci8.into(),
            layout: Layout::Tcn,
            extents: Extents { channels: 0, inputs: 0, times: 0 },
            missing: Vec::new(),
            clipped: Vec::new(),
        }
    }
}

impl Spectra {
    /// Makes room for `times` spectra.
    pub(super) fn make_room(&mut self, shape: &Shape, times: usize) -> Result<()> {
        let bytes = shape.spectrum_bytes().saturating_mul(times);
        if self.bytes.len() != bytes {
            self.bytes = host::zeros(bytes)?;
        }
        self.encoding = shape.encoding;
        self.layout = shape.layout;
        self.extents = Extents { channels: shape.channels, inputs: shape.inputs, times };
        self.missing.clear();
        self.clipped.clear();
        self.clipped.resize(shape.inputs, 0);
        Ok(())
    }

    /// Number of spectra.
    pub fn times(&self) -> usize {
        self.extents.times
    }

    /// The samples, for a [`Correlator`](crate::Correlator) or a [`Beamformer`](crate::Beamformer).
    ///
    /// # Errors
    /// [`Error::Invalid`] for `cf32`, which neither takes.
    pub fn samples(&self) -> Result<Samples<'_>> {
        let SpectrumEncoding::Voltage(encoding) = self.encoding else {
            return Err(Error::invalid(
                "spectra of cf32: expected ci8, ci4, ci4-offset or cf16, which are correlated and \
                 beamformed",
            ));
        };
        let memory = Memory::Host(&self.bytes);
        let samples = Samples::dense(memory, encoding.into(), self.layout, self.extents);
        Ok(samples.missing(&self.missing))
    }

    /// A sample.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn get(&self, spectrum: usize, channel: usize, input: usize) -> Complex<f32> {
        let Extents { channels, inputs, times } = self.extents;
        assert!(spectrum < times && channel < channels && input < inputs, "not among the spectra");
        let index = match self.layout {
            Layout::Tcn => (spectrum * channels + channel) * inputs + input,
            Layout::Cnt => (channel * inputs + input) * times + spectrum,
        };
        self.encoding.decode(&self.bytes, index)
    }
}

/// Room on a GPU for the spectra of a block of raw samples.
#[derive(Debug)]
pub struct SpectraMut<'a> {
    /// Bytes of the samples of [`Channeliser::upcoming`](super::Channeliser::upcoming) spectra; work is enqueued
    /// in the order of its stream.
    pub samples: DeviceSliceMut<'a>,
    /// Counts of each input that those of clipped samples are added to, if they are wanted.
    pub clipped: Option<DeviceSliceMut<'a, u64>>,
}

impl<'a> From<DeviceSliceMut<'a>> for SpectraMut<'a> {
    fn from(samples: DeviceSliceMut<'a>) -> Self {
        Self { samples, clipped: None }
    }
}
