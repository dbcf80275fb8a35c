//! The stream's place, and which spectra miss a sample.

use std::ops::Range;

use corrust_gpu::abi::upchannelise::INPUTS;

use super::shape::Shape;
use crate::{device::host, error::Result, samples::missing::Missing};

/// Place in a stream of samples, and the samples before it that are missing.
#[derive(Clone, Debug)]
pub(super) struct History {
    shape: Shape,
    /// Times so far.
    total: u64,
    /// Missing samples that the next spectra touch, counted from [`History::kept_from`].
    gaps: Vec<Missing>,
}

/// Spectra that a block of times completes.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// Number of spectra.
    pub count: usize,
    /// Number of spectra that begin before the stream: they are missing.
    pub before: usize,
    /// Missing spectra, by channel and input, counted from the first; spectra before the stream are among them.
    /// Channels are the samples' channels, before upchannelisation.
    pub gaps: Vec<Missing>,
    /// Time samples kept from before the block: from the first that spectrum `before` needs.
    pub kept: usize,
    /// Time samples, of the kept ones and the block's, that precede those kept for the next block.
    pub drop: usize,
}

impl History {
    pub(super) fn new(shape: &Shape) -> Self {
        Self { shape: *shape, total: 0, gaps: Vec::new() }
    }

    pub(super) fn reset(&mut self) {
        self.total = 0;
        self.gaps.clear();
    }

    /// Number of the next spectrum.
    pub(super) fn next(&self) -> u64 {
        self.total / self.shape.factor as u64
    }

    /// Spectra that `times` more times complete.
    pub(super) fn upcoming(&self, times: usize) -> usize {
        ((self.total + times as u64) / self.shape.factor as u64 - self.next()) as usize
    }

    /// The first time sample that is kept after `total`: the first one of the next spectrum.
    fn kept_from(&self, total: u64) -> u64 {
        let (factor, taps) = (self.shape.factor as u64, self.shape.taps as u64);
        ((total / factor + 1).saturating_sub(taps)) * factor
    }

    /// Takes a block of `times` times with these gaps.
    pub(super) fn advance(&mut self, times: usize, gaps: impl Iterator<Item = Missing>) -> Batch {
        let Shape { factor, taps, channels, inputs, .. } = self.shape;
        let (first, count) = (self.next(), self.upcoming(times));
        let from = self.kept_from(self.total);
        let kept = (self.total - from) as usize;
        let mut all = std::mem::take(&mut self.gaps);
        all.extend(gaps.filter_map(|gap| {
            let times = gap.times.start + kept..gap.times.end + kept;
            let (channels, inputs) = (
                gap.channels.start..gap.channels.end.min(channels),
                gap.inputs.start..gap.inputs.end.min(inputs),
            );
            let any = !times.is_empty() && !channels.is_empty() && !inputs.is_empty();
            any.then_some(Missing { times, channels, inputs })
        }));
        let before = (taps as u64 - 1).saturating_sub(first).min(count as u64) as usize;
        // The spectrum of number `from / factor + m` ends with the samples of block `m` of times from there.
        let ahead = (first - from / factor as u64) as usize;
        let touched = |gap: &Missing| {
            let (start, end) =
                (gap.times.start / factor, gap.times.end.div_ceil(factor) + taps - 1);
            start.saturating_sub(ahead)..end.saturating_sub(ahead).min(count)
        };
        let whole = Missing { times: 0..before, channels: 0..channels, inputs: 0..inputs };
        let spectra = all.iter().map(|gap| Missing { times: touched(gap), ..gap.clone() });
        let gaps = merged([whole].into_iter().chain(spectra));
        self.total += times as u64;
        let drop = (self.kept_from(self.total) - from) as usize;
        self.gaps = all
            .into_iter()
            .filter(|gap| gap.times.end > drop)
            .map(|gap| Missing {
                times: gap.times.start.max(drop) - drop..gap.times.end - drop,
                ..gap
            })
            .collect();
        Batch { count, before, gaps, kept, drop }
    }
}

impl Batch {
    /// Words `[spectrum][channel][input / 32]` of a range of spectra; bit `input % 32` is set where the spectrum is missing.
    /// Empty where none is missing.
    pub(super) fn words(&self, shape: &Shape, range: Range<usize>) -> Result<Vec<u32>> {
        let within = |gap: &Missing| {
            gap.times.start.max(range.start)..gap.times.end.min(range.end).max(range.start)
        };
        if self.gaps.iter().all(|gap| within(gap).is_empty()) {
            return Ok(Vec::new());
        }
        let lanes = INPUTS as usize;
        let row = shape.inputs.div_ceil(lanes);
        let mut words = host::zeros(range.len() * shape.channels * row)?;
        for gap in &self.gaps {
            let bits: Vec<(usize, u32)> = (gap.inputs.start / lanes
                ..gap.inputs.end.div_ceil(lanes))
                .map(|word| {
                    let start = gap.inputs.start.max(word * lanes) - word * lanes;
                    let end = gap.inputs.end.min((word + 1) * lanes) - word * lanes;
                    (word, u32::MAX >> (lanes - (end - start)) << start)
                })
                .collect();
            for spectrum in within(gap) {
                for channel in gap.channels.clone() {
                    let words: &mut [u32] = &mut words
                        [((spectrum - range.start) * shape.channels + channel) * row..][..row];
                    bits.iter().for_each(|&(word, bits)| words[word] |= bits);
                }
            }
        }
        Ok(words)
    }
}

/// Drops empty gaps, and merges gaps that touch or overlap in time.
pub(super) fn merged(gaps: impl Iterator<Item = Missing>) -> Vec<Missing> {
    let mut gaps: Vec<Missing> = gaps.filter(|gap| !gap.times.is_empty()).collect();
    let key = |gap: &Missing| {
        (gap.channels.start, gap.channels.end, gap.inputs.start, gap.inputs.end, gap.times.start)
    };
    gaps.sort_unstable_by_key(key);
    gaps.dedup_by(|next, last| {
        let joins = next.channels == last.channels
            && next.inputs == last.inputs
            && next.times.start <= last.times.end;
        if joins {
            last.times.end = last.times.end.max(next.times.end);
        }
        joins
    });
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Encoding;

    fn history(factor: usize, taps: usize) -> History {
        let encoding = Encoding::Ci8;
        History::new(&Shape {
            inputs: 40,
            channels: 3,
            factor,
            taps,
            encoding,
            output: encoding.into(),
        })
    }

    /// Whether a spectrum touches a gap, by the definition.
    fn touches(spectrum: i64, factor: i64, taps: i64, gap: &Range<i64>) -> bool {
        let window = (spectrum - taps + 1) * factor..(spectrum + 1) * factor;
        window.start < 0 || gap.start < window.end && gap.end > window.start
    }

    #[test]
    fn spectra_that_touch_a_gap_are_missing_however_the_stream_is_cut() {
        for (factor, taps, gap, cut) in [
            (4, 3, 5..6, 100),
            (4, 3, 13..30, 17),
            (2, 1, 8..9, 9),
            (8, 4, 0..3, 1),
            (4, 2, 31..33, 32),
        ] {
            let mut history = history(factor, taps);
            let missing = |range: Range<usize>| Missing {
                times: range,
                channels: 1..2,
                inputs: 31..usize::MAX,
            };
            let mut number = 0;
            for (from, to) in [(0, cut), (cut, cut + 90)] {
                let there = gap.start.max(from)..gap.end.min(to);
                let gaps =
                    (!there.is_empty()).then(|| missing(there.start - from..there.end - from));
                assert_eq!(history.upcoming(to - from), to / factor - from / factor);
                let batch = history.advance(to - from, gaps.into_iter());
                assert_eq!(batch.count, to / factor - from / factor);
                let words = batch.words(&history.shape, 0..batch.count).unwrap();
                for spectrum in 0..batch.count {
                    let touches = touches(
                        number as i64,
                        factor as i64,
                        taps as i64,
                        &(gap.start as i64..gap.end as i64),
                    );
                    let found = batch.gaps.iter().any(|gap| gap.times.contains(&spectrum));
                    assert_eq!(found, touches, "{factor} {taps} {gap:?} {cut}: {number}");
                    if !words.is_empty() {
                        let bit = words[(spectrum * 3 + 1) * 2 + 1] >> 7 & 1;
                        assert_eq!(bit != 0, touches);
                    }
                    number += 1;
                }
            }
        }
    }
}
