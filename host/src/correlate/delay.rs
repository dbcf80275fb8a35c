//! Whole-sample delays, one per input, that run on from block to block.

use rayon::prelude::*;

use super::Shape;
use crate::{Error, Layout, Result};

/// `x_i'[t] = x_i[t - s_i]`: a queue of the last `s_i` samples of every channel and input. What
/// would lie before the first sample of all is missing.
pub(super) struct DelayLine {
    queues: Queues,
    /// The queues of samples: `[channel]`, then `[input][time]` of differing lengths, oldest first.
    samples: Vec<u8>,
}

impl DelayLine {
    /// Delays of `shifts` samples, one per input, for blocks of `shape`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the shifts are so long that their history can't be kept in memory.
    pub(super) fn new(shape: &Shape, shifts: &[usize]) -> Result<Self> {
        let queues = Queues::new(shape, shifts);
        let samples = queues.fill(shape.encoding.zero().iter().copied())?;
        Ok(Self { queues, samples })
    }

    /// Puts a block through the delays. The missing samples of the block are already zero.
    pub(super) fn apply(&mut self, samples: &[u8]) -> Vec<u8> {
        match self.queues.shape.encoding.bytes() {
            1 => self.queues.advance(samples, &mut self.samples),
            2 => self.queues.advance_arrays::<2>(samples, &mut self.samples),
            _ => self.queues.advance_arrays::<4>(samples, &mut self.samples),
        }
    }
}

/// Which samples come out of the delays valid, wherever the samples themselves are delayed.
pub(super) struct DelayedFlags {
    queues: Queues,
    valid: Vec<bool>,
    /// Whether all of them are.
    complete: bool,
}

impl DelayedFlags {
    /// Flags of the samples that [`DelayLine::new`] delays.
    ///
    /// # Errors
    /// As there.
    pub(super) fn new(shape: &Shape, shifts: &[usize]) -> Result<Self> {
        let queues = Queues::new(shape, shifts);
        let valid = queues.fill([false].into_iter())?;
        Ok(Self { queues, valid, complete: false })
    }

    /// Puts the flags of a block of `times` times through the delays; without any, all are valid.
    pub(super) fn apply(&mut self, valid: Option<&[bool]>, times: usize) -> Option<Vec<bool>> {
        let everything;
        let valid = match valid {
            Some(valid) => valid,
            None if self.complete => return None,
            None => {
                let shape = &self.queues.shape;
                everything = vec![true; times * shape.channels * shape.inputs];
                &everything
            }
        };
        let delayed = self.queues.advance(valid, &mut self.valid);
        self.complete = self.valid.iter().all(|&valid| valid);
        Some(delayed)
    }
}

/// The shape of the queues, whatever they hold: samples or their flags.
struct Queues {
    shape: Shape,
    shifts: Vec<usize>,
    /// Where each input's queue starts in a channel's part of the history; one more entry than
    /// inputs: the last is the length of that part.
    starts: Vec<usize>,
}

impl Queues {
    fn new(shape: &Shape, shifts: &[usize]) -> Self {
        let mut starts = vec![0];
        let mut length: usize = 0;
        for &shift in shifts {
            length = length.saturating_add(shift);
            starts.push(length);
        }
        Self { shape: *shape, shifts: shifts.to_vec(), starts }
    }

    /// What the queues hold before the first block: `pattern` for each element, over and over.
    fn fill<E>(&self, pattern: impl ExactSizeIterator<Item = E> + Clone) -> Result<Vec<E>> {
        let length = self.starts[self.shape.inputs];
        let elements = length.saturating_mul(self.shape.channels).saturating_mul(pattern.len());
        let mut memory = Vec::new();
        if memory.try_reserve_exact(elements).is_err() {
            return Err(Error::invalid(format!(
                "time shifts of {length} samples in sum over all inputs: expected a history that \
                 fits in memory, found {elements} bytes"
            )));
        }
        memory.extend(pattern.cycle().take(elements));
        Ok(memory)
    }

    /// [`advance`](Self::advance) for samples of `B` bytes.
    fn advance_arrays<const B: usize>(&self, block: &[u8], history: &mut [u8]) -> Vec<u8> {
        let (block, history) = (block.as_chunks::<B>().0, history.as_chunks_mut::<B>().0);
        self.advance(block, history).into_flattened()
    }

    /// Returns `block` delayed, and leaves in `history` what comes out next.
    fn advance<E: Copy + Send + Sync>(&self, block: &[E], history: &mut [E]) -> Vec<E> {
        let Shape { channels, inputs, layout, .. } = self.shape;
        let times = block.len() / (channels * inputs);
        let strides = self.shape.strides(times);
        let length = self.starts[inputs];
        let queue = |channel: usize, input: usize| {
            channel * length + self.starts[input]..channel * length + self.starts[input + 1]
        };
        let place = |channel: usize, input: usize, time: usize| {
            time * strides.time + channel * strides.channel + input * strides.input
        };

        let mut delayed = block.to_vec();
        match layout {
            Layout::Tcn => {
                delayed.par_chunks_exact_mut(channels * inputs).enumerate().for_each(
                    |(time, row)| {
                        for (slot, element) in row.iter_mut().enumerate() {
                            let (channel, input) = (slot / inputs, slot % inputs);
                            *element = match time.checked_sub(self.shifts[input]) {
                                Some(source) => block[place(channel, input, source)],
                                None => history[queue(channel, input)][time],
                            };
                        }
                    },
                );
            }
            Layout::Cnt => {
                delayed.par_chunks_exact_mut(times.max(1)).enumerate().for_each(|(slot, row)| {
                    let (channel, input) = (slot / inputs, slot % inputs);
                    let old = self.shifts[input].min(times);
                    row[..old].copy_from_slice(&history[queue(channel, input)][..old]);
                    let first = place(channel, input, 0);
                    row[old..].copy_from_slice(&block[first..][..times - old]);
                });
            }
        }

        for channel in 0..channels {
            for input in 0..inputs {
                let queue = &mut history[queue(channel, input)];
                let arrived = queue.len().min(times);
                queue.copy_within(arrived.., 0);
                let kept = queue.len() - arrived;
                for (age, element) in queue[kept..].iter_mut().enumerate() {
                    *element = block[place(channel, input, times - arrived + age)];
                }
            }
        }
        delayed
    }
}
