//! `corrust simulate`.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Instant,
};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    delays::Polynomials,
    format::{array::Array, description, vdif},
    samples::{RawEncoding, RawLayout},
    simulate::{Diffusion, RawSimulation, RawSource, Scan, Simulation, Source, Species, Tone},
};

use crate::cli::options::run_files::{Existing, RunFiles, ending, input, output};
use crate::cli::options::units::{Frequency, Hertz, Seconds, signed_frequency};
use crate::cli::terminal::numbers::{self, count, digits, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::tell;

/// Write a recording of point sources with known delays
///
/// The recording is a NumPy file. Beside it appears a description in JSON with the sources and
/// their delays, so that the phases of the visibilities can be checked:
/// x_i[c][t] = n_i[c][t] + sum_k exp(-2 pi i delay_k,i c / channels) s_k[c][t], with noise n of
/// power 1 and signals s of power 1/2, 1/4, 1/8 ...; delays count wideband samples.
///
/// With --raw, the recording has no channels: voltages as digitisers deliver them, of an array that turns with
/// Earth below the sources, so that delays change. The description is an array file, a file of the first
/// source's delays for --delays, and says all else that was simulated.
///
/// With --diffusion, photons of molecules that diffuse through the focus of a microscope: a PTU file (T3, a
/// channel for each detector) where the name ends in .ptu, else a NumPy file of arrival times in picoseconds. The
/// description has the values that a fit of the correlation should return. With --scan, a stack of images for
/// corrust images.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// NumPy file to write, - for the standard output; with --raw also VDIF, where the name ends in .vdif. Its
    /// description has the same name, ending in .json
    #[arg(short, long, value_name = "REC.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    recording: RecordingArgs,
    #[command(flatten)]
    raw: RawArgs,
    #[command(flatten)]
    diffusion: DiffusionArgs,
}

/// Ending of the names of VDIF files.
const VDIF: &str = "vdif";

/// The size and contents of a simulated recording.
#[derive(Debug, clap::Args)]
struct RecordingArgs {
    /// Inputs: antennas times polarisations [default: 16, or as many as the --array or --delays have]
    #[arg(long, value_name = "N", conflicts_with = "diffusion")]
    inputs: Option<usize>,
    /// Frequency channels
    #[arg(long, default_value_t = 128, value_name = "C", conflicts_with_all = ["raw", "diffusion"])]
    channels: usize,
    /// Samples of every input and channel [default: 8192, or 1048576 with --raw, of VDIF more if need be for whole
    /// frames]
    #[arg(long, value_name = "T", conflicts_with = "diffusion")]
    times: Option<u64>,
    /// Encoding of a sample: ci8, ci4, ci4-offset or cf16; with --raw i8, i16, f32, ci8, ci16 or cf32, or in VDIF
    /// vdif-2, vdif-2-complex and so on, of 1, 2, 4, 8 or 16 bits [default: ci8, i8, or vdif-8]
    #[arg(long, conflicts_with = "diffusion")]
    encoding: Option<String>,
    /// Order of the axes: tcn (time, channel, input) or cnt (channel, input, time); with --raw nt (input,
    /// time) or tn (time, input) [default: tcn, or nt]
    #[arg(long, conflicts_with = "diffusion")]
    layout: Option<String>,
    /// Point sources, each half as strong as the one before; with --raw the first is at the phase centre
    #[arg(long, default_value_t = 3, value_name = "K", conflicts_with = "diffusion")]
    sources: usize,
    /// Equal seeds give equal recordings
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Further options of raw voltages.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Raw voltages")]
struct RawArgs {
    /// Raw voltages instead of channels
    #[arg(long)]
    raw: bool,
    /// Samples per second
    #[arg(long, value_name = "RATE", default_value = "1MHz", requires = "raw")]
    rate: Hertz,
    /// Sky frequency at baseband 0 Hz, as 1.4GHz [default: 0]
    #[arg(long, value_name = "FREQUENCY", requires = "raw")]
    sky_frequency: Option<Frequency>,
    /// Bits of a real or imaginary part, 2 or more; VDIF's encoding says its own [default: all of the encoding]
    #[arg(long, value_name = "BITS", requires = "raw")]
    bits: Option<u32>,
    /// Standard deviation of noise and sources in steps of the samples [default: 20 for 8 bits]
    #[arg(long, value_name = "SIGMA", requires = "raw", hide_short_help = true)]
    level: Option<f64>,
    /// Power of the receivers' noise
    #[arg(
        long,
        value_name = "POWER",
        default_value_t = 1.0,
        requires = "raw",
        hide_short_help = true
    )]
    noise: f64,
    /// Array file with "location", "antennas", "start" and "phase_center" [default: antennas anywhere
    /// within --radius]
    #[arg(long, value_name = "ARRAY.json", value_parser = input(), requires = "raw")]
    array: Option<PathBuf>,
    /// Metres within which antennas are, where no array is given
    #[arg(
        long,
        value_name = "METRES",
        default_value_t = 1000.0,
        requires = "raw",
        conflicts_with = "array",
        value_parser = metres, hide_short_help = true)]
    radius: f64,
    /// Degrees from the phase centre within which sources are
    #[arg(long, value_name = "DEGREES", default_value_t = 1.0, requires = "raw", value_parser = degrees, hide_short_help = true)]
    field: f64,
    /// One source with these delays to put in, a JSON file, instead of sources in the sky
    #[arg(long, value_name = "D.json", value_parser = input(), requires = "raw",
          conflicts_with_all = ["sources", "field"], hide_short_help = true)]
    delays: Option<PathBuf>,
    /// Interference that all inputs receive at once: frequency on the sky and power; in pulses, how often
    /// and how long
    #[arg(long, value_name = "FREQUENCY:POWER[:PERIOD:LENGTH]", value_parser = tone, requires = "raw", hide_short_help = true)]
    tone: Vec<Tone>,
}

/// Photons of molecules.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Diffusing molecules")]
struct DiffusionArgs {
    /// Photons of molecules that diffuse, instead of voltages
    #[arg(long, conflicts_with_all = ["raw", "inputs", "times", "encoding", "layout", "sources"])]
    diffusion: bool,
    /// Molecules in the effective volume, in the mean
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "diffusion")]
    molecules: f64,
    /// Time that a molecule takes through the focus, tau_D = w^2 / 4 D
    #[arg(long, value_name = "TIME", default_value = "100us", requires = "diffusion")]
    diffusion_time: Seconds,
    /// Length of the focus by its radius
    #[arg(
        long,
        value_name = "K",
        default_value_t = 5.0,
        requires = "diffusion",
        conflicts_with = "plane",
        hide_short_help = true
    )]
    axial_ratio: f64,
    /// All molecules in the focal plane, as in a membrane
    #[arg(long, requires = "diffusion", hide_short_help = true)]
    plane: bool,
    /// Photons a second of a molecule in the centre
    #[arg(
        long,
        value_name = "RATE",
        default_value = "100kHz",
        requires = "diffusion",
        hide_short_help = true
    )]
    brightness: Hertz,
    /// Lifetime of the fluorescence
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2.5ns",
        requires = "diffusion",
        hide_short_help = true
    )]
    lifetime: Seconds,
    /// Molecules of a second kind, as bright: number in the effective volume, diffusion time and lifetime, as in
    /// 1,2ms,4ns
    #[arg(long, value_name = "N,TIME,TIME", value_parser = second, requires = "diffusion", hide_short_help = true)]
    second: Option<(f64, Seconds, Seconds)>,
    /// Photons a second of each detector besides [default: 0]
    #[arg(long, value_name = "RATE", requires = "diffusion", hide_short_help = true)]
    background: Option<Frequency>,
    /// Detectors, which share the photons at random
    #[arg(
        long,
        value_name = "D",
        default_value_t = 1,
        requires = "diffusion",
        hide_short_help = true
    )]
    detectors: usize,
    /// Length of the recording
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "diffusion")]
    duration: Seconds,
    /// Size of images of a scanned field, as 64x64, to simulate instead of photons: uint16 [frame][row][column]
    #[arg(long, value_name = "ROWSxCOLUMNS", requires = "diffusion", conflicts_with_all = ["detectors", "duration", "second", "lifetime"],
          value_parser = size, hide_short_help = true)]
    scan: Option<(usize, usize)>,
    /// Frames of a scan
    #[arg(
        long,
        value_name = "FRAMES",
        default_value_t = 100,
        requires = "scan",
        hide_short_help = true
    )]
    frames: usize,
    /// Side of a pixel by the focus's radius
    #[arg(
        long,
        value_name = "RATIO",
        default_value_t = 0.2,
        requires = "scan",
        hide_short_help = true
    )]
    pixel: f64,
    /// Time from a pixel to the next of its row
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10us",
        requires = "scan",
        hide_short_help = true
    )]
    dwell: Seconds,
    /// Time from a row to the next [default: that of its pixels and a fifth more]
    #[arg(long, value_name = "TIME", requires = "scan", hide_short_help = true)]
    line_time: Option<Seconds>,
}

const EXAMPLES: &str = "\
Examples:
  corrust simulate -o rec.npy
  corrust simulate -o rec.npy --inputs 256 --channels 20 --times 3072 --encoding ci4 --seed 7
  corrust simulate --raw -o raw.npy --rate 32MHz --sky-frequency 1.4GHz --inputs 8
  corrust simulate --raw -o scan.vdif --encoding vdif-2 --rate 8MHz --sky-frequency 1.4GHz --inputs 4
  corrust simulate --raw -o raw.npy --array array.json --encoding ci8 --tone 1.4MHz:10:20ms:1ms
  corrust simulate --diffusion -o photons.ptu --molecules 2 --diffusion-time 50us --detectors 2
  corrust simulate --diffusion -o mixture.ptu --diffusion-time 50us --lifetime 1ns --second 1,2ms,4ns
  corrust simulate --diffusion --scan 64x64 -o scan.npy --plane --diffusion-time 1ms --brightness 1MHz";

/// Reads a second kind of molecules.
fn second(text: &str) -> Result<(f64, Seconds, Seconds), &'static str> {
    let expected =
        "expected a number of molecules, their diffusion time and their lifetime, as in 1,2ms,4ns";
    let [molecules, diffusion_time, lifetime] =
        text.split(',').collect::<Vec<_>>().try_into().map_err(|_| expected)?;
    let time = |text: &str| text.trim().parse::<Seconds>().map_err(|_| expected);
    let molecules = molecules.trim().parse().map_err(|_| expected)?;
    Ok((molecules, time(diffusion_time)?, time(lifetime)?))
}

/// Reads rows and columns.
fn size(text: &str) -> Result<(usize, usize), &'static str> {
    let sides = text.split_once('x').map(|(rows, columns)| (rows.parse(), columns.parse()));
    match sides {
        Some((Ok(rows), Ok(columns))) => Ok((rows, columns)),
        _ => Err("expected rows and columns, as 64x64"),
    }
}

/// Reads a distance.
fn metres(text: &str) -> Result<f64, &'static str> {
    let found = text.parse().ok().filter(|metres: &f64| *metres >= 0.0 && metres.is_finite());
    found.ok_or("expected metres, 0 or more")
}

/// Reads an angle from a point of the sky, at most to the point opposite.
fn degrees(text: &str) -> Result<f64, &'static str> {
    let found = text.parse().ok().filter(|degrees: &f64| (0.0..=180.0).contains(degrees));
    found.ok_or("expected degrees, 0 to 180")
}

/// Reads a tone.
fn tone(text: &str) -> Result<Tone, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (frequency, power, pulses) = match parts[..] {
        [frequency, power] => (frequency, power, None),
        [frequency, power, period, length] => (frequency, power, Some([period, length])),
        _ => return Err("expected FREQUENCY:POWER or FREQUENCY:POWER:PERIOD:LENGTH".into()),
    };
    let seconds = |text: &str| text.parse::<Seconds>().map(|seconds| seconds.0);
    Ok(Tone {
        frequency: signed_frequency(frequency)?,
        power: power.parse().map_err(|_| format!("power {power:?}: expected a number"))?,
        pulses: match pulses {
            Some([period, length]) => Some([seconds(period)?, seconds(length)?]),
            None => None,
        },
    })
}

impl Args {
    /// Writes the recording.
    pub fn run(self) -> Result<()> {
        let description = description(&self.output)?;
        let files = RunFiles::default().reads(&self.raw.array).reads(&self.raw.delays);
        let files = files.writes([&self.output]).writes(&description);
        if self.diffusion.diffusion {
            let simulation = self.diffusion.simulation(self.recording.seed);
            if let Some(scan) = self.diffusion.scan(simulation) {
                scan.check()?;
                files.check(self.existing)?;
                return write_scan(&scan, &self.output);
            }
            simulation.check()?;
            files.check(self.existing)?;
            return write_photons(&simulation, &self.output);
        }
        if self.raw.raw {
            files.check(self.existing)?;
            return self.write_raw();
        }
        let simulation = self.recording.simulation()?;
        simulation.check()?;
        files.writes(&simulation.typed_beside(&self.output)).check(self.existing)?;
        write(simulation, &self.output).map(drop)
    }

    fn write_raw(self) -> Result<()> {
        let Self { output, recording, raw, .. } = self;
        let RecordingArgs { inputs, times, sources, seed, .. } = recording;
        let rate = raw.rate.0;
        let is_vdif = ending(&output) == VDIF;
        let default =
            if is_vdif { RawEncoding::Vdif { bits: 8, complex: false } } else { RawEncoding::I8 };
        let encoding = parsed(&recording.encoding, default)?;
        if is_vdif != matches!(encoding, RawEncoding::Vdif { .. }) {
            return Err(Error::file(
                &output,
                match is_vdif {
                    true => format!("encoding {encoding}: expected vdif-8 or the like, for VDIF"),
                    false => format!("encoding {encoding}: expected a name ending in .{VDIF}"),
                },
            ));
        }
        let times = times.unwrap_or_else(|| {
            let frame = if is_vdif { vdif::frame_samples(encoding, 1, rate) } else { None };
            (1_u64 << 20).next_multiple_of(frame.unwrap_or(1) as u64)
        });
        let array = raw.array.as_ref().map(Array::read).transpose()?;
        let start = array.as_ref().and_then(|array| array.start);
        let delays = raw.delays.as_ref().map(|path| Polynomials::read(path, start)).transpose()?;
        let listed = array.as_ref().and_then(|array| {
            array.inputs.as_ref().map(Vec::len).or(array.antennas.as_ref().map(Vec::len))
        });
        let inputs = inputs.or(listed).or(delays.as_ref().map(Polynomials::inputs)).unwrap_or(16);
        let array = array.map_or_else(|| RawSimulation::array(inputs, raw.radius, seed), Ok)?;
        let mut simulation = RawSimulation {
            inputs,
            times,
            rate,
            sky_frequency: raw.sky_frequency.map_or(0.0, |frequency| frequency.0),
            encoding,
            layout: parsed(&recording.layout, RawLayout::Nt)?,
            bits: raw.bits,
            level: raw.level,
            noise: raw.noise,
            sources: Vec::new(),
            tones: raw.tone,
            seed,
            array,
        };
        // Better to hear now than after many antennas' delays.
        simulation.check()?;
        simulation.sources = match delays {
            Some(delays) => vec![RawSource { power: 0.5, direction: None, delays }],
            None => {
                let size = [sources, times as usize];
                RawSimulation::sources(&simulation.array, inputs, size, rate, raw.field, seed)?
            }
        };

        let begun = Instant::now();
        let progress = Progress::over("simulating", inputs as f64, times);
        simulation.write(&output, |times| {
            progress.set(times);
            Ok(())
        })?;
        drop(progress);
        let seconds = begun.elapsed().as_secs_f64();
        let took = numbers::seconds(seconds);
        tell(format_args!(
            "simulated {} x {} ({}, {}, {}), {} s at {}samples/s, in {took}, {}samples/s: {}",
            count(inputs, "input"),
            count(times, "time"),
            simulation.encoding,
            simulation.layout,
            count(simulation.sources.len(), "source"),
            digits(times as f64 / rate),
            si(rate),
            si(inputs as f64 * times as f64 / seconds),
            output.display()
        ));
        Ok(())
    }
}

impl DiffusionArgs {
    /// Diffusion that the arguments describe.
    fn simulation(&self, seed: u64) -> Diffusion {
        Diffusion {
            molecules: self.molecules,
            diffusion_time: self.diffusion_time.0,
            axial_ratio: (!self.plane).then_some(self.axial_ratio),
            brightness: self.brightness.0,
            lifetime: self.lifetime.0,
            second: self.second.map(|(molecules, diffusion_time, lifetime)| Species {
                molecules,
                diffusion_time: diffusion_time.0,
                brightness: self.brightness.0,
                lifetime: lifetime.0,
            }),
            background: self.background.map_or(0.0, |rate| rate.0),
            detectors: self.detectors,
            seconds: self.duration.0,
            seed,
        }
    }

    /// Scan of the molecules, if it is asked for.
    fn scan(&self, diffusion: Diffusion) -> Option<Scan> {
        let (rows, columns) = self.scan?;
        let dwell = self.dwell.0;
        let line = self.line_time.map_or(1.2 * columns as f64 * dwell, |time| time.0);
        Some(Scan { diffusion, rows, columns, frames: self.frames, pixel: self.pixel, dwell, line })
    }
}

/// Writes images with a progress bar and a summary.
fn write_scan(scan: &Scan, output: &Path) -> Result<()> {
    let begun = Instant::now();
    let pixels = (scan.rows * scan.columns) as f64;
    let progress = Progress::over("simulating", pixels, scan.frames as u64);
    scan.write(output, |frames| {
        progress.set(frames);
        Ok(())
    })?;
    drop(progress);
    tell(format_args!(
        "simulated {} of {} x {} pixels, of {} molecules in the focus that diffuse in {}, in {}: {}",
        count(scan.frames, "frame"),
        scan.rows,
        scan.columns,
        scan.diffusion.molecules,
        numbers::seconds(scan.diffusion.diffusion_time),
        numbers::seconds(begun.elapsed().as_secs_f64()),
        output.display()
    ));
    Ok(())
}

/// Writes photons with a progress bar and a summary.
fn write_photons(simulation: &Diffusion, output: &Path) -> Result<()> {
    let begun = Instant::now();
    let progress = Progress::over("simulating", 1.0, (simulation.seconds * 1e3).ceil() as u64);
    let photons = simulation.write(output, |seconds| {
        progress.set((seconds * 1e3) as u64);
        Ok(())
    })?;
    drop(progress);
    tell(format_args!(
        "simulated {} in {} s, {}photons/s, of {} molecules in the focus that diffuse in {}, in {}: {}",
        count(photons, "photon"),
        digits(simulation.seconds),
        si(photons as f64 / simulation.seconds),
        simulation.molecules,
        numbers::seconds(simulation.diffusion_time),
        numbers::seconds(begun.elapsed().as_secs_f64()),
        output.display()
    ));
    Ok(())
}

/// An argument of a type that depends on others.
fn parsed<T: FromStr<Err = Error>>(text: &Option<String>, default: T) -> Result<T> {
    text.as_ref().map_or(Ok(default), |text| text.parse())
}

impl RecordingArgs {
    /// Simulation that the arguments describe.
    fn simulation(&self) -> Result<Simulation> {
        let &Self { inputs, channels, times, sources, seed, .. } = self;
        let encoding = parsed(&self.encoding, Encoding::Ci8)?;
        let layout = parsed(&self.layout, Layout::Tcn)?;
        let shape = Shape { inputs: inputs.unwrap_or(16), channels, encoding, layout };
        Ok(Simulation { shape, times: times.unwrap_or(8192), sources, seed })
    }
}

/// Writes a recording with a progress bar and a summary, and returns its sources.
pub fn write(simulation: Simulation, output: &PathBuf) -> Result<Vec<Source>> {
    let start = Instant::now();
    let Shape { inputs, channels, encoding, layout } = simulation.shape;
    let progress = Progress::new("simulating", &simulation.shape, simulation.times);
    let sky = simulation.write(output, |times| {
        progress.set(times);
        Ok(())
    })?;
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    let samples = inputs as f64 * channels as f64 * simulation.times as f64;
    let took = numbers::seconds(seconds);
    tell(format_args!(
        "simulated {} x {} x {} ({encoding}, {layout}, {}) in {took}, {}samples/s: {}",
        count(inputs, "input"),
        count(channels, "channel"),
        count(simulation.times, "time"),
        count(sky.len(), "source"),
        si(samples / seconds),
        output.display()
    ));
    Ok(sky)
}
