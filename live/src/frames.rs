//! Frames of VDIF, one in each packet, which are put into chunks by the times of their headers.

use std::{
    borrow::Cow,
    ops::Range,
    sync::{Arc, Mutex},
};

use corrust_host::{
    Error, Result, device,
    samples::{Missing, RawEncoding, RawSamples, RawShape},
};
use corrust_recordings::{
    array::time::Timestamp,
    formats::{
        placing::{Axis, Filling, Geometry, Parting, Run, Stamp, Validity},
        vdif::{self, Header},
    },
};

use super::{
    intake::{Single, lock},
    memory::SharedMemory,
    spead::Fault,
    stream::{Destination, Stream, Ticket},
    tally::Fate,
    window::Window,
};

/// Bytes of the number of VTP, the VDIF Transport Protocol, which may stand before a frame.
const VTP: usize = 8;

/// Most inputs, as of a recording.
const INPUTS: usize = 1 << 24;

/// Most frames of a thread a second, as headers can count them.
const FRAMES: f64 = (1 << 24) as f64;

/// Stream of frames of VDIF, of raw voltages.
#[derive(Clone, Debug, PartialEq)]
pub struct Frames {
    /// Frames of a thread in a chunk.
    pub chunk_frames: usize,
    /// Chunks that are open at a time.
    pub window: usize,
    axis: Axis,
    geometry: Geometry,
    rate: f64,
}

impl Frames {
    /// Frames of the threads of these numbers, each of `channels` channels of `encoding`, a power of two, in
    /// `payload` bytes of samples, `rate` samples of each channel a second. Times count from `sync`. A chunk has one
    /// frame of each thread, and four are open.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no threads or one twice, another encoding than VDIF's, samples that fill no frames, a
    /// rate of which no frames are a whole number a second, or a sync time that is no whole second.
    pub fn new(
        mut threads: Vec<u16>,
        channels: usize,
        encoding: RawEncoding,
        payload: usize,
        rate: f64,
        sync: Timestamp,
    ) -> Result<Self> {
        let count = threads.len();
        threads.sort_unstable();
        threads.dedup();
        if threads.is_empty() || threads.len() < count {
            return Err(Error::invalid(format!(
                "{count} threads of which {} differ: expected at least 1, each once",
                threads.len()
            )));
        }
        if !matches!(encoding, RawEncoding::Vdif { .. }) {
            return Err(Error::invalid(format!(
                "{encoding} in frames of VDIF: expected one of its own encodings, as vdif-2"
            )));
        }
        if !channels.is_power_of_two() || channels.saturating_mul(count) > INPUTS {
            return Err(Error::invalid(format!(
                "{channels} channels of each of {count} threads: expected a power of two, and at most {INPUTS} in all"
            )));
        }
        let time = channels * encoding.bits();
        if payload == 0
            || !payload.is_multiple_of(8)
            || payload > super::spead::MOST_BYTES
            || !(8 * payload).is_multiple_of(time)
        {
            return Err(Error::invalid(format!(
                "frames of {payload} bytes of samples: expected a multiple of 8 bytes and of {time} bits, {channels} \
                 channels of {encoding}, and at most {}",
                super::spead::MOST_BYTES
            )));
        }
        let samples = 8 * payload / time;
        let per_second = rate / samples as f64;
        if !(per_second >= 1.0 && per_second.fract() == 0.0 && per_second <= FRAMES) {
            return Err(Error::invalid(format!(
                "rate of {rate} Hz: expected a whole number of frames of {samples} samples a second"
            )));
        }
        if sync.subsec_nanosecond() != 0 {
            return Err(Error::invalid(format!("sync time {sync}: expected a whole second")));
        }
        let axis = Axis {
            threads,
            first: (vdif::second_of(sync), 0),
            per_second: Some(per_second as u64),
        };
        // Headers are of either length.
        let (header, frame) = (0, payload);
        let geometry = Geometry { header, frame, channels, encoding, samples: samples as u64 };
        Ok(Self { chunk_frames: 1, window: 4, axis, geometry, rate })
    }

    /// Threads' numbers, ascending.
    pub fn threads(&self) -> &[u16] {
        &self.axis.threads
    }

    /// Channels of a thread.
    pub fn channels(&self) -> usize {
        self.geometry.channels
    }

    /// Samples of a channel in a frame.
    pub fn frame_times(&self) -> usize {
        self.geometry.samples as usize
    }

    /// Samples of a channel in a chunk.
    pub fn chunk_times(&self) -> usize {
        self.frame_times() * self.chunk_frames
    }

    /// Shape of a chunk for an F-engine: input `thread x channels + channel`, threads in the order of their numbers.
    pub fn shape(&self) -> RawShape {
        let Geometry { channels, encoding, .. } = self.geometry;
        RawShape {
            inputs: self.axis.threads.len() * channels,
            encoding,
            layout: self.geometry.layout(),
        }
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.shape().bytes(self.chunk_times())
    }

    /// Whether a header is of such samples.
    fn is_of(&self, header: &Header) -> bool {
        let Geometry { channels, encoding, .. } = self.geometry;
        let found = RawEncoding::Vdif { bits: header.bits, complex: header.complex };
        found == encoding && 1 << header.channels_log2 == channels
    }

    /// Destination of a frame, its thread and validity; or its fate, and its sender.
    fn understand(
        &self,
        header: &Header,
        payload: &[u8],
    ) -> std::result::Result<(u64, usize, Validity), (Fate, Option<usize>)> {
        let Geometry { frame, channels, .. } = self.geometry;
        if header.invalid {
            // Nothing of it is believed, neither its thread nor its time.
            return Err((Fate::Invalid, None));
        }
        let thread = self.axis.thread(header.thread);
        if payload.len() != frame || !self.is_of(header) {
            return Err((Fate::WrongSize, thread));
        }
        let thread = thread.ok_or((Fate::Unknown, None))?;
        let fault = |fate| (fate, Some(thread));
        let beyond = self.axis.per_second.is_some_and(|all| u64::from(header.number) >= all);
        if beyond || header.rate().is_some_and(|rate| rate != self.rate) {
            return Err(fault(Fate::Misaligned));
        }
        let stamp = Stamp {
            thread: header.thread,
            second: header.second(),
            number: header.number,
            fraction: None,
            validity: header.validity(channels),
        };
        let index = self.axis.frame(&stamp).and_then(|index| u64::try_from(index).ok());
        Ok((index.ok_or(fault(Fate::Astray))?, thread, stamp.validity))
    }
}

/// Memory of samples of raw voltages.
pub struct RawMemory {
    memory: SharedMemory,
    /// Whoever fills a thread's places has its lock, as frames may share a byte.
    threads: Vec<Mutex<Parting>>,
}

/// The samples of consecutive frames of all threads.
pub struct RawChunk {
    shape: RawShape,
    times: usize,
    samples: Arc<RawMemory>,
    filling: Filling,
    /// Sender whose samples are there, or 0: by thread and frame.
    sources: Vec<u16>,
}

impl RawChunk {
    /// Empty memory for a chunk.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(frames: &Frames) -> Result<Self> {
        let slots = frames.axis.threads.len() * frames.chunk_frames;
        let shape = frames.shape();
        Ok(Self {
            shape,
            times: frames.chunk_times(),
            samples: Arc::new(RawMemory {
                memory: SharedMemory::new(Box::new(device::zeros(frames.chunk_bytes())?)),
                threads: frames.axis.threads.iter().map(|_| Mutex::default()).collect(),
            }),
            filling: Filling::new(frames.geometry, shape),
            sources: vec![0; slots],
        })
    }

    /// Missing samples.
    pub fn missing(&self) -> Vec<Missing> {
        self.filling.missing()
    }

    /// The first time of which something came; nothing where nothing came.
    pub(super) fn first_time(&self, frames: &Frames) -> Option<u64> {
        let of_thread = self.sources.chunks_exact(frames.chunk_frames);
        let first = of_thread.filter_map(|all| all.iter().position(|&source| source > 0)).min()?;
        Some((first * frames.frame_times()) as u64)
    }

    /// All samples, as they lie.
    pub(super) fn samples(&self) -> &[u8] {
        // SAFETY: a chunk is handed out once no ticket holds its memory.
        unsafe { self.samples.memory.all() }
    }

    /// The samples as a view, of which `missing` are missing.
    pub fn view<'a>(&'a self, missing: &'a [Missing]) -> RawSamples<'a> {
        let RawShape { inputs, encoding, layout } = self.shape;
        let pitch = self.shape.pitch(self.times);
        let extents = [inputs, self.times];
        RawSamples::strided(self.samples(), encoding, layout, extents, pitch)
            .expect("a chunk holds all of them")
            .missing(missing)
    }
}

impl Stream for Frames {
    type Chunk = RawChunk;
    type Facts = Validity;
    type Memory = RawMemory;

    fn slots(&self) -> usize {
        self.chunk_frames
    }

    fn slot_times(&self) -> usize {
        self.frame_times()
    }

    fn window(&self) -> usize {
        self.window
    }

    fn senders(&self) -> usize {
        self.axis.threads.len()
    }

    fn begin(&self, chunk: &mut RawChunk, number: u64) {
        let times = self.chunk_times();
        chunk.filling.begin(number * times as u64, times);
        chunk.sources.fill(0);
    }

    fn claim(&self, chunk: &mut RawChunk, place: &Destination<Validity>, _: usize) -> Fate {
        let Destination { slot: frame, sender: thread, facts: validity, source } = *place;
        let claim = chunk.filling.claim(thread, frame, validity);
        let slot = chunk.filling.slot(thread, frame);
        if validity == Validity::None {
            return Fate::Invalid;
        }
        if !claim.wanted {
            let same = chunk.sources[slot] == source;
            return if same { Fate::Repeated } else { Fate::Conflicting };
        }
        chunk.sources[slot] = source;
        Fate::Placed
    }

    fn memory(chunk: &mut RawChunk) -> &mut Arc<RawMemory> {
        &mut chunk.samples
    }

    unsafe fn fill(
        &self,
        RawMemory { memory, threads }: &RawMemory,
        place: &Destination<Validity>,
        _: usize,
        bytes: &[u8],
    ) {
        let Destination { slot: frame, sender: thread, .. } = *place;
        let times = self.chunk_times();
        let stretch = (frame / self.chunk_frames as u64 * times as u64, times);
        let mut parting = lock(&threads[thread]);
        let each = |rows: Range<usize>, run: Run<'_>| {
            // SAFETY: a place of this frame, as the caller says; frames that share a byte with it are of the same
            // thread, which is locked.
            run.copy(unsafe { memory.part(rows) });
        };
        self.geometry.put(&self.shape(), stretch, (thread, frame), bytes, &mut parting, each);
    }
}

impl Single for Frames {
    /// Takes the place of a frame, with the number of VTP before it or without.
    fn reserve<'a>(
        window: &mut Window<Self>,
        source: u16,
        packet: &'a [u8],
        each: &mut dyn FnMut(Ticket<Self>, Cow<'a, [u8]>),
    ) -> std::result::Result<(), Fault> {
        let places = [0, VTP].map(|start| packet.get(start..).unwrap_or(&[]));
        let Some((header, payload)) = places.into_iter().find_map(vdif::frame) else {
            let is_longer = |bytes: &[u8]| {
                let header = bytes.first_chunk().map(Header::parse);
                let is_of = |header: &Header| window.stream().is_of(header);
                header.is_some_and(|header| header.bytes > bytes.len() && is_of(&header))
            };
            let cut = packet.len() < vdif::HEADER || places.into_iter().any(is_longer);
            return Err(if cut { Fault::Cut } else { Fault::Foreign });
        };
        match window.stream().understand(&header, &payload) {
            Ok((slot, sender, facts)) => {
                let place = Destination { slot, sender, facts, source };
                let ticket = window.reserve(place, payload.len(), &mut || payload.to_vec());
                ticket.into_iter().for_each(|ticket| each(ticket, payload.clone()));
            }
            Err((fate, thread)) => window.tally_mut().count(fate, thread),
        }
        Ok(())
    }
}
