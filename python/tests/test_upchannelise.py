"""Subchannels: against the definition in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corrust


def expected(x: np.ndarray, factor: int, weights: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """``[t, channel, subchannel, input]`` of complex ``[t, channel, input]``; zero before there are samples enough."""
    times, channels, inputs = x.shape
    s = np.arange(len(weights))
    frequency = np.arange(factor) - (factor - 1) / 2
    bank = weights * np.exp(-2j * np.pi * np.outer(frequency, s) / factor)
    y = np.zeros((times // factor, channels, factor, inputs), complex)
    for t in range(len(y)):
        start = (t + 1) * factor - len(weights)
        if start >= 0:
            y[t] = np.einsum("us,sci->cui", bank, x[start : start + len(weights)])
    result: np.ndarray = y * gains[..., None]
    return result


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize(("factor", "taps"), [(2, 3), (4, 1), (16, 4), (32, 3)])
def test_subchannels_are_those_of_the_definition(
    device: str, factor: int, taps: int, rng: np.random.Generator
) -> None:
    x = rng.integers(-128, 128, (factor * (taps + 3) + 1, 3, 2, 2), np.int8)
    weights = rng.normal(size=taps * factor)
    gains = rng.normal(size=(3, factor)) + 1j * rng.normal(size=(3, factor))
    wanted = expected(x[..., 0] + 1j * x[..., 1].astype(float), factor, weights, gains)
    options: dict[str, Any] = {"weights": weights, "gains": gains, "output": "cf32", "device": device}
    found = corrust.upchannelise(x, factor, **options)
    assert found.samples.shape == (taps + 3, 3 * factor, 2, 2)
    values = found.complex().reshape(wanted.shape)
    assert np.abs(values - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert [gap[:2] for gap in found.missing] == ([(0, taps - 1)] if taps > 1 else [])
    turned = np.ascontiguousarray(x.transpose(1, 2, 0, 3))
    np.testing.assert_array_equal(
        corrust.upchannelise(turned, factor, layout="cnt", **options).samples, found.samples
    )


def test_noise_keeps_its_variance_and_gaps_are_missing(rng: np.random.Generator) -> None:
    x = rng.normal(0, 20, (16 * 2000, 1, 2, 2)).round().astype(np.int8)
    found = corrust.upchannelise(x, 16, unit_noise=True, device="cpu", missing=[(800, 810, None, (1, 2))])
    power = np.abs(found.complex()) ** 2
    np.testing.assert_allclose(power[3:].mean((0, 1)), 800, rtol=0.05)
    assert (power[50:54, :, 1] == 0).all()
    assert (power[50:54, :, 0] > 0).any()
    sums = corrust.correlate(found.samples, missing=found.missing, device="cpu")
    assert sums.visibilities.shape == (16, 3, 2)


def test_a_plan_goes_on_where_the_stream_was_cut(device: str, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (100, 2, 3, 2), np.int8)
    whole = corrust.upchannelise(x, 4, output="cf32", device="cpu")
    with corrust.Upchanneliser(3, 2, 4, output="cf32", device=device) as plan:
        assert (plan.inputs, plan.channels, plan.factor, plan.taps, plan.output) == (3, 2, 4, 4, "cf32")
        for _ in range(2):
            assert plan.upcoming(50) == 12
            parts = [plan.upchannelise(part) for part in np.split(x, [7, 50])]
            assert [part.first for part in parts] == [0, 1, 12]
            np.testing.assert_array_equal(np.concatenate([part.samples for part in parts]), whole.samples)
            plan.reset()
    with pytest.raises(ValueError, match="a closed plan"):
        plan.upchannelise(x)


def test_impossible_filter_banks_are_refused() -> None:
    x = np.zeros((64, 1, 1, 2), np.int8)
    with pytest.raises(ValueError, match="power of two, 2 to 512"):
        corrust.upchannelise(x, 12, device="cpu")
    with pytest.raises(ValueError, match="expected a multiple of 8"):
        corrust.upchannelise(x, 8, weights=np.ones(9), device="cpu")
    with pytest.raises(ValueError, match="gains of shape"):
        corrust.upchannelise(x, 8, gains=np.ones((2, 4)), device="cpu")
