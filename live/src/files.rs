//! Files that dumps of a stream are written to, one after the other, each of which appears when it is complete.

use std::path::{Path, PathBuf};

use corrust_host::{
    Encoding, Error, Result,
    correlate::{ValidCounts, baselines},
    partial::{PartialFile, folder, sweep_series},
    quantise::VanVleck,
    samples::Shape,
};
use corrust_recordings::{
    array::{
        file::Array,
        time::{Timestamp, later},
    },
    formats::{
        npy::{Dtype, Writer},
        uvh5,
    },
    run::Integration,
};
use jiff::SignedDuration;
use serde::Serialize;

/// Clock of a stream: UTC of its times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// UTC of timestamp 0.
    pub sync: Timestamp,
    /// Timestamps a second.
    pub rate: f64,
    /// Timestamps from one time to the next.
    pub step: u64,
}

impl Clock {
    /// Seconds from one time to the next.
    pub fn interval(&self) -> f64 {
        self.step as f64 / self.rate
    }

    /// UTC of a time, to the nanosecond where the rate is a whole number of hertz, and else within two months of
    /// the sync time; the sync time of one beyond the year 9999.
    pub fn moment(&self, time: u64) -> Timestamp {
        let ticks = u128::from(time) * u128::from(self.step);
        let found = if self.rate.fract() == 0.0 && self.rate < u64::MAX as f64 {
            let rate = self.rate as u128;
            let rest = (ticks % rate) as f64 / self.rate;
            // Beyond all years where they are more.
            let seconds = i64::try_from(ticks / rate).unwrap_or(i64::MAX);
            let whole = self.sync.checked_add(SignedDuration::from_secs(seconds)).ok();
            whole.and_then(|whole| later(whole, rest))
        } else {
            later(self.sync, ticks as f64 / self.rate)
        };
        found.unwrap_or(self.sync)
    }
}

/// Description of an `.npy` file of dumps, for the JSON file beside it.
#[derive(Serialize)]
struct Description {
    /// Start of the first dump, UTC.
    start: String,
    /// Its first time, counted from the sync time.
    first_time: u64,
    /// Times of a dump.
    times: u64,
    /// Seconds from one time to the next.
    sample_time: f64,
    dumps: usize,
    first_channel: u64,
}

/// Writes dumps to files `STEM-TIME.npy` or `STEM-TIME.uvh5`, where TIME is the start of their first dump:
/// `20260301T120000.500000Z`.
///
/// Beside `STEM-TIME.npy`, int64 `[dump][channel][baseline][2]` (float32 for cf16 and coefficients), are `STEM-TIME.valid.npy`, the valid samples
/// uint64 `[dump][channel][baseline]` (with gates `[dump][gate]...` both), and `STEM-TIME.json`; the former appears last. A gap between dumps
/// begins another file.
pub struct Files {
    pattern: PathBuf,
    shape: Shape,
    first_channel: u64,
    clock: Clock,
    array: Option<Array>,
    options: uvh5::Options,
    /// Gates, where there are some.
    gates: Option<usize>,
    /// Correction of sums to coefficients, if coefficients are written.
    van_vleck: Option<VanVleck>,
    most: usize,
    open: Option<Open>,
    written: u64,
    dropped: u64,
}

/// A file that is being written.
struct Open {
    first: u64,
    /// The time after its last dump.
    end: u64,
    times: u64,
    dumps: usize,
    format: Format,
}

enum Format {
    Npy { visibilities: Box<Writer>, valid: Box<Writer>, description: PathBuf },
    Uvh5(Box<uvh5::Writer>),
}

impl Files {
    /// Files of up to `most` dumps each, named after `pattern`: UVH5 where there is an `array`, whose start and
    /// sample time are the stream's.
    ///
    /// # Errors
    /// [`Error::File`] when the pattern has no name; as for [`uvh5::Writer::create`] and
    /// [`Writer::appending`], when such files cannot be written.
    pub fn new(
        pattern: &Path,
        shape: Shape,
        first_channel: u64,
        clock: Clock,
        array: Option<Array>,
        most: usize,
    ) -> Result<Self> {
        if pattern.file_stem().is_none() {
            return Err(Error::file(pattern, "expected a name, as in live/vis.npy"));
        }
        let array = array.map(|array| Array { sample_time: Some(clock.interval()), ..array });
        let mut files = Self {
            pattern: pattern.to_owned(),
            shape,
            first_channel,
            clock,
            array,
            options: uvh5::Options::default(),
            gates: None,
            van_vleck: None,
            most: most.max(1),
            open: None,
            written: 0,
            dropped: 0,
        };
        sweep_series(pattern);
        // Better to hear now what cannot be written; nothing of it stays.
        files.open(0, 1)?;
        files.open = None;
        Ok(files)
    }

    /// Marks the samples as delayed towards the array's phase centre, where it has one.
    #[must_use]
    pub fn phased(mut self) -> Self {
        self.options.phased = self.array.as_ref().is_some_and(|array| array.phase_center.is_some());
        self
    }

    /// Compresses UVH5 by gzip of a level, 1 to 9.
    #[must_use]
    pub fn compressed(mut self, level: u8) -> Self {
        self.options.gzip = Some(level);
        self
    }

    /// Writes dumps of `gates` gates: `[dump][gate][channel][baseline]`.
    ///
    /// # Errors
    /// [`Error::File`] for UVH5, which has no gates.
    pub fn gated(mut self, gates: usize) -> Result<Self> {
        if self.array.is_some() {
            let reason = "is to be UVH5, which knows no gates: expected a name that ends in .npy";
            return Err(Error::file(&self.pattern, reason));
        }
        self.gates = Some(gates);
        Ok(self)
    }

    /// Writes correlation coefficients in place of sums of bits, float32.
    #[must_use]
    pub fn coefficients(mut self, van_vleck: VanVleck) -> Self {
        // Pairs of float32, as sums of cf16 are.
        self.shape.encoding = Encoding::Cf16;
        self.van_vleck = Some(van_vleck);
        self
    }

    /// Dumps in files that are complete.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Dumps that could not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Writes a dump. After an error it is lost, with those before it in its file, and the next one begins
    /// another file.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::File`] when it cannot be written, for example to a full disk.
    pub fn append(&mut self, dump: &Integration) -> Result<()> {
        let fits = |open: &Open| open.end == dump.start && open.times == dump.times;
        let finished =
            if self.open.as_ref().is_some_and(|open| !fits(open)) { self.finish() } else { Ok(()) };
        let added = self.add(dump);
        if added.is_err() {
            let lost = self.open.take().map_or(0, |open| open.dumps as u64);
            self.dropped += lost + 1;
        }
        finished.and(added)?;
        if self.open.as_ref().is_some_and(|open| open.dumps >= self.most) {
            self.finish()?;
        }
        Ok(())
    }

    fn add(&mut self, dump: &Integration) -> Result<()> {
        if self.open.is_none() {
            self.open(dump.start, dump.times)?;
        }
        let open = self.open.as_mut().expect("it was opened");
        for gate in &dump.gates {
            let coefficients = self.van_vleck.as_ref().map(|known| known.coefficients(gate));
            let coefficients = coefficients.transpose()?;
            let (sums, counts) = (coefficients.as_ref().unwrap_or(&gate.visibilities), &gate.valid);
            match &mut open.format {
                Format::Uvh5(file) => {
                    file.append(sums, counts, dump.start - open.first, dump.times)?;
                }
                Format::Npy { visibilities, valid, .. } => {
                    visibilities.append(sums.bytes())?;
                    append_counts(valid, counts, &self.shape)?;
                }
            }
        }
        open.end = dump.start + dump.times;
        open.dumps += 1;
        Ok(())
    }

    /// Begins a file whose first dump begins at time `first`.
    fn open(&mut self, first: u64, times: u64) -> Result<()> {
        let start = self.clock.moment(first);
        let stem = self.pattern.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{stem}-{}", start.strftime("%Y%m%dT%H%M%S.%6fZ"));
        let path = |ending: &str| folder(&self.pattern).join(format!("{name}.{ending}"));
        let format = match &self.array {
            Some(array) => {
                let array = Array { start: Some(start), ..array.clone() };
                let file = path("uvh5");
                let file = uvh5::Writer::with_options(file, &array, &self.shape, self.options)?;
                Format::Uvh5(Box::new(file))
            }
            None => {
                let entry = [self.shape.channels, baselines(self.shape.inputs)];
                let entry: Vec<usize> = self.gates.into_iter().chain(entry).collect();
                let sums = [&entry[..], &[2]].concat();
                let integers = self.shape.encoding.is_integer();
                let dtype = if integers { Dtype::Int64 } else { Dtype::Float32 };
                Format::Npy {
                    visibilities: Box::new(Writer::appending(path("npy"), dtype, &sums)?),
                    valid: Box::new(Writer::appending(path("valid.npy"), Dtype::Uint64, &entry)?),
                    description: path("json"),
                }
            }
        };
        self.open = Some(Open { first, end: first, times, dumps: 0, format });
        Ok(())
    }

    /// Completes the file that is being written. After an error its dumps are lost.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn finish(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let finish = |format| match format {
            Format::Uvh5(file) => file.finish(),
            Format::Npy { visibilities, valid, description } => {
                valid.finish()?;
                let facts = Description {
                    start: self.clock.moment(open.first).to_string(),
                    first_time: open.first,
                    times: open.times,
                    sample_time: self.clock.interval(),
                    dumps: open.dumps,
                    first_channel: self.first_channel,
                };
                PartialFile::write_json(&description, &facts)?;
                visibilities.finish()
            }
        };
        let finished = finish(open.format);
        let count = if finished.is_ok() { &mut self.written } else { &mut self.dropped };
        *count += open.dumps as u64;
        finished
    }
}

/// Writes the valid samples of a gate, `[channel][baseline]`.
fn append_counts(valid: &mut Writer, counts: &ValidCounts, shape: &Shape) -> Result<()> {
    (0..shape.channels).try_for_each(|channel| {
        let row: Vec<u64> = counts.of_channel(channel, shape.inputs).collect();
        valid.append(bytemuck::cast_slice(&row))
    })
}
