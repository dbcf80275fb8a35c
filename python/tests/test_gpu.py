"""CuPy, PyTorch and JAX arrays on a GPU: no copies, the caller's streams, the same bits.

``CORRUST_REQUIRE=cuda pytest tests/test_gpu.py`` fails where there is no GPU, or none of the libraries.
"""

from __future__ import annotations

import gc
import importlib
import os
from typing import Any

import numpy as np
import pytest
from conftest import DEVICES, samples, visibilities

import corrust

pytestmark = pytest.mark.skipif("cuda" not in DEVICES, reason="no CUDA device")


def library(name: str) -> Any:
    """Import a library whose arrays are on a GPU, or skip the test."""
    try:
        found = importlib.import_module(name)
    except ImportError:
        pytest.skip(f"no {name}")
    if name == "torch" and not found.cuda.is_available():
        pytest.skip("PyTorch without a GPU")
    if name == "jax" and not any(device.platform == "gpu" for device in found.devices()):
        pytest.skip("JAX without a GPU")
    return found


def on_gpu(name: str, x: Any) -> tuple[Any, int]:
    """Bring an array to the GPU by a library, and tell its address."""
    there = library(name)
    if name == "cupy":
        array = there.asarray(x)
        return array, array.data.ptr
    if name == "torch":
        array = there.as_tensor(x, device="cuda")
        return array, array.data_ptr()
    array = there.device_put(x, next(device for device in there.devices() if device.platform == "gpu"))
    array.block_until_ready()
    return array, array.unsafe_buffer_pointer()


LIBRARIES = ["cupy", "torch", "jax"]


def test_a_library_is_there() -> None:
    def is_there(name: str) -> bool:
        try:
            library(name)
        except pytest.skip.Exception:
            return False
        return True

    there = [name for name in LIBRARIES if is_there(name)]
    print("libraries:", there)
    if "cuda" in os.environ.get("CORRUST_REQUIRE", ""):
        assert there, "expected CuPy, PyTorch or JAX"


@pytest.mark.parametrize("name", LIBRARIES)
def test_arrays_go_in(name: str, rng: np.random.Generator) -> None:
    for encoding, inputs in [("ci8", 64), ("ci4", 33), ("cf16", 16)]:
        x = samples(rng, encoding, "tcn", 300, 3, inputs)
        array, _ = on_gpu(name, x)
        dump = corrust.correlate(array, encoding=encoding)
        np.testing.assert_array_equal(dump.visibilities, visibilities(x, encoding, "tcn"))


@pytest.mark.parametrize("name", LIBRARIES)
def test_results_come_out_without_a_copy(name: str, rng: np.random.Generator) -> None:
    there = library(name)
    x = samples(rng, "ci8", "tcn", 200, 2, 32)
    array, _ = on_gpu(name, x)
    result = corrust.correlate(array, on_device=True).visibilities
    address = result.__cuda_array_interface__["data"][0]
    if name == "jax":
        there.config.update("jax_enable_x64", True)
        theirs = there.dlpack.from_dlpack(result)
        assert theirs.unsafe_buffer_pointer() == address
        values = np.asarray(theirs)
    else:
        theirs = there.from_dlpack(result)
        assert (theirs.data.ptr if name == "cupy" else theirs.data_ptr()) == address
        values = there.asnumpy(theirs) if name == "cupy" else theirs.cpu().numpy()
    del result  # theirs keeps the memory
    np.testing.assert_array_equal(values, visibilities(x, "ci8", "tcn"))


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_device_arrays_are_not_copied(name: str) -> None:
    # Six tenths of what is free: a copy would not fit.
    there = library(name)
    free = there.cuda.mem_get_info()[0] if name == "torch" else there.cuda.runtime.memGetInfo()[0]
    times = int(free * 0.6) // (64 * 256 * 2)
    if name == "torch":
        array = there.ones((times, 64, 256, 2), dtype=there.int8, device="cuda")
    else:
        array = there.ones((times, 64, 256, 2), there.int8)
    dump = corrust.correlate(array)
    # 1 + 1j times its conjugate is 2.
    assert (dump.visibilities[..., 0] == 2 * times).all()
    assert not dump.visibilities[..., 1].any()
    del array
    if name == "torch":
        there.cuda.empty_cache()
    else:
        there.get_default_memory_pool().free_all_blocks()


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_room_of_the_callers(name: str, rng: np.random.Generator) -> None:
    there = library(name)
    x = samples(rng, "ci8", "tcn", 200, 2, 32)
    array, _ = on_gpu(name, x)
    out, address = on_gpu(name, np.zeros((2, 528, 2), np.int64))
    dump = corrust.correlate(array, out=out)
    assert dump.visibilities is out
    assert (out.data.ptr if name == "cupy" else out.data_ptr()) == address
    values = there.asnumpy(out) if name == "cupy" else out.cpu().numpy()
    np.testing.assert_array_equal(values, visibilities(x, "ci8", "tcn"))


@pytest.mark.parametrize("name", LIBRARIES)
def test_raw_voltages(name: str, rng: np.random.Generator) -> None:
    for dtype in (np.int8, np.float32):
        x = rng.integers(-128, 128, (5, 20_000)).astype(dtype)
        expected = corrust.channelise(x, 64, delays=[0, 1e-6, -2.5e-6, 3e-7, 0], rate=1e6, device="cpu")
        array, _ = on_gpu(name, x)
        found = corrust.channelise(array, 64, delays=[0, 1e-6, -2.5e-6, 3e-7, 0], rate=1e6)
        np.testing.assert_array_equal(found.samples, expected.samples)
        assert found.missing == expected.missing
        left = corrust.channelise(array, 64, delays=[0, 1e-6, -2.5e-6, 3e-7, 0], rate=1e6, on_device=True)
        np.testing.assert_array_equal(left.samples.numpy(), expected.samples[: left.times])


def test_raw_voltages_on_a_stream(rng: np.random.Generator) -> None:
    cupy = library("cupy")
    x = rng.integers(-128, 128, (16, 200_000), np.int8)
    spectra = corrust.channelise(x, 256, device="cpu")
    expected = corrust.correlate(spectra.samples, device="cpu").visibilities
    stream = cupy.cuda.Stream(non_blocking=True)
    with (
        stream,
        corrust.Channeliser(16, 256, device="cuda") as engine,
        corrust.Correlator(16, 256, device="cuda") as correlator,
    ):
        for block in cupy.split(cupy.asarray(x), 4, axis=1):
            # What comes next overwrites it, in the order of the stream.
            raw = cupy.ascontiguousarray(block)
            found = engine.channelise(raw, device=True, stream=stream)
            raw[...] = 0
            correlator.accumulate(found.samples, stream=stream)
        dump = correlator.dump(device=True, stream=stream)
        values = cupy.asnumpy(cupy.from_dlpack(dump.visibilities), stream=stream)
        stream.synchronize()
    np.testing.assert_array_equal(values, expected)


def test_cupy_streams(rng: np.random.Generator) -> None:
    cupy = library("cupy")
    x = samples(rng, "ci8", "tcn", 4000, 16, 64)
    expected = visibilities(x[:100], "ci8", "tcn")
    plan = corrust.Correlator(64, 16, device="cuda")
    for as_number in (False, True):
        stream = cupy.cuda.Stream(non_blocking=True)
        given = stream.ptr if as_number else stream
        with stream:
            array = cupy.zeros(x.shape, cupy.int8)
            for _ in range(200):
                # Work that the samples come after.
                array += 1
            array[...] = cupy.asarray(x)
            plan.accumulate(array[:100], stream=given)
            # What comes after is not seen.
            array[...] = 0
            result = plan.dump(device=True, stream=given).visibilities
            doubled = cupy.from_dlpack(result) * 2
        stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(doubled), 2 * expected)


def test_streams_that_are_no_more(rng: np.random.Generator) -> None:
    cupy = library("cupy")
    x = samples(rng, "ci8", "tcn", 100, 2, 32)
    counts = rng.integers(0, 256, (500, 8), np.uint8)
    voltages = rng.integers(0, 256, (64, 1, 1, 8), np.uint8)
    weights = rng.integers(-128, 128, (1, 1, 2, 8, 2), np.int8)
    raw = rng.integers(-128, 128, (4, 2048), np.int8)
    sums = visibilities(x, "ci8", "tcn")
    spectra = corrust.channelise(raw, 16, device="cpu").samples
    beams = corrust.beamform(voltages, weights, device="cpu").samples
    there = [cupy.asarray(array) for array in (x, counts, voltages, raw)]
    out = cupy.zeros(sums.shape, np.int64)
    cupy.cuda.Device().synchronize()

    correlator = corrust.Correlator(32, 2, device="cuda")
    autocorrelator = corrust.Autocorrelator(8, device="cuda")
    beamformer = corrust.Beamformer(8, 2, encoding="ci4", device="cuda")
    beamformer.set_weights(weights)
    chained = corrust.Correlator(4, 16, device="cuda")
    found: list[Any] = []
    for turn in range(20):
        # The one before is destroyed, and what was left on it is used again.
        stream = cupy.cuda.Stream(non_blocking=True)
        gc.collect()
        correlator.accumulate(there[0], stream=stream)
        if turn % 2:
            correlator.dump(out=out, stream=stream)
            with stream:
                found.append((out.copy(), sums))
        else:
            found.append((correlator.dump(device=True, stream=stream).visibilities, sums))
        autocorrelator.accumulate(there[1], stream=stream)
        products = autocorrelator.snapshot(device=True, stream=stream)
        found.append((beamformer.beamform(there[2], device=True, stream=stream).samples, beams))
        with corrust.Channeliser(4, 16, device="cuda") as engine:
            left = engine.channelise(there[3], device=True, stream=stream).samples
        found.append((left, spectra))
        with pytest.raises(TypeError, match="expected int8"):
            correlator.accumulate(there[2], stream=stream)
        # Lent to a stream that is destroyed too.
        with stream:
            twice = cupy.from_dlpack(left) * 2
        chained.accumulate(left, stream=stream)
        stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(twice), spectra * 2)
        del stream, twice
    for array, expected in found:
        values = array.numpy() if isinstance(array, corrust.DeviceArray) else cupy.asnumpy(array)
        np.testing.assert_array_equal(values, expected)
    expected = 20 * visibilities(spectra, "ci8", "tcn")
    np.testing.assert_array_equal(chained.dump().visibilities, expected)
    with corrust.Autocorrelator(8, device="cpu") as plan:
        for _ in range(20):
            plan.accumulate(counts)
        np.testing.assert_array_equal(products.numpy(), plan.snapshot().products)


def test_torch_streams(rng: np.random.Generator) -> None:
    torch = library("torch")
    x = samples(rng, "ci8", "tcn", 4000, 16, 64)
    expected = visibilities(x[:100], "ci8", "tcn")
    plan = corrust.Correlator(64, 16, device="cuda")
    stream = torch.cuda.Stream()
    there = torch.as_tensor(x, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        array = torch.zeros(x.shape, dtype=torch.int8, device="cuda")
        for _ in range(200):
            array += 1
        array.copy_(there)
        plan.accumulate(array[:100], stream=stream)
        array.zero_()
        result = plan.dump(device=True, stream=stream).visibilities
        doubled = torch.from_dlpack(result) * 2
    stream.synchronize()
    np.testing.assert_array_equal(doubled.cpu().numpy(), 2 * expected)


def test_default_streams_need_no_word(rng: np.random.Generator) -> None:
    cupy = library("cupy")
    x = samples(rng, "ci8", "tcn", 4000, 16, 64)
    plan = corrust.Correlator(64, 16, device="cuda")
    array = cupy.zeros(x.shape, cupy.int8)
    for turn in range(5):
        array[...] = cupy.asarray(x) if turn % 2 == 0 else 0
        plan.accumulate(array)
    array[...] = 7
    np.testing.assert_array_equal(plan.dump().visibilities, 3 * visibilities(x, "ci8", "tcn"))


def test_strides_on_the_gpu(rng: np.random.Generator) -> None:
    cupy = library("cupy")
    x = samples(rng, "ci8", "tcn", 120, 6, 20)
    array = cupy.asarray(x)
    for cut in (np.s_[::3], np.s_[:, 1:5:2], np.s_[:, :, 3:11], np.s_[10:90:2, ::2, ::3]):
        dump = corrust.correlate(array[cut])
        np.testing.assert_array_equal(dump.visibilities, visibilities(x[cut], "ci8", "tcn"))
    turned = array.transpose(1, 2, 0, 3)
    dump = corrust.correlate(turned, layout="cnt")
    np.testing.assert_array_equal(dump.visibilities, visibilities(x, "ci8", "tcn"))


def test_cuda_array_interface(rng: np.random.Generator) -> None:
    cupy = library("cupy")

    class Interface:
        """An array that speaks nothing else."""

        def __init__(self, array: Any) -> None:
            self.array = array

        @property
        def __cuda_array_interface__(self) -> Any:
            return self.array.__cuda_array_interface__

    x = samples(rng, "ci8", "tcn", 120, 6, 20)
    dump = corrust.correlate(Interface(cupy.asarray(x)))
    np.testing.assert_array_equal(dump.visibilities, visibilities(x, "ci8", "tcn"))
    result = corrust.correlate(cupy.asarray(x), on_device=True).visibilities
    assert cupy.asarray(Interface(result)).data.ptr == result.__cuda_array_interface__["data"][0]


def test_memory_that_is_no_more(rng: np.random.Generator) -> None:
    class Gone:
        __cuda_array_interface__ = {"shape": (4, 1, 1, 2), "typestr": "|i1", "data": (0x7000_0000_0000, False)}

    plan = corrust.Correlator(1, 1, device="cuda")
    with pytest.raises(ValueError, match="not .or no longer. memory of cuda:0"):
        plan.accumulate(Gone())
    cupy = library("cupy")
    x = samples(rng, "ci8", "tcn", 4, 1, 1)
    memory = cupy.cuda.runtime.malloc(8)
    Gone.__cuda_array_interface__["data"] = (memory, False)
    cupy.cuda.runtime.memcpy(memory, x.ctypes.data, 8, 1)
    plan.accumulate(Gone())
    cupy.cuda.runtime.free(memory)
    np.testing.assert_array_equal(plan.dump().visibilities, visibilities(x, "ci8", "tcn"))
    with pytest.raises(ValueError, match="not .or no longer. memory of cuda:0"):
        plan.accumulate(Gone())
    # The GPU is none the worse.
    plan.accumulate(x)
    assert plan.dump().times == 1 * 4


def test_other_plans(rng: np.random.Generator) -> None:
    cupy = library("cupy")
    counts = rng.integers(0, 256, (5000, 64), np.uint8)
    with corrust.Autocorrelator(64, device="cpu") as plan:
        plan.accumulate(counts)
        expected = plan.snapshot().products
    with corrust.Autocorrelator(64, device="cuda") as plan:
        plan.accumulate(cupy.asarray(counts))
        np.testing.assert_array_equal(plan.snapshot().products, expected)
        np.testing.assert_array_equal(cupy.asnumpy(cupy.from_dlpack(plan.snapshot(device=True))), expected)
    voltages = rng.integers(0, 256, (256, 2, 2, 64), np.uint8)
    weights = rng.integers(-128, 128, (2, 2, 8, 64, 2), np.int8)
    shifts = np.full((2, 2, 8), 9)
    beams = corrust.beamform(voltages, weights, shifts, device="cpu")
    found = corrust.beamform(cupy.asarray(voltages), weights, shifts, on_device=True)
    np.testing.assert_array_equal(cupy.asnumpy(cupy.from_dlpack(found.samples)), beams.samples)
    np.testing.assert_array_equal(found.clipped.numpy(), beams.clipped)


def test_a_call_takes_little_beside_the_work() -> None:
    import time

    x = corrust.to_device(np.ones((1, 1, 256, 2), np.int8), "cuda")
    plan = corrust.Correlator(256, 1, device="cuda")

    def enqueue() -> float:
        start = time.perf_counter()
        for _ in range(10):
            plan.accumulate(x)
        spent = (time.perf_counter() - start) / 10
        plan.wait()
        return spent

    spent = min(enqueue() for _ in range(100))
    print(f"accumulate {spent * 1e6:.1f} us, launches of kernels included")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_children_of_a_fork_are_told() -> None:
    plan = corrust.Correlator(1, 1, device="cuda")
    child = os.fork()
    if child == 0:
        try:
            plan.accumulate(np.zeros((1, 1, 1, 2), np.int8))
        except RuntimeError as error:
            os._exit(0 if "before a fork" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
