"""One call for one array."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._corrust import (
    DROP,
    Autocorrelator,
    Beamformer,
    Channeliser,
    Correlator,
    DeviceArray,
    GridBeamformer,
    Kurtosis,
    Upchanneliser,
    observe_plan,
    raw_shape,
)
from ._results import Beams, Dump, Spectra, optional


def baseline(i: int, j: int) -> int:
    """Number of the baseline of inputs ``i`` and ``j <= i``.

    Examples
    --------
    >>> baseline(2, 1)
    4
    """
    if not 0 <= j <= i:
        raise ValueError(f"baseline of inputs {i} and {j}: expected 0 <= j <= i")
    return i * (i + 1) // 2 + j


def correlate(
    x: Any,
    *,
    encoding: str | None = None,
    layout: str | None = None,
    device: str = "auto",
    kernel: str = "auto",
    missing: Iterable[tuple[Any, ...]] | None = None,
    gates: Any = None,
    shifts: Sequence[int] | None = None,
    stream: Any = None,
    on_device: bool = False,
    out: Any = None,
    times: int | None = None,
) -> Any:
    """Visibilities of all pairs of inputs of one array.

    Parameters
    ----------
    x : array
        As of `Correlator.accumulate`: int8 ``[T, C, N, 2]`` in ``tcn``, ``[C, N, T, 2]`` in ``cnt``.
    encoding : {"ci8", "ci4", "ci4-offset", "cf16", "b1", "b2"}, optional
        By default int8 is ``ci8`` and float16 ``cf16``; uint8 needs to be told.
    layout, kernel, shifts
        As of `Correlator`.
    device : str
        As of `Correlator`; ``"auto"`` is the GPU that has the array, if one has.
    missing, stream, times
        As of `Correlator.accumulate`.
    gates : array of uint8, optional
        The gate of each time, or `DROP`: a list of dumps is returned then, one for each gate.
    on_device, out
        As ``device`` and ``out`` of `Correlator.dump`.

    Returns
    -------
    Dump, or list of Dump

    Examples
    --------
    >>> import numpy
    >>> x = numpy.zeros((5, 1, 2, 2), numpy.int8)
    >>> x[..., 0, 0] = 2; x[..., 1, 1] = 3              # 2 and 3j
    >>> correlate(x, device="cpu").visibilities[0, baseline(1, 0)]
    array([ 0, 30])
    """
    count = 1
    if gates is not None:
        numbers = np.asarray(gates)
        kept = numbers[numbers != DROP]
        count = int(kept.max()) + 1 if kept.size else 1
    with Correlator.of(
        x,
        encoding=encoding,
        layout=layout,
        device=device,
        kernel=kernel,
        missing=missing,
        gates=gates,
        gate_count=count,
        shifts=shifts,
        stream=stream,
        times=times,
    ) as plan:
        dumps = plan.dump(device=on_device, out=out, stream=stream)
        # A plan of one gate gives its dump alone.
        return [dumps] if gates is not None and isinstance(dumps, Dump) else dumps


def beamform(
    voltages: Any,
    weights: Any,
    shifts: Any = None,
    *,
    rounding: str = "nearest",
    incoherent: bool = False,
    device: str = "auto",
    kernel: str = "auto",
    missing: Iterable[tuple[Any, ...]] | None = None,
    stream: Any = None,
    on_device: bool = False,
    out: Any = None,
    output: str | None = None,
) -> Beams:
    """Beams of one array of voltages.

    Parameters
    ----------
    voltages : array
        ``E``, ``[T, F, P, D]``: uint8 of ``ci4``; int8 of ``ci8`` and float16 of ``cf16`` with a last axis of 2.
    weights : array
        ``A``, int8 ``[F, P, B, D, 2]`` or uint8 (``ci4``) ``[F, P, B, D]``; float16 ``[F, P, B, D, 2]`` for ``cf16``
        voltages.
    shifts : array of int, optional
        ``s``, ``[F, P, B]``, 0 to 31; 0 by default.
    rounding, incoherent, device, kernel, output
        As of `Beamformer`.
    missing, stream, out
        As of `Beamformer.beamform`, and ``on_device`` as its ``device``.

    Returns
    -------
    Beams

    Examples
    --------
    >>> import numpy
    >>> E = numpy.full((4, 1, 1, 3), 0x10, numpy.uint8)              # all 1
    >>> A = numpy.zeros((1, 1, 2, 3, 2), numpy.int8); A[..., 0] = 2  # two beams of weights 2
    >>> beamform(E, A, device="cpu").complex()[0, 0, 0]
    array([6.+0.j, 6.+0.j, 6.+0.j, 6.+0.j], dtype=complex64)
    """
    with Beamformer.of(
        voltages, weights, rounding=rounding, incoherent=incoherent, device=device, kernel=kernel, output=output
    ) as plan:
        if shifts is not None:
            plan.set_shifts(shifts)
        return plan.beamform(voltages, missing=missing, device=on_device, out=out, stream=stream)


def grid_beams(
    voltages: Any,
    rows: int,
    columns: int,
    places: Any = None,
    *,
    integrate: int = 1,
    encoding: str | None = None,
    half: bool = False,
    weights: Any = None,
    gain: float = 1.0,
    device: str = "auto",
    kernel: str = "auto",
    missing: Iterable[tuple[Any, ...]] | None = None,
    stream: Any = None,
) -> np.ndarray:
    """Powers of all beams of dishes on a grid, of one array of voltages.

    Parameters
    ----------
    voltages : array
        ``[T, F, P, D]``, as of `GridBeamformer.beamform`. Times that do not fill a last block are left out.
    rows, columns, places, integrate, half, weights, gain, device, kernel
        As of `GridBeamformer`.
    encoding : {"ci8", "ci4", "ci4-offset", "cf16"}, optional
        By default int8 is ``ci8`` and float16 ``cf16``; uint8 needs to be told.
    missing, stream
        As of `GridBeamformer.beamform`.

    Returns
    -------
    array
        ``[F, T', 2 columns, 2 rows]``.

    Examples
    --------
    >>> import numpy
    >>> x = numpy.full((4, 1, 1, 6), 0x10, numpy.uint8)              # all 1, of 2 x 3 dishes
    >>> float(grid_beams(x, 2, 3, integrate=4, encoding="ci4", device="cpu")[0, 0, 0, 0])
    144.0
    """
    _, channels, polarisations, *_ = voltages.shape
    if encoding is None:
        encoding = "cf16" if str(voltages.dtype).endswith("float16") else "ci8"
    with GridBeamformer(
        rows,
        columns,
        places,
        channels=channels,
        polarisations=polarisations,
        integrate=integrate,
        encoding=encoding,
        half=half,
        weights=weights,
        gain=gain,
        device=device,
        kernel=kernel,
    ) as plan:
        return plan.beamform(voltages, missing=missing, stream=stream)


def channelise(
    x: Any,
    channels: int,
    taps: int = 8,
    window: str | None = None,
    *,
    encoding: str | None = None,
    layout: str = "nt",
    output: str = "ci8",
    output_layout: str = "tcn",
    level: float | None = None,
    device: str = "auto",
    missing: Iterable[tuple[Any, ...]] | None = None,
    times: int | None = None,
    stream: Any = None,
    on_device: bool = False,
    **options: Any,
) -> Spectra:
    """Spectra of one array of raw voltages.

    Parameters
    ----------
    x : array
        As of `Channeliser.channelise`: ``[input, time]`` in ``nt``, ``[time, input]`` in ``tn``.
    channels, taps, window, layout, output, output_layout
        As of `Channeliser`.
    encoding : str, optional
        By default int8 is ``i8``, int16 ``i16``, float32 ``f32``; with a third axis of (re, im) ``ci8``, ``ci16``,
        ``cf32``; float16 with it ``cf16``, complex64 ``cf32``.
    level : float, optional
        The standard deviation that gains give the real and imaginary parts of each input and channel.
    device : str
        As of `Channeliser`; ``"auto"`` is the GPU that has the array, if one has.
    missing, times, stream
        As of `Channeliser.channelise`, and ``on_device`` as its ``device``.
    **options
        The others of `Channeliser`: ``hop``, ``inverted``, ``prototype``, ``gains``, ``delays``, ``rate``,
        ``sky_frequency``, ``start``, ``kernel``.

    Returns
    -------
    Spectra
        ``(T - K * taps) // hop + 1`` of them; on a GPU without those at the end that delays hold back, which are
        missing.

    Examples
    --------
    >>> import numpy
    >>> x = numpy.random.default_rng(1).normal(0, 20, (2, 4096)).round().astype(numpy.int8)
    >>> spectra = channelise(x, 64, device="cpu")
    >>> spectra.samples.shape                           # [spectrum][channel][input][re, im]
    (25, 64, 2, 2)
    >>> correlated = correlate(spectra.samples, missing=spectra.missing, device="cpu")
    """
    inputs, found, place = raw_shape(x, encoding, layout, device)
    with Channeliser(
        inputs,
        channels,
        taps,
        window,
        found,
        layout,
        output=output,
        output_layout=output_layout,
        device=place,
        **options,
    ) as plan:
        if level is not None:
            plan.level(x, level, missing=missing, times=times, stream=stream)
        spectra = plan.channelise(x, missing=missing, times=times, device=on_device, stream=stream)
        if isinstance(spectra.samples, DeviceArray):
            return spectra
        rest = plan.finish()
    if not rest.times:
        return spectra
    axis = 0 if output_layout == "tcn" else 2
    later = [(start + spectra.times, stop + spectra.times, *others) for start, stop, *others in rest.missing]
    return Spectra(
        spectra.first,
        np.concatenate([spectra.samples, rest.samples], axis=axis),
        spectra.missing + later,
        spectra.clipped + rest.clipped,
        output,
        output_layout,
    )


def upchannelise(
    x: Any,
    factor: int,
    taps: int = 4,
    *,
    missing: Iterable[tuple[Any, ...]] | None = None,
    **options: Any,
) -> Spectra:
    """Subchannels of the channels of one array of samples: a zoom into every channel.

    Parameters
    ----------
    x, missing
        As of `Upchanneliser.upchannelise`.
    factor, taps
        As of `Upchanneliser`.
    **options
        The others of `Upchanneliser`: ``encoding``, by default that of the array's type, ``layout``, ``output``,
        ``weights``, ``unit_noise``, ``gains``, ``device``, ``kernel``.

    Returns
    -------
    Spectra
        Samples for `Correlator.accumulate`, the same bits on every device.

    Examples
    --------
    >>> import numpy
    >>> n = numpy.arange(160)
    >>> tone = 100 * numpy.exp(2j * numpy.pi * n / 4)    # a quarter of a channel above its centre
    >>> x = numpy.stack([tone.real, tone.imag], -1).round().astype(numpy.int8).reshape(160, 1, 1, 2)
    >>> y = upchannelise(x, 2, device="cpu")
    >>> y.samples.shape, y.missing[0][:2]
    ((80, 2, 1, 2), (0, 3))
    >>> abs(y.complex()[10, :, 0]).round().tolist()
    [0.0, 100.0]
    """
    with Upchanneliser.of(x, factor, taps, **options) as plan:
        return plan.upchannelise(x, missing)


def kurtosis(
    x: Any,
    times: int = 256,
    encoding: str | None = None,
    layout: str = "tcn",
    device: str = "auto",
    missing: Iterable[tuple[Any, ...]] | None = None,
) -> npt.NDArray[np.int64]:
    """Sums of the spectral kurtosis of one array of samples, in blocks of times.

    Parameters
    ----------
    x, missing
        As of `Kurtosis.sums`.
    times, layout, device
        As of `Kurtosis`.
    encoding : {"ci8", "ci4", "ci4-offset"}, optional
        By default what the type of ``x`` implies; uint8 needs to be told.

    Returns
    -------
    numpy.ndarray
        int64 ``[block, C, N, 3]``: valid samples, sum of ``|x|^2``, sum of ``|x|^4``.

    Examples
    --------
    >>> import numpy
    >>> sums = kurtosis(numpy.ones((300, 1, 2, 2), numpy.int8), device="cpu")       # 1 + 1j
    >>> sums[:, 0, 0]
    array([[ 256,  512, 1024],
           [  44,   88,  176]])
    """
    with Kurtosis.of(x, times, encoding, layout, device) as plan:
        return plan.sums(x, missing)


def _counts(a: Any) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8] | None]:
    """Return a trace as bytes, which hold it exactly, NaN as 0; and 1 where it has counts, if some are NaN."""
    if np.ma.is_masked(a):
        raise ValueError("a is a masked array of which some counts are masked: expected a plain array of all counts")
    trace = np.asarray(a)
    if trace.ndim != 1:
        raise ValueError(f"a of {trace.ndim} axes: expected one, a trace of counts")
    if trace.dtype.kind not in "biuf":
        raise TypeError(f"a of {trace.dtype}: expected counts")
    if trace.dtype == np.uint8:
        return trace, None
    there = None
    if trace.dtype.kind == "f" and np.isnan(trace).any():
        there = np.isfinite(trace).astype(np.uint8)
        trace = np.where(np.isnan(trace), 0, trace)
        if not there.any():
            raise ValueError("a of NaN alone: expected counts")
    with np.errstate(invalid="ignore"):
        counts = trace.astype(np.uint8)
    wrong = np.flatnonzero(counts != trace)
    if wrong.size:
        raise ValueError(
            f"a has {trace[wrong[0]]} at index {wrong[0]}: expected counts, whole numbers from 0 to 255"
        )
    return counts, there


def autocorrelate(
    a: Any,
    m: int = 16,
    deltat: float = 1.0,
    normalize: bool = False,
    copy: bool = True,
    dtype: Any = None,
    compress: str = "average",
    ret_sum: bool = False,
    *,
    device: str = "auto",
) -> Any:
    """Autocorrelate a trace of counts at lags that grow by octaves, as ``multipletau.autocorrelate`` does.

    Signature and numbers match the package multipletau, to the rounding of its floats: here the sums are exact
    integers, divided at the end.

    Parameters
    ----------
    a : array, one axis
        Counts, whole numbers from 0 to 255 in an array of any real type, at least ``2 * m``. NaN leaves a count out: sums are
        over the ``count`` products that are left, and the mean over the counts that are left.
    m : int
        Points of the first octave; half as many in those after it. Even.
    deltat : float
        Distance of two counts in time.
    normalize : bool
        Divide fluctuations around the mean by the mean's square: 0 without correlation.
    copy : bool
        Has no effect: ``a`` is never changed.
    dtype : dtype, optional
        Type of the result; by default that of ``a``, or float64 if that is no float.
    compress : {"average", "first", "second"}
        How two bins become one: their mean is what there is here.
    ret_sum : bool
        Return the sums of products and how many there are, apart.
    device : str
        As of `Autocorrelator`.

    Returns
    -------
    autocorrelation : numpy.ndarray
        ``[N, 2]``: lag, and correlation.
    count : numpy.ndarray
        Number of products behind each; only if ``ret_sum``.

    Examples
    --------
    >>> import numpy
    >>> autocorrelate(range(42), m=2, dtype=numpy.float64)
    array([[0.00000e+00, 2.38210e+04],
           [1.00000e+00, 2.29600e+04],
           [2.00000e+00, 2.21000e+04],
           [4.00000e+00, 2.03775e+04],
           [8.00000e+00, 1.50612e+04]])
    """
    if normalize and ret_sum:
        raise ValueError("normalize and ret_sum are both True: expected at most one of them")
    if compress != "average":
        raise ValueError(f'compress={compress!r}: expected "average"')
    if not (deltat > 0 and np.isfinite(deltat)):
        raise ValueError(f"deltat={deltat}: expected the time between two counts, more than 0")
    if m % 2:
        even = (m // 2 + 1) * 2
        warnings.warn(f"m={m} is odd: {even} is taken", stacklevel=2)
        m = even
    trace, there = _counts(a)
    length = len(trace)
    if m < 2 or length < 2 * m:
        raise ValueError(f"m={m} of a trace of {length} counts: expected 2 to {length // 2}")
    octaves = int(np.floor(np.log2(length / m)))
    masked = there is not None
    # Counts beside what is there of them, and both of these both ways.
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)] if masked else None
    with Autocorrelator(
        1 + masked, groups=octaves + 1, lags=m, scheme="classic", pairs=pairs, device=device
    ) as plan:
        plan.accumulate(trace if there is None else np.stack([trace, there], axis=1))
        sums = plan.snapshot()

    # Products that there are: an octave of m/2 points ends where bins are fewer than lags.
    bins = length >> sums.groups.astype(np.int64)
    steps = sums.lags.astype(np.int64) >> sums.groups.astype(np.int64)
    counts = bins - steps
    points = len(counts)
    if (counts <= 0).any():
        # multipletau also leaves out the point before the first one without products.
        points = int(np.argmax(counts <= 0)) - 1
    kept = slice(points)
    # A bin is a mean of 2**k counts there, their sum here.
    scale = 4.0 ** sums.groups.astype(np.float64)[kept]
    products = sums.curve_products[0][kept].astype(np.float64) / scale
    bins, whole = bins[kept], counts[kept].astype(np.float64)
    if masked:
        by_mask = sums.curve_products[1:, kept].astype(np.float64) / scale
        edges, counts = by_mask[0] + by_mask[1], by_mask[2]
    else:
        edges = (sums.direct[0][kept] + sums.delayed[0][kept]).astype(np.float64) / np.sqrt(scale)
        counts = whole
    with np.errstate(divide="ignore", invalid="ignore"):
        if normalize:
            mean = trace.sum(dtype=np.float64) / (length if there is None else there.sum())
            if mean == 0:
                raise ValueError("a of zeros alone: expected counts to normalize by")
            products = (products - mean * edges + counts * mean**2) / (mean**2 * counts)
        elif not ret_sum:
            products *= length / bins * (whole / counts)
    kind = np.dtype(dtype) if dtype is not None else np.asarray(a).dtype
    result = np.stack([sums.lags[kept] * deltat, products], axis=1)
    result = result.astype(kind if kind.kind == "f" else np.float64)
    return (result, counts) if ret_sum else result


def progress_bar(**options: Any) -> Callable[[int, int], None]:
    """Make a bar for ``progress`` of `Recording.dumps`. Needs the package tqdm.

    Parameters
    ----------
    **options
        Arguments of ``tqdm.tqdm``.

    Returns
    -------
    callable
    """
    bar = optional("tqdm.auto").tqdm(**{"unit": "time", "unit_scale": True, **options})

    def tell(done: int, times: int) -> None:
        bar.total = times
        bar.update(done - bar.n)
        if done == times:
            bar.close()

    return tell


def observe(plan: Mapping[str, Any] | str | os.PathLike[str]) -> list[str]:
    """Make several products of one recording, which is read once: the command ``corrust observe``.

    Parameters
    ----------
    plan : dict or path
        Tables as in a plan's TOML file: ``"input"``, a dict, and lists of dicts ``"visibilities"``, ``"beams"``,
        ``"power"``, ``"spectra"``, ``"kurtosis"``; or the path of such a file.

    Returns
    -------
    list of str
        A sentence on each product.

    Examples
    --------
    >>> import corrust, numpy, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> numpy.save(f"{folder}/x.npy", numpy.ones((100, 4, 3, 2), numpy.int8))
    >>> corrust.observe({
    ...     "input": {"files": [f"{folder}/x.npy"], "device": "cpu"},
    ...     "visibilities": [{"output": f"{folder}/v.npy", "integrate": 50}],
    ... })[-1][:40]
    'observed 3 inputs x 4 channels x 100 tim'
    >>> numpy.load(f"{folder}/v.npy").shape
    (2, 4, 6, 2)
    """
    if not isinstance(plan, Mapping):
        return observe_plan(Path(plan).read_text(encoding="utf-8"))
    lines = []
    for name, tables in plan.items():
        one = isinstance(tables, Mapping)
        for table in [tables] if one else tables:
            lines.append(f"[{name}]" if one else f"[[{name}]]")
            lines.extend(f"{json.dumps(str(key))} = {_toml(value)}" for key, value in table.items())
    return observe_plan("\n".join(lines))


def _toml(value: Any) -> str:
    """Value of a plan as TOML."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{json.dumps(str(key))} = {_toml(inner)}" for key, inner in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(each) for each in value)}]"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json.dumps(os.fspath(value) if isinstance(value, os.PathLike) else str(value))
