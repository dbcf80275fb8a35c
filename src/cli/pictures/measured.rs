//! Visibilities in files.

use std::path::Path;

use corrust::{
    Error, Result,
    correlate::{baseline, baselines},
    format::{
        array::Array,
        npy::{Dtype, Reader},
        uvh5,
    },
};
use ndarray::Array2;
use num_complex::Complex;

use crate::cli::options::files::UVH5;
use crate::cli::options::run_files::ending;
use crate::cli::pictures::chart::Axis;
use crate::cli::pictures::heat::CELLS;
use crate::cli::terminal::progress::Progress;

/// Visibilities in a file.
pub struct Measured {
    source: MeasuredFile,
    pub dumps: usize,
    pub inputs: usize,
    /// Channels: their frequencies in megahertz, or their numbers.
    pub axis: Axis,
    /// Noun for an input, as in "antenna", and each one's name, or number.
    pub of: &'static str,
    pub names: Vec<String>,
}

enum MeasuredFile {
    Npy(Reader, Dtype),
    Uvh5(uvh5::Reader, usize),
}

impl Measured {
    /// Opens an output of `corrust correlate`; `polarisation` is an index, for UVH5 alone, and an `array` says what NumPy files
    /// do not.
    pub fn open(path: &Path, polarisation: usize, array: Option<&Array>) -> Result<Self> {
        let (source, dumps, baselines_found, axis);
        if ending(path) == UVH5 {
            let reader = uvh5::Reader::open(path)?;
            let count = reader.polarisations().len();
            if polarisation >= count {
                return Err(Error::file(
                    path,
                    format!("--polarisation {polarisation}: expected one below {count}"),
                ));
            }
            (dumps, baselines_found) = (reader.dumps(), reader.pairs().len());
            axis = Axis::frequencies(reader.frequencies());
            source = MeasuredFile::Uvh5(reader, polarisation);
        } else if ending(path) != "npy" {
            let reason = "holds nothing that is drawn: expected visibilities, powers, spectra, beams, curves or a stack of images";
            return Err(Error::file(path, reason));
        } else {
            let reader = Reader::open(path)?;
            let dtype = match reader.dtype() {
                Some(Dtype::Float32) => Dtype::Float32,
                _ => Dtype::Int64,
            };
            reader.expect(dtype, &["dump", "channel", "baseline", "real, imaginary"])?;
            let &[found, channels, pairs, 2] = reader.shape() else {
                let shape = reader.shape();
                return Err(Error::file(
                    path,
                    format!("shape {shape:?}: expected a last axis of 2"),
                ));
            };
            (dumps, baselines_found) = (found, pairs);
            axis = Axis::of(channels, array)?;
            source = MeasuredFile::Npy(reader, dtype);
        }
        let inputs = ((2.0 * baselines_found as f64).sqrt()) as usize;
        if inputs == 0
            || baselines(inputs) != baselines_found
            || axis.values.is_empty()
            || dumps == 0
        {
            return Err(Error::file(
                path,
                format!(
                    "{dumps} dumps of {} channels and {baselines_found} baselines: expected at least 1 \
                     dump and channel, and N(N+1)/2 baselines",
                    axis.values.len()
                ),
            ));
        }
        let (of, names) = match (&source, array) {
            (MeasuredFile::Uvh5(reader, _), _) => {
                let number = |input| reader.pairs()[baseline(input, input)][0];
                let name =
                    |number: i64| reader.name(number).map_or(number.to_string(), str::to_owned);
                ("antenna", (0..inputs).map(|input| name(number(input))).collect())
            }
            (MeasuredFile::Npy(..), Some(array)) => ("input", array.names(inputs)?),
            _ => ("input", (0..inputs).map(|input| input.to_string()).collect()),
        };
        Ok(Self { source, dumps, inputs, axis, of, names })
    }

    /// Name of a baseline: "m003,m000".
    pub fn pair(&self, i: usize, j: usize) -> String {
        format!("{},{}", self.names[i], self.names[j])
    }

    /// Name of the polarisation, where the file has it: "XX".
    pub fn polarisation(&self) -> Option<&'static str> {
        const NAMES: [&str; 8] = ["RR", "LL", "RL", "LR", "XX", "YY", "XY", "YX"];
        let MeasuredFile::Uvh5(reader, polarisation) = &self.source else { return None };
        let number = usize::try_from(-1 - reader.polarisations()[*polarisation]).ok()?;
        NAMES.get(number).copied()
    }

    /// Name and range of dumps, for an axis: seconds since the start of the first, where times are known.
    pub fn rows(&self) -> (&'static str, std::ops::Range<f64>) {
        const DAY: f64 = 86_400.0;
        if let MeasuredFile::Uvh5(reader, _) = &self.source
            && let [first, .., last] = reader.times()
            && last > first
        {
            let step = DAY * (last - first) / (self.dumps - 1) as f64;
            return ("time (s)", 0.0..step * self.dumps as f64);
        }
        ("dump", 0.0..self.dumps as f64)
    }

    /// The visibilities of a dump, `[channel][baseline]`.
    pub fn dump(&mut self, dump: usize) -> Result<Array2<Complex<f64>>> {
        let shape = (self.axis.values.len(), baselines(self.inputs));
        match &mut self.source {
            MeasuredFile::Uvh5(reader, polarisation) => {
                let sums = reader.read(dump)?;
                Ok(Array2::from_shape_fn(shape, |(channel, baseline)| {
                    sums[[baseline, channel, *polarisation]]
                }))
            }
            MeasuredFile::Npy(reader, dtype) => {
                let parts = 2 * shape.0 * shape.1;
                let mut bytes = vec![0; parts * dtype.bytes()];
                reader.read_at((dump * parts) as u64, &mut bytes)?;
                let part = |index: usize| {
                    let bytes = &bytes[index * dtype.bytes()..][..dtype.bytes()];
                    match dtype {
                        Dtype::Float32 => f64::from(bytemuck::pod_read_unaligned::<f32>(bytes)),
                        _ => bytemuck::pod_read_unaligned::<i64>(bytes) as f64,
                    }
                };
                Ok(Array2::from_shape_fn(shape, |(channel, baseline)| {
                    let index = 2 * (channel * shape.1 + baseline);
                    Complex::new(part(index), part(index + 1))
                }))
            }
        }
    }

    /// Means of a baseline over dumps and channels, `[time][frequency]`.
    pub fn waterfall(&mut self, baseline: usize) -> Result<Array2<Complex<f64>>> {
        let (dumps, channels) = (self.dumps, self.axis.values.len());
        let (rows, columns) = (dumps.min(CELLS), channels.min(CELLS));
        let mut sums = Array2::<Complex<f64>>::default((rows, columns));
        let mut counts = Array2::<f64>::zeros((rows, columns));
        let samples = (channels * baselines(self.inputs)) as f64;
        let bar = Progress::over("reading", samples, dumps as u64);
        for dump in 0..dumps {
            bar.set(dump as u64);
            let visibilities = self.dump(dump)?;
            for channel in 0..channels {
                let cell = [dump * rows / dumps, channel * columns / channels];
                sums[cell] += visibilities[[channel, baseline]];
                counts[cell] += 1.0;
            }
        }
        sums.zip_mut_with(&counts, |sum, count| *sum /= count);
        Ok(sums)
    }
}

/// Visibilities `[channel][baseline]` divided by the root of the powers of both inputs; 0 where there is no
/// power.
pub fn coherences(sums: &Array2<Complex<f64>>, inputs: usize) -> Array2<Complex<f64>> {
    let mut coherences = Array2::default(sums.dim());
    for channel in 0..sums.nrows() {
        let power = |input| sums[[channel, baseline(input, input)]].re;
        for (i, j) in (0..inputs).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            let root = (power(i) * power(j)).sqrt();
            if root > 0.0 {
                coherences[[channel, baseline(i, j)]] = sums[[channel, baseline(i, j)]] / root;
            }
        }
    }
    coherences
}
