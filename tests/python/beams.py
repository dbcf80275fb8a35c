"""What baseband reads of beams, against those of a NumPy file [B][F][P][T]: run by tests/command/beamform.rs.

    beams.py J.npy j.vdif START RATE       frames of VDIF, thread P b + p, the channels together
    beams.py J.npy j.raw START RATE BEAM   blocks of GUPPI RAW of a beam
"""

import sys

import numpy
from baseband import guppi, vdif
from baseband.base.encoding import EIGHT_BIT_1_SIGMA, FOUR_BIT_1_SIGMA

array, path, start, rate, *beam = sys.argv[1:]
beams = numpy.load(array)
is_small = beams.dtype == numpy.uint8
if is_small:
    beams = beams.view("int8")
    beams = numpy.stack([beams >> 4, beams << 4 >> 4], -1)
values = beams[..., 0] + 1j * beams[..., 1].astype(float)
if path.endswith(".vdif"):
    with vdif.open(path, "rs", squeeze=False) as stream:
        # Decoded values are codes around their middle, in standard deviations; 8 bits have no code of zero.
        sigma, middle = (FOUR_BIT_1_SIGMA, 0) if is_small else (EIGHT_BIT_1_SIGMA, 0.5 + 0.5j)
        found = stream.read() * sigma - middle
        times = stream.start_time, stream.sample_rate
    expected = values.transpose(3, 0, 2, 1).reshape(values.shape[3], -1, values.shape[1])
else:
    with guppi.open(path, "rs", squeeze=False) as stream:
        found = stream.read()
        times = stream.start_time, stream.sample_rate
    expected = values[int(beam[0])].transpose(2, 1, 0)
assert abs((times[0] - type(times[0])(start)).sec) < 1e-8, times
assert abs(times[1].to_value("Hz") - float(rate)) < 1e-6 * float(rate), times
assert found.shape[1:] == expected.shape[1:] and 0 < len(found) <= len(expected), (found.shape, expected.shape)
assert numpy.abs(found - expected[: len(found)]).max() < 1e-3
print(f"{len(found)} times are equal")
