//! Arguments of `corrust serve`.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU64,
    path::PathBuf,
};

use corrust::autocorrelate::Scheme;

use crate::cli::{
    commands::upchannelise::Subchannels,
    options::{
        device::DeviceOptions,
        engine::Engine,
        files::Compression,
        flagging::Flagging,
        listening::Listening,
        run_files::{input, output},
        selection::{ChannelRange, Selection},
        stream::Vdif,
        units::{Seconds, seconds},
    },
};

/// Correlate live streams of F-engines: SPEAD heaps, or VDIF
///
/// Heaps are of SPEAD 64-48 over UDP, IPv4 unicast or multicast, and have the items of MeerKAT's F-engines: 0x1600 timestamp (48 bits, which wrap), 0x4101 F-engine, 0x4103
/// first channel, 0x4300 samples int8 [channel][time][polarisation][2]. They may come in any order; lost, late and
/// malformed heaps are counted, and the number of valid samples of every visibility is exact. Dumps begin at
/// multiples of the integration since the sync time.
///
/// With --vdif frames of raw voltages are received, one in each packet, with or without VTP's number before it: inputs
/// are channels of threads, and --channelise makes spectra, as corrust correlate does. Spectra, too, count from the sync
/// time. Channels of 1 or 2 bits are correlated directly: --encoding b1 or b2.
///
/// With --counts counts of photons are received, in packets, by TCP or through a pipe: curves g(tau) with error bars,
/// count rates and losses are on the page, and in files at multiples of --seconds.
///
/// Metrics for Prometheus are at /metrics of --http, a page with spectra, visibilities and losses at /. SIGINT and
/// SIGTERM end it: the last complete dump is written; with --keep-partial one that is incomplete, too.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = EXAMPLES,
    allow_negative_numbers = true,
    mut_group("Engine", |group| group.requires("channelise")),
    mut_arg("start", |arg| arg.hide(true).conflicts_with("vdif")),
    mut_arg("flag", |arg| arg.conflicts_with("counts")),
    mut_arg("upchannelise", |arg| arg.conflicts_with("counts")),
    mut_arg("kurtosis", |arg| arg.hide(true)),
    mut_arg("flags", |arg| arg.hide(true))
)]
pub struct Args {
    #[command(flatten)]
    pub listening: Listening,
    /// Files to write, as live/vis.npy or live/vis.uvh5, for curves live/g.csv or live/g.npy: names get the time of the
    /// first dump or of the update, as in vis-20260301T120000.000000Z.npy
    #[arg(short, long, value_name = "NAME")]
    pub output: Option<PathBuf>,
    /// Array file, JSON: telescope, location, antennas, frequencies, for UVH5; the page has its antennas and frequencies
    #[arg(long, value_name = "ARRAY.json", value_parser = input(), hide_short_help = true)]
    pub array: Option<PathBuf>,
    /// Dumps in a file; for curves, updates from one file to the next
    #[arg(long, default_value_t = 1, value_name = "DUMPS", hide_short_help = true)]
    pub file_dumps: usize,
    /// Time samples in a dump
    #[arg(long, value_name = "T", conflicts_with = "seconds")]
    pub integrate: Option<NonZeroU64>,
    /// Seconds in a dump, rounded to a whole number of time samples; for curves, from one update to the next
    /// [default: 1]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Write the last dump although the stream ended within it; its samples that never came are missing
    #[arg(long, conflicts_with = "counts")]
    pub keep_partial: bool,
    /// Write correlation coefficients, -1 to 1, in place of sums: of b1 and b2 made of Gaussian noise, for a step in standard
    /// deviations, by default the optimal one
    #[arg(long, value_name = "STEP", num_args = 0..=1, require_equals = true, conflicts_with = "counts")]
    pub van_vleck: Option<Option<f64>>,
    /// Channels or subchannels to correlate, A to B - 1, of those that come or are made, as 100..228 [default: all]; an array file
    /// describes all of them
    #[arg(long, value_name = "A..B", conflicts_with = "counts", hide_short_help = true)]
    pub only: Option<ChannelRange>,
    #[command(flatten)]
    pub compression: Compression,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub place: DeviceOptions,
    /// Address that metrics and the page are served at; 0.0.0.0:8148 serves other machines, too
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8148")]
    pub http: SocketAddr,
    /// Host name of the page, as head.example.org; requests for hosts other than this, the address and localhost are
    /// refused. May be repeated
    #[arg(long, value_name = "NAME", value_parser = host, hide_short_help = true)]
    pub http_host: Vec<String>,
    /// Longest time to correlate what arrived before the signal that ends the service
    #[arg(long, value_name = "TIME", default_value = "1.5s", hide_short_help = true)]
    pub drain: Seconds,
    #[command(flatten)]
    pub vdif: Vdif,
    #[command(flatten)]
    pub counts: CountArgs,
    #[command(flatten)]
    pub engine: Engine,
    #[command(flatten)]
    pub subchannels: Subchannels,
    #[command(flatten)]
    pub flagging: Flagging,
}

const EXAMPLES: &str = "\
Examples:
  corrust serve                                     what corrust send sends; see http://127.0.0.1:8148
  corrust serve --listen 239.1.2.0+3:7148 --interface 10.0.0.2 --fengs 64 --channels 256 --first-channel 512 \\
      --rate 1712MHz --step 8192 --sync 2026-03-01T04:00:00 --seconds 8 -o live/vis.uvh5 --array array.json
  corrust serve --flag sk --sk-times 512            flag RFI
  corrust serve --vdif 0-7 --rate 64MHz --channelise 1024 --level -o live/vis.npy
  corrust serve --counts 1024 --dwell 1.6us -o live/g.csv --file-dumps 10    what corrust send --counts 1024 sends";

/// Counts of photons that come in place of samples.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Counts of photons")]
pub struct CountArgs {
    /// Receive counts of this number of sensors in place of heaps: packets of the number of their first instant, 64 bits,
    /// little-endian, and the counts of whole instants, [instant][sensor]; corrust autocorrelate gives the same sums
    #[arg(long, value_name = "SENSORS", conflicts_with_all = [
        "vdif", "fengs", "channels", "step", "rate", "polarisations", "first_channel", "heap_times", "sync", "wraps", "array",
        "integrate", "kernel",
    ])]
    pub counts: Option<usize>,
    /// Receive counts of two bytes, the low byte first
    #[arg(long, requires = "counts", hide_short_help = true)]
    pub wide: bool,
    /// Length of an instant, as 1.6us
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1.6us",
        requires = "counts",
        hide_short_help = true
    )]
    pub dwell: Seconds,
    /// Groups of bins, each twice as long as in the group before
    #[arg(
        long,
        value_name = "G",
        default_value_t = 10,
        requires = "counts",
        hide_short_help = true
    )]
    pub groups: usize,
    /// Lags of a group
    #[arg(
        long,
        value_name = "S",
        default_value_t = 32,
        requires = "counts",
        hide_short_help = true
    )]
    pub lags: usize,
    /// Scheme of lags: bin-groups or classic
    #[arg(long, default_value_t, requires = "counts", hide_short_help = true)]
    pub scheme: Scheme,
    /// Listen at this TCP address for counts without numbers; each connection is a stream
    #[arg(long, value_name = "ADDR", requires = "counts", conflicts_with_all = ["listen", "sockets", "cores", "xdp", "pipe"], hide_short_help = true)]
    pub tcp: Option<SocketAddr>,
    /// Read counts without numbers from a file or pipe up to its end, - for the standard input
    #[arg(long, value_name = "PIPE", requires = "counts", conflicts_with_all = ["listen", "sockets", "cores", "xdp"],
          value_parser = input(), hide_short_help = true)]
    pub pipe: Option<PathBuf>,
    /// Save the state of the stream at the end, for corrust autocorrelate --resume
    #[arg(long, value_name = "STATE", requires = "counts", value_parser = output(), hide_short_help = true)]
    pub save: Option<PathBuf>,
}

/// Reads a host's name or address.
fn host(text: &str) -> Result<String, String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_host = text.contains(is_name) && text.chars().all(is_name);
    match is_host || text.parse::<IpAddr>().is_ok() {
        true => Ok(text.trim_end_matches('.').to_owned()),
        false => Err(format!("{text:?}: expected a name without a port, as in head.example.org")),
    }
}
