//! Sums on a GPU.

use std::sync::Arc;

use corrust_gpu::abi::kurtosis::{MOMENTS, MOMENTS_ALONG_TIME, Moments};

use rayon::prelude::*;

use super::sums::{Block, Sums};
use crate::{
    device::{
        gpu::{Gpu, LockedBytes, Stream},
        memory::Buffer,
    },
    error::Result,
    sample::Encoding,
    samples::Samples,
};

/// A GPU, its memory for samples and sums, and page-locked memory for sums.
#[derive(Debug)]
pub(super) struct OnGpu {
    gpu: Arc<dyn Gpu>,
    buffers: Option<[Buffer; 2]>,
    pairs: Option<LockedBytes>,
}

impl OnGpu {
    pub(super) fn new(gpu: Arc<dyn Gpu>) -> Self {
        Self { gpu, buffers: None, pairs: None }
    }

    /// Makes the sums of `bytes` in host memory, in which missing samples are zero.
    pub(super) fn bring_and_sum(
        &mut self,
        block: &Block,
        bytes: &[u8],
        sums: &mut Sums,
    ) -> Result<()> {
        let stream = Stream::default();
        let address = {
            let [samples, _] = self.buffers()?;
            samples.reserve(bytes.len())?;
            samples.upload(stream, bytes)?;
            samples.address()
        };
        self.sum(block, address, stream)?;
        self.fetch(stream, sums)
    }

    /// Makes the sums of complete samples at a device address, for work in the order of `stream`. Returns their address on
    /// the device: pairs of u64 `[block][channel][input]`.
    pub(super) fn sum(&mut self, block: &Block, address: u64, stream: Stream) -> Result<u64> {
        let gpu = self.gpu.clone();
        let [_, buffer] = self.buffers()?;
        buffer.reserve(16 * block.results())?;
        let sums = buffer.address();
        // SAFETY: the samples reach as far as their strides lead, and there is a place for each result.
        unsafe { launch(&gpu, block, [address, sums], stream)? };
        Ok(sums)
    }

    /// Brings the sums that were made last.
    pub(super) fn fetch(&mut self, stream: Stream, sums: &mut Sums) -> Result<()> {
        let results = sums.values.len() / 3;
        let gpu = self.gpu.clone();
        let [_, buffer] = self.buffers()?;
        let address = buffer.address();
        let pairs = match &mut self.pairs {
            Some(pairs) if pairs.len() >= 16 * results => pairs,
            none => none.insert(gpu.locked_bytes(16 * results)?),
        };
        let pairs = &mut pairs[..16 * results];
        // SAFETY: the buffer has as many bytes, which nothing else uses before they are there.
        unsafe { gpu.copy_out(stream, address, pairs)? };
        gpu.wait(stream)?;
        let values = sums.values.as_slice_mut().expect("sums lie in one piece");
        let cells = values.as_chunks_mut::<3>().0.par_iter_mut();
        let pairs = pairs.as_chunks::<8>().0.par_chunks_exact(2);
        cells.zip(pairs).with_min_len(1 << 12).for_each(|(sums, pair)| {
            (sums[1], sums[2]) = (i64::from_ne_bytes(pair[0]), i64::from_ne_bytes(pair[1]));
        });
        Ok(())
    }

    fn buffers(&mut self) -> Result<&mut [Buffer; 2]> {
        if self.buffers.is_none() {
            let new = || Buffer::new(&self.gpu, 0);
            self.buffers = Some([new()?, new()?]);
        }
        Ok(self.buffers.as_mut().expect("made above"))
    }
}

/// Launches the kernel for the samples' strides.
///
/// # Safety
/// The samples must reach as far as their strides lead, and there must be room for the sums.
unsafe fn launch(
    gpu: &Arc<dyn Gpu>,
    block: &Block,
    [samples, sums]: [u64; 2],
    stream: Stream,
) -> Result<()> {
    let Block { encoding, extents, strides, block_times } = *block;
    let results = block.results();
    let parameters = Moments {
        samples,
        sums,
        channel_stride: strides.channel as u64,
        input_stride: strides.input as u64,
        time_stride: strides.time as u64,
        channels: extents.channels as u32,
        inputs: extents.inputs as u32,
        times: extents.times as u32,
        block_times: block_times as u32,
        sample_bytes: encoding.bytes() as u32,
        flip: if encoding == Encoding::Ci4Offset { 0x88 } else { 0 },
    };
    let (kernel, at_once) = match strides.time < strides.input {
        true => (MOMENTS_ALONG_TIME, MOMENTS_ALONG_TIME.entry.threads as usize / 32),
        false => (MOMENTS, MOMENTS.entry.threads as usize),
    };
    let blocks = results.div_ceil(at_once).min(1 << 16) as u32;
    // SAFETY: as the caller has it.
    unsafe { gpu.launch(stream, &kernel, blocks, &parameters) }
}

/// Sums of blocks of `block_times` times of complete samples in a GPU's memory, to `sums` there: pairs of u64, sum of `|x|^2` and
/// of `|x|^4`, `[block][channel][input]`. Work is in the order of the samples' stream.
///
/// # Safety
/// There must be room for the sums, and the samples must stay unchanged until the stream has done this work.
///
/// # Errors
/// [`Error::Device`](crate::Error::Device) from the device.
///
/// # Panics
/// When the samples are in host memory.
pub unsafe fn sum_on(
    gpu: &Arc<dyn Gpu>,
    samples: &Samples<'_>,
    encoding: Encoding,
    block_times: usize,
    sums: u64,
) -> Result<()> {
    let (address, stream) = samples.on_device();
    let (extents, strides) = (samples.extents(), samples.strides());
    let block = Block { encoding, extents, strides, block_times };
    // SAFETY: as the caller has it.
    unsafe { launch(gpu, &block, [address, sums], stream) }
}
