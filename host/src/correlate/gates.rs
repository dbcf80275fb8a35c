//! Gate numbers of times, the same for all channels or each channel's own.

use std::ops::Range;

use corrust_gpu::abi::reorder::NO_TIME;
use rayon::prelude::*;

use crate::error::{Error, Result};

/// The gate number of a time sample that belongs to no gate.
pub const DROP: u8 = 255;

/// Gate numbers of consecutive times, in host memory: one for each time, or `[channel][time]` where a pulse comes
/// later at lower frequencies. [`DROP`] belongs to no gate.
///
/// ```
/// use corrust_host::{Correlator, Device, correlate::Gates};
///
/// let mut correlator = Correlator::builder(1, 2).device(Device::Cpu).gates(2).build()?;
/// let samples: [[[i8; 2]; 2]; 3] = [[[1, 0], [1, 0]], [[2, 0], [2, 0]], [[4, 0], [4, 0]]];
/// // The second channel is a time behind the first.
/// correlator.accumulate_gated(&samples, Gates::by_channel(&[0, 1, 1, 0, 0, 1], 2)?)?;
/// let dumps = correlator.dump_gates()?;
/// let sums = dumps[1].visibilities.integer().unwrap();
/// assert_eq!((sums[[0, 0]].re, sums[[1, 0]].re), (4 + 16, 16));
/// assert_eq!((dumps[1].valid.get(0, 0), dumps[1].valid.get(1, 0)), (2, 1));
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gates<'a> {
    numbers: &'a [u8],
    times: usize,
    /// Numbers from one channel to the next; 0 where all have the same.
    stride: usize,
}

impl<'a> Gates<'a> {
    /// Numbers `[channel][time]` of `channels` channels.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they are not as many for each channel.
    pub fn by_channel(numbers: &'a [u8], channels: usize) -> Result<Self> {
        if channels == 0 || !numbers.len().is_multiple_of(channels) {
            return Err(Error::invalid(format!(
                "{} gate numbers of {channels} channels: expected as many for each channel",
                numbers.len()
            )));
        }
        let times = numbers.len() / channels;
        // One channel, and no time at all, are as if there were no channels.
        let stride = if channels == 1 { 0 } else { times };
        Ok(Self { numbers, times, stride })
    }

    /// Times that they are of.
    pub fn len(&self) -> usize {
        self.times
    }

    /// Whether they are of no time.
    pub fn is_empty(&self) -> bool {
        self.times == 0
    }

    /// Whether channels have numbers of their own.
    pub fn differ_by_channel(&self) -> bool {
        self.stride > 0
    }

    /// The numbers of a channel.
    pub fn of(&self, channel: usize) -> &'a [u8] {
        &self.numbers[channel * self.stride..][..self.times]
    }

    /// Gates of a range of time samples.
    pub(super) fn times(self, times: Range<usize>) -> Self {
        // The end of the last channel's numbers stays.
        Self { numbers: &self.numbers[times.start..], times: times.len(), ..self }
    }

    /// Gates of a range of channels.
    pub(super) fn channels(self, channels: Range<usize>) -> Self {
        let numbers = &self.numbers[channels.start * self.stride..];
        if channels.len() == 1 {
            return Self { numbers, stride: 0, ..self };
        }
        Self { numbers, ..self }
    }

    /// The one number of all channels at some times, at least one.
    pub(super) fn one(&self, times: Range<usize>, channels: usize) -> Option<u8> {
        let gate = self.numbers[times.start];
        let channels = if self.differ_by_channel() { channels } else { 1 };
        let all = |channel| self.of(channel)[times.clone()].iter().all(|&number| number == gate);
        (0..channels).all(all).then_some(gate)
    }

    /// The times of each gate: of every channel where they differ, else of all.
    pub(super) fn lists(&self, gates: usize, channels: usize) -> Vec<Lists> {
        let own = if self.differ_by_channel() { channels } else { 1 };
        let list = |channel: usize| {
            let mut times = vec![Vec::new(); gates];
            for (time, &gate) in (0_u32..).zip(self.of(channel)) {
                if gate != DROP {
                    times[usize::from(gate)].push(time);
                }
            }
            times
        };
        let mut of_channels: Vec<Vec<Vec<u32>>> = (0..own).into_par_iter().map(list).collect();
        let of_gate = |gate: usize| Lists {
            times: of_channels.iter_mut().map(|lists| std::mem::take(&mut lists[gate])).collect(),
        };
        (0..gates).map(of_gate).collect()
    }

    /// Checks the gates for `times` time samples and `channels` channels of a plan with `gates` gates.
    pub(super) fn check(&self, times: usize, channels: usize, gates: usize) -> Result<()> {
        let own = if self.differ_by_channel() { channels } else { 1 };
        let found = self.numbers.len();
        if self.times != times || found != own * times {
            let each = if own > 1 { " and channel" } else { "" };
            return Err(Error::invalid(format!(
                "{found} gate numbers: expected {}, one per time{each}",
                own * times
            )));
        }
        let wrong = |&gate: &u8| gate != DROP && usize::from(gate) >= gates;
        let Some(at) = self.numbers.par_iter().position_first(wrong) else { return Ok(()) };
        let channel = if own > 1 { format!(" of channel {}", at / times) } else { String::new() };
        Err(Error::invalid(format!(
            "gate number {} at time {}{channel}: expected one below {gates}, or {DROP} to drop the time",
            self.numbers[at],
            at % times
        )))
    }
}

impl<'a> From<&'a [u8]> for Gates<'a> {
    fn from(numbers: &'a [u8]) -> Self {
        Self { numbers, times: numbers.len(), stride: 0 }
    }
}

impl<'a> From<&'a Vec<u8>> for Gates<'a> {
    fn from(numbers: &'a Vec<u8>) -> Self {
        numbers[..].into()
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Gates<'a> {
    fn from(numbers: &'a [u8; N]) -> Self {
        numbers[..].into()
    }
}

/// The times of a gate, ascending: one list for all channels, or one for each.
pub(super) struct Lists {
    pub(super) times: Vec<Vec<u32>>,
}

impl Lists {
    /// Times of the channel that has most.
    pub(super) fn longest(&self) -> usize {
        self.times.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The lists one after the other, each as long as the longest: [`NO_TIME`] stands for a sample of zero.
    pub(super) fn padded(&self) -> Vec<u32> {
        let longest = self.longest();
        let mut padded = Vec::with_capacity(longest * self.times.len());
        for times in &self.times {
            padded.extend_from_slice(times);
            padded.resize(padded.len() + longest - times.len(), NO_TIME);
        }
        padded
    }
}
