//! `corrust quantise`: what it writes, from every encoding and order, and what it refuses.

mod command;
#[allow(dead_code, reason = "each test takes what it needs")]
mod oracle;

use std::fs;

use command::{corrust, done};
use corrust::{
    Encoding, Layout,
    format::{self, Block, Options},
};
use ndarray::{Array3, Array4};

#[test]
fn recordings_are_quantised_and_correlated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for encoding in Encoding::ALL {
        for layout in Layout::ALL {
            let kind = format!("--encoding {encoding} --layout {layout}");
            done(folder, &format!("simulate -o rec.npy --inputs 3 --channels 2 --times 50 {kind}"));
            let text = done(
                folder,
                &format!("quantise rec.npy -o few.npy --bits 3 --noise 2 --step 0.75 {kind}"),
            );
            assert!(text.contains("3 inputs x 2 channels x 50 times to 3 bits"), "{text}");
            assert!(text.contains("steps of 1.50 (0.750 standard deviations)"), "{text}");

            let options = Options { encoding: Some(encoding), layout: Some(layout) };
            let mut recording = format::open(&[folder.join("rec.npy")], options).unwrap();
            let mut block = Block::new();
            recording.read_block(50, &mut block).unwrap();
            let block = oracle::Block {
                inputs: 3,
                channels: 2,
                times: 50,
                encoding,
                layout,
                bytes: block.samples,
            };
            let found: Array3<u8> = ndarray_npy::read_npy(folder.join("few.npy")).unwrap();
            let value = |voltage: f64| ((voltage / 1.5).floor().clamp(-4.0, 3.0) as i8 as u8) & 15;
            let mut few = Vec::new();
            for time in 0..50 {
                for channel in 0..2 {
                    for input in 0..3 {
                        let at = match layout {
                            Layout::Tcn => [time, channel, input],
                            Layout::Cnt => [channel, input, time],
                        };
                        let (re, im) = block.sample(channel, input, time);
                        assert_eq!(found[at], value(re) << 4 | value(im), "{encoding} {layout}");
                        few.push(found[at]);
                    }
                }
            }

            // What was written is what the kernel for three bits takes.
            done(
                folder,
                &format!(
                    "correlate few.npy -o v.npy --encoding ci4 --layout {layout} --device sim \
                     --kernel packed-complex-3"
                ),
            );
            let found: Array4<i64> = ndarray_npy::read_npy(folder.join("v.npy")).unwrap();
            let few = oracle::Block {
                encoding: Encoding::Ci4,
                layout: Layout::Tcn,
                bytes: few,
                ..block.clone()
            };
            for (channel, row) in oracle::correlate_block(&few).iter().enumerate() {
                for (baseline, v) in row.iter().enumerate() {
                    assert_eq!(found[[0, channel, baseline, 0]], v.re as i64);
                    assert_eq!(found[[0, channel, baseline, 1]], v.im as i64);
                }
            }
        }
    }
    // The noise is found: of one bit, any will do.
    let text = done(folder, "quantise rec.npy -o few.npy --bits 1 --layout cnt");
    assert!(text.contains("to 1 bit in") && text.contains("63.7 % as efficient"), "{text}");
}

#[test]
fn bad_arguments_get_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 2 --channels 1 --times 10");
    ndarray_npy::write_npy(folder.join("zero.npy"), &Array4::<i8>::zeros((4, 1, 1, 2))).unwrap();
    done(folder, "quantise rec.npy -o three.npy --bits 3");
    for (arguments, expected) in [
        ("quantise rec.npy -o out.npy --bits 0", "samples of 0 bits: expected 1 to 4"),
        ("quantise rec.npy -o out.npy --bits 5", "samples of 5 bits: expected 1 to 4"),
        ("quantise rec.npy -o out.npy --bits 2 --step 0", "expected a positive number"),
        (
            "quantise rec.npy -o out.npy --bits 2 --noise -1",
            "--noise -1: expected a positive number",
        ),
        ("quantise rec.npy -o rec.npy --bits 2", "rec.npy: is an input"),
        ("quantise zero.npy -o out.npy --bits 2", "standard deviation of 0: give the noise's by"),
        (
            "correlate three.npy -o out.npy --encoding ci4 --device sim --kernel packed-complex-1",
            "samples of more than 1 bit since the last dump, expected values -1 to 0",
        ),
        ("correlate rec.npy -o out.npy --device sim --kernel packed", "expected ci4 or ci4-offset"),
        ("correlate rec.npy -o out.npy --kernel packed-complex-5", "unknown kernel"),
    ] {
        let output = corrust(folder, arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains(expected), "{arguments}: {text}");
        assert!(!fs::exists(folder.join("out.npy")).unwrap(), "{arguments}");
    }
}
