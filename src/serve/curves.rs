//! Display of live correlation curves.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use corrust::live::{LiveCurves, Tally, Watch};
use serde::{Deserialize, Serialize};

use super::metrics::{Family, Show, received};

/// Most curves that are drawn at a time, beside the mean.
const MOST_CURVES: usize = 8;

/// Facts of a stream of counts.
#[derive(Clone, Copy, Debug)]
pub struct AboutCounts {
    /// Number of sensors.
    pub sensors: usize,
    /// Seconds of an instant.
    pub dwell: f64,
}

/// Displayed state: the last update, and counts.
pub struct CurveBoard {
    about: AboutCounts,
    watch: Watch,
    /// Files that are complete, and files that could not be written.
    pub files: [AtomicU64; 2],
    latest: Mutex<LiveCurves>,
}

/// Sensor of a viewer's request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Look {
    /// The first sensor whose curve is drawn.
    first: usize,
}

/// Data that the page draws.
#[derive(Debug, Serialize)]
pub struct Live {
    sensors: usize,
    metrics: Vec<(String, String)>,
    look: Option<Shown>,
}

#[derive(Debug, Serialize)]
struct Shown {
    /// Seconds of the stream so far.
    seconds: f64,
    /// Part of its instants that are lost, 0 to 1.
    lost: f64,
    /// The sensor of the first curve.
    first: usize,
    lags: Vec<f64>,
    mean: Drawn,
    curves: Vec<Drawn>,
    /// Counts a second of each sensor, since the look before.
    rates: Vec<f64>,
}

/// A curve at all lags; nothing where none is known.
#[derive(Debug, Serialize)]
struct Drawn {
    g: Vec<Option<f64>>,
    errors: Vec<Option<f64>>,
}

impl CurveBoard {
    /// Empty display of a stream.
    pub fn new(about: AboutCounts, watch: Watch) -> Self {
        Self { about, watch, files: Default::default(), latest: Mutex::default() }
    }

    /// Counts of packets and instants received so far.
    pub fn tally(&self) -> Tally {
        self.watch.tally()
    }

    /// Shows an update from now on.
    pub fn show(&self, look: &LiveCurves) {
        self.latest().clone_from(look);
    }

    fn latest(&self) -> MutexGuard<'_, LiveCurves> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a second of each sensor.
    fn rates<'a>(&self, look: &'a LiveCurves) -> impl Iterator<Item = f64> + use<'a> {
        let seconds = look.came.max(1) as f64 * self.about.dwell;
        look.counts.iter().map(move |&count| count as f64 / seconds)
    }

    fn shown(&self, look: &LiveCurves, first: usize) -> Shown {
        let points = 0..look.sums.points.len();
        let of = |row: Option<usize>| Drawn {
            g: points
                .clone()
                .map(|point| row.map_or_else(|| look.mean_g(point), |row| look.g(row, point)))
                .collect(),
            errors: points.clone().map(|point| look.error(row, point)).collect(),
        };
        let first = first.min(self.about.sensors - 1);
        let rows = first..self.about.sensors.min(first + MOST_CURVES);
        Shown {
            seconds: look.sums.instants as f64 * self.about.dwell,
            lost: look.lost as f64 / look.sums.instants as f64,
            first,
            lags: look
                .sums
                .points
                .iter()
                .map(|point| point.lag as f64 * self.about.dwell)
                .collect(),
            mean: of(None),
            curves: rows.map(|row| of(Some(row))).collect(),
            rates: self.rates(look).collect(),
        }
    }
}

impl Show for CurveBoard {
    type Look = Look;
    type Live = Live;

    const PAGE: [&str; 2] = [include_str!("curves.html"), include_str!("curves.js")];

    fn families(&self) -> Vec<Family> {
        let counter = |name, help| Family::new(name, "counter", help);
        let mut families = received(&self.tally());
        let [written, dropped] = [0, 1].map(|index| self.files[index].load(Ordering::Relaxed));
        let look = &*self.latest();
        let mut rates = Family::new(
            "corrust_sensor_counts_per_second",
            "gauge",
            "Counts a second of a sensor.",
        );
        for (sensor, rate) in self.rates(look).enumerate() {
            rates = rates.of("sensor", sensor, rate);
        }
        families.extend([
            counter("corrust_instants_total", "Instants of the stream, lost ones among them.")
                .one(look.sums.instants),
            counter("corrust_lost_instants_total", "Instants of the stream that never came.")
                .one(look.lost),
            counter("corrust_streams_total", "Streams that have begun anew.").one(look.restarts),
            counter("corrust_curve_files_total", "Files of curves, by their fate.")
                .of("fate", "written", written)
                .of("fate", "dropped", dropped),
            rates,
        ]);
        families
    }

    fn live(&self, look: &Look) -> Live {
        let metrics = self.values();
        let latest = self.latest();
        let shown = (latest.sums.instants > 0).then(|| self.shown(&latest, look.first));
        Live { sensors: self.about.sensors, metrics, look: shown }
    }
}
