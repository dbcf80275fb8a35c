//! Cards of headers that change what samples mean are obeyed or refused.

use std::fs;

use corrust::{
    Encoding, Layout,
    correlate::Shape,
    format::{self, Block, Options, Recording, npy::Reader},
    samples::{Missing, RawEncoding},
};

use crate::support::{
    files::{guppi_header, write},
    witness,
};

/// All samples of a recording, read `cut` times at once, and the missing ones.
fn all<S>(mut recording: Box<dyn Recording<S>>, cut: usize) -> (Vec<u8>, Vec<Missing>) {
    let (mut bytes, mut missing, mut block) = (Vec::new(), Vec::new(), Block::new());
    let mut position = 0;
    while recording.read_block(cut, &mut block).unwrap() > 0 {
        bytes.extend_from_slice(&block.samples);
        for gap in &block.missing {
            let times = gap.times.start + position..gap.times.end + position;
            missing.push(Missing { times, ..gap.clone() });
        }
        position += block.times;
    }
    assert_eq!(recording.times(), position as u64);
    (bytes, missing)
}

/// The sentence that files are refused with.
fn refusal(files: &[Vec<u8>]) -> String {
    let (_folder, paths) = write(files);
    let said = format::open(&paths, Options::default()).err().expect("refused").to_string();
    assert!(said.contains("scan.") && !said.contains('\n'), "{said}");
    said
}

/// A DADA file of these lines and samples.
fn dada(lines: &str, samples: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HDR_VERSION 1.0\nHDR_SIZE 512\n{lines}\n").into_bytes();
    bytes.resize(512, 0);
    bytes.extend_from_slice(samples);
    bytes
}

const EXTENTS: [usize; 4] = [12, 3, 2, 2];

/// Bytes `[re, im]` of a sample, by time, channel, antenna and polarisation.
fn sample([time, channel, antenna, polarisation]: [usize; 4]) -> [u8; 2] {
    let code = ((time * 3 + channel) * 2 + antenna) * 2 + polarisation;
    [code as u8, (code * 7 + code / 256 + 1) as u8]
}

/// Samples in the order of these axes, of heaps of `heap` times: T first, then the axes of a heap.
fn ordered(
    order: &str,
    heap: usize,
    [times, channels, antennas, polarisations]: [usize; 4],
) -> Vec<u8> {
    let extents = [heap, channels, antennas, polarisations];
    let axes: Vec<usize> = order.chars().map(|axis| "TFAP".find(axis).unwrap()).collect();
    let count: usize = extents.iter().product();
    let mut bytes = Vec::new();
    for first in (0..times).step_by(heap) {
        for index in 0..count {
            let (mut place, mut rest) = ([first, 0, 0, 0], index);
            for &axis in axes.iter().rev() {
                place[axis] += rest % extents[axis];
                rest /= extents[axis];
            }
            bytes.extend(sample(place));
        }
    }
    bytes
}

#[test]
fn every_order_of_dada_is_that_of_its_card() {
    let plain = ordered("TFAP", 1, EXTENTS);
    let axes = "NBIT 8\nNDIM 2\nNPOL 2\nNCHAN 3\nNANT 2\nTSAMP 1\n";
    for (cards, bytes) in [
        ("ORDER TFAP", plain.clone()),
        ("ORDER TAFP", ordered("TAFP", 1, EXTENTS)),
        ("ORDER TPAF", ordered("TPAF", 1, EXTENTS)),
        ("ORDER TAFTP\nINNER_T 4", ordered("AFTP", 4, EXTENTS)),
        ("ORDER TAFTP\nINNER_T 0.3E+01", ordered("AFTP", 3, EXTENTS)),
        ("ORDER TPFAT\nINNER_T 12", ordered("PFAT", 12, EXTENTS)),
    ] {
        let (_folder, paths) = write(&[dada(&format!("{axes}{cards}"), &bytes)]);
        for cut in [1, 5, 100] {
            let recording = format::open(&paths, Options::default()).unwrap();
            let shape =
                Shape { inputs: 4, channels: 3, encoding: Encoding::Ci8, layout: Layout::Tcn };
            assert_eq!(recording.shape(), shape, "{cards}");
            assert!(all(recording, cut).0 == plain, "{cards}, {cut} times at once");
            let raw = format::open_raw(&paths, Options::default()).unwrap();
            assert_eq!(raw.shape().inputs, 12);
            assert!(all(raw, cut).0 == plain, "{cards}, {cut} times at once");
        }
        let mut recording = format::open(&paths, Options::default()).unwrap();
        recording.skip(7).unwrap();
        assert!(recording.read_block(3, &mut Block::new()).unwrap() == 3);
    }
    for (cards, expected) in [
        ("", "NANT 2 without ORDER"),
        ("ORDER TFP", "A once, for there is more than one"),
        ("ORDER TAFTP", "expected INNER_T"),
        ("ORDER TAFTP\nINNER_T 0", "INNER_T 0: expected 1 to"),
        ("ORDER FATP", "time slowest"),
        ("ORDER TFAS", "the letters T, F, A and P"),
        ("ORDER TAFTP\nINNER_T 5", "truncated: 288 bytes of samples, expected a multiple of 120"),
    ] {
        let said = refusal(&[dada(&format!("{axes}{cards}"), &plain)]);
        assert!(said.contains(expected), "{cards}: {said}");
    }
}

#[test]
fn meerkats_beamformer_writes_heaps_of_256_times() {
    let extents = [768, 3, 1, 2];
    let axes = "NBIT 8\nNDIM 2\nNPOL 2\nNCHAN 3\nTSAMP 4.7\n";
    let plain = ordered("TFP", 1, extents);
    let bytes = ordered("PFT", 256, extents);
    let (_folder, paths) = write(&[dada(&format!("{axes}INSTRUMENT MKBF"), &bytes)]);
    for cut in [100, 256, 1000] {
        let recording = format::open(&paths, Options::default()).unwrap();
        assert!(all(recording, cut).0 == plain, "{cut} times at once");
    }
    // Two files, the second one's heaps where the first one's end.
    let (one, other) = bytes.split_at(256 * 12);
    let later = format!("{axes}INSTRUMENT MKBF\nOBS_OFFSET {}", one.len());
    let files = [dada(&format!("{axes}INSTRUMENT MKBF"), one), dada(&later, other)];
    let (_folder, paths) = write(&files);
    assert!(all(format::open(&paths, Options::default()).unwrap(), 77).0 == plain);

    for instrument in ["MKBFRo", "MeerKAT"] {
        let said = refusal(&[dada(&format!("{axes}INSTRUMENT {instrument}"), &bytes)]);
        assert!(said.contains("without ORDER"), "{said}");
    }
    let said = refusal(&[dada(&format!("{axes}INSTRUMENT APSR"), &bytes)]);
    assert!(said.contains("bits in reverse"), "{said}");
}

/// Heaps come through a pipe, too.
#[cfg(target_os = "linux")]
#[test]
fn heaps_come_through_pipes() {
    use std::{io::Write, os::fd::AsRawFd};
    let extents = [768, 3, 1, 2];
    let header = "NBIT 8\nNDIM 2\nNPOL 2\nNCHAN 3\nINSTRUMENT MKBF";
    let plain = ordered("TFP", 1, extents);
    let bytes = dada(header, &ordered("PFT", 256, extents));
    for (cut, keep_going, times) in [(0, false, 768), (100, true, 512), (100, false, 0)] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&bytes[..bytes.len() - cut]).unwrap();
        drop(writer);
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let options = Options { keep_going, ..Options::default() };
        let mut recording = format::open(&[path], options).unwrap();
        let mut block = Block::new();
        let mut found = Vec::new();
        let ended = loop {
            match recording.read_block(100, &mut block) {
                Ok(0) => break Ok(()),
                Ok(_) => found.extend_from_slice(&block.samples),
                Err(error) => break Err(error.to_string()),
            }
        };
        match times {
            0 => assert!(ended.unwrap_err().contains("within a heap"), "{cut}"),
            _ => assert!(ended.is_ok() && found == plain[..times * 12], "{cut}"),
        }
    }
}

#[test]
fn overlapping_files_are_read_once() {
    let axes = "NBIT 8\nNDIM 2\nNPOL 2\nTSAMP 1\n";
    let plain: Vec<u8> = ordered("TP", 1, [50, 1, 1, 2]);
    let file = |first: usize, end: usize, cards: &str| {
        dada(&format!("{axes}{cards}"), &plain[first * 4..end * 4])
    };
    let said = |first: usize, end: usize| {
        file(first, end, &format!("OBS_OFFSET {}\nOBS_OVERLAP 20", first * 4))
    };
    for files in [
        vec![said(0, 20), said(15, 35), said(30, 50)],
        vec![
            file(0, 20, "OBS_OVERLAP 20"),
            file(15, 35, "OBS_OVERLAP 20"),
            file(30, 50, "OBS_OVERLAP 20"),
        ],
    ] {
        let (_folder, paths) = write(&files);
        let recording = format::open_raw(&paths, Options::default()).unwrap();
        assert_eq!(recording.times(), 50);
        assert!(all(recording, 7) == (plain.clone(), vec![]));
    }
    let text = refusal(&[said(0, 20), said(14, 35)]);
    assert!(text.contains("OBS_OFFSET 56: expected at least 80"), "{text}");
    let text = refusal(&[said(0, 20), file(20, 50, "OBS_OFFSET 80\nOBS_OVERLAP 3")]);
    assert!(text.contains("OBS_OVERLAP 3: expected a multiple of 4"), "{text}");
}

#[test]
fn encodings_and_states_of_dada_are_obeyed_or_refused() {
    let with = |cards: &str, samples: &[u8]| {
        let (_folder, paths) = write(&[dada(&format!("NPOL 1\n{cards}"), samples)]);
        all(format::open_raw(&paths, Options::default()).unwrap(), 10).0
    };
    let bytes = [0, 127, 128, 255];
    for card in ["", "\nENCODING TWOSCOMPLEMENT", "\nENCODING twos_complement", "\nSTATE Analytic"]
    {
        assert_eq!(with(&format!("NBIT 8{card}"), &bytes), bytes);
    }
    for card in ["OFFSETBINARY", "offset-binary"] {
        assert_eq!(with(&format!("NBIT 8\nENCODING {card}"), &bytes), [128, 255, 0, 127]);
    }
    assert_eq!(with("NBIT 1.6E+01\nENCODING OFFSETBINARY", &bytes), [0, 255, 128, 127]);
    for (cards, expected) in [
        ("NBIT 8\nNDIM 2\nENCODING UNSIGNED", "ENCODING UNSIGNED: expected TWOSCOMPLEMENT"),
        ("NBIT 32\nNDIM 2\nENCODING OFFSETBINARY", "OFFSETBINARY of NBIT 8 and 16"),
        ("NBIT 8\nNDIM 2\nSTATE Intensity", "STATE Intensity: expected Nyquist or Analytic"),
    ] {
        let text = refusal(&[dada(cards, &bytes)]);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn bands_and_sources_of_headers_are_told() {
    let lines = "NBIT 8\nNDIM 2\nNPOL 1\nNCHAN 4\nFREQ 1.4E+03\nBW -4\nSOURCE J0534+2200\nRA 05:34:31.94\n\
                 DEC +22:00:52.2\nTSAMP 1\nUTC_START 2026-03-01-00:00:00";
    let (_folder, paths) = write(&[dada(lines, &[0; 80])]);
    let recording = format::open(&paths, Options::default()).unwrap();
    assert_eq!(recording.band(), Some([1.4e9, -4e6]));
    let source = recording.source().unwrap();
    assert_eq!(source.name, "J0534+2200");
    assert!((source.ra - 83.633_083_333).abs() < 1e-8 && (source.dec - 22.014_5).abs() < 1e-9);
}

/// A block of GUPPI RAW.
fn guppi(
    bits: usize,
    polarisations: usize,
    packet: &str,
    cards: &[(&str, &str)],
    data: &[u8],
) -> Vec<u8> {
    let (bits, polarisations, bytes) =
        (bits.to_string(), polarisations.to_string(), data.len().to_string());
    let mut all: Vec<(&str, &str)> = vec![
        ("OBSNCHAN", "3"),
        ("NPOL", &polarisations),
        ("NBITS", &bits),
        ("BLOCSIZE", &bytes),
        ("PKTIDX", packet),
        ("TBIN", "1.0E-6"),
        ("OBSFREQ", "1400.0"),
        ("OBSBW", "-3.0"),
    ];
    for &(name, value) in cards {
        all.retain(|card| card.0 != name);
        all.push((name, value));
    }
    [&guppi_header(&all)[..], data].concat()
}

#[test]
fn samples_of_two_bits_are_levels() {
    const LEVELS: [i8; 4] = [40, 12, -12, -40];
    let times = 10;
    let code = |input: usize, channel: usize, time: usize, part: usize| {
        (time * 5 + channel * 3 + input * 7 + part + time / 3) % 4
    };
    for (polarisations, simple) in [(1, false), (2, false), (1, true), (2, true)] {
        let mut halves = Vec::new();
        let mut put = |channel, time| {
            for input in 0..polarisations {
                halves.push(code(input, channel, time, 0) << 2 | code(input, channel, time, 1));
            }
        };
        if simple {
            (0..times).for_each(|time| (0..3).for_each(|channel| put(channel, time)));
        } else {
            (0..3).for_each(|channel| (0..times).for_each(|time| put(channel, time)));
        }
        let data: Vec<u8> =
            halves.as_chunks::<2>().0.iter().map(|&[high, low]| (high << 4 | low) as u8).collect();
        let cards: &[_] = if simple { &[("PKTFMT", "'SIMPLE'")] } else { &[] };
        let (_folder, paths) = write(&[guppi(2, polarisations, "0", cards, &data)]);
        for cut in [1, 3, 10] {
            let mut recording = format::open(&paths, Options::default()).unwrap();
            let shape = recording.shape();
            assert_eq!((shape.inputs, shape.encoding), (polarisations, Encoding::Ci8));
            assert_eq!(recording.times(), times as u64);
            let (mut block, mut position) = (Block::new(), 0);
            while recording.read_block(cut, &mut block).unwrap() > 0 {
                for row in 0..3 * polarisations {
                    let (channel, input) = (row / polarisations, row % polarisations);
                    for time in 0..block.times {
                        for part in 0..2 {
                            let found = block.samples[(row * block.times + time) * 2 + part] as i8;
                            let expected = LEVELS[code(input, channel, position + time, part)];
                            assert_eq!(found, expected, "{polarisations} {simple} {cut}");
                        }
                    }
                }
                position += block.times;
            }
        }
    }
}

#[test]
fn blimpy_reads_the_same_levels() {
    let packages = ["blimpy==2.1.4", "setuptools<81"];
    let Some(python) = witness::python(&packages) else { return };
    // One channel of two polarisations: bytes come out in their order, [polarisation][time][2] here.
    let data: Vec<u8> = (0..=255).collect();
    let cards = [("OBSNCHAN", "1"), ("OBSBW", "1.0")];
    let (folder, paths) = write(&[guppi(2, 2, "0", &cards, &data)]);
    let [bytes, levels] = ["bytes", "levels.npy"].map(|name| folder.path().join(name));
    fs::write(&bytes, &data).unwrap();
    let arguments = [bytes.to_str().unwrap(), levels.to_str().unwrap()];
    witness::script(&python, "two_bits.py", &arguments);
    let expected = Reader::open(&levels).unwrap().read_all().unwrap();
    let (found, _) = all(format::open(&paths, Options::default()).unwrap(), 256);
    assert_eq!(found.len(), 1024);
    for time in 0..256 {
        for (polarisation, part) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let place = (polarisation * 256 + time) * 2 + part;
            assert_eq!(found[place], expected[time * 4 + polarisation * 2 + part], "time {time}");
        }
    }
}

#[test]
fn a_block_that_is_written_twice_is_read_once() {
    let data = |seed: usize| (0..120).map(|at| (at * 31 + seed) as u8).collect::<Vec<u8>>();
    let packets = [("PKTSIZE", "120")];
    let block = |packet: &str, seed| guppi(8, 2, packet, &packets, &data(seed));
    let once = [block("0", 1), block("1", 2), block("2", 3)];
    let twice = [block("0", 1), block("0", 1), block("1", 2), block("1", 2), block("2", 3)];
    let (_folder, paths) = write(&[once.concat()]);
    let expected = all(format::open(&paths, Options::default()).unwrap(), 7);
    for files in [vec![twice.concat()], twice.to_vec()] {
        let (_folder, paths) = write(&files);
        assert!(all(format::open(&paths, Options::default()).unwrap(), 7) == expected);
    }
    // Other samples of the same packets are another matter.
    let text = refusal(&[[block("0", 1), block("0", 2)].concat()]);
    assert!(text.contains("PKTIDX = 0: expected more than the first block's 0"), "{text}");
}

#[test]
fn numbers_have_any_notation_and_real_samples_are_refused() {
    let data = vec![1; 120];
    let cards =
        [("OBSNCHAN", "3.0E+00"), ("BLOCSIZE", "1.20E+02"), ("TBIN", "1.0D-06"), ("NBITS", "8.")];
    let (_folder, paths) = write(&[guppi(8, 2, "0.0E+00", &cards, &data)]);
    let recording = format::open(&paths, Options::default()).unwrap();
    assert_eq!((recording.shape().channels, recording.times()), (3, 10));
    assert_eq!((recording.interval(), recording.band()), (Some(1e-6), Some([1.4e9, -3e6])));
    let one = |cards: &[_]| guppi(8, 2, "0", &[&[("OBSNCHAN", "1")], cards].concat(), &data);
    let text = refusal(&[one(&[("OBSBW", "0.5")])]);
    assert!(text.contains("real samples: expected complex ones"), "{text}");
    let text = refusal(&[one(&[("PKTFMT", "'VDIF'")])]);
    assert!(text.contains("PKTFMT = VDIF, real samples"), "{text}");
    let (_folder, paths) = write(&[one(&[("OBSBW", "1.0")])]);
    assert_eq!(format::open(&paths, Options::default()).unwrap().shape().channels, 1);
}

/// Frames of VDIF of complex samples, two threads of channels, one of them lost and one invalid.
fn vdif(bits: usize, channels_log2: usize) -> Vec<u8> {
    let values = 4 << channels_log2;
    let payload = (2 * values * bits / 8).max(8);
    let mut bytes = Vec::new();
    for index in 0..6_u32 {
        for thread in [3_u32, 7] {
            if (index, thread) == (2, 3) {
                continue;
            }
            let invalid = u32::from((index, thread) == (4, 7)) << 31;
            let words = [
                invalid | 1000,
                28 << 24 | index,
                1 << 29 | (channels_log2 as u32) << 24 | ((32 + payload as u32) / 8),
                1 << 31 | (bits as u32 - 1) << 26 | thread << 16 | 0x4566,
                0,
                0,
                0,
                0,
            ];
            bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
            bytes.extend((0..payload).map(|at| (at as u32 * 37 + index * 11 + thread * 5) as u8));
        }
    }
    bytes
}

#[test]
fn channelised_vdif_of_four_and_eight_bits_is_channels() {
    for (bits, channels_log2) in [(4, 10), (8, 10), (4, 1), (8, 0), (4, 0)] {
        let (_folder, paths) = write(&[vdif(bits, channels_log2)]);
        let options = Options { rate: Some(4000.0), ..Options::default() };
        let mut raw = format::open_raw(&paths, options).unwrap();
        let raw_shape = raw.shape();
        assert_eq!(raw_shape.encoding, RawEncoding::Vdif { bits: bits as u8, complex: true });
        let mut recording = format::open(&paths, options).unwrap();
        let Shape { inputs, channels, encoding, layout } = recording.shape();
        assert_eq!((inputs, channels), (2, 1 << channels_log2));
        assert_eq!(encoding, if bits == 4 { Encoding::Ci4Offset } else { Encoding::Ci8 });
        let (mut block, mut of_raw, mut position) = (Block::new(), Block::new(), 0);
        while recording.read_block(5, &mut block).unwrap() > 0 {
            raw.read_block(5, &mut of_raw).unwrap();
            let view = of_raw.raw(&raw_shape);
            let is_missing = |input: usize, time: usize, channel: usize| {
                block.missing.iter().any(|gap| {
                    gap.times.contains(&time)
                        && gap.inputs.contains(&input)
                        && gap.channels.contains(&channel)
                })
            };
            for time in 0..block.times {
                let frame = (position + time) / (raw.times() as usize / 6);
                for input in 0..inputs {
                    for channel in 0..channels {
                        let lost = matches!((frame, input), (2, 0) | (4, 1));
                        assert_eq!(is_missing(input, time, channel), lost, "{bits} {frame}");
                        let place = match layout {
                            Layout::Tcn => (time * channels + channel) * inputs + input,
                            Layout::Cnt => (channel * inputs + input) * block.times + time,
                        };
                        let found = match bits {
                            4 => [block.samples[place] >> 4, block.samples[place] & 15]
                                .map(|nibble| f32::from(nibble) - 8.0),
                            _ => {
                                [0, 1].map(|part| f32::from(block.samples[2 * place + part] as i8))
                            }
                        };
                        let expected = match (lost, bits) {
                            (true, _) => [0.0, 0.0],
                            (_, bits) => {
                                let raw = view.get(input * channels + channel, time);
                                // Levels of 8 bits are half a step above the codes' whole numbers.
                                let half = if bits == 8 { 0.5 } else { 0.0 };
                                [raw.re - half, raw.im - half]
                            }
                        };
                        assert_eq!(
                            found, expected,
                            "{bits} bits, input {input}, {channel}, {time}"
                        );
                    }
                }
            }
            position += block.times;
        }
        assert_eq!(position as u64, raw.times());
        let other = Options { encoding: Some(Encoding::Cf16), ..options };
        let text = format::open(&paths, other).err().unwrap().to_string();
        assert!(text.contains("not cf16"), "{text}");
    }
}
