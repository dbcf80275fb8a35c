"""Correlation by corrust beside NumPy's einsum and matmul and CuPy's matmul of complex64, answers checked.

    python benches/peers.py [--inputs 64] [--channels 64] [--times 4096] [--seconds 2]

Peers take complex64 samples, made beforehand; corrust takes the int8 samples themselves. NumPy's answers are
judged by int64 sums, CuPy's by what float32 holds. TOPS are 8 N (N + 1) / 2 C T useful operations a second.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import corrust


def fastest(call: Callable[[], Any], seconds: float) -> float:
    """Return the seconds of the quickest of as many calls as fit, after one that warms up."""
    call()
    best, end = float("inf"), time.monotonic() + seconds
    while True:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        if time.monotonic() > end:
            return best


def main() -> None:
    """Print a line for each of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in [("inputs", 64), ("channels", 64), ("times", 4096)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    inputs, channels, times = options.inputs, options.channels, options.times
    operations = 8 * inputs * (inputs + 1) / 2 * channels * times

    x = np.random.default_rng(1).integers(-128, 128, (times, channels, inputs, 2), np.int8)
    z = np.ascontiguousarray((x[..., 0] + 1j * x[..., 1]).astype(np.complex64).transpose(1, 2, 0))
    exact = corrust.correlate(x, device="cpu").matrix()
    # The oracle: integers, of as many channels as are quick.
    few = x[:, : min(2, channels)].astype(np.int64)
    re, im = few[..., 0], few[..., 1]
    real = np.einsum("tci,tcj->cij", re, re) + np.einsum("tci,tcj->cij", im, im)
    imaginary = np.einsum("tci,tcj->cij", im, re) - np.einsum("tci,tcj->cij", re, im)
    assert (exact[: few.shape[1]] == real + 1j * imaginary).all(), "corrust is wrong"
    scale = np.abs(exact).max()

    def report(name: str, seconds: float, matrix: Any) -> None:
        error = np.abs(matrix - exact).max() / scale
        print(f"{name:44} {seconds * 1e3:9.3f} ms {operations / seconds / 1e12:9.3f} TOPS, error {error:.1e}")
        assert error < 1e-4, f"{name}: wrong by {error} of the largest"

    def plan(device: str, array: Any) -> None:
        with corrust.Correlator(inputs, channels, device=device) as correlator:
            on_gpu = not isinstance(array, np.ndarray)

            def call() -> Any:
                correlator.accumulate(array)
                dump = correlator.dump(device=on_gpu)
                if on_gpu:
                    correlator.wait()
                return dump

            where = "there" if on_gpu else "in host memory"
            seconds = fastest(call, options.seconds)
            report(f"corrust, {correlator.device} ({correlator.kernel}), {where}", seconds, call().matrix())

    plan("cpu", x)
    peers: list[tuple[str, Callable[[], Any]]] = [
        ("einsum", lambda: np.einsum("cit,cjt->cij", z, z.conj())),
        ("matmul", lambda: z @ z.conj().transpose(0, 2, 1)),
    ]
    for name, call in peers:
        report(f"NumPy, {name} of complex64", fastest(call, options.seconds), call())
    if any(device["device"] == "cuda:0" for device in corrust.devices()):
        plan("cuda", x)
        plan("cuda", corrust.to_device(x, "cuda"))
        if importlib.util.find_spec("cupy"):
            import cupy

            there = cupy.asarray(z)

            def matmul() -> Any:
                product = there @ there.conj().transpose(0, 2, 1)
                cupy.cuda.runtime.deviceSynchronize()
                return product

            report("CuPy, matmul of complex64, there", fastest(matmul, options.seconds), cupy.asnumpy(matmul()))


if __name__ == "__main__":
    main()
