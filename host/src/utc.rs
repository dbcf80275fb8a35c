//! Moments: dates and times in UTC, and how far they lie apart.

use std::{fmt, str::FromStr};

use sofars::{
    cal::{cal2jd, jd2cal},
    ts::dat,
};

use crate::{Error, Result};

/// Seconds of a day of 24 hours.
const DAY: f64 = 86_400.0;

/// Julian date at which the day 0 of [`Utc`] begins: 2000-01-01.
const DAY_0: f64 = 2_451_544.5;

/// TT minus TAI, in seconds.
const TT_AFTER_TAI: f64 = 32.184;

/// First year in which UTC is a whole number of seconds from TAI.
const FIRST_YEAR: i32 = 1972;

/// Days after 2000-01-01: the first of 1972, the last of 9999.
const DAYS: [i64; 2] = [-10_227, 2_921_939];

/// A moment of the years 1972 to 9999, to 20 ps.
///
/// Read and written in ISO 8601 (`2026-03-20T14:46:00.25Z`), written to nanoseconds. Seconds between moments
/// are those that clocks count: leap seconds are among them, as far as they are known to the library
/// (Bulletin C; none since 2017).
///
/// ```
/// use corrust_host::Utc;
///
/// let start: Utc = "2016-12-31T23:59:58Z".parse()?;
/// let later = start.after(3.5); // there was a leap second
/// assert_eq!(later.to_string(), "2017-01-01T00:00:00.5Z");
/// assert_eq!(later.seconds_since(start), 3.5);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Utc {
    /// Days of TAI after 2000-01-01.
    day: i64,
    /// Seconds of TAI in that day, below 86400.
    second: f64,
}

impl Utc {
    /// The moment `seconds` later.
    pub fn after(self, seconds: f64) -> Self {
        let second = self.second + seconds;
        let days = (second / DAY).floor();
        Self { day: self.day.saturating_add(days as i64), second: second - days * DAY }
    }

    /// Seconds from `other` to this moment.
    pub fn seconds_since(self, other: Self) -> f64 {
        (self.day as f64 - other.day as f64) * DAY + (self.second - other.second)
    }

    /// The Julian date in UTC, as a midnight and a fraction of a day; on a day with a leap second the
    /// fraction counts 86401 seconds (the convention of SOFA and of astropy).
    pub fn julian_date(self) -> (f64, f64) {
        let (midnight, second) = self.of_day();
        let length = Self::midnight(midnight.saturating_add(1)).seconds_since(Self::midnight(midnight));
        (DAY_0 + midnight as f64, second / length)
    }

    /// The Julian date in TT, in two parts.
    pub(crate) fn tt(self) -> (f64, f64) {
        (DAY_0 + self.day as f64, (self.second + TT_AFTER_TAI) / DAY)
    }

    /// The Julian date in UT1, in two parts, for UT1 - UTC in seconds.
    pub(crate) fn ut1(self, dut1: f64) -> (f64, f64) {
        let (midnight, second) = self.of_day();
        (DAY_0 + midnight as f64, (second + dut1) / DAY)
    }

    /// The beginning of a day of UTC, counted from 2000-01-01.
    fn midnight(day: i64) -> Self {
        Self { day, second: 0.0 }.after(leap_seconds(day))
    }

    /// The day of UTC, counted from 2000-01-01, and the second in it, which may be the 86400th.
    fn of_day(self) -> (i64, f64) {
        // TAI is ahead by less than a day.
        let day = if Self::midnight(self.day) <= self { self.day } else { self.day.saturating_sub(1) };
        (day, self.seconds_since(Self::midnight(day)))
    }
}

/// TAI minus UTC on a day counted from 2000-01-01.
fn leap_seconds(day: i64) -> f64 {
    let [year, month, day] = date(day);
    dat(year, month, day, 0.0).expect("a date since 1972")
}

/// Year, month, and day of the month; of days that are too early or late, the first or last.
fn date(day: i64) -> [i32; 3] {
    let day = day.clamp(DAYS[0], DAYS[1]);
    let (year, month, day, _) = jd2cal(DAY_0, day as f64).expect("a date of four digits");
    [year, month, day]
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = Self { day: self.day, second: (self.second * 1e9).round() / 1e9 }.after(0.0);
        let (day, second) = rounded.of_day();
        let [year, month, day] = date(day);
        // A leap second is the 60th of the day's last minute.
        let minutes = ((second / 60.0).floor() as u32).min(24 * 60 - 1);
        let seconds = format!("{:012.9}", second - f64::from(60 * minutes));
        let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
        let (hour, minute) = (minutes / 60, minutes % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{seconds}Z")
    }
}

impl FromStr for Utc {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| {
            Error::invalid(format!(
                "time {text:?}: expected a date and time in UTC since 1972, as in \
                 2026-03-20T14:46:00.25Z"
            ))
        })
    }
}

/// `YYYY-MM-DD`, and perhaps `THH:MM`, `:SS`, `.fraction`, `Z`.
fn parse(text: &str) -> Option<Utc> {
    let text =
        text.strip_suffix(['Z', 'z']).or_else(|| text.strip_suffix("+00:00")).unwrap_or(text);
    let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00"));
    let whole = |text: &str, digits: usize| -> Option<i32> {
        let sound = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        sound.then(|| text.parse().ok()).flatten()
    };
    let date: Vec<&str> = date.split('-').collect();
    let &[year, month, day] = &date[..] else { return None };
    let (year, month, day) = (whole(year, 4)?, whole(month, 2)?, whole(day, 2)?);
    let time: Vec<&str> = time.split(':').collect();
    let (hour, minute, seconds) = match time[..] {
        [hour, minute] => (whole(hour, 2)?, whole(minute, 2)?, "00"),
        [hour, minute, seconds] => (whole(hour, 2)?, whole(minute, 2)?, seconds),
        _ => return None,
    };
    let (second, fraction) = match seconds.split_once('.') {
        None => (seconds, "0"),
        Some((second, fraction)) => (second, fraction),
    };
    let second = whole(second, 2)?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    if year < FIRST_YEAR || hour > 23 || minute > 59 {
        return None;
    }
    let (_, modified) = cal2jd(year, month, day).ok()?;
    // The modified Julian date of 2000-01-01.
    let day = modified as i64 - 51_544;
    let start = Utc::midnight(day);
    let moment = f64::from(3600 * hour + 60 * minute + second) + fraction;
    // The 60th second of a minute is one of those that the day has.
    let last = Utc::midnight(day + 1).seconds_since(start);
    let leap = (hour, minute, second) == (23, 59, 60) && moment < last;
    (second < 60 || leap).then(|| start.after(moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Utc {
        text.parse().unwrap()
    }

    #[test]
    fn texts_round_trip() {
        for text in [
            "1972-01-01T00:00:00Z",
            "2000-02-29T12:34:56.789Z",
            "2016-12-31T23:59:60.5Z",
            "2026-11-22T23:59:59.9999Z",
            "9999-12-30T23:59:59Z",
        ] {
            assert_eq!(utc(text).to_string(), text);
        }
        assert_eq!(utc("2026-03-20"), utc("2026-03-20 00:00"));
        assert_eq!(utc("2026-03-20t01:02:03+00:00"), utc("2026-03-20T01:02:03Z"));
    }

    #[test]
    fn no_moment_is_too_far_away() {
        let start = utc("2026-03-20");
        for seconds in [1e300, -1e300, 1e18, -1e18] {
            assert!(!start.after(seconds).to_string().is_empty());
            assert!(start.after(seconds).seconds_since(start).is_finite());
        }
        let almost = utc("2016-12-31T23:59:59Z").after(1.999_999_999_9);
        assert_eq!(almost.to_string(), "2017-01-01T00:00:00Z");
    }

    #[test]
    fn leap_seconds_count() {
        let before = utc("2016-12-31T23:59:59Z");
        assert_eq!(utc("2016-12-31T23:59:60Z").seconds_since(before), 1.0);
        assert_eq!(utc("2017-01-01T00:00:00Z").seconds_since(before), 2.0);
        assert_eq!(before.after(1.25).to_string(), "2016-12-31T23:59:60.25Z");
        assert_eq!(before.after(-86_400.0).to_string(), "2016-12-30T23:59:59Z");
        // The GPS epoch and a time of GPS, which has no leap seconds: 18 since 1980.
        let gps = utc("1980-01-06T00:00:00Z");
        assert_eq!(utc("2017-01-01T00:00:00Z").seconds_since(gps), 1_167_264_018.0);
    }

    #[test]
    fn julian_dates_are_those_of_the_almanac() {
        assert_eq!(utc("2000-01-01T12:00:00Z").julian_date(), (2_451_544.5, 0.5));
        let (midnight, fraction) = utc("2016-12-31T23:59:60Z").julian_date();
        assert_eq!((midnight, fraction), (2_457_753.5, 86_400.0 / 86_401.0));
        let (day, fraction) = utc("2000-01-01T11:58:55.816Z").tt();
        assert!((day + fraction - 2_451_545.0).abs() < 1e-9);
        let (day, fraction) = utc("2000-01-01T12:00:00Z").ut1(0.5);
        assert!((day, fraction) == (2_451_544.5, 43_200.5 / 86_400.0));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "now",
            "2026-3-20",
            "2026-13-20",
            "2026-02-29",
            "1971-12-31",
            "2026-03-20T24:00:00Z",
            "2026-03-20T23:59:60Z",
            "2026-03-20T23:59:61Z",
            "2026-03-20T1:00",
            "2026-03-20T01:00:00.",
            "2026-03-20T01:00:00+02:00",
            "2026-03-20T01:00:+1",
        ] {
            let error = text.parse::<Utc>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("time {text:?}: expected")), "{error}");
        }
    }
}
