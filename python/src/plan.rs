//! Common part of all plans: one call at a time, without holding up Python's other threads.

use std::{
    ops::Range,
    process,
    sync::{
        Arc, Mutex, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use corrust::device::{Gpu, Stream};
use pyo3::prelude::*;

use crate::{
    array::Array,
    error::{Fault, runtime, value},
    fork::compute,
    stream::{StreamGuard, lock, retire},
};

/// Longest wait of a call for another thread's before it looks for signals.
const PATIENCE: Duration = Duration::from_millis(2);

/// Arrays in a GPU's memory that may be in use at a time: beyond, the oldest are waited for.
const MOST_HELD: usize = 16;

/// A plan of the library's, until it is closed.
pub struct Plan<T> {
    plan: Mutex<Option<T>>,
    /// Calls of other threads that wait for the one under way.
    waiting: AtomicUsize,
    gpus: Vec<Arc<dyn Gpu>>,
    /// The plan's own stream of each GPU, made when an array in its memory is first used.
    own: Vec<Mutex<Option<Stream>>>,
    /// The process that made it.
    process: u32,
    /// Arrays that the GPU may still read or write.
    held: Mutex<Vec<Array>>,
}

impl<T: Send> Plan<T> {
    /// Makes a plan on some GPUs, or on the CPU where there is none.
    pub fn new(
        py: Python<'_>,
        gpus: Vec<Arc<dyn Gpu>>,
        build: impl FnOnce(Vec<Arc<dyn Gpu>>) -> corrust::Result<T> + Send,
    ) -> PyResult<Self> {
        let given = gpus.clone();
        let plan = py.detach(|| compute(|| build(given))).map_err(Fault::from)?;
        Ok(Self {
            plan: Mutex::new(Some(plan)),
            waiting: AtomicUsize::new(0),
            own: gpus.iter().map(|_| Mutex::default()).collect(),
            gpus,
            process: process::id(),
            held: Mutex::default(),
        })
    }

    /// The GPUs, none where it is the CPU's.
    pub fn gpus(&self) -> &[Arc<dyn Gpu>] {
        &self.gpus
    }

    /// The plan's only GPU.
    pub fn gpu(&self) -> PyResult<&Arc<dyn Gpu>> {
        match &self.gpus[..] {
            [gpu] => Ok(gpu),
            [] => {
                Err(value("a plan on the CPU leaves results in host memory: expected device=False"))
            }
            _ => Err(value(format!(
                "a plan on {} GPUs leaves results in host memory: expected device=False",
                self.gpus.len()
            ))),
        }
    }

    /// Orders a call on the GPUs after the caller's work in `stream`.
    ///
    /// # Errors
    /// `RuntimeError` for a plan that a fork has cut off.
    pub fn stream_guard(&self, stream: u64) -> PyResult<StreamGuard<'_>> {
        self.check_process()?;
        Ok(StreamGuard::new(&self.gpus, &self.own, Stream::from_raw(stream)))
    }

    /// Calls `work` with the plan, alone and without Python's lock.
    ///
    /// # Errors
    /// The error of `work`; `ValueError` for a closed plan; `RuntimeError` for a plan that a fork has cut off; the
    /// exception of a signal that comes while another thread is waited for.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> Result<R, Fault> + Send,
    ) -> PyResult<R> {
        self.check_process()?;
        self.alone(py, |plan| match plan {
            Some(plan) => work(plan),
            None => Err(value("a closed plan: expected one that is open").into()),
        })
    }

    /// Ends the plan and gives back its memory, after the call of another thread that is under way.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.alone(py, |plan| {
            drop(plan.take());
            Ok(())
        })?;
        self.let_go();
        Ok(())
    }

    fn check_process(&self) -> PyResult<()> {
        if self.is_forked() && self.gpus.iter().any(|gpu| gpu.name().starts_with("cuda")) {
            return Err(runtime(format!(
                "a plan on {} of the process before a fork: expected one made in this process",
                self.gpus[0].name()
            )));
        }
        Ok(())
    }

    /// Whether the plan was made in another process.
    fn is_forked(&self) -> bool {
        process::id() != self.process
    }

    /// Calls `work` with exclusive access to the plan, without Python's lock.
    fn alone<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Option<T>) -> Result<R, Fault> + Send,
    ) -> PyResult<R> {
        /// Counts a waiting call.
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if self.waiting.load(Ordering::Relaxed) > 0 && !self.is_forked() {
            // A thread that calls again and again lets the others in.
            py.detach(|| thread::sleep(2 * PATIENCE));
        }
        let mut work = Some(work);
        let mut waiting = None;
        loop {
            let done = py.detach(|| {
                let mut plan = match self.plan.try_lock() {
                    Ok(plan) => plan,
                    Err(TryLockError::Poisoned(plan)) => plan.into_inner(),
                    Err(TryLockError::WouldBlock) => {
                        thread::sleep(PATIENCE);
                        return None;
                    }
                };
                let work = work.take().expect("the lock is had once");
                Some(work(&mut plan))
            });
            match done {
                Some(result) => return Ok(result?),
                // The thread that has the lock stayed in the parent.
                None if self.is_forked() => {
                    return Err(runtime(
                        "a plan that another thread used during a fork: expected one made in this process",
                    ));
                }
                None => py.check_signals()?,
            }
            waiting.get_or_insert_with(|| {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                Waiting(&self.waiting)
            });
        }
    }

    /// Keeps an array for as long as the GPU may use it; whether it is time to wait for the GPU.
    pub fn hold(&self, array: Array) -> bool {
        if array.is_host() {
            return false;
        }
        let mut held = lock(&self.held);
        held.push(array);
        held.len() > MOST_HELD
    }

    /// Lets go of the arrays, which the GPU has done with.
    pub fn let_go(&self) {
        let held = std::mem::take(&mut *lock(&self.held));
        drop(held);
    }
}

impl<T> Drop for Plan<T> {
    fn drop(&mut self) {
        retire(&self.gpus, &self.own);
    }
}

/// Methods of the classes of all plans, which have fields `plan`, a [`Plan`], and `device`.
macro_rules! plan_methods {
    ($class:ident) => {
        #[pymethods]
        impl $class {
            /// Waits until the device has done everything that it was given.
            fn wait(&self, py: Python<'_>) -> PyResult<()> {
                self.plan.with(py, |plan| Ok(plan.wait()?))?;
                self.plan.let_go();
                Ok(())
            }
        }

        crate::plan::closing_methods!($class);
    };
}
pub(crate) use plan_methods;

/// Methods that every plan has, of those too whose calls leave nothing to wait for.
macro_rules! closing_methods {
    ($class:ident) => {
        #[pymethods]
        impl $class {
            /// Gives back the plan's memory; it can do no more. ``with`` does so at its end.
            fn close(&self, py: Python<'_>) -> PyResult<()> {
                self.plan.close(py)
            }

            /// Name of the device, for people to read.
            #[getter]
            fn device(&self) -> &str {
                &self.device
            }

            fn __enter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            #[pyo3(signature = (*_exception))]
            fn __exit__(
                &self,
                py: Python<'_>,
                _exception: &Bound<'_, pyo3::types::PyTuple>,
            ) -> PyResult<()> {
                self.close(py)
            }
        }
    };
}
pub(crate) use closing_methods;

/// Operations that a call does between two looks for signals: a tenth of a second or so.
pub fn patience(gpus: &[Arc<dyn Gpu>]) -> f64 {
    match gpus.first() {
        None => 5e9,
        Some(gpu) if gpu.name().starts_with("sim") => 1e7,
        Some(_) => 1e13,
    }
}

/// Calls `work` with one range of times after the other, `operations` each time, and looks for signals in between.
pub fn pieces(
    times: usize,
    operations: f64,
    most: f64,
    mut work: impl FnMut(Range<usize>) -> corrust::Result<()> + Send,
) -> Result<(), Fault> {
    /// Elements that kernels read at a time.
    const GRAIN: usize = 1024;
    let piece = (most / operations.max(1.0)) as usize / GRAIN * GRAIN;
    let piece = piece.max(GRAIN);
    let mut first = 0_usize;
    loop {
        let end = times.min(first.saturating_add(piece));
        compute(|| work(first..end))?;
        if end == times {
            return Ok(());
        }
        first = end;
        Python::attach(|py| py.check_signals())?;
    }
}
