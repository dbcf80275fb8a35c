//! Timing of subjects.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use corrust_host::{
    Error, Result,
    device::{Gpu, Stream},
};

use crate::{
    case::{BenchDevice, Case, Clock, Subject},
    energy::{Meter, Reading},
    limits::Limits,
    model::Model,
    record::{Row, Share, Sustained, Times},
};

/// Least time of a measurement between GPU events: shorter runs are timed together.
const LEAST: Duration = Duration::from_millis(1);

/// Most runs that are timed together.
const MOST_TOGETHER: usize = 50;

/// Time of the runs that are enqueued together while power is taken.
const BATCH: Duration = Duration::from_millis(20);

/// Settings of measurements.
pub struct Settings<'a> {
    /// Measurements that count.
    pub repeats: usize,
    /// Length of a run for a subject's sustained speed and power; zero for none.
    pub sustain: Duration,
    /// Meter of the power.
    pub meter: Option<&'a Meter>,
    /// Limits of the GPU.
    pub limits: &'a Limits,
}

/// A subject with the place it runs at.
struct Entrant<'a> {
    place: &'a BenchDevice,
    subject: Subject,
    /// Runs timed together.
    together: usize,
    seconds: Vec<f64>,
}

/// Measures all subjects of a case at all places alternately, and checks their answers.
///
/// # Errors
/// [`Error::Device`] when an answer is wrong; the device's own.
pub fn measure(
    case: &dyn Case,
    places: &[BenchDevice],
    settings: &Settings<'_>,
) -> Result<Vec<Row>> {
    if places.iter().any(|place| place.model.is_some()) {
        let other = places.iter().find(|place| place.build.is_some());
        let other = other.and_then(|place| place.model.as_deref());
        let predicted = places.iter().map(|place| match &place.model {
            Some(model) => predict(case, place, model, other),
            None => Ok(Vec::new()),
        });
        return Ok(predicted.collect::<Result<Vec<_>>>()?.concat());
    }
    let mut entrants = Vec::new();
    for place in places {
        for subject in case.subjects(place)? {
            entrants.push(Entrant { place, subject, together: 1, seconds: Vec::new() });
        }
    }
    for entrant in &mut entrants {
        // The first run loads the kernel and warms up, the second says how many to take together.
        entrant.time()?;
        if entrant.subject.clock == Clock::Device {
            let runs = LEAST.as_secs_f64() / entrant.time()?.max(1e-9);
            entrant.together = (runs.ceil() as usize).clamp(1, MOST_TOGETHER);
        }
    }
    for _ in 0..settings.repeats {
        for entrant in &mut entrants {
            let seconds = entrant.time()?;
            entrant.seconds.push(seconds);
        }
    }
    let mut rows = Vec::new();
    for mut entrant in entrants {
        let sustained = match &entrant.place.gpu {
            Some(gpu)
                if entrant.subject.sustain
                    && !settings.sustain.is_zero()
                    && !entrant.place.simulated() =>
            {
                Some(entrant.sustain(gpu, settings)?)
            }
            _ => None,
        };
        let Entrant { place, mut subject, seconds, .. } = entrant;
        if !subject.work.check()? {
            return Err(Error::Device(format!(
                "{} {}, {}, {}: the answer differs from the CPU's, its time means nothing",
                case.system(),
                subject.kernel,
                subject.what,
                case.label()
            )));
        }
        let mut row = Row::new(case, place, &subject, Times::of(seconds), sustained);
        row.limit = settings.limits.share(&subject.bounds, row.seconds.median);
        rows.push(row);
    }
    Ok(rows)
}

/// Predicts all subjects of a case that a GPU's events would measure. Left out are subjects that the chip does not run, and
/// those that launch no kernel that an `other` build replaces.
fn predict(
    case: &dyn Case,
    place: &BenchDevice,
    model: &Model,
    other: Option<&Model>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let subjects = case.subjects(place)?.into_iter();
    for mut subject in subjects.filter(|subject| subject.clock == Clock::Device) {
        // The first run of some stores what the others add to.
        let concerns = model.launches_of(other.unwrap_or(model), &mut || subject.work.run())?;
        if other.is_some() && !concerns {
            continue;
        }
        let made = match model.predict(&mut || subject.work.run()) {
            Ok(made) => made,
            Err(Error::Device(_)) => continue,
            Err(error) => return Err(error),
        };
        let times = Times::predicted(made.seconds, made.range);
        let sustained = subject.sustain.then(|| {
            let reading =
                Reading { sm_mhz: Some((made.hertz / 1e6).round()), ..Reading::default() };
            Sustained::new(&subject, made.sustained, &reading)
        });
        let mut row = Row::new(case, place, &subject, times, sustained);
        row.limit = made.binds.map(|(limit, share)| Share { limit, share });
        rows.push(row);
    }
    Ok(rows)
}

impl Entrant<'_> {
    /// Seconds of one run, as the mean of those timed together.
    fn time(&mut self) -> Result<f64> {
        let work = &mut self.subject.work;
        let time = match (&self.place.gpu, self.subject.clock) {
            (Some(gpu), Clock::Device) => gpu
                .time(Stream::default(), &mut || (0..self.together).try_for_each(|_| work.run()))?,
            _ => {
                let start = Instant::now();
                work.run()?;
                start.elapsed()
            }
        };
        Ok(time.as_secs_f64() / self.together as f64)
    }

    /// Runs for a while, with a look at power and clocks.
    fn sustain(&mut self, gpu: &Arc<dyn Gpu>, settings: &Settings<'_>) -> Result<Sustained> {
        let least = self.seconds.iter().copied().fold(f64::INFINITY, f64::min).max(1e-9);
        let batch = (BATCH.as_secs_f64() / least).ceil() as usize;
        let work = &mut self.subject.work;
        let watch = settings.meter.map(Meter::watch);
        let (start, mut runs, mut busy) = (Instant::now(), 0, 0.0);
        let mut result = Ok(());
        while result.is_ok() && start.elapsed() < settings.sustain {
            let batch_time =
                gpu.time(Stream::default(), &mut || (0..batch).try_for_each(|_| work.run()));
            result = batch_time.map(|time| busy += time.as_secs_f64());
            runs += batch;
        }
        let reading = watch.map(|watch| watch.read()).unwrap_or_default();
        result?;
        Ok(Sustained::new(&self.subject, busy / runs as f64, &reading))
    }
}
