//! Visibilities: the sums of consecutive times, dump by dump.

use std::{
    borrow::{BorrowMut, Cow},
    ops::Range,
};

use corrust_host::{
    Correlator, Error, Layout, Result, Samples,
    correlate::{DROP, Dump, Gates},
    samples::{Missing, Shape, missing_within},
};

use super::{
    folding::Folding,
    run::Product,
    source::{Head, Piece, Silence, Wants},
};

/// Times of a gap that have samples at a time, because delayed ones still come out there.
const SILENT_TIMES: u64 = 1 << 10;

/// Dumps of consecutive times of a recording or of a service, which counts times from timestamp 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Integration {
    /// Its number, from 0.
    pub index: u64,
    /// Its first time, counted from the recording's first; [`Recording::interval`](crate::formats::Recording::interval) says
    /// how far times are apart.
    pub start: u64,
    /// Its times: fewer than the integration's in a last, partial dump that is kept.
    pub times: u64,
    /// Number of missing times; of spectra, of times that some input misses; of bits, of times in words that some
    /// input misses.
    pub missing: u64,
    /// Number of times that belong to a gate; all without gates. Times that a gate's [`Dump::times`] leaves out
    /// lie in gaps that took no time.
    pub kept: u64,
    /// Number of skipped times: they lie in gaps longer than a block.
    pub skipped: u64,
    /// A dump for each of the plan's gates, gate 0 first.
    pub gates: Vec<Dump>,
}

/// The gates of a stream's times.
enum GatesOf<'a> {
    /// One for each.
    Numbers(Cow<'a, [u8]>),
    /// Gates of a periodic signal, and room for some numbers.
    Folding(Folding, Vec<u8>),
}

/// Integrator of visibilities of some channels, by a plan that is its own, or borrowed (`&mut Correlator`): dumps begin at multiples
/// of the integration.
pub struct Integrator<'a, C = Correlator> {
    correlator: C,
    channels: Range<usize>,
    /// Times of a dump; [`None`]: all.
    integration: Option<u64>,
    /// Whether a last dump of fewer times is one, too.
    keep_partial: bool,
    gates: Option<GatesOf<'a>>,
    /// The dump that is begun, and the times that it is to have.
    dump: Integration,
    length: u64,
    /// Times of dumps.
    end: u64,
    /// Samples for the times of a gap into which inputs are delayed, and how many of those are left in this one.
    silence: Option<Silence<Shape>>,
    delay: u64,
    left: u64,
}

impl<'a, C: BorrowMut<Correlator>> Integrator<'a, C> {
    /// Dumps of `integration` times of `channels`, all channels of the plan; without an integration all times are one dump.
    pub fn new(correlator: C, channels: Range<usize>, integration: Option<u64>) -> Self {
        Self {
            correlator,
            channels,
            integration,
            keep_partial: false,
            gates: None,
            dump: Integration::default(),
            length: u64::MAX,
            end: u64::MAX,
            silence: None,
            delay: 0,
            left: 0,
        }
    }

    pub(super) fn set_integration(&mut self, times: u64) {
        self.integration = Some(times);
    }

    pub(super) fn set_keep_partial(&mut self) {
        self.keep_partial = true;
    }

    pub(super) fn set_numbers(&mut self, numbers: Cow<'a, [u8]>) {
        self.gates = Some(GatesOf::Numbers(numbers));
    }

    /// Feeds a gated plan: the gates of a periodic signal, from time 0 on.
    pub fn set_folding(&mut self, folding: Folding) {
        self.gates = Some(GatesOf::Folding(folding, Vec::new()));
    }

    /// The plan.
    pub fn correlator(&self) -> &Correlator {
        self.correlator.borrow()
    }

    /// The plan.
    pub fn correlator_mut(&mut self) -> &mut Correlator {
        self.correlator.borrow_mut()
    }

    /// Checks integration and gates against a stream, resets the plan, and returns what it wants: times up to the end of the last
    /// dump.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an integration or gates that do not fit the stream.
    pub fn begin(&mut self, head: &Head) -> Result<Wants> {
        let recorded = head.times.unwrap_or(u64::MAX);
        let integration = self.integration.unwrap_or(recorded);
        let longest = if self.keep_partial { u64::MAX } else { recorded };
        if !(1..=longest).contains(&integration) {
            let expected = match head.times {
                Some(_) => format!("1 to {recorded}, as the recording has {recorded} times"),
                None => "at least 1".to_owned(),
            };
            return Err(Error::invalid(format!(
                "an integration of {integration} times: expected {expected}"
            )));
        }
        if let Some(GatesOf::Numbers(numbers)) = &self.gates
            && numbers.len() as u64 != recorded
        {
            return Err(Error::invalid(format!(
                "{} gate numbers: expected {recorded}, one for each time of the recording",
                numbers.len()
            )));
        }
        let encoding = head.shape.encoding;
        let word = encoding.times() as u64;
        if !integration.is_multiple_of(word) && integration < recorded {
            let all = head.times.map_or(String::new(), |times| format!(", or all {times}"));
            return Err(Error::invalid(format!(
                "an integration of {integration} times of {encoding}: expected a multiple of {word}, whole \
                 words{all}"
            )));
        }
        self.length = integration;
        self.end = match head.times {
            Some(times) if !self.keep_partial => times / integration * integration,
            times => times.unwrap_or(u64::MAX),
        };
        let correlator = self.correlator.borrow_mut();
        self.delay = (correlator.longest_shift() as u64).next_multiple_of(word);
        self.left = self.delay;
        correlator.reset();
        let on_cpu = correlator.gpu().is_none();
        let channels = self.channels.len();
        self.silence = Some(Silence::new(Shape { channels, ..head.shape }));
        let soon = if on_cpu { soon(&head.shape) } else { u64::MAX };
        Ok(Wants { end: self.end, soon, ..Wants::default() })
    }

    /// Goes on at a time, within the dump that it is in: nothing came of this dump's times before it.
    pub fn go_on_at(&mut self, time: u64) {
        let (index, skipped) = (time / self.length, time % self.length);
        let gates = std::mem::take(&mut self.dump.gates);
        let start = time - skipped;
        let (times, missing, kept) = (skipped, skipped, skipped);
        self.dump = Integration { index, start, times, missing, kept, skipped, gates };
    }

    /// Whether samples of the dump that is begun came, or ones that are delayed into a gap.
    pub fn is_begun(&self) -> bool {
        self.dump.times > self.dump.skipped
    }

    /// Whether nothing that is delayed is still to come out in a gap.
    pub fn is_through(&self) -> bool {
        self.left == 0
    }

    /// Forgets the dump that is begun, and what delays hold.
    ///
    /// # Errors
    /// As for [`Correlator::accumulate_gated`].
    pub fn forget(&mut self) -> Result<()> {
        while self.left > 0 {
            let count = self.left.min(SILENT_TIMES);
            self.left -= count;
            let silence = self.silence.as_mut().expect("it has begun");
            silence.reserve(count as usize)?;
            let (samples, plan) = (silence.view(count as usize), self.correlator.borrow_mut());
            match &self.gates {
                None => plan.accumulate(samples)?,
                Some(_) => plan.accumulate_gated(samples, &vec![DROP; count as usize][..])?,
            }
        }
        self.correlator.borrow_mut().reset();
        self.go_on_at(0);
        Ok(())
    }

    /// Adds times of a piece from its time `from` on, up to the end of the dump at most; how many. 0: all dumps are done.
    ///
    /// # Errors
    /// As for [`Correlator::accumulate_gated`].
    pub fn add(&mut self, piece: &Piece<Samples<'_>>, from: u64) -> Result<u64> {
        let first = piece.start + from;
        let mut count = (self.length - self.dump.times)
            .min(piece.times - from)
            .min(self.end.saturating_sub(first));
        if count == 0 {
            return Ok(0);
        }
        if let Some(samples) = piece.samples {
            let range = from as usize..(from + count) as usize;
            let samples = samples.times(range).channels(self.channels.clone());
            let gaps: Vec<Missing> = samples.gaps().collect();
            self.dump.missing += missing_within(&gaps, &(0..count as usize)) as u64;
            self.dump.kept +=
                accumulate(self.correlator.borrow_mut(), samples, &mut self.gates, first)?;
            self.left = self.delay;
        } else {
            if self.left > 0 {
                count = count.min(self.left).min(SILENT_TIMES);
                self.left -= count;
                let silence = self.silence.as_mut().expect("it has begun");
                silence.reserve(count as usize)?;
                let samples = silence.view(count as usize);
                self.dump.kept +=
                    accumulate(self.correlator.borrow_mut(), samples, &mut self.gates, first)?;
            } else {
                self.dump.skipped += count;
                self.dump.kept += match &self.gates {
                    Some(GatesOf::Numbers(numbers)) => {
                        kept(&numbers[first as usize..(first + count) as usize])
                    }
                    // A long gap takes no numbers: all of its times belong to some gate.
                    Some(GatesOf::Folding(..)) | None => count,
                };
            }
            self.dump.missing += count;
        }
        self.dump.times += count;
        Ok(count)
    }

    /// Whether the dump has all of its times.
    pub fn is_over(&self) -> bool {
        self.dump.times == self.length
    }

    /// Whether the times since the last dump are one, too, now that the stream has ended: partial dumps are kept, or all times of
    /// a stream of unknown length are one.
    pub(super) fn is_last(&self) -> bool {
        (self.keep_partial || self.length == u64::MAX) && self.dump.times > 0
    }

    /// Ends the dump, exchanges it with `to`, whose memory is used again, and begins the next.
    ///
    /// # Errors
    /// As for [`Correlator::dump_gates`].
    pub fn dump_into(&mut self, to: &mut Integration) -> Result<()> {
        let mut gates = std::mem::take(&mut to.gates);
        self.correlator.borrow_mut().dump_gates_into(&mut gates)?;
        let (index, start) = (self.dump.index + 1, self.dump.start + self.dump.times);
        *to = std::mem::replace(
            &mut self.dump,
            Integration { index, start, ..Integration::default() },
        );
        to.gates = gates;
        Ok(())
    }
}

/// Times that a CPU, which takes seconds for a block, adds at a time: about 8 MiB of them.
fn soon(shape: &Shape) -> u64 {
    const BYTES: usize = 8 << 20;
    /// Times of which the sums stay in registers.
    const TIMES: usize = 512;
    match shape.layout {
        Layout::Tcn => (BYTES / shape.bytes_per_time()).max(1).next_multiple_of(TIMES) as u64,
        // Parts of rows would have to be copied.
        Layout::Cnt => u64::MAX,
    }
}

/// Adds samples from time `first` on; how many of their times belong to a gate.
fn accumulate(
    plan: &mut Correlator,
    samples: Samples<'_>,
    gates: &mut Option<GatesOf<'_>>,
    first: u64,
) -> Result<u64> {
    let times = samples.extents().times;
    match gates {
        None => {
            plan.accumulate(samples)?;
            Ok(times as u64)
        }
        Some(GatesOf::Numbers(numbers)) => {
            let numbers = &numbers[first as usize..first as usize + times];
            plan.accumulate_gated(samples, Gates::from(numbers))?;
            Ok(kept(numbers))
        }
        Some(GatesOf::Folding(folding, numbers)) => {
            folding.fill(first, times, numbers)?;
            let gates = folding.gates(numbers)?;
            plan.accumulate_gated(samples, gates)?;
            // Gates of a period drop no time, repeating gates may.
            Ok(match gates.differ_by_channel() {
                true => times as u64,
                false => kept(gates.of(0)),
            })
        }
    }
}

/// Times that belong to a gate.
fn kept(numbers: &[u8]) -> u64 {
    numbers.iter().filter(|&&number| number != DROP).count() as u64
}

/// Visibilities of some channels as a product, an integration at a time.
pub struct Visibilities<'a, Tell> {
    integrator: Integrator<'a>,
    dump: Integration,
    tell: Tell,
}

impl<'a, Tell: FnMut(&mut Integration) -> Result<()>> Visibilities<'a, Tell> {
    /// Dumps of `integration` times of `channels`, all channels of the plan; `tell` is given each dump, and may exchange it with
    /// another, whose memory is used again. Times that do not fill the last one are left out, unless [it is kept](Self::keep_partial); without an integration all times are one dump.
    pub fn new(
        correlator: Correlator,
        channels: Range<usize>,
        integration: Option<u64>,
        tell: Tell,
    ) -> Self {
        let integrator = Integrator::new(correlator, channels, integration);
        Self { integrator, dump: Integration::default(), tell }
    }

    /// Keeps the last dump where the stream ends before it has all of its times: [`Integration::times`] are those it has.
    #[must_use]
    pub fn keep_partial(mut self) -> Self {
        self.integrator.set_keep_partial();
        self
    }

    /// Feeds a gated plan: the gate of each time of the recording, or [`DROP`].
    #[must_use]
    pub fn gates(mut self, numbers: impl Into<Cow<'a, [u8]>>) -> Self {
        self.integrator.set_numbers(numbers.into());
        self
    }

    /// Feeds a gated plan: the gates of a periodic signal, time 0 of which is the recording's first.
    #[must_use]
    pub fn folding(mut self, folding: Folding) -> Self {
        self.integrator.set_folding(folding);
        self
    }

    fn dump(&mut self) -> Result<()> {
        self.integrator.dump_into(&mut self.dump)?;
        (self.tell)(&mut self.dump)
    }
}

impl<Tell: FnMut(&mut Integration) -> Result<()>> Product for Visibilities<'_, Tell> {
    fn begin(&mut self, head: &Head) -> Result<Wants> {
        self.integrator.begin(head)
    }

    fn process(&mut self, piece: &Piece<Samples<'_>>) -> Result<()> {
        let mut from = 0;
        while from < piece.times {
            let count = self.integrator.add(piece, from)?;
            if count == 0 {
                break;
            }
            from += count;
            if self.integrator.is_over() {
                self.dump()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.integrator.is_last() { self.dump() } else { Ok(()) }
    }
}
