//! `corrust serve`.

mod args;
mod counts;
mod shared;

pub use args::Args;

use std::{
    fs,
    net::TcpListener,
    num::NonZeroU64,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use corrust::{
    Correlator, Encoding, Error, Result,
    correlate::{Folding, Shape},
    device::Gpu,
    format::{self, PartialFile, Timestamp, array::Array, uvh5},
    live::{Before, Channels, Clock, Fate, Files, Frames, Integrator, Socket, Spectra, Words},
    quantise::VanVleck,
    run::{Head, Integration, Upchannelise},
    serve::{About, Board, start},
};

use self::shared::{Drain, Faults, Http, Strangers};
use crate::cli::commands::correlate::product::van_vleck;
use crate::cli::input::complete;
use crate::cli::options::engine::{Known, Raw, correlated};
use crate::cli::options::files::UVH5;
use crate::cli::options::flagging::{flagged_blocks, missing_samples};
use crate::cli::options::given;
use crate::cli::options::listening::{Incoming, Placed, addresses};
use crate::cli::options::run_files::ending;
use crate::cli::options::selection::{ChannelRange, Timing, of_channels};
use crate::cli::options::stream::{Made, in_chunks};
use crate::cli::options::units::Seconds;
use crate::cli::terminal::numbers::{count, digits};
use crate::cli::terminal::say::tell;
use crate::cli::terminal::signals::{SERVING, STOPPING};

/// Times of the longest delay of an input: a live stream's have to be held.
const LONGEST_SHIFT: u64 = 1 << 24;

/// Samples of channels that are served.
struct Served<C> {
    channels: C,
    /// Facts of the samples, and when their times are.
    head: Head,
    clock: Clock,
    first_channel: u64,
    /// Numbers of the F-engines or threads that send them.
    senders: Vec<u64>,
    /// Facts of the array.
    array: Option<Array>,
    /// Whether they are spectra of raw voltages, and whether inputs are delayed towards a phase centre.
    is_raw: bool,
    phased: bool,
    /// Times of a dump.
    integration: u64,
    /// Name of the packets that are expected.
    expected: &'static str,
}

/// A live correlation of chunks and its service.
struct Live<C> {
    about: About,
    files: Option<Files>,
    http: Http,
    /// Addresses that it listens to, in words.
    listening: String,
    /// Name of the packets that are expected.
    expected: &'static str,
    incoming: Incoming<C>,
    integration: u64,
    drain: Seconds,
}

impl Args {
    /// Serves until a signal ends it.
    pub fn run(self) -> Result<()> {
        if self.output.is_none() {
            given::refuse(&["van-vleck"], "no files are written, expected --output")?;
            given::warn_unused(
                &["file-dumps", "keep-partial", "gzip"],
                "no files are written, expected --output",
            );
        }
        self.check_output()?;
        if let Some(sensors) = self.counts.counts {
            return self.serve_counts(sensors);
        }
        self.vdif.warn_of_given();
        if self.vdif.raw() {
            let dated = self.array.is_some() || self.selection.folds();
            self.engine.warn_of_sky_but_for("--delays, --gate-period or --array", dated);
        }
        let sync = self.listening.frames_sync()?;
        match self.vdif.frames(self.listening.stream.rate(), sync)? {
            Some((Made::Channels(channels), frames)) => self.serve_frames(channels, frames, sync),
            Some((Made::Bits(encoding), frames)) => self.serve_bits(encoding, frames, sync),
            None => self.serve_heaps(),
        }
    }

    /// Serves heaps.
    fn serve_heaps(self) -> Result<()> {
        let factor = self.subchannels.factor();
        let interval = self.listening.stream.interval(self.listening.channels);
        let integration = self.integration(interval * factor as f64)?;
        let times = integration.saturating_mul(factor as u64);
        let geometry = self.listening.geometry(times)?;
        let array = self.array()?;
        let (clock, expected) = self.listening.clock(&geometry);
        let (interval, start) = (Some(clock.interval()), Some(clock.sync));
        let served = Served {
            channels: geometry.clone(),
            head: Head { interval, start, ..Head::new(geometry.shape()) },
            clock,
            first_channel: geometry.first_channel,
            senders: (0..geometry.fengs as u64).collect(),
            array,
            is_raw: false,
            phased: false,
            integration,
            expected: "SPEAD 64-48",
        };
        let gpus = self.place.device.open()?;
        self.serve(served, &gpus, |sockets| {
            // Several GPUs share out channels, which each fetches from the host.
            let placed = match &gpus[..] {
                [gpu] => Placed::Device(gpu),
                gpus => Placed::Host(gpus.first()),
            };
            self.listening.heaps(sockets, &geometry, expected, &placed)
        })
    }

    /// Serves frames of VDIF, which an F-engine makes `channels` channels of.
    fn serve_frames(self, channels: usize, mut frames: Frames, sync: Timestamp) -> Result<()> {
        let (array, factor) = (self.array()?, self.subchannels.factor());
        let rate = self.listening.stream.rate();
        let raw = Raw {
            shape: frames.shape(),
            times: u64::MAX,
            interval: Some(1.0 / rate),
            start: Some(sync),
            band: None,
            path: Path::new("--vdif"),
        };
        let coarse = array.as_ref().map(|array| match factor {
            1 => Ok(array.clone()),
            _ => array.coarse(channels, factor),
        });
        // The start in an array file does not matter here.
        let known = Known { start: None, ..Known::of(coarse.transpose()?.as_ref(), channels)? };
        let (builder, sky) = self.engine.builder(channels, &raw, None, &known)?;
        if sky.delayed && self.listening.sync.is_none() {
            return Err(Error::invalid("--delays: expected --sync, from which they count"));
        }
        let engine = builder.shape()?;
        let shape = correlated(&engine)?;
        let times = factor.saturating_mul(engine.hop);
        let integration = self.integration(times as f64 / rate)?;
        let level = self.engine.level();
        // Levels are measured of a chunk.
        let least = level.map_or(0, |_| 2 * engine.window());
        in_chunks(&mut frames, integration.saturating_mul(times as u64), least, 1);
        let gpus = self.place.device.open()?;
        // Several GPUs share out channels of spectra that the first one makes.
        let builder = builder.device(self.place.device.clone()).gpus(gpus.first().cloned());
        let mut spectra = Spectra::new(builder.clone().build()?, frames.clone())?;
        if gpus.len() > 1 {
            spectra = spectra.in_host();
        }
        if let Some(sigma) = level {
            spectra = spectra.level(builder, sigma);
        }
        let (start, frequencies) = sky.found();
        let circularity = spectra.circularity();
        let served = Served {
            channels: spectra,
            head: Head {
                interval: sky.interval,
                start,
                frequencies,
                circularity,
                ..Head::new(shape)
            },
            // As for recordings: a spectrum's time is the centre of its taps.
            clock: Clock { sync: start.unwrap_or(sync), rate, step: engine.hop as u64 },
            first_channel: 0,
            senders: frames.threads().iter().map(|&thread| thread.into()).collect(),
            array,
            is_raw: true,
            phased: sky.delayed,
            integration,
            expected: "VDIF",
        };
        self.serve(served, &gpus, |sockets| self.listening.frames(sockets, frames))
    }

    /// Serves frames whose channels, of few bits, are those to correlate.
    fn serve_bits(self, encoding: Encoding, mut frames: Frames, sync: Timestamp) -> Result<()> {
        let array = self.array()?;
        let (rate, word) = (self.listening.stream.rate(), encoding.times());
        let integration = match self.integrate {
            Some(times) => times.get(),
            None => self.integration(word as f64 / rate)?.saturating_mul(word as u64),
        };
        in_chunks(&mut frames, integration, 0, word);
        let words = Words::new(encoding, &frames)?;
        let clock = Clock { sync, rate, step: 1 };
        let served = Served {
            head: Head::new(words.shape()),
            channels: words,
            clock,
            first_channel: 0,
            senders: frames.threads().iter().map(|&thread| thread.into()).collect(),
            array,
            is_raw: false,
            phased: false,
            integration,
            expected: "VDIF",
        };
        let gpus = self.place.device.open()?;
        self.serve(served, &gpus, |sockets| self.listening.frames(sockets, frames))
    }

    /// Serves channels, or subchannels of them, that `receive` gets from sockets.
    fn serve<C: Channels>(
        &self,
        served: Served<C>,
        gpus: &[Arc<dyn Gpu>],
        receive: impl FnOnce(Vec<Socket>) -> Result<Incoming<C::Chunk>>,
    ) -> Result<()> {
        let Served { channels, mut head, mut clock, mut first_channel, integration, .. } = served;
        let mut before = Before::default();
        let engine = served.is_raw.then_some(&self.engine);
        if let Some(plan) = self.subchannels.plan(&head.shape, engine, gpus)? {
            let factor = plan.shape().factor as u64;
            head = Upchannelise::head(&head, &plan)?;
            clock = Clock {
                sync: head.start.unwrap_or(clock.sync),
                step: clock.step.saturating_mul(factor),
                ..clock
            };
            first_channel *= factor;
            before = before.upchannelised(plan);
        }
        let all = head.shape.channels;
        let only = ChannelRange::of(self.only.as_ref(), "--only", all)?;
        let shape = Shape { channels: only.len(), ..head.shape };
        let first_channel = first_channel + only.start as u64;
        let coefficients = self.van_vleck.map(|step| van_vleck(step, &shape, &[])).transpose()?;
        if let Some(block_times) = self.flagging.block_times() {
            given::refuse(
                &["kurtosis", "flags"],
                "a service writes no such files, expected corrust observe",
            )?;
            let judge = self.flagging.judge(&head.shape, &head.circularity)?;
            before = before.flagged(&head.shape, judge, block_times, gpus)?;
        }
        let before = before.of_channels(only.clone());
        let array = served.array.map(|mut array| match served.is_raw {
            true => complete(&mut array, &head).map(|()| array),
            false => Ok(array),
        });
        let array = array.transpose()?.map(|array| of_channels(&array, all, &only)).transpose()?;
        let found = Array { channels: head.frequencies, ..Array::default() };
        let found = of_channels(&found, all, &only)?;
        let known = array.as_ref().unwrap_or(&found);
        let frequencies = match &known.channels {
            Some(_) => Some(known.frequencies(shape.channels)?),
            None => None,
        };
        let names = match known.antennas.is_some() || known.inputs.is_some() {
            true => Some(known.names(shape.inputs)?),
            false => None,
        };
        let gates = self.gates(&clock, shape.channels, known)?;
        let shifts = self.selection.read_shifts(shape.inputs, LONGEST_SHIFT)?;
        let listener = TcpListener::bind(self.http).map_err(|error| {
            Error::invalid(format!("--http {}: cannot listen there: {error}", self.http))
        })?;
        let http = Http { listener, names: self.http_host.clone() };
        let sockets = self.listening.open()?;
        let correlator = Correlator::builder(shape.inputs, shape.channels)
            .encoding(shape.encoding)
            .layout(shape.layout)
            .gpus(gpus.iter().cloned())
            .device(self.place.device.clone())
            .kernel(self.place.kernel)
            .gates(gates.as_ref().map_or(1, Folding::bins))
            .shifts(shifts.as_deref().unwrap_or_default())
            .build()?;
        let senders = served.senders;
        let about = About { shape, first_channel, senders, clock, names, frequencies };
        let files = self.files(&about, array, &gates, coefficients)?;
        let files = files.map(|files| if served.phased { files.phased() } else { files });
        let integrator = Integrator::after(before, correlator, channels, integration)?;
        let integrator = gates.into_iter().fold(integrator, Integrator::gated);
        let integrator = if self.keep_partial { integrator.keep_partial() } else { integrator };
        let (listening, expected) = (addresses(&sockets)?, served.expected);
        let incoming = receive(sockets)?;
        let drain = self.drain;
        let live = Live { about, files, http, listening, expected, incoming, integration, drain };
        live.serve(integrator)
    }

    /// Number of times of a dump, which are `interval` seconds apart.
    fn integration(&self, interval: f64) -> Result<u64> {
        let times = match self.integrate {
            Some(times) => times.get(),
            None => {
                let seconds = self.seconds.unwrap_or(1.0);
                let times = NonZeroU64::new((seconds / interval).round() as u64);
                let few = || {
                    Error::invalid(format!(
                        "--seconds {seconds}: expected at least {interval}, from one time to the next"
                    ))
                };
                times.ok_or_else(few)?.get()
            }
        };
        if let Some(output) = self.output.as_ref().filter(|output| ending(output) == UVH5)
            && self.file_dumps > 1
        {
            uvh5::Writer::told_apart(output, times as f64 * interval)?;
        }
        Ok(times)
    }

    /// The gates of times that a clock counts.
    fn gates(&self, clock: &Clock, channels: usize, array: &Array) -> Result<Option<Folding>> {
        self.selection.live_gates(|| Timing {
            start: Some(clock.sync),
            interval: Some(clock.interval()),
            frequencies: array.frequencies(channels).ok(),
        })
    }

    /// Checks, before anything else is done, that files can be written where they are to be.
    fn check_output(&self) -> Result<()> {
        let Some(output) = &self.output else { return Ok(()) };
        self.compression.of(output)?;
        let folder = format::folder(output);
        fs::create_dir_all(folder).map_err(Error::io(folder, "create"))?;
        PartialFile::create(output).map(drop)
    }

    /// Files for dumps.
    fn files(
        &self,
        about: &About,
        array: Option<Array>,
        gates: &Option<Folding>,
        van_vleck: Option<VanVleck>,
    ) -> Result<Option<Files>> {
        let array = array.filter(|_| self.output.as_ref().is_some_and(|name| ending(name) == UVH5));
        let About { shape, first_channel, clock, .. } = *about;
        let files = self.output.as_ref().map(|output| {
            let files = Files::new(output, shape, first_channel, clock, array, self.file_dumps)?;
            let files = self.compression.of(output)?.into_iter().fold(files, Files::compressed);
            Ok(van_vleck.into_iter().fold(files, Files::coefficients))
        });
        let files: Option<Files> = files.transpose()?;
        match gates {
            Some(gates) => files.map(|files| files.gated(gates.bins())).transpose(),
            None => Ok(files),
        }
    }

    /// The array: for UVH5, frequencies of gates, and names and frequencies on the page.
    fn array(&self) -> Result<Option<Array>> {
        if let Some(output) = &self.output {
            match &ending(output)[..] {
                UVH5 if self.array.is_none() => {
                    return Err(Error::file(
                        output,
                        "is to be UVH5: expected --array ARRAY.json, which says what the inputs and channels are",
                    ));
                }
                UVH5 | "npy" => {}
                _ => return Err(Error::file(output, "expected a name that ends in .npy or .uvh5")),
            }
        }
        self.array.as_ref().map(Array::read).transpose()
    }
}

impl<C> Live<C> {
    /// Correlates chunks until a signal ends it.
    fn serve(self, mut integrator: Integrator<impl Channels<Chunk = C>>) -> Result<()> {
        let Self { about, mut files, http, incoming, expected, drain, .. } = self;
        let Incoming { receiver, chunks: (spent, passed) } = incoming;
        let (shape, interval) = (about.shape, about.clock.interval());
        let board = Arc::new(Board::new(about, receiver.watch()));
        let Http { listener, names } = http;
        let address = listener.local_addr().map_err(Error::io("a socket", "read"))?;
        start(listener, board.clone(), names)?;
        SERVING.store(true, Ordering::Relaxed);
        tell(format_args!(
            "listening to {}, {} x {}, dumps of {} s on {} ({}): http://{address}",
            self.listening,
            count(shape.inputs, "input"),
            count(shape.channels, "channel"),
            digits(self.integration as f64 * interval),
            integrator.correlator().device_name(),
            integrator.correlator().kernel()
        ));

        let mut faults = Faults::of("dumps");
        let mut done = |dump: &Integration| {
            board.show(dump);
            board.dumps.done.fetch_add(1, Ordering::Relaxed);
            if let Some(files) = &mut files {
                faults.said(files.append(dump));
                board.dumps.written.store(files.written(), Ordering::Relaxed);
                board.dumps.dropped.store(files.dropped(), Ordering::Relaxed);
            }
            Ok(())
        };
        let mut receiver = Some(receiver);
        let mut strangers = Strangers::of(expected);
        let mut drain = Drain::of(passed, drain);
        let mut end = 0;
        loop {
            strangers.poll(|| board.tally());
            match drain.next() {
                Some(chunk) => {
                    if let Some(chunk) = integrator.process(chunk, &mut done)? {
                        let _ = spent.send(chunk);
                    }
                    board.dumps.empty.store(integrator.empty(), Ordering::Relaxed);
                }
                None if receiver.is_none() => break,
                None => {}
            }
            if STOPPING.load(Ordering::Relaxed)
                && let Some(receiver) = receiver.take()
            {
                end = receiver.stop();
                drain.begin();
            }
            if drain.is_over() {
                end = 0;
                break;
            }
        }
        strangers.last(|| board.tally());
        integrator.end(end, &mut done)?;
        if let Some(judged) = integrator.judged() {
            tell(flagged_blocks(&judged));
            tell(missing_samples(&judged));
        }
        if let Some(files) = &mut files {
            faults.said(files.finish());
            board.dumps.written.store(files.written(), Ordering::Relaxed);
            board.dumps.dropped.store(files.dropped(), Ordering::Relaxed);
        }
        summary(&board);
        Ok(())
    }
}

/// Prints the totals.
fn summary(board: &Board) {
    let tally = board.tally();
    let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let lost: Vec<_> = Fate::ALL[1..]
        .iter()
        .filter(|fate| tally.heaps(**fate) > 0)
        .map(|fate| format!("{} {}", tally.heaps(*fate), fate.name()))
        .collect();
    tell(format_args!(
        "{} in {}, {} placed{}{}{}; {}: {} written, {} dropped",
        count(tally.packets, "packet"),
        count(Fate::ALL.iter().map(|fate| tally.heaps(*fate)).sum::<u64>(), "heap"),
        tally.heaps(Fate::Placed),
        if lost.is_empty() { "" } else { ", " },
        lost.join(", "),
        tally.faults_said(),
        count(load(&board.dumps.done), "dump"),
        load(&board.dumps.written),
        load(&board.dumps.dropped),
    ));
}
