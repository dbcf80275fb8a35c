//! The dumps of a recording.

use std::{
    borrow::{BorrowMut, Cow},
    sync::atomic::AtomicBool,
};

use corrust_host::{
    Channeliser, Correlator, Error, Result,
    correlate::{DROP, Dump, Gates, baselines},
    samples::Shape,
};

use super::folding::Folding;
use crate::{
    formats::Recording,
    run::{
        pieces::{Pieces, Progress},
        voltages::Voltages,
    },
};

/// Fewest and most bytes of samples that are read and correlated at a time.
const BLOCK_BYTES: [usize; 2] = [1 << 26, 1 << 28];

/// Dumps of consecutive times of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Integration {
    /// Its number in the recording, from 0.
    pub index: u64,
    /// Its first time, counted from the recording's first; [`Recording::interval`] says how far times
    /// are apart.
    pub start: u64,
    /// Its times.
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

/// The dumps of a recording, one after the other: an iterator of [`Integration`]s, which an error ends.
/// [`next_into`](Self::next_into) takes memory for an integration that is used again.
///
/// Times that do not fill the last integration are left out. The plan forgets the integration that it has
/// begun; what its delays hold comes first. It is the caller's (`&mut Correlator`) or the iterator's own.
///
/// ```no_run
/// use std::sync::atomic::AtomicBool;
///
/// use corrust_host::Correlator;
/// use corrust_recordings::{formats::{self, Options}, run::Dumps};
///
/// let recording = formats::open(&["scan.0000.raw", "scan.0001.raw"], Options::default())?;
/// let shape = recording.shape();
/// let mut correlator = Correlator::builder(shape.inputs, shape.channels)
///     .encoding(shape.encoding)
///     .layout(shape.layout)
///     .build()?;
/// let cancel = AtomicBool::new(false); // another thread may set it
/// let dumps = Dumps::over(recording, &mut correlator)
///     .integrate(1024)
///     .cancel(&cancel)
///     .progress(|progress| eprintln!("{} of {} times", progress.done, progress.times));
/// for dump in dumps {
///     let dump = dump?;
///     println!("from {}: {} of {} times missing", dump.start, dump.missing, dump.times);
///     let visibilities = &dump.gates[0].visibilities; // [channel][baseline]
/// }
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[must_use]
pub struct Dumps<'a, C = Correlator> {
    pieces: Pieces<'a>,
    correlator: C,
    integration: u64,
    gates: Option<Source<'a>>,
    index: u64,
    ended: bool,
}

impl<'a, C: BorrowMut<Correlator>> Dumps<'a, C> {
    /// The one dump of all of a recording, which is read in blocks of 64 to 256 MiB.
    pub fn over(recording: Box<dyn Recording>, correlator: C) -> Self {
        let integration = recording.times();
        let pieces = Pieces::over(recording, 1).locked_for(correlator.borrow().gpu());
        let block_times = block_times(pieces.shape());
        Self { pieces, correlator, integration, gates: None, index: 0, ended: false }
            .blocks(block_times)
    }

    /// The one dump of all spectra that an F-engine makes of raw voltages, each of which is a time. On a GPU
    /// spectra do not leave it: the correlator is to be on the same one. The F-engine begins another stream.
    ///
    /// ```no_run
    /// use corrust_host::{Channeliser, Correlator, Device};
    /// use corrust_recordings::{
    ///     formats::{self, Options},
    ///     run::{Dumps, Voltages},
    /// };
    ///
    /// let recording = formats::open_raw(&["scan.vdif"], Options::default())?;
    /// let raw = recording.shape();
    /// let gpus = Device::Auto.open()?; // none: the CPU
    /// let channeliser = Channeliser::builder(raw.inputs, 1024)
    ///     .encoding(raw.encoding)
    ///     .layout(raw.layout)
    ///     .gpus(gpus.clone())
    ///     .build()?;
    /// let correlator = Correlator::builder(raw.inputs, 1024).gpus(gpus).build()?;
    /// let voltages = Voltages::over(recording, channeliser.shape());
    /// for dump in Dumps::channelised(voltages, channeliser, correlator)?.integrate(4096) {
    ///     let visibilities = &dump?.gates[0].visibilities; // [channel][baseline]
    /// }
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Pieces::channelised`].
    pub fn channelised(
        voltages: Voltages,
        channeliser: Channeliser,
        correlator: C,
    ) -> Result<Self> {
        let pieces = Pieces::channelised(voltages, channeliser)?;
        let integration = pieces.recorded();
        Ok(Self { pieces, correlator, integration, gates: None, index: 0, ended: false })
    }

    /// The one dump of all times of some pieces, such as those that are [judged](Pieces::judged) on the plan's GPU.
    pub fn of(pieces: Pieces<'a>, correlator: C) -> Self {
        let integration = pieces.recorded();
        Self { pieces, correlator, integration, gates: None, index: 0, ended: false }
    }

    /// A dump every `times` times, at least 1 and at most as many as the recording has; of bits whole words of
    /// them, or all.
    pub fn integrate(mut self, times: u64) -> Self {
        self.integration = times;
        self
    }

    /// Feeds a gated plan: the gate of each time of the recording, or [`DROP`].
    pub fn gates(mut self, numbers: impl Into<Cow<'a, [u8]>>) -> Self {
        self.gates = Some(Source::Numbers(numbers.into()));
        self
    }

    /// Feeds a gated plan: the gates of a periodic signal, time 0 of which is the recording's first.
    pub fn folding(mut self, folding: Folding) -> Self {
        self.gates = Some(Source::Folding(folding, Vec::new()));
        self
    }

    /// Reads blocks of `times` times, at least 1. Three of them are in memory, and what the plan computes
    /// with. Of raw voltages [`Voltages::blocks`] says how long they are, and this counts for nothing.
    pub fn blocks(mut self, times: usize) -> Self {
        self.pieces.set_block_times(times);
        self
    }

    /// Stops with [`Error::Cancelled`], within a block, once `flag` is true: a reference to it, or an
    /// [`Arc`](std::sync::Arc).
    pub fn cancel(mut self, flag: impl std::borrow::Borrow<AtomicBool> + Send + 'a) -> Self {
        self.pieces = self.pieces.cancel(flag);
        self
    }

    /// Calls `tell` several times a block, and once all is done.
    pub fn progress(mut self, tell: impl FnMut(Progress) + Send + 'a) -> Self {
        self.pieces = self.pieces.progress(tell);
        self
    }

    /// Samples of each input that the F-engine has clipped so far; none without one.
    ///
    /// # Errors
    /// The device's own.
    pub fn clipped(&self) -> Result<Vec<u64>> {
        self.pieces.clipped()
    }

    /// Reads the times after the last dump, which belong to none: blocks of a recording that is
    /// [judged](Pieces::judged) are judged to its end, whatever is integrated.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; as for [`Recording::read_block`].
    pub fn pass_rest(&mut self) -> Result<()> {
        self.ended = true;
        self.pieces.set_end(self.pieces.recorded());
        while self.pieces.next_piece(u64::MAX)?.is_some() {}
        Ok(())
    }

    /// The plan.
    pub fn correlator(&self) -> &Correlator {
        self.correlator.borrow()
    }

    /// Brings the next integration to `integration`, whose memory is used again where it fits; whether
    /// there was one.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; [`Error::Invalid`] for an integration of no times or of more than the
    /// recording's, more or fewer gate numbers than its times, or a recording that is not the plan's; as for
    /// [`Recording::read_block`], [`Correlator::accumulate_gated`] and [`Correlator::dump_gates`]. Nothing
    /// comes after an error, and what `integration` holds is of no use then.
    pub fn next_into(&mut self, integration: &mut Integration) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let found = self.read(integration);
        self.ended = !matches!(found, Ok(true));
        found
    }

    fn read(&mut self, to: &mut Integration) -> Result<bool> {
        if self.index == 0 {
            self.begin()?;
        }
        let correlator = self.correlator.borrow_mut();
        let start = self.pieces.done();
        let gates = std::mem::take(&mut to.gates);
        *to = Integration { index: self.index, start, gates, ..Integration::default() };
        while to.times < self.integration {
            let Some(piece) = self.pieces.next_piece(self.integration - to.times)? else {
                // All of a stream whose length nobody knew is a dump, too.
                if self.integration == u64::MAX && to.times > 0 {
                    break;
                }
                return Ok(false);
            };
            let (first, times) = (piece.start, piece.times);
            let numbers = match &mut self.gates {
                None => None,
                Some(Source::Numbers(numbers)) => {
                    Some(Gates::from(&numbers[first as usize..(first + times) as usize]))
                }
                // A long gap takes no numbers: all of its times belong to some gate.
                Some(Source::Folding(..)) if piece.samples.is_none() => None,
                Some(Source::Folding(folding, numbers)) => {
                    folding.fill(first, times as usize, numbers)?;
                    Some(folding.gates(numbers)?)
                }
            };
            match (piece.samples, numbers) {
                (Some(samples), Some(numbers)) => correlator.accumulate_gated(samples, numbers)?,
                (Some(samples), None) => correlator.accumulate(samples)?,
                (None, _) => to.skipped += times,
            }
            to.times += times;
            to.missing += piece.missing;
            to.kept += numbers.map_or(times, kept);
        }
        correlator.dump_gates_into(&mut to.gates)?;
        self.index += 1;
        Ok(true)
    }

    /// Checks what was asked for.
    fn begin(&mut self) -> Result<()> {
        let (integration, recorded) = (self.integration, self.pieces.recorded());
        if !(1..=recorded).contains(&integration) {
            return Err(Error::invalid(format!(
                "an integration of {integration} times: expected 1 to {recorded}, as the recording has \
                 {recorded} times"
            )));
        }
        if let Some(Source::Numbers(numbers)) = &self.gates
            && numbers.len() as u64 != recorded
        {
            return Err(Error::invalid(format!(
                "{} gate numbers: expected {recorded}, one for each time of the recording",
                numbers.len()
            )));
        }
        let encoding = self.pieces.shape().encoding;
        let word = encoding.times() as u64;
        if !integration.is_multiple_of(word) && integration != recorded {
            return Err(Error::invalid(format!(
                "an integration of {integration} times of {encoding}: expected a multiple of {word}, whole \
                 words, or all {recorded}"
            )));
        }
        if recorded < u64::MAX {
            self.pieces.set_end(recorded / integration * integration);
        }
        let correlator = self.correlator.borrow_mut();
        self.pieces.set_delay((correlator.longest_shift() as u64).next_multiple_of(word));
        correlator.reset();
        Ok(())
    }
}

impl<C: BorrowMut<Correlator>> Iterator for Dumps<'_, C> {
    type Item = Result<Integration>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut integration = Integration::default();
        match self.next_into(&mut integration) {
            Ok(true) => Some(Ok(integration)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl<C: BorrowMut<Correlator>> std::iter::FusedIterator for Dumps<'_, C> {}

/// Times that belong to a gate.
fn kept(numbers: Gates<'_>) -> u64 {
    match numbers.differ_by_channel() {
        // Gates of a period drop no time.
        true => numbers.len() as u64,
        false => numbers.of(0).iter().filter(|&&number| number != DROP).count() as u64,
    }
}

/// The gates of a recording's times.
enum Source<'a> {
    /// One for each.
    Numbers(Cow<'a, [u8]>),
    /// Gates of a periodic signal, and room for some numbers.
    Folding(Folding, Vec<u8>),
}

/// Times of the blocks that are read. A device goes through its sums once per block, so a block is
/// to be no smaller than they are, within [`BLOCK_BYTES`]; it is a multiple of what kernels take in
/// at a time, where there are so many.
fn block_times(shape: &Shape) -> usize {
    const GRAIN: usize = 256;
    let sums = 16_usize.saturating_mul(baselines(shape.inputs)).saturating_mul(shape.channels);
    let times = (sums.clamp(BLOCK_BYTES[0], BLOCK_BYTES[1]) / shape.bytes_per_time()).max(1);
    if times > GRAIN { times / GRAIN * GRAIN } else { times }
}
