//! The spectra of a recording of raw voltages, block by block.

use std::{ops::Range, sync::Arc};

use corrust_host::{
    Channeliser, Error, Layout, Result, Samples,
    channelise::Engine,
    device::Gpu,
    samples::{Memory, Missing, Shape},
};

use super::{
    blocks::Blocks,
    pieces::{Pieces, Source},
    voltages::Voltages,
};
use crate::{
    array::{file::Channels, time::Timestamp},
    formats::{Block, Recording, recording::read_past},
};

/// An F-engine that is fed with a recording.
pub(super) struct SpectraOf {
    voltages: Voltages,
    engine: Engine,
    ended: bool,
}

impl SpectraOf {
    /// Spectra of a stream that begins with the recording.
    pub(super) fn new(voltages: Voltages, plan: Channeliser) -> Result<Self> {
        let (window, times) = (plan.shape().window(), voltages.recorded());
        if times < window as u64 {
            return Err(Error::invalid(format!(
                "{times} samples of each input: expected at least the {window} of a spectrum"
            )));
        }
        Ok(Self { voltages, engine: Engine::new(plan)?, ended: false })
    }

    /// Noise of the spectra's channels, as [`Channeliser::circularity`] has it.
    pub(super) fn circularity(&mut self) -> Vec<f64> {
        self.engine.plan().circularity()
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Spectra of the whole recording; `u64::MAX` of a stream whose length nobody knows.
    pub(super) fn recorded(&self) -> u64 {
        match self.voltages.recorded() {
            u64::MAX => u64::MAX,
            times => self.engine.spectra_of(times),
        }
    }
}

impl Pieces<'_> {
    /// Pieces of the spectra that an F-engine makes of raw voltages; a spectrum is a time. The plan begins
    /// another stream. On a GPU spectra stay there, for a plan on the same one.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the spectra are of `cf32`, which no other plan takes, or the recording is
    /// shorter than one; [`Error::OutOfMemory`].
    pub fn channelised(voltages: Voltages, plan: Channeliser) -> Result<Self> {
        let mut spectra = SpectraOf::new(voltages, plan)?;
        let (shape, recorded) = (spectra.engine().shape()?, spectra.recorded());
        let circularity = spectra.circularity();
        let pieces = Self::of(Source::Begun(Box::new(spectra)), shape, recorded, 1);
        Ok(pieces.with_circularity(circularity))
    }
}

impl Blocks<Shape> for SpectraOf {
    fn next_block(&mut self) -> Result<Option<(u64, usize)>> {
        while !self.ended {
            let made = match self.voltages.next_piece()? {
                Some(samples) => self.engine.feed(samples)?,
                None => {
                    self.ended = true;
                    self.engine.finish()?
                }
            };
            if made > 0 {
                return Ok(Some((0, made)));
            }
        }
        Ok(None)
    }

    fn missing_within(&self, range: &Range<usize>) -> usize {
        self.engine.missing_within(range)
    }

    fn view(&self, _: &Shape, range: Range<usize>) -> Samples<'_> {
        self.engine.view().times(range)
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        self.engine.clipped()
    }
}

/// Spectra of raw voltages as a recording of channels, in host memory and in `tcn` order, made as it is read: what takes any
/// recording, as [`Upchannelised`](super::Upchannelised) and [`Flagged`](super::Flagged) do, takes them. A time is a spectrum.
/// [`Pieces::channelised`] leaves spectra on a GPU for plans there.
pub struct Channelised {
    spectra: SpectraOf,
    shape: Shape,
    gpu: Option<Arc<dyn Gpu>>,
    /// Spectra that were made last, and how many of them have been read.
    made: usize,
    read: usize,
    position: u64,
    interval: Option<f64>,
    start: Option<Timestamp>,
    frequencies: Option<Channels>,
    circularity: Vec<f64>,
}

impl Channelised {
    /// The spectra that `plan` makes of voltages; it begins another stream.
    ///
    /// # Errors
    /// As for [`Pieces::channelised`].
    pub fn over(voltages: Voltages, plan: Channeliser) -> Result<Self> {
        let gpu = plan.gpu().cloned();
        let mut spectra = SpectraOf::new(voltages, plan)?;
        let circularity = spectra.circularity();
        let shape = Shape { layout: Layout::Tcn, ..spectra.engine().shape()? };
        Ok(Self {
            spectra,
            shape,
            gpu,
            made: 0,
            read: 0,
            position: 0,
            interval: None,
            start: None,
            frequencies: None,
            circularity,
        })
    }

    /// Says how many seconds apart spectra are, when the first one begins, and which frequencies they have.
    #[must_use]
    pub fn told(
        mut self,
        interval: Option<f64>,
        start: Option<Timestamp>,
        frequencies: Option<Channels>,
    ) -> Self {
        (self.interval, self.start, self.frequencies) = (interval, start, frequencies);
        self
    }

    /// Goes on to spectra that have not been read, and says how many there are; 0 at the end.
    fn go_on(&mut self) -> Result<usize> {
        if self.read == self.made {
            self.made = self.spectra.next_block()?.map_or(0, |(_, made)| made);
            self.read = 0;
        }
        Ok(self.made - self.read)
    }
}

impl Recording for Channelised {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn times(&self) -> u64 {
        self.spectra.recorded()
    }

    fn interval(&self) -> Option<f64> {
        self.interval
    }

    fn start(&self) -> Option<Timestamp> {
        self.start
    }

    fn frequencies(&self) -> Option<Channels> {
        self.frequencies.clone()
    }

    fn circularity(&self) -> Vec<f64> {
        self.circularity.clone()
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let left = self.times().saturating_sub(self.position);
        let times = usize::try_from(left).map_or(times, |left| left.min(times));
        let step = self.shape.bytes_per_time();
        block.reset(&self.shape, times)?;
        let mut filled = 0;
        while filled < times {
            let count = self.go_on()?.min(times - filled);
            if count == 0 {
                break;
            }
            let view = self.spectra.view(&self.shape, self.read..self.read + count);
            let bytes = match (view.memory(), &self.gpu) {
                (Memory::Device(_), Some(gpu)) => view.gather_from(gpu, Layout::Tcn)?,
                _ => view.gather(Layout::Tcn)?,
            };
            block.samples[filled * step..(filled + count) * step].copy_from_slice(&bytes);
            block.missing.extend(view.gaps().map(|gap| {
                let times = gap.times.start + filled..gap.times.end + filled;
                Missing { times, ..gap }
            }));
            self.read += count;
            filled += count;
        }
        block.samples.resize(filled * step)?;
        block.times = filled;
        self.position += filled as u64;
        Ok(filled)
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        // Whatever is passed over is the filter bank's history.
        let step = self.shape.bytes_per_time();
        read_past(self, times, step)
    }
}

#[cfg(test)]
mod tests {
    use corrust_host::{
        Device,
        samples::{RawEncoding, RawLayout, RawShape},
    };

    use super::*;

    /// Numbers of 3 inputs, of which some samples are missing.
    struct Noise {
        times: usize,
        next: usize,
    }

    impl Recording<RawShape> for Noise {
        fn shape(&self) -> RawShape {
            RawShape { inputs: 3, encoding: RawEncoding::I8, layout: RawLayout::Tn }
        }

        fn times(&self) -> u64 {
            self.times as u64
        }

        fn interval(&self) -> Option<f64> {
            None
        }

        fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
            let end = self.times.min(self.next + times);
            let range = self.next..end;
            block.samples = range
                .clone()
                .flat_map(|n| [0, 1, 2].map(|i| (n * n + i) as u8))
                .collect::<Vec<_>>()
                .into();
            block.times = range.len();
            // Sample 300 of input 1, and samples 700 to 720 of all.
            let lost = [(300..301, 1..2), (700..720, 0..3)];
            block.missing = lost
                .into_iter()
                .map(|(times, inputs)| {
                    (times.start.max(range.start)..times.end.min(range.end), inputs)
                })
                .filter(|(times, _)| !times.is_empty())
                .map(|(times, inputs)| {
                    Missing::times(times.start - range.start..times.end - range.start)
                        .of_inputs(inputs)
                })
                .collect();
            self.next = end;
            Ok(range.len())
        }

        fn skip(&mut self, times: u64) -> Result<()> {
            self.next = self.times.min(self.next + times as usize);
            Ok(())
        }
    }

    fn voltages(layout: Layout) -> (Voltages, Channeliser) {
        let plan = Channeliser::builder(3, 8).encoding(RawEncoding::I8).layout(RawLayout::Tn);
        let plan = plan.taps(4).output_layout(layout).device(Device::Cpu).build().unwrap();
        let recording = Box::new(Noise { times: 2000, next: 0 });
        (Voltages::over(recording, plan.shape()).blocks(130), plan)
    }

    /// Every sample, and whether it is missing.
    fn flattened(samples: &Samples<'_>, to: &mut Vec<(u8, bool)>) {
        let times = samples.extents().times;
        let gaps: Vec<_> = samples.gaps().collect();
        let bytes = samples.gather(Layout::Tcn).unwrap();
        to.extend(bytes.iter().enumerate().map(|(at, byte)| {
            let (time, channel, input) = (at / 48, at / 6 % 8, at / 2 % 3);
            assert!(time < times);
            let lost = |gap: &Missing| {
                gap.times.contains(&time)
                    && gap.channels.contains(&channel)
                    && gap.inputs.contains(&input)
            };
            (*byte, gaps.iter().any(lost))
        }));
    }

    #[test]
    fn a_recording_of_spectra_has_those_of_the_pieces() {
        let mut expected = Vec::new();
        let (of, plan) = voltages(Layout::Tcn);
        let mut pieces = Pieces::channelised(of, plan).unwrap();
        while let Some(piece) = pieces.next_piece(u64::MAX).unwrap() {
            flattened(&piece.samples.unwrap(), &mut expected);
        }
        let spectra = 2000 / 16 - 4 + 1;
        assert_eq!(expected.len(), spectra * 48);
        assert!(expected.iter().any(|(_, lost)| *lost) && expected.iter().any(|(_, lost)| !*lost));
        for layout in [Layout::Tcn, Layout::Cnt] {
            for times in [1, 7, 64, spectra, 1000] {
                let (of, plan) = voltages(layout);
                let mut recording = Channelised::over(of, plan).unwrap();
                assert_eq!(recording.times(), spectra as u64);
                let (mut found, mut block) = (Vec::new(), Block::new());
                // The first five are passed over.
                recording.skip(5).unwrap();
                while recording.read_block(times, &mut block).unwrap() > 0 {
                    assert!(
                        block.times == times
                            || found.len() + block.times * 48 == expected.len() - 240
                    );
                    flattened(&block.view(&recording.shape()), &mut found);
                }
                assert!(found == expected[240..], "{layout} {times}");
            }
        }
    }

    #[test]
    fn what_is_told_is_said() {
        let (of, plan) = voltages(Layout::Tcn);
        let recording = Channelised::over(of, plan).unwrap();
        assert_eq!((recording.interval(), recording.start()), (None, None));
        let even = Channels::Even { first: 1.0, width: 2.0 };
        let told = recording.told(Some(3.0), Some(Timestamp::UNIX_EPOCH), Some(even.clone()));
        assert_eq!((told.interval(), told.frequencies()), (Some(3.0), Some(even)));
        assert_eq!(told.start(), Some(Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn a_recording_shorter_than_a_spectrum_is_refused() {
        let (_, plan) = voltages(Layout::Tcn);
        let short = Voltages::over(Box::new(Noise { times: 63, next: 0 }), plan.shape());
        let refused = Channelised::over(short, plan).err().unwrap();
        assert!(refused.to_string().contains("63 samples of each input"), "{refused}");
    }
}
