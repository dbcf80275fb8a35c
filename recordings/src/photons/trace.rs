//! Rate of photons against time.

use std::ops::Range;

use corrust_host::samples::CountShape;

use super::Arrived;

/// Counts of each sensor in bins of many instants.
///
/// ```
/// use corrust_recordings::photons::{CountShape, Trace};
///
/// // Two sensors, three instants of 1 ms, bins of 2 ms.
/// let mut trace = Trace::new(2, 1e-3, 2e-3);
/// trace.add(&CountShape { sensors: 2, wide: false }, &[1, 10, 2, 20, 3, 30]);
/// assert_eq!(trace.rates(0), [1500.0]); // whole bins alone
/// assert_eq!(trace.rates(1), [15_000.0]);
/// assert_eq!(trace.brighter_than(10_000.0), [0..2, 2..3]); // instants; the last bin is shorter
/// ```
#[derive(Clone, Debug, Default)]
pub struct Trace {
    sensors: usize,
    /// Instants of a bin.
    bin: usize,
    dwell: f64,
    /// `[bin][sensor]`, the last one in the making.
    counts: Vec<u64>,
    /// Instants in the last bin.
    begun: usize,
    /// Whether the last sensor is a mask.
    masked: bool,
}

impl Trace {
    /// An empty trace of instants of `dwell` seconds, in bins of about `bin` seconds.
    pub fn new(sensors: usize, dwell: f64, bin: f64) -> Self {
        let bin = ((bin / dwell).round() as usize).max(1);
        Self { sensors, bin, dwell, counts: vec![0; sensors], begun: 0, masked: false }
    }

    /// The same, whose last sensor is a mask if `masked`, 1 in instants that count and 0 in others: rates are those of the
    /// instants that count.
    #[must_use]
    pub fn masked(self, masked: bool) -> Self {
        Self { masked, ..self }
    }

    /// Seconds of a bin.
    pub fn seconds(&self) -> f64 {
        self.bin as f64 * self.dwell
    }

    /// Takes in counts `[instant][sensor]`, of as many sensors.
    pub fn add(&mut self, shape: &CountShape, counts: &[u8]) {
        let mut rest = counts;
        while !rest.is_empty() {
            if self.begun == self.bin {
                self.counts.resize(self.counts.len() + self.sensors, 0);
                self.begun = 0;
            }
            let instants = (self.bin - self.begun).min(rest.len() / shape.bytes());
            let (part, after) = rest.split_at(instants * shape.bytes());
            let place = self.counts.len() - self.sensors;
            let sums = &mut self.counts[place..];
            if shape.wide {
                let counts: &[[u8; 2]] = part.as_chunks().0;
                let number = |count: &[u8; 2]| u64::from(u16::from_le_bytes(*count));
                add(sums, counts, number);
            } else {
                add(sums, part, |&count| u64::from(count));
            }
            self.begun += instants;
            rest = after;
        }
    }

    /// Takes in photons of as many sensors.
    pub fn add_times(&mut self, arrived: &Arrived) {
        let first = (self.counts.len() / self.sensors - 1) * self.bin + self.begun;
        let end = first + arrived.instants as usize;
        // A bin is begun with its first instant.
        let bins = end.saturating_sub(1) / self.bin + 1;
        self.counts.resize(bins.max(1) * self.sensors, 0);
        for (sensor, times) in arrived.times.iter().enumerate().take(self.sensors) {
            for &at in times {
                self.counts[(first + at as usize) / self.bin * self.sensors + sensor] += 1;
            }
        }
        self.begun = end - (bins.max(1) - 1) * self.bin;
    }

    /// Instants of the bins in which some sensor has more than `rate` photons a second, a range for each. The last bin may be
    /// shorter than the others.
    pub fn brighter_than(&self, rate: f64) -> Vec<Range<u64>> {
        let end = (self.counts.len() / self.sensors - 1) * self.bin + self.begun;
        let bins = self.counts.chunks_exact(self.sensors).enumerate();
        let bins =
            bins.map(|(bin, counts)| (bin * self.bin..((bin + 1) * self.bin).min(end), counts));
        let bright = bins.filter(|(instants, counts)| {
            let most = rate * instants.len() as f64 * self.dwell;
            counts.iter().any(|&count| count as f64 > most)
        });
        bright.map(|(instants, _)| instants.start as u64..instants.end as u64).collect()
    }

    /// Whole bins.
    pub fn len(&self) -> usize {
        self.counts.len() / self.sensors - usize::from(self.begun < self.bin)
    }

    /// Whether there is no whole bin.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Photons a second of a sensor, in each whole bin; of a [masked](Self::masked) trace a second that counts, NaN where none
    /// does.
    ///
    /// # Panics
    /// When there is no such sensor.
    pub fn rates(&self, sensor: usize) -> Vec<f64> {
        assert!(sensor < self.sensors, "sensor {sensor} of {}", self.sensors);
        let counts = self.counts.chunks_exact(self.sensors).take(self.len());
        let rate = |counts: &[u64]| {
            let instants = if self.masked { counts[self.sensors - 1] } else { self.bin as u64 };
            // 0 of 0 is NaN.
            counts[sensor] as f64 / (instants as f64 * self.dwell)
        };
        counts.map(rate).collect()
    }
}

/// Adds counts `[instant][sensor]` to sums of each sensor.
fn add<T>(sums: &mut [u64], counts: &[T], number: impl Fn(&T) -> u64) {
    if let [sum] = sums {
        *sum += counts.iter().map(number).sum::<u64>();
        return;
    }
    for instant in counts.chunks_exact(sums.len()) {
        sums.iter_mut().zip(instant).for_each(|(sum, count)| *sum += number(count));
    }
}
