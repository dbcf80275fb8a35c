//! Packets by the hundred million through the receiving threads and the correlator: every sum is the sum of the samples
//! that came, and all other packets are counted.

use std::{
    collections::{HashMap, HashSet},
    net::{SocketAddr, UdpSocket},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use corrust::{
    Correlator, Device,
    correlate::baselines,
    live::{
        Chunk, Fate, Geometry, Integrator, Passed, Receiver, Window, cut_packets, open,
        spead::{Item, id, packets},
    },
    run::Integration,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::spead::resident;

const GEOMETRY: Geometry = Geometry {
    fengs: 4,
    polarisations: 2,
    channels: 128,
    first_channel: 0,
    heap_times: 256,
    step: 256,
    chunk_heaps: 16,
    window: 4,
};

/// Sockets, each with a sender of as many F-engines.
const SOCKETS: usize = 2;
const FENGS: usize = GEOMETRY.fengs / SOCKETS;

/// Bytes of payload in a packet, bytes before it, and packets that a call sends.
const PAYLOAD: usize = 1024;
const OVERHEAD: usize = 72;
const JOINED: usize = 48;

/// Fraction of packets that are not sent.
const LOST: f64 = 1.0 / 4000.0;

/// Heaps of an F-engine that differ from each other: slot `s` has number `s % VARIANTS`.
const VARIANTS: usize = 3;

/// Slots that senders are ahead of the correlator: open chunks, and waiting ones.
const AHEAD: u64 = ((GEOMETRY.window + 4) * GEOMETRY.chunk_heaps) as u64;

/// Payloads `[variant][F-engine]` `[channel][time][polarisation][re, im]`.
type Payloads = Vec<Vec<Vec<u8>>>;

/// Sums of a slot `[variant][channel][baseline]`, by plain loops.
fn sums(payloads: &Payloads) -> Vec<Vec<Vec<[i64; 2]>>> {
    let Geometry { fengs, polarisations, channels, heap_times, .. } = GEOMETRY;
    let of_variant = |fengs_of: &Vec<Vec<u8>>| {
        let sample = |input: usize, channel: usize, time: usize| {
            let at = ((channel * heap_times + time) * polarisations + input % polarisations) * 2;
            [0, 1].map(|part| i64::from(fengs_of[input / polarisations][at + part] as i8))
        };
        let of_channel = |channel: usize| {
            let mut all = Vec::new();
            for i in 0..fengs * polarisations {
                for j in 0..=i {
                    let mut sum = [0; 2];
                    for time in 0..heap_times {
                        let ([a, b], [c, d]) = (sample(i, channel, time), sample(j, channel, time));
                        sum = [sum[0] + a * c + b * d, sum[1] + b * c - a * d];
                    }
                    all.push(sum);
                }
            }
            all
        };
        (0..channels).map(of_channel).collect()
    };
    payloads.iter().map(of_variant).collect()
}

/// State that senders and the correlator share.
#[derive(Default)]
struct Shared {
    /// Slots that were correlated.
    done: AtomicU64,
    /// Slots that each sender has sent.
    sent: [AtomicU64; SOCKETS],
    /// Packets that were sent.
    packets: AtomicU64,
    /// Heaps, by slot and F-engine, of which a packet was not sent.
    broken: Mutex<HashSet<(u64, usize)>>,
}

/// Sends so many slots of a sender's F-engines, as fast as the slowest of all that take part.
fn send(number: usize, to: SocketAddr, payloads: &Payloads, slots: u64, shared: &Shared) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    cut_packets(&socket, (PAYLOAD + OVERHEAD) as u16).unwrap();
    let mut random = StdRng::seed_from_u64(number as u64);
    let mut ready: Vec<Vec<(usize, Vec<u8>)>> = Vec::new();
    for of_fengs in payloads {
        let mut trains = Vec::new();
        let mine = number * FENGS..(number + 1) * FENGS;
        for (feng, payload) in mine.clone().zip(&of_fengs[mine]) {
            let items = [
                Item::immediate(id::TIMESTAMP, 0),
                Item::immediate(id::FENG, feng as u64),
                Item::immediate(id::CHANNEL, 0),
                Item::absolute(id::SAMPLES, 0),
            ];
            let mut all = Vec::new();
            packets(0, &items, payload, PAYLOAD, |packet| {
                all.push(packet.to_vec());
                Ok(())
            })
            .unwrap();
            trains.extend(all.chunks(JOINED).map(|train| (feng, train.concat())));
        }
        ready.push(trains);
    }
    for slot in 0..slots {
        let time = slot * (GEOMETRY.heap_times as u64) * GEOMETRY.step;
        let mut count = 0;
        for (feng, train) in &mut ready[slot as usize % VARIANTS] {
            let heap = slot * GEOMETRY.fengs as u64 + *feng as u64;
            for packet in train.chunks_mut(PAYLOAD + OVERHEAD) {
                packet[10..16].copy_from_slice(&heap.to_be_bytes()[2..]);
                packet[42..48].copy_from_slice(&time.to_be_bytes()[2..]);
            }
            let all = train.len() / (PAYLOAD + OVERHEAD);
            let lost = random.random_bool(LOST * all as f64).then(|| random.random_range(0..all));
            if lost.is_some() {
                shared.broken.lock().unwrap().insert((slot, *feng));
            }
            let bytes = |packets: std::ops::Range<usize>| {
                packets.start * (PAYLOAD + OVERHEAD)..packets.end * (PAYLOAD + OVERHEAD)
            };
            let parts = match lost {
                None => [bytes(0..all), 0..0],
                Some(lost) => [bytes(0..lost), bytes(lost + 1..all)],
            };
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                count += part.len() / (PAYLOAD + OVERHEAD);
                socket.send(&train[part]).unwrap();
            }
        }
        shared.packets.fetch_add(count as u64, Ordering::Relaxed);
        shared.sent[number].store(slot + 1, Ordering::Relaxed);
        // No sender is far ahead of the others and of the correlator, which continues without dropped slots.
        let begun = Instant::now();
        let behind = || {
            let slowest = shared.sent.iter().map(|sent| sent.load(Ordering::Relaxed)).min();
            slot > slowest.unwrap() + 8 || slot > shared.done.load(Ordering::Relaxed) + AHEAD
        };
        while behind() && begun.elapsed() < Duration::from_millis(500) {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Compares dumps with the sums of the heaps that came.
struct Judge<'a> {
    sums: Vec<Vec<Vec<[i64; 2]>>>,
    shared: &'a Shared,
    /// Heaps `[slot][F-engine]` that are there, by the first time of their dump.
    there: HashMap<u64, Vec<Vec<bool>>>,
    /// Dumps, and heaps that were there and that were not though all their packets were sent.
    dumps: u64,
    heaps: u64,
    absent: u64,
}

impl Judge<'_> {
    fn compare(&mut self, passed: &Passed<Chunk>) {
        let Some(chunk) = &passed.chunk else { return };
        let Geometry { fengs, polarisations, channels, heap_times, .. } = GEOMETRY;
        let missing = chunk.missing(&GEOMETRY);
        let first = passed.start / heap_times as u64;
        let slots = ((passed.end - passed.start) / heap_times as u64) as usize;
        let mut there = vec![vec![true; fengs]; slots];
        for gap in &missing {
            assert_eq!(gap.channels, 0..channels, "a heap is missing as a whole");
            let slots = gap.times.start / heap_times..(gap.times.end / heap_times).min(slots);
            for fengs in &mut there[slots] {
                fengs[gap.inputs.start / polarisations] = false;
            }
        }
        let mut broken = self.shared.broken.lock().unwrap();
        for (slot, fengs) in there.iter().enumerate() {
            for (feng, &there) in fengs.iter().enumerate() {
                let is_broken = broken.remove(&(first + slot as u64, feng));
                assert!(!there || !is_broken, "a heap is there of which a packet was not sent");
                self.heaps += u64::from(there);
                self.absent += u64::from(!there && !is_broken);
            }
        }
        self.there.insert(passed.start, there);
        let done = passed.end / heap_times as u64;
        self.shared.done.store(done, Ordering::Relaxed);
    }

    fn judge(&mut self, dump: &Integration) {
        let Geometry { polarisations, channels, heap_times, .. } = GEOMETRY;
        let inputs = GEOMETRY.shape().inputs;
        let there = self.there.remove(&dump.start).expect("a dump of a chunk");
        let first = dump.start as usize / heap_times;
        let width = baselines(inputs);
        let pairs: Vec<_> = (0..inputs).flat_map(|i| (0..=i).map(move |j| [i, j])).collect();
        let visibilities = dump.gates[0].visibilities.integer().unwrap();
        for channel in 0..channels {
            for (baseline, pair) in pairs.iter().enumerate() {
                let (mut sum, mut count) = ([0; 2], 0);
                for (slot, fengs) in there.iter().enumerate() {
                    if pair.iter().all(|input| fengs[input / polarisations]) {
                        let [re, im] = self.sums[(first + slot) % VARIANTS][channel][baseline];
                        sum = [sum[0] + re, sum[1] + im];
                        count += heap_times as u64;
                    }
                }
                let found = visibilities[[channel, baseline]];
                assert_eq!(
                    [found.re, found.im],
                    sum,
                    "{pair:?} in channel {channel} at {}",
                    dump.start
                );
                let valid = dump.gates[0].valid.get(channel, baseline);
                assert_eq!(valid, count, "{pair:?} in channel {channel} at {}", dump.start);
            }
        }
        assert_eq!(pairs.len(), width);
        self.dumps += 1;
    }
}

/// Half a million packets (CORRUST_LONG=1: a hundred million), of which one in four thousand is not sent, and some may be
/// dropped by the system: each sum, and its count of valid samples, covers exactly the heaps that came whole.
#[test]
fn a_hundred_million_packets_give_no_wrong_sum() {
    let long = std::env::var_os("CORRUST_LONG").is_some();
    let count = if long { 100_000_000 } else { 500_000_u64 };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    if let Err(reason) = cut_packets(&socket, PAYLOAD as u16) {
        eprintln!("skipped: needs UDP GSO: {reason}");
        return;
    }
    let mut random = StdRng::seed_from_u64(3);
    let mut payload = || (0..GEOMETRY.heap_bytes()).map(|_| random.random()).collect();
    let payloads: Payloads =
        (0..VARIANTS).map(|_| (0..GEOMETRY.fengs).map(|_| payload()).collect()).collect();
    let address = "127.0.0.1:0".parse().unwrap();
    let sockets: Vec<_> = (0..SOCKETS).map(|_| open(address, None, 32 << 20).unwrap()).collect();
    let to: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let ((spent, empty), (sender, passed)) = (mpsc::channel(), mpsc::channel());
    let memory =
        (0..GEOMETRY.window + 8).map(|_| Box::new(vec![0x55_u8; GEOMETRY.chunk_bytes()]) as _);
    Window::chunks(&GEOMETRY, memory).for_each(|chunk| spent.send(chunk).unwrap());
    let window = Window::new(GEOMETRY, 1 << 47, empty, sender);
    let receiver = Receiver::start(sockets, window, 1 << 18, 1 << 24).unwrap();
    let watch = receiver.watch();
    let shape = GEOMETRY.shape();
    let builder = Correlator::builder(shape.inputs, shape.channels).layout(shape.layout);
    let correlator = builder.device(Device::Cpu).build().unwrap();
    let mut integrator =
        Integrator::new(correlator, GEOMETRY, GEOMETRY.chunk_times() as u64).unwrap();
    let shared = Shared::default();
    let mut judge = Judge {
        sums: sums(&payloads),
        shared: &shared,
        there: HashMap::new(),
        dumps: 0,
        heaps: 0,
        absent: 0,
    };
    let of_slot = (GEOMETRY.heap_bytes() / PAYLOAD * GEOMETRY.fengs) as u64;
    let slots = count.div_ceil(of_slot);
    let begun = Instant::now();
    let mut quarter = None;
    std::thread::scope(|scope| {
        let senders: Vec<_> = to
            .iter()
            .enumerate()
            .map(|(number, &to)| {
                let (payloads, shared) = (&payloads, &shared);
                scope.spawn(move || send(number, to, payloads, slots, shared))
            })
            .collect();
        let mut receiver = Some(receiver);
        loop {
            match passed.recv_timeout(Duration::from_millis(50)) {
                Ok(passed) => {
                    judge.compare(&passed);
                    if shared.done.load(Ordering::Relaxed) > slots / 4 {
                        quarter.get_or_insert_with(resident);
                    }
                    let taken = integrator.process(passed, |dump| {
                        judge.judge(dump);
                        Ok(())
                    });
                    if let Some(chunk) = taken.unwrap() {
                        let _ = spent.send(chunk);
                    }
                }
                Err(_) if receiver.is_none() => break,
                Err(_) if senders.iter().all(|sender| sender.is_finished()) => {
                    receiver.take().unwrap().stop();
                }
                Err(_) => {}
            }
        }
        let end = slots * GEOMETRY.heap_times as u64;
        integrator
            .end(end, |dump| {
                judge.judge(dump);
                Ok(())
            })
            .unwrap();
    });
    let (tally, sent) = (watch.tally(), shared.packets.load(Ordering::Relaxed));
    let count = |fate| tally.heaps(fate);
    eprintln!(
        "{sent} packets sent, {} received, {} dropped by the system; {} heaps placed, {} incomplete, {} late, {} overrun; {} dumps of {} \
         sums: none is wrong; {:.1} s; {} kB of memory after a quarter, {} at the end",
        tally.packets,
        tally.dropped,
        count(Fate::Placed),
        count(Fate::Incomplete),
        count(Fate::Late),
        count(Fate::Overrun),
        judge.dumps,
        GEOMETRY.channels * baselines(shape.inputs),
        begun.elapsed().as_secs_f64(),
        quarter.unwrap_or(0),
        resident(),
    );
    // Other tests of this process take memory, too, but the long one runs alone.
    assert!(!long || resident() < quarter.unwrap() + (32 << 10));
    // The system counts joined packets that it drops as one.
    let lost = sent - tally.packets;
    assert!(tally.dropped <= lost && lost <= JOINED as u64 * tally.dropped, "{lost}");
    assert!(judge.dumps > 0 && count(Fate::Incomplete) > 0);
    assert_eq!(judge.heaps, count(Fate::Placed));
    // A heap that did not come although all its packets were sent lacks a lost one, came late, or had no memory.
    assert!(judge.absent <= lost + count(Fate::Late) + count(Fate::Overrun));
}
