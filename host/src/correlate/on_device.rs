//! Delays and gates of samples that are in a GPU's memory.

use std::sync::Arc;

use corrust_gpu::abi::reorder::{GATHER, Gather};

use super::Shape;
use crate::{
    Error, Layout, Result,
    device::{Buffer, Gpu, Stream},
    shift::{self, Window},
};

/// Most bytes of host samples that are brought to the device at once.
const PIECE_BYTES: usize = 1 << 28;

/// What selects samples in a GPU's memory: the delays, and room for what they and the gates give.
pub(super) struct OnDevice {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    delays: Option<Delays>,
    /// Samples from host memory.
    source: Buffer,
    /// Numbers of a gate's times, and its samples.
    numbers: Buffer,
    gathered: Buffer,
    /// The stream of the last launch, which the next must wait for.
    last: Stream,
}

/// Samples in device memory.
#[derive(Clone, Copy)]
pub(super) struct Samples {
    pub(super) address: u64,
    pub(super) times: usize,
    pub(super) stream: Stream,
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
    pub(super) fn new(gpu: Arc<dyn Gpu>, shape: &Shape, shifts: &[usize]) -> Result<Self> {
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
                shifts: Buffer::new(&gpu, 4 * words.len())?,
                largest,
                history: Buffer::new(&gpu, bytes)?,
                next: Buffer::new(&gpu, bytes)?,
                delayed: Buffer::new(&gpu, 0)?,
            };
            delays.shifts.upload(Stream::default(), &words)?;
            if shape.encoding.zero().iter().all(|&byte| byte == 0) {
                delays.history.clear(Stream::default())?;
            } else {
                let zero = shape.encoding.zero().iter().copied().cycle();
                delays.history.upload(Stream::default(), &zero.take(bytes).collect::<Vec<_>>())?;
            }
            Some(delays)
        };
        let empty = || Buffer::new(&gpu, 0);
        Ok(Self {
            shape: *shape,
            delays,
            source: empty()?,
            numbers: empty()?,
            gathered: empty()?,
            last: Stream::default(),
            gpu,
        })
    }

    /// Times of host samples that are brought to the device at once.
    pub(super) fn piece_times(&self) -> usize {
        (PIECE_BYTES / self.shape.bytes_per_time()).max(1)
    }

    /// Brings host samples to the device.
    pub(super) fn upload(&mut self, samples: &[u8], times: usize) -> Result<Samples> {
        let stream = self.last;
        self.source.reserve(samples.len())?;
        self.source.upload(stream, samples)?;
        Ok(Samples { address: self.source.address(), times, stream })
    }

    /// Samples delayed, and what is left of them kept for the next.
    pub(super) fn delay(&mut self, samples: Samples) -> Result<Samples> {
        self.order(samples.stream)?;
        let Some(delays) = &mut self.delays else { return Ok(samples) };
        let step = self.shape.bytes_per_time();
        delays.delayed.reserve(samples.times * step)?;
        let Shape { inputs, channels, layout, encoding } = self.shape;
        let window = Window {
            layout,
            sample_bytes: encoding.bytes(),
            inputs,
            channels,
            history_times: delays.largest,
            history: delays.history.address(),
            times: samples.times,
            block: samples.address,
        };
        let (largest, shifts) = (delays.largest, delays.shifts.address());
        let delayed = shift::Output {
            first: largest,
            times: samples.times,
            shifts: Some((shifts, largest)),
            address: delays.delayed.address(),
        };
        let history = shift::Output {
            first: samples.times,
            times: largest,
            shifts: None,
            address: delays.next.address(),
        };
        for output in [delayed, history] {
            let variant = shift::Variant::of(&self.gpu, &window, &output)[0];
            // SAFETY: the window and the outputs are those of the shape, the shifts at most the largest.
            unsafe { variant.launch(&self.gpu, samples.stream, &window, &output)? };
        }
        std::mem::swap(&mut delays.history, &mut delays.next);
        Ok(Samples { address: delays.delayed.address(), ..samples })
    }

    /// The times `chosen` of samples.
    pub(super) fn gather(&mut self, samples: Samples, chosen: &[usize]) -> Result<Samples> {
        self.order(samples.stream)?;
        let element = self.shape.encoding.bytes();
        let (rows, run) = match self.shape.layout {
            Layout::Tcn => (1, self.shape.bytes_per_time()),
            Layout::Cnt => (self.shape.channels * self.shape.inputs, element),
        };
        let numbers: Vec<u32> = chosen.iter().map(|&time| time as u32).collect();
        self.numbers.reserve(4 * numbers.len())?;
        self.numbers.upload(samples.stream, &numbers)?;
        self.gathered.reserve(rows * run * chosen.len())?;
        let parameters = Gather {
            source: samples.address,
            gathered: self.gathered.address(),
            numbers: self.numbers.address(),
            rows: rows as u32,
            times: samples.times as u32,
            chosen: chosen.len() as u32,
            run: run as u32,
        };
        let runs = (rows * chosen.len()).saturating_mul(run / 4 + 1);
        let blocks = runs.div_ceil(GATHER.entry.threads as usize).min(1 << 16);
        // SAFETY: the numbers are below the samples' times, and the gathered samples have room.
        unsafe { self.gpu.launch(samples.stream, &GATHER, blocks as u32, &parameters)? };
        Ok(Samples { address: self.gathered.address(), times: chosen.len(), ..samples })
    }

    /// Makes `stream` wait for what used the buffers before.
    fn order(&mut self, stream: Stream) -> Result<()> {
        if self.last != stream {
            self.gpu.order(self.last, stream)?;
            self.last = stream;
        }
        Ok(())
    }
}
