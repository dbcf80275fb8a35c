//! TEMPO's `polyco.dat`: a pulsar's phase at a telescope, as polynomials of time.
//!
//! Source: the TEMPO manual, "Polynomial coefficients of predicted phase" (tempo.sourceforge.net, ref_man_sections/
//! tz-polyco.txt). Of each block
//!
//! ```text
//! line 1   pulsar, date, UTC, TMID (MJD), DM, Doppler shift, log10 of the fit's rms
//! line 2   RPHASE, F0 (Hz), telescope, span (minutes), number of coefficients, frequency (MHz), of binaries two more
//! then     coefficients, three a line, exponents by D or E
//!
//! DT    = (T - TMID) 1440
//! phase = RPHASE + DT 60 F0 + c1 + c2 DT + c3 DT^2 + ...
//! ```

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use corrust_host::{Error, Result, text::read_most};

use crate::array::time::{day, of_day};

/// Most bytes of a file: some ten thousand blocks, years of a pulsar.
const MOST_BYTES: u64 = 16 << 20;

/// Most coefficients of a block; TEMPO makes at most 15.
const MOST_COEFFICIENTS: usize = 32;

/// Seconds past the end of a block that it still predicts: blocks of files meet within the digits of their numbers.
const SLACK: f64 = 1.0;

/// A pulsar's phases at a telescope.
///
/// ```
/// use corrust_recordings::formats::{moment, polyco::Polyco};
///
/// let text = "\
/// 1937+21    1-MAR-26  120000.00   61100.50000000000            71.020000 -0.500 -6.000
///         1234567.250000  641.928222127829    7   60    3  1400.000
///   0.00000000000000000D+00  1.20000000000000000D+00  0.00000000000000000D+00
/// ";
/// let polyco = Polyco::parse(text)?;
/// assert_eq!((polyco.dispersion(), polyco.frequency()), (71.02, 1.4e9));
/// let found = polyco.at(moment("2026-03-01T12:00:00")?, 0.0)?;
/// assert_eq!(found.phase, 0.25);
/// assert!((found.frequency - 641.928222127829 - 1.2 / 60.0).abs() < 1e-12);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Polyco {
    path: Option<PathBuf>,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq)]
struct Block {
    /// The middle: Modified Julian Day, and seconds of it.
    day: i64,
    second: f64,
    /// Seconds from there to either end.
    half: f64,
    /// Fraction of RPHASE, turns.
    phase: f64,
    /// F0, hertz.
    frequency: f64,
    coefficients: Vec<f64>,
    dispersion: f64,
    observed: f64,
}

/// A pulsar's phase at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Fraction of a turn, 0 to below 1.
    pub phase: f64,
    /// Turns a second.
    pub frequency: f64,
}

impl Polyco {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::File`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // The length of a pipe or a device is unknown.
        let text = read_most(path, MOST_BYTES)?;
        let text = String::from_utf8_lossy(&text);
        let blocks = blocks(&text).map_err(|reason| Error::file(path, reason))?;
        Ok(Self { path: Some(path.to_owned()), blocks })
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the line.
    pub fn parse(text: &str) -> Result<Self> {
        let blocks = blocks(text).map_err(|reason| Error::invalid(format!("polyco: {reason}")))?;
        Ok(Self { path: None, blocks })
    }

    /// The dispersion measure, pc / cm^3, that the phases were predicted with.
    pub fn dispersion(&self) -> f64 {
        self.blocks[0].dispersion
    }

    /// The frequency whose phases they are, hertz; infinite where the file has 0.
    pub fn frequency(&self) -> f64 {
        let megahertz = self.blocks[0].observed;
        if megahertz > 0.0 { megahertz * 1e6 } else { f64::INFINITY }
    }

    /// The highest frequency of the pulsar, hertz.
    pub fn fastest(&self) -> f64 {
        self.blocks.iter().map(|block| block.frequency).fold(0.0, f64::max)
    }

    /// The phase `seconds` after `start`.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when no block is of that moment.
    pub fn at(&self, start: Timestamp, seconds: f64) -> Result<Phase> {
        let of_start = (day(start), start.as_second().rem_euclid(86_400) as f64);
        let second = f64::from(start.subsec_nanosecond()) / 1e9;
        let since = |block: &Block| {
            let days = (of_start.0 - block.day) as f64;
            (days * 86_400.0 + (of_start.1 - block.second)) + second + seconds
        };
        let nearest = self.blocks.iter().map(|block| (since(block), block));
        let (since, block) = nearest
            .min_by(|(a, one), (b, other)| (a.abs() / one.half).total_cmp(&(b.abs() / other.half)))
            .expect("a file has blocks");
        if since.abs() > block.half + SLACK {
            return Err(self.error(format!(
                "predicts phases from MJD {:.5} to {:.5}: expected those of MJD {:.5}",
                self.blocks.iter().map(|block| block.mjd(-block.half)).fold(f64::MAX, f64::min),
                self.blocks.iter().map(|block| block.mjd(block.half)).fold(f64::MIN, f64::max),
                block.mjd(since)
            )));
        }
        let minutes = since / 60.0;
        let (mut sum, mut slope) = (0.0, 0.0);
        for coefficient in block.coefficients.iter().rev() {
            slope = slope * minutes + sum;
            sum = sum * minutes + coefficient;
        }
        let turns = block.phase + (since * block.frequency).rem_euclid(1.0) + sum.rem_euclid(1.0);
        Ok(Phase { phase: turns.rem_euclid(1.0), frequency: block.frequency + slope / 60.0 })
    }

    fn error(&self, reason: String) -> Error {
        match &self.path {
            Some(path) => Error::file(path, reason),
            None => Error::invalid(format!("polyco {reason}")),
        }
    }
}

impl Block {
    /// The Modified Julian Day `seconds` after the middle.
    fn mjd(&self, seconds: f64) -> f64 {
        self.day as f64 + (self.second + seconds) / 86_400.0
    }
}

/// Lines of a file and their numbers, from 1.
type Lines<'a> = std::iter::Peekable<Box<dyn Iterator<Item = (usize, &'a str)> + 'a>>;

fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let lines = (1_usize..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let mut lines: Lines<'_> = (Box::new(lines) as Box<dyn Iterator<Item = _>>).peekable();
    let mut blocks = Vec::new();
    while lines.peek().is_some() {
        blocks.push(block(&mut lines)?);
    }
    if blocks.is_empty() {
        return Err("has no lines: expected blocks of TEMPO's polyco.dat".to_owned());
    }
    Ok(blocks)
}

fn block<'a>(lines: &mut Lines<'a>) -> Result<Block, String> {
    let (number, first) = next(lines, "line 1")?;
    let fields = words(number, first, 5)?;
    let (day, fraction) = split(number, "TMID", fields[3])?;
    // Times of the calendar's years.
    if of_day(day, 0, 0).is_none() || day < 0 {
        return Err(format!("line {number}: TMID {}: expected a Modified Julian Day", fields[3]));
    }
    let dispersion = float(number, "DM", fields[4])?;
    let (number, second) = next(lines, "line 2")?;
    let fields = words(number, second, 6)?;
    let (_, phase) = split(number, "RPHASE", fields[0])?;
    let frequency = float(number, "F0", fields[1])?;
    let minutes = float(number, "span", fields[3])?;
    if !(minutes > 0.0 && minutes <= 1e6) {
        return Err(format!("line {number}: a span of {minutes} minutes: expected 1 to 1000000"));
    }
    let count = fields[4].parse().ok().filter(|count| (1..=MOST_COEFFICIENTS).contains(count));
    let count = count.ok_or_else(|| {
        format!("line {number}: {} coefficients: expected 1 to {MOST_COEFFICIENTS}", fields[4])
    })?;
    let observed = float(number, "frequency", fields[5])?;
    let mut coefficients = Vec::with_capacity(count);
    while coefficients.len() < count {
        let (number, line) = next(lines, "the coefficients")?;
        for word in line.split_whitespace() {
            coefficients.push(float(number, "a coefficient", word)?);
        }
    }
    if coefficients.len() > count {
        return Err(format!(
            "block of MJD {day}: {} coefficients in its lines, expected {count}",
            coefficients.len()
        ));
    }
    let (second, half) = (fraction * 86_400.0, minutes * 30.0);
    Ok(Block { day, second, half, phase, frequency, coefficients, dispersion, observed })
}

/// The next line and its number.
fn next<'a>(lines: &mut Lines<'a>, what: &str) -> Result<(usize, &'a str), String> {
    lines.next().ok_or_else(|| format!("ends before {what} of its last block"))
}

fn words(number: usize, line: &str, least: usize) -> Result<Vec<&str>, String> {
    let words: Vec<_> = line.split_whitespace().collect();
    if words.len() < least {
        let found = words.len();
        return Err(format!(
            "line {number}: {found} words, expected at least {least} of a polyco file"
        ));
    }
    Ok(words)
}

fn float(number: usize, what: &str, word: &str) -> Result<f64, String> {
    let value = word.replace(['D', 'd'], "e").parse().ok();
    let value = value.filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| format!("line {number}: {what} {word:?}: expected a number"))
}

/// The whole part of a decimal number, rounded down, and its fraction, to all digits.
fn split(number: usize, what: &str, word: &str) -> Result<(i64, f64), String> {
    let wrong = || format!("line {number}: {what} {word:?}: expected a decimal number");
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().map_err(|_| wrong())? };
    let fraction: f64 = format!("0.{fraction}0").parse().map_err(|_| wrong())?;
    Ok(match (sign, fraction > 0.0) {
        (-1, true) => (-whole - 1, 1.0 - fraction),
        (sign, _) => (sign * whole, fraction),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0531+21     7-SEP-26   10000.00   61290.04166666667             56.771000  0.123 -7.412
   12345678901.750000   29.600000000000    1   30    6  1400.000
  1.00000000000000000D-02  2.00000000000000000D-03 -3.00000000000000000D-05
  4.00000000000000000E-07  0.00000000000000000D+00  0.00000000000000000D+00
0531+21     7-SEP-26   13000.00   61290.06250000000             56.771000  0.123 -7.412
           17.125000   29.600000000000    1   30    2  1400.000 0.1234 0.5678
  0.00000000000000000D+00  0.00000000000000000D+00
";

    #[test]
    fn phases_are_those_of_the_polynomials() {
        let polyco = Polyco::parse(TEXT).unwrap();
        assert_eq!(polyco.blocks.len(), 2);
        let start = crate::array::time::moment("2026-09-07T01:00:00").unwrap();
        // Ten minutes before and after the first middle, to which the file's digits are a millisecond.
        for minutes in [-10.0_f64, 0.0, 10.0] {
            let found = polyco.at(start, 60.0 * minutes).unwrap();
            let dt = minutes - 0.00000000000333 * 1440.0;
            let sum = 0.01 + 0.002 * dt - 3e-5 * dt * dt + 4e-7 * dt * dt * dt;
            let expected = (0.75 + dt * 60.0 * 29.6 + sum).rem_euclid(1.0);
            assert!((found.phase - expected).abs() < 1e-6, "{minutes}: {found:?}, {expected}");
            let slope = (0.002 - 6e-5 * dt + 12e-7 * dt * dt) / 60.0;
            assert!((found.frequency - 29.6 - slope).abs() < 1e-12);
        }
        let second = polyco.at(start, 1800.0).unwrap();
        assert_eq!((second.phase, second.frequency), (0.125, 29.6));
        let error = polyco.at(start, 7200.0).unwrap_err().to_string();
        assert!(error.contains("from MJD 61290.03125 to 61290.07292"), "{error}");
        assert!(error.contains("expected those of MJD 61290.12500"), "{error}");
    }

    #[test]
    fn anything_else_is_one_sentence() {
        for (from, to, expected) in [
            ("61290.04166666667", "9e9", "line 1: TMID \"9e9\""),
            ("61290.04166666667", "99999999999", "expected a Modified Julian Day"),
            ("   30    6", "   30  600", "line 2: 600 coefficients: expected 1 to 32"),
            ("   30    6", "    0    6", "line 2: a span of 0 minutes"),
            ("   30    6", "   30    5", "6 coefficients in its lines, expected 5"),
            ("56.771000  0.123", "x 0.123", "line 1: DM \"x\""),
            ("4.00000000000000000E-07", "inf", "line 4: a coefficient \"inf\""),
            ("  0.00000000000000000D+00  0.00000000000000000D+00\n", "", "expected"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            assert_ne!(text, TEXT);
            let error = Polyco::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Polyco::parse("").unwrap_err().to_string().contains("has no lines"));
        assert!(Polyco::parse("a b\n").unwrap_err().to_string().contains("line 1: 2 words"));
        for end in 0..TEXT.len() {
            drop(Polyco::parse(&TEXT[..end]));
        }
    }
}
