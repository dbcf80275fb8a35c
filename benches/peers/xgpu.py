"""xGPU with DP4A: its kernel alone, samples in its own order in device memory."""

import cupy as cp
import numpy as np

from common import Kernel, check_visibilities, copies, correlator_operations, cubins, pairs, random_bytes, timed

# Host code binds textures; the kernel needs these alone.
UNIT = """#include "xgpu.h"
#include "xgpu_info.h"
#include "cube/cube.h"
#define TILE_HEIGHT 8
#define TILE_WIDTH 8
#include "kernel.cuh"
"""
TIMES = 3072
SIZES = [(128, 2048), (256, 1276), (512, 320), (1024, 80), (2048, 20)]


def measure(folder, rng):
    """Figures of every size."""
    unit = folder / "src" / "unit.cu"
    unit.write_text(UNIT)
    for image, size in zip(cubins(unit, [macros(*size) for size in SIZES]), SIZES):
        yield one(Kernel(image, "shared2x2"), rng, *size)


def macros(inputs, channels):
    values = {"DP4A": 1, "TEXTURE_DIM": 1, "MATRIX_ORDER_TRIANGULAR": 1, "NPOL": 2, "NSTATION": inputs // 2}
    return values | {"NFREQUENCY": channels, "NTIME": TIMES, "NTIME_PIPE": TIMES}


def one(kernel, rng, inputs, channels):
    stations = inputs // 2
    # [time / 4][channel][station, polarisation][real, imaginary][time % 4]
    samples = random_bytes(rng, (TIMES // 4, channels, inputs, 2, 4))
    # The kernel adds; of this order it takes one address.
    sums = cp.zeros((channels, stations * (stations + 1) // 2, 2, 2, 2), np.int32)
    # A block of 8 x 8 threads takes 16 x 16 stations.
    rows = stations // 16
    grid = (rows * (rows + 1) // 2, channels, 1)
    launches = [kernel.launcher(grid, (8, 8, 1), copy, sums, sums, stations, 1) for copy in copies(samples)]
    launches[0]()

    def spectra(part):
        decoded = samples[:, part].astype(np.float64)
        decoded = decoded[:, :, :, 0] + 1j * decoded[:, :, :, 1]
        return decoded.transpose(1, 0, 3, 2).reshape(decoded.shape[1], TIMES, inputs)

    check_visibilities(lambda part: pairs(sums[part]), spectra, channels)
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
