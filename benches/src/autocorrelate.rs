//! Cases of the autocorrelator: 10 groups of 32 lags, or others.
//!
//! Useful operations: a multiplication and an addition for every product of the definition, that is for
//! every lag of every bin.

use std::{collections::BTreeMap, rc::Rc};

use corrust_host::{
    Autocorrelator, Device, Layout, Result,
    autocorrelate::{Builder, Kernel, Shape, Sums},
    device::{DeviceSlice, Stream},
    samples::{Element, Samples},
};

use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, Work, kernels},
    data::{Ring, SampleMemory, locked},
};

/// Groups of bins of the instrument.
const GROUPS: usize = 10;
/// Lags of a group of the instrument.
const LAGS: usize = 32;
/// Instants of packets of the instrument.
const PACKETS: [usize; 2] = [100, 400];

/// Sizes and kernels to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of sensors.
    pub sensors: Vec<usize>,
    /// Numbers of instants of a call; none for 2^30 counts, fewer on a CPU, and packets of 100 and 400 instants.
    pub instants: Vec<usize>,
    /// Numbers of groups of bins.
    pub groups: Vec<usize>,
    /// Numbers of lags of a group.
    pub lags: Vec<usize>,
    /// Kernels; none for all that the device runs.
    pub kernels: Vec<Kernel>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sensors: vec![64, 1024, 16384],
            instants: Vec::new(),
            groups: vec![GROUPS],
            lags: vec![LAGS],
            kernels: Vec::new(),
        }
    }
}

/// The cases of some options.
pub fn cases(options: &Options, place: &BenchDevice) -> Vec<Box<dyn Case>> {
    let counts = if place.gpu.is_some() { 1 << 30 } else { 1 << 25 };
    let groups_and_lags = || {
        options
            .groups
            .iter()
            .flat_map(|&groups| options.lags.iter().map(move |&lags| (groups, lags)))
    };
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    for (groups, lags) in groups_and_lags() {
        let mut add = |sensors, instants| {
            let kernels = options.kernels.clone();
            cases.push(Box::new(Counts { sensors, instants, groups, lags, kernels }));
        };
        for &sensors in &options.sensors {
            match &options.instants[..] {
                [] => add(sensors, (counts / sensors).max(1)),
                named => named.iter().for_each(|&instants| add(sensors, instants)),
            }
        }
        if options.instants.is_empty() && options.sensors.contains(&1024) {
            PACKETS.into_iter().for_each(|instants| add(1024, instants));
        }
    }
    cases
}

/// Blocks of `instants` instants by packets and by tensor cores.
pub(crate) fn candidates(instants: usize, place: &BenchDevice) -> Box<dyn Case> {
    let sensors = if place.simulated() { 2 } else { 1024 };
    let kernels = Vec::new();
    let mut case = Counts { sensors, instants, groups: GROUPS, lags: LAGS, kernels };
    // Blocks of some do not fit smaller GPUs.
    let runs = |kernel: &Kernel| match &place.gpu {
        Some(gpu) => case.builder().kernel(*kernel).gpu(gpu.clone()).build().is_ok(),
        None => true,
    };
    case.kernels = [Kernel::Packets, Kernel::TensorCores].into_iter().filter(runs).collect();
    Box::new(case)
}

struct Counts {
    sensors: usize,
    instants: usize,
    groups: usize,
    lags: usize,
    kernels: Vec<Kernel>,
}

impl Case for Counts {
    fn system(&self) -> &'static str {
        "autocorrelate"
    }

    fn label(&self) -> String {
        let Self { sensors, instants, groups, lags, .. } = self;
        match (*groups, *lags) {
            (GROUPS, LAGS) => format!("{sensors} sensors, {instants} instants"),
            _ => format!("{sensors} sensors, {instants} instants, {groups} groups of {lags}"),
        }
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.sensors, self.instants, self.groups, self.lags].map(|size| size as u64);
        ["sensors", "instants", "groups", "lags"].into_iter().zip(sizes).collect()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let builder = |kernel| {
            let builder = self.builder().kernel(kernel);
            match &place.gpu {
                Some(gpu) => builder.gpu(gpu.clone()),
                None => builder.device(Device::Cpu),
            }
        };
        let counts = Rc::new(place.random_bytes(self.sensors * self.instants));
        let mut plan = self.builder().device(Device::Cpu).build()?;
        if place.model.is_none() {
            plan.accumulate(&counts[..])?;
        }
        let expected = Rc::new(plan.snapshot()?);

        let source = match &place.gpu {
            Some(gpu) => SampleMemory::Device(Rc::new(Ring::new(gpu, &counts)?)),
            None => SampleMemory::Host(counts.clone()),
        };
        let mut subjects = Vec::new();
        // Plans do not say which kernel they choose: `auto` is a kernel of its own.
        let known: Vec<Kernel> = match self.kernels.is_empty() {
            true => Kernel::ALL.iter().copied().filter(|&kernel| self.suits(kernel)).collect(),
            false => self.kernels.clone(),
        };
        let runs = |kernel| builder(kernel).build().map(|_| ());
        let mut chosen = kernels(&known, Kernel::Auto, &self.kernels, runs)?;
        if self.kernels.is_empty() {
            chosen.insert(0, (Kernel::Auto, ()));
        }
        for (kernel, ()) in chosen {
            let make = builder(kernel);
            subjects.push(self.subject(
                place,
                make,
                kernel,
                "kernel",
                source.clone(),
                &expected,
            )?);
        }
        if let Some(gpu) = &place.gpu
            && self.instants > PACKETS[1]
        {
            let named = self.kernels.first().copied().unwrap_or(Kernel::Auto);
            let locked = SampleMemory::Locked(Rc::new(locked(gpu, &counts)?));
            for (what, source) in
                [("from host", SampleMemory::Host(counts)), ("page-locked", locked)]
            {
                subjects.push(self.subject(
                    place,
                    builder(named),
                    named,
                    what,
                    source,
                    &expected,
                )?);
            }
        } else if place.gpu.is_some() {
            // Bin groups do not take as many lags as others.
            let others = kernels(&[Kernel::BinGroups], Kernel::Auto, &[], runs)?;
            for (kernel, ()) in [(Kernel::Auto, ())].into_iter().chain(others) {
                let (source, make) = (SampleMemory::Host(counts.clone()), builder(kernel));
                subjects.push(self.subject(place, make, kernel, "from host", source, &expected)?);
            }
        }
        Ok(subjects)
    }
}

impl Counts {
    fn builder(&self) -> Builder {
        Autocorrelator::builder(self.sensors).groups(self.groups).lags(self.lags)
    }

    /// Whether a kernel is for blocks of this length: bin groups go an instant or a packet at a
    /// time, up to seconds for what others do in milliseconds.
    fn suits(&self, kernel: Kernel) -> bool {
        // A CPU's are for photons by their times: of counts they are `auto`.
        if Kernel::OF_CPU.contains(&kernel) {
            return false;
        }
        !matches!(kernel, Kernel::BinGroups | Kernel::Packets) || self.instants <= 1 << 14
    }

    fn subject(
        &self,
        place: &BenchDevice,
        builder: Builder,
        kernel: Kernel,
        what: &'static str,
        source: SampleMemory,
        expected: &Rc<Sums>,
    ) -> Result<Subject> {
        let counts = (self.sensors * self.instants) as f64;
        // Group k has 2^-k as many bins.
        let bins = counts * (2.0 - 2f64.powi(1 - self.groups as i32));
        let operations = 2.0 * self.lags as f64 * bins;
        let name = kernel.to_string();
        let mut bounds = vec![Bound::tensor(&name, "s8", operations), Bound::memory(counts)];
        if matches!(what, "from host" | "page-locked") {
            bounds.push(Bound::upload(counts));
        }
        Ok(Subject {
            kernel: name,
            auto: kernel == Kernel::Auto,
            what,
            clock: match source {
                SampleMemory::Device(_) => Clock::Device,
                SampleMemory::Host(_) | SampleMemory::Locked(_) => Clock::Host,
            },
            sustain: what == "kernel"
                && self.instants > PACKETS[1]
                && (kernel == Kernel::Auto || !self.kernels.is_empty()),
            useful_operations: operations,
            bytes: counts,
            items: (self.instants as f64, "instants"),
            bounds,
            work: Box::new({
                let plan = builder.clone().build()?;
                let expected = expected.clone();
                let instants = self.instants;
                let mut work = Counting { plan, builder, source, instants, expected };
                // The simulator counts kernels, not what the host does.
                if !place.simulated() {
                    work.pass_head()?;
                }
                work
            }),
        })
    }
}

struct Counting {
    plan: Autocorrelator,
    builder: Builder,
    source: SampleMemory,
    instants: usize,
    expected: Rc<Sums>,
}

impl Counting {
    /// Takes a stream past its first instants, which the host sums up for the curves' normalisation, too: once in a
    /// stream, where blocks are timed that come over and over.
    fn pass_head(&mut self) -> Result<()> {
        // Lags of a group begin where those of the group before end. A stream of 2^20 instants is the most that is worth the wait.
        const MOST: usize = 1 << 20;
        let Shape { groups, lags, .. } = *self.plan.shape();
        let longest = lags.saturating_mul(1 << groups.min(20)).min(MOST);
        (0..longest.div_ceil(self.instants) + 1).try_for_each(|_| self.run())
    }
}

impl Work for Counting {
    fn run(&mut self) -> Result<()> {
        match &self.source {
            SampleMemory::Device(ring) => {
                let sensors = self.plan.shape().sensors;
                let bytes = sensors * self.instants;
                // SAFETY: the ring holds the counts as long as the plan.
                let slice = unsafe { DeviceSlice::from_raw(ring.next(), bytes, Stream::default()) };
                let counts = Samples::new(slice, sensors, 1, Element::Count, Layout::Tcn)?;
                self.plan.accumulate(counts)
            }
            SampleMemory::Host(counts) => {
                self.plan.accumulate(&counts[..])?;
                self.plan.wait()
            }
            SampleMemory::Locked(counts) => {
                self.plan.accumulate(&**counts)?;
                self.plan.wait()
            }
        }
    }

    /// The first block of a stream: later ones depend on how many came before.
    fn check(&mut self) -> Result<bool> {
        self.plan.wait()?;
        self.plan = self.builder.clone().build()?;
        self.run()?;
        Ok(self.plan.snapshot()? == *self.expected)
    }
}
