//! Moments in the time scales that Earth's motion is counted in.

use jiff::{Timestamp, tz::TimeZone};
use sofars::ts::dat;

/// Seconds of a day of 24 hours.
const DAY: f64 = 86_400.0;

/// Julian date at which the day 0 of [`Moment`] begins: 2000-01-01.
const DAY_0: f64 = 2_451_544.5;

/// Unix time of 2000-01-01.
const UNIX_DAY_0: i64 = 946_684_800;

/// TT minus TAI, in seconds.
const TT_AFTER_TAI: f64 = 32.184;

/// Days from 2000-01-01 for which Earth's orbit is known: 1900 to 2100.
const DAYS: i64 = 36_500;

/// A moment to 20 ps, in TAI: seconds between moments are those that clocks count. Leap seconds are among
/// them, as far as they are published (Bulletin C; none since 2017).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Moment {
    /// Days after 2000-01-01.
    day: i64,
    /// Seconds in that day, below 86400.
    second: f64,
}

impl Moment {
    /// The moment `seconds` later.
    pub(super) fn after(self, seconds: f64) -> Self {
        let second = self.second + seconds;
        let days = (second / DAY).floor();
        Self { day: self.day.saturating_add(days as i64), second: second - days * DAY }
    }

    /// Seconds from `other` to this moment.
    pub(super) fn seconds_since(self, other: Self) -> f64 {
        (self.day as f64 - other.day as f64) * DAY + (self.second - other.second)
    }

    /// Whether it lies in the two centuries of Earth's ephemeris.
    pub(super) fn is_known(self) -> bool {
        (-DAYS..DAYS).contains(&self.day)
    }

    /// The Julian date in TT, in two parts.
    pub(super) fn tt(self) -> (f64, f64) {
        (DAY_0 + self.day as f64, (self.second + TT_AFTER_TAI) / DAY)
    }

    /// The Julian date in UT1, in two parts, for UT1 - UTC in seconds, of a moment that
    /// [is known](Self::is_known).
    pub(super) fn ut1(self, dut1: f64) -> (f64, f64) {
        let midnight = |day| Self { day, second: 0.0 }.after(leap_seconds_of(day));
        // UTC is behind by less than a day.
        let day = if midnight(self.day) <= self { self.day } else { self.day - 1 };
        (DAY_0 + day as f64, (self.seconds_since(midnight(day)) + dut1) / DAY)
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        let second = time.as_second() - UNIX_DAY_0;
        let day = second.div_euclid(DAY as i64);
        let second =
            second.rem_euclid(DAY as i64) as f64 + f64::from(time.subsec_nanosecond()) * 1e-9;
        Self { day, second }.after(leap_seconds_of(day))
    }
}

/// TAI minus UTC at a moment, in whole seconds; 0 before 1972, when UTC had seconds of another length.
pub(crate) fn leap_seconds(moment: Timestamp) -> i64 {
    const UTC: i64 = 63_072_000;
    let second = moment.as_second();
    let day = (second - UNIX_DAY_0).div_euclid(DAY as i64);
    if second < UTC { 0 } else { leap_seconds_of(day) as i64 }
}

/// TAI minus UTC on a day after 2000-01-01, or before.
fn leap_seconds_of(day: i64) -> f64 {
    let second = UNIX_DAY_0.saturating_add(day.saturating_mul(DAY as i64));
    let date = Timestamp::from_second(second).unwrap_or(Timestamp::MAX).to_zoned(TimeZone::UTC);
    let (year, month, day) = (date.year(), date.month(), date.day());
    // Before 1972 UTC had seconds of another length: of no matter here.
    dat(year.into(), month.into(), day.into(), 0.0).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Moment {
        text.parse::<Timestamp>().unwrap().into()
    }

    #[test]
    fn leap_seconds_count() {
        let before = moment("2016-12-31T23:59:59Z");
        assert_eq!(moment("2017-01-01T00:00:00Z").seconds_since(before), 2.0);
        assert_eq!(before.after(2.0), moment("2017-01-01T00:00:00Z"));
        assert_eq!(before.after(-86_400.0), moment("2016-12-30T23:59:59Z"));
        // The GPS epoch and a time of GPS, which has no leap seconds: 18 since 1980.
        let gps = moment("1980-01-06T00:00:00Z");
        assert_eq!(moment("2017-01-01T00:00:00Z").seconds_since(gps), 1_167_264_018.0);
    }

    #[test]
    fn julian_dates_are_those_of_the_almanac() {
        let (day, fraction) = moment("2000-01-01T11:58:55.816Z").tt();
        assert!((day + fraction - 2_451_545.0).abs() < 1e-9);
        let ut1 = moment("2000-01-01T12:00:00Z").ut1(0.5);
        assert_eq!(ut1, (2_451_544.5, 43_200.5 / 86_400.0));
        // In the leap second UT1 goes on.
        let (day, fraction) = moment("2016-12-31T23:59:59Z").after(1.25).ut1(-0.25);
        assert_eq!((day, fraction), (2_457_753.5, 1.0));
    }

    #[test]
    fn no_moment_is_too_far_away() {
        for seconds in [1e300, -1e300, 1e18, -1e18] {
            assert!(!moment("2026-03-20T00:00:00Z").after(seconds).is_known());
        }
        let _ = Moment::from(Timestamp::MIN).seconds_since(Timestamp::MAX.into());
    }
}
