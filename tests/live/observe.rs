//! `corrust observe` of a live stream: products equal the products of a recording of the same samples.

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

use crate::{
    service::{Service, numbers},
    support::{
        command::{command, done, refused},
        tier, witness,
    },
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

/// Dumps of heaps that `corrust serve` judges, or makes subchannels of, equal the recording's: blocks of 64 times fill chunks,
/// those of 100 begin in one and end in the next, and the stream's end cuts the last.
#[test]
fn heaps_that_are_served_are_flagged_as_their_recording_is() {
    for (device, steps, judged) in [
        ("cpu", "--flag sk --sk-times 64 --false-alarm 0.01 --integrate 512", "of 4800 blocks"),
        ("sim", "--flag sk --sk-times 64 --false-alarm 0.01 --integrate 512", "of 4800 blocks"),
        ("cpu", "--flag sk --sk-times 100 --false-alarm 0.01 --integrate 500", "of 3120 blocks"),
        ("sim", "--flag sk --sk-times 100 --false-alarm 0.01 --integrate 500", "of 3120 blocks"),
        ("cpu", "--flag sk --sk-times 1000 --false-alarm 0.01 --integrate 512", "of 360 blocks"),
        ("sim", "--flag sk --sk-times 1000 --false-alarm 0.01 --integrate 512", "of 360 blocks"),
        ("cpu", "--upchannelise 4 --integrate 128", ""),
        ("sim", "--upchannelise 4 --flag sk --sk-times 16 --integrate 128", "of 19200 blocks"),
    ] {
        let folder = folder();
        let folder = folder.path();
        fs::create_dir(folder.join("live")).unwrap();
        let service = Service::start(
            folder,
            &format!(
                "--fengs 3 --channels 10 --rate 400kHz --sync 2026-03-01T12:00:00 --wraps 0 --device {device} {steps} \
                 -o live/vis.npy"
            ),
        );
        done(folder, &format!("{SEND} --to {}", service.listen));
        service.wait("corrust_heaps_total{fate=\"placed\"}", 120.0);
        let said = service.end();
        assert!(said.contains(judged) && !said.contains("flagged 0 "), "{steps}: {said}");
        let offline =
            format!("correlate scan.npy -o off.npy --counts counts.npy --device cpu {steps}");
        done(folder, &offline);
        let entries = fs::read_dir(folder.join("live")).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<_> =
            entries.filter(|path| path.to_str().unwrap().ends_with("Z.npy")).collect();
        names.sort();
        assert_eq!(names.len(), 10);
        let sums: Vec<i64> = names.iter().flat_map(|name| numbers(name)).collect();
        assert!(sums == numbers::<i64>(&folder.join("off.npy")), "{device} {steps}");
        if !judged.is_empty() {
            let valid =
                names.iter().flat_map(|name| numbers::<u64>(&name.with_extension("valid.npy")));
            let counts = numbers::<u64>(&folder.join("counts.npy"));
            assert!(valid.collect::<Vec<_>>() == counts, "{device} {steps}");
        }
    }
    let said = refused(folder().path(), "serve --flag sk --flags f.npy --device cpu");
    assert!(said.contains("--flags: a service writes no such files"), "{said}");
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

/// All times fit into the window of chunks that is received: the stream ends all the same, without a key that says so.
#[test]
fn a_stream_that_fits_the_window_ends() {
    let folder = folder();
    let folder = folder.path();
    let table = "device = \"cpu\"\n[[visibilities]]\noutput = \"v.npy\"\n";
    done(folder, "simulate -o scan.npy --inputs 6 --channels 10 --times 3072 --sources 1");
    let mut live = Listening::start(folder, "times = 3072, heap-times = 64", table);
    live.send(folder, "--heap-times 64");
    let start = Instant::now();
    while live.child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            live.child.kill().unwrap();
            panic!("the stream does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = live.end();
    assert!(said.contains("x 3072 times"), "{said}");
}

/// A sender that dies early ends the stream after a silence that is counted from the last packet.
#[test]
fn a_sender_that_dies_ends_the_stream() {
    use corrust::{
        format::{Block, Recording, Timestamp},
        live::{
            Chunk, Clock, Geometry, Receiver, StreamRecording, Window, open,
            spead::{Item, id, packets},
        },
    };
    let geometry = Geometry {
        fengs: 1,
        polarisations: 2,
        channels: 1,
        first_channel: 0,
        heap_times: 16,
        step: 2,
        chunk_heaps: 2,
        window: 4,
    };
    let socket = open("127.0.0.1:0".parse().unwrap(), None, 1 << 16).unwrap();
    let to = socket.local_addr().unwrap();
    let ((spent, empty), (sender, passed)) =
        (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let memory = (0..6).map(|_| geometry.memory(None).unwrap());
    Window::chunks(&geometry, memory).for_each(|chunk: Chunk| drop(spent.send(chunk)));
    let window = Window::new(geometry.clone(), 0, empty, sender);
    let receiver = Receiver::start(vec![socket], window, 1 << 12, 1 << 16).unwrap();
    let clock = Clock { sync: Timestamp::UNIX_EPOCH, rate: 1e6, step: 2 };
    let mut stream = StreamRecording::new(receiver, geometry, clock, (spent, passed), || false);
    stream.rest(Some(Duration::from_millis(300)));
    stream.until(1000);
    // Two heaps, the second after longer than half of the silence, and no others.
    let sending = std::thread::spawn(move || {
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        std::thread::sleep(Duration::from_millis(400));
        for heap in 0..2_u64 {
            let items = [
                Item::immediate(id::TIMESTAMP, heap * 32),
                Item::immediate(id::FENG, 0),
                Item::immediate(id::CHANNEL, 0),
                Item::absolute(id::SAMPLES, 0),
            ];
            packets(heap + 1, &items, &[7; 64], 1024, |packet| from.send_to(packet, to).map(drop))
                .unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    assert!(stream.begin(std::num::NonZeroU64::MIN));
    let mut block = Block::new();
    assert_eq!(stream.read_block(100, &mut block).unwrap(), 32);
    assert_eq!(stream.read_block(100, &mut block).unwrap(), 0);
    sending.join().unwrap();
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

/// Ports of this machine that are free, one after the other.
fn free_ports(count: u16) -> u16 {
    for _ in 0..100 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let first = socket.local_addr().unwrap().port();
        let others: Vec<_> = (1..count)
            .map_while(|more| UdpSocket::bind(("127.0.0.1", first.checked_add(more)?)).ok())
            .collect();
        if others.len() + 1 == usize::from(count) {
            return first;
        }
    }
    panic!("no {count} free ports")
}

/// Heaps of beams of some channels, as spead2 reads them, equal the file: for a recording, and for a stream at its own
/// timestamps and channel numbers.
#[test]
fn beams_are_sent_as_heaps_that_spead2_reads() {
    let Some(python) = witness::python(&["spead2==4.5.1", "numpy"]) else { return };
    for encoding in ["ci4", "ci8"] {
        for live in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            weights(folder);
            let port = free_ports(2);
            let step = 16;
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/beam_heaps.py");
            let mut receiver = Command::new(&python);
            receiver.current_dir(folder).arg(script).arg("heaps.npy").arg(step.to_string());
            receiver.args([port.to_string(), (port + 1).to_string()]).stdout(Stdio::piped());
            let mut receiver = receiver.spawn().unwrap();
            let mut said = BufReader::new(receiver.stdout.take().unwrap());
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            assert_eq!(line.trim(), "ready");
            let table = format!(
                "[[beams]]\nweights = \"weights.npy\"\nshifts = \"shifts.npy\"\nchannels = \"1..7\"\noutput-encoding = \"{encoding}\"\n"
            );
            let tables = format!(
                "device = \"cpu\"\n{table}output = \"spead://127.0.0.1:{port}+1\"\n{table}output = \"b.npy\"\n"
            );
            let times = if live {
                let stream = STREAM
                    .replace("channels = 10", "channels = 8, first-channel = 40")
                    .replace("400kHz", "320kHz");
                let live = Listening::of(folder, &stream, "times = 4000, silence = 3", &tables);
                let send = "send scan.npy --rate 320kHz --layout tcn --first 3 --first-channel 40";
                done(folder, &format!("{send} --to {}", live.address));
                live.end();
                4000
            } else {
                let text = format!("[input]\nfiles = [\"scan.npy\"]\n{tables}");
                fs::write(folder.join("plan.toml"), text).unwrap();
                done(folder, "observe plan.toml");
                5120
            };
            line.clear();
            said.read_line(&mut line).unwrap();
            assert!(receiver.wait().unwrap().success());
            let (first, channel) = if live { (3 * 256 * step, 41) } else { (0, 1) };
            assert_eq!(line.trim(), format!("{first} 6 {channel}"));
            let heaps: ndarray::Array4<i8> =
                ndarray_npy::read_npy(folder.join("heaps.npy")).unwrap();
            let whole = times / 256 * 256;
            assert_eq!(heaps.dim(), (2, 6, whole, 2));
            // Polarisations are one.
            let part = |[beam, channel, time, part]: [usize; 4]| match encoding {
                "ci8" => ndarray_npy::read_npy::<_, ndarray::Array5<i8>>(folder.join("b.npy"))
                    .map(|beams| beams[[beam, channel, 0, time, part]]),
                _ => ndarray_npy::read_npy::<_, ndarray::Array4<u8>>(folder.join("b.npy")).map(
                    |beams| {
                        let packed = beams[[beam, channel, 0, time]];
                        [packed as i8 >> 4, (packed << 4) as i8 >> 4][part]
                    },
                ),
            };
            for place in [[0, 0, 0, 0], [1, 5, 255, 1], [0, 3, 256, 0], [1, 4, whole - 1, 1]] {
                assert_eq!(heaps[place], part(place).unwrap(), "{place:?}");
            }
            let sums = |values: &mut dyn Iterator<Item = (usize, i64)>| {
                values.map(|(at, value)| value * (at as i64 % 1009 + 1)).sum::<i64>()
            };
            let ours = sums(&mut heaps.iter().map(|&value| i64::from(value)).enumerate());
            let theirs = match encoding {
                "ci8" => {
                    let beams: ndarray::Array5<i8> =
                        ndarray_npy::read_npy(folder.join("b.npy")).unwrap();
                    let beams = beams.slice(ndarray::s![.., .., 0, ..whole, ..]).to_owned();
                    sums(&mut beams.iter().map(|&value| i64::from(value)).enumerate())
                }
                _ => {
                    let beams: ndarray::Array4<u8> =
                        ndarray_npy::read_npy(folder.join("b.npy")).unwrap();
                    let beams = beams.slice(ndarray::s![.., .., 0, ..whole]).to_owned();
                    let parts = beams.iter().flat_map(|&packed| {
                        [packed as i8 >> 4, (packed << 4) as i8 >> 4].map(i64::from)
                    });
                    sums(&mut parts.enumerate())
                }
            };
            assert!(ours == theirs && ours != 0, "{encoding} {live}");
        }
    }
}

/// Products of raw voltages.
fn raw_products(prefix: &str) -> String {
    format!(
        r#"
[[visibilities]]
output = "{prefix}v.npy"
integrate = 500
counts = "{prefix}c.npy"
[[beams]]
weights = "weights.npy"
shifts = "shifts.npy"
output = "{prefix}b.npy"
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

/// A folder with raw voltages of six threads in frames of 5000 bytes, 100 a second, and weights for 16 channels of them.
fn raw_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(
        path,
        "simulate --raw -o scan.vdif --encoding vdif-2 --inputs 6 --rate 2MHz --times 100000 --sky-frequency 150MHz",
    );
    done(path, "simulate -o other.npy --inputs 6 --channels 16 --times 8 --sources 1");
    done(path, "weights other.json -o weights.npy --shifts shifts.npy --pointing 0,0,1 --shift 9");
    let array = ARRAY.replace("\"channel_width\": 1e6", "\"channel_width\": 62500");
    fs::write(path.join("array.json"), format!("{array}}}")).unwrap();
    folder
}

/// Raw voltages that come as frames give what their file gives, with frames that are lost, and flags.
#[test]
fn raw_voltages_of_a_stream_are_those_of_their_file() {
    let all =
        [("cpu", false, true), ("cpu", true, false), ("sim", false, false), ("sim", true, true)];
    for (device, judged, lossy) in tier::cases("sim", &all, 2) {
        let folder = raw_folder();
        let folder = folder.path();
        let input = |prefix: &str| {
            let judged = match judged {
                true => format!(
                    "flag = {{ method = \"sk\", times = 100, false-alarm = 0.05, flags = \"{prefix}f.npy\" }}\n"
                ),
                false => String::new(),
            };
            format!(
                "array = \"array.json\"\ndevice = \"{device}\"\nchannelise = {{ channels = 16, taps = 4 }}\n{judged}{}",
                raw_products(prefix)
            )
        };
        let stream = "vdif = \"0-5\", rate = \"2MHz\"";
        let live = Listening::of(folder, stream, "times = 100000, silence = 3", &input("live-"));
        let frames = fs::read(folder.join("scan.vdif")).unwrap();
        let bytes =
            8 * (u32::from_le_bytes(frames[8..12].try_into().unwrap()) & 0xff_ffff) as usize;
        let frames: Vec<&[u8]> = frames.chunks(bytes).collect();
        let threads = 6;
        // One frame of a thread, and one of all.
        let lost = |number: usize| {
            lossy && (number == threads + 2 || (threads * 2..threads * 3).contains(&number))
        };
        if lossy {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut kept = Vec::new();
            for (number, frame) in frames.iter().enumerate().filter(|(number, _)| !lost(*number)) {
                socket.send_to(frame, &live.address).unwrap();
                kept.extend_from_slice(frame);
                if number % 20 == 19 {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            fs::write(folder.join("scan.vdif"), kept).unwrap();
        } else {
            done(folder, &format!("send scan.vdif --to {}", live.address));
        }
        let said = live.end();
        let kept = (0..frames.len()).filter(|&number| !lost(number)).count();
        assert!(
            frames.len() == 30 && said.contains(&format!("{kept} frames: {kept} placed")),
            "{said}"
        );
        let spectra = 100_000 / 32 - 4 + 1;
        assert!(said.contains(&format!("6 inputs x 16 channels x {spectra} times")), "{said}");
        fs::write(
            folder.join("file.toml"),
            format!("[input]\nfiles = [\"scan.vdif\"]\n{}", input("file-")),
        )
        .unwrap();
        done(folder, "observe file.toml");
        same(folder, &["v.npy", "b.npy", "p.fil", "s.npy", "k.npy"]);
        if judged {
            same(folder, &["f.npy", "c.npy"]);
        }
        let sums: ndarray::Array4<i64> = ndarray_npy::read_npy(folder.join("live-v.npy")).unwrap();
        assert!(sums.iter().any(|&sum| sum != 0));
    }
}

/// Channels of few bits are correlated as they are, and their sums become coefficients.
#[test]
fn bits_of_a_stream_are_those_of_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let simulate = "simulate --raw -o scan.vdif --encoding vdif-2-complex --inputs 6 --rate 2MHz";
    done(folder, &format!("{simulate} --times 96000"));
    let input = |prefix: &str| {
        let v = "[[visibilities]]\nintegrate = 12800\n";
        format!(
            "device = \"cpu\"\n{v}output = \"{prefix}v.npy\"\ncounts = \"{prefix}c.npy\"\n\
             {v}output = \"{prefix}r.npy\"\nvan-vleck = true\n"
        )
    };
    let stream = "vdif = \"0-5\", rate = \"2MHz\", encoding = \"b2\"";
    let live = Listening::of(folder, stream, "times = 96000, silence = 3", &input("live-"));
    done(folder, &format!("send scan.vdif --to {}", live.address));
    let said = live.end();
    assert!(said.contains("6 inputs x 1 channel x 96000 times"), "{said}");
    let text = format!("[input]\nfiles = [\"scan.vdif\"]\nencoding = \"b2\"\n{}", input("file-"));
    fs::write(folder.join("file.toml"), text).unwrap();
    done(folder, "observe file.toml");
    same(folder, &["v.npy", "r.npy"]);
    let sums: ndarray::Array4<i64> = ndarray_npy::read_npy(folder.join("live-v.npy")).unwrap();
    assert_eq!(sums.dim(), (7, 1, 21, 2));
}

/// Subchannels of channels of raw voltages, live.
#[test]
fn raw_voltages_of_a_stream_become_subchannels() {
    let folder = raw_folder();
    let folder = folder.path();
    let input = |prefix: &str| {
        format!(
            "device = \"cpu\"\nchannelise = {{ channels = 16, taps = 4 }}\nupchannelise = {{ factor = 4 }}\n\
             [[visibilities]]\noutput = \"{prefix}v.npy\"\nintegrate = 128\n\
             [[kurtosis]]\noutput = \"{prefix}k.npy\"\n"
        )
    };
    let stream = "vdif = \"0-5\", rate = \"2MHz\"";
    let live = Listening::of(folder, stream, "seconds = 0.05, silence = 3", &input("live-"));
    done(folder, &format!("send scan.vdif --to {}", live.address));
    let said = live.end();
    let spectra = (100_000 / 32 - 4 + 1) / 4;
    assert!(said.contains(&format!("6 inputs x 64 channels x {spectra} times")), "{said}");
    let text = format!("[input]\nfiles = [\"scan.vdif\"]\n{}", input("file-"));
    fs::write(folder.join("file.toml"), text).unwrap();
    done(folder, "observe file.toml");
    same(folder, &["v.npy", "k.npy"]);
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
        "array = \"array.json\"\ndevice = \"cpu\"\n{table}output = \"b.npy\"\nchanges = \"steered.jsonl\"\n{table}output = \"udp://{address}\"\n"
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
    let written = fs::read_to_string(folder.join("steered.jsonl")).unwrap();
    let lines =
        written.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let starts: Vec<_> = lines.map(|line| line["time"].as_u64().unwrap() as usize).collect();
    assert_eq!(starts, changes[0]);
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
    done(folder, "simulate -o three.npy --inputs 3 --channels 10 --times 8 --sources 1");
    let of_two = "--polarisations 2 --pointing 0,0,1 --shift 9";
    done(folder, &format!("weights three.json -o two.npy --shifts two-shifts.npy {of_two}"));
    for (text, sentence) in [
        (
            format!("[input]\nfiles = [\"scan.npy\"]\nlive = {{}}\n{v}"),
            "line 2: files: expected one of files and live",
        ),
        (format!("[input]\nlive = 3\n{v}"), "line 2: live: expected a table"),
        (format!("[input]\nlive = {{}}\nencoding = \"ci8\"\n{v}"), "line 3: encoding: for files"),
        (
            format!("[input]\nlive = {{}}\nchannelise = {{ channels = 8 }}\n{v}"),
            "channelise: of raw voltages, expected vdif in live",
        ),
        (
            format!("[input]\nlive = {{ vdif = \"0-7\" }}\n{v}"),
            "line 2: vdif of vdif-2: expected channelise, or encoding b1 or b2",
        ),
        (
            format!("[input]\nlive = {{ vdif = \"0-7\", channelise = 8 }}\n{v}"),
            "line 2: channelise: expected it beside live, not in it",
        ),
        (
            format!("[input]\nlive = {{ frame-bytes = 64 }}\n{v}"),
            "line 2: frame-bytes: of frames, expected vdif, too",
        ),
        (
            format!(
                "[input]\nlive = {{ vdif = \"0-7\", times = 3 }}\nchannelise = {{ channels = 8 }}\n{v}"
            ),
            "3 samples of each input: expected at least the 128 of a spectrum",
        ),
        (
            format!(
                "[input]\nlive = {{ vdif = \"0-7\", encoding = \"b1\" }}\nchannelise = {{ channels = 8 }}\n{v}"
            ),
            "b1",
        ),
        (format!("[input]\nlive = {{}}\nrate = 3\n{v}"), "line 3: rate: for files"),
        (
            format!(
                "[input]\nlive = {{ fengs = 3, channels = 10 }}\n{}",
                beams.replace("b.npy", "spead://127.0.0.1:9")
            ),
            "1 address for 2 beams x 1 polarisation: expected 2, one for each",
        ),
        (
            format!(
                "[input]\nlive = {{ fengs = 3, channels = 10, times = 64 }}\n{}",
                beams.replace("weights.npy", "two.npy").replace("shifts.npy", "two-shifts.npy")
            ),
            "expected beams of 1 polarisation of 6 dishes",
        ),
        (
            "[input]\nlive = {}\n[[power]]\noutput = \"v.fil\"\n".to_owned(),
            "line 4: v.fil: expected array = \"ARRAY.json\" in [input]",
        ),
        (format!("[input]\nlive = {{ seconds = 0 }}\n{v}"), "seconds"),
        (format!("[input]\nlive = {{ seconds = 1e-9 }}\n{v}"), "expected at least"),
        (format!("[input]\nlive = {{ seconds = 1, times = 3 }}\n{v}"), "cannot be used with"),
        (format!("[input]\nlive = {{ fengs = 0 }}\n{v}"), "0 F-engines: expected at least 1"),
        (format!("[input]\nlive = {{ listen = \"x\" }}\n{v}"), "expected an IPv4 address"),
        (format!("[input]\nlive = {{ wraps = 1 }}\n{v}"), "not provided: sync"),
        (
            format!("[input]\nlive = {{ times = 3 }}\n{v}integrate = 4\n"),
            "integrate 4: the recording has only 3 times",
        ),
        (
            format!("[input]\nlive = {{ fengs = 3, channels = 10 }}\n{beams}"),
            "line 3: beams of a stream of unknown length: expected seconds or times in live",
        ),
        (format!("[input]\nlive = {{ silence = 0.1 }}\ndevice = \"cpu\"\n{v}"), "nothing came"),
        (format!("[input]\nlive = {{ tcp = \"x\" }}\n{v}"), "unexpected argument 'tcp'"),
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
