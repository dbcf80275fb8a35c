//! Time that a measurement of photons takes, on a clock whose origin may be any.

use std::ops::Range;

/// Seconds of an acquisition that a header may tell, at most: 115 days.
const MOST: f64 = 1e7;

/// Units of time of a measurement: from the first event to the end of the acquisition if the file tells its length, otherwise
/// to the end of the last event. `events` are the first event's time and the last one's end. The length is rounded to
/// `rounding` seconds: where the last event is as close to the end as that, nothing is known of more time.
///
/// Instruments count from the begin of the acquisition, which then ends `acquisition` after 0; where events are later than
/// that, the clock has another origin, and the acquisition begins with the first event.
pub(super) fn span(
    events: Range<u64>,
    unit: f64,
    acquisition: Option<f64>,
    rounding: f64,
) -> Range<u64> {
    let Range { start, end } = events;
    let stated = acquisition.filter(|seconds| (0.0..=MOST).contains(seconds));
    let length = stated.map_or(0.0, |seconds| (seconds / unit).round());
    // Times are below 2^63.
    let length = if length < 9e18 { length as u64 } else { 0 };
    let rounding = (rounding / unit).min(9e18) as u64;
    let later = |length: u64| if length > end.saturating_add(rounding) { length } else { end };
    if length >= end {
        return start..later(length);
    }
    start..later(start.saturating_add(length).min(1 << 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acquisitions_end_where_clocks_say() {
        let span = |events, acquisition| span(events, 1e-9, acquisition, 10e-9);
        // Without a length, and with one on a clock from 0, in nanoseconds.
        assert_eq!(span(30..90, None), 30..90);
        assert_eq!(span(30..90, Some(120e-9)), 30..120);
        // Less than what it is rounded to.
        assert_eq!(span(30..90, Some(99e-9)), 30..90);
        // A clock that has run before.
        assert_eq!(span(1000..1090, Some(120e-9)), 1000..1120);
        // A length that events do not fit into, or that none has.
        assert_eq!(span(30..90, Some(20e-9)), 30..90);
        for seconds in [f64::NAN, f64::INFINITY, -1.0, 1e9] {
            assert_eq!(span(30..90, Some(seconds)), 30..90);
        }
        assert_eq!(super::span(30..90, 1e-300, Some(1.0), 1e-3), 30..90);
        assert_eq!(super::span(0..1 << 63, 1e-12, Some(1e7), 1e-3), 0..1 << 63);
    }
}
