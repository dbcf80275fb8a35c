//! Moments, as headers give them.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use crate::{Error, Result};

/// Picoseconds of a second.
const SECOND: u64 = 1_000_000_000_000;
/// Seconds of a day.
const DAY: u64 = 86_400;
/// Days from 0000-03-01, with which years of the calendar of Gregory begin that end with the leap day, to
/// the first Modified Julian Day, 1858-11-17.
const FIRST_DAY: i64 = 678_881;

/// A moment in UTC, to the picosecond. Leap seconds are not known: days have 86,400 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc {
    /// Modified Julian Day.
    day: i64,
    /// Picoseconds of the day.
    picoseconds: u64,
}

impl Utc {
    /// `seconds` and `picoseconds` after the start of a Modified Julian Day.
    pub const fn new(day: i64, seconds: u64, picoseconds: u64) -> Self {
        let seconds = seconds + picoseconds / SECOND;
        let day = day + (seconds / DAY) as i64;
        Self { day, picoseconds: seconds % DAY * SECOND + picoseconds % SECOND }
    }

    /// The start of a day of the calendar.
    pub const fn date(year: i64, month: i64, day: i64) -> Self {
        // Years that begin in March, so that a leap day is a year's last.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        Self { day: days + (153 * month + 2) / 5 + day - 1 - FIRST_DAY, picoseconds: 0 }
    }

    /// The Modified Julian Day.
    pub const fn day(&self) -> i64 {
        self.day
    }

    /// Seconds of the day.
    pub fn seconds(&self) -> f64 {
        self.picoseconds as f64 / SECOND as f64
    }

    /// The moment `seconds` later, to the nanosecond.
    pub fn after(&self, seconds: f64) -> Self {
        let whole = seconds.floor();
        let picoseconds = ((seconds - whole) * 1e9).round() as u64 * 1000;
        let days = (whole / DAY as f64).floor();
        let rest = (whole - days * DAY as f64) as u64;
        Self::new(self.day + days as i64, self.picoseconds / SECOND + rest, {
            self.picoseconds % SECOND + picoseconds
        })
    }

    /// The moment as a timestamp, to the nanosecond before it; [`None`] of a year that none has.
    pub fn timestamp(&self) -> Option<Timestamp> {
        // The first Modified Julian Day is so many days before 1970-01-01.
        let seconds = (self.day - 40_587) * DAY as i64 + (self.picoseconds / SECOND) as i64;
        Timestamp::new(seconds, (self.picoseconds % SECOND / 1000) as i32).ok()
    }
}

impl fmt::Display for Utc {
    /// ISO 8601, with as many digits of a second as it takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.day + FIRST_DAY;
        let century = (4 * days + 3).div_euclid(146_097);
        let day = days - 146_097 * century / 4 - i64::from(146_097 * century % 4 < 0);
        let year = (4 * day + 3) / 1461;
        let day = day - 1461 * year / 4;
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let year = 100 * century + year + i64::from(month > 9);
        let month = if month > 9 { month - 9 } else { month + 3 };
        let (seconds, rest) = (self.picoseconds / SECOND, self.picoseconds % SECOND);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}")?;
        if rest > 0 {
            write!(f, ".{}", format!("{rest:012}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

impl FromStr for Utc {
    type Err = Error;

    /// `2013-07-02`, `2013-07-02T01:37:40.5`, with or without a Z, or with a `-` or a space for the T.
    fn from_str(text: &str) -> Result<Self> {
        parse(text.trim()).ok_or_else(|| {
            Error::invalid(format!("{text:?}: expected a moment like 2013-07-02T01:37:40.5"))
        })
    }
}

fn parse(text: &str) -> Option<Utc> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u32>().ok())?
    };
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = match text.char_indices().nth(10) {
        Some((place, 'T' | '-' | ' ')) => (&text[..place], Some(&text[place + 1..])),
        Some(_) => return None,
        None => (text, None),
    };
    let mut parts = date.split('-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let start = Utc::date(year.into(), month.into(), day.into());
    let Some(time) = time else { return Some(start) };
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.split(':').map(number);
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    // A leap second is the next minute's first.
    if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let picoseconds = format!("{:0<12}", &fraction[..fraction.len().min(12)]).parse().ok()?;
    let seconds = hours * 3600 + minutes * 60 + seconds;
    Some(Utc::new(start.day, seconds.into(), picoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, day) in [
            ("1858-11-17T00:00:00Z", 0),
            ("2000-01-01T00:00:00Z", 51_544),
            ("2000-02-29T00:00:00Z", 51_603),
            ("2000-03-01T00:00:00Z", 51_604),
            ("2013-07-02T00:00:00Z", 56_475),
            ("1900-03-01T00:00:00Z", 15_079),
        ] {
            let moment: Utc = text.parse().unwrap();
            assert_eq!((moment.day(), moment.seconds()), (day, 0.0), "{text}");
            assert_eq!(moment.to_string(), text);
        }
        for day in -100_000..200_000 {
            let moment = Utc::new(day, 0, 0);
            assert_eq!(moment.to_string().parse::<Utc>().unwrap(), moment);
        }
    }

    #[test]
    fn times_of_day_are_read_and_written() {
        let moment: Utc = "2022-01-17-06:17:50.998315".parse().unwrap();
        assert_eq!(moment.to_string(), "2022-01-17T06:17:50.998315Z");
        assert_eq!((moment.day(), moment.seconds()), (59_596, 22_670.998_315));
        assert_eq!(moment.after(1.001_685).to_string(), "2022-01-17T06:17:52Z");
        assert_eq!(moment.after(-22_671.0).to_string(), "2022-01-16T23:59:59.998315Z");
        assert_eq!(moment.after(86_400.0).day(), 59_597);
        assert_eq!(moment.timestamp(), "2022-01-17T06:17:50.998315Z".parse().ok());
        assert_eq!(Utc::new(10_000_000, 0, 0).timestamp(), None);
        for text in
            ["", "2022", "2022-13-01", "2022-01-17T25:00:00", "2022-01-17T06:17", "20é2-01-17T"]
        {
            assert!(text.parse::<Utc>().is_err(), "{text}");
        }
    }
}
