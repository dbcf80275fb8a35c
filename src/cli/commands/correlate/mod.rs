//! `corrust correlate`.

pub mod outputs;
pub mod product;
pub mod totals;

use std::path::PathBuf;

use corrust::{Error, Result, format::array::Array};

use self::product::{VisibilityOptions, correlate};
use crate::cli::{
    commands::upchannelise::Subchannels,
    input::{Input, RawInput},
    options::{
        device::DeviceOptions,
        files::{Files, UVH5},
        flagging::Flagging,
        run_files::{Existing, RunFiles, input},
    },
};

/// Correlate a recording: visibilities of all pairs of inputs
///
/// V[c][b(i,j)] = sum over t of x_i[c][t] conj(x_j[c][t]), j <= i.
///
/// The output is a NumPy file, int64 [dump][channel][baseline][2] (float32 for cf16 samples), with
/// baseline b(i,j) = i(i+1)/2 + j, autocorrelations included; or, where its name ends in .uvh5, a UVH5
/// file, which pyuvdata reads. Sums of integer samples are exact and the same on every device.
///
/// Planes of 1 and 2 bits (corrust quantise --planes) are multiplied as bits. With --van-vleck the output is the
/// correlation coefficients of the voltages, float32 [dump][channel][baseline][2].
///
/// With --channelise the recording is of raw voltages, NumPy, VDIF, DADA, Mark 5B or GUPPI RAW: spectra go
/// from the F-engine to the correlator on the device, and a spectrum is a time sample.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = EXAMPLES,
    allow_negative_numbers = true,
    mut_arg("layout", |arg| arg.conflicts_with("channelise")),
    mut_arg("flag", |arg| arg.conflicts_with("van_vleck"))
)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    visibilities: VisibilityOptions,
    #[command(flatten)]
    existing: Existing,
    /// Array file for UVH5, JSON: telescope, location, antennas, frequencies, start, sample time
    ///
    /// The book's page on layouts and files has all its fields.
    #[arg(long, value_name = "ARRAY.json", value_parser = input())]
    array: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flagging: Flagging,
    #[command(flatten)]
    place: DeviceOptions,
    #[command(flatten)]
    subchannels: Subchannels,
    #[command(flatten)]
    raw: RawInput,
}

const EXAMPLES: &str = "\
Examples:
  corrust correlate scan.0000.raw scan.0001.raw -o visibilities.npy
  corrust correlate rec.npy -o visibilities.npy --integrate 1024 --device cpu
  corrust correlate nibbles.npy -o visibilities.npy --encoding ci4-offset --layout cnt
  corrust correlate scan.raw -o scan.uvh5 --array array.json --integrate 4096
  corrust correlate pulsar.raw -o visibilities.npy --gates phase-bins.npy --shifts delays.npy
  corrust correlate pulsar.raw -o visibilities.npy --gate-period 33.4ms --gate-bins 32 --dispersion 56.77
  corrust correlate scan.raw -o visibilities.npy --flag sk --flags flagged.npy
  corrust correlate scan.raw -o fine.npy --upchannelise 16 --unit-noise
  corrust correlate bits.npy -o coefficients.npy --van-vleck
  corrust correlate scan.vdif --channelise 1024 -o scan.uvh5 --array array.json --seconds 1 \
      --delays delays.json --sky-frequency 1.4GHz --level

In Python:
  v = numpy.load('visibilities.npy'); v = v[..., 0] + 1j * v[..., 1]
  v[dump, channel, i * (i + 1) // 2 + j]    # inputs j <= i";

impl Args {
    /// Correlates the recording.
    pub fn run(self) -> Result<()> {
        let Self { visibilities, array, .. } = &self;
        let run_files = RunFiles::default().reads(&self.files.inputs);
        let run_files = run_files.reads(visibilities.selection.files());
        let run_files = run_files.reads(array).reads(self.raw.engine.files());
        let run_files = run_files.writes(visibilities.files()).writes(self.flagging.files());
        run_files.check(self.existing)?;
        let (is_uvh5, known) = (visibilities.is_uvh5(), visibilities.selection.folds());
        let output = &visibilities.output;
        let array = match array {
            Some(array) if is_uvh5 || known => Some(Array::read(array)?),
            None if is_uvh5 => {
                let reason = "is to be UVH5: expected --array ARRAY.json, which says what the inputs, \
                              channels and times are";
                return Err(Error::file(output, reason));
            }
            None => None,
            Some(array) => {
                return Err(Error::invalid(format!(
                    "--array {}: expected an output whose name ends in .{UVH5}, found {}",
                    array.display(),
                    output.display()
                )));
            }
        };
        let files = (&self.files.inputs[..], self.files.options());
        let dated = (array.is_some() || known, "--delays, --gate-period, or --array for UVH5");
        let of_channels = (array.as_ref(), self.subchannels.factor());
        let input = match self.raw.open(files, of_channels, dated)? {
            Some(input) => input,
            None => Input::channels(self.files.open()?),
        };
        let gpus = self.place.device.open()?;
        let input = self.subchannels.of(input, &self.raw.engine, &gpus)?;
        let source = (array, self.files.inputs[0].as_path());
        correlate(input, visibilities, &self.flagging, (&self.place, gpus), source, self.json)
    }
}
