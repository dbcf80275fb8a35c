"""What pyuvdata makes of UVH5 files: run by tests/formats/uvh5.rs, ends with an error where it finds something else."""

import itertools
import json
import sys
import warnings

import numpy
from pyuvdata import UVData

NUMBERS = dict(rr=-1, ll=-2, rl=-3, lr=-4, xx=-5, yy=-6, xy=-7, yx=-8)


def read(path):
    """Reads a file with every check on; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = UVData()
        data.read_uvh5(
            path,
            run_check=True,
            check_extra=True,
            run_check_acceptability=True,
            strict_uvw_antpos_check=True,
            check_autos=True,
        )
        data.check(check_extra=True, strict_uvw_antpos_check=True, check_autos=True)
    return data


def inputs(array, count):
    """Antenna and polarisation of each input."""
    if "inputs" in array:
        return [(antenna, feed.lower()) for antenna, feed in array["inputs"]]
    antennas = len(array.get("antennas") or array["positions"])
    feeds = "xy"[: count // antennas]
    return list(itertools.product(range(antennas), feeds))


def same(path, numpy_path, array_path):
    """All visibilities equal the NumPy file's of the same run."""
    data = read(path)
    array = json.load(open(array_path))
    v = numpy.load(numpy_path)
    v = v[..., 0] + 1j * v[..., 1]
    dumps, channels, baselines = v.shape
    count = int((2 * baselines) ** 0.5)
    numbers = [antenna.get("number", index) for index, antenna in enumerate(array["antennas"])]
    of = inputs(array, count)
    assert len(of) == count
    assert data.Ntimes == dumps and data.Nfreqs == channels
    compared = 0
    seen = numpy.zeros(data.data_array.shape, bool)
    times = numpy.unique(data.time_array)
    for i in range(count):
        for j in range(i + 1):
            expected = v[:, :, i * (i + 1) // 2 + j]
            (a, p), (b, q) = of[j], of[i]
            a, b = numbers[a], numbers[b]
            for one, two, feeds, value in ((a, b, p + q, expected), (b, a, q + p, expected.conj())):
                rows = numpy.flatnonzero((data.ant_1_array == one) & (data.ant_2_array == two))
                if rows.size:
                    polarisation = list(data.polarization_array).index(NUMBERS[feeds])
                    assert numpy.array_equal(data.time_array[rows], times)
                    assert numpy.array_equal(data.data_array[rows, :, polarisation], value)
                    seen[rows, :, polarisation] = True
                    compared += 1
    # What no input gives is flagged, and nothing else is.
    assert numpy.array_equal(data.flag_array, ~seen), "flags"
    assert numpy.array_equal(data.nsample_array == 0, data.flag_array)
    start = numpy.datetime64(array["start"].rstrip("Z"))
    julian = (start - numpy.datetime64("1970-01-01")) / numpy.timedelta64(1, "D") + 2440587.5
    step = data.integration_time[0] / 86400
    assert numpy.allclose(times, julian + (numpy.arange(dumps) + 0.5) * step, rtol=0, atol=1e-9)
    print(f"{compared} products are equal")


def flagged(path, counts_path, integrate):
    """Flags and fractions of samples agree with counts [dump][channel][baseline], an input an antenna."""
    data = read(path)
    counts = numpy.load(counts_path)
    found = numpy.zeros(counts.shape, bool)
    for i in range(int((2 * counts.shape[2]) ** 0.5)):
        for j in range(i + 1):
            one, two = sorted((i, j))
            pair = (data.ant_1_array == one) & (data.ant_2_array == two)
            rows = numpy.flatnonzero(pair | (data.ant_1_array == two) & (data.ant_2_array == one))
            place = i * (i + 1) // 2 + j
            fraction = counts[:, :, place] / int(integrate)
            assert numpy.allclose(data.nsample_array[rows, :, 0], fraction), (i, j)
            assert numpy.array_equal(data.flag_array[rows, :, 0], counts[:, :, place] == 0), (i, j)
            found[:, :, place] = True
    assert found.all()
    print(f"{data.flag_array.sum()} flagged")


def samples(path, *expected):
    """The fraction of samples behind each dump."""
    data = read(path)
    found = data.nsample_array.reshape(data.Ntimes, -1)
    assert numpy.allclose(found.min(1), found.max(1))
    assert numpy.allclose(found[:, 0], [float(number) for number in expected]), found[:, 0]
    assert numpy.array_equal(data.flag_array, data.nsample_array == 0)
    print(f"{len(expected)} dumps")


def source(path, direction):
    """pyuvdata phases a source to zero: it is where the antennas' positions and our sign say."""
    import erfa
    from pyuvdata import utils

    data = read(path)
    east, north, up = (float(part) for part in direction.split(","))
    latitude = data.telescope.location.lat.rad
    angle, dec = erfa.ae2hd(numpy.arctan2(east, north), numpy.arcsin(up), latitude)
    ra, dec = utils.phasing.transform_app_to_icrs(
        time_array=data.time_array[:1],
        app_ra=data.lst_array[:1] - angle,
        app_dec=numpy.array([dec]),
        telescope_loc=data.telescope.location,
    )
    data.phase(lon=ra[0], lat=dec[0], phase_frame="icrs", cat_name="source", epoch=None)
    cross = data.ant_1_array != data.ant_2_array
    print(numpy.abs(numpy.angle(data.data_array[cross])).max())


def dut1(time):
    """UT1 - UTC that pyuvdata takes."""
    from astropy.time import Time

    print(float(Time(time).delta_ut1_utc))


def phased(path, unphased_path, name):
    """A file that we phased has the coordinates that pyuvdata gives it."""
    ours, theirs = read(path), read(unphased_path)
    center = next(iter(ours.phase_center_catalog.values()))
    assert center["cat_name"] == name and center["cat_type"] == "sidereal"
    theirs.phase(
        lon=center["cat_lon"], lat=center["cat_lat"], phase_frame="icrs", cat_name=name, epoch=None
    )
    for what, scale in (
        ("uvw_array", numpy.abs(theirs.uvw_array).max()),
        ("phase_center_app_ra", 1),
        ("phase_center_app_dec", 1),
        ("phase_center_frame_pa", 1),
        ("lst_array", 1),
    ):
        difference = numpy.abs(getattr(ours, what) - getattr(theirs, what)).max() / scale
        print(what, difference)
        # The pole's motion, which we leave out, is 3e-6.
        assert difference < 5e-6, what


def times(path, count):
    """The file has `count` times, each of all baselines."""
    data = read(path)
    assert data.Ntimes == int(count) == len(numpy.unique(data.time_array)), data.Ntimes


def measurement_set(path, folder):
    """The file becomes a Measurement Set that casacore opens."""
    from casacore.tables import table

    data = read(path)
    data.write_ms(folder, force_phase=True)
    with table(folder, ack=False) as rows:
        assert rows.nrows() == data.Nblts, rows.nrows()
        found = rows.getcol("DATA")
    assert found.shape[1:] == (data.Nfreqs, data.Npols)
    print(f"{data.Nblts} rows")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
