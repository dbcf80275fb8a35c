//! Packets of several F-engines to several sockets, through the receiving threads: chunks hold what came, bit for bit,
//! and everything else is counted.

use std::{
    collections::{HashMap, HashSet},
    net::{SocketAddr, UdpSocket},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use crate::{
    service::Service,
    support::{command, device, lazy_gpu::LazyGpu},
};
use corrust::{
    Device,
    device::Gpu,
    format::{Block, Recording},
    live::{
        Chunk, Clock, Fate, Geometry, Passed, Receiver, StreamRecording, Tally, Watch, Window,
        cut_packets, open_several,
        spead::{Fault, Item, id, packets},
    },
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

/// Heaps of several packets that stay where they were received: a kilobyte and more each.
const fn geometry(polarisations: usize) -> Geometry {
    Geometry {
        fengs: 5,
        polarisations,
        channels: 12,
        first_channel: 3,
        heap_times: 250,
        step: 7,
        chunk_heaps: 2,
        window: 4,
    }
}

/// Channels of a heap: half of all.
const CHANNELS: usize = 6;

/// A heap: slot, F-engine, and half of the channels.
type Id = (usize, usize, usize);

/// A receiver on loopback, and what its chunks held.
struct Net {
    geometry: Geometry,
    receiver: Option<Receiver>,
    watch: Watch,
    to: Vec<SocketAddr>,
    /// A socket for each F-engine.
    from: Vec<UdpSocket>,
    spent: mpsc::Sender<Chunk>,
    passed: mpsc::Receiver<Passed>,
    sent: u64,
}

impl Net {
    fn new(geometry: Geometry, addresses: usize, shared: usize, held: usize) -> Self {
        Self::on(None, geometry, addresses, shared, held)
    }

    /// Chunks are in the memory of a GPU, if there is one.
    fn on(
        gpu: Option<&Arc<dyn Gpu>>,
        geometry: Geometry,
        addresses: usize,
        shared: usize,
        held: usize,
    ) -> Self {
        let mut sockets = Vec::new();
        for _ in 0..addresses {
            let address = "127.0.0.1:0".parse().unwrap();
            sockets.extend(open_several(address, None, 32 << 20, shared).unwrap());
        }
        let to =
            sockets.iter().step_by(shared).map(|socket| socket.local_addr().unwrap()).collect();
        let ((spent, empty), (sender, passed)) = (mpsc::channel(), mpsc::channel());
        // A GPU that works late keeps chunks longer.
        let count = geometry.window + if gpu.is_some() { 20 } else { 3 };
        let memory = (0..count).map(|_| Box::new(vec![0x55_u8; geometry.chunk_bytes()]) as _);
        let chunks: Vec<Chunk> = match gpu {
            None => Window::chunks(&geometry, memory).collect(),
            Some(gpu) => (0..count).map(|_| Chunk::on_gpu(&geometry, gpu).unwrap()).collect(),
        };
        chunks.into_iter().for_each(|chunk| spent.send(chunk).unwrap());
        let window = Window::new(geometry.clone(), 1 << 47, empty, sender);
        let receiver = match gpu {
            None => Receiver::start(sockets, window, 1 << 18, held),
            Some(gpu) => Receiver::on_gpu(gpu, sockets, window, 1 << 18, held),
        };
        let receiver = receiver.unwrap();
        let watch = receiver.watch();
        let from = (0..geometry.fengs).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        Self { geometry, receiver: Some(receiver), watch, to, from, spent, passed, sent: 0 }
    }

    /// Sends a packet of an F-engine, and waits now and then until all that were sent have come.
    fn send(&mut self, feng: usize, packet: &[u8]) {
        self.send_from(&self.from[feng].try_clone().unwrap(), feng, packet);
    }

    fn send_from(&mut self, socket: &UdpSocket, feng: usize, packet: &[u8]) {
        socket.send_to(packet, self.to[feng % self.to.len()]).unwrap();
        self.sent += 1;
        if self.sent.is_multiple_of(256) {
            self.settle();
        }
    }

    /// Waits until all packets that were sent have come.
    fn settle(&self) {
        let begun = Instant::now();
        while self.watch.tally().packets < self.sent {
            assert!(begun.elapsed() < Duration::from_secs(60), "packets are lost on loopback");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn packets(
        &self,
        (slot, feng, half): Id,
        number: u64,
        payload: &[u8],
        most: usize,
    ) -> Vec<Vec<u8>> {
        let Geometry { heap_times, step, first_channel, .. } = self.geometry;
        let items = [
            Item::immediate(id::TIMESTAMP, (slot * heap_times) as u64 * step),
            Item::immediate(id::FENG, feng as u64),
            Item::immediate(id::CHANNEL, first_channel + (half * CHANNELS) as u64),
            Item::absolute(id::SAMPLES, 0),
        ];
        let mut all = Vec::new();
        packets(number, &items, payload, most, |packet| {
            all.push(packet.to_vec());
            Ok(())
        })
        .unwrap();
        all
    }

    fn heaps(&self, slots: std::ops::Range<usize>) -> Vec<Id> {
        let fengs = self.geometry.fengs;
        let all = slots.flat_map(|slot| (0..fengs).map(move |feng| (slot, feng)));
        all.flat_map(|(slot, feng)| [0, 1].map(|half| (slot, feng, half))).collect()
    }

    /// Samples `[channel][time][polarisation]` of a heap: each byte tells where it belongs, and whose it is.
    fn payload(&self, (slot, feng, half): Id, sender: u64) -> Vec<u8> {
        let seed = [slot as u64, feng as u64, half as u64, sender];
        let seed = seed.into_iter().fold(17, |seed, part| seed * 1_000_003 + part);
        let mut random = StdRng::seed_from_u64(seed);
        let bytes = CHANNELS * self.geometry.heap_times * self.geometry.polarisations * 2;
        (0..bytes).map(|_| random.random()).collect()
    }

    /// Takes the chunks that were passed on, and puts the payloads of their heaps where they come from. Heaps are there
    /// or missing as a whole.
    fn collect(&self, found: &mut HashMap<Id, Vec<u8>>) {
        let Geometry { fengs, polarisations, heap_times, .. } = self.geometry;
        let row = self.geometry.chunk_times() * 2;
        for passed in self.passed.try_iter() {
            let Some(chunk) = passed.chunk else { continue };
            let missing = chunk.missing(&self.geometry);
            let bytes = chunk.samples(&self.geometry, 0..self.geometry.channels).unwrap();
            let first = passed.start as usize / heap_times;
            let slots = (passed.end - passed.start) as usize / heap_times;
            for (slot, feng, half) in self.heaps(0..slots) {
                let channels = half * CHANNELS..(half + 1) * CHANNELS;
                let [time, input] = [slot * heap_times, feng * polarisations];
                let lacks = |channel: usize| {
                    missing.iter().any(|gap| {
                        gap.times.contains(&time)
                            && gap.inputs.contains(&input)
                            && gap.channels.contains(&channel)
                    })
                };
                let lacking = channels.clone().filter(|&channel| lacks(channel)).count();
                if lacking > 0 {
                    assert_eq!(lacking, CHANNELS, "a heap is missing as a whole");
                    continue;
                }
                let mut payload = Vec::new();
                for channel in channels {
                    for time in time..time + heap_times {
                        for input in input..input + polarisations {
                            let at = (channel * fengs * polarisations + input) * row + 2 * time;
                            payload.extend_from_slice(&bytes[at..at + 2]);
                        }
                    }
                }
                let before = found.insert((first + slot, feng, half), payload);
                assert!(before.is_none(), "each heap is passed on once");
            }
            let _ = self.spent.send(chunk);
        }
    }

    /// Ends it; returns the last heaps and counts.
    fn end(&mut self, found: &mut HashMap<Id, Vec<u8>>) -> Tally {
        self.settle();
        self.receiver.take().unwrap().stop();
        self.collect(found);
        self.watch.tally()
    }
}

/// Packets lost, repeated and in another order, of payloads that end within samples: heaps of which all packets came are
/// there, bit for bit, and others are missing and counted.
#[test]
fn what_came_is_there_whatever_is_lost_repeated_or_late() {
    came_is_there(None, 20);
}

/// The same of chunks in a GPU's memory, which its kernel fills from the ring; one that works late, too, from slots that
/// must stay until it has.
#[test]
fn what_came_is_there_on_a_gpu() {
    for device in [Device::Sim, Device::Cuda(0)] {
        if let Some(gpu) = device::open(device) {
            came_is_there(Some(&gpu), 6);
        }
    }
    let late: Arc<dyn Gpu> = Arc::new(LazyGpu::new(3));
    came_is_there(Some(&late), 8);
}

fn came_is_there(gpu: Option<&Arc<dyn Gpu>>, blocks: usize) {
    // A ring of fewer slots than a block has packets, at one socket, and rings in which all has room, at four.
    for (seed, (loss, polarisations, held)) in [
        (0.0, 2, 1 << 19),
        (0.01, 1, 1 << 24),
        (0.2, 3, 1 << 24),
        (0.5, 2, 1 << 24),
        (0.05, 2, 1 << 19),
    ]
    .into_iter()
    .enumerate()
    {
        let mut random = StdRng::seed_from_u64(seed as u64);
        let sockets = if held == 1 << 19 { 1 } else { 2 };
        let mut net = Net::on(gpu, geometry(polarisations), sockets, sockets, held);
        let (mut whole, mut incomplete, mut number) = (HashSet::new(), 0, 0);
        let mut found = HashMap::new();
        for block in 0..blocks {
            let mut sent: Vec<(usize, Vec<u8>)> = Vec::new();
            for heap in net.heaps(block * 4..block * 4 + 4) {
                number += 1;
                let most = random.random_range(500..2100);
                let all = net.packets(heap, number, &net.payload(heap, 0), most);
                let (before, count) = (sent.len(), all.len());
                let mut kept = 0;
                for packet in all {
                    if random.random_bool(loss) {
                        continue;
                    }
                    kept += 1;
                    if random.random_bool(0.1) {
                        sent.push((heap.1, packet.clone()));
                    }
                    sent.push((heap.1, packet));
                }
                if kept == count {
                    whole.insert(heap);
                } else if sent.len() > before {
                    incomplete += 1;
                }
            }
            sent.shuffle(&mut random);
            sent.iter().for_each(|(feng, packet)| net.send(*feng, packet));
            net.settle();
            net.collect(&mut found);
        }
        // What is incomplete stays in the ring.
        let stays = net.watch.tally().sockets.iter().any(|socket| socket.held > 0);
        assert!(stays || loss == 0.0, "loss {loss}");
        let tally = net.end(&mut found);
        assert_eq!(found.len(), whole.len(), "loss {loss}");
        for (heap, payload) in &found {
            assert!(whole.contains(heap), "{heap:?} was not sent");
            assert_eq!(*payload, net.payload(*heap, 0), "{heap:?} at a loss of {loss}");
        }
        let count = |fate| tally.heaps(fate);
        let counted = [Fate::Placed, Fate::Incomplete, Fate::Late, Fate::Conflicting].map(count);
        assert_eq!(counted, [whole.len() as u64, incomplete, 0, 0], "loss {loss}");
        assert!(loss == 0.0 || incomplete > 0);
        // Sockets count what all count together.
        let sums = tally.sockets.iter().fold([0; 2], |[packets, bytes], socket| {
            [packets + socket.packets, bytes + socket.bytes]
        });
        assert_eq!(sums, [tally.packets, tally.bytes]);
    }
}

/// Heaps come up to five windows after their time, some twice: heaps whose chunk is still open are there, and all others are
/// counted as late, as by a plain count of chunks.
#[test]
fn heaps_in_an_order_beyond_windows_are_there_or_late() {
    for (seed, most) in [2, 8, 40].into_iter().enumerate() {
        let mut random = StdRng::seed_from_u64(seed as u64);
        let mut net = Net::new(geometry(2), 1, 1, 1 << 24);
        let (chunk_heaps, window) = (net.geometry.chunk_heaps, net.geometry.window);
        let mut sent: Vec<(usize, Id)> = Vec::new();
        for heap in net.heaps(0..200) {
            for _ in 0..random.random_range(1..3) {
                sent.push((heap.0 + random.random_range(0..=most), heap));
            }
        }
        sent.sort_by_key(|(when, _)| *when);
        let (mut base, mut number) = (None, 0);
        let (mut there, mut counts) = (HashSet::new(), [0_u64; 2]);
        let mut found = HashMap::new();
        for (_, heap) in sent {
            let chunk = heap.0 / chunk_heaps;
            let first = base.get_or_insert(chunk.saturating_sub(window - 1));
            *first = (*first).max((chunk + 1).saturating_sub(window));
            if chunk < *first {
                counts[0] += 1;
            } else if !there.insert(heap) {
                counts[1] += 1;
            }
            number += 1;
            for packet in net.packets(heap, number, &net.payload(heap, 0), 1400) {
                net.send(heap.1, &packet);
            }
            if number % 40 == 0 {
                net.settle();
                net.collect(&mut found);
            }
        }
        let tally = net.end(&mut found);
        let counted = [Fate::Late, Fate::Repeated].map(|fate| tally.heaps(fate));
        assert_eq!(counted, counts, "up to {most} slots late");
        assert_eq!(found.keys().copied().collect::<HashSet<_>>(), there, "up to {most} slots late");
        for (heap, payload) in &found {
            assert_eq!(*payload, net.payload(*heap, 0), "{heap:?}");
        }
        assert_eq!(counts[0] == 0, most == 2, "{counts:?}");
    }
}

/// Packets that one call sends, and the system hands over joined, are as many and the same as others.
#[test]
fn joined_packets_are_taken_apart() {
    joined_packets(None);
    joined_packets(device::open(Device::Sim).as_ref());
}

fn joined_packets(gpu: Option<&Arc<dyn Gpu>>) {
    const PAYLOAD: usize = 1400;
    let mut net = Net::on(gpu, geometry(2), 1, 1, 1 << 24);
    let mut found = HashMap::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Header and eight pointers.
    if let Err(reason) = cut_packets(&socket, PAYLOAD as u16 + 72) {
        eprintln!("skipped: needs UDP GSO: {reason}");
        return;
    }
    let heaps = net.heaps(0..40);
    for (number, &heap) in heaps.iter().enumerate() {
        let all = net.packets(heap, number as u64, &net.payload(heap, 0), PAYLOAD);
        // The last packet of a heap is shorter.
        assert!(all.len() > 2 && all[all.len() - 1].len() < all[0].len());
        socket.send_to(&all.concat(), net.to[0]).unwrap();
        net.sent += all.len() as u64;
        net.settle();
        net.collect(&mut found);
    }
    let tally = net.end(&mut found);
    assert_eq!((tally.packets, tally.heaps(Fate::Placed)), (net.sent, heaps.len() as u64));
    for heap in heaps {
        assert_eq!(found[&heap], net.payload(heap, 0), "{heap:?}");
    }
}

/// Cores that each of `count` receiving threads of a process may run on, in the order in which they were started.
#[cfg(target_os = "linux")]
fn cores_of(process: u32, count: usize) -> Vec<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let begun = Instant::now();
    let tasks = loop {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let mut tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).collect();
        // A thread has its name some time after it was started.
        tasks.retain(|task| read(task.join("comm")).trim() == "receive");
        if tasks.len() == count {
            break tasks;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{} receiving threads", tasks.len());
        std::thread::sleep(Duration::from_millis(1));
    };
    let number = |task: &std::path::PathBuf| -> u32 {
        task.file_name().unwrap().to_str().unwrap().parse().unwrap()
    };
    let mut tasks: Vec<_> = tasks.into_iter().map(|task| (number(&task), task)).collect();
    tasks.sort();
    let cores = |(_, task): &(u32, std::path::PathBuf)| {
        let status = read(task.join("status"));
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        cores.unwrap().trim().to_owned()
    };
    tasks.iter().map(cores).collect()
}

/// Several sockets of one address, on some cores, are one service; and the benchmark finds no wrong sample.
#[test]
fn several_sockets_are_one_service() {
    let folder = tempfile::tempdir().unwrap();
    let cores =
        if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) { 2 } else { 1 };
    let service = Service::start(
        folder.path(),
        &format!("--device cpu --sockets 3 --cores 0-{} --seconds 0.2", cores - 1),
    );
    #[cfg(target_os = "linux")]
    assert_eq!(
        cores_of(service.child.id(), 3),
        [0, 1, 2].map(|thread| (thread % cores).to_string())
    );
    let said = command::done(
        folder.path(),
        &format!("send --to {} --repeat 1 --rate 4MHz", service.listen),
    );
    assert!(said.contains("sent 256 heaps"), "{said}");
    service.wait("corrust_heaps_total{fate=\"placed\"}", 256.0);
    let metrics = service.get("/metrics");
    let of_sockets = |name: &str| -> f64 {
        let values = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    let all = metrics.lines().find_map(|line| line.strip_prefix("corrust_packets_total "));
    assert_eq!(of_sockets("corrust_socket_packets_total"), all.unwrap().parse::<f64>().unwrap());
    assert_eq!(metrics.matches("\ncorrust_socket_slots{").count(), 3);
    service.end();
    let said = command::done(
        folder.path(),
        "bench ingest --sockets 1,2 --seconds 0.3 --repeats 1 --rate 0.1 --python nothing",
    );
    assert!(said.contains("nothing has no spead2") && said.contains("none differs"), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("  corrust  ")).count(), 2, "{said}");
    let said = command::done(
        folder.path(),
        "bench ingest --sockets 1 --seconds 0.3 --repeats 1 --rate 0.02 --python nothing --device sim",
    );
    assert!(said.contains("  corrust, sim  ") && said.contains("none differs"), "{said}");
    for (arguments, sentence) in [
        (
            "serve --sockets 2 --listen 239.255.71.51:0",
            "each would get all packets of the multicast group",
        ),
        (
            "serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --device cpu --cores 1023",
            "core 1023: cannot run",
        ),
        ("serve --cores 5-2", "expected numbers of cores"),
        ("bench ingest --packet 65000 --joined 2", "--joined 2: expected 1 to 64 packets"),
        ("bench ingest --device model:h200", "--device model:h200: a model receives no packets"),
        ("bench ingest --sustain 1", "--sustain: rates of packets are printed alone"),
    ] {
        let said = command::refused(folder.path(), arguments);
        assert!(said.contains(sentence), "{arguments}: {said}");
    }
}

/// Two senders of one number, at two sockets at a time: every heap is one's or the other's as a whole, and the other one
/// is counted.
#[test]
fn of_two_senders_of_one_number_one_is_taken() {
    let mut net = Net::new(geometry(2), 2, 1, 1 << 24);
    let mut found = HashMap::new();
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let slots = 60;
    for (number, heap) in net.heaps(0..slots).into_iter().enumerate() {
        let [ours, theirs] = [0, 1].map(|sender| net.payload(heap, sender));
        let ours = net.packets(heap, number as u64, &ours, 1400);
        let theirs = net.packets(heap, number as u64, &theirs, 1400);
        // The second sender's come to the other socket.
        for (packet, twin) in ours.iter().zip(&theirs) {
            net.send(heap.1, packet);
            if heap.1 == 0 {
                net.send_from(&other, 1, twin);
            }
        }
        if number % 40 == 0 {
            net.settle();
            net.collect(&mut found);
        }
    }
    let tally = net.end(&mut found);
    assert_eq!(found.len(), net.heaps(0..slots).len());
    for (heap, payload) in &found {
        let senders = if heap.1 == 0 { 2 } else { 1 };
        assert!((0..senders).any(|sender| *payload == net.payload(*heap, sender)), "{heap:?}");
    }
    let counted = [Fate::Placed, Fate::Conflicting, Fate::Repeated].map(|fate| tally.heaps(fate));
    assert_eq!(counted, [found.len() as u64, 2 * slots as u64, 0]);
}

/// A hundred thousand packets of no meaning (CORRUST_LONG=1: ten million) between those of heaps do no harm.
#[test]
fn malformed_packets_do_no_harm() {
    let long = std::env::var_os("CORRUST_LONG").is_some();
    let noise = if long { 10_000_000_u64 } else { 100_000 };
    let mut net = Net::new(geometry(2), 2, 1, 1 << 22);
    let mut random = StdRng::seed_from_u64(5);
    let mut found = HashMap::new();
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut number, mut slot, mut placed) = (0, 0, 0);
    while net.sent < noise {
        for heap in net.heaps(slot..slot + 1) {
            number += 1;
            let all = net.packets(heap, number, &net.payload(heap, 0), 1400);
            for packet in &all {
                net.send(heap.1, packet);
                for _ in 0..6 {
                    // Packets of unknown numbers, with some bytes changed.
                    let most = random.random_range(1..1400);
                    let strange = (heap.0, 64 + heap.1, heap.2);
                    let payload = &net.payload(heap, 7)[..random.random_range(1..1400)];
                    let all = net.packets(strange, random.random_range(0..40), payload, most);
                    let mut packet = all[random.random_range(0..all.len())].clone();
                    for _ in 0..random.random_range(0..4) {
                        // The number stays.
                        let at = random.random_range(0..packet.len());
                        if !(48..56).contains(&at) {
                            packet[at] = random.random();
                        }
                    }
                    packet.truncate(random.random_range(0..=packet.len()));
                    net.send_from(&other, random.random_range(0..2), &packet);
                }
            }
            placed += 1;
        }
        slot += 1;
        net.settle();
        net.collect(&mut found);
        if found.len() > 10_000 {
            found.clear();
        }
    }
    let tally = net.end(&mut found);
    for (heap, payload) in &found {
        assert_eq!(*payload, net.payload(*heap, 0), "{heap:?}");
    }
    assert_eq!(tally.heaps(Fate::Placed), placed);
    for fault in [Fault::Cut, Fault::Foreign, Fault::Unplaced, Fault::Payload] {
        assert!(tally.faults(fault) > 0, "{fault}");
    }
    let faults: u64 = Fault::ALL.iter().map(|&fault| tally.faults(fault)).sum();
    assert_eq!(tally.sockets.iter().map(|socket| socket.faults).sum::<u64>(), faults);
}

/// Chunks are not taken for a while: heaps for which there is no memory are counted, heaps with a place stay as they are,
/// and then reception continues.
#[test]
fn a_stalled_consumer_costs_what_has_no_memory_and_nothing_else() {
    let mut net = Net::new(geometry(2), 2, 1, 1 << 24);
    let mut found = HashMap::new();
    for slot in 0..120 {
        for (number, heap) in net.heaps(slot..slot + 1).into_iter().enumerate() {
            let number = (slot * 100 + number) as u64;
            for packet in net.packets(heap, number, &net.payload(heap, 0), 1400) {
                net.send(heap.1, &packet);
            }
        }
        net.settle();
        if !(20..80).contains(&slot) {
            net.collect(&mut found);
        }
    }
    let tally = net.end(&mut found);
    let [placed, overrun] = [Fate::Placed, Fate::Overrun].map(|fate| tally.heaps(fate));
    assert!(overrun > 0);
    assert_eq!((placed, placed + overrun), (found.len() as u64, net.heaps(0..120).len() as u64));
    assert!((100..120).all(|slot| found.contains_key(&(slot, 4, 1))), "it goes on");
    for (heap, payload) in &found {
        assert_eq!(*payload, net.payload(*heap, 0), "{heap:?}");
    }
}

/// Heaps are lost, and all heaps of some slots, once of so long that the time jumps: samples that came are read, the rest
/// are missing and zero, and blocks without samples are passed over.
#[test]
fn a_recording_of_a_stream_has_what_came() {
    for (align, block_times, until) in
        [(1, 333, u64::MAX), (700, 1000, u64::MAX), (250, 64, 30_000)]
    {
        let mut random = StdRng::seed_from_u64(align);
        let mut net = Net::new(geometry(2), 1, 1, 1 << 24);
        let geometry = net.geometry.clone();
        let memory = (0..100).map(|_| Box::new(vec![0x55_u8; geometry.chunk_bytes()]) as _);
        Window::chunks(&geometry, memory).for_each(|chunk| net.spent.send(chunk).unwrap());
        let mut came = HashSet::new();
        let slots = (3..30).chain(36..60).chain(200..240);
        let heaps: Vec<Id> = slots.flat_map(|slot| net.heaps(slot..slot + 1)).collect();
        for (number, heap) in heaps.into_iter().enumerate() {
            if random.random_bool(0.1) && heap.0 != 3 {
                continue;
            }
            came.insert(heap);
            for packet in net.packets(heap, number as u64, &net.payload(heap, 0), 1400) {
                net.send(heap.1, &packet);
            }
        }
        net.settle();
        let passed = std::mem::replace(&mut net.passed, mpsc::channel().1);
        let sync = "2026-03-01T12:00:00Z".parse().unwrap();
        let clock = Clock { sync, rate: 7e3, step: 7 };
        let receiver = net.receiver.take().unwrap();
        let chunks = (net.spent.clone(), passed);
        let mut recording =
            StreamRecording::new(receiver, geometry.clone(), clock, chunks, || true);
        assert!(recording.begin(align.try_into().unwrap()));
        recording.until(until);
        let first = 750_u64.next_multiple_of(align);
        assert_eq!(recording.start(), Some(clock.moment(first)));
        let shape = recording.shape();
        let (mut block, mut time, mut passed_over) = (Block::new(), first as usize, 0);
        while recording.read_block(block_times, &mut block).unwrap() > 0 {
            assert!((block.gap as usize).is_multiple_of(block_times));
            let gap = time..time + block.gap as usize;
            assert!(
                gap.is_empty()
                    || came
                        .iter()
                        .all(|&(slot, ..)| slot * 250 + 250 <= gap.start || slot * 250 >= gap.end)
            );
            passed_over += block.gap;
            time = gap.end;
            for (channel, input) in (0..12).flat_map(|c| (0..10).map(move |i| (c, i))) {
                let row = (channel * shape.inputs + input) * block.times * 2;
                let mut payload = (usize::MAX, None);
                for at in 0..block.times {
                    let heap = ((time + at) / 250, input / 2, channel / CHANNELS);
                    if payload.0 != heap.0 {
                        payload = (heap.0, came.contains(&heap).then(|| net.payload(heap, 0)));
                    }
                    let within =
                        ((channel % CHANNELS * 250 + (time + at) % 250) * 2 + input % 2) * 2;
                    let expected =
                        payload.1.as_ref().map_or(&[0, 0][..], |bytes| &bytes[within..within + 2]);
                    assert_eq!(block.samples[row + 2 * at..][..2], *expected, "{heap:?}");
                    let lost = block.missing.iter().any(|gap| {
                        gap.times.contains(&at)
                            && gap.channels.contains(&channel)
                            && gap.inputs.contains(&input)
                    });
                    assert_eq!(lost, payload.1.is_none(), "{heap:?}");
                }
            }
            time += block.times;
        }
        assert_eq!(time as u64, (first + until.min(60_000)).min(60_000));
        assert!(passed_over > 20_000 || until < u64::MAX);
    }
}

/// Pieces of heaps that come twice, cut at different places, and a time that jumps: the last bytes that came count, and
/// heaps that were held go to a GPU's chunk as to the host's.
#[test]
fn overlaps_and_jumps_are_the_same_on_a_gpu() {
    let late: Arc<dyn Gpu> = Arc::new(LazyGpu::new(4));
    for gpu in [None, device::open(Device::Sim).as_ref(), Some(&late)] {
        let mut net = Net::on(gpu, geometry(2), 1, 1, 1 << 24);
        let mut found = HashMap::new();
        let mut sent = HashMap::new();
        // Slots far apart: heaps are held until enough of them agree.
        let heaps: Vec<Id> =
            [0..6, 5000..5008].into_iter().flat_map(|slots| net.heaps(slots)).collect();
        for (number, &heap) in heaps.iter().enumerate() {
            let (first, second) = (net.payload(heap, 1), net.payload(heap, 2));
            let [mut early, late] = [(&first, 1900), (&second, 1100)]
                .map(|(payload, most)| net.packets(heap, number as u64, payload, most));
            // The middle of the heap is the first sender's, where the second one adds nothing.
            early.truncate(3);
            early.remove(0);
            let mut expected = vec![0; first.len()];
            for (payload, packets, most) in [(&first, &early, 1900), (&second, &late, 1100)] {
                for packet in packets {
                    let offset = u64::from_be_bytes(packet[24..32].try_into().unwrap()) << 16 >> 16;
                    let range = offset as usize..(offset as usize + most).min(first.len());
                    let known = most == 1100 && range.start >= 1900 && range.end <= 3 * 1900;
                    if !known {
                        expected[range.clone()].copy_from_slice(&payload[range]);
                    }
                }
            }
            for packet in early.iter().chain(&late) {
                net.send(heap.1, packet);
            }
            sent.insert(heap, expected);
            if number % 20 == 19 {
                net.settle();
                net.collect(&mut found);
            }
        }
        let tally = net.end(&mut found);
        assert_eq!((tally.jumps, tally.heaps(Fate::Placed)), (1, heaps.len() as u64));
        assert_eq!(found.len(), heaps.len());
        for (heap, payload) in &found {
            assert_eq!(*payload, sent[heap], "{heap:?}");
        }
    }
}

/// A GPU that is lost takes no samples: chunks say so, and are never mistaken for received ones.
#[test]
fn chunks_of_a_lost_gpu_say_so() {
    let lazy = Arc::new(LazyGpu::new(1));
    let gpu: Arc<dyn Gpu> = lazy.clone();
    let mut net = Net::on(Some(&gpu), geometry(2), 1, 1, 1 << 24);
    let heaps = net.heaps(0..12);
    let half = heaps.len() / 2;
    for (number, heap) in heaps.into_iter().enumerate() {
        if number == half {
            net.settle();
            lazy.fail_all();
        }
        for packet in net.packets(heap, number as u64, &net.payload(heap, 0), 1400) {
            net.send(heap.1, &packet);
        }
    }
    net.settle();
    net.receiver.take().unwrap().stop();
    let chunks: Vec<Chunk> = net.passed.try_iter().filter_map(|passed| passed.chunk).collect();
    assert!(chunks.len() > 2);
    let last = chunks[chunks.len() - 1].samples(&net.geometry, 0..1);
    assert!(last.unwrap_err().to_string().contains("the GPU is lost"));
}
