//! `corrust correlate`.

pub mod input;
pub mod outputs;
pub mod product;
pub mod totals;
pub mod unit;

use std::{num::NonZeroU64, path::PathBuf, sync::Arc};

use corrust::{
    Device, Error, Result, Upchanneliser, correlate::Shape, device::Gpu, format::array::Array,
    upchannelise,
};

use self::{
    input::{Input, RawInput, completed},
    outputs::Names,
    product::correlate,
};
use crate::cli::options::{
    files::{Files, UVH5},
    flagging::Flagging,
    place::Place,
    run_files::{Existing, RunFiles, ending, input, output},
    selection::Selection,
    units::seconds,
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
    /// NumPy file to write, - for the standard output; or a UVH5 file, whose name ends in .uvh5
    #[arg(short, long, value_name = "OUT.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// Array file for UVH5, JSON: telescope, location, antennas, frequencies, start, sample time
    ///
    /// The book's page on layouts and files has all its fields.
    #[arg(long, value_name = "ARRAY.json", value_parser = input())]
    array: Option<PathBuf>,
    /// Time samples in a dump, as 4096 [default: the whole recording is one dump]
    ///
    /// Time samples at the end that do not fill a dump are left out, and their number is reported.
    #[arg(long, value_name = "T", conflicts_with = "seconds")]
    integrate: Option<NonZeroU64>,
    /// Seconds in a dump, rounded to a whole number of time samples, as 0.5
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// NumPy file to write the number of valid time samples of each dump to, uint64 [dump]; of each baseline (in the
    /// first channel), [dump][baseline], with --channelise and for bits
    #[arg(long, value_name = "COUNTS.npy", value_parser = output(), hide_short_help = true)]
    counts: Option<PathBuf>,
    /// Write correlation coefficients, -1 to 1, in place of sums: for b1 and b2 made of Gaussian noise; 1 for an input
    /// with itself
    ///
    /// quantise writes beside its output which voltages its levels stand for. STEP replaces that: the step in standard
    /// deviations, of voltages that were no integers. Without either, the optimal step is assumed.
    #[arg(long, value_name = "STEP", num_args = 0..=1, require_equals = true, hide_short_help = true)]
    van_vleck: Option<Option<f64>>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    flagging: Flagging,
    #[command(flatten)]
    place: Place,
    /// Subchannels to make of every channel first: a power of two, 2 to 512, in ci8, by 4 taps. A spectrum of them is a time
    /// sample; the array file describes subchannels. corrust upchannelise has more options
    #[arg(long, value_name = "U", conflicts_with_all = ["channelise", "van_vleck"], hide_short_help = true)]
    upchannelise: Option<usize>,
    /// Scale the weights of --upchannelise so that white noise keeps its variance [default: a tone keeps its amplitude]
    #[arg(long, requires = "upchannelise", hide_short_help = true)]
    unit_noise: bool,
    #[command(flatten)]
    raw: RawInput,
}

/// A filter bank of channels on the first of a correlator's GPUs, else on the CPU.
pub fn on_first(plan: upchannelise::Builder, gpus: &[Arc<dyn Gpu>]) -> Result<Upchanneliser> {
    match gpus.first() {
        Some(gpu) => plan.gpu(gpu.clone()),
        None => plan.device(Device::Cpu),
    }
    .build()
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
        let Self { output, array, .. } = &self;
        let run_files = RunFiles::default().reads(&self.files.inputs).reads(self.selection.files());
        let run_files = run_files.reads(array).reads(self.raw.engine.files());
        run_files
            .writes([output])
            .writes(&self.counts)
            .writes(self.flagging.files())
            .check(self.existing)?;
        let is_uvh5 = ending(output) == UVH5;
        let known = self.selection.folds();
        let array = match (array, is_uvh5) {
            (Some(array), _) if is_uvh5 || known => Some(Array::read(array)?),
            (None, false) => None,
            (None, true) => {
                let reason = "is to be UVH5: expected --array ARRAY.json, which says what the inputs, \
                              channels and times are";
                return Err(Error::file(output, reason));
            }
            (Some(array), _) => {
                return Err(Error::invalid(format!(
                    "--array {}: expected an output whose name ends in .{UVH5}, found {}",
                    array.display(),
                    output.display()
                )));
            }
        };
        let files = (&self.files.inputs[..], self.files.options());
        let dated = (array.is_some() || known, "--delays, --gate-period, or --array for UVH5");
        let input = match self.raw.open(files, array.as_ref(), dated)? {
            Some(input) => input,
            None => self.channels()?,
        };
        let timing = input.timing(array.as_ref());
        let array = array.filter(|_| is_uvh5).map(|array| completed(array, &input)).transpose()?;
        let integrate = match (self.integrate, self.seconds) {
            (None, Some(seconds)) => Some(input.times_of(seconds)?),
            (integrate, _) => integrate,
        };
        let van_vleck = self.van_vleck.map(|step| input.van_vleck(step)).transpose()?;
        let array = array.as_ref();
        let counts = self.counts.as_deref();
        let outputs = Names { output, array, counts, spacing: None, van_vleck };
        let gates = self.selection.read_gates(input.recorded(), || timing)?;
        correlate(
            input,
            integrate,
            (gates, &self.selection, &self.flagging),
            self.place.clone(),
            outputs,
            self.json,
        )
    }

    /// Channels, or subchannels of them.
    fn channels(&self) -> Result<Input> {
        let input = Input::channels(self.files.open()?);
        let Some(factor) = self.upchannelise else { return Ok(input) };
        let Shape { inputs, channels, encoding, .. } = input.head.shape;
        let plan = Upchanneliser::builder(inputs, channels, factor)
            .encoding(encoding)
            .unit_noise(self.unit_noise);
        let plan = on_first(plan, &self.place.device.open()?)?;
        input.upchannelised(plan)
    }
}
