//! A correlator that listens: F-engines' heaps from the network, or frames of VDIF; dumps at absolute times.
//!
//! - [`Receiver`] has a thread for each socket, which understands packets ([`spead`]) where the system has written
//!   them.
//! - A [`Window`] gives heaps places in [`Chunk`]s by their timestamps, whatever the order in which they come. The
//!   threads copy samples there, each by itself, and chunks are handed out with a list of missing samples.
//! - An [`Integrator`] correlates chunks, and cuts dumps at multiples of the integration since the sync time.
//!   Steps [`Before`] the sums make subchannels of channels, and flag blocks of times with RFI as missing.
//! - [`Files`] hold dumps.
//! - A [`StreamRecording`] hands out chunks as a recording, for an observation of several products.
//! - [`Frames`] of VDIF, which hold raw voltages, are put into chunks of their own, and an F-engine, [`Spectra`],
//!   makes samples of channels of these; or [`Words`] takes their channels as they are, of 1 or 2 bits.
//! - [`Counts`] of photons come in packets or as a plain stream, and are [`Correlated`] at lags spread over decades.
//! - An [`Interface`] has queues whose packets pass the system's network stack by (AF_XDP).
//! - A [`Sender`] does what F-engines do, a [`BeamSender`] what beamformers do.
//!
//! Memory is bounded whatever comes: chunks are used again, and heaps that stay incomplete are given up.
//!
//! ```
//! use std::{sync::mpsc::channel, time::Duration};
//!
//! use corrust_host::{Correlator, Device, Encoding, Layout, Samples};
//! use corrust_live::{Geometry, Integrator, Receiver, Sender, Window, open};
//!
//! let geometry = Geometry {
//!     fengs: 2, polarisations: 1, channels: 4, first_channel: 0,
//!     heap_times: 8, step: 8, chunk_heaps: 2, window: 2,
//! };
//! let socket = open("127.0.0.1:0".parse()?, None, 1 << 20)?;
//! let std::net::SocketAddr::V4(address) = socket.local_addr()? else { unreachable!() };
//! let ((spent, empty), (sender, passed)) = (channel(), channel());
//! let memory = (0..4).map(|_| Box::new(vec![0_u8; geometry.chunk_bytes()]) as _);
//! Window::chunks(&geometry, memory).for_each(|chunk| spent.send(chunk).unwrap());
//! let window = Window::new(geometry.clone(), 1 << 47, empty, sender);
//! let receiver = Receiver::start(vec![socket], window, 1 << 16, 1 << 20)?;
//!
//! let samples = [[[[1_i8, 2]; 2]; 4]; 32]; // [time][channel][input][re, im]
//! let view = Samples::new(&samples[..], 2, 4, Encoding::Ci8, Layout::Tcn)?;
//! Sender::new(vec![address], None, geometry.clone(), 4, 1024)?.send(&view, 0)?;
//! while receiver.tally().packets < 8 {
//!     std::thread::sleep(Duration::from_millis(1));
//! }
//! let end = receiver.stop();
//!
//! let correlator = Correlator::builder(2, 4).layout(Layout::Cnt).device(Device::Cpu).build()?;
//! let mut integrator = Integrator::new(correlator, geometry, 16)?;
//! let mut powers = Vec::new();
//! for chunk in passed {
//!     integrator.process(chunk, |dump| {
//!         powers.push(dump.gates[0].visibilities.integer().unwrap()[[0, 0]].re);
//!         Ok(())
//!     })?;
//! }
//! assert_eq!((end, powers), (32, vec![16 * 5; 2]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod batch;
pub(crate) mod beams;
pub(crate) mod carry;
pub(crate) mod chunks;
pub(crate) mod counts;
pub(crate) mod curves;
pub(crate) mod dumps;
pub(crate) mod files;
pub(crate) mod frames;
pub(crate) mod heaps;
pub(crate) mod intake;
pub(crate) mod memory;
pub(crate) mod receive;
pub(crate) mod recording;
pub(crate) mod ring;
pub(crate) mod send;
pub mod spead;
pub(crate) mod spectra;
pub(crate) mod steps;
pub(crate) mod stores;
pub(crate) mod stream;
pub(crate) mod sums;
pub(crate) mod tally;
pub(crate) mod window;
pub(crate) mod words;
pub(crate) mod xdp;

pub use batch::{Socket, cut_packets};
pub use beams::BeamSender;
pub use chunks::{Chunk, Geometry};
pub use counts::{CountChunk, Counts};
pub use curves::{Correlated, LiveCurves};
pub use dumps::{Channels, Integrator};
pub use files::{Clock, Files};
pub use frames::{Frames, RawChunk};
pub use heaps::{Assembler, Heap};
pub use memory::Memory;
pub use receive::{Endpoints, Plain, Receiver, Watch, discard, open, open_several};
pub use recording::{Readable, StreamRecording};
pub use send::{Packets, Sender};
pub use spectra::Spectra;
pub use steps::{Before, Steps};
pub use stream::{Destination, Sources, Stream};
pub use tally::{Fate, SocketTally, Tally};
pub use window::{Passed, Window};
pub use words::Words;
#[cfg(all(feature = "xdp", target_os = "linux"))]
pub use xdp::Queue;
pub use xdp::{Datagram, Interface, Mode};
