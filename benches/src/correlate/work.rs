//! The correlator's work: samples fed, sums checked.

use std::{rc::Rc, sync::Arc};

use bytemuck::Pod;
use corrust_host::{
    Correlator, Result,
    correlate::{Shape, Visibilities, baselines},
    device::{Buffer, DeviceSlice, Gpu, Stream},
    samples::{Missing, Samples},
};
use ndarray::{Array2, Axis};
use num_complex::Complex;

use crate::{case::Work, data::SampleMemory};

/// Runs that add to the sums of those before.
pub(super) const ADDING: &str = "adding";
/// Runs of integrations, dumps included.
pub(super) const WHOLE: &str = "integration";
/// Least times of such an integration.
pub(super) const WHOLE_TIMES: usize = 98_304;

/// Sums before and after a run.
pub(super) enum Sums {
    /// Starts anew.
    Fresh,
    /// Adds to the sums of the runs before.
    Added,
    /// Starts anew, feeds the samples `calls` times and dumps the sums to device memory.
    Dumped { calls: usize, room: Option<Buffer> },
}

impl Sums {
    /// Number of times that a run feeds the samples.
    pub(super) fn calls(&self) -> usize {
        match self {
            Self::Fresh | Self::Added => 1,
            Self::Dumped { calls, .. } => *calls,
        }
    }
}

/// A correlation of the same samples, again and again.
pub(super) struct Correlating {
    pub(super) plan: Correlator,
    pub(super) source: SampleMemory,
    pub(super) sums: Sums,
    pub(super) channels: usize,
    pub(super) times: usize,
    pub(super) missing: Vec<Missing>,
    /// Visibilities of the first and the last channel.
    pub(super) expected: Rc<Visibilities>,
}

impl Correlating {
    /// Number of runs whose added sums are compared with the CPU's.
    const ADDED: usize = 3;

    /// The visibilities of the first and the last channel: to bring all of them from a GPU takes longer than
    /// many runs.
    fn ends(&mut self) -> Result<Visibilities> {
        let ends = [0, self.channels - 1];
        let Some(gpu) = self.plan.gpu().cloned() else {
            return Ok(match self.plan.dump()?.visibilities {
                Visibilities::Integer(sums) => Visibilities::Integer(sums.select(Axis(0), &ends)),
                Visibilities::Float(sums) => Visibilities::Float(sums.select(Axis(0), &ends)),
            });
        };
        let mut fresh = None;
        let room = match &self.sums {
            Sums::Dumped { room, .. } => room.as_ref().expect("a run made it"),
            _ => dump_device(&mut self.plan, &gpu, &mut fresh)?,
        };
        let baselines = baselines(self.plan.shape().inputs);
        Ok(match self.plan.shape().encoding.is_integer() {
            true => Visibilities::Integer(rows(&gpu, room, ends, baselines)?),
            false => Visibilities::Float(rows(&gpu, room, ends, baselines)?),
        })
    }

    /// Adds the samples to the sums.
    fn feed(&mut self) -> Result<()> {
        match &self.source {
            SampleMemory::Device(ring) => {
                let shape = *self.plan.shape();
                let Shape { channels, encoding, layout, .. } = shape;
                let bytes = self.times / encoding.times() * shape.bytes_per_time();
                // SAFETY: the ring holds the samples as long as the plan.
                let slice = unsafe { DeviceSlice::from_raw(ring.next(), bytes, Stream::default()) };
                let samples = Samples::new(slice, shape.inputs, channels, encoding, layout)?;
                self.plan.accumulate(samples.missing(&self.missing))
            }
            SampleMemory::Host(samples) => {
                self.plan.accumulate(&samples[..])?;
                self.plan.wait()
            }
            SampleMemory::Locked(samples) => {
                self.plan.accumulate(&**samples)?;
                self.plan.wait()
            }
        }
    }
}

/// Dumps the visibilities of all channels into device memory, reserved if need be.
fn dump_device<'a>(
    plan: &mut Correlator,
    gpu: &Arc<dyn Gpu>,
    room: &'a mut Option<Buffer>,
) -> Result<&'a Buffer> {
    let Shape { inputs, channels, encoding, .. } = *plan.shape();
    let exact = encoding.is_integer();
    let size = if exact { size_of::<Complex<i64>>() } else { size_of::<Complex<f32>>() };
    let room = match room {
        Some(room) => room,
        none => none.insert(Buffer::new(gpu, channels * baselines(inputs) * size)?),
    };
    match exact {
        true => plan.dump_device(room.slice_mut::<Complex<i64>>())?,
        false => plan.dump_device(room.slice_mut::<Complex<f32>>())?,
    };
    Ok(room)
}

/// Some rows of as many values in device memory.
fn rows<T: Pod>(
    gpu: &Arc<dyn Gpu>,
    room: &Buffer,
    numbers: [usize; 2],
    length: usize,
) -> Result<Array2<T>> {
    let mut values = vec![T::zeroed(); numbers.len() * length];
    for (row, number) in values.chunks_exact_mut(length).zip(numbers) {
        let bytes = bytemuck::cast_slice_mut(row);
        let address = room.address() + (number * bytes.len()) as u64;
        // SAFETY: the room has this row.
        unsafe { gpu.download(Stream::default(), address, bytes)? };
    }
    Ok(Array2::from_shape_vec((numbers.len(), length), values).expect("rows of that length"))
}

impl Work for Correlating {
    fn run(&mut self) -> Result<()> {
        // Ends an integration before it grows past 2^32 time samples.
        if !matches!(self.sums, Sums::Added) || self.plan.times() > 1 << 32 {
            self.plan.reset();
        }
        (0..self.sums.calls()).try_for_each(|_| self.feed())?;
        if let (Sums::Dumped { room, .. }, Some(gpu)) = (&mut self.sums, self.plan.gpu().cloned()) {
            dump_device(&mut self.plan, &gpu, room)?;
        }
        Ok(())
    }

    /// Exactly, or to a thousandth for `cf16`.
    fn check(&mut self) -> Result<bool> {
        let mut runs = self.sums.calls();
        if matches!(self.sums, Sums::Added) {
            runs = Self::ADDED;
            self.plan.reset();
            (0..runs).try_for_each(|_| self.run())?;
        }
        Ok(match (&self.ends()?, &*self.expected) {
            (Visibilities::Integer(found), Visibilities::Integer(expected)) => {
                *found == expected.mapv(|sum| sum * runs as i64)
            }
            (Visibilities::Float(found), Visibilities::Float(expected)) => {
                let expected = expected.mapv(|sum| sum * runs as f32);
                let norm = |values: &Array2<Complex<f32>>| {
                    values.iter().map(|value| f64::from(value.norm_sqr())).sum::<f64>().sqrt()
                };
                norm(&(found - &expected)) <= 1e-3 * norm(&expected)
            }
            _ => false,
        })
    }
}
