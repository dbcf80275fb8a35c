"""Bridges, judged by pyuvdata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_uvh5 import ARRAY, dumps

import corrust

pyuvdata = pytest.importorskip("pyuvdata", reason="needs the package pyuvdata")

_CHANNELS, _TIMES = 4, 200


@pytest.mark.parametrize("inputs", [3, 6])
def test_uvdata_is_what_the_file_holds(inputs: int, tmp_path: Path, rng: np.random.Generator) -> None:
    written = list(dumps(rng, inputs))
    data = corrust.uvdata(iter(written), ARRAY)
    assert data.check(check_extra=True, run_check_acceptability=True) and data.filename is None
    corrust.write_uvh5(tmp_path / "x.uvh5", written, ARRAY)
    of_file = pyuvdata.UVData.from_file(tmp_path / "x.uvh5")
    assert data == of_file
    first = corrust.baseline(inputs // 3, 0)
    np.testing.assert_array_equal(data.get_data(0, 1, "xx"), [dump.complex()[:, first] for dump in written])
    data.write_uvfits(tmp_path / "x.uvfits", force_phase=True)
    with pytest.raises(ValueError, match="no dumps"):
        corrust.uvdata([], ARRAY)


def _calibration(data: Any, gains: Any, convention: str) -> Any:
    """A calibration of gains ``[antenna, channel]`` of the voltages, such as a solver finds from visibilities."""
    cal = pyuvdata.UVCal.initialize_from_uvdata(
        data, gain_convention=convention, cal_style="redundant", jones_array=[-5], wide_band=False
    )
    cal.gain_array = np.empty((len(gains), _CHANNELS, cal.Ntimes, 1), complex)
    found = np.conj(gains) if convention == "divide" else 1 / np.conj(gains)
    cal.gain_array[:] = found[:, :, None, None]
    cal.flag_array = np.zeros(cal.gain_array.shape, bool)
    cal.quality_array = np.ones(cal.gain_array.shape)
    assert cal.check()
    return cal


@pytest.mark.parametrize("convention", ["divide", "multiply"])
def test_a_gain_error_is_undone(convention: str, tmp_path: Path, rng: np.random.Generator) -> None:
    # Voltages of three dishes, and what gains make of them: a gain of 2j, of 1 / 2, and phases that differ by channel.
    true = rng.normal(size=(_TIMES, _CHANNELS, 3)) + 1j * rng.normal(size=(_TIMES, _CHANNELS, 3))
    gains = np.array([[2j] * _CHANNELS, [0.5] * _CHANNELS, np.exp(0.7j * np.arange(_CHANNELS))])
    found = true * gains.T

    def half(x: Any) -> Any:
        return np.stack([x.real, x.imag], -1).astype(np.float16)

    # pyuvdata calibrates the visibilities by these gains: what it means by them.
    dump = corrust.correlate(half(found), device="cpu")
    data, expected = corrust.uvdata([dump], ARRAY), corrust.correlate(half(true), device="cpu").complex()
    cal = _calibration(data, gains, convention)
    calibrated = pyuvdata.utils.uvcalibrate(data, cal, inplace=False, time_check=False)
    for i in range(3):
        for j in range(i):
            row = calibrated.get_data(j, i, "xx")[0]
            np.testing.assert_allclose(row, expected[:, corrust.baseline(i, j)], rtol=1e-2, atol=0.5)

    # Calibrated weights make the same beams of the voltages as plain weights of the true voltages.
    cal.write_calh5(tmp_path / "gains.calh5")
    weights = half(np.exp(2j * np.pi * rng.random((_CHANNELS, 1, 2, 3))))
    for calibration in (cal, tmp_path / "gains.calh5"):
        corrected = corrust.calibrated_weights(weights, calibration)
        assert corrected.dtype == np.float16 and corrected.shape == weights.shape
        beams = corrust.beamform(half(found)[:, :, None], corrected, output="cf32", device="cpu").complex()
        wanted = corrust.beamform(half(true)[:, :, None], weights, output="cf32", device="cpu").complex()
        np.testing.assert_allclose(beams, wanted, rtol=2e-2, atol=2e-2)
    # Without the conjugation they are not.
    wrong = corrust.calibrated_weights(weights, _calibration(data, np.conj(gains), convention))
    off = corrust.beamform(half(found)[:, :, None], wrong, output="cf32", device="cpu").complex()
    assert np.abs(off - wanted).max() > 1


def test_integers_are_scaled_alike_and_flags_are_zero(rng: np.random.Generator) -> None:
    data = corrust.uvdata(dumps(rng), ARRAY)
    gains = np.array([[1.0] * _CHANNELS, [2.0] * _CHANNELS, [-4j] * _CHANNELS])
    cal = _calibration(data, gains, "divide")
    cal.flag_array[1, 2] = True
    weights = np.zeros((_CHANNELS, 1, 1, 3, 2), np.int8)
    weights[..., 0] = 64
    found = corrust.calibrated_weights(weights, cal)
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found[0, 0, 0], [[127, 0], [64, 0], [0, 32]])
    np.testing.assert_array_equal(found[2, 0, 0], [[127, 0], [0, 0], [0, 32]])
    # Dishes in another order.
    other = corrust.calibrated_weights(weights, cal, antennas=[2, 0, 1])
    np.testing.assert_array_equal(other[0, 0, 0], [[0, 32], [127, 0], [64, 0]])
    two = np.repeat(weights, 2, axis=1)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (weights[:2], {}, "gains of 4 channels: expected 2"),
        (weights[..., 0], {}, r"expected int8 or float16 \[F, P, B, D, 2\]"),
        (weights, {"antennas": [0, 1, 7]}, "gains without antenna 7"),
        (weights, {"antennas": [0]}, "1 antennas: expected 3"),
        (weights, {"time": 2}, "time=2 of gains of 2 times"),
        (weights, {"feeds": "y"}, 'feeds="y" of gains of "x"'),
        (two, {}, 'feeds="xy" of gains of "x": expected 2 of these'),
    ]
    for given, options, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            corrust.calibrated_weights(given, cal, **options)
