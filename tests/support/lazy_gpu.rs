//! The simulator with streams that do nothing until somebody waits, and then in any order that nothing forbids:
//! what a plan forgot to put in order comes out wrong. Every call can be made to fail, and streams to be gone.
use std::{
    collections::{BTreeMap, VecDeque},
    slice,
    sync::{Mutex, MutexGuard},
};

use corrust::{
    Error, Result,
    device::{Facts, Gpu, LockedBytes, Rows, SimGpu, Stream, TensorMap},
};
use corrust_gpu::abi::Entry;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// An enqueued operation. Host memory stands as address and length: its owner keeps it until its stream has come
/// so far.
#[derive(Debug)]
enum Operation {
    /// Waits until a stream has done so many operations.
    After(Stream, usize),
    Write(u64, Vec<u8>),
    CopyIn(u64, (usize, usize), Rows),
    CopyRows(u64, u64, Rows),
    CopyOut(u64, (usize, usize)),
    Set(u64, Rows, u8),
    Launch(Entry, u32, Vec<u8>),
}

/// Operations of a stream.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Operation>,
    done: usize,
    /// Whether its owner destroyed it.
    gone: bool,
}

/// Which calls fail.
#[derive(Debug)]
struct Faults {
    /// Calls until then.
    left: u64,
    /// Whether one call alone does.
    once: bool,
}

#[derive(Debug)]
struct State {
    queues: BTreeMap<u64, Queue>,
    random: StdRng,
    /// Whether the caller's memory is page-locked, so that it is read and written late.
    locked: bool,
    faults: Faults,
    /// Allocations that live.
    alive: usize,
}

impl State {
    /// The operations of a stream that is there.
    fn queue(&mut self, stream: Stream) -> Result<&mut Queue> {
        let queue = self.queues.get_mut(&stream.raw()).filter(|queue| !queue.gone);
        queue.ok_or_else(|| Error::Device(format!("stream {}: it is gone", stream.raw())))
    }

    /// Counts a call; whether it fails.
    fn fails(&mut self) -> bool {
        let Faults { left, once } = &mut self.faults;
        let (fails, over) = (*left == 0, *left == 0 && !*once);
        *left = if fails && *once { u64::MAX } else { left.saturating_sub(1) };
        if over {
            // A GPU that is lost does nothing any more.
            for queue in self.queues.values_mut() {
                queue.done += queue.waiting.drain(..).count();
            }
        }
        fails
    }

    /// Whether the next operation of a stream has all that it waits for.
    fn can_run(&self, stream: u64) -> bool {
        let done = |of: Stream| self.queues.get(&of.raw()).map_or(0, |queue| queue.done);
        match self.queues[&stream].waiting.front() {
            None => false,
            Some(Operation::After(of, count)) => done(*of) >= *count,
            Some(_) => true,
        }
    }
}

/// See above.
#[derive(Debug)]
pub struct LazyGpu {
    gpu: SimGpu,
    state: Mutex<State>,
}

impl LazyGpu {
    /// Orders drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let locked = random.random();
        let faults = Faults { left: u64::MAX, once: true };
        let queues = [(Stream::default().raw(), Queue::default())].into();
        let state = State { queues, random, locked, faults, alive: 0 };
        Self { gpu: SimGpu::new(), state: Mutex::new(state) }
    }

    /// The same, with page-locked memory; after `calls` calls the next one fails, or all.
    pub fn failing(seed: u64, calls: u64, once: bool) -> Self {
        let gpu = Self::new(seed);
        let mut state = gpu.state();
        (state.faults, state.locked) = (Faults { left: calls, once }, true);
        drop(state);
        gpu
    }

    /// Makes all calls fail from now on.
    pub fn fail_all(&self) {
        self.state().faults = Faults { left: 0, once: false };
    }

    /// Calls until one fails.
    pub fn calls_left(&self) -> u64 {
        self.state().faults.left
    }

    /// Allocations that live.
    pub fn alive(&self) -> usize {
        self.state().alive
    }

    /// Copies from and to the memory of others that are still to come.
    pub fn lent(&self) -> usize {
        let state = self.state();
        let operations = state.queues.values().flat_map(|queue| &queue.waiting);
        let lent = |operation: &&Operation| {
            matches!(operation, Operation::CopyIn(..) | Operation::CopyOut(..))
        };
        operations.filter(lent).count()
    }

    /// Ends a stream as its owner does: operations that are on it are done yet.
    pub fn destroy(&self, stream: Stream) {
        self.finish(Some(stream)).expect("what was enqueued can be done");
        self.state().queue(stream).expect("it was there").gone = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with it")
    }

    /// Counts a call, which may be the one that fails.
    fn called(&self, what: &str) -> Result<()> {
        match self.state().fails() {
            true => Err(Error::Device(format!("{what}: the GPU is lost"))),
            false => Ok(()),
        }
    }

    fn enqueue(&self, stream: Stream, what: &str, operation: Operation) -> Result<()> {
        self.called(what)?;
        self.state().queue(stream)?.waiting.push_back(operation);
        Ok(())
    }

    /// Runs operations, also some of other streams, until nothing waits on the stream, or on any.
    fn finish(&self, stream: Option<Stream>) -> Result<()> {
        let state = &mut *self.state();
        loop {
            let left = |(of, queue): (&u64, &Queue)| {
                stream.is_none_or(|stream| stream.raw() == *of) && !queue.waiting.is_empty()
            };
            if !state.queues.iter().any(left) {
                return Ok(());
            }
            let ready: Vec<u64> =
                state.queues.keys().copied().filter(|&of| state.can_run(of)).collect();
            // Runs of one stream while others stand still go wrong more often than fair turns.
            let chosen = ready[state.random.random_range(0..ready.len())];
            for _ in 0..state.random.random_range(1..6) {
                if !state.can_run(chosen) {
                    break;
                }
                let queue = state.queues.get_mut(&chosen).expect("it was there");
                let operation = queue.waiting.pop_front().expect("it was there");
                queue.done += 1;
                self.perform(operation)?;
            }
        }
    }

    /// Memory that is not page-locked is read and written before the call returns.
    fn unless_locked(&self, stream: Stream) -> Result<()> {
        let locked = self.state().locked;
        if locked { Ok(()) } else { self.finish(Some(stream)) }
    }

    fn perform(&self, operation: Operation) -> Result<()> {
        let stream = Stream::default();
        // SAFETY: whoever enqueued the operation promised what it asks for.
        unsafe {
            match operation {
                Operation::After(..) => Ok(()),
                Operation::Write(address, bytes) => {
                    let gpu: &dyn Gpu = &self.gpu;
                    gpu.upload(stream, address, &bytes)
                }
                Operation::CopyIn(address, (bytes, length), rows) => {
                    let bytes = slice::from_raw_parts(bytes as *const u8, length);
                    self.gpu.copy_in(stream, address, bytes, &rows)
                }
                Operation::CopyRows(to, from, rows) => self.gpu.copy_rows(stream, to, from, &rows),
                Operation::CopyOut(address, (bytes, length)) => {
                    let bytes = slice::from_raw_parts_mut(bytes as *mut u8, length);
                    self.gpu.download(stream, address, bytes)
                }
                Operation::Set(address, rows, byte) => {
                    self.gpu.set_rows(stream, address, &rows, byte)
                }
                Operation::Launch(entry, blocks, parameters) => {
                    self.gpu.launch_bytes(stream, &entry, blocks, &parameters)
                }
            }
        }
    }
}

impl Gpu for LazyGpu {
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
        self.state().alive += 1;
        // Undefined it is to be.
        // SAFETY: it was just reserved.
        unsafe { self.gpu.set_rows(Stream::default(), address, &Rows::one(bytes), 0xa5)? };
        Ok(address)
    }

    unsafe fn free(&self, address: u64) {
        // As a driver does.
        self.finish(None).expect("what was enqueued can be done");
        self.state().alive -= 1;
        // SAFETY: the caller's promise.
        unsafe { self.gpu.free(address) }
    }

    fn holds(&self, address: u64) -> bool {
        self.gpu.holds(address)
    }

    fn create_stream(&self) -> Result<Stream> {
        self.called("stream")?;
        let mut state = self.state();
        let stream = state.queues.len() as u64;
        state.queues.insert(stream, Queue::default());
        Ok(Stream::from_raw(stream))
    }

    fn order(&self, earlier: Stream, later: Stream) -> Result<()> {
        let enqueued = {
            let mut state = self.state();
            let queue = state.queue(earlier)?;
            queue.done + queue.waiting.len()
        };
        self.enqueue(later, "order", Operation::After(earlier, enqueued))
    }

    unsafe fn upload_filled(
        &self,
        stream: Stream,
        address: u64,
        bytes: usize,
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<()> {
        let mut filled = vec![0; bytes];
        fill(0, &mut filled);
        self.enqueue(stream, "upload", Operation::Write(address, filled))
    }

    unsafe fn download(&self, stream: Stream, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.called("download")?;
        self.finish(Some(stream))?;
        // SAFETY: the caller's promise.
        unsafe { self.gpu.download(stream, address, bytes) }
    }

    fn locked_bytes(&self, bytes: usize) -> Result<LockedBytes> {
        self.called("page-locked memory")?;
        self.gpu.locked_bytes(bytes)
    }

    fn reach(&self, bytes: &LockedBytes) -> Result<u64> {
        self.called("reach")?;
        self.gpu.reach(bytes)
    }

    fn is_locked(&self, _bytes: &[u8]) -> bool {
        self.state().locked
    }

    unsafe fn copy_in(
        &self,
        stream: Stream,
        address: u64,
        bytes: &[u8],
        rows: &Rows,
    ) -> Result<()> {
        let lent = (bytes.as_ptr() as usize, bytes.len());
        self.enqueue(stream, "copy in", Operation::CopyIn(address, lent, *rows))?;
        self.unless_locked(stream)
    }

    unsafe fn copy_rows(&self, stream: Stream, to: u64, from: u64, rows: &Rows) -> Result<()> {
        self.enqueue(stream, "copy", Operation::CopyRows(to, from, *rows))
    }

    unsafe fn copy_out(&self, stream: Stream, address: u64, bytes: &mut [u8]) -> Result<()> {
        let lent = (bytes.as_mut_ptr() as usize, bytes.len());
        self.enqueue(stream, "copy out", Operation::CopyOut(address, lent))?;
        self.unless_locked(stream)
    }

    unsafe fn set_rows(&self, stream: Stream, address: u64, rows: &Rows, byte: u8) -> Result<()> {
        self.enqueue(stream, "set", Operation::Set(address, *rows, byte))
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
        self.enqueue(stream, "launch", Operation::Launch(*entry, blocks, parameters.to_vec()))
    }

    fn wait(&self, stream: Stream) -> Result<()> {
        // An error then belongs to earlier operations, which are done.
        let failed = self.called("wait");
        self.state().queue(stream)?;
        self.finish(Some(stream)).and(failed)
    }

    fn is_done(&self, stream: Stream) -> Result<bool> {
        self.called("query")?;
        // Time passes.
        if self.state().random.random_bool(0.2) {
            self.finish(Some(stream))?;
        }
        Ok(self.state().queue(stream)?.waiting.is_empty())
    }
}
