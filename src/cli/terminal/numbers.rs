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

/// A number with three significant digits and the prefix of its magnitude, as in "12.3 G".
pub fn si(value: f64) -> String {
    const PREFIXES: [(f64, &str); 5] =
        [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, " ")];
    let (unit, prefix) =
        PREFIXES.into_iter().find(|(unit, _)| value >= *unit).unwrap_or((1.0, " "));
    format!("{}{prefix}", digits(value / unit))
}

/// A number with three significant digits, where it has that many.
pub fn digits(value: f64) -> String {
    let decimals = if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).max(0) };
    format!("{value:.*}", decimals as usize)
}
