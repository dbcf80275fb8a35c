//! Numbers as people read them.

use std::fmt::Display;

/// A number of things, as in "1 beam" and "2 beams".
pub fn count(number: impl Display, thing: &str) -> String {
    let number = number.to_string();
    let ending = match (&number[..], thing) {
        ("1", _) => "",
        (_, "dish") => "es",
        _ => "s",
    };
    format!("{number} {thing}{ending}")
}

/// Prefixes of units, with the powers of ten that they stand for.
const PREFIXES: [(i32, &str); 9] =
    [(12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""), (-3, "m"), (-6, "u"), (-9, "n"), (-12, "p")];

/// The prefix of a number's magnitude, and its power of ten.
fn prefix(value: f64) -> (i32, &'static str) {
    // 999.95 is "1.00 k" with three digits.
    let least = |power: i32| 0.9995 * 10_f64.powi(power);
    let found = PREFIXES.into_iter().find(|(power, _)| value.abs() >= least(*power));
    match found {
        Some(found) => found,
        None if value.abs() > 0.0 => PREFIXES[PREFIXES.len() - 1],
        // Zero, and no number.
        None => (0, ""),
    }
}

/// A number with three significant digits and the prefix of its magnitude, for a unit to follow: "12.3 G", "48.3 u".
pub fn si(value: f64) -> String {
    let (power, prefix) = prefix(value);
    format!("{} {prefix}", digits(value / 10_f64.powi(power)))
}

/// A time, with its unit: "48.3 us"; seconds from one on.
pub fn seconds(value: f64) -> String {
    match value.abs() >= 1.0 {
        true => format!("{} s", digits(value)),
        false => format!("{}s", si(value)),
    }
}

/// A number with three significant digits, where it has that many: "0.0195", "2.42e-9".
pub fn digits(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        return format!("{value:.2e}");
    }
    let decimals = if value == 0.0 { 0 } else { (2 - power_of_ten(value, 3)).max(0) };
    format!("{value:.*}", decimals as usize)
}

/// The power of ten of a number's first digit, after it is rounded to so few.
fn power_of_ten(number: f64, digits: usize) -> i32 {
    let text = format!("{number:.*e}", digits - 1);
    text.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0)
}

/// A value with its standard error, both rounded to two digits of the error, and the unit: "48.31 +- 0.93 us". Seconds have
/// the prefix of their magnitude. Without an error (NaN) the value has four digits.
pub fn uncertain(value: f64, error: f64, unit: &str) -> String {
    let (power, prefix) = match unit {
        "s" => prefix(value.abs().max(error)),
        _ => (0, ""),
    };
    let unit = format!("{prefix}{unit}");
    let (value, error) = (value / 10_f64.powi(power), error / 10_f64.powi(power));
    let first = |number: f64| power_of_ten(number, 2);
    let text = match error.is_finite() && error > 0.0 {
        true => match 1 - first(error) {
            decimals @ 0..=6 => format!("{value:.0$} +- {error:.0$}", decimals as usize),
            decimals if decimals < 0 => {
                let step = 10_f64.powi(-decimals);
                format!("{} +- {}", (value / step).round() * step, (error / step).round() * step)
            }
            decimals => {
                let power = first(value.abs().max(error));
                let (value, error) = (value / 10_f64.powi(power), error / 10_f64.powi(power));
                let decimals = (decimals + power).max(0) as usize;
                format!("({value:.decimals$} +- {error:.decimals$})e{power}")
            }
        },
        false if value == 0.0 => "0".to_owned(),
        false => match 3 - first(value) {
            decimals @ 0..=7 => format!("{value:.0$}", decimals as usize),
            _ => format!("{value:.3e}"),
        },
    };
    format!("{text} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_follow_the_magnitude() {
        let all = [12.34e9, 999.96, 1e15, 0.5, 48.3e-6, 2.4e-15, 0.0];
        let expected = ["12.3 G", "1.00 k", "1000 T", "500 m", "48.3 u", "0.00240 p", "0 "];
        assert_eq!(all.map(si), expected);
        assert_eq!([86400.0, 0.25, 1.6e-6].map(seconds), ["86400 s", "250 ms", "1.60 us"]);
        assert_eq!([0.0195, 2.42e-9, 0.0].map(digits), ["0.0195", "2.42e-9", "0"]);
    }

    #[test]
    fn values_have_two_digits_of_their_errors() {
        assert_eq!(uncertain(48.3123e-6, 0.9321e-6, "s"), "48.31 +- 0.93 us");
        assert_eq!(uncertain(323.4, 6.31, "um^2/s"), "323.4 +- 6.3 um^2/s");
        assert_eq!(uncertain(1.23456, 0.000999, ""), "1.2346 +- 0.0010");
        assert_eq!(uncertain(123_456.0, 2345.0, "Hz"), "123500 +- 2300 Hz");
        assert_eq!(uncertain(4.831e-9, 9.3e-11, ""), "(4.831 +- 0.093)e-9");
        // An error above its value keeps the value's place.
        assert_eq!(uncertain(1e-6, 2.5e-3, "s"), "0.0 +- 2.5 ms");
        assert_eq!(uncertain(5.0, f64::NAN, ""), "5.000");
        assert_eq!(uncertain(5e-5, f64::NAN, "s"), "50.00 us");
        assert_eq!(uncertain(0.0, f64::NAN, "s"), "0 s");
        assert_eq!(uncertain(2.5e-9, f64::NAN, ""), "2.500e-9");
    }
}
