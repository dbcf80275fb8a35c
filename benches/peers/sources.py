"""Where each peer's files come from, and what is changed in them: (file, before, after, how often `before` occurs)."""

import contextlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path


class Failed(Exception):
    """A reason why a peer has no figures."""


TCC, XGPU = "libtcc/kernel/TCCorrelator.cu", "src/kernel.cuh"
KOTEKAN = "lib/cuda/kernels"
KERNELS = ["BasebandBeamformer_chord", "FRBBeamformer_chord", "Upchannelizer_chord_U16"]
AUTOCORRELATION, DEFINITIONS = "src/Main.cu", "src/Definitions.h"
GUARD = "#define AUTOCORRELATIONCUDA_DEFINITIONS\n"

SOURCES = {
    "tcc": {
        "addresses": [
            "https://git.astron.nl/RD/tensor-core-correlator",
            "https://github.com/NiclasEsser1/tensor-core-correlator",
        ],
        "commit": "116d7f2301c0d07197a0a412cb7ca5965da1fd8e",
        "paths": ["libtcc/kernel"],
        # Hopper has the fragments of capability 8.x; unknown ones are stored by way of shared memory.
        "changes": [
            (TCC, "__CUDA_ARCH__ != 860\n", "__CUDA_ARCH__ != 860 && __CUDA_ARCH__ != 900\n", 1),
            (TCC, "__CUDA_ARCH__ == 860\n", "__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 900\n", 2),
        ],
    },
    "kotekan": {
        "addresses": ["https://github.com/kotekan/kotekan"],
        "commit": "2f19ae572e93ea35e2e90f0fd1fe8fd4239403f6",
        "paths": [f"{KOTEKAN}/{name}.ptx" for name in KERNELS],
        # Julia asks for all threads in one row, kotekan launches rows of 32: drivers refuse that.
        "changes": [
            (f"{KOTEKAN}/{KERNELS[0]}.ptx", ".reqntid 768, 1, 1", ".reqntid 32, 24, 1", 1),
            (f"{KOTEKAN}/{KERNELS[1]}.ptx", ".reqntid 768, 1, 1", ".reqntid 32, 24, 1", 1),
            (f"{KOTEKAN}/{KERNELS[2]}.ptx", ".reqntid 512, 1, 1", ".reqntid 32, 16, 1", 1),
        ],
    },
    "katgpucbf": {
        "addresses": ["https://github.com/ska-sa/katgpucbf"],
        "commit": "1e38bdc563f588e0ca2566b65173885fdee2f527",
        "paths": ["src/katgpucbf/xbgpu/kernels"],
        "changes": [],
    },
    "xgpu": {
        "addresses": ["https://github.com/GPU-correlators/xGPU"],
        "commit": "63a3681a4d808729135ebbe7bb58c5e23677f723",
        "paths": ["src"],
        # CUDA 12 has no texture references: samples become a parameter, read by __ldg.
        "changes": [
            (
                "src/shared_transfer_4_dp4a.cuh",
                "tex1Dfetch(tex1dchar4, array_index + (t)*NFREQUENCY*NSTATION*NPOL)",
                "__ldg(samples + array_index + (t)*NFREQUENCY*NSTATION*NPOL)",
                1,
            ),
            (
                XGPU,
                "CUBE_KERNEL(static shared2x2, int4 *matrix_real,",
                'extern "C" CUBE_KERNEL(shared2x2, const int2 *samples, int4 *matrix_real,',
                1,
            ),
        ],
    },
    "fengine": {"addresses": [], "commit": "", "paths": [], "changes": []},
    "autocorrelation_cuda": {
        "addresses": ["https://github.com/Lapo9/AutocorrelationCUDA"],
        "commit": "828c8e074205d4673e91c483e17f9a5a48cfeb08",
        "paths": ["src"],
        "changes": [
            # CUDA 13 has neither; GPUs since Maxwell ignore them.
            (AUTOCORRELATION, "cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte);", "", 1),
            (AUTOCORRELATION, "cudaDeviceSetCacheConfig(cudaFuncCachePreferShared);", "", 1),
            (DEFINITIONS, GUARD, f"{GUARD}#include <cstdint>\n", 1),
            (DEFINITIONS, "INSTANTS_PER_PACKET = 400", "INSTANTS_PER_PACKET = PACKET", 1),
            # The thread of a group read another sensor's count, which equal counts, as in the program's own test, hide.
            (AUTOCORRELATION, "packet.get(startingAbsoluteY + relativeID, i)", "packet.get(absoluteY, i)", 1),
        ],
    },
    "ccglib": {
        "addresses": ["https://github.com/nlesc-recruit/ccglib"],
        "commit": "27352d949abfb2a864b0aa0b67dd72bb20d1f258",
        "paths": ["include", "kernels"],
        "changes": [],
    },
}


def fetch(name, folder, clones=None):
    """Folder with a peer's files at its commit, fetched unless it is there; of `clones`, if that folder is given.

    None for a peer that is a library of the machine.
    """
    source = SOURCES[name]
    if not source["addresses"]:
        return None
    files = folder / f"{name}-{source['commit'][:7]}"
    if files.exists():
        return files
    reasons = []
    for address in source["addresses"]:
        clone = clones / address.rsplit("/", 1)[1] if clones else folder / f"{name}.git"
        git = ["git", "-C", str(clone)]
        if not clones:
            subprocess.run(["git", "init", "--quiet", "--bare", str(clone)], check=True)
            command = [*git, "fetch", "--quiet", "--depth", "1", address, source["commit"]]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                reasons.append(done.stderr.strip())
                continue
        done = subprocess.run([*git, "archive", source["commit"], *source["paths"]], capture_output=True)
        if not done.returncode:
            with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
                archive.extractall(files, filter="data")
            return files
        reasons.append(done.stderr.decode().strip())
    raise Failed("; ".join(reasons))


@contextlib.contextmanager
def changed(name, files):
    """A folder of a peer's files with the changes made, for its builds."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / name
        copy.mkdir()
        if files:
            shutil.copytree(files, copy, dirs_exist_ok=True)
        for path, before, after, count in SOURCES[name]["changes"]:
            text = (copy / path).read_text(encoding="utf-8-sig")
            if text.count(before) != count:
                raise Failed(f"{path} has {before!r} {text.count(before)} times, not {count}")
            (copy / path).write_text(text.replace(before, after), encoding="utf-8")
        yield copy
