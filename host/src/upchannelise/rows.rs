//! Channels and inputs as rows, which an F-engine takes for its inputs: row `f N + i` is input `i` of channel `f`.

use std::ops::Range;

use crate::samples::{extents::Extents, missing::Missing};

/// Samples of channels and inputs as those of rows.
pub(super) fn to_rows(gaps: impl Iterator<Item = Missing>, inputs: usize) -> Vec<Missing> {
    let mut rows = Vec::new();
    for gap in gaps {
        let row = |channel: usize, input: usize| channel * inputs + input;
        let times = || Missing::times(gap.times.clone());
        if gap.inputs == (0..inputs) {
            rows.push(times().of_inputs(row(gap.channels.start, 0)..row(gap.channels.end, 0)));
            continue;
        }
        rows.extend(gap.channels.clone().map(|channel| {
            times().of_inputs(row(channel, gap.inputs.start)..row(channel, gap.inputs.end))
        }));
    }
    rows
}

/// Spectra of rows as those of the `factor` subchannels of each channel, `first` times later.
pub(super) fn from_rows(gap: &Missing, inputs: usize, factor: usize, first: usize) -> Vec<Missing> {
    let Range { start, end } = gap.inputs;
    let times = gap.times.start + first..gap.times.end + first;
    let mut found = Vec::new();
    let mut row = start;
    while row < end {
        let (channel, input) = (row / inputs, row % inputs);
        // Whole channels at a time, else what there is of one.
        let (channels, of) = match (end - row) / inputs {
            whole @ 1.. if input == 0 => (whole, 0..inputs),
            _ => (1, input..inputs.min(input + end - row)),
        };
        let subchannels = channel * factor..(channel + channels) * factor;
        row += (channels - 1) * inputs + of.len();
        found.push(Missing { times: times.clone(), channels: subchannels, inputs: of });
    }
    found
}

/// Extents of the subchannels.
pub(super) fn extents(channels: usize, inputs: usize, factor: usize, times: usize) -> Extents {
    Extents { channels: channels * factor, inputs, times }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_go_to_rows_and_back() {
        let gap = |channels, inputs| Missing { times: 2..5, channels, inputs };
        let rows = |gap: Missing| {
            to_rows([gap].into_iter(), 3)
                .into_iter()
                .map(|row| (row.inputs.start, row.inputs.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(rows(gap(1..3, 0..3)), [(3, 9)]);
        assert_eq!(rows(gap(1..3, 1..2)), [(4, 5), (7, 8)]);
        let back = |rows: Range<usize>| {
            from_rows(&Missing::times(0..1).of_inputs(rows), 3, 4, 7)
                .into_iter()
                .inspect(|gap| assert_eq!(gap.times, 7..8))
                .map(|gap| (gap.channels, gap.inputs))
                .collect::<Vec<_>>()
        };
        assert_eq!(back(3..9), [(4..12, 0..3)]);
        assert_eq!(back(4..5), [(4..8, 1..2)]);
        assert_eq!(back(2..10), [(0..4, 2..3), (4..12, 0..3), (12..16, 0..1)]);
        assert_eq!(back(1..3), [(0..4, 1..3)]);
    }
}
