//! The response of a channel: measured power of tones, beside that of the prototype filter.

use std::f64::consts::TAU;

use num_complex::Complex;
use rayon::prelude::*;

use crate::{
    channelise::plan::{Builder, Channeliser},
    error::{Error, Result},
};

/// Bytes of tones that are channelised at once.
const TONE_BYTES: usize = 256 << 20;
/// Samples after which a turning number is made anew.
const RENEWED: usize = 1024;

/// The response of the middle channel to tones, as powers relative to that at its centre.
///
/// ```
/// use corrust_host::{Channeliser, Device};
///
/// let builder = Channeliser::builder(1, 64).device(Device::Cpu);
/// let response = builder.response(&[-1.0, -0.5, 0.0, 0.5, 1.0])?;
/// assert_eq!(response.measured[2], 1.0);
/// assert!(response.measured[0] < 1e-4, "leakage into the next channel");
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Frequencies of the tones from the channel's centre, in widths of a channel.
    pub offsets: Vec<f64>,
    /// Power of the channel when such a tone is channelised.
    pub measured: Vec<f64>,
    /// `|H|^2` of the prototype in f64.
    pub designed: Vec<f64>,
}

impl Response {
    /// The largest measured and designed power among tones at least `from` channels away.
    pub fn leakage(&self, from: f64) -> [f64; 2] {
        [&self.measured, &self.designed].map(|powers| {
            let far = self.offsets.iter().zip(powers).filter(|(offset, _)| offset.abs() >= from);
            far.map(|(_, power)| *power).fold(0.0, f64::max)
        })
    }
}

impl Builder {
    /// The response of the plan's filter bank, made on its device: channel `C / 2` is given a tone at each
    /// of `offsets`, in widths of a channel from its centre. Inputs, gains, delays and the encodings of
    /// samples and spectra have no effect: tones and their spectra are floats.
    ///
    /// # Errors
    /// [`Error::Invalid`] when an offset is no finite number; those of [`build`](Self::build).
    pub fn response(&self, offsets: &[f64]) -> Result<Response> {
        if let Some(offset) = offsets.iter().find(|offset| !offset.is_finite()) {
            return Err(Error::invalid(format!(
                "a tone {offset} channels away: expected a finite number"
            )));
        }
        // The first tone is that which others are relative to.
        let tones: Vec<f64> = [0.0].iter().chain(offsets).copied().collect();
        let shape = self.shape()?;
        let at_once = (TONE_BYTES / (8 * shape.window())).max(1);
        let mut powers = Vec::with_capacity(tones.len());
        let mut prototype = Vec::new();
        for some in tones.chunks(at_once) {
            let mut plan = self.of_tones(some.len())?;
            powers.extend(measure(&mut plan, some)?);
            prototype = plan.prototype().to_vec();
        }
        let residues = shape.residues();
        let designed: Vec<f64> =
            tones.par_iter().map(|&offset| design(&prototype, residues, offset)).collect();
        let relative = |powers: &[f64]| powers[1..].iter().map(|power| power / powers[0]).collect();
        Ok(Response {
            offsets: offsets.to_vec(),
            measured: relative(&powers),
            designed: relative(&designed),
        })
    }
}

/// Powers of the middle channel of a plan, an input for each tone.
fn measure(plan: &mut Channeliser, tones: &[f64]) -> Result<Vec<f64>> {
    let shape = *plan.shape();
    let channel = shape.channels / 2;
    let complex = shape.raw.is_complex();
    let samples: Vec<f32> = tones
        .par_iter()
        .flat_map_iter(|offset| {
            let frequency = (shape.frequency(channel) as f64 + offset) / shape.residues() as f64;
            turning(frequency, shape.window()).flat_map(move |z| {
                let parts = [z.re as f32, z.im as f32];
                parts.into_iter().take(if complex { 2 } else { 1 })
            })
        })
        .collect();
    let spectra = plan.channelise(&samples[..])?;
    let power = |input| f64::from(spectra.get(0, channel, input).norm_sqr());
    Ok((0..tones.len()).map(power).collect())
}

/// `|H|^2` at `offset` channels from the centre.
fn design(prototype: &[f64], residues: usize, offset: f64) -> f64 {
    let turns = turning(-offset / residues as f64, prototype.len());
    let sum: Complex<f64> = prototype.iter().zip(turns).map(|(&h, z)| z * h).sum();
    sum.norm_sqr()
}

/// `exp(2 pi j frequency n)` for `n` from 0 to `count`.
fn turning(frequency: f64, count: usize) -> impl Iterator<Item = Complex<f64>> {
    let at = move |n: usize| {
        // Whole turns are left out before they cost digits.
        let turns = (frequency * n as f64) % 1.0;
        Complex::from_polar(1.0, TAU * turns)
    };
    let step = Complex::from_polar(1.0, TAU * frequency);
    let mut z = at(0);
    (0..count).map(move |n| {
        z = if n % RENEWED == 0 { at(n) } else { z * step };
        z
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, channelise::Window, samples::RawEncoding};

    #[test]
    fn tones_come_out_as_the_prototype_says() {
        let offsets: Vec<f64> = (-24..=24).map(|n| f64::from(n) / 8.0).collect();
        for (window, taps, complex) in
            [(Window::Hann, 8, false), (Window::Kaiser(9.0), 12, true), (Window::Rect, 1, false)]
        {
            let raw = if complex { RawEncoding::Cf32 } else { RawEncoding::I8 };
            let builder = Channeliser::builder(3, 64).encoding(raw).window(window).taps(taps);
            let response = builder.device(Device::Cpu).response(&offsets).unwrap();
            let pairs = response.measured.iter().zip(&response.designed);
            for ((measured, designed), offset) in pairs.zip(&offsets) {
                // A real tone's other half is 64 channels away.
                let bound = if taps == 1 { 0.05 * designed + 1e-3 } else { 1e-4 * designed + 1e-9 };
                assert!((measured - designed).abs() <= bound, "{window} {offset}: {measured}");
            }
            let [measured, designed] = response.leakage(1.0);
            let most = if taps == 1 { 0.1 } else { 1e-5 };
            assert!(measured <= most && designed <= most, "{window}: {measured} {designed}");
        }
    }

    #[test]
    fn tones_without_a_place_are_refused() {
        let builder = Channeliser::builder(1, 64).device(Device::Cpu);
        let error = builder.response(&[0.0, f64::NAN]).unwrap_err().to_string();
        assert_eq!(error, "a tone NaN channels away: expected a finite number");
    }
}
