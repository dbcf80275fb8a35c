//! The sky as seen from the array: sidereal time, apparent places and baselines, as pyuvdata defines
//! them.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use jiff::Timestamp;
use sofars::{
    astro::{atco13, atoc13},
    coords::gd2gc,
    erst::gst06a,
    pnp::sp00,
    ts::{taitt, utctai, utcut1},
};

use crate::array::file::{Location, PhaseCenter};

/// SOFA's number of the ellipsoid WGS84.
const WGS84: i32 = 1;

/// Unix times between which there is UTC with whole leap seconds, and Earth's orbit is known: 1972 to 2100.
const KNOWN: std::ops::Range<i64> = 63_072_000..4_102_444_800;

/// Julian date of Unix time 0.
const UNIX_0: f64 = 2_440_587.5;

const DAY: f64 = 86_400.0;

/// A Julian date in UTC, in two parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment(f64, f64);

impl Moment {
    /// The moment `seconds` after `start`; [`None`] outside of 1972 to 2100.
    pub(crate) fn after(start: Timestamp, seconds: f64) -> Option<Self> {
        let whole = seconds.floor();
        let second = start.as_second().checked_add(whole as i64)?;
        let fraction = f64::from(start.subsec_nanosecond()) * 1e-9 + (seconds - whole);
        if !KNOWN.contains(&second) {
            return None;
        }
        let (day, second) = (second.div_euclid(86_400), second.rem_euclid(86_400));
        Some(Self(UNIX_0 + day as f64, (second as f64 + fraction) / DAY))
    }

    pub(crate) fn julian_date(self) -> f64 {
        self.0 + self.1
    }
}

/// A place on Earth from which the sky is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// Radians.
    pub latitude: f64,
    longitude: f64,
    altitude: f64,
    /// UT1 minus UTC, in seconds.
    dut1: f64,
}

/// Apparent place of a phase centre at a moment, in radians.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Apparent {
    pub ra: f64,
    pub dec: f64,
    /// Angle of the frame of the catalogue.
    pub angle: f64,
}

impl Site {
    /// The site; [`None`] where there is no such place.
    pub(crate) fn new(location: &Location, dut1: f64) -> Option<Self> {
        let Location { latitude, longitude, altitude } = *location;
        let [longitude, latitude] = [longitude, latitude].map(f64::to_radians);
        gd2gc(WGS84, longitude, latitude, altitude).ok()?;
        Some(Self { latitude, longitude, altitude, dut1 })
    }

    /// From east, north and up to the axes of ITRS.
    pub(crate) fn to_earth(self, [east, north, up]: [f64; 3]) -> [f64; 3] {
        let (sin_lon, cos_lon) = self.longitude.sin_cos();
        let (sin_lat, cos_lat) = self.latitude.sin_cos();
        let outward = cos_lat * up - sin_lat * north;
        [
            cos_lon * outward - sin_lon * east,
            sin_lon * outward + cos_lon * east,
            cos_lat * north + sin_lat * up,
        ]
    }

    /// Local apparent sidereal time in radians; [`None`] where SOFA does not know the moment.
    pub(crate) fn sidereal_time(self, moment: Moment) -> Option<f64> {
        let (tai, tai_fraction) = utctai(moment.0, moment.1).ok()?;
        let tt = taitt(tai, tai_fraction).ok()?;
        let ut1 = utcut1(moment.0, moment.1, self.dut1).ok()?;
        let greenwich = gst06a(ut1.0, ut1.1, tt.0, tt.1);
        Some((greenwich + sp00(tt.0, tt.1) + self.longitude).rem_euclid(TAU))
    }

    /// Apparent direction of `center`; [`None`] where SOFA does not know the moment.
    pub(crate) fn apparent(self, center: &PhaseCenter, moment: Moment) -> Option<Apparent> {
        let Self { latitude, longitude, altitude, dut1 } = self;
        let [ra, dec] = [center.ra, center.dec].map(f64::to_radians);
        let (.., dec, ra, origin) = atco13(
            ra, dec, 0.0, 0.0, 0.0, 0.0, moment.0, moment.1, dut1, longitude, latitude, altitude,
            0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
        )
        .ok()?;
        // The angle of the frame over one degree of declination.
        let back = |ra: f64, dec: f64| {
            // Over the pole.
            let (ra, dec) = if dec > FRAC_PI_2 {
                (ra + PI, PI - dec)
            } else if dec < -FRAC_PI_2 {
                (ra + PI, -PI - dec)
            } else {
                (ra, dec)
            };
            atoc13(
                "r", ra, dec, moment.0, moment.1, dut1, longitude, latitude, altitude, 0.0, 0.0,
                0.0, 0.0, 0.0, 0.0,
            )
            .ok()
        };
        let half = 0.5_f64.to_radians();
        let (south, north) = (back(ra, dec - half)?, back(ra, dec + half)?);
        let angle = -position_angle(south, north);
        Some(Apparent { ra: (ra - origin).rem_euclid(TAU), dec, angle })
    }

    /// u, v and w, in metres, of a baseline in ITRS for a phase centre at a sidereal time.
    pub(crate) fn uvw(
        self,
        baseline: [f64; 3],
        apparent: &Apparent,
        sidereal_time: f64,
    ) -> [f64; 3] {
        let [x, y, z] = baseline;
        let (sin_h, cos_h) = (sidereal_time - apparent.ra - self.longitude).sin_cos();
        let (sin_d, cos_d) = apparent.dec.sin_cos();
        let outward = cos_h * x - sin_h * y;
        let u = sin_h * x + cos_h * y;
        let v = cos_d * z - sin_d * outward;
        let w = cos_d * outward + sin_d * z;
        let (sin, cos) = apparent.angle.sin_cos();
        [cos * u - sin * v, sin * u + cos * v, w]
    }
}

/// The angle, from north through east, in which `to` lies as seen from `from`.
fn position_angle(from: (f64, f64), to: (f64, f64)) -> f64 {
    let (sin, cos) = (to.0 - from.0).sin_cos();
    let y = sin * to.1.cos();
    let x = to.1.sin() * from.1.cos() - to.1.cos() * from.1.sin() * cos;
    y.atan2(x)
}
