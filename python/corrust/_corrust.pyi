from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, TypedDict, final, overload, type_check_only

import astropy.time
import numpy as np
import numpy.typing as npt
import xarray

from ._results import Beams, Block, Dump, Spectra, Sums, Uvh5

__all__ = [
    "__version__",
    "DROP",
    "Correlator",
    "Folding",
    "Beamformer",
    "GridBeamformer",
    "Autocorrelator",
    "Channeliser",
    "Upchanneliser",
    "Kurtosis",
    "Recording",
    "Blocks",
    "Dumps",
    "DeviceArray",
    "to_device",
    "devices",
    "open",
    "raw_shape",
    "pack",
    "planes",
    "seconds_in_rust",
    "write_uvh5",
    "read_uvh5",
    "run_command",
    "Photons",
    "open_photons",
    "lifetime_weights",
    "noise_shift",
    "WeightedAutocorrelator",
    "pair_correlation",
    "fit",
    "read_curves",
    "brightness_maps",
    "spatial_correlation",
    "fit_rics",
    "two_time",
    "weights",
    "kurtosis_flags",
    "reports",
    "observe_plan",
]

@type_check_only
class _Dlpack(Protocol):
    def __dlpack__(self, *, stream: int | None = None) -> object: ...

@type_check_only
class _Cuda(Protocol):
    @property
    def __cuda_array_interface__(self) -> Mapping[str, object]: ...

# NumPy's arrays and what becomes one, and those of other libraries in host memory or a GPU's.
_Array: TypeAlias = npt.ArrayLike | _Dlpack | _Cuda
_Out: TypeAlias = npt.NDArray[np.generic] | _Dlpack | _Cuda
_Floats: TypeAlias = npt.NDArray[np.float64]
_Counts: TypeAlias = npt.NDArray[np.uint64]
_Pair: TypeAlias = tuple[int, int]
# Times of all channels and inputs, or of some of them.
_Missing: TypeAlias = Iterable[_Pair | tuple[int, int, _Pair | None, _Pair | None]]
_Path: TypeAlias = str | PathLike[str]
_Moment: TypeAlias = str | astropy.time.Time
# Address of a CUDA stream, or an object of CuPy's, PyTorch's or of the ``__cuda_stream__`` protocol.
_Stream: TypeAlias = object

@type_check_only
class _Device(TypedDict, total=False):
    device: str
    name: str
    memory: int
    capability: tuple[int, int]
    multiprocessors: int

@type_check_only
class _Fitted(TypedDict):
    values: dict[str, float]
    uncertainties: dict[str, float]
    chi2: float
    degrees: int

@type_check_only
class _Curve(_Fitted):
    states: dict[str, str]
    names: list[str]
    reduced_chi2: float
    uncertainties_from: str | None
    warning: str | None
    tau: _Floats
    residuals: _Floats
    model: _Floats
    covariance: _Floats

@type_check_only
class _Rics(_Fitted):
    correlation: _Floats

# Delay of each input: seconds, or pieces of polynomials (start, end, coefficients).
_Delay: TypeAlias = float | Sequence[tuple[float, float, Sequence[float]]]
_Delays: TypeAlias = _Path | Sequence[_Delay] | Callable[[int, float], float | None]

__version__: Final[str]
DROP: Final[int]

@final
class Folding:
    def __new__(
        cls,
        bins: int,
        interval: float,
        *,
        period: float | None = None,
        polyco: _Path | None = None,
        start: _Moment | None = None,
        epoch: _Moment | None = None,
        dispersion: float | None = None,
        frequencies: Sequence[float] | None = None,
    ) -> Self: ...
    @property
    def bins(self) -> int: ...
    def numbers(self, first: int, times: int) -> npt.NDArray[np.uint8]: ...

@final
class Correlator:
    def __new__(
        cls,
        inputs: int,
        channels: int,
        encoding: str = "ci8",
        layout: str | None = None,
        device: str = "auto",
        kernel: str = "auto",
        gates: int = 1,
        shifts: Sequence[int] | None = None,
    ) -> Self: ...
    @staticmethod
    def of(
        x: _Array,
        *,
        encoding: str | None = None,
        layout: str | None = None,
        device: str = "auto",
        kernel: str = "auto",
        missing: _Missing | None = None,
        gates: _Array | Folding | None = None,
        gate_count: int = 1,
        shifts: Sequence[int] | None = None,
        stream: _Stream | None = None,
        times: int | None = None,
    ) -> Correlator: ...
    def accumulate(
        self,
        x: _Array,
        missing: _Missing | None = None,
        gates: _Array | Folding | None = None,
        stream: _Stream | None = None,
        times: int | None = None,
    ) -> None: ...
    def accumulate_packed(self, words: _Array, bits: int, times: int | None = None) -> None: ...
    # A list of dumps from a plan of several gates.
    def dump(self, device: bool = False, out: _Out | None = None, stream: _Stream | None = None) -> Any: ...
    def wait(self) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...
    @property
    def times(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def baselines(self) -> int: ...
    @property
    def encoding(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...

@final
class Beamformer:
    def __new__(
        cls,
        dishes: int,
        beams: int,
        channels: int = 1,
        polarisations: int = 1,
        weights: str | None = None,
        rounding: str = "nearest",
        incoherent: bool = False,
        device: str = "auto",
        kernel: str = "auto",
        encoding: str = "ci8",
        output: str | None = None,
    ) -> Self: ...
    @staticmethod
    def of(
        voltages: _Array,
        weights: _Array,
        *,
        rounding: str = "nearest",
        incoherent: bool = False,
        device: str = "auto",
        kernel: str = "auto",
        output: str | None = None,
    ) -> Beamformer: ...
    def set_weights(self, weights: _Array) -> None: ...
    def set_shifts(self, shifts: _Array) -> None: ...
    def beamform(
        self,
        voltages: _Array,
        missing: _Missing | None = None,
        device: bool = False,
        out: _Out | None = None,
        stream: _Stream | None = None,
    ) -> Beams: ...
    def wait(self) -> None: ...
    def close(self) -> None: ...
    @property
    def dishes(self) -> int: ...
    @property
    def beams(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def polarisations(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...

@final
class GridBeamformer:
    def __new__(
        cls,
        rows: int,
        columns: int,
        places: _Array | None = None,
        channels: int = 1,
        polarisations: int = 1,
        integrate: int = 1,
        encoding: str = "ci8",
        half: bool = False,
        weights: _Array | None = None,
        gain: float = 1.0,
        device: str = "auto",
        kernel: str = "auto",
    ) -> Self: ...
    def beamform(
        self, voltages: _Array, missing: _Missing | None = None, stream: _Stream | None = None
    ) -> np.ndarray: ...
    def finish(self) -> np.ndarray: ...
    def set_weights(self, weights: _Array) -> None: ...
    def close(self) -> None: ...
    @property
    def device(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...

@final
class Autocorrelator:
    def __new__(
        cls,
        sensors: int,
        groups: int = 10,
        lags: int = 32,
        scheme: str = "bin-groups",
        pairs: Sequence[tuple[int, int]] | None = None,
        device: str = "auto",
        kernel: str = "auto",
        dwell: float | None = None,
        masked: bool = False,
    ) -> Self: ...
    @staticmethod
    def load(
        path: _Path,
        device: str = "auto",
        kernel: str = "auto",
        dwell: float | None = None,
        masked: bool | None = None,
    ) -> Autocorrelator: ...
    def accumulate(
        self, counts: _Array, missing: _Missing | None = None, stream: _Stream | None = None
    ) -> None: ...
    def accumulate_times(self, times: Sequence[_Array], instants: int) -> None: ...
    @overload
    def snapshot(self, device: Literal[False] = False, stream: _Stream | None = None) -> Sums: ...
    @overload
    def snapshot(self, device: Literal[True], stream: _Stream | None = None) -> DeviceArray: ...
    def save(self, path: _Path) -> None: ...
    def wait(self) -> None: ...
    def close(self) -> None: ...
    @property
    def instants(self) -> int: ...
    @property
    def sensors(self) -> int: ...
    @property
    def groups(self) -> int: ...
    @property
    def lags(self) -> int: ...
    @property
    def scheme(self) -> str: ...
    @property
    def device(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...

@final
class WeightedAutocorrelator:
    def __new__(
        cls,
        sensors: int,
        groups: int = 10,
        lags: int = 32,
        scheme: str = "bin-groups",
        pairs: Sequence[tuple[int, int]] | None = None,
    ) -> Self: ...
    def accumulate(self, times: Sequence[_Array], weights: Sequence[_Array], instants: int) -> None: ...
    # Sums of float64.
    def snapshot(self) -> Sums: ...
    @property
    def instants(self) -> int: ...

@final
class Channeliser:
    def __new__(
        cls,
        inputs: int,
        channels: int,
        taps: int = 8,
        window: str | None = None,
        encoding: str = "i8",
        layout: str = "nt",
        *,
        hop: int | None = None,
        output: str = "ci8",
        output_layout: str = "tcn",
        inverted: bool = False,
        prototype: _Array | None = None,
        gains: _Array | None = None,
        delays: _Delays | None = None,
        rate: float | None = None,
        sky_frequency: float = 0.0,
        start: _Moment | None = None,
        device: str = "auto",
        kernel: str = "auto",
    ) -> Self: ...
    def channelise(
        self,
        x: _Array,
        missing: _Missing | None = None,
        times: int | None = None,
        device: bool = False,
        out: _Out | None = None,
        stream: _Stream | None = None,
    ) -> Spectra: ...
    def finish(self) -> Spectra: ...
    def upcoming(self, times: int) -> int: ...
    def set_gains(self, gains: _Array) -> None: ...
    def level(
        self,
        x: _Array | Recording,
        sigma: float,
        missing: _Missing | None = None,
        times: int | None = None,
        stream: _Stream | None = None,
    ) -> npt.NDArray[np.complex64]: ...
    def wait(self) -> None: ...
    def reset(self) -> None: ...
    def begin_at(self, spectrum: int) -> int: ...
    def close(self) -> None: ...
    @property
    def times(self) -> int: ...
    @property
    def spectra(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def taps(self) -> int: ...
    @property
    def hop(self) -> int: ...
    @property
    def encoding(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def output(self) -> str: ...
    @property
    def output_layout(self) -> str: ...
    @property
    def prototype(self) -> _Floats: ...
    @property
    def device(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...

@final
class Upchanneliser:
    def __new__(
        cls,
        inputs: int,
        channels: int,
        factor: int,
        taps: int = 4,
        *,
        encoding: str = "ci8",
        layout: str = "tcn",
        output: str = "ci8",
        weights: _Array | None = None,
        unit_noise: bool = False,
        gains: _Array | None = None,
        device: str = "auto",
        kernel: str = "auto",
    ) -> Self: ...
    @staticmethod
    def of(
        x: _Array,
        factor: int,
        taps: int = 4,
        *,
        encoding: str | None = None,
        layout: str = "tcn",
        output: str = "ci8",
        weights: _Array | None = None,
        unit_noise: bool = False,
        gains: _Array | None = None,
        device: str = "auto",
        kernel: str = "auto",
    ) -> Upchanneliser: ...
    def upchannelise(self, x: _Array, missing: _Missing | None = None) -> Spectra: ...
    def upcoming(self, times: int) -> int: ...
    def wait(self) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...
    @property
    def inputs(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def factor(self) -> int: ...
    @property
    def taps(self) -> int: ...
    @property
    def encoding(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def output(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...

@final
class Kurtosis:
    def __new__(
        cls, times: int = 256, encoding: str = "ci8", layout: str = "tcn", device: str = "auto"
    ) -> Self: ...
    @staticmethod
    def of(
        x: _Array, times: int = 256, encoding: str | None = None, layout: str = "tcn", device: str = "auto"
    ) -> Kurtosis: ...
    def sums(self, x: _Array, missing: _Missing | None = None) -> npt.NDArray[np.int64]: ...
    def close(self) -> None: ...
    @property
    def times(self) -> int: ...
    @property
    def encoding(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def device(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...

@final
class Recording:
    @property
    def kind(self) -> str: ...
    @property
    def times(self) -> int: ...
    @property
    def channels(self) -> int | None: ...
    @property
    def start(self) -> str | None: ...
    @property
    def start_time(self) -> astropy.time.Time | None: ...
    @property
    def facts(self) -> dict[str, str]: ...
    @property
    def inputs(self) -> int: ...
    @property
    def encoding(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def interval(self) -> float | None: ...
    @property
    def rate(self) -> float | None: ...
    @property
    def frequencies(self) -> list[float] | None: ...
    @property
    def gaps(self) -> list[tuple[int, int]]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def blocks(self, times: int | None = None, start: int = 0, stop: int | None = None) -> Blocks: ...
    # With gates the items are lists of dumps.
    def dumps(
        self,
        integrate: int | None = None,
        *,
        keep_partial: bool = False,
        device: str = "auto",
        kernel: str = "auto",
        gates: _Array | Folding | None = None,
        shifts: Sequence[int] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Dumps: ...
    def to_xarray(self, start: int = 0, stop: int | None = None) -> xarray.DataArray: ...
    def __iter__(self) -> Blocks: ...

@final
class Blocks(Iterator[Block]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> Block: ...

@final
class Dumps(Iterator[Any]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

@final
class DeviceArray:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    @property
    def device(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    def numpy(self) -> npt.NDArray[np.generic]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...  # a capsule, whose type Python 3.13 begins to have
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, object]: ...
    def __len__(self) -> int: ...

def to_device(array: _Array, device: str = "cuda") -> DeviceArray: ...
def devices() -> list[_Device]: ...
def observe_plan(plan: str) -> list[str]: ...
# Counts of counts, some of them nested.
def reports() -> dict[str, dict[str, Any]]: ...
def open(
    paths: _Path | Sequence[_Path],
    *,
    kind: str | None = None,
    encoding: str | None = None,
    layout: str | None = None,
    rate: float | None = None,
    inputs: int | None = None,
    bits: int | None = None,
    near: _Moment | None = None,
    keep_going: bool = False,
    long_gaps: bool = False,
) -> Recording: ...
def kurtosis_flags(
    sums: _Array,
    encoding: str = "ci8",
    false_alarm: float = ...,
    circularity: Sequence[float] = ...,
    full_range: bool = False,
) -> npt.NDArray[np.uint8]: ...
def pack(x: _Array, bits: int, layout: str = "tcn") -> npt.NDArray[np.uint32]: ...
def planes(x: _Array, bits: int, layout: str = "tcn") -> npt.NDArray[np.uint8]: ...
def seconds_in_rust(plan: Correlator, x: _Array, calls: int) -> list[float]: ...
@final
class Photons:
    @property
    def dwell(self) -> float: ...
    @property
    def instants(self) -> int: ...
    @property
    def sensors(self) -> int: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def microtime(self) -> float | None: ...
    @property
    def masked(self) -> bool: ...
    @property
    def late(self) -> int: ...
    # Instants, times of each sensor, and their microtimes if asked for.
    def read_times(
        self, instants: int | None = None, microtimes: bool = False
    ) -> tuple[int, list[npt.NDArray[np.uint32]], list[npt.NDArray[np.uint32]]] | None: ...
    def __iter__(self) -> Self: ...
    # uint16 or uint8 [instant, sensor].
    def __next__(self) -> npt.NDArray[np.uint16 | np.uint8]: ...

def open_photons(
    paths: _Path | Sequence[_Path],
    *,
    dwell: float = ...,
    channels: Sequence[int] | None = None,
    gates: Sequence[tuple[float, float]] | None = None,
    between_markers: tuple[int, int] | None = None,
    exclude: Sequence[tuple[float, float]] | None = None,
    bursts: tuple[float, float] | None = None,
    start: float | None = None,
    unit: float | None = None,
    spot: int | None = None,
    keep_going: bool = False,
) -> Photons: ...
def weights(
    array: _Path | Mapping[str, Any],
    *,
    pointings: Sequence[Sequence[float]] = ...,
    sources: Sequence[tuple[float, float]] = ...,
    at: _Moment | None = None,
    delayed: bool = False,
    channels: int | None = None,
    polarisations: int = 1,
) -> npt.NDArray[np.int8]: ...
def noise_shift(dishes: int) -> int: ...
def lifetime_weights(photons: _Array, patterns: _Array) -> _Floats: ...
def fit(
    tau: _Array,
    g: _Array,
    sigma: _Array | None = None,
    *,
    without: _Out | None = None,
    model: str = "3d",
    components: int = 1,
    triplet: bool = False,
    offset: bool = False,
    fix: Mapping[str, float] | None = None,
    start: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    range: tuple[float, float] | None = None,
) -> _Curve: ...
def read_curves(path: _Path) -> dict[str, tuple[_Floats, _Floats, _Floats | None]]: ...
def brightness_maps(
    stack: _Array, *, gain: float = 1.0, dark: float = 0.0, dark_variance: float = 0.0
) -> _Floats: ...
def spatial_correlation(stack: _Array, *, lags: tuple[int, int] = ..., window: int = 1) -> tuple[_Floats, _Floats]: ...
def fit_rics(
    stack: _Array,
    *,
    pixel: float,
    dwell: float,
    line: float,
    waist: float,
    kappa: float | None = ...,
    offset: bool = True,
    lags: tuple[int, int] = ...,
    window: int = 1,
) -> _Rics: ...
def pair_correlation(
    stack: _Array,
    distance: int,
    *,
    lines: bool = False,
    groups: int = 6,
    lags: int = 8,
    device: str = "auto",
) -> _Floats: ...
def two_time(stack: _Array, mask: _Array | None = None, *, device: str = "auto") -> _Floats: ...
def raw_shape(
    x: _Array, encoding: str | None = None, layout: str = "nt", device: str = "auto"
) -> tuple[int, str, str]: ...
def write_uvh5(
    path: _Path,
    dumps: Iterable[Dump],
    array: _Path | Mapping[str, object],
    *,
    phased: bool = False,
    gzip: int | None = None,
) -> None: ...
def read_uvh5(path: _Path) -> Uvh5: ...
def run_command(arguments: Sequence[str]) -> int: ...
