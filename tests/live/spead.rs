//! The live correlator: heaps in any order and of any kind become exact dumps.

use std::{
    collections::HashMap,
    fs,
    io::{Read, Write},
    net::{SocketAddrV4, TcpStream, UdpSocket},
    path::Path,
    process::Command,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use corrust::{
    Correlator, Device, Encoding, Layout,
    correlate::{Folding, baselines},
    format::npy::{Dtype, Writer},
    live::{
        Assembler, Chunk, Fate, Geometry, Integrator, LiveDump, Passed, Sender, Window,
        spead::{Fault, Item, Packet, id, packets},
    },
    samples::Samples,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use service::{Service, numbers};

use crate::{
    service,
    support::{command, witness},
};

const GEOMETRY: Geometry = Geometry {
    fengs: 3,
    polarisations: 2,
    channels: 10,
    first_channel: 40,
    heap_times: 16,
    step: 20,
    chunk_heaps: 2,
    window: 4,
};

/// Ranges of channels that heaps are of, counted from the first.
const RANGES: [std::ops::Range<usize>; 3] = [0..4, 4..8, 8..10];

/// A recording `[time][channel][input][re, im]`, and what of it comes: `[slot][F-engine][channel]`.
struct Case {
    geometry: Geometry,
    slots: usize,
    samples: Vec<[i8; 2]>,
    present: Vec<bool>,
}

/// A heap: its slot, F-engine and range of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Id {
    slot: usize,
    feng: usize,
    range: usize,
}

impl Case {
    fn new(slots: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let count = slots * GEOMETRY.heap_times * GEOMETRY.channels * GEOMETRY.shape().inputs;
        let samples = (0..count).map(|_| [random.random(), random.random()]).collect();
        let cells = slots * GEOMETRY.fengs * GEOMETRY.channels;
        Self { geometry: GEOMETRY, slots, samples, present: vec![false; cells] }
    }

    fn sample(&self, time: usize, channel: usize, input: usize) -> [i8; 2] {
        let (channels, inputs) = (self.geometry.channels, self.geometry.shape().inputs);
        self.samples[(time * channels + channel) * inputs + input]
    }

    fn cell(&self, slot: usize, feng: usize, channel: usize) -> usize {
        (slot * self.geometry.fengs + feng) * self.geometry.channels + channel
    }

    /// All heaps, in order of time.
    fn heaps(&self) -> Vec<Id> {
        let mut heaps = Vec::new();
        for slot in 0..self.slots {
            for feng in 0..self.geometry.fengs {
                heaps.extend((0..RANGES.len()).map(|range| Id { slot, feng, range }));
            }
        }
        heaps
    }

    fn mark(&mut self, heap: Id) {
        for channel in RANGES[heap.range].clone() {
            let cell = self.cell(heap.slot, heap.feng, channel);
            self.present[cell] = true;
        }
    }

    fn payload(&self, heap: Id) -> Vec<u8> {
        let Geometry { heap_times, polarisations, .. } = self.geometry;
        let mut bytes = Vec::new();
        for channel in RANGES[heap.range].clone() {
            for time in heap.slot * heap_times..(heap.slot + 1) * heap_times {
                for polarisation in 0..polarisations {
                    let input = heap.feng * polarisations + polarisation;
                    bytes.extend(self.sample(time, channel, input).map(|part| part as u8));
                }
            }
        }
        bytes
    }

    /// Its items, with timestamps from `first` on.
    fn items(&self, heap: Id, first: u64) -> [Item; 4] {
        let Geometry { heap_times, step, first_channel, .. } = self.geometry;
        let time = first + (heap.slot * heap_times) as u64 * step;
        [
            Item::immediate(id::TIMESTAMP, time),
            Item::immediate(id::FENG, heap.feng as u64),
            Item::immediate(id::CHANNEL, first_channel + RANGES[heap.range].start as u64),
            Item::absolute(id::SAMPLES, 0),
        ]
    }

    /// A dump of `times` times from slot time `start` on, by plain loops: sums and counts
    /// `[channel][baseline]`. Times before and after the recording are missing.
    fn dump(&self, start: i64, times: i64) -> (Vec<[i64; 2]>, Vec<u64>) {
        self.dump_of(start, times, |_| true)
    }

    /// The same of the times that a gate has.
    fn dump_of(
        &self,
        start: i64,
        times: i64,
        is_in: impl Fn(usize) -> bool,
    ) -> (Vec<[i64; 2]>, Vec<u64>) {
        let Geometry { channels, heap_times, polarisations, .. } = self.geometry;
        let inputs = self.geometry.shape().inputs;
        let (mut sums, mut counts) = (Vec::new(), Vec::new());
        for channel in 0..channels {
            for i in 0..inputs {
                for j in 0..=i {
                    let (mut sum, mut count) = ([0, 0], 0);
                    for time in start.max(0)..(start + times).min((self.slots * heap_times) as i64)
                    {
                        let time = time as usize;
                        let there = |input: usize| {
                            let feng = input / polarisations;
                            self.present[self.cell(time / heap_times, feng, channel)]
                        };
                        if !there(i) || !there(j) || !is_in(time) {
                            continue;
                        }
                        let [a, b] = self.sample(time, channel, i).map(i64::from);
                        let [c, d] = self.sample(time, channel, j).map(i64::from);
                        sum = [sum[0] + a * c + b * d, sum[1] + b * c - a * d];
                        count += 1;
                    }
                    sums.push(sum);
                    counts.push(count);
                }
            }
        }
        (sums, counts)
    }

    /// Checks dumps of `integration` times, of which only dumps with samples are expected; `first` is the
    /// recording's first time.
    fn check(&self, dumps: &[LiveDump], integration: u64, first: u64) {
        let end = first + (self.slots * self.geometry.heap_times) as u64;
        let numbers = first / integration..end / integration;
        let starts: Vec<u64> = dumps.iter().map(|dump| dump.start).collect();
        let expected: Vec<u64> = numbers
            .map(|number| number * integration)
            .filter(|&start| {
                let (_, counts) = self.dump(start as i64 - first as i64, integration as i64);
                counts.iter().any(|&count| count > 0)
            })
            .collect();
        assert_eq!(starts, expected);
        for dump in dumps {
            let (sums, counts) = self.dump(dump.start as i64 - first as i64, integration as i64);
            let found = dump.dump.visibilities.integer().unwrap();
            let found: Vec<_> = found.iter().map(|sum| [sum.re, sum.im]).collect();
            assert_eq!(found, sums, "dump from {}", dump.start);
            let width = baselines(self.geometry.shape().inputs);
            let valid: Vec<_> =
                (0..sums.len()).map(|k| dump.dump.valid.get(k / width, k % width)).collect();
            assert_eq!(valid, counts, "dump from {}", dump.start);
        }
    }
}

/// A receiver without sockets.
struct Bench {
    assembler: Assembler,
    window: Window,
    passed: Receiver<Passed>,
    spent: mpsc::Sender<Chunk>,
    integrator: Integrator,
    dumps: Vec<LiveDump>,
    faults: HashMap<&'static str, u64>,
    heap: u64,
}

impl Bench {
    fn new(geometry: &Geometry, integration: u64, expected: u64) -> Self {
        let ((spent, empty), (sender, passed)) = (mpsc::channel(), mpsc::channel());
        let memory =
            (0..geometry.window + 2).map(|_| Box::new(vec![0x55_u8; geometry.chunk_bytes()]) as _);
        Window::chunks(geometry, memory).for_each(|chunk| spent.send(chunk).unwrap());
        let shape = geometry.shape();
        let correlator = Correlator::builder(shape.inputs, shape.channels)
            .layout(shape.layout)
            .device(Device::Cpu)
            .build()
            .unwrap();
        Self {
            assembler: Assembler::new(1 << 16, 1 << 20),
            window: Window::new(geometry.clone(), expected, empty, sender),
            passed,
            spent,
            integrator: Integrator::new(correlator, geometry.clone(), integration).unwrap(),
            dumps: Vec::new(),
            faults: HashMap::new(),
            heap: 0,
        }
    }

    fn packet(&mut self, source: u16, bytes: &[u8]) {
        let Self { assembler, window, .. } = self;
        let taken = Packet::parse(bytes)
            .and_then(|packet| assembler.take(source, &packet, |heap| window.take(heap)));
        if let Err(fault) = taken {
            *self.faults.entry(fault.name()).or_default() += 1;
        }
        self.correlate();
    }

    fn correlate(&mut self) {
        while let Ok(passed) = self.passed.try_recv() {
            let dumps = &mut self.dumps;
            let chunk = self.integrator.take(passed, |dump| {
                dumps.push(dump.clone());
                Ok(())
            });
            if let Some(chunk) = chunk.unwrap() {
                self.spent.send(chunk).unwrap();
            }
        }
    }

    fn heap(&mut self, source: u16, items: &[Item], payload: &[u8], most: usize) {
        self.heap += 1;
        let mut sent = Vec::new();
        packets(self.heap, items, payload, most, |packet| {
            sent.push(packet.to_vec());
            Ok(())
        })
        .unwrap();
        sent.iter().for_each(|packet| self.packet(source, packet));
    }

    fn end(&mut self) {
        let Self { assembler, window, .. } = self;
        assembler.clear(|heap| window.take(heap));
        self.window.flush(false);
        self.correlate();
        let (end, dumps) = (self.window.end(), &mut self.dumps);
        let done = |dump: &LiveDump| {
            dumps.push(dump.clone());
            Ok(())
        };
        self.integrator.end(end, done).unwrap();
    }

    fn count(&self, fate: Fate) -> u64 {
        self.window.tally().heaps(fate)
    }
}

#[test]
fn packets_in_any_order_give_exact_dumps() {
    for (integration, seed) in [(32, 1), (50, 2), (7, 3)] {
        // The last chunk is not full.
        let mut case = Case::new(23, seed);
        let mut random = StdRng::seed_from_u64(seed);
        let mut bench = Bench::new(&GEOMETRY, integration, 1 << 47);
        let mut sent = Vec::new();
        let (mut dropped, mut cut) = (0, 0);
        for (number, heap) in case.heaps().into_iter().enumerate() {
            // One heap in ten does not come, one in ten lacks a packet, one in ten comes twice.
            let fate = random.random_range(0..10);
            if fate == 0 {
                dropped += 1;
                continue;
            }
            let mut parts = Vec::new();
            let (items, payload) = (case.items(heap, 0), case.payload(heap));
            packets(number as u64, &items, &payload, 40, |packet| {
                parts.push(packet.to_vec());
                Ok(())
            })
            .unwrap();
            if fate == 1 {
                parts.remove(random.random_range(0..parts.len()));
                cut += 1;
            } else {
                case.mark(heap);
            }
            if fate == 2 {
                parts.push(parts[0].clone());
            }
            sent.extend(parts.into_iter().map(|packet| (heap.slot, heap.feng as u16 + 1, packet)));
        }
        // Packets of neighbouring slots are mixed.
        sent.sort_by_key(|(slot, ..)| slot / 2);
        for part in sent.chunk_by_mut(|a, b| a.0 / 2 == b.0 / 2) {
            part.shuffle(&mut random);
        }
        sent.iter().for_each(|(_, source, packet)| bench.packet(*source, packet));
        bench.end();
        assert!(dropped > 0 && cut > 0 && bench.faults.is_empty());
        let heaps = case.heaps().len() as u64;
        assert_eq!(bench.count(Fate::Placed), heaps - dropped - cut);
        assert_eq!(bench.count(Fate::Incomplete), cut);
        case.check(&bench.dumps, integration, 0);
    }
}

/// Gate numbers repeat from the sync time on, whatever the chunks and dumps; a gate has dumps of its own.
#[test]
fn gates_count_from_the_sync_time() {
    const CYCLE: [u8; 5] = [0, 1, 1, 255, 0];
    let mut case = Case::new(23, 9);
    let mut bench = Bench::new(&GEOMETRY, 32, 1 << 47);
    let shape = GEOMETRY.shape();
    let plan = Correlator::builder(shape.inputs, shape.channels).layout(shape.layout);
    let plan = plan.device(Device::Cpu).gates(2).build().unwrap();
    let gates = Folding::cycle(CYCLE.to_vec()).unwrap();
    bench.integrator = Integrator::new(plan, GEOMETRY.clone(), 32).unwrap().gated(gates);
    for heap in case.heaps() {
        case.mark(heap);
        bench.heap(heap.feng as u16 + 1, &case.items(heap, 0), &case.payload(heap), 40);
    }
    bench.end();
    assert!(bench.dumps.len() > 3);
    for dump in &bench.dumps {
        assert_eq!(dump.gates().count(), 2);
        for (gate, found) in dump.gates().enumerate() {
            let is_in = |time: usize| usize::from(CYCLE[time % 5]) == gate;
            let (sums, counts) = case.dump_of(dump.start as i64, 32, is_in);
            let found_sums = found.visibilities.integer().unwrap();
            let found_sums: Vec<_> = found_sums.iter().map(|sum| [sum.re, sum.im]).collect();
            assert_eq!(found_sums, sums, "gate {gate} of the dump from {}", dump.start);
            let width = baselines(shape.inputs);
            let valid: Vec<_> =
                (0..sums.len()).map(|k| found.valid.get(k / width, k % width)).collect();
            assert_eq!(valid, counts, "gate {gate} of the dump from {}", dump.start);
        }
    }
}

/// Inputs are delayed over chunks that never came: later samples meet samples of their own times.
#[test]
fn delays_go_on_over_chunks_that_never_came() {
    const SHIFTS: [usize; 6] = [0, 3, 20, 40, 5, 0];
    for (integration, lost) in [(32, 6..10), (50, 6..10), (7, 6..14), (50, 5..6), (400, 6..14)] {
        let mut case = Case::new(26, 13);
        let mut bench = Bench::new(&GEOMETRY, integration, 1 << 47);
        let shape = GEOMETRY.shape();
        let plan = Correlator::builder(shape.inputs, shape.channels).layout(shape.layout);
        let plan = plan.device(Device::Cpu).shifts(&SHIFTS).build().unwrap();
        bench.integrator = Integrator::new(plan, GEOMETRY.clone(), integration).unwrap();
        for heap in case.heaps() {
            if lost.contains(&heap.slot) {
                continue;
            }
            case.mark(heap);
            bench.heap(heap.feng as u16 + 1, &case.items(heap, 0), &case.payload(heap), 1000);
        }
        bench.end();
        let Geometry { heap_times, polarisations, channels, .. } = GEOMETRY;
        let times = case.slots * heap_times;
        let delayed = |time: usize, channel: usize, input: usize| {
            let time = time.checked_sub(SHIFTS[input])?;
            case.present[case.cell(time / heap_times, input / polarisations, channel)]
                .then(|| case.sample(time, channel, input).map(i64::from))
        };
        let mut expected = Vec::new();
        for start in (0..times).step_by(integration as usize) {
            if start + integration as usize > times {
                break;
            }
            let (mut sums, mut counts) = (Vec::new(), Vec::new());
            for channel in 0..channels {
                for (i, j) in (0..shape.inputs).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                    let (mut sum, mut count) = ([0, 0], 0);
                    for time in start..start + integration as usize {
                        let both = delayed(time, channel, i).zip(delayed(time, channel, j));
                        if let Some(([a, b], [c, d])) = both {
                            sum = [sum[0] + a * c + b * d, sum[1] + b * c - a * d];
                            count += 1;
                        }
                    }
                    sums.push(sum);
                    counts.push(count);
                }
            }
            if counts.iter().any(|&count: &u64| count > 0) {
                expected.push((start as u64, sums, counts));
            }
        }
        let width = baselines(shape.inputs);
        let found: Vec<_> = bench
            .dumps
            .iter()
            .map(|dump| {
                let sums = dump.dump.visibilities.integer().unwrap();
                let sums: Vec<_> = sums.iter().map(|sum| [sum.re, sum.im]).collect();
                let valid = (0..sums.len()).map(|k| dump.dump.valid.get(k / width, k % width));
                let valid: Vec<_> = valid.collect();
                (dump.start, sums, valid)
            })
            .collect();
        assert!(found == expected, "{integration} {lost:?}");
    }
}

#[test]
fn timestamps_wrap() {
    // Heaps begin at multiples of 320: the last one before the wrap is 2^48 - 256, which is one.
    let (mut case, span) = (Case::new(12, 4), 320);
    let wraps = 3;
    let first = ((wraps << 48) + (1 << 48) - 5 * span) / span * span;
    let mut bench = Bench::new(&GEOMETRY, 48, first - 1000);
    for heap in case.heaps() {
        case.mark(heap);
        let (items, payload) = (case.items(heap, first), case.payload(heap));
        bench.heap(1, &items, &payload, 64);
    }
    bench.end();
    assert_eq!(bench.count(Fate::Placed), case.heaps().len() as u64);
    case.check(&bench.dumps, 48, first / GEOMETRY.step);
}

#[test]
fn late_repeated_conflicting_and_senders_that_begin_again() {
    let mut case = Case::new(40, 5);
    let mut bench = Bench::new(&GEOMETRY, 32, 1 << 47);
    let all = case.heaps();
    for (number, &heap) in all.iter().enumerate() {
        // One sender's later life has another port.
        let source = if heap.slot < 20 { 1 } else { 2 };
        let (items, payload) = (case.items(heap, 0), case.payload(heap));
        if heap.slot == 10 {
            continue;
        }
        case.mark(heap);
        bench.heap(source, &items, &payload, 1000);
        match number {
            50 => bench.heap(source, &items, &payload, 1000),
            // The same number from elsewhere, with other samples.
            60 | 61 => bench.heap(9, &items, &vec![0; payload.len()], 1000),
            _ => {}
        }
    }
    let late = Id { slot: 10, feng: 0, range: 0 };
    bench.heap(1, &case.items(late, 0), &case.payload(late), 1000);
    bench.end();
    let found = [Fate::Placed, Fate::Late, Fate::Repeated, Fate::Conflicting, Fate::Astray]
        .map(|fate| bench.count(fate));
    assert_eq!(found, [39 * 9, 1, 1, 2, 0]);
    case.check(&bench.dumps, 32, 0);
}

#[test]
fn one_wrong_timestamp_moves_nothing_and_many_do() {
    let mut case = Case::new(24, 6);
    let mut bench = Bench::new(&GEOMETRY, 64, 1 << 47);
    let wrong = |time| Item::immediate(id::TIMESTAMP, time * 320);
    for heap in case.heaps() {
        case.mark(heap);
        let (items, payload) = (case.items(heap, 0), case.payload(heap));
        bench.heap(1, &items, &payload, 1000);
        if heap.feng == 0 && heap.range == 1 && heap.slot >= 8 {
            let items = [wrong(1 << 30 | heap.slot as u64), items[1], items[2], items[3]];
            bench.heap(1, &items, &payload, 1000);
        }
    }
    // An hour later, and then from the beginning again.
    let jumps = [1 << 24, 0_u64];
    for jump in jumps {
        for heap in case.heaps() {
            let (items, payload) = (case.items(heap, jump * 320), case.payload(heap));
            bench.heap(1, &items, &payload, 1000);
        }
    }
    bench.end();
    assert_eq!(bench.count(Fate::Astray), 16);
    assert_eq!(bench.window.tally().jumps, 2);
    assert_eq!(bench.count(Fate::Placed), 3 * case.heaps().len() as u64);
    let each = bench.dumps.len() / 3;
    for (dumps, first) in bench.dumps.chunks(each).zip([0, jumps[0] * 16, 0]) {
        case.check(dumps, 64, first);
    }
}

#[test]
fn malformed_heaps_are_counted_by_kind() {
    let mut bench = Bench::new(&GEOMETRY, 32, 1 << 47);
    let case = Case::new(1, 7);
    let heap = Id { slot: 0, feng: 1, range: 0 };
    let ([time, feng, channel, samples], payload) = (case.items(heap, 0), case.payload(heap));
    let item = Item::immediate;
    let mut malformed = |items: &[Item], payload: &[u8], fate: Fate| {
        let before = bench.count(fate);
        bench.heap(1, items, payload, 100);
        assert_eq!(bench.count(fate), before + 1, "{fate:?}");
    };
    malformed(&[time, feng, channel], &payload, Fate::Lacking);
    malformed(&[feng, channel, samples], &payload, Fate::Lacking);
    malformed(&[time, channel, samples], &payload, Fate::Lacking);
    malformed(&[time, feng, samples], &payload, Fate::Lacking);
    malformed(&[time, item(id::FENG, 3), channel, samples], &payload, Fate::Unknown);
    malformed(&[time, feng, item(id::CHANNEL, 39), samples], &payload, Fate::Outside);
    malformed(&[time, feng, item(id::CHANNEL, 47), samples], &payload, Fate::Outside);
    malformed(&[time, feng, item(id::CHANNEL, 1 << 47), samples], &payload, Fate::Outside);
    malformed(&[item(id::TIMESTAMP, 319), feng, channel, samples], &payload, Fate::Misaligned);
    malformed(&[time, feng, channel, samples], &payload[1..], Fate::WrongSize);
    malformed(&[time, feng, channel, samples], &[], Fate::WrongSize);
    malformed(&[time, feng, channel, Item::absolute(id::SAMPLES, 1)], &payload, Fate::WrongSize);
    malformed(
        &[time, feng, channel, Item::absolute(id::SAMPLES, 1 << 40)],
        &payload,
        Fate::WrongSize,
    );
    malformed(&[item(id::CONTROL, 2)], &[], Fate::Control);
    malformed(&[Item::absolute(id::DESCRIPTOR, 0)], &payload, Fate::Control);
    // All numbers in the payload, behind the samples.
    let mut long = payload.clone();
    for number in [320, 1, 40_u64] {
        long.extend(number.to_be_bytes());
    }
    let at = |id, place: usize| Item::absolute(id, (payload.len() + 8 * place) as u64);
    let items = [at(id::TIMESTAMP, 0), at(id::FENG, 1), at(id::CHANNEL, 2), samples];
    malformed(&items, &long, Fate::Placed);
    assert!(bench.faults.is_empty());
    let mut good = Vec::new();
    packets(1, &[time], &payload, 100, |packet| {
        good.push(packet.to_vec());
        Ok(())
    })
    .unwrap();
    let changed = |byte: usize, value: u8| {
        let mut packet = good[0].clone();
        packet[byte] = value;
        packet
    };
    for (packet, fault) in [
        (vec![], Fault::Cut),
        (good[0][..20].to_vec(), Fault::Cut),
        (changed(0, 0), Fault::Foreign),
        (changed(2, 3), Fault::Foreign),
        // The pointers of heap, length and payload become those of others.
        (changed(9, 9), Fault::Unplaced),
        (changed(8, 0), Fault::Unplaced),
        (changed(33, 9), Fault::Unplaced),
        (changed(39, 200), Fault::Payload),
        (changed(29, 1), Fault::Payload),
        (changed(20, 1), Fault::Long),
    ] {
        let before = bench.faults.get(fault.name()).copied().unwrap_or(0);
        bench.packet(1, &packet);
        assert_eq!(bench.faults.get(fault.name()), Some(&(before + 1)), "{fault:?}");
    }
}

/// One input of few samples: heaps whose samples are in the item itself.
#[test]
fn small_heaps_hold_their_samples_in_the_item() {
    let geometry = Geometry {
        fengs: 1,
        polarisations: 1,
        channels: 1,
        first_channel: 0,
        heap_times: 2,
        step: 1,
        chunk_heaps: 4,
        window: 2,
    };
    let mut bench = Bench::new(&geometry, 8, 1 << 47);
    for heap in 0..4 {
        let items = [
            Item::immediate(id::TIMESTAMP, 2 * heap),
            Item::immediate(id::FENG, 0),
            Item::immediate(id::CHANNEL, 0),
            Item::immediate(id::SAMPLES, 0x0304_0506),
        ];
        bench.heap(1, &items, &[], 8);
    }
    bench.end();
    let sums = bench.dumps[0].dump.visibilities.integer().unwrap();
    assert_eq!((sums[[0, 0]].re, bench.count(Fate::Placed)), (4 * (25 + 61), 4));
}

/// Packets of anything: bytes, or packets of heaps with some bytes changed.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let items = proptest::collection::vec((any::<u16>(), any::<bool>(), any::<u64>()), 0..8);
    let known = prop_oneof![
        Just(id::TIMESTAMP),
        Just(id::FENG),
        Just(id::CHANNEL),
        Just(id::SAMPLES),
        Just(id::CONTROL),
        1..7_u16
    ];
    let small = prop_oneof![0..2000_u64, any::<u64>()];
    let sane = proptest::collection::vec((known, any::<bool>(), small), 0..8);
    let heap = (
        0..6_u64,
        prop_oneof![items, sane],
        proptest::collection::vec(any::<u8>(), 0..600),
        1..700_usize,
        proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        any::<proptest::sample::Index>(),
    );
    let changed = heap.prop_map(|(number, items, payload, most, changes, which)| {
        let items: Vec<_> = items
            .into_iter()
            .map(|(id, immediate, value)| match immediate {
                true => Item::immediate(id & 0x7fff, value),
                false => Item::absolute(id & 0x7fff, value),
            })
            .collect();
        let mut all = Vec::new();
        let keep = |packet: &[u8]| {
            all.push(packet.to_vec());
            Ok(())
        };
        packets(number, &items, &payload, most, keep).unwrap();
        let mut packet = which.get(&all).clone();
        for (at, value) in changes {
            let at = at.index(packet.len());
            packet[at] = value;
        }
        packet
    });
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), changed]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes, nothing panics, and every complete recording between is correlated exactly.
    #[test]
    fn any_packets_do_no_harm(noise in proptest::collection::vec(any_packet(), 0..100)) {
        let mut case = Case::new(4, 8);
        let mut bench = Bench::new(&GEOMETRY, 32, 1 << 47);
        let all = case.heaps();
        let mut noise = noise.iter();
        // The window stands before noise comes, which has other senders.
        for &heap in &all {
            case.mark(heap);
            let (items, payload) = (case.items(heap, 0), case.payload(heap));
            bench.heap(1, &items, &payload, 100);
            for packet in noise.by_ref().take(3) {
                bench.packet(2, packet);
            }
        }
        bench.end();
        let tally = bench.window.tally();
        // Noise that happens to be a heap of this stream comes first, or repeats what is there.
        if tally.heaps(Fate::Placed) == all.len() as u64 {
            case.check(&bench.dumps[..2.min(bench.dumps.len())], 32, 0);
        }
    }
}

/// Ten million heaps (CORRUST_LONG=1) or a hundred thousand: memory does not grow.
#[test]
fn long_streams_take_no_more_memory() {
    let long = std::env::var_os("CORRUST_LONG").is_some();
    let heaps = if long { 10_000_000_u64 } else { 100_000 };
    let case = Case::new(8, 9);
    let all = case.heaps();
    let payloads: Vec<_> = all.iter().map(|&heap| case.payload(heap)).collect();
    let mut bench = Bench::new(&GEOMETRY, 1 << 12, 1 << 47);
    let mut random = StdRng::seed_from_u64(9);
    let mut early = 0;
    let begun = Instant::now();
    let mut sent = 0;
    let mut round = 0;
    while sent < heaps {
        for (&heap, payload) in all.iter().zip(&payloads) {
            let items = case.items(heap, round * 8 * 320);
            // One in a hundred lacks a packet, comes from elsewhere, or begins again.
            match random.random_range(0..300) {
                0 => bench.heap(1, &items, &payload[..payload.len() - 8], 1000),
                1 => bench.heap(random.random_range(3..60_000), &items, payload, 1000),
                2 => {
                    let mut first = true;
                    bench.heap += 1;
                    let mut kept = Vec::new();
                    packets(bench.heap, &items, payload, 100, |packet| {
                        if !std::mem::take(&mut first) {
                            kept.push(packet.to_vec());
                        }
                        Ok(())
                    })
                    .unwrap();
                    kept.iter().for_each(|packet| bench.packet(1, packet));
                }
                _ => bench.heap(1, &items, payload, 1000),
            }
            sent += 1;
        }
        bench.dumps.clear();
        round += 1;
        if sent > heaps / 4 && early == 0 {
            early = resident();
        }
    }
    let late = resident();
    println!(
        "{sent} heaps in {:.1} s: {early} kB resident after a quarter, {late} kB at the end",
        begun.elapsed().as_secs_f64()
    );
    assert!(late < early + 4096, "{early} kB, then {late} kB");
    assert!(bench.count(Fate::Overrun) == 0 && bench.count(Fate::Incomplete) > 0);
}

/// Memory of this process, kB; 0 where the system does not say.
pub(crate) fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

const STREAM: &str = "--fengs 3 --channels 10 --first-channel 40 --heap-times 16 --step 20 --rate 1MHz \
                      --device cpu";

impl Case {
    /// Writes the recording.
    fn write(&self, path: &Path) {
        let entry = [self.geometry.channels, self.geometry.shape().inputs, 2];
        let mut file = Writer::appending(path, Dtype::Int8, &entry).unwrap();
        let bytes: Vec<u8> = self.samples.iter().flatten().map(|&part| part as u8).collect();
        file.append(&bytes).unwrap();
        file.finish().unwrap();
    }

    /// Checks files of a dump each, of all that the recording fills; their dumps are `first` and on.
    fn check_files(&self, folder: &Path, integration: u64, first: u64) {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let names: Vec<_> = names
            .iter()
            .filter(|name| {
                let name = name.to_str().unwrap();
                name.ends_with("Z.npy")
            })
            .collect();
        let times = (self.slots * self.geometry.heap_times) as u64;
        assert_eq!(names.len() as u64, times / integration, "{names:?}");
        for (number, name) in names.iter().enumerate() {
            let (sums, counts) = self.dump(number as i64 * integration as i64, integration as i64);
            let found: Vec<i64> = numbers(name);
            assert_eq!(found, sums.concat(), "{name:?}");
            let found: Vec<u64> = numbers(&name.with_extension("valid.npy"));
            assert_eq!(found, counts, "{name:?}");
            let facts = fs::read_to_string(name.with_extension("json")).unwrap();
            let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
            assert_eq!(facts["first_time"], first + number as u64 * integration);
        }
    }
}

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
        let view = Samples::new(samples, Encoding::Ci8, Layout::Tcn, channels, inputs).unwrap();
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
    assert!(service.get("/").contains("page.js"));
    service.end();
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
            format!("--listen {taken}: cannot listen there: Address already in use"),
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
    let view = Samples::new(&case.samples[..], Encoding::Ci8, Layout::Tcn, 10, 6).unwrap();
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
            "--listen 239.255.71.50:7148: cannot join the multicast group on interface 0.0.0.0: {reason}"
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
