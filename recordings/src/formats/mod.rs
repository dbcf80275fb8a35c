//! File formats, read and written as streams: memory stays bounded whatever the file's size.
//!
//! [`open`] recognises a file by its contents and returns a [`Recording`], which yields blocks of
//! samples of channels; [`open_raw`] does so for raw voltages. [`npy::Writer`] and [`PartialFile`] write results that appear under their final name
//! only when complete.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use corrust_host::{
    Encoding, Error, Layout, Result, Samples,
    device::{Gpu, HostBytes},
    quantise::Quantised,
    samples::{CountShape, Extents, Missing, RawLayout, Shape, missing_within},
};
use input::Input;

use crate::array::{TOLERANCE, file::Channels};

pub(crate) mod ahead;
pub(crate) mod bits;
pub(crate) mod complete;
pub(crate) mod dada;
pub(crate) mod frames;
pub mod guppi;
#[cfg(feature = "hdf5")]
pub(crate) mod hdf5;
pub(crate) mod input;
pub(crate) mod mark5b;
pub mod npy;
#[doc(hidden)]
pub mod placing;
#[doc(hidden)]
pub mod planes;
pub mod polyco;
pub mod ptu;
pub(crate) mod raw;
pub mod sigproc;
#[cfg(feature = "hdf5")]
pub mod uvh5;
#[cfg(not(feature = "hdf5"))]
#[path = "no_uvh5.rs"]
pub mod uvh5;
pub mod vdif;

pub use crate::array::{
    file as array,
    time::{Timestamp, later, moment},
};
pub use ahead::ReadAhead;
pub use corrust_host::{
    partial::{PartialFile, abandon_partial_files, folder, is_stream, resolve},
    samples::RawShape,
    text::{read_text, read_text_up_to},
};
pub use raw::{AnyRecording, open_any, open_raw};

/// A recording of voltages, read once from its first time to its last: channelised ones (`S` is
/// [`Shape`]), or raw ones ([`RawShape`]), of which a time is a sample of every input.
pub trait Recording<S = Shape>: Send {
    /// Inputs, channels, encoding, and the layout of the blocks.
    fn shape(&self) -> S;

    /// Number of times in the whole recording, missing ones included; `u64::MAX` for a stream that shows
    /// only at its end how long it is.
    fn times(&self) -> u64;

    /// Seconds from one time to the next, where the file says so.
    fn interval(&self) -> Option<f64>;

    /// When the first time was taken, where the file says so.
    fn start(&self) -> Option<Timestamp> {
        None
    }

    /// Frequencies of the channels, where the file says so.
    fn frequencies(&self) -> Option<Channels> {
        None
    }

    /// How samples of few bits were made of others, where the files say so: as each of them says.
    fn quantised(&self) -> &[Quantised] {
        &[]
    }

    /// What else the headers say, for people to read: names and values, the format first.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Reads the next `times` times, fewer at the end of the recording, into `block` and returns
    /// how many; 0 means that the recording has ended. Of `b1` and `b2` `times` is rounded up to whole words, of which
    /// all but the last are filled.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::File`] when a file cannot be read or has changed since it was
    /// opened; [`Error::OutOfMemory`] when a pipe promises more than fits into memory.
    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize>;

    /// The stretches of times of the whole recording that are missing, ascending and apart.
    fn gaps(&self) -> &[Range<u64>] {
        &[]
    }

    /// Passes over the next `times` times (whole words of `b1` and `b2`), or all that are left, without reading them; what comes through a
    /// pipe is read all the same, and of VDIF and Mark 5B up to 64 MiB before the time that comes next, where
    /// its frames may stand if they are early.
    ///
    /// # Errors
    /// As for [`read_block`](Self::read_block).
    fn skip(&mut self, times: u64) -> Result<()>;

    /// What the recording should have had and is read without, in words.
    fn left_out(&self) -> Option<&str> {
        None
    }

    /// Where the caller's [`Options`] and the recording's headers contradict each other, in words: the caller
    /// counts.
    fn contradiction(&self) -> Option<&str> {
        None
    }
}

/// Consecutive times of a recording. Reusing one block for every read avoids reallocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Samples in the recording's encoding and layout; missing ones of channelised voltages have the value
    /// zero.
    pub samples: HostBytes,
    /// Number of times.
    pub times: usize,
    /// What is missing, counted from the block's start. Of channelised voltages, ranges of times are
    /// ascending and disjoint, and all channels and inputs are missing; raw ones and words of bits are missing
    /// input by input, and what their bytes hold is of no meaning.
    pub missing: Vec<Missing>,
    /// Times that are missing before the block's first one and have no samples here: [`ReadAhead`]
    /// passes over gaps that are longer than a block.
    pub gap: u64,
}

impl Block {
    /// An empty block.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty block whose samples are to be in memory that a GPU has locked, if there is one.
    pub fn locked_for(gpu: Option<&Arc<dyn Gpu>>) -> Self {
        Self { samples: HostBytes::locked_for(gpu), ..Self::default() }
    }

    /// A block of `times` times that are all missing.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn missing(shape: &Shape, times: usize) -> Result<Self> {
        let mut block = Self::new();
        block.reset(shape, times)?;
        if times > 0 {
            block.mark_missing(shape, 0..times);
        }
        Ok(block)
    }

    /// Number of times within `range` that are missing, of an input at least.
    pub fn missing_within(&self, range: &Range<usize>) -> usize {
        missing_within(&self.missing, range)
    }

    /// The samples as a view, with what is missing.
    ///
    /// # Panics
    /// When the block is not of this shape.
    pub fn view(&self, shape: &Shape) -> Samples<'_> {
        assert_eq!(self.samples.len(), shape.bytes(self.times), "another shape");
        let Shape { channels, encoding, layout, .. } = *shape;
        let extents = Extents { channels, inputs: shape.inputs, times: self.times };
        Samples::dense(self.samples[..].into(), encoding.into(), layout, extents)
            .missing(&self.missing)
    }

    /// Makes room for `times` times of `shape`, nothing missing; the samples are to be filled in.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: through a pipe a header can promise more than there will be.
    fn reset(&mut self, shape: &Shape, times: usize) -> Result<()> {
        self.reset_bytes(shape.bytes(times), times)
    }

    /// [`reset`](Self::reset) of times that take so many bytes.
    pub(crate) fn reset_bytes(&mut self, bytes: usize, times: usize) -> Result<()> {
        self.samples.resize(bytes)?;
        self.times = times;
        self.missing.clear();
        self.gap = 0;
        Ok(())
    }

    /// Makes room for counts of two bytes, all of them 0, and has them filled in.
    pub(crate) fn fill_counts(
        &mut self,
        shape: CountShape,
        times: usize,
        fill: impl FnOnce(&mut [u16]) -> Result<()>,
    ) -> Result<()> {
        self.reset_bytes(times * shape.bytes(), times)?;
        self.samples.fill(0);
        if let Ok(counts) = bytemuck::try_cast_slice_mut(&mut self.samples) {
            fill(counts)?;
            // The low byte comes first, whatever the machine.
            counts.iter_mut().for_each(|count| *count = count.to_le());
            return Ok(());
        }
        // The memory is not where numbers of 16 bits can be.
        let mut counts = vec![0_u16; times * shape.sensors];
        fill(&mut counts)?;
        let bytes = self.samples.as_chunks_mut().0;
        bytes.iter_mut().zip(counts).for_each(|(to, count)| *to = count.to_le_bytes());
        Ok(())
    }

    /// Marks `range` as missing and gives its samples the value zero.
    fn mark_missing(&mut self, shape: &Shape, range: Range<usize>) {
        let zero = shape.encoding.zero();
        let fill = |samples: &mut [u8]| {
            samples.chunks_exact_mut(zero.len()).for_each(|sample| sample.copy_from_slice(zero));
        };
        match shape.layout {
            Layout::Tcn => {
                let step = shape.bytes_per_time();
                fill(&mut self.samples[range.start * step..range.end * step]);
            }
            Layout::Cnt => {
                let word = shape.encoding.times();
                let bytes = |times: usize| times.div_ceil(word) * zero.len();
                for row in self.samples.chunks_exact_mut(bytes(self.times)) {
                    fill(&mut row[range.start / word * zero.len()..bytes(range.end)]);
                }
            }
        }
        match self.missing.last_mut() {
            Some(last) if last.times.end == range.start => last.times.end = range.end,
            _ => self.missing.push(Missing::times(range)),
        }
    }
}

/// What the caller knows about a recording that its files may not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Encoding of the samples; by default what the file's type implies.
    pub encoding: Option<Encoding>,
    /// Layout of the samples; by default what the file says, `tcn` for NumPy files.
    pub layout: Option<Layout>,
    /// Whether to read what there is of a recording whose last block is cut short, instead of refusing it
    /// (`--keep-going`).
    pub keep_going: bool,
    /// Whether more times in a row may be missing than there are in all of the data (`--long-gaps`).
    pub long_gaps: bool,
    /// Order of the axes of raw samples; by default what the file says, `nt` for NumPy files.
    pub raw_layout: Option<RawLayout>,
    /// Times a second, in hertz, which of raw voltages are samples of each input; by default what the file
    /// says (`--rate`). Where it says another number this one counts, and [`Recording::contradiction`] says so.
    pub rate: Option<f64>,
    /// Inputs of a Mark 5B recording, which does not say (`--inputs`).
    pub inputs: Option<usize>,
    /// Bits of a sample of a Mark 5B recording, which does not say: 1 or 2; by default 2 (`--bits`).
    pub bits: Option<u8>,
    /// A moment within 500 days of the recording, where days are counted by thousands (`--near`).
    pub near: Option<Timestamp>,
}

/// Opens files that follow each other in time as one recording.
///
/// The format is recognised by content: NumPy (`.npy`), GUPPI RAW, or DADA of complex 8-bit samples. DADA
/// and a NumPy file in `tcn` may come through a pipe, which is opened once and read as it comes. VDIF of complex
/// samples of 1 or 2 bits is read as `b1` or `b2`, if the options say so: a thread is an input, its channels are
/// the recording's.
///
/// # Errors
/// [`Error::Invalid`] without a path; [`Error::File`] for a file that is empty, truncated, of
/// neither format, of another shape than the first one, or at odds with `options`; [`Error::Io`]
/// when a file cannot be read.
pub fn open<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<Box<dyn Recording>> {
    channels_of(recognise(paths)?, options)
}

impl Options {
    /// Refuses what is said of recordings of other formats, or of raw voltages (`raw`) where there are channels, or of
    /// channels where there are raw voltages: nothing would go by it.
    fn check(&self, path: &Path, format: Format, raw: bool) -> Result<()> {
        let refuse = |name: &str, value: &dyn std::fmt::Display, expected: &str| {
            let reason = format!("{name} {value} of {format}: expected it only of {expected}");
            Err(Error::file(path, reason))
        };
        if format != Format::Mark5b {
            let mark5b = "Mark 5B, which does not say";
            if let Some(inputs) = self.inputs {
                return refuse("--inputs", &inputs, mark5b);
            }
            if let Some(bits) = self.bits {
                return refuse("--bits", &bits, mark5b);
            }
            if let Some(near) = self.near {
                return refuse("--near", &near, "Mark 5B, which counts days by thousands");
            }
        }
        match (raw, self.layout, self.raw_layout) {
            (true, Some(layout), _) => refuse("--layout", &layout, "channels"),
            (false, _, Some(layout)) => refuse("--raw-layout", &layout, "raw voltages"),
            _ => Ok(()),
        }
    }
}

/// Files of one format as a recording of channels.
fn channels_of(files: Recognised, options: Options) -> Result<Box<dyn Recording>> {
    let Recognised { paths, format, inputs } = files;
    options.check(&paths[0], format, false)?;
    Ok(match format {
        Format::Npy => Box::new(npy::Voltages::of(inputs, options)?),
        Format::Guppi => Box::new(guppi::Guppi::open(&paths, options)?),
        Format::Dada => Box::new(dada::Dada::channels(inputs, &options)?),
        Format::Vdif if options.encoding.is_some_and(Encoding::is_bits) => {
            Box::new(planes::Planes::open(&paths, options)?)
        }
        Format::Vdif | Format::Mark5b => {
            let reason = format!(
                "{format} holds raw voltages: expected channels, which corrust channelise makes of them{}",
                match format {
                    Format::Vdif =>
                        ", or for complex samples of few bits whose channels are those to \
                                     correlate an encoding of b1 or b2",
                    _ => "",
                }
            );
            return Err(Error::file(&paths[0], reason));
        }
    })
}

/// How far apart the times of a recording are.
#[derive(Clone, Debug, Default)]
struct Pace {
    /// Seconds from one time to the next.
    interval: Option<f64>,
    /// Where what the caller says and what stands in the files differ, in words.
    contradiction: Option<String>,
}

impl Pace {
    /// What the caller says of the recording `path`, or else what stands in it. `whose` is what says that.
    fn new(path: &Path, options: &Options, interval: Option<f64>, whose: &str) -> Self {
        let Some(rate) = options.rate else { return Self { interval, contradiction: None } };
        let differs = |found: &f64| (found * rate - 1.0).abs() > TOLERANCE;
        let contradiction = interval.filter(differs).map(|found| {
            format!(
                "{}: a rate of {rate} Hz (--rate), where {whose} {} Hz: the former counts",
                path.display(),
                // Intervals are rounded.
                (1e6 / found).round() / 1e6
            )
        });
        Self { interval: Some(1.0 / rate), contradiction }
    }
}

/// Files that make one recording.
struct Recognised {
    paths: Vec<PathBuf>,
    format: Format,
    /// The files, where they are read in one go and may be pipes.
    inputs: Vec<Input>,
}

/// The format of files that make one recording.
fn recognise<P: AsRef<Path>>(paths: &[P]) -> Result<Recognised> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
    let mut format = None;
    let mut inputs = Vec::new();
    for path in &paths {
        let mut input = Input::open(path)?;
        let found = Format::of(&mut input)?;
        let format = *format.get_or_insert(found);
        if found != format {
            return Err(Error::file(
                path,
                format!("{found} after {format}: the files of a recording share one format"),
            ));
        }
        match format {
            Format::Npy | Format::Dada => inputs.push(input),
            Format::Guppi if input.length().is_none() => {
                let reason =
                    "is a pipe: expected a file, for all headers of GUPPI RAW are read first";
                return Err(Error::file(path, reason));
            }
            Format::Guppi | Format::Vdif | Format::Mark5b => {}
        }
    }
    let format =
        format.ok_or_else(|| Error::invalid("no input file: a recording needs at least 1"))?;
    Ok(Recognised { paths, format, inputs })
}

/// Whether a file begins with these bytes; a pipe does not, as they would be gone.
pub(crate) fn begins(path: impl AsRef<Path>, magic: &[u8]) -> Result<bool> {
    if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Ok(false);
    }
    Ok(Input::open(path)?.peek(magic.len())? == magic)
}

/// The name of the description, in JSON, that stands beside the recording `path`; [`None`] beside a pipe.
///
/// # Errors
/// [`Error::File`] when it is the recording's own.
pub fn description(path: &Path) -> Result<Option<PathBuf>> {
    let description = path.with_extension("json");
    if description == path {
        return Err(Error::file(
            path,
            "is also the name of the recording's description: expected a name ending in .npy",
        ));
    }
    Ok((!is_stream(path)).then_some(description))
}

/// Bytes that are passed over at once.
const PASSED_BYTES: usize = 1 << 20;

/// Reads the next `times` times, `step` bytes each, for nobody: of a pipe, or where nothing says where they end.
pub(crate) fn read_past<S>(
    recording: &mut impl Recording<S>,
    mut times: u64,
    step: usize,
) -> Result<()> {
    let at_once = (PASSED_BYTES / step.max(1)).max(1);
    let mut block = Block::new();
    while times > 0 {
        let count = usize::try_from(times).map_or(at_once, |times| times.min(at_once));
        let read = recording.read_block(count, &mut block)?;
        if read == 0 {
            break;
        }
        times -= read as u64;
    }
    Ok(())
}

/// Bytes in which a DADA header shows that it is one.
const DADA_START: usize = 4096;

/// Facts of a recording that its header may name: the telescope and the source.
fn named_facts(
    telescope: &Option<String>,
    source: &Option<String>,
) -> impl Iterator<Item = (&'static str, String)> {
    let named = [("telescope", telescope.clone()), ("source", source.clone())];
    named.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// Formats of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npy,
    Guppi,
    Dada,
    Vdif,
    Mark5b,
}

impl Format {
    /// Recognises the format of a file by its first bytes.
    fn of(input: &mut Input) -> Result<Self> {
        let path = &input.path().to_owned();
        let start = input.peek(guppi::CARD)?.to_vec();
        if start.is_empty() {
            Err(Error::file(path, "0 bytes: expected a recording"))
        } else if start.starts_with(npy::MAGIC) {
            Ok(Self::Npy)
        } else if guppi::is_card(&start) {
            Ok(Self::Guppi)
        } else if start.starts_with(ptu::MAGIC) {
            let reason =
                "PTU, which holds photons: expected voltages; corrust autocorrelate reads photons";
            Err(Error::file(path, reason))
        } else if start.starts_with(&mark5b::SYNC) {
            Ok(Self::Mark5b)
        } else if dada::is_header(input.peek(DADA_START)?) {
            Ok(Self::Dada)
        } else if vdif::is_vdif(input)? || path.extension().is_some_and(|name| name == "vdif") {
            Ok(Self::Vdif)
        } else {
            Err(Error::file(
                path,
                format!(
                    "starts with \"{}\": expected a NumPy file (\"\\x93NUMPY\"), GUPPI RAW (a header \
                     of 80-byte cards \"NAME    = value\"), DADA (a header with HDR_SIZE), Mark 5B (0xABADDEED), or VDIF (frames of \
                     equal length and kind)",
                    start[..start.len().min(8)].escape_ascii()
                ),
            ))
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Npy => "NumPy",
            Self::Guppi => "GUPPI RAW",
            Self::Dada => "DADA",
            Self::Vdif => "VDIF",
            Self::Mark5b => "Mark 5B",
        })
    }
}
