"""What NumPy computes of a recording, for comparison with the command `corrust correlate`.

    reference.py sample                      print the path of baseband's SAMPLE_PUPPI
    reference.py check-sample OUT.npy        compare with NumPy on what baseband reads of it
    reference.py make FOLDER COUNT           write COUNT random recordings of every kind, print a
                                             line with the arguments of `corrust correlate` for each
    reference.py check FOLDER                compare the outputs with NumPy on the recordings

A comparison that fails ends with a message and exit code 1.
"""

import json
import pathlib
import sys

import numpy as np


def correlate(re, im, integrate):
    """V[dump][channel][baseline][2] of int64 samples [channel][input][time], by the definition."""
    channels, inputs, times = re.shape
    dumps = times // integrate
    out = np.zeros((dumps, channels, inputs * (inputs + 1) // 2, 2), re.dtype)
    for dump in range(dumps):
        cut = slice(dump * integrate, (dump + 1) * integrate)
        a, b = re[:, :, cut], im[:, :, cut]
        for i in range(inputs):
            for j in range(i + 1):
                v = out[dump, :, i * (i + 1) // 2 + j]
                v[:, 0] = (a[:, i] * a[:, j] + b[:, i] * b[:, j]).sum(axis=-1)
                v[:, 1] = (b[:, i] * a[:, j] - a[:, i] * b[:, j]).sum(axis=-1)
    return out


def same(name, found, expected, bound=None):
    """Ends the program unless both arrays are equal, or no further apart than `bound`."""
    dtype = np.int64 if bound is None else np.float32
    if found.dtype != dtype or found.shape != expected.shape:
        sys.exit(f"{name}: {found.dtype} {found.shape}, expected {dtype} {expected.shape}")
    wrong = found != expected if bound is None else ~(np.abs(found - expected) <= bound)
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        sys.exit(f"{name}: {found[at]} at {at}, expected {expected[at]}; {wrong.sum()} such")


def check_sample(path):
    from baseband import guppi
    from baseband.data import SAMPLE_PUPPI

    with guppi.open(SAMPLE_PUPPI, "rs") as stream:
        voltages = stream.read()  # [time][polarisation][channel]
    voltages = voltages.transpose(2, 1, 0)
    re, im = voltages.real.astype(np.int64), voltages.imag.astype(np.int64)
    assert (re + 1j * im == voltages).all() and re.any() and im.any()
    expected = correlate(re, im, re.shape[-1])
    same("SAMPLE_PUPPI", np.load(path), expected)
    print(f"{expected.size} numbers of {re.shape[-1]} times are equal")


def decode(data, encoding):
    """Real and imaginary parts of stored samples."""
    if encoding in ("ci8", "cf16"):
        wide = np.int64 if encoding == "ci8" else np.float64
        return data[..., 0].astype(wide), data[..., 1].astype(wide)
    high, low = (data >> 4).astype(np.int64), (data & 15).astype(np.int64)
    if encoding == "ci4-offset":
        return high - 8, low - 8
    return np.where(high > 7, high - 16, high), np.where(low > 7, low - 16, low)


def make(folder, count):
    rng = np.random.default_rng(20)
    cases = []
    for encoding in ("ci8", "ci4", "ci4-offset", "cf16"):
        for layout in ("tcn", "cnt"):
            for number in range(count):
                channels, inputs = int(rng.integers(1, 6)), int(rng.integers(1, 40))
                files = [int(times) for times in rng.integers(1, 200, rng.integers(1, 4))]
                integrate = int(rng.integers(1, sum(files) + 1))
                names = []
                for index, times in enumerate(files):
                    axes = (times, channels, inputs)
                    if layout == "cnt":
                        axes = (channels, inputs, times)
                    if encoding == "ci8":
                        data = rng.integers(-128, 128, axes + (2,), np.int8)
                    elif encoding == "cf16":
                        data = rng.normal(0, 100, axes + (2,)).astype(np.float16)
                    else:
                        data = rng.integers(0, 256, axes, np.uint8)
                    names.append(f"{encoding}-{layout}-{number}-{index}.npy")
                    np.save(folder / names[-1], data)
                output = f"{encoding}-{layout}-{number}.out.npy"
                cases.append((encoding, layout, integrate, output, names))
                options = ["-o", output, "--encoding", encoding, "--layout", layout]
                print(*names, *options, "--integrate", integrate)
    (folder / "cases.json").write_text(json.dumps(cases))


def check(folder):
    cases = json.loads((folder / "cases.json").read_text())
    for encoding, layout, integrate, output, names in cases:
        parts = []
        for name in names:
            re, im = decode(np.load(folder / name), encoding)
            if layout == "tcn":
                re, im = re.transpose(1, 2, 0), im.transpose(1, 2, 0)
            parts.append((re, im))
        re, im = (np.concatenate(part, axis=-1) for part in zip(*parts))
        expected = correlate(re, im, integrate)
        bound = None
        if encoding == "cf16":
            # Products of halves are exact in f32. Each of the 2 T additions, in any order, is off by
            # at most half a unit in the last place of the sum of magnitudes.
            magnitude = np.abs(re) + np.abs(im)
            total = correlate(magnitude, 0 * magnitude, integrate)[..., :1]
            bound = 2 * (integrate + 1) * 2.0**-24 * total
        same(output, np.load(folder / output), expected, bound)
    print(f"{len(cases)} recordings are equal")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["sample"]:
            from baseband.data import SAMPLE_PUPPI

            print(SAMPLE_PUPPI)
        case ["check-sample", path]:
            check_sample(path)
        case ["make", folder, count]:
            make(pathlib.Path(folder), int(count))
        case ["check", folder]:
            check(pathlib.Path(folder))
        case _:
            sys.exit(__doc__)
