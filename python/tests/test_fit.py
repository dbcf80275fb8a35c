"""Fits of correlation curves beside SciPy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import corrust

TRUE = {"n": 2.0, "tau": 80e-6, "triplet": 0.2, "triplet_time": 4e-6, "offset": 1.01}


def _model(
    tau: npt.NDArray[np.float64], n: float, time: float, triplet: float, dark: float, offset: float
) -> Any:
    bright = 1 + triplet / (1 - triplet) * np.exp(-tau / dark)
    return offset + bright / n / (1 + tau / time) / np.sqrt(1 + tau / (25 * time))


def _curve(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    tau = np.geomspace(2e-7, 1, 120)
    sigma = 2e-3 * (1 + np.sqrt(1e-6 / tau))
    return tau, _model(tau, *TRUE.values()) + sigma * rng.standard_normal(120), sigma


@pytest.mark.parametrize("weighted", [True, False])
def test_fit_is_scipys(rng: np.random.Generator, weighted: bool) -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="SciPy is not installed")
    tau, g, sigma = _curve(rng)
    found = corrust.fit(tau, g, sigma if weighted else None, triplet=True, offset=True)
    errors = sigma if weighted else None
    best, covariance = optimize.curve_fit(
        _model, tau, g, list(TRUE.values()), errors, absolute_sigma=weighted, x_scale=list(TRUE.values()), method="trf"
    )
    for place, name in enumerate(TRUE):
        error = covariance[place, place] ** 0.5
        assert abs(found["values"][name] - best[place]) < 0.01 * error, name
        assert found["uncertainties"][name] == pytest.approx(error, rel=0.01), name
    order = [found["names"].index(name) for name in TRUE]
    of_free = found["covariance"][np.ix_(order, order)]
    scale = np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
    np.testing.assert_allclose(of_free / scale, covariance / scale, atol=0.01)
    expected = (g - found["model"]) / (sigma if weighted else 1)
    np.testing.assert_allclose(found["residuals"], expected, atol=1e-9)


def test_faults_are_value_errors(rng: np.random.Generator) -> None:
    tau, g, sigma = _curve(rng)
    for change in ({"model": "4d"}, {"fix": {"tua": 1e-5}}, {"components": 3}, {"range": (10.0, 20.0)}):
        with pytest.raises(ValueError, match="expected"):
            corrust.fit(tau, g, sigma, **change)
    with pytest.raises(ValueError, match="bar of 0"):
        corrust.fit(tau, g, 0 * sigma)


def test_uncertainties_from_blocks(rng: np.random.Generator) -> None:
    tau, clean, sigma = _curve(rng)
    # Noise that all lags of a block share.
    blocks = clean + 0.05 * rng.standard_normal((20, 1)) * (clean - 1.01)
    g = blocks.mean(axis=0)
    without = (blocks.sum(axis=0) - blocks) / 19
    found = corrust.fit(tau, g, sigma, without=without, triplet=True, offset=True)
    assert found["uncertainties_from"] == "blocks"
    ns = np.array([corrust.fit(tau, one, sigma, triplet=True, offset=True)["values"]["n"] for one in without])
    expected = np.sqrt(19 / 17 * 19 / 20 * ((ns - np.mean(ns)) ** 2).sum())
    # Fits without a block weight points by the other blocks, not by `sigma`.
    assert found["uncertainties"]["n"] == pytest.approx(expected, rel=2e-2)
    plain = corrust.fit(tau, g, sigma, triplet=True, offset=True)
    assert plain["uncertainties_from"] == "independent points"
    few = corrust.fit(tau, g, sigma, without=without[:5], triplet=True, offset=True)
    assert few["uncertainties_from"] is None and np.isnan(few["uncertainties"]["n"])
    with pytest.raises(ValueError, match="expected \\[block, point\\] of 120 points"):
        corrust.fit(tau, g, sigma, without=without[:, 1:])


def test_curves_without_blocks_give_the_errors() -> None:
    counts = np.random.default_rng(3).poisson(2.0, 8000).astype(np.uint8)
    with corrust.Autocorrelator(1, groups=3, lags=8) as plan:
        ends = []
        for block in counts.reshape(16, -1, 1):
            plan.accumulate(block)
            ends.append(plan.snapshot())
    without = corrust.curves_without(ends, 0)
    tau, g = ends[-1].curve(0)
    assert without.shape == (16, len(tau)) and np.abs(without - g).max() < 0.1
    scatter = np.sqrt(15 / 16 * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(scatter, corrust.standard_error(ends, 0)[: len(tau)], rtol=1e-6)


def test_curves_of_other_programs_are_fitted(tmp_path: Path) -> None:
    tau = 1e-6 * 1.2 ** np.arange(60)
    g = 1 + 0.5 / (1 + tau / 1e-4)
    rows = [f"  {lag * 1e3:.9e}\t {value - 1:.9e}" for lag, value in zip(tau, g, strict=True)]
    path = tmp_path / "alv.asc"
    path.write_text("\n".join(["ALV-5000/E-WIN Data", '"Correlation"', *rows, "", '"Count Rate"', "1 20", ""]))
    ((name, (lags, values, sigma)),) = corrust.read_curves(path).items()
    assert name == "curve" and sigma is None
    np.testing.assert_allclose(lags, tau, rtol=1e-8)
    fitted = corrust.fit(lags, values, model="2d")
    assert fitted["values"]["n"] == pytest.approx(2, rel=1e-6)
    path.write_text("ALV-5000/E-WIN Data\n")
    with pytest.raises(ValueError, match="no section"):
        corrust.read_curves(path)
