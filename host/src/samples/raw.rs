//! Raw samples: the output of digitisers, before there are channels.

use std::{fmt, ops::Range, str::FromStr};

use corrust_gpu::abi::channelise::LEVELS_2;
use half::f16;
use num_complex::Complex;

use crate::{
    error::{Error, Result},
    sample::Encoding,
    samples::{
        extents::{Extents, Memory, memory_bytes},
        missing::Missing,
    },
};

/// Encoding of one raw sample of one input. Numbers are little-endian; bits fill bytes from the least
/// significant one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RawEncoding {
    /// `i8`: int8.
    I8,
    /// `i16`: int16.
    I16,
    /// `f32`: IEEE single.
    F32,
    /// `ci16`: int16 real, int16 imaginary.
    Ci16,
    /// `cf32`: IEEE single real, imaginary.
    Cf32,
    /// A complex sample of any [`Encoding`], under its name.
    Complex(Encoding),
    /// `vdif-2`, `vdif-2-complex`: VDIF's codes, of which the lowest stands for the lowest level, real
    /// before imaginary.
    Vdif {
        /// Bits of a component: 1, 2, 4, 8 or 16.
        bits: u8,
        /// Whether a sample is complex.
        complex: bool,
    },
}

impl RawEncoding {
    /// Every encoding.
    pub const ALL: [Self; 19] = [
        Self::I8,
        Self::I16,
        Self::F32,
        Self::Ci16,
        Self::Cf32,
        Self::Complex(Encoding::Ci8),
        Self::Complex(Encoding::Ci4),
        Self::Complex(Encoding::Ci4Offset),
        Self::Complex(Encoding::Cf16),
        Self::Vdif { bits: 1, complex: false },
        Self::Vdif { bits: 2, complex: false },
        Self::Vdif { bits: 4, complex: false },
        Self::Vdif { bits: 8, complex: false },
        Self::Vdif { bits: 16, complex: false },
        Self::Vdif { bits: 1, complex: true },
        Self::Vdif { bits: 2, complex: true },
        Self::Vdif { bits: 4, complex: true },
        Self::Vdif { bits: 8, complex: true },
        Self::Vdif { bits: 16, complex: true },
    ];

    /// Whether a sample is complex.
    pub const fn is_complex(self) -> bool {
        match self {
            Self::I8 | Self::I16 | Self::F32 => false,
            Self::Ci16 | Self::Cf32 | Self::Complex(_) => true,
            Self::Vdif { complex, .. } => complex,
        }
    }

    /// Bits of a component: of a real sample, or of the real part of a complex one.
    pub const fn component_bits(self) -> usize {
        match self {
            Self::I8 => 8,
            Self::I16 | Self::Ci16 => 16,
            Self::F32 | Self::Cf32 => 32,
            Self::Complex(encoding) => encoding.bytes() * 4,
            Self::Vdif { bits, .. } => bits as usize,
        }
    }

    /// Bits of a sample.
    pub const fn bits(self) -> usize {
        if self.is_complex() { 2 * self.component_bits() } else { self.component_bits() }
    }

    /// Bytes that `samples` samples of an input fill, the last of them perhaps in part.
    pub const fn bytes(self, samples: usize) -> usize {
        // Without overflow for any number of samples whose bytes can be counted.
        match self.bits() {
            bits @ ..8 => samples.div_ceil(8 / bits),
            bits => samples.saturating_mul(bits / 8),
        }
    }

    /// The value of a component that is stored as `code`, exactly. Of `code` the lowest
    /// [`component_bits`](Self::component_bits) bits count.
    ///
    /// ```
    /// use corrust_host::samples::RawEncoding;
    ///
    /// let encoding: RawEncoding = "vdif-2".parse()?;
    /// assert_eq!([0, 1, 2, 3].map(|code| encoding.level(code)), [-3.3165, -1.0, 1.0, 3.3165]);
    /// assert_eq!(RawEncoding::I8.level(0x80), -128.0);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    pub fn level(self, code: u32) -> f32 {
        match self {
            Self::I8 | Self::Complex(Encoding::Ci8) => f32::from(code as i8),
            Self::I16 | Self::Ci16 => f32::from(code as i16),
            Self::F32 | Self::Cf32 => f32::from_bits(code),
            Self::Complex(Encoding::Ci4) => f32::from((code << 4) as i8 >> 4),
            Self::Complex(Encoding::Ci4Offset) => (code & 15) as f32 - 8.0,
            Self::Complex(Encoding::Cf16) => f16::from_bits(code as u16).to_f32(),
            Self::Vdif { bits: 1, .. } | Self::Complex(Encoding::B1 | Encoding::B2) => {
                (2 * (code & 1)) as f32 - 1.0
            }
            Self::Vdif { bits: 2, .. } => LEVELS_2[(code & 3) as usize],
            Self::Vdif { bits: 4, .. } => (code & 15) as f32 - 8.0,
            Self::Vdif { bits: 8, .. } => (code & 0xff) as f32 - 127.5,
            Self::Vdif { .. } => (code & 0xffff) as f32 - 32767.5,
        }
    }

    /// The `index`th sample of an input's `bytes`; the imaginary part of a real one is 0.
    ///
    /// # Panics
    /// If `bytes` is too short.
    pub fn decode(self, bytes: &[u8], index: usize) -> Complex<f32> {
        let bits = self.component_bits();
        let component = |component: usize| {
            let first = component * bits;
            let code = match bits {
                ..8 => u32::from(bytes[first / 8] >> (first % 8)),
                8 => u32::from(bytes[first / 8]),
                16 => u32::from(u16::from_le_bytes([bytes[first / 8], bytes[first / 8 + 1]])),
                _ => {
                    let first = first / 8;
                    u32::from_le_bytes(bytes[first..first + 4].try_into().expect("four bytes"))
                }
            };
            self.level(code)
        };
        if !self.is_complex() {
            return Complex::new(component(index), 0.0);
        }
        let (first, second) = (component(2 * index), component(2 * index + 1));
        match self {
            // The real part is in the high nibble.
            Self::Complex(Encoding::Ci4 | Encoding::Ci4Offset) => Complex::new(second, first),
            _ => Complex::new(first, second),
        }
    }
}

impl From<Encoding> for RawEncoding {
    fn from(encoding: Encoding) -> Self {
        Self::Complex(encoding)
    }
}

impl fmt::Display for RawEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I8 => f.pad("i8"),
            Self::I16 => f.pad("i16"),
            Self::F32 => f.pad("f32"),
            Self::Ci16 => f.pad("ci16"),
            Self::Cf32 => f.pad("cf32"),
            Self::Complex(encoding) => encoding.fmt(f),
            Self::Vdif { bits, complex } => {
                f.pad(&format!("vdif-{bits}{}", if *complex { "-complex" } else { "" }))
            }
        }
    }
}

impl FromStr for RawEncoding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.to_string() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown raw encoding {text:?}: expected i8, i16, f32, ci16, cf32, ci8, ci4, \
                 ci4-offset, cf16, or vdif-BITS or vdif-BITS-complex of 1, 2, 4, 8 or 16 bits"
            ))
        })
    }
}

/// Order of the axes of raw samples, slowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RawLayout {
    /// `nt`: `[input][time]`; every input begins on a byte.
    #[default]
    Nt,
    /// `tn`: `[time][input]`, of samples of whole bytes.
    Tn,
}

impl RawLayout {
    /// Every layout.
    pub const ALL: [Self; 2] = [Self::Nt, Self::Tn];
}

impl fmt::Display for RawLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nt => "nt",
            Self::Tn => "tn",
        })
    }
}

impl FromStr for RawLayout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|layout| layout.to_string() == text).ok_or_else(|| {
            Error::invalid(format!("unknown raw layout {text:?}: expected nt or tn"))
        })
    }
}

/// A view of raw samples of some inputs, in host memory, page-locked or not, or in a GPU's.
///
/// ```
/// use corrust_host::samples::{Missing, RawEncoding, RawLayout, RawSamples};
///
/// // Two inputs of six samples of two bits, each input on bytes of its own.
/// let bytes = [0b11_10_01_00, 0b00_01, 0b00_00_00_00, 0b11_11_u8];
/// let encoding: RawEncoding = "vdif-2".parse()?;
/// let missing = [Missing::times(5..6).of_inputs(0..1)];
/// let samples = RawSamples::strided(&bytes[..], encoding, RawLayout::Nt, [2, 6], 2)?;
/// let samples = samples.missing(&missing);
///
/// // Views are cut at any sample.
/// let later = samples.times(3..6);
/// assert_eq!([0, 1, 2].map(|time| later.get(0, time).re), [3.3165, -1.0, -3.3165]);
/// assert_eq!(later.get(1, 2).re, 3.3165);
/// assert_eq!(later.gaps().next().unwrap().times, 2..3);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawSamples<'a> {
    memory: Memory<'a>,
    encoding: RawEncoding,
    layout: RawLayout,
    inputs: usize,
    times: usize,
    pitch: usize,
    missing: &'a [Missing],
    /// First input of the view in the memory.
    first_input: usize,
    first_time: usize,
}

impl<'a> RawSamples<'a> {
    /// Samples without gaps, of as many times as `memory` holds. The last bytes of rows (`nt`) of samples
    /// of less than a byte count in full: [`times`](Self::times) cuts off the excess.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are no inputs, `memory` does not hold a whole number of times, or the
    /// encoding is not one of the layout.
    pub fn new(
        memory: impl Into<Memory<'a>>,
        inputs: usize,
        encoding: RawEncoding,
        layout: RawLayout,
    ) -> Result<Self> {
        let memory = memory.into();
        let bytes = memory_bytes(&memory);
        let unit = encoding.bytes(1);
        let step = inputs.saturating_mul(unit);
        if step == 0 || !bytes.is_multiple_of(step) {
            return Err(Error::invalid(format!(
                "{bytes} bytes of raw samples: expected a multiple of {step} ({inputs} inputs x {unit} \
                 bytes)"
            )));
        }
        let units = bytes / step;
        let (times, pitch) = match layout {
            RawLayout::Nt => (units * (8 * unit / encoding.bits()), units * unit),
            RawLayout::Tn => (units, step),
        };
        Self::strided(memory, encoding, layout, [inputs, times], pitch)
    }

    /// `inputs` x `times` samples of which one input's (`nt`) or one time's (`tn`) begin `pitch` bytes after
    /// the one's before.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are no inputs, the last sample lies beyond `memory`, rows overlap, or
    /// samples of less than a byte are to lie in order of time (`tn`).
    pub fn strided(
        memory: impl Into<Memory<'a>>,
        encoding: RawEncoding,
        layout: RawLayout,
        [inputs, times]: [usize; 2],
        pitch: usize,
    ) -> Result<Self> {
        let memory = memory.into();
        if inputs == 0 {
            return Err(Error::invalid("raw samples of 0 inputs: expected at least 1"));
        }
        if layout == RawLayout::Tn && encoding.bits() < 8 {
            return Err(Error::invalid(format!(
                "raw samples of {encoding} in the order tn: expected nt, where an input's bits stand \
                 together"
            )));
        }
        let (rows, row) = match layout {
            RawLayout::Nt => (inputs, encoding.bytes(times)),
            RawLayout::Tn => (times, encoding.bytes(inputs)),
        };
        let bytes = memory_bytes(&memory);
        if rows > 1 && pitch < row {
            return Err(Error::invalid(format!(
                "rows of raw samples {pitch} bytes apart: expected at least their {row} bytes"
            )));
        }
        let end = rows.saturating_sub(1).checked_mul(pitch).and_then(|last| last.checked_add(row));
        if times > 0 && end.is_none_or(|end| end > bytes) {
            return Err(Error::invalid(format!(
                "{bytes} bytes of raw samples: expected {} for {inputs} inputs and {times} times of \
                 {encoding} in rows {pitch} bytes apart",
                end.map_or("more than can be addressed".to_owned(), |end| end.to_string()),
            )));
        }
        let (first_input, first_time) = (0, 0);
        let missing = &[];
        Ok(Self {
            memory,
            encoding,
            layout,
            inputs,
            times,
            pitch,
            missing,
            first_input,
            first_time,
        })
    }

    /// The same samples, of which those within `missing` are not there, whatever their bytes. Channels are ignored.
    ///
    /// # Panics
    /// When the view was cut: `missing` counts from the first sample of all.
    pub fn missing(self, missing: &'a [Missing]) -> Self {
        assert!((self.first_input, self.first_time) == (0, 0), "missing samples of a cut view");
        Self { missing, ..self }
    }

    /// Encoding of a sample.
    pub fn encoding(&self) -> RawEncoding {
        self.encoding
    }

    /// In which order.
    pub fn layout(&self) -> RawLayout {
        self.layout
    }

    /// `N`.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// `T`: samples of each input.
    pub fn len(&self) -> usize {
        self.times
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times == 0
    }

    /// Bytes from one input's (`nt`) or time's (`tn`) samples to the next.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Memory of the samples, and of those before in a view that was cut: [`bit`](Self::bit) gives the offset.
    pub fn memory(&self) -> Memory<'a> {
        self.memory
    }

    /// Offset of a sample of the view in the memory, in bits.
    pub fn bit(&self, input: usize, time: usize) -> usize {
        let (input, time) = (self.first_input + input, self.first_time + time);
        let (row, along) = match self.layout {
            RawLayout::Nt => (input, time),
            RawLayout::Tn => (time, input),
        };
        8 * row * self.pitch + along * self.encoding.bits()
    }

    /// A sample in host memory, missing or not.
    ///
    /// # Panics
    /// If an index is out of range, or the samples are in a GPU's memory.
    pub fn get(&self, input: usize, time: usize) -> Complex<f32> {
        assert!(input < self.inputs && time < self.times, "input {input}, time {time}");
        let Memory::Host(bytes) = self.memory else { panic!("samples in a GPU's memory") };
        let bit = self.bit(input, time);
        let index = bit % 8 / self.encoding.bits();
        self.encoding.decode(&bytes[bit / 8..], index)
    }

    /// Missing samples, counted from the first sample of the view and within it; ranges may overlap.
    pub fn gaps(&self) -> impl Iterator<Item = Missing> + use<'a> {
        let extents = |inputs, times| Extents { channels: 1, inputs, times };
        let origin = Extents { channels: 0, ..extents(self.first_input, self.first_time) };
        let extents = extents(self.inputs, self.times);
        self.missing.iter().filter_map(move |missing| missing.within(&origin, &extents))
    }

    /// The samples of a range of times.
    ///
    /// # Panics
    /// If the range ends after the last time.
    pub fn times(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.times, "times {range:?}");
        Self { first_time: self.first_time + range.start, times: range.len(), ..self }
    }

    /// The samples of a range of inputs.
    ///
    /// # Panics
    /// If the range is empty or ends after the last input.
    pub fn input_range(self, range: Range<usize>) -> Self {
        assert!(range.start < range.end && range.end <= self.inputs, "inputs {range:?}");
        Self { first_input: self.first_input + range.start, inputs: range.len(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for encoding in RawEncoding::ALL {
            assert_eq!(encoding.to_string().parse::<RawEncoding>().unwrap(), encoding);
        }
        for text in ["vdif-3", "vdif", "u8", "vdif-02"] {
            let error = text.parse::<RawEncoding>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown raw encoding {text:?}")), "{error}");
        }
        for layout in RawLayout::ALL {
            assert_eq!(layout.to_string().parse::<RawLayout>().unwrap(), layout);
        }
    }

    #[test]
    fn levels_are_those_of_the_formats() {
        let vdif = |bits| RawEncoding::Vdif { bits, complex: false };
        assert_eq!([0, 1].map(|code| vdif(1).level(code)), [-1.0, 1.0]);
        assert_eq!([0, 8, 15].map(|code| vdif(4).level(code)), [-8.0, 0.0, 7.0]);
        assert_eq!([0, 255].map(|code| vdif(8).level(code)), [-127.5, 127.5]);
        assert_eq!([0, 65535].map(|code| vdif(16).level(code)), [-32767.5, 32767.5]);
        assert_eq!(RawEncoding::I16.level(0x8000), -32768.0);
        assert_eq!(RawEncoding::F32.level(0x4048_0000), 3.125);
        assert_eq!(RawEncoding::from(Encoding::Cf16).level(0xc000), -2.0);
        let nibbles = |encoding: Encoding| RawEncoding::from(encoding).decode(&[0x8f], 0);
        assert_eq!(nibbles(Encoding::Ci4), Complex::new(-8.0, -1.0));
        assert_eq!(nibbles(Encoding::Ci4Offset), Complex::new(0.0, 7.0));
        let one = RawEncoding::Vdif { bits: 1, complex: true };
        assert_eq!(one.decode(&[0b0110_0000], 2), Complex::new(-1.0, 1.0));
        assert_eq!(one.decode(&[0b0110_0000], 3), Complex::new(1.0, -1.0));
    }

    #[test]
    fn views_lead_to_the_samples() {
        let bytes: Vec<u8> = (0..=255).collect();
        let nt = RawSamples::new(&bytes[..], 4, RawEncoding::I8, RawLayout::Nt).unwrap();
        let tn = RawSamples::new(&bytes[..], 4, RawEncoding::I8, RawLayout::Tn).unwrap();
        assert_eq!((nt.len(), nt.pitch(), tn.len(), tn.pitch()), (64, 64, 64, 4));
        let missing = [Missing::times(10..20).of_inputs(1..3)];
        for (samples, place) in [(nt, [64, 1]), (tn, [1, 4])] {
            let cut = samples.missing(&missing).times(5..60).input_range(2..4).times(3..40);
            let expected = (3 * place[0] + (8 + 17) * place[1]) as u8 as i8;
            assert_eq!(cut.get(1, 17).re, f32::from(expected));
            assert_eq!(
                cut.gaps().collect::<Vec<_>>(),
                [Missing { times: 2..12, channels: 0..1, inputs: 0..1 }]
            );
        }
        let bits = RawEncoding::Vdif { bits: 4, complex: true };
        let samples = RawSamples::new(&bytes[..], 2, bits, RawLayout::Tn).unwrap().times(100..128);
        assert_eq!(samples.get(1, 0), Complex::new(1.0, 4.0));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let bytes = [0_u8; 24];
        let two = RawEncoding::Vdif { bits: 2, complex: false };
        let say = |result: Result<RawSamples<'_>>| result.unwrap_err().to_string();
        let new = |encoding, layout, inputs| RawSamples::new(&bytes[..], inputs, encoding, layout);
        assert!(say(new(RawEncoding::I16, RawLayout::Nt, 5)).contains("multiple of 10"));
        assert!(say(new(RawEncoding::I16, RawLayout::Nt, 0)).contains("multiple of 0"));
        assert!(say(new(two, RawLayout::Tn, 2)).contains("expected nt"));
        assert_eq!(new(two, RawLayout::Nt, 2).unwrap().len(), 48);
        let strided =
            |shape, pitch| RawSamples::strided(&bytes[..], two, RawLayout::Nt, shape, pitch);
        assert!(strided([3, 29], 8).is_ok());
        assert!(say(strided([3, 33], 8)).contains("at least their 9 bytes"));
        assert!(say(strided([4, 29], 8)).contains("expected 32"));
        assert!(say(strided([usize::MAX, 29], 8)).contains("more than can be addressed"));
        assert!(say(strided([0, 29], 8)).contains("0 inputs"));
    }
}
