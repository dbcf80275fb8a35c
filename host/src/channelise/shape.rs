//! Shapes of an F-engine and the checks on them.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use corrust_gpu::abi::channelise::output;
use num_complex::Complex;

use crate::{
    error::{Error, Result},
    layout::Layout,
    sample::Encoding,
    samples::raw::{RawEncoding, RawLayout},
};

/// Range of the number of residues `K`, which is `2^a` or `3 * 2^a`.
pub const RESIDUES: RangeInclusive<usize> = 8..=1 << 20;

/// The most taps.
pub const MAX_TAPS: usize = 1024;

/// Encoding of a channelised sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpectrumEncoding {
    /// An encoding of the correlator and beamformer: integers are rounded and clamped, `cf16` is rounded.
    Voltage(Encoding),
    /// `cf32`: eight bytes, IEEE single real then imaginary.
    Cf32,
}

impl SpectrumEncoding {
    /// Every encoding.
    pub const ALL: [Self; 5] = [
        Self::Voltage(Encoding::Ci8),
        Self::Voltage(Encoding::Ci4),
        Self::Voltage(Encoding::Ci4Offset),
        Self::Voltage(Encoding::Cf16),
        Self::Cf32,
    ];

    /// Bytes of a sample.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Voltage(encoding) => encoding.bytes(),
            Self::Cf32 => 8,
        }
    }

    /// The largest magnitude of a component of integers.
    pub const fn limit(self) -> Option<i32> {
        match self {
            Self::Voltage(Encoding::Ci8) => Some(127),
            Self::Voltage(Encoding::Ci4 | Encoding::Ci4Offset) => Some(7),
            Self::Voltage(Encoding::Cf16 | Encoding::B1 | Encoding::B2) | Self::Cf32 => None,
        }
    }

    /// The kernels' number of it.
    pub(crate) fn output(self) -> u32 {
        match self {
            Self::Voltage(Encoding::Ci8) => output::CI8,
            Self::Voltage(Encoding::Ci4) => output::CI4,
            Self::Voltage(Encoding::Ci4Offset) => output::CI4_OFFSET,
            Self::Voltage(Encoding::Cf16) => output::CF16,
            Self::Voltage(Encoding::B1 | Encoding::B2) => unreachable!("checked"),
            Self::Cf32 => output::CF32,
        }
    }

    /// Sample number `index` of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is too short.
    pub(crate) fn decode(self, bytes: &[u8], index: usize) -> Complex<f32> {
        let bytes = &bytes[index * self.bytes()..];
        match self {
            Self::Voltage(encoding) => RawEncoding::from(encoding).decode(bytes, 0),
            Self::Cf32 => RawEncoding::Cf32.decode(bytes, 0),
        }
    }

    /// The byte that a missing sample consists of.
    pub const fn zero(self) -> u8 {
        match self {
            Self::Voltage(encoding) => encoding.zero()[0],
            Self::Cf32 => 0,
        }
    }
}

impl From<Encoding> for SpectrumEncoding {
    fn from(encoding: Encoding) -> Self {
        Self::Voltage(encoding)
    }
}

impl fmt::Display for SpectrumEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Voltage(encoding) => encoding.fmt(f),
            Self::Cf32 => f.pad("cf32"),
        }
    }
}

impl FromStr for SpectrumEncoding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.to_string() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown encoding of spectra or beams {text:?}: expected ci8, ci4, ci4-offset, cf16 or cf32"
            ))
        })
    }
}

/// Axes and encodings of samples and spectra, and the filter's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `N`: digitised signal paths.
    pub inputs: usize,
    /// `C`: frequency channels of a spectrum.
    pub channels: usize,
    /// `P`: a spectrum is made of `K P` raw samples.
    pub taps: usize,
    /// `D`: raw samples from one spectrum to the next, `K` or fewer.
    pub hop: usize,
    /// Encoding of a raw sample.
    pub raw: RawEncoding,
    /// Order of the axes of raw samples.
    pub raw_layout: RawLayout,
    /// Whether the band runs downwards: channels are conjugated, and come out in ascending frequency.
    pub inverted: bool,
    /// Encoding of a channelised sample.
    pub encoding: SpectrumEncoding,
    /// Order of the axes of spectra.
    pub layout: Layout,
}

impl Shape {
    /// `K`: `2 C` for real samples, `C` for complex ones.
    pub const fn residues(&self) -> usize {
        self.channels * if self.raw.is_complex() { 1 } else { 2 }
    }

    /// Raw samples that a spectrum is made of: `K P`.
    pub const fn window(&self) -> usize {
        self.residues() * self.taps
    }

    /// Spectra of `times` raw samples: `floor((T - K P) / D) + 1`, or none of fewer than `K P`.
    pub const fn spectra(&self, times: u64) -> u64 {
        match times.checked_sub(self.window() as u64) {
            Some(rest) => rest / self.hop as u64 + 1,
            None => 0,
        }
    }

    /// A channel's frequency in units of `fs / K`, from that of DC on: negative below it.
    pub const fn frequency(&self, channel: usize) -> i64 {
        let channels = self.channels as i64;
        let channel = channel as i64;
        match (self.raw.is_complex(), self.inverted) {
            (false, false) => channel,
            (false, true) => channel - (channels - 1),
            (true, false) => channel - channels / 2,
            (true, true) => channel - (channels / 2 - 1),
        }
    }

    /// Bytes of a spectrum of all inputs.
    pub const fn spectrum_bytes(&self) -> usize {
        self.channels * self.inputs * self.encoding.bytes()
    }

    /// Checks that the F-engine is supported.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are no inputs, `K`, the taps or the hop are none that can be had, or raw
    /// samples of less than a byte are to lie in order of time.
    pub fn check(&self) -> Result<()> {
        if self.inputs == 0 {
            return Err(Error::invalid("0 inputs: an F-engine needs at least 1"));
        }
        let raw = match self.raw {
            RawEncoding::Complex(encoding) => Some(encoding),
            _ => None,
        };
        let made = match self.encoding {
            SpectrumEncoding::Voltage(encoding) => Some(encoding),
            SpectrumEncoding::Cf32 => None,
        };
        if let Some(bits) = raw.into_iter().chain(made).find(|encoding| encoding.is_bits()) {
            return Err(Error::invalid(format!(
                "an F-engine of {bits} samples: expected ci8, ci4, ci4-offset or cf16"
            )));
        }
        let kind = if self.raw.is_complex() { "complex" } else { "real" };
        let residues = self.channels.saturating_mul(if self.raw.is_complex() { 1 } else { 2 });
        let odd = residues.checked_shr(residues.trailing_zeros()).unwrap_or(0);
        if !RESIDUES.contains(&residues) || !matches!(odd, 1 | 3) {
            let factor = if self.raw.is_complex() { "" } else { "2 x " };
            return Err(Error::invalid(format!(
                "{} channels of {kind} samples: expected {factor}channels to be 2^a or 3 x 2^a, {} to \
                 {}",
                self.channels,
                RESIDUES.start(),
                RESIDUES.end()
            )));
        }
        if !(1..=MAX_TAPS).contains(&self.taps) {
            return Err(Error::invalid(format!("{} taps: expected 1 to {MAX_TAPS}", self.taps)));
        }
        if !(1..=residues).contains(&self.hop) {
            return Err(Error::invalid(format!(
                "a hop of {} samples: expected 1 to {residues}, which is once the channels' spacing",
                self.hop
            )));
        }
        if self.raw_layout == RawLayout::Tn && self.raw.bits() < 8 {
            return Err(Error::invalid(format!(
                "raw samples of {} in the order tn: expected nt, where an input's bits stand together",
                self.raw
            )));
        }
        let addressable = self
            .inputs
            .checked_mul(self.window())
            .and_then(|samples| samples.checked_mul(16))
            .is_some_and(|bytes| bytes <= isize::MAX as usize);
        if !addressable {
            return Err(Error::invalid(format!(
                "{} inputs of {} samples a spectrum: they cannot be addressed",
                self.inputs,
                self.window()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        inputs: 2,
        channels: 8,
        taps: 4,
        hop: 16,
        raw: RawEncoding::I8,
        raw_layout: RawLayout::Nt,
        inverted: false,
        encoding: SpectrumEncoding::Cf32,
        layout: Layout::Tcn,
    };

    #[test]
    fn spectra_are_those_that_fit() {
        assert_eq!([0, 63, 64, 79, 80].map(|times| SHAPE.spectra(times)), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn frequencies_ascend() {
        let complex = Shape { raw: RawEncoding::Cf32, hop: 8, ..SHAPE };
        let ends = |shape: Shape| [shape.frequency(0), shape.frequency(7)];
        assert_eq!(ends(SHAPE), [0, 7]);
        assert_eq!(ends(Shape { inverted: true, ..SHAPE }), [-7, 0]);
        assert_eq!(ends(complex), [-4, 3]);
        assert_eq!(ends(Shape { inverted: true, ..complex }), [-3, 4]);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        SHAPE.check().unwrap();
        let two = RawEncoding::Vdif { bits: 2, complex: false };
        for (shape, found) in [
            (Shape { inputs: 0, ..SHAPE }, "0 inputs"),
            (Shape { channels: 0, ..SHAPE }, "0 channels of real samples"),
            (Shape { channels: 10, ..SHAPE }, "10 channels of real samples"),
            (Shape { channels: 2, ..SHAPE }, "2 channels of real samples"),
            (Shape { channels: usize::MAX, ..SHAPE }, "channels of real samples"),
            (Shape { channels: 1 << 20, ..SHAPE }, "to 1048576"),
            (Shape { taps: 0, ..SHAPE }, "0 taps"),
            (Shape { taps: 2000, ..SHAPE }, "2000 taps"),
            (Shape { hop: 17, ..SHAPE }, "hop of 17 samples: expected 1 to 16"),
            (Shape { hop: 0, ..SHAPE }, "hop of 0 samples"),
            (Shape { raw: two, raw_layout: RawLayout::Tn, ..SHAPE }, "expected nt"),
            (Shape { inputs: usize::MAX / 64, ..SHAPE }, "cannot be addressed"),
        ] {
            let error = shape.check().unwrap_err().to_string();
            assert!(error.contains(found), "{error}");
        }
    }

    #[test]
    fn encodings_round_trip() {
        for encoding in SpectrumEncoding::ALL {
            assert_eq!(encoding.to_string().parse::<SpectrumEncoding>().unwrap(), encoding);
        }
        assert!("i8".parse::<SpectrumEncoding>().unwrap_err().to_string().contains("\"i8\""));
    }
}
