//! GUPPI RAW files: every arrangement of antennas, polarisations, overlap, padding and gaps is read
//! as the same samples, and files that are not what they should be get one sentence.

use std::ops::Range;

use corrust::{
    Encoding, Layout,
    correlate::Shape,
    format::{self, Block, Options},
    samples::Missing,
};
use proptest::prelude::*;

use crate::support::files::write;

/// The value of one byte of a sample.
fn byte(antenna: usize, channel: usize, polarisation: usize, time: usize, part: usize) -> u8 {
    (antenna * 61 + channel * 89 + polarisation * 139 + time * 7 + (time >> 8) * 3 + part * 101)
        as u8
}

/// How a recording is written.
#[derive(Clone, Debug)]
struct Setup {
    antennas: usize,
    channels: usize,
    polarisations: usize,
    /// Value of `NPOL`.
    npol: usize,
    times: usize,
    overlap: usize,
    direct_io: bool,
    pad_data: bool,
    simple: bool,
    /// Packets of a block and the cards that tell: `PIPERBLK`, `PKTSIZE`, neither, no `PKTIDX`.
    packets: Packets,
    first_packet: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Packets {
    PerBlock(usize),
    Size,
    Inferred(usize),
    None,
}

impl Setup {
    fn plain() -> Self {
        Self {
            antennas: 1,
            channels: 3,
            polarisations: 2,
            npol: 4,
            times: 16,
            overlap: 0,
            direct_io: false,
            pad_data: false,
            simple: false,
            packets: Packets::Size,
            first_packet: 0,
        }
    }

    fn bytes_per_time(&self) -> usize {
        self.antennas * self.channels * self.polarisations * 2
    }

    fn packets_per_block(&self) -> usize {
        match self.packets {
            Packets::PerBlock(packets) | Packets::Inferred(packets) => packets,
            // Packets of one time each.
            Packets::Size => self.times - self.overlap,
            Packets::None => 1,
        }
    }

    fn cards(&self, index: usize) -> Vec<String> {
        let mut cards = vec![
            "BACKEND = 'GUPPI   '           / name of the instrument".to_owned(),
            format!("OBSNCHAN= {:>20}", self.antennas * self.channels),
            format!("NPOL    = {:>20}", self.npol),
            "NBITS   =                    8".to_owned(),
            format!("OVERLAP = {:>20}", self.overlap),
            format!("BLOCSIZE= {:>20}", self.times * self.bytes_per_time()),
            "TBIN    =               5.0E-6 / seconds".to_owned(),
            "COMMENT a card without a value".to_owned(),
            format!("PKTFMT  = '{}'", if self.simple { "SIMPLE" } else { "1SFA" }),
        ];
        if self.antennas > 1 {
            cards.push(format!("NANTS   = {}", self.antennas));
        }
        if self.direct_io {
            cards.push("DIRECTIO=                    1".to_owned());
        }
        match self.packets {
            Packets::PerBlock(packets) => cards.push(format!("PIPERBLK= {packets}")),
            Packets::Size => cards.push(format!("PKTSIZE = {}.0", self.bytes_per_time())),
            Packets::Inferred(_) | Packets::None => {}
        }
        if self.packets != Packets::None {
            let packet = self.first_packet + index * self.packets_per_block();
            cards.push(format!("PKTIDX  = {packet:>20}"));
        }
        cards.push("END".to_owned());
        cards
    }

    /// The bytes of the block that stands at place `index` of the observation.
    fn block(&self, index: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            self.cards(index).iter().flat_map(|card| format!("{card:80}").into_bytes()).collect();
        let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(512), 0);
        if self.direct_io {
            pad(&mut bytes);
        }
        let start = index * (self.times - self.overlap);
        let mut sample = |antenna, channel, time| {
            for polarisation in 0..self.polarisations {
                for part in 0..2 {
                    bytes.push(byte(antenna, channel, polarisation, start + time, part));
                }
            }
        };
        if self.simple {
            for time in 0..self.times {
                for antenna in 0..self.antennas {
                    for channel in 0..self.channels {
                        sample(antenna, channel, time);
                    }
                }
            }
        } else {
            for antenna in 0..self.antennas {
                for channel in 0..self.channels {
                    for time in 0..self.times {
                        sample(antenna, channel, time);
                    }
                }
            }
        }
        if self.direct_io && self.pad_data {
            pad(&mut bytes);
        }
        bytes
    }

    /// Samples that reading `range` must give when only the blocks of `present` were written.
    fn expected(&self, present: &[usize], range: Range<usize>) -> (Vec<u8>, Vec<Range<usize>>) {
        let there = |time: usize| {
            present.iter().any(|index| {
                let start = index * (self.times - self.overlap);
                (start..start + self.times).contains(&time)
            })
        };
        let mut samples = Vec::new();
        for channel in 0..self.channels {
            for antenna in 0..self.antennas {
                for polarisation in 0..self.polarisations {
                    for time in range.clone() {
                        for part in 0..2 {
                            let value = byte(antenna, channel, polarisation, time, part);
                            samples.push(if there(time) { value } else { 0 });
                        }
                    }
                }
            }
        }
        let mut missing: Vec<Range<usize>> = Vec::new();
        for time in range.clone().filter(|&time| !there(time)) {
            let time = time - range.start;
            match missing.last_mut() {
                Some(last) if last.end == time => last.end += 1,
                _ => missing.push(time..time + 1),
            }
        }
        (samples, missing)
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    (
        (1_usize..4, 1_usize..4, prop_oneof![Just((1, 1)), Just((2, 2)), Just((2, 4))]),
        (2_usize..40, 0_usize..10),
        any::<(bool, bool, bool)>(),
        prop_oneof![
            (1_usize..5).prop_map(Packets::PerBlock),
            Just(Packets::Size),
            (1_usize..5).prop_map(Packets::Inferred),
            Just(Packets::None),
        ],
        0_usize..1000,
    )
        .prop_map(
            |(
                (antennas, channels, (polarisations, npol)),
                (times, overlap),
                flags,
                packets,
                first,
            )| {
                Setup {
                    antennas,
                    channels,
                    polarisations,
                    npol,
                    times,
                    overlap: overlap.min(times - 1),
                    direct_io: flags.0,
                    pad_data: flags.1,
                    simple: flags.2,
                    packets,
                    first_packet: first,
                }
            },
        )
}

proptest! {
    /// However a recording is arranged, cut and read, each time comes out once, and times that no
    /// block has are zero and missing.
    #[test]
    fn every_time_is_read_once(
        setup in setups(),
        gaps in prop::collection::vec(0_usize..3, 0..6),
        files in prop::collection::vec(0_usize..3, 0..6),
        cuts in prop::collection::vec(1_usize..60, 1..6),
    ) {
        // The second block shows how many packets a block has, if nothing else does.
        let tells_gaps = setup.packets != Packets::None;
        let mut present = vec![0, 1];
        for gap in gaps {
            present.push(present.last().unwrap() + 1 + if tells_gaps { gap } else { 0 });
        }
        let mut contents = vec![Vec::new()];
        for (place, &index) in present.iter().enumerate() {
            contents.last_mut().unwrap().extend(setup.block(index));
            if files.get(place) == Some(&0) && place + 1 < present.len() {
                contents.push(Vec::new());
            }
        }
        let (_folder, paths) = write(&contents);
        let mut recording = format::open(&paths, Options::default()).unwrap();
        prop_assert_eq!(recording.shape(), Shape {
            inputs: setup.antennas * setup.polarisations,
            channels: setup.channels,
            encoding: Encoding::Ci8,
            layout: Layout::Cnt,
        });
        let times = present.last().unwrap() * (setup.times - setup.overlap) + setup.times;
        prop_assert_eq!(recording.times(), times as u64);
        prop_assert_eq!(recording.interval(), Some(5e-6));
        let mut block = Block::new();
        let mut position = 0;
        for cut in cuts.into_iter().cycle() {
            let count = recording.read_block(cut, &mut block).unwrap();
            prop_assert_eq!(count, cut.min(times - position));
            let (samples, missing) = setup.expected(&present, position..position + count);
            prop_assert_eq!(&block.samples, &samples);
            prop_assert_eq!(block.missing_within(&(0..count)), missing.iter().map(Range::len).sum::<usize>());
            prop_assert!(block.missing.iter().cloned().eq(missing.into_iter().map(Missing::times)));
            position += count;
            if count == 0 {
                break;
            }
        }
        prop_assert_eq!(position, times);
    }

    /// A recording with some bytes changed or cut off is refused or read, without a panic.
    #[test]
    fn damaged_files_are_refused_or_read(
        setup in setups(),
        changes in prop::collection::vec((0_usize..5000, any::<u8>()), 0..6),
        digits in prop::collection::vec((0_usize..1200, b'0'..=b'9'), 0..6),
        cut in 0_usize..5000,
    ) {
        let mut bytes = [setup.block(0), setup.block(1), setup.block(3)].concat();
        let length = bytes.len();
        for (index, value) in changes.into_iter().chain(digits) {
            bytes[index % length] = value;
        }
        bytes.truncate(length.saturating_sub(cut.saturating_sub(4000)));
        let (_folder, paths) = write(&[bytes]);
        if let Ok(mut recording) = format::open(&paths, Options::default()) {
            let mut block = Block::new();
            for _ in 0..100 {
                recording.read_block(5, &mut block).unwrap();
            }
        }
    }

    /// No cards make the reader panic.
    #[test]
    fn any_cards_are_refused_or_read(
        cards in prop::collection::vec(
            (
                proptest::sample::select(vec![
                    "OBSNCHAN", "NPOL", "NBITS", "NANTS", "BLOCSIZE", "OVERLAP", "DIRECTIO",
                    "PKTIDX", "PKTSIZE", "PIPERBLK", "TBIN", "PKTFMT",
                ]),
                prop_oneof![
                    any::<u64>().prop_map(|value| value.to_string()),
                    (0_u64..20).prop_map(|value| value.to_string()),
                    Just("8".to_owned()),
                    "[ -~]{0,20}",
                ],
            ),
            0..20,
        ),
        data in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut header: Vec<u8> = Vec::new();
        for (name, value) in &cards {
            header.extend(format!("{name:8}= {value:70}").into_bytes());
        }
        header.extend(format!("{:80}", "END").into_bytes());
        let bytes = [&header[..], &data, &header, &data].concat();
        let (_folder, paths) = write(&[bytes]);
        if let Ok(mut recording) = format::open(&paths, Options::default()) {
            let mut block = Block::new();
            for _ in 0..10 {
                recording.read_block(5, &mut block).unwrap();
            }
        }
    }
}

/// The sentence that opening files of these bytes fails with.
fn refusal(files: &[Vec<u8>], options: Options) -> String {
    let (_folder, paths) = write(files);
    let error = format::open(&paths, options).err().expect("the file must be refused");
    let text = error.to_string();
    assert!(text.contains("scan."), "{text:?} names the file");
    assert!(!text.contains('\n'), "{text:?} is one sentence");
    text
}

/// A plain block with one card replaced, or taken out if there is no `value`.
fn with_card(name: &str, value: Option<&str>) -> Vec<u8> {
    let setup = Setup::plain();
    let block = setup.block(0);
    let cards = setup.cards(0);
    let data = block[cards.len() * 80..].to_vec();
    let mut found = false;
    let mut bytes = Vec::new();
    for card in cards {
        if card.starts_with(&format!("{name:8}")) {
            found = true;
            let Some(value) = value else { continue };
            bytes.extend(format!("{:80}", format!("{name:8}= {value}")).into_bytes());
        } else {
            bytes.extend(format!("{card:80}").into_bytes());
        }
    }
    assert!(found, "the block has a card {name}");
    [bytes, data].concat()
}

#[test]
fn bad_files_get_one_sentence() {
    let setup = Setup::plain();
    let good = setup.block(0);
    let cards = setup.cards(0).len() * 80;
    let cases: &[(Vec<u8>, &str)] = &[
        (
            good[..good.len() - 1].to_vec(),
            "truncated: 191 bytes of data in the block at byte 0, expected 192",
        ),
        ([&good[..], &good[..100]].concat(), "truncated in a header: expected a card \"END\""),
        (good[..cards].to_vec(), "truncated: 0 bytes of data"),
        (good[..cards - 80].to_vec(), "truncated in a header"),
        ([&good[..], &[7; 80]].concat(), "a card starts with \"\\x07"),
        (with_card("NBITS", Some("3")), "NBITS = 3: expected 2, 4, 8 or 16"),
        (with_card("NBITS", None), "no card NBITS"),
        (with_card("NPOL", Some("3")), "NPOL = 3: expected 1, 2 or 4"),
        (with_card("OBSNCHAN", Some("0")), "OBSNCHAN = 0 with NANTS = 1"),
        (with_card("OBSNCHAN", Some("-3")), "OBSNCHAN = \"-3\": expected a whole number"),
        (with_card("OBSNCHAN", Some("5")), "BLOCSIZE = 192: expected a positive multiple of 20"),
        (with_card("BLOCSIZE", Some("0")), "BLOCSIZE = 0: expected a positive multiple of 12"),
        (with_card("OVERLAP", Some("16")), "OVERLAP = 16: expected less than the block's 16"),
        (with_card("BLOCSIZE", Some("18446744073709551612")), "truncated: 192 bytes of data"),
    ];
    for (bytes, expected) in cases {
        let text = refusal(std::slice::from_ref(bytes), Options::default());
        assert!(text.contains(expected), "{text:?} says {expected:?}");
    }
    let ci4 = Options { encoding: Some(Encoding::Ci4), ..Options::default() };
    assert!(refusal(std::slice::from_ref(&good), ci4).contains("holds ci8 samples, not ci4"));
    let tcn = Options { layout: Some(Layout::Tcn), ..Options::default() };
    assert!(refusal(&[good], tcn).contains("is read as cnt, not tcn"));
}

#[test]
fn blocks_of_one_recording_agree() {
    let setup = Setup::plain();
    let any = Options::default();
    let other = Setup { channels: 4, ..setup.clone() };
    let text = refusal(&[setup.block(0), other.block(1)], any);
    assert!(text.contains("scan.0001.bin: 1 antennas, 4 channels"), "{text}");
    assert!(text.contains("expected 1 antennas, 3 channels, 2 polarisations"), "{text}");

    // One that goes back in time.
    let text = refusal(&[[setup.block(0), setup.block(2), setup.block(1)].concat()], any);
    assert!(text.contains("PKTIDX = 16, 16 after the first block's"), "{text}");
    assert!(text.contains("at least 48 packets"), "{text}");
}

#[test]
fn far_apart_packets_do_not_overflow() {
    let first = Setup::plain();
    let far = Setup { first_packet: usize::MAX / 2, ..first.clone() };
    let (_folder, paths) = write(&[first.block(0), far.block(0)]);
    let options = Options { long_gaps: true, ..Options::default() };
    let mut recording = format::open(&paths, options).unwrap();
    assert_eq!(recording.times(), (usize::MAX / 2 + 16) as u64);
    assert_eq!(recording.gaps(), std::slice::from_ref(&(16..usize::MAX as u64 / 2)));
    let mut block = Block::new();
    recording.read_block(32, &mut block).unwrap();
    assert_eq!(block.missing, [Missing::times(16..32)]);
    let piper = Setup { packets: Packets::PerBlock(1), ..first };
    let far = Setup { first_packet: usize::MAX - 1, ..piper.clone() };
    let text = refusal(&[piper.block(0), far.block(0)], options);
    assert!(text.contains("PKTIDX"), "{text}");
}
