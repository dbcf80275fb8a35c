"""Recordings of raw voltages."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corrust


def vdif(path: Path, codes: Any, lost: int) -> None:
    """Write two-bit codes of one input as VDIF frames of 4000 samples from 2022 on, without the frame ``lost``."""
    with path.open("wb") as file:
        for index, frame in enumerate(codes.reshape(-1, 4000)):
            if index != lost:
                data = (frame.reshape(-1, 4) << (2 * np.arange(4))).sum(axis=-1).astype(np.uint8).tobytes()
                length = (32 + len(data)) // 8
                file.write(struct.pack("<8I", 0, 44 << 24 | index, length, 1 << 26, 0, 0, 0, 0) + data)


def test_numpy_files(tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (3, 2000), np.int8)
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path, part in zip(paths, np.split(x, [700], axis=1), strict=True):
        np.save(path, part)
    recording = corrust.open(paths, rate=1e6)
    assert (recording.kind, recording.encoding, recording.layout) == ("raw", "i8", "nt")
    assert (recording.times, recording.inputs, recording.channels) == (2000, 3, None)
    assert (recording.shape, recording.rate, recording.start) == (x.shape, 1e6, None)
    assert repr(recording) == "Recording(raw, 2000 times, 3 inputs, i8, nt)"
    for _ in range(2):
        blocks = list(recording.blocks(times=300))
        np.testing.assert_array_equal(np.concatenate([block.samples for block in blocks], axis=1), x)
        assert [block.start for block in blocks][:2] == [0, 300]
    with corrust.Channeliser(3, 16, 4, device="cpu") as plan:
        parts = [plan.channelise(block.samples, missing=block.missing).samples for block in recording]
    np.testing.assert_array_equal(np.concatenate(parts), corrust.channelise(x, 16, 4, device="cpu").samples)
    with pytest.raises(ValueError, match="dumps of raw voltages: expected channels"):
        recording.dumps(device="cpu")
    turned = tmp_path / "turned.npy"
    np.save(turned, np.ascontiguousarray(x.T))
    assert corrust.open(turned, layout="tn").shape == (2000, 3)
    complex_ = tmp_path / "complex.npy"
    np.save(complex_, np.zeros((3, 100, 2), np.float32))
    recording = corrust.open(complex_)
    assert (recording.encoding, recording.shape) == ("cf32", (3, 100, 2))
    assert next(recording.blocks()).samples.dtype == np.float32


def test_vdif_with_a_gap(tmp_path: Path, rng: np.random.Generator) -> None:
    codes = rng.integers(0, 4, 5 * 4000)
    vdif(tmp_path / "scan.vdif", codes, lost=2)
    recording = corrust.open(tmp_path / "scan.vdif", rate=4e6)
    assert (recording.kind, recording.encoding, recording.times) == ("raw", "vdif-2", 20_000)
    assert (recording.start, recording.rate) == ("2022-01-01T00:00:00Z", 4e6)
    assert recording.shape == (1, 5000)
    assert recording.facts
    with corrust.Channeliser(1, 64, encoding="vdif-2", output="cf32", device="cpu") as plan:
        blocks = list(recording.blocks(times=999))
        parts = [plan.channelise(block.samples, missing=block.missing, times=block.times) for block in blocks]
    lost = [block.start + time for block in blocks for gap in block.missing for time in range(*gap[:2])]
    assert lost == list(range(8000, 12_000))
    found = np.concatenate([part.complex() for part in parts])
    values = np.array([-3.3165, -1.0, 1.0, 3.3165], np.float32)[codes]
    whole = corrust.channelise(values[None], 64, missing=[(8000, 12_000)], output="cf32", device="cpu")
    np.testing.assert_array_equal(found, whole.complex())
    assert (found == 0).all(axis=(1, 2)).sum() == len(range(*whole.missing[0][:2])) > 0


def test_dada(tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (500, 2), np.int8)
    header = {
        "HDR_VERSION": "1.0",
        "HDR_SIZE": 4096,
        "NBIT": 8,
        "NDIM": 1,
        "NPOL": 2,
        "NCHAN": 1,
        "TSAMP": 0.5,
        "UTC_START": "2022-01-17-06:17:50",
        "OBS_OFFSET": 0,
    }
    text = "".join(f"{key} {value}\n" for key, value in header.items())
    (tmp_path / "scan.dada").write_bytes(text.encode().ljust(4096, b"\0") + x.tobytes())
    recording = corrust.open(tmp_path / "scan.dada")
    assert (recording.kind, recording.start, recording.rate) == ("raw", "2022-01-17T06:17:50Z", 2e6)
    (block,) = recording.blocks()
    found = corrust.channelise(block.samples, 16, layout=recording.layout, device="cpu")
    np.testing.assert_array_equal(found.samples, corrust.channelise(x, 16, layout="tn", device="cpu").samples)


def test_mark5b_with_a_gap(tmp_path: Path, rng: np.random.Generator) -> None:
    codes = rng.integers(0, 4, (6, 10_000, 4))  # [frame][time][input], sign low and magnitude high
    path = tmp_path / "scan.m5b"
    with path.open("wb") as file:
        for number, frame in enumerate(codes):
            if number != 3:
                # Day 821 of 1000, 19801 s and hundredths.
                fraction = 0x0100 * number
                file.write(struct.pack("<4I", 0xABADDEED, number, 0x82119801, fraction << 16))
                file.write((frame << (2 * np.arange(4))).sum(axis=1).astype(np.uint8).tobytes())
    with pytest.raises(ValueError, match=r"expected their number \(inputs=\)"):
        corrust.open(path)
    recording = corrust.open(path, inputs=4, near="2014-06-13")
    assert (recording.kind, recording.encoding, recording.shape) == ("raw", "vdif-2", (4, 15_000))
    assert (recording.times, recording.start, recording.rate) == (60_000, "2014-06-13T05:30:01Z", 1e6)
    levels = np.array([-3.3165, 1.0, -1.0, 3.3165], np.float32)
    values = np.ascontiguousarray(levels[codes.reshape(-1, 4)].T)
    with corrust.Channeliser(4, 32, encoding="vdif-2", output="cf32", device="cpu") as plan:
        blocks = recording.blocks(times=7777)
        parts = [plan.channelise(block.samples, missing=block.missing, times=block.times) for block in blocks]
    found = np.concatenate([part.complex() for part in parts])
    whole = corrust.channelise(values, 32, missing=[(30_000, 40_000)], output="cf32", device="cpu")
    np.testing.assert_array_equal(found, whole.complex())


@pytest.mark.parametrize("bits", [8, 16])
def test_guppi_with_a_gap(bits: int, tmp_path: Path, rng: np.random.Generator) -> None:
    dtype = np.int8 if bits == 8 else np.int16
    x = rng.integers(-128, 128, (4, 1000, 2), dtype)  # [channel and polarisation][time][re, im]
    path = tmp_path / "scan.raw"
    with path.open("wb") as file:
        for first in (0, 200, 400, 800):
            block = x[:, first : first + 200].reshape(2, 2, 200, 2).transpose(0, 2, 1, 3).tobytes()
            cards: dict[str, float] = {"OBSNCHAN": 2, "NPOL": 4, "NBITS": bits, "BLOCSIZE": len(block)}
            cards |= {"PKTSIZE": bits, "PKTIDX": first, "TBIN": 1e-3, "STT_IMJD": 61100, "STT_SMJD": 43200}
            lines = [f"{name:8}= {value:>20}" for name, value in cards.items()]
            file.write("".join(f"{line:80}" for line in [*lines, "END"]).encode() + block)
    recording = corrust.open(path, kind="raw")
    assert (recording.kind, recording.layout, recording.encoding) == ("raw", "nt", "ci8" if bits == 8 else "ci16")
    assert (recording.times, recording.inputs, recording.gaps) == (1000, 4, [(600, 800)])
    assert (recording.start, recording.rate) == ("2026-03-01T12:00:00Z", 1e3)
    with corrust.Channeliser(4, 16, 4, encoding=recording.encoding, device="cpu") as plan:
        blocks = recording.blocks(times=77)
        parts = [plan.channelise(block.samples, missing=block.missing).samples for block in blocks]
    whole = corrust.channelise(x, 16, 4, missing=[(600, 800)], device="cpu")
    np.testing.assert_array_equal(np.concatenate(parts), whole.samples)
    if bits == 8:
        # The same file holds channels.
        channels = corrust.open(path)
        assert (channels.kind, channels.channels, channels.inputs) == ("channels", 2, 2)


def test_rates_that_contradict_each_other_are_said(tmp_path: Path, rng: np.random.Generator) -> None:
    np.save(tmp_path / "x.npy", np.zeros((40, 3, 4, 2), np.int8))
    assert corrust.open(tmp_path / "x.npy", rate=1e3).interval == 1e-3
    text = "HDR_SIZE 4096\nNBIT 8\nNDIM 1\nNPOL 1\nTSAMP 0.5\n"
    (tmp_path / "scan.dada").write_bytes(text.encode().ljust(4096, b"\0") + bytes(1000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert corrust.open(tmp_path / "scan.dada", rate=2e6).rate == 2e6
    with pytest.warns(UserWarning, match=r"scan.dada: a rate of 1000000 Hz as given, where TSAMP says 2000000 Hz"):
        assert corrust.open(tmp_path / "scan.dada", rate=1e6).rate == 1e6
    vdif(tmp_path / "scan.vdif", rng.integers(0, 4, 3 * 4000), lost=9)
    with (tmp_path / "scan.vdif").open("ab") as file:
        file.write(bytes(20))
    with pytest.warns(UserWarning, match=r"truncated: 20 bytes.*it is left out"):
        corrust.open(tmp_path / "scan.vdif", rate=4e6, keep_going=True)


def test_kinds(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((40, 3, 4, 2), np.int8))
    assert corrust.open(tmp_path / "x.npy").kind == "channels"
    with pytest.raises(ValueError, match=r"x\.npy"):
        corrust.open(tmp_path / "x.npy", kind="raw")
    np.save(tmp_path / "r.npy", np.zeros((40, 3), np.int16))
    with pytest.raises(ValueError, match=r"r\.npy"):
        corrust.open(tmp_path / "r.npy", kind="channels")
    for options, sentence in [
        ({"kind": "spectra"}, 'unknown kind "spectra": expected channels or raw'),
        ({"layout": "nct"}, 'unknown layout "nct"'),
        ({"rate": -1.0}, "rate=-1"),
        ({"near": "tomorrow"}, "tomorrow"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            corrust.open(tmp_path / "r.npy", **options)  # type: ignore[arg-type]
