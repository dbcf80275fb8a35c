//! Counts of the samples behind each visibility.
//!
//! The samples behind each baseline, `sum_t valid_i[t] and valid_j[t]`, are counted from the ranges that
//! are missing: at a baseline of a channel as many as at input i, and at input j, less those at both.

use std::{collections::HashMap, ops::Range};

use rayon::prelude::*;

use super::{
    baseline_counts::{BaselineCounts, Pairs},
    gates::Gates,
    scattered::Scattered,
    visibilities::ValidCounts,
};
use crate::samples::{missing::Missing, shape::Shape};

/// Delays the gaps of missing samples with their inputs.
pub(super) struct DelayedGaps {
    shifts: Vec<usize>,
    largest: usize,
    /// Gaps that delayed samples may still meet; time samples are counted from `largest` before the next block's first.
    gaps: Vec<Missing>,
}

impl DelayedGaps {
    /// Delays of `shifts` times, one per input; what lies before the first sample is missing.
    pub(super) fn new(shifts: &[usize]) -> Self {
        let largest = shifts.iter().copied().max().unwrap_or(0);
        let before = (largest > 0).then(|| Missing::times(0..largest));
        Self { shifts: shifts.to_vec(), largest, gaps: before.into_iter().collect() }
    }

    /// The longest delay.
    pub(super) fn longest(&self) -> usize {
        self.largest
    }

    /// Gaps of a block of `times` time samples once it is delayed, from its gaps as it comes.
    pub(super) fn apply(
        &mut self,
        gaps: impl Iterator<Item = Missing>,
        times: usize,
    ) -> Vec<Missing> {
        let largest = self.largest;
        self.gaps.extend(gaps.map(|gap| Missing {
            times: gap.times.start.saturating_add(largest)..gap.times.end.saturating_add(largest),
            ..gap
        }));
        let mut delayed = Vec::new();
        for gap in &self.gaps {
            let inputs = gap.inputs.start..gap.inputs.end.min(self.shifts.len());
            let mut first = inputs.start;
            // Neighbours that are delayed alike stay together.
            for alike in self.shifts[inputs].chunk_by(|a, b| a == b) {
                let last = first + alike.len();
                let early = largest - alike[0];
                let start = gap.times.start.saturating_sub(early);
                let end = gap.times.end.saturating_sub(early).min(times);
                if start < end {
                    let channels = gap.channels.clone();
                    delayed.push(Missing { times: start..end, channels, inputs: first..last });
                }
                first = last;
            }
        }
        for gap in &mut self.gaps {
            let [start, end] =
                [gap.times.start, gap.times.end].map(|time| time.saturating_sub(times));
            gap.times = start..end;
        }
        self.gaps.retain(|gap| !gap.times.is_empty());
        delayed
    }
}

/// Counts the valid samples behind each baseline of a gate's integration.
#[derive(Default)]
pub(super) struct Counter {
    /// All times of the integration at which all channels belong to the same gate.
    times: u64,
    /// Time samples at which all inputs of all channels are missing, of blocks that miss nothing else.
    lost: u64,
    /// The same for each channel, of blocks whose channels have gates of their own.
    channels: Option<Vec<OfChannel>>,
    /// Time samples at which one input of a baseline or the other is missing, of the other blocks: sums of some blocks, each of
    /// fewer and with a smaller table than the one before; the binary logarithm of the number of blocks, rounded up.
    lost_each: Vec<(u32, BaselineCounts)>,
    /// Others of these, of each channel.
    scattered: Vec<Scattered>,
}

/// Counts of a channel, by [`Counter`].
#[derive(Clone, Copy, Default)]
struct OfChannel {
    times: u64,
    lost: u64,
}

impl Counter {
    /// Counts a block of `times` times, of which those whose number is `gate` belong to the gate.
    pub(super) fn add(
        &mut self,
        shape: &Shape,
        gaps: &[Missing],
        (numbers, gate): (Option<Gates<'_>>, usize),
        times: usize,
    ) {
        let apart = numbers.is_some_and(|numbers| numbers.differ_by_channel());
        let of_gate = |channel: usize, range: Range<usize>| match numbers {
            None => range.len() as u64,
            Some(numbers) => {
                let numbers = &numbers.of(channel)[range];
                numbers.iter().filter(|&&number| usize::from(number) == gate).count() as u64
            }
        };
        let whole = |gap: &Missing| {
            let all = |range: &Range<usize>, count| range.start == 0 && range.end >= count;
            all(&gap.channels, shape.channels) && all(&gap.inputs, shape.inputs)
        };
        let whole = gaps.iter().all(whole);
        let lost = if whole { join(gaps.iter().map(|gap| gap.times.clone())) } else { Vec::new() };
        let lost_of =
            |channel| lost.iter().map(|range| of_gate(channel, range.clone())).sum::<u64>();
        if apart {
            let none = || vec![OfChannel::default(); shape.channels];
            let channels = self.channels.get_or_insert_with(none);
            channels.par_iter_mut().enumerate().for_each(|(channel, counts)| {
                counts.times += of_gate(channel, 0..times);
                counts.lost += lost_of(channel);
            });
        } else {
            self.times += of_gate(0, 0..times);
            self.lost += lost_of(0);
        }
        if !whole {
            self.add_each(shape, gaps, (numbers, gate), times);
        }
    }

    /// Counts what gaps of some inputs or channels take.
    fn add_each(
        &mut self,
        shape: &Shape,
        gaps: &[Missing],
        (numbers, gate): (Option<Gates<'_>>, usize),
        times: usize,
    ) {
        // Number of time samples of the gate before each time sample: a range's count is a difference.
        let before = |channel| {
            let mut before = Vec::with_capacity(times + 1);
            before.push(0_u64);
            let numbers = numbers.map(|numbers| numbers.of(channel));
            for time in 0..times {
                let counts = numbers.is_none_or(|numbers| usize::from(numbers[time]) == gate);
                before.push(before[time] + u64::from(counts));
            }
            before
        };
        let apart = numbers.is_some_and(|numbers| numbers.differ_by_channel());
        let of_all = (!apart).then(|| before(0));
        // Channels between two edges of gaps miss the same, where they belong to the same gates.
        let edges = gaps.iter().flat_map(|gap| [gap.channels.start, gap.channels.end]);
        let mut edges: Vec<usize> = edges.chain([0, shape.channels]).collect();
        if apart {
            edges.extend(0..shape.channels);
        }
        edges.retain(|&edge| edge <= shape.channels);
        edges.sort_unstable();
        edges.dedup();
        let mut of_parts = vec![Vec::new(); edges.len() - 1];
        for gap in gaps {
            let place = |channel| edges.partition_point(|&edge| edge < channel);
            let last = place(gap.channels.end).min(of_parts.len());
            of_parts[place(gap.channels.start).min(last)..last]
                .iter_mut()
                .for_each(|part| part.push(gap));
        }
        if let Some(before) = &of_all {
            self.scattered.resize_with(shape.channels, Scattered::default);
            for (channels, gaps) in edges.windows(2).zip(&mut of_parts) {
                // Channels that are alike share a table.
                let is_one = channels[1] - channels[0] == 1;
                if is_one && self.scattered[channels[0]].add(gaps, shape.inputs, before) {
                    gaps.clear();
                }
            }
        }
        if of_parts.iter().all(Vec::is_empty) {
            return;
        }
        let parts = edges.par_windows(2).zip(&of_parts).map(|(channels, gaps)| {
            let own = of_all.is_none().then(|| before(channels[0]));
            let before = own.as_ref().or(of_all.as_ref()).expect("one of them");
            (channels[1], lost(gaps, shape.inputs, before))
        });
        let lost = BaselineCounts::from_parts(shape.inputs, parts.collect::<Vec<_>>());
        // Blocks miss few inputs each, together many: sums of as many blocks are added, so that most sums are small tables.
        let mut sum = (0, lost);
        let joined = |(log2_blocks, before): &(u32, BaselineCounts),
                      sum: &(u32, BaselineCounts)| {
            *log2_blocks == sum.0 || before.held() <= sum.1.held()
        };
        while let Some((log2_blocks, mut before)) =
            self.lost_each.pop_if(|before| joined(before, &sum))
        {
            before.add(&sum.1);
            sum = (log2_blocks.max(sum.0) + 1, before);
        }
        self.lost_each.push(sum);
    }

    /// The times of the integration, of channels that differ those of the channel that has most, and the valid
    /// samples among them.
    pub(super) fn finish(self, shape: &Shape) -> (u64, ValidCounts) {
        let rest = self.times - self.lost;
        let scattered = scattered(shape, self.scattered);
        let sums = self.lost_each.into_iter().map(|(_, sum)| sum).rev();
        let sums = scattered.into_iter().chain(sums);
        let lost_each = sums.reduce(|small, mut large| {
            large.add(&small);
            large
        });
        let Some(channels) = self.channels else {
            let valid = match lost_each {
                None => ValidCounts::Complete(rest),
                Some(lost) => ValidCounts::Each(lost.map(|_, lost| rest - lost, false)),
            };
            return (self.times, valid);
        };
        let most = channels.iter().map(|channel| channel.times).max().unwrap_or(0);
        let none = || BaselineCounts::zero(shape.channels, shape.inputs);
        let of = |channel: usize| rest + channels[channel].times - channels[channel].lost;
        let valid = lost_each.unwrap_or_else(none).map(|channel, lost| of(channel) - lost, true);
        (self.times + most, ValidCounts::Each(valid))
    }
}

/// Counts of all channels, if any lost something.
fn scattered(shape: &Shape, of_channels: Vec<Scattered>) -> Option<BaselineCounts> {
    let pairs = of_channels.into_par_iter().map(|lost| lost.finish(shape.inputs));
    let pairs: Vec<Option<Pairs>> = pairs.collect();
    if pairs.iter().all(Option::is_none) {
        return None;
    }
    let mut parts: Vec<(usize, Option<Pairs>)> = Vec::new();
    for (end, pairs) in (1..).zip(pairs) {
        match parts.last_mut() {
            // Channels that lost nothing stay together.
            Some((last, None)) if pairs.is_none() => *last = end,
            _ => parts.push((end, pairs)),
        }
    }
    let none = || Pairs::new(vec![0; shape.inputs], |_, _| 0);
    let parts = parts.into_iter().map(|(end, pairs)| (end, pairs.unwrap_or_else(none)));
    Some(BaselineCounts::from_parts(shape.inputs, parts))
}

/// The times that are lost to each pair of inputs of one channel.
fn lost(gaps: &[&Missing], inputs: usize, before: &[u64]) -> Pairs {
    let edges = gaps.iter().flat_map(|gap| [gap.inputs.start, gap.inputs.end]);
    let mut edges: Vec<usize> = edges.chain([0, inputs]).collect();
    edges.retain(|&edge| edge <= inputs);
    edges.sort_unstable();
    edges.dedup();
    // Times that are missing between two edges.
    let mut missing = vec![Vec::new(); edges.len() - 1];
    for gap in gaps {
        let place = |input| edges.partition_point(|&edge| edge < input).min(edges.len() - 1);
        let range = place(gap.inputs.start)..place(gap.inputs.end);
        missing[range].iter_mut().for_each(|times| times.push(gap.times.clone()));
    }
    let mut known = HashMap::new();
    let mut lists: Vec<Vec<Range<usize>>> = Vec::new();
    let mut classes = Vec::with_capacity(inputs);
    for (edge, times) in edges.windows(2).zip(missing) {
        let list = join(times.into_iter());
        let number = *known.entry(list.clone()).or_insert(lists.len());
        if number == lists.len() {
            lists.push(list);
        }
        classes.resize(edge[1], number as u32);
    }
    let count = |range: Range<usize>| before[range.end] - before[range.start];
    let total = |list: &Vec<Range<usize>>| list.iter().cloned().map(count).sum::<u64>();
    let totals: Vec<u64> = lists.iter().map(total).collect();
    Pairs::new(classes, |a, b| {
        totals[a] + totals[b] - common(&lists[a], &lists[b]).map(count).sum::<u64>()
    })
}

/// Ranges ascending, disjoint and apart.
fn join(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Intersection of two lists of ascending ranges.
fn common<'a>(
    a: &'a [Range<usize>],
    b: &'a [Range<usize>],
) -> impl Iterator<Item = Range<usize>> + 'a {
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || {
        while let (Some(a), Some(b)) = (a.get(i), b.get(j)) {
            let both = a.start.max(b.start)..a.end.min(b.end);
            if a.end < b.end {
                i += 1;
            } else {
                j += 1;
            }
            if !both.is_empty() {
                return Some(both);
            }
        }
        None
    })
}
