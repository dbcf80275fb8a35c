"""Correlates int8 samples with NumPy: what the CPU backend is compared with.

    OPENBLAS_NUM_THREADS=1 python benches/numpy_correlate.py [--inputs 256 --channels 4 --times 3072]

Each method does the whole job, from int8 samples [time][channel][input][2] in memory to exact
int64 visibilities [channel][input][input], and is checked against the others. Floats hold integers
exactly up to 2^24 (float32) and 2^53 (float64): 2 * 128^2 * times must stay below, so the float32
methods sum 511 times at once. Figures are useful operations, 8 * N(N+1)/2 * C * T, per second.
"""

import argparse
import time

import numpy as np

EXACT_TIMES = 511


def einsum(samples, dtype=np.complex128):
    """V = sum_t x_i conj(x_j), as written; NumPy's own loops (no BLAS)."""
    x = samples[..., 0].astype(dtype)
    x += 1j * samples[..., 1]
    return np.einsum("tci,tcj->cij", x, x.conj())


def matmul_complex(samples, dtype):
    """One complex matrix product (gemm) per channel."""
    x = np.empty(samples.shape[:3], dtype)
    x.real, x.imag = samples[..., 0], samples[..., 1]
    x = np.ascontiguousarray(x.transpose(1, 2, 0))
    return x @ x.conj().transpose(0, 2, 1)


def matmul_real(samples, dtype):
    """Real and imaginary parts stacked: z @ z.T, which NumPy gives to syrk (half the work)."""
    _, channels, inputs, _ = samples.shape
    v = np.empty((channels, inputs, inputs), np.complex128)
    for channel in range(channels):
        z = samples[:, channel].transpose(2, 1, 0).astype(dtype, order="C").reshape(2 * inputs, -1)
        products = z @ z.T
        rr, ri, ir, ii = (products[a : a + inputs, b : b + inputs] for a, b in
                          ((0, 0), (0, inputs), (inputs, 0), (inputs, inputs)))
        v[channel].real = rr + ii
        v[channel].imag = ir - ri
    return v


def exact(method, samples, step):
    """Sums pieces of `step` times in int64."""
    total = 0
    for start in range(0, len(samples), step):
        v = method(samples[start : start + step])
        total = total + np.stack([v.real, v.imag], axis=-1).astype(np.int64)
    return total


METHODS = {
    "einsum complex128": (lambda s: einsum(s), None),
    "matmul complex128": (lambda s: matmul_complex(s, np.complex128), None),
    "matmul complex64, 511 times at once": (lambda s: matmul_complex(s, np.complex64), EXACT_TIMES),
    "syrk float64": (lambda s: matmul_real(s, np.float64), None),
    "syrk float32, 511 times at once": (lambda s: matmul_real(s, np.float32), EXACT_TIMES),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("inputs", 256), ("channels", 4), ("times", 3072), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    shape = (options.times, options.channels, options.inputs, 2)
    samples = np.random.default_rng(1).integers(-128, 128, shape, np.int8)
    useful = 4 * options.inputs * (options.inputs + 1) * options.channels * options.times

    reference = None
    for name, (method, step) in METHODS.items():
        best = float("inf")
        for _ in range(1 if name.startswith("einsum") else options.repeats):
            start = time.perf_counter()
            result = exact(method, samples, step or options.times)
            best = min(best, time.perf_counter() - start)
        if reference is None:
            reference = result
        assert np.array_equal(result, reference), name
        print(f"{name:40} {best * 1e3:10.1f} ms {useful / best / 1e9:8.2f} Gop/s")


if __name__ == "__main__":
    main()
