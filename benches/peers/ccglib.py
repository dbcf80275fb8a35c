"""ccglib's complex matrix products, as correlators: samples by their conjugates, the whole square of visibilities.

Rates count what a correlator needs, half of the square. Samples lie in the order that its own kernels bring them to.
"""

import cupy as cp
import numpy as np

from common import Failed, Kernel, copies, correlator_operations, cubins, random_bytes, timed

INPUTS, CHANNELS = 2048, 20
# Of src/mma/Kernel*.cpp: rows and columns of a block, of a warp, of a product, and depth.
TILES = {"int1": (64, 64, 32, 32, 16, 8, 256), "float16": (128, 64, 128, 16, 16, 16, 16)}
# Of include/ccglib/common/value_type.h.
TYPES = {"int1": 0, "int32": 1, "float16": 5, "float32": 6}
HEADERS = ("include", "include/ccglib/common", "kernels")


def measure(folder, rng):
    """Figures of int1 and float16."""
    yield one(folder, rng, "int1", 49152)
    yield one(folder, rng, "float16", 3072)


def one(source, rng, kind, times):
    bits, out = (1, "int32") if kind == "int1" else (16, "float32")
    rows, columns, warp_rows, warp_columns, m, n, k = TILES[kind]
    threads = (32, columns // warp_columns, rows // warp_rows)
    values = {f"block_size_{axis}": size for axis, size in zip("xyz", threads)}
    values |= {"BATCH_SIZE": f"{CHANNELS}UL", "M_GLOBAL": f"{INPUTS}UL", "N_GLOBAL": f"{INPUTS}UL"}
    values |= {"K_GLOBAL": f"{times}UL", "K_PADDING": "0UL", "ALPHA_REAL": 1, "ALPHA_IMAG": 0, "BETA_REAL": 0}
    values |= {"BETA_IMAG": 0, "TYPE_IN": TYPES[kind], "TYPE_OUT": TYPES[out], "NBIT_IN": bits, "NBIT_OUT": 32}
    values |= {"WARP_SIZE": 32, "M_PER_BLOCK": rows, "M_PER_WARP": warp_rows, "M_PER_WMMA": m, "N_PER_BLOCK": columns}
    values |= {"N_PER_WARP": warp_columns, "N_PER_WMMA": n, "K_PER_WMMA": k, "NBUFFER": 4}
    values |= {"C_COMPLEX_PLANAR": 1, "A_ROW_MAJOR": 1, "B_COL_MAJOR": 1, "C_ROW_MAJOR": 1}
    headers = [f"-I{source / folder}" for folder in HEADERS]
    name = "int1" if kind == "int1" else "float"
    [image] = cubins(source / "kernels" / f"gemm_kernel_{name}.cu", [values], "-include", "climits", *headers)
    kernel = Kernel(image, "wmma_complex_gemm_opt")

    # [channel][real, imaginary][input][words of time samples]
    if kind == "int1":
        words, deep = times // 32, k // 32
        samples = rng.integers(0, 1 << 32, size=(CHANNELS, 2, INPUTS, words), dtype=np.uint64).astype(np.uint32)
        conjugated = samples.copy()
        conjugated[:, 1] ^= np.uint32(0xFFFFFFFF)
    else:
        words, deep = times, k
        samples = (random_bytes(rng, (CHANNELS, 2, INPUTS, words)) / np.float16(64)).astype(np.float16)
        conjugated = samples.copy()
        conjugated[:, 1] *= -1

    def tiles(array, side):
        """[channel][block][step][real, imaginary][row][word]"""
        tiled = array.reshape(CHANNELS, 2, INPUTS // side, side, words // deep, deep)
        return cp.ascontiguousarray(tiled.transpose(0, 2, 4, 1, 3, 5))

    left, right = tiles(samples, rows), tiles(conjugated, columns)
    found = cp.full((CHANNELS, 2, INPUTS, INPUTS), 77, np.int32 if kind == "int1" else np.float32)
    grid = (INPUTS // columns, INPUTS // rows, CHANNELS)
    launches = [kernel.launcher(grid, threads, found, copy, right) for copy in copies(left)]
    launches[0]()
    worst = 0.0
    for channel in range(CHANNELS):
        planes = samples[channel]
        if kind == "int1":
            # A word's lowest bit is the first sample; 1 stands for +1, 0 for -1. float32 sums of 49152 are exact.
            shifts = cp.arange(32, dtype=np.uint32)
            planes = (planes[..., None] >> shifts & 1).reshape(2, INPUTS, times).astype(np.float32) * 2 - 1
        x = planes[0].astype(np.float64) + 1j * planes[1]
        expected = x @ x.conj().T
        difference = found[channel, 0] + 1j * found[channel, 1].astype(np.float64) - expected
        error = float(cp.sqrt(cp.mean(cp.abs(difference) ** 2) / cp.mean(cp.abs(expected) ** 2)))
        if not error <= (0.0 if kind == "int1" else 1e-3):
            raise Failed(f"{kind}: relative error {error:.1e} in channel {channel}")
        worst = max(worst, error)
    time = timed(launches)
    return {
        "case": f"correlate {'b1' if kind == 'int1' else 'cf16'}",
        "sizes": {"N": INPUTS, "C": CHANNELS, "T": times},
        **time,
        "rate": correlator_operations(INPUTS, CHANNELS, times) / time["seconds"],
        "unit": "operations/s",
        "checked": "all visibilities, exact" if kind == "int1" else f"all visibilities, relative error {worst:.1e}",
    }
