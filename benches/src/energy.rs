//! Power and clocks of a GPU while it works, through NVIDIA's management library.

use std::{
    ffi::OsStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nvml_wrapper::{Nvml, enum_wrappers::device::Clock};

/// Interval between readings of power and clocks.
const PERIOD: Duration = Duration::from_millis(5);

/// Time in which a GPU comes to its power: not counted.
const RAMP: Duration = Duration::from_millis(250);

/// Reads a GPU's energy counter and clocks.
#[derive(Clone)]
pub struct Meter {
    nvml: Arc<Nvml>,
    uuid: String,
}

/// Readings of a meter during some work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Mean power in watts, if the counter moved often enough to tell.
    pub watts: Option<f64>,
    /// Mean clock of the multiprocessors in MHz.
    pub sm_mhz: Option<f64>,
    /// Mean clock of the memory in MHz.
    pub memory_mhz: Option<f64>,
}

/// Facts that do not change while a GPU works.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Version of the driver: `580.159.04`.
    pub driver: Option<String>,
    /// Power limit in watts.
    pub power_limit: Option<f64>,
    /// Highest clock of the multiprocessors in MHz.
    pub max_sm_mhz: Option<u32>,
    /// Highest clock of the memory in MHz.
    pub max_memory_mhz: Option<u32>,
}

/// A look at the GPU.
struct Sample {
    at: Instant,
    millijoules: Option<u64>,
    sm_mhz: Option<u32>,
    memory_mhz: Option<u32>,
}

impl Meter {
    /// A meter for the GPU of that identifier.
    ///
    /// # Errors
    /// A sentence saying why there is none.
    pub fn open(uuid: &str) -> Result<Self, String> {
        let library = OsStr::new("libnvidia-ml.so.1");
        let nvml = Nvml::builder().lib_path(library).init();
        let nvml = nvml.map_err(|error| format!("no power is measured: NVML: {error}"))?;
        if let Err(error) = nvml.device_by_uuid(uuid) {
            return Err(format!("no power is measured: NVML does not know {uuid}: {error}"));
        }
        Ok(Self { nvml: Arc::new(nvml), uuid: uuid.to_owned() })
    }

    /// Facts that do not change.
    pub fn setup(&self) -> Setup {
        let driver = self.nvml.sys_driver_version().ok();
        let Ok(device) = self.nvml.device_by_uuid(self.uuid.as_str()) else {
            return Setup { driver, ..Setup::default() };
        };
        Setup {
            driver,
            power_limit: device.enforced_power_limit().ok().map(|limit| f64::from(limit) * 1e-3),
            max_sm_mhz: device.max_clock_info(Clock::SM).ok(),
            max_memory_mhz: device.max_clock_info(Clock::Memory).ok(),
        }
    }

    /// Begins to watch.
    pub(crate) fn watch(&self) -> Watch {
        let (meter, stop) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let samples = thread::spawn(move || {
            let mut samples = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(device) = meter.nvml.device_by_uuid(meter.uuid.as_str()) {
                    samples.push(Sample {
                        millijoules: device.total_energy_consumption().ok(),
                        at: Instant::now(),
                        sm_mhz: device.clock_info(Clock::SM).ok(),
                        memory_mhz: device.clock_info(Clock::Memory).ok(),
                    });
                }
                thread::sleep(PERIOD);
            }
            samples
        });
        Watch { start: Instant::now(), stop, samples }
    }
}

/// A meter at work.
pub(crate) struct Watch {
    start: Instant,
    stop: Arc<AtomicBool>,
    samples: JoinHandle<Vec<Sample>>,
}

impl Watch {
    /// Ends it.
    pub(crate) fn read(self) -> Reading {
        self.stop.store(true, Ordering::Relaxed);
        let samples = self.samples.join().unwrap_or_default();
        let settled: Vec<&Sample> =
            samples.iter().filter(|sample| sample.at >= self.start + RAMP).collect();
        let energy: Vec<(f64, u64)> = settled
            .iter()
            .filter_map(|sample| {
                Some(((sample.at - self.start).as_secs_f64(), sample.millijoules?))
            })
            .collect();
        Reading {
            watts: power(&energy),
            sm_mhz: mean(settled.iter().filter_map(|sample| sample.sm_mhz)),
            memory_mhz: mean(settled.iter().filter_map(|sample| sample.memory_mhz)),
        }
    }
}

/// Mean power between the first and the last tick of an energy counter that ticks more seldom than it
/// is read: `(seconds, millijoules)`.
fn power(readings: &[(f64, u64)]) -> Option<f64> {
    let mut ticks = readings.windows(2).filter(|pair| pair[1].1 != pair[0].1).map(|pair| pair[1]);
    let first = ticks.next()?;
    let last = ticks.next_back()?;
    Some((last.1 - first.1) as f64 * 1e-3 / (last.0 - first.0))
}

fn mean(values: impl Iterator<Item = u32>) -> Option<f64> {
    let (count, sum) =
        values.fold((0u32, 0.0), |(count, sum), value| (count + 1, sum + f64::from(value)));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_taken_between_ticks() {
        // 500 W, a counter that moves every 20 ms and is read every 5.
        let readings: Vec<(f64, u64)> = (0..100u32)
            .map(|index| (f64::from(index) * 0.005, u64::from(index / 4) * 10_000))
            .collect();
        assert!((power(&readings).unwrap() - 500.0).abs() < 1e-6);
        assert_eq!(power(&readings[..4]), None);
        assert_eq!(power(&readings[..8]), None);
        assert_eq!(power(&[]), None);
    }

    #[test]
    fn a_machine_without_the_library_or_the_gpu_says_so() {
        let reason = Meter::open("GPU-none").err().expect("there is no such GPU");
        assert!(reason.starts_with("no power is measured"), "{reason}");
    }
}
