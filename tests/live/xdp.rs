//! `corrust serve --xdp`: packets taken before the system's network stack, on a pair of virtual interfaces between two
//! networks that a test makes for itself. They vanish with their last descriptor.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use corrust::{
    format::npy::{Dtype, Writer},
    live::spead::{Item, id, packets},
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::{
    service::{Service, numbers},
    support::{command, witness},
};

/// Two networks that a pair of virtual interfaces joins: packets come to `c0` of the first one, 10.99.0.1, from `c1` of the
/// second one, 10.99.0.2.
struct Networks([File; 2]);

/// Runs in a network, in a thread of its own.
fn within<T: Send>(network: &File, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            // SAFETY: the call has no pointers, and concerns this thread alone.
            assert_eq!(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            work()
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A network without any interface that is up.
fn network() -> Result<File, String> {
    let made = std::thread::spawn(|| {
        // SAFETY: the call has no pointers, and concerns this thread alone.
        match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
            0 => File::open("/proc/thread-self/ns/net"),
            _ => Err(std::io::Error::last_os_error()),
        }
    });
    made.join().unwrap().map_err(|error| format!("a network of its own: {error}"))
}

fn ip(arguments: &str) -> Result<(), String> {
    witness::run(Command::new("ip").args(arguments.split_whitespace())).map(drop)
}

impl Networks {
    /// Networks whose interfaces have `queues` queues, and packets of at most `mtu` bytes.
    fn new(queues: usize, mtu: usize) -> Result<Self, String> {
        let networks = [network()?, network()?];
        let other = format!("/proc/{}/fd/{}", std::process::id(), networks[1].as_raw_fd());
        within(&networks[0], || {
            let queues = format!("numrxqueues {queues} numtxqueues {queues}");
            ip(&format!(
                "link add c0 mtu {mtu} {queues} type veth peer name c1 mtu {mtu} {queues}"
            ))?;
            ip(&format!("link set c1 netns {other}"))?;
            ip("addr add 10.99.0.1/24 dev c0")?;
            ip("link set lo up")?;
            ip("link set c0 up")
        })?;
        within(&networks[1], || {
            ip("addr add 10.99.0.2/24 dev c1")?;
            ip("link set c1 up")
        })?;
        Ok(Self(networks))
    }

    /// Whether the system lets this process have packets of an interface; the reason why a test is left out, otherwise.
    fn ready(&self) -> Result<(), String> {
        let opened = self.receiving(|| {
            let interface: corrust::live::Interface = "c0".parse()?;
            let to = "10.99.0.1:7148".parse().unwrap();
            interface.open(corrust::live::Mode::Generic, &[to], 1 << 20).map_err(|e| e.to_string())
        });
        opened.map(drop)
    }

    fn receiving<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.0[0], work)
    }

    /// A socket of the second network.
    fn sender(&self) -> UdpSocket {
        within(&self.0[1], || UdpSocket::bind("10.99.0.2:0").unwrap())
    }
}

/// Networks to test with, or [`None`] with a line that says why not.
fn networks(queues: usize, mtu: usize) -> Option<Networks> {
    let made = Networks::new(queues, mtu);
    match made.and_then(|networks| networks.ready().map(|()| networks)) {
        Ok(networks) => Some(networks),
        Err(reason) => {
            eprintln!("skipped: needs networks of its own and AF_XDP: {reason}");
            None
        }
    }
}

/// Inputs, channels and time samples of the recording, and the form of its heaps.
const FENGS: usize = 3;
const POLARISATIONS: usize = 2;
const CHANNELS: usize = 12;
const HEAP_TIMES: usize = 512;
const SLOTS: usize = 12;
const STEP: usize = 24;
const RANGE: usize = 6;

const STREAM: &str = "--device cpu --fengs 3 --channels 12 --heap-times 512 --rate 24kHz --step 24 --sync 2026-03-01 \
                      --wraps 0 --integrate 1024 --file-dumps 2 -o vis.npy";

/// A recording `[time][channel][input][re, im]`.
fn recording() -> Vec<[i8; 2]> {
    let mut random = StdRng::seed_from_u64(11);
    let count = SLOTS * HEAP_TIMES * CHANNELS * FENGS * POLARISATIONS;
    (0..count).map(|_| [random.random(), random.random()]).collect()
}

/// All packets of a heap, of at most `most` bytes of payload.
fn heap(
    samples: &[[i8; 2]],
    [slot, feng, first]: [usize; 3],
    number: u64,
    most: usize,
) -> Vec<Vec<u8>> {
    let mut payload = Vec::new();
    for channel in first..first + RANGE {
        for time in slot * HEAP_TIMES..(slot + 1) * HEAP_TIMES {
            for input in feng * POLARISATIONS..(feng + 1) * POLARISATIONS {
                let at = (time * CHANNELS + channel) * FENGS * POLARISATIONS + input;
                payload.extend(samples[at].map(|part| part as u8));
            }
        }
    }
    let items = [
        Item::immediate(id::TIMESTAMP, (slot * HEAP_TIMES * STEP) as u64),
        Item::immediate(id::FENG, feng as u64),
        Item::immediate(id::CHANNEL, first as u64),
        Item::absolute(id::SAMPLES, 0),
    ];
    let mut all = Vec::new();
    packets(number, &items, &payload, most, |packet| {
        all.push(packet.to_vec());
        Ok(())
    })
    .unwrap();
    all
}

/// Packets of a recording in the order of their times, some of them in others' places, lost, repeated or no packets at all,
/// where `loss` is not 0.
fn stream(samples: &[[i8; 2]], most: usize, loss: f64) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(7);
    let (mut all, mut number) = (Vec::new(), 0);
    for slot in 0..SLOTS {
        let mut now = Vec::new();
        for feng in 0..FENGS {
            for first in (0..CHANNELS).step_by(RANGE) {
                number += 1;
                for packet in heap(samples, [slot, feng, first], number, most) {
                    if loss > 0.0 && random.random_bool(0.05) {
                        now.push(packet.clone());
                    }
                    if loss > 0.0 && random.random_bool(0.05) {
                        now.push(packet[..random.random_range(0..packet.len())].to_vec());
                    }
                    if !random.random_bool(loss) {
                        now.push(packet);
                    }
                }
            }
        }
        if loss > 0.0 {
            now.shuffle(&mut random);
        }
        all.extend(now);
    }
    all
}

/// Packets that a service has received, or the system has dropped.
fn came(service: &Service) -> u64 {
    let metrics = service.get("/metrics");
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap().parse().unwrap()
    };
    (value("corrust_packets_total") + value("corrust_dropped_packets_total")) as u64
}

fn settle(service: &Service, sent: u64) {
    let begun = Instant::now();
    while came(service) < sent {
        assert!(begun.elapsed() < Duration::from_secs(30), "{sent}: {}", service.get("/metrics"));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends packets, not faster than they are taken.
fn send(service: &Service, from: &UdpSocket, all: &[Vec<u8>]) {
    let before = came(service);
    for (number, packet) in all.iter().enumerate() {
        from.send_to(packet, service.listen).unwrap();
        if number % 200 == 199 {
            settle(service, before + number as u64 + 1);
        }
    }
    settle(service, before + all.len() as u64);
}

/// Packets of each socket: of the address, then of queues.
fn of_sockets(metrics: &str) -> Vec<u64> {
    let lines = metrics.lines().filter(|line| line.starts_with("corrust_socket_packets_total{"));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

/// Fates of heaps and faults of packets, as metrics tell them.
fn fates(metrics: &str) -> Vec<String> {
    let names = ["corrust_heaps_total{", "corrust_bad_packets_total{", "corrust_feng_"];
    let of = |name| metrics.lines().filter(move |line| line.starts_with(name)).map(str::to_owned);
    names.into_iter().flat_map(of).collect()
}

/// Files of dumps, by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())
        })
        .filter(|(name, _)| name.starts_with("vis-"))
        .collect();
    files.sort();
    files
}

/// What a service makes of packets.
struct Served {
    /// Fates of heaps and faults of packets, as metrics tell them: first the heaps that were placed.
    fates: Vec<String>,
    /// Packets of each socket: of the address, then of queues.
    packets: Vec<u64>,
    /// Files of dumps, by name.
    files: Vec<(String, Vec<u8>)>,
    folder: tempfile::TempDir,
}

impl Served {
    /// Visibilities of all dumps.
    fn dumps(&self) -> Vec<i64> {
        let names = self.files.iter().map(|(name, _)| name).filter(|name| name.ends_with("Z.npy"));
        names.flat_map(|name| numbers::<i64>(&self.folder.path().join(name))).collect()
    }
}

/// What a service of these options makes of packets.
fn served(networks: &Networks, options: &str, all: &[Vec<u8>]) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let from = networks.sender();
    networks.receiving(|| {
        let arguments = format!(
            "serve --listen 10.99.0.1:0 --http 127.0.0.1:0 --drain 10min {STREAM} {options}"
        );
        let service = Service::of(&mut command::command(folder.path(), &arguments));
        send(&service, &from, all);
        let metrics = service.get("/metrics");
        service.end();
        let (fates, packets) = (fates(&metrics), of_sockets(&metrics));
        Served { fates, packets, files: files(folder.path()), folder }
    })
}

fn write_npy(samples: &[[i8; 2]], path: &Path) {
    let entry = [CHANNELS, FENGS * POLARISATIONS, 2];
    let mut writer = Writer::appending(path, Dtype::Int8, &entry).unwrap();
    writer.append(bytemuck::cast_slice(samples)).unwrap();
    writer.finish().unwrap();
}

/// Whatever is lost, repeated, in another order or no packet at all: by the driver or by the system, in one frame or over
/// several, packets have the fates that they have by sockets, and dumps have the same bits; without losses, the bits of
/// `corrust correlate`.
#[test]
fn packets_past_the_network_stack_have_the_same_fates() {
    let samples = recording();
    let folder = tempfile::tempdir().unwrap();
    write_npy(&samples, &folder.path().join("rec.npy"));
    command::done(folder.path(), "correlate rec.npy --device cpu --integrate 1024 -o offline.npy");
    let offline: Vec<i64> = numbers(&folder.path().join("offline.npy"));
    // Payloads in one frame of memory, just so or not, and in three.
    for (mtu, most) in [(1500, 700), (9000, 8192), (9000, 3726), (9000, 3727)] {
        let Some(networks) = networks(1, mtu) else { return };
        for loss in [0.0, 0.1] {
            let all = stream(&samples, most, loss);
            let sockets = served(&networks, "", &all);
            assert_eq!(sockets.packets, [all.len() as u64]);
            if loss == 0.0 {
                assert_eq!(sockets.dumps(), offline, "all of it came");
            }
            for mode in ["native", "generic"] {
                let queues = served(&networks, &format!("--xdp c0 --xdp-mode {mode}"), &all);
                assert_eq!(queues.packets, [0, all.len() as u64], "{mode}");
                assert_eq!(queues.fates, sockets.fates, "{mode}, loss {loss}");
                assert!(queues.files == sockets.files, "{mode}, loss {loss}");
            }
        }
    }
}

/// Heaps that leave by one flow and come to either of two queues, of which one is taken: packets to the other queue, and
/// fragments, come by sockets.
#[test]
fn what_is_not_taken_comes_by_sockets() {
    let Some(networks) = networks(2, 1500) else { return };
    let samples = recording();
    let whole = |said: &Served| said.fates[0].rsplit(' ').next().unwrap().parse::<usize>().unwrap();
    let heaps = SLOTS * FENGS * CHANNELS / RANGE;
    // Two packets of IP for each.
    let all = stream(&samples, 2048, 0.0);
    let fragments = served(&networks, "--xdp c0", &all);
    assert_eq!(fragments.packets, [all.len() as u64, 0, 0]);
    assert_eq!(whole(&fragments), heaps);
    let all = stream(&samples, 700, 0.0);
    for (options, sockets) in [
        ("--xdp c0", 3),
        ("--xdp c0:0", 2),
        ("--xdp c0:1", 2),
        ("--xdp c0:0-1 --listen 0.0.0.0:7148", 4),
    ] {
        let found = served(&networks, options, &all);
        assert_eq!(found.packets.len(), sockets, "{options}");
        assert_eq!(found.packets.iter().sum::<u64>(), all.len() as u64, "{options}");
        assert_eq!(whole(&found), heaps, "{options}");
    }
}

/// Other ports and other protocols pass; and everything does again once the service is gone, killed too.
#[test]
fn other_packets_pass_and_nothing_stays() {
    let Some(networks) = networks(1, 1500) else { return };
    let folder = tempfile::tempdir().unwrap();
    let from = networks.sender();
    let attached = || {
        let link = witness::run(Command::new("ip").args(["link", "show", "c0"])).unwrap();
        link.contains("xdp")
    };
    networks.receiving(|| {
        let arguments = format!(
            "serve --listen 10.99.0.1:0 --http 127.0.0.1:0 --drain 10min {STREAM} --xdp c0"
        );
        let mut service = Service::of(&mut command::command(folder.path(), &arguments));
        assert!(attached());
        let other = UdpSocket::bind("10.99.0.1:0").unwrap();
        other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let listener = TcpListener::bind("10.99.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        from.send_to(b"another port", other.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 64];
        let count = other.recv(&mut bytes).unwrap();
        assert_eq!(bytes[..count], *b"another port");
        let connecting = within(&networks.0[1], || TcpStream::connect(to));
        let (mut answer, _) = listener.accept().unwrap();
        connecting.unwrap().write_all(b"another protocol").unwrap();
        let mut said = String::new();
        answer.read_to_string(&mut said).unwrap();
        assert_eq!(said, "another protocol");
        assert_eq!(came(&service), 0, "none of these is the service's");
        from.send_to(b"no heap", service.listen).unwrap();
        settle(&service, 1);
        assert_eq!(of_sockets(&service.get("/metrics")), [0, 1]);
        let listen = service.listen;
        service.child.kill().unwrap();
        service.child.wait().unwrap();
        drop(service);
        let begun = Instant::now();
        while attached() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the program stays");
            std::thread::sleep(Duration::from_millis(5));
        }
        let again = UdpSocket::bind(listen).unwrap();
        again.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        from.send_to(b"as before", listen).unwrap();
        let count = again.recv(&mut bytes).unwrap();
        assert_eq!(bytes[..count], *b"as before");
    });
}

/// Packets are not fetched for a while: packets without room are counted, no others are lost.
#[test]
fn packets_without_room_are_counted() {
    let Some(networks) = networks(1, 1500) else { return };
    let folder = tempfile::tempdir().unwrap();
    let from = networks.sender();
    let all = stream(&recording(), 500, 0.0);
    networks.receiving(|| {
        // Room for 64 packets.
        let arguments = format!(
            "serve --listen 10.99.0.1:0 --http 127.0.0.1:0 --drain 10min {STREAM} --xdp c0 --buffer 262144"
        );
        let service = Service::of(&mut command::command(folder.path(), &arguments));
        let id = service.child.id().to_string();
        let signal =
            |name: &str| witness::run(Command::new("kill").args([name, &id])).map(drop).unwrap();
        signal("-STOP");
        // Threads that are at work stop a while after the signal was sent.
        let stops = |task: std::io::Result<fs::DirEntry>| {
            let state = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            state.rsplit(") ").next().unwrap().starts_with('T')
        };
        let begun = Instant::now();
        while !fs::read_dir(format!("/proc/{id}/task")).unwrap().all(stops) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the service goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        for packet in &all[..1000] {
            from.send_to(packet, service.listen).unwrap();
        }
        signal("-CONT");
        settle(&service, 1000);
        let dropped = service.metric("corrust_dropped_packets_total");
        assert_eq!(dropped, 1000.0 - 64.0);
        assert_eq!(service.metric("corrust_socket_dropped_packets_total{socket=\"1\"}"), dropped);
        // It goes on.
        from.send_to(&all[0], service.listen).unwrap();
        settle(&service, 1001);
        assert_eq!(service.metric("corrust_packets_total"), 65.0);
        service.end();
    });
}

/// An observation of a live stream takes the option, too.
#[test]
fn observations_take_packets_past_the_network_stack() {
    let Some(networks) = networks(1, 1500) else { return };
    let folder = tempfile::tempdir().unwrap();
    let plan = "[input]\ndevice = \"cpu\"\nlive = { listen = \"10.99.0.1:7148\", xdp = \"c0\", xdp-mode = \"generic\", fengs = 3, \
                channels = 12, heap-times = 512, rate = \"24kHz\", step = 24, sync = 2026-03-01T00:00:00, wraps = 0, times = 6144, silence = 2 }\n\
                [[visibilities]]\noutput = \"vis.npy\"\nintegrate = 1024\n";
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let (samples, from) = (recording(), networks.sender());
    networks.receiving(|| {
        let mut observe = command::command(folder.path(), "observe plan.toml");
        let mut child = observe
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        while !line.contains("listening") {
            line.clear();
            let read = std::io::BufRead::read_line(&mut output, &mut line).unwrap();
            if read == 0 {
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("{said}");
            }
        }
        assert!(line.contains("1 queue by AF_XDP (generic)"), "{line}");
        let to: SocketAddrV4 = "10.99.0.1:7148".parse().unwrap();
        for (number, packet) in stream(&samples, 700, 0.0).iter().enumerate() {
            from.send_to(packet, to).unwrap();
            if number % 50 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert!(child.wait().unwrap().success());
    });
    write_npy(&samples, &folder.path().join("rec.npy"));
    command::done(folder.path(), "correlate rec.npy --device cpu --integrate 1024 -o offline.npy");
    let [live, offline] =
        ["vis.npy", "offline.npy"].map(|name| numbers::<i64>(&folder.path().join(name)));
    assert_eq!(live, offline);
}

/// No such interface or queue, another program at the interface, no right, no mode: a sentence each.
#[test]
fn what_cannot_be_taken_gets_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let serve = "serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --drain 10min --device cpu";
    for (options, sentence) in [
        ("--xdp nothing", "interface nothing: cannot find the interface: No such device"),
        ("--xdp an-interface-of-a-long-name", "cannot find the interface"),
        ("--xdp lo:", "expected an interface, and queues of it if not all are meant"),
        ("--xdp lo:3-1", "expected an interface, and queues of it if not all are meant"),
        ("--xdp lo:0-99999999999", "expected an interface, and queues of it if not all are meant"),
        ("--xdp lo --xdp-mode fast", "expected auto, native or generic"),
    ] {
        let said = command::refused(folder.path(), &format!("{serve} {options}"));
        assert!(said.contains(sentence), "{options}: {said}");
    }
    let Some(networks) = networks(2, 1500) else { return };
    networks.receiving(|| {
        let _held = {
            let interface: corrust::live::Interface = "c0:0".parse().unwrap();
            interface.open(corrust::live::Mode::Native, &[], 1 << 20).unwrap()
        };
        for (options, sentence) in [
            ("--xdp c0:2", "interface c0:2 has no queue 2, expected 0 to 1"),
            ("--xdp c0:0-4000000000", "has no queue 4000000000, expected 0 to 1"),
            ("--xdp c0:0", "expected no other program, and no other socket, at the interface"),
            ("--xdp lo --xdp-mode native", "cannot attach a program to the interface"),
        ] {
            let said = command::refused(folder.path(), &format!("{serve} {options}"));
            assert!(said.contains(sentence), "{options}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
        // As a user without rights.
        let mut nobody = Command::new("unshare");
        nobody.arg("--user").arg(env!("CARGO_BIN_EXE_corrust"));
        nobody.args(format!("{serve} --xdp c0").split_whitespace()).current_dir(folder.path());
        let output = nobody.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("unshare") {
            eprintln!("skipped in part: needs a user without rights: {said}");
            return;
        }
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("expected root, or the capabilities CAP_NET_ADMIN"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    });
}
