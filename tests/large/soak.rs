//! Random plans on a GPU against the CPU, on the CPU against the oracles, and on a simulated GPU whose streams run in
//! any order that was not forbidden, for as long as wished: `scripts/soak`.
//!
//! `CORRUST_SOAK_DEVICE` (default `sim`), `CORRUST_SOAK` seconds (default 10) and `CORRUST_SOAK_SEED` say where, how long and
//! which; a plan that differs is named with its seed, by which it comes again.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use corrust::{Correlator, Device, Devices};
use corrust_qualify::{
    checks::compare,
    plans::{Plan, PlanDevice, Scale},
};

use crate::support::{device, lazy_gpu};

/// Value of an environment variable.
fn setting<T: std::str::FromStr>(name: &str, by_default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text}: cannot be read")),
        Err(_) => by_default,
    }
}

/// Plans made, by the kernel that ran, and their samples.
#[derive(Default)]
struct Made {
    plans: BTreeMap<String, u64>,
    samples: f64,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans: u64 = self.plans.values().sum();
        write!(f, "{plans} plans, {:.3e} samples", self.samples)?;
        self.plans.iter().try_for_each(|(kernel, plans)| write!(f, "\n  {kernel}: {plans}"))
    }
}

/// Random plans from the seed that was asked for, until the time is over: each by `check`, which says by which kernel
/// it was made if it was compared.
fn soak(name: &str, scale: Scale, check: impl Fn(u64, &Plan) -> Result<Option<String>, String>) {
    let time = Duration::from_secs(setting("CORRUST_SOAK", 10));
    let first: u64 = setting("CORRUST_SOAK_SEED", 1);
    let (start, mut made) = (Instant::now(), Made::default());
    for seed in first.. {
        if start.elapsed() >= time {
            break;
        }
        let plan = Plan::any(seed, scale);
        match check(seed, &plan) {
            Ok(Some(kernel)) => {
                *made.plans.entry(kernel).or_default() += 1;
                made.samples += plan.samples() as f64;
            }
            Ok(None) => {}
            Err(what) => panic!("CORRUST_SOAK_SEED={seed}: {plan}: {name}: {what}"),
        }
    }
    assert!(!made.plans.is_empty(), "{name}: no plan was compared");
    println!("{name}: 0 mismatches in {:.0} s, {made}", start.elapsed().as_secs_f64());
}

#[test]
fn random_plans_give_what_the_cpu_gives() {
    let name: String = setting("CORRUST_SOAK_DEVICE", "sim".to_owned());
    let devices: Devices = name.parse().unwrap();
    let Some(_) = device::there(&name, Correlator::builder(1, 1).device(devices.clone()).build())
    else {
        return;
    };
    let scale = match name == "sim" {
        true => Scale::SMALL,
        false => Scale::LARGE,
    };
    let place = PlanDevice::Devices(devices);
    soak(&name, scale, |_, plan| compare(plan, &place).map(Some));
}

#[test]
fn streams_in_any_order_give_what_the_cpu_gives() {
    soak("a GPU in any order", Scale::SMALL, |seed, plan| {
        let gpu = Arc::new(lazy_gpu::LazyGpu::new(seed));
        compare(plan, &PlanDevice::Gpu(gpu)).map(Some)
    });
}

#[test]
fn random_plans_on_the_cpu_give_what_the_oracles_give() {
    soak("the oracles", Scale::SMALL, |_, plan| {
        if !plan.is_judged() {
            return Ok(None);
        }
        let done = plan
            .run(&PlanDevice::Devices(Device::Cpu.into()))
            .map_err(|error| error.to_string())?;
        match plan.judge(&done.outcome) {
            Some(Ok(())) => Ok(Some(done.kernel)),
            Some(Err(what)) => Err(format!("{}: {what}", done.kernel)),
            None => Ok(None),
        }
    });
}
