//! Kernels of rows of time that are launched with [`Correlate`]: whatever the abi declares as a [`RowCorrelator`].

use std::sync::Arc;

use corrust_gpu::abi::{
    Target,
    correlate::{self, Correlate, ROW_CORRELATORS, RowCorrelator, mode},
};

use super::{
    codes::Companions,
    family::{Family, Launch, Work},
};
use crate::{
    device::gpu::{Facts, Gpu, Stream},
    error::Result,
    kernels::correlate::Kernel,
    reorder::native::Native,
    sample::Encoding,
    samples::shape::Shape,
};

/// Kernels of one name, at least one.
#[derive(Clone)]
pub(super) struct Rows {
    of: Kernel,
    kernels: Vec<&'static RowCorrelator>,
}

impl Rows {
    /// The kernels that are declared for a name, if there are any.
    pub(super) fn of(of: Kernel) -> Option<Self> {
        let all = ROW_CORRELATORS.iter().copied().flatten();
        let kernels: Vec<_> = all.filter(|declared| declared.name == of.name()).collect();
        (!kernels.is_empty()).then_some(Self { of, kernels })
    }

    /// The kernel that reads an encoding as it is.
    fn reading(&self, encoding: correlate::Encoding) -> Option<&'static RowCorrelator> {
        self.kernels.iter().copied().find(|declared| declared.encoding == encoding)
    }
}

impl Family for Rows {
    fn target(&self) -> Target {
        self.kernels[0].kernel.entry.target
    }

    fn tile(&self) -> (u32, u32) {
        self.kernels[0].tile
    }

    fn form(&self, encoding: Encoding) -> Native {
        match self.reading(correlate::Encoding::Ci4) {
            Some(_) => Native::Nibbles,
            None => Native::of(encoding),
        }
    }

    fn overlaps(&self, facts: &Facts) -> bool {
        /// Bytes of each block's shared memory that the hardware keeps for itself.
        const KEPT: u32 = 1024;
        let entry = self.kernels[0].kernel.entry;
        2 * (entry.shared_bytes + KEPT) <= facts.shared_bytes + KEPT
    }

    fn sums_rows(&self) -> bool {
        self.kernels[0].sums_rows
    }

    fn begin(&self, gpu: &Arc<dyn Gpu>, shape: &Shape, gates: usize) -> Result<Box<dyn Launch>> {
        use correlate::Encoding::{B1, Cf16, Ci4, Ci4Offset, Ci8};
        let read = match (self.form(shape.encoding), shape.encoding) {
            (Native::Nibbles, _) => [Ci4, Ci4Offset],
            (_, Encoding::Cf16) => [Cf16; 2],
            (_, Encoding::B1 | Encoding::B2) => [B1; 2],
            _ => [Ci8; 2],
        };
        let [plain, offset] =
            read.map(|encoding| self.reading(encoding).expect("an encoding that the kernels take"));
        let codes = plain.codes.map(|codes| Companions::new(gpu, self.of, codes, gates));
        Ok(Box::new(OfRows {
            gpu: gpu.clone(),
            kernels: [plain, offset],
            codes: codes.transpose()?,
        }))
    }
}

/// Launches for one encoding.
struct OfRows {
    gpu: Arc<dyn Gpu>,
    /// The kernel for values, and the one for excess-8 nibbles, which may be another.
    kernels: [&'static RowCorrelator; 2],
    codes: Option<Companions>,
}

impl Launch for OfRows {
    fn launch(&mut self, work: &Work<'_>) -> Result<()> {
        let mut parameters = work.correlate;
        if let Some(codes) = &mut self.codes {
            codes.seed(work)?;
            parameters.mode = mode::ADD;
        }
        let kernel = self.kernels[usize::from(work.excess != 0)];
        // SAFETY: the samples are rows of `row_stride` bytes, the visibilities the shape's.
        unsafe { self.gpu.launch(work.stream, &kernel.kernel, work.tiles, &parameters) }
    }

    fn reads_words(&self, bits: u32) -> bool {
        self.codes.as_ref().is_some_and(|codes| codes.reads_words(bits))
    }

    fn launch_words(&mut self, work: &Work<'_>, times: usize) -> Result<()> {
        let codes = self.codes.as_mut().expect("words are of codes");
        let kernel = codes.seed_words(work, times)?;
        let parameters = Correlate { mode: mode::ADD, ..work.correlate };
        // SAFETY: the words are rows of `row_stride` bytes, the visibilities the shape's.
        unsafe { self.gpu.launch(work.stream, kernel, work.tiles, &parameters) }
    }

    fn check(&self, gate: usize, stream: Stream) -> Result<()> {
        self.codes.as_ref().map_or(Ok(()), |codes| codes.check(gate, stream))
    }
}
