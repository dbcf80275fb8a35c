"""Photons of a PTU file to a curve on one core: corrust beside tttrlib and pycorrelate, whose answers are compared.

    python -m venv venv && venv/bin/pip install numpy numba tttrlib==0.26.2 pycorrelate==0.3
    corrust simulate --diffusion -o photons.ptu --plane --molecules 4 --brightness 250kHz --duration 100s
    venv/bin/python benches/tttrlib_photons.py photons.ptu [--corrust target/release/corrust]

One channel of a T3 file, lags of 12.5 ns (a pulse) and longer. tttrlib reads all photons into memory and
correlates their times (Wahl's algorithm); corrust correlates times or makes counts in whole pulses, whichever it
expects to be quicker, here with standard errors of 20 blocks. pycorrelate (Laurence's algorithm) counts the pairs of the times
that tttrlib has read, in bins between all lags. Seconds are of the process on a core, reading from the page cache; GB/s is bytes of
the file.
"""

import argparse
import os
import pathlib
import resource
import subprocess
import tempfile
import time

import numpy as np
import tttrlib

try:
    import pycorrelate
except ImportError:
    pycorrelate = None

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("file")
parser.add_argument("--corrust", default="target/release/corrust")
parser.add_argument("--pulses", type=int, default=80, help="pulses of corrust's instants in the second comparison")
parser.add_argument("--repeats", type=int, default=3)
arguments = parser.parse_args()
core = max(os.sched_getaffinity(0))
os.sched_setaffinity(0, {core})
size = os.path.getsize(arguments.file)
pathlib.Path(arguments.file).read_bytes()


def seconds(work):
    """CPU seconds of the quickest of some runs, and what the last gave."""
    found = []
    for _ in range(arguments.repeats):
        start = time.process_time()
        result = work()
        found.append(time.process_time() - start)
    return min(found), result


def command(*options):
    """CPU seconds of corrust autocorrelate, and its sums."""
    folder = tempfile.mkdtemp()
    sums = os.path.join(folder, "sums.npy")
    times = []
    for _ in range(arguments.repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [
                arguments.corrust, "autocorrelate", arguments.file, "-o", sums, "--device", "cpu",
                "--blocks", "20", "--curves", os.path.join(folder, "g.csv"), *options,
            ],
            check=True, capture_output=True, env={**os.environ, "RAYON_NUM_THREADS": "1"},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times), np.load(sums)


read, photons = seconds(lambda: tttrlib.TTTR(arguments.file, "PTU"))
macro = np.array(photons.macro_times)
channel = int(np.array(photons.routing_channels)[0])
period = photons.header.macro_time_resolution
print(f"{len(macro) / 1e6:.1f} M photons in {macro[-1] * period:.1f} s, {size / 1e9:.2f} GB")
print(f"tttrlib: reading {read:.2f} s, {size / read / 1e9:.2f} GB/s")


def wahl(pulses, groups):
    """Correlates times in units of some pulses."""
    correlator = tttrlib.Correlator(n_bins=16, n_casc=groups, method="wahl")
    correlator.set_macrotimes(macro // pulses, macro // pulses)
    correlator.set_weights(np.ones(len(macro)), np.ones(len(macro)))
    return np.array(correlator.x_axis), np.array(correlator.correlation)


def compare(pulses, groups):
    """Both curves with instants of some pulses."""
    theirs, (lags, values) = seconds(lambda: wahl(pulses, groups))
    ours, sums = command("--dwell", f"{pulses * period * 1e9:.3f}ns", "--groups", str(groups), "--lags", "16")
    times = macro // pulses
    instants = (int(macro[-1]) + 1) // pulses
    worst, compared = 0.0, 0
    for lag, value in zip(np.rint(lags).astype(np.int64), values):
        group = 0 if lag <= 16 else int(np.log2(lag / 16 + 1 - 1e-9))
        step = int(lag // 2**group - 16 * (2**group - 1) // 2**group)
        if lag == 0 or group > 4 or not 0 <= step < 16:
            continue
        bins = (instants >> group) - lag // 2**group
        mean = len(times) / ((int(times[-1]) - int(times[0])) / 2**group)
        worst = max(worst, abs(float(sums[0, group, step]) / bins / mean**2 / value - 1))
        compared += 1
    assert compared > 30 and worst < 1e-3, (compared, worst)
    print(
        f"instants of {pulses * period * 1e9:.1f} ns, {groups} groups of 16 lags: tttrlib {theirs:.2f} s and reading, "
        f"{size / (theirs + read) / 1e9:.3f} GB/s; corrust {ours:.2f} s in all, {size / ours / 1e9:.3f} GB/s, {len(macro) / ours / 1e6:.1f} M photons/s; "
        f"{(theirs + read) / ours:.1f} times; {compared} lags within {worst:.1e}"
    )


def laurence(groups):
    """Seconds of pycorrelate at lags of a pulse and longer, and the worst difference from sums of counts."""
    edges = np.unique(np.concatenate([16 * (2**k - 1) + 2**k * np.arange(17) for k in range(groups)]))[1:]
    times = macro.astype(np.int64)
    pycorrelate.pcorrelate(times[:1000], times[:1000], edges)  # compiles
    theirs, values = seconds(lambda: pycorrelate.pcorrelate(times, times, edges))
    options = ("--dwell", f"{period * 1e9:.3f}ns", "--groups", str(groups), "--lags", "16")
    counted, sums = command(*options, "--kernel", "counts")
    ours, by_times = command(*options)
    assert np.array_equal(sums, by_times)
    # Bins of a pulse are the same: pairs of photons that are so many pulses apart.
    worst = np.abs(values[:15] / sums[0, 0, 1:16] - 1).max()
    assert worst < 1e-9, worst
    print(
        f"instants of {period * 1e9:.1f} ns, {groups} groups of 16 lags: pycorrelate {theirs:.2f} s and reading; corrust {ours:.2f} s in "
        f"all, {len(macro) / ours / 1e6:.1f} M photons/s, by counts {counted:.2f} s; the same pairs at lags of a pulse"
    )


if pycorrelate is not None:
    laurence(10)
compare(1, 10)
compare(arguments.pulses, 12)
