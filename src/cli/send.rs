//! `corrust send`.

mod counts;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    format::{self, Block, Options, Recording, vdif},
    live::{Endpoints, Packets, Sender},
    samples::Samples,
    simulate::Simulation,
};

use super::{count, given, run_files::input, say, si, stream::Stream, warn};

/// Send a recording as F-engines do: SPEAD 64-48 heaps over UDP, or frames of VDIF
///
/// Heaps are those of MeerKAT's F-engines: items 0x1600 timestamp, 0x4101 F-engine, 0x4103 first channel, 0x4300
/// samples int8 [channel][time][polarisation][2]. Without a recording one of 16 inputs, 128 channels and three
/// point sources is simulated. It is sent at the pace of its rate; its last times that do not fill a heap are
/// left out. Frames of VDIF are sent as they stand in their files, one in each packet, with the times that they say.
///
/// With --counts counts of photons are sent, as corrust serve --counts takes them: of files, or of molecules that are
/// simulated to diffuse.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files of a recording of ci8 samples, or of VDIF [default: one that is simulated]
    #[arg(value_name = "REC", value_parser = input())]
    recording: Vec<PathBuf>,
    /// Addresses to send to, ranges of channels to each in turn: 127.0.0.1:7148, or 239.1.2.0+3:7148
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7148")]
    to: Vec<Endpoints>,
    /// Order of the axes of the recording: tcn or cnt
    #[arg(long)]
    layout: Option<Layout>,
    #[command(flatten)]
    stream: Stream,
    /// Channels of a heap [default: all]
    #[arg(long, value_name = "C")]
    heap_channels: Option<usize>,
    /// Bytes of payload of a packet
    #[arg(long, value_name = "BYTES", default_value_t = 8192)]
    packet: usize,
    /// The first timestamp, in heaps
    #[arg(long, value_name = "HEAPS", default_value_t = 0)]
    first: u64,
    /// Send it so often, one after the other; 0: for ever [default: once a recording, for ever a simulated one]
    #[arg(long, value_name = "COUNT")]
    repeat: Option<u64>,
    /// Send as quickly as it goes, not at the pace of the rate
    #[arg(long)]
    unpaced: bool,
    #[command(flatten)]
    counts: counts::CountArgs,
}

const EXAMPLES: &str = "\
Examples:
  corrust send                                      to corrust serve on this machine, until interrupted
  corrust send rec.npy --to 239.1.2.0+3:7148 --rate 1712MHz --step 8192 --heap-channels 32
  corrust send scan.vdif                            raw voltages, for corrust serve --vdif 0-7 --channelise 1024
  corrust send --counts 1024                        photons of diffusing molecules, for corrust serve --counts 1024";

/// What is sent.
enum Source {
    /// From memory, as often as is asked for.
    Simulated { block: Block, shape: Shape },
    /// From files, which are opened anew when all was sent.
    Recorded { recording: Box<dyn Recording>, options: Options, block: Block },
}

impl Source {
    fn simulated() -> Result<Self> {
        let shape =
            Shape { inputs: 16, channels: 128, encoding: Encoding::Ci8, layout: Layout::Tcn };
        let times = 8192;
        let mut bytes = Vec::new();
        Simulation { shape, times: times as u64, sources: 3, seed: 1 }.blocks(|_, samples| {
            bytes.extend_from_slice(samples);
            Ok(())
        })?;
        let block = Block { times, samples: bytes.into(), ..Block::new() };
        Ok(Self::Simulated { block, shape })
    }

    fn shape(&self) -> Shape {
        match self {
            Self::Simulated { shape, .. } => *shape,
            Self::Recorded { recording, .. } => recording.shape(),
        }
    }

    fn times(&self) -> u64 {
        match self {
            Self::Simulated { block, .. } => block.times as u64,
            Self::Recorded { recording, .. } => recording.times(),
        }
    }

    /// Begins again.
    fn rewind(&mut self, paths: &[PathBuf]) -> Result<()> {
        match self {
            Self::Simulated { .. } => {}
            Self::Recorded { recording, options, .. } => {
                *recording = format::open(paths, *options)?;
            }
        }
        Ok(())
    }

    /// The `most` times from `start` on, or fewer at the end.
    fn read(&mut self, start: usize, most: usize) -> Result<Samples<'_>> {
        match self {
            Self::Simulated { block, shape } => {
                Ok(block.view(shape).times(start..block.times.min(start + most)))
            }
            Self::Recorded { recording, block, .. } => {
                recording.read_block(most, block)?;
                Ok(block.view(&recording.shape()))
            }
        }
    }
}

/// Waits until what is sent is due.
struct Pace {
    begun: Instant,
    unpaced: bool,
}

impl Pace {
    fn wait(&self, seconds: f64) {
        let due = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        if !self.unpaced
            && let Some(rest) = due.checked_sub(self.begun.elapsed())
        {
            std::thread::sleep(rest);
        }
    }
}

impl Args {
    /// Sends the recording.
    pub fn run(self) -> Result<()> {
        if let Some(sensors) = self.counts.counts {
            return self.send_counts(sensors);
        }
        if self.recording.is_empty() {
            given::refuse(&["layout"], "the recording is simulated, expected files")?;
            let source = Source::simulated()?;
            return self.send_heaps(source, "the simulated recording", self.repeat.unwrap_or(0));
        }
        let repeat = self.repeat.unwrap_or(1);
        let options = Options { rate: self.stream.rate_said(), ..Options::default() };
        if let Some(frames) = vdif::Reader::open(&self.recording, &options)? {
            let of_heaps = [
                "layout",
                "step",
                "polarisations",
                "first-channel",
                "heap-times",
                "heap-channels",
                "packet",
                "first",
            ];
            let why =
                "frames of VDIF are sent as they stand in their files, expected none of heaps";
            given::refuse(&of_heaps, why)?;
            return self.send_frames(frames, options, repeat);
        }
        let options = Options { layout: self.layout, ..Options::default() };
        let recording = format::open(&self.recording, options)?;
        let source = Source::Recorded { recording, options, block: Block::new() };
        self.send_heaps(source, &self.recording[0].display().to_string(), repeat)
    }

    /// What is sent at the pace of its rate.
    fn pace(&self) -> Pace {
        Pace { begun: Instant::now(), unpaced: self.unpaced }
    }

    /// Where to, in words.
    fn targets(&self) -> String {
        self.to.iter().map(Endpoints::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Sends frames of VDIF, each thread's to an address.
    fn send_frames(&self, mut frames: vdif::Reader, options: Options, repeat: u64) -> Result<()> {
        let addresses = self.to.iter().flat_map(Endpoints::iter);
        let sockets = addresses.map(|to| Packets::new(to, self.stream.interface));
        let sockets = sockets.collect::<Result<Vec<_>>>()?;
        say(format_args!(
            "sending {} of {} to {}",
            count(frames.recording().times(), "time"),
            frames.recording().shape(),
            self.targets()
        ));
        let pace = self.pace();
        let (mut sent, mut bytes, mut round, mut before) = (0_u64, 0, 0, 0.0);
        loop {
            let mut last = 0.0;
            while let Some((seconds, frame)) = frames.next_frame()? {
                pace.wait(before + seconds);
                let thread = vdif::thread(frame);
                sockets[thread % sockets.len()].send(frame)?;
                (sent, bytes, last) = (sent + 1, bytes + frame.len(), seconds);
            }
            before += last;
            round += 1;
            if round == repeat {
                break;
            }
            let again = vdif::Reader::open(&self.recording, &options)?;
            frames = again.ok_or_else(|| {
                Error::file(&self.recording[0], "is no longer VDIF: expected what was sent before")
            })?;
        }
        let seconds = pace.begun.elapsed().as_secs_f64();
        say(format_args!(
            "sent {} in {seconds:.2} s, {}B/s",
            count(sent, "frame"),
            si(bytes as f64 / seconds)
        ));
        Ok(())
    }

    /// Sends heaps of samples, of which `name` is where they are from.
    fn send_heaps(&self, mut source: Source, name: &str, repeat: u64) -> Result<()> {
        let Shape { inputs, channels, encoding, .. } = source.shape();
        let fault = |reason: String| Error::invalid(format!("{name}: {reason}"));
        if encoding != Encoding::Ci8 {
            return Err(fault(format!("{encoding} samples: expected ci8")));
        }
        let polarisations = self.stream.polarisations;
        if polarisations == 0 || !inputs.is_multiple_of(polarisations) {
            return Err(Error::invalid(format!(
                "--polarisations {polarisations}: expected a divisor of the recording's {inputs} inputs"
            )));
        }
        let geometry = self.stream.geometry(inputs / polarisations, channels, u64::MAX)?;
        let (heap_times, times) = (geometry.heap_times, source.times());
        if times < heap_times as u64 {
            return Err(fault(format!(
                "{times} times: expected at least {heap_times}, those of a heap"
            )));
        }
        let to = self.to.iter().flat_map(Endpoints::iter).collect();
        let heap_channels = self.heap_channels.unwrap_or(channels);
        let mut sender =
            Sender::new(to, self.stream.interface, geometry, heap_channels, self.packet)?;
        let interval = self.stream.interval(channels);
        say(format_args!(
            "sending {} x {} x {}, {}B/s, to {}",
            count(inputs, "input"),
            count(channels, "channel"),
            count(times, "time"),
            si(2.0 * (inputs * channels) as f64 / interval),
            self.targets()
        ));
        // What is sent at a time: about ten milliseconds.
        let step = ((0.01 / interval / heap_times as f64) as usize).clamp(1, 1024);
        let pace = self.pace();
        let (mut heaps, mut slots, mut round) = (0, 0, 0);
        loop {
            let mut done = 0;
            loop {
                let samples = source.read(done, step * heap_times)?;
                let now = samples.extents().times / heap_times;
                if now == 0 {
                    break;
                }
                heaps += sender.send(&samples, self.first + slots)?;
                slots += now as u64;
                done += now * heap_times;
                pace.wait(slots as f64 * heap_times as f64 * interval);
            }
            round += 1;
            if round == repeat {
                break;
            }
            source.rewind(&self.recording)?;
        }
        let rest = times % heap_times as u64;
        if rest > 0 {
            warn(format_args!("{} that do not fill a heap were left out", count(rest, "time")));
        }
        let seconds = pace.begun.elapsed().as_secs_f64();
        let samples = slots as f64 * (heap_times * inputs * channels) as f64;
        say(format_args!(
            "sent {} in {seconds:.2} s, {}B/s",
            count(heaps, "heap"),
            si(2.0 * samples / seconds)
        ));
        Ok(())
    }
}
