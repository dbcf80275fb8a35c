//! One suite for every backend: sums equal the oracle's plain loops, bit for bit, whatever the
//! counts and however the stream is cut.
//!
//! A backend that is not there is skipped, saying so; naming it in `CORRUST_REQUIRE` (as in
//! `CORRUST_REQUIRE=cuda`, for all whose names start so) turns that into a failure.

use corrust_host::{
    Autocorrelator, Device, Devices, Layout,
    autocorrelate::{Kernel, Scheme, State, Sums, SumsMut},
    device::{Buffer, SimGpu, Stream as GpuStream},
    samples::{Element, Extents, Memory, Missing, Samples, Strides},
};
use oracle::Stream;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{device, oracle::autocorrelate as oracle, tier};

/// A backend, and the largest streams to test it with.
#[derive(Clone, Copy)]
struct Backend {
    name: &'static str,
    device: &'static str,
    kernel: Kernel,
    schemes: &'static [Scheme],
    /// The longest random streams, in instants.
    most: usize,
    /// Instants of the streams that reach the longest lags of 16 groups.
    deep: usize,
    /// Instants of the streams of all 255s.
    long: usize,
}

impl Backend {
    const CPU: Self = Self {
        name: "cpu",
        device: "cpu",
        kernel: Kernel::Auto,
        schemes: &Scheme::ALL,
        most: 40_000,
        deep: 1_200_000,
        long: 5_000_000,
    };

    const fn cuda(name: &'static str, kernel: Kernel) -> Self {
        let schemes = &[Scheme::BinGroups];
        Self { name, device: "cuda", kernel, schemes, ..Self::CPU }
    }

    /// The simulator takes smaller sizes.
    const fn sim(name: &'static str, kernel: Kernel) -> Self {
        let (most, deep, long) = match kernel {
            Kernel::BinGroups => (1_500, 3_000, 70_000),
            _ => (9_000, 20_000, 300_000),
        };
        let device = "sim";
        Self { name, device, kernel, most, deep, long, ..Self::cuda(name, kernel) }
    }

    /// Devices that compute.
    fn devices(&self) -> Devices {
        self.device.parse().expect("a list of devices")
    }

    /// Whether the backend is there; says why if not.
    fn is_there(&self) -> bool {
        device::there(self.name, self.plan(1, 1, 2, Scheme::BinGroups)).is_some()
    }

    fn plan(
        &self,
        sensors: usize,
        groups: usize,
        lags: usize,
        scheme: Scheme,
    ) -> corrust_host::Result<Autocorrelator> {
        Autocorrelator::builder(sensors)
            .groups(groups)
            .lags(lags)
            .scheme(scheme)
            .device(self.devices())
            .kernel(self.kernel)
            .build()
    }

    /// Autocorrelates a stream cut at `cuts` and compares.
    fn judge(&self, stream: &Stream, groups: usize, lags: usize, scheme: Scheme, cuts: &[usize]) {
        let instants = stream.instants();
        let what = format!(
            "{}, {scheme}: {} sensors, {instants} instants, {groups} groups of {lags}",
            self.name, stream.sensors
        );
        let mut plan = self.plan(stream.sensors, groups, lags, scheme).unwrap();
        let mut from = 0;
        for &to in cuts.iter().chain([&instants]) {
            let part = &stream.counts[from * stream.sensors..to * stream.sensors];
            plan.accumulate(part).unwrap();
            from = to;
        }
        assert_eq!(plan.instants(), instants as u64);
        let sums = plan.snapshot().unwrap();
        for row in 0..stream.sensors {
            let expected = curve(stream, (row, row), groups, lags, scheme);
            compare(&what, &sums, row, &expected);
        }
    }
}

fn curve(
    stream: &Stream,
    pair: (usize, usize),
    groups: usize,
    lags: usize,
    scheme: Scheme,
) -> Vec<oracle::Point> {
    match scheme {
        Scheme::BinGroups => oracle::bin_groups(stream, pair, groups, lags),
        Scheme::Classic => oracle::classic(stream, pair, groups, lags),
    }
}

fn compare(what: &str, sums: &Sums, row: usize, expected: &[oracle::Point]) {
    assert_eq!(sums.points.len(), expected.len(), "{what}");
    for (index, &expected) in expected.iter().enumerate() {
        let found = oracle::Point::of(sums, row, index);
        assert_eq!(found, expected, "{what}: row {row}, point {index}");
    }
}

fn random(sensors: usize, instants: usize) -> Stream {
    let mut rng = StdRng::seed_from_u64((sensors << 32 | instants) as u64);
    Stream { sensors, counts: (0..sensors * instants).map(|_| rng.random()).collect() }
}

/// Ascending cuts, some of them equal.
fn cuts(rng: &mut StdRng, instants: usize, number: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..number).map(|_| rng.random_range(0..=instants)).collect();
    cuts.sort_unstable();
    cuts
}

/// Every number of groups and several of lags, powers of two and not, streams of few instants.
fn shapes(backend: Backend) {
    for &scheme in backend.schemes {
        let lags = [2, 3, 5, 7, 8, 12, 24, 31, 32, 33, 48, 64, 100];
        for lags in tier::cases(backend.device, &lags, 5) {
            let odd = lags % 2 == 1 && scheme == Scheme::Classic;
            if odd {
                continue;
            }
            for (groups, sensors, instants) in
                [(1, 1, 700), (2, 3, 1), (4, 2, 700), (7, 1, 2049), (10, 1, 5000), (16, 2, 300)]
            {
                if lags > 64 && groups > 1 && backend.kernel == Kernel::TensorCores {
                    continue;
                }
                let stream = random(sensors, instants.min(backend.most));
                backend.judge(&stream, groups, lags, scheme, &[]);
            }
        }
        let sensors = [1, 31, 32, 33, 63, 64, 65, 130];
        for sensors in tier::cases(backend.device, &sensors, 4) {
            backend.judge(&random(sensors, 150), 3, 8, scheme, &[]);
        }
        backend.judge(&random(3, 0), 3, 8, scheme, &[]);
    }
}

/// Numbers of groups from 1 to 16 with the instrument's lags, and the others that are powers of two.
fn groups(backend: Backend) {
    for &scheme in backend.schemes {
        let groups: Vec<usize> = (1..=16).collect();
        for groups in tier::cases(backend.device, &groups, 4) {
            backend.judge(&random(1, 1000), groups, 32, scheme, &[333]);
            backend.judge(&random(2, 600), groups, 8, scheme, &[]);
            backend.judge(&random(1, 900), groups, 64, scheme, &[]);
        }
    }
}

/// Every kind of kernel on streams that are short enough for compute-sanitizer.
fn short(backend: Backend) {
    for &scheme in backend.schemes {
        for (groups, lags) in [(4, 8), (5, 20), (10, 32), (3, 64)] {
            backend.judge(&random(3, 260), groups, lags, scheme, &[97, 98]);
            backend.judge(&random(16, 150), groups, lags, scheme, &[]);
        }
    }
}

/// Streams cut at random, and into single instants.
fn cuts_at_random(backend: Backend) {
    let mut rng = StdRng::seed_from_u64(7);
    for &scheme in backend.schemes {
        for lags in tier::cases(backend.device, &[8, 20, 32, 64], 2) {
            let stream = random(3, backend.most);
            let cuts = cuts(&mut rng, stream.instants(), 20);
            backend.judge(&stream, 8, lags, scheme, &cuts);
            let most = if tier::full() { 400 } else { 80 };
            let stream = random(2, backend.most.min(most));
            let single: Vec<usize> = (0..stream.instants()).collect();
            backend.judge(&stream, 6, lags, scheme, &single);
        }
    }
}

/// Packets one instant shorter, as long and one longer than a launch takes, from every phase of a bin.
#[test]
fn packets_of_all_lengths_are_exact() {
    use corrust_gpu::abi::autocorrelate::PACKET_INSTANTS;
    let most = PACKET_INSTANTS as usize;
    for backend in [
        Backend::sim("sim_packets", Kernel::Packets),
        Backend::cuda("cuda_packets", Kernel::Packets),
        Backend::sim("sim_auto", Kernel::Auto),
    ] {
        if !backend.is_there() {
            continue;
        }
        for (first, packet) in [(0, 1), (1, 15), (3, 16), (7, 17), (5, most - 1), (0, most)] {
            let cuts: Vec<usize> = (0..4).map(|packets| first + packets * packet).collect();
            let stream = random(9, cuts[3] + packet + 1);
            backend.judge(&stream, 10, 32, Scheme::BinGroups, &cuts);
        }
        backend.judge(&random(2, 3 * most + 1), 24, 2, Scheme::BinGroups, &[most + 1]);
    }
}

/// Work of a packet of the instrument: `cargo test --release --test systems packets_take -- --nocapture` prints it.
/// Less than a third of the instructions of bin groups, and hardly a bank conflict.
#[test]
fn packets_take_a_third_of_the_work_of_bin_groups() {
    use corrust_gpu::abi::autocorrelate::{BIN_GROUPS, PACKETS};
    let sensors = 32;
    for instants in [100, 400] {
        let stream = random(sensors, 20 * instants);
        let work = [(Kernel::BinGroups, BIN_GROUPS.entry), (Kernel::Packets, PACKETS.entry)].map(
            |(kernel, entry)| {
                let gpu = std::sync::Arc::new(SimGpu::new());
                let plan = Autocorrelator::builder(sensors).kernel(kernel).gpu(gpu.clone());
                let mut plan = plan.build().unwrap();
                for packet in stream.counts.chunks(sensors * instants) {
                    plan.accumulate(packet).unwrap();
                }
                let report = gpu.report(&entry).unwrap();
                let total = report.total();
                let rows = (20 * sensors) as u64;
                println!(
                    "{kernel}, {instants} instants: {} instructions of a warp for a row, {} wavefronts of \
                     shared memory ({} without conflicts), {} sectors ({})",
                    total.warps / rows,
                    total.wavefronts / rows,
                    total.ideal_wavefronts / rows,
                    total.sectors / rows,
                    total.ideal_sectors / rows,
                );
                total
            },
        );
        let [bins, packets] = work;
        assert!(3 * packets.warps < bins.warps, "{} and {}", packets.warps, bins.warps);
        assert!(5 * packets.wavefronts < 6 * packets.ideal_wavefronts, "{packets:?}");
    }
}

/// All 16 groups, to their longest lags where the backend is quick enough.
fn deep(backend: Backend) {
    let mut rng = StdRng::seed_from_u64(8);
    for &scheme in backend.schemes {
        let stream = random(2, backend.deep);
        let cuts = cuts(&mut rng, stream.instants(), 5);
        backend.judge(&stream, 16, 8, scheme, &cuts);
        backend.judge(&stream, 10, 32, scheme, &cuts);
        if scheme == Scheme::BinGroups {
            backend.judge(&stream, 6, 33, scheme, &cuts);
            // All groups are long ones: ranges of their bins side by side, launches one after the other.
            backend.judge(&stream, 10, 33, scheme, &[]);
        }
    }
}

/// Sensors and instants beyond those that are turned together, and several segments of time.
fn many_sensors(backend: Backend) {
    for sensors in tier::cases(backend.device, &[64, 68, 256, 260], 2) {
        let stream = random(sensors, backend.most.min(8_300));
        backend.judge(&stream, 4, 8, Scheme::BinGroups, &[17]);
    }
    let stream = random(16, backend.deep.min(20_000));
    backend.judge(&stream, 4, 8, Scheme::BinGroups, &[17]);
    // Whole blocks of the copy engine's and halves, bins of every group to memory, with one part of a
    // subsegment a block and with several.
    for sensors in tier::cases(backend.device, &[16, 32, 48], 2) {
        let stream = random(sensors, backend.most.min(3_000));
        let kinds = [(1, 32), (2, 32), (3, 4), (4, 31), (10, 32)];
        for (groups, lags) in tier::cases(backend.device, &kinds, 3) {
            backend.judge(&stream, groups, lags, Scheme::BinGroups, &[1_001]);
        }
    }
}

/// Nothing but 255s, for so long that 32-bit sums would wrap in every group.
fn all_255(backend: Backend) {
    for &scheme in backend.schemes {
        for lags in tier::cases(backend.device, &[8, 32, 64], 2) {
            let stream = Stream { sensors: 1, counts: vec![255; backend.long] };
            backend.judge(&stream, 10, lags, scheme, &[backend.long / 3]);
        }
    }
}

/// Snapshots while the stream goes on, and states that are saved and resumed, change nothing.
fn interruptions(backend: Backend) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    for &scheme in backend.schemes {
        let stream = random(5, backend.most);
        let (groups, lags) = (9, 32);
        let mut plan = backend.plan(stream.sensors, groups, lags, scheme).unwrap();
        let cuts = [0, 1, 100, 101, backend.most / 3, backend.most * 2 / 3, backend.most];
        for cut in cuts.windows(2) {
            plan.accumulate(&stream.counts[cut[0] * 5..cut[1] * 5]).unwrap();
            let sums = plan.snapshot().unwrap();
            let part = Stream { counts: stream.counts[..cut[1] * 5].to_vec(), ..stream };
            for row in 0..stream.sensors {
                let expected = curve(&part, (row, row), groups, lags, scheme);
                compare(backend.name, &sums, row, &expected);
            }
            let state = plan.state().unwrap();
            state.save(&file).unwrap();
            assert_eq!(State::load(&file).unwrap(), state);
            // Every second time the stream resumes from the file.
            if cut[1] % 2 == 1 {
                let state = State::load(&file).unwrap();
                let builder = Autocorrelator::resume(state);
                plan = builder.device(backend.devices()).kernel(backend.kernel).build().unwrap();
            }
        }
    }
}

/// Cross-correlations of pairs of sensors, in any order and more than once.
fn pairs(backend: Backend) {
    let pairs = [(0, 1), (1, 0), (3, 3), (2, 0), (0, 1), (4, 2)];
    for &scheme in backend.schemes {
        for (groups, lags) in [(6, 32), (9, 10)] {
            let stream = random(5, backend.most.min(9_000));
            let mut plan = Autocorrelator::builder(5)
                .groups(groups)
                .lags(lags)
                .scheme(scheme)
                .pairs(&pairs)
                .device(backend.devices())
                .kernel(backend.kernel)
                .build()
                .unwrap();
            for part in stream.counts.chunks(5 * 1234) {
                plan.accumulate(part).unwrap();
            }
            let sums = plan.snapshot().unwrap();
            for (row, &pair) in pairs.iter().enumerate() {
                compare(backend.name, &sums, row, &curve(&stream, pair, groups, lags, scheme));
            }
        }
    }
}

/// Counts that are in the GPU's memory, of several in that of one, at any address, on streams that take turns; sums
/// that are left there.
fn device_memory(backend: Backend) {
    let gpu = backend.devices().open().unwrap().pop().expect("a GPU");
    for sensors in [3, 8] {
        let stream = random(sensors, backend.most.min(20_000));
        let mut plan = backend.plan(sensors, 10, 32, Scheme::BinGroups).unwrap();
        let streams = [GpuStream::default(), gpu.create_stream().unwrap()];
        let mut kept = Vec::new();
        let cuts = [0, 640, 641, stream.instants()];
        for (part, cut) in cuts.windows(2).enumerate() {
            let counts = &stream.counts[cut[0] * sensors..cut[1] * sensors];
            let padded = [&[0; 5], counts].concat();
            let buffer = Buffer::new(&gpu, padded.len()).unwrap();
            buffer.upload(streams[part % 2], &padded).unwrap();
            // Kept until the snapshot has waited for it.
            kept.push(buffer);
            let counts = kept[part].slice().on(streams[part % 2]).part(5..padded.len());
            let counts = Samples::new(counts, sensors, 1, Element::Count, Layout::Tcn).unwrap();
            plan.accumulate(counts).unwrap();
        }
        let points = plan.shape().points();
        let mut room = Buffer::new(&gpu, 8 * sensors * points).unwrap();
        let mut totals = Buffer::new(&gpu, 8 * sensors).unwrap();
        let wrong = SumsMut::from(totals.slice_mut::<u64>());
        let text = plan.snapshot_device(wrong).unwrap_err().to_string();
        assert!(text.contains(&format!("{sensors} sums: expected {}", sensors * points)), "{text}");
        totals = Buffer::new(&gpu, 16 * sensors).unwrap();
        let products = room.slice_mut::<u64>().on(streams[1]);
        let totals_room = Some(totals.slice_mut::<u64>());
        plan.snapshot_device(SumsMut { products, totals: totals_room }).unwrap();
        let mut found = vec![0_u64; sensors * points];
        room.download(streams[1], &mut found).unwrap();
        let mut counted = vec![[0_u64; 2]; sensors];
        totals.download(GpuStream::default(), &mut counted).unwrap();
        for (sensor, counted) in counted.iter().enumerate() {
            let counts = stream.counts.iter().skip(sensor).step_by(sensors);
            assert_eq!(*counted, [counts.map(|&count| u64::from(count)).sum::<u64>(); 2]);
        }
        assert_eq!(plan.snapshot().unwrap().products.as_slice().unwrap(), found);
        let sums = plan.snapshot().unwrap();
        for row in 0..sensors {
            let expected = curve(&stream, (row, row), 10, 32, Scheme::BinGroups);
            compare(backend.name, &sums, row, &expected);
        }
    }
}

/// Counts in another order with something between them, in host and in device memory, some of them
/// missing: as if they were in order and the missing ones zero.
fn views(backend: Backend) {
    // One of several GPUs has the counts.
    let gpu = backend.devices().open().unwrap().pop();
    let (sensors, groups, lags) = (18, 6, 32);
    let stream = random(sensors, backend.most.min(3_000));
    let instants = stream.instants();
    let mut lossy = random(sensors, instants);
    let missing = [Missing::times(5..80), Missing::times(instants / 2..instants).of_inputs(3..9)];
    let strides = [[instants + 3, 1], [1, sensors + 5]];
    // Two simulated GPUs take each half of what the suites of one take whole.
    let count = if backend.device == "sim,sim" && !tier::full() { 1 } else { strides.len() };
    for [input, time] in strides.into_iter().take(count) {
        let mut bytes = vec![0x77; (sensors + 5) * (instants + 3)];
        for at in 0..instants {
            for sensor in 0..sensors {
                let count = at * sensors + sensor;
                bytes[sensor * input + at * time] = stream.counts[count];
                let lost = missing
                    .iter()
                    .any(|missing| missing.times.contains(&at) && missing.inputs.contains(&sensor));
                lossy.counts[count] = if lost { 0 } else { stream.counts[count] };
            }
        }
        let extents = Extents { channels: 1, inputs: sensors, times: instants };
        let strides = Strides { channel: 0, input, time };
        let buffer = gpu.as_ref().map(|gpu| {
            let buffer = Buffer::new(gpu, bytes.len()).unwrap();
            buffer.upload(GpuStream::default(), &bytes).unwrap();
            buffer
        });
        for (stream, missing) in [(&stream, &missing[..0]), (&lossy, &missing[..])] {
            let memory =
                [Some(Memory::from(&bytes[..])), buffer.as_ref().map(|b| b.slice().into())];
            for memory in memory.into_iter().flatten() {
                let counts = Samples::strided(memory, Element::Count, extents, strides).unwrap();
                let counts = counts.missing(missing);
                let mut plan = backend.plan(sensors, groups, lags, Scheme::BinGroups).unwrap();
                plan.accumulate(counts.times(0..1_001)).unwrap();
                plan.accumulate(counts.times(1_001..instants)).unwrap();
                plan.wait().unwrap();
                let sums = plan.snapshot().unwrap();
                for row in 0..sensors {
                    let expected = curve(stream, (row, row), groups, lags, Scheme::BinGroups);
                    compare(backend.name, &sums, row, &expected);
                }
            }
        }
    }
}

/// Stamps the suite for a backend.
macro_rules! conformance {
    ($name:ident, $backend:expr, $($test:ident)*) => {
        mod $name {
            use super::{Backend, Kernel};

            const BACKEND: Backend = $backend;

            conformance!(@tests shapes groups short cuts_at_random deep all_255 interruptions views $($test)*);
        }
    };
    (@tests $($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                if BACKEND.is_there() {
                    super::$test(BACKEND);
                    crate::support::conflicts::check();
                }
            }
        )*
    };
}

conformance!(cpu, Backend { kernel: Kernel::Auto, ..Backend::CPU }, pairs);
conformance!(
    cuda_bin_groups,
    Backend::cuda("cuda_bin_groups", Kernel::BinGroups),
    pairs device_memory
);
conformance!(
    cuda_tensor_cores,
    Backend::cuda("cuda_tensor_cores", Kernel::TensorCores),
    device_memory many_sensors
);
conformance!(
    sim_bin_groups,
    Backend::sim("sim_bin_groups", Kernel::BinGroups),
    pairs device_memory
);
conformance!(
    cuda_packets,
    Backend::cuda("cuda_packets", Kernel::Packets),
    pairs device_memory many_sensors
);
conformance!(
    sim_packets,
    Backend::sim("sim_packets", Kernel::Packets),
    pairs device_memory many_sensors
);
conformance!(
    sim_tensor_cores,
    Backend::sim("sim_tensor_cores", Kernel::TensorCores),
    device_memory many_sensors
);

conformance!(
    sim_two,
    Backend { device: "sim,sim", ..Backend::sim("sim_two", Kernel::TensorCores) },
    device_memory many_sensors
);
conformance!(
    sim_three,
    Backend { device: "sim,sim,sim", ..Backend::sim("sim_three", Kernel::BinGroups) },
    pairs device_memory
);
// A name of its own: it needs two GPUs.
conformance!(
    two_cuda_auto,
    Backend { device: "cuda:0,cuda:1", ..Backend::cuda("two_cuda_auto", Kernel::Auto) },
    pairs device_memory many_sensors
);

/// Plans that cannot be computed are refused in a sentence that names the reason.
#[test]
fn bad_shapes_are_refused() {
    let refuse = |builder: corrust_host::autocorrelate::Builder, expected: &str| {
        let error = builder.device(Device::Cpu).build().err().expect("refused").to_string();
        assert_eq!(error, expected);
    };
    let builder = Autocorrelator::builder;
    refuse(builder(0), "0 sensors: expected at least 1");
    refuse(builder(1).groups(0), "0 groups: expected 1 to 24");
    refuse(builder(1).groups(25), "25 groups: expected 1 to 24");
    refuse(builder(1).lags(1), "1 lags: expected 2 to 65536");
    refuse(
        builder(1).lags(5).scheme(Scheme::Classic),
        "5 lags: the classic scheme needs an even number",
    );
    refuse(builder(2).pairs(&[]), "no pairs of sensors: expected at least 1");
    refuse(builder(2).pairs(&[(0, 2)]), "sensor pair 0,2: expected numbers below 2");
    let mut plan = builder(3).device(Device::Cpu).build().unwrap();
    assert_eq!(
        plan.accumulate(&[0_u8; 7]).unwrap_err().to_string(),
        "7 counts: expected a multiple of the 3 sensors"
    );
    assert_eq!(
        plan.accumulate(&[0_u32; 6]).unwrap_err().to_string(),
        "counts in elements of 4 bytes: expected bytes, or two bytes each"
    );
}

/// Files that are no states, or not whole ones, are refused.
#[test]
fn bad_states_are_refused() {
    let mut plan =
        Autocorrelator::builder(2).groups(2).lags(4).device(Device::Cpu).build().unwrap();
    plan.accumulate(&[1_u8, 2, 3, 4]).unwrap();
    let bytes = plan.state().unwrap().to_bytes();
    assert!(State::from_bytes(&bytes).is_ok());
    for length in 0..bytes.len() {
        State::from_bytes(&bytes[..length]).unwrap_err();
    }
    // Every bit counts.
    for bit in 0..8 * bytes.len() {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = State::from_bytes(&bytes).unwrap_err().to_string();
        assert!(!error.contains('\n'), "bit {bit}: {error}");
    }
    let refuse = |bytes: &[u8], expected: &str| {
        let error = State::from_bytes(bytes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    // The description stands in clear text, and is one line.
    let line = bytes.iter().position(|&byte| byte == b'\n').unwrap();
    assert_eq!(
        std::str::from_utf8(&bytes[..line]).unwrap(),
        "{\"corrust\":\"autocorrelation state\",\"version\":3,\"scheme\":\"bin-groups\",\
         \"sensors\":2,\"groups\":2,\"lags\":4,\"curves\":2,\"instants\":2}"
    );
    let with = |from: &str, to: &str| {
        let text = std::str::from_utf8(&bytes[..line]).unwrap().replace(from, to);
        [text.as_bytes(), &bytes[line..]].concat()
    };
    refuse(b"", "starts with \"\": expected an autocorrelation state");
    refuse(b"\x93NUMPY\x01\0", "starts with \"\\x93NUMPY\\x01\\x00\": expected an autocorrelation");
    // Files of the first version, whose numbers nothing protected.
    let old = [&b"corrtau\x01"[..], &[0; 48]].concat();
    refuse(&old, "an autocorrelation state of version 1: expected 3");
    // The second version's, which know neither the length of an instant nor of a mask.
    let old = with("\"version\":3", "\"version\":2");
    refuse(&old, "an autocorrelation state of version 2: expected 3, begin the stream anew");
    let with_dwell =
        |dwell: &str| with("\"instants\":2", &format!("\"instants\":2,\"dwell\":{dwell}"));
    refuse(&with_dwell("-1.0"), "an autocorrelation state of instants of -1 s: expected more");
    refuse(&with("bin-groups", "groups"), "unknown scheme \"groups\"");
    refuse(&with("\"groups\":2", "\"groups\":99"), "99 groups: expected 1 to 24");
    refuse(&with("\"curves\":2", "\"curves\":3"), "an autocorrelation state with");
    refuse(&with(",\"instants\":2", ""), "the first line of an autocorrelation state");
    refuse(&with("\"instants\":2", "\"instants\":3"), "a damaged autocorrelation state");
}

/// A stream is resumed with instants as long as before, and with a mask if it had one; whatever is not told is the state's.
#[test]
fn states_know_their_instants_and_mask() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    for (dwell, masked) in [(None, false), (Some(1.1e-6), false), (Some(1e-6), true)] {
        let mut builder = Autocorrelator::builder(2).groups(2).lags(4).device(Device::Cpu);
        builder = dwell.into_iter().fold(builder, |builder, dwell| builder.dwell(dwell));
        let mut plan = builder.masked(masked).build().unwrap();
        // Counts of one byte, and of two from the second part on.
        plan.accumulate(&[1_u16, 1, 3, 0]).unwrap();
        plan.accumulate(&[1000_u16, 1]).unwrap();
        plan.state().unwrap().save(&file).unwrap();
        let resumed = || Autocorrelator::resume(State::load(&file).unwrap()).device(Device::Cpu);
        let state = resumed().build().unwrap().state().unwrap();
        assert_eq!((state.dwell(), state.is_masked()), (dwell, masked));
        assert_eq!(state, plan.state().unwrap());
        let other = |builder: corrust_host::autocorrelate::Builder| {
            builder.build().map(drop).map_err(|error| error.to_string())
        };
        resumed().masked(masked).build().unwrap();
        assert!(other(resumed().masked(!masked)).unwrap_err().contains("a mask"));
        let refused = other(resumed().dwell(1.6e-6));
        match dwell {
            Some(dwell) => {
                resumed().dwell(dwell).build().unwrap();
                assert!(refused.unwrap_err().contains("expected 1.6e-6 s"));
            }
            None => refused.unwrap(),
        }
        assert!(other(resumed().dwell(0.0)).unwrap_err().contains("expected more than 0"));
    }
}

/// A number of counts with a mean (Knuth's method).
fn poisson(rng: &mut StdRng, mean: f64) -> u8 {
    let limit = (-mean).exp();
    let (mut count, mut product) = (0, rng.random::<f64>());
    while product > limit {
        count += 1;
        product *= rng.random::<f64>();
    }
    count
}

/// `g` of one sensor at a lag.
fn g(counts: &[u8], groups: usize, lag: u64) -> f64 {
    let mut plan = Autocorrelator::builder(1).groups(groups).device(Device::Cpu).build().unwrap();
    plan.accumulate(counts).unwrap();
    let sums = plan.snapshot().unwrap();
    let point = sums.points.iter().position(|point| point.lag == lag).expect("the scheme's lag");
    sums.g(0, point).unwrap()
}

/// Light that bleaches from 6 to 3 counts an instant does not look correlated at long lags: the bins
/// without a delayed one, the brightest, take no part in the means.
#[test]
fn bleaching_light_gives_about_one() {
    const INSTANTS: usize = 200_000;
    const LAG: usize = 100_320;
    let rate = |n: usize| 6.0 - 3.0 * n as f64 / INSTANTS as f64;
    let mut rng = StdRng::seed_from_u64(12);
    let counts: Vec<u8> = (0..INSTANTS).map(|n| poisson(&mut rng, rate(n))).collect();
    // Means over the pairs of instants that there are.
    let mean =
        |f: &dyn Fn(usize) -> f64| (LAG..INSTANTS).map(f).sum::<f64>() / (INSTANTS - LAG) as f64;
    let expected =
        mean(&|n| rate(n) * rate(n - LAG)) / (mean(&|n| rate(n)) * mean(&|n| rate(n - LAG)));
    let found = g(&counts, 12, LAG as u64);
    assert!((found - expected).abs() < 0.002, "{found}, expected {expected}");
}

/// Noise is as quiet as its counts allow: `1 / (n sqrt(M))` of bins with a mean of `n`.
#[test]
fn noise_scatters_no_more_than_its_counts() {
    const INSTANTS: usize = 20_000;
    const LAG: usize = 4960;
    let mut rng = StdRng::seed_from_u64(13);
    let square = |_| {
        let counts: Vec<u8> = (0..INSTANTS).map(|_| poisson(&mut rng, 3.0)).collect();
        (g(&counts, 8, LAG as u64) - 1.0).powi(2)
    };
    let rms = ((0..100).map(square).sum::<f64>() / 100.0).sqrt();
    let bins = ((INSTANTS - LAG) / 128) as f64;
    let expected = 1.0 / (3.0 * 128.0 * bins.sqrt());
    assert!((0.7..1.4).contains(&(rms / expected)), "{rms}, expected {expected}");
}

/// Particles that diffuse through a Gaussian spot light up for a time that the correlation gives
/// back: `g(tau) = 1 + a / (1 + tau / tau_D)` in two dimensions, `tau_D = w^2 / 4 D`.
#[test]
fn diffusion_gives_its_correlation_time() {
    const PARTICLES: usize = 12;
    const BOX: f64 = 10.0; // in units of the spot's radius w
    const TAU_D: f64 = 60.0; // in instants
    const INSTANTS: usize = 600_000;
    let mut rng = StdRng::seed_from_u64(11);
    // Steps of variance 2 D = w^2 / (2 tau_D), uniformly distributed.
    let step = (12.0 / (2.0 * TAU_D)).sqrt();
    let mut places: Vec<[f64; 2]> =
        (0..PARTICLES).map(|_| [rng.random::<f64>() * BOX, rng.random::<f64>() * BOX]).collect();
    let counts: Vec<u8> = (0..INSTANTS)
        .map(|_| {
            let mut brightness = 0.0;
            for place in &mut places {
                let mut distance = 0.0;
                for x in place.iter_mut() {
                    *x = (*x + step * (rng.random::<f64>() - 0.5)).rem_euclid(BOX);
                    distance += (*x - BOX / 2.0).powi(2);
                }
                brightness += 20.0 * (-2.0 * distance).exp();
            }
            poisson(&mut rng, brightness)
        })
        .collect();

    let dwell = 1.6e-6;
    let mut plan = Autocorrelator::builder(1).groups(6).device(Device::Cpu).build().unwrap();
    plan.accumulate(&counts).unwrap();
    let curve = plan.snapshot().unwrap().curve(0, dwell);
    // Lag 0 holds the shot noise as well.
    let points: Vec<(f64, f64)> = curve
        .lags
        .iter()
        .zip(&curve.values)
        .map(|(lag, g)| (*lag, *g))
        .filter(|(lag, _)| (1.0..=8.0 * TAU_D).contains(&(lag / dwell)))
        .collect();
    // The best amplitude for a time is a linear fit; the best time by trying.
    let misfit = |tau: f64| {
        let model = |lag: f64| 1.0 / (1.0 + lag / tau);
        let (mut above, mut below) = (0.0, 0.0);
        for &(lag, g) in &points {
            above += (g - 1.0) * model(lag);
            below += model(lag).powi(2);
        }
        let amplitude: f64 = above / below;
        points.iter().map(|&(lag, g)| (g - 1.0 - amplitude * model(lag)).powi(2)).sum::<f64>()
    };
    let best = (10..400)
        .map(|instants| f64::from(instants) * dwell)
        .min_by(|a, b| misfit(*a).total_cmp(&misfit(*b)))
        .unwrap();
    let ratio = best / (TAU_D * dwell);
    println!(
        "correlation time: {:.1} us found, {:.1} us simulated",
        best * 1e6,
        TAU_D * dwell * 1e6
    );
    // Ten thousand correlation times, few particles: within some ten per cent.
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
}

/// Independent counts do not correlate; what lies before the stream does not bias the curve.
#[test]
fn independent_counts_give_one() {
    let sums = {
        let stream = random(40, 20_000);
        let mut plan = Autocorrelator::builder(40).groups(9).device(Device::Cpu).build().unwrap();
        plan.accumulate(&stream.counts).unwrap();
        plan.snapshot().unwrap()
    };
    let curve = sums.mean_curve(1.0);
    assert_eq!(curve.lags[1], 1.0);
    assert_eq!(curve.lags.len(), curve.values.len());
    for (lag, g) in curve.lags.iter().zip(&curve.values).skip(1) {
        assert!((g - 1.0).abs() < 0.02, "lag {lag}: {g}");
    }
}
