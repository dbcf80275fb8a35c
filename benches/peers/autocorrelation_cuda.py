"""AutocorrelationCUDA (Falcone): multi-tau sums of 1024 sensors, 10 groups of 32 lags, uint8 counts."""

import re
import struct
import time as clock

import cupy as cp
import numpy as np

from common import RUNS, Failed, Kernel, address, cubins, timed

SENSORS, GROUPS, LAGS, SENSORS_PER_BLOCK = 1024, 10, 32, 8
PACKETS = [100, 400]


def measure(folder, rng):
    """Figures of every length of a packet: by the kernel alone, and with the copy from the host."""
    images = cubins(folder / "src" / "Main.cu", [{"PACKET": instants} for instants in PACKETS], "-w")
    for image, instants in zip(images, PACKETS):
        name = re.search(rb"_Z13autocorrelate\w+", image).group(0).decode()
        yield from one(Kernel(image, name), rng, instants)


def sums(counts):
    """Sums [sensor][group][lag] of counts [instant][sensor], by the definition of bin groups."""
    total = np.zeros((counts.shape[1], GROUPS, LAGS), np.int64)
    memory, own = np.zeros_like(total), np.zeros((counts.shape[1], GROUPS), np.int64)
    for instant, row in enumerate(counts, 1):
        memory[:, 0, 0] = row
        own += row[:, None]
        # Group g ends a bin every 2^g instants; the longest first, as a bin that ends enters the next group.
        ended = min((instant & -instant).bit_length(), GROUPS)
        for group in reversed(range(ended)):
            total[:, group] += own[:, [group]] * memory[:, group]
            leaving = memory[:, group, -1].copy()
            memory[:, group, 1:] = memory[:, group, :-1].copy()
            memory[:, group, 0] = own[:, group] = 0
            if group + 1 < GROUPS:
                memory[:, group + 1, 0] += leaving
    return total


def one(kernel, rng, instants):
    counts = rng.integers(0, 8, size=(instants, SENSORS), dtype=np.int32).astype(np.uint8)
    bins, own, places = (cp.zeros(size * SENSORS, np.uint16) for size in (GROUPS * LAGS, GROUPS, GROUPS))
    found = cp.zeros((SENSORS, GROUPS, LAGS), np.uint32)

    def launcher(done):
        packet = struct.pack("<Q", address(counts))
        memory = struct.pack("<3Q", *(address(array) for array in (bins, own, places)))
        out = struct.pack("<2Q", address(found), 0)
        return kernel.launcher(
            (SENSORS // SENSORS_PER_BLOCK, 1, 1), (LAGS, SENSORS_PER_BLOCK, 1), packet, memory, done, out
        )

    host = cp.asnumpy(counts)
    for packet in range(3):
        launcher(packet * instants)()
    expected = sums(np.concatenate([host] * 3))
    wrong = int((cp.asnumpy(found) != expected).sum())
    if wrong:
        raise Failed(f"{wrong} of {expected.size} sums are wrong")
    launch = launcher(3 * instants)
    sizes = {"sensors": SENSORS, "groups": GROUPS, "lags": LAGS, "packet": instants}
    time = timed([launch])
    checked = "all sums of three packets, exact"
    yield {
        "case": "autocorrelate, kernel",
        "sizes": sizes,
        **time,
        "rate": instants / time["seconds"],
        "unit": "instants/s",
        "checked": checked,
    }
    seconds = []
    for _ in range(RUNS):
        start = clock.perf_counter()
        counts.set(host)
        launch()
        cp.cuda.Device().synchronize()
        seconds.append(clock.perf_counter() - start)
    quartiles = [float(value) for value in np.percentile(seconds, [25, 75])]
    median = float(np.median(seconds))
    yield {
        "case": "autocorrelate, from the host",
        "sizes": sizes,
        "seconds": median,
        "quartiles": quartiles,
        "rate": instants / median,
        "unit": "instants/s",
        "checked": checked,
    }
