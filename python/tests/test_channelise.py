"""The F-engine: within the contract's bounds of NumPy's f64, and the same bits however it is fed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_open import command

import corrust

RATE = 1e6


def prototype(residues: int, taps: int, window: str = "hann") -> Any:
    """Make the windowed sinc of the definition."""
    n = np.arange(residues * taps) + 0.5
    u = n / (residues * taps)
    w = {"hann": np.sin(np.pi * u) ** 2, "hamming": 0.54 - 0.46 * np.cos(2 * np.pi * u), "rect": 1 + 0 * u}[window]
    h = w * (np.sinc((n - residues * taps / 2) / residues) if taps > 1 else 1)
    return h / np.sqrt((h**2).sum())


def channels_of(x: Any, h: Any, channels: int, taps: int, hop: int | None = None, delays: Any = None) -> Any:
    """Evaluate the definition in f64: complex ``[spectrum, channel, input]``; delays of inputs in samples."""
    residues = channels * (1 if np.iscomplexobj(x) else 2)
    hop = hop or residues
    length = residues * taps
    frequencies = np.arange(channels) - (channels // 2 if np.iscomplexobj(x) else 0)
    count = (x.shape[1] - length) // hop + 1
    result = np.zeros((count, channels, len(x)), np.complex128)
    for m in range(count):
        for i, row in enumerate(x):
            delay = delays(i, (m * hop + length / 2) / RATE) * RATE if delays else 0.0
            whole = round(delay)
            first = m * hop - whole
            if first < 0 or first + length > x.shape[1]:
                continue
            folded = np.zeros(residues, np.complex128)
            np.add.at(folded, (m * hop + np.arange(length)) % residues, h * row[first : first + length])
            turn = np.exp(-2j * np.pi * (delay - whole) * frequencies / residues)
            result[m, :, i] = np.fft.fft(folded)[frequencies] * turn
    return result


def assert_close(found: Any, expected: Any, residues: int) -> None:
    """Check the bound of the contract on the error."""
    error = np.sqrt((np.abs(found - expected) ** 2).mean() / (np.abs(expected) ** 2).mean())
    assert error <= 2e-7 * np.sqrt(np.log2(residues))


def raw(rng: np.random.Generator, encoding: str, layout: str, inputs: int, times: int) -> tuple[Any, Any]:
    """Random raw samples as an array, and as numbers ``[input, time]``."""
    axes = (inputs, times) if layout == "nt" else (times, inputs)
    x: Any
    if encoding in ("i8", "ci8"):
        x = rng.integers(-128, 128, axes + ((2,) if encoding == "ci8" else ()), np.int8)
    elif encoding in ("i16", "ci16"):
        x = rng.integers(-(2**15), 2**15, axes + ((2,) if encoding == "ci16" else ()), np.int16)
    elif encoding == "f32":
        x = rng.normal(size=axes).astype(np.float32)
    else:
        x = (rng.normal(size=axes) + 1j * rng.normal(size=axes)).astype(np.complex64)
    wide = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    values = wide[..., 0] + 1j * wide[..., 1] if encoding in ("ci8", "ci16") else wide
    return x, values if layout == "nt" else values.T


@pytest.mark.parametrize("layout", ["nt", "tn"])
@pytest.mark.parametrize("encoding", ["i8", "i16", "f32", "ci8", "ci16", "cf32"])
def test_numpy(device: str, encoding: str, layout: str, rng: np.random.Generator) -> None:
    channels, taps = 24, 4
    x, values = raw(rng, encoding, layout, 3, 700)
    spectra = corrust.channelise(x, channels, taps, layout=layout, output="cf32", device=device)
    residues = channels * (1 if np.iscomplexobj(values) else 2)
    assert spectra.samples.dtype == np.float32
    assert spectra.samples.shape == ((700 - residues * taps) // residues + 1, channels, 3, 2)
    assert_close(spectra.complex(), channels_of(values, prototype(residues, taps), channels, taps), residues)
    # An axis of (re, im) is the same as complex64.
    if encoding == "cf32":
        again = corrust.channelise(
            x.view(np.float32).reshape(*x.shape, 2), channels, taps, layout=layout, output="cf32", device=device
        )
        np.testing.assert_array_equal(again.samples, spectra.samples)


@pytest.mark.parametrize(
    "options",
    [
        {"window": "hamming"},
        {"taps": 1},
        {"hop": 27},
        {"prototype": np.arange(1, 129)},
        {"gains": np.array([[1.5], [0.5j]])},
        {"output_layout": "cnt"},
    ],
    ids=lambda options: str(next(iter(options))),
)
def test_options(device: str, options: dict[str, Any], rng: np.random.Generator) -> None:
    x, values = raw(rng, "i8", "nt", 2, 600)
    taps = options.get("taps", 4)
    h = prototype(32, taps, options.get("window", "rect" if taps == 1 else "hann"))
    if "prototype" in options:
        h = options["prototype"] / np.sqrt((options["prototype"] ** 2.0).sum())
    with corrust.Channeliser(2, 16, **{"taps": 4, "output": "cf32", "device": device, **options}) as plan:
        np.testing.assert_allclose(plan.prototype, h, atol=1e-15)
        found = plan.channelise(x).complex()
    expected = channels_of(values, h, 16, taps, options.get("hop"))
    if "gains" in options:
        expected = expected * options["gains"].T
    if "output_layout" in options:
        expected = expected.transpose(1, 2, 0)
    assert_close(found, expected, 32)


@pytest.mark.parametrize("output", ["ci8", "ci4", "ci4-offset", "cf16"])
def test_outputs(device: str, output: str, rng: np.random.Generator) -> None:
    x = rng.normal(0, 20, (2, 5000)).round().astype(np.int8)
    floats = corrust.channelise(x, 16, output="cf32", level=2.8, device=device)
    assert np.abs(floats.complex()).std() > 1
    np.testing.assert_allclose(np.sqrt((floats.samples**2).mean(axis=(0, -1))), 2.8, rtol=1e-5)
    spectra = corrust.channelise(x, 16, output=output, level=2.8, device=device)
    found = np.stack([spectra.complex().real, spectra.complex().imag], axis=-1)
    if output == "cf16":
        np.testing.assert_array_equal(spectra.samples, floats.samples.astype(np.float16))
        return
    most = 127 if output == "ci8" else 7
    np.testing.assert_array_equal(found, np.clip(np.round(floats.samples), -most, most))
    clipped = (np.abs(np.round(floats.samples)) > most).any(axis=-1).sum(axis=(0, 1))
    np.testing.assert_array_equal(spectra.clipped, clipped)
    # The correlator takes them.
    dump = corrust.correlate(spectra.samples, encoding=output, missing=spectra.missing, device=device)
    assert dump.times == spectra.times


def test_the_same_bits_however_it_is_cut(device: str, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (3, 2000), np.int8)
    gone: list[tuple[Any, ...]] = [(100, 140), (900, 901, None, (1, 3))]
    options: dict[str, Any] = {"delays": [3.3e-6, [(0.0, 1.0, [-2e-6, 1e-4])], 0.0], "rate": RATE}
    whole = corrust.channelise(x, 16, 4, missing=gone, device=device, **options)
    assert whole.times == (2000 - 128) // 32 + 1
    lost = {(m, i) for start, stop, _, (first, end) in whole.missing for m in range(start, stop) for i in range(first, end)}
    assert {i for _, i in lost} == {0, 1, 2}
    assert all((whole.samples[m, :, i] == 0).all() for m, i in lost)
    with corrust.Channeliser(3, 16, 4, device=device, **options) as plan:
        parts = []
        at = 0
        for cut in (1, 99, 300, 32, 700, 868):
            here = [
                (max(start, at) - at, min(stop, at + cut) - at, *rest)
                for start, stop, *rest in gone
                if start < at + cut and stop > at
            ]
            assert plan.upcoming(cut) >= 0
            parts.append(plan.channelise(x[:, at : at + cut], missing=here))
            at += cut
        assert (plan.times, at) == (2000, 2000)
        parts.append(plan.finish())
    assert [part.first for part in parts] == list(np.cumsum([0, *[part.times for part in parts[:-1]]]))
    np.testing.assert_array_equal(np.concatenate([part.samples for part in parts]), whole.samples)
    found = {
        (part.first + m, i)
        for part in parts
        for start, stop, _, (first, end) in part.missing
        for m in range(start, stop)
        for i in range(first, end)
    }
    assert found == lost
    np.testing.assert_array_equal(whole.samples, corrust.channelise(x, 16, 4, missing=gone, device="cpu", **options).samples)


def test_delays_of_every_kind(device: str, tmp_path: Path, rng: np.random.Generator) -> None:
    x, values = raw(rng, "i8", "nt", 2, 1500)

    def delay(input_: int, seconds: float) -> float:
        return (5.3e-6, -2.75e-6 + 3e-3 * seconds)[input_]

    pieces = [5.3e-6, [(0.0, 1.0, [-2.75e-6, 3e-3])]]
    file = tmp_path / "delays.json"
    file.write_text(json.dumps({"delays": [5.3e-6, [{"start": 0, "end": 1, "coefficients": [-2.75e-6, 3e-3]}]]}))
    results = [
        corrust.channelise(x, 16, 4, output="cf32", delays=delays, rate=RATE, device=device)
        for delays in (pieces, file, str(file), delay)
    ]
    expected = channels_of(values, prototype(32, 4), 16, 4, delays=delay)
    assert_close(results[0].complex(), expected, 32)
    for other in results[1:]:
        np.testing.assert_array_equal(other.samples, results[0].samples)
        assert other.missing == results[0].missing

    def fails(_input: int, _seconds: float) -> float:
        raise KeyError("no ephemeris")

    plan = corrust.Channeliser(2, 16, 4, delays=fails, rate=RATE, device=device)
    with pytest.raises(KeyError, match="no ephemeris"):
        plan.channelise(x)


def test_vdif_codes(device: str, rng: np.random.Generator) -> None:
    codes = rng.integers(0, 4, (2, 402))
    padded = np.pad(codes, ((0, 0), (0, 2))).reshape(2, -1, 4)
    packed = (padded << (2 * np.arange(4))).sum(axis=-1).astype(np.uint8)
    spectra = corrust.channelise(packed, 16, 4, encoding="vdif-2", times=402, output="cf32", device=device)
    values = np.array([-3.3165, -1.0, 1.0, 3.3165])[codes]
    assert_close(spectra.complex(), channels_of(values, prototype(32, 4), 16, 4), 32)


def test_arrays_on_a_gpu(gpu: str, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (3, 1000), np.int8)
    expected = corrust.channelise(x, 16, 4, device="cpu")
    on_gpu = corrust.to_device(x, gpu)
    np.testing.assert_array_equal(corrust.channelise(on_gpu, 16, 4).samples, expected.samples)
    spectra = corrust.channelise(on_gpu, 16, 4, on_device=True)
    assert isinstance(spectra.samples, corrust.DeviceArray)
    np.testing.assert_array_equal(spectra.samples.numpy(), expected.samples)
    np.testing.assert_array_equal(spectra.clipped.numpy(), expected.clipped)
    # On to the correlator without the host.
    dump = corrust.correlate(spectra.samples, missing=spectra.missing)
    np.testing.assert_array_equal(dump.visibilities, corrust.correlate(expected.samples, device="cpu").visibilities)
    with corrust.Channeliser(3, 16, 4, device=gpu) as plan:
        room = corrust.to_device(np.zeros((plan.upcoming(1000), 16, 3, 2), np.int8), gpu)
        plan.channelise(on_gpu, out=room)
        np.testing.assert_array_equal(room.numpy(), expected.samples)
        plan.reset()
        host = np.zeros(room.shape, np.int8)
        plan.channelise(x, out=host)
        np.testing.assert_array_equal(host, expected.samples)


@pytest.mark.parametrize("output", ["ci8", "cf32"])
def test_the_command_gives_the_same_bits(output: str, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (2, 4000), np.int8)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "d.json").write_text(json.dumps({"delays": [1e-6, -2.3e-6]}))
    done = command(
        *("channelise", tmp_path / "x.npy", "-o", tmp_path / "s.npy", "--channels", 32, "--rate", "1MHz"),
        *("--delays", tmp_path / "d.json", "--sky-frequency", "1.4GHz", "--oversample", "32/27"),
        *("--output-encoding", output, "--device", "cpu", "--level", 20),
    )
    assert done.returncode == 0, done.stderr
    found = corrust.channelise(
        x,
        32,
        hop=54,
        output=output,
        level=20,
        delays=tmp_path / "d.json",
        rate=RATE,
        sky_frequency=1.4e9,
        device="cpu",
    )
    np.testing.assert_array_equal(found.samples, np.load(tmp_path / "s.npy"))


def test_bad_input() -> None:
    x = np.zeros((2, 500), np.int8)
    for make, error, sentence in [
        (lambda: corrust.channelise(x, 10), ValueError, "10 channels of real samples"),
        (lambda: corrust.channelise(x[0], 16), ValueError, "x of shape .500.: expected .input..time."),
        (lambda: corrust.channelise(x.astype(np.int32), 16), TypeError, "x of int32"),
        (lambda: corrust.channelise(x, 16, encoding="i16"), TypeError, "expected int16 .input..time., i16 samples"),
        (lambda: corrust.channelise(x, 16, encoding="u8"), ValueError, 'unknown raw encoding "u8"'),
        (lambda: corrust.channelise(x[:, ::2], 16), TypeError, "2 bytes apart along axis 1: expected 1"),
        (lambda: corrust.channelise(x[:, ::-1], 16), TypeError, "stride of -1 bytes"),
        (lambda: corrust.channelise(np.broadcast_to(x[0], (2, 500)), 16), ValueError, "0 bytes apart"),
        (lambda: corrust.channelise(x, 16, window="hanning"), ValueError, 'unknown window "hanning"'),
        (lambda: corrust.channelise(x, 16, delays=[0, 0]), ValueError, "delays without rate"),
        (lambda: corrust.channelise(x, 16, delays=[0], rate=1), ValueError, "delays of 1 inputs: expected 2"),
        (lambda: corrust.channelise(x, 16, delays=7, rate=1), TypeError, "delays is"),
        (lambda: corrust.channelise(x, 16, delays=[0, [(1, 0, [2])]], rate=1), ValueError, "end after the start"),
        (lambda: corrust.channelise(x, 16, delays="nothing.json", rate=1), FileNotFoundError, "nothing.json"),
        (lambda: corrust.channelise(x, 16, gains=np.ones((3, 16))), ValueError, "gains of shape .3, 16."),
        (lambda: corrust.channelise(x, 16, gains=[[np.nan]]), ValueError, "a gain of NaN"),
        (lambda: corrust.channelise(x, 16, prototype=["a"]), TypeError, "prototype of <U1"),
        (lambda: corrust.channelise(x, 16, times=400), ValueError, "times=400"),
        (lambda: corrust.channelise(x, 16, hop=0), ValueError, "hop of 0"),
        (lambda: corrust.channelise(x, 16, hop=33), ValueError, "hop of 33"),
        (lambda: corrust.channelise(x, 16, level=-1.0), ValueError, "level of -1"),
        (lambda: corrust.channelise(x, 16, device="cpu", on_device=True), ValueError, "device=False"),
    ]:
        with pytest.raises(error, match=sentence):
            make()  # type: ignore[no-untyped-call]
    with corrust.Channeliser(2, 16, device="cpu") as plan:
        with pytest.raises(ValueError, match="raw samples of 3 inputs: expected 2"):
            plan.channelise(np.zeros((3, 500), np.int8))
        with pytest.raises(ValueError, match="out of shape"):
            plan.channelise(x, out=np.zeros((1, 16, 2, 2), np.int8))
        assert repr(plan).startswith("Channeliser(inputs=2, channels=16, taps=8")
    with pytest.raises(ValueError, match="closed plan"):
        plan.channelise(x)
