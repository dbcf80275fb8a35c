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
    sync::{Arc, atomic::Ordering, mpsc},
    time::Duration,
};

use corrust::{
    Correlator, Encoding, Error, Result,
    correlate::{Folding, Shape},
    device::Gpu,
    format::{self, PartialFile, Timestamp, array::Array, uvh5},
    live::{
        Channels, Clock, Fate, Files, Frames, Geometry, Integrator, Judged, LiveDump, Passed,
        RawChunk, Receiver, Socket, Spectra, Words,
    },
    run::Head,
    serve::{About, Board, start},
};

use self::shared::{Drain, Faults, Http, Strangers};
use crate::cli::commands::correlate::input::complete;
use crate::cli::options::engine::{Known, Raw, correlated};
use crate::cli::options::files::UVH5;
use crate::cli::options::given;
use crate::cli::options::listening::{Incoming, Listening, Placed, addresses};
use crate::cli::options::run_files::ending;
use crate::cli::options::selection::Timing;
use crate::cli::options::stream::{Made, in_chunks, open_chunks};
use crate::cli::options::units::Seconds;
use crate::cli::terminal::missing::{FLAGGED, LOST, fractions};
use crate::cli::terminal::numbers::{count, digits, si};
use crate::cli::terminal::say::tell;
use crate::cli::terminal::signals::{SERVING, STOPPING};

/// Times of the longest delay of an input: a live stream's have to be held.
const LONGEST_SHIFT: u64 = 1 << 24;

/// Sockets, GPUs and plan, opened before anything is served.
struct Ready {
    sockets: Vec<Socket>,
    http: Http,
    gpus: Vec<Arc<dyn Gpu>>,
    correlator: Correlator,
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
    receiver: Receiver,
    spent: mpsc::Sender<C>,
    passed: mpsc::Receiver<Passed<C>>,
    integration: u64,
    drain: Seconds,
}

impl Args {
    /// Serves until a signal ends it.
    pub fn run(self) -> Result<()> {
        if self.output.is_none() {
            given::warn_unused(&["file-dumps"], "no files are written, expected --output");
        }
        self.check_output()?;
        if let Some(sensors) = self.counts.counts {
            return self.serve_counts(sensors);
        }
        self.vdif.warn_of_given();
        if self.vdif.raw() {
            let dated = self.array.is_some() || self.selection.folds();
            self.engine.warn_of_sky_but_for("--delays, --gate-period, or --array for UVH5", dated);
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
        let integration =
            self.integration(self.listening.stream.interval(self.listening.channels))?;
        let mut geometry = self.listening.geometry(integration)?;
        let judged = self.flagging.block_times();
        if let Some(block_times) = judged {
            given::refuse(
                &["kurtosis", "flags"],
                "a service writes no such files, expected corrust observe",
            )?;
            in_blocks(&mut geometry, block_times)?;
        }
        let array = self.array()?;
        let (clock, expected) = self.listening.clock(&geometry);
        let gates = self.gates(&clock, geometry.channels, array.as_ref())?;
        let Ready { sockets, http, gpus, correlator } = self.ready(&geometry.shape(), &gates)?;
        let about = About {
            shape: geometry.shape(),
            first_channel: geometry.first_channel,
            senders: (0..geometry.fengs as u64).collect(),
            clock,
        };
        let files = self.files(&about, array, &gates)?;
        let listening = addresses(&sockets)?;
        // Several GPUs share out channels, which each fetches from the host.
        let placed = match &gpus[..] {
            [gpu] => Placed::Device(gpu),
            gpus => Placed::Host(gpus.first()),
        };
        let heaps = self.listening.heaps(sockets, &geometry, expected, &placed)?;
        let Incoming { receiver, chunks: (spent, passed) } = heaps;
        let expected = "SPEAD 64-48";
        let live = Live {
            about,
            files,
            http,
            listening,
            expected,
            receiver,
            spent,
            passed,
            integration,
            drain: self.drain,
        };
        match judged {
            None => live.serve(gated(Integrator::new(correlator, geometry, integration)?, gates)),
            Some(block_times) => {
                let judge = self.flagging.judge(&live.about.shape, &[])?;
                let judged = Judged::new(geometry, judge, block_times, &gpus)?;
                live.serve(gated(Integrator::judged(correlator, judged, integration)?, gates))
            }
        }
    }

    /// Serves frames of VDIF, which an F-engine makes `channels` channels of.
    fn serve_frames(self, channels: usize, mut frames: Frames, sync: Timestamp) -> Result<()> {
        let array = self.array()?;
        let rate = self.listening.stream.rate();
        let raw = Raw {
            shape: frames.shape(),
            times: u64::MAX,
            interval: Some(1.0 / rate),
            start: Some(sync),
            band: None,
            path: Path::new("--vdif"),
        };
        // The start in an array file does not matter here.
        let known = Known { start: None, ..Known::of(array.as_ref(), channels)? };
        let (builder, sky) = self.engine.builder(channels, &raw, None, &known)?;
        if sky.delayed && self.listening.sync.is_none() {
            return Err(Error::invalid("--delays: expected --sync, from which they count"));
        }
        let engine = builder.shape()?;
        let shape = correlated(&engine)?;
        let integration = self.integration(engine.hop as f64 / rate)?;
        let level = self.engine.level();
        // Levels are measured of a chunk.
        let least = level.map_or(0, |_| 2 * engine.window());
        in_chunks(&mut frames, integration.saturating_mul(engine.hop as u64), least, 1);
        let (start, frequencies) = sky.found();
        let head = Head { interval: sky.interval, start, frequencies, ..Head::new(shape) };
        let array = array.map(|mut array| complete(&mut array, &head).map(|()| array));
        let array = array.transpose()?;
        // As for recordings: a spectrum's time is the centre of its taps.
        let sync = format::later(sync, sky.offset).unwrap_or(sync);
        let clock = Clock { sync, rate, step: engine.hop as u64 };
        let found = Array { channels: head.frequencies, ..Array::default() };
        let bands = array.clone().or(Some(found));
        let gates = self.gates(&clock, channels, bands.as_ref())?;
        let Ready { sockets, http, gpus, correlator } = self.ready(&shape, &gates)?;
        let builder = builder.device(self.place.device.clone()).gpus(gpus);
        let mut spectra = Spectra::new(builder.clone().build()?, frames.clone())?;
        if let Some(sigma) = level {
            spectra = spectra.level(builder, sigma);
        }
        let about = About {
            shape,
            first_channel: 0,
            senders: frames.threads().iter().map(|&thread| thread.into()).collect(),
            clock,
        };
        let files = self.files(&about, array, &gates)?;
        let files = files.map(|files| if sky.delayed { files.phased() } else { files });
        let integrator = gated(Integrator::channelised(correlator, spectra, integration)?, gates);
        serve_chunks(
            frames,
            (sockets, &self.listening, http, self.drain),
            about,
            files,
            integrator,
            integration,
        )
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
        let shape = words.shape();
        let clock = Clock { sync, rate, step: 1 };
        let gates = self.gates(&clock, shape.channels, array.as_ref())?;
        let Ready { sockets, http, correlator, .. } = self.ready(&shape, &gates)?;
        let about = About {
            shape,
            first_channel: 0,
            senders: frames.threads().iter().map(|&thread| thread.into()).collect(),
            clock,
        };
        let files = self.files(&about, array, &gates)?;
        let integrator = gated(Integrator::words(correlator, words, integration)?, gates);
        serve_chunks(
            frames,
            (sockets, &self.listening, http, self.drain),
            about,
            files,
            integrator,
            integration,
        )
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

    /// Opens the sockets and the plan.
    fn ready(&self, shape: &Shape, gates: &Option<Folding>) -> Result<Ready> {
        let shifts = self.selection.read_shifts(shape.inputs, LONGEST_SHIFT)?;
        let listener = TcpListener::bind(self.http).map_err(|error| {
            Error::invalid(format!("--http {}: cannot listen there: {error}", self.http))
        })?;
        let http = Http { listener, names: self.http_host.clone() };
        let sockets = self.listening.open()?;
        let gpus = self.place.device.open()?;
        let correlator = Correlator::builder(shape.inputs, shape.channels)
            .encoding(shape.encoding)
            .layout(shape.layout)
            .gpus(gpus.clone())
            .device(self.place.device.clone())
            .kernel(self.place.kernel)
            .gates(gates.as_ref().map_or(1, Folding::bins))
            .shifts(shifts.as_deref().unwrap_or_default())
            .build()?;
        Ok(Ready { sockets, http, gpus, correlator })
    }

    /// The gates of times that a clock counts.
    fn gates(
        &self,
        clock: &Clock,
        channels: usize,
        array: Option<&Array>,
    ) -> Result<Option<Folding>> {
        self.selection.live_gates(|| Timing {
            start: Some(clock.sync),
            interval: Some(clock.interval()),
            frequencies: array.and_then(|array| array.frequencies(channels).ok()),
        })
    }

    /// Checks, before anything else is done, that files can be written where they are to be.
    fn check_output(&self) -> Result<()> {
        let Some(output) = &self.output else { return Ok(()) };
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
    ) -> Result<Option<Files>> {
        let array = array.filter(|_| self.output.as_ref().is_some_and(|name| ending(name) == UVH5));
        let About { shape, first_channel, clock, .. } = *about;
        let files = self
            .output
            .as_ref()
            .map(|output| Files::new(output, shape, first_channel, clock, array, self.file_dumps));
        let files: Option<Files> = files.transpose()?;
        match gates {
            Some(gates) => files.map(|files| files.gated(gates.bins())).transpose(),
            None => Ok(files),
        }
    }

    /// The array, for UVH5 and the frequencies of gates.
    fn array(&self) -> Result<Option<Array>> {
        let is_uvh5 = self.output.as_ref().is_some_and(|output| ending(output) == UVH5);
        match (&self.array, &self.output) {
            (Some(array), Some(_)) if is_uvh5 => Array::read(array).map(Some),
            (None, Some(output)) if is_uvh5 => Err(Error::file(
                output,
                "is to be UVH5: expected --array ARRAY.json, which says what the inputs and channels are",
            )),
            (Some(array), _) if self.selection.folds() => Array::read(array).map(Some),
            (Some(array), _) => Err(Error::invalid(format!(
                "--array {}: expected an --output whose name ends in .{UVH5}",
                array.display()
            ))),
            (None, Some(output)) if ending(output) != "npy" => {
                Err(Error::file(output, "expected a name that ends in .npy or .uvh5"))
            }
            (None, _) => Ok(None),
        }
    }
}

/// Makes chunks whole blocks of `block_times` times.
fn in_blocks(geometry: &mut Geometry, block_times: usize) -> Result<()> {
    let before = geometry.clone();
    // The least number of heaps whose times are whole blocks.
    let mut heaps = 1_usize;
    while heaps < block_times && !(heaps * geometry.heap_times).is_multiple_of(block_times.max(1)) {
        heaps += 1;
    }
    geometry.chunk_heaps = geometry.chunk_heaps.next_multiple_of(heaps);
    geometry.window = open_chunks(geometry.chunk_heaps);
    geometry.check()?;
    let bytes = |of: &Geometry| of.chunk_bytes().saturating_mul(of.window);
    let most = bytes(&before).saturating_mul(2).max(BLOCKS_BYTES);
    if bytes(geometry) > most {
        return Err(Error::invalid(format!(
            "--sk-times {block_times} of heaps of {} times: blocks and heaps end together after {} times only, of which {} \
             are held, {}B: expected at most {}B, as for a multiple or a divisor of the times of a heap",
            geometry.heap_times,
            heaps * geometry.heap_times,
            geometry.chunk_times() * geometry.window,
            si(bytes(geometry) as f64),
            si(most as f64)
        )));
    }
    Ok(())
}

/// Bytes of open chunks that whole blocks may always have.
const BLOCKS_BYTES: usize = 1 << 30;

/// An integrator that is fed with gates, if there are any.
fn gated<C: Channels>(integrator: Integrator<C>, gates: Option<Folding>) -> Integrator<C> {
    match gates {
        Some(gates) => integrator.gated(gates),
        None => integrator,
    }
}

/// Serves samples of frames.
fn serve_chunks<C: Channels<Chunk = RawChunk>>(
    frames: Frames,
    (sockets, options, http, drain): (Vec<Socket>, &Listening, Http, Seconds),
    about: About,
    files: Option<Files>,
    integrator: Integrator<C>,
    integration: u64,
) -> Result<()> {
    let listening = addresses(&sockets)?;
    let Incoming { receiver, chunks: (spent, passed) } = options.frames(sockets, frames)?;
    let expected = "VDIF";
    let live = Live {
        about,
        files,
        http,
        listening,
        expected,
        receiver,
        spent,
        passed,
        integration,
        drain,
    };
    live.serve(integrator)
}

impl<C> Live<C> {
    /// Correlates chunks until a signal ends it.
    fn serve(self, mut integrator: Integrator<impl Channels<Chunk = C>>) -> Result<()> {
        let Self { about, mut files, http, receiver, spent, passed, expected, drain, .. } = self;
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
        let mut done = |dump: &LiveDump| {
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
        let mut drain = Drain::of(drain);
        let mut end = 0;
        loop {
            strangers.look(|| board.tally());
            match passed.recv_timeout(Duration::from_millis(50)) {
                Ok(chunk) => {
                    if let Some(chunk) = integrator.take(chunk, &mut done)? {
                        let _ = spent.send(chunk);
                    }
                    board.dumps.empty.store(integrator.empty(), Ordering::Relaxed);
                }
                Err(_) if receiver.is_none() => break,
                Err(_) => {}
            }
            if STOPPING.load(Ordering::Relaxed)
                && let Some(receiver) = receiver.take()
            {
                drain.begin();
                end = receiver.stop();
            }
            if drain.is_over(&passed) {
                end = 0;
                break;
            }
        }
        strangers.last(|| board.tally());
        integrator.end(end, &mut done)?;
        if let Some([flagged, judged]) = integrator.flagged() {
            let judged = count(judged, "block");
            tell(format_args!("flagged {flagged} of {judged} of an input's channel"));
        }
        if let Some(samples) = integrator.judged_samples() {
            let [flagged, lost, all] = samples.map(|count| count as f64);
            tell(fractions(all, &[(LOST, lost), (FLAGGED, flagged)]));
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
