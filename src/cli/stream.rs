//! A stream of F-engines' heaps, as `corrust send` and `corrust serve` name it.

use std::net::Ipv4Addr;

use corrust::{Result, live::Geometry};

use super::units::Hertz;

/// How samples lie in heaps.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Stream {
    /// Timestamps a second: the digitisers' sample rate
    #[arg(long, default_value = "1MHz")]
    pub rate: Hertz,
    /// Timestamps from one time to the next [default: twice the channels]
    #[arg(long, value_name = "STEP")]
    step: Option<u64>,
    /// Inputs of an F-engine: of F-engine f they are f x polarisations + polarisation
    #[arg(long, default_value_t = 2, value_name = "P")]
    pub polarisations: usize,
    /// The number that the stream gives the first of the channels
    #[arg(long, default_value_t = 0, value_name = "F")]
    first_channel: u64,
    /// Times of a heap
    #[arg(long, default_value_t = 256, value_name = "T")]
    heap_times: usize,
    /// Address of the interface for multicast [default: where routes lead to]
    #[arg(long, value_name = "IP")]
    pub interface: Option<Ipv4Addr>,
}

/// Fewest chunks, and heaps one after the other, that are open at a time.
const WINDOW: usize = 4;
const WINDOW_HEAPS: usize = 16;

/// Bytes of a chunk, where a heap of every F-engine is not more: what is correlated at a time.
const CHUNK_BYTES: usize = 16 << 20;

impl Stream {
    /// How chunks of it lie, for dumps of `times` times.
    pub fn geometry(&self, fengs: usize, channels: usize, times: u64) -> Result<Geometry> {
        let Self { step, polarisations, first_channel, heap_times, .. } = *self;
        let step = step.unwrap_or((channels as u64).saturating_mul(2));
        let mut geometry = Geometry {
            fengs,
            polarisations,
            channels,
            first_channel,
            heap_times,
            step,
            chunk_heaps: 1,
            window: WINDOW,
        };
        geometry.check()?;
        // Dumps are late by as many chunks as are open.
        let most = (times / (2 * WINDOW * heap_times) as u64).max(1);
        let heaps = (CHUNK_BYTES / geometry.chunk_bytes().max(1)).max(1) as u64;
        geometry.chunk_heaps = heaps.min(most) as usize;
        // Sockets are not always looked after in the order in which packets come.
        geometry.window = WINDOW.max(WINDOW_HEAPS / geometry.chunk_heaps);
        geometry.check()?;
        Ok(geometry)
    }

    /// Seconds from one time to the next.
    pub fn interval(&self, channels: usize) -> f64 {
        self.step.unwrap_or((channels as u64).saturating_mul(2)) as f64 / self.rate.0
    }
}
