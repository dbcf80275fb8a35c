//! The files of a recording, as the command line names them.

use std::path::{Path, PathBuf};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    format::{self, Options, Recording, Timestamp},
    samples::RawLayout,
};

use crate::cli::options::run_files::{ending, input};
use crate::cli::options::units::Hertz;
use crate::cli::terminal::numbers::count;
use crate::cli::terminal::say::warn;

/// A recording.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Files of one recording in order of time, - for the standard input, dada:KEY for a ring of PSRDADA
    ///
    /// NumPy: ci8 is int8 [T][C][N][2] (tcn) or [C][N][T][2] (cnt), cf16 the same in float16, ci4
    /// and ci4-offset are uint8 without the last axis. GUPPI RAW: samples of 8 and 2 bits are ci8, of 4 bits ci4;
    /// input index = antenna x polarisations + polarisation; time samples that no block holds are missing.
    /// DADA: complex 8-bit samples, NPOL inputs. VDIF: complex samples, ci8 of 8 bits, ci4-offset of 4 bits, a
    /// thread is an input. Bits, b1 and b2: NumPy files of corrust quantise --planes, or VDIF of complex samples
    /// of 1 or 2 bits.
    #[arg(required = true, value_name = "IN", value_parser = input())]
    pub inputs: Vec<PathBuf>,
    /// Encoding of a sample: ci8, ci4, ci4-offset or cf16; b1 or b2, planes of bits
    ///
    /// By default int8 is ci8 and float16 is cf16; uint8 needs this option, unless corrust wrote the
    /// file. VDIF of 1 and 2 bits needs b1 or b2.
    #[arg(long)]
    encoding: Option<Encoding>,
    /// Order of the axes: tcn (time, channel, input) or cnt (channel, input, time)
    ///
    /// By default tcn, unless corrust wrote the file; bits are cnt.
    #[arg(long)]
    layout: Option<Layout>,
    #[command(flatten)]
    tolerance: Tolerance,
}

/// Ending of the names of UVH5 files.
pub const UVH5: &str = "uvh5";

/// Compression of UVH5 files.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Compression {
    /// Compress UVH5 by gzip, of level 1 to 9; by default 4 [default: not compressed]
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "4",
          value_parser = clap::value_parser!(u8).range(1..=9), hide_short_help = true)]
    gzip: Option<u8>,
}

impl Compression {
    /// Level of an output's compression, which is to be UVH5 then.
    pub fn of(self, output: &Path) -> Result<Option<u8>> {
        match self.gzip {
            Some(_) if ending(output) != UVH5 => Err(Error::file(
                output,
                format!(
                    "is not compressed: expected a name that ends in .{UVH5}, because of --gzip"
                ),
            )),
            gzip => Ok(gzip),
        }
    }
}

/// Names of the options of [`Tolerance`] and [`RawOptions`].
pub const TOLERANCE: &[&str] = &["keep-going", "long-gaps"];
pub const RAW_OPTIONS: &[&str] = &["rate", "raw-layout", "inputs", "bits", "near"];

/// Faults of a recording that are tolerated.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Tolerance {
    /// Leave out an incomplete block, frame or time sample at the end, instead of refusing the recording
    #[arg(long, hide_short_help = true)]
    keep_going: bool,
    /// Accept gaps longer than the data itself
    #[arg(long, hide_short_help = true)]
    long_gaps: bool,
}

impl Tolerance {
    /// Adds it to `options`.
    pub fn with(self, options: Options) -> Options {
        let Self { keep_going, long_gaps } = self;
        Options { keep_going, long_gaps, ..options }
    }
}

/// Facts that a recording of raw voltages may lack.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Raw voltages")]
pub struct RawOptions {
    /// Sample rate of each input, as 32MHz: for formats that lack it, or in place of theirs, with a warning if the two
    /// differ
    #[arg(long)]
    rate: Option<Hertz>,
    /// Order of the axes of raw samples in NumPy files: nt (input, time) or tn (time, input) [default: nt]
    #[arg(long, value_name = "nt|tn", hide_short_help = true)]
    raw_layout: Option<RawLayout>,
    /// Number of inputs of a Mark 5B recording, whose headers lack it
    #[arg(long = "inputs", value_name = "N", hide_short_help = true)]
    recorded: Option<usize>,
    /// Bits of a sample of a Mark 5B recording, whose headers lack them: 1 or 2 [default: 2]
    #[arg(id = "raw_bits", long = "bits", value_name = "BITS", hide_short_help = true)]
    bits: Option<u8>,
    /// Date within 500 days of a Mark 5B recording, as 2014-06-13: its headers count days modulo 1000
    #[arg(long, value_name = "DATE", value_parser = format::moment, hide_short_help = true)]
    near: Option<Timestamp>,
}

impl RawOptions {
    /// Sample rate of each input in hertz, if given.
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
    /// Options of the recording as they were given.
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
        // The layout is a guess, and recordings have more time samples than inputs.
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
