//! Recordings that complete an array file.

use corrust_host::Error;

use super::source::Head;
use crate::array::{
    TOLERANCE,
    file::{Array, ROUNDED},
};

impl Array {
    /// Takes over the source that a recording names, where the array has no phase centre.
    pub fn name_source(&mut self, recording: &Head) {
        if self.phase_center.is_none() {
            self.phase_center.clone_from(&recording.source);
            self.source.clone_from(&recording.source_name);
        }
    }

    /// Takes over facts of a recording's times and frequencies that the array lacks. Returns where the two contradict each
    /// other: there the array counts.
    pub fn complete(&mut self, recording: &Head) -> Vec<Error> {
        let mut faults = Vec::new();
        let Head { interval, start, ref frequencies, .. } = *recording;
        let channels = recording.shape.channels;
        if self.telescope.is_none() {
            self.telescope = recording.telescope.clone();
        }
        if let Some(interval) = interval {
            let seconds = *self.sample_time.get_or_insert(interval);
            if (seconds - interval).abs() > TOLERANCE * interval {
                faults.push(self.error(format_args!(
                    "\"sample_time\" {seconds} s, where the recording has {interval} s: the former counts"
                )));
            }
        }
        if let Some(start) = start {
            let begin = *self.start.get_or_insert(start);
            let seconds = begin.duration_since(start).as_secs_f64();
            // Headers round to a sample.
            if seconds.abs() > interval.unwrap_or(1e-6) {
                faults.push(self.error(format_args!(
                    "\"start\" {begin}, where the recording has {start}: the former counts"
                )));
            }
        }
        if let Some(said) = frequencies {
            let listed = self.channels.get_or_insert_with(|| said.clone());
            let width = listed.width(0).map_or(1.0, f64::abs);
            let said = Self { channels: Some(said.clone()), ..Self::default() };
            // Frequencies of another number of channels are refused where they are needed.
            if let (Ok(listed), Ok(said)) = (self.frequencies(channels), said.frequencies(channels))
                && let Some(channel) =
                    (0..channels).find(|&c| (listed[c] - said[c]).abs() > ROUNDED * width)
            {
                faults.push(self.error(format_args!(
                    "frequency {} Hz of channel {channel}, where the recording has {} Hz: the former \
                     counts",
                    listed[channel], said[channel]
                )));
            }
        }
        faults
    }
}
