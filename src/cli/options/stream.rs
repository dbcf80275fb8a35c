//! Streams of F-engines' heaps, or of frames: options of `corrust send` and `corrust serve`.

use std::net::Ipv4Addr;

#[cfg(feature = "serve")]
use corrust::{
    Encoding, Error,
    format::{self, Timestamp},
    live::Frames,
    samples::RawEncoding,
};
use corrust::{Result, live::Geometry};

#[cfg(feature = "serve")]
use crate::cli::options::given;
use crate::cli::options::units::Hertz;

/// Layout of samples in heaps.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Stream {
    /// Timestamps a second, as 1712MHz: the digitisers' sample rate; for VDIF, samples of a channel [default: 1MHz]
    #[arg(long)]
    rate: Option<Hertz>,
    /// Timestamps from one time sample to the next [default: twice the channels]
    #[arg(long, value_name = "STEP", hide_short_help = true)]
    step: Option<u64>,
    /// Inputs of an F-engine; input = F-engine x polarisations + polarisation
    #[arg(long, default_value_t = 2, value_name = "P")]
    pub polarisations: usize,
    /// Number of the first channel in the stream
    #[arg(long, default_value_t = 0, value_name = "F", hide_short_help = true)]
    first_channel: u64,
    /// Time samples of a heap
    #[arg(long, default_value_t = 256, value_name = "T", hide_short_help = true)]
    heap_times: usize,
    /// Address of the interface for multicast [default: by the system's routes]
    #[arg(long, value_name = "IP", hide_short_help = true)]
    pub interface: Option<Ipv4Addr>,
}

/// Default number of timestamps a second.
const RATE: f64 = 1e6;

/// Fewest chunks, and heaps one after the other, that are open at a time.
const WINDOW: usize = 4;
const WINDOW_HEAPS: usize = 16;

/// Bytes of a chunk, which is correlated at once; more where a heap of every F-engine is.
const CHUNK_BYTES: usize = 16 << 20;

impl Stream {
    /// Returns the layout of chunks, for dumps of `times` time samples.
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
        (geometry.chunk_heaps, geometry.window) = chunks(geometry.chunk_bytes(), heap_times, times);
        geometry.check()?;
        Ok(geometry)
    }

    /// Timestamps a second, if given.
    pub fn rate_said(&self) -> Option<f64> {
        self.rate.map(|rate| rate.0)
    }

    /// Timestamps a second.
    pub fn rate(&self) -> f64 {
        self.rate_said().unwrap_or(RATE)
    }

    /// Seconds from one time to the next.
    pub fn interval(&self, channels: usize) -> f64 {
        self.step.unwrap_or((channels as u64).saturating_mul(2)) as f64 / self.rate()
    }
}

/// Slots of a chunk, and chunks that are open, for slots of `bytes` bytes and `slot_times` times, and dumps of `times`.
fn chunks(bytes: usize, slot_times: usize, times: u64) -> (usize, usize) {
    // Dumps are late by as many chunks as are open.
    let most = (times / (2 * WINDOW * slot_times) as u64).max(1);
    let slots = (CHUNK_BYTES / bytes.max(1)).max(1) as u64;
    let slots = slots.min(most) as usize;
    (slots, open_chunks(slots))
}

/// Number of chunks of `slots` slots that are open at a time.
pub fn open_chunks(slots: usize) -> usize {
    // Sockets are not always looked after in the order in which packets come.
    WINDOW.max(WINDOW_HEAPS / slots.max(1))
}

/// Frames of VDIF, as `corrust serve` names them.
#[cfg(feature = "serve")]
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "VDIF")]
pub struct Vdif {
    /// Receive VDIF, a frame in each packet, in place of heaps: numbers of the threads, as 0-7 or 0,2,5
    #[arg(long, value_name = "THREADS",
          conflicts_with_all = ["fengs", "channels", "step", "polarisations", "first_channel", "heap_times", "wraps"])]
    vdif: Option<Threads>,
    /// Number of channels to make of the raw voltages in frames: from 0 Hz up without the Nyquist channel for real
    /// samples, around 0 Hz for complex ones. Twice it (real) or it (complex) is 2^a or 3 x 2^a, 8 to 1048576
    #[arg(long, value_name = "C", requires = "vdif", hide_short_help = true)]
    channelise: Option<usize>,
    /// Channels of a thread, each of them an input; for b1 and b2, the channels to correlate
    #[arg(long, value_name = "COUNT", default_value_t = 1, hide_short_help = true)]
    thread_channels: usize,
    /// Encoding of frames: vdif-2, vdif-2-complex and so on, of 1, 2, 4, 8 or 16 bits; or b1 or b2, complex samples of 1
    /// or 2 bits whose channels are correlated directly, a thread an input, without --channelise
    #[arg(long, value_name = "ENCODING", default_value = "vdif-2", hide_short_help = true)]
    encoding: FrameEncoding,
    /// Bytes of samples of a frame [default: as corrust simulate has them, at most 8000]
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    frame_bytes: Option<usize>,
}

/// Encoding of the samples in frames.
#[cfg(feature = "serve")]
#[derive(Clone, Copy, Debug)]
enum FrameEncoding {
    Raw(RawEncoding),
    Bits(Encoding),
}

#[cfg(feature = "serve")]
impl std::str::FromStr for FrameEncoding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse() {
            Ok(bits) if Encoding::is_bits(bits) => Ok(Self::Bits(bits)),
            _ => text.parse().map(Self::Raw),
        }
    }
}

/// Samples that are correlated from frames.
#[cfg(feature = "serve")]
#[derive(Clone, Copy, Debug)]
pub enum Made {
    /// Channels that an F-engine makes: their number.
    Channels(usize),
    /// Channels of the frames.
    Bits(Encoding),
}

#[cfg(feature = "serve")]
impl Vdif {
    /// Warns of options of frames, if heaps are received.
    pub fn warn_of_given(&self) {
        if self.vdif.is_none() {
            let of_frames = ["thread-channels", "encoding", "frame-bytes"];
            given::warn_unused(&of_frames, "heaps do not use it, expected --vdif");
        }
    }

    /// Whether frames are received.
    pub fn is_given(&self) -> bool {
        self.vdif.is_some()
    }

    /// Whether an F-engine makes channels of frames.
    pub fn raw(&self) -> bool {
        self.channelise.is_some()
    }

    /// Samples to correlate, and the frames that hold them, `rate` samples a second since `sync`; [`None`] for heaps.
    pub fn frames(&self, rate: f64, sync: Timestamp) -> Result<Option<(Made, Frames)>> {
        let Some(Threads(threads)) = &self.vdif else { return Ok(None) };
        let (encoding, made) = match (self.encoding, self.channelise) {
            (FrameEncoding::Raw(encoding), Some(channels)) => (encoding, Made::Channels(channels)),
            (FrameEncoding::Bits(bits), None) => {
                let raw = RawEncoding::Vdif { bits: bits.planes() as u8, complex: true };
                (raw, Made::Bits(bits))
            }
            (FrameEncoding::Raw(encoding), None) => {
                return Err(Error::invalid(format!(
                    "--vdif of {encoding}: expected --channelise, or --encoding b1 or b2, whose channels are correlated \
                     as they are"
                )));
            }
            (FrameEncoding::Bits(bits), Some(_)) => {
                return Err(Error::invalid(format!(
                    "--channelise of {bits}: expected an encoding such as vdif-2-complex"
                )));
            }
        };
        let payload = self.frame_bytes.or_else(|| {
            format::vdif::frame_samples(encoding, 1, rate)
                .map(|samples| samples * encoding.bits() / 8)
        });
        let payload = payload.ok_or_else(|| {
            Error::invalid(format!(
                "--rate {rate} Hz: expected one of which frames of whole words are a whole number a second, or \
                 --frame-bytes"
            ))
        })?;
        let (threads, each) = (threads.clone(), self.thread_channels);
        let frames = Frames::new(threads, each, encoding, payload, rate, sync)?;
        Ok(Some((made, frames)))
    }
}

/// Sets the chunk length of `frames` for dumps of `times` samples: at least `least` samples, a multiple of `word`, a power
/// of two.
#[cfg(feature = "serve")]
pub fn in_chunks(frames: &mut Frames, times: u64, least: usize, word: usize) {
    let of_frame = frames.frame_times();
    let (slots, window) = chunks(frames.chunk_bytes(), of_frame, times);
    let whole = word >> of_frame.trailing_zeros().min(word.trailing_zeros());
    frames.chunk_frames = slots.max(least.div_ceil(of_frame)).next_multiple_of(whole);
    frames.window = window;
}

/// Numbers below a limit, as `0-7` or `0,2,5`.
#[cfg(feature = "serve")]
fn numbers(text: &str, limit: u16) -> Option<Vec<u16>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last] = [first, last].map(|number| number.parse::<u16>().ok());
        let (first, last) = (first?, last.filter(|&last| last < limit)?);
        (first <= last).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges.map(|ranges| ranges.into_iter().flatten().collect())
}

/// Numbers of a machine's cores.
#[cfg(feature = "serve")]
#[derive(Clone, Debug)]
pub struct Cores(pub Vec<usize>);

#[cfg(feature = "serve")]
impl std::str::FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let cores = numbers(text, 1024).map(|cores| cores.into_iter().map(usize::from).collect());
        cores.map(Self).ok_or_else(|| {
            format!("{text:?}: expected numbers of cores from 0 to 1023, as 2-5 or 2,4")
        })
    }
}

/// Numbers of threads.
#[cfg(feature = "serve")]
#[derive(Clone, Debug)]
pub struct Threads(Vec<u16>);

#[cfg(feature = "serve")]
impl std::str::FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let threads = numbers(text, format::vdif::THREADS as u16).map(Self);
        threads.ok_or_else(|| {
            format!(
                "{text:?}: expected numbers of threads from 0 to {}, as 0-7 or 0,2,5",
                format::vdif::THREADS - 1
            )
        })
    }
}
