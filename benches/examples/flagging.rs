//! Measures the spectral kurtosis on a GPU, and alternates correlations with and without the flagged samples missing:
//! `flagging [DEVICE] [ROUNDS] [MIB]`, as `flagging cuda 20 64`.
//!
//! Samples are Gaussian noise of 20 (ci8) or 2.5 (ci4), in page-locked memory or the GPU's, with a carrier in one channel of
//! 64. Answers are checked first: sums and flags against the CPU's, masked visibilities against those of the same samples of which
//! the host clears what is flagged. What the host does besides the correlator's work is part of a turn; valid samples are
//! counted in both.

use std::{env, error::Error, slice, sync::Arc, time::Instant};

use corrust_host::{
    Correlator, Device, Encoding, Layout,
    device::{Buffer, Gpu, Rows, Stream},
    kurtosis::{FALSE_ALARM, Judge, Kurtosis, Stage, sum_on},
    samples::{Missing, Samples, Shape},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use rayon::prelude::*;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Stretches of samples of a turn.
const BLOCKS: usize = 16;

/// Times of a block that is judged.
const BLOCK_TIMES: usize = 256;

/// Gaussian noise, and a carrier in channels 0, 64 and so on.
fn noise(shape: &Shape, times: usize, to: &mut [u8]) {
    let size = shape.encoding.bytes();
    let per_time = shape.channels * shape.inputs;
    let deviation = if size == 2 { 20.0 } else { 2.5 };
    to.par_chunks_mut(size << 14).enumerate().for_each(|(chunk, samples)| {
        let mut rng = StdRng::seed_from_u64(chunk as u64);
        for (at, sample) in samples.chunks_exact_mut(size).enumerate() {
            let index = (chunk << 14) + at;
            let channel = match shape.layout {
                Layout::Tcn => index % per_time / shape.inputs,
                Layout::Cnt => index / (times * shape.inputs),
            };
            // Box and Muller.
            let words = rng.next_u64();
            let uniform = |bits: u64| ((bits & 0xffff_ffff) as f64 + 0.5) / 4_294_967_296.0;
            let radius = deviation * (-2.0 * uniform(words).ln()).sqrt();
            let (sine, cosine) = (std::f64::consts::TAU * uniform(words >> 32)).sin_cos();
            let parts = [cosine, sine].map(|part| match channel % 64 {
                0 => deviation,
                _ => radius * part,
            });
            match size {
                2 => parts
                    .iter()
                    .zip(sample)
                    .for_each(|(part, to)| *to = part.round().clamp(-127.0, 127.0) as i8 as u8),
                _ => {
                    let [re, im] = parts.map(|part| part.round().clamp(-7.0, 7.0) as i8 as u8);
                    sample[0] = re << 4 | im & 15;
                }
            }
        }
    });
}

/// A shape, its samples, and what to measure of it.
struct Case {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    times: usize,
    rounds: usize,
}

impl Case {
    fn correlator(&self) -> Outcome<Correlator> {
        let Shape { inputs, channels, encoding, layout } = self.shape;
        let plan = Correlator::builder(inputs, channels).encoding(encoding).layout(layout);
        Ok(plan.gpu(self.gpu.clone()).build()?)
    }

    fn judge(&self) -> Outcome<Judge> {
        Ok(Judge::new(self.shape.encoding, FALSE_ALARM)?)
    }

    /// Seconds of the quickest half of turns of each of two works, which take turns.
    fn turns(&self, works: [&mut dyn FnMut() -> Outcome<()>; 2]) -> Outcome<[f64; 2]> {
        let mut seconds = [Vec::new(), Vec::new()];
        let [first, second] = works;
        for _ in 0..self.rounds {
            for (work, seconds) in [&mut *first, &mut *second].into_iter().zip(&mut seconds) {
                let start = Instant::now();
                work()?;
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(seconds.map(|mut all| {
            all.sort_by(f64::total_cmp);
            let half = all.len().div_ceil(2);
            all[..half].iter().sum::<f64>() / half as f64
        }))
    }

    /// Rates of sums and of a copy of the same bytes, bytes read and written a second.
    fn sums(&self, resident: &Buffer) -> Outcome<()> {
        let Shape { inputs, channels, encoding, layout } = self.shape;
        let bytes = self.shape.bytes(self.times);
        let results = 16 * self.times.div_ceil(BLOCK_TIMES) * channels * inputs;
        let (copy, sums) = (Buffer::new(&self.gpu, bytes)?, Buffer::new(&self.gpu, results)?);
        let stream = Stream::default();
        let samples =
            Samples::new(resident.slice().part(0..bytes), inputs, channels, encoding, layout)?;
        let mut best = [f64::MAX; 2];
        for _ in 0..self.rounds {
            let time = self.gpu.time(stream, &mut || {
                // SAFETY: both buffers have so many bytes.
                unsafe {
                    self.gpu.copy_rows(
                        stream,
                        copy.address(),
                        resident.address(),
                        &Rows::one(bytes),
                    )
                }
            })?;
            best[0] = best[0].min(time.as_secs_f64());
            let time = self.gpu.time(stream, &mut || {
                // SAFETY: there is room for the sums.
                unsafe { sum_on(&self.gpu, &samples, encoding, BLOCK_TIMES, sums.address()) }
            })?;
            best[1] = best[1].min(time.as_secs_f64());
        }
        let rates = [2.0 * bytes as f64 / best[0], (bytes + results) as f64 / best[1]];
        println!(
            "  sums alone: {:.0} GB/s, {:.1} % of a copy's {:.0} GB/s",
            rates[1] / 1e9,
            100.0 * rates[1] / rates[0],
            rates[0] / 1e9
        );
        Ok(())
    }

    /// Checks what a stage finds, and masked visibilities.
    fn check(&self, view: &Samples<'_>) -> Outcome<usize> {
        let plan = Kurtosis::builder().encoding(self.shape.encoding).block_times(BLOCK_TIMES);
        let expected = plan.device(Device::Cpu).build()?.sums(*view)?;
        let flagged = self.judge()?.flagged(&expected);
        let stage = Stage::new(
            slice::from_ref(&self.gpu),
            self.shape,
            self.judge()?,
            BLOCK_TIMES,
            self.times,
        )?;
        let mut stage = stage.with_sums();
        stage.begin()?;
        stage.put(view)?;
        stage.close();
        let found = stage.judge()?;
        if (found.sums, &found.flagged) != (Some(&expected), &flagged) {
            return Err("sums or flags differ from the CPU's".into());
        }
        let mut plans = [self.correlator()?, self.correlator()?];
        plans[0].accumulate(stage.view())?;
        plans[1].accumulate(view.missing(&flagged))?;
        let [ours, theirs] = plans;
        let [ours, theirs] = [ours, theirs].map(|mut plan| plan.dump());
        if ours? != theirs? {
            return Err("masked visibilities differ from those of cleared samples".into());
        }
        let cells = |gap: &Missing| gap.channels.len() * gap.inputs.len();
        Ok(flagged.iter().map(cells).sum())
    }

    fn run(&self) -> Outcome<()> {
        let Shape { inputs, channels, encoding, layout } = self.shape;
        let bytes = self.shape.bytes(self.times);
        let mut locked = self.gpu.locked_bytes(bytes)?;
        noise(&self.shape, self.times, &mut locked);
        let host = Samples::new(&locked[..], inputs, channels, encoding, layout)?;
        let flagged = self.check(&host)?;
        let cells = channels * inputs * self.times.div_ceil(BLOCK_TIMES);
        println!(
            "{encoding} {layout}, {inputs} inputs x {channels} channels x {} times, {:.2} % flagged: answers agree",
            self.times,
            100.0 * flagged as f64 / cells as f64
        );
        let resident = Buffer::new(&self.gpu, bytes)?;
        resident.upload(Stream::default(), &locked)?;
        self.sums(&resident)?;
        let near =
            Samples::new(resident.slice().part(0..bytes), inputs, channels, encoding, layout)?;
        for (from, samples) in [("host", &host), ("GPU", &near)] {
            let mut stage = Stage::new(
                slice::from_ref(&self.gpu),
                self.shape,
                self.judge()?,
                BLOCK_TIMES,
                self.times,
            )?;
            let mut stages = [0.0; 3];
            let (mut bare, mut masked) = (self.correlator()?, self.correlator()?);
            // Sixteen blocks a turn.
            let mut plain = || -> Outcome<()> {
                (0..BLOCKS).try_for_each(|_| bare.accumulate(*samples))?;
                Ok(bare.wait()?)
            };
            let mut judged = || -> Outcome<()> {
                for block in 0..BLOCKS {
                    let start = Instant::now();
                    if block == 0 {
                        stage.begin()?;
                        // SAFETY: the samples outlive the stage.
                        unsafe { stage.put_ahead(samples)? };
                        stage.close();
                    }
                    stage.settle()?;
                    if block + 1 < BLOCKS {
                        // As of a recording, the next samples come and are judged while these are used.
                        stage.begin()?;
                        // SAFETY: as above.
                        unsafe { stage.put_ahead(samples)? };
                        stage.close();
                    }
                    stages[0] += start.elapsed().as_secs_f64();
                    let start = Instant::now();
                    stage.judge()?;
                    stages[1] += start.elapsed().as_secs_f64();
                    let start = Instant::now();
                    masked.accumulate(stage.view())?;
                    stages[2] += start.elapsed().as_secs_f64();
                }
                Ok(masked.wait()?)
            };
            plain()?;
            judged()?;
            let [without, with] = self.turns([&mut plain, &mut judged])?;
            let blocks = BLOCKS * (self.rounds + 1);
            let [put, judge, add] = stages.map(|seconds| 1e3 * seconds / blocks as f64);
            println!(
                "  correlated from the {from}: {:.3} ms a block, masked {:.3} ms ({:+.1} %); of which putting {put:.3}, \
                 judging {judge:.3}, enqueuing {add:.3} ms",
                1e3 / BLOCKS as f64 * without,
                1e3 / BLOCKS as f64 * with,
                100.0 * (with / without - 1.0)
            );
        }
        Ok(())
    }
}

fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1);
    let device: Device = arguments.next().as_deref().unwrap_or("cuda").parse()?;
    let rounds = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let mib: usize = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let gpu = device.open()?;
    println!("{}", gpu.facts().name);
    for (encoding, layout, inputs) in [
        (Encoding::Ci8, Layout::Tcn, 128),
        (Encoding::Ci8, Layout::Tcn, 256),
        (Encoding::Ci8, Layout::Tcn, 512),
        (Encoding::Ci8, Layout::Cnt, 256),
        (Encoding::Ci4, Layout::Tcn, 256),
        (Encoding::Ci4, Layout::Tcn, 2048),
    ] {
        // A channel of 4096 times at least, where there is room.
        let channels = ((mib << 20) / (4096 * inputs * encoding.bytes())).clamp(1, 128);
        let shape = Shape { inputs, channels, encoding, layout };
        let times = (mib << 20) / shape.bytes_per_time() / BLOCK_TIMES * BLOCK_TIMES;
        if times == 0 {
            continue;
        }
        Case { gpu: gpu.clone(), shape, times, rounds }.run()?;
    }
    Ok(())
}
