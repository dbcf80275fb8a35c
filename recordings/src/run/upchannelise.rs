//! Subchannels of channels as a step.

use corrust_host::{
    Error, Layout, Result, Upchanneliser, channelise::SpectrumEncoding, samples::Shape,
};

use super::{blocks::Blocks, source::Head};
use crate::{
    array::{file::Channels, time::later},
    formats::Block,
};

/// Subchannels of channels: a time is a spectrum of them, whatever the plan that takes it. Times at the end that do not fill a
/// spectrum are left out. Spectra are in `tcn`; spectra that touch samples before the first are missing.
pub struct Upchannelise {
    blocks: Box<dyn Blocks>,
    plan: Upchanneliser,
    head: Head,
    block: Block,
}

impl Upchannelise {
    /// The subchannels that `plan` makes of blocks, from their first time on: each block is best a multiple of its factor.
    ///
    /// # Errors
    /// As for [`head`](Self::head).
    pub fn over(blocks: impl Blocks + 'static, mut plan: Upchanneliser) -> Result<Self> {
        let head = Self::head(blocks.head(), &plan)?;
        plan.reset();
        Ok(Self { blocks: Box::new(blocks), plan, head, block: Block::new() })
    }

    /// Facts of the subchannels that a plan makes of samples of channels. The first time is centred on the filter bank's taps.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the plan's samples are not those of `channels`, its spectra are of `cf32`, which no other plan
    /// takes, or the recording is [shorter](Self::check_times) than a spectrum.
    pub fn head(channels: &Head, plan: &Upchanneliser) -> Result<Head> {
        let (of, made) = (channels.shape, *plan.shape());
        if (of.inputs, of.channels, of.encoding) != (made.inputs, made.channels, made.encoding) {
            return Err(Error::invalid(format!(
                "a recording of {} inputs and {} channels in {}: expected {}, {} and {}, as the plan has",
                of.inputs, of.channels, of.encoding, made.inputs, made.channels, made.encoding
            )));
        }
        let SpectrumEncoding::Voltage(encoding) = made.output else {
            return Err(Error::invalid(
                "subchannels of cf32: expected ci8, ci4, ci4-offset or cf16, which are correlated and beamformed",
            ));
        };
        let shape = Shape {
            inputs: made.inputs,
            channels: made.channels * made.factor,
            encoding,
            layout: Layout::Tcn,
        };
        Self::check_times(channels.times, made.factor)?;
        let interval = channels.interval.map(|interval| interval * made.factor as f64);
        let reach = (made.taps - 1) as f64 / 2.0;
        Ok(Head {
            shape,
            times: channels.times.map(|times| times / made.factor as u64),
            interval,
            start: channels
                .start
                .zip(interval)
                .and_then(|(start, seconds)| later(start, -reach * seconds)),
            frequencies: channels.frequencies.as_ref().and_then(|of| subchannels(of, made.factor)),
            circularity: plan.circularity(&channels.circularity),
            ..channels.clone()
        })
    }

    /// Checks that a recording has the times of a spectrum of `factor` subchannels, if its length is known.
    ///
    /// # Errors
    /// [`Error::Invalid`] where it is shorter.
    pub fn check_times(times: Option<u64>, factor: usize) -> Result<()> {
        match times.filter(|&times| times < factor as u64) {
            Some(times) => Err(Error::invalid(format!(
                "{times} times of each channel: expected at least the {factor} of a spectrum of subchannels"
            ))),
            None => Ok(()),
        }
    }
}

/// Frequencies of `factor` subchannels of each channel, where channels have a width.
fn subchannels(channels: &Channels, factor: usize) -> Option<Channels> {
    let part =
        |subchannel: usize| (subchannel as f64 - (factor as f64 - 1.0) / 2.0) / factor as f64;
    match channels {
        &Channels::Even { first, width } => {
            Some(Channels::Even { first: first + width * part(0), width: width / factor as f64 })
        }
        Channels::Each(each) => {
            let mut all = Vec::with_capacity(each.len() * factor);
            for (channel, frequency) in each.iter().enumerate() {
                let next = channel.min(each.len().checked_sub(2)?);
                let width = each[next + 1] - each[next];
                all.extend((0..factor).map(|subchannel| frequency + width * part(subchannel)));
            }
            Some(Channels::Each(all))
        }
    }
}

impl Blocks for Upchannelise {
    fn head(&self) -> &Head {
        &self.head
    }

    fn block_times(&self) -> usize {
        self.blocks.block_times().div_ceil(self.plan.shape().factor)
    }

    fn next(&mut self, block: &mut Block) -> Result<bool> {
        if !self.blocks.next(&mut self.block)? {
            return Ok(false);
        }
        // What a gap is made of is missing, as before the first time.
        let gap = self.block.gap / self.plan.shape().factor as u64;
        if gap > 0 {
            self.plan.reset();
        }
        let spectra = self.plan.upchannelise(self.block.view(&self.blocks.head().shape))?;
        block.samples = spectra.bytes.into();
        block.times = spectra.extents.times;
        block.clear(&self.head.shape, &spectra.missing);
        block.missing = spectra.missing;
        block.gap = gap;
        Ok(true)
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        self.blocks.clipped()
    }
}

#[cfg(test)]
mod tests {
    use corrust_host::{Device, Encoding};

    use super::*;
    use crate::{
        array::time::Timestamp,
        formats::Recording,
        run::{BlocksOf, Reader, Source},
    };

    /// Noise of 2 channels and 3 inputs.
    struct Noise {
        times: u64,
        next: u64,
    }

    impl Recording for Noise {
        fn shape(&self) -> Shape {
            Shape { inputs: 3, channels: 2, encoding: Encoding::Ci8, layout: Layout::Tcn }
        }

        fn times(&self) -> u64 {
            self.times
        }

        fn interval(&self) -> Option<f64> {
            Some(1e-3)
        }

        fn start(&self) -> Option<Timestamp> {
            Some(Timestamp::UNIX_EPOCH)
        }

        fn frequencies(&self) -> Option<Channels> {
            Some(Channels::Even { first: 100.0, width: 8.0 })
        }

        fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
            let end = self.times.min(self.next + times as u64);
            let numbers = 12 * self.next..12 * end;
            let bytes: Vec<u8> = numbers.map(|n| (n * n % 251) as u8).collect();
            block.samples = bytes.into();
            block.times = (end - self.next) as usize;
            block.missing = Vec::new();
            self.next = end;
            Ok(block.times)
        }

        fn skip(&mut self, times: u64) -> Result<()> {
            self.next = self.times.min(self.next + times);
            Ok(())
        }
    }

    fn subchannels(taps: usize, times: usize) -> Upchannelise {
        let plan = Upchanneliser::builder(3, 2, 4).taps(taps).unit_noise(true);
        let plan = plan.output(Encoding::Cf16).device(Device::Cpu).build().unwrap();
        let noise = BlocksOf::recording(Box::new(Noise { times: 403, next: 0 }), times);
        Upchannelise::over(noise, plan).unwrap()
    }

    /// Every sample, and whether it is missing.
    fn samples(blocks: Upchannelise) -> Vec<(u8, bool)> {
        let mut source = Reader::of(blocks);
        let mut all = Vec::new();
        while source.advance().unwrap() {
            let samples = source.piece().samples.unwrap();
            let gaps: Vec<_> = samples.gaps().collect();
            let bytes = samples.gather(Layout::Tcn).unwrap();
            let lost = |time| gaps.iter().any(|gap| gap.times.contains(&time));
            all.extend(bytes.iter().enumerate().map(|(at, byte)| (*byte, lost(at / SPECTRUM))));
        }
        all
    }

    /// Bytes of a spectrum.
    const SPECTRUM: usize = 8 * 3 * 4;

    #[test]
    fn times_and_frequencies_are_those_of_subchannels() {
        let found = subchannels(3, 400).head;
        assert_eq!((found.times, found.interval), (Some(100), Some(4e-3)));
        assert_eq!(found.frequencies, Some(Channels::Even { first: 97.0, width: 2.0 }));
        assert_eq!(found.start.unwrap().as_millisecond(), -4);
        assert_eq!(found.shape.channels, 8);
    }

    #[test]
    fn blocks_have_the_spectra_of_the_whole() {
        for taps in [1, 3, 4] {
            let whole = samples(subchannels(taps, 1000));
            assert_eq!(whole.len(), 100 * SPECTRUM);
            let lost = whole.iter().filter(|(_, lost)| *lost).count();
            assert_eq!(lost, (taps - 1) * SPECTRUM, "{taps}");
            // Whole spectra, and parts of them that the next block completes.
            for times in [4, 12, 28, 3, 7, 50] {
                assert!(samples(subchannels(taps, times)) == whole, "{taps} {times}");
            }
        }
    }

    #[test]
    fn other_plans_are_refused() {
        let plan = Upchanneliser::builder(3, 1, 4).device(Device::Cpu).build().unwrap();
        let noise = || BlocksOf::recording(Box::new(Noise { times: 9, next: 0 }), 9);
        let refused = Upchannelise::over(noise(), plan).err();
        assert!(refused.unwrap().to_string().contains("2 channels in ci8: expected 3, 1 and ci8"));
        let plan = Upchanneliser::builder(3, 2, 4).output(SpectrumEncoding::Cf32);
        let plan = plan.device(Device::Cpu).build().unwrap();
        assert!(Upchannelise::over(noise(), plan).is_err());
    }
}
