"""Judges what corrust made of photons, in the folder of the first argument, by ptufile, tttrlib, multipletau and
PyCorrFit."""

import json
import pathlib
import sys

import multipletau
import numpy as np
import ptufile
import pycorrfit
import scipy.optimize
import tttrlib

folder = pathlib.Path(sys.argv[1])


def counts(times, units, shape):
    """Counts of photons in instants of `units` units."""
    instants = times // units
    return np.bincount(instants[instants < shape], minlength=shape)


# Counts of every kind of file, by both readers.
for case in json.loads((folder / "cases.json").read_text()):
    ours = np.load(folder / case["counts"])
    path = str(folder / case["file"])
    with ptufile.PtuFile(path) as ptu:
        records = ptu.decode_records()
    # It counts the channels of a PicoHarp's T3 from 0.
    first = 1 if case["pico_t3"] else 0
    theirs = tttrlib.TTTR(path, "PTU")
    times, channels = np.array(theirs.macro_times), np.array(theirs.routing_channels)
    photons = np.array(theirs.event_types) == 0
    for sensor, channel in enumerate(case["channels"]):
        chosen = (records["channel"] == channel - first) & (records["marker"] == 0)
        found = counts(records["time"][chosen].astype(np.int64), case["dwell"], len(ours))
        if case["syncs_in"] == channel:
            # To ptufile a pulse of the sync input is a photon of channel 0.
            assert (found >= ours[:, sensor]).all(), (case, channel)
        else:
            assert (found == ours[:, sensor]).all(), (case, channel)
        # tttrlib takes markers of PicoHarp's T3 for photons of channel 15.
        found = counts(times[photons & (channels == channel)], case["dwell"], len(ours))
        assert (found == ours[:, sensor]).all(), (case, channel, "tttrlib")
    print("counts equal:", case["file"])

# Curves: lags that both have are those in bins of equal length, on the same grid.
theirs = tttrlib.TTTR(str(folder / "units.ptu"), "PTU")
times = np.array(theirs.macro_times)
correlator = tttrlib.Correlator(channels=([0], [0]), tttr=theirs, n_bins=16, n_casc=5, method="wahl")
period = theirs.header.macro_time_resolution
sums = np.load(folder / "units.npy")[0]
compared = 0
for lag, value in zip(np.rint(np.array(correlator.x_axis) / period).astype(int), correlator.correlation):
    group = 0 if lag <= 16 else int(np.log2(lag / 16 + 1 - 1e-9))
    step = lag // 2**group - 16 * (2**group - 1) // 2**group
    if lag == 0 or lag > 480 or not 0 <= step < 16:
        continue
    # They divide by all photons, from the first to the last of them, and the bins that have a delayed one.
    bins = (len(np.load(folder / "units_counts.npy")) >> group) - lag // 2**group
    duration = (int(times[-1]) - int(times[0])) / 2**group
    mean = len(times) / duration
    ours = float(sums[group, step]) / bins / mean**2
    assert abs(ours / value - 1) < 1e-4, (lag, ours, value)
    compared += 1
assert compared > 60, compared
print("curves equal to 1e-4:", compared, "lags")

# Sums of counts above 255, exactly.
wide = np.load(folder / "wide.npy")
assert wide.max() > 60_000
points = np.load(folder / "wide_sums.npy")[0]
expected = multipletau.autocorrelate(wide.astype(np.float64), m=16, deltat=1, normalize=False)
compared = 0
for place, (lag, value) in enumerate(expected):
    group = 0 if lag <= 16 else int(np.ceil(np.log2(lag / 16)))
    average = float(points[place]) / 4.0**group * (len(wide) / (len(wide) >> group))
    assert abs(average / value - 1) < 1e-13, (lag, average, value)
    compared += 1
assert compared > 100, compared
print("sums of large counts equal:", compared, "lags")

# PyCorrFit reads curves, weights and traces; a fit with these weights gives what was simulated.
description = json.loads((folder / "photons.json").read_text())
made = description["diffusion"]
read = pycorrfit.readfiles.openCSV(folder / "g.csv")
assert read["Type"] == ["AC"] and read["Weight Name"] == ["ext. blocks"], (read["Type"], read["Weight Name"])
tau, g = read["Correlation"][0].T
sigma = read["Weight"][0]
trace = read["Trace"][0]
assert len(tau) == len(g) == len(sigma) > 100 and (sigma > 0).all()
rate = description["photons"] / made["seconds"] / 1e3
assert abs(trace[:, 1].mean() / rate - 1) < 0.01, (trace[:, 1].mean(), rate)
# Milliseconds.
assert np.isclose(tau[0], 1e-3, rtol=1e-3), tau[0]


def model(tau, number, time, offset):
    ratio = made["axial_ratio"]
    return offset + 1 / number / (1 + tau / time) / np.sqrt(1 + tau / time / ratio**2)


fitted = tau < 30
found, covariance = scipy.optimize.curve_fit(
    model, tau[fitted], g[fitted], p0=[1, 0.05, 0], sigma=sigma[fitted], absolute_sigma=True
)
number, time, _ = found
print(f"fitted: N {number:.3f}, tau_D {time * 1e3:.1f} us")
assert abs(number / made["molecules"] - 1) < 0.08, number
assert abs(time / (made["diffusion_time"] * 1e3) - 1) < 0.08, time
crossed = pycorrfit.readfiles.openCSV(folder / "cross_pair_0_1.csv")
assert crossed["Type"] == ["CC"] and len(crossed["Trace"][0]) == 2
print("all well")
