"""Curves of files of other programs, as PyCorrFit's readers find them."""

import json
import pathlib
import sys

import numpy as np
from pycorrfit.readfiles import read_ASC_ALV, read_CSV_PyCorrFit, read_FCS_Confocor3, read_SIN_correlator_com

READERS = {
    ".asc": read_ASC_ALV.openASC,
    ".csv": read_CSV_PyCorrFit.openCSV,
    ".fcs": read_FCS_Confocor3.openFCS,
    ".sin": read_SIN_correlator_com.openSIN,
}

folder = pathlib.Path(sys.argv[1])
for case in json.loads((folder / "cases.json").read_text()):
    path = folder / case["file"]
    curves = READERS[path.suffix](path)["Correlation"]
    assert len(curves) == len(case["curves"]), (case["file"], len(curves))
    for theirs, (lags, g) in zip(curves, case["curves"]):
        # Milliseconds, and g - 1; lags without a measurement are 0 there.
        told = theirs[theirs[:, 1] != -1]
        assert np.allclose(told[:, 0], np.array(lags) * 1e3, rtol=1e-9), case["file"]
        assert np.allclose(told[:, 1], np.array(g) - 1, atol=1e-9), case["file"]
    print(case["file"], len(curves), "curves")
