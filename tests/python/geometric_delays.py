"""Delays of a plane wave by astropy: JSON of an array and times as the argument, JSON of delays out.

d solves  c d = r_i . s(t - d) - r_0 . s(t):  the wave that passes the location at t passes antenna i at
t - d, when Earth has turned the antenna to another place. s is astropy's direction in ITRS.
"""

import json
import sys

import numpy as np
from astropy import units as u
from astropy.coordinates import ITRS, EarthLocation, SkyCoord
from astropy.time import Time, TimeDelta
from astropy.utils import iers

SPEED_OF_LIGHT = 299792458.0

case = json.loads(sys.argv[1])


class Constant(iers.IERS):
    """UT1 - UTC and a pole that stay, so that only the model is judged."""

    def ut1_utc(self, jd1, jd2=0.0, return_status=False):
        values = np.full(np.shape(jd1.jd1 if isinstance(jd1, Time) else jd1), case["dut1"]) * u.s
        return (values, np.zeros(values.shape, int)) if return_status else values

    def pm_xy(self, jd1, jd2=0.0, return_status=False):
        shape = np.shape(jd1.jd1 if isinstance(jd1, Time) else jd1)
        x, y = (np.full(shape, part) * u.arcsec for part in case["pole"])
        return (x, y, np.zeros(shape, int)) if return_status else (x, y)


iers.conf.auto_download = False
iers.earth_orientation_table.set(Constant())

latitude, longitude = np.radians(case["latitude"]), np.radians(case["longitude"])
location = EarthLocation.from_geodetic(
    case["longitude"] * u.deg, case["latitude"] * u.deg, case["altitude"] * u.m, ellipsoid="WGS84"
)
centre = np.array([location.x.to_value(u.m), location.y.to_value(u.m), location.z.to_value(u.m)])
east = np.array([-np.sin(longitude), np.cos(longitude), 0])
up = np.array(
    [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
)
north = np.cross(up, east)
source = SkyCoord(case["ra"] * u.deg, case["dec"] * u.deg, frame="icrs")
start = Time(case["start"], scale="utc")
times = start + TimeDelta(np.array(case["seconds"]), format="sec")


def direction(times):
    """Unit vectors [time][xyz]."""
    return source.transform_to(ITRS(obstime=times)).cartesian.xyz.value.T


at_location = direction(times)
delays = []
for position in case["positions"]:
    baseline = position[0] * east + position[1] * north + position[2] * up
    delay = np.zeros(len(times))
    for _ in range(4):
        moved = direction(times - TimeDelta(delay, format="sec"))
        delay = (at_location @ baseline + (moved - at_location) @ (centre + baseline)) / SPEED_OF_LIGHT
    delays.append(delay.tolist())
json.dump(delays, sys.stdout)
