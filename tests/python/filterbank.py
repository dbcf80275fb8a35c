"""What blimpy reads in a filterbank file, against NumPy's sums: run by tests/command/filterbank.rs."""

import json
import sys

import numpy
from blimpy import Waterfall

path, recording, array, chosen, step, bits, scale, *stokes = sys.argv[1:]
array = json.load(open(array))
x = numpy.load(recording).astype(float)
chosen = [int(i) for i in chosen.split(",")]
if stokes:
    # Inputs of X, then as many of Y, whose antennas are added.
    z = x[..., 0] + 1j * x[..., 1]
    half = len(chosen) // 2
    a, b = z[..., chosen[:half]], z[..., chosen[half:]]
    aa, bb, ab = abs(a) ** 2, abs(b) ** 2, a * b.conj()
    parameters = [aa + bb, aa - bb, ab + ab.conj(), -1j * (ab - ab.conj())]
    power = numpy.stack([p.real.sum(-1) for p in parameters], 1)
else:
    power = (x**2).sum(-1)[..., None, :, chosen].sum(-1)
step = int(step)
dumps = len(power) // step
power = power[: dumps * step].reshape(dumps, step, *power.shape[1:]).sum(1) * float(scale)

found = Waterfall(path)
header = found.header
assert header["nbits"] == int(bits) and header["nchans"] == power.shape[2] and header["nifs"] == power.shape[1]
assert header["tsamp"] == array["sample_time"] * step
assert numpy.isclose(header["fch1"], array["first_channel"] / 1e6)
assert numpy.isclose(header["foff"], array["channel_width"] / 1e6)
start = numpy.datetime64(array["start"].rstrip("Z"))
mjd = (start - numpy.datetime64("1858-11-17")) / numpy.timedelta64(1, "D")
assert abs(float(header["tstart"]) - mjd) < 1e-9, (header["tstart"], mjd)
data = found.data
if int(bits) < 32:
    power = numpy.clip(numpy.rint(power), 0, 2 ** int(bits) - 1)
assert data.shape == power.shape, (data.shape, power.shape)
assert numpy.array_equal(data, power.astype(data.dtype))
print(f"{data.size} samples are equal")
