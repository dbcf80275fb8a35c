//! Cases of the corner turns and of unpacking: native rows of about as many samples whatever the number
//! of inputs.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use corrust_gpu::abi::reorder::{PAD_ROWS, PadRows};
use corrust_host::{
    Encoding, Layout, Result,
    device::{Buffer, Gpu, Stream},
    reorder::{Block, Native, Variant},
};
use rayon::prelude::*;

use super::{Bound, Case, Clock, Place, Ring, Subject, Work, random_bytes};

/// Inputs at which corner turns run for longer: power depends little on their number.
const SUSTAINED: usize = 256;
/// Channels times inputs.
const ROWS: usize = 40960;

/// What to measure.
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
pub fn cases(options: &Options, place: &Place) -> Vec<Box<dyn Case>> {
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    if place.gpu.is_none() {
        return cases;
    }
    let rows = if place.simulated() { 64 } else { ROWS };
    for &encoding in &options.encodings {
        for &inputs in &options.inputs {
            let channels = (rows / inputs).max(1);
            let times = options.times;
            // 4-bit samples are unpacked, or left for kernels that do it themselves.
            let nibbles = matches!(encoding, Encoding::Ci4 | Encoding::Ci4Offset);
            let forms = [Native::of(encoding), Native::Nibbles];
            for &form in &forms[..1 + usize::from(nibbles)] {
                let turn = |layout| Turn { encoding, form, layout, inputs, channels, times };
                cases.push(Box::new(turn(Layout::Tcn)));
                if Some(&inputs) == options.inputs.last() {
                    cases.push(Box::new(turn(Layout::Cnt)));
                }
            }
        }
    }
    cases.push(Box::new(Padding { rows: 16 * rows, row_bytes: 510 }));
    cases
}

struct Turn {
    encoding: Encoding,
    form: Native,
    layout: Layout,
    inputs: usize,
    channels: usize,
    times: usize,
}

impl Case for Turn {
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

    fn subjects(&self, place: &Place) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let Self { encoding, form, layout, inputs, channels, times } = *self;
        let rows = inputs * channels;
        let samples = random_bytes(rows * times * encoding.bytes());
        // One sample more than there are: what is padded is seen to be zero.
        let row_bytes = ((times + 1) * form.bytes()).next_multiple_of(16);
        let expected: Rc<[u8]> = self.expected(&samples, row_bytes).into();
        let source = Rc::new(Ring::new(gpu, &samples)?);
        let native = Rc::new(Ring::empty(gpu, rows * row_bytes)?);
        let block = Block {
            encoding,
            form,
            layout,
            inputs,
            channels,
            times,
            source: source.next(),
            source_stride: times * encoding.bytes(),
            native: native.next(),
            row_bytes,
        };
        let input = samples.len() as f64;
        let output = (rows * times * form.bytes()) as f64;
        let variants = Variant::of(&block).into_iter().enumerate();
        let subjects = variants.map(|(index, variant)| {
            let launch = {
                let gpu = gpu.clone();
                move |source: u64, native: u64| {
                    let block = Block { source, native, ..block };
                    // SAFETY: places of the rings are of the block's sizes.
                    unsafe { variant.launch(&gpu, Stream::default(), &block) }
                }
            };
            Subject {
                kernel: variant.name().trim_start_matches("reorder_").replace('_', "-"),
                auto: index == 0,
                what: "kernel",
                clock: Clock::Device,
                sustain: index == 0 && (inputs == SUSTAINED || layout == Layout::Cnt),
                useful_operations: 0.0,
                bytes: input + output,
                items: ((rows * times) as f64, "samples"),
                bounds: vec![Bound::memory(input + output)],
                work: Box::new(Moving {
                    gpu: gpu.clone(),
                    rings: (source.clone(), native.clone()),
                    launch: Box::new(launch),
                    expected: expected.clone(),
                }),
            }
        });
        Ok(subjects.collect())
    }
}

impl Turn {
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

    fn subjects(&self, place: &Place) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let Self { rows, row_bytes } = *self;
        let pitch = row_bytes.next_multiple_of(16);
        let bytes = random_bytes(rows * row_bytes);
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
        Ok(vec![Subject {
            kernel: "pad-rows".to_owned(),
            auto: true,
            what: "kernel",
            clock: Clock::Device,
            sustain: true,
            useful_operations: 0.0,
            bytes: moved,
            items: (rows as f64, "rows"),
            bounds: vec![Bound::memory(moved)],
            work: Box::new(Moving {
                gpu: gpu.clone(),
                rings: (Rc::new(Ring::new(gpu, &bytes)?), Rc::new(Ring::empty(gpu, rows * pitch)?)),
                launch: Box::new(launch),
                expected: expected.into(),
            }),
        }])
    }
}

/// A kernel from one ring to another.
struct Moving {
    gpu: Arc<dyn Gpu>,
    rings: (Rc<Ring>, Rc<Ring>),
    launch: Box<dyn Fn(u64, u64) -> Result<()>>,
    expected: Rc<[u8]>,
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
