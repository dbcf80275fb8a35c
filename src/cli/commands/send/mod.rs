//! `corrust send`.

mod args;
mod counts;

pub use args::Args;

use std::path::PathBuf;

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    format::{self, Block, Options, Recording, packets, vdif},
    live::{Endpoints, Packets, Sender},
    samples::Samples,
    simulate::Simulation,
};

use crate::cli::options::given;
use crate::cli::terminal::numbers::{count, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{tell, warn};

/// Samples to send.
enum Outgoing {
    /// From memory, as often as is asked for.
    Simulated { block: Block, shape: Shape },
    /// From files, which are opened anew when all was sent.
    Recorded { recording: Box<dyn Recording>, options: Options, block: Block },
}

impl Outgoing {
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

impl Args {
    /// Sends the recording.
    pub fn run(self) -> Result<()> {
        if let Some(sensors) = self.counts.counts {
            return self.send_counts(sensors);
        }
        if self.recording.is_empty() {
            given::warn_unused(&["layout"], "the recording is simulated, expected files");
            let source = Outgoing::simulated()?;
            return self.send_heaps(source, "the simulated recording", self.repeat.unwrap_or(0));
        }
        let repeat = self.repeat.unwrap_or(1);
        let options = Options { rate: self.stream.rate_said(), ..Options::default() };
        if let Some(frames) = packets::Reader::open(&self.recording, &options)? {
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
            given::warn_unused(&of_heaps, why);
            return self.send_frames(frames, options, repeat);
        }
        let options = Options { layout: self.layout, ..Options::default() };
        let recording = format::open(&self.recording, options)?;
        let source = Outgoing::Recorded { recording, options, block: Block::new() };
        self.send_heaps(source, &self.recording[0].display().to_string(), repeat)
    }

    /// Sends frames of VDIF, each thread's to an address.
    fn send_frames(
        &self,
        mut frames: packets::Reader,
        options: Options,
        repeat: u64,
    ) -> Result<()> {
        let addresses = self.to.iter().flat_map(Endpoints::iter);
        let sockets = addresses.map(|to| Packets::new(to, self.stream.interface));
        let sockets = sockets.collect::<Result<Vec<_>>>()?;
        tell(format_args!(
            "sending {} of {} to {}",
            count(frames.recording().times(), "time"),
            frames.recording().shape(),
            self.targets()
        ));
        let pace = self.pace();
        let (times, interval) = (frames.recording().times(), frames.recording().interval());
        let bar = progress(frames.recording().shape().inputs, times, repeat);
        let (mut sent, mut bytes, mut round, mut before) = (0_u64, 0, 0, 0.0);
        loop {
            let mut last = 0.0;
            while let Some((seconds, frame)) = frames.next_frame()? {
                pace.wait(before + seconds);
                let thread = vdif::thread(frame);
                sockets[thread % sockets.len()].send(frame)?;
                (sent, bytes, last) = (sent + 1, bytes + frame.len(), seconds);
                if let (Some(bar), Some(interval)) = (&bar, interval) {
                    bar.set(((before + seconds) / interval) as u64);
                }
            }
            before += last;
            round += 1;
            if round == repeat {
                break;
            }
            let again = packets::Reader::open(&self.recording, &options)?;
            frames = again.ok_or_else(|| {
                Error::file(
                    &self.recording[0],
                    "is no longer VDIF: expected the file that was sent before",
                )
            })?;
        }
        let seconds = pace.begun.elapsed().as_secs_f64();
        drop(bar);
        tell(format_args!(
            "sent {} in {seconds:.2} s, {}B/s",
            count(sent, "frame"),
            si(bytes as f64 / seconds)
        ));
        Ok(())
    }

    /// Sends heaps of samples, of which `name` is where they are from.
    fn send_heaps(&self, mut source: Outgoing, name: &str, repeat: u64) -> Result<()> {
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
        tell(format_args!(
            "sending {} x {} x {}, {}B/s, to {}",
            count(inputs, "input"),
            count(channels, "channel"),
            count(times, "time"),
            si(2.0 * (inputs * channels) as f64 / interval),
            self.targets()
        ));
        // Heaps sent at a time: about ten milliseconds.
        let step = ((0.01 / interval / heap_times as f64) as usize).clamp(1, 1024);
        let pace = self.pace();
        let bar = progress(inputs * channels, times, repeat);
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
                bar.iter().for_each(|bar| bar.set(slots * heap_times as u64));
                pace.wait(slots as f64 * heap_times as f64 * interval);
            }
            round += 1;
            if round == repeat {
                break;
            }
            source.rewind(&self.recording)?;
        }
        drop(bar);
        let rest = times % heap_times as u64;
        if rest > 0 {
            warn(format_args!("{} that do not fill a heap were left out", count(rest, "time")));
        }
        let seconds = pace.begun.elapsed().as_secs_f64();
        let samples = slots as f64 * (heap_times * inputs * channels) as f64;
        tell(format_args!(
            "sent {} in {seconds:.2} s, {}B/s",
            count(heaps, "heap"),
            si(2.0 * samples / seconds)
        ));
        Ok(())
    }
}

/// Progress bar of `times` times of the given number of samples, sent `repeat` times; no bar if the stream has no end.
fn progress(samples: usize, times: u64, repeat: u64) -> Option<Progress> {
    let all = times.saturating_mul(repeat);
    (repeat > 0).then(|| Progress::over("sending", samples as f64, all))
}
