//! One suite for every backend: what it computes equals the oracle's plain loops, bit for bit for
//! integer samples, at sizes around the edges of its tiles.
//!
//! A backend that is not there is skipped, saying so; naming it in `CORRUST_REQUIRE` (as in
//! `CORRUST_REQUIRE=cuda`, for all whose names start so) turns that into a failure.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use backend::{KernelOnDevices, compare};
use corrust_gpu::abi::{
    self,
    correlate::{PACKED_COMPLEX, ROW_CORRELATORS, TIMES_PER_STEP, WARPGROUP_CORRELATORS},
};
use corrust_host::{
    Correlator, Encoding, Layout,
    correlate::{DROP, Dump, Gates, Kernel, Visibilities, baselines},
    device::{Buffer, DeviceSlice, SimGpu, Stream},
    quantise::{Packed, pack_rows},
    samples::{Extents, Memory, Missing, Samples, Strides, TimeBlocks},
};
use ndarray::Array2;
use num_complex::Complex;
use oracle::Block;
use ptx_sim::Class;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{backend, oracle::correlate as oracle, tier};

/// A backend, and what to test it with. Sizes and encodings follow from the kernel's declaration.
#[derive(Clone, Copy)]
struct Backend {
    place: KernelOnDevices,
    /// Numbers of times at which 32-bit sums would overflow.
    long_times: &'static [usize],
}

/// The CPU's panels have 4 rows and 4, 8 or 48 columns, its blocks 96 inputs.
const CPU_INPUTS: &[usize] =
    &[1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 95, 96, 97, 257];

/// The CPU sums 256 words (128, 256 or 512 times) at once and unpacks 1024 (512, 1024 or 2048).
const CPU_TIMES: &[usize] =
    &[1, 2, 3, 63, 64, 65, 127, 128, 129, 255, 257, 511, 512, 513, 1025, 2047, 2048, 2051];

/// 2 * 128^2 * 65536 = 2^31.
const LONG_TIMES: &[usize] = &[65535, 65536, 65537, 131072];

/// Around the edges of a 16-byte chunk, a step and the stages in flight.
const GPU_TIMES: &[usize] = &[
    1,
    7,
    8,
    9,
    TIMES_PER_STEP as usize - 1,
    TIMES_PER_STEP as usize,
    TIMES_PER_STEP as usize + 1,
    2 * TIMES_PER_STEP as usize - 1,
    2 * TIMES_PER_STEP as usize,
    3 * TIMES_PER_STEP as usize + 1,
    16 * TIMES_PER_STEP as usize + 3,
];

/// Around the edges of a 16-byte chunk, and of the times until fields are split.
const PACKED_TIMES: &[usize] =
    &[1, 7, 8, 9, 15, 16, 17, 111, 112, 113, 255, 256, 257, 291, 293, 1025];

/// The kernels of few inputs take 16, 32 or 64 at a time, and samples of fewer than 16 bytes by 4 bytes or one by
/// one.
const FEW_INPUTS: &[usize] = &[1, 2, 3, 4, 8, 15, 16, 17, 20, 24, 31, 32, 33, 48, 50, 63, 64];

/// Around the edges of their stages of 32 or 64 times, and of those in flight.
const FEW_TIMES: &[usize] =
    &[1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 96, 97, 128, 129, 193, 1027, 4099];

/// Rows and columns of the tiles of a kernel's declarations.
fn tiles(kernel: Kernel) -> Vec<(usize, usize)> {
    let rows = ROW_CORRELATORS.iter().copied().flatten();
    let rows = rows.map(|declared| (declared.name, declared.tile));
    let warpgroups = WARPGROUP_CORRELATORS.iter().copied().flatten();
    let warpgroups =
        warpgroups.map(|declared| (declared.name, (declared.tile.rows, declared.tile.columns)));
    let declared = rows.chain(warpgroups).filter(|(name, _)| {
        // `auto` may take any.
        kernel == Kernel::Auto || *name == kernel.name()
    });
    declared.map(|(_, (rows, columns))| (rows as usize, columns as usize)).collect()
}

/// Whether a kernel splits its sums into fields, as those that multiply packed samples do.
fn has_fields(kernel: Kernel) -> bool {
    let mut rows = ROW_CORRELATORS.iter().copied().flatten();
    rows.any(|declared| declared.name == kernel.name() && !declared.sums_rows)
}

impl Backend {
    /// Numbers of inputs: 1, 2, 3, and around the edges of tiles.
    fn inputs(&self) -> Vec<usize> {
        match self.place {
            KernelOnDevices { devices: "cpu", .. } => CPU_INPUTS.to_vec(),
            KernelOnDevices { kernel: Kernel::Few, .. } => FEW_INPUTS.to_vec(),
            KernelOnDevices { kernel, .. } => {
                let tiles = tiles(kernel);
                assert!(!tiles.is_empty(), "{kernel} has no row in gpu/src/abi/correlate.rs");
                let edges = tiles.iter().flat_map(|&(rows, columns)| {
                    let around = [rows, columns].map(|edge| [edge - 1, edge, edge + 1]);
                    // The third is not whole boxes of delivered samples.
                    [2 * rows + 1, 2 * columns + 1, rows + 48]
                        .into_iter()
                        .chain(around.into_iter().flatten())
                });
                let inputs: BTreeSet<usize> = [1, 2, 3].into_iter().chain(edges).collect();
                inputs.into_iter().collect()
            }
        }
    }

    /// Numbers of times: 1, odd, and around the edges of stages and of what is summed at once.
    fn times(&self) -> &'static [usize] {
        match self.place {
            KernelOnDevices { devices: "cpu", .. } => CPU_TIMES,
            KernelOnDevices { kernel: Kernel::Few, .. } => FEW_TIMES,
            KernelOnDevices { kernel, .. } if has_fields(kernel) => PACKED_TIMES,
            _ => GPU_TIMES,
        }
    }

    /// Encodings that the kernel takes.
    fn encodings(&self) -> impl Iterator<Item = Encoding> + use<> {
        let kernel = self.place.kernel;
        Encoding::BYTE_ALIGNED.into_iter().filter(move |&encoding| kernel.takes(encoding))
    }

    /// Most inputs of samples of a format that the kernel is tested with.
    fn most_inputs_of(&self, (encoding, layout): (Encoding, Layout)) -> usize {
        let nibbles = matches!(encoding, Encoding::Ci4 | Encoding::Ci4Offset);
        match self.place.kernel {
            Kernel::Few if nibbles && layout == Layout::Cnt => 32,
            Kernel::Few if layout == Layout::Cnt => 16,
            _ => self.inputs().into_iter().max().expect("sizes"),
        }
    }

    const fn on(self, devices: &'static str) -> Self {
        Self { place: KernelOnDevices { devices, ..self.place }, ..self }
    }

    const fn cuda(name: &'static str, kernel: Kernel) -> Self {
        Self { place: KernelOnDevices { name, devices: "cuda", kernel }, long_times: LONG_TIMES }
    }

    const fn sim(name: &'static str, kernel: Kernel) -> Self {
        Self { place: KernelOnDevices { name, devices: "sim", kernel }, long_times: &[65537] }
    }

    const fn cpu(name: &'static str, kernel: Kernel) -> Self {
        Self { place: KernelOnDevices { name, devices: "cpu", kernel }, long_times: LONG_TIMES }
    }

    /// Whether the backend is there; says why if not.
    fn is_there(&self) -> bool {
        let encoding = self.encodings().next().expect("a kernel takes an encoding");
        self.place.is_there(&random((encoding, Layout::Tcn), 1, 1, 1))
    }

    fn plan(&self, block: &Block) -> Correlator {
        self.place.builder(block).build().expect("the shape is legal")
    }

    /// Correlates a block in one go and compares.
    fn judge(&self, block: &Block) {
        let mut plan = self.plan(block);
        plan.accumulate(&block.bytes).unwrap();
        compare(&self.what(block), &plan.dump().unwrap(), &oracle::correlate_block(block));
    }

    /// Every encoding in every layout.
    fn formats(&self) -> impl Iterator<Item = (Encoding, Layout)> + use<> {
        self.encodings().flat_map(|encoding| Layout::ALL.map(|layout| (encoding, layout)))
    }

    /// A block of random samples that the kernel takes.
    fn random(
        &self,
        format: (Encoding, Layout),
        inputs: usize,
        channels: usize,
        times: usize,
    ) -> Block {
        let mut block = random(format, inputs, channels, times);
        self.limit(&mut block);
        block
    }

    /// Clamps 4-bit samples to the values that the kernel takes.
    fn limit(&self, block: &mut Block) {
        let zero = match block.encoding {
            Encoding::Ci4 => 0,
            Encoding::Ci4Offset => 8,
            _ => return,
        };
        let half = 1 << (self.place.kernel.value_bits().unwrap_or(4) - 1);
        for byte in &mut block.bytes {
            let part = |nibble: u8| {
                let code = i32::from(nibble) - zero;
                let value = if code > 7 { code - 16 } else { code };
                (value.clamp(-half, half - 1) + zero) as u8 & 15
            };
            *byte = part(*byte >> 4) << 4 | part(*byte & 15);
        }
    }

    fn what(&self, block: &Block) -> String {
        let Block { inputs, channels, times, encoding, layout, .. } = block;
        format!(
            "{}, {encoding} {layout}: N = {inputs}, C = {channels}, T = {times}",
            self.place.name
        )
    }
}

/// A block of random samples: any bytes, or for `cf16` any halves below 8, subnormal ones too.
fn random(
    (encoding, layout): (Encoding, Layout),
    inputs: usize,
    channels: usize,
    times: usize,
) -> Block {
    let mut rng = StdRng::seed_from_u64((inputs << 40 | channels << 32 | times) as u64);
    let samples = inputs * channels * times;
    let bytes = match encoding {
        Encoding::Cf16 => {
            (0..2 * samples).flat_map(|_| (rng.random::<u16>() & 0xc7ff).to_le_bytes()).collect()
        }
        _ => (0..encoding.bytes() * samples).map(|_| rng.random()).collect(),
    };
    Block { inputs, channels, times, encoding, layout, bytes }
}

/// Every number of inputs, with a few times; every number of times, with a few inputs.
fn sizes(backend: Backend) {
    for format in backend.formats() {
        let most = backend.most_inputs_of(format);
        let numbers: Vec<usize> =
            backend.inputs().into_iter().filter(|&inputs| inputs <= most).collect();
        let numbers = tier::cases(backend.place.devices, &numbers, 4);
        for (case, inputs) in numbers.into_iter().enumerate() {
            let channels = [1, 3][case % 2];
            backend.judge(&backend.random(format, inputs, channels, [9, 1, 70][case % 3]));
        }
        let numbers = tier::cases(backend.place.devices, backend.times(), 4);
        for (case, times) in numbers.into_iter().enumerate() {
            let channels = [3, 1][case % 2];
            backend.judge(&backend.random(format, [5, 2, 1][case % 3], channels, times));
            // Whole lines, as a copy engine reads them where they were delivered.
            backend.judge(&backend.random(format, 16, channels, times));
        }
    }
}

/// Every byte times every byte, each product on its own baseline.
fn bytes(backend: Backend) {
    for layout in Layout::ALL {
        for encoding in backend.encodings().filter(|encoding| encoding.is_integer()) {
            // Two groups of bytes at a time, where there are fewer inputs than bytes.
            let inputs = 1 << backend.most_inputs_of((encoding, layout)).min(256).ilog2();
            let (group, groups) = (inputs / 2, 512 / inputs);
            let pairs: Vec<_> =
                (0..groups).flat_map(|b| (0..b).map(move |a| [a * group, b * group])).collect();
            let mut block = random((encoding, layout), inputs, 3 * pairs.len(), 1);
            for channel in 0..block.channels {
                for input in 0..inputs {
                    let at = block.position(channel, input, 0) * encoding.bytes();
                    let byte = pairs[channel / 3][input / group] + input % group;
                    block.bytes[at] = byte as u8;
                    if encoding == Encoding::Ci8 {
                        let turn = channel % 3;
                        block.bytes[at + 1] = (byte * (2 * turn + 1) + 85 * turn) as u8;
                    }
                }
            }
            backend.limit(&mut block);
            backend.judge(&block);
        }
    }
}

/// The largest magnitudes, over as many times as could overflow 32 bits.
fn extremes(backend: Backend) {
    for (encoding, bytes) in [
        (Encoding::Ci8, [0x80, 0x7f, 0x80]),
        (Encoding::Ci4, [0x88, 0x77, 0x88]),
        (Encoding::Ci4Offset, [0x00, 0xff, 0x00]),
    ] {
        if !backend.place.kernel.takes(encoding) {
            continue;
        }
        for (&times, layout) in backend.long_times.iter().zip(Layout::ALL.into_iter().cycle()) {
            let mut block = random((encoding, layout), 3, 1, times);
            for (input, byte) in bytes.into_iter().enumerate() {
                for time in 0..times {
                    let at = block.position(0, input, time) * encoding.bytes();
                    block.bytes[at..][..encoding.bytes()].fill(byte);
                }
            }
            backend.limit(&mut block);
            backend.judge(&block);
        }
    }
}

/// A stream cut anywhere gives the same dump; dumps start again from zero.
fn cuts_and_dumps(backend: Backend) {
    for format in backend.formats() {
        let block = backend.random(format, 5, 2, 150);
        let mut plan = backend.plan(&block);
        for cuts in [&[0, 0, 1, 64, 64, 131, 150][..], &[0, 63, 149, 150], &[0, 150]] {
            for cut in cuts.windows(2) {
                plan.accumulate(&block.cut(cut[0], cut[1]).bytes).unwrap();
                assert_eq!(plan.times(), cut[1] as u64);
            }
            let dump = plan.dump().unwrap();
            assert_eq!((plan.times(), dump.times), (0, 150));
            compare(&backend.what(&block), &dump, &oracle::correlate_block(&block));
        }
        for (from, to) in [(0, 50), (50, 51), (51, 51), (51, 150)] {
            let part = block.cut(from, to);
            plan.accumulate(&part.bytes).unwrap();
            let dump = plan.dump().unwrap();
            compare(&backend.what(&part), &dump, &oracle::correlate_block(&part));
        }
    }
}

/// Random rectangles of missing samples: some of all inputs and channels, some of a few.
fn rectangles(rng: &mut StdRng, block: &Block, from: usize, to: usize) -> Vec<Missing> {
    let mut range = |count: usize| {
        let start = rng.random_range(0..count);
        start..rng.random_range(start + 1..=count)
    };
    (0..8)
        .map(|kind| {
            let times = range(to - from);
            let times = times.start..times.end.min(times.start + 1 + times.start % 9);
            let missing = Missing::times(times);
            let missing =
                if kind % 2 == 0 { missing } else { missing.of_channels(range(block.channels)) };
            if kind % 4 == 0 { missing } else { missing.of_inputs(range(block.inputs)) }
        })
        .collect()
}

/// Missing samples, gates and time shifts, apart and together, on streams that are cut.
fn selections(backend: Backend) {
    const GATES: usize = 3;
    for (case, format) in backend.formats().enumerate() {
        let block = backend.random(format, 6, 2, 90);
        let mut rng = StdRng::seed_from_u64(case as u64);
        let cuts = [0, 1, 30, 31, 90];
        let missing: Vec<Vec<Missing>> = cuts
            .windows(2)
            .map(|cut| rectangles(&mut rng, &block, cut[0], cut[1]))
            .chain([Vec::new()])
            .collect();
        let is_missing = |channel: usize, input: usize, time: usize| {
            let part = cuts.iter().rposition(|&cut| cut <= time).unwrap();
            missing[part].iter().any(|missing| {
                missing.times.contains(&(time - cuts[part]))
                    && missing.channels.contains(&channel)
                    && missing.inputs.contains(&input)
            })
        };
        // Gate numbers of every channel; all channels take those of the first if they do not differ.
        let numbers: Vec<u8> = (0..block.channels * block.times)
            .map(|_| [0, 1, 2, DROP][rng.random_range(0..4)])
            .collect();
        // Relative to the least, which is negative every other time.
        let shifts = [0, 1, 7, 40, 200, 3].map(|shift: i64| shift - 5 * (case as i64 % 2));
        let least = shifts.into_iter().min().unwrap().min(0);
        let delays = shifts.map(|shift| (shift - least) as usize);

        let kinds = [
            (true, false, false, false),
            (false, true, false, false),
            (false, true, true, false),
            (false, false, false, true),
            (true, true, false, false),
            (true, true, true, false),
            (true, false, false, true),
            (true, true, false, true),
            (true, true, true, true),
        ];
        for (masked, gated, own, shifted) in tier::cases(backend.place.devices, &kinds, 2) {
            let number = |channel: usize, time: usize| {
                numbers[if own { channel * block.times + time } else { time }]
            };
            let is_in = |gate: usize, channel: usize, time: usize| {
                !gated || usize::from(number(channel, time)) == gate
            };
            let what = format!(
                "{}, missing {masked}, gates {gated} by channel {own}, shifts {shifted}",
                backend.what(&block)
            );
            let mut builder = backend.place.builder(&block);
            if gated {
                builder = builder.gates(GATES);
            }
            if shifted {
                builder = builder.shifts(&shifts);
            }
            let mut plan = builder.build().unwrap();
            let mut dumps = Vec::new();
            // Two rounds: what the delays hold belongs to the second.
            for round in 0..2 {
                for (index, cut) in cuts.windows(2).enumerate() {
                    let part = block.cut(cut[0], cut[1]);
                    let samples = view(&part);
                    let samples = if masked { samples.missing(&missing[index]) } else { samples };
                    if gated {
                        let channels = if own { block.channels } else { 1 };
                        let numbers: Vec<u8> = (0..channels)
                            .flat_map(|channel| {
                                (cut[0]..cut[1]).map(move |time| number(channel, time))
                            })
                            .collect();
                        let gates = Gates::by_channel(&numbers, channels).unwrap();
                        plan.accumulate_gated(samples, gates).unwrap();
                    } else {
                        plan.accumulate(samples).unwrap();
                    }
                }
                assert_eq!(plan.times(), block.times as u64);
                plan.dump_gates_into(&mut dumps).unwrap();
                assert_eq!(dumps.len(), if gated { GATES } else { 1 });

                for (gate, dump) in dumps.iter().enumerate() {
                    let times =
                        |channel| (0..block.times).filter(move |&time| is_in(gate, channel, time));
                    let most = (0..block.channels).map(|channel| times(channel).count()).max();
                    assert_eq!(dump.times, most.unwrap() as u64, "{what}");
                    let sample = |channel, input: usize, time: usize| {
                        if !is_in(gate, channel, time) {
                            return None;
                        }
                        let now = round * block.times + time;
                        let source = now.checked_sub(if shifted { delays[input] } else { 0 })?;
                        let time = source % block.times;
                        let there = !masked || !is_missing(channel, input, time);
                        there.then(|| block.sample(channel, input, time))
                    };
                    let all = 0..block.times;
                    let expected = oracle::correlate(block.inputs, block.channels, all, sample);
                    compare(&what, dump, &expected);
                }
            }
        }
    }
}

/// A view of a whole block.
fn view(block: &Block) -> Samples<'_> {
    let Block { inputs, channels, encoding, layout, .. } = *block;
    Samples::new(&block.bytes[..], inputs, channels, encoding, layout).unwrap()
}

/// Samples in any order and with anything between them, in host and in device memory, whole and cut out
/// of more, and some of them missing: the same answers, into dumps that are used again.
fn views(backend: Backend) {
    // One of several GPUs has the samples.
    let gpu = backend.place.devices().open().unwrap().pop();
    for (case, format) in backend.formats().enumerate() {
        let size = format.0.bytes();
        let whole = backend.random(format, 8, 4, 70);
        let mut rng = StdRng::seed_from_u64(case as u64);
        // Polarisations beside each other, antennas slowest, as GUPPI RAW has them; inputs the wrong way
        // for either layout; rows and planes with something between them, even and odd.
        let mut orders = [
            (0, [size * 2 * 70, size, size * 2]),
            (1, [size * 70 * 8, size, size * 8]),
            (2, [size * 80 * 9, size * 80, size]),
            (3, [size * 11, size, size * 11 * 5]),
        ];
        // Where only some are tested, every format has others.
        orders.rotate_left(case % 4);
        let mut dump = Dump::default();
        for (index, [channel, input, time]) in tier::cases(backend.place.devices, &orders, 1) {
            let input_stride = |n: usize| match index {
                0 => n / 2 * (4 * channel) + n % 2 * input,
                _ => n * input,
            };
            let mut bytes = vec![0x5a; 4 * size * 80 * 9 * 5];
            for c in 0..4 {
                for n in 0..8 {
                    for t in 0..70 {
                        let at = c * channel + input_stride(n) + t * time;
                        let from = whole.position(c, n, t) * size;
                        bytes[at..at + size].copy_from_slice(&whole.bytes[from..from + size]);
                    }
                }
            }
            // One antenna at a time of the first order, whose inputs are not equally far apart.
            let inputs = if index == 0 { 2 } else { 8 };
            for first in (0..8).step_by(inputs) {
                let extents = Extents { channels: 4, inputs, times: 70 };
                let strides = Strides { channel, input, time };
                let from = input_stride(first);
                let missing = rectangles(&mut rng, &whole, 0, 70);
                for (lossy, device) in [(false, false), (true, false), (false, true), (true, true)]
                {
                    let mut buffer = None;
                    let samples = match &gpu {
                        Some(gpu) if device => {
                            let buffer = buffer.insert(Buffer::new(gpu, bytes.len()).unwrap());
                            buffer.upload(Stream::default(), &bytes).unwrap();
                            let slice = buffer.slice().part(from..bytes.len());
                            Samples::strided(slice, format.0, extents, strides)
                        }
                        _ if device => continue,
                        _ => Samples::strided(&bytes[from..], format.0, extents, strides),
                    };
                    let samples = samples.unwrap();
                    let samples = if lossy { samples.missing(&missing) } else { samples };
                    let what = format!(
                        "{}: order {index} from input {first}, missing {lossy}, device {device}",
                        backend.what(&whole)
                    );
                    let part = Block { inputs, channels: 2, ..whole.clone() };
                    let mut plan = backend.plan(&part);
                    // Two channels of four, and times out of the middle.
                    plan.accumulate(samples.channels(1..3).times(2..9)).unwrap();
                    plan.accumulate(samples.times(9..69).channels(1..3)).unwrap();
                    plan.dump_into(&mut dump).unwrap();
                    let expected = oracle::correlate(inputs, 2, 2..69, |c, n, time| {
                        let lost = missing.iter().any(|missing| {
                            missing.times.contains(&time)
                                && missing.channels.contains(&(c + 1))
                                && missing.inputs.contains(&n)
                        });
                        (!lossy || !lost).then(|| whole.sample(c + 1, first + n, time))
                    });
                    compare(&what, &dump, &expected);
                }
            }
        }
    }
}

/// Samples that are in the GPU's memory, of several in that of one, where they lie and unpacked, on streams that take
/// turns; sums that are left there.
fn device_memory(backend: Backend) {
    let gpu = backend.place.devices().open().unwrap().pop().expect("a GPU");
    if backend.place.kernel.takes(Encoding::Cf16) {
        let mut plan = backend.plan(&random((Encoding::Cf16, Layout::Tcn), 1, 1, 1));
        // SAFETY: the address is refused before it is used.
        let slice = unsafe { DeviceSlice::from_raw(0x1002, 4, Stream::default()) };
        let samples = Samples::new(slice, 1, 1, Encoding::Cf16, Layout::Tcn).unwrap();
        let refused = plan.accumulate(samples);
        assert!(refused.unwrap_err().to_string().contains("0x1002: expected a multiple of 4"));
    }
    for format in backend.formats() {
        let inputs = backend.most_inputs_of(format).min(70);
        let block = backend.random(format, inputs, 2, 152);
        let mut plan = backend.place.builder(&block).gates(2).build().unwrap();
        let streams = [Stream::default(), gpu.create_stream().unwrap()];
        let expected = oracle::correlate_block(&block);
        let numbers = [1; 152];
        for on_device in [false, true] {
            let mut kept = Vec::new();
            for (part, cut) in [0, 64, 65, 152].windows(2).enumerate() {
                let part_block = block.cut(cut[0], cut[1]);
                let buffer = Buffer::new(&gpu, part_block.bytes.len()).unwrap();
                let stream = streams[part % 2];
                buffer.upload(stream, &part_block.bytes).unwrap();
                kept.push(buffer);
                let slice = kept[part].slice().on(stream);
                let samples = Samples::new(slice, inputs, 2, format.0, format.1).unwrap();
                plan.accumulate_gated(samples, &numbers[cut[0]..cut[1]]).unwrap();
            }
            if !on_device {
                compare(&backend.what(&block), &plan.dump_gates().unwrap()[1], &expected);
                continue;
            }
            let values = 2 * baselines(inputs);
            let mut room = Buffer::new(&gpu, 2 * values * 16).unwrap();
            let mut dump = Dump::default();
            let mut behind;
            if format.0 == Encoding::Cf16 {
                let mut room = Buffer::new(&gpu, 2 * values * 8).unwrap();
                behind = plan.dump_device(room.slice_mut::<Complex<f32>>()).unwrap();
                let mut sums = vec![Complex::<f32>::default(); 2 * values];
                room.download(Stream::default(), &mut sums).unwrap();
                assert!(sums[..values].iter().all(|sum| *sum == Complex::default()));
                let sums = Array2::from_shape_vec((2, baselines(inputs)), sums.split_off(values));
                dump.visibilities = Visibilities::Float(sums.unwrap());
            } else {
                let error =
                    plan.dump_device(Buffer::new(&gpu, 16).unwrap().slice_mut::<Complex<i64>>());
                let text = error.unwrap_err().to_string();
                assert!(
                    text.contains(&format!("1 visibilities: expected {}", 2 * values)),
                    "{text}"
                );
                behind = plan.dump_device(room.slice_mut::<Complex<i64>>()).unwrap();
                let mut sums = vec![Complex::<i64>::default(); 2 * values];
                room.download(Stream::default(), &mut sums).unwrap();
                assert!(sums[..values].iter().all(|sum| *sum == Complex::default()));
                let sums = Array2::from_shape_vec((2, baselines(inputs)), sums.split_off(values));
                dump.visibilities = Visibilities::Integer(sums.unwrap());
            }
            assert_eq!((behind[0].times, behind[1].times, plan.times()), (0, 152, 0));
            dump.valid = behind.remove(1).valid;
            compare(&backend.what(&block), &dump, &expected);
        }
    }
}

/// Encodings that a kernel of 4-bit samples does not take are refused at once, values beyond its bits when the
/// integration that holds one is dumped, and that one only.
fn too_many_bits(backend: Backend) {
    if backend.place.kernel.takes(Encoding::Ci8) {
        return;
    }
    for encoding in [Encoding::Ci8, Encoding::Cf16] {
        let builder = Correlator::builder(1, 1).encoding(encoding).device(backend.place.devices());
        let text = builder.kernel(backend.place.kernel).build().err().expect("refused").to_string();
        let expected =
            format!("{} with {encoding} samples: expected ci4 or ci4-offset", backend.place.kernel);
        assert!(text.contains(&expected), "{text}");
    }
    let block = backend.random((Encoding::Ci4, Layout::Tcn), 3, 2, 40);
    let mut plan = backend.plan(&block);
    if let Some(bits) = backend.place.kernel.value_bits() {
        let half = 1_u8 << (bits - 1);
        for bad in [half, half << 4, 16 - half - 1, (16 - half - 1) << 4] {
            let mut wrong = block.clone();
            let at = wrong.position(1, 2, 39);
            wrong.bytes[at] = bad;
            plan.accumulate(&wrong.bytes).unwrap();
            let text = plan.dump().unwrap_err().to_string();
            let bits = format!("of more than {bits} bit");
            assert!(text.contains(&bits), "{text}");
            let range = format!("expected values -{half} to {}", half - 1);
            assert!(text.contains(&range), "{text}");
            // Samples that a reset forgot do no harm.
            plan.accumulate(&wrong.bytes).unwrap();
            plan.reset();
        }
    }
    plan.accumulate(&block.bytes).unwrap();
    compare(&backend.what(&block), &plan.dump().unwrap(), &oracle::correlate_block(&block));
}

/// Stamps the suite for a backend.
macro_rules! conformance {
    (cpu $name:ident, $kernel:ident) => {
        mod $name {
            use super::{Backend, Kernel};

            const BACKEND: Backend = Backend::cpu(stringify!($name), Kernel::$kernel);

            conformance!(@tests sizes bytes extremes cuts_and_dumps selections views);
        }
    };
    (gpu $name:ident, $device:ident, $kernel:ident) => {
        mod $name {
            use super::{Backend, Kernel};

            const BACKEND: Backend = Backend::$device(stringify!($name), Kernel::$kernel);

            conformance!(
                @tests sizes bytes extremes cuts_and_dumps selections views device_memory too_many_bits
            );
        }
    };
    (split $name:ident, $devices:literal, $device:ident, $kernel:ident) => {
        mod $name {
            use super::{Backend, Kernel};

            const BACKEND: Backend =
                Backend::$device(stringify!($name), Kernel::$kernel).on($devices);

            conformance!(@tests sizes bytes cuts_and_dumps selections views device_memory);
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
conformance!(cpu cpu_avx_vnni, CpuAvxVnni);
conformance!(cpu cpu_avx512, CpuAvx512);
conformance!(cpu cpu_avx512_vnni, CpuAvx512Vnni);
conformance!(gpu sim_mma_128, sim, Mma128);
conformance!(gpu sim_mma_64, sim, Mma64);
conformance!(gpu sim_wgmma_192, sim, Wgmma192);
conformance!(gpu sim_wgmma_128, sim, Wgmma128);
conformance!(gpu sim_few, sim, Few);
conformance!(gpu sim_mma_s4, sim, MmaS4);
conformance!(gpu sim_wgmma_ci4, sim, WgmmaCi4);
conformance!(gpu sim_packed, sim, Packed);
conformance!(gpu sim_packed_signed, sim, PackedSigned);
conformance!(gpu sim_packed_complex, sim, PackedComplex);
conformance!(gpu sim_packed_complex_3, sim, PackedComplex3);
conformance!(gpu sim_packed_complex_2, sim, PackedComplex2);
conformance!(gpu sim_packed_complex_1, sim, PackedComplex1);
conformance!(split sim_two, "sim,sim", sim, Wgmma128);
conformance!(split sim_three, "sim,sim,sim", sim, Mma64);
conformance!(gpu cuda_mma_128, cuda, Mma128);
conformance!(gpu cuda_mma_64, cuda, Mma64);
conformance!(gpu cuda_wgmma_192, cuda, Wgmma192);
conformance!(gpu cuda_wgmma_128, cuda, Wgmma128);
conformance!(gpu cuda_few, cuda, Few);
conformance!(gpu cuda_mma_s4, cuda, MmaS4);
conformance!(gpu cuda_wgmma_ci4, cuda, WgmmaCi4);
conformance!(gpu cuda_packed, cuda, Packed);
conformance!(gpu cuda_packed_signed, cuda, PackedSigned);
conformance!(gpu cuda_packed_complex, cuda, PackedComplex);
conformance!(gpu cuda_packed_complex_3, cuda, PackedComplex3);
conformance!(gpu cuda_packed_complex_2, cuda, PackedComplex2);
conformance!(gpu cuda_packed_complex_1, cuda, PackedComplex1);
// A name of its own: it needs two GPUs.
conformance!(split two_cuda_auto, "cuda:0,cuda:1", cuda, Auto);

/// Samples of few bits as they were packed, with anything in the bits that no code has: what the kernel of as many bits
/// reads, and what others unpack.
fn packed_words(name: &'static str) {
    let mut rng = StdRng::seed_from_u64(35);
    for bits in 1..=4_u32 {
        let of_word = (32 / bits) as usize;
        let kernel: Kernel = match (name, bits) {
            ("cpu", _) => Kernel::Auto,
            (_, 4) => Kernel::PackedComplex,
            (_, 3) => Kernel::PackedComplex3,
            (_, 2) => Kernel::PackedComplex2,
            _ => Kernel::PackedComplex1,
        };
        let place = KernelOnDevices { name, devices: name, kernel };
        // One off the tiles, the words, and the times after which fields are split.
        for (inputs, channels, times) in [
            (1, 1, 1),
            (3, 2, of_word - 1),
            (2, 3, of_word),
            (PACKED_COMPLEX.inputs as usize - 1, 1, 2 * of_word + 1),
            (PACKED_COMPLEX.inputs as usize, 1, 121),
            (PACKED_COMPLEX.inputs as usize + 1, 2, 33),
            (2, 1, 1100),
        ] {
            let row = 2 * times.div_ceil(of_word);
            let words: Vec<u32> = (0..channels * inputs * row).map(|_| rng.random()).collect();
            let code = |row_of: usize, time: usize, part: usize| {
                let word = words[row_of * row + time / of_word * 2 + part];
                word / 2_u32.pow(bits * (time % of_word) as u32) % 2_u32.pow(bits)
            };
            let value = |row_of, time, part| {
                f64::from(code(row_of, time, part)) - f64::from(1 << (bits - 1))
            };
            let expected = oracle::correlate(inputs, channels, 0..times, |channel, input, time| {
                let row_of = channel * inputs + input;
                Some((value(row_of, time, 0), value(row_of, time, 1)))
            });
            let shape = Block {
                inputs,
                channels,
                times,
                encoding: Encoding::Ci4,
                layout: Layout::Cnt,
                bytes: Vec::new(),
            };
            if !place.is_there(&shape) {
                return;
            }
            let mut plan = place.builder(&shape).build().unwrap();
            let packed = Packed::new(&words, inputs, channels, times, bits).unwrap();
            let what =
                format!("{name}, {bits} bits, {inputs} inputs, {channels} channels, {times} times");
            for _ in 0..2 {
                plan.accumulate_packed(&packed).unwrap();
                compare(&what, &plan.dump().unwrap(), &expected);
            }
            // Twice into one dump, and once as samples of their own.
            plan.accumulate_packed(&packed).unwrap();
            let samples = packed.unpack().unwrap();
            plan.accumulate(&samples[..]).unwrap();
            let twice = plan.dump().unwrap();
            let sums = twice.visibilities.integer().unwrap();
            let first = sums[[channels - 1, baselines(inputs) - 1]];
            let last = &expected[channels - 1][baselines(inputs) - 1];
            assert_eq!(
                (first.re as f64, first.im as f64),
                (2.0 * last.re, 2.0 * last.im),
                "{what}"
            );
            let view =
                Samples::new(&samples[..], inputs, channels, Encoding::Ci4, Layout::Cnt).unwrap();
            let again = pack_rows(&view, bits).unwrap();
            let again = Packed::new(&again, inputs, channels, times, bits).unwrap();
            assert_eq!(again.unpack().unwrap(), samples, "{what}");
        }
    }
    let refused = Packed::new(&[0; 3], 1, 1, 5, 3).unwrap_err().to_string();
    assert!(refused.contains("3 words of 3-bit samples: expected 2"), "{refused}");
    assert!(Packed::new(&[0; 2], 1, 1, 5, 5).unwrap_err().to_string().contains("5 bits"));
    let samples = [0x70_u8];
    let view = Samples::new(&samples[..], 1, 1, Encoding::Ci4, Layout::Cnt).unwrap();
    assert!(pack_rows(&view, 3).unwrap_err().to_string().contains("a part of 7"));
}

#[test]
fn cpu_takes_packed_words() {
    packed_words("cpu");
}

#[test]
fn sim_takes_packed_words() {
    packed_words("sim");
}

#[test]
fn cuda_takes_packed_words() {
    packed_words("cuda");
}

/// Counts of the simulator for 64 inputs of 3 bits (GMRT's), in words, as native samples made of `ci4`, and as `ci8` of the
/// same values on tensor cores: instructions of warps for 960 time samples, and the bytes of device memory that kernels
/// read for 960 more.
#[test]
fn words_of_3_bits_take_fewer_bytes_and_instructions() {
    const TIMES: usize = 960;
    let (inputs, channels) = (64, 1);
    let mut rng = StdRng::seed_from_u64(3);
    let [less, more] = [1, 2].map(|part| {
        let times = part * TIMES;
        let words: Vec<u32> = (0..inputs * times / 5).map(|_| rng.random()).collect();
        let packed = Packed::new(&words, inputs, channels, times, 3).unwrap();
        let samples = packed.unpack().unwrap();
        let int8 = samples.iter().flat_map(|&byte| [byte as i8 >> 4, (byte << 4) as i8 >> 4]);
        let int8: Vec<i8> = int8.collect();
        let run = |encoding, kernel, work: &dyn Fn(&mut Correlator)| {
            let gpu = Arc::new(SimGpu::new());
            let plan = Correlator::builder(inputs, channels).encoding(encoding);
            let plan = plan.layout(Layout::Cnt).gpu(gpu.clone()).kernel(kernel);
            let mut plan = plan.build().unwrap();
            work(&mut plan);
            let dump = plan.dump().unwrap();
            let reports = abi::ENTRIES.iter().filter_map(|entry| gpu.report(entry));
            let counts = reports.map(|report| {
                let read = [Class::GlobalLoad, Class::AsyncCopy].map(|of| report.class(of).bytes);
                [report.total().warps, read.iter().sum()]
            });
            let sums = counts.fold([0, 0], |[a, b], [c, d]: [u64; 2]| [a + c, b + d]);
            (sums, dump.visibilities)
        };
        let few = Kernel::PackedComplex3;
        let (in_words, sums) =
            run(Encoding::Ci4, few, &|plan| plan.accumulate_packed(&packed).unwrap());
        let (in_ci4, same) =
            run(Encoding::Ci4, few, &|plan| plan.accumulate(&samples[..]).unwrap());
        assert_eq!(sums, same);
        let (in_ci8, same) =
            run(Encoding::Ci8, Kernel::Auto, &|plan| plan.accumulate(&int8[..]).unwrap());
        assert_eq!(sums, same);
        [in_words, in_ci4, in_ci8]
    });
    println!("words, ci4, ci8: instructions of warps, bytes read: {less:?}, {more:?}");
    assert!(less[0][0] < less[1][0], "{less:?}");
    let read = [0, 1, 2].map(|way| more[way][1] - less[way][1]);
    // Each word is read for rows, for columns and for the sums of codes, and lies in memory once; of `ci8` each sample is
    // read once.
    let [words, ci8] = [4 * inputs * TIMES / 5, 2 * inputs * TIMES].map(|bytes| bytes as u64);
    assert_eq!((read[0], read[2]), (3 * words, ci8));
    assert!(2 * read[0] < read[1] && 5 * words == 2 * ci8, "{read:?}");
}

/// Samples in the order of the Tensor-Core Correlator, `[channel][time / B][input][time % B]` in blocks of 32 bytes, from
/// host and device memory: in two calls, with gaps across blocks, and gates.
fn time_blocks(name: &'static str) {
    for encoding in Encoding::BYTE_ALIGNED {
        let block_times = 32 / encoding.bytes();
        for (inputs, channels) in [(3, 2), (70, 1), (129, 2)] {
            let block = random((encoding, Layout::Cnt), inputs, channels, 5 * block_times);
            let place = KernelOnDevices { name, devices: name, kernel: Kernel::Auto };
            if !place.is_there(&block) {
                return;
            }
            let lost = Missing::times(block_times - 1..2 * block_times + 2).of_inputs(1..2);
            let gates: Vec<u8> = (0..block.times).map(|time| [0, 1, DROP][time % 3]).collect();
            let mut plan = place.builder(&block).gates(2).build().unwrap();
            let gpu = plan.gpu().cloned();
            for on_device in [false, true] {
                for (from, to) in [(0, 2), (2, 5)] {
                    let bytes = in_time_blocks(&block, block_times, from..to);
                    let (first, end) = (from * block_times, to * block_times);
                    let missing = Missing {
                        times: lost.times.start.saturating_sub(first)
                            ..lost.times.end.saturating_sub(first),
                        ..lost.clone()
                    };
                    let buffer = gpu.as_ref().filter(|_| on_device).map(|gpu| {
                        let buffer = Buffer::new(gpu, bytes.len()).unwrap();
                        buffer.upload(Stream::default(), &bytes).unwrap();
                        buffer
                    });
                    let memory: Memory<'_> = match &buffer {
                        Some(buffer) => buffer.slice::<u8>().into(),
                        None => bytes.as_slice().into(),
                    };
                    let blocks = TimeBlocks::new(memory, inputs, channels, encoding).unwrap();
                    plan.accumulate_blocks(&blocks, &[missing], Some(&gates[first..end])).unwrap();
                    plan.wait().unwrap();
                }
                for (gate, dump) in plan.dump_gates().unwrap().iter().enumerate() {
                    let times = (0..block.times).filter(|time| time % 3 == gate);
                    let expected =
                        oracle::correlate(inputs, channels, times, |channel, input, time| {
                            let lost = lost.times.contains(&time) && lost.inputs.contains(&input);
                            (!lost).then(|| block.sample(channel, input, time))
                        });
                    let what = format!(
                        "{name}, {encoding}, N = {inputs}, on device: {on_device}, gate {gate}"
                    );
                    compare(&what, dump, &expected);
                }
            }
        }
    }
}

/// Bytes of the blocks `blocks` of a block's samples, `[channel][block][input][time of the block]`.
fn in_time_blocks(block: &Block, block_times: usize, blocks: Range<usize>) -> Vec<u8> {
    let size = block.encoding.bytes();
    let mut bytes = Vec::new();
    for channel in 0..block.channels {
        for number in blocks.clone() {
            for input in 0..block.inputs {
                for time in 0..block_times {
                    let place = block.position(channel, input, number * block_times + time) * size;
                    bytes.extend(&block.bytes[place..place + size]);
                }
            }
        }
    }
    bytes
}

#[test]
fn cpu_takes_blocks_of_times() {
    time_blocks("cpu");
}

#[test]
fn sim_takes_blocks_of_times() {
    time_blocks("sim");
}

#[test]
fn cuda_takes_blocks_of_times() {
    time_blocks("cuda");
}
