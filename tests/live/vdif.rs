//! Frames of VDIF, live: frames over the network give the same results as a file of them.

use std::{
    collections::HashMap,
    fs,
    net::UdpSocket,
    path::{Path, PathBuf},
    time::Duration,
};

use corrust::{
    Channeliser, Device,
    format::{
        self, Options, RawShape,
        npy::{Dtype, Writer},
    },
    run::Reader,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use service::{Service, numbers};

use crate::{service, support::command};

/// A recording in frames of 64 bytes of samples.
struct Case {
    threads: Vec<u16>,
    channels: usize,
    bits: usize,
    complex: bool,
    legacy: bool,
    /// Frames of a thread a second.
    per_second: u32,
    /// The first frame's number in its second.
    first: u32,
    frames: u32,
    random: StdRng,
    /// Device of the service.
    device: &'static str,
}

const PAYLOAD: usize = 64;

/// Seconds of 2026-01-01 after which the recording begins: 2026-01-01T00:01:40.
const SECOND: u32 = 100;

impl Case {
    fn samples(&self) -> usize {
        8 * PAYLOAD / (self.channels * self.bits * if self.complex { 2 } else { 1 })
    }

    fn rate(&self) -> usize {
        self.samples() * self.per_second as usize
    }

    fn encoding(&self) -> String {
        format!("vdif-{}{}", self.bits, if self.complex { "-complex" } else { "" })
    }

    /// Options of `corrust serve`, which receives samples of an encoding.
    fn options(&self, encoding: &str) -> String {
        let threads: Vec<_> = self.threads.iter().map(u16::to_string).collect();
        format!(
            "--vdif {} --thread-channels {} --encoding {encoding} --rate {} --frame-bytes {PAYLOAD} --device {}",
            threads.join(","),
            self.channels,
            self.rate(),
            self.device
        )
    }

    /// A frame, as the specification has it.
    fn frame(&self, thread: u16, index: u32, payload: &[u8]) -> Vec<u8> {
        let number = self.first + index;
        let (second, number) = (SECOND + number / self.per_second, number % self.per_second);
        let header = if self.legacy { 16 } else { 32 };
        let words = [
            u32::from(self.legacy) << 30 | second,
            // Half years since 2000.
            52 << 24 | number,
            (self.channels.ilog2() << 24) | ((header + payload.len()) as u32 / 8),
            u32::from(self.complex) << 31
                | (self.bits as u32 - 1) << 26
                | u32::from(thread) << 16
                | 0x6f63,
            0,
            0,
            0,
            0,
        ];
        let words = words.into_iter().flat_map(u32::to_le_bytes).take(header);
        words.chain(payload.iter().copied()).collect()
    }
}

/// Frames that a listener hears, by sender, and their fates.
struct Sent {
    frames: Vec<(usize, Vec<u8>)>,
    fates: HashMap<&'static str, u64>,
    faults: HashMap<&'static str, u64>,
    /// Frames that count, in order: the file.
    kept: Vec<u8>,
}

impl Case {
    /// Frames with losses, in another order, repeated, invalid, and of everything that does not belong.
    fn send(&mut self) -> Sent {
        let mut sent = Sent {
            frames: Vec::new(),
            fates: HashMap::new(),
            faults: HashMap::new(),
            kept: Vec::new(),
        };
        let mut places = Vec::new();
        for index in 0..self.frames {
            for thread in self.threads.clone() {
                let payload: Vec<u8> = (0..PAYLOAD).map(|_| self.random.random()).collect();
                let frame = self.frame(thread, index, &payload);
                let edge = index < 2 || index + 2 > self.frames;
                let fate = if edge { 9 } else { self.random.random_range(0..40) };
                if fate == 0 {
                    continue;
                }
                let mut put = |frame: Vec<u8>, sender: usize, fate: &'static str, after: f64| {
                    places.push((f64::from(index) + after, sender, frame));
                    *sent.fates.entry(fate).or_default() += 1;
                };
                match fate {
                    1 => {
                        // It says that it is invalid, and nothing else comes.
                        let mut frame = frame;
                        frame[3] |= 0x80;
                        put(frame, 0, "invalid", 0.0);
                        continue;
                    }
                    2 => put(frame.clone(), 0, "repeated", 2.5),
                    3 => put(frame.clone(), 1, "conflicting", 2.5),
                    4 => {
                        // A valid one follows.
                        let mut frame = frame.clone();
                        frame[3] |= 0x80;
                        put(frame, 0, "invalid", 0.0);
                    }
                    5 => put(self.frame(77, index, &payload), 1, "unknown", 0.0),
                    6 => {
                        let mut other = frame.clone();
                        other[15] ^= 0x08;
                        put(other, 1, "size", 0.0);
                    }
                    7 => {
                        // Beyond all numbers of a second.
                        let mut other = frame.clone();
                        other[6] = 0xff;
                        put(other, 1, "misaligned", 0.0);
                    }
                    8 => {
                        let mut other = frame.clone();
                        // Days later.
                        other[2] ^= 0x10;
                        put(other, 1, "astray", 0.0);
                    }
                    _ => {}
                }
                // Up to two frames late.
                let late = if edge { 0.0 } else { self.random.random_range(0.0..2.0) };
                put(frame.clone(), 0, "placed", late);
                sent.kept.extend(frame);
            }
        }
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        sent.frames = places.into_iter().map(|(_, sender, frame)| (sender, frame)).collect();
        let some = sent.frames[0].1.clone();
        let cut = some[..some.len() - 8].to_vec();
        for (packet, fault) in [
            (vec![], "cut"),
            (cut, "cut"),
            (vec![0x53; 96], "foreign"),
            (some[..9].to_vec(), "cut"),
        ] {
            sent.frames.insert(sent.frames.len() / 2, (1, packet));
            *sent.faults.entry(fault).or_default() += 1;
        }
        sent
    }

    /// Sends and correlates it, `before` seconds after the sync time, and checks every dump against the file's.
    fn check(&mut self, before: u32, engine: &str, integration: usize, vtp: bool) {
        let (encoding, rate) = (self.encoding(), self.rate());
        let offline = |_: &Path| format!("{engine} --rate {rate}");
        self.compare(before, [&encoding, engine], integration, vtp, offline);
    }

    /// [`check`](Self::check) of samples of an encoding with an engine, against the file with the options that a folder
    /// with it gives.
    fn compare(
        &mut self,
        before: u32,
        [encoding, engine]: [&str; 2],
        integration: usize,
        vtp: bool,
        offline: impl FnOnce(&Path) -> String,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let sent = self.send();
        fs::write(folder.path().join("scan.vdif"), &sent.kept).unwrap();
        let sync =
            format!("2026-01-01T00:{:02}:{:02}", (SECOND - before) / 60, (SECOND - before) % 60);
        let arguments = format!(
            "{} {engine} --sync {sync} --integrate {integration} -o live/vis.npy",
            self.options(encoding)
        );
        fs::write(folder.path().join("delays.json"), DELAYS).unwrap();
        fs::create_dir(folder.path().join("live")).unwrap();
        let service = Service::start(folder.path(), &arguments);
        let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        for (number, (sender, frame)) in sent.frames.iter().enumerate() {
            let number = u64::try_from(number).unwrap();
            // VTP has a number before each frame.
            let prefix = if vtp && !frame.is_empty() { &number.to_le_bytes()[..] } else { &[] };
            let packet = [prefix, frame].concat();
            sockets[*sender].send_to(&packet, service.listen).unwrap();
            // The service keeps up on a machine that does other work, too.
            if number % 10 == 0 {
                std::thread::sleep(Duration::from_millis(3));
            }
        }
        service.wait("corrust_packets_total", sent.frames.len() as f64);
        let said = service.get("/metrics");
        for (name, counts) in [
            ("corrust_heaps_total{fate", &sent.fates),
            ("corrust_bad_packets_total{fault", &sent.faults),
        ] {
            for line in said.lines().filter_map(|line| line.strip_prefix(name)) {
                let (label, value) = line.trim_start_matches('=').split_once("} ").unwrap();
                let expected = counts.get(label.trim_matches('"')).copied().unwrap_or(0);
                assert_eq!(value, expected.to_string(), "{name} {label}: {said}");
            }
        }
        assert_eq!(service.metric("corrust_jumps_total"), 0.0);
        let said = service.end();

        let offline = format!(
            "correlate scan.vdif -o off.npy --counts counts.npy --integrate {integration} --device cpu {}",
            offline(folder.path())
        );
        command::done(folder.path(), &offline);
        let sums: Vec<i64> = numbers(&folder.path().join("off.npy"));
        let counts: Vec<u64> = numbers(&folder.path().join("counts.npy"));
        let names = dumps(&folder.path().join("live"));
        assert!(names.len() > 2 && said.contains(&format!("{} dumps: ", names.len())), "{said}");
        let (each, few) = (sums.len() / names.len(), counts.len() / names.len());
        assert_eq!([each * names.len(), few * names.len()], [sums.len(), counts.len()]);
        let mut lossy = 0;
        for ((name, sums), counts) in
            names.iter().zip(sums.chunks_exact(each)).zip(counts.chunks_exact(few))
        {
            assert_eq!(numbers::<i64>(name), sums, "{name:?}");
            let valid: Vec<u64> = numbers(&name.with_extension("valid.npy"));
            for channel in valid.chunks_exact(few) {
                assert_eq!(channel, counts, "{name:?}");
            }
            lossy += counts.iter().filter(|&&count| count < integration as u64).count();
        }
        assert!(lossy > 0, "nothing was missing");
    }
}

/// Files of dumps, in order.
fn dumps(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.to_str().unwrap().ends_with("Z.npy")).collect();
    files.sort();
    files
}

#[test]
fn frames_of_few_bits_give_what_their_file_gives() {
    // 3990 frames of 256 samples are 1064 dumps.
    sampled(1).check(0, "--channelise 16", 30, false);
}

#[test]
fn complex_frames_of_several_channels_too() {
    let mut case = Case {
        threads: vec![3, 4],
        channels: 2,
        bits: 8,
        complex: true,
        legacy: true,
        per_second: 4000,
        first: 0,
        frames: 800,
        random: StdRng::seed_from_u64(2),
        device: "cpu",
    };
    // A second before, of 4000 frames: chunks of 3 and of 15 frames begin elsewhere than the recording does.
    case.check(1, "--channelise 8 --taps 4 --oversample 8/4", 100, true);
    case.random = StdRng::seed_from_u64(3);
    case.check(1, "--channelise 8 --output-encoding ci4", 250, false);
}

/// Delays of four inputs: none, a cable's, one that changes, and one that turns.
const DELAYS: &str = r#"{"epoch": "2026-01-01T00:01:40Z", "delays": [0, 1.5e-6,
    [{"start": -10, "end": 600, "coefficients": [2.1e-6, -3e-7, 1e-9]}], -4e-7]}"#;

/// A sampler's two bits of four antennas, on both sides of a second's end.
fn sampled(seed: u64) -> Case {
    Case {
        threads: vec![0, 1, 2, 5],
        channels: 1,
        bits: 2,
        complex: false,
        legacy: false,
        per_second: 4000,
        first: 3990,
        frames: 150,
        random: StdRng::seed_from_u64(seed),
        device: "cpu",
    }
}

/// Subchannels and flags of spectra, with frames that are lost, whatever chunks they come in.
#[test]
fn spectra_become_subchannels_and_are_flagged() {
    let flag = "--flag sk --false-alarm 0.05 --sk-times";
    sampled(8).check(0, &format!("--channelise 16 {flag} 40"), 80, false);
    sampled(9).check(0, "--channelise 16 --upchannelise 4 --unit-noise", 20, false);
    for (seed, steps) in [(11, String::new()), (12, format!("--upchannelise 2 {flag} 24"))] {
        // Channels of spectra that the first of several GPUs makes.
        let mut case = Case { device: "sim,sim", ..sampled(seed) };
        case.check(0, &format!("--channelise 16 {steps}"), 120, false);
    }
    // Flags and subchannels of all channels, sums of some of them.
    let engine = format!("--channelise 16 --upchannelise 2 {flag} 24");
    let mut case = sampled(13);
    let (encoding, rate) = (case.encoding(), case.rate());
    let offline = format!("{engine} --rate {rate} --channels 5..19");
    case.compare(0, [&encoding, &format!("{engine} --only 5..19")], 120, false, |_| offline);
    sampled(10).check(0, &format!("--channelise 16 --upchannelise 2 {flag} 24"), 120, false);
}

#[test]
fn delays_count_from_their_epoch() {
    let engine = "--channelise 16 --delays delays.json --sky-frequency 150MHz";
    sampled(4).check(0, engine, 30, false);
    sampled(5).check(0, &format!("{engine} --taps 1 --oversample 4/3"), 40, false);
}

#[test]
fn levels_are_those_of_the_first_chunk() {
    let mut case = sampled(6);
    let (rate, encoding) = (case.rate() as f64, case.encoding());
    let gains = |folder: &Path| {
        let options = Options { rate: Some(rate), ..Options::default() };
        let recording = format::open_raw(&[folder.join("scan.vdif")], options).unwrap();
        let RawShape { inputs, encoding, layout } = recording.shape();
        let builder = Channeliser::builder(inputs, 16).encoding(encoding).layout(layout);
        let builder = builder.device(Device::Cpu);
        let shape = builder.shape().unwrap();
        // As many frames as have twice a spectrum's samples.
        let mut voltages = Reader::over(recording, 2 * shape.window()).filled();
        let leveled = builder.level(25.0, voltages.first().unwrap().unwrap()).unwrap();
        let mut file =
            Writer::appending(folder.join("gains.npy"), Dtype::Complex64, &[16]).unwrap();
        file.append(bytemuck::cast_slice(leveled.gains_set())).unwrap();
        file.finish().unwrap();
        format!("--channelise 16 --gains gains.npy --rate {rate}")
    };
    case.compare(0, [&encoding, "--channelise 16 --level 25"], 30, false, gains);
}

#[test]
fn channels_of_one_and_two_bits_are_correlated_as_they_are() {
    // Words of 128 times are of one frame, and of four.
    for (bits, channels, frames, before, vtp) in
        [(1, 2, 200, 0, false), (2, 4, 800, 1, true), (2, 1, 300, 0, false)]
    {
        let mut case = Case {
            threads: vec![0, 3, 4],
            channels,
            bits,
            complex: true,
            legacy: vtp,
            per_second: 4000,
            first: 0,
            frames,
            random: StdRng::seed_from_u64(7),
            device: "cpu",
        };
        let encoding = format!("b{bits}");
        let offline = format!("--encoding {encoding}");
        case.compare(before, [&encoding, ""], 1280, vtp, |_| offline.clone());
        case.random = StdRng::seed_from_u64(8);
        let coefficients = format!("{offline} --van-vleck=0.9");
        case.compare(before, [&encoding, "--van-vleck=0.9"], 1280, vtp, |_| coefficients);
    }
}

#[test]
fn what_send_sends_is_correlated() {
    let folder = tempfile::tempdir().unwrap();
    let simulate =
        "simulate --raw -o scan.vdif --inputs 3 --rate 2MHz --times 800000 --encoding vdif-2";
    command::done(folder.path(), simulate);
    fs::create_dir(folder.path().join("live")).unwrap();
    let arguments =
        "--vdif 0-2 --rate 2MHz --channelise 64 --device cpu --seconds 0.04 -o live/vis.npy";
    let service = Service::start(folder.path(), arguments);
    let said = command::done(folder.path(), &format!("send scan.vdif --to {}", service.listen));
    assert!(said.contains("sent 120 frames in 0."), "{said}");
    let frames = said.split("sent ").nth(1).unwrap().split(' ').next().unwrap();
    service.wait("corrust_heaps_total{fate=\"placed\"}", frames.parse().unwrap());
    service.end();
    let offline = "correlate scan.vdif --channelise 64 --device cpu --seconds 0.04 -o off.npy";
    command::done(folder.path(), offline);
    let sums: Vec<i64> = numbers(&folder.path().join("off.npy"));
    let live: Vec<i64> =
        dumps(&folder.path().join("live")).iter().flat_map(|name| numbers(name)).collect();
    assert!(!sums.is_empty() && live == sums);
}

#[test]
fn what_cannot_be_served_gets_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("d.json"), r#"{"delays": [[0], [0]]}"#).unwrap();
    for (arguments, sentence) in [
        ("--vdif 0-7", "--channelise"),
        ("--channelise 64", "--vdif"),
        ("--vdif 7-0 --channelise 64", "expected numbers of threads from 0 to 1023"),
        ("--vdif 0-1024 --channelise 64", "expected numbers of threads from 0 to 1023"),
        ("--vdif 0,1,0 --channelise 64", "3 threads of which 2 differ"),
        ("--vdif 0 --channelise 64 --encoding ci8", "expected one of its own encodings"),
        ("--vdif 0 --channelise 64 --thread-channels 3", "expected a power of two"),
        ("--vdif 0 --channelise 64 --frame-bytes 100", "expected a multiple of 8 bytes"),
        ("--vdif 0 --channelise 64 --frame-bytes 70000", "and at most 65507"),
        ("--vdif 0 --channelise 64 --rate 1.5", "--rate 1.5 Hz: expected one of which frames"),
        (
            "--vdif 0 --channelise 64 --rate 1MHz --frame-bytes 800",
            "a whole number of frames of 3200",
        ),
        ("--vdif 0 --channelise 64 --sync 2026-03-01T00:00:00.5", "expected a whole second"),
        ("--vdif 0 --channelise 64 --fengs 4", "cannot be used with"),
        ("--vdif 0 --channelise 7", "7 channels"),
        ("--vdif 0 --channelise 64 --output-encoding cf32", "which are correlated"),
        ("--taps 4", "--vdif"),
        (
            "--vdif 0 --channelise 64 --van-vleck -o v.npy",
            "--van-vleck of ci8 samples: expected b1 or b2",
        ),
        ("--vdif 0 --encoding b1 --van-vleck", "no files are written, expected --output"),
        ("--vdif 0 --encoding b1 --flag sk", "b1"),
        ("--vdif 0 --encoding b1 --upchannelise 4", "b1"),
        (
            "--vdif 0 --channelise 64 --oversample 2 --upchannelise 4",
            "--upchannelise: of channels that overlap",
        ),
        ("--vdif 0 --encoding b1 --taps 4", "--channelise"),
        (
            "--vdif 0 --encoding b1 --channelise 64",
            "--channelise of b1: expected an encoding such as vdif-2-complex",
        ),
        (
            "--vdif 0 --encoding b2 --integrate 100 --listen 127.0.0.1:0 --http 127.0.0.1:0",
            "an integration of 100 times of b2: expected a multiple of 128",
        ),
    ] {
        let said = command::refused(folder.path(), &format!("serve --device cpu {arguments}"));
        assert!(said.contains(sentence), "{arguments}: {said}");
    }
}
