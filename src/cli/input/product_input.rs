//! The samples that products are made of, and what becomes of a product.

use std::{cell::Cell, path::Path, rc::Rc, sync::Arc};

use corrust::{
    Devices, Error, Result, correlate::Shape, device::Gpu, format::array::Array,
    quantise::Quantised,
};

use crate::cli::{input::unit::Unit, options::selection::Timing};

/// The recording that products are made of, and their devices.
pub struct ProductInput<'a> {
    pub device: &'a Devices,
    pub gpus: &'a [Arc<dyn Gpu>],
    pub shape: Shape,
    /// Times; `u64::MAX` of a stream that a signal ends.
    pub recorded: u64,
    pub interval: Option<f64>,
    /// Whether inputs were delayed towards a phase centre.
    pub phased: bool,
    /// Whether samples are missing input by input: flagged ones, and lost ones of a live stream or of frames of VDIF.
    pub by_input: bool,
    /// Polarisations whose inputs lie side by side, as [`Head::polarisations`](corrust::run::Head) has it.
    pub polarisations: usize,
    /// Whether samples are spectra of raw voltages.
    pub raw: bool,
    /// Whether they come live.
    pub live: bool,
    /// Time and place of the samples, for the gates of a period.
    pub timing: Timing,
    pub array: Option<&'a Array>,
    /// Facts that the recording says itself.
    pub said: Array,
    /// A file of the recording.
    pub source: &'a Path,
    /// Quantisation of samples of few bits, as [`Head::quantised`](corrust::run::Head) has it.
    pub quantised: Vec<Quantised>,
    /// Timestamps and channel numbers of beams that are sent.
    pub ticks: Ticks,
    /// Samples that were flagged, once all are judged.
    pub flagged: Rc<Cell<f64>>,
}

impl ProductInput<'_> {
    /// Unit of the time axis.
    pub fn unit(&self) -> Unit {
        if self.raw { Unit::Spectrum } else { Unit::Time }
    }
}

/// Timestamps and channel numbers of beams that are sent as heaps.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    /// Timestamp of the first time.
    pub first: u64,
    /// Timestamps from one time to the next.
    pub step: u64,
    /// Number of the first channel.
    pub first_channel: u64,
}

impl Ticks {
    /// Timestamps that begin with 0, twice the channels apart, and channels from 0 on, as `corrust send` sends them.
    pub fn of(channels: usize) -> Self {
        Self { first: 0, step: (channels as u64).saturating_mul(2), first_channel: 0 }
    }

    /// The same of `factor` subchannels of each channel.
    #[cfg(feature = "serve")]
    pub fn upchannelised(self, factor: u64) -> Self {
        Self {
            step: self.step.saturating_mul(factor),
            first_channel: self.first_channel.saturating_mul(factor),
            ..self
        }
    }

    /// The same of channels from the channel `start` on.
    pub fn starting_at(self, start: usize) -> Self {
        Self { first_channel: self.first_channel.saturating_add(start as u64), ..self }
    }
}

/// Seconds of a live stream that are worked on at a time, at most.
pub const SOON: f64 = 0.25;

/// Facts of a live stream that is to come.
pub struct Expected {
    pub shape: Shape,
    pub interval: f64,
    /// Times that it is to have; [`None`] until it is ended.
    pub times: Option<u64>,
}

/// Times that loads refer to, and their unit: for a stream that a signal ends, the times of a second.
pub fn span(recorded: u64, interval: Option<f64>) -> (u64, &'static str) {
    match interval {
        Some(interval) if recorded == u64::MAX => {
            ((1.0 / interval).round().max(1.0) as u64, " a second")
        }
        _ => (recorded, ""),
    }
}

/// Callback that completes a product's files, of that number of times, and describes them.
pub type Finish = Box<dyn FnOnce(u64) -> Result<String>>;

/// Refuses a file that needs an array file, where there is none.
pub fn needs_array(path: &Path) -> Error {
    let reason = "expected array = \"ARRAY.json\" in [input], which says what the inputs, channels and times are";
    Error::file(path, reason)
}
