//! Shapes of a filter bank of subchannels, and the checks on them.

use std::ops::RangeInclusive;

use corrust_gpu::abi::channelise::raw;
use num_complex::Complex;

use crate::{
    channelise::shape::{MAX_TAPS, SpectrumEncoding},
    error::{Error, Result},
    sample::Encoding,
};

/// Subchannels that a channel may be made into, each a power of two.
pub const FACTORS: RangeInclusive<usize> = 2..=512;

/// Most that a component of a subchannel may become, whatever the samples: no sum on the way to it is infinite.
const MOST: f64 = 1e30;

/// Axes and encodings of samples and subchannels, and the filter's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `N`: inputs.
    pub inputs: usize,
    /// `F`: channels.
    pub channels: usize,
    /// `U`: subchannels of a channel.
    pub factor: usize,
    /// `M`: a spectrum is made of `M U` samples.
    pub taps: usize,
    /// Encoding of a sample.
    pub encoding: Encoding,
    /// Encoding of a sample of a subchannel.
    pub output: SpectrumEncoding,
}

impl Shape {
    pub(super) fn check(&self) -> Result<()> {
        let Self { inputs, channels, factor, taps, encoding, output } = *self;
        if inputs == 0 || channels == 0 {
            return Err(Error::invalid(format!(
                "{channels} channels and {inputs} inputs: expected at least 1 of each"
            )));
        }
        if !FACTORS.contains(&factor) || !factor.is_power_of_two() {
            return Err(Error::invalid(format!(
                "{factor} subchannels of a channel: expected a power of two, {} to {}",
                FACTORS.start(),
                FACTORS.end()
            )));
        }
        if !(1..=MAX_TAPS).contains(&taps) {
            return Err(Error::invalid(format!("{taps} taps: expected 1 to {MAX_TAPS}")));
        }
        let bits = [SpectrumEncoding::from(encoding), output].into_iter().find(|encoding| {
            matches!(encoding, SpectrumEncoding::Voltage(Encoding::B1 | Encoding::B2))
        });
        if let Some(encoding) = bits {
            return Err(Error::invalid(format!(
                "subchannels of or in {encoding}: expected ci8, ci4, ci4-offset or cf16"
            )));
        }
        Ok(())
    }

    /// Bytes of the samples of a time.
    pub(super) fn time_bytes(&self) -> usize {
        self.row().saturating_mul(self.encoding.bytes())
    }

    pub(super) fn spectrum_bytes(&self) -> usize {
        self.row().saturating_mul(self.factor).saturating_mul(self.output.bytes())
    }

    fn row(&self) -> usize {
        self.channels.saturating_mul(self.inputs)
    }

    /// The kernels' number of the encoding of a sample's component.
    pub(super) fn raw(&self) -> u32 {
        match self.encoding {
            Encoding::Ci8 => raw::I8,
            Encoding::Ci4 => raw::NIBBLES,
            Encoding::Ci4Offset => raw::NIBBLES_OFFSET,
            Encoding::Cf16 => raw::F16,
            Encoding::B1 | Encoding::B2 => unreachable!("checked"),
        }
    }

    /// The filter `w[r + p U] = (-1)^p W[r + p U]`, with weights scaled to `sum W^2 = 1` if noise is to keep its variance.
    pub(super) fn filter(&self, weights: &[f64], unit_noise: bool) -> Result<Vec<f32>> {
        let power: f64 = weights.iter().map(|weight| weight * weight).sum();
        if !power.is_normal() {
            return Err(Error::invalid(
                "weights whose squares sum to nothing, or to more than f64 holds: expected finite numbers around 1",
            ));
        }
        let scale = if unit_noise { 1.0 / power.sqrt() } else { 1.0 };
        let sign = |s: usize| if (s / self.factor).is_multiple_of(2) { scale } else { -scale };
        Ok(weights.iter().enumerate().map(|(s, weight)| (sign(s) * weight) as f32).collect())
    }

    /// Checks gains, `[channel][subchannel]`, and that nothing becomes infinite by them and the filter.
    pub(super) fn check_gains(&self, gains: &[Complex<f32>], filter: &[f32]) -> Result<()> {
        let Self { channels, factor, encoding, .. } = *self;
        if gains.len() != channels.saturating_mul(factor) && !gains.is_empty() {
            return Err(Error::invalid(format!(
                "{} gains: expected {}, for {channels} channels of {factor} subchannels",
                gains.len(),
                channels * factor
            )));
        }
        if let Some((index, gain)) = gains.iter().enumerate().find(|(_, gain)| !gain.is_finite()) {
            return Err(Error::invalid(format!(
                "a gain of {gain} for subchannel {} of channel {}: expected finite numbers",
                index % factor,
                index / factor
            )));
        }
        let sample = match encoding {
            Encoding::Ci8 => 128.0,
            Encoding::Cf16 => 65504.0,
            _ => 8.0,
        };
        let size = |gain: &Complex<f32>| f64::from(gain.re.abs()) + f64::from(gain.im.abs());
        let gain = gains.iter().map(size).fold(1.0, f64::max);
        let sum: f64 = filter.iter().map(|weight| f64::from(weight.abs())).sum();
        let most = 2.0 * sample * sum * gain;
        if most > MOST {
            return Err(Error::invalid(format!(
                "weights and gains by which a subchannel may become {most:e}: expected {MOST:e} at most"
            )));
        }
        Ok(())
    }
}
