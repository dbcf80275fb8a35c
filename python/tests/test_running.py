"""Threads, forks, signals, ends, memory and time."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from conftest import samples, visibilities

import corrust


def run(program: str, limit: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program of Python's."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=limit, check=False)


def test_other_threads_run_meanwhile(rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 4096, 64, 64)

    def turns_during_one_call() -> int:
        turns, done = 0, threading.Event()

        def correlate() -> None:
            corrust.correlate(x, device="cpu")
            done.set()

        thread = threading.Thread(target=correlate)
        thread.start()
        while not done.wait(0.001):
            turns += 1
        thread.join()
        return turns

    # If a call held Python's lock, this thread would run once or twice during it. A call is so short that a busy
    # machine may not wake this thread often enough during one of them, but it does during one of many.
    assert any(turns_during_one_call() > 5 for _ in range(100))


def test_many_threads_feed_one_plan(device: str, rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 64, 2, 5)
    with corrust.Correlator(5, 2, device=device) as plan:
        threads = [threading.Thread(target=plan.accumulate, args=(x,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        dump = plan.dump()
    np.testing.assert_array_equal(dump.visibilities, 8 * visibilities(x, "ci8", "tcn"))


def test_closing_while_running(rng: np.random.Generator) -> None:
    x = samples(rng, "ci8", "tcn", 2048, 64, 64)
    plan = corrust.Correlator(64, 64, device="cpu")
    failed: list[Exception] = []

    def feed() -> None:
        try:
            for _ in range(100):
                plan.accumulate(x)
        except ValueError as error:
            failed.append(error)

    thread = threading.Thread(target=feed)
    thread.start()
    time.sleep(0.1)
    plan.close()
    thread.join(30)
    assert not thread.is_alive()
    assert str(failed[0]) == "a closed plan: expected one that is open"
    plan.close()
    for call in (plan.dump, plan.wait, plan.reset, lambda: plan.accumulate(x), lambda: plan.times):
        with pytest.raises(ValueError, match="closed plan"):
            call()
    assert plan.inputs == 64


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_children_of_a_fork_compute(rng: np.random.Generator) -> None:
    found = run(
        """
import os, sys, numpy, corrust
x = numpy.random.default_rng(1).integers(-128, 128, (500, 16, 32, 2), numpy.int8)
plan = corrust.Correlator(32, 16, device="cpu")
plan.accumulate(x)                      # the parent's threads have run
for generation in range(2):
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, status
        break
    plan.accumulate(x)                  # a plan of the parent's, and a new one
    once = corrust.correlate(x, device="cpu").visibilities
    assert (plan.dump().visibilities == (2 if generation == 0 else 1) * once).all()
    corrust.autocorrelate(numpy.ones(1000), device="cpu")
print("done")
"""
    )
    assert found.returncode == 0, found.stderr
    assert "done" in found.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
def test_keyboard_interrupts_a_long_call(rng: np.random.Generator) -> None:
    x = np.broadcast_to(samples(rng, "ci8", "tcn", 1, 64, 256), (1_000_000, 64, 256, 2))
    plan = corrust.Correlator(256, 64, device="cpu")
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        plan.accumulate(x)
    assert time.monotonic() - start < 30
    # What was added before stands, and can be told.
    assert 0 < plan.times < 1_000_000
    times = plan.times
    plan_sums = plan.dump().visibilities[0, 0, 0]
    assert plan_sums == times * corrust.correlate(x[:1], device="cpu").visibilities[0, 0, 0]


def resident() -> int:
    """Bytes of memory that the process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
@pytest.mark.parametrize("count", [1000])
def test_plans_leave_no_memory_behind(count: int, device: str, rng: np.random.Generator) -> None:
    if device == "sim":
        count //= 10
    x = samples(rng, "ci8", "tcn", 2, 8, 64)
    raw = rng.integers(-128, 128, (2, 1024), np.int8)
    sums = 8 * 64 * 65 * 8  # bytes of a dump

    def once() -> None:
        plan = corrust.Correlator(64, 8, device=device)
        plan.accumulate(x)
        plan.dump()
        corrust.Autocorrelator(4, groups=4, device=device).accumulate(np.ones((10, 4), np.uint8))
        beamformer = corrust.Beamformer(16, 4, encoding="ci4", device=device)
        beamformer.set_weights(np.zeros((1, 1, 4, 16, 2), np.int8))
        beamformer.beamform(np.zeros((3, 1, 1, 16), np.uint8))
        channeliser = corrust.Channeliser(2, 64, 4, device=device)
        channeliser.channelise(raw, missing=[(3, 5)])
        with pytest.raises(TypeError):
            plan.accumulate(x.astype(np.int16))
        if device != "cpu":
            plan.accumulate(corrust.to_device(x, device))
            plan.dump(device=True)
            channeliser.channelise(corrust.to_device(raw, device), device=True)

    for _ in range(20):
        once()
    gc.collect()
    before = resident()
    for _ in range(count):
        once()
    gc.collect()
    # One dump each would be 266 MB of a thousand.
    assert resident() - before < max(count * sums // 20, 8 << 20)


def test_a_call_takes_little_beside_the_work() -> None:
    x = np.zeros((1, 1, 1, 2), np.int8)
    plan = corrust.Correlator(1, 1, device="cpu")

    def fastest(call: Any) -> float:
        """Seconds of a call, in the quietest of many stretches."""
        best = float("inf")
        for _ in range(200):
            start = time.perf_counter()
            for _ in range(50):
                call()
            best = min(best, (time.perf_counter() - start) / 50)
        return best

    accumulate, dump = fastest(lambda: plan.accumulate(x)), fastest(plan.dump)
    print(f"accumulate {accumulate * 1e6:.1f} us, dump {dump * 1e6:.1f} us")
    # Some 5 us on an idle machine.
    assert accumulate < 200e-6
    assert dump < 200e-6
