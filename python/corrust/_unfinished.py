"""Outputs that are being made: a folder beside the output, which a later run goes on with."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# A line of the journal: the first dump, their number, the first channel, the one after the last, and a checksum.
_Line = tuple[int, int, int, int, int]


class Unfinished:
    """Sums of a job, dump by dump and channel by channel, and which of them are there.

    A part counts as there when its bytes are on the disk and the journal says so: what a crash leaves behind is
    whole. The folder is the output's name with ``.parts`` behind it, and gone when the job is done.

    Parameters
    ----------
    output : Path
        File that is made in the end, on the same file system.
    job : mapping
        Job of the sums; a folder of another job is refused.
    shape : tuple of int
        Shape of the sums: dumps, gates, channels, baselines, 2.
    gated : bool
        Whether the finished array has the axis of gates.
    fresh : bool
        Throw away what an earlier run has left behind.

    Attributes
    ----------
    done : numpy.ndarray
        Which dumps are there: bool ``[dump, channel]``.
    """

    def __init__(
        self, output: Path, job: Mapping[str, Any], shape: tuple[int, ...], gated: bool, fresh: bool
    ) -> None:
        self.output = output
        self.folder = output.with_name(output.name + ".parts")
        self._sums_path = self.folder / "sums.npy"
        self._shape = shape
        self.done = np.zeros((shape[0], shape[2]), bool)
        text = json.dumps(job, sort_keys=True, indent=1)
        with named(self.folder):
            self._begin(text, gated, fresh)

    def _begin(self, text: str, gated: bool, fresh: bool) -> None:
        """Make the folder, or go on with the one that is there."""
        dumps, gates, channels, baselines, _ = self._shape
        if fresh and self.folder.exists():
            shutil.rmtree(self.folder)
        known = self.folder / "job.json"
        begun = known.exists() and self._sums_path.exists()
        if begun:
            _same(self.folder, json.loads(known.read_text()), json.loads(text))
        elif self.folder.exists():
            # A run had finished but for sweeping, or had hardly begun.
            shutil.rmtree(self.folder)
        self.folder.mkdir(exist_ok=True)
        self._journal = (self.folder / "journal").open("a+b")
        try:
            fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._journal.close()
            raise ValueError(f"{self.folder}: another run is at work in it: expected one at a time") from None
        array = (dumps, *([gates] if gated else []), channels, baselines, 2)
        header = {"descr": "<i8", "fortran_order": False, "shape": array}
        with self._sums_path.open("r+b" if begun else "w+b") as file:
            if not begun:
                np.lib.format.write_array_header_1_0(file, header)  # type: ignore[no-untyped-call]
            else:
                np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
                np.lib.format.read_array_header_1_0(file)  # type: ignore[no-untyped-call]
            self._start = file.tell()
            file.truncate(self._start + 8 * int(np.prod(self._shape)))
        self._sums = os.open(self._sums_path, os.O_RDWR)
        self._valid = os.open(self.folder / "valid", os.O_RDWR | os.O_CREAT)
        os.truncate(self._valid, 8 * dumps * gates * baselines)
        if begun:
            self._recover()
        else:
            partial = self.folder / "job.json.new"
            partial.write_text(text)
            partial.replace(known)

    def _places(self, dump: int, dumps: int, channels: tuple[int, int]) -> list[tuple[int, int]]:
        """Return offsets and lengths in bytes of the sums of dumps and channels."""
        _, gates, all_channels, baselines, _ = self._shape
        row = 16 * baselines
        first, end = channels
        if (first, end) == (0, all_channels):
            each = gates * all_channels * row
            return [(self._start + dump * each, dumps * each)]
        rows = range(dump * gates, (dump + dumps) * gates)
        return [(self._start + (gate * all_channels + first) * row, (end - first) * row) for gate in rows]

    def _recover(self) -> None:
        """Take over what the journal says is there, as far as it is."""
        self._journal.seek(0)
        kept = 0
        for line in self._journal.read().splitlines(keepends=True):
            try:
                dump, dumps, first, end, expected = map(int, line.split())
            except ValueError:
                break  # The crash came while it was written, and nothing comes after it.
            if not line.endswith(b"\n"):
                break
            kept += len(line)
            found = 0
            for offset, length in self._places(dump, dumps, (first, end)):
                found = zlib.crc32(os.pread(self._sums, length, offset), found)
            if found == expected:
                self.done[dump : dump + dumps, first:end] = True
        self._journal.truncate(kept)
        self._journal.seek(0, os.SEEK_END)

    def add(
        self,
        dump: int,
        channels: tuple[int, int],
        sums: npt.NDArray[np.int64],
        valid: npt.NDArray[np.uint64],
    ) -> None:
        """Keep the sums ``[dump, gate, channel, baseline, 2]`` of dumps and channels, and the samples behind them."""
        with named(self.folder):
            self._add(dump, channels, sums, valid)

    def _add(
        self,
        dump: int,
        channels: tuple[int, int],
        sums: npt.NDArray[np.int64],
        valid: npt.NDArray[np.uint64],
    ) -> None:
        dumps = len(sums)
        _, gates, _, baselines, _ = self._shape
        rest, checksum = _bytes(np.ascontiguousarray(sums, "<i8")), 0
        for offset, length in self._places(dump, dumps, channels):
            _write(self._sums, rest[:length], offset)
            checksum = zlib.crc32(rest[:length], checksum)
            rest = rest[length:]
        _write(self._valid, _bytes(np.ascontiguousarray(valid, "<u8")), 8 * dump * gates * baselines)
        os.fsync(self._sums)
        os.fsync(self._valid)
        self._journal.write(f"{dump} {dumps} {channels[0]} {channels[1]} {checksum}\n".encode())
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self.done[dump : dump + dumps, channels[0] : channels[1]] = True

    def sums(self) -> npt.NDArray[np.int64]:
        """All sums, as the file holds them: int64 ``[dump, gate, channel, baseline, 2]``."""
        return np.memmap(self._sums_path, "<i8", "r", self._start, self._shape)

    def valid(self) -> npt.NDArray[np.uint64]:
        """The samples behind the sums: uint64 ``[dump, gate, baseline]``."""
        dumps, gates, _, baselines, _ = self._shape
        return np.fromfile(self.folder / "valid", "<u8").reshape(dumps, gates, baselines)

    def become(self) -> None:
        """Make the sums the output."""
        os.replace(self._sums_path, self.output)

    def sweep(self) -> None:
        """Remove the folder."""
        self.close()
        shutil.rmtree(self.folder)

    def close(self) -> None:
        """Leave the folder to a later run."""
        if not self._journal.closed:
            os.close(self._sums)
            os.close(self._valid)
            self._journal.close()


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Have errors of the system say what could not be written, where they do not say it themselves."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        if error.errno is None:
            # NumPy's own, of a file that could not be written to its end.
            raise OSError(f"{path}: cannot be written: {error}") from error
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _bytes(array: npt.NDArray[Any]) -> memoryview:
    return array.data.cast("B")


def _write(file: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written


def _same(folder: Path, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse the folder of another job."""
    for name in {**found, **expected}:
        if found.get(name) != expected.get(name):
            raise ValueError(
                f"{folder}: holds dumps of another job, of {name} {found.get(name)!r}, not "
                f"{expected.get(name)!r}: expected the same, or --restart (resume=False), which throws them away"
            )
