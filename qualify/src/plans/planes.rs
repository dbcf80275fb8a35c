//! Nibbles that become planes of bits.

use std::fmt;

use corrust_host::{Correlator, Encoding, Layout, Result, quantise, samples::Samples};
use rand::{RngExt, rngs::StdRng};

use crate::plans::{Done, Outcome, PlanDevice, Run, Scale, bytes, narrow, one, size};

pub struct Plan {
    inputs: usize,
    channels: usize,
    times: usize,
    encoding: Encoding,
    layout: Layout,
    /// Planes.
    bits: u32,
    samples: Vec<u8>,
}

impl Plan {
    pub fn new(random: &mut StdRng, scale: Scale) -> Self {
        let (inputs, channels) = (size(random, scale.inputs), size(random, 4));
        let times = size(random, (scale.samples / inputs / channels).max(1));
        let encoding = one(random, &[Encoding::Ci4, Encoding::Ci4Offset]);
        let (layout, bits) = (one(random, &Layout::ALL), random.random_range(1..3));
        let mut samples = bytes(random, inputs * channels * times);
        narrow(&mut samples, encoding, bits);
        Self { inputs, channels, times, encoding, layout, bits, samples }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inputs, channels, times, encoding, layout, bits, .. } = self;
        write!(f, "planes {inputs} x {channels} x {times} {encoding} {layout}, {bits} bits")
    }
}

impl Run for Plan {
    fn samples(&self) -> usize {
        self.inputs * self.channels * self.times
    }

    fn run(&self, place: &PlanDevice) -> Result<Done> {
        let samples = Samples::new(
            &self.samples[..],
            self.inputs,
            self.channels,
            self.encoding,
            self.layout,
        )?;
        let gpu = match place {
            PlanDevice::Cpu => None,
            PlanDevice::Gpu(gpu) => Some(gpu.clone()),
            PlanDevice::Devices(devices) => {
                Correlator::builder(1, 1).device(devices.clone()).build()?.gpu().cloned()
            }
        };
        let words = match gpu {
            Some(gpu) => quantise::planes_on(&gpu, &samples, self.bits)?,
            None => quantise::planes(&samples, self.bits)?,
        };
        let kernel = format!("planes of {} bits", self.bits);
        Ok(Done { outcome: Outcome::Planes(words), kernel, refused: None })
    }

    fn is_judged(&self) -> bool {
        false
    }
}
