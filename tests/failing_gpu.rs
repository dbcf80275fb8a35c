//! GPUs that fail in the middle: whichever call it is, there is an error, nothing hangs or stays reserved, and
//! what comes after is right.
#![cfg(feature = "sim")]

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use corrust::{
    Autocorrelator, Beamformer, Channeliser, Correlator, Device, Error, Layout, Result,
    device::{Facts, Gpu, LockedBytes, Rows, SimGpu, Stream, TensorMap},
};
use corrust_gpu::abi::Entry;

/// The simulator, until `left` calls were made: then every call fails.
#[derive(Debug)]
struct Failing {
    gpu: SimGpu,
    left: AtomicI64,
    /// Whether one call alone fails.
    once: bool,
    /// Allocations that live.
    alive: AtomicI64,
}

impl Failing {
    fn after(calls: i64, once: bool) -> Arc<Self> {
        let (left, alive) = (AtomicI64::new(calls), AtomicI64::new(0));
        Arc::new(Self { gpu: SimGpu::new(), left, once, alive })
    }

    /// Counts a call.
    fn called(&self, what: &str) -> Result<()> {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        match (left, self.once) {
            (0, _) | (..0, false) => Err(Error::Device(format!("{what}: the GPU is lost"))),
            _ => Ok(()),
        }
    }
}

impl Gpu for Failing {
    fn name(&self) -> &str {
        self.gpu.name()
    }

    fn facts(&self) -> &Facts {
        self.gpu.facts()
    }

    fn free_bytes(&self) -> Result<u64> {
        self.called("free bytes")?;
        self.gpu.free_bytes()
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.called("allocation")?;
        let address = self.gpu.allocate(bytes)?;
        self.alive.fetch_add(1, Ordering::Relaxed);
        Ok(address)
    }

    unsafe fn free(&self, address: u64) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.gpu.free(address) }
    }

    fn holds(&self, address: u64) -> bool {
        self.gpu.holds(address)
    }

    fn create_stream(&self) -> Result<Stream> {
        self.called("stream")?;
        self.gpu.create_stream()
    }

    fn order(&self, earlier: Stream, later: Stream) -> Result<()> {
        self.called("order")?;
        self.gpu.order(earlier, later)
    }

    unsafe fn upload_filled(
        &self,
        stream: Stream,
        address: u64,
        bytes: usize,
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<()> {
        self.called("upload")?;
        // SAFETY: the caller's promise.
        unsafe { self.gpu.upload_filled(stream, address, bytes, fill) }
    }

    unsafe fn download(&self, stream: Stream, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.called("download")?;
        // SAFETY: the caller's promise.
        unsafe { self.gpu.download(stream, address, bytes) }
    }

    fn locked_bytes(&self, bytes: usize) -> Result<LockedBytes> {
        self.called("page-locked memory")?;
        self.gpu.locked_bytes(bytes)
    }

    fn is_locked(&self, bytes: &[u8]) -> bool {
        self.gpu.is_locked(bytes)
    }

    unsafe fn copy_in(
        &self,
        stream: Stream,
        address: u64,
        bytes: &[u8],
        rows: &Rows,
    ) -> Result<()> {
        self.called("copy in")?;
        // SAFETY: the caller's promise.
        unsafe { self.gpu.copy_in(stream, address, bytes, rows) }
    }

    unsafe fn copy_rows(&self, stream: Stream, to: u64, from: u64, rows: &Rows) -> Result<()> {
        self.called("copy")?;
        // SAFETY: the caller's promise.
        unsafe { self.gpu.copy_rows(stream, to, from, rows) }
    }

    unsafe fn copy_out(&self, stream: Stream, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.called("copy out")?;
        // SAFETY: the caller's promise.
        unsafe { self.gpu.copy_out(stream, address, bytes) }
    }

    unsafe fn set_rows(&self, stream: Stream, address: u64, rows: &Rows, byte: u8) -> Result<()> {
        self.called("set")?;
        // SAFETY: the caller's promise.
        unsafe { self.gpu.set_rows(stream, address, rows, byte) }
    }

    fn tensor_map(&self, map: &TensorMap) -> Result<[u8; 128]> {
        self.called("tensor map")?;
        self.gpu.tensor_map(map)
    }

    unsafe fn launch_bytes(
        &self,
        stream: Stream,
        entry: &Entry,
        blocks: u32,
        parameters: &[u8],
    ) -> Result<()> {
        self.called("launch")?;
        // SAFETY: the caller's promise.
        unsafe { self.gpu.launch_bytes(stream, entry, blocks, parameters) }
    }

    fn wait(&self, stream: Stream) -> Result<()> {
        self.called("wait")?;
        self.gpu.wait(stream)
    }
}

/// Makes every call fail in turn, and all after it or that one alone, of what `work` does with a GPU; without a
/// fault it gives what it does elsewhere.
fn every_call_fails<T: PartialEq>(name: &str, work: impl Fn(Place) -> Result<T>) {
    let expected = work(Place::Cpu).unwrap();
    let whole = Failing::after(i64::MAX, true);
    assert!(work(Place::Gpu(whole.clone())).unwrap() == expected, "{name}");
    let calls = i64::MAX - whole.left.load(Ordering::Relaxed);
    assert!(calls > 8, "{name}: {calls} calls");
    assert_eq!(whole.alive.load(Ordering::Relaxed), 0, "{name}: memory stays reserved");
    let mut failed = 0;
    for once in [false, true] {
        for call in 0..calls {
            let gpu = Failing::after(call, once);
            match work(Place::Gpu(gpu.clone())) {
                // Some waits come too late to change anything: what was computed is right then.
                Ok(found) => assert!(found == expected, "{name}: wrong after call {call}"),
                Err(error) => {
                    failed += 1;
                    let error = error.to_string();
                    assert!(error.contains("the GPU is lost"), "{name}, call {call}: {error}");
                    assert_eq!(error.lines().count(), 1, "{error}");
                }
            }
            let alive = gpu.alive.load(Ordering::Relaxed);
            assert_eq!(alive, 0, "{name}, call {call}: memory stays reserved");
        }
    }
    println!("{name}: {calls} calls, each failed twice: {failed} errors");
    assert!(failed > calls, "{name}: {failed} of {calls} calls, twice, failed");
    // Nothing is left that would disturb another plan.
    assert!(work(Place::Cpu).unwrap() == expected, "{name}");
}

#[derive(Clone)]
enum Place {
    Cpu,
    Gpu(Arc<Failing>),
}

/// The builder at the place.
macro_rules! at {
    ($place:expr, $builder:expr) => {
        match $place {
            Place::Cpu => $builder.device(Device::Cpu),
            Place::Gpu(gpu) => $builder.gpu(gpu),
        }
    };
}

fn noise(count: usize) -> Vec<u8> {
    (0..count as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

#[test]
fn correlators() {
    let samples = noise(40 * 3 * 5 * 2);
    for layout in [Layout::Tcn, Layout::Cnt] {
        every_call_fails("correlate", |place| {
            let mut plan = at!(place, Correlator::builder(5, 3).layout(layout)).build()?;
            plan.accumulate(&samples[..])?;
            plan.accumulate(&samples[..])?;
            let dump = plan.dump()?;
            Ok((dump.visibilities.integer().expect("sums").clone(), plan.times()))
        });
    }
}

#[test]
fn channelisers() {
    let samples = noise(2 * 600);
    every_call_fails("channelise", |place| {
        let mut plan = at!(place, Channeliser::builder(2, 16).taps(4)).build()?;
        let first = plan.channelise(&samples[..])?;
        Ok((first, plan.channelise(&samples[..])?))
    });
}

#[test]
fn beamformers() {
    let (samples, weights) = (noise(33 * 2 * 2 * 5), noise(2 * 2 * 3 * 5 * 2));
    every_call_fails("beamform", |place| {
        let builder = Beamformer::builder(5, 3).channels(2).polarisations(2);
        let mut plan = at!(place, builder).build()?;
        plan.set_weights(&weights)?;
        plan.set_shifts(&[6; 2 * 2 * 3])?;
        plan.beamform(&samples[..])
    });
}

#[test]
fn autocorrelators() {
    let counts = noise(300 * 7);
    every_call_fails("autocorrelate", |place| {
        let mut plan = at!(place, Autocorrelator::builder(7)).build()?;
        plan.accumulate(&counts[..])?;
        plan.accumulate(&counts[..])?;
        plan.snapshot()
    });
}
