"""ASTRON's Tensor-Core Correlator (Romein 2021), samples in its own order in device memory."""

import cupy as cp
import numpy as np

from common import (
    Kernel,
    check_visibilities,
    copies,
    correlator_operations,
    cubins,
    nibbles,
    pairs,
    random_bytes,
    random_nibbles,
    timed,
)

SOURCE = "libtcc/kernel/TCCorrelator.cu"
TIMES = 3072
SIZES = [(8, 128, 2048), (8, 256, 1276), (8, 512, 320), (8, 1024, 80), (8, 2048, 20), (8, 2048, 128)]
SIZES += [(16, 128, 2048), (16, 2048, 20), (4, 128, 2048), (4, 2048, 20)]
STATIONS_PER_BLOCK = 64


def measure(folder, rng):
    """Figures of every size."""
    for image, size in zip(cubins(folder / SOURCE, [macros(*size) for size in SIZES]), SIZES):
        yield one(Kernel(image, "correlate"), rng, *size)


def macros(bits, inputs, channels):
    values = {"NR_BITS": bits, "NR_RECEIVERS": inputs // 2, "NR_CHANNELS": channels, "NR_SAMPLES_PER_CHANNEL": TIMES}
    return values | {"NR_POLARIZATIONS": 2, "NR_RECEIVERS_PER_BLOCK": STATIONS_PER_BLOCK}


def one(kernel, rng, bits, inputs, channels):
    stations, block = inputs // 2, 128 // bits
    shape = (channels, TIMES // block, stations, 2, block)
    if bits == 4:
        samples, decode = random_nibbles(rng, shape), nibbles
    else:
        samples, decode = random_bytes(rng, (*shape, 2)), pairs
    if bits == 16:
        samples = (samples / np.float16(64)).astype(np.float16)
    kind = np.float32 if bits == 16 else np.int32
    visibilities = cp.full((channels, stations * (stations + 1) // 2, 2, 2, 2), 77, kind)
    blocks = -(-stations // STATIONS_PER_BLOCK)
    grid = (blocks * blocks, channels, 1)
    launches = [kernel.launcher(grid, (32, 2, 2), visibilities, each) for each in copies(samples)]
    launches[0]()

    def spectra(part):
        decoded = decode(samples[part])
        return decoded.transpose(0, 1, 4, 2, 3).reshape(len(decoded), TIMES, inputs)

    tolerance = 1e-3 if bits == 16 else 0.0
    error = check_visibilities(lambda part: pairs(visibilities[part]), spectra, channels, tolerance)
    time = timed(launches)
    encoding = {4: "ci4", 8: "ci8", 16: "cf16"}[bits]
    rate = correlator_operations(inputs, channels, TIMES) / time["seconds"]
    checked = f"all visibilities, relative error {error:.1e}" if bits == 16 else "all visibilities, exact"
    return {
        "case": f"correlate {encoding}",
        "sizes": {"N": inputs, "C": channels, "T": TIMES},
        **time,
        "rate": rate,
        "unit": "operations/s",
        "checked": checked,
    }
