//! Subchannels of channels.

use std::fmt;

use corrust_host::{
    Encoding, Layout, Result, Upchanneliser,
    channelise::SpectrumEncoding,
    samples::{Missing, Samples},
    upchannelise::Kernel,
};
use num_complex::Complex;
use rand::{RngExt, rngs::StdRng};

use crate::plans::{
    Done, Outcome, PlanDevice, Run, Scale, build, bytes, cuts, kernel, missing, one, size, spoil,
};

pub struct Plan {
    inputs: usize,
    channels: usize,
    times: usize,
    factor: usize,
    taps: usize,
    encoding: Encoding,
    layout: Layout,
    output: SpectrumEncoding,
    gains: Vec<Complex<f32>>,
    kernel: Kernel,
    /// Bytes and missing samples of each call.
    pieces: Vec<(Vec<u8>, Vec<Missing>)>,
}

impl Plan {
    pub fn new(random: &mut StdRng, scale: Scale, wanted: Option<Kernel>) -> Self {
        let kernel = kernel(random, Kernel::ALL, wanted);
        let in_registers = kernel == Kernel::Registers || random.random();
        let levels = if in_registers { 1..=7 } else { 1..=9 };
        let factor = 1 << random.random_range(levels);
        let taps = if in_registers { 4 } else { random.random_range(1..9) };
        let inputs = size(random, scale.inputs);
        let channels = size(random, (scale.samples / inputs / factor / taps).clamp(1, 64));
        let least = factor * taps;
        let times = least + size(random, (scale.samples / inputs / channels).max(1));
        let encodings = [Encoding::Ci4, Encoding::Ci8, Encoding::Ci4Offset, Encoding::Cf16];
        let encoding = one(random, &encodings);
        let layout = one(random, &Layout::ALL);
        let output = one(random, &SpectrumEncoding::ALL);
        let count = if random.random() { channels * factor } else { 0 };
        let mut part = || random.random_range(-2.0..2.0);
        let gains = (0..count).map(|_| Complex::new(part(), part())).collect();
        let pieces = cuts(random, times)
            .windows(2)
            .map(|cut| {
                let times = cut[1] - cut[0];
                let mut lost = missing(random, times, channels, inputs);
                lost.truncate(usize::from(random.random_range(0..3) == 0));
                (bytes(random, times * channels * inputs * encoding.bytes()), lost)
            })
            .collect();
        Self {
            inputs,
            channels,
            times,
            factor,
            taps,
            encoding,
            layout,
            output,
            gains,
            kernel,
            pieces,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inputs, channels, times, factor, taps, encoding, layout, .. } = self;
        write!(
            f,
            "upchannelise {inputs} x {channels} x {times} {encoding} {layout} by {factor} to {}, {taps} taps, {} gains, {}",
            self.output,
            self.gains.len(),
            self.kernel
        )
    }
}

impl Run for Plan {
    fn samples(&self) -> usize {
        self.inputs * self.channels * self.times
    }

    fn run(&self, place: &PlanDevice) -> Result<Done> {
        let builder = Upchanneliser::builder(self.inputs, self.channels, self.factor)
            .taps(self.taps)
            .encoding(self.encoding)
            .output(self.output)
            .unit_noise(true)
            .gains(&self.gains);
        let (mut plan, refused) = build!(place, self.kernel, builder);
        let mut found = Vec::new();
        for (bytes, lost) in &self.pieces {
            let mut bytes = bytes.clone();
            let (channels, inputs) = (self.channels, self.inputs);
            let samples = Samples::new(&bytes[..], inputs, channels, self.encoding, self.layout)?;
            found.push(plan.upchannelise(samples.missing(lost))?);
            spoil(&mut bytes);
        }
        Ok(Done {
            outcome: Outcome::Spectra(found),
            kernel: format!("upchannelise {}", plan.kernel()),
            refused,
        })
    }

    fn is_judged(&self) -> bool {
        false
    }
}
