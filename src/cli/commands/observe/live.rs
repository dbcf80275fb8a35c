//! Live streams as the input of an observation.

use std::{
    num::NonZeroU64,
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use corrust::{
    Error, Result,
    device::Gpu,
    live::{Fate, Geometry, StreamRecording, Watch},
};

use super::Expected;
use crate::cli::{
    commands::correlate::input::Input,
    options::{
        listening::{Heaps, Listening, Placed, addresses},
        units::seconds,
    },
    terminal::{
        numbers::{count, digits},
        say::say,
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
    /// Seconds to observe, rounded to a whole number of times; without this and times a signal ends it.
    #[arg(long, value_parser = seconds, conflicts_with = "times")]
    seconds: Option<f64>,
    /// Times to observe.
    #[arg(long)]
    times: Option<NonZeroU64>,
    /// Begins at a multiple of so many times since the sync time.
    #[arg(long, default_value = "1")]
    align: NonZeroU64,
    /// Ends when nothing has come for so many seconds; by default 10 after the first heap, where it has an end.
    #[arg(long, value_parser = seconds)]
    silence: Option<f64>,
    /// What was received, once it has begun.
    #[arg(skip)]
    watch: OnceLock<Watch>,
}

impl Live {
    /// Layout of the stream's chunks, which are as long as a second's dumps would have them.
    fn geometry(&self) -> Result<Geometry> {
        let interval = self.interval();
        if !(interval > 0.0 && interval.is_finite()) {
            return Err(Error::invalid(format!(
                "times {interval} s apart: expected a rate above 0 Hz"
            )));
        }
        self.listening.geometry((1.0 / interval) as u64)
    }

    /// Seconds from one time to the next.
    fn interval(&self) -> f64 {
        self.listening.stream.interval(self.listening.channels)
    }

    /// Facts of the stream.
    pub fn expected(&self) -> Result<Expected> {
        let (shape, interval) = (self.geometry()?.shape(), self.interval());
        let times = match (self.times, self.seconds) {
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
        };
        Ok(Expected { shape, interval, times })
    }

    /// Waits for the stream; [`None`] where it ended before anything came.
    pub fn begin(&self, gpu: Option<&Arc<dyn Gpu>>) -> Result<Option<Input>> {
        let geometry = self.geometry()?;
        let Expected { shape, times, .. } = self.expected()?;
        let (clock, expected) = self.listening.clock(&geometry);
        let sockets = self.listening.open()?;
        let listening = addresses(&sockets)?;
        SERVING.store(true, Ordering::Relaxed);
        let placed = Placed::Host(gpu);
        let Heaps { receiver, chunks } =
            self.listening.heaps(sockets, &geometry, expected, &placed)?;
        let _ = self.watch.set(receiver.watch());
        let length = times.map_or(String::new(), |times| format!(", {}", count(times, "time")));
        say(format_args!(
            "listening to {listening}, {} x {}, {} s apart{length}",
            count(shape.inputs, "input"),
            count(shape.channels, "channel"),
            digits(clock.interval()),
        ));
        let stop = || STOPPING.load(Ordering::Relaxed);
        let mut stream = StreamRecording::new(receiver, geometry, clock, chunks, stop);
        let silence = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        stream.silence(self.silence.and_then(silence));
        if !stream.begin(self.align) {
            return Ok(None);
        }
        let silent = self.silence.or(times.map(|_| SILENCE));
        stream.silence(silent.and_then(silence));
        stream.until(times.unwrap_or(u64::MAX));
        Ok(Some(Input::channels(Box::new(stream))))
    }

    /// The heaps that came, and what became of them, in words.
    pub fn said(&self) -> Option<String> {
        let tally = self.watch.get()?.tally();
        let others = Fate::ALL[1..].iter().filter(|fate| tally.heaps(**fate) > 0);
        let others = others.map(|fate| format!(", {} {}", tally.heaps(*fate), fate.name()));
        let jumps = match tally.jumps {
            0 => String::new(),
            jumps => format!(", the time jumped {}", count(jumps, "time")),
        };
        Some(format!(
            "{} in {}: {} placed{}{jumps}",
            count(tally.packets, "packet"),
            count(Fate::ALL.iter().map(|fate| tally.heaps(*fate)).sum::<u64>(), "heap"),
            tally.heaps(Fate::Placed),
            others.collect::<String>(),
        ))
    }
}
