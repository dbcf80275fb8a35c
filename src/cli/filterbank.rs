//! `corrust filterbank`.

use std::{num::NonZeroU64, path::PathBuf};

use corrust::{
    Encoding, Error, Layout, Result,
    format::{
        array::{Array, Channels, Field},
        sigproc::{Bits, Header, Writer},
    },
    run::Pieces,
};

use super::{
    count,
    files::Files,
    progress::Progress,
    run_files::{Existing, RunFiles, input, output},
    say, warn,
};

/// Bytes of samples that are read at a time.
const BLOCK_BYTES: usize = 1 << 26;

/// Modified Julian date of Unix time 0.
const UNIX_0: f64 = 40_587.0;

/// Write the power of inputs against time and channel to a SIGPROC filterbank file
///
/// P[t][c] = sum over inputs and the times of an integration of |x_i[c][t]|^2, what searches for pulsars
/// and bursts read. Missing samples count as zero.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Filterbank file to write, - for the standard output
    #[arg(short, long, value_name = "OUT.fil", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// Array file: frequencies at even steps, start, and sample time if the recording does not say it
    #[arg(long, value_name = "ARRAY.json", value_parser = input())]
    array: PathBuf,
    /// Inputs whose powers are added, as in 0,3 [default: all]
    #[arg(long = "input", value_name = "I", value_delimiter = ',')]
    chosen: Vec<usize>,
    /// Times that are added to one
    #[arg(long, value_name = "T", default_value = "1")]
    integrate: NonZeroU64,
    /// Bits of a sample: 8, 16 or 32 (floating point)
    #[arg(long, default_value = "32")]
    bits: Bits,
    /// What powers are multiplied by before they are rounded to 8 or 16 bits
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
}

const EXAMPLES: &str = "\
Examples:
  corrust filterbank scan.0000.raw -o scan.fil --array array.json --integrate 64
  corrust filterbank scan.0000.raw -o x.fil --array array.json --input 0,1 --bits 8 --scale 0.002";

impl Args {
    /// Writes the file.
    pub fn run(self) -> Result<()> {
        let Self { files, output, existing, array, chosen, integrate, bits, scale } = self;
        let run_files = RunFiles::default().reads(&files.inputs).reads([&array]);
        run_files.writes([&output]).check(existing)?;
        let array = Array::read(array)?;
        let recording = files.open()?;
        let (shape, times) = (recording.shape(), recording.times());
        let chosen = if chosen.is_empty() { (0..shape.inputs).collect() } else { chosen };
        if let Some(input) = chosen.iter().find(|&&input| input >= shape.inputs) {
            return Err(Error::invalid(format!(
                "--input {input}: expected one below {}",
                shape.inputs
            )));
        }
        if !scale.is_finite() {
            return Err(Error::invalid(format!("--scale {scale}: expected a finite number")));
        }
        let step = integrate.get();
        if times < step {
            return Err(Error::invalid(format!(
                "--integrate {step}: the recording has only {times} times, expected at most as many"
            )));
        }
        let mut array = array;
        if array.sample_time.is_none() {
            array.sample_time = recording.interval();
        }
        let header = Header { bits, ..header(&array, shape.channels, step)? };
        let mut writer = Writer::create(&output, &header)?;

        let bar = Progress::new("adding powers", &shape, times);
        let block_times = (BLOCK_BYTES / shape.bytes_per_time()).max(1);
        let mut pieces =
            Pieces::over(recording, block_times).progress(|progress| bar.set(progress.done));
        let mut sums = vec![0.0; shape.channels];
        let mut row = Vec::with_capacity(shape.channels);
        let (mut added, mut missing, mut written) = (0, 0, 0_u64);
        while let Some(piece) = pieces.next_piece(step - added)? {
            missing += piece.missing;
            if let Some(samples) = piece.samples {
                let bytes = samples.gather(Layout::Tcn)?;
                for time in bytes.chunks_exact(shape.bytes_per_time()) {
                    let channels = time.chunks_exact(shape.inputs * shape.encoding.bytes());
                    for (sum, channel) in sums.iter_mut().zip(channels) {
                        for &input in &chosen {
                            let start = input * shape.encoding.bytes();
                            *sum += power(&channel[start..], shape.encoding);
                        }
                    }
                }
            }
            added += piece.times;
            if added == step {
                row.clear();
                row.extend(sums.iter().map(|sum| sum * scale));
                writer.append(&row)?;
                sums.fill(0.0);
                added = 0;
                written += 1;
            }
        }
        drop(pieces);
        drop(bar);
        if added > 0 {
            warn(format_args!(
                "the last {added} of {times} times do not fill a sample of {step} and are left out"
            ));
        }
        if missing > 0 {
            warn(format_args!("{missing} of {times} times are missing and count as zero"));
        }
        if writer.clipped() > 0 {
            warn(format_args!(
                "{} of {} samples are clipped to {} bits: a smaller --scale keeps them",
                writer.clipped(),
                written * shape.channels as u64,
                bits.count()
            ));
        }
        writer.finish()?;
        say(format_args!(
            "added the powers of {} x {} into {}: {}",
            count(chosen.len(), "input"),
            count(shape.channels, "channel"),
            count(written, "sample"),
            output.display()
        ));
        Ok(())
    }
}

/// What the array says of the file's samples.
fn header(array: &Array, channels: usize, step: u64) -> Result<Header> {
    let (Some(start), Some(sample_time), Some(listed)) =
        (array.start, array.sample_time, &array.channels)
    else {
        return Err(array
            .lacks(&[Field::Frequencies, Field::Start, Field::SampleTime], "a filterbank file"));
    };
    let frequencies = array.frequencies(channels)?;
    let width = listed.width(0).unwrap_or(1.0 / sample_time);
    if let Channels::Each(each) = listed
        && let Some(pair) =
            each.windows(2).find(|pair| (pair[1] - pair[0] - width).abs() > 1e-6 * width.abs())
    {
        return Err(array.error(format_args!(
            "\"frequencies\" {} and {} are {} hertz apart: expected {width} everywhere, as a filterbank \
             file has them",
            pair[0],
            pair[1],
            pair[1] - pair[0]
        )));
    }
    let days = start.as_nanosecond() as f64 / 86_400e9;
    Ok(Header {
        source: array.phase_center.as_ref().map_or("unknown", |center| &center.name).into(),
        start: UNIX_0 + days,
        interval: sample_time * step as f64,
        first_channel: frequencies[0],
        channel_width: width,
        channels,
        bits: Bits::ThirtyTwo,
        beam: None,
    })
}

/// The power of the sample that bytes begin with.
fn power(bytes: &[u8], encoding: Encoding) -> f64 {
    let (re, im) = match encoding {
        Encoding::Ci8 => (f64::from(bytes[0] as i8), f64::from(bytes[1] as i8)),
        Encoding::Ci4 => {
            let nibble = |byte: u8| f64::from(byte as i8 >> 4);
            (nibble(bytes[0]), nibble(bytes[0] << 4))
        }
        Encoding::Ci4Offset => (f64::from(bytes[0] >> 4) - 8.0, f64::from(bytes[0] & 15) - 8.0),
        Encoding::Cf16 => {
            let half = |at: usize| f64::from(half::f16::from_le_bytes([bytes[at], bytes[at + 1]]));
            (half(0), half(2))
        }
        Encoding::B1 | Encoding::B2 => unreachable!("no recording is bits"),
    };
    re * re + im * im
}
