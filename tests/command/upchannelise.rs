//! `corrust upchannelise`: what it writes, and what it refuses.

use std::fs;

use command::{done, refused};
use corrust::{Device, Upchanneliser, channelise::SpectrumEncoding};
use ndarray::{Array1, Array2, Array3, Array4, Array5, Axis, s};
use num_complex::Complex;

use crate::support::command;

/// Noise, int8 [T][C][N][2].
fn noise(times: usize) -> Array4<i8> {
    let mut state = 1_u32;
    Array4::from_shape_fn((times, 3, 2, 2), |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 25) as i8 - 64
    })
}

#[test]
fn recordings_are_upchannelised() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let samples = noise(203);
    ndarray_npy::write_npy(folder.join("x.npy"), &samples).unwrap();
    let gains =
        Array2::from_shape_fn((3, 8), |(c, u)| Complex::new(c as f32 + 0.5, u as f32 / 8.0));
    ndarray_npy::write_npy(folder.join("g.npy"), &gains).unwrap();
    let weights = Array1::from_shape_fn(24, |s| 1.0 + s as f64 / 10.0);
    ndarray_npy::write_npy(folder.join("w.npy"), &weights).unwrap();
    let own = Upchanneliser::builder(2, 3, 8).device(Device::Cpu);
    let own = own.gains(gains.as_slice().unwrap()).weights(weights.as_slice().unwrap());
    let floats = own.unit_noise(true).output(SpectrumEncoding::Cf32);
    let expected = floats.build().unwrap().upchannelise(samples.as_slice().unwrap()).unwrap();

    let options = "--factor 8 --gains g.npy --weights w.npy --unit-noise --output-encoding cf32";
    for device in ["cpu", "sim"] {
        let said =
            done(folder, &format!("upchannelise x.npy -o y.npy {options} --device {device}"));
        assert!(said.contains("2 inputs x 3 channels to 25 spectra of 24 subchannels"), "{said}");
        // Two of the 25 spectra touch samples before the first.
        assert!(said.contains(" 8.00 % of the samples missing"), "{said}");
        let found: Array4<f32> = ndarray_npy::read_npy(folder.join("y.npy")).unwrap();
        assert_eq!(found.dim(), (25, 24, 2, 2));
        for ((time, channel, input, part), value) in found.indexed_iter() {
            let y = expected.get(time, channel, input);
            assert_eq!(*value, [y.re, y.im][part]);
        }
    }

    // The other order of axes is the same recording; spectra are samples of other commands.
    let turned = samples.permuted_axes([1, 2, 0, 3]).as_standard_layout().into_owned();
    ndarray_npy::write_npy(folder.join("cnt.npy"), &turned).unwrap();
    done(folder, &format!("upchannelise cnt.npy --layout cnt -o z.npy {options} --device cpu"));
    assert_eq!(fs::read(folder.join("z.npy")).unwrap(), fs::read(folder.join("y.npy")).unwrap());
    let nibbles = "--factor 16 --taps 2 --output-encoding ci4 --device cpu";
    done(folder, &format!("upchannelise x.npy -o n.npy {nibbles}"));
    let found: Array3<u8> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
    assert_eq!(found.dim(), (12, 48, 2));
    done(folder, "correlate n.npy -o v.npy --device cpu");
    let sums: Array4<i64> = ndarray_npy::read_npy(folder.join("v.npy")).unwrap();
    let nibble = |bits: u8| i64::from(bits & 15) - if bits & 8 == 8 { 16 } else { 0 };
    for (channel, sum) in sums.slice(s![0, .., 0, 0]).iter().enumerate() {
        let powers = found.slice(s![.., channel, 0]);
        let power = |&x: &u8| nibble(x >> 4).pow(2) + nibble(x).pow(2);
        assert_eq!(*sum, powers.iter().map(power).sum::<i64>(), "{channel}");
    }
}

#[test]
fn correlations_of_subchannels_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ndarray_npy::write_npy(folder.join("x.npy"), &noise(403)).unwrap();
    for device in ["cpu", "sim"] {
        done(
            folder,
            &format!("upchannelise x.npy -o y.npy --factor 4 --unit-noise --device {device}"),
        );
        done(folder, &format!("correlate y.npy -o v.npy --integrate 20 --device {device}"));
        let options = "--upchannelise 4 --unit-noise --integrate 20 --counts n.npy";
        done(folder, &format!("correlate x.npy -o w.npy {options} --device {device}"));
        let [v, w] = ["v.npy", "w.npy"].map(|file| fs::read(folder.join(file)).unwrap());
        assert!(v == w, "{device}");
        let found: Array4<i64> = ndarray_npy::read_npy(folder.join("w.npy")).unwrap();
        assert_eq!(found.dim(), (5, 12, 3, 2));
        // Samples before the first are missing.
        let counts: Array1<u64> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
        assert_eq!(counts.to_vec(), [17, 20, 20, 20, 20]);
    }
    for (options, found) in [
        ("--upchannelise 3", "3 subchannels of a channel: expected a power of two"),
        ("--upchannelise 4 --channelise 8", "x.npy"),
        ("--unit-noise", "--upchannelise"),
    ] {
        let said = refused(folder, &format!("correlate x.npy -o u.npy --device cpu {options}"));
        assert!(said.contains(found), "{said}");
    }
    done(folder, "simulate -o short.npy --inputs 4 --channels 2 --times 100");
    let plan = "[input]\nfiles = [\"short.npy\"]\nupchannelise = { factor = 128 }\n\
         [[visibilities]]\noutput = \"u.npy\"\n";
    fs::write(folder.join("plan.toml"), plan).unwrap();
    for command in [
        "correlate short.npy -o u.npy --upchannelise 128",
        "filterbank short.npy -o u.npy --upchannelise 128",
        "upchannelise short.npy -o u.npy --factor 128",
        "observe plan.toml",
        "observe plan.toml --dry-run",
    ] {
        let said = refused(folder, command);
        let sentence = "100 times of each channel: expected at least the 128 of a spectrum";
        assert!(said.contains(sentence), "{command}: {said}");
        assert!(!folder.join("u.npy").exists(), "{command}");
    }
}

/// Subchannels of channels that are made of raw voltages, and powers of subchannels.
#[test]
fn every_way_to_channels_leads_to_subchannels() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let simulate = "simulate --raw -o raw.npy --inputs 4 --times 8000 --rate 8MHz";
    done(folder, &format!("{simulate} --sky-frequency 1.4GHz"));
    for device in ["cpu", "sim"] {
        let device = format!("--device {device}");
        done(folder, &format!("channelise raw.npy -o x.npy --channels 16 --level {device}"));
        done(folder, &format!("upchannelise x.npy -o y.npy --factor 4 --unit-noise {device}"));
        done(folder, &format!("correlate y.npy -o v.npy --integrate 20 {device}"));
        done(folder, "filterbank y.npy -o p.npy --integrate 3");
        let fx = "--channelise 16 --level --upchannelise 4 --unit-noise";
        done(folder, &format!("correlate raw.npy -o w.npy --integrate 20 {fx} {device}"));
        done(folder, &format!("filterbank raw.npy -o q.npy --integrate 3 {fx} {device}"));
        let up = "--upchannelise 4 --unit-noise";
        done(folder, &format!("filterbank x.npy -o r.npy --integrate 3 {up} {device}"));
        for (ours, theirs) in [("w.npy", "v.npy"), ("q.npy", "p.npy"), ("r.npy", "p.npy")] {
            let [ours_bytes, theirs_bytes] =
                [ours, theirs].map(|name| fs::read(folder.join(name)).unwrap());
            assert!(ours_bytes == theirs_bytes, "{ours} {device}");
        }
    }
    // A filterbank file has the frequencies of subchannels.
    let dated = "--channelise 16 --rate 8MHz --sky-frequency 1.4GHz --start 2026-01-01T00:00:00Z";
    done(folder, &format!("filterbank raw.npy -o p.fil {dated} --upchannelise 4 --device cpu"));
    let header = fs::read(folder.join("p.fil")).unwrap();
    let after = |name: &str| {
        let at = header.windows(name.len()).position(|part| part == name.as_bytes()).unwrap();
        &header[at + name.len()..]
    };
    assert_eq!(i32::from_le_bytes(*after("nchans").first_chunk().unwrap()), 64);
    let number = |name| f64::from_le_bytes(*after(name).first_chunk().unwrap());
    // In megahertz; the first channel is around 1.4 GHz, its subchannels are 62.5 kHz apart.
    assert_eq!((number("fch1"), number("foff")), (1400.0 - 1.5 * 0.0625, 0.0625));
    for command in ["correlate", "filterbank"] {
        let options = "--channelise 16 --oversample 2 --upchannelise 4 -o u.npy --device cpu";
        let said = refused(folder, &format!("{command} raw.npy {options}"));
        assert!(said.contains("--upchannelise: of channels that overlap"), "{said}");
    }
}

/// Beams of the subchannels of dishes of one and of two polarisations.
#[test]
fn beams_of_subchannels_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let dishes = 2;
    // Inputs are the dishes of one polarisation, then of the other.
    let samples = ndarray::concatenate(
        Axis(2),
        &[noise(403).view(), noise(403).slice(s![..;-1, .., .., ..])],
    )
    .unwrap();
    for (polarisations, device) in [(1, "cpu"), (2, "cpu"), (2, "sim")] {
        let device = format!("--device {device}");
        let by_dish = |name: &str, samples: &Array4<i8>| {
            let (times, channels, _, parts) = samples.dim();
            let axes = (times, channels, polarisations, dishes, parts);
            let samples = samples.to_shape(axes).unwrap();
            ndarray_npy::write_npy(folder.join(name), &samples.to_owned()).unwrap();
        };
        let inputs = samples.slice(s![.., .., ..polarisations * dishes, ..]);
        let inputs = inputs.as_standard_layout().into_owned();
        ndarray_npy::write_npy(folder.join("x.npy"), &inputs).unwrap();
        by_dish("e.npy", &inputs);
        done(folder, &format!("upchannelise x.npy -o y.npy --factor 4 --unit-noise {device}"));
        by_dish("f.npy", &ndarray_npy::read_npy(folder.join("y.npy")).unwrap());
        let axes = (12, polarisations, 3, dishes, 2);
        let weights = Array5::from_shape_fn(axes, |(f, p, b, d, part)| {
            ((7 * f + 5 * p + 3 * b + 11 * d + 2 * part) % 19) as i8 - 9
        });
        ndarray_npy::write_npy(folder.join("w.npy"), &weights).unwrap();
        let shifts = Array3::from_elem((12, polarisations, 3), 6_u8);
        ndarray_npy::write_npy(folder.join("s.npy"), &shifts).unwrap();
        let beams = format!("beamform --weights w.npy --shifts s.npy {device}");
        let others = |of: usize| format!("--incoherent i{of}.npy --clipped n{of}.npy");
        done(folder, &format!("{beams} f.npy -o b0.npy {}", others(0)));
        let up = "--upchannelise 4 --unit-noise";
        done(folder, &format!("{beams} e.npy -o b1.npy {up} {}", others(1)));
        for name in ["b", "i", "n"] {
            let [file, step] =
                [0, 1].map(|of| fs::read(folder.join(format!("{name}{of}.npy"))).unwrap());
            assert!(file == step, "{name} {polarisations} {device}");
        }
        let found: Array4<u8> = ndarray_npy::read_npy(folder.join("b1.npy")).unwrap();
        assert_eq!(found.dim(), (3, 12, polarisations, 100));
        assert!(found.iter().any(|&value| value != 0));
    }
    let said = refused(
        folder,
        "beamform e.npy --upchannelise 8 --weights w.npy --shifts s.npy -o b.npy --device cpu",
    );
    assert!(said.contains("w.npy") && said.contains("24"), "{said}");
}

#[test]
fn bad_input_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ndarray_npy::write_npy(folder.join("x.npy"), &noise(40)).unwrap();
    ndarray_npy::write_npy(folder.join("w.npy"), &Array1::<f64>::ones(9)).unwrap();
    ndarray_npy::write_npy(folder.join("e.npy"), &Array1::<f64>::ones(0)).unwrap();
    for (arguments, found) in [
        ("--factor 12", "12 subchannels of a channel: expected a power of two, 2 to 512"),
        ("--factor 0 --weights w.npy", "0 subchannels"),
        ("--factor 1024", "1024 subchannels"),
        ("--factor 8 --taps 0", "0 taps"),
        ("--factor 8 --weights w.npy", "9 weights: expected a multiple of 8"),
        ("--factor 8 --weights e.npy", "no weights"),
        ("--factor 8 --gains w.npy", "w.npy"),
        ("--factor 8 --output-encoding b1", "b1"),
        ("--factor 8 --device cpu,cpu", "cpu"),
    ] {
        let device = if arguments.contains("--device") { "" } else { "--device cpu" };
        let said = refused(folder, &format!("upchannelise x.npy -o y.npy {device} {arguments}"));
        assert!(
            said.contains(found) && said.trim_end().lines().count() == 1,
            "{arguments}: {said}"
        );
        assert!(!folder.join("y.npy").exists(), "{arguments}");
    }
}
