//! Counts of a launch from some of its blocks.
//!
//! Blocks that lie spread over the grid, the first and the last among them, are run by `ptx-sim` without the
//! products of matrices; each stands for as many others. Bytes of device memory are the distinct sectors of
//! a block times the blocks, though not more than lie between the first and the last that any block touched: blocks
//! that read the same bytes find them in the L2 cache.

use ptx_sim::{Launch, Memory, Module, Report, Sample, Touched, Traffic, sample};

use crate::{
    chip::Chip,
    code::Code,
    error::{Error, Result},
    estimate::{Counts, resident_blocks},
};

/// Clusters of a sample at most.
const MOST: u64 = 24;
/// Statements of warps after which a sample takes no more clusters: seconds of a core.
const STATEMENTS: u64 = 6_000_000;
/// Part of the golden ratio: multiples of it spread evenly over the grid, whatever its period.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Launch whose blocks are sampled.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    /// The whole launch.
    pub launch: Launch<'a>,
    /// Blocks of a multiprocessor that the kernel's registers allow, as its PTX asks for.
    pub min_blocks: u32,
    /// Blocks of a cluster.
    pub cluster: u32,
    /// Equal pieces of work that blocks take by tickets, if they do.
    pub tickets: Option<Tickets>,
}

/// Pieces of work of a launch whose blocks take them by tickets. The first block of the sample takes some of them,
/// after which there are no more.
#[derive(Clone, Copy, Debug)]
pub struct Tickets {
    /// Pieces of the launch.
    pub pieces: f64,
    /// Pieces that are left for the sample.
    pub left: f64,
    /// Parts of memory of the launch (channels) for each of those that the sample touches.
    pub parts: f64,
}

impl Sampled<'_> {
    /// Runs the sample and counts for the whole launch.
    ///
    /// # Errors
    /// [`Error::Simulator`] where the kernel makes a mistake; [`Error::DoesNotFit`].
    pub fn count(
        &self,
        module: &Module,
        memory: &Memory,
        code: Option<&Code>,
        chip: &Chip,
    ) -> Result<Counts> {
        let Self { launch, min_blocks, cluster, tickets } = *self;
        let blocks = launch.grid.iter().map(|&n| u64::from(n)).product::<u64>();
        let clusters = (blocks / u64::from(cluster.max(1))).max(1);
        let threads = launch.block.iter().product();
        let resident =
            resident_blocks(chip, code, threads, launch.shared_bytes, min_blocks)?.0.max(1);
        let taken = resident * (launch.shared_bytes + code.map_or(0, |code| code.shared) + 1024);
        let l1_bytes = chip.l1_bytes.saturating_sub(taken) / resident;
        let at_once = u64::from(resident * chip.multiprocessors).min(blocks).max(1);
        let l2_bytes = (chip.l2_bytes / at_once).min(1 << 30) as u32;
        let run = |clusters: &[u64]| {
            sample(module, memory, launch, Sample { clusters, l1_bytes, l2_bytes })
                .map_err(|error| Error::Simulator(error.to_string()))
        };
        let ends = [0, clusters - 1];
        let (mut report, mut traffic) =
            run(&ends[..if tickets.is_some() || clusters == 1 { 1 } else { 2 }])?;
        let mut ran = report.blocks;
        if clusters > 2 && tickets.is_none() {
            let statements: u64 = report.sites.iter().map(|site| site.counts.warps).sum();
            let more = (2 * STATEMENTS / statements.max(1)).min(MOST).min(clusters - 2);
            let mut inner: Vec<u64> = (1..=more)
                .map(|i| match more == clusters - 2 {
                    true => i,
                    false => ((i as f64 * GOLDEN).fract() * clusters as f64) as u64,
                })
                .collect();
            inner.sort_unstable();
            inner.dedup();
            if !inner.is_empty() {
                let (rest, moved) = run(&inner)?;
                // The first and the last stand for themselves where there are others.
                ran = rest.blocks;
                report = rest;
                let ends = std::mem::replace(&mut traffic, moved);
                widen(&mut traffic, &ends);
            }
        }
        let times = match tickets {
            Some(Tickets { pieces, left, .. }) => pieces / left.max(1.0),
            None => blocks as f64 / ran.max(1) as f64,
        };
        let parts = tickets.map_or(1.0, |tickets| tickets.parts);
        Ok(self.counts(&report, &traffic, times, parts, threads))
    }

    fn counts(
        &self,
        report: &Report,
        traffic: &Traffic,
        times: f64,
        parts: f64,
        threads: u32,
    ) -> Counts {
        let blocks = self.launch.grid.iter().map(|&n| f64::from(n)).product::<f64>();
        let mut counts =
            Counts::of(report, threads, self.launch.shared_bytes, self.min_blocks).times(times);
        let sectors: f64 = counts.lines.iter().map(|line| line.sectors).sum();
        let cached = times * traffic.loaded as f64;
        counts.l2_bytes =
            Some(32.0 * ((sectors - cached).max(0.0) + times * traffic.missed as f64));
        let bytes = |of: fn(&Touched) -> &ptx_sim::Span| {
            let spans = traffic.touched.values().map(of);
            spans
                .map(|span| {
                    let extent = (span.end - span.first) as f64;
                    (32.0 * times * span.sectors as f64).min(parts * extent)
                })
                .sum::<f64>()
        };
        let (read, written) = (bytes(|touched| &touched.read), bytes(|touched| &touched.written));
        // Of a sector that is written in part the rest is read, and written with it.
        let partial = 2 * traffic.left;
        // Lines that L2 has lost come again, unless other blocks need them, too, as pieces do that are taken by tickets.
        let alone = |touched: &&Touched| {
            let extent = (touched.read.end - touched.read.first) as f64;
            let bytes = 32.0 * times * touched.read.sectors as f64;
            self.tickets.is_none() && bytes <= 1.5 * parts * extent
        };
        let lines = traffic.touched.values().filter(alone).map(|touched| touched.repeated);
        let again = times * (partial + 128 * lines.sum::<u64>()) as f64;
        counts.dram_bytes = Some(read + written + again);
        counts.written = written / (read + written).max(1.0);
        counts.blocks = blocks;
        counts.tiles = self.tickets.map(|tickets| tickets.pieces);
        counts
    }
}

/// Widens the extents of a sample to those of other blocks, which are not counted.
fn widen(traffic: &mut Traffic, other: &Traffic) {
    for (base, touched) in &other.touched {
        let mine = traffic.touched.entry(*base).or_default();
        for (mine, other) in
            [(&mut mine.read, &touched.read), (&mut mine.written, &touched.written)]
        {
            if mine.end > 0 && other.end > 0 {
                mine.first = mine.first.min(other.first);
                mine.end = mine.end.max(other.end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles words: a block for 32 of them, of which the launch has many.
    const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 data) {
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r4, %r3, 32, %r1;
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.u32 %r2, %r2, %r2;
    st.global.u32 [%rd3], %r2;
    ret;
}";

    #[test]
    fn some_blocks_stand_for_all() {
        let module = Module::parse(PTX).unwrap();
        let memory = Memory::new();
        let blocks = 10_000;
        let data = memory.alloc_zeros(128 * u64::from(blocks));
        let params = data.to_le_bytes();
        let launch = Launch {
            entry: "twice",
            grid: [blocks, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            params: &params,
            ..Launch::default()
        };
        let sampled = Sampled { launch, min_blocks: 1, cluster: 1, tickets: None };
        let chip = Chip::named("a100").unwrap();
        let counts = sampled.count(&module, &memory, None, &chip).unwrap();
        let whole = Counts::of(&ptx_sim::launch(&module, &memory, launch).unwrap(), 32, 0, 1);
        assert_eq!(counts.blocks, whole.blocks);
        for (some, all) in counts.lines.iter().zip(&whole.lines) {
            assert!((some.warps / all.warps - 1.0).abs() < 1e-9, "{some:?} {all:?}");
            assert!((some.sectors - all.sectors).abs() <= 1e-6 * all.sectors);
        }
        // Each word goes both ways once.
        let bytes = 2.0 * 128.0 * f64::from(blocks);
        assert!((counts.dram_bytes.unwrap() / bytes - 1.0).abs() < 1e-9);
    }
}
