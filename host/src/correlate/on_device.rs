//! Delays and gates of samples that are in a GPU's memory.

use std::sync::Arc;

use corrust_gpu::abi::reorder::{GATHER, Gather};

use super::gates::Lists;
use crate::{
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::{Buffer, DeviceSlice},
    },
    error::{Error, Result},
    layout::Layout,
    reorder::shift::{Output, Window},
    samples::{
        extents::{Element, Extents},
        shape::Shape,
        view::Samples,
    },
};

/// Selection of samples in a GPU's memory: the delays, and room for delayed and gated samples. Its
/// work is done in the order of one stream after the other.
pub(super) struct OnDevice {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    delays: Option<Delays>,
    /// Numbers of a gate's times, and its samples.
    numbers: Buffer,
    gathered: Buffer,
}

/// A window of samples, as [`abi::reorder::Shift`] describes it, moves on from block to block.
struct Delays {
    /// A u32 for each input, and the largest.
    shifts: Buffer,
    largest: usize,
    /// The last `largest` times, and room for those after the next block.
    history: Buffer,
    next: Buffer,
    delayed: Buffer,
}

impl OnDevice {
    /// Delays of `shifts` times, one per input or none at all.
    ///
    /// # Errors
    /// [`Error::Invalid`] for shifts that no block could hold; [`Error::OutOfMemory`] where the history
    /// has no room.
    pub(super) fn new(gpu: &Arc<dyn Gpu>, shape: &Shape, shifts: &[usize]) -> Result<Self> {
        let largest = shifts.iter().copied().max().unwrap_or(0);
        let delays = if largest == 0 {
            None
        } else {
            let bytes = largest.checked_mul(shape.bytes_per_time());
            let bytes = bytes.filter(|_| largest <= (u32::MAX / 8) as usize).ok_or_else(|| {
                Error::invalid(format!(
                    "a time shift of {largest}: expected at most {}",
                    u32::MAX / 8
                ))
            })?;
            let words: Vec<u32> = shifts.iter().map(|&shift| shift as u32).collect();
            let delays = Delays {
                shifts: Buffer::new(gpu, 4 * words.len())?,
                largest,
                history: Buffer::new(gpu, bytes)?,
                next: Buffer::new(gpu, bytes)?,
                delayed: Buffer::new(gpu, 0)?,
            };
            delays.shifts.upload(Stream::default(), &words)?;
            let rows = Rows::one(bytes);
            // SAFETY: the history's own bytes.
            unsafe {
                let zero = shape.encoding.zero()[0];
                gpu.set_rows(Stream::default(), delays.history.address(), &rows, zero)?;
            }
            Some(delays)
        };
        Ok(Self {
            gpu: gpu.clone(),
            shape: *shape,
            delays,
            numbers: Buffer::new(gpu, 0)?,
            gathered: Buffer::new(gpu, 0)?,
        })
    }

    /// Whether there are delays.
    pub(super) fn delays(&self) -> bool {
        self.delays.is_some()
    }

    /// Delays samples without gaps, and keeps the history for the next call.
    pub(super) fn delay(&mut self, samples: &Samples<'static>) -> Result<Samples<'static>> {
        let stream = samples.on_device().1;
        let times = samples.extents().times;
        let Some(delays) = &mut self.delays else { return Ok(*samples) };
        let step = self.shape.bytes_per_time();
        delays.delayed.reserve(times * step)?;
        let window = Window {
            layout: self.shape.layout,
            history: made(&self.shape, delays.history.address(), delays.largest, stream),
            block: *samples,
        };
        let (largest, shifts) = (delays.largest, delays.shifts.address());
        let delayed = Output {
            first: largest,
            times,
            shifts: Some((shifts, largest)),
            address: delays.delayed.address(),
        };
        let history =
            Output { first: times, times: largest, shifts: None, address: delays.next.address() };
        for output in [delayed, history] {
            let kernel = window.kernels(&self.gpu, &output)[0];
            // SAFETY: the window and the outputs have the shape's sizes, and no shift exceeds the largest.
            unsafe { kernel.launch(&self.gpu, stream)? };
        }
        std::mem::swap(&mut delays.history, &mut delays.next);
        let address = delays.delayed.address();
        Ok(made(&self.shape, address, times, stream))
    }

    /// The times of a gate, at least one, of samples without gaps; where channels have lists of their own, zero for what
    /// the shorter ones lack.
    pub(super) fn gather(
        &mut self,
        samples: &Samples<'static>,
        lists: &Lists,
    ) -> Result<Samples<'static>> {
        let (address, stream) = samples.on_device();
        let Shape { inputs, channels, encoding, layout } = self.shape;
        let own = lists.times.len() > 1;
        let step = self.shape.bytes_per_time();
        let (rows, parts, rows_of_list) = match layout {
            Layout::Tcn => (1, if own { channels } else { 1 }, 1),
            Layout::Cnt => (channels * inputs, 1, if own { inputs } else { channels * inputs }),
        };
        let run = step / (rows * parts);
        let (numbers, chosen) = (lists.padded(), lists.longest());
        self.numbers.reserve(4 * numbers.len())?;
        self.numbers.upload(stream, &numbers)?;
        self.gathered.reserve(step * chosen)?;
        let parameters = Gather {
            source: address,
            gathered: self.gathered.address(),
            numbers: self.numbers.address(),
            rows: rows as u32,
            times: samples.extents().times as u32,
            chosen: chosen as u32,
            parts: parts as u32,
            rows_of_list: rows_of_list as u32,
            run: run as u32,
            zero: u32::from(encoding.zero()[0]) * 0x0101_0101,
            reserved: 0,
        };
        let runs = (rows * parts * chosen).saturating_mul(run / 4 + 1);
        let blocks = runs.div_ceil(GATHER.entry.threads as usize).min(1 << 16);
        // SAFETY: the numbers are below the samples' times, or none, and the gathered samples have room.
        unsafe { self.gpu.launch(stream, &GATHER, blocks as u32, &parameters)? };
        Ok(made(&self.shape, self.gathered.address(), chosen, stream))
    }
}

/// Samples in a buffer of [`OnDevice`].
fn made(shape: &Shape, address: u64, times: usize, stream: Stream) -> Samples<'static> {
    let Shape { inputs, channels, layout, encoding } = *shape;
    // SAFETY: the buffer has room for them and is changed by later work on this stream, or on one that
    // waits for it.
    let slice = unsafe { DeviceSlice::from_raw(address, times * shape.bytes_per_time(), stream) };
    let extents = Extents { channels, inputs, times };
    let element = if encoding.is_bits() { Element::Word } else { encoding.into() };
    Samples::dense(slice.into(), element, layout, extents)
}
