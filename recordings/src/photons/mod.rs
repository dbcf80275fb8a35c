//! Photons that were timed one by one, and counts, as recordings of counts: how many photons each sensor saw
//! in each instant.
//!
//! [`open`] recognises a file by its contents: PicoQuant's PTU and the formats before it
//! ([`format::tttr`](crate::formats::tttr)), Photon-HDF5, NumPy files of arrival times (uint64, a file for each channel), or of counts (uint8 or uint16,
//! `[instant][sensor]`), which HDF5 files have as well. Times become counts as they are read, in one pass over the counts' memory: a sensor
//! is a channel, or a channel within a gate of microtimes, and an instant a whole number of the file's units
//! of time.
//!
//! Its bound: some fifteen instructions a photon, none of which waits for the one before. A core does more than 1
//! GB/s of records, which a GPU could not take over for less: it would need the same bytes from the host, and each
//! photon's time is the sum of all overflows before it.

pub(crate) mod bins;
pub(crate) mod counts;
pub(crate) mod filters;
pub(crate) mod gates;
#[cfg(feature = "hdf5")]
pub(crate) mod hdf5;
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
};

use corrust_host::{
    Error, Result,
    autocorrelate::{Arrivals, MOST_INSTANTS},
    device,
};

use self::source::{Reading, Source};
pub use self::{
    filters::{Decays, Filters, MOST_COMPONENTS, Pattern, decays, lifetime_weights, patterns},
    trace::Trace,
};
use crate::formats::{
    input::{HDF5, begins},
    npy::{
        header::{Dtype, MAGIC},
        reader::Reader,
    },
    recording::Recording,
    tttr::{FORMATS, is_tttr},
};
pub use corrust_host::samples::CountShape;

/// A stretch of microtimes, in seconds since the pulse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// Begin of the stretch.
    pub start: f64,
    /// End of the stretch, exclusive.
    pub end: f64,
}

/// Options for counting photons.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seconds of an instant, rounded to whole units of the file's; of counts, what they are (by default
    /// [`DWELL`]).
    pub dwell: Option<f64>,
    /// Which channels, in this order ([`SYNC`](crate::formats::tttr::SYNC) among them); none for all that have
    /// photons.
    pub channels: Vec<usize>,
    /// A sensor of each channel for each of these; none for one sensor of all its photons.
    pub gates: Vec<Gate>,
    /// Numbers of two markers: photons count in whole instants after the first and before the next of the second one.
    /// A last sensor then has 1 in each such instant and 0 elsewhere.
    pub between: Option<[usize; 2]>,
    /// Seconds of the file's clock at which the first instant begins; by default those of the first event. Photons before are
    /// left out.
    pub start: Option<f64>,
    /// Seconds of a unit of arrival times in NumPy files, which do not say.
    pub unit: Option<f64>,
    /// Which spot of a Photon-HDF5 file; none where there is one.
    pub spot: Option<usize>,
    /// Whether to read what there is of a file that is cut short.
    pub keep_going: bool,
}

/// Numbers of channels are below this.
pub const DETECTORS: usize = 1 << 16;

/// Seconds of an instant where nothing else is said.
pub const DWELL: f64 = 1.6e-6;

/// Photons of a stretch, about.
const STRETCH: u128 = 1 << 20;

/// Sensors of a recording, at most.
const MOST_SENSORS: usize = 1 << 20;

/// A recording of counts.
pub struct Counts {
    /// The counts; [`interval`](Recording::interval) is the dwell time.
    pub recording: Box<dyn Photons>,
    /// Names of the sensors.
    pub sensors: Vec<String>,
    /// Whether it was made of photons one by one.
    pub photons: bool,
    /// Whether the last sensor says where the others count ([`Options::between`]).
    pub masked: bool,
}

/// A recording of counts, whose photons can be had one by one where it is of such.
pub trait Photons: Recording<CountShape> {
    /// Photons of each sensor, at most; none of a recording of counts.
    fn photons(&self) -> Option<Vec<u64>>;

    /// Microtimes of the photons; none where there are none, or of an unknown unit.
    fn microtimes(&self) -> Option<Microtimes>;

    /// Instants of about a million photons.
    fn stretch(&self) -> u64 {
        let photons: u64 = self.photons().map_or(0, |photons| photons.iter().sum());
        let stretch = u128::from(self.times()) * STRETCH / u128::from(photons.max(1));
        (stretch as u64).clamp(1, MOST_INSTANTS)
    }

    /// Lists the photons of the next `instants` instants, of fewer at the end of the recording or beyond
    /// [`MOST_INSTANTS`], in place of those that are listed, and returns how many
    /// instants they are; 0 means that the recording has ended. Counts and times may be read in turns.
    ///
    /// # Errors
    /// As for [`read_block`](Recording::read_block); [`Error::Invalid`] for a recording of counts.
    fn read_times(&mut self, instants: u64, arrived: &mut Arrived) -> Result<u64>;
}

/// Units of microtimes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Microtimes {
    /// Seconds of a unit.
    pub unit: f64,
    /// Units between two pulses, about, or that the instrument tells apart.
    pub count: u32,
}

/// Photons of a stretch of a recording.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// Instants of the stretch.
    pub instants: u64,
    /// For each sensor the instants of its photons since the stretch began, ascending.
    pub times: Vec<Vec<u32>>,
    /// Whether their microtimes are to be listed, too; of NumPy files, which have none, they are not.
    pub with_microtimes: bool,
    /// For each sensor the microtimes of the same photons, in the file's units, if they were asked for.
    pub microtimes: Vec<Vec<u32>>,
}

impl Arrived {
    /// The times, to be correlated.
    pub fn arrivals(&self) -> Arrivals<'_> {
        Arrivals { instants: self.instants, times: &self.times }
    }
}

/// Opens a file of photons or of counts, or files of arrival times, one for each channel.
///
/// # Errors
/// [`Error::File`] for a file that is none of these, or damaged; a dwell time shorter than a unit of time or
/// longer than the recording; a channel that has no photons; a gate that is empty, or beyond the sync period.
/// [`Error::Invalid`] without a file, or when `options` do not suit it; [`Error::Io`] when it cannot be read.
pub fn open<P: AsRef<Path>>(paths: &[P], options: &Options) -> Result<Counts> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
    let first = paths.first().ok_or_else(|| Error::invalid("no file of photons: expected 1"))?;
    let lone = |what: &str| match paths.get(1) {
        None => Ok(()),
        Some(more) => {
            Err(Error::file(more, format!("a file beside {what}: expected one file alone")))
        }
    };
    fn counts(
        source: impl Source + 'static,
        sensors: Vec<String>,
        photons: bool,
        masked: bool,
    ) -> Result<Counts> {
        Ok(Counts { recording: Box::new(Reading::new(source)), sensors, photons, masked })
    }
    let numbered = |what: &str, count| {
        if count > MOST_SENSORS {
            let reason = format!("counts of {count} sensors: expected at most {MOST_SENSORS}");
            return Err(Error::file(first, reason));
        }
        let mut names = device::room(count)?;
        names.extend((0..count).map(|number| format!("{what} {number}")));
        Ok(names)
    };
    let refuse = |what: &str| Err(Error::file(first, what));
    let no_unit = |what: &str| match options.unit {
        None => Ok(()),
        Some(_) => Err(Error::file(first, what)),
    };
    let no_markers = || match options.between {
        None => Ok(()),
        Some(_) => {
            let reason = format!("has no markers to count between: expected a file of {FORMATS}");
            Err(Error::file(first, reason))
        }
    };
    #[cfg(feature = "hdf5")]
    if !crate::formats::photon_hdf5::spots(first)?.is_empty() {
        lone("photons of all channels")?;
        no_unit("says what its unit of time is: expected no --unit")?;
        no_markers()?;
        let photons = photon_hdf5::Photons::open(first, options)?;
        let sensors = photons.sensor_names();
        return counts(photons, sensors, true, false);
    }
    if options.spot.is_some() {
        return refuse("has no spots to choose from: expected no --spot, or a file of Photon-HDF5");
    }
    if is_tttr(first)? {
        lone("photons of all channels")?;
        no_unit("says what its unit of time is: expected no --unit")?;
        let photons = tttr::Photons::open(first, options)?;
        let sensors = photons.sensor_names();
        return counts(photons, sensors, true, options.between.is_some());
    }
    no_markers()?;
    if !options.gates.is_empty() {
        return refuse(&format!("has no microtimes for a gate: expected a file of {FORMATS}"));
    }
    if !options.channels.is_empty() {
        return refuse(&format!("has no channels to choose from: expected a file of {FORMATS}"));
    }
    let dwell = options.dwell.unwrap_or(DWELL);
    let no_times = "has counts, no arrival times: expected no --unit";
    let no_start = || match options.start {
        None => Ok(()),
        Some(_) => Err(Error::file(first, "has counts, no arrival times: expected no --start")),
    };
    if begins(first, HDF5)? {
        lone("counts")?;
        no_unit(no_times)?;
        no_start()?;
        #[cfg(not(feature = "hdf5"))]
        return refuse("is HDF5: expected a build of corrust with the feature hdf5");
        #[cfg(feature = "hdf5")]
        return {
            let kept = hdf5::Hdf5::open(first, dwell)?;
            let sensors = numbered("sensor", kept.shape().sensors)?;
            counts(kept, sensors, false, false)
        };
    }
    if first.is_file() && !begins(first, MAGIC)? {
        let reason =
            format!("is none that corrust knows: expected a file of {FORMATS}, HDF5 or NumPy");
        return refuse(&reason);
    }
    let reader = Reader::open(first)?;
    if reader.dtype() == Some(Dtype::Uint64) && reader.shape().len() == 1 {
        let times = times::Times::open(reader, &paths[1..], options)?;
        return counts(times, numbered("channel", paths.len())?, true, false);
    }
    lone("counts")?;
    no_unit(no_times)?;
    no_start()?;
    let kept = counts::Kept::open(reader, dwell)?;
    let sensors = numbered("sensor", kept.shape().sensors)?;
    counts(kept, sensors, false, false)
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

/// First unit of time of a recording whose events take a span of its clock, and its whole instants of so many units.
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

/// Whole instants in so many units.
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
