//! Counts of what some inputs of a channel lose, few at the same time, as blocks that are flagged by chance do.
//!
//! A table for each block would have a class for each such input, and in sums of many blocks all inputs are such. Of few inputs the
//! pairs that lose the same time samples are few, too: they are counted themselves. Time samples lost to a baseline are those lost to
//! either input, less those lost to both.

use std::{collections::HashMap, ops::Range};

use super::{
    baseline_counts::Pairs,
    baselines::{baseline, baselines},
};
use crate::samples::missing::Missing;

/// Most pairs of inputs that lose the same time samples, by the number of inputs: more are counted by classes.
const MOST_PAIRS: usize = 32;

/// Part of the baselines from which on counts of all are held.
const FEW: usize = 8;

/// Time samples that are lost to inputs of one channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Scattered {
    /// Number of time samples that all inputs miss.
    all: u64,
    /// Number of other time samples that each input misses; empty as long as there are none.
    of_inputs: Vec<u64>,
    /// Number of these that two inputs `i > j` both miss, at [`baseline`]`(i, j)`.
    both: Both,
}

/// Counts of baselines that are not zero, or of all.
#[derive(Clone, Debug)]
enum Both {
    Few(HashMap<usize, u64>),
    All(Vec<u64>),
}

impl Default for Both {
    fn default() -> Self {
        Self::Few(HashMap::new())
    }
}

impl Scattered {
    /// Counts gaps of the channel, within its inputs, if they are few at the same time, and none has samples of another. Returns
    /// whether they are. `before` has the number of time samples before each that count.
    pub(super) fn add(&mut self, gaps: &[&Missing], inputs: usize, before: &[u64]) -> bool {
        let of_inputs = |gap: &Missing| gap.inputs.start..gap.inputs.end.min(inputs);
        let mut gaps: Vec<&Missing> =
            gaps.iter().copied().filter(|gap| !of_inputs(gap).is_empty()).collect();
        gaps.sort_unstable_by_key(|gap| (gap.times.start, gap.inputs.start));
        let mut pairs = 0;
        for_both(&gaps, |a, b| {
            let [first, second] = [a, b].map(of_inputs);
            let apart = first.end <= second.start || second.end <= first.start;
            pairs += if apart { first.len() * second.len() } else { usize::MAX / 2 };
            pairs <= MOST_PAIRS * inputs
        });
        for gap in &gaps {
            let width = of_inputs(gap).len();
            if width < inputs {
                pairs = pairs.saturating_add(baselines(width));
            }
        }
        if pairs > MOST_PAIRS * inputs {
            return false;
        }
        let count = |times: Range<usize>| before[times.end] - before[times.start];
        for gap in &gaps {
            let (own, times) = (of_inputs(gap), count(gap.times.clone()));
            if own.len() == inputs {
                self.all += times;
                continue;
            }
            self.of_inputs.resize(inputs, 0);
            for i in own.clone() {
                self.of_inputs[i] += times;
                (own.start..i).for_each(|j| self.add_both(baseline(i, j), times));
            }
        }
        for_both(&gaps, |a, b| {
            let start = a.times.start.max(b.times.start);
            let times = count(start..a.times.end.min(b.times.end));
            for i in of_inputs(a) {
                of_inputs(b).for_each(|j| self.add_both(baseline(i.max(j), i.min(j)), times));
            }
            true
        });
        true
    }

    fn add_both(&mut self, baseline: usize, times: u64) {
        match &mut self.both {
            Both::All(counts) => counts[baseline] += times,
            Both::Few(counts) => {
                *counts.entry(baseline).or_default() += times;
                let all = baselines(self.of_inputs.len());
                if counts.len() * FEW > all {
                    let mut each = vec![0; all];
                    counts.iter().for_each(|(&baseline, &times)| each[baseline] = times);
                    self.both = Both::All(each);
                }
            }
        }
    }

    /// Time samples that are lost to either input of each pair, if any are.
    pub(super) fn finish(self, inputs: usize) -> Option<Pairs> {
        let Self { all, mut of_inputs, both } = self;
        if all == 0 && of_inputs.is_empty() {
            return None;
        }
        of_inputs.resize(inputs, 0);
        // Inputs that lose nothing else are alike.
        let (mut classes, mut firsts, mut rest) = (Vec::with_capacity(inputs), Vec::new(), None);
        for (input, &times) in of_inputs.iter().enumerate() {
            let known = if times == 0 { rest } else { None };
            let class = known.unwrap_or_else(|| {
                firsts.push(input);
                firsts.len() as u32 - 1
            });
            if times == 0 {
                rest = Some(class);
            }
            classes.push(class);
        }
        let mut pairs = Pairs::new(classes, |a, b| {
            let [i, j] = [firsts[a], firsts[b]];
            let common = match &both {
                _ if i == j => of_inputs[i],
                Both::All(counts) => counts[baseline(i.max(j), i.min(j))],
                Both::Few(_) => 0,
            };
            all + of_inputs[i] + of_inputs[j] - common
        });
        if let Both::Few(counts) = &both {
            counts.iter().for_each(|(&baseline, &times)| pairs.subtract(baseline, times));
        }
        Some(pairs)
    }
}

/// Calls `of` with each two of some gaps, ascending by their first times, that have times in common, until it returns false.
fn for_both(gaps: &[&Missing], mut of: impl FnMut(&Missing, &Missing) -> bool) {
    for (number, a) in gaps.iter().enumerate() {
        for b in &gaps[number + 1..] {
            if b.times.start >= a.times.end {
                break;
            }
            if !of(a, b) {
                return;
            }
        }
    }
}
