"""What pyuvdata makes of raw voltages that became UVH5: run by tests/recordings/fx.rs, ends with an error where it finds
something else."""

import sys

import numpy
from uvh5 import read

phased, drift = (read(path) for path in sys.argv[1:3])
width = 1e6 / 128
for data in (phased, drift):
    assert data.Nants_data == 4 and data.Nbls == 10 and data.Ntimes == 3, data
    assert numpy.allclose(data.freq_array, 100e6 + width * numpy.arange(64), rtol=0, atol=1e-3)
    # Half a filter bank less half a spectrum after the first sample, then half a dump of 781 spectra.
    seconds = (8 - 1) * 128e-6 / 2 + (numpy.arange(3) + 0.5) * 781 * 128e-6
    start = 2461041.5  # 2026-01-01
    apart = (numpy.unique(data.time_array) - start) * 86400 - seconds
    assert abs(apart).max() < 1e-3, apart
assert {entry["cat_type"] for entry in phased.phase_center_catalog.values()} == {"sidereal"}
assert {entry["cat_type"] for entry in drift.phase_center_catalog.values()} == {"unprojected"}
cross = phased.ant_1_array != phased.ant_2_array
sums = phased.data_array[cross][:, 8:56].sum(axis=(1, 2))
assert abs(numpy.angle(sums)).max() < 0.01, numpy.angle(sums)
moving = drift.data_array[cross][:, 8:56].sum(axis=(1, 2))
assert abs(numpy.angle(moving)).max() > 0.1, "without delays the source is somewhere else"
print("phased")
