from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, final

import numpy as np

from ._results import Beams, Block, Dump, Spectra, Uvh5

__all__ = [
    "__version__",
    "DROP",
    "Correlator",
    "Folding",
    "Beamformer",
    "GridBeamformer",
    "Autocorrelator",
    "Channeliser",
    "Recording",
    "Blocks",
    "Dumps",
    "DeviceArray",
    "to_device",
    "upchannelise",
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
    "WeightedAutocorrelator",
    "pair_correlation",
    "fit",
    "read_curves",
    "brightness_maps",
    "spatial_correlation",
    "fit_rics",
    "two_time",
    "kurtosis",
    "kurtosis_flags",
    "reports",
    "observe_plan",
]

# Delay of each input: seconds, or pieces of polynomials (start, end, coefficients).
_Delay: TypeAlias = float | Sequence[tuple[float, float, Sequence[float]]]
_Delays: TypeAlias = str | PathLike[str] | Sequence[_Delay] | Callable[[int, float], float | None]

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
        polyco: str | PathLike[str] | None = None,
        start: str | None = None,
        epoch: str | None = None,
        dispersion: float | None = None,
        frequencies: Sequence[float] | None = None,
    ) -> Self: ...
    @property
    def bins(self) -> int: ...
    def numbers(self, first: int, times: int) -> Any: ...

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
        x: Any,
        *,
        encoding: str | None = None,
        layout: str | None = None,
        device: str = "auto",
        kernel: str = "auto",
        missing: Iterable[tuple[Any, ...]] | None = None,
        gates: Any = None,
        gate_count: int = 1,
        shifts: Sequence[int] | None = None,
        stream: Any = None,
        times: int | None = None,
    ) -> Correlator: ...
    def accumulate(
        self,
        x: Any,
        missing: Iterable[tuple[Any, ...]] | None = None,
        gates: Any = None,
        stream: Any = None,
        times: int | None = None,
    ) -> None: ...
    def accumulate_packed(self, words: Any, bits: int, times: int | None = None) -> None: ...
    # A list of dumps from a plan of several gates.
    def dump(self, device: bool = False, out: Any = None, stream: Any = None) -> Any: ...
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
        encoding: str = "ci4",
        output: str = "ci4",
    ) -> Self: ...
    @staticmethod
    def of(
        voltages: Any,
        weights: Any,
        *,
        rounding: str = "nearest",
        incoherent: bool = False,
        device: str = "auto",
        kernel: str = "auto",
        output: str = "ci4",
    ) -> Beamformer: ...
    def set_weights(self, weights: Any) -> None: ...
    def set_shifts(self, shifts: Any) -> None: ...
    def beamform(
        self,
        voltages: Any,
        missing: Iterable[tuple[Any, ...]] | None = None,
        device: bool = False,
        out: Any = None,
        stream: Any = None,
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
        places: Any = None,
        channels: int = 1,
        polarisations: int = 1,
        integrate: int = 1,
        encoding: str = "ci4",
        half: bool = False,
        weights: Any = None,
        gain: float = 1.0,
        device: str = "auto",
        kernel: str = "auto",
    ) -> Self: ...
    def beamform(
        self, voltages: Any, missing: Iterable[tuple[Any, ...]] | None = None, stream: Any = None
    ) -> np.ndarray: ...
    def finish(self) -> np.ndarray: ...
    def set_weights(self, weights: Any) -> None: ...
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
    ) -> Self: ...
    @staticmethod
    def load(path: str | PathLike[str], device: str = "auto", kernel: str = "auto") -> Autocorrelator: ...
    def accumulate(
        self, counts: Any, missing: Iterable[tuple[Any, ...]] | None = None, stream: Any = None
    ) -> None: ...
    def accumulate_times(self, times: Sequence[Any], instants: int) -> None: ...
    # Sums, or with device=True a DeviceArray.
    def snapshot(self, device: bool = False, stream: Any = None) -> Any: ...
    def save(self, path: str | PathLike[str]) -> None: ...
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
    def accumulate(self, times: Sequence[Any], weights: Sequence[Any], instants: int) -> None: ...
    # Sums of float64.
    def snapshot(self) -> Any: ...
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
        prototype: Any = None,
        gains: Any = None,
        delays: _Delays | None = None,
        rate: float | None = None,
        sky_frequency: float = 0.0,
        start: str | None = None,
        device: str = "auto",
        kernel: str = "auto",
    ) -> Self: ...
    def channelise(
        self,
        x: Any,
        missing: Iterable[tuple[Any, ...]] | None = None,
        times: int | None = None,
        device: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Spectra: ...
    def finish(self) -> Spectra: ...
    def upcoming(self, times: int) -> int: ...
    def set_gains(self, gains: Any) -> None: ...
    def level(
        self,
        x: Any,
        sigma: float,
        missing: Iterable[tuple[Any, ...]] | None = None,
        times: int | None = None,
        stream: Any = None,
    ) -> np.ndarray[Any, np.dtype[np.complex64]]: ...
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
    def prototype(self) -> np.ndarray[Any, np.dtype[np.float64]]: ...
    @property
    def device(self) -> str: ...
    @property
    def kernel(self) -> str: ...
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
        device: str = "auto",
        kernel: str = "auto",
        gates: Any = None,
        shifts: Sequence[int] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Dumps: ...
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
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def device(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...

def to_device(array: Any, device: str = "cuda") -> DeviceArray: ...
def devices() -> list[dict[str, Any]]: ...
def observe_plan(plan: str) -> list[str]: ...
def reports() -> dict[str, dict[str, Any]]: ...
def open(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    kind: str | None = None,
    encoding: str | None = None,
    layout: str | None = None,
    rate: float | None = None,
    inputs: int | None = None,
    bits: int | None = None,
    near: str | None = None,
    keep_going: bool = False,
    long_gaps: bool = False,
) -> Recording: ...
def upchannelise(
    x: Any,
    factor: int,
    taps: int = 4,
    *,
    encoding: str | None = None,
    layout: str = "tcn",
    output: str = "ci8",
    weights: Any = None,
    unit_noise: bool = False,
    gains: Any = None,
    device: str = "auto",
    missing: Any = None,
) -> Spectra: ...
def kurtosis(
    x: Any,
    times: int = 256,
    encoding: str | None = None,
    layout: str = "tcn",
    device: str = "auto",
    missing: Any = None,
) -> Any: ...
def kurtosis_flags(
    sums: Any,
    encoding: str = "ci8",
    false_alarm: float = ...,
    circularity: Sequence[float] = ...,
    full_range: bool = False,
) -> Any: ...
def pack(x: Any, bits: int, layout: str = "tcn") -> Any: ...
def planes(x: Any, bits: int, layout: str = "tcn") -> Any: ...
def seconds_in_rust(plan: Correlator, x: Any, calls: int) -> list[float]: ...
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
    ) -> tuple[int, list[Any], list[Any]] | None: ...
    def __iter__(self) -> Self: ...
    # uint16 or uint8 [instant, sensor].
    def __next__(self) -> Any: ...

def open_photons(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
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
def lifetime_weights(photons: Any, patterns: Any) -> Any: ...
def fit(
    tau: Any,
    g: Any,
    sigma: Any = None,
    *,
    without: Any = None,
    model: str = "3d",
    components: int = 1,
    triplet: bool = False,
    offset: bool = False,
    fix: Mapping[str, float] | None = None,
    start: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    range: tuple[float, float] | None = None,
) -> dict[str, Any]: ...
def read_curves(path: str | PathLike[str]) -> dict[str, tuple[Any, Any, Any]]: ...
def brightness_maps(
    stack: Any, *, gain: float = 1.0, dark: float = 0.0, dark_variance: float = 0.0
) -> Any: ...
def spatial_correlation(stack: Any, *, lags: tuple[int, int] = ..., window: int = 1) -> tuple[Any, Any]: ...
def fit_rics(
    stack: Any,
    *,
    pixel: float,
    dwell: float,
    line: float,
    waist: float,
    kappa: float | None = ...,
    offset: bool = True,
    lags: tuple[int, int] = ...,
    window: int = 1,
) -> dict[str, Any]: ...
def pair_correlation(
    stack: Any,
    distance: int,
    *,
    lines: bool = False,
    groups: int = 6,
    lags: int = 8,
    device: str = "auto",
) -> Any: ...
def two_time(stack: Any, mask: Any = None, *, device: str = "auto") -> Any: ...
def raw_shape(
    x: Any, encoding: str | None = None, layout: str = "nt", device: str = "auto"
) -> tuple[int, str, str]: ...
def write_uvh5(
    path: str | PathLike[str],
    dumps: Iterable[Dump],
    array: str | PathLike[str] | Mapping[str, Any],
    *,
    phased: bool = False,
) -> None: ...
def read_uvh5(path: str | PathLike[str]) -> Uvh5: ...
def run_command(arguments: Sequence[str]) -> int: ...
