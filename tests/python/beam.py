"""What blimpy reads in a beam's filterbank file: run by tests/command/filterbank.rs."""

import sys

from blimpy import Waterfall

data = Waterfall(sys.argv[1]).data[:, 0].astype(float)
print(f"{data.shape[0]} x {data.shape[1]} samples, sum {data.sum():.4f}")
