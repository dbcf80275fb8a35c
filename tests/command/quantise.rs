//! `corrust quantise`: what it writes, from every encoding and order, and what it refuses.

use std::{
    fs,
    io::{Read, Seek, SeekFrom},
};

use command::{corrust, done};
use corrust::{
    Encoding, Layout,
    format::{self, Block, Options},
    quantise,
};
use ndarray::{Array3, Array4};

use crate::support::{command, oracle::correlate as oracle};

#[test]
fn recordings_are_quantised_and_correlated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for encoding in Encoding::BYTE_ALIGNED {
        for layout in Layout::ALL {
            let kind = format!("--encoding {encoding} --layout {layout}");
            done(folder, &format!("simulate -o rec.npy --inputs 3 --channels 2 --times 50 {kind}"));
            let text = done(
                folder,
                &format!("quantise rec.npy -o few.npy --bits 3 --noise 2 --step 0.75 {kind}"),
            );
            assert!(text.contains("3 inputs x 2 channels x 50 times to 3 bits"), "{text}");
            assert!(text.contains("steps of 1.50 (0.750 standard deviations)"), "{text}");

            let options =
                Options { encoding: Some(encoding), layout: Some(layout), ..Options::default() };
            let mut recording = format::open(&[folder.join("rec.npy")], options).unwrap();
            let mut block = Block::new();
            recording.read_block(50, &mut block).unwrap();
            let block = oracle::Block {
                inputs: 3,
                channels: 2,
                times: 50,
                encoding,
                layout,
                bytes: block.samples.into_vec(),
            };
            let found: Array3<u8> = ndarray_npy::read_npy(folder.join("few.npy")).unwrap();
            // Steps of 1.5: a multiple of them is on a threshold, and split.
            let value = |voltage: f64, up: bool| {
                let on = voltage % 1.5 == 0.0 && voltage.abs() < 6.0;
                let less = if on && !up { 1.0 } else { 0.0 };
                (((voltage / 1.5).floor() - less).clamp(-4.0, 3.0) as i8 as u8) & 15
            };
            let mut few = Vec::new();
            for time in 0..50 {
                for channel in 0..2 {
                    for input in 0..3 {
                        let at = match layout {
                            Layout::Tcn => [time, channel, input],
                            Layout::Cnt => [channel, input, time],
                        };
                        let (re, im) = block.sample(channel, input, time);
                        let up = quantise::split(time as u64, channel as u32, input as u32);
                        let expected = value(re, up[0]) << 4 | value(im, up[1]);
                        assert_eq!(found[at], expected, "{encoding} {layout}");
                        few.push(found[at]);
                    }
                }
            }

            // The kernel for three bits takes the written file.
            done(folder, "correlate few.npy -o v.npy --device sim --kernel packed-complex-3");
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
    assert!(
        text.contains("to 1 bit in") && text.contains("63.7 % as efficient as those of"),
        "{text}"
    );

    // The description beside it holds for this array alone.
    assert!(fs::exists(folder.join("few.npy.json")).unwrap());
    ndarray_npy::write_npy(folder.join("few.npy"), &Array3::<u8>::zeros((4, 2, 3))).unwrap();
    let output = corrust(folder, "correlate few.npy -o v.npy");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("are ci4 or ci4-offset samples: say which encoding"), "{text}");
}

/// NaNs become zero and are counted, and the noise is measured from the other samples.
/// Packed words hold the values that the plain output has, of every number of bits and order, from one file and from two,
/// with and without room left in the last words.
#[test]
fn packed_words_are_correlated_as_the_values_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (bits, layout) in [(1, "tcn"), (2, "cnt"), (3, "tcn"), (3, "cnt"), (4, "cnt")] {
        let made = format!("--inputs 3 --channels 2 --times 160 --layout {layout}");
        done(folder, &format!("simulate -o rec.npy {made}"));
        done(folder, &format!("simulate -o more.npy {made} --seed 9"));
        let options = format!("--bits {bits} --noise 20 --layout {layout}");
        for name in ["rec", "more"] {
            done(folder, &format!("quantise {name}.npy -o {name}_few.npy {options}"));
            done(folder, &format!("quantise {name}.npy -o {name}_words.npy {options} --pack"));
        }
        let words: Array4<u32> = ndarray_npy::read_npy(folder.join("rec_words.npy")).unwrap();
        assert_eq!(words.shape(), [2, 3, 160_usize.div_ceil(32 / bits), 2]);
        let sums = |files: &str| {
            done(folder, &format!("correlate {files} -o v.npy --integrate 53 --device cpu"));
            fs::read(folder.join("v.npy")).unwrap()
        };
        assert_eq!(sums("rec_words.npy"), sums("rec_few.npy"), "{bits} bits, {layout}");
        assert_eq!(
            sums("rec_words.npy more_words.npy"),
            sums("rec_few.npy more_few.npy"),
            "{bits} bits, {layout}, two files"
        );
    }
    let text = done(folder, "info rec_words.npy");
    assert!(text.contains("packed words of 4 bits"), "{text}");
    done(folder, "simulate -o odd.npy --inputs 2 --channels 3 --times 157");
    done(folder, "quantise odd.npy -o odd_few.npy --bits 3");
    done(folder, "quantise odd.npy -o odd_words.npy --bits 3 --pack");
    for name in ["few", "words"] {
        done(folder, &format!("correlate odd_{name}.npy -o {name}_v.npy --device cpu"));
    }
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    assert_eq!(read("few_v.npy"), read("words_v.npy"));
    let text = String::from_utf8_lossy(
        &corrust(folder, "correlate odd_words.npy rec_words.npy -o x.npy").stderr,
    )
    .into_owned();
    assert!(text.contains("expected 3, 2 of 3"), "{text}");
    for (line, expected) in [
        ("quantise rec.npy -o x.npy --layout cnt --bits 3 --pack --planes", "cannot be used with"),
        ("quantise rec.npy -o - --layout cnt --bits 3 --pack", "--pack to the standard output"),
        ("correlate rec_words.npy -o x.npy --encoding ci8", "packed words: expected ci4"),
        ("correlate rec_words.npy -o x.npy --layout tcn", "expected cnt"),
    ] {
        let output = corrust(folder, line);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(text.contains(expected), "{line}: {text}");
    }
    fs::remove_file(folder.join("rec_words.npy.json")).unwrap();
    let output = corrust(folder, "correlate rec_words.npy -o x.npy");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("expected a description beside them"), "{text}");
}

#[test]
fn samples_that_are_no_numbers_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // [1][1][5][2], half floats: 3 - 3i, NaN + 3i, -3 + NaN i, NaN, infinity.
    let (three, minus, nan, infinity) = (0x4200_u16, 0xc200_u16, 0x7e01_u16, 0x7c00_u16);
    let parts = [three, minus, nan, three, minus, nan, nan, nan, infinity, 0];
    let text = "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1, 5, 2)}";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes.extend(parts.iter().flat_map(|part| part.to_le_bytes()));
    fs::write(folder.join("rec.npy"), &bytes).unwrap();
    let said = done(folder, "quantise rec.npy -o few.npy --bits 3 --step 1 --noise 3");
    assert!(said.contains("3 of 5 samples have a part that is not a number"), "{said}");
    let found: Array3<u8> = ndarray_npy::read_npy(folder.join("few.npy")).unwrap();
    // A step is 3: all but infinity are on a threshold.
    let part = |input: u32, at: usize, value: u8| {
        (if quantise::split(0, 0, input)[at] { value } else { value.wrapping_sub(1) }) & 15
    };
    let expected = [
        part(0, 0, 1) << 4 | part(0, 1, 15),
        part(1, 1, 1),
        part(2, 0, 15) << 4,
        0,
        0x30 | part(4, 1, 0),
    ];
    assert_eq!(found.as_slice().unwrap(), expected);

    // Without infinity, the numbers have a standard deviation of 3.
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&[three.to_le_bytes(), minus.to_le_bytes()].concat());
    fs::write(folder.join("rec.npy"), &bytes).unwrap();
    let said = done(folder, "quantise rec.npy -o few.npy --bits 3 --step 1");
    assert!(said.contains("steps of 3.00 (1.00 standard deviations)"), "{said}");
}

/// Blocks are bounded and there are few of them, whatever the recording's length.
#[cfg(target_os = "linux")]
#[test]
fn memory_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // 512 MiB of zeros that take no room, but for one sample.
    let text = "{'descr': '|i1', 'fortran_order': False, 'shape': (33554432, 2, 4, 2)}";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    let length = bytes.len() as u64 + (1 << 29);
    fs::write(folder.join("rec.npy"), bytes).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(folder.join("rec.npy"))
        .and_then(|file| file.set_len(length))
        .unwrap();
    // Address space: the program and its threads take some hundred MiB themselves.
    let limit = |kib: usize| {
        std::process::Command::new("sh")
            .args([
                "-c",
                &format!(
                    "ulimit -d {kib}; exec {} quantise rec.npy -o few.npy --bits 2 --noise 1",
                    env!("CARGO_BIN_EXE_corrust")
                ),
            ])
            .current_dir(folder)
            .env("RAYON_NUM_THREADS", "2")
            .output()
            .unwrap()
    };
    let output = limit(320 << 10);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Zeros are split by where they are in the recording, not in a block.
    let mut file = fs::File::open(folder.join("few.npy")).unwrap();
    let header = fs::metadata(folder.join("few.npy")).unwrap().len() - (1 << 28);
    for time in [0_u64, 4_194_303, 8_388_607, 8_388_608, 8_388_609, 20_000_000, 33_554_431] {
        let mut found = [0; 8];
        file.seek(SeekFrom::Start(header + 8 * time)).unwrap();
        file.read_exact(&mut found).unwrap();
        for (row, found) in (0..).zip(found) {
            let nibble = |up: bool| if up { 0 } else { 15 };
            let [re, im] = quantise::split(time, row / 4, row % 4).map(nibble);
            assert_eq!(found, re << 4 | im, "{time}, {row}");
        }
    }
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
