//! Beams of dishes on a grid, of `corrust beamform --grid`.

use std::path::{Path, PathBuf};

use corrust::{
    Error, GridBeamformer, Result,
    beamform::grid::{Builder, GridBeams, Powers as Values, Shape},
    channelise::SpectrumEncoding,
    format::{
        array::Array,
        npy::{Dtype, Writer},
        read_text,
    },
    run::Behind,
};
use num_complex::Complex;
use serde::Deserialize;

use crate::cli::commands::filterbank::{Of, Powers, Scaling, warn_of};
use crate::cli::terminal::say::warn;

/// A file of dishes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dishes {
    rows: usize,
    columns: usize,
    dishes: Vec<[usize; 2]>,
    /// A weight for each dish.
    weights: Option<Vec<[f32; 2]>>,
    gain: Option<f32>,
    #[serde(skip)]
    path: PathBuf,
}

impl Dishes {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let found: Self = serde_json::from_str(&read_text(path)?).map_err(|error| {
            Error::file(
                path,
                format!(
                    "{error}: expected JSON with \"rows\", \"columns\", \"dishes\" [[m, n], ...] and perhaps \
                     \"weights\" [[re, im], ...] and \"gain\""
                ),
            )
        })?;
        let count = found.dishes.len();
        let reason = match &found.weights {
            _ if count == 0 => "no dishes: expected at least 1".to_owned(),
            Some(weights) if weights.len() != count => {
                format!("{} weights: expected {count}, one for each dish", weights.len())
            }
            _ => return Ok(Self { path: path.to_owned(), ..found }),
        };
        Err(Error::file(path, reason))
    }

    /// Lengths of the axes `[F, P, D]` of channels of inputs that are all dishes of one polarisation, then all of the other.
    pub fn streams(&self, channels: usize, inputs: usize) -> [usize; 3] {
        let polarisations = match self.dishes.len() {
            count if inputs.is_multiple_of(count) => inputs / count,
            _ => 1,
        };
        [channels, polarisations, inputs / polarisations]
    }

    /// The plan for voltages of axes `[F, P, D]`.
    pub fn builder(
        &self,
        voltages: &Path,
        [channels, polarisations, dishes]: [usize; 3],
    ) -> Result<Builder> {
        if self.dishes.len() != dishes {
            let reason = format!(
                "{} dishes: expected {dishes}, as the voltages of {} have",
                self.dishes.len(),
                voltages.display()
            );
            return Err(Error::file(&self.path, reason));
        }
        let mut plan = GridBeamformer::builder(self.rows, self.columns)
            .places(&self.dishes)
            .channels(channels)
            .polarisations(polarisations)
            .gain(self.gain.unwrap_or(1.0));
        if let Some(weights) = &self.weights {
            let of_stream = weights.iter().map(|&[re, im]| Complex::new(re, im));
            let streams = channels.saturating_mul(polarisations);
            let mut all = corrust::device::room(streams.saturating_mul(dishes))?;
            (0..streams).for_each(|_| all.extend(of_stream.clone()));
            plan = plan.weights(&all);
        }
        Ok(plan)
    }
}

/// The file that powers go to, which is written while the next are made.
pub struct Output(Behind<Option<GridBeams>, PowerFile>);

/// The file itself.
enum PowerFile {
    /// All beams, `[F][T'][2N][2M]`, and the number of `T'`.
    Npy(Writer, usize),
    /// The beam `[q, p]`.
    Fil(Box<Powers>, [usize; 2]),
}

impl Output {
    /// A NumPy file, or with an array a filterbank file of one of the chosen beams of `options`.
    pub fn create(
        path: &Path,
        shape: &Shape,
        times: u64,
        array: Option<&Array>,
        options: (&[usize], &Scaling),
    ) -> Result<Self> {
        let (file, shape) = (PowerFile::create(path, shape, times, array, options)?, *shape);
        let write = move |file: &mut PowerFile, beams: &mut Option<GridBeams>| {
            beams.take().map_or(Ok(()), |beams| file.write(&beams, &shape))
        };
        Ok(Self(Behind::new(file, write)?))
    }

    /// Writes the next beams.
    pub fn write(&mut self, beams: GridBeams) -> Result<()> {
        self.0.put(&mut Some(beams))
    }

    /// Completes the file of a recording of `times` times.
    pub fn finish(self, times: u64, block_times: usize) -> Result<()> {
        self.0.finish()?.finish(times, block_times)
    }
}

impl PowerFile {
    fn create(
        path: &Path,
        shape: &Shape,
        times: u64,
        array: Option<&Array>,
        (chosen, scaling): (&[usize], &Scaling),
    ) -> Result<Self> {
        let Shape { rows, columns, channels, block_times, half, .. } = *shape;
        if scaling.stokes.is_some() {
            return Err(Error::invalid(
                "--stokes with --grid, whose powers are of both polarisations together: expected one of them",
            ));
        }
        let Some(array) = array else {
            let blocks = times / block_times as u64;
            if blocks == 0 {
                return Err(Error::invalid(format!(
                    "--integrate {block_times}: the recording has only {times} times, expected at most as many"
                )));
            }
            let dtype = if half { Dtype::Float16 } else { Dtype::Float32 };
            let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
            let axes = [channels, blocks, 2 * columns, 2 * rows];
            return Ok(Self::Npy(Writer::with_shape(path, dtype, &axes)?, blocks));
        };
        let &[q, p] = chosen else {
            return Err(Error::file(
                path,
                format!(
                    "is to be a filterbank file of one beam: expected --beam Q,P, found {} numbers",
                    chosen.len()
                ),
            ));
        };
        if q >= 2 * columns || p >= 2 * rows {
            return Err(Error::invalid(format!(
                "--beam {q},{p}: expected q below {} and p below {}",
                2 * columns,
                2 * rows
            )));
        }
        let number = (q * 2 * rows + p + 1) as u32;
        let beam = Some((number, shape.beams() as u32));
        // Polarisations are added already.
        let of = Of { channels, times, summed: 1, encoding: SpectrumEncoding::Cf32, beam };
        let powers = Powers::create(path, array, &of, scaling)?;
        Ok(Self::Fil(Box::new(powers), [q, p]))
    }

    fn write(&mut self, beams: &GridBeams, shape: &Shape) -> Result<()> {
        match self {
            Self::Npy(writer, blocks) => {
                let row = beams.blocks() * shape.beams();
                let place = |channel: usize| {
                    (channel as u64 * *blocks as u64 + beams.first) * shape.beams() as u64
                };
                if row == 0 {
                    return Ok(());
                }
                const WHY: &str = "powers are in standard order";
                let bytes: &[u8] = match &beams.powers {
                    Values::F32(values) => bytemuck::cast_slice(values.as_slice().expect(WHY)),
                    Values::F16(values) => bytemuck::cast_slice(values.as_slice().expect(WHY)),
                };
                let rows = bytes.chunks_exact(bytes.len() / shape.channels);
                rows.enumerate().try_for_each(|(channel, row)| writer.write_at(place(channel), row))
            }
            Self::Fil(powers, [q, p]) => (0..beams.blocks()).try_for_each(|block| {
                for (channel, sum) in powers.sums.iter_mut().enumerate() {
                    *sum = f64::from(beams.powers.get(channel, block, *q, *p));
                }
                powers.advance(shape.block_times as u64)
            }),
        }
    }

    fn finish(self, times: u64, block_times: usize) -> Result<()> {
        let left = times % block_times as u64;
        match self {
            Self::Npy(writer, _) => {
                if left > 0 {
                    warn(format_args!(
                        "the last {left} of {times} times do not fill a block of {block_times} and are left out"
                    ));
                }
                writer.finish()
            }
            Self::Fil(mut powers, _) => {
                powers.advance(left)?;
                warn_of(std::slice::from_ref(&powers), times);
                powers.finish()
            }
        }
    }
}
