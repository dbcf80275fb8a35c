//! Numbers in headers of text, in the notations of C and Fortran.

/// Largest whole number that every notation gives exactly: 2^53.
const EXACT: f64 = (1_u64 << 53) as f64;

/// A finite number: `1400`, `+1.4E+03`, `1.4D3`; [`None`] of anything else.
pub(super) fn real(text: &str) -> Option<f64> {
    let text = text.replace(['D', 'd'], "E");
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A whole number that is not negative: `512`, `512.0`, `5.12E+02`; [`None`] of anything else.
pub(super) fn whole(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| {
        let number = real(text)?;
        (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
    })
}

/// Degrees, or hours, of `[+-]dd:mm:ss.s`, or of a number alone; [`None`] of anything else.
pub(super) fn sexagesimal(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1.0, text),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = text.split(':').map(|part| real(part).filter(|part| *part >= 0.0));
    let whole = parts.next()??;
    let mut unit = 1.0;
    let rest = parts.try_fold(0.0, |sum, part| {
        unit /= 60.0;
        part.filter(|&part| part < 60.0 && unit > 1e-4).map(|part| sum + part * unit)
    })?;
    Some(sign * (whole + rest))
}

/// A direction of right ascension and declination in degrees, if both are there and can be.
pub(super) fn direction(ra: Option<f64>, dec: Option<f64>) -> Option<[f64; 2]> {
    let direction = ra.zip(dec).map(|(ra, dec)| [ra, dec]);
    direction.filter(|[ra, dec]| (0.0..=360.0).contains(ra) && dec.abs() <= 90.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_is_read() {
        for text in ["512", "512.0", "5.12E+02", "5.12e2", "5.12D+02", "+512", "512."] {
            assert_eq!(whole(text), Some(512), "{text}");
        }
        assert_eq!(whole("18446744073709551615"), Some(u64::MAX));
        for text in ["", "-1", "0.5", "1e300", "inf", "NaN", "0x10", "8 9"] {
            assert_eq!(whole(text), None, "{text}");
        }
        assert_eq!(real("-1.5D-1"), Some(-0.15));
        assert_eq!((real("inf"), real("nan"), real("")), (None, None, None));
    }

    #[test]
    fn angles_are_read() {
        assert_eq!(sexagesimal("12:30:36"), Some(12.51));
        assert_eq!(sexagesimal("-00:30"), Some(-0.5));
        assert_eq!(sexagesimal("+83.5"), Some(83.5));
        for text in ["", "unset", "1:60:00", "1:-2", "1:2:3:4", "--1"] {
            assert_eq!(sexagesimal(text), None, "{text}");
        }
    }
}
