//! Whole-sample delays, one per input, that run on from block to block.

use rayon::prelude::*;

use crate::{
    error::{Error, Result},
    layout::Layout,
    samples::{
        extents::{Element, Extents, Strides},
        shape::Shape,
    },
};

/// `x_i'[t] = x_i[t - s_i]`: a queue of the last `s_i` samples of every channel and input. What
/// would lie before the first sample of all is missing.
pub(super) struct DelayLine {
    shape: Shape,
    shifts: Vec<usize>,
    /// Start of each input's queue in a channel's part of the history; one more entry than
    /// inputs: the last is the length of that part.
    starts: Vec<usize>,
    /// The queues of samples: `[channel]`, then `[input][time]` of differing lengths, oldest first.
    history: Vec<u8>,
}

impl DelayLine {
    /// Delays of `shifts` samples, one per input, for blocks of `shape`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the shifts are so long that their history can't be kept in memory.
    pub(super) fn new(shape: &Shape, shifts: &[usize]) -> Result<Self> {
        let mut starts = vec![0];
        let mut length: usize = 0;
        for &shift in shifts {
            length = length.saturating_add(shift);
            starts.push(length);
        }
        let zero = shape.encoding.zero();
        let bytes = length.saturating_mul(shape.channels).saturating_mul(zero.len());
        let mut history = Vec::new();
        if history.try_reserve_exact(bytes).is_err() {
            return Err(Error::invalid(format!(
                "time shifts of {length} samples in sum over all inputs: expected a history that \
                 fits in memory, found {bytes} bytes"
            )));
        }
        history.resize(bytes, zero[0]);
        Ok(Self { shape: *shape, shifts: shifts.to_vec(), starts, history })
    }

    /// Puts a block through the delays. The missing samples of the block are already zero.
    pub(super) fn apply(&mut self, samples: &[u8]) -> Vec<u8> {
        let mut history = std::mem::take(&mut self.history);
        let delayed = match self.shape.encoding.bytes() {
            1 => self.advance(samples, &mut history),
            2 => self.advance_arrays::<2>(samples, &mut history),
            _ => self.advance_arrays::<4>(samples, &mut history),
        };
        self.history = history;
        delayed
    }

    /// [`advance`](Self::advance) for samples of `B` bytes.
    fn advance_arrays<const B: usize>(&self, block: &[u8], history: &mut [u8]) -> Vec<u8> {
        let (block, history) = (block.as_chunks::<B>().0, history.as_chunks_mut::<B>().0);
        self.advance(block, history).into_flattened()
    }

    /// Returns `block` delayed, and leaves in `history` the samples that come out next.
    fn advance<E: Copy + Send + Sync>(&self, block: &[E], history: &mut [E]) -> Vec<E> {
        let Shape { channels, inputs, layout, .. } = self.shape;
        let times = block.len() / (channels * inputs);
        let extents = Extents { channels, inputs, times };
        // Counted in samples.
        let strides = Strides::dense(layout, extents, Element::Count);
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
