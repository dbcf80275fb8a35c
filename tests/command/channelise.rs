//! `corrust channelise`: what it writes, and what it refuses.

use std::fs;

use command::{corrust, done};
use corrust::{Channeliser, Device, channelise::SpectrumEncoding};
use ndarray::{Array2, Array3, Array4};
use num_complex::Complex;

use crate::support::command;

/// Noise of two inputs, int8 [N][T].
fn noise(times: usize) -> Array2<i8> {
    let mut state = 1_u32;
    Array2::from_shape_fn((2, times), |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 25) as i8 - 64
    })
}

#[test]
fn recordings_are_channelised() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let raw = noise(3000);
    ndarray_npy::write_npy(folder.join("raw.npy"), &raw).unwrap();
    let mut plan = Channeliser::builder(2, 16)
        .taps(4)
        .hop(27)
        .output(SpectrumEncoding::Cf32)
        .device(Device::Cpu)
        .build()
        .unwrap();
    let expected = plan.channelise(raw.as_slice().unwrap()).unwrap();

    let options = "--channels 16 --taps 4 --oversample 32/27 --device cpu --output-encoding cf32";
    let said = done(folder, &format!("channelise raw.npy -o x.npy {options}"));
    assert!(said.contains("2 inputs x 3000 samples to 107 spectra of 16 channels"), "{said}");
    let found: Array4<f32> = ndarray_npy::read_npy(folder.join("x.npy")).unwrap();
    assert_eq!(found.dim(), (expected.times(), 16, 2, 2));
    done(folder, &format!("channelise raw.npy -o y.npy {options} --output-layout cnt"));
    let turned: Array4<f32> = ndarray_npy::read_npy(folder.join("y.npy")).unwrap();
    assert_eq!(turned.dim(), (16, 2, expected.times(), 2));
    for ((time, channel, input, part), value) in found.indexed_iter() {
        let x = expected.get(time, channel, input);
        assert_eq!(*value, [x.re, x.im][part]);
        assert_eq!(turned[[channel, input, time, part]], *value);
    }

    // Rows of time are the same recording.
    let transposed = raw.t().as_standard_layout().into_owned();
    ndarray_npy::write_npy(folder.join("tn.npy"), &transposed).unwrap();
    done(folder, &format!("channelise tn.npy -o z.npy --layout tn {options}"));
    assert_eq!(fs::read(folder.join("z.npy")).unwrap(), fs::read(folder.join("x.npy")).unwrap());
}

/// Some channels are those of all, in every layout, and with flags.
#[test]
fn some_channels_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ndarray_npy::write_npy(folder.join("raw.npy"), &noise(3000)).unwrap();
    let options = "channelise raw.npy --channels 16 --device cpu";
    for flags in ["", "--flag sk --sk-times 16 --false-alarm 0.1"] {
        for layout in ["tcn", "cnt"] {
            let options = format!("{options} --output-layout {layout} {flags}");
            done(folder, &format!("{options} -o all.npy"));
            let said = done(folder, &format!("{options} -o some.npy --only 3..8"));
            assert!(said.contains(" of 5 channels in "), "{said}");
            let [all, some]: [Array4<i8>; 2] = ["all.npy", "some.npy"]
                .map(|name| ndarray_npy::read_npy(folder.join(name)).unwrap());
            let expected = match layout {
                "tcn" => all.slice(ndarray::s![.., 3..8, .., ..]),
                _ => all.slice(ndarray::s![3..8, .., .., ..]),
            };
            assert!(some == expected && expected.iter().any(|part| *part != 0), "{layout} {flags}");
        }
    }
    let said = command::refused(folder, &format!("{options} -o no.npy --only 10..17"));
    assert!(said.contains("--only 10..17: expected some of 16"), "{said}");
}

#[test]
fn levels_and_gains() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ndarray_npy::write_npy(folder.join("raw.npy"), &noise(20_000)).unwrap();
    done(folder, "channelise raw.npy -o x.npy --channels 8 --level 10 --device cpu");
    let found: Array4<i8> = ndarray_npy::read_npy(folder.join("x.npy")).unwrap();
    for channel in 1..8 {
        for input in 0..2 {
            let values = found.slice(ndarray::s![.., channel, input, ..]);
            let power = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
            let sigma = (power / values.len() as f64).sqrt();
            assert!((9.8..10.2).contains(&sigma), "channel {channel}: {sigma}");
        }
    }
    done(
        folder,
        "channelise raw.npy -o n.npy --channels 8 --output-encoding ci4 --level --device cpu",
    );
    let nibbles: Array3<u8> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
    assert_eq!(nibbles.dim().1, 8);
    done(folder, "correlate n.npy -o v.npy --device cpu");

    let gains = Array2::from_shape_fn((2, 8), |(input, channel)| {
        Complex::new(channel as f32 * 0.01, input as f32 * 0.02)
    });
    ndarray_npy::write_npy(folder.join("g.npy"), &gains).unwrap();
    done(folder, "channelise raw.npy -o g1.npy --channels 8 --gains g.npy --device cpu");
    let said =
        corrust(folder, "channelise raw.npy -o g2.npy --channels 16 --gains g.npy --device cpu");
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("gains of shape [2, 8]: expected [2, 16]"), "{said}");
}

#[test]
fn bad_input_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ndarray_npy::write_npy(folder.join("raw.npy"), &noise(100)).unwrap();
    fs::write(folder.join("d.json"), r#"{"delays": [1e-7]}"#).unwrap();
    for (arguments, found) in [
        ("--channels 10", "10 channels of real samples"),
        ("--channels 8 --taps 0", "0 taps"),
        ("--channels 8", "100 samples of each input: expected at least the 128 of a spectrum"),
        ("--channels 8 --taps 2 --oversample 32/27", "expected a whole number of samples"),
        ("--channels 8 --taps 2 --oversample 1/2", "expected A/B with A at least B"),
        ("--channels 8 --taps 2 --window tukey", "unknown window"),
        ("--channels 8 --taps 2 --level 0", "a level of 0"),
        ("--channels 8 --taps 2 --delays d.json", "expected --rate"),
        ("--channels 8 --taps 2 --delays d.json --rate 1MHz", "delays of 1 input: expected 2"),
        ("--channels 8 --taps 2 --rate 1parsec", "expected a positive number of Hz"),
        ("--channels 8 --taps 2 --prototype raw.npy", "numbers of type int8"),
        ("--channels 8 --taps 2 --output-encoding i8", "unknown encoding of spectra"),
    ] {
        let output =
            corrust(folder, &format!("channelise raw.npy -o x.npy --device cpu {arguments}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(
            said.contains(found) && said.trim_end().lines().count() == 1,
            "{arguments}: {said}"
        );
        assert!(!folder.join("x.npy").exists());
    }
}

#[test]
fn the_response_is_drawn_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for device in ["cpu", "sim"] {
        let options = format!("--response r.svg --channels 64 --taps 4 --device {device}");
        let said = done(folder, &format!("channelise {options}"));
        assert!(said.contains("of 64 channels, 4 taps: -6.12 dB at a channel's edge"), "{said}");
        assert!(said.contains("(designed: -6.12, "), "{said}");
        let figure = fs::read_to_string(folder.join("r.svg")).unwrap();
        assert!(figure.contains("<svg") && figure.contains("measured"));
    }
    let before = fs::read(folder.join("r.svg")).unwrap();
    for (arguments, reason) in [
        ("--response r.txt --channels 64", "r.txt: expected a name that ends in .svg or .png"),
        ("--response r.svg raw.npy --channels 64", "cannot be used with"),
        ("--response r.svg --channels 7", "7 channels"),
        ("--response r.svg --channels 64 --prototype none.npy", "none.npy: cannot read"),
        ("--channels 64", "required arguments were not provided"),
    ] {
        let output = corrust(folder, &format!("channelise {arguments}"));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {error}");
        assert!(error.contains(reason), "{arguments}: {error}");
    }
    assert_eq!(fs::read(folder.join("r.svg")).unwrap(), before);
}
