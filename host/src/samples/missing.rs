//! Missing parts of a stretch of samples.

use std::ops::Range;

use crate::samples::extents::Extents;

/// Samples that are missing: all those of some times, channels and inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Time samples, counted from the first of the samples.
    pub times: Range<usize>,
    /// Channels; those beyond the samples' last are ignored.
    pub channels: Range<usize>,
    /// Inputs, likewise.
    pub inputs: Range<usize>,
}

impl Missing {
    /// Times at which all channels and inputs are missing.
    pub const fn times(times: Range<usize>) -> Self {
        Self { times, channels: 0..usize::MAX, inputs: 0..usize::MAX }
    }

    /// The same times of some inputs only.
    pub const fn of_inputs(self, inputs: Range<usize>) -> Self {
        Self { times: self.times, channels: self.channels, inputs }
    }

    /// The same times of some channels only.
    pub const fn of_channels(self, channels: Range<usize>) -> Self {
        Self { times: self.times, channels, inputs: self.inputs }
    }

    /// The part within `extents` from `origin` on, counted from there.
    pub(crate) fn within(&self, origin: &Extents, extents: &Extents) -> Option<Self> {
        let clip = |range: &Range<usize>, first: usize, count: usize| {
            let end = range.end.min(first.saturating_add(count));
            let start = range.start.max(first);
            (start < end).then(|| start - first..end - first)
        };
        Some(Self {
            times: clip(&self.times, origin.times, extents.times)?,
            channels: clip(&self.channels, origin.channels, extents.channels)?,
            inputs: clip(&self.inputs, origin.inputs, extents.inputs)?,
        })
    }
}

/// Number of times within `range` at which something is missing.
pub fn missing_within(missing: &[Missing], range: &Range<usize>) -> usize {
    let clip = |gap: &Missing| gap.times.start.max(range.start)..gap.times.end.min(range.end);
    let mut gaps: Vec<_> = missing.iter().map(clip).collect();
    gaps.sort_unstable_by_key(|gap| gap.start);
    let mut end = range.start;
    let mut count = 0;
    for gap in gaps {
        count += gap.end.saturating_sub(gap.start.max(end));
        end = end.max(gap.end);
    }
    count
}
