"""Correlators, beamformers, F-engines and autocorrelators whose GPU kernels are written in Rust.

A plan is built once for a shape and a device, then fed arrays of any length: `Channeliser`, `Correlator`,
`Beamformer`, `Autocorrelator`. For one array there is one call: `channelise`, `correlate`, `beamform`,
`autocorrelate`. Recordings are `open`-ed, UVH5 files written (`write_uvh5`) and read. Every device gives the same
bits of channels, and of integer samples.

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

from ._bridges import calibrated_weights, uvdata
from ._calls import (
    autocorrelate,
    baseline,
    beamform,
    channelise,
    correlate,
    grid_beams,
    kurtosis,
    observe,
    progress_bar,
    upchannelise,
)
from ._corrust import (
    DROP,
    Autocorrelator,
    Beamformer,
    Channeliser,
    Correlator,
    DeviceArray,
    Folding,
    GridBeamformer,
    Kurtosis,
    Photons,
    Recording,
    Upchanneliser,
    WeightedAutocorrelator,
    __version__,
    brightness_maps,
    devices,
    fit,
    fit_rics,
    kurtosis_flags,
    lifetime_weights,
    noise_shift,
    open,
    open_photons,
    pack,
    pair_correlation,
    planes,
    read_curves,
    read_uvh5,
    reports,
    spatial_correlation,
    to_device,
    two_time,
    weights,
    write_uvh5,
)
from ._results import Beams, Block, Dump, Spectra, Sums, Uvh5, curves_without, standard_error

__all__ = [
    "DROP",
    "Autocorrelator",
    "Beamformer",
    "Beams",
    "Block",
    "Channeliser",
    "Correlator",
    "DeviceArray",
    "Dump",
    "Folding",
    "GridBeamformer",
    "Kurtosis",
    "Photons",
    "Recording",
    "Spectra",
    "Sums",
    "Upchanneliser",
    "Uvh5",
    "WeightedAutocorrelator",
    "__version__",
    "autocorrelate",
    "baseline",
    "beamform",
    "brightness_maps",
    "calibrated_weights",
    "channelise",
    "correlate",
    "curves_without",
    "devices",
    "fit",
    "fit_rics",
    "grid_beams",
    "kurtosis",
    "kurtosis_flags",
    "lifetime_weights",
    "noise_shift",
    "observe",
    "open",
    "open_photons",
    "pack",
    "pair_correlation",
    "planes",
    "progress_bar",
    "read_curves",
    "read_uvh5",
    "reports",
    "spatial_correlation",
    "standard_error",
    "to_device",
    "two_time",
    "upchannelise",
    "uvdata",
    "weights",
    "write_uvh5",
]
