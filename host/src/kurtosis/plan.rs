//! The plan: sums of blocks of samples, on a device.

use std::{borrow::Cow, sync::Arc};

use corrust_gpu::abi::kurtosis::MOST_TIMES;

use super::{
    cpu,
    gpu::OnGpu,
    sums::{Block, Division, Sums},
};
use crate::{
    device::{
        choice::Device,
        gpu::{Gpu, Stream},
    },
    error::{Error, Result},
    layout::Layout,
    sample::Encoding,
    samples::{
        extents::{Element, Extents, Memory, Strides},
        view::Samples,
    },
};

/// Settings of a [`Kurtosis`] plan; see [`Kurtosis::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    encoding: Encoding,
    block_times: usize,
    device: Device,
    gpu: Option<Arc<dyn Gpu>>,
}

impl Builder {
    /// Encoding of the samples: `ci8` (the default), `ci4` or `ci4-offset`.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Times `M` of a block, 256 by default.
    pub fn block_times(mut self, times: usize) -> Self {
        self.block_times = times;
        self
    }

    /// Device that makes the sums; the first GPU by default, else the CPU.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// A GPU that is open, in place of the device.
    pub fn gpu(mut self, gpu: Option<Arc<dyn Gpu>>) -> Self {
        self.gpu = gpu;
        self
    }

    /// Builds the plan.
    ///
    /// # Errors
    /// [`Error::Invalid`] for samples that are no integers, or blocks of less than 16 or more than 65536 times;
    /// [`Error::Device`] when the device is not there.
    pub fn build(self) -> Result<Kurtosis> {
        let Self { encoding, block_times, device, gpu } = self;
        if !matches!(encoding, Encoding::Ci8 | Encoding::Ci4 | Encoding::Ci4Offset) {
            return Err(Error::invalid(format!(
                "spectral kurtosis of {encoding} samples: expected ci8, ci4 or ci4-offset"
            )));
        }
        if !(16..=MOST_TIMES as usize).contains(&block_times) {
            return Err(Error::invalid(format!(
                "spectral kurtosis of {block_times} times: expected 16 to {MOST_TIMES}"
            )));
        }
        let gpu = match gpu {
            Some(gpu) => Some(gpu),
            None => device.gpu()?,
        };
        Ok(Kurtosis { encoding, block_times, gpu: gpu.map(OnGpu::new) })
    }
}

/// Makes `S0`, `S1`, `S2` of blocks of samples: exact integers, the same on every device.
///
/// ```
/// use corrust_host::{Device, Encoding, Layout, Samples, kurtosis::Kurtosis};
///
/// let mut kurtosis = Kurtosis::builder().block_times(16).device(Device::Cpu).build()?;
/// let samples = [[3_i8, -4]; 20]; // [time][channel][input][re, im]: one channel, one input
/// let samples = Samples::new(&samples[..], 1, 1, Encoding::Ci8, Layout::Tcn)?;
/// let sums = kurtosis.sums(samples)?;
/// assert_eq!(sums.values.as_slice(), Some(&[16, 16 * 25, 16 * 625, 4, 4 * 25, 4 * 625][..]));
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Debug)]
pub struct Kurtosis {
    encoding: Encoding,
    block_times: usize,
    gpu: Option<OnGpu>,
}

impl Kurtosis {
    /// A plan of `ci8` samples in blocks of 256 times.
    pub fn builder() -> Builder {
        Builder { encoding: Encoding::Ci8, block_times: 256, device: Device::Auto, gpu: None }
    }

    /// Times of a block.
    pub fn block_times(&self) -> usize {
        self.block_times
    }

    /// Whether sums are made on a GPU, which reads samples in its memory, too.
    pub fn is_on_gpu(&self) -> bool {
        self.gpu.is_some()
    }

    /// Sums of blocks of `samples` from their first time on; the last block may have fewer times than others. Samples
    /// in a GPU's memory are read there: they must be complete, or zero [where they are not](Samples::missing_zeroed).
    ///
    /// # Errors
    /// [`Error::Invalid`] for samples of another encoding, or in memory that the plan does not reach;
    /// [`Error::Device`] and [`Error::OutOfMemory`] from the device.
    pub fn sums(&mut self, samples: Samples<'_>) -> Result<Sums> {
        let mut sums = Sums::default();
        self.sums_into(samples, &mut sums)?;
        Ok(sums)
    }

    /// [`sums`](Self::sums) in the place of earlier ones, whose memory is used again.
    ///
    /// # Errors
    /// As for [`sums`](Self::sums).
    pub fn sums_into(&mut self, samples: Samples<'_>, sums: &mut Sums) -> Result<()> {
        self.check(&samples)?;
        let division = Division::new(&samples, self.block_times);
        let valid = if samples.is_complete() { Vec::new() } else { division.valid(&samples) };
        sums.reset(&division, &valid);
        if sums.values.is_empty() {
            return Ok(());
        }
        let strides = samples.strides();
        let (bytes, strides) = match samples.memory() {
            Memory::Host(bytes) if samples.is_ready() && is_even(&samples) => {
                (Cow::Borrowed(bytes), strides)
            }
            Memory::Host(_) => {
                let layout = if strides.time < strides.input { Layout::Cnt } else { Layout::Tcn };
                let dense = Strides::dense(layout, samples.extents(), samples.element());
                (Cow::Owned(samples.gather(layout)?), dense)
            }
            Memory::Device(_) => {
                self.sum_there(&samples)?;
                return self.fetch(samples.on_device().1, sums);
            }
        };
        let block = Block { strides, ..self.block(&samples) };
        match &mut self.gpu {
            None => cpu::add(&block, &bytes, sums),
            Some(gpu) => gpu.bring_and_sum(&block, &bytes, sums)?,
        }
        Ok(())
    }

    /// Refuses samples of another encoding, and too many.
    fn check(&self, samples: &Samples<'_>) -> Result<()> {
        if samples.element() != Element::Voltage(self.encoding) {
            return Err(Error::invalid(format!(
                "samples are {}: expected {}, as the plan of the spectral kurtosis has",
                samples.element(),
                self.encoding
            )));
        }
        let Extents { channels, inputs, times } = samples.extents();
        let fits = [channels, inputs, times].into_iter().all(|count| u32::try_from(count).is_ok());
        if !fits {
            return Err(Error::invalid(format!(
                "{channels} channels, {inputs} inputs and {times} times: expected less than 2^32 of each"
            )));
        }
        Ok(())
    }

    fn block(&self, samples: &Samples<'_>) -> Block {
        Block {
            encoding: self.encoding,
            extents: samples.extents(),
            strides: samples.strides(),
            block_times: self.block_times,
        }
    }

    /// Makes sums of samples in a GPU's memory, one at least. Returns the sums' address on the GPU, for work in the order of
    /// the samples' stream.
    pub(super) fn sum_there(&mut self, samples: &Samples<'_>) -> Result<u64> {
        self.check(samples)?;
        let block = self.block(samples);
        let Some(gpu) = &mut self.gpu else {
            return samples.check_host().map(|()| 0);
        };
        if !samples.is_ready() {
            return Err(Error::invalid(
                "samples in a GPU's memory of which some are missing: expected complete ones for \
                 their spectral kurtosis, or zeros there",
            ));
        }
        let (address, stream) = samples.on_device();
        if !is_even(samples) || !address.is_multiple_of(samples.element().bytes() as u64) {
            return Err(Error::invalid(
                "samples of two bytes at an odd address: expected even ones for their spectral kurtosis",
            ));
        }
        gpu.sum(&block, address, stream)
    }

    /// Brings the sums that were made of samples in a GPU's memory last, in the order of `stream`.
    pub(super) fn fetch(&mut self, stream: Stream, sums: &mut Sums) -> Result<()> {
        self.gpu.as_mut().map_or(Ok(()), |gpu| gpu.fetch(stream, sums))
    }
}

/// Whether samples are whole numbers of samples apart.
fn is_even(samples: &Samples<'_>) -> bool {
    let Strides { channel, input, time } = samples.strides();
    let size = samples.element().bytes();
    [channel, input, time].iter().all(|stride| stride.is_multiple_of(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_summed_is_refused() {
        let build = |times| Kurtosis::builder().device(Device::Cpu).block_times(times).build();
        assert!(build(15).is_err() && build(65537).is_err() && build(65536).is_ok());
        assert!(Kurtosis::builder().encoding(Encoding::B1).build().is_err());
        let samples = Samples::new(&[0_u8; 4][..], 1, 1, Encoding::Ci4, Layout::Tcn).unwrap();
        let refused = build(16).unwrap().sums(samples).unwrap_err();
        assert!(refused.to_string().contains("expected ci8"), "{refused}");
    }
}
