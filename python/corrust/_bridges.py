"""Bridges to pyuvdata."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._corrust import write_uvh5
from ._results import Dump, optional

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyuvdata import UVCal as _UVCal
    from pyuvdata import UVData as _UVData

# Numbers of feeds in ``UVCal.jones_array``.
_JONES = {"x": -5, "y": -6, "r": -1, "l": -2}


def uvdata(
    dumps: Iterable[Dump], array: str | os.PathLike[str] | Mapping[str, object], *, phased: bool = False
) -> _UVData:
    """Visibilities as pyuvdata has them, which writes Measurement Sets and other files. Needs the package pyuvdata.

    Parameters
    ----------
    dumps, array, phased
        As of `write_uvh5`.

    Returns
    -------
    pyuvdata.UVData
        Object that pyuvdata reads from the file of `write_uvh5`, and checks.
    """
    reader = optional("pyuvdata").UVData
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dumps.uvh5"
        write_uvh5(path, dumps, array, phased=phased)
        data: _UVData = reader.from_file(path)
    data.filename = None
    return data


def calibrated_weights(
    weights: Any,
    calibration: str | os.PathLike[str] | _UVCal,
    *,
    antennas: Sequence[int] | None = None,
    feeds: str | None = None,
    time: int = 0,
) -> npt.NDArray[Any]:
    """Weights of beams that undo the gains of dishes.

    Gains ``g`` of pyuvdata belong to its visibilities, ``V(1, 2) = g_1 conj(g_2)`` times the true ones, where the
    voltages of antenna 1 are conjugated: ``g`` is the conjugate of the gain of voltages. Weights, which multiply
    voltages, are multiplied by ``1 / conj(g)``; by ``conj(g)`` where ``gain_convention`` is ``"multiply"``. Dishes with
    flagged gains, or gains of 0, have weights of 0.

    Parameters
    ----------
    weights : array
        As of `Beamformer.set_weights`: int8 or float16 ``[F, P, B, D, 2]``; what ``corrust weights`` writes.
    calibration : path or pyuvdata.UVCal
        CalH5 file, or another that pyuvdata reads: gains of ``F`` channels.
    antennas : sequence of int, optional
        Number of the antenna of each dish, as the array file has them; by default 0 to D - 1.
    feeds : str, optional
        Feed of each polarisation, as ``"xy"`` or ``"rl"``; by default the first ``P`` of ``"xy"``, or of ``"rl"`` where
        gains are of circular feeds.
    time : int
        Which of the calibration's times.

    Returns
    -------
    numpy.ndarray
        Weights of the type and shape of ``weights``. int8 weights share one scale, so that the largest part is 127.

    Raises
    ------
    ValueError
        If channels, antennas or feeds of the gains differ from those of the weights, or the calibration has delays.
    """
    pyuvdata = optional("pyuvdata")
    given = np.asarray(weights)
    if given.dtype not in (np.int8, np.float16) or given.ndim != 5 or given.shape[4] != 2:
        raise ValueError(f"weights of {given.dtype} {given.shape}: expected int8 or float16 [F, P, B, D, 2]")
    channels, polarisations, _, dishes, _ = given.shape
    cal = pyuvdata.UVCal.from_file(calibration) if isinstance(calibration, (str, os.PathLike)) else calibration
    if cal.cal_type != "gain" or cal.wide_band:
        raise ValueError(f"a calibration of {cal.cal_type}s: expected gains of each channel, as of convert_to_gain()")
    if cal.Nfreqs != channels:
        raise ValueError(f"gains of {cal.Nfreqs} channels: expected {channels}, as the weights have")
    if not 0 <= time < cal.Ntimes:
        raise ValueError(f"time={time} of gains of {cal.Ntimes} times: expected one of these")
    numbers = list(range(dishes)) if antennas is None else [int(number) for number in antennas]
    if len(numbers) != dishes:
        raise ValueError(f"{len(numbers)} antennas: expected {dishes}, one for each dish")
    there = {int(number): place for place, number in enumerate(cal.ant_array)}
    if lacking := [number for number in numbers if number not in there]:
        raise ValueError(f"gains without antenna {lacking[0]}: expected those of all dishes")
    jones = [int(number) for number in cal.jones_array]
    if feeds is None:
        feeds = ("rl" if _JONES["r"] in jones or _JONES["l"] in jones else "xy")[:polarisations]
    feeds = feeds.lower()
    if len(feeds) != polarisations or any(_JONES.get(feed) not in jones for feed in feeds):
        found = "".join(name for name, number in _JONES.items() if number in jones)
        expected = f"expected {polarisations} of these, one for each polarisation"
        raise ValueError(f'feeds="{feeds}" of gains of "{found}": {expected}')
    places, columns = [there[number] for number in numbers], [jones.index(_JONES[feed]) for feed in feeds]
    chosen = np.ix_(places, range(channels), [time], columns)
    # [channel][polarisation][dish]
    gains = np.conj(cal.gain_array[chosen][:, :, 0].transpose(1, 2, 0))
    flagged = cal.flag_array[chosen][:, :, 0].transpose(1, 2, 0) | ~np.isfinite(gains) | (gains == 0)
    gains = np.where(flagged, 1, gains)
    factors = np.where(flagged, 0, gains if cal.gain_convention == "multiply" else 1 / gains)
    complex_weights = (given[..., 0] + 1j * given[..., 1].astype(np.float64)) * factors[:, :, None, :]
    parts = np.stack([complex_weights.real, complex_weights.imag], axis=-1)
    if given.dtype == np.int8:
        largest = np.abs(parts).max(initial=0)
        parts = np.round(parts * (127 / largest if largest > 0 else 1))
    return parts.astype(given.dtype)
