"""What the tests share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import corrust


def _devices() -> list[str]:
    """Devices to judge: the CPU, the simulator, and a GPU if there is one (CORRUST_REQUIRE=cuda: there must be)."""
    found = {device["device"] for device in corrust.devices()}
    cuda = "cuda:0" in found
    if "cuda" in os.environ.get("CORRUST_REQUIRE", "") and not cuda:
        raise RuntimeError("CORRUST_REQUIRE=cuda: expected a CUDA device")
    return ["cpu", *(["sim"] if "sim" in found else []), *(["cuda"] if cuda else [])]


DEVICES = _devices()


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Every device there is."""
    return str(request.param)


@pytest.fixture(params=[device for device in DEVICES if device != "cpu"])
def gpu(request: pytest.FixtureRequest) -> str:
    """Every GPU there is, and the simulator."""
    return str(request.param)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Numbers that are the same in every run, and others in every test."""
    return np.random.default_rng(list(request.node.name.encode()))


def integers(x: Any, encoding: str) -> Any:
    """Real and imaginary parts of samples, int64, by NumPy alone."""
    if encoding in ("ci8", "cf16"):
        return x[..., 0].astype(np.int64), x[..., 1].astype(np.int64)
    high, low = (x >> 4).astype(np.int64), (x & 15).astype(np.int64)
    if encoding == "ci4-offset":
        return high - 8, low - 8
    return (high ^ 8) - 8, (low ^ 8) - 8


def visibilities(x: Any, encoding: str, layout: str, valid: Any = None) -> Any:
    """What a correlation of integers should give, by NumPy's einsum over int64."""
    re, im = integers(x, encoding)
    order = "tci,tcj->cij" if layout == "tcn" else "cit,cjt->cij"
    if valid is not None:
        re, im = re * valid, im * valid
    real = np.einsum(order, re, re) + np.einsum(order, im, im)
    imaginary = np.einsum(order, im, re) - np.einsum(order, re, im)
    i, j = np.tril_indices(real.shape[1])
    return np.stack([real[:, i, j], imaginary[:, i, j]], axis=-1)


def samples(rng: np.random.Generator, encoding: str, layout: str, times: int, channels: int, inputs: int) -> Any:
    """Random samples of every value."""
    shape = (times, channels, inputs) if layout == "tcn" else (channels, inputs, times)
    if encoding == "ci8":
        return rng.integers(-128, 128, (*shape, 2), np.int8)
    if encoding == "cf16":
        return rng.integers(-64, 64, (*shape, 2)).astype(np.float16)
    return rng.integers(0, 256, shape, np.uint8)
