//! Display of a live correlator.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use corrust::{
    correlate::{Shape, Visibilities, baseline},
    live::{Clock, Tally, Watch},
    run::Integration,
};
use num_complex::Complex;
use serde::{Deserialize, Serialize};

use super::metrics::{Family, Show, received};
use super::waterfall::{Rows, Waterfall};

/// Most points of a spectrum, spectra, and inputs of a matrix that are shown at a time.
const MOST_POINTS: usize = 1024;
const MOST_SPECTRA: usize = 32;
const MOST_INPUTS: usize = 64;

/// Counts of dumps.
#[derive(Debug, Default)]
pub struct Dumps {
    /// Dumps that were correlated.
    pub done: AtomicU64,
    /// Dumps in files that are complete.
    pub written: AtomicU64,
    /// Dumps that could not be written.
    pub dropped: AtomicU64,
    /// Dumps without any samples, between others.
    pub empty: AtomicU64,
}

/// Facts of a stream.
#[derive(Clone, Debug)]
pub struct About {
    /// Shape of the samples.
    pub shape: Shape,
    /// The number of the first channel.
    pub first_channel: u64,
    /// Numbers of the F-engines, or of threads.
    pub senders: Vec<u64>,
    /// Clock of the time samples.
    pub clock: Clock,
    /// Names of the inputs; without them inputs have numbers.
    pub names: Option<Vec<String>>,
    /// Frequency of each channel, hertz, where known.
    pub frequencies: Option<Vec<f64>>,
}

/// Displayed state: the last dump, powers of the last minutes, and counts.
pub struct Board {
    about: About,
    watch: Watch,
    /// Counts of dumps.
    pub dumps: Dumps,
    shown: Mutex<Display>,
}

/// The latest dump and the waterfall, which viewers get.
struct Display {
    latest: Option<Integration>,
    waterfall: Waterfall,
}

/// Inputs, channel and rows of a viewer's request.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub struct Look {
    /// The channel of the matrix.
    channel: usize,
    /// The first input of the spectra and the matrix.
    first: usize,
    /// The baseline whose channels are shown.
    a: usize,
    b: usize,
    /// The input of the waterfall, and the number of the first row that is asked for.
    input: usize,
    since: u64,
}

impl Default for Look {
    fn default() -> Self {
        Self { channel: usize::MAX, first: 0, a: 1, b: 0, input: 0, since: 0 }
    }
}

/// Data that the page draws.
#[derive(Debug, Serialize)]
pub struct Live {
    inputs: usize,
    channels: usize,
    first_channel: u64,
    /// Names of the inputs, where known.
    names: Option<Vec<String>>,
    /// Frequencies of the first and the last channel, hertz, of channels that are evenly spaced.
    frequencies: Option<[f64; 2]>,
    /// Names and labels of metrics, as `/metrics` has them, and their values.
    metrics: Vec<(String, String)>,
    dump: Option<Shown>,
}

#[derive(Debug, Serialize)]
struct Shown {
    start: String,
    seconds: f64,
    /// The input of the first spectrum, and of the matrix's first row.
    first: usize,
    /// Channels behind a point of a spectrum.
    grain: usize,
    /// Mean power of a sample `[input][point]`; nothing where none came.
    spectra: Vec<Vec<Option<f64>>>,
    channel: usize,
    /// Rows `[i][j]`, j <= i: mean amplitude and phase in turns.
    amplitude: Vec<Vec<Option<f64>>>,
    phase: Vec<Vec<Option<f64>>>,
    baseline: [usize; 2],
    /// Amplitude of the baseline, `[point]`.
    baseline_amplitude: Vec<Option<f64>>,
    baseline_phase: Vec<Option<f64>>,
    /// Part of each input's samples that is missing, 0 to 1.
    losses: Vec<f64>,
    /// The input of the waterfall, and mean powers of its samples.
    input: usize,
    waterfall: Rows,
}

impl Board {
    /// Empty display of a stream.
    pub fn new(about: About, watch: Watch) -> Self {
        let waterfall = Waterfall::new(about.shape.inputs, about.shape.channels);
        let shown = Mutex::new(Display { latest: None, waterfall });
        Self { about, watch, dumps: Dumps::default(), shown }
    }

    /// Counts of packets and heaps received so far.
    pub fn tally(&self) -> Tally {
        self.watch.tally()
    }

    /// Shows a dump from now on.
    pub fn show(&self, dump: &Integration) {
        let Display { latest, waterfall } = &mut *self.display();
        let seconds = dump.times as f64 * self.about.clock.interval();
        waterfall.add(dump.start / dump.times, seconds, |input, channels| {
            let (sum, valid) = self.sums(dump, (input, input), channels);
            (sum.re, valid)
        });
        match latest {
            Some(latest) => latest.clone_from(dump),
            none => *none = Some(dump.clone()),
        }
    }

    fn display(&self) -> MutexGuard<'_, Display> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> Vec<Family> {
        let tally = self.tally();
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let names = ["corrust_feng_heaps_total", "corrust_feng_lost_heaps_total"];
        let help = ["Heaps of an F-engine that were placed.", "Its heaps that came and were not."];
        let [mut placed, mut lost] = [0, 1].map(|i| Family::new(names[i], "counter", help[i]));
        for (feng, counts) in self.about.senders.iter().zip(&tally.fengs) {
            placed = placed.of("feng", feng, counts[0]);
            lost = lost.of("feng", feng, counts[1]);
        }
        let mut families = received(&tally);
        families.extend([
            placed,
            lost,
            Family::new("corrust_dumps_total", "counter", "Dumps, by their fate.")
                .of("fate", "done", count(&self.dumps.done))
                .of("fate", "written", count(&self.dumps.written))
                .of("fate", "dropped", count(&self.dumps.dropped))
                .of("fate", "empty", count(&self.dumps.empty)),
        ]);
        if let Some(dump) = &self.display().latest {
            let start = self.about.clock.moment(dump.start).as_duration().as_secs_f64();
            let gauge = |name, help| Family::new(name, "gauge", help);
            families.push(
                gauge("corrust_dump_start_seconds", "Start of the last dump, Unix time.")
                    .one(start),
            );
            let mut missing = gauge(
                "corrust_input_missing_ratio",
                "The part of an input's samples of the last dump that is missing.",
            );
            let mut power =
                gauge("corrust_input_power", "Mean power of an input's samples of the last dump.");
            for input in 0..self.about.shape.inputs {
                let (sum, valid) = self.sums(dump, (input, input), 0..self.about.shape.channels);
                let all = dump.times * self.about.shape.channels as u64;
                missing = missing.of("input", input, 1.0 - valid as f64 / all as f64);
                power = power.of("input", input, mean(sum, valid).map_or(0.0, |mean| mean.re));
            }
            families.extend([missing, power]);
        }
        families
    }

    /// Frequencies of the first and the last channel, if the others are spaced evenly between them.
    fn band(&self) -> Option<[f64; 2]> {
        let frequencies = self.about.frequencies.as_ref()?;
        let (&first, &last) = (frequencies.first()?, frequencies.last()?);
        let step = (last - first) / (frequencies.len() - 1).max(1) as f64;
        let even = frequencies.iter().enumerate().all(|(channel, frequency)| {
            (frequency - (first + channel as f64 * step)).abs() <= 0.01 * step.abs()
        });
        even.then_some([first, last])
    }

    fn shown(&self, dump: &Integration, waterfall: &Waterfall, look: &Look) -> Shown {
        let shape = self.about.shape;
        let (inputs, channels) = (shape.inputs, shape.channels);
        let first = look.first.min(inputs - 1);
        let channel = if look.channel < channels { look.channel } else { channels / 2 };
        let [a, b, input] = [look.a, look.b, look.input].map(|input| input.min(inputs - 1));
        let pair = (a.max(b), a.min(b));
        let grain = channels.div_ceil(MOST_POINTS);
        let points = |pair| -> Vec<Option<Complex<f64>>> {
            let starts = (0..channels).step_by(grain);
            let point = |start: usize| {
                let (sum, valid) = self.sums(dump, pair, start..channels.min(start + grain));
                mean(sum, valid)
            };
            starts.map(point).collect()
        };
        let spectrum = |input| points((input, input)).iter().map(|p| p.map(|p| p.re)).collect();
        let shown = first..inputs.min(first + MOST_INPUTS);
        let rows = |part: fn(Complex<f64>) -> f64| -> Vec<Vec<Option<f64>>> {
            let number = |i, j| {
                let (sum, valid) = self.sums(dump, (i, j), channel..channel + 1);
                mean(sum, valid).map(part)
            };
            shown.clone().map(|i| (shown.start..=i).map(|j| number(i, j)).collect()).collect()
        };
        let line = points(pair);
        let all = dump.times * channels as u64;
        let loss = |input| {
            let (_, valid) = self.sums(dump, (input, input), 0..channels);
            1.0 - valid as f64 / all as f64
        };
        Shown {
            start: self.about.clock.moment(dump.start).to_string(),
            seconds: dump.times as f64 * self.about.clock.interval(),
            first,
            grain,
            spectra: (first..inputs.min(first + MOST_SPECTRA)).map(spectrum).collect(),
            channel,
            amplitude: rows(|mean| mean.norm()),
            phase: rows(turns),
            baseline: [pair.0, pair.1],
            baseline_amplitude: line.iter().map(|point| point.map(|mean| mean.norm())).collect(),
            baseline_phase: line.iter().map(|point| point.map(turns)).collect(),
            losses: (0..inputs).map(loss).collect(),
            input,
            waterfall: waterfall.rows(input, look.since),
        }
    }

    /// The sum of a baseline over channels, and the samples behind it.
    fn sums(
        &self,
        dump: &Integration,
        (i, j): (usize, usize),
        channels: std::ops::Range<usize>,
    ) -> (Complex<f64>, u64) {
        let baseline = baseline(i, j);
        let sum = |channel: usize| match &dump.gates[0].visibilities {
            Visibilities::Integer(sums) => {
                let Complex { re, im } = sums[[channel, baseline]];
                Complex::new(re as f64, im as f64)
            }
            Visibilities::Float(sums) => {
                let Complex { re, im } = sums[[channel, baseline]];
                Complex::new(re.into(), im.into())
            }
        };
        let valid =
            channels.clone().map(|channel| dump.gates[0].valid.get(channel, baseline)).sum();
        (channels.map(sum).sum(), valid)
    }
}

impl Show for Board {
    type Look = Look;
    type Live = Live;

    const PAGE: [&str; 2] = [include_str!("page.html"), include_str!("page.js")];

    fn families(&self) -> Vec<Family> {
        self.known()
    }

    /// Data for the page, as a viewer asks for it.
    fn live(&self, look: &Look) -> Live {
        let shape = self.about.shape;
        let metrics = self.values();
        let Display { latest, waterfall } = &*self.display();
        Live {
            inputs: shape.inputs,
            channels: shape.channels,
            first_channel: self.about.first_channel,
            names: self.about.names.clone(),
            frequencies: self.band(),
            metrics,
            dump: latest.as_ref().map(|dump| self.shown(dump, waterfall, look)),
        }
    }
}

/// Mean over valid samples; none without samples.
fn mean(sum: Complex<f64>, valid: u64) -> Option<Complex<f64>> {
    (valid > 0).then(|| sum / valid as f64)
}

/// A phase in turns, -1/2 to 1/2.
fn turns(number: Complex<f64>) -> f64 {
    number.arg() / std::f64::consts::TAU
}
