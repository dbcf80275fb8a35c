//! The sums of a dump.

use std::ops::Range;

use corrust_host::{
    Correlator, Error, Result, Samples,
    correlate::{DROP, Dump},
    samples::Shape,
};
use corrust_recordings::{formats::Block, run::Folding};

/// Bytes of missing samples that are fed at a time.
const NOTHING_BYTES: usize = 1 << 22;

/// Callback for a dump that is over.
pub(super) type Done<'a> = &'a mut dyn FnMut(&LiveDump) -> Result<()>;

/// A dump of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveDump {
    /// Its first time, counted from timestamp 0: a multiple of `times`.
    pub start: u64,
    /// Its times, whether samples of them came or not.
    pub times: u64,
    /// Visibilities and their numbers of samples; of a gated plan, gate 0's. Its own times leave out times of which
    /// no sample came, but for times that samples are delayed into.
    pub dump: Dump,
    /// Dumps of the other gates.
    pub others: Vec<Dump>,
}

impl LiveDump {
    /// All gates, gate 0 first.
    pub fn gates(&self) -> impl Iterator<Item = &Dump> {
        std::iter::once(&self.dump).chain(&self.others)
    }
}

/// The dump that is being summed.
pub(super) struct Sums {
    correlator: Correlator,
    /// Gates of the times since timestamp 0, and room for their numbers.
    gates: Option<(Folding, Vec<u8>)>,
    /// Dumps of the gates.
    dumped: Vec<Dump>,
    integration: u64,
    /// Whether a dump that the stream's end cuts short is handed out.
    pub keep_partial: bool,
    /// Its number, once samples of it came.
    current: Option<u64>,
    /// The number of the last one that was handed out.
    last: Option<u64>,
    dump: LiveDump,
    empty: u64,
    shape: Shape,
    /// The time after the last that was fed or lost; [`None`] before the first.
    next: Option<u64>,
    /// Times before it that were lost and fed as missing.
    fed: u64,
    /// Samples that are missing.
    nothing: Block,
}

impl Sums {
    /// Dumps of `integration` times of samples of `shape`.
    pub fn new(correlator: Correlator, shape: &Shape, integration: u64) -> Result<Self> {
        if correlator.shape() != shape {
            return Err(Error::invalid(format!(
                "a correlator of {:?}: expected one of {shape:?}",
                correlator.shape(),
            )));
        }
        if integration == 0 {
            return Err(Error::invalid("an integration of 0 times: expected at least 1"));
        }
        let word = shape.encoding.times();
        if !integration.is_multiple_of(word as u64) {
            return Err(Error::invalid(format!(
                "an integration of {integration} times of {}: expected a multiple of {word}",
                shape.encoding
            )));
        }
        Ok(Self {
            correlator,
            gates: None,
            dumped: Vec::new(),
            integration,
            keep_partial: false,
            current: None,
            last: None,
            dump: LiveDump::default(),
            empty: 0,
            shape: *shape,
            next: None,
            fed: 0,
            nothing: Block::new(),
        })
    }

    /// Adds samples from time `start` on; of words of bits both are whole words.
    pub fn add(&mut self, samples: Samples<'_>, start: u64, done: Done<'_>) -> Result<()> {
        self.mark_missing(start, done)?;
        let end = start + samples.extents().times as u64;
        (self.next, self.fed) = (Some(end), 0);
        self.feed(samples, start, done)
    }

    /// Marks times before `end` of which nothing came as missing. As far as delays reach, they are fed as missing:
    /// delayed samples of the times before come out there.
    pub fn mark_missing(&mut self, end: u64, done: Done<'_>) -> Result<()> {
        let word = self.shape.encoding.times() as u64;
        let end = end / word * word;
        let Some(next) = self.next.filter(|next| *next < end) else { return Ok(()) };
        let reach = (self.correlator.longest_shift() as u64).next_multiple_of(word);
        let count = reach.saturating_sub(self.fed).min(end - next);
        let block = std::mem::take(&mut self.nothing);
        let fed = self.feed_nothing(block, next..next + count, |sums, samples, from| {
            sums.feed(samples, from, done)
        });
        (self.next, self.fed) = (Some(end), self.fed + count);
        fed
    }

    /// Hands `to` missing samples of some times, and their first, a block after the other.
    fn feed_nothing(
        &mut self,
        mut block: Block,
        times: Range<u64>,
        mut to: impl FnMut(&mut Self, Samples<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        let (shape, word) = (self.shape, self.shape.encoding.times());
        let most = (NOTHING_BYTES / shape.bytes_per_time().max(1)).max(1).next_multiple_of(word);
        let mut from = times.start;
        while from < times.end {
            let count = (times.end - from).min(most as u64) as usize;
            if block.times < count {
                block = Block::missing(&shape, count)?;
            }
            to(self, block.view(&shape).times(0..count), from)?;
            from += count as u64;
        }
        self.nothing = block;
        Ok(())
    }

    /// The time jumps: nothing else of the dump comes, and what delays hold is forgotten.
    pub fn jump(&mut self, done: Done<'_>) -> Result<()> {
        if let (Some(next), Some(number)) = (self.next, self.current) {
            let end = (number + 1).saturating_mul(self.integration);
            self.mark_missing(end.max(next), done)?;
        }
        self.finish(done)?;
        let word = self.shape.encoding.times() as u64;
        let left = (self.correlator.longest_shift() as u64).next_multiple_of(word);
        let left = left.saturating_sub(self.fed);
        if self.next.take().is_some() && left > 0 {
            let gates = self.gates.is_some();
            let block = std::mem::take(&mut self.nothing);
            self.feed_nothing(block, 0..left, |sums, samples, _| match gates {
                false => sums.correlator.accumulate(samples),
                true => {
                    let none = vec![DROP; samples.extents().times];
                    sums.correlator.accumulate_gated(samples, &none[..])
                }
            })?;
            self.correlator.reset();
        }
        Ok(())
    }

    /// Adds samples to the dumps that they belong to.
    fn feed(&mut self, samples: Samples<'_>, start: u64, done: Done<'_>) -> Result<()> {
        let end = start + samples.extents().times as u64;
        let mut from = start;
        while from < end {
            let number = from / self.integration;
            if self.current.is_some_and(|current| current != number) {
                self.finish(done)?;
            }
            self.current = Some(number);
            let to = end.min((number + 1).saturating_mul(self.integration));
            let piece = samples.times((from - start) as usize..(to - start) as usize);
            match &mut self.gates {
                None => self.correlator.accumulate(piece)?,
                Some((gates, numbers)) => {
                    gates.fill(from, (to - from) as usize, numbers)?;
                    self.correlator.accumulate_gated(piece, gates.gates(numbers)?)?;
                }
            }
            from = to;
            self.finish_before(to, done)?;
        }
        Ok(())
    }

    /// Hands out the dump that is being summed if it is over at time `now`.
    pub fn finish_before(&mut self, now: u64, done: Done<'_>) -> Result<()> {
        match self.current {
            Some(current) if (current + 1).saturating_mul(self.integration) <= now => {
                self.finish(done)
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, done: Done<'_>) -> Result<()> {
        let Some(number) = self.current.take() else { return Ok(()) };
        // The memory of the dump before is used again.
        let LiveDump { dump, others, .. } = &mut self.dump;
        self.dumped.push(std::mem::take(dump));
        self.dumped.append(others);
        self.correlator.dump_gates_into(&mut self.dumped)?;
        others.extend(self.dumped.drain(1..));
        *dump = self.dumped.pop().expect("a plan has a gate");
        if self.dump.gates().all(|dump| dump.valid.is_zero()) {
            return Ok(());
        }
        // Dumps between this and the last one were empty.
        self.empty += self.last.map_or(0, |last| number.saturating_sub(last + 1));
        self.last = Some(number);
        self.dump.start = number.saturating_mul(self.integration);
        self.dump.times = self.integration;
        done(&self.dump)
    }

    /// Feeds a gated plan: time 0 of the gates is at timestamp 0.
    pub fn set_gates(&mut self, gates: Folding) {
        self.gates = Some((gates, Vec::new()));
    }

    /// The plan.
    pub fn correlator(&self) -> &Correlator {
        &self.correlator
    }

    /// Waits until a GPU has read what it was given.
    pub fn wait(&mut self) -> Result<()> {
        self.correlator.wait()
    }

    /// Dumps of which nothing came, between others.
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// Forgets the dump that is being summed.
    pub fn forget(&mut self) {
        self.correlator.reset();
        self.current = None;
    }
}
