"""Correlators, beamformers and autocorrelators whose GPU kernels are written in Rust.

A plan is built once for a shape and a device, then fed arrays of any length: `Correlator`, `Beamformer`,
`Autocorrelator`. For one array there is one call: `correlate`, `beamform`, `autocorrelate`. Recordings are
`open`-ed. Integer samples give the same bits on every device.

Arrays are NumPy's, or those of any library that speaks DLPack or ``__cuda_array_interface__`` (CuPy, PyTorch,
JAX): what is on the plan's GPU is read where it lies, in the order of the caller's stream.

Examples
--------
>>> import corrust, numpy
>>> x = numpy.ones((100, 4, 3, 2), numpy.int8)       # [time][channel][input][re, im]
>>> dump = corrust.correlate(x, device="cpu")
>>> dump.visibilities.shape                          # [channel][baseline][re, im]
(4, 6, 2)
>>> dump.matrix()[0, 2, 1]
np.complex128(200+0j)
"""

from ._calls import autocorrelate, baseline, beamform, correlate, progress_bar
from ._corrust import (
    DROP,
    Autocorrelator,
    Beamformer,
    Correlator,
    DeviceArray,
    Recording,
    __version__,
    devices,
    open,
    to_device,
)
from ._results import Beams, Block, Dump, Sums

__all__ = [
    "DROP",
    "Autocorrelator",
    "Beamformer",
    "Beams",
    "Block",
    "Correlator",
    "DeviceArray",
    "Dump",
    "Recording",
    "Sums",
    "__version__",
    "autocorrelate",
    "baseline",
    "beamform",
    "correlate",
    "devices",
    "open",
    "progress_bar",
    "to_device",
]
