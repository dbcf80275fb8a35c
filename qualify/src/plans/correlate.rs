//! Visibilities of samples of 4 and 8 bits, with gates, shifts and missing samples.

use std::fmt;

use corrust_host::{
    Correlator, Encoding, Layout, Result,
    correlate::{DROP, Kernel, baseline},
    samples::{Missing, Samples},
};
use num_complex::Complex;
use rand::{RngExt, rngs::StdRng};

use crate::{
    oracle::correlate as oracle,
    plans::{
        Done, Outcome, PlanDevice, Run, Scale, build, bytes, cuts, every_baseline, kernel, missing,
        narrow, one, same, size, spoil,
    },
};

struct CallSamples {
    bytes: Vec<u8>,
    /// Gate of each time.
    gates: Vec<u8>,
    missing: Vec<Missing>,
}

pub struct Plan {
    inputs: usize,
    channels: usize,
    times: usize,
    encoding: Encoding,
    layout: Layout,
    gates: usize,
    /// Times by which each input is delayed; none where none is.
    shifts: Vec<usize>,
    kernel: Kernel,
    pieces: Vec<CallSamples>,
}

impl Plan {
    pub fn new(random: &mut StdRng, scale: Scale, wanted: Option<Kernel>) -> Self {
        let inputs = size(random, scale.inputs);
        let channels = size(random, 4);
        let times = size(random, (scale.samples / inputs / channels).max(1));
        let kernel = kernel(random, Kernel::ALL, wanted);
        let encodings = [Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset];
        let taken: Vec<Encoding> =
            encodings.into_iter().filter(|&encoding| kernel.takes(encoding)).collect();
        let encoding = one(random, if wanted.is_some() { &taken } else { &encodings });
        let layout = one(random, &Layout::ALL);
        let gates = random.random_range(1..4);
        let shifts: Vec<usize> = match random.random_range(0..3) {
            0 => (0..inputs).map(|_| random.random_range(0..20)).collect(),
            _ => Vec::new(),
        };
        let pieces = cuts(random, times)
            .windows(2)
            .map(|cut| {
                let times = cut[1] - cut[0];
                let gates = (0..times)
                    .map(|_| one(random, &[0, 1, 2, DROP]))
                    .map(|gate| if usize::from(gate) < gates { gate } else { DROP })
                    .collect();
                let missing = missing(random, times, channels, inputs);
                let mut bytes = bytes(random, times * inputs * channels * encoding.bytes());
                if encoding != Encoding::Ci8 {
                    narrow(&mut bytes, encoding, kernel.value_bits().unwrap_or(4));
                }
                CallSamples { bytes, gates, missing }
            })
            .collect();
        Self { inputs, channels, times, encoding, layout, gates, shifts, kernel, pieces }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inputs, channels, times, encoding, layout, gates, shifts, kernel, .. } = self;
        write!(
            f,
            "correlate {inputs} x {channels} x {times} {encoding} {layout}, {gates} gates, shifts {shifts:?}, {kernel}"
        )
    }
}

impl Run for Plan {
    fn samples(&self) -> usize {
        self.inputs * self.channels * self.times
    }

    fn run(&self, place: &PlanDevice) -> Result<Done> {
        let builder = Correlator::builder(self.inputs, self.channels)
            .encoding(self.encoding)
            .layout(self.layout)
            .gates(self.gates)
            .shifts(&self.shifts);
        let (mut plan, refused) = build!(place, self.kernel, builder);
        for CallSamples { bytes, gates, missing } in &self.pieces {
            let mut bytes = bytes.clone();
            let samples =
                Samples::new(&bytes[..], self.inputs, self.channels, self.encoding, self.layout)?;
            let samples = samples.missing(missing);
            match self.gates {
                1 => plan.accumulate(samples)?,
                _ => plan.accumulate_gated(samples, gates)?,
            }
            spoil(&mut bytes);
        }
        let outcome = Outcome::Dumps(plan.dump_gates()?);
        Ok(Done { outcome, kernel: format!("correlate {}", plan.kernel()), refused })
    }

    fn judge(&self, outcome: &Outcome) -> Option<Result<(), String>> {
        let Outcome::Dumps(dumps) = outcome else { return None };
        Some(self.compare(dumps))
    }
}

impl Plan {
    fn compare(&self, dumps: &[corrust_host::correlate::Dump]) -> Result<(), String> {
        let &Self { inputs, channels, encoding, layout, .. } = self;
        same(|| "dumps".to_owned(), dumps.len(), self.gates)?;
        // Each time's piece, and its number there.
        let mut places = Vec::new();
        let mut blocks = Vec::new();
        for (number, CallSamples { bytes, gates, missing }) in self.pieces.iter().enumerate() {
            let times = gates.len();
            places.extend((0..times).map(|time| (number, time)));
            let bytes = bytes.clone();
            let block = oracle::Block { inputs, channels, times, encoding, layout, bytes };
            blocks.push((block, missing));
        }
        let sample = |channel: usize, input: usize, time: usize| {
            let time = time.checked_sub(self.shifts.get(input).copied().unwrap_or(0))?;
            let (piece, time) = places[time];
            let (block, missing) = &blocks[piece];
            let gone = missing.iter().any(|gap| {
                gap.times.contains(&time)
                    && gap.channels.contains(&channel)
                    && gap.inputs.contains(&input)
            });
            (!gone).then(|| block.sample(channel, input, time))
        };
        for (gate, dump) in dumps.iter().enumerate() {
            let of_gate = |&time: &usize| {
                let (piece, within) = places[time];
                self.gates == 1 || usize::from(self.pieces[piece].gates[within]) == gate
            };
            let times: Vec<usize> = (0..places.len()).filter(of_gate).collect();
            same(|| format!("times of gate {gate}"), dump.times, times.len() as u64)?;
            let expected = oracle::correlate(inputs, channels, times.into_iter(), sample);
            let sums = dump.visibilities.integer().ok_or("sums that are no integers")?;
            for (channel, i, j) in every_baseline(channels, inputs) {
                let expected = expected[channel][baseline(i, j)];
                let what = || format!("gate {gate}, channel {channel}, inputs {i} and {j}");
                let exact = Complex::new(expected.re as i64, expected.im as i64);
                same(what, sums[[channel, baseline(i, j)]], exact)?;
                let count = dump.valid.get(channel, baseline(i, j));
                same(|| format!("samples of {}", what()), count, expected.count)?;
            }
        }
        Ok(())
    }
}
