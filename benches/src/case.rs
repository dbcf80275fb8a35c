//! Cases, their subjects, and where these run.

use std::{collections::BTreeMap, sync::Arc};

use corrust_host::{Error, Result, device::Gpu};

use crate::{data::random_bytes, model::Model};

/// Device of subjects: a GPU, or the CPU without one.
#[derive(Clone, Debug, Default)]
pub struct BenchDevice {
    /// The GPU.
    pub gpu: Option<Arc<dyn Gpu>>,
    /// Name of its kernels, if they are not this build's.
    pub build: Option<String>,
    /// The same GPU, if it is a model whose times are predicted.
    pub model: Option<Arc<Model>>,
}

impl BenchDevice {
    /// A GPU that is not there: times are predicted.
    pub fn of_model(model: Arc<Model>) -> Self {
        Self { gpu: Some(model.clone()), build: None, model: Some(model) }
    }

    /// Random bytes; for a model zeros, which take no time.
    pub(crate) fn random_bytes(&self, length: usize) -> Vec<u8> {
        if self.model.is_some() { vec![0; length] } else { random_bytes(length) }
    }

    /// Results of the CPU's that others are compared with: those of a model mean nothing, and take no time.
    pub(crate) fn expected<T: Default>(&self, compute: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.model.is_some() { Ok(T::default()) } else { compute() }
    }

    /// Whether sizes must suit the simulator.
    pub fn simulated(&self) -> bool {
        self.gpu.as_ref().is_some_and(is_simulated)
    }
}

/// Whether a GPU is the simulator.
pub(crate) fn is_simulated(gpu: &Arc<dyn Gpu>) -> bool {
    // Every GPU has a driver.
    gpu.facts().driver == (0, 0)
}

/// One size of one system.
pub trait Case {
    /// The system: `correlate`.
    fn system(&self) -> &'static str;

    /// The size, as a person would say it: `N 256, C 20, T 3072, ci8`.
    fn label(&self) -> String;

    /// The size in numbers, by the names that the formulas have for them.
    fn sizes(&self) -> BTreeMap<&'static str, u64>;

    /// Encoding of the samples, where there are several.
    fn encoding(&self) -> String {
        String::new()
    }

    /// Subjects of this case at `place`, ready to run.
    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>>;
}

/// Clock of a subject's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The GPU's events: [`Work::run`] enqueues on the default stream.
    Device,
    /// The host's clock: [`Work::run`] ends when the work has ended.
    Host,
}

/// Work of a subject.
pub trait Work {
    /// Does it once.
    fn run(&mut self) -> Result<()>;

    /// Whether the last run agrees with the CPU, or with a plain loop.
    fn check(&mut self) -> Result<bool>;
}

/// Something to be measured.
pub struct Subject {
    /// Kernel, by the name that users know.
    pub kernel: String,
    /// Whether it is the one that `auto` takes.
    pub auto: bool,
    /// Which part of the way: `kernel` for the kernel alone on data in device memory.
    pub what: &'static str,
    /// Clock that measures it.
    pub clock: Clock,
    /// Whether to run it for longer, too, and take its power.
    pub sustain: bool,
    /// Operations of a run that someone asked for; redundant work and padding never count.
    pub useful_operations: f64,
    /// Bytes that a run must move at least: its input once and its output once.
    pub bytes: f64,
    /// Number of items of a run, and their name: `matrices`, `instants`.
    pub items: (f64, &'static str),
    /// Work that the GPU's limits apply to.
    pub bounds: Vec<Bound>,
    /// The work.
    pub work: Box<dyn Work>,
}

/// Work that a limit of the GPU applies to.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Names of the limit: the first that the GPU has counts.
    pub limits: &'static [&'static str],
    /// Operations or bytes of a run.
    pub work: f64,
}

impl Bound {
    /// Operations on `values` (`s8`, `b1`, `f16`): operations of the instruction that the kernel's name begins
    /// with, else of the best tensor cores that the GPU has.
    pub fn tensor(kernel: &str, values: &str, work: f64) -> Self {
        let limits: &[&str] = match (kernel.starts_with("mma"), values) {
            // Several real products a multiply-add: more than all of the limit is possible.
            _ if kernel.starts_with("packed") => &["integer multiply-add"],
            _ if kernel == "mma-s4" => &["mma.sync s4"],
            (true, "b1") => &["mma.sync b1"],
            (false, "b1") => &["wgmma b1", "mma.sync b1"],
            (true, "f16") => &["mma.sync f16"],
            (false, "f16") => &["wgmma f16", "mma.sync f16"],
            (true, _) => &["mma.sync s8"],
            (false, _) => &["wgmma s8", "mma.sync s8"],
        };
        Self { limits, work }
    }

    /// Bytes of device memory, read and written.
    pub fn memory(work: f64) -> Self {
        Self { limits: &["device copy"], work }
    }

    /// Bytes from host memory.
    pub fn upload(work: f64) -> Self {
        Self { limits: &["host to device"], work }
    }

    /// Bytes to host memory.
    pub fn download(work: f64) -> Self {
        Self { limits: &["device to host"], work }
    }
}

/// Kernels to measure: the named ones, or all but `auto` that the device runs.
///
/// `build` makes a plan; kernels that were not named and do not run on the device are left out.
pub fn kernels<K: Copy + PartialEq, P>(
    all: &[K],
    auto: K,
    named: &[K],
    mut build: impl FnMut(K) -> Result<P>,
) -> Result<Vec<(K, P)>> {
    let chosen = if named.is_empty() { all } else { named };
    let mut plans = Vec::new();
    for &kernel in chosen {
        if kernel == auto && named.is_empty() {
            continue;
        }
        match build(kernel) {
            Ok(plan) => plans.push((kernel, plan)),
            Err(Error::Invalid(_) | Error::Device(_)) if named.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(plans)
}
