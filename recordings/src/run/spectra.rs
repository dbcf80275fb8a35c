//! Spectra of raw voltages in host memory.

use std::sync::Arc;

use corrust_host::{
    Layout, Result,
    device::Gpu,
    samples::{Memory, Missing, Shape},
};

use super::{
    blocks::Blocks,
    channelise::Channelise,
    source::{Head, Source},
};
use crate::formats::Block;

/// Spectra of raw voltages in blocks of host memory, in `tcn` order, for steps there. A time is a spectrum.
/// [`Channelise`] leaves spectra on a GPU for plans there.
pub struct HostSpectra {
    spectra: Channelise<'static>,
    head: Head,
    times: usize,
    gpu: Option<Arc<dyn Gpu>>,
    /// Number of the spectra that were made last that have been taken.
    taken: u64,
}

impl HostSpectra {
    /// Blocks of `times` spectra, at least 1.
    pub fn of(mut spectra: Channelise<'static>, times: usize) -> Self {
        let gpu = spectra.plan().gpu().cloned();
        let head = spectra.head().clone();
        let head = Head { shape: Shape { layout: Layout::Tcn, ..head.shape }, ..head };
        Self { spectra, head, times: times.max(1), gpu, taken: 0 }
    }

    /// Advances to spectra that have not been taken, and returns their number; 0 at the end.
    fn go_on(&mut self) -> Result<u64> {
        if self.taken == self.spectra.piece().times {
            self.spectra.advance()?;
            self.taken = 0;
        }
        Ok(self.spectra.piece().times - self.taken)
    }
}

impl Blocks for HostSpectra {
    fn head(&self) -> &Head {
        &self.head
    }

    fn block_times(&self) -> usize {
        self.times
    }

    fn next(&mut self, block: &mut Block) -> Result<bool> {
        let step = self.head.shape.bytes_per_time();
        block.reset(&self.head.shape, self.times)?;
        let mut filled = 0;
        while filled < self.times {
            let left = usize::try_from(self.go_on()?).unwrap_or(usize::MAX);
            let count = left.min(self.times - filled);
            if count == 0 {
                break;
            }
            let made = self.spectra.piece().samples.expect("spectra have samples");
            let from = self.taken as usize;
            let view = made.times(from..from + count);
            let bytes = match (view.memory(), &self.gpu) {
                (Memory::Device(_), Some(gpu)) => view.gather_from(gpu, Layout::Tcn)?,
                _ => view.gather(Layout::Tcn)?,
            };
            block.samples[filled * step..(filled + count) * step].copy_from_slice(&bytes);
            block.missing.extend(view.gaps().map(|gap| {
                let times = gap.times.start + filled..gap.times.end + filled;
                Missing { times, ..gap }
            }));
            self.taken += count as u64;
            filled += count;
        }
        block.samples.resize(filled * step)?;
        block.times = filled;
        Ok(filled > 0)
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        self.spectra.clipped()
    }
}

#[cfg(test)]
mod tests {
    use corrust_host::{
        Channeliser, Device, Samples,
        samples::{RawEncoding, RawLayout, RawShape},
    };

    use super::*;
    use crate::{formats::Recording, run::Reader};

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
        (Reader::over(recording, 130).filled(), plan)
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
    fn blocks_have_the_spectra_of_the_pieces() {
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
                let mut blocks = HostSpectra::of(Channelise::over(of, plan).unwrap(), times);
                assert_eq!(blocks.head().times, Some(spectra as u64));
                let (mut found, mut block) = (Vec::new(), Block::new());
                while blocks.next(&mut block).unwrap() {
                    assert!(
                        block.times == times || found.len() + block.times * 48 == expected.len()
                    );
                    flattened(&block.view(&blocks.head().shape), &mut found);
                }
                assert!(found == expected, "{layout} {times}");
            }
        }
    }

    #[test]
    fn a_recording_shorter_than_a_spectrum_is_refused() {
        let (_, plan) = voltages(Layout::Tcn);
        let short = Reader::voltages(Box::new(Noise { times: 63, next: 0 }), plan.shape());
        let refused = Channelise::over(short, plan).err().unwrap();
        assert!(refused.to_string().contains("63 samples of each input"), "{refused}");
    }
}
