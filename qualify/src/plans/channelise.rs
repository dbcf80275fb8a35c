//! Spectra of raw voltages.

use std::fmt;

use corrust_host::{
    Channeliser, Encoding, Layout, Result,
    channelise::Kernel,
    samples::{Memory, Missing, RawEncoding, RawLayout, RawSamples},
};
use rand::{RngExt, rngs::StdRng};

use crate::plans::{
    Done, Outcome, PlanDevice, Run, Scale, build, bytes, cuts, kernel, missing, one, size, spoil,
};

pub struct Plan {
    inputs: usize,
    channels: usize,
    times: usize,
    taps: usize,
    hop: usize,
    encoding: RawEncoding,
    layout: RawLayout,
    output: Encoding,
    output_layout: Layout,
    kernel: Kernel,
    /// Bytes and missing samples of each call.
    pieces: Vec<(Vec<u8>, Vec<Missing>)>,
}

impl Plan {
    pub fn new(random: &mut StdRng, scale: Scale, wanted: Option<Kernel>) -> Self {
        // 4 to the most of a scale, by twos and threes; few inputs where there are many.
        let channels = (1 + 2 * usize::from(random.random_range(0..4) == 0))
            << random.random_range(2..=scale.channels.ilog2() - 1);
        let most = (4 * scale.samples / channels / 16).clamp(2, scale.inputs.min(70));
        let inputs = size(random, most);
        let kernel = kernel(random, Kernel::ALL, wanted);
        let encoding = one(
            random,
            &[
                RawEncoding::I8,
                RawEncoding::I16,
                RawEncoding::Complex(Encoding::Ci8),
                RawEncoding::Complex(Encoding::Ci4),
                RawEncoding::Vdif { bits: 2, complex: false },
                RawEncoding::Vdif { bits: 4, complex: false },
            ],
        );
        let (taps, layout) = (random.random_range(1..9), one(random, &RawLayout::ALL));
        let output = one(random, &[Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset]);
        let output_layout = one(random, &Layout::ALL);
        let residues = if encoding.is_complex() { channels } else { 2 * channels };
        let hop = if random.random_range(0..3) == 0 { residues * 7 / 8 } else { residues };
        let least = residues * taps;
        let times = least + size(random, (scale.samples / inputs).max(1)).next_multiple_of(8);
        // Whole bytes, whichever way samples lie.
        let inputs = if layout == RawLayout::Tn { inputs.next_multiple_of(8) } else { inputs };
        let pieces = cuts(random, times / 8)
            .windows(2)
            .map(|cut| {
                let times = 8 * (cut[1] - cut[0]);
                let mut lost = missing(random, times, 1, inputs);
                lost.iter_mut().for_each(|gap| gap.channels = 0..usize::MAX);
                lost.truncate(usize::from(random.random_range(0..3) == 0));
                (bytes(random, encoding.bytes(times * inputs)), lost)
            })
            .collect();
        Self {
            inputs,
            channels,
            times,
            taps,
            hop,
            encoding,
            layout,
            output,
            output_layout,
            kernel,
            pieces,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inputs, channels, times, taps, hop, encoding, layout, .. } = self;
        write!(
            f,
            "channelise {inputs} x {times} {encoding} {layout} to {channels} {} {}, {taps} taps, hop {hop}, {}",
            self.output, self.output_layout, self.kernel
        )
    }
}

impl Run for Plan {
    fn samples(&self) -> usize {
        self.inputs * self.times
    }

    fn run(&self, place: &PlanDevice) -> Result<Done> {
        let builder = Channeliser::builder(self.inputs, self.channels)
            .encoding(self.encoding)
            .layout(self.layout)
            .taps(self.taps)
            .hop(self.hop)
            .output(self.output)
            .output_layout(self.output_layout);
        let (mut plan, refused) = build!(place, self.kernel, builder);
        let mut found = Vec::new();
        for (bytes, lost) in &self.pieces {
            let mut bytes = bytes.clone();
            let samples =
                RawSamples::new(Memory::Host(&bytes), self.inputs, self.encoding, self.layout)?;
            found.push(plan.channelise(samples.missing(lost))?);
            spoil(&mut bytes);
        }
        found.push(plan.finish()?);
        Ok(Done {
            outcome: Outcome::Spectra(found),
            kernel: format!("channelise {}", plan.kernel()),
            refused,
        })
    }

    fn is_judged(&self) -> bool {
        false
    }
}
