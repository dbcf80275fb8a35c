//! Powers against time and frequency in files: filterbank files, arrays of powers, spectra and beams.

use std::path::Path;

use corrust::{
    Encoding, Error, Result, device,
    format::{
        array::Array,
        npy::{Dtype, Reader},
        sigproc,
    },
    samples::RawEncoding,
};
use ndarray::Array2;

use crate::cli::options::run_files::ending;
use crate::cli::pictures::chart::Axis;
use crate::cli::pictures::heat::CELLS;

/// Bytes that are read at once.
const BLOCK: usize = 16 << 20;

/// Powers in a file.
pub struct Powers {
    source: PowerFile,
    pub times: u64,
    /// Frequencies in megahertz, or numbers of channels.
    pub axis: Axis,
    /// Seconds of a time sample, where they are known.
    pub interval: Option<f64>,
    /// Number of the beam, the Stokes parameter or the input to draw.
    index: usize,
    /// Name of the one to draw: "beam 2".
    pub one: String,
    pub of: Of,
}

/// Name and number of the things of which one is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Of {
    pub name: &'static str,
    pub count: usize,
}

enum PowerFile {
    Fil(sigproc::Reader),
    /// Integers or floats `[time][..][..]`: strides of channels and of the one that is drawn.
    Array(Reader, Dtype, [usize; 2]),
    /// Voltages of beams, `[beam][channel][polarisation][time]`.
    Beams(Reader, RawEncoding, usize),
}

impl Powers {
    /// Opens a file if it holds powers; `index` is a beam, a Stokes parameter or an input, and an `array` says what NumPy files do
    /// not.
    pub fn open(path: &Path, index: usize, array: Option<&Array>) -> Result<Option<Self>> {
        let axis = |channels: usize| Axis::of(channels, array);
        let found = if ending(path) == "npy" {
            let reader = Reader::open(path)?;
            let dtype = reader.dtype();
            match (dtype, reader.shape()) {
                (Some(dtype @ (Dtype::Int64 | Dtype::Float64)), &[times, channels]) => {
                    let of = Of { name: "array", count: 1 };
                    let source = PowerFile::Array(reader, dtype, [1, 0]);
                    Some((source, times as u64, axis(channels)?, None, of))
                }
                // Stokes parameters, and else inputs.
                (Some(dtype @ (Dtype::Int64 | Dtype::Float64)), &[times, 1 | 4, channels]) => {
                    let of = Of { name: "Stokes parameter", count: reader.shape()[1] };
                    let source = PowerFile::Array(reader, dtype, [1, channels]);
                    Some((source, times as u64, axis(channels)?, None, of))
                }
                (Some(dtype @ (Dtype::Int64 | Dtype::Float64)), &[times, channels, inputs]) => {
                    let of = Of { name: "input", count: inputs };
                    let source = PowerFile::Array(reader, dtype, [inputs, 1]);
                    Some((source, times as u64, axis(channels)?, None, of))
                }
                (Some(dtype), &[beams, channels, polarisations, times])
                | (Some(dtype), &[beams, channels, polarisations, times, 2]) => {
                    let encoding: RawEncoding = match (dtype, reader.shape().len()) {
                        (Dtype::Uint8, 4) => Encoding::Ci4.into(),
                        (Dtype::Int8, 5) => Encoding::Ci8.into(),
                        (Dtype::Float16, 5) => Encoding::Cf16.into(),
                        (Dtype::Float32, 5) => RawEncoding::Cf32,
                        _ => return Ok(None),
                    };
                    let of = Of { name: "beam", count: beams };
                    let source = PowerFile::Beams(reader, encoding, polarisations);
                    Some((source, times as u64, axis(channels)?, None, of))
                }
                _ => None,
            }
        } else if sigproc::Reader::recognises(path)? {
            let reader = sigproc::Reader::open(path)?;
            let header = reader.header();
            let hertz =
                |channel: usize| header.first_channel + channel as f64 * header.channel_width;
            let axis = Axis::frequencies(&(0..header.channels).map(hertz).collect::<Vec<_>>());
            let of = Of { name: "Stokes parameter", count: header.ifs };
            let (times, interval) = (reader.times(), Some(header.interval));
            Some((PowerFile::Fil(reader), times, axis, interval, of))
        } else {
            None
        };
        let Some((source, times, axis, interval, of)) = found else { return Ok(None) };
        if times == 0 || axis.values.is_empty() {
            let reason = format!(
                "{times} times of {} channels: expected at least one of each",
                axis.values.len()
            );
            return Err(Error::file(path, reason));
        }
        if index >= of.count {
            let Of { name, count } = of;
            let reason =
                format!("--index {index}: expected one below {count}, the number of {name}s");
            return Err(Error::file(path, reason));
        }
        let one = match array.filter(|_| of.name == "input") {
            Some(array) => format!("input {}", array.names(of.count)?[index]),
            None => format!("{} {index}", of.name),
        };
        Ok(Some(Self { source, times, axis, interval, index, one, of }))
    }

    /// Mean powers, `[time][frequency]`, of at most [`CELLS`] times and channels.
    pub fn waterfall(&mut self) -> Result<Array2<f64>> {
        let channels = self.axis.values.len();
        let rows = self.times.min(CELLS as u64) as usize;
        let columns = channels.min(CELLS);
        let mut sums = Array2::<f64>::zeros((rows, columns));
        let mut counts = Array2::<f64>::zeros((rows, columns));
        let each =
            |times: u64, time: u64| (u128::from(time) * rows as u128 / u128::from(times)) as usize;
        let (times, index) = (self.times, self.index);
        // First times and lengths of the pieces that are read.
        let pieces = |at_once: usize| {
            let firsts = (0..times).step_by(at_once);
            firsts.map(move |first| (first, (times - first).min(at_once as u64)))
        };
        let mut add = |time: u64, channel: usize, power: f64| {
            let cell = [each(times, time), channel * columns / channels];
            if power.is_finite() {
                sums[cell] += power;
                counts[cell] += 1.0;
            }
        };
        match &mut self.source {
            PowerFile::Fil(reader) => {
                let step = channels * self.of.count;
                for (first, count) in pieces((BLOCK / (4 * step)).max(1)) {
                    let samples = reader.read(first, count as usize)?;
                    for (time, powers) in (first..).zip(samples.chunks_exact(step)) {
                        let powers = powers[index * channels..][..channels].iter();
                        powers
                            .enumerate()
                            .for_each(|(channel, power)| add(time, channel, f64::from(*power)));
                    }
                }
            }
            PowerFile::Array(reader, dtype, [of_channel, of_index]) => {
                let step = channels * self.of.count;
                for (first, count) in pieces((BLOCK / (8 * step)).max(1)) {
                    let mut bytes: Vec<u8> = device::zeros(count as usize * step * 8)?;
                    reader.read_at(first * step as u64, &mut bytes)?;
                    for (time, row) in (first..).zip(bytes.chunks_exact(8 * step)) {
                        for channel in 0..channels {
                            let place = channel * *of_channel + index * *of_index;
                            let bytes = &row[8 * place..][..8];
                            let power = match dtype {
                                Dtype::Float64 => bytemuck::pod_read_unaligned::<f64>(bytes),
                                _ => bytemuck::pod_read_unaligned::<i64>(bytes) as f64,
                            };
                            add(time, channel, power);
                        }
                    }
                }
            }
            PowerFile::Beams(reader, encoding, polarisations) => {
                let bytes_of = |samples: u64| encoding.bytes(samples as usize);
                // A sample is one element, or two of real and imaginary parts.
                let elements = if encoding.component_bits() == 4 { 1 } else { 2 };
                let at_once = BLOCK / bytes_of(1);
                for channel in 0..channels {
                    for polarisation in 0..*polarisations {
                        let stream = (index * channels + channel) * *polarisations + polarisation;
                        for (first, count) in pieces(at_once) {
                            let mut bytes: Vec<u8> = device::zeros(bytes_of(count))?;
                            reader
                                .read_at((stream as u64 * times + first) * elements, &mut bytes)?;
                            for time in 0..count {
                                let sample = encoding.decode(&bytes, time as usize);
                                let [re, im] = [sample.re, sample.im].map(f64::from);
                                add(first + time, channel, re * re + im * im);
                            }
                        }
                    }
                }
            }
        }
        sums.zip_mut_with(&counts, |sum, count| *sum /= count);
        Ok(sums)
    }
}
