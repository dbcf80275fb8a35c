"""Correlate a recording of channels on the ranks of MPI: each its share of the times, the sums added by Reduce.

    mpirun -n 2 python mpi.py rec.npy visibilities.npy

Sums of integer samples are exact, so that any number of ranks gives the same bits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import corrust


def main(path: str, output: str) -> None:
    ranks, rank = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank
    recording = corrust.open(path, kind="channels")
    start, stop = (recording.times * part // ranks for part in (rank, rank + 1))
    with corrust.Correlator(
        recording.inputs, recording.channels or 0, recording.encoding, recording.layout
    ) as correlator:
        # What is before the first time is not read.
        for block in recording.blocks(start=start, stop=stop):
            correlator.accumulate(block.samples, missing=block.missing)
        sums = correlator.dump().visibilities
    if sums.dtype != np.int64:
        raise SystemExit(f"{path}: samples of {recording.encoding}: expected integers, whose sums are exact")
    total = np.empty_like(sums) if rank == 0 else None
    MPI.COMM_WORLD.Reduce(sums, total, op=MPI.SUM, root=0)
    if total is not None:
        partial = Path(output + ".part")
        with partial.open("wb") as file:
            np.save(file, total[None])  # [dump][channel][baseline][re, im], as corrust correlate writes it
        partial.replace(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
