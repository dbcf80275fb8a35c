//! The live correlator: heaps in any order and of any kind become exact dumps.

use std::{
    collections::HashMap,
    fs,
    process::Command,
    sync::mpsc::{self, Receiver},
    time::Instant,
};

use corrust::{
    Correlator, Device,
    correlate::{Folding, baselines},
    live::{
        Assembler, Chunk, Fate, Geometry, Integrator, Passed, Window,
        spead::{Fault, Item, Packet, id, packets},
    },
    run::Integration,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::heaps::{Case, GEOMETRY, Id};

/// A receiver without sockets.
struct Bench {
    assembler: Assembler,
    window: Window,
    passed: Receiver<Passed>,
    spent: mpsc::Sender<Chunk>,
    integrator: Integrator,
    dumps: Vec<Integration>,
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
        let taken = Packet::parse(bytes).and_then(|packet| {
            assembler.add_packet(source, &packet, |heap| window.insert_heap(heap))
        });
        if let Err(fault) = taken {
            *self.faults.entry(fault.name()).or_default() += 1;
        }
        self.correlate();
    }

    fn correlate(&mut self) {
        while let Ok(passed) = self.passed.try_recv() {
            let dumps = &mut self.dumps;
            let chunk = self.integrator.process(passed, |dump| {
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
        assembler.clear(|heap| window.insert_heap(heap));
        self.window.flush(false);
        self.correlate();
        let (end, dumps) = (self.window.end(), &mut self.dumps);
        let done = |dump: &Integration| {
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
        assert_eq!(dump.gates.len(), 2);
        for (gate, found) in dump.gates.iter().enumerate() {
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
                let sums = dump.gates[0].visibilities.integer().unwrap();
                let sums: Vec<_> = sums.iter().map(|sum| [sum.re, sum.im]).collect();
                let valid = (0..sums.len()).map(|k| dump.gates[0].valid.get(k / width, k % width));
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
    let sums = bench.dumps[0].gates[0].visibilities.integer().unwrap();
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

/// Memory does not grow: measured in a process of its own, as tests beside this one take memory, too.
#[test]
fn long_streams_take_no_more_memory() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "spead::a_long_stream", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Ten million heaps (CORRUST_LONG=1) or a hundred thousand.
#[test]
#[ignore = "measures its process: run by long_streams_take_no_more_memory"]
fn a_long_stream() {
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
