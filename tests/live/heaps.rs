//! Heaps of a recording that come in part, and the dumps that they make.

use std::{fs, path::Path};

use corrust::{
    correlate::baselines,
    format::npy::{Dtype, Writer},
    live::{
        Geometry,
        spead::{Item, id},
    },
    run::Integration,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::service::numbers;

pub const GEOMETRY: Geometry = Geometry {
    fengs: 3,
    polarisations: 2,
    channels: 10,
    first_channel: 40,
    heap_times: 16,
    step: 20,
    chunk_heaps: 2,
    window: 4,
};

/// Ranges of channels that heaps are of, counted from the first.
pub const RANGES: [std::ops::Range<usize>; 3] = [0..4, 4..8, 8..10];

/// Options of `corrust serve` for [`GEOMETRY`].
pub const STREAM: &str = "--fengs 3 --channels 10 --first-channel 40 --heap-times 16 --step 20 --rate 1MHz \
                      --device cpu";

/// A recording `[time][channel][input][re, im]`, and what of it comes: `[slot][F-engine][channel]`.
pub struct Case {
    pub geometry: Geometry,
    pub slots: usize,
    pub samples: Vec<[i8; 2]>,
    pub present: Vec<bool>,
}

/// A heap: its slot, F-engine and range of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub slot: usize,
    pub feng: usize,
    pub range: usize,
}

impl Case {
    pub fn new(slots: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let count = slots * GEOMETRY.heap_times * GEOMETRY.channels * GEOMETRY.shape().inputs;
        let samples = (0..count).map(|_| [random.random(), random.random()]).collect();
        let cells = slots * GEOMETRY.fengs * GEOMETRY.channels;
        Self { geometry: GEOMETRY, slots, samples, present: vec![false; cells] }
    }

    pub fn sample(&self, time: usize, channel: usize, input: usize) -> [i8; 2] {
        let (channels, inputs) = (self.geometry.channels, self.geometry.shape().inputs);
        self.samples[(time * channels + channel) * inputs + input]
    }

    pub fn cell(&self, slot: usize, feng: usize, channel: usize) -> usize {
        (slot * self.geometry.fengs + feng) * self.geometry.channels + channel
    }

    /// All heaps, in order of time.
    pub fn heaps(&self) -> Vec<Id> {
        let mut heaps = Vec::new();
        for slot in 0..self.slots {
            for feng in 0..self.geometry.fengs {
                heaps.extend((0..RANGES.len()).map(|range| Id { slot, feng, range }));
            }
        }
        heaps
    }

    pub fn mark(&mut self, heap: Id) {
        for channel in RANGES[heap.range].clone() {
            let cell = self.cell(heap.slot, heap.feng, channel);
            self.present[cell] = true;
        }
    }

    pub fn payload(&self, heap: Id) -> Vec<u8> {
        let Geometry { heap_times, polarisations, .. } = self.geometry;
        let mut bytes = Vec::new();
        for channel in RANGES[heap.range].clone() {
            for time in heap.slot * heap_times..(heap.slot + 1) * heap_times {
                for polarisation in 0..polarisations {
                    let input = heap.feng * polarisations + polarisation;
                    bytes.extend(self.sample(time, channel, input).map(|part| part as u8));
                }
            }
        }
        bytes
    }

    /// Its items, with timestamps from `first` on.
    pub fn items(&self, heap: Id, first: u64) -> [Item; 4] {
        let Geometry { heap_times, step, first_channel, .. } = self.geometry;
        let time = first + (heap.slot * heap_times) as u64 * step;
        [
            Item::immediate(id::TIMESTAMP, time),
            Item::immediate(id::FENG, heap.feng as u64),
            Item::immediate(id::CHANNEL, first_channel + RANGES[heap.range].start as u64),
            Item::absolute(id::SAMPLES, 0),
        ]
    }

    /// A dump of `times` times from slot time `start` on, by plain loops: sums and counts
    /// `[channel][baseline]`. Times before and after the recording are missing.
    pub fn dump(&self, start: i64, times: i64) -> (Vec<[i64; 2]>, Vec<u64>) {
        self.dump_of(start, times, |_| true)
    }

    /// The same of the times that a gate has.
    pub fn dump_of(
        &self,
        start: i64,
        times: i64,
        is_in: impl Fn(usize) -> bool,
    ) -> (Vec<[i64; 2]>, Vec<u64>) {
        let Geometry { channels, heap_times, polarisations, .. } = self.geometry;
        let inputs = self.geometry.shape().inputs;
        let (mut sums, mut counts) = (Vec::new(), Vec::new());
        for channel in 0..channels {
            for i in 0..inputs {
                for j in 0..=i {
                    let (mut sum, mut count) = ([0, 0], 0);
                    for time in start.max(0)..(start + times).min((self.slots * heap_times) as i64)
                    {
                        let time = time as usize;
                        let there = |input: usize| {
                            let feng = input / polarisations;
                            self.present[self.cell(time / heap_times, feng, channel)]
                        };
                        if !there(i) || !there(j) || !is_in(time) {
                            continue;
                        }
                        let [a, b] = self.sample(time, channel, i).map(i64::from);
                        let [c, d] = self.sample(time, channel, j).map(i64::from);
                        sum = [sum[0] + a * c + b * d, sum[1] + b * c - a * d];
                        count += 1;
                    }
                    sums.push(sum);
                    counts.push(count);
                }
            }
        }
        (sums, counts)
    }

    /// Checks dumps of `integration` times, of which only dumps with samples are expected; `first` is the
    /// recording's first time.
    pub fn check(&self, dumps: &[Integration], integration: u64, first: u64) {
        let end = first + (self.slots * self.geometry.heap_times) as u64;
        let numbers = first / integration..end / integration;
        let starts: Vec<u64> = dumps.iter().map(|dump| dump.start).collect();
        let expected: Vec<u64> = numbers
            .map(|number| number * integration)
            .filter(|&start| {
                let (_, counts) = self.dump(start as i64 - first as i64, integration as i64);
                counts.iter().any(|&count| count > 0)
            })
            .collect();
        assert_eq!(starts, expected);
        for dump in dumps {
            let (sums, counts) = self.dump(dump.start as i64 - first as i64, integration as i64);
            let found = dump.gates[0].visibilities.integer().unwrap();
            let found: Vec<_> = found.iter().map(|sum| [sum.re, sum.im]).collect();
            assert_eq!(found, sums, "dump from {}", dump.start);
            let width = baselines(self.geometry.shape().inputs);
            let valid: Vec<_> =
                (0..sums.len()).map(|k| dump.gates[0].valid.get(k / width, k % width)).collect();
            assert_eq!(valid, counts, "dump from {}", dump.start);
        }
    }

    /// Writes the recording.
    pub fn write(&self, path: &Path) {
        let entry = [self.geometry.channels, self.geometry.shape().inputs, 2];
        let mut file = Writer::appending(path, Dtype::Int8, &entry).unwrap();
        let bytes: Vec<u8> = self.samples.iter().flatten().map(|&part| part as u8).collect();
        file.append(&bytes).unwrap();
        file.finish().unwrap();
    }

    /// Checks files of a dump each, of all that the recording fills; their dumps are `first` and on.
    pub fn check_files(&self, folder: &Path, integration: u64, first: u64) {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let names: Vec<_> = names
            .iter()
            .filter(|name| {
                let name = name.to_str().unwrap();
                name.ends_with("Z.npy")
            })
            .collect();
        let times = (self.slots * self.geometry.heap_times) as u64;
        assert_eq!(names.len() as u64, times / integration, "{names:?}");
        for (number, name) in names.iter().enumerate() {
            let (sums, counts) = self.dump(number as i64 * integration as i64, integration as i64);
            let found: Vec<i64> = numbers(name);
            assert_eq!(found, sums.concat(), "{name:?}");
            let found: Vec<u64> = numbers(&name.with_extension("valid.npy"));
            assert_eq!(found, counts, "{name:?}");
            let facts = fs::read_to_string(name.with_extension("json")).unwrap();
            let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
            assert_eq!(facts["first_time"], first + number as u64 * integration);
        }
    }
}
