//! Planes of bits along time, of quantised samples.

use std::sync::Arc;

use rayon::prelude::*;

use crate::{
    device::{
        gpu::{Gpu, Stream},
        host,
        memory::Buffer,
    },
    error::{Error, Result},
    layout::Layout,
    reorder::planes::ToPlanes,
    sample::Encoding,
    samples::{extents::Extents, view::Samples},
};

/// Bits to flip to make excess-8 nibbles of those of an encoding.
fn flip(encoding: Encoding) -> u8 {
    if encoding == Encoding::Ci4Offset { 0 } else { 0x88 }
}

/// Checks that planes can be made of some samples. Returns the encodings of the words and of the samples.
fn check(samples: &Samples<'_>, bits: u32) -> Result<[Encoding; 2]> {
    let encoding = match bits {
        1 => Encoding::B1,
        2 => Encoding::B2,
        _ => {
            return Err(Error::invalid(format!("planes of {bits} bits: expected 1 or 2")));
        }
    };
    let known = [Encoding::Ci4, Encoding::Ci4Offset];
    let Some(of) = known.into_iter().find(|&known| samples.element() == known.into()) else {
        return Err(Error::invalid(format!(
            "planes of {} samples: expected ci4, as they are quantised, or ci4-offset",
            samples.element()
        )));
    };
    if !samples.is_complete() {
        return Err(Error::invalid(
            "planes of samples of which some are missing: expected all, as bits have no zero",
        ));
    }
    Ok([encoding, of])
}

/// Bytes of the words of all rows.
fn bytes_of(extents: Extents, encoding: Encoding) -> usize {
    let Extents { channels, inputs, times } = extents;
    channels * inputs * encoding.planes() * times.div_ceil(encoding.times()) * encoding.bytes()
}

/// Makes the words of [`Encoding::B1`] or [`Encoding::B2`] of [`Ci4`](Encoding::Ci4) (or `ci4-offset`) samples of 1- or
/// 2-bit values, in any order and nothing missing: `[channel][input][plane][word]`. Values `v` stand for the levels `2
/// v + 1`. Bits after the last time are clear.
///
/// ```
/// use corrust_host::{
///     Correlator, Device, Encoding, Layout, correlate::baseline, quantise::{self, Quantiser}, samples::Samples,
/// };
///
/// // Two inputs, one channel, three times, [channel][input][time], quantised to one bit.
/// let samples = [0x00_u8, 0xff, 0x0f, 0x0f, 0xff, 0x00]; // `ci4`: values 0 and -1 stand for levels 1 and -1
/// let samples = Samples::new(&samples[..], 2, 1, Encoding::Ci4, Layout::Cnt)?;
/// let words = quantise::planes(&samples, 1)?;
///
/// let plan = Correlator::builder(2, 1).encoding(Encoding::B1).layout(Layout::Cnt).device(Device::Cpu);
/// let mut plan = plan.build()?;
/// let words = Samples::new(&words[..], 2, 1, Encoding::B1, Layout::Cnt)?;
/// plan.accumulate(words.times(0..3))?; // three times of the 128 that the words have room for
/// let dump = plan.dump()?;
/// let v = dump.visibilities.integer().expect("bits give integers")[[0, baseline(1, 0)]];
/// assert_eq!((v.re, v.im), (2, 0));
/// assert_eq!((dump.times, dump.valid.get(0, baseline(1, 0))), (3, 3));
///
/// // Coefficient of the voltages' correlation, by a sum's part of the largest.
/// let known = Quantiser::optimal(1)?.van_vleck();
/// let part = |sum: i64| known.coefficient(sum as f64 / (2.0 * dump.times as f64));
/// assert!((part(v.re) - 0.5).abs() < 1e-9); // sin(pi / 2 x 2 / 6)
/// # Ok::<(), corrust_host::Error>(())
/// ```
///
/// # Errors
/// [`Error::Invalid`] for a number of bits other than 1 or 2, samples of another encoding, in a GPU's memory or with
/// some missing, or a value of more bits; [`Error::OutOfMemory`].
pub fn planes(samples: &Samples<'_>, bits: u32) -> Result<Vec<u8>> {
    let [encoding, of] = check(samples, bits)?;
    let extents = samples.extents();
    let Extents { inputs, times, .. } = extents;
    let values = samples.gather(Layout::Cnt)?;
    let mut words = host::zeros(bytes_of(extents, encoding))?;
    if times == 0 {
        return Ok(words);
    }
    let (flip, half) = (flip(of), 1_u8 << (bits - 1));
    let is_legal = |byte: u8| {
        let nibbles = [byte >> 4, byte & 15];
        nibbles.into_iter().all(|nibble| (8 - half..8 + half).contains(&nibble))
    };
    let legal: [bool; 256] = std::array::from_fn(|byte| is_legal(byte as u8 ^ flip));
    let (word, planes) = (encoding.bytes(), encoding.planes());
    let row = times.div_ceil(encoding.times()) * word;
    let rows = words.par_chunks_exact_mut(planes * row).zip(values.par_chunks_exact(times));
    rows.enumerate().try_for_each(|(index, (words, values))| {
        if let Some(time) = values.iter().position(|&value| !legal[usize::from(value)]) {
            let nibbles = [values[time] ^ flip, (values[time] ^ flip) << 4].map(|byte| byte >> 4);
            let value = nibbles.into_iter().find(|nibble| !(8 - half..8 + half).contains(nibble));
            return Err(Error::invalid(format!(
                "time {time} of input {} of channel {} has a part of {}: expected {bits} bit{}, {} to {}",
                index % inputs,
                index / inputs,
                i32::from(value.unwrap_or_default()) - 8,
                if bits == 1 { "" } else { "s" },
                -(half as i8),
                half - 1
            )));
        }
        for (eight, values) in values.chunks(8).enumerate() {
            // Codes of 8 times, and nothing beyond the last.
            let mut codes = [0; 8];
            codes[..values.len()].copy_from_slice(values);
            codes[..values.len()].iter_mut().for_each(|byte| *byte ^= flip);
            let codes = u64::from_le_bytes(codes);
            let byte = eight / 16 * word + eight % 16;
            for plane in 0..planes {
                // A code's highest bit is its nibble's highest bit, and its lowest bit the nibble's lowest.
                let bit = 3 * (1 - plane);
                for (part, nibble) in [4, 0].into_iter().enumerate() {
                    words[plane * row + byte + part * word / 2] = gather(codes >> (bit + nibble));
                }
            }
        }
        Ok(())
    })?;
    Ok(words)
}

/// The lowest bits of eight bytes, that of the first lowest.
fn gather(bytes: u64) -> u8 {
    // Each bit comes to its place of the highest byte, and no two to the same place elsewhere.
    ((bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// [`planes`] by a GPU, of samples in host memory. A value of more bits than `bits` is cut without an error.
///
/// # Errors
/// As for [`planes_device`]; [`Error::OutOfMemory`].
pub fn planes_on(gpu: &Arc<dyn Gpu>, samples: &Samples<'_>, bits: u32) -> Result<Vec<u8>> {
    let [encoding, of] = check(samples, bits)?;
    samples.check_host()?;
    let extents = samples.extents();
    let mut words = host::zeros(bytes_of(extents, encoding))?;
    if extents.times == 0 {
        return Ok(words);
    }
    let layouts = [Layout::Tcn, Layout::Cnt];
    let layout = layouts.into_iter().find(|&layout| samples.is_dense(layout));
    let layout = layout.unwrap_or(Layout::Tcn);
    let bytes = samples.gather(layout)?;
    let source = Buffer::new(gpu, bytes.len())?;
    source.upload(Stream::default(), &bytes)?;
    let target = Buffer::new(gpu, words.len())?;
    let Extents { channels, inputs, .. } = extents;
    let delivered = Samples::new(source.slice(), inputs, channels, of, layout)?;
    // SAFETY: the words have room, and both buffers live until they were downloaded.
    unsafe { planes_device(gpu, Stream::default(), &delivered, bits, target.address())? };
    target.download(Stream::default(), &mut words)?;
    Ok(words)
}

/// [`planes`] of samples in a GPU's memory, enqueued on `stream`: `words` is the device address of the words, 16-byte
/// aligned. Both give the same bits; a value of more bits than `bits` is not reported.
///
/// # Errors
/// [`Error::Invalid`] for a number of bits other than 1 or 2, samples of another encoding, with some missing, or that
/// are neither `tcn` without gaps nor rows equally far apart with their times side by side, or an address that is not
/// aligned; [`Error::Device`] from the GPU.
///
/// # Safety
/// The words have room in device memory, and both stay until the stream has done this work.
///
/// # Panics
/// When the samples are in host memory.
pub unsafe fn planes_device(
    gpu: &Arc<dyn Gpu>,
    stream: Stream,
    samples: &Samples<'_>,
    bits: u32,
    words: u64,
) -> Result<()> {
    check(samples, bits)?;
    let Extents { channels, inputs, times } = samples.extents();
    let strides = samples.strides();
    let rows = channels == 1 || inputs == 1 || strides.channel == inputs * strides.input;
    if !(samples.is_dense(Layout::Tcn) || rows && (times == 1 || strides.time == 1)) {
        return Err(Error::invalid(format!(
            "samples {}, {} and {} bytes apart by channel, input and time: expected tcn without gaps, or rows \
             equally far apart with their times side by side",
            strides.channel, strides.input, strides.time
        )));
    }
    if !words.is_multiple_of(16) {
        return Err(Error::invalid(format!(
            "words at device address {words:#x}: expected a multiple of 16"
        )));
    }
    if times == 0 {
        return Ok(());
    }
    let way = ToPlanes { samples: *samples, bits, words };
    // SAFETY: the caller's promise.
    unsafe { way.kernels()[0].launch(gpu, stream) }
}
