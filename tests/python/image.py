"""An image by direct Fourier transform of pyuvdata's data and uvw shows the sources of a simulation: run by
tests/formats/simulate_vdif.rs, ends with an error where it finds them elsewhere."""

import json
import sys

import numpy
from uvh5 import read

LIGHT = 299_792_458.0
PIXELS = 57
CHANNELS = 32  # that are averaged


def waves_of(data):
    """Baselines in waves, `[row][u, v, w]`, and their visibilities, averaged over some channels."""
    cross = data.ant_1_array != data.ant_2_array
    edge = 64  # of the band, where a real band is empty
    frequencies = data.freq_array[edge:-edge].reshape(-1, CHANNELS).mean(1)
    visibilities = data.data_array[cross, edge:-edge, 0]
    visibilities = visibilities.reshape(len(visibilities), -1, CHANNELS).mean(2)
    waves = (data.uvw_array[cross][:, None] * frequencies[:, None] / LIGHT).reshape(-1, 3)
    return waves, visibilities.ravel()


def undone(waves, l, m):
    """What undoes the phases of sources, `[source][row]`: as pyuvdata's phase() undoes exp(2 pi i w)."""
    places = numpy.stack([l, m, numpy.sqrt(1 - l**2 - m**2) - 1], -1)
    return numpy.exp(-2j * numpy.pi * (places @ waves.T))


def image(waves, visibilities, width):
    """Direction cosines of the pixels of `width` radians around the phase centre, and the power in each."""
    axis = numpy.linspace(-width / 2, width / 2, PIXELS)
    l, m = (grid.ravel() for grid in numpy.meshgrid(axis, axis, indexing="ij"))
    parts = [slice(first, first + 256) for first in range(0, l.size, 256)]
    return l, m, numpy.concatenate([(undone(waves, l[part], m[part]) @ visibilities).real for part in parts])


def cosines(ra, dec, centre):
    """Where a source is in an image around a centre, all in radians."""
    ra0, dec0 = centre
    return (
        numpy.cos(dec) * numpy.sin(ra - ra0),
        numpy.sin(dec) * numpy.cos(dec0) - numpy.cos(dec) * numpy.sin(dec0) * numpy.cos(ra - ra0),
    )


drift, phased = read(sys.argv[1]), read(sys.argv[2])
sources = [(numpy.radians(s["ra"]), numpy.radians(s["dec"])) for s in json.load(open(sys.argv[3]))["sources"]]
# pyuvdata phases the drifting file beside the first source, so that a mirrored image would show.
beside = (sources[0][0] + numpy.radians(0.1), sources[0][1] - numpy.radians(0.15))
drift.phase(lon=beside[0], lat=beside[1], phase_frame="icrs", cat_name="beside", epoch="J2000")
width = numpy.radians(1.4)
pixel = width / (PIXELS - 1)
for data, centre in ((drift, beside), (phased, sources[0])):
    waves, visibilities = waves_of(data)
    for number, source in enumerate(sources):
        expected = numpy.array(cosines(*source, centre))
        assert max(abs(expected)) < width / 2, "in the image"
        l, m, power = image(waves, visibilities, width)
        peak = power.argmax()
        found = numpy.array([l[peak], m[peak]])
        what = f"source {number} at {numpy.degrees(expected)}, found at {numpy.degrees(found)}"
        assert max(abs(found - expected)) < 1.5 * pixel, what
        # The next one is looked for in what is left.
        own = undone(waves, *expected)
        visibilities = visibilities - (own * visibilities).mean() * own.conj()
print("the sources are where they are")
