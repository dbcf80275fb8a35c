"""Beams on a grid: against NumPy's transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corrust


def expected(x: np.ndarray, rows: int, columns: int, places: np.ndarray, integrate: int) -> np.ndarray:
    """Powers ``[f, t', q, p]`` of weighted voltages ``[t, f, pol, d]``."""
    times, channels, polarisations, _ = x.shape
    grid = np.zeros((times, channels, polarisations, rows, columns), complex)
    grid[..., places[:, 0], places[:, 1]] = x
    beams = np.fft.ifft2(grid, (2 * rows, 2 * columns)) * (4 * rows * columns)
    powers = (np.abs(beams) ** 2).sum(2)
    blocks = times // integrate
    powers = powers[: blocks * integrate].reshape(blocks, integrate, *powers.shape[1:]).sum(1)
    result: np.ndarray = powers.transpose(1, 0, 3, 2)
    return result


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Relative error, root mean square."""
    return float(np.sqrt(((found - wanted) ** 2).sum() / (wanted**2).sum()))


@pytest.mark.parametrize(
    ("device", "kernel", "bound"), [("cpu", "auto", 1e-6), ("sim", "exact", 1e-6), ("sim", "tensor", 2e-3)]
)
@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (9, 8), (12, 17)])
def test_powers_are_those_of_transforms(
    device: str, kernel: str, bound: float, rows: int, columns: int, rng: np.random.Generator
) -> None:
    dishes = rows * columns - 2
    places = rng.permutation(rows * columns)[:dishes]
    places = np.stack([places // columns, places % columns], -1)
    x = rng.integers(-128, 128, (13, 2, 2, dishes, 2), np.int8)
    weights = rng.normal(size=(2, 2, dishes)) + 1j * rng.normal(size=(2, 2, dishes))
    wanted = 0.5 * expected((x[..., 0] + 1j * x[..., 1].astype(float)) * weights, rows, columns, places, 4)
    options: dict[str, Any] = {"integrate": 4, "encoding": "ci8", "weights": weights, "gain": 0.5}
    found = corrust.grid_beams(x, rows, columns, places, device=device, kernel=kernel, **options)
    assert found.dtype == np.float32
    assert found.shape == (2, 3, 2 * columns, 2 * rows)
    assert error(found, wanted) < bound
    with corrust.GridBeamformer(
        rows, columns, places, channels=2, polarisations=2, device=device, kernel=kernel, **options
    ) as plan:
        parts = [plan.beamform(part) for part in np.array_split(x, [1, 2, 7])]
        np.testing.assert_array_equal(np.concatenate(parts, 1), found)
        last = plan.finish()
        assert last.shape[1] == 1
        assert plan.kernel == ("exact" if kernel == "auto" else kernel)


def test_halves_and_missing_samples(rng: np.random.Generator) -> None:
    x = rng.integers(0, 256, (8, 1, 1, 6), np.uint8)
    options: dict[str, Any] = {"integrate": 8, "encoding": "ci4", "gain": 0.01, "device": "cpu"}
    found = corrust.grid_beams(x, 2, 3, missing=[(2, 5)], **options)
    x[2:5] = 0
    np.testing.assert_array_equal(found, corrust.grid_beams(x, 2, 3, **options))
    with pytest.raises(TypeError, match="uint8"):
        corrust.grid_beams(x, 2, 3, device="cpu")
    half = corrust.grid_beams(x, 2, 3, half=True, **options)
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, found.astype(np.float16))


def test_impossible_grids_are_refused() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"rows": 33}, "a grid of 33 x 2 dishes: expected 1 to 32"),
        ({"places": [(0, 0), (0, 0)]}, "dishes 0 and 1 at place"),
        ({"places": [0, 1]}, "expected .dish..2."),
        ({"kernel": "tensor"}, "kernel tensor on the CPU"),
        ({"weights": np.ones((7, 9))}, "weights of shape"),
        ({"device": "sim,sim"}, "several, expected one"),
    ]
    for options, what in refused:
        given: dict[str, Any] = {"rows": 2, "columns": 2, "device": "cpu"} | options
        with pytest.raises(ValueError, match=what):
            corrust.GridBeamformer(**given)
