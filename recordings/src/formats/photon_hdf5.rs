//! Photon-HDF5: photons one by one, in datasets of an HDF5 file.
//!
//! Groups `photon_data`, or `photon_data0`, `photon_data1` and so on of several spots, have each `timestamps`, `detectors` (of
//! one detector none) and `nanotimes` (microtimes, where they were measured), one number a photon. Names and units are those
//! of Photon-HDF5 0.5 (<https://photon-hdf5.readthedocs.io/en/latest/phdata.html>).

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use corrust_host::{Error, Result, device};
use rust_hdf5::{H5Dataset, H5File, ReadNumeric};

use super::{
    hdf5::{guarded, stored},
    input::{HDF5, begins},
    order::Order,
    span::span,
};
use crate::photons::arrived::DETECTORS;

/// Name of the groups of photons, without the number of a spot.
const GROUP: &str = "photon_data";

/// Numbers of a setup that [`Header::setup`] has.
const SETUP: [&str; 5] =
    ["num_spots", "num_pixels", "num_spectral_ch", "num_polarization_ch", "num_split_ch"];

/// Photons that are read at once, at least.
const READ: usize = 1 << 16;

/// Numbers of the spots of a file, ascending; none where it is no Photon-HDF5. A group without a number is spot 0.
///
/// # Errors
/// [`Error::File`] for a damaged file; [`Error::Io`] when it cannot be read.
pub fn spots(path: impl AsRef<Path>) -> Result<Vec<usize>> {
    let path = path.as_ref();
    if !begins(path, HDF5)? {
        return Ok(Vec::new());
    }
    let file = guarded(path, "read", || H5File::open(path))?;
    Ok(groups(path, &file)?.into_iter().map(|(spot, _)| spot).collect())
}

/// Spots and the names of their groups.
fn groups(path: &Path, file: &H5File) -> Result<Vec<(usize, String)>> {
    let names = guarded(path, "read", || file.root_group().group_names())?;
    let spot = |name: String| {
        let number = name.strip_prefix(GROUP)?;
        let spot = if number.is_empty() { 0 } else { number.parse().ok()? };
        Some((spot, name))
    };
    let mut found: Vec<_> = names.into_iter().filter_map(spot).collect();
    found.sort();
    if let Some([(spot, first), (_, second)]) = found.array_windows().find(|[a, b]| a.0 == b.0) {
        let reason = format!("groups {first} and {second} of spot {spot}: expected one of them");
        return Err(Error::file(path, reason));
    }
    Ok(found)
}

/// Facts of the photons of a spot.
#[derive(Clone, Debug)]
pub struct Header {
    /// Version of the format, as the file says it.
    pub version: Option<String>,
    /// Number of the spot, and of those in the file.
    pub spot: usize,
    /// Spots of the file.
    pub spots: usize,
    /// Photons and markers.
    pub records: u64,
    /// Seconds of a unit of time.
    pub unit: f64,
    /// Seconds of a unit of microtimes, where there are any and the file says it.
    pub microtime: Option<f64>,
    /// Units that microtimes are below, where the file says it.
    pub microtimes: Option<u64>,
    /// Seconds of the acquisition, where the file tells it.
    pub acquisition: Option<f64>,
    /// Numbers of the setup, with their names in the file.
    pub setup: Vec<(&'static str, u64)>,
}

impl Header {
    /// Units of time of the measurement, on the file's clock: from the first event to the end of the acquisition, or to the end
    /// of the last event where that is not told.
    pub fn span(&self, survey: &Survey) -> Range<u64> {
        // Rounded to 0.1 s by phconvert.
        span(survey.first..survey.units, self.unit, self.acquisition, 0.1)
    }

    /// Name of the format, with its version.
    pub fn format(&self) -> String {
        let version = self.version.iter().flat_map(|version| [" ", version]);
        ["Photon-HDF5"].into_iter().chain(version).collect()
    }
}

/// Counts of a spot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Photons of each detector, as many as the largest number of a detector says.
    pub photons: Vec<u64>,
    /// Events of detectors that the file lists as recording no photons.
    pub markers: u64,
    /// Units of time of the first event.
    pub first: u64,
    /// Units of time after the last event.
    pub units: u64,
}

/// The photons of a spot.
pub struct Reader {
    path: PathBuf,
    header: Header,
    markers: Vec<usize>,
    pub(crate) timestamps: Column<u64>,
    pub(crate) detectors: Option<Column<u32>>,
    pub(crate) nanotimes: Option<Column<u32>>,
}

/// The spot that is asked for, and its group; the only one where none is.
fn chosen<'a, G>(
    path: &Path,
    groups: &'a [(usize, G)],
    spot: Option<usize>,
) -> Result<&'a (usize, G)> {
    let listed = || {
        let numbers = groups.iter().map(|(spot, _)| spot.to_string());
        numbers.collect::<Vec<_>>().join(", ")
    };
    match (spot, groups) {
        (_, []) => Err(Error::file(path, format!("no group {GROUP}: expected Photon-HDF5"))),
        (None, [only]) => Ok(only),
        (None, _) => {
            let reason = format!("has photons of spots {}: expected the number of one", listed());
            Err(Error::setting("spot", Some(path), reason))
        }
        (Some(spot), _) => groups.iter().find(|(found, _)| *found == spot).ok_or_else(|| {
            Error::file(path, format!("no photons of spot {spot}: there are of {}", listed()))
        }),
    }
}

impl Reader {
    /// Opens the photons of a spot; of a file of one spot, none needs to be said.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is damaged, or lacks the spot, its times or their unit; [`Error::Setting`] for a file of
    /// several spots without `spot`; [`Error::Io`] when it cannot be read.
    pub fn open(path: impl AsRef<Path>, spot: Option<usize>) -> Result<Self> {
        let path = path.as_ref();
        let fault = |reason: String| Error::file(path, reason);
        std::fs::File::open(path).map_err(Error::io(path, "read"))?;
        let file = guarded(path, "read", || H5File::open(path))?;
        let groups = groups(path, &file)?;
        let (spot, group) = chosen(path, &groups, spot)?;
        let names = file.dataset_names();
        let has = |name: &str| names.iter().any(|found| found.trim_start_matches('/') == name);
        let at = |name: &str| format!("{group}/{name}");
        let timestamps = Column::open(path, &file, at("timestamps"))?;
        let records = timestamps.count;
        let beside = |name: &str| {
            let name = at(name);
            if !has(&name) {
                return Ok(None);
            }
            let column = Column::open(path, &file, name)?;
            if column.count != records {
                let reason = format!(
                    "dataset \"{}\" of {} numbers beside {records} timestamps: expected as many",
                    column.name, column.count
                );
                return Err(fault(reason));
            }
            Ok(Some(column))
        };
        let (detectors, nanotimes) = (beside("detectors")?, beside("nanotimes")?);
        let seconds = |name: &str| {
            let value = scalar::<f64>(path, &file, &at(name))?;
            match value {
                value if value > 0.0 && value.is_finite() => Ok(value),
                value => Err(fault(format!("{} of {value} s: expected more than 0", at(name)))),
            }
        };
        let unit = seconds("timestamps_specs/timestamps_unit")?;
        let (microtime, bins) = ("nanotimes_specs/tcspc_unit", "nanotimes_specs/tcspc_num_bins");
        let measured = nanotimes.is_some();
        let microtime =
            (measured && has(&at(microtime))).then(|| seconds(microtime)).transpose()?;
        let bins = (measured && has(&at(bins))).then(|| scalar(path, &file, &at(bins)));
        let setup = SETUP.iter().filter_map(|&name| {
            let value = scalar(path, &file, &format!("setup/{name}")).ok()?;
            Some((name, value))
        });
        let version = guarded(path, "read", || file.attr_string("format_version")).ok();
        let header = Header {
            version: version.filter(|text| text.len() < 32 && !text.contains(char::is_control)),
            spot: *spot,
            spots: groups.len(),
            records,
            unit,
            microtime,
            microtimes: bins.transpose()?,
            acquisition: match has("acquisition_duration") {
                true => Some(scalar(path, &file, "acquisition_duration")?),
                false => None,
            },
            setup: setup.collect(),
        };
        let prefix = at("measurement_specs/detectors_specs/non_photon_id");
        let mut markers = Vec::new();
        for name in names.iter().map(|name| name.trim_start_matches('/')) {
            if name.starts_with(&prefix) {
                markers.extend(numbers::<u32>(path, &file, name)?.iter().map(|&id| id as usize));
            }
        }
        Ok(Self { path: path.to_owned(), header, markers, timestamps, detectors, nanotimes })
    }

    /// Facts of the photons.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all times and detectors.
    ///
    /// # Errors
    /// [`Error::File`] for numbers of detectors from [`DETECTORS`] on, and times that run backwards by more than one photon or are from 2^63 on; [`Error::Io`] when the file
    /// cannot be read.
    pub fn survey(&mut self) -> Result<Survey> {
        let records = self.header.records;
        let mut survey = Survey { photons: Vec::new(), markers: 0, first: 0, units: 0 };
        if records == 0 {
            return Ok(survey);
        }
        let (mut photon, mut order) = (0_u64, Order::default());
        while let Some(block) = self.timestamps.next(&self.path)? {
            if photon == 0 {
                // One of the first two is the first.
                survey.first = block.iter().take(2).copied().min().unwrap_or_default();
            }
            for &time in block {
                if order.add(time).is_none() {
                    let reason = format!(
                        "photon {photon} at time {time} comes after time {}: {}",
                        order.last(),
                        Order::EXPECTED
                    );
                    return Err(Error::file(&self.path, reason));
                }
                photon += 1;
            }
        }
        let last = order.last();
        self.timestamps.rewind();
        if last >= 1 << 63 {
            let reason = format!("timestamp {last}: expected times below 2^63");
            return Err(Error::file(&self.path, reason));
        }
        survey.units = last + 1;
        match &mut self.detectors {
            None => survey.photons.push(records),
            Some(detectors) => {
                while let Some(block) = detectors.next(&self.path)? {
                    for &detector in block {
                        let detector = numbered(&self.path, detector)?;
                        if detector >= survey.photons.len() {
                            survey.photons.resize(detector + 1, 0);
                        }
                        survey.photons[detector] += 1;
                    }
                }
                detectors.rewind();
            }
        }
        for &marker in &self.markers {
            if let Some(count) = survey.photons.get_mut(marker) {
                survey.markers += std::mem::take(count);
            }
        }
        Ok(survey)
    }
}

/// A number of a detector that is within bounds.
fn numbered(path: &Path, detector: u32) -> Result<usize> {
    let number = detector as usize;
    if number < DETECTORS {
        return Ok(number);
    }
    Err(Error::file(path, format!("detector {number}: expected numbers below {DETECTORS}")))
}

/// A dataset of one axis, of unsigned numbers, read from its first to its last in blocks.
pub(crate) struct Column<T> {
    name: String,
    data: H5Dataset,
    count: u64,
    /// Numbers of a block: whole chunks of the file, which are read once each.
    step: u64,
    next: u64,
    /// Numbers that were read last.
    block: Vec<T>,
}

impl<T: ReadNumeric> Column<T> {
    fn open(path: &Path, file: &H5File, name: String) -> Result<Self> {
        let data = guarded(path, "read", || file.dataset(&name))?;
        let [count] = stored(path, &name, &data)?[..] else {
            let reason =
                format!("dataset \"{name}\" of shape {:?}: expected [photon]", data.shape());
            return Err(Error::file(path, reason));
        };
        let chunk = data.chunk_dims().and_then(|axes| axes.first().copied()).unwrap_or(1).max(1);
        let step = chunk.saturating_mul(READ.div_ceil(chunk)) as u64;
        Ok(Self { name, data, count: count as u64, step, next: 0, block: Vec::new() })
    }

    /// Numbers from `first` on, all of which there are.
    fn at(&self, path: &Path, first: u64, count: u64) -> Result<Vec<T>> {
        let count = count as usize;
        // Room for the bytes and the numbers, which the crate takes without asking.
        device::room::<[u64; 2]>(count)?;
        guarded(path, "read", || self.data.read_numeric_slice_as(&[first as usize], &[count]))
    }

    /// The next block; none at the end.
    pub fn next(&mut self, path: &Path) -> Result<Option<&[T]>> {
        let count = self.step.min(self.count - self.next);
        if count == 0 {
            return Ok(None);
        }
        self.block = Vec::new();
        self.block = self.at(path, self.next, count)?;
        self.next += count;
        Ok(Some(&self.block))
    }

    /// Begins anew.
    pub fn rewind(&mut self) {
        (self.next, self.block) = (0, Vec::new());
    }

    /// Numbers of the last block.
    pub fn block(&self) -> &[T] {
        &self.block
    }
}

/// The numbers of a small dataset.
fn numbers<T: ReadNumeric>(path: &Path, file: &H5File, name: &str) -> Result<Vec<T>> {
    let data = guarded(path, "read", || file.dataset(name))?;
    let count: usize = stored(path, name, &data)?.into_iter().product();
    if count > DETECTORS {
        let reason = format!("dataset \"{name}\" of {count} numbers: expected at most {DETECTORS}");
        return Err(Error::file(path, reason));
    }
    guarded(path, "read", || data.read_numeric_as())
}

/// The number of a dataset of one.
fn scalar<T: ReadNumeric + Copy>(path: &Path, file: &H5File, name: &str) -> Result<T> {
    match numbers(path, file, name)?[..] {
        [value] => Ok(value),
        ref values => {
            let reason = format!("dataset \"{name}\" of {} numbers: expected one", values.len());
            Err(Error::file(path, reason))
        }
    }
}
