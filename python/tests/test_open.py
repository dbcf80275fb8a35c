"""Recordings, and the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEVICES, samples, visibilities

import corrust


def guppi(path: Path, x: Any, missing: int, **more: object) -> None:
    """Write GUPPI RAW blocks of ``[time, channel, input, 2]``, two polarisations, with a gap before the last."""
    with path.open("wb") as file:
        for index, block in enumerate(np.split(x, 3)):
            cards: dict[str, object] = {
                "OBSNCHAN": x.shape[1],
                "NPOL": 4,
                "NBITS": 8,
                "BLOCSIZE": block.size,
                "PKTIDX": index * len(block) + (missing if index == 2 else 0),
                "PKTSIZE": block[0].size,
                "TBIN": 1e-6,
                **more,
            }
            for key, value in cards.items():
                file.write(f"{key:8}= {value!r:>20}".ljust(80).encode())
            file.write(b"END".ljust(80))
            file.write(block.transpose(1, 0, 2, 3).tobytes())


def test_numpy_files(device: str, tmp_path: Path, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 100, 3, 4)
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path, part in zip(paths, np.split(x, [40]), strict=True):
        np.save(path, part)
    recording = corrust.open(paths)
    assert (recording.times, recording.channels, recording.inputs) == (100, 3, 4)
    assert recording.shape == x.shape
    assert (recording.encoding, recording.layout, recording.rate) == ("ci8", "tcn", None)
    for _ in range(2):
        blocks = list(recording.blocks(times=30))
        np.testing.assert_array_equal(np.concatenate([block.samples for block in blocks]), x)
        assert [block.start for block in blocks][:2] == [0, 30]
    dumps = list(recording.dumps(integrate=25, device=device))
    assert [dump.start for dump in dumps] == [0, 25, 50, 75]
    for dump in dumps:
        part = x[dump.start : dump.start + 25]
        np.testing.assert_array_equal(dump.visibilities, visibilities(part, "ci8", "tcn"))
    gates = rng.integers(0, 2, 100).astype(np.uint8)
    (gated,) = recording.dumps(gates=gates, device=device)
    assert isinstance(gated, list)
    for gate, dump in enumerate(gated):
        np.testing.assert_array_equal(dump.visibilities, visibilities(x[gates == gate], "ci8", "tcn"))


def test_guppi_with_a_gap(tmp_path: Path, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 96, 2, 2)
    guppi(tmp_path / "scan.raw", x, missing=32)
    recording = corrust.open(str(tmp_path / "scan.raw"))
    assert recording.times == 128
    assert recording.gaps == [(64, 96)]
    assert recording.rate == pytest.approx(1e6)
    plan = corrust.Correlator(2, 2, layout=recording.layout, device="cpu")
    for block in recording.blocks(times=50):
        plan.accumulate(block.samples, missing=block.missing)
    (dump,) = recording.dumps(device="cpu")
    for found in (plan.dump(), dump):
        np.testing.assert_array_equal(found.visibilities, visibilities(x, "ci8", "tcn"))
        assert found.times == 128 and (found.counts == 96).all()
    assert dump.missing == 32


def test_progress_and_its_end(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((64, 1, 2, 2), np.int8))
    recording = corrust.open(tmp_path / "x.npy")
    seen: list[tuple[int, int]] = []
    list(recording.dumps(device="cpu", progress=lambda done, times: seen.append((done, times))))
    assert seen[0] == (0, 64) and seen[-1] == (64, 64)

    def stop(_done: int, _times: int) -> None:
        raise RuntimeError("enough")

    dumps = recording.dumps(device="cpu", progress=stop)
    with pytest.raises(RuntimeError, match="enough"):
        next(dumps)
    assert list(dumps) == []
    pytest.importorskip("tqdm")
    assert len(list(recording.dumps(device="cpu", progress=corrust.progress_bar(disable=True)))) == 1


def test_bad_recordings(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.raw: cannot read"):
        corrust.open(tmp_path / "nothing.raw")
    (tmp_path / "text").write_text("no recording at all" * 10)
    with pytest.raises(ValueError, match="text: starts with"):
        corrust.open(tmp_path / "text")
    np.save(tmp_path / "u.npy", np.zeros((4, 1, 2), np.uint8))
    with pytest.raises(ValueError, match="encoding"):
        corrust.open(tmp_path / "u.npy")
    with pytest.raises(TypeError):
        corrust.open(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no input file"):
        corrust.open([])
    np.save(tmp_path / "x.npy", np.zeros((4, 1, 2, 2), np.int8))
    recording = corrust.open(tmp_path / "x.npy")
    with pytest.raises(ValueError, match="blocks of 0 times"):
        recording.blocks(times=0)
    with pytest.raises(ValueError, match="an integration of 5 times: expected 1 to 4"):
        next(recording.dumps(integrate=5, device="cpu"))
    with pytest.raises(ValueError, match="3 gate numbers: expected 4"):
        next(recording.dumps(gates=[0, 0, 0], device="cpu"))


def command(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run the command that comes with the package."""
    words = [sys.executable, "-m", "corrust", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("device", [device for device in DEVICES if device != "sim"])
def test_the_command_gives_the_same_bits(device: str, tmp_path: Path, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 200, 3, 5)
    np.save(tmp_path / "x.npy", x)
    done = command(
        "correlate", tmp_path / "x.npy", "-o", tmp_path / "v.npy", "--integrate", 100, "--device", device
    )
    assert done.returncode == 0, done.stderr
    written = np.load(tmp_path / "v.npy")
    dumps = corrust.open(tmp_path / "x.npy").dumps(integrate=100, device=device)
    np.testing.assert_array_equal(written, np.stack([dump.visibilities for dump in dumps]))


def test_the_command_speaks_and_fails_as_the_program() -> None:
    assert command("--version").stdout == f"corrust {corrust.__version__}\n"
    assert "corrust correlate" in command("help", "correlate").stdout
    wrong = command("correlate", "nothing.npy", "-o", "v.npy")
    assert wrong.returncode == 2
    assert "nothing.npy: cannot read" in wrong.stderr
