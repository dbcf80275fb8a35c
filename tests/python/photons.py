"""Judges photons that the tests wrote, in the folder of the first argument: phconvert and tttrlib read the same channels,
arrival times and microtimes."""

import json
import pathlib
import sys

import numpy as np
import phconvert
import tttrlib

folder = pathlib.Path(sys.argv[1])

for case in json.loads((folder / "cases.json").read_text()):
    path = str(folder / case["file"])
    channels, times, microtimes = np.array(case["photons"]).T
    ending = path.rsplit(".", 1)[1]
    # phconvert reads HT3 of the first format alone.
    if case["first_format"]:
        reader = {"pt3": phconvert.pqreader.load_pt3, "ht3": phconvert.pqreader.load_ht3}[ending]
        found_times, found_channels, found_microtimes, meta = reader(path)[:4]
        # Channels of markers are above those of photons.
        photons = np.isin(found_channels, np.unique(channels))
        assert (found_times[photons] == times).all(), path
        assert (found_channels[photons] == channels).all(), path
        assert (found_microtimes[photons] == microtimes).all(), path
        assert abs(meta["timestamps_unit"] / case["unit"] - 1) < 1e-6, meta["timestamps_unit"]
        assert abs(meta["nanotimes_unit"] / case["microtime"] - 1) < 1e-6, meta["nanotimes_unit"]
        print("phconvert agrees:", case["file"])
    if ending == "ht3":
        theirs = tttrlib.TTTR(path, "HT3")
        photons = np.array(theirs.event_types) == 0
        assert (np.array(theirs.macro_times)[photons] == times).all(), path
        assert (np.array(theirs.routing_channels)[photons] == channels).all(), path
        assert (np.array(theirs.micro_times)[photons] == microtimes).all(), path
        print("tttrlib agrees:", case["file"])
