"""Correlation on many workers: the bits of one, whatever the cut, and whoever dies."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEVICES, samples, visibilities
from test_open import guppi

import corrust

pytest.importorskip("distributed", reason="Dask is not installed: pip install corrust[distributed]")

import distributed  # noqa: E402

import corrust.distributed as many  # noqa: E402

# The long form: every cut on every number of workers, two of which die each time.
LONG = bool(os.environ.get("CORRUST_LONG"))

WORKERS = [1, 2, 4]
CUTS = [1, 7, 64]


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[int, distributed.Client]]:
    """Clusters of each number of workers, begun when they are asked for."""
    import contextlib

    with contextlib.ExitStack() as stack:

        class Clients(dict[int, distributed.Client]):
            def __missing__(self, workers: int) -> distributed.Client:
                self[workers] = stack.enter_context(many._local("cpu", workers))
                return self[workers]

        yield Clients()


def command(*words: object) -> None:
    """Run ``corrust correlate``: what there is to equal."""
    # In a process of its own, for it takes over what signals do.
    program = [sys.executable, "-m", "corrust", "correlate", *map(str, words)]
    subprocess.run(program, check=True, capture_output=True)


def kill_workers(client: distributed.Client, count: int, done: threading.Event) -> list[int]:
    """Kill workers, one after the other, while they are at work."""
    killed: dict[str, int] = {}
    while len(killed) < count and not done.is_set():
        # One that was killed and is still listed would be waited for half a minute.
        busy = [address for address, tasks in client.processing().items() if tasks and address not in killed]
        for address, pid in client.run(os.getpid, workers=busy[:1], on_error="ignore").items() if busy else ():
            os.kill(pid, signal.SIGKILL)
            killed[address] = pid
        time.sleep(0.02)
    return list(killed.values())


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A recording of a dump, and its visibilities."""
    path = tmp_path_factory.mktemp("one") / "rec.npy"
    x = samples(np.random.default_rng(7), "ci8", "tcn", 20_001 if LONG else 3_001, 8, 12)
    np.save(path, x)
    return path, visibilities(x, "ci8", "tcn")


@pytest.mark.parametrize("workers", WORKERS)
def test_any_cut_gives_the_same_bits(
    workers: int, clients: dict[int, distributed.Client], recording: tuple[Path, Any], tmp_path: Path
) -> None:
    path, expected = recording
    for tasks in CUTS:
        told: list[tuple[int, int]] = []
        done = many.correlate(
            path,
            tmp_path / "v.npy",
            client=clients[workers],
            tasks=tasks,
            progress=lambda at, times: told.append((at, times)),  # noqa: B023
        )
        assert (done.tasks, done.dumps, done.resumed) == (tasks, 1, 0)
        np.testing.assert_array_equal(np.load(tmp_path / "v.npy")[0], expected)
        assert told[0][0] == 0 and told[-1] == (done.times, done.times) and len(told) == tasks + 1
        assert told == sorted(told)
        assert [file.name for file in tmp_path.iterdir()] == ["v.npy"]


@pytest.mark.parametrize(("integrate", "tasks"), [(1000, 1), (1000, 16), (3000, 7), (5000, 5)])
def test_a_partial_dump_is_kept(
    integrate: int, tasks: int, clients: dict[int, distributed.Client], recording: tuple[Path, Any], tmp_path: Path
) -> None:
    path, _ = recording
    times = len(np.load(path, mmap_mode="r"))
    done = many.correlate(
        path,
        tmp_path / "v.npy",
        counts=tmp_path / "n.npy",
        client=clients[2],
        tasks=tasks,
        integrate=integrate,
        keep_partial=True,
    )
    assert (done.dumps, done.times, done.left_out) == (-(-times // integrate), times, 0)
    files = ["-o", tmp_path / "w.npy", "--counts", tmp_path / "m.npy"]
    command(path, *files, "--integrate", integrate, "--keep-partial", "--device", "cpu")
    for ours, theirs in [("v.npy", "w.npy"), ("n.npy", "m.npy")]:
        np.testing.assert_array_equal(np.load(tmp_path / ours), np.load(tmp_path / theirs))


def test_frequencies_may_be_zero_and_rates_not() -> None:
    assert [many._FREQUENCY(text) for text in ("0", "0Hz", "0.0GHz", "1.5GHz")] == [0, 0, 0, 1.5e9]
    for quantity, text in ((many._FREQUENCY, "-1Hz"), (many._FREQUENCY, "nan"), (many._HERTZ, "0Hz")):
        with pytest.raises(argparse.ArgumentTypeError, match="positive number"):
            quantity(text)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("tasks", CUTS if LONG else [64])
def test_workers_that_die_lose_nothing(
    workers: int,
    tasks: int,
    clients: dict[int, distributed.Client],
    tmp_path: Path,
    rng: np.random.Generator,
) -> None:
    path = tmp_path / "rec.npy"
    # Enough for a processor to be killed at it.
    times = 400_000 if LONG else 40_000
    np.save(path, samples(rng, "ci8", "tcn", times, 16, 16))
    client, done = clients[workers], threading.Event()
    killed: list[int] = []
    killer = threading.Thread(target=lambda: killed.extend(kill_workers(client, 2, done)))
    killer.start()
    try:
        many.correlate(path, tmp_path / "v.npy", client=client, tasks=tasks, counts=tmp_path / "counts.npy")
    finally:
        done.set()
        killer.join()
    assert len(killed) == 2
    command(path, "-o", tmp_path / "w.npy", "--device", "cpu")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), np.load(tmp_path / "w.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "counts.npy"), [times])


def test_dumps_gates_and_shifts(
    clients: dict[int, distributed.Client], tmp_path: Path, rng: np.random.Generator
) -> None:
    for encoding, layout in [("ci8", "cnt"), ("ci4-offset", "tcn"), ("ci4", "cnt")]:
        x = samples(rng, encoding, layout, 1000, 3, 5)
        recording, gates, shifts = (tmp_path / name for name in ("x.npy", "gates.npy", "shifts.npy"))
        np.save(recording, x)
        np.save(gates, rng.choice(np.array([0, 1, 3, 255], np.uint8), 1000))
        np.save(shifts, rng.integers(0, 300, 5))
        kind = ["--encoding", encoding, "--layout", layout]
        for extra, named in [
            ([], {}),
            (["--gates", gates], {"gates": gates}),
            (["--shifts", shifts], {"shifts": shifts}),
            (["--gates", gates, "--shifts", shifts], {"gates": np.load(gates), "shifts": np.load(shifts).tolist()}),
        ]:
            out = ["-o", tmp_path / "w.npy", "--counts", tmp_path / "d.npy", "--integrate", 90]
            command(recording, *out, "--device", "cpu", *kind, *extra)
            for tasks, memory in [(5, 1 << 30), (40, 20_000)]:
                done = many.correlate(
                    recording,
                    tmp_path / "v.npy",
                    client=clients[2],
                    counts=tmp_path / "c.npy",
                    integrate=90,
                    tasks=tasks,
                    memory=memory,
                    encoding=encoding,
                    layout=layout,
                    **named,
                )
                assert (done.dumps, done.times, done.left_out) == (11, 990, 10)
                for mine, theirs in [("v.npy", "w.npy"), ("c.npy", "d.npy")]:
                    np.testing.assert_array_equal(np.load(tmp_path / mine), np.load(tmp_path / theirs))


def test_guppi_with_a_gap(clients: dict[int, distributed.Client], tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "x.raw"
    guppi(path, samples(rng, "ci8", "tcn", 600, 4, 2), 150)
    command(path, "-o", tmp_path / "w.npy", "--integrate", 125, "--counts", tmp_path / "d.npy")
    many.correlate(path, tmp_path / "v.npy", client=clients[2], integrate=125, tasks=13, counts=tmp_path / "c.npy")
    for mine, theirs in [("v.npy", "w.npy"), ("c.npy", "d.npy")]:
        np.testing.assert_array_equal(np.load(tmp_path / mine), np.load(tmp_path / theirs))
    assert np.load(tmp_path / "c.npy").min() < 125


def test_an_f_engine_and_its_delays(
    clients: dict[int, distributed.Client], tmp_path: Path, rng: np.random.Generator
) -> None:
    raw, delays, array = tmp_path / "raw.npy", tmp_path / "D.json", tmp_path / "array.json"
    np.save(raw, rng.normal(0, 20, (3, 40_000)).round().astype(np.int8))
    pieces = [
        # One that leaps, one that ends, one that moves both ways.
        [{"start": 0, "end": 0.01, "coefficients": [4e-4]}, {"start": 0.01, "end": 1, "coefficients": [-3e-4, 1e-3]}],
        [{"start": 0, "end": 0.03, "coefficients": [0, 2e-3]}],
        [{"start": 0, "end": 1, "coefficients": [1e-4, -2e-2, 0.3]}],
    ]
    delays.write_text(json.dumps({"delays": pieces}))
    array.write_text(
        json.dumps(
            {
                "telescope": "example",
                "location": {"latitude": -30.7, "longitude": 21.4, "altitude": 1050},
                "positions": [[30 * antenna, 0, 0] for antenna in range(3)],
                "start": "2026-03-01T12:00:00Z",
            }
        )
    )
    sky = {"rate": 1e6, "sky_frequency": 1.4e9}
    spoken = ["--rate", "1MHz", "--sky-frequency", "1.4GHz"]
    cases: list[tuple[dict[str, Any], list[Any], float | None]] = [
        ({"taps": 4}, ["--taps", "4"], None),
        ({"taps": 4, "delays": delays, **sky}, ["--taps", "4", "--delays", delays, *spoken], None),
        ({"hop": 24, "delays": delays, **sky}, ["--oversample", "32/24", "--delays", delays, *spoken], 20.0),
    ]
    for engine, words, level in cases:
        levelled = ["--level", level] if level else []
        said = ["--channelise", 16, *words, *levelled]
        command(raw, "-o", tmp_path / "w.npy", "--integrate", 300, "--counts", tmp_path / "d.npy", *said)
        for tasks, memory in [(3, 1 << 30), (29, 50_000)]:
            many.correlate(
                raw,
                tmp_path / "v.npy",
                client=clients[2],
                integrate=300,
                counts=tmp_path / "c.npy",
                channelise=16,
                engine=engine,
                level=level,
                tasks=tasks,
                memory=memory,
            )
            for mine, theirs in [("v.npy", "w.npy"), ("c.npy", "d.npy")]:
                np.testing.assert_array_equal(np.load(tmp_path / mine), np.load(tmp_path / theirs))
    named: list[Any] = ["--array", array, "--integrate", 300]
    command(raw, "-o", tmp_path / "w.uvh5", *named, *said)
    words = [raw, "-o", tmp_path / "v.uvh5", *named, *said, "--tasks", 9, "--gzip", 4, "--device", "cpu"]
    assert many.main(["correlate", *map(str, words)]) == 0
    one, other = (corrust.read_uvh5(tmp_path / name) for name in ("v.uvh5", "w.uvh5"))
    for field in ("visibilities", "times", "frequencies", "pairs", "polarisations"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert (tmp_path / "v.uvh5").stat().st_size < (tmp_path / "w.uvh5").stat().st_size


def run(*words: object, **options: Any) -> subprocess.Popen[str]:
    """Begin the command, in processes of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "corrust.distributed", "correlate", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def journal(output: Path, lines: int, process: subprocess.Popen[str] | None = None) -> None:
    """Wait until so many parts are done."""
    path = output.with_name(output.name + ".parts") / "journal"
    limit = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < limit and (process is None or process.poll() is None)
        time.sleep(0.01)


def test_goes_on_after_everything_crashed(tmp_path: Path, rng: np.random.Generator) -> None:
    path, output = tmp_path / "rec.npy", tmp_path / "v.npy"
    x = samples(rng, "ci8", "tcn", 20_000, 16, 16)
    np.save(path, x)
    words = [path, "-o", output, "--integrate", 100, "--tasks", 200, "--device", "cpu", "--workers", 2]
    crashed = run(*words)
    journal(output, 5, crashed)
    os.killpg(crashed.pid, signal.SIGKILL)
    crashed.wait()
    assert not output.exists()
    # A line that was being written, and a part that is not what it was.
    parts = tmp_path / "v.npy.parts"
    finished = (parts / "journal").read_bytes().count(b"\n")
    assert 5 <= finished < 200
    with (parts / "journal").open("ab") as file:
        file.write(b"7 1 0")
    with (parts / "sums.npy").open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        spoilt = file.tell()
        file.seek(128)
        file.write(b"spoilt")
    assert spoilt > 128
    again = run(*words)
    said, errors = again.communicate(timeout=120)
    assert (again.returncode, errors) == (0, "")
    assert f"{finished - 1} of them by an earlier run in {200 - finished + 1} tasks" in said
    found = np.load(output)
    for dump in range(200):
        np.testing.assert_array_equal(found[dump], visibilities(x[100 * dump : 100 * (dump + 1)], "ci8", "tcn"))
    assert not parts.exists()


def test_another_scheduler_goes_on(tmp_path: Path, rng: np.random.Generator) -> None:
    path, output = tmp_path / "rec.npy", tmp_path / "v.npy"
    x = samples(rng, "ci8", "tcn", 20_000, 16, 16)
    np.save(path, x)
    address = tmp_path / "scheduler.json"

    def cluster() -> list[subprocess.Popen[bytes]]:
        address.unlink(missing_ok=True)
        of = [sys.executable, "-m"]
        file = ["--scheduler-file", str(address)]
        local = ["--host", "127.0.0.1", "--no-dashboard"]

        def begin(*words: str) -> subprocess.Popen[bytes]:
            quiet = subprocess.DEVNULL
            return subprocess.Popen([*of, *words, *file, *local], stdout=quiet, stderr=quiet, cwd=tmp_path)

        scheduler = begin("distributed.cli.dask_scheduler", "--port", "0")
        workers = ["--nthreads", "1", "--no-nanny", "--death-timeout", "60"]
        worker = begin("distributed.cli.dask_worker", *workers)
        limit = time.monotonic() + 60
        while not address.exists():
            assert time.monotonic() < limit
            time.sleep(0.05)
        return [scheduler, worker]

    processes = cluster()
    try:
        words = [path, "-o", output, "--integrate", 100, "--tasks", 200, "--scheduler", address]
        crashed = run(*words)
        journal(output, 5, crashed)
        for process in processes:
            process.kill()
        _, errors = crashed.communicate(timeout=60)
        assert crashed.returncode == 2, errors
        assert not output.exists()
        assert errors.startswith("error: the scheduler has gone") and errors.count("\n") == 1
        processes += cluster()
        again = run(*words)
        said, errors = again.communicate(timeout=120)
        assert (again.returncode, errors) == (0, "")
        assert "of them by an earlier run" in said
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for dump in range(200):
        expected = visibilities(x[100 * dump : 100 * (dump + 1)], "ci8", "tcn")
        np.testing.assert_array_equal(np.load(output, mmap_mode="r")[dump], expected)


def peak() -> int:
    """Most bytes that a worker has had in memory so far."""
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_memory_is_bounded(clients: dict[int, distributed.Client], tmp_path: Path) -> None:
    path, memory = tmp_path / "rec.npy", 64 << 20
    # Four times what a task may take, in one of them.
    x = np.lib.format.open_memmap(path, "w+", np.int8, (1 << 18, 16, 32, 2))  # type: ignore[no-untyped-call]
    x[::1000] = 1
    x.flush()
    client = clients[1]
    small = tmp_path / "small.npy"
    np.save(small, x[:10])
    many.correlate(small, tmp_path / "v.npy", client=client, tasks=1, memory=memory)
    (before,) = client.run(peak).values()
    many.correlate(path, tmp_path / "v.npy", client=client, tasks=1, memory=memory)
    (after,) = client.run(peak).values()
    assert after - before < memory
    assert np.load(tmp_path / "v.npy")[0, 0, 0, 0] == -(-(1 << 18) // 1000) * 2


@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_a_task_for_each_gpu(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "raw.npy"
    np.save(path, rng.normal(0, 20, (4, 400_000)).round().astype(np.int8))
    command(path, "-o", tmp_path / "w.npy", "--channelise", 64, "--integrate", 500, "--device", "cpu")
    words = ["-o", tmp_path / "v.npy", "--channelise", 64, "--integrate", 500, "--device", "cuda", "--tasks", 17]
    assert many.main(["correlate", str(path), *map(str, words)]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), np.load(tmp_path / "w.npy"))


def test_a_plan_of_an_observation(
    clients: dict[int, distributed.Client], tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("raw.npy", rng.normal(0, 20, (3, 20_000)).round().astype(np.int8))
    np.save("late.npy", np.array([0, 3, 1]))
    source: dict[str, Any] = {"files": ["raw.npy"], "device": "cpu", "rate": "1MHz"}
    source["channelise"] = {"channels": 16, "taps": 4, "level": True, "sky-frequency": "1.4GHz"}
    products: list[dict[str, Any]] = [
        {"output": "v.npy", "integrate": 100, "keep-partial": True, "counts": "c.npy"},
        {"output": "s.npy", "integrate": 211, "keep-partial": False, "shifts": "late.npy"},
    ]
    corrust.observe({"input": source, "visibilities": products})
    files = ("v.npy", "c.npy", "s.npy")
    expected = {name: np.load(name) for name in files}
    for name in files:
        Path(name).unlink()
    done = many.observe({"input": source, "visibilities": products}, client=clients[2], tasks=5)
    assert [summary.dumps for summary in done] == [7, 2]
    for name in files:
        np.testing.assert_array_equal(np.load(name), expected[name])
        Path(name).unlink()
    plan = """
[input]
files = ["raw.npy"]
rate = 1e6
channelise = { channels = 16, taps = 4, level = true, start = 2026-03-01T12:00:00Z }
[[visibilities]]
output = "v.npy"
integrate = 100
keep-partial = true
"""
    Path("plan.toml").write_text(plan)
    assert many.main(["observe", "plan.toml", "--workers", "1", "--tasks", "3"]) == 0
    np.testing.assert_array_equal(np.load("v.npy"), expected["v.npy"])
    visibilities: dict[str, Any] = {"visibilities": products[:1]}
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"input": source, **visibilities, "beams": []}, "beams: expected input and visibilities alone"),
        ({"input": {"files": []}, **visibilities}, "input: expected files"),
        ({"input": {**source, "flag": {"method": "sk"}}, **visibilities}, "flag: expected none"),
        ({"input": {**source, "channelise": {"taps": 4}}, **visibilities}, "channelise: expected channels"),
        ({"input": source}, "expected a product"),
        ({"input": source, "visibilities": [{"output": "w.npy", "seconds": 1}]}, "--seconds=1"),
    ]
    for wrong, sentence in wrongs:
        with pytest.raises(ValueError, match=sentence):
            many.observe(wrong)
    Path("plan.toml").write_text("[input")
    assert many.main(["observe", "plan.toml"]) == 2


BAD: list[tuple[list[str], str]] = [
    (["nothing.npy"], "nothing.npy: cannot read: No such file"),
    (["x.npy", "--integrate", "101"], "integrate 101: the recording has only 100 times"),
    (["x.npy", "--integrate", "0"], "integrate of 0: expected at least 1"),
    (["x.npy", "--tasks", "-1"], "tasks of -1: expected at least 1"),
    (["x.npy", "--memory", "much"], "'much': expected a positive number"),
    (["x.npy", "--frobnicate"], "unrecognized arguments: --frobnicate"),
    (["half.npy"], "samples of cf16: expected ci8, ci4 or ci4-offset"),
    (["x.npy", "-o", "x.npy"], "x.npy: is an input"),
    (["x.npy", "-o", "v.npy", "--counts", "v.npy"], "v.npy: is to hold two outputs"),
    (["x.npy", "-o", "nowhere/v.npy"], "nowhere/v.npy: its folder is not there"),
    (["x.npy", "-o", "v.uvh5"], "v.uvh5: is to be UVH5: expected an array"),
    (["x.npy", "--gzip", "4"], "v.npy: is not compressed: expected a name that ends in .uvh5"),
    (["x.npy", "-o", "v.uvh5", "--array", "x.npy", "--gzip", "10"], "gzip of level 10: expected 1 to 9"),
    (["x.npy", "--array", "x.npy"], "an array: expected an output whose name ends in .uvh5"),
    (["x.npy", "--gates", "few.npy"], "7 gates from 0 to 0: expected 100"),
    (["x.npy", "--shifts", "few.npy"], "expected 3, one for each input"),
    (["x.npy", "--taps", "4"], "options of an F-engine without channelise"),
    (["raw.npy", "--channelise", "64", "--delays", "D.json"], "does not say how many samples a second"),
    (["raw.npy", "--channelise", "7"], "channels"),
    (["raw.npy", "--channelise", "65536"], "10000 samples of each input: expected at least"),
    (["x.npy", "--scheduler", "nowhere.json"], "--scheduler nowhere.json: no such file"),
    (["x.npy", "--scheduler", "tcp://127.0.0.1:1"], "--scheduler tcp://127.0.0.1:1: no scheduler answers"),
    (["x.npy", "-o", "begun.npy"], "begun.npy.parts: holds dumps of another job"),
    (["x.npy", "-o", "there.npy", "--no-clobber"], "there.npy: exists"),
]


@pytest.mark.parametrize(("words", "expected"), BAD, ids=lambda value: value if isinstance(value, str) else None)
def test_bad_input_is_one_sentence(
    words: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(many, "_PATIENCE", 0.5)
    np.save("x.npy", np.ones((100, 2, 3, 2), np.int8))
    np.save("half.npy", np.ones((100, 2, 3, 2), np.float16))
    np.save("raw.npy", np.ones((2, 10_000), np.int8))
    np.save("few.npy", np.zeros(7, np.uint8))
    np.save("there.npy", np.zeros(7, np.uint8))
    Path("D.json").write_text('{"delays": [0, 0]}')
    Path("begun.npy.parts").mkdir()
    Path("begun.npy.parts/job.json").write_text("{}")
    Path("begun.npy.parts/sums.npy").write_text("")
    before = sorted(tmp_path.rglob("*"))
    try:
        code = many.main(["correlate", *([] if "-o" in words else ["-o", "v.npy"]), *words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    said = capfd.readouterr()
    assert code == 2 and said.out == ""
    assert said.err.startswith("error: ") and said.err.count("\n") == 1
    assert expected in said.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_scheduler_without_workers_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(many, "_QUIET", [0.2, 0.3])
    x = np.ones((100, 2, 3, 2), np.int8)
    np.save("x.npy", x)
    options = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": ":0"}
    scheduler = {"cls": distributed.Scheduler, "options": options}
    with distributed.SpecCluster({}, scheduler, silence_logs=50) as cluster:
        address = cluster.scheduler_address
        words = ["correlate", "x.npy", "-o", "v.npy", "--scheduler", address, "--device", "cpu"]
        assert many.main([*words, "--wait", "1.2s"]) == 2
        said = capfd.readouterr().err.splitlines()
        assert 2 <= sum("has no workers since" in line for line in said) <= 5, said
        assert said[-1].endswith("has had no workers for 1.2 s: expected at least one")
        assert all(line.startswith(("error: ", "warning: ", "note: ")) for line in said)
        assert not Path("v.npy").exists()
        # Without a limit it goes on when one comes.
        worker = {"cls": distributed.Nanny, "options": {"nthreads": 1, "silence_logs": logging.ERROR}}
        cluster.new_spec = worker

        def begin() -> None:
            time.sleep(1)
            cluster.scale(1)

        thread = threading.Thread(target=begin)
        thread.start()
        assert many.main(words) == 0
        thread.join()
    said = capfd.readouterr().err.splitlines()
    assert any("has no workers since" in line for line in said), said
    np.testing.assert_array_equal(np.load("v.npy")[0], visibilities(x, "ci8", "tcn"))


def test_a_full_disk_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones((100, 2, 3, 2), np.int8))
    limits = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limits += "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)); "
    words = ["correlate", str(tmp_path / "x.npy"), "-o", str(tmp_path / "v.npy"), "--device", "cpu"]
    # Tasks run in this process, as its workers could not even have a folder of their own.
    code = "import numpy as np; from corrust._unfinished import Unfinished; from pathlib import Path; import sys\n"
    code += "try:\n    Unfinished(Path(sys.argv[1]), {}, (100, 1, 2, 6, 2), False, True)\n"
    code += "except OSError as error:\n    print(error); sys.exit(2)\n"
    ended = subprocess.run(
        [sys.executable, "-c", limits + code, words[3]], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2, ended
    assert str(tmp_path / "v.npy.parts") in ended.stdout and "File too large" in ended.stdout, ended


def test_a_full_standard_output_is_said(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((100, 2, 3, 2), np.int8))
    words = ["correlate", str(tmp_path / "x.npy"), "-o", str(tmp_path / "v.npy"), "--device", "cpu", "--workers", "1"]
    with open("/dev/full", "w") as full:
        program = [sys.executable, "-m", "corrust.distributed", *words]
        ended = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "error: the standard output: cannot write: No space left on device\n"
