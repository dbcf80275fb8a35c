//! Delays of a plane wave at antennas that turn with Earth.
//!
//! The model includes:
//!
//! 1. The direction of the phase centre, ICRS, on its way to Earth: deflection by the Sun, aberration by
//!    Earth's orbit, precession, nutation and frame bias (IAU 2006/2000A), to the intermediate system (CIRS):
//!    IERS Conventions 2010, chapter 5; SOFA's `apci13`, `atciqz`.
//! 2. Earth's rotation angle of UT1 (IERS 2010, equation 5.15; `era00`) and polar motion (`pom00`), to the
//!    terrestrial system (ITRS). UT1 - UTC and the pole are [`EarthOrientation`].
//! 3. Antennas at east, north and up of a location on the WGS84 ellipsoid (`gd2gc`).
//! 4. The way that an antenna makes while the wave goes to it from the location or the other way, the
//!    "retarded baseline" (Thompson, Moran, Swenson, 3rd edition, section 9.3; IERS 2010, section 11.1):
//!    `d = (b . s) / (c + s . v)`, with the antenna's vector `b` from the location, its velocity `v` by
//!    Earth's rotation, and the unit vector `s` towards the source as seen from Earth's centre.
//!
//! It leaves out: the atmosphere, tides, clocks and cables, parallax, the Sun's gravity on a wave between
//! the antennas (below 1 ps on 100 km when the Sun is not near).

use std::ops::Range;

use corrust_host::{Error, Result, channelise::DelayModel};
use jiff::Timestamp;
use sofars::{
    astro::{IauAstrom, apci13, atciqz},
    coords::gd2gc,
    erst::era00,
    pnp::{c2tcio, pom00, sp00},
    vm::s2c,
};

use crate::array::{
    file::{Array, Field, Location},
    pointing::SPEED_OF_LIGHT,
    polynomials::{Polynomial, Polynomials},
    tai::Moment,
};

/// Pieces of all inputs' delays, at most.
const MOST_PIECES: usize = 1 << 22;

/// Radians per second by which Earth turns (the derivative of its rotation angle).
const EARTH_RATE: f64 = 7.292_115_146_706_98e-5;

/// SOFA's number of the ellipsoid WGS84.
const WGS84: i32 = 1;

/// Degree of the polynomials that are made.
const DEGREE: usize = 5;

/// Longest piece that is made, in seconds: delays that change more slowly than by Earth's rotation are as good as constant.
const LONGEST_PIECE: f64 = 3600.0;

/// Shortest, in seconds.
const SHORTEST_PIECE: f64 = 1.0;

/// Radians of an arc second.
const ARCSECOND: f64 = std::f64::consts::PI / (180.0 * 3600.0);

/// Earth's orientation, as the IERS publishes it for each day. Zero is within 0.9 s and 0.6 arc seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EarthOrientation {
    /// UT1 - UTC in seconds.
    pub dut1: f64,
    /// x and y of the pole, in arc seconds.
    pub pole: [f64; 2],
}

/// Delays of the antennas of an array for a source that stands still among the stars.
#[derive(Clone, Debug)]
pub struct Geometric {
    start: Moment,
    /// Right ascension and declination in radians, ICRS.
    source: [f64; 2],
    orientation: EarthOrientation,
    /// Each input's position from the location, and its velocity by Earth's rotation: metres and metres per
    /// second, in ITRS.
    inputs: Vec<Antenna>,
}

#[derive(Clone, Copy, Debug)]
struct Antenna {
    baseline: [f64; 3],
    velocity: [f64; 3],
}

impl Geometric {
    /// Delays of inputs whose antennas are at `positions` (metres east, north and up of `location`) for a
    /// `source` (right ascension and declination in degrees, ICRS), from `start` on.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a start before 1900 or after 2099, a latitude or declination beyond 90 degrees,
    /// UT1 - UTC of 1 s or more, or numbers that are not finite.
    ///
    /// ```
    /// use corrust_host::channelise::DelayModel;
    /// use corrust_recordings::array::{EarthOrientation, Geometric, file::Location};
    ///
    /// let location = Location { latitude: 19.1, longitude: 74.05, altitude: 650.0 };
    /// let positions = [[0.0, 0.0, 0.0], [14_000.0, 0.0, 0.0]]; // the second 14 km east
    /// let start = "2026-03-20T14:46:00Z".parse()?;
    /// let earth = EarthOrientation::default();
    /// let model = Geometric::new(location, &positions, [123.4, 48.2], start, earth)?;
    /// assert_eq!(model.delay(0, 60.0), Some(0.0));
    /// assert!(model.delay(1, 60.0).unwrap().abs() < 14_000.0 / 299_792_458.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(
        location: Location,
        positions: &[[f64; 3]],
        source: [f64; 2],
        start: Timestamp,
        orientation: EarthOrientation,
    ) -> Result<Self> {
        let Location { latitude, longitude, altitude } = location;
        if !(latitude.abs() <= 90.0 && longitude.is_finite() && altitude.is_finite()) {
            return Err(Error::invalid(format!(
                "latitude {latitude}, longitude {longitude}, altitude {altitude}: expected degrees, -90 \
                 to 90 and any, and metres"
            )));
        }
        let [ra, dec] = source;
        if !(ra.is_finite() && dec.abs() <= 90.0) {
            return Err(Error::invalid(format!(
                "right ascension {ra}, declination {dec}: expected degrees, any and -90 to 90"
            )));
        }
        orientation.check()?;
        if !Moment::from(start).is_known() {
            return Err(Error::invalid(format!("start {start}: expected a time of 1900 to 2099")));
        }
        let (longitude, latitude) = (longitude.to_radians(), latitude.to_radians());
        let centre = gd2gc(WGS84, longitude, latitude, altitude)
            .map_err(|_| Error::invalid(format!("{location:?}: expected a place on Earth")))?;
        let axes = axes(longitude, latitude);
        let antenna = |(input, position): (usize, &[f64; 3])| {
            if position.iter().any(|part| !part.is_finite()) {
                return Err(Error::invalid(format!(
                    "input {input}, position {position:?}: expected metres east, north and up"
                )));
            }
            let baseline: [f64; 3] =
                std::array::from_fn(|part| dot(*position, axes.map(|axis| axis[part])));
            let [x, y] = [0, 1].map(|part| centre[part] + baseline[part]);
            Ok(Antenna { baseline, velocity: [-EARTH_RATE * y, EARTH_RATE * x, 0.0] })
        };
        let inputs = positions.iter().enumerate().map(antenna).collect::<Result<_>>()?;
        let source = source.map(f64::to_radians);
        Ok(Self { start: start.into(), source, orientation, inputs })
    }

    /// Delays for the phase centre of an array, whose recording has so many inputs and starts at `start`, or
    /// when the array says.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when the array lacks its location, antennas, phase centre, or
    /// the start and there is no other; [`Error::Invalid`] as for [`new`](Self::new).
    pub fn of(array: &Array, inputs: usize, start: Option<Timestamp>) -> Result<Self> {
        let (Some(location), Some(antennas), Some(centre), Some(start)) =
            (array.location, &array.antennas, &array.phase_center, start.or(array.start))
        else {
            let needed = [Field::Location, Field::Antennas, Field::PhaseCenter, Field::Start];
            let needed = if start.is_some() { &needed[..3] } else { &needed };
            return Err(array.lacks(needed, "delays"));
        };
        let positions = array.inputs(inputs)?;
        let positions: Vec<_> =
            positions.iter().map(|input| antennas[input.antenna].position).collect();
        let orientation = EarthOrientation {
            dut1: array.dut1.unwrap_or_default(),
            pole: array.polar_motion.unwrap_or_default(),
        };
        Self::new(location, &positions, [centre.ra, centre.dec], start, orientation)
            .map_err(|error| array.error(error))
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The unit vector towards the source in ITRS, as seen from Earth's centre; [`None`] where Earth's orbit
    /// is not known.
    fn direction(&self, seconds: f64) -> Option<[f64; 3]> {
        let EarthOrientation { dut1, pole: [x, y] } = self.orientation;
        let moment = self.start.after(seconds);
        if !(moment.is_known() && seconds.is_finite()) {
            return None;
        }
        let (day, fraction) = moment.tt();
        let mut astrometry = IauAstrom::default();
        apci13(day, fraction, &mut astrometry, &mut 0.0);
        let [ra, dec] = self.source;
        let (ra, dec) = atciqz(ra, dec, &mut astrometry);
        let pole = pom00(x * ARCSECOND, y * ARCSECOND, sp00(day, fraction));
        let (day, fraction) = moment.ut1(dut1);
        let identity = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let to_earth = c2tcio(&identity, era00(day, fraction), &pole);
        let source = s2c(ra, dec);
        Some(to_earth.map(|row| dot(row, source)))
    }

    /// Polynomials of the delays from `seconds.start` to `seconds.end`, all inputs cut at the same times;
    /// nowhere off by more than about `tolerance` seconds, or what double precision holds.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a range that is empty, a tolerance that is not positive, or more than 2^22 pieces in all.
    pub fn polynomials(&self, seconds: Range<f64>, tolerance: f64) -> Result<Polynomials> {
        let Range { start, end } = seconds;
        if !(start < end && start.is_finite() && end.is_finite()) {
            return Err(Error::invalid(format!(
                "delays from {start} to {end} s: expected an end after the start"
            )));
        }
        if [start, end].iter().any(|&seconds| !self.start.after(seconds).is_known()) {
            return Err(Error::invalid(format!(
                "delays from {start} to {end} s after the start: expected times of 1900 to 2099"
            )));
        }
        if tolerance.is_nan() || tolerance <= 0.0 {
            return Err(Error::invalid(format!(
                "delays to {tolerance} s: expected a positive tolerance"
            )));
        }
        let count = ((end - start) / self.piece_length(tolerance)).ceil().max(1.0) as usize;
        if count.saturating_mul(self.inputs.len()) > MOST_PIECES {
            return Err(Error::invalid(format!(
                "delays of {} inputs from {start} to {end} s in {count} pieces each: expected at most \
                 {MOST_PIECES} in all",
                self.inputs.len()
            )));
        }
        let cut = |piece: usize| match piece {
            piece if piece == count => end,
            piece => start + (end - start) * piece as f64 / count as f64,
        };
        let mut inputs = vec![Vec::with_capacity(count); self.inputs.len()];
        for piece in 0..count {
            let (start, end) = (cut(piece), cut(piece + 1));
            let nodes = nodes();
            let mut directions = [[0.0; 3]; DEGREE + 1];
            for (node, direction) in nodes.iter().zip(&mut directions) {
                let seconds = start + (end - start) * node;
                *direction = self.direction(seconds).expect("between moments that are known");
            }
            for (antenna, pieces) in self.inputs.iter().zip(&mut inputs) {
                let delays = directions.map(|direction| antenna.delay(direction));
                let mut scale = 1.0;
                let coefficients = interpolate(nodes, delays).map(|coefficient| {
                    let scaled = coefficient * scale;
                    scale /= end - start;
                    scaled
                });
                pieces.push(Polynomial { start, end, coefficients: coefficients.to_vec() });
            }
        }
        Polynomials::new(inputs)
    }

    /// The longest pieces on which polynomials are as good as `tolerance`: a delay of up to `A` that turns
    /// with Earth is interpolated at Chebyshev's nodes to `A (w h)^(n+1) / (2^n (n+1)!)` on a piece of length
    /// `2 h`.
    fn piece_length(&self, tolerance: f64) -> f64 {
        let longest = self.inputs.iter().map(|antenna| dot(antenna.baseline, antenna.baseline));
        let amplitude = longest.fold(0.0, f64::max).sqrt() / SPEED_OF_LIGHT;
        let factorial: f64 = (1..=DEGREE + 1).map(|k| k as f64).product();
        let share = tolerance * f64::from(1 << DEGREE) * factorial / amplitude;
        let half = share.powf(1.0 / (DEGREE + 1) as f64) / EARTH_RATE;
        (2.0 * half).clamp(SHORTEST_PIECE, LONGEST_PIECE)
    }
}

impl DelayModel for Geometric {
    /// Some tens of microseconds of work; [`Polynomials`] are quicker.
    fn delay(&self, input: usize, seconds: f64) -> Option<f64> {
        let antenna = self.inputs.get(input)?;
        Some(antenna.delay(self.direction(seconds)?))
    }

    fn longest(&self, input: usize) -> f64 {
        let square = |antenna: &Antenna| dot(antenna.baseline, antenna.baseline);
        // Antennas move at some millionths of the speed of light.
        self.inputs.get(input).map_or(0.0, square).sqrt() / SPEED_OF_LIGHT * 1.001
    }
}

impl Antenna {
    /// The delay in seconds of a source in this direction.
    fn delay(&self, direction: [f64; 3]) -> f64 {
        dot(self.baseline, direction) / (SPEED_OF_LIGHT + dot(self.velocity, direction))
    }
}

impl EarthOrientation {
    fn check(&self) -> Result<()> {
        let Self { dut1, pole } = *self;
        if dut1.is_nan() || dut1.abs() >= 1.0 {
            return Err(Error::invalid(format!(
                "UT1 - UTC of {dut1} s: expected less than 1 s either way"
            )));
        }
        // The pole has never been further than 0.6 arc seconds: this is another unit.
        if !pole.iter().all(|part| part.abs() < 10.0) {
            return Err(Error::invalid(format!(
                "pole at {pole:?}: expected x and y in arc seconds"
            )));
        }
        Ok(())
    }
}

/// Unit vectors east, north and up in ITRS.
fn axes(longitude: f64, latitude: f64) -> [[f64; 3]; 3] {
    let (sin_lon, cos_lon) = longitude.sin_cos();
    let (sin_lat, cos_lat) = latitude.sin_cos();
    [
        [-sin_lon, cos_lon, 0.0],
        [-sin_lat * cos_lon, -sin_lat * sin_lon, cos_lat],
        [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat],
    ]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Chebyshev's nodes of a polynomial between 0 and 1.
fn nodes() -> [f64; DEGREE + 1] {
    std::array::from_fn(|node| {
        let angle = std::f64::consts::PI * (node as f64 + 0.5) / (DEGREE + 1) as f64;
        0.5 - 0.5 * angle.cos()
    })
}

/// Coefficients of the polynomial through values at nodes, by Newton's divided differences.
fn interpolate(nodes: [f64; DEGREE + 1], values: [f64; DEGREE + 1]) -> [f64; DEGREE + 1] {
    let mut differences = values;
    for order in 1..=DEGREE {
        for node in (order..=DEGREE).rev() {
            differences[node] =
                (differences[node] - differences[node - 1]) / (nodes[node] - nodes[node - order]);
        }
    }
    // Horner's scheme in the nodes, multiplied out: the sum so far times (x - node), plus a difference.
    let mut coefficients = [0.0; DEGREE + 1];
    for order in (0..=DEGREE).rev() {
        for power in (1..=DEGREE).rev() {
            coefficients[power] = coefficients[power - 1] - nodes[order] * coefficients[power];
        }
        coefficients[0] = differences[order] - nodes[order] * coefficients[0];
    }
    coefficients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_is_exact_for_its_degree() {
        let coefficients = [3.0, -1.0, 0.5, 0.25, -2.0, 1.0];
        let nodes = nodes();
        let values = nodes.map(|x| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c));
        for (found, expected) in interpolate(nodes, values).iter().zip(coefficients) {
            assert!((found - expected).abs() < 1e-11, "{found} for {expected}");
        }
    }
}
