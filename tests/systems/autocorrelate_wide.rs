//! Counts up to 65535 on every backend: sums equal the oracle's plain loops, bit for bit, whenever the first
//! count above 255 comes.
//!
//! A backend that is not there is skipped as in `autocorrelate.rs`.

use corrust_host::{
    Autocorrelator, Device, Devices, Layout,
    autocorrelate::{Builder, Scheme, State, Sums},
    device::Buffer,
    samples::{Element, Samples},
};
use oracle::Stream;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{device, oracle::autocorrelate as oracle};

/// Backends, and the longest streams to test them with.
const BACKENDS: [(&str, usize); 3] = [("cpu", 30_000), ("sim", 900), ("cuda", 30_000)];

/// Backends that are there.
fn backends() -> impl Iterator<Item = (Devices, usize)> {
    BACKENDS.into_iter().filter_map(|(name, most)| {
        let devices: Devices = name.parse().unwrap();
        let plan = Autocorrelator::builder(1).device(devices.clone()).build();
        device::there(name, plan).map(|_| (devices, most))
    })
}

fn random(sensors: usize, instants: usize, most: u16) -> Stream<u16> {
    let mut rng = StdRng::seed_from_u64((sensors << 32 | instants) as u64);
    let counts = (0..sensors * instants).map(|_| rng.random_range(0..=most)).collect();
    Stream { sensors, counts }
}

fn schemes(devices: &Devices) -> &'static [Scheme] {
    if *devices == Device::Cpu.into() { &Scheme::ALL } else { &[Scheme::BinGroups] }
}

fn judge(stream: &Stream<u16>, pairs: &[(usize, usize)], plan: &mut Autocorrelator) {
    let shape = *plan.shape();
    let sums = plan.snapshot().unwrap();
    assert_eq!(
        (sums.shape, shape.sensors, sums.products.nrows()),
        (shape, stream.sensors, pairs.len())
    );
    for (row, &pair) in pairs.iter().enumerate() {
        let expected = match shape.scheme {
            Scheme::BinGroups => oracle::bin_groups(stream, pair, shape.groups, shape.lags),
            Scheme::Classic => oracle::classic(stream, pair, shape.groups, shape.lags),
        };
        compare(&sums, row, &expected);
    }
}

fn compare(sums: &Sums, row: usize, expected: &[oracle::Point]) {
    for (point, expected) in expected.iter().enumerate() {
        let found = oracle::Point::of(sums, row, point);
        assert_eq!(found, *expected, "row {row}, point {point}");
    }
}

fn autos(sensors: usize) -> Vec<(usize, usize)> {
    (0..sensors).map(|sensor| (sensor, sensor)).collect()
}

#[test]
fn sums_are_exact_whenever_large_counts_come() {
    for (devices, most) in backends() {
        for &scheme in schemes(&devices) {
            for (sensors, groups, lags) in [(1, 6, 8), (3, 4, 32), (5, 9, 10)] {
                for first in [0, 1, most / 3] {
                    // Small counts, of one byte and of two, before the large ones; one byte after them.
                    let mut stream = random(sensors, most, u16::MAX);
                    let last = most - most / 5;
                    for (place, count) in stream.counts.iter_mut().enumerate() {
                        if place / sensors < first || place / sensors >= last {
                            *count &= 255;
                        }
                    }
                    let builder = Autocorrelator::builder(sensors).groups(groups).lags(lags);
                    let mut plan = builder.scheme(scheme).device(devices.clone()).build().unwrap();
                    let at = |instant: usize| instant * sensors;
                    let bytes =
                        |counts: &[u16]| counts.iter().map(|&x| x as u8).collect::<Vec<_>>();
                    plan.accumulate(&bytes(&stream.counts[..at(first / 2)])).unwrap();
                    plan.accumulate(&stream.counts[at(first / 2)..at(first)]).unwrap();
                    assert!(!plan.state().unwrap().is_wide());
                    for part in stream.counts[at(first)..at(last)].chunks(at(400)) {
                        plan.accumulate(part).unwrap();
                    }
                    assert!(plan.state().unwrap().is_wide());
                    let rest = bytes(&stream.counts[at(last)..]);
                    let middle = at((most - last) / 2);
                    plan.accumulate(&rest[..middle]).unwrap();
                    let view =
                        Samples::new(&rest[middle..], sensors, 1, Element::Count, Layout::Tcn);
                    plan.accumulate(view.unwrap()).unwrap();
                    judge(&stream, &autos(sensors), &mut plan);
                }
            }
        }
    }
}

/// All pairs of many sensors, both ways, of small counts and of large ones.
#[test]
fn all_pairs_of_an_array_are_exact() {
    for (devices, most) in backends() {
        for largest in [255, u16::MAX] {
            let (sensors, instants) = (9, most.min(9_000));
            let stream = random(sensors, instants, largest);
            let all = (0..sensors).flat_map(|a| (0..sensors).map(move |b| (a, b)));
            let pairs: Vec<_> = all.filter(|(a, b)| a != b).collect();
            let builder = Autocorrelator::builder(sensors).groups(3).lags(8).pairs(&pairs);
            let mut plan = builder.device(devices.clone()).build().unwrap();
            for part in stream.counts.chunks(sensors * 4100) {
                plan.accumulate(part).unwrap();
            }
            assert_eq!(plan.state().unwrap().is_wide(), largest > 255);
            judge(&stream, &pairs, &mut plan);
        }
    }
}

#[test]
fn pairs_and_saved_states_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    let pairs = [(0, 1), (1, 0), (2, 2), (3, 0)];
    for (devices, most) in backends() {
        for &scheme in schemes(&devices) {
            let stream = random(4, most, u16::MAX);
            let on = |builder: Builder| builder.device(devices.clone()).build().unwrap();
            let builder = Autocorrelator::builder(4).groups(7).lags(12).scheme(scheme);
            let mut plan = on(builder.pairs(&pairs));
            let (first, rest) = stream.counts.split_at(4 * (most / 3 + 1));
            plan.accumulate(first).unwrap();
            let state = plan.state().unwrap();
            state.save(&file).unwrap();
            let loaded = State::load(&file).unwrap();
            assert_eq!(loaded, state);
            assert_eq!(loaded.pairs(), pairs.map(|(a, b)| [a as u32, b as u32]));
            assert_eq!((loaded.shape(), loaded.is_wide()), (*plan.shape(), true));
            let mut plan = on(Autocorrelator::resume(loaded));
            plan.accumulate(rest).unwrap();
            judge(&stream, &pairs, &mut plan);
        }
    }
}

/// Counts in a GPU's memory after large ones from the host.
#[test]
fn bytes_in_device_memory_go_on() {
    for (devices, _) in backends() {
        let Some(gpu) = devices.open().unwrap().pop() else { continue };
        let mut stream = random(3, 500, u16::MAX);
        stream.counts[3 * 200..].iter_mut().for_each(|count| *count &= 255);
        let mut plan = Autocorrelator::builder(3).groups(5).gpu(gpu.clone()).build().unwrap();
        plan.accumulate(&stream.counts[..3 * 200]).unwrap();
        let rest: Vec<u8> = stream.counts[3 * 200..].iter().map(|&count| count as u8).collect();
        let buffer = Buffer::new(&gpu, rest.len()).unwrap();
        buffer.upload(Default::default(), &rest).unwrap();
        let view = Samples::new(buffer.slice(), 3, 1, Element::Count, Layout::Tcn).unwrap();
        plan.accumulate(view).unwrap();
        judge(&stream, &autos(3), &mut plan);
        // The host puts the sums of bytes together.
        let mut room = Buffer::new(&gpu, 8 * 3 * plan.shape().points()).unwrap();
        let error = plan.snapshot_device(room.slice_mut::<u64>()).unwrap_err().to_string();
        assert!(error.contains("expected a snapshot to the host"), "{error}");
    }
}

/// The largest counts there are: exact as long as 64 bits hold the sums, and an error beyond.
#[test]
fn all_65535_until_64_bits_are_full() {
    let mut plan =
        Autocorrelator::builder(1).groups(10).lags(2).device(Device::Cpu).build().unwrap();
    let block = vec![u16::MAX; 1 << 20];
    let mut instants = 0_u64;
    let error = loop {
        plan.accumulate(&block).unwrap();
        instants += block.len() as u64;
        match plan.snapshot() {
            Ok(sums) => {
                let largest = u64::from(u16::MAX).pow(2);
                assert_eq!(sums.products[[0, 0]], largest * instants);
                for (point, at) in sums.points.iter().enumerate() {
                    // Bins of equal counts: as many as have a delayed one.
                    let product = u128::from(largest) << (2 * at.group);
                    let expected = product * u128::from(sums.bins[point]);
                    assert_eq!(u128::from(sums.curve_products[[0, point]]), expected);
                }
            }
            Err(error) => break error.to_string(),
        }
    };
    // 2^32 for two counts, 2^9 for a bin of the last group: 2^23 instants.
    assert!((1 << 22..=1 << 24).contains(&instants), "{instants}");
    assert!(error.contains("expected at most 2^64 - 1, begin a new stream"), "{error}");
}
