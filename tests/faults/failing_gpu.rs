//! GPUs that fail in the middle: whichever call it is, there is an error, nothing hangs or stays reserved or reads the
//! caller's memory, and what comes after is right. And streams that are gone before the plan that worked on them.
#![cfg(feature = "sim")]

use std::sync::Arc;

use corrust::{
    Autocorrelator, Beamformer, Channeliser, Correlator, Device, Encoding, Layout, Result,
    device::{Buffer, DeviceSlice, DeviceSliceMut, Gpu, Stream},
    kurtosis::{Judge, Kurtosis, Stage},
    samples::{Element, Memory, RawSamples, Samples, Shape},
};
use lazy_gpu::LazyGpu;
use num_complex::Complex;

use crate::support::lazy_gpu;

/// Makes every call fail in turn, and all after it or that one alone, of what `work` does with a GPU; without a
/// fault it gives what it does elsewhere.
fn every_call_fails<T: PartialEq>(name: &str, work: impl Fn(PlanDevice) -> Result<T>) {
    let expected = work(PlanDevice::Cpu).unwrap();
    let whole = Arc::new(LazyGpu::failing(0, u64::MAX, true));
    assert!(work(PlanDevice::Gpu(whole.clone())).unwrap() == expected, "{name}");
    let calls = u64::MAX - whole.calls_left();
    assert!(calls > 8, "{name}: {calls} calls");
    assert_eq!(whole.alive(), 0, "{name}: memory stays reserved");
    let mut failed = 0;
    for once in [false, true] {
        for call in 0..calls {
            let gpu = Arc::new(LazyGpu::failing(call, call, once));
            match work(PlanDevice::Gpu(gpu.clone())) {
                // Some waits come too late to change anything: what was computed is right then.
                Ok(found) => assert!(found == expected, "{name}: wrong after call {call}"),
                Err(error) => {
                    failed += 1;
                    let error = error.to_string();
                    assert!(error.contains("the GPU is lost"), "{name}, call {call}: {error}");
                    assert_eq!(error.lines().count(), 1, "{error}");
                }
            }
            assert_eq!(gpu.alive(), 0, "{name}, call {call}: memory stays reserved");
        }
    }
    println!("{name}: {calls} calls, each failed twice: {failed} errors");
    assert!(failed > calls, "{name}: {failed} of {calls} calls, twice, failed");
    // Nothing is left that would disturb another plan.
    assert!(work(PlanDevice::Cpu).unwrap() == expected, "{name}");
}

enum PlanDevice {
    Cpu,
    Gpu(Arc<LazyGpu>),
}

impl PlanDevice {
    /// Result of a call, after which nothing of the caller's is in use any more, whether it failed or not.
    fn after<T>(&self, result: Result<T>) -> Result<T> {
        if let Self::Gpu(gpu) = self {
            assert_eq!(gpu.lent(), 0, "copies of the caller's memory after {:?}", result.err());
        }
        result
    }
}

/// The builder at the place.
macro_rules! at {
    ($place:expr, $builder:expr) => {
        match &$place {
            PlanDevice::Cpu => $builder.device(Device::Cpu),
            PlanDevice::Gpu(gpu) => $builder.gpu(gpu.clone()),
        }
    };
}

/// Bytes of a row that is copied from the caller's page-locked memory without passing through other memory.
const LENT: usize = 4200;

fn noise(count: usize) -> Vec<u8> {
    (0..count as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

#[test]
fn correlators() {
    let samples = noise(LENT.next_multiple_of(3 * 5 * 2));
    for layout in [Layout::Tcn, Layout::Cnt] {
        every_call_fails("correlate", |place| {
            let mut plan = at!(place, Correlator::builder(5, 3).layout(layout)).build()?;
            place.after(plan.accumulate(&samples[..]))?;
            place.after(plan.accumulate(&samples[..]))?;
            let dump = plan.dump()?;
            Ok((dump.visibilities.integer().expect("sums").clone(), plan.times()))
        });
    }
}

#[test]
fn channelisers() {
    let samples = noise(2 * LENT);
    every_call_fails("channelise", |place| {
        let mut plan = at!(place, Channeliser::builder(2, 16).taps(4)).build()?;
        let first = place.after(plan.channelise(&samples[..]))?;
        Ok((first, place.after(plan.channelise(&samples[..]))?))
    });
}

#[test]
fn beamformers() {
    let (samples, weights) = (noise(LENT.next_multiple_of(2 * 2 * 5)), noise(2 * 2 * 3 * 5 * 2));
    every_call_fails("beamform", |place| {
        let builder =
            Beamformer::builder(5, 3).channels(2).polarisations(2).encoding(Encoding::Ci4);
        let mut plan = at!(place, builder).build()?;
        plan.set_weights(&weights)?;
        plan.set_shifts(&[6; 2 * 2 * 3])?;
        place.after(plan.beamform(&samples[..]))
    });
}

#[test]
fn autocorrelators() {
    let counts = noise(LENT.next_multiple_of(7));
    every_call_fails("autocorrelate", |place| {
        let mut plan = at!(place, Autocorrelator::builder(7)).build()?;
        place.after(plan.accumulate(&counts[..]))?;
        place.after(plan.accumulate(&counts[..]))?;
        plan.snapshot()
    });
}

#[test]
fn stages_of_the_kurtosis() {
    const BLOCK_TIMES: usize = 32;
    let encoding = Encoding::Ci8;
    for layout in [Layout::Tcn, Layout::Cnt] {
        let shape = Shape { inputs: 1, channels: 1, encoding, layout };
        // Noise, and a carrier for some blocks.
        let times = LENT / shape.bytes_per_time() / BLOCK_TIMES * BLOCK_TIMES + BLOCK_TIMES;
        let mut bytes = noise(shape.bytes(times));
        bytes[..shape.bytes(3 * BLOCK_TIMES)].fill(60);
        every_call_fails("flag", |place| {
            let samples = Samples::new(&bytes[..], 1, 1, encoding, layout)?;
            let judge = Judge::new(encoding, 0.001)?;
            let PlanDevice::Gpu(gpu) = &place else {
                let plan = Kurtosis::builder().encoding(encoding).block_times(BLOCK_TIMES);
                let twice = bytes.repeat(2);
                let twice = Samples::new(&twice[..], 1, 1, encoding, layout)?;
                let sums = plan.device(Device::Cpu).build()?.sums(twice)?;
                let flagged = judge.flagged(&sums);
                assert!(!flagged.is_empty(), "a carrier");
                return Ok((sums, flagged));
            };
            let shared: Arc<dyn Gpu> = gpu.clone();
            let mut stage =
                Stage::new(&[shared], shape, judge, BLOCK_TIMES, 2 * times)?.with_sums();
            stage.begin()?;
            place.after(stage.put(&samples))?;
            place.after(stage.put(&samples))?;
            stage.close();
            let verdict = stage.judge()?;
            Ok((verdict.sums.cloned().unwrap_or_default(), verdict.flagged))
        });
    }
}

/// Bytes in a GPU's memory, on a stream that is gone with them.
struct Passing<'a> {
    gpu: &'a LazyGpu,
    stream: Stream,
    buffer: Buffer,
}

impl<'a> Passing<'a> {
    fn new(gpu: &'a Arc<LazyGpu>, bytes: &[u8]) -> Self {
        let stream = gpu.create_stream().unwrap();
        let shared: Arc<dyn Gpu> = gpu.clone();
        let buffer = Buffer::new(&shared, bytes.len()).unwrap();
        buffer.upload(stream, bytes).unwrap();
        Self { gpu, stream, buffer }
    }

    fn slice<T: bytemuck::Pod>(&self) -> DeviceSlice<'_, T> {
        self.buffer.slice().on(self.stream)
    }

    fn slice_mut<T: bytemuck::Pod>(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.slice_mut().on(self.stream)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.buffer.bytes()];
        self.buffer.download(self.stream, &mut bytes).unwrap();
        bytes
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.gpu.destroy(self.stream);
    }
}

/// Samples in the memory of one GPU, whose streams work late and in any order, reach the others before they are written over:
/// in one piece, and in rows that are put together.
#[test]
fn samples_of_one_gpu_reach_the_others_in_order() {
    let (inputs, channels, times) = (3, 4, 2500);
    for (seed, range) in [(0, 0..times), (1, 100..2400), (2, 0..times), (3, 7..2500)] {
        let gpus: [Arc<dyn Gpu>; 2] = [0, 10].map(|gpu| Arc::new(LazyGpu::new(seed + gpu)) as _);
        let plan = || Correlator::builder(inputs, channels).layout(Layout::Cnt);
        let mut ours = plan().gpus(gpus.iter().cloned()).build().unwrap();
        let mut theirs = plan().device(Device::Cpu).build().unwrap();
        let owner = &gpus[seed as usize % 2];
        let buffer = Buffer::new(owner, 2 * inputs * channels * times).unwrap();
        let stream = owner.create_stream().unwrap();
        for block in 0..5 {
            let mut bytes = noise(buffer.bytes());
            bytes.rotate_left(7 * block);
            // SAFETY: the buffer has as many bytes.
            unsafe { owner.upload(stream, buffer.address(), &bytes).unwrap() };
            let memories: [Memory<'_>; 2] = [buffer.slice().on(stream).into(), bytes[..].into()];
            let [there, here] = memories.map(|memory| {
                let all = Samples::new(memory, inputs, channels, Encoding::Ci8, Layout::Cnt);
                all.unwrap().times(range.clone())
            });
            ours.accumulate(there).unwrap();
            theirs.accumulate(here).unwrap();
        }
        assert!(ours.dump().unwrap() == theirs.dump().unwrap(), "{seed} {range:?}");
    }
}

#[test]
fn streams_may_go_before_plans() {
    let samples = noise(40 * 3 * 5 * 2);
    for seed in 0..20 {
        let gpu = Arc::new(LazyGpu::new(seed));
        let given = || Passing::new(&gpu, &samples);
        fn shaped<'a>(
            of: &'a Passing<'_>,
            element: impl Into<Element>,
            rows: usize,
        ) -> Samples<'a> {
            Samples::new(of.slice(), 5, rows, element, Layout::Tcn).unwrap()
        }
        let correlated = |plan: &mut Correlator| {
            plan.accumulate(shaped(&given(), Encoding::Ci8, 3)).unwrap();
        };
        let counted = |plan: &mut Autocorrelator| {
            plan.accumulate(shaped(&given(), Element::Count, 1)).unwrap();
        };

        let mut plan = Correlator::builder(5, 3).gpu(gpu.clone()).build().unwrap();
        correlated(&mut plan);
        plan.accumulate(&samples[..]).unwrap();
        let once = plan.dump().unwrap();
        correlated(&mut plan);
        let values = 2 * once.visibilities.integer().unwrap().len();
        let mut room = Passing::new(&gpu, &vec![0; 8 * values]);
        plan.dump_device(room.slice_mut::<Complex<i64>>()).unwrap();
        let bytes = room.bytes();
        let (sums, _) = bytes.as_chunks::<16>();
        let mut sums = sums.iter().map(|sum| bytemuck::pod_read_unaligned::<Complex<i64>>(sum) * 2);
        drop(room);
        assert!(once.visibilities.integer().unwrap().iter().all(|sum| Some(*sum) == sums.next()));
        correlated(&mut plan);
        correlated(&mut plan);
        assert!(plan.dump().unwrap().visibilities == once.visibilities);

        let mut plan = Autocorrelator::builder(5).gpu(gpu.clone()).build().unwrap();
        counted(&mut plan);
        let points = plan.shape().points();
        let mut room = Passing::new(&gpu, &vec![0; 8 * 5 * points]);
        plan.snapshot_device(room.slice_mut::<u64>()).unwrap();
        drop(room);
        counted(&mut plan);
        let mut whole = Autocorrelator::builder(5).device(Device::Cpu).build().unwrap();
        whole.accumulate(&samples[..]).unwrap();
        whole.accumulate(&samples[..]).unwrap();
        assert!(plan.snapshot().unwrap() == whole.snapshot().unwrap());

        let mut plan = Channeliser::builder(2, 16).taps(4).gpu(gpu.clone()).build().unwrap();
        let mut whole = Channeliser::builder(2, 16).taps(4).device(Device::Cpu).build().unwrap();
        for _ in 0..2 {
            let passing = given();
            let (encoding, layout) = (plan.shape().raw, plan.shape().raw_layout);
            let raw = RawSamples::new(passing.slice(), 2, encoding, layout).unwrap();
            assert!(plan.channelise(raw).unwrap() == whole.channelise(&samples[..]).unwrap());
        }

        let weights = noise(2 * 3 * 5 * 2);
        let plan = Beamformer::builder(5, 3).channels(2).encoding(Encoding::Ci4);
        let mut plan = plan.gpu(gpu.clone()).build().unwrap();
        plan.set_weights(&weights).unwrap();
        let found = plan.beamform(shaped(&given(), Encoding::Ci4, 2)).unwrap();
        let mut room = Passing::new(&gpu, &vec![0; found.samples.len()]);
        plan.beamform_device(shaped(&given(), Encoding::Ci4, 2), room.slice_mut::<u8>()).unwrap();
        assert!(room.bytes().iter().eq(&found.samples));
        drop(room);
        plan.set_weights(&weights).unwrap();
        assert!(plan.beamform(shaped(&given(), Encoding::Ci4, 2)).unwrap() == found);
    }
}
