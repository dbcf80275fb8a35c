"""kotekan's kernels of CHORD: baseband beamformer (after Smith 2022), FRB beams on a grid, upchanneliser.

The FRB kernel's order of weights is not documented: they are alike here, and small, so that no sum is beyond f16.
"""

import re
import struct

import cupy as cp
import numpy as np

from common import Failed, Kernel, address, copies, nibbles, random_bytes, random_nibbles, timed

DISHES = 512


def measure(folder, rng):
    """Figures of the three kernels."""
    folder = folder / "lib" / "cuda" / "kernels"
    yield beamform(folder / "BasebandBeamformer_chord.ptx", rng)
    yield beams_on_a_grid(folder / "FRBBeamformer_chord.ptx", rng)
    yield upchannelise(folder / "Upchannelizer_chord_U16.ptx", rng)


def fields(array):
    """The structure that Julia passes for an array: address, bytes, elements, elements."""
    return struct.pack("<4Q", address(array), array.nbytes, array.nbytes // 4, array.nbytes // 4)


class Julia:
    """A kernel that Julia made: launchers of arrays, its states of exceptions, and of the threads' own reports."""

    def __init__(self, path, blocks, warps, shared):
        image = path.read_bytes()
        name = re.search(rb"\.visible \.entry\s+([\w$]+)", image).group(1).decode()
        self.kernel, self.grid, self.block = Kernel(image, name, shared), (blocks, 1, 1), (32, warps, 1)
        self.exception = cp.zeros(4096, np.uint8)
        self.reports = cp.full(blocks * warps * 32, -1, np.int32)

    def launcher(self, *arrays):
        state = struct.pack("<2Q", address(self.exception), 0)
        parameters = [state, *(fields(array) for array in (*arrays, self.reports))]
        launch = self.kernel.launcher(self.grid, self.block, *parameters)
        launch.arrays = arrays
        return launch

    def check(self):
        if (self.reports != 0).any():
            raise Failed("not every thread ended well")


def shifted(x, bits):
    """Integers in float64 divided by 2^bits, rounded half up."""
    return cp.floor((x + 2.0 ** (bits - 1)) / 2.0**bits)


def beamform(path, rng):
    """512 dishes to 96 beams, 16 channels, 2 polarisations, 32768 time samples: int8 phases, ci4 voltages and beams."""
    beams, channels, times, first_shift, groups = 96, 16, 32768, 3, 4
    phases = random_bytes(rng, (channels, 2, beams, DISHES, 2))
    voltages = random_nibbles(rng, (times, channels, 2, DISHES))
    shifts = rng.integers(10, 14, size=(channels, 2, beams), dtype=np.int32)
    found = cp.full((beams, channels, 2, times), 0x55, np.uint8)
    kernel = Julia(path, 512, 24, 67712)
    launches = [kernel.launcher(phases, copy, shifts, found) for copy in copies(voltages)]
    launches[0]()
    kernel.check()
    for channel in range(channels):
        for polarisation in range(2):
            # A group of dishes is shifted before groups are added, as `julia/cxx/bb.cxx` has it.
            a = phases[channel, polarisation].astype(np.float64)
            a = (a[..., 0] + 1j * a[..., 1]).reshape(beams, groups, -1).transpose(1, 0, 2)
            e = nibbles(voltages[:, channel, polarisation]).reshape(times, groups, -1).transpose(1, 2, 0)
            products = cp.matmul(a, e)
            rest = (shifts[channel, polarisation] - first_shift).astype(np.float64)[:, None]
            parts = []
            for part in (products.real, products.imag):
                part = shifted(shifted(part, first_shift).sum(0), rest)
                parts.append(cp.clip(part, -7, 7).astype(np.int8))
            expected = (parts[0] & 15 | parts[1] << 4).view(np.uint8)
            wrong = int((expected != found[:, channel, polarisation]).sum())
            if wrong:
                raise Failed(f"beamformer: {wrong} of {expected.size} samples of channel {channel} are wrong")
    time = timed(launches)
    operations = 8 * DISHES * beams * 2 * channels * times
    return {
        "case": "beamform",
        "sizes": {"D": DISHES, "B": beams, "C": channels, "P": 2, "T": times},
        **time,
        "rate": operations / time["seconds"],
        "unit": "operations/s",
        "checked": "all samples of all beams, exact",
    }


def beams_on_a_grid(path, rng):
    """512 dishes on 24 x 24 places to 48 x 48 beams, 256 channels, 2064 time samples: powers of 40 in f16."""
    side, channels, times, block = 24, 256, 2064, 40
    blocks, gain = times // block, 1 / (8 * block)
    order = np.random.default_rng(1).permutation(side * side)
    places = np.stack([order // side, order % side], -1).astype(np.int16)
    weights = cp.zeros((channels, 2, side, side, 2), np.float16)
    weights[..., 0] = 1 / 16
    voltages = random_nibbles(rng, (times, channels, 2, DISHES))
    powers = cp.full((channels, blocks, 2 * side, 2 * side), np.nan, np.float16)
    kernel = Julia(path, channels, 24, 76896)
    launches = [kernel.launcher(cp.asarray(places), weights, copy, powers) for copy in copies(voltages)]
    launches[0]()
    kernel.check()
    worst = 0.0
    for channel in (0, 101, channels - 1):
        grid = cp.zeros((blocks * block, 2, side, side), np.complex128)
        rows, columns = places[:DISHES].T
        grid[:, :, rows, columns] = nibbles(voltages[: blocks * block, channel]) / 16
        # Phases grow along the first axis of places, and fall along the second.
        beams = cp.fft.fft(cp.fft.ifft(grid, 2 * side, axis=2) * 2 * side, 2 * side, axis=3)
        expected = (cp.abs(beams) ** 2).sum(1).reshape(blocks, block, 2 * side, 2 * side).sum(1)
        expected = gain * expected.transpose(0, 2, 1)
        difference = powers[channel].astype(np.float64) - expected
        error = float(cp.sqrt((difference**2).sum() / (expected**2).sum()))
        if not error <= 2e-3:
            raise Failed(f"beams on a grid: relative error {error:.1e} in channel {channel}")
        worst = max(worst, error)
    time = timed(launches)
    return {
        "case": "beams on a grid",
        "sizes": {"D": DISHES, "M": side, "C": channels, "P": 2, "T": times},
        **time,
        "rate": DISHES * channels * 2 * times / time["seconds"],
        "unit": "samples/s",
        "checked": f"three channels, relative error {worst:.1e}",
    }


def upchannelise(path, rng):
    """512 dishes, 16 channels to 16 subchannels each, 2 polarisations, 4 taps, 32768 time samples: ci4 in and out."""
    channels, factor, taps, ring, times = 16, 16, 4, 131072, 32768
    spectra = times // factor - (taps - 1)
    voltages = random_nibbles(rng, (ring, channels, 2, DISHES))
    gains = rng.uniform(2, 5, size=channels * factor).astype(np.float16)
    found = cp.full((ring // factor, channels * factor, 2, DISHES), 0x55, np.uint8)
    kernel = Julia(path, 128, 16, 69888)
    bounds = [cp.full(1, value, np.int32) for value in (0, times, 0, spectra)]
    launches = [kernel.launcher(*bounds, gains, voltages, found)]
    launches[0]()
    kernel.check()
    s = cp.arange(taps * factor)
    middle = s - (taps * factor - 1) / 2
    # Its window has sin(t) / t, without pi.
    window = cp.cos(np.pi * middle / (taps * factor + 1)) ** 2 * cp.sin(middle / factor) / (middle / factor)
    window /= window.sum()
    u = cp.arange(factor)[:, None]
    transform = window * cp.exp(-2j * np.pi * (u - (factor - 1) / 2) * s / factor)
    # Two faults of the kernel at this commit, which make its time too small: blocks of all channels read the first one,
    # and three spectra of eight are not stored, as a mask for the first three looks at three bits of time alone.
    stored = (cp.arange(spectra) + taps - 1) % 8 >= taps - 1
    if (found[:spectra][~stored] != 0x55).any():
        raise Failed("upchanneliser: stores other spectra than it is known to")
    x = nibbles(voltages[:times, 0]).reshape(times // factor, factor, -1)
    windows = cp.concatenate([x[tap : tap + spectra] for tap in range(taps)], axis=1)[stored]
    sums = cp.matmul(transform, windows)
    worst, wrong, number = 0.0, 0, 0
    for channel in (0, 7, channels - 1):
        part = slice(factor * channel, factor * (channel + 1))
        exact = sums * gains[part].astype(np.float64)[:, None]
        got = nibbles(found[:spectra, part][stored]).reshape(exact.shape)
        for mine, theirs in ((exact.real, got.real), (exact.imag, got.imag)):
            mine = cp.clip(mine, -7, 7)
            worst = max(worst, float(cp.abs(theirs - mine).max()))
            wrong += int((cp.rint(mine) != theirs).sum())
            number += mine.size
    if not worst <= 0.55:
        raise Failed(f"upchanneliser: samples differ from the exact ones by {worst:.2f}")
    time = timed(launches)
    return {
        "case": "upchannelise",
        "sizes": {"D": DISHES, "C": channels, "P": 2, "U": factor, "T": times},
        **time,
        "rate": DISHES * channels * 2 * times / time["seconds"],
        "unit": "samples/s",
        "checked": f"three channels, within {worst:.3f} of the exact sums, {wrong / number:.1e} rounded otherwise",
        "faults": "reads the first channel for every channel; stores five spectra of eight",
    }
