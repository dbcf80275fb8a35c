//! Prototype filters: the window of a plain FFT, or a windowed sinc of several taps.
//!
//! `h[n] = c w(u) sinc((n + 1/2 - K P / 2) / K)`, `u = (n + 1/2) / (K P)`, with `sum h^2 = 1`. All are made
//! in f64 of additions, multiplications and square roots alone, so that every machine has the same ones.

use std::{f64::consts::PI, fmt, str::FromStr};

use crate::error::{Error, Result};

/// The most that a Kaiser window's beta may be.
const MAX_BETA: f64 = 100.0;

/// The window of a prototype.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Window {
    /// `hann`: `sin^2(pi u)`.
    #[default]
    Hann,
    /// `hamming`: `0.54 - 0.46 cos(2 pi u)`.
    Hamming,
    /// `rect`: none.
    Rect,
    /// `kaiser:BETA`: `I0(BETA sqrt(1 - (2 u - 1)^2)) / I0(BETA)`.
    Kaiser(f64),
}

impl Window {
    /// The window at `u`, 0 to 1.
    fn at(self, u: f64) -> f64 {
        match self {
            Self::Hann => 0.5 - 0.5 * cosine(2.0 * u),
            Self::Hamming => 0.54 - 0.46 * cosine(2.0 * u),
            Self::Rect => 1.0,
            Self::Kaiser(beta) => {
                let x = 2.0 * u - 1.0;
                bessel(beta * (1.0 - x * x).sqrt()) / bessel(beta)
            }
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hann => f.pad("hann"),
            Self::Hamming => f.pad("hamming"),
            Self::Rect => f.pad("rect"),
            Self::Kaiser(beta) => f.pad(&format!("kaiser:{beta}")),
        }
    }
}

impl FromStr for Window {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "hann" => return Ok(Self::Hann),
            "hamming" => return Ok(Self::Hamming),
            "rect" => return Ok(Self::Rect),
            _ => {}
        }
        let beta = text.strip_prefix("kaiser:").and_then(|beta| beta.parse().ok());
        beta.filter(|beta| (0.0..=MAX_BETA).contains(beta)).map(Self::Kaiser).ok_or_else(|| {
            Error::invalid(format!(
                "unknown window {text:?}: expected hann, hamming, rect or kaiser:BETA with BETA from 0 to \
                 {MAX_BETA}"
            ))
        })
    }
}

/// The prototype of `residues` x `taps` samples: of one tap the window alone.
pub fn prototype(window: Window, residues: usize, taps: usize) -> Vec<f64> {
    let length = (residues * taps) as f64;
    let at = |n: usize| {
        let n = n as f64 + 0.5;
        let t = (n - length / 2.0) / residues as f64;
        let sinc = if taps == 1 { 1.0 } else { sinc(t) };
        window.at(n / length) * sinc
    };
    let mut prototype: Vec<f64> = (0..residues * taps).map(at).collect();
    normalise(&mut prototype);
    prototype
}

/// Scales a prototype to `sum h^2 = 1`.
pub(super) fn normalise(prototype: &mut [f64]) {
    let power: f64 = prototype.iter().map(|h| h * h).sum();
    let scale = 1.0 / power.sqrt();
    prototype.iter_mut().for_each(|h| *h *= scale);
}

/// `sin(pi t) / (pi t)`.
pub(crate) fn sinc(t: f64) -> f64 {
    if t == 0.0 { 1.0 } else { cosine(t - 0.5) / (PI * t) }
}

/// `cos(pi x)`.
pub(crate) fn cosine(x: f64) -> f64 {
    // To -1..=1, then to the quarter around zero.
    let x = x - 2.0 * (x / 2.0).round();
    let x = x.abs();
    if x <= 0.25 {
        series(PI * x, 0)
    } else if x <= 0.75 {
        series(PI * (0.5 - x), 1)
    } else {
        -series(PI * (1.0 - x), 0)
    }
}

/// The series of cosine (`first` = 0) or sine (1), for at most a quarter of pi.
fn series(x: f64, first: u32) -> f64 {
    let mut term = if first == 0 { 1.0 } else { x };
    let mut sum = 0.0;
    // The term of x^24 is below 10^-26.
    for power in (first..24).step_by(2) {
        sum += term;
        term *= -x * x / f64::from((power + 1) * (power + 2));
    }
    sum
}

/// The modified Bessel function of the first kind and order zero.
fn bessel(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut sum, mut term, mut k) = (0.0, 1.0, 0.0);
    while term > sum * 1e-18 {
        sum += term;
        k += 1.0;
        term *= quarter / (k * k);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_those_of_the_library() {
        for step in -1000..=1000 {
            let x = f64::from(step) * 0.01;
            assert!((cosine(x) - (PI * x).cos()).abs() < 1e-14, "{x}");
        }
        // Abramowitz and Stegun, table 9.8.
        assert!((bessel(1.0) - 1.266_065_877_752_008_4).abs() < 1e-14);
        assert!((bessel(10.0) / 2_815.716_628_466_254 - 1.0).abs() < 1e-14);
    }

    #[test]
    fn prototypes_are_symmetric_and_of_power_one() {
        for window in [Window::Hann, Window::Hamming, Window::Rect, Window::Kaiser(6.5)] {
            for (residues, taps) in [(8, 1), (12, 4), (48, 3), (64, 8)] {
                let h = prototype(window, residues, taps);
                let power: f64 = h.iter().map(|h| h * h).sum();
                assert!((power - 1.0).abs() < 1e-12);
                for (a, b) in h.iter().zip(h.iter().rev()) {
                    assert!((a - b).abs() < 1e-15, "{window}");
                }
            }
        }
        let flat = prototype(Window::Rect, 16, 1);
        assert!(flat.iter().all(|h| (h - 0.25).abs() < 1e-15));
    }

    #[test]
    fn windows_round_trip() {
        for window in [Window::Hann, Window::Hamming, Window::Rect, Window::Kaiser(8.25)] {
            assert_eq!(window.to_string().parse::<Window>().unwrap(), window);
        }
        for text in ["kaiser", "kaiser:-1", "kaiser:NaN", "kaiser:101", "Hann", ""] {
            let error = text.parse::<Window>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
