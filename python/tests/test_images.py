"""Stacks of images beside NumPy's sums, and beside the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corrust


def _stack(rng: np.random.Generator, frames: int = 12, height: int = 9, width: int = 14) -> Any:
    return rng.poisson(4.0, (frames, height, width)).astype(np.uint16)


def test_maps_are_numpys(rng: np.random.Generator) -> None:
    stack = _stack(rng)
    maps = corrust.brightness_maps(stack, gain=2.0, dark=1.0, dark_variance=0.5)
    mean, variance = stack.mean(0), stack.var(0, ddof=1)
    photons = (mean - 1) / 2
    spread = (variance - 0.5) / 4 - photons
    expected = np.stack([mean, variance, photons**2 / spread, spread / photons], -1)
    np.testing.assert_allclose(maps, expected, rtol=1e-10)


def _command(arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "corrust", *arguments.split()], check=True)


@pytest.mark.parametrize("window", [1, 4])
def test_spatial_correlation_is_numpys(rng: np.random.Generator, window: int) -> None:
    stack = _stack(rng)
    values, errors = corrust.spatial_correlation(stack, lags=(3, 5), window=window)
    blocks = stack.reshape(-1, window, *stack.shape[1:]).astype(float)
    for row in range(4):
        for column in range(-5, 6):
            height, width = stack.shape[1] - row, stack.shape[2] - abs(column)
            left = max(-column, 0)
            p = blocks[..., :height, left : left + width]
            q = blocks[..., row:, left + column : left + column + width]
            if window == 1:
                mean = blocks.mean((1, 2, 3), keepdims=True)
                found = ((p - mean) * (q - mean) / mean**2).mean((1, 2, 3))
            else:
                both = (p - p.mean(1, keepdims=True)) * (q - q.mean(1, keepdims=True))
                found = both.sum(1).mean((1, 2)) / (window - 1) / (p.mean((1, 2, 3)) * q.mean((1, 2, 3)))
            for sign in (1, -1):
                place = 3 + sign * row, 5 + sign * column
                np.testing.assert_allclose(values[place], found.mean(), rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(errors[place], found.std(ddof=1) / len(found) ** 0.5, rtol=1e-9)


def test_two_time_is_numpys(device: str, rng: np.random.Generator) -> None:
    stack = _stack(rng)
    mask = rng.integers(0, 4, stack.shape[1:]).astype(np.uint8)
    found = corrust.two_time(stack, mask, device=device)
    for group in range(3):
        own = stack[:, mask == group + 1].astype(float)
        expected = own @ own.T / own.shape[1] / np.outer(own.mean(1), own.mean(1))
        np.testing.assert_allclose(found[group], expected, rtol=1e-12)
    assert corrust.two_time(stack.astype(np.uint8), device=device).shape == (1, 12, 12)


def test_fit_and_tiff_are_the_commands(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile", reason="tifffile is not installed")
    scan = tmp_path / "scan.npy"
    simulate = f"simulate --diffusion --scan 40x48 --frames 60 --plane --diffusion-time 1ms --brightness 2MHz -o {scan}"
    _command(simulate)
    stack = np.load(scan)
    # Files that another program wrote, with and without compression.
    for compression in (None, "zlib"):
        tifffile.imwrite(tmp_path / "scan.tif", stack, photometric="minisblack", compression=compression)
        maps = tmp_path / "maps.npy"
        _command(f"images {tmp_path / 'scan.tif'} --brightness {maps}")
        np.testing.assert_array_equal(np.load(maps), corrust.brightness_maps(stack))
    found = corrust.fit_rics(stack, pixel=0.05, dwell=1e-5, line=576e-6, waist=0.25, kappa=None)
    assert set(found["values"]) == {"n", "D", "offset"}
    assert abs(found["values"]["D"] - 15.6) < 4 * found["uncertainties"]["D"]


def test_faults(rng: np.random.Generator) -> None:
    stack = _stack(rng)
    with pytest.raises(TypeError, match="expected uint8 or uint16"):
        corrust.brightness_maps(stack.astype(float))
    with pytest.raises(ValueError, match=r"expected \[frame, row, column\]"):
        corrust.brightness_maps(stack[0])
    with pytest.raises(ValueError, match="blocks of 0 frames"):
        corrust.spatial_correlation(stack, lags=(2, 2), window=0)
    with pytest.raises(ValueError, match="less than a frame"):
        corrust.spatial_correlation(stack)
    with pytest.raises(ValueError, match="expected"):
        corrust.two_time(stack, np.ones((2, 2), np.uint8))


def test_pair_correlation_finds_what_flows() -> None:
    """What passes a pixel passes the one three columns on two lines later, by an own sum."""
    rng = np.random.default_rng(5)
    frames, width = 4000, 12
    pattern = rng.poisson(1.0, frames * 2 + 3 * width)
    # Three columns in two lines: 1.5 columns a line.
    lines = np.array([[pattern[frame - 2 * (column // 3) + 2 * width] if column % 3 == 0 else 1
                       for column in range(width)] for frame in range(frames)], np.uint16)
    curves = corrust.pair_correlation(lines[:, None, :], 3, groups=1, lags=8, device="cpu")
    assert curves.shape == (1, width, 8, 3)
    np.testing.assert_array_equal(curves[0, 0, :, 0], np.arange(8))
    early, late = lines[:, 0].astype(float), lines[:, 3].astype(float)
    for lag in range(8):
        mean = (early[: frames - lag] * late[lag:]).mean() / early[: frames - lag].mean() / late[lag:].mean()
        assert curves[0, 0, lag, 1] == pytest.approx(mean, rel=1e-12)
    assert curves[0, 0, 2, 1] > 1.9 and abs(curves[0, 0, 3, 1] - 1) < 0.1
    assert (curves[0, 0, :, 2] < 0.1).all() and np.isnan(curves[0, -1, :, 1]).all()
    # The rows of frames as lines, in time.
    stacked = corrust.pair_correlation(lines.reshape(40, 100, width), 3, lines=True, groups=1, lags=8, device="cpu")
    np.testing.assert_array_equal(stacked[..., 1], curves[..., 1])
    with pytest.raises(ValueError, match="distance"):
        corrust.pair_correlation(lines[:, None, :], 12, device="cpu")
