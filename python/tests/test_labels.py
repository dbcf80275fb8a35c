"""Labelled results: xarray, pandas and astropy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import integers, samples
from test_open import guppi
from test_uvh5 import ARRAY

import corrust

_START = "2026-03-01T12:00:00.250000000"
# 2026-03-01 is MJD 61100.
_CARDS = {"OBSFREQ": 1500.0, "OBSBW": 4.0, "STT_IMJD": 61_100, "STT_SMJD": 43_200, "STT_OFFS": 0.25}


def test_recordings_and_dumps_have_times_and_frequencies(tmp_path: Path, rng: np.random.Generator) -> None:
    xarray = pytest.importorskip("xarray", reason="needs the package xarray")
    x = samples(rng, "ci8", "tcn", 48, 4, 2)
    guppi(tmp_path / "scan.raw", x, 8, **_CARDS)
    recording = corrust.open(tmp_path / "scan.raw")
    assert recording.frequencies is not None and recording.start == "2026-03-01T12:00:00.25Z"
    labelled = recording.to_xarray()
    assert labelled.dtype == np.complex64 and dict(labelled.sizes) == {"time": 56, "channel": 4, "input": 2}
    times = np.datetime64(_START) + np.arange(56) * np.timedelta64(1, "us")
    np.testing.assert_array_equal(labelled.time, times)
    np.testing.assert_array_equal(labelled.frequency, recording.frequencies)
    values = labelled.transpose("time", "channel", "input").values
    assert np.isnan(values[32:40]).all()
    expected = x[..., 0] + 1j * x[..., 1]
    np.testing.assert_array_equal(values[:32], expected[:32])
    np.testing.assert_array_equal(values[40:], expected[32:])
    part = recording.to_xarray(start=30, stop=46)
    xarray.testing.assert_identical(part, labelled.isel(time=slice(30, 46)))

    dumps = list(recording.dumps(24, keep_partial=True, device="cpu"))
    assert [dump.times for dump in dumps] == [24, 24, 8]
    joined = xarray.concat([dump.to_xarray() for dump in dumps], "time")
    np.testing.assert_array_equal(joined.frequency, recording.frequencies)
    np.testing.assert_array_equal(joined.time, np.datetime64(_START) + np.array([12, 36, 52]) * np.timedelta64(1, "us"))
    np.testing.assert_array_equal(joined.counts[:, 0, 0], [24, 16, 8])
    assert dumps[2].to_xarray().attrs == {"times": 8, "seconds": pytest.approx(8e-6)}
    # Coordinates of the call replace coordinates of the recording.
    assert float(dumps[0].to_xarray(time=7.0).time) == 7


def test_what_is_not_known_is_not_labelled(tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("xarray", reason="needs the package xarray")
    for encoding, layout in [("ci8", "cnt"), ("ci4", "tcn"), ("ci4-offset", "tcn"), ("cf16", "cnt")]:
        x = samples(rng, encoding, layout, 20, 3, 2)
        np.save(tmp_path / "x.npy", x)
        recording = corrust.open(tmp_path / "x.npy", encoding=encoding, layout=layout)
        labelled = recording.to_xarray(start=5)
        assert "frequency" not in labelled.coords
        np.testing.assert_array_equal(labelled.time, np.arange(5, 20))
        re, im = integers(x, encoding)
        whole = (re + 1j * im)[5:] if layout == "tcn" else (re + 1j * im)[..., 5:]
        np.testing.assert_array_equal(labelled.values, whole)
        (dump,) = recording.dumps(device="cpu")
        assert float(dump.to_xarray().time) == 10
    raw = rng.integers(-100, 100, (2, 50)).astype(np.int16)
    np.save(tmp_path / "raw.npy", raw)
    labelled = corrust.open(tmp_path / "raw.npy", rate=1e3).to_xarray()
    assert labelled.dims == ("input", "time") and labelled.dtype == np.float32
    np.testing.assert_array_equal(labelled.values, raw)
    np.testing.assert_allclose(labelled.time, np.arange(50) * 1e-3)
    with pytest.raises(ValueError, match="times 50 to None: expected at least one of 50"):
        corrust.open(tmp_path / "raw.npy").to_xarray(start=50)


def test_start_is_an_astropy_time(tmp_path: Path, rng: np.random.Generator) -> None:
    time = pytest.importorskip("astropy.time", reason="needs the package astropy")
    guppi(tmp_path / "scan.raw", samples(rng, "ci8", "tcn", 48, 4, 2), 0, **_CARDS)
    recording = corrust.open(tmp_path / "scan.raw")
    assert recording.start_time is not None
    assert recording.start_time.isot == _START and recording.start_time.scale == "utc"
    np.save(tmp_path / "x.npy", samples(rng, "ci8", "tcn", 4, 1, 2))
    assert corrust.open(tmp_path / "x.npy").start_time is None
    # Moments are taken as text and as Time, of any scale.
    options: dict[str, Any] = {"period": 8e-3, "epoch": "2026-03-01T12:00:00.002"}
    text = corrust.Folding(4, 1e-3, start="2026-03-01T12:00:00", **options)
    tai = time.Time("2026-03-01T12:00:00", scale="utc").tai
    assert (text.numbers(0, 20) == corrust.Folding(4, 1e-3, start=tai, **options).numbers(0, 20)).all()
    with pytest.raises(TypeError, match="a moment is int: expected UTC in ISO 8601, a str, or an astropy Time"):
        corrust.Folding(4, 1e-3, start=7, **options)


def test_curves_are_tables(rng: np.random.Generator) -> None:
    pytest.importorskip("pandas", reason="needs the package pandas")
    counts = rng.poisson(2.0, (4000, 2)).astype(np.uint8)
    counts[:, 1] = 0
    counts[0, 1] = 1
    with corrust.Autocorrelator(2, groups=4, lags=8, device="cpu") as plan:
        plan.accumulate(counts)
        sums = plan.snapshot()
    table = sums.to_pandas(1e-6, ["green", "red"])
    assert list(table.columns) == ["green", "red"] and table.index.name == "tau"
    for row, name in enumerate(table.columns):
        tau, g = sums.curve(row, 1e-6)
        there = table[name].dropna()
        np.testing.assert_array_equal(there.index, tau)
        np.testing.assert_array_equal(there, g)
    assert len(table["green"].dropna()) == len(table) and table["red"].isna().any()
    np.testing.assert_array_equal(sums.to_pandas().columns, [0, 1])
    with pytest.raises(ValueError, match="1 names: expected 2, one for each row"):
        sums.to_pandas(names=["green"])


def test_files_are_labelled(tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("xarray", reason="needs the package xarray")
    dump = corrust.correlate(samples(rng, "ci8", "tcn", 100, 4, 3), device="cpu")
    corrust.write_uvh5(tmp_path / "x.uvh5", [dump], ARRAY)
    found = corrust.read_uvh5(tmp_path / "x.uvh5")
    labelled = found.to_xarray()
    np.testing.assert_array_equal(labelled.values, found.visibilities)
    np.testing.assert_array_equal(labelled.frequency, found.frequencies)
    np.testing.assert_array_equal(labelled.ant_2, found.pairs[:, 1])
    apart = labelled.time[0].values - np.datetime64("2026-03-01T12:00:00.300")
    assert abs(apart) < np.timedelta64(50, "us")


@pytest.mark.parametrize(("package", "call"), [("xarray", "to_xarray"), ("matplotlib", "plot")])
def test_missing_packages_are_named(package: str, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == package:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    dump = corrust.correlate(np.ones((4, 1, 2, 2), np.int8), device="cpu")
    with pytest.raises(ModuleNotFoundError, match=f"needs the package {package}: pip install {package}"):
        getattr(dump, call)()


def test_gates_count_leap_seconds_as_astropy_does(rng: np.random.Generator) -> None:
    time = pytest.importorskip("astropy.time", reason="needs the package astropy")
    # UTC has had whole leap seconds since 1972. Half of the epochs lie within seconds of one.
    leaps = ["1972-07-01", "1981-07-01", "1990-01-01", "1999-01-01", "2009-01-01", "2012-07-01", "2015-07-01", "2017-01-01"]
    days = time.Time("1972-01-01").mjd, time.Time("2026-01-01").mjd
    seconds, judged = 7, 0
    for number in range(300):
        epoch = time.Time(rng.uniform(*days), format="mjd", scale="utc", precision=9)
        if number % 2:
            beside = float(rng.uniform(-3, 3))
            epoch = time.Time(leaps[number % len(leaps)], precision=9) + time.TimeDelta(beside, format="sec")
        start = time.Time(rng.uniform(*days), format="mjd", scale="utc", precision=9)
        phase = ((start - epoch).sec + 0.5e-3) % seconds
        # A leap second is read as the next minute's first; beside the edge of a gate rounding to 1 ns decides.
        if ":60" in epoch.isot or min(phase % 1, 1 - phase % 1) < 1e-6:
            continue
        gates = corrust.Folding(seconds, 1e-3, period=float(seconds), start=start, epoch=epoch)
        assert gates.numbers(0, 1)[0] == int(phase), (start.isot, epoch.isot)
        judged += 1
    assert judged > 250
