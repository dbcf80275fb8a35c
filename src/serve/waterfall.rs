//! Powers of inputs in the last minutes.

use std::{collections::VecDeque, ops::Range};

use serde::Serialize;

/// Rows that are kept, and the least seconds of a row: four minutes of short dumps, 240 long ones.
const ROWS: u64 = 240;
const LEAST_SECONDS: f64 = 1.0;

/// Most points of a row, and most bytes of all rows of all inputs, which leave each input fewer points where they are many.
const MOST_POINTS: usize = 256;
const MOST_BYTES: usize = 64 << 20;

/// Mean powers of all inputs, in rows of time.
///
/// Rows are numbered by their time, so that a row that never came leaves a gap.
pub struct Waterfall {
    inputs: usize,
    channels: usize,
    /// Channels of a point.
    grain: usize,
    /// Seconds of a row.
    seconds: f64,
    /// Numbers of rows, ascending, and their powers `[input][point]`, NaN where no sample came.
    rows: VecDeque<(u64, Vec<f32>)>,
    /// Sums of the last row and their samples, `[input][point]`.
    sums: Vec<(f64, u64)>,
}

/// Rows of one input.
#[derive(Debug, Serialize)]
pub struct Rows {
    /// Rows that are displayed, at most, and seconds of each.
    most: u64,
    seconds: f64,
    /// Number of the last row that came.
    last: u64,
    /// Channels of a point; the last point may have fewer.
    grain: usize,
    /// Numbers of rows, and mean powers of a sample `[point]`; nothing where none came.
    rows: Vec<(u64, Vec<Option<f32>>)>,
}

impl Waterfall {
    /// Empty waterfall of `inputs` inputs of `channels` channels.
    pub fn new(inputs: usize, channels: usize) -> Self {
        let most = MOST_BYTES / size_of::<f32>() / ROWS as usize / inputs;
        let grain = channels.div_ceil(most.clamp(1, MOST_POINTS));
        let points = inputs * channels.div_ceil(grain);
        let sums = vec![(0.0, 0); points];
        Self { inputs, channels, grain, seconds: 0.0, rows: VecDeque::new(), sums }
    }

    /// Adds a dump of `seconds`, the `number`th since the clock's start. `power` gives the sum of an input's powers over
    /// a range of channels, and the number of samples in it.
    pub fn add(
        &mut self,
        number: u64,
        seconds: f64,
        power: impl Fn(usize, Range<usize>) -> (f64, u64),
    ) {
        let dumps = (LEAST_SECONDS / seconds).round().max(1.0);
        self.seconds = dumps * seconds;
        let row = number / dumps as u64;
        match self.rows.back() {
            Some((last, _)) if *last == row => {}
            // Streams that begin again with earlier times have another waterfall.
            last => {
                if last.is_some_and(|(last, _)| *last > row) {
                    self.rows.clear();
                }
                self.rows.push_back((row, vec![f32::NAN; self.sums.len()]));
                self.sums.fill((0.0, 0));
            }
        }
        while self.rows.front().is_some_and(|(first, _)| first + ROWS <= row) {
            self.rows.pop_front();
        }
        let Some((_, means)) = self.rows.back_mut() else { return };
        let points = self.sums.len() / self.inputs;
        for (place, ((sum, samples), mean)) in self.sums.iter_mut().zip(means).enumerate() {
            let start = place % points * self.grain;
            let end = self.channels.min(start + self.grain);
            let (more, valid) = power(place / points, start..end);
            *sum += more;
            *samples += valid;
            if *samples > 0 {
                *mean = (*sum / *samples as f64) as f32;
            }
        }
    }

    /// Rows of `input` from number `since` on: the last one may still grow.
    pub fn rows(&self, input: usize, since: u64) -> Rows {
        let points = self.sums.len() / self.inputs;
        let row = |(number, powers): &(u64, Vec<f32>)| {
            let powers = powers[input * points..][..points].iter();
            (*number, powers.map(|power| (!power.is_nan()).then_some(*power)).collect())
        };
        Rows {
            most: ROWS,
            seconds: self.seconds,
            last: self.rows.back().map_or(0, |(number, _)| *number),
            grain: self.grain,
            rows: self.rows.iter().filter(|(number, _)| *number >= since).map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are means weighted by samples, gaps stay, old rows go, and an earlier time begins again.
    #[test]
    fn rows_are_numbered_by_their_time() {
        let mut waterfall = Waterfall::new(2, 300);
        // Dumps of a quarter of a second, the second one with three times as many samples.
        let add = |waterfall: &mut Waterfall, number: u64, power: f64, samples: u64| {
            waterfall.add(number, 0.25, |input, channels| {
                let samples = samples * channels.len() as u64;
                ((power + input as f64) * samples as f64, samples)
            });
        };
        add(&mut waterfall, 8, 2.0, 1);
        add(&mut waterfall, 9, 6.0, 3);
        add(&mut waterfall, 20, 1.0, 0);
        let rows = waterfall.rows(1, 0);
        assert_eq!((rows.grain, rows.seconds, rows.last), (2, 1.0, 5));
        assert_eq!(rows.rows, [(2, vec![Some(6.0); 150]), (5, vec![None; 150])]);
        assert_eq!(waterfall.rows(0, 3).rows, [(5, vec![None; 150])]);
        add(&mut waterfall, 4 * 242, 1.0, 1);
        let numbers = |waterfall: &Waterfall| -> Vec<u64> {
            waterfall.rows(0, 0).rows.iter().map(|(number, _)| *number).collect()
        };
        assert_eq!(numbers(&waterfall), [5, 242]);
        add(&mut waterfall, 0, 1.0, 1);
        assert_eq!(numbers(&waterfall), [0]);
    }

    /// Memory is bounded however many inputs there are.
    #[test]
    fn many_inputs_have_fewer_points() {
        let points = |inputs| Waterfall::new(inputs, 4096).sums.len() / inputs;
        assert_eq!([1, 16, 1024].map(points), [256, 256, 68]);
        assert!(1024 * points(1024) * ROWS as usize * size_of::<f32>() <= MOST_BYTES);
        assert!(points(1 << 17) == 1);
    }
}
