"""The examples of docstrings, documents and notebooks work."""

from __future__ import annotations

import base64
import doctest
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

import corrust

PACKAGE = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "name", ["Channeliser", "Correlator", "Kurtosis", "Upchanneliser", "Folding", "open", "planes", "to_device", "devices", "reports", "weights", "write_uvh5"]
)
def test_docstrings_of_what_is_in_rust(name: str) -> None:
    function = getattr(corrust, name)
    found = doctest.DocTestParser().get_doctest(function.__doc__ or "", {}, name, None, None)
    assert found.examples
    assert doctest.DocTestRunner().run(found).failed == 0


@pytest.mark.parametrize("document", ["README.md", "../README.md", "../docs/python.md", "../docs/distributed.md", "../docs/observe.md"])
def test_python_in_documents(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = PACKAGE / document
    if not path.exists():
        pytest.skip("not in a clone")
    monkeypatch.chdir(tmp_path)
    if "distributed" in document:
        pytest.importorskip("distributed")
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.M | re.S)
    judged = 0
    for block in blocks:
        # What goes on where a block with corrust ended, and needs no GPU.
        if ("import corrust" in block or judged) and "cupy" not in block:
            exec(compile(block, str(path), "exec"), names)
            judged += 1
    assert judged


# A number alone, not a part of a name.
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])")


def texts(notebook: Any) -> list[str]:
    """What the cells of a notebook print and return, without names of objects and sizes of figures."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    found = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return [text for text in found if text and not text.startswith("<")]


def shrink(notebook: Any) -> None:
    """Gives the figures of a notebook 256 colours, for half their bytes."""
    image = pytest.importorskip("PIL.Image")
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                figure = image.open(io.BytesIO(base64.b64decode(output["data"]["image/png"])))
                small = io.BytesIO()
                figure.convert("RGB").quantize(256).save(small, "png", optimize=True)
                output["data"]["image/png"] = base64.b64encode(small.getvalue()).decode()


def numbers(texts: list[str]) -> list[float]:
    return [float(number) for text in texts for number in NUMBER.findall(text)]


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("examples/*.ipynb")), ids=lambda path: str(path.stem))
def test_notebooks(path: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("matplotlib")
    notebook = nbformat.read(path, as_version=4)
    if any("import cupy" in cell.source for cell in notebook.cells):
        pytest.importorskip("cupy", reason=f"{path.name} needs a GPU and CuPy: no CuPy")
        if not any(device["device"] == "cuda:0" for device in corrust.devices()):
            pytest.skip(f"{path.name} needs a GPU and CuPy: no GPU")
    expected = texts(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=300, record_timing=False, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    # CORRUST_WRITE_NOTEBOOKS=1 keeps the outputs, for notebooks that have changed.
    if os.environ.get("CORRUST_WRITE_NOTEBOOKS"):
        notebook.metadata["language_info"] = {"name": "python"}
        shrink(notebook)
        nbformat.write(notebook, path)
        return
    found = texts(notebook)
    assert [NUMBER.sub("0", text) for text in found] == [NUMBER.sub("0", text) for text in expected]
    # The last digits of floats differ between machines.
    assert numbers(found) == pytest.approx(numbers(expected), rel=1e-3, abs=1e-12)
