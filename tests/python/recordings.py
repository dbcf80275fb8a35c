"""What baseband decodes of recordings, for comparison with corrust's readers.

    recordings.py FOLDER COUNT    write what baseband reads of its own samples, and COUNT random recordings
                                  with what was written into them; print a line for each: a name, of which
                                  NAME.npy is float32 [time][input][re, im]; inputs of a Mark 5B
                                  recording, else 0; the recording's start; its rate in hertz, or 0 where
                                  its headers do not say it; and its files
    recordings.py FOLDER NAME BITS
                                  the same of the VDIF recording NAME.vdif of BITS bits
"""

import pathlib
import sys

import astropy.units as u
import numpy as np
from astropy.time import Time
from baseband import dada, data, mark5b, vdif
from baseband.base.encoding import EIGHT_BIT_1_SIGMA, FOUR_BIT_1_SIGMA

SCALES = {4: FOUR_BIT_1_SIGMA, 8: EIGHT_BIT_1_SIGMA}
NEAR = Time("2014-06-13")


def save(folder, name, stream, files, scale=1.0, inputs=0, rate=None):
    """Writes what `stream` reads, [time][thread][channel] or [time][polarisation][channel]."""
    samples = stream.read()
    samples = samples.reshape(len(samples), -1)
    parts = np.stack([samples.real, samples.imag * np.iscomplexobj(samples)], -1)
    np.save(folder / f"{name}.npy", (parts * scale).astype(np.float32))
    start = stream.start_time.copy("isot")
    start.precision = 9
    rate = stream.sample_rate.to_value(u.Hz) if rate is None else rate
    print(name, inputs, start.value, rate, *files)


def samples(folder):
    for name, bits, rate in [
        ("SAMPLE_VDIF", 2, None),
        ("SAMPLE_AROCHIME_VDIF", 4, 800 * u.MHz / 2048),
        ("SAMPLE_BPS1_VDIF", 1, 8 * u.MHz),
        ("SAMPLE_MWA_VDIF", 8, 1.28 * u.MHz),
    ]:
        path = getattr(data, name)
        given = {} if rate is None else {"sample_rate": rate}
        with vdif.open(path, "rs", squeeze=False, **given) as stream:
            save(folder, name, stream, [path], SCALES.get(bits, 1.0), rate=None if rate is None else 0)
    for name in ["SAMPLE_DADA", "SAMPLE_MEERKAT_DADA"]:
        path = getattr(data, name)
        with dada.open(path, "rs", squeeze=False) as stream:
            save(folder, name, stream, [path])
    path = data.SAMPLE_MARK5B
    with mark5b.open(path, "rs", squeeze=False, nchan=8, bps=2, ref_time=NEAR) as stream:
        save(folder, "SAMPLE_MARK5B", stream, [path], inputs=8)


def random_vdif(folder, name, rng):
    bits, complex_data = int(rng.choice([1, 2, 4, 8])), bool(rng.integers(2))
    threads, channels = int(rng.integers(1, 5)), 1 << int(rng.integers(0, 5))
    frame = 64 * int(rng.integers(1, 4))
    edv = int(rng.choice([0, 1, 3]))
    if edv == 3:
        # Frames of 1032 bytes, or of 5032.
        channels = 1
        frame = 8000 // (bits * (1 + complex_data))
    # Frames of more than a second show the rate where the header does not.
    rate = (2000 if edv else 50) * frame * u.Hz
    header = vdif.VDIFHeader.fromvalues(
        edv=edv, time=Time("2021-03-04T05:06:07", precision=9), samples_per_frame=frame, nchan=channels,
        bps=bits, complex_data=complex_data, station="Ef", **({"sample_rate": rate} if edv else {}),
    )
    path = folder / f"{name}.vdif"
    count = 60 if edv == 0 else 7
    shape = (count * frame, threads, channels)
    values = rng.normal(0, 2, shape) + (1j * rng.normal(0, 2, shape) if complex_data else 0)
    with vdif.open(path, "ws", header0=header, sample_rate=rate, nthread=threads, squeeze=False) as out:
        out.write(values.astype(np.complex64 if complex_data else np.float32))
    with vdif.open(path, "rs", sample_rate=rate, squeeze=False) as stream:
        save(folder, name, stream, [path], SCALES.get(bits, 1.0))


def random_dada(folder, name, rng):
    complex_data, polarisations = bool(rng.integers(2)), int(rng.integers(1, 5))
    frame = 16 * int(rng.integers(1, 20))
    header = dada.DADAHeader.fromvalues(
        time=Time("2020-02-29T23:59:59", precision=9), offset=0 * u.s, bps=8, complex_data=complex_data,
        npol=polarisations, nchan=1, sample_rate=1 * u.MHz, samples_per_frame=frame,
        telescope="Effelsberg", bandwidth=1 * u.MHz,
    )
    shape = (frame, polarisations, 1)
    values = rng.integers(-128, 128, shape) + (1j * rng.integers(-128, 128, shape) if complex_data else 0)
    path = folder / f"{name}.dada"
    with dada.open(path, "ws", header0=header, squeeze=False) as out:
        out.write(values.astype(np.complex64 if complex_data else np.float32))
    with dada.open(path, "rs", squeeze=False) as stream:
        save(folder, name, stream, [path])


def random_mark5b(folder, name, rng):
    channels = 1 << int(rng.integers(0, 5))
    frame = 80_000 // (2 * channels)
    rate = frame * 4 * u.Hz
    path = folder / f"{name}.m5b"
    values = rng.normal(0, 2, (frame * 6, channels)).astype(np.float32)
    start = Time("2014-06-13T05:30:01", precision=9)
    with mark5b.open(path, "ws", sample_rate=rate, nchan=channels, bps=2, time=start, squeeze=False) as out:
        out.write(values)
    with mark5b.open(path, "rs", sample_rate=rate, nchan=channels, bps=2, ref_time=NEAR, squeeze=False) as stream:
        save(folder, name, stream, [path], inputs=channels)


def written(folder, name, bits):
    path = folder / f"{name}.vdif"
    with vdif.open(path, "rs", squeeze=False) as stream:
        save(folder, name, stream, [path], SCALES.get(bits, 1.0))


def main(folder, count):
    samples(folder)
    rng = np.random.default_rng(18)
    for number in range(count):
        kind = [random_vdif, random_vdif, random_dada, random_mark5b][number % 4]
        kind(folder, f"{kind.__name__}-{number}", rng)


if __name__ == "__main__":
    folder, *arguments = sys.argv[1:]
    if len(arguments) == 2:
        written(pathlib.Path(folder), arguments[0], int(arguments[1]))
    else:
        main(pathlib.Path(folder), int(arguments[0]))
