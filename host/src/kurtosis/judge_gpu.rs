//! Judgement on a GPU.

use std::{collections::HashMap, sync::Arc};

use bytemuck::Zeroable;
use corrust_gpu::abi::kurtosis::{
    JUDGE_CELLS, JudgeCells, LEVELS, Level, LimitRows, Limits, UNKNOWN,
};
use rayon::prelude::*;

use super::{
    judge::{CountPosition, FEWEST_SAMPLES, Judge},
    plan::Kurtosis,
    sums::{Division, Sums, Verdict},
};
use crate::{
    device::{
        gpu::{Gpu, LockedBytes, Rows, Stream},
        memory::Buffer,
    },
    error::Result,
    sample::Encoding,
    samples::{extents::Strides, view::Samples},
};

/// A judge whose tables are on a GPU, of two stretches of times in turns: limits are made on the host, each once a cell needs it.
#[derive(Debug)]
pub(super) struct JudgeOnGpu {
    gpu: Arc<dyn Gpu>,
    judge: Judge,
    tables: Option<Tables>,
    /// Rows of limits that are on the GPU.
    sent: usize,
    /// Numbers of samples whose rows are on the GPU, and the row of limits of a kind and a tabulated number.
    counts: Vec<u32>,
    rows: HashMap<(usize, i32), u32>,
    /// The stream of the last work on the tables.
    last: Stream,
    stretches: [Stretch; 2],
}

/// Memory of the GPU for all stretches, as [`JudgeCells`] has it.
#[derive(Debug)]
struct Tables {
    kinds: Buffer,
    levels: Buffer,
    rows: Buffer,
    limits: Buffer,
}

/// Memory for the sums and flags of a stretch of times.
#[derive(Debug)]
struct Stretch {
    kurtosis: Kurtosis,
    classes: Buffer,
    /// What comes back: the unknown limits that are wanted, then flags.
    found: Buffer,
    /// Page-locked memory that it comes to.
    brought: Option<LockedBytes>,
    /// Work that is enqueued.
    asked: Option<Asked>,
}

/// Judgement of a stretch that was enqueued.
#[derive(Debug)]
struct Asked {
    stream: Stream,
    division: Division,
    /// Number of valid samples of each cell; none stands for complete samples.
    valid: Vec<u32>,
    /// Numbers of samples that differ.
    counts: Vec<u32>,
    /// What the kernel is given; addresses of tables and marks are put in at each launch.
    parameters: JudgeCells,
    /// Bytes before the flags.
    marks: usize,
}

impl Tables {
    fn new(gpu: &Arc<dyn Gpu>, judge: &Judge, channels: usize, stream: Stream) -> Result<Self> {
        let kinds: Vec<u32> = judge.kinds(channels).map(|kind| kind as u32).collect();
        let levels: Vec<Level> = judge.levels().flatten().copied().collect();
        let tables = Self {
            kinds: Buffer::new(gpu, size_of_val(&kinds[..]))?,
            levels: Buffer::new(gpu, size_of_val(&levels[..]))?,
            rows: Buffer::new(gpu, 0)?,
            limits: Buffer::new(gpu, 0)?,
        };
        tables.kinds.upload(stream, &kinds)?;
        tables.levels.upload(stream, &levels)?;
        Ok(tables)
    }
}

/// Puts values at the start of a buffer that is used in the order of a stream. It becomes as long as they are.
fn put<T: bytemuck::Pod>(buffer: &mut Buffer, stream: Stream, values: &[T]) -> Result<()> {
    let bytes = size_of_val(values);
    if values.is_empty() {
        return Ok(());
    }
    if buffer.bytes() < bytes {
        buffer.gpu().wait(stream)?;
        buffer.reserve(bytes)?;
    }
    buffer.upload(stream, values)
}

impl JudgeOnGpu {
    /// # Errors
    /// As for [`Builder::build`](super::Builder::build); the device's own.
    pub(super) fn new(
        gpu: &Arc<dyn Gpu>,
        judge: Judge,
        encoding: Encoding,
        block_times: usize,
    ) -> Result<Self> {
        let stretch = || {
            let plan = Kurtosis::builder().encoding(encoding).block_times(block_times);
            Ok(Stretch {
                kurtosis: plan.gpu(Some(gpu.clone())).build()?,
                classes: Buffer::new(gpu, 0)?,
                found: Buffer::new(gpu, 0)?,
                brought: None,
                asked: None,
            })
        };
        Ok(Self {
            gpu: gpu.clone(),
            judge,
            tables: None,
            sent: 0,
            counts: Vec::new(),
            rows: HashMap::new(),
            last: Stream::default(),
            stretches: [stretch()?, stretch()?],
        })
    }

    /// Enqueues the judgement of a stretch of samples in the order of their stream: flagged ones become zero where they lie, if
    /// all limits are known. Missing ones are zero there.
    ///
    /// # Safety
    /// The samples are changed, and stay until the verdict was [read](Self::verdict) or [forgotten](Self::forget).
    pub(super) unsafe fn ask(
        &mut self,
        number: usize,
        samples: &Samples<'_>,
        encoding: Encoding,
    ) -> Result<()> {
        self.forget(number)?;
        let stretch = &mut self.stretches[number];
        let division = Division::new(samples, stretch.kurtosis.block_times());
        // Where none is missing they are not counted.
        let valid = if samples.is_complete() { Vec::new() } else { division.valid(samples) };
        let (address, stream) = samples.on_device();
        let cells = division.len();
        let mut parameters = JudgeCells {
            samples: address,
            cells: cells as u64,
            channels: division.channels as u32,
            inputs: division.inputs as u32,
            ..JudgeCells::zeroed()
        };
        let mut counts = Vec::new();
        if cells > 0 {
            place_words(&mut parameters, &division, samples.strides(), encoding);
            parameters.sums = stretch.kurtosis.sum_there(samples)?;
            let classes;
            (counts, classes) = self::classes(&division, &valid);
            put(&mut stretch.classes, stream, &classes)?;
            parameters.classes = if classes.is_empty() { 0 } else { stretch.classes.address() };
        }
        self.launch(number, Asked { stream, division, valid, counts, parameters, marks: 0 })
    }

    /// Waits until the stretch is judged and nothing of the work on it is left, and forgets it.
    pub(super) fn forget(&mut self, number: usize) -> Result<()> {
        match self.stretches[number].asked.take() {
            Some(asked) => self.gpu.wait(asked.stream),
            None => Ok(()),
        }
    }

    /// The verdict on a stretch whose judgement was enqueued; its sums are brought if there is room for them. Waits for its
    /// stream. Where limits were unknown the stretch is judged again: flagged samples are zero for work that is enqueued from now
    /// on.
    ///
    /// # Panics
    /// If it was not [asked](Self::ask) for.
    pub(super) fn verdict(
        &mut self,
        number: usize,
        sums: &mut Option<Sums>,
    ) -> Result<Verdict<'static>> {
        let asked = loop {
            let asked = self.stretches[number].asked.take().expect("a judgement is enqueued");
            self.gpu.wait(asked.stream)?;
            if self.make_wanted(number, asked.marks) {
                break asked;
            }
            self.sent = 0;
            self.launch(number, asked)?;
        };
        let Asked { stream, division, valid, marks, .. } = asked;
        let stretch = &mut self.stretches[number];
        let found = stretch.brought.as_ref().map_or(&[][..], |found| &found[..]);
        let flagged = division.pieces(&found[marks..][..division.len()]);
        if let Some(sums) = sums {
            sums.reset(&division, &valid);
            if division.len() > 0 {
                stretch.kurtosis.fetch(stream, sums)?;
            }
        }
        let row = division.channels * division.inputs;
        Ok(match &valid[..] {
            [] => {
                let all = (row * division.times) as u64;
                // A row of cells is of one block.
                division.verdict(flagged, all, |cells| {
                    (cells.len() * division.range(cells.start / row).len()) as u64
                })
            }
            valid => {
                let all = |cells: &[u32]| cells.iter().map(|&valid| u64::from(valid)).sum();
                division.verdict(flagged, all(valid), |cells| all(&valid[cells]))
            }
        })
    }

    /// Judges by the tables as they are now, and has marks and flags brought.
    fn launch(&mut self, number: usize, mut asked: Asked) -> Result<()> {
        let cells = asked.division.len();
        if cells == 0 {
            self.stretches[number].asked = Some(asked);
            return Ok(());
        }
        let stream = asked.stream;
        // Tables are changed and read in the order of launches.
        if self.last != stream {
            self.gpu.order(self.last, stream)?;
            self.last = stream;
        }
        if self.tables.is_none() {
            let channels = asked.division.channels;
            self.tables = Some(Tables::new(&self.gpu, &self.judge, channels, stream)?);
        }
        if asked.counts != self.counts {
            self.put_rows(&asked.counts, stream)?;
        }
        if self.sent != self.rows.len() {
            self.put_limits(stream)?;
        }
        let Self { gpu, tables, rows, stretches, .. } = self;
        let (tables, stretch) = (tables.as_ref().expect("made above"), &mut stretches[number]);
        let marks = rows.len() * LEVELS as usize;
        let bytes = marks + cells;
        // What was enqueued for the stretch before is done.
        stretch.found.reserve(bytes)?;
        let found = match &mut stretch.brought {
            Some(found) if found.len() >= bytes => found,
            none => none.insert(gpu.locked_bytes(bytes)?),
        };
        let wanted = stretch.found.address();
        asked.marks = marks;
        let parameters = JudgeCells {
            flags: wanted + marks as u64,
            rows: tables.rows.address(),
            kinds: tables.kinds.address(),
            levels: tables.levels.address(),
            limits: tables.limits.address(),
            wanted,
            of_kind: asked.counts.len() as u32,
            ..asked.parameters
        };
        let blocks = cells.div_ceil(JUDGE_CELLS.entry.threads as usize).min(1 << 16) as u32;
        // SAFETY: there is a sum, a class and a flag for each cell, a kind for each channel, a table for each kind, rows for each
        // kind and class, and limits and marks for each of these; the samples may be changed, as the caller of `ask` has it.
        unsafe {
            if marks > 0 {
                gpu.set_rows(stream, wanted, &Rows::one(marks), 0)?;
            }
            gpu.launch(stream, &JUDGE_CELLS, blocks, &parameters)?;
            gpu.copy_out(stream, wanted, &mut found[..bytes])?;
        }
        stretch.asked = Some(asked);
        Ok(())
    }

    /// Makes the limits that are marked. Returns whether there were none.
    fn make_wanted(&self, number: usize, marks: usize) -> bool {
        let found = self.stretches[number].brought.as_ref();
        let found = found.map_or(&[][..], |found| &found[..marks]);
        let mut unknown = Vec::new();
        for (&of, &row) in &self.rows {
            // Rows that are new since then have no marks.
            let marks = found.iter().skip(row as usize * LEVELS as usize).take(LEVELS as usize);
            let marked = marks.enumerate().filter(|(_, mark)| **mark != 0);
            unknown.extend(marked.map(|(entry, _)| (of, entry)));
        }
        unknown.par_iter().for_each(|&(of, entry)| self.judge.make(of, entry));
        unknown.is_empty()
    }

    /// Puts the limits on the GPU, as far as they are made.
    fn put_limits(&mut self, stream: Stream) -> Result<()> {
        const NONE: Limits = Limits { least: UNKNOWN, most: UNKNOWN };
        let Self { judge, tables, rows, sent, .. } = self;
        let mut limits = vec![NONE; rows.len() * LEVELS as usize];
        for (&of, &row) in &*rows {
            let row = &mut limits[row as usize * LEVELS as usize..][..LEVELS as usize];
            for (limits, made) in row.iter_mut().zip(judge.made(of)) {
                *limits = made.map_or(NONE, |made| {
                    let [least, most] = made.map(f64::to_bits);
                    Limits { least, most }
                });
            }
        }
        *sent = 0;
        put(&mut tables.as_mut().expect("made before").limits, stream, &limits)?;
        *sent = rows.len();
        Ok(())
    }

    /// Puts rows of limits for each kind of noise and number of samples on the GPU.
    fn put_rows(&mut self, counts: &[u32], stream: Stream) -> Result<()> {
        let Self { judge, tables, rows, .. } = self;
        let places = counts.iter().map(|&samples| {
            let judged = i64::from(samples) >= FEWEST_SAMPLES;
            (samples, judged.then(|| CountPosition::of(samples.into())))
        });
        let places: Vec<_> = places.collect();
        let mut all = Vec::with_capacity(judge.levels().len() * places.len());
        for kind in 0..judge.levels().len() {
            for &(samples, place) in &places {
                let mut row = |count| {
                    let next = rows.len() as u32;
                    *rows.entry((kind, count)).or_insert(next)
                };
                let mut of = LimitRows { samples: samples.into(), ..LimitRows::zeroed() };
                if let Some(CountPosition { count, beside }) = place {
                    of.row = row(count);
                    of.next = beside.map_or(of.row, |_| row(count + 1));
                    of.beside = beside.unwrap_or_default();
                }
                all.push(of);
            }
        }
        // None are there until all are.
        self.counts.clear();
        put(&mut tables.as_mut().expect("made before").rows, stream, &all)?;
        self.counts.extend(counts);
        Ok(())
    }
}

/// Says which words the samples of a cell are: of samples that lie together in time the longest, else a sample each.
fn place_words(
    parameters: &mut JudgeCells,
    division: &Division,
    strides: Strides,
    encoding: Encoding,
) {
    let Division { block_times, .. } = *division;
    let (size, last) = (encoding.bytes(), division.range(division.blocks() - 1).len());
    let together = [
        parameters.samples as usize,
        strides.channel,
        strides.input,
        block_times * size,
        last * size,
    ];
    let (word, stride) = match strides.time == size {
        true => {
            let fits = |word: &usize| together.iter().all(|place| place.is_multiple_of(*word));
            let word = [16, 4].into_iter().find(fits).unwrap_or(size);
            (word, word)
        }
        false => (size, strides.time),
    };
    *parameters = JudgeCells {
        block_stride: (block_times * strides.time) as u64,
        channel_stride: strides.channel as u64,
        input_stride: strides.input as u64,
        word_stride: stride as u64,
        block_words: (block_times * size / word) as u32,
        last_words: (last * size / word) as u32,
        word: word as u32,
        zero: encoding.zero()[0].into(),
        ..*parameters
    };
}

/// Numbers of samples that differ, and which of them each cell has; of complete samples the first two are those of all blocks but
/// the last, and of that.
fn classes(division: &Division, valid: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let Some(&most) = valid.iter().max() else {
        let last = division.range(division.blocks() - 1).len();
        return (vec![division.block_times as u32, last as u32], Vec::new());
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
