"""Photons from files to counts, sums of large counts, and error bars."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import corrust


def test_arrival_times_become_counts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    times = [np.sort(rng.integers(0, 3_000_000, 50_000)).astype(np.uint64) for _ in range(2)]
    paths = []
    for channel, arrivals in enumerate(times):
        paths.append(tmp_path / f"{channel}.npy")
        np.save(paths[-1], arrivals)
    photons = corrust.open_photons(paths, dwell=1e-6, unit=1e-9)
    assert (photons.sensors, photons.names) == (2, ["channel 0", "channel 1"])
    assert photons.dwell == pytest.approx(1e-6)
    counts = np.concatenate(list(photons))
    assert counts.dtype == np.uint16 and counts.shape == (photons.instants, 2)
    for channel, expected in enumerate(times):
        instants = (expected // 1000).astype(np.int64)
        found = np.bincount(instants[instants < photons.instants], minlength=photons.instants)
        np.testing.assert_array_equal(counts[:, channel], found)


def test_photons_of_ptu_are_gated(tmp_path: Path) -> None:
    path = tmp_path / "photons.ptu"
    arguments = ["simulate", "--diffusion", "-o", str(path), "--plane", "--duration", "20ms", "--detectors", "2"]
    # A process of its own: the command takes signals as a command does.
    if subprocess.run([sys.executable, "-m", "corrust", *arguments], check=False).returncode != 0:
        pytest.skip("built without the command")
    every = np.concatenate(list(corrust.open_photons(path)))
    gates = [(0, 4e-9), (4e-9, 12.5e-9)]
    gated = corrust.open_photons(path, gates=gates)
    assert gated.sensors == 4 and "0..4 ns" in gated.names[0]
    counts = np.concatenate(list(gated)).astype(np.int64)
    np.testing.assert_array_equal(counts.reshape(-1, 2, 2).sum(axis=2), every)
    with pytest.raises(ValueError, match="within the sync period"):
        corrust.open_photons(path, gates=[(0, 20e-9)])
    with pytest.raises(ValueError, match="expected seconds"):
        corrust.open_photons(path, dwell=0)


def test_sums_of_large_counts_are_exact() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 65_536, (3_000, 2), dtype=np.uint16)
    with corrust.Autocorrelator(2, groups=3, lags=8, device="cpu") as plan:
        plan.accumulate((counts[:1000] & 255).astype(np.uint8))
        plan.accumulate(counts[1000:])
        sums = plan.snapshot()
        with pytest.raises(ValueError, match="ascontiguousarray"):
            plan.accumulate(counts[::2])
        with pytest.raises(ValueError, match="expected"):
            plan.accumulate(counts[:, :1])
    counts[:1000] &= 255
    for lag in range(8):
        x = counts.astype(object)
        expected = (x[lag:] * x[: len(x) - lag]).sum(axis=0)
        assert [int(sums.products[row, lag]) for row in range(2)] == list(expected)


def test_standard_errors_shrink_with_length() -> None:
    rng = np.random.default_rng(3)
    errors = []
    for instants in (4_000, 64_000):
        ends = []
        with corrust.Autocorrelator(1, groups=2, lags=8, device="cpu") as plan:
            for block in np.split(rng.poisson(3, instants).astype(np.uint8), 16):
                plan.accumulate(block)
                ends.append(plan.snapshot())
        error = corrust.standard_error(ends, 0)
        assert error.shape == ends[-1].lags.shape
        np.testing.assert_allclose(error, corrust.standard_error(ends))
        # Of light without correlation: 1 / (mean sqrt(bins)).
        expected = 1 / (3 * np.sqrt(instants))
        assert 0.5 * expected < np.median(error[1:8]) < 2 * expected
        errors.append(error)
    assert (errors[1][1:8] < errors[0][1:8]).all()
    assert np.isnan(corrust.standard_error(ends[:1])).all()
