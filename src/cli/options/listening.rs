//! Sockets that packets come to, and the F-engines that send heaps: options of `corrust serve`, and of a live observation.

use std::{
    net::UdpSocket,
    sync::{Arc, mpsc},
};

use corrust::{
    Result,
    device::Gpu,
    format::{self, Timestamp},
    live::{self, Chunk, Clock, Endpoints, Frames, Geometry, Passed, RawChunk, Receiver, Window},
};

use crate::cli::options::stream::{Cores, Stream};

/// Fewest and most chunks that are being worked on, or wait for it, and the bytes of those between: room for packets
/// that come while the device is busy with something else.
const WAITING: [usize; 2] = [4, 256];
const WAITING_BYTES: usize = 256 << 20;

/// Bytes that come with a heap's samples: other items, and descriptions.
const EXTRA_BYTES: usize = 64 << 10;

/// Number of chunks of `chunk_bytes` that are being worked on, or wait for it.
pub fn waiting(chunk_bytes: usize) -> usize {
    let [fewest, most] = WAITING;
    (WAITING_BYTES / chunk_bytes.max(1)).clamp(fewest, most)
}

/// Sockets, and what comes to them.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Listening {
    /// Address to listen to: 127.0.0.1:7148, or several, 239.1.2.0+3:7148 (four addresses), 10.0.0.1:7148+3
    /// (four ports); a socket and a thread for each
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7148", value_delimiter = ',')]
    pub listen: Vec<Endpoints>,
    /// Sockets, and threads, at each address: the system shares out senders among them
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub sockets: u16,
    /// Cores that the sockets' threads run on, in turns, as 2-5 or 2,4 [default: any]
    #[arg(long, value_name = "CORES")]
    pub cores: Option<Cores>,
    /// Bytes of packets that the system keeps for each socket, if it allows so many
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub buffer: usize,
    /// Number of F-engines, numbered from 0
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub fengs: usize,
    /// Number of channels to correlate
    #[arg(long, default_value_t = 128, value_name = "C")]
    pub channels: usize,
    #[command(flatten)]
    pub stream: Stream,
    /// Time of timestamp 0 in UTC, as 2026-03-01T12:00:00 [default: the start of this command; 2000-01-01 for VDIF,
    /// whose frames carry their times]
    #[arg(long, value_name = "TIME", value_parser = format::moment)]
    pub sync: Option<Timestamp>,
    /// Number of times that timestamps have wrapped since then [default: such that the first heap is of now]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(..32768),
          requires = "sync")]
    pub wraps: Option<u64>,
}

/// Heaps, or frames, that are received.
pub struct Incoming<C = Chunk> {
    pub receiver: Receiver,
    /// Where used chunks go, and full ones come from.
    pub chunks: (mpsc::Sender<C>, mpsc::Receiver<Passed<C>>),
}

/// Origin of VDIF's times: its first reference epoch.
const VDIF_SYNC: &str = "2000-01-01";

impl Listening {
    /// Opens the sockets.
    pub fn open(&self) -> Result<Vec<UdpSocket>> {
        let mut sockets = Vec::new();
        for address in self.listen.iter().flat_map(Endpoints::iter) {
            let (interface, count) = (self.stream.interface, self.sockets.into());
            sockets.extend(live::open_several(address, interface, self.buffer, count)?);
        }
        Ok(sockets)
    }

    /// Layout of chunks, for dumps of `times` time samples.
    pub fn geometry(&self, times: u64) -> Result<Geometry> {
        self.stream.geometry(self.fengs, self.channels, times)
    }

    /// Returns the clock of timestamps, and the expected value of the first one.
    pub fn clock(&self, geometry: &Geometry) -> (Clock, u64) {
        let rate = self.stream.rate();
        let clock = |sync| Clock { sync, rate, step: geometry.step };
        let now = Timestamp::now();
        // Half the range of timestamps.
        let half = 1_u64 << (live::spead::VALUE_BITS - 1);
        let Some(sync) = self.sync else { return (clock(now), half) };
        let since = now.duration_since(sync).as_secs_f64().max(0.0) * rate;
        let expected = self.wraps.map_or(since as u64, |wraps| (2 * wraps + 1) * half);
        (clock(sync), expected)
    }

    /// Begins to receive heaps, the first of whose timestamps is expected, into memory from where `gpu` fetches them.
    pub fn heaps(
        &self,
        sockets: Vec<UdpSocket>,
        geometry: &Geometry,
        expected: u64,
        gpu: Option<&Arc<dyn Gpu>>,
    ) -> Result<Incoming> {
        let ((spent, empty), (sender, passed)) = (mpsc::channel(), mpsc::channel());
        for _ in 0..geometry.window + waiting(geometry.chunk_bytes()) {
            let memory = geometry.memory(gpu)?;
            Window::chunks(geometry, [memory]).for_each(|chunk| drop(spent.send(chunk)));
        }
        let window = Window::new(geometry.clone(), expected, empty, sender);
        let heap_bytes = geometry.heap_bytes() + EXTRA_BYTES;
        let held_bytes = (2 * geometry.fengs + 8) * heap_bytes;
        let receiver = self.pin(Receiver::start(sockets, window, heap_bytes, held_bytes)?)?;
        Ok(Incoming { receiver, chunks: (spent, passed) })
    }

    /// The time that frames of VDIF count from.
    pub fn frames_sync(&self) -> Result<Timestamp> {
        self.sync.map_or_else(|| format::moment(VDIF_SYNC), Ok)
    }

    /// Begins to receive frames of VDIF.
    pub fn frames(&self, sockets: Vec<UdpSocket>, frames: Frames) -> Result<Incoming<RawChunk>> {
        let ((spent, empty), (sender, passed)) = (mpsc::channel(), mpsc::channel());
        for _ in 0..frames.window + waiting(frames.chunk_bytes()) {
            let _ = spent.send(RawChunk::new(&frames)?);
        }
        let receiver = self.pin(Receiver::frames(sockets, Window::of(frames, empty, sender))?)?;
        Ok(Incoming { receiver, chunks: (spent, passed) })
    }

    /// Has a receiver's threads run on some cores, if they are given.
    pub fn pin(&self, receiver: Receiver) -> Result<Receiver> {
        match &self.cores {
            Some(Cores(cores)) => receiver.pin(cores).map(|()| receiver),
            None => Ok(receiver),
        }
    }
}

/// Addresses of sockets, in words.
pub fn addresses(sockets: &[UdpSocket]) -> Result<String> {
    let first = sockets[0].local_addr().map_err(corrust::Error::io("a socket", "read"))?;
    Ok(match sockets.len() {
        1 => first.to_string(),
        all => format!("{first} and {} more", all - 1),
    })
}
