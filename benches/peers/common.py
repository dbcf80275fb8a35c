"""Builds, launches, times and checks that the peers share."""

import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cupy as cp
import numpy as np

from sources import Failed

RUNS, WARM_UP = 21, 3


def call(*command, **options):
    """Runs a program; where it fails, its first error is the reason."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["no reason given"]
        raise Failed(f"{command[0]}: {next((line for line in lines if 'error' in line.lower()), lines[0])}")
    return done.stdout


def attribute(name):
    """A number of the GPU."""
    return cp.cuda.Device().attributes[name]


def address(array):
    """An array's address in the GPU's memory."""
    return array.data.ptr


def cubins(source, variants, *options):
    """Images of a CUDA source compiled by nvcc for this GPU, one for each set of macros, side by side."""
    arch = f"-arch=sm_{cp.cuda.Device().compute_capability}"

    def build(variant):
        number, macros = variant
        out = Path(source).with_suffix(f".{number}.cubin")
        defined = [f"-D{name}={value}" for name, value in macros.items()]
        call("nvcc", "-cubin", arch, "-std=c++17", *options, *defined, "-o", out, source)
        return out.read_bytes()

    with ThreadPoolExecutor() as pool:
        return list(pool.map(build, enumerate(variants)))


class Kernel:
    """An entry of a cubin or PTX. Grids and blocks are (x, y, z)."""

    driver = ctypes.CDLL("libcuda.so.1")

    def __init__(self, image, name, shared=0):
        self.module, self.function, self.shared = ctypes.c_void_p(), ctypes.c_void_p(), shared
        self.call("cuModuleLoadData", ctypes.byref(self.module), image + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(self.function), self.module, name.encode())
        if shared:
            most_dynamic_shared_bytes = 8
            self.call("cuFuncSetAttribute", self.function, most_dynamic_shared_bytes, shared)

    def call(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(code, ctypes.byref(text))
            raise Failed(f"{name}: {(text.value or b'unknown error').decode()}")

    def launcher(self, grid, block, *parameters):
        """A function that launches. Parameters: arrays (their addresses), 32-bit integers, or bytes of structures."""
        buffers = []
        for parameter in parameters:
            if isinstance(parameter, bytes):
                buffers.append(ctypes.create_string_buffer(parameter, len(parameter)))
            elif isinstance(parameter, int):
                buffers.append(ctypes.c_uint32(parameter))
            else:
                buffers.append(ctypes.c_uint64(address(parameter)))
        pointers = (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(buffer) for buffer in buffers))

        def launch():
            # The arrays live as long as the function.
            assert buffers and parameters
            self.call("cuLaunchKernel", self.function, *grid, *block, self.shared, None, pointers, None)

        return launch


def copies(array):
    """Copies of an array that hold more than twice the L2 cache: launches that take turns find none of them there."""
    number = 2 * attribute("L2CacheSize") // array.nbytes + 1
    return [array] + [array.copy() for _ in range(number - 1)]


def timed(launches):
    """Seconds of a launch, median and quartiles by CUDA events, of launches that take turns."""
    launches = list(launches)
    events = [[cp.cuda.Event() for _ in range(2)] for _ in range(RUNS)]
    for run in range(WARM_UP):
        launches[run % len(launches)]()
    cp.cuda.Device().synchronize()
    for run, (before, after) in enumerate(events):
        before.record()
        launches[run % len(launches)]()
        after.record()
    cp.cuda.Device().synchronize()
    found = [cp.cuda.get_elapsed_time(before, after) * 1e-3 for before, after in events]
    quartiles = [float(value) for value in np.percentile(found, [25, 75])]
    return {"seconds": float(np.median(found)), "quartiles": quartiles}


def random_bytes(rng, size):
    """Random int8 of a shape, from -127 to 127: kernels here know no -128, which has no negative."""
    return rng.integers(-127, 128, size=size, dtype=np.int32).astype(np.int8)


def random_nibbles(rng, size):
    """Random bytes of two signed 4-bit numbers from -7 to 7, likewise."""
    levels = cp.arange(-7, 8, dtype=np.int8)
    pairs = (levels[:, None] & 15 | levels[None, :] << 4).astype(np.uint8).ravel()
    return pairs[rng.integers(0, len(pairs), size=size, dtype=np.int32)]


def nibbles(bytes_):
    """Complex numbers of bytes: the real part in the low half."""
    signed = bytes_.view(np.int8)
    return ((signed << 4) >> 4).astype(np.float64) + 1j * (signed >> 4).astype(np.float64)


def pairs(numbers):
    """Complex numbers of an array whose last axis is (real, imaginary)."""
    return numbers[..., 0].astype(np.float64) + 1j * numbers[..., 1].astype(np.float64)


def check_visibilities(found, spectra, channels, tolerance=0.0):
    """Compares visibilities with sums in float64, exact for integers below 2^53.

    `spectra(slice)` gives complex [c][t][station, polarisation] of some channels, `found(slice)` complex
    [c][baseline][polarisation of y][polarisation of x], baseline y (y + 1) / 2 + x. Returns the largest relative error,
    root mean square, of a few channels.
    """
    worst, start, step = 0.0, 0, 1
    while start < channels:
        part = slice(start, start + step)
        x = spectra(part)
        full = cp.matmul(x.transpose(0, 2, 1), x.conj())
        c, n = full.shape[:2]
        full = full.reshape(c, n // 2, 2, n // 2, 2).transpose(0, 1, 3, 2, 4)
        rows, columns = np.tril_indices(n // 2)
        expected = full[:, cp.asarray(rows), cp.asarray(columns)]
        difference = cp.abs(found(part) - expected)
        error = float(cp.sqrt(cp.mean(difference**2) / cp.mean(cp.abs(expected) ** 2)))
        if not error <= tolerance:
            raise Failed(f"wrong visibilities from channel {start} on: relative error {error:.2e}, not {tolerance:.0e}")
        worst, start = max(worst, error), start + step
        # About 2 GiB of complex128 at a time, after one channel.
        step = max(1, (1 << 27) // max(x[0].size, full[0].size))
    return worst


def correlator_operations(inputs, channels, times):
    """Useful operations as corrust counts them: 8 for every time sample of a baseline, autocorrelations included."""
    return 8 * (inputs * (inputs + 1) // 2) * channels * times
