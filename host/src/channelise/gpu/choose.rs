//! Choice of a kernel and the sizes of its blocks.

use std::sync::Arc;

use corrust_gpu::abi::{
    Kernel as Entry,
    channelise::{
        BINS, CLUSTER_INPUTS, CLUSTERS, COLUMNS, COLUMNS_I8, Channelise, FUSED, FUSED_I8, FUSED_OF,
        FUSED_SPECTRA, FUSED_THREADS, LEVELS_SIZE, SPLIT_OF, Split, is_default_pfb, is_fused,
        output, spectrum_bytes, split_of,
    },
};

use crate::{
    channelise::shape::Shape,
    device::gpu::Gpu,
    error::{Error, Result},
    kernels::channelise::Kernel,
};

/// Most inputs of a block of the fused kernel.
const MOST_INPUTS: usize = 16;

/// Most points of a column of the two-pass kernel.
const MOST_SPAN: usize = 512;
/// Fewest points of a transform that [`split_of`] splits.
const LEAST_SPLIT: usize = 1 << 13;
/// Columns that a block of it may have, from most to least: 32 real samples are four sectors of memory.
const COLUMNS_OF_BLOCK: [usize; 4] = [16, 8, 4, 2];

/// Inputs, or columns, of a block with which several of them on a multiprocessor are better than one with more:
/// four int8 samples are 8 bytes, which are stored together.
const ENOUGH: usize = 4;

/// Shared memory of each block that the hardware keeps for itself.
const KEPT: usize = 1024;

/// Launch of the fused kernel.
pub(super) struct Geometry {
    pub(super) kernel: Entry<Channelise>,
    /// Inputs of a block.
    pub(super) group: usize,
}

/// Kernel of a list for `residues` residues.
fn of(kernels: &[(u32, Entry<Channelise>)], residues: u32) -> Option<&Entry<Channelise>> {
    kernels.iter().find(|(of, _)| *of == residues).map(|(_, kernel)| kernel)
}

/// The launch of the fused kernel for a shape, if it takes it; `known`: for samples that [`is_default_pfb`].
pub(super) fn fused(gpu: &Arc<dyn Gpu>, shape: &Shape, known: bool) -> Option<Geometry> {
    if !is_fused(shape.channels as u32) {
        return None;
    }
    let kernel =
        if known { of(FUSED_OF, shape.residues() as u32).unwrap_or(&FUSED_I8) } else { &FUSED };
    let of_input = (FUSED_SPECTRA * spectrum_bytes(shape.channels as u32)) as usize;
    let (kernel, fit) = fit(gpu, kernel, of_input, &groups(shape), &[4, 2])?;
    Some(Geometry { kernel, group: fit })
}

/// The launch of the fused kernel in clusters, if it takes these samples and makes these spectra.
pub(super) fn together(gpu: &Arc<dyn Gpu>, p: &Channelise) -> Option<Geometry> {
    let takes = is_default_pfb(p)
        && p.inputs.is_multiple_of(CLUSTER_INPUTS)
        && p.spectra.is_multiple_of(16)
        && p.output == output::CI8
        && p.value_stride == 1
        && p.spectrum_stride < 1 << 30
        && p.places == 0
        && p.inverted == 0;
    let kernel = of(CLUSTERS, p.residues).filter(|_| takes)?;
    let facts = gpu.facts();
    let fits = facts.runs(kernel.entry.target) && kernel.entry.shared_bytes <= facts.shared_bytes;
    let group = (CLUSTER_INPUTS / kernel.entry.cluster) as usize;
    fits.then_some(Geometry { kernel: *kernel, group })
}

/// Numbers of inputs that a block may have, from most to least.
fn groups(shape: &Shape) -> Vec<usize> {
    let most = shape.inputs.next_multiple_of(2).min(MOST_INPUTS);
    (2..=most).rev().filter(|group| group % 4 == 0 || *group == 2).collect()
}

/// The launch of `kernel` with the first of `counts` for which it has shared memory: with as many of `blocks` on
/// a multiprocessor as leave each room for [`ENOUGH`], or with one alone.
fn fit(
    gpu: &Arc<dyn Gpu>,
    kernel: &Entry<Channelise>,
    bytes: usize,
    counts: &[usize],
    blocks: &[usize],
) -> Option<(Entry<Channelise>, usize)> {
    let most = gpu.facts().shared_bytes as usize;
    let find = |blocks: usize| {
        let room = (most + KEPT) / blocks - KEPT;
        counts.iter().copied().find(|count| count * bytes <= room)
    };
    let alone = find(1)?;
    let mut several = blocks.iter().filter_map(|&blocks| Some((blocks, find(blocks)?)));
    let enough = several.find(|&(_, count)| count >= ENOUGH.min(alone));
    let (blocks, count) = enough.unwrap_or((1, alone));
    let mut kernel = kernel.shared_bytes((count * bytes) as u32);
    kernel.entry.threads = FUSED_THREADS / blocks as u32;
    Some((kernel, count))
}

/// Launches of the two-pass kernel.
pub(super) struct TwoPass {
    pub(super) of_columns: Entry<Channelise>,
    pub(super) of_bins: Entry<Channelise>,
    pub(super) split: Split,
}

/// The launches of the two-pass kernel for a shape, if it takes it; `known`: for samples that [`is_default_pfb`].
pub(super) fn two_pass(gpu: &Arc<dyn Gpu>, shape: &Shape, known: bool) -> Option<TwoPass> {
    let size = shape.channels;
    let kernel = if known { &COLUMNS_I8 } else { &COLUMNS };
    if size.is_power_of_two() && size >= LEAST_SPLIT {
        let split = split_of(size as u32);
        let [of_columns, of_bins] = split.shared_bytes(size as u32);
        let most = gpu.facts().shared_bytes as usize + KEPT;
        let mut blocks = split.blocks.iter().zip([of_columns, of_bins]);
        let fits = blocks.all(|(&blocks, bytes)| blocks as usize * (bytes as usize + KEPT) <= most);
        if fits && shape.inputs >= split.group as usize {
            let own = SPLIT_OF.iter().find(|(of, _)| known && *of == shape.residues() as u32);
            let any = || {
                let mut kernels = [kernel.shared_bytes(of_columns), BINS.shared_bytes(of_bins)];
                for (kernel, blocks) in kernels.iter_mut().zip(split.blocks) {
                    kernel.entry.threads = FUSED_THREADS / blocks;
                }
                kernels
            };
            let [of_columns, of_bins] = own.map_or_else(any, |&(_, kernels)| kernels);
            return Some(TwoPass { of_columns, of_bins, split });
        }
    }
    // As many columns as a column has points, or more where points are many.
    let all = (1_usize << size.ilog2().div_ceil(2)).max((size / MOST_SPAN).next_power_of_two());
    let span = size / all;
    if !size.is_multiple_of(all) || !is_fused(span as u32) {
        return None;
    }
    let of_column = 2 * FUSED_SPECTRA as usize * spectrum_bytes(span as u32) as usize;
    let (of_columns, columns) = fit(gpu, kernel, of_column, &COLUMNS_OF_BLOCK, &[2])?;
    let of_input = 2 * spectrum_bytes(all as u32) as usize;
    let bins = |together: u32, blocks: &[usize]| {
        let (kernel, group) =
            fit(gpu, &BINS, together as usize * of_input, &groups(shape), blocks)?;
        Some((kernel, group, together))
    };
    // Spectra share twiddles, but several blocks on a multiprocessor are worth more.
    let several =
        bins(FUSED_SPECTRA, &[4, 2]).filter(|(kernel, ..)| kernel.entry.threads < FUSED_THREADS);
    let (of_bins, group, together) = several.or_else(|| bins(1, &[2]))?;
    let blocks = [&of_columns, &of_bins].map(|kernel| FUSED_THREADS / kernel.entry.threads);
    let split =
        Split { span: span as u32, columns: columns as u32, group: group as u32, together, blocks };
    Some(TwoPass { of_columns, of_bins, split })
}

pub(super) fn choose(gpu: &Arc<dyn Gpu>, shape: &Shape, wanted: Kernel) -> Result<Kernel> {
    let levels = shape.channels <= LEVELS_SIZE as usize
        && 8 * shape.channels <= gpu.facts().shared_bytes as usize;
    let takes = |kernel| match kernel {
        Kernel::Fused => fused(gpu, shape, false).is_some(),
        Kernel::TwoPass => two_pass(gpu, shape, false).is_some(),
        _ => levels,
    };
    let kernels = [Kernel::Fused, Kernel::TwoPass, Kernel::Levels];
    let candidates = match wanted {
        Kernel::Auto => &kernels[..],
        _ if kernels.contains(&wanted) => &[wanted],
        _ => {
            return Err(Error::invalid(format!(
                "kernel {wanted} runs on a CPU: expected auto, fused, two-pass or levels on {}",
                gpu.facts().name
            )));
        }
    };
    candidates.iter().copied().find(|&kernel| takes(kernel)).ok_or_else(|| {
        Error::invalid(format!(
            "kernel {wanted} does not make {} channels on {}: expected kernel auto",
            shape.channels,
            gpu.facts().name
        ))
    })
}
