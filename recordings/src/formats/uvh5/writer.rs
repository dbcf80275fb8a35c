//! Writing of UVH5 files.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use corrust_host::{
    Error, Result,
    correlate::{ValidCounts, Visibilities},
    partial::PartialFile,
    samples::Shape,
};
use jiff::Timestamp;
use num_complex::Complex;
use rust_hdf5::{H5File, H5Type, Hdf5Error, file::H5FileOptions, types::HBool};

use super::products::{Origin, Products};
use super::{
    header::{Columns, Header, MOST_BYTES, rows_of_piece, scalar},
    number::Number,
};
use crate::array::{
    file::{Array, Field, PhaseCenter},
    sky::{Apparent, Moment, Site},
};
use crate::formats::hdf5::fault;

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether samples were delayed so that the array's phase centre arrives everywhere at once.
    pub phased: bool,
    /// Level of compression by gzip, 1 to 9, after HDF5's shuffle filter; [`None`]: not compressed.
    pub gzip: Option<u8>,
}

/// Writes dumps as they come. The file appears under its final name when it is [finished](Self::finish);
/// dropped before that, after an error for example, it leaves nothing.
///
/// ```
/// use corrust_host::{Correlator, Device};
/// use corrust_recordings::formats::{array::Array, uvh5};
///
/// let array = Array::parse(
///     r#"{
///         "telescope": "example",
///         "location": {"latitude": -30.7, "longitude": 21.4, "altitude": 1050},
///         "positions": [[0, 0, 0], [29, 0, 0]],
///         "frequencies": [1e8, 1.1e8],
///         "start": "2026-03-01T00:00:00Z", "sample_time": 1e-3
///     }"#,
/// )?;
/// let mut correlator = Correlator::builder(2, 2).device(Device::Cpu).build()?;
/// # let folder = std::env::temp_dir().join(format!("corrust-doc-uvh5-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("x.uvh5");
/// let mut file = uvh5::Writer::create(&path, &array, correlator.shape())?;
/// for start in [0, 100] {
///     correlator.accumulate(&[[[[1_i8, -1]; 2]; 2]; 100])?;
///     let dump = correlator.dump()?;
///     file.append(&dump.visibilities, &dump.valid, start, 100)?;
/// }
/// file.finish()?;
/// assert_eq!(uvh5::Reader::open(&path)?.dumps(), 2);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer {
    unfinished: Unfinished,
    columns: Columns,
    products: Products,
    /// Numbers of `ant_1` and `ant_2`.
    numbers: Vec<[i64; 2]>,
    /// East, north and up, and in ITRS, of each pair.
    baselines: Vec<[[f64; 3]; 2]>,
    channels: usize,
    integer: bool,
    start: Timestamp,
    sample_time: f64,
    site: Site,
    /// Whether UT1, and so the sidereal time, is known.
    sidereal: bool,
    center: Option<PhaseCenter>,
    dumps: u64,
    /// Julian date of the last dump.
    last: Option<f64>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("path", &self.unfinished.path)
            .field("dumps", &self.dumps)
            .finish()
    }
}

/// A file that is being written. Dropped before its end, after an error for example, it says nothing of its own.
pub(super) struct Unfinished {
    path: PathBuf,
    /// None once it is complete or given up.
    hdf5: Option<H5File>,
    file: Option<PartialFile>,
}

impl Unfinished {
    fn create(path: &Path) -> Result<Self> {
        let file = PartialFile::create(path)?;
        let Some(name) = file.unfinished_name() else {
            let reason = "is a pipe: expected the name of a file, for UVH5 is not written from its \
                          beginning to its end";
            return Err(Error::file(path, reason));
        };
        // The unfinished file has a lock of its own.
        let hdf5 = H5FileOptions::new().no_locking().create(name).map_err(fault(path, "write"))?;
        Ok(Self { path: path.to_owned(), hdf5: Some(hdf5), file: Some(file) })
    }

    /// The HDF5 file that is being written.
    fn hdf5(&self) -> &H5File {
        self.hdf5.as_ref().expect("it is closed at its end alone")
    }

    /// Completes what HDF5 holds.
    fn close(&mut self) -> std::result::Result<(), Hdf5Error> {
        self.hdf5.take().map_or(Ok(()), H5File::close_no_sync)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let (Some(hdf5), Some(file)) = (&self.hdf5, &mut self.file) {
            // Dropped as it is, the crate would complete the file, and print where it cannot. What is cut off makes room
            // for the end, which goes with the file.
            let _ = file.set_length(0);
            let _ = hdf5.flush();
            let _ = self.close();
        }
    }
}

/// Products of the inputs of an array of `antennas` antennas.
fn products(array: &Array, inputs: usize, antennas: usize) -> Result<Products> {
    let inputs = array.inputs(inputs)?;
    let products = Products::new(&inputs).map_err(|reason| array.error(reason))?;
    if let Some(input) = inputs.iter().find(|input| input.antenna >= antennas) {
        return Err(array.error(format_args!(
            "\"inputs\" of antenna {}: expected one below {antennas}",
            input.antenna
        )));
    }
    Ok(products)
}

/// Checks the bytes of a baseline, which are in one piece.
fn check_row(path: &Path, channels: usize, polarisations: usize) -> Result<()> {
    let row = channels.saturating_mul(polarisations).saturating_mul(16);
    if row <= MOST_BYTES {
        return Ok(());
    }
    let reason = format!(
        "{row} bytes of a baseline: expected at most {MOST_BYTES}, as UVH5 has them in a piece"
    );
    Err(Error::file(path, reason))
}

impl Writer {
    /// Starts a file of the visibilities of a correlation of `shape`, which are not phased: `array` says what
    /// its inputs, channels and times are.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when the array lacks a telescope, location, antennas,
    /// frequencies, start or sample time, or does not match the correlation; [`Error::File`] when `path` is
    /// a pipe; [`Error::Io`] when it cannot be written.
    pub fn create(path: impl AsRef<Path>, array: &Array, shape: &Shape) -> Result<Self> {
        Self::with_options(path, array, shape, Options::default())
    }

    /// Starts a file that may be phased, or compressed.
    ///
    /// # Errors
    /// As for [`create`](Self::create), and when the array of a phased file lacks a phase centre; [`Error::Invalid`] for another
    /// level of compression than 1 to 9.
    pub fn with_options(
        path: impl AsRef<Path>,
        array: &Array,
        shape: &Shape,
        options: Options,
    ) -> Result<Self> {
        if let Some(level) = options.gzip.filter(|level| !(1..=9).contains(level)) {
            return Err(Error::invalid(format!("gzip of level {level}: expected 1 to 9")));
        }
        let center = match (options.phased, &array.phase_center) {
            (false, _) => None,
            (true, Some(center)) => Some(center),
            (true, None) => return Err(array.lacks(&[Field::PhaseCenter], "phased UVH5")),
        };
        Self::start(path.as_ref(), array, shape, (center, options.gzip))
    }

    /// Checks that dumps `seconds` apart have different times in a file: Julian dates in f64 are 40.2 us apart.
    ///
    /// # Errors
    /// [`Error::File`] that names the file.
    pub fn told_apart(path: impl AsRef<Path>, seconds: f64) -> Result<()> {
        // Of dates from 2^21 to 2^22 days, years -7000 to 6700.
        const RESOLUTION: f64 = 86_400.0 / (1_u64 << 31) as f64;
        if seconds >= RESOLUTION {
            return Ok(());
        }
        Err(Error::file(
            path.as_ref(),
            format!(
                "dumps {seconds:.2e} s apart: expected at least {RESOLUTION:.2e} s, as UVH5 has Julian dates, or .npy"
            ),
        ))
    }

    fn start(
        path: &Path,
        array: &Array,
        shape: &Shape,
        (center, gzip): (Option<&PhaseCenter>, Option<u8>),
    ) -> Result<Self> {
        let Array {
            telescope: Some(telescope),
            location: Some(location),
            antennas: Some(antennas),
            channels: Some(_),
            start: Some(start),
            sample_time: Some(sample_time),
            ..
        } = array
        else {
            let fields = [
                Field::Telescope,
                Field::Location,
                Field::Antennas,
                Field::Frequencies,
                Field::Start,
                Field::SampleTime,
            ];
            return Err(array.lacks(&fields, "UVH5"));
        };
        let products = products(array, shape.inputs, antennas.len())?;
        let frequencies = array.frequencies(shape.channels)?;
        let dut1 = array.dut1.unwrap_or(0.0);
        let site = Site::new(location, dut1).ok_or_else(|| {
            array.error(format_args!("\"location\" {location:?}: expected a place on Earth"))
        })?;
        check_row(path, shape.channels, products.polarisations.len())?;

        let unfinished = Unfinished::create(path)?;
        let integer = shape.encoding.is_integer();
        let header = Header {
            telescope,
            instrument: array.instrument.as_deref().unwrap_or(telescope),
            location: [location.latitude, location.longitude, location.altitude],
            antennas,
            frequencies: &frequencies,
            width: |channel| {
                let width = array.channels.as_ref().and_then(|channels| channels.width(channel));
                width.map_or(1.0 / sample_time, f64::abs)
            },
            dut1: array.dut1,
            center,
            gzip,
        };
        let columns = header
            .write(unfinished.hdf5(), &site, &products, integer)
            .map_err(fault(path, "write"))?;
        let pairs = || products.pairs.iter().map(|&(a, b)| [a, b].map(|index| &antennas[index]));
        let numbers = pairs().map(|pair| pair.map(|antenna| i64::from(antenna.number)));
        let baselines = pairs().map(|[first, second]| {
            let (from, to) = (first.position, second.position);
            let local: [f64; 3] = std::array::from_fn(|axis| to[axis] - from[axis]);
            [local, site.to_earth(local)]
        });
        Ok(Self {
            unfinished,
            columns,
            numbers: numbers.collect(),
            baselines: baselines.collect(),
            products,
            channels: shape.channels,
            integer,
            start: *start,
            sample_time: *sample_time,
            site,
            sidereal: array.dut1.is_some(),
            center: center.cloned(),
            dumps: 0,
            last: None,
        })
    }

    /// Appends a dump of `times` times, of which the first is time `start` of the recording. `valid` are the
    /// samples behind its visibilities.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the dump is of another shape, or lies outside of the years 1972 to 2100;
    /// [`Error::File`] when it has the Julian date of the one before; [`Error::Io`] and [`Error::File`] when it cannot be written.
    pub fn append(
        &mut self,
        visibilities: &Visibilities,
        valid: &ValidCounts,
        start: u64,
        times: u64,
    ) -> Result<()> {
        let found = match visibilities {
            Visibilities::Integer(sums) => (sums.dim(), true),
            Visibilities::Float(sums) => (sums.dim(), false),
        };
        let inputs = self.products.sources.iter().filter_map(|source| match *source {
            Origin::Plain(baseline) | Origin::Conjugate(baseline) => Some(baseline + 1),
            Origin::None => None,
        });
        let expected = ((self.channels, inputs.max().unwrap_or(0)), self.integer);
        if found != expected {
            return Err(Error::invalid(format!(
                "visibilities of {found:?} (channels and baselines, whether integers): expected \
                 {expected:?}"
            )));
        }
        let middle = (start as f64 + times as f64 / 2.0) * self.sample_time;
        let unknown = || {
            Error::invalid(format!(
                "a dump {middle} s after {}: expected one in the years 1972 to 2100",
                self.start
            ))
        };
        let moment = Moment::after(self.start, middle).ok_or_else(unknown)?;
        let date = moment.julian_date();
        if self.last.is_some_and(|last| last == date) {
            return Err(Error::file(
                &self.unfinished.path,
                format!(
                    "dumps of one Julian date, {date}: expected each later than the one before"
                ),
            ));
        }
        let sidereal_time = self.site.sidereal_time(moment).ok_or_else(unknown)?;
        let zenith = Apparent { ra: sidereal_time, dec: self.site.latitude, angle: 0.0 };
        let apparent = match &self.center {
            None => zenith,
            Some(center) => self.site.apparent(center, moment).ok_or_else(unknown)?,
        };
        let uvw = self.baselines.iter().flat_map(|&[local, earth]| match &self.center {
            None => local,
            Some(_) => self.site.uvw(earth, &apparent, sidereal_time),
        });
        let columns = &self.columns;
        let rows = self.numbers.len();
        let column = |numbers: usize| self.numbers.iter().map(move |pair| pair[numbers]);
        let fill = || -> std::result::Result<(), Hdf5Error> {
            columns.time.append(&vec![date; rows])?;
            columns.integration.append(&vec![times as f64 * self.sample_time; rows])?;
            if let Some(column) = columns.sidereal_time.as_ref().filter(|_| self.sidereal) {
                column.append(&vec![sidereal_time; rows])?;
            }
            columns.first.append(&column(0).collect::<Vec<i64>>())?;
            columns.second.append(&column(1).collect::<Vec<i64>>())?;
            columns.uvw.append(&uvw.collect::<Vec<f64>>())?;
            columns.center.append(&vec![0_i64; rows])?;
            columns.ra.append(&vec![apparent.ra; rows])?;
            columns.dec.append(&vec![apparent.dec; rows])?;
            columns.angle.append(&vec![apparent.angle; rows])?;
            match visibilities {
                Visibilities::Integer(sums) => {
                    self.append_rows(valid, times, |channel, baseline| sums[[channel, baseline]])
                }
                Visibilities::Float(sums) => {
                    self.append_rows(valid, times, |channel, baseline| sums[[channel, baseline]])
                }
            }
        };
        fill().map_err(fault(&self.unfinished.path, "write"))?;
        self.dumps += 1;
        self.last = Some(date);
        Ok(())
    }

    /// Appends the visibilities of all baselines, their flags and their samples.
    fn append_rows<T>(
        &self,
        valid: &ValidCounts,
        times: u64,
        sum: impl Fn(usize, usize) -> Complex<T>,
    ) -> std::result::Result<(), Hdf5Error>
    where
        T: H5Type + Default + std::ops::Neg<Output = T>,
    {
        let polarisations = self.products.polarisations.len();
        let row = self.channels * polarisations;
        let rows = rows_of_piece(row * Number::<i64>::element_size());
        let capacity = row * rows.min(self.numbers.len());
        let mut numbers = Vec::with_capacity(capacity);
        let mut flags = Vec::with_capacity(capacity);
        let mut samples = Vec::with_capacity(capacity);
        for sources in self.products.sources.chunks(rows * polarisations) {
            numbers.clear();
            flags.clear();
            samples.clear();
            for sources in sources.chunks_exact(polarisations) {
                for channel in 0..self.channels {
                    for source in sources {
                        let (number, count) = match *source {
                            Origin::Plain(baseline) => {
                                (sum(channel, baseline), valid.get(channel, baseline))
                            }
                            Origin::Conjugate(baseline) => {
                                let Complex { re, im } = sum(channel, baseline);
                                (Complex::new(re, -im), valid.get(channel, baseline))
                            }
                            Origin::None => (Complex::new(T::default(), T::default()), 0),
                        };
                        numbers.push(Number(number));
                        flags.push(HBool::from(count == 0));
                        samples.push((count as f64 / times as f64) as f32);
                    }
                }
            }
            self.columns.visibilities.append(&numbers)?;
            self.columns.flags.append(&flags)?;
            self.columns.samples.append(&samples)?;
        }
        Ok(())
    }

    /// Completes the file and gives it its final name, replacing a file of that name.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::File`] when the file cannot be completed or renamed; nothing is left of it
    /// then.
    pub fn finish(self) -> Result<()> {
        let Self { mut unfinished, columns, products, numbers, dumps, .. } = self;
        drop(columns);
        let antennas: std::collections::HashSet<_> =
            products.pairs.iter().flat_map(|&(first, second)| [first, second]).collect();
        let mut finish = || -> std::result::Result<(), Hdf5Error> {
            let header = unfinished.hdf5().root_group().group("Header")?;
            let rows = numbers.len() as i64 * dumps as i64;
            scalar(&header, "Nants_data", antennas.len() as i64)?;
            scalar(&header, "Nbls", numbers.len() as i64)?;
            scalar(&header, "Nblts", rows)?;
            scalar(&header, "Ntimes", dumps as i64)?;
            drop(header);
            unfinished.close()
        };
        finish().map_err(fault(&unfinished.path, "write"))?;
        unfinished.file.take().map_or(Ok(()), PartialFile::finish)
    }
}
