"""Correlation of recordings on many machines, by Dask.

`correlate` cuts a recording in times and channels. Each task of Dask opens the files itself and reads and correlates its
own part, F-engine and delays included; the exact integer sums are added in pairs as tasks finish. Whatever the cut,
the number of workers, their order, and their failures, results have the same bits as ``corrust correlate``'s.
`observe` makes the visibilities of a plan of ``corrust observe`` so.

Without a client the workers run on this machine. ``python -m corrust.distributed correlate`` and ``observe`` are the
same as commands.
Needs ``pip install corrust[distributed]``.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import hashlib
import itertools
import json
import logging
import math
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

import corrust

from ._unfinished import Unfinished, named

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

try:
    import distributed
except ImportError as _error:
    raise ImportError("corrust.distributed needs Dask: expected pip install corrust[distributed]") from _error

__all__ = ["Summary", "correlate", "observe"]

# Sums ``[dump, gate, channel, baseline, 2]`` of a part, and the samples behind them ``[dump, gate, baseline]``.
_Sums = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]

# Bytes that a task may take where nobody says how much workers have.
_MEMORY = 2 << 30

# Parts of a task's memory that its sums and its blocks may take: sums are added in pairs, and come from a plan that has
# some of its own; blocks are read ahead, and decoded.
_SUMS_PART = 8
_BLOCK_PART = 32

# Tasks for each that can run at a time, so that none waits and sums that wait to be added are few.
_WINDOW = 3

# By default tasks for each that can run at a time: the last ones end at about one time.
_EACH = 8

# Seconds in which a scheduler is to answer.
_PATIENCE = 10

# Seconds without workers after which it is said, and said again.
_QUIET = [5.0, 30.0]

_LOG = logging.getLogger("corrust.distributed")

_GONE = "the scheduler has gone or begun anew: expected it to stay; the same call goes on with the dumps that are done"
_KILLED = "workers died again and again of one task: expected more memory for each, or a smaller memory of a task"

# The standard deviations of `--level`.
_LEVELS = {"ci8": 20.0, "ci4": 2.8, "ci4-offset": 2.8}


@dataclass(frozen=True)
class Summary:
    """Summary of a call of `correlate`.

    Attributes
    ----------
    dumps, times : int
        Dumps in the output, and times in all of them.
    left_out : int
        Times at the recording's end that do not fill a dump.
    resumed : int
        Dumps that an earlier run had finished.
    tasks : int
        Parts that were correlated.
    seconds : float
    """

    dumps: int
    times: int
    left_out: int
    resumed: int
    tasks: int
    seconds: float


@dataclass(frozen=True)
class _Job:
    """Facts that every task needs."""

    paths: list[str]
    options: dict[str, Any]
    channelise: int | None
    engine: dict[str, Any]
    shifts: list[int] | None
    gates: int
    device: str
    kernel: str
    memory: int

    def open(self) -> corrust.Recording:
        return corrust.open(self.paths, **self.options)

    def channeliser(self, recording: corrust.Recording) -> corrust.Channeliser:
        return corrust.Channeliser(
            recording.inputs,
            self.channelise or 0,
            encoding=recording.encoding,
            layout=recording.layout,
            device=self.device,
            **self.engine,
        )


@dataclass(frozen=True)
class _SpectraFound:
    """Spectra of an F-engine: ``K``, ``D``, ``K P``, and the first channel's frequency in ``fs / K``."""

    residues: int
    hop: int
    window: int
    first_channel: int


@dataclass(frozen=True)
class _Found:
    """Facts of a recording, or of an F-engine's spectra of it."""

    times: int
    inputs: int
    channels: int
    encoding: str
    start: str | None
    interval: float | None
    frequencies: list[float] | None
    files: list[list[int]]
    spectra: _SpectraFound | None


@dataclass
class _Piece:
    """Dumps and channels that are finished together; of one dump perhaps in several parts."""

    dump: int
    dumps: int
    channels: tuple[int, int]
    parts: int
    waiting: int = 0
    sums: list[distributed.Future] = field(default_factory=list)


def _look(job: _Job, beside: Sequence[str]) -> _Found:
    """Look at the recording, and at the files that are read beside it."""
    recording = job.open()
    files = [[stat.st_size, stat.st_mtime_ns] for stat in map(os.stat, [*job.paths, *beside])]
    times, inputs = recording.times, recording.inputs
    start, interval, frequencies = recording.start, recording.interval, recording.frequencies
    channels, encoding = recording.channels or 0, recording.encoding
    spectra = None
    if job.channelise is not None:
        with job.channeliser(recording) as engine:
            window = len(engine.prototype)
            residues = window // engine.taps
            if times < window:
                raise ValueError(
                    f"{job.paths[0]}: {times} samples of each input: expected at least the {window} of a spectrum"
                )
            times = (times - window) // engine.hop + 1
            channels, encoding = engine.channels, engine.output
            inverted = bool(job.engine.get("inverted"))
            is_complex = residues == channels
            first = inverted - channels // 2 if is_complex else -(channels - 1) * inverted
            spectra = _SpectraFound(residues, engine.hop, window, first)
    return _Found(times, inputs, channels, encoding, start, interval, frequencies, files, spectra)


def _bytes_per_time(recording: corrust.Recording) -> int:
    """Bytes of all inputs and channels at one time, at least 1."""
    element = {"cf16": 2, "i16": 2, "ci16": 2, "f32": 4, "cf32": 4, "vdif-16": 2, "vdif-16-complex": 2}
    elements = math.prod(recording.shape) * element.get(recording.encoding, 1)
    return max(1, -(-elements // max(1, recording.times)))


def _level(job: _Job, sigma: float) -> npt.NDArray[np.complex64]:
    """Measure gains, as ``corrust correlate --level`` does."""
    recording = job.open()
    with job.channeliser(recording) as engine:
        return engine.level(recording, sigma)


# The first time of a batch, its samples, what of them is missing, and how many times they are.
_Batch = tuple[int, Any, list[tuple[Any, ...]], int]


def _ahead(blocks: Iterable[Any]) -> Iterator[Any]:
    """Read a block while the one before is computed with."""
    iterator = iter(blocks)
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, iterator, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, iterator, None)
            yield block


def _voltages(job: _Job, recording: corrust.Recording, start: int, stop: int) -> Iterator[_Batch]:
    """Times of a recording of channels."""
    times = max(1, job.memory // _BLOCK_PART // _bytes_per_time(recording))
    for block in _ahead(recording.blocks(min(times, stop - start), start, stop)):
        yield block.start, block.samples, block.missing, block.times


def _spectra(
    job: _Job, recording: corrust.Recording, engine: corrust.Channeliser, start: int, stop: int, longest: int
) -> Iterator[_Batch]:
    """Spectra of a recording of raw voltages, the bits that all of it gives; dumps have at most ``longest`` of them."""
    on_device = job.device.startswith("cuda")
    first = engine.begin_at(start)
    window = len(engine.prototype)
    # Spectra of advanced inputs need later samples.
    end = min((stop - 1) * engine.hop + window, recording.times)
    times = max(job.memory // _BLOCK_PART // _bytes_per_time(recording), 2 * window)
    if on_device:
        # Spectra on the device are not cut: a block is read once for each dump that it touches.
        times = min(times, max(longest * engine.hop, 2 * window))
    times = -(-times // 64) * 64

    def blocks() -> Iterator[corrust.Block]:
        yield from _ahead(recording.blocks(times, min(first, end), end))
        yield from recording.blocks(window, end)

    for block in blocks():
        spectra = engine.channelise(block.samples, missing=block.missing, times=block.times, device=on_device)
        if spectra.times:
            yield spectra.first, spectra.samples, spectra.missing, spectra.times
        if engine.spectra >= stop:
            return
    rest = engine.finish()
    if rest.times:
        yield rest.first, rest.samples, rest.missing, rest.times


def _part(
    job: _Job, spans: list[tuple[int, int]], channels: tuple[int, int], gates: npt.NDArray[np.uint8] | None
) -> _Sums:
    """Correlate spans of times that follow one another, a dump of each; ``gates`` are of all their times."""
    recording = job.open()
    with contextlib.ExitStack() as stack:
        inputs, encoding, layout = recording.inputs, recording.encoding, recording.layout
        engine = None
        if job.channelise is not None:
            engine = stack.enter_context(job.channeliser(recording))
            encoding, layout = engine.output, engine.output_layout
        plan = corrust.Correlator(
            inputs,
            channels[1] - channels[0],
            encoding,
            layout,
            device=job.device,
            kernel=job.kernel,
            gates=job.gates,
            shifts=job.shifts,
        )
        stack.enter_context(plan)
        # Samples that are delayed into the first span come before it.
        first, stop = spans[0][0], spans[-1][1]
        begin = max(0, first - max(job.shifts or [0]))
        of_all = np.zeros(stop - begin, np.uint8)
        if gates is not None:
            of_all[first - begin :] = gates
        batches = (
            _voltages(job, recording, begin, stop)
            if engine is None
            else _spectra(job, recording, engine, begin, stop, max(end - start for start, end in spans))
        )
        borders = iter([first] * (begin < first) + [end for _, end in spans])
        border = next(borders)
        dumps: list[list[corrust.Dump]] = []
        start, times = begin, 0
        for start, samples, missing, times in batches:
            at, end = start, min(start + times, stop)
            whole = _of_channels(samples, layout, channels, plan.channels)
            while at < end:
                upto = min(end, border)
                there = of_all[at - begin : upto - begin] if gates is not None else None
                _feed(plan, whole, missing, (at - start, upto - start), times, layout, there)
                at = upto
                if at == border:
                    if border == first:
                        plan.reset()
                    else:
                        dump = plan.dump()
                        dumps.append(dump if isinstance(dump, list) else [dump])
                    border = next(borders, stop + 1)
            if len(dumps) == len(spans):
                break
    if len(dumps) != len(spans):
        raise ValueError(f"{job.paths[-1]}: ended at time {start + times}: expected {stop} times")
    sums = np.stack([np.stack([gate.visibilities for gate in dump]) for dump in dumps])
    # Gaps are gaps in all channels.
    valid = np.stack([np.stack([gate.counts[0] for gate in dump]) for dump in dumps])
    return sums, valid


def _of_channels(samples: Any, layout: str, channels: tuple[int, int], count: int) -> Any:
    """Some of the channels of a batch."""
    axis = 1 if layout == "tcn" else 0
    if samples.shape[axis] == count:
        return samples
    if not isinstance(samples, np.ndarray):
        samples = samples.numpy()
    chosen = slice(*channels)
    return samples[:, chosen] if axis else samples[chosen]


def _feed(
    plan: corrust.Correlator,
    samples: Any,
    missing: list[tuple[Any, ...]],
    span: tuple[int, int],
    times: int,
    layout: str,
    gates: npt.NDArray[np.uint8] | None,
) -> None:
    """Add the times of a span of a batch."""
    start, stop = span
    if (start, stop) != (0, times):
        if isinstance(samples, np.ndarray):
            samples = samples[start:stop] if layout == "tcn" else samples[:, :, start:stop]
            missing = [
                (max(first, start) - start, min(end, stop) - start, *others)
                for first, end, *others in missing
                if first < stop and end > start
            ]
        else:
            # Samples on a GPU are not cut: other times belong to no gate.
            marked = np.full(times, corrust.DROP, np.uint8)
            marked[start:stop] = 0 if gates is None else gates
            gates = marked
    if any(others and others[0] is not None for _, _, *others in missing):
        raise ValueError("samples that are missing in some of the channels: expected all, which tasks share out")
    plan.accumulate(samples, missing=missing, gates=gates)


def _add(a: _Sums, b: _Sums) -> _Sums:
    """Add the sums of two parts of the same dump."""
    return a[0] + b[0], a[1] + b[1]


def _pieces(
    found: _Found, integrate: int, gates: int, tasks: int, memory: int, done: npt.NDArray[np.bool_]
) -> list[_Piece]:
    """Cut a job into about ``tasks`` tasks without the dumps that are done."""
    dumps, channels = done.shape
    baselines = found.inputs * (found.inputs + 1) // 2
    most = max(1, memory // _SUMS_PART // (16 * gates * baselines))  # dumps of one channel
    width = min(channels, most)
    times_of_each = max(1, tasks // -(-channels // width))
    if times_of_each > dumps:
        together, parts = 1, min(-(-times_of_each // dumps), integrate)
    else:
        together, parts = min(-(-dumps // times_of_each), max(1, most // channels)), 1
    pieces = []
    for dump in range(0, dumps, together):
        for first in range(0, channels, width):
            count, end = min(together, dumps - dump), min(first + width, channels)
            if not done[dump : dump + count, first:end].all():
                pieces.append(_Piece(dump, count, (first, end), min(parts, found.times - dump * integrate)))
    return pieces


def _spans(piece: _Piece, part: int, integrate: int, times: int) -> list[tuple[int, int]]:
    """The times of a part of a piece, dump by dump; the last dump may be cut short by the end of all times."""
    starts = range(piece.dump * integrate, (piece.dump + piece.dumps) * integrate, integrate)
    if piece.parts == 1:
        return [(start, min(start + integrate, times)) for start in starts]
    start, length = starts[0], min(integrate, times - starts[0])
    return [(start + part * length // piece.parts, start + (part + 1) * length // piece.parts)]


class _Workers:
    """Check whether a cluster has workers for the tasks, and report when it has none.

    Parameters
    ----------
    client : distributed.Client
    gpus : bool
        Whether tasks need workers that offer the resource GPU.
    wait : float or None
        Seconds to wait for the first worker; None for ever.
    """

    def __init__(self, client: distributed.Client, gpus: bool, wait: float | None) -> None:
        self._client, self._gpus, self._wait = client, gpus, wait
        self._since = self._said = time.monotonic()
        self._quiet = itertools.chain(_QUIET, itertools.repeat(_QUIET[-1]))
        self._next = next(self._quiet)

    def there(self) -> bool:
        """Whether there are any."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        now = time.monotonic()
        if any(not self._gpus or worker["resources"].get("GPU") for worker in workers):
            self._since = self._said = now
            return True
        offering = " that offer the resource GPU" if self._gpus else ""
        if self._wait is not None and now - self._since >= self._wait:
            raise ValueError(f"the scheduler has had no workers{offering} for {self._wait:g} s: expected at least one")
        if now - self._said >= self._next:
            self._said, self._next = now, next(self._quiet)
            address = self._client.scheduler.address
            _LOG.warning(
                "the scheduler %s has no workers%s since %.0f s: waiting for one (dask worker %s)",
                address,
                offering,
                now - self._since,
                address,
            )
        return False

    def come(self) -> None:
        """Wait for the first."""
        while not self.there():
            time.sleep(0.1)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look again and again, while something else waits for the tasks."""
        done = threading.Event()
        self._wait = None

        def watch() -> None:
            while not done.wait(1):
                # Whoever waits for the tasks hears that the scheduler has gone.
                with contextlib.suppress(Exception):
                    self.there()

        thread = threading.Thread(target=watch, name="corrust-workers", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


class _Run:
    """The tasks of a job on a cluster."""

    def __init__(self, client: distributed.Client, job: _Job) -> None:
        self._client = client
        self._job = job
        self._name = uuid.uuid4().hex[:8]
        # One task for each GPU that workers offer.
        self._resources = {"GPU": 1} if job.device.startswith("cuda") else None
        self._number = itertools.count()

    def slots(self) -> int:
        """Tasks that can run at a time."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        if self._resources:
            return max(1, int(sum(worker["resources"].get("GPU", 0) for worker in workers)))
        return max(1, int(sum(worker["nthreads"] for worker in workers)))

    def submit(self, what: Callable[..., Any], *arguments: Any, priority: int = 0) -> distributed.Future:
        key = f"corrust{what.__name__}-{self._name}-{next(self._number)}"
        resources = None if what is _add else self._resources
        return self._client.submit(
            what, *arguments, key=key, pure=False, resources=resources, priority=priority
        )

    def finished(
        self, pieces: list[_Piece], integrate: int, times: int, gates: npt.NDArray[np.uint8] | None
    ) -> Iterator[tuple[_Piece, _Sums | None]]:
        """Correlate pieces, and hand each out with its sums when it is whole, and without at each of its parts."""
        parts = ((piece, part) for piece in pieces for part in range(piece.parts))
        of_piece: dict[distributed.Future, tuple[_Piece, bool]] = {}
        coming = distributed.as_completed(loop=self._client.loop, raise_errors=False)

        def begin() -> None:
            window = _WINDOW * self.slots()
            running = sum(is_part for _, is_part in of_piece.values())
            for piece, part in itertools.islice(parts, max(0, window - running)):
                spans = _spans(piece, part, integrate, times)
                chosen = None if gates is None else gates[spans[0][0] : spans[-1][1]]
                future = self.submit(_part, self._job, spans, piece.channels, chosen)
                of_piece[future] = (piece, True)
                piece.waiting += 1
                if part + 1 == piece.parts:
                    piece.parts = 0
                coming.add(future)

        begin()
        for future in coming:
            piece, is_part = of_piece.pop(future)
            # One whose worker has died since is made again for those who need it.
            if future.status in ("error", "cancelled"):
                raise _fault(future)
            piece.waiting -= 1
            piece.sums.append(future)
            if is_part:
                yield piece, None
            begin()
            if len(piece.sums) > 1:
                # Before all other work, so that few sums wait.
                added = self.submit(_add, piece.sums.pop(), piece.sums.pop(), priority=10)
                of_piece[added] = (piece, False)
                piece.waiting += 1
                coming.add(added)
            elif not piece.parts and not piece.waiting:
                yield piece, piece.sums.pop().result()


def _fault(future: distributed.Future) -> Exception:
    """Reason why a task gave no sums."""
    try:
        error = future.exception(timeout=1)
    except Exception as other:  # The scheduler is gone, or has forgotten it.
        error = other
    if isinstance(error, distributed.KilledWorker):
        return RuntimeError(_KILLED)
    if isinstance(error, (ValueError, TypeError, OSError, RuntimeError, MemoryError)) and future.status == "error":
        return error
    fault = RuntimeError(_GONE)
    fault.__cause__ = error
    return fault


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    """Report that the cluster has gone."""
    try:
        yield
    except (distributed.comm.CommClosedError, concurrent.futures.CancelledError, asyncio.CancelledError) as error:
        raise RuntimeError(_GONE) from error
    except distributed.KilledWorker as error:
        raise RuntimeError(_KILLED) from error


@contextlib.contextmanager
def _local(device: str, workers: int | None) -> Iterator[distributed.Client]:
    """A cluster of this machine: a worker for each GPU, or workers that share the cores."""
    gpus = 0
    if device == "auto" or device.startswith("cuda"):
        gpus = sum(found["device"].startswith("cuda") for found in corrust.devices())
    cores = len(os.sched_getaffinity(0))
    count = workers or gpus or 1
    memory = distributed.system.MEMORY_LIMIT // count
    specifications: dict[int, dict[str, Any]] = {}
    for number in range(count):
        environment = {"RAYON_NUM_THREADS": str(max(1, cores // count))}
        resources = {}
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = str(number % gpus)
            resources = {"GPU": 1}
        options = {"nthreads": 1, "memory_limit": memory, "env": environment, "resources": resources}
        specifications[number] = {"cls": distributed.Nanny, "options": {**options, "silence_logs": logging.ERROR}}
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": ":0"},
    }
    with (
        distributed.SpecCluster(specifications, scheduler, silence_logs=logging.CRITICAL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def _digest(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype} {list(array.shape)} {hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}"


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray):
        return _digest(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (os.PathLike, np.generic)):
        return os.fspath(value) if isinstance(value, os.PathLike) else value.item()
    return value


def _whole_numbers(name: str, given: Any) -> npt.NDArray[np.int64]:
    """Whole numbers of an array, or of the NumPy file of such a name."""
    numbers = np.load(given) if isinstance(given, (str, os.PathLike)) else np.asarray(given)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(f"{name} of {numbers.dtype} {list(numbers.shape)}: expected whole numbers on one axis")
    return numbers.astype(np.int64)


def _gate_numbers(given: Any, times: int) -> npt.NDArray[np.uint8]:
    numbers = _whole_numbers("gates", given)
    if len(numbers) != times or ((numbers < 0) | (numbers > corrust.DROP)).any():
        raise ValueError(
            f"{len(numbers)} gates from {numbers.min(initial=corrust.DROP)} to {numbers.max(initial=0)}: expected "
            f"{times}, one for each time, from 0 to {corrust.DROP}"
        )
    if (numbers == corrust.DROP).all():
        raise ValueError(f"gates of {corrust.DROP} alone: expected a time that is not dropped")
    return numbers.astype(np.uint8)


def _shifts(given: Any, found: _Found) -> list[int]:
    shifts: list[int] = _whole_numbers("shifts", given).tolist()
    # Relative to the least, where one is negative.
    least = min([0, *shifts])
    shifts = [shift - least for shift in shifts]
    if len(shifts) != found.inputs or not all(0 <= shift < found.times for shift in shifts):
        raise ValueError(
            f"shifts {shifts}: expected {found.inputs}, one for each input, at most {found.times - 1} apart"
        )
    return shifts


def _check(paths: Sequence[str], output: Path, counts: Path | None, others: Sequence[str]) -> None:
    """Refuse outputs that are inputs, or cannot be written."""
    written = [output, *([counts] if counts else [])]
    for path in written:
        if not path.parent.is_dir():
            raise ValueError(f"{path}: its folder is not there: expected one that is")
        if path.is_dir():
            raise ValueError(f"{path}: is a folder: expected a file to write")
        for source in [*paths, *others]:
            if path.exists() and os.path.exists(source) and os.path.samefile(path, source):
                raise ValueError(f"{path}: is an input: expected another file to write")
    if counts and counts.resolve() == output.resolve():
        raise ValueError(f"{counts}: is to hold two outputs: expected two files")


def _read_array(given: Any) -> dict[str, Any]:
    """Read the facts of the array."""
    if isinstance(given, Mapping):
        return dict(given)
    try:
        array = json.loads(Path(given).read_text())
    except ValueError as error:
        raise ValueError(f"{given}: {error}: expected an array file, JSON") from None
    if not isinstance(array, dict):
        raise ValueError(f"{given}: expected an array file, a JSON object")
    return array


def _completed(array: dict[str, Any], found: _Found, job: _Job, rate: float | None) -> dict[str, Any]:
    """The array, completed with times and frequencies of the recording and the F-engine."""
    array = dict(array)
    start = array.get("start") or found.start
    spectra = found.spectra
    says_frequencies = "frequencies" in array or "first_channel" in array
    if spectra is None:
        if found.interval is not None:
            array.setdefault("sample_time", found.interval)
        if found.frequencies is not None and not says_frequencies:
            array["frequencies"] = found.frequencies
    else:
        start = job.engine.get("start") or start
        if rate is not None:
            array.setdefault("sample_time", spectra.hop / rate)
            width, sky = rate / spectra.residues, job.engine.get("sky_frequency")
            if sky is not None and not says_frequencies:
                array.update(first_channel=sky + spectra.first_channel * width, channel_width=width)
            if start is not None:
                # So that the first spectrum has its centre where the filter bank's is.
                offset = round((spectra.window - spectra.hop) / 2 / rate * 1e9)
                moment = np.datetime64(start.removesuffix("Z"), "ns") + np.timedelta64(offset, "ns")
                start = f"{moment}Z"
    if start is not None:
        array["start"] = start
    return array


def correlate(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    client: distributed.Client | None = None,
    workers: int | None = None,
    wait: float | None = None,
    integrate: int | None = None,
    keep_partial: bool = False,
    array: Any = None,
    gzip: int | None = None,
    counts: str | os.PathLike[str] | None = None,
    gates: Any = None,
    shifts: Any = None,
    channelise: int | None = None,
    engine: Mapping[str, Any] | None = None,
    level: float | None = None,
    device: str = "auto",
    kernel: str = "auto",
    tasks: int | None = None,
    memory: int | None = None,
    resume: bool = True,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Summary:
    """Correlate a recording on many workers into a file: the bits that ``corrust correlate`` writes.

    Workers open the files by the same names. An output that is not there yet is in the making in a folder beside it,
    its name with ``.parts`` behind it; the same call goes on with the dumps that are finished there, whatever crashed.

    Parameters
    ----------
    paths : path or sequence of path
        As of `corrust.open`.
    output : path
        NumPy file, int64 ``[dump][channel][baseline][2]``, or UVH5, whose name ends in ``.uvh5``.
    client : distributed.Client, optional
        Client of the cluster that works; by default a cluster of this machine is made for the time of the call.
    workers : int, optional
        Number of workers of that cluster; by default one for each GPU, or one that has all cores.
    wait : float, optional
        Seconds to wait for a client's first worker; by default for ever. While there is none, the logger
        ``corrust.distributed`` says so.
    integrate : int, optional
        Time samples of a dump; by default all are one. Those at the end that do not fill a dump are left out.
    keep_partial : bool
        Keep the last dump although it has fewer time samples than the others: ``Summary.times`` has them, too.
    array : path or dict
        Facts of the inputs, channels and times, for UVH5.
    gzip : int, optional
        Level of compression of UVH5, 1 to 9; by default none.
    counts : path, optional
        NumPy file for the number of valid time samples of each dump, uint64 ``[dump]``; ``[dump][baseline]`` with
        shifts or raw voltages.
    gates : array of uint8 or path, optional
        The gate of each time, or `corrust.DROP`; the output has an axis of gates then, ``[dump][gate]...``.
    shifts : sequence of int or path, optional
        As of `corrust.Correlator`.
    channelise : int, optional
        Number of channels to make of a recording of raw voltages. Spectra are the time samples then.
    engine : dict, optional
        Options of `corrust.Channeliser`: ``taps``, ``delays``, ``rate``, ``sky_frequency`` and so on.
    level : float, optional
        Gains that give channels this standard deviation, measured of the first block.
    device : str
        ``"auto"``: workers that offer the resource ``GPU`` take a task for each, on their first GPU; without such
        workers the CPU. Or ``"cuda"``, ``"cpu"``.
    kernel : str
        As of `corrust.Correlator`.
    tasks : int, optional
        About how many parts to cut the recording into; by default 8 for each that can run at a time.
    memory : int, optional
        Bytes that a task may take; by default half of what a worker has for each.
    resume : bool
        Go on with what an earlier call has left unfinished; if false, throw it away.
    progress : callable, optional
        Called with the times done and the times to do; ``corrust.progress_bar()`` is one.
    **options
        The others of `corrust.open`.

    Returns
    -------
    Summary

    Raises
    ------
    ValueError, OSError
        For what cannot be correlated, read or written.
    RuntimeError
        When the cluster goes away.

    Examples
    --------
    >>> import numpy, tempfile, pathlib, corrust.distributed
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recording, output = pathlib.Path(folder) / "rec.npy", pathlib.Path(folder) / "v.npy"
    ...     numpy.save(recording, numpy.ones((1000, 4, 3, 2), numpy.int8))
    ...     summary = corrust.distributed.correlate(recording, output, integrate=100, tasks=4, device="cpu")
    ...     numpy.load(output).shape                    # [dump][channel][baseline][re, im]
    (10, 4, 6, 2)
    """
    began = time.monotonic()
    output = Path(output)
    counts = None if counts is None else Path(counts)
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    names = [os.path.abspath(path) for path in paths]
    engine = dict(engine or {})
    delays = engine.get("delays")
    beside = []
    if callable(delays):
        raise ValueError("delays that a function gives: expected numbers, pieces or a file, which workers can have")
    if isinstance(delays, (str, os.PathLike)):
        engine["delays"] = os.path.abspath(delays)
        beside.append(engine["delays"])
    if (engine or level is not None) and channelise is None:
        raise ValueError("options of an F-engine without channelise: expected the number of channels")
    for name, value in [("integrate", integrate), ("tasks", tasks), ("memory", memory), ("workers", workers)]:
        if value is not None and value < 1:
            raise ValueError(f"{name} of {value}: expected at least 1")
    is_uvh5 = output.suffix.lower() == ".uvh5"
    if is_uvh5 != (array is not None):
        raise ValueError(
            f"{output}: is to be UVH5: expected an array, which says what the inputs, channels and times are"
            if is_uvh5
            else f"an array: expected an output whose name ends in .uvh5, found {output}"
        )
    if is_uvh5 and gates is not None:
        raise ValueError(f"{output}: is to be UVH5, which knows no gates: expected a name ending in .npy")
    if gzip is not None and not 1 <= gzip <= 9:
        raise ValueError(f"gzip of level {gzip}: expected 1 to 9")
    if gzip is not None and not is_uvh5:
        raise ValueError(f"{output}: is not compressed: expected a name that ends in .uvh5, because of gzip")
    files = [os.fspath(file) for file in (array, gates, shifts) if isinstance(file, (str, os.PathLike))]
    _check(names, output, counts, [*files, *beside])
    known = {} if array is None else _read_array(array)

    options["kind"] = "channels" if channelise is None else "raw"
    job = _Job(names, options, channelise, engine, None, 1, "cpu", kernel, memory or _MEMORY)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_lost())
        if client is not None:
            _Workers(client, device.startswith("cuda"), wait).come()
        # Faults of the recording show before there is a cluster.
        looked = (_first_look(job), beside)
        found = _look(*looked) if client is None else client.submit(_look, *looked, pure=False).result()
        rate = engine.get("rate") or options.get("rate") or (1 / found.interval if found.interval else None)
        if delays is not None:
            if rate is None:
                raise ValueError(f"{names[0]}: does not say how many samples a second it has: expected a rate")
            engine["rate"] = rate
            start = engine.get("start") or known.get("start") or found.start
            if start is not None:
                engine["start"] = start
            if "sky_frequency" not in engine and "first_channel" in known and found.spectra:
                width = rate / found.spectra.residues
                engine["sky_frequency"] = known["first_channel"] - found.spectra.first_channel * width
        if found.encoding not in ("ci8", "ci4", "ci4-offset"):
            raise ValueError(
                f"samples of {found.encoding}: expected ci8, ci4 or ci4-offset, whose sums are exact in any order"
            )
        integrate = found.times if integrate is None else integrate
        whole = found.times // integrate if integrate else 0
        dumps = -(-found.times // integrate) if integrate and keep_partial else whole
        if dumps == 0:
            raise ValueError(
                f"integrate {integrate}: the recording has only {found.times} times, expected at most as many"
            )
        numbers = None if gates is None else _gate_numbers(gates, found.times)
        delayed = None if shifts is None else _shifts(shifts, found)
        count = 1 if numbers is None else int(numbers[numbers != corrust.DROP].max()) + 1

        if client is None:
            client = stack.enter_context(_local(device, workers))
        workers_known = client.scheduler_info(n_workers=-1)["workers"].values()
        offered = any(worker["resources"].get("GPU") for worker in workers_known)
        if device == "auto":
            device = "cuda" if offered else "cpu"
        if memory is None:
            limits = [worker["memory_limit"] // max(1, worker["nthreads"]) for worker in workers_known]
            memory = min([limit for limit in limits if limit], default=2 * _MEMORY) // 2
        job = replace(job, shifts=delayed, gates=count, device=device, memory=memory)
        if level is not None:
            engine["gains"] = client.submit(_level, replace(job, device="cpu"), level, pure=False).result()

        baselines = found.inputs * (found.inputs + 1) // 2
        shape = (dumps, count, found.channels, baselines, 2)
        what = {
            "corrust": corrust.__version__,
            "files": found.files,
            "integrate": integrate,
            **{name: getattr(job, name) for name in ("paths", "options", "channelise", "engine", "shifts")},
            "gates": numbers,
        }
        unfinished = Unfinished(output, _plain(what), shape, numbers is not None, not resume)
        stack.callback(unfinished.close)
        resumed = int(unfinished.done.all(axis=1).sum())
        run = _Run(client, job)
        stack.enter_context(_Workers(client, device.startswith("cuda"), None).watched())
        pieces = _pieces(found, integrate, count, tasks or _EACH * run.slots(), memory, unfinished.done)
        parts = sum(piece.parts for piece in pieces)
        done_parts, all_times = 0, min(dumps * integrate, found.times)

        def tell() -> None:
            if progress is not None:
                there = resumed * integrate
                done = all_times if done_parts == parts else there + (all_times - there) * done_parts // parts
                progress(done, all_times)

        if parts:
            tell()
        for piece, sums in run.finished(pieces, integrate, found.times, numbers):
            if sums is None:
                done_parts += 1
                tell()
            else:
                unfinished.add(piece.dump, piece.channels, *sums)
        _finish(unfinished, output, counts, job, found, integrate, known and _completed(known, found, job, rate), gzip)
    return Summary(
        dumps=dumps,
        times=all_times,
        left_out=found.times - all_times,
        resumed=resumed,
        tasks=parts,
        seconds=time.monotonic() - began,
    )


def _first_look(job: _Job) -> _Job:
    """The job without facts that are unknown before the recording is read."""
    engine = {name: value for name, value in job.engine.items() if name not in ("delays", "start", "rate")}
    return replace(job, engine=engine)


def _finish(
    unfinished: Unfinished,
    output: Path,
    counts: Path | None,
    job: _Job,
    found: _Found,
    integrate: int,
    array: Mapping[str, Any],
    gzip: int | None,
) -> None:
    """Make the outputs of sums that are all there."""
    valid = unfinished.valid()
    if counts is not None:
        each = valid if job.shifts is not None or job.channelise is not None else valid[..., 0]
        partial = unfinished.folder / "counts.npy"
        with named(partial):
            np.save(partial, each if job.gates > 1 else each[:, 0])
        os.replace(partial, counts)
    if not array:
        unfinished.become()
    else:
        sums = unfinished.sums()

        def dumps() -> Iterator[corrust.Dump]:
            for number, (each, behind) in enumerate(zip(sums[:, 0], valid[:, 0], strict=True)):
                alike = bool((behind == behind[0]).all())
                of_each: Any = int(behind[0]) if alike else np.repeat(behind[None], found.channels, axis=0)
                start = number * integrate
                dump = corrust.Dump(each, of_each, min(integrate, found.times - start), found.inputs)
                dump.start = start
                yield dump

        phased = "delays" in job.engine and "phase_center" in array
        corrust.write_uvh5(output, dumps(), array, phased=phased, gzip=gzip)
    unfinished.sweep()


class _Parser(argparse.ArgumentParser):
    """Parser of arguments whose faults are errors of one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _say(label: str, line: object) -> None:
    """Print a line about the work, labelled as the command corrust labels its own."""
    print(f"{label}: {line}", file=sys.stderr, flush=True)


class _Saying(logging.Handler):
    """Print log messages of the library as other lines of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        _say("warning" if record.levelno >= logging.WARNING else "note", record.getMessage())


def _quantity(units: Mapping[str, float], zero: bool = False) -> Callable[[str], float]:
    """The parser of a positive number, or perhaps zero, with one of the units behind it."""

    def quantity(text: str) -> float:
        for unit, worth in units.items():
            number = text.strip().removesuffix(unit)
            if unit and number == text.strip():
                continue
            try:
                value = float(number) * worth
            except ValueError:
                break
            if (value > 0 or zero and value == 0) and math.isfinite(value):
                return value
        expected = ", ".join(unit for unit in units if unit)
        least = "0 or a positive" if zero else "a positive"
        raise argparse.ArgumentTypeError(f"{text!r}: expected {least} number, perhaps with {expected}")

    return quantity


_SECONDS = _quantity({"s": 1, "": 1})
_UNITS = {"GHz": 1e9, "MHz": 1e6, "kHz": 1e3, "Hz": 1, "": 1}
_HERTZ = _quantity(_UNITS)
_FREQUENCY = _quantity(_UNITS, zero=True)
_BYTES = _quantity({"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "": 1})


def _arguments() -> argparse.ArgumentParser:
    """The command's arguments: those of ``corrust correlate``, and what is particular to many machines."""
    parser = _Parser(
        prog="python -m corrust.distributed", description="Correlation of recordings on many machines, by Dask."
    )
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    correlate = commands.add_parser(
        "correlate",
        help="correlate a recording",
        description="Correlates a recording as corrust correlate does, whose options these are; the bits are the same.",
        epilog="Without --scheduler the workers are this machine's: one for each GPU, or one with all cores.",
    )
    add = correlate.add_argument
    add("inputs", nargs="+", metavar="IN", help="files of one recording that follow each other in time")
    add("-o", "--output", required=True, metavar="OUT.npy", help="NumPy file to write, or a UVH5 file (.uvh5)")
    add("--no-clobber", action="store_true", help="refuse to replace files that exist")
    add("--array", metavar="ARRAY.json", help="array file, for UVH5")
    add("--gzip", type=int, metavar="LEVEL", help="compress UVH5: 1, quick, to 9, small [default: no compression]")
    add("--integrate", type=int, metavar="T", help="time samples in a dump [default: all]")
    add("--keep-partial", action="store_true", help="keep a last dump that has fewer time samples than the others")
    add("--counts", metavar="COUNTS.npy", help="file for the number of valid time samples of each dump")
    add("--gates", metavar="GATES.npy", help="file of gate numbers, one for each time sample")
    add("--shifts", metavar="SHIFTS.npy", help="file of time shifts in samples, one for each input")
    add("--encoding", help="encoding of a sample: ci8, ci4, ci4-offset")
    add("--layout", help="order of the axes: tcn or cnt")
    add("--kernel", default="auto")
    add("--keep-going", action="store_true", help="leave out an incomplete block at the end")
    add("--long-gaps", action="store_true", help="accept gaps longer than the data itself")
    raw = correlate.add_argument_group("F-engine")
    add = raw.add_argument
    add("--channelise", type=int, metavar="C", help="number of channels to make of a recording of raw voltages")
    add("--taps", type=int, help="taps of the filter bank [default: 8]")
    add("--window", help="hann, hamming, rect or kaiser:BETA")
    add("--oversample", metavar="A/B", help="oversampling factor, as 32/27 [default: 1]")
    add("--inverted", action="store_true", help="invert a band that runs downwards")
    add("--delays", metavar="D.json", help="file of delays of the inputs")
    add("--start", metavar="TIME", help="time of the first sample, UTC, for delays that count from a date")
    add("--sky-frequency", type=_FREQUENCY, metavar="F", help="sky frequency at baseband 0 Hz, as 1.4GHz")
    add("--gains", metavar="G.npy", help="file of gains, complex64 [N][C]")
    add("--level", nargs="?", type=float, const=0.0, metavar="SIGMA", help="measure gains that give this deviation")
    add("--output-encoding", metavar="E", help="encoding of channelised samples: ci8, ci4 or ci4-offset [default: ci8]")
    add("--rate", type=_HERTZ, help="sample rate of each input, as 32MHz, if the files lack it")
    add("--raw-layout", metavar="nt|tn", help="order of the axes of raw samples in NumPy files")
    add("--inputs", dest="recorded", type=int, metavar="N", help="inputs of a Mark 5B recording")
    add("--bits", type=int, help="bits of a sample of a Mark 5B recording, 1 or 2")
    add("--near", metavar="DATE", help="date within 500 days of a Mark 5B recording, as 2014-06-13")
    device = "auto (workers that offer the resource GPU, else CPUs), cuda or cpu"
    correlate.add_argument("--device", default="auto", help=device)
    observe = commands.add_parser(
        "observe",
        help="make the visibilities of a plan",
        description="Makes the visibilities of a plan of corrust observe, of files; the bits are the same.",
    )
    observe.add_argument("plan", metavar="PLAN.toml", help="the plan: [input] of files, and [[visibilities]]")
    observe.add_argument("--no-clobber", action="store_true", help="refuse to replace files that exist")
    for command in (correlate, observe):
        add = command.add_argument_group("many machines").add_argument
        add("--scheduler", metavar="ADDRESS", help="of a Dask cluster that works, tcp://head:8786, or its file (.json)")
        add("--workers", type=int, help="of this machine, without --scheduler")
        add("--wait", type=_SECONDS, metavar="SECONDS", help="for the scheduler's first worker [default: for ever]")
        add("--tasks", type=int, help="about how many parts to cut the recording into")
        add("--memory", type=_BYTES, metavar="BYTES", help="of a task, as 4GiB [default: half of the worker's]")
        add("--restart", action="store_true", help="throw away what an unfinished run has left behind")
    return parser


def _products(plan: Mapping[str, Any] | str | os.PathLike[str]) -> list[argparse.Namespace]:
    """The arguments of ``correlate`` for each product of a plan."""
    if not isinstance(plan, Mapping):
        try:
            plan = tomllib.loads(Path(plan).read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{plan}: {error}") from None
    others = sorted(set(plan) - {"input", "visibilities"})
    if others:
        raise ValueError(f"{others[0]}: expected input and visibilities alone, whose integer sums workers share out")
    source = dict(plan.get("input", {}))
    files = source.pop("files", None)
    if not files:
        raise ValueError('input: expected files, as files = ["scan.npy"]')
    array = source.pop("array", None)
    engine = dict(source.pop("channelise", {}))
    if engine:
        if "channels" not in engine:
            raise ValueError("channelise: expected channels, as { channels = 4096 }")
        engine["channelise"] = engine.pop("channels")
    products = []
    for table in plan.get("visibilities", []):
        # Only UVH5 has the facts of an array.
        facts = {"array": array} if array and str(table.get("output", "")).endswith(".uvh5") else {}
        words = ["correlate"]
        for key, value in {**source, **engine, **facts, **table}.items():
            if isinstance(value, (Mapping, list, tuple)):
                raise ValueError(f"{key}: expected none where many machines make visibilities")
            if value is True:
                words.append(f"--{key}")
            elif value is not False:
                words.append(f"--{key}={value.isoformat() if isinstance(value, date) else value}")
        products.append(_arguments().parse_args([*words, "--", *map(str, files)]))
    if not products:
        raise ValueError("expected a product: visibilities")
    return products


def observe(
    plan: Mapping[str, Any] | str | os.PathLike[str],
    *,
    client: distributed.Client | None = None,
    workers: int | None = None,
    wait: float | None = None,
    tasks: int | None = None,
    memory: int | None = None,
    resume: bool = True,
    progress: Callable[[int, int], object] | None = None,
) -> list[Summary]:
    """Make the visibilities of a plan on many workers: the bits that ``corrust observe`` writes.

    The recording is read once for each product; `correlate` makes one after the other.

    Parameters
    ----------
    plan : dict or path
        Tables ``"input"``, of files, and ``"visibilities"``, as of `corrust.observe`; keys are options of the command
        ``correlate``.
    client, workers, wait, tasks, memory, resume, progress
        As of `correlate`.

    Returns
    -------
    list of Summary
        A summary for each product, in the order of the plan.
    """
    many = {"client": client, "workers": workers, "wait": wait, "tasks": tasks, "memory": memory}
    return [_correlate(each, resume=resume, progress=progress, **many) for each in _products(plan)]


def _hop(text: str, residues: int) -> int:
    """Samples from one spectrum to the next at an oversampling factor."""
    above, _, below = text.partition("/")
    try:
        over, under = int(above), int(below or 1)
    except ValueError:
        over = under = 0
    if not (over >= under > 0 and residues * under % over == 0):
        raise ValueError(
            f"--oversample {text} of {residues} samples a spectrum: expected A/B with a whole number of samples from "
            "one to the next"
        )
    return residues * under // over


def _correlate(arguments: argparse.Namespace, **many: Any) -> Summary:
    """Correlate as the arguments say."""
    given = vars(arguments)
    options = {name: given[name] for name in ("encoding", "rate", "bits", "near") if given[name] is not None}
    options.update(keep_going=arguments.keep_going, long_gaps=arguments.long_gaps)
    layout = arguments.layout if arguments.channelise is None else arguments.raw_layout
    options.update({"layout": layout} if layout else {})
    options.update({"inputs": arguments.recorded} if arguments.recorded else {})
    names = ("taps", "window", "delays", "start", "sky_frequency")
    engine = {name: given[name] for name in names if given[name] is not None}
    if arguments.output_encoding:
        engine["output"] = arguments.output_encoding
    if arguments.inverted:
        engine["inverted"] = True
    if arguments.gains:
        engine["gains"] = np.load(arguments.gains)
    if arguments.oversample and arguments.channelise:
        is_real = corrust.open(arguments.inputs, kind="raw", **options).encoding in ("i8", "i16", "f32") + tuple(
            f"vdif-{bits}" for bits in (1, 2, 4, 8, 16)
        )
        engine["hop"] = _hop(arguments.oversample, arguments.channelise * (1 + is_real))
    elif arguments.oversample:
        engine["hop"] = 0
    level = arguments.level
    if level == 0.0:
        level = _LEVELS.get(engine.get("output", "ci8"), 1.0)
    mine = ("integrate", "keep_partial", "array", "gzip", "counts", "gates", "shifts", "channelise", "device", "kernel")
    chosen = {name: given[name] for name in mine}
    return correlate(arguments.inputs, arguments.output, level=level, engine=engine, **chosen, **options, **many)


def _run(arguments: argparse.Namespace) -> list[tuple[str, Summary]]:
    """Do what the arguments ask for; return each output and what was done."""
    products = _products(arguments.plan) if arguments.command == "observe" else [arguments]
    outputs = [path for each in products for path in (each.output, each.counts) if path is not None]
    for path in outputs if arguments.no_clobber else ():
        if os.path.exists(path):
            raise ValueError(f"{path}: exists: expected a new name, because of --no-clobber")
    progress = None
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            progress = corrust.progress_bar(desc="correlating")
    with contextlib.ExitStack() as stack:
        client = None
        if arguments.scheduler:
            if arguments.scheduler.endswith(".json") and not os.path.exists(arguments.scheduler):
                raise ValueError(f"--scheduler {arguments.scheduler}: no such file: expected that of a scheduler")
            named = {"scheduler_file" if arguments.scheduler.endswith(".json") else "address": arguments.scheduler}
            try:
                client = stack.enter_context(distributed.Client(**named, set_as_default=False, timeout=_PATIENCE))
            except (OSError, ValueError):
                where = f"--scheduler {arguments.scheduler}"
                raise ValueError(f"{where}: no scheduler answers: expected one there") from None
        many: dict[str, Any] = {name: vars(arguments)[name] for name in ("workers", "wait", "tasks")}
        many["memory"] = None if arguments.memory is None else int(arguments.memory)
        many.update(client=client, resume=not arguments.restart, progress=progress)
        return [(each.output, _correlate(each, **many)) for each in products]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 2 for bad input, 130 when interrupted."""
    if not _LOG.handlers:
        _LOG.addHandler(_Saying())
    # Dask's loggers have levels of their own; what they say of lost connections comes back as a sentence.
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        done = _run(_arguments().parse_args(words))
    except KeyboardInterrupt:
        _say("note", "interrupted: the same command goes on with the dumps that are done")
        return 130
    except (ValueError, TypeError, OSError, RuntimeError, MemoryError) as error:
        said = str(error)
        if isinstance(error, OSError) and error.strerror:
            said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        _say("error", said)
        return 2
    lines = []
    for output, made in done:
        if made.left_out:
            _say("note", f"the last {made.left_out} times do not fill a dump and are left out")
        went_on = f", {made.resumed} of them by an earlier run" if made.resumed else ""
        lines.append(
            f"correlated {made.times} times into {made.dumps} dump{'' if made.dumps == 1 else 's'}{went_on} in "
            f"{made.tasks} task{'' if made.tasks == 1 else 's'} and {made.seconds:.2f} s: {output}"
        )
    try:
        print("\n".join(lines), flush=True)
    except OSError as error:
        # The rest of it is not written when the program ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        _say("error", f"the standard output: cannot write: {error.strerror}")
        return 2
    return 0


if __name__ == "__main__":
    # Tasks are to find their functions in the module of this name, not in the program's.
    from corrust.distributed import main as _command

    sys.exit(_command())
