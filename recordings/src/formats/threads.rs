//! VDIF's complex samples of 4 and 8 bits as channels, a thread an input.
//!
//! Codes of 4 bits are `ci4-offset`, value + 8; codes of 8 bits are value + 128, as [`Framer`](super::vdif::Framer)
//! writes them.

use std::{ops::Range, path::PathBuf};

use corrust_host::{
    Encoding, Error, Layout, Result,
    samples::{Missing, RawEncoding, RawLayout, RawShape, Shape},
};

use super::{
    frames::Frames,
    options::Options,
    recording::{Block, Recording},
    vdif::Vdif,
};
use crate::array::time::Timestamp;

/// A recording of VDIF, as channels.
pub(super) struct Threads {
    raw: Frames<Vdif>,
    /// Block that was read last.
    block: Block,
    shape: Shape,
}

impl Threads {
    /// Opens VDIF files as one recording of channels.
    ///
    /// # Errors
    /// As for [`open`](super::open).
    pub fn open(paths: &[PathBuf], options: &Options) -> Result<Self> {
        let fault = |reason: String| Error::file(&paths[0], reason);
        let raw = Frames::open(paths, options, Vdif::new)?;
        let (RawShape { inputs, encoding: found, layout }, channels) =
            (raw.shape(), raw.channels());
        let encoding = match found {
            RawEncoding::Vdif { bits: 4, complex: true } => Encoding::Ci4Offset,
            RawEncoding::Vdif { bits: 8, complex: true } => Encoding::Ci8,
            _ => {
                return Err(fault(format!(
                    "VDIF of {found} holds raw voltages: expected channels, which corrust channelise makes of them, \
                     or for complex samples of few bits whose channels are those to correlate an encoding of b1 or b2"
                )));
            }
        };
        if let Some(asked) = options.encoding.filter(|&asked| asked != encoding) {
            return Err(fault(format!("VDIF of {found} holds {encoding} samples, not {asked}")));
        }
        // Threads of one channel lie one after the other.
        let layout = if layout == RawLayout::Tn { Layout::Tcn } else { Layout::Cnt };
        if let Some(asked) = options.layout.filter(|&asked| asked != layout) {
            return Err(fault(format!("VDIF of {found} is read as {layout}, not {asked}")));
        }
        let shape = Shape { inputs: inputs / channels, channels, encoding, layout };
        Ok(Self { raw, block: Block::new(), shape })
    }
}

/// Brings samples of `BYTES` bytes, `[time][input][channel]`, into the order `[time][channel][input]`.
fn turn<const BYTES: usize>(
    shape: &Shape,
    from: &[u8],
    to: &mut [u8],
    code: impl Fn([u8; BYTES]) -> [u8; BYTES],
) {
    let (from, to) = (from.as_chunks::<BYTES>().0, to.as_chunks_mut::<BYTES>().0);
    let step = shape.inputs * shape.channels;
    for (from, to) in from.chunks_exact(step).zip(to.chunks_exact_mut(step)) {
        for (input, row) in from.chunks_exact(shape.channels).enumerate() {
            let to = to[input..].iter_mut().step_by(shape.inputs);
            to.zip(row).for_each(|(to, &from)| *to = code(from));
        }
    }
}

impl Recording for Threads {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn times(&self) -> u64 {
        self.raw.times()
    }

    fn interval(&self) -> Option<f64> {
        self.raw.interval()
    }

    fn start(&self) -> Option<Timestamp> {
        self.raw.start()
    }

    fn loses_by_input(&self) -> bool {
        true
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.raw.facts()
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let Self { raw, block: found, shape } = self;
        let read = raw.read_block(times, found)?;
        block.reset(shape, read)?;
        // Rows of times have no other order.
        let of = match shape.layout {
            Layout::Tcn => *shape,
            Layout::Cnt => Shape { inputs: 1, ..*shape },
        };
        match shape.encoding {
            Encoding::Ci8 => turn::<2>(&of, &found.samples, &mut block.samples, |[re, im]| {
                [re ^ 0x80, im ^ 0x80]
            }),
            // The real part comes first, in the low half.
            _ => turn::<1>(&of, &found.samples, &mut block.samples, |[byte]| [byte.rotate_left(4)]),
        }
        let Shape { inputs, channels, .. } = *shape;
        for gap in &found.missing {
            let rows = gap.inputs.start..gap.inputs.end.min(inputs * channels);
            if rows == (0..inputs * channels) {
                block.missing.push(Missing::times(gap.times.clone()));
                continue;
            }
            for input in rows.start / channels..rows.end.div_ceil(channels) {
                let first = rows.start.max(input * channels) - input * channels;
                let last = rows.end.min((input + 1) * channels) - input * channels;
                let missing = Missing::times(gap.times.clone()).of_channels(first..last);
                block.missing.push(missing.of_inputs(input..input + 1));
            }
        }
        let missing = std::mem::take(&mut block.missing);
        block.clear(shape, &missing);
        block.missing = missing;
        Ok(read)
    }

    fn gaps(&self) -> &[Range<u64>] {
        self.raw.gaps()
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        self.raw.skip(times)
    }

    fn left_out(&self) -> Option<&str> {
        self.raw.left_out()
    }

    fn contradiction(&self) -> Option<&str> {
        self.raw.contradiction()
    }
}
