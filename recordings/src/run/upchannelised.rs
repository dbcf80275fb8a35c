//! A recording whose channels are subchannels of another's.

use corrust_host::{
    Error, Layout, Result, Upchanneliser, channelise::SpectrumEncoding, samples::Shape,
};

use crate::{
    array::{
        file::Channels,
        time::{Timestamp, later},
    },
    formats::{Block, Recording},
};

/// Subchannels of a recording's channels, made as it is read: a time is a spectrum of them, whatever the plan that takes
/// it. Times at the end that do not fill a spectrum are left out. Spectra are in `tcn`; spectra that touch samples before
/// the first are missing.
pub struct Upchannelised {
    recording: Box<dyn Recording>,
    plan: Upchanneliser,
    shape: Shape,
    /// Number of the next spectrum.
    position: u64,
    block: Block,
}

impl Upchannelised {
    /// The subchannels that `plan` makes of the samples of `recording`, from its first time on.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the plan's samples are not the recording's, or its spectra are of `cf32`, which no other
    /// plan takes.
    pub fn over(recording: Box<dyn Recording>, mut plan: Upchanneliser) -> Result<Self> {
        let (of, made) = (recording.shape(), *plan.shape());
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
        plan.reset();
        let channels = made.channels * made.factor;
        let shape = Shape { inputs: made.inputs, channels, encoding, layout: Layout::Tcn };
        Ok(Self { recording, plan, shape, position: 0, block: Block::new() })
    }

    fn factor(&self) -> usize {
        self.plan.shape().factor
    }
}

impl Recording for Upchannelised {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn times(&self) -> u64 {
        match self.recording.times() {
            u64::MAX => u64::MAX,
            times => times / self.factor() as u64,
        }
    }

    fn interval(&self) -> Option<f64> {
        self.recording.interval().map(|interval| interval * self.factor() as f64)
    }

    /// Start of the first time, which is centred on the filter bank's taps.
    fn start(&self) -> Option<Timestamp> {
        let reach = (self.plan.shape().taps - 1) as f64 / 2.0;
        later(self.recording.start()?, -reach * self.interval()?)
    }

    fn frequencies(&self) -> Option<Channels> {
        let factor = self.factor();
        let part =
            |subchannel: usize| (subchannel as f64 - (factor as f64 - 1.0) / 2.0) / factor as f64;
        match self.recording.frequencies()? {
            Channels::Even { first, width } => Some(Channels::Even {
                first: first + width * part(0),
                width: width / factor as f64,
            }),
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

    fn circularity(&self) -> Vec<f64> {
        self.plan.circularity(&self.recording.circularity())
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.recording.facts()
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let times = times.saturating_mul(self.factor());
        let read = self.recording.read_block(times, &mut self.block)?;
        if read == 0 {
            return Ok(0);
        }
        // What a gap is made of is missing, as before the first time.
        let gap = self.block.gap / self.factor() as u64;
        if gap > 0 {
            self.plan.reset();
        }
        let spectra = self.plan.upchannelise(self.block.view(&self.recording.shape()))?;
        block.samples = spectra.bytes.into();
        block.times = spectra.extents.times;
        let shape = self.shape();
        spectra.missing.iter().for_each(|missing| block.clear(&shape, missing));
        block.missing = spectra.missing;
        block.gap = gap;
        self.position += gap + block.times as u64;
        Ok(block.times)
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        // Spectra before the one that comes next are read again: what they are made of is the history.
        let end = self.position.saturating_add(times).min(self.times());
        let from = end.saturating_sub(self.plan.shape().taps as u64);
        if from > self.position {
            self.recording.skip((from - self.position) * self.factor() as u64)?;
            self.plan.reset();
            self.position = from;
        }
        let mut passed = Block::new();
        while self.position < end {
            let most = (end - self.position).min(1 << 10) as usize;
            if self.read_block(most, &mut passed)? == 0 {
                break;
            }
        }
        Ok(())
    }

    fn left_out(&self) -> Option<&str> {
        self.recording.left_out()
    }

    fn contradiction(&self) -> Option<&str> {
        self.recording.contradiction()
    }
}

#[cfg(test)]
mod tests {
    use corrust_host::{Device, Encoding};

    use super::*;
    use crate::run::{Reader, Source};

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

    fn subchannels(taps: usize) -> Upchannelised {
        let plan = Upchanneliser::builder(3, 2, 4).taps(taps).unit_noise(true);
        let plan = plan.output(Encoding::Cf16).device(Device::Cpu).build().unwrap();
        Upchannelised::over(Box::new(Noise { times: 403, next: 0 }), plan).unwrap()
    }

    fn bytes(recording: Upchannelised) -> Vec<u8> {
        let mut source = Reader::over(Box::new(recording), 7);
        let mut bytes = Vec::new();
        while source.advance().unwrap() {
            bytes.extend(source.piece().samples.unwrap().gather(Layout::Tcn).unwrap());
        }
        bytes
    }

    #[test]
    fn times_and_frequencies_are_those_of_subchannels() {
        let found = subchannels(3);
        assert_eq!((found.times(), found.interval()), (100, Some(4e-3)));
        assert_eq!(found.frequencies(), Some(Channels::Even { first: 97.0, width: 2.0 }));
        assert_eq!(found.start().unwrap().as_millisecond(), -4);
        assert_eq!(found.shape().channels, 8);
    }

    #[test]
    fn parts_are_those_of_the_whole() {
        for taps in [1, 3, 4] {
            let whole = bytes(subchannels(taps));
            let spectrum = 8 * 3 * 4;
            assert_eq!(whole.len(), 100 * spectrum);
            for skips in [&[1][..], &[2, 3], &[10], &[13, 1, 40], &[99], &[100], &[1000]] {
                let mut part = subchannels(taps);
                let mut first = 0;
                for &skip in skips {
                    part.skip(skip).unwrap();
                    first = (first + skip as usize).min(100);
                }
                let mut block = Block::new();
                let mut found = Vec::new();
                while part.read_block(7, &mut block).unwrap() > 0 {
                    found.extend_from_slice(&block.samples);
                }
                assert!(found == whole[first * spectrum..], "{taps} {skips:?}");
            }
        }
    }

    #[test]
    fn other_plans_are_refused() {
        let plan = Upchanneliser::builder(3, 1, 4).device(Device::Cpu).build().unwrap();
        let refused = Upchannelised::over(Box::new(Noise { times: 9, next: 0 }), plan).err();
        assert!(refused.unwrap().to_string().contains("2 channels in ci8: expected 3, 1 and ci8"));
        let plan = Upchanneliser::builder(3, 2, 4).output(SpectrumEncoding::Cf32);
        let plan = plan.device(Device::Cpu).build().unwrap();
        assert!(Upchannelised::over(Box::new(Noise { times: 9, next: 0 }), plan).is_err());
    }
}
