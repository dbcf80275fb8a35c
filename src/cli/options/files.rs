//! The files of a recording, as the command line names them.

use std::path::PathBuf;

use corrust::{
    Encoding, Layout, Result,
    correlate::Shape,
    format::{self, Options, Recording, Timestamp},
    samples::RawLayout,
};

use crate::cli::options::run_files::input;
use crate::cli::options::units::Hertz;
use crate::cli::terminal::numbers::count;
use crate::cli::terminal::say::warn;

/// A recording.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Files of one recording that follow each other in time, - for the standard input
    ///
    /// NumPy: ci8 is int8 [T][C][N][2] (tcn) or [C][N][T][2] (cnt), cf16 the same in float16, ci4
    /// and ci4-offset are uint8 without the last axis. GUPPI RAW: 8-bit samples are ci8, 4-bit ones ci4;
    /// input index = antenna x polarisations + polarisation; times that no block holds count as missing.
    /// DADA: complex 8-bit samples, NPOL inputs. Bits, b1 and b2: NumPy files of corrust quantise --planes, or
    /// VDIF of complex samples of 1 or 2 bits, whose threads are inputs.
    #[arg(required = true, value_name = "IN", value_parser = input())]
    pub inputs: Vec<PathBuf>,
    /// How a sample is stored: ci8, ci4, ci4-offset or cf16; b1 or b2, planes of bits
    ///
    /// By default int8 is ci8 and float16 is cf16; uint8 needs to be told, unless corrust quantise wrote
    /// it. VDIF is read as channels where it is b1 or b2.
    #[arg(long)]
    encoding: Option<Encoding>,
    /// Order of the axes: tcn (time, channel, input) or cnt (channel, input, time)
    ///
    /// By default tcn, unless corrust quantise wrote it; bits are cnt.
    #[arg(long)]
    layout: Option<Layout>,
    #[command(flatten)]
    tolerance: Tolerance,
}

/// Ending of the names of UVH5 files.
pub const UVH5: &str = "uvh5";

/// Names of the options of [`Tolerance`] and [`RawOptions`].
pub const TOLERANCE: &[&str] = &["keep-going", "long-gaps"];
pub const RAW_OPTIONS: &[&str] = &["rate", "raw-layout", "inputs", "bits", "near"];

/// What is put up with in a recording.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Tolerance {
    /// Leave out the last block, frame or time of a recording that is cut short, instead of refusing it
    #[arg(long)]
    keep_going: bool,
    /// Take headers at their word where more times in a row are missing than there are in all the data
    #[arg(long)]
    long_gaps: bool,
}

impl Tolerance {
    /// Adds it to `options`.
    pub fn with(self, options: Options) -> Options {
        let Self { keep_going, long_gaps } = self;
        Options { keep_going, long_gaps, ..options }
    }
}

/// What a recording of raw voltages may not say of itself.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Raw voltages")]
pub struct RawOptions {
    /// Samples of each input a second, such as 32MHz: for formats that do not say, or in place of what they
    /// say, with a warning where that is another number
    #[arg(long)]
    rate: Option<Hertz>,
    /// Order of the axes of raw samples in NumPy files: nt (input, time) or tn (time, input); by default nt
    #[arg(long, value_name = "nt|tn")]
    raw_layout: Option<RawLayout>,
    /// Inputs of a Mark 5B recording, which does not say
    #[arg(long = "inputs", value_name = "N")]
    recorded: Option<usize>,
    /// Bits of a sample of a Mark 5B recording, which does not say: 1 or 2; by default 2
    #[arg(long)]
    bits: Option<u8>,
    /// A day within 500 days of a Mark 5B recording, such as 2014-06-13: it counts days by thousands
    #[arg(long, value_name = "DATE", value_parser = format::moment)]
    near: Option<Timestamp>,
}

impl RawOptions {
    /// Samples of each input a second, where it was said.
    pub fn rate(&self) -> Option<f64> {
        self.rate.map(|rate| rate.0)
    }

    /// Adds them to `options`.
    pub fn with(&self, options: Options) -> Options {
        let Self { rate, raw_layout, recorded, bits, near } = *self;
        let rate = rate.map(|rate| rate.0);
        Options { rate, raw_layout, inputs: recorded, bits, near, ..options }
    }
}

impl Files {
    /// What was said of the recording.
    pub fn options(&self) -> Options {
        let Self { encoding, layout, tolerance, .. } = *self;
        tolerance.with(Options { encoding, layout, ..Options::default() })
    }

    /// Opens the recording.
    pub fn open(&self) -> Result<Box<dyn Recording>> {
        let options = self.options();
        let recording = format::open(&self.inputs, options)?;
        if let Some(fault) = recording.left_out() {
            warn(format_args!("{fault}; the block is left out"));
        }
        recording.contradiction().into_iter().for_each(warn);
        let (Shape { inputs, layout, .. }, times) = (recording.shape(), recording.times());
        // Nobody said so, and recordings are longer than that.
        if options.layout.is_none() && layout == Layout::Tcn && times < inputs as u64 {
            warn(format_args!(
                "{}: as tcn, its axes are {} and {}: if the last axis is time, say --layout cnt",
                self.inputs[0].display(),
                count(times, "time"),
                count(inputs, "input")
            ));
        }
        Ok(recording)
    }
}
