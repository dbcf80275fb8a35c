//! Correlation of bits, 128 times in a word: on every backend what plain loops over times give.
//!
//! A backend that is not there is skipped, saying so, as in `conformance`.

use backend::{KernelOnDevices, compare};
use corrust_gpu::abi::correlate::{LAUNCH_WORDS, STEP_BYTES, TILE_64, TILE_128, TILE_128_192};
use corrust_host::{
    Correlator, Devices, Encoding, Layout,
    correlate::{DROP, Dump, Kernel, Visibilities, baselines},
    device::{Buffer, Stream},
    samples::{Extents, Missing, Samples, Strides},
};
use ndarray::Array2;
use num_complex::Complex;
use oracle::Block;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{backend, oracle::correlate as oracle};

/// Times, and bytes, of a word.
const WORD: usize = 128;
const BYTES: usize = 32;

/// Words of a step.
const STEP: usize = STEP_BYTES as usize / BYTES;

/// A backend, and samples of one bit or two.
#[derive(Clone, Copy)]
struct Backend {
    place: KernelOnDevices,
    encoding: Encoding,
}

/// Around the edges of the tiles of the CPU and of GPUs.
const INPUTS: &[usize] = &[
    1,
    2,
    3,
    TILE_64.rows as usize - 1,
    TILE_64.rows as usize,
    TILE_64.rows as usize + 1,
    TILE_128.rows as usize - 1,
    TILE_128.rows as usize,
    TILE_128.rows as usize + 1,
    TILE_128_192.columns as usize - 1,
    TILE_128_192.columns as usize,
    TILE_128_192.columns as usize + 1,
    2 * TILE_128.rows as usize + 1,
    2 * TILE_128_192.columns as usize + 1,
];

/// Around the edges of words, of steps, of the stages in flight, and of what the CPU counts at once.
const TIMES: &[usize] = &[
    1,
    WORD - 1,
    WORD,
    WORD + 1,
    2 * WORD,
    2 * WORD + 1,
    STEP * WORD - 1,
    STEP * WORD,
    (STEP + 1) * WORD,
    (4 * STEP + 3) * WORD + 77,
    63 * WORD,
    64 * WORD,
    65 * WORD,
    129 * WORD,
];

impl Backend {
    fn is_there(&self) -> bool {
        self.place.is_there(&self.random(1, 1, 1))
    }

    fn random(&self, inputs: usize, channels: usize, times: usize) -> Block {
        random(self.encoding, inputs, channels, times)
    }

    fn what(&self, block: &Block) -> String {
        let Block { inputs, channels, times, .. } = block;
        format!("{}: N = {inputs}, C = {channels}, T = {times}", self.place.name)
    }

    /// Correlates a block in one go and compares.
    fn judge(&self, block: &Block) {
        let mut plan = self.place.builder(block).build().expect("the shape is legal");
        plan.accumulate(view(block)).unwrap();
        assert_eq!(plan.times(), block.times as u64);
        compare(&self.what(block), &plan.dump().unwrap(), &oracle::correlate_block(block));
    }
}

/// Random words, of which the last may hold fewer times: what it has beyond them is random, too.
fn random(encoding: Encoding, inputs: usize, channels: usize, times: usize) -> Block {
    let mut rng = StdRng::seed_from_u64((inputs << 40 | channels << 32 | times) as u64);
    let bytes = inputs * planes(encoding) * channels * times.div_ceil(WORD) * BYTES;
    let bytes = (0..bytes).map(|_| rng.random()).collect();
    Block { inputs, channels, times, encoding, layout: Layout::Cnt, bytes }
}

/// Rows of an input.
fn planes(encoding: Encoding) -> usize {
    if encoding == Encoding::B2 { 2 } else { 1 }
}

/// A view of a whole block.
fn view(block: &Block) -> Samples<'_> {
    let Block { inputs, channels, times, encoding, .. } = *block;
    let samples = Samples::new(&block.bytes[..], inputs, channels, encoding, Layout::Cnt);
    samples.unwrap().times(0..times)
}

/// Every number of inputs, with a few times; every number of times, with a few inputs.
fn sizes(backend: Backend) {
    for (case, &inputs) in INPUTS.iter().enumerate() {
        let times = [WORD, 3 * WORD, 2 * WORD + 9][case % 3];
        backend.judge(&backend.random(inputs, [1, 3][case % 2], times));
    }
    for (case, &times) in TIMES.iter().enumerate() {
        backend.judge(&backend.random([5, 2, 16][case % 3], [3, 1][case % 2], times));
    }
}

/// Every pattern of the bits of two inputs at two times, each in a channel of its own: alone, and as often as
/// a word has room for.
fn patterns(backend: Backend) {
    for times in [2, WORD, 3 * WORD] {
        // Two-bit samples, at one time.
        let mut block = backend.random(2, 256, times);
        let half = block.bytes.len() / 512 / 2;
        for (index, bytes) in block.bytes.chunks_mut(16).enumerate() {
            let (pattern, row) = (index / (4 * half / 16), index % (4 * half / 16) * 16);
            let (input, at) = (row / (2 * half), row % (2 * half));
            let part = at / 16 % 2;
            bytes.fill(if backend.encoding == Encoding::B2 {
                let bit = pattern >> (4 * input + 2 * (at / half) + part) & 1;
                bit as u8 * 0xff
            } else {
                (pattern >> (4 * input + 2 * part) & 3) as u8 * 0x55
            });
        }
        backend.judge(&block);
    }
}

/// Streams are cut into whole words anywhere; dumps start again from zero.
fn cuts_and_dumps(backend: Backend) {
    let block = backend.random(5, 2, 9 * WORD + 40);
    let expected = oracle::correlate_block(&block);
    let mut plan = backend.place.builder(&block).build().unwrap();
    let whole = view(&block);
    for cuts in [&[0, 0, 1, 4, 4, 9, 10][..], &[0, 10, 10]] {
        for cut in cuts.windows(2) {
            let [first, end] = [cut[0], cut[1]].map(|word| block.times.min(word * WORD));
            plan.accumulate(whole.times(first..end)).unwrap();
            assert_eq!(plan.times(), end as u64);
        }
        let dump = plan.dump().unwrap();
        assert_eq!((plan.times(), dump.times), (0, block.times as u64));
        compare(&backend.what(&block), &dump, &expected);
        plan.accumulate(whole).unwrap();
        plan.reset();
    }
}

/// Random rectangles of missing samples within `times`: some of whole words, some of all inputs and channels.
fn rectangles(rng: &mut StdRng, block: &Block, times: usize) -> Vec<Missing> {
    let mut range = |count: usize| {
        let start = rng.random_range(0..count);
        start..rng.random_range(start + 1..=count)
    };
    (0..6)
        .map(|kind| {
            let std::ops::Range { start, end } = range(times);
            let missing = match kind {
                0..4 => {
                    let word = start / WORD * WORD;
                    Missing::times(word..times.min(word + WORD * (1 + kind % 2)))
                }
                _ => Missing::times(start..end.min(start + 2 * WORD)),
            };
            let missing =
                if kind % 2 == 0 { missing } else { missing.of_channels(range(block.channels)) };
            if kind % 4 == 0 { missing } else { missing.of_inputs(range(block.inputs)) }
        })
        .collect()
}

/// Missing samples, gates that cut words and gates that do not, and time shifts, apart and together.
fn selections(backend: Backend) {
    const GATES: usize = 3;
    let block = backend.random(6, 2, 11 * WORD + 5);
    let mut rng = StdRng::seed_from_u64(1);
    let cuts = [0, WORD, 7 * WORD, block.times];
    let missing: Vec<_> =
        cuts.windows(2).map(|cut| rectangles(&mut rng, &block, cut[1] - cut[0])).collect();
    let is_missing = |channel: usize, input: usize, time: usize| {
        let part = cuts.iter().rposition(|&cut| cut <= time).unwrap();
        missing[part].iter().any(|missing| {
            missing.times.contains(&(time - cuts[part]))
                && missing.channels.contains(&channel)
                && missing.inputs.contains(&input)
        })
    };
    // Some words are of one gate, some of several.
    let mut numbers = vec![0; block.times];
    for word in numbers.chunks_mut(WORD) {
        let mut one = || [0, 1, 2, DROP][rng.random_range(0..4)];
        let gate = one();
        let split = if gate == 1 { WORD / 2 } else { 0 };
        for (time, number) in word.iter_mut().enumerate() {
            *number = if time < split { one() } else { gate };
        }
    }
    let shifts = [0, 1, 7, 200, 1000, 3];
    for case in 1..8 {
        let [masked, gated, shifted] = [1, 2, 4].map(|bit| case & bit > 0);
        let what =
            format!("{}, missing {masked}, gates {gated}, shifts {shifted}", backend.what(&block));
        let mut builder = backend.place.builder(&block);
        if gated {
            builder = builder.gates(GATES);
        }
        if shifted {
            builder = builder.shifts(&shifts);
        }
        let mut plan = builder.build().unwrap();
        for (round, cut) in [(0, 0), (1, 0), (1, 1), (1, 2)] {
            // The first round is the first part alone, twice dumped.
            let cuts = if round == 0 { &cuts[..2] } else { &cuts[cut..cut + 2] };
            let words = view(&block).times(cuts[0]..cuts[1]);
            let samples = if masked { words.missing(&missing[cut]) } else { words };
            if gated {
                plan.accumulate_gated(samples, &numbers[cuts[0]..cuts[1]]).unwrap();
            } else {
                plan.accumulate(samples).unwrap();
            }
            if round == 0 {
                plan.dump_gates().unwrap();
            }
        }
        let dumps = plan.dump_gates().unwrap();
        assert_eq!(dumps.len(), if gated { GATES } else { 1 });
        for (gate, dump) in dumps.iter().enumerate() {
            let times =
                (0..block.times).filter(|&time| !gated || usize::from(numbers[time]) == gate);
            assert_eq!(dump.times, times.clone().count() as u64, "{what}");
            let sample = |channel, input: usize, time: usize| {
                // The first word has been fed twice.
                let now = time + WORD;
                let source = now.checked_sub(if shifted { shifts[input] } else { 0 })?;
                let time = if source < WORD { source } else { source - WORD };
                let there = !masked || !is_missing(channel, input, time);
                there.then(|| block.sample(channel, input, time))
            };
            let expected = oracle::correlate(block.inputs, block.channels, times, sample);
            compare(&what, dump, &expected);
        }
    }
}

/// Words with anything between them, in host and in device memory, and some of them missing.
fn views(backend: Backend) {
    let gpu = backend.place.devices().open().unwrap().pop();
    let block = backend.random(8 / planes(backend.encoding), 4, 10 * WORD);
    let mut rng = StdRng::seed_from_u64(2);
    // As they are; rows with something between them, in steps that kernels take and in others; inputs the
    // wrong way.
    let orders = [
        [8 * 10 * BYTES, 10 * BYTES, BYTES],
        [8 * 12 * BYTES, 12 * BYTES, BYTES],
        [8 * (10 * BYTES + 8), 10 * BYTES + 8, BYTES],
        [10 * 8 * BYTES, BYTES, 8 * BYTES],
    ];
    for [channel, input, time] in orders {
        let mut bytes = vec![0x5a; 4 * 8 * 12 * BYTES];
        for (row, words) in block.bytes.chunks(10 * BYTES).enumerate() {
            for (word, from) in words.chunks(BYTES).enumerate() {
                let at = row / 8 * channel + row % 8 * input + word * time;
                bytes[at..at + BYTES].copy_from_slice(from);
            }
        }
        let extents = Extents { channels: 4, inputs: block.inputs, times: 10 * WORD };
        let strides = Strides { channel, input: planes(block.encoding) * input, time };
        let missing = rectangles(&mut rng, &block, 10 * WORD);
        for (lossy, device) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut buffer = None;
            let samples = match &gpu {
                Some(gpu) if device => {
                    let buffer = buffer.insert(Buffer::new(gpu, bytes.len()).unwrap());
                    buffer.upload(Stream::default(), &bytes).unwrap();
                    Samples::strided(buffer.slice(), block.encoding, extents, strides)
                }
                _ if device => continue,
                _ => Samples::strided(&bytes[..], block.encoding, extents, strides),
            };
            let samples = samples.unwrap();
            let samples = if lossy { samples.missing(&missing) } else { samples };
            let part = Block { channels: 2, ..block.clone() };
            let mut plan = backend.place.builder(&part).build().unwrap();
            plan.accumulate(samples.channels(1..3).times(2 * WORD..9 * WORD)).unwrap();
            let expected = oracle::correlate(block.inputs, 2, 2 * WORD..9 * WORD, |c, n, time| {
                let lost = missing.iter().any(|missing| {
                    missing.times.contains(&time)
                        && missing.channels.contains(&(c + 1))
                        && missing.inputs.contains(&n)
                });
                (!lossy || !lost).then(|| block.sample(c + 1, n, time))
            });
            let what = format!("{}: strides {strides:?}, missing {lossy}", backend.what(&block));
            compare(&what, &plan.dump().unwrap(), &expected);
        }
    }
}

/// Sums that are left in the GPU's memory: of whole words, of others, and of none.
fn device_memory(backend: Backend) {
    let gpu = backend.place.devices().open().unwrap().pop().expect("a GPU");
    let block = backend.random(70, 2, 6 * WORD + 3);
    let mut plan = backend.place.builder(&block).gates(3).build().unwrap();
    let numbers: Vec<u8> = (0..block.times).map(|time| u8::from(time >= WORD / 2)).collect();
    let buffer = Buffer::new(&gpu, block.bytes.len()).unwrap();
    buffer.upload(Stream::default(), &block.bytes).unwrap();
    let samples = Samples::new(buffer.slice(), 70, 2, block.encoding, Layout::Cnt).unwrap();
    plan.accumulate_gated(samples.times(0..block.times), &numbers).unwrap();
    let values = 2 * baselines(70);
    let mut room = Buffer::new(&gpu, 3 * values * 16).unwrap();
    let behind = plan.dump_device(room.slice_mut::<Complex<i64>>()).unwrap();
    let mut sums = vec![Complex::<i64>::default(); 3 * values];
    room.download(Stream::default(), &mut sums).unwrap();
    for (gate, behind) in behind.into_iter().enumerate() {
        let times = (0..block.times).filter(|&time| usize::from(numbers[time]) == gate);
        let expected = oracle::correlate(70, 2, times, |c, n, t| Some(block.sample(c, n, t)));
        let sums = sums[gate * values..(gate + 1) * values].to_vec();
        let sums = Array2::from_shape_vec((2, baselines(70)), sums).unwrap();
        let dump = Dump {
            visibilities: Visibilities::Integer(sums),
            valid: behind.valid,
            times: behind.times,
        };
        compare(&backend.what(&block), &dump, &expected);
    }
}

/// As many words as make counts that 32 bits do not hold.
fn long(backend: Backend) {
    let words = LAUNCH_WORDS as usize + 3;
    // Always 1 + i, always -1 + i, and i and -i in turns with real parts of 1.
    let mut bytes = vec![0xff_u8; 3 * words * BYTES];
    for word in bytes[words * BYTES..].chunks_exact_mut(BYTES).take(words) {
        word[..16].fill(0);
    }
    for word in bytes[2 * words * BYTES..].chunks_exact_mut(BYTES) {
        word[16..].fill(0x55);
    }
    let times = words * WORD;
    let block = Block { bytes: Vec::new(), ..random(Encoding::B1, 3, 1, 0) };
    let mut plan = backend.place.builder(&block).build().unwrap();
    plan.accumulate(&bytes).unwrap();
    plan.accumulate(&bytes).unwrap();
    let dump = plan.dump().unwrap();
    assert_eq!(dump.times, 2 * times as u64);
    let sums = dump.visibilities.integer().unwrap();
    let expected = [(2, 0), (0, 2), (2, 0), (1, -1), (-1, -1), (2, 0)];
    for (found, (re, im)) in sums.iter().zip(expected) {
        let times = 2 * times as i64;
        assert_eq!((found.re, found.im), (re * times, im * times), "{}", backend.place.name);
    }
}

macro_rules! bits {
    ($name:ident, $devices:literal, $kernel:ident $encoding:ident: $($test:ident)*) => {
        mod $name {
            use super::{Backend, Encoding, Kernel, KernelOnDevices};

            const BACKEND: Backend = Backend {
                place: KernelOnDevices {
                    name: stringify!($name),
                    devices: $devices,
                    kernel: Kernel::$kernel,
                },
                encoding: Encoding::$encoding,
            };

            $(
                #[test]
                fn $test() {
                    if BACKEND.is_there() {
                        super::$test(BACKEND);
                    }
                }
            )*
        }
    };
}

bits!(cpu_portable_b1, "cpu", CpuPortable B1: sizes patterns cuts_and_dumps selections views);
bits!(cpu_avx2_b1, "cpu", CpuAvx2 B1: sizes patterns cuts_and_dumps selections views);
bits!(cpu_auto_b1, "cpu", Auto B1: sizes patterns cuts_and_dumps selections views long);
bits!(cpu_auto_b2, "cpu", Auto B2: sizes patterns cuts_and_dumps selections views);
bits!(sim_mma_128_b1, "sim", Mma128 B1:
    sizes patterns cuts_and_dumps selections views device_memory);
bits!(sim_mma_64_b1, "sim", Mma64 B1:
    sizes patterns cuts_and_dumps selections views device_memory);
bits!(sim_wgmma_192_b1, "sim", Wgmma192 B1:
    sizes patterns cuts_and_dumps selections views device_memory);
bits!(sim_wgmma_128_b1, "sim", Wgmma128 B1:
    sizes patterns cuts_and_dumps selections views device_memory);
bits!(sim_mma_64_b2, "sim", Mma64 B2:
    sizes patterns cuts_and_dumps selections views device_memory);
bits!(sim_wgmma_128_b2, "sim", Wgmma128 B2:
    sizes patterns cuts_and_dumps selections views device_memory);
bits!(sim_two_b1, "sim,sim", Auto B1: patterns cuts_and_dumps selections views device_memory);
bits!(sim_three_b2, "sim,sim,sim", Auto B2: patterns cuts_and_dumps selections views device_memory);
bits!(cuda_mma_128_b1, "cuda", Mma128 B1:
    sizes patterns cuts_and_dumps selections views device_memory long);
bits!(cuda_mma_128_b2, "cuda", Mma128 B2:
    sizes patterns cuts_and_dumps selections views device_memory);
bits!(cuda_mma_64_b1, "cuda", Mma64 B1:
    sizes patterns cuts_and_dumps selections views device_memory long);
bits!(cuda_mma_64_b2, "cuda", Mma64 B2:
    sizes patterns cuts_and_dumps selections views device_memory);
bits!(cuda_wgmma_192_b1, "cuda", Wgmma192 B1:
    sizes patterns cuts_and_dumps selections views device_memory long);
bits!(cuda_wgmma_192_b2, "cuda", Wgmma192 B2:
    sizes patterns cuts_and_dumps selections views device_memory);
bits!(cuda_wgmma_128_b1, "cuda", Wgmma128 B1:
    sizes patterns cuts_and_dumps selections views device_memory long);
bits!(cuda_wgmma_128_b2, "cuda", Wgmma128 B2:
    sizes patterns cuts_and_dumps selections views device_memory);

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let builder = || Correlator::builder(2, 1).encoding(Encoding::B1).layout(Layout::Cnt);
    let refused =
        |result: corrust_host::Result<Correlator>| result.err().expect("refused").to_string();
    let text =
        refused(builder().layout(Layout::Tcn).device("cpu".parse::<Devices>().unwrap()).build());
    assert!(text.contains("layout tcn of b1 samples: expected cnt"), "{text}");
    let sim = "sim".parse::<Devices>().unwrap();
    let text = refused(builder().device(sim).kernel(Kernel::Packed).build());
    assert!(text.contains("kernel packed with b1 samples: expected ci4 or ci4-offset"), "{text}");
    let mut plan = builder().device("cpu".parse::<Devices>().unwrap()).build().unwrap();
    let text = plan.accumulate(&[0_u8; 96]).unwrap_err().to_string();
    assert!(text.contains("96 bytes of samples: expected a multiple of 64"), "{text}");
    let words = [0_u8; 128];
    let samples = Samples::new(&words[..], 2, 1, Encoding::B1, Layout::Cnt).unwrap();
    assert_eq!(samples.extents().times, 256);
    let text = plan.accumulate_gated(samples, &[0; 2]).unwrap_err().to_string();
    assert!(text.contains("2 gate numbers: expected 256"), "{text}");
}
