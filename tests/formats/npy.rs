//! NumPy files: recordings in every encoding and layout, results that appear when complete, and
//! files that are not what they should be.

use std::{fs, path::Path};

use corrust::{
    Encoding, Error, Layout,
    correlate::Shape,
    format::{
        self, Block, Options,
        npy::{Dtype, Reader, Writer},
    },
    run::{self, Source},
};
use proptest::prelude::*;

use crate::support::files::files_in;

/// A byte that depends on where it stands.
fn byte(channel: usize, input: usize, time: usize, byte: usize) -> u8 {
    (channel * 89 + input * 53 + time * 17 + byte * 131 + (time >> 8) * 7) as u8
}

/// The bytes of `times` times from `start` on, by plain loops.
fn samples(shape: &Shape, start: usize, times: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sample = |channel, input, time| {
        bytes.extend((0..shape.encoding.bytes()).map(|b| byte(channel, input, time, b)));
    };
    match shape.layout {
        Layout::Tcn => {
            for time in start..start + times {
                for channel in 0..shape.channels {
                    for input in 0..shape.inputs {
                        sample(channel, input, time);
                    }
                }
            }
        }
        Layout::Cnt => {
            for channel in 0..shape.channels {
                for input in 0..shape.inputs {
                    for time in start..start + times {
                        sample(channel, input, time);
                    }
                }
            }
        }
    }
    bytes
}

/// A file as NumPy writes it, with the given type, order and shape.
fn npy(descr: &str, fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let axes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let fortran = if fortran { "True" } else { "False" };
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({}{comma}), }}",
        axes.join(", ")
    );
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes.extend(data);
    bytes
}

/// A recording file of `times` times from `start` on.
fn voltages(shape: &Shape, start: usize, times: usize) -> Vec<u8> {
    let (descr, pair) = match shape.encoding {
        Encoding::Ci8 => ("|i1", true),
        Encoding::Ci4 | Encoding::Ci4Offset => ("|u1", false),
        Encoding::Cf16 => ("<f2", true),
        Encoding::B1 | Encoding::B2 => unreachable!("no recording is bits"),
    };
    let mut axes = match shape.layout {
        Layout::Tcn => vec![times, shape.channels, shape.inputs],
        Layout::Cnt => vec![shape.channels, shape.inputs, times],
    };
    if pair {
        axes.push(2);
    }
    npy(descr, false, &axes, &samples(shape, start, times))
}

fn options(shape: &Shape) -> Options {
    Options { encoding: Some(shape.encoding), layout: Some(shape.layout), ..Options::default() }
}

/// The sentence that opening `bytes` fails with.
fn refusal(bytes: &[u8], options: Options) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rec.npy");
    fs::write(&path, bytes).unwrap();
    let error = format::open(&[&path], options).err().expect("the file must be refused");
    let text = error.to_string();
    assert!(text.contains("rec.npy"), "{text:?} names the file");
    assert!(!text.contains('\n'), "{text:?} is one sentence");
    text
}

proptest! {
    /// However a recording is cut into files and blocks, the same samples come out.
    #[test]
    fn recordings_are_read_in_any_cuts(
        encoding in proptest::sample::select(Encoding::BYTE_ALIGNED.to_vec()),
        layout in proptest::sample::select(Layout::ALL.to_vec()),
        inputs in 1_usize..6,
        channels in 1_usize..4,
        files in prop::collection::vec(1_usize..40, 1..4),
        blocks in prop::collection::vec(1_usize..50, 1..6),
    ) {
        let shape = Shape { inputs, channels, encoding, layout };
        let folder = tempfile::tempdir().unwrap();
        let mut start = 0;
        let mut paths = Vec::new();
        for (index, &times) in files.iter().enumerate() {
            let path = folder.path().join(format!("{index}.npy"));
            fs::write(&path, voltages(&shape, start, times)).unwrap();
            paths.push(path);
            start += times;
        }
        let mut recording = format::open(&paths, options(&shape)).unwrap();
        prop_assert_eq!(recording.shape(), shape);
        prop_assert_eq!(recording.times(), start as u64);
        let mut block = Block::new();
        let mut position = 0;
        for times in blocks.into_iter().cycle() {
            let count = recording.read_block(times, &mut block).unwrap();
            prop_assert_eq!(count, times.min(start - position));
            prop_assert_eq!(block.times, count);
            prop_assert!(block.missing.is_empty());
            prop_assert_eq!(&block.samples, &samples(&shape, position, count));
            position += count;
            if count == 0 {
                break;
            }
        }
        prop_assert_eq!(position, start);
    }

    /// No bytes make the reader panic or claim more than the file has.
    #[test]
    fn any_bytes_are_refused_or_read(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        magic: bool,
        length in 0_u16..400,
    ) {
        let mut file = if magic { b"\x93NUMPY\x01\x00".to_vec() } else { Vec::new() };
        if magic {
            file.extend(length.to_le_bytes());
        }
        file.extend(bytes);
        read_whatever(&file);
    }

    /// Headers made of the pieces of a real one, in any order, are refused or read.
    #[test]
    fn any_header_is_refused_or_read(
        pieces in prop::collection::vec(
            proptest::sample::select(vec![
                "{", "}", "(", ")", "[", "]", ",", ":", "'", "'descr'", "'|i1'", "'fortran_order'",
                "False", "True", "'shape'", "1", "2", "99999999999999999999999", "-1", "\\", " ",
                "{'descr': '|i1', 'fortran_order': False, 'shape': (", "), }",
            ]),
            0..40,
        ),
        data in 0_usize..40,
    ) {
        let text = pieces.concat() + "\n";
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((text.len() as u16).to_le_bytes());
        file.extend(text.bytes());
        file.extend(vec![0; data]);
        read_whatever(&file);
    }

    /// A recording with some bytes changed is refused or read.
    #[test]
    fn damaged_files_are_refused_or_read(
        changes in prop::collection::vec((0_usize..160, any::<u8>()), 1..4),
        cut in 0_usize..200,
    ) {
        let shape =
            Shape { inputs: 2, channels: 3, encoding: Encoding::Ci8, layout: Layout::Tcn };
        let mut file = voltages(&shape, 0, 5);
        for (index, value) in changes {
            file[index % 160] = value;
        }
        file.truncate(file.len() - cut.min(file.len()).saturating_sub(100));
        read_whatever(&file);
    }

    /// Appended entries are read back by an independent reader, whatever their number.
    #[test]
    fn appended_arrays_are_numpy_arrays(entries in 0_usize..1200, inner in 1_usize..5) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.npy");
        let mut writer = Writer::appending(&path, Dtype::Int64, &[inner, 2]).unwrap();
        for entry in 0..entries {
            let values = (0..inner * 2).map(|i| (entry * 1000 + i) as i64 - 500_000);
            let bytes: Vec<u8> = values.flat_map(i64::to_le_bytes).collect();
            writer.append(&bytes).unwrap();
        }
        prop_assert!(!path.exists(), "the file appears only when complete");
        writer.finish().unwrap();
        let array: ndarray::Array3<i64> = ndarray_npy::read_npy(&path).unwrap();
        prop_assert_eq!(array.dim(), (entries, inner, 2));
        for ((entry, i, part), &value) in array.indexed_iter() {
            prop_assert_eq!(value, (entry * 1000 + i * 2 + part) as i64 - 500_000);
        }
        let length = fs::metadata(&path).unwrap().len();
        prop_assert_eq!((length - (entries * inner * 16) as u64) % 64, 0);
        prop_assert_eq!(files_in(folder.path()), vec!["out.npy"]);
    }
}

/// Opens `file` in every way and reads what can be read.
fn read_whatever(file: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rec.npy");
    fs::write(&path, file).unwrap();
    for encoding in [None, Some(Encoding::Ci8), Some(Encoding::Ci4), Some(Encoding::Cf16)] {
        for layout in Layout::ALL {
            let options = Options { encoding, layout: Some(layout), ..Options::default() };
            if let Ok(mut recording) = format::open(&[&path], options) {
                let bytes = recording.times() * recording.shape().bytes_per_time() as u64;
                assert!(bytes <= file.len() as u64);
                let mut block = Block::new();
                while recording.read_block(7, &mut block).unwrap() > 0 {}
            }
        }
    }
}

#[test]
fn elements_are_written_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.npy");
    let mut writer = Writer::with_shape(&path, Dtype::Float32, &[3, 4]).unwrap();
    for element in (0..12).rev() {
        writer.write_at(element, &(element as f32).to_le_bytes()).unwrap();
    }
    writer.finish().unwrap();
    let array: ndarray::Array2<f32> = ndarray_npy::read_npy(&path).unwrap();
    assert_eq!(array, ndarray::Array2::from_shape_fn((3, 4), |(i, j)| (i * 4 + j) as f32));

    let mut reader = Reader::open(&path).unwrap();
    assert_eq!((reader.dtype(), reader.shape()), (Some(Dtype::Float32), &[3, 4][..]));
    let mut bytes = [0; 8];
    reader.read_at(6, &mut bytes).unwrap();
    assert_eq!(bytes[..4], 6_f32.to_le_bytes());
    assert_eq!(reader.read_all().unwrap().len(), 48);
}

#[test]
fn an_unfinished_file_leaves_nothing_and_spares_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.npy");
    fs::write(&path, "before").unwrap();
    let mut writer = Writer::appending(&path, Dtype::Uint8, &[1]).unwrap();
    writer.append(&[1, 2, 3]).unwrap();
    drop(writer);
    assert_eq!(files_in(folder.path()), ["out.npy"]);
    assert_eq!(fs::read(&path).unwrap(), b"before");
}

#[test]
fn a_missing_output_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("out.npy");
    let error = Writer::appending(&path, Dtype::Uint8, &[1]).unwrap_err();
    assert!(matches!(error, Error::Io { .. }));
    let text = error.to_string();
    assert!(text.contains("out.npy: cannot write: "), "{text}");
    assert!(text.to_lowercase().contains("no such file or "), "{text}");
    let error = Writer::appending(folder.path(), Dtype::Uint8, &[1]).unwrap_err().to_string();
    assert!(error.contains("is a folder"), "{error}");
}

#[cfg(unix)]
#[test]
fn results_have_the_permissions_of_any_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (plain, path) = (folder.path().join("plain"), folder.path().join("out.npy"));
    fs::write(&plain, "").unwrap();
    Writer::appending(&path, Dtype::Uint8, &[1]).unwrap().finish().unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&plain));
}

#[cfg(unix)]
#[test]
fn devices_are_not_replaced_and_links_are_followed() {
    // A device that takes bytes takes them, and stays a device.
    let mut writer = Writer::appending("/dev/null", Dtype::Uint8, &[1]).unwrap();
    writer.append(&[1]).unwrap();
    writer.finish().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());

    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("archive")).unwrap();
    let (link, file) = (folder.path().join("link.npy"), folder.path().join("archive/file.npy"));
    fs::write(&file, "before").unwrap();
    std::os::unix::fs::symlink("archive/file.npy", &link).unwrap();
    Writer::appending(&link, Dtype::Uint8, &[1]).unwrap().finish().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read(&file).unwrap().starts_with(b"\x93NUMPY"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    // A limit on the size of files, in a child process, stands for the full disk.
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "ulimit -f 64; trap '' XFSZ; exec {:?} --exact --ignored npy::write_a_megabyte --nocapture",
        std::env::current_exe().unwrap()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("CORRUST_TEST_FOLDER", folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("out.npy: cannot write: File too large"), "{text}");
    assert!(files_in(folder.path()).is_empty());
}

/// Run by [`a_full_disk_is_an_error`] in a process that may not write this much.
#[test]
#[ignore = "needs the limit set by a_full_disk_is_an_error"]
fn write_a_megabyte() {
    let Some(folder) = std::env::var_os("CORRUST_TEST_FOLDER") else { return };
    let path = Path::new(&folder).join("out.npy");
    let mut writer = Writer::appending(&path, Dtype::Uint8, &[1 << 20]).unwrap();
    let error = writer.append(&vec![0; 1 << 20]).and_then(|()| writer.finish()).unwrap_err();
    println!("{error}");
}

#[test]
fn what_a_file_holds_follows_from_its_type() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rec.npy");
    for (descr, encoding) in [
        ("|i1", Encoding::Ci8),
        ("i1", Encoding::Ci8),
        (">i1", Encoding::Ci8),
        ("<f2", Encoding::Cf16),
    ] {
        let data = vec![0; 3 * 2 * 5 * encoding.bytes()];
        fs::write(&path, npy(descr, false, &[3, 2, 5, 2], &data)).unwrap();
        let recording = format::open(&[&path], Options::default()).unwrap();
        let shape = Shape { inputs: 5, channels: 2, encoding, layout: Layout::Tcn };
        assert_eq!((recording.shape(), recording.times()), (shape, 3));
    }
    let text = refusal(&npy("|u1", false, &[3, 2, 5], &[0; 30]), Options::default());
    assert!(text.contains("ci4 or ci4-offset"), "{text}");
}

#[test]
fn bad_files_get_one_sentence() {
    let any = Options::default();
    let ci4 = Options { encoding: Some(Encoding::Ci4), ..Options::default() };
    let data = [0; 60];
    let good = npy("|i1", false, &[3, 2, 5, 2], &data);
    let cases: &[(&[u8], Options, &str)] = &[
        (b"", any, "0 bytes: expected a recording"),
        (b"hello, this is a letter", any, "starts with \"hello, t\": expected a NumPy file"),
        (&good[..7], any, "truncated: 7 bytes, expected a NumPy header"),
        (&good[..100], any, "truncated: 100 bytes, expected a NumPy header of 128 bytes"),
        (&good[..good.len() - 1], any, "truncated: 59 bytes of elements, expected 60"),
        (&[&good[..], &[0]].concat(), any, "too long: 61 bytes of elements, expected 60"),
        (&npy("<i2", false, &[3, 2, 5], &data), any, "elements of type int16: expected int8 (ci8)"),
        (
            &npy("<c16", false, &[3, 2, 5], &data),
            any,
            "elements of type '<c16': expected int8 (ci8)",
        ),
        (&npy("<f4", false, &[3, 1, 5], &data), any, "float32: expected int8"),
        (&npy("|i1", false, &[3, 20], &data), any, "2 axes [3, 20]: expected 4, int8 [time]"),
        (&npy("|i1", false, &[5, 4, 1, 3], &data), any, "last axis of length 3: expected 2"),
        (&npy("|i1", true, &[3, 2, 5, 2], &data), any, "Fortran order: expected C order"),
        (&npy("|i1", false, &[0, 2, 5, 2], &[]), any, "axis \"time\" has length 0"),
        (&npy("|i1", false, &[3, 0, 5, 2], &[]), any, "axis \"channel\" has length 0"),
        (&npy("|i1", false, &[3, 2, 0, 2], &[]), any, "axis \"input\" has length 0"),
        (&npy("|i1", false, &[3, 2, 5, 2], &data), ci4, "int8: expected uint8 [time][channel]"),
        (&npy("|i1", false, &[1 << 40, 1 << 40], &data), any, "cannot be addressed"),
    ];
    for (bytes, options, expected) in cases {
        let text = refusal(bytes, *options);
        assert!(text.contains(expected), "{text:?} says {expected:?}");
    }
}

/// A file whose header is `text`.
fn with_header(text: &str) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes
}

#[test]
fn headers_that_numpy_reads_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rec.npy");
    for (text, shape) in [
        (
            "{'descr': '|i1', 'fortran_order': False, 'shape': (3L, 2L, 5L, 2L), }     \n",
            vec![3, 2, 5, 2],
        ),
        ("{\"shape\":(12,),\"descr\":\"|i1\",\"fortran_order\":False}", vec![12]),
        ("{'descr': '|i1', 'fortran_order': False, 'shape': ()}", vec![]),
    ] {
        let elements = shape.iter().product();
        fs::write(&path, [with_header(text), vec![7; elements]].concat()).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!((reader.dtype(), reader.shape()), (Some(Dtype::Int8), &shape[..]), "{text}");
        assert_eq!(reader.read_all().unwrap(), vec![7; elements]);
    }
    // Elements come out with the lowest byte first, however they are stored.
    fs::write(&path, npy(">f2", false, &[1, 1, 1, 2], &[0x12, 0x34, 0x56, 0x78])).unwrap();
    let mut block = Block::new();
    format::open(&[&path], Options::default()).unwrap().read_block(1, &mut block).unwrap();
    assert_eq!(block.samples, [0x34, 0x12, 0x78, 0x56]);
}

#[test]
fn broken_headers_get_one_sentence() {
    for (text, expected) in [
        (
            "{'descr': '|i1', 'fortran_order': False, 'shaper': (3,), }",
            "in its NumPy header, key \"shaper\": expected descr, fortran_order and shape",
        ),
        ("{'descr': '|i1', 'shape': (3,), }", "no key \"fortran_order\": expected descr"),
        ("{'fortran_order': False, 'shape': (3,), }", "no key \"descr\""),
        ("{'descr': '|i1', 'fortran_order': False}", "no key \"shape\""),
        (
            "{'descr': '|i1', 'fortran_order': 0, 'shape': (3,)}",
            "fortran_order \"0\": expected True",
        ),
        (
            "{'descr': '|i1', 'fortran_order': False, 'shape': (3,",
            "expected a dictionary in braces",
        ),
        (
            "{'descr': '|i1', 'fortran_order': False, 'shape': (3, -1)}",
            "shape \"(3, -1)\": expected",
        ),
        (
            "{'descr': '|i1', 'fortran_order': False, 'shape': 3}",
            "expected a tuple of whole numbers",
        ),
        ("hello\nyou", "\"hello\\nyou\": expected a dictionary in braces"),
        ("", "\"\": expected a dictionary in braces"),
    ] {
        let found = refusal(&with_header(text), Options::default());
        assert!(found.contains(expected), "{found:?} says {expected:?}");
    }
    let text = refusal(b"\x93NUMPY\x07\x00\x00\x00{}", Options::default());
    assert!(text.contains("NumPy's format of version 7: expected 1 to 3"), "{text}");
}

#[test]
fn a_header_cannot_exhaust_the_stack_or_memory() {
    for open in ["(", "[", "{"] {
        assert!(refusal(&with_header(&open.repeat(60_000)), Options::default()).contains("header"));
    }
    let bytes = b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}";
    assert!(refusal(bytes, Options::default()).contains("a header of 4294967295 bytes"));
}

#[test]
fn files_of_one_recording_agree() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("a.npy"), folder.path().join("b.npy")];
    fs::write(&paths[0], npy("|i1", false, &[3, 2, 5, 2], &[0; 60])).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&paths[1], bytes).unwrap();
        format::open(&paths, Options::default()).err().expect("refused").to_string()
    };
    let text = refused(&npy("|i1", false, &[3, 2, 4, 2], &[0; 48]));
    assert!(text.contains("b.npy: 2 channels, 4 inputs: expected 2 and 5 as in "), "{text}");
    let text = refused(&npy("<f2", false, &[3, 2, 5, 2], &[0; 120]));
    assert!(text.contains("b.npy: cf16 samples, of type float16: expected ci8 as in "), "{text}");
    let text = refused(format!("{:80}", "SRC_NAME= 'x'").as_bytes());
    assert!(text.contains("GUPPI RAW after NumPy"), "{text}");
    let missing = [folder.path().join("none.npy")];
    let text = format::open(&missing, Options::default()).err().expect("refused").to_string();
    assert!(text.contains("none.npy: cannot read"), "{text}");
    let text = format::open::<&str>(&[], Options::default()).err().expect("refused").to_string();
    assert!(text.contains("no input file"), "{text}");
}

#[test]
fn reading_ahead_gives_the_same_blocks() {
    let shape = Shape { inputs: 3, channels: 2, encoding: Encoding::Ci4, layout: Layout::Cnt };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rec.npy");
    fs::write(&path, voltages(&shape, 0, 100)).unwrap();
    let open = || format::open(&[&path], options(&shape)).unwrap();
    let (mut plain, mut ahead) = (open(), run::Reader::over(open(), 7));
    let (mut block, mut first) = (Block::new(), 0);
    while plain.read_block(7, &mut block).unwrap() > 0 {
        assert!(ahead.advance().unwrap());
        let (piece, times) = (ahead.piece(), block.times as u64);
        assert_eq!((piece.start, piece.times), (first, times));
        let found = piece.samples.unwrap().gather(Layout::Cnt).unwrap();
        assert_eq!(found, block.view(&shape).gather(Layout::Cnt).unwrap());
        first += times;
    }
    assert!(!ahead.advance().unwrap());
    assert!(!ahead.advance().unwrap());

    // An error arrives where it happens; then the recording has ended.
    let recording = open();
    fs::write(&path, voltages(&shape, 0, 100).split_at(400).0).unwrap();
    let mut ahead = run::Reader::over(recording, 50);
    let text = ahead.advance().unwrap_err().to_string();
    assert!(text.contains("rec.npy: cannot read"), "{text}");
    assert!(ahead.advance().is_err(), "the recording has more times");
}

#[test]
fn parts_of_a_block_are_the_block_of_those_times() {
    for layout in Layout::ALL {
        let shape = Shape { inputs: 3, channels: 2, encoding: Encoding::Ci8, layout };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rec.npy");
        fs::write(&path, voltages(&shape, 0, 20)).unwrap();
        let mut block = Block::new();
        format::open(&[&path], options(&shape)).unwrap().read_block(20, &mut block).unwrap();
        for range in [0..20, 0..1, 3..11, 19..20, 5..5] {
            let expected = samples(&shape, range.start, range.len());
            assert_eq!(block.view(&shape).times(range).gather(layout).unwrap(), expected);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_file() {
    // A quarter of a terabyte of zeros that takes no room on the disk, with a few bytes at its end.
    let times = 1 << 28;
    for layout in Layout::ALL {
        let shape = Shape { inputs: 16, channels: 32, encoding: Encoding::Ci8, layout };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rec.npy");
        let axes = match layout {
            Layout::Tcn => [times, 32, 16, 2],
            Layout::Cnt => [32, 16, times, 2],
        };
        let mut writer = Writer::with_shape(&path, Dtype::Int8, &axes).unwrap();
        writer.write_at(times as u64 * 1024 - 2, &[5, 6]).unwrap();
        writer.finish().unwrap();
        let mut recording = format::open(&[&path], options(&shape)).unwrap();
        assert_eq!(recording.times(), times as u64);
        let mut block = Block::new();
        assert_eq!(recording.read_block(1000, &mut block).unwrap(), 1000);
        assert!(block.samples.len() == 1_024_000 && block.samples.iter().all(|&byte| byte == 0));
        let mut reader = Reader::open(&path).unwrap();
        let mut last = [0; 2];
        reader.read_at(times as u64 * 1024 - 2, &mut last).unwrap();
        assert_eq!(last, [5, 6]);
    }
}
