//! Live streams as the input of an observation.

use std::{
    mem,
    num::NonZeroU64,
    path::Path,
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use corrust::{
    Error, Result, channelise,
    correlate::Shape,
    device::Gpu,
    format::{
        Recording, Timestamp,
        array::Array,
        planes::{Planes, Words},
    },
    live::{Clock, Fate, Frames, Geometry, Readable, Socket, StreamRecording, Watch},
};

use toml::{Spanned, Value};

use super::table::{Keys, Text};
use crate::cli::{
    input::{
        Input,
        product_input::{Expected, SOON, Ticks},
    },
    options::{
        engine::{self, Engine, Known, Sky},
        listening::{Incoming, Listening, Placed, addresses},
        stream::{Made, Vdif, in_chunks},
        units::seconds,
    },
    terminal::{
        numbers::{count, digits},
        say::tell,
        signals::{SERVING, STOPPING},
    },
};

/// Silence in seconds after which a stream of a known length is over.
const SILENCE: f64 = 10.0;

/// A live stream, and how long it is observed.
#[derive(clap::Args)]
#[group(skip)]
pub struct Live {
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    vdif: Vdif,
    /// Seconds to observe, rounded to a whole number of times; without this and times a signal ends it.
    #[arg(long, value_parser = seconds, conflicts_with = "times")]
    seconds: Option<f64>,
    /// Times to observe.
    #[arg(long)]
    times: Option<NonZeroU64>,
    /// Begins at a multiple of this number of times since the sync time.
    #[arg(long, default_value = "1")]
    align: NonZeroU64,
    /// Ends when nothing has come for this many seconds; by default 10 after the last heap, where it has an end.
    #[arg(long, value_parser = seconds)]
    silence: Option<f64>,
    /// Counts of what was received, once it has begun.
    #[arg(skip)]
    watch: OnceLock<Watch>,
    /// Timestamps and channel numbers, once it has begun.
    #[arg(skip)]
    ticks: OnceLock<Ticks>,
}

/// F-engine of frames: number of channels, options, and the array with such channels.
pub type FEngine<'a> = (usize, &'a Engine, Option<&'a Array>);

/// Frames of a stream, and the F-engine that makes channels of them.
struct Channelised {
    frames: Frames,
    builder: channelise::Builder,
    sky: Sky,
    shape: channelise::Shape,
}

/// Keys of frames.
const OF_FRAMES: [&str; 3] = ["thread-channels", "encoding", "frame-bytes"];

impl Live {
    /// Reads the keys of a plan; frames feed the plan's F-engine.
    pub fn read(
        text: Text<'_>,
        mut table: Spanned<Keys>,
        engine: Option<&(usize, Engine)>,
    ) -> Result<Self> {
        let place = |key: &str| table.get_ref().get(key).map(|value| value.span().start);
        let vdif = place("vdif");
        if let Some(at) = place("channelise") {
            return Err(text.error(at, "channelise: expected it beside live, not in it"));
        }
        let alone = OF_FRAMES.into_iter().find(|key| vdif.is_none() && place(key).is_some());
        if let Some(key) = alone {
            let at = place(key).unwrap_or_default();
            return Err(text.error(at, format!("{key}: of frames, expected vdif, too")));
        }
        if let (Some(_), Some((channels, _))) = (vdif, engine) {
            let channels = Value::Integer(i64::try_from(*channels).unwrap_or(i64::MAX));
            let channels = Spanned::new(table.span(), channels);
            table.get_mut().insert("channelise".to_owned(), channels);
        }
        text.options(&table, [], [])
    }

    /// Polarisations of an F-engine's heaps; 1 of frames.
    pub fn polarisations(&self) -> usize {
        match self.vdif.is_given() {
            true => 1,
            false => self.listening.stream.polarisations,
        }
    }

    /// Layout of the stream's chunks, which are as long as a second's dumps would have them.
    fn geometry(&self) -> Result<Geometry> {
        let interval = self.listening.stream.interval(self.listening.channels);
        if !(interval > 0.0 && interval.is_finite()) {
            return Err(Error::invalid(format!(
                "times {interval} s apart: expected a rate above 0 Hz"
            )));
        }
        self.listening.geometry((1.0 / interval) as u64)
    }

    /// Frames, and their F-engine, of a stream whose first sample was taken at `start`, if it has begun.
    fn channelised(
        &self,
        (channels, options, array): FEngine<'_>,
        start: Option<Timestamp>,
    ) -> Result<Channelised> {
        let (rate, sync) = (self.listening.stream.rate(), self.listening.frames_sync()?);
        let Some((_, frames)) = self.frames()? else {
            return Err(Error::invalid(
                "channelise: of raw voltages, expected vdif in live, as vdif = \"0-7\"",
            ));
        };
        let raw = engine::Raw {
            shape: frames.shape(),
            times: u64::MAX,
            interval: Some(1.0 / rate),
            start: start.or(Some(sync)),
            band: None,
            path: Path::new("live"),
        };
        // The start in an array file belongs to another recording.
        let known = Known { start: None, ..Known::of(array, channels)? };
        let (builder, sky) = options.builder(channels, &raw, None, &known)?;
        let shape = builder.shape()?;
        Ok(Channelised { frames, builder, sky, shape })
    }

    /// Frames, and the samples that are made of them; [`None`] of heaps.
    fn frames(&self) -> Result<Option<(Made, Frames)>> {
        let rate = self.listening.stream.rate();
        let mut found = self.vdif.frames(rate, self.listening.frames_sync()?)?;
        if let Some((_, frames)) = &mut found {
            in_chunks(frames, rate as u64, 0, 1);
        }
        Ok(found)
    }

    /// Frames whose channels are taken as they are, and the words of bits that are made of them.
    fn words(&self) -> Result<Option<(Frames, Words)>> {
        let Some((Made::Bits(encoding), frames)) = self.frames()? else { return Ok(None) };
        let words = Words::new(frames.shape(), frames.channels(), encoding);
        Ok(Some((frames, words.map_err(Error::invalid)?)))
    }

    /// Samples to observe, which are `interval` seconds apart; [`None`] until a signal ends it.
    fn samples(&self, interval: f64) -> Result<Option<u64>> {
        Ok(match (self.times, self.seconds) {
            (Some(times), _) => Some(times.get()),
            (None, None) => None,
            (None, Some(seconds)) => match (seconds / interval).round() as u64 {
                0 => {
                    let what = format!(
                        "seconds {seconds}: expected at least {interval}, from one time to the next"
                    );
                    return Err(Error::invalid(what));
                }
                times => Some(times),
            },
        })
    }

    /// Facts of the stream, or of the spectra of its frames.
    pub fn expected(&self, engine: Option<FEngine<'_>>) -> Result<Expected> {
        let Some(engine) = engine else {
            if let Some((_, words)) = self.words()? {
                let interval = 1.0 / self.listening.stream.rate();
                let times = self.samples(interval)?;
                return Ok(Expected { shape: words.shape(), interval, times });
            }
            let interval = self.listening.stream.interval(self.listening.channels);
            let (shape, times) = (self.geometry()?.shape(), self.samples(interval)?);
            return Ok(Expected { shape, interval, times });
        };
        let Channelised { shape, .. } = self.channelised(engine, None)?;
        let sample = 1.0 / self.listening.stream.rate();
        let spectra = |samples| match shape.spectra(samples) {
            0 => Err(Error::invalid(format!(
                "{} of each input: expected at least the {} of a spectrum",
                count(samples, "sample"),
                shape.window()
            ))),
            spectra => Ok(spectra),
        };
        let times = self.samples(sample)?.map(spectra).transpose()?;
        let interval = sample * shape.hop as f64;
        Ok(Expected { shape: engine::correlated(&shape)?, interval, times })
    }

    /// Waits for the stream; [`None`] where it ended before anything came.
    pub fn begin(
        &self,
        gpu: Option<&Arc<dyn Gpu>>,
        engine: Option<FEngine<'_>>,
    ) -> Result<Option<Input>> {
        let Some(engine) = engine else {
            let Some((frames, words)) = self.words()? else { return self.begin_heaps(gpu) };
            let Shape { inputs, channels, encoding, .. } = words.shape();
            let (inputs, channels) = (count(inputs, "input"), count(channels, "channel"));
            let stream =
                self.begin_frames(frames, format!("{inputs} x {channels} of {encoding}"))?;
            let input = |stream| Input::channels(Box::new(Planes::over(Box::new(stream), words)));
            return Ok(stream.map(input));
        };
        let Channelised { frames, .. } = self.channelised(engine, None)?;
        let rate = self.listening.stream.rate();
        let what = format!("{} of raw voltages", count(frames.shape().inputs, "input"));
        let Some(stream) = self.begin_frames(frames, what)? else { return Ok(None) };
        let Channelised { builder, sky, shape, .. } = self.channelised(engine, stream.start())?;
        let step = shape.hop as u64;
        let _ = self.ticks.set(Ticks { first: stream.first(), step, first_channel: 0 });
        // Soon after they came.
        let soon = ((SOON * rate) as usize).max(2 * shape.window()).next_multiple_of(64);
        Input::raw(Box::new(stream), (builder, engine.1.level()), sky, Some(soon)).map(Some)
    }

    /// Waits for frames.
    fn begin_frames(
        &self,
        frames: Frames,
        what: String,
    ) -> Result<Option<StreamRecording<Frames>>> {
        let rate = self.listening.stream.rate();
        let clock = Clock { sync: self.listening.frames_sync()?, rate, step: 1 };
        let (sockets, listening) = self.open()?;
        let incoming = self.listening.frames(sockets, frames.clone())?;
        self.stream((frames, clock), incoming, &[listening, what])
    }

    fn begin_heaps(&self, gpu: Option<&Arc<dyn Gpu>>) -> Result<Option<Input>> {
        let geometry = self.geometry()?;
        let Shape { inputs, channels, .. } = geometry.shape();
        let first_channel = geometry.first_channel;
        let (clock, expected) = self.listening.clock(&geometry);
        let (sockets, listening) = self.open()?;
        let incoming = self.listening.heaps(sockets, &geometry, expected, &Placed::Host(gpu))?;
        let what = format!("{} x {}", count(inputs, "input"), count(channels, "channel"));
        let stream = self.stream((geometry, clock), incoming, &[listening, what])?;
        let ticks = |stream: &StreamRecording| Ticks {
            first: stream.first().wrapping_mul(clock.step),
            step: clock.step,
            first_channel,
        };
        let _ = stream.as_ref().map(|stream| self.ticks.set(ticks(stream)));
        Ok(stream.map(|stream| Input::channels(Box::new(stream))))
    }

    /// Opens the sockets; and their addresses, in words.
    fn open(&self) -> Result<(Vec<Socket>, String)> {
        let sockets = self.listening.open()?;
        let listening = addresses(&sockets)?;
        Ok((sockets, listening))
    }

    /// Says where it listens to what, and waits until the stream begins; [`None`] where it ended before.
    fn stream<S: Readable>(
        &self,
        (stream, clock): (S, Clock),
        Incoming { receiver, chunks }: Incoming<S::Chunk>,
        [listening, what]: &[String; 2],
    ) -> Result<Option<StreamRecording<S>>> {
        let _ = self.watch.set(receiver.watch());
        let times = self.samples(clock.interval())?;
        let length = times.map_or(String::new(), |times| format!(", {}", count(times, "time")));
        let interval = digits(clock.interval());
        SERVING.store(true, Ordering::Relaxed);
        tell(format_args!("listening to {listening}, {what}, {interval} s apart{length}"));
        let mut said = false;
        let stop = move || {
            let stopping = STOPPING.load(Ordering::Relaxed);
            if stopping && !mem::replace(&mut said, true) {
                tell("stopping: the products end with what came; a second signal ends it at once");
            }
            stopping
        };
        let mut stream = StreamRecording::new(receiver, stream, clock, chunks, stop);
        let silence = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        stream.silence(self.silence.and_then(silence));
        if self.silence.is_none() && times.is_some() {
            stream.rest(silence(SILENCE));
        }
        stream.until(times.unwrap_or(u64::MAX));
        Ok(stream.begin(self.align).then_some(stream))
    }

    /// Heaps or frames that came when there was no room for them.
    pub fn overrun(&self) -> u64 {
        self.watch.get().map_or(0, |watch| watch.tally().heaps(Fate::Overrun))
    }

    /// Timestamps and channel numbers, once it has begun.
    pub fn ticks(&self) -> Option<Ticks> {
        self.ticks.get().copied()
    }

    /// The heaps or frames that came, and what became of them, in words.
    pub fn said(&self) -> Option<String> {
        let unit = if self.vdif.is_given() { "frame" } else { "heap" };
        let tally = self.watch.get()?.tally();
        let others = Fate::ALL[1..].iter().filter(|fate| tally.heaps(**fate) > 0);
        let others = others.map(|fate| format!(", {} {}", tally.heaps(*fate), fate.name()));
        let jumps = match tally.jumps {
            0 => String::new(),
            jumps => format!(", the time jumped {}", count(jumps, "time")),
        };
        Some(format!(
            "{} in {}: {} placed{}{}{jumps}",
            count(tally.packets, "packet"),
            count(Fate::ALL.iter().map(|fate| tally.heaps(*fate)).sum::<u64>(), unit),
            tally.heaps(Fate::Placed),
            others.collect::<String>(),
            tally.faults_said(),
        ))
    }
}
