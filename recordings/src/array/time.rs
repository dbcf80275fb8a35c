//! Moments, as headers and people give them.

use corrust_host::{Error, Result};
pub use jiff::Timestamp;
use jiff::{SignedDuration, civil::DateTime, tz::TimeZone};

/// The Modified Julian Day 1970-01-01.
pub(crate) const UNIX_DAY: i64 = 40_587;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// A moment in UTC: `2013-07-02`, `2013-07-02T01:37:40.5`, with or without a Z, or with a `-` or a space for
/// the T. Of a second the first nine digits count; a leap second is the next minute's first.
///
/// ```
/// use corrust_recordings::formats::moment;
///
/// let start = moment("2013-07-02-01:37:40.25")?;
/// assert_eq!(start.to_string(), "2013-07-02T01:37:40.25Z");
/// assert!(moment("2013-02-30").is_err());
/// # Ok::<(), corrust_host::Error>(())
/// ```
///
/// # Errors
/// [`Error::Invalid`] when it is none.
pub fn moment(text: &str) -> Result<Timestamp> {
    parse_moment(text).map_err(Error::invalid)
}

/// [`moment`], or what is wrong with it.
pub(crate) fn parse_moment(text: &str) -> Result<Timestamp, String> {
    understand(text.trim()).ok_or_else(|| {
        format!("{text:?}: expected UTC in ISO 8601, as in \"2026-03-01T12:00:00.5Z\"")
    })
}

fn understand(text: &str) -> Option<Timestamp> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let (date, time) = text.split_at_checked(10)?;
    let time = match time.strip_prefix(['T', 't', '-', ' ']) {
        Some(time) => time,
        None if time.is_empty() => "00:00:00",
        None => return None,
    };
    // A date and a time with an offset would be taken without it.
    if !time.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')) {
        return None;
    }
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    // Hours and minutes will do.
    let time = if time.len() == 5 { &format!("{time}:00") } else { time };
    let leap = time.strip_suffix(":60").map(|minutes| format!("{minutes}:59"));
    let fraction = &fraction[..fraction.len().min(9)];
    let text = format!("{date}T{}.{fraction}", leap.as_deref().unwrap_or(time));
    let time = text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    later(time, if leap.is_some() { 1.0 } else { 0.0 })
}

/// The moment `seconds` later, to the nanosecond, where there is one.
pub fn later(moment: Timestamp, seconds: f64) -> Option<Timestamp> {
    moment.checked_add(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
}

/// The moment `seconds` and `picoseconds` after the start of a Modified Julian Day, to the nanosecond.
pub(crate) fn of_day(day: i64, seconds: i64, picoseconds: u64) -> Option<Timestamp> {
    let seconds = day.checked_sub(UNIX_DAY)?.checked_mul(DAY)?.checked_add(seconds)?;
    let start = Timestamp::from_second(seconds).ok()?;
    let nanoseconds = i64::try_from(picoseconds.saturating_add(500) / 1000).ok()?;
    start.checked_add(SignedDuration::from_nanos(nanoseconds)).ok()
}

/// The Modified Julian Day of a moment.
pub(crate) fn day(moment: Timestamp) -> i64 {
    moment.as_second().div_euclid(DAY) + UNIX_DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, expected) in [
            ("1858-11-17T00:00:00Z", 0),
            ("2000-01-01T00:00:00Z", 51_544),
            ("2000-02-29T00:00:00Z", 51_603),
            ("2000-03-01T00:00:00Z", 51_604),
            ("2013-07-02T00:00:00Z", 56_475),
            ("1900-03-01T00:00:00Z", 15_079),
        ] {
            let moment = moment(text).unwrap();
            assert_eq!((day(moment), of_day(expected, 0, 0)), (expected, Some(moment)), "{text}");
            assert_eq!(moment.to_string(), text);
        }
    }

    #[test]
    fn times_of_day_are_read_and_written() {
        let start = moment("2022-01-17-06:17:50.998315").unwrap();
        assert_eq!(start.to_string(), "2022-01-17T06:17:50.998315Z");
        assert_eq!(of_day(59_596, 22_670, 998_315_000_000), Some(start));
        assert_eq!(of_day(59_596, 22_670, 998_315_000_499), Some(start));
        let after = |seconds| later(start, seconds).unwrap().to_string();
        assert_eq!(after(1.001_685), "2022-01-17T06:17:52Z");
        assert_eq!(after(-22_671.0), "2022-01-16T23:59:59.998315Z");
        let same = |a: &str, b: &str| assert_eq!(moment(a).unwrap(), moment(b).unwrap());
        same("2016-12-31T23:59:60.5", "2017-01-01T00:00:00.5Z");
        same("2022-01-17 06:17:50.0000000019", "2022-01-17T06:17:50.000000001");
    }

    #[test]
    fn what_is_no_moment_is_an_error() {
        for text in [
            "",
            "2022",
            "2022-13-01",
            "2022-02-30",
            "2022-01-17T25:00:00",
            "2022-01-17T06:17:50+02:00",
            "2022-01-17T06:17:50[Asia/Kolkata]",
            "20é2-01-17T",
            "2022-01-17x06:17:50",
        ] {
            let error = moment(text).unwrap_err().to_string();
            assert!(error.contains("ISO 8601"), "{text}: {error}");
        }
    }
}
