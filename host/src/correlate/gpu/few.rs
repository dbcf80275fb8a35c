//! Kernels of few inputs: a warp has all baselines of some channels.

use std::sync::Arc;

use corrust_gpu::abi::{
    self, Target,
    correlate::{
        Correlate, CorrelateFew, FEW_CORRELATORS, FEW_INPUTS, FEW_STAGE_BYTES, FEW_WARPS, mode,
    },
};

use super::{
    family::{Family, Launch, Work},
    piece::Piece,
};
use crate::{
    correlate::baselines::baselines,
    device::gpu::{Gpu, Rows},
    error::Result,
    kernels::correlate::Kernel,
    layout::Layout,
    reorder::native::Native,
    sample::Encoding,
    samples::shape::Shape,
};

/// Kernels by encoding, order and size: [`FEW_CORRELATORS`].
pub(super) struct Few;

impl Few {
    /// The kernels of the name, if it is theirs.
    pub(super) fn of(of: Kernel) -> Option<Self> {
        (of == Kernel::Few).then_some(Self)
    }
}

/// The kernels of samples of a shape, for 16, 32 and 64 inputs.
fn sizes(shape: &Shape) -> &'static [abi::Kernel<CorrelateFew>] {
    static KERNELS: [[&[abi::Kernel<CorrelateFew>]; 2]; 2] = FEW_CORRELATORS;
    KERNELS[usize::from(shape.encoding.bytes() == 1)][usize::from(shape.layout == Layout::Cnt)]
}

impl Family for Few {
    fn target(&self) -> Target {
        Target::Sm80
    }

    fn tile(&self) -> (u32, u32) {
        (FEW_INPUTS, FEW_INPUTS)
    }

    fn most_inputs(&self, shape: &Shape) -> usize {
        8 << sizes(shape).len()
    }

    fn form(&self, encoding: Encoding) -> Native {
        match encoding {
            Encoding::Ci4 | Encoding::Ci4Offset => Native::Nibbles,
            _ => Native::of(encoding),
        }
    }

    fn begin(&self, gpu: &Arc<dyn Gpu>, shape: &Shape, _gates: usize) -> Result<Box<dyn Launch>> {
        let size = shape.inputs.div_ceil(16).next_power_of_two().ilog2();
        Ok(Box::new(OfFew {
            gpu: gpu.clone(),
            shape: *shape,
            kernel: &sizes(shape)[size as usize],
            size,
        }))
    }
}

/// Launches for one shape.
struct OfFew {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    kernel: &'static abi::Kernel<CorrelateFew>,
    /// Logarithm of the kernel's most inputs by 16.
    size: u32,
}

impl Launch for OfFew {
    fn takes(&self, _piece: &Piece<'_>) -> bool {
        self.shape.layout == Layout::Tcn
    }

    fn launch(&mut self, work: &Work<'_>) -> Result<()> {
        let &Work { stream, piece, excess, .. } = work;
        let Correlate { samples, visibilities, row_sums, inputs, mut mode, .. } = work.correlate;
        let bytes = self.shape.encoding.bytes() as u32;
        let (channels, times) = (piece.channels() as u32, piece.times() as u32);
        let stride = match self.shape.layout {
            Layout::Tcn => self.shape.bytes_per_time() as u64,
            Layout::Cnt => work.correlate.row_stride,
        };
        // All that addresses are multiples of.
        let aligned = samples | stride | u64::from(inputs * bytes);
        let unit = [16, 4].into_iter().find(|unit| aligned.is_multiple_of(*unit));
        let groups = channels.div_ceil(4 >> self.size);
        let stages = times.div_ceil(FEW_STAGE_BYTES / FEW_INPUTS / bytes);
        let together = self.gpu.facts().multiprocessors * self.kernel.entry.min_blocks * FEW_WARPS;
        let slice_stages = slice_stages(groups, stages, together);
        let slices = stages.div_ceil(slice_stages);
        if slices > 1 && mode == mode::STORE {
            let sums = Rows::one(8 * baselines(self.shape.inputs) * piece.channels());
            let rows = Rows::one((4 * inputs * channels) as usize);
            // SAFETY: the sums of the piece's channels.
            unsafe {
                self.gpu.set_rows(stream, visibilities, &sums, 0)?;
                self.gpu.set_rows(stream, row_sums, &rows, 0)?;
            }
            mode = mode::ADD;
        }
        let parameters = CorrelateFew {
            samples,
            visibilities,
            row_sums,
            stride,
            times,
            inputs,
            channels,
            slices,
            slice_stages,
            unit: unit.map_or(bytes, |unit| unit as u32),
            excess,
            mode,
        };
        let blocks = (groups * slices).div_ceil(FEW_WARPS);
        // SAFETY: the samples are the piece's, the sums the shape's.
        unsafe { self.gpu.launch(stream, self.kernel, blocks, &parameters) }
    }
}

/// Stages of the slices that the times of `groups` groups of channels are cut into, for a GPU that has `together`
/// warps at a time: as many rounds as there are take the least time.
fn slice_stages(groups: u32, stages: u32, together: u32) -> u32 {
    /// Stages that a warp's start and end take.
    const ENDS: u32 = 6;
    const MOST_SLICES: u32 = 256;
    let cost = |slice: u32| {
        let warps = u64::from(groups) * u64::from(stages.div_ceil(slice));
        warps.div_ceil(u64::from(together.max(1))) * u64::from(slice + ENDS)
    };
    let slices = (1..=MOST_SLICES.min(stages.max(1))).map(|slices| stages.max(1).div_ceil(slices));
    slices.min_by_key(|&slice| cost(slice)).unwrap_or(1)
}
