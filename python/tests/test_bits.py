"""Samples of one and two bits: planes of words, and the sums of their levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corrust


def values(rng: np.random.Generator, bits: int, times: int, channels: int, inputs: int) -> Any:
    """Make random values, ``[time][channel][input]`` of real and of imaginary parts."""
    half = 1 << (bits - 1)
    return rng.integers(-half, half, (2, times, channels, inputs))


def nibbles(parts: Any) -> Any:
    """Pack values as ``ci4``."""
    re, im = parts & 15
    return (re << 4 | im).astype(np.uint8)


def words(parts: Any, bits: int) -> Any:
    """Make the words from their definition, by NumPy alone."""
    codes = parts + (1 << (bits - 1))
    _, times, channels, inputs = codes.shape
    padded = np.zeros((2, -(-times // 128) * 128, channels, inputs), np.int64)
    padded[:, :times] = codes
    planes = np.stack([padded >> (bits - 1 - plane) & 1 for plane in range(bits)])
    planes = planes.reshape(bits, 2, -1, 128, channels, inputs).transpose(4, 5, 0, 2, 1, 3)
    packed = np.packbits(planes.astype(np.uint8), axis=-1, bitorder="little")  # [C][N][plane][W][2][16]
    packed = packed.reshape(*packed.shape[:4], 32)
    return packed if bits == 2 else packed[:, :, 0]


def sums(parts: Any, valid: Any = 1) -> Any:
    """Sum the products of levels, int64 ``[channel][baseline][2]``."""
    re, im = (2 * parts + 1) * valid
    real = np.einsum("tci,tcj->cij", re, re) + np.einsum("tci,tcj->cij", im, im)
    imaginary = np.einsum("tci,tcj->cij", im, re) - np.einsum("tci,tcj->cij", re, im)
    i, j = np.tril_indices(real.shape[1])
    return np.stack([real[:, i, j], imaginary[:, i, j]], axis=-1)


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("times", [128, 129, 500, 1024])
def test_planes_are_those_of_the_definition(bits: int, times: int, rng: np.random.Generator) -> None:
    parts = values(rng, bits, times, 3, 4)
    x = nibbles(parts)
    expected = words(parts, bits)
    np.testing.assert_array_equal(corrust.planes(x, bits), expected)
    turned = np.ascontiguousarray(x.transpose(1, 2, 0))
    np.testing.assert_array_equal(corrust.planes(turned, bits, layout="cnt"), expected)
    np.testing.assert_array_equal(corrust.planes(turned.transpose(2, 0, 1), bits), expected)


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize(("times", "channels", "inputs"), [(1, 1, 1), (127, 2, 3), (384, 3, 5), (1000, 2, 65)])
def test_sums_are_those_of_the_levels(
    bits: int, times: int, channels: int, inputs: int, device: str, rng: np.random.Generator
) -> None:
    parts = values(rng, bits, times, channels, inputs)
    x = corrust.planes(nibbles(parts), bits)
    encoding = f"b{bits}"
    dump = corrust.correlate(x, encoding=encoding, times=times, device=device)
    np.testing.assert_array_equal(dump.visibilities, sums(parts))
    assert (dump.times, int(dump.counts[0, 0])) == (times, times)
    with corrust.Correlator(inputs, channels, encoding=encoding, device=device) as plan:
        assert (plan.encoding, plan.layout) == (encoding, "cnt")
        whole = times // 128
        plan.accumulate(x[..., :whole, :])
        plan.accumulate(x[..., whole:, :], times=times - 128 * whole)
        np.testing.assert_array_equal(plan.dump().visibilities, sums(parts))


@pytest.mark.parametrize("bits", [1, 2])
def test_missing_words_and_gates(bits: int, device: str, rng: np.random.Generator) -> None:
    times, channels, inputs = 900, 2, 6
    parts = values(rng, bits, times, channels, inputs)
    x = corrust.planes(nibbles(parts), bits)
    valid = np.ones((times, channels, inputs), np.int64)
    valid[128:384] = 0
    valid[512:640, :, 2:5] = 0
    valid[700:750, 1, 0] = 0
    missing = [(128, 384), (512, 640, None, (2, 5)), (700, 750, (1, 2), (0, 1))]
    encoding = f"b{bits}"
    dump = corrust.correlate(x, encoding=encoding, times=times, missing=missing, device=device)
    np.testing.assert_array_equal(dump.visibilities, sums(parts, valid))
    assert int(dump.counts[0, corrust.baseline(3, 0)]) == times - 384
    assert int(dump.counts[0, corrust.baseline(1, 0)]) == times - 256

    gates = rng.integers(0, 3, times).astype(np.uint8)
    dumps = corrust.correlate(x, encoding=encoding, times=times, gates=gates, device=device)
    for gate, dump in enumerate(dumps):
        here = (gates == gate)[:, None, None]
        np.testing.assert_array_equal(dump.visibilities, sums(parts, here))


def test_words_on_a_gpu(gpu: str, rng: np.random.Generator) -> None:
    parts = values(rng, 2, 640, 2, 8)
    x = corrust.to_device(corrust.planes(nibbles(parts), 2), gpu)
    with corrust.Correlator(8, 2, encoding="b2", device=gpu) as plan:
        plan.accumulate(x)
        np.testing.assert_array_equal(plan.dump().visibilities, sums(parts))


def test_what_are_no_words_is_refused() -> None:
    x = np.zeros((2, 3, 4, 32), np.uint8)
    two = np.zeros((2, 3, 2, 4, 32), np.uint8)
    for array, encoding, kind, sentence in [
        (x.astype(np.int8), "b1", TypeError, r"int8: expected uint8 \[channel\]\[input\]\[word\]\[32\]"),
        (two, "b1", ValueError, r"shape \[2, 3, 2, 4, 32\]: expected \[channel\]\[input\]\[word\]\[32\] of b1"),
        (x, "b2", ValueError, r"expected \[channel\]\[input\]\[2\]\[word\]\[32\] of b2"),
        (x[..., :16], "b1", ValueError, "corrust.planes makes them"),
        (np.zeros((2, 3, 4, 64), np.uint8)[..., ::2], "b1", TypeError, "words or planes with gaps"),
        (two.transpose(0, 2, 1, 3, 4)[:, :, :2], "b2", TypeError, "words or planes with gaps"),
    ]:
        with pytest.raises(kind, match=sentence):
            corrust.correlate(array, encoding=encoding, device="cpu")
    with pytest.raises(ValueError, match="expected 385 to 512"):
        corrust.correlate(x, encoding="b1", times=600, device="cpu")
    with pytest.raises(ValueError, match="tcn"):
        corrust.correlate(x, encoding="b1", layout="tcn", device="cpu")
    with pytest.raises(ValueError, match="expected 7 to 7"):
        corrust.correlate(np.zeros((7, 1, 1, 2), np.int8), times=5, device="cpu")
    nibble = np.full((3, 1, 1), 0x20, np.uint8)
    with pytest.raises(ValueError, match="has a part of 2: expected 1 bit, -1 to 0"):
        corrust.planes(nibble, 1)
    with pytest.raises(ValueError, match="planes of 3 bits: expected 1 or 2"):
        corrust.planes(nibble, 3)
    with pytest.raises(TypeError, match="expected uint8"):
        corrust.planes(nibble.astype(np.int8), 1)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_packed_words(bits: int, rng: np.random.Generator) -> None:
    times, channels, inputs = 37, 2, 3
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)
    parts = rng.integers(low, high, (times, channels, inputs, 2), dtype=np.int8)
    x = ((parts[..., 0] & 15) << 4 | (parts[..., 1] & 15)).astype(np.uint8)
    words = corrust.pack(x, bits)
    assert words.dtype == np.uint32 and words.shape == (channels, inputs, -(-times // (32 // bits)), 2)
    expected = corrust.correlate(x, encoding="ci4", device="cpu").visibilities
    with corrust.Correlator(inputs, channels, encoding="ci4", device="cpu") as plan:
        plan.accumulate_packed(words, bits, times)
        np.testing.assert_array_equal(plan.dump().visibilities, expected)
        with pytest.raises(ValueError, match="expected"):
            plan.accumulate_packed(words, bits, times + 32)
        with pytest.raises(TypeError, match="uint32"):
            plan.accumulate_packed(words.astype(np.uint64), bits)
