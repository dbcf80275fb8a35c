//! Spectra of raw voltages as a recording.

use std::sync::Arc;

use corrust_host::{
    Channeliser, Layout, Result,
    device::Gpu,
    samples::{Memory, Missing, Shape},
};

use super::{channelise::Channelise, read::Reader, source::Source};
use crate::{
    array::{file::Channels, time::Timestamp},
    formats::{Block, RawShape, Recording, recording::read_past},
};

/// Spectra of raw voltages as a recording of channels, in host memory and in `tcn` order, made as it is read: what takes any
/// recording, as [`Upchannelised`](super::Upchannelised) and [`Flagged`](super::Flagged) do, takes them. A time is a spectrum.
/// [`Channelise`] leaves spectra on a GPU for plans there.
pub struct Channelised {
    spectra: Channelise<'static>,
    shape: Shape,
    gpu: Option<Arc<dyn Gpu>>,
    /// Number of the spectra that were made last that have been read.
    read: usize,
    position: u64,
    interval: Option<f64>,
    start: Option<Timestamp>,
    frequencies: Option<Channels>,
}

impl Channelised {
    /// The spectra that `plan` makes of voltages; it begins another stream.
    ///
    /// # Errors
    /// As for [`Channelise::over`].
    pub fn over(voltages: Reader<RawShape>, plan: Channeliser) -> Result<Self> {
        let gpu = plan.gpu().cloned();
        let spectra = Channelise::over(voltages, plan)?;
        let shape = Shape { layout: Layout::Tcn, ..spectra.head().shape };
        Ok(Self {
            spectra,
            shape,
            gpu,
            read: 0,
            position: 0,
            interval: None,
            start: None,
            frequencies: None,
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
        if self.read == self.spectra.piece().times as usize {
            self.spectra.advance()?;
            self.read = 0;
        }
        Ok(self.spectra.piece().times as usize - self.read)
    }
}

impl Recording for Channelised {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn times(&self) -> u64 {
        self.spectra.head().times.unwrap_or(u64::MAX)
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
        self.spectra.head().circularity.clone()
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
            let made = self.spectra.piece().samples.expect("spectra have samples");
            let view = made.times(self.read..self.read + count);
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
        Device, Samples,
        samples::{RawEncoding, RawLayout},
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

    fn voltages(layout: Layout) -> (Reader<RawShape>, Channeliser) {
        let plan = Channeliser::builder(3, 8).encoding(RawEncoding::I8).layout(RawLayout::Tn);
        let plan = plan.taps(4).output_layout(layout).device(Device::Cpu).build().unwrap();
        let recording = Box::new(Noise { times: 2000, next: 0 });
        (Reader::voltages(recording, plan.shape()).blocks(130), plan)
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
        let mut spectra = Channelise::over(of, plan).unwrap();
        while spectra.advance().unwrap() {
            flattened(&spectra.piece().samples.unwrap(), &mut expected);
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
        let short = Reader::voltages(Box::new(Noise { times: 63, next: 0 }), plan.shape());
        let refused = Channelised::over(short, plan).err().unwrap();
        assert!(refused.to_string().contains("63 samples of each input"), "{refused}");
    }
}
