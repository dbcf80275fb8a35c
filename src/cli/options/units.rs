//! Quantities with their units, as arguments.

use std::str::FromStr;

/// Shortest and longest times that are accepted, seconds: numbers computed from them stay finite.
const LEAST: f64 = 1e-18;
const MOST: f64 = 1e18;

/// A time in seconds: a number with its unit.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub f64);

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [
            ("fs", 1e-15),
            ("ps", 1e-12),
            ("ns", 1e-9),
            ("us", 1e-6),
            ("µs", 1e-6),
            ("ms", 1e-3),
            ("min", 60.0),
            ("h", 3600.0),
            ("s", 1.0),
        ];
        positive(text, &units)
            .filter(|seconds| (LEAST..=MOST).contains(seconds))
            .map(Self)
            .ok_or(
                "expected a positive number with ns, us, ms or s, min or h, as in 1.6us, 1e-18 s to 1e18 s",
            )
    }
}

/// A length in micrometres: a number with its unit.
#[derive(Clone, Copy, Debug)]
pub struct Micrometres(pub f64);

impl FromStr for Micrometres {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [("nm", 1e-3), ("um", 1.0), ("µm", 1.0), ("mm", 1e3)];
        positive(text, &units)
            .map(Self)
            .ok_or("expected a positive number with nm or um, as in 0.25um")
    }
}

/// A positive number of seconds.
pub fn seconds(text: &str) -> Result<f64, &'static str> {
    let found = text.parse().ok().filter(|seconds: &f64| (LEAST..=MOST).contains(seconds));
    found.ok_or("expected a positive number of seconds, 1e-18 to 1e18")
}

/// Units of frequencies and rates.
const HERTZ: [(&str, f64); 5] = [("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0), ("", 1.0)];

/// A rate or bandwidth in hertz: a positive number, perhaps with its unit.
#[derive(Clone, Copy, Debug)]
pub struct Hertz(pub f64);

impl FromStr for Hertz {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        positive(text, &HERTZ)
            .map(Self)
            .ok_or("expected a positive number of Hz, or with kHz, MHz or GHz, as in 800MHz")
    }
}

impl Hertz {
    /// Reads a number with its unit, where hertz are no more likely than MHz.
    pub fn with_unit(text: &str) -> Result<Self, &'static str> {
        positive(text, &HERTZ[..HERTZ.len() - 1])
            .map(Self)
            .ok_or("expected a positive number with Hz, kHz, MHz or GHz, as in 800MHz")
    }
}

/// A frequency, or a rate that may be 0, in hertz: 0 or a positive number, perhaps with its unit.
#[derive(Clone, Copy, Debug)]
pub struct Frequency(pub f64);

impl FromStr for Frequency {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        quantity(text, &HERTZ)
            .filter(|hertz| *hertz >= 0.0)
            .map(|hertz| Self(hertz.abs()))
            .ok_or("expected 0 or a positive number of Hz, or with kHz, MHz or GHz, as in 800MHz")
    }
}

/// Reads a frequency of either sign in hertz, perhaps with its unit.
pub fn signed_frequency(text: &str) -> Result<f64, &'static str> {
    quantity(text, &HERTZ).ok_or("expected a number of Hz, or with kHz, MHz or GHz, as in -0.2MHz")
}

/// A rate in bytes a second: a number with its unit.
#[derive(Clone, Copy, Debug)]
pub struct BytesPerSecond(pub f64);

impl FromStr for BytesPerSecond {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Bits are the network's, eight of them a byte.
        let bits = [("Gb/s", 1e9), ("Gbps", 1e9), ("Mb/s", 1e6), ("Mbps", 1e6)];
        let bytes = [("GB/s", 1e9), ("MB/s", 1e6)];
        let found = positive(text, &bits).map(|bits| bits / 8.0).or_else(|| positive(text, &bytes));
        found.map(Self).ok_or("expected a positive number with Gb/s or GB/s, as in 400Gb/s")
    }
}

/// A positive [`quantity`].
fn positive(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    quantity(text, units).filter(|value| *value > 0.0)
}

/// Value of a finite number with one of the units: the first that the text ends in.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, worth) =
        units.iter().find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, worth)))?;
    let number = number.trim();
    // Powers of ten belong to the number's decimal digits, so that it is rounded once.
    let power = worth.log10().round();
    let value = match 10_f64.powf(power) == *worth && !number.contains(['e', 'E']) {
        true => format!("{number}e{power}").parse().ok()?,
        false => number.parse::<f64>().ok()? * worth,
    };
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        let seconds = |text: &str| text.parse::<Seconds>().unwrap().0;
        assert_eq!(["1.6us", "1.6 µs", "200ns"].map(seconds), [1.6e-6, 1.6e-6, 2e-7]);
        assert_eq!(["3s", "1.5h", "2min", "1fs"].map(seconds), [3.0, 5400.0, 120.0, 1e-15]);
        assert_eq!(["3.3ms", "0.7ps"].map(seconds), [3.3e-3, 0.7e-12]);
        let hertz = |text: &str| text.parse::<Hertz>().unwrap().0;
        assert_eq!(["800MHz", "1.4 GHz", "12", "5e3Hz"].map(hertz), [8e8, 1.4e9, 12.0, 5e3]);
        for text in ["", "s", "5", "-1s", "0s", "infs", "nans", "1 day", "1e-320s", "1e300s"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
        let rate = |text: &str| text.parse::<BytesPerSecond>().unwrap().0;
        assert_eq!(
            ["400Gb/s", "100 Gbps", "50GB/s", "8Mb/s"].map(rate),
            [5e10, 1.25e10, 5e10, 1e6]
        );
        for text in ["", "400", "0Gb/s", "-1GB/s", "4 lanes"] {
            assert!(text.parse::<BytesPerSecond>().is_err(), "{text}");
        }
        for text in ["", "Hz", "-1", "0", "inf", "1mHz", "1s"] {
            assert!(text.parse::<Hertz>().is_err(), "{text}");
        }
        assert_eq!(["400MHz", "400Hz"].map(|text| Hertz::with_unit(text).unwrap().0), [4e8, 400.0]);
        for text in ["400", "4e8", "", "Hz", "0MHz"] {
            assert!(Hertz::with_unit(text).is_err(), "{text}");
        }
        let frequency = |text: &str| text.parse::<Frequency>().unwrap().0;
        assert_eq!(
            ["0", "0Hz", "0.0 GHz", "0e3", "1.4GHz"].map(frequency),
            [0.0, 0.0, 0.0, 0.0, 1.4e9]
        );
        for text in ["", "Hz", "-1", "-0.1MHz", "inf", "nan", "0s", "1mHz"] {
            assert!(text.parse::<Frequency>().is_err(), "{text}");
        }
    }
}
