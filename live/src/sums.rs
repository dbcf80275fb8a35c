//! The sums of dumps.

use std::ops::Range;

use corrust_host::{Correlator, Error, Result, Samples, samples::Shape};
use corrust_recordings::run::{Folding, Head, Integration, Integrator, Piece};

/// Callback for a dump that is over.
pub(super) type Done<'a> = &'a mut dyn FnMut(&Integration) -> Result<()>;

/// Sums of dumps at multiples of the integration since timestamp 0. Dumps without samples are not handed out.
pub(super) struct Sums {
    integrator: Integrator<'static>,
    integration: u64,
    /// Whether a dump that the stream's end cuts short is handed out.
    pub keep_partial: bool,
    /// The time after the last that was added or lost; [`None`] before the first.
    next: Option<u64>,
    word: u64,
    dump: Integration,
    /// The number of the last dump that was handed out.
    last: Option<u64>,
    empty: u64,
}

impl Sums {
    /// Dumps of `integration` times of some `channels` of samples of `shape`.
    pub fn new(
        correlator: Correlator,
        shape: &Shape,
        channels: Range<usize>,
        integration: u64,
    ) -> Result<Self> {
        let expected = Shape { channels: channels.len(), ..*shape };
        if *correlator.shape() != expected || channels.end > shape.channels {
            return Err(Error::invalid(format!(
                "a correlator of {:?}: expected one of {expected:?}, channels {channels:?}",
                correlator.shape(),
            )));
        }
        let mut integrator = Integrator::new(correlator, channels, Some(integration));
        integrator.begin(&Head::new(*shape))?;
        Ok(Self {
            integrator,
            integration,
            keep_partial: false,
            next: None,
            word: shape.encoding.times() as u64,
            dump: Integration::default(),
            last: None,
            empty: 0,
        })
    }

    /// Adds samples from time `start` on; of words of bits both are whole words.
    pub fn add(&mut self, samples: Samples<'_>, start: u64, done: Done<'_>) -> Result<()> {
        self.pass(start, done)?;
        if self.next.is_none() {
            self.integrator.go_on_at(start);
        }
        let times = samples.extents().times as u64;
        self.feed(&Piece { start, times, samples: Some(samples), host: None }, done)
    }

    /// No samples before time `end` come any more: times of which nothing came are missing.
    pub fn pass(&mut self, end: u64, done: Done<'_>) -> Result<()> {
        let end = end / self.word * self.word;
        match self.next {
            Some(start) if start < end => {
                let times = end - start;
                self.feed(&Piece { start, times, samples: None, host: None }, done)
            }
            _ => Ok(()),
        }
    }

    /// The time jumps: nothing else of the dump comes, and what delays hold is forgotten.
    pub fn jump(&mut self, done: Done<'_>) -> Result<()> {
        let Some(next) = self.next else { return Ok(()) };
        if self.integrator.is_begun() {
            self.pass((next / self.integration + 1).saturating_mul(self.integration), done)?;
        }
        self.next = None;
        self.integrator.forget()
    }

    /// Adds times to the dumps that they belong to.
    fn feed(&mut self, piece: &Piece<Samples<'_>>, done: Done<'_>) -> Result<()> {
        let end = piece.start + piece.times;
        self.next = Some(end);
        let mut from = 0;
        while from < piece.times {
            let Self { integrator, .. } = self;
            if piece.samples.is_none() && integrator.is_through() && !integrator.is_begun() {
                integrator.go_on_at(end);
                break;
            }
            from += integrator.add(piece, from)?;
            if integrator.is_over() {
                self.finish(done)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, done: Done<'_>) -> Result<()> {
        self.integrator.dump_into(&mut self.dump)?;
        let number = self.dump.index;
        if self.dump.gates.iter().all(|dump| dump.valid.is_zero()) {
            return Ok(());
        }
        // Dumps between this and the last one were empty.
        self.empty += self.last.map_or(0, |last| number.saturating_sub(last + 1));
        self.last = Some(number);
        done(&self.dump)
    }

    /// Feeds a gated plan: time 0 of the gates is at timestamp 0.
    pub fn set_gates(&mut self, gates: Folding) {
        self.integrator.set_folding(gates);
    }

    /// The plan.
    pub fn correlator(&self) -> &Correlator {
        self.integrator.correlator()
    }

    /// Waits until a GPU has read what it was given.
    pub fn wait(&mut self) -> Result<()> {
        self.integrator.correlator_mut().wait()
    }

    /// Dumps of which nothing came, between others.
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// Forgets the dump that is being summed.
    pub fn forget(&mut self) {
        self.integrator.correlator_mut().reset();
        self.next = None;
    }
}
