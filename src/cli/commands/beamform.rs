//! `corrust beamform`.

use std::{
    num::NonZeroU64,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use corrust::{
    Beamformer, Device, Devices, Encoding, Error, Layout, Result,
    beamform::{Beams, Kernel, Rounding, Shape, grid, useful_operations},
    channelise::SpectrumEncoding,
    correlate,
    device::Gpu,
    format::{
        Options,
        array::{Array, Feeds, Field, Stokes},
        dada, guppi,
        npy::{Dtype, Reader, Voltages, Writer},
        vdif,
    },
    run::{self, BeamsOf, Behind, GridBeamsOf, Product, Run},
    samples::RawEncoding,
};
use ndarray::Array3;

use crate::cli::commands::channelise::element;
use crate::cli::commands::filterbank::{Of, Powers, Scaling, dated, power, voltage, warn_of};
use crate::cli::commands::grid::{Dishes, Output};
use crate::cli::commands::upchannelise::Subchannels;
use crate::cli::input::{Input, RawInput, complete, product_input::Ticks};
use crate::cli::options::engine::{LEVELS, warn_of_clipped};
use crate::cli::options::files::Tolerance;
use crate::cli::options::flagging::{Flagging, Judged};
use crate::cli::options::run_files::{Existing, RunFiles, all, ending, input, output};
use crate::cli::options::selection::{ChannelRange, expect_integers, of_channels};
use crate::cli::terminal::numbers::{self, count, digits, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{tell, warn};

/// Times of a block are a multiple of this, or fewer.
const GRAIN: usize = 64;

/// Part of a sample by which VDIF's headers may be wrong before that is reported.
const BESIDE: f64 = 1e-3;

/// Part of the samples above which clipping is reported. Noise of the voltages' level loses half a percent.
const MUCH_CLIPPED: f64 = 0.02;

/// Form beams of a recording: weighted sums over its inputs
///
/// J = clamp((sum over d of A[f][p][b][d] E[t][f][p][d]) >> s[f][p][b]).
///
/// The output is a NumPy file, uint8 [B][F][P][T]: real part in the high nibble, imaginary part in
/// the low one, each -7..7; or as --output-encoding says. Sums of integers are exact and the same on every
/// device; those of cf16 are f32. Where its name ends in .fil, it is
/// a SIGPROC filterbank file of a beam's power |J|^2, polarisations added: of several beams x.fil becomes
/// x.0.fil, x.1.fil and so on. With --stokes of two polarisations such files have a beam's I, or I, Q, U and V, as x.npy int64
/// [sample][parameter][channel] (float64 of floats). Where it ends in .raw, it is GUPPI RAW of a beam's samples of 4
/// or 8 bits, x.0.raw and so on of several; where it ends in .dada, DADA of complex samples of 8 bits, and dada:4a4a in place of a name
/// is a ring of PSRDADA, by its key, which takes the one beam of --beam. Where it ends in .vdif, it is VDIF of complex samples of 4 or 8 bits, thread P b + p, the
/// channels together, a power of two of them; udp://239.1.2.0:7150 in place of a name sends the same frames to that address,
/// one in each packet; spead://239.1.2.0+3:7150 sends heaps of SPEAD, as MeerKAT's beamformers do, P b + p to the address of
/// that number: items 0x1600 timestamp, 0x4103 first channel, 0x5004 dishes, 0x5000 samples int8 [channel][256 times][2].
///
/// With --channelise the recording is of raw voltages, NumPy, VDIF, DADA, Mark 5B or GUPPI RAW: spectra go from the F-engine
/// to the beamformer on the device. Input p D + d is dish d of polarisation p, of as many polarisations as the weights have.
/// With --upchannelise U beams are of subchannels: weights are [F U][P][B][D] of channel f U + subchannel, and there is a time
/// for every U.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = EXAMPLES,
    allow_negative_numbers = true,
    mut_group("Tolerance", |group| group.requires("channelise")),
    mut_arg("spectrum_encoding", |arg| arg.long("spectrum-encoding").value_name("ENCODING")),
    mut_arg("raw_bits", |arg| arg.long("raw-bits"))
)]
pub struct Args {
    /// Voltages, a NumPy file, - for the standard input: ci4 as uint8 [T][F][P][D], or [T][F][D] for one
    /// polarisation; ci8 as int8 and cf16 as float16 with a last axis of 2. With --channelise files of raw voltages in
    /// order of time
    #[arg(required = true, value_name = "E.npy", value_parser = input())]
    voltages: Vec<PathBuf>,
    #[command(flatten)]
    beams: BeamOptions,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    flagging: Flagging,
    /// Device: auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim; cuda:0,cuda:1, cuda:all or sim,sim:
    /// several GPUs share the channels
    #[arg(long, default_value_t, help_heading = "Device")]
    device: Devices,
    #[arg(long, default_value_t = Kernel::Auto, help = kernels(), help_heading = "Device", hide_short_help = true)]
    kernel: Kernel,
    #[command(flatten)]
    tolerance: Tolerance,
    #[command(flatten)]
    subchannels: Subchannels,
    #[command(flatten)]
    raw: RawInput,
}

/// Beams, and the files that they go to.
#[derive(Clone, Debug, clap::Args)]
pub struct BeamOptions {
    /// Weights, a NumPy file: int8 [F][P][B][D][2], or ci4 as uint8 [F][P][B][D]; for cf16 voltages float16
    /// [F][P][B][D][2]
    #[arg(long, value_name = "A.npy", value_parser = input(), required_unless_present = "grid")]
    #[arg(default_value = "weights.npy", hide_default_value = true, conflicts_with = "grid")]
    pub weights: PathBuf,
    /// NumPy file of the bits to shift the sums down by: any integers [F][P][B], 0 to 31
    #[arg(long, value_name = "s.npy", value_parser = input(), required_unless_present = "grid")]
    #[arg(default_value = "shifts.npy", hide_default_value = true, conflicts_with = "grid")]
    pub shifts: PathBuf,
    /// Dishes on a grid, in place of weights and shifts (JSON): "rows" M, "columns" N, "dishes" [[m, n], ...] and perhaps
    /// "weights" [[re, im], ...], "gain". The output is the power of all 2M x 2N beams, polarisations added, float32
    /// [F][T'][2N][2M], of --integrate times each; or of one, --beam Q,P, a filterbank file
    #[arg(long, value_name = "DISHES.json", value_parser = input())]
    #[arg(conflicts_with_all = ["rounding", "incoherent", "clipped", "output_encoding"])]
    pub grid: Option<PathBuf>,
    /// Powers of beams on a grid as float16
    #[arg(long, requires = "grid", hide_short_help = true)]
    pub half: bool,
    /// Kernel of beams on a grid: auto (tensor of integers on a GPU, else exact), exact (f32, the same bits on every
    /// device), tensor (tensor cores, relative error of at most 2e-3)
    #[arg(
        long,
        value_name = "KERNEL",
        requires = "grid",
        default_value_t,
        hide_short_help = true,
        help_heading = "Device"
    )]
    pub grid_kernel: grid::Kernel,
    /// NumPy file to write, - for the standard output; a filterbank file, whose name ends in .fil; GUPPI RAW, .raw; VDIF, .vdif;
    /// DADA, .dada; dada:KEY, a ring of PSRDADA; udp://ADDR, where frames of VDIF are sent to; or spead://ADDR+N:PORT, where heaps are sent to, a beam and polarisation to each
    #[arg(short, long, value_name = "J.npy", value_parser = output())]
    pub output: PathBuf,
    /// Array file, for filterbank files, GUPPI RAW and DADA: frequencies at even steps, start, sample time (JSON); for VDIF: start,
    /// sample time
    #[arg(long, value_name = "ARRAY.json", value_parser = input())]
    pub array: Option<PathBuf>,
    /// Beams to write filterbank files, GUPPI RAW or DADA of, as in 0,3 [default: all]; on a grid the one beam Q,P
    #[arg(long = "beam", value_name = "B", value_delimiter = ',', requires = "array")]
    pub chosen: Vec<usize>,
    /// Channels to form beams of, A to B - 1, as 100..228 [default: all]; weights, shifts and an array file describe all of them
    #[arg(long, value_name = "A..B", hide_short_help = true)]
    channels: Option<ChannelRange>,
    #[command(flatten)]
    pub scaling: Scaling,
    /// Encoding of the beams: ci4; ci8, int8 [B][F][P][T][2], each -127..127; cf16 and cf32, float16 and float32
    /// [B][F][P][T][2]: x 2^-s [default: ci4; of powers and Stokes parameters cf32]
    #[arg(long, value_name = "ENCODING")]
    output_encoding: Option<SpectrumEncoding>,
    /// Rounding of integer beams: nearest, (x + 2^(s-1)) >> s; floor, x >> s; or partial-N, CHORD's with 128, of ci4
    /// voltages: sums of N dishes (a power of two from 16 to 512) are rounded by log2(N) - 4 bits to 16 bits, and their
    /// sum by the other bits of s, both to the nearest
    #[arg(long, default_value_t, hide_short_help = true)]
    pub rounding: Rounding,
    /// NumPy file to write the incoherent beam to, int64 [F][P][T]: the sum over d of |E|^2; not for cf16
    #[arg(long, value_name = "I.npy", value_parser = output(), hide_short_help = true)]
    pub incoherent: Option<PathBuf>,
    /// NumPy file to write the number of clipped samples to, uint64 [F][P][B]
    #[arg(long, value_name = "COUNTS.npy", value_parser = output(), hide_short_help = true)]
    pub clipped: Option<PathBuf>,
}

fn kernels() -> String {
    let names: Vec<_> = Kernel::ALL[1..].iter().map(|kernel| kernel.name()).collect();
    format!("auto (the quickest for the shape on the device), {}", names.join(", "))
}

const EXAMPLES: &str = "\
Examples:
  corrust weights array.json -o weights.npy --shifts shifts.npy    from coordinates
  corrust beamform voltages.npy --weights weights.npy --shifts shifts.npy -o beams.npy
  corrust beamform voltages.npy --weights weights.npy --shifts shifts.npy -o beams.npy \\
      --incoherent power.npy --clipped clipped.npy --device cpu
  corrust beamform voltages.npy --weights weights.npy --shifts shifts.npy -o beam.fil \\
      --array array.json --integrate 64 --bits 8 --scale 0.01
  corrust beamform int8.npy --weights weights.npy --shifts shifts.npy -o beams.npy --output-encoding ci8
  corrust beamform int8.npy --weights weights.npy --shifts shifts.npy -o beams.vdif --array array.json
  corrust beamform int8.npy --weights weights.npy --shifts shifts.npy -o dada:4a4a --beam 3 --array array.json
  corrust beamform voltages.npy --grid dishes.json -o powers.npy --integrate 40
  corrust beamform voltages.npy --grid dishes.json -o beam.fil --beam 5,21 --array array.json --integrate 40
  corrust beamform scan.vdif --channelise 1024 --level --weights weights.npy --shifts shifts.npy -o beams.npy
  corrust beamform voltages.npy --upchannelise 16 --unit-noise --weights weights.npy --shifts shifts.npy -o beams.npy

In Python:
  j = numpy.load('beams.npy').view('int8')
  re, im = j >> 4, (j << 4) >> 4             # [beam, frequency, polarisation, time]";

impl Args {
    /// Forms the beams.
    pub fn run(self) -> Result<()> {
        let Self { voltages: paths, beams, .. } = &self;
        if let Some(dishes) = &beams.grid {
            return self.run_grid(dishes);
        }
        let array = beams.read_array()?;
        let weights = Reader::open(&beams.weights)?;
        let names = beams.names(&weights)?;
        let files = self.files().reads([&beams.weights, &beams.shifts]).writes(&names);
        let files = files.writes(&beams.incoherent).writes(&beams.clipped);
        files.check(self.existing)?;

        let gpus = self.device.open()?;
        let of_inputs = |channels, inputs| streams(&weights, channels, inputs);
        let (input, array, axes) = self.open(array, &gpus, of_inputs)?;
        let (recorded, times) = (input.head.shape, input.recorded());
        if times == u64::MAX && (!beams.is_endless() || beams.incoherent.is_some()) {
            return Err(Error::file(
                &paths[0],
                "a stream of unknown length: expected beams as a filterbank file, GUPPI RAW, DADA, VDIF or SPEAD, which may have \
                 any length",
            ));
        }
        let place =
            BeamDevices { device: self.device.clone(), gpus: gpus.clone(), kernel: self.kernel };
        let (plan, shape) = beams.plan(weights, &paths[0], (recorded.encoding, axes), place)?;
        let made = format!("{} ({})", plan.device_name(), plan.kernel());
        let channels = beams.channels(recorded.channels)?;
        let array = array.map(|array| of_channels(&array, recorded.channels, &channels));
        let array = array.transpose()?;
        let ticks = Ticks::of(recorded.channels).starting_at(channels.start);
        let length = (times as usize, ticks);
        let mut outputs = Outputs::create(beams, &shape, length, array.as_ref(), &names)?;

        let start = Instant::now();
        let beams_of = BeamsOf::new(plan, |start, formed, times| outputs.put(start, formed, times));
        let beams_of = beams_of.of_channels(channels);
        let times = self.form(input, &gpus, block_times(&shape), beams_of)?;
        let clipped = outputs.finish(times)?;

        let seconds = start.elapsed().as_secs_f64();
        let took = numbers::seconds(seconds);
        tell(format_args!(
            "formed {} of {} x {} x {} x {} in {took}: {}voltages/s, {}op/s useful on {made}, \
             {} % of the samples clipped: {}",
            count(shape.beams, "beam"),
            count(shape.dishes, "dish"),
            count(shape.channels, "channel"),
            count(shape.polarisations, "polarisation"),
            count(times, "time"),
            si(shape.bytes_per_time() as f64 * times as f64 / seconds),
            si(useful_operations(&shape, times) / seconds),
            digits(100.0 * clipped),
            written(&beams.output, &names)
        ));
        Ok(())
    }

    /// Checks options of beams on a grid, and reads the array.
    fn check_grid(&self) -> Result<Option<Array>> {
        let beams = &self.beams;
        if self.kernel != Kernel::Auto {
            return Err(Error::invalid(format!(
                "kernel {} with --grid: expected auto, and --grid-kernel for beams on a grid",
                self.kernel
            )));
        }
        let is_sent = ending(&beams.output) == VDIF || beams.is_sent();
        if is_sent || beams.is_dada() {
            let format = if is_sent { "VDIF" } else { "DADA" };
            let reason =
                format!("powers are no {format}: expected a name that ends in .{FIL}, or another");
            return Err(Error::file(&beams.output, reason));
        }
        let array = beams.read_array()?;
        if let (Some(beam), None) = (beams.chosen.first(), &array) {
            return Err(Error::invalid(format!(
                "--beam {beam}: chosen for a filterbank file, expected an output whose name ends in .{FIL}"
            )));
        }
        Ok(array)
    }

    /// The GPU of beams on a grid, which take one; none for the CPU.
    fn only_gpu(&self) -> Result<Option<Arc<dyn Gpu>>> {
        match &self.device.open()?[..] {
            [] => Ok(None),
            [gpu] => Ok(Some(gpu.clone())),
            several => Err(Error::invalid(format!(
                "--device {}: {} devices, expected one for beams on a grid",
                self.device,
                several.len()
            ))),
        }
    }

    /// Makes powers of the beams of dishes on a grid.
    fn run_grid(&self, dishes: &Path) -> Result<()> {
        let Self { voltages: paths, beams, .. } = self;
        let array = self.check_grid()?;
        let files = self.files().reads(&beams.grid).writes([&beams.output]);
        files.check(self.existing)?;

        let dishes = Dishes::read(dishes)?;
        let gpu = self.only_gpu()?;
        let of_inputs = |channels, inputs| dishes.streams(channels, inputs);
        let (input, array, axes) = self.open(array, gpu.as_slice(), of_inputs)?;
        let (recorded, times) = (input.head.shape, input.recorded());
        if times == u64::MAX && array.is_none() {
            return Err(Error::file(
                &paths[0],
                "a stream of unknown length: expected a filterbank file, which may have any length",
            ));
        }
        let step = beams.scaling.integrate.map_or(1, NonZeroU64::get);
        let channels = beams.channels(recorded.channels)?;
        let array = array.map(|array| of_channels(&array, recorded.channels, &channels));
        let array = array.transpose()?;
        let plan = dishes.builder(&paths[0], [channels.len(), axes[1], axes[2]])?;
        let plan = plan.encoding(recorded.encoding).half(beams.half).kernel(beams.grid_kernel);
        let plan = plan.integrate(usize::try_from(step).unwrap_or(usize::MAX));
        let plan = match &gpu {
            Some(gpu) => plan.gpu(gpu.clone()),
            None => plan.device(Device::Cpu),
        }
        .build()?;
        let (shape, device) = (*plan.shape(), plan.device_name().to_owned());
        let options = (&beams.chosen[..], &beams.scaling);
        let mut output = Output::create(&beams.output, &shape, times, array.as_ref(), options)?;

        let start = Instant::now();
        let most = run::block_times(shape.bytes_per_time());
        let beams_of = GridBeamsOf::new(plan, |beams| output.write(beams));
        let beams_of = beams_of.of_channels(channels);
        let times = self.form(input, gpu.as_slice(), most, beams_of)?;
        output.finish(times, shape.block_times)?;
        let seconds = start.elapsed().as_secs_f64();
        let took = numbers::seconds(seconds);
        tell(format_args!(
            "added the powers of {} of {} on a grid of {} x {}, {} x {} x {}, in {took}: {}voltages/s on {}: {}",
            count(shape.beams(), "beam"),
            count(shape.dishes, "dish"),
            shape.rows,
            shape.columns,
            count(shape.channels, "channel"),
            count(shape.polarisations, "polarisation"),
            count(times, "time"),
            si(shape.bytes_per_time() as f64 * times as f64 / seconds),
            device,
            beams.output.display()
        ));
        Ok(())
    }

    /// Forms beams of the voltages, about `at_once` times together, reports flagged and clipped ones, and returns the number of
    /// times.
    fn form(
        &self,
        input: Input,
        gpus: &[Arc<dyn Gpu>],
        at_once: usize,
        beams: impl Product,
    ) -> Result<u64> {
        let (shape, is_raw) = (input.head.shape, input.is_raw());
        let bar = Progress::new("beamforming", &shape, input.recorded());
        let (source, judged, losses) =
            input.source(&self.flagging, &self.device, gpus, Some(at_once))?;
        let mut run = Run::over(source).progress(|done| bar.set(done));
        run.add("beams", beams)?;
        let done = run.all()?;
        drop(bar);
        judged.map_or(Ok(()), Judged::report)?;
        if let Some(missing) = losses.said(done.times) {
            warn(format_args!("{missing} and count as zero"));
        }
        if is_raw {
            warn_of_clipped(&done.clipped, shape.channels, done.times, LEVELS);
        }
        Ok(done.times)
    }

    /// The files that every beamformer reads and writes.
    fn files(&self) -> RunFiles<'_> {
        let files = RunFiles::default().reads(&self.voltages).reads(self.raw.engine.files());
        files.reads(&self.beams.array).writes(self.flagging.files())
    }

    /// Opens the voltages, and returns them, subchannels of them if there are to be some, with the array, completed, and the
    /// lengths of their axes `[F, P, D]`: `of_inputs` of the channels and inputs of raw voltages.
    fn open(
        &self,
        mut array: Option<Array>,
        gpus: &[Arc<dyn Gpu>],
        of_inputs: impl FnOnce(usize, usize) -> [usize; 3],
    ) -> Result<(Input, Option<Array>, [usize; 3])> {
        let files = (&self.voltages[..], self.tolerance.with(Options::default()));
        let dated = (array.is_some(), "--delays, or an output with times");
        let of_array = (array.as_ref(), self.subchannels.factor());
        let (input, streams) = match self.raw.open(files, of_array, dated)? {
            Some(input) => (input, None),
            None => {
                if let Some(second) = self.voltages.get(1) {
                    let reason = "a second file: expected one, or --channelise";
                    return Err(Error::file(second, reason));
                }
                let (voltages, shape, streams) = self.open_array()?;
                let voltages = Voltages::of_array(voltages, shape)?;
                (Input::channels(Box::new(voltages)), Some(streams))
            }
        };
        let input = self.subchannels.of(input, &self.raw.engine, gpus)?;
        if input.is_raw() {
            array.iter_mut().try_for_each(|array| complete(array, &input.head))?;
        }
        let correlate::Shape { channels, inputs, .. } = input.head.shape;
        // Axes of a file say its order, the array's default is another.
        let (axes, checked) = match streams {
            Some([polarisations, dishes]) => {
                let lists = array.as_ref().is_some_and(|array| array.inputs.is_some());
                ([channels, polarisations, dishes], lists)
            }
            None => (of_inputs(channels, inputs), true),
        };
        if let Some(array) = array.as_ref().filter(|_| checked) {
            let [_, polarisations, dishes] = axes;
            array.check_beams([polarisations, dishes], input.head.polarisations)?;
        }
        Ok((input, array, axes))
    }

    /// Opens the NumPy file of voltages, and returns its shape as a recording, of which input `p D + d` is dish d of
    /// polarisation p, and the lengths of its axes `[P, D]`.
    fn open_array(&self) -> Result<(Reader, correlate::Shape, [usize; 2])> {
        let path = &self.voltages[0];
        let voltages = Reader::open(path)?;
        let encoding = encoding_of(&voltages, Encoding::Ci4);
        let (dtype, parts) = element(encoding.into());
        let pair = &["2"][..parts - 1];
        let with_pair = |axes: &[&'static str]| [axes, pair].concat();
        if voltages.shape().len() == 2 + parts {
            voltages.expect(dtype, &with_pair(&["T", "F", "D"]))?;
        } else {
            voltages.expect(dtype, &with_pair(&["T", "F", "P", "D"]))?;
        }
        let axes = voltages.shape();
        if let (true, Some(&found)) = (parts == 2, axes.last())
            && found != 2
        {
            let reason = format!("last axis of {found}: expected 2, real and imaginary parts");
            return Err(Error::file(path, reason));
        }
        let (channels, streams) = match axes[1..axes.len() + 1 - parts] {
            [channels, dishes] => (channels, [1, dishes]),
            [channels, polarisations, dishes] => (channels, [polarisations, dishes]),
            _ => unreachable!("as many axes as were expected"),
        };
        let inputs = streams.iter().product();
        let shape = correlate::Shape { inputs, channels, encoding, layout: Layout::Tcn };
        Ok((voltages, shape, streams))
    }
}

/// Devices of a beamformer, and its kernel.
pub struct BeamDevices {
    /// As they are named.
    pub device: Devices,
    /// The GPUs among them.
    pub gpus: Vec<Arc<dyn Gpu>>,
    /// The kernel.
    pub kernel: Kernel,
}

impl BeamOptions {
    /// Whether the files say when their times are, or which polarisations they have, unlike NumPy files.
    pub fn is_dated(&self) -> bool {
        self.is_by_beam() || ending(&self.output) == VDIF || self.address().is_some()
    }

    /// Whether each beam has a file of its own.
    fn is_by_beam(&self) -> bool {
        self.is_power() || ending(&self.output) == RAW || self.is_dada()
    }

    /// Whether beams are written as DADA, to files or to a ring.
    fn is_dada(&self) -> bool {
        ending(&self.output) == DADA || self.is_to_ring()
    }

    /// Whether a beam goes to a ring of PSRDADA, in place of a file.
    fn is_to_ring(&self) -> bool {
        dada::is_ring(&self.output)
    }

    /// Channels of `all` to form beams of.
    pub fn channels(&self, all: usize) -> Result<Range<usize>> {
        ChannelRange::of(self.channels.as_ref(), "--channels", all)
    }

    /// Encoding of the beams.
    pub fn encoding(&self) -> SpectrumEncoding {
        self.output_encoding.unwrap_or_else(|| match self.is_power() {
            true => SpectrumEncoding::Cf32,
            false => Encoding::Ci4.into(),
        })
    }

    /// Whether the files are of powers.
    fn is_power(&self) -> bool {
        ending(&self.output) == FIL || self.scaling.stokes.is_some()
    }

    /// The address that frames are sent to, in place of a file.
    fn address(&self) -> Option<&str> {
        self.output.to_str()?.strip_prefix(UDP)
    }

    /// The addresses that heaps are sent to, in place of a file.
    fn heaps_to(&self) -> Option<&str> {
        self.output.to_str()?.strip_prefix(SPEAD)
    }

    /// Whether beams are sent, not written.
    fn is_sent(&self) -> bool {
        self.address().is_some() || self.heaps_to().is_some()
    }

    /// Whether beams may be of any number of times, unlike beams in NumPy files.
    pub fn is_endless(&self) -> bool {
        self.is_dated() || self.heaps_to().is_some()
    }

    /// The array file, which filterbank files and VDIF need and others have no use for.
    pub fn read_array(&self) -> Result<Option<Array>> {
        match (&self.array, self.is_dated()) {
            (Some(array), true) => Ok(Some(Array::read(array)?)),
            (None, false) if self.scaling.described().is_some() => {
                let name = self.scaling.described().unwrap_or_default();
                Err(Error::invalid(format!(
                    "{name} without --array: expected --array <ARRAY.json>"
                )))
            }
            (None, false) => match self.scaling.integrate {
                Some(times) if self.grid.is_none() => Err(Error::invalid(format!(
                    "--integrate {times}: expected --array <ARRAY.json> and an output whose name ends in .{FIL}, or --grid"
                ))),
                _ => Ok(None),
            },
            (None, true) => {
                let kind = match &ending(&self.output)[..] {
                    FIL => "a filterbank file",
                    RAW => "GUPPI RAW",
                    _ if self.is_power() => "of Stokes parameters",
                    _ if self.is_dada() => "DADA",
                    _ => "VDIF",
                };
                let reason = format!(
                    "is to be {kind}: expected --array ARRAY.json, which says what the channels and times are"
                );
                Err(Error::file(&self.output, reason))
            }
            (Some(array), false) => Err(Error::invalid(format!(
                "--array {}: expected an output whose name ends in .{VDIF}, .{RAW}, .{DADA} or .{FIL}, found {}",
                array.display(),
                self.output.display()
            ))),
        }
    }

    /// The files that beams are written to.
    pub fn names(&self, weights: &Reader) -> Result<Vec<PathBuf>> {
        #[cfg(feature = "serve")]
        if let (Some(to), &[_, polarisations, beams, _, ..]) = (self.heaps_to(), weights.shape()) {
            addresses(&self.output, to, [beams, polarisations])?;
        }
        Ok(match &self.name_beams(weights)?[..] {
            _ if self.is_sent() || self.is_to_ring() => Vec::new(),
            [] => vec![self.output.clone()],
            beams => beams.iter().map(|(_, path)| path.clone()).collect(),
        })
    }

    /// The beams that are written to files of their own, with the names of these.
    fn name_beams(&self, weights: &Reader) -> Result<Vec<(usize, PathBuf)>> {
        if let Some(stokes) = self.scaling.stokes
            && ![FIL, NPY].contains(&&ending(&self.output)[..])
        {
            return Err(Error::file(
                &self.output,
                format!(
                    "is to be Stokes parameters {stokes}: expected a name that ends in .{FIL} or .{NPY}"
                ),
            ));
        }
        if !self.is_by_beam() {
            return match self.chosen.first() {
                Some(beam) => Err(Error::invalid(format!(
                    "--beam {beam}: chosen for files of a beam each, expected an output whose name ends in .{FIL}, .{RAW} or .{DADA}"
                ))),
                None => Ok(Vec::new()),
            };
        }
        // Other axes are refused later, in words about them.
        let [_, _, beams, _, ..] = *weights.shape() else { return Ok(Vec::new()) };
        if weights.shape().contains(&0) {
            return Ok(Vec::new());
        }
        if let Some(beam) = self.chosen.iter().find(|&&beam| beam >= beams) {
            return Err(Error::invalid(format!("--beam {beam}: expected one below {beams}")));
        }
        let chosen = self.chosen(beams);
        if chosen.len() > 1 && self.is_to_ring() {
            let reason =
                format!("{} to a ring: expected --beam of one", count(chosen.len(), "beam"));
            return Err(Error::file(&self.output, reason));
        }
        let name = |beam: usize| match chosen.len() {
            1 => self.output.clone(),
            _ => self.output.with_extension(format!("{beam}.{}", ending(&self.output))),
        };
        Ok(chosen.iter().map(|&beam| (beam, name(beam))).collect())
    }

    /// Numbers of the beams, out of `beams`, that have files.
    fn chosen(&self, beams: usize) -> Vec<usize> {
        match &self.chosen[..] {
            [] => (0..beams).collect(),
            chosen => chosen.to_vec(),
        }
    }

    /// The plan for the voltages of `path`, of an encoding and axes `[F, P, D]`, with weights and shifts, and its shape.
    pub fn plan(
        &self,
        weights: Reader,
        path: &Path,
        (encoding, streams): (Encoding, [usize; 3]),
        place: BeamDevices,
    ) -> Result<(Beamformer, Shape)> {
        let [all, polarisations, dishes] = streams;
        if encoding == Encoding::Ci4Offset {
            return Err(Error::invalid("beams of ci4-offset samples: expected ci4, ci8 or cf16"));
        }
        let of_weights = self.check_weights(&weights, path, encoding, streams)?;
        let beams = weights.shape()[2];
        let mut plan = Beamformer::builder(dishes, beams)
            .channels(self.channels(all)?.len())
            .polarisations(polarisations)
            .encoding(encoding)
            .output(self.encoding())
            .weights(of_weights)
            .rounding(self.rounding)
            .incoherent(self.incoherent.is_some())
            .device(place.device)
            .gpus(place.gpus)
            .kernel(place.kernel)
            .build()?;
        let shape = *plan.shape();
        let (weights, shifts) = self.read(weights, (&shape, all), path)?;
        plan.set_weights(&weights)?;
        plan.set_shifts(&shifts)?;
        Ok((plan, shape))
    }

    /// Weights and shifts of beams of a shape, of some of `all` channels of the voltages of `path`.
    pub fn read(
        &self,
        mut weights: Reader,
        (shape, all): (&Shape, usize),
        path: &Path,
    ) -> Result<(Vec<u8>, Vec<u32>)> {
        let Shape { polarisations, dishes, beams, .. } = *shape;
        let streams = [all, polarisations, dishes];
        self.check_weights(&weights, path, shape.encoding, streams)?;
        if weights.shape()[2] != beams {
            let found = weights.shape()[2];
            let reason = format!("weights of {found} beams: expected those of {beams}");
            return Err(Error::file(&self.weights, reason));
        }
        let (mut weights, mut shifts) = (weights.read_all()?, self.read_shifts(shape, all)?);
        let range = self.channels(all)?;
        keep(&mut weights, &range, all);
        keep(&mut shifts, &range, all);
        Ok((weights, shifts))
    }

    /// Checks the weights against the voltages' encoding and axes `[F, P, D]`, and returns how a weight is
    /// stored.
    fn check_weights(
        &self,
        weights: &Reader,
        path: &Path,
        voltages: Encoding,
        streams: [usize; 3],
    ) -> Result<Encoding> {
        let encoding = match voltages {
            Encoding::Cf16 => Encoding::Cf16,
            _ if weights.dtype() == Some(Dtype::Uint8) => Encoding::Ci4,
            _ => Encoding::Ci8,
        };
        let (dtype, parts) = element(encoding.into());
        weights.expect(dtype, &["F", "P", "B", "D", "2"][..3 + parts])?;
        let [channels, polarisations, dishes] = streams;
        let axes = weights.shape();
        let expected = [channels, polarisations, axes[2], dishes, 2];
        let expected = &expected[..3 + parts];
        if axes != expected {
            return Err(Error::file(
                &self.weights,
                format!(
                    "weights of shape {axes:?}: expected {expected:?} for the voltages of {}",
                    path.display()
                ),
            ));
        }
        Ok(encoding)
    }

    fn read_shifts(&self, shape: &Shape, all: usize) -> Result<Vec<u32>> {
        let mut shifts = Reader::open(&self.shifts)?;
        let (dtype, decode) = expect_integers(&shifts, &["F", "P", "B"])?;
        let expected = [all, shape.polarisations, shape.beams];
        if shifts.shape() != expected {
            return Err(Error::file(
                &self.shifts,
                format!(
                    "shifts of shape {:?}: expected {expected:?} for the weights of {}",
                    shifts.shape(),
                    self.weights.display()
                ),
            ));
        }
        let bytes = shifts.read_all()?;
        bytes
            .chunks_exact(dtype.bytes())
            .map(|bytes| {
                let shift = decode(bytes);
                u32::try_from(shift).ok().filter(|&shift| shift <= 31).ok_or_else(|| {
                    Error::file(&self.shifts, format!("shift {shift}: expected 0 to 31"))
                })
            })
            .collect()
    }
}

/// Keeps the values of some of `all` channels, which are one after the other.
fn keep<T>(values: &mut Vec<T>, range: &Range<usize>, all: usize) {
    let channel = values.len() / all.max(1);
    values.truncate(range.end * channel);
    values.drain(..range.start * channel);
}

/// The encoding of pairs of int8 or of float16, or `other`.
fn encoding_of(array: &Reader, other: Encoding) -> Encoding {
    match array.dtype() {
        Some(Dtype::Int8) => Encoding::Ci8,
        Some(Dtype::Float16) => Encoding::Cf16,
        _ => other,
    }
}

/// Times of the blocks that are read.
fn block_times(shape: &Shape) -> usize {
    let times = run::block_times(shape.bytes_per_time());
    if times > GRAIN { times / GRAIN * GRAIN } else { times }
}

/// Lengths of the axes `[F, P, D]` of channels of inputs that are all dishes of one polarisation, then all of the other: as
/// many polarisations as weights have.
pub fn streams(weights: &Reader, channels: usize, inputs: usize) -> [usize; 3] {
    let polarisations = match *weights.shape() {
        [_, polarisations, ..] if polarisations > 0 && inputs.is_multiple_of(polarisations) => {
            polarisations
        }
        _ => 1,
    };
    [channels, polarisations, inputs / polarisations]
}

/// Endings of the names of filterbank files, of NumPy files, of GUPPI RAW, of DADA and of VDIF, and the starts of addresses that frames and heaps are sent to.
pub const FIL: &str = "fil";
const NPY: &str = "npy";
const RAW: &str = "raw";
const DADA: &str = "dada";
const VDIF: &str = "vdif";
const UDP: &str = "udp://";
const SPEAD: &str = "spead://";

/// The files that beams went to, in words.
fn written(output: &Path, names: &[PathBuf]) -> String {
    match names {
        [] => output.display().to_string(),
        [first, .., last] => format!("{} to {}", first.display(), last.display()),
        names => names.iter().map(|name| name.display().to_string()).collect(),
    }
}

/// The files that beams go to, which are written while the next beams are formed.
pub struct Outputs(Behind<Formed, BeamFiles>, Formed);

/// Beams of consecutive times.
#[derive(Default)]
struct Formed {
    first: u64,
    times: u64,
    /// Whether they lie within a long gap: there are no beams.
    in_gap: bool,
    beams: Beams,
}

/// The files themselves.
struct BeamFiles {
    samples: Samples,
    incoherent: Option<Writer>,
    counts: Option<Writer>,
    /// Samples clipped so far, `[F][P][B]`.
    clipped: Array3<u64>,
    /// Times of the whole recording.
    times: usize,
    /// Times to come before the first frame of VDIF.
    before: u64,
}

/// Stokes parameters of beams: which, of which feeds, and the places of these among the polarisations.
#[derive(Clone, Copy)]
struct Polarised {
    stokes: Stokes,
    feeds: Feeds,
    places: [usize; 2],
}

/// Files for samples of beams.
enum Samples {
    Npy(Writer),
    /// Their powers, of these beams.
    Powers(Vec<usize>, Vec<Powers>, Option<Polarised>),
    /// Samples of these beams.
    Raw(Vec<usize>, Vec<guppi::Writer>),
    Dada(Vec<usize>, Vec<dada::Writer>),
    Vdif(vdif::Writer),
    #[cfg(feature = "serve")]
    Sent(vdif::Framer, corrust::live::Packets),
    #[cfg(feature = "serve")]
    Heaps(Box<corrust::live::BeamSender>),
}

/// Addresses that heaps are sent to, one for each beam and polarisation.
#[cfg(feature = "serve")]
fn addresses(
    output: &Path,
    to: &str,
    [beams, polarisations]: [usize; 2],
) -> Result<Vec<std::net::SocketAddrV4>> {
    let endpoints: corrust::live::Endpoints =
        to.parse().map_err(|error| Error::file(output, error))?;
    let to: Vec<_> = endpoints.iter().collect();
    let streams = beams.saturating_mul(polarisations);
    if to.len() == streams {
        return Ok(to);
    }
    let found =
        if to.len() == 1 { "1 address".to_owned() } else { format!("{} addresses", to.len()) };
    Err(Error::file(
        output,
        format!(
            "{found} for {} x {}: expected {streams}, one for each, as in {SPEAD}239.1.2.0+{}:7150",
            count(beams, "beam"),
            count(polarisations, "polarisation"),
            streams.saturating_sub(1)
        ),
    ))
}

impl Samples {
    /// GUPPI RAW, or DADA, of each of the `chosen` beams.
    fn of_beams(
        options: &BeamOptions,
        shape: &Shape,
        (times, array): (usize, &Array),
        (chosen, names): (Vec<usize>, &[PathBuf]),
    ) -> Result<Self> {
        let Shape { channels, polarisations, output, .. } = *shape;
        let format = if options.is_dada() { "DADA" } else { "GUPPI RAW" };
        let SpectrumEncoding::Voltage(encoding @ (Encoding::Ci4 | Encoding::Ci8)) = output else {
            let reason = format!("beams of {output} as {format}: expected ci4 or ci8");
            return Err(Error::file(&options.output, reason));
        };
        let (start, interval, [first, width]) = dated(array, channels, format)?;
        let description = guppi::Description {
            telescope: array.telescope.clone(),
            source: array.phase_center.as_ref().map(|center| center.name.clone()),
            start,
            interval,
            first_channel: first,
            channel_width: width,
            channels,
            polarisations,
            encoding,
            times: times as u64,
        };
        if options.is_dada() {
            let ring = std::slice::from_ref(&options.output);
            let names = if options.is_to_ring() { ring } else { names };
            let files = names.iter().map(|path| dada::Writer::create(path, &description));
            return Ok(Self::Dada(chosen, files.collect::<Result<_>>()?));
        }
        if channels == 1 || polarisations == 1 {
            warn(format_args!(
                "{}: GUPPI RAW of {}, which other readers (baseband) do not take as it is",
                options.output.display(),
                if channels == 1 { "one channel" } else { "one polarisation" }
            ));
        }
        let files = names.iter().map(|path| guppi::Writer::create(path, &description));
        Ok(Self::Raw(chosen, files.collect::<Result<_>>()?))
    }

    /// Heaps that are sent.
    fn heaps(output: &Path, to: &str, shape: &Shape, ticks: Ticks) -> Result<Self> {
        let Shape { beams, channels, polarisations, dishes, output: encoding, .. } = *shape;
        if !matches!(encoding, SpectrumEncoding::Voltage(Encoding::Ci4 | Encoding::Ci8)) {
            let reason = format!("beams of {encoding} as SPEAD: expected ci4 or ci8");
            return Err(Error::file(output, reason));
        }
        #[cfg(not(feature = "serve"))]
        {
            let _ = (to, beams, channels, polarisations, dishes, ticks);
            return Err(Error::file(output, "this build sends nothing, expected a file"));
        }
        #[cfg(feature = "serve")]
        {
            let to = addresses(output, to, [beams, polarisations])?;
            let Ticks { first, step, first_channel } = ticks;
            let sender =
                corrust::live::BeamSender::new(to, None, (channels, dishes), (first, step))?;
            Ok(Self::Heaps(Box::new(sender.first_channel(first_channel))))
        }
    }

    /// VDIF of beams of `times` times, or frames that are sent; and the number of times before the first frame.
    fn frames(
        options: &BeamOptions,
        shape: &Shape,
        times: usize,
        array: &Array,
    ) -> Result<(Self, u64)> {
        let Shape { beams, channels, polarisations, output, .. } = *shape;
        let bits = match output {
            SpectrumEncoding::Voltage(Encoding::Ci4) => 4,
            SpectrumEncoding::Voltage(Encoding::Ci8) => 8,
            other => {
                return Err(Error::file(
                    &options.output,
                    format!("beams of {other} as VDIF: expected ci4 or ci8"),
                ));
            }
        };
        let encoding = RawEncoding::Vdif { bits, complex: true };
        let (Some(start), Some(sample_time)) = (array.start, array.sample_time) else {
            return Err(array.lacks(&[Field::Start, Field::SampleTime], "VDIF"));
        };
        let rate = 1.0 / sample_time;
        // A whole number of hertz, whose reciprocal may be none.
        let rate = if (rate - rate.round()).abs() < 1e-9 * rate { rate.round() } else { rate };
        let samples = vdif::frame_samples(encoding, channels, rate).unwrap_or(1);
        let first = vdif::FirstFrame::of(start, rate, samples);
        if first.beside.abs() > BESIDE {
            warn(format_args!(
                "{}: samples are {} of a sample {} than VDIF's headers say",
                options.output.display(),
                digits(first.beside.abs()),
                if first.beside > 0.0 { "later" } else { "earlier" }
            ));
        }
        let least = first.before.saturating_add(samples as u64);
        if (times as u64) < least {
            let reason = format!(
                "{} of beams make no frame of VDIF: expected at least {least}, for a frame of {samples}",
                count(times, "time")
            );
            return Err(Error::file(&options.output, reason));
        }
        if first.before > 0 {
            warn(format_args!(
                "{}: the first {} make no frame of VDIF and are left out",
                options.output.display(),
                count(first.before, "time")
            ));
        }
        let framer =
            vdif::Framer::new(beams * polarisations, channels, encoding, rate, first.start)?;
        let Some(address) = options.address() else {
            let writer = vdif::Writer::create(&options.output, framer)?;
            return Ok((Self::Vdif(writer), first.before));
        };
        #[cfg(not(feature = "serve"))]
        return Err(Error::invalid(format!(
            "{UDP}{address}: this build sends nothing, expected a file"
        )));
        #[cfg(feature = "serve")]
        {
            let address: std::net::SocketAddrV4 = address.parse().map_err(|_| {
                Error::invalid(format!(
                    "{UDP}{address}: expected an IPv4 address and a port, as in {UDP}239.1.2.0:7150"
                ))
            })?;
            let to = corrust::live::Packets::new(address, None)?;
            Ok((Self::Sent(framer, to), first.before))
        }
    }
}

impl Outputs {
    /// Files of beams of `length`: times, their timestamps and channel numbers. Filterbank files, which have `names`, are dated
    /// by the array, heaps that are sent by the timestamps.
    pub fn create(
        options: &BeamOptions,
        shape: &Shape,
        length: (usize, Ticks),
        array: Option<&Array>,
        names: &[PathBuf],
    ) -> Result<Self> {
        let files = BeamFiles::create(options, shape, length, array, names)?;
        let write = |files: &mut BeamFiles, formed: &mut Formed| match formed.in_gap {
            true => files.skip(formed.times),
            false => files.write(formed.first as usize, &formed.beams),
        };
        Ok(Self(Behind::new(files, write)?, Formed::default()))
    }

    /// Writes the beams of `times` times from `first` on, none within a long gap, and leaves others in their place, whose memory
    /// can be used again.
    pub fn put(&mut self, first: u64, beams: Option<&mut Beams>, times: u64) -> Result<()> {
        let Self(behind, formed) = self;
        (formed.first, formed.times, formed.in_gap) = (first, times, beams.is_none());
        match beams {
            Some(beams) => {
                std::mem::swap(beams, &mut formed.beams);
                behind.put(formed)?;
                std::mem::swap(beams, &mut formed.beams);
                Ok(())
            }
            None => behind.put(formed),
        }
    }

    /// Finishes the files, of `times` times, reports times that they lack, and returns the part of the samples that was
    /// clipped.
    pub fn finish(self, times: u64) -> Result<f64> {
        self.0.finish()?.finish(times)
    }
}

impl BeamFiles {
    fn create(
        options: &BeamOptions,
        shape: &Shape,
        (times, ticks): (usize, Ticks),
        array: Option<&Array>,
        names: &[PathBuf],
    ) -> Result<Self> {
        let Shape { beams, channels, polarisations, output, .. } = *shape;
        let rows = [beams, channels, polarisations, times];
        let (dtype, parts) = element(output);
        let counted = [channels, polarisations, beams];
        let mut before = 0;
        let samples = match array {
            _ if let Some(to) = options.heaps_to() => {
                Samples::heaps(&options.output, to, shape, ticks)?
            }
            None => {
                let axes = [&rows[..], &[2][..parts - 1]].concat();
                Samples::Npy(Writer::with_shape(&options.output, dtype, &axes)?)
            }
            Some(array) if !options.is_by_beam() => {
                let samples;
                (samples, before) = Samples::frames(options, shape, times, array)?;
                samples
            }
            Some(array) if !options.is_power() => {
                Samples::of_beams(options, shape, (times, array), (options.chosen(beams), names))?
            }
            Some(array) => {
                let chosen = options.chosen(beams);
                let polarised = options.scaling.stokes.map(|stokes| {
                    let (feeds, places) = array.beam_feeds(polarisations, shape.dishes)?;
                    Ok(Polarised { stokes, feeds, places })
                });
                let polarised = polarised.transpose()?;
                let create = |(&beam, path): (&usize, &PathBuf)| {
                    let of = Of {
                        channels,
                        times: times as u64,
                        summed: polarisations as u64,
                        encoding: output,
                        beam: Some((beam as u32 + 1, beams as u32)),
                    };
                    Powers::create(path, array, &of, &options.scaling)
                };
                let files: Result<_> = chosen.iter().zip(names).map(create).collect();
                Samples::Powers(chosen, files?, polarised)
            }
        };
        let open = |path: &Option<PathBuf>, dtype, axes: &[usize]| {
            path.as_ref().map(|path| Writer::with_shape(path, dtype, axes)).transpose()
        };
        let incoherent = open(&options.incoherent, Dtype::Int64, &rows[1..])?;
        let counts = open(&options.clipped, Dtype::Uint64, &counted)?;
        Ok(Self { samples, incoherent, counts, clipped: Array3::zeros(counted), times, before })
    }

    /// Writes the beams of the times from `first` on.
    fn write(&mut self, first: usize, formed: &Beams) -> Result<()> {
        let without = self.leave_out(formed.times() as u64) as usize * formed.encoding.bytes();
        let (_, channels, polarisations, row) = formed.samples.dim();
        let (count, encoding) = (formed.times(), formed.encoding);
        let place = |row: usize| (row * self.times + first) as u64;
        let samples = formed.samples.as_slice().expect("beams are stored in standard order");
        let beam_bytes = channels * polarisations * row;
        match &mut self.samples {
            Samples::Npy(writer) => {
                let (_, parts) = element(encoding);
                for (index, samples) in samples.chunks_exact(row).enumerate() {
                    writer.write_at(place(index) * parts as u64, samples)?;
                }
            }
            Samples::Powers(beams, files, polarised) => {
                for (&beam, file) in beams.iter().zip(files) {
                    let samples = &samples[beam * beam_bytes..][..beam_bytes];
                    add_powers(file, samples, encoding, (polarisations * row, row), *polarised)?;
                }
            }
            Samples::Raw(beams, files) => {
                for (&beam, file) in beams.iter().zip(files) {
                    file.append(&samples[beam * beam_bytes..][..beam_bytes])?;
                }
            }
            Samples::Dada(beams, files) => {
                for (&beam, file) in beams.iter().zip(files) {
                    file.append(&samples[beam * beam_bytes..][..beam_bytes])?;
                }
            }
            Samples::Vdif(writer) => writer.append(&values(
                samples,
                encoding,
                [channels, polarisations, row],
                without,
            ))?,
            #[cfg(feature = "serve")]
            Samples::Sent(framer, to) => {
                let values = values(samples, encoding, [channels, polarisations, row], without);
                framer.append(&values, &mut |frame| to.send(frame))?;
            }
            #[cfg(feature = "serve")]
            Samples::Heaps(sender) => {
                sender.append(&rows_of_values(samples, encoding, [channels, polarisations, row]))?
            }
        }
        if let (Some(writer), Some(powers)) = (&mut self.incoherent, &formed.incoherent) {
            let powers: Vec<i64> = powers.iter().map(|&power| power.into()).collect();
            for (row, powers) in powers.chunks_exact(count).enumerate() {
                writer.write_at(place(row), bytemuck::cast_slice(powers))?;
            }
        }
        self.clipped += &formed.clipped;
        Ok(())
    }

    /// Number of the next times that come before the first frame.
    fn leave_out(&mut self, times: u64) -> u64 {
        let without = self.before.min(times);
        self.before -= without;
        without
    }

    /// Skips missing time samples. Their beams are zero, as NumPy files are where nothing is written.
    fn skip(&mut self, times: u64) -> Result<()> {
        let without = self.leave_out(times);
        match &mut self.samples {
            Samples::Npy(_) => Ok(()),
            Samples::Powers(_, files, _) => {
                files.iter_mut().try_for_each(|file| file.advance(times))
            }
            Samples::Raw(_, files) => {
                files.iter_mut().try_for_each(|file| file.append_missing(times))
            }
            Samples::Dada(_, files) => {
                files.iter_mut().try_for_each(|file| file.append_missing(times))
            }
            Samples::Vdif(writer) => writer.append_missing(times - without),
            #[cfg(feature = "serve")]
            Samples::Sent(framer, to) => {
                framer.append_missing(times - without, &mut |frame| to.send(frame))
            }
            #[cfg(feature = "serve")]
            Samples::Heaps(sender) => sender.append_missing(times),
        }
    }

    fn finish(self, times: u64) -> Result<f64> {
        let Self { samples, incoherent, counts, clipped, .. } = self;
        if let Samples::Powers(_, files, _) = &samples {
            warn_of(files, times);
        }
        let write_counts = |mut counts: Writer| {
            let clipped = clipped.as_slice().expect("counts are stored in standard order");
            counts.write_at(0, bytemuck::cast_slice(clipped))?;
            counts.finish()
        };
        let unfilled = |rest: usize, what: &str| {
            if rest > 0 {
                warn(format_args!(
                    "the last {rest} of {times} times do not fill {what} and are left out"
                ));
            }
        };
        let left_out = |rest| unfilled(rest, "a frame of VDIF");
        let samples = match samples {
            Samples::Npy(writer) => writer.finish(),
            Samples::Powers(_, files, _) => files.into_iter().try_for_each(Powers::finish),
            Samples::Raw(_, files) => files.into_iter().try_for_each(guppi::Writer::finish),
            Samples::Dada(_, files) => files.into_iter().try_for_each(dada::Writer::finish),
            Samples::Vdif(writer) => writer.finish().map(left_out),
            #[cfg(feature = "serve")]
            Samples::Sent(framer, _) => {
                left_out(framer.rest());
                Ok(())
            }
            #[cfg(feature = "serve")]
            Samples::Heaps(sender) => sender.finish().map(|rest| unfilled(rest, "a heap")),
        };
        all([
            samples,
            incoherent.map_or(Ok(()), Writer::finish),
            counts.map_or(Ok(()), write_counts),
        ])?;
        let clipped = clipped.sum() as f64 / (clipped.len() as f64 * times as f64);
        if clipped > MUCH_CLIPPED {
            warn(format_args!(
                "{} % of the samples are clipped: larger shifts (corrust weights --shift) keep them",
                digits(100.0 * clipped)
            ));
        }
        Ok(clipped)
    }
}

/// Real and imaginary part of a `ci4` sample, as int8.
fn parts(packed: u8) -> [u8; 2] {
    [packed as i8 >> 4, (packed << 4) as i8 >> 4].map(|part| part as u8)
}

/// The values of samples `[B][F][P][T]`, rows of `row` bytes, as VDIF's frames have them: int8 `[B][P][T][F][2]`; those
/// from a byte of each row on.
fn values(
    samples: &[u8],
    encoding: SpectrumEncoding,
    [channels, polarisations, row]: [usize; 3],
    first: usize,
) -> Vec<u8> {
    let bytes = encoding.bytes();
    let mut values = Vec::with_capacity(samples.len() * 2 / bytes);
    for beam in samples.chunks_exact(channels * polarisations * row) {
        for polarisation in 0..polarisations {
            for time in (first..row).step_by(bytes) {
                for channel in 0..channels {
                    let at = (channel * polarisations + polarisation) * row + time;
                    match beam[at..at + bytes] {
                        [packed] => values.extend(parts(packed)),
                        ref parts => values.extend_from_slice(parts),
                    }
                }
            }
        }
    }
    values
}

/// The values of samples `[B][F][P][T]`, rows of `row` bytes, as heaps have them: int8 `[B][P][F][T][2]`.
#[cfg(feature = "serve")]
fn rows_of_values(
    samples: &[u8],
    encoding: SpectrumEncoding,
    [channels, polarisations, row]: [usize; 3],
) -> Vec<u8> {
    let mut values = Vec::with_capacity(samples.len() * 2 / encoding.bytes());
    for beam in samples.chunks_exact(channels * polarisations * row) {
        for polarisation in 0..polarisations {
            for channel in 0..channels {
                let row = &beam[(channel * polarisations + polarisation) * row..][..row];
                match encoding.bytes() {
                    1 => values.extend(row.iter().flat_map(|&packed| parts(packed))),
                    _ => values.extend_from_slice(row),
                }
            }
        }
    }
    values
}

/// Adds the powers of a beam's samples `[F][P][T]`, `channel` bytes a channel and `row` bytes a row, or their Stokes
/// parameters.
fn add_powers(
    file: &mut Powers,
    samples: &[u8],
    encoding: SpectrumEncoding,
    (channel, row): (usize, usize),
    polarised: Option<Polarised>,
) -> Result<()> {
    let bytes = encoding.bytes();
    let (mut first, times) = (0, row / bytes);
    while first < times {
        let left = times - first;
        let count = usize::try_from(file.lack()).map_or(left, |lack| lack.min(left));
        let part = first * bytes..(first + count) * bytes;
        for (index, rows) in samples.chunks_exact(channel).enumerate() {
            if let Some(Polarised { stokes, feeds, places }) = polarised {
                let pair = places.map(|place| &rows[place * row..][part.clone()]);
                let [one, other] = pair.map(|samples| samples.chunks_exact(bytes));
                for (one, other) in one.zip(other) {
                    let [one, other] = [one, other].map(|sample| voltage(sample, encoding));
                    file.add(index, stokes, feeds.stokes(one, other));
                }
                continue;
            }
            for row in rows.chunks_exact(row) {
                let samples = row[part.clone()].chunks_exact(bytes);
                file.sums[index] += samples.map(|sample| power(sample, encoding)).sum::<f64>();
            }
        }
        file.advance(count as u64)?;
        first += count;
    }
    Ok(())
}
