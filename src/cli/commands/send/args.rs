//! Arguments of `corrust send`.

use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use corrust::{Layout, live::Endpoints};

use crate::cli::options::{
    run_files::{input, output},
    stream::Stream,
    units::{Hertz, Seconds},
};

/// Send a recording as F-engines do: SPEAD heaps, or VDIF frames
///
/// Heaps are of SPEAD 64-48 over UDP, and have the items of MeerKAT's F-engines: 0x1600 timestamp, 0x4101 F-engine, 0x4103 first channel, 0x4300
/// samples int8 [channel][time][polarisation][2]. Without a recording one of 16 inputs, 128 channels and three
/// point sources is simulated. It is sent at the pace of its rate; time samples at its end that do not fill a heap are
/// left out. Frames of VDIF are sent as they stand in their files, one in each packet, at the times in their headers.
///
/// With --counts counts of photons are sent, as corrust serve --counts takes them: of files, or of molecules that are
/// simulated to diffuse.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Files of a recording of ci8 samples, or of VDIF [default: a simulated recording]
    #[arg(value_name = "REC", value_parser = input())]
    pub recording: Vec<PathBuf>,
    /// Addresses to send to, a range of channels to each: 127.0.0.1:7148, or 239.1.2.0+3:7148
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7148")]
    pub to: Vec<Endpoints>,
    /// Order of the axes of the recording: tcn or cnt
    #[arg(long, hide_short_help = true)]
    pub layout: Option<Layout>,
    #[command(flatten)]
    pub stream: Stream,
    /// Channels of a heap [default: all]
    #[arg(long, value_name = "C", hide_short_help = true)]
    pub heap_channels: Option<usize>,
    /// Bytes of payload of a packet
    #[arg(long, value_name = "BYTES", default_value_t = 8192, hide_short_help = true)]
    pub packet: usize,
    /// First timestamp, in heaps
    #[arg(long, value_name = "HEAPS", default_value_t = 0, hide_short_help = true)]
    pub first: u64,
    /// Number of times to send it; 0 for ever [default: 1 for a recording, 0 for a simulated one]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub repeat: Option<u64>,
    /// Send as fast as possible, not at the pace of the rate
    #[arg(long, hide_short_help = true)]
    pub unpaced: bool,
    #[command(flatten)]
    pub counts: CountArgs,
}

const EXAMPLES: &str = "\
Examples:
  corrust send                                      to corrust serve on this machine, until interrupted
  corrust send rec.npy --to 239.1.2.0+3:7148 --rate 1712MHz --step 8192 --heap-channels 32
  corrust send scan.vdif                            raw voltages, for corrust serve --vdif 0-7 --channelise 1024
  corrust send --counts 1024                        photons of diffusing molecules, for corrust serve --counts 1024";

/// Counts of photons in place of samples.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Counts of photons")]
pub struct CountArgs {
    /// Send counts of this number of sensors: from files, as corrust autocorrelate reads them, or of simulated diffusing
    /// molecules. 64 sensors share photons at random; sensor 64 s + d receives the photons of sensor d, later
    #[arg(long, value_name = "SENSORS", conflicts_with_all = ["layout", "rate", "step", "heap_channels"])]
    pub counts: Option<usize>,
    /// Length of an instant, as 1.6us
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1.6us",
        requires = "counts",
        hide_short_help = true
    )]
    pub dwell: Seconds,
    /// Mean number of molecules in the effective volume
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1.0,
        requires = "counts",
        hide_short_help = true
    )]
    pub molecules: f64,
    /// Diffusion time of a molecule through the focus, as 100us
    #[arg(
        long,
        value_name = "TIME",
        default_value = "100us",
        requires = "counts",
        hide_short_help = true
    )]
    pub diffusion_time: Seconds,
    /// Photons a second of a molecule in the centre, at each sensor, as 100kHz
    #[arg(
        long,
        value_name = "RATE",
        default_value = "100kHz",
        requires = "counts",
        hide_short_help = true
    )]
    pub brightness: Hertz,
    /// Send counts alone to the TCP listener at this address
    #[arg(long, value_name = "ADDR", requires = "counts", conflicts_with_all = ["to", "pipe"], hide_short_help = true)]
    pub tcp: Option<SocketAddr>,
    /// Write to a pipe, - for the standard output, counts alone
    #[arg(long, value_name = "PIPE", requires = "counts", conflicts_with = "to", value_parser = output(), hide_short_help = true)]
    pub pipe: Option<PathBuf>,
}

impl Args {
    /// Starts the clock that paces packets.
    pub fn pace(&self) -> Pace {
        Pace { begun: Instant::now(), unpaced: self.unpaced }
    }

    /// Addresses in words.
    pub fn targets(&self) -> String {
        self.to.iter().map(Endpoints::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Clock of packets: waits until they are due.
pub struct Pace {
    pub begun: Instant,
    unpaced: bool,
}

impl Pace {
    pub fn wait(&self, seconds: f64) {
        let due = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        if !self.unpaced
            && let Some(rest) = due.checked_sub(self.begun.elapsed())
        {
            std::thread::sleep(rest);
        }
    }
}
