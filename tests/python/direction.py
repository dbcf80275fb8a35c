"""The direction that blimpy reads in a filterbank file: run by tests/command/filterbank.rs."""

import sys

from blimpy import Waterfall

header = Waterfall(sys.argv[1]).header
ra, dec = header["src_raj"], header["src_dej"]
print(f"{ra.to_value('deg'):.6f} {dec.to_value('deg'):.6f} {header['source_name']}")
