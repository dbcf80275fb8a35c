//! One suite for every backend of the beamformer: what it gives equals the oracle's plain loops, bit
//! for bit, at sizes around the edges of its tiles.
//!
//! A backend that is not there is skipped, saying so; naming it in `CORRUST_REQUIRE` (as in
//! `CORRUST_REQUIRE=cuda`, for all whose names start so) turns that into a failure.

use corrust_host::{
    Beamformer, Device, Devices, Encoding, Error, Layout,
    beamform::{self, BeamsMut, Kernel, MAX_DISHES, MAX_DISHES_CI8, Rounding},
    channelise::SpectrumEncoding,
    device::{Buffer, Stream},
    samples::{Extents, Missing, Samples, Strides},
};
use oracle::{Answer, Case, Output, Wide};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{device, oracle::beamform as oracle, tier};

/// A backend, and the sizes at which to test it.
#[derive(Clone, Copy)]
struct Backend {
    name: &'static str,
    device: &'static str,
    kernel: Kernel,
    weights: Encoding,
    dishes: &'static [usize],
    beams: &'static [usize],
    times: &'static [usize],
    most_dishes: usize,
}

/// Around the CPU's group of 16 beams, tile of 4 times, block of 64.
const CPU: Backend = Backend {
    name: "",
    device: "cpu",
    kernel: Kernel::Auto,
    weights: Encoding::Ci8,
    dishes: &[1, 2, 3, 64, 511, 512, 513, 1025],
    beams: &[1, 2, 15, 16, 17, 31, 32, 33, 96, 97],
    times: &[1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129, 200],
    most_dishes: MAX_DISHES,
};

/// Around the edges of the GPU kernels' fragments, chunks, tiles and units.
const GPU: Backend = Backend {
    name: "",
    device: "cuda",
    kernel: Kernel::Mma,
    weights: Encoding::Ci8,
    dishes: &[1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1025],
    beams: &[1, 2, 15, 16, 17, 32, 33, 64, 65, 96, 97, 193],
    times: &[1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 400],
    most_dishes: MAX_DISHES,
};

impl Backend {
    const fn cuda(name: &'static str, kernel: Kernel) -> Self {
        Self { name, kernel, ..GPU }
    }

    const fn sim(name: &'static str, kernel: Kernel) -> Self {
        // Every pass over dishes is like the one before: the simulator need not go through 1024.
        Self { name, device: "sim", kernel, most_dishes: 20_000, ..GPU }
    }

    const fn sim_two(name: &'static str, kernel: Kernel) -> Self {
        Self { device: "sim,sim", ..Self::sim(name, kernel) }
    }

    const fn sim_three_ci4(name: &'static str, kernel: Kernel) -> Self {
        Self { device: "sim,sim,sim", ..Self::sim_ci4(name, kernel) }
    }

    const fn two_cuda(name: &'static str, kernel: Kernel) -> Self {
        Self { device: "cuda:0,cuda:1", ..Self::cuda(name, kernel) }
    }

    const fn cuda_ci4(name: &'static str, kernel: Kernel) -> Self {
        Self { weights: Encoding::Ci4, ..Self::cuda(name, kernel) }
    }

    const fn sim_ci4(name: &'static str, kernel: Kernel) -> Self {
        Self { weights: Encoding::Ci4, ..Self::sim(name, kernel) }
    }

    const fn cpu(name: &'static str, kernel: Kernel) -> Self {
        Self { name, kernel, ..CPU }
    }

    /// Whether the backend's kernel takes such voltages.
    fn takes(&self, voltages: Encoding) -> bool {
        match self.kernel {
            // Its weights are of four bits.
            Kernel::MmaS4 => false,
            Kernel::Wgmma => voltages == Encoding::Ci4,
            _ => true,
        }
    }

    /// Whether the backend's kernel shifts partial sums.
    fn takes_partial_sums(&self) -> bool {
        self.kernel != Kernel::Wgmma
    }

    /// Devices that compute.
    fn devices(&self) -> Devices {
        self.device.parse().expect("a list of devices")
    }

    /// Whether the backend is there; says why if not.
    fn is_there(&self) -> bool {
        let plan = Beamformer::builder(1, 1).encoding(Encoding::Ci4).weights(self.weights);
        let plan = plan.device(self.devices()).kernel(self.kernel).build();
        device::there(self.name, plan).is_some()
    }

    fn builder(&self, case: &Case) -> beamform::Builder {
        Beamformer::builder(case.dishes, case.beams)
            .channels(case.channels)
            .polarisations(case.polarisations)
            .encoding(Encoding::Ci4)
            .weights(self.weights)
            .incoherent(true)
            .device(self.devices())
            .kernel(self.kernel)
    }

    /// The case as the backend can have it: of weights of four bits the high ones of the case's, with
    /// shifts that make up for it.
    fn adapted(&self, case: &Case) -> Case {
        let mut case = case.clone();
        if self.weights == Encoding::Ci4 {
            case.weights.iter_mut().for_each(|(re, im)| (*re, *im) = (*re >> 4, *im >> 4));
            case.shifts.iter_mut().for_each(|shift| *shift = shift.saturating_sub(4));
        }
        case
    }

    /// A plan with the case's weights and shifts.
    fn plan(&self, case: &Case, rounding: Rounding) -> Beamformer {
        let mut plan = self.builder(case).rounding(rounding).build().expect("the shape is legal");
        self.give(&mut plan, case);
        plan
    }

    /// Sets a plan's weights and shifts.
    fn give(&self, plan: &mut Beamformer, case: &Case) {
        if self.weights == Encoding::Ci4 {
            let nibbles = |&(re, im): &(i8, i8)| (re << 4 | im & 15) as u8;
            plan.set_weights(&case.weights.iter().map(nibbles).collect::<Vec<u8>>()).unwrap();
        } else {
            let weights: Vec<[i8; 2]> = case.weights.iter().map(|&(re, im)| [re, im]).collect();
            plan.set_weights(&weights).unwrap();
        }
        plan.set_shifts(&case.shifts).unwrap();
    }

    /// Beamforms a case in one go, with either rounding, and compares.
    fn judge(&self, case: &Case) {
        self.judge_rounded(case, &Rounding::ALL);
    }

    fn judge_rounded(&self, case: &Case, ways: &[Rounding]) {
        let case = &self.adapted(case);
        for &rounding in ways {
            let beams = self.plan(case, rounding).beamform(&case.voltages).unwrap();
            compare(&self.what(case), case, &beams, &oracle::beamform(case, judged_by(rounding)));
        }
    }

    fn what(&self, case: &Case) -> String {
        let Case { dishes, beams, channels, polarisations, times, .. } = case;
        format!(
            "{}: D = {dishes}, B = {beams}, F = {channels}, P = {polarisations}, T = {times}",
            self.name
        )
    }
}

fn judged_by(rounding: Rounding) -> oracle::Rounding {
    match rounding {
        Rounding::Nearest => oracle::Rounding::Nearest,
        Rounding::Floor => oracle::Rounding::Floor,
        Rounding::Partial(dishes) => oracle::Rounding::Partial(dishes),
    }
}

fn compare(what: &str, case: &Case, beams: &beamform::Beams, expected: &Answer) {
    let Case { beams: b, channels: f, polarisations: p, times: t, .. } = *case;
    assert_eq!(beams.samples.dim(), (b, f, p, t), "{what}");
    assert_eq!(beams.clipped.dim(), (f, p, b), "{what}");
    let samples = beams.samples.iter().zip(&expected.samples);
    for (index, (found, expected)) in samples.enumerate() {
        assert_eq!(
            found,
            expected,
            "{what}: sample of beam {}, channel and polarisation {}, time {}",
            index / (f * p * t),
            index / t % (f * p),
            index % t
        );
    }
    assert!(beams.clipped.iter().eq(&expected.clipped), "{what}: clipped samples");
    let incoherent = beams.incoherent.as_ref().expect("asked for");
    assert_eq!(incoherent.dim(), (f, p, t), "{what}");
    assert!(incoherent.iter().eq(&expected.incoherent), "{what}: incoherent beam");
}

/// The shape `(D, B, F, P, T)` with any voltages and weights, and shifts that bring most of the sums
/// into range.
fn random(shape: (usize, usize, usize, usize, usize)) -> Case {
    let (dishes, beams, channels, polarisations, times) = shape;
    let seed = [dishes, beams, channels, polarisations, times];
    let seed = seed.iter().fold(7, |seed: u64, &size| seed * 1009 + size as u64);
    let mut rng = StdRng::seed_from_u64(seed);
    let streams = channels * polarisations;
    // The sum of D products has a standard deviation of about 480 sqrt(D).
    let typical = (480.0 * (dishes as f64).sqrt() / 3.0).log2() as u32;
    Case {
        dishes,
        beams,
        channels,
        polarisations,
        times,
        voltages: (0..times * streams * dishes).map(|_| rng.random()).collect(),
        weights: (0..streams * beams * dishes).map(|_| (rng.random(), rng.random())).collect(),
        shifts: (0..streams * beams).map(|_| rng.random_range(typical - 1..=typical + 1)).collect(),
    }
}

/// Every size of each axis, with a few of the others.
fn sizes(backend: Backend) {
    let mut shapes = Vec::new();
    for (index, &dishes) in backend.dishes.iter().enumerate() {
        shapes.push((dishes, [3, 20, 96][index % 3], 1 + index % 2, 2, 70));
    }
    for (index, &beams) in backend.beams.iter().enumerate() {
        shapes.push(([65, 300, 16][index % 3], beams, 2, 1 + index % 2, 67));
    }
    for (index, &times) in backend.times.iter().enumerate() {
        shapes.push(([48, 512, 7][index % 3], [5, 17][index % 2], 3, 1, times));
    }
    for shape in tier::cases(backend.device, &shapes, 14) {
        backend.judge(&random(shape));
    }
}

/// Tiles of which a part of the weights lies in shared memory: whole, with edges, over several streams for each
/// block, and with sums that go on to another launch.
fn weights_in_shared_memory(backend: Backend) {
    let sizes = [(1025, 96), (1024, 96), (1000, 65), (512, 128), (1100, 128), (400, 97)];
    for (dishes, beams) in tier::cases(backend.device, &sizes, 2) {
        backend.judge(&random((dishes, beams, 3, 1, 70)));
    }
}

/// Every voltage times every real and every imaginary part of a weight, to the last bit: two dishes
/// see the same, and their weights all but cancel.
fn cancelling(backend: Backend) {
    let mut case = random((2, 256, 1, 1, 256));
    for beam in 0..256 {
        let weight = (beam as u8 as i8, (beam * 37 + 11) as u8 as i8);
        let rest = |value: i8, left: i32| (left - i32::from(value)).clamp(-128, 127) as i8;
        case.weights[2 * beam] = weight;
        case.weights[2 * beam + 1] =
            (rest(weight.0, beam as i32 % 3 - 1), rest(weight.1, beam as i32 / 3 % 3 - 1));
        case.shifts[beam] = beam as u32 % 2;
    }
    for time in 0..256 {
        case.voltages[2 * time..][..2].fill(time as u8);
    }
    backend.judge(&case);
}

/// Every shift.
fn shifts(backend: Backend) {
    let mut case = random((600, 64, 1, 1, 40));
    for (beam, shift) in case.shifts.iter_mut().enumerate() {
        *shift = beam as u32 / 2;
    }
    backend.judge(&case);
}

/// The largest magnitudes: all that a sum can reach, in every sign, at shifts that clip and at those
/// that do not.
fn saturating(backend: Backend) {
    let extremes = [(-128, -128), (-128, 127), (127, -128), (127, 127)];
    for dishes in [1, 513, 1024] {
        let mut case = random((dishes, 4 * 32, 1, 1, 4));
        for (beam, weights) in case.weights.chunks_exact_mut(dishes).enumerate() {
            weights.fill(extremes[beam % 4]);
            case.shifts[beam] = beam as u32 / 4;
        }
        for (voltages, byte) in case.voltages.chunks_exact_mut(dishes).zip([0x88, 0x87, 0x78, 0x77])
        {
            voltages.fill(byte);
        }
        backend.judge(&case);
    }
}

/// Partial sums of 16 bits, of every number of dishes: around the edges of partial sums, of tiles and of launches; of
/// the largest magnitudes, among them the sum that is saturated; and their beams of 8 bits and of floats.
fn partial_sums(backend: Backend) {
    let ways = [16, 32, 64, 128, 256, 512].map(Rounding::Partial);
    if !backend.takes_partial_sums() {
        let plan = backend.builder(&random((1, 1, 1, 1, 1))).rounding(ways[3]).build();
        let error = plan.err().expect("refused").to_string();
        assert_eq!(
            error,
            "kernel wgmma with rounding partial-128: expected kernel auto, mma or mma-s4"
        );
        return;
    }
    let sizes = [1, 15, 16, 17, 33, 63, 64, 65, 127, 128, 129, 255, 257, 511, 512, 513, 1025];
    let sizes: Vec<_> = sizes.into_iter().enumerate().collect();
    for (index, dishes) in tier::cases(backend.device, &sizes, 6) {
        let shape = (dishes, [3, 17, 97][index % 3], 1 + index % 2, 2 - index % 2, 67);
        let mut case = random(shape);
        // Both shifts act: the first of up to 5 bits, of 4 fewer where weights have 4 bits.
        case.shifts.iter_mut().enumerate().for_each(|(beam, s)| *s = (*s).max(9 + beam as u32 % 3));
        let three = [ways[index % 6], ways[(index + 2) % 6], Rounding::Partial(128)];
        backend.judge_rounded(&case, if backend.device == "cpu" { &ways } else { &three });
    }

    let extremes = [(-128, -128), (-128, 127), (127, -128), (127, 127)];
    let mut case = random((513, 4 * 22, 1, 1, 4));
    for (beam, weights) in case.weights.chunks_exact_mut(513).enumerate() {
        weights.fill(extremes[beam % 4]);
        case.shifts[beam] = 9 + beam as u32 / 4;
    }
    for (voltages, byte) in case.voltages.chunks_exact_mut(513).zip([0x88, 0x87, 0x78, 0x77]) {
        voltages.fill(byte);
    }
    backend.judge_rounded(&case, &[ways[0], ways[3], ways[5]]);
    if !backend.takes(Encoding::Ci4) {
        return;
    }
    // The largest sum of 128 dishes is 2^18: shifted by 3 bits one more than 16 bits hold, and rounded by 16 more it would
    // be 1 instead of 0.
    let mut case = random((128, 1, 1, 1, 1));
    case.weights.fill((-128, -128));
    case.voltages.fill(0x88);
    case.shifts.fill(19);
    for (rounding, expected) in [(ways[3], 0x00), (Rounding::Nearest, 0x01)] {
        let beams = backend.plan(&case, rounding).beamform(&case.voltages).unwrap();
        assert_eq!(beams.samples.as_slice(), Some(&[expected][..]), "{}", backend.name);
    }
    for (index, shape) in [(300, 17, 2, 1, 66), (129, 5, 1, 2, 9)].into_iter().enumerate() {
        let case = wide_case(shape, Encoding::Ci4, 20 + index as u64);
        for output in [Output::Ci8, Output::Ci4, Output::Cf16, Output::Cf32] {
            judge_wide(backend, &case, Encoding::Ci4, ways[3 + index], output);
        }
    }
}

/// As many dishes as a plan takes, all at their largest: sums of 2^30.
fn most_dishes(backend: Backend) {
    let dishes = backend.most_dishes;
    let mut case = random((dishes, 4, 1, 1, 2));
    for (beam, weights) in case.weights.chunks_exact_mut(dishes).enumerate() {
        weights.fill([(-128, -128), (-128, 127), (127, -128), (-128, -128)][beam]);
        case.shifts[beam] = [31, 30, 29, 27][beam];
    }
    for (voltages, byte) in case.voltages.chunks_exact_mut(dishes).zip([0x88, 0x78]) {
        voltages.fill(byte);
    }
    backend.judge(&case);
}

/// A stream cut anywhere gives the same beams, with weights and shifts that are replaced on the way.
fn cuts(backend: Backend) {
    let case = backend.adapted(&random((90, 18, 2, 2, 150)));
    let later = backend.adapted(&random((90, 18, 2, 2, 1)));
    let later = Case { weights: later.weights, ..case.clone() };
    let later = Case { shifts: later.shifts.iter().map(|shift| shift - 1).collect(), ..later };
    let step = 90 * 4;
    let mut plan = backend.plan(&case, Rounding::Nearest);
    for (cuts, case) in [
        (&[0, 0, 1, 64, 64, 131, 150][..], &case),
        (&[0, 63, 149, 150], &later),
        (&[0, 150], &case),
    ] {
        backend.give(&mut plan, case);
        for cut in cuts.windows(2) {
            let part = Case {
                times: cut[1] - cut[0],
                voltages: case.voltages[cut[0] * step..cut[1] * step].to_vec(),
                ..case.clone()
            };
            let beams = plan.beamform(&part.voltages).unwrap();
            let expected = oracle::beamform(&part, oracle::Rounding::Nearest);
            compare(&backend.what(&part), &part, &beams, &expected);
        }
    }
}

/// From page-locked memory as from ordinary, into beams that are used again, in more pieces than are on
/// their way together.
fn page_locked(backend: Backend) {
    let gpu = backend.devices().open().unwrap().pop().expect("a GPU");
    // A piece is 64 MiB of voltages.
    let simulated = backend.device.starts_with("sim");
    let shapes: &[_] = match simulated {
        true => &[(5, 3, 2, 2, 70), (5, 3, 2, 2, 70), (5, 3, 2, 2, 3)],
        false => &[(512, 3, 8, 2, 5 * 8192 + 100), (5, 3, 2, 2, 3), (512, 3, 8, 2, 100)],
    };
    let mut beams = beamform::Beams::default();
    for &shape in shapes {
        let case = backend.adapted(&random(shape));
        let expected = oracle::beamform(&case, oracle::Rounding::Nearest);
        let mut locked = gpu.locked_bytes(case.voltages.len() + 1).unwrap();
        assert!(gpu.is_locked(&locked));
        assert!(simulated || !gpu.is_locked(&case.voltages));
        locked[1..].copy_from_slice(&case.voltages);
        let mut plan = backend.plan(&case, Rounding::Nearest);
        for voltages in [&locked[1..], &case.voltages, &locked[1..]] {
            plan.beamform_into(voltages, &mut beams).unwrap();
            compare(&backend.what(&case), &case, &beams, &expected);
        }
    }
}

/// Voltages in another order with something between them, in host and in device memory, some of them
/// missing; beams that come home and beams that stay.
fn views(backend: Backend) {
    let mut gpus = backend.devices().open().unwrap();
    // One of several GPUs has the voltages, and the beams that stay.
    let gpu = gpus.pop();
    for (index, shape) in [(33, 17, 2, 2, 70), (64, 5, 3, 1, 150)].into_iter().enumerate() {
        let case = backend.adapted(&random(shape));
        let (dishes, beams, channels, polarisations, times) = shape;
        let streams = channels * polarisations;
        // [stream][dish][time] with gaps, and rows of dishes that are not next to each other.
        let strides = match index {
            0 => Strides { channel: dishes * 200, input: 200, time: 2 },
            _ => Strides { channel: dishes + 7, input: 1, time: streams * (dishes + 7) },
        };
        let missing = [
            Missing::times(3..5),
            Missing::times(8..60).of_inputs(2..9).of_channels(1..2),
            Missing::times(times - 1..times).of_inputs(4..usize::MAX),
        ];
        let mut lossy = case.clone();
        let mut bytes = vec![0x35; streams * dishes * 200 * 2];
        for time in 0..times {
            for stream in 0..streams {
                for dish in 0..dishes {
                    let from = (time * streams + stream) * dishes + dish;
                    let at = stream * strides.channel + dish * strides.input + time * strides.time;
                    bytes[at] = case.voltages[from];
                    if missing.iter().any(|missing| {
                        missing.times.contains(&time)
                            && missing.channels.contains(&stream)
                            && missing.inputs.contains(&dish)
                    }) {
                        lossy.voltages[from] = 0;
                    }
                }
            }
        }
        let extents = Extents { channels: streams, inputs: dishes, times };
        for (case, missing) in [(&case, &missing[..0]), (&lossy, &missing[..])] {
            let expected = oracle::beamform(case, oracle::Rounding::Nearest);
            let mut plan = backend.plan(case, Rounding::Nearest);
            let samples = Samples::strided(&bytes[..], Encoding::Ci4, extents, strides).unwrap();
            let samples = samples.missing(missing);
            let found = plan.beamform(samples).unwrap();
            compare(&backend.what(case), case, &found, &expected);
            let Some(gpu) = &gpu else {
                continue;
            };
            let there = Buffer::new(gpu, bytes.len()).unwrap();
            there.upload(Stream::default(), &bytes).unwrap();
            let on_device =
                Samples::strided(there.slice(), Encoding::Ci4, extents, strides).unwrap();
            let on_device = on_device.missing(missing);
            let found = plan.beamform(on_device).unwrap();
            compare(&backend.what(case), case, &found, &expected);
            // Without gaps they may be read where they lie.
            let plain = Buffer::new(gpu, case.voltages.len()).unwrap();
            plain.upload(Stream::default(), &case.voltages).unwrap();
            let plain =
                Samples::new(plain.slice(), dishes, streams, Encoding::Ci4, Layout::Tcn).unwrap();
            let stream = gpu.create_stream().unwrap();
            for voltages in [samples, on_device, plain] {
                let mut room = Buffer::new(gpu, beams * streams * times).unwrap();
                let mut counts = Buffer::new(gpu, 8 * streams * beams).unwrap();
                counts.clear(stream).unwrap();
                let short = BeamsMut::from(room.slice_mut::<u8>());
                let cut = voltages.times(0..times - 1);
                let error = plan.beamform_device(cut, short).unwrap_err().to_string();
                let sizes = [times, times - 1].map(|times| beams * streams * times);
                let sizes = format!("{} samples: expected {}", sizes[0], sizes[1]);
                assert!(error.contains(&sizes), "{error}");
                let samples = room.slice_mut::<u8>().on(stream);
                let clipped = Some(counts.slice_mut::<u64>());
                plan.beamform_device(voltages, BeamsMut { samples, clipped }).unwrap();
                let mut samples = vec![0; beams * streams * times];
                room.download(stream, &mut samples).unwrap();
                assert_eq!(samples, expected.samples, "{}", backend.what(case));
                let mut clipped = vec![0; streams * beams];
                counts.download(stream, &mut clipped).unwrap();
                assert_eq!(clipped, expected.clipped, "{}", backend.what(case));
            }
            plan.wait().unwrap();
        }
    }
}

/// Weights of four bits, every one of them.
fn four_bit_weights(backend: Backend) {
    for (dishes, beams) in [(1, 256), (130, 50)] {
        let mut case = random((dishes, beams, 1, 2, 30));
        let bytes: Vec<u8> = (0..case.weights.len()).map(|index| (index * 77) as u8).collect();
        for (weight, byte) in case.weights.iter_mut().zip(&bytes) {
            let nibble = |value: u8| if value >= 8 { value as i8 - 16 } else { value as i8 };
            *weight = (nibble(byte / 16), nibble(byte % 16));
        }
        case.shifts.iter_mut().for_each(|shift| *shift -= 4);
        let mut plan = backend.builder(&case).weights(Encoding::Ci4).build().unwrap();
        plan.set_weights(&bytes).unwrap();
        plan.set_shifts(&case.shifts).unwrap();
        let expected = oracle::beamform(&case, oracle::Rounding::Nearest);
        let beams = plan.beamform(&case.voltages).unwrap();
        compare(&backend.what(&case), &case, &beams, &expected);
    }
}

/// Beams of `ci8` and `ci4` voltages in every encoding, at sizes around the edges of the tiles of either, bit for
/// bit; and the incoherent beam.
fn wide(backend: Backend) {
    let shapes = [
        (1, 1, 1, 1, 1),
        (31, 15, 1, 2, 63),
        (32, 16, 2, 1, 64),
        (33, 17, 2, 2, 65),
        (255, 64, 1, 1, 15),
        (256, 65, 1, 1, 66),
        (257, 97, 1, 1, 5),
        (600, 3, 2, 1, 130),
    ];
    let shapes: Vec<_> = shapes.into_iter().enumerate().collect();
    for (index, shape) in tier::cases(backend.device, &shapes, 4) {
        for voltages in [Encoding::Ci8, Encoding::Ci4] {
            if !backend.takes(voltages) {
                continue;
            }
            let case = wide_case(shape, voltages, index as u64);
            for (rounding, output) in [
                (Rounding::Nearest, Output::Ci8),
                (Rounding::Floor, Output::Ci8),
                (Rounding::Floor, Output::Ci4),
                (Rounding::Nearest, Output::Ci4),
                (Rounding::Nearest, Output::Cf16),
                (Rounding::Floor, Output::Cf32),
            ] {
                judge_wide(backend, &case, voltages, rounding, output);
            }
        }
    }
}

/// Every `ci8` byte times every byte of a weight, to the last bit, and the largest sums there are.
fn wide_bytes(backend: Backend) {
    if !backend.takes(Encoding::Ci8) {
        return;
    }
    let mut case = wide_case((2, 256, 1, 1, 256), Encoding::Ci8, 9);
    let byte = |value: usize| f64::from(value as u8 as i8);
    for index in 0..256 {
        let pair = (byte(index), byte(index * 37 + 11));
        case.weights[2 * index..][..2].fill(pair);
        // The second dish takes away what the first gives, but for some.
        case.voltages[2 * index] = pair;
        let less = |part: f64| (-part - 1.0).clamp(-128.0, 127.0);
        case.voltages[2 * index + 1] = (less(pair.0), less(pair.1));
    }
    case.shifts.iter_mut().enumerate().for_each(|(beam, shift)| *shift = beam as u32 % 3);
    judge_wide(backend, &case, Encoding::Ci8, Rounding::Nearest, Output::Ci8);
    judge_wide(backend, &case, Encoding::Ci8, Rounding::Floor, Output::Cf32);

    let dishes = MAX_DISHES_CI8.min(backend.most_dishes / 8);
    let mut case = wide_case((dishes, 4, 1, 1, 2), Encoding::Ci8, 10);
    for (beam, weights) in case.weights.chunks_exact_mut(dishes).enumerate() {
        weights.fill([(-128.0, -128.0), (-128.0, 127.0), (127.0, -128.0), (-128.0, -128.0)][beam]);
        case.shifts[beam] = [31, 30, 25, 23][beam];
    }
    for (time, voltages) in case.voltages.chunks_exact_mut(dishes).enumerate() {
        voltages.fill([(-128.0, -128.0), (127.0, -128.0)][time]);
    }
    for output in [Output::Ci8, Output::Cf16, Output::Cf32] {
        judge_wide(backend, &case, Encoding::Ci8, Rounding::Nearest, output);
    }
}

/// Beams of halves are as near to exact sums as is said, and the same every time and however the stream is cut.
fn halves(backend: Backend) {
    if !backend.takes(Encoding::Cf16) {
        return;
    }
    let shapes = [
        (15, 15, 2, 1, 63),
        (1, 1, 1, 1, 1),
        (127, 16, 1, 2, 65),
        (129, 65, 1, 1, 70),
        (300, 97, 2, 1, 5),
    ];
    let shapes: Vec<_> = shapes.into_iter().enumerate().collect();
    for (index, shape) in tier::cases(backend.device, &shapes, 2) {
        let case = wide_case(shape, Encoding::Cf16, index as u64);
        let (dishes, beams, channels, polarisations, times) = shape;
        for (rounding, output) in [
            (Rounding::Nearest, Output::Cf32),
            (Rounding::Nearest, Output::Cf16),
            (Rounding::Nearest, Output::Ci8),
            (Rounding::Floor, Output::Ci4),
        ] {
            let what = format!("{}, {shape:?}, {output:?}", backend.name);
            let mut plan = wide_plan(backend, &case, Encoding::Cf16, rounding, output);
            let bytes = wide_bytes_of(&case.voltages, Encoding::Cf16);
            let found = plan.beamform(&bytes).unwrap();
            assert_eq!(plan.beamform(&bytes).unwrap(), found, "{what}");
            let most = match output {
                Output::Ci4 => 7.0,
                Output::Ci8 => 127.0,
                _ => 65504.0,
            };
            for b in 0..beams {
                for (f, p) in (0..channels).flat_map(|f| (0..polarisations).map(move |p| (f, p))) {
                    for t in 0..times {
                        let (sum, size) = case.sum(b, f, p, t);
                        let scale = 2f64.powi(-(case.shift(b, f, p) as i32));
                        let sample = found.get(b, f, p, t);
                        for (part, found) in [sample.re, sample.im].into_iter().enumerate() {
                            let exact = sum[part] * scale;
                            let bound = (dishes + 32) as f64 * 2f64.powi(-23) * size[part] * scale;
                            // Error from rounding to the encoding.
                            let (low, high) = match output {
                                Output::Cf32 => (0.0, 0.0),
                                Output::Cf16 => {
                                    (exact.abs() * 5e-4 + 1e-7, exact.abs() * 5e-4 + 1e-7)
                                }
                                _ if rounding == Rounding::Floor => (1.0, 0.0),
                                _ => (0.5, 0.5),
                            };
                            let (low, high) = (exact - bound - low, exact + bound + high);
                            let (low, high) = (low.clamp(-most, most), high.clamp(-most, most));
                            let found = f64::from(found);
                            assert!(
                                (low..=high).contains(&found),
                                "{what}: {found} of {exact}, {low} to {high}"
                            );
                        }
                    }
                }
            }
            let step = channels * polarisations * dishes * 4;
            let mut parts = Vec::new();
            for cut in bytes.chunks(step * 7) {
                parts.push(plan.beamform(cut).unwrap());
            }
            for (time, sample) in found.samples.lanes(ndarray::Axis(3)).into_iter().enumerate() {
                let lane = |beams: &beamform::Beams| {
                    let lanes = beams.samples.lanes(ndarray::Axis(3));
                    lanes.into_iter().nth(time).expect("as many rows").to_vec()
                };
                let joined: Vec<u8> = parts.iter().flat_map(lane).collect();
                assert_eq!(sample.to_vec(), joined, "{what}");
            }
        }
    }
}

/// Random voltages and weights of an encoding, and shifts that bring most of the sums to some tens.
fn wide_case(shape: (usize, usize, usize, usize, usize), voltages: Encoding, seed: u64) -> Wide {
    let (dishes, beams, channels, polarisations, times) = shape;
    let mut rng = StdRng::seed_from_u64(100 + seed);
    let mut number = |encoding: Encoding| match encoding {
        Encoding::Ci4 => f64::from(rng.random_range(-8..8)),
        Encoding::Ci8 => f64::from(rng.random::<i8>()),
        // Halves below 64, subnormal ones too, of which every bit is used.
        _ => {
            f64::from(half::f16::from_bits(rng.random::<u16>() % 0x5400)) * 0.5
                - f64::from(half::f16::from_bits(rng.random::<u16>() % 0x5000))
        }
    };
    let half = voltages == Encoding::Cf16;
    let rounded = |value: f64| if half { f64::from(half::f16::from_f64(value)) } else { value };
    let mut pairs = |count: usize, encoding| -> Vec<(f64, f64)> {
        (0..count).map(|_| (rounded(number(encoding)), rounded(number(encoding)))).collect()
    };
    let streams = channels * polarisations;
    let case = Wide {
        dishes,
        beams,
        channels,
        polarisations,
        times,
        voltages: pairs(times * streams * dishes, voltages),
        weights: pairs(streams * beams * dishes, if half { Encoding::Cf16 } else { Encoding::Ci8 }),
        shifts: Vec::new(),
    };
    let size = match voltages {
        Encoding::Ci4 => 480.0,
        Encoding::Ci8 => 7700.0,
        _ => 100.0,
    };
    let typical = (size * (dishes as f64).sqrt() / 60.0).log2().max(1.0) as u32;
    let shifts = (0..streams * beams).map(|beam| typical + beam as u32 % 6 - 1).collect();
    Wide { shifts, ..case }
}

fn wide_bytes_of(numbers: &[(f64, f64)], encoding: Encoding) -> Vec<u8> {
    let pair = |&(re, im): &(f64, f64)| match encoding {
        Encoding::Ci4 => {
            vec![(re as i8) << 4 | im as i8 & 15].into_iter().map(|b| b as u8).collect()
        }
        Encoding::Ci8 => vec![re as i8 as u8, im as i8 as u8],
        _ => {
            [re, im].into_iter().flat_map(|part| half::f16::from_f64(part).to_le_bytes()).collect()
        }
    };
    numbers.iter().flat_map(pair).collect()
}

fn wide_plan(
    backend: Backend,
    case: &Wide,
    voltages: Encoding,
    rounding: Rounding,
    output: Output,
) -> Beamformer {
    let weights = if voltages == Encoding::Cf16 { Encoding::Cf16 } else { Encoding::Ci8 };
    let output: SpectrumEncoding = match output {
        Output::Ci4 => Encoding::Ci4.into(),
        Output::Ci8 => Encoding::Ci8.into(),
        Output::Cf16 => Encoding::Cf16.into(),
        Output::Cf32 => SpectrumEncoding::Cf32,
    };
    let plan = Beamformer::builder(case.dishes, case.beams)
        .channels(case.channels)
        .polarisations(case.polarisations)
        .encoding(voltages)
        .output(output)
        .rounding(rounding)
        .incoherent(voltages != Encoding::Cf16)
        .device(backend.devices())
        .kernel(if voltages == Encoding::Cf16 && backend.device == "cpu" {
            Kernel::Auto
        } else {
            backend.kernel
        });
    let mut plan = plan.build().unwrap();
    plan.set_weights(&wide_bytes_of(&case.weights, weights)).unwrap();
    plan.set_shifts(&case.shifts).unwrap();
    plan
}

fn judge_wide(
    backend: Backend,
    case: &Wide,
    voltages: Encoding,
    rounding: Rounding,
    output: Output,
) {
    let Wide { dishes, beams, channels, polarisations, times, .. } = *case;
    let what = format!(
        "{}, {voltages} to {output:?}, {rounding}: D = {dishes}, B = {beams}, F = {channels}, P = {polarisations}, T = {times}",
        backend.name
    );
    let mut plan = wide_plan(backend, case, voltages, rounding, output);
    let bytes = wide_bytes_of(&case.voltages, voltages);
    let found = plan.beamform(&bytes).unwrap();
    let (samples, clipped) = case.integers(judged_by(rounding), output);
    assert_eq!(found.times(), times, "{what}");
    let place = found.samples.iter().zip(&samples).position(|(found, expected)| found != expected);
    assert_eq!(place, None, "{what}: byte of the samples");
    assert_eq!(found.samples.len(), samples.len(), "{what}");
    assert!(found.clipped.iter().eq(&clipped), "{what}: {:?}, {clipped:?}", found.clipped);
    let square = |&(re, im): &(f64, f64)| (re * re + im * im) as u32;
    let rows = case.voltages.chunks_exact(dishes);
    let powers: Vec<u32> = rows.map(|row| row.iter().map(square).sum()).collect();
    let streams = channels * polarisations;
    for (index, &power) in found.incoherent.as_ref().expect("asked for").iter().enumerate() {
        assert_eq!(power, powers[index % times * streams + index / times], "{what}: incoherent");
    }
    // Beams that stay in the device's memory.
    let Some(gpu) =
        backend.devices().open().unwrap().pop().filter(|_| !backend.device.contains(','))
    else {
        return;
    };
    let mut room = Buffer::new(&gpu, samples.len()).unwrap();
    plan.beamform_device(&bytes, room.slice_mut::<u8>()).unwrap();
    let mut left = vec![0; samples.len()];
    room.download(Stream::default(), &mut left).unwrap();
    assert!(left == samples, "{what}: on the device");
}

/// The transposes of the note give the same beams, where there are at most 512 dishes.
#[test]
fn shuffles_give_the_same_beams() {
    for (name, device) in [("sim_mma_shuffle", "sim"), ("cuda_mma_shuffle", "cuda")] {
        let backend = Backend { name, device, kernel: Kernel::MmaShuffle, ..GPU };
        if !backend.is_there() {
            continue;
        }
        for shape in
            [(1, 1, 1, 1, 1), (511, 96, 1, 1, 129), (512, 97, 2, 1, 63), (65, 15, 1, 3, 64)]
        {
            backend.judge(&random(shape));
        }
        let too_many =
            Beamformer::builder(513, 1).encoding(Encoding::Ci4).device(backend.devices());
        let error = too_many.kernel(Kernel::MmaShuffle).build().err().expect("refused");
        assert!(error.to_string().contains("expected at most 512 dishes"), "{error}");
    }
}

/// Stamps the suite for a backend.
macro_rules! conformance {
    (cpu $name:ident, $kernel:ident) => {
        conformance!(@mod $name, cpu, $kernel: );
    };
    ($backend:ident $name:ident, $kernel:ident) => {
        conformance!(@mod $name, $backend, $kernel: page_locked);
    };
    (@mod $name:ident, $backend:ident, $kernel:ident: $($test:ident)?) => {
        mod $name {
            use super::{Backend, Kernel};

            const BACKEND: Backend = Backend::$backend(stringify!($name), Kernel::$kernel);

            conformance!(
                @tests sizes weights_in_shared_memory cancelling shifts saturating partial_sums most_dishes cuts views four_bit_weights wide
                wide_bytes halves $($test)?
            );
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

conformance!(cpu cpu_portable, CpuPortable);
conformance!(cpu cpu_avx2, CpuAvx2);
conformance!(cpu cpu_avx512_vnni, CpuAvx512Vnni);
conformance!(cuda cuda_mma, Mma);
conformance!(cuda cuda_wgmma, Wgmma);
conformance!(cuda_ci4 cuda_mma_s4, MmaS4);
conformance!(sim sim_mma, Mma);
conformance!(sim_ci4 sim_mma_s4, MmaS4);
conformance!(sim sim_wgmma, Wgmma);
conformance!(sim_two sim_two, Wgmma);
conformance!(sim_three_ci4 sim_three, MmaS4);
// A name of its own: it needs two GPUs.
conformance!(two_cuda two_cuda_auto, Auto);

/// Refused in one sentence that says what was found and what was expected.
#[test]
fn errors_name_found_and_expected() {
    let cpu = |dishes, beams| {
        Beamformer::builder(dishes, beams).encoding(Encoding::Ci4).device(Device::Cpu)
    };
    let message = |result: Result<Beamformer, Error>| result.err().expect("refused").to_string();
    assert_eq!(message(cpu(0, 1).build()), "0 dishes: a beamformer needs at least 1");
    assert_eq!(message(cpu(1, 0).build()), "0 beams: a beamformer needs at least 1");
    assert_eq!(message(cpu(1, 1).channels(0).build()), "0 channels: a beamformer needs at least 1");
    assert!(message(cpu(1, 1).polarisations(0).build()).starts_with("0 polarisations"));
    assert!(message(cpu(MAX_DISHES + 1, 1).build()).contains("expected at most 524287"));
    assert!(message(cpu(1, usize::MAX).build()).contains("cannot be addressed"));
    assert!(message(cpu(1, 1).weights(Encoding::Cf16).build()).contains("expected ci8 or ci4"));
    let wide = |encoding| cpu(3, 2).encoding(encoding);
    assert!(message(wide(Encoding::B1).build()).contains("expected ci4, ci8 or cf16"));
    let many = cpu(MAX_DISHES_CI8 + 1, 1).encoding(Encoding::Ci8);
    assert!(message(many.build()).contains("expected at most 32767 of ci8 voltages"));
    let halves = wide(Encoding::Cf16);
    assert_eq!(
        message(halves.clone().weights(Encoding::Ci8).build()),
        "ci8 weights: expected cf16, as the voltages are"
    );
    assert!(message(halves.clone().incoherent(true).build()).contains("expected ci4 or ci8"));
    assert!(message(halves.kernel(Kernel::CpuAvx2).build()).contains("expected kernel auto"));
    let offset = cpu(1, 1).output(Encoding::Ci4Offset).build();
    assert!(message(offset).contains("expected ci4, ci8, cf16 or cf32"));
    for kernel in [Kernel::Wgmma, Kernel::MmaS4, Kernel::MmaShuffle] {
        let plan = Beamformer::builder(1, 1).device(Device::Sim).encoding(Encoding::Ci8);
        assert!(message(plan.kernel(kernel).build()).contains("of ci8"), "{kernel}");
    }
    assert!(message(cpu(1, 1).kernel(Kernel::Mma).build()).contains("does not run on a CPU"));
    let simulator =
        Beamformer::builder(1, 1).encoding(Encoding::Ci4).device(Device::Sim).kernel(Kernel::MmaS4);
    assert_eq!(
        message(simulator.build()),
        "kernel mma-s4 with weights of ci8: expected weights of ci4"
    );
    let partial =
        |encoding, dishes| message(wide(encoding).rounding(Rounding::Partial(dishes)).build());
    let expected = "expected ci4, whose partial sums fit in 16 bits";
    assert_eq!(
        partial(Encoding::Ci8, 128),
        format!("rounding partial-128 with voltages of ci8: {expected}")
    );
    assert!(partial(Encoding::Cf16, 128).contains(expected));
    for dishes in [0, 8, 24, 1024] {
        assert_eq!(
            partial(Encoding::Ci4, dishes),
            format!("partial sums of {dishes} dishes: expected a power of two from 16 to 512")
        );
    }

    let mut plan = cpu(3, 2).channels(2).build().unwrap();
    let message = |error: Error| error.to_string();
    let none: [u8; 0] = [];
    assert!(message(plan.beamform(&[0u8; 6]).unwrap_err()).contains("expected set_weights"));
    assert!(message(plan.set_weights(&[0i8; 23]).unwrap_err()).contains("expected 24"));
    plan.set_weights(&[0i8; 24]).unwrap();
    assert!(message(plan.set_shifts(&[0, 0, 0]).unwrap_err()).contains("expected 4"));
    assert!(message(plan.set_shifts(&[0, 0, 32, 0]).unwrap_err()).contains("shift 32 at index 2"));
    assert!(message(plan.beamform(&[0u8; 7]).unwrap_err()).contains("expected a multiple of 6"));
    assert_eq!(plan.beamform(&none).unwrap().samples.dim(), (2, 2, 1, 0));
    let mut plan = cpu(3, 2).rounding(Rounding::Partial(128)).build().unwrap();
    let low = plan.set_shifts(&[3, 2]).unwrap_err().to_string();
    assert_eq!(low, "shift 2 at index 1: expected 3 to 31");
    for name in ["", "up", "Nearest", "partial", "partial-", "partial-x", "partial-100"] {
        assert!(name.parse::<Rounding>().is_err());
    }
    for rounding in [Rounding::Nearest, Rounding::Floor, Rounding::Partial(128)] {
        assert_eq!(rounding.to_string().parse::<Rounding>().unwrap(), rounding);
    }
}
