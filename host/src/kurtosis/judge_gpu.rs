//! Judgement on a GPU.

use std::{collections::HashMap, sync::Arc};

use bytemuck::Zeroable;
use corrust_gpu::abi::kurtosis::{JUDGING, Judging, LEVELS, Level, Rule, UNKNOWN};
use rayon::prelude::*;

use super::{
    judge::{CountPosition, FEWEST_SAMPLES, Judge},
    sums::Division,
};
use crate::{
    device::{
        gpu::{Gpu, LockedBytes, Rows, Stream},
        memory::Buffer,
    },
    error::Result,
};

/// A judge whose tables are on a GPU: limits are made on the host, each once a cell needs it.
#[derive(Debug)]
pub(super) struct JudgeOnGpu {
    gpu: Arc<dyn Gpu>,
    judge: Judge,
    tables: Option<Tables>,
    /// Rows of limits that are on the GPU.
    sent: usize,
    /// Numbers of samples that have rules, and the row of limits of a kind and a tabulated number.
    counts: Vec<u32>,
    rows: HashMap<(usize, i32), u32>,
    /// Page-locked memory for what comes back.
    found: Option<LockedBytes>,
}

/// Memory of the GPU, as [`Judging`] has it.
#[derive(Debug)]
struct Tables {
    kinds: Buffer,
    levels: Buffer,
    rules: Buffer,
    limits: Buffer,
    classes: Buffer,
    /// What comes back: the unknown limits that are wanted, then flags.
    found: Buffer,
}

impl Tables {
    fn new(gpu: &Arc<dyn Gpu>, judge: &Judge, channels: usize, stream: Stream) -> Result<Self> {
        let new = || Buffer::new(gpu, 0);
        let kinds: Vec<u32> = judge.kinds(channels).map(|kind| kind as u32).collect();
        let levels: Vec<Level> = judge.levels().flatten().copied().collect();
        let tables = Self {
            kinds: Buffer::new(gpu, size_of_val(&kinds[..]))?,
            levels: Buffer::new(gpu, size_of_val(&levels[..]))?,
            rules: new()?,
            limits: new()?,
            classes: new()?,
            found: new()?,
        };
        tables.kinds.upload(stream, &kinds)?;
        tables.levels.upload(stream, &levels)?;
        Ok(tables)
    }
}

/// Puts values at the start of a buffer, which becomes as long as they are.
fn put<T: bytemuck::Pod>(buffer: &mut Buffer, stream: Stream, values: &[T]) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    buffer.reserve(size_of_val(values))?;
    buffer.upload(stream, values)
}

impl JudgeOnGpu {
    pub(super) fn new(gpu: Arc<dyn Gpu>, judge: Judge) -> Self {
        let (counts, rows) = (Vec::new(), HashMap::new());
        Self { gpu, judge, tables: None, sent: 0, counts, rows, found: None }
    }

    /// Judges sums on the GPU, of cells with the `valid` numbers of valid samples; none of them stands for complete samples.
    /// Returns flags, 0 or 1 `[block][channel][input]`. Waits for the stream, which makes the sums.
    pub(super) fn flags(
        &mut self,
        division: &Division,
        valid: &[u32],
        sums: u64,
        stream: Stream,
    ) -> Result<&[u8]> {
        let cells = division.len();
        if cells == 0 {
            return Ok(&[]);
        }
        if self.tables.is_none() {
            self.tables = Some(Tables::new(&self.gpu, &self.judge, division.channels, stream)?);
        }
        let (counts, classes) = classes(division, valid);
        let tables = self.tables.as_mut().expect("made above");
        put(&mut tables.classes, stream, &classes)?;
        if counts != self.counts {
            self.put_rules(counts, stream)?;
        }
        if self.sent != self.rows.len() {
            self.put_limits(stream)?;
        }
        let marks = self.rows.len() * LEVELS as usize;
        loop {
            self.launch(division, !classes.is_empty(), sums, stream)?;
            if self.make_wanted() {
                let found = self.found.as_ref().map_or(&[][..], |found| &found[..]);
                return Ok(&found[marks..marks + cells]);
            }
            self.put_limits(stream)?;
        }
    }

    /// Judges by the tables that are on the GPU, and waits for marks and flags.
    fn launch(
        &mut self,
        division: &Division,
        classes: bool,
        sums: u64,
        stream: Stream,
    ) -> Result<()> {
        let Self { gpu, tables, counts, rows, found, .. } = self;
        let tables = tables.as_mut().expect("made before");
        let (cells, marks) = (division.len(), rows.len() * LEVELS as usize);
        let bytes = marks + cells;
        tables.found.reserve(bytes)?;
        let found = match found {
            Some(found) if found.len() >= bytes => found,
            none => none.insert(gpu.locked_bytes(bytes)?),
        };
        let wanted = tables.found.address();
        let parameters = Judging {
            sums,
            flags: wanted + marks as u64,
            classes: if classes { tables.classes.address() } else { 0 },
            rules: tables.rules.address(),
            kinds: tables.kinds.address(),
            levels: tables.levels.address(),
            limits: tables.limits.address(),
            wanted,
            cells: cells as u64,
            channels: division.channels as u32,
            inputs: division.inputs as u32,
            of_kind: counts.len() as u32,
            reserved: 0,
        };
        let blocks = cells.div_ceil(JUDGING.entry.threads as usize).min(1 << 16) as u32;
        // SAFETY: there is a sum, a class and a flag for each cell, a kind for each channel, a table for each kind, a rule for
        // each kind and class, and a row of limits and marks for each of the rules' rows.
        unsafe {
            if marks > 0 {
                gpu.set_rows(stream, wanted, &Rows::one(marks), 0)?;
            }
            gpu.launch(stream, &JUDGING, blocks, &parameters)?;
            gpu.copy_out(stream, wanted, &mut found[..bytes])?;
        }
        gpu.wait(stream)
    }

    /// Makes the limits that are marked. Returns whether there were none.
    fn make_wanted(&self) -> bool {
        let found = self.found.as_ref().map_or(&[][..], |found| &found[..]);
        let mut unknown = Vec::new();
        for (&of, &row) in &self.rows {
            let marks = found[row as usize * LEVELS as usize..].iter().take(LEVELS as usize);
            let marked = marks.enumerate().filter(|(_, mark)| **mark != 0);
            unknown.extend(marked.map(|(entry, _)| (of, entry)));
        }
        unknown.par_iter().for_each(|&(of, entry)| self.judge.make(of, entry));
        unknown.is_empty()
    }

    /// Puts the limits on the GPU, as far as they are made.
    fn put_limits(&mut self, stream: Stream) -> Result<()> {
        let Self { judge, tables, rows, sent, .. } = self;
        let mut limits = vec![[UNKNOWN; 2]; rows.len() * LEVELS as usize];
        for (&of, &row) in &*rows {
            let row = &mut limits[row as usize * LEVELS as usize..][..LEVELS as usize];
            for (limits, made) in row.iter_mut().zip(judge.made(of)) {
                *limits = made.map_or([UNKNOWN; 2], |made| made.map(f64::to_bits));
            }
        }
        *sent = 0;
        put(&mut tables.as_mut().expect("made before").limits, stream, &limits)?;
        *sent = rows.len();
        Ok(())
    }

    /// Puts a rule for each kind of noise and number of samples on the GPU.
    fn put_rules(&mut self, counts: Vec<u32>, stream: Stream) -> Result<()> {
        let Self { judge, tables, rows, .. } = self;
        let places = counts.iter().map(|&samples| {
            let judged = i64::from(samples) >= FEWEST_SAMPLES;
            (samples, judged.then(|| CountPosition::of(samples.into())))
        });
        let places: Vec<_> = places.collect();
        let mut rules = Vec::with_capacity(judge.levels().len() * places.len());
        for kind in 0..judge.levels().len() {
            for &(samples, place) in &places {
                let mut row = |count| {
                    let next = rows.len() as u32;
                    *rows.entry((kind, count)).or_insert(next)
                };
                let mut rule = Rule { samples: samples.into(), ..Rule::zeroed() };
                if let Some(CountPosition { count, beside }) = place {
                    rule.row = row(count);
                    rule.next = beside.map_or(rule.row, |_| row(count + 1));
                    rule.beside = beside.unwrap_or_default();
                }
                rules.push(rule);
            }
        }
        // None are there until all are.
        self.counts.clear();
        put(&mut tables.as_mut().expect("made before").rules, stream, &rules)?;
        self.counts = counts;
        Ok(())
    }
}

/// Numbers of samples that differ, and which of them each cell has; of complete samples the first two are those of all blocks but
/// the last, and of that.
fn classes(division: &Division, valid: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let Division { times, block_times, .. } = *division;
    let Some(&most) = valid.iter().max() else {
        let last = times - (division.blocks() - 1) * block_times;
        return (vec![block_times as u32, last as u32], Vec::new());
    };
    let mut numbers = vec![None; most as usize + 1];
    valid.iter().for_each(|&samples| numbers[samples as usize] = Some(0));
    let mut counts = Vec::new();
    for (samples, number) in (0..).zip(&mut numbers) {
        if let Some(number) = number {
            *number = counts.len() as u32;
            counts.push(samples);
        }
    }
    let class = |&samples: &u32| numbers[samples as usize].unwrap_or_default();
    (counts, valid.iter().map(class).collect())
}
