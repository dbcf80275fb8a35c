//! `corrust bench ingest`: packets on loopback, or a pair of virtual interfaces, received in several ways.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use corrust::{
    Error, Result,
    device::Gpu,
    live::{
        self, Chunk, Fate, Geometry, Interface, Mode, Passed, Receiver, Socket, Window, discard,
        spead::{Item, MOST_BYTES, id, packets},
    },
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::cli::terminal::say::say;

/// F-engines that send to one socket.
const FENGS: usize = 4;

/// Heaps of an F-engine that differ from each other.
const VARIANTS: usize = 3;

/// Bytes before the payload of a packet.
const OVERHEAD: usize = 72;

/// Most bytes of packets that Linux keeps for a socket of a process without privileges.
const MOST_BUFFER: &str = "/proc/sys/net/core/rmem_max";

/// Script that receives with spead2 on one port.
const SPEAD2: &str = include_str!("spead2_rate.py");

/// Options of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Numbers of sockets, each with a sender and a receiving thread
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    sockets: Vec<usize>,
    /// Seconds of a measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Gigabytes a second that each sender sends at most [default: as many as it can]
    #[arg(long)]
    rate: Option<f64>,
    /// Bytes of payload in a packet
    #[arg(long, default_value_t = 8192)]
    packet: usize,
    /// Packets that are sent by one call, and may be received joined; 64 KiB at most
    #[arg(long, default_value_t = 1)]
    joined: usize,
    /// Bytes of packets that the system keeps for a socket [default: as many as it allows everyone, as spead2 gets no
    /// more]
    #[arg(long, value_name = "BYTES")]
    buffer: Option<usize>,
    /// Address to listen at
    #[arg(long, value_name = "IP", default_value_t = Ipv4Addr::LOCALHOST)]
    address: Ipv4Addr,
    /// Network namespace, as ip netns names it, from which to send: the other end of a veth pair [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Interface of the address of which packets are also received before the system's network stack (AF_XDP), as lo
    #[arg(long, value_name = "IFACE")]
    xdp: Option<Interface>,
    /// Runner of the AF_XDP program: auto, native (the driver) or generic (the system)
    #[arg(long, value_name = "MODE", default_value_t, requires = "xdp")]
    xdp_mode: Mode,
    /// Python that may have spead2
    #[arg(long, value_name = "PYTHON", default_value = "python3")]
    python: PathBuf,
}

/// Figures of one measurement.
#[derive(Clone, Copy, Default)]
struct Figures {
    /// Gigabytes a second that were sent.
    sent: f64,
    /// Gigabytes a second that came: of heaps the complete ones'.
    came: f64,
    /// Seconds of a core for a gigabyte that came.
    core: f64,
    /// Part of the packets that came too fast for the receiver.
    dropped: f64,
}

/// Receiver that is measured.
#[derive(Clone, Copy)]
enum Who<'a> {
    Floor(Way),
    /// Into chunks of the host's memory, or of a GPU's.
    Corrust(Way, Option<&'a Arc<dyn Gpu>>),
    Spead2,
}

/// Way that packets come.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Udp,
    Xdp,
}

impl Who<'_> {
    fn name(self) -> String {
        match self {
            Self::Floor(Way::Udp) => "recvmmsg alone".to_owned(),
            Self::Floor(Way::Xdp) => "AF_XDP alone".to_owned(),
            Self::Corrust(way, gpu) => {
                let way = if way == Way::Xdp { ", AF_XDP" } else { "" };
                let gpu = gpu.map(|gpu| format!(", {}", gpu.name())).unwrap_or_default();
                format!("corrust{way}{gpu}")
            }
            Self::Spead2 => "spead2".to_owned(),
        }
    }
}

impl Args {
    /// Measures each receiver in turns, `rounds` times, and prints medians.
    pub fn run(&self, rounds: usize, gpu: Option<&Arc<dyn Gpu>>) -> Result<()> {
        let Self { sockets, seconds, packet, .. } = self;
        if sockets.iter().any(|&count| !(1..=64).contains(&count)) {
            return Err(Error::invalid("--sockets: expected 1 to 64"));
        }
        if !(0.1..=86400.0).contains(seconds) {
            return Err(Error::invalid(format!("--seconds {seconds}: expected 0.1 to 86400")));
        }
        if self.rate.is_some_and(|rate| rate <= 0.0 || rate.is_nan()) {
            return Err(Error::invalid("--rate: expected more than 0"));
        }
        if !(64..=65_000).contains(packet) {
            return Err(Error::invalid(format!("--packet {packet}: expected 64 to 65000 bytes")));
        }
        if !(1..=64).contains(&self.joined) || self.joined * (packet + OVERHEAD) > MOST_BYTES {
            return Err(Error::invalid(format!(
                "--joined {}: expected 1 to 64 packets, and at most {MOST_BYTES} bytes with {OVERHEAD} before the \
                 payload of each",
                self.joined
            )));
        }
        let mut whos = vec![Who::Floor(Way::Udp), Who::Corrust(Way::Udp, None)];
        whos.extend(gpu.map(|gpu| Who::Corrust(Way::Udp, Some(gpu))));
        if self.xdp.is_some() {
            whos.extend([Who::Floor(Way::Xdp), Who::Corrust(Way::Xdp, None)]);
            whos.extend(gpu.map(|gpu| Who::Corrust(Way::Xdp, Some(gpu))));
        }
        if self.has_spead2() {
            whos.push(Who::Spead2);
        } else {
            say(format_args!("{} has no spead2, which is left out", self.python.display()));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        say(format_args!(
            "{}, {cores} cores, {packet} bytes of payload in a packet, {} sent by a call, buffers of {} bytes, medians of {rounds} \
             rounds of {seconds} s",
            if self.address.is_loopback() {
                "loopback".to_owned()
            } else {
                self.address.to_string()
            },
            self.joined,
            self.buffer()
        ));
        say("sockets  receiver         sent GB/s  came GB/s  core s/GB  dropped");
        let mut checked = 0;
        for &count in sockets {
            let mut rounds: Vec<Vec<Figures>> = (0..rounds)
                .map(|_| {
                    let round = whos.iter().map(|&who| self.measure(who, count, &mut checked));
                    round.collect::<Result<_>>()
                })
                .collect::<Result<_>>()?;
            for (index, &who) in whos.iter().enumerate() {
                let mut median = |part: fn(&Figures) -> f64| {
                    rounds.sort_by(|a, b| part(&a[index]).total_cmp(&part(&b[index])));
                    part(&rounds[rounds.len() / 2][index])
                };
                let name = who.name();
                let (sent, came) = (median(|round| round.sent), median(|round| round.came));
                let (core, dropped) = (median(|round| round.core), median(|round| round.dropped));
                let dropped = match who {
                    Who::Spead2 => "-".to_owned(),
                    _ => format!("{:.1} %", 100.0 * dropped),
                };
                say(format_args!(
                    "{count:7}  {name:15}  {sent:9.2}  {came:9.2}  {core:9.3}  {dropped:>7}"
                ));
            }
        }
        say(format_args!(
            "{checked} heaps in chunks were compared with those that were sent: none differs"
        ));
        Ok(())
    }

    fn buffer(&self) -> usize {
        let allowed = || std::fs::read_to_string(MOST_BUFFER).ok()?.trim().parse().ok();
        self.buffer.or_else(allowed).unwrap_or(1 << 20)
    }

    fn has_spead2(&self) -> bool {
        let mut python = Command::new(&self.python);
        python.args(["-c", "import spead2.recv"]).stdout(Stdio::null()).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    }

    fn measure(&self, who: Who<'_>, count: usize, checked: &mut u64) -> Result<Figures> {
        let stream = Stream::new(count, self.packet, self.joined, self.netns.clone())?;
        match who {
            Who::Floor(way) => self.floor(&stream, way),
            Who::Corrust(way, gpu) => self.corrust(&stream, way, gpu, checked),
            Who::Spead2 => self.spead2(&stream),
        }
    }

    /// Packets that are thrown away.
    fn floor(&self, stream: &Stream, way: Way) -> Result<Figures> {
        let (sockets, addresses) = self.listen(stream.sockets, way)?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                sockets.into_iter().map(|socket| scope.spawn(|| discard(socket, &stop))).collect();
            let (sent, seconds) = stream.send(&addresses, self.rate, self.seconds, || ())?;
            stop.store(true, Ordering::Relaxed);
            let mut figures = Figures { sent: sent / seconds, ..Figures::default() };
            let (mut worked, mut packets) = (0.0, 0);
            for thread in threads {
                let tally = thread.join().map_err(|_| Error::invalid("a thread has failed"))?;
                figures.came += tally.bytes as f64 / 1e9;
                worked += tally.worked.as_secs_f64();
                packets += tally.packets;
                figures.dropped += tally.dropped as f64;
            }
            figures.dropped /= packets as f64 + figures.dropped;
            figures.core = worked / figures.came;
            figures.came /= seconds;
            Ok(figures)
        })
    }

    /// Packets whose samples go to chunks, some of which are compared with the sent ones.
    fn corrust(
        &self,
        stream: &Stream,
        way: Way,
        gpu: Option<&Arc<dyn Gpu>>,
        checked: &mut u64,
    ) -> Result<Figures> {
        let (sockets, addresses) = self.listen(stream.sockets, way)?;
        let geometry = &stream.geometry;
        let ((spent, empty), (sender, passed)) = (mpsc::channel(), mpsc::channel());
        for _ in 0..geometry.window + 8 {
            if let Some(gpu) = gpu {
                let _ = spent.send(Chunk::on_gpu(geometry, gpu)?);
                continue;
            }
            let memory = geometry.memory(None)?;
            Window::chunks(geometry, [memory]).for_each(|chunk| drop(spent.send(chunk)));
        }
        let window = Window::new(geometry.clone(), 1 << 47, empty, sender);
        let heap_bytes = geometry.heap_bytes() + (64 << 10);
        let held_bytes = (2 * geometry.fengs + 8) * heap_bytes;
        let receiver = match gpu {
            Some(gpu) => Receiver::on_gpu(gpu, sockets, window, heap_bytes, held_bytes)?,
            None => Receiver::start(sockets, window, heap_bytes, held_bytes)?,
        };
        let watch = receiver.watch();
        let heap = geometry.heap_bytes() as f64 / 1e9;
        let whole = || watch.tally().heaps(Fate::Placed) as f64 * heap;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let over = &over;
            let checking = scope.spawn(move || {
                let mut checked = 0;
                loop {
                    match passed.recv_timeout(Duration::from_millis(20)) {
                        Ok(passed) => {
                            checked += stream.check(&passed)?;
                            if let Some(chunk) = passed.chunk {
                                let _ = spent.send(chunk);
                            }
                        }
                        Err(_) if over.load(Ordering::Relaxed) => return Ok(checked),
                        Err(_) => {}
                    }
                }
            });
            let mut came = 0.0;
            let sent = stream.send(&addresses, self.rate, self.seconds, || came = whole());
            receiver.stop();
            over.store(true, Ordering::Relaxed);
            let found: Result<u64> =
                checking.join().map_err(|_| Error::invalid("a thread has failed"))?;
            *checked += found?;
            let (sent, seconds) = sent?;
            let tally = watch.tally();
            let worked =
                tally.sockets.iter().map(|socket| socket.worked.as_secs_f64()).sum::<f64>();
            let dropped = tally.dropped as f64;
            Ok(Figures {
                sent: sent / seconds,
                came: came / seconds,
                core: worked / whole(),
                dropped: dropped / (tally.packets as f64 + dropped),
            })
        })
    }

    /// Heaps that spead2 receives: a process for each socket.
    fn spead2(&self, stream: &Stream) -> Result<Figures> {
        let addresses: Vec<_> = {
            let (_sockets, addresses) = self.listen(stream.sockets, Way::Udp)?;
            addresses
        };
        let mut children =
            addresses.iter().map(|to| self.child(to.port())).collect::<Result<Vec<_>>>()?;
        let mut lines: Vec<_> = children
            .iter_mut()
            .filter_map(|child| child.stdout.take().map(BufReader::new))
            .collect();
        let line = |reader: &mut BufReader<_>| -> Result<String> {
            let mut line = String::new();
            reader.read_line(&mut line).map_err(Error::io(&self.python, "read"))?;
            Ok(line)
        };
        lines.iter_mut().try_for_each(|reader| line(reader).map(drop))?;
        // They stop by themselves before the senders do.
        let (sent, seconds) = stream.send(&addresses, self.rate, self.seconds + 0.3, || ())?;
        let mut figures = Figures { sent: sent / seconds, ..Figures::default() };
        for (child, reader) in children.iter_mut().zip(&mut lines) {
            let said = line(reader)?;
            let mut numbers = said.split_whitespace().map(str::parse::<f64>);
            let (Some(Ok(came)), Some(Ok(core))) = (numbers.next(), numbers.next()) else {
                let _ = child.kill();
                return Err(Error::invalid(format!("spead2 has failed: {said:?}")));
            };
            figures.came += came;
            figures.core += came * core;
            let _ = child.wait();
        }
        figures.core /= figures.came;
        Ok(figures)
    }

    /// Sockets, and the addresses that are sent to.
    fn listen(&self, count: usize, way: Way) -> Result<(Vec<Socket>, Vec<SocketAddrV4>)> {
        let (mut sockets, mut addresses) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let socket = live::open(SocketAddrV4::new(self.address, 0), None, self.buffer())?;
            if let Ok(SocketAddr::V4(address)) = socket.local_addr() {
                addresses.push(address);
            }
            sockets.push(Socket::from(socket));
        }
        if let (Way::Xdp, Some(interface)) = (way, &self.xdp) {
            sockets.extend(interface.open(self.xdp_mode, &addresses, self.buffer())?);
        }
        Ok((sockets, addresses))
    }

    fn child(&self, port: u16) -> Result<Child> {
        let mut python = Command::new(&self.python);
        python.args([
            "-",
            &port.to_string(),
            &self.seconds.to_string(),
            &self.buffer().to_string(),
            &self.address.to_string(),
        ]);
        // It says each heap that it gives up.
        python.stderr(Stdio::null());
        let fault = Error::io(&self.python, "start");
        let mut child =
            python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(fault)?;
        // The script comes through a pipe, and ends with it.
        if let Some(mut script) = child.stdin.take() {
            script.write_all(SPEAD2.as_bytes()).map_err(Error::io(Path::new("spead2"), "write"))?;
        }
        Ok(child)
    }
}

/// Heaps that are sent.
struct Stream {
    geometry: Geometry,
    sockets: usize,
    /// Payloads `[variant][F-engine]` of heaps: slot `s` has variant `s % VARIANTS`.
    payloads: Vec<Vec<Vec<u8>>>,
    /// Bytes of payload in a packet.
    packet: usize,
    /// Packets that are sent by one call.
    joined: usize,
    /// Network namespace of the senders.
    netns: Option<String>,
}

impl Stream {
    fn new(sockets: usize, packet: usize, joined: usize, netns: Option<String>) -> Result<Self> {
        let geometry = Geometry {
            fengs: FENGS * sockets,
            polarisations: 2,
            channels: 128,
            first_channel: 0,
            heap_times: 256,
            step: 256,
            chunk_heaps: 32,
            window: 4,
        };
        geometry.check()?;
        let mut random = StdRng::seed_from_u64(1);
        let mut payload = || (0..geometry.heap_bytes()).map(|_| random.random()).collect();
        let payloads =
            (0..VARIANTS).map(|_| (0..geometry.fengs).map(|_| payload()).collect()).collect();
        Ok(Self { geometry, sockets, payloads, packet, joined, netns })
    }

    /// Sends from a thread for each address for some seconds, and calls `over` at their end. Returns gigabytes and
    /// seconds.
    fn send(
        &self,
        to: &[SocketAddrV4],
        rate: Option<f64>,
        seconds: f64,
        over: impl FnOnce(),
    ) -> Result<(f64, f64)> {
        let stop = AtomicBool::new(false);
        let progress: Vec<AtomicU64> = to.iter().map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            let (stop, progress) = (&stop, &progress);
            let senders: Vec<_> = to
                .iter()
                .enumerate()
                .map(|(number, &to)| {
                    scope.spawn(move || self.send_one(number, to, rate, stop, progress))
                })
                .collect();
            let begun = Instant::now();
            std::thread::sleep(Duration::from_secs_f64(seconds));
            over();
            let seconds = begun.elapsed().as_secs_f64();
            stop.store(true, Ordering::Relaxed);
            let mut sent = 0.0;
            for sender in senders {
                sent += sender.join().map_err(|_| Error::invalid("a thread has failed"))??;
            }
            Ok((sent, seconds))
        })
    }

    /// Sends the heaps of one address's F-engines until it is to stop. Returns gigabytes.
    fn send_one(
        &self,
        number: usize,
        to: SocketAddrV4,
        rate: Option<f64>,
        stop: &AtomicBool,
        progress: &[AtomicU64],
    ) -> Result<f64> {
        let fault = |error| Error::invalid(format!("cannot send to {to}: {error}"));
        if let Some(name) = &self.netns {
            enter(name).map_err(|error| {
                Error::invalid(format!("--netns {name}: cannot send from there: {error}"))
            })?;
        }
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(fault)?;
        socket.connect(to).map_err(fault)?;
        if self.joined > 1 {
            live::cut_packets(&socket, (self.packet + OVERHEAD) as u16).map_err(fault)?;
        }
        let Geometry { heap_times, step, .. } = self.geometry;
        let fengs = number * FENGS..(number + 1) * FENGS;
        // Packets are made once, packets of one call side by side: heap numbers and timestamps are put in when they are
        // sent.
        let mut ready: Vec<Vec<(u64, Vec<u8>)>> = Vec::new();
        for payloads in &self.payloads {
            let mut all = Vec::new();
            for feng in fengs.clone() {
                let items = [
                    Item::immediate(id::TIMESTAMP, 0),
                    Item::immediate(id::FENG, feng as u64),
                    Item::immediate(id::CHANNEL, 0),
                    Item::absolute(id::SAMPLES, 0),
                ];
                let mut each = Vec::new();
                packets(0, &items, &payloads[feng], self.packet, |packet| {
                    each.push(packet.to_vec());
                    Ok(())
                })
                .map_err(fault)?;
                let joined = each.chunks(self.joined).map(|packets| packets.concat());
                all.extend(joined.map(|packets| ((feng - fengs.start) as u64, packets)));
            }
            ready.push(all);
        }
        let bytes = (self.geometry.heap_bytes() * FENGS) as f64 / 1e9;
        let begun = Instant::now();
        let mut slot = 0;
        while !stop.load(Ordering::Relaxed) {
            let time = slot * heap_times as u64 * step;
            for (feng, packets) in &mut ready[slot as usize % VARIANTS] {
                let heap = slot * FENGS as u64 + *feng;
                for packet in packets.chunks_mut(self.packet + OVERHEAD) {
                    packet[10..16].copy_from_slice(&heap.to_be_bytes()[2..]);
                    packet[42..48].copy_from_slice(&time.to_be_bytes()[2..]);
                }
                // Fails when the receiver is gone.
                let _ = socket.send(packets);
            }
            slot += 1;
            progress[number].store(slot, Ordering::Relaxed);
            // As F-engines do, senders keep the same time; and the rate.
            let ahead = || {
                let last = progress.iter().map(|slot| slot.load(Ordering::Relaxed)).min();
                let early = rate
                    .is_some_and(|rate| begun.elapsed().as_secs_f64() < slot as f64 * bytes / rate);
                early || slot > last.unwrap_or(slot) + 16
            };
            while ahead() && !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
        Ok(slot as f64 * bytes)
    }

    /// Compares the heaps of a chunk, in one channel of it, with the sent heaps. Returns their number.
    fn check(&self, passed: &Passed<Chunk>) -> Result<u64> {
        let Some(chunk) = &passed.chunk else { return Ok(0) };
        let Geometry { fengs, polarisations, channels, heap_times, chunk_heaps, .. } =
            self.geometry;
        let missing = chunk.missing(&self.geometry);
        let first = passed.start / heap_times as u64;
        let channel = (first / chunk_heaps as u64) as usize % channels;
        let (row, sample) = (self.geometry.chunk_times() * 2, 2 * polarisations);
        let bytes = chunk.samples(&self.geometry, channel..channel + 1)?;
        let slots = ((passed.end - passed.start) / heap_times as u64) as usize;
        let mut checked = 0;
        for (slot, feng) in (0..slots).flat_map(|slot| (0..fengs).map(move |feng| (slot, feng))) {
            let [time, input] = [slot * heap_times, feng * polarisations];
            if missing.iter().any(|gap| gap.times.contains(&time) && gap.inputs.contains(&input)) {
                continue;
            }
            let payload = &self.payloads[(first as usize + slot) % VARIANTS][feng];
            let payload = &payload[channel * heap_times * sample..][..heap_times * sample];
            for polarisation in 0..polarisations {
                let at = (input + polarisation) * row + 2 * time;
                let found = bytes[at..at + 2 * heap_times].as_chunks::<2>().0.iter();
                let sent = payload.chunks_exact(sample).map(|time| &time[2 * polarisation..][..2]);
                if !found.map(|sample| &sample[..]).eq(sent) {
                    return Err(Error::invalid(format!(
                        "wrong samples of F-engine {feng} in channel {channel} at time {}",
                        passed.start + time as u64
                    )));
                }
            }
            checked += 1;
        }
        Ok(checked)
    }
}

/// Moves this thread to the network namespace `name`, where it opens its sockets.
#[cfg(target_os = "linux")]
fn enter(name: &str) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let namespace = std::fs::File::open(Path::new("/run/netns").join(name))?;
    // SAFETY: the call has no pointers, and concerns this thread alone.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Fails: only Linux has network namespaces.
#[cfg(not(target_os = "linux"))]
fn enter(_: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
