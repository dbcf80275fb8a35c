//! Samples that are judged on their way to plans.

use corrust_host::{
    Result, Samples,
    kurtosis::{Stage, Sums, Verdict},
    samples::Shape,
};
use ndarray::Array4;

use super::source::{Head, Piece, Source, Wants};

/// Callback for the verdict on a stretch of times.
type Tell = Box<dyn FnMut(&Verdict<'_>) -> Result<()> + Send>;

/// Samples in the memory of a stage, where blocks of times are judged by their spectral kurtosis: flagged ones are missing, and
/// zero. Samples reach a GPU once, for all plans there. Blocks are counted from the first time.
pub struct Flag<'a> {
    /// Before the source, whose memory it reads until it is gone.
    stage: Stage,
    source: Box<dyn Source + 'a>,
    tell: Tell,
    /// Times of the source's piece that are not on the stage, of which samples are the last.
    rest: u64,
    /// Times of a long gap that have not been handed out.
    gap: u64,
    /// A stretch that is filled already: times of the gap before it, and its own.
    ahead: Option<(u64, usize)>,
    /// The current piece, and times of the stretch after it.
    start: u64,
    times: u64,
    left: u64,
    /// Whether the current piece is a gap.
    in_gap: bool,
    /// Most times of a piece in host memory.
    soon: u64,
}

impl<'a> Flag<'a> {
    /// Judges the samples of a source on a stage. Those of a source in a GPU's memory take a stage there.
    ///
    /// `tell` is given the verdict on each stretch of times before the samples are handed on, with sums if the stage
    /// [has them](Stage::with_sums). All of a recording is judged, whatever is [wanted](Source::begin).
    pub fn over(
        source: impl Source + 'a,
        stage: Stage,
        tell: impl FnMut(&Verdict<'_>) -> Result<()> + Send + 'static,
    ) -> Self {
        Self {
            stage,
            source: Box::new(source),
            tell: Box::new(tell),
            rest: 0,
            gap: 0,
            ahead: None,
            start: 0,
            times: 0,
            left: 0,
            in_gap: false,
            soon: u64::MAX,
        }
    }

    /// Gives `tell` the verdicts and zero sums of `gap` times of a gap, whole blocks.
    fn pass(&mut self, gap: u64) -> Result<()> {
        let (times, Shape { channels, inputs, .. }) =
            (self.stage.block_times(), *self.stage.shape());
        for _ in 0..gap / times as u64 {
            let values = Array4::zeros((1, channels, inputs, 3));
            let sums = Sums { values, block_times: times, times };
            (self.tell)(&Verdict::of(&sums, Vec::new()))?;
        }
        Ok(())
    }

    /// Fills and closes a stretch. Returns the times of a gap before it, whole blocks, and its own times; both are 0 at the end.
    fn fill(&mut self) -> Result<(u64, usize)> {
        let (block, mut passed) = (self.stage.block_times(), 0);
        self.stage.begin()?;
        while self.stage.left() > 0 {
            if self.gap > 0 {
                let begun = self.stage.times() % block;
                if self.stage.times() == 0 {
                    let whole = self.gap / block as u64 * block as u64;
                    passed += whole;
                    self.gap -= whole;
                } else if begun == 0 && self.gap >= block as u64 {
                    break;
                }
                let lost = self.gap.min((block - begun) as u64);
                self.stage.lose(lost as usize)?;
                self.gap -= lost;
                continue;
            }
            if self.rest == 0 {
                self.stage.settle()?;
                if !self.source.advance()? {
                    break;
                }
                self.rest = self.source.piece().times;
            }
            let piece = self.source.piece();
            let Some(samples) = piece.samples else {
                self.gap = std::mem::take(&mut self.rest);
                continue;
            };
            let from = (piece.times - self.rest) as usize;
            let count = self.stage.left().min(self.rest as usize);
            // SAFETY: the piece stays until the source advances, before which the stage settles, and as long as the source,
            // which the stage is dropped before.
            unsafe { self.stage.put_ahead(&samples.times(from..from + count))? };
            self.rest -= count as u64;
        }
        if self.stage.times() > 0 {
            self.stage.close();
        }
        Ok((passed, self.stage.times()))
    }

    /// Advances to a stretch, judged, and the gap before it, and returns their numbers of times.
    fn stretch(&mut self) -> Result<(u64, u64)> {
        let (passed, times) = match self.ahead.take() {
            Some(filled) => filled,
            None => self.fill()?,
        };
        self.pass(passed)?;
        if times == 0 {
            return Ok((passed, 0));
        }
        // Of files the next samples come to a GPU, and are judged, while these are used; a stream may be long in coming.
        if self.stage.gpu().is_some() && self.head().times.is_some() {
            self.ahead = Some(self.fill()?);
        }
        (self.tell)(&self.stage.judge()?)?;
        Ok((passed, times as u64))
    }
}

impl Source for Flag<'_> {
    fn head(&self) -> &Head {
        self.source.head()
    }

    fn begin(&mut self, wants: &Wants) {
        if self.stage.gpu().is_none() {
            self.soon = wants.soon;
        }
        self.source.begin(&Wants { end: u64::MAX, ..*wants });
    }

    fn advance(&mut self) -> Result<bool> {
        self.start += std::mem::take(&mut self.times);
        self.in_gap = false;
        if self.left == 0 {
            let (passed, times) = self.stretch()?;
            (self.left, self.in_gap) = (times, passed > 0);
            if self.in_gap {
                self.times = passed;
                return Ok(true);
            }
        }
        self.times = self.left.min(self.soon);
        self.left -= self.times;
        Ok(self.times > 0)
    }

    fn piece(&self) -> Piece<Samples<'_>> {
        let (start, times) = (self.start, self.times);
        let samples = (times > 0 && !self.in_gap).then(|| {
            let stretch = self.stage.view();
            let end = stretch.extents().times - self.left as usize;
            stretch.times(end - times as usize..end)
        });
        let host = samples.filter(|_| self.stage.gpu().is_none());
        Piece { start, times, samples, host }
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        self.source.clipped()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ops::Range,
        sync::{Arc, Mutex},
    };

    use corrust_host::{
        Device, Encoding, Layout,
        kurtosis::{Judge, Kurtosis},
        samples::Missing,
    };

    use super::*;
    use crate::{
        formats::{Block, Recording},
        run::Reader,
    };

    /// Numbers of 3 inputs and 2 channels, with a carrier in some, and a gap.
    struct Noise {
        shape: Shape,
        times: u64,
        next: u64,
        gap: Range<u64>,
    }

    impl Noise {
        fn sample(&self, time: u64, channel: usize, input: usize) -> u8 {
            let mixed =
                (time * 6 + (channel * 3 + input) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let noise = (mixed >> 33).wrapping_mul(mixed >> 11) as u8;
            match (channel, input, time % 96) {
                (1, 0 | 1, 32..64) => 0x44,
                _ => noise & 0x77,
            }
        }
    }

    impl Recording for Noise {
        fn shape(&self) -> Shape {
            self.shape
        }

        fn times(&self) -> u64 {
            self.times
        }

        fn interval(&self) -> Option<f64> {
            None
        }

        fn gaps(&self) -> &[Range<u64>] {
            std::slice::from_ref(&self.gap)
        }

        fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
            let times = (self.times - self.next).min(times as u64) as usize;
            block.reset(&self.shape, times)?;
            let Shape { channels, inputs, layout, .. } = self.shape;
            let mut lost = None::<Range<usize>>;
            for time in 0..times {
                let absolute = self.next + time as u64;
                let gone = self.gap.contains(&absolute);
                if gone {
                    lost = Some(lost.map_or(time, |lost| lost.start)..time + 1);
                }
                for channel in 0..channels {
                    for input in 0..inputs {
                        let row = channel * inputs + input;
                        let at = match layout {
                            Layout::Tcn => time * channels * inputs + row,
                            Layout::Cnt => row * times + time,
                        };
                        let sample = self.sample(absolute, channel, input);
                        block.samples[at] = if gone { 0 } else { sample };
                    }
                }
            }
            block.missing.extend(lost.map(Missing::times));
            self.next += times as u64;
            Ok(times)
        }

        fn skip(&mut self, times: u64) -> Result<()> {
            self.next += times;
            Ok(())
        }
    }

    /// Samples, as bytes and whether they are missing, and the reports on blocks.
    type Found = (Vec<(u8, bool)>, Vec<Told>);

    fn found(mut source: impl Source, told: &Mutex<Vec<Told>>) -> Found {
        let gpu = Device::Sim.open().unwrap();
        let mut all = Vec::new();
        while source.advance().unwrap() {
            let piece = source.piece();
            let Some(samples) = piece.samples else {
                all.extend(vec![(0, true); 6 * piece.times as usize]);
                continue;
            };
            let gaps: Vec<Missing> = samples.gaps().collect();
            let bytes = samples.gather_from(&gpu, Layout::Tcn).unwrap();
            for (at, byte) in bytes.iter().enumerate() {
                let (time, channel, input) = (at / 6, at / 3 % 2, at % 3);
                let lost = gaps.iter().any(|gap| {
                    gap.times.contains(&time)
                        && gap.channels.contains(&channel)
                        && gap.inputs.contains(&input)
                });
                all.push((*byte, lost));
            }
        }
        (all, told.lock().unwrap().clone())
    }

    /// Sums of a block, and its inputs that are flagged.
    type Told = (Vec<i64>, usize);

    /// All of a recording, judged at once.
    fn expected(
        mut noise: Noise,
        mut plan: Kurtosis,
        judge: &Judge,
        hear: &mut Tell,
    ) -> Vec<(u8, bool)> {
        let (shape, times) = (noise.shape, noise.times as usize);
        let mut block = Block::new();
        noise.read_block(times, &mut block).unwrap();
        let sums = plan.sums(block.view(&shape)).unwrap();
        let verdict = judge.verdict(&sums);
        hear(&verdict).unwrap();
        block.missing.extend(verdict.flagged);
        let bytes = block.view(&shape).gather(Layout::Tcn).unwrap();
        let lost = |at: usize| {
            let (time, channel, input) = (at / 6, at / 3 % 2, at % 3);
            block.missing.iter().any(|gap| {
                gap.times.contains(&time)
                    && gap.channels.contains(&channel)
                    && gap.inputs.contains(&input)
            })
        };
        bytes.iter().enumerate().map(|(at, byte)| (*byte, lost(at))).collect()
    }

    #[test]
    fn what_is_judged_on_the_way_is_what_is_judged_at_once() {
        let gpu = Device::Sim.open().unwrap();
        for layout in [Layout::Tcn, Layout::Cnt] {
            let shape = Shape { inputs: 3, channels: 2, encoding: Encoding::Ci4, layout };
            // No gap, one within a block, and some of whole blocks.
            for gap in [0..0, 70..75, 40..300, 96..128, 64..500, 10..1000, 990..1000] {
                let noise = || Noise { shape, times: 1003, next: 0, gap: gap.clone() };
                let judge = || Judge::new(Encoding::Ci4, 0.01).unwrap();
                let told = || Arc::new(Mutex::new(Vec::new()));
                let hear = |to: &Arc<Mutex<Vec<Told>>>| {
                    let to = to.clone();
                    move |verdict: &Verdict<'_>| {
                        let (sums, flagged) = (verdict.sums.unwrap(), &verdict.flagged);
                        let blocks = sums.values.outer_iter().enumerate();
                        to.lock().unwrap().extend(blocks.map(|(block, values)| {
                            let range = sums.range(block);
                            let own = flagged.iter().filter(|gap| gap.times == range);
                            let count = own.map(|gap| gap.inputs.len()).sum::<usize>();
                            (values.iter().copied().collect(), count)
                        }));
                        Ok(())
                    }
                };
                let plan = || {
                    let plan = Kurtosis::builder().encoding(Encoding::Ci4).block_times(32);
                    plan.device(Device::Cpu).build().unwrap()
                };
                let to = told();
                let mut each: Tell = Box::new(hear(&to));
                let samples = expected(noise(), plan(), &judge(), &mut each);
                let blocks = to.lock().unwrap().clone();
                let flagged = blocks.iter().map(|(_, inputs)| inputs).sum::<usize>();
                assert!(flagged > 0 || gap == (10..1000), "{layout} {gap:?}");
                for (at_once, most) in [(320, 320), (7, 64), (50, 96), (1003, 32), (33, 2000)] {
                    for (on_gpu, soon) in [(true, u64::MAX), (false, u64::MAX), (false, 50)] {
                        let to = told();
                        let gpus = match on_gpu {
                            true => std::slice::from_ref(&gpu),
                            false => &[],
                        };
                        let stage = Stage::new(gpus, shape, judge(), 32, most).unwrap();
                        let stage = stage.with_sums();
                        let reader = Reader::over(Box::new(noise()), at_once);
                        let mut flag = Flag::over(reader, stage, hear(&to));
                        flag.begin(&Wants { soon, ..Wants::default() });
                        let ours = found(flag, &to);
                        let what = format!("{layout} {gap:?} {at_once} {most} {on_gpu} {soon}");
                        assert!(ours.0 == samples, "{what}");
                        assert!(ours.1 == blocks, "{what}");
                    }
                }
            }
        }
    }
}
