//! `corrust filterbank`.

use std::{
    mem,
    num::NonZeroU64,
    ops::Range,
    path::{Path, PathBuf},
};

use corrust::{
    Devices, Encoding, Error, Layout, Result, Samples,
    channelise::SpectrumEncoding,
    correlate::Shape,
    format::{
        Timestamp,
        array::{Array, Channels, Field, Pairs, Stokes},
        npy::{self, Dtype},
        sigproc::{Bits, Header, Writer},
    },
    run::{Bring, Piece, Run, block_times},
};
use rayon::prelude::*;

use crate::cli::commands::upchannelise::Subchannels;
use crate::cli::input::{Input, RawInput, complete};
use crate::cli::options::engine::{LEVELS, warn_of_clipped};
use crate::cli::options::files::Files;
use crate::cli::options::flagging::Flagging;
use crate::cli::options::given;
use crate::cli::options::run_files::{Existing, RunFiles, ending, input, output};
use crate::cli::options::selection::{ChannelRange, of_channels};
use crate::cli::terminal::missing::fractions;
use crate::cli::terminal::numbers::count;
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{tell, warn};

/// Ending of the names of NumPy files.
const NPY: &str = "npy";

/// Modified Julian date of Unix time 0.
const UNIX_0: f64 = 40_587.0;

/// Write powers of inputs to a SIGPROC filterbank file
///
/// P[t][c] = sum over inputs and the times of an integration of |x_i[c][t]|^2, as searches for pulsars and bursts
/// read them. Missing samples count as zero. With --stokes of pairs of polarisations, summed over antennas: I, or I, Q, U
/// and V in four IFs. With --channelise a spectrum of raw voltages is a time. Where the output's name ends in .npy it is
/// a NumPy file, [sample][channel], or with --stokes [sample][parameter][channel]: int64 of integer samples, exact;
/// float64 of cf16.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = EXAMPLES,
    allow_negative_numbers = true,
    mut_arg("layout", |arg| arg.conflicts_with("channelise")),
    mut_arg("raw_bits", |arg| arg.long("raw-bits"))
)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    powers: PowerOptions,
    #[command(flatten)]
    existing: Existing,
    /// Device of the F-engine, of subchannels and of flags: auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim
    #[arg(long, default_value_t, help_heading = "Device")]
    device: Devices,
    #[command(flatten)]
    flagging: Flagging,
    #[command(flatten)]
    subchannels: Subchannels,
    #[command(flatten)]
    raw: RawInput,
}

/// Powers of inputs, and the file that they go to.
#[derive(Clone, Debug, clap::Args)]
pub struct PowerOptions {
    /// Filterbank file to write, - for the standard output; or a NumPy file, whose name ends in .npy
    #[arg(short, long, value_name = "OUT.fil", value_parser = output())]
    pub output: PathBuf,
    /// Array file: frequencies at even steps, start and sample time [default: what the recording says]
    #[arg(long, value_name = "ARRAY.json", value_parser = input(), hide_short_help = true)]
    pub array: Option<PathBuf>,
    /// Inputs whose powers are added, as in 0,3 [default: all]
    #[arg(long = "input", value_name = "I", value_delimiter = ',')]
    chosen: Vec<usize>,
    /// Channels to write, A to B - 1, as 100..228 [default: all]; an array file describes all of them
    #[arg(long, value_name = "A..B", hide_short_help = true)]
    channels: Option<ChannelRange>,
    #[command(flatten)]
    pub scaling: Scaling,
}

impl PowerOptions {
    /// Whether the file says when its times are, unlike NumPy files.
    pub fn is_dated(&self) -> bool {
        ending(&self.output) != NPY
    }

    /// Channels to write.
    pub fn channels(&self, shape: &Shape) -> Result<Range<usize>> {
        ChannelRange::of(self.channels.as_ref(), "--channels", shape.channels)
    }
}

impl Scaling {
    /// The option that describes samples of a file that an array file describes, too, if one is given.
    pub fn described(&self) -> Option<&'static str> {
        let of = [
            (self.bits.is_some(), "--bits"),
            (self.scale.is_some(), "--scale"),
            (self.stokes.is_some(), "--stokes"),
        ];
        of.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }
}

/// Scaling of powers to samples.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Scaling {
    /// Times whose powers are added to a sample of a filterbank file, or of beams on a grid [default: 1]
    #[arg(long, value_name = "T")]
    pub integrate: Option<NonZeroU64>,
    /// Bits of a sample of a filterbank file: 8, 16 or 32 (floating point) [default: 32]
    #[arg(long, hide_short_help = true)]
    bits: Option<Bits>,
    /// Factor of powers before they are rounded to 8 or 16 bits [default: 1]
    #[arg(long, hide_short_help = true)]
    scale: Option<f64>,
    /// Stokes parameters in place of powers: I, or IQUV, of X and Y or R and L, as the array file's "inputs" say (without them X,
    /// then Y). IAU: U = 2 Re XY*, V = 2 Im XY* = RR* - LL*; the book's page on files for other software has more
    #[arg(long, value_name = "I|IQUV", hide_short_help = true)]
    pub stokes: Option<Stokes>,
}

const EXAMPLES: &str = "\
Examples:
  corrust filterbank scan.0000.raw -o scan.fil --integrate 64
  corrust filterbank scan.0000.raw -o x.fil --array array.json --input 0,1 --bits 8 --scale 0.002
  corrust filterbank scan.0000.raw -o iquv.fil --array array.json --integrate 64 --stokes IQUV
  corrust filterbank scan.vdif -o scan.fil --channelise 1024 --sky-frequency 1.4GHz --integrate 64 --flag sk";

impl Args {
    /// Writes the file.
    pub fn run(self) -> Result<()> {
        let Self { files, powers, existing, device, flagging, subchannels, raw } = self;
        let (options, PowerOptions { output, array, .. }) = (&powers, &powers);
        let run_files = RunFiles::default().reads(&files.inputs).reads(array);
        let run_files = run_files.reads(raw.engine.files()).writes([output]);
        run_files.writes(flagging.files()).check(existing)?;
        let computes = raw.channelise.is_some() || subchannels.are_given();
        let gpus = if computes || flagging.flag.is_some() {
            device.open()?
        } else {
            given::warn_unused(
                &["device"],
                "powers are added on the CPU, expected --channelise, --upchannelise or --flag",
            );
            Vec::new()
        };
        let file = array.as_ref().map(Array::read).transpose()?;
        let is_dated = options.is_dated();
        let of = (&files.inputs[..], files.options());
        let array = (file.as_ref(), subchannels.factor());
        let input = match raw.open(of, array, (is_dated, "--delays, or a filterbank file"))? {
            Some(input) => input,
            None => Input::channels(files.open()?),
        };
        let input = subchannels.of(input, &raw.engine, &gpus)?;
        let (shape, times, is_raw) = (input.head.shape, input.recorded(), input.is_raw());
        let mut array = file.clone().unwrap_or_default();
        match (is_raw, &file) {
            (true, Some(_)) if is_dated => complete(&mut array, &input.head)?,
            (true, Some(_)) => {}
            _ => array.complete(&input.head).into_iter().for_each(warn),
        }
        if file.is_none() && is_dated {
            says_all(&array, &files.inputs[0], Some(is_raw))?;
        }
        array.name_source(&input.head);
        let mut powers = InputPowers::create(options, &array, (&shape, times))?;

        let bar = Progress::new("adding powers", &shape, times);
        let at_once = Some(block_times(shape.bytes_per_time()));
        let (source, judged, losses) = input.source(&flagging, &device, &gpus, at_once)?;
        let source = Bring::to(&gpus, source)?;
        let mut run = Run::over(source).progress(|done| bar.set(done));
        run.each("powers", |piece| powers.add(piece));
        let done = run.all()?;
        drop(bar);
        if let Some(judged) = judged {
            judged.report()?;
        } else if powers.missing > 0 {
            let samples = (powers.chosen.len() * powers.channels.len()) as f64;
            let all = done.times as f64 * samples;
            let missing = fractions(all, &[(losses.cause, powers.missing as f64)]);
            warn(format_args!("{missing} and count as zero"));
        }
        if is_raw {
            warn_of_clipped(&done.clipped, shape.channels, done.times, LEVELS);
        }
        let (inputs, channels) = (powers.chosen.len(), powers.channels.len());
        let written = powers.finish(done.times)?;
        tell(format_args!(
            "added the powers of {} x {} into {}: {}",
            count(inputs, "input"),
            count(channels, "channel"),
            count(written, "sample"),
            output.display()
        ));
        Ok(())
    }
}

/// Checks that a recording says what a filterbank file needs, without an array file: for a command, where raw voltages have
/// options for it, or for a plan.
pub fn says_all(of_recording: &Array, path: &Path, is_raw: Option<bool>) -> Result<()> {
    let Array { channels, start, sample_time, .. } = of_recording;
    let facts = [
        (channels.is_none(), "frequencies", "--sky-frequency"),
        (start.is_none(), "start", "--start"),
        (sample_time.is_none(), "sample time", "--rate"),
    ];
    let (names, options): (Vec<_>, Vec<_>) =
        facts.into_iter().filter(|fact| fact.0).map(|(_, name, option)| (name, option)).unzip();
    if names.is_empty() {
        return Ok(());
    }
    let expected = match is_raw {
        Some(true) => format!("{}, or --array ARRAY.json", options.join(", ")),
        Some(false) => "--array ARRAY.json".to_owned(),
        None => "array = \"ARRAY.json\" in [input]".to_owned(),
    };
    let names = names.join(", ");
    let reason = format!("does not say its {names}: expected {expected}, which does");
    Err(Error::file(path, reason))
}

/// A filterbank file of the powers of inputs.
pub struct InputPowers {
    powers: Powers,
    chosen: Vec<usize>,
    channels: Range<usize>,
    /// Stokes parameters and their pairs of inputs.
    pairs: Option<(Stokes, Pairs)>,
    shape: Shape,
    /// Missing samples of the inputs and channels.
    missing: u64,
}

impl InputPowers {
    /// Starts a file of a recording of a shape and times, which the array describes.
    pub fn create(
        options: &PowerOptions,
        array: &Array,
        (shape, times): (&Shape, u64),
    ) -> Result<Self> {
        let PowerOptions { output, chosen, scaling, .. } = options;
        let channels = options.channels(shape)?;
        let array = of_channels(array, shape.channels, &channels)?;
        if shape.encoding.is_bits() {
            return Err(Error::invalid(format!(
                "powers of {}: expected samples of ci8, ci4, ci4-offset or cf16",
                shape.encoding
            )));
        }
        let chosen = if chosen.is_empty() { (0..shape.inputs).collect() } else { chosen.clone() };
        if let Some(input) = chosen.iter().find(|&&input| input >= shape.inputs) {
            return Err(Error::invalid(format!(
                "--input {input}: expected one below {}",
                shape.inputs
            )));
        }
        if let Some((_, input)) =
            chosen.iter().enumerate().find(|(at, input)| chosen[..*at].contains(input))
        {
            return Err(Error::invalid(format!("--input {input}: found twice, expected it once")));
        }
        let pairs = scaling.stokes.map(|stokes| Ok((stokes, array.pairs(shape.inputs, &chosen)?)));
        let pairs = pairs.transpose()?;
        let of = Of {
            channels: channels.len(),
            times,
            summed: chosen.len() as u64,
            encoding: shape.encoding.into(),
            beam: None,
        };
        let powers = Powers::create(output, &array, &of, scaling)?;
        let shape = Shape { channels: channels.len(), ..*shape };
        Ok(Self { powers, chosen, channels, pairs, shape, missing: 0 })
    }

    /// Adds the powers of the next times, which are in host memory; missing ones are zero.
    pub fn add(&mut self, piece: &Piece<Samples<'_>>) -> Result<()> {
        self.missing += piece.missing(&self.channels, self.chosen.iter().copied());
        let Some(samples) = &piece.samples else { return self.powers.advance(piece.times) };
        let Self { powers, chosen, channels, pairs, shape, .. } = self;
        let samples = samples.channels(channels.clone());
        let gathered;
        let bytes = match samples.plain(Layout::Tcn) {
            Some(bytes) => bytes,
            None => {
                gathered = samples.gather(Layout::Tcn)?;
                &gathered
            }
        };
        let (size, encoding, pairs) =
            (shape.encoding.bytes(), shape.encoding.into(), pairs.as_ref());
        let row = shape.inputs * size;
        let some = (!chosen.iter().copied().eq(0..shape.inputs)).then_some(&chosen[..]);
        powers.extend(bytes, shape.bytes_per_time(), |times, channels, sums| {
            let part = channels.start * row..channels.end * row;
            for time in times.chunks_exact(shape.bytes_per_time()) {
                let rows = time[part.clone()].chunks_exact(row);
                let Some((stokes, Pairs { feeds, inputs })) = pairs else {
                    rows.zip(&mut *sums).for_each(|(row, sum)| add_power(row, some, encoding, sum));
                    continue;
                };
                for (index, row) in rows.enumerate() {
                    for pair in inputs {
                        let [one, other] =
                            pair.map(|input| voltage(&row[input * size..], encoding));
                        let parameters = &feeds.stokes(one, other)[..stokes.count()];
                        let sums = sums[index..].iter_mut().step_by(channels.len());
                        sums.zip(parameters).for_each(|(sum, parameter)| *sum += parameter);
                    }
                }
            }
        })
    }

    /// Completes the file, of `times` times, reports those that it lacks, and returns its number of samples.
    pub fn finish(self, times: u64) -> Result<u64> {
        warn_of(std::slice::from_ref(&self.powers), times);
        let written = self.powers.written;
        self.powers.finish()?;
        Ok(written)
    }
}

/// A file of powers, and the powers that are added to its next samples.
pub struct Powers {
    file: File,
    /// Sum of each channel; of Stokes parameters `[parameter][channel]`.
    pub sums: Vec<f64>,
    /// Sums of several samples.
    made: Vec<f64>,
    channels: usize,
    /// Numbers of a sample.
    width: usize,
    /// Number of a sample's times that are added so far.
    added: u64,
    step: u64,
    scale: f64,
    bits: Bits,
    written: u64,
}

/// File of powers.
enum File {
    Fil(Writer),
    /// NumPy, int64 or float64.
    Npy(npy::Writer, Dtype),
}

/// Samples whose powers are written.
pub struct Of {
    pub channels: usize,
    pub times: u64,
    /// Powers that are added at each time.
    pub summed: u64,
    pub encoding: SpectrumEncoding,
    /// A beam and how many there are, from 1.
    pub beam: Option<(u32, u32)>,
}

/// Powers of integers are below this: 2 x 128 x 128; sums of fewer than 2^53 are exact in f64.
const MOST_POWER: u64 = 1 << 15;
const EXACT: u64 = 1 << 53;

/// Sums that are made before they are written, about.
const AT_ONCE: usize = 1 << 18;

impl Powers {
    /// Starts a file of the powers of samples of the array's channels.
    pub fn create(path: &Path, array: &Array, of: &Of, scaling: &Scaling) -> Result<Self> {
        let &Of { channels, times, summed, encoding, beam } = of;
        let Scaling { integrate, bits, scale, stokes } = *scaling;
        let step = integrate.map_or(1, NonZeroU64::get);
        let ifs = stokes.map_or(1, Stokes::count);
        if let (Some(bits @ (Bits::Eight | Bits::Sixteen)), Some(Stokes::Iquv)) = (bits, stokes) {
            return Err(Error::invalid(format!(
                "--bits {} of Stokes parameters, of which Q, U and V have signs: expected 32",
                bits.count()
            )));
        }
        if let Some(scale) = scale
            && (!scale.is_finite() || scale == 0.0)
        {
            return Err(Error::invalid(format!(
                "--scale {scale}: expected a finite number, not 0"
            )));
        }
        if times < step {
            return Err(Error::invalid(format!(
                "--integrate {step}: the recording has only {times} times, expected at most as many"
            )));
        }
        let (of_file, bits) = (bits, bits.unwrap_or(Bits::ThirtyTwo));
        let file = if ending(path) == NPY {
            if of_file.is_some() || scale.is_some() {
                return Err(Error::file(
                    path,
                    "--bits or --scale of a NumPy file, which holds sums as they are: expected neither",
                ));
            }
            let is_exact = encoding.limit().is_some();
            if is_exact && step.saturating_mul(summed).saturating_mul(MOST_POWER) > EXACT {
                return Err(Error::invalid(format!(
                    "--integrate {step}: sums beyond 2^53, expected at most {} times",
                    EXACT / MOST_POWER / summed.max(1)
                )));
            }
            let dtype = if is_exact { Dtype::Int64 } else { Dtype::Float64 };
            let entry = [ifs, channels];
            let entry = if stokes.is_some() { &entry[..] } else { &entry[1..] };
            File::Npy(npy::Writer::appending(path, dtype, entry)?, dtype)
        } else {
            let header = Header { bits, beam, ifs, ..header(array, channels, step)? };
            File::Fil(Writer::create(path, &header)?)
        };
        let (sums, scale) = (vec![0.0; ifs * channels], scale.unwrap_or(1.0));
        Ok(Self {
            file,
            sums,
            made: Vec::new(),
            channels,
            width: ifs * channels,
            added: 0,
            step,
            scale,
            bits,
            written: 0,
        })
    }

    /// Adds Stokes parameters of a channel.
    pub fn add(&mut self, channel: usize, stokes: Stokes, parameters: [f64; 4]) {
        for (index, parameter) in parameters[..stokes.count()].iter().enumerate() {
            self.sums[index * self.channels + channel] += parameter;
        }
    }

    /// Adds powers of the next times, of `time_bytes` bytes each, on all threads: `add` is given times that go to the same
    /// sample, a range of channels, and the sums of these, `[parameter][channel]`.
    fn extend(
        &mut self,
        mut times: &[u8],
        time_bytes: usize,
        add: impl Fn(&[u8], Range<usize>, &mut [f64]) + Sync,
    ) -> Result<()> {
        let (width, channels) = (self.width, self.channels);
        let step = usize::try_from(self.step).unwrap_or(usize::MAX);
        while times.len() >= time_bytes && time_bytes > 0 {
            let lack = usize::try_from(self.lack()).unwrap_or(usize::MAX);
            // The sums that are begun, and as many more as are written at once.
            let most = (AT_ONCE / width).max(1);
            let (there, limit) = (times.len() / time_bytes, (most - 1).saturating_mul(step));
            let count = there.min(lack.saturating_add(limit));
            let samples = 1 + count.saturating_sub(lack).div_ceil(step);
            let (now, later) = times.split_at(count * time_bytes);
            let times_of = |sample: usize| {
                let first = if sample == 0 { 0 } else { lack + (sample - 1) * step };
                let end = if sample == 0 { lack } else { first.saturating_add(step) };
                &now[first * time_bytes..end.min(count) * time_bytes]
            };
            self.made.clear();
            self.made.extend_from_slice(&self.sums);
            self.made.resize(samples * width, 0.0);
            add_all(&mut self.made, [width, channels], times_of, &add);
            times = later;
            let end = lack.saturating_add((samples - 1).saturating_mul(step));
            let whole = samples - usize::from(end > count);
            self.added = match whole {
                0 => self.added + count as u64,
                _ => (count - lack - (whole - 1) * step) as u64,
            };
            self.sums.fill(0.0);
            self.sums[..(samples - whole) * width].copy_from_slice(&self.made[whole * width..]);
            let mut made = mem::take(&mut self.made);
            self.write(&mut made[..whole * width])?;
            self.made = made;
        }
        Ok(())
    }

    /// Times that the next samples lack.
    pub fn lack(&self) -> u64 {
        self.step - self.added
    }

    /// Advances by `times` times, whose powers have been added, or are zero where they are more than the next
    /// samples [lack](Self::lack).
    pub fn advance(&mut self, mut times: u64) -> Result<()> {
        while times >= self.lack() {
            times -= self.lack();
            let mut sums = mem::take(&mut self.sums);
            self.write(&mut sums)?;
            sums.fill(0.0);
            self.sums = sums;
            self.added = 0;
        }
        self.added += times;
        Ok(())
    }

    /// Appends samples.
    fn write(&mut self, samples: &mut [f64]) -> Result<()> {
        match &mut self.file {
            File::Fil(file) => {
                samples.iter_mut().for_each(|sum| *sum *= self.scale);
                file.append(samples)?;
            }
            File::Npy(file, dtype) => {
                let bytes = samples.iter().flat_map(|sum| match dtype {
                    Dtype::Int64 => (*sum as i64).to_le_bytes(),
                    _ => sum.to_le_bytes(),
                });
                file.append(&bytes.collect::<Vec<u8>>())?;
            }
        }
        self.written += (samples.len() / self.width) as u64;
        Ok(())
    }

    /// Completes the file.
    pub fn finish(self) -> Result<()> {
        match self.file {
            File::Fil(file) => file.finish(),
            File::Npy(file, _) => file.finish(),
        }
    }

    /// Samples that were clipped so far.
    fn clipped(&self) -> u64 {
        match &self.file {
            File::Fil(file) => file.clipped(),
            File::Npy(..) => 0,
        }
    }
}

/// Reports the time samples and powers that are not in the files of a run.
pub fn warn_of(files: &[Powers], times: u64) {
    let Some(&Powers { added, step, bits, .. }) = files.first() else { return };
    if added > 0 {
        warn(format_args!(
            "the last {added} of {times} times do not fill a sample of {step} and are left out"
        ));
    }
    let clipped: u64 = files.iter().map(Powers::clipped).sum();
    if clipped > 0 {
        let all: u64 = files.iter().map(|file| file.written * file.width as u64).sum();
        warn(format_args!(
            "{clipped} of {all} samples are clipped to {} bits: a smaller --scale keeps them",
            bits.count()
        ));
    }
}

/// Start, sample time, frequency of the first channel and step to the next: facts of the array that `asker` needs.
pub fn dated(array: &Array, channels: usize, asker: &str) -> Result<(Timestamp, f64, [f64; 2])> {
    let (Some(start), Some(sample_time), Some(listed)) =
        (array.start, array.sample_time, &array.channels)
    else {
        return Err(array.lacks(&[Field::Frequencies, Field::Start, Field::SampleTime], asker));
    };
    let frequencies = array.frequencies(channels)?;
    let width = listed.width(0).unwrap_or(1.0 / sample_time);
    if let Channels::Each(each) = listed
        && let Some(pair) =
            each.windows(2).find(|pair| (pair[1] - pair[0] - width).abs() > 1e-6 * width.abs())
    {
        return Err(array.error(format_args!(
            "\"frequencies\" {} and {} are {} hertz apart: expected {width} everywhere, as {asker} has them",
            pair[0],
            pair[1],
            pair[1] - pair[0]
        )));
    }
    Ok((start, sample_time, [frequencies[0], width]))
}

/// Header of the file, with the array's facts.
fn header(array: &Array, channels: usize, step: u64) -> Result<Header> {
    let (start, sample_time, [first_channel, channel_width]) =
        dated(array, channels, "a filterbank file")?;
    let days = start.as_nanosecond() as f64 / 86_400e9;
    let center = array.phase_center.as_ref();
    Ok(Header {
        source: center
            .map(|center| &center.name)
            .or(array.source.as_ref())
            .map_or("unknown", |name| name)
            .into(),
        direction: center.map(|center| [center.ra, center.dec]),
        start: UNIX_0 + days,
        interval: sample_time * step as f64,
        first_channel,
        channel_width,
        channels,
        ifs: 1,
        bits: Bits::ThirtyTwo,
        beam: None,
    })
}

/// Adds powers to the sums of several samples, of `width` numbers and `channels` channels each, on all threads; for `add`
/// see [`Powers::extend`].
fn add_all<'a>(
    made: &mut [f64],
    [width, channels]: [usize; 2],
    times_of: impl Fn(usize) -> &'a [u8] + Sync,
    add: &(impl Fn(&[u8], Range<usize>, &mut [f64]) + Sync),
) {
    let threads = rayon::current_num_threads();
    let samples = made.len() / width;
    if samples >= 2 * threads {
        let at_once = samples.div_ceil(4 * threads);
        made.par_chunks_mut(at_once * width).enumerate().for_each(|(part, sums)| {
            for (index, sums) in sums.chunks_exact_mut(width).enumerate() {
                add(times_of(part * at_once + index), 0..channels, sums);
            }
        });
        return;
    }
    // Few samples: each by parts of the channels.
    let part = channels.div_ceil(2 * threads);
    for (sample, sums) in made.chunks_exact_mut(width).enumerate() {
        let rows = &*sums;
        let of_part = |first: usize| {
            let range = first..channels.min(first + part);
            let rows = rows.chunks_exact(channels).flat_map(|row| &row[range.clone()]);
            let mut sums: Vec<f64> = rows.copied().collect();
            add(times_of(sample), range.clone(), &mut sums);
            (range, sums)
        };
        let parts: Vec<_> = (0..channels).into_par_iter().step_by(part).map(of_part).collect();
        for (range, part) in parts {
            let rows = sums.chunks_exact_mut(channels).zip(part.chunks_exact(range.len()));
            rows.for_each(|(row, part)| row[range.clone()].copy_from_slice(part));
        }
    }
}

/// Adds the powers of a channel's inputs at a time to a sum: of some inputs, or of all.
fn add_power(row: &[u8], some: Option<&[usize]>, encoding: SpectrumEncoding, sum: &mut f64) {
    /// Samples whose powers are added in 32 bits: 2^15 are below 2^31.
    const PART: usize = 1 << 15;
    /// Sum of powers of integers of `N` bytes, exact.
    fn integers<const N: usize>(
        row: &[u8],
        some: Option<&[usize]>,
        power: impl Fn(&[u8; N]) -> i32,
    ) -> f64 {
        let samples = row.as_chunks::<N>().0;
        let sum: i64 = match some {
            Some(inputs) => inputs.iter().map(|&input| i64::from(power(&samples[input]))).sum(),
            None => {
                let parts = samples.chunks(PART);
                parts.map(|part| i64::from(part.iter().map(&power).sum::<i32>())).sum()
            }
        };
        sum as f64
    }
    let power_of = |parts: [i8; 2]| -> i32 {
        parts.iter().map(|&part| i32::from(part) * i32::from(part)).sum()
    };
    match encoding {
        SpectrumEncoding::Voltage(Encoding::Ci8) => {
            *sum += integers(row, some, |&pair: &[u8; 2]| power_of(ci8(pair)));
        }
        SpectrumEncoding::Voltage(Encoding::Ci4) => {
            *sum += integers(row, some, |&[byte]| power_of(ci4(byte)));
        }
        SpectrumEncoding::Voltage(Encoding::Ci4Offset) => {
            *sum += integers(row, some, |&[byte]| power_of(ci4_offset(byte)));
        }
        _ => {
            let size = encoding.bytes();
            match some {
                Some(inputs) => {
                    inputs.iter().for_each(|&input| *sum += power(&row[input * size..], encoding));
                }
                None => row.chunks_exact(size).for_each(|sample| *sum += power(sample, encoding)),
            }
        }
    }
}

/// Parts of a sample of `ci8`, `[re, im]`.
fn ci8(pair: [u8; 2]) -> [i8; 2] {
    pair.map(|part| part as i8)
}

/// Parts of a sample of `ci4`, `[re, im]`.
fn ci4(byte: u8) -> [i8; 2] {
    [byte, byte << 4].map(|bits| bits as i8 >> 4)
}

/// Parts of a sample of `ci4-offset`, `[re, im]`.
fn ci4_offset(byte: u8) -> [i8; 2] {
    [byte >> 4, byte & 15].map(|bits| bits as i8 - 8)
}

/// The power of the sample that bytes begin with.
pub fn power(bytes: &[u8], encoding: SpectrumEncoding) -> f64 {
    let [re, im] = voltage(bytes, encoding);
    re * re + im * im
}

/// The sample that bytes begin with, `[re, im]`.
pub fn voltage(bytes: &[u8], encoding: SpectrumEncoding) -> [f64; 2] {
    match encoding {
        SpectrumEncoding::Voltage(Encoding::Ci8) => ci8([bytes[0], bytes[1]]).map(f64::from),
        SpectrumEncoding::Voltage(Encoding::Ci4) => ci4(bytes[0]).map(f64::from),
        SpectrumEncoding::Voltage(Encoding::Ci4Offset) => ci4_offset(bytes[0]).map(f64::from),
        SpectrumEncoding::Voltage(Encoding::Cf16) => {
            let half = |at: usize| f64::from(half::f16::from_le_bytes([bytes[at], bytes[at + 1]]));
            [half(0), half(2)]
        }
        SpectrumEncoding::Voltage(Encoding::B1 | Encoding::B2) => {
            unreachable!("bits are refused")
        }
        SpectrumEncoding::Cf32 => {
            let (pairs, _) = bytes.as_chunks::<4>();
            [pairs[0], pairs[1]].map(|part| f64::from(f32::from_le_bytes(part)))
        }
    }
}
