"""MeerKAT's X-engine, katgpucbf: its form of the Tensor-Core Correlator, which adds to 64-bit sums.

Times are as in `correlate`; `reduce`, which a dump calls once, is not in them.
"""

import cupy as cp
import numpy as np

from common import Kernel, check_visibilities, copies, correlator_operations, cubins, pairs, random_bytes, timed

SOURCE = "src/katgpucbf/xbgpu/kernels/tensor_core_correlation_kernel.cu"
# Spectra of a heap, of a launch.
HEAP, TIMES = 256, 3072
SIZES = [(128, 2048), (256, 1276), (512, 320), (1024, 80), (2048, 20)]
ANTENNAS_PER_BLOCK, TIMES_PER_BLOCK = 32, 16


def measure(folder, rng):
    """Figures of every size."""
    images = cubins(folder / SOURCE, [macros(*size) for size in SIZES], "-include", "climits")
    for image, size in zip(images, SIZES):
        yield one(Kernel(image, "correlate"), rng, *size)


def macros(inputs, channels):
    values = {"NR_BITS": 8, "NR_RECEIVERS": inputs // 2, "NR_CHANNELS": channels, "NR_SAMPLES_PER_CHANNEL": HEAP}
    return values | {"NR_POLARIZATIONS": 2, "NR_RECEIVERS_PER_BLOCK": ANTENNAS_PER_BLOCK, "CUSTOM_STORE_VISIBILITY": 1}


def one(kernel, rng, inputs, channels):
    antennas, heaps = inputs // 2, TIMES // HEAP
    samples = random_bytes(rng, (heaps, antennas, channels, HEAP, 2, 2))
    # As `xbgpu/correlation.py` chooses: sums apart, until there are 1024 blocks.
    rows = -(-antennas // ANTENNAS_PER_BLOCK)
    blocks, parts = rows * (rows + 1) // 2, 1
    while parts * channels * blocks < 1024:
        parts *= 2
    time_blocks = TIMES // TIMES_PER_BLOCK
    each = -(-time_blocks // parts)
    parts = -(-time_blocks // each)
    sums = cp.zeros((parts, channels, antennas * (antennas + 1) // 2, 2, 2, 2), np.int64)
    grid = (blocks, channels, parts)
    launches = [kernel.launcher(grid, (32, 2, 2), sums, copy, 0, time_blocks, each) for copy in copies(samples)]
    launches[0]()

    def spectra(part):
        decoded = pairs(samples[:, :, part])
        return decoded.transpose(2, 0, 3, 1, 4).reshape(decoded.shape[2], TIMES, inputs)

    # The first antenna is the one that is not conjugated, and the polarisation of the second comes first.
    check_visibilities(lambda part: pairs(sums[:, part].sum(0)).conj(), spectra, channels)
    time = timed(launches)
    rate = correlator_operations(inputs, channels, TIMES) / time["seconds"]
    return {
        "case": "correlate ci8",
        "sizes": {"N": inputs, "C": channels, "T": TIMES},
        **time,
        "rate": rate,
        "unit": "operations/s",
        "checked": "all visibilities, exact",
    }
