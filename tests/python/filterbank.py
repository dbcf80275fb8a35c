"""What blimpy reads in a filterbank file, against NumPy's sums: run by tests/command/filterbank.rs."""

import json
import sys

import numpy
from blimpy import Waterfall

path, recording, array, chosen, step, bits, scale = sys.argv[1:]
array = json.load(open(array))
x = numpy.load(recording).astype(float)
power = (x**2).sum(-1)[..., [int(i) for i in chosen.split(",")]].sum(-1)
step = int(step)
dumps = len(power) // step
power = power[: dumps * step].reshape(dumps, step, -1).sum(1) * float(scale)

found = Waterfall(path)
header = found.header
assert header["nbits"] == int(bits) and header["nchans"] == power.shape[1] and header["nifs"] == 1
assert header["tsamp"] == array["sample_time"] * step
assert numpy.isclose(header["fch1"], array["first_channel"] / 1e6)
assert numpy.isclose(header["foff"], array["channel_width"] / 1e6)
start = numpy.datetime64(array["start"].rstrip("Z"))
mjd = (start - numpy.datetime64("1858-11-17")) / numpy.timedelta64(1, "D")
assert abs(float(header["tstart"]) - mjd) < 1e-9, (header["tstart"], mjd)
data = found.data[:, 0]
if int(bits) < 32:
    power = numpy.clip(numpy.rint(power), 0, 2 ** int(bits) - 1)
assert data.shape == power.shape, (data.shape, power.shape)
assert numpy.array_equal(data, power.astype(data.dtype))
print(f"{data.size} samples are equal")
