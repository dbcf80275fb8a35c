"""Arrays of other libraries, in and out, and what is no array."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from conftest import samples, visibilities

import corrust


class Lender:
    """An array that is known by DLPack alone, of a library of before versions or after."""

    def __init__(self, array: Any, versions: bool) -> None:
        self.array = array
        self.versions = versions
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        if "max_version" in options and not self.versions:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.asked.append(options)
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("versions", [False, True])
def test_dlpack_in_host_memory(versions: bool, device: str, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 20, 3, 9)
    for view in (x, x[::2, :, 1::3]):
        lender = Lender(view, versions)
        dump = corrust.correlate(lender, device=device)
        np.testing.assert_array_equal(dump.visibilities, visibilities(view, "ci8", "tcn"))
        # Of memory of the host no stream is to be given.
        assert all("stream" not in options for options in lender.asked)


def test_dlpack_gives_back_what_it_was_lent(rng: np.random.Generator) -> None:
    import sys

    x = samples(rng, "ci8", "tcn", 20, 3, 4)
    before = sys.getrefcount(x)
    for versions in (False, True):
        for _ in range(10):
            corrust.correlate(Lender(x, versions), device="cpu")
            with pytest.raises(TypeError):
                corrust.correlate(Lender(x, versions), encoding="cf16", device="cpu")
    gc.collect()
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_other_libraries_on_the_cpu(library: str, device: str, rng: np.random.Generator) -> None:
    there = pytest.importorskip(library)
    x = samples(rng, "ci8", "tcn", 20, 3, 4)
    # JAX puts arrays on a GPU where there is one.
    cpu = "cpu" if library == "torch" else pytest.importorskip("jax").devices("cpu")[0]
    dump = corrust.correlate(there.asarray(x, device=cpu), device=device)
    np.testing.assert_array_equal(dump.visibilities, visibilities(x, "ci8", "tcn"))


def test_arrays_on_a_gpu_go_in_and_come_out(gpu: str, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 40, 2, 16)
    there = corrust.to_device(x, gpu)
    assert there.shape == x.shape and there.dtype == x.dtype and there.nbytes == x.nbytes and len(there) == 40
    np.testing.assert_array_equal(there.numpy(), x)
    # Where the device is left open, it is the array's.
    dump = corrust.correlate(there)
    np.testing.assert_array_equal(dump.visibilities, visibilities(x, "ci8", "tcn"))

    with corrust.Correlator(16, 2, device=gpu, gates=2) as plan:
        gates = rng.integers(0, 2, 40)
        plan.accumulate(there, gates=gates)
        dumps = plan.dump(device=True)
        for gate, dump in enumerate(dumps):
            assert isinstance(dump.visibilities, corrust.DeviceArray)
            expected = visibilities(x[gates == gate], "ci8", "tcn")
            np.testing.assert_array_equal(dump.visibilities.numpy(), expected)
            assert dump.matrix().shape == (2, 16, 16)
            assert dump.times == (gates == gate).sum()

    with corrust.Correlator(16, 2, device=gpu) as plan:
        room = corrust.to_device(np.zeros((2, 136, 2), np.int64), gpu)
        plan.accumulate(there)
        assert plan.dump(out=room).visibilities is room
        np.testing.assert_array_equal(room.numpy(), visibilities(x, "ci8", "tcn"))
        # A result goes in again where its type is right: results outlive their plan.
        plan.accumulate(there)
        kept = plan.dump(device=True).visibilities
    del plan
    np.testing.assert_array_equal(kept.numpy(), room.numpy())


def test_more_arrays_than_are_held_at_a_time(gpu: str, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 4, 1, 4)
    with corrust.Correlator(4, 1, device=gpu) as plan:
        for _ in range(40):
            plan.accumulate(corrust.to_device(x, gpu))
        np.testing.assert_array_equal(plan.dump().visibilities, 40 * visibilities(x, "ci8", "tcn"))


def test_capsules_of_the_simulator() -> None:
    array = corrust.to_device(np.arange(6, dtype=np.int8), "sim")
    assert array.__dlpack_device__() == (12, 0)
    assert '"dltensor"' in repr(array.__dlpack__())
    assert '"dltensor_versioned"' in repr(array.__dlpack__(max_version=(1, 1)))
    assert not hasattr(array, "__cuda_array_interface__")
    with pytest.raises((RuntimeError, BufferError, ValueError)):
        np.from_dlpack(array)
    refused: list[dict[str, Any]] = [{"stream": 0}, {"stream": -2}, {"dl_device": (1, 0)}, {"copy": True}]
    for options in refused:
        with pytest.raises(BufferError, match="expected"):
            array.__dlpack__(**options)
    # Capsules that nobody takes give back their memory.
    for _ in range(100):
        array.__dlpack__(max_version=(1, 0), stream=-1)
        array.__dlpack__()


def test_objects_that_are_no_arrays() -> None:
    class Nothing:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_options: Any) -> Any:
            return 42

    class Elsewhere(Nothing):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (10, 0)

    class Broken(Nothing):
        def __dlpack__(self, **_options: Any) -> Any:
            raise BufferError("deleted")

    class Used(Nothing):
        def __init__(self) -> None:
            self.capsule = np.zeros((1, 1, 1, 2), np.int8).__dlpack__()

        def __dlpack__(self, **_options: Any) -> Any:
            return self.capsule

    plan = corrust.Correlator(1, 1, device="cpu")
    wrongs: list[Any] = [[[[1]]], None, 3, "x", object(), np.int8(1), b"abcd"]
    for wrong in wrongs:
        with pytest.raises(TypeError, match="x is .*: expected a NumPy array, or an object with __dlpack__"):
            plan.accumulate(wrong)
    with pytest.raises(TypeError, match="__dlpack__ returned int: expected a capsule"):
        plan.accumulate(Nothing())
    with pytest.raises(ValueError, match="a device of DLPack's kind 10: expected host memory"):
        plan.accumulate(Elsewhere())
    with pytest.raises(BufferError, match="deleted"):
        plan.accumulate(Broken())
    used = Used()
    plan.accumulate(used)
    with pytest.raises(ValueError, match="used before"):
        plan.accumulate(used)
    assert plan.dump().times == 1


def test_wrong_types_shapes_and_strides() -> None:
    plan = corrust.Correlator(4, 3, device="cpu")
    good = np.zeros((10, 3, 4, 2), np.int8)
    cases: list[tuple[Any, type[Exception], str]] = [
        (good.astype(np.float64), TypeError, r"x of float64: expected int8 \[time\]\[channel\]\[input\]\[2\], ci8"),
        (good.astype(np.uint8), TypeError, "x of uint8"),
        (good.astype(np.complex64)[..., 0], TypeError, "x of complex64"),
        (good.astype(object), TypeError, "no number"),
        (good[..., 0], ValueError, r"x of shape \[10, 3, 4\]"),
        (good[..., :1], ValueError, r"x of shape \[10, 3, 4, 1\]"),
        (good[:, :2], ValueError, "2 channels and 4 inputs: expected 3 and 4"),
        (good[::-1], TypeError, r"stride of -24 bytes: expected none below 0, as in numpy.ascontiguousarray\(x\)"),
        (np.zeros((10, 3, 2, 4), np.int8).swapaxes(2, 3), TypeError, "imaginary parts 4 bytes after real ones"),
    ]
    for wrong, error, text in cases:
        with pytest.raises(error, match=text):
            plan.accumulate(wrong)
    halves = corrust.Correlator(4, 3, "cf16", device="cpu")
    with pytest.raises(TypeError, match="byte-swapped float16"):
        halves.accumulate(good.astype(">f2"))
    with pytest.raises(TypeError, match="encoding="):
        corrust.correlate(good[..., 0].astype(np.uint8))
    assert plan.dump().times == 0


def test_wrong_arguments() -> None:
    cases: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
        ((0, 1), {}, ValueError, "0 inputs"),
        ((2, 2, "ci3"), {}, ValueError, 'unknown encoding "ci3": expected ci8'),
        ((2, 2, "ci8", "ntc"), {}, ValueError, "unknown layout"),
        ((2, 2), {"device": "gpu"}, ValueError, 'unknown device "gpu"'),
        ((2, 2), {"device": "cuda:99"}, RuntimeError, "no .*device"),
        ((2, 2), {"device": "cpu", "kernel": "quick"}, ValueError, "unknown kernel"),
        ((2, 2), {"device": "cpu", "gates": 0}, ValueError, "0 gates: expected 1 to 255"),
        ((2, 2), {"device": "cpu", "shifts": [1]}, ValueError, "1 time shifts"),
        ((2, 2), {"device": "cpu", "shifts": [0.5, 1]}, TypeError, "shifts of float64"),
        ((-1, 2), {}, ValueError, "-1: expected a whole number"),
    ]
    for arguments, options, error, text in cases:
        with pytest.raises(error, match=text):
            corrust.Correlator(*arguments, **options)
    plan = corrust.Correlator(1, 1, device="cpu")
    x = np.zeros((4, 1, 1, 2), np.int8)
    ranges: list[tuple[Any, type[Exception], str]] = [
        ([(3, 1)], ValueError, "missing from 3 to 1"),
        ([(1,)], TypeError, r"missing has \(1,\): expected \(start, stop\)"),
        ([1], TypeError, "missing has 1"),
        (7, TypeError, "missing has 7"),
        ([(-1, 2)], TypeError, "missing has"),
        ([np.zeros((9, 9))], TypeError, r"^missing has <class 'numpy.ndarray'>: expected [^\n]*$"),
    ]
    for missing, error, text in ranges:
        with pytest.raises(error, match=text):
            plan.accumulate(x, missing=missing)
    with pytest.raises(ValueError, match=r"gates of shape \[3\]: expected \[4\]"):
        plan.accumulate(x, gates=[0, 0, 0])
    with pytest.raises(ValueError, match="gate number 1 at time 1: expected one below 1"):
        plan.accumulate(x, gates=[0, 1, 0, 0])
    with pytest.raises(TypeError, match="stream is object"):
        plan.accumulate(x, stream=object())
    with pytest.raises(ValueError, match="on the CPU leaves results in host memory"):
        plan.dump(device=True)


def test_arrays_on_another_device() -> None:
    on_sim = corrust.to_device(np.zeros((4, 1, 1, 2), np.int8), "sim")
    with pytest.raises(ValueError, match="x is on sim: expected host memory, as the plan is the CPU's"):
        corrust.Correlator(1, 1, device="cpu").accumulate(on_sim)
    with pytest.raises(ValueError, match='device "cpu": expected one GPU'):
        corrust.to_device(np.zeros(3), "cpu")
    with pytest.raises(TypeError, match="ascontiguousarray"):
        corrust.to_device(np.zeros((3, 3))[:, 1], "sim")

    class Cuda:
        """Memory that is nobody's."""

        __cuda_array_interface__ = {"shape": (4, 1, 1, 2), "typestr": "|i1", "data": (64, False), "version": 3}

    for device in ("cpu", "sim"):
        with pytest.raises(ValueError, match="x is (on|at)"):
            corrust.Correlator(1, 1, device=device).accumulate(Cuda())
    Cuda.__cuda_array_interface__ = {"shape": (4, 1, 1, 2), "typestr": "|i1"}
    with pytest.raises(ValueError, match='without "data"'):
        corrust.Correlator(1, 1, device="cpu").accumulate(Cuda())


def test_masked_arrays_are_refused() -> None:
    x = np.ma.masked_array(np.ones((8, 1, 2, 2), np.int8))  # type: ignore[no-untyped-call]
    # Nothing is masked: an array as others are.
    assert corrust.correlate(x, device="cpu").visibilities[0, 1, 0] == 16
    x[3, 0, 1, 0] = np.ma.masked
    with pytest.raises(ValueError, match="x is a masked array .* expected a plain array"):
        corrust.correlate(x, device="cpu")
    gates = np.ma.masked_array(  # type: ignore[no-untyped-call]
        np.zeros(8, np.uint8), [False] * 7 + [True]
    )
    with pytest.raises(ValueError, match="is a masked array"):
        corrust.Correlator(2, 1, gates=1, device="cpu").accumulate(x.data, gates=gates)
    counts = np.ma.masked_array(  # type: ignore[no-untyped-call]
        np.ones(64, np.uint8), [True] + [False] * 63
    )
    with pytest.raises(ValueError, match="a is a masked array"):
        corrust.autocorrelate(counts, m=4)


@pytest.mark.parametrize("number", [-1, 2**64, 2**200])
def test_counts_out_of_range_are_values(number: int) -> None:
    calls: list[Any] = [
        lambda: corrust.Correlator(number, 2, device="cpu"),
        lambda: corrust.Correlator(2, number, device="cpu"),
        lambda: corrust.Beamformer(number, 2, device="cpu"),
        lambda: corrust.Autocorrelator(number, device="cpu"),
        lambda: corrust.Autocorrelator(1, groups=number, device="cpu"),
        lambda: corrust.Channeliser(number, 8, device="cpu"),
        lambda: corrust.Channeliser(1, 8, hop=number, device="cpu"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"{number}: expected a whole number"):
            call()
    with pytest.raises(TypeError):
        corrust.Correlator("two", 2, device="cpu")  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1.0, 0.0, float("nan"), float("inf")])
def test_rates_and_times_are_positive(number: float) -> None:
    with pytest.raises(ValueError, match="rate=.*more than 0"):
        corrust.Channeliser(1, 8, rate=number, device="cpu")
    with pytest.raises(ValueError, match="rate=.*more than 0"):
        corrust.Channeliser(1, 8, rate=number, delays=[0.0], device="cpu")
    with pytest.raises(ValueError, match="deltat=.*more than 0"):
        corrust.autocorrelate(np.ones(64, np.uint8), m=4, deltat=number)
    with corrust.Autocorrelator(1, groups=2, lags=4, device="cpu") as plan:
        plan.accumulate(np.ones((64, 1), np.uint8))
        with pytest.raises(ValueError, match="dwell=.*more than 0"):
            plan.snapshot().curve(0, dwell=number)


def test_sequences_that_are_longer_than_memory_are_refused() -> None:
    """The length that a sequence says is no reason to end the program."""
    long: Any = range(1 << 45)
    sums = np.zeros((1, 1, 1, 3), np.int64)
    for call in (
        lambda: corrust.Autocorrelator(2, pairs=long),
        lambda: corrust.WeightedAutocorrelator(2, pairs=long),
        lambda: corrust.Autocorrelator(2, device="cpu").accumulate_times(long, 1),
        lambda: corrust.Folding(8, 1e-3, period=0.1, dispersion=1.0, frequencies=long),
        lambda: corrust.kurtosis_flags(sums, circularity=long),
        lambda: corrust.open(long),
        lambda: corrust.open_photons(long),
        lambda: corrust.open_photons("x.npy", exclude=long),
        lambda: corrust.weights({}, pointings=long),
    ):
        with pytest.raises(MemoryError, match="out of memory"):
            call()
    with pytest.raises(TypeError, match="^pointings: expected directions") as found:
        corrust.weights({}, pointings=[1])  # type: ignore[list-item]
    assert "\n" not in str(found.value)
