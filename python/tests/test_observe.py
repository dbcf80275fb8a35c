"""Several products of one recording, by a dictionary and by a file."""

from pathlib import Path

import numpy as np
import pytest

import corrust


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_products_are_those_of_the_plans(tmp_path: Path, device: str) -> None:
    x = np.random.default_rng(4).integers(-128, 128, (1000, 4, 3, 2), np.int8)
    np.save(tmp_path / "x.npy", x)
    said = corrust.observe({
        "input": {"files": [str(tmp_path / "x.npy")], "device": device},
        "visibilities": [{"output": tmp_path / "v.npy", "integrate": 250}],
        "kurtosis": [{"output": tmp_path / "k.npy", "times": 100}],
    })
    assert len(said) == 3 and "4 dumps" in said[0] and "10 blocks" in said[1]
    visibilities = np.load(tmp_path / "v.npy")
    for dump in range(4):
        expected = corrust.correlate(x[250 * dump : 250 * (dump + 1)], device="cpu").visibilities
        np.testing.assert_array_equal(visibilities[dump], expected)
    np.testing.assert_array_equal(np.load(tmp_path / "k.npy"), corrust.kurtosis(x, 100, device="cpu"))


def test_a_plan_may_be_a_file_and_faults_are_sentences(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((100, 1, 2, 2), np.int8))
    plan = tmp_path / "plan.toml"
    plan.write_text(f"[input]\nfiles = ['{tmp_path}/x.npy']\n[[spectra]]\noutput = '{tmp_path}/s.npy'\n")
    corrust.observe(plan)
    assert np.load(tmp_path / "s.npy").tolist() == [[[200, 200]]]
    with pytest.raises(ValueError, match="unknown field `visibility`"):
        corrust.observe({"input": {"files": ["x.npy"]}, "visibility": [{"output": "v.npy"}]})
    with pytest.raises(ValueError, match="unexpected argument 'integrat'"):
        corrust.observe({"input": {"files": ["x.npy"]}, "spectra": [{"output": "v.npy", "integrat": 2}]})


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_raw_voltages_become_subchannels(tmp_path: Path, device: str) -> None:
    x = np.random.default_rng(5).integers(-60, 60, (3, 20000), np.int8)
    np.save(tmp_path / "raw.npy", x)
    corrust.observe({
        "input": {
            "files": [tmp_path / "raw.npy"],
            "device": device,
            "channelise": {"channels": 16, "taps": 4},
            "upchannelise": {"factor": 4, "taps": 2, "unit-noise": True},
        },
        "visibilities": [{"output": tmp_path / "v.npy"}],
    })
    spectra = corrust.channelise(x, 16, taps=4, output="ci8", device="cpu")
    fine = corrust.upchannelise(spectra.samples, 4, taps=2, unit_noise=True, device="cpu")
    expected = corrust.correlate(fine.samples, device="cpu").visibilities
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy")[0], expected)


def stokes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """I, Q, U, V of X and Y ``[time, channel]`` by the IAU's definition: ``[time, parameter, channel]``."""
    xx, yy, xy = x * x.conj(), y * y.conj(), x * y.conj()
    parameters = [xx + yy, xx - yy, xy + xy.conj(), -1j * (xy - xy.conj())]
    return np.stack([parameter.real for parameter in parameters], axis=1)


def test_powers_are_stokes_parameters(tmp_path: Path) -> None:
    x = np.random.default_rng(6).integers(-128, 128, (1000, 4, 4, 2), np.int8)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "array.json").write_text('{"positions": [[0, 0, 0], [9, 0, 0]]}')
    power = {"integrate": 30, "stokes": "IQUV"}
    said = corrust.observe({
        "input": {"files": [tmp_path / "x.npy"], "device": "cpu", "array": tmp_path / "array.json"},
        "power": [
            {"output": tmp_path / "all.npy", **power},
            {"output": tmp_path / "second.npy", "input": [2, 3], **power},
            {"output": tmp_path / "i.npy", "integrate": 30, "stokes": "I"},
        ],
    })
    assert "33 samples" in said[0]
    values = x[..., 0] + 1j * x[..., 1].astype(float)
    parts = [stokes(values[..., 2 * antenna], values[..., 2 * antenna + 1]) for antenna in range(2)]
    sums = [part[:990].reshape(33, 30, 4, 4).sum(1).astype(np.int64) for part in parts]
    found = np.load(tmp_path / "all.npy")
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, sums[0] + sums[1])
    np.testing.assert_array_equal(np.load(tmp_path / "second.npy"), sums[1])
    np.testing.assert_array_equal(np.load(tmp_path / "i.npy"), found[:, :1])
    with pytest.raises(ValueError, match="expected I or IQUV"):
        corrust.observe({
            "input": {"files": [tmp_path / "x.npy"], "array": tmp_path / "array.json"},
            "power": [{"output": tmp_path / "y.npy", "stokes": "IQ"}],
        })
