"""Results of plans."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    import astropy.time as _astropy
    import pandas as _pandas
    import xarray as _xarray

    from ._corrust import DeviceArray, Recording


def optional(name: str) -> Any:
    """Import a package that corrust does without, or say in one sentence that it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ModuleNotFoundError(f"needs the package {package}: pip install {package}", name=package) from error


def astropy_time(start: str) -> _astropy.Time:
    """Return a moment, UTC in ISO 8601, as astropy has it."""
    time: _astropy.Time = optional("astropy.time").Time(start.rstrip("Z"), format="isot", scale="utc", precision=9)
    return time


def utc(moment: Any) -> str:
    """Return an astropy Time as UTC in ISO 8601, to the nanosecond."""
    if not (hasattr(moment, "utc") and hasattr(moment, "to_value")):
        found = type(moment).__name__
        raise TypeError(f"a moment is {found}: expected UTC in ISO 8601, a str, or an astropy Time")
    moment = moment.utc.copy()
    moment.precision = 9
    return f"{moment.to_value('isot')}Z"


def _moments(start: str | None, interval: float | None, samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return when samples are: UTC as datetime64[ns], else seconds since the first one, else their numbers."""
    if interval is None:
        return samples
    seconds = samples * interval
    if start is None:
        return seconds
    since = np.round(seconds * 1e9).astype("timedelta64[ns]")
    return np.datetime64(start.rstrip("Z"), "ns") + since


def _host(array: Any) -> npt.NDArray[Any]:
    """Return an array in host memory: a copy of one on a GPU."""
    if isinstance(array, np.ndarray):
        return array
    for copy in ("numpy", "get"):  # corrust's and PyTorch's on the CPU; CuPy's
        if hasattr(array, copy):
            if hasattr(array, "cpu"):
                array = array.cpu()
            return np.asarray(getattr(array, copy)())
    return np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)


class Dump:
    """The visibilities of one integration, and the samples behind them.

    Attributes
    ----------
    visibilities : array
        int64 ``[channel, baseline, 2]``, the last axis real and imaginary part; float32 of ``cf16`` samples.
        Baseline ``baseline(i, j)`` is input ``i`` times the conjugate of input ``j <= i``. On a GPU a
        `DeviceArray`, or the array that was given as ``out``.
    times : int
        Times of the integration, valid or not; of a gated plan those of the gate.
    inputs : int
    start, missing : int
        First time sample of a dump in the recording, and number of its missing time samples.
    recording_start : str or None
        Time of the recording's first sample, UTC in ISO 8601, if it is known.
    interval : float or None
        Seconds from one time sample to the next, if they are known.
    frequencies : list of float or None
        Frequencies of the channels, hertz, if they are known.

    Examples
    --------
    >>> import corrust, numpy
    >>> dump = corrust.correlate(numpy.full((10, 1, 2, 2), 3, numpy.int8), device="cpu")
    >>> dump
    Dump(1 channel, 3 baselines, 10 times)
    >>> dump.matrix()[0].real
    array([[180., 180.],
           [180., 180.]])
    """

    __slots__ = (
        "_valid",
        "frequencies",
        "inputs",
        "interval",
        "missing",
        "recording_start",
        "start",
        "times",
        "visibilities",
    )

    def __init__(self, visibilities: Any, valid: int | npt.NDArray[np.uint64], times: int, inputs: int) -> None:
        self.visibilities = visibilities
        self._valid = valid
        self.times = times
        self.inputs = inputs
        self.start = 0
        self.missing = 0
        self.recording_start: str | None = None
        self.interval: float | None = None
        self.frequencies: Sequence[float] | None = None

    @property
    def counts(self) -> npt.NDArray[np.uint64]:
        """Valid samples behind each visibility: uint64 ``[channel, baseline]``."""
        channels, baselines = self.visibilities.shape[:2]
        valid = np.asarray(self._valid, np.uint64)
        return np.broadcast_to(valid, (channels, baselines))

    def complex(self) -> npt.NDArray[np.complex128]:
        """Visibilities as complex numbers: complex128 ``[channel, baseline]``, exact up to 2**53.

        Returns
        -------
        numpy.ndarray
        """
        sums = np.ascontiguousarray(_host(self.visibilities), np.float64)
        return sums.view(np.complex128)[..., 0]

    def matrix(self) -> npt.NDArray[np.complex128]:
        """All pairs of inputs: complex128 ``[channel, input, input]``, Hermitian.

        Returns
        -------
        numpy.ndarray
            Element ``[c, i, j]`` is input ``i`` times the conjugate of input ``j``.
        """
        sums = self.complex()
        i, j = np.tril_indices(self.inputs)
        matrix = np.empty((len(sums), self.inputs, self.inputs), np.complex128)
        matrix[:, j, i] = sums.conj()
        matrix[:, i, j] = sums
        return matrix

    def to_xarray(self, **coordinates: Any) -> _xarray.Dataset:
        """Label the dump: visibilities and counts, by channel and baseline.

        Parameters
        ----------
        **coordinates
            More coordinates, as ``xarray.Dataset`` takes them: ``frequency=("channel", hertz)``.

        Returns
        -------
        xarray.Dataset
            With coordinates ``input_1`` and ``input_2`` of each baseline; ``frequency`` of the channels in hertz, if it is
            known; and ``time``, the middle of the dump: UTC, or seconds since the recording's first sample where it has no
            start, or the number of a sample. ``xarray.concat(..., "time")`` joins dumps. Needs the package xarray.
        """
        i, j = np.tril_indices(self.inputs)
        axes = ("channel", "baseline")
        middle = np.asarray(self.start + self.times / 2)
        known: dict[str, Any] = {"input_1": ("baseline", i), "input_2": ("baseline", j)}
        known["time"] = ((), _moments(self.recording_start, self.interval, middle))
        if self.frequencies is not None:
            known["frequency"] = ("channel", self.frequencies, {"units": "Hz"})
        dataset: _xarray.Dataset = optional("xarray").Dataset(
            {"visibilities": (axes, self.complex()), "counts": (axes, self.counts)},
            coords={**known, **coordinates},
            attrs={"times": self.times} | ({"seconds": self.times * self.interval} if self.interval else {}),
        )
        return dataset

    def plot(self, channel: int = 0, axes: Any = None) -> Any:
        """Draw amplitude and phase of the matrix of a channel. Needs the package matplotlib.

        Parameters
        ----------
        channel : int
        axes : sequence of two matplotlib axes, optional

        Returns
        -------
        sequence of two matplotlib axes
        """
        if axes is None:
            pyplot = optional("matplotlib.pyplot")
            axes = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")[1]
        matrix = self.matrix()[channel]
        for axis, values, name, colours in [
            (axes[0], np.abs(matrix), "amplitude", "viridis"),
            (axes[1], np.angle(matrix), "phase (rad)", "twilight"),
        ]:
            axis.figure.colorbar(axis.imshow(values, cmap=colours), ax=axis)
            axis.set(title=f"{name}, channel {channel}", xlabel="input j", ylabel="input i")
        return axes

    def __repr__(self) -> str:
        def count(number: int, thing: str) -> str:
            return f"{number} {thing}{'' if number == 1 else 's'}"

        channels, baselines = self.visibilities.shape[:2]
        parts = [count(channels, "channel"), count(baselines, "baseline"), count(self.times, "time")]
        return f"Dump({', '.join(parts)})"


def _complex(samples: Any, encoding: str) -> npt.NDArray[np.complex64]:
    """Return samples as complex numbers: nibbles, or those with a last axis of (re, im)."""
    samples = _host(samples)
    if encoding in ("ci4", "ci4-offset"):
        nibbles = (samples ^ 0x88 if encoding == "ci4-offset" else samples).view(np.int8)
        parts = np.stack([nibbles >> 4, (nibbles << 4) >> 4], axis=-1)
        return _complex(parts, "ci8")
    return np.ascontiguousarray(samples, np.float32).view(np.complex64)[..., 0]


class Beams:
    """Beams of a block of voltages.

    Attributes
    ----------
    samples : array
        ``[beam, channel, polarisation, time]``: of ``ci4`` uint8, nibbles, real in the high one, each -7..7; of
        ``ci8``, ``cf16`` and ``cf32`` int8, float16 and float32, with a last axis of (re, im).
    clipped : array of uint64
        Samples that were clamped, ``[channel, polarisation, beam]``.
    incoherent : array of uint32 or None
        The incoherent beam, ``[channel, polarisation, time]``, of a plan that asked for it.
    """

    __slots__ = ("clipped", "incoherent", "samples")

    def __init__(self, samples: Any, clipped: Any, incoherent: npt.NDArray[np.uint32] | None) -> None:
        self.samples = samples
        self.clipped = clipped
        self.incoherent = incoherent

    def complex(self) -> npt.NDArray[np.complex64]:
        """Samples as complex numbers: complex64 ``[beam, channel, polarisation, time]``.

        Returns
        -------
        numpy.ndarray

        Examples
        --------
        >>> import corrust, numpy
        >>> corrust.Beams(numpy.array([0x2f], numpy.uint8), None, None).complex()
        array([2.-1.j], dtype=complex64)
        """
        samples = _host(self.samples)
        return _complex(samples, "ci4" if samples.dtype == np.uint8 else "ci8")

    def __repr__(self) -> str:
        beams, channels, polarisations, times = self.samples.shape[:4]
        return f"Beams({beams} beams, {channels} channels, {polarisations} polarisations, {times} times)"


@dataclass(frozen=True, repr=False)
class Sums:
    """All sums of a stream of counts.

    Attributes
    ----------
    instants : int
        Instants of the stream.
    lags, groups : array of uint64
        Lag in instants, and group, of each point of a curve.
    products : array of uint64
        ``A = sum Z Y`` over all complete bins, ``[row, point]``; a row is a sensor, or a pair of them.
    bins : array of uint64
        Bins of each point whose delayed bin begins at or after the first instant: a curve is made of these.
    curve_products, direct, delayed : array of uint64
        ``sum Z Y``, ``sum Z`` and ``sum Y`` over those bins, ``[row, point]``.
    """

    instants: int
    lags: npt.NDArray[np.uint64]
    groups: npt.NDArray[np.uint64]
    products: npt.NDArray[np.uint64]
    bins: npt.NDArray[np.uint64]
    curve_products: npt.NDArray[np.uint64]
    direct: npt.NDArray[np.uint64]
    delayed: npt.NDArray[np.uint64]

    def curve(
        self, row: int | None = None, dwell: float = 1.0
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Normalise symmetrically: ``g(tau) = A' M' / (sum' Z sum' Y)``.

        Parameters
        ----------
        row : int, optional
            By default the mean of the curves of all rows.
        dwell : float
            Seconds of an instant.

        Returns
        -------
        tau, g : numpy.ndarray
            Lags in seconds, and ``g``, which is 1 without correlation; points that the stream is too short for, or
            without counts, are left out.
        """
        if not (dwell > 0 and np.isfinite(dwell)):
            raise ValueError(f"dwell={dwell}: expected seconds, more than 0")
        direct, delayed = self.direct.astype(np.float64), self.delayed.astype(np.float64)
        there = (direct > 0) & (delayed > 0)
        g = np.full(direct.shape, np.nan)
        np.divide(self.curve_products * self.bins.astype(np.float64), direct, out=g, where=there)
        np.divide(g, delayed, out=g, where=there)
        if row is None:
            rows = there.sum(axis=0)
            kept = rows > 0
            values = np.where(there, g, 0.0).sum(axis=0)[kept] / rows[kept]
        else:
            kept = there[row]
            values = g[row][kept]
        return self.lags[kept] * dwell, values

    def to_pandas(self, dwell: float = 1.0, names: Sequence[str] | None = None) -> _pandas.DataFrame:
        """Curves of all rows as a table. Needs the package pandas.

        Parameters
        ----------
        dwell : float
            Seconds of an instant: ``Photons.dwell``.
        names : sequence of str, optional
            Name of each row, as ``Photons.names`` are; by default their numbers.

        Returns
        -------
        pandas.DataFrame
            ``g``, a column for each row, over lags in seconds, the index ``tau``; NaN where ``curve`` leaves a point out.
        """
        frame = optional("pandas").DataFrame
        rows = range(len(self.products))
        if names is not None and len(names) != len(rows):
            raise ValueError(f"{len(names)} names: expected {len(rows)}, one for each row")
        table: _pandas.DataFrame = frame(index=optional("pandas").Index(self.lags * dwell, name="tau"))
        for row in rows:
            tau, g = self.curve(row, dwell)
            table[row if names is None else names[row]] = frame({"g": g}, index=tau)["g"]
        return table

    def plot(self, row: int | None = None, dwell: float = 1.0, axis: Any = None) -> Any:
        """Draw a curve over the logarithm of the lag. Needs the package matplotlib.

        Returns
        -------
        matplotlib axis
        """
        if axis is None:
            pyplot = optional("matplotlib.pyplot")
            axis = pyplot.subplots(layout="constrained")[1]
        tau, g = self.curve(row, dwell)
        axis.semilogx(tau[tau > 0], g[tau > 0], ".-")
        axis.set(xlabel="lag (s)", ylabel="g")
        return axis

    def __repr__(self) -> str:
        rows, points = self.products.shape
        return f"Sums({self.instants} instants, {rows} rows, {points} points)"


def _without(ends: Sequence[Sums], row: int | None) -> npt.NDArray[np.float64]:
    """Curves of the last sums without each block, [block, point]; NaN where the block has no bin of the lag, or no value."""
    last = ends[-1]
    names = ("curve_products", "direct", "delayed")
    rows = slice(None) if row is None else [row]
    starts = [None, *ends[:-1]]
    curves = []
    for start, end in zip(starts, ends, strict=True):
        bins = last.bins - (end.bins - (start.bins if start is not None else 0))
        own = bins < last.bins
        products, direct, delayed = (
            (getattr(last, name) - getattr(end, name))[rows].astype(np.float64)
            + (getattr(start, name)[rows] if start is not None else 0)
            for name in names
        )
        there = (direct > 0) & (delayed > 0) & own
        g = np.full(direct.shape, np.nan)
        np.divide(products * bins.astype(np.float64), direct, out=g, where=there)
        np.divide(g, delayed, out=g, where=there)
        counted = there.sum(axis=0)
        mean = np.where(there, g, 0.0).sum(axis=0) / np.maximum(counted, 1)
        curves.append(np.where(counted > 0, mean, np.nan))
    return np.array(curves)


def curves_without(ends: Sequence[Sums], row: int | None = None) -> npt.NDArray[np.float64]:
    """Compute a curve without one block of the stream after the other, for the uncertainties of `fit`.

    Parameters
    ----------
    ends : sequence of Sums
        Sums at the end of each block: snapshots of one stream, equally long.
    row : int, optional
        By default the mean of the curves of all rows.

    Returns
    -------
    numpy.ndarray
        ``g`` of the whole stream without a block, ``[block, point]``, at the points of ``Sums.curve``.
    """
    last = ends[-1]
    values = _without(ends, row)
    # A block without a bin of this lag takes nothing from the whole curve.
    starts = [None, *ends[:-1]]
    absent = np.array([end.bins == (0 if start is None else start.bins) for start, end in zip(starts, ends, strict=True)])
    tau, g = last.curve(row)
    there = np.isin(last.lags, tau)
    return np.where(absent[:, there], g, values[:, there])


def standard_error(ends: Sequence[Sums], row: int | None = None) -> npt.NDArray[np.float64]:
    """Find how well a curve is known, from blocks of the stream.

    Leaving out one block after the other gives as many curves (the jackknife). Blocks are to be equally long, longer
    than what is correlated and not much shorter than the lag.

    Parameters
    ----------
    ends : sequence of Sums
        Sums at the end of each block: snapshots of one stream.
    row : int, optional
        By default the mean of the curves of all rows.

    Returns
    -------
    numpy.ndarray
        The standard error of ``g`` at each of ``Sums.lags``; NaN where fewer than two blocks have the lag. Those of the
        points that ``Sums.curve`` leaves out are NaN.
    """
    values = _without(ends, row)
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = np.where(known, values - mean, 0.0) ** 2
    error = np.sqrt(squares.sum(axis=0) * (count - 1) / np.maximum(count, 1))
    return np.where(count >= 2, error, np.nan)


@dataclass(frozen=True, repr=False)
class Spectra:
    """Spectra that a block of raw samples completed.

    Attributes
    ----------
    first : int
        Number of the first of them, counted from the stream's start.
    samples : array
        ``[spectrum, channel, input]`` (``tcn``) or ``[channel, input, spectrum]`` (``cnt``): int8 of ``ci8``, float16
        of ``cf16``, float32 of ``cf32`` with an axis of (re, im) at the end; uint8 of ``ci4`` and ``ci4-offset``. On a
        GPU a `DeviceArray`, or the array that was given as ``out``.
    missing : list of tuple
        Spectra of inputs that are zero because a raw sample is missing, counted from the first of these: what
        `Correlator.accumulate` takes.
    clipped : array of uint64
        Samples of each input of which at least one part was clamped.
    encoding, layout : str
        Layout of the samples.
    """

    first: int
    samples: Any
    missing: list[tuple[Any, ...]]
    clipped: Any
    encoding: str
    layout: str

    @property
    def times(self) -> int:
        """Number of spectra."""
        return int(self.samples.shape[0 if self.layout == "tcn" else 2])

    def complex(self) -> npt.NDArray[np.complex64]:
        """Samples as complex numbers: complex64, in the axes of ``layout``.

        Returns
        -------
        numpy.ndarray
        """
        return _complex(self.samples, self.encoding)

    def __repr__(self) -> str:
        return (
            f"Spectra(first={self.first}, samples={tuple(self.samples.shape)}, {self.encoding}, {self.layout}, "
            f"missing={self.missing})"
        )


@dataclass(frozen=True, repr=False)
class Uvh5:
    """Content of a UVH5 file.

    Attributes
    ----------
    visibilities : numpy.ndarray
        complex128 ``[dump, baseline, channel, polarisation]``.
    times : numpy.ndarray
        Centres of the dumps, Julian dates in UTC.
    frequencies : numpy.ndarray
        Frequencies of the channels, hertz.
    pairs : numpy.ndarray
        Numbers of ``ant_1`` and ``ant_2`` of each baseline, int64 ``[baseline, 2]``.
    polarisations : numpy.ndarray
        By number, int64: -1 to -4 RR, LL, RL, LR; -5 to -8 XX, YY, XY, YX.
    """

    visibilities: npt.NDArray[np.complex128]
    times: npt.NDArray[np.float64]
    frequencies: npt.NDArray[np.float64]
    pairs: npt.NDArray[np.int64]
    polarisations: npt.NDArray[np.int64]

    def to_xarray(self) -> _xarray.DataArray:
        """Label the visibilities.

        Returns
        -------
        xarray.DataArray
            With axes ``time``, ``baseline``, ``channel`` and ``polarisation``, and coordinates ``time`` in UTC, to the 40 us of
            Julian dates, ``frequency`` in hertz, and numbers ``ant_1`` and ``ant_2`` of each baseline. Needs the package
            xarray.
        """
        days = (self.times - 2_440_587.5) * 86_400e6
        labelled: _xarray.DataArray = optional("xarray").DataArray(
            self.visibilities,
            dims=("time", "baseline", "channel", "polarisation"),
            coords={
                "time": np.round(days).astype("datetime64[us]").astype("datetime64[ns]"),
                "frequency": ("channel", self.frequencies, {"units": "Hz"}),
                "ant_1": ("baseline", self.pairs[:, 0]),
                "ant_2": ("baseline", self.pairs[:, 1]),
                "polarisation": self.polarisations,
            },
            name="visibilities",
        )
        return labelled

    def __repr__(self) -> str:
        dumps, baselines, channels, polarisations = self.visibilities.shape
        return f"Uvh5({dumps} dumps, {baselines} baselines, {channels} channels, {polarisations} polarisations)"


@dataclass(frozen=True, repr=False)
class Block:
    """Consecutive times of a recording.

    Attributes
    ----------
    start : int
        Its first time.
    samples : numpy.ndarray
        In the recording's encoding and layout. Missing ones of channels are zero, raw ones anything.
    missing : list of tuple
        Missing ranges, counted from the block's first time, as ``Correlator.accumulate`` and
        ``Channeliser.channelise`` take them.
    times : int
        Number of time samples: raw samples of less than a byte may fill the last byte in part.
    """

    start: int
    samples: npt.NDArray[Any]
    missing: list[tuple[Any, ...]]
    times: int

    def __repr__(self) -> str:
        return f"Block(start={self.start}, samples={self.samples.shape}, missing={self.missing})"


def recording_to_xarray(recording: Recording, start: int, stop: int | None) -> _xarray.DataArray:
    """Samples of a recording, labelled: what ``Recording.to_xarray`` returns."""
    labels = optional("xarray")
    encoding, layout = recording.encoding, recording.layout
    if encoding.startswith("vdif") or encoding in ("b1", "b2"):
        raise ValueError(f"samples of {encoding}: expected those of whole bytes, other than VDIF's codes")
    names = {"t": "time", "c": "channel", "n": "input"}
    axes = [names[letter] for letter in layout]
    along = axes.index("time")
    blocks = []
    for block in recording.blocks(start=start, stop=stop):
        real = encoding in ("i8", "i16", "f32")
        samples: npt.NDArray[Any] = block.samples.astype(np.float32) if real else _complex(block.samples, encoding)
        for first, end, *others in block.missing:
            ranges = [others[0], others[1]] if others else [None, None]
            where = {"time": slice(first, end)}
            where |= {
                axis: slice(None) if pair is None else slice(*pair)
                for axis, pair in zip(("channel", "input"), ranges, strict=True)
            }
            samples[tuple(where[axis] for axis in axes)] = np.nan
        blocks.append(samples)
    if not blocks:
        raise ValueError(f"times {start} to {stop}: expected at least one of {recording.times}")
    values = np.concatenate(blocks, axis=along)
    numbers = start + np.arange(values.shape[along])
    coordinates: dict[str, Any] = {"time": _moments(recording.start, recording.interval, numbers)}
    if recording.frequencies is not None:
        coordinates["frequency"] = ("channel", recording.frequencies, {"units": "Hz"})
    labelled: _xarray.DataArray = labels.DataArray(values, dims=axes, coords=coordinates, name="samples")
    return labelled
