"""Correlation against NumPy, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import samples, visibilities

import corrust

ENCODINGS = ["ci8", "ci4", "ci4-offset"]


@pytest.mark.parametrize("layout", ["tcn", "cnt"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_equals_numpy_on_random_shapes(encoding: str, layout: str, device: str, rng: np.random.Generator) -> None:
    for _ in range(2 if device == "sim" else 8):
        times, channels, inputs = (int(rng.integers(1, most)) for most in (150, 5, 40))
        x = samples(rng, encoding, layout, times, channels, inputs)
        dump = corrust.correlate(x, encoding=encoding, layout=layout, device=device)
        assert dump.visibilities.dtype == np.int64
        np.testing.assert_array_equal(dump.visibilities, visibilities(x, encoding, layout))
        assert (dump.counts == times).all() and dump.times == times


def test_half_floats_have_the_sums_of_integers(device: str, rng: np.random.Generator) -> None:
    x = samples(rng, "cf16", "tcn", 64, 2, 7)
    dump = corrust.correlate(x, device=device)
    assert dump.visibilities.dtype == np.float32
    # So small that float32 holds the sums.
    np.testing.assert_array_equal(dump.visibilities, visibilities(x, "cf16", "tcn"))


def test_matrix_is_hermitian_and_einsum(device: str, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 100, 3, 9)
    z = x[..., 0] + 1j * x[..., 1]
    matrix = corrust.correlate(x, device=device).matrix()
    np.testing.assert_array_equal(matrix, np.einsum("tci,tcj->cij", z, z.conj()))
    np.testing.assert_array_equal(matrix, matrix.conj().transpose(0, 2, 1))


def test_cuts_missing_and_dumps(device: str, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 90, 2, 5)
    valid = np.ones((90, 2, 5), np.int64)
    valid[10:20] = 0
    valid[50:60, 1:2, 2:4] = 0
    with corrust.Correlator(5, 2, device=device) as plan:
        plan.accumulate(x[:45], missing=[(10, 20)])
        plan.accumulate(x[45:], missing=[(5, 15, (1, 2), (2, 4))])
        assert plan.times == 90
        dump = plan.dump()
        assert plan.times == 0
        assert not plan.dump().visibilities.any()
    np.testing.assert_array_equal(dump.visibilities, visibilities(x, "ci8", "tcn", valid))
    counts = np.einsum("tci,tcj->cij", valid, valid)
    i, j = np.tril_indices(5)
    np.testing.assert_array_equal(dump.counts, counts[:, i, j])


def test_gates(device: str, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 60, 1, 4)
    gates = rng.integers(0, 3, 60)
    gates[:5] = corrust.DROP
    gates[5] = 2
    dumps = corrust.correlate(x, gates=gates, device=device)
    assert len(dumps) == 3
    for gate, dump in enumerate(dumps):
        np.testing.assert_array_equal(dump.visibilities, visibilities(x[gates == gate], "ci8", "tcn"))
        assert dump.times == (gates == gate).sum()
    alone = corrust.correlate(x, gates=np.zeros(60, np.uint8), device=device)
    assert isinstance(alone, list) and len(alone) == 1


def test_shifts(device: str, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 50, 2, 3)
    with corrust.Correlator(3, 2, device=device, shifts=[0, 3, 7]) as plan:
        plan.accumulate(x[:20])
        plan.accumulate(x[20:])
        dump = plan.dump()
    shifted = np.zeros_like(x)
    for index, shift in enumerate([0, 3, 7]):
        shifted[shift:, :, index] = x[: 50 - shift, :, index]
    np.testing.assert_array_equal(dump.visibilities, visibilities(shifted, "ci8", "tcn"))
    assert dump.counts[0].tolist() == [50, 47, 47, 43, 43, 43]


def views(rng: np.random.Generator) -> list[tuple[str, Any]]:
    """Arrays whose elements lie in other orders, or apart."""
    return [
        ("every other time", samples(rng, "ci8", "tcn", 40, 3, 4)[::2]),
        ("some channels", samples(rng, "ci8", "tcn", 20, 9, 4)[:, 2:8:3]),
        ("some inputs", samples(rng, "ci8", "tcn", 20, 3, 9)[:, :, 1:8:2]),
        ("axes in another order", samples(rng, "ci8", "cnt", 20, 3, 4).transpose(2, 0, 1, 3)),
        ("one time again and again", np.broadcast_to(samples(rng, "ci8", "tcn", 1, 3, 4), (9, 3, 4, 2))),
        ("nothing", samples(rng, "ci8", "tcn", 0, 3, 4)),
    ]


def test_strides_that_samples_can_have(device: str, rng: np.random.Generator) -> None:
    for name, x in views(rng):
        dump = corrust.correlate(x, device=device)
        np.testing.assert_array_equal(dump.visibilities, visibilities(x, "ci8", "tcn"), err_msg=name)


def test_out_is_written(device: str, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 30, 2, 5)
    out = np.full((2, 15, 2), -1)
    dump = corrust.correlate(x, device=device, out=out)
    assert dump.visibilities is out
    np.testing.assert_array_equal(out, visibilities(x, "ci8", "tcn"))
    for wrong, error in [
        (np.zeros((2, 15, 2), np.float64), TypeError),
        (np.zeros((2, 15), np.int64), ValueError),
        (np.zeros((2, 15, 4), np.int64)[..., ::2], ValueError),
    ]:
        with pytest.raises(error, match="out "):
            corrust.correlate(x, device=device, out=wrong)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        corrust.correlate(x, device=device, out=out)


def test_several_gpus_give_the_same(rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 30, 3, 5)
    if "sim" not in [device["device"] for device in corrust.devices()]:
        pytest.skip("no simulator")
    dump = corrust.correlate(x, device="sim,sim")
    np.testing.assert_array_equal(dump.visibilities, visibilities(x, "ci8", "tcn"))


def test_labels_and_plots(rng: np.random.Generator) -> None:
    dump = corrust.correlate(samples(rng, "ci8", "tcn", 30, 2, 3), device="cpu")
    xarray = pytest.importorskip("xarray")
    data = dump.to_xarray(frequency=("channel", [1e9, 1.1e9]))
    assert isinstance(data, xarray.Dataset)
    assert complex(data.visibilities.sel(channel=1)[4]) == dump.complex()[1, 4]
    assert (data.input_1[4], data.input_2[4]) == (2, 1)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("svg")
    assert len(dump.plot(channel=1)) == 2


def test_gates_of_a_period(device: str, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (200, 2, 3, 2), np.int8)
    folding = corrust.Folding(4, 1e-3, period=8e-3, dispersion=0.0072, frequencies=[1e15, 1e8])
    numbers = folding.numbers(0, 200)
    assert (folding.bins, numbers.shape, numbers.dtype) == (4, (2, 200), np.dtype(np.uint8))
    late = 4.148808e3 * 0.0072 / 100**2 / 1e-3  # times
    time = np.arange(200) + 0.5
    expected = [np.floor((time - delay) / 8 % 1 * 4) for delay in (0.0, late)]
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(folding.numbers(50, 70), numbers[:, 50:120])
    with corrust.Correlator(3, 2, device=device, gates=4) as plan:
        plan.accumulate(x[:90], gates=numbers[:, :90])
        plan.accumulate(x[90:], gates=numbers[:, 90:])
        dumps = plan.dump()
    for gate, dump in enumerate(dumps):
        z = x[..., 0] + 1j * x[..., 1]
        z = np.where(numbers.T[..., None] == gate, z, 0)
        sums = np.einsum("tci,tcj->cij", z, z.conj())
        np.testing.assert_array_equal(dump.matrix(), sums)
        assert dump.counts[1, 0] == (numbers[1] == gate).sum()
    with pytest.raises(ValueError, match="gates of shape"):
        corrust.correlate(x, gates=numbers[:, :10], device=device)
    with pytest.raises(ValueError, match="expected period or polyco"):
        corrust.Folding(4, 1e-3)
    with pytest.raises(ValueError, match="without frequencies"):
        corrust.Folding(4, 1e-3, period=1.0, dispersion=3.0)


def test_negative_shifts(device: str, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (50, 2, 3, 2), np.int8)
    found = corrust.correlate(x, shifts=[-2, 0, 3], device=device)
    expected = corrust.correlate(x, shifts=[0, 2, 5], device=device)
    np.testing.assert_array_equal(found.visibilities, expected.visibilities)
    np.testing.assert_array_equal(found.counts, expected.counts)
