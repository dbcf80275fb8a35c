"""UVH5 files, judged by pyuvdata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corrust

ARRAY: dict[str, Any] = {
    "telescope": "example",
    "instrument": "corrust",
    "location": {"latitude": -30.72, "longitude": 21.43, "altitude": 1051.7},
    "positions": [[0, 0, 0], [29.2, 3, 0.1], [-14, 40, 0.3]],
    "first_channel": 150e6,
    "channel_width": 1e5,
    "start": "2026-03-01T12:00:00.25Z",
    "sample_time": 1e-3,
}


def dumps(rng: np.random.Generator, inputs: int = 3) -> Iterator[corrust.Dump]:
    """Two dumps of four channels and 100 times, of which the second lacks ten."""
    with corrust.Correlator(inputs, 4, device="cpu") as plan:
        for start in (0, 100):
            x = rng.integers(-128, 128, (100, 4, inputs, 2), np.int8)
            plan.accumulate(x, missing=[(0, 10)] if start else None)
            dump = plan.dump()
            dump.start = start
            yield dump


@pytest.mark.parametrize("as_file", [False, True])
def test_there_and_back(as_file: bool, tmp_path: Path, rng: np.random.Generator) -> None:
    array: Any = ARRAY
    if as_file:
        array = tmp_path / "array.json"
        array.write_text(json.dumps(ARRAY))
    written = list(dumps(rng))
    corrust.write_uvh5(tmp_path / "x.uvh5", written, array)
    found = corrust.read_uvh5(tmp_path / "x.uvh5")
    assert found.visibilities.shape == (2, 6, 4, 1)
    np.testing.assert_allclose(found.frequencies, 150e6 + 1e5 * np.arange(4))
    np.testing.assert_array_equal(found.polarisations, [-5])
    assert (found.times[1] - found.times[0]) * 86400 == pytest.approx(0.1, abs=1e-4)
    for dump, sums in zip(written, found.visibilities, strict=True):
        for (j, i), row in zip(found.pairs, sums, strict=True):
            np.testing.assert_array_equal(row[:, 0], dump.matrix()[:, i, j])


def test_pyuvdata_reads_it(tmp_path: Path, rng: np.random.Generator) -> None:
    pyuvdata = pytest.importorskip("pyuvdata", reason="needs the package pyuvdata")
    written = list(dumps(rng, 6))
    corrust.write_uvh5(tmp_path / "x.uvh5", iter(written), ARRAY)
    data = pyuvdata.UVData.from_file(tmp_path / "x.uvh5", check_extra=True, run_check_acceptability=True)
    assert (data.Ntimes, data.Nbls, data.Nfreqs, data.Npols) == (2, 6, 4, 4)
    for ant_1, ant_2 in data.get_antpairs():
        for name, p, q in [("xx", 0, 0), ("yy", 1, 1), ("xy", 0, 1), ("yx", 1, 0)]:
            found = data.get_data(ant_1, ant_2, name)
            for dump, row in zip(written, found, strict=True):
                # ant_1's feed is the one that is conjugated.
                np.testing.assert_array_equal(row, dump.matrix()[:, 2 * ant_2 + q, 2 * ant_1 + p])
            np.testing.assert_allclose(data.get_nsamples(ant_1, ant_2, name), [[1.0] * 4, [0.9] * 4])


def test_compressed_files_are_smaller_and_the_same(tmp_path: Path, rng: np.random.Generator) -> None:
    written = list(dumps(rng))
    for name, gzip in [("plain.uvh5", None), ("packed.uvh5", 4)]:
        corrust.write_uvh5(tmp_path / name, written, ARRAY, gzip=gzip)
    plain, packed = tmp_path / "plain.uvh5", tmp_path / "packed.uvh5"
    assert packed.stat().st_size < plain.stat().st_size / 2
    np.testing.assert_array_equal(corrust.read_uvh5(packed).visibilities, corrust.read_uvh5(plain).visibilities)
    with pytest.raises(ValueError, match="gzip of level 10: expected 1 to 9"):
        corrust.write_uvh5(packed, written, ARRAY, gzip=10)
    pyuvdata = pytest.importorskip("pyuvdata", reason="needs the package pyuvdata")
    assert pyuvdata.UVData.from_file(packed) == pyuvdata.UVData.from_file(plain)
    h5py = pytest.importorskip("h5py", reason="needs the package h5py")
    with h5py.File(packed) as file:
        data = file["Data/visdata"]
        assert (data.compression, data.compression_opts, data.shuffle) == ("gzip", 4, True)


def test_a_partial_dump_has_its_own_length(tmp_path: Path, rng: np.random.Generator) -> None:
    pyuvdata = pytest.importorskip("pyuvdata", reason="needs the package pyuvdata")
    np.save(tmp_path / "x.npy", rng.integers(-128, 128, (210, 4, 3, 2), np.int8))
    recording = corrust.open(tmp_path / "x.npy")
    kept = list(recording.dumps(100, keep_partial=True, device="cpu"))
    assert [(dump.start, dump.times) for dump in kept] == [(0, 100), (100, 100), (200, 10)]
    corrust.write_uvh5(tmp_path / "x.uvh5", kept, ARRAY)
    data = pyuvdata.UVData.from_file(tmp_path / "x.uvh5", check_extra=True, run_check_acceptability=True)
    np.testing.assert_allclose(data.integration_time, np.repeat([0.1, 0.1, 0.01], 6))
    assert (data.nsample_array == 1).all()
    times = (np.unique(data.time_array) - data.time_array.min()) * 86400
    np.testing.assert_allclose(times, [0, 0.1, 0.155], atol=1e-4)
    (whole,) = recording.dumps(300, keep_partial=True, device="cpu")
    np.testing.assert_array_equal(whole.visibilities, sum(dump.visibilities for dump in kept))


def test_nothing_is_left_of_a_failure(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "x.uvh5"

    def broken() -> Iterator[corrust.Dump]:
        yield next(dumps(rng))
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        corrust.write_uvh5(path, broken(), ARRAY)
    lacking = {key: value for key, value in ARRAY.items() if key != "telescope"}
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (dumps(rng), lacking, ValueError, 'lacks "telescope"'),
        (dumps(rng, 5), ARRAY, ValueError, "as many antennas as the recording has inputs, 5"),
        ([], ARRAY, ValueError, "no dumps"),
        ([np.zeros(3)], ARRAY, TypeError, "expected corrust.Dump"),
        (7, ARRAY, TypeError, "iterable"),
        (dumps(rng), tmp_path / "nothing.json", FileNotFoundError, r"nothing\.json"),
    ]
    for given, array, error, sentence in cases:
        with pytest.raises(error, match=sentence):
            corrust.write_uvh5(path, given, array)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=r"x\.uvh5: cannot read"):
        corrust.read_uvh5(path)
    path.write_text("no HDF5")
    with pytest.raises(ValueError, match=r"x\.uvh5"):
        corrust.read_uvh5(path)
