//! Visibilities of samples of one bit or two, 128 times in a word.

use std::fmt;

use corrust_host::{
    Correlator, Encoding, Layout, Result,
    correlate::{Kernel, baseline},
    samples::Samples,
};
use num_complex::Complex;
use rand::rngs::StdRng;

use crate::{
    oracle::correlate as oracle,
    plans::{
        Done, Outcome, PlanDevice, Run, Scale, build, bytes, cuts, every_baseline, kernel, one,
        same, size, spoil,
    },
};

/// Times of a word.
const WORD: usize = 128;

pub struct Plan {
    inputs: usize,
    channels: usize,
    times: usize,
    encoding: Encoding,
    kernel: Kernel,
    blocks: Vec<oracle::Block>,
}

impl Plan {
    pub fn new(random: &mut StdRng, scale: Scale, wanted: Option<Kernel>) -> Self {
        let inputs = size(random, 2 * scale.inputs);
        let channels = size(random, 4);
        let times = size(random, (8 * scale.samples / inputs / channels).max(1));
        let encoding = one(random, &[Encoding::B1, Encoding::B2]);
        let rows = if encoding == Encoding::B2 { 2 * inputs } else { inputs };
        let kernel = kernel(random, Kernel::ALL, wanted);
        let blocks = cuts(random, times / WORD)
            .windows(2)
            .map(|cut| WORD * (cut[1] - cut[0]))
            .chain([times % WORD])
            .map(|times| {
                let bytes = bytes(random, 32 * rows * channels * times.div_ceil(WORD));
                oracle::Block { inputs, channels, times, encoding, layout: Layout::Cnt, bytes }
            })
            .collect();
        Self { inputs, channels, times, encoding, kernel, blocks }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inputs, channels, times, encoding, kernel, .. } = self;
        write!(f, "correlate {inputs} x {channels} x {times} {encoding}, {kernel}")
    }
}

impl Run for Plan {
    fn samples(&self) -> usize {
        self.inputs * self.channels * self.times
    }

    fn run(&self, place: &PlanDevice) -> Result<Done> {
        let builder = Correlator::builder(self.inputs, self.channels)
            .encoding(self.encoding)
            .layout(Layout::Cnt);
        let (mut plan, refused) = build!(place, self.kernel, builder);
        for block in &self.blocks {
            let mut bytes = block.bytes.clone();
            let samples =
                Samples::new(&bytes[..], self.inputs, self.channels, self.encoding, Layout::Cnt)?;
            plan.accumulate(samples.times(0..block.times))?;
            spoil(&mut bytes);
        }
        let outcome = Outcome::Dumps(vec![plan.dump()?]);
        Ok(Done { outcome, kernel: format!("correlate {}", plan.kernel()), refused })
    }

    fn judge(&self, outcome: &Outcome) -> Option<Result<(), String>> {
        let Outcome::Dumps(dumps) = outcome else { return None };
        let compare = || {
            let [dump] = &dumps[..] else { return Err("expected one dump".to_owned()) };
            same(|| "times".to_owned(), dump.times, self.times as u64)?;
            let sums = dump.visibilities.integer().ok_or("sums that are no integers")?;
            let each: Vec<_> = self.blocks.iter().map(oracle::correlate_block).collect();
            for (channel, i, j) in every_baseline(self.channels, self.inputs) {
                let of = |part: fn(&oracle::Visibility) -> f64| -> i64 {
                    each.iter().map(|block| part(&block[channel][baseline(i, j)]) as i64).sum()
                };
                let exact = Complex::new(of(|sum| sum.re), of(|sum| sum.im));
                let found = sums[[channel, baseline(i, j)]];
                same(|| format!("channel {channel}, inputs {i} and {j}"), found, exact)?;
            }
            Ok(())
        };
        Some(compare())
    }
}
