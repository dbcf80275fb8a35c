//! Blocks and dumps of a recording, one after the other.

use std::sync::{Arc, Mutex};

use corrust::{
    Correlator,
    format::{AnyRecording, Block},
    run,
};
use pyo3::{prelude::*, sync::PyOnceLock};

use crate::{
    device_array::numpy_array,
    error::{exception, runtime},
    fork::compute,
    held::{Held, of_each},
    results::{host_dump, result},
    views::missing_tuples,
};

/// The blocks of a recording.
#[pyclass(frozen, module = "corrust")]
pub struct Blocks {
    pub shape: Held,
    pub times: usize,
    /// The time after the last one.
    pub stop: u64,
    /// The recording, and the next block's first time.
    pub at: Mutex<(AnyRecording, u64)>,
}

#[pymethods]
impl Blocks {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        static BLOCK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let Ok(mut at) = self.at.try_lock() else {
            return Err(runtime("blocks that another thread reads: expected one reader"));
        };
        let mut block = Block::new();
        let (inner, start) = &mut *at;
        let left = self.stop - *start;
        let times = usize::try_from(left).map_or(self.times, |left| left.min(self.times));
        if times == 0 {
            return Ok(None);
        }
        let count = py
            .detach(|| of_each!(inner, inner => inner.read_block(times, &mut block)))
            .map_err(|error| exception(&error))?;
        if count == 0 {
            return Ok(None);
        }
        let first = *start;
        *start += count as u64;
        let gone = block.missing.iter().map(|gap| missing_tuples(py, gap));
        let gone = gone.collect::<PyResult<Vec<_>>>()?;
        let samples =
            numpy_array(py, block.samples.into_vec(), self.shape.dtype(), &self.shape.axes(count))?;
        Ok(Some(result(py, &BLOCK, "Block")?.call1((first, samples, gone, count))?))
    }
}

/// Facts of a recording that its dumps have.
pub struct Facts {
    pub recording_start: Option<String>,
    pub interval: Option<f64>,
    pub frequencies: Option<Vec<f64>>,
}

/// The dumps of a recording.
#[pyclass(frozen, module = "corrust")]
pub struct Dumps {
    pub inner: Mutex<run::Dumps<'static, Correlator>>,
    pub inputs: usize,
    pub gated: bool,
    pub facts: Facts,
    /// Exception of a signal or of the caller's function.
    pub raised: Arc<Mutex<Option<PyErr>>>,
}

#[pymethods]
impl Dumps {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = py.detach(|| {
            let mut inner = self.inner.try_lock().ok()?;
            let mut found = run::Integration::default();
            let inner = &mut *inner;
            let there = compute(|| inner.next_into(&mut found));
            Some(there.map(|there| there.then_some(found)))
        });
        let Some(next) = next else {
            return Err(runtime("dumps that another thread reads: expected one reader"));
        };
        if let Some(error) = self.raised.lock().ok().and_then(|mut raised| raised.take()) {
            return Err(error);
        }
        let Some(found) = next.map_err(|error| exception(&error))? else { return Ok(None) };
        let (start, missing) = (found.start, found.missing);
        let dumps = found.gates.into_iter().map(|dump| {
            let dump = host_dump(py, dump, self.inputs)?;
            dump.setattr("start", start)?;
            dump.setattr("missing", missing)?;
            dump.setattr("recording_start", self.facts.recording_start.as_deref())?;
            dump.setattr("interval", self.facts.interval)?;
            dump.setattr("frequencies", self.facts.frequencies.as_deref())?;
            Ok(dump)
        });
        let mut dumps = dumps.collect::<PyResult<Vec<_>>>()?;
        if self.gated {
            return Ok(Some(dumps.into_pyobject(py)?.into_any()));
        }
        Ok(dumps.pop())
    }
}
