//! Pairs of an array's sensors, and many lags of one group, by Gram matrices on a GPU: sums and states equal the
//! oracle's plain loops and the other kernels', bit for bit, wherever the stream is cut and looked at.
//!
//! A backend that is not there is skipped as in `autocorrelate.rs`.

use std::time::Instant;

use corrust_host::{
    Autocorrelator, Device, Devices, Layout,
    autocorrelate::{Builder, Kernel, SumsMut},
    device::{Buffer, Stream as Queue},
    samples::{Element, Samples},
};
use oracle::Stream;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{device, oracle::autocorrelate as oracle};

/// GPUs, and the most instants to test them with.
const BACKENDS: [(&str, usize); 2] = [("sim", 300), ("cuda", 40_000)];

/// Backends that are there.
fn backends() -> impl Iterator<Item = (Devices, usize)> {
    BACKENDS.into_iter().filter_map(|(name, most)| {
        let devices: Devices = name.parse().unwrap();
        let plan = Autocorrelator::builder(1).device(devices.clone()).build();
        device::there(name, plan).map(|_| (devices, most))
    })
}

fn random<Count: From<u8>>(sensors: usize, instants: usize, most: u8) -> Stream<Count> {
    let mut rng = StdRng::seed_from_u64((sensors << 32 | instants) as u64);
    let counts = (0..sensors * instants).map(|_| rng.random_range(0..=most).into()).collect();
    Stream { sensors, counts }
}

/// All pairs, both ways, and each with itself.
fn all(sensors: usize) -> Vec<(usize, usize)> {
    (0..sensors * sensors).map(|pair| (pair / sensors, pair % sensors)).skip(1).collect()
}

fn builder(sensors: usize, lags: usize) -> Builder {
    Autocorrelator::builder(sensors).groups(1).lags(lags).pairs(&all(sensors))
}

/// Each sensor with itself.
fn each(sensors: usize) -> Vec<(usize, usize)> {
    (0..sensors).map(|sensor| (sensor, sensor)).collect()
}

/// Compares products and the sums that curves are normalised by, of all pairs.
fn judge<Count: Copy + Into<u64>>(stream: &Stream<Count>, plan: &mut Autocorrelator) {
    judge_rows(stream, plan, &all(stream.sensors));
}

/// The same for some pairs.
fn judge_rows<Count: Copy + Into<u64>>(
    stream: &Stream<Count>,
    plan: &mut Autocorrelator,
    pairs: &[(usize, usize)],
) {
    let sums = plan.snapshot().unwrap();
    let lags = plan.shape().lags;
    for (row, &pair) in pairs.iter().enumerate() {
        let expected = oracle::bin_groups(stream, pair, 1, lags);
        for (point, expected) in expected.iter().enumerate() {
            let found = oracle::Point::of(&sums, row, point);
            assert_eq!(found, *expected, "pair {pair:?}, point {point}");
        }
    }
}

#[test]
fn sums_are_those_of_plain_loops_wherever_the_stream_is_cut() {
    for (devices, most) in backends() {
        for (sensors, lags, largest) in [(2, 2, 255), (4, 8, 255), (5, 3, 1), (9, 17, 200)] {
            let stream = random::<u8>(sensors, most, largest);
            let mut plan = builder(sensors, lags).device(devices.clone()).build().unwrap();
            assert_eq!(plan.kernel(), Kernel::TensorCores, "as there are many pairs");
            let mut counts = &stream.counts[..];
            // Shorter than the longest lag, a look at nothing new, then long blocks.
            for (block, is_read) in
                [(1, false), (2, true), (0, true), (1, false), (20, true), (97, false)]
            {
                let part;
                (part, counts) = counts.split_at(block * sensors);
                plan.accumulate(part).unwrap();
                if is_read {
                    let seen = stream.counts.len() - counts.len();
                    let counts = stream.counts[..seen].to_vec();
                    judge(&Stream { sensors, counts }, &mut plan);
                }
            }
            plan.accumulate(counts).unwrap();
            judge(&stream, &mut plan);
        }
    }
}

/// States go from one kernel to another and back, and are equal.
#[test]
fn states_are_those_of_the_other_kernels() {
    for (devices, most) in backends() {
        let many = Autocorrelator::builder(4).groups(1).lags(256);
        for (sensors, builder) in [(6, builder(6, 9)), (4, many)] {
            let stream = random::<u8>(sensors, most / 2, 255);
            let mut state = builder.clone().device(Device::Cpu).build().unwrap().state().unwrap();
            let mut cpu = builder.device(Device::Cpu).build().unwrap();
            let kernels = [Kernel::TensorCores, Kernel::BinGroups, Kernel::Auto, Kernel::Packets];
            let step = (stream.instants() / 9).next_multiple_of(2) * sensors + sensors;
            for (index, counts) in stream.counts.chunks(step).enumerate() {
                let mut plan = Autocorrelator::resume(state)
                    .device(devices.clone())
                    .kernel(kernels[index % 4])
                    .build()
                    .unwrap();
                plan.accumulate(counts).unwrap();
                state = plan.state().unwrap();
                cpu.accumulate(counts).unwrap();
                assert!(state == cpu.state().unwrap(), "block {index}");
            }
        }
    }
}

#[test]
fn large_counts_and_counts_in_device_memory_are_exact() {
    for (devices, most) in backends() {
        let (sensors, lags) = (3, 4);
        let mut stream = random::<u16>(sensors, most / 3, 255);
        let first_large = stream.counts.len() / 2;
        stream.counts[first_large..].iter_mut().for_each(|count| *count *= 257);
        let mut plan = builder(sensors, lags).device(devices.clone()).build().unwrap();
        plan.accumulate(&stream.counts).unwrap();
        assert_eq!(plan.kernel(), Kernel::TensorCores);
        judge(&stream, &mut plan);

        let gpu = devices.open().unwrap().remove(0);
        let stream = random::<u8>(sensors, most, 255);
        let buffer = Buffer::new(&gpu, stream.counts.len()).unwrap();
        buffer.upload(Queue::default(), &stream.counts).unwrap();
        let counts = Samples::new(buffer.slice(), sensors, 1, Element::Count, Layout::Tcn).unwrap();
        let mut plan = builder(sensors, lags).gpu(gpu.clone()).build().unwrap();
        plan.accumulate(counts).unwrap();
        let rows = all(sensors).len();
        let mut products = Buffer::new(&gpu, 8 * rows * lags).unwrap();
        let mut totals = Buffer::new(&gpu, 16 * rows).unwrap();
        plan.snapshot_device(SumsMut {
            products: products.slice_mut(),
            totals: Some(totals.slice_mut()),
        })
        .unwrap();
        let sums = plan.snapshot().unwrap();
        let mut found = vec![0_u64; rows * lags];
        products.download(Queue::default(), &mut found).unwrap();
        assert_eq!(found, sums.products.as_slice().unwrap());
        let mut found = vec![0_u64; 2 * rows];
        totals.download(Queue::default(), &mut found).unwrap();
        for (&(direct, delayed), found) in all(sensors).iter().zip(found.chunks(2)) {
            let total = |sensor: usize| -> u64 {
                stream.counts[sensor..].iter().step_by(sensors).map(|&count| u64::from(count)).sum()
            };
            assert_eq!(found, [total(direct), total(delayed)]);
        }
        judge(&stream, &mut plan);
    }
}

/// The first instants of a stream.
fn part<Count: Clone>(stream: &Stream<Count>, instants: usize) -> Stream<Count> {
    let counts = stream.counts[..instants * stream.sensors].to_vec();
    Stream { sensors: stream.sensors, counts }
}

/// Each sensor with itself, of one byte and of two, at lags around the fewest that go to matrices.
#[test]
fn many_lags_of_one_group_are_exact() {
    for (devices, most) in backends() {
        for (sensors, lags) in [(1, 256), (3, 257), (5, 300)] {
            let stream = random::<u8>(sensors, 3 * most, 255);
            let builder = Autocorrelator::builder(sensors).groups(1).lags(lags);
            let mut plan = builder.clone().device(devices.clone()).build().unwrap();
            assert_eq!(plan.kernel(), Kernel::TensorCores, "as there are many lags");
            let mut from = 0;
            for (to, is_read) in
                [(1, true), (lags - 1, false), (lags, true), (lags + 1, true), (3 * most, true)]
            {
                plan.accumulate(&stream.counts[from * sensors..to * sensors]).unwrap();
                if is_read {
                    judge_rows(&part(&stream, to), &mut plan, &each(sensors));
                }
                from = to;
            }

            let mut wide = random::<u16>(sensors, most, 255);
            let first_large = wide.counts.len() / 3;
            wide.counts[first_large..].iter_mut().for_each(|count| *count *= 257);
            let mut plan = builder.device(devices.clone()).build().unwrap();
            plan.accumulate(&wide.counts).unwrap();
            assert_eq!(plan.kernel(), Kernel::TensorCores);
            judge_rows(&wide, &mut plan, &each(sensors));
        }
        // Fewer, if asked for.
        let plan = Autocorrelator::builder(2).groups(1).lags(65).kernel(Kernel::TensorCores);
        let mut plan = plan.device(devices.clone()).build().unwrap();
        let stream = random::<u8>(2, most, 255);
        plan.accumulate(&stream.counts).unwrap();
        judge_rows(&stream, &mut plan, &each(2));
    }
}

/// The form by definition of the FCS paper: 10,000 lags of one group.
#[test]
fn ten_thousand_lags_are_exact() {
    for (devices, most) in backends() {
        let lags = 10_000;
        let stream = random::<u8>(1, lags + most, 255);
        let builder = Autocorrelator::builder(1).groups(1).lags(lags);
        let mut plan = builder.device(devices.clone()).build().unwrap();
        assert_eq!(plan.kernel(), Kernel::TensorCores);
        for counts in stream.counts.chunks(lags + 1) {
            plan.accumulate(counts).unwrap();
        }
        judge_rows(&stream, &mut plan, &each(1));
    }
}

/// Few pairs of many sensors at many lags: sensors that no pair connects never meet.
#[test]
fn few_pairs_at_many_lags_are_exact() {
    for (devices, most) in backends() {
        let (sensors, lags) = (11, 260);
        for pairs in [
            vec![(0, 1), (1, 0), (3, 3), (7, 9), (0, 1)],
            (1..sensors).map(|sensor| (0, sensor)).collect(),
        ] {
            let stream = random::<u8>(sensors, 2 * most, 255);
            let builder = Autocorrelator::builder(sensors).groups(1).lags(lags).pairs(&pairs);
            let mut plan = builder.device(devices.clone()).build().unwrap();
            assert_eq!(plan.kernel(), Kernel::TensorCores);
            for counts in stream.counts.chunks(most / 2 * sensors) {
                plan.accumulate(counts).unwrap();
            }
            judge_rows(&stream, &mut plan, &pairs);
        }
    }
}

/// Several GPUs share the pairs; what no matrix computes goes to bin groups or is refused.
#[test]
fn pairs_are_shared_and_others_go_elsewhere() {
    let (sensors, lags) = (5, 4);
    let stream = random::<u8>(sensors, 120, 255);
    let mut plan =
        builder(sensors, lags).device("sim,sim".parse::<Devices>().unwrap()).build().unwrap();
    assert_eq!(plan.kernel(), Kernel::TensorCores);
    plan.accumulate(&stream.counts).unwrap();
    judge(&stream, &mut plan);

    let on_sim = |builder: Builder| builder.device(Device::Sim).build();
    let few = Autocorrelator::builder(64).groups(1).lags(8).pairs(&[(0, 1), (1, 0)]);
    assert_eq!(on_sim(few).unwrap().kernel(), Kernel::Packets);
    assert_eq!(on_sim(builder(sensors, lags).groups(2)).unwrap().kernel(), Kernel::Packets);
    let large = on_sim(builder(sensors, 4000).groups(2));
    assert_eq!(large.unwrap().kernel(), Kernel::Packets);
    let larger = on_sim(builder(sensors, 4000).groups(2).kernel(Kernel::BinGroups));
    assert_eq!(larger.unwrap().kernel(), Kernel::BinGroups);
    let error = on_sim(builder(sensors, 20_000).groups(2)).err().unwrap().to_string();
    assert!(error.contains("bytes of a GPU's shared memory: expected at most 98304"), "{error}");
    let error = on_sim(builder(sensors, lags).groups(2).kernel(Kernel::TensorCores));
    let error = error.err().unwrap().to_string();
    assert!(
        error.contains("expected one group, or autocorrelations with at most 64 lags a group, found pairs with 4 \
             lags in 2 groups"),
        "{error}"
    );
}

/// Instants a second of counts in a GPU's memory at 10,000 lags of one group, by both kernels.
#[test]
#[ignore = "a measurement: cargo test --release --test systems -- --ignored --nocapture autocorrelate_pairs::speed"]
fn speed_of_many_lags() {
    let Some(gpu) = Device::Cuda(0).open().ok() else {
        println!("skipped: no GPU");
        return;
    };
    println!("{}", gpu.facts().name);
    let lags = 10_000;
    for (sensors, instants) in [(1, 1 << 20), (64, 1 << 18), (1024, 1 << 15)] {
        let stream = random::<u8>(sensors, instants, 255);
        let buffer = Buffer::new(&gpu, stream.counts.len()).unwrap();
        buffer.upload(Queue::default(), &stream.counts).unwrap();
        let counts = Samples::new(buffer.slice(), sensors, 1, Element::Count, Layout::Tcn).unwrap();
        for kernel in [Kernel::TensorCores, Kernel::Packets] {
            let plan = Autocorrelator::builder(sensors).groups(1).lags(lags).gpu(gpu.clone());
            let mut plan = plan.kernel(kernel).build().unwrap();
            let mut once = || {
                let start = Instant::now();
                plan.accumulate(counts).unwrap();
                plan.wait().unwrap();
                start.elapsed().as_secs_f64()
            };
            let mut times: Vec<f64> = (0..4).map(|_| once()).skip(1).collect();
            times.sort_by(f64::total_cmp);
            let start = Instant::now();
            plan.snapshot().unwrap();
            println!(
                "{sensors} sensors, {lags} lags, {kernel}: {:.3} M instants/s, {:.2} s a look",
                instants as f64 / times[1] / 1e6,
                start.elapsed().as_secs_f64()
            );
        }
    }
}

/// Instants a second of counts in a GPU's memory, by both kernels and for all pairs and neighbours.
#[test]
#[ignore = "a measurement: cargo test --release --test systems -- --ignored --nocapture autocorrelate_pairs::speed"]
fn speed() {
    let Some(gpu) = Device::Cuda(0).open().ok() else {
        println!("skipped: no GPU");
        return;
    };
    println!("{}", gpu.facts().name);
    for (side, lags) in [(5, 8), (8, 8), (16, 8), (32, 8), (32, 32)] {
        let sensors = side * side;
        let beside: Vec<_> = (0..sensors)
            .flat_map(|a| [(a, a + 1, a % side + 1 < side), (a, a + side, a + side < sensors)])
            .filter(|&(.., there)| there)
            .flat_map(|(a, b, _)| [(a, b), (b, a)])
            .collect();
        for (what, pairs) in [("all", all(sensors)), ("neighbours", beside)] {
            for kernel in [Kernel::TensorCores, Kernel::BinGroups] {
                // About as long for both.
                let slow = kernel == Kernel::BinGroups && what == "all";
                let instants = if slow { 1 << 11 } else { 1 << 17 };
                let stream = random::<u8>(sensors, instants, 255);
                let buffer = Buffer::new(&gpu, stream.counts.len()).unwrap();
                buffer.upload(Queue::default(), &stream.counts).unwrap();
                let counts =
                    Samples::new(buffer.slice(), sensors, 1, Element::Count, Layout::Tcn).unwrap();
                let plan = Autocorrelator::builder(sensors).groups(1).lags(lags).pairs(&pairs);
                let mut plan = plan.gpu(gpu.clone()).kernel(kernel).build().unwrap();
                let mut once = || {
                    let start = Instant::now();
                    plan.accumulate(counts).unwrap();
                    plan.wait().unwrap();
                    start.elapsed().as_secs_f64()
                };
                let mut times: Vec<f64> = (0..6).map(|_| once()).skip(1).collect();
                times.sort_by(f64::total_cmp);
                let start = Instant::now();
                let sums = plan.snapshot().unwrap();
                let look = start.elapsed().as_secs_f64();
                // Two rows, as others compute them.
                for row in [0, pairs.len() - 1] {
                    let once = oracle::bin_groups(&stream, pairs[row], 1, lags);
                    assert_eq!(sums.products[[row, 0]], 6 * once[0].products);
                }
                println!(
                    "{side} x {side}, {what}, {lags} lags, {kernel}: {:.3} M instants/s, {:.2} G sums of products \
                     an instant a second, {look:.2} s a look",
                    instants as f64 / times[2] / 1e6,
                    (instants * pairs.len() * lags) as f64 / times[2] / 1e9
                );
            }
        }
    }
}
