//! `corrust serve --counts`: correlation curves of photon counts.

use std::{
    fs::File,
    net::TcpListener,
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc},
};

use corrust::{
    Autocorrelator, Error, Result,
    autocorrelate::Kernel,
    format::{Timestamp, folder},
    live::{self, Correlated, CountChunk, Counts, Fate, LiveCurves, Plain, Receiver, Window},
    photons::CountShape,
    serve::{AboutCounts, CurveBoard, start},
};

use crate::cli::commands::autocorrelate::tables::{Curves, TABLES};
use crate::cli::commands::serve::args::{Args, CountArgs};
use crate::cli::commands::serve::shared::{Drain, Faults, Http, Strangers};
use crate::cli::options::listening::{addresses, waiting};
use crate::cli::options::run_files::ending;
use crate::cli::options::units::Seconds;
use crate::cli::terminal::numbers::{self, count};
use crate::cli::terminal::say::tell;
use crate::cli::terminal::signals::{SERVING, STOPPING};

/// Bytes and instants of a chunk, at most.
const CHUNK_BYTES: usize = 8 << 20;
const CHUNK_INSTANTS: usize = 1 << 16;

/// Chunks that are open at a time, of packets that come in any order.
const WINDOW: usize = 4;

/// Seconds of lost instants in a row that are zeros; more begin the stream anew.
const MOST_LOST: f64 = 10.0;

/// Files of curves, each named after the time of its update.
struct CurveFiles<'a> {
    pattern: &'a Path,
    pairs: Vec<[u32; 2]>,
    dwell: f64,
    /// Updates of a file, and those since the last one.
    each: usize,
    since: usize,
}

impl CurveFiles<'_> {
    /// Writes the curves of a look, if it is time; whether it did.
    fn write_if_due(&mut self, look: &LiveCurves, last: bool) -> Result<bool> {
        self.since += 1;
        if self.since < self.each && !last {
            return Ok(false);
        }
        self.since = 0;
        let stem = self.pattern.file_stem().unwrap_or_default().to_string_lossy();
        let now = Timestamp::now().strftime("%Y%m%dT%H%M%S.%6fZ");
        let path = folder(self.pattern).join(format!("{stem}-{now}.{}", ending(self.pattern)));
        let mut errors = look.errors.clone();
        if let (Some(errors), Some(mask)) = (&mut errors, &look.mask) {
            errors.divide_by(mask);
        }
        let curves = Curves {
            sums: &look.sums,
            mask: look.mask.as_ref(),
            pairs: &self.pairs,
            errors: errors.as_ref(),
            blocks: None,
            dwell: self.dwell,
            trace: None,
            sensors: &[],
        };
        curves.write(&path).map(|()| true)
    }
}

impl Args {
    /// Serves counts of `sensors` sensors.
    pub fn serve_counts(self, sensors: usize) -> Result<()> {
        let CountArgs { dwell: Seconds(dwell), ref save, .. } = self.counts;
        let seconds = self.seconds.unwrap_or(1.0);
        let interval = (seconds / dwell).round() as u64;
        if interval == 0 {
            return Err(Error::invalid(format!(
                "--seconds {seconds}: expected at least {dwell}, an instant"
            )));
        }
        if let Some(output) = self.output.as_ref().filter(|it| !TABLES.contains(&&ending(it)[..])) {
            return Err(Error::file(output, "expected a name that ends in .csv or .npy"));
        }
        let counts = self.chunks_of_counts(sensors, interval)?;
        let builder = Autocorrelator::builder(sensors)
            .groups(self.counts.groups)
            .lags(self.counts.lags)
            .scheme(self.counts.scheme)
            .dwell(dwell)
            .masked(false)
            .device(self.place.device.clone())
            .kernel(Kernel::Auto);
        let most_lost = (MOST_LOST / dwell) as u64;
        let mut correlated = Correlated::new(builder, counts.clone(), interval, most_lost)?;
        if let Some(save) = save {
            corrust::format::PartialFile::create(save)?;
        }
        let listener = TcpListener::bind(self.http).map_err(|error| {
            Error::invalid(format!("--http {}: cannot listen there: {error}", self.http))
        })?;
        let http = Http { listener, names: self.http_host.clone() };
        let ((spent, empty), (sender, passed)) = (mpsc::channel(), mpsc::channel());
        for _ in 0..counts.window + waiting(counts.chunk_instants * counts.shape.bytes()) {
            let _ = spent.send(CountChunk::new(&counts)?);
        }
        let window = Window::of(counts, empty, sender);
        let (listening, receiver) = self.receive(window)?;
        let about = AboutCounts { sensors, dwell };
        let board = Arc::new(CurveBoard::new(about, receiver.watch()));
        let address = http.listener.local_addr().map_err(Error::io("a socket", "read"))?;
        start(http.listener, board.clone(), http.names)?;
        SERVING.store(true, Ordering::Relaxed);
        tell(format_args!(
            "listening to {listening}, {} of {} at {}, updates every {} on {}: http://{address}",
            count(sensors, "sensor"),
            numbers::seconds(dwell),
            count(correlated.plan().shape().points(), "lag"),
            numbers::seconds(interval as f64 * dwell),
            correlated.plan().device_name(),
        ));
        let mut files = self.output.as_deref().map(|pattern| CurveFiles {
            pattern,
            pairs: (0..sensors as u32).map(|sensor| [sensor; 2]).collect(),
            dwell,
            each: self.file_dumps.max(1),
            since: 0,
        });
        let mut faults = Faults::of("files of curves");
        let mut shown = |look: &LiveCurves, last: bool| {
            board.show(look);
            if let Some(files) = &mut files {
                let result = files.write_if_due(look, last);
                match &result {
                    Ok(false) => return Ok(()),
                    Ok(true) => board.files[0].fetch_add(1, Ordering::Relaxed),
                    Err(_) => board.files[1].fetch_add(1, Ordering::Relaxed),
                };
                faults.said(result.map(drop));
            }
            Ok(())
        };
        let tally = || board.tally();
        let drain = Drain::of(passed, self.drain);
        follow(&mut correlated, (receiver, drain), &spent, &mut shown, &tally)?;
        if let Some(save) = save {
            correlated.plan().state()?.save(save)?;
        }
        summary(&board, correlated.plan().instants());
        Ok(())
    }

    /// Chunks of counts, of which there are several between looks that are `interval` instants apart.
    fn chunks_of_counts(&self, sensors: usize, interval: u64) -> Result<Counts> {
        let CountArgs { wide, ref tcp, ref pipe, .. } = self.counts;
        let bytes = CHUNK_BYTES / sensors.saturating_mul(2).max(1);
        // Looks are late by as many chunks as are open.
        let most = usize::try_from(interval).unwrap_or(usize::MAX) / (2 * WINDOW);
        let counts = Counts {
            shape: CountShape { sensors, wide },
            chunk_instants: bytes.min(CHUNK_INSTANTS).min(most).max(1),
            window: if tcp.is_some() || pipe.is_some() { 1 } else { WINDOW },
        };
        counts.check()?;
        Ok(counts)
    }

    /// Opens the source of counts; returns its name and its receiver.
    fn receive(&self, window: Window<Counts>) -> Result<(String, Receiver)> {
        if let Some(tcp) = self.counts.tcp {
            let fault =
                |error| Error::invalid(format!("--tcp {tcp}: cannot listen there: {error}"));
            let listener = TcpListener::bind(tcp).map_err(fault)?;
            let address = listener.local_addr().map_err(fault)?;
            return Ok((
                address.to_string(),
                Receiver::plain(Plain::Connections(listener), window)?,
            ));
        }
        if let Some(path) = &self.counts.pipe {
            let pipe = File::open(path).map_err(Error::io(path, "read"))?;
            let receiver = Receiver::plain(Plain::Pipe(Box::new(pipe)), window)?;
            return Ok((path.display().to_string(), receiver));
        }
        let sockets = self.listening.open()?;
        let addresses = addresses(&sockets)?;
        Ok((addresses, self.listening.pin(Receiver::counts(sockets, window)?)?))
    }
}

/// Correlates counts until the stream ends or a signal comes.
fn follow(
    correlated: &mut Correlated,
    (receiver, mut drain): (Receiver, Drain<live::Passed<CountChunk>>),
    spent: &mpsc::Sender<CountChunk>,
    shown: &mut dyn FnMut(&LiveCurves, bool) -> Result<()>,
    tally: &dyn Fn() -> live::Tally,
) -> Result<()> {
    let mut receiver = Some(receiver);
    let mut strangers = Strangers::of("counts");
    loop {
        strangers.poll(tally);
        match drain.next() {
            Some(chunk) => {
                if let Some(chunk) = correlated.process(chunk, |look| shown(look, false))? {
                    let _ = spent.send(chunk);
                }
            }
            None if receiver.is_none() => break,
            None => {}
        }
        let ended = receiver.as_ref().is_some_and(Receiver::ended);
        let stopping = STOPPING.load(Ordering::Relaxed);
        if (ended || stopping)
            && let Some(receiver) = receiver.take()
        {
            receiver.stop();
            if stopping {
                drain.begin();
            }
        }
        if drain.is_over() {
            break;
        }
    }
    strangers.last(tally);
    correlated.end(|look| shown(look, true))
}

/// Prints the totals.
fn summary(board: &CurveBoard, instants: u64) {
    let tally = board.tally();
    let lost: Vec<_> = Fate::ALL[1..]
        .iter()
        .filter(|fate| tally.heaps(**fate) > 0)
        .map(|fate| format!(", {} {}", tally.heaps(*fate), fate.name()))
        .collect();
    let [written, dropped] = [0, 1].map(|index| board.files[index].load(Ordering::Relaxed));
    tell(format_args!(
        "{}, {} placed{}{}; {} correlated; {} of curves written, {dropped} dropped",
        count(tally.packets, "packet"),
        tally.heaps(Fate::Placed),
        lost.concat(),
        tally.faults_said(),
        count(instants, "instant"),
        count(written, "file"),
    ));
}
