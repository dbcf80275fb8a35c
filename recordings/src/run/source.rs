//! Sources of samples: recordings, streams, and steps over other sources.

use std::ops::Range;

use corrust_host::{
    Result, Samples,
    quantise::Quantised,
    samples::{CountShape, Missing, RawSamples, RawShape, Shape, missing_within},
};

use crate::{
    array::{
        file::{Channels, PhaseCenter},
        time::Timestamp,
    },
    formats::{Block, Recording},
};

/// Facts of a stream of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Head<S = Shape> {
    /// Shape of the samples.
    pub shape: S,
    /// Number of times; [`None`] of a stream that shows only at its end how long it is.
    pub times: Option<u64>,
    /// Seconds from one time to the next, if known.
    pub interval: Option<f64>,
    /// Start of the first time, if known.
    pub start: Option<Timestamp>,
    /// Frequencies of the channels, if known.
    pub frequencies: Option<Channels>,
    /// Name of the telescope, if known.
    pub telescope: Option<String>,
    /// Name and direction of the source, if known.
    pub source: Option<PhaseCenter>,
    /// Name of the source, if known.
    pub source_name: Option<String>,
    /// Noise of the channels, as [`Recording::circularity`] has it.
    pub circularity: Vec<f64>,
    /// Quantisation of samples of few bits, as [`Recording::quantised`] has it.
    pub quantised: Vec<Quantised>,
    /// Whether inputs can be lost separately, as [`Recording::loses_by_input`] has it.
    pub loses_by_input: bool,
    /// Number of polarisations whose inputs lie side by side, as [`Recording::polarisations`] has it.
    pub polarisations: usize,
}

impl<S> Head<S> {
    /// Facts of a recording.
    pub fn of(recording: &dyn Recording<S>) -> Self {
        let times = recording.times();
        let facts = recording.facts();
        let fact = |name| facts.iter().find(|fact| fact.0 == name).map(|fact| fact.1.clone());
        Self {
            times: (times < u64::MAX).then_some(times),
            interval: recording.interval(),
            start: recording.start(),
            frequencies: recording.frequencies(),
            telescope: fact("telescope"),
            source: recording.source(),
            source_name: fact("source"),
            circularity: recording.circularity(),
            quantised: recording.quantised().to_vec(),
            loses_by_input: recording.loses_by_input(),
            polarisations: recording.polarisations(),
            ..Self::new(recording.shape())
        }
    }

    /// Facts of a stream of unknown length, of which nothing but the shape is known.
    pub fn new(shape: S) -> Self {
        Self {
            shape,
            times: None,
            interval: None,
            start: None,
            frequencies: None,
            telescope: None,
            source: None,
            source_name: None,
            circularity: Vec::new(),
            quantised: Vec::new(),
            loses_by_input: false,
            polarisations: 1,
        }
    }
}

/// Consecutive times of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Piece<View> {
    /// The first of them, counted from the stream's first.
    pub start: u64,
    /// Number of times.
    pub times: u64,
    /// The samples and the missing ones, in the memory of a GPU if they were made or [brought](crate::run::Bring) there;
    /// [`None`] within a long gap: all are missing, and nothing is to be computed.
    pub samples: Option<View>,
    /// The same in host memory, where they are there.
    pub host: Option<View>,
}

impl Piece<Samples<'_>> {
    /// Number of missing samples of some channels and inputs.
    pub fn missing(
        &self,
        channels: &Range<usize>,
        inputs: impl ExactSizeIterator<Item = usize>,
    ) -> u64 {
        let Some(samples) = &self.samples else {
            return self.times * (channels.len() * inputs.len()) as u64;
        };
        let (gaps, times) = (samples.gaps().collect::<Vec<_>>(), 0..samples.extents().times);
        if gaps.is_empty() {
            return 0;
        }
        let of_input = |input| lost_of(&gaps, channels, input, &times) as u64;
        inputs.map(of_input).sum()
    }
}

/// Number of missing samples of an input in some channels and times.
fn lost_of(gaps: &[Missing], channels: &Range<usize>, input: usize, times: &Range<usize>) -> usize {
    let of_input = |gap: &&Missing| gap.inputs.contains(&input);
    let gaps: Vec<Missing> = gaps.iter().filter(of_input).cloned().collect();
    // Channels between these miss the same times.
    let edges = gaps.iter().flat_map(|gap| [gap.channels.start, gap.channels.end]);
    let mut edges: Vec<_> = edges.filter(|edge| channels.contains(edge)).collect();
    edges.extend([channels.start, channels.end]);
    edges.sort_unstable();
    edges.dedup();
    let of_part = |part: &[usize]| {
        let of_channel = |gap: &&Missing| gap.channels.contains(&part[0]);
        let gaps: Vec<_> = gaps.iter().filter(of_channel).cloned().collect();
        (part[1] - part[0]) * missing_within(&gaps, times)
    };
    edges.windows(2).map(of_part).sum()
}

/// Demands on a stream before anything is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Times that are read, from the first on; all where there are fewer.
    pub end: u64,
    /// Times of a piece that are soon worked on: a source in host memory hands out no more of a block at once, so that progress is
    /// told within blocks.
    pub soon: u64,
    /// Whether samples are wanted in host memory, wherever else they are.
    pub host: bool,
}

impl Default for Wants {
    /// All times, in whole blocks.
    fn default() -> Self {
        Self { end: u64::MAX, soon: u64::MAX, host: false }
    }
}

impl Wants {
    /// Returns what two users of a stream want.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            end: self.end.max(other.end),
            soon: self.soon.max(other.soon),
            host: self.host || other.host,
        }
    }
}

/// Source of samples, piece by piece: a [recording](crate::run::Reader), or a step over another source.
///
/// One piece is out at a time. Its host memory may be used again when the source advances; memory of a GPU in the order of
/// the piece's own [stream](corrust_host::device::DeviceSlice::stream).
pub trait Source<S: Recorded = Shape>: Send {
    /// Facts of the stream.
    fn head(&self) -> &Head<S>;

    /// Says before the first piece which times are wanted; by default all.
    fn begin(&mut self, wants: &Wants);

    /// Advances to the next piece, and returns whether there is one.
    ///
    /// # Errors
    /// [`Error::Invalid`](corrust_host::Error::Invalid) when a recording ends before its last time; as for
    /// [`Recording::read_block`]; a step's own. Nothing comes after an error.
    fn advance(&mut self) -> Result<bool>;

    /// The current piece, as often as it is asked for; it has no times before the first.
    fn piece(&self) -> Piece<S::View<'_>>;

    /// Samples of each input that an F-engine has clipped so far; empty without one.
    ///
    /// # Errors
    /// The device's own.
    fn clipped(&self) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }
}

impl<S: Recorded, T: Source<S> + ?Sized> Source<S> for Box<T> {
    fn head(&self) -> &Head<S> {
        (**self).head()
    }

    fn begin(&mut self, wants: &Wants) {
        (**self).begin(wants);
    }

    fn advance(&mut self) -> Result<bool> {
        (**self).advance()
    }

    fn piece(&self) -> Piece<S::View<'_>> {
        (**self).piece()
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        (**self).clipped()
    }
}

/// Missing samples that stand for a gap.
pub(super) struct Silence<S> {
    shape: S,
    block: Block,
}

impl<S: Recorded> Silence<S> {
    pub fn new(shape: S) -> Self {
        Self { shape, block: Block::new() }
    }

    /// Makes room for `times` times.
    pub fn reserve(&mut self, times: usize) -> Result<()> {
        if self.block.times < times {
            self.block = self.shape.nothing(times)?;
        }
        Ok(())
    }

    /// The first `times` times, all missing.
    pub fn view(&self, times: usize) -> S::View<'_> {
        self.shape.view(&self.block, 0..times)
    }
}

/// Kind of samples that can be read piece by piece: voltages of channels ([`Shape`]), raw ones
/// ([`RawShape`]), counts of photons ([`CountShape`]).
pub trait Recorded: Copy + Send + 'static {
    /// Some times of a block.
    type View<'a>: Copy;

    /// Times that are stored together: more than 1 of bits.
    fn word(&self) -> u64 {
        1
    }

    /// The samples in `range` of a block.
    fn view<'a>(&self, block: &'a Block, range: Range<usize>) -> Self::View<'a>;

    /// A block of `times` times, all missing.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](corrust_host::Error::OutOfMemory).
    fn nothing(&self, times: usize) -> Result<Block>;
}

impl Recorded for Shape {
    type View<'a> = Samples<'a>;

    fn word(&self) -> u64 {
        self.encoding.times() as u64
    }

    fn view<'a>(&self, block: &'a Block, range: Range<usize>) -> Samples<'a> {
        block.view(self).times(range)
    }

    fn nothing(&self, times: usize) -> Result<Block> {
        Block::missing(self, times)
    }
}

impl Recorded for RawShape {
    type View<'a> = RawSamples<'a>;

    fn view<'a>(&self, block: &'a Block, range: Range<usize>) -> RawSamples<'a> {
        block.raw(self).times(range)
    }

    fn nothing(&self, times: usize) -> Result<Block> {
        let mut block = Block::new();
        block.reset_bytes(self.bytes(times), times)?;
        block.missing.push(Missing::times(0..times));
        Ok(block)
    }
}

impl Recorded for CountShape {
    /// Counts `[instant][sensor]`; of two bytes the low one comes first.
    type View<'a> = &'a [u8];

    fn view<'a>(&self, block: &'a Block, range: Range<usize>) -> &'a [u8] {
        &block.samples[range.start * self.bytes()..range.end * self.bytes()]
    }

    fn nothing(&self, times: usize) -> Result<Block> {
        let mut block = Block::new();
        block.fill_counts(*self, times, |_| Ok(()))?;
        Ok(block)
    }
}
