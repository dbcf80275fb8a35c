//! `corrust serve`: heaps of spead2 and of `corrust send` become exact files; its page, its metrics, its sockets.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddrV4, TcpStream, UdpSocket},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use corrust::{
    Encoding, Layout,
    live::{Geometry, Sender, spead::Item, spead::id, spead::packets},
    samples::Samples,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    heaps::{Case, GEOMETRY, Id, RANGES, STREAM},
    service::{Service, numbers},
    support::{command, witness},
};

/// What F-engines send: heaps `[slot, F-engine, first channel, channels, times]`, and how.
struct Plan {
    heaps: Vec<[i64; 5]>,
    /// Heaps that come twice.
    repeated: u64,
    repeat_pointers: bool,
    descriptors: &'static str,
}

impl Plan {
    /// All heaps of a case; or with losses, repeats, another order, and senders that begin again.
    fn new(case: &mut Case, seed: u64, lossy: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut heaps, mut repeated) = (Vec::new(), 0);
        for heap in case.heaps() {
            if lossy && random.random_range(0..100) == 0 {
                continue;
            }
            case.mark(heap);
            let again = lossy && random.random_range(0..100) == 0;
            repeated += u64::from(again);
            let range = &RANGES[heap.range];
            let times = 1 + i64::from(again);
            let numbers = [heap.slot, heap.feng, range.start, range.len()].map(|n| n as i64);
            heaps.push([numbers[0], numbers[1], numbers[2], numbers[3], times]);
        }
        if lossy {
            // One in twenty changes its place with another near it.
            for _ in 0..heaps.len() / 20 {
                let at = random.random_range(0..heaps.len() - 20);
                heaps.swap(at, at + random.random_range(1..20));
            }
            heaps.insert(heaps.len() / 2, [-1; 5]);
        }
        Self { heaps, repeated, repeat_pointers: true, descriptors: "none" }
    }

    /// Heaps that are to be placed.
    fn placed(&self) -> f64 {
        self.heaps.iter().filter(|heap| heap[0] >= 0).count() as f64
    }

    /// Sends them with spead2, by a command such as Python.
    fn send(&self, python: &mut Command, folder: &Path, to: SocketAddrV4) {
        let plan = serde_json::json!({
            "recording": folder.join("rec.npy"),
            "heap_times": GEOMETRY.heap_times,
            "polarisations": GEOMETRY.polarisations,
            "step": GEOMETRY.step,
            "first_channel": GEOMETRY.first_channel,
            "first_time": 0,
            "packet": 300,
            "rate": 4e6,
            "host": to.ip(),
            "port": to.port(),
            "heaps": self.heaps,
            "repeat_pointers": self.repeat_pointers,
            "descriptors": self.descriptors,
        });
        let path = folder.join("plan.json");
        fs::write(&path, plan.to_string()).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/feng.py");
        witness::run(python.arg(script).arg(path)).unwrap();
    }
}

#[test]
fn what_spead2_sends_is_correlated_exactly() {
    let Some(python) = witness::python(&["spead2==4.5.1", "numpy"]) else { return };
    // Everything; then with losses, repeats, another order and senders that begin again.
    for (seed, lossy, repeat_pointers, descriptors) in
        [(20, false, true, "none"), (21, true, true, "none"), (22, true, false, "all")]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut case = Case::new(120, seed);
        case.write(&folder.path().join("rec.npy"));
        let plan = Plan { repeat_pointers, descriptors, ..Plan::new(&mut case, seed, lossy) };
        let arguments =
            format!("{STREAM} --sync 2026-03-01 --integrate 64 -o vis.npy --file-dumps 1");
        let service = Service::start(folder.path(), &arguments);
        // Others send, too: bytes of no meaning, and heaps of other channels.
        let corrupt = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut random = StdRng::seed_from_u64(seed);
        for number in 0..20 {
            let noise: Vec<u8> = (0..100).map(|_| random.random()).collect();
            corrupt.send_to(&noise, service.listen).unwrap();
            let wrong = Id { slot: 0, feng: 0, range: 0 };
            let mut items = case.items(wrong, 0);
            items[2] = Item::immediate(id::CHANNEL, 1000);
            packets(number, &items, &case.payload(wrong), 1000, |packet| {
                corrupt.send_to(packet, service.listen).map(drop)
            })
            .unwrap();
        }
        plan.send(&mut Command::new(&python), folder.path(), service.listen);
        service.wait("corrust_heaps_total{fate=\"placed\"}", plan.placed());
        service.wait("corrust_heaps_total{fate=\"repeated\"}", plan.repeated as f64);
        assert_eq!(service.metric("corrust_heaps_total{fate=\"late\"}"), 0.0);
        assert_eq!(service.metric("corrust_heaps_total{fate=\"outside\"}"), 20.0);
        assert_eq!(service.metric("corrust_bad_packets_total{fault=\"foreign\"}"), 20.0);
        let said = service.end();
        assert!(said.contains("30 dumps: 30 written, 0 dropped"), "{said}");
        assert!(said.contains("packets of something else than SPEAD 64-48 come"), "{said}");
        assert!(said.contains(", 20 foreign;"), "{said}");
        case.check_files(folder.path(), 64, 0);
        if !lossy {
            command::done(folder.path(), "correlate rec.npy -o offline.npy --integrate 64");
            let offline: Vec<i64> = numbers(&folder.path().join("offline.npy"));
            let each = offline.len() / 30;
            let name = "vis-20260301T000000.000000Z.npy";
            assert_eq!(numbers::<i64>(&folder.path().join(name)), offline[..each]);
        }
    }
}

/// A network of its own, on a link to this one.
struct Network {
    name: String,
    /// This end of the link.
    address: std::net::Ipv4Addr,
}

impl Network {
    /// Makes one; the reason where that is not permitted.
    fn new() -> Result<Self, String> {
        let number = std::process::id();
        // Addresses for measurements between networks, of which other tests may have some.
        let [a, b] = [1, 2].map(|end| {
            std::net::Ipv4Addr::new(198, 18, (number >> 6) as u8, (number << 2) as u8 | end)
        });
        let [here, there] = ["a", "b"].map(|end| format!("crst{number:x}{end}"));
        let network = Self { name: format!("corrust-{number}"), address: a };
        let ip =
            |arguments: &str| witness::run(Command::new("ip").args(arguments.split(' '))).map(drop);
        let name = &network.name;
        ip(&format!("netns add {name}"))?;
        ip(&format!("link add {here} type veth peer name {there} netns {name}"))?;
        ip(&format!("address add {a}/30 dev {here}"))?;
        ip(&format!("link set {here} up"))?;
        ip(&format!("-n {name} address add {b}/30 dev {there}"))?;
        ip(&format!("-n {name} link set {there} up"))?;
        Ok(network)
    }

    /// A command within it.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The link goes with it.
        let _ = witness::run(Command::new("ip").args(["netns", "delete", &self.name]));
    }
}

#[test]
fn f_engines_of_another_network_are_correlated_exactly() {
    let Some(python) = witness::python(&["spead2==4.5.1", "numpy"]) else { return };
    let network = match Network::new() {
        Ok(network) => network,
        Err(reason) => {
            eprintln!("skipped: needs network namespaces: {reason}");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(120, 23);
    case.write(&folder.path().join("rec.npy"));
    let plan = Plan::new(&mut case, 23, true);
    let port = UdpSocket::bind((network.address, 0)).unwrap().local_addr().unwrap().port();
    let listen = SocketAddrV4::new(network.address, port);
    let arguments =
        format!("{STREAM} --listen {listen} --sync 2026-03-01 --integrate 64 -o vis.npy");
    let service = Service::start(folder.path(), &arguments);
    plan.send(&mut network.command(&python), folder.path(), listen);
    service.wait("corrust_heaps_total{fate=\"placed\"}", plan.placed());
    service.wait("corrust_heaps_total{fate=\"repeated\"}", plan.repeated as f64);
    service.end();
    case.check_files(folder.path(), 64, 0);
}

/// Sends a case's heaps at once, in order.
fn send(case: &Case, service: &Service, slots: std::ops::Range<usize>) {
    let Geometry { channels, heap_times, .. } = case.geometry;
    let inputs = case.geometry.shape().inputs;
    let mut sender =
        Sender::new(vec![service.listen], None, case.geometry.clone(), 4, 500).unwrap();
    for slot in slots {
        let size = heap_times * channels * inputs;
        let samples = &case.samples[slot * size..(slot + 1) * size];
        let view = Samples::new(samples, inputs, channels, Encoding::Ci8, Layout::Tcn).unwrap();
        sender.send(&view, slot as u64).unwrap();
    }
}

#[test]
fn the_last_complete_dump_is_written_and_uvh5_has_absolute_times() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(26, 30);
    case.present.fill(true);
    let array = r#"{"telescope": "test",
        "location": {"latitude": -30.7, "longitude": 21.4, "altitude": 1050},
        "positions": [[0, 0, 0], [29, 0, 0], [0, 40, 0]],
        "first_channel": 1e8, "channel_width": 5e4}"#;
    fs::write(folder.path().join("array.json"), array).unwrap();
    let arguments = format!(
        "{STREAM} --sync 2026-03-01 --integrate 100 -o vis.uvh5 --array array.json --file-dumps 3"
    );
    let service = Service::start(folder.path(), &arguments);
    send(&case, &service, 0..26);
    service.wait("corrust_heaps_total{fate=\"placed\"}", 26.0 * 9.0);
    // 416 times: four dumps, and 16 times that are left out.
    let said = service.end();
    assert!(said.contains("4 dumps: 4 written, 0 dropped"), "{said}");
    let names = ["vis-20260301T000000.000000Z.uvh5", "vis-20260301T000000.006000Z.uvh5"];
    let dumps = names
        .map(|name| corrust::format::uvh5::Reader::open(folder.path().join(name)).unwrap().dumps());
    assert_eq!(dumps, [3, 1]);
    // Nothing unfinished stays.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_partial_dump_is_written_where_it_is_to_be_kept() {
    // 416 times: four dumps of 100, and one of the 16 times that are left. A gate has half of 12 times.
    let gates: Vec<u8> = (0..416).map(|time| u8::from(time % 12 >= 6)).collect();
    for (live, recorded) in [
        ("", ""),
        ("--flag sk --sk-times 64", "--flag sk --sk-times 64"),
        ("--gate-period 0.24ms --gate-bins 2", "--gates gates.npy"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut case = Case::new(26, 30);
        case.present.fill(true);
        let arguments = format!(
            "{STREAM} --sync 2026-03-01 --integrate 100 -o vis.npy --file-dumps 9 --keep-partial {live}"
        );
        let service = Service::start(folder, &arguments);
        send(&case, &service, 0..26);
        service.wait("corrust_heaps_total{fate=\"placed\"}", 26.0 * 9.0);
        let said = service.end();
        assert!(said.contains("5 dumps: 5 written, 0 dropped"), "{live}: {said}");
        case.write(&folder.join("rec.npy"));
        ndarray_npy::write_npy(folder.join("gates.npy"), &ndarray::arr1(&gates)).unwrap();
        let correlate = "correlate rec.npy -o offline.npy --integrate 100 --keep-partial";
        command::done(folder, &format!("{correlate} {recorded}"));
        let path = folder.join("vis-20260301T000000.000000Z.npy");
        let sums: Vec<i64> = numbers(&path);
        assert_eq!(sums, numbers::<i64>(&folder.join("offline.npy")), "{live}");
        let counts: Vec<u64> = numbers(&path.with_extension("valid.npy"));
        let (whole, last) = counts.split_at(counts.len() / 5 * 4);
        assert!(last.iter().all(|&count| count <= 16) && last.iter().any(|&count| count > 0));
        assert!(whole.iter().any(|&count| count > 16), "{live}");
    }
}

#[test]
fn metrics_and_page_tell_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(24, 31);
    case.present.fill(true);
    let service = Service::start(folder.path(), &format!("{STREAM} --integrate 64"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"not a packet", service.listen).unwrap();
    send(&case, &service, 0..3);
    // The fourth slot does not come.
    send(&case, &service, 4..24);
    service.wait("corrust_heaps_total{fate=\"placed\"}", 207.0);
    service.wait("corrust_dumps_total{fate=\"done\"}", 1.0);
    // A browser that leaves in the middle of its question, and of the answer.
    for question in ["GET /live.js", "GET /live.json HTTP/1.1\r\nHost: a\r\n\r\n"] {
        TcpStream::connect(service.http).unwrap().write_all(question.as_bytes()).unwrap();
    }
    let live: serde_json::Value =
        serde_json::from_str(&service.get("/live.json?channel=3")).unwrap();
    let metrics = service.get("/metrics");
    for pair in live["metrics"].as_array().unwrap() {
        let line = format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    assert_eq!(service.metric("corrust_bad_packets_total{fault=\"foreign\"}"), 1.0);
    assert_eq!(service.metric("corrust_feng_heaps_total{feng=\"2\"}"), 69.0);
    for query in ["channel=99999999999999999999", "first=-1", "a=x"] {
        let mut stream = TcpStream::connect(service.http).unwrap();
        write!(stream, "GET /live.json?{query} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 400 "), "{query}: {answer}");
    }
    service.get("/live.json?channel=1000&first=1000&a=1000&b=0");
    service.check_page();
    service.end();
}

/// Powers of the last minutes, and names and frequencies of an array file.
#[test]
fn the_page_has_names_frequencies_and_the_last_minutes() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(52, 34);
    case.present.fill(true);
    let array = r#"{"antennas": [{"name": "m000", "position": [0, 0, 0]}, {"name": "m001", "position": [9, 0, 0]},
        {"name": "m002", "position": [0, 9, 0]}], "first_channel": 1e9, "channel_width": -5e4}"#;
    fs::write(folder.path().join("array.json"), array).unwrap();
    // Dumps of 128 times of 20 us, of which rows of a second have 391.
    let arguments = format!("{STREAM} --sync 2026-03-01 --integrate 128 --array array.json");
    let service = Service::start(folder.path(), &arguments);
    send(&case, &service, 0..52);
    let done = "corrust_dumps_total{fate=\"done\"}";
    service.wait(done, 2.0);
    let live = |query: &str| -> serde_json::Value {
        serde_json::from_str(&service.get(&format!("/live.json?{query}"))).unwrap()
    };
    // Another dump may be done while it is asked for.
    let (dumps, found) = loop {
        let (dumps, found) = (service.metric(done), live("input=5"));
        if service.metric(done) == dumps {
            break (dumps as usize, found);
        }
    };
    assert_eq!(
        found["names"],
        serde_json::json!(["m000 X", "m000 Y", "m001 X", "m001 Y", "m002 X", "m002 Y"])
    );
    assert_eq!(found["frequencies"], serde_json::json!([1e9, 1e9 - 9.0 * 5e4]));
    let waterfall = &found["dump"]["waterfall"];
    assert_eq!((&waterfall["grain"], &waterfall["last"]), (&1.into(), &0.into()));
    let row = &waterfall["rows"].as_array().unwrap()[0];
    assert_eq!((row[0].as_u64(), waterfall["rows"].as_array().unwrap().len()), (Some(0), 1));
    for channel in 0..10 {
        let times = 128 * dumps;
        let power = |time| case.sample(time, channel, 5).map(|part| f64::from(part).powi(2));
        let sum: f64 = (0..times).map(|time| power(time).iter().sum::<f64>()).sum();
        let found = row[1][channel].as_f64().unwrap();
        assert!((found * times as f64 / sum - 1.0).abs() < 1e-6, "{channel}: {found} {sum}");
    }
    assert!(live("since=1")["dump"]["waterfall"]["rows"].as_array().unwrap().is_empty());
    service.end();
    let others = array.replace(", \"first", ", \"inputs\": [[0, \"X\"]], \"first");
    fs::write(folder.path().join("array.json"), others).unwrap();
    let said = command::refused(folder.path(), &format!("serve {arguments}"));
    assert!(said.contains("1 \"inputs\": expected 6, as the recording has"), "{said}");
}

#[test]
fn what_cannot_be_served_gets_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let held = UdpSocket::bind(taken).unwrap();
    let page = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let http = page.local_addr().unwrap();
    for (arguments, sentence) in [
        (
            format!("--listen {taken} --http 127.0.0.1:0"),
            format!("address {taken}: cannot listen there: Address already in use"),
        ),
        (
            format!("--listen 127.0.0.1:0 --http {http}"),
            format!("--http {http}: cannot listen there: Address already in use"),
        ),
        (
            "--listen 192.0.2.1:7148 --http 127.0.0.1:0".into(),
            "Cannot assign requested address".into(),
        ),
        (
            "--listen 239.1.2.3:0 --interface 192.0.2.1 --http 127.0.0.1:0".into(),
            "cannot join the multicast group on interface 192.0.2.1".into(),
        ),
        ("--listen 239.1.2.3".into(), "expected an IPv4 address and a port".into()),
        ("--listen 127.0.0.1:65535+1".into(), "expected an IPv4 address and a port".into()),
        ("--fengs 0".into(), "0 F-engines: expected at least 1".into()),
        ("--step 0".into(), "0 timestamps from one time to the next: expected at least 1".into()),
        (
            "--channels 1000000000 --fengs 1000000000 --integrate 1".into(),
            "the visibilities cannot be addressed".into(),
        ),
        ("--seconds 1e-9".into(), "--seconds 0.000000001: expected at least".into()),
        ("-o vis.uvh5".into(), "expected --array ARRAY.json".into()),
        ("-o vis.txt".into(), "expected a name that ends in .npy or .uvh5".into()),
        (
            // Before the sockets are opened: this one is taken.
            format!("-o /dev/null/vis.npy --listen {taken} --http 127.0.0.1:0"),
            "/dev/null: cannot create: ".into(),
        ),
    ] {
        let said = command::refused(folder.path(), &format!("serve --device cpu {arguments}"));
        assert!(said.contains(&sentence), "{arguments}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    drop((held, page));
}

#[test]
fn a_full_disk_drops_dumps_and_the_service_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = |arguments: &[&str]| witness::run(Command::new("mount").args(arguments));
    let path = disk.to_str().unwrap();
    if let Err(reason) = mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs", path]) {
        eprintln!("skipped: needs a disk that can be filled: {reason}");
        return;
    }
    let ended = std::panic::catch_unwind(|| {
        let mut case = Case::new(60, 32);
        case.present.fill(true);
        let arguments = format!("{STREAM} --sync 2026-03-01 --integrate 64 -o disk/vis.npy");
        let service = Service::start(folder.path(), &arguments);
        let filler = disk.join("filler");
        fs::write(&filler, vec![1; 60 << 10]).unwrap();
        send(&case, &service, 0..20);
        // Three dumps at least have left the window, and could not be written.
        service.wait("corrust_dumps_total{fate=\"dropped\"}", 1.0);
        fs::remove_file(&filler).unwrap();
        send(&case, &service, 20..60);
        service.wait("corrust_heaps_total{fate=\"placed\"}", 540.0);
        let said = service.end();
        assert!(said.contains("dumps are dropped until it is over"), "{said}");
        assert!(said.contains("dumps are written again"), "{said}");
        assert!(said.contains("15 dumps: "), "{said}");
    });
    witness::run(Command::new("umount").arg(path)).unwrap();
    ended.unwrap();
}

/// `corrust serve` that may open so many files.
#[cfg(unix)]
fn limited(folder: &Path, arguments: &str, soft: u64, hard: u64) -> Command {
    use std::os::unix::process::CommandExt;
    let arguments = format!("serve --listen 127.0.0.1:0 --http 127.0.0.1:0 {arguments}");
    let mut command = command::command(folder, &arguments);
    let set = move || {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: nothing but a system call between fork and exec, and the limits live until it returns.
        match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(set) };
    command
}

/// Answer of the service to some bytes, until it closes the connection.
fn answer(service: &Service, request: &str) -> String {
    let mut stream = TcpStream::connect(service.http).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
#[cfg(unix)]
fn idle_connections_cost_no_dumps() {
    // A limit that is left as it is, and one that the service raises.
    for (soft, hard) in [(128, 128), (32, 1024)] {
        let folder = tempfile::tempdir().unwrap();
        let mut case = Case::new(60, 33);
        case.present.fill(true);
        let arguments = format!("{STREAM} --sync 2026-03-01 --integrate 64 -o vis.npy");
        let service = Service::of(&mut limited(folder.path(), &arguments, soft, hard));
        // Connections that send half a header, and such that ask and never read.
        let idle: Vec<_> = (0..300)
            .map(|number| {
                let mut stream = TcpStream::connect(service.http).unwrap();
                let half = if number % 2 == 0 { "" } else { "Host: localhost\r\n\r\n" };
                // Connections that came first have left, perhaps.
                let _ = write!(stream, "GET /live.json HTTP/1.1\r\n{half}");
                stream
            })
            .collect();
        send(&case, &service, 0..60);
        // They do not keep others out either.
        service.wait("corrust_heaps_total{fate=\"placed\"}", 540.0);
        let said = service.end();
        assert!(said.contains("15 dumps: 15 written, 0 dropped"), "{said}");
        case.check_files(folder.path(), 64, 0);
        drop(idle);
    }
    let folder = tempfile::tempdir().unwrap();
    let output = limited(folder.path(), STREAM, 70, 70).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("files are open of the 70 that the system allows"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn half_a_header_and_an_answer_that_nobody_reads_end_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), STREAM);
    let begun = Instant::now();
    for half in ["", "GET / HTTP/1.1\r\nHost: loc"] {
        answer(&service, half);
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    // One request a connection, of a bounded length.
    let twice = answer(&service, &"GET /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2));
    assert_eq!(twice.matches("HTTP/1.1 200").count(), 1, "{twice}");
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {}\r\n\r\n", "a".repeat(1 << 14));
    assert!(answer(&service, &long).starts_with("HTTP/1.1 431"));
}

#[test]
fn other_hosts_and_frames_around_the_page_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), &format!("{STREAM} --http-host head.example.org"));
    let port = service.http.port();
    let ask = |path: &str, host: &str| {
        answer(
            &service,
            &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        )
    };
    for path in ["/", "/metrics", "/live.json", "/page.js"] {
        for host in [
            &format!("127.0.0.1:{port}"),
            "localhost:9",
            "LOCALHOST",
            "[::1]:80",
            "head.example.org",
        ] {
            let answer = ask(path, host).to_lowercase();
            assert!(answer.starts_with("http/1.1 200"), "{host}: {answer}");
            assert!(answer.contains("frame-ancestors 'none'"), "{answer}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "192.0.2.7", "head.example.org.", "", "a b"]
        {
            let answer = ask(path, host);
            let refused =
                ["HTTP/1.1 421", "HTTP/1.1 400"].iter().any(|begin| answer.starts_with(begin));
            assert_eq!(refused, host != "head.example.org.", "{host}: {answer}");
            assert!(!answer.contains("corrust_packets_total") || !refused, "{answer}");
        }
    }
    // The target's host counts, too, and every Host.
    for request in [
        "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    ] {
        let answer = answer(&service, request);
        assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    }
    let said = command::refused(folder.path(), "serve --http-host head:8148");
    assert!(said.contains("expected a name without a port"), "{said}");
}

#[test]
fn multicast_groups_share_the_channels() {
    let interface = std::net::Ipv4Addr::LOCALHOST;
    let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let groups = [48, 49].map(|last| SocketAddrV4::new([239, 255, 71, last].into(), port));
    if let Err(reason) = corrust::live::open(groups[0], Some(interface), 1 << 20) {
        eprintln!("skipped: needs multicast on the loopback interface: {reason}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(16, 34);
    case.present.fill(true);
    let arguments = format!(
        "{STREAM} --listen 239.255.71.48+1:{port} --interface {interface} --sync 2026-03-01 \
         --integrate 64 -o vis.npy"
    );
    let service = Service::start(folder.path(), &arguments);
    let mut sender =
        Sender::new(groups.to_vec(), Some(interface), case.geometry.clone(), 4, 500).unwrap();
    let view = Samples::new(&case.samples[..], 6, 10, Encoding::Ci8, Layout::Tcn).unwrap();
    sender.send(&view, 0).unwrap();
    service.wait("corrust_heaps_total{fate=\"placed\"}", 144.0);
    service.end();
    case.check_files(folder.path(), 64, 0);
}

/// The error when a network of its own, in which some commands have run, does not let it join a group; or why there
/// is no such network.
fn refused_in_a_network(folder: &Path, commands: &str) -> Result<String, String> {
    let inside = |commands: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--net", "sh", "-c", commands]).current_dir(folder);
        unshare
    };
    witness::run(&mut inside(commands))?;
    let serve = "--device cpu --listen 239.255.71.50:7148 --http 0.0.0.0:0";
    let all = format!("{commands} && exec {} serve {serve}", env!("CARGO_BIN_EXE_corrust"));
    let output = inside(&all).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    Ok(said)
}

#[test]
fn multicast_that_is_not_to_be_had_gets_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    for (commands, reason) in [
        // No interface leads anywhere.
        ("true", "No such device"),
        // Joining a group is not permitted.
        (
            "ip link set lo up && ip route add 224.0.0.0/4 dev lo && \
             echo 0 > /proc/sys/net/ipv4/igmp_max_memberships",
            "No buffer space available",
        ),
    ] {
        let said = match refused_in_a_network(folder.path(), commands) {
            Ok(said) => said,
            Err(reason) => {
                eprintln!("skipped: needs a network of its own: {reason}");
                return;
            }
        };
        let sentence = format!(
            "address 239.255.71.50:7148: cannot join the multicast group on interface 0.0.0.0: {reason}"
        );
        assert!(said.contains(&sentence), "{commands}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// A browser without a window.
fn browser() -> Option<&'static str> {
    let names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

#[test]
fn the_page_shows_what_metrics_say() {
    let Some(browser) = browser() else {
        eprintln!("skipped: needs Chromium (Debian's chromium-headless-shell)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(20, 33);
    case.present.fill(true);
    let service = Service::start(folder.path(), &format!("{STREAM} --integrate 64"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"not a packet", service.listen).unwrap();
    send(&case, &service, 0..20);
    service.wait("corrust_heaps_total{fate=\"placed\"}", 180.0);
    service.wait("corrust_dumps_total{fate=\"done\"}", 1.0);
    let mut chromium = Command::new(browser);
    chromium
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"])
        .args(["--virtual-time-budget=4000", "--window-size=1400,1100", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("http://{}/", service.http));
    let output = chromium.output().unwrap();
    let [page, log] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(!log.contains("CONSOLE"), "{log}");
    assert!(page.contains("data-dump=\""), "{page}\n{log}");
    let metrics = service.get("/metrics");
    let shown = metrics.lines().filter(|line| !line.starts_with('#'));
    for line in shown {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let cells = format!("<td>{name}</td><td>{value}</td>");
        assert!(page.contains(&cells), "{cells}: {page}");
    }
    // Sockets, and causes of losses.
    let packets = service.metric("corrust_packets_total");
    assert!(page.contains(&format!("<td>0</td><td>{packets}</td>")), "{page}");
    assert!(page.contains("<tr><td>bad packets: foreign</td><td>1</td></tr>"), "{page}");
    if let Some(picture) = std::env::var_os("CORRUST_SCREENSHOT") {
        let mut chromium = Command::new(browser);
        chromium
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000"])
            .args(["--window-size=1400,1100"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg(format!("--screenshot={}", Path::new(&picture).display()))
            .arg(format!("http://{}/", service.http));
        witness::run(&mut chromium).unwrap();
    }
    service.end();
}

#[test]
fn send_and_serve_fit_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), "--device cpu --seconds 0.2 -o vis.npy");
    let said = command::done(
        folder.path(),
        &format!("send --to {} --repeat 1 --rate 4MHz", service.listen),
    );
    assert!(said.contains("sent 256 heaps"), "{said}");
    service.wait("corrust_heaps_total{fate=\"placed\"}", 256.0);
    service.end();
    for (arguments, sentence) in [
        ("send nothing.npy", "nothing.npy: cannot read: No such file"),
        ("send --packet 0", "0 bytes of payload in a packet"),
        ("send --polarisations 3", "expected a divisor of the recording's 16 inputs"),
        ("send --to nowhere", "expected an IPv4 address and a port"),
    ] {
        let said = command::refused(folder.path(), arguments);
        assert!(said.contains(sentence), "{arguments}: {said}");
    }
}

#[test]
fn the_folder_is_made_and_files_of_a_killed_service_go() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("dumps/today");
    let output = format!("{STREAM} -o dumps/today/vis.npy");
    Service::start(folder.path(), &output).end();
    assert!(made.is_dir());
    let [of_it, of_another] = ["vis", "other"].map(|name| {
        let path = made.join(format!(".{name}-20260301T120000.000000Z.npy.corrust-abc.partial"));
        fs::write(&path, "killed").unwrap();
        path
    });
    Service::start(folder.path(), &output).end();
    assert!(!of_it.exists() && of_another.exists());
}
