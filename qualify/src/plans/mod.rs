//! Random plans of every system: what a plan is fed follows from a seed, by which it comes again.
//!
//! A [`Plan`] runs at a [`PlanDevice`] and gives an [`Outcome`]. Outcomes of integer samples are the same bits everywhere;
//! [`Plan::judge`] compares one with the plain loops of [`crate::oracle`].

mod autocorrelate;
mod beamform;
mod bits;
mod channelise;
mod correlate;
mod grid;
mod halves;
mod planes;
mod upchannelise;

use std::{fmt, sync::Arc};

use corrust_host::{
    Devices, Encoding, Result,
    autocorrelate::Sums,
    beamform::{
        Beams,
        grid::{GridBeams, Kernel as GridKernel},
    },
    channelise::Spectra,
    correlate::Dump,
    device::Gpu,
    samples::Missing,
};
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

/// Results of a plan.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// Dumps of a correlator, one for each gate.
    Dumps(Vec<Dump>),
    /// Beams of each call.
    Beams(Vec<Beams>),
    /// Powers of beams on a grid of each call.
    Powers(Vec<GridBeams>),
    /// Sums of an autocorrelator after each call.
    Sums(Vec<Sums>),
    /// Spectra of each call.
    Spectra(Vec<Spectra>),
    /// Planes of bits.
    Planes(Vec<u8>),
}

/// Bounds of a random plan's size.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Most inputs of a correlator.
    pub inputs: usize,
    /// Most samples of all inputs.
    pub samples: usize,
    /// Most sensors of an autocorrelator.
    pub sensors: usize,
    /// Most channels that an F-engine makes.
    pub channels: usize,
}

impl Scale {
    /// Sizes that a simulator and the plain loops compute in milliseconds.
    pub const SMALL: Self = Self { inputs: 70, samples: 4000, sensors: 300, channels: 1 << 13 };
    /// Shapes that a GPU computes in milliseconds, and shapes that every one of its kernels takes.
    pub const LARGE: Self =
        Self { inputs: 600, samples: 1 << 24, sensors: 1 << 14, channels: 1 << 21 };
}

/// Device of a plan.
#[derive(Clone, Debug)]
pub enum PlanDevice {
    /// The CPU, with the kernel that it chooses.
    Cpu,
    /// Devices, with the plan's own kernel.
    Devices(Devices),
    /// A GPU, with the plan's own kernel.
    Gpu(Arc<dyn Gpu>),
}

/// A plan that has run.
#[derive(Debug)]
pub struct Done {
    /// Its results.
    pub outcome: Outcome,
    /// System and kernel: `correlate mma-64`.
    pub kernel: String,
    /// Why the plan's own kernel was not taken, if it was not.
    pub refused: Option<String>,
}

/// Builds the plan at a place with the kernel that is wanted or, where that does not take the shape there, with the
/// place's own; says why it does not.
macro_rules! build {
    ($place:expr, $kernel:expr, $builder:expr) => {{
        let builder = match $place {
            crate::plans::PlanDevice::Cpu => $builder.device(corrust_host::Device::Cpu),
            crate::plans::PlanDevice::Devices(devices) => {
                $builder.device(devices.clone()).kernel($kernel)
            }
            crate::plans::PlanDevice::Gpu(gpu) => $builder.gpu(gpu.clone()).kernel($kernel),
        };
        match builder.clone().build() {
            Ok(plan) => (plan, None),
            Err(refused) => {
                (builder.kernel(Default::default()).build()?, Some(refused.to_string()))
            }
        }
    }};
}
use build;

/// Systems of which plans are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Visibilities of samples of several bits.
    Correlate,
    /// Visibilities of samples of one and two bits.
    CorrelateBits,
    /// Visibilities of `cf16` samples.
    CorrelateHalves,
    /// Planes of bits.
    Planes,
    /// Beams.
    Beamform,
    /// Powers of beams on a grid, by the exact kernel.
    Grid,
    /// Powers of beams on a grid, by tensor cores.
    GridTensor,
    /// Sums at lags.
    Autocorrelate,
    /// Spectra.
    Channelise,
    /// Subchannels.
    Upchannelise,
}

impl System {
    /// Systems whose results are the same bits on every device.
    pub const EXACT: [Self; 8] = [
        Self::Correlate,
        Self::CorrelateBits,
        Self::Planes,
        Self::Beamform,
        Self::Grid,
        Self::Autocorrelate,
        Self::Channelise,
        Self::Upchannelise,
    ];

    /// Systems whose results are floats within a bound, the same bits whenever a device makes them again.
    pub const BOUNDED: [Self; 2] = [Self::CorrelateHalves, Self::GridTensor];

    /// Names of the kernels that plans of the system may ask for, `auto` among them; none where there is no choice.
    pub fn kernels(self) -> Vec<&'static str> {
        use corrust_host::{autocorrelate, beamform, channelise, correlate, upchannelise};
        let takes = |encoding| {
            let all = correlate::Kernel::ALL.iter();
            all.filter(move |kernel| kernel.takes(encoding)).map(|kernel| kernel.name()).collect()
        };
        match self {
            // Every kernel of `ci8` takes `ci4`.
            Self::Correlate => takes(Encoding::Ci4),
            Self::CorrelateBits => takes(Encoding::B1),
            Self::CorrelateHalves => takes(Encoding::Cf16),
            Self::Planes => Vec::new(),
            Self::Beamform => beamform::Kernel::ALL.iter().map(|kernel| kernel.name()).collect(),
            Self::Grid => vec!["exact"],
            Self::GridTensor => vec!["tensor"],
            Self::Autocorrelate => {
                autocorrelate::Kernel::ALL.iter().map(|kernel| kernel.name()).collect()
            }
            Self::Channelise => {
                channelise::Kernel::ALL.iter().map(|kernel| kernel.name()).collect()
            }
            Self::Upchannelise => {
                upchannelise::Kernel::ALL.iter().map(|kernel| kernel.name()).collect()
            }
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Correlate => "correlate",
            Self::CorrelateBits => "correlate b1, b2",
            Self::CorrelateHalves => "correlate cf16",
            Self::Planes => "planes of bits",
            Self::Beamform => "beamform",
            Self::Grid => "grid beams",
            Self::GridTensor => "grid beams on tensor cores",
            Self::Autocorrelate => "autocorrelate",
            Self::Channelise => "channelise",
            Self::Upchannelise => "upchannelise",
        })
    }
}

/// Builds a plan at a place, feeds it, and returns what came of it.
trait Run: fmt::Display {
    /// Samples that it is fed.
    fn samples(&self) -> usize;

    fn run(&self, place: &PlanDevice) -> Result<Done>;

    /// The difference between an outcome and what the plain loops give; none without plain loops.
    fn judge(&self, _outcome: &Outcome) -> Option<Result<(), String>> {
        None
    }

    /// Whether there are plain loops for it.
    fn is_judged(&self) -> bool {
        true
    }
}

/// A plan, and the samples that it is fed.
pub struct Plan(Box<dyn Run>);

impl Plan {
    /// A plan of any system.
    pub fn any(seed: u64, scale: Scale) -> Self {
        use System::{
            Autocorrelate, Beamform, Channelise, Correlate, CorrelateBits, Grid, Planes,
            Upchannelise,
        };
        let mut random = StdRng::seed_from_u64(seed);
        let systems = [
            Correlate,
            Correlate,
            CorrelateBits,
            Planes,
            Beamform,
            Grid,
            Autocorrelate,
            Channelise,
            Upchannelise,
        ];
        let system = one(&mut random, &systems);
        Self::made(system, None, &mut random, scale)
    }

    /// A plan of a system for a kernel.
    ///
    /// # Panics
    /// If the system has no kernel of that name.
    pub fn of(system: System, kernel: &str, seed: u64, scale: Scale) -> Self {
        Self::made(system, Some(kernel), &mut StdRng::seed_from_u64(seed), scale)
    }

    fn made(system: System, kernel: Option<&str>, random: &mut StdRng, scale: Scale) -> Self {
        Self(match system {
            System::Correlate => Box::new(correlate::Plan::new(random, scale, named(kernel))),
            System::CorrelateBits => Box::new(bits::Plan::new(random, scale, named(kernel))),
            System::CorrelateHalves => Box::new(halves::Plan::new(random, scale, named(kernel))),
            System::Planes => Box::new(planes::Plan::new(random, scale)),
            System::Beamform => Box::new(beamform::Plan::new(random, scale, named(kernel))),
            System::Grid => Box::new(grid::Plan::new(random, scale, GridKernel::Exact)),
            System::GridTensor => Box::new(grid::Plan::new(random, scale, GridKernel::Tensor)),
            System::Autocorrelate => {
                Box::new(autocorrelate::Plan::new(random, scale, named(kernel)))
            }
            System::Channelise => Box::new(channelise::Plan::new(random, scale, named(kernel))),
            System::Upchannelise => Box::new(upchannelise::Plan::new(random, scale, named(kernel))),
        })
    }

    /// Number of samples that it is fed.
    pub fn samples(&self) -> usize {
        self.0.samples()
    }

    /// Runs it at a place.
    ///
    /// # Errors
    /// Errors of the plan.
    pub fn run(&self, place: &PlanDevice) -> Result<Done> {
        self.0.run(place)
    }

    /// Whether there are plain loops for it: not for plans of [`System::Channelise`], [`System::Upchannelise`] and
    /// [`System::Planes`].
    pub fn is_judged(&self) -> bool {
        self.0.is_judged()
    }

    /// Compares an outcome with the plain loops, if [there are any](Self::is_judged).
    pub fn judge(&self, outcome: &Outcome) -> Option<Result<(), String>> {
        self.0.judge(outcome)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} samples", self.0, self.0.samples())
    }
}

/// The kernel of a name.
fn named<K: std::str::FromStr>(name: Option<&str>) -> Option<K>
where
    K::Err: fmt::Debug,
{
    name.map(|name| name.parse().expect("a kernel of the system"))
}

/// A number up to `most`: small ones, those beside powers of two and any are as frequent.
fn size(random: &mut StdRng, most: usize) -> usize {
    let found = match random.random_range(0..3) {
        0 => random.random_range(1..=most.min(8)),
        1 => (1_usize << random.random_range(0..=most.ilog2())) + random.random_range(0..3) - 1,
        _ => random.random_range(1..=most),
    };
    found.clamp(1, most)
}

fn one<T: Copy>(random: &mut StdRng, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}

fn bytes(random: &mut StdRng, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill_bytes(&mut bytes);
    bytes
}

/// The wanted kernel; without one half of the time the kernel that a plan chooses, else any.
fn kernel<K: Copy + Default>(random: &mut StdRng, all: &[K], wanted: Option<K>) -> K {
    match wanted {
        Some(kernel) => kernel,
        None if random.random() => K::default(),
        None => one(random, all),
    }
}

/// Narrows the values of nibbles to `bits` bits.
fn narrow(samples: &mut [u8], encoding: Encoding, bits: u32) {
    let zero = if encoding == Encoding::Ci4Offset { 8 } else { 0 };
    let legal =
        |part: u8| (part % (1 << bits)).wrapping_sub(1 << (bits - 1)).wrapping_add(zero) & 15;
    samples.iter_mut().for_each(|byte| *byte = legal(*byte >> 4) << 4 | legal(*byte & 15));
}

/// Overwrites samples that a plan may no longer read.
fn spoil(bytes: &mut [u8]) {
    bytes.fill(0x5a);
}

/// Cuts of `0..times` into a few pieces.
fn cuts(random: &mut StdRng, times: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> =
        (0..random.random_range(0..4)).map(|_| random.random_range(0..=times)).collect();
    cuts.extend([0, times]);
    cuts.sort_unstable();
    cuts
}

/// A few rectangles that are missing.
fn missing(random: &mut StdRng, times: usize, channels: usize, inputs: usize) -> Vec<Missing> {
    let mut range = |count: usize| {
        let ends = [0, 1].map(|_| random.random_range(0..=count));
        ends[0].min(ends[1])..ends[0].max(ends[1])
    };
    let all: Vec<Missing> = (0..3)
        .map(|_| Missing { times: range(times), channels: range(channels), inputs: range(inputs) })
        .collect();
    all.into_iter().take(random.random_range(0..4)).collect()
}

/// Channels, and in each the pairs of inputs in the order of baselines.
fn every_baseline(channels: usize, inputs: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let pairs = move |channel| (0..inputs).flat_map(move |i| (0..=i).map(move |j| (channel, i, j)));
    (0..channels).flat_map(pairs)
}

/// Reports a difference from the expected value.
fn same<T: PartialEq + fmt::Debug>(
    what: impl FnOnce() -> String,
    found: T,
    expected: T,
) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{}: expected {expected:?}, found {found:?}", what())),
    }
}
