# Package for Spack: the Python package with the command corrust; CPU, and NVIDIA GPUs by the host's driver.
#
#     spack repo create corrust-repo && mkdir -p corrust-repo/packages/py_corrust
#     cp packaging/spack/package.py corrust-repo/packages/py_corrust/ && spack repo add corrust-repo
#     spack install --test=root py-corrust && spack test run py-corrust
#
# Compiled as Python only (scripts/lint); not installed yet: it takes a release from PyPI, whose checksum goes below.
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyCorrust(PythonPackage):
    """Correlators, beamformers, channelisers and autocorrelators for radio telescopes and correlation
    spectroscopy, whose GPU kernels are written in Rust. GPUs need the CUDA driver at run time only."""

    homepage = "https://github.com/corrust/corrust"
    pypi = "corrust/corrust-0.2.0.tar.gz"

    license("MIT OR Apache-2.0")

    # Checksum of no file: set at a release.
    version("0.2.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("py-maturin@1.9.4:1", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-numpy@1.23:", type=("build", "run"))

    @run_after("install")
    def install_pages(self):
        """Write manual pages and completions"""
        corrust = Executable(self.prefix.bin.corrust)
        corrust("-q", "man", self.prefix.share.man.man1)
        completions = self.prefix.share.join("bash-completion").completions
        mkdirp(completions)
        with open(completions.corrust, "w") as script:
            corrust("completions", "bash", output=script)

    def test_correlate(self):
        """Simulate a recording, correlate it"""
        corrust = which(self.prefix.bin.corrust, required=True)
        corrust("simulate", "-o", "rec.npy", "--inputs", "8", "--channels", "16", "--times", "1024")
        corrust("correlate", "rec.npy", "-o", "v.npy", "--device", "cpu")
