//! Samples of few bits in words of 32 bits, side by side along time.

use rayon::prelude::*;

use super::{check_bits, pack, samples_per_word, unpack};
use crate::{
    device::host,
    error::{Error, Result},
    layout::Layout,
    sample::Encoding,
    samples::{extents::Extents, view::Samples},
};

/// Samples of 1 to 4 bits as they were packed: u32 `[channel][input][word][2]`, a word of real parts and one of
/// imaginary ones for each 32, 16, 10 or 8 times. Bits `k n` to `k n + n - 1` of a word are the code of its time `k`,
/// `value + 2^(n-1)`; other bits of a word are ignored.
///
/// Source: Sievers, "GPU Correlation" (ten samples of 3 bits in an unsigned int).
///
/// ```
/// use corrust_host::{
///     Correlator, Device, Encoding, Layout, correlate::baseline, quantise::{Packed, pack_rows}, samples::Samples,
/// };
///
/// // Two inputs, one channel, three times of 3-bit values: 1 + i and 3 - 4i.
/// let samples = [0x11_u8, 0x11, 0x11, 0x3c, 0x3c, 0x3c];
/// let samples = Samples::new(&samples[..], 2, 1, Encoding::Ci4, Layout::Cnt)?;
/// let words = pack_rows(&samples, 3)?;
/// assert_eq!(words[..2], [0o555, 0o555]);
///
/// let plan = Correlator::builder(2, 1).encoding(Encoding::Ci4).device(Device::Cpu);
/// let mut plan = plan.build()?;
/// plan.accumulate_packed(&Packed::new(&words, 2, 1, 3, 3)?)?;
/// let dump = plan.dump()?;
/// let v = dump.visibilities.integer().expect("ci4 gives integers")[[0, baseline(1, 0)]];
/// assert_eq!((v.re, v.im), (3 * (3 - 4), 3 * (-4 - 3)));
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    words: &'a [u32],
    bits: u32,
    extents: Extents,
}

impl<'a> Packed<'a> {
    /// Words of `times` times of `bits` bits.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a number of bits other than 1 to 4, or more or fewer words than they take.
    pub fn new(
        words: &'a [u32],
        inputs: usize,
        channels: usize,
        times: usize,
        bits: u32,
    ) -> Result<Self> {
        let row = 2 * times.div_ceil(samples_per_word(bits)?);
        let expected = channels.checked_mul(inputs).and_then(|rows| rows.checked_mul(row));
        if expected != Some(words.len()) {
            return Err(Error::invalid(format!(
                "{} words of {bits}-bit samples: expected {} for {times} times of {inputs} inputs and {channels} \
                 channels, {row} a row",
                words.len(),
                expected.map_or("more than can be addressed".to_owned(), |words| words.to_string())
            )));
        }
        Ok(Self { words, bits, extents: Extents { channels, inputs, times } })
    }

    /// Bits of a real or imaginary part.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Axes of the samples.
    pub fn extents(&self) -> Extents {
        self.extents
    }

    /// Words of a row of one input and channel, real and imaginary ones.
    pub(crate) fn row(&self) -> usize {
        let Extents { channels, inputs, .. } = self.extents;
        self.words.len() / (channels * inputs).max(1)
    }

    pub(crate) fn times_of_word(&self) -> usize {
        (32 / self.bits) as usize
    }

    /// The words as they are, if time samples fill them: none if the last word of a row has padding.
    pub(crate) fn whole(&self) -> Option<&'a [u32]> {
        self.extents.times.is_multiple_of(self.times_of_word()).then_some(self.words)
    }

    /// The words from pair `first` of each row on, `pairs` pairs, of which codes past the last time are zero.
    pub(crate) fn part(&self, first: usize, pairs: usize) -> Result<Vec<u32>> {
        let row = self.row();
        let mut part = host::zeros(self.words.len() / row.max(1) * 2 * pairs)?;
        let rows = part.par_chunks_exact_mut(2 * pairs).zip(self.words.par_chunks_exact(row));
        let held = self.extents.times % self.times_of_word();
        rows.with_min_len(16).for_each(|(to, from)| {
            to.copy_from_slice(&from[2 * first..2 * (first + pairs)]);
            if 2 * (first + pairs) == row && held > 0 {
                let mask = (1 << (held as u32 * self.bits)) - 1;
                to[2 * pairs - 2..].iter_mut().for_each(|word| *word &= mask);
            }
        });
        Ok(part)
    }

    /// The samples as [`Encoding::Ci4`], `[channel][input][time]`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn unpack(&self) -> Result<Vec<u8>> {
        let Extents { channels, inputs, times } = self.extents;
        let mut samples = host::zeros(channels * inputs * times)?;
        if times == 0 {
            return Ok(samples);
        }
        let rows = samples.par_chunks_exact_mut(times).zip(self.words.par_chunks_exact(self.row()));
        rows.try_for_each(|(samples, words)| {
            let part = |part| words.iter().skip(part).step_by(2).copied().collect::<Vec<_>>();
            samples.copy_from_slice(&unpack([&part(0), &part(1)], self.bits, times)?);
            Ok(())
        })?;
        Ok(samples)
    }
}

/// The words of [`Packed`] of [`Encoding::Ci4`] samples in host memory, in any order, of which none is missing.
///
/// # Errors
/// [`Error::Invalid`] for a number of bits other than 1 to 4, samples of another encoding, in a GPU's memory or with some
/// missing, or a value of more bits; [`Error::OutOfMemory`].
pub fn pack_rows(samples: &Samples<'_>, bits: u32) -> Result<Vec<u32>> {
    check_bits(bits)?;
    if samples.element() != Encoding::Ci4.into() || !samples.is_complete() {
        return Err(Error::invalid(format!(
            "samples of {} to be packed: expected ci4, as they are quantised, and none missing",
            samples.element()
        )));
    }
    samples.check_host()?;
    let Extents { channels, inputs, times } = samples.extents();
    let row = 2 * times.div_ceil(samples_per_word(bits)?);
    let mut words = host::zeros(channels * inputs * row)?;
    if times == 0 {
        return Ok(words);
    }
    let values = samples.gather(Layout::Cnt)?;
    let rows = words.par_chunks_exact_mut(row).zip(values.par_chunks_exact(times));
    rows.enumerate().try_for_each(|(index, (words, values))| {
        let packed = pack(values, bits).map_err(|error| {
            let (channel, input) = (index / inputs, index % inputs);
            Error::invalid(format!("channel {channel}, input {input}: {error}"))
        })?;
        for (part, packed) in packed.iter().enumerate() {
            words.iter_mut().skip(part).step_by(2).zip(packed).for_each(|(to, &word)| *to = word);
        }
        Ok(())
    })?;
    Ok(words)
}
