//! Verdicts on what a device computes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use corrust_host::{Devices, Error, Result};

use crate::{
    plans::{Done, Plan, PlanDevice, Scale, System},
    requirements::{Finding, Verdict},
};

/// Number of plans that each kernel runs.
pub const PLANS: u64 = 24;
/// Number of random shapes from which a kernel picks supported ones.
const SHAPES: u64 = 384;
/// Runs of a plan whose bits must be the same.
const REPEATS: usize = 5;

/// A device that is judged.
#[derive(Clone, Debug)]
pub struct Subject {
    devices: Devices,
    /// Sizes of plans that are compared with the CPU.
    scale: Scale,
}

impl Subject {
    /// A device, on which plans are large unless it is simulated or the CPU.
    pub fn new(devices: Devices, is_gpu: bool) -> Self {
        Self { devices, scale: if is_gpu { Scale::LARGE } else { Scale::SMALL } }
    }

    fn place(&self) -> PlanDevice {
        PlanDevice::Devices(self.devices.clone())
    }
}

/// A difference between a device's answer and the right one: the plan, and the difference.
fn difference(plan: &Plan, seed: u64, done: &str, what: &str) -> Finding {
    Finding::new(Verdict::Failed, format!("{plan}, of seed {seed}, by {done}: {what}"))
}

/// Judges every kernel of a system by [`PLANS`] plans each: plans that the plain loops can compute are compared with
/// them, all others with the CPU.
///
/// # Errors
/// None but faults of the device.
pub fn kernels(
    subject: &Subject,
    system: System,
    mut seen: impl FnMut(&str) -> Result<()>,
) -> Result<Finding> {
    let (mut rows, mut others) = (Vec::new(), Vec::new());
    for kernel in system.kernels() {
        seen(&format!("{system}, {kernel}"))?;
        let (mut plans, mut samples, mut refused) = (0_u64, 0, String::new());
        for seed in 0..SHAPES {
            // Every other plan is a large one.
            let large = seed % 2 == 1;
            let scale = if large { subject.scale } else { Scale::SMALL };
            let plan = Plan::of(system, kernel, seed, scale);
            let done = match plan.run(&subject.place()) {
                Ok(Done { refused: Some(reason), .. }) => {
                    refused = reason;
                    continue;
                }
                Ok(done) => done,
                Err(error @ Error::OutOfMemory { .. }) => {
                    refused = error.to_string();
                    continue;
                }
                Err(error) => match plan.run(&PlanDevice::Cpu) {
                    // No device takes such samples.
                    Err(expected) if expected.to_string() == error.to_string() => continue,
                    _ => return Ok(difference(&plan, seed, kernel, &error.to_string())),
                },
            };
            let small = !large || plan.samples() <= Scale::SMALL.samples;
            let judged = if small { plan.judge(&done.outcome) } else { None };
            let judged = match judged {
                Some(judged) => judged,
                // Floats of another device differ within their bound: the same device gives the same again.
                None if System::BOUNDED.contains(&system) => {
                    let again = plan.run(&subject.place())?;
                    match again.outcome == done.outcome {
                        true => Ok(()),
                        false => Err("a second run gave other bits".to_owned()),
                    }
                }
                None => match plan.run(&PlanDevice::Cpu)?.outcome == done.outcome {
                    true => Ok(()),
                    false => Err("not the bits of the CPU".to_owned()),
                },
            };
            if let Err(what) = judged {
                return Ok(difference(&plan, seed, kernel, &what));
            }
            plans += 1;
            samples += plan.samples();
            if plans == PLANS {
                break;
            }
        }
        match plans {
            0 => others.push((kernel, refused)),
            _ => rows.push(vec![kernel.to_owned(), plans.to_string(), samples.to_string()]),
        }
    }
    if rows.is_empty() {
        let (kernel, reason) = others.first().cloned().unwrap_or(("", String::new()));
        let text = format!("no kernel ran: {kernel}: {reason}");
        return Ok(Finding::new(Verdict::NotDecided, text));
    }
    let plans: u64 = rows.iter().filter_map(|row| row[1].parse::<u64>().ok()).sum();
    let mut text = format!("kernels {}, plans {plans}, differences 0", rows.len());
    if !others.is_empty() {
        let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
        text += &format!("; not for this device: {}", names.join(", "));
    }
    Ok(Finding::new(Verdict::Passed, text).with(&["kernel", "plans", "samples"], rows))
}

/// Runs random plans of all systems for some time, each on the device and on the CPU.
///
/// # Errors
/// Errors of `seen`, which is told how far it is and may end it.
pub fn random_plans(
    subject: &Subject,
    first: u64,
    time: Duration,
    mut seen: impl FnMut(&str) -> Result<()>,
) -> Result<Finding> {
    let start = Instant::now();
    let mut plans: BTreeMap<String, u64> = BTreeMap::new();
    let mut samples = 0.0;
    for seed in first.. {
        if start.elapsed() >= time {
            break;
        }
        seen(&format!("plan {}", seed - first + 1))?;
        let plan = Plan::any(seed, subject.scale);
        match compare(&plan, &subject.place()) {
            Ok(kernel) => *plans.entry(kernel).or_default() += 1,
            Err(what) => return Ok(difference(&plan, seed, "the device", &what)),
        }
        samples += plan.samples() as f64;
    }
    let count: u64 = plans.values().sum();
    let verdict = if count == 0 { Verdict::NotDecided } else { Verdict::Passed };
    let text = format!(
        "plans {count}, of {samples:.3e} samples, in {:.0} s, from seed {first} on, differences 0",
        start.elapsed().as_secs_f64()
    );
    let rows = plans.into_iter().map(|(kernel, plans)| vec![kernel, plans.to_string()]).collect();
    Ok(Finding::new(verdict, text).with(&["kernel", "plans"], rows))
}

/// Compares a plan's outcome at a place with the CPU's, errors too; returns the kernel that ran.
///
/// # Errors
/// The difference.
pub fn compare(plan: &Plan, place: &PlanDevice) -> Result<String, String> {
    match (plan.run(&PlanDevice::Cpu), plan.run(place)) {
        (Ok(expected), Ok(found)) if expected.outcome == found.outcome => Ok(found.kernel),
        (Ok(_), Ok(found)) => Err(format!("{}: not the bits of the CPU", found.kernel)),
        (Err(expected), Err(found)) if expected.to_string() == found.to_string() => {
            Ok("refused".to_owned())
        }
        (expected, found) => {
            let said = |result: Result<Done>| match result {
                Ok(done) => format!("a result of {}", done.kernel),
                Err(error) => error.to_string(),
            };
            Err(format!("the CPU gives {}, the device {}", said(expected), said(found)))
        }
    }
}

/// Runs a plan of each system several times.
///
/// # Errors
/// Faults of the device.
pub fn repeats(subject: &Subject, mut seen: impl FnMut(&str) -> Result<()>) -> Result<Finding> {
    let mut rows = Vec::new();
    for system in System::EXACT.into_iter().chain(System::BOUNDED) {
        seen(&system.to_string())?;
        let plan = Plan::of(system, "auto", 5, subject.scale);
        let first = plan.run(&subject.place())?;
        for _ in 1..REPEATS {
            let again = plan.run(&subject.place())?;
            if again.outcome != first.outcome {
                return Ok(difference(&plan, 5, &first.kernel, "another run gave other bits"));
            }
        }
        rows.push(vec![system.to_string(), first.kernel, plan.samples().to_string()]);
    }
    let text = format!("{} systems, {REPEATS} runs each, the same bits", rows.len());
    Ok(Finding::new(Verdict::Passed, text).with(&["system", "kernel", "samples"], rows))
}
