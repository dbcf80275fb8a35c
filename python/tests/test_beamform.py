"""Beamforming against NumPy, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import integers

import corrust


def beams(voltages: Any, weights: Any, shifts: Any, rounding: str) -> tuple[Any, Any]:
    """What a beamformer should give, by NumPy alone: samples and counts of clipped ones."""
    er, ei = integers(voltages, "ci4")
    ar, ai = integers(weights, "ci4" if weights.ndim == 4 else "ci8")
    order = "fpbd,tfpd->bfpt"
    sums = [np.einsum(order, ar, er) - np.einsum(order, ai, ei), np.einsum(order, ar, ei) + np.einsum(order, ai, er)]
    s = shifts.transpose(2, 0, 1)[..., None].astype(np.int64)
    def shifted(sums: Any, s: Any) -> Any:
        return (sums + (0 if rounding == "floor" else (1 << s) >> 1)) >> s

    if rounding.startswith("partial-"):
        dishes = int(rounding.removeprefix("partial-"))
        first = dishes.bit_length() - 5
        products = "fpbd,tfpd->bfptd"
        sums = [
            sum(
                np.clip(shifted(part[..., d : d + dishes].sum(-1), first), -32768, 32767)
                for d in range(0, part.shape[-1], dishes)
            )
            for part in (
                np.einsum(products, ar, er) - np.einsum(products, ai, ei),
                np.einsum(products, ar, ei) + np.einsum(products, ai, er),
            )
        ]
        s = s - first
    full = [shifted(part, s) for part in sums]
    parts = [part.clip(-7, 7) for part in full]
    clipped = ((full[0] != parts[0]) | (full[1] != parts[1])).sum(axis=3).transpose(1, 2, 0)
    return ((parts[0] << 4) & 0xF0 | parts[1] & 15).astype(np.uint8), clipped


@pytest.mark.parametrize("rounding", ["nearest", "floor", "partial-16"])
@pytest.mark.parametrize("precision", ["ci8", "ci4"])
def test_equals_numpy(precision: str, rounding: str, device: str, rng: np.random.Generator) -> None:
    for _ in range(2 if device == "sim" else 6):
        d, b, f, p, t = (int(rng.integers(1, most)) for most in (40, 20, 4, 3, 60))
        voltages = rng.integers(0, 256, (t, f, p, d), np.uint8)
        if precision == "ci8":
            weights: Any = rng.integers(-128, 128, (f, p, b, d, 2), np.int8)
        else:
            weights = rng.integers(0, 256, (f, p, b, d), np.uint8)
        shifts = rng.integers(0, 12, (f, p, b))
        found = corrust.beamform(voltages, weights, shifts, rounding=rounding, incoherent=True, device=device)
        samples, clipped = beams(voltages, weights, shifts, rounding)
        np.testing.assert_array_equal(found.samples, samples)
        np.testing.assert_array_equal(found.clipped, clipped)
        re, im = integers(voltages, "ci4")
        power = (re**2 + im**2).sum(axis=3).transpose(1, 2, 0)
        np.testing.assert_array_equal(found.incoherent, power)


def test_blocks_out_and_strides(device: str, rng: np.random.Generator) -> None:
    voltages = rng.integers(0, 256, (30, 4, 2, 10), np.uint8)
    weights = rng.integers(-128, 128, (2, 2, 3, 5, 2), np.int8)
    shifts = np.full((2, 2, 3), 8)
    cut = voltages[::3, 1:3, :, ::2]
    samples, _ = beams(cut, weights, shifts, "nearest")
    with corrust.Beamformer(5, 3, channels=2, polarisations=2, encoding="ci4", device=device) as plan:
        plan.set_weights(weights)
        plan.set_shifts(shifts)
        np.testing.assert_array_equal(plan.beamform(cut).samples, samples)
        out = np.empty((3, 2, 2, 10), np.uint8)
        assert plan.beamform(cut, out=out).samples is out
        np.testing.assert_array_equal(out, samples)
        lost = plan.beamform(cut, missing=[(2, 4)]).samples
        zero = cut.copy()
        zero[2:4] = 0
        np.testing.assert_array_equal(lost, beams(zero, weights, shifts, "nearest")[0])


def test_left_on_the_device(gpu: str, rng: np.random.Generator) -> None:
    voltages = rng.integers(0, 256, (20, 2, 1, 16), np.uint8)
    weights = rng.integers(-128, 128, (2, 1, 3, 16, 2), np.int8)
    shifts = np.full((2, 1, 3), 8)
    samples, clipped = beams(voltages, weights, shifts, "nearest")
    with corrust.Beamformer(16, 3, channels=2, encoding="ci4", device=gpu) as plan:
        plan.set_weights(weights)
        plan.set_shifts(shifts)
        there = corrust.to_device(voltages, gpu)
        found = plan.beamform(there, device=True)
        np.testing.assert_array_equal(found.samples.numpy(), samples)
        np.testing.assert_array_equal(found.clipped.numpy(), clipped)
        room = corrust.to_device(np.zeros(samples.shape, np.uint8), gpu)
        assert plan.beamform(there, out=room).samples is room
        np.testing.assert_array_equal(room.numpy(), samples)


@pytest.mark.parametrize("output", ["ci8", "ci4", "cf16", "cf32"])
def test_eight_bits_and_halves(output: str, device: str, rng: np.random.Generator) -> None:
    voltages = rng.integers(-128, 128, (30, 2, 2, 37, 2), np.int8)
    weights = rng.integers(-128, 128, (2, 2, 5, 37, 2), np.int8)
    shifts = rng.integers(8, 13, (2, 2, 5))
    found = corrust.beamform(voltages, weights, shifts, output=output, incoherent=True, device=device)
    (er, ei), (ar, ai) = integers(voltages, "ci8"), integers(weights, "ci8")
    order = "fpbd,tfpd->bfpt"
    sums = [np.einsum(order, ar, er) - np.einsum(order, ai, ei), np.einsum(order, ar, ei) + np.einsum(order, ai, er)]
    s = shifts.transpose(2, 0, 1)[..., None].astype(np.int64)
    if output in ("ci8", "ci4"):
        most = 127 if output == "ci8" else 7
        parts = [((part + (1 << (s - 1))) >> s).clip(-most, most) for part in sums]
    else:
        parts = [part.astype(np.float32) * np.float32(2.0) ** -s.astype(np.float32) for part in sums]
        if output == "cf16":
            parts = [part.clip(-65504, 65504).astype(np.float16) for part in parts]
    np.testing.assert_array_equal(found.complex(), (parts[0] + 1j * parts[1]).astype(np.complex64))
    np.testing.assert_array_equal(found.incoherent, (er**2 + ei**2).sum(axis=3).transpose(1, 2, 0))
    dtypes = {"ci8": np.int8, "ci4": np.uint8, "cf16": np.float16, "cf32": np.float32}
    assert found.samples.dtype == dtypes[output]
    if output != "ci4":
        assert found.samples.shape == (5, 2, 2, 30, 2)
    out = np.empty_like(found.samples)
    assert corrust.beamform(voltages, weights, shifts, output=output, out=out, device=device).samples is out
    np.testing.assert_array_equal(out, found.samples)

    halves = (voltages / 64).astype(np.float16)
    phases = (weights / 64).astype(np.float16)
    beams = corrust.beamform(halves, phases, output="cf32", device=device).complex()
    exact = np.einsum(order, phases @ [1, 1j], halves @ [1, 1j])
    np.testing.assert_allclose(beams, exact, atol=1e-3)


def test_bad_input() -> None:
    plan = corrust.Beamformer(3, 2, encoding="ci4", device="cpu")
    voltages = np.zeros((4, 1, 1, 3), np.uint8)
    with pytest.raises(ValueError, match="without weights"):
        plan.beamform(voltages)
    with pytest.raises(TypeError, match="weights of float64: expected int8"):
        plan.set_weights(np.zeros((1, 1, 2, 3, 2)))
    with pytest.raises(ValueError, match=r"weights of shape \[1, 1, 3, 2, 2\]: expected \[1, 1, 2, 3, 2\]"):
        plan.set_weights(np.zeros((1, 1, 3, 2, 2), np.int8))
    with pytest.raises(ValueError, match="shifts has 32 at index 1: expected 0 to 31"):
        plan.set_shifts([[[0, 32]]])
    with pytest.raises(TypeError, match="shifts of float64: expected whole numbers"):
        plan.set_shifts(np.zeros((1, 1, 2)))
    plan.set_weights(np.zeros((1, 1, 2, 3, 2), np.int8))
    with pytest.raises(TypeError, match="voltages of int8: expected uint8"):
        plan.beamform(voltages.astype(np.int8))
    with pytest.raises(ValueError, match="expected ci4, ci8, cf16 or cf32"):
        corrust.Beamformer(3, 2, output="ci4-offset", device="cpu")
    with pytest.raises(ValueError, match="ci8 weights: expected cf16"):
        corrust.Beamformer(3, 2, encoding="cf16", weights="ci8", device="cpu")
    with pytest.raises(ValueError, match=r"voltages of shape \[4, 1, 3, 2\]"):
        corrust.beamform(np.zeros((4, 1, 3, 2), np.int8), np.zeros((1, 1, 2, 3, 2), np.int8))
    with pytest.raises(ValueError, match="3 dishes|3 inputs|expected"):
        plan.beamform(np.zeros((4, 1, 1, 4), np.uint8))
    with pytest.raises(ValueError, match="on the CPU"):
        plan.beamform(voltages, device=True)
    apart = np.zeros((4, 2, 9, 3), np.uint8)[:, :, ::4]
    wide = corrust.Beamformer(3, 1, channels=2, polarisations=3, encoding="ci4", device="cpu")
    wide.set_weights(np.zeros((2, 3, 1, 3, 2), np.int8))
    with pytest.raises(TypeError, match="ascontiguousarray"):
        wide.beamform(apart)


_TWO = {
    "location": {"latitude": 19.1, "longitude": 74.05, "altitude": 650},
    "positions": [[0, 0, 0], [6.3, 1.5, -0.2], [-20, 8.5, 0.7]],
    "first_channel": 4e8,
    "channel_width": 1e6,
    "start": "2026-03-20T14:46:00Z",
    "phase_center": {"name": "3C 196", "ra": 123.4, "dec": 48.2},
}


def test_weights_undo_the_delays_of_plane_waves() -> None:
    frequencies = 4e8 + 1e6 * np.arange(5)
    found = corrust.weights(_TWO, pointings=[(90, 30), (0, 3, 4)], channels=5, polarisations=2)
    assert found.dtype == np.int8 and found.shape == (5, 2, 2, 3, 2)
    directions = np.array([[np.cos(np.pi / 6), 0, 0.5], [0, 0.6, 0.8]])
    delays = -directions @ np.array(_TWO["positions"]).T / 299_792_458
    exact = 127 * np.exp(2j * np.pi * frequencies[:, None, None] * delays)
    for polarisation in range(2):
        assert np.abs(found[:, polarisation, ..., 0] - exact.real).max() < 0.501
        assert np.abs(found[:, polarisation, ..., 1] - exact.imag).max() < 0.501
    assert corrust.noise_shift(64) == 10


def test_weights_are_those_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "array.json"
    path.write_text(json.dumps(_TWO))
    cases: list[tuple[list[str], dict[str, Any]]] = [
        (["--source=123.4,48.2"], {"sources": [(123.4, 48.2)]}),
        (["--delayed"], {"delayed": True}),
        (
            ["--source=83.6,22", "--pointing=0,0,1", "--delayed", "--at=2026-03-20T18:00:00Z"],
            {"sources": [(83.6, 22)], "pointings": [(0, 0, 1)], "delayed": True, "at": "2026-03-20T18:00:00Z"},
        ),
    ]
    for options, keywords in cases:
        output = tmp_path / "a.npy"
        command = [sys.executable, "-m", "corrust", "weights", str(path), "-o", str(output), "--channels=3", *options]
        subprocess.run(command, check=True, capture_output=True)
        np.testing.assert_array_equal(corrust.weights(path, channels=3, **keywords), np.load(output))
    central = corrust.weights(_TWO, channels=3, delayed=True)
    assert (central[..., 0] == 127).all() and (central[..., 1] == 0).all()


def test_weights_of_arrays_that_lack_something() -> None:
    with pytest.raises(ValueError, match="pointings"):
        corrust.weights(_TWO, channels=1)
    with pytest.raises(ValueError, match="channels"):
        corrust.weights(_TWO, pointings=[(0, 0, 1)])
    with pytest.raises(ValueError, match="0 polarisations"):
        corrust.weights(_TWO, pointings=[(0, 0, 1)], channels=1, polarisations=0)
    with pytest.raises(ValueError, match="not all 0"):
        corrust.weights(_TWO, pointings=[(0, 0, 0)], channels=1)
    with pytest.raises(TypeError):
        corrust.weights(_TWO, pointings=[(0,)], channels=1)  # a direction has two numbers or three
