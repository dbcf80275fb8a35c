"""What a call from Python takes beside the same call from Rust: samples that are resident already, answers checked.

    python benches/resident.py [--device auto] [--megabytes 1] [--calls 300]

A call correlates the samples and waits for the device. Calls from Python and from Rust (the extension's own loop) take
turns; the quickest are compared. Fails where a call from Python takes longer by more than --limit microseconds.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import corrust
from corrust import _corrust


def main() -> None:
    """Print a line for each shape, and one for a call with next to no work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--limit", type=float, default=20.0)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    slow = []
    bytes_ = int(options.megabytes * 1e6)
    for inputs, channels, size in [(1, 1, 2), (16, 16, bytes_), (64, 64, bytes_), (256, 16, bytes_)]:
        times = max(1, size // (2 * inputs * channels))
        x = rng.integers(-128, 128, (times, channels, inputs, 2), np.int8)
        with corrust.Correlator(inputs, channels, device=options.device) as plan:
            on_host = plan.kernel.startswith("cpu")
            there: Any = x if on_host else corrust.to_device(x, options.device)

            def call(plan: corrust.Correlator = plan, there: Any = there) -> float:
                start = time.perf_counter()
                plan.accumulate(there)
                plan.wait()
                return time.perf_counter() - start

            for _ in range(20):
                call()
            python, rust = [], []
            for _ in range(max(1, options.calls // 20)):
                python += [call() for _ in range(20)]
                rust += _corrust.seconds_in_rust(plan, there, 20)
            count = 20 + len(python) + len(rust)
            once = corrust.correlate(x, device="cpu").visibilities
            assert np.array_equal(plan.dump().visibilities, count * once), "wrong sums"
            of_python, of_rust = (1e6 * min(seconds) for seconds in (python, rust))
            print(
                f"{plan.device} ({plan.kernel}), {x.nbytes / 1e6:.3f} MB of {inputs} inputs x {channels} channels: "
                f"{of_python:.1f} us from Python, {of_rust:.1f} us from Rust, {of_python - of_rust:.1f} us more"
            )
            if of_python - of_rust > options.limit:
                slow.append(x.shape)
    assert not slow, f"more than {options.limit} us beyond Rust's: {slow}"


if __name__ == "__main__":
    main()
