//! Planes of bits of quantised samples: on every device what plain loops give.
//!
//! A device that is not there is skipped, saying so, as in `conformance`.

use std::sync::Arc;

use corrust_gpu::abi::reorder::{PLANE_ROWS, PLANE_TIMES, PLANE_WORDS};
use corrust_host::{
    Device, Encoding, Layout,
    device::{Buffer, Gpu, Stream},
    quantise,
    reorder::ToPlanes,
    samples::{Extents, Missing, Samples, Strides},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{conflicts, device};

/// Values of channels, inputs and times, and their bytes.
struct Values {
    channels: usize,
    inputs: usize,
    times: usize,
    bits: u32,
    /// `[channel][input][time][part]`.
    values: Vec<[i32; 2]>,
}

impl Values {
    fn random(channels: usize, inputs: usize, times: usize, bits: u32) -> Self {
        let mut rng = StdRng::seed_from_u64((channels << 40 | inputs << 24 | times) as u64);
        let half = 1 << (bits - 1);
        let mut part = || rng.random_range(-half..half);
        let values = (0..channels * inputs * times).map(|_| [part(), part()]).collect();
        Self { channels, inputs, times, bits, values }
    }

    /// Bytes of which a sample's lies at `place(row, time)`, of `length`.
    fn bytes(
        &self,
        encoding: Encoding,
        length: usize,
        place: impl Fn(usize, usize) -> usize,
    ) -> Vec<u8> {
        let mut bytes = vec![0x5a; length];
        for row in 0..self.channels * self.inputs {
            for time in 0..self.times {
                let [re, im] = self.values[row * self.times + time].map(|value| match encoding {
                    Encoding::Ci4 => (value & 15) as u8,
                    _ => (value + 8) as u8,
                });
                bytes[place(row, time)] = re << 4 | im;
            }
        }
        bytes
    }

    /// Planes of samples without gaps.
    fn dense(&self, encoding: Encoding, layout: Layout) -> Vec<u8> {
        let rows = self.channels * self.inputs;
        self.bytes(encoding, rows * self.times, |row, time| match layout {
            Layout::Tcn => time * rows + row,
            Layout::Cnt => row * self.times + time,
        })
    }

    /// Words, bit by bit.
    fn words(&self) -> Vec<u8> {
        let (rows, planes) = (self.channels * self.inputs, self.bits as usize);
        let row_words = self.times.div_ceil(128);
        let mut words = vec![0; rows * planes * row_words * 32];
        for row in 0..rows {
            for time in 0..self.times {
                for (part, value) in self.values[row * self.times + time].into_iter().enumerate() {
                    // Levels are odd: of 2 bits -3, -1, 1, 3, twice the first plane's sign and once the second's.
                    let level = 2 * value + 1;
                    let first = level > 0;
                    let signs = [first, level - if first { 2 } else { -2 } > 0];
                    for (plane, &sign) in signs[..planes].iter().enumerate() {
                        let word = (row * planes + plane) * row_words + time / 128;
                        let byte = 32 * word + 16 * part + time % 128 / 8;
                        words[byte] |= u8::from(sign) << (time % 8);
                    }
                }
            }
        }
        words
    }

    fn what(&self) -> String {
        let Self { channels, inputs, times, bits, .. } = self;
        format!("{channels} channels, {inputs} inputs, {times} times, {bits} bits")
    }
}

/// Around the edges of a tile of rows, of words of four inputs among them and not.
const ROWS: [(usize, usize); 10] = {
    let tile = PLANE_ROWS as usize;
    [
        (1, 1),
        (3, 1),
        (1, 4),
        (2, 3),
        (2, 2),
        (1, tile - 1),
        (1, tile),
        (2, tile / 2 + 2),
        (1, tile + 1),
        (3, tile),
    ]
};

/// Around the edges of what a thread takes, of words and of tiles.
const TIMES: [usize; 14] = {
    let (word, tile) = (PLANE_TIMES as usize, (PLANE_TIMES * PLANE_WORDS) as usize);
    [1, 2, 15, 16, 17, 31, 32, 33, word - 1, word, word + 1, tile - 1, tile, tile + 1]
};

/// Every shape, its rows or its times few.
fn shapes() -> impl Iterator<Item = Values> {
    let rows = ROWS.into_iter().enumerate();
    let rows = rows.map(|(case, (channels, inputs))| (channels, inputs, TIMES[case + 4]));
    let times = TIMES.into_iter().enumerate();
    let times = times.map(|(case, times)| (1 + case % 2, [4, 3, 1, 8][case % 4], times));
    rows.chain(times).flat_map(|(channels, inputs, times)| {
        [1, 2].map(|bits| Values::random(channels, inputs, times, bits))
    })
}

const ENCODINGS: [Encoding; 2] = [Encoding::Ci4, Encoding::Ci4Offset];

#[test]
fn the_cpu_makes_them() {
    for values in shapes() {
        let expected = values.words();
        for encoding in ENCODINGS {
            for layout in Layout::ALL {
                let bytes = values.dense(encoding, layout);
                let samples =
                    Samples::new(&bytes[..], values.inputs, values.channels, encoding, layout);
                let found = quantise::planes(&samples.unwrap(), values.bits).unwrap();
                assert!(found == expected, "{}, {encoding} {layout}", values.what());
            }
        }
    }
}

/// All kernels that take samples, and the one that is taken.
fn gpu_makes_them(device: Device) {
    let Some(gpu) = device::open(device) else { return };
    let mut kernels = std::collections::BTreeSet::new();
    for values in shapes() {
        let expected = values.words();
        for encoding in ENCODINGS {
            for layout in Layout::ALL {
                let what = format!("{device}: {}, {encoding} {layout}", values.what());
                let bytes = values.dense(encoding, layout);
                let Values { channels, inputs, bits, .. } = values;
                let samples = Samples::new(&bytes[..], inputs, channels, encoding, layout).unwrap();
                let found = quantise::planes_on(&gpu, &samples, bits).unwrap();
                assert!(found == expected, "{what}");
                let source = uploaded(&gpu, &bytes);
                let samples =
                    Samples::new(source.slice(), inputs, channels, encoding, layout).unwrap();
                let words = uploaded(&gpu, &vec![0xa5; expected.len()]);
                let way = ToPlanes { samples, bits, words: words.address() };
                for kernel in way.kernels() {
                    kernels.insert(kernel.name());
                    // SAFETY: the words have room, and nothing is freed before they were read.
                    unsafe { kernel.launch(&gpu, Stream::default()).unwrap() };
                    assert!(downloaded(&words, expected.len()) == expected, "{what}, {kernel:?}");
                }
            }
        }
    }
    assert_eq!(kernels.len(), 4, "{kernels:?}");
}

/// Rows with something between them, at any address; others are refused.
fn gpu_takes_views(device: Device) {
    let Some(gpu) = device::open(device) else { return };
    for (pitch, offset) in [(320, 0), (301, 0), (320, 16), (303, 5)] {
        let values = Values::random(2, 3, 300, 2);
        let bytes = values
            .bytes(Encoding::Ci4, offset + 6 * pitch, |row, time| offset + row * pitch + time);
        let source = uploaded(&gpu, &bytes);
        let extents = Extents { channels: 2, inputs: 3, times: offset + 300 };
        let strides = Strides { channel: 3 * pitch, input: pitch, time: 1 };
        let samples = Samples::strided(source.slice(), Encoding::Ci4, extents, strides).unwrap();
        let samples = samples.times(offset..offset + 300);
        let expected = values.words();
        let words = Buffer::new(&gpu, expected.len()).unwrap();
        let stream = Stream::default();
        // SAFETY: the words have room, and nothing is freed before they were read.
        unsafe { quantise::planes_device(&gpu, stream, &samples, 2, words.address()).unwrap() };
        assert!(downloaded(&words, expected.len()) == expected, "{device}: {pitch}, {offset}");

        // SAFETY: these are refused.
        let refused = |samples: &Samples<'_>, words: u64| unsafe {
            quantise::planes_device(&gpu, stream, samples, 2, words).unwrap_err().to_string()
        };
        let text = refused(&samples, words.address() + 4);
        assert!(text.contains("expected a multiple of 16"), "{text}");
        let backwards = Strides { channel: pitch, input: 2 * pitch, time: 1 };
        let samples = Samples::strided(source.slice(), Encoding::Ci4, extents, backwards).unwrap();
        let text = refused(&samples, words.address());
        assert!(text.contains("expected tcn without gaps, or rows"), "{text}");
    }
}

fn uploaded(gpu: &Arc<dyn Gpu>, bytes: &[u8]) -> Buffer {
    let buffer = Buffer::new(gpu, bytes.len()).unwrap();
    buffer.upload(Stream::default(), bytes).unwrap();
    buffer
}

fn downloaded(buffer: &Buffer, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    buffer.download(Stream::default(), &mut bytes).unwrap();
    bytes
}

#[test]
fn sim_makes_them() {
    gpu_makes_them(Device::Sim);
    conflicts::check();
}

#[test]
fn cuda_makes_them() {
    gpu_makes_them(Device::Cuda(0));
}

#[test]
fn sim_takes_views() {
    gpu_takes_views(Device::Sim);
    conflicts::check();
}

#[test]
fn cuda_takes_views() {
    gpu_takes_views(Device::Cuda(0));
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let bytes = [0x00_u8, 0xff, 0x1f, 0xe0];
    let samples = Samples::new(&bytes[..], 2, 1, Encoding::Ci4, Layout::Tcn).unwrap();
    let refused =
        |samples: &Samples<'_>, bits| quantise::planes(samples, bits).unwrap_err().to_string();
    let text = refused(&samples, 1);
    assert!(
        text.contains("time 1 of input 0 of channel 0 has a part of 1: expected 1 bit, -1 to 0"),
        "{text}"
    );
    assert!(quantise::planes(&samples, 2).is_ok());
    for bits in [0, 3] {
        let text = refused(&samples, bits);
        assert!(text.contains(&format!("planes of {bits} bits: expected 1 or 2")), "{text}");
    }
    let missing = [Missing::times(1..2)];
    let text = refused(&samples.missing(&missing), 2);
    assert!(text.contains("expected all, as bits have no zero"), "{text}");
    let samples = Samples::new(&bytes[..], 2, 1, Encoding::Ci8, Layout::Tcn).unwrap();
    let text = refused(&samples, 2);
    assert!(text.contains("planes of ci8 samples: expected ci4"), "{text}");
}
