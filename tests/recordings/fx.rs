//! From raw voltages to visibilities without a file in between: the same bits as with one, exact counts of missing
//! samples, and the simulated delays.

use std::{f64::consts::TAU, fs, ops::Range, path::Path, sync::Arc};

use corrust::{
    Channeliser, Correlator, Device, Devices, Encoding, Layout, Result,
    channelise::{Builder, SpectrumEncoding},
    correlate::{Dump, baseline},
    delays::Polynomials,
    format::{self, Block, Options, RawShape, Recording},
    run::{Channelise, Dumps, Integration, Reader},
    samples::{Missing, RawEncoding, RawLayout},
};
use ndarray::{Array2, Array4};
use num_complex::Complex;
use serde_json::json;

use command::{corrust, done};

use crate::support::{command, device, witness};

const INPUTS: usize = 3;
const CHANNELS: usize = 8;

/// Raw voltages in memory, `[input][time]`.
#[derive(Clone)]
struct Held {
    samples: Array2<i8>,
    /// Times of inputs that are missing.
    missing: Vec<(Range<usize>, Range<usize>)>,
    gaps: Vec<Range<u64>>,
    position: usize,
}

impl Held {
    fn new(times: usize) -> Self {
        let mut state = 1_u32;
        let samples = Array2::from_shape_fn((INPUTS, times), |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as i8
        });
        Self { samples, missing: Vec::new(), gaps: Vec::new(), position: 0 }
    }

    fn is_missing(&self, input: usize, time: usize) -> bool {
        self.gaps.iter().any(|gap| gap.contains(&(time as u64)))
            || self.missing.iter().any(|(times, of)| times.contains(&time) && of.contains(&input))
    }
}

impl Recording<RawShape> for Held {
    fn shape(&self) -> RawShape {
        RawShape { inputs: INPUTS, encoding: RawEncoding::I8, layout: RawLayout::Nt }
    }

    fn times(&self) -> u64 {
        self.samples.ncols() as u64
    }

    fn interval(&self) -> Option<f64> {
        Some(1e-6)
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let first = self.position;
        let end = (first + times).min(self.samples.ncols());
        self.position = end;
        let samples = self.samples.slice(ndarray::s![.., first..end]);
        block.samples = samples.iter().map(|&x| x as u8).collect::<Vec<_>>().into();
        block.times = end - first;
        block.missing.clear();
        for input in 0..INPUTS {
            for time in (first..end).filter(|&time| self.is_missing(input, time)) {
                let times = time - first..time + 1 - first;
                block.missing.push(Missing::times(times).of_inputs(input..input + 1));
            }
        }
        Ok(block.times)
    }

    fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        self.position += times as usize;
        Ok(())
    }
}

/// The CPU, and what else is there.
fn devices() -> impl Iterator<Item = Device> {
    let gpus = [Device::Sim, Device::Cuda(0)];
    [Device::Cpu].into_iter().chain(gpus.into_iter().filter(|&gpu| device::open(gpu).is_some()))
}

fn engine(device: Device) -> Builder {
    Channeliser::builder(INPUTS, CHANNELS).taps(4).device(device)
}

/// The dumps of `held` through an F-engine into a correlator, read in blocks of `times` times.
fn fx(
    held: &Held,
    builder: Builder,
    device: Device,
    times: usize,
    integrate: u64,
) -> Vec<Integration> {
    let gpus = Devices::from(device).open().unwrap();
    let shape = builder.shape().unwrap();
    let SpectrumEncoding::Voltage(encoding) = shape.encoding else { panic!("cf32") };
    let correlator = Correlator::builder(INPUTS, CHANNELS)
        .encoding(encoding)
        .layout(shape.layout)
        .device(device)
        .gpus(gpus.clone())
        .build()
        .unwrap();
    let channeliser = builder.gpus(gpus).build().unwrap();
    let voltages = Reader::over(Box::new(held.clone()), times).filled();
    let dumps = Dumps::of(Channelise::over(voltages, channeliser).unwrap(), correlator);
    dumps.integrate(integrate).map(Result::unwrap).collect()
}

/// The same of all spectra in the host's memory, on the CPU.
fn in_two_steps(held: &Held, builder: Builder, integrate: u64) -> Vec<Dump> {
    let mut plan = builder.build().unwrap();
    let shape = *plan.shape();
    let mut held = held.clone();
    held.gaps.clone().into_iter().for_each(|gap| {
        held.missing.push((gap.start as usize..gap.end as usize, 0..INPUTS));
    });
    let mut block = Block::new();
    held.read_block(usize::MAX >> 1, &mut block).unwrap();
    let all = [plan.channelise(block.raw(&held.shape())).unwrap(), plan.finish().unwrap()];
    let SpectrumEncoding::Voltage(encoding) = shape.encoding else { panic!("cf32") };
    let mut correlator = Correlator::builder(INPUTS, CHANNELS)
        .encoding(encoding)
        .layout(shape.layout)
        .device(Device::Cpu)
        .build()
        .unwrap();
    let mut dumps = Vec::new();
    for spectra in &all {
        for spectrum in 0..spectra.times() {
            let samples = spectra.samples().unwrap().times(spectrum..spectrum + 1);
            correlator.accumulate(samples).unwrap();
            if correlator.times() == integrate {
                dumps.push(correlator.dump().unwrap());
            }
        }
    }
    dumps
}

#[test]
fn dumps_are_those_of_spectra_in_memory() {
    let delays = Polynomials::constant(&[0.0, 37.4e-6, -60.2e-6]).unwrap();
    let builders: [fn(Builder, &Polynomials) -> Builder; 4] = [
        |builder, _| builder,
        |builder, delays| builder.delays(Arc::new(delays.clone()), 1e6, 1e8),
        |builder, _| builder.hop(9).output_layout(Layout::Cnt),
        |builder, _| builder.output(Encoding::Ci4),
    ];
    for device in devices() {
        for (case, with) in builders.iter().enumerate() {
            for gaps in [vec![], vec![300..700, 1200..1203]] {
                let mut held = Held::new(2000);
                if !gaps.is_empty() {
                    held.missing = vec![(100..101, 1..2), (900..960, 0..2), (1500..1600, 2..3)];
                }
                held.gaps = gaps;
                let expected = in_two_steps(&held, with(engine(Device::Cpu), &delays), 7);
                assert!(expected.len() > 15);
                for times in [150, 4096] {
                    let found = fx(&held, with(engine(device), &delays), device, times, 7);
                    let name = format!("{device}, case {case}, blocks of {times}");
                    assert_eq!(found.len(), expected.len(), "{name}");
                    for (found, expected) in found.iter().zip(&expected) {
                        let (dump, index) = (&found.gates[0], found.index);
                        assert_eq!(dump.visibilities, expected.visibilities, "{name}, {index}");
                        assert_eq!(dump.times, expected.times, "{name}, {index}");
                        for place in (0..CHANNELS).flat_map(|c| (0..6).map(move |b| (c, b))) {
                            let valid = |dump: &Dump| dump.valid.get(place.0, place.1);
                            assert_eq!(valid(dump), valid(expected), "{name}, {index}, {place:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn missing_samples_are_counted_by_baseline() {
    let mut held = Held::new(3000);
    held.missing = vec![(200..201, 0..1), (500..700, 1..3), (690..720, 0..1), (2990..3000, 2..3)];
    held.gaps = vec![1000..2100, 2400..2401];
    let window = 4 * 2 * CHANNELS;
    let there = |input: usize, spectrum: usize| {
        let first = spectrum * 2 * CHANNELS;
        (first..first + window).all(|time| !held.is_missing(input, time))
    };
    for device in devices() {
        let found = fx(&held, engine(device), device, 256, 20);
        assert_eq!(found.len(), ((3000 - window) / 16 + 1) / 20);
        for dump in &found {
            let spectra = dump.start as usize..(dump.start + dump.times) as usize;
            for (i, j) in (0..INPUTS).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                let both = |spectrum: &usize| there(i, *spectrum) && there(j, *spectrum);
                let expected = spectra.clone().filter(both).count() as u64;
                for channel in 0..CHANNELS {
                    let valid = dump.gates[0].valid.get(channel, baseline(i, j));
                    assert_eq!(valid, expected, "{device}, dump {}, {i}, {j}", dump.index);
                }
            }
            let any = |spectrum: &usize| (0..INPUTS).any(|input| !there(input, *spectrum));
            assert_eq!(dump.missing, spectra.clone().filter(any).count() as u64);
        }
    }
}

#[test]
fn a_flag_cancels_and_cf32_is_refused() {
    let voltages = |times| Reader::over(Box::new(Held::new(times)), 100).filled();
    let correlator = || Correlator::builder(INPUTS, CHANNELS).device(Device::Cpu).build().unwrap();
    let plan = || engine(Device::Cpu).build().unwrap();
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let mut done = Vec::new();
    let dumps = Dumps::of(Channelise::over(voltages(1000), plan()).unwrap(), correlator());
    let dumps = dumps.integrate(5).cancel(&cancel).progress(|progress| {
        done.push((progress.done, progress.times));
        cancel.store(progress.done > 20, std::sync::atomic::Ordering::Relaxed);
    });
    let found: Vec<Result<Integration>> = dumps.collect();
    assert!(matches!(found.last(), Some(Err(corrust::Error::Cancelled { .. }))), "{found:?}");
    assert!(found.len() > 3 && done.iter().all(|&(_, times)| times == 55), "{done:?}");

    let cf32 = engine(Device::Cpu).output(SpectrumEncoding::Cf32).build().unwrap();
    let error = Channelise::over(voltages(1000), cf32).err().unwrap().to_string();
    assert!(error.contains("cf32"), "{error}");
    let error = Channelise::over(voltages(63), plan()).err().unwrap().to_string();
    assert!(error.contains("63 samples of each input: expected at least the 64"), "{error}");
}

#[test]
fn the_command_gives_what_two_commands_give() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --raw -o raw.npy --inputs 3 --times 30000 --sky-frequency 100MHz");
    let engine = "--taps 4 --oversample 32/27 --level --delays raw.json --rate 1MHz \
                  --sky-frequency 100MHz --start 2026-01-01T00:00:00";
    for device in devices() {
        let place = format!("--device {device}");
        done(folder, &format!("channelise raw.npy -o x.npy --channels 32 {engine} --device cpu"));
        done(folder, "correlate x.npy -o a.npy --integrate 100 --device cpu");
        let fx = format!("correlate raw.npy --channelise 32 {engine} {place} --counts n.npy");
        let said = done(folder, &format!("{fx} -o b.npy --integrate 100"));
        assert!(said.contains("3 inputs x 32 channels x 500 spectra"), "{said}");
        assert_eq!(read(folder, "a.npy"), read(folder, "b.npy"), "{device}");
        let counts: Array2<u64> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
        assert_eq!(counts.dim(), (5, 6));
        // A spectrum begins every 54 us.
        done(folder, &format!("{fx} -o c.npy --seconds 0.0054"));
        assert_eq!(read(folder, "a.npy"), read(folder, "c.npy"), "{device}");
    }
}

/// Baseband begins at DC: a sky frequency of 0 is one like others.
#[test]
fn the_sky_may_begin_at_zero() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --raw -o raw.npy --inputs 3 --times 3000");
    let (plain, simulated) = (read(folder, "raw.npy"), read(folder, "raw.json"));
    for zero in ["0", "0Hz", "0.0 GHz"] {
        let with = |arguments: &str| {
            let arguments = arguments.split_whitespace().chain(["--sky-frequency", zero]);
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_corrust"))
                .args(arguments)
                .current_dir(folder)
                .output()
                .unwrap();
            assert!(output.status.success(), "{zero}: {}", String::from_utf8_lossy(&output.stderr));
        };
        with("simulate --raw -o raw.npy --inputs 3 --times 3000");
        assert!(read(folder, "raw.npy") == plain && read(folder, "raw.json") == simulated);
        let engine =
            "--level --delays raw.json --rate 1MHz --start 2026-01-01T00:00:00 --device cpu";
        done(folder, &format!("channelise raw.npy -o a.npy --channels 16 {engine}"));
        with(&format!("channelise raw.npy -o b.npy --channels 16 {engine}"));
        assert_eq!(read(folder, "a.npy"), read(folder, "b.npy"), "{zero}");
        done(folder, &format!("correlate raw.npy --channelise 16 -o a.npy {engine}"));
        with(&format!("correlate raw.npy --channelise 16 -o b.npy {engine}"));
        assert_eq!(read(folder, "a.npy"), read(folder, "b.npy"), "{zero}");
    }
    for bad in ["-1", "-1MHz", "nan", "inf", "1s", "Hz"] {
        let command = format!("channelise raw.npy -o c.npy --channels 16 --sky-frequency={bad}");
        let text = command::refused(folder, &command);
        assert!(text.contains("expected 0 or a positive number of Hz"), "{bad}: {text}");
    }
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap()
}

/// Delays in seconds of input 1 after input 0, from the phases of `v.npy`'s one dump, and the phase of the
/// middle of the band in turns.
fn fringe(folder: &Path, width: f64) -> (f64, f64) {
    let sums: Array4<i64> = ndarray_npy::read_npy(folder.join("v.npy")).unwrap();
    let channels = sums.dim().1;
    let value = |channel: usize| {
        let part = |part| sums[[0, channel, baseline(1, 0), part]] as f64;
        Complex::new(part(0), part(1))
    };
    // The edges of a real band are empty.
    let band = channels / 8..channels - channels / 8;
    let step: Complex<f64> =
        band.clone().skip(1).map(|channel| value(channel) * value(channel - 1).conj()).sum();
    let slope = step.arg() / TAU;
    let middle = channels / 2;
    let flat: Complex<f64> = band
        .map(|channel| {
            value(channel) * Complex::cis(-TAU * slope * (channel as f64 - middle as f64))
        })
        .sum();
    (slope / width, flat.arg() / TAU)
}

#[test]
fn delays_come_back_and_are_undone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for delay in [3.37e-6, -41.9e-6] {
        let delays = json!({"delays": [0.0, delay]}).to_string();
        fs::write(folder.join("d.json"), delays).unwrap();
        done(
            folder,
            "simulate --raw -o raw.npy --delays d.json --times 200000 --noise 0.01 --rate 1MHz \
             --sky-frequency 100MHz",
        );
        let fx = "correlate raw.npy --channelise 256 -o v.npy --level --device cpu --rate 1MHz";
        done(folder, fx);
        let width = 1e6 / 512.0;
        let (found, turns) = fringe(folder, width);
        assert!((found - delay).abs() < 2e-8, "{found}: expected {delay}");
        let expected = (100e6 + 128.0 * width) * delay;
        let apart = turns - expected;
        assert!((apart - apart.round()).abs() < 0.01, "{turns} turns: expected {expected}");

        done(folder, &format!("{fx} --delays d.json --sky-frequency 100MHz"));
        let (found, turns) = fringe(folder, width);
        assert!(found.abs() < 2e-8 && turns.abs() < 1e-3, "{delay}: {found} s, {turns} turns left");
    }
}

#[test]
fn bad_input_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --raw -o raw.npy --inputs 2 --times 4096");
    fs::write(folder.join("one.json"), r#"{"delays": [1e-7]}"#).unwrap();
    fs::write(folder.join("bare.json"), r#"{"antennas": []}"#).unwrap();
    for (arguments, found) in [
        ("-o v.npy --channelise 512", "4096 samples of each input: expected at least the 8192"),
        ("-o v.npy --channelise 10", "10 channels of real samples"),
        ("-o v.npy --channelise 16 --delays one.json", "expected --rate"),
        ("-o v.npy --channelise 16 --delays one.json --rate 1MHz", "delays of 1 input: expected 2"),
        ("-o v.npy --channelise 16 --integrate 1000", "the recording has only 121 spectra"),
        ("-o v.npy --channelise 16 --seconds 1", "expected --integrate or --rate"),
        ("-o v.npy --channelise 16 --seconds 1e-9 --rate 1MHz", "from one spectrum to the next"),
        ("-o v.npy --channelise 16 --seconds 0", "a positive number of seconds"),
        ("-o v.npy --channelise 16 --seconds 1 --integrate 1", "cannot be used with"),
        ("-o v.npy --channelise 16 --output-encoding cf32", "spectra of cf32"),
        ("-o v.npy --channelise 16 --layout tcn", "cannot be used with"),
        ("-o v.npy --channelise 16 --start tomorrow", "expected UTC in ISO 8601"),
        ("-o v.npy --taps 4", "--channelise"),
        ("-o v.npy --rate 1MHz", "--channelise"),
        ("-o v.uvh5 --channelise 16", "expected --array ARRAY.json"),
        (
            "-o v.uvh5 --channelise 16 --array raw.json --rate 1MHz",
            "expected them, or --sky-frequency",
        ),
        ("-o v.uvh5 --channelise 16 --array bare.json --rate 1MHz --sky-frequency 1MHz", "lacks"),
    ] {
        let output = corrust(folder, &format!("correlate raw.npy --device cpu {arguments}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        let last = said.trim_end().lines().last().unwrap_or_default();
        assert!(last.contains(found), "{arguments}: {said}");
        assert!(!folder.join("v.npy").exists() && !folder.join("v.uvh5").exists());
    }
}

/// Writes the samples of `raw.npy`, a megasample a second from 2026 on, as VDIF of a thread for each input.
fn write_vdif(folder: &Path) {
    const SAMPLES: usize = 1000;
    let samples: Array2<i8> = ndarray_npy::read_npy(folder.join("raw.npy")).unwrap();
    let mut bytes = Vec::new();
    for frame in 0..samples.ncols() / SAMPLES {
        for thread in 0..samples.nrows() {
            let words = [
                (frame / 1000) as u32,
                // Half years since 2000.
                52 << 24 | (frame % 1000) as u32,
                (32 + SAMPLES as u32) / 8,
                7 << 26 | (thread as u32) << 16 | 0x4141,
                0,
                0,
                0,
                0,
            ];
            bytes.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
            let row = samples.row(thread);
            let part = row.slice(ndarray::s![frame * SAMPLES..(frame + 1) * SAMPLES]);
            bytes.extend(part.iter().map(|&x| (i16::from(x) + 128) as u8));
        }
    }
    fs::write(folder.join("scan.vdif"), bytes).unwrap();
}

#[test]
fn vdif_becomes_phased_uvh5() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --raw -o raw.npy --inputs 4 --sources 1 --times 400000 --rate 1MHz \
         --sky-frequency 100MHz --noise 0.1",
    );
    write_vdif(folder);
    let recording = format::open_raw(&[folder.join("scan.vdif")], Options::default()).unwrap();
    assert_eq!((recording.shape().inputs, recording.times()), (4, 400_000));
    assert_eq!(recording.start().unwrap().to_string(), "2026-01-01T00:00:00Z");
    let fx = "correlate scan.vdif --channelise 64 --array raw.json --rate 1MHz --level --device cpu \
              --sky-frequency 100MHz --seconds 0.1";
    done(folder, &format!("{fx} -o x.uvh5 --delays raw.json"));
    let said = done(folder, &format!("{fx} -o drift.uvh5"));
    assert!(said.contains("not phased"), "{said}");
    let Some(python) = witness::python(&witness::PYUVDATA) else { return };
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let said = witness::script(&python, "fx.py", &[&path("x.uvh5"), &path("drift.uvh5")]);
    assert!(said.ends_with("phased"), "{said}");
}
