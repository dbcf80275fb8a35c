//! `corrust observe` of a live stream: products are those of a recording of the same samples.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::UdpSocket,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::support::{
    command::{command, done, refused},
    witness,
};

const ARRAY: &str = r#"{"telescope": "example",
 "location": {"latitude": -30.72, "longitude": 21.43, "altitude": 1051.7},
 "antennas": [{"position": [0, 0, 0]}, {"position": [14.6, 0, 0]}, {"position": [7.3, 12.6, 0]},
  {"position": [-40, 3, 0.5]}, {"position": [60, 1, 0]}, {"position": [-20, -33, 0]}],
 "first_channel": 150e6, "channel_width": 1e6"#;

/// F-engines of two inputs and ten channels, a time every 50 us, sent from a recording of 5120 times.
const STREAM: &str =
    "fengs = 3, channels = 10, rate = \"400kHz\", sync = 2026-03-01T12:00:00, wraps = 0";
const SEND: &str = "send scan.npy --rate 400kHz --layout tcn --heap-channels 5";

/// A plan's tables of products, each named with a prefix.
fn products(prefix: &str, beams: &str) -> String {
    format!(
        r#"
[[visibilities]]
output = "{prefix}v.npy"
integrate = 500
counts = "{prefix}c.npy"
[[visibilities]]
output = "{prefix}v.uvh5"
integrate = 640
channels = "2..7"
[[beams]]
weights = "weights.npy"
shifts = "shifts.npy"
output = "{prefix}b.{beams}"
[[power]]
output = "{prefix}p.fil"
integrate = 8
[[spectra]]
output = "{prefix}s.npy"
integrate = 1000
[[kurtosis]]
output = "{prefix}k.npy"
"#
    )
}

/// A folder with a recording, weights and array files: one for the stream, one for the recording.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(path, "simulate -o scan.npy --inputs 6 --channels 10 --times 5120 --sources 1");
    done(path, "weights scan.json -o weights.npy --shifts shifts.npy --pointing 0,0,1 --shift 9");
    fs::write(path.join("array.json"), format!("{ARRAY}}}")).unwrap();
    let known = r#""sample_time": 5e-5, "start": "2026-03-01T12:00:00Z""#;
    fs::write(path.join("known.json"), format!("{ARRAY}, {known}}}")).unwrap();
    folder
}

/// An observation that listens.
struct Listening {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Listening {
    fn start(folder: &Path, live: &str, others: &str) -> Self {
        Self::of(folder, STREAM, live, others)
    }

    /// The same of a stream that is described.
    fn of(folder: &Path, stream: &str, live: &str, others: &str) -> Self {
        let live = format!("live = {{ listen = \"127.0.0.1:0\", {stream}, {live} }}");
        fs::write(folder.join("live.toml"), format!("[input]\n{live}\n{others}")).unwrap();
        let mut command = command(folder, "observe live.toml");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening to ").and_then(|rest| rest.split(',').next());
        let address = address.unwrap_or_else(|| {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{line}{said}")
        });
        Self { address: address.to_owned(), child, output }
    }

    fn send(&self, folder: &Path, options: &str) {
        done(folder, &format!("{SEND} --to {} {options}", self.address));
    }

    fn signal(&self) {
        let id = self.child.id().to_string();
        witness::run(Command::new("kill").args(["-TERM", &id])).unwrap();
    }

    fn end(mut self) -> String {
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

fn same(folder: &Path, names: &[&str]) {
    for name in names {
        let [live, file] =
            ["live-", "file-"].map(|from| fs::read(folder.join(format!("{from}{name}"))).unwrap());
        assert!(live == file, "{name}");
    }
}

#[test]
fn products_of_a_stream_are_those_of_its_recording() {
    for (device, flag) in [("cpu", true), ("sim", false), ("cpu", false)] {
        let folder = folder();
        let folder = folder.path();
        let judged = |prefix: &str| match flag {
            true => format!(
                "flag = {{ method = \"sk\", times = 100, false-alarm = 0.01, flags = \"{prefix}f.npy\" }}\n"
            ),
            false => String::new(),
        };
        let input = |prefix: &str, array: &str| {
            format!("array = \"{array}.json\"\ndevice = \"{device}\"\n{}", judged(prefix))
        };
        let others = input("live-", "array") + &products("live-", "npy");
        let live = Listening::start(folder, "times = 5120, silence = 2", &others);
        live.send(folder, "");
        let said = live.end();
        assert!(said.contains("120 placed"), "{said}");
        assert!(said.contains("observed 6 inputs x 10 channels x 5120 times"), "{said}");
        let input = input("file-", "known") + &products("file-", "npy");
        fs::write(folder.join("file.toml"), format!("[input]\nfiles = [\"scan.npy\"]\n{input}"))
            .unwrap();
        done(folder, "observe file.toml");
        same(folder, &["v.npy", "b.npy", "p.fil", "s.npy", "k.npy"]);
        if flag {
            same(folder, &["f.npy", "c.npy"]);
        }
    }
}

#[test]
fn subchannels_of_a_stream_are_those_of_its_recording() {
    let folder = folder();
    let folder = folder.path();
    let products = |prefix: &str| {
        format!(
            "device = \"cpu\"\nupchannelise = {{ factor = 4 }}\n\
             [[visibilities]]\noutput = \"{prefix}v.npy\"\nintegrate = 128\ncounts = \"{prefix}c.npy\"\n\
             [[kurtosis]]\noutput = \"{prefix}k.npy\"\n"
        )
    };
    let live = Listening::start(folder, "times = 5120, silence = 2", &products("live-"));
    live.send(folder, "");
    let said = live.end();
    assert!(said.contains("observed 6 inputs x 40 channels x 1280 times"), "{said}");
    let text = format!("[input]\nfiles = [\"scan.npy\"]\n{}", products("file-"));
    fs::write(folder.join("file.toml"), text).unwrap();
    done(folder, "observe file.toml");
    same(folder, &["v.npy", "k.npy"]);
}

/// Of the heaps 5 to 12, after which the stream is silent, then a signal comes.
#[test]
fn a_signal_ends_a_stream_of_any_length() {
    let folder = folder();
    let folder = folder.path();
    let input = "array = \"array.json\"\ndevice = \"cpu\"\n";
    let others = input.to_owned() + &products("live-", "fil");
    let live = Listening::start(folder, "align = 1000", &others);
    live.send(folder, "--first 5");
    std::thread::sleep(std::time::Duration::from_secs(1));
    live.signal();
    let said = live.end();
    // From time 2000 to time 5 x 256 + 5120.
    let times = 5 * 256 + 5120 - 2000;
    assert!(said.contains(&format!("x {times} times")), "{said}");
    let input = "files = [\"rest.npy\"]\narray = \"known.json\"\ndevice = \"cpu\"\n";
    let mut scan = fs::read(folder.join("scan.npy")).unwrap();
    let header = scan.len() - 5120 * 120;
    let rest = scan.split_off(header + (2000 - 5 * 256) * 120);
    let header = String::from_utf8_lossy(&scan[..header]).replace("5120", &times.to_string());
    assert!(times.to_string().len() == 4);
    let header: Vec<u8> =
        [&scan[..8], &header.as_bytes()[header.find('{').unwrap() - 2..]].concat();
    let header = [&header[..8], &scan[8..10], &header[10..]].concat();
    fs::write(folder.join("rest.npy"), [header, rest].concat()).unwrap();
    let input = input.to_owned() + &products("file-", "fil");
    fs::write(folder.join("file.toml"), format!("[input]\n{input}")).unwrap();
    done(folder, "observe file.toml");
    same(folder, &["v.npy", "s.npy", "k.npy"]);
    for name in ["p.fil", "b.0.fil"] {
        // The headers differ in the time of the first sample.
        let [live, file] = ["live-", "file-"].map(|from| {
            let path = folder.join(format!("{from}{name}"));
            let path = if path.exists() { path } else { folder.join(format!("{from}b.fil")) };
            fs::read(path).unwrap()
        });
        let samples = times / 8 * 10 * 4;
        assert!(live[live.len() - samples..] == file[file.len() - samples..], "{name}");
    }
}

/// How far the reception of packets is.
#[derive(Default)]
struct Reception {
    begun: AtomicBool,
    ended: AtomicBool,
}

/// Receives packets until the reception has ended and none comes for half a second.
fn receive(socket: UdpSocket, state: Arc<Reception>) -> JoinHandle<Vec<Vec<u8>>> {
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    std::thread::spawn(move || {
        let (mut packets, mut packet) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            match socket.recv(&mut packet) {
                Ok(length) => {
                    packets.push(packet[..length].to_vec());
                    state.begun.store(true, Ordering::Relaxed);
                }
                Err(_) if state.ended.load(Ordering::Relaxed) => return packets,
                Err(_) => {}
            }
        }
    })
}

/// Weights of 8 channels and 6 dishes, two beams, of which the second looks elsewhere in each.
fn weights(folder: &Path) {
    done(folder, "simulate -o scan.npy --inputs 6 --channels 8 --times 5120 --sources 1");
    for (name, pointing) in [("weights", "0,0,1"), ("w1", "0.4,0.1,1"), ("w2", "-0.2,0.5,1")] {
        let shifts = "--shifts shifts.npy --shift 9";
        done(folder, &format!("weights scan.json -o {name}.npy {shifts} --pointing {pointing}"));
    }
}

/// Packets of beams are the frames of the file, in their order.
#[test]
fn beams_are_sent_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    weights(folder);
    fs::write(
        folder.join("array.json"),
        r#"{"start": "2026-03-01T12:00:00Z", "sample_time": 5e-5}"#,
    )
    .unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let state = Arc::new(Reception::default());
    let packets = receive(socket, state.clone());
    let table = "[[beams]]\nweights = \"weights.npy\"\nshifts = \"shifts.npy\"\n";
    let text = format!(
        "[input]\nfiles = [\"scan.npy\"]\narray = \"array.json\"\ndevice = \"cpu\"\n\
         {table}output = \"udp://{address}\"\n{table}output = \"b.vdif\"\n"
    );
    fs::write(folder.join("plan.toml"), text).unwrap();
    let said = done(folder, "observe plan.toml");
    state.ended.store(true, Ordering::Relaxed);
    assert!(said.contains(&format!("beams udp://{address}: 2 beams")), "{said}");
    let packets = packets.join().unwrap();
    assert!(packets.len() > 4);
    assert!(packets.concat() == fs::read(folder.join("b.vdif")).unwrap());
}

/// Weights that change while a stream comes hold from the times on that are said, in files and in packets.
#[test]
fn steered_beams_follow_their_weights_from_a_time_that_is_said() {
    const ROUNDS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    weights(folder);
    for (beams, of) in [("b0", "weights"), ("b1", "w1"), ("b2", "w2")] {
        let given = format!("--weights {of}.npy --shifts shifts.npy --device cpu");
        done(folder, &format!("beamform scan.npy {given} -o {beams}.npy"));
    }
    fs::write(folder.join("array.json"), format!("{ARRAY}}}")).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let state = Arc::new(Reception::default());
    let packets = receive(socket, state.clone());
    let table = "[[beams]]\nweights = \"weights.npy\"\nshifts = \"shifts.npy\"\nsteer = true\n";
    let others = format!(
        "array = \"array.json\"\ndevice = \"cpu\"\n{table}output = \"b.npy\"\n{table}output = \"udp://{address}\"\n"
    );
    let stream = STREAM.replace("channels = 10", "channels = 8").replace("400kHz", "320kHz");
    let length = format!("times = {}, silence = 3", ROUNDS * 5120);
    let mut live = Listening::of(folder, &stream, &length, &others);
    let send = format!(
        "send scan.npy --rate 320kHz --layout tcn --heap-channels 4 --repeat {ROUNDS} --to {}",
        live.address
    );
    let mut sender = command(folder, &send).stdout(Stdio::null()).spawn().unwrap();
    let replace = |name: &str| {
        fs::copy(folder.join(name), folder.join("next.npy")).unwrap();
        fs::rename(folder.join("next.npy"), folder.join("weights.npy")).unwrap();
    };
    // Times from which on each product has other weights.
    let names = ["b.npy".to_owned(), format!("udp://{address}")];
    let mut changes: [Vec<usize>; 2] = Default::default();
    // The first beams have been formed when the first frames come.
    let begun = Instant::now();
    while !state.begun.load(Ordering::Relaxed) {
        assert!(begun.elapsed() < Duration::from_secs(60), "no beams came");
        std::thread::sleep(Duration::from_millis(20));
    }
    for name in ["w1.npy", "w2.npy"] {
        replace(name);
        for _ in 0..2 {
            let mut line = String::new();
            live.output.read_line(&mut line).unwrap();
            let said = line.trim().strip_prefix("beams ").and_then(|rest| {
                let (name, rest) = rest.split_once(": new weights from time ")?;
                Some((name.to_owned(), rest.strip_suffix(" on")?.parse().ok()?))
            });
            let (name, start): (String, usize) = said.unwrap_or_else(|| panic!("{line}"));
            changes[names.iter().position(|known| *known == name).unwrap()].push(start);
        }
        // A file that holds no weights is named, and changes nothing.
        replace("shifts.npy");
        std::thread::sleep(Duration::from_millis(400));
    }
    assert!(sender.wait().unwrap().success());
    let said = live.end();
    state.ended.store(true, Ordering::Relaxed);
    let packets = packets.join().unwrap();
    let heaps = ROUNDS * 3 * 2 * 20;
    assert!(said.contains(&format!("{heaps} placed")), "{said}");
    assert!(said.contains("; the weights stay") && said.contains("weights.npy: "), "{said}");
    let sets = ["b0", "b1", "b2"].map(|name| {
        ndarray_npy::read_npy::<_, ndarray::Array4<u8>>(folder.join(format!("{name}.npy"))).unwrap()
    });
    assert!(sets[0] != sets[1] && sets[1] != sets[2] && sets[0] != sets[2]);
    let times = ROUNDS * 5120;
    let expected = |changes: &[usize], [beam, channel, time]: [usize; 3]| {
        let set = changes.iter().filter(|start| **start <= time).count();
        sets[set][[beam, channel, 0, time % 5120]]
    };
    for changes in &changes {
        assert!(changes.len() == 2 && 0 < changes[0] && changes[0] < changes[1], "{changes:?}");
        assert!(changes[1] < times, "{changes:?}");
    }
    let found: ndarray::Array4<u8> = ndarray_npy::read_npy(folder.join("b.npy")).unwrap();
    assert_eq!(found.dim(), (2, 8, 1, times));
    for ((beam, channel, _, time), sample) in found.indexed_iter() {
        assert_eq!(
            *sample,
            expected(&changes[0], [beam, channel, time]),
            "{beam} {channel} {time}"
        );
    }
    // Of each beam, a thread, the times of its frames; VDIF has the real part in the low bits, and offsets.
    let mut next = [0; 2];
    for packet in &packets {
        let word = u32::from_le_bytes(packet[12..16].try_into().unwrap());
        let beam = (word >> 16 & 0x3ff) as usize;
        for spectrum in packet[32..].chunks_exact(8) {
            for (channel, code) in spectrum.iter().enumerate() {
                let place = [beam, channel, next[beam]];
                assert_eq!(code.rotate_left(4) ^ 0x88, expected(&changes[1], place), "{place:?}");
            }
            next[beam] += 1;
        }
    }
    assert!(next[0] == next[1] && next[0] > times - 5120 && next[0] <= times, "{next:?}");
}

#[test]
fn streams_that_cannot_be_observed_get_a_sentence() {
    let folder = folder();
    let folder = folder.path();
    let v = "[[visibilities]]\noutput = \"v.npy\"\n";
    let beams =
        "[[beams]]\nweights = \"weights.npy\"\nshifts = \"shifts.npy\"\noutput = \"b.npy\"\n";
    for (text, sentence) in [
        (
            format!("[input]\nfiles = [\"scan.npy\"]\nlive = {{}}\n{v}"),
            "line 2: files: expected one of files and live",
        ),
        (format!("[input]\nlive = 3\n{v}"), "line 2: live: expected a table"),
        (format!("[input]\nlive = {{}}\nencoding = \"ci8\"\n{v}"), "line 3: encoding: of files"),
        (
            format!("[input]\nlive = {{}}\nchannelise = {{ channels = 8 }}\n{v}"),
            "channelise: of raw voltages",
        ),
        (format!("[input]\nlive = {{ seconds = 0 }}\n{v}"), "seconds"),
        (format!("[input]\nlive = {{ seconds = 1e-9 }}\n{v}"), "expected at least"),
        (format!("[input]\nlive = {{ seconds = 1, times = 3 }}\n{v}"), "cannot be used with"),
        (format!("[input]\nlive = {{ fengs = 0 }}\n{v}"), "0 F-engines: expected at least 1"),
        (format!("[input]\nlive = {{ listen = \"x\" }}\n{v}"), "expected an IPv4 address"),
        (format!("[input]\nlive = {{ wraps = 1 }}\n{v}"), "--sync"),
        (
            format!("[input]\nlive = {{ times = 3 }}\n{v}integrate = 4\n"),
            "integrate 4: the recording has only 3 times",
        ),
        (
            format!("[input]\nlive = {{ fengs = 3, channels = 10 }}\n{beams}"),
            "line 3: beams of a stream that a signal ends: expected seconds or times in live",
        ),
        (format!("[input]\nlive = {{ silence = 0.1 }}\ndevice = \"cpu\"\n{v}"), "nothing came"),
        (format!("[input]\nlive = {{ tcp = \"x\" }}\n{v}"), "unexpected argument '--tcp'"),
    ] {
        let text = text.replace("live = {", "live = { listen = \"127.0.0.1:0\",");
        let text = text
            .replace("\"127.0.0.1:0\", listen = \"x\"", "\"x\"")
            .replace(", }", " }")
            .replace(",}", "}");
        fs::write(folder.join("plan.toml"), &text).unwrap();
        let error = refused(folder, "observe plan.toml");
        assert!(error.contains(sentence) && error.lines().count() == 1, "{text}: {error}");
        assert!(!folder.join("v.npy").exists() && !folder.join("b.npy").exists(), "{text}");
    }
}
