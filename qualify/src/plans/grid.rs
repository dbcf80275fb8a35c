//! Powers of beams on a grid: by the exact kernel the same bits everywhere, by tensor cores within a bound of the plain loops.

use std::fmt;

use corrust_host::{
    Device, Encoding, GridBeamformer, Layout, Result,
    beamform::grid::{Builder, GridBeams, Kernel, MAX_SIDE},
    samples::{Missing, Samples},
};
use num_complex::Complex;
use rand::{RngExt, rngs::StdRng, seq::SliceRandom};

use crate::{
    oracle::grid as oracle,
    plans::{
        Done, Outcome, PlanDevice, Run, Scale, bytes, cuts, missing, narrow, one, size, spoil,
    },
};

/// Largest relative errors, root mean square over all beams, of one time and polarisation, and what each further one of a
/// block of times adds: f32 sums are rounded to the nearest, those of tensor cores towards zero.
const EXACT: [f64; 2] = [1e-6, 1.0 / (1 << 24) as f64];
const TENSOR: [f64; 2] = [2e-3, 1.0 / (1 << 23) as f64];

pub struct Plan {
    case: oracle::Case,
    encoding: Encoding,
    bytes: Vec<u8>,
    missing: Vec<Missing>,
    cuts: Vec<usize>,
    kernel: Kernel,
}

/// Components of a sample.
fn sample(encoding: Encoding, bytes: &[u8]) -> [f64; 2] {
    let nibble = |value: u8| f64::from(((value ^ 8) & 15) as i8 - 8);
    match encoding {
        Encoding::Ci8 => [f64::from(bytes[0] as i8), f64::from(bytes[1] as i8)],
        Encoding::Ci4Offset => [nibble((bytes[0] >> 4) ^ 8), nibble((bytes[0] & 15) ^ 8)],
        _ => [nibble(bytes[0] >> 4), nibble(bytes[0] & 15)],
    }
}

impl Plan {
    pub fn new(random: &mut StdRng, scale: Scale, kernel: Kernel) -> Self {
        let [rows, columns] = [0, 1].map(|_| size(random, MAX_SIDE));
        let mut places: Vec<[usize; 2]> =
            (0..rows).flat_map(|m| (0..columns).map(move |n| [m, n])).collect();
        places.shuffle(random);
        places.truncate(random.random_range(1..=places.len()));
        let dishes = places.len();
        let (channels, polarisations) = (size(random, 4), size(random, 3));
        let streams = channels * polarisations;
        let times = size(random, (scale.samples / dishes / streams).clamp(1, 4000));
        let encoding = one(random, &[Encoding::Ci4, Encoding::Ci8, Encoding::Ci4Offset]);
        let mut bytes = bytes(random, times * streams * dishes * encoding.bytes());
        if encoding != Encoding::Ci8 {
            narrow(&mut bytes, encoding, 4);
        }
        let missing = missing(random, times, streams, dishes);
        let mut samples: Vec<[f64; 2]> =
            bytes.chunks_exact(encoding.bytes()).map(|bytes| sample(encoding, bytes)).collect();
        for gap in &missing {
            for time in gap.times.clone() {
                for stream in gap.channels.clone() {
                    let first = (time * streams + stream) * dishes;
                    samples[first..][gap.inputs.clone()].fill([0.0; 2]);
                }
            }
        }
        let part = |random: &mut StdRng| f64::from(random.random_range(-2.0_f32..2.0));
        let weights = (0..streams * dishes).map(|_| [part(random), part(random)]).collect();
        let case = oracle::Case {
            rows,
            columns,
            places,
            channels,
            polarisations,
            times,
            block_times: size(random, times),
            samples,
            weights,
            gain: f64::from(random.random_range(1e-4_f32..1e-3)),
        };
        Self { case, encoding, bytes, missing, cuts: cuts(random, times), kernel }
    }

    fn builder(&self) -> Builder {
        let oracle::Case { rows, columns, channels, polarisations, block_times, .. } = self.case;
        let weights: Vec<_> =
            self.case.weights.iter().map(|&[re, im]| Complex::new(re as f32, im as f32)).collect();
        GridBeamformer::builder(rows, columns)
            .places(&self.case.places)
            .channels(channels)
            .polarisations(polarisations)
            .encoding(self.encoding)
            .integrate(block_times)
            .weights(&weights)
            .gain(self.case.gain as f32)
    }

    /// Relative error of the powers of all calls.
    fn error(&self, parts: &[GridBeams]) -> std::result::Result<f64, String> {
        let oracle::Case { rows, columns, channels, times, block_times, .. } = self.case;
        let (beams, blocks) = (4 * rows * columns, times.div_ceil(block_times));
        let expected = self.case.powers();
        let (mut error, mut power, mut done) = (0.0, 0.0, 0);
        for part in parts {
            if part.first != done as u64 || done + part.blocks() > blocks {
                return Err(format!("block {} in place of {done} of {blocks}", part.first));
            }
            for (channel, block) in
                (0..channels).flat_map(|channel| (0..part.blocks()).map(move |b| (channel, b)))
            {
                let first = (channel * blocks + done + block) * beams;
                for (beam, expected) in expected[first..first + beams].iter().enumerate() {
                    let [q, p] = [beam / (2 * rows), beam % (2 * rows)];
                    let found = f64::from(part.powers.get(channel, block, q, p));
                    error += (found - expected).powi(2);
                    power += expected.powi(2);
                }
            }
            done += part.blocks();
        }
        match done == blocks {
            true => Ok((error / power.max(f64::MIN_POSITIVE)).sqrt()),
            false => Err(format!("{done} blocks: expected {blocks}")),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let oracle::Case { rows, columns, channels, polarisations, times, block_times, .. } =
            self.case;
        write!(
            f,
            "grid beams {rows} x {columns}, {} dishes, {channels} x {polarisations} x {times} {}, {block_times} times a \
             block, {}",
            self.case.places.len(),
            self.encoding,
            self.kernel
        )
    }
}

impl Run for Plan {
    fn samples(&self) -> usize {
        self.case.samples.len()
    }

    fn run(&self, place: &PlanDevice) -> Result<Done> {
        let gpu = match place {
            PlanDevice::Cpu => None,
            // Several devices have no plan together.
            PlanDevice::Devices(devices) => devices.open()?.into_iter().next(),
            PlanDevice::Gpu(gpu) => Some(gpu.clone()),
        };
        let builder = match &gpu {
            Some(gpu) => self.builder().gpu(gpu.clone()),
            None => self.builder().device(Device::Cpu),
        };
        let wanted = if matches!(place, PlanDevice::Cpu) { Kernel::Exact } else { self.kernel };
        let (mut plan, refused) = match builder.clone().kernel(wanted).build() {
            Ok(plan) => (plan, None),
            Err(error) => (builder.build()?, Some(error.to_string())),
        };
        let streams = self.case.channels * self.case.polarisations;
        let mut bytes = self.bytes.clone();
        let of =
            Samples::new(&bytes[..], self.case.places.len(), streams, self.encoding, Layout::Tcn)?;
        let all = of.missing(&self.missing);
        let mut parts = Vec::new();
        for ends in self.cuts.windows(2) {
            parts.push(plan.beamform(all.times(ends[0]..ends[1]))?);
        }
        parts.push(plan.finish()?);
        spoil(&mut bytes);
        let outcome = Outcome::Powers(parts);
        Ok(Done { outcome, kernel: format!("grid beams {}", plan.kernel()), refused })
    }

    fn judge(&self, outcome: &Outcome) -> Option<std::result::Result<(), String>> {
        let Outcome::Powers(parts) = outcome else { return None };
        let [one, each] = if self.kernel == Kernel::Tensor { TENSOR } else { EXACT };
        let bound = one + each * (self.case.block_times * self.case.polarisations) as f64;
        Some(self.error(parts).and_then(|error| match error <= bound {
            true => Ok(()),
            false => Err(format!("relative error {error:.1e}: expected at most {bound:.1e}")),
        }))
    }
}
