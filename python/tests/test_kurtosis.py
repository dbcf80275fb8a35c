"""Spectral kurtosis: sums and flags against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import corrust


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("times", [64, 100])
def test_sums_are_those_of_the_definition(device: str, times: int, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (250, 3, 5, 2), np.int8)
    power = (x.astype(np.int64) ** 2).sum(-1)
    valid = np.ones(power.shape, np.int64)
    valid[10:30, :, 1:3] = 0
    power *= valid
    edges = np.arange(0, 250, times)
    expected = np.stack([np.add.reduceat(part, edges) for part in (valid, power, power**2)], axis=-1)
    missing = [(10, 30, None, (1, 3))]
    found = corrust.kurtosis(x, times, device=device, missing=missing)
    np.testing.assert_array_equal(found, expected)
    turned = np.ascontiguousarray(x.transpose(1, 2, 0, 3))
    np.testing.assert_array_equal(
        corrust.kurtosis(turned, times, layout="cnt", device=device, missing=missing), expected
    )


def test_pulses_and_carriers_are_flagged_and_noise_is_not(rng: np.random.Generator) -> None:
    x = rng.normal(0, 20, (4096, 8, 4, 2)).round().clip(-128, 127).astype(np.int8)
    x[256:512:32, 2, 1] = 120
    x[512:768, 5, :] = (100, 20)
    sums = corrust.kurtosis(x, device="cpu")
    flags = corrust.kurtosis_flags(sums, false_alarm=1e-7)
    expected = np.zeros(flags.shape, np.uint8)
    expected[1, 2, 1] = 1
    expected[2, 5, :] = 1
    np.testing.assert_array_equal(flags, expected)


def test_a_plan_makes_sums_again_and_again(device: str, rng: np.random.Generator) -> None:
    with corrust.Kurtosis(64, "ci4", "cnt", device) as plan:
        assert (plan.times, plan.encoding, plan.layout) == (64, "ci4", "cnt")
        for times in (200, 64):
            x = rng.integers(0, 256, (3, 2, times), np.uint8)
            sums = plan.sums(x, missing=[(0, 10)])
            expected = corrust.kurtosis(x, 64, "ci4", "cnt", "cpu", [(0, 10)])
            np.testing.assert_array_equal(sums, expected)
            assert sums[..., 0].sum() == 6 * (times - 10)


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="16 to 65536"):
        corrust.kurtosis(np.zeros((20, 1, 1, 2), np.int8), times=15, device="cpu")
    with pytest.raises(TypeError, match='expected encoding="ci4"'):
        corrust.kurtosis(np.zeros((20, 1, 1), np.uint8), device="cpu")
    with pytest.raises(ValueError, match="last axis of 3"):
        corrust.kurtosis_flags(np.zeros((2, 2), np.int64))
    with pytest.raises(TypeError, match="int64"):
        corrust.kurtosis_flags(np.zeros((2, 3), np.int32))
