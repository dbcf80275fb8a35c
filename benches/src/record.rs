//! Records: results, facts of the machine, and changes between two records.

use corrust_host::{Error, Result, partial::PartialFile, text::read_text};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::OnceLock,
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use crate::{
    case::{BenchDevice, Case, Clock, Subject},
    energy::{Meter, Reading},
};

/// Commit and compiler of the program, for the [`Facts`] of its records.
static BUILT: OnceLock<[&str; 2]> = OnceLock::new();

/// Sets the commit and the compiler of this program for the [`Facts`] of its records, once. Those of other programs
/// are `unknown`.
pub fn built_from(commit: &'static str, compiler: &'static str) {
    BUILT.get_or_init(|| [commit, compiler]);
}

/// Machine and software of a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The GPU, or the CPU where there is none.
    pub device: String,
    /// Compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// Streaming multiprocessors.
    pub multiprocessors: Option<u32>,
    /// Version of the GPU's driver.
    pub driver: Option<String>,
    /// CUDA version of the driver, major and minor.
    pub cuda: Option<(u32, u32)>,
    /// Power limit in watts.
    pub power_limit: Option<f64>,
    /// Highest clock of the multiprocessors in MHz.
    pub max_sm_mhz: Option<u32>,
    /// Highest clock of the memory in MHz.
    pub max_memory_mhz: Option<u32>,
    /// The host's processor.
    pub cpu: String,
    /// Threads that the CPU backends use.
    pub threads: usize,
    /// When, in universal time.
    pub date: String,
    /// Version of corrust.
    pub version: String,
    /// Commit that the program was built from.
    pub commit: String,
    /// Compiler of the program and its kernels.
    pub compiler: String,
}

impl Facts {
    /// Facts of this program at `place`, now.
    pub fn new(place: &BenchDevice, meter: Option<&Meter>) -> Self {
        let gpu = place.gpu.as_ref().map(|gpu| gpu.facts());
        let setup = meter.map(Meter::setup).unwrap_or_default();
        let cpu = cpu_name();
        let real = gpu.filter(|_| !place.simulated() && place.model.is_none());
        let [commit, compiler] = BUILT.get().unwrap_or(&["unknown"; 2]).map(str::to_owned);
        Self {
            device: match (gpu, &place.model) {
                (Some(facts), Some(_)) => format!("{} (predicted)", facts.name),
                (Some(facts), None) => facts.name.clone(),
                (None, _) => cpu.clone(),
            },
            compute_capability: real.map(|facts| facts.capability),
            multiprocessors: real.map(|facts| facts.multiprocessors),
            driver: setup.driver,
            cuda: real.map(|facts| facts.driver),
            power_limit: setup.power_limit,
            max_sm_mhz: setup.max_sm_mhz,
            max_memory_mhz: setup.max_memory_mhz,
            cpu,
            threads: rayon::current_num_threads(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit,
            compiler,
        }
    }
}

/// The host's processor as the system names it.
fn cpu_name() -> String {
    // "model name : Intel(R) Xeon(R) ..."; elsewhere than on Linux there is no such file.
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = facts.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

/// Measurements with the facts about where they were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Machine and software.
    pub machine: Facts,
    /// Results.
    pub rows: Vec<Row>,
}

impl Record {
    /// Writes the record as JSON.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, path: &Path) -> Result<()> {
        PartialFile::write_json(path, self)
    }

    /// Reads a file of [`Self::write`].
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] when it is no such record.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        serde_json::from_str(&text).map_err(|error| {
            Error::file(path, format!("expected a record of `corrust bench --json`: {error}"))
        })
    }

    /// Reads several records of one machine as one: the last one counts for cases that several have.
    ///
    /// # Errors
    /// Errors of [`Self::read`]; [`Error::File`] when they are of different devices.
    pub fn read_all(paths: &[impl AsRef<Path>]) -> Result<Self> {
        let mut whole: Option<Self> = None;
        for path in paths {
            let next = Self::read(path.as_ref())?;
            let Some(whole) = &mut whole else {
                whole = Some(next);
                continue;
            };
            if next.machine.device != whole.machine.device {
                return Err(Error::file(
                    path,
                    format!(
                        "made on {}, expected {} as the others",
                        next.machine.device, whole.machine.device
                    ),
                ));
            }
            for row in next.rows {
                let same = |known: &&mut Row| {
                    (known.identity(), &known.build) == (row.identity(), &row.build)
                };
                match whole.rows.iter_mut().find(same) {
                    Some(known) => *known = row,
                    None => whole.rows.push(row),
                }
            }
            // Facts that may differ are listed.
            let mut commits: Vec<String> =
                whole.machine.commit.split(", ").map(String::from).collect();
            if !commits.contains(&next.machine.commit) {
                commits.push(next.machine.commit.clone());
            }
            whole.machine = Facts { commit: commits.join(", "), ..next.machine };
        }
        Ok(whole.unwrap_or_default())
    }

    /// Rows of a system.
    pub fn of<'a>(&'a self, system: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.system == system)
    }
}

/// Repeated times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Half of them are less.
    pub median: f64,
    /// A quarter of them are less.
    pub lower: f64,
    /// A quarter of them are more.
    pub upper: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// Number of times; 0: they are predicted, and `least` and `most` are the range of the prediction.
    pub count: usize,
}

impl Times {
    /// Statistics of at least one time.
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let last = times.len() - 1;
        let at = |part: f64| times[(part * last as f64).round() as usize];
        Self {
            median: times[times.len() / 2],
            lower: at(0.25),
            upper: at(0.75),
            least: times[0],
            most: times[last],
            count: times.len(),
        }
    }

    /// A prediction and its range.
    pub fn predicted(seconds: f64, (least, most): (f64, f64)) -> Self {
        Self { median: seconds, lower: seconds, upper: seconds, least, most, count: 0 }
    }

    /// Whether the times are predicted.
    pub fn is_predicted(&self) -> bool {
        self.count == 0
    }

    /// Half the range that holds the middle half, as a part of the median.
    pub fn spread(&self) -> f64 {
        (self.upper - self.lower) / 2.0 / self.median
    }
}

/// Used part of a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Name of the limit: the one that takes longest.
    pub limit: String,
    /// The time that the limit alone asks for, as a part of the time taken.
    pub share: f64,
}

/// Results of a subject that ran for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sustained {
    /// Seconds of a run.
    pub seconds: f64,
    /// 10^12 useful operations a second.
    pub useful_tops: f64,
    /// Mean power in watts.
    pub watts: Option<f64>,
    /// 10^12 useful operations a joule.
    pub useful_tops_per_watt: Option<f64>,
    /// Mean clock of the multiprocessors in MHz.
    pub sm_mhz: Option<f64>,
    /// Mean clock of the memory in MHz.
    pub memory_mhz: Option<f64>,
}

impl Sustained {
    pub(crate) fn new(subject: &Subject, seconds: f64, reading: &Reading) -> Self {
        let useful_tops = subject.useful_operations / seconds * 1e-12;
        let efficiency = reading.watts.map(|watts| useful_tops / watts);
        Self {
            seconds,
            useful_tops,
            watts: reading.watts,
            useful_tops_per_watt: efficiency.filter(|_| useful_tops > 0.0),
            sm_mhz: reading.sm_mhz,
            memory_mhz: reading.memory_mhz,
        }
    }
}

/// Results of one kernel in one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The system: `correlate`.
    pub system: String,
    /// The case, as a person would say it.
    pub case: String,
    /// The case in numbers.
    pub sizes: BTreeMap<String, u64>,
    /// Encoding of the samples, where there are several.
    pub encoding: String,
    /// Kernel.
    pub kernel: String,
    /// Whether it is the one that `auto` takes.
    pub auto: bool,
    /// Part of the way: `kernel`, `from host`.
    pub what: String,
    /// Whether the host's clock measured it.
    pub host_clock: bool,
    /// The build, where it is not the program's own.
    pub build: Option<String>,
    /// Operations of a run that someone asked for.
    pub useful_operations: f64,
    /// Bytes that a run must move at least.
    pub bytes: f64,
    /// Name of the items, as in "matrices".
    pub item: String,
    /// Number of items of a run.
    pub items: f64,
    /// Times of a run.
    pub seconds: Times,
    /// 10^12 useful operations a second.
    pub useful_tops: f64,
    /// 10^9 bytes a second.
    pub gigabytes_per_second: f64,
    /// Items a second.
    pub items_per_second: f64,
    /// Used part of the GPU's limit.
    pub limit: Option<Share>,
    /// Results of a longer run.
    pub sustained: Option<Sustained>,
}

impl Row {
    /// A row of a subject's times.
    pub(crate) fn new(
        case: &dyn Case,
        place: &BenchDevice,
        subject: &Subject,
        seconds: Times,
        sustained: Option<Sustained>,
    ) -> Self {
        Self {
            system: case.system().to_owned(),
            case: case.label(),
            sizes: case.sizes().into_iter().map(|(name, size)| (name.to_owned(), size)).collect(),
            encoding: case.encoding(),
            kernel: subject.kernel.clone(),
            auto: subject.auto,
            what: subject.what.to_owned(),
            host_clock: subject.clock == Clock::Host,
            build: place.build.clone(),
            useful_operations: subject.useful_operations,
            bytes: subject.bytes,
            item: subject.items.1.to_owned(),
            items: subject.items.0,
            seconds,
            useful_tops: subject.useful_operations / seconds.median * 1e-12,
            gigabytes_per_second: subject.bytes / seconds.median * 1e-9,
            items_per_second: subject.items.0 / seconds.median,
            limit: None,
            sustained,
        }
    }

    /// A size by its name.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.sizes.get(name).copied()
    }

    /// Whether two rows are of the same kernel in the same case.
    pub fn is_of(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// Fields that are equal in rows that are compared.
    fn identity(&self) -> [&str; 4] {
        [&self.system, &self.case, &self.kernel, &self.what]
    }
}

/// The same measurement at two times, or of two builds.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// System, case, kernel and part of the way.
    pub what: String,
    /// Times of the earlier record, or the other build.
    pub before: Times,
    /// Times now.
    pub after: Times,
    /// Noise between such runs, as a part of the time.
    pub least_noise: f64,
}

impl Change {
    /// Time now as a part of the time before.
    pub fn ratio(&self) -> f64 {
        self.after.median / self.before.median
    }

    /// The part of a time that both have in common for all one knows: what such runs differ by, or what
    /// these do within themselves.
    pub fn noise(&self) -> f64 {
        self.least_noise.max(self.before.spread() + self.after.spread())
    }

    /// Whether it got slower by more than the noise: the middle halves of the times are apart, and the
    /// medians by more than [`Self::noise`].
    pub fn slower(&self) -> bool {
        self.after.lower > self.before.upper && self.ratio() > 1.0 + self.noise()
    }

    /// Whether it got quicker by more than the noise.
    pub fn quicker(&self) -> bool {
        self.after.upper < self.before.lower && self.ratio() < 1.0 / (1.0 + self.noise())
    }
}

/// Noise of measurements that alternated.
const NOISE_OF_TURNS: f64 = 0.01;
/// Noise from one run of the program to another: temperature and clocks.
const NOISE_OF_RUNS: f64 = 0.03;
/// The same where the host has a part in the work: its memory and its other tasks.
const NOISE_OF_HOSTS: f64 = 0.25;

/// Changes of cases that two runs, or two builds in one run (`turns`), have both measured, and the cases that only
/// `before` has.
pub fn changes(before: &[Row], after: &[Row], turns: bool) -> (Vec<Change>, Vec<String>) {
    let known: BTreeMap<_, _> = after.iter().map(|row| (row.identity(), row)).collect();
    let cases: BTreeSet<_> = after.iter().map(|row| (&row.system, &row.case)).collect();
    let (mut changes, mut missing) = (Vec::new(), Vec::new());
    for row in before {
        let what = row.identity().join(", ");
        match known.get(&row.identity()) {
            Some(now) => changes.push(Change {
                what,
                before: row.seconds,
                after: now.seconds,
                least_noise: match (turns, row.host_clock) {
                    (true, _) => NOISE_OF_TURNS,
                    (false, false) => NOISE_OF_RUNS,
                    (false, true) => NOISE_OF_HOSTS,
                },
            }),
            None if cases.contains(&(&row.system, &row.case)) => missing.push(what),
            // Nobody asked for that case this time.
            None => {}
        }
    }
    (changes, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kernel: &str, seconds: &[f64]) -> Row {
        Row {
            system: "correlate".to_owned(),
            case: "N 256".to_owned(),
            kernel: kernel.to_owned(),
            seconds: Times::of(seconds.to_vec()),
            ..Row::default()
        }
    }

    fn change(before: &[f64], after: &[f64], turns: bool) -> Change {
        let (mut changes, missing) = changes(&[row("k", before)], &[row("k", after)], turns);
        assert_eq!((changes.len(), missing.len()), (1, 0));
        changes.remove(0)
    }

    const STEADY: [f64; 7] = [1.0, 1.001, 0.999, 1.002, 0.998, 1.003, 0.997];

    #[test]
    fn a_slowed_kernel_is_flagged_and_noise_is_not() {
        let slowed = STEADY.map(|seconds| seconds * 1.05);
        assert!(change(&STEADY, &slowed, false).slower());
        assert!(change(&slowed, &STEADY, false).quicker());
        assert!(!change(&STEADY, &slowed, false).quicker());
        let warmer = STEADY.map(|seconds| seconds * 1.02);
        assert!(!change(&STEADY, &warmer, false).slower());
        assert!(change(&STEADY, &warmer, true).slower());
        assert!(!change(&STEADY, &STEADY, true).slower());
        // As much slower, but from measurements that are apart by as much themselves.
        let wild = [0.9, 1.2, 0.95, 1.05, 1.3, 0.8, 1.06];
        assert!(!change(&STEADY, &wild, true).slower());
    }

    #[test]
    fn what_is_gone_is_named_and_what_nobody_asked_for_is_not() {
        let mut other = row("k", &STEADY);
        other.case = "N 512".to_owned();
        let before = [row("gone", &STEADY), row("k", &STEADY), other];
        let (changes, missing) = changes(&before, &[row("k", &STEADY)], false);
        assert_eq!(changes.len(), 1);
        assert_eq!(missing.len(), 1);
        assert!(missing[0].contains("gone"));
    }

    #[test]
    fn times_of_few_and_many() {
        let one = Times::of(vec![2.0]);
        assert_eq!((one.median, one.lower, one.upper, one.spread()), (2.0, 2.0, 2.0, 0.0));
        let many = Times::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((many.median, many.lower, many.upper), (3.0, 2.0, 4.0));
        assert_eq!((many.least, many.most, many.count), (1.0, 5.0, 5));
    }
}
