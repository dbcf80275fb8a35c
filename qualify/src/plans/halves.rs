//! Visibilities of `cf16` samples, within a bound of the plain loops.

use std::fmt;

use corrust_host::{
    Correlator, Encoding, Layout, Result,
    correlate::{Kernel, baseline},
    samples::Samples,
};
use half::f16;
use rand::{RngExt, rngs::StdRng};

use crate::{
    oracle::correlate as oracle,
    plans::{
        Done, Outcome, PlanDevice, Run, Scale, build, every_baseline, kernel, one, same, size,
        spoil,
    },
};

pub struct Plan {
    block: oracle::Block,
    kernel: Kernel,
}

impl Plan {
    pub fn new(random: &mut StdRng, scale: Scale, wanted: Option<Kernel>) -> Self {
        let inputs = size(random, scale.inputs);
        let channels = size(random, 4);
        let times = size(random, (scale.samples / inputs / channels).max(1));
        let (encoding, layout) = (Encoding::Cf16, one(random, &Layout::ALL));
        // Powers over many decades.
        let size = 2_f32.powi(random.random_range(-10..10));
        let bytes = (0..2 * inputs * channels * times)
            .flat_map(|_| f16::from_f32(random.random_range(-size..size)).to_le_bytes())
            .collect();
        let kernel = kernel(random, Kernel::ALL, wanted);
        Self { block: oracle::Block { inputs, channels, times, encoding, layout, bytes }, kernel }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let oracle::Block { inputs, channels, times, encoding, layout, .. } = &self.block;
        write!(f, "correlate {inputs} x {channels} x {times} {encoding} {layout}, {}", self.kernel)
    }
}

impl Run for Plan {
    fn samples(&self) -> usize {
        self.block.inputs * self.block.channels * self.block.times
    }

    fn run(&self, place: &PlanDevice) -> Result<Done> {
        let oracle::Block { inputs, channels, encoding, layout, .. } = self.block;
        let builder = Correlator::builder(inputs, channels).encoding(encoding).layout(layout);
        let (mut plan, refused) = build!(place, self.kernel, builder);
        let mut bytes = self.block.bytes.clone();
        plan.accumulate(Samples::new(&bytes[..], inputs, channels, encoding, layout)?)?;
        spoil(&mut bytes);
        let outcome = Outcome::Dumps(vec![plan.dump()?]);
        Ok(Done { outcome, kernel: format!("correlate {}", plan.kernel()), refused })
    }

    fn judge(&self, outcome: &Outcome) -> Option<Result<(), String>> {
        let Outcome::Dumps(dumps) = outcome else { return None };
        let compare = || {
            let [dump] = &dumps[..] else { return Err("expected one dump".to_owned()) };
            let sums = dump.visibilities.float().ok_or("sums that are no floats")?;
            let expected = oracle::correlate_block(&self.block);
            for (channel, i, j) in every_baseline(self.block.channels, self.block.inputs) {
                let expected = expected[channel][baseline(i, j)];
                let found = sums[[channel, baseline(i, j)]];
                let what = || format!("channel {channel}, inputs {i} and {j}");
                if !expected.is_near(found.re, found.im) {
                    return Err(format!("{}: expected {expected:?}, found {found}", what()));
                }
                let count = dump.valid.get(channel, baseline(i, j));
                same(|| format!("samples of {}", what()), count, expected.count)?;
            }
            Ok(())
        };
        Some(compare())
    }
}
