"""Autocorrelation against plain loops and the package multipletau."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corrust


def products(x: Any, groups: int, lags: int) -> Any:
    """``A`` of the bin groups, by NumPy alone: ``[sensor, point]``."""
    found = []
    for k in range(groups):
        for c in range(lags):
            lag, bins = lags * (2**k - 1) + c * 2**k, len(x) >> k
            delayed = np.concatenate([np.zeros((lag, x.shape[1]), np.int64), x])[: len(x)]
            z, y = (part[: bins << k].reshape(bins, 1 << k, -1).sum(axis=1) for part in (x.astype(np.int64), delayed))
            found.append((z * y).sum(axis=0))
    return np.stack(found, axis=1)


def test_equals_numpy_whatever_the_cuts(device: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 256, (700, 3), np.uint8)
    with corrust.Autocorrelator(3, groups=4, lags=8, device=device) as plan:
        for part in np.split(x, [1, 100, 333]):
            plan.accumulate(part)
        assert plan.instants == 700
        sums = plan.snapshot()
    np.testing.assert_array_equal(sums.products, products(x, 4, 8))
    assert sums.lags[:10].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]


def test_states_know_their_instants_and_mask(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with corrust.Autocorrelator(2, device="cpu", dwell=1e-6, masked=True) as plan:
        plan.accumulate(np.ones((5, 2), np.uint8))
        plan.save(path)
    with corrust.Autocorrelator.load(path, device="cpu", dwell=1e-6, masked=True) as plan:
        assert plan.instants == 5
    with pytest.raises(ValueError, match="instants of 1e-6 s"):
        corrust.Autocorrelator.load(path, device="cpu", dwell=1.6e-6)
    with pytest.raises(ValueError, match="with a mask"):
        corrust.Autocorrelator.load(path, device="cpu", masked=False)


def test_strides_pairs_and_states(rng: np.random.Generator, tmp_path: Path) -> None:
    x = rng.integers(0, 256, (4, 900), np.uint8)
    with corrust.Autocorrelator(2, groups=3, lags=8, device="cpu", pairs=[(0, 1)]) as plan:
        plan.accumulate(x[::2, :400].T)
        plan.save(tmp_path / "state")
    with corrust.Autocorrelator.load(tmp_path / "state", device="cpu") as plan:
        plan.accumulate(x[::2, 400:].T)
        sums = plan.snapshot()
    direct, delayed = x[0].astype(np.int64), x[2].astype(np.int64)
    assert sums.products.shape == (1, 24)
    assert sums.products[0, 3] == (direct[3:] * delayed[:-3]).sum()


def test_curves_are_one_without_correlation(rng: np.random.Generator) -> None:
    x = rng.poisson(20, (50_000, 2)).astype(np.uint8)
    with corrust.Autocorrelator(2, device="cpu") as plan:
        plan.accumulate(x)
        sums = plan.snapshot()
    for row in (0, 1, None):
        tau, g = sums.curve(row, dwell=1e-6)
        assert tau[1] == 1e-6
        assert abs(g[1:100] - 1).max() < 0.01
    # The formula, at one point.
    expected = sums.curve_products[1, 40] * sums.bins[40] / (sums.direct[1, 40] * float(sums.delayed[1, 40]))
    assert sums.curve(1)[1][40] == pytest.approx(expected, rel=1e-12)


def test_products_on_the_device(gpu: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 256, (300, 4), np.uint8)
    with corrust.Autocorrelator(4, groups=3, lags=8, device=gpu) as plan:
        plan.accumulate(corrust.to_device(x, gpu))
        np.testing.assert_array_equal(plan.snapshot(device=True).numpy(), products(x, 3, 8))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64])
@pytest.mark.parametrize(("length", "m"), [(42, 2), (33, 16), (100, 4), (777, 8), (10_000, 16), (4096, 32)])
def test_equals_multipletau(length: int, m: int, dtype: Any, rng: np.random.Generator) -> None:
    multipletau = pytest.importorskip("multipletau")
    trace = rng.poisson(5, length).astype(dtype)
    choices: list[dict[str, Any]] = [{}, {"deltat": 1e-6}, {"normalize": True}]
    for options in choices:
        expected = multipletau.autocorrelate(trace.astype(np.float64), m=m, **options)
        found = corrust.autocorrelate(trace, m=m, **options)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    sums, counts = multipletau.autocorrelate(trace.astype(np.float64), m=m, ret_sum=True)
    found, found_counts = corrust.autocorrelate(trace, m=m, ret_sum=True)
    # Sums of integers have no rounding.
    np.testing.assert_array_equal(found, sums)
    np.testing.assert_array_equal(found_counts, counts)


def test_signature_is_that_of_multipletau() -> None:
    from inspect import signature

    multipletau = pytest.importorskip("multipletau")
    theirs = signature(multipletau.autocorrelate).parameters
    ours = signature(corrust.autocorrelate).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default, name


def test_nan_is_left_out(rng: np.random.Generator) -> None:
    trace = rng.poisson(3, 3000).astype(np.float64)
    trace[rng.random(3000) < 0.1] = np.nan
    trace[1000:1300] = np.nan
    sums, counts = corrust.autocorrelate(trace, m=8, ret_sum=True, device="cpu")
    normalised = corrust.autocorrelate(trace, m=8, normalize=True, device="cpu")
    there = np.isfinite(trace)
    mean = trace[there].mean()
    for lag in range(9):
        early, late = slice(0, 3000 - lag), slice(lag, 3000)
        both = there[early] & there[late]
        products = (trace[early] * trace[late])[both]
        assert counts[lag] == both.sum()
        np.testing.assert_allclose(sums[lag], [lag, products.sum()])
        parted = ((trace[early] - mean) * (trace[late] - mean))[both]
        np.testing.assert_allclose(normalised[lag, 1], parted.mean() / mean**2, rtol=1e-9, atol=1e-12)
    # Bins of several counts, of which some are left out, too.
    assert np.abs(normalised[1:, 1]).max() < 0.1
    with pytest.raises(ValueError, match="NaN alone"):
        corrust.autocorrelate(np.full(100, np.nan), m=8)


def test_bad_traces() -> None:
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (np.zeros((4, 4)), {}, ValueError, "a of 2 axes"),
        (np.full(100, 0.5), {}, ValueError, "0.5 at index 0: expected counts"),
        (np.full(100, 256), {}, ValueError, "256 at index 0: expected counts"),
        (np.full(100, -1), {}, ValueError, "-1 at index 0: expected counts"),
        (np.full(100, np.nan), {}, ValueError, "of NaN alone: expected counts"),
        (np.full(100, 1j), {}, TypeError, "complex128"),
        (np.ones(10), {}, ValueError, "trace of 10 counts"),
        (np.zeros(100), {"normalize": True}, ValueError, "zeros alone"),
        (np.ones(100), {"normalize": True, "ret_sum": True}, ValueError, "both True"),
        (np.ones(100), {"compress": "first"}, ValueError, 'expected "average"'),
    ]
    for trace, options, error, text in cases:
        with pytest.raises(error, match=text):
            corrust.autocorrelate(trace, **options)
    with pytest.warns(UserWarning, match="m=3 is odd: 4 is taken"):
        corrust.autocorrelate(np.ones(100), m=3)
