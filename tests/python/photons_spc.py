"""Judges SPC files that the tests wrote, in the folder of the first argument: phconvert and tttrlib read the same channels,
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
    found = phconvert.bhreader.load_spc(path)["photon_data"]
    assert (found["timestamps"] == times).all(), path
    assert (found["detectors"] == channels).all(), path
    assert (found["nanotimes"] == microtimes).all(), path
    assert abs(found["timestamps_unit"] / case["unit"] - 1) < 1e-6, found["timestamps_unit"]
    print("phconvert agrees:", case["file"])
    theirs = tttrlib.TTTR(path, "SPC-130")
    photons = np.array(theirs.event_types) == 0
    assert (np.array(theirs.macro_times)[photons] == times).all(), path
    assert (np.array(theirs.routing_channels)[photons] == channels).all(), path
    # tttrlib leaves a microtime as the converter has it.
    found = np.array(theirs.micro_times)[photons]
    assert (found == microtimes).all() or (4095 - found == microtimes).all(), path
    print("tttrlib agrees:", case["file"])
