"""Parts of recordings: what is read, and what is not; F-engines that begin within a stream."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import samples
from test_open import guppi

import corrust


def vdif(path: Path, rng: np.random.Generator, frames: int, threads: int, spread: int = 0) -> None:
    """Write VDIF of 2 bits, frames of 256 samples, 100 a second; a few out of order, lost, repeated or invalid."""
    order = [(frame, thread) for frame in range(frames) for thread in range(threads)]
    for _ in range(len(order) // 7 if spread else 0):
        here = int(rng.integers(1, len(order) - 1))
        there = min(len(order) - 1, here + int(rng.integers(spread)))
        order[here], order[there] = order[there], order[here]
    if spread:
        kept = [place for place in order[1:-1] if rng.random() > 0.05]
        order = [order[0], *kept, order[-1]]
        order.insert(len(order) // 2, order[len(order) // 3])
    with path.open("wb") as file:
        for frame, thread in order:
            invalid = bool(spread) and rng.random() < 0.03
            second, number = divmod(frame, 100)
            words = [second | invalid << 31, number, 12, 1 << 26 | thread << 16, 0, 0, 0, 0]
            file.write(struct.pack("<8I", *words))
            file.write(rng.integers(0, 256, 64, np.uint8).tobytes())


def recordings(folder: Path, rng: np.random.Generator) -> list[tuple[str, dict[str, Any]]]:
    """A recording of each kind: its name, and how it is opened."""
    found: list[tuple[str, dict[str, Any]]] = []
    for layout in ("tcn", "cnt"):
        axis = 0 if layout == "tcn" else 2
        x = samples(rng, "ci8", layout, 700, 3, 2)
        names = [str(folder / f"{layout}.{part}.npy") for part in range(3)]
        for name, part in zip(names, np.split(x, [200, 201], axis=axis), strict=True):
            np.save(name, part)
        found.append((layout, {"paths": names, "layout": layout}))
    np.save(folder / "raw.npy", rng.integers(-128, 128, (3, 700), np.int8))
    found.append(("nt", {"paths": folder / "raw.npy"}))
    guppi(folder / "x.raw", samples(rng, "ci8", "tcn", 600, 4, 2), 150)
    found += [("guppi", {"paths": folder / "x.raw"}), ("guppi raw", {"paths": folder / "x.raw", "kind": "raw"})]
    step = 2 * 3 * 2
    parts = []
    for number, offset in enumerate([0, 300, 450]):
        header = f"HDR_SIZE 4096\nNBIT 8\nNDIM 2\nNPOL 2\nNCHAN 3\nTSAMP 1\nOBS_OFFSET {offset * step}\n"
        parts.append(folder / f"{number}.dada")
        parts[-1].write_bytes(header.encode().ljust(4096, b"\0") + rng.bytes(step * (250 if number == 0 else 150)))
    found += [("dada", {"paths": parts, "kind": "channels"}), ("dada raw", {"paths": parts})]
    vdif(folder / "neat.vdif", rng, 250, 2)
    vdif(folder / "torn.vdif", rng, 250, 3, 40)
    found += [("vdif", {"paths": folder / "neat.vdif"}), ("vdif, torn", {"paths": folder / "torn.vdif"})]
    return found


def parts_of(block: Any, recording: Any) -> tuple[Any, Any]:
    """Times of a block, each a row of values, and whether they are missing of inputs."""
    x, times = block.samples, block.times
    if recording.encoding == "vdif-2":
        x = np.stack([x >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1).reshape(recording.inputs, -1)[:, :times]
    axis = {"tcn": 0, "cnt": 2, "nt": 1, "tn": 0}[recording.layout]
    rows = np.moveaxis(x, axis, 0).reshape(times, -1)
    gone = np.zeros((times, recording.inputs), bool)
    for start, stop, *others in block.missing:
        inputs = others[1] if others and others[1] is not None else (0, recording.inputs)
        gone[start:stop, slice(*inputs)] = True
    if recording.kind == "raw":
        # What is missing may hold anything.
        each = rows.reshape(times, recording.inputs, -1).copy()
        each[gone] = 0
        rows = each.reshape(times, -1)
    return rows, gone


def test_any_range_of_every_format(tmp_path: Path, rng: np.random.Generator) -> None:
    for name, how in recordings(tmp_path, rng):
        recording = corrust.open(**how)
        (block,) = recording.blocks(times=recording.times)
        rows, gone = parts_of(block, recording)
        cuts = [0, 1, 199, 200, 201, 249, 250, 310, recording.times - 1, recording.times]
        cuts += rng.integers(0, recording.times, 3).tolist()
        for start in cuts:
            for stop in (None, min(recording.times, start + 77), recording.times + 5):
                end = recording.times if stop is None else min(stop, recording.times)
                for times in (64, 1000) if start % 2 else (50,):
                    blocks = list(recording.blocks(times, start, stop))
                    assert [block.start for block in blocks] == list(range(start, end, times)), (name, start, stop)
                    assert sum(block.times for block in blocks) == end - start
                    for block in blocks:
                        found = parts_of(block, recording)
                        there = slice(block.start, block.start + block.times)
                        np.testing.assert_array_equal(found[1], gone[there], err_msg=f"{name} from {start}")
                        np.testing.assert_array_equal(found[0], rows[there], err_msg=f"{name} from {start}")
        with pytest.raises(ValueError, match="blocks from time 9 to 8"):
            recording.blocks(start=9, stop=8)


def read_so_far() -> int:
    """Bytes that this process has read."""
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="no /proc/self/io: nobody counts what is read")
def test_what_is_before_is_not_read(tmp_path: Path, rng: np.random.Generator) -> None:
    np.save(tmp_path / "tcn.npy", np.zeros((20_000, 50, 10, 2), np.int8))
    np.save(tmp_path / "nt.npy", np.zeros((4, 5_000_000), np.int8))
    guppi(tmp_path / "x.raw", np.zeros((30_000, 160, 2, 2), np.int8), 0)
    header = b"HDR_SIZE 4096\nNBIT 8\nNDIM 2\nNPOL 2\nNCHAN 3\n".ljust(4096, b"\0")
    (tmp_path / "x.dada").write_bytes(header + bytes(12 * 1_500_000))
    for name in ("tcn.npy", "nt.npy", "x.raw", "x.dada"):
        recording = corrust.open(tmp_path / name)
        before = read_so_far()
        (block,) = recording.blocks(100, recording.times - 150, recording.times - 50)
        assert block.times == 100
        # The part, and headers.
        assert read_so_far() - before < block.samples.nbytes + (1 << 17), name
    # Frames that are early may stand in the 64 MiB before.
    path = tmp_path / "long.vdif"
    vdif(tmp_path / "x.vdif", rng, 100, 1)
    second = np.fromfile(tmp_path / "x.vdif", np.uint8).reshape(100, 96)
    with path.open("wb") as file:
        for number in range(0, 20_000, 100):
            frames = np.repeat(second[None], 100, axis=0).reshape(100, 100, 96)
            frames[:, :, :4] = np.arange(number, number + 100, dtype="<u4").view(np.uint8).reshape(100, 1, 4)
            file.write(frames.tobytes())
    recording = corrust.open(path)
    assert recording.times == 20_000 * 100 * 256
    before = read_so_far()
    assert sum(block.times for block in recording.blocks(1000, recording.times - 1000)) == 1000
    assert read_so_far() - before < (64 << 20) + (8 << 20) < path.stat().st_size / 2


def test_an_f_engine_begins_anywhere(device: str, rng: np.random.Generator) -> None:
    raw = rng.integers(-100, 100, (3, 6_000), np.int8)
    missing: list[tuple[Any, ...]] = [(1500, 1510), (3000, 3001, None, (1, 2))]
    delays = [
        # Delays that leap, end and move; forwards is a negative delay.
        [(0, 2e-3, [4e-5]), (2e-3, 1, [-3e-5, 1e-3])],
        [(0, 3e-3, [0, 2e-2])],
        [(0, 1, [1e-5, -2e-2, 3.0])],
    ]
    for options in (
        {},
        {"hop": 12},
        {"delays": delays, "rate": 1e6, "sky_frequency": 1e9},
        {"delays": delays, "rate": 1e6, "hop": 12, "taps": 3, "output_layout": "cnt"},
    ):
        with corrust.Channeliser(3, 8, device=device, **{"taps": 4, **options}) as engine:  # type: ignore[arg-type]
            parts = [engine.channelise(raw, missing=missing), engine.finish()]
            axis = 0 if engine.output_layout == "tcn" else 2
            whole = np.concatenate([part.samples for part in parts], axis=axis)
            lost = np.zeros((whole.shape[axis], 3), bool)
            for part in parts:
                for start, stop, *others in part.missing:
                    inputs = others[1] if others and others[1] is not None else (0, 3)
                    lost[part.first + start : part.first + stop, slice(*inputs)] = True
            some = rng.integers(0, whole.shape[axis], 12 if device == "cpu" else 1).tolist()
            for spectrum in [*([0, 1, 2, 50] if device == "cpu" else [2]), *some]:
                first = engine.begin_at(spectrum)
                assert first <= spectrum * engine.hop + 60
                assert engine.spectra == spectrum and engine.times == first
                at, found = first, []
                while at < raw.shape[1]:
                    end = min(raw.shape[1], at + 700)
                    gone = [
                        (max(start, at) - at, min(stop, end) - at, *others)
                        for start, stop, *others in missing
                        if start < end and stop > at
                    ]
                    found.append(engine.channelise(raw[:, at:end], missing=gone))
                    at = end
                found.append(engine.finish())
                assert found[0].first == spectrum
                again = np.concatenate([part.samples for part in found], axis=axis)
                np.testing.assert_array_equal(again, whole.take(range(spectrum, whole.shape[axis]), axis))
                told = np.zeros_like(lost)
                for part in found:
                    for start, stop, *others in part.missing:
                        inputs = others[1] if others and others[1] is not None else (0, 3)
                        told[part.first + start : part.first + stop, slice(*inputs)] = True
                np.testing.assert_array_equal(told[spectrum:], lost[spectrum:])


def test_gains_that_lie_anywhere(rng: np.random.Generator) -> None:
    raw = rng.integers(-100, 100, (2, 1000), np.int8)
    gains = rng.normal(1, 0.1, (2, 8)).astype(np.complex64)
    memory = np.zeros(gains.nbytes + 1, np.uint8)
    odd = memory[1:].view(np.complex64).reshape(2, 8)
    odd[:] = gains
    assert not odd.flags.aligned
    expected, found = (corrust.channelise(raw, 8, gains=each, device="cpu").samples for each in (gains, odd))
    np.testing.assert_array_equal(found, expected)


def test_levels_of_a_recording(tmp_path: Path, rng: np.random.Generator) -> None:
    np.save(tmp_path / "raw.npy", rng.integers(-100, 100, (2, 5000), np.int8))
    with corrust.Channeliser(2, 8, device="cpu") as engine:
        gains = engine.level(np.load(tmp_path / "raw.npy"), 20)
        np.testing.assert_array_equal(engine.level(corrust.open(tmp_path / "raw.npy"), 20), gains)
        np.save(tmp_path / "x.npy", samples(rng, "ci8", "tcn", 100, 2, 2))
        with pytest.raises(ValueError, match="levels of a recording of channels"):
            engine.level(corrust.open(tmp_path / "x.npy"), 20)
