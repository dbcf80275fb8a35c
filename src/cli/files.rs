//! The files of a recording, as the command line names them.

use std::path::PathBuf;

use corrust::{
    Encoding, Layout, Result,
    correlate::Shape,
    format::{self, Options, Recording},
};

use super::{count, run_files::input, warn};

/// A recording.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// NumPy or GUPPI RAW files that follow each other in time, - for the standard input
    ///
    /// NumPy: ci8 is int8 [T][C][N][2] (tcn) or [C][N][T][2] (cnt), cf16 the same in float16, ci4
    /// and ci4-offset are uint8 without the last axis. GUPPI RAW: 8-bit samples; input index =
    /// antenna x polarisations + polarisation; times that no block holds count as missing.
    #[arg(required = true, value_name = "IN", value_parser = input())]
    pub inputs: Vec<PathBuf>,
    /// How a sample is stored: ci8, ci4, ci4-offset or cf16
    ///
    /// By default int8 is ci8 and float16 is cf16; uint8 needs to be told, unless corrust quantise wrote
    /// it.
    #[arg(long)]
    encoding: Option<Encoding>,
    /// Order of the axes: tcn (time, channel, input) or cnt (channel, input, time)
    ///
    /// By default tcn, unless corrust quantise wrote it.
    #[arg(long)]
    layout: Option<Layout>,
    /// Leave out the last block of a GUPPI RAW recording that is cut short, instead of refusing it
    #[arg(long)]
    keep_going: bool,
    /// Take PKTIDX at its word where more times in a row are missing than there are in all the data
    #[arg(long)]
    long_gaps: bool,
}

impl Files {
    /// Opens the recording.
    pub fn open(&self) -> Result<Box<dyn Recording>> {
        let Self { encoding, layout, keep_going, long_gaps, .. } = *self;
        let options = Options { encoding, layout, keep_going, long_gaps, ..Options::default() };
        let recording = format::open(&self.inputs, options)?;
        if let Some(fault) = recording.left_out() {
            warn(format_args!("{fault}; the block is left out"));
        }
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
