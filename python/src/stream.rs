//! Streams of a call: the plan's own, in the order of the caller's.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use corrust::device::{Gpu, Stream};
use pyo3::prelude::*;

use crate::error::{Fault, kind};

/// CUDA's legacy default stream, which CuPy and PyTorch begin with.
pub const LEGACY_STREAM: u64 = 1;

/// The stream of work on arrays in a GPU's memory: the caller's, which may be a number or an object of CuPy's,
/// PyTorch's or of the `__cuda_stream__` protocol.
pub fn stream(given: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
    let Some(given) = given else { return Ok(LEGACY_STREAM) };
    let raw = if let Ok(raw) = given.extract::<u64>() {
        raw
    } else if given.hasattr("__cuda_stream__")? {
        let (_, raw): (u32, u64) = given.call_method0("__cuda_stream__")?.extract()?;
        raw
    } else if let Ok(raw) = given.getattr("ptr").or_else(|_| given.getattr("cuda_stream")) {
        raw.extract()?
    } else {
        return Err(kind(format!(
            "stream is {}: expected the address of a CUDA stream, or an object with __cuda_stream__, ptr or \
             cuda_stream",
            given.get_type().name()?
        )));
    };
    // What CUDA calls 0 is the legacy default stream too.
    Ok(if raw == 0 { LEGACY_STREAM } else { raw })
}

/// Own streams of plans that are no more: a GPU keeps streams for good, so that the next plans take them over.
static IDLE: Mutex<Vec<(Weak<dyn Gpu>, Stream)>> = Mutex::new(Vec::new());

/// Keeps the own streams of a plan that ends for the next plans.
pub fn retire(gpus: &[Arc<dyn Gpu>], own: &[Mutex<Option<Stream>>]) {
    for (gpu, own) in gpus.iter().zip(own) {
        if let Some(stream) = lock(own).take() {
            lock(&IDLE).push((Arc::downgrade(gpu), stream));
        }
    }
}

/// Work that a call enqueues on the GPUs: on the plan's own streams, after all that is in the caller's stream when it
/// begins and before all that comes there when it has ended, well or not. The caller's stream is used by the call
/// alone, as it may be destroyed after.
pub struct StreamGuard<'a> {
    gpus: &'a [Arc<dyn Gpu>],
    own: &'a [Mutex<Option<Stream>>],
    caller: Stream,
    /// The numbers of the GPUs that were used, and their own streams.
    begun: RefCell<Vec<(usize, Stream)>>,
}

impl<'a> StreamGuard<'a> {
    /// Guards work on `gpus`, on their streams `own`, for a caller that works in the order of `caller`.
    pub fn new(gpus: &'a [Arc<dyn Gpu>], own: &'a [Mutex<Option<Stream>>], caller: Stream) -> Self {
        Self { gpus, own, caller, begun: RefCell::default() }
    }

    /// The plan's GPUs.
    pub fn gpus(&self) -> &'a [Arc<dyn Gpu>] {
        self.gpus
    }

    /// The stream of the call's work on the plan's GPU of this number.
    ///
    /// # Errors
    /// The device's own.
    pub fn on(&self, index: usize) -> PyResult<Stream> {
        let mut begun = self.begun.borrow_mut();
        if let Some(&(_, own)) = begun.iter().find(|&&(other, _)| other == index) {
            return Ok(own);
        }
        let gpu = &self.gpus[index];
        let own = self.own(index)?;
        gpu.order(self.caller, own).map_err(Fault::from)?;
        begun.push((index, own));
        Ok(own)
    }

    fn own(&self, index: usize) -> PyResult<Stream> {
        let mut own = lock(&self.own[index]);
        if let Some(stream) = *own {
            return Ok(stream);
        }
        let gpu = &self.gpus[index];
        let mut idle = lock(&IDLE);
        idle.retain(|(other, _)| other.strong_count() > 0);
        let place = idle.iter().position(|(other, _)| other.ptr_eq(&Arc::downgrade(gpu)));
        let stream = match place {
            Some(place) => idle.swap_remove(place).1,
            None => gpu.create_stream().map_err(Fault::from)?,
        };
        *own = Some(stream);
        Ok(stream)
    }
}

impl Drop for StreamGuard<'_> {
    fn drop(&mut self) {
        for &(index, own) in self.begun.borrow().iter() {
            let gpu = &self.gpus[index];
            if gpu.order(own, self.caller).is_err() {
                let _ = gpu.wait(own);
            }
        }
    }
}

/// Locks a mutex, poisoned or not.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
