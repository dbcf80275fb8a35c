//! Counts for every baseline of every channel.
//!
//! Inputs that miss the same time samples have the same counts, and so have channels: a table has one count for each
//! pair of classes of inputs, and one table stands for all channels that are alike. The counts themselves, some 17 MB a
//! channel of 2048 inputs, are written where they are asked for.

use std::collections::HashMap;

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use super::baselines::{baseline, baselines, inputs_of};
use crate::error::{Error, Result};

/// A count for each `[channel][baseline]`, the baselines in the order of [`baseline`].
#[derive(Clone, Debug)]
pub struct BaselineCounts {
    inputs: usize,
    /// Channels in order, those alike together.
    parts: Vec<Part>,
}

/// Channels with the same counts.
#[derive(Clone, Debug)]
struct Part {
    /// The channel after the last; the first is the end of the part before.
    end: usize,
    pairs: Pairs,
}

impl BaselineCounts {
    /// Counts from an array `[channel][baseline]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when no number of inputs has as many baselines.
    pub fn from_array(counts: ArrayView2<'_, u64>) -> Result<Self> {
        let inputs = inputs_of(counts.ncols()).0;
        if baselines(inputs) != counts.ncols() {
            return Err(Error::invalid(format!(
                "counts of {} baselines: expected 1, 3, 6, 10 ..., those of a number of inputs",
                counts.ncols()
            )));
        }
        let pairs = |counts: ndarray::ArrayView1<'_, u64>| Pairs {
            classes: (0..inputs as u32).collect(),
            counts: counts.to_vec(),
        };
        let rows = counts.outer_iter().enumerate();
        let parts = rows.map(|(channel, row)| Part { end: channel + 1, pairs: pairs(row) });
        Ok(Self { inputs, parts: parts.collect() })
    }

    /// Zero everywhere.
    pub(super) fn zero(channels: usize, inputs: usize) -> Self {
        let pairs = Pairs { classes: vec![0; inputs], counts: vec![0] };
        Self { inputs, parts: vec![Part { end: channels, pairs }] }
    }

    /// Counts of channels that are alike, each part with the channel after its last, ascending.
    pub(super) fn from_parts(
        inputs: usize,
        parts: impl IntoIterator<Item = (usize, Pairs)>,
    ) -> Self {
        let parts = parts.into_iter().map(|(end, pairs)| Part { end, pairs });
        Self { inputs, parts: parts.collect() }
    }

    /// Number of counts that the tables hold.
    pub(super) fn held(&self) -> usize {
        self.parts.iter().map(|part| part.pairs.counts.len()).sum()
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The count of `baseline` of `channel`.
    ///
    /// # Panics
    /// When `channel` or `baseline` is not one of these counts.
    pub fn get(&self, channel: usize, baseline: usize) -> u64 {
        let (i, j) = inputs_of(baseline);
        self.pairs(channel).get(i, j)
    }

    /// All of them, `[channel][baseline]`.
    pub fn to_array(&self) -> Array2<u64> {
        let mut counts = Array2::zeros((self.channels(), baselines(self.inputs)));
        if self.inputs > 0 {
            let channels = counts.as_slice_mut().expect("new arrays lie in one piece");
            let channels = channels.par_chunks_exact_mut(baselines(self.inputs)).enumerate();
            channels.for_each(|(channel, counts)| {
                let pairs = self.pairs(channel);
                for_each(counts, |i, j, count| *count = pairs.get(i, j));
            });
        }
        counts
    }

    /// Whether all of them are zero.
    pub fn is_zero(&self) -> bool {
        self.parts.iter().all(|part| part.pairs.counts.iter().all(|&count| count == 0))
    }

    /// The counts of a channel.
    pub(super) fn pairs(&self, channel: usize) -> &Pairs {
        &self.parts[self.parts.partition_point(|part| part.end <= channel)].pairs
    }

    /// Adds those of as many channels and inputs.
    pub(super) fn add(&mut self, other: &Self) {
        self.cut(other.parts.iter().map(|part| part.end));
        self.parts.par_iter_mut().for_each(|part| part.pairs.add(other.pairs(part.end - 1)));
    }

    /// Replaces each count by what `of` gives for its channel and itself.
    pub(super) fn map(mut self, of: impl Fn(usize, u64) -> u64, apart: bool) -> Self {
        if apart {
            self.cut(1..=self.channels());
        }
        for part in &mut self.parts {
            let channel = part.end - 1;
            part.pairs.counts.iter_mut().for_each(|count| *count = of(channel, *count));
        }
        self
    }

    /// Parts channels at `ends`, which ascend.
    fn cut(&mut self, ends: impl IntoIterator<Item = usize>) {
        let mut ends = ends.into_iter().peekable();
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in self.parts.drain(..) {
            while let Some(end) = ends.next_if(|&end| end < part.end) {
                parts.push(Part { end, pairs: part.pairs.clone() });
            }
            ends.next_if_eq(&part.end);
            parts.push(part);
        }
        self.parts = parts;
    }
}

/// As many channels and inputs, and the same counts.
impl PartialEq for BaselineCounts {
    fn eq(&self, other: &Self) -> bool {
        let alike = (self.channels(), self.inputs) == (other.channels(), other.inputs);
        alike
            && (0..self.channels()).all(|channel| {
                let [ours, theirs] = [self, other].map(|counts| counts.pairs(channel));
                (0..self.inputs).all(|i| (0..=i).all(|j| ours.get(i, j) == theirs.get(i, j)))
            })
    }
}

impl Eq for BaselineCounts {}

/// Counts of the baselines of a channel.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    /// Class of each input, numbered by their first inputs.
    classes: Vec<u32>,
    /// The count of classes `a >= b` at [`baseline`]`(a, b)`.
    counts: Vec<u64>,
}

impl Pairs {
    /// Makes a table of the counts that `of` returns for two classes. `classes` has the class of each input; classes are numbered
    /// in the order of their first inputs.
    pub(super) fn new(classes: Vec<u32>, of: impl Fn(usize, usize) -> u64 + Sync) -> Self {
        let number = classes.iter().max().map_or(0, |&last| last as usize + 1);
        let mut counts = vec![0; baselines(number)];
        for_each(&mut counts, |a, b, count| *count = of(a, b));
        Self { classes, counts }
    }

    /// The count of the baseline of inputs `i` and `j`.
    pub(super) fn get(&self, i: usize, j: usize) -> u64 {
        self.of_classes(self.classes[i] as usize, self.classes[j] as usize)
    }

    /// Takes `count` from that of a baseline, of two inputs whose classes have no others.
    pub(super) fn subtract(&mut self, of: usize, count: u64) {
        let (i, j) = inputs_of(of);
        let [a, b] = [i, j].map(|input| self.classes[input] as usize);
        self.counts[baseline(a.max(b), a.min(b))] -= count;
    }

    fn of_classes(&self, a: usize, b: usize) -> u64 {
        self.counts[baseline(a.max(b), a.min(b))]
    }

    /// Adds those of as many inputs.
    fn add(&mut self, other: &Self) {
        // Classes of these inputs in both.
        let mut both = Vec::new();
        let mut numbers = HashMap::new();
        let pairs = self.classes.iter().zip(&other.classes);
        // Neighbours are often of the same classes.
        let mut last = ((u32::MAX, u32::MAX), 0);
        let classes = pairs.map(|(&a, &b)| {
            if last.0 != (a, b) {
                let number = *numbers.entry((a, b)).or_insert_with(|| {
                    both.push((a as usize, b as usize));
                    both.len() as u32 - 1
                });
                last = ((a, b), number);
            }
            last.1
        });
        let classes: Vec<u32> = classes.collect();
        if baselines(both.len()) == self.counts.len() {
            // Each class is one of the new, of the same number.
            let of = |a: usize, b: usize| other.of_classes(both[a].1, both[b].1);
            for_each(&mut self.counts, |a, b, count| *count += of(a, b));
        } else {
            *self = Self::new(classes, |a, b| {
                self.of_classes(both[a].0, both[b].0) + other.of_classes(both[a].1, both[b].1)
            });
        }
    }
}

/// Fewest counts that threads are worth.
const LEAST_SHARED: usize = 1 << 14;

/// Calls `of` with row, column and count of each count of a lower triangle, of rows of 1, 2, 3 ... counts.
fn for_each(mut triangle: &mut [u64], of: impl Fn(usize, usize, &mut u64) + Sync) {
    let row = |(i, row): (usize, &mut [u64])| {
        row.iter_mut().enumerate().for_each(|(j, count)| of(i, j, count));
    };
    let is_shared = triangle.len() >= LEAST_SHARED;
    let mut rows = Vec::new();
    let mut number = 0;
    while let Some((first, rest)) = triangle.split_at_mut_checked(number + 1) {
        if is_shared {
            rows.push((number, first));
        } else {
            row((number, first));
        }
        (number, triangle) = (number + 1, rest);
    }
    rows.into_par_iter().for_each(row);
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::{BaselineCounts, Pairs};
    use crate::correlate::{baseline, baselines};

    /// Classes numbered by their first inputs.
    fn classes(rng: &mut StdRng, inputs: usize) -> Vec<u32> {
        let most = rng.random_range(0..inputs as u32);
        let mut next = 0;
        let class = |_| {
            let class = rng.random_range(0..=next.min(most));
            next = next.max(class + 1);
            class
        };
        (0..inputs).map(class).collect()
    }

    fn drawn(rng: &mut StdRng, channels: usize, inputs: usize) -> (BaselineCounts, Array2<u64>) {
        let mut ends: Vec<usize> = (1..channels).filter(|_| rng.random_bool(0.3)).collect();
        ends.push(channels);
        let mut array = Array2::zeros((channels, baselines(inputs)));
        let mut first = 0;
        let mut parts = Vec::new();
        for end in ends {
            let classes = classes(rng, inputs);
            let table: Vec<u64> = (0..inputs * inputs).map(|_| rng.random_range(0..100)).collect();
            let of = |a: usize, b: usize| table[a.max(b) * inputs + a.min(b)];
            for (i, &a) in classes.iter().enumerate() {
                for (j, &b) in classes[..=i].iter().enumerate() {
                    let mut counts = array.slice_mut(ndarray::s![first..end, baseline(i, j)]);
                    counts.fill(of(a as usize, b as usize));
                }
            }
            parts.push((end, Pairs::new(classes, of)));
            first = end;
        }
        (BaselineCounts::from_parts(inputs, parts), array)
    }

    /// Tables have the sums of the arrays that they stand for, at random classes of inputs and channels.
    #[test]
    fn sums_are_those_of_arrays() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..60 {
            let (channels, inputs) = (rng.random_range(1..7), rng.random_range(1..10));
            let mut sum = BaselineCounts::zero(channels, inputs);
            let mut expected = Array2::zeros((channels, baselines(inputs)));
            assert!(sum.is_zero());
            for _ in 0..rng.random_range(1..5) {
                let (counts, array) = drawn(&mut rng, channels, inputs);
                assert_eq!(counts.to_array(), array);
                sum.add(&counts);
                expected += &array;
                assert_eq!(sum.to_array(), expected);
            }
            assert_eq!(sum.is_zero(), expected.iter().all(|&count| count == 0));
            let known = BaselineCounts::from_array(expected.view()).unwrap();
            assert_eq!((&sum, sum.channels(), sum.inputs()), (&known, channels, inputs));
            let factors = |channel: usize, count: u64| (channel as u64 + 1) * count;
            for ((channel, b), count) in expected.indexed_iter_mut() {
                assert_eq!(sum.get(channel, b), *count);
                *count = factors(channel, *count);
            }
            assert_eq!(sum.map(factors, true).to_array(), expected);
        }
    }

    #[test]
    fn no_inputs_have_two_baselines() {
        let error = BaselineCounts::from_array(Array2::zeros((3, 2)).view()).unwrap_err();
        assert!(error.to_string().contains("counts of 2 baselines"), "{error}");
    }
}
