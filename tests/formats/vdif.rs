//! VDIF and Mark 5B: frames of any geometry, lost, repeated, invalid and out of order, come out as the same
//! samples with exact missing ranges; and files that are not what they should be get one sentence.

use std::{fs, path::PathBuf};

use corrust::{
    format::{self, Block, Options, RawShape, Recording},
    run::{Blocks, BlocksOf},
    samples::{RawEncoding, RawLayout},
};
use num_complex::Complex;
use proptest::prelude::*;

use crate::support::files::write_as;

/// Writes files in a fresh folder. Few or cut frames are known as VDIF by their names alone.
fn write(files: &[Vec<u8>]) -> (tempfile::TempDir, Vec<PathBuf>) {
    write_as("vdif", files)
}

/// The code of a component of a sample.
fn code(thread: usize, channel: usize, time: usize, part: usize, bits: usize) -> u32 {
    let mut hash = (thread * 7919 + channel * 104_729 + time * 31 + part * 17 + 5) as u32;
    hash = (hash ^ hash >> 7).wrapping_mul(0x9e37_79b1);
    (hash >> 11) & ((1 << bits) - 1)
}

/// How a recording is written.
#[derive(Clone, Debug)]
struct Setup {
    bits: usize,
    complex: bool,
    channels_log2: usize,
    /// Numbers of the threads, ascending.
    threads: Vec<usize>,
    /// Samples of a frame.
    samples: usize,
    legacy: bool,
    extended: u8,
    per_second: usize,
    first: usize,
}

impl Setup {
    fn plain() -> Self {
        Self {
            bits: 2,
            complex: false,
            channels_log2: 0,
            threads: vec![1],
            samples: 64,
            legacy: false,
            extended: 0,
            per_second: 10,
            first: 0,
        }
    }

    fn channels(&self) -> usize {
        1 << self.channels_log2
    }

    fn parts(&self) -> usize {
        1 + usize::from(self.complex)
    }

    fn encoding(&self) -> RawEncoding {
        RawEncoding::Vdif { bits: self.bits as u8, complex: self.complex }
    }

    fn rate(&self) -> f64 {
        (self.per_second * self.samples) as f64
    }

    fn header_bytes(&self) -> usize {
        if self.legacy { 16 } else { 32 }
    }

    /// The bytes of frame `index` of the recording of the `thread`th thread.
    fn frame(&self, index: usize, thread: usize, invalid: bool) -> Vec<u8> {
        let values = self.samples * self.channels() * self.parts();
        let payload = (values * self.bits).div_ceil(8);
        assert_eq!(payload % 8, 0, "frames are multiples of 8 bytes");
        let bytes = self.header_bytes() + payload;
        let number = self.first + index;
        let words = [
            (invalid as u32) << 31
                | (self.legacy as u32) << 30
                | (1000 + number / self.per_second) as u32,
            28 << 24 | (number % self.per_second) as u32,
            1 << 29 | (self.channels_log2 as u32) << 24 | (bytes / 8) as u32,
            (self.complex as u32) << 31
                | (self.bits as u32 - 1) << 26
                | (self.threads[thread] as u32) << 16
                | u32::from_be_bytes(*b"\0\0Ef"),
            u32::from(self.extended) << 24 | self.extended_rate(),
            if matches!(self.extended, 1 | 3 | 4) { 0xacab_feed } else { 0 },
            0,
            0,
        ];
        let mut frame: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        frame.truncate(self.header_bytes());
        let mut samples = vec![0_u8; payload];
        for time in 0..self.samples {
            for channel in 0..self.channels() {
                for part in 0..self.parts() {
                    let value = (time * self.channels() + channel) * self.parts() + part;
                    let time = index * self.samples + time;
                    let code = code(thread, channel, time, part, self.bits);
                    for bit in 0..self.bits {
                        let place = value * self.bits + bit;
                        samples[place / 8] |= ((code >> bit & 1) as u8) << (place % 8);
                    }
                }
            }
        }
        frame.extend(samples);
        frame
    }

    /// The rate in kHz as the extended words give it.
    fn extended_rate(&self) -> u32 {
        if matches!(self.extended, 1 | 3) {
            (self.rate() / 1e3) as u32 / if self.complex { 1 } else { 2 }
        } else {
            0
        }
    }

    fn sample(&self, input: usize, time: usize) -> Complex<f32> {
        let (thread, channel) = (input / self.channels(), input % self.channels());
        let level = |part| self.encoding().level(code(thread, channel, time, part, self.bits));
        Complex::new(level(0), if self.complex { level(1) } else { 0.0 })
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    (
        (0_u32..5, any::<bool>(), 0_usize..5, prop::collection::btree_set(0_usize..1024, 1..5)),
        (1_usize..4, any::<bool>(), prop_oneof![Just(0_u8), Just(4), Just(2), Just(77)]),
        (3_usize..40, 0_usize..200),
    )
        .prop_map(
            |((bits, complex, channels_log2, threads), (words, legacy, extended), second)| {
                let bits = 1_usize << bits;
                let time = (bits << channels_log2) * (1 + usize::from(complex));
                // Whole samples in multiples of 64 bits.
                let samples = if time < 64 { 64 / time * words } else { words };
                Setup {
                    bits,
                    complex,
                    channels_log2,
                    threads: threads.into_iter().collect(),
                    samples,
                    legacy,
                    extended,
                    per_second: second.0,
                    first: second.1,
                }
            },
        )
}

fn options(setup: &Setup) -> Options {
    // Much may be lost.
    Options { rate: Some(setup.rate()), long_gaps: true, ..Options::default() }
}

/// A frame that is marked invalid, with other fields than it had but for the length.
fn spoilt(frame: &[u8], seed: u32) -> Vec<u8> {
    let mut spoilt = frame.to_vec();
    let mut hash = seed;
    for place in [0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        hash = (hash ^ hash >> 9).wrapping_mul(0x9e37_79b1).wrapping_add(place as u32);
        spoilt[place] ^= (hash >> 13) as u8;
    }
    spoilt[3] |= 0x80;
    spoilt
}

/// A frame that recorders write where data were lost: a header of the bit and the length alone.
fn fill(length: usize) -> Vec<u8> {
    let mut frame = vec![0; 16];
    frame[3] = 0x80;
    frame[8..11].copy_from_slice(&(length as u32 / 8).to_le_bytes()[..3]);
    frame.extend([0x44, 0x33, 0x22, 0x11].iter().cycle().take(length - 16));
    frame
}

/// Fate of a frame on its way to the disk.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Kept,
    Lost,
    Invalid,
    Repeated,
    /// Written so many frames later.
    Late(usize),
    /// With so many bytes of something else before it.
    Junk(usize),
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        8 => Just(Fate::Kept),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Invalid),
        1 => Just(Fate::Repeated),
        1 => (1_usize..20).prop_map(Fate::Late),
        1 => (1_usize..100).prop_map(Fate::Junk),
    ];
    prop::collection::vec(fate, 1..100)
}

/// Reads a recording in blocks of these lengths and compares samples and missing ranges.
fn compare(
    recording: &mut dyn Recording<RawShape>,
    times: usize,
    cuts: &[usize],
    sample: impl Fn(usize, usize) -> Complex<f32>,
    there: impl Fn(usize, usize) -> bool,
) {
    let shape = recording.shape();
    let (mut position, mut block) = (0, Block::new());
    for cut in cuts.iter().cycle() {
        let count = recording.read_block(*cut, &mut block).unwrap();
        assert_eq!(count, (*cut).min(times - position));
        if count == 0 {
            break;
        }
        let view = block.raw(&shape);
        let mut missing = vec![vec![false; count]; shape.inputs];
        for gap in view.gaps() {
            for input in gap.inputs {
                missing[input][gap.times.clone()].fill(true);
            }
        }
        for (input, missing) in missing.iter().enumerate() {
            for (time, missing) in missing.iter().enumerate() {
                let at = position + time;
                assert_eq!(*missing, !there(input, at), "input {input}, time {at} missing");
                if !missing {
                    let expected = sample(input, at);
                    assert_eq!(view.get(input, time), expected, "input {input}, time {at}");
                }
            }
        }
        position += count;
    }
    assert_eq!(position, times);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever happened to the frames, each sample comes out once at its time, or is missing.
    #[test]
    fn every_sample_is_read_once(
        setup in setups(),
        fates in fates(),
        count in 2_usize..12,
        split in 0_usize..100,
        cuts in prop::collection::vec(1_usize..300, 1..6),
    ) {
        let threads = setup.threads.len();
        let mut order: Vec<(usize, usize, usize, Fate)> = (0..count * threads)
            .map(|slot| (slot, slot / threads, slot % threads, fates[slot % fates.len()]))
            .collect();
        // The first and the last frame say how long the recording is.
        for slot in [0, count * threads - 1] {
            order[slot].3 = Fate::Kept;
        }
        // Every thread is seen.
        for slot in &mut order[..threads] {
            slot.3 = Fate::Kept;
        }
        let mut valid = vec![false; count * threads];
        for &(slot, _, _, fate) in &order {
            valid[slot] = !matches!(fate, Fate::Lost | Fate::Invalid);
        }
        order.sort_by_key(|&(slot, _, _, fate)| match fate {
            Fate::Late(frames) => slot + frames,
            _ => slot,
        });
        // Bytes, and whether they are a frame's.
        let mut frames: Vec<(Vec<u8>, bool)> = Vec::new();
        for (slot, index, thread, fate) in order {
            let mut frame = setup.frame(index, thread, false);
            // Whatever it says, but for its length.
            let spoilt = spoilt(&frame, slot as u32);
            if matches!(fate, Fate::Invalid) {
                frame.clone_from(&spoilt);
            }
            match fate {
                Fate::Lost => {}
                Fate::Repeated => {
                    frames.extend([(frame.clone(), true), (frame, true), (spoilt, true)]);
                }
                Fate::Junk(bytes) => {
                    let junk = [0x11, 0x22, 0x33, 0xc4].iter().copied().cycle().take(bytes);
                    frames.extend([(junk.collect(), false), (frame, true)]);
                }
                _ => frames.push((frame, true)),
            }
        }
        // A file is known by the frame that it begins with.
        let mut split = split % frames.len();
        // Nor does one end within what may be the next one.
        while split < frames.len() && !(frames[split].1 && (split == 0 || frames[split - 1].1)) {
            split += 1;
        }
        let files: Vec<Vec<u8>> = [&frames[..split], &frames[split..]]
            .iter()
            .map(|frames| frames.iter().flat_map(|(bytes, _)| bytes.clone()).collect())
            .filter(|file: &Vec<u8>| !file.is_empty())
            .collect();
        prop_assume!(frames[0].1);
        let (_folder, paths) = write(&files);
        let mut recording = format::open_raw(&paths, options(&setup)).unwrap();
        let inputs = threads * setup.channels();
        let encoding = setup.encoding();
        let layout = if encoding.bits() < 8 || setup.channels() == 1 { RawLayout::Nt } else { RawLayout::Tn };
        prop_assert_eq!(recording.shape(), RawShape { inputs, encoding, layout });
        prop_assert_eq!(recording.times(), (count * setup.samples) as u64);
        prop_assert_eq!(recording.interval(), Some(1.0 / setup.rate()));
        compare(
            &mut *recording,
            count * setup.samples,
            &cuts,
            |input, time| setup.sample(input, time),
            |input, time| valid[time / setup.samples * threads + input / setup.channels()],
        );
    }

    /// A recording with some bytes changed or cut off is refused or read, without a panic.
    #[test]
    fn damaged_files_are_refused_or_read(
        setup in setups(),
        changes in prop::collection::vec((0_usize..5000, any::<u8>()), 0..8),
        cut in 0_usize..2000,
        keep_going in any::<bool>(),
        long_gaps in any::<bool>(),
        rate in prop::option::of(0.0_f64..1e9),
    ) {
        let threads = setup.threads.len();
        let mut bytes: Vec<u8> =
            (0..4 * threads).flat_map(|slot| setup.frame(slot / threads, slot % threads, false)).collect();
        let length = bytes.len();
        for (place, value) in changes {
            bytes[place % length] = value;
        }
        bytes.truncate(length.saturating_sub(cut.saturating_sub(1500)));
        let (_folder, paths) = write(&[bytes]);
        let options = Options { keep_going, long_gaps, rate, ..Options::default() };
        drain(&paths, options);
    }

    /// No bytes make a reader panic.
    #[test]
    fn any_bytes_are_refused_or_read(
        mut bytes in prop::collection::vec(any::<u8>(), 0..3000),
        start in prop_oneof![
            Just(0xabad_deed_u32.to_le_bytes().to_vec()),
            Just(Vec::new()),
            Just(b"HDR_SIZE 64\nNBIT 8\nNDIM 2\nNPOL 2\n".to_vec()),
        ],
        length in 0_u8..40,
    ) {
        bytes.splice(0..start.len().min(bytes.len()), start);
        if bytes.len() > 40 {
            // Frames of a length that fits.
            bytes[8..11].copy_from_slice(&[length, 0, 0]);
        }
        let (_folder, paths) = write(&[bytes]);
        let options = Options { inputs: Some(4), long_gaps: true, ..Options::default() };
        drain(&paths, options);
    }
}

/// Opens a recording and reads some of it, if it can be opened; errors are sentences.
fn drain(paths: &[PathBuf], options: Options) {
    let mut recording = match format::open_raw(paths, options) {
        Ok(recording) => recording,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            return;
        }
    };
    let shape = recording.shape();
    let mut block = Block::new();
    for _ in 0..50 {
        match recording.read_block(70, &mut block) {
            Ok(0) => break,
            Ok(_) => drop(block.raw(&shape).gaps().count()),
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "{error}");
                break;
            }
        }
    }
}

/// The sentence that opening files of these bytes, or reading them, fails with.
fn refusal(files: &[Vec<u8>], options: Options) -> String {
    let (_folder, paths) = write(files);
    let error = match format::open_raw(&paths, options) {
        Err(error) => error,
        Ok(mut recording) => loop {
            match recording.read_block(100, &mut Block::new()) {
                Ok(0) => panic!("the recording must be refused"),
                Ok(_) => {}
                Err(error) => break error,
            }
        },
    };
    let text = error.to_string();
    assert!(text.contains("scan."), "{text:?} names the file");
    assert!(!text.contains('\n'), "{text:?} is one sentence");
    text
}

/// `frames` frames of every thread.
fn recording(setup: &Setup, frames: std::ops::Range<usize>) -> Vec<u8> {
    let threads = 0..setup.threads.len();
    frames
        .flat_map(|frame| threads.clone().map(move |thread| (frame, thread)))
        .flat_map(|(frame, thread)| setup.frame(frame, thread, false))
        .collect()
}

#[test]
fn bad_recordings_get_one_sentence() {
    let setup = Setup::plain();
    let good = recording(&setup, 0..4);
    let any = Options::default();
    let with = |place: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[place..place + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let frame = 32 + 16;
    let check = |bytes: Vec<u8>, options: Options, expected: &str| {
        let text = refusal(&[bytes], options);
        assert!(text.contains(expected), "{text:?} says {expected:?}");
    };
    check(
        good[..good.len() - 1].to_vec(),
        any,
        "truncated: 47 bytes of the frame at byte 144, expected 48",
    );
    check(good[..150].to_vec(), any, "truncated: 6 bytes of the frame at byte 144");
    check(good[..20].to_vec(), any, "20 bytes: expected a VDIF header of 32");
    check(with(8, &[0, 0, 0]), any, "frames of 0 bytes: expected at least 40");
    check(with(8, &[0xff, 0xff, 0xff]), any, "truncated: 192 bytes, expected a frame of 134217720");
    check(with(15, &[2 << 2]), any, "samples of 3 bits: expected 1, 2, 4, 8 or 16");
    // 64 channels of two bits are 16 bytes, and 128 do not fit.
    check(with(11, &[1 << 5 | 7]), any, "expected a multiple of 256 bits, 128 channels of 2 bits");
    check(with(frame + 11, &[1 << 5 | 1]), any, "2 channels of real 2 bits: expected 1 channels");
    check(with(frame + 12, b"Xx"), any, "a frame of station xX: expected Ef");
    check(with(2 * frame, &2000_u32.to_le_bytes()), any, "clocks jump");
    check(with(3 * frame, &0x3fff_ffff_u32.to_le_bytes()), any, "clocks jump: the last frame is");
    let rate = |rate| Options { rate: Some(rate), ..any };
    check(
        good.clone(),
        rate(100.0),
        "rate of 100 Hz (as given): expected a whole number of frames of 64",
    );
    check(good.clone(), rate(128.0), "frame 3 of a second: expected less than 2");
    check(good.clone(), rate(f64::NAN), "rate of NaN Hz");
    let tn = Options { raw_layout: Some(RawLayout::Tn), ..any };
    check(good.clone(), tn, "is read as nt, not tn");
    check(b"nothing of the kind, whatever the name".to_vec(), any, "scan.0000.vdif");

    let text = refusal(&[good.clone(), b"\x93NUMPY".to_vec()], any);
    assert!(text.contains("NumPy after VDIF"), "{text}");
    let long = Options { long_gaps: true, ..any };
    let late = recording(&Setup { first: 100_000, ..setup.clone() }, 0..2);
    assert!(refusal(&[good.clone(), late.clone()], rate(640.0)).contains("--long-gaps"));
    let (_folder, paths) = write(&[good.clone(), late]);
    let times = format::open_raw(&paths, Options { rate: Some(640.0), ..long }).unwrap().times();
    assert_eq!(times, 100_002 * 64);

    // The last frame can be left out.
    let (_folder, paths) = write(&[good[..good.len() - 1].to_vec()]);
    let keep_going = Options { keep_going: true, ..any };
    let recording = format::open_raw(&paths, keep_going).unwrap();
    assert_eq!(recording.times(), 3 * 64);
    assert!(recording.left_out().unwrap().contains("truncated"), "{:?}", recording.left_out());
    // Channels are another matter.
    let text = format::open(&paths, keep_going).err().unwrap().to_string();
    assert!(text.contains("raw voltages"), "{text}");
}

#[test]
fn of_an_invalid_frame_only_the_length_is_believed() {
    let setup = Setup { per_second: 4, ..Setup::plain() };
    let length = setup.frame(0, 0, false).len();
    let frames: Vec<Vec<u8>> = (0..10).map(|index| setup.frame(index, 0, false)).collect();
    let any = Options::default();
    let sample = |input, time| setup.sample(input, time);
    let words = |change: fn(&mut [u8])| {
        let mut frame = frames[5].clone();
        frame[3] |= 0x80;
        change(&mut frame);
        frame
    };
    for lost in [
        words(|_| {}),
        // A number that would make another rate, a second that would be a jump, another epoch, thread, station, and kind.
        words(|frame| frame[4] = 9),
        words(|frame| frame[1] = 0xff),
        words(|frame| frame[7] = 3),
        words(|frame| frame[14] = 77),
        words(|frame| frame[12] = b'x'),
        words(|frame| frame[15] |= 0x80),
        words(|frame| frame[11] = 5),
        fill(length),
    ] {
        let mut bytes = frames.clone();
        bytes[5] = lost;
        let (_folder, paths) = write(&[bytes.concat()]);
        let mut recording = format::open_raw(&paths, any).unwrap();
        assert_eq!((recording.times(), recording.shape().inputs), (640, 1));
        assert_eq!(recording.interval(), Some(1.0 / 256.0));
        compare(&mut *recording, 640, &[100], sample, |_, time| time / 64 != 5);
    }

    // At the start, at the end, and in files of nothing else.
    let lost = fill(length).repeat(3);
    let whole = frames.concat();
    for files in [
        vec![[&lost[..], &whole, &lost].concat()],
        vec![lost.clone(), whole.clone(), lost.clone()],
        vec![[&fill(length)[..], &whole].concat()],
    ] {
        let (_folder, paths) = write(&files);
        let mut recording = format::open_raw(&paths, any).unwrap();
        assert_eq!(recording.start().unwrap().to_string(), "2014-01-01T00:16:40Z");
        compare(&mut *recording, 640, &[100], sample, |_, _| true);
    }
    let text = refusal(&[lost.clone(), lost], any);
    assert!(text.contains("all 6 frames are marked invalid"), "{text}");
}

#[test]
fn long_gaps_are_passed_over_at_once() {
    let setup = Setup { per_second: 1000, threads: vec![2, 5], ..Setup::plain() };
    let late = Setup { first: 86_399_999_000, ..setup.clone() };
    let (early, late) = (recording(&setup, 0..6), recording(&late, 0..6));
    let options = options(&setup);
    for files in [vec![[early.clone(), late.clone()].concat()], vec![early, late]] {
        let (_folder, paths) = write(&files);
        let recording = format::open_raw(&paths, options).unwrap();
        let times = recording.times();
        assert_eq!(times, 86_399_999_006 * 64);
        let mut blocks = BlocksOf::recording(recording, 64);
        let (mut position, mut there, mut count) = (0, 0, 0);
        let mut block = Block::new();
        while blocks.next(&mut block).unwrap() {
            position += block.gap + block.times as u64;
            there += block.times - block.missing_within(&(0..block.times));
            count += 1;
        }
        assert_eq!((position, there), (times, 12 * 64));
        assert!(count < 1 << 18, "{count} blocks");
    }
}

#[test]
fn rates_follow_from_headers_or_the_highest_number() {
    let any = Options::default();
    let rate = |setup: &Setup, frames| {
        let (_folder, paths) = write(&[recording(setup, frames)]);
        format::open_raw(&paths, any).unwrap().interval().map(|seconds| (1.0 / seconds).round())
    };
    let plain = Setup { per_second: 2000, ..Setup::plain() };
    assert_eq!(rate(&plain, 0..100), None);
    assert_eq!(rate(&plain, 0..2010), Some(128_000.0));
    assert_eq!(rate(&Setup { first: 1900, ..plain.clone() }, 0..200), Some(128_000.0));
    for extended in [1, 3] {
        assert_eq!(rate(&Setup { extended, ..plain.clone() }, 0..4), Some(128_000.0));
        let complex = Setup { extended, complex: true, ..plain.clone() };
        assert_eq!(rate(&complex, 0..4), Some(128_000.0));
    }
    assert_eq!(rate(&Setup { extended: 4, ..plain }, 0..4), None);
}

#[test]
fn files_of_one_time_stand_side_by_side() {
    let setup = Setup { threads: vec![3, 9], ..Setup::plain() };
    let of =
        |thread| (0..6).flat_map(|frame| setup.frame(frame, thread, false)).collect::<Vec<u8>>();
    // Far more than fits into what is looked at beforehand would do the same.
    let (_folder, paths) = write(&[of(1), of(0)]);
    let mut recording = format::open_raw(&paths, options(&setup)).unwrap();
    compare(&mut *recording, 6 * 64, &[100], |i, t| setup.sample(i, t), |_, _| true);
}

#[test]
fn masks_of_channels_are_missing_inputs() {
    let setup = Setup { channels_log2: 2, extended: 4, samples: 16, ..Setup::plain() };
    let mut bytes = recording(&setup, 0..4);
    let frame = 48;
    for index in 0..4 {
        // Two bits for four channels; the first two of frame 2 are not valid.
        bytes[index * frame + 18] = 2;
        bytes[index * frame + 24] = if index == 2 { 0b10 } else { 0b11 };
    }
    let (_folder, paths) = write(&[bytes]);
    let mut recording = format::open_raw(&paths, options(&setup)).unwrap();
    let there = |input: usize, time: usize| time / 16 != 2 || input >= 2;
    compare(&mut *recording, 64, &[23], |i, t| setup.sample(i, t), there);
}

/// A frame of Mark 5B whose payload counts up.
fn mark5b(second: u32, number: u32, fill: bool) -> Vec<u8> {
    mark5b_of_day(821, second, number, fill)
}

/// A frame of a day modulo 1000.
fn mark5b_of_day(day: u32, second: u32, number: u32, fill: bool) -> Vec<u8> {
    let decimals = |number: u32, digits: u32| {
        (0..digits).fold(0, |code, digit| code | (number / 10_u32.pow(digit) % 10) << (4 * digit))
    };
    let time = decimals(day, 3) << 20 | decimals(second, 5);
    let words = [0xabad_deed, 0xbead_0000 | number, time, 0];
    let mut frame: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    let payload = |byte: u32| {
        if fill {
            0x1122_3344_u32.to_le_bytes()[byte as usize % 4]
        } else {
            (byte * 7 + number + second) as u8
        }
    };
    frame.extend((0..10_000).map(payload));
    frame
}

#[test]
fn mark_5b_has_its_own_codes_and_times() {
    // Two channels of two bits, 20,000 samples a frame, four frames a second.
    let frames: Vec<Vec<u8>> = (2..11)
        .filter(|&index| index != 5)
        .map(|index| mark5b(19_801 + index / 4, index % 4, index == 7))
        .collect();
    let (_folder, paths) = write(&[frames.concat()]);
    let options = Options {
        inputs: Some(2),
        near: Some(format::moment("2014-06-13").unwrap()),
        ..Options::default()
    };
    let mut recording = format::open_raw(&paths, options).unwrap();
    assert_eq!(recording.interval(), Some(1.0 / 80_000.0));
    assert_eq!(recording.start().unwrap().to_string(), "2014-06-13T05:30:01.5Z");
    let sample = |input: usize, time: usize| {
        let index = 2 + time as u32 / 20_000;
        let (second, number) = (19_801 + index / 4, index % 4);
        let bit = (time % 20_000 * 2 + input) * 2;
        let byte = (bit as u32 / 8 * 7 + number + second) as u8 >> (bit % 8);
        let (sign, magnitude) = (byte & 1, byte >> 1 & 1);
        let value = match (sign, magnitude) {
            (0, 0) => -3.3165,
            (1, 0) => 1.0,
            (0, _) => -1.0,
            (_, _) => 3.3165,
        };
        Complex::new(value, 0.0)
    };
    let there = |_, time: usize| ![5, 7].contains(&(2 + time / 20_000));
    compare(&mut *recording, 9 * 20_000, &[12_345], sample, there);

    let none = Options::default();
    assert!(refusal(&[mark5b(1, 0, false)], none).contains("expected their number"));
    let three = Options { inputs: Some(3), ..none };
    assert!(refusal(&[mark5b(1, 0, false)], three).contains("3 inputs: expected a power of two"));
    let bits = Options { inputs: Some(2), bits: Some(4), ..none };
    assert!(refusal(&[mark5b(1, 0, false)], bits).contains("samples of 4 bits: expected 1 or 2"));
}

#[test]
fn mark_5b_goes_on_after_a_thousand_days() {
    let last = (0..4).map(|number| mark5b_of_day(999, 86_399, number, false));
    let first = (0..4).map(|number| mark5b_of_day(0, 0, number, false));
    let [last, first] = [last.collect::<Vec<_>>().concat(), first.collect::<Vec<_>>().concat()];
    for (near, start) in
        [("2023-02-25", "2023-02-24T23:59:59Z"), ("2025-11-20", "2025-11-20T23:59:59Z")]
    {
        let near = Some(format::moment(near).unwrap());
        let options = Options { inputs: Some(2), near, ..Options::default() };
        // Files in any order.
        for files in [vec![[&last[..], &first].concat()], vec![first.clone(), last.clone()]] {
            let (_folder, paths) = write(&files);
            let recording = format::open_raw(&paths, options).unwrap();
            assert_eq!((recording.times(), recording.interval()), (160_000, Some(1.0 / 80_000.0)));
            assert_eq!(recording.start().unwrap().to_string(), start);
        }
    }
}

/// How many bytes of samples a second of a processor's time are read from the page cache:
/// `cargo test --release --test formats -- --ignored --nocapture vdif::speed`.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "measures"]
fn speed() {
    let spent = || -> f64 {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
    };
    for (name, threads, channels_log2, bits, complex) in [
        ("8 threads, 2 bits", 8, 0, 2, false),
        ("1 thread of 8 channels, 2 bits", 1, 3, 2, false),
        ("1 thread of 16 channels, 1 bit", 1, 4, 1, false),
        ("2 threads of 16 channels, complex 8 bits", 2, 4, 8, true),
        ("1 thread, 16 bits", 1, 0, 16, false),
    ] {
        let samples = 64_000 / (bits << channels_log2) / if complex { 2 } else { 1 };
        let setup = Setup {
            bits,
            complex,
            channels_log2,
            threads: (0..threads).collect(),
            samples,
            per_second: 1 << 23,
            ..Setup::plain()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scan.vdif");
        let mut frames: Vec<Vec<u8>> =
            (0..threads).map(|thread| setup.frame(0, thread, false)).collect();
        let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
        for number in 0..(512 << 20) / 8032 / threads as u32 {
            for frame in &mut frames {
                frame[4..7].copy_from_slice(&number.to_le_bytes()[..3]);
                std::io::Write::write_all(&mut file, frame).unwrap();
            }
        }
        drop(file);
        let (mut bytes, mut best) = (0, f64::MAX);
        for _ in 0..3 {
            let mut recording = format::open_raw(&[&path], options(&setup)).unwrap();
            let (shape, mut block) = (recording.shape(), Block::new());
            let times = (16 << 20) / shape.bytes(8).div_ceil(8);
            bytes = shape.bytes(recording.times() as usize);
            let start = spent();
            while recording.read_block(times, &mut block).unwrap() > 0 {}
            best = best.min(spent() - start);
        }
        println!("{name}: {:.2} GB/s of samples", bytes as f64 / best / 1e9);
    }
}
