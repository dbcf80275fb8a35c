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
    with pytest.raises(ValueError, match="unexpected argument '--integrat'"):
        corrust.observe({"input": {"files": ["x.npy"]}, "spectra": [{"output": "v.npy", "integrat": 2}]})
