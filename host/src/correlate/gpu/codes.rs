//! Codes that packed kernels multiply in place of values, and the offset that they leave.

use std::sync::Arc;

use corrust_gpu::abi::{
    self,
    correlate::{
        Codes, Correlate, OFFSET, Offset, PACKED_TIMES, RUNNING_SUMS, RunningSums, WORD_SUMS,
    },
};

use super::family::Work;
use crate::{
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::Buffer,
    },
    error::{Error, Result},
    kernels::correlate::Kernel,
};

/// Running sums of codes, and the count of values that are none.
pub(super) struct Companions {
    gpu: Arc<dyn Gpu>,
    of: Kernel,
    codes: Codes,
    /// Running sums and differences of each input's codes, pairs of i32.
    sums: Buffer,
    /// Number of words of each gate's integration that held a value of too many bits: u64s, undefined before its first
    /// samples.
    beyond: Buffer,
}

impl Companions {
    pub(super) fn new(gpu: &Arc<dyn Gpu>, of: Kernel, codes: Codes, gates: usize) -> Result<Self> {
        let (sums, beyond) = (Buffer::new(gpu, 0)?, Buffer::new(gpu, 8 * gates)?);
        Ok(Self { gpu: gpu.clone(), of, codes, sums, beyond })
    }

    /// Whether there is a kernel of words of as many bits.
    pub(super) fn reads_words(&self, bits: u32) -> bool {
        self.codes.words.is_some() && self.codes.bits == bits
    }

    /// Seeds the visibilities of native samples with what the offset of their codes makes the products miss.
    pub(super) fn seed(&mut self, work: &Work<'_>) -> Result<()> {
        let times = (work.correlate.row_bytes / 2).next_multiple_of(PACKED_TIMES);
        self.seed_by(work, &RUNNING_SUMS, times)
    }

    /// [`seed`](Self::seed) of words of `times` times; returns the kernel that multiplies them.
    pub(super) fn seed_words(
        &mut self,
        work: &Work<'_>,
        times: usize,
    ) -> Result<&abi::Kernel<Correlate>> {
        self.seed_by(work, &WORD_SUMS, times as u32)?;
        Ok(self.codes.words.as_ref().expect("a kernel of words"))
    }

    fn seed_by(
        &mut self,
        work: &Work<'_>,
        running_sums: &abi::Kernel<RunningSums>,
        times: u32,
    ) -> Result<()> {
        let Work { stream, piece, correlate, fresh, .. } = *work;
        let Self { gpu, codes, sums, beyond, .. } = self;
        let channels = piece.channels() as u32;
        let beyond = beyond.address() + 8 * piece.gate as u64;
        if fresh {
            // SAFETY: the gate's count.
            unsafe { gpu.set_rows(stream, beyond, &Rows::one(8), 0)? };
        }
        let rows = channels * correlate.inputs;
        sums.reserve(8 * rows as usize)?;
        let parameters = RunningSums {
            samples: correlate.samples,
            sums: sums.address(),
            beyond,
            row_stride: correlate.row_stride,
            row_bytes: correlate.row_bytes,
            rows,
            bits: codes.bits,
            reserved: 0,
        };
        let blocks = rows.div_ceil(running_sums.entry.threads / 32).min(1 << 16);
        // SAFETY: a pair of sums for each row of the samples, and a count.
        unsafe { gpu.launch(stream, running_sums, blocks, &parameters)? };
        let parameters = Offset {
            sums: sums.address(),
            visibilities: correlate.visibilities,
            inputs: correlate.inputs,
            channels,
            times,
            bits: codes.bits,
            complement: codes.complement.into(),
            mode: correlate.mode,
        };
        // SAFETY: the sums made above, the visibilities those of the kernel that adds to them.
        unsafe { gpu.launch(stream, &OFFSET, rows.min(1 << 16), &parameters) }
    }

    /// Checks that no sample of a gate had a value of more bits than the codes.
    pub(super) fn check(&self, gate: usize, stream: Stream) -> Result<()> {
        let mut count = [0_u64];
        let address = self.beyond.address() + 8 * gate as u64;
        // SAFETY: the gate's count.
        unsafe { self.gpu.download(stream, address, bytemuck::cast_slice_mut(&mut count))? };
        if count[0] == 0 {
            return Ok(());
        }
        let (bits, limit) = (self.codes.bits, 1 << (self.codes.bits - 1));
        Err(Error::invalid(format!(
            "kernel {}: samples of more than {bits} {} since the last dump, expected values {} to {}",
            self.of,
            if bits == 1 { "bit" } else { "bits" },
            -limit,
            limit - 1
        )))
    }
}
