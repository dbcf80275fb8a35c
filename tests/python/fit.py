"""Fits the curves of the folder of the first argument (curves.json: model, lags, bars, values, and the chi2 that corrust found) by
SciPy's least squares from ten random starts each, within the same bounds, and compares chi2 with the least of them."""

import json
import pathlib
import sys

import numpy as np
from scipy.optimize import least_squares

cases = json.loads((pathlib.Path(sys.argv[1]) / "curves.json").read_text())
random = np.random.default_rng(7)


def g(tau, model, p):
    x = tau[:, None] / np.array([p[name] for name in ("tau", "tau1", "tau2") if name in p])
    terms = 1 / (1 + x)
    if not model["plane"]:
        terms = terms / np.sqrt(1 + x / p["kappa"] ** 2)
    shares = [1.0] if "fraction" not in p else [p["fraction"], 1 - p["fraction"]]
    bright = 1.0
    if model["triplet"]:
        bright = 1 + p["triplet"] / (1 - p["triplet"]) * np.exp(-tau / p["triplet_time"])
    return p["offset"] + bright / p["n"] * (terms @ np.array(shares))


BOUNDS = {"n": (1e-9, 1e12), "kappa": (1.0, 1e3), "fraction": (0.0, 1.0), "triplet": (0.0, 0.99), "offset": (-1e12, 1e12)}
LINEAR = ("fraction", "triplet", "offset")
worse = 0
for case in cases:
    tau, values, sigma, model = np.array(case["lags"]), np.array(case["values"]), np.array(case["errors"]), case["model"]
    free = [name for name in case["names"] if name not in case["fixed"]]

    def unpack(q):
        return case["fixed"] | {n: v if n in LINEAR else np.exp(v) for n, v in zip(free, q)}

    low, high = np.array([BOUNDS.get(name, (1e-12, 1e12)) for name in free]).T
    logs = np.array([name not in LINEAR for name in free])
    low[logs], high[logs] = np.log(low[logs]), np.log(high[logs])
    best = np.inf
    for _ in range(10):
        times = np.exp(random.uniform(np.log(tau[0]), np.log(tau[-1]), len(free)))
        start = []
        for name, time in zip(free, times):
            start.append({
                "n": np.log(random.uniform(0.5, 10)), "kappa": np.log(random.uniform(1.5, 10)),
                "fraction": random.uniform(0.1, 0.9), "triplet": random.uniform(0.05, 0.5), "offset": 1.0,
            }.get(name, np.log(time)))
        found = least_squares(
            lambda q: (values - g(tau, model, unpack(q))) / sigma, start, bounds=(low, high), x_scale="jac", max_nfev=300
        )
        there = unpack(found.x)
        # A dark state outlasts no way through the focus.
        if there.get("triplet_time", 0) < min(there.get(name, np.inf) for name in ("tau", "tau1", "tau2")):
            best = min(best, 2 * found.cost)
    if case["chi2"] > best * (1 + 1e-5):
        worse += 1
        print(f"{case['model']}: chi2 {case['chi2']}, SciPy's best of ten {best}", file=sys.stderr)
print(f"{len(cases)} curves, {worse} above SciPy's best of ten starts")
sys.exit(worse > 0)
