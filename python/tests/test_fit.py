"""Fits of correlation curves beside SciPy's."""

from __future__ import annotations

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
