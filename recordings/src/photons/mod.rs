//! Photons that were timed one by one, and counts, as recordings of counts: how many photons each sensor saw
//! in each instant.
//!
//! [`open`] recognises a file by its contents: PicoQuant's PTU and the formats before it
//! ([`format::tttr`](crate::formats::tttr)), Photon-HDF5, NumPy files of arrival times (uint64 or int64, a file for each channel), or of counts (whole
//! numbers of 0 to 65,535 of any type, `[instant][sensor]`; in floating ones NaN is missing), which HDF5 files have as well (uint8 or uint16). Times become counts as they are read, in one pass over the counts' memory: a sensor
//! is a channel, or a channel within a gate of microtimes, and an instant a whole number of the file's units
//! of time.
//!
//! Its bound: some fifteen instructions a photon, none of which waits for the one before. A core does more than 1
//! GB/s of records, which a GPU could not take over for less: it would need the same bytes from the host, and each
//! photon's time is the sum of all overflows before it.

pub(crate) mod arrived;
pub(crate) mod bins;
pub(crate) mod counts;
pub(crate) mod filters;
pub(crate) mod gates;
#[cfg(feature = "hdf5")]
pub(crate) mod hdf5;
pub(crate) mod masked;
#[cfg(feature = "hdf5")]
pub(crate) mod photon_hdf5;
pub(crate) mod source;
pub(crate) mod times;
pub(crate) mod trace;
pub(crate) mod tttr;
pub(crate) mod windows;

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
};

use corrust_host::{Error, Result, device};

pub use self::{
    arrived::{Arrived, DETECTORS, Microtimes, Photons},
    counts::is_array,
    filters::{Decays, Filters, MOST_COMPONENTS, Pattern, decays, lifetime_weights, patterns},
    trace::Trace,
};
use self::{
    masked::Masked,
    source::{CountSource, Reading},
    windows::Windows,
};
use crate::formats::{
    Block,
    input::{HDF5, begins},
    npy::{
        header::{Dtype, MAGIC},
        reader::Reader,
    },
    records::FORMATS,
    tttr::is_tttr,
};
pub use corrust_host::samples::CountShape;

/// A stretch of microtimes, in seconds since the pulse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// Start of the stretch.
    pub start: f64,
    /// End of the stretch, exclusive.
    pub end: f64,
}

/// Bursts to leave out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Photons a second of a sensor: bins in which one has more are a burst.
    pub rate: f64,
    /// Seconds of a bin, rounded to whole instants.
    pub bin: f64,
}

/// Options for counting photons.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seconds of an instant: of photons rounded to whole units of the file, of counts as they were taken (by default
    /// [`DWELL`]).
    pub dwell: Option<f64>,
    /// Channels to read, in this order ([`SYNC`](crate::formats::tttr::SYNC) among them); none for all that have
    /// photons.
    pub channels: Vec<usize>,
    /// A sensor of each channel for each of these; none for one sensor of all its photons.
    pub gates: Vec<Gate>,
    /// Numbers of two markers: photons count in whole instants after the first and before the next of the second one.
    /// With this and the two that follow a last sensor, the mask, has 1 in each instant that counts and 0 elsewhere.
    pub between: Option<[usize; 2]>,
    /// Stretches of seconds since the first instant, in any order: what an instant has of one does not count.
    pub exclude: Vec<Range<f64>>,
    /// Bursts to leave out; finding them reads the files once more.
    pub bursts: Option<Bursts>,
    /// Seconds of the file's clock at which the first instant begins; by default the time of the first event. Photons before
    /// are left out.
    pub start: Option<f64>,
    /// Seconds of a unit of arrival times in NumPy files, which do not say.
    pub unit: Option<f64>,
    /// Spot of a Photon-HDF5 file; none where there is one.
    pub spot: Option<usize>,
    /// Whether to read what there is of a file that is cut short.
    pub keep_going: bool,
}

/// Seconds of an instant where nothing else is said.
pub const DWELL: f64 = 1.6e-6;

/// Numbers of a trace in which bursts are looked for, at most.
const MOST_BINS: u64 = 1 << 26;

/// Sensors of a recording, at most.
const MOST_SENSORS: usize = 1 << 20;

/// A recording of counts.
pub struct Counts {
    /// The counts; [`interval`](crate::formats::Recording::interval) is the dwell time.
    pub recording: Box<dyn Photons>,
    /// Names of the sensors.
    pub sensors: Vec<String>,
    /// Whether it was made of photons one by one.
    pub photons: bool,
    /// Whether the last sensor is a mask, which says where the others count: with [`Options::between`],
    /// [`Options::exclude`] or [`Options::bursts`], and where some counts are NaN.
    pub masked: bool,
    /// Photons so far that came late by one photon, and were put in order.
    pub late: Arc<AtomicU64>,
}

/// Opens a file of photons or of counts, or files of arrival times, one for each channel.
///
/// # Errors
/// [`Error::File`] for a file of another format, or a damaged one; a dwell time shorter than a unit of time or
/// longer than the recording; a channel that has no photons; a gate that is empty, or beyond the sync period; a stretch to exclude that
/// begins beyond the recording, or that leaves nothing to count.
/// [`Error::Setting`] naming the one of `options` that the file needs, or has no use for; [`Error::Invalid`] without a file;
/// [`Error::Io`] when it cannot be read.
pub fn open<P: AsRef<Path>>(paths: &[P], options: &Options) -> Result<Counts> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
    let first = paths.first().ok_or_else(|| Error::invalid("no file of photons: expected 1"))?;
    let bursts = match options.bursts {
        None => Vec::new(),
        Some(bursts) => bright(&paths, options, bursts)?,
    };
    Opening { paths: &paths, first, options, bursts }.open()
}

/// Stretches of instants that are bursts.
fn bright(
    paths: &[PathBuf],
    options: &Options,
    Bursts { rate, bin }: Bursts,
) -> Result<Vec<Range<u64>>> {
    if !(rate > 0.0 && rate.is_finite() && bin > 0.0 && bin.is_finite()) {
        return Err(Error::invalid(format!(
            "bursts of more than {rate} photons a second in {bin} s: expected two numbers above 0"
        )));
    }
    if let Some(pipe) = paths.iter().find(|path| !path.is_file()) {
        return Err(Error::file(pipe, "is no file: expected one, which is read twice for bursts"));
    }
    let whole = Options { between: None, exclude: Vec::new(), bursts: None, ..options.clone() };
    let mut recording = open(paths, &whole)?.recording;
    let (shape, instants) = (recording.shape(), recording.times());
    let dwell = recording.interval().unwrap_or(DWELL);
    let bins = instants as f64 * dwell / bin.max(dwell);
    if bins * shape.sensors as f64 > MOST_BINS as f64 {
        return Err(Error::file(
            &paths[0],
            format!("{bins:.0} bins of {bin:e} s for bursts: expected longer bins"),
        ));
    }
    let mut trace = Trace::new(shape.sensors, dwell, bin);
    if recording.photons().is_some() {
        let (stretch, mut arrived) = (recording.stretch(), Arrived::default());
        while recording.read_times(stretch, &mut arrived)? > 0 {
            trace.add_times(&arrived);
        }
    } else {
        let (times, mut block) = (((1 << 22) / shape.bytes()).max(1), Block::new());
        while recording.read_block(times, &mut block)? > 0 {
            trace.add(&shape, &block.samples);
        }
    }
    Ok(trace.brighter_than(rate))
}

/// Files to be opened.
struct Opening<'a> {
    paths: &'a [PathBuf],
    first: &'a Path,
    options: &'a Options,
    /// Instants that do not count, whatever else is excluded.
    bursts: Vec<Range<u64>>,
}

impl Opening<'_> {
    fn open(&self) -> Result<Counts> {
        let Self { first, options, .. } = *self;
        #[cfg(feature = "hdf5")]
        if !crate::formats::photon_hdf5::spots(first)?.is_empty() {
            self.lone("photons of all channels")?;
            self.no_unit("says what its unit of time is: expected none")?;
            self.no_markers()?;
            let photons = photon_hdf5::Photons::open(first, options)?;
            let sensors = photons.sensor_names();
            return self.counts(photons, sensors, true, None);
        }
        if options.spot.is_some() {
            let reason = "has no spots to choose from: expected none, or a file of Photon-HDF5";
            return Err(Error::setting("spot", Some(first), reason));
        }
        if is_tttr(first)? {
            self.lone("photons of all channels")?;
            self.no_unit("says what its unit of time is: expected none")?;
            let mut photons = tttr::Photons::open(first, options)?;
            let sensors = photons.sensor_names();
            let windows = options.between.map(|markers| photons.between(markers)).transpose()?;
            return self.counts(photons, sensors, true, windows);
        }
        self.no_markers()?;
        if !options.gates.is_empty() {
            return self
                .refuse(&format!("has no microtimes for a gate: expected a file of {FORMATS}"));
        }
        if !options.channels.is_empty() {
            return self
                .refuse(&format!("has no channels to choose from: expected a file of {FORMATS}"));
        }
        self.open_arrays()
    }

    /// Opens arrays, of counts or of arrival times.
    fn open_arrays(&self) -> Result<Counts> {
        let Self { first, options, .. } = *self;
        let dwell = options.dwell.unwrap_or(DWELL);
        if begins(first, HDF5)? {
            self.only_counts()?;
            #[cfg(not(feature = "hdf5"))]
            return self.refuse("is HDF5: expected a build of corrust with the feature hdf5");
            #[cfg(feature = "hdf5")]
            return {
                let kept = hdf5::Hdf5::open(first, dwell)?;
                let sensors = self.numbered("sensor", kept.shape().sensors)?;
                self.counts(kept, sensors, false, None)
            };
        }
        if first.is_file() && !begins(first, MAGIC)? {
            return self.refuse(&format!(
                "is of an unknown format: expected a file of {FORMATS}, HDF5 or NumPy"
            ));
        }
        let reader = Reader::open(first)?;
        let of_times = match reader.dtype() {
            Some(Dtype::Uint64) => true,
            // Counts are often of this type, too.
            Some(Dtype::Int64) => options.unit.is_some(),
            _ => false,
        };
        if of_times && reader.shape().len() == 1 {
            let times = times::Times::open(reader, &self.paths[1..], options)?;
            return self.counts(times, self.numbered("channel", self.paths.len())?, true, None);
        }
        self.only_counts()?;
        let (kept, missing) = counts::Kept::open(reader, dwell)?;
        let sensors = self.numbered("sensor", kept.shape().sensors)?;
        let windows = missing.then(|| Windows::all(kept.instants()));
        self.counts(kept, sensors, false, windows)
    }

    /// Counts of a source, of the instants within `windows` if there are any, without excluded ones.
    fn counts(
        &self,
        source: impl CountSource + 'static,
        mut sensors: Vec<String>,
        photons: bool,
        windows: Option<Windows>,
    ) -> Result<Counts> {
        let all = source.instants();
        let mut excluded = self.excluded(source.dwell(), all)?;
        excluded.extend_from_slice(&self.bursts);
        let windows = match (windows, excluded.is_empty()) {
            (windows, true) => windows,
            (windows, false) => {
                let windows = windows.unwrap_or_else(|| Windows::all(all)).without(excluded);
                Some(windows.map_err(|error| Error::file(self.first, error.to_string()))?)
            }
        };
        fn counts(
            reading: Reading<impl CountSource + 'static>,
            sensors: Vec<String>,
            [photons, masked]: [bool; 2],
        ) -> Counts {
            let late = reading.late();
            Counts { recording: Box::new(reading), sensors, photons, masked, late }
        }
        Ok(match windows {
            None => counts(Reading::new(source), sensors, [photons, false]),
            Some(windows) => {
                sensors.push("mask".to_owned());
                counts(Reading::new(Masked::new(source, windows)), sensors, [photons, true])
            }
        })
    }

    /// Instants that have something of the stretches to exclude.
    fn excluded(&self, dwell: f64, all: u64) -> Result<Vec<Range<u64>>> {
        // A stretch that ends with an instant does so for all the rounding of its seconds.
        let near = |seconds: f64, other: fn(f64) -> f64| {
            let instants = seconds / dwell;
            let whole = instants.round();
            if (instants - whole).abs() < 1e-9 * whole.max(1.0) { whole } else { other(instants) }
        };
        let stretch = |stretch: &Range<f64>| {
            let Range { start, end } = *stretch;
            if !(start >= 0.0 && start < end) {
                return Err(Error::invalid(format!(
                    "{start}..{end} s to exclude: expected two times, ascending from 0 on"
                )));
            }
            let instants = near(start, f64::floor) as u64..(near(end, f64::ceil) as u64).min(all);
            if instants.start >= all {
                let length = all as f64 * dwell;
                return Err(Error::file(
                    self.first,
                    format!(
                        "{start}..{end} s to exclude: expected a stretch that begins within its {length} s"
                    ),
                ));
            }
            Ok(instants)
        };
        self.options.exclude.iter().map(stretch).collect()
    }

    fn refuse<T>(&self, reason: &str) -> Result<T> {
        Err(Error::file(self.first, reason))
    }

    /// Refuses files beside a first that has everything.
    fn lone(&self, what: &str) -> Result<()> {
        match self.paths.get(1) {
            None => Ok(()),
            Some(more) => {
                Err(Error::file(more, format!("a file beside {what}: expected one file alone")))
            }
        }
    }

    fn no_unit(&self, reason: &str) -> Result<()> {
        match self.options.unit {
            None => Ok(()),
            Some(_) => Err(Error::setting("unit", Some(self.first), reason)),
        }
    }

    fn no_markers(&self) -> Result<()> {
        match self.options.between {
            None => Ok(()),
            Some(_) => self
                .refuse(&format!("has no markers to count between: expected a file of {FORMATS}")),
        }
    }

    /// Refuses options for arrival times.
    fn only_counts(&self) -> Result<()> {
        self.lone("counts")?;
        self.no_unit("has counts, no arrival times (uint64 or int64, [photon]): expected none")?;
        match self.options.start {
            None => Ok(()),
            Some(_) => {
                let reason = "has counts, no arrival times: expected no start";
                Err(Error::setting("start", Some(self.first), reason))
            }
        }
    }

    /// Names of `count` sensors.
    fn numbered(&self, what: &str, count: usize) -> Result<Vec<String>> {
        if count > MOST_SENSORS {
            return self
                .refuse(&format!("counts of {count} sensors: expected at most {MOST_SENSORS}"));
        }
        let mut names = device::room(count)?;
        names.extend((0..count).map(|number| format!("{what} {number}")));
        Ok(names)
    }
}

/// A dwell time in whole units of a file's.
fn dwell_units(path: &Path, seconds: f64, unit: f64) -> Result<u64> {
    let units = (seconds / unit).round();
    if !(1.0..=9e18).contains(&units) {
        return Err(Error::file(
            path,
            format!("a dwell time of {seconds:e} s: expected at least a unit of time, {unit:e} s"),
        ));
    }
    Ok(units as u64)
}

/// First unit of time of a recording whose events take a span of its clock, and its whole instants of `dwell` units.
fn begin(
    path: &Path,
    span: Range<u64>,
    unit: f64,
    dwell: u64,
    options: &Options,
) -> Result<(u64, u64)> {
    let origin = match options.start {
        None => span.start,
        Some(seconds) => {
            let units = (seconds / unit).round();
            if !(0.0..span.end as f64).contains(&units) {
                return Err(Error::file(
                    path,
                    format!(
                        "a start at {seconds:e} s: expected one of 0 s to the end of its times, {:e} s",
                        span.end as f64 * unit
                    ),
                ));
            }
            units as u64
        }
    };
    Ok((origin, whole_instants(path, span.end - origin.min(span.end), dwell, unit)?))
}

/// Whole instants in `units` units.
fn whole_instants(path: &Path, units: u64, dwell: u64, unit: f64) -> Result<u64> {
    match units / dwell {
        0 => Err(Error::file(
            path,
            format!(
                "{:e} s of photons: expected at least a dwell time, {:e} s",
                units as f64 * unit,
                dwell as f64 * unit
            ),
        )),
        instants => Ok(instants),
    }
}

/// Finds the channels asked for, or all that have photons.
fn chosen_channels(
    path: &Path,
    photons: &[u64],
    asked: &[usize],
    all: Vec<usize>,
    name: impl Fn(usize) -> String,
) -> Result<Vec<usize>> {
    let list = |channels: &[usize]| {
        channels.iter().map(|&channel| name(channel)).collect::<Vec<_>>().join(", ")
    };
    if all.is_empty() && asked.is_empty() {
        return Err(Error::file(path, "no photons: expected some"));
    }
    for (place, &channel) in asked.iter().enumerate() {
        if photons.get(channel).is_none_or(|&count| count == 0) {
            return Err(Error::file(
                path,
                format!("no photons of channel {}: there are of {}", name(channel), list(&all)),
            ));
        }
        if asked[..place].contains(&channel) {
            let reason = format!("channel {} twice: expected it once", name(channel));
            return Err(Error::invalid(reason));
        }
    }
    Ok(if asked.is_empty() { all } else { asked.to_vec() })
}
