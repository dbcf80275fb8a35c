"""CHIME/ARO's channels as baseband reads them: run by tests/formats/baseband.rs."""

import sys

import astropy.units as u
import numpy
from baseband import vdif
from baseband.data import SAMPLE_AROCHIME_VDIF

with vdif.open(SAMPLE_AROCHIME_VDIF, "rs", sample_rate=800 * u.MHz / 2048) as file:
    samples = file.read()
# In steps of a level.
steps = numpy.rint(numpy.stack([samples.real, samples.imag], -1) * 2.95).astype(numpy.int8)
numpy.save(sys.argv[1], steps)
print(SAMPLE_AROCHIME_VDIF)
