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
    first = min(arrivals[0] for arrivals in times)
    for channel, expected in enumerate(times):
        instants = ((expected - first) // 1000).astype(np.int64)
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


def test_late_photons_and_stretches_that_are_excluded(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    times = np.sort(rng.integers(0, 3_000_000, 50_000))
    times[-2:] = 2_999_998, 2_999_999
    path = tmp_path / "times.npy"
    np.save(path, times)
    every = np.concatenate(list(corrust.open_photons(path, dwell=1e-6, unit=1e-9)))
    swapped = times.copy()
    swapped[1:-1:3], swapped[2::3] = times[2::3], times[1:-1:3]
    np.save(path, swapped)
    photons = corrust.open_photons(path, dwell=1e-6, unit=1e-9)
    assert not photons.masked and photons.late == 0
    np.testing.assert_array_equal(np.concatenate(list(photons)), every)
    # Photons after the last whole instant are not read.
    end = times[0] + 1000 * len(every)
    late = (swapped[1:] < swapped[:-1]) & (swapped[1:] < end)
    assert photons.late == late.sum() > 10_000

    # A stretch from 0.5 to 1 ms, and every bin of 100 instants of more than 1710 photons.
    masked = corrust.open_photons(path, dwell=1e-6, unit=1e-9, exclude=[(0.5e-3, 1e-3)], bursts=(17.1e6, 1e-4))
    assert masked.masked and masked.names == ["channel 0", "mask"]
    counts = np.concatenate(list(masked))
    there = np.ones(len(every), bool)
    there[500:1000] = False
    whole = len(every) // 100
    bright = every[: 100 * whole].reshape(whole, 100).sum(axis=1) > 1710
    assert 0 < bright.sum() < whole
    there[: 100 * whole][np.repeat(bright, 100)] = False
    np.testing.assert_array_equal(counts, np.stack([every[:, 0] * there, there], axis=1))

    # NaN is left out likewise.
    floats = every.astype(np.float64)
    floats[~there] = np.nan
    np.save(path, floats)
    np.testing.assert_array_equal(np.concatenate(list(corrust.open_photons(path))), counts)
    with pytest.raises(ValueError, match="ascending from 0 on"):
        corrust.open_photons(path, exclude=[(2, 1)])


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


def test_times_are_counts(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    path = tmp_path / "times.npy"
    np.save(path, np.sort(rng.integers(0, 50_000_000, 20_000)).astype(np.uint64))
    with corrust.Autocorrelator(1, device="cpu") as plan, corrust.Autocorrelator(1, device="cpu") as by_times:
        for counts in corrust.open_photons(path, dwell=1e-7, unit=1e-9):
            plan.accumulate(counts)
        photons = corrust.open_photons(path, dwell=1e-7, unit=1e-9)
        while (part := photons.read_times(100_000)) is not None:
            instants, times, microtimes = part
            assert microtimes == [] and times[0].dtype == np.uint32
            by_times.accumulate_times(times, instants)
        found, expected = by_times.snapshot(), plan.snapshot()
        assert found.instants == expected.instants
        np.testing.assert_array_equal(found.products, expected.products)
        np.testing.assert_array_equal(found.curve_products, expected.curve_products)
        with pytest.raises(ValueError, match="ascending"):
            by_times.accumulate_times([np.array([3, 2], np.uint32)], 10)


def test_lifetimes_are_told_apart(tmp_path: Path) -> None:
    """Weights equal NumPy's formula, and each component's curve the curve of its molecules alone."""
    path = tmp_path / "mixture.ptu"
    arguments = ["simulate", "--diffusion", "-o", str(path), "--plane", "--duration", "2s", "--brightness", "400kHz"]
    arguments += ["--molecules", "1", "--diffusion-time", "30us", "--lifetime", "1ns", "--second", "1,1ms,4ns"]
    if subprocess.run([sys.executable, "-m", "corrust", *arguments], check=False).returncode != 0:
        pytest.skip("built without the command")
    dwell = 5e-6
    photons = corrust.open_photons(path, dwell=dwell)
    parts = []
    while (part := photons.read_times(microtimes=True)) is not None:
        parts.append(part)
    decay = np.bincount(np.concatenate([micro[0] for _, _, micro in parts]), minlength=781)
    assert photons.microtime is not None
    assert photons.microtime == pytest.approx(16e-12)
    since = (np.arange(len(decay)) * photons.microtime - 1e-9) % 12.5e-9
    patterns = np.array([np.exp(-since / lifetime) for lifetime in (1e-9, 4e-9)])
    weights = corrust.lifetime_weights(decay, patterns)
    seen = decay > 0
    matrix = (patterns[:, seen] / patterns[:, seen].sum(axis=1, keepdims=True)).T
    inverse = np.diag(1 / decay[seen])
    expected = np.linalg.solve(matrix.T @ inverse @ matrix, matrix.T @ inverse)
    np.testing.assert_allclose(weights[:, seen], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert not weights[:, ~seen].any()

    plan = corrust.WeightedAutocorrelator(2, groups=10, lags=8, pairs=[(0, 0), (1, 1), (0, 1)])
    for instants, times, micro in parts:
        plan.accumulate([times[0]] * 2, [row[micro[0]] for row in weights], instants)
    sums = plan.snapshot()
    assert sums.products.dtype == np.float64 and sums.instants == plan.instants
    for row, time in ((0, 30e-6), (1, 1e-3)):
        tau, g = sums.curve(row, dwell=dwell)
        near, at, far = (g[np.argmin(np.abs(tau - lag))] - 1 for lag in (time / 5, time, 10 * time))
        assert 0.6 < near < 1.1 and abs(at / near - 0.6) < 0.12 and far < 0.25, (near, at, far)
    _, cross = sums.curve(2, dwell=dwell)
    assert abs(cross[2:20].mean() - 1) < 0.1
    with pytest.raises(ValueError, match="weights"):
        plan.accumulate([times[0]] * 2, [weights[0][:3]] * 2, instants)
    with pytest.raises(ValueError, match="mixture"):
        corrust.lifetime_weights(decay, np.array([patterns[0], patterns[0]]))
