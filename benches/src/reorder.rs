//! Cases of the corner turns and of unpacking: native rows of about as many samples whatever the number
//! of inputs. Then the other kernels on samples' way: padding, delays, sums of the spectral kurtosis, the
//! quantiser.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use corrust_gpu::abi::{
    kurtosis::{MOMENTS, MOMENTS_ALONG_TIME},
    reorder::{PAD_ROWS, PadRows, QUANTISE},
};
use corrust_host::{
    Device, Encoding, Layout, Result,
    device::{Buffer, DeviceSlice, Gpu, Stream},
    kurtosis::{self, Kurtosis},
    quantise::{self, Quantiser},
    reorder::{Native, ToNative, ToPlanes},
    samples::Samples,
    shift::{self, Window},
};
use num_complex::Complex;
use rayon::prelude::*;

use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, Work},
    data::{Ring, random_bytes},
};

/// Inputs at which corner turns run for longer: power depends little on their number.
const SUSTAINED: usize = 256;
/// Channels times inputs.
const ROWS: usize = 40960;

/// Sizes to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Encodings of the samples.
    pub encodings: Vec<Encoding>,
    /// Numbers of inputs.
    pub inputs: Vec<usize>,
    /// Times.
    pub times: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            encodings: vec![Encoding::Ci8, Encoding::Ci4, Encoding::Cf16],
            inputs: vec![16, 256, 2048],
            times: 3072,
        }
    }
}

/// The cases of some options; none without a GPU, as the CPU reads samples where they lie.
pub fn cases(options: &Options, place: &BenchDevice) -> Vec<Box<dyn Case>> {
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    if place.gpu.is_none() {
        return cases;
    }
    let rows = if place.simulated() { 64 } else { ROWS };
    // Words of bits are native as they are.
    for &encoding in options.encodings.iter().filter(|encoding| !encoding.is_bits()) {
        for &inputs in &options.inputs {
            let channels = (rows / inputs).max(1);
            let times = options.times;
            // 4-bit samples are unpacked, or left for kernels that do it themselves.
            let nibbles = matches!(encoding, Encoding::Ci4 | Encoding::Ci4Offset);
            let forms = [Native::of(encoding), Native::Nibbles];
            for &form in &forms[..1 + usize::from(nibbles)] {
                let turn = |layout| CornerTurn { encoding, form, layout, inputs, channels, times };
                cases.push(Box::new(turn(Layout::Tcn)));
                if Some(&inputs) == options.inputs.last() {
                    cases.push(Box::new(turn(Layout::Cnt)));
                }
            }
        }
    }
    cases.push(Box::new(Padding { rows: 16 * rows, row_bytes: 510 }));
    if let Some(&inputs) = options.inputs.last() {
        let (channels, times) = ((rows / inputs).max(1), 2 * options.times);
        for layout in [Layout::Cnt, Layout::Tcn] {
            for largest in [0, 16, 64, 248, 896, 4096].into_iter().filter(|&most| most < times) {
                cases.push(Box::new(Delays { layout, inputs, channels, times, largest }));
            }
        }
    }
    if let Some(&inputs) = options.inputs.last() {
        let (channels, times) = ((rows / inputs).max(1), options.times);
        for layout in [Layout::Tcn, Layout::Cnt] {
            for bits in [1, 2] {
                cases.push(Box::new(PlaneTurn { bits, layout, inputs, channels, times }));
            }
        }
    }
    if let Some(&inputs) = options.inputs.last() {
        let (channels, times) = ((rows / inputs).max(1), options.times);
        for encoding in [Encoding::Ci8, Encoding::Ci4] {
            for layout in [Layout::Tcn, Layout::Cnt] {
                cases.push(Box::new(Moments { encoding, layout, inputs, channels, times }));
            }
        }
    }
    let count = rows * options.times / 4;
    cases.extend((1..=4).map(|bits| Box::new(Quantising { bits, count }) as Box<dyn Case>));
    cases
}

/// Samples of a number of channels, inputs and times in memory that the case keeps.
fn placed(
    address: u64,
    encoding: Encoding,
    layout: Layout,
    [channels, inputs, times]: [usize; 3],
) -> Result<Samples<'static>> {
    let bytes = channels * inputs * times * encoding.bytes();
    // SAFETY: places of rings and buffers live as long as their case's subjects.
    let slice = unsafe { DeviceSlice::from_raw(address, bytes, Stream::default()) };
    Samples::new(slice, inputs, channels, encoding, layout)
}

struct CornerTurn {
    encoding: Encoding,
    form: Native,
    layout: Layout,
    inputs: usize,
    channels: usize,
    times: usize,
}

impl Case for CornerTurn {
    fn system(&self) -> &'static str {
        "reorder"
    }

    fn label(&self) -> String {
        let Self { encoding, form, layout, inputs, channels, times } = self;
        let form = if *form == Native::Nibbles { ", packed" } else { "" };
        format!("{encoding} {layout}{form}, N {inputs}, C {channels}, T {times}")
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.inputs, self.channels, self.times].map(|size| size as u64);
        ["N", "C", "T"].into_iter().zip(sizes).collect()
    }

    fn encoding(&self) -> String {
        self.encoding.to_string()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let Self { encoding, form, layout, inputs, channels, times } = *self;
        let rows = inputs * channels;
        let samples = place.random_bytes(rows * times * encoding.bytes());
        // Room for one more sample, so that padding is checked to be zero.
        let row_bytes = ((times + 1) * form.bytes()).next_multiple_of(16);
        let expected: Rc<[u8]> = place.expected(|| Ok(self.expected(&samples, row_bytes)))?.into();
        let source = Rc::new(Ring::new(gpu, &samples)?);
        let native = Rc::new(Ring::empty(gpu, rows * row_bytes)?);
        let delivered = move |address| placed(address, encoding, layout, [channels, inputs, times]);
        let way = ToNative {
            samples: delivered(source.next())?,
            layout,
            form,
            native: native.next(),
            row_bytes,
        };
        let input = samples.len() as f64;
        let output = (rows * times * form.bytes()) as f64;
        let kernels = way.kernels().into_iter().enumerate();
        let subjects = kernels.map(|(index, kernel)| {
            let launch = {
                let gpu = gpu.clone();
                move |source: u64, native: u64| {
                    let way = ToNative { samples: delivered(source)?, native, ..way };
                    // SAFETY: places of the rings are of the samples' sizes.
                    unsafe { way.kernels()[index].launch(&gpu, Stream::default()) }
                }
            };
            let moving = Moving {
                gpu: gpu.clone(),
                rings: (source.clone(), native.clone()),
                launch: Box::new(launch),
                expected: expected.clone(),
            };
            let items = ((rows * times) as f64, "samples");
            Subject {
                auto: index == 0,
                sustain: index == 0 && (inputs == SUSTAINED || layout == Layout::Cnt),
                ..moving.subject(&kernel.name(), input + output, items)
            }
        });
        Ok(subjects.collect())
    }
}

impl CornerTurn {
    /// Native rows, sample by sample.
    fn expected(&self, samples: &[u8], row_bytes: usize) -> Vec<u8> {
        let Self { encoding, form, layout, inputs, channels, times } = *self;
        let bytes = encoding.bytes();
        let mut native = vec![0; channels * inputs * row_bytes];
        native.par_chunks_exact_mut(row_bytes).enumerate().for_each(|(row, to)| {
            for (time, to) in to.chunks_exact_mut(form.bytes()).take(times).enumerate() {
                let index = match layout {
                    // Rows are [channel][input].
                    Layout::Tcn => time * channels * inputs + row,
                    Layout::Cnt => row * times + time,
                };
                let sample = &samples[index * bytes..][..bytes];
                match encoding {
                    Encoding::Ci4 if form == Native::Nibbles => to[0] = sample[0],
                    Encoding::Ci4Offset if form == Native::Nibbles => to[0] = sample[0] ^ 0x88,
                    Encoding::Ci8 | Encoding::Cf16 => to.copy_from_slice(sample),
                    Encoding::Ci4 => {
                        to[0] = (sample[0] as i8 >> 4) as u8;
                        to[1] = ((sample[0] << 4) as i8 >> 4) as u8;
                    }
                    Encoding::Ci4Offset => {
                        to[0] = (sample[0] >> 4).wrapping_sub(8);
                        to[1] = (sample[0] & 15).wrapping_sub(8);
                    }
                    Encoding::B1 | Encoding::B2 => unreachable!("native as they are"),
                }
            }
        });
        native
    }
}

/// Rows of voltages that a beamformer cannot read where they lie.
struct Padding {
    rows: usize,
    row_bytes: usize,
}

impl Case for Padding {
    fn system(&self) -> &'static str {
        "reorder"
    }

    fn label(&self) -> String {
        format!("{} rows of {} bytes", self.rows, self.row_bytes)
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([("rows", self.rows as u64), ("D", self.row_bytes as u64)])
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let Self { rows, row_bytes } = *self;
        let pitch = row_bytes.next_multiple_of(16);
        let bytes = place.random_bytes(rows * row_bytes);
        let mut expected = vec![0; rows * pitch];
        for (to, from) in expected.chunks_exact_mut(pitch).zip(bytes.chunks_exact(row_bytes)) {
            to[..row_bytes].copy_from_slice(from);
        }
        let launch = {
            let gpu = gpu.clone();
            move |source, padded| {
                let parameters = PadRows {
                    source,
                    padded,
                    rows: rows as u32,
                    row_bytes: row_bytes as u32,
                    pitch: pitch as u32,
                    reserved: 0,
                };
                let threads = PAD_ROWS.entry.threads as usize;
                let blocks = (rows * pitch / 4).div_ceil(threads).min(1 << 16) as u32;
                // SAFETY: places of the rings have room for the rows.
                unsafe { gpu.launch(Stream::default(), &PAD_ROWS, blocks, &parameters) }
            }
        };
        let moved = (bytes.len() + expected.len()) as f64;
        let moving = Moving {
            gpu: gpu.clone(),
            rings: (Rc::new(Ring::new(gpu, &bytes)?), Rc::new(Ring::empty(gpu, rows * pitch)?)),
            launch: Box::new(launch),
            expected: expected.into(),
        };
        let subject = moving.subject(PAD_ROWS.entry.name, moved, (rows as f64, "rows"));
        Ok(vec![Subject { sustain: true, ..subject }])
    }
}

/// Delays of `ci4`, each input's of its own.
struct Delays {
    layout: Layout,
    inputs: usize,
    channels: usize,
    times: usize,
    largest: usize,
}

impl Delays {
    /// Delayed samples, with a history of zeros.
    fn expected(&self, samples: &[u8], shifts: &[u32]) -> Vec<u8> {
        let Self { layout, inputs, times, .. } = *self;
        let mut delayed = vec![0; samples.len()];
        match layout {
            Layout::Cnt => {
                let rows = delayed.par_chunks_mut(times).zip(samples.par_chunks(times));
                rows.enumerate().for_each(|(row, (to, from))| {
                    let shift = shifts[row % inputs] as usize;
                    to[shift..].copy_from_slice(&from[..times - shift]);
                });
            }
            Layout::Tcn => {
                let step = samples.len() / times;
                delayed.par_chunks_mut(step).enumerate().for_each(|(time, to)| {
                    for (slot, to) in to.iter_mut().enumerate() {
                        let source = time.checked_sub(shifts[slot % inputs] as usize);
                        *to = source.map_or(0, |time| samples[time * step + slot]);
                    }
                });
            }
        }
        delayed
    }
}

impl Case for Delays {
    fn system(&self) -> &'static str {
        "reorder"
    }

    fn label(&self) -> String {
        let Self { layout, inputs, channels, times, largest } = self;
        format!("delays to {largest}, ci4 {layout}, N {inputs}, C {channels}, T {times}")
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.inputs, self.channels, self.times, self.largest].map(|size| size as u64);
        ["N", "C", "T", "largest"].into_iter().zip(sizes).collect()
    }

    fn encoding(&self) -> String {
        Encoding::Ci4.to_string()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let Self { layout, inputs, channels, times, largest } = *self;
        let samples = place.random_bytes(inputs * channels * times);
        let numbers = random_bytes(4 * inputs);
        let numbers = numbers.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes));
        let mut list: Vec<u32> = numbers.map(|number| number % (largest as u32 + 1)).collect();
        list[0] = largest as u32;
        let shifts = Rc::new(Buffer::new(gpu, 4 * inputs)?);
        shifts.upload(Stream::default(), &list)?;
        let history = Rc::new(Buffer::new(gpu, inputs * channels * largest)?);
        history.clear(Stream::default())?;
        let source = Rc::new(Ring::new(gpu, &samples)?);
        let delayed = Rc::new(Ring::empty(gpu, samples.len())?);
        let at =
            move |address, times| placed(address, Encoding::Ci4, layout, [channels, inputs, times]);
        let window = Window {
            layout,
            history: at(history.address(), largest)?,
            block: at(source.next(), times)?,
        };
        let output = shift::Output {
            first: largest,
            times,
            shifts: Some((shifts.address(), largest)),
            address: delayed.next(),
        };
        let expected: Rc<[u8]> = place.expected(|| Ok(self.expected(&samples, &list)))?.into();
        let moved = 2.0 * samples.len() as f64;
        let kernels = window.kernels(gpu, &output).into_iter().enumerate();
        let subjects = kernels.map(|(index, kernel)| {
            let kept = (shifts.clone(), history.clone());
            let launch = {
                let gpu = gpu.clone();
                move |block, address| {
                    let _buffers = &kept;
                    let window = Window { block: at(block, times)?, ..window };
                    let output = shift::Output { address, ..output };
                    // SAFETY: places of the rings are of the window's sizes.
                    unsafe { window.kernels(&gpu, &output)[index].launch(&gpu, Stream::default()) }
                }
            };
            let moving = Moving {
                gpu: gpu.clone(),
                rings: (source.clone(), delayed.clone()),
                launch: Box::new(launch),
                expected: expected.clone(),
            };
            let items = (samples.len() as f64, "samples");
            Subject { auto: index == 0, ..moving.subject(&kernel.name(), moved, items) }
        });
        Ok(subjects.collect())
    }
}

/// Values of few bits, a byte a sample, to planes of bits along time.
struct PlaneTurn {
    bits: u32,
    layout: Layout,
    inputs: usize,
    channels: usize,
    times: usize,
}

impl Case for PlaneTurn {
    fn system(&self) -> &'static str {
        "reorder"
    }

    fn label(&self) -> String {
        let Self { bits, layout, inputs, channels, times } = self;
        format!("{layout} to planes, {}, N {inputs}, C {channels}, T {times}", in_words(*bits))
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.bits as usize, self.inputs, self.channels, self.times];
        ["bits", "N", "C", "T"].into_iter().zip(sizes.map(|size| size as u64)).collect()
    }

    fn encoding(&self) -> String {
        Encoding::Ci4.to_string()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let Self { bits, layout, inputs, channels, times } = *self;
        let mut values = place.random_bytes(channels * inputs * times);
        // Of 1 bit values are 0 and -1, of 2 bits -2 to 1: bits 3 and 0 of a nibble, the former in those between.
        values.par_iter_mut().for_each(|value| {
            let high = *value & 0x88;
            let filled = high | high >> 1 | high >> 2 | high >> 3;
            *value = if bits == 1 { filled } else { filled & 0xee | *value & 0x11 };
        });
        let extents = [channels, inputs, times];
        let samples = Samples::new(&values[..], inputs, channels, Encoding::Ci4, layout)?;
        let expected: Rc<[u8]> = quantise::planes(&samples, bits)?.into();
        let source = Rc::new(Ring::new(gpu, &values)?);
        let target = Rc::new(Ring::empty(gpu, expected.len())?);
        let way = move |source, words| {
            let samples = placed(source, Encoding::Ci4, layout, extents)?;
            Ok::<_, corrust_host::Error>(ToPlanes { samples, bits, words })
        };
        let moved = (values.len() + expected.len()) as f64;
        let kernels = way(source.next(), target.next())?.kernels().into_iter();
        let subjects = kernels.enumerate().map(|(index, kernel)| {
            let launch = {
                let gpu = gpu.clone();
                move |source, words| {
                    // SAFETY: places of the rings are of the samples' and the words' sizes.
                    unsafe { way(source, words)?.kernels()[index].launch(&gpu, Stream::default()) }
                }
            };
            let moving = Moving {
                gpu: gpu.clone(),
                rings: (source.clone(), target.clone()),
                launch: Box::new(launch),
                expected: expected.clone(),
            };
            let subject = moving.subject(&kernel.name(), moved, (values.len() as f64, "samples"));
            Subject { auto: index == 0, sustain: index == 0, ..subject }
        });
        Ok(subjects.collect())
    }
}

/// Times of a block of the spectral kurtosis.
const BLOCK_TIMES: usize = 256;

/// Sums of the spectral kurtosis.
struct Moments {
    encoding: Encoding,
    layout: Layout,
    inputs: usize,
    channels: usize,
    times: usize,
}

impl Case for Moments {
    fn system(&self) -> &'static str {
        "reorder"
    }

    fn label(&self) -> String {
        let Self { encoding, layout, inputs, channels, times } = self;
        format!("kurtosis, {encoding} {layout}, N {inputs}, C {channels}, T {times}")
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.inputs, self.channels, self.times].map(|size| size as u64);
        ["N", "C", "T"].into_iter().zip(sizes).collect()
    }

    fn encoding(&self) -> String {
        self.encoding.to_string()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let Self { encoding, layout, inputs, channels, times } = *self;
        let bytes = place.random_bytes(channels * inputs * times * encoding.bytes());
        let expected = place.expected(|| {
            let samples = Samples::new(&bytes[..], inputs, channels, encoding, layout)?;
            let plan = Kurtosis::builder().encoding(encoding).block_times(BLOCK_TIMES);
            let sums = plan.device(Device::Cpu).build()?.sums(samples)?;
            let pairs = sums.values.exact_chunks((1, 1, 1, 3));
            let pairs = pairs.into_iter().flat_map(|sums| [sums[[0, 0, 0, 1]], sums[[0, 0, 0, 2]]]);
            Ok(pairs.flat_map(i64::to_le_bytes).collect::<Vec<u8>>())
        });
        let expected: Rc<[u8]> = expected?.into();
        let source = Rc::new(Ring::new(gpu, &bytes)?);
        let results = times.div_ceil(BLOCK_TIMES) * channels * inputs;
        let target = Rc::new(Ring::empty(gpu, 16 * results)?);
        let launch = {
            let gpu = gpu.clone();
            move |source, sums| {
                let samples = placed(source, encoding, layout, [channels, inputs, times])?;
                // SAFETY: places of the rings are of the samples' and the sums' sizes.
                unsafe { kurtosis::sum_on(&gpu, &samples, encoding, BLOCK_TIMES, sums) }
            }
        };
        let moved = (bytes.len() + 16 * results) as f64;
        let items = ((channels * inputs * times) as f64, "samples");
        let moving = Moving {
            gpu: gpu.clone(),
            rings: (source, target),
            launch: Box::new(launch),
            expected,
        };
        let name = match layout {
            Layout::Tcn => MOMENTS.entry.name,
            Layout::Cnt => MOMENTS_ALONG_TIME.entry.name,
        };
        Ok(vec![moving.subject(name, moved, items)])
    }
}

/// Voltages to few bits.
struct Quantising {
    bits: u32,
    count: usize,
}

impl Case for Quantising {
    fn system(&self) -> &'static str {
        "reorder"
    }

    fn label(&self) -> String {
        let Self { bits, count } = self;
        format!("complex float32 to {}, {count} samples", in_words(*bits))
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([("bits", self.bits.into()), ("samples", self.count as u64)])
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        const NOISE: f32 = 64.0;
        let quantiser = Quantiser::optimal(self.bits)?;
        let bytes = place.random_bytes(2 * self.count);
        let voltages: Vec<Complex<f32>> = bytes
            .par_chunks_exact(2)
            .map(|pair| Complex::new(f32::from(pair[0] as i8), f32::from(pair[1] as i8)))
            .collect();
        let expected: Rc<[u8]> =
            place.expected(|| Ok(quantiser.samples(&voltages, NOISE).into()))?;
        let source = Ring::new(gpu, bytemuck::cast_slice(&voltages))?;
        let (count, moved) = (self.count, 9.0 * self.count as f64);
        let launch = {
            let gpu = gpu.clone();
            move |from, to| {
                // SAFETY: places of the rings hold the voltages and the samples.
                unsafe {
                    quantiser.quantise_device(&gpu, Stream::default(), from, NOISE, to, count)
                }
            }
        };
        let moving = Moving {
            gpu: gpu.clone(),
            rings: (Rc::new(source), Rc::new(Ring::empty(gpu, count)?)),
            launch: Box::new(launch),
            expected,
        };
        Ok(vec![moving.subject(QUANTISE.entry.name, moved, (count as f64, "samples"))])
    }
}

/// A number of bits.
fn in_words(bits: u32) -> String {
    if bits == 1 { "1 bit".to_owned() } else { format!("{bits} bits") }
}

/// A kernel from one ring to another.
struct Moving {
    gpu: Arc<dyn Gpu>,
    rings: (Rc<Ring>, Rc<Ring>),
    launch: Box<dyn Fn(u64, u64) -> Result<()>>,
    expected: Rc<[u8]>,
}

impl Moving {
    /// Subject of the kernel `name`, the case's only one unless it says otherwise, which moves `bytes` bytes of
    /// `items` items.
    fn subject(self, name: &str, bytes: f64, items: (f64, &'static str)) -> Subject {
        Subject {
            kernel: name.trim_start_matches("reorder_").replace('_', "-"),
            auto: true,
            what: "kernel",
            clock: Clock::Device,
            sustain: false,
            useful_operations: 0.0,
            bytes,
            items,
            bounds: vec![Bound::memory(bytes)],
            work: Box::new(self),
        }
    }
}

impl Work for Moving {
    fn run(&mut self) -> Result<()> {
        (self.launch)(self.rings.0.next(), self.rings.1.next())
    }

    fn check(&mut self) -> Result<bool> {
        let target = Buffer::new(&self.gpu, self.expected.len())?;
        target.clear(Stream::default())?;
        (self.launch)(self.rings.0.next(), target.address())?;
        let mut found = vec![0; self.expected.len()];
        target.download(Stream::default(), &mut found)?;
        Ok(found[..] == self.expected[..])
    }
}
