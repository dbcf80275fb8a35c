//! `corrust send`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    format::{self, Block, Options},
    live::{Endpoints, Sender},
    simulate::Simulation,
};

use super::{count, run_files::input, say, si, stream::Stream, warn};

/// Send a recording as F-engines do: SPEAD 64-48 heaps over UDP
///
/// Heaps are those of MeerKAT's F-engines: items 0x1600 timestamp, 0x4101 F-engine, 0x4103 first channel, 0x4300
/// samples int8 [channel][time][polarisation][2]. Without a recording one of 16 inputs, 128 channels and three
/// point sources is simulated. It is sent at the pace of its rate; its last times that do not fill a heap are
/// left out.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files of a recording of ci8 samples [default: one that is simulated]
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
}

const EXAMPLES: &str = "\
Examples:
  corrust send                                      to corrust serve on this machine, until interrupted
  corrust send rec.npy --to 239.1.2.0+3:7148 --rate 1712MHz --step 8192 --heap-channels 32";

/// Where the simulated recording goes.
const SIMULATED: &str = "corrust-send.npy";

impl Args {
    /// Sends the recording.
    pub fn run(self) -> Result<()> {
        let folder = std::env::temp_dir().join(format!("corrust-send-{}", std::process::id()));
        let simulated = self.recording.is_empty();
        let paths = if simulated {
            std::fs::create_dir_all(&folder).map_err(Error::io(&folder, "write"))?;
            vec![folder.join(SIMULATED)]
        } else {
            self.recording.clone()
        };
        let sent = self.send(&paths, simulated, &folder);
        if simulated {
            // A folder that somebody removed is gone.
            let _ = std::fs::remove_dir_all(&folder);
        }
        sent
    }

    fn send(&self, paths: &[PathBuf], simulated: bool, folder: &PathBuf) -> Result<()> {
        if simulated {
            let shape =
                Shape { inputs: 16, channels: 128, encoding: Encoding::Ci8, layout: Layout::Tcn };
            Simulation { shape, times: 8192, sources: 3, seed: 1 }.write(&paths[0], |_| Ok(()))?;
        }
        let options = Options { layout: self.layout, ..Options::default() };
        // Small: all of it is read before anything is sent, and the folder need not stay.
        let mut kept = simulated.then(|| format::open(paths, options)).transpose()?;
        let mut all = Block::new();
        if let Some(recording) = &mut kept {
            recording.read_block(recording.times() as usize, &mut all)?;
            let _ = std::fs::remove_dir_all(folder);
        }
        let mut recording = match kept {
            Some(recording) => recording,
            None => format::open(paths, options)?,
        };
        let shape = recording.shape();
        let Shape { inputs, channels, encoding, .. } = shape;
        if encoding != Encoding::Ci8 {
            return Err(Error::file(&paths[0], format!("{encoding} samples: expected ci8")));
        }
        let polarisations = self.stream.polarisations;
        if polarisations == 0 || !inputs.is_multiple_of(polarisations) {
            return Err(Error::invalid(format!(
                "--polarisations {polarisations}: expected a divisor of the recording's {inputs} inputs"
            )));
        }
        let fengs = inputs / polarisations;
        let geometry = self.stream.geometry(fengs, channels, u64::MAX)?;
        let heap_times = geometry.heap_times;
        let times = recording.times();
        if times < heap_times as u64 {
            return Err(Error::file(
                &paths[0],
                format!("{times} times: expected at least {heap_times}, those of a heap"),
            ));
        }
        let to = self.to.iter().flat_map(Endpoints::iter).collect();
        let heap_channels = self.heap_channels.unwrap_or(channels);
        let mut sender =
            Sender::new(to, self.stream.interface, geometry, heap_channels, self.packet)?;
        let interval = self.stream.interval(channels);
        let begun = Instant::now();
        let (mut heaps, mut slots) = (0, 0);
        // What is sent at a time: about ten milliseconds.
        let step = ((0.01 / interval / heap_times as f64) as usize).clamp(1, 1024);
        let repeat = self.repeat.unwrap_or(u64::from(!simulated));
        say(format_args!(
            "sending {} x {} x {}, {}B/s, to {}",
            count(inputs, "input"),
            count(channels, "channel"),
            count(times, "time"),
            si(2.0 * (inputs * channels) as f64 / interval),
            self.to.iter().map(Endpoints::to_string).collect::<Vec<_>>().join(", ")
        ));
        let mut block = Block::new();
        let mut round = 0;
        while repeat == 0 || round < repeat {
            let mut done = 0;
            loop {
                let view = if simulated {
                    let end = (done + step * heap_times).min(times as usize);
                    all.view(&shape).times(done..end)
                } else {
                    recording.read_block(step * heap_times, &mut block)?;
                    block.view(&shape)
                };
                let now = view.extents().times / heap_times;
                if now == 0 {
                    break;
                }
                heaps += sender.send(&view, self.first + slots)?;
                slots += now as u64;
                done += now * heap_times;
                let due = Duration::try_from_secs_f64(slots as f64 * heap_times as f64 * interval);
                if !self.unpaced
                    && let Some(rest) = due.unwrap_or_default().checked_sub(begun.elapsed())
                {
                    std::thread::sleep(rest);
                }
            }
            round += 1;
            if !simulated && (repeat == 0 || round < repeat) {
                recording = format::open(paths, options)?;
            }
        }
        let rest = times % heap_times as u64;
        if rest > 0 {
            warn(format_args!("{} that do not fill a heap were left out", count(rest, "time")));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let samples = slots as f64 * (heap_times * inputs * channels) as f64;
        say(format_args!(
            "sent {} in {seconds:.2} s, {}B/s",
            count(heaps, "heap"),
            si(2.0 * samples / seconds)
        ));
        Ok(())
    }
}
